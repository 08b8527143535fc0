"""Nothing is lost in silence: every command at every place, with every fault of the table in `support/silence.py`.

A test is a command at a place; it tries all cells of these and reports those that fail as a table.
"""

import concurrent.futures
import os
import pathlib
import shutil
import tempfile

import numpy as np
import pytest
import xarray
import zarr

import silence
import silence_judge
import silence_stores
from conftest import ROOT
from faultproxy import FaultProxy
from silence_places import Places
from silence_runner import NoUser, Runner

DOCUMENT = ROOT / "docs" / "faults.md"
# Cells of servers mostly wait for answers that are asked for again.
THREADS = {place: 4 if place in silence.FILES else 12 for place in silence.PLACES}
SHOWN = 80


@pytest.fixture(scope="module")
def workshop(zkit):
    """What runs zkit, in a folder in memory where there is one: copies are synced."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="zkit-", dir=memory))
    folder.chmod(0o755)
    try:
        with Runner(zkit, folder) as run:
            yield run, folder
    except NoUser as why:
        pytest.skip(str(why))
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def judges(workshop):
    """A judge of each place, started once."""
    run, folder = workshop
    known, opened = {}, []

    def judge(place):
        if place not in known:
            below = folder / place.lower()
            below.mkdir()
            opened.append(Places(below))
            known[place] = silence_judge.Judge(run, opened[-1].__enter__())
        return known[place]

    yield judge
    for places in opened:
        places.__exit__()


def failures(judge, place, cells):
    """The cells that fail, as lines of a table."""
    with concurrent.futures.ThreadPoolExecutor(THREADS[place]) as pool:
        return [f"{cell}: {why}" for cell, why in zip(cells, pool.map(judge, cells), strict=True) if why is not None]


def report(found, count):
    shown = "\n".join(line.replace("\n", " ") for line in found[:SHOWN])
    return f"{len(found)} of {count} cells fail\n{shown}"


ITEMS = [(command, place) for place in silence.PLACES for command in silence.commands(place)]


@pytest.mark.parametrize(("command", "place"), ITEMS)
def test_what_cannot_be_read_is_never_lost_in_silence(judges, command, place):
    cells = list(silence.cells(command, place))
    assert cells
    found = failures(judges(place), place, cells)
    assert not found, report(found, len(cells))


@pytest.mark.parametrize("place", silence.PLACES)
def test_stores_without_a_fault_are_whole(judges, place):
    cells = list(silence.sound_cells(place))
    found = failures(judges(place), place, cells)
    assert not found, report(found, len(cells))


# ---- other judges -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [command for command in silence.COMMANDS if command in silence.WRITERS])
@pytest.mark.parametrize("layout", silence.LAYOUTS[silence.DIRECTORY])
def test_a_copy_that_is_whole_here_is_whole_to_xarray_and_zarr(judges, command, layout):
    judge, cell = judges(silence.DIRECTORY), silence.sound(command, silence.DIRECTORY, layout)
    source, folder = judge.places.source(cell), judge.places.new_folder("x")
    folder.chmod(0o777)
    copy = folder / "copy.zarr"
    outcome = judge.zkit(source, *judge.arguments(cell, source.url, copy))
    assert outcome.code == 0, outcome.err
    (truth,) = silence_judge.truths(cell)
    assert silence_stores.lost(copy, truth) == []
    root = zarr.open_group(copy, mode="r")
    for node in truth:
        found = root if node.path == "/" else root[node.path.strip("/")]
        assert node.attributes.items() <= dict(found.attrs).items()
        if node.values is not None:
            np.testing.assert_array_equal(found[...], node.values)
    dataset = xarray.open_zarr(copy, decode_cf=False)
    for node in truth:
        if node.values is not None and node.path.count("/") == 1:
            assert dataset[node.path.strip("/")].dims == node.dimensions


def test_a_store_that_lacks_anything_is_not_whole(tmp_path):
    """The judge sees what it is there to see: each document and chunk that is taken away, each value that is changed."""
    for layout in ("v2", "v3"):
        plain = silence_stores.written(silence_stores.nodes(), layout, compressed=False)
        for key in plain:
            files = {**plain}
            del files[key]
            store = tmp_path / layout / key.replace("/", "-")
            for name, body in files.items():
                (store / name).parent.mkdir(parents=True, exist_ok=True)
                (store / name).write_bytes(body)
            assert silence_stores.lost(store, silence_stores.nodes()), key
            (store / key).parent.mkdir(parents=True, exist_ok=True)
            (store / key).write_bytes(plain[key])
            assert silence_stores.lost(store, silence_stores.nodes()) == []


REAL = {"S3": "v2", "GCS": "v2", "Azure": "v3", "HTTP": "v2 consolidated"}
REFUSED = {"v2": "t2m/.zattrs", "v3": "t2m/zarr.json", "v2 consolidated": ".zmetadata"}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("command", ["audit", "digest", "recompress"])
def test_the_small_server_answers_as_the_real_one_does(judges, places, zkit, tmp_path, name, command):
    place, judge, layout = places(name), judges(name), REAL[name]
    prefix = f"{command}/s.zarr"
    for key, body in silence.files_of(layout).items():
        place.write(f"{prefix}/{key}", body)
    with FaultProxy(place.port) as proxy:
        for fault in ("nothing", "403 forbidden"):
            cell = silence.sound(command, name, layout)
            if fault != "nothing":
                proxy.rules = [{"path": REFUSED[layout].replace(".", r"\.") + "$", "status": 403}]
                cell = silence.cell_of(command, name, layout, REFUSED[layout], fault)
            small = judge.places.source(cell)
            real = place.url(prefix).replace(f":{place.port}/", f":{proxy.port}/")
            copies = [[tmp_path / f"{fault}-{number}.zarr"] if command == "recompress" else [] for number in range(2)]
            seen = [
                zkit(command, small.url, *copies[0], *silence_judge.PATIENCE, **small.environment),
                zkit(command, real, *copies[1], *silence_judge.PATIENCE, **environment_of(place, proxy.port)),
            ]
            assert seen[0].code == seen[1].code, [outcome.err for outcome in seen]
            if command == "recompress" and seen[0].code == 0:
                assert contents(copies[0][0]) == contents(copies[1][0])


def environment_of(place, port):
    return place.environment(port) if place.name != "HTTP" else {}


def contents(store):
    return {file.relative_to(store): file.read_bytes() for file in store.rglob("*") if file.is_file()}


# ---- the table --------------------------------------------------------------------------------------------------


def test_the_page_of_faults_is_the_table():
    assert DOCUMENT.read_text() == silence.markdown(), "python tests/python/support/silence.py > docs/faults.md"


def test_every_fault_is_tried_somewhere():
    tried = {(cell.fault.name, cell.target.kind) for item in ITEMS for cell in silence.cells(*item)}
    assert {(fault.name, kind) for fault in silence.FAULTS for kind in fault.kinds} <= tried
