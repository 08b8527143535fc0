"""`zkit recompress --chunks`: copies with other chunks and shards, judged by zarr-python, xarray and tensorstore."""

import json
import shutil

import numcodecs
import numpy as np
import pytest
import tensorstore
import zarr
from zarr.codecs import ZstdCodec

import copies
import gen_v2
import gen_v3
import layouts
import oracle
from conftest import listing
from gen_values import typed, weather

CODEC = "zstd:1"
SHAPE, CHUNKS = (23, 17, 19), (4, 17, 10)
WISHES = {
    "cubes": {"time": 5, "lat": 6, "lon": 7},
    "time_series": {"time": -1, "lat": 3, "lon": 4},
    "maps": {"time": 1, "lat": -1, "lon": -1},
    "beyond_the_end": {"time": 100, "lat": 17, "lon": 18},
}


def rechunk(zkit, source, copy, *options, **kwargs):
    """The report of a rechunk that must succeed and leave nothing but the copy."""
    report = zkit.json("recompress", source, copy, "--codec", CODEC, "--verify", "full", *options, **kwargs)
    assert report["complete"] and report["remaining_units"] == 0
    assert sorted(p.name for p in copy.parent.glob(f"{copy.name}*")) == [copy.name]
    return report


def read(array_folder, zarr_format=None):
    return oracle.values(array_folder, zarr_format or (3 if (array_folder / "zarr.json").is_file() else 2))


def refused(zkit, folder, *arguments, words=(), code=2):
    before = listing(folder)
    outcome = zkit("recompress", *arguments)
    assert outcome.code == code, f"exit {outcome.code}: {outcome.err}"
    for word in words:
        assert word in outcome.err, outcome.err
    assert listing(folder) == before, "a refusal left something behind"
    return outcome


@pytest.fixture(scope="module")
def cubes(tmp_path_factory):
    """The same awkward cube in several layouts, read once: {name: copies.Source}."""
    folder = tmp_path_factory.mktemp("cubes")
    values = layouts.awkward(SHAPE)
    sources = {
        name: copies.Source(write(folder / f"{name}.zarr", values, CHUNKS)) for name, write in layouts.CUBES.items()
    }
    # the judge itself: every layout holds the same bits
    assert {source.digests["/t2m"] for source in sources.values()} == {oracle.digest(values)}
    return sources


# ---- layouts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("layout", layouts.CUBES)
def test_a_cube_in_any_layout_gets_the_chunks_that_were_asked_for(zkit, cubes, tmp_path, layout, wish):
    source, copy = cubes[layout], tmp_path / "copy.zarr"
    wanted = tuple(layouts.asked(WISHES[wish], SHAPE, layouts.DIMENSIONS).values())
    options = ["--shards", "none"] if layout == "v3_sharded" else []
    rechunk(zkit, source.path, copy, "--chunks", layouts.text_of(WISHES[wish]), *options)
    assert layouts.grid_of(*oracle.array_folders(copy)["/t2m"]) == (wanted, None)
    for name in layouts.DIMENSIONS:
        was, now = (layouts.grid_of(*folders[f"/{name}"]) for folders in (source.folders, oracle.array_folders(copy)))
        assert now == was, "a coordinate was cut"
    copies.assert_faithful(source, copy, zarr_format="keep", codec=CODEC)


@pytest.mark.parametrize("layout", ["v2", "v2_f_order", "v2_big_endian"])
def test_chunks_and_format_change_together(zkit, cubes, tmp_path, layout):
    source, copy = cubes[layout], tmp_path / "copy.zarr"
    rechunk(zkit, source.path, copy, "--chunks", "time=-1,lat=5,lon=5", "--zarr-format", "3")
    assert layouts.grid_of(*oracle.array_folders(copy)["/t2m"]) == ((23, 5, 5), None)
    copies.assert_faithful(source, copy, zarr_format="3", codec=CODEC)


@pytest.mark.parametrize("layout", ["v3", "v3_transposed", "v3_big_endian", "v3_sharded"])
def test_v3_becomes_v2_with_other_chunks(zkit, cubes, tmp_path, layout):
    source, copy = cubes[layout], tmp_path / "copy.zarr"
    rechunk(zkit, source.path, copy, "--chunks", "time=-1,lat=5,lon=5", "--zarr-format", "2")
    assert layouts.grid_of(*oracle.array_folders(copy)["/t2m"]) == ((23, 5, 5), None)
    copies.assert_faithful(source, copy, zarr_format="2", codec=CODEC)


def test_there_and_back_gives_the_first_chunks_byte_for_byte(zkit, cubes, tmp_path):
    source = cubes["v2"].path
    rechunk(zkit, source, tmp_path / "a.zarr")
    rechunk(zkit, source, tmp_path / "b.zarr", "--chunks", "time=-1,lat=2,lon=3")
    rechunk(
        zkit,
        tmp_path / "b.zarr",
        tmp_path / "c.zarr",
        "--chunks",
        layouts.text_of(dict(zip(layouts.DIMENSIONS, CHUNKS, strict=True))),
    )
    first, last = (layouts_bytes(tmp_path / name / "t2m") for name in ("a.zarr", "c.zarr"))
    assert first == last


