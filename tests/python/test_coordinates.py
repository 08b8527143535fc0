"""Coordinates as xarray writes them, with faults planted in them and without: what `zkit audit` finds, and nothing more.

The judges are xarray, which encodes the times, and cftime, which knows the calendars; how times decode and how values are
found is compared in `crates/zkit-core/tests/coordinates.rs`.
"""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

RULES = {"duplicate-ids", "coordinate-gap", "coordinate-not-monotonic", "dimension-mismatch"}
CALENDARS = ["standard", "proleptic_gregorian", "noleap", "all_leap", "360_day", "julian"]
FORMATS = [2, 3]


def time_axis(calendar, frequency, periods, start="2001-01-01"):
    if calendar in ("standard", "proleptic_gregorian"):
        return pd.date_range(start, periods=periods, freq=frequency)
    return xr.date_range(start, periods=periods, freq=frequency, calendar=calendar, use_cftime=True)


def dataset(**coordinates):
    shape = [len(values) for values in coordinates.values()]
    values = np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(shape)
    return xr.Dataset({"v": (tuple(coordinates), values)}, coords=coordinates)


@pytest.fixture
def audit(zkit, tmp_path):
    def found(data, zarr_format=3, encoding=None):
        store = tmp_path / "store.zarr"
        data.to_zarr(store, mode="w", zarr_format=zarr_format, encoding=encoding, consolidated=False)
        document = zkit("audit", store, "--format", "json").json()
        return [finding for finding in document["findings"] if finding["rule"] in RULES]

    return found


def loud(findings):
    return [(f["rule"], f["array"]) for f in findings if f["severity"] != "info"]


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("calendar", CALENDARS)
@pytest.mark.parametrize("frequency", ["MS", "ME", "D", "6h", "QS-DEC", "YS", "h", "30min"])
def test_regular_times_are_silent(audit, calendar, frequency, zarr_format):
    times = time_axis(calendar, frequency, 40)
    assert loud(audit(dataset(time=times, x=[0.0, 1.0]), zarr_format)) == []


@pytest.mark.parametrize("calendar", CALENDARS)
@pytest.mark.parametrize("frequency", ["MS", "D", "6h", "YS"])
def test_missing_steps_are_found_where_they_are(audit, calendar, frequency):
    times = time_axis(calendar, frequency, 60)
    lost = [21, 22, 40]
    kept = times[[at for at in range(60) if at not in lost]]
    findings = audit(dataset(time=kept))
    assert loud(findings) == [("coordinate-gap", "/time")]
    gaps = [(gap["after"], gap["missing"]) for gap in findings[0]["evidence"]["gaps"]]
    assert gaps == [(20, 2), (37, 1)]
    assert findings[0]["evidence"]["gaps"][0]["from"].startswith(str(kept[20])[:10])


