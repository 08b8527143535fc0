"""What `zkit slice` makes of sources that differ: coordinates turned round or shifted, times in other units, variables that
several sources hold, duplicates that only look different. xarray and cftime are the judges."""

import numpy
import pandas
import pytest
import xarray

from fields import assert_same, batch, opened, write


def field(first=0, y=None, **variables):
    """Four ids from `first` on, by six places along y."""
    y = numpy.arange(6) * 10.0 if y is None else numpy.asarray(y)
    values = numpy.arange(first * 6, first * 6 + 24, dtype="float32").reshape(4, 6)
    dataset = xarray.Dataset(
        {"t": (("id", "y"), values, {"units": "K"})}, coords={"id": numpy.arange(first, first + 4), "y": y}
    )
    return dataset.assign({name: ("id", numpy.asarray(held)) for name, held in variables.items()})


def combined(zkit, tmp_path, datasets, *arguments, zarr_format=2):
    """The outcome of a concatenation along id, the slice if there is one, and the sources as xarray sees them."""
    paths = []
    for number, dataset in enumerate(datasets):
        paths.append(write(dataset, tmp_path / f"{number}.zarr", zarr_format=zarr_format))
    destination = tmp_path / "slice.zarr"
    outcome = zkit(
        "slice", *paths, "--concat", "id", "--to", destination, "--verify", "full", "--format", "json", *arguments
    )
    found = opened(destination) if outcome.code == 0 else None
    assert destination.exists() == (outcome.code == 0)
    return outcome, found, [opened(path) for path in paths]


TURNED = {
    "reversed": (lambda y: y[::-1], "in reverse order"),
    "permuted": (lambda y: y[[1, 0, 2, 3, 4, 5]], "in another order"),
}
SHIFTED = {
    "shifted by ten steps": lambda y: y + 100,
    "shifted by half a step": lambda y: y + 5,
    "shifted by a fiftieth of a step": lambda y: y + 0.2,
    "scaled": lambda y: y * 1.01,
    "one value off": lambda y: numpy.where(y == 30, 33, y),
}


@pytest.mark.parametrize("allow", [[], ["--allow", "coordinates"]])
@pytest.mark.parametrize("turned", TURNED)
def test_an_axis_in_another_order_is_refused_and_named(zkit, tmp_path, turned, allow):
    turn, words = TURNED[turned]
    y = numpy.arange(6) * 10.0
    outcome, _, _ = combined(zkit, tmp_path, [field(0, y), field(4, turn(y))], *allow)
    assert outcome.code == 3
    assert f"`/y` holds the same values {words}" in outcome.err, outcome.err
    hint = outcome.err.split("hint: ")[1]
    assert "--join inner" in hint and "--allow" not in hint, outcome.err


@pytest.mark.parametrize("turned", TURNED)
@pytest.mark.parametrize("join", ["inner", "outer"])
def test_what_the_hint_says_puts_an_axis_in_order(zkit, tmp_path, turned, join):
    y = numpy.arange(6) * 10.0
    outcome, found, (one, other) = combined(
        zkit, tmp_path, [field(0, y), field(4, TURNED[turned][0](y))], "--join", join
    )
    assert outcome.code == 0, outcome.err
    assert_same(found, xarray.concat([one, other.sel(y=one.y)], "id"))


@pytest.mark.parametrize("allow", [[], ["--allow", "coordinates"]])
@pytest.mark.parametrize("shifted", SHIFTED)
def test_other_values_are_refused_even_where_coordinates_are_allowed(zkit, tmp_path, shifted, allow):
    y = numpy.arange(6) * 10.0
    outcome, _, _ = combined(zkit, tmp_path, [field(0, y), field(4, SHIFTED[shifted](y))], *allow)
    assert outcome.code == 3
    assert "--allow" not in outcome.err.split("hint: ")[1], outcome.err
    if allow:
        assert "--allow coordinates takes differences of rounding alone, these are up to" in outcome.err, outcome.err


ROUNDED = {
    "noise": (lambda y: y + 1e-9, "0.000000001"),
    "single precision": (lambda y: y.astype("float32").astype("float64"), None),
    "decimals": (lambda y: y.round(3), None),
}


