"""Small fields as xarray writes them, and what makes two of them the same."""

import numpy
import pandas
import xarray

TIMES = pandas.date_range("2019-12-30", periods=40, freq="6h")


def grid(*, longitudes=None, latitudes=None, times=TIMES, seed=0, dtype="float32"):
    """A small field with coordinates of several kinds."""
    latitudes = numpy.linspace(60, 40, 9) if latitudes is None else latitudes
    longitudes = numpy.arange(0, 360, 30.0) if longitudes is None else longitudes
    shape = (len(times), len(latitudes), len(longitudes))
    random = numpy.random.default_rng(seed)
    if numpy.issubdtype(dtype, numpy.floating):
        values = random.normal(280, 10, shape).astype(dtype)
        values[random.random(shape) < 0.05] = numpy.nan
    else:
        values = random.integers(0, 100, shape).astype(dtype)
    return xarray.Dataset(
        {
            "t2m": (("time", "latitude", "longitude"), values, {"units": "K"}),
            "orography": (("latitude", "longitude"), random.normal(0, 500, shape[1:])),
            "elapsed": (("time",), numpy.arange(len(times), dtype="int32")),
        },
        coords={
            "time": times,
            "latitude": ("latitude", latitudes, {"units": "degrees_north"}),
            "longitude": ("longitude", longitudes, {"units": "degrees_east"}),
            "name": (("latitude",), numpy.array([f"band {row}" for row in range(len(latitudes))], dtype=object)),
        },
        attrs={"title": "a small field"},
    )


def batch(ids, *, seed=0, offset=0.0):
    """A batch of files: `file_id` by level and place."""
    random = numpy.random.default_rng(seed)
    shape = (len(ids), 3, 4, 5)
    return xarray.Dataset(
        {
            "u": (("file_id", "level", "y", "x"), (random.normal(size=shape) + offset).astype("float32")),
            "count": (("file_id",), numpy.asarray(ids, "int64") * 10),
            "area": (("y", "x"), numpy.arange(20, dtype="float64").reshape(4, 5)),
        },
        coords={
            "file_id": numpy.asarray(ids, "int64"),
            "level": numpy.array([1000, 850, 500], "int32"),
            "y": numpy.arange(4.0),
            "x": numpy.arange(5.0),
        },
    )


WRITERS = {
    "v2": {"zarr_format": 2, "chunks": "some"},
    "v3": {"zarr_format": 3, "chunks": "some"},
    "v3 sharded": {"zarr_format": 3, "chunks": "some", "sharded": True},
    "v2 whole": {"zarr_format": 2, "chunks": "whole"},
}


def write(dataset, path, *, zarr_format=2, chunks="some", sharded=False, encoding=None):
    """Writes a store with chunks that cut across every dimension; the variables that are packed keep their own encoding."""
    encodings = {}
    for name, variable in dataset.variables.items():
        own = dict((encoding or {}).get(name, {}))
        if chunks == "some" and variable.ndim > 1:
            own["chunks"] = tuple(max(1, -(-length // 3)) for length in variable.shape)
            if sharded:
                own["shards"] = tuple(2 * length for length in own["chunks"])
        elif variable.ndim:
            own["chunks"] = variable.shape
        if own:
            encodings[name] = own
    dataset.to_zarr(path, mode="w", zarr_format=zarr_format, consolidated=zarr_format == 2, encoding=encodings)
    return path


def opened(path):
    return xarray.open_zarr(path, consolidated=False).load()


def assert_same(found, expected):
    """Equal values, coordinates, dimensions and attributes of variables; coordinates are coordinates in both."""
    xarray.testing.assert_equal(found, expected)
    for name, variable in expected.variables.items():
        assert found[name].dtype.kind == variable.dtype.kind, name
        assert {k: v for k, v in found[name].attrs.items()} == dict(variable.attrs), name