@pytest.mark.parametrize("dtype", ["int64", "float64", "float32"])
@pytest.mark.parametrize("units", ["hours since 1800-01-01", "days since 1950-01-01", "seconds since 1970-01-01"])
def test_encodings_of_times_make_no_difference(audit, units, dtype):
    times = pd.date_range("2013-10-01", periods=124, freq="6h")
    if units.startswith("days") and dtype != "float64":
        times = pd.date_range("2013-10-01", periods=124, freq="D")
    if units.startswith("seconds") and dtype == "float32":
        pytest.skip("single precision does not hold these seconds")
    repeated = times[[*range(40), *range(36, 40), *range(40, 124)]]
    findings = audit(dataset(time=repeated), encoding={"time": {"units": units, "dtype": dtype}})
    assert loud(findings) == [("duplicate-ids", "/time")]
    assert findings[0]["evidence"]["repeats"][0] | {"value": ""} == {"first": 36, "again": 40, "count": 4, "value": ""}
    shuffled = times[[*range(62, 124), *range(62)]]
    findings = audit(dataset(time=shuffled), encoding={"time": {"units": units, "dtype": dtype}})
    assert loud(findings) == [("coordinate-not-monotonic", "/time")]
    assert findings[0]["evidence"]["position"] == 62


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize(
    "coordinates",
    [
        {"latitude": np.linspace(90, -90, 181), "longitude": np.arange(0, 360, 0.25)},
        {"lat": np.arange(-89.75, 90, 0.5, dtype="float32"), "lon": np.roll(np.arange(-180.0, 180.0), 100)},
        {"level": [1000, 925, 850, 700, 500, 400, 300, 250, 200, 150, 100, 50, 20]},
        {"station": ["zz", "aa", "mm"], "file_id": [7, 3, 99, 4]},
        {"step": pd.to_timedelta([*range(0, 90, 1), *range(90, 150, 3), *range(150, 241, 6)], unit="h")},
        {"band": [4, 3, 2, 8], "time": pd.bdate_range("2020-01-01", periods=90)},
        {"time": [t for t in pd.date_range("2000-01-01", "2009-12-31") if t.month in (6, 7, 8)]},
        {"time": pd.to_datetime(sorted(np.random.default_rng(0).integers(0, 10**9, 50)), unit="s")},
        {
            "time": pd.to_datetime(
                [f"{y}-{m:02}-{d:02}" for y in (2001, 2002) for m in range(1, 13) for d in (1, 11, 21)]
            )
        },
        {"gaussian": np.degrees(np.arcsin(np.polynomial.legendre.leggauss(96)[0]))},
        {"member": np.arange(50), "quantile": [0.1, 0.5, 0.9]},
    ],
)
def test_sound_coordinates_are_silent(audit, coordinates, zarr_format):
    assert loud(audit(dataset(**coordinates), zarr_format)) == []


def test_faults_in_space_and_names_are_found(audit):
    latitude = np.linspace(90, -90, 181)
    holed = np.delete(latitude, 100)
    assert loud(audit(dataset(latitude=holed))) == [("coordinate-gap", "/latitude")]
    twice = np.insert(latitude, 50, latitude[50])
    assert loud(audit(dataset(latitude=twice))) == [("duplicate-ids", "/latitude")]
    swapped = latitude.copy()
    swapped[[20, 60]] = swapped[[60, 20]]
    assert loud(audit(dataset(latitude=swapped))) == [("coordinate-not-monotonic", "/latitude")]
    names = ["a", "b", "a", "c"]
    assert loud(audit(dataset(station=names), 2)) == [("duplicate-ids", "/station")]


def test_the_founding_cache_is_counted(zkit, tmp_path):
    rng = np.random.default_rng(5)
    entries = [*range(69), *rng.permutation(69)[:26].tolist()]
    content = rng.normal(size=(69, 4, 5)).astype("float32")
    starts = [0, *np.cumsum([5] * 7 + [4] * 15).tolist()]
    for batch in range(22):
        ids = entries[starts[batch] : starts[batch + 1]]
        values = content[ids]
        if batch == 21:
            values[0] += 1
        data = {name: (("file_id", "lat", "lon"), values) for name in ("t2m", "u10")}
        coordinates = {"file_id": ids, "lat": np.arange(4.0), "lon": np.arange(5.0)}
        xr.Dataset(data, coords=coordinates).to_zarr(tmp_path / f"batch_{batch:02}.zarr", zarr_format=3)
    document = zkit("audit", *sorted(tmp_path.iterdir()), "--format", "json").json()
    found = [finding for finding in document["findings"] if finding["rule"] == "duplicate-ids"]
    assert len(found) == 1
    assert "95 entries in 22 stores, 69 unique, 26 duplicates" in found[0]["message"]
    evidence = found[0]["evidence"]
    assert (evidence["different_content"], evidence["equal_content"]) == (1, 25)
    different = evidence["ids"][0]
    assert different["content"] == "different"
    assert different["id"] == str(entries[starts[21]])
    assert {place["store"].rsplit("/")[-1] for place in different["places"]} >= {"batch_21.zarr"}
    repeated = {entry["id"] for entry in evidence["ids"]}
    assert repeated == {str(entry) for entry in entries[69:]}
