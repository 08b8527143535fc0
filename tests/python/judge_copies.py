#!/usr/bin/env python3
"""Judges `zkit recompress` against a corpus: every valid case to every format, read back by independent readers.

Prints a table of cases and formats, the reason of each refusal, and totals. Exits 1 where a copy differs from its
source or a run ends otherwise than with 0, 2 or 3.
"""

import argparse
import collections
import fnmatch
import json
import math
import os
import pathlib
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import tensorstore
import zarr

import copies
import measure
import oracle
from judge_corpus import expected_digests, reads_arrays

FORMATS = ("keep", "2", "3")
KILL_AFTER_SECONDS = 20.0
LARGEST_ELEMENTS = 1 << 25  # larger arrays (templates without chunks) would not fit this judge's memory


class Source:
    """A case as independent readers see it; what zarr-python cannot read is taken from the manifest alone."""

    def __init__(self, case, path):
        self.path, self.folders = path, oracle.array_folders(path)
        self.values, self.digests = {}, {}
        # a store may be nothing but consolidated metadata; a copy then holds what that lists
        self.listed = sorted(self.folders) or sorted(consolidated_arrays(path))
        large = [name for name, where in self.folders.items() if elements(*where) > LARGEST_ELEMENTS]
        for name in self.folders.keys() - large:
            try:
                self.values[name] = oracle.values(*self.folders[name])
                self.digests[name] = {oracle.digest(self.values[name])}
            except Exception:
                continue  # no independent reader has this type or codec
        for name, known in expected_digests(case).items():
            if name in self.folders and name not in large:
                self.digests[name] = known
        self.datasets = {} if large else oracle.datasets(path)
        self.attributes = copies.attributes_of(path)
        self.dimensions = {p: oracle.dimension_names(*where) for p, where in self.folders.items()}
        self.consolidated = copies.is_consolidated(path)


def elements(folder, zarr_format):
    metadata = json.loads((folder / ("zarr.json" if zarr_format == 3 else ".zarray")).read_bytes())
    return math.prod(int(length) for length in metadata["shape"])


def differences(source, copy, zarr_format):
    """Yields what differs between a source and its copy, in one line each."""
    folders = oracle.array_folders(copy)
    if sorted(folders) != source.listed:
        yield f"arrays: {sorted(set(folders) ^ set(source.listed))[:5]}"
    for path in sorted(set(folders) & set(source.folders)):
        where = folders[path]
        if zarr_format != "keep" and where[1] != int(zarr_format):
            yield f"{path}: is of format {where[1]}"
        yield from different_values(source, path, where)
        if (oracle.dimension_names(*where) or []) != (source.dimensions[path] or []):
            yield f"{path}: dimensions {oracle.dimension_names(*where)}, expected {source.dimensions[path]}"
    attributes = copies.attributes_of(copy)
    for path, expected in source.attributes.items():
        if attributes.get(path) != expected:
            yield f"{path}: attributes {str(attributes.get(path))[:80]}, expected {expected[:80]}"
    for check in (equal_datasets, opens_consolidated, tensorstore_agrees):
        try:
            check(source, copy)
        except Exception as error:
            yield f"{check.__name__}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"


def different_values(source, path, where):
    known = source.digests.get(path)
    if not known:
        return
    try:
        found = oracle.digest(oracle.values(*where))
    except Exception as error:
        if path in source.values:
            yield f"{path}: cannot be read: {type(error).__name__}: {str(error)[:200]}"
        return
    if found not in known:
        yield f"{path}: digest {found[:12]}, expected {str(known)[:16]}"


def equal_datasets(source, copy):
    if source.datasets:
        copies.assert_equal_datasets(source, copy)


def opens_consolidated(source, copy):
    """A consolidated source has a consolidated copy, whose arrays zarr-python finds by that alone."""
    assert copies.is_consolidated(copy) or not source.consolidated, "the copy is not consolidated"
    try:
        expected = consolidated_arrays(source.path)
    except Exception:
        return  # zarr-python refuses the source too
    found = consolidated_arrays(copy)
    assert found == expected, f"consolidated lists {sorted(found ^ expected)[:5]}"


