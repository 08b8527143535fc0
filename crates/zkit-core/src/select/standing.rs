//! Where the values of one coordinate stand in another: a slice, beside what it was cut from.

use super::coordinate::{Axis, Coordinate, Values};
use crate::calendar::Calendar;

/// Where a value of one coordinate stands in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// At this position.
    At(u64),
    /// At several positions.
    Several,
    /// Nowhere.
    Nowhere,
    /// There is no value to look for.
    Missing,
}

/// Longitudes of different ranges are one where they agree to so many parts of a degree: about a metre.
const DEGREE_PARTS: f64 = 1e5;

/// Returns where each value of `own` stands in `source`; `None` where the two cannot be compared: texts and numbers, times
/// of different calendars.
///
/// Integers, times and texts are looked for exactly. Floats too; where that finds fewer of them, as single precision
/// rounds them, and longitudes also on the circle: -170 is 190. Time: a sort of `source`.
///
/// ```
/// use zkit_core::select::{Axis, Coordinate, Standing, Values, standing_in};
///
/// let source = Coordinate::new("/id", Values::Ints(vec![5, 7, 9, 9]), Axis::Other);
/// let slice = Coordinate::new("/id", Values::Ints(vec![9, 8, 5]), Axis::Other);
/// let standing = standing_in(&slice, &source).unwrap();
/// assert_eq!(standing, [Standing::Several, Standing::Nowhere, Standing::At(0)]);
/// ```
pub fn standing_in(own: &Coordinate, source: &Coordinate) -> Option<Vec<Standing>> {
    match (&own.values, &source.values) {
        (Values::Texts(a), Values::Texts(b)) => {
            Some(places(&keys(own, |at| a.get(at)), &keys(source, |at| b.get(at))))
        }
        (Values::Times { calendar: one, .. }, Values::Times { calendar: other, .. })
            if reckoning(*one) != reckoning(*other) =>
        {
            None
        }
        (Values::Times { values: a, .. }, Values::Times { values: b, .. })
        | (Values::Durations(a), Values::Durations(b)) => {
            Some(places(&keys(own, |at| a[at]), &keys(source, |at| b[at])))
        }
        _ => match (integers(own), integers(source)) {
            (Some(a), Some(b)) => Some(places(&a, &b)),
            _ => numbers(own).zip(numbers(source)).map(|(a, b)| nearest_reading(own, source, &a, &b)),
        },
    }
}

/// Returns the calendar that stands for those which count days alike: since 1582 standard is proleptic Gregorian.
fn reckoning(calendar: Calendar) -> Calendar {
    match calendar {
        Calendar::Standard => Calendar::ProlepticGregorian,
        other => other,
    }
}

/// Returns the places of floats, read in the way that finds the most of them.
fn nearest_reading(own: &Coordinate, source: &Coordinate, a: &[f64], b: &[f64]) -> Vec<Standing> {
    let read =
        |key: &dyn Fn(f64) -> i128| places(&keys(own, |at| key(a[at])), &keys(source, |at| key(b[at])));
    let found = |places: &[Standing]| places.iter().filter(|place| matches!(place, Standing::At(_))).count();
    let mut best = read(&|value| i128::from((value + 0.0).to_bits()));
    #[expect(clippy::cast_possible_truncation, reason = "rounded as single precision does")]
    let single = |value: f64| i128::from((value as f32 + 0.0).to_bits());
    #[expect(clippy::cast_possible_truncation, reason = "at most 360 degrees in parts; NaN is left out")]
    let circle = |value: f64| {
        i128::from((value.rem_euclid(360.0) * DEGREE_PARTS).round() as i64) % (360 * DEGREE_PARTS as i128)
    };
    let is_longitude = own.axis == Axis::Longitude && source.axis == Axis::Longitude;
    let others: [(bool, &dyn Fn(f64) -> i128); 2] = [(true, &single), (is_longitude, &circle)];
    for (_, key) in others.into_iter().filter(|(applies, _)| *applies) {
        if found(&best) < best.len() {
            let other = read(key);
            if found(&other) > found(&best) {
                best = other;
            }
        }
    }
    best
}

/// Returns what values are looked for by; `None` where one is missing.
fn keys<K>(coordinate: &Coordinate, key: impl Fn(usize) -> K) -> Vec<Option<K>> {
    (0..coordinate.len()).map(|at| (!coordinate.is_missing(at)).then(|| key(at))).collect()
}

