"""Runs that die: killed, interrupted, out of space, beside damaged sources; and that --resume finishes them."""

import contextlib
import math
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import numcodecs
import numpy as np
import pytest

import copies
import gen_v2
import layouts
import oracle
from conftest import listing
from runs import (
    DAMAGE,
    contents,
    flip,
    journal_of,
    kill,
    names,
    partial_of,
    poll,
    resume,
    started,
    wait_for_objects,
)

SHAPE = (32, 128, 96)
SLOW = ("--codec", "zstd:19", "--chunks", "time=8,lat=16,lon=32")
QUICK = ("--codec", "zstd:1", "--chunks", "y=2,x=8")


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """1.5 MB that take one thread about half a second to compress; read once."""
    store = tmp_path_factory.mktemp("slow") / "slow.zarr"
    values = np.random.default_rng(1).integers(0, 400, SHAPE).astype("<f4")
    return copies.Source(layouts.cube_v2(store, values, (1, 128, 96), fill=None))


@pytest.fixture(scope="module")
def undisturbed(zkit, slow, tmp_path_factory):
    """The copy that nothing disturbed, as bytes by key, and the seconds it took."""
    copy = tmp_path_factory.mktemp("undisturbed") / "copy.zarr"
    outcome = zkit("recompress", slow.path, copy, *SLOW, "--jobs", "1")
    assert outcome.code == 0, outcome.err
    assert oracle.digests(copy) == slow.digests
    return contents(copy), outcome.seconds


@pytest.fixture(scope="module")
def unit(zkit, slow, tmp_path_factory):
    """Objects of one unit of work: they are journalled together, so that a run on one thread may lose so many."""
    folder = tmp_path_factory.mktemp("unit")
    plan = zkit.json("recompress", slow.path, folder / "copy.zarr", *SLOW, "--jobs", "1", "--dry-run")
    unit = next(math.prod(array["unit_chunks"]) for array in plan["arrays"] if array["path"] == "/t2m")
    assert unit <= 24, "the checks below would show nothing: a unit is nearly all of the work"
    return unit


@pytest.fixture(scope="module")
def killed(zkit, slow, tmp_path_factory):
    """A folder in which a run died after three quarters of its objects: to be copied, not changed."""
    folder = tmp_path_factory.mktemp("killed")
    process = started(zkit, "recompress", slow.path, folder / "copy.zarr", *SLOW, "--jobs", "1")
    wait_for_objects(process, folder / "copy.zarr.partial", 76)
    kill(process)
    assert names(folder) == ["copy.zarr.partial", "copy.zarr.partial.journal"]
    return folder


@pytest.fixture(scope="module")
def recorded(zkit, slow, killed, tmp_path_factory):
    """Objects that a run which goes on with the killed one takes over, where nothing is damaged."""
    folder = shutil.copytree(killed, tmp_path_factory.mktemp("recorded") / "work")
    return resume(zkit, slow.path, folder / "copy.zarr", *SLOW)["resumed_objects"]


@pytest.fixture
def unfinished(killed, tmp_path):
    """The path of a copy whose run died; its partial store may be changed."""
    folder = shutil.copytree(killed, tmp_path / "unfinished")
    return folder / "copy.zarr"


