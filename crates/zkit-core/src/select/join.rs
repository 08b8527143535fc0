//! Several coordinates of one dimension made one: put behind each other, or aligned by value.

use std::collections::HashMap;
use std::sync::Arc;

use super::coordinate::{Coordinate, Values};
use super::drift::{DriftKind, Rounding};
use super::words::range_in_words;
use crate::codec::VariableElements;
use crate::error::{Error, ErrorKind, Result};

/// Which values stay when coordinates of one dimension are not the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// They must be the same, in the same order.
    Exact,
    /// Those that all have, in the order of the first.
    Inner,
    /// Those that any has, in ascending order.
    Outer,
}

/// Coordinates of one dimension, aligned.
#[derive(Debug, Clone, PartialEq)]
pub struct Aligned {
    /// The values of all.
    pub coordinate: Coordinate,
    /// For each coordinate where it holds the values: `None` where it has them all in that order, else for each value its
    /// position, or `None` where it lacks it.
    pub positions: Vec<Option<Arc<[Option<usize>]>>>,
}

impl Coordinate {
    /// Returns the values at some positions, in that order.
    #[must_use]
    pub fn take(&self, positions: &[usize]) -> Self {
        let some = |missing: &[bool]| positions.iter().map(|&at| missing[at]).collect::<Vec<bool>>();
        let missing = if self.missing.is_empty() { Vec::new() } else { some(&self.missing) };
        Self {
            values: self.values.take(positions),
            missing: if missing.contains(&true) { missing } else { Vec::new() },
            unwritten: 0,
            ..self.clone_without_values()
        }
    }

    /// Returns whether another holds the same values in the same order, missing ones included.
    pub fn same_values(&self, other: &Self) -> bool {
        let kinds = std::mem::discriminant(&self.values) == std::mem::discriminant(&other.values);
        let comparable =
            kinds || !matches!((&self.values, &other.values), (Values::Texts(_), _) | (_, Values::Texts(_)));
        self.len() == other.len()
            && comparable
            && (kinds || concatenate(&[self, other]).is_ok())
            && (0..self.len()).all(|at| self.key(at) == other.key(at))
            && self.calendar() == other.calendar()
    }

    /// Returns the bytes by which a value is told from others, `None` where it is missing.
    fn key(&self, position: usize) -> Option<Vec<u8>> {
        (!self.is_missing(position)).then(|| match &self.values {
            // whole numbers agree with floats that are whole
            Values::Ints(values) => whole(i128::from(values[position])),
            Values::UInts(values) => whole(i128::from(values[position])),
            other => other.key(position),
        })
    }

    fn calendar(&self) -> Option<crate::calendar::Calendar> {
        match &self.values {
            Values::Times { calendar, .. } => Some(*calendar),
            _ => None,
        }
    }

    fn clone_without_values(&self) -> Self {
        Self {
            path: self.path.clone(),
            values: Values::Ints(Vec::new()),
            axis: self.axis,
            units: self.units.clone(),
            time_units: self.time_units,
            missing: Vec::new(),
            unwritten: 0,
        }
    }
}

fn whole(value: i128) -> Vec<u8> {
    #[expect(clippy::cast_precision_loss, reason = "checked: the float is that value")]
    let float = value as f64;
    #[expect(clippy::cast_possible_truncation, reason = "saturates, and then differs")]
    let exact = float as i128 == value;
    if exact { (float + 0.0).to_be_bytes().to_vec() } else { value.to_be_bytes().to_vec() }
}

impl Values {
    fn take(&self, positions: &[usize]) -> Self {
        fn some<T: Copy>(values: &[T], positions: &[usize]) -> Vec<T> {
            positions.iter().map(|&at| values[at]).collect()
        }
        match self {
            Self::Ints(values) => Self::Ints(some(values, positions)),
            Self::UInts(values) => Self::UInts(some(values, positions)),
            Self::Floats { values, single } => {
                Self::Floats { values: some(values, positions), single: *single }
            }
            Self::Times { values, calendar } => {
                Self::Times { values: some(values, positions), calendar: *calendar }
            }
            Self::Durations(values) => Self::Durations(some(values, positions)),
            Self::Texts(values) => {
                let mut texts = VariableElements::default();
                positions.iter().for_each(|&at| texts.push(values.get(at)));
                Self::Texts(texts)
            }
        }
    }
}

