"""The job that `zkit slice` is for: 95 files in 22 batches, some of them twice, and all that goes wrong on the way."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import numcodecs
import numpy
import pytest
import xarray
import zarr

from conftest import listing
from fields import assert_same, opened
from runs import contents, flip, kill, names, partial_of, started, wait_for_objects

BATCHES, FILES, UNIQUE = 22, 95, 69
NAMES = [f"v{number}" for number in range(6)]
ROWS, COLUMNS = 24, 40
CHECKED = numcodecs.Zstd(1, checksum=True)

TAKE = ("--concat", "file_id", "--duplicates", "first", "--sort", "--sel", "y=2..20")
SLOW = (*TAKE, "--codec", "zstd:19", "--chunks", "file_id=1", "--jobs", "1")


def ids_of(number):
    """The ids of a batch: 4 or 5, of which the last batches repeat those of the first."""
    edges = numpy.linspace(0, FILES, BATCHES + 1).round().astype(int)
    return [int(at) % UNIQUE * 3 + 7 for at in range(edges[number], edges[number + 1])]


def batch(ids):
    """A batch; what a file holds depends on its id alone."""
    fields = {}
    for number, name in enumerate(NAMES):
        values = [numpy.random.default_rng((number, file)).normal(280, 9, (ROWS, COLUMNS)).round(1) for file in ids]
        fields[name] = (("file_id", "y", "x"), numpy.array(values, "float32"), {"units": "K"})
    return xarray.Dataset(
        fields,
        coords={"file_id": numpy.array(ids), "y": numpy.arange(ROWS) * 1.0, "x": numpy.arange(COLUMNS) * 1.0},
    )


def write(dataset, path):
    """A store with one file to a chunk, and a checksum in each."""
    own = {"chunks": (1, ROWS, COLUMNS), "compressors": [CHECKED]}
    encoding = dict.fromkeys(NAMES, own)
    dataset.to_zarr(path, mode="w", zarr_format=2, consolidated=True, encoding=encoding, write_empty_chunks=True)
    return path


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    """The folder of the batches: to be read, not changed."""
    folder = tmp_path_factory.mktemp("founding") / "batches"
    for number in range(BATCHES):
        write(batch(ids_of(number)), folder / f"batch_{number:02}.zarr")
    return folder


@pytest.fixture
def own(batches, tmp_path):
    """The batches, to be changed."""
    return pathlib.Path(shutil.copytree(batches, tmp_path / "batches"))


@pytest.fixture(scope="module")
def expected(batches):
    """The slice, by xarray."""
    parts = [opened(path) for path in sorted(batches.iterdir())]
    joined = xarray.concat(parts, dim="file_id", data_vars="minimal", coords="minimal", compat="equals", join="exact")
    return joined.drop_duplicates("file_id", keep="first").sortby("file_id").sel(y=slice(2, 20))


@pytest.fixture(scope="module")
def undisturbed(zkit, batches, expected, tmp_path_factory):
    """The slice that nothing disturbed."""
    copy = tmp_path_factory.mktemp("undisturbed") / "slice.zarr"
    assert zkit("slice", batches, *SLOW, "--to", copy).code == 0
    assert_same(opened(copy), expected)
    return contents(copy)


def assert_undisturbed(copy, undisturbed):
    """Every object is that of an undisturbed run, but for the root's, which names the folder of the sources."""
    found, roots = contents(copy), {".zattrs", ".zmetadata"}
    assert set(found) == set(undisturbed)
    assert [key for key in found if found[key] != undisturbed[key] and key not in roots] == []


def refused(zkit, folder, *arguments, words, codes=(1, 3)):
    outcome = zkit("slice", folder, *arguments)
    assert outcome.code in codes, f"exit {outcome.code}: {outcome.err}"
    for word in words:
        assert word in outcome.err, outcome.err
    destination = arguments[arguments.index("--to") + 1]
    assert not destination.exists(), "something was published"
    return outcome


def test_the_batches_are_those_of_the_job():
    """Guards the checks below."""
    ids = [file for number in range(BATCHES) for file in ids_of(number)]
    assert (len(ids), len(set(ids))) == (FILES, UNIQUE)


def test_the_slice_is_that_of_xarray(zkit, batches, expected, tmp_path):
    report = zkit.json("slice", batches, *TAKE, "--to", tmp_path / "slice.zarr", "--verify", "full")
    assert report["complete"] and names(tmp_path) == ["slice.zarr"]
    found = opened(tmp_path / "slice.zarr")
    assert found.sizes["file_id"] == UNIQUE
    assert_same(found, expected)


