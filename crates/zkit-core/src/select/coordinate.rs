//! The values of one coordinate, of whatever type.

use std::cmp::Ordering;

use crate::calendar::{Calendar, Time, TimeUnits};
use crate::codec::VariableElements;

/// The decoded values of a coordinate.
#[derive(Debug, Clone, PartialEq)]
pub struct Coordinate {
    /// The path of its array, starting with `/`.
    pub path: String,
    /// The values in the order of the array.
    pub values: Values,
    /// What it runs along, as far as attributes and name tell.
    pub axis: Axis,
    /// Its `units` attribute.
    pub units: Option<String>,
    /// The units of CF times, to encode others as it does.
    pub time_units: Option<TimeUnits>,
    /// Which positions hold no value: NaN, NaT, a declared fill value, or nothing written; empty where all do.
    pub(super) missing: Vec<bool>,
    /// How many elements no chunk holds.
    pub unwritten: u64,
}

/// Values by type.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Integers that fit 64 bits with a sign; booleans as 0 and 1.
    Ints(Vec<i64>),
    /// Integers of which some only fit 64 bits without a sign.
    UInts(Vec<u64>),
    /// Floats, unpacked.
    Floats {
        /// The values; NaN is missing.
        values: Vec<f64>,
        /// Whether they are of single precision: what is asked for is rounded to it before it is compared.
        single: bool,
    },
    /// Points in time: nanoseconds, as [`Time`] counts them.
    Times {
        /// Nanoseconds; zero where missing.
        values: Vec<i128>,
        /// The calendar.
        calendar: Calendar,
    },
    /// Durations in nanoseconds; zero where missing.
    Durations(Vec<i128>),
    /// Texts, UTF-8 (of `S` types the bytes as they are).
    Texts(VariableElements),
}

/// What a coordinate runs along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Points in time.
    Time,
    /// Degrees east.
    Longitude,
    /// Degrees north.
    Latitude,
    /// Height, depth, pressure, level.
    Vertical,
    /// Projected or grid positions along one of two horizontal directions.
    Horizontal,
    /// Anything else.
    Other,
}

impl Values {
    /// Returns how many values there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::UInts(values) => values.len(),
            Self::Floats { values, .. } => values.len(),
            Self::Times { values, .. } | Self::Durations(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// Returns whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Compares two values by position; floats in the order of numbers, -0.0 equal to 0.0.
    pub fn compare(&self, one: usize, other: usize) -> Ordering {
        match self {
            Self::Ints(values) => values[one].cmp(&values[other]),
            Self::UInts(values) => values[one].cmp(&values[other]),
            Self::Floats { values, .. } => values[one]
                .partial_cmp(&values[other])
                .unwrap_or_else(|| values[one].total_cmp(&values[other])),
            Self::Times { values, .. } | Self::Durations(values) => values[one].cmp(&values[other]),
            Self::Texts(values) => values.get(one).cmp(values.get(other)),
        }
    }

    /// Returns how far it is from one value to another, in its own unit or in nanoseconds; `None` for texts.
    pub fn distance(&self, from: usize, to: usize) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "steps are compared with a tolerance")]
        Some(match self {
            Self::Ints(values) => (i128::from(values[to]) - i128::from(values[from])) as f64,
            Self::UInts(values) => (i128::from(values[to]) - i128::from(values[from])) as f64,
            Self::Floats { values, .. } => values[to] - values[from],
            Self::Times { values, .. } | Self::Durations(values) => (values[to] - values[from]) as f64,
            Self::Texts(_) => return None,
        })
    }

    /// Returns whether values are numbers, times or durations.
    pub fn is_numeric(&self) -> bool {
        !matches!(self, Self::Texts(_))
    }

    /// Returns one value as text: numbers as short as they are exact, times in ISO form.
    pub fn show(&self, position: usize) -> String {
        match self {
            Self::Ints(values) => values[position].to_string(),
            Self::UInts(values) => values[position].to_string(),
            Self::Floats { values, single } => show_float(values[position], *single),
            Self::Times { values, calendar } => Time::from_nanoseconds(values[position])
                .map_or_else(|| "out of range".to_owned(), |time| time.show(*calendar)),
            Self::Durations(values) => show_duration(values[position]),
            Self::Texts(values) => String::from_utf8_lossy(values.get(position)).into_owned(),
        }
    }

    /// Returns the bytes by which one value is told from others of the same kind, in any store.
    ///
    /// Times of different units and integers of different widths agree where they are equal.
    pub fn key(&self, position: usize) -> Vec<u8> {
        match self {
            Self::Ints(values) => i128::from(values[position]).to_be_bytes().to_vec(),
            Self::UInts(values) => i128::from(values[position]).to_be_bytes().to_vec(),
            // adding zero makes -0.0 the same as 0.0
            Self::Floats { values, .. } => (values[position] + 0.0).to_be_bytes().to_vec(),
            Self::Times { values, .. } | Self::Durations(values) => values[position].to_be_bytes().to_vec(),
            Self::Texts(values) => values.get(position).to_vec(),
        }
    }
}

