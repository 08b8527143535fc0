"""Recompresses the same store with zkit and its peers, in turn, and prints the medians as a Markdown table."""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests" / "python")]
import maps
from copy_with import BLOSC, PEERS, ZSTD

import measure

TASKS = {
    "A1": ("same grid, to blosc(zstd 3, bitshuffle)", "blosc", "blosc:zstd:3:bitshuffle", BLOSC),
    "A2": ("same grid, to zstd 3", "zstd", "zstd:3", ZSTD),
}
# zarrs_reencode takes one array: SCRIPT BINARY CODEC SOURCE DESTINATION
ZARRS_LOOP = """
set -e
mkdir "$3"
for array in "$2"/*/.zarray; do
    name=$(basename "$(dirname "$array")")
    "$0" --bytes-to-bytes-codecs "[$1]" "$2/$name" "$3/$name"
done
"""


def commands(options, task, source):
    """{label: what to run, less the destination}."""
    _, kind, codec, json_codec = TASKS[task]
    zkit = [
        options.zkit,
        "recompress",
        source,
        "{destination}",
        "--zarr-format",
        "3",
        "--codec",
        codec,
        "--quiet",
    ]
    table = {"zkit": [*zkit, "--verify", "none"]}
    if options.zarrs_reencode:
        table["zarrs_reencode"] = [
            "sh",
            "-c",
            ZARRS_LOOP,
            options.zarrs_reencode,
            json.dumps(json_codec),
            source,
            "{destination}",
        ]
    for peer in PEERS:
        table[peer] = [sys.executable, HERE / "copy_with.py", peer, source, "{destination}", kind]
    table["zkit, verified (its default)"] = zkit
    return {
        label: command for label, command in table.items() if not options.only or any(o in label for o in options.only)
    }


def stored_bytes(folder):
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def check(source, copy, steps):
    """A copy that is not equal has no time worth printing."""
    import numpy as np
    import zarr

    for name, *_ in maps.VARIABLES:
        for step in {0, steps // 2, steps - 1}:
            one, other = (zarr.open_array(str(store / name), mode="r")[step] for store in (source, copy))
            assert np.array_equal(one, other, equal_nan=True), f"{copy}: {name} differs at step {step}"


def run(options, source, work):
    """One list of (seconds, peak MB, stored bytes) for each (task, label)."""
    results = {}
    for number in range(options.rounds):
        for task in options.tasks:
            for label, command in commands(options, task, source).items():
                destination = work / f"{task}_{label.replace(' ', '_').replace(',', '')}_{number}.zarr"
                outcome = measure.run(
                    [str(part).replace("{destination}", str(destination)) for part in command], timeout=3600
                )
                if outcome.code != 0:
                    print(f"{task} {label}: exit {outcome.code}: {outcome.err.strip()[-500:]}", file=sys.stderr)
                    continue
                if number == 0:
                    check(source, destination, options.steps)
                results.setdefault((task, label), []).append(
                    (outcome.seconds, outcome.peak_mb, stored_bytes(destination))
                )
                print(
                    f"round {number + 1} {task} {label}: {outcome.seconds:.2f} s, {outcome.peak_mb:.0f} MB",
                    file=sys.stderr,
                )
                shutil.rmtree(destination)
                os.sync()
    return results


def processor_name():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(": ")[1] for line in lines if line.startswith("model name")]
    return names[0].strip() if names else platform.machine()


def table(options, results, source):
    processor = processor_name()
    decoded = len(maps.VARIABLES) * options.steps * maps.LATITUDES * maps.LONGITUDES * 4
    lines = [
        f"{decoded / 1e9:.2f} GB decoded, {stored_bytes(source) / 1e6:.0f} MB stored; "
        f"medians of {options.rounds} interleaved runs, page cache warm; {os.cpu_count()} cores of {processor}",
        "",
    ]
    for task in options.tasks:
        lines += [f"{task}: {TASKS[task][0]}", "", "| tool | s | peak MB | stored MB |", "|---|--:|--:|--:|"]
        rows = [
            (label, *map(statistics.median, zip(*runs, strict=True)))
            for (of, label), runs in results.items()
            if of == task
        ]
        lines += [
            f"| {label} | {seconds:.2f} | {peak:.0f} | {stored / 1e6:.0f} |"
            for label, seconds, peak, stored in sorted(rows, key=lambda row: row[1])
        ]
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zkit", required=True)
    parser.add_argument("--zarrs-reencode")
    parser.add_argument("--steps", type=int, default=160, help="maps a variable; 160 make 2 GB decoded")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--only", nargs="+", metavar="WORD", help="peers whose name holds one of these")
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        default=HERE.parents[1] / "target" / "bench",
        help="where the data and copies go",
    )
    parser.add_argument("--output", type=pathlib.Path, help="write the table here too")
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)
    source = options.data / f"maps_{options.steps}.zarr"
    if not (source / ".zmetadata").exists():
        print(f"writing {source}", file=sys.stderr)
        maps.write(source, options.steps)
    for file in source.rglob("*"):
        _ = file.is_file() and file.read_bytes()
    with tempfile.TemporaryDirectory(dir=options.data) as work:
        text = table(options, run(options, source, pathlib.Path(work)), source)
    print(text)
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
