//! Scans of stores in temporary folders, and of the fixtures, against a reader that holds everything at once.

use std::path::{Path, PathBuf};

use super::*;
use crate::cancel::Cancel;
use crate::engine::{Listing, Resources, SurveyDepth, survey};
use crate::event::{Meter, Silent};
use crate::grid::Region;
use crate::hierarchy::{ArrayNode, Hierarchy};
use crate::kernels::scan::{Scalar, Scanner, Statistics};
use crate::location::StoreUrl;
use crate::read::{ArrayReader, ReadContext, read_slab};
use crate::store::StoreOptions;

const RESOURCES: Resources = Resources { memory_bytes: 256 << 20, jobs: 2 };

fn open(path: &Path) -> Hierarchy {
    Hierarchy::open(&StoreUrl::Local(path.to_owned()), &StoreOptions::default()).unwrap()
}

fn listings(hierarchy: &Hierarchy) -> Vec<Listing> {
    let arrays: Vec<&ArrayNode> = hierarchy.arrays.iter().collect();
    let depth = SurveyDepth::Listing { sample_most: 0 };
    let store = hierarchy.store.as_ref().unwrap();
    let surveys = survey(store, &arrays, depth, &Silent::default(), &Cancel::default()).unwrap();
    surveys.into_iter().map(|survey| survey.listing.unwrap()).collect()
}

fn scan(hierarchy: &Hierarchy, sample: Sample) -> Vec<ArrayValues> {
    let listings = listings(hierarchy);
    let pairs = hierarchy.arrays.iter().zip(&listings);
    let targets: Vec<_> =
        pairs.map(|(array, listing)| ScanTarget { array, listing: Some(listing) }).collect();
    let store = hierarchy.store.as_ref().unwrap();
    scan_values(store, &targets, (sample, 7), RESOURCES, &Silent::default(), &Cancel::default()).unwrap()
}

fn values_of(path: &Path) -> ArrayValues {
    scan(&open(path), Sample::Full).remove(0)
}

/// An uncompressed v2 array of float32; `None` are chunks that are not stored.
fn store(
    shape: &[u64],
    chunks: &[u64],
    fill: &str,
    stored: &[(&str, Option<Vec<f32>>)],
) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let metadata = format!(
        r#"{{"zarr_format":2,"shape":{shape:?},"chunks":{chunks:?},"dtype":"<f4","fill_value":{fill},"compressor":null,"filters":null,"order":"C"}}"#
    );
    std::fs::write(folder.path().join(".zarray"), metadata).unwrap();
    for (key, values) in stored {
        if let Some(values) = values {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            std::fs::write(folder.path().join(key), bytes).unwrap();
        }
    }
    folder
}

#[test]
fn edges_are_clipped_and_absent_chunks_are_fill() {
    let chunk = |from: f32| Some((0..4).map(|at| from + at as f32).collect());
    let folder =
        store(&[3, 3], &[2, 2], "-5.0", &[("0.0", chunk(0.0)), ("1.1", chunk(100.0)), ("0.1", chunk(10.0))]);
    let values = values_of(folder.path());
    // of the chunk at the corner one element lies inside, of that at the right two
    assert_eq!(values.stored.elements, 4 + 1 + 2);
    assert_eq!(
        (values.stored.min, values.stored.max),
        (Some(Scalar::Float(0.0)), Some(Scalar::Float(100.0)))
    );
    assert_eq!((values.coverage.elements, values.coverage.elements_absent), (9, 2));
    let whole = values.statistics();
    assert_eq!((whole.elements, whole.fill, whole.missing), (9, 2, 2));
    assert_eq!(whole.mean(), Some((0.0 + 1.0 + 2.0 + 3.0 + 10.0 + 12.0 + 100.0) / 7.0));
}

#[test]
fn nan_is_found_by_step_inside_chunks_that_span_several() {
    let (steps, width) = (6, 40);
    let nan = |step: usize, at: usize| step == 4 || (step == 2 && at < 3);
    let chunk = |first: usize| {
        let value = |at: usize| if nan(first + at / width, at % width) { f32::NAN } else { 1.0 };
        Some((0..3 * width).map(value).collect())
    };
    let folder =
        store(&[steps, width as u64], &[3, width as u64], "0.0", &[("0.0", chunk(0)), ("1.0", chunk(3))]);
    let values = values_of(folder.path());
    let profile = &values.nan[0];
    assert_eq!(profile.nan, [0, 0, 3, 0, 40, 0]);
    assert_eq!(profile.seen, [40; 6]);
    assert_eq!(profile.all_nan(), [(4, 4)]);
    assert_eq!(values.nan[1].nan[..4], [2, 2, 2, 1]);
    assert!(values.all_nan.is_empty());
}

