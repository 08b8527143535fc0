"""Audits of what references lead to: read where they may be followed, and said to be unseen where not."""

import json
import os

import numpy as np
import pytest
import zarr

import bucket
import web

ROWS, WIDTH, CHUNK = 24, 16, 4


@pytest.fixture
def store(tmp_path):
    """A store of two arrays along time; at two steps one of them is NaN."""
    path = tmp_path / "truth.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    wave = np.sin(np.arange(ROWS * WIDTH)).reshape(ROWS, WIDTH).astype("f4")
    wave[9:11] = np.nan
    for name, values in (("t2m", wave), ("u10", np.cos(wave) * 0 + 3 + np.arange(ROWS * WIDTH).reshape(ROWS, WIDTH))):
        array = group.create_array(name, shape=(ROWS, WIDTH), chunks=(CHUNK, WIDTH), dtype="f4", fill_value=0.0)
        array.attrs["_ARRAY_DIMENSIONS"] = ["time", "place"]
        array[:] = values
    time = group.create_array("time", shape=(ROWS,), chunks=(ROWS,), dtype="i8")
    time.attrs.update({"_ARRAY_DIMENSIONS": ["time"], "units": "days since 2021-03-20"})
    time[:] = np.arange(ROWS)
    return path


def packed(store, url_of):
    """References to one file for each array, and those files by name."""
    refs, files = {}, {}
    for file in sorted(p for p in store.rglob("*") if p.is_file()):
        key = file.relative_to(store).as_posix()
        if file.name in (".zgroup", ".zattrs", ".zarray"):
            refs[key] = file.read_text()
            continue
        name = f"{key.split('/')[0]}.bin"
        data = files.setdefault(name, bytearray())
        refs[key] = [url_of(name), len(data), file.stat().st_size]
        data += file.read_bytes()
    return json.dumps({"version": 1, "refs": refs}).encode(), files


def written(store, folder, url_of=lambda name: name, data=None):
    document, files = packed(store, url_of)
    (data or folder).mkdir(exist_ok=True, parents=True)
    for name, content in files.items():
        ((data or folder) / name).write_bytes(content)
    folder.mkdir(exist_ok=True)
    (folder / "refs.json").write_bytes(document)
    return folder / "refs.json"


def audit(zkit, *args, **environment):
    outcome = zkit("audit", *args, "--depth", "full", "--format", "json", "--fail-on", "never", **environment)
    return outcome, outcome.json()


def variables(document):
    return [{**variable, "store": None} for variable in document["variables"]]


def found(document, rule):
    return [finding for finding in document["findings"] if finding["rule"] == rule]


def test_values_behind_references_are_those_of_the_store(zkit, store, tmp_path):
    truth = audit(zkit, store)[1]
    outcome, behind = audit(zkit, written(store, tmp_path / "refs"))
    assert outcome.code == 0 and behind["complete"], outcome.err
    assert variables(behind) == variables(truth) and len(variables(truth)) == 3
    assert behind["stores"][0]["depth"] == "full" and not behind["stores"][0]["not_seen"]
    slabs = [found(document, "nan-slab") for document in (behind, truth)]
    assert [one["message"] for one in slabs[0]] == [one["message"] for one in slabs[1]]
    assert "time 2021-03-29..30 is NaN" in slabs[0][0]["message"]


def test_a_chunk_behind_a_reference_that_does_not_decode_is_named(zkit, store, tmp_path):
    refs = written(store, tmp_path / "refs")
    data = bytearray((tmp_path / "refs" / "u10.bin").read_bytes())
    offset, length = json.loads(refs.read_text())["refs"]["u10/2.0"][1:]
    data[offset : offset + length] = bytes(length)
    (tmp_path / "refs" / "u10.bin").write_bytes(data)
    report = audit(zkit, refs)[1]
    damaged = found(report, "corrupt-chunk") + found(report, "truncated-chunk")
    # its first bytes are no frame: it need not be decoded to be known
    assert [(one["rule"], one["chunks"]) for one in damaged] == [("truncated-chunk", [[[2, 0], [2, 0]]])]
    assert damaged[0]["array"] == "/u10"