def consolidated_arrays(store):
    if not copies.is_consolidated(store):
        return set()
    members = zarr.open_consolidated(str(store), mode="r").members(None)
    return {"/" + path for path, node in members if hasattr(node, "shape")}


def tensorstore_agrees(source, copy):
    """tensorstore reads each array of the copy as zarr-python reads the source, but for what it refuses by design."""
    for path, where in oracle.array_folders(copy).items():
        if path not in source.values or (where[1] == 3 and "NaN" in source.attributes.get(path, "")):
            continue  # zkit says so: strict readers refuse bare NaN in zarr.json
        try:
            copies.assert_tensorstore_agrees(copies_view(source), {path: where})
        except AssertionError:
            raise
        except Exception as error:
            if where[1] == source.folders[path][1] and not tensorstore_opens(*source.folders[path]):
                continue
            raise AssertionError(f"{path}: {error}") from None


def tensorstore_opens(folder, zarr_format):
    driver = "zarr3" if zarr_format == 3 else "zarr"
    try:
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(folder)}}
        return tensorstore.open(spec, open=True, read=True).result() is not None
    except Exception:
        return False


def copies_view(source):
    """What `copies.assert_tensorstore_agrees` takes: one digest an array, that of zarr-python."""
    digests = {path: oracle.digest(values) for path, values in source.values.items()}
    return type("View", (), {"values": source.values, "digests": digests})


def judge(zkit, root, case, options):
    """Returns {format: (verdict, lines)} of one case."""
    path, verdicts = root / case["path"], {}
    try:
        source = Source(case, path)
    except Exception as error:
        return {zarr_format: ("no judge", [f"{type(error).__name__}: {error}"]) for zarr_format in FORMATS}
    for zarr_format in FORMATS:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="judge-"))
        try:
            verdicts[zarr_format] = judge_one(zkit, source, folder, zarr_format, options)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return verdicts


def judge_one(zkit, source, folder, zarr_format, options):
    copy = folder / "copy.zarr"
    run = [zkit, "recompress", source.path, copy, "--zarr-format", zarr_format, "--verify", "full", *options]
    outcome = measure.run(run, timeout=KILL_AFTER_SECONDS)
    left = sorted(p.name for p in folder.iterdir())
    message = " | ".join(outcome.err.strip().splitlines())[:400]
    if outcome.code in (2, 3) and not outcome.panicked:
        return ("left over", left) if left else ("refused", [message])
    if outcome.code != 0 or outcome.panicked:
        return "FAILED", [f"exit {outcome.code}: {message}"]
    if left != ["copy.zarr"]:
        return "left over", left
    lines = list(differences(source, copy, zarr_format))
    return ("DIFFERS", lines) if lines else ("equal", [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zkit", default=os.environ.get("ZKIT", "target/debug/zkit"))
    parser.add_argument("--corpus", type=pathlib.Path, required=True, help="folder with manifest.json")
    parser.add_argument("--only", action="append", metavar="GLOB", help="case ids to judge (repeatable)")
    parser.add_argument(
        "--option", action="append", default=[], help="further option of recompress, such as --codec=zstd:3"
    )
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    root = options.corpus.resolve()
    cases = json.loads((root / "manifest.json").read_text())["cases"]
    cases = [c for c in cases if c["expected"]["valid"] and reads_arrays(c)]
    cases = [c for c in cases if not options.only or any(fnmatch.fnmatch(c["id"], glob) for glob in options.only)]
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(judge, options.zkit, root, case, options.option) for case in cases]
        sys.exit(report([(case["id"], future.result()) for case, future in zip(cases, futures, strict=True)]))


def report(results):
    tally = collections.Counter()
    for name, verdicts in results:
        print(f"{name[:64]:64} " + " ".join(f"{verdicts[f][0]:9}" for f in FORMATS))
        for zarr_format in FORMATS:
            verdict, lines = verdicts[zarr_format]
            tally[zarr_format, verdict] += 1
            print("".join(f"    {zarr_format}: {line}\n" for line in lines[:6]), end="")
    print()
    for zarr_format in FORMATS:
        print(f"{zarr_format:5}", {verdict: n for (f, verdict), n in sorted(tally.items()) if f == zarr_format})
    return 1 if any(verdict not in ("equal", "refused") for _, verdict in tally) else 0


if __name__ == "__main__":
    main()
