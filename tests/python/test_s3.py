"""s3:// against a real server: the same answers as from disk, and absent kept apart from unreadable."""

import signal

import pytest

import bucket
import copies
from conftest import FIXTURES, MANIFEST
from faultproxy import FaultProxy

STORES = (
    "ostia_sst.zarr",
    "cmems_ocean.zarr",
    "mixed_types.zarr",
    "sharded_index_end.zarr",
    "imerg_template.zarr",
)


@pytest.fixture(scope="module")
def server():
    """The port of an S3 server that holds some fixtures."""
    with bucket.served() as port:
        for name in STORES:
            bucket.Bucket(port).upload(FIXTURES / name, f"a/{name}")
        yield port


@pytest.fixture(scope="module")
def proxy(server):
    with FaultProxy(server) as running:
        yield running


@pytest.fixture
def s3(zkit, proxy):
    """Runs zkit with the server's endpoint and credentials in the variables that the AWS tools read."""
    proxy.reset()
    environment = bucket.environment(proxy.port)

    def run(*args, **env):
        outcome = zkit(*args, **{**environment, **env})
        assert bucket.SECRET not in outcome.err + outcome.stdout.decode(errors="replace"), "a secret was printed"
        return outcome

    return run


def url(name):
    return bucket.url(f"a/{name}")


@pytest.mark.parametrize("name", STORES)
def test_inspect_says_the_same_as_from_disk(zkit, s3, name):
    remote = s3("inspect", url(name), "--depth", "headers", "--format", "json")
    assert remote.code == 0, remote.err
    remote, local = remote.json(), zkit.json("inspect", FIXTURES / name, "--depth", "headers")
    assert remote["arrays"] == local["arrays"]
    assert remote["groups"] == local["groups"]
    assert remote["store"]["container"] == "object-store"


@pytest.mark.parametrize("name", STORES)
def test_digest_says_the_same_as_from_disk(s3, name):
    outcome = s3("digest", url(name), "--format", "json")
    assert outcome.code == 0, outcome.err
    got = {array["path"]: array["sha256"] for array in outcome.json()["arrays"]}
    assert got == {path: array["sha256"] for path, array in MANIFEST[name]["arrays"].items()}


@pytest.mark.parametrize("zarr_format", ["keep", "3"])
def test_recompress_to_disk_is_faithful(s3, tmp_path, zarr_format):
    copy = tmp_path / "copy.zarr"
    codec = "blosc:zstd:3:bitshuffle"
    options = ["--zarr-format", zarr_format, "--verify", "full", "--codec", codec]
    outcome = s3("recompress", url("ostia_sst.zarr"), copy, *options)
    assert outcome.code == 0, outcome.err
    copies.assert_faithful(
        copies.Source(FIXTURES / "ostia_sst.zarr"),
        copy,
        zarr_format=zarr_format,
        codec=codec,
    )


def test_consolidated_metadata_is_one_read(s3, proxy):
    outcome = s3("inspect", url("ostia_sst.zarr"), "--depth", "metadata", "--format", "json")
    assert outcome.code == 0 and len(outcome.json()["arrays"]) == 5
    assert sum(".zmetadata" in path for _, path, _ in proxy.requests) == 1
    assert not any(".zarray" in path for _, path, _ in proxy.requests)
    assert len(proxy.requests) <= 6, proxy.requests


