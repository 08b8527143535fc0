//! What several rules do alike.

use std::collections::{BTreeMap, HashMap};

use zkit_core::engine::{ChunkFault, FaultyChunks, Keys};
use zkit_core::grid::ChunkSet;
use zkit_core::hierarchy::{ArrayNode, Reference, References};
use zkit_core::metadata::{DataType, Defect, Json};
use zkit_report::{ChunkBox, format};

use crate::boxes::Runs;
use crate::finder::{Draft, Finder};
use crate::observe::{ArrayObservation, StoreObservation};

/// Reports what the core noted under the rule's own id, node by node.
pub(crate) fn report_defects(
    store: &StoreObservation<'_>,
    finder: &mut Finder<'_>,
    rule: &str,
    remedy: &str,
) {
    for defect in store.defects(rule) {
        draft_of(store, finder, defect).remedy(remedy);
    }
}

/// Begins the finding of a defect: that of a node, or of a store that has none.
pub(crate) fn draft_of<'f>(
    store: &StoreObservation<'_>,
    finder: &'f mut Finder<'_>,
    defect: &Defect,
) -> Draft<'f> {
    match defect.path.as_str() {
        "/" if store.array("/").is_none() && !is_group(store, "/") => finder.store(&defect.message),
        path => finder.array(path, &defect.message),
    }
}

fn is_group(store: &StoreObservation<'_>, path: &str) -> bool {
    store.hierarchy.groups.iter().any(|group| group.path == path)
}

/// Reports the chunks that are wrong in one way, one finding an array.
pub(crate) fn report_faults(
    store: &StoreObservation<'_>,
    finder: &mut Finder<'_>,
    fault: ChunkFault,
    (what, remedy): (&str, &str),
    adjust: impl Fn(&ArrayObservation<'_>, Draft<'_>),
) {
    for (array, faulty) in store.faults(fault) {
        let draft = finder.array(array.path(), message_of(array, faulty, what));
        adjust(array, with_chunks(draft, array, &Runs::of(&faulty.chunks)).remedy(remedy));
    }
    report_repository(store, finder, fault, (what, remedy));
}

/// Returns `3 of 8 chunks are cut off; the first, `c/2/0`: 12 bytes, expected 4000`.
pub(crate) fn message_of(array: &ArrayObservation<'_>, faulty: &FaultyChunks, what: &str) -> String {
    let (count, key) = (faulty.chunks.len(), array.chunk_key(faulty.first));
    let stored = array.occupancy().map_or(count, |(_, stored)| stored);
    let of = format!("{} of {} stored chunks", format::count(count), format::count(stored));
    match count {
        1 => format!("chunk `{key}` {what}: {}", faulty.why),
        _ => format!("{of} {}; the first, `{key}`: {}", of_several(what), faulty.why),
    }
}

/// Reports the blocks of an N5 container that are wrong in one way, one finding a dataset.
pub(crate) fn report_blocks(
    store: &StoreObservation<'_>,
    finder: &mut Finder<'_>,
    fault: ChunkFault,
    (what, remedy): (&str, &str),
) {
    for dataset in &store.n5 {
        let count = dataset.faulty_counts.get(&fault).copied().unwrap_or(0);
        let named: Vec<_> = dataset.faulty.iter().filter(|faulty| faulty.fault == fault).collect();
        let Some(first) = named.first() else { continue };
        let key = first.index.iter().map(u64::to_string).collect::<Vec<_>>().join("/");
        let boxes = named.iter().take(crate::boxes::BOXES_MOST);
        let boxes = boxes
            .map(|faulty| ChunkBox { first: faulty.index.clone(), last: faulty.index.clone() })
            .collect();
        let message =
            format!("{count} of {} blocks are {what}; the first, `{key}`: {}", dataset.blocks, first.why);
        finder.array(&dataset.path, message).evidence("chunk_count", count).chunks(boxes).remedy(remedy);
    }
}

/// Returns what is said of several chunks, from what is said of one: `is cut off`, `are cut off`.
fn of_several(what: &str) -> String {
    let (verb, rest) = what.split_once(' ').unwrap_or((what, ""));
    let verb = match verb {
        "is" => "are",
        "has" => "have",
        other => other.strip_suffix('s').unwrap_or(other),
    };
    format!("{verb} {rest}").trim_end().to_owned()
}

