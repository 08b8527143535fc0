"""Runs one command and says how it ended, how long it took and how much memory it held at most.

Linux counts the memory of the parent that forks into a child's peak, so the command is started from this small
script (`python measure.py SECONDS COMMAND...`) rather than from a test process that has loaded half of PyPI.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """How one command ended; `code` is None where it was killed at the time limit, negative for a signal."""

    args: list
    code: int | None
    seconds: float
    cpu_seconds: float
    peak_mb: float
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)

    @property
    def err(self):
        return self.stderr.decode("utf-8", "replace")

    @property
    def panicked(self):
        return b"panicked" in self.stderr or self.code in (-6, -11, 101, 134, 139)

    def json(self):
        """The document on stdout; a ValueError that quotes the command where it is none."""
        try:
            return json.loads(self.stdout)
        except ValueError as error:
            head = self.stdout[:200].decode("utf-8", "replace")
            raise ValueError(
                f"{self.args} (exit {self.code}): stdout is not JSON ({error}): {head!r}; {self.err[:500]}"
            ) from None


def run(args, timeout=60.0, cwd=None, env=None):
    """Runs `args` and returns its Outcome; the command gets SIGKILL after `timeout` seconds."""
    args = [os.fspath(a) for a in args]
    read_end, write_end = os.pipe()
    launcher = [sys.executable, "-I", "-S", os.path.abspath(__file__), str(timeout), str(write_end), *args]
    child = subprocess.Popen(
        launcher,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        pass_fds=[write_end],
        cwd=cwd,
        env=env,
    )
    os.close(write_end)
    stdout, stderr = child.communicate()
    with os.fdopen(read_end) as report:
        measured = json.loads(report.read())
    return Outcome(
        args, measured["code"], measured["seconds"], measured["cpu_seconds"], measured["peak_mb"], stdout, stderr
    )


def main():
    timeout, report, args = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    os.set_inheritable(report, False)
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        try:
            os.execvp(args[0], args)
        except OSError as error:
            print(f"{args[0]}: {error}", file=sys.stderr)
            os._exit(127)
    timed_out = False

    def kill(_signal, _frame):
        nonlocal timed_out
        timed_out = True
        os.killpg(pid, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    _, status, usage = os.wait4(pid, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    code = None if timed_out else os.waitstatus_to_exitcode(status)
    measured = {
        "code": code,
        "seconds": time.monotonic() - started,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1024,
    }
    os.write(report, json.dumps(measured).encode())


if __name__ == "__main__":
    main()
