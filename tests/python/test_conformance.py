"""One suite over every place that zkit reads and writes: a folder, S3, Google's, Azure's, and a web server.

What is done to stores is the same everywhere; what it gives is judged by other readers, on objects that the cloud's own
client fetched.
"""

import functools
import http.server
import json
import os
import re
import shutil
import struct
import threading
import time
import urllib.parse

import numpy as np
import pytest
import xarray
import zarr

import copies
import layouts
import oracle
import servers
from bucket import NAME
from conftest import FIXTURES, MANIFEST, SOUND
from faultproxy import FaultProxy
from fields import assert_same, grid, opened, write

WRITABLE = [name for name in servers.NAMES if name != "HTTP"]
BUCKETS = [name for name in WRITABLE if name != "local"]
STORES = ("ostia_sst.zarr", "sharded_index_end.zarr", "cmems_ocean.zarr")
LISTED = "cmems_ocean.zarr"
# names that a URL, a signature or a listing may get wrong
AWKWARD = "in a folder/50% of é#1+2=3&more.zarr"
ROOTS = ("zarr.json", ".zgroup", ".zmetadata", ".zarray")
SMALL = ("--codec", "zstd:1", "--chunks", "time=8,lat=32,lon=32", "--jobs", "1")
LARGE = ("--codec", "none", "--chunks", "time=2", "--jobs", "1", "--verify", "none")


@pytest.fixture(params=servers.NAMES)
def place(request, places):
    return places(request.param)


@pytest.fixture(params=WRITABLE)
def writable(request, places):
    return places(request.param)


@pytest.fixture(params=BUCKETS)
def bucket(request, places):
    return places(request.param)


@pytest.fixture
def key(request):
    """A key below which nothing lies yet."""
    return "out/" + "".join(c if c.isalnum() else "-" for c in request.node.name) + "/copy.zarr"


@pytest.fixture(scope="module")
def stored(places):
    """The key of a fixture at a place; uploaded once."""
    done = set()

    def stored(place, name):
        if (place.name, name) not in done:
            place.upload(FIXTURES / name, f"a/{name}")
            done.add((place.name, name))
        return f"a/{name}"

    return stored


@pytest.fixture(scope="module")
def cube(tmp_path_factory):
    """A store of 1.5 MB, which makes some fifty objects with SMALL."""
    values = np.random.default_rng(1).integers(0, 400, (32, 128, 96)).astype("<f4")
    store = tmp_path_factory.mktemp("cube") / "cube.zarr"
    return copies.Source(layouts.cube_v2(store, values, (1, 128, 96), fill=None))


def ran(zkit, place, *arguments, port=None, **options):
    """A run that must succeed."""
    environment = place.environment(port) if port else place.environment()
    outcome = zkit(*arguments, **{**environment, **options})
    assert outcome.code == 0, f"{outcome.args}: exit {outcome.code}: {outcome.err}"
    return outcome


def beside(place, key):
    """What lies beside a destination."""
    return [found for found in place.keys(key) if not found.startswith(key + "/")]


def looks_complete(place, key):
    return bool({f"{key}/{name}" for name in ROOTS} & set(place.keys(key + "/")))


def fetched(place, key, tmp_path):
    return place.download(key, tmp_path / "fetched.zarr")


# ---- reading ----------------------------------------------------------------------------------------------------


def assert_must_be_listed(zkit, place, stored, command):
    outcome = zkit(command, place.url(stored(place, LISTED)), **place.environment())
    assert outcome.code == 3 and "consolidate it" in outcome.err, outcome.err


DEPTHS = ("metadata", "listing", "headers")


@pytest.mark.parametrize("name", STORES)
def test_inspect_says_the_same_as_from_disk(zkit, place, stored, name):
    if name == LISTED and not place.listable:
        return assert_must_be_listed(zkit, place, stored, "inspect")
    url = place.url(stored(place, name))
    for depth in DEPTHS:
        found = ran(zkit, place, "inspect", url, "--depth", depth, "--format", "json").json()
        expected = zkit.json("inspect", FIXTURES / name, "--depth", depth)
        assert found["arrays"] == expected["arrays"]
        assert found["groups"] == expected["groups"]


@pytest.mark.parametrize("name", STORES)
def test_digest_says_the_same_as_from_disk(zkit, place, stored, name):
    if name == LISTED and not place.listable:
        return assert_must_be_listed(zkit, place, stored, "digest")
    outcome = ran(zkit, place, "digest", place.url(stored(place, name)), "--format", "json")
    found = {array["path"]: array["sha256"] for array in outcome.json()["arrays"]}
    assert found == {path: array["sha256"] for path, array in MANIFEST[name]["arrays"].items()}


