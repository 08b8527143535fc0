"""`zkit digest` against the digests of the manifest and against zarr-python, read live."""

import json

import pytest

import oracle
from conftest import FIXTURES, FOREIGN, MANIFEST, READABLE, SOUND


@pytest.mark.parametrize("name", READABLE)
def test_digests_are_those_of_the_manifest(zkit, name):
    got = zkit.digests(FIXTURES / name)
    for path, want in MANIFEST[name]["arrays"].items():
        if want["sha256"]:
            assert got[path] == want["sha256"], path


@pytest.mark.parametrize("name", SOUND)
def test_digests_are_those_of_zarr_python(zkit, name):
    if any(array["sha256"] is None for array in MANIFEST[name]["arrays"].values()):
        pytest.skip("an array too large for this check")
    assert zkit.digests(FIXTURES / name) == oracle.digests(FIXTURES / name)


@pytest.mark.parametrize(
    "name", [n for n in READABLE if any(f.get("detectable") == "bytes" for f in MANIFEST[n]["faults"])]
)
def test_an_unreadable_chunk_is_an_error_for_its_array_alone(zkit, name):
    outcome = zkit("digest", FIXTURES / name, "--format", "json")
    assert outcome.code in (1, 3)
    arrays = {array["path"]: array for array in outcome.json()["arrays"]}
    for path, want in MANIFEST[name]["arrays"].items():
        assert (arrays[path]["sha256"] is None) == (want["sha256"] is None), path
        assert (arrays[path]["error"] is None) == (want["sha256"] is not None), path


@pytest.mark.parametrize("name", FOREIGN)
def test_stores_that_are_not_read_are_refused_by_name(zkit, name):
    outcome = zkit("digest", FIXTURES / name)
    assert outcome.code in (2, 3)
    words = {"n5": "n5", "icechunk": "icechunk"}
    assert words[MANIFEST[name]["kind"]] in outcome.err.lower()


def test_asking_for_one_array_digests_that_one(zkit):
    assert list(zkit.digests(FIXTURES / "ostia_sst.zarr", "lat")) == ["/lat"]


def test_a_memory_budget_changes_no_digest(zkit):
    store = FIXTURES / "ostia_sst.zarr"
    assert zkit.digests(store, "--memory", "8MiB", "--jobs", "1") == zkit.digests(store)


def test_text_and_json_agree(zkit):
    store = FIXTURES / "mixed_types.zarr"
    text = zkit("digest", store).stdout.decode()
    for path, sha256 in zkit.digests(store).items():
        assert sha256 in text and path in text


def test_equal_data_in_two_layouts_compare_equal(zkit, tmp_path):
    source, copy = FIXTURES / "ostia_sst.zarr", tmp_path / "copy.zarr"
    assert zkit("recompress", source, copy, "--zarr-format", "3").code == 0
    assert zkit.digests(source) == zkit.digests(copy)
    outcome = zkit("compare", source, copy)
    assert outcome.code == 0, outcome.err + outcome.stdout.decode()


def test_compare_names_the_first_differing_element(zkit, copy_of):
    import zarr

    copy = copy_of("ostia_sst.zarr")
    array = zarr.open_array(str(copy / "analysed_sst"), mode="r+")
    array[0, 5, 7] = array[0, 5, 7] + 1
    outcome = zkit("compare", FIXTURES / "ostia_sst.zarr", copy, "--format", "json")
    assert outcome.code == 1
    text = json.dumps(outcome.json()).replace(" ", "")
    assert "analysed_sst" in text and "[0,5,7]" in text
