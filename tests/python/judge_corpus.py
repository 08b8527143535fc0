#!/usr/bin/env python3
"""Judges `zkit inspect` and `zkit digest` against a corpus of stores with a manifest of what each holds.

Needs only the standard library: the expected digests are in DIR/manifest.json. Exits 1 where a valid directory case is
wrong or any case panics, hangs or breaks a limit.
"""

import argparse
import collections
import fnmatch
import json
import os
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import data_types
import measure

TIME_LIMIT_SECONDS, KILL_AFTER_SECONDS, MEMORY_LIMIT_MB = 2.0, 20.0, 300.0
KIND_OF_CONTAINER = {"icechunk": {"icechunk"}, "kerchunk_json": {"kerchunk-json"}}


def node_path(name):
    return "/" + name.strip("/")


def expected_arrays(case):
    """The arrays that a reader opened, by path; those it could not are listed without a shape and left out."""
    arrays = case["expected"].get("arrays", {})
    return {node_path(name): array for name, array in arrays.items() if "shape" in array}


def expected_digests(case):
    """{path: the digests that count as right}: one, or one for each reader where they disagree."""
    known = {node_path(name): value for name, value in case["expected"].get("values_checksum", {}).items() if value}
    return {path: set(value.values()) if isinstance(value, dict) else {value} for path, value in known.items()}


def reads_arrays(case):
    """Whether zkit reads this case's arrays today; of N5, icechunk, references and zips it names the kind alone."""
    return case["container"] == "dir" and case["zarr_format"] in (2, 3, "2+3")


def wrong_in_inspect(case, document):
    expected, arrays = expected_arrays(case), {a["path"]: a for a in document["arrays"]}
    for path, want in expected.items():
        got = arrays.get(path)
        if got is None:
            yield f"inspect {path}: missing (lists {len(arrays)} arrays)"
            continue
        keys = want.get("keys", {})
        chunk_shape = want.get("chunks")
        facts = [
            ("shape", want["shape"], got["shape"]),
            ("zarr_format", want["format"], got["zarr_format"]),
            ("chunks_total", keys.get("total"), got["chunks_total"]),
            ("chunks_stored", keys.get("stored"), got["chunks_stored"]),
            ("chunk_shape", chunk_shape, got["chunk_shape"]),
            ("shard_shape", want.get("shards"), got["shard_shape"]),
        ]
        for name, wanted, found in facts:
            if wanted is not None and wanted != found:
                yield f"inspect {path}: {name} is {found}, expected {wanted}"
        if not data_types.same(want["dtype"], got["data_type"]):
            yield f"inspect {path}: data_type is {got['data_type']}, expected {want['dtype']}"
    known = {node_path(name) for name in case["expected"].get("arrays", {})}
    if case["expected"]["valid"]:
        for path in arrays.keys() - known:
            yield f"inspect {path}: not in the manifest"


def wrong_in_digest(case, document):
    arrays = {a["path"]: a for a in document["arrays"]}
    for path, want in expected_digests(case).items():
        got = arrays.get(path)
        if got is None:
            yield f"digest {path}: missing"
        elif got["sha256"] not in want:
            dtype = case["expected"]["arrays"].get(path.strip("/") or "/", {}).get("dtype", "?")
            yield f"digest {path} ({dtype}): {got['sha256'] or got['error']}, expected {str(want)[:12]}"


def wrong_kind(case, document):
    """Foreign kinds must be named, never mistaken for an empty Zarr store."""
    kind, container = document["store"]["kind"], document["store"]["container"]
    if case["container"] == "zip":
        if container != "zip" and case["expected"]["valid"]:
            yield f"inspect: container is {container}, expected zip"
    elif case["zarr_format"] == "n5":
        if kind != "n5":
            yield f"inspect: kind is {kind}, expected n5"
    elif case["container"] in KIND_OF_CONTAINER:
        if kind not in KIND_OF_CONTAINER[case["container"]]:
            yield f"inspect: kind is {kind}, expected {case['container']}"
    elif kind == "zarr" and not document["arrays"] and not document["groups"] and not document["defects"]:
        yield "inspect: an empty Zarr store without a defect"


