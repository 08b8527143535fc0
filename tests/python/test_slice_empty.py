"""`zkit slice` of dimensions without elements and arrays without dimensions: xarray's answer, or an error that names what is
empty; never a panic."""

import numpy
import pandas
import pytest
import xarray

from fields import assert_same, opened, write

FORMATS = {"v2": {"zarr_format": 2}, "v3": {"zarr_format": 3}}


def empty(times=0, *, first=0, x=5, offset=0.0):
    """A field of so many times, mostly none, with arrays that do not have them, and scalars."""
    time = pandas.date_range("2020-01-01", periods=first + times, freq="D")[first:]
    return xarray.Dataset(
        {
            "e": (("time", "x"), numpy.arange(times * x, dtype="float64").reshape(times, x) + offset),
            "t": (("x",), numpy.arange(x, dtype="int32")),
            "label": (("time",), numpy.arange(times, dtype="int16")),
            "scalar": ((), numpy.float32(7)),
        },
        coords={"time": time, "x": numpy.arange(x) * 10.0, "latitude": ((), 50.0)},
    )


def answer(zkit, tmp_path, *arguments):
    """The outcome, and the slice where there is one."""
    destination = tmp_path / "slice.zarr"
    planned = zkit("slice", *arguments, "--to", destination, "--dry-run")
    assert not destination.exists()
    outcome = zkit("slice", *arguments, "--to", destination, "--verify", "full")
    assert "panicked" not in planned.err + outcome.err, outcome.err
    assert planned.code == outcome.code, planned.err
    assert outcome.code in (0, 1, 2, 3), outcome.err
    assert destination.exists() == (outcome.code == 0)
    return outcome, opened(destination) if outcome.code == 0 else None


TAKEN = {
    "all": ([], lambda d: d),
    "positions along another dimension": (["--isel", "x=1..3"], lambda d: d.isel(x=slice(1, 3))),
    "one position along another dimension": (["--isel", "x=-1"], lambda d: d.isel(x=-1)),
    "a value along another dimension": (["--sel", "x=20"], lambda d: d.sel(x=20)),
    "the nearest value along another": (
        ["--sel", "x=21", "--method", "nearest"],
        lambda d: d.sel(x=21, method="nearest"),
    ),
    "a list along another": (["--isel", "x=3,0"], lambda d: d.isel(x=[3, 0])),
    "one variable": (["--include", "e"], lambda d: d[["e"]]),
}

REFUSED = {
    "the first of none": (["--isel", "time=0"], "`time` has no position 0: it has 0"),
    "a range of none": (["--isel", "time=0..3"], "nothing in positions 0..3: it has 0"),
    "a value of none": (["--sel", "time=2020-01-01"], "it holds no value"),
    "the nearest of none": (["--sel", "time=2020-01-01", "--method", "nearest"], "it holds no value"),
    "a range of values of none": (["--sel", "time=2020..2021"], "it holds no value"),
    "an open range of none": (["--sel", "time=.."], "it holds no value"),
    "pad of none": (["--sel", "time=2020-01-01", "--method", "pad"], "it holds no value"),
}


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("taken", TAKEN)
def test_what_is_taken_beside_a_dimension_of_none_is_what_xarray_takes(zkit, tmp_path, taken, zarr_format):
    arguments, expected = TAKEN[taken]
    source = write(empty(), tmp_path / "source.zarr", **FORMATS[zarr_format])
    outcome, found = answer(zkit, tmp_path, source, *arguments)
    assert outcome.code == 0, outcome.err
    assert_same(found, expected(opened(source)))


@pytest.mark.parametrize("refused", REFUSED)
def test_what_is_asked_of_a_dimension_of_none_is_refused_by_name(zkit, tmp_path, refused):
    arguments, words = REFUSED[refused]
    source = write(empty(), tmp_path / "source.zarr")
    outcome, _ = answer(zkit, tmp_path, source, *arguments)
    assert outcome.code != 0
    assert words in outcome.err, outcome.err


