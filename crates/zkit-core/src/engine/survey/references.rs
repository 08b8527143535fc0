//! What a set of references says of each array: which chunks it has, and how long they are said to be.

use std::collections::{BTreeMap, HashMap};

use super::ArraySurvey;
use super::heads::Expected;
use super::listing::Builder;
use crate::hierarchy::{ArrayNode, References};
use crate::store::{ObjectInfo, ObjectKind};

/// Returns what references say of `arrays`, in their order, as a listing of a store would.
///
/// Lengths of whole files are not known: such chunks are taken to be of the right one.
pub fn survey_references(arrays: &[&ArrayNode], references: &References) -> Vec<ArraySurvey> {
    let expected: Vec<Expected> = arrays.iter().map(|array| Expected::of(array)).collect();
    let places: HashMap<&str, usize> =
        arrays.iter().enumerate().map(|(at, array)| (array.prefix(), at)).collect();
    let mut builders: BTreeMap<usize, Builder<'_>> = arrays
        .iter()
        .zip(&expected)
        .enumerate()
        .map(|(at, (array, expected))| (at, Builder::new(array, 0, Some(expected))))
        .collect();
    let inline = references.inline.iter().map(|(key, bytes)| (key.as_str(), Some(bytes.len() as u64)));
    let ranged = references
        .references
        .iter()
        .map(|reference| (reference.key.as_str(), reference.range.map(|(_, length)| length)));
    for (key, bytes) in inline.chain(ranged) {
        let Some((at, rest)) = array_of(key, &places) else { continue };
        let size = bytes.or(expected[at].stored_bytes).unwrap_or(1);
        let object =
            ObjectInfo { key: rest, size, kind: ObjectKind::Regular, stamp: 0, changed: None, locked: false };
        if let Some(builder) = builders.get_mut(&at) {
            builder.object(object);
        }
    }
    builders
        .into_values()
        .map(|builder| {
            let listed = builder.finish();
            ArraySurvey {
                listing: Some(listed.listing),
                defects: listed.defects,
                unreadable: listed.unreadable,
                faults: listed.faults.finish(),
                ..ArraySurvey::default()
            }
        })
        .collect()
}

/// Returns the array that a key belongs to, and the rest of the key.
fn array_of<'k>(key: &'k str, places: &HashMap<&str, usize>) -> Option<(usize, &'k str)> {
    if let Some(&root) = places.get("") {
        return Some((root, key));
    }
    let ends = key.match_indices('/').map(|(at, _)| at);
    ends.into_iter().find_map(|end| Some((*places.get(&key[..end])?, &key[end + 1..])))
}
