"""kerchunk references read as stores, judged by fsspec's reference file system and zarr-python."""

import base64
import json
import os

import fsspec
import pytest

import bucket
import oracle
import web
from conftest import FIXTURES

STORE = "ostia_sst.zarr"
DOCUMENTS = (".zgroup", ".zattrs", ".zarray")


@pytest.fixture(scope="module")
def packed():
    """The chunks of a fixture one behind the other: the bytes, the metadata, and where each chunk lies."""
    data, documents, ranges = b"", {}, {}
    for file in sorted(p for p in (FIXTURES / STORE).rglob("*") if p.is_file()):
        key = file.relative_to(FIXTURES / STORE).as_posix()
        if file.name in DOCUMENTS:
            documents[key] = file.read_text()
        elif file.name != ".zmetadata":
            ranges[key] = (len(data), file.stat().st_size)
            data += file.read_bytes()
    return data, documents, ranges


def references(packed, url):
    """A set that refers to one file by ranges; the chunks of /lat stand in it."""
    data, documents, ranges = packed
    entries = {}
    for key, (offset, length) in ranges.items():
        inline = "base64:" + base64.b64encode(data[offset : offset + length]).decode()
        entries[key] = inline if key.startswith("lat/") else ["{{u}}", offset, length]
    return {"version": 1, "templates": {"u": url}, "refs": documents | entries}


def written(folder, document, name="refs.json"):
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def judged(refs, folder, cwd, monkeypatch):
    """The digests of what fsspec finds under every key, as zarr-python decodes it."""
    monkeypatch.chdir(cwd)
    options = {"remote_protocol": "file", "simple_templates": False, "skip_instance_cache": True}
    seen = fsspec.filesystem("reference", fo=str(refs), **options).get_mapper("")
    for key in seen:
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(seen[key])
    return oracle.digests(folder)


@pytest.fixture(scope="module")
def truth():
    return oracle.digests(FIXTURES / STORE)


def test_ranges_and_inline_bytes_are_what_fsspec_reads(zkit, packed, truth, tmp_path, monkeypatch):
    (tmp_path / "data.bin").write_bytes(packed[0])
    refs = written(tmp_path, references(packed, "data.bin"))
    assert zkit.digests(refs) == truth == judged(refs, tmp_path / "judged", tmp_path, monkeypatch)
    assert zkit("compare", refs, FIXTURES / STORE).code == 0


def test_version_0_whole_files_and_file_urls_are_read(zkit, packed, truth, tmp_path, monkeypatch):
    data, documents, ranges = packed
    entries = {}
    for number, (key, (offset, length)) in enumerate(ranges.items()):
        (tmp_path / f"{number}.bin").write_bytes(data[offset : offset + length])
        entries[key] = [f"file://{tmp_path}/{number}.bin"]
    refs = written(tmp_path, documents | entries)
    assert zkit.digests(refs) == truth == judged(refs, tmp_path / "judged", tmp_path, monkeypatch)


def test_rules_generate_what_jinja_generates(zkit, tmp_path, monkeypatch):
    array = {"zarr_format": 2, "shape": [4, 6], "chunks": [2, 2], "dtype": "<i2", "fill_value": -1, "order": "C"}
    array |= {"compressor": None, "filters": None}
    (tmp_path / "part_a.bin").write_bytes(bytes(range(100)))
    (tmp_path / "part_b.bin").write_bytes(bytes(range(100, 200)))
    rules = [
        {
            "key": "v/{{i}}.{{j}}",
            "url": "{{f(c=n)}}",
            "offset": "{{(i * 2 + j) * 8 + 3}}",
            "length": "{{ 4 * 2 }}",
            "dimensions": {"i": {"stop": 2}, "j": {"start": 0, "stop": 3, "step": 2}, "n": ["a"]},
        },
        {
            "key": "v/{{i}}.1",
            "url": "{{stem}}_b.bin",
            "offset": "{{i // 1}}",
            "length": "8",
            "dimensions": {"i": [0, 1]},
        },
    ]
    document = {
        "version": 1,
        "templates": {"stem": "part", "f": "part_{{c}}.bin"},
        "gen": rules,
        "refs": {".zgroup": '{"zarr_format":2}', "v/.zarray": json.dumps(array)},
    }
    refs = written(tmp_path, document)
    assert zkit.digests(refs) == judged(refs, tmp_path / "judged", tmp_path, monkeypatch)
    assert zkit.json("inspect", refs)["arrays"][0]["chunks_stored"] == 6


