//! A point in time, as a count of nanoseconds and as date and clock.

use std::fmt;

use super::reckoning::Calendar;

/// Nanoseconds of a second.
pub(super) const SECOND: i128 = 1_000_000_000;
/// Nanoseconds of a day.
pub(super) const DAY: i128 = 86_400 * SECOND;
/// Times further from 1970 than so many days are refused.
const MAX_DAYS: i128 = 300_000_000_000_000;

/// Nanoseconds since 1970-01-01T00:00 of the calendar that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i128);

/// The finest part that a date names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resolution {
    /// `2020`
    Year,
    /// `2020-01`
    Month,
    /// `2020-01-02`
    Day,
    /// `2020-01-02T06`
    Hour,
    /// `2020-01-02T06:30`
    Minute,
    /// `2020-01-02T06:30:15`
    Second,
    /// Up to three digits of a second.
    Millisecond,
    /// Up to six digits of a second.
    Microsecond,
    /// Up to nine digits of a second.
    Nanosecond,
}

impl Resolution {
    /// Returns the nanoseconds of one step, or `None` for months and years, whose lengths differ.
    pub fn nanoseconds(self) -> Option<i128> {
        Some(match self {
            Self::Year | Self::Month => return None,
            Self::Day => DAY,
            Self::Hour => 3_600 * SECOND,
            Self::Minute => 60 * SECOND,
            Self::Second => SECOND,
            Self::Millisecond => 1_000_000,
            Self::Microsecond => 1_000,
            Self::Nanosecond => 1,
        })
    }
}

/// Year, month, day and clock of some calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime {
    /// The year, astronomical: 0 is the year before 1.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999,999.
    pub nanosecond: u32,
}

impl DateTime {
    /// Returns midnight of a date; whether it exists is for [`Time::of`] to say.
    pub fn midnight(year: i64, month: u8, day: u8) -> Self {
        Self { year, month, day, hour: 0, minute: 0, second: 0, nanosecond: 0 }
    }
}

impl Time {
    /// Returns the time of a count of nanoseconds; `None` beyond what years can be told for (eight hundred milliard).
    pub fn from_nanoseconds(nanoseconds: i128) -> Option<Self> {
        (nanoseconds.unsigned_abs() <= (MAX_DAYS * DAY).unsigned_abs()).then_some(Self(nanoseconds))
    }

    /// Returns the nanoseconds since 1970-01-01T00:00.
    pub fn nanoseconds(self) -> i128 {
        self.0
    }

    /// Returns the time of a date, or `None` if the calendar has no such day or the day no such clock.
    ///
    /// ```
    /// use zkit_core::calendar::{Calendar, DateTime, Time};
    ///
    /// let leap_day = DateTime::midnight(2000, 2, 29);
    /// assert!(Time::of(leap_day, Calendar::Standard).is_some());
    /// assert!(Time::of(leap_day, Calendar::NoLeap).is_none());
    /// ```
    pub fn of(date: DateTime, calendar: Calendar) -> Option<Self> {
        let DateTime { year, month, day, hour, minute, second, nanosecond } = date;
        if hour > 23 || minute > 59 || second > 59 || nanosecond > 999_999_999 {
            return None;
        }
        let days = calendar.day_number(year, month, day)?;
        let seconds = (i128::from(hour) * 60 + i128::from(minute)) * 60 + i128::from(second);
        Self::from_nanoseconds(i128::from(days) * DAY + seconds * SECOND + i128::from(nanosecond))
    }

    /// Returns date and clock.
    pub fn date(self, calendar: Calendar) -> DateTime {
        // a time lies within what days and years can hold
        let days = i64::try_from(self.0.div_euclid(DAY)).unwrap_or(0);
        let (year, month, day) = calendar.date_of(days);
        let rest = self.0.rem_euclid(DAY);
        let part = |nanoseconds: i128| u8::try_from(nanoseconds).unwrap_or(0);
        DateTime {
            year,
            month,
            day,
            hour: part(rest / (3_600 * SECOND)),
            minute: part(rest / (60 * SECOND) % 60),
            second: part(rest / SECOND % 60),
            nanosecond: u32::try_from(rest % SECOND).unwrap_or(0),
        }
    }

