"""What zkit says that a reader could try: commands, options and numbers, taken out of its texts."""

import functools
import re

COMMANDS = ("inspect", "audit", "digest", "compare", "recompress", "slice", "cache", "partials")
SUBCOMMANDS = {"cache": ("list", "verify", "prune"), "partials": ("list", "clean")}
# what hints name of other programs: curl, rsync
FOREIGN = {"fail", "copy-links"}
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")
# `zkit slice a b --to c`, up to what ends it: a quote, a full stop, a bracket, another command
LINE = re.compile(
    r"zkit (" + "|".join(COMMANDS) + r")\b([^`|;\n)]*?)(?=`|\. |\.$|;|\)|\n|$| names | compares | shows )", re.MULTILINE
)
# what stands for something that the reader knows: STORE, DST, NAME..., {name}, and an ellipsis
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}(\.\.\.)?\b|\b[A-Z]\b|\.\.\.")


class Help:
    """The options of each command, as its help lists them."""

    def __init__(self, zkit):
        self.zkit = zkit

    @functools.cache  # noqa: B019  (one for a session)
    def text(self, command):
        return self.zkit(*command.split(), "--help").stdout.decode()

    @functools.cache  # noqa: B019
    def options(self, command):
        """The options of a command, and of its subcommands."""
        found = set()
        for name in (command, *(f"{command} {sub}" for sub in SUBCOMMANDS.get(command, ()))):
            lines = re.findall(r"^\s{0,12}(?:-\w, )?(--[a-z][a-z0-9-]*)", self.text(name), re.MULTILINE)
            found |= {line.removeprefix("--") for line in lines}
        return found

    def everywhere(self):
        return set().union(*(self.options(command) for command in COMMANDS))

    def unknown(self, text, command=None):
        """The options that a text names and that are none: of the command that it names before them, else of `command`."""
        found, rest = [], text
        for line in LINE.finditer(text):
            found += [
                f"{name} of zkit {line[1]}" for name in OPTION.findall(line[2]) if name not in self.options(line[1])
            ]
            rest = rest.replace(line[0], " ")
        known = self.options(command) if command else self.everywhere()
        wrong = [name for name in OPTION.findall(rest) if name not in known | FOREIGN]
        return found + [f"{name} of zkit {command or 'any command'}" for name in wrong]

    def takes_value(self, command, option):
        names = (command, *(f"{command} {sub}" for sub in SUBCOMMANDS.get(command, ())))
        return any(
            re.search(rf"^\s{{0,12}}(?:-\w, )?{option}[ =\[]*<", self.text(name), re.MULTILINE) for name in names
        )


def commands_in(text):
    """The whole commands in a text: those with arguments, and without a placeholder."""
    return [line[0].strip() for line in LINE.finditer(text) if line[2].strip() and not PLACEHOLDER.search(line[0])]


def hints(err):
    """The hints on stderr."""
    return re.findall(r"^hint: (.*)$", err, re.MULTILINE)


def passed(hint):
    """The arguments of each `pass --option value` of a hint, where the value is a value and no description."""
    found = []
    for words in re.findall(r"\bpass (--[a-z-]+(?: [a-z0-9:.=_/-]+)?)", hint):
        option, _, value = words.partition(" ")
        described = value in (
            "",
            "to",
            "if",
            "in",
            "which",
            "for",
            "with",
            "and",
            "or",
            "instead",
            "where",
            "the",
            "it",
        )
        found.append([option] if described else [option, value.rstrip(".,")])
    return found


def string_literals(source):
    """The string literals of a Rust file, without its tests and its comments; lines that are continued are joined."""
    source = source.split("#[cfg(test)]")[0]
    source = re.sub(r"^\s*//.*$", "", source, flags=re.MULTILINE)
    return [re.sub(r"\\\n\s*", "", text) for text in re.findall(r'"((?:[^"\\]|\\.|\\\n)*)"', source)]