SIZES = {"none and none": (0, 0), "none and some": (0, 3), "some and none": (3, 0)}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("sorting", [[], ["--sort"], ["--duplicates", "first"]])
def test_sources_of_none_are_concatenated(zkit, tmp_path, sizes, sorting):
    one, other = SIZES[sizes]
    one = write(empty(one), tmp_path / "a.zarr")
    other = write(empty(other, first=5, offset=100), tmp_path / "b.zarr")
    outcome, found = answer(zkit, tmp_path, one, other, "--concat", "time", *sorting)
    assert outcome.code == 0, outcome.err
    expected = xarray.concat(
        [opened(one), opened(other)], "time", data_vars="minimal", coords="minimal", compat="override"
    )
    assert_same(found, expected)


@pytest.mark.parametrize("join", ["exact", "inner", "outer"])
@pytest.mark.parametrize("sizes", SIZES)
def test_variables_of_none_are_merged(zkit, tmp_path, sizes, join):
    one, other = SIZES[sizes]
    one = write(empty(one)[["e"]], tmp_path / "a.zarr")
    other = write(empty(other, first=5)[["e"]].rename(e="f"), tmp_path / "b.zarr")
    outcome, found = answer(zkit, tmp_path, one, "--merge-with", other, "--join", join)
    sources = [opened(one), opened(other)]
    if join == "exact" and sources[0].sizes != sources[1].sizes:
        assert outcome.code != 0 and "`/time` has" in outcome.err, outcome.err
    else:
        assert outcome.code == 0, outcome.err
        assert_same(found, xarray.merge(sources, join=join, compat="equals"))


@pytest.mark.parametrize("sizes", SIZES)
def test_an_inner_join_may_leave_nothing(zkit, tmp_path, sizes):
    one, other = SIZES[sizes]
    one = write(empty(one)[["e"]], tmp_path / "a.zarr")
    other = write(empty(max(other, 2), first=9)[["e"]].rename(e="f"), tmp_path / "b.zarr")
    outcome, found = answer(zkit, tmp_path, one, "--merge-with", other, "--join", "inner")
    assert outcome.code == 0, outcome.err
    assert_same(found, xarray.merge([opened(one), opened(other)], join="inner", compat="equals"))


@pytest.mark.parametrize("split", [[], ["--split", "{name}.zarr"]])
def test_points_beside_a_dimension_of_none(zkit, tmp_path, split):
    source = write(empty(), tmp_path / "source.zarr")
    points = tmp_path / "points.csv"
    points.write_text("name,x\na,10\nb,40\n")
    destination = tmp_path / "out"
    outcome = zkit("slice", source, "--points", points, *split, "--to", destination)
    assert outcome.code == 0, outcome.err
    if split:
        assert_same(opened(destination / "b.zarr").drop_vars("point"), opened(source).sel(x=40))
    else:
        expected = opened(source).sel(x=xarray.DataArray([10.0, 40.0], dims="point"))
        assert_same(opened(destination).drop_vars("point"), expected)


def test_points_along_a_dimension_of_none_are_refused(zkit, tmp_path):
    source = write(empty(), tmp_path / "source.zarr")
    points = tmp_path / "points.csv"
    points.write_text("name,time\na,2020-01-01\n")
    outcome, _ = answer(zkit, tmp_path, source, "--points", points)
    assert outcome.code != 0
    assert "it holds no value" in outcome.err, outcome.err


def test_scalars_alone_are_a_slice(zkit, tmp_path):
    source = write(xarray.Dataset({"a": 3.5, "b": numpy.int16(0), "name": "x"}), tmp_path / "source.zarr")
    outcome, found = answer(zkit, tmp_path, source)
    assert outcome.code == 0, outcome.err
    assert_same(found, opened(source))
    outcome = zkit("slice", source, "--isel", "x=0", "--to", tmp_path / "other.zarr")
    assert outcome.code == 2, outcome.err
    assert "dimension `x`" in outcome.err, outcome.err
