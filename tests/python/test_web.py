"""Stores on web servers, which have no listing: each chunk is asked for once, by those who read it next."""

import collections
import shutil

import numcodecs
import numpy as np
import pytest
import zarr

import web

SHAPE, CHUNKS = (12, 16, 8), (2, 8, 8)
GRID = 12


@pytest.fixture
def served(tmp_path):
    """A consolidated store of which one chunk was never written; its folder, its address and what the server saw."""
    folder = tmp_path / "web" / "a.zarr"
    root = zarr.open_group(folder, mode="w", zarr_format=2)
    values = np.random.default_rng(0).normal(280, 9, SHAPE).astype("f4")
    for name, compressor in [("packed", "auto"), ("raw", None), ("zipped", numcodecs.GZip())]:
        array = root.create_array(name, shape=SHAPE, chunks=CHUNKS, dtype="f4", compressors=compressor, fill_value=-1)
        array[:10] = values[:10]
        array[10:, :8] = values[10:, :8]
    zarr.consolidate_metadata(folder, zarr_format=2)
    with web.served(folder.parent) as (address, seen):
        yield folder, f"{address}/a.zarr", seen


def requests_of_chunks(seen):
    """How often each chunk was asked for."""
    chunk = collections.Counter()
    for path, _ in seen:
        name = path.rsplit("/", 1)[1]
        if name[0].isdigit():
            chunk[path] += 1
    return chunk


def test_a_copy_asks_for_each_chunk_once(zkit, served, tmp_path):
    folder, url, seen = served
    outcome = zkit("recompress", url, tmp_path / "copy.zarr", "--codec", "zstd:1", "--verify", "none")
    assert outcome.code == 0, outcome.err
    counts = requests_of_chunks(seen)
    assert len(counts) == 3 * GRID and set(counts.values()) == {1}, counts
    assert not any(asked == "HEAD" for _, asked in seen)
    source, copy = zarr.open_group(folder, mode="r"), zarr.open_group(tmp_path / "copy.zarr", mode="r")
    for name in ("packed", "raw", "zipped"):
        np.testing.assert_array_equal(copy[name][:], source[name][:])


@pytest.fixture
def large(tmp_path):
    """A store of chunks of 3 MiB, of which some were never written: its folder."""
    folder = tmp_path / "web" / "large.zarr"
    root = zarr.open_group(folder, mode="w", zarr_format=2)
    values = np.random.default_rng(0).integers(0, 9, (24, 1024, 768)).astype("f4")
    for name, fill in [("filled", -1), ("unfilled", None)]:
        array = root.create_array(name, shape=values.shape, chunks=(1, 1024, 768), dtype="f4", fill_value=fill)
        array[:7] = values[:7]
        array[9:] = values[9:]
    zarr.consolidate_metadata(folder, zarr_format=2)
    return folder


LARGE_GRID = 24


def copy_of(address, tmp_path, *options):
    return ("recompress", f"{address}/large.zarr", tmp_path / "copy.zarr", "--codec", "zstd:1", *options)


COPIES = [(), ("--zarr-format", "3"), ("--chunks", "0=4,1=512")]


@pytest.mark.parametrize("options", COPIES)
def test_large_chunks_are_asked_for_once_whether_they_are_there_or_not(zkit, large, tmp_path, options):
    with web.served(large.parent) as (address, seen):
        arguments = copy_of(address, tmp_path, *options)
        planned = zkit(*arguments, "--dry-run", "--format", "json")
        assert planned.code == 0, planned.err
        # a plan goes by a few chunks of each array, and says so
        assert len([path for path, asked in seen if asked == "HEAD"]) == 2 * 3, seen
        assert all(array["stored_is_estimate"] for array in planned.json()["arrays"])
        seen.clear()
        outcome = zkit(*arguments, "--verify", "none")
        assert outcome.code == 0, outcome.err
        # where some were not there, those that had been are asked for again: the source could have vanished
        looked_at = collections.Counter(path for path, asked in seen if asked == "HEAD")
        assert len(looked_at) == 2 * 3 and set(looked_at.values()) == {1}, looked_at
        counts = requests_of_chunks([one for one in seen if one[1] != "HEAD"])
        assert len(counts) == 2 * LARGE_GRID and set(counts.values()) == {1}, counts
    source, copy = zarr.open_group(large, mode="r"), zarr.open_group(tmp_path / "copy.zarr", mode="r")
    for name in ("filled", "unfilled"):
        np.testing.assert_array_equal(copy[name][:], source[name][:])


