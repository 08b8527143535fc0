//! How days are counted: the calendars of the CF conventions.

use std::fmt;

/// Days from 0000-03-01 to 1970-01-01 in the Gregorian calendar.
const GREGORIAN_EPOCH: i64 = 719_468;
/// Days from 0000-03-01 of the Julian calendar to 1970-01-01 of the Gregorian one.
const JULIAN_EPOCH: i64 = 719_470;
/// The first day that the mixed calendar counts as Gregorian: 1582-10-15, in days since 1970-01-01.
const REFORM_DAY: i64 = -141_427;
/// Years beyond this are refused: days in them still fit 64 bits by far.
pub(super) const MAX_YEAR: i64 = 1_000_000_000_000;

/// A calendar of the CF conventions.
///
/// Days are counted from 1970-01-01 of the calendar itself; the real calendars (`Standard`, `ProlepticGregorian`,
/// `Julian`) share the Gregorian one's, so that equal counts are the same day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Calendar {
    /// Julian until 1582-10-04, Gregorian from 1582-10-15; `standard`, `gregorian`, `tai`.
    Standard,
    /// Gregorian throughout, as ISO 8601 and numpy have it.
    ProlepticGregorian,
    /// Julian throughout.
    Julian,
    /// No leap years; `noleap`, `365_day`.
    NoLeap,
    /// Leap years only; `all_leap`, `366_day`.
    AllLeap,
    /// Twelve months of thirty days.
    Day360,
}