@pytest.mark.parametrize("rounded", ROUNDED)
def test_rounding_may_be_passed_over_and_is_told(zkit, tmp_path, rounded):
    rounding, largest = ROUNDED[rounded]
    y = numpy.arange(6) / 3 + 50
    datasets = [field(0, y), field(4, rounding(y))]
    outcome, _, _ = combined(zkit, tmp_path, datasets)
    assert outcome.code == 3
    assert "pass --allow coordinates" in outcome.err.split("hint: ")[1], outcome.err
    outcome, found, (one, other) = combined(zkit, tmp_path, datasets, "--allow", "coordinates")
    assert outcome.code == 0, outcome.err
    assert_same(found, xarray.concat([one, other.assign_coords(y=one.y)], "id"))
    (told,) = outcome.json()["slices"][0]["overridden"]
    assert told["path"] == "/y"
    assert told["largest_difference"] == pytest.approx(abs(one.y.values - other.y.values).max())
    assert largest is None or told["largest_difference_text"] == largest
    text = zkit(
        "slice",
        tmp_path / "0.zarr",
        tmp_path / "1.zarr",
        "--concat",
        "id",
        "--allow",
        "coordinates",
        "--to",
        tmp_path / "again.zarr",
    )
    assert "overridden" in text.stdout.decode() and "`/y` differs by up to" in text.stdout.decode(), (
        text.stdout.decode()
    )


def test_places_that_describe_data_are_bounded_too(zkit, tmp_path):
    def curved(first, turn):
        latitude = numpy.add.outer(numpy.arange(3) * 10.0, numpy.arange(4) * 0.1)
        dataset = xarray.Dataset({"t": (("id", "j", "i"), numpy.zeros((2, 3, 4)))}, coords={"id": [first, first + 1]})
        return dataset.assign_coords(latitude=(("j", "i"), latitude[::turn]))

    outcome, _, _ = combined(zkit, tmp_path, [curved(0, 1), curved(2, -1)], "--allow", "coordinates")
    assert outcome.code == 3
    assert "`/latitude`" in outcome.err and "--allow" not in outcome.err.split("hint: ")[1], outcome.err


TIMES = {
    "days and hours": (pandas.date_range("2020", periods=4), pandas.date_range("2020-02-01", periods=4, freq="6h")),
    "hours at other minutes": (
        pandas.date_range("2020-01-01T00:00", periods=4, freq="h"),
        pandas.date_range("2020-01-02T00:30", periods=4, freq="h"),
    ),
    "days and seconds": (
        pandas.date_range("2020", periods=4),
        pandas.to_datetime(
            ["2021-01-01T00:00:01", "2021-02-03T04:05:06", "2021-01-03T00:00:00", "2022-01-01T00:00:00"]
        ),
    ),
    "missing times": (
        pandas.to_datetime(["2020-01-01", None, "2020-01-03", "2020-01-04"]),
        pandas.to_datetime(["2020-01-05T06", "2020-01-06T00", None, "2020-01-08T12"]),
    ),
    "durations": (pandas.to_timedelta([0, 1, 2, 3], "h"), pandas.to_timedelta([0, 90, 180, 270], "s")),
}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("times", TIMES)
def test_times_in_other_units_are_taken_whatever_the_order_of_sources(zkit, tmp_path, times, order, zarr_format):
    one, other = TIMES[times]
    datasets = [field(0, when=one), field(4, when=other)][::order]
    outcome, found, sources = combined(zkit, tmp_path, datasets, zarr_format=zarr_format)
    assert outcome.code == 0, outcome.err
    assert_same(found, xarray.concat(sources, "id"))


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("calendar", ["noleap", "360_day", "standard"])
def test_calendars_keep_their_times_in_finer_units(zkit, tmp_path, calendar, order):
    def times(start, freq):
        return xarray.date_range(start, periods=4, freq=freq, calendar=calendar, use_cftime=True)

    datasets = [field(0, when=times("2001-02-26", "D")), field(4, when=times("2001-03-01T06", "6h"))][::order]
    outcome, found, sources = combined(zkit, tmp_path, datasets)
    assert outcome.code == 0, outcome.err
    assert_same(found, xarray.concat(sources, "id"))


@pytest.mark.parametrize("order", [1, -1])
def test_a_dimension_of_times_in_other_units_is_concatenated(zkit, tmp_path, order):
    def at(times, first):
        return field(first).assign_coords(id=times)

    datasets = [
        at(pandas.date_range("2020", periods=4), 0),
        at(pandas.date_range("2020-02-01", periods=4, freq="6h"), 4),
    ][::order]
    outcome, found, sources = combined(zkit, tmp_path, datasets)
    assert outcome.code == 0, outcome.err
    assert_same(found, xarray.concat(sources, "id"))


def files(first, names, start, *, count=4, freq="6h", shift=0.0):
    """Variables by file, with the time at which each file begins."""
    ids = [f"f{first + number:03}" for number in range(count)]
    begins = pandas.date_range(start, periods=64, freq=freq)[first : first + count]
    valid = begins.values[:, None] + numpy.arange(3).astype("timedelta64[h]").astype("timedelta64[ns]")
    variables = {
        name: (("id", "x"), numpy.arange(count * 3, dtype="float32").reshape(count, 3) + first + shift)
        for name in names
    }
    coordinates = {
        "id": numpy.array(ids, dtype=object),
        "begins": ("id", begins),
        "valid": (("id", "x"), valid),
    }
    return xarray.Dataset(variables, coords=coordinates)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("join", [[], ["--join", "inner"], ["--join", "outer"]])
