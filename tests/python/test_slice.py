"""`zkit slice`, judged by xarray: the same selection of the same sources, value by value and coordinate by coordinate."""

import json

import numpy
import pandas
import pytest
import xarray

from conftest import FIXTURES
from fields import WRITERS, assert_same, batch, grid, opened, write


def slice_of(zkit, tmp_path, *arguments, name="slice.zarr"):
    destination = tmp_path / name
    outcome = zkit("slice", *arguments, "--to", destination, "--verify", "full")
    assert outcome.code == 0, outcome.err
    return destination


SELECTIONS = {
    "one value": (
        ["--sel", "latitude=50", "--sel", "longitude=30"],
        lambda d: d.sel(latitude=50, longitude=30),
    ),
    "nearest": (
        ["--sel", "latitude=51.1", "--sel", "longitude=44", "--method", "nearest"],
        lambda d: d.sel(latitude=51.1, longitude=44, method="nearest"),
    ),
    "pad": (
        ["--sel", "time=2020-01-01T07", "--method", "pad"],
        lambda d: d.sel(time=numpy.datetime64("2020-01-01T07"), method="pad"),
    ),
    "backfill": (
        ["--sel", "time=2020-01-01T07", "--method", "backfill"],
        lambda d: d.sel(time=numpy.datetime64("2020-01-01T07"), method="backfill"),
    ),
    "backfill on a falling coordinate": (
        ["--sel", "latitude=51", "--method", "backfill"],
        lambda d: d.sel(latitude=51, method="backfill"),
    ),
    "a partial date": (["--sel", "time=2020-01-02"], lambda d: d.sel(time="2020-01-02")),
    "a month": (["--sel", "time=2020-01"], lambda d: d.sel(time="2020-01")),
    "a range of dates": (
        ["--sel", "time=2019-12-31..2020-01-02"],
        lambda d: d.sel(time=slice("2019-12-31", "2020-01-02")),
    ),
    "an open range": (["--sel", "time=2020-01-05.."], lambda d: d.sel(time=slice("2020-01-05", None))),
    "a falling range": (["--sel", "latitude=55..45"], lambda d: d.sel(latitude=slice(55, 45))),
    "a rising range of a falling coordinate": (["--sel", "latitude=45..55"], lambda d: d.sel(latitude=slice(55, 45))),
    "a list": (["--sel", "latitude=45,60,50"], lambda d: d.sel(latitude=[45, 60, 50])),
    "a list by method": (
        ["--sel", "longitude=1,359", "--method", "longitude=nearest"],
        lambda d: d.sel(longitude=[0, 0]),
    ),
    "western longitudes": (["--sel", "longitude=-90"], lambda d: d.sel(longitude=270)),
    "across the seam": (
        ["--sel", "longitude=-60..60"],
        lambda d: d.sel(longitude=[300, 330, 0, 30, 60]),
    ),
    "positions": (["--isel", "time=-1", "--isel", "latitude=0"], lambda d: d.isel(time=-1, latitude=0)),
    "a range of positions": (
        ["--isel", "time=3..7", "--isel", "longitude=..-2"],
        lambda d: d.isel(time=slice(3, 7), longitude=slice(None, -2)),
    ),
    "a list of positions": (["--isel", "time=5,0,-1,5"], lambda d: d.isel(time=[5, 0, -1, 5])),
    "nothing asked": ([], lambda d: d),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_selection_is_that_of_xarray(zkit, tmp_path, selection, writer):
    arguments, expected = SELECTIONS[selection]
    source = write(grid(), tmp_path / "source.zarr", **WRITERS[writer])
    found = opened(slice_of(zkit, tmp_path, source, *arguments))
    assert_same(found, expected(opened(source)))
    assert found.attrs.pop("zkit_slice")["schema_version"] == 1
    assert found.attrs == {"title": "a small field"}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "uint8", "int64", "bool"])
