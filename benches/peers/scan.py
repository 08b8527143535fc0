"""Looks at every value of a store with zkit and with tensorstore and numpy, in turn, and prints the medians.

python scan.py --zkit ZKIT [--rounds 3] [--steps 160]      one table: seconds, CPU seconds, peak MB
python scan.py --peer STORE                                what the peer does, once
"""

import argparse
import json
import pathlib
import statistics
import sys
from collections import deque

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests" / "python" / "support")]
import maps

import measure

IN_FLIGHT = 4


def with_tensorstore(store):
    """Counts NaN and infinities, and finds the extremes, map by map with a few on their way."""
    import numpy as np
    import tensorstore

    found = {}
    for name, *_ in maps.VARIABLES:
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{store}/{name}"}}
        array = tensorstore.open(spec, open=True, read=True).result()
        counts, least, most = [0, 0], np.inf, -np.inf
        steps, waiting = iter(range(array.shape[0])), deque()
        while True:
            waiting.extend(array[step].read() for _, step in zip(range(IN_FLIGHT - len(waiting)), steps, strict=False))
            if not waiting:
                break
            values = waiting.popleft().result()
            finite = np.isfinite(values)
            nan = int(np.isnan(values).sum())
            counts[0] += nan
            counts[1] += int(values.size - finite.sum()) - nan
            least = min(least, values.min(where=finite, initial=np.inf))
            most = max(most, values.max(where=finite, initial=-np.inf))
        found[name] = {"nan": counts[0], "infinite": counts[1], "min": float(least), "max": float(most)}
    return found


def values_of(answer):
    """{name: (nan, infinite, min, max)} of zkit's JSON."""
    variables = {entry["array"].strip("/"): entry for entry in answer["variables"]}

    def of(name):
        found = variables[name]
        # the missing value of these maps is NaN, which zkit counts by itself
        return found["nan"] + found["missing"], found["infinite"], found["min"], found["max"]

    return {name: of(name) for name, *_ in maps.VARIABLES}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zkit")
    parser.add_argument("--peer", metavar="STORE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "target" / "bench")
    options = parser.parse_args()
    if options.peer:
        return print(json.dumps(with_tensorstore(options.peer)))
    options.data.mkdir(parents=True, exist_ok=True)
    store = options.data / f"maps_{options.steps}_f4_C.zarr"
    if not (store / ".zmetadata").exists():
        maps.write(store, options.steps, "f4", "C")
    commands = {
        "zkit audit --depth full": [options.zkit, "audit", store, "--depth", "full", "--fail-on", "never"],
        "tensorstore and numpy": [sys.executable, __file__, "--peer", store],
    }
    commands["zkit audit --depth full"] += ["--format", "json", "--quiet"]
    runs = {label: [] for label in commands}
    for number in range(options.rounds + 1):
        answers = {}
        for label, command in commands.items():
            outcome = measure.run([str(part) for part in command], timeout=3600)
            assert outcome.code == 0, f"{label}: {outcome.err}"
            answers[label] = outcome.json()
            # the first round warms the page cache
            if number:
                runs[label].append((outcome.seconds, outcome.cpu_seconds, outcome.peak_mb))
        ours, theirs = answers.values()
        for name, found in values_of(ours).items():
            assert found == tuple(theirs[name].values()), f"{name}: {found} and {theirs[name]}"
    print("| tool | s | CPU s | peak MB |\n|---|--:|--:|--:|")
    for label, of in runs.items():
        seconds, cpu, peak = map(statistics.median, zip(*of, strict=True))
        print(f"| {label} | {seconds:.2f} | {cpu:.2f} | {peak:.0f} |")
    return None


if __name__ == "__main__":
    main()
