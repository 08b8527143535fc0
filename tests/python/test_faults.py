"""Faulty and hostile stores: documented exits, plain messages, small bounds, and nothing written where nobody asked."""

import json
import os

import pytest

import gen_v2
from conftest import FAULTY, FIXTURES, MANIFEST, MEMORY_LIMIT_MB, SECONDS_LIMIT, listing
from gen_values import weather

SOUND_STORE = FIXTURES / "era_interim_geopotential.zarr"


def within_bounds(outcome):
    assert outcome.seconds < SECONDS_LIMIT, f"{outcome.args}: {outcome.seconds:.1f} s"
    assert outcome.peak_mb < MEMORY_LIMIT_MB, f"{outcome.args}: {outcome.peak_mb:.0f} MB"
    return outcome


def fails_with_words(outcome, *words, codes=(2, 3)):
    assert outcome.code in codes, f"exit {outcome.code}: {outcome.err}"
    assert outcome.err.strip(), "no message"
    for word in words:
        assert word in outcome.err, outcome.err
    return outcome


# ---- stores that are broken -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAULTY)
def test_inspect_of_a_faulty_store_is_an_answer(zkit, name):
    outcome = within_bounds(zkit("inspect", FIXTURES / name, "--format", "json"))
    assert outcome.code == 0, outcome.err
    sound = [path for path, array in MANIFEST[name]["arrays"].items() if array["sha256"]]
    assert set(sound) <= {array["path"] for array in outcome.json()["arrays"]}


@pytest.mark.parametrize("name", FAULTY)
def test_digest_of_a_faulty_store_names_what_is_wrong(zkit, name):
    outcome = within_bounds(zkit("digest", FIXTURES / name))
    assert outcome.code in (1, 2, 3)
    broken = MANIFEST[name]["faults"][0].get("array", "").strip("*")
    assert broken in outcome.err + outcome.stdout.decode()


@pytest.mark.parametrize("name", FAULTY)
def test_recompress_of_a_faulty_store_publishes_nothing(zkit, tmp_path, name):
    outcome = within_bounds(zkit("recompress", FIXTURES / name, tmp_path / "copy.zarr"))
    assert outcome.code in (1, 2, 3), outcome.err
    assert not (tmp_path / "copy.zarr").exists()


@pytest.mark.parametrize("name", FAULTY)
def test_compare_of_a_faulty_store_with_itself_does_not_say_equal(zkit, name):
    outcome = within_bounds(zkit("compare", FIXTURES / name, FIXTURES / name))
    assert outcome.code in (1, 2, 3)


# ---- stores that are hostile ------------------------------------------------------------------------------------


def v2_metadata(**changes):
    return {
        "zarr_format": 2,
        "shape": [10],
        "chunks": [5],
        "dtype": "<f4",
        "compressor": None,
        "filters": None,
        "order": "C",
        "fill_value": 0,
        **changes,
    }


HOSTILE = {
    "endless shape": v2_metadata(shape=[2**62, 2**62], chunks=[1, 1]),
    "endless chunk": v2_metadata(shape=[2**62], chunks=[2**62]),
    "negative shape": v2_metadata(shape=[-1]),
    "no chunks": v2_metadata(chunks=[0]),
    "5000 dimensions": v2_metadata(shape=[2] * 5000, chunks=[1] * 5000),
    "wide type": v2_metadata(dtype="|S9999999999"),
    "deep type": v2_metadata(dtype=[["a", "<i4", [2**31, 2**31]]]),
    "codec that is a number": v2_metadata(compressor={"id": 7}),
    "unknown codec": v2_metadata(compressor={"id": "made_up"}),
    "shape that is text": v2_metadata(shape="10"),
    "not an object": [1, 2, 3],
}


@pytest.mark.parametrize("title", HOSTILE)
@pytest.mark.parametrize("command", ["inspect", "digest", "recompress"])
def test_absurd_metadata_ends_in_a_message(zkit, tmp_path, title, command):
    store = gen_v2.group(tmp_path / "hostile.zarr")
    gen_v2.write_json(store / "bad" / ".zarray", HOSTILE[title])
    gen_v2.v2(store / "good", weather())
    destination = [tmp_path / "copy.zarr"] if command == "recompress" else []
    outcome = within_bounds(zkit(command, store, *destination))
    assert outcome.code in (0, 1, 2, 3)
    assert "bad" in outcome.err + outcome.stdout.decode()
    if command == "inspect":
        assert outcome.code == 0 and "good" in outcome.stdout.decode()


