//! Arrays of one group that disagree about how long a dimension is.

use std::collections::BTreeMap;

use zkit_core::metadata::{Json, ZarrFormat};
use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "dimension-mismatch",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "arrays of one group disagree about the length of a dimension",
    explanation: "\
Arrays that name the same dimension must be equally long along it; xarray and netCDF refuse the group, or give values the
coordinates of others. It comes from names in the wrong order, from an append that did not reach all arrays, and from a
coordinate that was written for another grid.

On disk: dimension_names of zarr.json (v3) or _ARRAY_DIMENSIONS of .zattrs (v2) name a dimension whose length in `shape`
differs between arrays of the group, or from the coordinate of that name; or there are more or fewer names than dimensions.

Legitimate: different groups may give one name different lengths. So may the levels of an image pyramid (OME-Zarr
`multiscales`), which are told by their group's attributes or by arrays called 0, 1, 2. Arrays without names are never
compared. Where neither a coordinate nor most arrays tell which length is right, it is a warning.

What to do: if the lengths tell which name belongs where, correct the names; else write the shorter array to its end:
`zkit inspect STORE` shows names and shapes side by side.",
    check: Check::Store(check),
};

/// The length that a dimension should have, and where that is known from.
struct Expected<'a> {
    length: u64,
    /// The coordinate; `None` where most arrays say so.
    coordinate: Option<&'a str>,
    /// How many arrays agree, and how many there are.
    agreeing: (usize, usize),
}

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let mut groups: BTreeMap<&str, Vec<&ArrayObservation<'_>>> = BTreeMap::new();
    for array in &store.arrays {
        check_rank(array, finder);
        groups.entry(array.group()).or_default().push(array);
    }
    for (group, arrays) in groups {
        if !is_pyramid(store, group, &arrays) {
            check_group(&arrays, finder);
        }
    }
}

/// Finds v2 arrays with more or fewer names than dimensions: xarray refuses them.
fn check_rank(array: &ArrayObservation<'_>, finder: &mut Finder<'_>) {
    let metadata = &array.node.metadata;
    if metadata.format != ZarrFormat::V2 {
        // a defect of the metadata already
        return;
    }
    let Some(names) = metadata.attributes.get("_ARRAY_DIMENSIONS").and_then(Json::as_array) else { return };
    let rank = metadata.shape().len();
    if names.len() != rank {
        finder
            .array(array.path(), format!("_ARRAY_DIMENSIONS has {} names for {rank} dimensions", names.len()))
            .evidence("names", names.len())
            .evidence("dimensions", rank)
            .remedy("correct _ARRAY_DIMENSIONS: one name for each dimension");
    }
}