def judge(zkit, root, case, judge_commands):
    """Returns (wrong, broken, outcomes): facts that differ, limits that are broken, and how each command ran."""
    wrong, broken, outcomes = [], [], {}
    for command in judge_commands:
        outcome = measure.run([zkit, command, root / case["path"], "--format", "json"], timeout=KILL_AFTER_SECONDS)
        outcomes[command] = outcome
        if outcome.code is None:
            broken.append(f"{command}: hung, killed after {KILL_AFTER_SECONDS:.0f} s")
            continue
        if outcome.panicked or outcome.code < 0:
            lines = [line for line in outcome.err.splitlines() if "panicked" in line] or outcome.err.splitlines()[-1:]
            broken.append(f"{command}: panicked (exit {outcome.code}): {' '.join(lines)[:200]}")
        if outcome.seconds > TIME_LIMIT_SECONDS:
            broken.append(f"{command}: {outcome.seconds:.1f} s")
        if outcome.peak_mb > MEMORY_LIMIT_MB:
            broken.append(f"{command}: {outcome.peak_mb:.0f} MB")
        if outcome.code == 2:
            broken.append(f"{command}: exit 2 (usage): {outcome.err.strip()[:200]}")
        try:
            document = outcome.json()
        except ValueError:
            message = outcome.err.strip().replace("\n", " | ")[:300]
            if reads_arrays(case):
                wrong.append(f"{command}: no JSON, exit {outcome.code}: {message}")
            elif command == "inspect":
                wrong += [f"inspect: no JSON, exit {outcome.code}: {message}"] if case["expected"]["valid"] else []
            continue
        if reads_arrays(case):
            wrong += (wrong_in_inspect if command == "inspect" else wrong_in_digest)(case, document)
        if command == "inspect":
            wrong += wrong_kind(case, document)
    return wrong, broken, outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zkit", default=os.environ.get("ZKIT", "target/debug/zkit"))
    parser.add_argument("--corpus", type=pathlib.Path, required=True, help="folder with manifest.json")
    parser.add_argument("--only", action="append", metavar="GLOB", help="case ids to judge (repeatable)")
    parser.add_argument("--command", action="append", choices=["inspect", "digest"], help="default: both")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--lines", type=int, default=6, help="mismatches shown a case (0: all)")
    parser.add_argument("--verbose", action="store_true", help="name the right cases too")
    parser.add_argument("--json", type=pathlib.Path, help="write the whole result to this file")
    options = parser.parse_args()
    root = options.corpus.resolve()
    cases = json.loads((root / "manifest.json").read_text())["cases"]
    cases = [c for c in cases if not options.only or any(fnmatch.fnmatch(c["id"], glob) for glob in options.only)]
    commands = options.command or ["inspect", "digest"]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda case: judge(options.zkit, root, case, commands), cases))
    sys.exit(report(options, cases, results))


def report(options, cases, results):
    tally, slowest, largest, bad = collections.Counter(), (0, ""), (0, ""), 0
    for case, (wrong, broken, outcomes) in zip(cases, results, strict=True):
        group = f"{'valid' if case['expected']['valid'] else 'faulty'} {case['container']}"
        tally[group, "all"] += 1
        tally[group, "right"] += not wrong and not broken
        bad += bool(broken) or (bool(wrong) and group == "valid dir")
        for command, outcome in outcomes.items():
            slowest = max(slowest, (outcome.seconds, f"{command} {case['id']}"))
            largest = max(largest, (outcome.peak_mb, f"{command} {case['id']}"))
        if wrong or broken or options.verbose:
            codes = " ".join(f"{command}={outcome.code}" for command, outcome in outcomes.items())
            mark = "BROKEN" if broken else "wrong" if wrong else "right"
            print(f"{mark:6} {group:12} {case['id']}  [{codes}]  {case['what'][:70]}")
            lines = broken + wrong
            shown = lines[: options.lines or None]
            print("".join(f"         {line}\n" for line in shown), end="")
            if len(lines) > len(shown):
                print(f"         ... and {len(lines) - len(shown)} more")
    print(f"\nslowest: {slowest[0]:.2f} s {slowest[1]}; largest: {largest[0]:.0f} MB {largest[1]}")
    for group in sorted({group for group, _ in tally}):
        right, total = tally[group, "right"], tally[group, "all"]
        print(f"{group:22} {right:4} of {total:4} fully right  ({100 * right / total:.1f} %)")
    broken_cases = sum(bool(broken) for _, broken, _ in results)
    print(f"panics, hangs, broken limits: {broken_cases} cases")
    if options.json:
        options.json.write_text(
            json.dumps(
                [
                    {"id": case["id"], "wrong": wrong, "broken": broken}
                    for case, (wrong, broken, _) in zip(cases, results, strict=True)
                ],
                indent=1,
            )
        )
    return 1 if bad else 0


if __name__ == "__main__":
    main()
