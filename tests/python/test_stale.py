"""Sources that change: while they are copied, and after a copy is finished."""

import pathlib
import shutil
import signal
import subprocess

import numpy as np
import pytest

import bucket
import gen_v2
import layouts
import oracle
from runs import contents, names, partial_of, started, wait_for_objects

SLOW = ("--codec", "zstd:19", "--chunks", "time=8,lat=16,lon=32")


@pytest.fixture
def source(tmp_path):
    """1.5 MB that take one thread about half a second to compress."""
    values = np.random.default_rng(1).integers(0, 400, (32, 128, 96)).astype("<f4")
    return pathlib.Path(layouts.cube_v2(tmp_path / "source.zarr", values, (1, 128, 96), fill=None))


def rewritten(source):
    shutil.copyfile(source / "t2m/3.0.0", source / "t2m/17.0.0")


def gone(source):
    (source / "t2m/17.0.0").unlink()


def described(source):
    (source / "t2m/.zattrs").write_text('{"_ARRAY_DIMENSIONS": ["time", "lat", "lon"], "scale_factor": 0.5}')


CHANGES = {rewritten: "17.0.0", gone: "17.0.0` is gone", described: "the metadata of `/t2m`"}


def changed_meanwhile(zkit, change, source, copy, *options):
    """The exit and stderr of a copy whose source is changed once some of it is written."""
    process = started(zkit, "recompress", source, copy, *SLOW, "--jobs", "1", *options)
    wait_for_objects(process, partial_of(copy), 20)
    process.send_signal(signal.SIGSTOP)
    change(source)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err.decode()