/// Puts coordinates behind each other: numbers become what holds them all.
///
/// Errors: `Mismatch` where some are texts, times or durations and others are not, or times of different calendars; `Usage`
/// without any.
pub fn concatenate(coordinates: &[&Coordinate]) -> Result<Coordinate> {
    let [first, ..] = coordinates else {
        return Err(Error::new(ErrorKind::Usage, "no coordinate to put behind another"));
    };
    let values = if coordinates.iter().all(|coordinate| is_number(&coordinate.values)) {
        numbers(coordinates)
    } else {
        of_one_kind(coordinates)?
    };
    let any_missing = coordinates.iter().any(|coordinate| !coordinate.missing.is_empty());
    let missing = match any_missing {
        true => coordinates
            .iter()
            .flat_map(|coordinate| (0..coordinate.len()).map(|at| coordinate.is_missing(at)))
            .collect(),
        false => Vec::new(),
    };
    let unwritten = coordinates.iter().map(|coordinate| coordinate.unwritten).sum();
    Ok(Coordinate { values, missing, unwritten, ..first.clone_without_values() })
}

fn is_number(values: &Values) -> bool {
    matches!(values, Values::Ints(_) | Values::UInts(_) | Values::Floats { .. })
}

/// Returns numbers in what holds them all: integers where they fit 64 bits, else floats.
fn numbers(coordinates: &[&Coordinate]) -> Values {
    let integers: Option<Vec<i128>> = coordinates.iter().try_fold(Vec::new(), |mut all, coordinate| {
        match &coordinate.values {
            Values::Ints(values) => all.extend(values.iter().map(|&value| i128::from(value))),
            Values::UInts(values) => all.extend(values.iter().map(|&value| i128::from(value))),
            _ => return None,
        }
        Some(all)
    });
    if let Some(integers) = integers {
        if let Some(values) = integers.iter().map(|&value| i64::try_from(value).ok()).collect() {
            return Values::Ints(values);
        }
        if let Some(values) = integers.iter().map(|&value| u64::try_from(value).ok()).collect() {
            return Values::UInts(values);
        }
    }
    let single = |coordinate: &&Coordinate| matches!(coordinate.values, Values::Floats { single: true, .. });
    let mut floats = Vec::new();
    for coordinate in coordinates {
        #[expect(clippy::cast_precision_loss, reason = "as numpy joins integers and floats")]
        match &coordinate.values {
            Values::Ints(values) => floats.extend(values.iter().map(|&value| value as f64)),
            Values::UInts(values) => floats.extend(values.iter().map(|&value| value as f64)),
            Values::Floats { values, .. } => floats.extend_from_slice(values),
            _ => {}
        }
    }
    Values::Floats { values: floats, single: coordinates.iter().all(single) }
}

/// Returns values that are all texts, times or durations.
fn of_one_kind(coordinates: &[&Coordinate]) -> Result<Values> {
    let mut values = coordinates[0].values.clone();
    for coordinate in &coordinates[1..] {
        match (&mut values, &coordinate.values) {
            (Values::Times { values, calendar }, Values::Times { values: more, calendar: other })
                if calendar == other =>
            {
                values.extend_from_slice(more);
            }
            (Values::Times { calendar, .. }, Values::Times { calendar: other, .. }) => {
                let message =
                    format!("`{}` has times of the calendars {calendar} and {other}", coordinate.path);
                return Err(Error::new(ErrorKind::Mismatch, message)
                    .with_hint("times of different calendars have no common order; slice them apart"));
            }
            (Values::Durations(values), Values::Durations(more)) => values.extend_from_slice(more),
            (Values::Texts(texts), Values::Texts(more)) => more.iter().for_each(|text| texts.push(text)),
            _ => {
                let message = format!(
                    "`{}` holds {} in one place and {} in another",
                    coordinate.path,
                    coordinates[0].values.kind(),
                    coordinate.values.kind()
                );
                return Err(Error::new(ErrorKind::Mismatch, message));
            }
        }
    }
    Ok(values)
}

impl Values {
    /// Returns what sort of values they are, in one word: `numbers`, `times`, `durations`, `texts`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Ints(_) | Self::UInts(_) | Self::Floats { .. } => "numbers",
            Self::Times { .. } => "times",
            Self::Durations(_) => "durations",
            Self::Texts(_) => "texts",
        }
    }
}

