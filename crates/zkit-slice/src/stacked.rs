//! A dimension that sources do not have: each holds one value of it, as an array without dimensions.
//!
//! Arrays then lie beside each other along a new first dimension, as `xarray.concat` makes it: all but those that describe
//! others (coordinates, bounds, grid mappings) and are the same in all sources.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use zkit_core::engine::{self, Sha256Digest};
use zkit_core::error::Result;
use zkit_core::hierarchy::{ArrayNode, groups_above};
use zkit_core::metadata::Json;
use zkit_core::select::is_coordinate;

use crate::axes::AxisKey;
use crate::coordinates::Means;
use crate::sources::Source;

/// Attributes that name arrays which describe others. Source: CF conventions, sections 3.5 to 7.4, but for ancillary
/// variables, which are data of their own.
const DESCRIBING: [&str; 6] =
    ["coordinates", "bounds", "climatology", "grid_mapping", "cell_measures", "formula_terms"];

/// Gives sources without a dimension that name, and with an array without dimensions instead, the dimension.
///
/// Decodes what describes others in several sources, to see whether it is the same in all of them.
pub(crate) fn stack(sources: &mut [Source], dimension: &str, means: Means<'_>) -> Result<()> {
    let new: Vec<BTreeMap<String, usize>> = sources.iter().map(|source| scalars(source, dimension)).collect();
    if new.iter().all(BTreeMap::is_empty) {
        return Ok(());
    }
    let shared = shared(sources, &new, means)?;
    for (source, scalars) in sources.iter_mut().zip(&new) {
        for (scope, &scalar) in scalars {
            let has = |&array: &usize| {
                let node = source.array(array);
                let innermost = groups_above(group_of(node)).find(|group| scalars.contains_key(*group));
                innermost == Some(scope.as_str())
                    && (array == scalar
                        || !(is_coordinate(node) || shared.contains(&(source.set, node.path.clone()))))
            };
            let arrays: Vec<usize> = source.taken.iter().copied().filter(has).collect();
            let key = AxisKey { scope: scope.clone(), name: dimension.to_owned() };
            source.axes.put_in_front(key, scalar, &arrays);
        }
    }
    Ok(())
}

/// Returns the names of the arrays of a source that have no dimensions.
pub(crate) fn names_of_scalars(source: &Source) -> BTreeSet<&str> {
    let nodes = source.taken.iter().map(|&array| source.array(array));
    nodes.filter(|node| node.metadata.shape().is_empty()).map(name_of).collect()
}

/// Returns the names of those that describe data, as the id of a file does.
pub(crate) fn names_of_scalar_coordinates(source: &Source) -> BTreeSet<&str> {
    let described = described(source);
    let nodes = source.taken.iter().map(|&array| source.array(array));
    let scalars = nodes.filter(|node| node.metadata.shape().is_empty() && described.contains(&node.path));
    scalars.map(name_of).collect()
}

/// Returns, by group, the arrays that stand for a dimension which the source does not have.
fn scalars(source: &Source, dimension: &str) -> BTreeMap<String, usize> {
    if source.axes.axes.iter().any(|axis| axis.key.name == dimension) {
        return BTreeMap::new();
    }
    let is_one = |&array: &usize| {
        let node = source.array(array);
        node.metadata.shape().is_empty() && name_of(node) == dimension
    };
    let found = source.taken.iter().copied().filter(is_one);
    found.map(|array| (group_of(source.array(array)).to_owned(), array)).collect()
}

/// Returns the set and path of what describes others and is the same in all sources of a set.
fn shared(
    sources: &[Source],
    new: &[BTreeMap<String, usize>],
    means: Means<'_>,
) -> Result<HashSet<(usize, String)>> {
    let described: BTreeSet<String> = sources.iter().flat_map(described).collect();
    let mut first: BTreeMap<(usize, String), (Vec<u64>, Sha256Digest)> = BTreeMap::new();
    let mut different: BTreeSet<(usize, String)> = BTreeSet::new();
    for (source, scalars) in sources.iter().zip(new) {
        let paths: HashSet<String> =
            scalars.values().map(|&scalar| source.array(scalar).path.clone()).collect();
        let nodes: Vec<&ArrayNode> = source
            .taken
            .iter()
            .map(|&array| source.array(array))
            .filter(|node| {
                described.contains(&node.path) && !is_coordinate(node) && !paths.contains(&node.path)
            })
            .collect();
        let digests = engine::digest(source.store()?, &nodes, means.resources, means.observer, means.cancel)?;
        for (node, digest) in nodes.iter().zip(digests) {
            let key = (source.set, node.path.clone());
            let found = (node.metadata.shape().to_vec(), digest?);
            let known = first.entry(key.clone()).or_insert_with(|| found.clone());
            if *known != found {
                different.insert(key);
            }
        }
    }
    Ok(first.into_keys().filter(|key| !different.contains(key)).collect())
}

/// Returns the paths that attributes of arrays and groups name as what describes them.
pub(crate) fn described(source: &Source) -> BTreeSet<String> {
    let arrays = source.taken.iter().map(|&array| {
        let node = source.array(array);
        (group_of(node), &node.metadata.attributes)
    });
    let groups =
        source.hierarchy.groups.iter().map(|group| (group.path.trim_end_matches('/'), &group.attributes));
    let mut paths = BTreeSet::new();
    for (group, attributes) in arrays.chain(groups) {
        for key in DESCRIBING {
            let text = attributes.get(key).and_then(Json::as_str).unwrap_or_default();
            for word in text.split_whitespace().map(|word| word.trim_end_matches(':')) {
                paths.extend(groups_above(group).map(|group| format!("{group}/{word}")));
            }
        }
    }
    paths
}

fn group_of(node: &ArrayNode) -> &str {
    node.path.rsplit_once('/').map_or("", |(group, _)| group)
}

fn name_of(node: &ArrayNode) -> &str {
    node.path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestStore, open_sets, with_means};

    fn file(id: i64, mark: i64) -> TestStore {
        TestStore::new()
            .ints("id", &[], &[], &[id])
            .ints("x", &["x"], &[2], &[1, 2])
            .ints("t", &["x"], &[2], &[id, id + 1])
            .attributes("t", r#"{"coordinates": "id mark area"}"#)
            .ints("mark", &["x"], &[2], &[mark, 8])
            .ints("area", &["x"], &[2], &[5, 6])
    }

    #[test]
    fn data_and_what_differs_get_the_dimension_and_the_rest_does_not() {
        let (one, other) = (file(7, 1), file(3, 2));
        let mut sources = open_sets(&[&[&one, &other]]);
        with_means(|means| stack(&mut sources, "id", means)).unwrap();
        let dimensions = |path: &str| -> Vec<String> {
            let at = (0..sources[0].arrays.len()).find(|&at| sources[0].array(at).path == path).unwrap();
            sources[0].axes.keys_of(at).map(|key| key.name.clone()).collect()
        };
        assert_eq!(dimensions("/t"), ["id", "x"]);
        assert_eq!(dimensions("/mark"), ["id", "x"]);
        assert_eq!(dimensions("/id"), ["id"]);
        assert_eq!(dimensions("/area"), ["x"]);
        assert_eq!(dimensions("/x"), ["x"]);
    }

    #[test]
    fn a_dimension_that_is_there_is_not_made_again() {
        let one = TestStore::new().ints("id", &["id"], &[1], &[4]).ints("t", &["id"], &[1], &[4]);
        let mut sources = open_sets(&[&[&one]]);
        with_means(|means| stack(&mut sources, "id", means)).unwrap();
        assert_eq!(sources[0].axes.axes.len(), 1);
    }
}
