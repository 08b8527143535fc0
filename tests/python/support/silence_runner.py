"""Runs zkit thousands of times, as a user who is not root, and says how each run ended.

A few launchers stay, because starting Python for each run would take longer than zkit; each runs one command at a time and
measures it. Linux counts the memory of a parent that forks into a child's peak, so launchers are small.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass

import canaries

NOBODY = 65534


@dataclass
class Outcome:
    """How a run ended; `code` is None where it was killed at the time limit, negative for a signal."""

    args: list
    code: int | None
    seconds: float
    peak_mb: float
    out: str
    err: str

    @property
    def panicked(self):
        return "panicked" in self.err or self.code in (-6, -11, 101)

    def json(self):
        """The document on stdout; {} where there is none."""
        try:
            return json.loads(self.out)
        except ValueError:
            return {}


class NoUser(Exception):
    """Why runs cannot be those of a user who is not root."""


class Runner:
    """Runs the binary of a `Zkit` in any number of threads."""

    def __init__(self, zkit, folder):
        self.environment, self.folder = zkit.environment, pathlib.Path(folder)
        self.user = NOBODY if os.getuid() == 0 else None
        self.local, self.launchers, self.lock = threading.local(), [], threading.Lock()
        self.binary = os.fspath(zkit.path)
        if self.user is not None and not self._may_run(self.binary):
            self.binary = os.fspath(shutil.copy(self.binary, self.folder / "zkit"))
            os.chmod(self.binary, 0o755)
            if not self._may_run(self.binary):
                raise NoUser("needs a user that is not root, or the right to become one")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for launcher in self.launchers:
            launcher.stdin.close()
            launcher.wait()

    def _may_run(self, binary):
        process = self._launcher()
        outcome = self._ask(process, [binary, "--version"], {}, 20, self.folder)
        process.stdin.close()
        process.wait()
        return outcome["code"] == 0

    def _launcher(self):
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self.folder,
            text=True,
        )

    def _ask(self, process, command, environment, timeout, cwd):
        wish = {"args": command, "env": environment, "timeout": timeout, "cwd": os.fspath(cwd), "user": self.user}
        process.stdin.write(json.dumps(wish) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise NoUser("a launcher ended")
        return json.loads(line)

    def __call__(self, *args, cwd=None, timeout=20.0, **variables):
        process = getattr(self.local, "process", None)
        if process is None:
            process = self.local.process = self._launcher()
            with self.lock:
                self.launchers.append(process)
        home = {"HOME": os.fspath(self.folder), "TMPDIR": os.fspath(self.folder)}
        args = [os.fspath(arg) for arg in args]
        environment = self.environment(**{**home, **variables})
        found = self._ask(process, [self.binary, *args], environment, timeout, cwd or self.folder)
        secrets = canaries.found_in((found["out"] + found["err"]).encode())
        assert not secrets, f"{args} printed secrets: {secrets}"
        return Outcome(args, found["code"], found["seconds"], found["peak_mb"], found["out"], found["err"])


# Reads one wish a line, answers with one line.
LAUNCHER = r"""
import json, os, signal, sys, time

def run(wish):
    out, err = os.memfd_create("out"), os.memfd_create("err")
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            os.chdir(wish["cwd"])
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            if wish["user"] is not None:
                os.setgroups([])
                os.setgid(wish["user"])
                os.setuid(wish["user"])
            os.execve(wish["args"][0], wish["args"], wish["env"])
        except OSError as error:
            os.write(2, str(error).encode())
            os._exit(127)
    late = []

    def kill(*_):
        try:
            os.kill(pid, signal.SIGKILL)
            late.append(True)
        except ProcessLookupError:
            pass  # it ended just now

    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, wish["timeout"])
    _, status, usage = os.wait4(pid, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    texts = []
    for file in (out, err):
        os.lseek(file, 0, os.SEEK_SET)
        texts.append(os.read(file, 1 << 22).decode("utf-8", "replace"))
        os.close(file)
    return {
        "code": None if late else os.waitstatus_to_exitcode(status),
        "seconds": time.monotonic() - started,
        "peak_mb": usage.ru_maxrss / 1024,
        "out": texts[0],
        "err": texts[1],
    }

for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
"""
