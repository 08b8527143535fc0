"""Copies into buckets: judged by other readers, killed at every step, refused to a second writer, never half there."""

import json
import random
import signal
import subprocess
import time

import numpy as np
import pytest

import bucket
import copies
import layouts
import oracle
from conftest import FIXTURES

SLOW = ("--codec", "zstd:1", "--chunks", "time=2,lat=32,lon=32", "--jobs", "1")
FEW = ("--codec", "zstd:1", "--chunks", "time=8,lat=32,lon=96", "--jobs", "1")
SOME = ("--codec", "zstd:1", "--chunks", "time=8,lat=32,lon=32", "--jobs", "1")
LARGE = ("--codec", "none", "--chunks", "time=2", "--jobs", "1", "--verify", "none")
ROOTS = ("zarr.json", ".zgroup", ".zmetadata", ".zarray")


@pytest.fixture
def place(request, objects):
    """A key below which nothing lies yet."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    assert not objects.keys(f"out/{name}")
    return f"out/{name}/copy.zarr"


@pytest.fixture(scope="module")
def cube(tmp_path_factory):
    """1.5 MB that make 192 objects with SLOW; read once."""
    store = tmp_path_factory.mktemp("cube") / "cube.zarr"
    values = np.random.default_rng(1).integers(0, 400, (32, 128, 96)).astype("<f4")
    return copies.Source(layouts.cube_v2(store, values, (1, 128, 96), fill=None))


def objects_of_a_local_copy(zkit, cube, copy, options):
    assert zkit("recompress", cube.path, copy, *options).code == 0
    assert oracle.digests(copy) == cube.digests
    return {p.relative_to(copy).as_posix(): p.read_bytes() for p in copy.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def undisturbed(zkit, cube, tmp_path_factory):
    """The objects of a copy with SLOW that nothing disturbed."""
    return objects_of_a_local_copy(zkit, cube, tmp_path_factory.mktemp("undisturbed") / "copy.zarr", SLOW)


@pytest.fixture(scope="module")
def few(zkit, cube, tmp_path_factory):
    """The objects of a copy with FEW that nothing disturbed: 16 chunks."""
    return objects_of_a_local_copy(zkit, cube, tmp_path_factory.mktemp("few") / "copy.zarr", FEW)


def contents(objects, place):
    return {key.removeprefix(place + "/"): objects.read(key) for key in objects.keys(place + "/")}


def beside(objects, place):
    """What lies beside a destination."""
    return sorted(key.removeprefix(place) for key in objects.keys(place) if not key.startswith(place + "/"))


def started(zkit, proxy, *arguments):
    return zkit.start(*arguments, env=zkit.environment(**bucket.environment(proxy.port)))


def killed_at(zkit, proxy, pattern, *arguments, method="PUT", after=0):
    """Kills a run when its request number `after` of a kind arrives; the request takes no effect before that."""
    proxy.reset({"method": method, "path": pattern, "delay": 0.3})
    process = started(zkit, proxy, *arguments)
    limit = time.monotonic() + 40
    seen = 0
    while seen <= after:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit, f"no {method} of {pattern}"
        seen = sum(proxy.rule_fits({"method": method, "path": pattern}, *request) for request in list(proxy.seen))
        time.sleep(0.002)
    process.kill()
    process.communicate()
    time.sleep(0.4)  # what the proxy had in hand
    proxy.reset()


def killed_with_records(zkit, proxy, *arguments):
    """Kills a run in the middle of its work, once a part of its journal is written."""
    proxy.reset({"method": "PUT", "path": "copy.zarr/t2m", "delay": 1})
    process = started(zkit, proxy, *arguments)
    limit = time.monotonic() + 40
    while not any("journal/records" in path and status == 200 for _, path, status in list(proxy.requests)):
        assert process.poll() is None and time.monotonic() < limit, process.communicate()
        time.sleep(0.002)
    process.kill()
    process.communicate()
    time.sleep(1.1)  # what the proxy had in hand
    proxy.reset()


def looks_complete(objects, place):
    return any(f"{place}/{name}" in objects.keys(place) for name in ROOTS)


def resumed(s3, source, place, *options):
    outcome = s3("recompress", source, bucket.url(place), "--resume", *options, "--format", "json")
    assert outcome.code == 0, outcome.err
    return outcome.json()


@pytest.mark.parametrize("zarr_format", ["keep", "2", "3"])
@pytest.mark.parametrize("name", ["ostia_sst.zarr", "cmems_ocean.zarr"])
def test_other_readers_find_the_same_in_the_bucket(s3, objects, place, tmp_path, name, zarr_format):
    codec = "blosc:zstd:3:bitshuffle"
    options = ["--zarr-format", zarr_format, "--codec", codec, "--verify", "full"]
    outcome = s3("recompress", FIXTURES / name, bucket.url(place), *options)
    assert outcome.code == 0, outcome.err
    copy = objects.download(place, tmp_path / "copy.zarr")
    copies.assert_faithful(copies.Source(FIXTURES / name), copy, zarr_format=zarr_format, codec=codec)
    assert beside(objects, place) == []


def test_the_objects_are_those_of_a_local_copy(s3, objects, place, cube, few):
    outcome = s3("recompress", cube.path, bucket.url(place), *FEW, "--format", "json")
    assert outcome.code == 0, outcome.err
    assert contents(objects, place) == few
    report = outcome.json()
    assert report["objects_written"] == len(few) and report["requests"] >= len(few)
    assert report["verified"]["bytes"] > 0


def test_a_chunk_is_one_request(s3, proxy, place, cube, undisturbed):
    assert s3("recompress", cube.path, bucket.url(place), *SLOW, "--verify", "none").code == 0
    written = [path for method, path, _ in proxy.requests if method == "PUT" and "copy.zarr/" in path]
    assert len(written) == len(undisturbed), "each object is written once"
    others = [request for request in proxy.requests if request[0] != "PUT"]
    assert len(others) <= 40, others


def test_bucket_to_bucket_and_back(s3, objects, place, tmp_path):
    source = copies.Source(FIXTURES / "ostia_sst.zarr")
    objects.upload(source.path, place + ".source")
    assert s3("recompress", bucket.url(place + ".source"), bucket.url(place), "--zarr-format", "3").code == 0
    assert s3("recompress", bucket.url(place), tmp_path / "back.zarr", "--zarr-format", "2").code == 0
    assert oracle.digests(tmp_path / "back.zarr") == source.digests


def test_many_stores_into_a_bucket(s3, objects, place, tmp_path, cube):
    second = FIXTURES / "ostia_sst.zarr"
    into = place.removesuffix("/copy.zarr")
    outcome = s3("recompress", cube.path, second, "--into", bucket.url(into))
    assert outcome.code == 0, outcome.err
    for source in (cube, copies.Source(second)):
        name = source.path.name
        assert oracle.digests(objects.download(f"{into}/{name}", tmp_path / name)) == source.digests


def test_shards_in_a_bucket(s3, objects, place, tmp_path, cube):
    options = ["--zarr-format", "3", "--chunks", "time=4,lat=32,lon=32", "--shards", "time=16,lat=64,lon=96"]
    assert s3("recompress", cube.path, bucket.url(place), *options).code == 0
    assert oracle.digests(objects.download(place, tmp_path / "copy.zarr")) == cube.digests
    assert len(objects.keys(place + "/t2m/c/")) == 4


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """69 MB that make one object with LARGE."""
    values = np.random.default_rng(2).integers(0, 1 << 30, (2, 1200, 7200)).astype("<i4")
    return copies.Source(
        layouts.cube_v2(tmp_path_factory.mktemp("large") / "large.zarr", values, (1, 1200, 7200), fill=None)
    )


def test_large_objects_are_sent_in_parts(s3, proxy, objects, place, tmp_path, large):
    outcome = s3("recompress", large.path, bucket.url(place), *LARGE)
    assert outcome.code == 0, outcome.err
    assert any("partNumber=" in path for method, path, _ in proxy.requests if method == "PUT")
    assert oracle.digests(objects.download(place, tmp_path / "copy.zarr")) == large.digests
    assert objects.uploads(place) == [] and beside(objects, place) == []


@pytest.mark.parametrize("part", ["partNumber=1", "partNumber=4", r"uploadId=[^&]*$"])
@pytest.mark.parametrize("option", ["--resume", "--restart"])
def test_what_a_killed_run_had_sent_in_parts_is_given_up(
    s3, zkit, proxy, objects, place, tmp_path, large, option, part
):
    method = "PUT" if "part" in part else "POST"
    killed_at(zkit, proxy, part, "recompress", large.path, bucket.url(place), *LARGE, method=method)
    if method == "PUT":
        assert objects.uploads(place), "nothing was left to give up"
    assert s3("recompress", large.path, bucket.url(place), *LARGE, option).code == 0
    assert objects.uploads(place) == [] and beside(objects, place) == []
    assert oracle.digests(objects.download(place, tmp_path / "copy.zarr")) == large.digests


def test_an_interrupted_run_gives_up_what_it_sent_in_parts(s3, zkit, proxy, objects, place, large):
    proxy.reset({"method": "PUT", "path": "partNumber=3", "delay": 30})
    process = started(zkit, proxy, "recompress", large.path, bucket.url(place), *LARGE)
    proxy.wait_for("partNumber=3", 40)
    assert objects.uploads(place)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert objects.uploads(place) == []


def test_a_part_that_is_refused_gives_up_the_others(s3, proxy, objects, place, large):
    proxy.reset({"method": "PUT", "path": "partNumber=3", "status": 403})
    outcome = s3("recompress", large.path, bucket.url(place), *LARGE)
    assert outcome.code == 3 and "t2m" in outcome.err, outcome.err
    assert objects.uploads(place) == []


def test_memory_stays_within_the_budget_however_slow_the_bucket(s3, proxy, place, tmp_path):
    values = np.random.default_rng(3).integers(0, 1 << 30, (400, 256, 256)).astype("<i4")
    source = layouts.cube_v2(tmp_path / "wide.zarr", values, (8, 256, 256), fill=None)
    proxy.reset({"method": "PUT", "path": "copy.zarr/t2m", "delay": 0.3})
    outcome = s3("recompress", source, bucket.url(place), "--codec", "none", "--checksum", "none", "--chunks",
                 "time=4", "--memory", "32MiB", "--verify", "none")  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert outcome.peak_mb < 32 + 100, "105 MB were copied"


@pytest.mark.parametrize("after", [0, 30, 100, 180])
def test_a_copy_that_is_killed_is_absent_until_another_run_finishes_it(
    s3, zkit, proxy, objects, place, cube, undisturbed, after
):
    killed_at(zkit, proxy, "copy.zarr/t2m", "recompress", cube.path, bucket.url(place), *SLOW, after=after)
    assert not looks_complete(objects, place)
    resumed(s3, cube.path, place, *SLOW)
    assert contents(objects, place) == undisturbed and beside(objects, place) == []


@pytest.fixture(scope="module")
def seconds(zkit, proxy, objects, cube):
    """What an undisturbed copy with SOME takes, and its objects."""
    proxy.reset()
    place = "out/timed/copy.zarr"
    outcome = zkit("recompress", cube.path, bucket.url(place), *SOME, **bucket.environment(proxy.port))
    assert outcome.code == 0, outcome.err
    return outcome.seconds, contents(objects, place)


@pytest.mark.parametrize("moment", range(30))
def test_a_kill_at_any_moment_leaves_it_absent_or_complete(s3, zkit, proxy, objects, place, cube, seconds, moment):
    seconds, wanted = seconds
    proxy.reset()
    process = started(zkit, proxy, "recompress", cube.path, bucket.url(place), *SOME)
    try:
        process.wait(seconds * random.Random(moment).uniform(moment / 30, (moment + 1) / 30))
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    proxy.wait_until_idle(10)
    if looks_complete(objects, place):
        assert contents(objects, place) == wanted
    resumed(s3, cube.path, place, *SOME)
    assert contents(objects, place) == wanted and beside(objects, place) == []


def test_an_object_that_arrives_after_its_run_is_dead_and_cleared_is_not_in_the_way(
    s3, zkit, proxy, objects, place, cube, few
):
    killed_at(zkit, proxy, "copy.zarr/t2m", "recompress", cube.path, bucket.url(place), *FEW, after=4)
    assert objects.keys(place + "/t2m/") and not any("records" in key for key in beside(objects, place))
    proxy.reset({"method": "POST", "path": "delete", "delay": 0.5})
    process = started(zkit, proxy, "recompress", cube.path, bucket.url(place), *FEW, "--restart")
    # the second removal is that of the journal: nothing is removed from the destination any more
    proxy.wait_for("delete", 20, times=2)
    objects.write(f"{place}/t2m/0.0.0", few["t2m/0.0.0"])
    _, err = process.communicate(timeout=40)
    assert process.returncode == 0, err
    assert contents(objects, place) == few and beside(objects, place) == []


def test_what_is_journalled_is_neither_thrown_away_nor_done_again(s3, zkit, proxy, objects, place, cube, undisturbed):
    killed_with_records(zkit, proxy, "recompress", cube.path, bucket.url(place), *SLOW)
    refused = s3("recompress", cube.path, bucket.url(place), *SLOW)
    assert refused.code == 3 and "--resume" in refused.err
    report = resumed(s3, cube.path, place, *SLOW)
    assert report["resumed_objects"] > 0
    assert report["objects_written"] + report["resumed_objects"] == len(undisturbed)
    assert contents(objects, place) == undisturbed and beside(objects, place) == []


PUBLISHING = [
    ("PUT", r"journal/lock"),
    ("PUT", r"journal/header"),
    ("PUT", r"journal/publishing"),
    ("PUT", r"t2m/\.zarray"),
    ("PUT", r"t2m/\.zattrs"),
    ("PUT", r"copy\.zarr/\.zgroup"),
    ("PUT", r"copy\.zarr/\.zattrs"),
    ("PUT", r"copy\.zarr/\.zmetadata"),
    ("POST", r"delete"),
]


@pytest.mark.parametrize("method, pattern", PUBLISHING)
def test_a_kill_at_each_step_of_a_publication_loses_nothing(
    s3, zkit, proxy, objects, place, cube, few, method, pattern
):
    job = ["recompress", cube.path, bucket.url(place), *FEW, "--consolidate", "always"]
    killed_at(zkit, proxy, pattern, *job, method=method)
    if f"{place}/.zgroup" in objects.keys(place):
        everything = set(few) | {".zmetadata"}
        assert set(contents(objects, place)) == everything, "complete, once its last document is there"
    resumed(s3, cube.path, place, *FEW, "--consolidate", "always")
    found = contents(objects, place)
    assert found.pop(".zmetadata") and found == few
    assert beside(objects, place) == []


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_copy_that_is_interrupted_gives_the_lock_back(s3, zkit, proxy, objects, place, cube, undisturbed, stop):
    proxy.reset({"method": "PUT", "path": "copy.zarr/t2m", "delay": 0.5})
    process = started(zkit, proxy, "recompress", cube.path, bucket.url(place), *SLOW)
    proxy.wait_for("copy.zarr/t2m/12", seconds=20)
    process.send_signal(stop)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and b"--resume" in err, err
    assert not looks_complete(objects, place)
    assert not any(name.endswith("/lock") for name in beside(objects, place))
    proxy.reset()
    begun = time.monotonic()
    assert resumed(s3, cube.path, place, *SLOW)["resumed_objects"] > 0
    assert time.monotonic() - begun < 10, "nobody had to be waited for"
    assert contents(objects, place) == undisturbed


def test_a_second_run_to_the_same_place_is_refused(s3, zkit, proxy, objects, place, cube, undisturbed):
    proxy.reset({"method": "PUT", "path": "copy.zarr/t2m/15", "delay": 14})
    first = started(zkit, proxy, "recompress", cube.path, bucket.url(place), *SLOW)
    proxy.wait_for("copy.zarr/t2m", seconds=20)
    second = s3_with(zkit, proxy, "recompress", cube.path, bucket.url(place), *SLOW, "--restart")
    assert second.code == 3 and "another run is writing here" in second.err, second.err
    assert first.poll() is None
    proxy.rules = []
    assert first.wait(timeout=40) == 0, first.communicate()
    assert contents(objects, place) == undisturbed and beside(objects, place) == []


def s3_with(zkit, proxy, *arguments):
    """A run that leaves the proxy's rules as they are."""
    return zkit(*arguments, **bucket.environment(proxy.port))


