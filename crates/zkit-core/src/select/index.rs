//! A coordinate that can be searched: its values in ascending order, whatever their order in the array.

use std::cmp::Ordering;
use std::ops::Range;

use super::coordinate::{Coordinate, Values};
use super::target::Target;
use crate::calendar::Resolution;

/// The values of a coordinate in ascending order.
#[derive(Debug)]
pub struct Index<'a> {
    pub(super) coordinate: &'a Coordinate,
    sorted: Sorted,
    /// The finest part of any time; what is asked for more coarsely is a range.
    pub(super) resolution: Option<Resolution>,
}

/// Positions by rank.
#[derive(Debug)]
enum Sorted {
    /// Each value is at least as large as the one before it.
    Rising,
    /// At most as large.
    Falling,
    /// Neither, or some are missing.
    Permuted(Vec<usize>),
}

impl<'a> Index<'a> {
    /// Prepares a coordinate for searching. Time: one pass where it is in order, else a sort.
    pub fn new(coordinate: &'a Coordinate) -> Self {
        let values = &coordinate.values;
        let whole = !(0..coordinate.len()).any(|at| coordinate.is_missing(at));
        let all = |order: Ordering| whole && (1..values.len()).all(|at| values.compare(at - 1, at) != order);
        let sorted = if all(Ordering::Greater) {
            Sorted::Rising
        } else if all(Ordering::Less) {
            Sorted::Falling
        } else {
            let mut positions: Vec<usize> = coordinate.present().collect();
            positions.sort_by(|&one, &other| values.compare(one, other));
            Sorted::Permuted(positions)
        };
        let resolution = match values {
            Values::Times { values, .. } => coordinate
                .present()
                .filter_map(|at| crate::calendar::Time::from_nanoseconds(values[at]))
                .map(crate::calendar::Time::resolution)
                .max(),
            _ => None,
        };
        Self { coordinate, sorted, resolution }
    }

    /// Returns whether values never fall.
    pub fn is_rising(&self) -> bool {
        matches!(self.sorted, Sorted::Rising)
    }

    /// Returns whether values never rise.
    pub fn is_falling(&self) -> bool {
        matches!(self.sorted, Sorted::Falling)
    }

    /// Returns how many values can be found.
    pub fn len(&self) -> usize {
        match &self.sorted {
            Sorted::Permuted(positions) => positions.len(),
            _ => self.coordinate.len(),
        }
    }

    /// Returns whether no value can be found.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the position in the array of the value of this rank.
    pub(super) fn position(&self, rank: usize) -> usize {
        match &self.sorted {
            Sorted::Rising => rank,
            Sorted::Falling => self.coordinate.len() - 1 - rank,
            Sorted::Permuted(positions) => positions[rank],
        }
    }

    /// Returns the ranks of the values that equal the target; empty, at its place, if there is none.
    pub(super) fn equal(&self, target: &Target) -> Range<usize> {
        let first = self.partition(|order| order == Ordering::Less, target);
        let end = self.partition(|order| order != Ordering::Greater, target);
        first..end
    }

    fn partition(&self, before: impl Fn(Ordering) -> bool, target: &Target) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.compare(self.position(middle), target)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Compares the value at a position with the target.
    fn compare(&self, position: usize, target: &Target) -> Ordering {
        match (&self.coordinate.values, target) {
            (Values::Ints(values), Target::Number { integer: Some(integer), .. }) => {
                i128::from(values[position]).cmp(integer)
            }
            (Values::UInts(values), Target::Number { integer: Some(integer), .. }) => {
                i128::from(values[position]).cmp(integer)
            }
            (Values::Times { values, .. } | Values::Durations(values), Target::Nanoseconds(wanted)) => {
                values[position].cmp(wanted)
            }
            (Values::Texts(values), Target::Text(text)) => values.get(position).cmp(text.as_bytes()),
            (_, Target::Number { float, .. }) => {
                self.number(position).partial_cmp(float).unwrap_or(Ordering::Equal)
            }
            // targets are made for the values that they are compared with
            _ => Ordering::Equal,
        }
    }

    /// Returns how far the value at a position is from the target; infinite between texts.
    pub(super) fn distance(&self, position: usize, target: &Target) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a distance")]
        match (&self.coordinate.values, target) {
            (Values::Ints(values), Target::Number { integer: Some(integer), .. }) => {
                (i128::from(values[position]) - integer).unsigned_abs() as f64
            }
            (Values::UInts(values), Target::Number { integer: Some(integer), .. }) => {
                (i128::from(values[position]) - integer).unsigned_abs() as f64
            }
            (Values::Times { values, .. } | Values::Durations(values), Target::Nanoseconds(wanted)) => {
                values[position].abs_diff(*wanted) as f64
            }
            (_, Target::Number { float, .. }) => (self.number(position) - float).abs(),
            _ => f64::INFINITY,
        }
    }

    /// Returns a number as a float.
    pub(super) fn number(&self, position: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "compared with a float")]
        match &self.coordinate.values {
            Values::Ints(values) => values[position] as f64,
            Values::UInts(values) => values[position] as f64,
            Values::Floats { values, .. } => values[position],
            Values::Times { values, .. } | Values::Durations(values) => values[position] as f64,
            Values::Texts(_) => f64::NAN,
        }
    }

    /// Returns the rank of the nearest value to a target; of two equally near ones that of the larger.
    pub(super) fn nearest(&self, target: &Target) -> Option<usize> {
        let above = self.partition(|order| order == Ordering::Less, target);
        let below = above.checked_sub(1);
        let above = Some(above).filter(|&rank| rank < self.len());
        match (below, above) {
            (Some(below), Some(above)) => {
                let near = |rank: usize| self.distance(self.position(rank), target);
                Some(if near(below) < near(above) { below } else { above })
            }
            (below, above) => below.or(above),
        }
    }
}
