//! `undeclared-missing-value`: a value stands for missing ones, and no attribute says so.

use zkit_core::engine::{ArrayValues, StandIn};
use zkit_core::grid::ChunkSet;
use zkit_core::metadata::DataType;
use zkit_report::{Confidence, Severity, format};

use super::shared::fill_number;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::rule::{Check, Rule};
use crate::values::{number, seen_data, share, with_units};

/// From this share of the chunks that hold it on, a value is one that stands for others.
const SHARE_LEAST: f64 = 0.005;
/// Chunks of fewer elements together may be of one value by chance.
const FILLED_LEAST: u64 = 16;

pub(crate) const RULE: Rule = Rule {
    id: "undeclared-missing-value",
    severity: Severity::Warning,
    confidence: Confidence::Medium,
    depth: Depth::Sample,
    summary: "a value such as 1e20 or -9999 stands for missing ones, and no attribute says so",
    explanation: "\
A value that models and instruments write where they have nothing (1e20, 9.96921e36, -9999, -32768 and others) is the
least or largest of an array, occurs often, and lies far away from everything else. Neither `_FillValue` nor
`missing_value` nor the fill value names it, so that readers compute with it: a mean over the ocean of 7e19 K.

On disk: as any other value.

Legitimate: numbers that reach so far. The value must be further from the others than these are from each other, and
take at least half a percent of the chunks that hold it. Where it fills whole chunks (steps that were never computed, tiles
without data), it is compared with what other chunks hold, and must not be the fill value, which absent chunks read as.

What to do: add the attribute `_FillValue` (or `missing_value`) with this value to the array; the data stay as they are.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for (array, values) in seen_data(store) {
        let Some(stand_in) = values.stand_in else { continue };
        match range_of_others(&stand_in) {
            Some(others) => report_among_others(array, &stand_in, others, finder),
            None => report_filled_chunks((array, values), stand_in.value, finder),
        }
    }
}

/// Returns the least and the largest of the other values in the chunks that hold a value.
fn range_of_others(stand_in: &StandIn) -> Option<(f64, f64)> {
    let (min, max) = stand_in.others.min.zip(stand_in.others.max)?;
    Some((min.to_f64(), max.to_f64()))
}

/// Reports a value that stands between others in its chunks.
fn report_among_others(
    array: &ArrayObservation<'_>,
    stand_in: &StandIn,
    others: (f64, f64),
    finder: &mut Finder<'_>,
) {
    let found = share(stand_in.count, stand_in.elements);
    if found < SHARE_LEAST || !stands_apart(stand_in.value, others) {
        return;
    }
    let value = number(stand_in.value);
    let message = format!(
        "{value} takes {:.1} % of {} values in chunks that hold it, and is declared nowhere; the others lie between {} and {}",
        100.0 * found,
        format::count(stand_in.elements),
        number(others.0),
        number(others.1)
    );
    finder
        .array(array.path(), message)
        .evidence("value", stand_in.value)
        .evidence("count", stand_in.count)
        .evidence("of", stand_in.elements)
        .remedy(remedy(array, stand_in.value));
}