/// Aligns coordinates by value, as xarray joins indexes.
///
/// Errors: `Mismatch` where they differ under [`Join::Exact`], which names the first value that does, where one of them
/// holds a value twice or none at all, or where they are of different kinds.
///
/// ```
/// use zkit_core::select::{Axis, Coordinate, Join, Values, align};
///
/// let one = Coordinate::new("/level", Values::Ints(vec![850, 500]), Axis::Vertical);
/// let other = Coordinate::new("/level", Values::Ints(vec![500, 200]), Axis::Vertical);
/// let joined = align(&[&one, &other], Join::Inner).unwrap();
/// assert_eq!(joined.coordinate.values, Values::Ints(vec![500]));
/// assert_eq!(joined.positions[0].as_deref(), Some(&[Some(1)][..]));
/// ```
pub fn align(coordinates: &[&Coordinate], join: Join) -> Result<Aligned> {
    let Some((first, others)) = coordinates.split_first() else {
        return Err(Error::new(ErrorKind::Usage, "no coordinate to align"));
    };
    let different = others.iter().copied().find(|other| !first.same_values(other));
    let Some(different) = different else {
        return Ok(Aligned { coordinate: (*first).clone(), positions: vec![None; coordinates.len()] });
    };
    if join == Join::Exact {
        return Err(difference(first, different));
    }
    // of equal values the keys agree once they are of one type
    let all = concatenate(coordinates)?;
    let mut starts = Vec::with_capacity(coordinates.len());
    let mut start = 0;
    for coordinate in coordinates {
        starts.push(start);
        start += coordinate.len();
    }
    let mut places: Vec<HashMap<Vec<u8>, usize>> = Vec::with_capacity(coordinates.len());
    for (coordinate, start) in coordinates.iter().zip(&starts) {
        places.push(places_of(coordinate, &all, *start)?);
    }
    let kept = kept(&all, &places, first.len(), join);
    let positions = places
        .iter()
        .map(|places| {
            kept.iter().map(|&at| places.get(&all.values.key(at)).copied()).collect::<Vec<_>>().into()
        })
        .map(Some)
        .collect();
    Ok(Aligned { coordinate: all.take(&kept), positions })
}

/// Returns the positions of a coordinate's values by key; each value stands once.
fn places_of(coordinate: &Coordinate, all: &Coordinate, start: usize) -> Result<HashMap<Vec<u8>, usize>> {
    let mut places = HashMap::with_capacity(coordinate.len());
    for at in 0..coordinate.len() {
        let twice = places.insert(all.values.key(start + at), at).is_some();
        if twice || coordinate.is_missing(at) {
            let what = match coordinate.is_missing(at) {
                true => format!("has no value at position {at}"),
                false => format!("holds {} twice", coordinate.show(at)),
            };
            let message = format!("could not align `{}`: it {what}", coordinate.path);
            return Err(Error::new(ErrorKind::Mismatch, message));
        }
    }
    Ok(places)
}

/// Returns the positions in all values of those that stay.
fn kept(all: &Coordinate, places: &[HashMap<Vec<u8>, usize>], first: usize, join: Join) -> Vec<usize> {
    match join {
        Join::Inner => (0..first)
            .filter(|&at| places.iter().all(|places| places.contains_key(&all.values.key(at))))
            .collect(),
        Join::Exact | Join::Outer => {
            let mut sorted: Vec<usize> = (0..all.len()).collect();
            sorted.sort_by(|&one, &other| all.values.compare(one, other));
            sorted.dedup_by(|one, other| all.values.key(*one) == all.values.key(*other));
            sorted
        }
    }
}