/// Reports the chunks of an Icechunk repository that are wrong in one way, one finding an array.
fn report_repository(
    store: &StoreObservation<'_>,
    finder: &mut Finder<'_>,
    fault: ChunkFault,
    (what, remedy): (&str, &str),
) {
    let faulty = store.repository.iter().flat_map(|repository| &repository.faulty);
    for ((path, _), chunks) in faulty.filter(|((_, found), _)| *found == fault) {
        let message = match chunks.count {
            1 => format!("`{}` {what}: {}", chunks.object, chunks.why),
            count => format!(
                "{} chunks {what}; the first, `{}`: {}",
                format::count(count),
                chunks.object,
                chunks.why
            ),
        };
        let boxes = chunks.indices.iter().take(crate::boxes::BOXES_MOST);
        let boxes = boxes.map(|index| ChunkBox { first: index.clone(), last: index.clone() }).collect();
        let draft = finder.array(path, message).chunks(boxes).remedy(remedy);
        draft.evidence("chunk_count", chunks.count).evidence("object", chunks.object.clone());
    }
}

/// Names stored chunks in a finding.
pub(crate) fn with_chunks<'a>(draft: Draft<'a>, array: &ArrayObservation<'_>, chunks: &Runs) -> Draft<'a> {
    let (boxes, left_out) = chunks.few_boxes(array.node.metadata.grid.counts());
    let draft = draft.evidence("chunk_count", chunks.len()).chunks(boxes);
    if left_out > 0 { draft.evidence("chunks_not_named", left_out) } else { draft }
}

/// Reports keys as one finding of the store or array; nothing where there are none.
pub(crate) fn report_keys(
    finder: &mut Finder<'_>,
    array: Option<&str>,
    keys: &Keys,
    (what, remedy): (&str, &str),
) {
    if keys.count == 0 {
        return;
    }
    let message = format!("{what}: {}", keys.in_words());
    let draft = match array {
        Some(path) => finder.array(path, message),
        None => finder.store(message),
    };
    draft.evidence("count", keys.count).evidence("examples", keys.examples.clone()).remedy(remedy);
}

/// Returns a number that JSON holds as such, as `"NaN"`, `"Infinity"`, `"-Infinity"`, or in a list of one.
pub(crate) fn number_of(json: &Json) -> Option<f64> {
    match json {
        Json::Number(_) => json.as_f64(),
        Json::String(text) => match text.as_str() {
            "NaN" | "nan" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        Json::Array(values) if values.len() == 1 => number_of(&values[0]),
        _ => None,
    }
}

/// Returns whether two numbers are one: both NaN, or equal.
pub(crate) fn same_number(one: f64, other: f64) -> bool {
    one == other || (one.is_nan() && other.is_nan())
}

/// Returns whether two numbers are one as elements of a type. Attributes keep fewer or more digits than the array, and
/// unsigned numbers of signed integers. Source: the NetCDF users' guide, appendix A: `_Unsigned`.
pub(crate) fn same_element(data_type: &DataType, one: f64, other: f64) -> bool {
    same_number(one, other)
        || match data_type {
            // the largest relative error of half precision is 2^-11
            DataType::Float(2) => (one - other).abs() <= one.abs().min(other.abs()) / 2048.0,
            #[expect(clippy::cast_possible_truncation, reason = "rounded to what float32 tells apart")]
            DataType::Float(_) => one.is_finite() && other.is_finite() && one as f32 == other as f32,
            DataType::Int(bytes) | DataType::UInt(bytes) => {
                let spare = 64 - 8 * u32::from(*bytes).clamp(1, 8);
                let wrapped = |value: f64| integer_of(value).map(|value| value << spare);
                wrapped(one).is_some_and(|one| wrapped(other) == Some(one))
            }
            _ => false,
        }
}

/// Returns a whole number that a float holds exactly.
fn integer_of(value: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "whole and small enough to be exact")]
    (value.fract() == 0.0 && value.abs() <= 2f64.powi(53)).then_some(value as i64)
}

/// Returns the values that an array declares as missing: `_FillValue` and `missing_value`, which may list several.
pub(crate) fn declared_missing(array: &ArrayObservation<'_>) -> Vec<f64> {
    missing_numbers(array.node)
}

