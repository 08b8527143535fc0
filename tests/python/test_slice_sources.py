"""Slices of sources that are no plain folders, and what is asked for in odd ways; judged by xarray."""

import json
import re
import subprocess
import zipfile

import numpy
import pytest
import xarray

from conftest import FIXTURES
from fields import assert_same, batch, grid, opened, write
from test_slice import slice_of

SELECTION = ["--sel", "latitude=50", "--isel", "time=2..9"]


def selected(dataset):
    return dataset.sel(latitude=50).isel(time=slice(2, 9))


def zipped(store, path):
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(p for p in store.rglob("*") if p.is_file()):
            archive.write(file, file.relative_to(store).as_posix())
    return path


def referred(store, folder):
    """Kerchunk references to the chunks of a store, one behind the other in one file; metadata stands in them."""
    folder.mkdir(exist_ok=True)
    data, refs = b"", {}
    for file in sorted(p for p in store.rglob("*") if p.is_file()):
        key = file.relative_to(store).as_posix()
        if file.name.startswith(".z"):
            refs[key] = file.read_text()
        else:
            refs[key] = ["chunks.bin", len(data), file.stat().st_size]
            data += file.read_bytes()
    (folder / "chunks.bin").write_bytes(data)
    path = folder / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    return path


@pytest.fixture
def source(tmp_path):
    return write(grid(), tmp_path / "source.zarr")


@pytest.fixture(params=["zip", "references"])
def packed(request, source, tmp_path):
    """The source in another form, and the file that holds its chunks."""
    if request.param == "zip":
        path = zipped(source, tmp_path / "source.zip")
        return path, path
    path = referred(source, tmp_path / "references")
    return path, path.parent / "chunks.bin"


def test_a_packed_source_gives_the_same(zkit, tmp_path, source, packed):
    found = opened(slice_of(zkit, tmp_path, packed[0], *SELECTION))
    assert_same(found, selected(opened(source)))


def test_a_packed_source_is_served_from_a_cache_until_it_changes(zkit, tmp_path, source, packed):
    path, chunks = packed
    cache = tmp_path / "cache"

    def ask(*more):
        return zkit.json("slice", path, *SELECTION, "--cache", cache, *more)

    assert ask()["cache"] == "built"
    served = ask()
    assert served["cache"] == "hit" and served["source_objects_checked"] >= 1
    assert_same(opened(served["store"]), selected(opened(source)))
    assert ask("--source-check", "metadata", "--jobs", "1")["cache"] == "hit"
    body = bytearray(chunks.read_bytes())
    chunks.write_bytes(body)
    again = ask()
    assert again["cache"] == "rebuilt" and chunks.name in again["cache_why"]
    assert ask()["cache"] == "hit"


def test_references_that_change_are_read_anew(zkit, tmp_path, source):
    path = referred(source, tmp_path / "references")
    cache = tmp_path / "cache"
    arguments = ["slice", path, *SELECTION, "--cache", cache]
    assert zkit.json(*arguments)["cache"] == "built"
    document = json.loads(path.read_text())
    document["refs"]["t2m/.zattrs"] = json.dumps(json.loads(document["refs"]["t2m/.zattrs"]) | {"units": "degC"})
    path.write_text(json.dumps(document))
    again = zkit.json(*arguments, "--source-check", "metadata")
    assert again["cache"] == "rebuilt" and "refs.json" in again["cache_why"]
    assert opened(again["store"])["t2m"].attrs["units"] == "degC"


def test_what_cannot_be_cached_is_refused_before_it_is_built(zkit, tmp_path):
    cache = tmp_path / "cache"
    outcome = zkit("slice", FIXTURES / "air.kerchunk.parq", "--isel", "time=0", "--cache", cache)
    assert outcome.code == 3 and "does not tell what was read" in outcome.err and "--to" in outcome.err
    assert not list(cache.glob("*.zarr*")) or all(path.name.endswith(".lock") for path in cache.iterdir())