def layouts_bytes(folder):
    """Objects by key; v2 pads edge chunks, and what lies beyond the edge is nobody's."""
    values, chunks = read(folder), layouts.grid_of(folder, 2)[0]
    codec = numcodecs.get_codec(layouts.metadata(folder, 2)["compressor"])
    found = {}
    for key in layouts.stored_chunks(folder):
        index = tuple(map(int, key.split(".")))
        chunk = np.frombuffer(codec.decode((folder / key).read_bytes()), values.dtype).reshape(chunks)
        inside = tuple(slice(0, min(c, s - i * c)) for i, c, s in zip(index, chunks, values.shape, strict=True))
        found[key] = chunk[inside].tobytes()
    return found


# ---- types ------------------------------------------------------------------------------------------------------

# Families of gen_stores that hold every type, fill value, codec and layout; the lengths fit the dimensions they have.
FAMILIES = {
    "v2_types": {"0": 4, "1": 6},
    "v2_structs": {"0": 3, "1": -1},
    "v2_raw_bytes": {"0": -1, "1": 2},
    "v2_strings": {"0": 4, "1": 6},
    "v2_objects": {"0": 6, "1": 3},
    "v2_layouts": {"0": 2, "1": 3},
    "v2_filters": {"0": 6, "1": 5},
    "v2_fill_values": {"y": 4, "x": 3},
    "v2_compressors": {"0": -1, "1": 9},
    "v2_weather": {"time": -1, "latitude": 5, "longitude": 4},
    "v3_types": {"0": 4, "1": 6},
    "v3_structs": {"0": 3},
    "v3_layouts": {"0": 2, "1": 3},
    "v3_fill_values": {"0": 4, "1": 3},
    "v3_codecs": {"0": -1, "1": 3},
    "v3_weather": {"time": -1, "latitude": 5, "longitude": 4},
}
OTHER_FORMAT = {
    "v2_types": "3",
    "v2_strings": "3",
    "v2_fill_values": "3",
    "v2_weather": "3",
    "v3_types": "2",
    "v3_fill_values": "2",
    "v3_weather": "2",
}


@pytest.fixture(scope="module")
def families(generated):
    read_once = {}

    def source(name):
        if name not in read_once:
            read_once[name] = copies.Source(generated[name])
        return read_once[name]

    return source


@pytest.mark.parametrize(("name", "zarr_format"), [*((name, "keep") for name in FAMILIES), *OTHER_FORMAT.items()])
def test_every_type_survives_other_chunks(zkit, families, tmp_path, name, zarr_format):
    source, copy, wish = families(name), tmp_path / "copy.zarr", FAMILIES[name]
    report = rechunk(
        zkit, source.path, copy, "--chunks", layouts.text_of(wish), "--shards", "none", "--zarr-format", zarr_format
    )
    copied = {array["path"] for array in report["arrays"] if array["strategy"] == "copy-bytes"}
    assert len(copied) == report["arrays_copied"] < len(report["arrays"]), copied
    found = layouts.grids(copy)
    for path, values in source.values.items():
        before = layouts.grid_of(*source.folders[path])[0]
        assert found[path][0] == (before if path in copied else wanted_chunks(source, path, values.shape, wish)), path
    copies.assert_faithful(source, copy, zarr_format=zarr_format, codec=None if copied else CODEC)


def wanted_chunks(source, path, shape, wish):
    """What the lengths mean for one array: names, or numbers where there is no name; coordinates keep their chunks."""
    before, _ = layouts.grid_of(*source.folders[path])
    names = source.dimensions[path] or [None] * len(shape)
    if len(shape) == 1 and names[0] == path.rsplit("/", 1)[-1]:
        return before
    wanted = []
    for axis, (name, length, chunk) in enumerate(zip(names, shape, before, strict=True)):
        lengths = wish.get(str(axis) if name is None else name)
        wanted.append(chunk if lengths is None else max(length, 1) if lengths == -1 else min(lengths, max(length, 1)))
    return tuple(wanted)


def test_arrays_without_dimensions_and_without_elements_are_kept(zkit, tmp_path):
    store = gen_v2.group(tmp_path / "small.zarr")
    gen_v2.v2(store / "scalar", np.float32("nan"), chunks=())
    gen_v2.v2(store / "none", np.zeros((0, 7), "<f4"), fill="NaN")
    gen_v2.v2(store / "some", weather((13, 7)))
    for zarr_format in ("2", "3"):
        copy = tmp_path / f"copy_{zarr_format}.zarr"
        rechunk(zkit, store, copy, "--chunks", "0=4,1=-1", "--zarr-format", zarr_format)
        assert layouts.grids(copy)["/some"] == ((4, 7), None)
        copies.assert_faithful(copies.Source(store), copy, zarr_format=zarr_format, codec=None)


# ---- shards -----------------------------------------------------------------------------------------------------


