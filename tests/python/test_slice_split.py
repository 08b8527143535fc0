"""`zkit slice --split`: one store for each point, each as xarray selects it, from one pass over the sources."""

import numpy
import pytest
import xarray

from fields import WRITERS, assert_same, batch, grid, opened, write

POINTS = {"Kew": (50.0, 0.0), "Oslo": (60.0, 30.0), "Null": (40.0, 330.0), "again": (50.0, 0.0)}


def points_file(tmp_path, points=POINTS):
    path = tmp_path / "points.csv"
    rows = [f"{name},{latitude},{longitude}" for name, (latitude, longitude) in points.items()]
    path.write_text("\n".join(["name,latitude,longitude", *rows]) + "\n")
    return path


def left(folder):
    return sorted(path.name for path in folder.iterdir() if "partial" in path.name)


@pytest.mark.parametrize(
    "options", [[], ["--zarr-format", "3"], ["--zarr-format", "2", "--codec", "zstd:1"], ["--verify", "full"]]
)
@pytest.mark.parametrize("writer", WRITERS)
def test_each_store_is_the_selection_of_its_point(zkit, tmp_path, writer, options):
    if options[:2] == ["--zarr-format", "3"] or (options[:2] == ["--zarr-format", "2"] and "v3" in writer):
        options = [*options, *([] if "--codec" in options else ["--codec", "zstd:1"])]
    source = write(grid(), tmp_path / "source.zarr", **WRITERS[writer])
    destination = tmp_path / "split"
    outcome = zkit(
        "slice", source, "--points", points_file(tmp_path), "--split", "{name}.zarr", "--to", destination, *options
    )
    assert outcome.code == 0, outcome.err
    assert sorted(path.name for path in destination.iterdir()) == sorted(f"{name}.zarr" for name in POINTS)
    assert left(tmp_path) == []
    for name, (latitude, longitude) in POINTS.items():
        found = opened(destination / f"{name}.zarr")
        assert found["point"].item() == name
        expected = opened(source).sel(latitude=latitude, longitude=longitude)
        assert_same(found.drop_vars("point"), expected)