def test_audit_finds_the_same_as_on_disk(zkit, place, stored):
    def findings(outcome, url):
        document = json.loads(outcome.stdout.decode().replace(str(url), "STORE"))
        assert document["complete"], outcome.err
        return document["findings"]

    arguments = ("--depth", "full", "--fail-on", "never", "--format", "json")
    for name in ("ostia_sst.zarr", "cmems_ocean.zarr"):
        url = place.url(stored(place, name))
        expected = findings(zkit("audit", FIXTURES / name, *arguments), FIXTURES / name)
        outcome = zkit("audit", url, *arguments, **place.environment())
        if not place.listable and name == LISTED:
            assert outcome.code == 3 and "consolidate it" in outcome.err, outcome.err
            continue
        assert findings(outcome, url) == expected, outcome.err
        [said] = outcome.json()["stores"]
        assert any("has no listing" in what for what in said["not_seen"]) != place.listable


def test_names_that_need_escapes_are_those_that_were_meant(zkit, place, tmp_path):
    source = FIXTURES / "sharded_index_end.zarr"  # one array, which is found without a listing
    expected = oracle.digests(source)
    place.upload(source, AWKWARD)
    assert zkit.digests(place.url(AWKWARD), **place.environment()) == expected
    if place.writable:
        key = AWKWARD.replace("more", "its copy")
        ran(zkit, place, "recompress", source, place.url(key), "--codec", "zstd:1")
        assert oracle.digests(fetched(place, key, tmp_path)) == expected
        assert beside(place, key) == []


def test_a_slice_is_that_of_the_same_files(zkit, place, tmp_path):
    selection = ("--sel", "latitude=60,45", "--isel", "time=3..20", "--verify", "full")
    source = write(grid(), tmp_path / "field.zarr", zarr_format=2, chunks="some")
    place.upload(source, "sliced/field.zarr")
    for name, where in (("there", place.url("sliced/field.zarr")), ("here", source)):
        ran(zkit, place, "slice", where, *selection, "--to", tmp_path / f"{name}.zarr")
    there, here = opened(tmp_path / "there.zarr"), opened(tmp_path / "here.zarr")
    assert_same(there.drop_attrs(deep=False), here.drop_attrs(deep=False))
    picked = opened(source).sel(latitude=[60, 45]).isel(time=slice(3, 20))
    xarray.testing.assert_equal(here[list(picked.data_vars)], picked)


def test_what_is_not_there_is_said_not_to_be_there(zkit, place):
    outcome = zkit("inspect", place.url("nothing/here.zarr"), **place.environment())
    said = {"local": "No such file", "HTTP": "no listing"}.get(place.name, "no object is there")
    assert outcome.code == 3 and said in outcome.err, outcome.err


# ---- copies -----------------------------------------------------------------------------------------------------


def test_a_copy_from_there_is_faithful(zkit, place, stored, tmp_path):
    url, copy = place.url(stored(place, "ostia_sst.zarr")), tmp_path / "copy.zarr"
    codec = "blosc:zstd:3:bitshuffle"
    ran(zkit, place, "recompress", url, copy, "--zarr-format", "3", "--codec", codec, "--verify", "full")
    copies.assert_faithful(copies.Source(FIXTURES / "ostia_sst.zarr"), copy, zarr_format="3", codec=codec)


@pytest.mark.parametrize("command", ["slice", "recompress"])
@pytest.mark.parametrize("destination", WRITABLE)
def test_what_a_web_server_has_is_copied_to_everywhere(zkit, places, stored, key, tmp_path, destination, command):
    web, destination = places("HTTP"), places(destination)
    to = ["--to", destination.url(key)] if command == "slice" else [destination.url(key)]
    ran(zkit, destination, command, web.url(stored(web, "ostia_sst.zarr")), *to)
    assert oracle.digests(fetched(destination, key, tmp_path)) == copies.Source(FIXTURES / "ostia_sst.zarr").digests


# ---- a web server, which can only be asked ----------------------------------------------------------------------


@pytest.fixture
def sparse(places, request):
    """A consolidated store behind nginx of which every other chunk is absent: its values, its key, its folder."""
    web, key = places("HTTP"), f"sparse/{request.node.name}.zarr"
    folder = web.root / key
    values = np.arange(12 * 6 * 4, dtype="<f4").reshape(12, 6, 4)
    values[::2] = -1
    group = zarr.create_group(folder, zarr_format=3)
    array = group.create_array(
        "a", shape=values.shape, chunks=(1, 3, 4), dtype="<f4", fill_value=-1, dimension_names=["t", "y", "x"]
    )
    array[...] = values
    group.create_array("empty", shape=(5,), chunks=(1,), dtype="<i4", fill_value=7, dimension_names=["n"])
    zarr.consolidate_metadata(folder)
    assert len(list(folder.rglob("c/*/*/*"))) == 12, "absent chunks are not written"
    return web, key, values


