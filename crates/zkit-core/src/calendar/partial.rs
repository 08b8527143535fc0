//! Dates that name a part of time: `2020-01` is the month, as pandas has it.

use super::date::{DateTime, Resolution, Time};
use super::reckoning::Calendar;

/// A date as it was written, with how fine it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialDate {
    /// The first instant, its year as it was written.
    first: DateTime,
    resolution: Resolution,
    /// Minutes that the clock is ahead of UTC.
    offset_minutes: i32,
}

impl PartialDate {
    /// Parses `2020`, `2020-01`, `2020-01-02`, `2020-01-02T06`, `... 06:30:15.25`, also without separators
    /// (`20200102T0630`), and with `Z` or an offset behind a clock; `None` for other texts.
    ///
    /// ```
    /// use zkit_core::calendar::{Calendar, PartialDate};
    ///
    /// let (first, last) = PartialDate::parse("2020-02").unwrap().range(Calendar::Standard).unwrap();
    /// assert_eq!(first.show(Calendar::Standard), "2020-02-01");
    /// assert_eq!(last.show(Calendar::Standard), "2020-02-29T23:59:59.999999999");
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut scanner = Scanner { text: text.as_bytes(), at: 0 };
        let mut date = match compact(text) {
            Some((date, rest)) => {
                scanner.at = rest;
                date
            }
            None => {
                let negative = scanner.sign();
                let year = scanner.digits(4, 12)?;
                let year = if negative { -year } else { year };
                let mut date = Self {
                    first: DateTime::midnight(year, 1, 1),
                    resolution: Resolution::Year,
                    offset_minutes: 0,
                };
                if scanner.take(b'-') {
                    date.first.month = part(scanner.digits(1, 2)?);
                    date.resolution = Resolution::Month;
                    if scanner.take(b'-') {
                        date.first.day = part(scanner.digits(1, 2)?);
                        date.resolution = Resolution::Day;
                    }
                }
                date
            }
        };
        if !scanner.done() {
            if date.resolution != Resolution::Day
                || !(scanner.take(b'T') || scanner.take(b't') || scanner.take(b' '))
            {
                return None;
            }
            scanner.clock(&mut date)?;
            date.offset_minutes = scanner.offset()?;
        }
        scanner.done().then_some(date)
    }

    /// Parses the reference of CF units, which is more lenient: `1-1-1`, `2000-01-01 00:00:0.0 UTC`, an offset behind
    /// a space. A date without its day, or what is no date, is `None`.
    pub(super) fn parse_reference(text: &str) -> Option<Self> {
        let mut scanner = Scanner { text: text.trim().as_bytes(), at: 0 };
        let negative = scanner.sign();
        let year = scanner.digits(1, 12)?;
        let mut date = Self {
            first: DateTime::midnight(if negative { -year } else { year }, 1, 1),
            resolution: Resolution::Day,
            offset_minutes: 0,
        };
        // a year alone, or a month: pandas takes the first day
        if scanner.take(b'-') {
            date.first.month = part(scanner.digits(1, 2)?);
            if scanner.take(b'-') {
                date.first.day = part(scanner.digits(1, 2)?);
            }
        }
        let clock = scanner.at;
        let separated = scanner.take(b'T') || scanner.take(b't') || { scanner.spaces() > 0 };
        if separated && scanner.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            scanner.clock(&mut date)?;
        } else {
            scanner.at = clock;
        }
        scanner.spaces();
        date.offset_minutes = scanner.offset()?;
        scanner.done().then_some(date)
    }

    /// Returns how fine the date is.
    pub fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// Returns the first instant that the date names, or `None` if the calendar has no such day.
    pub fn start(&self, calendar: Calendar) -> Option<Time> {
        let mut first = self.first;
        if !calendar.has_year_zero() {
            match first.year {
                0 => return None,
                year if year < 0 => first.year += 1,
                _ => {}
            }
        }
        Time::of(first, calendar)?.plus(-i128::from(self.offset_minutes) * 60_000_000_000)
    }

    /// Returns the first and the last nanosecond that the date names, or `None` if the calendar has no such day.
    pub fn range(&self, calendar: Calendar) -> Option<(Time, Time)> {
        let start = self.start(calendar)?;
        let date = start.date(calendar);
        let next = match self.resolution {
            Resolution::Year => Time::of(DateTime::midnight(date.year + 1, 1, 1), calendar)?,
            Resolution::Month if date.month == 12 => {
                Time::of(DateTime::midnight(date.year + 1, 1, 1), calendar)?
            }
            Resolution::Month => Time::of(DateTime::midnight(date.year, date.month + 1, 1), calendar)?,
            finer => start.plus(finer.nanoseconds()?)?,
        };
        Some((start, next.plus(-1)?))
    }
}

/// Parses the front of a date without separators: six digits are a month, eight a day.
fn compact(text: &str) -> Option<(PartialDate, usize)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let ends = text.as_bytes().get(digits);
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (day, resolution) = match (digits, ends) {
        (6, None) => (1, Resolution::Month),
        (8, None | Some(b'T' | b't' | b' ')) => (part(number(6..8)?), Resolution::Day),
        _ => return None,
    };
    let first = DateTime::midnight(number(0..4)?, part(number(4..6)?), day);
    Some((PartialDate { first, resolution, offset_minutes: 0 }, digits))
}

