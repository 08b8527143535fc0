"""A network that breaks, stalls and lies: what arrives is right, or the run says what is wrong."""

import collections
import contextlib
import dataclasses
import pathlib
import time

import numpy
import pytest
import xarray
import zarr

import far_server
from faultproxy import FaultProxy
from fields import opened

TIMES = 24


def field():
    values = numpy.random.default_rng(2).normal(size=(TIMES, 64, 64)).astype("float32")
    return xarray.Dataset({"a": (("time", "y", "x"), values)})


@pytest.fixture
def far(tmp_path):
    folder = tmp_path / "far"
    # without a checksum in any codec
    field().to_zarr(
        folder / "plain.zarr",
        mode="w",
        zarr_format=2,
        consolidated=True,
        encoding={"a": {"chunks": (1, 64, 64), "compressors": None}},
    )
    summed = {"chunks": (1, 64, 64), "compressors": [zarr.codecs.Crc32cCodec()]}
    field().to_zarr(folder / "summed.zarr", mode="w", zarr_format=3, consolidated=False, encoding={"a": summed})
    with far_server.served(folder, latency=0.0) as running:
        yield running


@pytest.fixture
def digest(zkit, far):
    """The JSON and the messages of a digest that ends with one of the codes."""

    def digest(*arguments, codes=(0,)):
        outcome = zkit("digest", "s3://far/plain.zarr", *arguments, "--format", "json", **far.environment)
        assert outcome.code in codes, f"exit {outcome.code}: {outcome.err}"
        return outcome.json(), outcome.err

    return digest


@pytest.fixture
def expected(zkit, far):
    return zkit.digests(far.folder / "plain.zarr")["/a"]


def once(pattern, fault, times=1):
    """A fault of the first answers for paths that end so."""
    left = {"times": times}

    def breaks(method, path):
        if method != "GET" or not path.endswith(pattern) or left["times"] == 0:
            return None
        left["times"] -= 1
        return fault

    return breaks


@pytest.mark.parametrize(
    "fault",
    [{"truncate": 5000}, {"truncate": 0}, {"stall": 5000, "seconds": 30}, {"flip": 40}],
    ids=["cut", "cut at once", "stalled", "flipped"],
)
def test_a_body_that_is_broken_is_fetched_again(far, digest, expected, fault):
    far.fault = once("/a/3.0.0", fault)
    document, _ = digest("--timeout", "1s")
    assert document["arrays"][0]["sha256"] == expected
    assert document["retries"] >= 1
    assert len([path for _, path, _ in far.requests if path.endswith("/a/3.0.0")]) == 2


def test_of_a_body_that_is_cut_only_the_rest_is_asked_for(far, digest, expected):
    far.fault = once("/a/3.0.0", {"truncate": 5000})
    document, _ = digest()
    assert document["arrays"][0]["sha256"] == expected
    assert [status for _, path, status in far.requests if path.endswith("/a/3.0.0")] == [200, 206]


@pytest.mark.parametrize("fault", [{"truncate": 5}, {"stall": 5, "seconds": 30}], ids=["cut", "stalled"])
def test_what_is_not_there_is_absent_even_if_the_answer_breaks_off_in_its_explanation(far, digest, expected, fault):
    far.fault = once("/zarr.json", fault)
    document, _ = digest("--timeout", "1s")
    assert document["arrays"][0]["sha256"] == expected
    assert [status for _, path, status in far.requests if path.endswith("/zarr.json")] == [404]


@pytest.mark.parametrize("count", [1, 7, TIMES])
def test_answers_that_hang_are_waited_for_at_the_same_time(zkit, far, tmp_path, count):
    hung = {f"/far/plain.zarr/a/{number}.0.0" for number in range(count)}
    far.fault = lambda method, path: hung.discard(path) or KINDS["hung"] if path in hung else None
    arguments = ["--isel", "y=5", "--to", tmp_path / "slice.zarr", "--verify", "none", "--timeout", "1s"]
    begun = time.monotonic()
    outcome = zkit("slice", "s3://far/plain.zarr", *arguments, **far.environment)
    seconds = time.monotonic() - begun
    assert outcome.code == 0, outcome.err
    assert not hung
    # a time-out and a try more, however many there are
    assert 1 <= seconds < 3
    xarray.testing.assert_equal(opened(tmp_path / "slice.zarr"), field().isel(y=5))


def test_a_bit_that_is_flipped_each_time_is_corrupt(far, digest):
    far.fault = once("/a/3.0.0", {"flip": 40}, times=100)
    document, _ = digest(codes=(1,))
    array = document["arrays"][0]
    assert array["sha256"] is None
    assert "a/3.0.0" in array["error"] and "what arrives is not what was stored; md5" in array["error"]


def test_a_server_that_names_no_checksum_is_unverifiable(far, digest, expected):
    document, _ = digest()
    assert document["arrays"][0]["sha256"] == expected
    assert document["unverifiable"] == 0
    far.tag = lambda tag: f"{tag}-2"
    document, _ = digest()
    assert document["unverifiable"] == TIMES + 1


