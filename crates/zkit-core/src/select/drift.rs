//! How far the values of two coordinates of one length are apart, position by position.

use super::coordinate::{Coordinate, Values, show_duration, show_float};

/// Of the smallest step between values, differences of rounding are at most this part.
const STEP_PART: f64 = 100.0;
/// Times are rounded to a second at most, in nanoseconds.
const TIME_MOST: f64 = 1e9;
/// Single precision keeps numbers to this part of them, with one unit in the last place to spare.
const SINGLE_PART: f64 = 1.0 / 4_194_304.0;

/// The values of two coordinates that are not the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// The first position that differs.
    pub at: usize,
    /// How many positions differ.
    pub count: usize,
    /// The largest difference, in the unit of the values (nanoseconds for times); `None` where some have none: texts, and
    /// missing values.
    pub largest: Option<f64>,
    /// What sort of difference it is.
    pub kind: DriftKind,
}

/// What sort of difference lies between two coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriftKind {
    /// No value is further off than rounding moves it.
    Rounding,
    /// The same values in reverse order.
    Reversed,
    /// The same values in another order.
    Reordered,
    /// Other values.
    Other,
}

/// What counts as rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// A hundredth of the smallest step between the values; of times a second at most. Integers and texts have none.
    OfSteps,
    /// What single precision loses of each number: of arrays whose values are no steps.
    OfSinglePrecision,
}

impl Coordinate {
    /// Returns how far another coordinate of the same length and kind is from this one; `None` where they are the same, or
    /// cannot be compared. Missing values are the same.
    ///
    /// ```
    /// use zkit_core::select::{Axis, Coordinate, DriftKind, Rounding, Values};
    ///
    /// let floats = |values: &[f64]| {
    ///     Coordinate::new("/y", Values::Floats { values: values.to_vec(), single: false }, Axis::Other)
    /// };
    /// let one = floats(&[50.0, 51.0, 52.0]);
    /// let kind = |other: &[f64]| one.drift(&floats(other), Rounding::OfSteps).map(|drift| drift.kind);
    /// assert_eq!(kind(&[50.0, 51.0, 52.0]), None);
    /// assert_eq!(kind(&[50.0, 51.001, 52.0]), Some(DriftKind::Rounding));
    /// assert_eq!(kind(&[52.0, 51.0, 50.0]), Some(DriftKind::Reversed));
    /// assert_eq!(kind(&[150.0, 151.0, 152.0]), Some(DriftKind::Other));
    /// ```
    pub fn drift(&self, other: &Self, rounding: Rounding) -> Option<Drift> {
        let length = self.len();
        let both = super::concatenate(&[self, other]).ok().filter(|_| other.len() == length)?;
        let same = |one: usize, other: usize| match (both.is_missing(one), both.is_missing(other)) {
            (false, false) => both.values.compare(one, other).is_eq(),
            (one, other) => one == other,
        };
        let apart: Vec<usize> = (0..length).filter(|&at| !same(at, length + at)).collect();
        let first = *apart.first()?;
        let distance = |&at: &usize| match both.is_missing(at) || both.is_missing(length + at) {
            true => None,
            false => both.values.distance(at, length + at).map(f64::abs),
        };
        let largest = apart.iter().map(distance).try_fold(0.0, |most: f64, one| Some(most.max(one?)));
        let step = smallest_step(self);
        let is_rounding = |at: &usize| {
            let most = match rounding {
                Rounding::OfSteps => step_rounding(&both.values, step),
                Rounding::OfSinglePrecision => single_rounding(&both.values, *at, length + at),
            };
            distance(at).is_some_and(|distance| distance <= most)
        };
        let kind = if apart.iter().all(is_rounding) {
            DriftKind::Rounding
        } else if (0..length).all(|at| same(at, 2 * length - 1 - at)) {
            DriftKind::Reversed
        } else if is_reordered(&both, length) {
            DriftKind::Reordered
        } else {
            DriftKind::Other
        };
        Some(Drift { at: first, count: apart.len(), largest, kind })
    }

    /// Returns a difference of two of its values in words: `1e-9`, `6 h`.
    pub fn show_distance(&self, distance: f64) -> String {
        match &self.values {
            #[expect(clippy::cast_possible_truncation, reason = "a difference of two times fits")]
            Values::Times { .. } | Values::Durations(_) => show_duration(distance as i128),
            // what subtraction leaves behind the digits of the operands is noise
            values => {
                let text =
                    if distance == 0.0 || !distance.is_finite() { distance } else { four_digits(distance) };
                show_float(text, matches!(values, Values::Floats { single: true, .. }))
            }
        }
    }
}

