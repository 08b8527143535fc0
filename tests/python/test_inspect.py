"""`zkit inspect --format json` against what independent readers found in each fixture."""

import pytest

import data_types
from conftest import FIXTURES, FOREIGN, MANIFEST, READABLE, SOUND


@pytest.fixture(scope="module")
def inspected(zkit):
    documents = {}

    def inspect(name, *args):
        key = (name, *args)
        if key not in documents:
            documents[key] = zkit.json("inspect", FIXTURES / name, *args)
        return documents[key]

    return inspect


@pytest.mark.parametrize("name", READABLE)
def test_shapes_types_and_chunk_counts_are_those_of_other_readers(inspected, name):
    arrays = {array["path"]: array for array in inspected(name)["arrays"]}
    for path, want in MANIFEST[name]["arrays"].items():
        got = arrays[path]
        for key in (
            "shape",
            "zarr_format",
            "chunk_shape",
            "shard_shape",
            "chunks_total",
            "chunks_stored",
            "dimension_names",
        ):
            if want.get(key) is not None:
                assert got[key] == want[key], f"{path}: {key}"
        assert data_types.same(want["data_type"], got["data_type"]), (
            f"{path}: {want['data_type']} != {got['data_type']}"
        )


@pytest.mark.parametrize("name", READABLE)
def test_the_store_is_named_for_what_it_is(inspected, name):
    document, want = inspected(name), MANIFEST[name]
    store = document["store"]
    assert document["schema_version"] == 1
    assert (store["kind"], store["container"]) == ("zarr", "directory")
    if want["valid"] and want.get("zarr_formats"):
        assert store["zarr_formats"] == want["zarr_formats"]
        assert store["consolidated"] == want["consolidated"]


@pytest.mark.parametrize("name", SOUND)
def test_sound_stores_list_every_node_and_no_other(inspected, name):
    document = inspected(name)
    assert sorted(array["path"] for array in document["arrays"]) == sorted(MANIFEST[name]["arrays"])
    assert sorted(group["path"] for group in document["groups"]) == sorted(MANIFEST[name]["groups"])
    assert document["defects"] == []


@pytest.mark.parametrize("name", SOUND)
def test_sizes_add_up(inspected, name):
    for array in inspected(name)["arrays"]:
        assert 0 <= array["chunks_stored"] <= array["chunks_total"]
        assert (array["bytes_stored"] == 0) == (array["chunks_stored"] == 0)
        lanes = array["decode_lanes"]
        assert lanes is None or 1 <= lanes["per_chunk"] <= lanes["whole_array"]


@pytest.mark.parametrize("name", SOUND)
def test_metadata_depth_reads_no_chunk_and_says_so(inspected, name):
    for array in inspected(name, "--depth", "metadata")["arrays"]:
        assert array["chunks_stored"] is None and array["bytes_stored"] is None
        assert array["shape"] == MANIFEST[name]["arrays"][array["path"]]["shape"]


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_stores_are_recognised_never_taken_for_empty(inspected, name):
    store = inspected(name)["store"]
    assert store["kind"] == MANIFEST[name]["kind"]
    assert store["container"] == MANIFEST[name]["container"]


def test_one_bad_array_never_hides_the_others(inspected):
    document = inspected("faulty_deep_nesting.zarr")
    assert {"/lat", "/lon", "/time"} <= {array["path"] for array in document["arrays"]}
    assert any(defect["path"] == "/air" for defect in document["defects"])


def test_pointer_files_are_defects_not_an_empty_store(inspected):
    document = inspected("faulty_lfs_pointers.zarr")
    assert document["defects"]


def test_asking_for_one_array_lists_that_one(inspected):
    document = inspected("ostia_sst.zarr", "analysed_sst")
    assert [array["path"] for array in document["arrays"]] == ["/analysed_sst"]


@pytest.mark.parametrize("name", SOUND)
def test_text_for_people_names_every_array(zkit, name):
    outcome = zkit("inspect", FIXTURES / name)
    assert outcome.code == 0
    text = outcome.stdout.decode()
    assert "\x1b" not in text, "colour although stdout is not a terminal"
    for path in MANIFEST[name]["arrays"]:
        assert path.rsplit("/", 1)[-1] in text