    /// Returns the time so many nanoseconds later, or earlier; `None` beyond what a time can be.
    pub fn plus(self, nanoseconds: i128) -> Option<Self> {
        self.0.checked_add(nanoseconds).and_then(Self::from_nanoseconds)
    }

    /// Returns the time on a clock that a date shows the whole of: a day at least, down to nanoseconds.
    pub fn resolution(self) -> Resolution {
        let steps = [
            Resolution::Day,
            Resolution::Hour,
            Resolution::Minute,
            Resolution::Second,
            Resolution::Millisecond,
            Resolution::Microsecond,
        ];
        let whole = |step: &Resolution| {
            step.nanoseconds().is_some_and(|nanoseconds| self.0.rem_euclid(nanoseconds) == 0)
        };
        steps.into_iter().find(whole).unwrap_or(Resolution::Nanosecond)
    }

    /// Returns the time in ISO form, as short as it is exact: `2021-03-29`, `2021-03-29T06:00`.
    pub fn show(self, calendar: Calendar) -> String {
        Shown { date: self.date(calendar), calendar }.to_string()
    }
}

struct Shown {
    date: DateTime,
    calendar: Calendar,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DateTime { year, month, day, hour, minute, second, nanosecond } = self.date;
        let year = if year <= 0 && !self.calendar.has_year_zero() { year - 1 } else { year };
        let sign = if year < 0 { "-" } else { "" };
        write!(f, "{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs())?;
        if (hour, minute, second, nanosecond) == (0, 0, 0, 0) {
            return Ok(());
        }
        write!(f, "T{hour:02}:{minute:02}")?;
        if (second, nanosecond) == (0, 0) {
            return Ok(());
        }
        write!(f, ":{second:02}")?;
        if nanosecond == 0 {
            return Ok(());
        }
        let fraction = format!("{nanosecond:09}");
        write!(f, ".{}", fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn times_and_dates_are_one_to_one(nanoseconds in -(1i128 << 90)..(1i128 << 90)) {
            for calendar in [Calendar::Standard, Calendar::NoLeap, Calendar::Day360, Calendar::Julian] {
                let time = Time::from_nanoseconds(nanoseconds).unwrap();
                prop_assert_eq!(Time::of(time.date(calendar), calendar), Some(time));
            }
        }
    }

    #[test]
    fn times_are_shown_as_short_as_they_are_exact() {
        let at = |nanoseconds: i128| Time::from_nanoseconds(nanoseconds).unwrap();
        let standard = Calendar::Standard;
        assert_eq!(at(0).show(standard), "1970-01-01");
        assert_eq!(at(6 * 3600 * SECOND).show(standard), "1970-01-01T06:00");
        assert_eq!(at(SECOND).show(standard), "1970-01-01T00:00:01");
        assert_eq!(at(1_500_000).show(standard), "1970-01-01T00:00:00.0015");
        let before = Time::of(DateTime::midnight(0, 12, 31), standard).unwrap();
        assert_eq!(before.show(standard), "-0001-12-31");
        let zero = Time::of(DateTime::midnight(0, 12, 31), Calendar::NoLeap).unwrap();
        assert_eq!(zero.show(Calendar::NoLeap), "0000-12-31");
    }

    #[test]
    fn counts_beyond_all_years_are_refused() {
        for nanoseconds in [i128::MAX, i128::MIN, (MAX_DAYS + 1) * DAY] {
            assert_eq!(Time::from_nanoseconds(nanoseconds), None);
        }
        let last = Time::from_nanoseconds(MAX_DAYS * DAY).unwrap();
        for calendar in [Calendar::Standard, Calendar::AllLeap, Calendar::Day360] {
            assert_eq!(Time::of(last.date(calendar), calendar), Some(last));
        }
    }

    #[test]
    fn resolution_is_the_finest_part_that_is_not_zero() {
        let of = |nanoseconds: i128| Time::from_nanoseconds(nanoseconds).unwrap().resolution();
        assert_eq!(of(0), Resolution::Day);
        assert_eq!(of(3600 * SECOND), Resolution::Hour);
        assert_eq!(of(SECOND), Resolution::Second);
        assert_eq!(of(1), Resolution::Nanosecond);
    }
}
