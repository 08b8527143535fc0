"""The table "command x place x what is wrong": every cell is generated here, with what must then be.

A cell is a command, a place, the layout of a store there, one object of it (the target) and a fault of that object. What is
expected follows from these by the rules in `expectation`, never from what zkit says.

python silence.py > docs/faults.md       (renders the table; a test holds the two equal)
"""

import functools
from dataclasses import dataclass

import silence_server as server
import silence_stores as stores

DIRECTORY, ZIP, REFERENCES, S3, GCS, AZURE, HTTP = (
    "directory",
    "zip",
    "references",
    "S3",
    "GCS",
    "Azure",
    "HTTP",
)
PLACES = (DIRECTORY, ZIP, REFERENCES, S3, GCS, AZURE, HTTP)
BUCKETS = (S3, GCS, AZURE)
FILES = (DIRECTORY, ZIP, REFERENCES)

# A web server has no listing: there a store is consolidated, or one array.
LAYOUTS = {
    DIRECTORY: ("v2", "v2 consolidated", "v3", "v3 consolidated"),
    ZIP: ("v2", "v3"),
    REFERENCES: ("v2", "v3"),
    S3: ("v2", "v2 consolidated", "v3", "v3 consolidated"),
    GCS: ("v2", "v3"),
    AZURE: ("v2", "v3"),
    HTTP: ("v2 consolidated", "v3 consolidated", "v2 array", "v3 array"),
}

# ---- what is faulty ---------------------------------------------------------------------------------------------

DOCUMENT, CHUNK, FOLDER, LISTING, STORE = "document", "chunk", "folder", "listing", "store"


@dataclass(frozen=True)
class Target:
    """An object of a store, and the node that it belongs to."""

    key: str
    kind: str
    node: str


DOCUMENTS = {
    "v2": (
        (".zgroup", "/"),
        (".zattrs", "/"),
        ("inner/.zgroup", "/inner"),
        ("inner/.zattrs", "/inner"),
        ("t2m/.zarray", "/t2m"),
        ("t2m/.zattrs", "/t2m"),
        ("valid_time/.zarray", "/valid_time"),
        ("valid_time/.zattrs", "/valid_time"),
    ),
    "v2 consolidated": ((".zmetadata", "/"), (".zattrs", "/"), ("t2m/.zarray", "/t2m"), ("t2m/.zattrs", "/t2m")),
    "v3": (
        ("zarr.json", "/"),
        ("inner/zarr.json", "/inner"),
        ("t2m/zarr.json", "/t2m"),
        ("valid_time/zarr.json", "/valid_time"),
    ),
    "v3 consolidated": (("zarr.json", "/"), ("t2m/zarr.json", "/t2m")),
    "v2 array": ((".zarray", "/"), (".zattrs", "/")),
    "v3 array": (("zarr.json", "/"),),
}
FOLDERS = {
    "v2": (("", "/"), ("inner", "/inner"), ("t2m", "/t2m")),
    "v3": (("", "/"), ("inner", "/inner"), ("t2m", "/t2m"), ("t2m/c", "/t2m")),
    "v2 consolidated": (("inner", "/inner"),),
    "v3 consolidated": (("inner", "/inner"),),
}


# On servers each document takes the same way, so one of each kind is faulty there.
SERVED = {".zmetadata", ".zgroup", ".zarray", ".zattrs", "zarr.json", "inner/.zattrs", "inner/zarr.json"}
SERVED |= {"t2m/.zarray", "t2m/.zattrs", "t2m/zarr.json"}


def targets(layout, place):
    """What may be faulty in a store of this layout."""
    for key, node in DOCUMENTS[layout]:
        if place in FILES or key in SERVED:
            yield Target(key, DOCUMENT, node)
    chunk = "1.0" if layout.startswith("v2") else "c/1/0"
    yield Target(chunk, CHUNK, "/") if is_array(layout) else Target(f"t2m/{chunk}", CHUNK, "/t2m")
    for key, node in FOLDERS.get(layout, ()):
        yield Target(key, FOLDER, node)
    if not is_array(layout):
        yield Target("", LISTING, "/")
        yield Target("", STORE, "/")


