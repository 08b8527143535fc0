use super::*;
use crate::event::Silent;
use crate::hierarchy::Hierarchy;
use crate::location::StoreUrl;
use crate::store::StoreOptions;

/// Stores of one array `a`, in a folder that is gone with the value.
struct Held {
    _folder: tempfile::TempDir,
    hierarchy: Hierarchy,
}

const PLAIN: Packed = Packed { scale: 1.0, offset: 0.0, missing: Vec::new() };

/// An array of two dimensions in chunks of two rows.
fn held(data_type: &str, rows: usize, elements: &[Vec<u8>]) -> Held {
    let folder = tempfile::tempdir().unwrap();
    let columns = elements.len() / rows;
    let zarray = format!(
        r#"{{"zarr_format":2,"shape":[{rows},{columns}],"chunks":[2,{columns}],"dtype":"{data_type}","fill_value":null,"order":"C","compressor":null,"filters":null}}"#
    );
    std::fs::write(folder.path().join(".zgroup"), r#"{"zarr_format":2}"#).unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    std::fs::write(folder.path().join("a/.zarray"), zarray).unwrap();
    for (at, chunk) in elements.chunks(2 * columns).enumerate() {
        let mut bytes = chunk.concat();
        bytes.resize(2 * columns * elements[0].len(), 0);
        std::fs::write(folder.path().join(format!("a/{at}.0")), bytes).unwrap();
    }
    let url = StoreUrl::Local(folder.path().to_owned());
    Held { hierarchy: Hierarchy::open(&url, &StoreOptions::default()).unwrap(), _folder: folder }
}

fn floats(rows: usize, values: impl IntoIterator<Item = f32>) -> Held {
    held("<f4", rows, &values.into_iter().map(|value| value.to_le_bytes().to_vec()).collect::<Vec<_>>())
}

fn compare(own: &Held, source: &Held, along: Vec<Along<'_>>, packed: (Packed, Packed)) -> Agreement {
    let node = |held: &'_ Held| held.hierarchy.arrays[0].clone();
    let (a, b) = (node(own), node(source));
    let pair = AlignedPair { own: &a, source: &b, along, packed };
    let stores = (own.hierarchy.store.as_ref().unwrap(), source.hierarchy.store.as_ref().unwrap());
    let resources = Resources { memory_bytes: 64 << 20, jobs: 1 };
    let run = (&Silent::default(), &Cancel::default());
    let mut found = compare_aligned(stores, &[pair], Extent::Whole, resources, run.0, run.1).unwrap();
    found.remove(0).unwrap().unwrap()
}

#[test]
fn a_slice_is_compared_where_its_coordinates_stand() {
    let source = floats(6, (0..18u8).map(f32::from));
    // rows 4, 1, one that the source does not have, 2; the last value is wrong
    let own = floats(4, [12.0, 13.0, 14.0, 3.0, 4.0, 5.0, 99.0, 99.0, 99.0, 6.0, 7.0, 8.5]);
    let rows = [Some(4), Some(1), None, Some(2)];
    let found = compare(&own, &source, vec![Along::Positions(&rows), Along::Same], (PLAIN, PLAIN));
    assert_eq!((found.elements, found.different), (9, 1));
    let first = found.first.unwrap();
    assert_eq!((first.index, first.own.as_str(), first.source.as_str()), (vec![3, 2], "8.5", "8.0"));
    assert_eq!(found.chunks.iter().collect::<Vec<_>>(), [1]);
    assert_eq!(found.positions[0].iter().collect::<Vec<_>>(), [3]);
    assert_eq!((found.compared_positions, found.largest), (vec![3, 3], Some(0.5)));
}

#[test]
fn missing_values_are_one_however_they_are_marked() {
    let source = floats(2, [1.0, -999.9, 3.0, f32::NAN]);
    let own = floats(2, [1.0, f32::NAN, f32::NAN, f32::NAN]);
    let declared = Packed { missing: vec![-999.9], ..PLAIN };
    let found = compare(&own, &source, vec![Along::Same, Along::Same], (PLAIN, declared));
    assert_eq!((found.elements, found.different), (4, 1));
    assert_eq!(found.first.unwrap().index, [1, 0]);
}

#[test]
fn packed_numbers_are_equal_within_half_a_step() {
    let source = floats(2, [271.234, 271.266, 280.0, 290.0]);
    let stored: Vec<Vec<u8>> =
        [2123i16, 2127, 3000, 4005].iter().map(|value| value.to_le_bytes().to_vec()).collect();
    let packed = Packed { scale: 0.01, offset: 250.0, missing: Vec::new() };
    let found = compare(&held("<i2", 2, &stored), &source, vec![Along::Same, Along::Same], (packed, PLAIN));
    assert_eq!((found.elements, found.different), (4, 1));
    assert!((found.largest.unwrap() - 0.05).abs() < 1e-3, "{found:?}");
}

#[test]
fn a_sample_draws_few_chunks_and_the_same_ones_each_time() {
    let source = floats(200, (0..200u8).map(f32::from));
    let node = source.hierarchy.arrays[0].clone();
    let pair = AlignedPair {
        own: &node,
        source: &node,
        along: vec![Along::Same, Along::Same],
        packed: (PLAIN, PLAIN),
    };
    let chosen = |seed| choose(std::slice::from_ref(&pair), Extent::Sample { bytes: 80, seed });
    assert_eq!(chosen(1)[0].len(), 5);
    assert_eq!(chosen(1), chosen(1));
    assert_ne!(chosen(1), chosen(2));
    assert_eq!(choose(std::slice::from_ref(&pair), Extent::Whole)[0].len(), 100);
}

#[test]
fn a_scattered_source_is_read_in_parts() {
    let source = floats(200, (0..200u8).map(f32::from));
    let own = floats(2, [0.0, 199.0]);
    let (a, b) = (own.hierarchy.arrays[0].clone(), source.hierarchy.arrays[0].clone());
    let rows = [Some(0), Some(199)];
    let pair = AlignedPair {
        own: &a,
        source: &b,
        along: vec![Along::Positions(&rows), Along::Same],
        packed: (PLAIN, PLAIN),
    };
    let stores = (own.hierarchy.store.as_ref().unwrap(), source.hierarchy.store.as_ref().unwrap());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    // half of a slab holds four elements: the box of both rows does not fit
    let lane = Lane { pool: &pool, slab_bytes: 32, chunk_bytes: 1 << 20 };
    let comparison = Comparison::of(stores, &pair, &lane).unwrap();
    let found = comparison.run(&[0], &lane, &Silent::default(), &Cancel::default()).unwrap();
    assert_eq!((found.elements, found.different), (2, 0));
}
