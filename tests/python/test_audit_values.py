"""The statistics of `zkit audit --depth full` against numpy's, over what zarr-python reads."""

import json
import math

import numpy as np
import pytest
import zarr

from conftest import FIXTURES, SOUND

LARGEST_ELEMENTS = 1 << 24


def variables(zkit, store):
    outcome = zkit("audit", store, "--depth", "full", "--fail-on", "never", "--format", "json")
    assert outcome.code in (0, 3), outcome.err
    return {variable["array"]: variable for variable in outcome.json()["variables"]}


def arrays(store):
    node = zarr.open(store, mode="r")
    if isinstance(node, zarr.Array):
        return {"/": node}
    return {
        f"/{path.strip('/')}": array for path, array in node.members(max_depth=None) if isinstance(array, zarr.Array)
    }


def missing_of(array):
    """The values that stand for missing ones: the attributes, and v2's fill value unless it is zero."""
    values = []
    for name in ("_FillValue", "missing_value"):
        given = array.attrs.get(name)
        for value in given if isinstance(given, list) else [given]:
            if isinstance(value, (int, float)) and not math.isnan(value):
                values.append(np.asarray(value).astype(array.dtype))
    fill = array.fill_value
    if array.metadata.zarr_format == 2 and fill is not None and fill == fill and fill != 0:
        values.append(np.asarray(fill).astype(array.dtype))
    return values


def compare(array, got):
    values = array[...]
    if values.dtype.kind not in "fiu":
        return False
    nan = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    infinite = np.isinf(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    missing = np.zeros(values.shape, bool)
    for value in missing_of(array):
        missing |= values == value
    assert got["elements"] == values.size
    # NaN is counted as missing where it is the fill value
    assert got["nan"] + (got["missing"] if got["nan"] < nan.sum() else 0) == nan.sum()
    assert got["infinite"] == infinite.sum()
    valid = values[~(nan | infinite | missing)]
    if not valid.size:
        assert got["min"] is None and got["max"] is None and got["mean"] is None
        return True
    scale, offset = float(array.attrs.get("scale_factor", 1)), float(array.attrs.get("add_offset", 0))
    ends = sorted((float(valid.min()) * scale + offset, float(valid.max()) * scale + offset))
    mean = float(valid.mean(dtype=np.float64)) * scale + offset
    slack = 1e-9 * max(abs(ends[0]), abs(ends[1]), 1e-300)
    assert got["min"] == pytest.approx(ends[0], rel=1e-12, abs=slack)
    assert got["max"] == pytest.approx(ends[1], rel=1e-12, abs=slack)
    assert got["mean"] == pytest.approx(mean, rel=1e-9, abs=slack)
    return True


@pytest.mark.parametrize("name", SOUND)
def test_statistics_are_those_of_numpy(zkit, name):
    seen = variables(zkit, FIXTURES / name)
    try:
        known = arrays(FIXTURES / name)
    except Exception as error:  # what zarr-python does not open, it does not judge
        pytest.skip(f"zarr-python: {error}")
    compared = 0
    for path, array in known.items():
        if path not in seen or array.size > LARGEST_ELEMENTS:
            continue
        try:
            array[(0,) * array.ndim] if array.size else None
        except Exception:  # codecs that are not installed
            continue
        if isinstance(array.attrs.get("scale_factor", 1), (int, float)):
            compared += compare(array, seen[path])
    if not compared:
        pytest.skip("no array of numbers")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f4", ">i2"])
@pytest.mark.parametrize("shards", [None, (20, 24)])
def test_statistics_of_generated_arrays_are_those_of_numpy(zkit, tmp_path, dtype, shards):
    random = np.random.default_rng(7)
    values = (random.normal(size=(53, 47)) * 100).astype(dtype)
    if values.dtype.kind == "f":
        values[3:9, 5:40] = np.nan
        values[50, 46], values[51, 2] = np.inf, -np.inf
    store = tmp_path / "store.zarr"
    array = zarr.create_array(
        store, shape=values.shape, chunks=(10, 12), shards=shards, dtype=values.dtype, fill_value=0, zarr_format=3
    )
    array[...] = values
    got = variables(zkit, store)["/"]
    assert compare(zarr.open(store, mode="r"), got)
    assert json.dumps(got)
