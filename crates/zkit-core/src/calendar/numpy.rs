//! What numpy's `datetime64` and `timedelta64` count.

use super::date::{DAY, DateTime, SECOND, Time};
use super::reckoning::Calendar;

/// The count that numpy writes for "not a time".
pub(super) const NOT_A_TIME: i64 = i64::MIN;

/// The unit of a `datetime64` or `timedelta64`, with its scale: `2 x ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumpyUnit {
    kind: Kind,
    scale: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Years,
    Months,
    /// So many nanoseconds.
    Nanoseconds(i128),
    /// So many of them are a nanosecond.
    Fractions(i128),
}

impl NumpyUnit {
    /// Parses numpy's letters (`ns`, `D`, `M`); `None` for `generic` and for what numpy does not know.
    pub fn parse(unit: &str, scale: u32) -> Option<Self> {
        let kind = match unit {
            "Y" => Kind::Years,
            "M" => Kind::Months,
            "W" => Kind::Nanoseconds(7 * DAY),
            "D" => Kind::Nanoseconds(DAY),
            "h" => Kind::Nanoseconds(3_600 * SECOND),
            "m" => Kind::Nanoseconds(60 * SECOND),
            "s" => Kind::Nanoseconds(SECOND),
            "ms" => Kind::Nanoseconds(1_000_000),
            "us" | "μs" | "µs" => Kind::Nanoseconds(1_000),
            "ns" => Kind::Nanoseconds(1),
            "ps" => Kind::Fractions(1_000),
            "fs" => Kind::Fractions(1_000_000),
            "as" => Kind::Fractions(1_000_000_000),
            _ => return None,
        };
        Some(Self { kind, scale: scale.max(1) })
    }

    /// Returns the point in time of a count, on the proleptic Gregorian calendar.
    ///
    /// `None` for NaT, for times beyond what years can be told for, and for those that are no whole nanoseconds.
    pub fn time(self, count: i64) -> Option<Time> {
        if count == NOT_A_TIME {
            return None;
        }
        let months = |months: i128| {
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12));
            let date = DateTime::midnight(i64::try_from(1970 + year).ok()?, u8::try_from(month + 1).ok()?, 1);
            Time::of(date, Calendar::ProlepticGregorian)
        };
        let steps = i128::from(count) * i128::from(self.scale);
        match self.kind {
            Kind::Years => months(steps * 12),
            Kind::Months => months(steps),
            Kind::Nanoseconds(_) | Kind::Fractions(_) => Time::from_nanoseconds(self.duration(count)?),
        }
    }

    /// Returns the nanoseconds of a duration.
    ///
    /// `None` for NaT, for months and years, whose lengths differ, and for durations that are no whole nanoseconds.
    pub fn duration(self, count: i64) -> Option<i128> {
        if count == NOT_A_TIME {
            return None;
        }
        let steps = i128::from(count) * i128::from(self.scale);
        match self.kind {
            Kind::Years | Kind::Months => None,
            Kind::Nanoseconds(each) => steps.checked_mul(each),
            Kind::Fractions(parts) => (steps % parts == 0).then_some(steps / parts),
        }
    }

    /// Returns whether a count is numpy's "not a time".
    pub fn is_missing(count: i64) -> bool {
        count == NOT_A_TIME
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_times() {
        let show = |unit: &str, scale, count| {
            NumpyUnit::parse(unit, scale)
                .unwrap()
                .time(count)
                .map(|time| time.show(Calendar::ProlepticGregorian))
        };
        assert_eq!(show("Y", 1, 50).as_deref(), Some("2020-01-01"));
        assert_eq!(show("M", 1, -1).as_deref(), Some("1969-12-01"));
        assert_eq!(show("D", 7, 1).as_deref(), Some("1970-01-08"));
        assert_eq!(show("ns", 1, 1).as_deref(), Some("1970-01-01T00:00:00.000000001"));
        assert_eq!(show("ps", 1, 1000).as_deref(), Some("1970-01-01T00:00:00.000000001"));
        assert_eq!(show("ps", 1, 1), None);
        assert_eq!(show("ns", 1, i64::MIN), None);
        assert_eq!(show("Y", u32::MAX, i64::MAX), None);
        assert_eq!(show("W", u32::MAX, i64::MAX), None);
        assert_eq!(NumpyUnit::parse("generic", 1), None);
    }
}