@pytest.mark.parametrize("verify", ["none", "sample"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_source_that_changes_while_it_is_copied_is_not_published(zkit, source, tmp_path, verify, change):
    copy = tmp_path / "work" / "copy.zarr"
    copy.parent.mkdir()
    code, err = changed_meanwhile(zkit, change, source, copy, "--verify", verify)
    assert code == 3, err
    if change is not gone:  # a chunk that is gone may be missed before anything is compared
        assert "changed while it was read" in err and CHANGES[change] in err and "nothing was published" in err
        assert "--resume" not in err
        for options in [[], ["--resume"], ["--resume", "--source-check", "metadata"]]:
            outcome = zkit("recompress", source, copy, *SLOW, *options)
            assert outcome.code == 3 and "--restart" in outcome.err, (options, outcome.err)
    assert not copy.exists()
    assert zkit("recompress", source, copy, *SLOW, "--restart").code == 0
    assert oracle.digests(copy) == oracle.digests(source)
    assert names(copy.parent) == ["copy.zarr"]


def test_a_source_that_does_not_change_is_published(zkit, source, tmp_path):
    """Read, linked and backed up meanwhile: its objects are the same."""

    def used(source):
        shutil.copytree(source, tmp_path / "backup.zarr", copy_function=lambda at, to: pathlib.Path(to).hardlink_to(at))
        (source / "t2m/17.0.0").read_bytes()

    code, err = changed_meanwhile(zkit, used, source, tmp_path / "copy.zarr")
    assert code == 0, err
    assert oracle.digests(tmp_path / "copy.zarr") == oracle.digests(source)


# ---- finished copies --------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    store = gen_v2.group(tmp_path / "small.zarr")
    values = np.random.default_rng(1).integers(0, 400, (64, 64)).astype("<f4")
    gen_v2.v2(store / "a", values, chunks=(4, 4), dims=["y", "x"], fill=None)
    gen_v2.v2(store / "b", values[:8], chunks=(4, 4), dims=["z", "x"], fill=None)
    return pathlib.Path(store)


def not_done(zkit, source, copy, *options, word):
    before = contents(copy)
    outcome = zkit("recompress", source, copy, "--resume", *options)
    assert outcome.code == 3 and word in outcome.err and "--overwrite" in outcome.err, outcome.err
    assert contents(copy) == before and names(copy.parent) == [copy.name]
    # the hint works
    assert zkit("recompress", source, copy, "--resume", "--overwrite", "--yes", *options).code == 0
    assert zkit("compare", source, copy).code == 0
    outcome = zkit("recompress", source, copy, "--resume", *options)
    assert outcome.code == 0 and "already done" in outcome.stdout.decode(), outcome.err


@pytest.mark.parametrize("number", range(0, 256, 37))
def test_a_copy_of_what_changed_since_is_not_already_done(zkit, small, tmp_path, number):
    copy = tmp_path / "work" / "copy.zarr"
    assert zkit("recompress", small, copy, "--codec", "zstd:1").code == 0
    chunk = small / "a" / f"{number // 16}.{number % 16}"
    chunk.write_bytes((small / "a" / f"{number // 16}.{(number + 1) % 16}").read_bytes())
    not_done(zkit, small, copy, "--codec", "zstd:1", word="the objects of `/a` changed")


OPTIONS = {
    "--codec": ["--codec", "zstd:2"],
    "--prefer": ["--prefer", "size"],
    "--checksum": ["--checksum", "none"],
    "--chunks": ["--chunks", "y=16"],
    "--zarr-format": ["--zarr-format", "3"],
}


@pytest.mark.parametrize("option", OPTIONS)
def test_a_copy_with_other_options_is_not_already_done(zkit, small, tmp_path, option):
    copy = tmp_path / "work" / "copy.zarr"
    assert zkit("recompress", small, copy).code == 0
    not_done(zkit, small, copy, *OPTIONS[option], word=option)


def test_a_change_of_metadata_or_arrays_is_named(zkit, small, tmp_path):
    copy = tmp_path / "work" / "copy.zarr"
    assert zkit("recompress", small, copy).code == 0
    (small / "a/.zattrs").write_text('{"_ARRAY_DIMENSIONS": ["y", "x"], "units": "m"}')
    not_done(zkit, small, copy, word="the metadata of `/a` changed")
    shutil.copytree(small / "a", small / "c")
    not_done(zkit, small, copy, word="there were 2 arrays, there are 3")


def test_a_copy_by_others_is_not_already_done(zkit, small, tmp_path):
    """The same bytes, but nothing that says of which source, or what was asked."""
    made, copy = tmp_path / "made" / "copy.zarr", tmp_path / "work" / "copy.zarr"
    assert zkit("recompress", small, made).code == 0
    copy.parent.mkdir()
    subprocess.run(["cp", "-r", "--no-preserve=all", made, copy], check=True)
    not_done(zkit, small, copy, word="nothing says which source and options")


def test_a_finished_copy_is_known_by_whatever_path_leads_to_its_source(zkit, small, tmp_path):
    copy = tmp_path / "work" / "copy.zarr"
    assert zkit("recompress", small, copy).code == 0
    before = contents(copy)
    (tmp_path / "link.zarr").symlink_to(small)
    outcome = zkit("recompress", tmp_path / "link.zarr", copy, "--resume")
    assert outcome.code == 0 and "already done" in outcome.stdout.decode(), outcome.err
    assert contents(copy) == before


def test_a_finished_copy_in_a_bucket_knows_its_source(s3, objects, small):
    place = "stale/copy.zarr"
    objects.remove(place)
    copy = bucket.url(place)
    assert s3("recompress", small, copy, "--codec", "zstd:1").code == 0
    again = s3("recompress", small, copy, "--codec", "zstd:1", "--resume")
    assert again.code == 0 and "already done" in again.stdout.decode(), again.err
    other = s3("recompress", small, copy, "--codec", "zstd:2", "--resume")
    assert other.code == 3 and "`--codec` was `zstd:1`, is `zstd:2`" in other.err, other.err
    assert "--overwrite --unpublish-first" in other.err
    shutil.copyfile(small / "a/3.3", small / "a/7.7")
    stale = s3("recompress", small, copy, "--codec", "zstd:1", "--resume")
    assert stale.code == 3 and "the objects of `/a` changed" in stale.err, stale.err
    replace = ["--resume", "--overwrite", "--unpublish-first", "--yes"]
    assert s3("recompress", small, copy, "--codec", "zstd:1", *replace).code == 0
    assert s3("compare", small, copy).code == 0
