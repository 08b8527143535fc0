//! What `suspect-values` says of rows of chunks along the first dimension: two versions, and exchanged chunks.

use std::collections::BTreeMap;

use zkit_core::engine::{ArrayValues, UnitGrid};
use zkit_core::metadata::Json;
use zkit_core::select::Order;
use zkit_report::{ChunkBox, Severity};

use crate::finder::{Draft, Finder};
use crate::observe::{ArrayObservation, StoreObservation};
use crate::values::number;
use crate::words::span_in_words;

/// Rows of chunks that a break between two versions needs to stand out from.
const ROWS_LEAST: usize = 8;
/// How much larger than any other step, and than a typical one, a break is.
const BREAK: (f64, f64) = (5.0, 10.0);
/// From so many rows on; fewer show less of what is usual, and a break among them is three times as large, or moves the
/// whole range by the same.
const ROWS_MANY: usize = 12;
/// How much of the step of the mean the ends of a range make that moves as one.
const AS_ONE: std::ops::Range<f64> = 0.8..1.25;
/// Of how much of the range of each row that step is, at least.
const AS_ONE_LEAST: f64 = 0.5;
/// How far steps of a steady trend are from a typical one.
const STEADY: std::ops::Range<f64> = 0.5..2.0;

/// What one row of chunks along the first dimension holds.
#[derive(Debug, Clone, Copy)]
struct Row {
    min: f64,
    max: f64,
    sum: f64,
    valid: f64,
}

impl Row {
    fn mean(self) -> f64 {
        self.sum / self.valid
    }
}