def test_what_a_codec_sums_up_needs_no_checksum_of_the_server(zkit, far, tmp_path, expected):
    far.tag = lambda tag: f"{tag}-2"
    read = ("s3://far/summed.zarr", "--format", "json")
    document = zkit("digest", *read, **far.environment).json()
    documents = document["unverifiable"]
    assert document["arrays"][0]["sha256"] == expected and 0 < documents < 5
    decoded = zkit(
        "recompress", *read, tmp_path / "decoded.zarr", "--codec", "zstd:1", "--verify", "none", **far.environment
    )
    # its documents are read again before it is published
    assert decoded.json()["unverifiable"] == 2 * documents
    # what is copied byte for byte is decoded by nobody
    copied = zkit(
        "recompress", *read, tmp_path / "copied.zarr", "--codec", "keep", "--verify", "none", **far.environment
    )
    assert copied.json()["unverifiable"] >= TIMES
    far.fault = once("/c/3/0/0", {"flip": 40}, times=100)
    damaged = zkit("digest", *read, **far.environment)
    assert damaged.code == 1 and "c/3/0/0" in damaged.json()["arrays"][0]["error"]


def test_tags_that_look_like_md5_and_are_none_can_be_ignored(zkit, far, digest, expected):
    far.tag = lambda tag: tag[::-1]
    outcome = zkit("digest", "s3://far/plain.zarr", **far.environment)
    assert outcome.code == 3 and "--store-checksums ignore" in outcome.err
    document, _ = digest("--store-checksums", "ignore")
    assert document["arrays"][0]["sha256"] == expected
    assert document["unverifiable"] == TIMES + 1


def test_refusals_are_waited_out_as_the_server_asks(far, digest, expected):
    far.fault = once("", {"status": 503, "headers": {"Retry-After": "2"}}, times=1)
    begun = time.monotonic()
    document, _ = digest()
    assert time.monotonic() - begun >= 2
    assert document["arrays"][0]["sha256"] == expected
    assert document["throttled"] == 1 and document["retries"] == 1


def test_a_server_that_asks_for_too_much_patience_is_not_waited_for(far, digest):
    far.fault = once("/a/3.0.0", {"status": 429, "headers": {"Retry-After": "86400"}}, times=100)
    begun = time.monotonic()
    document, _ = digest(codes=(3,))
    assert time.monotonic() - begun < 30
    assert "the server asks to wait 86400" in document["arrays"][0]["error"]


def test_many_refusals_at_once_are_passed_through(far, digest, expected):
    seen = {}

    def refuses(method, path):
        seen[path] = seen.get(path, 0) + 1
        return {"status": 503} if "/a/" in path and seen[path] == 1 else None

    far.fault = refuses
    document, _ = digest()
    assert document["arrays"][0]["sha256"] == expected
    assert document["throttled"] >= TIMES


def test_a_large_object_on_a_slow_link_is_no_time_out(far, digest, expected):
    far.bytes_per_second = 8 << 10
    document, _ = digest("--timeout", "1s")
    # 16 KiB a chunk: two seconds each
    assert document["arrays"][0]["sha256"] == expected
    assert document["retries"] == 0


def test_a_shard_that_changes_while_it_is_read_is_an_error(zkit, far, tmp_path):
    def write(seed):
        values = numpy.random.default_rng(seed).normal(size=(8, 512, 512)).astype("float32")
        encoding = {"a": {"chunks": (1, 64, 512), "shards": (8, 512, 512)}}
        xarray.Dataset({"a": (("time", "y", "x"), values)}).to_zarr(
            far.folder / "shards.zarr", mode="w", zarr_format=3, consolidated=False, encoding=encoding
        )

    write(1)
    far.changes = lambda path, headers: "/a/c/" in path and "range" in headers and write(2)
    arguments = ["--isel", "y=5", "--isel", "time=3", "--to", tmp_path / "slice.zarr", "--verify", "none"]
    outcome = zkit("slice", "s3://far/shards.zarr", *arguments, **far.environment)
    assert outcome.code == 3, outcome.err
    assert "changed while it was read" in outcome.err
    assert not (tmp_path / "slice.zarr").exists()


KINDS = {
    "429": {"status": 429},
    "500": {"status": 500},
    "503": {"status": 503},
    "reset": {"drop": True},
    "cut": {"truncate": 90},
    "stalled": {"stall": 90, "seconds": 30},
    "hung": {"stall": 0, "seconds": 30},
    "flipped": {"flip": 70},
}
COMMANDS = {
    "inspect": ["--depth", "headers"],
    "digest": [],
    "audit": ["--depth", "full", "--fail-on", "never"],
    "recompress": ["--codec", "zstd:1", "--verify", "full"],
    "slice": ["--isel", "y=5", "--verify", "full"],
}


@dataclasses.dataclass
class Served:
    """A store behind something that breaks answers, and where it lies."""

    breaker: far_server.Far | FaultProxy
    url: str
    folder: pathlib.Path
    environment: dict
    # whether the server names checksums of whole objects
    has_checksums: bool


