//! `zkit digest`.

use serde_json::Value;

use crate::fixtures::{TOUR, arrays, fixture, json, readable, run, zkit};

#[test]
fn digests_are_those_of_the_manifest() {
    for (name, facts) in readable(true) {
        let found = arrays(&json(&["digest"], &fixture(&name)));
        let wanted = facts["arrays"].as_object().expect("`arrays` is an object");
        assert_eq!(found.len(), wanted.len(), "{name}");
        for (path, wanted) in wanted {
            if !wanted["sha256"].is_null() {
                assert_eq!(
                    found[path]["sha256"], wanted["sha256"],
                    "{name} {path}: {}",
                    found[path]["error"]
                );
                assert_eq!(found[path]["error"], Value::Null, "{name} {path}");
            }
        }
    }
}

#[test]
fn a_corrupt_chunk_is_an_error_of_its_array_alone() {
    for name in [
        "faulty_crc32c_bitflip.zarr",
        "faulty_zstd_truncated.zarr",
        "faulty_shard_index.zarr",
        "faulty_zlib_bomb.zarr",
    ] {
        let answer = run(zkit().arg("digest").arg(fixture(name)).args(["--format", "json"]));
        assert!([1, 3].contains(&answer.code), "{name}: exit {}: {}", answer.code, answer.stderr);
        let arrays = arrays(&answer.json());
        assert_eq!(arrays["/air"]["sha256"], Value::Null, "{name}");
        assert!(arrays["/air"]["error"].is_string(), "{name}");
        assert!(arrays["/lat"]["sha256"].is_string(), "{name}");
    }
}

#[test]
fn one_array_can_be_asked_for() {
    let answer = run(zkit().arg("digest").arg(fixture(TOUR)).arg("lat").args(["--format", "json"]));
    assert_eq!(arrays(&answer.json()).keys().collect::<Vec<_>>(), ["/lat"]);
}

#[test]
fn an_array_that_no_digest_would_ever_end_of_is_refused() {
    let store = tempfile::tempdir().expect("a temporary folder");
    let array = r#"{"zarr_format":2,"shape":[1000000000,1000000000],"chunks":[1,1],"dtype":"<f4","fill_value":0,
        "compressor":null,"filters":null,"order":"C"}"#;
    std::fs::write(store.path().join(".zarray"), array).expect("metadata can be written");
    std::fs::write(store.path().join("0.0"), [0; 4]).expect("a chunk can be written");
    for (more, expected) in [(&[][..], "3.47 EiB of fill values"), (&["--unwritten"], "decodes to 3.5 EiB")] {
        let answer = run(zkit().arg("digest").arg(store.path()).args(["--format", "json"]).args(more));
        let told = arrays(&answer.json())["/"]["error"].as_str().expect("an error").to_owned();
        assert_eq!(answer.code, 3, "{told}");
        assert!(told.contains(expected), "{told}");
    }
}
