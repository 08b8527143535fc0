"""Runs that are begun, stopped and gone on with, and what lies beside a copy meanwhile."""

import os
import time

import layouts


def contents(store):
    return {p.relative_to(store).as_posix(): p.read_bytes() for p in sorted(store.rglob("*")) if p.is_file()}


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def partial_of(copy):
    return copy.with_name(copy.name + ".partial")


def journal_of(copy):
    return copy.with_name(copy.name + ".partial.journal")


def started(zkit, *arguments):
    # nice, so that this process sees in time how far it is
    return zkit.start(*arguments, preexec_fn=lambda: os.nice(5))


def kill(process):
    process.kill()
    process.communicate()


def poll(condition, seconds=30.0):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.002)


def wait_for_objects(process, partial, count):
    """Waits until a running copy has written so many objects; it must not have ended by then."""
    poll(lambda: process.poll() is not None or (partial.is_dir() and layouts.objects(partial) >= count))
    assert process.poll() is None, f"ended too early: {process.communicate()}"


def resume(zkit, source, copy, *options):
    """The report of a run that goes on and must finish, with nothing left beside the copy."""
    report = zkit.json("recompress", source, copy, "--resume", *options)
    assert report["complete"] and report["remaining_units"] == 0
    assert names(copy.parent) == [copy.name]
    return report


def flip(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


DAMAGE = {
    "flipped": flip,
    "truncated": lambda file: os.truncate(file, file.stat().st_size // 2),
    "emptied": lambda file: os.truncate(file, 0),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "gone": lambda file: file.unlink(),
}