/// Returns a number with four digits that count.
fn four_digits(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

/// Returns the smallest difference between two values of a coordinate that are not the same.
fn smallest_step(coordinate: &Coordinate) -> Option<f64> {
    let mut present: Vec<usize> = coordinate.present().collect();
    present.sort_by(|&one, &other| coordinate.values.compare(one, other));
    let steps = present.windows(2).filter_map(|pair| coordinate.values.distance(pair[0], pair[1]));
    steps.filter(|step| *step > 0.0).min_by(f64::total_cmp)
}

fn step_rounding(values: &Values, step: Option<f64>) -> f64 {
    let part = step.map_or(0.0, |step| step / STEP_PART);
    match values {
        Values::Floats { .. } => part,
        Values::Times { .. } | Values::Durations(_) => part.min(TIME_MOST),
        Values::Ints(_) | Values::UInts(_) | Values::Texts(_) => 0.0,
    }
}

fn single_rounding(values: &Values, one: usize, other: usize) -> f64 {
    match values {
        Values::Floats { values, .. } => values[one].abs().max(values[other].abs()) * SINGLE_PART,
        _ => 0.0,
    }
}

/// Returns whether the second half of some values holds those of the first in another order.
fn is_reordered(both: &Coordinate, length: usize) -> bool {
    let sorted = |range: std::ops::Range<usize>| {
        let mut positions: Vec<usize> = range.filter(|&at| !both.is_missing(at)).collect();
        positions.sort_by(|&one, &other| both.values.compare(one, other));
        positions
    };
    let (one, other) = (sorted(0..length), sorted(length..2 * length));
    one.len() == other.len() && one.iter().zip(&other).all(|(&a, &b)| both.values.compare(a, b).is_eq())
}

#[cfg(test)]
mod tests {
    use super::super::coordinate::Axis;
    use super::*;
    use crate::calendar::Calendar;

    fn floats(values: &[f64]) -> Coordinate {
        Coordinate::new("/y", Values::Floats { values: values.to_vec(), single: false }, Axis::Other)
    }

    fn kind(one: &Coordinate, other: &Coordinate) -> Option<DriftKind> {
        one.drift(other, Rounding::OfSteps).map(|drift| drift.kind)
    }

    #[test]
    fn rounding_is_a_hundredth_of_the_smallest_step_and_no_more() {
        let grid = floats(&[0.0, 0.25, 0.5, 10.0]);
        assert_eq!(kind(&grid, &floats(&[0.0, 0.252_4, 0.5, 10.0])), Some(DriftKind::Rounding));
        assert_eq!(kind(&grid, &floats(&[0.0, 0.2526, 0.5, 10.0])), Some(DriftKind::Other));
        let single = floats(&[0.0_f32, 0.1, 0.2].map(f64::from));
        assert_eq!(kind(&floats(&[0.0, 0.1, 0.2]), &single), Some(DriftKind::Rounding));
        let seconds = |values: &[i64]| floats(&values.iter().map(|&value| value as f64).collect::<Vec<_>>());
        let (one, other) =
            (seconds(&[1_600_000_000, 1_600_000_001]), seconds(&[1_600_000_001, 1_600_000_002]));
        assert_eq!(kind(&one, &other), Some(DriftKind::Other), "single precision does not tell them apart");
        assert_eq!(
            kind(&floats(&[5.0]), &floats(&[5.000_000_1])),
            Some(DriftKind::Other),
            "one value has no step"
        );
    }

    #[test]
    fn integers_and_texts_are_never_rounded() {
        let ints = |values: &[i64]| Coordinate::new("/p", Values::Ints(values.to_vec()), Axis::Other);
        assert_eq!(kind(&ints(&[50_000, 85_000]), &ints(&[50_000, 85_001])), Some(DriftKind::Other));
        assert_eq!(kind(&ints(&[1, 2]), &floats(&[1.0, 2.000_1])), Some(DriftKind::Rounding));
        assert_eq!(kind(&ints(&[1, 2]), &floats(&[1.0, 2.0])), None);
    }

    #[test]
    fn another_order_is_told_from_other_values() {
        let grid = floats(&[1.0, 2.0, 4.0]);
        assert_eq!(kind(&grid, &floats(&[4.0, 2.0, 1.0])), Some(DriftKind::Reversed));
        assert_eq!(kind(&grid, &floats(&[2.0, 1.0, 4.0])), Some(DriftKind::Reordered));
        let shifted = grid.drift(&floats(&[101.0, 102.0, 104.0]), Rounding::OfSteps).unwrap();
        assert_eq!((shifted.kind, shifted.count, shifted.largest), (DriftKind::Other, 3, Some(100.0)));
        assert_eq!(grid.drift(&floats(&[1.0, 2.0]), Rounding::OfSteps), None, "lengths differ");
    }

    #[test]
    fn times_are_rounded_to_a_second_at_most_and_missing_values_never() {
        let times = |values: &[i128]| {
            let values = Values::Times { values: values.to_vec(), calendar: Calendar::Standard };
            Coordinate::new("/time", values, Axis::Time)
        };
        let day = 86_400_000_000_000;
        assert_eq!(kind(&times(&[0, day]), &times(&[999, day])), Some(DriftKind::Rounding));
        assert_eq!(kind(&times(&[0, day]), &times(&[2_000_000_000, day])), Some(DriftKind::Other));
        let missing = floats(&[f64::NAN, 1.0]);
        assert_eq!(missing.drift(&floats(&[f64::NAN, 1.0]), Rounding::OfSteps), None);
        assert_eq!(missing.drift(&floats(&[0.0, 1.0]), Rounding::OfSteps).unwrap().largest, None);
        assert_eq!(times(&[0]).show_distance(3_600e9), "1 h");
        assert_eq!(missing.show_distance(1.000_000_082_740_371e-9), "0.000000001");
    }

    #[test]
    fn values_that_are_no_steps_are_rounded_as_single_precision_rounds_them() {
        let drift =
            |one: &[f64], other: &[f64]| floats(one).drift(&floats(other), Rounding::OfSinglePrecision);
        assert_eq!(
            drift(&[51.1, 51.1001], &[f64::from(51.1f32), 51.1001]).unwrap().kind,
            DriftKind::Rounding
        );
        assert_eq!(drift(&[51.1, 51.1001], &[51.1001, 51.1001]).unwrap().kind, DriftKind::Other);
    }
}