/// Reports a value that is the only one in its chunks.
fn report_filled_chunks(
    (array, values): (&ArrayObservation<'_>, &ArrayValues),
    value: f64,
    finder: &mut Finder<'_>,
) {
    let Some(filled) = Filled::of(values, value) else { return };
    let by_chance = filled.elements < FILLED_LEAST || filled.others.0 == filled.others.1;
    if by_chance || !stands_apart(value, filled.others) || fill_number(array) == Some(value) {
        return;
    }
    let shown = number(value);
    let message = format!(
        "{shown} is the only value of {} of {} that were decoded, and is declared nowhere; others hold values from {} to {}",
        format::count(filled.chunks.len()),
        format::counted(values.units.as_ref().map_or(0, |units| units.len() as u64), "chunk", "chunks"),
        number(filled.others.0),
        number(filled.others.1)
    );
    let draft = finder.array(array.path(), message);
    let draft = draft.evidence("value", value).evidence("count", filled.elements);
    with_units(draft, values, &filled.chunks).remedy(remedy(array, value));
}

/// Names the value with all digits that its type has: readers compare it exactly.
fn remedy(array: &ArrayObservation<'_>, value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "it came from a float32")]
    let exact = match array.node.metadata.data_type {
        DataType::Float(4) if value.abs() >= 1e7 => format!("{:e}", value as f32),
        DataType::Float(4) => format!("{}", value as f32),
        _ if value.abs() >= 1e15 => format!("{value:e}"),
        _ => format!("{value}"),
    };
    format!("add the attribute `_FillValue` with the value {exact} to the array")
}

/// Chunks in which one value is the only one, and what those hold in which it is not.
struct Filled {
    chunks: ChunkSet,
    elements: u64,
    others: (f64, f64),
}

impl Filled {
    /// Returns `None` where single chunks are not known, or no other holds anything.
    fn of(values: &ArrayValues, value: f64) -> Option<Self> {
        let others = (f64::INFINITY, f64::NEG_INFINITY);
        let mut filled = Self { chunks: ChunkSet::default(), elements: 0, others };
        for unit in values.units.iter().flatten().filter(|unit| unit.valid > 0) {
            if unit.min == value && unit.max == value {
                filled.chunks.insert(unit.position);
                filled.elements += unit.valid;
            } else if unit.min != value && unit.max != value {
                filled.others = (filled.others.0.min(unit.min), filled.others.1.max(unit.max));
            }
        }
        (filled.others.0 <= filled.others.1).then_some(filled)
    }
}

/// Returns whether a value lies further from the others than these lie from each other.
fn stands_apart(value: f64, (min, max): (f64, f64)) -> bool {
    let distance = if value > max { value - max } else { min - value };
    distance > (max - min).max(min.abs().max(max.abs()))
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    fn chunk(values: [f32; 4]) -> Vec<u8> {
        values.map(f32::to_le_bytes).concat()
    }

    #[test]
    fn values_that_stand_apart_are_found_unless_they_are_declared() {
        let array = v2_array(&[4], &[4]);
        let store = TestStore::new()
            .array("tas", &array)
            .file("tas/0", &chunk([1e20, 1e20, 280.0, 290.0]))
            .array("declared", &array)
            .file("declared/0", &chunk([1e20, 1e20, 280.0, 290.0]))
            .file("declared/.zattrs", br#"{"missing_value": 1e20}"#)
            .array("height", &array)
            .file("height/0", &chunk([-9999.0, -8000.0, 0.0, 3000.0]))
            .array("plain", &array)
            .file("plain/0", &chunk([1.0, 2.0, 3.0, 4.0]));
        let found = store.findings("undeclared-missing-value");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            found[0].message,
            "1e20 takes 50.0 % of 4 values in chunks that hold it, and is declared nowhere; the others lie between 280 and 290"
        );
    }

    /// Returns a store of an array `a` of four chunks of 16 elements.
    fn of_chunks(metadata: &str, attributes: &str, chunks: [[f32; 16]; 4]) -> TestStore {
        let store = TestStore::new().array("a", metadata).file("a/.zattrs", attributes.as_bytes());
        chunks.into_iter().enumerate().fold(store, |store, (at, chunk)| {
            store.file(&format!("a/{at}"), &chunk.map(f32::to_le_bytes).concat())
        })
    }

    #[test]
    fn values_that_fill_whole_chunks_are_compared_with_those_of_other_chunks() {
        let steps = |at: u8| std::array::from_fn(|step| 270.0 + f32::from(at) + step as f32);
        let last = |value: f32| [steps(0), steps(1), [value; 16], [value; 16]];
        let array = v2_array(&[64], &[16]);
        let found = |attributes: &str, chunks| {
            of_chunks(&array, attributes, chunks).findings("undeclared-missing-value")
        };
        let never = found("{}", last(-9999.0));
        assert_eq!(never.len(), 1, "{never:?}");
        assert_eq!(
            never[0].message,
            "-9999 is the only value of 2 of 4 chunks that were decoded, and is declared nowhere; others hold values from 270 to 286"
        );
        assert_eq!(never[0].chunks.as_ref().unwrap()[0].first, [2]);
        let default = found("{}", last(9.969_21e36));
        assert!(default[0].remedy.as_ref().unwrap().contains("9.96921e36"), "{default:?}");
        // declared, ordinary, among numbers that reach as far, and beside nothing that varies
        assert_eq!(found(r#"{"missing_value": -9999}"#, last(-9999.0)), []);
        assert_eq!(found("{}", last(0.0)), []);
        let deep = std::array::from_fn(|step| -1000.0 * step as f32);
        assert_eq!(found("{}", [deep, deep, [-9999.0; 16], steps(0)]), []);
        assert_eq!(found("{}", [[0.0; 16], [0.0; 16], [-9999.0; 16], [0.0; 16]]), []);
    }

    #[test]
    fn packed_numbers_whose_least_is_the_least_of_their_type_are_ordinary() {
        let array = v2_array(&[64], &[16]).replace("<f4", "<i2");
        let store = |least: i16| {
            let rising = (0..16).map(|step: i16| least + 900 * step);
            let chunks: [Vec<i16>; 2] = [vec![-32768; 16], rising.collect()];
            let store = TestStore::new().array("rain", &array);
            chunks.into_iter().enumerate().fold(store, |store, (at, chunk)| {
                let bytes: Vec<u8> = chunk.into_iter().flat_map(i16::to_le_bytes).collect();
                store.file(&format!("rain/{at}"), &bytes)
            })
        };
        assert_eq!(store(-32000).findings("undeclared-missing-value"), []);
        assert_eq!(store(-1000).findings("undeclared-missing-value").len(), 1);
    }
}
