"""What `zkit audit` finds in stores that zarr-python wrote and somebody broke: a cache of batches, and hostile stores."""

import json
import os
import pathlib

import numcodecs
import numpy
import pytest
import zarr

import gen_v2
from conftest import FIXTURES, MEMORY_LIMIT_MB, SECONDS_LIMIT
from gen_values import weather
from test_faults import HOSTILE

VARIABLES = ("t2m", "u10", "precipitation")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 4096\n"


# ---- a cache of batches ------------------------------------------------------------------------------------------


def write_batch(path, file_ids, seed, compute=True, all_nan=False):
    """A store as a cache of batches has it: ids, and variables along them."""
    group = zarr.open_group(path, mode="w", zarr_format=2)
    ids = group.create_array("file_id", data=numpy.asarray(file_ids, dtype="int64"), chunks=(len(file_ids),))
    ids.attrs["_ARRAY_DIMENSIONS"] = ["file_id"]
    generator = numpy.random.default_rng(seed)
    for name in VARIABLES:
        shape = (len(file_ids), 24, 32)
        array = group.create_array(name, shape=shape, chunks=(1, 24, 32), dtype="float32", fill_value=numpy.nan)
        array.attrs["_ARRAY_DIMENSIONS"] = ["file_id", "y", "x"]
        if not compute:
            continue
        values = generator.normal(280, 10, shape).astype("float32")
        if all_nan:
            array[...] = -1.0
            array[...] = numpy.full(shape, numpy.nan, "float32")
            # a writer that keeps empty chunks
            store_nan(path, name, shape)
        else:
            array[...] = values


def store_nan(path, name, shape):
    """Writes chunks of NaN as files, as writers with write_empty_chunks=True do."""
    with zarr.config.set({"array.write_empty_chunks": True}):
        array = zarr.open_group(path, mode="r+", zarr_format=2)[name]
        array[...] = numpy.full(shape, numpy.nan, "float32")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """22 stores: two never computed, one all NaN, 95 ids of which 69 are unique, a chunk cut off, a chunk that is a pointer."""
    folder = tmp_path_factory.mktemp("cache")
    sizes = [5, 5, 5, 5, 5, 5, 5] + [4] * 15
    assert len(sizes) == 22 and sum(sizes) == 95
    ids = list(range(69)) + list(range(26))
    start = 0
    for batch, size in enumerate(sizes):
        chosen = ids[start : start + size]
        start += size
        write_batch(folder / f"batch_{batch:02}.zarr", chosen, batch, compute=batch not in (3, 17), all_nan=batch == 8)
    cut = folder / "batch_05.zarr" / "t2m" / "1.0.0"
    cut.write_bytes(cut.read_bytes()[:-40])
    (folder / "batch_11.zarr" / "u10" / "2.0.0").write_bytes(POINTER)
    return folder


def test_the_cache_that_lied_is_found_out_in_one_run(zkit, cache):
    outcome = zkit("audit", cache, "--depth", "full", "--format", "json")
    assert outcome.code == 1, outcome.err
    document = outcome.json()
    assert len(document["stores"]) == 22
    by_rule = {}
    for finding in document["findings"]:
        place = (os.path.basename(finding["store"].rstrip("/")), finding["array"])
        by_rule.setdefault(finding["rule"], set()).add((*place, finding["severity"]))
    unwritten = {(f"batch_{batch:02}.zarr", f"/{name}", "error") for batch in (3, 17) for name in VARIABLES}
    assert by_rule["metadata-only-array"] >= unwritten
    assert {store for store, _, _ in by_rule["undersized-store"]} >= {"batch_03.zarr", "batch_17.zarr"}
    assert {("batch_08.zarr", f"/{name}", "error") for name in VARIABLES} <= by_rule["all-nan"]
    assert ("batch_05.zarr", "/t2m", "error") in by_rule["truncated-chunk"]
    assert ("batch_11.zarr", "/u10", "error") in by_rule["pointer-file"]
    repeated = [f for f in document["findings"] if f["rule"] == "duplicate-ids"]
    text = json.dumps(repeated)
    assert "95" in text and "69" in text and "26" in text, text
    # and nothing else is called an error
    expected = {
        "metadata-only-array",
        "undersized-store",
        "all-nan",
        "truncated-chunk",
        "pointer-file",
        "duplicate-ids",
    }
    errors = {rule for rule, places in by_rule.items() if any(severity == "error" for _, _, severity in places)}
    assert errors - {"corrupt-chunk"} <= expected, errors


def test_the_sound_part_of_the_cache_has_no_findings(zkit, cache):
    outcome = zkit(
        "audit", *(cache / f"batch_{batch:02}.zarr" for batch in (0, 1, 2)), "--depth", "full", "--format", "json"
    )
    bad = [finding for finding in outcome.json()["findings"] if finding["severity"] != "info"]
    assert outcome.code == 0 and not bad, bad


