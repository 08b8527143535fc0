"""Every codec, type, filter, layout and fill value that the generator knows: inspect, digest and recompress."""

import json

import numcodecs
import numpy as np
import pytest
import zarr

import copies
import data_types
import gen_stores
import gen_v2
import gen_v3
import oracle
from gen_values import weather
from test_recompress import CODECS, FORMATS, assert_refusal

SOUND = [name for name in gen_stores.FAMILIES if name != "v2_refused"]
REFUSALS = {
    ("v2_ragged", "3"): "vlen-array",
    ("v2_structs", "3"): "sub",
    ("v2_texts", "3"): "python objects",
    ("v3_sharding", "2"): "shard",
    ("v3_structs", "2"): "struct",
    ("v3_layouts", "2"): "only some dimensions have names",
}


@pytest.fixture(scope="module")
def sources(generated):
    read = {}

    def source(name):
        if name not in read:
            read[name] = copies.Source(generated[name])
        return read[name]

    return source


@pytest.mark.parametrize("name", SOUND)
def test_inspect_sees_every_array_as_it_was_written(zkit, sources, name):
    source = sources(name)
    document = zkit.json("inspect", source.path)
    arrays = {array["path"]: array for array in document["arrays"]}
    assert sorted(arrays) == sorted(source.values)
    assert document["defects"] == []
    for path, values in source.values.items():
        assert arrays[path]["shape"] == list(values.shape), path
        folder, _ = source.folders[path]
        stored = sum(1 for p in folder.rglob("*") if p.is_file() and p.name not in (".zarray", ".zattrs", "zarr.json"))
        assert arrays[path]["chunks_stored"] == stored, path
        if values.dtype.kind not in "OTV":
            assert data_types.same(values.dtype, arrays[path]["data_type"]), path


@pytest.mark.parametrize("name", [name for name in SOUND if name != "v2_ragged"])
def test_digests_are_those_of_other_readers(zkit, sources, name):
    source = sources(name)
    got = zkit.digests(source.path)
    wrong = {path: got.get(path) for path, want in source.digests.items() if got.get(path) != want}
    assert wrong == {}
    assert len(got) == len(source.digests)


def test_arrays_of_arrays_have_no_digest_and_say_so(zkit, generated):
    outcome = zkit("digest", generated["v2_ragged"], "--format", "json")
    assert outcome.code in (1, 3)
    for array in outcome.json()["arrays"]:
        assert array["sha256"] is None and "objects" in array["error"]


def test_a_signalling_nan_as_fill_value_keeps_its_bits(zkit, tmp_path):
    """zarr-python makes it a quiet one, so the judge is NumPy here."""
    zarr.create_group(str(tmp_path / "nan.zarr"), zarr_format=3)
    gen_v3.v3(tmp_path / "nan.zarr", "array", weather(), fill=np.float32("nan"), write=slice(0, 5))
    gen_v3.replace_fill(tmp_path / "nan.zarr" / "array", "0x7fa00001")
    expected = weather().view("u4")
    expected[5:] = 0x7FA00001
    assert zkit.digests(tmp_path / "nan.zarr") == {"/array": oracle.digest(expected)}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("name", SOUND)
def test_a_copy_is_faithful_or_clearly_refused(zkit, sources, tmp_path, name, zarr_format, codec):
    source, destination = sources(name), tmp_path / "copy.zarr"
    outcome = zkit(
        "recompress",
        source.path,
        destination,
        "--zarr-format",
        zarr_format,
        "--codec",
        codec,
        "--verify",
        "full",
    )
    if outcome.code != 0:
        assert_refusal(outcome, tmp_path, REFUSALS.get((name, zarr_format)))
        return
    copies.assert_faithful(source, destination, zarr_format=zarr_format, codec=codec)


def test_objects_whose_decoding_runs_code_are_refused_by_name(zkit, generated):
    outcome = zkit("digest", generated["v2_refused"], "--format", "json")
    arrays = {array["path"].strip("/"): array for array in outcome.json()["arrays"]}
    assert outcome.code in (1, 3)
    for codec in ("pickle", "json2", "msgpack2", "categorize"):
        assert arrays[codec]["sha256"] is None and codec in arrays[codec]["error"]
    folder, version = oracle.array_folders(generated["v2_refused"])["/sound"]
    assert arrays["sound"]["sha256"] == oracle.digest(oracle.values(folder, version))


@pytest.mark.parametrize("codec", (numcodecs.JSON(), numcodecs.MsgPack()), ids=lambda codec: codec.codec_id)
@pytest.mark.parametrize("odd", (1, True, 2.5, {"a": 1}, ["a"]), ids=str)
def test_objects_that_are_no_texts_have_no_digest_and_say_so(zkit, tmp_path, codec, odd):
    values = np.empty(3, object)
    values[:] = ["a", odd, "b"]
    gen_v2.v2(tmp_path / "odd.zarr", values, chunks=(3,), filters=[codec], fill=None)
    outcome = zkit("digest", tmp_path / "odd.zarr", "--format", "json")
    (array,) = outcome.json()["arrays"]
    assert outcome.code in (1, 3) and array["sha256"] is None
    assert codec.codec_id in array["error"]


def test_arrays_that_cannot_be_decoded_keep_their_elements_and_are_named(zkit, generated, tmp_path):
    store, copy = generated["v2_refused"], tmp_path / "copy.zarr"
    outcome = zkit("recompress", store, copy, "--zarr-format", "keep")
    assert outcome.code == 0, outcome.err
    assert "pickle" in outcome.err + outcome.stdout.decode()
    for codec in ("pickle", "json2", "msgpack2", "categorize"):
        for chunk in (store / codec).iterdir():
            if not chunk.name.startswith("."):
                copied = (copy / codec / chunk.name).read_bytes()
                assert uncompressed(copy / codec, copied) == uncompressed(store / codec, chunk.read_bytes())


def uncompressed(array, chunk):
    """What lies behind an array's compressor, by numcodecs."""
    compressor = json.loads((array / ".zarray").read_bytes())["compressor"]
    return bytes(numcodecs.get_codec(compressor).decode(chunk)) if compressor else chunk
