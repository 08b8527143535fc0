"""What `zkit audit` says of stores whose writers died: tensorstore, zarr-python, cut N5 blocks, damaged zip files."""

import json
import os
import pathlib
import shutil
import zipfile

import numpy
import pytest
import tensorstore
import zarr

LONG_AGO = 1_500_000_000
RULE = "temporary-file"


def findings(zkit, path, depth, rule):
    """The findings of one rule, as (severity, array)."""
    answer = zkit("audit", path, "--depth", depth, "--format", "json").json()
    return [(found["severity"], found["array"]) for found in answer["findings"] if found["rule"] == rule]


def files_of(folder):
    names = (".zarray", ".zattrs", "zarr.json", "attributes.json")
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in names)


# ---- a lock beside the last chunk --------------------------------------------------------------------------------


def tensorstore_array(folder, driver):
    """An array of five chunks along a dimension without a name, as tensorstore writes it."""
    metadata = {
        "zarr": {"shape": [50, 8], "chunks": [10, 8], "dtype": "<f4", "fill_value": "NaN"},
        "zarr3": {
            "shape": [50, 8],
            "data_type": "float32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10, 8]}},
        },
    }[driver]
    kvstore = {"driver": "file", "path": f"{folder}/"}
    array = tensorstore.open({"driver": driver, "kvstore": kvstore, "metadata": metadata, "create": True}).result()
    array[...] = numpy.arange(1, 401, dtype="float32").reshape(50, 8)
    return files_of(folder)


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_a_lock_beside_chunks_tells_that_the_absent_ones_were_never_written(zkit, tmp_path, driver):
    chunks = tensorstore_array(tmp_path / "a.zarr", driver)
    for chunk in chunks[3:]:
        chunk.unlink()
    assert findings(zkit, tmp_path / "a.zarr", "listing", "missing-slab") == [("info", "/")]
    lock = chunks[2].with_name(chunks[2].name + ".__lock")
    lock.write_bytes(b"half of it")
    os.utime(lock, (LONG_AGO, LONG_AGO))
    assert findings(zkit, tmp_path / "a.zarr", "listing", "missing-slab") == [("error", "/")]
    assert findings(zkit, tmp_path / "a.zarr", "listing", "temporary-file") == [("warning", "/")]


# ---- region writes that stopped ----------------------------------------------------------------------------------


def daily(folder, values):
    """A variable of one chunk a day, whose missing value is NaN."""
    group = zarr.open_group(folder, mode="w", zarr_format=3)
    times = numpy.arange(len(values))
    time = group.create_array("time", data=times, chunks=times.shape, dimension_names=["time"])
    time.attrs["units"] = "days since 2020-01-01"
    layout = {"shape": values.shape, "chunks": (1, 16), "dimension_names": ["time", "x"]}
    array = group.create_array("t", dtype="f4", fill_value=numpy.nan, **layout)
    array[...] = values
    return folder


def test_a_day_without_chunks_is_an_error_until_values_excuse_it(zkit, tmp_path):
    values = numpy.linspace(270, 290, 8 * 16).reshape(8, 16)
    values[3] = numpy.nan
    dense = daily(tmp_path / "dense.zarr", values)
    for depth in ("listing", "full"):
        assert findings(zkit, dense, depth, "missing-slab") == [("error", "/t")]
    values[5, 2:9] = numpy.nan
    masked = daily(tmp_path / "masked.zarr", values)
    assert findings(zkit, masked, "listing", "missing-slab") == [("error", "/t")]
    assert findings(zkit, masked, "full", "missing-slab") == [("warning", "/t")]


# ---- blocks and members that were cut ----------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "xz", "raw"])
def test_blocks_of_n5_that_were_cut_are_told_by_their_ends(zkit, tmp_path, compression):
    folder = tmp_path / "a.n5"
    metadata = {
        "compression": {"type": compression},
        "dataType": "uint16",
        "dimensions": [64, 32],
        "blockSize": [16, 16],
    }
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": f"{folder}/"}, "metadata": metadata, "create": True}
    array = tensorstore.open(spec).result()
    # of other lengths each, so that streams end at any bit
    array[...] = numpy.random.default_rng(1).integers(1, numpy.geomspace(2, 900, 64)[:, None] + 1, (64, 32), dtype="u2")
    assert findings(zkit, folder, "headers", "truncated-chunk") == []
    for keep in (0.5, 0.99):
        block = files_of(folder)[-1]
        whole = block.read_bytes()
        block.write_bytes(whole[: int(len(whole) * keep)])
        assert findings(zkit, folder, "headers", "truncated-chunk") == [("error", "/")], keep
        block.write_bytes(whole)


def test_a_member_of_a_zip_file_that_is_damaged_was_read(zkit, tmp_path):
    store = daily(tmp_path / "a.zarr", numpy.linspace(270, 290, 8 * 16).reshape(8, 16))
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(store.rglob("*")):
            if file.is_file():
                archive.write(file, str(file.relative_to(store)))
    member = zipfile.ZipFile(path).getinfo("t/c/4/0")
    content = bytearray(path.read_bytes())
    content[member.header_offset + 30 + len(member.filename) + member.compress_size // 2] ^= 0x20
    path.write_bytes(content)
    assert findings(zkit, path, "headers", "corrupt-archive") == [("error", "/t")]
    outcome = zkit("audit", path, "--depth", "full", "--format", "json")
    assert (outcome.code, outcome.json()["complete"]) == (1, True)
    assert "unreadable" not in json.dumps(outcome.json()["findings"])


# ---- a store that was not complete when its writer died ------------------------------------------------------------


def test_a_store_under_the_name_of_an_unfinished_one_is_told_among_others(zkit, tmp_path, copy_of):
    whole = copy_of("ostia_sst.zarr")
    cache = tmp_path / "cache"
    for name in ("a.zarr", "b.zarr.partial"):
        shutil.copytree(whole, cache / name)
    answer = zkit("audit", cache, "--depth", "listing", "--format", "json").json()
    told = [(one["severity"], pathlib.Path(one["store"]).name) for one in answer["findings"] if one["rule"] == RULE]
    assert told == [("warning", "b.zarr.partial")]
    (tmp_path / "zkit.toml").write_text('[audit]\ngrace = "1h"\n')
    for path in (cache / "b.zarr.partial").rglob("*"):
        os.utime(path)
    answer = zkit("audit", cache, "--depth", "listing", "--format", "json", cwd=tmp_path).json()
    assert RULE not in {one["rule"] for one in answer["findings"]}