def test_control_characters_of_a_store_never_reach_the_terminal(zkit, tmp_path):
    store = gen_v2.group(tmp_path / "escape.zarr", {"title": "\x1b]0;owned\x07"})
    gen_v2.v2(store / "na\x1b[31mme", weather(), dims=["\x1b[2J", "x\r"])
    for command in ("inspect", "digest"):
        outcome = zkit(command, store)
        assert outcome.code == 0
        for text in (outcome.stdout, outcome.stderr):
            assert not set(text) & {0x1B, 0x07, 0x0D}


def test_a_pipe_in_the_place_of_a_chunk_does_not_hang(zkit, tmp_path):
    store = gen_v2.group(tmp_path / "pipe.zarr")
    gen_v2.v2(store / "array", weather(), absent={(0, 0)})
    os.mkfifo(store / "array" / "0.0")
    assert within_bounds(zkit("inspect", store, timeout=10)).code in (0, 3)
    outcome = within_bounds(zkit("digest", store, "--format", "json", timeout=10))
    assert outcome.code in (1, 3) and outcome.json()["arrays"][0]["sha256"] is None


def test_links_out_of_the_store_are_not_followed(zkit, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"\0" * 80)
    store = gen_v2.group(tmp_path / "links.zarr")
    gen_v2.v2(store / "array", weather(), absent={(0, 0)})
    (store / "array" / "0.0").symlink_to(secret)
    outcome = within_bounds(zkit("digest", store, "--format", "json"))
    assert outcome.code in (1, 3)
    assert outcome.json()["arrays"][0]["sha256"] is None and outcome.json()["arrays"][0]["error"]


def test_a_dangling_link_is_unreadable_not_absent(zkit, tmp_path):
    store = gen_v2.group(tmp_path / "links.zarr")
    gen_v2.v2(store / "array", weather(), absent={(0, 0)})
    (store / "array" / "0.0").symlink_to("../array/nowhere")
    outcome = zkit("digest", store, "--format", "json")
    assert outcome.code in (1, 3)
    assert outcome.json()["arrays"][0]["sha256"] is None


# ---- destinations -----------------------------------------------------------------------------------------------


def test_an_existing_destination_is_refused_untouched(zkit, tmp_path):
    destination = tmp_path / "copy.zarr"
    destination.mkdir()
    (destination / "precious").write_text("data")
    outcome = fails_with_words(zkit("recompress", SOUND_STORE, destination), "copy.zarr")
    assert "hint" in outcome.err
    assert [p.name for p in tmp_path.rglob("*")] == ["copy.zarr", "precious"]


@pytest.mark.parametrize("place", ["same", "inside", "above", "linked"])
def test_a_destination_that_overlaps_the_source_is_refused(zkit, copy_of, tmp_path, place):
    store = copy_of("era_interim_geopotential.zarr")
    (tmp_path / "link").symlink_to(store)
    before = listing(tmp_path)
    destinations = {
        "same": store,
        "inside": store / "copy.zarr",
        "above": tmp_path,
        "linked": tmp_path / "link" / "copy.zarr",
    }
    fails_with_words(zkit("recompress", store, destinations[place]))
    assert listing(tmp_path) == before


@pytest.mark.skipif(not os.path.isdir("/sys/kernel"), reason="needs a folder that even root cannot write to")
def test_a_destination_that_cannot_be_written_is_an_error(zkit):
    fails_with_words(zkit("recompress", SOUND_STORE, "/sys/kernel/copy.zarr"), "copy.zarr", codes=(3,))


def test_nothing_is_written_but_the_destination(zkit, tmp_path):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    outcome = zkit(
        "recompress",
        SOUND_STORE,
        work / "copy.zarr",
        cwd=home,
        HOME=str(home),
        TMPDIR=str(home),
        XDG_CACHE_HOME=str(home),
    )
    assert outcome.code == 0, outcome.err
    assert list(home.iterdir()) == []
    assert [p.name for p in work.iterdir()] == ["copy.zarr"]


# ---- the shell --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["inspect"], ["digest"], ["inspect", "--format", "json"]])
def test_a_reader_that_goes_away_is_no_error(zkit, arguments):
    process = zkit.start(*arguments, FIXTURES / "mixed_types.zarr")
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait() == 0, err
    assert err == b""


def test_a_store_that_is_not_there_is_named(zkit, tmp_path):
    for command in ("inspect", "digest"):
        fails_with_words(zkit(command, tmp_path / "nowhere.zarr"), "nowhere.zarr")


def test_a_folder_that_is_no_store_is_said_to_be_none(zkit, tmp_path):
    (tmp_path / "readme.txt").write_text("hello")
    document = json.loads(zkit("inspect", tmp_path, "--format", "json").stdout or "{}")
    assert document.get("store", {}).get("kind", "unknown") == "unknown"
