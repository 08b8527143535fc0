//! Ranges of a coordinate in words.

use super::coordinate::{Coordinate, Values};
use crate::calendar::Time;

/// Returns the values of an inclusive range of positions in words: `2021-03-29..31`, `51.5`, `850..500`.
///
/// ```
/// use zkit_core::select::{Axis, Coordinate, Values, range_in_words};
///
/// let levels = Coordinate::new("/level", Values::Ints(vec![850, 700, 500]), Axis::Vertical);
/// assert_eq!(range_in_words(&levels, 0, 2), "850..500");
/// ```
pub fn range_in_words(coordinate: &Coordinate, first: usize, last: usize) -> String {
    let end = coordinate.len().saturating_sub(1);
    let (first, last) = (first.min(end), last.min(end));
    if coordinate.is_empty() {
        return "nothing".to_owned();
    }
    let (from, to) = (coordinate.show(first), coordinate.show(last));
    if first == last || from == to {
        return from;
    }
    if let Values::Times { values, calendar } = &coordinate.values
        && !coordinate.is_missing(first)
        && !coordinate.is_missing(last)
        && let (Some(one), Some(other)) =
            (Time::from_nanoseconds(values[first]), Time::from_nanoseconds(values[last]))
    {
        let (one, other) = (one.date(*calendar), other.date(*calendar));
        let whole_days = !from.contains('T') && !to.contains('T');
        if whole_days && (one.year, one.month) == (other.year, other.month) {
            return format!("{from}..{:02}", other.day);
        }
    }
    format!("{from}..{to}")
}

#[cfg(test)]
mod tests {
    use super::super::coordinate::Axis;
    use super::*;
    use crate::calendar::Calendar;

    #[test]
    fn days_of_one_month_are_named_short() {
        let day = 86_400_000_000_000;
        let values = (0..60).map(|at| at * day / 2).collect();
        let time =
            Coordinate::new("/time", Values::Times { values, calendar: Calendar::Standard }, Axis::Time);
        assert_eq!(range_in_words(&time, 0, 4), "1970-01-01..03");
        assert_eq!(range_in_words(&time, 0, 5), "1970-01-01..1970-01-03T12:00");
        assert_eq!(range_in_words(&time, 2, 2), "1970-01-02");
        assert_eq!(range_in_words(&time, 2, 1_000), "1970-01-02..1970-01-30T12:00");
    }
}