def test_a_run_that_lost_its_lock_stops(zkit, proxy, objects, place, cube):
    proxy.reset({"method": "PUT", "path": "copy.zarr/t2m", "delay": 1})
    process = started(zkit, proxy, "recompress", cube.path, bucket.url(place), *FEW)
    proxy.wait_for("copy.zarr/t2m", seconds=20)
    lock = json.loads(objects.read(place + ".partial.journal/lock"))
    thief = {**lock, "run": "another", "machine": "another"}
    objects.write(place + ".partial.journal/lock", json.dumps(thief))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3 and b"another run took over" in err, err
    assert not looks_complete(objects, place)
    assert json.loads(objects.read(place + ".partial.journal/lock")) == thief, "the lock is the other's now"


def test_the_lock_of_another_machine_is_watched_before_it_is_taken_over(
    s3, zkit, proxy, objects, place, cube, undisturbed
):
    killed_with_records(zkit, proxy, "recompress", cube.path, bucket.url(place), *SLOW)
    lock = json.loads(objects.read(place + ".partial.journal/lock"))
    objects.write(place + ".partial.journal/lock", json.dumps({**lock, "machine": "another"}))
    begun = time.monotonic()
    assert resumed(s3, cube.path, place, *SLOW)["resumed_objects"] > 0
    assert time.monotonic() - begun > 20
    assert contents(objects, place) == undisturbed