def test_a_copy_from_a_web_server_is_proved_chunks_that_are_absent_too(zkit, large, tmp_path):
    with web.served(large.parent) as (address, _):
        outcome = zkit(*copy_of(address, tmp_path, "--verify", "full", "--format", "json"))
    assert outcome.code == 0, outcome.err
    assert outcome.json()["verified"]["bytes"] == 2 * LARGE_GRID * 3 * 1024 * 1024
    assert not (tmp_path / "copy.zarr" / "filled" / "7.0.0").exists()


@pytest.mark.parametrize("options", COPIES)
def test_a_source_that_vanishes_while_it_is_read_is_no_source_of_few_chunks(zkit, large, tmp_path, options):
    kept = tmp_path / "kept.zarr"
    shutil.copytree(large, kept)
    asked = []

    def watch(path):
        if path.rsplit("/", 1)[1][0].isdigit():
            asked.append(path)
            if len(asked) == 20:
                for chunk in large.glob("*/[0-9]*"):
                    chunk.unlink()

    with web.served(large.parent, watch) as (address, _):
        arguments = copy_of(address, tmp_path, *options)
        outcome = zkit(*arguments)
        assert outcome.code == 3 and "is gone now: the source changes while it is read" in outcome.err, outcome.err
        assert not (tmp_path / "copy.zarr").exists()
        # nothing that was taken for absent counts as done
        shutil.copytree(kept, large, dirs_exist_ok=True)
        outcome = zkit(*arguments, "--resume", "--verify", "none")
        assert outcome.code == 0, outcome.err
    source, copy = zarr.open_group(kept, mode="r"), zarr.open_group(tmp_path / "copy.zarr", mode="r")
    for name in ("filled", "unfilled"):
        np.testing.assert_array_equal(copy[name][:], source[name][:])


def test_each_object_is_asked_for_where_all_of_them_are_to_be_compared(zkit, large, tmp_path):
    with web.served(large.parent) as (address, seen):
        outcome = zkit(*copy_of(address, tmp_path, "--verify", "none", "--source-check", "objects"))
    assert outcome.code == 0, outcome.err
    assert len({path for path, asked in seen if asked == "HEAD"} & set(requests_of_chunks(seen))) == 2 * LARGE_GRID


def test_what_is_not_copied_is_asked_for_and_not_fetched(zkit, served, tmp_path):
    _, url, seen = served
    options = ("--codec", "zstd:1", "--verify", "none")
    outcome = zkit("recompress", url, tmp_path / "copy.zarr", *options, "--dry-run")
    assert outcome.code == 0, outcome.err
    counts = requests_of_chunks(seen)
    assert {path for path, asked in seen if asked == "HEAD"} >= set(counts) and len(counts) == 3 * GRID
    samples = {path for path, asked in seen if asked != "HEAD" and path in counts}
    assert len(samples) <= GRID, samples
    seen.clear()
    outcome = zkit("recompress", url, tmp_path / "copy.zarr", *options, "--first", "1")
    assert outcome.code == 0, outcome.err
    fetched = {path for path, asked in seen if asked != "HEAD" and path in counts}
    assert len(fetched) == GRID and len({path.rsplit("/", 2)[1] for path in fetched}) == 1, fetched
    assert set(requests_of_chunks(seen).values()) == {1}


def test_an_audit_of_headers_asks_for_each_chunk_once(zkit, served):
    folder, url, seen = served
    outcome = zkit("audit", url, "--depth", "headers", "--format", "json")
    local = zkit("audit", folder, "--depth", "headers", "--format", "json")
    counts = requests_of_chunks(seen)
    assert len(counts) == 3 * GRID and set(counts.values()) == {1}, counts

    def found(answer):
        return {(one["rule"], one["array"]) for one in answer.json()["findings"]}

    assert found(outcome) == found(local) and outcome.code == local.code


def test_faults_are_found_behind_a_web_server(zkit, served):
    folder, url, _ = served
    whole = (folder / "packed" / "0.0.0").read_bytes()
    (folder / "packed" / "0.0.0").write_bytes(b"")
    (folder / "packed" / "1.0.0").write_bytes(whole[:20])
    (folder / "zipped" / "1.0.0").write_bytes(b"")
    outcome = zkit("audit", url, "--depth", "headers", "--format", "json")
    found = {(one["rule"], one["array"]) for one in outcome.json()["findings"]}
    expected = {("zero-byte-chunk", "/packed"), ("truncated-chunk", "/packed"), ("zero-byte-chunk", "/zipped")}
    assert outcome.code == 1 and expected <= found, (found, outcome.err)


def test_an_inspection_fetches_no_chunk(zkit, served):
    _, url, seen = served
    outcome = zkit("inspect", url, "--depth", "listing")
    assert outcome.code == 0, outcome.err
    counts = requests_of_chunks(seen)
    assert len(counts) == 3 * GRID and all(asked == "HEAD" for path, asked in seen if path in counts)