def test_data_types_survive(zkit, tmp_path, dtype):
    source = write(grid(dtype=dtype), tmp_path / "source.zarr")
    found = opened(slice_of(zkit, tmp_path, source, "--sel", "latitude=50", "--isel", "time=2..9"))
    assert_same(found, opened(source).sel(latitude=50).isel(time=slice(2, 9)))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_packed_values_and_masks_survive(zkit, tmp_path, zarr_format):
    packed = {"t2m": {"dtype": "int16", "scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768}}
    source = write(grid(), tmp_path / "source.zarr", zarr_format=zarr_format, encoding=packed)
    found = opened(slice_of(zkit, tmp_path, source, "--isel", "latitude=3", "--sel", "longitude=0..90"))
    assert numpy.isnan(found["t2m"].values).any()
    assert_same(found, opened(source).isel(latitude=3).sel(longitude=slice(0, 90)))


@pytest.mark.parametrize("calendar", ["standard", "noleap", "360_day", "julian", "proleptic_gregorian"])
def test_calendars_are_those_of_cftime(zkit, tmp_path, calendar):
    times = xarray.date_range("2000-02-25", periods=12, freq="D", calendar=calendar, use_cftime=True)
    source = write(grid(times=times), tmp_path / "source.zarr")
    found = opened(slice_of(zkit, tmp_path, source, "--sel", "time=2000-02-27..2000-03-02"))
    assert_same(found, opened(source).sel(time=slice("2000-02-27", "2000-03-02")))


@pytest.mark.parametrize("writer", ["v2", "v3", "v3 sharded"])
def test_chunks_that_were_never_written_read_as_they_do_in_the_source(zkit, tmp_path, writer):
    dataset = grid()
    dataset["t2m"][:, :4, :6] = numpy.nan
    source = write(dataset, tmp_path / "source.zarr", **WRITERS[writer])
    for chunk in [path for path in (source / "t2m").rglob("*") if path.is_file() and path.name[0] not in ".z"][::3]:
        chunk.unlink()
    found = opened(slice_of(zkit, tmp_path, source, "--sel", "latitude=60,50,40", "--isel", "time=1.."))
    assert_same(found, opened(source).sel(latitude=[60, 50, 40]).isel(time=slice(1, None)))


def points_file(tmp_path, kind):
    names, latitudes, longitudes = ["Kew", "Oslo", "Null"], [51.5, 59.9, 40.0], [-0.3, 10.7, 0.0]
    if kind == "csv":
        rows = zip(names, latitudes, longitudes, strict=True)
        text = "name,lat,lon\n" + "".join(f"{name},{lat},{lon}\n" for name, lat, lon in rows)
    else:
        features = [
            {
                "type": "Feature",
                "properties": {"name": name},
                "geometry": {"type": "Point", "coordinates": [longitude, latitude]},
            }
            for name, latitude, longitude in zip(names, latitudes, longitudes, strict=True)
        ]
        text = json.dumps({"type": "FeatureCollection", "features": features})
    path = tmp_path / f"points.{kind}"
    path.write_text(text)
    return path, names, latitudes, [longitude % 360 for longitude in longitudes]


@pytest.mark.parametrize("kind", ["csv", "geojson"])
@pytest.mark.parametrize("writer", ["v2", "v3"])
def test_points_lie_along_one_dimension(zkit, tmp_path, kind, writer):
    source = write(grid(), tmp_path / "source.zarr", **WRITERS[writer])
    path, names, latitudes, longitudes = points_file(tmp_path, kind)
    found = opened(slice_of(zkit, tmp_path, source, "--points", path, "--method", "nearest"))
    expected = opened(source).sel(
        latitude=xarray.DataArray(latitudes, dims="point"),
        longitude=xarray.DataArray(longitudes, dims="point"),
        method="nearest",
    )
    # 359.7 is nearer to 0 than to 330: xarray does not know the circle
    expected = expected.assign_coords(point=names)
    circle = opened(source).sel(latitude=51.5, longitude=0, method="nearest")
    xarray.testing.assert_equal(found["t2m"].sel(point="Kew").drop_vars("point"), circle["t2m"])
    rest = ["Oslo", "Null"]
    xarray.testing.assert_equal(found.sel(point=rest), expected.sel(point=rest))


def test_points_are_split_into_stores_of_their_own(zkit, tmp_path):
    source = write(grid(), tmp_path / "source.zarr")
    path, names, latitudes, longitudes = points_file(tmp_path, "csv")
    folder = tmp_path / "points"
    arguments = ["--points", path, "--method", "nearest", "--split", "{name}.zarr", "--to", folder]
    outcome = zkit("slice", source, *arguments)
    assert outcome.code == 0, outcome.err
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.zarr" for name in names)
    for name, latitude, longitude in list(zip(names, latitudes, longitudes, strict=True))[1:]:
        expected = opened(source).sel(latitude=latitude, longitude=longitude, method="nearest")
        found = opened(folder / f"{name}.zarr")
        assert found["point"].item() == name
        xarray.testing.assert_equal(found.drop_vars("point"), expected)


def batches(tmp_path, parts, **options):
    return [
        write(
            batch(ids, seed=seed, **options),
            tmp_path / f"batch_{seed}.zarr",
            **WRITERS["v2" if seed % 2 else "v2 whole"],
        )
        for seed, ids in enumerate(parts)
    ]


def together(paths, dim, **options):
    datasets = [opened(path) for path in paths]
    minimal = {"data_vars": "minimal", "coords": "minimal", "compat": "equals", "join": "exact"}
    return xarray.concat(datasets, dim=dim, combine_attrs="override", **{**minimal, **options})


@pytest.mark.parametrize("arguments", [[], ["--sort"]])
def test_sources_lie_behind_each_other(zkit, tmp_path, arguments):
    paths = batches(tmp_path, [[5, 9], [1], [7, 3, 2]])
    expected = together(paths, "file_id").sel(y=2, x=[3, 0])
    if arguments:
        expected = expected.sortby("file_id")
    selection = ["--sel", "y=2", "--sel", "x=3,0"]
    found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "file_id", *selection, *arguments))
    assert_same(found, expected)