def test_one_variable_without_values_is_told_and_published(zkit, tmp_path):
    dataset = grid()
    dataset["sst"] = (("time", "latitude"), numpy.full((40, 9), numpy.nan, "float32"))
    path = tmp_path / "source.zarr"
    dataset.to_zarr(path, zarr_format=2, write_empty_chunks=True)
    destination = tmp_path / "slice.zarr"
    outcome = zkit("slice", path, *SELECTION, "--to", destination)
    assert outcome.code == 0, outcome.err
    assert "warning: `/sst`" in outcome.err and "metadata-only-array" in outcome.err
    assert_same(opened(destination), selected(opened(path)))
    refused = zkit("slice", path, *SELECTION, "--include", "sst", "--to", tmp_path / "refused.zarr")
    assert refused.code == 3 and "not one of its variables holds a value" in refused.err


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_texts_of_other_widths_lie_behind_each_other(zkit, tmp_path, zarr_format):
    paths = []
    for number, names in enumerate([["a", "bb"], ["Ånes", "c"], ["d"]]):
        dataset = batch(range(len(names)), seed=number).assign_coords(file_id=numpy.array(names))
        paths.append(write(dataset.drop_vars("area"), tmp_path / f"{number}.zarr", zarr_format=zarr_format))
    found = opened(
        slice_of(zkit, tmp_path, *paths, "--concat", "file_id", "--sel", "file_id=d,Ånes,bb", "--sel", "y=2")
    )
    expected = xarray.concat([opened(path) for path in paths], dim="file_id").sel(file_id=["d", "Ånes", "bb"], y=2)
    xarray.testing.assert_equal(found, expected)


def test_an_id_that_is_asked_for_twice_stands_twice(zkit, tmp_path):
    paths = [write(batch(ids, seed=ids[0]), tmp_path / f"{ids[0]}.zarr") for ids in ([5, 9], [1])]
    found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "file_id", "--sel", "file_id=1,9,1"))
    assert found["file_id"].values.tolist() == [1, 9, 1]
    numpy.testing.assert_array_equal(found["u"].values[0], found["u"].values[2])


MISTAKES = {
    "an empty list of positions": (["--isel", "latitude=,"], 2, "an empty list"),
    "an empty list of values": (["--sel", "latitude=,"], 2, "an empty list"),
    "a step": (["--isel", "time=0..10..2"], 2, "not a whole number"),
    "positions backwards": (["--isel", "time=9..3"], 3, "nothing in positions"),
    "a range that holds nothing": (["--sel", "time=2030-01..2030-02"], 3, "it holds 2019-12-30"),
    "a time zone by name": (["--sel", "time=2020-01-01T08:00 Europe/Berlin"], 2, "not a date"),
    "a tolerance that is none": (
        ["--sel", "latitude=51", "--method", "nearest", "--tolerance", "x"],
        2,
        "suits nothing",
    ),
    "a tolerance below zero": (["--sel", "latitude=51", "--method", "nearest", "--tolerance", "-1"], 2, "tolerance"),
    "NaN": (["--sel", "latitude=nan", "--method", "nearest"], 2, "not a number"),
    "a dimension twice": (["--sel", "time=2020-01-01", "--isel", "time=0"], 2, "by --sel and by --isel"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(zkit, tmp_path, source, mistake):
    arguments, code, words = MISTAKES[mistake]
    outcome = zkit("slice", source, *arguments, "--to", tmp_path / "slice.zarr")
    assert outcome.code == code, outcome.err
    assert words in outcome.err
    assert not (tmp_path / "slice.zarr").exists()


def test_each_chunk_and_each_document_is_opened_once(zkit, tmp_path, strace):
    names = [f"v{number}" for number in range(5)]
    paths = []
    for number in range(3):
        dataset = batch([2 * number, 2 * number + 1], seed=number)[["u"]].rename(u="v0")
        dataset = dataset.assign({name: dataset["v0"] + 1 for name in names[1:]})
        paths.append(write(dataset, tmp_path / f"{number}.zarr", chunks="whole"))
    arguments = ["slice", *paths, "--concat", "file_id", "--isel", "y=1", "--isel", "x=0", "--verify", "none"]
    planned = zkit.json(*arguments, "--to", tmp_path / "planned.zarr", "--dry-run")
    assert planned["reads"]["stores"] == 3
    log = tmp_path / "log"
    command = [
        strace,
        "-f",
        "-qq",
        "-o",
        log,
        "-e",
        "trace=openat,openat2",
        zkit.path,
        *arguments,
        "--to",
        tmp_path / "slice.zarr",
    ]
    subprocess.run([str(word) for word in command], env=zkit.environment(), check=True, capture_output=True, timeout=60)
    lines = [
        line
        for line in log.read_text().splitlines()
        if "O_RDONLY" in line and "ENOENT" not in line and "O_DIRECTORY" not in line
    ]
    # a call that another thread interrupts has its result on a line of its own
    opens = [found.group(1) for line in lines if (found := re.search(r'"([^"]*)"', line))]
    for name in names:
        assert sum(path.endswith(f"{name}/0.0.0.0") for path in opens) == len(paths), name
    # one document a source, and that of the copy, which is audited before it is published
    assert sum(path.endswith(".zmetadata") for path in opens) == len(paths) + 1
    assert not [path for path in opens if path.endswith((".zarray", ".zattrs", ".zgroup"))]
