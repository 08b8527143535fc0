"""Sources without the dimension that they are put together along: each holds one value of it, as `xarray.concat` has it."""

import numpy
import pytest
import xarray

from fields import WRITERS, assert_same, grid, opened, write
from test_slice import slice_of

SELECTION = ["--sel", "latitude=50", "--isel", "time=2..9"]


def of_file(file_id, *, seed=None, offset=0.0, name="file_id", **options):
    """A field of one file: its id stands beside it."""
    dataset = grid(seed=file_id if seed is None else seed, **options)
    dataset = dataset.assign_coords(
        {
            name: ((), numpy.int64(file_id), {"long_name": "number of the file"}),
            "tide": (("latitude",), numpy.arange(9.0) + offset),
        }
    )
    # scalars that hold data, and an array that hardly has any chunks
    return dataset.assign(energy=((), numpy.float32(file_id / 2)))


def files(tmp_path, ids, *, writer="v2", **options):
    return [
        write(of_file(file_id, **options), tmp_path / f"file_{number}.zarr", **WRITERS[writer])
        for number, file_id in enumerate(ids)
    ]


def stacked(paths, dim="file_id"):
    # xarray's words for what zkit does: all data, and the coordinates that differ
    datasets = [opened(path) for path in paths]
    options = {"data_vars": "all", "coords": "different", "compat": "equals", "join": "exact"}
    return xarray.concat(datasets, dim=dim, combine_attrs="override", **options)


def selected(dataset):
    return dataset.sel(latitude=50).isel(time=slice(2, 9))


@pytest.mark.parametrize("writer", WRITERS)
def test_scalars_become_a_dimension(zkit, tmp_path, writer):
    paths = files(tmp_path, [7, 3, 12], writer=writer)
    found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "file_id", *SELECTION))
    assert found["t2m"].dims[0] == "file_id" and found["file_id"].values.tolist() == [7, 3, 12]
    assert found["tide"].ndim == 0 and found["energy"].dims == ("file_id",)
    assert_same(found, selected(stacked(paths)))


def test_coordinates_that_differ_get_the_dimension(zkit, tmp_path):
    paths = [write(of_file(file_id, offset=float(file_id > 1)), tmp_path / f"{file_id}.zarr") for file_id in (1, 2, 3)]
    found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "file_id"))
    assert found["tide"].dims == ("file_id", "latitude")
    assert_same(found, stacked(paths))


def test_ids_are_sorted_and_selected(zkit, tmp_path):
    paths = files(tmp_path, [7, 3, 12, 5])
    expected = stacked(paths).sortby("file_id")
    concat = ["--concat", "file_id", "--sort"]
    cases = {
        "all": ([], lambda d: d),
        "one": (["--sel", "file_id=12"], lambda d: d.sel(file_id=12)),
        "some": (["--sel", "file_id=12,3,12"], lambda d: d.sel(file_id=[12, 3, 12])),
        "range": (
            ["--sel", "file_id=4..8", "--isel", "latitude=0"],
            lambda d: d.sel(file_id=slice(4, 8)).isel(latitude=0),
        ),
        "last": (["--isel", "file_id=-1"], lambda d: d.isel(file_id=-1)),
    }
    for name, (arguments, taken) in cases.items():
        found = opened(slice_of(zkit, tmp_path, *paths, *concat, *arguments, name=f"{name}.zarr"))
        assert_same(found, taken(expected))


@pytest.mark.parametrize("keep", ["first", "last"])
def test_ids_that_stand_twice_are_compared(zkit, tmp_path, keep):
    paths = [
        write(of_file(file_id, seed=seed), tmp_path / f"{number}.zarr")
        for number, (file_id, seed) in enumerate([(1, 1), (2, 2), (1, 9), (2, 2)])
    ]
    concat = ["--concat", "file_id", "--sort"]
    refused = zkit("slice", *paths, *concat, "--to", tmp_path / "refused.zarr")
    assert refused.code == 3 and "2 values of `file_id`" in refused.err
    assert "differs" in refused.err and "the same in" in refused.err
    found = opened(slice_of(zkit, tmp_path, *paths, *concat, "--duplicates", keep))
    assert_same(found, stacked(paths).drop_duplicates("file_id", keep=keep).sortby("file_id"))


def test_one_store_alone_gets_the_dimension_too(zkit, tmp_path):
    paths = files(tmp_path, [7])
    found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "file_id", *SELECTION))
    assert_same(found, selected(stacked(paths)))