def test_answers_that_are_lost_are_made_up_for(s3, proxy, objects, place, cube, few):
    patterns = ("journal/lock", "journal/header", r"copy\.zarr/\.zattrs", "t2m/3.1.0")
    proxy.reset(*({"method": "PUT", "path": path, "lost": True, "times": 1} for path in patterns))
    outcome = s3_few(s3, cube, place)
    assert outcome.code == 0, outcome.err
    assert contents(objects, place) == few and beside(objects, place) == []


def s3_few(s3, cube, place, *options):
    return s3("recompress", cube.path, bucket.url(place), *FEW, *options)


@pytest.mark.parametrize("fault", [{"status": 503}, {"status": 500}, {"status": 429}, {"drop": True}])
def test_passing_faults_are_tried_again(s3, proxy, objects, place, cube, few, fault):
    proxy.reset({"path": "copy.zarr/t2m/(1|2)", "times": 6, **fault}, {"method": "POST", "times": 1, **fault})
    outcome = s3_few(s3, cube, place, "--format", "json")
    assert outcome.code == 0, outcome.err
    assert contents(objects, place) == few
    if "status" in fault:
        assert outcome.json()["retries"] >= 6


@pytest.mark.parametrize("fault", [{"status": 403}, {"status": 404}])
def test_a_bucket_that_refuses_is_an_error_and_the_work_is_kept(s3, proxy, objects, place, cube, few, fault):
    proxy.reset(
        {"method": "PUT", "path": "copy.zarr/t2m/3.3.0", **fault}, {"method": "PUT", "path": "t2m", "delay": 0.02}
    )
    outcome = s3_few(s3, cube, place)
    assert outcome.code == 3 and "3.3.0" in outcome.err, outcome.err
    assert not looks_complete(objects, place)
    proxy.reset()
    resumed(s3, cube.path, place, *FEW)
    assert contents(objects, place) == few