def test_duplicates_are_refused_by_number_and_store(zkit, batches, tmp_path):
    arguments = ["--concat", "file_id", "--to", tmp_path / "slice.zarr"]
    twice = f"{FILES - UNIQUE} values of `file_id`"
    refused(zkit, batches, *arguments, words=[twice, "batch_00.zarr", "--duplicates"])
    assert names(tmp_path) == []


def test_a_stub_among_the_sources_is_named(zkit, own, tmp_path):
    for name in NAMES:
        for chunk in (own / "batch_09.zarr" / name).glob("[0-9]*"):
            chunk.unlink()
    refused(zkit, own, *TAKE, "--to", tmp_path / "slice.zarr", words=["batch_09.zarr", "/v0", "metadata alone"])
    shutil.rmtree(own / "batch_09.zarr")
    assert zkit("slice", own, *TAKE, "--to", tmp_path / "slice.zarr").code == 0


def test_a_batch_of_nan_is_not_published(zkit, own, tmp_path):
    nothing = batch(ids_of(5))
    for name in NAMES:
        nothing[name][:] = numpy.nan
    write(nothing, own / "batch_05.zarr")
    words = ["/v0", "NaN", "batch_05.zarr"]
    refused(zkit, own, *TAKE, "--to", tmp_path / "slice.zarr", words=words)
    assert zkit("slice", own, *TAKE, "--to", tmp_path / "slice.zarr", "--restart", "--fail-on", "never").code == 0
    found = opened(tmp_path / "slice.zarr")
    assert numpy.isnan(found["v0"].sel(file_id=ids_of(5))).all()


# ---- runs that die ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objects", [10, 120, 300])
def test_a_killed_run_is_gone_on_with(zkit, batches, undisturbed, expected, tmp_path, objects):
    copy = tmp_path / "slice.zarr"
    process = started(zkit, "slice", batches, *SLOW, "--to", copy)
    wait_for_objects(process, partial_of(copy), objects)
    kill(process)
    assert not copy.exists()
    report = zkit.json("slice", batches, *SLOW, "--to", copy, "--resume", "--verify", "full")
    assert report["resumed_objects"] > 0 and report["complete"]
    assert_undisturbed(copy, undisturbed)
    assert_same(opened(copy), expected)
    assert names(tmp_path) == ["slice.zarr"]


def test_an_interrupted_run_says_how_to_go_on(zkit, batches, undisturbed, tmp_path):
    copy = tmp_path / "slice.zarr"
    process = started(zkit, "slice", batches, *SLOW, "--to", copy)
    wait_for_objects(process, partial_of(copy), 60)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and b"--resume" in err, err
    assert not copy.exists()
    assert zkit.json("slice", batches, *SLOW, "--to", copy, "--resume")["resumed_objects"] > 0
    assert_undisturbed(copy, undisturbed)


def test_a_second_run_at_once_is_refused(zkit, batches, undisturbed, tmp_path):
    copy = tmp_path / "slice.zarr"
    process = started(zkit, "slice", batches, *SLOW, "--to", copy)
    wait_for_objects(process, partial_of(copy), 20)
    process.send_signal(signal.SIGSTOP)
    for option in ["--resume", "--restart"]:
        refused(zkit, batches, *SLOW, option, "--to", copy, words=["another", "slice.zarr"], codes=(3,))
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert_undisturbed(copy, undisturbed)


@pytest.mark.parametrize("change", ["rewritten", "gone"])
def test_a_source_that_changes_while_it_is_read_is_never_published(zkit, own, expected, tmp_path, change):
    copy = tmp_path / "slice.zarr"
    process = started(zkit, "slice", own, *SLOW, "--to", copy)
    wait_for_objects(process, partial_of(copy), 20)
    process.send_signal(signal.SIGSTOP)
    chunk = own / "batch_03.zarr" / "v5" / "0.0.0"
    before = chunk.read_bytes()
    if change == "gone":
        chunk.unlink()
    else:
        values = numpy.full((1, ROWS, COLUMNS), 1.0, "float32")
        chunk.write_bytes(CHECKED.encode(values))
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert b"batch_03.zarr" in err and b"/v5" in err and b"--restart" in err, err
    assert not copy.exists()
    refused(zkit, own, *SLOW, "--resume", "--to", copy, words=["--restart", "v5"], codes=(3,))
    chunk.write_bytes(before)
    assert zkit("slice", own, *SLOW, "--restart", "--to", copy).code == 0
    assert_same(opened(copy), expected)


# ---- chunks and disks -------------------------------------------------------------------------------------------