@pytest.mark.parametrize("chunks", [(), ("--chunks", "t=6,y=6,x=2")], ids=["recode", "rechunk"])
def test_absent_chunks_of_a_web_server_are_found_by_asking_and_stay_absent(zkit, sparse, tmp_path, chunks):
    web, key, values = sparse
    copy = tmp_path / "copy.zarr"
    ran(zkit, web, "recompress", web.url(key), copy, "--codec", "zstd:1", "--verify", "full", *chunks)
    np.testing.assert_array_equal(zarr.open_group(copy, mode="r")["a"][...], values)
    np.testing.assert_array_equal(zarr.open_group(copy, mode="r")["empty"][...], np.full(5, 7))
    assert not list((copy / "empty").rglob("c/*"))
    if not chunks:
        stored = sorted(p.relative_to(copy) for p in copy.rglob("c/*/*/*"))
        assert stored == sorted(p.relative_to(web.root / key) for p in (web.root / key).rglob("c/*/*/*"))


def test_what_a_web_server_refuses_is_never_absent(zkit, sparse, tmp_path):
    web, key, _ = sparse
    # what is kept for later runs is asked for first
    kept = ("--chunk-cache", tmp_path / "cache")
    with FaultProxy(web.port) as proxy:
        for rule, options in (
            ({"status": 403}, ()),
            ({"status": 403}, kept),
            ({"method": "HEAD", "status": 405}, kept),
        ):
            proxy.reset({"path": "a/c/3/0/0", **rule})
            url = web.url(key).replace(f":{web.port}", f":{proxy.port}")
            outcome = zkit("recompress", url, tmp_path / "copy.zarr", *options, **web.environment())
            assert outcome.code == 3 and "a/c/3/0/0" in outcome.err and "hint:" in outcome.err, outcome.err
            assert not (tmp_path / "copy.zarr").exists()