/// Returns whether a group holds the levels of an image pyramid, which share names and differ in lengths: its attributes
/// say so, or its arrays are called 0, 1, 2. Source: OME-NGFF, "multiscales".
fn is_pyramid(store: &StoreObservation<'_>, group: &str, arrays: &[&ArrayObservation<'_>]) -> bool {
    let is_level = |name: &str| {
        let digits = name.trim_start_matches(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && ["", "s", "level", "level_", "scale", "scale_"].contains(&&name[..name.len() - digits.len()])
    };
    if arrays.iter().all(|array| is_level(array.name())) {
        return true;
    }
    let path = if group.is_empty() { "/" } else { group };
    let found = store.hierarchy.groups.iter().find(|node| node.path == path);
    found.is_some_and(|node| {
        let attributes = &node.attributes;
        attributes.get("multiscales").is_some() || attributes.get("ome").is_some()
    })
}

fn check_group(arrays: &[&ArrayObservation<'_>], finder: &mut Finder<'_>) {
    let expected = expected_lengths(arrays);
    for array in arrays {
        let mut wrong = Vec::new();
        for (dimension, &length) in array.node.metadata.shape().iter().enumerate() {
            let Some(name) = given_name(array, dimension) else { continue };
            let Some(expected) = expected.get(name).filter(|expected| expected.length != length) else {
                continue;
            };
            wrong.push((name, length, expected));
        }
        if wrong.is_empty() {
            continue;
        }
        let words = wrong.iter().map(|(name, length, expected)| {
            let whence = match expected.coordinate {
                Some(path) => format!("`{path}` has {}", expected.length),
                None => {
                    format!(
                        "{} of {} arrays have {}",
                        expected.agreeing.0, expected.agreeing.1, expected.length
                    )
                }
            };
            format!("`{name}` is {length} long, {whence}")
        });
        let message = words.collect::<Vec<_>>().join("; ");
        let sure = wrong.iter().any(|(_, _, expected)| {
            expected.coordinate.is_some() || expected.agreeing.0 * 2 > expected.agreeing.1
        });
        let mut finding = finder
            .array(array.path(), message)
            .severity(if sure { Severity::Error } else { Severity::Warning })
            .confidence(if sure { Confidence::High } else { Confidence::Medium })
            .remedy(match swapped(array, &wrong) {
                true => "the names fit in another order: correct the dimension names",
                false => "write the array again to its full length, or correct the dimension names",
            });
        for (name, length, expected) in &wrong {
            finding =
                finding.evidence(name, serde_json::json!({"found": length, "expected": expected.length}));
        }
    }
}

/// Returns whether the lengths that an array should have are those that it has, in another order.
fn swapped(array: &ArrayObservation<'_>, wrong: &[(&str, u64, &Expected<'_>)]) -> bool {
    let mut found: Vec<u64> = wrong.iter().map(|(_, length, _)| *length).collect();
    let mut expected: Vec<u64> = wrong.iter().map(|(_, _, expected)| expected.length).collect();
    found.sort_unstable();
    expected.sort_unstable();
    found == expected && array.node.metadata.shape().len() > 1
}

/// Returns the name of a dimension that somebody gave it: dimensions without a name are counted by netCDF-C and NCZarr,
/// file by file and array by array.
fn given_name<'a>(array: &ArrayObservation<'a>, dimension: usize) -> Option<&'a str> {
    let counted = |name: &str| {
        ["phony_dim_", "_Anonymous_Dim_", "_anonymous_dim_", ".zdim", "_zdim"].iter().any(|start| {
            name.strip_prefix(start).is_some_and(|rest| {
                !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
            })
        })
    };
    array.dimension_name(dimension).filter(|name| !counted(name))
}

/// Returns the length that each dimension should have: that of its coordinate, else the one that most arrays have.
fn expected_lengths<'a>(arrays: &[&'a ArrayObservation<'_>]) -> BTreeMap<&'a str, Expected<'a>> {
    let mut lengths: BTreeMap<&str, BTreeMap<u64, usize>> = BTreeMap::new();
    let mut coordinates: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for array in arrays {
        for (dimension, &length) in array.node.metadata.shape().iter().enumerate() {
            let Some(name) = given_name(array, dimension) else { continue };
            *lengths.entry(name).or_default().entry(length).or_default() += 1;
            if name == array.name() && array.node.metadata.shape().len() == 1 {
                coordinates.insert(name, (length, array.path()));
            }
        }
    }
    let expected = lengths.into_iter().filter_map(|(name, lengths)| {
        let all: usize = lengths.values().sum();
        let expected = match coordinates.get(name) {
            // a coordinate that all others contradict with one voice was not grown with them
            Some(&(length, path)) if !(lengths.len() == 2 && lengths.get(&length) == Some(&1) && all > 2) => {
                let agreeing = lengths.get(&length).copied().unwrap_or(0);
                Expected { length, coordinate: Some(path), agreeing: (agreeing, all) }
            }
            _ => {
                // of equally many the longer one: appends that stopped leave short arrays
                let (&length, &count) = lengths.iter().max_by_key(|&(&length, &count)| (count, length))?;
                Expected { length, coordinate: None, agreeing: (count, all) }
            }
        };
        Some((name, expected))
    });
    expected.collect()
}

#[cfg(test)]
mod tests {
    use zkit_report::{Confidence, Severity};

    use crate::testing::{TestStore, v2_array};