DAMAGE = {
    "truncated": lambda chunk: os.truncate(chunk, chunk.stat().st_size // 2),
    "empty": lambda chunk: os.truncate(chunk, 0),
    "rubbish": lambda chunk: chunk.write_bytes(b"\x01\x02 no chunk \xff" * 9),
    "flipped": lambda chunk: chunk.write_bytes(
        bytes(byte ^ (at == chunk.stat().st_size // 2) for at, byte in enumerate(chunk.read_bytes()))
    ),
    "dangling": lambda chunk: (chunk.unlink(), chunk.symlink_to("nowhere")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_chunk_that_cannot_be_read_never_becomes_fill_values(zkit, own, tmp_path, damage):
    DAMAGE[damage](own / "batch_04.zarr" / "v3" / "1.0.0")
    words = ["batch_04.zarr", "v3", "1.0.0"]
    refused(zkit, own, *TAKE, "--to", tmp_path / "slice.zarr", words=words)


CHECKSUMS = {
    "zstd": [zarr.codecs.ZstdCodec(level=1, checksum=True)],
    "crc32c": [zarr.codecs.Crc32cCodec()],
    "blosc and crc32c": [zarr.codecs.BloscCodec(cname="lz4", blocksize=16384), zarr.codecs.Crc32cCodec()],
}


@pytest.mark.parametrize("codecs", CHECKSUMS)
def test_a_part_of_a_chunk_is_not_believed_before_its_checksum_is(zkit, tmp_path, codecs):
    """A row of a chunk can be had for less than all of it, but not be known to be right."""
    values = numpy.random.default_rng(2).integers(0, 99, (512, 256)).astype("float32")
    store = tmp_path / "checked.zarr"
    group = zarr.open_group(store, mode="w", zarr_format=3)
    array = group.create_array(
        "a",
        shape=values.shape,
        dtype="float32",
        chunks=values.shape,
        compressors=CHECKSUMS[codecs],
        dimension_names=["y", "x"],
    )
    array[:] = values
    destination = tmp_path / "slice.zarr"
    assert zkit("slice", store, "--isel", "y=200", "--to", destination).code == 0
    xarray.testing.assert_equal(opened(destination)["a"], opened(store)["a"][200])
    shutil.rmtree(destination)
    flip(store / "a" / "c" / "0" / "0")
    refused(zkit, store, "--isel", "y=200", "--to", destination, words=["checked.zarr", "/a", "c/0/0"])


def traced(zkit, strace, folder, path, fault, *arguments):
    """Runs zkit under strace, with a fault in calls on one path; returns (exit code, stderr)."""
    log = folder / "strace.log"
    calls = fault.split(":")[0]
    command = [strace, "-f", "-qq", "-o", log, "-e", f"trace={calls}", *(["-P", path] if path else [])]
    command += ["-e", f"inject={fault}", zkit.path, *arguments]
    run = [os.fspath(argument) for argument in command]
    done = subprocess.run(run, env=zkit.environment(), capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    assert b"panicked" not in done.stderr, done.stderr
    assert "INJECTED" in log.read_text() or "KILL" in log.read_text(), "no call was tampered with"
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("error", ["EACCES", "EIO", "ESTALE"])
def test_a_chunk_that_the_system_refuses_never_becomes_fill_values(zkit, strace, batches, tmp_path, error):
    chunk = batches / "batch_04.zarr" / "v3" / "1.0.0"
    copy = tmp_path / "slice.zarr"
    run = ["slice", batches, *SLOW, "--to", copy]
    fault = f"open,openat,openat2,read,pread64,readv,preadv:error={error}"
    code, err = traced(zkit, strace, tmp_path, chunk, fault, *run)
    assert code == 3, err
    assert "batch_04.zarr" in err and "v3" in err and "1.0.0" in err, err
    assert not copy.exists()


def test_a_full_disk_leaves_a_state_to_resume(zkit, strace, batches, undisturbed, tmp_path):
    copy = tmp_path / "slice.zarr"
    run = ["slice", batches, *SLOW, "--to", copy]
    chunk = partial_of(copy) / "v4" / "40.0.0"
    code, err = traced(zkit, strace, tmp_path, chunk, "write,pwrite64,writev:error=ENOSPC", *run)
    assert code == 3, err
    assert "space" in err and "slice.zarr" in err and "--resume" in err, err
    assert not copy.exists()
    assert zkit.json(*run, "--resume")["resumed_objects"] > 0
    assert_undisturbed(copy, undisturbed)


def test_a_read_only_destination_is_named(zkit, batches):
    with tempfile.TemporaryDirectory(prefix="zkit-read-only-") as name:
        folder = pathlib.Path(name)
        source = shutil.copytree(batches / "batch_00.zarr", folder / "batch_00.zarr")
        (folder / "locked").mkdir()
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        command = [zkit.path, "slice", source, "--to", folder / "locked" / "slice.zarr"]
        if os.getuid() == 0:
            setpriv = shutil.which("setpriv")
            other = setpriv and [setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups"]
            probe = other and subprocess.run([*other, zkit.path, "--version"], capture_output=True)
            if not probe or probe.returncode != 0:
                pytest.skip("root may write everywhere, and there is no other user to run zkit as")
            command = [*other, *command]
        else:
            (folder / "locked").chmod(0o555)
        run = [os.fspath(argument) for argument in command]
        done = subprocess.run(run, env=zkit.environment(), capture_output=True, cwd="/")
        (folder / "locked").chmod(0o755)
        assert done.returncode == 3, done.stderr
        assert b"locked" in done.stderr and b"ermission denied" in done.stderr, done.stderr
        assert names(folder / "locked") == []


# ---- many slices ------------------------------------------------------------------------------------------------


def test_slices_of_a_split_are_gone_on_with_one_by_one(zkit, strace, batches, expected, tmp_path):
    points = tmp_path / "points.csv"
    points.write_text("name,y,x\n" + "".join(f"p{number},{number + 3},{number * 2}\n" for number in range(4)))
    into = tmp_path / "into"
    into.mkdir()
    split = ["--points", points, "--split", "{name}.zarr", "--concat", "file_id", "--duplicates", "first", "--sort"]
    run = ["slice", batches, *split, "--to", into, "--jobs", "1"]
    # the store of all points, in scratch space, is the first that is renamed
    code, err = traced(zkit, strace, tmp_path, None, "renameat2:signal=SIGKILL:when=3", *run)
    assert code in (-9, 137), err
    assert "into.partial.scratch" in names(tmp_path)
    published = [name for name in names(into) if name.endswith(".zarr")]
    assert len(published) == 1
    before = listing(into / published[0])
    report = zkit.json(*run, "--resume")
    assert report["complete"]
    assert names(into) == [f"p{number}.zarr" for number in range(4)]
    assert "into.partial.scratch" not in names(tmp_path)
    assert listing(into / published[0]) == before, "what is published was touched"
    whole = opened_whole(batches)
    for number in range(4):
        found = opened(into / f"p{number}.zarr").drop_vars("point")
        xarray.testing.assert_equal(found, whole.sel(y=number + 3, x=number * 2))


def opened_whole(batches):
    parts = [opened(path) for path in sorted(batches.iterdir())]
    joined = xarray.concat(parts, dim="file_id", data_vars="minimal", coords="minimal", compat="equals", join="exact")
    return joined.drop_duplicates("file_id", keep="first").sortby("file_id")


# ---- dry runs ---------------------------------------------------------------------------------------------------


def test_a_dry_run_says_how_to_work_in_batches(zkit, batches, tmp_path):
    limits = ["--memory", "64MiB", "--jobs", "4"]
    arguments = ["slice", batches, *TAKE, "--to", tmp_path / "slice.zarr", *limits, "--dry-run"]
    plan = zkit.json(*arguments)
    assert plan["estimated_seconds"] > 0 and plan["estimated_bytes_encoded"] > 0
    said = plan["batches"]
    a_value = len(NAMES) * 19 * COLUMNS * 4 + 8
    assert (said["dimension"], said["values"]) == ("file_id", UNIQUE)
    assert said["bytes_per_value"] == a_value
    assert said["values_per_batch"] * a_value <= said["memory_bytes"] * said["memory_percent"] / 100
    assert said["values_per_batch"] * said["batches"] >= UNIQUE
    assert said["workers"] * said["threads_per_worker"] <= 4
    assert said["batches_per_second"] == pytest.approx(said["workers"] / said["seconds_per_batch"])
    fraction = said["serial_fraction"]
    for one in said["speedups"]:
        wanted = (fraction + (1 - fraction) / 4) / (fraction + (1 - fraction) / one["cores"])
        assert one["speedup"] == pytest.approx(wanted)
    text = zkit(*arguments).stdout.decode()
    for word in ["`file_id` each", "a batch =", "Amdahl"]:
        assert word in text, text
    assert names(tmp_path) == []


def test_an_estimate_of_a_slice_is_near_what_it_becomes(zkit, batches, tmp_path):
    copy = tmp_path / "slice.zarr"
    plan = zkit.json("slice", batches, *TAKE, "--to", copy, "--dry-run")
    report = zkit.json("slice", batches, *TAKE, "--to", copy)
    assert plan["estimated_bytes_encoded"] == pytest.approx(report["bytes_encoded"], rel=0.3)
