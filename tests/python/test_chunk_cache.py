"""`--chunk-cache`: what a second run fetches, what it notices, and what becomes of a cache that is killed, full or damaged."""

import concurrent.futures
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile

import pytest
import xarray
import zarr

import bucket
import copies
import web
from conftest import FIXTURES, MANIFEST, listing
from faultproxy import FaultProxy
from runs import DAMAGE

OSTIA = "ostia_sst.zarr"
SHARDED = "sharded_index_end.zarr"
STORES = (OSTIA, SHARDED, "mixed_types.zarr", "ome_image.zip")


@pytest.fixture(scope="module")
def server():
    with bucket.served() as port:
        for name in STORES:
            source = FIXTURES / name
            objects = bucket.Bucket(port)
            if source.is_dir():
                objects.upload(source, f"a/{name}")
            else:
                objects.write(f"a/{name}", source.read_bytes())
        yield port


@pytest.fixture(scope="module")
def proxy(server):
    with FaultProxy(server) as running:
        yield running


@pytest.fixture
def objects(server):
    return bucket.Bucket(server)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / "chunks"


@pytest.fixture
def s3(zkit, proxy, cache):
    """Runs zkit with the chunk cache, on objects behind the proxy, whose notes begin anew."""

    def run(*args, directory=cache, **env):
        proxy.reset(*proxy.rules)
        outcome = zkit(*args, "--chunk-cache", directory, **{**bucket.environment(proxy.port), **env})
        assert bucket.SECRET not in outcome.err + outcome.stdout.decode(errors="replace"), "a secret was printed"
        return outcome

    proxy.reset()
    return run


@pytest.fixture
def store(objects, request):
    """A store of this test alone, which it may change: its prefix in the bucket."""
    prefix = f"own/{request.node.name}/{OSTIA}"
    objects.upload(FIXTURES / OSTIA, prefix)
    return prefix


def url(name):
    return bucket.url(f"a/{name}")


def bodies(proxy, method="GET"):
    """The keys of which a body was sent: listings are none."""
    sent = [path for asked, path, status in proxy.requests if asked == method and status in (200, 206)]
    return [path for path in sent if "list-type" not in path]


def unchanged(proxy):
    return [path for _, path, status in proxy.requests if status == 304]


def entries(cache):
    return sorted(path for path in cache.glob("??/*") if len(path.name) == 30)


def disk_bytes(cache):
    """What the files of entries take, and of those that are being written."""
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in cache.glob("??/*"))


def counted(cache):
    return int((cache / "count").read_text().split()[0])


def digests(outcome):
    assert outcome.code == 0, outcome.err
    return {array["path"]: array["sha256"] for array in outcome.json()["arrays"]}


def known(name):
    return {path: array["sha256"] for path, array in MANIFEST[name]["arrays"].items()}


def digest(s3, where, **kwargs):
    return digests(s3("digest", where, "--format", "json", **kwargs))


# ---- the second run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize(
    "command",
    [
        ["digest"],
        ["inspect", "--depth", "headers"],
        ["audit", "--depth", "sample", "--fail-on", "never"],
        ["audit", "--depth", "full", "--fail-on", "never"],
    ],
    ids=lambda command: "-".join(command[:3]),
)
def test_the_second_run_fetches_no_body_and_answers_the_same(s3, zkit, proxy, name, command):
    arguments = [command[0], url(name), *command[1:], "--format", "json"]
    plain = zkit(*arguments, **bucket.environment(proxy.port))
    without = len(proxy.requests)
    first = s3(*arguments)
    assert first.code == plain.code == 0, first.err
    assert bodies(proxy)
    second = s3(*arguments)
    assert bodies(proxy) == [] and unchanged(proxy)
    assert len(proxy.requests) <= without, "the cache never costs a request"

    def answer(outcome):
        document = outcome.json()
        for traffic in ("requests", "bytes_received", "unverifiable"):
            document.pop(traffic, None)
        for variable in document.get("variables", []):
            # threads add the sums of their chunks in any order
            variable["mean"] = variable["mean"] and pytest.approx(variable["mean"], rel=1e-12)
        return document

    assert answer(first) == answer(plain)
    assert answer(second) == answer(plain)