#[test]
fn corrupt_chunks_are_observed_and_the_others_scanned() {
    let numbers = |count: usize| Some(vec![1.0; count]);
    let folder = store(
        &[8],
        &[2],
        "0.0",
        &[("0", numbers(2)), ("1", numbers(1)), ("2", numbers(2)), ("3", numbers(3))],
    );
    let values = values_of(folder.path());
    assert_eq!(values.corrupt.stored.iter().collect::<Vec<_>>(), [1, 3]);
    assert!(
        values.corrupt.examples[0].reason.contains("4 bytes, 8 expected"),
        "{:?}",
        values.corrupt.examples
    );
    assert_eq!((values.stored.elements, values.coverage.chunks_seen), (4, 4));
    assert!(values.unreadable.is_empty() && values.skipped.is_none());
}

#[test]
fn chunks_of_the_same_bytes_have_the_same_digest_and_statistics() {
    let chunk = |value: f32| Some(vec![value; 50]);
    let nan = chunk(f32::NAN);
    let stored = [("0", chunk(2.0)), ("1", nan.clone()), ("2", chunk(2.0)), ("3", nan)];
    let folder = store(&[200], &[50], "\"NaN\"", &stored);
    let values = values_of(folder.path());
    let units = values.units.as_ref().unwrap();
    assert_eq!((units[0].digest, units[1].digest), (units[2].digest, units[3].digest));
    assert_ne!(units[0].digest, units[1].digest);
    assert_eq!(values.all_nan.iter().collect::<Vec<_>>(), [1, 3]);
    assert_eq!(values.all_fill, values.all_nan);
    assert_eq!(values.constant.len(), 4);
    assert_eq!((values.stored.nan, values.stored.valid), (100, 100));
    assert_eq!(values.nan[0].all_nan(), [(50, 99), (150, 199)]);
}

#[test]
fn a_sample_looks_at_a_part_and_says_so() {
    let keys: Vec<String> = (0..100).map(|at| at.to_string()).collect();
    let stored: Vec<_> = keys.iter().map(|key| (key.as_str(), Some(vec![1.0; 4]))).collect();
    let folder = store(&[400], &[4], "0.0", &stored);
    let hierarchy = open(folder.path());
    for (sample, expected) in
        [(Sample::Percent(10.0), 8..=10), (Sample::Bytes(1600), 100..=100), (Sample::Bytes(1), 1..=1)]
    {
        let values = scan(&hierarchy, sample).remove(0);
        assert!(expected.contains(&values.coverage.chunks_seen), "{sample:?}: {:?}", values.coverage);
        assert_eq!(values.stored.elements, 4 * values.coverage.chunks_seen);
        assert_eq!(values.coverage.is_full(), values.coverage.chunks_seen == 100);
    }
    let parts: u64 = (1..=3)
        .map(|number| scan(&hierarchy, Sample::Part { number, of: 3 }).remove(0).coverage.chunks_seen)
        .sum();
    assert_eq!(parts, 100);
}

#[test]
fn an_absurd_chunk_is_left_out_with_a_reason() {
    let folder = store(&[1 << 40], &[1 << 40], "0.0", &[("0", Some(vec![1.0]))]);
    let path = folder.path().join(".zarray");
    let text = std::fs::read_to_string(&path).unwrap();
    let zlib = text.replace("\"compressor\":null", "\"compressor\":{\"id\":\"zlib\",\"level\":1}");
    std::fs::write(&path, zlib).unwrap();
    let values = values_of(folder.path());
    assert!(matches!(values.skipped, Some(Skipped::OverBudget(why)) if why.contains("memory budget")));
    assert_eq!(values.coverage.chunks_seen, 0);
    // of what is not stored nothing was left out
    std::fs::remove_file(folder.path().join("0")).unwrap();
    assert_eq!(values_of(folder.path()).skipped, None);
}

#[test]
fn an_object_larger_than_any_chunk_of_its_array_is_corrupt_however_little_memory_there_is() {
    let folder = store(&[4], &[2], "0.0", &[("0", Some(vec![1.0; 2])), ("1", Some(vec![1.0; 2]))]);
    let path = folder.path().join(".zarray");
    let text = std::fs::read_to_string(&path).unwrap();
    let zlib = text.replace("\"compressor\":null", "\"compressor\":{\"id\":\"zlib\",\"level\":1}");
    std::fs::write(&path, zlib).unwrap();
    std::fs::File::options().write(true).open(folder.path().join("1")).unwrap().set_len(1 << 40).unwrap();
    let values = values_of(folder.path());
    assert!(values.over_budget.is_empty());
    let reason = &values.corrupt.examples[1].reason;
    assert!(reason.starts_with("it holds 1.0 TiB, a chunk of this array 16.0 MiB"), "{reason}");
}

