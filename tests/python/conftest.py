"""What the checks share: the binary under test, the fixtures, stores generated once a session."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
from dataclasses import dataclass

import pytest

import bucket
import canaries
import measure
import servers
from faultproxy import FaultProxy

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
MANIFEST = json.loads((FIXTURES / "manifest.json").read_text())["fixtures"]

READABLE = [name for name, facts in MANIFEST.items() if facts["readable"]]
SOUND = [name for name in READABLE if MANIFEST[name]["valid"]]
FAULTY = [name for name in READABLE if not MANIFEST[name]["valid"]]
FOREIGN = [name for name, facts in MANIFEST.items() if facts["kind"] in ("n5", "icechunk")]

SECONDS_LIMIT, MEMORY_LIMIT_MB = 2.0, 300.0


def binary():
    """The zkit to test: `ZKIT`, or what cargo built last."""
    candidates = [
        os.environ.get("ZKIT"),
        *(ROOT / "target" / profile / "zkit" for profile in ("debug", "release")),
    ]
    for candidate in candidates:
        if candidate and pathlib.Path(candidate).is_file():
            return pathlib.Path(candidate).resolve()
    pytest.exit("no zkit to test: build it, or name it in the environment variable ZKIT", returncode=2)


@dataclass(frozen=True)
class Zkit:
    """Runs the binary with credentials that open nothing, and holds every run to the promises that hold always.

    A variable that is given as None is left out.
    """

    path: pathlib.Path

    def environment(self, **extra):
        def is_foreign(name):
            return name.startswith(("AWS_", "GOOGLE_", "AZURE_", "ZKIT_")) or name.lower().endswith("_proxy")

        kept = {name: value for name, value in os.environ.items() if not is_foreign(name)}
        offline = {"GCE_METADATA_HOST": "127.0.0.1:9", "AWS_EC2_METADATA_DISABLED": "true"}
        found = {**kept, **offline, **canaries.ENVIRONMENT, "NO_COLOR": "1", "LC_ALL": "C.UTF-8", **extra}
        return {name: value for name, value in found.items() if value is not None}

    def __call__(self, *args, timeout=60.0, cwd=None, **env):
        outcome = measure.run([self.path, *args], timeout=timeout, cwd=cwd, env=self.environment(**env))
        assert outcome.code is not None, f"{outcome.args} hung: killed after {timeout} s"
        assert not outcome.panicked, f"{outcome.args} panicked: {outcome.err}"
        told = canaries.found_in(outcome.stdout + outcome.stderr)
        assert not told, f"{outcome.args} told secrets: {told}"
        assert outcome.code in (0, 1, 2, 3, 130), (
            f"{outcome.args}: undocumented exit code {outcome.code}: {outcome.err}"
        )
        return outcome

    def start(self, *args, **options):
        """A run that goes on while the test does."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [os.fspath(arg) for arg in (self.path, *args)]
        return subprocess.Popen(command, **{**pipes, "env": self.environment(), **options})

    def json(self, *args, **kwargs):
        """The JSON document of a run that must succeed."""
        outcome = self(*args, "--format", "json", **kwargs)
        assert outcome.code == 0, f"{outcome.args}: exit {outcome.code}: {outcome.err}"
        return outcome.json()

    def digests(self, store, *args, **kwargs):
        """{path: sha256 or None} of a store, whether or not every array could be read."""
        document = self("digest", store, *args, "--format", "json", **kwargs).json()
        return {array["path"]: array["sha256"] for array in document["arrays"]}


@pytest.fixture(scope="session", autouse=True)
def told(tmp_path_factory):
    """Where what holds a secret is kept if it is no file: what any program of a test said, and what was sent to servers."""
    canaries.FOLDER = tmp_path_factory.mktemp("told")
    communicate = subprocess.Popen.communicate

    def searched(process, *args, **kwargs):
        said = communicate(process, *args, **kwargs)
        for text in said:
            canaries.search(text.encode() if isinstance(text, str) else text, f"said by {process.args}")
        return said

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "communicate", searched)
        yield