def test_objects_that_changed_since_are_written_anew(s3, zkit, proxy, objects, place, cube, undisturbed):
    killed_with_records(zkit, proxy, "recompress", cube.path, bucket.url(place), *SLOW)
    keys = objects.keys(place + "/t2m/")
    objects.remove(*keys[:5])
    for key in keys[5:]:
        objects.write(key, b"what somebody else put here")
    resumed(s3, cube.path, place, *SLOW)
    assert contents(objects, place) == undisturbed


def test_a_journal_that_knows_no_tags_is_gone_on_with(s3, zkit, proxy, objects, place, cube, undisturbed):
    killed_with_records(zkit, proxy, "recompress", cube.path, bucket.url(place), *SLOW)
    kind_of_tags = (4).to_bytes(4, "little")
    for key in objects.keys(f"{place}.partial.journal/records/"):
        segment = objects.read(key)
        entries = [segment[at : at + 48] for at in range(0, len(segment), 48)]
        left = [entry for entry in entries if entry[:4] != kind_of_tags]
        assert left and len(left) < len(entries)
        objects.write(key, b"".join(left))
    for key in objects.keys(place + "/t2m/"):
        objects.write(key, bytes(len(objects.read(key))))
    proxy.reset()
    resumed(s3, cube.path, place, *SLOW, "--verify", "none")
    assert any(method == "GET" and "copy.zarr/t2m/" in path for method, path, _ in proxy.requests)
    assert contents(objects, place) == undisturbed


