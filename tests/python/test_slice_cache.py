"""`zkit slice --cache` and `zkit cache`: what is served is what xarray makes of the sources as they are now, or nothing."""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import numpy
import pytest
import xarray
import xxhash

import bucket
from conftest import listing

DIMENSIONS = ("file_id", "level", "y")
ASKED = ("--concat", "file_id", "--sel", "y=2")
# system calls at which a run may be killed: those that make, name and remove files
STEPS = "flock,fsync,syncfs,rename,renameat2,unlink,unlinkat,utimensat"


def batch(number, *, offset=0.0):
    ids = numpy.arange(3) + 10 * number
    values = numpy.random.default_rng(number).normal(size=(3, 2, 4)).astype("float32") + numpy.float32(offset)
    return xarray.Dataset(
        {"u": (DIMENSIONS, values), "v": (DIMENSIONS, values * 2)},
        coords={"file_id": ids, "level": [850, 500], "y": numpy.arange(4.0)},
    )


def write(store, dataset, *, zarr_format=2, consolidated=True):
    encoding = {name: {"chunks": (1, 2, 4)} for name in dataset.data_vars}
    dataset.to_zarr(store, mode="w", zarr_format=zarr_format, consolidated=consolidated, encoding=encoding)
    return store


class World:
    """A folder of batches and a cache beside it."""

    def __init__(self, zkit, folder):
        self.zkit, self.folder = zkit, folder
        self.sources, self.cache = folder / "sources", folder / "cache"
        self.always = ()

    def arguments(self, *options):
        return ["slice", self.sources, *ASKED, "--cache", self.cache, *self.always, *options]

    def ask(self, *options, **env):
        """The answer of a run that must succeed."""
        return self.zkit.json(*self.arguments(*options), **env)

    def expected(self):
        stores = sorted(path for path in self.sources.iterdir())
        opened = [xarray.open_zarr(store, consolidated=False).load() for store in stores]
        return xarray.concat(opened, "file_id").sel(y=2)

    def assert_answers(self, cache, *options):
        """Asks, and holds the answer to what xarray makes of the sources now."""
        answer = self.ask(*options)
        assert answer["cache"] == cache, answer
        found = xarray.open_zarr(answer["store"], consolidated=True).load()
        xarray.testing.assert_equal(found, self.expected())
        return answer

    @property
    def store(self):
        (store,) = self.cache.glob("*.zarr")
        return store

    @property
    def manifest(self):
        return self.store.with_name(self.store.name + ".manifest")


@pytest.fixture
def world(zkit, tmp_path):
    made = World(zkit, tmp_path)
    for number in range(3):
        write(made.sources / f"b{number}.zarr", batch(number))
    return made


@pytest.fixture
def cached(world):
    assert world.assert_answers("built")["cache_why"] is None
    return world


def replace(file, contents):
    """Replaces a file as careful writers do: under another name, then renamed."""
    other = file.with_name(file.name + ".new")
    other.write_bytes(contents)
    os.replace(other, file)


def flip(file):
    contents = bytearray(file.read_bytes())
    contents[-3] ^= 1
    file.write_bytes(contents)


def one_chunk(store, array="u"):
    """The largest object of an array of a cached store."""
    files = [p for p in (store / array).rglob("*") if p.is_file() and not p.name.startswith(".")]
    return max((p for p in files if p.name != "zarr.json"), key=lambda p: p.stat().st_size)


# ---- served, or built anew --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"zarr_format": 3, "consolidated": False}, {"consolidated": False}])
def test_a_second_request_is_served_without_writing(zkit, tmp_path, options):
    world = World(zkit, tmp_path)
    for number in range(3):
        write(world.sources / f"b{number}.zarr", batch(number), **options)
    world.assert_answers("built")
    before = listing(world.store)
    manifest = world.manifest.read_bytes()
    answer = world.assert_answers("hit")
    assert listing(world.store) == before and world.manifest.read_bytes() == manifest
    assert answer["source_objects_checked"] > 9 and answer["complete"]
    assert answer["slices"][0]["selections"][0]["dimension"] == "y"


def test_text_says_what_happened(cached):
    outcome = cached.zkit(*cached.arguments())
    assert outcome.code == 0
    text = outcome.stdout.decode()
    assert re.search(r"^cache +hit$", text, re.M) and str(cached.store) in text
    flip(one_chunk(cached.store))
    outcome = cached.zkit(*cached.arguments())
    assert re.search(r"^cache +rebuilt: `u/\S+` of the cached store holds other bytes", outcome.stdout.decode(), re.M)
    assert "built anew" in outcome.err