def test_a_copy_from_a_web_server_is_gone_on_with_unless_the_source_changed(zkit, sparse, tmp_path):
    web, key, values = sparse
    copy, job = tmp_path / "copy.zarr", ("--codec", "zstd:1", "--chunks", "t=1,y=6,x=4", "--jobs", "1")
    job = (*job, "--source-check", "objects")
    with FaultProxy(web.port) as proxy:
        url = web.url(key).replace(f":{web.port}", f":{proxy.port}")
        # what is read last is waited for
        proxy.reset({"method": "GET", "path": "a/c/11/1/0", "delay": 30})
        first = begun(zkit, web, proxy, "recompress", url, copy, *job)
        proxy.wait_for("a/c/11/1/0", seconds=30, method="GET")
        # what is done is recorded after a moment; of a run that did nothing nothing is gone on with
        deadline = time.monotonic() + 20
        while not list(tmp_path.rglob("copy.zarr.partial/a/c/1/*/*")) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(2)
        first.kill()
        first.communicate()
        proxy.reset()
        changed = web.root / key / "a/c/1/0/0"
        before, stat = changed.read_bytes(), changed.stat()
        changed.write_bytes(before + b"x")
        refused = zkit("recompress", url, copy, *job, "--resume", **web.environment())
        assert refused.code == 3 and "the objects of `/a` changed" in refused.err, refused.err
        changed.write_bytes(before)
        os.utime(changed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        ran(zkit, web, "recompress", url, copy, *job, "--resume")
    np.testing.assert_array_equal(zarr.open_group(copy, mode="r")["a"][...], values)


def test_an_array_of_more_chunks_than_can_be_asked_for_is_refused_at_once(zkit, sparse, tmp_path):
    web, key, _ = sparse
    document = json.loads((web.root / key / "zarr.json").read_text())
    document["consolidated_metadata"]["metadata"]["a"]["shape"] = [1 << 40, 6, 4]
    (web.root / key / "zarr.json").write_text(json.dumps(document))
    for command in (["recompress", web.url(key), tmp_path / "copy.zarr"], ["audit", web.url(key)]):
        outcome = zkit(*command, **web.environment(), timeout=20)
        assert outcome.code == 3 and "would have to be asked for" in outcome.err, outcome.err


def test_a_slice_of_a_web_server_is_cached_until_a_chunk_changes(zkit, sparse, tmp_path):
    web, key, _ = sparse
    job = ("slice", web.url(key), "--isel", "t=1..3", "--include", "a", "--cache", tmp_path / "cache")
    first, again = ran(zkit, web, *job, "--format", "json").json(), ran(zkit, web, *job, "--format", "json").json()
    assert (first["cache"], again["cache"]) == ("built", "hit")


@pytest.fixture
def plain_server(sparse):
    """Python's own server of the same files, which ignores ranges: what it sent is counted in bytes."""
    web, _, _ = sparse
    handler = functools.partial(QuietHandler, directory=str(web.root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


def test_a_server_that_ignores_ranges_is_read_as_well_and_that_is_said(zkit, plain_server, places, tmp_path):
    web = places("HTTP")
    for name in ("ostia_sst.zarr", "sharded_index_end.zarr"):
        web.upload(FIXTURES / name, f"plain/{name}")
        url, expected = f"{plain_server}/plain/{name}", oracle.digests(FIXTURES / name)
        assert zkit.digests(url) == expected
        ran(zkit, web, "recompress", url, tmp_path / name, "--codec", "zstd:1", "--verify", "full")
        assert oracle.digests(tmp_path / name) == expected
        found = ran(zkit, web, "inspect", url, "--depth", "headers", "--format", "json").json()
        assert found["arrays"] == zkit.json("inspect", FIXTURES / name, "--depth", "headers")["arrays"]
    shutil.make_archive(web.root / "plain/store", "zip", FIXTURES / "ostia_sst.zarr")
    outcome = ran(zkit, web, "digest", f"{plain_server}/plain/store.zip", "--format", "json")
    assert {array["path"]: array["sha256"] for array in outcome.json()["arrays"]} == oracle.digests(
        FIXTURES / "ostia_sst.zarr"
    )
    assert outcome.json()["ranges_ignored"] > 0
    assert "the server ignores ranges" in ran(zkit, web, "digest", f"{plain_server}/plain/store.zip").stdout.decode()


def test_the_end_of_a_huge_object_is_not_fetched_from_a_server_that_ignores_ranges(zkit, plain_server, places):
    web = places("HTTP")
    (web.root / "plain").mkdir(exist_ok=True)
    with open(web.root / "plain/huge.zip", "wb") as file:
        file.truncate(1 << 30)
    outcome = zkit("inspect", f"{plain_server}/plain/huge.zip")
    assert outcome.code == 3 and "ignores ranges" in outcome.err and "copy the store" in outcome.err, outcome.err
    assert outcome.seconds < 5


@pytest.mark.parametrize("name", ["ostia_sst.zarr", "sharded_index_end.zarr"])
def test_a_copy_to_there_is_faithful_and_leaves_nothing_beside_it(zkit, writable, key, tmp_path, name):
    options = ("--codec", "zstd:3", "--verify", "full")
    ran(zkit, writable, "recompress", FIXTURES / name, writable.url(key), *options)
    copy = fetched(writable, key, tmp_path)
    copies.assert_faithful(copies.Source(FIXTURES / name), copy, zarr_format="keep", codec="zstd:3")
    assert beside(writable, key) == [] and writable.uploads(key) == []
    again = ran(zkit, writable, "recompress", FIXTURES / name, writable.url(key), *options, "--resume")
    assert "already done" in again.stdout.decode()


PAIRS = [("S3", "GCS"), ("GCS", "Azure"), ("Azure", "S3"), ("Azure", "Azure")]


@pytest.mark.parametrize(("source", "destination"), PAIRS)
def test_a_copy_from_one_cloud_to_another_is_faithful(zkit, places, stored, key, tmp_path, source, destination):
    source, destination = places(source), places(destination)
    url = source.url(stored(source, "ostia_sst.zarr"))
    variables = {**source.environment(), **destination.environment()}
    ran(zkit, destination, "recompress", url, destination.url(key), "--zarr-format", "3", **variables)
    copied = oracle.digests(fetched(destination, key, tmp_path))
    assert copied == copies.Source(FIXTURES / "ostia_sst.zarr").digests
    assert beside(destination, key) == []


def test_a_web_server_takes_no_store(zkit, places, cube):
    web = places("HTTP")
    outcome = zkit("recompress", cube.path, web.url("out/copy.zarr"), **web.environment())
    assert outcome.code == 3 and "web servers" in outcome.err, outcome.err
    assert web.keys("out/") == []


def test_a_store_is_replaced_where_that_is_asked_for(zkit, writable, key, cube, tmp_path):
    writable.upload(FIXTURES / "mixed_types.zarr", key)
    job = ("recompress", cube.path, writable.url(key), *SMALL)
    refused = zkit(*job, **writable.environment())
    assert refused.code == 3 and "--overwrite" in refused.err, refused.err
    replace = ("--overwrite", "--yes") if writable.name == "local" else ("--overwrite", "--unpublish-first", "--yes")
    ran(zkit, writable, *job, *replace)
    assert oracle.digests(fetched(writable, key, tmp_path)) == cube.digests
    assert beside(writable, key) == []


# ---- several runs, and runs that die ----------------------------------------------------------------------------


@pytest.fixture
def proxied(bucket):
    """A bucket, and a proxy before it."""
    with FaultProxy(bucket.port) as proxy:
        yield bucket, proxy


def begun(zkit, bucket, proxy, *arguments):
    return zkit.start(*arguments, env=zkit.environment(**bucket.environment(proxy.port)))


# of S3 test_buckets.py asks the same
@pytest.mark.parametrize("bucket", ["GCS", "Azure"], indirect=True)
def test_a_second_run_to_the_same_place_is_refused(zkit, proxied, key, cube, tmp_path):
    bucket, proxy = proxied
    # longer than the lock is watched before its owner is known to live
    proxy.reset({"method": "PUT", "path": "t2m/3.0.0", "delay": 10})
    job = ("recompress", cube.path, bucket.url(key), *SMALL)
    first = begun(zkit, bucket, proxy, *job)
    proxy.wait_for("t2m/3.0.0", seconds=30)
    second = zkit(*job, **bucket.environment(proxy.port))
    assert second.code == 3 and "another run is writing here" in second.err, second.err
    assert first.wait(timeout=60) == 0, first.communicate()
    assert oracle.digests(fetched(bucket, key, tmp_path)) == cube.digests
    assert beside(bucket, key) == []


def test_of_runs_that_begin_at_once_one_goes_on(zkit, proxied, key, cube, tmp_path):
    bucket, proxy = proxied
    proxy.reset({"method": "PUT", "path": "journal/lock", "delay": 0.3, "times": 3}, {"path": "t2m/1", "delay": 3})
    job = ("recompress", cube.path, bucket.url(key), *SMALL)
    runs = [begun(zkit, bucket, proxy, *job) for _ in range(3)]
    answers = [run.communicate(timeout=60) for run in runs]
    codes = sorted(run.returncode for run in runs)
    assert codes == [0, 3, 3], answers
    assert oracle.digests(fetched(bucket, key, tmp_path)) == cube.digests
    assert beside(bucket, key) == []


@pytest.mark.parametrize("moment", ["t2m/1", "t2m/3.3", r"t2m/\.zarray", r"copy\.zarr/\.zgroup"])
def test_a_killed_copy_is_absent_until_another_run_finishes_it(zkit, proxied, key, cube, tmp_path, moment):
    bucket, proxy = proxied
    proxy.reset({"method": "PUT", "path": moment, "drop": True, "delay": 0.5})
    job = ("recompress", cube.path, bucket.url(key), *SMALL)
    first = begun(zkit, bucket, proxy, *job)
    proxy.wait_for(moment, seconds=30, method="PUT")
    first.kill()
    first.communicate()
    proxy.wait_until_idle(10)
    proxy.reset()
    assert bucket.keys(key) and not looks_complete(bucket, key)
    ran(zkit, bucket, *job, "--resume")
    assert oracle.digests(fetched(bucket, key, tmp_path)) == cube.digests
    assert beside(bucket, key) == []


def test_one_listing_tells_which_objects_of_a_killed_copy_are_not_those_that_it_wrote(
    zkit, proxied, key, cube, tmp_path
):
    bucket, proxy = proxied
    proxy.reset({"method": "PUT", "path": "copy.zarr/t2m", "delay": 1})
    job = ("recompress", cube.path, bucket.url(key), *SMALL, "--verify", "none")
    first = begun(zkit, bucket, proxy, *job)
    proxy.wait_for("journal/records", seconds=30, method="PUT", answered=True)
    first.kill()
    first.communicate()
    proxy.wait_until_idle(10)
    arrived = [chunk_of(path) for method, path, _ in proxy.requests if method == "PUT" and chunk_of(path)]
    replaced, longer, removed, left = (f"{key}/t2m/{chunk}" for chunk in arrived[:4])
    bucket.write(replaced, bytes(len(bucket.read(replaced))))
    bucket.write(longer, bucket.read(longer) + b"x")
    bucket.remove(removed)
    named = named_in_journal(bucket, key)
    assert set(arrived[:4]) <= named
    proxy.reset()
    ran(zkit, bucket, *job, "--resume", port=proxy.port)
    asked = [(method, urllib.parse.unquote(path)) for method, path, _ in proxy.requests]
    assert [path for method, path in asked if method == "GET" and chunk_of(path)] == []
    assert not named & {chunk_of(path) for method, path in asked if method == "HEAD"}
    assert len([path for _, path in asked if re.search(r"prefix=[^&]*copy\.zarr/(&|$)", path)]) == 1, asked
    written = {f"{key}/t2m/{chunk_of(path)}" for method, path in asked if method == "PUT" and chunk_of(path)}
    assert {replaced, longer, removed} <= written and left not in written
    assert oracle.digests(fetched(bucket, key, tmp_path)) == cube.digests


def killed_before_its_journal(zkit, bucket, proxy, job, key, arrived):
    """Kills a copy once `arrived` more chunks have arrived and no segment of its journal; returns the keys of all chunks there."""
    before = len(bucket.keys(f"{key}/t2m"))
    proxy.reset(
        {"method": "PUT", "path": "journal/records", "status": 503}, {"method": "PUT", "path": "/t2m/", "delay": 0.2}
    )
    run = begun(zkit, bucket, proxy, *job)
    proxy.wait_for(r"/t2m/\d", seconds=30, method="PUT", answered=True, times=arrived)
    run.kill()
    run.communicate()
    proxy.wait_until_idle(20)
    assert not any("records" in name for name in beside(bucket, key))
    there = set(bucket.keys(f"{key}/t2m"))
    assert len(there) >= before + arrived
    return there


def named_in_journal(bucket, key):
    """The chunks of the copy whose arrival segments of the journal tell, as keys relative to the array."""
    entries = []
    for name in bucket.keys(f"{key}.partial.journal/records/"):
        segment = bucket.read(name)
        entries += [struct.unpack_from("<IIQ", segment, at) for at in range(0, len(segment), 48)]
    positions = [chunk for kind, _, chunk in entries if kind == 4]
    return {".".join(map(str, np.unravel_index(position, (4, 4, 3)))) for position in positions}


def test_what_had_arrived_before_a_kill_is_not_sent_again(zkit, proxied, key, cube, tmp_path):
    bucket, proxy = proxied
    job = ("recompress", cube.path, bucket.url(key), *SMALL, "--verify", "none")
    there = killed_before_its_journal(zkit, bucket, proxy, job, key, arrived=3)
    there = killed_before_its_journal(zkit, bucket, proxy, (*job, "--resume"), key, arrived=3)
    chunks = {f"{key}/t2m/{t}.{y}.{x}" for t in range(4) for y in range(4) for x in range(3)}
    # what somebody else put there carries no record, or that of another chunk
    foreign, moved = sorted(chunks - there)[:2]
    bucket.write(foreign, bucket.read(min(there)))
    if bucket.name == "S3":
        bucket.bucket.client.copy_object(Bucket=NAME, CopySource={"Bucket": NAME, "Key": min(there)}, Key=moved)
    proxy.reset()
    document = ran(zkit, bucket, *job, "--resume", "--format", "json", port=proxy.port).json()
    asked = {verb: [] for verb in ("PUT", "HEAD", "GET")}
    for method, path, _ in proxy.requests:
        if chunk_of(path):
            asked[method].append(f"{key}/t2m/{chunk_of(path)}")
    assert sorted(asked["PUT"]) == sorted(chunks - there), "what had arrived is not sent again, and all else is"
    assert document["resumed_objects"] >= len(there)
    assert set(asked["HEAD"]) <= there | {foreign, moved} and asked["GET"] == []
    assert oracle.digests(fetched(bucket, key, tmp_path)) == cube.digests
    assert beside(bucket, key) == []


def test_what_stands_for_a_skipped_chunk_is_no_finished_chunk_of_a_killed_copy(zkit, proxied, key, cube, tmp_path):
    bucket, proxy = proxied
    damaged = tmp_path / "damaged.zarr"
    shutil.copytree(cube.path, damaged)
    (damaged / "t2m" / "0.0.0").write_bytes(b"broken")
    job = ("recompress", damaged, bucket.url(key), *SMALL, "--verify", "none", "--on-corrupt", "skip")
    # a box of maps becomes twelve chunks, the damaged one among the first
    there = killed_before_its_journal(zkit, bucket, proxy, job, key, arrived=24)
    assert {f"{key}/t2m/0.{y}.{x}" for y in range(4) for x in range(3)} <= there
    proxy.reset()
    outcome = zkit(*job, "--resume", "--format", "json", **bucket.environment(proxy.port))
    assert outcome.code == 1, outcome.err
    assert [chunk["chunk"] for chunk in outcome.json()["corrupt_chunks"]] == [[0, 0, 0]]
    assert outcome.json()["resumed_objects"] > 0


def chunk_of(path):
    """The key of the chunk that a request is about, relative to its array."""
    found = re.search(r"/t2m/(\d[\d.]*)(\?|$)", urllib.parse.unquote(path))
    return found[1] if found else None


def test_the_store_is_not_seen_before_it_is_complete(zkit, proxied, key, cube):
    bucket, proxy = proxied
    proxy.reset({"method": "PUT", "path": "t2m", "delay": 0.05})
    process = begun(zkit, bucket, proxy, "recompress", cube.path, bucket.url(key), *SMALL, "--consolidate", "always")
    seen = set()
    while process.poll() is None:
        found = set(bucket.keys(key + "/"))
        if found & {f"{key}/{name}" for name in (".zgroup", ".zarray", "zarr.json")}:
            break
        seen |= found
        time.sleep(0.02)
    process.communicate(timeout=60)
    assert process.returncode == 0
    complete = set(bucket.keys(key + "/"))
    assert complete - seen <= {f"{key}/.zgroup", f"{key}/.zmetadata", f"{key}/.zattrs"} or found == complete
    assert len(seen) > 10, "it was looked at too seldom"


# ---- objects in parts -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """69 MB that make one object with LARGE."""
    values = np.random.default_rng(2).integers(0, 1 << 30, (2, 1200, 7200)).astype("<i4")
    store = tmp_path_factory.mktemp("large") / "large.zarr"
    return copies.Source(layouts.cube_v2(store, values, (1, 1200, 7200), fill=None))


def test_large_objects_are_sent_in_parts_and_given_up_by_the_next_run(zkit, proxied, key, large, tmp_path):
    bucket, proxy = proxied
    part = "(partNumber=4|comp=block&)"
    proxy.reset({"method": "PUT", "path": part, "delay": 1})
    job = ("recompress", large.path, bucket.url(key), *LARGE)
    first = begun(zkit, bucket, proxy, *job)
    proxy.wait_for(part, seconds=60, method="PUT")
    # the first part that Azure gets is its first sign of an object to come
    while not bucket.uploads(key) and first.poll() is None:
        time.sleep(0.05)
    first.kill()
    first.communicate()
    proxy.wait_until_idle(20)
    proxy.reset()
    assert bucket.uploads(key) and not looks_complete(bucket, key)
    ran(zkit, bucket, *job, "--restart")
    assert oracle.digests(fetched(bucket, key, tmp_path)) == large.digests
    assert bucket.uploads(key) == [] and beside(bucket, key) == []


def test_a_large_object_that_had_arrived_before_a_kill_is_not_sent_again(zkit, proxied, key, large, tmp_path):
    bucket, proxy = proxied
    last = ("PUT", "comp=blocklist") if bucket.name == "Azure" else ("POST", r"uploadId=[^&]*$")
    proxy.reset({"method": "PUT", "path": "journal/records", "status": 503})
    job = ("recompress", large.path, bucket.url(key), *LARGE)
    first = begun(zkit, bucket, proxy, *job)
    proxy.wait_for(last[1], seconds=60, method=last[0], answered=True)
    first.kill()
    first.communicate()
    assert bucket.uploads(key) == [] and not looks_complete(bucket, key)
    proxy.reset()
    document = ran(zkit, bucket, *job, "--resume", "--format", "json", port=proxy.port).json()
    assert document["resumed_objects"] >= 1
    assert [path for method, path, _ in proxy.requests if method == "PUT" and chunk_of(path)] == []
    assert oracle.digests(fetched(bucket, key, tmp_path)) == large.digests
    assert bucket.uploads(key) == [] and beside(bucket, key) == []


def test_every_fixture_that_is_sound_is_digested_over_azure(zkit, places, stored):
    azure = places("Azure")
    for name in (name for name in SOUND if (FIXTURES / name).is_dir()):
        stored(azure, name)
    for name in (name for name in SOUND if (FIXTURES / name).is_dir() and MANIFEST[name]["kind"] == "zarr"):
        found = zkit.digests(azure.url(f"a/{name}"), **azure.environment())
        assert found == {path: array["sha256"] for path, array in MANIFEST[name]["arrays"].items()}, name


# ---- what runs that died have left ------------------------------------------------------------------------------


def partials(zkit, place, action, *arguments):
    return ran(zkit, place, "partials", action, *arguments, "--format", "json").json()


def test_what_a_killed_copy_left_is_listed_and_cleared_and_nothing_else(zkit, proxied, key, large):
    bucket, proxy = proxied
    folder = key.rsplit("/", 1)[0]
    bucket.upload(FIXTURES / "mixed_types.zarr", f"{folder}/published.zarr")
    bucket.write(f"{folder}/thesis.partial.journal/thesis.pdf", b"x")
    others = set(bucket.keys(folder))
    part = "(partNumber=4|comp=block&)"
    proxy.reset({"method": "PUT", "path": part, "delay": 1})
    running = begun(zkit, bucket, proxy, "recompress", large.path, bucket.url(key), *LARGE)
    proxy.wait_for(part, seconds=60, method="PUT")
    where = bucket.url(folder)
    [found] = partials(zkit, bucket, "clean", where, "--yes")["partials"]
    assert found["holder"] == "running" and found["outcome"] == "in-use"
    running.kill()
    running.communicate()
    proxy.wait_until_idle(20)
    [found] = partials(zkit, bucket, "list", where)["partials"]
    assert found["store"] == bucket.url(key) and found["holder"] == "nobody" and not found["published"]
    assert found["uploads"] == 1 and found["bytes"] > 0 and abs(found["changed"] - time.time()) < 300
    assert partials(zkit, bucket, "list", bucket.url(key))["partials"] == [found], "it is found by its own name"
    before = bucket.keys(folder)
    assert partials(zkit, bucket, "clean", where)["partials"][0]["outcome"] == "would-be-removed"
    [young] = partials(zkit, bucket, "clean", where, "--yes", "--older-than", "1d")["partials"]
    assert young["outcome"] == "too-young"
    assert bucket.keys(folder) == before and bucket.uploads(key)
    document = partials(zkit, bucket, "clean", where, "--yes")
    assert document["partials"][0]["outcome"] == "removed" and document["bytes"] == found["bytes"]
    assert set(bucket.keys(folder)) == others
    assert bucket.uploads(key) == []
    assert partials(zkit, bucket, "list", where)["partials"] == []


def test_what_a_killed_copy_left_on_disk_is_cleared_too(zkit, places, proxied, key, stored, tmp_path):
    bucket, proxy = proxied
    destination = tmp_path / "out" / "copy.zarr"
    url = bucket.url(stored(bucket, "ostia_sst.zarr"))
    proxy.reset({"path": r"analysed_sst/0\.1\.1", "delay": 30})
    running = begun(zkit, bucket, proxy, "recompress", url, destination, "--codec", "zstd:1")
    proxy.wait_for(r"analysed_sst/0\.1\.1", seconds=30)
    local = places("local")
    assert partials(zkit, local, "clean", tmp_path, "--yes")["partials"][0]["outcome"] == "in-use"
    running.kill()
    running.communicate()
    (tmp_path / "out" / "notes.partial.journal").write_text("not a journal of zkit")
    [found] = partials(zkit, local, "list", tmp_path)["partials"]
    assert found["store"] == str(destination) and found["holder"] == "nobody" and found["objects"] >= 1
    assert partials(zkit, local, "clean", tmp_path)["partials"][0]["outcome"] == "would-be-removed"
    assert partials(zkit, local, "clean", tmp_path, "--yes")["partials"][0]["outcome"] == "removed"
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["notes.partial.journal"]
    mistyped = zkit("partials", "list", tmp_path / "uot")
    assert mistyped.code == 3 and "there is nothing at" in mistyped.err


def test_a_store_that_was_to_be_replaced_and_still_stands_is_no_leftover(zkit, proxied, key, cube):
    bucket, proxy = proxied
    bucket.upload(FIXTURES / "ostia_sst.zarr", key)
    before = set(bucket.keys(key))
    proxy.reset({"method": "PUT", "path": "journal/header", "delay": 0.5})
    replace = ("--overwrite", "--unpublish-first", "--yes")
    running = begun(zkit, bucket, proxy, "recompress", cube.path, bucket.url(key), *SMALL, *replace)
    proxy.wait_for("journal/header", seconds=30, method="PUT")
    running.kill()
    running.communicate()
    proxy.wait_until_idle(10)
    assert any("clearing" in found for found in beside(bucket, key))
    [found] = partials(zkit, bucket, "clean", bucket.url(key), "--yes")["partials"]
    assert found["published"] and found["outcome"] == "removed"
    assert set(bucket.keys(key)) == before