def is_array(layout):
    return layout.endswith(" array")


def is_consolidated(layout):
    return layout.endswith(" consolidated")


# ---- what is wrong ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """One way in which an object is wrong. `content` makes the wrong bytes of the right ones."""

    name: str
    family: str
    kinds: tuple
    places: tuple
    content: object = None
    nodes: object = None


LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a2146" * 8 + b"\nsize 12345\n"


def _trailing_comma(body):
    head, _, tail = body.rpartition(b"}")
    return head + b",}" + tail


def _as(encoding, mark=b""):
    return lambda body: mark + body.decode().encode(encoding)


def _contents():
    json_faults = {
        "trailing comma": _trailing_comma,
        "not an object: []": lambda body: b"[]",
        "not an object: null": lambda body: b"null",
        'not an object: "x"': lambda body: b'"x"',
    }
    yield from _of_contents("malformed", (DOCUMENT,), json_faults)
    encodings = {
        "UTF-16": _as("utf-16"),
        "Latin-1": _as("latin-1"),
        "UTF-8 behind a byte order mark": _as("utf-8", b"\xef\xbb\xbf"),
    }
    yield from _of_contents("other encoding", (DOCUMENT,), encodings)
    damage = {
        "cut in half": lambda body: body[: len(body) // 2],
        "empty": lambda body: b"",
        "zeros": lambda body: bytes(len(body)),
        "flipped bit in what is stored": server.flipped,
        "git-lfs pointer": lambda body: LFS_POINTER,
    }
    yield from _of_contents("damaged", (DOCUMENT, CHUNK), damage)


def _of_contents(family, kinds, faults):
    """Wrong bytes are wrong in each place: in a bucket one fault of a family shows that they get there."""
    for number, (name, content) in enumerate(faults.items()):
        yield Fault(name, family, kinds, FILES if number else (*FILES, S3), content)


def _of_files():
    both = (DOCUMENT, CHUNK)
    yield Fault("permission denied", "not readable", both, (DIRECTORY,))
    names = (
        "directory",
        "FIFO",
        "socket",
        "link out of the store",
        "dangling link",
        "link loop",
        "sparse file of 64 GB",
    )
    for name in names:
        yield Fault(name, "not a file of this store", both, (DIRECTORY,))
    folders = ("not listable", "not searchable", "permission denied", "link out of the store", "dangling link")
    for name in folders:
        yield Fault(f"folder: {name}", "folder", (FOLDER,), (DIRECTORY,))
    for name in ("wrong CRC", "encrypted", "unknown compression", "claims 64 GB", "beyond the end", "link"):
        yield Fault(f"member: {name}", "zip member", both, (ZIP,))
    targets = ("absent", "permission denied", "outside the folder", "beyond the end", "FIFO", "link loop")
    for name in targets:
        yield Fault(f"target: {name}", "reference", both, (REFERENCES,))
    for name in ("null", "a number", "broken base64"):
        yield Fault(f"reference: {name}", "reference", both, (REFERENCES,))


def _of_servers():
    for family, names in server.OBJECT_FAULTS.items():
        for name in names:
            yield Fault(name, family, (DOCUMENT, CHUNK), BUCKETS if "listed" in name else (*BUCKETS, HTTP))
    for name in server.LISTING_FAULTS:
        yield Fault(name, "listing", (LISTING,), BUCKETS)


def _structures():
    everywhere = (DIRECTORY, ZIP, REFERENCES, S3, GCS, AZURE, HTTP)
    for levels in (1, 2, 5):
        name = f"{levels} folder{'s' if levels > 1 else ''} without a document above an array"
        yield Fault(name, "structure", (STORE,), everywhere, nodes=functools.partial(stores.implicit_nodes, levels))
    name = f"groups nested {stores.LEVELS} deep"
    yield Fault(name, "structure", (STORE,), everywhere, nodes=stores.deep_nodes)


FAULTS = (*_contents(), *_of_files(), *_of_servers(), *_structures())
IMPLICIT = "without a document"

# ---- commands ---------------------------------------------------------------------------------------------------

READERS = ("inspect", "audit", "digest", "compare, fault left", "compare, fault right")
COPIES = {
    "recompress": ("--codec", "none"),
    "recompress to the other format": ("--zarr-format", "OTHER", "--codec", "none"),
    "recompress to other chunks": ("--chunks", "valid_time=4", "--codec", "none"),
    "recompress the faulty array alone": ("--include", "t2m", "--codec", "none"),
    "recompress another array": ("--include", "mask", "--codec", "none"),
    "recompress --skip-broken": ("--skip-broken", "--codec", "none"),
}
SLICES = ("slice", "slice --concat, fault first", "slice --concat, fault last", "slice --merge-with", "slice --cache")
WRITERS = (*COPIES, *(command for command in SLICES if "cache" not in command))
COMMANDS = (*READERS, *COPIES, *SLICES, "cache verify")

# Each fault of each target is tried with these; with the others, the first fault of each family.
WEB_MAIN = {"inspect", "audit", "digest", "recompress", "slice"}
FILE_MAIN = {*WEB_MAIN, "compare, fault left", "recompress --skip-broken"}
FILE_MAIN |= {"slice --concat, fault last", "slice --cache", "cache verify"}
MAIN = {place: FILE_MAIN if place in FILES else WEB_MAIN if place in (S3, HTTP) else set() for place in PLACES}
# Places whose bytes take the same way through zkit as those of a folder or of S3 get these.
ELSEWHERE = {"inspect", "audit", "digest", "compare, fault left", "recompress", "recompress --skip-broken", "slice"}
OF_GROUPS = {
    "recompress the faulty array alone",
    "recompress another array",
    "slice --concat, fault first",
    "slice --concat, fault last",
    "slice --merge-with",
}


def commands(place):
    """The commands that are tried at a place."""
    if place in (DIRECTORY, S3):
        return [command for command in COMMANDS if command != "cache verify" or place == DIRECTORY]
    return [command for command in COMMANDS if command in ELSEWHERE or (command == "slice --cache" and place == HTTP)]


# ---- what must be -----------------------------------------------------------------------------------------------

TOLD, EITHER, WHOLE, FREE = "told", "whole or told", "whole", "any answer"
# These leave the information there, one way or another.
HARMLESS = {
    "no Content-Length",
    "other entity tag than listed",
    "UTF-8 behind a byte order mark",
}
# The last answer says that nothing is there.
GONE = {"404 though it is listed", "410 gone", "absent", "302 to where nothing is"}
ABSENT = {"absent", "302 to where nothing is"}


def state(place, layout, target, fault):
    """What a fault does to what can be known of a store: TOLD if something of it is hidden."""
    if fault.family in ("structure", "none"):
        return WHOLE
    if fault.name in HARMLESS:
        return EITHER
    if target.kind == CHUNK:
        # a chunk may be absent; and a server may say so of one that a listing named
        return EITHER if fault.name in GONE else TOLD
    if place in BUCKETS and fault.name in GONE - {"410 gone"} and target.key == ".zmetadata":
        return FREE  # a 404 says that the store is not consolidated: its nodes are read one by one
    if is_consolidated(layout):
        shadowed = target.kind == DOCUMENT and not holds_consolidated(layout, target)
        by_name = target.kind == LISTING or fault.name == "folder: not listable"
        return EITHER if shadowed or by_name else TOLD
    if fault.name == "folder: not listable" and target.key in ("t2m", "t2m/c"):
        return EITHER  # its chunks are found by name
    if place == HTTP and fault.name in ABSENT and target.key == ".zattrs":
        return FREE  # nothing says that there should be any
    if place in BUCKETS and fault.name in GONE - {"410 gone"} and target.key == "t2m/.zattrs":
        return FREE  # a 404 says that it is absent, and no command lists the folder of an array to find it named
    return TOLD


def holds_consolidated(layout, target):
    return target.key == (".zmetadata" if layout.startswith("v2") else "zarr.json")


def expectation(cell):
    """What a command must do about it."""
    found = state(cell.place, cell.layout, cell.target, cell.fault)
    if cell.command == "cache verify":
        # the manifest names each object and holds its digest: nothing is harmless, but what leaves all bytes as they are
        return EITHER if cell.fault.name == "folder: not listable" else TOLD
    if cell.command == "inspect" and cell.target.kind == CHUNK:
        return FREE  # it decodes nothing
    left_out = cell.command == "recompress --skip-broken" and not is_consolidated(cell.layout)
    if left_out and cell.target.kind == DOCUMENT and cell.fault.name == "no Content-Length":
        return TOLD  # what cannot be read is left out, and named
    unseen = ("target: outside the folder", "target: absent")
    if cell.command == "audit" and cell.target.kind == CHUNK and cell.fault.name in unseen:
        return EITHER  # what may not be read, or did not travel with its references, is not looked at, and `not_seen` says so
    if cell.command == "audit" and cell.place == DIRECTORY and cell.target.kind == DOCUMENT and found == EITHER:
        # it compares consolidated metadata with what is there
        return TOLD if is_consolidated(cell.layout) and cell.fault.name not in HARMLESS else EITHER
    if cell.command in ("digest", "compare, fault left", "compare, fault right") and cell.target.key == ".zmetadata":
        return EITHER if cell.place != HTTP else TOLD  # all documents are there one by one
    return found


# ---- the table --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    command: str
    place: str
    layout: str
    target: Target
    fault: Fault

    def __str__(self):
        what = self.target.key or {LISTING: "listing", STORE: "store", FOLDER: "root"}[self.target.kind]
        return f"{self.command} | {self.place} | {self.layout} | {what} | {self.fault.name}"


def applies(place, layout, target, fault):
    if place not in fault.places or target.kind not in fault.kinds:
        return False
    if fault.content and target.kind == DOCUMENT:
        body = files_of(layout)[target.key]
        if fault.content(body) == body:
            return False  # as Latin-1 of ASCII is
    if fault.name == "absent" and target.kind == DOCUMENT and place in BUCKETS:
        return False  # a listing shows that there is none
    # the folder of the store itself must be there
    return not (target.key == "" and target.kind == FOLDER and "link" in fault.name)


def files_of(layout, known=None):
    """The files of the store of a layout."""
    if is_array(layout):
        return stores.written(known or stores.array_node(), layout.split()[0])
    return stores.written(known or stores.nodes(), layout)


def nodes_of(cell):
    """What the store of a cell holds, but for its fault."""
    if cell.fault.nodes:
        return cell.fault.nodes()
    return stores.array_node() if is_array(cell.layout) else stores.nodes()


def cells(command, place):
    """All cells of a command and a place, in order."""
    for layout in LAYOUTS[place]:
        if not _takes(command, layout):
            continue
        for target in targets(layout, place):
            tried = set()
            for fault in FAULTS:
                if not applies(place, layout, target, fault) or (
                    command == "cache verify" and (fault.family == "structure" or target.key == "")
                ):
                    continue
                # one of a family is enough where the command is no main one, or the document is in another one, too
                once = command not in MAIN[place] or (place not in FILES and _is_repeated(target, layout))
                if not (once and fault.family in tried):
                    tried.add(fault.family)
                    yield Cell(command, place, layout, target, fault)


def _takes(command, layout):
    if command == "cache verify":
        return not is_consolidated(layout)
    return not (is_array(layout) and command in OF_GROUPS)


def sound(command, place, layout):
    """The cell without a fault: what shows that the table measures faults, and nothing else."""
    return Cell(command, place, layout, Target("", STORE, "/"), Fault("nothing", "none", (STORE,), (place,)))


def sound_cells(place):
    return [
        sound(command, place, layout)
        for command in commands(place)
        for layout in LAYOUTS[place]
        if _takes(command, layout)
    ]


def cell_of(command, place, layout, key, fault):
    """One cell, by the key and the name of the fault."""
    target = next(target for target in targets(layout, place) if target.key == key)
    return Cell(command, place, layout, target, next(one for one in FAULTS if one.name == fault))


# ---- rendered ---------------------------------------------------------------------------------------------------

HEAD = """\
# What zkit does about faults

Generated by `tests/python/support/silence.py`, which `tests/python/test_silence.py` walks: each cell is tried with each command.

**told**
- `recompress`, `slice`: exit 3, the node or document is named, nothing is at the destination. With `--skip-broken` the copy lacks
  the nodes and attributes that are named, and nothing else.
- `digest`, `compare`: exit 1 or 3, the node is named; never "equal".
- `audit`: a warning or an error that names the node, or exit 3. `inspect`: a defect that names the node, or exit 3.

**whole or told**: a whole copy and the right answer, or as above.

**whole**: exit 0, a whole copy, the right answer. `audit` and `inspect` name a folder without a document.

**-**: the place knows no such fault.

A whole copy has every group, array, attribute, dimension name and value. No command may hang, panic, or take more than 300 MB.
`inspect` decodes no chunk: of a faulty chunk it need not know.

"""

ROWS = (
    ("a document", lambda t, layout: t.kind == DOCUMENT and not is_consolidated(layout)),
    ("a document that consolidated metadata repeats", lambda t, layout: _is_repeated(t, layout)),
    ("consolidated metadata", lambda t, layout: is_consolidated(layout) and holds_consolidated(layout, t)),
    ("a chunk", lambda t, layout: t.kind == CHUNK),
    ("the folder of a group", lambda t, layout: t.kind == FOLDER and t.key in ("", "inner")),
    ("the folder of chunks", lambda t, layout: t.kind == FOLDER and t.key in ("t2m", "t2m/c")),
    ("a listing", lambda t, layout: t.kind == LISTING and not is_consolidated(layout)),
    ("a listing of a consolidated store", lambda t, layout: t.kind == LISTING and is_consolidated(layout)),
    ("a store", lambda t, layout: t.kind == STORE),
)


def _is_repeated(target, layout):
    return target.kind == DOCUMENT and is_consolidated(layout) and not holds_consolidated(layout, target)


def markdown():
    lines = [HEAD]
    for title, fits in ROWS:
        rows = []
        for fault in FAULTS:
            columns = [_states(place, fault, fits) for place in PLACES]
            if any(column != "-" for column in columns):
                rows.append(f"| {fault.name} | " + " | ".join(columns) + " |")
        if rows:
            lines.append(f"## {title[0].upper()}{title[1:]}\n\n| what is wrong | " + " | ".join(PLACES) + " |")
            lines.append("|---|" + "---|" * len(PLACES))
            lines += [*rows, ""]
    count = sum(len(list(cells(command, place))) for place in PLACES for command in commands(place))
    lines.append(f"{count:,} cells.\n")
    return "\n".join(lines).replace("\n\n\n", "\n\n")


def _states(place, fault, fits):
    """The states of all targets of one kind: one word, or the word with what differs."""
    found = {}
    for layout in LAYOUTS[place]:
        for target in targets(layout, place):
            if fits(target, layout) and applies(place, layout, target, fault):
                found.setdefault(state(place, layout, target, fault), []).append(target.key)
    if not found:
        return "-"
    if len(found) == 1:
        return next(iter(found))
    rare, *_ = sorted(found, key=lambda word: len(found[word]))
    usual = next(word for word in found if word != rare)
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(found[rare]))
    return f"{usual}; {names}: {rare}"


if __name__ == "__main__":
    print(markdown(), end="")