def chunk_rewritten_in_place(world):
    file = world.sources / "b1.zarr" / "u" / "0.0.0"
    before, size = file.stat(), file.stat().st_size
    dataset = batch(1, offset=1.0)
    write(world.folder / "other.zarr", dataset)
    file.write_bytes((world.folder / "other.zarr" / "u" / "0.0.0").read_bytes())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    return size, "`u/0.0.0` changed"


def chunk_replaced(world):
    other = write(world.folder / "other.zarr", batch(1, offset=1.0))
    replace(world.sources / "b1.zarr" / "u" / "0.0.0", (other / "u" / "0.0.0").read_bytes())
    return None, "`u/0.0.0` changed"


def chunk_replaced_with_its_time(world):
    file = world.sources / "b1.zarr" / "u" / "0.0.0"
    before = file.stat()
    chunk_replaced(world)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    return None, "`u/0.0.0` changed"


def attribute_changed(world):
    store = world.sources / "b0.zarr"
    document = json.loads((store / ".zmetadata").read_text())
    document["metadata"]["u/.zattrs"]["units"] = "m s-1"
    for other in world.sources.iterdir():
        (other / "u" / ".zattrs").write_text(json.dumps(document["metadata"]["u/.zattrs"]))
        (other / ".zmetadata").write_text(
            json.dumps(document) if other == store else (other / ".zmetadata").read_text()
        )
        text = json.loads((other / ".zmetadata").read_text())
        text["metadata"]["u/.zattrs"]["units"] = "m s-1"
        (other / ".zmetadata").write_text(json.dumps(text))
    return None, "`.zmetadata` changed"


def store_added(world):
    write(world.sources / "b3.zarr", batch(3))
    return None, "b3.zarr is new among the sources"


def store_gone(world):
    shutil.rmtree(world.sources / "b0.zarr")
    return None, "b0.zarr is no longer among the sources"


def store_replaced(world):
    shutil.rmtree(world.sources / "b1.zarr")
    write(world.sources / "b1.zarr", batch(1, offset=2.0))
    return None, "b1.zarr"


