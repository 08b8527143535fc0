"""Shards that `zkit recompress` writes and reads inner chunk by inner chunk: elements of any length, and damage."""

import struct

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec, TransposeCodec, VLenUTF8Codec, ZstdCodec

import bucket
import copies
import gen_v2
import layouts
import oracle
from conftest import listing

WORDS = np.array(["", "Zürich", "日本", "a" * 300, "x\0y"] * 8, dtype=object).reshape(8, 5)
LINES = ("--chunks", "0=2,1=2", "--shards", "0=4,1=6")


def text_v2(store):
    gen_v2.group(store)
    gen_v2.v2(store / "a", WORDS, chunks=(3, 5), filters=[numcodecs.VLenUTF8()], fill="")
    return store


def bytes_v2(store):
    gen_v2.group(store)
    values = np.array([word.encode() for word in WORDS.flat], dtype=object).reshape(WORDS.shape)
    gen_v2.v2(store / "a", values, chunks=(3, 5), filters=[numcodecs.VLenBytes()], fill="")
    return store


def text_v3(store):
    return written(store, WORDS, (3, 5), str)


def sharded_text_v3(store):
    return written(store, WORDS, (2, 3), str, shards=(4, 6))


def written(store, values, chunks, dtype, **options):
    zarr.create_group(str(store), zarr_format=3)
    array = zarr.create_array(str(store / "a"), shape=values.shape, chunks=chunks, dtype=dtype, **options)
    array[...] = values
    return store


def places(shard, inner_chunks):
    """Offset and length of each inner chunk, by an index of eight-byte words and a checksum at the end; None if absent."""
    index = struct.unpack(f"<{2 * inner_chunks}Q", shard.read_bytes()[-16 * inner_chunks - 4 : -4])
    pairs = zip(index[::2], index[1::2], strict=True)
    return [None if offset == 2**64 - 1 else (offset, length) for offset, length in pairs]


# ---- elements without fixed size --------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [text_v2, bytes_v2, text_v3, sharded_text_v3])
@pytest.mark.parametrize("codec", ["zstd:1", "none", "keep"])
def test_elements_of_any_length_go_into_shards(zkit, tmp_path, write, codec):
    source, copy = copies.Source(write(tmp_path / "source.zarr")), tmp_path / "copy.zarr"
    options = ("--codec", codec, "--zarr-format", "3", "--verify", "full")
    report = zkit.json("recompress", source.path, copy, *LINES, *options)
    assert report["arrays"][0]["shard_shape"] == [4, 6]
    assert layouts.grid_of(copy / "a", 3) == ((2, 2), (4, 6))
    array = zarr.open_group(str(copy))["a"]
    assert (array.chunks, array.shards) == ((2, 2), (4, 6))
    assert oracle.digests(copy) == source.digests
    # one inner chunk alone, as zarr-python fetches it
    wanted = WORDS[6:8, 2:4].tolist()
    if write is bytes_v2:
        wanted = [[word.encode() for word in line] for line in wanted]
    assert array[6:8, 2:4].tolist() == wanted


def test_shards_of_text_are_recoded_and_undone(zkit, tmp_path):
    source = copies.Source(sharded_text_v3(tmp_path / "source.zarr"))
    zkit.json("recompress", source.path, tmp_path / "recoded.zarr", "--codec", "gzip:3", "--verify", "full")
    zkit.json("recompress", tmp_path / "recoded.zarr", tmp_path / "plain.zarr", "--shards", "none", "--codec", "none")
    for copy, shards in (("recoded.zarr", (4, 6)), ("plain.zarr", None)):
        assert layouts.grid_of(tmp_path / copy / "a", 3) == ((2, 3), shards)
        assert oracle.digests(tmp_path / copy) == source.digests