#[test]
fn texts_that_need_more_memory_than_there_is_are_over_budget_and_other_objects_unsupported() {
    let text = |codec: &str| {
        format!(
            r#"{{"zarr_format": 2, "shape": [2], "chunks": [1], "dtype": "|O", "fill_value": null, "order": "C",
            "compressor": {{"id": "zlib", "level": 1}}, "filters": [{{"id": "{codec}"}}]}}"#
        )
    };
    let zlib = |bytes: &[u8]| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".zarray"), text("vlen-utf8")).unwrap();
    let long = 80u32 << 20;
    let chunk = [&1u32.to_le_bytes()[..], &long.to_le_bytes(), &vec![b'a'; long as usize]].concat();
    std::fs::write(folder.path().join("0"), zlib(&chunk)).unwrap();
    let values = values_of(folder.path());
    assert!(values.corrupt.is_empty() && values.over_budget.stored.contains(0), "{values:?}");
    assert_eq!(values.coverage.chunks_seen, 0);

    std::fs::remove_file(folder.path().join("0")).unwrap();
    std::fs::write(folder.path().join(".zarray"), text("json2")).unwrap();
    std::fs::write(folder.path().join("0"), zlib(br#"[7, "|O", [1]]"#)).unwrap();
    std::fs::write(folder.path().join("1"), zlib(b"[nothing")).unwrap();
    let values = values_of(folder.path());
    assert_eq!(values.unsupported.stored.iter().collect::<Vec<_>>(), [0]);
    assert_eq!(values.corrupt.stored.iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn a_value_that_stands_for_missing_ones_is_counted() {
    let values = |ocean: f32| (0..40).map(|at| if at < 10 { ocean } else { 280.0 + at as f32 }).collect();
    let stored = [("0", Some(values(1e20))), ("1", Some(values(285.0)))];
    let found = values_of(store(&[80], &[40], "0.0", &stored).path()).stand_in.unwrap();
    assert_eq!((found.count, found.elements), (10, 40));
    assert_eq!((found.value, found.others.max), (f64::from(1e20_f32), Some(Scalar::Float(319.0))));
    // a declared one is no number, and so no extreme
    assert_eq!(values_of(store(&[80], &[40], "1e20", &stored).path()).stand_in, None);
    assert_eq!(values_of(store(&[80], &[40], "0.0", &stored[1..]).path()).stand_in, None);
}

#[test]
fn a_cancelled_scan_says_so() {
    let folder = store(&[4], &[4], "0.0", &[("0", Some(vec![1.0; 4]))]);
    let hierarchy = open(folder.path());
    let listings = listings(&hierarchy);
    let target = ScanTarget { array: &hierarchy.arrays[0], listing: Some(&listings[0]) };
    let cancel = Cancel::default();
    cancel.cancel();
    let store = hierarchy.store.as_ref().unwrap();
    let scanned = scan_values(store, &[target], (Sample::Full, 0), RESOURCES, &Silent::default(), &cancel);
    assert_eq!(scanned.unwrap_err().kind(), crate::error::ErrorKind::Cancelled);
}

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

#[test]
fn every_fixture_has_the_statistics_that_a_whole_read_gives() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (cancel, meter) = (Cancel::default(), Meter::default());
    let mut compared = 0;
    for path in fixtures() {
        let hierarchy = open(&path);
        if hierarchy.store.is_none() {
            continue;
        }
        for (array, values) in hierarchy.arrays.iter().zip(scan(&hierarchy, Sample::Full)) {
            let Some(kind) = elements::element_kind(&array.metadata.data_type) else { continue };
            let Ok(reader) = ArrayReader::new(hierarchy.store.as_ref().unwrap(), array, 1 << 30) else {
                continue;
            };
            if array.metadata.decoded_bytes().is_none_or(|bytes| bytes > 64 << 20) {
                continue;
            }
            let mut bytes = Vec::new();
            let context = ReadContext {
                pool: &pool,
                cancel: &cancel,
                meter: &meter,
                in_flight_bytes: ReadContext::IN_FLIGHT_BYTES,
            };
            let whole = Region::whole(array.metadata.shape());
            if read_slab(&reader, &whole, &mut bytes, context).is_err() {
                assert!(
                    !values.corrupt.is_empty() || !values.unreadable.is_empty(),
                    "{} {}",
                    path.display(),
                    array.path
                );
                continue;
            }
            let fill = array.metadata.fill_value.element(&array.metadata.data_type);
            let mut expected = Statistics::default();
            Scanner::new(kind, fill.as_deref(), &[]).scan(&bytes, &mut expected);
            let found = values.statistics();
            let place = format!("{} {}: {found:?}, expected {expected:?}", path.display(), array.path);
            assert_eq!(
                (found.elements, found.nan, found.fill),
                (expected.elements, expected.nan, expected.fill),
                "{place}"
            );
            assert_eq!(found.infinite(), expected.infinite(), "{place}");
            assert!(
                values.corrupt.is_empty() && values.unreadable.is_empty(),
                "{place}: {:?}",
                values.corrupt
            );
            if found.missing == 0 {
                assert_eq!(
                    (found.min, found.max, found.valid),
                    (expected.min, expected.max, expected.valid),
                    "{place}"
                );
            }
            for profile in &values.nan {
                assert_eq!(profile.nan.iter().sum::<u64>(), values.stored.void(), "{place}");
                assert_eq!(profile.seen.iter().sum::<u64>(), values.stored.elements, "{place}");
            }
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared} arrays compared");
}
