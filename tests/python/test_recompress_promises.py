"""What recompress says beforehand, beside what then happens; and what it takes of a store."""

import pathlib

import numcodecs
import numpy as np
import pytest
import xarray as xr

import oracle

FIELD = (48, 64, 96)


@pytest.fixture(scope="module")
def weather(tmp_path_factory):
    """Temperature that wants a shuffle, precipitation that wants none, packed data, and what describes them."""
    rng = np.random.default_rng(0)
    time, lat, lon = FIELD
    t2m = 280 + np.cumsum(rng.normal(0, 0.3, FIELD), axis=2)
    tp = np.maximum(0, rng.gamma(0.1, 1e-3, FIELD) - 1e-3)
    dims = ("time", "lat", "lon")
    data = xr.Dataset(
        {
            "t2m": (dims, t2m.astype("f4"), {"grid_mapping": "crs"}),
            "tp": (dims, tp.astype("f4"), {"grid_mapping": "crs"}),
            "sst": (dims, (t2m * 100).astype("i2")),
            "lsm": (("lat", "lon"), (t2m[0] > 280).astype("i1")),
            "crs": ((), np.int32(0)),
            "month": ("time", np.array([f"2020-{m % 12 + 1:02}" for m in range(time)])),
            "lat_bounds": (("lat", "nv"), np.zeros((lat, 2))),
        },
        {
            "time": np.arange(time),
            "lat": ("lat", np.linspace(90, -90, lat), {"bounds": "lat_bounds"}),
            "lon": np.arange(lon),
        },
    )
    store = tmp_path_factory.mktemp("weather") / "weather.zarr"
    encoding = {name: {"chunks": (12, 64, 96), "compressors": [numcodecs.Zlib(6)]} for name in ("t2m", "tp", "sst")}
    data.to_zarr(store, zarr_format=2, encoding=encoding, consolidated=True)
    return store


def arrays(store):
    return {at.parent.name for at in pathlib.Path(store).glob("*/.zarray")}


def size(store, name=""):
    return sum(at.stat().st_size for at in (pathlib.Path(store) / name).rglob("*") if at.is_file())


def test_a_dry_run_promises_the_bytes_that_are_written(zkit, weather, tmp_path):
    options = ["--chunks", "time=12,lat=32,lon=96", "--codec", "zstd:3"]
    for number, more in enumerate(([], options)):
        copy = tmp_path / f"{number}.zarr"
        promised = zkit.json("recompress", weather, copy, *more, "--dry-run")
        done = zkit.json("recompress", weather, copy, *more)
        assert promised["estimated_bytes_encoded"] / 2 < done["bytes_written"] < promised["estimated_bytes_encoded"] * 2


@pytest.mark.parametrize("first", [1, 2, 3])
def test_first_takes_variables_and_promises_what_all_of_them_take(zkit, weather, tmp_path, first):
    some = zkit.json("recompress", weather, tmp_path / "some.zarr", "--first", str(first))
    whole = zkit.json("recompress", weather, tmp_path / "all.zarr")
    assert len(arrays(tmp_path / "some.zarr") & {"t2m", "tp", "sst"}) == first
    assert arrays(tmp_path / "some.zarr") >= {"time", "lat", "lon", "lat_bounds"}
    promised = some["extrapolated"]
    assert promised["arrays"] == len(arrays(tmp_path / "all.zarr"))
    assert promised["objects_written"] == whole["objects_written"]
    assert whole["bytes_written"] / 2 < promised["bytes_written"] < whole["bytes_written"] * 2


def test_unlike_data_get_unlike_codecs(zkit, weather, tmp_path):
    """Of one type and grid: what helps one field must not make another one larger than it was."""
    zkit.json("recompress", weather, tmp_path / "copy.zarr", "--codec", "auto", "--prefer", "size")
    for name in ("t2m", "tp"):
        assert size(tmp_path / "copy.zarr", name) <= size(weather, name) * 1.02, name
    assert oracle.digests(tmp_path / "copy.zarr") == oracle.digests(weather)


def test_what_describes_an_included_array_comes_along(zkit, weather, tmp_path):
    outcome = zkit("recompress", weather, tmp_path / "a.zarr", "--include", "t2m")
    assert outcome.code == 0, outcome.err
    assert arrays(tmp_path / "a.zarr") == {"t2m", "crs", "time", "lat", "lon", "lat_bounds"}
    assert "also copied" in outcome.stdout.decode() and "/lat_bounds" in outcome.stdout.decode()
    opened = xr.open_zarr(tmp_path / "a.zarr")
    assert opened.t2m.identical(xr.open_zarr(weather).t2m)
    assert zkit("recompress", weather, tmp_path / "b.zarr", "--include", "t2m", "--exclude", "lat*").code == 0
    assert arrays(tmp_path / "b.zarr") == {"t2m", "crs", "time", "lon"}
    assert zkit("recompress", weather, tmp_path / "c.zarr", "--include", "t2m", "--no-coordinates").code == 0
    assert arrays(tmp_path / "c.zarr") == {"t2m"}


def test_a_folder_is_not_named_as_a_file_and_the_hint_works(zkit, weather, tmp_path, monkeypatch):
    import subprocess

    monkeypatch.chdir(tmp_path)
    for command in (
        ["recompress", weather, "my copy.zip"],
        ["slice", weather, "--isel", "time=0", "--to", "my copy.zip"],
    ):
        outcome = zkit(*command)
        assert outcome.code == 2 and "zip file" in outcome.err, outcome.err
        assert not list(tmp_path.iterdir())
    assert zkit("recompress", weather, "my copy.zarr").code == 0
    pack = outcome.err.split("run `")[1].split("`")[0]
    subprocess.run(pack, shell=True, check=True, cwd=tmp_path)
    assert zkit("compare", weather, "my copy.zip").code == 0
    assert zkit("recompress", "my copy.zip", "--into", "copies").code == 0
    assert [at.name for at in (tmp_path / "copies").iterdir()] == ["my copy.zarr"]


def test_stores_of_tensorstore_types_are_read_and_copied(zkit, tmp_path):
    ts = pytest.importorskip("tensorstore")
    spec = {
        "driver": "zarr",
        "kvstore": {"driver": "file", "path": str(tmp_path / "b.zarr")},
        "metadata": {"shape": [10], "chunks": [4], "dtype": "bfloat16", "fill_value": 1.5, "compressor": None},
    }
    array = ts.open(spec, create=True).result()
    values = np.arange(8).astype(ts.bfloat16.numpy_dtype)
    array[:8].write(values).result()
    report = zkit.json("digest", tmp_path / "b.zarr")["arrays"][0]
    assert report["data_type"] == "bfloat16" and report["error"] is None, report
    import hashlib

    filled = np.concatenate([values, np.full(2, 1.5, ts.bfloat16.numpy_dtype)])
    assert report["sha256"] == hashlib.sha256(filled.tobytes()).hexdigest()
    assert zkit("recompress", tmp_path / "b.zarr", tmp_path / "c.zarr", "--codec", "zstd:1").code == 0
    copied = ts.open({"driver": "zarr", "kvstore": {"driver": "file", "path": str(tmp_path / "c.zarr")}}).result()
    assert (copied.read().result() == filled).all()
    assert zkit("recompress", tmp_path / "b.zarr", tmp_path / "d.zarr", "--zarr-format", "3").code == 0
    copied = ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "d.zarr")}}).result()
    assert (copied.read().result() == filled).all()