def test_coordinates_that_both_sides_of_a_merge_hold_are_taken_once(zkit, tmp_path, join, zarr_format):
    """The epochs differ from store to store: xarray counts from the first time of each."""
    sets = [
        [files(0, ["t"], "2020-01-01"), files(4, ["t"], "2020-01-01")],
        [files(0, ["r"], "2020-01-01", count=2), files(2, ["r"], "2020-01-01", count=6)],
    ]
    if join:
        sets[1].append(files(8, ["r"], "2020-01-01", count=2))
    paths = [
        [write(one, tmp_path / f"{at}_{number}.zarr", zarr_format=zarr_format) for number, one in enumerate(datasets)]
        for at, datasets in enumerate(sets)
    ]
    destination = tmp_path / "slice.zarr"
    outcome = zkit("slice", *paths[0], "--merge-with", *paths[1], "--concat", "id", *join, "--to", destination)
    assert outcome.code == 0, outcome.err
    together = [xarray.concat([opened(path) for path in of_set], "id") for of_set in paths]
    how = join[1] if join else "exact"
    assert_same(opened(destination), xarray.merge(together, join=how))


def test_coordinates_that_differ_are_refused_with_their_first_difference(zkit, tmp_path):
    one, other = files(0, ["t"], "2020-01-01"), files(0, ["r"], "2020-01-01")
    begins = other["begins"].values.copy()
    begins[2] += numpy.timedelta64(1, "h")
    other = other.assign_coords(begins=("id", begins))
    paths = [write(one, tmp_path / "a.zarr"), write(other, tmp_path / "b.zarr")]
    outcome = zkit("slice", paths[0], "--merge-with", paths[1], "--concat", "id", "--to", tmp_path / "slice.zarr")
    assert outcome.code == 3
    assert "`/begins` is 2020-01-01T12:00 in" in outcome.err, outcome.err
    assert "2020-01-01T13:00 in" in outcome.err and "id=f002" in outcome.err, outcome.err
    with pytest.raises(xarray.MergeError):
        xarray.merge([opened(path) for path in paths], compat="no_conflicts")
    # what the hint says works
    without = tmp_path / "without.zarr"
    assert zkit("slice", paths[1], "--exclude", "begins", "--to", without).code == 0
    outcome = zkit("slice", paths[0], "--merge-with", without, "--concat", "id", "--to", tmp_path / "slice.zarr")
    assert outcome.code == 0, outcome.err


def test_duplicates_hold_the_same_where_only_the_epochs_differ(zkit, tmp_path):
    one, other = files(0, ["t"], "2020-01-01", count=4), files(2, ["t"], "2020-01-01", count=4)
    other["t"][:2] = one["t"][2:].values
    paths = [write(one, tmp_path / "a.zarr"), write(other, tmp_path / "b.zarr")]
    sources = [opened(path) for path in paths]
    assert sources[0].isel(id=[2, 3]).identical(sources[1].isel(id=[0, 1]))
    assert sources[0]["begins"].encoding["units"] != sources[1]["begins"].encoding["units"]
    outcome = zkit("slice", *paths, "--concat", "id", "--duplicates", "first", "--to", tmp_path / "slice.zarr")
    assert outcome.code == 0, outcome.err
    assert "2 values in more than one place; 2 hold the same" in outcome.stdout.decode(), outcome.stdout.decode()
    assert_same(opened(tmp_path / "slice.zarr"), xarray.concat(sources, "id").drop_duplicates("id"))


def test_duplicates_differ_where_a_decoded_time_does(zkit, tmp_path):
    one, other = files(0, ["t"], "2020-01-01", count=4), files(2, ["t"], "2020-01-01T00:10", count=4)
    other["t"][:2] = one["t"][2:].values
    paths = [write(one, tmp_path / "a.zarr"), write(other, tmp_path / "b.zarr")]
    outcome = zkit("slice", *paths, "--concat", "id", "--to", tmp_path / "slice.zarr")
    assert outcome.code == 3
    assert "`/begins` differs" in outcome.err, outcome.err


def test_duplicates_without_a_dimension_name_the_whole_command(zkit, tmp_path):
    paths = [write(batch([1, 2]), tmp_path / "a.zarr"), write(batch([2, 3]), tmp_path / "b.zarr")]
    outcome = zkit("slice", *paths, "--duplicates", "first", "--to", tmp_path / "slice.zarr")
    assert outcome.code == 2
    command = outcome.err.split("hint: ")[1].split()
    assert command[:2] == ["zkit", "slice"], outcome.err
    command = [str(tmp_path / "slice.zarr") if word == "DESTINATION" else word for word in command[1:]]
    assert zkit(*command).code == 0