    fn named(store: TestStore, path: &str, shape: &[u64], names: &str) -> TestStore {
        store
            .array(path, &v2_array(shape, shape))
            .file(&format!("{path}/.zattrs"), format!(r#"{{"_ARRAY_DIMENSIONS": {names}}}"#).as_bytes())
    }

    #[test]
    fn swapped_names_are_found_at_the_array_that_has_them() {
        let store = named(TestStore::new(), "lat", &[11], r#"["lat"]"#);
        let store = named(store, "lon", &[21], r#"["lon"]"#);
        let found =
            named(store, "air", &[4, 11, 21], r#"["time", "lon", "lat"]"#).findings("dimension-mismatch");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].array.as_deref(), Some("/air"));
        assert_eq!(found[0].message, "`lon` is 11 long, `/lon` has 21; `lat` is 21 long, `/lat` has 11");
        assert!(found[0].remedy.as_deref().unwrap().contains("another order"));
    }

    #[test]
    fn without_a_coordinate_most_arrays_are_right() {
        let mut store = TestStore::new();
        for (path, length) in [("a", 10), ("b", 10), ("c", 7)] {
            store = named(store, path, &[length], r#"["time"]"#);
        }
        let found = store.findings("dimension-mismatch");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].array.as_deref(), found[0].confidence), (Some("/c"), Confidence::High));
        assert_eq!(found[0].message, "`time` is 7 long, 2 of 3 arrays have 10");
    }

    #[test]
    fn a_coordinate_that_was_not_grown_is_the_one_to_blame() {
        let store = named(TestStore::new(), "time", &[10], r#"["time"]"#);
        let store = named(store, "a", &[12], r#"["time"]"#);
        let found = named(store, "b", &[12], r#"["time"]"#).findings("dimension-mismatch");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].array.as_deref(), Some("/time"));
        assert_eq!(found[0].message, "`time` is 10 long, 2 of 3 arrays have 12");
    }

    #[test]
    fn two_arrays_that_disagree_leave_it_open() {
        let store = named(TestStore::new(), "a", &[10], r#"["time"]"#);
        let found = named(store, "b", &[12], r#"["time"]"#).findings("dimension-mismatch");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
    }

    #[test]
    fn names_that_do_not_fit_the_dimensions_are_found() {
        let found = named(TestStore::new(), "air", &[4, 11], r#"["time"]"#).findings("dimension-mismatch");
        assert_eq!(found[0].message, "_ARRAY_DIMENSIONS has 1 names for 2 dimensions");
    }

    #[test]
    fn pyramids_and_other_groups_may_differ() {
        let store = TestStore::new().file(".zattrs", br#"{"multiscales": [{"datasets": [{"path": "0"}]}]}"#);
        let store = named(store, "0", &[64, 64], r#"["y", "x"]"#);
        let store = named(store, "1", &[32, 32], r#"["y", "x"]"#);
        assert_eq!(store.findings("dimension-mismatch"), []);
        let store = TestStore::new()
            .file("a/.zgroup", b"{\"zarr_format\": 2}")
            .file("b/.zgroup", b"{\"zarr_format\": 2}");
        let store = named(store, "a/v", &[5], r#"["x"]"#);
        let store = named(store, "b/v", &[6], r#"["x"]"#);
        assert_eq!(store.findings("dimension-mismatch"), []);
    }

    #[test]
    fn names_that_libraries_count_up_say_nothing() {
        let named = |name: &str| format!(r#"{{"_ARRAY_DIMENSIONS":["{name}"]}}"#);
        let store = |name: &str| {
            TestStore::new()
                .array("a", &v2_array(&[8], &[8]))
                .file("a/.zattrs", named(name).as_bytes())
                .array("b", &v2_array(&[5], &[5]))
                .file("b/.zattrs", named(name).as_bytes())
        };
        for counted in ["phony_dim_0", "_Anonymous_Dim_8", ".zdim_1"] {
            assert!(store(counted).findings("dimension-mismatch").is_empty(), "{counted}");
        }
        assert_eq!(store("phony_dim_x").findings("dimension-mismatch").len(), 1);
    }
}
