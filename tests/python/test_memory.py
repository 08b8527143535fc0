"""Memory: what `--memory` or a cgroup allows decides what is done, and what is refused is named with the budget that would do."""

import json
import lzma
import os
import re
import shutil
import struct
from pathlib import Path

import numcodecs
import numpy as np
import pytest

import gen_v2
import measure
import oracle

MIB = 1 << 20
CHUNK = 12 * MIB  # elements of 4 bytes
SHAPE = (CHUNK // 2048, 2048)
# what the program takes beside its budget: its code, threads, the metadata of one array
PROGRAM_MB = 56
BUDGET = 128

CODECS = {
    "zlib": {"compressor": numcodecs.Zlib(1)},
    "zstd": {"compressor": numcodecs.Zstd(1)},
    "blosc": {"compressor": numcodecs.Blosc("lz4", 1, 1)},
    "lz4": {"compressor": numcodecs.LZ4(1)},
    "bz2": {"compressor": numcodecs.BZ2(1)},
    "lzma": {"compressor": numcodecs.LZMA(preset=0)},
    "delta-zstd": {"compressor": numcodecs.Zstd(1), "filters": [numcodecs.Delta("<i4")]},
    "fortran-zstd": {"compressor": numcodecs.Zstd(1), "order": "F"},
    "fortran-zlib": {"compressor": numcodecs.Zlib(1), "order": "F"},
}
COMMANDS = {
    "digest": ["digest", "STORE"],
    "compare": ["compare", "STORE", "STORE"],
    "rechunk": ["recompress", "STORE", "COPY", "--chunks", "0=512,1=512", "--codec", "zstd:1", "--verify", "full"],
    "recode": ["recompress", "STORE", "COPY", "--codec", "blosc:zstd:1:shuffle", "--verify", "full"],
    "slice": ["slice", "STORE", "--to", "COPY", "--isel", "dim_0=100..2000", "--codec", "zstd:1"],
}


def write_array(store, shape, chunk_bytes, dtype="<i4", **metadata):
    """One v2 array of one chunk."""
    document = {
        "zarr_format": 2, "shape": shape, "chunks": shape, "dtype": dtype, "compressor": None, "filters": None,
        "fill_value": 0, "order": "C",
    } | metadata  # fmt: skip
    store.mkdir(parents=True)
    (store / ".zarray").write_text(json.dumps(document))
    (store / ".".join("0" * len(shape))).write_bytes(chunk_bytes)
    return store


@pytest.fixture(scope="module")
def values():
    return (np.arange(CHUNK, dtype="<i4") // 64).reshape(SHAPE)


@pytest.fixture(scope="module", params=CODECS)
def large(request, values, tmp_path_factory):
    """48 MiB in one chunk, and their digest."""
    store = tmp_path_factory.mktemp("large") / "large.zarr"
    options = CODECS[request.param]
    data = values.tobytes(options.get("order", "C"))
    for codec in [*options.get("filters", []), options["compressor"]]:
        data = codec.encode(np.frombuffer(data, "<i4"))
    configurations = {"compressor": options["compressor"].get_config()}
    if "filters" in options:
        configurations["filters"] = [codec.get_config() for codec in options["filters"]]
    write_array(store, SHAPE, bytes(data), order=options.get("order", "C"), **configurations)
    yield store, oracle.digest(values)
    shutil.rmtree(store)


def named_budget(outcome):
    """The `--memory` that a refusal names."""
    text = outcome.err + outcome.stdout.decode()
    found = re.search(r"pass --memory (\d+)MiB or more", text)
    assert found, text
    return int(found[1])


def run_within(zkit, command, store, copy, memory):
    places = {"STORE": store, "COPY": copy}
    args = [places.get(word, word) for word in COMMANDS[command]]
    outcome = zkit(*args, "--memory", f"{memory}MiB", "--jobs", "2", timeout=300)
    assert outcome.peak_mb < memory + PROGRAM_MB, f"{outcome.peak_mb} MB of {memory}"
    return outcome


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_budget_refuses_the_budget_that_is_named_does(zkit, large, tmp_path, command):
    (store, digest), copy = large, tmp_path / "copy.zarr"
    outcome = run_within(zkit, command, store, copy, BUDGET)
    if outcome.code == 3:
        assert not copy.exists()
        outcome = run_within(zkit, command, store, copy, named_budget(outcome))
    assert outcome.code == 0, outcome.err + outcome.stdout.decode()
    if command in ("rechunk", "recode"):
        assert zkit.digests(copy)["/"] == digest


def test_a_byte_for_byte_copy_needs_no_memory_for_what_it_does_not_decode(zkit, large, tmp_path):
    (store, digest), copy = large, tmp_path / "copy.zarr"
    outcome = zkit(
        "recompress",
        store,
        copy,
        "--codec",
        "keep",
        "--memory",
        "32MiB",
        "--verify",
        "full",
        "--jobs",
        "2",
        timeout=300,
    )
    assert outcome.code == 0, outcome.err
    assert outcome.peak_mb < 32 + PROGRAM_MB
    assert zkit.digests(copy)["/"] == digest


# ---- windows ----------------------------------------------------------------------------------------------------


def long_frame(window_log, blocks):
    """A zstd frame of this window, of blocks of 128 KiB that hold one byte each: as large as `zstd --long` makes them."""
    header = struct.pack("<IBB", 0xFD2FB528, 0, (window_log - 10) << 3)
    last = len(blocks) - 1
    block = [
        ((128 << 10) << 3 | 1 << 1 | (at == last)).to_bytes(3, "little") + bytes([byte])
        for at, byte in enumerate(blocks)
    ]
    return header + b"".join(block)


@pytest.fixture(scope="module")
def long_windows(tmp_path_factory):
    """64 MiB in one chunk of a frame with a window of 256 MiB, and their digest."""
    blocks = [at % 251 for at in range(512)]
    store = tmp_path_factory.mktemp("long") / "long.zarr"
    write_array(store, [64 * MIB], long_frame(28, blocks), "|u1", compressor={"id": "zstd", "level": 1})
    return store, oracle.digest(np.repeat(np.array(blocks, "u1"), 128 << 10))


@pytest.mark.parametrize("memory", [24, 32, 64, 160, 1024])
def test_a_sound_frame_with_a_large_window_is_never_corrupt(zkit, long_windows, memory):
    store, digest = long_windows
    outcome = zkit("digest", store, "--memory", f"{memory}MiB", "--format", "json")
    assert outcome.peak_mb < memory + PROGRAM_MB
    if outcome.code == 3:
        named = named_budget(outcome)
        assert named > memory
        outcome = zkit("digest", store, "--memory", f"{named}MiB", "--format", "json")
    assert outcome.code == 0, outcome.err + outcome.stdout.decode()
    assert outcome.json()["arrays"][0]["sha256"] == digest


@pytest.mark.parametrize("memory", [32, 128])
def test_skipping_what_is_corrupt_skips_nothing_that_memory_is_short_of(zkit, long_windows, tmp_path, memory):
    (store, digest), copy = long_windows, tmp_path / "copy.zarr"
    args = ["recompress", store, copy, "--chunks", "0=1000000", "--codec", "zstd:1", "--on-corrupt", "skip"]
    outcome = zkit(*args, "--memory", f"{memory}MiB", "--jobs", "2", "--verify", "full")
    assert outcome.peak_mb < memory + PROGRAM_MB
    if outcome.code != 0:
        assert outcome.code == 3 and not copy.exists(), outcome.err
        assert "corrupt" not in outcome.err
        args.append("--restart")
        outcome = zkit(*args, "--memory", f"{named_budget(outcome)}MiB", "--jobs", "2", "--verify", "full")
    assert outcome.code == 0, outcome.err
    assert zkit.digests(copy)["/"] == digest


def test_a_dictionary_larger_than_the_data_takes_no_memory(zkit, tmp_path):
    values = np.arange(250_000, dtype="<i4")
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 512 * MIB}]
    compressor = {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": filters}
    data = lzma.compress(values.tobytes(), lzma.FORMAT_XZ, filters=filters)
    store = write_array(tmp_path / "a.zarr", [250_000], data, compressor=compressor)
    outcome = zkit("digest", store, "--memory", "64MiB", "--format", "json")
    assert outcome.code == 0, outcome.stdout
    assert outcome.json()["arrays"][0]["sha256"] == oracle.digest(values)
    assert outcome.peak_mb < 64 + PROGRAM_MB


def test_texts_that_compress_ten_thousand_times_are_not_corrupt(zkit, tmp_path):
    texts = np.array(["x" * 60] * 200_000, dtype=object)
    store, copy = tmp_path / "a.zarr", tmp_path / "copy.zarr"
    data = numcodecs.Zstd(3).encode(numcodecs.VLenUTF8().encode(texts))
    assert len(data) * 128 < 200_000 * 64
    write_array(
        store, [200_000], data, "|O", compressor={"id": "zstd", "level": 3}, filters=[{"id": "vlen-utf8"}], fill_value=""
    )  # fmt: skip
    args = ["recompress", store, copy, "--codec", "blosc:zstd:1:noshuffle", "--on-corrupt", "skip"]
    outcome = zkit(*args, "--memory", "16MiB", "--jobs", "2")
    assert outcome.code == 3 and not copy.exists(), outcome.stdout
    outcome = zkit(*args, "--memory", f"{named_budget(outcome)}MiB", "--jobs", "2", "--restart")
    assert outcome.code == 0, outcome.err
    assert zkit.digests(copy) == zkit.digests(store)


# ---- cgroups ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[100, 512])
def cgroup(request):
    """A cgroup of so many MiB, as a shell command that enters it."""
    folder = Path(f"/sys/fs/cgroup/memory/zkit-test-{os.getpid()}-{request.param}")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(f"{request.param}M")
    except OSError:
        pytest.skip("this machine lets tests make no memory cgroup")
    yield ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$0" "$@"']
    folder.rmdir()


def run_in_cgroup(zkit, cgroup, command, store, copy, **words):
    places = {"STORE": store, "COPY": copy, **words}
    args = [str(places.get(word, word)) for word in COMMANDS[command]]
    outcome = measure.run([*cgroup, str(zkit.path), *args, "--jobs", "2"], timeout=300)
    assert outcome.code in (0, 3), f"{args}: {outcome.code}: {outcome.err}"
    if outcome.code == 3:
        named_budget(outcome)


@pytest.mark.parametrize("large", ["zlib", "delta-zstd", "fortran-zlib"], indirect=True)
@pytest.mark.parametrize("command", COMMANDS)
def test_in_a_cgroup_nothing_is_killed(zkit, large, tmp_path, cgroup, command):
    run_in_cgroup(zkit, cgroup, command, large[0], tmp_path / "copy.zarr")


@pytest.mark.parametrize("command", COMMANDS)
def test_in_a_cgroup_no_window_is_killed(zkit, long_windows, tmp_path, cgroup, command):
    chunks = {"0=512,1=512": "0=1000000"}
    run_in_cgroup(zkit, cgroup, command, long_windows[0], tmp_path / "copy.zarr", **chunks)


# ---- what is not stored -----------------------------------------------------------------------------------------


def write_sparse(store, chunk, chunks):
    """2^58 bytes of which a few chunks are stored."""
    store.mkdir()
    document = {
        "zarr_format": 2, "shape": [1 << 58], "chunks": [chunk], "dtype": "|u1", "compressor": None, "filters": None,
        "fill_value": 7, "order": "C",
    }  # fmt: skip
    (store / ".zarray").write_text(json.dumps(document))
    for position, value in chunks.items():
        (store / str(position)).write_bytes(bytes([value]) * chunk)
    return store


def test_an_array_of_which_little_is_stored_is_digested_when_asked_alone(zkit, tmp_path):
    store = write_sparse(tmp_path / "a.zarr", 1000, {5: 1})
    outcome = zkit("digest", store, "--format", "json")
    assert outcome.code == 3 and not outcome.json()["complete"]
    error = outcome.json()["arrays"][0]["error"]
    assert "--unwritten" in error and "256 PiB" in error and "1 of" in error


def test_comparing_sparse_arrays_takes_what_is_stored(zkit, tmp_path):
    stores = {
        "a": write_sparse(tmp_path / "a.zarr", 1000, {5: 1, 1 << 40: 3}),
        "same": write_sparse(tmp_path / "same.zarr", 500, {10: 1, 11: 1, 2 << 40: 3, (2 << 40) + 1: 3}),
        "fill": write_sparse(tmp_path / "fill.zarr", 1000, {5: 1, 9: 7, 1 << 40: 3}),
        "left": write_sparse(tmp_path / "left.zarr", 1000, {5: 1}),
        "right": write_sparse(tmp_path / "right.zarr", 1000, {4: 2, 5: 1, 1 << 40: 3}),
    }
    for name, index in {"same": None, "fill": None, "left": [1000 << 40], "right": [4000]}.items():
        for sides in ((stores["a"], stores[name]), (stores[name], stores["a"])):
            outcome = zkit("compare", *sides, "--format", "json")
            assert outcome.code == (0 if index is None else 1), outcome.stdout
            assert [found["index"] for found in outcome.json()["differences"]] == ([] if index is None else [index])


def test_a_copy_of_a_sparse_array_takes_what_is_stored(zkit, tmp_path):
    store, copy = write_sparse(tmp_path / "a.zarr", 1000, {5: 1}), tmp_path / "copy.zarr"
    for options in (["--codec", "zstd:1"], ["--chunks", "0=700"], ["--codec", "keep"]):
        outcome = zkit("recompress", store, copy, *options, "--verify", "full", "--overwrite", "--yes")
        assert outcome.code == 0, outcome.err
        assert zkit("compare", store, copy).code == 0
    outcome = zkit("slice", store, "--to", tmp_path / "slice.zarr", "--isel", "dim_0=0..100000000000000")
    assert outcome.code == 3 and "positions" in outcome.err


def test_what_neither_side_stores_is_verified_without_being_read(zkit, tmp_path):
    store = gen_v2.group(tmp_path / "a.zarr")
    document = {
        "zarr_format": 2, "shape": [1000, 2048, 2048], "chunks": [1, 2048, 2048], "dtype": "<f4",
        "compressor": {"id": "zstd", "level": 1}, "filters": None, "fill_value": -1, "order": "C",
    }  # fmt: skip
    for name in "abc":
        (store / name).mkdir()
        (store / name / ".zarray").write_text(json.dumps(document))
    outcome = zkit("recompress", store, tmp_path / "copy.zarr", "--codec", "zstd:3", "--format", "json")
    assert outcome.code == 0, outcome.err
    verified = outcome.json()["verified"]
    assert verified["mode"] == "sample" and verified["bytes"] == 0 and verified["objects"] == 0
    assert verified["absent_regions"] > 0
    assert outcome.peak_mb < 100