fn integers(coordinate: &Coordinate) -> Option<Vec<Option<i128>>> {
    match &coordinate.values {
        Values::Ints(values) => Some(keys(coordinate, |at| i128::from(values[at]))),
        Values::UInts(values) => Some(keys(coordinate, |at| i128::from(values[at]))),
        _ => None,
    }
}

fn numbers(coordinate: &Coordinate) -> Option<Vec<f64>> {
    #[expect(clippy::cast_precision_loss, reason = "compared with floats")]
    match &coordinate.values {
        Values::Floats { values, .. } => Some(values.clone()),
        Values::Ints(values) => Some(values.iter().map(|&value| value as f64).collect()),
        Values::UInts(values) => Some(values.iter().map(|&value| value as f64).collect()),
        _ => None,
    }
}

/// Returns where each key of `own` stands in `source`.
fn places<K: Ord + Copy>(own: &[Option<K>], source: &[Option<K>]) -> Vec<Standing> {
    let present = source.iter().enumerate();
    let mut sorted: Vec<(K, u64)> = present.filter_map(|(at, key)| Some(((*key)?, at as u64))).collect();
    sorted.sort_unstable();
    let place = |key: K| {
        let first = sorted.partition_point(|(other, _)| *other < key);
        match (sorted.get(first), sorted.get(first + 1)) {
            (Some((found, _)), _) if *found != key => Standing::Nowhere,
            (Some(_), Some((next, _))) if *next == key => Standing::Several,
            (Some(&(_, at)), _) => Standing::At(at),
            (None, _) => Standing::Nowhere,
        }
    };
    own.iter().map(|key| key.map_or(Standing::Missing, place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f64], single: bool, axis: Axis) -> Coordinate {
        Coordinate::new("/x", Values::Floats { values: values.to_vec(), single }, axis)
    }

    #[test]
    fn floats_are_found_as_single_precision_rounds_them() {
        let source = floats(&[51.0, 51.1, 51.2], false, Axis::Latitude);
        let own = floats(&[f64::from(51.2f32), f64::from(51.1f32), f64::NAN], true, Axis::Latitude);
        let expected = [Standing::At(2), Standing::At(1), Standing::Missing];
        assert_eq!(standing_in(&own, &source).unwrap(), expected);
    }

    #[test]
    fn values_that_single_precision_does_not_tell_apart_are_told_apart() {
        let source = floats(&[1.6e9, 1.6e9 + 1.0, 1.6e9 + 2.0], false, Axis::Other);
        let own = floats(&[1.6e9 + 1.0, 1.6e9 + 3.0], false, Axis::Other);
        assert_eq!(standing_in(&own, &source).unwrap(), [Standing::At(1), Standing::Nowhere]);
    }

    #[test]
    fn longitudes_are_found_on_the_circle() {
        let source = floats(&[0.0, 90.0, 180.0, 270.0], false, Axis::Longitude);
        let own = floats(&[-180.0, -90.0, 0.0, 90.0], false, Axis::Longitude);
        let expected = [Standing::At(2), Standing::At(3), Standing::At(0), Standing::At(1)];
        assert_eq!(standing_in(&own, &source).unwrap(), expected);
        let latitudes = floats(&[-90.0, 0.0], false, Axis::Latitude);
        assert_eq!(standing_in(&latitudes, &source).unwrap(), [Standing::Nowhere, Standing::At(0)]);
    }

    #[test]
    fn what_cannot_be_compared_is_not() {
        let times =
            |calendar| Coordinate::new("/t", Values::Times { values: vec![0, 1], calendar }, Axis::Time);
        let ints = Coordinate::new("/t", Values::Ints(vec![0, 1]), Axis::Other);
        assert_eq!(standing_in(&times(Calendar::NoLeap), &times(Calendar::Day360)), None);
        assert_eq!(standing_in(&ints, &times(Calendar::NoLeap)), None);
        assert!(standing_in(&times(Calendar::Standard), &times(Calendar::ProlepticGregorian)).is_some());
        assert_eq!(
            standing_in(&times(Calendar::NoLeap), &times(Calendar::NoLeap)).unwrap()[1],
            Standing::At(1)
        );
        assert_eq!(
            standing_in(&ints, &floats(&[1.0], false, Axis::Other)).unwrap(),
            [Standing::Nowhere, Standing::At(0)]
        );
    }
}