def seconds_of(process):
    """CPU seconds of a running process, by its statistics in /proc."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def refused(zkit, folder, *arguments, words=(), codes=(2, 3)):
    before = listing(folder)
    outcome = zkit("recompress", *arguments)
    assert outcome.code in codes, f"exit {outcome.code}: {outcome.err}"
    for word in words:
        assert word in outcome.err, outcome.err
    assert listing(folder) == before, "a refusal changed something"
    return outcome


# ---- SIGKILL ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", range(12))
def test_a_kill_at_any_moment_loses_one_unit_at_most(zkit, slow, undisturbed, unit, tmp_path, moment):
    wanted, seconds = undisturbed
    copy = tmp_path / "copy.zarr"
    process = started(zkit, "recompress", slow.path, copy, *SLOW, "--jobs", "1")
    try:
        process.wait(seconds * random.Random(moment).uniform(moment / 12, (moment + 1) / 12))
    except subprocess.TimeoutExpired:
        kill(process)
    partial = partial_of(copy)
    stored = layouts.objects(partial) if partial.exists() else 0
    if copy.exists():
        assert contents(copy) == wanted, "what is at the destination is not complete"
    report = resume(zkit, slow.path, copy, *SLOW)
    assert contents(copy) == wanted
    if "already_done" not in report:
        # what is written last is metadata: eleven objects that no journal needs
        assert stored - unit - 11 <= report["resumed_objects"] <= stored, "work was thrown away"


def test_the_moments_of_the_kills_fall_into_the_work(zkit, slow, undisturbed, killed):
    """Guards the check above: a run that took no time would be killed before or after all of its work."""
    assert undisturbed[1] > 0.2
    assert 76 <= layouts.objects(killed / "copy.zarr.partial") < len(undisturbed[0])


def test_many_kills_in_a_row_come_to_an_end(zkit, slow, undisturbed, unit, tmp_path):
    copy, stored = tmp_path / "copy.zarr", 0
    for _ in range(3):
        process = started(zkit, "recompress", slow.path, copy, *SLOW, "--jobs", "1", "--resume")
        wait_for_objects(process, partial_of(copy), stored + unit + 1)
        kill(process)
        stored = layouts.objects(partial_of(copy))
    report = resume(zkit, slow.path, copy, *SLOW)
    assert report["resumed_objects"] >= stored - unit, "only what was not journalled yet may be lost"
    assert contents(copy) == undisturbed[0]


def test_shards_are_gone_on_with(zkit, slow, tmp_path):
    options = [
        "--codec",
        "zstd:19",
        "--zarr-format",
        "3",
        "--chunks",
        "time=8,lat=16,lon=16",
        "--shards",
        "time=16,lat=16,lon=48",
    ]
    copy = tmp_path / "copy.zarr"
    process = started(zkit, "recompress", slow.path, copy, *options, "--jobs", "1")
    wait_for_objects(process, partial_of(copy), 12)
    kill(process)
    assert resume(zkit, slow.path, copy, *options)["resumed_objects"] > 0
    copies.assert_faithful(slow, copy, zarr_format="3", codec="zstd")


def test_a_resumed_copy_is_faithful_and_says_what_it_took_over(zkit, slow, undisturbed, unit, unfinished):
    stored = layouts.objects(partial_of(unfinished))
    report = resume(zkit, slow.path, unfinished, *SLOW, "--verify", "full")
    assert stored - unit <= report["resumed_objects"] <= stored
    assert report["verified"]["mode"] == "full"
    assert contents(unfinished) == undisturbed[0]
    copies.assert_faithful(slow, unfinished, zarr_format="keep", codec="zstd")


@pytest.mark.parametrize(
    "options", [["--jobs", "3"], ["--memory", "2MiB"], ["--verify", "none"], ["--source-check", "metadata"]]
)
def test_what_changes_no_byte_may_change_between_runs(zkit, slow, undisturbed, unfinished, options):
    outcome = zkit("recompress", slow.path, unfinished, *SLOW, "--resume", *options)
    if options[0] == "--source-check":
        assert outcome.code in (0, 3)
        return
    assert outcome.code == 0, outcome.err
    assert contents(unfinished) == undisturbed[0]


# ---- what is left behind ----------------------------------------------------------------------------------------


def test_what_a_run_left_is_not_touched_without_a_word(zkit, slow, unfinished):
    outcome = refused(zkit, unfinished.parent, slow.path, unfinished, *SLOW, words=["copy.zarr"], codes=(3,))
    hint = outcome.err[outcome.err.index("hint") :]
    assert "--resume" in hint and "--restart" in hint


def test_restart_begins_anew(zkit, slow, undisturbed, unfinished):
    (partial_of(unfinished) / "junk").write_text("of the first run")
    report = zkit.json("recompress", slow.path, unfinished, *SLOW, "--restart")
    assert report["resumed_objects"] == 0
    assert names(unfinished.parent) == ["copy.zarr"]
    assert contents(unfinished) == undisturbed[0]


def test_restart_may_ask_for_something_else(zkit, slow, unfinished):
    zkit.json(
        "recompress", slow.path, unfinished, "--codec", "zstd:1", "--chunks", "time=-1,lat=16,lon=16", "--restart"
    )
    assert layouts.grids(unfinished)["/t2m"] == ((32, 16, 16), None)
    assert oracle.digests(unfinished) == slow.digests


@pytest.mark.parametrize("option", [[], ["--resume"], ["--restart"], ["--overwrite", "--yes"]])
def test_a_partial_folder_of_others_is_left_alone(zkit, slow, tmp_path, option):
    folder = partial_of(tmp_path / "copy.zarr")
    folder.mkdir()
    (folder / "precious").write_text("data")
    refused(zkit, tmp_path, slow.path, tmp_path / "copy.zarr", *SLOW, *option, words=["copy.zarr.partial"], codes=(3,))


def test_resume_without_anything_to_resume_is_a_run(zkit, slow, undisturbed, tmp_path):
    assert resume(zkit, slow.path, tmp_path / "copy.zarr", *SLOW)["resumed_objects"] == 0
    assert contents(tmp_path / "copy.zarr") == undisturbed[0]


CHANGES = {
    "--chunks": ["--codec", "zstd:19", "--chunks", "time=8,lat=16,lon=16"],
    "--codec": ["--codec", "zstd:18", *SLOW[2:]],
    "--zarr-format": [*SLOW, "--zarr-format", "3"],
    "--exclude": [*SLOW, "--exclude", "lat"],
    "--checksum": [*SLOW, "--checksum", "none"],
}


@pytest.mark.parametrize("option", CHANGES)
def test_another_wish_is_refused_and_the_difference_named(zkit, slow, undisturbed, unfinished, option):
    arguments = [slow.path, unfinished, *CHANGES[option], "--resume"]
    outcome = refused(zkit, unfinished.parent, *arguments, words=[option, "--restart"])
    assert "Some(" not in outcome.err, "the message is for people"
    resume(zkit, slow.path, unfinished, *SLOW)
    assert contents(unfinished) == undisturbed[0]


@pytest.fixture
def own_source(zkit, slow, tmp_path):
    """A source that a test may change, and an unfinished copy of it."""
    source = pathlib.Path(shutil.copytree(slow.path, tmp_path / "source.zarr"))
    (tmp_path / "work").mkdir()
    copy = tmp_path / "work" / "copy.zarr"
    process = started(zkit, "recompress", source, copy, *SLOW, "--jobs", "1")
    wait_for_objects(process, partial_of(copy), 20)
    kill(process)
    return source, copy


SOURCE_CHANGES = {
    "chunk": lambda source: (source / "t2m" / "31.0.0").write_bytes(bytes(128 * 96 * 4)),
    "chunk gone": lambda source: (source / "t2m" / "3.0.0").unlink(),
    "attributes": lambda source: gen_v2.write_json(
        source / "t2m" / ".zattrs", {"_ARRAY_DIMENSIONS": ["time", "lat", "lon"], "units": "C"}
    ),
    "new array": lambda source: gen_v2.v2(source / "more", np.arange(5, dtype="<i2"), chunks=(5,)),
    "group attributes": lambda source: gen_v2.write_json(source / ".zattrs", {"title": "other"}),
}


@pytest.mark.parametrize("change", SOURCE_CHANGES)
def test_a_source_that_changed_is_refused_by_name(zkit, own_source, change):
    source, copy = own_source
    SOURCE_CHANGES[change](source)
    outcome = refused(zkit, copy.parent, source, copy, *SLOW, "--resume", words=["--restart"], codes=(3,))
    word = {"new array": "more", "group attributes": "group"}.get(change, "t2m")
    assert word in outcome.err, outcome.err
    zkit.json("recompress", source, copy, *SLOW, "--restart")
    assert oracle.digests(copy) == oracle.digests(source)


# ---- damage between runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_object_is_written_anew(zkit, slow, undisturbed, unfinished, recorded, damage):
    victim = min((partial_of(unfinished) / "t2m").glob("0.*"), key=lambda p: p.stat().st_mtime_ns)
    DAMAGE[damage](victim)
    assert resume(zkit, slow.path, unfinished, *SLOW)["resumed_objects"] == recorded - 1
    assert contents(unfinished) == undisturbed[0]


@pytest.mark.parametrize("cut", [1, 7, 47, 48, 49, 500])
def test_a_torn_journal_loses_its_tail_alone(zkit, slow, undisturbed, unfinished, recorded, cut):
    os.truncate(journal_of(unfinished), journal_of(unfinished).stat().st_size - cut)
    lost = recorded - resume(zkit, slow.path, unfinished, *SLOW)["resumed_objects"]
    assert 0 < lost <= cut // 48 + 2
    assert contents(unfinished) == undisturbed[0]


@pytest.mark.parametrize("tail", [b"\0" * 48, b"\xff" * 13, os.urandom(4096)])
def test_a_journal_with_rubbish_at_its_end_is_read_up_to_there(zkit, slow, undisturbed, unfinished, tail):
    with journal_of(unfinished).open("ab") as journal:
        journal.write(tail)
    assert resume(zkit, slow.path, unfinished, *SLOW)["resumed_objects"] > 10
    assert contents(unfinished) == undisturbed[0]


@pytest.mark.parametrize("length", [0, 5, 100])
def test_a_journal_without_its_head_is_never_believed(zkit, slow, undisturbed, unfinished, length):
    os.truncate(journal_of(unfinished), length)
    outcome = zkit("recompress", slow.path, unfinished, *SLOW, "--resume")
    assert outcome.code in (0, 3), outcome.err
    if outcome.code == 3:
        assert "journal" in outcome.err or "partial" in outcome.err, outcome.err
        assert not unfinished.exists()
    else:
        assert contents(unfinished) == undisturbed[0]


# ---- two runs at once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [[], ["--resume"], ["--restart"]])
def test_a_second_run_at_once_is_refused(zkit, slow, undisturbed, tmp_path, option):
    copy = tmp_path / "copy.zarr"
    process = started(zkit, "recompress", slow.path, copy, *SLOW, "--jobs", "1")
    wait_for_objects(process, partial_of(copy), 5)
    process.send_signal(signal.SIGSTOP)
    outcome = zkit("recompress", slow.path, copy, *SLOW, *option)
    assert process.poll() is None, "the first run ended before the second was refused"
    process.send_signal(signal.SIGCONT)
    assert outcome.code == 3, f"exit {outcome.code}: {outcome.err}"
    assert "another" in outcome.err and "copy.zarr" in outcome.err, outcome.err
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert contents(copy) == undisturbed[0]
    assert names(tmp_path) == ["copy.zarr"]


# ---- signals and deadlines --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_state_to_resume(zkit, slow, undisturbed, unit, tmp_path, sent):
    copy = tmp_path / "copy.zarr"
    process = started(zkit, "recompress", slow.path, copy, *SLOW, "--jobs", "1")
    wait_for_objects(process, partial_of(copy), 40)
    process.send_signal(sent)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert out == b"" and b"--resume" in err, err
    assert names(tmp_path) == ["copy.zarr.partial", "copy.zarr.partial.journal"]
    assert resume(zkit, slow.path, copy, *SLOW)["resumed_objects"] >= 40 - unit
    assert contents(copy) == undisturbed[0]


def test_a_signal_before_anything_is_done_leaves_nothing_or_a_state_to_resume(zkit, slow, undisturbed, tmp_path):
    copy = tmp_path / "copy.zarr"
    process = started(zkit, "recompress", slow.path, copy, *SLOW, "--jobs", "1")
    poll(lambda: journal_of(copy).exists() or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert not copy.exists()
    resume(zkit, slow.path, copy, *SLOW)
    assert contents(copy) == undisturbed[0]


def test_a_second_signal_ends_the_run_at_once(zkit, tmp_path):
    """One chunk that takes seconds to encode: nothing to wait for politely."""
    store = gen_v2.group(tmp_path / "a.zarr")
    values = np.random.default_rng(3).integers(0, 400, (6_000_000,)).astype("<f4")
    gen_v2.v2(store / "a", values, chunks=values.shape, fill=None)
    process = started(zkit, "recompress", store, tmp_path / "copy.zarr", "--codec", "zstd:22", "--verify", "none")
    poll(lambda: process.poll() is not None or seconds_of(process) > 0.3)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - sent < 1.0, "the second signal was not heeded"
    assert process.returncode == 130, err
    assert not (tmp_path / "copy.zarr").exists()
    assert zkit("recompress", store, tmp_path / "copy.zarr", "--codec", "none", "--restart").code == 0


def test_a_deadline_leaves_a_state_to_resume(zkit, slow, undisturbed, tmp_path):
    copy = tmp_path / "copy.zarr"
    outcome = zkit("recompress", slow.path, copy, *SLOW, "--jobs", "1", "--deadline", f"{int(undisturbed[1] * 400)}ms")
    assert outcome.code == 3, outcome.err
    assert "deadline" in outcome.err, outcome.err
    assert not copy.exists()
    kept = partial_of(copy).exists()
    assert ("--resume" in outcome.err) == kept, outcome.err
    assert (resume(zkit, slow.path, copy, *SLOW)["resumed_objects"] > 0) == kept
    assert contents(copy) == undisturbed[0]


# ---- already done -----------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    """A store of four chunks, with values that a test gives; the same shape each time."""

    def write(name, seed):
        store = gen_v2.group(tmp_path / "sources" / name)
        values = np.random.default_rng(seed).integers(0, 400, (8, 8)).astype("<f4")
        gen_v2.v2(store / "a", values, chunks=(4, 4), dims=["y", "x"], fill=None)
        return store

    return write


def test_resume_of_a_complete_copy_says_already_done(zkit, small, tmp_path):
    source, copy = small("a.zarr", 1), tmp_path / "work" / "copy.zarr"
    zkit.json("recompress", source, copy, *QUICK)
    before = listing(copy)
    outcome = zkit("recompress", source, copy, *QUICK, "--resume")
    assert outcome.code == 0, outcome.err
    assert "already done" in outcome.stdout.decode()
    assert zkit.json("recompress", source, copy, *QUICK, "--resume")["already_done"] == [str(copy)]
    assert listing(copy) == before and names(copy.parent) == ["copy.zarr"]


@pytest.mark.parametrize(
    "options",
    [
        ["--codec", "zstd:1", "--chunks", "y=8,x=2"],
        ["--codec", "gzip:1", "--chunks", "y=2,x=8"],
        [*QUICK, "--zarr-format", "3"],
        [*QUICK, "--consolidate", "always"],
    ],
)
def test_another_copy_at_the_destination_is_not_already_done(zkit, small, tmp_path, options):
    source, copy = small("a.zarr", 1), tmp_path / "work" / "copy.zarr"
    zkit.json("recompress", source, copy, *QUICK)
    refused(zkit, copy.parent, source, copy, *options, "--resume", words=["copy.zarr"], codes=(3,))


def test_the_copy_of_another_source_is_not_already_done(zkit, small, tmp_path):
    """Same shape, other values: yesterday's copy."""
    copy = tmp_path / "work" / "copy.zarr"
    zkit.json("recompress", small("old.zarr", 1), copy, *QUICK)
    refused(zkit, copy.parent, small("new.zarr", 2), copy, *QUICK, "--resume", words=["copy.zarr"], codes=(3,))