/// Reports what rows of chunks show, where all of them were looked at.
pub(crate) fn report(
    store: &StoreObservation<'_>,
    (array, values): (&ArrayObservation<'_>, &ArrayValues),
    finder: &mut Finder<'_>,
) {
    let Some(rows) = rows_of(values) else { return };
    let along_time = runs_along_time(store, array);
    // levels and channels differ from each other, steps of time less so
    if (along_time || rows.len() >= ROWS_MANY)
        && let Some(found) = break_of(&rows)
    {
        report_two_versions(store, (array, values), found, finder);
    }
    if along_time
        && is_in_order(store, array)
        && let Some(pair) = exchanged(&rows)
    {
        report_exchanged(store, (array, values), (&rows, pair), finder);
    }
}

fn report_two_versions(
    store: &StoreObservation<'_>,
    (array, values): (&ArrayObservation<'_>, &ArrayValues),
    (at, step, next): (usize, f64, f64),
    finder: &mut Finder<'_>,
) {
    let message = format!(
        "from {} on, least, largest and mean value all {} at once, the mean by {}; the next largest step between chunks is {}",
        begin_of_row(store, (array, values), at),
        if step > 0.0 { "rise" } else { "fall" },
        number(step.abs()),
        number(next)
    );
    let draft = finder.array(array.path(), message).severity(Severity::Error);
    let draft = draft
        .evidence("kind", "two-versions")
        .evidence("step", step)
        .evidence("next_largest_step", next)
        .remedy("compare both parts with the source: a writer may have died while it overwrote the array");
    let end = values.counts.first().map_or(0, |&count| count.saturating_sub(1));
    with_rows(draft, values, &[(at as u64, end)]);
}

fn report_exchanged(
    store: &StoreObservation<'_>,
    (array, values): (&ArrayObservation<'_>, &ArrayValues),
    (rows, (one, other)): (&[Row], (usize, usize)),
    finder: &mut Finder<'_>,
) {
    let message = format!(
        "the chunks from {} and {} on break a steady trend, and continue it if they change places: their means are {} and {}",
        begin_of_row(store, (array, values), one),
        begin_of_row(store, (array, values), other),
        number(rows[one].mean()),
        number(rows[other].mean())
    );
    let draft = finder
        .array(array.path(), message)
        .evidence("kind", "exchanged")
        .evidence("means", vec![rows[one].mean(), rows[other].mean()])
        .remedy("compare these chunks with the source");
    with_rows(draft, values, &[one, other].map(|at| (at as u64, at as u64)));
}

/// Returns where a row of chunks begins, in the words of its coordinate.
fn begin_of_row(
    store: &StoreObservation<'_>,
    (array, values): (&ArrayObservation<'_>, &ArrayValues),
    at: usize,
) -> String {
    let chunk = match values.grid {
        UnitGrid::Stored => array.node.metadata.grid.largest_chunk_shape(),
        UnitGrid::Inner => array.node.metadata.chunk_shape(),
    };
    let first = (at as u64).saturating_mul(chunk.first().copied().unwrap_or(1));
    let end = array.node.metadata.shape().first().copied().unwrap_or(0).saturating_sub(1);
    span_in_words(store, array, 0, first.min(end), first.min(end))
}

/// Names all chunks of some rows, each a first and a last one.
fn with_rows<'a>(draft: Draft<'a>, values: &ArrayValues, rows: &[(u64, u64)]) -> Draft<'a> {
    let box_of = |&(first, last): &(u64, u64)| {
        let mut chunks = ChunkBox {
            first: vec![0; values.counts.len()],
            last: values.counts.iter().map(|count| count.saturating_sub(1)).collect(),
        };
        (chunks.first[0], chunks.last[0]) = (first, last);
        chunks
    };
    let boxes = rows.iter().map(box_of).collect();
    match values.grid {
        UnitGrid::Stored => draft.chunks(boxes),
        UnitGrid::Inner => draft.inner_chunks(boxes),
    }
}

/// Returns whether the coordinate of the first dimension, if it was read, says that the rows follow each other.
fn is_in_order(store: &StoreObservation<'_>, array: &ArrayObservation<'_>) -> bool {
    let read = store.coordinate_of(array, 0).and_then(|found| store.coordinate(found.path()));
    read.is_none_or(|read| matches!(read.analysis.order, Order::Increasing | Order::Decreasing))
}

/// Returns whether the first dimension of an array is time, by its name or the unit of its coordinate.
fn runs_along_time(store: &StoreObservation<'_>, array: &ArrayObservation<'_>) -> bool {
    let named = array.dimension_name(0).is_some_and(|name| name.to_lowercase().contains("time"));
    let coordinate = store.coordinate_of(array, 0);
    let units = coordinate.and_then(|found| found.node.metadata.attributes.get("units"));
    named || units.and_then(Json::as_str).is_some_and(|units| units.contains(" since "))
}

/// Returns what each row of chunks holds, if all of it was looked at and every row has values that are not all the same.
fn rows_of(values: &ArrayValues) -> Option<Vec<Row>> {
    let units = values.units.as_ref().filter(|_| values.coverage.is_full() && values.corrupt.is_empty())?;
    let stride = values.counts.get(1..)?.iter().product::<u64>().max(1);
    let mut rows: BTreeMap<u64, Row> = BTreeMap::new();
    for unit in units.iter().filter(|unit| unit.valid > 0) {
        let empty = Row { min: f64::INFINITY, max: f64::NEG_INFINITY, sum: 0.0, valid: 0.0 };
        let row = rows.entry(unit.position / stride).or_insert(empty);
        #[expect(clippy::cast_precision_loss, reason = "a mean need not be exact")]
        let valid = unit.valid as f64;
        row.min = row.min.min(unit.min);
        row.max = row.max.max(unit.max);
        row.sum += unit.mean * valid;
        row.valid += valid;
    }
    let complete = rows.len() >= ROWS_LEAST && rows.keys().zip(0..).all(|(row, at)| *row == at);
    let rows: Vec<Row> = rows.into_values().collect();
    let spread = rows.iter().all(|row| row.valid >= 16.0 && row.min < row.max && row.mean().is_finite());
    (complete && spread).then_some(rows)
}

/// Returns the row at which another version seems to begin, the step of the mean there, and the next largest step.
fn break_of(rows: &[Row]) -> Option<(usize, f64, f64)> {
    let steps: Vec<f64> = rows.windows(2).map(|pair| pair[1].mean() - pair[0].mean()).collect();
    let at = (0..steps.len()).max_by(|&a, &b| steps[a].abs().total_cmp(&steps[b].abs()))?;
    let mut others: Vec<f64> =
        steps.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, step)| step.abs()).collect();
    others.sort_unstable_by(f64::total_cmp);
    let (typical, next) = (others[others.len() / 2], *others.last()?);
    let step = steps[at];
    let moves = |of: fn(&Row) -> f64| (of(&rows[at + 1]) - of(&rows[at])) / step;
    let (least_moves, largest_moves) = (moves(|row| row.min), moves(|row| row.max));
    // what moves as one was moved: weather changes one end of the range more than the other
    let as_one = [least_moves, largest_moves].iter().all(|moved| AS_ONE.contains(moved))
        && rows.iter().all(|row| step.abs() > AS_ONE_LEAST * (row.max - row.min));
    let factor = if rows.len() >= ROWS_MANY || as_one { 1.0 } else { 3.0 };
    let least = factor * (BREAK.0 * next).max(BREAK.1 * typical);
    let stands_out = step.abs() > least && next > 0.0;
    // what is new at a border moves one end of the range, another version moves both
    let both = least_moves > 0.5 && largest_moves > 0.5;
    // and stays
    let side = |part: &[Row]| part.iter().map(|row| row.mean()).sum::<f64>() / part.len() as f64;
    let stays = (side(&rows[at + 1..]) - side(&rows[..=at])) / step > 0.5;
    let enough = at >= 1 && at + 3 <= rows.len();
    (stands_out && both && stays && enough).then_some((at + 1, step, next))
}

