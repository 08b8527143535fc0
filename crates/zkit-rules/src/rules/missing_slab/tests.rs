use zkit_report::Severity;

use crate::testing::{TestStore, v2_array};

/// Variables along a written `time` of 8 chunks, of which `stored` are there, with values of which none is zero.
fn store(variables: &[(&str, &str)], stored: &[u64]) -> TestStore {
    holding(variables, stored, [1.0, 2.0])
}

fn holding(variables: &[(&str, &str)], stored: &[u64], values: [f32; 2]) -> TestStore {
    let chunk_bytes = values.map(f32::to_le_bytes).concat();
    let dimensions = br#"{"_ARRAY_DIMENSIONS":["time"]}"#;
    let time = TestStore::new().array("time", &v2_array(&[16], &[16])).file("time/0", &[0; 64]);
    let mut store = time.file("time/.zattrs", dimensions);
    for (name, fill) in variables {
        let metadata = v2_array(&[16], &[2]).replace("\"fill_value\":0", &format!("\"fill_value\":{fill}"));
        store = store.array(name, &metadata).file(&format!("{name}/.zattrs"), dimensions);
        for chunk in stored {
            store = store.file(&format!("{name}/{chunk}"), &chunk_bytes);
        }
    }
    store
}

fn severities(store: &TestStore) -> Vec<Severity> {
    store.findings("missing-slab").into_iter().map(|finding| finding.severity).collect()
}

#[test]
fn what_a_slab_means_follows_from_the_fill_value() {
    let trailing = [0, 1, 2, 3, 4];
    assert_eq!(severities(&store(&[("a", "0")], &trailing)), [Severity::Error]);
    assert_eq!(severities(&store(&[("a", "\"NaN\"")], &trailing)), [Severity::Error]);
    assert_eq!(severities(&store(&[("a", "null")], &[0, 1, 2, 4, 5, 6, 7])), [Severity::Error]);
    let one_mid = [0, 1, 2, 4, 5, 6, 7];
    assert_eq!(severities(&holding(&[("a", "\"NaN\"")], &one_mid, [1.0, f32::NAN])), [Severity::Warning]);
    assert_eq!(severities(&store(&[("a", "\"NaN\"")], &one_mid)), [Severity::Error]);
}

#[test]
fn zeros_that_are_stored_too_make_chunks_of_zeros_likely() {
    let rain = holding(&[("rain", "0")], &[0, 1, 2, 5, 6, 7], [0.0, 3.5]);
    assert_eq!(severities(&rain), []);
    assert_eq!(rain.findings("absent-chunks").len(), 1);
    assert_eq!(severities(&holding(&[("t", "0")], &[0, 1, 2, 5, 6, 7], [2.0, 3.5])), [Severity::Error]);
    // floats under a fill value of null are not left out
    assert_eq!(severities(&holding(&[("t", "null")], &[0, 1, 2], [0.0, 3.5])), [Severity::Error]);
}

#[test]
fn a_chunk_of_texts_is_not_left_out_where_no_text_is_empty() {
    let texts = |words: [&str; 2], stored: &[u64]| {
        let metadata = r#"{"zarr_format":2,"shape":[10],"chunks":[2],"dtype":"|O","fill_value":"","compressor":null,
            "filters":[{"id":"vlen-utf8"}],"order":"C"}"#;
        let mut chunk = 2u32.to_le_bytes().to_vec();
        for word in words {
            chunk.extend(u32::try_from(word.len()).unwrap().to_le_bytes());
            chunk.extend(word.as_bytes());
        }
        let store = TestStore::new().array("name", metadata);
        severities(&stored.iter().fold(store, |store, at| store.file(&format!("name/{at}"), &chunk)))
    };
    assert_eq!(texts(["a", "b"], &[0, 1, 3, 4]), [Severity::Warning]);
    assert_eq!(texts(["a", ""], &[0, 1, 3, 4]), []);
    assert_eq!(texts(["a", "b"], &[0, 1]), [Severity::Info]);
}

#[test]
fn one_chunk_of_zeros_and_a_dry_season_are_warnings() {
    let one_mid = |first: f32| {
        let dimensions = br#"{"_ARRAY_DIMENSIONS":["time"]}"#;
        let store = TestStore::new().array("time", &v2_array(&[32], &[32])).file("time/0", &[0; 128]);
        let store = store.file("time/.zattrs", dimensions).array("t", &v2_array(&[32], &[4]));
        [0, 1, 2, 4, 5, 6, 7].iter().fold(store.file("t/.zattrs", dimensions), |store, chunk| {
            let values = [if *chunk == 0 { first } else { 1.0 }, 1.0, 2.0, 3.0];
            store.file(&format!("t/{chunk}"), &values.map(f32::to_le_bytes).concat())
        })
    };
    assert_eq!(severities(&one_mid(0.0)), [Severity::Warning]);
    assert_eq!(severities(&one_mid(1.0)), [Severity::Error], "no value is zero");
    assert_eq!(severities(&store(&[("t", "1")], &[0, 1, 2, 4, 5, 6, 7])), [Severity::Error]);
    assert_eq!(severities(&store(&[("t", "0")], &[0, 1, 2, 5, 6, 7])), [Severity::Error]);
    assert_eq!(severities(&store(&[("precipitation", "0")], &[0, 1, 2, 5, 6, 7])), [Severity::Warning]);
}