# ---- faults in system calls -------------------------------------------------------------------------------------

PUBLISHING = "flock,fsync,fdatasync,syncfs,rename,renameat,renameat2,unlink,unlinkat,rmdir"


def traced(zkit, strace, log, *arguments, inject=None, faults=(), trace=PUBLISHING):
    """Runs zkit under strace, with a fault injected; returns (exit code, stderr)."""
    faults = ["-e", f"inject={inject}"] if inject else faults
    command = [strace, "-f", "-qq", "-o", log, "-e", f"trace={trace}", *faults, zkit.path, *arguments, "--jobs", "1"]
    done = subprocess.run(
        [os.fspath(a) for a in command],
        env=zkit.environment(),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert b"panicked" not in done.stderr, done.stderr
    return done.returncode, done.stderr.decode()


def steps_of(log):
    """[(system call, which of its kind on that thread)] of a run that was traced."""
    counts, steps = {}, []
    for line in log.read_text().splitlines():
        if match := re.match(r"(\d+) +(\w+)\(", line):
            thread, call = match.groups()
            counts[thread, call] = counts.get((thread, call), 0) + 1
            steps.append((call, counts[thread, call]))
    return steps


class Publication:
    """A run from a small source onto nothing, or onto an old store, to be killed at any of its steps."""

    def __init__(self, zkit, strace, small, folder, old):
        self.zkit, self.strace, self.folder = zkit, strace, folder
        self.source = small("new.zarr", 2)
        self.wanted = oracle.digests(self.source)
        self.work = folder / "work"
        self.copy = self.work / "copy.zarr"
        self.old = old
        self.options = [*QUICK, *(["--overwrite", "--yes"] if old else [])]

    def prepare(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        if self.old:
            shutil.copytree(self.old, self.copy)

    def run(self, inject=None):
        self.prepare()
        return traced(
            self.zkit,
            self.strace,
            self.folder / "strace.log",
            "recompress",
            self.source,
            self.copy,
            *self.options,
            inject=inject,
        )

    def steps(self):
        code, err = self.run()
        assert code == 0, err
        assert names(self.work) == ["copy.zarr"] and oracle.digests(self.copy) == self.wanted
        steps = steps_of(self.folder / "strace.log")
        # of the many files of the old store the first, one in the middle and the last
        removals = [step for step in steps if step[0] in ("unlinkat", "rmdir")]
        kept = {removals[0], removals[len(removals) // 2], removals[-1]} if removals else set()
        return [step for step in steps if step not in removals or step in kept]

    def assert_old_or_new(self, step):
        if not self.copy.exists():
            assert not self.old, f"{step}: the old store is gone and the new one is not there"
            return
        found = contents(self.copy)
        if self.old and found == contents(self.old):
            return
        assert oracle.digests(self.copy) == self.wanted, f"{step}: neither old nor new"


@pytest.mark.parametrize("destination", ["free", "same shape", "other shape"])
def test_a_kill_at_any_step_of_publishing_leaves_old_or_new(zkit, strace, small, tmp_path, destination):
    if destination == "other shape":
        old = gen_v2.group(tmp_path / "old.zarr")
        gen_v2.v2(old / "b", np.arange(6, dtype="<i4"), chunks=(2,))
    else:
        old = small("old.zarr", 1) if destination == "same shape" else None
    publication = Publication(zkit, strace, small, tmp_path, old)
    steps = publication.steps()
    calls = {call for call, _ in steps}
    assert {"syncfs", "fsync", "unlink"} <= calls and calls & {"renameat2", "rename"}, steps
    wrong = []
    for call, which in steps:
        step = f"killed at {call} {which}"
        code, err = publication.run(f"{call}:signal=SIGKILL:when={which}")
        assert code in (-9, 137), f"{step}: exit {code}: {err}"
        publication.assert_old_or_new(step)
        outcome = zkit("recompress", publication.source, publication.copy, *publication.options, "--resume")
        if outcome.code != 0:
            wrong.append(f"{step}: --resume exits {outcome.code}: {outcome.err}")
        elif oracle.digests(publication.copy) != publication.wanted:
            wrong.append(
                f"{step}: --resume exits 0 ({outcome.stdout.decode().strip()[:60]}), and the old store is still there"
            )
        elif names(publication.work) != ["copy.zarr"]:
            wrong.append(f"{step}: --resume leaves {names(publication.work)}")
    assert wrong == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_fault_at_any_step_of_publishing_is_an_error_that_names_a_path(zkit, strace, small, tmp_path, overwrite):
    publication = Publication(zkit, strace, small, tmp_path, small("old.zarr", 1) if overwrite else None)
    steps = publication.steps()
    wrong = []
    for call, which in steps:
        if call == "flock":
            continue
        step = f"EIO at {call} {which}"
        code, err = publication.run(f"{call}:error=EIO:when={which}")
        publication.assert_old_or_new(step)
        if code not in (0, 3):
            wrong.append(f"{step}: exit {code}: {err}")
        elif code == 3 and "copy.zarr" not in err and str(publication.work) not in err:
            wrong.append(f"{step}: names no path: {err}")
        elif code == 0 and oracle.digests(publication.copy) != publication.wanted:
            wrong.append(f"{step}: exit 0 without the new store")
        outcome = zkit("recompress", publication.source, publication.copy, *publication.options, "--resume")
        if outcome.code != 0 or oracle.digests(publication.copy) != publication.wanted:
            wrong.append(f"{step}: --resume exits {outcome.code}, {outcome.err or outcome.stdout.decode()[:60]}")
    assert wrong == []


WRITES = {
    "the journal's header": ("copy.zarr.partial.journal", 1),
    "a record of the journal": ("copy.zarr.partial.journal", 2),
    "the first object": ("copy.zarr.partial/a/0.0", 1),
    "the last object": ("copy.zarr.partial/a/3.0", 1),
    "metadata of the array": ("copy.zarr.partial/a/.zarray", 1),
    "metadata of the group": ("copy.zarr.partial/.zgroup", 1),
}


@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EDQUOT"])
@pytest.mark.parametrize("what", WRITES)
def test_a_write_that_fails_is_a_clean_error(zkit, strace, small, tmp_path, error, what):
    publication = Publication(zkit, strace, small, tmp_path, None)
    publication.prepare()
    path, which = WRITES[what]
    # of writes to that path alone: the message for people must get through
    faults = ["-P", publication.work / path, "-e", f"inject=write,pwrite64,writev:error={error}:when={which}"]
    run = ["recompress", publication.source, publication.copy, *QUICK]
    code, err = traced(zkit, strace, tmp_path / "strace.log", *run, faults=faults, trace="write,pwrite64,writev")
    assert "INJECTED" in (tmp_path / "strace.log").read_text(), "the run has fewer writes"
    assert code == 3, f"exit {code}: {err}"
    assert str(publication.work / "copy.zarr") in err, f"no path is named: {err}"
    assert {"ENOSPC": "space", "EIO": "nput/output", "EDQUOT": "uota"}[error] in err, err
    assert not publication.copy.exists(), "something was published"
    if which == 2 or "object" not in what:
        assert "--resume" in err or not partial_of(publication.copy).exists(), err
    resume(zkit, publication.source, publication.copy, *QUICK)
    assert oracle.digests(publication.copy) == publication.wanted


def test_many_stores_are_gone_on_with_one_by_one(zkit, strace, small, tmp_path):
    """Killed at the second rename: one is published, two are not."""
    stores, into = [small(f"{name}.zarr", seed) for seed, name in enumerate("abc")], tmp_path / "into"
    run = ["recompress", *stores, "--into", into, *QUICK]
    code, err = traced(zkit, strace, tmp_path / "strace.log", *run, inject="renameat2:signal=SIGKILL:when=2")
    assert code in (-9, 137), err
    published = [store.name for store in stores if (into / store.name).exists()]
    assert len(published) == 1
    report = zkit.json(*run, "--resume")
    assert report["complete"]
    assert names(into) == ["a.zarr", "b.zarr", "c.zarr"]
    for store in stores:
        assert oracle.digests(into / store.name) == oracle.digests(store)


def test_automatic_codecs_are_those_of_the_first_run(zkit, strace, slow, tmp_path):
    copy = tmp_path / "work" / "copy.zarr"
    run = ["recompress", slow.path, copy, "--chunks", "time=8,lat=16,lon=32"]
    code, err = traced(zkit, strace, tmp_path / "strace.log", *run, inject="syncfs:signal=SIGKILL:when=1")
    assert code in (-9, 137), err
    first = contents(partial_of(copy))
    report = resume(zkit, slow.path, copy, *run[3:])
    assert report["resumed_objects"] == sum(1 for key in first if not key.rsplit("/", 1)[-1].startswith("."))
    assert contents(copy) == first
    copies.assert_faithful(slow, copy, zarr_format="keep", codec=None)


# ---- a destination that cannot be written -----------------------------------------------------------------------


def test_a_read_only_directory_is_an_error_that_names_it(zkit, small):
    with tempfile.TemporaryDirectory(prefix="zkit-read-only-") as name:
        folder = pathlib.Path(name)
        source = shutil.copytree(small("a.zarr", 1), folder / "a.zarr")
        (folder / "locked").mkdir()
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        command = [zkit.path, "recompress", source, folder / "locked" / "copy.zarr", *QUICK]
        if os.getuid() == 0:
            setpriv = shutil.which("setpriv")
            other = setpriv and [setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups"]
            probe = other and subprocess.run([*other, zkit.path, "--version"], capture_output=True)
            if not probe or probe.returncode != 0:
                pytest.skip("root may write everywhere, and there is no other user to run zkit as")
            command = [*other, *command]
        else:
            (folder / "locked").chmod(0o555)
        done = subprocess.run([os.fspath(a) for a in command], env=zkit.environment(), capture_output=True, cwd="/")
        (folder / "locked").chmod(0o755)
        assert done.returncode == 3, done.stderr
        assert b"locked" in done.stderr and b"ermission denied" in done.stderr, done.stderr
        assert names(folder / "locked") == []


# ---- sources that are damaged -----------------------------------------------------------------------------------

DAMAGED = {
    "flipped": flip,
    "truncated": DAMAGE["truncated"],
    "emptied": DAMAGE["emptied"],
    "rubbish": lambda file: file.write_bytes(b"\x01\x02 no chunk \xff" * 9),
}


@pytest.fixture
def damaged(tmp_path):
    """A store of which chunk 1.0 of `/a` is damaged, and what a copy with fill values holds: (store, digests)."""

    def write(damage):
        store, values = gen_v2.group(tmp_path / "damaged.zarr"), layouts.awkward((12, 8))
        # a checksum, so that a flipped bit shows
        gen_v2.v2(
            store / "a", values, chunks=(4, 4), compressor=numcodecs.Zstd(1, checksum=True), fill=-5.5, dims=["y", "x"]
        )
        gen_v2.v2(store / "b", values, chunks=(4, 4), fill=None, dims=["y", "x"])
        DAMAGED[damage](store / "a" / "1.0")
        filled = values.copy()
        filled[4:8, 0:4] = -5.5
        return store, {"/a": oracle.digest(filled), "/b": oracle.digest(values)}

    return write


@pytest.mark.parametrize("options", [[], list(QUICK)])
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_chunk_ends_the_copy_by_name(zkit, damaged, tmp_path, damage, options):
    store, _ = damaged(damage)
    outcome = zkit("recompress", store, tmp_path / "copy.zarr", *options)
    assert outcome.code in (1, 3), outcome.err
    assert "/a" in outcome.err and "1.0" in outcome.err, outcome.err
    assert "--on-corrupt" in outcome.err
    assert not (tmp_path / "copy.zarr").exists()


@pytest.mark.parametrize(
    "options",
    [
        [],
        list(QUICK),
        ["--codec", "zstd:1", "--chunks", "y=5,x=3", "--verify", "full"],
        ["--zarr-format", "3", "--verify", "full"],
    ],
)
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_chunk_may_become_fill_values_and_is_listed(zkit, damaged, tmp_path, damage, options):
    store, wanted = damaged(damage)
    outcome = zkit("recompress", store, tmp_path / "copy.zarr", "--on-corrupt", "skip", "--format", "json", *options)
    assert outcome.code == 1, f"exit {outcome.code}: {outcome.err}"
    corrupt = outcome.json()["corrupt_chunks"]
    assert [(entry["path"], entry["chunk"]) for entry in corrupt] == [("/a", [1, 0])]
    assert corrupt[0]["message"]
    assert oracle.digests(tmp_path / "copy.zarr") == wanted
    assert names(tmp_path) == ["copy.zarr", "damaged.zarr"]


def test_text_names_the_chunks_that_became_fill_values(zkit, damaged, tmp_path):
    store, _ = damaged("truncated")
    outcome = zkit("recompress", store, tmp_path / "copy.zarr", "--on-corrupt", "skip", *QUICK)
    assert outcome.code == 1
    told = outcome.stdout.decode() + outcome.err
    assert "/a" in told and re.search(r"1\.0|1, ?0", told), told


def test_a_failed_copy_is_gone_on_with_once_the_source_is_mended(zkit, damaged, tmp_path):
    """With --source-check metadata: mending a chunk changes its object."""
    store, _ = damaged("rubbish")
    options = [*QUICK, "--source-check", "metadata", "--jobs", "1"]
    assert zkit("recompress", store, tmp_path / "copy.zarr", *options).code in (1, 3)
    values = layouts.awkward((12, 8))
    (store / "a" / "1.0").write_bytes(numcodecs.Zstd(1, checksum=True).encode(np.ascontiguousarray(values[4:8, 0:4])))
    assert zkit("recompress", store, tmp_path / "copy.zarr", *options, "--resume").code == 0
    assert set(oracle.digests(tmp_path / "copy.zarr").values()) == {oracle.digest(values)}


@pytest.mark.parametrize("verify", ["none", "full"])
def test_chunks_skipped_before_a_kill_are_listed_after_it(zkit, strace, damaged, tmp_path, verify):
    """The second run finds their fill values in place, and must not take them for data."""
    store, wanted = damaged("truncated")
    run = ["recompress", store, tmp_path / "copy.zarr", *QUICK, "--on-corrupt", "skip"]
    code, err = traced(zkit, strace, tmp_path / "strace.log", *run, inject="syncfs:signal=SIGKILL:when=1")
    assert code in (-9, 137), err
    outcome = zkit(*run, "--resume", "--verify", verify, "--format", "json")
    assert outcome.code == 1, f"exit {outcome.code}: {outcome.err}"
    assert [(entry["path"], entry["chunk"]) for entry in outcome.json()["corrupt_chunks"]] == [("/a", [1, 0])]
    assert oracle.digests(tmp_path / "copy.zarr") == wanted


def test_an_unreadable_chunk_is_never_skipped(zkit, small, tmp_path):
    """Unreadable is not corrupt: a dangling link may be a file system that is not mounted."""
    store = small("a.zarr", 1)
    with contextlib.suppress(FileNotFoundError):
        (store / "a" / "1.0").unlink()
    (store / "a" / "1.0").symlink_to("nowhere")
    outcome = zkit("recompress", store, tmp_path / "copy.zarr", *QUICK, "--on-corrupt", "skip")
    assert outcome.code == 3, f"exit {outcome.code}: {outcome.err}"
    assert not (tmp_path / "copy.zarr").exists()