def test_a_copy_of_what_is_kept_asks_for_no_chunk_and_is_faithful(s3, proxy, tmp_path):
    codec = "blosc:zstd:3:bitshuffle"
    for number in range(2):
        copy = tmp_path / f"copy_{number}.zarr"
        outcome = s3("recompress", url(OSTIA), copy, "--verify", "full", "--codec", codec)
        assert outcome.code == 0, outcome.err
        copies.assert_faithful(copies.Source(FIXTURES / OSTIA), copy, zarr_format="keep", codec=codec)
    # the listing has told the tags of all chunks: only the metadata is asked for
    assert bodies(proxy) == []
    assert [path for path in unchanged(proxy) if not path.endswith(".zmetadata")] == []


def test_a_slice_of_what_is_kept_fetches_no_body(s3, proxy, tmp_path):
    arguments = ("slice", url(OSTIA), "--sel", "lat=10..20", "--isel", "time=0")
    for number in range(2):
        outcome = s3(*arguments, "--to", tmp_path / f"slice_{number}.zarr")
        assert outcome.code == 0, outcome.err
    assert bodies(proxy) == []
    expected = xarray.open_zarr(FIXTURES / OSTIA).isel(time=[0]).sel(lat=slice(10, 20))
    got = xarray.open_zarr(tmp_path / "slice_1.zarr")
    for name in expected.data_vars:
        xarray.testing.assert_equal(
            got[name].drop_vars(got[name].coords).squeeze(), expected[name].drop_vars(expected[name].coords).squeeze()
        )


def test_the_environment_names_a_cache_too(zkit, proxy, cache):
    environment = {**bucket.environment(proxy.port), "ZKIT_CHUNK_CACHE": str(cache), "ZKIT_CHUNK_CACHE_SIZE": "64KiB"}
    assert zkit("digest", url(OSTIA), **environment).code == 0
    assert entries(cache) and disk_bytes(cache) <= 64 << 10
    outcome = zkit("digest", url(OSTIA), **{**environment, "ZKIT_CHUNK_CACHE_SIZE": "much"})
    assert outcome.code == 2 and "ZKIT_CHUNK_CACHE_SIZE" in outcome.err
    outcome = zkit("digest", FIXTURES / OSTIA, "--chunk-cache-size", "1GiB")
    assert outcome.code == 2 and "--chunk-cache DIR" in outcome.err


def test_what_is_local_and_what_is_written_is_not_kept(s3, cache, objects, tmp_path):
    for destination in (tmp_path / "copy.zarr", bucket.url("own/copied.zarr")):
        outcome = s3("recompress", FIXTURES / OSTIA, destination, "--verify", "full")
        assert outcome.code == 0, outcome.err
    assert entries(cache) == []


def test_a_server_that_names_no_states_is_read_each_time(zkit, cache):
    with web.served(FIXTURES) as (address, seen):
        for _ in range(2):
            seen.clear()
            got = digests(zkit("digest", f"{address}/{OSTIA}", "--chunk-cache", cache, "--format", "json"))
            assert got == known(OSTIA) and len(seen) > 30
    assert entries(cache) == []


# ---- what changes ------------------------------------------------------------------------------------------------


def changed_chunk(tmp_path):
    """A store like the fixture, of which one chunk holds other values: its folder, and the chunk's key."""
    folder = pathlib.Path(shutil.copytree(FIXTURES / OSTIA, tmp_path / "changed" / OSTIA))
    array = zarr.open_array(folder / "sst_anomaly", mode="r+")
    array[0, 0, 0] = 77
    return folder, "sst_anomaly/0.0.0"