def test_headers_of_chunks_behind_references_are_looked_at(zkit, store, tmp_path):
    refs = written(store, tmp_path / "refs")
    document = json.loads(refs.read_text())
    document["refs"]["u10/2.0"][2] -= 7
    document["refs"]["t2m/1.0"][1] += 3
    refs.write_text(json.dumps(document))
    for depth, told in (("listing", set()), ("headers", {("/u10", 2), ("/t2m", 1)})):
        report = zkit("audit", refs, "--depth", depth, "--format", "json", "--fail-on", "never").json()
        assert report["stores"][0]["depth"] == depth and "values" in report["stores"][0]["not_seen"]
        faulty = found(report, "truncated-chunk") + found(report, "corrupt-chunk")
        assert {(one["array"], one["chunks"][0][0][0]) for one in faulty} == told, faulty
        assert all(one["severity"] == "error" for one in faulty)


def test_what_nobody_allowed_is_not_read_and_said_so(zkit, store, tmp_path):
    data = tmp_path / "elsewhere"
    refs = written(store, tmp_path / "refs", lambda name: str(data / name), data)
    outcome, refused = audit(zkit, refs)
    assert outcome.code == 0 and refused["complete"] and not refused["variables"]
    assert any("references point to" in what for what in refused["stores"][0]["not_seen"])
    outcome, allowed = audit(zkit, refs, "--allow-prefix", data)
    assert outcome.code == 0, outcome.err
    assert variables(allowed) == variables(audit(zkit, store)[1])
    # one file alone
    outcome, part = audit(zkit, refs, "--allow-prefix", data / "t2m.bin")
    assert [variable["array"] for variable in part["variables"]] == ["/t2m"]
    assert any("chunks of 2 of 3 arrays" in what for what in part["stores"][0]["not_seen"])


def test_arrays_whose_file_is_gone_are_left_to_those_who_follow_and_a_short_one_is_an_error(zkit, store, tmp_path):
    refs = written(store, tmp_path / "refs")
    (tmp_path / "refs" / "t2m.bin").unlink()
    size = (tmp_path / "refs" / "u10.bin").stat().st_size
    os.truncate(tmp_path / "refs" / "u10.bin", size - 1)
    seen = audit(zkit, refs)[1]
    assert [variable["array"] for variable in seen["variables"]] == ["/time", "/u10"]
    assert {one["array"] for one in seen["findings"] if one["severity"] == "error"} == {"/u10"}, seen["findings"]
    assert any("chunks of 1 of 3 arrays" in what for what in seen["stores"][0]["not_seen"])
    followed = audit(zkit, refs, "--follow-references")[1]
    assert {finding["array"] for finding in found(followed, "dead-reference")} == {"/t2m", "/u10"}
    # a bare name, as one types it
    bare = zkit("audit", refs.name, "--follow-references", "--format", "json", cwd=refs.parent).json()
    assert {finding["array"] for finding in found(bare, "dead-reference")} == {"/t2m", "/u10"}


def test_references_in_a_bucket_are_audited_with_what_lies_beside_them(zkit, store):
    truth = audit(zkit, store)[1]
    document, files = packed(store, lambda name: name)
    with bucket.served() as port:
        for name, content in {**files, "refs.json": document}.items():
            bucket.Bucket(port).write(f"refs/{name}", bytes(content))
        outcome, behind = audit(zkit, bucket.url("refs/refs.json"), **bucket.environment(port))
    assert outcome.code == 0 and behind["complete"], outcome.err
    assert variables(behind) == variables(truth)
    assert found(behind, "reference-store") and found(behind, "nan-slab")


def test_targets_on_a_web_server_are_audited_by_range_where_they_are_allowed(zkit, store, tmp_path):
    data = tmp_path / "web"
    with web.served(data) as (address, seen):
        refs = written(store, tmp_path / "refs", lambda name: f"{address}/{name}", data)
        refused = audit(zkit, refs)[1]
        assert refused["complete"] and not refused["variables"] and not seen
        outcome, behind = audit(zkit, refs, "--allow-prefix", address)
    assert outcome.code == 0, outcome.err
    assert variables(behind) == variables(audit(zkit, store)[1])
    assert seen and all(part for _, part in seen)