def test_a_selection_along_the_joined_dimension_takes_part_of_some_sources(zkit, tmp_path):
    paths = batches(tmp_path, [[5, 9], [1], [7, 3, 2]])
    for name, selection, expected in [
        ("list.zarr", "file_id=3,9,2", {"file_id": [3, 9, 2]}),
        ("one.zarr", "file_id=7", {"file_id": 7}),
    ]:
        found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "file_id", "--sel", selection, name=name))
        assert_same(found, together(paths, "file_id").sel(**expected))


@pytest.mark.parametrize("keep", ["first", "last"])
def test_duplicates_leave_one_of_each(zkit, tmp_path, keep):
    paths = batches(tmp_path, [[1, 2], [2, 3], [3, 4]])
    refused = zkit("slice", *paths, "--concat", "file_id", "--to", tmp_path / "refused.zarr")
    assert refused.code == 3
    assert "2 values of `file_id`" in refused.err
    assert not (tmp_path / "refused.zarr").exists()
    found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "file_id", "--duplicates", keep, "--sort"))
    expected = together(paths, "file_id").drop_duplicates("file_id", keep=keep).sortby("file_id")
    assert_same(found, expected)


def test_times_of_batches_with_other_units_are_one_axis(zkit, tmp_path):
    paths = []
    for number, (units, days) in enumerate({"hours since 2019-12-30": 0, "days since 2020-01-10": 11}.items()):
        times = pandas.date_range("2019-12-30", periods=4, freq="D") + pandas.Timedelta(days=days)
        encoding = {"time": {"units": units, "dtype": "int64"}}
        path = tmp_path / f"part_{number}.zarr"
        paths.append(write(grid(times=times, seed=7).drop_vars("orography"), path, encoding=encoding))
    found = opened(slice_of(zkit, tmp_path, *paths, "--concat", "time", "--sel", "time=2020-01"))
    assert_same(found, together(paths, "time").sel(time="2020-01"))


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_variables_of_other_stores_are_aligned(zkit, tmp_path, join):
    left = write(batch([1, 2, 3]), tmp_path / "left.zarr")
    right_data = batch([2, 3, 4], seed=9)[["u"]].rename(u="v")
    right = write(right_data, tmp_path / "right.zarr")
    one = opened(left)[["u"]]
    outcome = slice_of(
        zkit, tmp_path, left, "--exclude", "count", "--exclude", "area", "--merge-with", right, "--join", join
    )
    assert_same(opened(outcome), xarray.merge([one, opened(right)], join=join))


def test_a_drift_of_units_is_an_error_unless_it_is_meant(zkit, tmp_path):
    paths = batches(tmp_path, [[1], [2]])
    changed = opened(paths[1])
    changed["u"].attrs["units"] = "m/s"
    write(changed, paths[1])
    destination = tmp_path / "slice.zarr"
    outcome = zkit("slice", *paths, "--concat", "file_id", "--to", destination)
    assert outcome.code == 3 and "--allow units" in outcome.err and not destination.exists()
    assert zkit("slice", *paths, "--concat", "file_id", "--allow", "units", "--to", destination).code == 0


FIXTURE_SELECTIONS = {
    "ostia_sst.zarr": lambda d: {d_name: 0 for d_name in list(d.sizes)[:1]},
    "cmems_ocean.zarr": lambda d: {d_name: slice(0, 2) for d_name in list(d.sizes)[:2]},
    "bcsd_climate.zarr": lambda d: {d_name: [2, 0] for d_name in list(d.sizes)[-1:]},
    "era_interim_geopotential.zarr": lambda d: {d_name: -1 for d_name in list(d.sizes)[-1:]},
    "ncep_nczarr.zarr": lambda d: {d_name: slice(1, None) for d_name in list(d.sizes)[:1] if d.sizes[d_name] > 1},
}


def position_arguments(positions):
    for name, taken in positions.items():
        if isinstance(taken, slice):
            text = f"{taken.start}..{taken.stop if taken.stop is not None else ''}"
        else:
            text = ",".join(map(str, taken)) if isinstance(taken, list) else str(taken)
        yield from ("--isel", f"{name}={text}")


@pytest.mark.parametrize("name", FIXTURE_SELECTIONS)
def test_real_stores_are_sliced_as_xarray_does(zkit, tmp_path, name):
    source = opened(FIXTURES / name)
    positions = FIXTURE_SELECTIONS[name](source)
    found = opened(slice_of(zkit, tmp_path, FIXTURES / name, *position_arguments(positions)))
    found.attrs.pop("zkit_slice")
    xarray.testing.assert_equal(found, source.isel(positions))
    assert found.attrs == source.attrs