def test_plain_chunks_become_shards(zkit, cubes, tmp_path):
    source, copy = cubes["v2"], tmp_path / "copy.zarr"
    options = ["--chunks", "time=6,lat=4,lon=5", "--shards", "time=12,lat=8,lon=20", "--zarr-format", "3"]
    report = rechunk(zkit, source.path, copy, *options)
    assert layouts.grid_of(copy / "t2m", 3) == ((6, 4, 5), (12, 8, 20))
    assert len(layouts.stored_chunks(copy / "t2m")) == 2 * 3 * 1
    array = next(array for array in report["arrays"] if array["path"] == "/t2m")
    assert (array["chunk_shape"], array["shard_shape"]) == ([6, 4, 5], [12, 8, 20])
    copies.assert_faithful(source, copy, zarr_format="3", codec=CODEC)


@pytest.mark.parametrize("layout", ["v2_f_order", "v3_transposed", "v3_sharded"])
@pytest.mark.parametrize("shards", ["time=-1,lat=12,lon=12", "time=8,lat=4,lon=4", "auto"])
def test_shards_are_laid_out_anew(zkit, cubes, tmp_path, layout, shards):
    source, copy = cubes[layout], tmp_path / "copy.zarr"
    rechunk(zkit, source.path, copy, "--chunks", "time=8,lat=4,lon=4", "--shards", shards, "--zarr-format", "3")
    chunk, shard = layouts.grid_of(copy / "t2m", 3)
    assert chunk == (8, 4, 4) and shard is not None
    assert all(s % c == 0 for s, c in zip(shard, chunk, strict=True))
    if shards != "auto":
        assert shard == ((24, 12, 12) if "12" in shards else (8, 4, 4))
    copies.assert_faithful(source, copy, zarr_format="3", codec=CODEC)


def test_shards_are_kept_where_only_inner_chunks_change(zkit, cubes, tmp_path):
    source, copy = cubes["v3_sharded"], tmp_path / "copy.zarr"
    rechunk(zkit, source.path, copy, "--chunks", "time=8,lat=17,lon=5")
    chunk, shard = layouts.grid_of(copy / "t2m", 3)
    assert chunk == (8, 17, 5)
    assert shard is None or all(s % c == 0 for s, c in zip(shard, chunk, strict=True))
    copies.assert_faithful(source, copy, zarr_format="3", codec=CODEC)


def test_every_sharded_layout_becomes_plain_chunks(zkit, families, tmp_path):
    source, copy = families("v3_sharding"), tmp_path / "copy.zarr"
    rechunk(zkit, source.path, copy, "--chunks", "0=5,1=3", "--shards", "none")
    for path, (chunk, shard) in layouts.grids(copy).items():
        assert shard is None, path
        assert chunk == tuple(min(n, s) for n, s in zip((5, 3), source.values[path].shape, strict=False)), path
    copies.assert_faithful(source, copy, zarr_format="3", codec=CODEC)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--chunks", "latitude=4"], ["latitude", "`lat`"]),
        (["--chunks", "time=0"], ["time"]),
        (["--chunks", "time"], ["time"]),
        (["--chunks", "time=-2"], ["time"]),
        (["--chunks", "time=4,time=5"], ["time"]),
        (["--shards", "time=8"], ["3"]),
        (["--chunks", "time=5", "--shards", "time=8", "--zarr-format", "3"], ["time"]),
        (["--access", "sideways"], ["maps"]),
    ],
)
def test_wishes_that_make_no_sense_are_usage_errors(zkit, cubes, tmp_path, options, words):
    refused(zkit, tmp_path, cubes["v2"].path, tmp_path / "copy.zarr", *options, words=words)


# ---- absent chunks and fill values ------------------------------------------------------------------------------


def absent_store(folder, fill, absent, values, zarr_format=2):
    store = gen_v2.group(folder)
    gen_v2.v2(store / "a", values, chunks=(4, 4), fill=fill, absent=absent, dims=["y", "x"])
    return store


def test_stored_zeros_stay_stored_where_the_fill_value_is_null(zkit, tmp_path):
    values = np.zeros((16, 8), "<f4")
    values[12:] = 5
    store = absent_store(tmp_path / "a.zarr", None, {(1, 0), (1, 1)}, values)
    source, copy = copies.Source(store), tmp_path / "copy.zarr"
    rechunk(zkit, store, copy, "--chunks", "y=2,x=8")
    assert layouts.metadata(copy / "a", 2)["fill_value"] is None
    # rows 0-3 were stored as zeros, rows 4-7 were absent
    assert {"0.0", "1.0", "4.0", "5.0", "6.0", "7.0"} <= layouts.stored_chunks(copy / "a")
    copies.assert_faithful(source, copy, zarr_format="2", codec=CODEC)