/// Returns the numbers that the metadata of an array declares as missing.
pub(crate) fn missing_numbers(node: &ArrayNode) -> Vec<f64> {
    let attributes = &node.metadata.attributes;
    ["_FillValue", "missing_value"]
        .iter()
        .filter_map(|name| attributes.get(name))
        .flat_map(|json| json.as_array().unwrap_or(std::slice::from_ref(json)))
        .filter_map(number_of)
        .collect()
}

/// Returns what absent chunks of an array read as, where that is a number.
pub(crate) fn fill_number(array: &ArrayObservation<'_>) -> Option<f64> {
    let metadata = &array.node.metadata;
    metadata.fill_value.is_known().then(|| number_of(&metadata.fill_value.to_v3(&metadata.data_type)))?
}

/// Returns what absent chunks mean for whoever reads an array.
pub(crate) fn absence(array: &ArrayObservation<'_>) -> Absence {
    let metadata = &array.node.metadata;
    if !metadata.fill_value.is_known() {
        return Absence::Undefined;
    }
    let Some(fill) = fill_number(array) else { return Absence::Value };
    let declared = declared_missing(array);
    if fill.is_nan() || declared.iter().any(|&missing| same_element(&metadata.data_type, missing, fill)) {
        Absence::Missing
    } else {
        Absence::Value
    }
}

/// What absent chunks read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absence {
    /// The fill value is null: nothing says what they hold.
    Undefined,
    /// Missing values: NaN, or what the attributes declare as missing.
    Missing,
    /// A value like any other.
    Value,
}

/// Returns the chunks whose references `takes` takes, array by array; references of no array of the run come last.
pub(crate) fn references_by_array<'s, 'a>(
    store: &'s StoreObservation<'a>,
    references: &References,
    takes: impl Fn(&Reference) -> bool,
) -> Vec<(Option<&'s ArrayObservation<'a>>, ChunkSet)> {
    let prefixes: HashMap<&str, usize> =
        store.arrays.iter().enumerate().map(|(at, array)| (array.node.prefix(), at)).collect();
    let mut found: BTreeMap<Option<usize>, ChunkSet> = BTreeMap::new();
    for reference in references.references.iter().filter(|reference| takes(reference)) {
        let ends = reference.key.match_indices('/').map(|(end, _)| end);
        let array =
            std::iter::once(0).chain(ends).find_map(|end| prefixes.get(&reference.key[..end])).copied();
        let position = array.and_then(|at| {
            let node = store.arrays[at].node;
            let rest = reference.key[node.prefix().len()..].trim_start_matches('/');
            let index = node.metadata.chunk_keys.parse_key(rest, node.metadata.grid.rank())?;
            node.metadata.grid.position_of(&index)
        });
        let chunks = found.entry(array.filter(|_| position.is_some())).or_default();
        if let Some(position) = position {
            chunks.insert(position);
        }
    }
    let mut found: Vec<_> =
        found.into_iter().map(|(array, chunks)| (array.map(|at| &store.arrays[at]), chunks)).collect();
    found.sort_by_key(|(array, _)| array.is_none());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_agree_with_several_chunks() {
        for (one, several) in [
            ("is cut off", "are cut off"),
            ("has no bytes", "have no bytes"),
            ("leads to nothing", "lead to nothing"),
        ] {
            assert_eq!(of_several(one), several);
        }
    }

    #[test]
    fn numbers_are_compared_as_elements_of_their_array() {
        let same = |data_type, one, other| same_element(&data_type, one, other);
        assert!(same(DataType::Float(4), 1e20, 1.000_000_020_040_877_3e20));
        assert!(same(DataType::Float(4), -999.9, -999.900_024_414_062_5));
        assert!(same(DataType::Float(8), 1e20, 1.000_000_020_040_877_3e20));
        assert!(same(DataType::Float(2), 0.1, 0.099_975_585_937_5));
        assert!(same(DataType::Int(1), 255.0, -1.0));
        assert!(same(DataType::UInt(2), 65_535.0, -1.0));
        assert!(same(DataType::Float(4), f64::NAN, f64::NAN));
        assert!(!same(DataType::Float(4), 0.0, f64::NAN));
        assert!(!same(DataType::Float(4), -9999.0, -9999.9));
        assert!(!same(DataType::Float(4), f64::INFINITY, 1e300));
        assert!(!same(DataType::Float(2), 0.0, 1.0));
        assert!(!same(DataType::Int(2), 255.0, -1.0));
        assert!(!same(DataType::Int(8), 0.5, 0.0));
    }
}
