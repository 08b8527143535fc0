"""Times zkit on stores that are far away, beside a client that only fetches the same objects, and xarray; prints medians."""

import argparse
import asyncio
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import xarray
import zarr

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "tests" / "python" / "support")]
import far_server

LATENCY = 0.1
CONNECTIONS = 64
ARRAYS, LARGE = 3, 200


def small(folder, times):
    """Arrays of chunks of 4 KB."""
    random = np.random.default_rng(1)
    arrays = {
        f"a{n}": (("time", "y", "x"), random.integers(0, 1000, (times, 32, 32)).astype("f4")) for n in range(ARRAYS)
    }
    encoding = {name: {"chunks": (1, 32, 32)} for name in arrays}
    field = xarray.Dataset(arrays, coords={"time": np.arange(float(times))})
    field.to_zarr(folder / "small.zarr", zarr_format=2, consolidated=True, encoding=encoding)


def large(folder):
    """An array of chunks of 2 MiB, which a web server keeps."""
    root = zarr.open_group(folder / "large.zarr", mode="w", zarr_format=2)
    array = root.create_array("a", shape=(LARGE, 512, 1024), chunks=(1, 512, 1024), dtype="f4", compressors=None)
    random = np.random.default_rng(0)
    for number in range(LARGE):
        array[number] = random.integers(0, 9, (512, 1024))
    zarr.consolidate_metadata(folder / "large.zarr", zarr_format=2)


class Pausing(zarr.storage.LocalStore):
    """The files with the same pauses, and no server that costs time."""

    async def get(self, *args, **kwargs):
        await asyncio.sleep(LATENCY)
        return await super().get(*args, **kwargs)


def jobs(far, out):
    copy = ("--to", out / "slice.zarr", "--verify", "none")
    recoded = (out / "copy.zarr", "--codec", "zstd:1", "--verify", "none")
    plain = (out / "plain.zarr", "--codec", "none", "--verify", "none")
    web = f"http://127.0.0.1:{far.port}/far/large.zarr"
    return {
        "slice": ("slice", "s3://far/small.zarr", "--isel", "y=5", *copy),
        "audit": ("audit", "s3://far/small.zarr", "--depth", "headers", "--fail-on", "never"),
        "recompress": ("recompress", "s3://far/small.zarr", *recoded),
        "recompress from a web server": ("recompress", web, *plain),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zkit", type=pathlib.Path, required=True)
    parser.add_argument("--times", type=int, default=1000, help="chunks of each of three small arrays")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    # copies go to memory: what is timed is the way here
    shared = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as scratch:
        folder, out = pathlib.Path(scratch) / "far", pathlib.Path(scratch) / "out"
        folder.mkdir()
        small(folder, asked.times)
        large(folder)
        with far_server.served(folder, LATENCY) as far:
            seconds, requests = {}, {}
            for _ in range(asked.rounds):
                for name, job in jobs(far, out).items():
                    for connections in (CONNECTIONS, None):
                        shutil.rmtree(out, ignore_errors=True)
                        far.reset()
                        limit = ("--connections", connections) if connections else ()
                        command = [str(word) for word in (asked.zkit, *job, *limit)]
                        begun = time.monotonic()
                        subprocess.run(command, env={**os.environ, **far.environment}, check=True, capture_output=True)
                        seconds.setdefault((name, connections), []).append(time.monotonic() - begun)
                    requests[name] = len(far.requests)
                    paths = {path for _, path, status in far.requests if "list-type" not in path and status < 300}
                    ideal = far_server.ideal_seconds(far, sorted(paths), CONNECTIONS)
                    seconds.setdefault((name, "ideal"), []).append(ideal)
        begun = time.monotonic()
        theirs = xarray.open_zarr(Pausing(folder / "small.zarr", read_only=True), chunks=None, consolidated=True)
        theirs.isel(y=5).load().to_zarr(out / "theirs.zarr", zarr_format=2)
        theirs = time.monotonic() - begun
    print(
        f"{ARRAYS * asked.times} chunks of 4 KB, {LARGE} of 2 MiB; {LATENCY} s a request; medians of {asked.rounds}\n"
    )
    print(f"| job | ideal s, {CONNECTIONS} connections | zkit s, {CONNECTIONS} | ratio | zkit s | ratio | requests |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, count in requests.items():
        ideal, same, free = (statistics.median(seconds[name, which]) for which in ("ideal", CONNECTIONS, None))
        print(f"| {name} | {ideal:.2f} | {same:.2f} | {same / ideal:.2f} | {free:.2f} | {free / ideal:.2f} | {count} |")
    slicing = statistics.median(seconds["slice", None])
    print(f"| slice by xarray | | | | {theirs:.2f} | {theirs / slicing:.1f} x zkit | |")


if __name__ == "__main__":
    main()
