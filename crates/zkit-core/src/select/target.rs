//! What a person asks for, read as the values of one coordinate.

use super::coordinate::Values;
use super::index::Index;
use super::request::Method;
use crate::calendar::{Calendar, PartialDate, Resolution};
use crate::error::{Error, ErrorKind, Result};

/// A value that is looked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Target {
    /// A number, and as an integer if it is one.
    Number { float: f64, integer: Option<i128> },
    /// A point in time or a duration.
    Nanoseconds(i128),
    /// A text.
    Text(String),
}

/// What is asked for, read for one coordinate.
pub(super) enum Asked {
    One(Target),
    /// A partial date, coarser than the coordinate: all of it.
    All(Target, Target),
}

impl Index<'_> {
    pub(super) fn usage(&self, what: &str) -> Error {
        Error::new(ErrorKind::Usage, format!("could not select along `{}`: {what}", self.coordinate.name()))
    }

    /// Reads what is asked for as this coordinate's values are.
    pub(super) fn read(&self, text: &str, method: Method) -> Result<Asked> {
        Ok(Asked::One(match &self.coordinate.values {
            Values::Texts(_) => Target::Text(text.to_owned()),
            Values::Ints(_) | Values::UInts(_) | Values::Floats { .. } => self.read_number(text)?,
            Values::Durations(_) => Target::Nanoseconds(self.read_duration(text)?),
            Values::Times { calendar, .. } => {
                let (date, first, last) = self.read_date(text, *calendar)?;
                let coarse = self.resolution.is_some_and(|finest: Resolution| date.resolution() < finest);
                if coarse && method == Method::Exact {
                    return Ok(Asked::All(Target::Nanoseconds(first), Target::Nanoseconds(last)));
                }
                Target::Nanoseconds(first)
            }
        }))
    }

    /// Reads an end of a range: the first and the last instant that it names.
    pub(super) fn read_end(&self, text: &str) -> Result<(Target, Target)> {
        if let Values::Times { calendar, .. } = &self.coordinate.values {
            let (_, first, last) = self.read_date(text, *calendar)?;
            return Ok((Target::Nanoseconds(first), Target::Nanoseconds(last)));
        }
        match self.read(text, Method::Nearest)? {
            Asked::One(target) | Asked::All(target, _) => Ok((target.clone(), target)),
        }
    }

    fn read_date(&self, text: &str, calendar: Calendar) -> Result<(PartialDate, i128, i128)> {
        let range = PartialDate::parse(text).and_then(|date| Some((date, date.range(calendar)?)));
        let Some((date, (first, last))) = range else {
            let message = format!("`{text}` is not a date of the calendar {calendar}");
            return Err(self
                .usage(&message)
                .with_hint("write dates as 2020, 2020-01, 2020-01-02 or 2020-01-02T06:30"));
        };
        Ok((date, first.nanoseconds(), last.nanoseconds()))
    }

    /// Returns the nanoseconds of the unit that its numbers are counted in, where that is one of time.
    fn own_unit(&self) -> Option<i128> {
        // one letter may be metres or kelvins of their own
        self.coordinate
            .units
            .as_deref()
            .filter(|unit| !matches!(*unit, "m" | "T" | "S" | "L" | "U" | "N" | "D" | "H"))
            .and_then(duration_unit)
    }

    /// Reads a number, or a duration as a count of the coordinate's own unit.
    fn read_number(&self, text: &str) -> Result<Target> {
        if let Some((nanoseconds, unit)) = duration(text).zip(self.own_unit()) {
            return Ok(self.rounded(in_units(nanoseconds, unit)));
        }
        let float: f64 = text.parse().ok().filter(|float: &f64| float.is_finite()).ok_or_else(|| {
            let error = self.usage(&format!("`{text}` is not a number"));
            match text.split_once(':') {
                Some((from, to)) => error.with_hint(format!("ranges are written {from}..{to}")),
                None => error,
            }
        })?;
        Ok(match self.rounded(float) {
            Target::Number { float, integer } => {
                Target::Number { float, integer: text.parse().ok().or(integer) }
            }
            other => other,
        })
    }

    /// Returns a number in the precision of the coordinate.
    pub(super) fn rounded(&self, float: f64) -> Target {
        match self.coordinate.values {
            #[expect(clippy::cast_possible_truncation, reason = "xarray rounds what is asked for likewise")]
            Values::Floats { single: true, .. } => number(f64::from(float as f32)),
            _ => number(float),
        }
    }

    fn read_duration(&self, text: &str) -> Result<i128> {
        let own = || self.own_unit().and_then(|unit| counted(text.trim(), unit));
        duration(text).or_else(own).ok_or_else(|| {
            self.usage(&format!("`{text}` is not a duration"))
                .with_hint("write durations as 6h, 30min, 1d or 90s")
        })
    }

    pub(super) fn tolerance(&self, text: &str) -> Result<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a distance")]
        let tolerance = match &self.coordinate.values {
            Values::Times { .. } | Values::Durations(_) => self.read_duration(text)? as f64,
            Values::Texts(_) => return Err(self.usage("texts have no tolerance")),
            _ => match duration(text).zip(self.own_unit()) {
                Some((nanoseconds, unit)) => in_units(nanoseconds, unit),
                None => text
                    .parse()
                    .map_err(|_| self.usage(&format!("the tolerance `{text}` is not a number")))?,
            },
        };
        if tolerance >= 0.0 { Ok(tolerance) } else { Err(self.usage("a tolerance is not negative")) }
    }
}

pub(super) fn number(float: f64) -> Target {
    #[expect(clippy::cast_possible_truncation, reason = "whole and small enough")]
    let integer = (float.fract() == 0.0 && float.abs() < 1e15).then_some(float as i128);
    Target::Number { float, integer }
}

/// Returns how many units a duration is.
fn in_units(nanoseconds: i128, unit: i128) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "compared with floats")]
    let (whole, rest) = ((nanoseconds / unit) as f64, (nanoseconds % unit) as f64 / unit as f64);
    whole + rest
}

/// Returns the nanoseconds of a unit of durations: `hours`, `min`, `s`; pandas' letters.
pub fn duration_unit(unit: &str) -> Option<i128> {
    Some(match unit.trim() {
        "D" | "d" | "day" | "days" => 86_400_000_000_000,
        "h" | "H" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000_000,
        "min" | "m" | "T" | "minute" | "minutes" => 60_000_000_000,
        "s" | "S" | "sec" | "second" | "seconds" => 1_000_000_000,
        "ms" | "L" | "milliseconds" => 1_000_000,
        "us" | "U" | "microseconds" => 1_000,
        "ns" | "N" | "nanoseconds" => 1,
        _ => return None,
    })
}

/// Reads `6h`, `1.5 d`, `30 min`, `90s`.
fn duration(text: &str) -> Option<i128> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (count, unit) = text.split_at(split);
    counted(count.trim(), duration_unit(unit)?)
}

/// Returns a count of units in nanoseconds.
fn counted(count: &str, nanoseconds: i128) -> Option<i128> {
    if let Ok(whole) = count.parse::<i64>() {
        return i128::from(whole).checked_mul(nanoseconds);
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "rounded to nanoseconds"
    )]
    let rounded =
        (count.parse::<f64>().ok().filter(|count| count.abs() < 1e12)? * nanoseconds as f64).round() as i128;
    Some(rounded)
}