/// Returns a number of two digits; one that does not fit is no month, day or hour either.
fn part(number: i64) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn done(&self) -> bool {
        self.at == self.text.len()
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn spaces(&mut self) -> usize {
        let start = self.at;
        while self.take(b' ') || self.take(b'\t') {}
        self.at - start
    }

    /// Takes a sign; returns whether it was a minus.
    fn sign(&mut self) -> bool {
        if self.take(b'-') {
            return true;
        }
        self.take(b'+');
        false
    }

    /// Takes at least and at most so many digits.
    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let rest = &self.text[self.at..];
        let count = rest.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        if count < least {
            return None;
        }
        self.at += count;
        Some(rest[..count].iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    /// Takes `06`, `06:30`, `06:30:15`, `06:30:15.25`, or the same without colons.
    fn clock(&mut self, date: &mut PartialDate) -> Option<()> {
        date.first.hour = part(self.digits(1, 2)?);
        date.resolution = Resolution::Hour;
        let colons = self.take(b':');
        let more = |scanner: &Self| scanner.peek().is_some_and(|byte| byte.is_ascii_digit());
        if !colons && !more(self) {
            return Some(());
        }
        date.first.minute = part(self.digits(if colons { 1 } else { 2 }, 2)?);
        date.resolution = Resolution::Minute;
        if colons && !self.take(b':') || !colons && !more(self) {
            return Some(());
        }
        date.first.second = part(self.digits(if colons { 1 } else { 2 }, 2)?);
        date.resolution = Resolution::Second;
        if self.take(b'.') {
            self.fraction(date)?;
        }
        Some(())
    }

    fn fraction(&mut self, date: &mut PartialDate) -> Option<()> {
        let start = self.at;
        let number = self.digits(1, 9)?;
        let count = u32::try_from(self.at - start).ok()?;
        // what is finer than nanoseconds is cut off
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        date.first.nanosecond = u32::try_from(number * 10i64.pow(9 - count)).ok()?;
        date.resolution = match count {
            0..=3 => Resolution::Millisecond,
            4..=6 => Resolution::Microsecond,
            _ => Resolution::Nanosecond,
        };
        Some(())
    }

    /// Takes `Z`, `UTC`, `+01:00`, `-0530`, `+01` or nothing: minutes east of Greenwich.
    fn offset(&mut self) -> Option<i32> {
        for name in [b"UTC".as_slice(), b"GMT", b"Z", b"z"] {
            if self.text[self.at..].starts_with(name) {
                self.at += name.len();
                return Some(0);
            }
        }
        let east = match self.peek() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Some(0),
        };
        self.at += 1;
        let hours = self.digits(1, 2)?;
        self.take(b':');
        let minutes = if self.done() { 0 } else { self.digits(2, 2)? };
        i32::try_from(hours * 60 + minutes).ok().map(|minutes| east * minutes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_partial_date_is_all_that_it_names() {
        for (text, first, last) in [
            ("2020", "2020-01-01", "2020-12-31T23:59:59.999999999"),
            ("2020-01", "2020-01-01", "2020-01-31T23:59:59.999999999"),
            ("2020-12", "2020-12-01", "2020-12-31T23:59:59.999999999"),
            ("202002", "2020-02-01", "2020-02-29T23:59:59.999999999"),
            ("20200102", "2020-01-02", "2020-01-02T23:59:59.999999999"),
            ("2020-01-02T06", "2020-01-02T06:00", "2020-01-02T06:59:59.999999999"),
            ("2020-01-02 06:30", "2020-01-02T06:30", "2020-01-02T06:30:59.999999999"),
            ("20200102T0630", "2020-01-02T06:30", "2020-01-02T06:30:59.999999999"),
            ("2020-01-02T06:30:15Z", "2020-01-02T06:30:15", "2020-01-02T06:30:15.999999999"),
            ("2020-01-02T06:30:15.25", "2020-01-02T06:30:15.25", "2020-01-02T06:30:15.250999999"),
            ("2020-01-02T06:30:00+01:00", "2020-01-02T05:30", "2020-01-02T05:30:00.999999999"),
            ("-0044-03-15", "-0044-03-15", "-0044-03-15T23:59:59.999999999"),
        ] {
            let (start, end) = PartialDate::parse(text).unwrap().range(Calendar::Standard).unwrap();
            assert_eq!(
                (start.show(Calendar::Standard), end.show(Calendar::Standard)),
                (first.into(), last.into()),
                "{text}"
            );
        }
    }

    #[test]
    fn other_texts_are_no_dates() {
        for text in [
            "",
            "20",
            "2020-",
            "2020-01-",
            "2020T06",
            "2020-01T06",
            "51.5",
            "12345678901234567890",
            "2020-01-02T",
            "2020-01-02X",
            "2020-01-02T06:30:15.",
            "a2020",
            "2020-01-02T06:30+",
        ] {
            assert_eq!(PartialDate::parse(text), None, "{text}");
        }
        for text in ["2020-13", "2020-02-30", "2020-01-02T24", "2020-01-02T06:60", "0000-01-01"] {
            assert!(PartialDate::parse(text).unwrap().range(Calendar::Standard).is_none(), "{text}");
        }
        assert!(PartialDate::parse("2020-02-30").unwrap().range(Calendar::Day360).is_some());
    }

    proptest! {
        #[test]
        fn shown_times_parse_back(nanoseconds in -(1i128 << 66)..(1i128 << 66)) {
            for calendar in [Calendar::Standard, Calendar::Day360] {
                let time = Time::from_nanoseconds(nanoseconds).unwrap();
                let parsed = PartialDate::parse(&time.show(calendar)).unwrap();
                prop_assert_eq!(parsed.start(calendar), Some(time));
            }
        }

        #[test]
        fn no_text_panics(text in "[-+0-9TZ:. ]{0,30}") {
            for date in [PartialDate::parse(&text), PartialDate::parse_reference(&text)].into_iter().flatten() {
                let _ = date.range(Calendar::Standard);
            }
        }
    }
}
