"""`zkit recompress`: every sound fixture to every format, judged by zarr-python, xarray and tensorstore."""

import functools

import pytest

import copies
import oracle
from conftest import FIXTURES, FOREIGN, MANIFEST, MEMORY_LIMIT_MB, SOUND, listing

FORMATS = ("keep", "2", "3")
CODECS = ("blosc:zstd:3:bitshuffle", "zstd:3")

# What the other format cannot say, and a word that the message must then hold.
REFUSALS = {
    ("imerg_template.zarr", "2"): "shard",
    ("sharded_index_end.zarr", "2"): "shard",
    ("particles_struct.zarr", "3"): "struct",
}
CODEC = ("--codec", CODECS[0])

source = functools.cache(lambda name: copies.Source(FIXTURES / name))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("name", SOUND)
def test_a_copy_is_faithful_or_clearly_refused(zkit, tmp_path, name, zarr_format, codec):
    destination = tmp_path / "copy.zarr"
    before = listing(FIXTURES / name)
    outcome = zkit(
        "recompress", FIXTURES / name, destination, "--zarr-format", zarr_format, "--verify", "full", "--codec", codec
    )
    assert listing(FIXTURES / name) == before, "the source was touched"
    assert outcome.peak_mb < MEMORY_LIMIT_MB
    if outcome.code != 0:
        assert_refusal(outcome, tmp_path, REFUSALS.get((name, zarr_format)))
        return
    assert [p.name for p in tmp_path.iterdir()] == ["copy.zarr"], "something is left beside the copy"
    copies.assert_faithful(source(name), destination, zarr_format=zarr_format, codec=codec)


def assert_refusal(outcome, folder, word):
    assert word is not None, f"unexpected refusal: exit {outcome.code}: {outcome.err}"
    assert outcome.code in (2, 3)
    assert word in outcome.err.lower(), outcome.err
    assert list(folder.iterdir()) == [], "a refusal left something behind"


@pytest.mark.parametrize(
    "name", ["ostia_sst.zarr", "era_interim_geopotential.zarr", "cmems_ocean.zarr", "station_strings.zarr"]
)
def test_there_and_back_again_changes_nothing(zkit, tmp_path, name):
    """v2 -> v3 -> v2, or v3 -> v2 -> v3: values and datasets survive both ways."""
    first, second = ("3", "2") if MANIFEST[name]["zarr_formats"] == [2] else ("2", "3")
    assert zkit("recompress", FIXTURES / name, tmp_path / "a.zarr", "--zarr-format", first, *CODEC).code == 0
    assert zkit("recompress", tmp_path / "a.zarr", tmp_path / "b.zarr", "--zarr-format", second, *CODEC).code == 0
    copies.assert_faithful(source(name), tmp_path / "b.zarr", zarr_format=second, codec=CODECS[0])


def test_a_second_run_gives_the_same_bytes(zkit, tmp_path):
    for folder in ("one", "two"):
        assert (
            zkit("recompress", FIXTURES / "ostia_sst.zarr", tmp_path / folder, "--zarr-format", "3", *CODEC).code == 0
        )
    one, two = ({p.relative_to(tmp_path / f): p.read_bytes() for p in files_in(tmp_path / f)} for f in ("one", "two"))
    assert one == two


def files_in(folder):
    return [p for p in folder.rglob("*") if p.is_file()]


def test_the_report_adds_up(zkit, tmp_path):
    report = zkit.json("recompress", FIXTURES / "ostia_sst.zarr", tmp_path / "copy.zarr", "--verify", "full")
    arrays = MANIFEST["ostia_sst.zarr"]["arrays"]
    assert report["arrays_written"] + report["arrays_copied"] == len(arrays)
    assert report["bytes_decoded"] >= sum(v.nbytes for v in source("ostia_sst.zarr").values.values())
    assert report["verified"]["mode"] == "full"
    assert report["verified"]["objects"] >= sum(a["chunks_stored"] for a in arrays.values())
    stored = sum(p.stat().st_size for p in files_in(tmp_path / "copy.zarr"))
    assert 0 < report["bytes_written"] <= stored


def test_dry_run_prints_a_plan_and_writes_nothing(zkit, tmp_path):
    outcome = zkit("recompress", FIXTURES / "ostia_sst.zarr", tmp_path / "copy.zarr", "--dry-run")
    assert outcome.code == 0 and outcome.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_stores_are_refused_by_name(zkit, tmp_path, name):
    outcome = zkit("recompress", FIXTURES / name, tmp_path / "copy.zarr")
    words = {"n5": "n5", "icechunk": "icechunk"}
    assert_refusal(outcome, tmp_path, words[MANIFEST[name]["kind"]])


def test_unknown_attributes_and_big_numbers_survive(zkit, copy_of, tmp_path):
    store = copy_of("ostia_sst.zarr")
    odd = '{"_ARRAY_DIMENSIONS": ["lat"], "big": 18446744073709551617, "small": 1e-320, "text": "a\\u0000b"'
    odd += ', "b": 1, "a": 2}'
    (store / "lat" / ".zattrs").write_text(odd)
    (store / ".zmetadata").unlink()
    for zarr_format in FORMATS:
        copy = tmp_path / f"copy_{zarr_format}.zarr"
        assert zkit("recompress", store, copy, "--zarr-format", zarr_format).code == 0
        folder, version = oracle.array_folders(copy)["/lat"]
        got = oracle.attributes(folder, version)
        assert got["big"] == 18446744073709551617 and got["small"] == 1e-320 and got["text"] == "a\0b"
        assert [k for k in got if len(k) == 1] == ["b", "a"], "the order of keys changed"