impl Calendar {
    /// Parses a `calendar` attribute, upper or lower case; `None` for one that the conventions do not name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "standard" | "gregorian" | "tai" => Self::Standard,
            "proleptic_gregorian" => Self::ProlepticGregorian,
            "julian" => Self::Julian,
            "noleap" | "365_day" => Self::NoLeap,
            "all_leap" | "366_day" => Self::AllLeap,
            "360_day" => Self::Day360,
            _ => return None,
        })
    }

    /// Returns the conventions' name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::ProlepticGregorian => "proleptic_gregorian",
            Self::Julian => "julian",
            Self::NoLeap => "noleap",
            Self::AllLeap => "all_leap",
            Self::Day360 => "360_day",
        }
    }

    /// Returns whether the calendar has a year 0; where not, the year before 1 is -1.
    pub fn has_year_zero(self) -> bool {
        !matches!(self, Self::Standard | Self::Julian)
    }

    /// Returns how many days a month has; years are astronomical (0 is the year before 1).
    ///
    /// October 1582 of the mixed calendar has 31: its days 5 to 14 do not exist.
    pub fn month_days(self, year: i64, month: u8) -> u8 {
        match (self, month) {
            (Self::Day360, _) => 30,
            (_, 4 | 6 | 9 | 11) => 30,
            (_, 2) if self.is_leap(year) => 29,
            (_, 2) => 28,
            _ => 31,
        }
    }

    fn is_leap(self, year: i64) -> bool {
        let julian = year.rem_euclid(4) == 0;
        let gregorian = julian && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
        match self {
            Self::Standard if year <= 1582 => julian,
            Self::Standard | Self::ProlepticGregorian => gregorian,
            Self::Julian => julian,
            Self::AllLeap => true,
            Self::NoLeap | Self::Day360 => false,
        }
    }

    /// Returns the days from 1970-01-01 to a date, or `None` if there is no such day.
    pub(super) fn day_number(self, year: i64, month: u8, day: u8) -> Option<i64> {
        let exists = (1..=12).contains(&month) && (1..=self.month_days(year, month)).contains(&day);
        if !exists || year.abs() > MAX_YEAR {
            return None;
        }
        let date = (year, month, day);
        Some(match self {
            Self::Standard if date <= (1582, 10, 4) => julian_day(year, month, day),
            Self::Standard if date < (1582, 10, 15) => return None,
            Self::Standard | Self::ProlepticGregorian => gregorian_day(year, month, day),
            Self::Julian => julian_day(year, month, day),
            Self::NoLeap => 365 * (year - 1970) + i64::from(day_of_year(month, day, 28)),
            Self::AllLeap => 366 * (year - 1970) + i64::from(day_of_year(month, day, 29)),
            Self::Day360 => 360 * (year - 1970) + 30 * i64::from(month - 1) + i64::from(day - 1),
        })
    }

    /// Returns year, month and day of a count of days since 1970-01-01.
    pub(super) fn date_of(self, days: i64) -> (i64, u8, u8) {
        match self {
            Self::Standard if days < REFORM_DAY => julian_date(days),
            Self::Standard | Self::ProlepticGregorian => gregorian_date(days),
            Self::Julian => julian_date(days),
            Self::NoLeap => ideal_date(days, 365, 28),
            Self::AllLeap => ideal_date(days, 366, 29),
            Self::Day360 => {
                let (year, day) = (days.div_euclid(360), days.rem_euclid(360));
                (1970 + year, small(day / 30) + 1, small(day % 30) + 1)
            }
        }
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns a part of a date as the small number that it is.
fn small(value: i64) -> u8 {
    u8::try_from(value).unwrap_or(0)
}

/// Returns the year that begins in March, and the days of it before a date.
///
/// Source: H. Hinnant, "chrono-compatible low-level date algorithms".
fn from_march(year: i64, month: u8, day: u8) -> (i64, i64) {
    let year = if month <= 2 { year - 1 } else { year };
    let march_month = i64::from((month + 9) % 12);
    (year, (153 * march_month + 2) / 5 + i64::from(day) - 1)
}

/// Turns a year that begins in March, and a day of it, into a date.
fn to_january(year: i64, day_of_year: i64) -> (i64, u8, u8) {
    let march_month = (5 * day_of_year + 2) / 153;
    let day = small(day_of_year - (153 * march_month + 2) / 5) + 1;
    let month = small(if march_month < 10 { march_month + 3 } else { march_month - 9 });
    (if month <= 2 { year + 1 } else { year }, month, day)
}

fn gregorian_day(year: i64, month: u8, day: u8) -> i64 {
    let (year, day) = from_march(year, month, day);
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day - GREGORIAN_EPOCH
}

fn gregorian_date(days: i64) -> (i64, u8, u8) {
    let days = days + GREGORIAN_EPOCH;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    to_january(era * 400 + year, day - (365 * year + year / 4 - year / 100))
}

fn julian_day(year: i64, month: u8, day: u8) -> i64 {
    let (year, day) = from_march(year, month, day);
    365 * year + year.div_euclid(4) + day - JULIAN_EPOCH
}

fn julian_date(days: i64) -> (i64, u8, u8) {
    let days = days + JULIAN_EPOCH;
    let (era, day) = (days.div_euclid(1_461), days.rem_euclid(1_461));
    let year = (day - day / 1_460) / 365;
    to_january(era * 4 + year, day - 365 * year)
}

/// Returns the days of a year before a date; every February has as many days.
fn day_of_year(month: u8, day: u8, february: u16) -> u16 {
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    lengths.iter().take(usize::from(month - 1)).sum::<u16>() + u16::from(day) - 1
}

fn ideal_date(days: i64, year_days: i64, february: u16) -> (i64, u8, u8) {
    let (year, mut day) = (days.div_euclid(year_days), days.rem_euclid(year_days));
    let lengths = [31, i64::from(february), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for (month, length) in (1u8..).zip(lengths) {
        if day < length {
            return (1970 + year, month, small(day) + 1);
        }
        day -= length;
    }
    (1970 + year, 12, 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Calendar; 6] = [
        Calendar::Standard,
        Calendar::ProlepticGregorian,
        Calendar::Julian,
        Calendar::NoLeap,
        Calendar::AllLeap,
        Calendar::Day360,
    ];

    proptest! {
        #[test]
        fn days_and_dates_are_one_to_one(days in -4_000_000_000_000i64..4_000_000_000_000, small in -1_000_000i64..1_000_000) {
            for calendar in ALL {
                for days in [days, small] {
                    let (year, month, day) = calendar.date_of(days);
                    prop_assert_eq!(calendar.day_number(year, month, day), Some(days), "{} {}", calendar, days);
                    let next = calendar.date_of(days + 1);
                    prop_assert!(next > (year, month, day));
                }
            }
        }
    }

    #[test]
    fn the_reform_skips_ten_days() {
        let standard = Calendar::Standard;
        assert_eq!(standard.date_of(REFORM_DAY), (1582, 10, 15));
        assert_eq!(standard.date_of(REFORM_DAY - 1), (1582, 10, 4));
        assert_eq!(standard.day_number(1582, 10, 10), None);
        assert_eq!(standard.day_number(1582, 10, 4).unwrap() + 1, standard.day_number(1582, 10, 15).unwrap());
        assert_eq!(Calendar::Julian.date_of(0), (1969, 12, 19));
    }

    #[test]
    fn days_that_a_calendar_lacks_are_refused() {
        for (calendar, year, month, day) in [
            (Calendar::NoLeap, 2000, 2, 29),
            (Calendar::Day360, 2000, 1, 31),
            (Calendar::ProlepticGregorian, 1900, 2, 29),
            (Calendar::Standard, 2021, 13, 1),
            (Calendar::Standard, 2021, 0, 1),
            (Calendar::Standard, i64::MAX, 1, 1),
        ] {
            assert_eq!(calendar.day_number(year, month, day), None, "{calendar} {year}-{month}-{day}");
        }
        assert!(Calendar::Julian.day_number(1900, 2, 29).is_some());
        assert!(Calendar::AllLeap.day_number(1901, 2, 29).is_some());
        assert!(Calendar::Day360.day_number(1901, 2, 30).is_some());
    }

    #[test]
    fn names_are_those_of_the_conventions() {
        for calendar in ALL {
            assert_eq!(Calendar::parse(calendar.name()), Some(calendar));
        }
        assert_eq!(Calendar::parse("Gregorian"), Some(Calendar::Standard));
        assert_eq!(Calendar::parse("366_day"), Some(Calendar::AllLeap));
        assert_eq!(Calendar::parse("lunar"), None);
    }
}