def test_an_object_that_was_replaced_is_noticed(s3, zkit, proxy, objects, store, tmp_path):
    assert digest(s3, bucket.url(store)) == known(OSTIA)
    folder, key = changed_chunk(tmp_path)
    objects.write(f"{store}/{key}", (folder / key).read_bytes())
    expected = zkit.digests(folder)
    assert expected != known(OSTIA)
    assert digest(s3, bucket.url(store)) == expected
    assert [path.split("?")[0].endswith(key) for path in bodies(proxy)] == [True]
    outcome = s3("recompress", bucket.url(store), tmp_path / "copy.zarr")
    assert outcome.code == 0 and bodies(proxy) == [], outcome.err
    assert zkit.digests(tmp_path / "copy.zarr") == expected
    # and so does a listing notice it
    objects.write(f"{store}/{key}", (FIXTURES / OSTIA / key).read_bytes())
    outcome = s3("recompress", bucket.url(store), tmp_path / "again.zarr")
    assert outcome.code == 0, outcome.err
    assert zkit.digests(tmp_path / "again.zarr") == known(OSTIA)


def test_an_object_that_was_removed_is_absent(s3, zkit, objects, store, tmp_path):
    digest(s3, bucket.url(store))
    key = "sst_anomaly/0.0.0"
    objects.remove(f"{store}/{key}")
    folder = pathlib.Path(shutil.copytree(FIXTURES / OSTIA, tmp_path / OSTIA))
    (folder / key).unlink()
    assert digest(s3, bucket.url(store)) == zkit.digests(folder)


def test_an_object_that_may_not_be_read_any_more_is_an_error(s3, proxy):
    assert digest(s3, url(OSTIA)) == known(OSTIA)
    proxy.rules = [{"path": "sst_anomaly/0.0.0", "status": 403}]
    outcome = s3("digest", url(OSTIA), "sst_anomaly", "--format", "json")
    assert outcome.code == 3 and outcome.json()["arrays"][0]["sha256"] is None


def test_a_slice_is_published_though_an_object_was_written_again_with_the_same_bytes(
    s3, proxy, objects, store, tmp_path
):
    arguments = ("slice", bucket.url(store), "--isel", "time=0")
    assert s3(*arguments, "--to", tmp_path / "first.zarr").code == 0
    key = f"{store}/sst_anomaly/0.0.0"
    before = objects.client.head_object(Bucket=bucket.NAME, Key=key)["LastModified"]
    while objects.client.head_object(Bucket=bucket.NAME, Key=key)["LastModified"] == before:
        objects.write(key, objects.read(key))
    outcome = s3(*arguments, "--cache", tmp_path / "slices", "--format", "json")
    assert outcome.code == 0 and outcome.json()["cache"] == "built", outcome.err
    assert [path.split("?")[0].endswith("sst_anomaly/0.0.0") for path in bodies(proxy)] == [True]
    outcome = s3(*arguments, "--cache", tmp_path / "slices", "--source-check", "objects", "--format", "json")
    assert outcome.code == 0 and outcome.json()["cache"] == "hit", outcome.err


# ---- damage, kills, other processes ------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [*DAMAGE, "exchanged", "a folder", "a link"])
def test_a_damaged_entry_is_fetched_again_and_replaced(s3, proxy, cache, damage):
    digest(s3, url(OSTIA))
    every = entries(cache)
    sound = {path: path.read_bytes() for path in every}
    for number, path in enumerate(every):
        if damage in DAMAGE:
            DAMAGE[damage](path)
        elif damage == "exchanged":
            path.write_bytes(sound[every[number - 1]])
        elif damage == "a link":
            path.unlink()
            path.symlink_to("/dev/zero")
        elif number == 0:
            path.unlink()
            path.mkdir()
    outcome = s3("digest", url(OSTIA), "--format", "json")
    assert digests(outcome) == known(OSTIA)
    assert len(bodies(proxy)) == (1 if damage == "a folder" else len(every))
    if damage == "a folder":
        assert outcome.err.count("warning") == 1 and "could not keep chunks" in outcome.err
        return
    assert outcome.err == ""
    assert {path: path.read_bytes() for path in entries(cache)} == sound
    digest(s3, url(OSTIA))
    assert bodies(proxy) == []


