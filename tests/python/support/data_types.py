"""One spelling for a data type, whoever names it: NumPy, a v2 dtype string, a v3 name or zkit's display text."""

import re

_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
_ALIASES = {
    "bool": "bool",
    "string": "string",
    "str": "string",
    "bytes": "bytes",
    "variable_length_bytes": "bytes",
    "object": "object",
    "O": "object",
}


def canonical(text):
    """Returns the common spelling: `int16`, `datetime64[ns]`, `U7`, `S6`, `V3`, `string`, `bytes`, `struct`."""
    text = str(text).strip()
    if text.startswith(("StringDType", "String")):
        return "string"
    if text.startswith(("[", "{", "struct", "(")):
        return "struct"
    if match := re.fullmatch(r"(?:numpy\.|np\.)?(datetime64|timedelta64)(?:\[(.*)\])?", text):
        return f"{match[1]}[{match[2] or 'generic'}]"
    if match := re.fullmatch(r"[<>|=]?([Mm])8(?:\[(.*)\])?", text):
        return f"{'datetime64' if match[1] == 'M' else 'timedelta64'}[{match[2] or 'generic'}]"
    if match := re.fullmatch(r"[<>|=]?([biufc])(\d+)", text):
        return "bool" if match[1] == "b" else f"{_KINDS[match[1]]}{int(match[2]) * 8}"
    if match := re.fullmatch(r"[<>|=]?([SUV])(\d+)", text):
        return match[1] + match[2]
    if match := re.fullmatch(r"r(\d+)", text):
        return f"V{int(match[1]) // 8}"
    for prefix, kind, divisor in (
        ("fixed_length_utf32", "U", 4),
        ("null_terminated_bytes", "S", 1),
        ("raw_bytes", "V", 1),
    ):
        if text.startswith(prefix):
            digits = re.search(r"\d+(?=\D*$)", text[len(prefix) :])
            return f"{kind}{int(digits[0]) // divisor}" if digits else kind
    return _ALIASES.get(text.lstrip("<>|="), text)


def same(one, other):
    """Whether two texts name the same type; a text without a length fits any length."""
    a, b = canonical(one), canonical(other)
    return a == b or (a[:1] in "SUV" and a[:1] == b[:1] and 1 in (len(a), len(b))) or {a, b} <= {"string", "object"}
