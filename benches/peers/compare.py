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
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests" / "python" / "support")]
import maps
from copy_with import BLOSC, PEERS, RECHUNKERS, ZSTD

import measure

SERIES = "time=-1,latitude=32,longitude=32"
CUBES = "time=64,latitude=64,longitude=64"
#        what it is, codec of the peers, --codec of zkit, codec of zarrs_reencode, other options of zkit, data
TASKS = {
    "A1": ("same grid, to blosc(zstd 3, bitshuffle)", "blosc", "blosc:zstd:3:bitshuffle", BLOSC, [], ("f4", "C")),
    "A2": ("same grid, to zstd 3", "zstd", "zstd:3", ZSTD, [], ("f4", "C")),
    "B": ("to time series", "blosc", "blosc:zstd:3:bitshuffle", None, ["--chunks", SERIES], ("f4", "C")),
    "cubes": ("to cubes", "blosc", "blosc:zstd:3:bitshuffle", None, ["--chunks", CUBES], ("f4", "C")),
    "order": ("order F, to series", "blosc", "blosc:zstd:3:bitshuffle", None, ["--chunks", SERIES], ("f4", "F")),
    "int16": ("int16, to series", "blosc", "blosc:zstd:3:bitshuffle", None, ["--chunks", SERIES], ("i2", "C")),
    "float64": ("float64, to series", "blosc", "blosc:zstd:3:bitshuffle", None, ["--chunks", SERIES], ("f8", "C")),
    "shards": (
        "to series in shards",
        "blosc",
        "blosc:zstd:3:bitshuffle",
        None,
        ["--chunks", SERIES, "--shards", "time=-1,latitude=256,longitude=256"],
        ("f4", "C"),
    ),
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
    _, kind, codec, json_codec, more, _ = TASKS[task]
    zkit = [options.zkit, "recompress", source, "{destination}", "--zarr-format", "3", *more, "--quiet"]
    fixed = ["--codec", codec]
    unverified = ["--verify", "none"]
    if more:
        table = {f"zkit, {memory}": [*zkit, *fixed, *unverified, "--memory", memory] for memory in ("512MiB", "128MiB")}
        table["zkit, 512MiB, codec auto"] = [*zkit, *unverified, "--memory", "512MiB"]
        table["zkit, 512MiB, verified"] = [*zkit, *fixed, "--memory", "512MiB"]
        if task != "shards":
            chunks = f"{options.steps},32,32" if task != "cubes" else "64,64,64"
            for peer in RECHUNKERS:
                table[peer] = [sys.executable, HERE / "copy_with.py", peer, source, "{destination}", kind, chunks]
    else:
        table = {"zkit": [*zkit, *fixed, *unverified], "zkit, codec auto": [*zkit, *unverified]}
        if options.zarrs_reencode:
            loop = [options.zarrs_reencode, json.dumps(json_codec), source, "{destination}"]
            table["zarrs_reencode"] = ["sh", "-c", ZARRS_LOOP, *loop]
        for peer in PEERS:
            table[peer] = [sys.executable, HERE / "copy_with.py", peer, source, "{destination}", kind]
        table["zkit, verified"] = [*zkit, *fixed]
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


def run(options, sources, work):
    """One list of (seconds, CPU seconds, peak MB, stored bytes) for each (task, label)."""
    results = {}
    for number in range(options.rounds):
        for task in options.tasks:
            source = sources[TASKS[task][-1]]
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
                    (outcome.seconds, outcome.cpu_seconds, outcome.peak_mb, stored_bytes(destination))
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


def table(options, results, sources):
    processor = processor_name()
    elements = len(maps.VARIABLES) * options.steps * maps.LATITUDES * maps.LONGITUDES
    stored = ", ".join(f"{stored_bytes(store) / 1e6:.0f} MB as {kind}" for kind, store in sources.items())
    lines = [
        f"{elements / 1e6:.0f} million elements, stored in {stored}; "
        f"medians of {options.rounds} interleaved runs, page cache warm; {os.cpu_count()} cores of {processor}",
        "",
    ]
    for task in options.tasks:
        lines += [
            f"{task}: {TASKS[task][0]}",
            "",
            "| tool | s | CPU s | peak MB | stored MB |",
            "|---|--:|--:|--:|--:|",
        ]
        rows = [
            (label, *map(statistics.median, zip(*runs, strict=True)))
            for (of, label), runs in results.items()
            if of == task
        ]
        lines += [
            f"| {label} | {seconds:.2f} | {cpu:.2f} | {peak:.0f} | {stored / 1e6:.0f} |"
            for label, seconds, cpu, peak, stored in sorted(rows, key=lambda row: row[1])
        ]
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zkit", required=True)
    parser.add_argument("--zarrs-reencode")
    parser.add_argument("--steps", type=int, default=160, help="maps a variable; 160 make 2 GB decoded")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=["A1", "A2", "B"])
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
    sources = {}
    for data_type, order in sorted({TASKS[task][-1] for task in options.tasks}):
        source = options.data / f"maps_{options.steps}_{data_type}_{order}.zarr"
        if not (source / ".zmetadata").exists():
            print(f"writing {source}", file=sys.stderr)
            maps.write(source, options.steps, data_type, order)
        for file in source.rglob("*"):
            _ = file.is_file() and file.read_bytes()
        sources[data_type, order] = source
    with tempfile.TemporaryDirectory(dir=options.data) as work:
        text = table(options, run(options, sources, pathlib.Path(work)), sources)
    print(text)
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
