"""`zkit audit --against` on slices that xarray cut from their source."""

import numpy as np
import pytest
import xarray


def audit(zkit, store, source):
    outcome = zkit("audit", store, "--against", source, "--depth", "full", "--format", "json")
    assert outcome.code in (0, 1), outcome.err
    return [finding for finding in outcome.json()["findings"] if finding["rule"].startswith("source-")]


@pytest.fixture
def source(tmp_path):
    generator = np.random.default_rng(0)
    values = generator.normal(280, 9, (40, 18, 36)).astype("f4")
    values[3, 4] = np.nan
    dataset = xarray.Dataset(
        {"t2m": (("time", "latitude", "longitude"), values, {"units": "K"})},
        coords={
            "time": np.datetime64("2021-03-01") + np.arange(40) * np.timedelta64(6, "h"),
            "latitude": np.linspace(85, -85, 18),
            "longitude": np.arange(0, 360, 10.0),
        },
    )
    path = tmp_path / "source.zarr"
    dataset.to_zarr(path, zarr_format=2, encoding={"t2m": {"chunks": (8, 9, 36)}})
    return path, dataset


CUTS = {
    "a box": lambda dataset: dataset.isel(time=slice(5, 30), latitude=slice(2, 11)),
    "every third step, from north to south turned round": lambda dataset: dataset.isel(
        time=slice(1, None, 3), latitude=slice(None, None, -1)
    ),
    "longitudes from -180": lambda dataset: dataset.assign_coords(
        longitude=(dataset.longitude + 180) % 360 - 180
    ).sortby("longitude"),
    "steps in any order": lambda dataset: dataset.isel(time=[7, 3, 30, 12]),
}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("cut", CUTS)
def test_slices_agree_with_their_source(zkit, source, tmp_path, cut, zarr_format):
    path, dataset = source
    CUTS[cut](dataset).to_zarr(tmp_path / "slice.zarr", zarr_format=zarr_format)
    assert audit(zkit, tmp_path / "slice.zarr", path) == []


def test_packed_slices_agree_within_their_packing(zkit, source, tmp_path):
    path, dataset = source
    packed = {"dtype": "int16", "scale_factor": 0.005, "add_offset": 280.0, "_FillValue": -32767}
    CUTS["a box"](dataset).to_zarr(tmp_path / "slice.zarr", zarr_format=2, encoding={"t2m": packed})
    found = audit(zkit, tmp_path / "slice.zarr", path)
    assert [(finding["rule"], finding["severity"]) for finding in found] == [("source-mismatch", "info")]


def test_a_step_of_another_day_and_a_day_of_another_year_are_named(zkit, source, tmp_path):
    path, dataset = source
    cut = dataset.isel(time=slice(0, 10)).copy(deep=True)
    cut["t2m"][4] = dataset["t2m"][5].values
    times = cut.time.values.copy()
    times[9] = np.datetime64("1999-01-01")
    cut.assign_coords(time=times).to_zarr(tmp_path / "slice.zarr", zarr_format=3)
    found = {finding["rule"]: finding for finding in audit(zkit, tmp_path / "slice.zarr", path)}
    assert set(found) == {"source-ids", "source-content"}
    assert found["source-ids"]["evidence"]["values"] == ["1999-01-01"]
    assert found["source-content"]["evidence"]["different"] == 18 * 36
    assert found["source-content"]["evidence"]["compared"] == 9 * 18 * 36
    assert found["source-content"]["evidence"]["differing"] == ["time 2021-03-02"]