CHANGES = [
    chunk_rewritten_in_place,
    chunk_replaced,
    chunk_replaced_with_its_time,
    attribute_changed,
    store_added,
    store_gone,
    store_replaced,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_source_that_changes_between_two_runs_is_noticed_and_named(cached, change):
    _, why = change(cached)
    answer = cached.assert_answers("rebuilt")
    assert why in answer["cache_why"], answer["cache_why"]
    cached.assert_answers("hit")


def test_chunks_that_go_and_come_are_noticed(world):
    # the audit would keep back what is made of fill values
    options = ["--fail-on", "never"]
    world.assert_answers("built", *options)
    chunk = world.sources / "b1.zarr" / "u" / "1.0.0"
    contents = chunk.read_bytes()
    chunk.unlink()
    assert "`u/1.0.0` is gone" in world.assert_answers("rebuilt", *options)["cache_why"]
    chunk.write_bytes(contents)
    assert "`u/1.0.0` is there now" in world.assert_answers("rebuilt", *options)["cache_why"]


def test_an_array_that_is_added_to_a_store_without_consolidated_metadata_is_noticed(zkit, tmp_path):
    world = World(zkit, tmp_path)
    for number in range(2):
        write(world.sources / f"b{number}.zarr", batch(number), consolidated=False)
    world.assert_answers("built")
    for number in range(2):
        store = world.sources / f"b{number}.zarr"
        shutil.copytree(store / "u", store / "w")
    answer = world.assert_answers("rebuilt")
    assert "what lies in `/` changed" in answer["cache_why"]
    assert "w" in xarray.open_zarr(answer["store"])


def test_coordinates_that_are_compared_and_not_copied_count(cached):
    """The levels of the second batch are in no part of the slice, and still decide whether there is one."""
    (level,) = [p for p in (cached.sources / "b1.zarr" / "level").iterdir() if not p.name.startswith(".")]
    write(cached.folder / "other.zarr", batch(1).assign_coords(level=[850, 300]))
    replace(level, (cached.folder / "other.zarr" / "level" / level.name).read_bytes())
    outcome = cached.zkit(*cached.arguments())
    assert outcome.code == 3 and "`level/0` changed" in outcome.err, outcome.err


def test_with_source_check_metadata_chunks_may_change_unseen_and_metadata_may_not(cached):
    chunk_replaced(cached)
    assert cached.ask("--source-check", "metadata")["cache"] == "hit"
    attribute_changed(cached)
    assert cached.ask("--source-check", "metadata")["cache"] == "rebuilt"


def test_the_same_request_is_the_same_wherever_and_in_whichever_order_it_is_made(cached):
    options = ["--isel", "level=0", "--sel", "file_id=0..11"]
    with contextlib.chdir(cached.folder):
        first = cached.zkit.json("slice", "sources", *ASKED, "--cache", "cache", *options, cwd=cached.folder)
    assert first["cache"] == "built"
    again = ["slice", cached.sources, *options, *ASKED, "--cache", cached.cache]
    assert cached.zkit.json(*again)["cache"] == "hit"


@pytest.mark.parametrize(
    "other",
    [
        ["--sel", "level=850"],
        ["--method", "nearest"],
        ["--chunks", "file_id=2"],
        ["--codec", "zstd:3"],
        ["--zarr-format", "3"],
        ["--include", "u"],
        ["--verify", "full"],
        ["--fail-on", "never"],
    ],
    ids=" ".join,
)
def test_another_request_is_another_entry(cached, other):
    assert cached.ask(*other)["cache"] == "built"
    assert cached.ask()["cache"] == "hit"
    assert cached.ask(*other)["cache"] == "hit"
    assert len(list(cached.cache.glob("*.zarr"))) == 2


def test_points_count_by_what_the_file_holds(cached):
    points = cached.folder / "points.csv"
    points.write_text("y\n1\n2\n")
    ask = ["slice", cached.sources, "--concat", "file_id", "--points", points, "--cache", cached.cache]
    assert cached.zkit.json(*ask)["cache"] == "built"
    assert cached.zkit.json(*ask)["cache"] == "hit"
    points.write_text("y\n1\n3\n")
    answer = cached.zkit.json(*ask)
    assert answer["cache"] == "built"
    assert list(xarray.open_zarr(answer["store"]).y.values) == [1, 3]


def test_a_dry_run_says_whether_it_would_be_served_and_writes_nothing(world):
    assert world.ask("--dry-run")["cache"] == "built" and not world.cache.exists()
    world.assert_answers("built")
    before = listing(world.cache)
    answer = world.ask("--dry-run")
    assert (answer["cache"], answer["dry_run"]) == ("hit", True)
    chunk_replaced(world)
    answer = world.ask("--dry-run")
    assert answer["cache"] == "rebuilt" and "0.0.0" in answer["cache_why"] and answer["units"] > 0
    assert listing(world.cache) == before


def test_names_are_readable_and_safe(cached):
    ask = ["slice", cached.sources, "--concat", "file_id", "--cache", cached.cache, "--isel", "y=0,1"]
    answer = cached.zkit.json(*ask)
    assert re.fullmatch(r"sources_y=0,1-[0-9a-f]{16}\.zarr", pathlib.Path(answer["store"]).name)


def test_a_cache_among_the_sources_is_refused(world):
    outcome = world.zkit("slice", world.sources, *ASKED, "--cache", world.sources / "cache")
    assert outcome.code == 2 and "lies in the source" in outcome.err


# ---- sources in a bucket ----------------------------------------------------------------------------------------


class Remote:
    """Two batches in a bucket, with the same on this machine for xarray."""

    def __init__(self, zkit, folder, port, *, consolidated):
        self.zkit, self.cache, self.local = zkit, folder / "cache", folder / "local"
        self.bucket, self.environment = bucket.Bucket(port), bucket.environment(port)
        for number in range(2):
            write(self.local / f"b{number}.zarr", batch(number), consolidated=consolidated)
            self.bucket.upload(self.local / f"b{number}.zarr", f"b{number}.zarr")

    def put(self, key, contents):
        """Writes an object to the bucket and to this machine."""
        (self.local / key).parent.mkdir(exist_ok=True)
        (self.local / key).write_bytes(contents)
        self.bucket.write(key, contents)

    def ask(self, *options):
        urls = [bucket.url(f"b{number}.zarr") for number in range(2)]
        command = ["slice", *urls, *ASKED, "--cache", self.cache, *options]
        return self.zkit.json(*command, **self.environment)

    def assert_answers(self, cache, *options):
        answer = self.ask(*options)
        assert answer["cache"] == cache, answer
        stores = [xarray.open_zarr(self.local / f"b{n}.zarr", consolidated=False).load() for n in range(2)]
        found = xarray.open_zarr(answer["store"]).load()
        xarray.testing.assert_equal(found, xarray.concat(stores, "file_id").sel(y=2))
        return answer


@pytest.fixture(params=[True, False], ids=["consolidated", "not consolidated"])
def remote(zkit, tmp_path, request):
    with bucket.served() as port:
        yield Remote(zkit, tmp_path, port, consolidated=request.param)


def test_remote_sources_are_checked_by_their_metadata_or_by_all_their_objects(zkit, remote, tmp_path):
    remote.assert_answers("built")
    answer = remote.assert_answers("hit")
    everything = remote.assert_answers("hit", "--source-check", "objects")
    assert 0 < answer["source_objects_checked"] < everything["source_objects_checked"]
    other = write(tmp_path / "other.zarr", batch(1, offset=1.0))
    remote.put("b1.zarr/u/0.0.0", (other / "u" / "0.0.0").read_bytes())
    assert remote.ask()["cache"] == "hit"
    answer = remote.assert_answers("rebuilt", "--source-check", "objects")
    assert "`u/0.0.0` changed" in answer["cache_why"]
    assert remote.assert_answers("hit")["cache_why"] is None


def test_metadata_of_remote_sources_that_changes_is_noticed(remote):
    remote.assert_answers("built")
    for number in range(2):
        for key in [f"b{number}.zarr/.zmetadata", f"b{number}.zarr/u/.zattrs"]:
            if (remote.local / key).exists():
                text = (remote.local / key).read_text().replace("{", '{"added": 1,', 1)
                remote.put(key, text.encode())
    assert "changed" in remote.assert_answers("rebuilt")["cache_why"]


def test_no_secret_reaches_the_cache(remote):
    remote.ask("--storage-option", "secret_access_key=very+secret")
    texts = [p.read_bytes() for p in remote.cache.rglob("*") if p.is_file()]
    assert texts and not any(b"very+secret" in text or bucket.SECRET.encode() in text for text in texts)


# ---- damage -----------------------------------------------------------------------------------------------------


def test_one_flipped_byte_is_found_at_the_default_check(cached):
    flip(one_chunk(cached.store))
    assert "holds other bytes" in cached.assert_answers("rebuilt")["cache_why"]
    cached.assert_answers("hit")


def test_a_byte_that_rots_unseen_is_found_by_a_full_check(cached):
    chunk = one_chunk(cached.store)
    before = chunk.stat()
    flip(chunk)
    os.utime(chunk, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert cached.ask("--cache-check", "sizes")["cache"] == "hit"
    assert cached.assert_answers("rebuilt", "--cache-check", "full")["cache_why"]


@pytest.mark.parametrize("level", ["sizes", "sample", "full"])
@pytest.mark.parametrize("damage", ["removed", "truncated", "added", "replaced by a link", "store removed"])
def test_objects_that_come_and_go_are_found_at_every_check(cached, damage, level):
    chunk = one_chunk(cached.store)
    if damage == "removed":
        chunk.unlink()
    elif damage == "truncated":
        os.truncate(chunk, chunk.stat().st_size - 1)
    elif damage == "added":
        (chunk.parent / "9.9").write_bytes(b"\0")
    elif damage == "replaced by a link":
        chunk.unlink()
        chunk.symlink_to("/dev/zero")
    else:
        shutil.rmtree(cached.store)
    cached.assert_answers("rebuilt", "--cache-check", level)


def sealed(lines):
    """A manifest of these lines whose checksum holds: the first one is its head."""
    rest = b"".join(json.dumps(line).encode() + b"\n" for line in lines[1:])
    head = {**lines[0], "rest_xxh3": f"{xxhash.xxh3_64_intdigest(rest):016x}"}
    return json.dumps(head).encode() + b"\n" + rest


def forged(change):
    def forge(manifest):
        lines = [json.loads(line) for line in manifest.read_bytes().splitlines()]
        change(lines)
        manifest.write_bytes(sealed(lines))

    return forge


def put(at, field, value):
    return forged(lambda lines: lines[at].__setitem__(field, value))


def first_key(value):
    return forged(lambda lines: lines[1]["keys"].__setitem__(0, value))


def linked(manifest):
    elsewhere = manifest.with_name("elsewhere")
    manifest.rename(elsewhere)
    manifest.symlink_to(elsewhere)


def fifo(manifest):
    manifest.unlink()
    os.mkfifo(manifest)


HOSTILE = {
    "empty": lambda manifest: manifest.write_bytes(b""),
    "cut off": lambda manifest: os.truncate(manifest, manifest.stat().st_size // 2),
    "a flipped byte": flip,
    "huge": lambda manifest: os.truncate(manifest, 1 << 40),
    "a link": linked,
    "a FIFO": fifo,
    "removed": lambda manifest: manifest.unlink(),
    "rubbish": lambda manifest: manifest.write_bytes(b"\xff\x00{" * 1000),
    "deep": lambda manifest: manifest.write_bytes(b"[" * 1_000_000),
    "a newer version": put(0, "schema_version", 2),
    "another key": put(0, "key", "0" * 32),
    "another name": put(0, "name", "../../etc"),
    "more sources": put(0, "sources", 1 << 60),
    "a key that leads out": first_key("../../../etc/passwd"),
    "an absolute key": first_key("/etc/passwd"),
    "fewer sizes": put(1, "sizes", []),
    "odd stamps": put(1, "stamps", "é"),
    "fewer digests": put(-1, "digests", ""),
    "unsorted keys": forged(lambda lines: lines[-1]["keys"].reverse()),
    "another source": put(1, "id", "0" * 16),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_damaged_or_hostile_manifest_is_never_believed(cached, how):
    HOSTILE[how](cached.manifest)
    answer = cached.assert_answers("rebuilt")
    assert answer["cache_why"]
    cached.assert_answers("hit")


def test_the_forger_of_these_tests_makes_manifests_that_are_believed(cached):
    """Otherwise the tests above would show nothing but a checksum that does not hold."""
    forged(lambda lines: None)(cached.manifest)
    cached.assert_answers("hit")


def test_a_result_that_fails_its_audit_is_not_kept(world):
    for number in range(3):
        dataset = batch(number)
        for variable in dataset.data_vars.values():
            variable[:] = numpy.nan
        # NaN that is stored: without chunks they would be stubs
        dataset.to_zarr(world.sources / f"b{number}.zarr", mode="w", zarr_format=2, write_empty_chunks=True)
    outcome = world.zkit(*world.arguments())
    assert outcome.code == 3 and "not published" in outcome.err
    assert not list(world.cache.glob("*.zarr")) and not list(world.cache.glob("*.manifest*"))


# ---- runs that die, disks that fill up, two at once ---------------------------------------------------------------


def traced(world, strace, *faults, trace=STEPS):
    """Runs a request under strace with faults; returns (exit code, stderr, the log)."""
    log = world.folder / "strace.log"
    command = [strace, "-f", "-qq", "-o", log, "-e", f"trace={trace}", *faults, world.zkit.path]
    done = subprocess.run(
        [os.fspath(part) for part in [*command, *world.arguments("--jobs", "1")]],
        env=world.zkit.environment(),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    assert b"panicked" not in done.stderr, done.stderr
    return done.returncode, done.stderr.decode(), log.read_text()


def steps_of(log):
    """{system call: how often the thread that makes most of them makes it}."""
    counts = {}
    for line in log.splitlines():
        if match := re.match(r"(\d+) +(\w+)\(", line):
            counts[match.groups()] = counts.get(match.groups(), 0) + 1
    return {call: max(n for (_, other), n in counts.items() if other == call) for _, call in counts}


@pytest.mark.parametrize("beginning", ["first", "again"])
def test_a_run_that_is_killed_at_any_step_leaves_nothing_wrong(zkit, strace, tmp_path, beginning):
    def made(name):
        world = World(zkit, tmp_path / name)
        for number in range(2):
            write(world.sources / f"b{number}.zarr", batch(number))
        if beginning == "again":
            world.assert_answers("built")
            chunk_replaced(world)
        return world

    code, err, log = traced(made("undisturbed"), strace)
    assert code == 0, err
    steps = [(call, which) for call, count in steps_of(log).items() for which in range(1, count + 1)]
    assert len(steps) > 5, steps
    for call, which in steps:
        world = made(f"{call}-{which}")
        code, err, _ = traced(world, strace, "-e", f"inject={call}:signal=SIGKILL:when={which}")
        answer = world.ask()
        assert answer["cache"] in ("built", "rebuilt", "hit"), (call, which, code)
        found = xarray.open_zarr(answer["store"]).load()
        xarray.testing.assert_equal(found, world.expected())
        world.assert_answers("hit")
        left = [path.name for path in world.cache.iterdir() if ".partial" in path.name or path.name.endswith(".new")]
        assert left == [], (call, which)


def test_a_run_that_was_killed_while_it_copied_is_gone_on_with(zkit, strace, tmp_path):
    world = World(zkit, tmp_path)
    for number in range(2):
        write(world.sources / f"b{number}.zarr", batch(number))
    code, err, _ = traced(world, strace, "-e", "inject=syncfs:signal=SIGKILL:when=1")
    assert code in (-9, 137), err
    assert list(world.cache.glob("*.partial.journal"))
    answer = world.assert_answers("built")
    assert answer["resumed_objects"] > 0
    world.assert_answers("hit")


def test_what_a_killed_run_left_of_other_sources_is_not_gone_on_with(zkit, strace, tmp_path):
    world = World(zkit, tmp_path)
    for number in range(2):
        write(world.sources / f"b{number}.zarr", batch(number))
    code, err, _ = traced(world, strace, "-e", "inject=syncfs:signal=SIGKILL:when=1")
    assert code in (-9, 137), err
    chunk_replaced(world)
    assert world.assert_answers("built")["resumed_objects"] == 0


def test_what_was_gone_on_with_by_metadata_alone_is_never_served_as_checked_by_objects(zkit, strace, tmp_path):
    world = World(zkit, tmp_path)
    # else the proof shows that the parts are of two states of the source
    world.always = ("--verify", "none")
    for number in range(2):
        write(world.sources / f"b{number}.zarr", batch(number))
    code, err, _ = traced(world, strace, "-e", "inject=syncfs:signal=SIGKILL:when=1")
    assert code in (-9, 137), err
    chunk_replaced(world)
    answer = world.ask("--source-check", "metadata")
    assert answer["cache"] == "built" and answer["resumed_objects"] > 0
    assert world.ask("--source-check", "metadata")["cache"] == "hit"
    assert "does not say which objects" in world.assert_answers("rebuilt")["cache_why"]
    world.assert_answers("hit")


@pytest.mark.parametrize("where", ["store.partial/u", "manifest.new"])
@pytest.mark.parametrize("beginning", ["first", "again"])
def test_a_full_disk_is_an_error_and_the_next_run_is_right(zkit, strace, tmp_path, where, beginning):
    world = World(zkit, tmp_path)
    for number in range(2):
        write(world.sources / f"b{number}.zarr", batch(number))
    name = pathlib.Path(world.ask()["store"]).name
    if beginning == "first":
        shutil.rmtree(world.cache)
        world.cache.mkdir()
    else:
        chunk_replaced(world)
    path = world.cache / {"manifest.new": f"{name}.manifest.new", "store.partial/u": f"{name}.partial/u/.zarray"}[where]
    faults = ["-P", path, "-e", "inject=write,pwrite64,writev:error=ENOSPC:when=1+"]
    code, err, log = traced(world, strace, *faults, trace="write,pwrite64,writev")
    assert "INJECTED" in log, "nothing was written there"
    assert code == 3 and "space" in err, err
    world.assert_answers("built" if beginning == "first" else "rebuilt")
    world.assert_answers("hit")


def test_two_requests_at_once_build_once(world):
    running = [world.zkit.start(*world.arguments("--format", "json")) for _ in range(4)]
    answers = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0] * 4, answers
    assert sorted(json.loads(out)["cache"] for out, _ in answers) == ["built", "hit", "hit", "hit"]


@contextlib.contextmanager
def locked(store, how):
    with open(store.with_name(store.name + ".lock"), "r+b") as lock:
        fcntl.flock(lock, how)
        yield


def test_a_request_waits_for_who_builds_it_and_says_so(cached):
    with locked(cached.store, fcntl.LOCK_EX):
        waiting = cached.zkit.start(*cached.arguments("--format", "json"))
        said = b""
        while b"waiting for it" not in said:
            line = waiting.stderr.readline()
            assert line, "it did not wait"
            said += line
        assert str(cached.store).encode() in said
    out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0 and json.loads(out)["cache"] == "hit"


def test_the_deadline_ends_the_wait(cached):
    with locked(cached.store, fcntl.LOCK_EX):
        outcome = cached.zkit(*cached.arguments("--deadline", "300ms"))
    assert outcome.code == 3 and "waiting for it" in outcome.err and "deadline" in outcome.err


def test_a_reader_keeps_the_store_that_it_has_open(cached):
    chunk = one_chunk(cached.store)
    before = chunk.read_bytes()
    with open(chunk, "rb") as reader:
        chunk_replaced(cached)
        cached.assert_answers("rebuilt")
        assert reader.read() == before
    assert one_chunk(cached.store).read_bytes() != before


def test_a_cache_that_cannot_be_written_to_serves_and_builds_nothing(zkit):
    with tempfile.TemporaryDirectory(prefix="zkit-read-only-") as name:
        world = World(zkit, pathlib.Path(name))
        for number in range(2):
            write(world.sources / f"b{number}.zarr", batch(number))
        world.ask()
        paths = [world.folder, *world.folder.rglob("*")]
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)

        def run(*options):
            command = [zkit.path, *world.arguments(*options)]
            if os.getuid() == 0:
                setpriv = shutil.which("setpriv")
                other = setpriv and [setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups"]
                probe = other and subprocess.run([*other, zkit.path, "--version"], capture_output=True)
                if not probe or probe.returncode != 0:
                    pytest.skip("root may write everywhere, and there is no other user to run zkit as")
                command = [*other, *command]
            command = [os.fspath(part) for part in command]
            return subprocess.run(command, env=zkit.environment(), capture_output=True, cwd="/")

        served = run("--format", "json")
        assert served.returncode == 0 and json.loads(served.stdout)["cache"] == "hit", served.stderr
        missed = run("--isel", "level=0")
        for path in paths:
            if path.exists():
                path.chmod(0o755)
        assert missed.returncode == 3, missed.stderr
        assert b"cache" in missed.stderr and b"ermission denied" in missed.stderr, missed.stderr
        assert len(list(world.cache.glob("*.zarr"))) == 1


# ---- zkit cache -------------------------------------------------------------------------------------------------


@pytest.fixture
def three(cached):
    """A cache of three entries, the first one used least recently; (cache, stores in that order)."""
    stores = [cached.store]
    for level in (0, 1):
        stores.append(pathlib.Path(cached.ask("--isel", f"level={level}")["store"]))
    for age, store in zip([300, 200, 100], stores, strict=True):
        then = time.time() - 86_400 - age
        os.utime(store.with_name(store.name + ".lock"), (then, then))
        manifest = store.with_name(store.name + ".manifest")
        forged(lambda lines, then=then: lines[0].__setitem__("created", int(then)))(manifest)
    return cached.cache, stores


def test_the_list_names_every_entry_and_what_is_none(zkit, three):
    cache, stores = three
    (cache / "mine.txt").write_text("notes")
    (cache / "other.zarr").mkdir()
    answer = zkit.json("cache", "list", cache)
    assert [entry["store"] for entry in answer["entries"]] == [str(store) for store in reversed(stores)]
    assert {entry["state"] for entry in answer["entries"]} == {"complete"}
    first = answer["entries"][-1]
    assert (first["dataset"], first["selection"]) == ("sources", "y=2")
    files = [path for path in stores[0].rglob("*") if path.is_file()]
    assert (first["bytes"], first["objects"]) == (sum(p.stat().st_size for p in files), len(files))
    assert answer["foreign"] == [str(cache / "mine.txt"), str(cache / "other.zarr")]
    assert b"mine.txt" in zkit("cache", "list", cache).stdout


def test_the_list_names_what_is_built_and_what_died(zkit, three):
    cache, stores = three
    dead = cache / "dead-0123456789abcdef.zarr.partial"
    dead.mkdir()
    with locked(stores[1], fcntl.LOCK_EX):
        states = {entry["store"]: entry["state"] for entry in zkit.json("cache", "list", cache)["entries"]}
    assert states[str(stores[1])] == "building" and states[str(stores[0])] == "complete"
    assert states[str(dead).removesuffix(".partial")] == "unfinished"


def test_verification_reads_everything_back(zkit, three):
    cache, stores = three
    answer = zkit.json("cache", "verify", cache)
    assert answer["complete"] and {entry["state"] for entry in answer["entries"]} == {"sound"}
    chunk = one_chunk(stores[1])
    before = chunk.stat()
    flip(chunk)
    os.utime(chunk, ns=(before.st_atime_ns, before.st_mtime_ns))
    outcome = zkit("cache", "verify", cache, "--format", "json")
    assert outcome.code == 1
    entries = {entry["store"]: entry for entry in outcome.json()["entries"]}
    damaged = entries.pop(str(stores[1]))
    assert damaged["state"] == "damaged"
    assert [finding["key"] for finding in damaged["findings"]] == [chunk.relative_to(stores[1]).as_posix()]
    assert {entry["state"] for entry in entries.values()} == {"sound"}


def names(cache):
    return sorted(path.name for path in cache.glob("*.zarr"))


def test_pruning_says_first_and_removes_the_least_recently_used_with_yes(zkit, three):
    cache, stores = three
    sizes = {entry["store"]: entry["bytes"] for entry in zkit.json("cache", "list", cache)["entries"]}
    most = sizes[str(stores[1])] + sizes[str(stores[2])]
    before = listing(cache)
    answer = zkit.json("cache", "prune", cache, "--max-size", str(most))
    assert answer["dry_run"] and listing(cache) == before
    assert [(p["store"], p["outcome"]) for p in answer["pruned"]] == [(str(stores[0]), "would-be-removed")]
    answer = zkit.json("cache", "prune", cache, "--max-size", str(most), "--yes")
    assert [(p["store"], p["outcome"]) for p in answer["pruned"]] == [(str(stores[0]), "removed")]
    assert (answer["bytes_pruned"], answer["bytes_kept"]) == (sizes[str(stores[0])], most)
    assert names(cache) == sorted(store.name for store in stores[1:])
    assert not [path for path in cache.iterdir() if path.name.startswith(stores[0].name)]


def test_an_entry_that_was_served_is_used_last(zkit, cached, three):
    cache, stores = three
    assert cached.ask()["cache"] == "hit"
    answer = zkit.json("cache", "prune", cache, "--older-than", "1h", "--yes")
    assert [p["store"] for p in answer["pruned"]] == [str(store) for store in stores[1:]]
    assert names(cache) == [stores[0].name]


def test_an_entry_in_use_is_never_pruned(zkit, three):
    cache, stores = three
    with locked(stores[0], fcntl.LOCK_SH):
        answer = zkit.json("cache", "prune", cache, "--older-than", "1h", "--yes")
    outcomes = {p["store"]: p["outcome"] for p in answer["pruned"]}
    assert outcomes == {str(stores[0]): "in-use", str(stores[1]): "removed", str(stores[2]): "removed"}
    assert names(cache) == [stores[0].name]
    assert zkit.json("cache", "verify", cache)["entries"][0]["state"] == "sound"


def test_pruning_leaves_alone_and_names_what_is_no_entry(zkit, three):
    cache, stores = three
    orphan = cache / "orphan-0123456789abcdef.zarr"
    orphan.mkdir()
    (orphan / "zarr.json").write_text("{}")
    (cache / "home").symlink_to(cache.parent)
    stores[2].with_name(stores[2].name + ".manifest").write_text("{}")
    answer = zkit.json("cache", "prune", cache, "--max-size", "1B", "--yes")
    assert names(cache) == sorted([orphan.name, stores[2].name])
    assert answer["foreign"] == sorted([str(cache / "home"), str(orphan)])
    assert (cache / "home").is_symlink()


def test_pruning_removes_what_dead_builders_left_and_not_what_living_ones_build(zkit, strace, tmp_path):
    world = World(zkit, tmp_path)
    write(world.sources / "b0.zarr", batch(0))
    code, err, _ = traced(world, strace, "-e", "inject=syncfs:signal=SIGKILL:when=1")
    assert code in (-9, 137), err
    (lock,) = world.cache.glob("*.lock")
    with locked(lock.with_name(lock.name.removesuffix(".lock")), fcntl.LOCK_EX):
        answer = world.zkit.json("cache", "prune", world.cache, "--yes")
        assert [p["outcome"] for p in answer["pruned"]] == ["in-use"]
        assert list(world.cache.glob("*.partial"))
    answer = world.zkit.json("cache", "prune", world.cache, "--yes")
    assert [p["outcome"] for p in answer["pruned"]] == ["removed"]
    assert list(world.cache.iterdir()) == []


def test_a_cache_that_is_not_there_is_an_error(zkit, tmp_path):
    outcome = zkit("cache", "list", tmp_path / "nowhere")
    assert outcome.code == 3 and "nowhere" in outcome.err
