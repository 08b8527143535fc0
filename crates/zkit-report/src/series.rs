//! A number along one dimension of an array, reduced to as many points as a picture shows.

use serde::Serialize;

/// A number along one dimension of an array: the share of NaN at each time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The store's URL, without secrets.
    pub store: String,
    /// The path of the array.
    pub array: String,
    /// What the values are: `NaN fraction`.
    pub what: String,
    /// The name of the dimension: `time`.
    pub axis: String,
    /// The values along it, at most [`Series::POINTS_MOST`].
    pub points: Vec<Point>,
}

/// One point of a [`Series`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Where it is: the value of the coordinate (`2021-03-29`), or the index.
    pub label: String,
    /// The value; `None` where nothing was read.
    pub value: Option<f64>,
}

impl Series {
    /// The most points that a series has.
    pub const POINTS_MOST: usize = 240;

    /// Returns these points, neighbours joined until there are at most [`Series::POINTS_MOST`].
    ///
    /// Joined points keep the largest value, and the label of where it is: a single bad day is seen among
    /// thirty years.
    pub fn reduced(points: impl ExactSizeIterator<Item = Point>) -> Vec<Point> {
        let share = points.len().div_ceil(Self::POINTS_MOST).max(1);
        let mut joined: Vec<Point> = Vec::with_capacity(points.len().div_ceil(share));
        for (position, point) in points.enumerate() {
            match joined.last_mut() {
                Some(last) if position % share != 0 => {
                    if point.value > last.value {
                        *last = point;
                    }
                }
                _ => joined.push(point),
            }
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(count: usize, value: impl Fn(usize) -> Option<f64>) -> Vec<Point> {
        (0..count).map(|index| Point { label: index.to_string(), value: value(index) }).collect()
    }

    #[test]
    fn short_series_stay_as_they_are() {
        let given = points(240, |index| Some(index as f64));
        assert_eq!(Series::reduced(given.clone().into_iter()), given);
    }

    #[test]
    fn a_single_high_point_survives_with_its_label() {
        let high = |index| if index == 7_777 { Some(1.0) } else { Some(0.0) };
        let reduced = Series::reduced(points(10_951, high).into_iter());
        assert!(reduced.len() <= Series::POINTS_MOST);
        let found: Vec<_> = reduced.iter().filter(|point| point.value == Some(1.0)).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].label, "7777");
    }

    #[test]
    fn what_was_not_read_hides_nothing() {
        let reduced = Series::reduced(points(480, |index| (index % 2 == 1).then_some(0.0)).into_iter());
        assert!(reduced.iter().all(|point| point.value == Some(0.0)));
        assert!(Series::reduced(points(0, |_| None).into_iter()).is_empty());
    }
}