def test_text_names_the_worst_first(zkit, cache):
    outcome = zkit("audit", cache, "--depth", "headers")
    text = outcome.stdout.decode()
    assert outcome.code == 1
    assert "metadata-only-array" in text and "batch_03.zarr" in text


# ---- hostile stores ----------------------------------------------------------------------------------------------


def within_bounds(outcome):
    assert outcome.seconds < SECONDS_LIMIT, f"{outcome.args}: {outcome.seconds:.1f} s"
    assert outcome.peak_mb < MEMORY_LIMIT_MB, f"{outcome.args}: {outcome.peak_mb:.0f} MB"
    return outcome


@pytest.mark.parametrize("title", HOSTILE)
def test_absurd_metadata_is_a_finding(zkit, tmp_path, title):
    store = gen_v2.group(tmp_path / "hostile.zarr")
    gen_v2.write_json(store / "bad" / ".zarray", HOSTILE[title])
    gen_v2.v2(store / "good", weather())
    outcome = within_bounds(zkit("audit", store, "--depth", "full", "--format", "json"))
    assert outcome.code in (0, 1, 3)
    found = [finding for finding in outcome.json()["findings"] if finding["array"] == "/bad"]
    assert found, outcome.stdout


@pytest.mark.parametrize("format", ["text", "json", "junit", "sarif", "github", "html"])
def test_control_characters_never_reach_the_terminal(zkit, tmp_path, format):
    store = gen_v2.group(tmp_path / "escape.zarr", {"title": "\x1b]0;owned\x07"})
    gen_v2.v2(store / "na\x1b[31mme", weather(), dims=["\x1b[2J", "x\r"], absent={(0, 0)})
    (store / "\x1b[31mred.partial").write_bytes(b"x")
    outcome = within_bounds(zkit("audit", store, "--depth", "full", "--format", format))
    for text in (outcome.stdout, outcome.stderr):
        assert not set(text) & {0x1B, 0x07, 0x0D}


def test_pipes_and_circles_do_not_hang(zkit, tmp_path):
    store = gen_v2.group(tmp_path / "pipe.zarr")
    gen_v2.v2(store / "array", weather(), absent={(0, 0)})
    os.mkfifo(store / "array" / "0.0")
    (store / "loop").symlink_to(".")
    outcome = within_bounds(zkit("audit", store, "--depth", "full", "--format", "json", timeout=10))
    assert outcome.code == 3
    assert "unreadable" in {finding["rule"] for finding in outcome.json()["findings"]}


def test_a_repository_that_unpacks_to_much_more_stays_within_bounds(zkit, tmp_path):
    bomb = bytes(numcodecs.Zstd(1).encode(bytes(256 << 20)))
    header = "ICE🧊CHUNK".encode() + b"somebody".ljust(24) + b"\x01\x01\x01"
    for folder in ("snapshots", "manifests", "transactions"):
        for name in ("0" * 20, "1" * 20):
            path = tmp_path / "repo" / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(header + bomb)
    (tmp_path / "repo" / "refs" / "branch.main").mkdir(parents=True)
    (tmp_path / "repo" / "refs" / "branch.main" / "ref.json").write_text(json.dumps({"snapshot": "0" * 20}))
    outcome = within_bounds(zkit("audit", tmp_path / "repo", "--depth", "full", "--format", "json"))
    assert [found["rule"] for found in outcome.json()["findings"]] == ["corrupt-manifest"]


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("faulty_*")))
def test_faulty_fixtures_fail_within_bounds(zkit, name):
    outcome = within_bounds(zkit("audit", FIXTURES / name, "--depth", "full", "--format", "json"))
    assert outcome.code in (1, 3), outcome.stdout


def test_references_never_make_this_machine_read_its_own_files(zkit, tmp_path):
    refs = {
        ".zgroup": '{"zarr_format":2}',
        "a/.zarray": json.dumps(gen_v2_array()),
        "a/0": ["file:///etc/hostname", 0, 5],
    }
    path = tmp_path / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    outcome = within_bounds(zkit("audit", path, "--follow-references", "--format", "json"))
    assert outcome.code == 1
    assert {finding["rule"] for finding in outcome.json()["findings"]} >= {"reference-outside", "reference-store"}
    hostname = pathlib.Path("/etc/hostname").read_text().strip()
    assert not hostname or hostname not in outcome.stdout.decode()


def gen_v2_array():
    return {
        "zarr_format": 2,
        "shape": [10],
        "chunks": [5],
        "dtype": "|u1",
        "compressor": None,
        "filters": None,
        "order": "C",
        "fill_value": 0,
    }