/// Returns the two rows that have to change places for the means to make a steady trend.
fn exchanged(rows: &[Row]) -> Option<(usize, usize)> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|&one, &other| rows[one].mean().total_cmp(&rows[other].mean()));
    let misplaced = |order: &[usize]| -> Vec<usize> {
        order.iter().zip(0..).filter(|(found, at)| *found != at).map(|(_, at)| at).collect()
    };
    let mut pair = misplaced(&order);
    if pair.len() != 2 {
        order.reverse();
        pair = misplaced(&order);
    }
    let &[one, other] = pair.as_slice() else { return None };
    let steps = || order.windows(2).map(|pair| (rows[pair[1]].mean() - rows[pair[0]].mean()).abs());
    let mut sorted: Vec<f64> = steps().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let typical = sorted[sorted.len() / 2];
    let is_steady = typical > 0.0 && steps().all(|step| STEADY.contains(&(step / typical)));
    // what is out of place has nothing in common with the rows beside it
    let apart = |at: usize| {
        let beside = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
        let mut beside = beside.filter(|near| ![one, other].contains(near)).filter_map(|near| rows.get(near));
        beside.all(|near| near.max < rows[at].min || near.min > rows[at].max)
    };
    (is_steady && apart(one) && apart(other)).then_some((one, other))
}

#[cfg(test)]
mod tests {
    use zkit_report::{Finding, Severity};

    use crate::testing::{coordinate_array, store_of_rows};

    fn found(attributes: &str, rows: &[Vec<f32>]) -> Vec<Finding> {
        store_of_rows(attributes, rows).findings("suspect-values")
    }

    const TIME: &str = r#"{"_ARRAY_DIMENSIONS": ["time", "x"]}"#;

    /// Returns rows of a trend, one of each number, and a wave.
    fn trend(order: &[u8], step: f32) -> Vec<Vec<f32>> {
        let row = |&at: &u8| (0..32).map(|x| (x as f32 * 0.9).sin() + step * f32::from(at)).collect();
        order.iter().map(row).collect()
    }