@pytest.mark.parametrize("zarr_format", ["keep", "3"])
@pytest.mark.parametrize(
    ("fill", "bits"),
    [
        ("NaN", 0x7FC00000),
        ("NaN", 0x7FC00001),
        ("NaN", 0xFFC00000),
        (0, 0x80000000),
        (0, 0),
        (-0.0, 0),
        (7.5, 0x40F00000),
    ],
)
def test_chunks_are_left_out_only_where_readers_give_the_same_bits(zkit, tmp_path, zarr_format, fill, bits):
    values = np.full((16, 8), bits, "<u4").view("<f4").copy()
    values[0, 0] = 1
    values[9, 3] = 2
    store = absent_store(tmp_path / "a.zarr", fill, set(), values)
    source, copy = copies.Source(store), tmp_path / "copy.zarr"
    rechunk(zkit, store, copy, "--chunks", "y=2,x=4", "--zarr-format", zarr_format)
    assert oracle.digest(read(copy / "a")) == oracle.digest(values)
    copies.assert_faithful(source, copy, zarr_format=zarr_format, codec=CODEC)


@pytest.mark.parametrize("zarr_format", ["keep", "3"])
@pytest.mark.parametrize("fill", ["NaN", 0, -9.5, None])
def test_absent_chunks_read_as_before_in_chunks_that_cross_them(zkit, tmp_path, fill, zarr_format):
    values = layouts.awkward((13, 10))
    store = absent_store(tmp_path / "a.zarr", fill, {(0, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 2)}, values)
    source, copy = copies.Source(store), tmp_path / "copy.zarr"
    rechunk(zkit, store, copy, "--chunks", "y=3,x=3", "--zarr-format", zarr_format)
    assert layouts.grids(copy)["/a"] == ((3, 3), None)
    copies.assert_faithful(source, copy, zarr_format=zarr_format, codec=CODEC)


def test_what_was_absent_stays_absent(zkit, tmp_path):
    """A template of a large array must not be blown up."""
    store = gen_v2.group(tmp_path / "template.zarr")
    metadata = {
        "zarr_format": 2,
        "shape": [100_000, 1000, 1000],
        "chunks": [1, 1000, 1000],
        "dtype": "<f4",
        "order": "C",
    }
    gen_v2.write_json(store / "a" / ".zarray", {**metadata, "compressor": None, "filters": None, "fill_value": "NaN"})
    (store / "a" / "5.0.0").write_bytes(np.ones((1000, 1000), "<f4").tobytes())
    rechunk(zkit, store, tmp_path / "copy.zarr", "--chunks", "0=10,1=500")
    assert layouts.stored_chunks(tmp_path / "copy.zarr" / "a") == {"0.0.0", "0.1.0"}
    part = zarr.open_array(str(tmp_path / "copy.zarr" / "a"), mode="r")[4:7, :, 0]
    assert np.isnan(part[[0, 2]]).all() and (part[1] == 1).all()


# ---- metadata ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v2_weather", "v3_weather"])
def test_consolidated_metadata_says_the_new_chunks(zkit, families, tmp_path, name):
    source, copy = families(name), tmp_path / "copy.zarr"
    rechunk(zkit, source.path, copy, "--chunks", "time=2,latitude=6,longitude=9")
    consolidated = zarr.open_consolidated(str(copy), mode="r")
    arrays = {f"/{path}": node for path, node in consolidated.members(None) if hasattr(node, "shape")}
    assert sorted(arrays) == sorted(source.folders)
    for path, grid in layouts.grids(copy).items():
        assert arrays[path].chunks == grid[0], path
    assert layouts.grids(copy)["/t2m"] == ((2, 6, 9), None)
    assert oracle.digest(np.asarray(arrays["/t2m"][...])) == source.digests["/t2m"]


# ---- automatic chunks -------------------------------------------------------------------------------------------

HOURS = (96, 40, 60)


@pytest.fixture(scope="module")
def hourly(tmp_path_factory):
    """900 KB in maps of one hour."""
    values = layouts.awkward(HOURS)
    store = tmp_path_factory.mktemp("hourly") / "hourly.zarr"
    return copies.Source(layouts.cube_v2(store, values, (1, 40, 60), fill=None))