def test_points_and_parts_of_files_are_taken_along_a_new_dimension(zkit, tmp_path):
    paths = files(tmp_path, [4, 2])
    points = tmp_path / "points.csv"
    points.write_text("name,latitude,longitude\na,60,0\nb,45,330\nc,50,30\n")
    found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "file_id", "--points", points))
    at = {
        "latitude": xarray.DataArray([60.0, 45.0, 50.0], dims="point"),
        "longitude": xarray.DataArray([0.0, 330.0, 30.0], dims="point"),
    }
    expected = stacked(paths).sel(at).assign_coords(point=["a", "b", "c"])
    for name in expected.data_vars:
        wanted = expected[name].transpose(*found[name].dims)
        xarray.testing.assert_equal(found[name], wanted)


def test_times_are_a_new_dimension_whatever_their_units(zkit, tmp_path):
    paths = []
    for number, units in enumerate(["hours since 2020-01-01", "days since 2019-12-31", "hours since 2020-01-01"]):
        dataset = of_file(number).isel(time=4 * number, drop=False)
        encoding = {"time": {"units": units, "dtype": "int64"}}
        paths.append(write(dataset.drop_vars("file_id"), tmp_path / f"{number}.zarr", encoding=encoding))
    found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "time", "--sel", "time=2019-12-31.."))
    assert_same(found, stacked(paths, "time").sel(time=slice("2019-12-31", None)))


def test_texts_are_ids(zkit, tmp_path):
    paths = []
    for name in ("zeta", "Ås", "alpha"):
        dataset = of_file(3).drop_vars("file_id").assign_coords(member=((), name))
        paths.append(write(dataset, tmp_path / f"{name}.zarr", zarr_format=3))
    found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "member", "--sort", "--sel", "member=Ås,alpha"))
    expected = stacked(paths, "member").sel(member=["Ås", "alpha"])
    xarray.testing.assert_equal(found, expected)


def test_variables_of_other_stores_are_aligned_by_new_ids(zkit, tmp_path):
    paths = files(tmp_path, [1, 2, 3])
    others = []
    for file_id in (2, 3, 4):
        dataset = of_file(file_id, seed=file_id + 50)[["t2m", "energy"]].rename(t2m="u10", energy="power")
        others.append(write(dataset, tmp_path / f"other_{file_id}.zarr"))
    merge = ["--merge-with", *others, "--exclude", "elapsed"]
    for join in ("inner", "outer"):
        found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "file_id", *merge, "--join", join, name=join))
        expected = xarray.merge([stacked(paths).drop_vars("elapsed"), stacked(others)], join=join, compat="equals")
        for name in expected.data_vars:
            xarray.testing.assert_equal(found[name], expected[name].transpose(*found[name].dims))


def test_a_name_that_is_nowhere_is_refused_with_those_that_there_are(zkit, tmp_path):
    paths = files(tmp_path, [1, 2])
    outcome = zkit("slice", *paths, "--concat", "batch", "--to", tmp_path / "slice.zarr")
    assert outcome.code == 2, outcome.err
    assert "no dimension `batch`" in outcome.err
    assert "latitude, longitude, time" in outcome.err and "energy, file_id" in outcome.err
    assert not (tmp_path / "slice.zarr").exists()
    outcome = zkit("slice", *paths, "--to", tmp_path / "slice.zarr")
    assert outcome.code == 2 and "file_id" in outcome.err


def test_a_store_of_one_id_lies_beside_stores_of_many(zkit, tmp_path):
    single = [write(of_file(5).drop_vars("name"), tmp_path / "single.zarr")]
    many = stacked(files(tmp_path / "many", [8, 1])).drop_vars("name").drop_encoding()
    path = write(many, tmp_path / "many.zarr")
    found = opened(slice_of(zkit, tmp_path, *single, path, "--concat", "file_id", *SELECTION))
    expected = xarray.concat(
        [stacked(single), opened(path)],
        dim="file_id",
        data_vars="minimal",
        coords="minimal",
        compat="equals",
        join="exact",
    )
    xarray.testing.assert_equal(found, selected(expected))


def test_groups_and_included_arrays_bring_their_ids_along(zkit, tmp_path):
    paths = files(tmp_path, [2, 1])
    found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "file_id", "--include", "energy"))
    assert found["energy"].dims == ("file_id",) and found["file_id"].values.tolist() == [2, 1]
    xarray.testing.assert_equal(found["energy"], stacked(paths)["energy"])
