//! `zkit inspect`.

use serde_json::Value;

use crate::fixtures::{TOUR, arrays, fixture, json, manifest, readable, run, zkit};

#[test]
fn shapes_types_and_chunk_counts_are_those_of_the_manifest() {
    for (name, facts) in readable(true) {
        let found = arrays(&json(&["inspect"], &fixture(&name)));
        for (path, wanted) in facts["arrays"].as_object().expect("`arrays` is an object") {
            let array = &found[path];
            for key in [
                "shape",
                "zarr_format",
                "chunk_shape",
                "shard_shape",
                "chunks_total",
                "chunks_stored",
                "dimension_names",
            ] {
                if wanted.get(key).is_some_and(|value| !value.is_null()) {
                    assert_eq!(array[key], wanted[key], "{name} {path}: {key}");
                }
            }
        }
    }
}

#[test]
fn a_document_carries_its_version_and_the_store_its_kind() {
    for (name, facts) in manifest() {
        let document = json(&["inspect"], &fixture(&name));
        assert_eq!(document["schema_version"], 1, "{name}");
        assert!(
            document["arrays"].is_array() && document["groups"].is_array() && document["defects"].is_array(),
            "{name}"
        );
        if facts["valid"] == true {
            assert_eq!(document["store"]["kind"], facts["kind"], "{name}");
        }
    }
}

#[test]
fn broken_metadata_is_a_defect_and_hides_nothing() {
    let document = json(&["inspect"], &fixture("faulty_deep_nesting.zarr"));
    let defects = document["defects"].as_array().expect("`defects` is a list");
    assert!(defects.iter().any(|defect| defect["path"] == "/air"), "{defects:?}");
    assert!(["/lat", "/lon", "/time"].iter().all(|path| arrays(&document).contains_key(*path)));
}

#[test]
fn depth_metadata_knows_shapes_but_no_counts() {
    let document = json(&["inspect", "--depth", "metadata"], &fixture(TOUR));
    assert_eq!(document["depth"], "metadata");
    for (path, array) in arrays(&document) {
        assert_eq!(array["chunks_stored"], Value::Null, "{path}");
        assert!(array["shape"].is_array(), "{path}");
    }
}

#[test]
fn advice_comes_with_a_reason_and_a_command() {
    let document = json(&["inspect"], &fixture("bcsd_climate.zarr"));
    for advice in document["advice"].as_array().expect("`advice` is a list") {
        assert!(advice["what"].is_string() && advice["why"].is_string(), "{advice}");
    }
}

#[test]
fn text_names_every_array_and_has_no_colour_when_piped() {
    let answer = run(zkit().arg("inspect").arg(fixture(TOUR)));
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    for name in ["analysed_sst", "sst_anomaly", "lat", "lon", "time"] {
        assert!(answer.stdout.contains(name), "{name}: {}", answer.stdout);
    }
    assert!(!answer.stdout.contains('\u{1b}'));
}