def test_options_stand_in_for_the_environment(zkit, proxy):
    proxy.reset()
    options = {
        "aws_endpoint": f"http://127.0.0.1:{proxy.port}",
        "aws_access_key_id": "t",
        "aws_secret_access_key": bucket.SECRET,
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    flags = [flag for key, value in options.items() for flag in ("--storage-option", f"{key}={value}")]
    outcome = zkit("digest", url("mixed_types.zarr"), *flags, "--format", "json")
    assert outcome.code == 0, outcome.err
    assert bucket.SECRET not in outcome.err


def test_an_absent_store_is_said_to_be_absent(s3):
    outcome = s3("inspect", url("nothing_here.zarr"))
    assert outcome.code in (2, 3)
    assert "no " in outcome.err.lower() or "not found" in outcome.err.lower() or "absent" in outcome.err.lower()


def test_an_absent_chunk_is_the_fill_value(s3, proxy):
    proxy.reset({"path": "analysed_sst/0.0.0", "status": 404})
    outcome = s3("digest", url("ostia_sst.zarr"), "analysed_sst", "--format", "json")
    assert outcome.code == 0, outcome.err
    assert outcome.json()["arrays"][0]["sha256"] not in (
        None,
        MANIFEST["ostia_sst.zarr"]["arrays"]["/analysed_sst"]["sha256"],
    )


@pytest.mark.parametrize(
    "fault", [{"status": 403}, {"status": 500}, {"status": 503}, {"drop": True}, {"truncate": 100}]
)
def test_an_unreadable_chunk_is_an_error_never_the_fill_value(s3, proxy, fault):
    proxy.reset({"path": "analysed_sst/0.0.0", **fault})
    outcome = s3("digest", url("ostia_sst.zarr"), "--format", "json", "--timeout", "2s")
    assert outcome.code == 3, outcome.err
    arrays = {array["path"]: array for array in outcome.json()["arrays"]}
    assert arrays["/analysed_sst"]["sha256"] is None and arrays["/analysed_sst"]["error"]
    assert arrays["/lat"]["sha256"] == MANIFEST["ostia_sst.zarr"]["arrays"]["/lat"]["sha256"]


@pytest.mark.parametrize("fault", [{"status": 403}, {"status": 500}])
def test_unreadable_metadata_is_not_an_absent_store(s3, proxy, fault):
    proxy.reset({"path": r"ostia_sst", **fault})
    outcome = s3("inspect", url("ostia_sst.zarr"), "--timeout", "2s")
    assert outcome.code == 3
    assert str(fault["status"]) in outcome.err or "denied" in outcome.err.lower() or "forbidden" in outcome.err.lower()


@pytest.mark.parametrize(
    "fault", [{"status": 503, "times": 1}, {"drop": True, "times": 1}, {"truncate": 50, "times": 1}]
)
def test_a_passing_fault_is_retried(s3, proxy, fault):
    proxy.reset({"path": "analysed_sst/0.0.1", **fault})
    outcome = s3("digest", url("ostia_sst.zarr"), "analysed_sst", "--format", "json")
    assert outcome.code == 0, outcome.err
    assert outcome.json()["arrays"][0]["sha256"] == MANIFEST["ostia_sst.zarr"]["arrays"]["/analysed_sst"]["sha256"]


def test_a_failed_copy_publishes_nothing(s3, proxy, tmp_path):
    proxy.reset({"path": "analysed_sst/0.1.1", "status": 403})
    outcome = s3("recompress", url("ostia_sst.zarr"), tmp_path / "copy.zarr")
    assert outcome.code == 3
    assert not (tmp_path / "copy.zarr").exists()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_copy_that_is_stopped_publishes_nothing(zkit, proxy, tmp_path, stop):
    proxy.reset({"path": "analysed_sst/0", "delay": 1})
    environment = zkit.environment(**bucket.environment(proxy.port))
    process = zkit.start("recompress", url("ostia_sst.zarr"), tmp_path / "copy.zarr", env=environment)
    proxy.wait_for("analysed_sst/0", seconds=20)
    process.send_signal(stop)
    _, err = process.communicate(timeout=20)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 130, signal.SIGKILL: -9}[stop], err
    assert b"panicked" not in err
    assert not (tmp_path / "copy.zarr").exists()


def test_a_wrong_key_is_named_without_the_secret(s3, proxy):
    proxy.reset({"status": 403})
    outcome = s3("inspect", f"s3://AKIAEXAMPLE:hunter2@{bucket.NAME}/a/ostia_sst.zarr")
    assert outcome.code in (2, 3)
    assert "hunter2" not in outcome.err


@pytest.mark.parametrize("name", ["ostia_sst.zarr", "cmems_ocean.zarr", "mixed_types.zarr", "sharded_index_end.zarr"])
def test_scanned_values_are_those_from_disk(zkit, s3, name):
    def variables(outcome):
        assert outcome.code in (0, 1, 3), outcome.err
        found = [{**variable, "store": None} for variable in outcome.json()["variables"]]
        # threads add the sums of their chunks in any order
        return [{**one, "mean": one["mean"] and pytest.approx(one["mean"], rel=1e-12)} for one in found]

    arguments = ("--depth", "full", "--fail-on", "never", "--format", "json")
    from_disk = variables(zkit("audit", FIXTURES / name, *arguments))
    remote = s3("audit", url(name), *arguments)
    assert remote.code in (0, 1, 3), remote.err
    assert [{**variable, "store": None} for variable in remote.json()["variables"]] == from_disk


@pytest.mark.parametrize("name", ["ostia_sst.zarr", "sharded_index_end.zarr", "imerg_template.zarr"])
def test_an_audit_of_headers_lists_once_and_reads_each_chunk_at_most_once_by_range(s3, proxy, name):
    outcome = s3("audit", url(name), "--depth", "headers", "--fail-on", "never", "--format", "json")
    assert outcome.code == 0 and outcome.json()["complete"], outcome.err
    listings = [path for _, path, _ in proxy.requests if "list-type" in path]
    assert len(listings) == len(set(listings))
    # beside that of all chunks, one of the children of each group that consolidated metadata may have left out
    assert sum("delimiter" not in path and "continuation-token" not in path for path in listings) == 1, listings
    documents = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
    read = [
        (path.split("?")[0], status)
        for method, path, status in proxy.requests
        if method == "GET" and "list-type" not in path and not path.split("?")[0].endswith(documents)
    ]
    assert read and all(status == 206 for _, status in read), read
    assert len(read) == len({path for path, _ in read}), "a chunk was asked for twice"
