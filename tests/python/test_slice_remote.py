"""`zkit slice` from a bucket: what it gives, and how few requests it takes."""

import collections
import re

import numpy
import pytest
import xarray

import bucket
from fields import assert_same, batch, grid, opened, write

SHARDED = {"zarr_format": 3, "chunks": "some", "sharded": True}


@pytest.fixture(scope="module")
def stores(objects, tmp_path_factory):
    """Three batches and a field in either format: local paths by name, and the same in the bucket."""
    folder = tmp_path_factory.mktemp("stores")
    paths = {f"batch_{number}": folder / f"batch_{number}.zarr" for number in range(3)}
    for number, ids in enumerate([[5, 9], [1], [7, 3, 2]]):
        write(batch(ids, seed=number), paths[f"batch_{number}"], chunks="whole")
    paths |= {"v2": write(grid(), folder / "v2.zarr"), "v3": write(grid(), folder / "v3.zarr", **SHARDED)}
    for name, path in paths.items():
        objects.upload(path, f"stores/{name}.zarr")
    return paths


def remote(name):
    return bucket.url(f"stores/{name}.zarr")


def sliced(run, tmp_path, name, *arguments):
    destination = tmp_path / f"{name}.zarr"
    outcome = run("slice", *arguments, "--to", destination)
    assert outcome.code == 0, outcome.err
    return opened(destination).drop_attrs(deep=False)


def chunks_asked(proxy):
    """How often each object that is no metadata was asked for, and by what method."""
    asked = collections.Counter()
    for method, path, _ in proxy.requests:
        if not re.search(r"(zarr\.json|\.z\w+)(\?|$)", path):
            asked[method, path] += 1
    return asked


BATCHES = [remote(f"batch_{number}") for number in range(3)]
SELECTIONS = {
    "batches": (BATCHES, ["--concat", "file_id", "--sel", "y=2", "--sort"]),
    "chunks": ([remote("v2")], ["--sel", "latitude=50", "--sel", "longitude=-60..60"]),
    "shards": ([remote("v3")], ["--sel", "latitude=60,45", "--isel", "time=3..20"]),
}


def local(stores, urls):
    return [stores[url.rsplit("/", 1)[1].removesuffix(".zarr")] for url in urls]


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_slice_of_a_bucket_is_that_of_the_same_files(zkit, s3, stores, tmp_path, selection):
    urls, arguments = SELECTIONS[selection]
    found = sliced(s3, tmp_path, "remote", *urls, *arguments, "--verify", "full")
    assert_same(found, sliced(zkit, tmp_path, "local", *local(stores, urls), *arguments))


FAULTS = {
    "429": {"status": 429, "times": 3},
    "500": {"status": 500, "times": 3},
    "503": {"status": 503, "times": 3},
    "drop": {"drop": True, "times": 3},
    "truncate": {"truncate": 10, "times": 2},
    "slow": {"delay": 0.4, "times": 4},
}


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_bucket_that_falters_changes_nothing(zkit, s3, proxy, stores, tmp_path, selection, fault):
    urls, arguments = SELECTIONS[selection]
    proxy.reset({"path": r"/(u|t2m)/", **FAULTS[fault]})
    found = sliced(s3, tmp_path, "remote", *urls, *arguments)
    assert_same(found, sliced(zkit, tmp_path, "local", *local(stores, urls), *arguments))


@pytest.mark.parametrize("status", [403, 500])
def test_a_chunk_that_is_refused_never_becomes_fill_values(s3, proxy, stores, tmp_path, status):
    chunk = r"/batch_2\.zarr/u/0\.0\.0\.0"
    proxy.reset({"path": chunk, "status": status})
    destination = tmp_path / "slice.zarr"
    arguments = ["--concat", "file_id", "--to", destination]
    outcome = s3("slice", *BATCHES, *arguments)
    assert outcome.code == 3, outcome.err
    assert "batch_2.zarr" in outcome.err and "u/0.0.0.0" in outcome.err, outcome.err
    assert not destination.exists()


def test_each_chunk_is_asked_for_once_and_nothing_is_listed(s3, proxy, stores, tmp_path):
    arguments = ["--concat", "file_id", "--include", "u", "--exclude", "area", "--verify", "none", "--fail-on", "never"]
    sliced(s3, tmp_path, "remote", *BATCHES, *arguments)
    methods = {method for method, _, _ in proxy.requests}
    assert methods == {"GET"}
    assert not [path for _, path, _ in proxy.requests if "list-type" in path]
    asked = chunks_asked(proxy)
    assert len([path for _, path in asked if "/u/" in path]) == 3
    often = {path: count for (_, path), count in asked.items() if count > 1 and "/u/" in path}
    assert not often, "chunks that were asked for more than once"


def large(path):
    """One shard of 64 inner chunks of 256 KiB that do not compress."""
    values = numpy.random.default_rng(3).normal(size=(8, 512, 1024)).astype("float32")
    field = xarray.Dataset({"a": (("time", "y", "x"), values)})
    encoding = {"a": {"chunks": (1, 64, 1024), "shards": (8, 512, 1024)}}
    field.to_zarr(path, mode="w", zarr_format=3, consolidated=False, encoding=encoding)
    return path


@pytest.fixture(scope="module")
def shard(objects, tmp_path_factory):
    path = large(tmp_path_factory.mktemp("large") / "large.zarr")
    objects.upload(path, "stores/large.zarr")
    return path


@pytest.mark.parametrize(
    ("arguments", "positions", "requests"),
    [
        (["--isel", "y=5", "--isel", "time=3"], {"y": 5, "time": 3}, 2),
        (["--isel", "y=5", "--isel", "time=3..5"], {"y": 5, "time": slice(3, 5)}, 3),
        (["--isel", "y=5,70", "--isel", "time=3"], {"y": [5, 70], "time": 3}, 2),
        (["--isel", "x=5"], {"x": 5}, 1),
    ],
    ids=["one", "two apart", "two together", "all"],
)
def test_of_a_shard_the_inner_chunks_that_are_picked_are_read(
    s3, proxy, shard, tmp_path, arguments, positions, requests
):
    destination = tmp_path / "slice.zarr"
    outcome = s3("slice", remote("large"), *arguments, "--to", destination, "--verify", "none", "--format", "json")
    assert outcome.code == 0, outcome.err
    xarray.testing.assert_equal(opened(destination), opened(shard).isel(positions))
    asked = [path for _, path, _ in proxy.requests if "/a/c/" in path]
    assert len(asked) == requests
    if requests > 1:
        assert outcome.json()["bytes_read"] < 2 << 20