@pytest.fixture(scope="module", params=["S3", "HTTP"])
def chunks(request, tmp_path_factory, places):
    """Many chunks without a checksum in any codec."""
    is_web = request.param == "HTTP"
    folder = (places("HTTP").root if is_web else tmp_path_factory.mktemp("chunks")) / "faults"
    values = numpy.random.default_rng(7).normal(size=(150, 16, 16)).astype("float32")
    encoding = {"a": {"chunks": (1, 16, 16), "compressors": None}}
    dataset = xarray.Dataset({"a": (("time", "y", "x"), values)})
    dataset.to_zarr(folder / "plain.zarr", mode="w", zarr_format=2, consolidated=True, encoding=encoding)
    with contextlib.ExitStack() as stack:
        if is_web:
            web = places("HTTP")
            proxy = stack.enter_context(FaultProxy(web.port))
            url = web.url("faults/plain.zarr").replace(f":{web.port}", f":{proxy.port}")
            yield Served(proxy, url, folder / "plain.zarr", web.environment(), has_checksums=False)
        else:
            far = stack.enter_context(far_server.served(folder, latency=0.0))
            yield Served(far, "s3://far/plain.zarr", folder / "plain.zarr", far.environment, has_checksums=True)


def now_and_then(kinds, share):
    random = numpy.random.default_rng(5)
    struck_before = collections.Counter()

    def fault(method, path):
        struck = kinds[random.integers(len(kinds))] if random.random() < share else None
        # what servers list has no checksum, and its parts none of the whole; what is never right is given up
        if (struck == KINDS["flipped"] and "list-type" in path) or struck_before[path] == 2:
            return None
        struck_before[path] += struck is not None
        return struck

    return fault


@pytest.mark.parametrize("kinds", [*([kind] for kind in KINDS), list(KINDS)], ids=lambda kinds: "+".join(kinds))
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_read_through_faults_is_equal(zkit, chunks, tmp_path, command, kinds):
    # nothing says of parts, and of objects without a checksum, that a bit of them is flipped
    if (command == "inspect" or not chunks.has_checksums) and "flipped" in kinds:
        kinds = [kind for kind in kinds if kind != "flipped"] or ["cut"]
    destination = [tmp_path / "copy.zarr"] if command == "recompress" else []
    destination = ["--to", tmp_path / "copy.zarr"] if command == "slice" else destination
    arguments = [*destination, *COMMANDS[command], "--timeout", "1s", "--format", "json"]
    chunks.breaker.reset()
    # all together are as rare as on a bad day
    chunks.breaker.fault = now_and_then([KINDS[kind] for kind in kinds], 0.02 if len(kinds) > 1 else 0.05)
    outcome = zkit(command, chunks.url, *arguments, **chunks.environment)
    assert outcome.code == 0, outcome.err
    answer = outcome.json()
    values = xarray.open_zarr(chunks.folder)["a"].load()
    if command == "digest":
        assert answer["arrays"][0]["sha256"] == zkit.digests(chunks.folder)["/a"]
        assert answer["retries"] > 0
        assert (answer["unverifiable"] == 0) == chunks.has_checksums
    elif command == "inspect":
        assert answer["complete"] and answer["arrays"][0]["chunks_stored"] == 150
    elif command == "audit":
        [variable] = answer["variables"]
        assert (variable["elements"], variable["nan"]) == (values.size, 0)
        assert (variable["min"], variable["max"]) == (values.min(), values.max())
    else:
        expected = values if command == "recompress" else values.isel(y=5)
        xarray.testing.assert_equal(opened(tmp_path / "copy.zarr")["a"], expected)
        assert answer["retries"] > 0


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "inspect"])
def test_without_a_checksum_of_the_server_a_flipped_bit_is_caught_by_that_of_a_codec(zkit, places, tmp_path, command):
    web = places("HTTP")
    folder = web.root / "flips" / command / "checked.zarr"
    array = zarr.create_array(
        folder,
        name="a",
        shape=(40, 16),
        chunks=(1, 16),
        dtype="<f4",
        compressors=[zarr.codecs.Crc32cCodec()],
        dimension_names=["time", "y"],
    )
    array[...] = numpy.random.default_rng(3).normal(size=(40, 16))
    zarr.consolidate_metadata(folder)
    with FaultProxy(web.port) as proxy:
        proxy.reset({"path": "a/c/7/0$", "method": "GET", "flip": 33})
        url = web.url(f"flips/{command}/checked.zarr").replace(f":{web.port}", f":{proxy.port}")
        copy = tmp_path / "copy.zarr"
        destination = {"recompress": [copy], "slice": ["--to", copy]}.get(command, [])
        outcome = zkit(command, url, *destination, *COMMANDS[command], "--format", "json", **web.environment())
    if command == "audit":
        [finding] = [finding for finding in outcome.json()["findings"] if finding["rule"] == "corrupt-chunk"]
        assert finding["chunks"] == [[[7, 0], [7, 0]]]
    else:
        assert outcome.code == (1 if command == "digest" else 3), outcome.err
        said = outcome.stdout.decode() + outcome.err
        assert "crc32c" in said and "c/7/0` of `/a`" in said
    assert not copy.exists()