def test_packed_and_masked_values_survive_the_way_over_scratch_space(zkit, tmp_path):
    packed = {"t2m": {"dtype": "int16", "scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768}}
    source = write(grid(), tmp_path / "source.zarr", encoding=packed)
    destination = tmp_path / "split"
    arguments = [
        "--points",
        points_file(tmp_path),
        "--split",
        "{index}.zarr",
        "--to",
        destination,
        "--zarr-format",
        "3",
        "--codec",
        "zstd:1",
    ]
    assert zkit("slice", source, *arguments).code == 0
    for index, (latitude, longitude) in enumerate(POINTS.values()):
        found = opened(destination / f"{index}.zarr").drop_vars("point")
        assert_same(found, opened(source).sel(latitude=latitude, longitude=longitude))


def test_many_points_of_many_stores_are_read_as_often_as_points_without_split(zkit, tmp_path):
    sources = [write(batch(range(5 * n, 5 * n + 5), seed=n), tmp_path / f"{n}.zarr") for n in range(6)]
    points = tmp_path / "points.csv"
    rows = [f"p{number},{number % 4},{number % 5}" for number in range(40)]
    points.write_text("\n".join(["name,y,x", *rows]) + "\n")
    common = [*sources, "--concat", "file_id", "--points", points, "--verify", "none", "--format", "json"]
    together = zkit("slice", *common, "--to", tmp_path / "together.zarr")
    split = zkit("slice", *common, "--split", "{name}.zarr", "--to", tmp_path / "split")
    assert together.code == 0 and split.code == 0, split.err
    together, split = together.json(), split.json()
    # the names of the points are an array of one and no array of the other
    assert split["reads"]["chunks"] <= together["reads"]["chunks"]
    # each source chunk once, and what all points take once more for each of the 40 stores
    own = sum(path.stat().st_size for path in (tmp_path / "together.zarr").rglob("*") if path.is_file())
    assert split["bytes_read"] <= 1.5 * together["bytes_read"] + 40 * own, (
        split["bytes_read"],
        together["bytes_read"],
        own,
    )
    written = [path for path in (tmp_path / "split").rglob("*") if path.is_file()]
    assert split["objects_written"] == len(written)
    assert split["bytes_written"] == sum(path.stat().st_size for path in written)
    for number in (0, 17, 39):
        one = opened(tmp_path / "together.zarr").isel(point=number).drop_vars("point")
        assert_same(opened(tmp_path / "split" / f"p{number}.zarr").drop_vars("point"), one)


def test_a_plan_says_what_is_read_once_and_what_is_written(zkit, tmp_path):
    source = write(grid(), tmp_path / "source.zarr")
    arguments = [
        source,
        "--points",
        points_file(tmp_path),
        "--split",
        "{name}.zarr",
        "--to",
        tmp_path / "split",
        "--format",
        "json",
    ]
    planned = zkit("slice", *arguments, "--dry-run")
    assert planned.code == 0, planned.err
    assert not (tmp_path / "split").exists() and left(tmp_path) == []
    done = zkit("slice", *arguments).json()
    planned = planned.json()
    assert planned["objects_written"] == done["objects_written"]
    assert planned["reads"] == done["reads"]
    assert planned["bytes_read"] * 0.5 <= done["bytes_read"]
    assert len(planned["arrays"]) == done["arrays_written"]


def test_stores_that_are_done_are_left_and_the_others_made_on_resume(zkit, tmp_path):
    source = write(grid(), tmp_path / "source.zarr")
    arguments = [source, "--points", points_file(tmp_path), "--split", "{name}.zarr", "--to", tmp_path / "split"]
    assert zkit("slice", *arguments).code == 0
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "split").glob("[!O]*/*/*") if path.is_file()}
    expected = opened(tmp_path / "split" / "Oslo.zarr")
    for path in sorted((tmp_path / "split" / "Oslo.zarr").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "split" / "Oslo.zarr").rmdir()
    outcome = zkit("slice", *arguments, "--resume")
    assert outcome.code == 0, outcome.err
    xarray.testing.assert_identical(opened(tmp_path / "split" / "Oslo.zarr"), expected)
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}
    again = zkit("slice", *arguments, "--resume")
    assert again.code == 0 and again.stdout.decode().count("already done") == len(POINTS), again.err


def test_a_corrupt_chunk_leaves_nothing_and_hints_at_no_option(zkit, tmp_path):
    source = write(grid(), tmp_path / "source.zarr")
    chunk = next(path for path in (source / "t2m").iterdir() if path.name == "0.0.0")
    chunk.write_bytes(chunk.read_bytes()[:40])
    for arguments in (["--isel", "latitude=0"], ["--points", points_file(tmp_path), "--split", "{name}.zarr"]):
        outcome = zkit("slice", source, *arguments, "--to", tmp_path / "out")
        assert outcome.code == 3, outcome.err
        assert "--on-corrupt" not in outcome.err, outcome.err
        assert "hint: copy the source again" in outcome.err, outcome.err
        assert not [path for path in (tmp_path / "out").glob("*.zarr")]


def test_scratch_space_of_a_run_that_died_is_replaced(zkit, tmp_path):
    source = write(grid(), tmp_path / "source.zarr")
    stale = tmp_path / "split.partial.scratch" / "points.zarr"
    stale.mkdir(parents=True)
    (stale / ".zgroup").write_text('{"zarr_format": 2}')
    arguments = [source, "--points", points_file(tmp_path), "--split", "{name}.zarr", "--to", tmp_path / "split"]
    outcome = zkit("slice", *arguments)
    assert outcome.code == 0, outcome.err
    assert left(tmp_path) == []
    assert numpy.isfinite(opened(tmp_path / "split" / "Kew.zarr")["orography"]).all()