impl Coordinate {
    /// Returns a coordinate of these values, of which none is missing but NaN.
    pub fn new(path: impl Into<String>, values: Values, axis: Axis) -> Self {
        let missing = match &values {
            Values::Floats { values, .. } if values.iter().any(|value| value.is_nan()) => {
                values.iter().map(|value| value.is_nan()).collect()
            }
            _ => Vec::new(),
        };
        Self { path: path.into(), values, axis, units: None, time_units: None, missing, unwritten: 0 }
    }

    /// Returns the last part of its path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns how many elements it has.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns whether a position holds no value.
    pub fn is_missing(&self, position: usize) -> bool {
        self.missing.get(position).copied().unwrap_or(false)
    }

    /// Returns one value as text, `NaN` or `NaT` where it is missing.
    pub fn show(&self, position: usize) -> String {
        match (&self.values, self.is_missing(position)) {
            (_, false) => self.values.show(position),
            (Values::Times { .. } | Values::Durations(_), true) => "NaT".to_owned(),
            (Values::Texts(_), true) => String::new(),
            (_, true) => "NaN".to_owned(),
        }
    }

    /// Returns the positions that hold a value, in order.
    pub fn present(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).filter(|&position| !self.is_missing(position))
    }
}

/// Returns a float as short as it is exact.
pub(super) fn show_float(value: f64, single: bool) -> String {
    let plain = |text: String, scientific: String| if text.len() > 20 { scientific } else { text };
    if single {
        #[expect(clippy::cast_possible_truncation, reason = "it was widened from single precision")]
        let value = value as f32;
        return plain(value.to_string(), format!("{value:e}"));
    }
    plain(value.to_string(), format!("{value:e}"))
}

/// Returns a duration in the largest unit that holds it whole: `6 h`, `1 d`.
pub(super) fn show_duration(nanoseconds: i128) -> String {
    let units: [(i128, &str); 6] = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
    ];
    let whole = units.into_iter().find(|(unit, _)| nanoseconds != 0 && nanoseconds % unit == 0);
    match whole {
        Some((unit, name)) => format!("{} {name}", nanoseconds / unit),
        None if nanoseconds == 0 => "0 s".to_owned(),
        None => format!("{nanoseconds} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_people_write_them() {
        let floats = |values: Vec<f64>, single| Values::Floats { values, single };
        assert_eq!(floats(vec![f64::from(51.1f32)], true).show(0), "51.1");
        assert_eq!(floats(vec![359.75], false).show(0), "359.75");
        assert_eq!(floats(vec![9.969_209_968_386_869e36], false).show(0), "9.969209968386869e36");
        assert_eq!(Values::Durations(vec![21_600_000_000_000]).show(0), "6 h");
        assert_eq!(Values::Durations(vec![0]).show(0), "0 s");
        assert_eq!(Values::Durations(vec![1_500]).show(0), "1500 ns");
    }

    #[test]
    fn keys_of_equal_values_agree_whatever_their_width() {
        assert_eq!(Values::Ints(vec![7]).key(0), Values::UInts(vec![7]).key(0));
        let floats = Values::Floats { values: vec![0.0, -0.0], single: false };
        assert_eq!(floats.key(0), floats.key(1));
        assert_eq!(floats.compare(0, 1), Ordering::Equal);
    }
}