def test_another_job_is_not_gone_on_with(s3, zkit, proxy, place, cube):
    killed_with_records(zkit, proxy, "recompress", cube.path, bucket.url(place), *SLOW)
    outcome = s3("recompress", cube.path, bucket.url(place), "--codec", "zstd:2", *SLOW[2:], "--resume")
    assert outcome.code == 3 and "`--codec` was `zstd:1`, is `zstd:2`" in outcome.err, outcome.err


def test_a_store_is_replaced_only_where_it_may_be_absent_meanwhile(s3, zkit, proxy, objects, place, cube, few):
    objects.upload(FIXTURES / "ostia_sst.zarr", place)
    before = contents(objects, place)
    outcome = s3_few(s3, cube, place)
    assert outcome.code == 3 and "--overwrite" in outcome.err
    outcome = s3_few(s3, cube, place, "--overwrite", "--yes")
    assert outcome.code == 3 and "--unpublish-first" in outcome.err
    assert contents(objects, place) == before and beside(objects, place) == []
    replace = [*FEW, "--overwrite", "--unpublish-first", "--yes"]
    killed_at(zkit, proxy, r"\?delete", "recompress", cube.path, bucket.url(place), *replace, method="POST", after=1)
    assert not looks_complete(objects, place), "the root's metadata goes first"
    outcome = s3("recompress", cube.path, bucket.url(place), *replace, "--resume")
    assert outcome.code == 0, outcome.err
    assert contents(objects, place) == few and beside(objects, place) == []


