#!/usr/bin/env python3
"""Judges `zkit audit` against a corpus of stores whose manifest says what is wrong with each.

A fault counts as found if a finding of a fitting rule with the manifest's severity names its array, at the depth that can
see the fault. A valid case counts as wrong if any finding is an error or a warning that the manifest does not list.
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
import measure

TIME_LIMIT_SECONDS, KILL_AFTER_SECONDS, MEMORY_LIMIT_MB = 2.0, 30.0, 300.0
DEPTH_OF = {"metadata": "metadata", "listing": "listing", "bytes": "full", "values": "full"}
# the manifest says metadata; that chunks decode to another size than the metadata says is seen in their headers
DEPTH_OF_KIND = {"chunk_size_mismatch": "headers"}
CORRUPT = {"corrupt-chunk", "truncated-chunk", "bad-shard-index"}

# Which rules may report each kind of fault.
RULES_OF = {
    "all_nan": {"all-nan"},
    "array_unwritten": {"metadata-only-array"},
    "chunk_foreign_content": {"error-body", "pointer-file"},
    "chunk_header_corrupt": CORRUPT,
    "chunk_key_separator": {"wrong-chunk-keys"},
    "chunk_missing": {"missing-slab", "absent-chunks", "missing-object", "metadata-only-array"},
    "chunk_orphan": {"orphan-chunks"},
    "chunk_oversized": CORRUPT,
    "chunk_payload_corrupt": CORRUPT,
    "chunk_shape_absurd": {"absurd-shape"},
    "chunk_size_mismatch": CORRUPT,
    "chunk_truncated": CORRUPT | {"zero-byte-chunk"},
    "chunks_tiny": {"tiny-chunks"},
    "consolidated_stale": {"consolidated-stale"},
    "coord_duplicates": {"duplicate-ids"},
    "coord_gap": {"coordinate-gap"},
    "coord_not_monotonic": {"coordinate-not-monotonic"},
    "dangling_symlink": {"dangling-link", "outside-link"},
    "dimension_length_conflict": {"dimension-mismatch"},
    "double_scaling_suspect": {"suspect-values", "out-of-range"},
    "fill_value_conflict": {"fill-value-confusion"},
    "foreign_content": {"pointer-file", "error-body"},
    "format_ambiguous": {"mixed-formats"},
    "junk_file": {"foreign-file"},
    "manifest_corrupt": {"corrupt-manifest"},
    "metadata_invalid": {"malformed-metadata", "unsupported-codec", "absurd-shape", "unsafe-name", "pointer-file"},
    "mixed_versions": {"suspect-values", "nan-slab"},
    "not_zarr": {"not-zarr", "empty-store"},
    "reference_outside": {"reference-outside"},
    "reference_target_missing": {"dead-reference"},
    "reference_target_short": {"dead-reference"},
    "shard_index_bad": {"bad-shard-index", "corrupt-chunk", "truncated-chunk"},
    "shard_index_unreadable": {"bad-shard-index", "corrupt-chunk", "truncated-chunk"},
    "store_empty": {"empty-store"},
    "store_in_subfolder": {"store-in-subfolder"},
    "symlink_outside_store": {"outside-link"},
    "temp_file_left": {"temporary-file"},
    "undeclared_missing_value": {"suspect-values", "undeclared-missing-value"},
    "unreadable": {"unreadable"},
    "zero_byte_chunk": {"zero-byte-chunk", "truncated-chunk"},
}


def depth_of(fault):
    return DEPTH_OF_KIND.get(fault["kind"], DEPTH_OF[fault["detectable"]])


def node_path(name):
    return "/" + name.strip("/")


def fits(fault, finding):
    rules = set().union(*(RULES_OF.get(kind, set()) for kind in fault["kind"].split("|")))
    if finding["rule"] not in rules:
        return False
    array = fault.get("array")
    if array in (None, "*"):
        return True
    # the root array of a store is the store
    if finding["array"] is None:
        return node_path(array) == "/"
    return finding["array"] == node_path(array)


def judge_fault(fault, findings):
    fitting = [finding for finding in findings if fits(fault, finding)]
    if not fitting:
        return "missed"
    if fault["severity"] in {finding["severity"] for finding in fitting}:
        return "found"
    return "severity " + "/".join(sorted({finding["severity"] for finding in fitting}))


def judge(options, root, case):
    """Returns (verdict of each fault, wrong findings of a valid case, broken limits)."""
    faults = [fault for fault in case["expected"]["faults"] if fault["detectable"] in DEPTH_OF]
    depths = {depth_of(fault) for fault in faults} | {"full"}
    if options.depth:
        depths = {options.depth}
    answers, broken = {}, []
    for depth in depths:
        # what references point to is looked at only where somebody asks
        follow = ["--follow-references"] if any(f["kind"].startswith("reference_target") for f in faults) else []
        arguments = [
            options.zkit,
            "audit",
            root / case["path"],
            "--format",
            "json",
            "--depth",
            depth,
            *follow,
            *options.pass_on,
        ]
        outcome = measure.run(arguments, timeout=KILL_AFTER_SECONDS)
        if outcome.code is None:
            broken.append(f"{depth}: hung")
        elif outcome.panicked or outcome.code not in (0, 1, 3):
            broken.append(f"{depth}: exit {outcome.code}: {outcome.err.strip()[-300:]}")
        if outcome.seconds > TIME_LIMIT_SECONDS:
            broken.append(f"{depth}: {outcome.seconds:.1f} s")
        if outcome.peak_mb > MEMORY_LIMIT_MB:
            broken.append(f"{depth}: {outcome.peak_mb:.0f} MB")
        try:
            answers[depth] = outcome.json()["findings"]
        except (ValueError, KeyError):
            answers[depth] = []
            broken.append(f"{depth}: no JSON: {outcome.err.strip()[-200:]}")
    verdicts = []
    for fault in faults:
        findings = answers[options.depth or depth_of(fault)]
        verdicts.append((fault, judge_fault(fault, findings)))
    wrong = []
    if case["expected"]["valid"]:
        for finding in answers.get("full", next(iter(answers.values()))):
            listed = any(fits(fault, finding) for fault in case["expected"]["faults"])
            if finding["severity"] != "info" and not listed:
                wrong.append(finding)
    return verdicts, wrong, broken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zkit", default=os.environ.get("ZKIT", "target/debug/zkit"))
    parser.add_argument("--corpus", type=pathlib.Path, required=True, help="folder with manifest.json")
    parser.add_argument("--only", action="append", metavar="GLOB", help="case ids to judge (repeatable)")
    parser.add_argument("--depth", help="this depth for all, instead of the one that can see each fault")
    parser.add_argument("--kind", help="faults whose `detectable` is this, such as metadata or listing")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path, help="write the whole result to this file")
    parser.add_argument("pass_on", nargs="*", help="arguments handed to zkit audit, after --")
    options = parser.parse_args()
    root = options.corpus.resolve()
    cases = json.loads((root / "manifest.json").read_text())["cases"]
    cases = [
        case for case in cases if not options.only or any(fnmatch.fnmatch(case["id"], glob) for glob in options.only)
    ]
    if options.kind:
        for case in cases:
            case["expected"]["faults"] = [f for f in case["expected"]["faults"] if f["detectable"] == options.kind]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda case: judge(options, root, case), cases))
    sys.exit(report(options, cases, results))


def report(options, cases, results):
    kinds, valid, wrong_cases, broken_cases = collections.defaultdict(collections.Counter), 0, 0, 0
    for case, (verdicts, wrong, broken) in zip(cases, results, strict=True):
        valid += case["expected"]["valid"]
        wrong_cases += bool(wrong)
        broken_cases += bool(broken)
        lines = [f"{line}" for line in broken]
        for fault, verdict in verdicts:
            kinds[fault["kind"]]["found" if verdict == "found" else "not"] += 1
            if verdict != "found":
                lines.append(
                    f"{verdict}: {fault['kind']} ({fault['severity']}, {fault['detectable']}) at {fault['array']}"
                )
        for rule, count in collections.Counter((f["rule"], f["severity"]) for f in wrong).items():
            example = next(f for f in wrong if (f["rule"], f["severity"]) == rule)
            lines.append(f"wrong {rule[1]}: {rule[0]} x{count}: {example['array']}: {example['message'][:150]}")
        if lines:
            print(case["id"])
            print("".join(f"    {line}\n" for line in lines), end="")
    found, total = sum(c["found"] for c in kinds.values()), sum(sum(c.values()) for c in kinds.values())
    print("\nfaults by kind:")
    for kind, counts in sorted(kinds.items()):
        print(f"  {counts['found']:3} of {sum(counts.values()):3}  {kind}")
    share, wrong_share = 100 * found / max(total, 1), 100 * wrong_cases / max(valid, 1)
    print(f"faults found: {found} of {total} ({share:.1f} %)")
    print(f"valid cases with a wrong error or warning: {wrong_cases} of {valid} ({wrong_share:.1f} %)")
    print(f"panics, hangs, broken limits: {broken_cases} cases")
    if options.json:
        whole = [
            {
                "id": case["id"],
                "faults": [[fault, verdict] for fault, verdict in verdicts],
                "wrong": wrong,
                "broken": broken,
            }
            for case, (verdicts, wrong, broken) in zip(cases, results, strict=True)
        ]
        options.json.write_text(json.dumps(whole, indent=1))
    return 0 if share >= 95 and wrong_share < 2 and not broken_cases else 1


if __name__ == "__main__":
    main()