def test_inner_chunks_of_empty_text_are_left_out(zkit, tmp_path):
    words = np.full((8, 4), "", dtype=object)
    words[2, 1] = "only this"
    source = copies.Source(written(tmp_path / "source.zarr", words, (8, 4), str))
    options = ("--chunks", "0=2,1=2", "--shards", "0=4,1=4", "--codec", "none", "--verify", "full")
    zkit.json("recompress", source.path, tmp_path / "copy.zarr", *options)
    assert [p.name for p in sorted((tmp_path / "copy.zarr" / "a").rglob("0")) if p.is_file()] == ["0"]
    assert [place is not None for place in places(tmp_path / "copy.zarr/a/c/0/0", 4)] == [False, False, True, False]
    assert oracle.digests(tmp_path / "copy.zarr") == source.digests


def test_shards_of_text_have_lengths_of_their_own_choice(zkit, tmp_path):
    words = np.array([f"station {i}" for i in range(200_000)], dtype=object)
    source = copies.Source(written(tmp_path / "source.zarr", words, (1000,), str))
    report = zkit.json("recompress", source.path, tmp_path / "copy.zarr", "--shards", "auto", "--codec", "zstd:1")
    assert report["arrays"][0]["shard_shape"][0] > 1000
    assert oracle.digests(tmp_path / "copy.zarr") == source.digests


def test_v2_has_no_shards_of_text_either(zkit, tmp_path):
    source = text_v2(tmp_path / "source.zarr")
    before = listing(tmp_path)
    outcome = zkit("recompress", source, tmp_path / "copy.zarr", *LINES)
    assert outcome.code == 2 and "--zarr-format 3" in outcome.err, outcome.err
    assert listing(tmp_path) == before


# ---- damage -----------------------------------------------------------------------------------------------------

NUMBERS = [BytesCodec(), ZstdCodec(level=1), Crc32cCodec()]
TEXT = [VLenUTF8Codec(), ZstdCodec(level=1, checksum=True)]
FILL = -5.5


