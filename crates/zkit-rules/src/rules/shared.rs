//! What several rules do alike.

use std::collections::{BTreeMap, HashMap};

use zkit_core::engine::{ChunkFault, FaultyChunks, Keys};
use zkit_core::grid::ChunkSet;
use zkit_core::hierarchy::{Reference, References};
use zkit_core::metadata::Json;
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
        let draft = match defect.path.as_str() {
            "/" if store.array("/").is_none() && !is_group(store, "/") => finder.store(&defect.message),
            path => finder.array(path, &defect.message),
        };
        draft.remedy(remedy);
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
fn message_of(array: &ArrayObservation<'_>, faulty: &FaultyChunks, what: &str) -> String {
    let (count, key) = (faulty.chunks.len(), chunk_key(array, faulty.first));
    let stored = array.occupancy().map_or(count, |(_, stored)| stored);
    let of = format!("{} of {} stored chunks", format::count(count), format::count(stored));
    match count {
        1 => format!("chunk `{key}` {what}: {}", faulty.why),
        _ => format!("{of} {what}; the first, `{key}`: {}", faulty.why),
    }
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

/// Returns the key of a stored chunk, relative to its array.
pub(crate) fn chunk_key(array: &ArrayObservation<'_>, position: u64) -> String {
    let mut key = String::new();
    let metadata = &array.node.metadata;
    metadata.chunk_keys.push_key(&metadata.grid.index_at(position), &mut key);
    key
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

/// Returns the values that an array declares as missing: `_FillValue` and `missing_value`.
pub(crate) fn declared_missing(array: &ArrayObservation<'_>) -> Vec<f64> {
    let attributes = &array.node.metadata.attributes;
    ["_FillValue", "missing_value"]
        .iter()
        .filter_map(|name| attributes.get(name).and_then(number_of))
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
    if fill.is_nan() || declared.iter().any(|&missing| same_number(missing, fill)) {
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