def test_what_others_left_at_the_destination_stays(s3, objects, place, cube):
    objects.write(f"{place}/thesis.pdf", b"x")
    for options in ([], ["--restart"], ["--overwrite", "--unpublish-first", "--yes"], ["--resume"]):
        outcome = s3_few(s3, cube, place, *options)
        assert outcome.code == 3 and "thesis.pdf" in outcome.err, outcome.err
    assert contents(objects, place) == {"thesis.pdf": b"x"} and beside(objects, place) == []


def test_a_store_that_others_put_in_the_place_of_an_unfinished_one_stays(s3, zkit, proxy, objects, place, cube):
    killed_with_records(zkit, proxy, "recompress", cube.path, bucket.url(place), *SLOW)
    objects.upload(FIXTURES / "ostia_sst.zarr", place)
    before = contents(objects, place)
    for options in ([], ["--resume"], ["--restart"], ["--restart", "--overwrite", "--unpublish-first", "--yes"]):
        outcome = s3("recompress", cube.path, bucket.url(place), *SLOW, *options)
        assert outcome.code == 3 and "did not write" in outcome.err, (options, outcome.err)
        assert contents(objects, place) == before


def test_escapes_in_urls_do_not_hide_the_source(s3, objects, place, cube):
    objects.upload(cube.path, place)
    before = contents(objects, place)
    hidden = bucket.url(place.replace("copy.zarr", "%63opy.zarr"))
    outcome = s3("recompress", hidden, bucket.url(place), "--overwrite", "--unpublish-first", "--yes")
    assert outcome.code == 2 and "is the source itself" in outcome.err, outcome.err
    assert contents(objects, place) == before


