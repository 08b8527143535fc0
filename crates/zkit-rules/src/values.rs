//! What rules over values say alike: how much was looked at, and which chunks it concerns.

use std::collections::BTreeSet;

use zkit_core::engine::{ArrayValues, UnitGrid};
use zkit_core::grid::ChunkSet;
use zkit_report::format;

use crate::boxes::Runs;
use crate::finder::Draft;
use crate::observe::{ArrayObservation, StoreObservation};

/// Returns the arrays whose values were looked at, with what they hold.
pub(crate) fn seen<'s, 'a>(
    store: &'s StoreObservation<'a>,
) -> impl Iterator<Item = (&'s ArrayObservation<'a>, &'s ArrayValues)> {
    store.arrays.iter().filter_map(|array| Some((array, array.values.as_ref()?)))
}

/// Returns those of [`seen`] that hold data: no coordinates, and more than one element.
pub(crate) fn seen_data<'s, 'a>(
    store: &'s StoreObservation<'a>,
) -> impl Iterator<Item = (&'s ArrayObservation<'a>, &'s ArrayValues)> {
    let coordinates: BTreeSet<&str> = store.coordinate_paths();
    seen(store).filter(move |(array, values)| {
        !coordinates.contains(array.path()) && values.coverage.elements > 1 && values.stored.elements > 0
    })
}

/// Returns `all 480 chunks`, or `24 of 480 chunks`.
pub(crate) fn looked_at(values: &ArrayValues) -> String {
    let (seen, stored) = (values.coverage.chunks_seen, values.coverage.chunks_stored);
    match (values.coverage.is_full(), stored) {
        (true, 1) => "its chunk".to_owned(),
        (true, _) => format!("all {} stored chunks", format::count(stored)),
        (false, _) => format!("{} of {} stored chunks", format::count(seen), format::count(stored)),
    }
}

/// Names chunks (inner chunks where sharded) in a finding.
pub(crate) fn with_units<'a>(draft: Draft<'a>, values: &ArrayValues, units: &ChunkSet) -> Draft<'a> {
    let runs = Runs::of(units);
    let (boxes, left_out) = runs.few_boxes(&values.counts);
    let draft = draft.evidence("chunk_count", runs.len());
    let draft = match values.grid {
        UnitGrid::Stored => draft.chunks(boxes),
        UnitGrid::Inner => draft.inner_chunks(boxes),
    };
    if left_out > 0 { draft.evidence("chunks_not_named", left_out) } else { draft }
}

/// Returns the share of a count, 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
pub(crate) fn share(count: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { count as f64 / of as f64 }
}

/// Returns a number with as many digits as people read: `273.16`, `9.97e36`.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 || (1e-3..1e7).contains(&magnitude) {
        let text = format!("{value:.4}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        return if text.is_empty() || text == "-0" { "0".to_owned() } else { text.to_owned() };
    }
    format!("{value:.4e}").replace(".0000e", "e")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [273.16, 1e20, -9999.0, 0.0, 9.969_209_968_386_869e36, 0.5].map(number);
        assert_eq!(shown, ["273.16", "1e20", "-9999", "0", "9.9692e36", "0.5"]);
        assert_eq!((share(1, 4), share(0, 0)), (0.25, 0.0));
    }
}