@pytest.fixture
def damaged(tmp_path):
    """A store with one damaged inner chunk, and what a copy with fill values holds: (store, digests)."""

    def write(kind):
        text = kind == "text"
        values = np.array([f"word {i}" for i in range(96)], dtype=object) if text else np.arange(96, dtype="<f4")
        values = values.reshape(12, 8)
        transposed = kind == "transposed"
        codec = ShardingCodec(chunk_shape=(4, 2) if transposed else (2, 4), codecs=TEXT if text else NUMBERS)
        filters = [TransposeCodec(order=(1, 0))] if transposed else None
        options = {"serializer": codec, "compressors": None, "filters": filters}
        fill = "nothing" if text else np.float32(FILL)
        store = written(
            tmp_path / "damaged.zarr", values, (4, 8), str if text else values.dtype, fill_value=fill, **options
        )
        shard, (offset, length) = store / "a/c/1/0", places(store / "a/c/1/0", 4)[2 if transposed else 1]
        data = bytearray(shard.read_bytes())
        data[offset + length // 2] ^= 0xFF
        shard.write_bytes(data)
        filled = values.copy()
        filled[4:6, 4:8] = fill
        return store, filled

    return write


@pytest.mark.parametrize("kind", ["numbers", "text"])
@pytest.mark.parametrize(
    "options",
    [
        ["--codec", "gzip:1"],
        ["--codec", "zstd:1", "--chunks", "0=3,1=3", "--shards", "none"],
        ["--codec", "zstd:1", "--chunks", "0=-1,1=2", "--shards", "0=-1,1=4"],
        ["--codec", "zstd:1", "--chunks", "0=5,1=8", "--shards", "none", "--zarr-format", "2"],
    ],
    ids=["recode", "rechunk", "reshard", "v2"],
)
def test_a_damaged_inner_chunk_costs_no_more_than_itself(zkit, damaged, tmp_path, kind, options):
    store, filled = damaged(kind)
    run = ["recompress", store, tmp_path / "copy.zarr", *options, "--verify", "full"]
    assert zkit(*run).code == 3
    outcome = zkit(*run, "--restart", "--on-corrupt", "skip", "--format", "json")
    assert outcome.code == 1, outcome.err
    (corrupt,) = outcome.json()["corrupt_chunks"]
    assert (corrupt["path"], corrupt["chunk"], corrupt["inner_chunk"]) == ("/a", [1, 0], [0, 1])
    assert corrupt["message"]
    assert oracle.digests(tmp_path / "copy.zarr") == {"/a": oracle.digest(filled)}


@pytest.mark.parametrize("kind", ["numbers", "text"])
@pytest.mark.parametrize("options", [["--codec", "gzip:1"], ["--codec", "zstd:1", "--chunks", "0=3,1=3"]])
def test_a_damaged_inner_chunk_in_a_bucket_costs_no_more_than_itself(zkit, damaged, tmp_path, kind, options):
    store, filled = damaged(kind)
    with bucket.served() as port:
        bucket.Bucket(port).upload(store, "damaged.zarr")
        run = ["recompress", bucket.url("damaged.zarr"), tmp_path / "copy.zarr", *options, "--on-corrupt", "skip"]
        outcome = zkit(*run, "--verify", "full", "--format", "json", **bucket.environment(port))
    assert outcome.code == 1, outcome.err
    (corrupt,) = outcome.json()["corrupt_chunks"]
    assert (corrupt["chunk"], corrupt["inner_chunk"]) == ([1, 0], [0, 1])
    assert oracle.digests(tmp_path / "copy.zarr") == {"/a": oracle.digest(filled)}


@pytest.mark.parametrize("options", [["--codec", "gzip:1"], ["--codec", "zstd:1", "--chunks", "0=3,1=3"]])
def test_a_shard_behind_a_transpose_decodes_as_a_whole_and_is_given_up_as_a_whole(zkit, damaged, tmp_path, options):
    store, filled = damaged("transposed")
    filled[4:8] = FILL
    run = ["recompress", store, tmp_path / "copy.zarr", *options, "--on-corrupt", "skip"]
    outcome = zkit(*run, "--verify", "full", "--format", "json")
    assert outcome.code == 1, outcome.err
    assert [(entry["chunk"], entry["inner_chunk"]) for entry in outcome.json()["corrupt_chunks"]] == [([1, 0], None)]
    assert oracle.digests(tmp_path / "copy.zarr") == {"/a": oracle.digest(filled)}


def test_what_text_tells_of_a_damaged_inner_chunk_is_its_place(zkit, damaged, tmp_path):
    store, _ = damaged("numbers")
    outcome = zkit("recompress", store, tmp_path / "copy.zarr", "--codec", "gzip:1", "--on-corrupt", "skip")
    assert outcome.code == 1
    assert "[1, 0] inner [0, 1]" in outcome.stdout.decode()


@pytest.mark.parametrize("kind", ["numbers", "text"])
@pytest.mark.parametrize("options", [["--codec", "gzip:1"], ["--codec", "zstd:1", "--chunks", "0=1,1=1"]])
def test_a_shard_without_a_sound_index_is_given_up_once_and_as_a_whole(zkit, damaged, tmp_path, kind, options):
    store, filled = damaged(kind)
    shard = store / "a/c/1/0"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 0xFF
    shard.write_bytes(data)
    filled[4:8] = filled[4, 4]
    run = ["recompress", store, tmp_path / "copy.zarr", *options, "--on-corrupt", "skip"]
    outcome = zkit(*run, "--verify", "full", "--format", "json")
    assert outcome.code == 1, outcome.err
    (corrupt,) = outcome.json()["corrupt_chunks"]
    assert (corrupt["chunk"], corrupt["inner_chunk"]) == ([1, 0], None)
    assert oracle.digests(tmp_path / "copy.zarr") == {"/a": oracle.digest(filled)}