def test_two_processes_share_one_cache(zkit, proxy, cache):
    environment = bucket.environment(proxy.port)
    runs = [(name, command) for name in (OSTIA, SHARDED) for command in ("first", "second", "third")]

    def run(run):
        name, _ = run
        arguments = ("digest", url(name), "--chunk-cache", cache, "--chunk-cache-size", "1MiB", "--format", "json")
        return name, zkit(*arguments, **environment)

    proxy.reset()
    with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
        for name, outcome in pool.map(run, runs):
            assert digests(outcome) == known(name) and outcome.err == ""
    assert disk_bytes(cache) == counted(cache) <= 1 << 20
    assert not list(cache.glob("??/*.new"))


def test_a_cache_whose_writer_was_killed_is_used_and_cleared(s3, zkit, proxy, cache):
    proxy.reset({"path": "sst_anomaly/0.[12]", "delay": 3})
    environment = zkit.environment(**bucket.environment(proxy.port))
    process = zkit.start("digest", url(OSTIA), "--chunk-cache", cache, env=environment)
    proxy.wait_for("sst_anomaly/0.1", seconds=20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    proxy.wait_until_idle(20)
    kept = len(entries(cache))
    assert kept
    # what a writer leaves that is killed in the middle: a file that nobody locks, and a count that holds it
    half = entries(cache)[0].with_name("0" * 30 + ".1-1-1.new")
    half.write_bytes(bytes(5000))
    (cache / "count").write_text((cache / "count").read_text().replace("00000", "00001", 1))
    proxy.reset()
    assert digest(s3, url(OSTIA)) == known(OSTIA)
    assert len(unchanged(proxy)) == kept
    outcome = s3("audit", url(OSTIA), "--depth", "sample", "--fail-on", "never", "--chunk-cache-size", "512KiB")
    assert outcome.code == 0 and outcome.err == "", outcome.err
    assert not half.exists()
    assert disk_bytes(cache) == counted(cache) <= 512 << 10


# ---- size --------------------------------------------------------------------------------------------------------


def test_what_was_used_last_stays_below_the_size(s3, proxy, cache):
    digest(s3, url(OSTIA))
    size = disk_bytes(cache)
    digest(s3, url("mixed_types.zarr"))
    both = disk_bytes(cache)
    assert size < both
    first = set(entries(cache))
    for number, path in enumerate(sorted(first, key=lambda path: path.stat().st_mtime_ns)):
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    digest(s3, url("mixed_types.zarr"))
    used = {path for path in first if path.stat().st_mtime > 2_000_000}
    assert used and used < first
    digest(s3, url(SHARDED))
    limit = disk_bytes(cache) - 8192
    outcome = s3("audit", url(SHARDED), "--depth", "sample", "--fail-on", "never", "--chunk-cache-size", str(limit))
    assert outcome.code == 0 and disk_bytes(cache) <= limit
    left = set(entries(cache))
    gone = sorted(path.name for path in first - left)
    assert gone and used <= left
    digest(s3, url("mixed_types.zarr"))
    assert bodies(proxy) == []


# ---- folders that cannot be used ---------------------------------------------------------------------------------


def limited(zkit, proxy, cache, bytes_most):
    """Runs zkit while no file may grow beyond a size, as on a disk that is full."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_most, bytes_most))

    command = [zkit.path, "digest", url(OSTIA), "--chunk-cache", cache, "--format", "json"]
    return subprocess.run(
        [os.fspath(part) for part in command],
        env=zkit.environment(**bucket.environment(proxy.port)),
        capture_output=True,
        preexec_fn=limit,
        timeout=60,
    )


def test_a_full_disk_is_one_warning_and_no_failure(zkit, s3, proxy, cache):
    proxy.reset()
    done = limited(zkit, proxy, cache, 8192)
    assert done.returncode == 0, done.stderr
    assert {array["path"]: array["sha256"] for array in json.loads(done.stdout)["arrays"]} == known(OSTIA)
    assert done.stderr.count(b"warning") == 1 and b"could not keep chunks in" in done.stderr, done.stderr
    assert not list(cache.glob("??/*.new"))
    assert disk_bytes(cache) == counted(cache)
    # once there is room again, all is kept
    digest(s3, url(OSTIA))
    assert digest(s3, url(OSTIA)) == known(OSTIA) and bodies(proxy) == []


def test_a_cache_that_cannot_be_written_to_is_read(zkit, proxy):
    with tempfile.TemporaryDirectory(prefix="zkit-read-only-") as name:
        cache = pathlib.Path(name) / "chunks"
        environment = zkit.environment(**bucket.environment(proxy.port))
        command = [zkit.path, "digest", url(OSTIA), "--chunk-cache", cache, "--format", "json"]
        arrays = ["sst_anomaly", "lat"]
        assert zkit(*command[1:], arrays[0], **bucket.environment(proxy.port)).code == 0
        paths = [pathlib.Path(name), cache, *cache.rglob("*")]
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = {path: path.read_bytes() for path in entries(cache)}
        if os.getuid() == 0:
            setpriv = shutil.which("setpriv")
            other = setpriv and [setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups"]
            probe = other and subprocess.run([*other, zkit.path, "--version"], capture_output=True)
            if not probe or probe.returncode != 0:
                pytest.skip("root may write everywhere, and there is no other user to run zkit as")
            command = [*other, *command]
        proxy.reset()
        done = subprocess.run([os.fspath(part) for part in command], env=environment, capture_output=True, cwd="/")
        for path in paths:
            path.chmod(0o755)
        assert done.returncode == 0, done.stderr
        assert {array["path"]: array["sha256"] for array in json.loads(done.stdout)["arrays"]} == known(OSTIA)
        assert done.stderr.count(b"warning") == 1 and b"ermission denied" in done.stderr, done.stderr
        assert len(unchanged(proxy)) == len(before) and bodies(proxy)
        assert {path: path.read_bytes() for path in entries(cache)} == before


def test_a_folder_that_cannot_be_made_is_a_warning(s3, tmp_path):
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere" / "below")
    outcome = s3("digest", url(OSTIA), "--format", "json", directory=tmp_path / "gone" / "chunks")
    assert digests(outcome) == known(OSTIA)
    assert outcome.err.count("warning") == 1 and "nothing is kept" in outcome.err, outcome.err


def test_a_folder_of_something_else_is_refused_and_left_alone(s3, proxy, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("It was")
    outcome = s3("digest", url(OSTIA), directory=tmp_path / "thesis")
    assert outcome.code == 2 and "chapter.tex" in outcome.err and "hint" in outcome.err
    assert proxy.requests == []
    assert os.listdir(tmp_path / "thesis") == ["chapter.tex"]


# ---- secrets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [("list",), ("verify",), ("prune", "--older-than", "1s", "--yes")])
def test_the_command_for_slices_says_what_the_folder_is_and_leaves_it_alone(s3, zkit, cache, action):
    digest(s3, url(SHARDED))
    before = listing(cache)
    outcome = zkit("cache", action[0], cache, *action[1:])
    assert outcome.code == 2 and "chunks that --chunk-cache keeps" in outcome.err and "hint: " in outcome.err
    assert listing(cache) == before


def test_no_secret_lies_in_the_cache(s3, cache):
    where = f"s3://AKIAEXAMPLE:hunter2@{bucket.NAME}/a/{OSTIA}"
    assert digest(s3, where, AWS_SESSION_TOKEN="t0k3n") == known(OSTIA)
    assert digest(s3, url(OSTIA)) == known(OSTIA)
    held = [(path, path.read_bytes()) for path in cache.rglob("*") if path.is_file()]
    assert len(held) > 30
    for path, text in held:
        for secret in (b"hunter2", b"AKIAEXAMPLE", b"t0k3n", bucket.SECRET.encode()):
            assert secret not in text and secret.decode() not in str(path), path


def test_what_is_kept_belongs_to_whoever_runs_zkit(s3, cache):
    digest(s3, url(SHARDED))
    assert cache.stat().st_mode & 0o777 == 0o700