def touched(chunk, region):
    """How many chunks a region (None: all of it) of the hourly cube touches, starting at the origin."""
    lengths = [n if r is None else r for r, n in zip(region, HOURS, strict=True)]
    return int(np.prod([-(-n // c) for n, c in zip(lengths, chunk, strict=True)]))


@pytest.mark.parametrize("access", ["maps", "time-series", "points", "batch:time=4,lat=8"])
@pytest.mark.parametrize("size", ["64KiB", "16KiB"])
def test_automatic_chunks_suit_the_access_and_keep_their_size(zkit, hourly, tmp_path, access, size):
    copy = tmp_path / "copy.zarr"
    rechunk(zkit, hourly.path, copy, "--access", access, "--chunk-size", size)
    chunk, shard = layouts.grids(copy)["/t2m"]
    limit = int(size.removesuffix("KiB")) << 10
    assert shard is None and limit / 4 <= np.prod(chunk) * 4 <= limit, chunk
    maps, series = touched(chunk, (1, None, None)), touched(chunk, (None, 1, 1))
    if access == "maps":
        assert maps == 1
    elif access == "time-series":
        assert series == 1
    elif access == "points":
        assert 1 / 4 <= maps / series <= 4
    else:
        assert touched(chunk, (4, 8, None)) <= 4
    copies.assert_faithful(hourly, copy, zarr_format="keep", codec=CODEC)


def test_auto_lengths_fill_what_the_named_leave(zkit, hourly, tmp_path):
    copy = tmp_path / "copy.zarr"
    rechunk(zkit, hourly.path, copy, "--chunks", "time=-1,lat=auto,lon=auto", "--chunk-size", "32KiB")
    chunk = layouts.grids(copy)["/t2m"][0]
    assert chunk[0] == 96 and np.prod(chunk) * 4 <= 32 << 10
    copies.assert_faithful(hourly, copy, zarr_format="keep", codec=CODEC)


# ---- zkit.toml --------------------------------------------------------------------------------------------------


def two_variables(folder):
    store = layouts.cube_v2(folder / "two.zarr", layouts.awkward(SHAPE), CHUNKS, fill=None)
    gen_v2.v2(store / "wind", weather(SHAPE, "<i2"), chunks=CHUNKS, dims=list(layouts.DIMENSIONS), fill=None)
    gen_v2.v2(store / "mask", weather(SHAPE[1:], "|u1"), chunks=CHUNKS[1:], dims=["lat", "lon"], fill=None)
    return store


SETTINGS = """
[recompress]
chunks = "time=-1,lat=4,lon=4"
[[recompress.array]]
path = "wind"
chunks = "time=1,lat=-1,lon=-1"
codec = "gzip:1"
"""


@pytest.mark.parametrize("how", ["working directory", "named"])
def test_settings_of_a_file_hold_for_each_array(zkit, tmp_path, how):
    store, work = two_variables(tmp_path), tmp_path / "work"
    work.mkdir()
    file = work / ("zkit.toml" if how == "working directory" else "other.toml")
    file.write_text(SETTINGS)
    options = [] if how == "working directory" else ["--config", "other.toml"]
    report = zkit.json("recompress", store, tmp_path / "copy.zarr", *options, cwd=work)
    assert report["complete"]
    found = layouts.grids(tmp_path / "copy.zarr")
    assert found["/t2m"][0] == (23, 4, 4) and found["/mask"][0] == (4, 4)
    assert found["/wind"][0] == (1, 17, 19)
    assert layouts.metadata(tmp_path / "copy.zarr" / "wind", 2)["compressor"] == {"id": "gzip", "level": 1}
    assert found["/lat"][0] == (17,)
    assert oracle.digests(tmp_path / "copy.zarr") == oracle.digests(store)


def test_arguments_win_over_the_file(zkit, tmp_path):
    store = two_variables(tmp_path)
    (tmp_path / "zkit.toml").write_text(SETTINGS)
    rechunk(zkit, store, tmp_path / "copy.zarr", "--chunks", "time=2,lat=3,lon=5", cwd=tmp_path)
    found = layouts.grids(tmp_path / "copy.zarr")
    assert found["/t2m"][0] == found["/wind"][0] == (2, 3, 5)
    assert layouts.metadata(tmp_path / "copy.zarr" / "wind", 2)["compressor"]["id"] == "zstd"


@pytest.mark.parametrize(
    "text", ['[recompress]\nchunk = "time=1"', '[recompress]\nchunks = "time"', "[recompres]", "x ="]
)
def test_a_file_that_is_mistyped_is_refused_with_its_line(zkit, cubes, tmp_path, text):
    (tmp_path / "zkit.toml").write_text(text)
    before = listing(tmp_path)
    outcome = zkit("recompress", cubes["v2"].path, "copy.zarr", cwd=tmp_path)
    assert outcome.code == 2 and "zkit.toml" in outcome.err and "line " in outcome.err, outcome.err
    assert listing(tmp_path) == before


# ---- memory -----------------------------------------------------------------------------------------------------

LARGE, MIB = (100, 320, 320), 1 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """41 MB in 100 maps, and its digest."""
    store = tmp_path_factory.mktemp("large") / "large.zarr"
    values = np.random.default_rng(1).integers(0, 400, LARGE).astype("<f4")
    gen_v2.group(store)
    gen_v2.v2(store / "a", values, chunks=(1, 320, 320), compressor=numcodecs.LZ4(), fill=None)
    return store, oracle.digest(values)


@pytest.mark.parametrize("memory", [2, 8, 512])
def test_a_tiny_budget_is_kept_and_changes_nothing(zkit, large, tmp_path, memory):
    (store, digest), copy = large, tmp_path / "copy.zarr"
    outcome = zkit(
        "recompress", store, copy, "--chunks", "0=-1,1=16,2=16", "--codec", CODEC, "--memory", f"{memory}MiB",
        "--format", "json", "--jobs", "2",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert outcome.peak_mb < memory + 200 + 4 * 2
    assert outcome.json()["peak_memory_bytes"] <= (outcome.peak_mb + 1) * MIB
    assert layouts.grids(copy)["/a"] == ((100, 16, 16), None)
    assert oracle.digest(read(copy / "a")) == digest
    shutil.rmtree(copy)


def test_a_budget_that_holds_no_chunk_is_refused_with_the_least_that_would_do(zkit, large, tmp_path):
    store, _ = large
    refused(
        zkit, tmp_path, store, tmp_path / "copy.zarr", "--chunks", "0=-1,1=-1,2=-1", "--memory", "1MiB",
        words=["--memory", "MiB"], code=3,
    )  # fmt: skip


# ---- scratch space ----------------------------------------------------------------------------------------------

MAPS, TO_SERIES = (96, 64, 80), ("--chunks", "time=-1,lat=8,lon=8", "--memory", "1MiB", "--jobs", "2")


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """2 MB of maps in several layouts, read once."""
    folder, values = tmp_path_factory.mktemp("maps"), layouts.awkward(MAPS)
    names = [name for name in layouts.CUBES if "sharded" not in name]
    stores = {name: layouts.CUBES[name](folder / f"{name}.zarr", values, (1, 64, 80)) for name in names}
    return {name: copies.Source(store) for name, store in stores.items()}


def strategy_of(report, path="/t2m"):
    return next(array["strategy"] for array in report["arrays"] if array["path"] == path)


@pytest.mark.parametrize("layout", ["v2", "v2_f_order", "v2_big_endian", "v3", "v3_transposed", "v3_big_endian"])
def test_a_rechunk_through_scratch_space_changes_nothing(zkit, maps, tmp_path, layout):
    source, copy = maps[layout], tmp_path / "work" / "copy.zarr"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    report = rechunk(zkit, source.path, copy, *TO_SERIES, "--scratch", scratch)
    assert strategy_of(report) == "rechunk-spill", "not what this check is about"
    assert list(scratch.iterdir()) == [] and [p.name for p in copy.parent.iterdir()] == ["copy.zarr"]
    assert layouts.grids(copy)["/t2m"] == ((96, 8, 8), None)
    copies.assert_faithful(source, copy, zarr_format="keep", codec=CODEC)


def test_scratch_space_gives_the_same_bytes_as_none(zkit, maps, tmp_path):
    written = {}
    for size in ("1GiB", "100KiB"):
        copy = tmp_path / size
        report = rechunk(zkit, maps["v2"].path, copy, *TO_SERIES, "--scratch-size", size)
        written[strategy_of(report)] = {p.relative_to(copy): p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    assert sorted(written) == ["rechunk-passes", "rechunk-spill"]
    assert written["rechunk-passes"] == written["rechunk-spill"]


def test_no_scratch_space_may_be_asked_for(zkit, maps, tmp_path):
    """`--scratch-size 0` is documented: none."""
    report = rechunk(zkit, maps["v2"].path, tmp_path / "copy.zarr", *TO_SERIES, "--scratch-size", "0")
    assert strategy_of(report) == "rechunk-passes"
    assert oracle.digests(tmp_path / "copy.zarr") == maps["v2"].digests


def test_a_plan_says_how_much_scratch_space_it_takes(zkit, maps, tmp_path):
    plan = zkit.json("recompress", maps["v2"].path, tmp_path / "copy.zarr", "--dry-run", "--codec", CODEC, *TO_SERIES)
    assert strategy_of(plan) == "rechunk-spill" and plan["scratch_bytes"] >= 1_900_000
    assert list(tmp_path.iterdir()) == []


def test_types_of_any_width_go_through_scratch_space(zkit, tmp_path):
    store = gen_v2.group(tmp_path / "types.zarr")
    for dtype in ("|b1", "<i2", ">f8", "<c16", "|S5", "<U3", "<M8[s]", "|V3"):
        kind = np.dtype(dtype).kind
        fill = {"b": False, "c": [0.0, 0.0], "S": "", "U": "", "M": -(2**63), "V": None}.get(kind, 0)
        values = np.resize(typed(dtype), (96, 62, 74)).astype(dtype)
        gen_v2.v2(
            store / kind, values, chunks=(1, 62, 74), fill=fill, absent={(5, 0, 0)}, order="C" if kind != "f" else "F"
        )
    source, copy = copies.Source(store), tmp_path / "copy.zarr"
    report = rechunk(zkit, store, copy, "--chunks", "0=-1,1=9,2=7", "--memory", "1500KiB", "--jobs", "2")
    assert "rechunk-spill" in {array["strategy"] for array in report["arrays"]}
    copies.assert_faithful(source, copy, zarr_format="keep", codec=CODEC)


# ---- automatic codecs -------------------------------------------------------------------------------------------

AUTO_TYPES = ("<f4", "<f8", "<i2", "|u1", "|b1", "<c8", "<M8[ns]")


@pytest.fixture(scope="module")
def types(tmp_path_factory):
    """Arrays of 100 kB to 1 MB of several types, with chunk lengths that are no power of two."""
    store = gen_v2.group(tmp_path_factory.mktemp("types") / "types.zarr")
    smooth = np.cumsum(np.random.default_rng(2).normal(size=(61, 47, 37)), axis=0)
    for dtype in AUTO_TYPES:
        values = (smooth > 0) if dtype == "|b1" else (smooth * 10).astype("i8").astype(dtype)
        fill = {"b": False, "c": [0.0, 0.0], "M": 0}.get(np.dtype(dtype).kind, 0)
        gen_v2.v2(store / f"a_{np.dtype(dtype).name.split('[')[0]}", values, chunks=(7, 47, 37), fill=fill)
    return copies.Source(store)


@pytest.mark.parametrize("prefer", ["speed", "balanced", "size"])
@pytest.mark.parametrize("zarr_format", ["2", "3"])
def test_automatic_codecs_are_readable_by_all(zkit, types, tmp_path, zarr_format, prefer):
    copy = tmp_path / "copy.zarr"
    report = zkit.json(
        "recompress", types.path, copy, "--codec", "auto", "--prefer", prefer, "--zarr-format", zarr_format,
        "--chunks", "0=19,1=23,2=37", "--verify", "full",
    )  # fmt: skip
    assert all(array["codec_why"] for array in report["arrays"])
    copies.assert_faithful(types, copy, zarr_format=zarr_format, codec=None)
    if zarr_format == "2":  # a third reader: NumPy and numcodecs alone
        for path, (folder, _) in oracle.array_folders(copy).items():
            if types.values[path].dtype.kind != "c":  # that reader does not parse complex fill values
                assert oracle.digest(oracle.values_by_numcodecs(folder)) == types.digests[path], path


@pytest.mark.parametrize("zarr_format", ["2", "3"])
@pytest.mark.parametrize("block", [0, 1001, 12_345, 96_000, 10_000_000])
def test_blocks_of_any_size_are_readable_by_all(zkit, types, tmp_path, zarr_format, block):
    copy = tmp_path / "copy.zarr"
    if zarr_format == "2":
        codec = {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2, "blocksize": block}
    else:
        settings = {"typesize": 4, "cname": "zstd", "clevel": 1, "shuffle": "bitshuffle", "blocksize": block}
        codec = {"name": "blosc", "configuration": settings}
    zkit.json(
        "recompress", types.path, copy, "--codec", json.dumps(codec), "--zarr-format", zarr_format,
        "--include", "a_float*", "--chunks", "0=19,1=23,2=37", "--verify", "full",
    )  # fmt: skip
    folders = oracle.array_folders(copy)
    assert sorted(folders) == ["/a_float32", "/a_float64"]
    for path, (folder, version) in folders.items():
        assert oracle.digest(oracle.values(folder, version)) == types.digests[path]
        spec = {"driver": "zarr3" if version == 3 else "zarr", "kvstore": {"driver": "file", "path": str(folder)}}
        assert oracle.digest(tensorstore.open(spec).result().read().result()) == types.digests[path]


# ---- parts of stores, many stores -------------------------------------------------------------------------------


def test_the_first_variable_comes_with_coordinates(zkit, tmp_path):
    store, copy = two_variables(tmp_path), tmp_path / "copy.zarr"
    report = rechunk(zkit, store, copy, "--first", "1", "--chunks", "time=-1,lat=4,lon=4")
    found = set(oracle.array_folders(copy))
    assert {"/time", "/lat", "/lon"} < found and len(found & {"/t2m", "/wind", "/mask"}) == 1
    assert report["extrapolated"] is not None
    want = oracle.digests(store)
    assert oracle.digests(copy) == {path: want[path] for path in found}


def three_stores(folder):
    for name in ("one", "two", "three"):
        values = layouts.awkward((11, 17, 19))
        values[1, 1, 1] = len(name) + ord(name[0])
        layouts.cube_v2(folder / f"{name}.zarr", values, CHUNKS, fill=None)
    return [folder / f"{name}.zarr" for name in ("one", "two", "three")]


def test_many_stores_are_copied_into_one_directory(zkit, tmp_path):
    stores, into = three_stores(tmp_path), tmp_path / "into"
    report = zkit.json("recompress", *stores, "--into", into, "--chunks", "time=-1,lat=4,lon=4", "--codec", CODEC)
    assert report["complete"] and len(report["stores"]) == 3
    assert sorted(p.name for p in into.iterdir()) == ["one.zarr", "three.zarr", "two.zarr"]
    assert report["objects_written"] == sum(layouts.objects(into / store.name) for store in stores)
    for store in stores:
        assert layouts.grids(into / store.name)["/t2m"] == ((11, 4, 4), None)
        copies.assert_faithful(copies.Source(store), into / store.name, zarr_format="keep", codec=CODEC)


def test_two_stores_of_one_name_are_refused(zkit, cubes, tmp_path):
    for folder in ("x", "y"):
        shutil.copytree(cubes["v2"].path, tmp_path / folder / "a.zarr")
    outcome = refused(zkit, tmp_path, tmp_path / "x" / "a.zarr", tmp_path / "y" / "a.zarr", "--into", tmp_path / "into")
    assert "x/a.zarr" in outcome.err and "y/a.zarr" in outcome.err, "the message names both"


def test_a_copy_that_is_there_already_is_refused_before_anything_is_written(zkit, tmp_path):
    stores, into = three_stores(tmp_path), tmp_path / "into"
    shutil.copytree(stores[0], into / "three.zarr")
    refused(zkit, tmp_path, *stores, "--into", into, words=["three.zarr"], code=3)


def test_a_store_copied_into_its_own_directory_is_refused(zkit, tmp_path):
    stores = three_stores(tmp_path)
    outcome = zkit("recompress", *stores, "--into", tmp_path, "--overwrite", "--yes")
    assert outcome.code == 2, outcome.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.zarr", "three.zarr", "two.zarr"]


# ---- plans ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--zarr-format", "3", "--shards", "auto"], ["--memory", "1MiB"]])
def test_a_dry_run_says_what_the_run_then_does(zkit, hourly, tmp_path, options):
    options = ["--chunks", "time=-1,lat=4,lon=6", "--codec", CODEC, *options]
    outcome = zkit("recompress", hourly.path, tmp_path / "copy.zarr", "--dry-run", "--format", "json", *options)
    assert outcome.code == 0, outcome.err
    assert list(tmp_path.iterdir()) == []
    plan = outcome.json()
    done = zkit.json("recompress", hourly.path, tmp_path / "copy.zarr", *options)
    assert plan["dry_run"] is True
    assert plan["objects_written"] == done["objects_written"] == layouts.objects(tmp_path / "copy.zarr")
    planned, written = (
        {a["path"]: (a["strategy"], a["chunk_shape"], a["shard_shape"]) for a in d["arrays"]} for d in (plan, done)
    )
    assert planned == written and planned["/t2m"][0].startswith("rechunk")
    assert plan["memory_bytes"] > 0 and plan["bytes_read"] >= 900_000


def test_no_member_of_a_plan_is_given_twice(zkit, hourly, tmp_path):
    outcome = zkit("recompress", hourly.path, tmp_path / "copy.zarr", "--dry-run", "--format", "json")
    json.loads(outcome.stdout, object_pairs_hook=without_duplicates)


def without_duplicates(pairs):
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"the JSON names twice: {sorted(k for k in keys if keys.count(k) > 1)}"
    return dict(pairs)


def test_padding_of_edge_chunks_is_no_second_decode(zkit, tmp_path):
    """4 GiB hold 364 bytes at once: nothing is decoded twice, and nothing is short of memory."""
    store = gen_v2.group(tmp_path / "a.zarr")
    gen_v2.v2(store / "a", weather((13, 7)), chunks=(5, 4))
    options = ["--chunks", "0=6,1=5", "--codec", CODEC, "--memory", "4GiB", "--dry-run"]
    (array,) = zkit.json("recompress", store, tmp_path / "copy.zarr", *options)["arrays"]
    assert array["strategy"] == "rechunk", array["why"]
    assert "hold no more" not in array["why"]


def test_a_plan_counts_what_is_absent(zkit, tmp_path):
    values = layouts.awkward((16, 8))
    store = absent_store(tmp_path / "a.zarr", "NaN", {(0, 0), (0, 1), (3, 1)}, values)
    options = ["--chunks", "y=2,x=4", "--codec", CODEC]
    plan = zkit.json("recompress", store, tmp_path / "copy.zarr", "--dry-run", *options)
    assert not (tmp_path / "copy.zarr").exists()
    done = zkit.json("recompress", store, tmp_path / "copy.zarr", *options)
    assert plan["objects_written"] == done["objects_written"] == layouts.objects(tmp_path / "copy.zarr")


def test_text_of_a_plan_names_strategy_memory_and_objects(zkit, hourly, tmp_path):
    outcome = zkit("recompress", hourly.path, tmp_path / "copy.zarr", "--dry-run", "--chunks", "time=-1,lat=4,lon=6")
    text = outcome.stdout.decode()
    assert outcome.code == 0 and all(word in text for word in ("rechunk", "memory", "objects", "/t2m"))


def test_jobs_change_no_byte(zkit, hourly, tmp_path):
    written = []
    for jobs in ("1", "3"):
        copy = tmp_path / f"copy_{jobs}.zarr"
        rechunk(zkit, hourly.path, copy, "--chunks", "time=-1,lat=4,lon=6", "--jobs", jobs)
        written.append({p.relative_to(copy): p.read_bytes() for p in copy.rglob("*") if p.is_file()})
    assert written[0] == written[1]


def test_a_v3_source_of_real_shards_is_read_in_parts(zkit, tmp_path):
    """A shard that is larger than the budget: its inner chunks are read one by one."""
    values = layouts.awkward((64, 64, 64))
    zarr.create_group(str(tmp_path / "a.zarr"), zarr_format=3)
    gen_v3.v3(tmp_path / "a.zarr", "a", values, chunks=(8, 8, 8), shards=(64, 64, 64), compressors=ZstdCodec())
    report = rechunk(
        zkit,
        tmp_path / "a.zarr",
        tmp_path / "b.zarr",
        "--chunks",
        "0=64,1=4,2=4",
        "--shards",
        "none",
        "--memory",
        "700KiB",
    )
    assert layouts.grids(tmp_path / "b.zarr")["/a"] == ((64, 4, 4), None)
    assert oracle.digests(tmp_path / "b.zarr") == {"/a": oracle.digest(values)}
    assert report["bytes_decoded"] >= values.nbytes