def test_many_stores_share_their_room(s3, proxy, objects, place, tmp_path):
    values = np.random.default_rng(4).integers(0, 1 << 30, (8, 512, 512)).astype("<i4")
    sources = [layouts.cube_v2(tmp_path / f"{n}.zarr", values, (8, 512, 512), fill=None) for n in range(6)]
    proxy.reset({"method": "PUT", "path": "t2m/0", "delay": 0.5})
    outcome = s3("recompress", *sources, "--into", bucket.url(place), "--codec", "none", "--memory", "48MiB",
                 "--verify", "none")  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert outcome.peak_mb < 48 + 100, "each is 8 MB"


def test_the_same_copy_again_is_already_done(s3, objects, place, cube):
    assert s3_few(s3, cube, place).code == 0
    outcome = s3_few(s3, cube, place, "--resume")
    assert outcome.code == 0 and "already done" in outcome.stdout.decode(), outcome.err
    assert beside(objects, place) == []


def test_a_dry_run_leaves_the_bucket_as_it_was(s3, objects, place, cube):
    outcome = s3_few(s3, cube, place, "--dry-run", "--format", "json")
    assert outcome.code == 0, outcome.err
    assert outcome.json()["files_per_second"] > 0
    assert objects.keys(place) == []


def test_places_that_take_no_store_are_named(s3, cube):
    outcome = s3("recompress", cube.path, "https://example.invalid/a.zarr")
    assert outcome.code == 3 and "web servers" in outcome.err
    outcome = s3("recompress", cube.path, f"s3://{bucket.NAME}")
    assert outcome.code == 2 and "whole bucket" in outcome.err, outcome.err
    outcome = s3("recompress", cube.path, "s3://no-such-bucket/a.zarr")
    assert outcome.code == 3 and "no-such-bucket" in outcome.err and "panicked" not in outcome.err
    outcome = s3("recompress", bucket.url("a/b.zarr"), bucket.url("a/b.zarr/c"))
    assert outcome.code == 2 and "lies inside the source" in outcome.err


def test_a_copy_whose_bytes_change_on_the_way_is_not_published(s3, objects, place, cube, proxy):
    proxy.reset({"method": "GET", "path": "copy.zarr/t2m", "flip": 40})
    outcome = s3_few(s3, cube, place, "--verify", "full")
    assert outcome.code == 3 and "t2m" in outcome.err, outcome.err
    assert not looks_complete(objects, place)