    #[test]
    fn two_chunks_of_a_steady_trend_that_were_exchanged_are_noted() {
        let order = [0, 1, 7, 3, 4, 5, 6, 2, 8, 9];
        let exchanged = found(TIME, &trend(&order, 6.0));
        assert_eq!((exchanged.len(), exchanged[0].severity), (1, Severity::Info), "{exchanged:?}");
        let chunks = exchanged[0].chunks.as_ref().unwrap();
        assert_eq!([chunks[0].first[0], chunks[1].first[0]], [2, 7]);
        assert!(exchanged[0].message.starts_with("the chunks from time[2] and time[7] on"), "{exchanged:?}");
        let falling: Vec<Vec<f32>> = trend(&order, -6.0);
        assert_eq!(found(TIME, &falling).len(), 1);
        assert_eq!(found(TIME, &trend(&[1, 0, 2, 3, 4, 5, 6, 7, 8], 6.0)).len(), 1);
        assert_eq!(found("{}", &trend(&order, 6.0)), [], "levels may come in any order");
        assert_eq!(found(TIME, &trend(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 6.0)), []);
        assert_eq!(found(TIME, &trend(&[0, 2, 1, 3, 4, 6, 5, 7, 8], 6.0)), [], "weather goes up and down");
        assert_eq!(found(TIME, &trend(&order, 0.3)), [], "rows have values in common");
        assert_eq!(found(TIME, &trend(&[0, 1, 7, 30, 40, 5, 6, 2, 80, 90], 6.0)), [], "no steady trend");
    }

    #[test]
    fn chunks_whose_times_were_exchanged_with_them_are_in_their_places() {
        let store = |times: &[i64]| {
            let store = store_of_rows(TIME, &trend(&[0, 1, 7, 3, 4, 5, 6, 2, 8, 9], 6.0));
            coordinate_array(store, "time", times, r#"{"units": "days since 2020-01-01"}"#)
                .findings("suspect-values")
        };
        assert_eq!(store(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]).len(), 1);
        assert_eq!(store(&[0, 1, 7, 3, 4, 5, 6, 2, 8, 9]), []);
    }

    #[test]
    fn a_break_at_one_border_of_chunks_is_found_and_seasons_are_not() {
        let rows = |shift: &dyn Fn(usize) -> f32| {
            let wave = |row: usize, at: usize| ((row * 7 + at) as f32 * 0.9).sin();
            (0..24)
                .map(|row| (0..32).map(|at| wave(row, at) + shift(row)).collect())
                .collect::<Vec<Vec<f32>>>()
        };
        let broken = found("{}", &rows(&|row| if row < 10 { 0.0 } else { 5.0 }));
        assert_eq!((broken.len(), broken[0].severity), (1, Severity::Error));
        assert_eq!(broken[0].chunks.as_ref().unwrap()[0].first, [10, 0]);
        assert!(broken[0].message.starts_with("from dimension 0[10] on"), "{}", broken[0].message);
        assert!(found("{}", &rows(&|row| 9.0 * (row as f32 * 0.3).sin())).is_empty());
        assert!(found("{}", &rows(&|row| if row == 10 { 5.0 } else { 0.0 })).is_empty());
        assert!(found("{}", &rows(&|row| row as f32)).is_empty());
    }

    #[test]
    fn few_rows_need_a_larger_break() {
        let rows = |count: usize, step: f32| {
            let level = |row: usize| (row * 5 % 7) as f32 / 3.0 + if row < 3 { 0.0 } else { step };
            let row = |row: usize| (0..32).map(|at| (at as f32 * 0.9).sin() + level(row)).collect();
            (0..count).map(row).collect::<Vec<Vec<f32>>>()
        };
        let time = r#"{"_ARRAY_DIMENSIONS": ["time", "x"]}"#;
        let broken = found(time, &rows(8, 60.0));
        assert_eq!(broken.len(), 1);
        assert_eq!(broken[0].chunks.as_ref().unwrap()[0].first, [3, 0]);
        let mut stretched = rows(8, 0.0);
        for row in &mut stretched[3..] {
            row.iter_mut().zip(0u8..).for_each(|(value, at)| *value += 12.0 + 0.5 * f32::from(at));
        }
        assert!(found(time, &stretched).is_empty(), "its range does not move as one");
        assert_eq!(found(time, &rows(8, 20.0)).len(), 1);
        assert_eq!(found("{}", &rows(12, 20.0)).len(), 1);
        assert!(found("{}", &rows(8, 60.0)).is_empty(), "levels may differ");
        assert!(found(time, &rows(6, 60.0)).is_empty());
    }
}