@pytest.fixture(scope="session")
def zkit():
    return Zkit(binary())


@pytest.fixture(scope="session")
def generated(tmp_path_factory):
    """The folder of stores that gen_stores writes: {family: path}."""
    import gen_stores

    folder = tmp_path_factory.mktemp("generated")
    return gen_stores.write_all(folder)


NOT_RUN = pytest.StashKey[dict]()


@pytest.fixture(scope="session")
def places(tmp_path_factory, pytestconfig):
    """A place of the conformance suite by its name, started once.

    A test of one that is not there is skipped, and why is said in the summary.
    """
    running, not_run = {}, pytestconfig.stash.setdefault(NOT_RUN, {})
    with contextlib.ExitStack() as stack:

        def place(name):
            if name not in running and name not in not_run:
                folder = tmp_path_factory.mktemp(name)
                try:
                    running[name] = stack.enter_context(servers.started(name, folder))
                except servers.NotRun as why:
                    not_run[name] = str(why)
            if name in not_run:
                pytest.skip(f"{name}: not run, {not_run[name]}")
            return running[name]

        yield place


TOLD = pytest.StashKey[list]()


def pytest_sessionfinish(session):
    """Looks for secrets in all that zkit wrote: journals, manifests, caches, reports, stores; tells what else held one."""
    factory = getattr(session.config, "_tmp_path_factory", None)
    if factory is None or factory._basetemp is None:
        return
    files = (p for p in factory.getbasetemp().rglob("*") if p.is_file() and not p.is_symlink())
    told = [p for p in files if p.stat().st_size <= canaries.SEARCHED_BYTES and canaries.found_in(p.read_bytes())]
    session.config.stash[TOLD] = told
    if told:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    for file in config.stash.get(TOLD, []):
        terminalreporter.write_line(f"FAILED: a secret is in {file}", red=True, bold=True)
    for name, why in config.stash.get(NOT_RUN, {}).items():
        terminalreporter.write_line(f"{name}: NOT RUN, {why}", yellow=True, bold=True)


@pytest.fixture
def copy_of(tmp_path):
    """Copies a fixture to where a test may change it."""

    def copy(name):
        return pathlib.Path(shutil.copytree(FIXTURES / name, tmp_path / name))

    return copy


def listing(folder):
    """Every path below a folder with its size and time of change: what must not move."""
    return {
        str(p.relative_to(folder)): (s.st_size, s.st_mtime_ns)
        for p in sorted(folder.rglob("*"))
        for s in [p.lstat()]
        if not p.is_dir()
    }


@pytest.fixture(scope="session")
def strace():
    found = shutil.which("strace")
    if not found:
        pytest.skip("strace is not installed")
    probe = subprocess.run([found, "-f", "-qq", "-o", "/dev/null", "true"], capture_output=True)
    if probe.returncode != 0:
        pytest.skip(f"strace may not trace here: {probe.stderr.decode()}")
    return found


@pytest.fixture(scope="module")
def server():
    """The port of an S3 server with an empty bucket."""
    with bucket.served() as port:
        yield port


@pytest.fixture(scope="module")
def proxy(server):
    """A proxy in front of the server, that fails as it is told to."""
    with FaultProxy(server) as running:
        yield running


@pytest.fixture(scope="module")
def objects(server):
    """What the bucket holds, seen past the proxy."""
    return bucket.Bucket(server)


@pytest.fixture
def s3(zkit, proxy):
    """Runs zkit against the proxy, with credentials that must not be printed."""
    proxy.reset()

    def run(*args, **kwargs):
        outcome = zkit(*args, **{**bucket.environment(proxy.port), **kwargs})
        assert bucket.SECRET not in outcome.err + outcome.stdout.decode(errors="replace"), "a secret was printed"
        return outcome

    return run
