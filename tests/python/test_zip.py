"""Zip files as stores, from disk, from a bucket and from a web server, judged by what was put in."""

import json
import zipfile

import pytest

import bucket
import oracle
import web
from conftest import FIXTURES, MEMORY_LIMIT_MB

STORES = ("ostia_sst.zarr", "sharded_index_end.zarr", "mixed_types.zarr")


def zipped(store, path, method=zipfile.ZIP_STORED, prefix=""):
    """Every file of the store, one after the other; a member is stored or deflated, or one and the other in turn."""
    files = sorted(p for p in store.rglob("*") if p.is_file())
    with zipfile.ZipFile(path, "w") as archive:
        for number, file in enumerate(files):
            turn = method if method is not None else (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[number % 2]
            archive.write(file, prefix + file.relative_to(store).as_posix(), compress_type=turn)
    return path


@pytest.mark.parametrize("prefix", ("", "store.zarr/"))
@pytest.mark.parametrize("method", (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, None))
@pytest.mark.parametrize("name", STORES)
def test_a_zip_file_holds_what_was_put_in(zkit, tmp_path, name, method, prefix):
    archive = zipped(FIXTURES / name, tmp_path / "store.zip", method, prefix)
    assert zkit.digests(archive) == zkit.digests(FIXTURES / name)
    store = zkit.json("inspect", archive)
    assert store["store"]["container"] == "zip"
    assert store["arrays"] == zkit.json("inspect", FIXTURES / name)["arrays"]


def test_a_zip_file_of_another_program_is_read(zkit, tmp_path):
    with zipfile.ZipFile(FIXTURES / "ome_image.zip") as archive:
        archive.extractall(tmp_path)
    (store,) = {p.parent for p in tmp_path.rglob("zarr.json") if not (p.parent.parent / "zarr.json").is_file()}
    assert zkit.digests(FIXTURES / "ome_image.zip") == oracle.digests(store) != {}


def test_a_copy_of_a_zip_file_is_a_store(zkit, tmp_path):
    archive = zipped(FIXTURES / "ostia_sst.zarr", tmp_path / "store.zip", None)
    outcome = zkit("recompress", archive, tmp_path / "copy.zarr", "--codec", "zstd:1")
    assert outcome.code == 0, outcome.err
    assert oracle.digests(tmp_path / "copy.zarr") == oracle.digests(FIXTURES / "ostia_sst.zarr")


def test_a_member_that_is_damaged_is_named_and_hides_no_other(zkit, tmp_path):
    archive = zipped(FIXTURES / "ostia_sst.zarr", tmp_path / "store.zip")
    bytes_ = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as opened:
        at = opened.getinfo("analysed_sst/0.1.1").header_offset + 200
    bytes_[at] ^= 1
    archive.write_bytes(bytes_)
    outcome = zkit("digest", archive, "--format", "json")
    errors = {array["path"]: array["error"] for array in outcome.json()["arrays"] if array["error"]}
    assert outcome.code == 1 and errors.keys() == {"/analysed_sst"} and "checksum" in errors["/analysed_sst"]


def test_estimates_do_not_read_a_member_that_inflates_beyond_its_chunk(zkit, tmp_path):
    array = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<f4", "fill_value": 0}
    with zipfile.ZipFile(tmp_path / "store.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(".zgroup", '{"zarr_format": 2}')
        archive.writestr("a/.zarray", json.dumps({**array, "compressor": None, "filters": None, "order": "C"}))
        archive.writestr("a/0", bytes(300 << 20))
    outcome = zkit("recompress", tmp_path / "store.zip", tmp_path / "copy.zarr", "--dry-run")
    assert outcome.code == 0 and outcome.peak_mb < MEMORY_LIMIT_MB, outcome


def test_a_zip_file_that_is_cut_off_says_so(zkit, tmp_path):
    archive = zipped(FIXTURES / "ostia_sst.zarr", tmp_path / "store.zip")
    archive.write_bytes(archive.read_bytes()[:-100])
    assert zkit.json("inspect", archive)["defects"][0]["rule"] == "corrupt-archive"
    outcome = zkit("digest", archive)
    assert outcome.code == 3 and "central directory" in outcome.err


# ---- behind a network --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    with bucket.served() as port:
        yield port


@pytest.mark.parametrize("method", (zipfile.ZIP_STORED, None))
def test_a_zip_file_in_a_bucket_is_read_by_range(zkit, server, tmp_path, method):
    store = FIXTURES / "ostia_sst.zarr"
    bucket.Bucket(server).write("a/store.zip", zipped(store, tmp_path / "store.zip", method).read_bytes())
    environment = bucket.environment(server)
    assert zkit.digests(bucket.url("a/store.zip"), **environment) == oracle.digests(store)
    outcome = zkit("recompress", bucket.url("a/store.zip"), tmp_path / "copy.zarr", "--codec", "zstd:1", **environment)
    assert outcome.code == 0, outcome.err
    assert oracle.digests(tmp_path / "copy.zarr") == oracle.digests(store)
    bucket.Bucket(server).upload(store, "b/store.zip")
    assert zkit.digests(bucket.url("b/store.zip"), **environment) == oracle.digests(store)
    absent = zkit("digest", bucket.url("c/store.zip"), **environment)
    assert absent.code == 3


def test_a_zip_file_on_a_web_server_takes_one_request_to_open_and_one_a_chunk(zkit, tmp_path):
    root = tmp_path / "web"
    root.mkdir()
    store = FIXTURES / "ostia_sst.zarr"
    zipped(store, root / "store.zip", None)
    chunks = [p for p in store.rglob("*") if p.is_file() and not p.name.startswith(".")]
    with web.served(root) as (address, seen):
        assert zkit.digests(f"{address}/store.zip") == oracle.digests(store)
        # metadata lies in front: consolidated, one range
        assert len(seen) <= len(chunks) + 2 and all(part for _, part in seen)
        (root / "store.zip").write_bytes((root / "store.zip").read_bytes()[:-30])
        outcome = zkit("digest", f"{address}/store.zip")
        assert outcome.code == 3 and "central directory" in outcome.err
