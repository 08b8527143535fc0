//! Which stores of a folder are looked at together: those that hold the same kind of data.

use std::collections::{BTreeMap, BTreeSet};

use crate::summary::{ArraySummary, StoreSummary};

/// Returns the groups of stores that are compared with each other, each of two stores at least: those that share most of
/// their data, by names, numbers and names of dimensions. Coordinates alone make no two stores alike.
///
/// Stores are compared with the most common kind first, so that neither their order nor a chain of stores that each
/// resemble the next decides.
pub fn alike(stores: &[StoreSummary]) -> Vec<Vec<&StoreSummary>> {
    let mut kinds: BTreeMap<Vec<&str>, Vec<&StoreSummary>> = BTreeMap::new();
    for store in stores.iter().filter(|store| !store.arrays.is_empty()) {
        kinds.entry(store.arrays.iter().map(|array| array.path.as_str()).collect()).or_default().push(store);
    }
    let mut kinds: Vec<Vec<&StoreSummary>> = kinds.into_values().collect();
    kinds.sort_by_key(|members| std::cmp::Reverse((members.len(), members[0].arrays.len())));
    let mut groups: Vec<Vec<&StoreSummary>> = Vec::new();
    for store in kinds.into_iter().flatten() {
        match groups.iter_mut().find(|group| are_alike(group[0], store)) {
            Some(group) => group.push(store),
            None => groups.push(vec![store]),
        }
    }
    groups.retain(|group| group.len() > 1);
    for group in &mut groups {
        group.sort_by(|one, other| one.url.cmp(&other.url));
    }
    groups.sort_by(|one, other| one[0].url.cmp(&other[0].url));
    groups
}

/// Returns whether a store holds the same kind of data as the first of a group: half of what the larger one holds, or a part
/// of it that is a quarter at least and nothing else.
fn are_alike(first: &StoreSummary, store: &StoreSummary) -> bool {
    let (known, own) = (data(first), data(store));
    let common: Vec<&str> = known.iter().filter(|path| own.contains(*path)).copied().collect();
    let (fewer, more) = (known.len().min(own.len()), known.len().max(own.len()));
    let part = common.len() == fewer && common.len() * 4 >= more;
    let named_alike = !common.is_empty() && (common.len() * 2 >= more || part);
    let shaped = common.iter().filter(|path| match (first.array(path), store.array(path)) {
        (Some(one), Some(other)) => have_like_dimensions(one, other),
        _ => false,
    });
    named_alike && shaped.count() * 2 >= common.len()
}

/// Returns the paths of the arrays that hold data; of all where there are only coordinates.
fn data(store: &StoreSummary) -> BTreeSet<&str> {
    let paths = |takes: &dyn Fn(&ArraySummary) -> bool| -> BTreeSet<&str> {
        store.arrays.iter().filter(|array| takes(array)).map(|array| array.path.as_str()).collect()
    };
    let data = paths(&|array| !array.is_coordinate && !array.shape.is_empty());
    if data.is_empty() { paths(&|_| true) } else { data }
}

/// Returns whether two arrays have as many dimensions, and the same names of them where both name them.
fn have_like_dimensions(one: &ArraySummary, other: &ArraySummary) -> bool {
    let names = |array: &ArraySummary| {
        array.dimension_names.clone().filter(|names| names.iter().flatten().any(|name| !name.is_empty()))
    };
    let named_alike = match (names(one), names(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    one.shape.len() == other.shape.len() && named_alike
}

/// Returns whether so many of the stores that have an array say what is usual: most of them, or one of two whose
/// dimensions have names. Without that there is nothing that a store could differ from.
pub(crate) fn is_usual(most: usize, all: usize, array: &ArraySummary) -> bool {
    let named = array.dimension_names.iter().flatten().flatten().any(|name| !name.is_empty());
    most * 2 > all || (all == 2 && (named || array.shape.len() < 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestStore, cache_findings, v2_array};

    fn store(arrays: &[(&str, &[u64], &[&str])]) -> TestStore {
        arrays.iter().fold(TestStore::new(), |store, (name, shape, dimensions)| {
            let attributes = serde_json::json!({ "_ARRAY_DIMENSIONS": dimensions }).to_string();
            let store = store.array(name, &v2_array(shape, shape));
            match dimensions {
                [] => store,
                _ => store.file(&format!("{name}/.zattrs"), attributes.as_bytes()),
            }
        })
    }

    fn groups(stores: &[TestStore]) -> Vec<usize> {
        let summaries: Vec<StoreSummary> = stores.iter().map(TestStore::summary).collect();
        alike(&summaries).iter().map(Vec::len).collect()
    }

    #[test]
    fn coordinates_alone_make_no_stores_alike() {
        let of = |variable: &str, length: u64| {
            store(&[
                (variable, &[length, 4], &["time", "x"]),
                ("time", &[length], &["time"]),
                ("x", &[4], &["x"]),
            ])
        };
        assert_eq!(groups(&[of("t2m", 3), of("rain", 5)]), [0usize; 0]);
        assert_eq!(groups(&[of("t2m", 3), of("rain", 5), of("t2m", 7)]), [2]);
    }

    #[test]
    fn arrays_of_the_same_name_and_other_dimensions_are_not_compared() {
        let image = |shape: &[u64]| store(&[("0", shape, &[]), ("1", shape, &[])]);
        assert_eq!(groups(&[image(&[1, 3, 8, 8]), image(&[64, 64])]), [0usize; 0]);
        let grid = |names: &[&str]| store(&[("data", &[3, 4], names)]);
        assert_eq!(groups(&[grid(&["time", "x"]), grid(&["cell", "gene"])]), [0usize; 0]);
    }

    #[test]
    fn stores_that_all_differ_have_nothing_that_is_usual() {
        let image = |width: u64| store(&[("0", &[3, width], &[])]);
        assert_eq!(cache_findings("schema-drift", &[image(7), image(8), image(9)]), []);
        assert_eq!(cache_findings("schema-drift", &[image(7), image(8)]), []);
        assert_eq!(cache_findings("schema-drift", &[image(7), image(7), image(9)]).len(), 1);
    }

    #[test]
    fn what_resembles_a_chain_of_stores_is_not_compared() {
        let of = |names: [&str; 2]| store(&names.map(|name| (name, &[4u64, 2][..], &["time", "x"][..])));
        let chain = [of(["a", "b"]), of(["b", "c"]), of(["c", "d"]), of(["a", "b"])];
        assert_eq!(groups(&chain), [3]);
        assert_eq!(cache_findings("missing-variable", &chain).len(), 1);
    }
}