fn difference(one: &Coordinate, other: &Coordinate) -> Error {
    let path = &one.path;
    let order = match one.drift(other, Rounding::OfSteps).map(|drift| drift.kind) {
        Some(DriftKind::Reversed) => Some("reverse"),
        Some(DriftKind::Reordered) => Some("another"),
        _ => None,
    };
    if let Some(order) = order {
        let (from, to) = (range_in_words(one, 0, one.len() - 1), range_in_words(other, 0, other.len() - 1));
        let message = format!(
            "`{path}` holds the same values in {order} order: {from} in one place and {to} in another"
        );
        return Error::new(ErrorKind::Mismatch, message);
    }
    let at = (0..one.len().min(other.len())).find(|&at| one.key(at) != other.key(at));
    let message = match at {
        _ if one.len() != other.len() => {
            format!("`{path}` has {} values in one place and {} in another", one.len(), other.len())
        }
        Some(at) => format!(
            "`{path}` differs: at position {at} it holds {} in one place and {} in another",
            one.show(at),
            other.show(at)
        ),
        None => format!(
            "`{path}` holds {} in one place and {} in another",
            one.values.kind(),
            other.values.kind()
        ),
    };
    Error::new(ErrorKind::Mismatch, message)
}

#[cfg(test)]
mod tests {
    use super::super::coordinate::Axis;
    use super::*;
    use crate::calendar::Calendar;

    fn ints(values: &[i64]) -> Coordinate {
        Coordinate::new("/x", Values::Ints(values.to_vec()), Axis::Other)
    }

    fn floats(values: &[f64]) -> Coordinate {
        Coordinate::new("/x", Values::Floats { values: values.to_vec(), single: false }, Axis::Other)
    }

    fn texts(values: &[&str]) -> Coordinate {
        let mut elements = VariableElements::default();
        values.iter().for_each(|text| elements.push(text.as_bytes()));
        Coordinate::new("/name", Values::Texts(elements), Axis::Other)
    }

    #[test]
    fn numbers_of_several_types_are_put_behind_each_other() {
        let large = Coordinate::new("/x", Values::UInts(vec![u64::MAX]), Axis::Other);
        assert_eq!(concatenate(&[&ints(&[1]), &large]).unwrap().values, Values::UInts(vec![1, u64::MAX]));
        let mixed = concatenate(&[&ints(&[1]), &floats(&[0.5, f64::NAN])]).unwrap();
        assert_eq!((mixed.len(), mixed.is_missing(1), mixed.is_missing(2)), (3, false, true));
        assert_eq!(mixed.show(0), "1");
    }

    #[test]
    fn what_has_no_common_order_is_refused() {
        assert_eq!(concatenate(&[&ints(&[1]), &texts(&["a"])]).unwrap_err().kind(), ErrorKind::Mismatch);
        let times =
            |calendar| Coordinate::new("/time", Values::Times { values: vec![0], calendar }, Axis::Time);
        let error = concatenate(&[&times(Calendar::NoLeap), &times(Calendar::Day360)]).unwrap_err();
        assert!(error.to_string().contains("calendars noleap and 360_day"), "{error}");
    }

    #[test]
    fn equal_coordinates_are_aligned_as_they_are() {
        let aligned = align(&[&ints(&[3, 1, 2]), &floats(&[3.0, 1.0, 2.0])], Join::Exact).unwrap();
        assert_eq!(aligned.positions, [None, None]);
        let error = align(&[&ints(&[1, 2]), &ints(&[1, 3])], Join::Exact).unwrap_err();
        assert!(error.to_string().contains("at position 1 it holds 2 in one place and 3"), "{error}");
        assert!(align(&[&ints(&[1, 2]), &ints(&[1])], Join::Exact).is_err());
    }

    #[test]
    fn outer_joins_are_sorted_and_inner_ones_keep_the_first_order() {
        let (one, other) = (texts(&["c", "a"]), texts(&["a", "b", "c"]));
        let outer = align(&[&one, &other], Join::Outer).unwrap();
        assert_eq!(outer.coordinate.values, texts(&["a", "b", "c"]).values);
        assert_eq!(outer.positions[0].as_deref(), Some(&[Some(1), None, Some(0)][..]));
        let inner = align(&[&one, &other], Join::Inner).unwrap();
        assert_eq!(inner.coordinate.values, texts(&["c", "a"]).values);
        assert_eq!(inner.positions[1].as_deref(), Some(&[Some(2), Some(0)][..]));
        assert!(align(&[&ints(&[1, 1]), &ints(&[1])], Join::Outer).is_err());
    }

    #[test]
    fn taken_values_keep_what_is_missing() {
        let taken = floats(&[f64::NAN, 1.0, 2.0]).take(&[2, 0]);
        assert_eq!((taken.show(0), taken.is_missing(1)), ("2".to_owned(), true));
    }
}