def test_a_chunk_without_a_reference_is_the_fill_value(zkit, packed, tmp_path, monkeypatch):
    (tmp_path / "data.bin").write_bytes(packed[0])
    document = references(packed, "data.bin")
    del document["refs"]["analysed_sst/0.1.1"]
    refs = written(tmp_path, document)
    assert zkit.digests(refs) == judged(refs, tmp_path / "judged", tmp_path, monkeypatch)


def test_a_copy_of_references_is_a_store_of_its_own(zkit, packed, truth, tmp_path):
    (tmp_path / "data.bin").write_bytes(packed[0])
    refs = written(tmp_path, references(packed, "data.bin"))
    copy = tmp_path / "copy.zarr"
    outcome = zkit("recompress", refs, copy, "--codec", "zstd:1", "--chunks", "lat=50")
    assert outcome.code == 0, outcome.err
    (tmp_path / "data.bin").unlink()
    assert zkit.digests(copy) == truth == oracle.digests(copy)


def test_inspect_tells_references_and_their_chunks(zkit, packed, tmp_path):
    (tmp_path / "data.bin").write_bytes(packed[0])
    got = zkit.json("inspect", written(tmp_path, references(packed, "data.bin")))
    want = zkit.json("inspect", FIXTURES / STORE)
    assert got["store"]["kind"] == "kerchunk-json"
    assert got["arrays"] == want["arrays"]


def error_of(zkit, refs, *args, **env):
    outcome = zkit("digest", refs, "--format", "json", *args, **env)
    assert outcome.code in (1, 3)
    return outcome, {a["path"]: a["error"] for a in outcome.json()["arrays"] if a["error"]}


@pytest.mark.parametrize(
    "target",
    [
        "file:///etc/hostname",
        "/etc/passwd",
        "../../../../../../../../etc/passwd",
        "file:///proc/self/environ",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/x",
        "s3://bucket/data.bin",
        "ftp://example.org/data.bin",
        "simplecache::s3://bucket/data.bin",
    ],
)
@pytest.mark.parametrize("allow", [(), ("--allow-prefix", "/"), ("--allow-prefix", "http://169.254.169.254/")])
def test_what_nobody_allowed_is_never_read(zkit, tmp_path, target, allow):
    array = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|u1", "fill_value": 0, "order": "C"}
    array |= {"compressor": None, "filters": None}
    refs = written(tmp_path, {"v/.zarray": json.dumps(array), ".zgroup": '{"zarr_format":2}', "v/0": [target, 0, 2]})
    _, errors = error_of(zkit, refs, *allow)
    assert target in errors["/v"]


def test_a_folder_elsewhere_is_read_once_it_is_allowed(zkit, packed, truth, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "refs").mkdir()
    (tmp_path / "data" / "data.bin").write_bytes(packed[0])
    refs = written(tmp_path / "refs", references(packed, "../data/data.bin"))
    outcome, errors = error_of(zkit, refs)
    assert set(errors) == set(truth) - {"/lat"}
    assert all("../data/data.bin" in error and "--allow-prefix" in error for error in errors.values())
    assert outcome.code == 3
    assert zkit.digests(refs, "--allow-prefix", tmp_path / "data") == truth
    assert zkit.digests(refs, "--allow-prefix", tmp_path / "data" / "data.bin") == truth
    (tmp_path / "dat").mkdir()
    assert error_of(zkit, refs, "--allow-prefix", tmp_path / "dat")[1].keys() == errors.keys()
    none = zkit("digest", refs, "--allow-prefix", tmp_path / "none")
    assert none.code == 3 and "--allow-prefix" in none.err


