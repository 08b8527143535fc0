"""Rechunks through scratch space that die: what of it a resumed run goes on with, and that nothing is left behind."""

import pathlib
import shutil
import signal

import numpy as np
import pytest

import copies
import layouts
import oracle
from runs import DAMAGE, kill, names, partial_of, resume, started, wait_for_objects

SPILL = ("--codec", "zstd:19", "--chunks", "time=-1,lat=8,lon=8", "--memory", "1MiB", "--jobs", "2")


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """2 MB of maps in Fortran order, which no 1 MiB of memory turns into time series at once."""
    values = np.random.default_rng(4).integers(0, 400, (96, 64, 80)).astype("<f4")
    store = tmp_path_factory.mktemp("maps") / "maps.zarr"
    return copies.Source(layouts.cube_v2(store, values, (1, 64, 80), fill=None, order="F"))


@pytest.mark.parametrize("option", ["--resume", "--restart"])
@pytest.mark.parametrize(("stage", "objects"), [("scratch", 1), ("partial", 8), ("partial", 30)])
def test_a_kill_of_a_rechunk_through_scratch_space_loses_nothing(zkit, maps, tmp_path, stage, objects, option):
    copy, scratch = tmp_path / "work" / "copy.zarr", tmp_path / "scratch"
    scratch.mkdir()
    run = ["recompress", maps.path, copy, *SPILL, "--scratch", scratch]
    process = started(zkit, *run)
    watched = scratch if stage == "scratch" else partial_of(copy)
    wait_for_objects(process, watched, objects)
    kill(process)
    assert not copy.exists()
    report = zkit.json(*run, option, "--verify", "full")
    assert {array["path"]: array["strategy"] for array in report["arrays"]}["/t2m"] == "rechunk-spill"
    assert names(copy.parent) == ["copy.zarr"] and names(scratch) == [], "something is left behind"
    assert oracle.digests(copy) == maps.digests


@pytest.fixture
def own_maps(maps, tmp_path):
    """The maps, for a test that spoils them."""
    return pathlib.Path(shutil.copytree(maps.path, tmp_path / "maps.zarr"))


def spilled(zkit, source, folder, *options):
    """A rechunk through scratch space: (its command line, the copy, the scratch space)."""
    copy, scratch = folder / "work" / "copy.zarr", folder / "scratch"
    scratch.mkdir()
    return ["recompress", source, copy, *SPILL, "--scratch", scratch, *options], copy, scratch


def killed_at(zkit, run, watched, objects):
    process = started(zkit, *run)
    wait_for_objects(process, watched, objects)
    kill(process)


def spoil(source):
    """Makes rubbish, as long as before, of every chunk of the variable."""
    for chunk in (source / "t2m").glob("*.*.*"):
        chunk.write_bytes(b"\xff" * chunk.stat().st_size)


def test_what_is_in_scratch_space_is_not_read_from_the_source_again(zkit, maps, own_maps, tmp_path):
    run, copy, scratch = spilled(zkit, own_maps, tmp_path, "--source-check", "metadata", "--verify", "none")
    killed_at(zkit, run, partial_of(copy), 8)
    spoil(own_maps)
    report = zkit.json(*run, "--resume")
    assert report["resumed_objects"] > 0
    assert names(scratch) == []
    assert oracle.digests(copy) == maps.digests


def test_pieces_that_were_made_before_a_kill_are_not_made_again(zkit, maps, tmp_path):
    run, copy, scratch = spilled(zkit, maps.path, tmp_path)
    whole = zkit.json(*run)["bytes_decoded"]
    shutil.rmtree(copy)
    killed_at(zkit, run, scratch, 4)
    # the copy itself has nothing yet
    report = zkit.json(*run, "--resume", "--verify", "full")
    assert report["bytes_decoded"] < whole
    assert names(copy.parent) == ["copy.zarr"] and names(scratch) == []
    assert oracle.digests(copy) == maps.digests