#[test]
fn the_box_and_the_variables_alike_are_named() {
    let found = store(&[("a", "0"), ("b", "0")], &[0, 1, 2, 3, 4]).findings("missing-slab");
    assert_eq!(found.len(), 2);
    let chunks = found[0].chunks.as_ref().unwrap();
    assert_eq!((chunks[0].first[0], chunks[0].last[0], chunks.len()), (5, 7, 1));
    assert_eq!(found[0].evidence["variables_alike"], 2);
    assert!(found[0].message.contains("index 5 of time"), "{}", found[0].message);
}

#[test]
fn a_coordinate_may_lack_the_value_that_it_counts_from() {
    let severities = |chunk: usize, values: &[i64]| -> Vec<Severity> {
        let metadata = v2_array(&[values.len() as u64], &[chunk as u64]).replace("<f4", "<i8");
        let mut store = TestStore::new()
            .array("time", &metadata)
            .file("time/.zattrs", br#"{"_ARRAY_DIMENSIONS":["time"],"units":"hours since 2020-01-01"}"#);
        for (at, chunk) in values.chunks(chunk).enumerate() {
            // as a writer leaves out what is all fill value
            if chunk.iter().any(|&value| value != 0) {
                let bytes: Vec<u8> = chunk.iter().flat_map(|value| value.to_le_bytes()).collect();
                store = store.file(&format!("time/{at}"), &bytes);
            }
        }
        store.findings("missing-slab").into_iter().map(|found| found.severity).collect()
    };
    assert_eq!(severities(1, &[0, 1, 2, 3, 4, 5, 6, 7]), []);
    assert_eq!(severities(1, &[-2, -1, 0, 1, 2]), []);
    assert_eq!(
        severities(1, &[0, 101, 102, 103, 104, 105, 106, 107, 108]),
        [Severity::Error],
        "no step goes so far"
    );
    assert_eq!(severities(1, &[1, 2, 3, 0, 5, 6, 7]), [Severity::Error]);
    assert_eq!(severities(2, &[1, 2, 3, 4, 0, 0, 7, 8]), [Severity::Error]);
    assert_eq!(severities(2, &[1, 2, 3, 4, 5, 6, 0, 0]), [Severity::Error]);
}

#[test]
fn unfinished_writes_beside_the_chunks_tell_of_a_writer_that_died() {
    let cut = |leftover: &str| {
        let store = TestStore::new().array("a", &v2_array(&[16], &[2])).file("a/0", &[0; 8]);
        severities(&store.file("a/1", &[1; 8]).file(leftover, b"x"))
    };
    assert_eq!(cut("a/1.__lock"), [Severity::Error]);
    assert_eq!(cut("b.txt"), []);
}

#[test]
fn chunks_over_land_are_stored_where_missing_is_another_value_than_the_fill_value() {
    let rows = |attributes: &str| {
        let lat = TestStore::new().array("lat", &v2_array(&[16], &[16])).file("lat/0", &[0; 64]);
        let store = lat.file("lat/.zattrs", br#"{"_ARRAY_DIMENSIONS":["lat"]}"#);
        let store = store.array("a", &v2_array(&[16], &[2])).file("a/.zattrs", attributes.as_bytes());
        let values = [1.0, 2.0].map(f32::to_le_bytes).concat();
        severities(&(0..5).fold(store, |store, chunk| store.file(&format!("a/{chunk}"), &values)))
    };
    assert_eq!(rows(r#"{"_ARRAY_DIMENSIONS":["lat"],"_FillValue":-9999.0}"#), [Severity::Error]);
    assert_eq!(rows(r#"{"_ARRAY_DIMENSIONS":["lat"]}"#), [Severity::Info]);
}

/// Arrays of 6 chunks along `dimension` without a coordinate, of which so many are stored.
fn cut(dimension: &str, arrays: &[(&str, u64)], fill: &str) -> TestStore {
    let attributes = format!(r#"{{"_ARRAY_DIMENSIONS":["{dimension}"]}}"#);
    let metadata = v2_array(&[12], &[2]).replace("\"fill_value\":0", &format!("\"fill_value\":{fill}"));
    arrays.iter().fold(TestStore::new(), |store, (name, stored)| {
        let store = store.array(name, &metadata).file(&format!("{name}/.zattrs"), attributes.as_bytes());
        let bytes = [1.0f32, 2.0].map(f32::to_le_bytes).concat();
        (0..*stored).fold(store, |store, chunk| store.file(&format!("{name}/{chunk}"), &bytes))
    })
}

#[test]
fn without_a_coordinate_the_name_of_the_dimension_or_a_whole_sibling_tells() {
    assert_eq!(severities(&cut("time", &[("a", 4)], "\"NaN\"")), [Severity::Error]);
    assert_eq!(severities(&cut("valid_time", &[("a", 4)], "\"NaN\"")), [Severity::Error]);
    assert_eq!(severities(&cut("obs", &[("a", 4)], "\"NaN\"")), [Severity::Info]);
    assert_eq!(severities(&cut("obs", &[("a", 6), ("b", 4)], "\"NaN\"")), [Severity::Warning]);
    assert_eq!(severities(&cut("obs", &[("a", 6), ("b", 4)], "0")), [Severity::Info]);
    assert_eq!(severities(&cut("x", &[("a", 6), ("b", 4)], "\"NaN\"")), [Severity::Info]);
}

#[test]
fn a_band_between_others_in_which_nothing_is_missing_is_a_warning() {
    let band = |values: [f32; 2], stored: &[u64]| {
        let lon = TestStore::new().array("lon", &v2_array(&[12], &[12])).file("lon/0", &[0; 48]);
        let dimensions = br#"{"_ARRAY_DIMENSIONS":["lon"]}"#;
        let metadata = v2_array(&[12], &[2]).replace("\"fill_value\":0", "\"fill_value\":\"NaN\"");
        let store = lon.file("lon/.zattrs", dimensions).array("t", &metadata).file("t/.zattrs", dimensions);
        let bytes = values.map(f32::to_le_bytes).concat();
        severities(&stored.iter().fold(store, |store, chunk| store.file(&format!("t/{chunk}"), &bytes)))
    };
    assert_eq!(band([1.0, 2.0], &[0, 1, 2, 4, 5]), [Severity::Warning]);
    assert_eq!(band([1.0, f32::NAN], &[0, 1, 2, 4, 5]), []);
    assert_eq!(band([1.0, 2.0], &[2, 3, 4, 5]), []);
}

#[test]
fn arrays_without_named_dimensions_may_be_sparse() {
    let sparse = TestStore::new().array("a", &v2_array(&[16], &[2])).file("a/0", &[1; 8]);
    assert_eq!(severities(&sparse), [Severity::Info]);
    assert_eq!(sparse.findings("absent-chunks"), []);
    let strict = sparse.with_policy("[[variable]]\nmatch = \"*\"\nmax-absent-fraction = 0.5");
    assert_eq!(strict.findings("absent-chunks")[0].severity, Severity::Warning);
    let zeros = TestStore::new().array("a", &v2_array(&[16], &[2])).file("a/0", &[0; 8]);
    assert_eq!((severities(&zeros).len(), zeros.findings("absent-chunks").len()), (0, 1));
}

#[test]
fn what_an_interval_sums_up_is_missing_at_the_first_step_of_a_forecast_by_right() {
    let forecast = |dimension: &str, name: &str, absent: u64| {
        let along = format!(r#"{{"_ARRAY_DIMENSIONS":["init","{dimension}"]}}"#);
        let array = v2_array(&[2, 6], &[1, 1]).replace("\"fill_value\":0", "\"fill_value\":\"NaN\"");
        let steps = format!(r#"{{"_ARRAY_DIMENSIONS":["{dimension}"]}}"#);
        let mut store = TestStore::new()
            .array(dimension, &v2_array(&[6], &[6]))
            .file(&format!("{dimension}/0"), &[0, 0, 128, 63].repeat(6))
            .file(&format!("{dimension}/.zattrs"), steps.as_bytes());
        for variable in [name, "whole"] {
            store = store.array(variable, &array).file(&format!("{variable}/.zattrs"), along.as_bytes());
            for (init, step) in (0..2).flat_map(|init| (0..6).map(move |step| (init, step))) {
                if variable == "whole" || step != absent {
                    store = store.file(&format!("{variable}/{init}.{step}"), &1f32.to_le_bytes());
                }
            }
        }
        severities(&store)
    };
    assert_eq!(forecast("step", "tp", 0), [Severity::Info]);
    assert_eq!(forecast("time", "tp", 0), [Severity::Info]);
    assert_eq!(forecast("step", "t2m", 0), [Severity::Warning]);
    assert_eq!(forecast("time", "t2m", 0), [Severity::Error]);
    assert_eq!(forecast("step", "tp", 2), [Severity::Error]);
}
