//! `dimension-mismatch`: arrays that share a dimension disagree on its length.

use std::collections::BTreeMap;
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
    summary: "arrays that share a dimension disagree on its length",
    explanation: "\
Two arrays of one group name the same dimension and have different lengths along it: dimension names were
swapped, an append was interrupted between variables, or a coordinate was not grown with its data. xarray
refuses to open the group, or aligns what does not belong together.

On disk: `dimension_names` (v3) or `_ARRAY_DIMENSIONS` (v2) against the shapes.

Legitimate: the levels of an image pyramid share names and not lengths; groups with `multiscales` are left
out. Without a coordinate to tell which one is right, it is a warning.

What to do: compare with the program that wrote it; correct the names, or write the shorter array again.",
    check: Check::Store(check),
};

/// The arrays of one group along one dimension, by length.
type Lengths<'a> = BTreeMap<u64, Vec<&'a str>>;

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let mut dimensions: BTreeMap<(&str, &str), Lengths<'_>> = BTreeMap::new();
    let mut coordinates: BTreeMap<(&str, &str), (&str, u64)> = BTreeMap::new();
    for array in &store.arrays {
        for (dimension, &length) in array.node.metadata.shape().iter().enumerate() {
            let Some(name) = array.dimension_name(dimension) else { continue };
            if let Some(coordinate) = coordinate_of(store, array, dimension) {
                let known = (coordinate.path(), coordinate.node.metadata.shape()[0]);
                coordinates.insert((array.group(), name), known);
            }
            dimensions
                .entry((array.group(), name))
                .or_default()
                .entry(length)
                .or_default()
                .push(array.path());
        }
    }
    for (place, lengths) in dimensions {
        match coordinates.get(&place) {
            Some(&coordinate) => against_coordinate(coordinate, place.1, &lengths, finder),
            None if is_pyramid(store, place.0) => {}
            None => among_each_other(place.1, &lengths, finder),
        }
    }
}

fn coordinate_of<'s, 'a>(
    store: &'s StoreObservation<'a>,
    array: &ArrayObservation<'a>,
    dimension: usize,
) -> Option<&'s ArrayObservation<'a>> {
    let coordinate = store.coordinate_of(array, dimension)?;
    (coordinate.dimension_name(0) == array.dimension_name(dimension)).then_some(coordinate)
}

/// The coordinate is right, unless all others agree against it.
fn against_coordinate(
    (coordinate, expected): (&str, u64),
    dimension: &str,
    lengths: &Lengths<'_>,
    finder: &mut Finder<'_>,
) {
    let others = |paths: &[&str]| paths.iter().filter(|&&path| path != coordinate).count();
    let agreeing = lengths.get(&expected).map_or(0, |paths| others(paths));
    let differing: Vec<_> = lengths.iter().filter(|(length, _)| **length != expected).collect();
    if let ([(length, paths)], 0) = (&differing[..], agreeing)
        && paths.len() > 1
    {
        finder
            .array(
                coordinate,
                format!(
                    "it has {expected} elements, and all {} arrays along {dimension} have {length}",
                    paths.len()
                ),
            )
            .evidence("expected", **length)
            .evidence("found", expected)
            .remedy("write the coordinate again, or correct the shapes");
        return;
    }
    for (&length, paths) in differing {
        for &path in paths {
            finder
                .array(
                    path,
                    format!("its dimension {dimension} has length {length}, the coordinate `{coordinate}` has {expected}"),
                )
                .evidence("dimension", dimension)
                .evidence("expected", expected)
                .evidence("found", length)
                .remedy("correct its dimension names or its shape");
        }
    }
}

/// Without a coordinate the majority is taken to be right.
fn among_each_other(dimension: &str, lengths: &Lengths<'_>, finder: &mut Finder<'_>) {
    let Some((&usual, most)) = lengths.iter().max_by_key(|(_, paths)| paths.len()) else { return };
    for (&length, paths) in lengths.iter().filter(|(length, _)| **length != usual) {
        for &path in paths {
            finder
                .array(
                    path,
                    format!("its dimension {dimension} has length {length}, `{}` has {usual}", most[0]),
                )
                .severity(Severity::Warning)
                .confidence(Confidence::Medium)
                .evidence("dimension", dimension)
                .evidence("expected", usual)
                .evidence("found", length)
                .remedy("correct its dimension names or its shape");
        }
    }
}

/// Returns whether a group holds the levels of an image pyramid. Source: OME-NGFF, "multiscales".
fn is_pyramid(store: &StoreObservation<'_>, group: &str) -> bool {
    let path = if group.is_empty() { "/" } else { group };
    store.hierarchy.groups.iter().any(|known| {
        let inside = |ome: &zkit_core::metadata::Json| ome.get("multiscales").is_some();
        known.path == path
            && (known.attributes.get("multiscales").is_some()
                || known.attributes.get("ome").is_some_and(inside))
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    fn with_dimensions(store: TestStore, path: &str, shape: &[u64], names: &[&str]) -> TestStore {
        let attributes = serde_json::json!({ "_ARRAY_DIMENSIONS": names }).to_string();
        store.array(path, &v2_array(shape, shape)).file(&format!("{path}/.zattrs"), attributes.as_bytes())
    }

    fn grid() -> TestStore {
        let store = with_dimensions(TestStore::new(), "lat", &[3], &["lat"]);
        with_dimensions(store, "lon", &[5], &["lon"])
    }

    #[test]
    fn swapped_names_conflict_with_coordinates() {
        let found = with_dimensions(grid(), "t2m", &[3, 5], &["lon", "lat"]).findings("dimension-mismatch");
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|finding| finding.array.as_deref() == Some("/t2m")));
        assert!(
            with_dimensions(grid(), "t2m", &[3, 5], &["lat", "lon"])
                .findings("dimension-mismatch")
                .is_empty()
        );
    }

    #[test]
    fn a_coordinate_that_was_not_grown_is_the_one_to_blame() {
        let store = with_dimensions(grid(), "a", &[4], &["lat"]);
        let found = with_dimensions(store, "b", &[4], &["lat"]).findings("dimension-mismatch");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].array.as_deref(), Some("/lat"));
    }

    #[test]
    fn levels_of_a_pyramid_share_names_and_no_lengths() {
        let levels = |store: TestStore| {
            let store = with_dimensions(store, "0", &[8], &["x"]);
            with_dimensions(store, "1", &[4], &["x"])
        };
        assert_eq!(levels(TestStore::new()).findings("dimension-mismatch").len(), 1);
        let pyramid = TestStore::new().file(".zattrs", br#"{"multiscales":[{}]}"#);
        assert_eq!(levels(pyramid).findings("dimension-mismatch").len(), 0);
    }
}