def test_a_target_that_is_gone_is_unreadable_and_a_short_one_corrupt(zkit, packed, tmp_path):
    refs = written(tmp_path, references(packed, "data.bin"))
    outcome, errors = error_of(zkit, refs)
    assert outcome.code == 3 and all("data.bin" in error for error in errors.values())
    (tmp_path / "data.bin").write_bytes(packed[0][:-1])
    outcome, errors = error_of(zkit, refs)
    assert outcome.code == 1 and len(errors) == 1
    os.truncate(tmp_path / "data.bin", 0)
    assert error_of(zkit, refs)[0].code == 1


def test_entries_that_are_no_references_are_corrupt_chunks(zkit, packed, tmp_path):
    (tmp_path / "data.bin").write_bytes(packed[0])
    document = references(packed, "data.bin")
    document["refs"]["analysed_sst/0.0.0"] = ["data.bin", -1, 4]
    outcome, errors = error_of(zkit, written(tmp_path, document))
    assert outcome.code == 1 and set(errors) == {"/analysed_sst"}
    document["templates"] = {}
    assert error_of(zkit, written(tmp_path, document))[0].code == 1


# ---- targets behind a network ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(packed):
    with bucket.served() as port:
        bucket.Bucket(port).write("data/data.bin", packed[0])
        yield port


def test_targets_in_a_bucket_are_read_by_range(zkit, server, packed, truth, tmp_path):
    refs = written(tmp_path, references(packed, bucket.url("data/data.bin")))
    environment = bucket.environment(server)
    assert all("--allow-prefix" in error for error in error_of(zkit, refs, **environment)[1].values())
    got = zkit.digests(refs, "--allow-prefix", bucket.url("data"), **environment)
    assert got == truth
    copy = tmp_path / "copy.zarr"
    outcome = zkit("recompress", refs, copy, "--codec", "zstd:1", "--allow-prefix", bucket.url("data"), **environment)
    assert outcome.code == 0, outcome.err
    assert oracle.digests(copy) == truth


def test_references_in_a_bucket_read_what_lies_beside_them(zkit, server, packed, truth):
    document = json.dumps(references(packed, "data.bin")).encode()
    bucket.Bucket(server).write("data/refs.json", document)
    assert zkit.digests(bucket.url("data/refs.json"), **bucket.environment(server)) == truth
    bucket.Bucket(server).write("other/refs.json", document.replace(b"data.bin", b"../data/data.bin"))
    refused, errors = error_of(zkit, bucket.url("other/refs.json"), **bucket.environment(server))
    assert refused.code == 3 and all("--allow-prefix" in error for error in errors.values())
    absent = zkit("digest", bucket.url("data/none.json"), **bucket.environment(server))
    assert absent.code == 3


def test_targets_on_a_web_server_are_read_by_range(zkit, packed, truth, tmp_path):
    folder = tmp_path / "web" / "my data"
    folder.mkdir(parents=True)
    (folder / "data.bin").write_bytes(packed[0])
    with web.served(tmp_path / "web") as (address, seen):
        refs = written(tmp_path, references(packed, f"{address}/my%20data/data.bin?key=s3cr3t"))
        refused, errors = error_of(zkit, refs, "--allow-prefix", f"{address}/my")
        assert refused.code == 3 and errors and not seen and "s3cr3t" not in str(errors)
        assert zkit.digests(refs, "--allow-prefix", f"{address}/my%20data") == truth
    remote = [key for key in packed[2] if not key.startswith("lat/")]
    assert len(seen) == len(remote)
    assert all(part and "key=s3cr3t" in path for path, part in seen)
