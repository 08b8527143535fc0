"""What zkit prints is true: commands that it advises run, options that it names exist, numbers that it promises come."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numcodecs
import numpy as np
import pytest
import zarr

import promises
from conftest import FIXTURES, READABLE, ROOT
from gen_values import weather

WITHIN = 2.0


@pytest.fixture(scope="session")
def helped(zkit):
    return promises.Help(zkit)


@pytest.fixture(scope="session")
def shell(zkit, tmp_path_factory):
    """Runs a line as a user would paste it: `zkit` and `python` are on the path."""
    programs = tmp_path_factory.mktemp("programs")
    (programs / "zkit").symlink_to(zkit.path)
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python").chmod(0o755)
    environment = zkit.environment(PATH=f"{programs}:{os.environ['PATH']}")

    def run(line, folder):
        return subprocess.run(
            line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
        )

    return run


# ---- advice of inspect ------------------------------------------------------------------------------------------


def rain(shape):
    """What shuffles do not help: mostly zeros, in runs."""
    random = np.random.default_rng(3)
    values = random.gamma(0.4, 2.0, shape).astype("f4")
    return np.where(random.random(shape) < 0.9, 0, values.round(1)).astype("f4")


def small(array, shape):
    array[...] = weather(shape)


# Stores that draw advice: how an array of each is made.
ADVISED = {
    "zlib": {"shape": (40, 90, 180), "chunks": (10, 90, 180), "compressors": numcodecs.Zlib(1)},
    "zstd": {"shape": (40, 90, 180), "chunks": (10, 90, 180), "compressors": numcodecs.Zstd(1)},
    "raw": {"shape": (40, 90, 180), "chunks": (10, 90, 180), "compressors": None},
    "tiny chunks": {"shape": (40, 90, 180), "chunks": (1, 3, 9), "compressors": numcodecs.Zlib(1)},
    "one chunk": {"shape": (40, 90, 180), "chunks": (40, 90, 180), "compressors": numcodecs.Zlib(1)},
    "rain in zlib": {"shape": (40, 90, 180), "chunks": (10, 90, 180), "compressors": numcodecs.Zlib(1), "values": rain},
    "it's in zstd": {"shape": (40, 90, 180), "chunks": (10, 90, 180), "compressors": numcodecs.Zstd(1), "values": rain},
}


@pytest.fixture(scope="module")
def advised(tmp_path_factory):
    """A store of each kind, in a folder of its own: {kind: folder}, the store is `KIND.zarr` in it."""
    found = {}
    for kind, how in ADVISED.items():
        folder = found[kind] = tmp_path_factory.mktemp("advised")
        root = zarr.open_group(folder / f"{kind}.zarr", mode="w", zarr_format=2)
        array = root.create_array("t2m", dtype="f4", **{k: v for k, v in how.items() if k != "values"})
        array[...] = how.get("values", weather)(how["shape"])
        array.attrs["_ARRAY_DIMENSIONS"] = ["time", "lat", "lon"]
    return found


ACCESSES = (None, "maps", "time-series", "points")


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("kind", ADVISED)
def test_advice_of_inspect_runs_as_it_is_printed(zkit, shell, advised, kind, access):
    folder, store = advised[kind], f"{kind}.zarr"
    advice = zkit.json("inspect", store, *(["--access", access] if access else []), cwd=folder)["advice"]
    for one in filter(lambda one: one["command"], advice):
        for left in folder.glob("*-new.zarr"):
            shutil.rmtree(left)
        done = shell(one["command"], folder)
        assert done.returncode == 0, f"{one['command']}: {done.stderr}"
        for copy in folder.glob("*-new.zarr"):
            assert zkit("compare", folder / store, copy).code == 0
            promised_smaller = re.search(r"smaller|compress", one["what"] + one["why"])
            if promised_smaller and "chunk" not in one["rule"]:
                assert stored(copy) <= 1.02 * stored(folder / store), f"{one['rule']}: {one['what']}; {one['why']}"


def stored(store):
    return sum(file.stat().st_size for file in store.rglob("*") if file.is_file() and not file.name.startswith("."))


def test_some_advice_was_tried(zkit, advised):
    rules = {
        one["rule"]
        for kind, folder in advised.items()
        for one in zkit.json("inspect", f"{kind}.zarr", "--access", "time-series", cwd=folder)["advice"]
        if one["command"]
    }
    assert len(rules) >= 2, rules


def test_advice_about_fixtures_and_generated_stores_runs(zkit, shell, generated, tmp_path):
    stores = [FIXTURES / name for name in READABLE] + list(generated.values())
    failed = []
    for store in stores:
        if not store.is_dir():
            continue
        folder = tmp_path / store.name
        shutil.copytree(store, folder / store.name)
        document = zkit("inspect", store.name, "--format", "json", cwd=folder).json()
        for one in filter(lambda one: one["command"], document["advice"]):
            shutil.rmtree(folder / f"{store.stem}-new.zarr", ignore_errors=True)
            done = shell(one["command"], folder)
            if done.returncode:
                failed.append(f"{one['command']}: {done.stderr.strip()}")
    assert not failed, "\n".join(failed)


# ---- remedies of audit ------------------------------------------------------------------------------------------


def batch(folder, name, ids, zarr_format=3, **values):
    """A store of fields by id."""
    root = zarr.open_group(folder / name, mode="w", zarr_format=zarr_format)
    dimensions = {"file_id": ["file_id"], "t2m": ["file_id", "y"]}
    data = {"file_id": np.array(ids, "i8"), "t2m": np.arange(len(ids) * 8, dtype="f4").reshape(-1, 8), **values}
    for key, value in data.items():
        options = {"dimension_names": dimensions[key]} if zarr_format == 3 else {}
        array = root.create_array(key, shape=value.shape, chunks=(1, *value.shape[1:]), dtype=value.dtype, **options)
        array[...] = value
        if zarr_format == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = dimensions[key]
    return folder / name


def duplicates_in_one(folder):
    return [batch(folder, "a.zarr", [1, 2, 2, 3], t2m=np.array([[1] * 8, [2] * 8, [2] * 8, [3] * 8], "f4"))]


def duplicates_in_two(folder):
    return [batch(folder, "a.zarr", [1, 2, 3]), batch(folder, "b.zarr", [3, 4, 5])]


def two_formats(folder):
    return [batch(folder, f"{n}.zarr", [3 * n, 3 * n + 1], zarr_format=2 if n == 4 else 3) for n in range(5)]


def small_chunks(folder):
    root = zarr.open_group(folder / "a.zarr", mode="w", zarr_format=2)
    array = root.create_array("t2m", shape=(5000,), chunks=(2,), dtype="f4")
    array[...] = np.arange(5000)
    return [folder / "a.zarr"]


FAULTY_CACHES = {
    function.__name__: function for function in (duplicates_in_one, duplicates_in_two, two_formats, small_chunks)
}


@pytest.mark.parametrize("kind", FAULTY_CACHES)
def test_commands_that_audit_gives_as_a_remedy_run(zkit, shell, tmp_path, kind):
    stores = FAULTY_CACHES[kind](tmp_path)
    report = zkit("audit", ".", "--format", "json", cwd=tmp_path).json()
    remedies = {finding["remedy"]: finding for finding in report["findings"] if finding["remedy"]}
    failed = []
    for remedy, finding in remedies.items():
        for line in promises.LINE.finditer(remedy):
            command = filled_in(line[0].strip(), finding, stores, tmp_path)
            done = shell(command, tmp_path)
            if done.returncode:
                failed.append(f"{finding['rule']}: {command}: exit {done.returncode}: {done.stderr.strip()}")
            shutil.rmtree(tmp_path / "remedied.zarr", ignore_errors=True)
    assert not failed, "\n".join(failed)


def filled_in(command, finding, stores, folder):
    """A remedy with what its placeholders stand for: stores of the finding, a new name, the other format."""
    named = [store.name for store in stores]
    store = pathlib.Path(finding["store"]).name
    values = {
        "STORE...": " ".join(named),
        "STORE": store if store in named else named[0],
        "SOURCE": store if store in named else named[0],
        "ODD": store if store in named else named[-1],
        "DST": "remedied.zarr",
        "DESTINATION": "remedied.zarr",
        "NEW": "remedied.zarr",
        "COPY.zarr": "remedied.zarr",
        "N": "3",
    }
    pattern = "|".join(re.escape(name) for name in sorted(values, key=len, reverse=True))
    return re.sub(rf"(?<![\w.]){'(' + pattern + ')'}(?![\w])", lambda found: values[found[0]], command)


# ---- options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", promises.COMMANDS)
def test_every_option_in_a_help_text_exists(helped, command):
    for name in (command, *(f"{command} {sub}" for sub in promises.SUBCOMMANDS.get(command, ()))):
        text = re.sub(r"\s*\n\s+(?![-\s])", " ", helped.text(name))
        assert helped.unknown(text, command) == [], name


def test_every_option_in_the_explanations_of_rules_exists(zkit, helped):
    text = re.sub(r"(?<!\n)\n(?!\n)\s*", " ", zkit("audit", "--explain", "all").stdout.decode())
    assert helped.unknown(text) == []


# `inspect` advises other commands
CRATES = {f"zkit-{command}": command for command in promises.COMMANDS if command != "inspect"}


def test_every_option_in_a_message_of_the_source_exists(helped):
    """Of the crate of a command: an option of that command; of what commands share: of any."""
    unknown = []
    for crate in sorted((ROOT / "crates").iterdir()):
        for file in sorted((crate / "src").rglob("*.rs")):
            if "tests" in file.parts or file.name in ("tests.rs", "samples.rs"):
                continue
            for text in promises.string_literals(file.read_text()):
                # what is given to another program, and formats of output, are not for readers
                found = helped.unknown(text, CRATES.get(crate.name)) if "--" in text and " " in text else []
                unknown += [f"{file.relative_to(ROOT)}: {one}: {text[:80]}" for one in found]
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{file.name}" for file in sorted((ROOT / "docs").glob("*.md")))])
def test_every_option_of_a_command_in_the_documentation_exists(helped, page):
    text = (ROOT / page).read_text()
    unknown = []
    for line in promises.LINE.finditer(text):
        unknown += [
            f"{line[0]}: --{name}" for name in promises.OPTION.findall(line[2]) if name not in helped.options(line[1])
        ]
    assert not unknown, "\n".join(unknown)


# ---- hints ------------------------------------------------------------------------------------------------------


def corrupted(folder):
    root = zarr.open_group(folder / "corrupt.zarr", mode="w", zarr_format=2)
    array = root.create_array("t2m", shape=(4, 8), chunks=(2, 8), dtype="f4", compressors=numcodecs.Zlib(1))
    array[...] = weather((4, 8))
    array.attrs["_ARRAY_DIMENSIONS"] = ["time", "x"]
    (folder / "corrupt.zarr" / "t2m" / "1.0").write_bytes(b"\x78\x9cnot zlib at all")


def years(folder):
    """Two years of one dataset; the second with its rows turned round; a broken one; a folder that is none; one that is there."""
    for name, start, rows in (("a", 0, [0.0, 1, 2]), ("b", 4, [0.0, 1, 2]), ("reversed", 8, [2.0, 1, 0])):
        root = zarr.open_group(folder / f"{name}.zarr", mode="w", zarr_format=2)
        data = {"time": np.arange(start, start + 4), "lat": np.array(rows), "t2m": weather((4, 3))}
        for key, value in data.items():
            array = root.create_array(key, shape=value.shape, chunks=value.shape, dtype=value.dtype)
            array[...] = value
            array.attrs["_ARRAY_DIMENSIONS"] = ["time", "lat"] if key == "t2m" else [key]
        root["time"].attrs["units"] = "days since 2000-01-01"
    shutil.copytree(folder / "a.zarr", folder / "there.zarr")
    shutil.copytree(folder / "a.zarr", folder / "broken.zarr")
    (folder / "broken.zarr" / "t2m" / ".zarray").write_text("{")
    (folder / "places.csv").write_text("lat,station\n1,x\n")
    (folder / "empty").mkdir()
    corrupted(folder)


# Command lines that end in a hint. The first word of each is the command.
MISTAKES = {
    "a destination that is there": "recompress a.zarr there.zarr",
    "a slice that is there": "slice a.zarr --to there.zarr",
    "no such codec option": "recompress a.zarr o.zarr --codec zstd:3 --prefer speed",
    "shards in v2": "recompress a.zarr o.zarr --shards auto",
    "chunks of no dimension": "recompress a.zarr o.zarr --chunks depth=3",
    "many stores": "recompress a.zarr b.zarr there.zarr empty",
    "broken": "recompress broken.zarr o.zarr",
    "a broken slice": "slice broken.zarr --to o.zarr",
    "corrupt": "recompress corrupt.zarr o.zarr --codec zstd:1",
    "a corrupt slice": "slice corrupt.zarr --to o.zarr",
    "no codec for a slice": "slice a.zarr --to o.zarr --codec auto",
    "no such value": "slice a.zarr --sel lat=0.5 --to o.zarr",
    "too far": "slice a.zarr --sel lat=7 --method nearest --tolerance 0.5 --to o.zarr",
    "too far, exactly": "slice a.zarr --sel lat=7 --to o.zarr",
    "no such dimension": "slice a.zarr --sel latitude=1 --to o.zarr",
    "a Python slice": "slice a.zarr --isel time=1:3 --to o.zarr",
    "a position that is none": "slice a.zarr --isel time=2000-01-01 --to o.zarr",
    "twice": "slice a.zarr --sel lat=1 --sel lat=2 --to o.zarr",
    "both": "slice a.zarr --sel lat=1 --isel lat=2 --to o.zarr",
    "other rows": "slice a.zarr reversed.zarr --concat time --to o.zarr",
    "the same store twice": "slice a.zarr a.zarr --concat time --to o.zarr",
    "two stores and no dimension": "slice a.zarr b.zarr --to o.zarr",
    "merge of two": "slice a.zarr --merge-with b.zarr reversed.zarr --to o.zarr",
    "merge of other rows": "slice a.zarr --merge-with reversed.zarr --to o.zarr",
    "a cache and a destination": "slice a.zarr --cache c --to o.zarr",
    "a split into a cache": "slice a.zarr --points places.csv --split {name}.zarr --cache c",
    "a column that is none": "slice a.zarr --points places.csv --to o.zarr",
    "a range and nearest": "slice a.zarr --sel lat=0..1 --method nearest --to o.zarr",
    "no such array": "inspect a.zarr t3m",
    "nothing included": "recompress a.zarr o.zarr --include t3m",
    "no store": "inspect empty",
    "too little memory": "recompress a.zarr o.zarr --memory 1KiB --codec zstd:1",
    "a report of compare": "compare a.zarr b.zarr --format sarif",
    "no such rule": "audit a.zarr --select no-such-rule",
    "no baseline": "audit a.zarr --baseline nowhere.json",
    "nothing to resume": "recompress a.zarr o.zarr --resume",
    "a cache to prune": "cache prune empty --max-size 1",
    "partials to clean": "partials clean .",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_hint_works_when_it_is_pasted(zkit, helped, shell, tmp_path, mistake):
    """Options that it names exist; commands that it holds run; what it says to pass is taken, and mends what was said."""
    years(tmp_path)
    arguments = MISTAKES[mistake].split()
    outcome = zkit(*arguments, cwd=tmp_path)
    told = outcome.err + outcome.stdout.decode()
    assert helped.unknown(told, arguments[0]) == [], told
    for hint in promises.hints(outcome.err):
        for command in promises.commands_in(hint):
            done = shell(command, tmp_path)
            assert done.returncode != 2, f"{command}: {done.stderr}"
        for more in promises.passed(hint):
            if len(more) == 1 and helped.takes_value(arguments[0], more[0]):
                continue  # the value is for the reader to say
            answer = zkit(*arguments, *more, *(["--yes"] if "--overwrite" in more else []), cwd=tmp_path)
            assert "unexpected argument" not in answer.err and "required" not in answer.err, f"{more}: {answer.err}"
            assert hint not in promises.hints(answer.err), (
                f"`{' '.join(more)}` is passed, and hinted at again: {answer.err}"
            )
            shutil.rmtree(tmp_path / "o.zarr", ignore_errors=True)


def test_mistakes_bring_hints(zkit, tmp_path):
    years(tmp_path)
    hinted = [name for name, line in MISTAKES.items() if promises.hints(zkit(*line.split(), cwd=tmp_path).err)]
    assert len(hinted) > len(MISTAKES) / 2, hinted


def test_a_hint_never_leads_to_data_that_is_turned_round(zkit, tmp_path):
    """Whatever the hints about rows in another order say to pass: values stay with their rows, or it is refused."""
    years(tmp_path)
    line = MISTAKES["other rows"].split()
    outcome = zkit(*line, cwd=tmp_path)
    assert outcome.code == 3
    tried = [more for hint in promises.hints(outcome.err) for more in promises.passed(hint)]
    tried += [["--join", "inner"], ["--join", "outer"], ["--allow", "coordinates"]]
    source = zarr.open_group(tmp_path / "reversed.zarr", mode="r")
    for more in tried:
        shutil.rmtree(tmp_path / "o.zarr", ignore_errors=True)
        if zkit(*line, *more, cwd=tmp_path).code == 0:
            copy = zarr.open_group(tmp_path / "o.zarr", mode="r")
            rows = [list(source["lat"][:]).index(value) for value in copy["lat"][:]]
            np.testing.assert_array_equal(copy["t2m"][4:], source["t2m"][:][:, rows], err_msg=" ".join(more))


# ---- numbers of plans -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    """A store of 24 MiB, decoded: enough for memory to be that of the work."""
    folder = tmp_path_factory.mktemp("field")
    root = zarr.open_group(folder / "field.zarr", mode="w", zarr_format=2)
    for name, compressor in (("t2m", numcodecs.Zlib(1)), ("u10", numcodecs.Blosc("lz4", 5, 1))):
        array = root.create_array(name, shape=(48, 256, 256), chunks=(6, 128, 128), dtype="f4", compressors=compressor)
        array[...] = weather((48, 256, 256))
        array.attrs["_ARRAY_DIMENSIONS"] = ["time", "lat", "lon"]
    return folder / "field.zarr"


PLANS = {
    "recode": ("recompress", "--codec", "zstd:1"),
    "keep": ("recompress", "--codec", "keep"),
    "auto": ("recompress", "--prefer", "speed"),
    "to v3": ("recompress", "--codec", "zstd:1", "--zarr-format", "3"),
    "rechunk": ("recompress", "--codec", "zstd:1", "--chunks", "time=-1,lat=64,lon=64"),
    "rechunk in little memory": (
        "recompress",
        "--codec",
        "zstd:1",
        "--chunks",
        "time=-1,lat=64,lon=64",
        "--memory",
        "8MiB",
    ),
    "shards": (
        "recompress",
        "--codec",
        "zstd:1",
        "--zarr-format",
        "3",
        "--chunks",
        "time=6,lat=64,lon=64",
        "--shards",
        "time=24",
    ),
    "one array": ("recompress", "--codec", "zstd:1", "--include", "t2m"),
    "slice": ("slice", "--isel", "lat=3..90"),
    "point": ("slice", "--isel", "lat=3", "--isel", "lon=7"),
    "times": ("slice", "--isel", "time=0..7", "--chunks", "time=2"),
}


def planned_and_done(zkit, store, folder, command, *options):
    destination = folder / "copy.zarr"
    line = [
        command,
        store,
        *(["--to", destination] if command == "slice" else [destination]),
        *options,
        "--verify",
        "none",
    ]
    plan = zkit.json(*line, "--dry-run")
    assert not destination.exists()
    done = zkit.json(*line)
    return plan, done, destination


@pytest.mark.parametrize("plan", PLANS)
def test_a_dry_run_says_what_the_run_does(zkit, field, tmp_path, plan):
    command, *options = PLANS[plan]
    planned, done, copy = planned_and_done(zkit, field, tmp_path, command, *options)
    objects = sum(file.is_file() for file in copy.rglob("*"))
    assert planned["objects_written"] == done["objects_written"] == objects
    for name in ("bytes_read", "bytes_decoded"):
        assert about_equal(planned[name], done[name]), f"{name}: {planned[name]:,} planned, {done[name]:,} done"
    # what the process itself takes is no part of the plan
    empty = zkit.json("recompress", FIXTURES / "float16_f_order.zarr", tmp_path / "small.zarr")["peak_memory_bytes"]
    assert done["peak_memory_bytes"] <= empty + WITHIN * planned["memory_bytes"] + (16 << 20)
    assert [array["strategy"] for array in planned["arrays"]] == [array["strategy"] for array in done["arrays"]]


def about_equal(planned, done):
    return planned <= WITHIN * done and done <= WITHIN * planned


def test_dry_runs_of_generated_stores_count_objects_exactly(zkit, generated, tmp_path):
    wrong = []
    for family, store in generated.items():
        folder = tmp_path / family
        folder.mkdir()
        line = ["recompress", store, folder / "copy.zarr", "--codec", "zstd:1", "--verify", "none"]
        plan, done = (zkit(*line, *more, "--format", "json") for more in (["--dry-run"], []))
        if done.code:
            continue
        objects = sum(file.is_file() for file in (folder / "copy.zarr").rglob("*"))
        counted = plan.json()["objects_written"], done.json()["objects_written"], objects
        if len(set(counted)) > 1:
            wrong.append(f"{family}: {counted} planned, done, there")
        if not about_equal(plan.json()["bytes_read"], done.json()["bytes_read"]):
            wrong.append(f"{family}: {plan.json()['bytes_read']} bytes to read, {done.json()['bytes_read']} read")
    assert not wrong, "\n".join(wrong)


def test_the_first_arrays_tell_how_many_objects_all_have(zkit, field, tmp_path):
    """`--first` copies one array and says what all would take."""
    first = zkit.json("recompress", field, tmp_path / "first.zarr", "--codec", "zstd:1", "--first", "1")
    done = zkit.json("recompress", field, tmp_path / "all.zarr", "--codec", "zstd:1")
    said = [value for name, value in (first["extrapolated"] or {}).items() if "objects" in name]
    for count in said:
        assert about_equal(count, done["objects_written"]), (count, done["objects_written"])


# ---- numbers of audits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fixtures", *FAULTY_CACHES])
def test_counts_of_an_audit_are_those_of_its_findings(zkit, tmp_path, kind):
    if kind == "fixtures":
        folder = FIXTURES
    else:
        folder = tmp_path
        FAULTY_CACHES[kind](tmp_path)
    report = json.loads(zkit("audit", ".", "--format", "json", cwd=folder).stdout)
    text = zkit("audit", ".", cwd=folder).stdout.decode()
    verdict = next((line for line in text.splitlines() if re.search(r"errors?|warnings?|notes?|no findings", line)), "")
    by_severity = {
        name: sum(finding["severity"] == severity for finding in report["findings"])
        for name, severity in (("error", "error"), ("warning", "warning"), ("note", "info"))
    }
    assert report["summary"] == {
        "errors": by_severity["error"],
        "warnings": by_severity["warning"],
        "infos": by_severity["note"],
    }
    for name, count in by_severity.items():
        said = re.search(rf"([\d,]+) {name}s?\b", verdict)
        assert (int(said[1].replace(",", "")) if said else 0) == count, verdict
    stores = {store["url"] for store in report["stores"]}
    if counted := re.search(r"in ([\d,]+) of ([\d,]+) stores", verdict):
        bad, all_of_them = (int(number.replace(",", "")) for number in counted.groups())
        assert all_of_them == len(stores)
        faulty = {finding["store"] for finding in report["findings"] if finding["severity"] != "info"}
        # a finding about several stores at once may count for each of them
        assert len(faulty & stores) <= bad <= (len(stores) if faulty - stores else len(faulty)), verdict
    elif counted := re.search(r"in ([\d,]+) stores", verdict):
        assert int(counted[1].replace(",", "")) == len(stores)
    for severity, rule, count in re.findall(r"^(error|warning|info) ([a-z-]+): (\d+) findings?", text, re.MULTILINE):
        found = [
            finding for finding in report["findings"] if (finding["rule"], finding["severity"]) == (rule, severity)
        ]
        assert int(count) == len(found), f"{severity} {rule}"
