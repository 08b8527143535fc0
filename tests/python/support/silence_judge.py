"""Tries one cell of the table and says what is wrong with what zkit did, or nothing.

judge = Judge(run, places)
judge(cell)               # None, or a sentence
"""

import hashlib
import os
import re
import shutil
import threading
from dataclasses import dataclass, replace

import numpy as np

import silence
import silence_stores as stores
from silence import CHUNK, DOCUMENT, EITHER, FREE, LISTING, STORE, TOLD, WHOLE
from silence_places import Source, break_file, break_folder, make_removable

# Where many share a core a run takes longer, and does not hang.
SECONDS = 20.0 * min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1) / 4), 4.0)
MEGABYTES = 300.0
# one try takes long where a server is asked again and again
PATIENCE = ("--timeout", "2s", "--stall-timeout", "6s", "--jobs", "2")
SELECTED = slice(1, 4)
PLAIN = ("--codec", "none", "--checksum", "none")


@dataclass
class Failure(Exception):
    """What is wrong: a short kind, to group by, and the rest."""

    kind: str
    detail: str = ""

    def __str__(self):
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


class Judge:
    def __init__(self, run, places):
        self.run, self.places = run, places
        self.peers, self.lock = {}, threading.Lock()

    def __call__(self, cell):
        """What is wrong with a cell: a Failure, or None."""
        try:
            if cell.command == "cache verify":
                self.cache_verify(cell)
            elif cell.command == "slice --cache":
                self.cached(cell)
            elif cell.command in silence.READERS:
                self.reader(cell)
            else:
                self.writer(cell)
        except Failure as failure:
            return failure
        return None

    # ---- runs

    def zkit(self, source, *args, cwd=None):
        """A run within its bounds."""
        outcome = self.run(*args, "--format", "json", cwd=cwd, timeout=SECONDS, **source.environment)
        if outcome.code is None:
            raise Failure("hangs", f"killed after {SECONDS:.0f} s")
        if outcome.panicked:
            raise Failure("panics", outcome.err.strip()[:300])
        if outcome.code not in (0, 1, 2, 3):
            raise Failure("undocumented exit code", f"{outcome.code}: {outcome.err[:200]}")
        if outcome.peak_mb > MEGABYTES:
            raise Failure("takes too much memory", f"{outcome.peak_mb:.0f} MB")
        return outcome

    def peer(self, layout, name, nodes):
        """A sound local store beside the one of the cell."""
        version = layout.split()[0]
        with self.lock:
            if (version, name) not in self.peers:
                folder = self.places.folder / f"peer-{version}-{name}.zarr"
                for key, body in stores.written(nodes, version).items():
                    (folder / key).parent.mkdir(parents=True, exist_ok=True)
                    (folder / key).write_bytes(body)
                self.peers[version, name] = folder
            return str(self.peers[version, name])

    # ---- what reads

    def reader(self, cell):
        source = self.places.source(cell)
        known = silence.nodes_of(cell)
        if cell.command.startswith("compare"):
            peer = self.peer(cell.layout, _kind(cell), known)
            pair = (source.url, peer) if cell.command.endswith("left") else (peer, source.url)
            outcome = self.zkit(source, "compare", *pair, *PATIENCE)
        else:
            outcome = self.zkit(source, cell.command, source.url, *PATIENCE)
        READER_RULES[cell.command.split(",")[0]](cell, outcome, silence.expectation(cell), known)

    # ---- what writes

    def writer(self, cell):
        source, folder = self.places.source(cell), self.places.new_folder("o")
        folder.chmod(0o777)
        outcome = self.zkit(source, *self.arguments(cell, source.url, "copy.zarr"), *PATIENCE, cwd=folder)
        try:
            self.written(cell, outcome, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def arguments(self, cell, url, destination):
        peer = self.peer(cell.layout, f"later-{_kind(cell)}", later_nodes(cell))
        other = "3" if cell.layout.startswith("v2") else "2"
        if cell.command in silence.COPIES:
            options = [option.replace("OTHER", other) for option in silence.COPIES[cell.command]]
            return ["recompress", url, destination, *options, "--checksum", "none"]
        words = {
            "slice": [url, "--isel", "valid_time=1..4"],
            "slice --concat, fault first": [url, peer, "--concat", "valid_time"],
            "slice --concat, fault last": [peer, url, "--concat", "valid_time"],
            "slice --merge-with": [
                self.peer(cell.layout, "extra", stores.extra_nodes()),
                "--merge-with",
                url,
            ],
        }[cell.command]
        return ["slice", *words, "--to", destination, *PLAIN]

    def written(self, cell, outcome, folder):
        copy, expected = folder / "copy.zarr", silence.expectation(cell)
        if outcome.code != 0 and expected == WHOLE:
            raise Failure("refuses what can be copied", first_line(outcome))
        if expected == FREE:
            if outcome.code not in (0, 2, 3):
                raise Failure(f"exit {outcome.code}", first_line(outcome))
            return
        skips = cell.command == "recompress --skip-broken"
        if outcome.code == 0 or (skips and outcome.code == 1):
            self.is_whole(cell, copy, outcome, skips)
            return
        self.refused(cell, outcome, copy)
        left = [path.name for path in folder.iterdir()]
        if left and not (cell.target.kind in (CHUNK, silence.FOLDER) and all(".partial" in name for name in left)):
            raise Failure("leaves something behind", ", ".join(left))

    def refused(self, cell, outcome, copy):
        # the bytes of a chunk are data: that they are wrong may be a finding
        codes = (1, 3) if cell.target.kind == CHUNK else (3,)
        if outcome.code not in codes:
            raise Failure(f"exit {outcome.code}", first_line(outcome))
        if copy.exists():
            raise Failure("a copy is there, after an error", first_line(outcome))
        if not outcome.err.strip():
            raise Failure("says nothing", f"exit {outcome.code}")
        if not named(cell, told_by(outcome)):
            raise Failure("does not name it", first_line(outcome))

    def is_whole(self, cell, copy, outcome, skips=False):
        text = told_by(outcome)
        left_out = self.left_out(cell, copy, text) if skips else ()
        consolidated = silence.is_consolidated(cell.layout) and cell.command in silence.COPIES
        if consolidated and cell.target.key == ".zmetadata" and ".zmetadata" in outcome.err:
            consolidated = False  # said
        best = None
        for truth in truths(cell):
            found = stores.lost(copy, truth, consolidated=consolidated, left_out=left_out)
            if skips and said_of_attributes(cell, text):
                found = [one for one in found if not one.startswith(f"{cell.target.node} lost its attributes")]
            best = found if best is None or len(found) < len(best) else best
        if best:
            raise Failure(
                "loses something, exit 0", "; ".join(best) + (f" [{first_line(outcome)}]" if outcome.err else "")
            )

    @staticmethod
    def left_out(cell, copy, text):
        """The nodes that --skip-broken may leave out: the broken one, if it is named; never the root, which is the copy."""
        if cell.fault.family == "structure" or silence.expectation(cell) != TOLD or not named(cell, text):
            return ()
        node = cell.target.node
        if not (copy / node.strip("/")).exists():
            return (node,)
        # what is below a folder that cannot be listed has no names that could be said
        return (node + "/",) if cell.target.kind == silence.FOLDER and node != "/" else ()

    # ---- a cache

    def cached(self, cell):
        source, folder = self.places.source(cell, own=True), self.places.new_folder("o")
        folder.chmod(0o777)
        command = ["slice", source.url, "--isel", "valid_time=1..4", "--cache", "cache", *PLAIN, *PATIENCE]
        try:
            first = self.zkit(source, *command, cwd=folder)
            if silence.expectation(cell) == FREE:
                if first.code not in (0, 2, 3):
                    raise Failure(f"exit {first.code}", first_line(first))
                return
            if first.code == 0:
                self.is_whole(cell, folder / first.json().get("store", "?"), first)
            elif silence.expectation(cell) == WHOLE:
                raise Failure("refuses what can be copied", first_line(first))
            else:
                stored = [path for path in (folder / "cache").glob("*.zarr")] if (folder / "cache").is_dir() else []
                self.refused(cell, first, stored[0] if stored else folder / "nothing")
            self.after_mending(cell, source, folder, command)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def after_mending(self, cell, source, folder, command):
        source.mend()
        second = self.zkit(source, *command, cwd=folder)
        if second.code != 0:
            raise Failure("refuses a source that was mended", first_line(second))
        copy = folder / second.json().get("store", "?")
        # of remote chunks a cache does not see that they were rewritten, and says so in its help (--source-check)
        right = truths(cell) if cell.place not in silence.FILES else truths(cell)[:1]
        found = min((stores.lost(copy, truth) for truth in right), key=len)
        if found:
            raise Failure(f"a cache {second.json().get('cache')} after mending lacks something", "; ".join(found))

    def cache_verify(self, cell):
        folder = self.places.new_folder("e")
        folder.chmod(0o777)
        try:
            store = self.cache_entry(cell.layout, folder)
            self.break_entry(cell, store, folder)
            outcome = self.zkit(Source(str(store), {}, None), "cache", "verify", folder / "cache")
            if outcome.code == 2:
                raise Failure("exit 2", first_line(outcome))
            if outcome.code == 0 and silence.expectation(cell) == TOLD and cell.fault.family != "none":
                raise Failure("passes", outcome.out[:200])
            if outcome.code and cell.fault.family == "none":
                raise Failure(f"exit {outcome.code}", first_line(outcome) + outcome.out[:300])
            text = outcome.err + outcome.out
            if outcome.code and cell.target.key not in text and not named(cell, text):
                raise Failure("does not name it", text[:200])
        finally:
            make_removable(folder)
            shutil.rmtree(folder, ignore_errors=True)

    def cache_entry(self, layout, folder):
        """A copy of a cache with one entry of that layout: the path of its store."""
        with self.lock:
            known = self.places.folder / f"cache-{layout}"
            if not known.exists():
                known.mkdir()
                known.chmod(0o777)
                peer = silence.sound("slice", silence.DIRECTORY, layout)
                url = self.places.make(peer).url
                options = ("--isel", "valid_time=0..4", "--chunks", "valid_time=2", "--cache", "cache")
                built = self.run("slice", url, *options, cwd=known)
                assert built.code == 0, built.err
        shutil.copytree(known / "cache", folder / "cache", symlinks=True)
        for path in (folder / "cache", *(folder / "cache").rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        return next((folder / "cache").glob("*.zarr"))

    def break_entry(self, cell, store, folder):
        path = store / cell.target.key
        if cell.fault.family == "none":
            return
        if cell.fault.content:
            body = path.read_bytes()
            broken = cell.fault.content(body)
            path.write_bytes(broken if broken != body else b"")
        elif cell.fault.family == "folder":
            break_folder(path, cell.fault.name.removeprefix("folder: "), folder / "outside")
        else:
            break_file(path, cell.fault.name, folder / "outside")


def _kind(cell):
    """The name of what the store of a cell holds."""
    if cell.fault.nodes:
        return cell.fault.name.replace(" ", "-")
    return "array" if silence.is_array(cell.layout) else "sound"


def later_nodes(cell):
    """The nodes of the store that the one of the cell is concatenated with."""
    return cell.fault.nodes(offset=4) if cell.fault.nodes else stores.nodes(4)


# ---- what is right ----------------------------------------------------------------------------------------------


def truths(cell):
    """What a whole copy may hold: the first of these where nothing is absent."""
    known = silence.nodes_of(cell)
    found = [known]
    if cell.fault.name in silence.GONE and cell.target.kind == CHUNK:
        found.append([_without_chunk(node) if node.path == cell.target.node else node for node in known])
    if cell.fault.name in silence.ABSENT and cell.target.kind == DOCUMENT and cell.target.key == ".zattrs":
        found.append([_without_attributes(n) if n.path == cell.target.node else n for n in known])
    return [_of_command(cell, nodes) for nodes in found]


def _without_chunk(node):
    values = node.values.copy()
    values[2:] = -1
    return replace(node, values=values)


def _without_attributes(node):
    return replace(node, attributes={}, dimensions=())


def _of_command(cell, nodes):
    if cell.command == "recompress the faulty array alone":
        return [node for node in nodes if node.path in ("/", "/t2m")]
    if cell.command == "recompress another array":
        return [node for node in nodes if node.path in ("/", "/mask")]
    if cell.command in ("slice", "slice --cache"):
        return [_selected(node) for node in nodes]
    if cell.command.startswith("slice --concat"):
        later = {node.path: node for node in later_nodes(cell)}
        first = cell.command.endswith("first")
        return [_joined(node, later[node.path], first) if node.path in later else node for node in nodes]
    if cell.command == "slice --merge-with":
        # the first store says what the root is
        merged = [replace(node, attributes={}) if node.path == "/" else node for node in nodes]
        return [*merged, *(node for node in stores.extra_nodes() if node.path == "/extra")]
    return nodes


def _along_time(node):
    return node.values is not None and node.dimensions[:1] == ("valid_time",)


def _selected(node):
    return replace(node, values=node.values[SELECTED]) if _along_time(node) else node


def _joined(node, later, first):
    if not _along_time(node):
        return node
    pair = (node.values, later.values) if first else (later.values, node.values)
    return replace(node, values=np.concatenate(pair))


def digests(nodes):
    """What `digest` must say of a store."""
    return {node.path: hashlib.sha256(node.values.tobytes()).hexdigest() for node in nodes if node.values is not None}


# ---- what is said -----------------------------------------------------------------------------------------------


def first_line(outcome):
    return (outcome.err.strip().splitlines() or ["nothing on stderr"])[0][:220]


def told_by(outcome):
    """stderr, and what the JSON document says is wrong: not what merely lists all nodes."""
    document, parts = outcome.json(), [outcome.err]
    for defect in document.get("defects", []):
        parts.append(f"`{defect['path']}` {defect['message']}")
    for finding in document.get("findings", []):
        if finding.get("severity") in ("warning", "error"):
            parts.append(f"`{finding.get('array') or ''}` {finding['message']} {finding.get('evidence')}")
    for array in document.get("arrays", []):
        if isinstance(array, dict) and array.get("error"):
            parts.append(f"`{array['path']}` {array['error']}")
    for difference in document.get("differences", []):
        parts.append(f"`{difference['path']}` {difference['what']} {difference.get('left')} {difference.get('right')}")
    for chunk in document.get("corrupt_chunks", []):
        parts.append(f"`{chunk['path']}` {chunk['message']}")
    for key in ("not_seen", "left_out", "skipped"):
        parts += [str(one) for one in document.get(key) or []]
    for store in document.get("stores", []):
        if isinstance(store, dict):
            parts += [str(one) for one in store.get("not_seen") or []]
    return "\n".join(parts)


def named(cell, text):
    """Whether a text names the node or the document that is wrong."""
    target = cell.target
    if cell.place == silence.HTTP and cell.fault.name in silence.ABSENT and target.kind == DOCUMENT:
        return bool(text.strip())  # nothing says that there should be such a document
    if target.kind in (LISTING, STORE) or (target.key == "" and target.kind == silence.FOLDER):
        return bool(text.strip())
    if target.node == "/":
        return target.key in text or bool(re.search(r"""(^|[\s`'"(])/($|[\s`'"):,])""", text, re.MULTILINE))
    return bool(re.search(rf"\b{target.node.strip('/')}\b", text))


def said_of_attributes(cell, text):
    """Whether a text says that the attributes of the node are left out; its dimensions may be among them."""
    return "attributes" in text and named(cell, text)


def _told(cell, outcome, codes):
    if outcome.code not in codes:
        raise Failure(f"exit {outcome.code}", told_by(outcome)[:200].replace("\n", " "))
    if not named(cell, told_by(outcome)):
        raise Failure("does not name it", f"exit {outcome.code}: {told_by(outcome)[:200]}".replace("\n", " "))


# ---- rules of commands that read --------------------------------------------------------------------------------


def inspected(cell, outcome, expected, known):
    if expected == FREE or (expected == EITHER and outcome.code == 3):
        if outcome.code not in (0, 3):
            raise Failure(f"exit {outcome.code}", first_line(outcome))
    elif expected == TOLD:
        _told(cell, outcome, (0, 3))
    elif outcome.code != 0:
        raise Failure(f"exit {outcome.code}", first_line(outcome))
    else:
        _all_arrays({array["path"] for array in outcome.json().get("arrays", [])}, known)
        if expected == WHOLE and silence.IMPLICIT in cell.fault.name and "folder_0" not in told_by(outcome):
            raise Failure("does not name the folder without a document")


def audited(cell, outcome, expected, known):
    if expected == TOLD:
        _told(cell, outcome, (1, 3) if cell.target.kind == CHUNK else (0, 1, 3))
        worse = outcome.code == 3 or outcome.json().get("summary", {}).get("errors", 0)
        worse = worse or outcome.json().get("summary", {}).get("warnings", 0)
        if not worse:
            raise Failure("passes", first_line(outcome))
    elif expected == EITHER:
        if outcome.code not in (0, 1, 3):
            raise Failure(f"exit {outcome.code}", first_line(outcome))
    elif outcome.code not in (0, 1):
        raise Failure(f"exit {outcome.code}", first_line(outcome))
    else:
        counted = outcome.json()["stores"][0]["arrays"]
        if counted != len(digests(known)):
            raise Failure("does not see all arrays", f"{counted} of {len(digests(known))}")
        findings = " ".join(finding["message"] + str(finding["array"]) for finding in outcome.json()["findings"])
        if silence.IMPLICIT in cell.fault.name and "folder_0" not in findings:
            raise Failure("does not name the folder without a document")


def digested(cell, outcome, expected, known):
    if outcome.code != 0 and expected != WHOLE:
        return _told(cell, outcome, (1, 3))
    if outcome.code != 0:
        raise Failure(f"exit {outcome.code}", first_line(outcome))
    if expected == TOLD:
        raise Failure("passes", first_line(outcome))
    said = {array["path"]: array["sha256"] for array in outcome.json()["arrays"]}
    _all_arrays(said, known)
    if not any(digests(truth) == said for truth in truths(cell)):
        raise Failure("digests of something else")
    return None


def compared(cell, outcome, expected, known):
    if outcome.code != 0 and expected != WHOLE:
        if outcome.json().get("equal"):
            raise Failure("says equal", f"exit {outcome.code}")
        return _told(cell, outcome, (1, 3))
    if outcome.code != 0:
        raise Failure(f"exit {outcome.code}", f"{first_line(outcome)} {outcome.json().get('differences')}"[:200])
    if expected == TOLD:
        raise Failure("says equal", first_line(outcome))
    count = outcome.json()["arrays_compared"]
    if count != len(digests(known)):
        raise Failure("does not compare all arrays", f"{count} of {len(digests(known))}")
    return None


def _all_arrays(found, known):
    missing = sorted(set(digests(known)) - set(found))
    if missing:
        raise Failure("does not see all arrays", ", ".join(missing))


READER_RULES = {"inspect": inspected, "audit": audited, "digest": digested, "compare": compared}