def test_rounds_that_are_done_are_passed_over(zkit, maps, tmp_path):
    run, copy, scratch = spilled(zkit, maps.path, tmp_path, "--scratch-size", "1MiB")
    whole = zkit.json(*run)
    assert "rounds" in next(array["why"] for array in whole["arrays"] if array["path"] == "/t2m")
    shutil.rmtree(copy)
    killed_at(zkit, run, partial_of(copy), whole["objects_written"] * 3 // 4)
    report = zkit.json(*run, "--resume", "--verify", "full")
    assert report["bytes_decoded"] < whole["bytes_decoded"] * 0.7
    assert names(copy.parent) == ["copy.zarr"] and names(scratch) == []
    assert oracle.digests(copy) == maps.digests


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("victim", ["pieces", "journal"])
def test_damage_in_scratch_space_is_found_and_mended(zkit, maps, tmp_path, victim, damage):
    run, copy, scratch = spilled(zkit, maps.path, tmp_path)
    killed_at(zkit, run, partial_of(copy), 8)
    (own,) = scratch.iterdir()
    files = sorted(p for p in (own / victim).rglob("*") if p.is_file()) if victim == "pieces" else [own / victim]
    DAMAGE[damage](files[len(files) // 2])
    zkit.json(*run, "--resume")
    assert names(copy.parent) == ["copy.zarr"] and names(scratch) == []
    assert oracle.digests(copy) == maps.digests


def test_pieces_of_an_older_job_are_not_taken_for_those_of_this_one(zkit, maps, own_maps, tmp_path):
    run, copy, scratch = spilled(zkit, own_maps, tmp_path, "--source-check", "metadata")
    killed_at(zkit, run, partial_of(copy), 8)
    chunks = sorted((own_maps / "t2m").glob("*.*.*"), key=lambda p: [int(n) for n in p.name.split(".")])
    first, last = chunks[0].read_bytes(), chunks[-1].read_bytes()
    chunks[0].write_bytes(last)
    chunks[-1].write_bytes(first)
    zkit.json(*run, "--restart")
    assert names(scratch) == []
    changed = oracle.digests(copy)
    assert changed == oracle.digests(own_maps) and changed != maps.digests


def test_chunks_skipped_on_the_way_to_scratch_space_are_listed_after_a_kill(zkit, own_maps, tmp_path):
    chunk = own_maps / "t2m" / "40.0.0"
    chunk.write_bytes(chunk.read_bytes()[:99])
    run, copy, scratch = spilled(zkit, own_maps, tmp_path, "--on-corrupt", "skip")
    killed_at(zkit, run, partial_of(copy), 8)
    outcome = zkit(*run, "--resume", "--verify", "full", "--format", "json")
    assert outcome.code == 1, outcome.err
    assert [entry["chunk"] for entry in outcome.json()["corrupt_chunks"]] == [[40, 0, 0]]
    assert names(scratch) == []


def test_two_runs_do_not_share_scratch_space_by_a_name_in_common(zkit, maps, tmp_path):
    run, copy, scratch = spilled(zkit, maps.path, tmp_path)
    other = tmp_path / "other" / copy.name
    process = started(zkit, *run)
    wait_for_objects(process, scratch, 2)
    process.send_signal(signal.SIGSTOP)
    outcome = zkit(*run[:2], other, *run[3:])
    without = [*run[:2], tmp_path / "third" / copy.name, *run[3:], "--scratch-size", "0"]
    assert zkit(*without).code == 0, "this one needs no scratch space"
    process.send_signal(signal.SIGCONT)
    assert outcome.code == 3 and "--scratch" in outcome.err and str(scratch) in outcome.err, outcome.err
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert oracle.digests(copy) == maps.digests
    assert names(scratch) == []
    zkit.json(*run[:2], other, *run[3:])
    assert oracle.digests(other) == maps.digests


def test_a_run_that_ends_with_pieces_only_says_how_to_go_on(zkit, maps, tmp_path):
    run, copy, scratch = spilled(zkit, maps.path, tmp_path)
    process = started(zkit, *run)
    wait_for_objects(process, scratch, 4)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert b"--resume" in err
    resume(zkit, maps.path, copy, *run[3:])
    assert names(scratch) == []
    assert oracle.digests(copy) == maps.digests


@pytest.mark.parametrize("times", [1, 2])
def test_a_signal_in_a_rechunk_through_scratch_space_leaves_a_state_to_resume(zkit, maps, tmp_path, times):
    copy, scratch = tmp_path / "work" / "copy.zarr", tmp_path / "scratch"
    scratch.mkdir()
    run = ["recompress", maps.path, copy, *SPILL, "--scratch", scratch]
    process = started(zkit, *run)
    wait_for_objects(process, partial_of(copy), 8)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    resume(zkit, maps.path, copy, *run[3:])
    assert names(scratch) == []
    assert oracle.digests(copy) == maps.digests
