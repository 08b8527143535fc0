//! CF time units: `days since 2000-01-01 00:00:00 +01:00`.

use super::date::{DAY, SECOND, Time};
use super::partial::PartialDate;
use super::reckoning::Calendar;

/// What one step of an encoded time is, and from where they are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeUnits {
    calendar: Calendar,
    /// Nanoseconds of one step.
    step: i128,
    reference: Time,
    rounding: Rounding,
}

/// What floats are rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rounding {
    /// Microseconds, and whole seconds where they are no more than one away: as cftime does it.
    SnappedMicroseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

/// Splits units of the form `UNIT since DATE`; `None` for any other.
pub fn since(units: &str) -> Option<(&str, &str)> {
    let units = units.trim();
    let (unit, rest) = units.split_once(char::is_whitespace)?;
    let (word, date) = rest.trim_start().split_once(char::is_whitespace)?;
    word.eq_ignore_ascii_case("since").then(|| (unit, date.trim()))
}

impl TimeUnits {
    /// Parses the attributes `units` and `calendar`; without a calendar it is the standard one.
    ///
    /// Units are those of cftime and xarray: days down to nanoseconds and their short forms, months for `360_day`,
    /// common years for `noleap`. The error says what was found, and what would have been understood.
    ///
    /// ```
    /// use zkit_core::calendar::TimeUnits;
    ///
    /// let units = TimeUnits::parse("hours since 2000-01-01 00:00 +01:00", Some("noleap")).unwrap();
    /// assert_eq!(units.show(24), Some("2000-01-01T23:00".to_owned()));
    /// assert!(TimeUnits::parse("months since 2000-01-01", None).is_err());
    /// ```
    pub fn parse(units: &str, calendar: Option<&str>) -> Result<Self, String> {
        let Some((unit, date)) = since(units) else {
            return Err(format!("the units `{units}` are not of the form `UNIT since DATE`"));
        };
        let calendar = match calendar {
            None => Calendar::Standard,
            Some(name) => Calendar::parse(name)
                .ok_or_else(|| format!("the calendar `{name}` is not one of the CF conventions"))?,
        };
        let (step, rounding) = step(unit, calendar)?;
        let reference = PartialDate::parse_reference(date)
            .and_then(|date| date.start(calendar))
            .ok_or_else(|| format!("the reference `{date}` is not a date of the calendar {calendar}"))?;
        Ok(Self { calendar, step, reference, rounding })
    }

    /// Returns the calendar.
    pub fn calendar(&self) -> Calendar {
        self.calendar
    }

    /// Returns the time of a whole number of steps; `None` beyond what years can be told for.
    pub fn decode(&self, count: i64) -> Option<Time> {
        self.decode_wide(i128::from(count))
    }

    /// Returns the time of a whole number of steps, however wide.
    pub fn decode_wide(&self, count: i128) -> Option<Time> {
        self.reference.plus(count.checked_mul(self.step)?)
    }

    /// Returns the time of a number of steps, rounded to microseconds (for units below milliseconds, to nanoseconds).
    ///
    /// The product is exact before it is rounded, half to even. As in cftime, a time that would lie one microsecond
    /// beside a whole second is that second if its float lies on the second's side. `None` for NaN, infinities, and times
    /// beyond what years can be told for.
    pub fn decode_float(&self, count: f64) -> Option<Time> {
        let grain = match self.rounding {
            Rounding::Nanoseconds => 1,
            Rounding::Microseconds | Rounding::SnappedMicroseconds => 1_000,
        };
        // steps are whole microseconds wherever times are rounded to them
        let (floor, mut rounded, exact) = product(count, self.step / grain)?;
        if self.rounding == Rounding::SnappedMicroseconds {
            rounded = match rounded.rem_euclid(1_000_000) {
                1 => floor,
                999_999 if exact => rounded,
                999_999 => floor + 1,
                _ => rounded,
            };
        }
        self.reference.plus(rounded.checked_mul(grain)?)
    }

    /// Returns how many whole steps a time is from the reference, or `None` if it is no whole number that fits.
    pub fn encode(&self, time: Time) -> Option<i64> {
        let distance = time.nanoseconds() - self.reference.nanoseconds();
        if distance % self.step != 0 {
            return None;
        }
        i64::try_from(distance / self.step).ok()
    }

    /// Returns how many steps a time is from the reference, as near as a float is.
    pub fn encode_float(&self, time: Time) -> f64 {
        let distance = time.nanoseconds() - self.reference.nanoseconds();
        let (whole, rest) = (distance.div_euclid(self.step), distance.rem_euclid(self.step));
        #[expect(clippy::cast_precision_loss, reason = "as near as a float is")]
        let near = |count: i128| count as f64;
        near(whole) + near(rest) / near(self.step)
    }

    /// Returns the time of a whole number of steps in ISO form.
    pub fn show(&self, count: i64) -> Option<String> {
        self.decode(count).map(|time| time.show(self.calendar))
    }
}

/// Returns the nanoseconds of a unit, and what floats of it are rounded to. Source: cftime's lists; nanoseconds: xarray.
fn step(unit: &str, calendar: Calendar) -> Result<(i128, Rounding), String> {
    let snapped = |step: i128| Ok((step, Rounding::SnappedMicroseconds));
    match unit.to_ascii_lowercase().as_str() {
        "days" | "day" | "d" => snapped(DAY),
        "hours" | "hour" | "hrs" | "hr" | "h" => snapped(3_600 * SECOND),
        "minutes" | "minute" | "mins" | "min" => snapped(60 * SECOND),
        "seconds" | "second" | "secs" | "sec" | "s" => snapped(SECOND),
        "milliseconds" | "millisecond" | "millisecs" | "millisec" | "msecs" | "msec" | "ms" => {
            Ok((1_000_000, Rounding::Microseconds))
        }
        "microseconds" | "microsecond" | "microsecs" | "microsec" => Ok((1_000, Rounding::Nanoseconds)),
        "nanoseconds" | "nanosecond" => Ok((1, Rounding::Nanoseconds)),
        "months" | "month" if calendar == Calendar::Day360 => snapped(30 * DAY),
        "common_years" | "common_year" if calendar == Calendar::NoLeap => snapped(365 * DAY),
        "months" | "month" | "years" | "year" | "common_years" | "common_year" => {
            Err(format!("`{unit}` has no fixed length in the calendar {calendar}"))
        }
        _ => Err(format!(
            "`{unit}` is not a unit of time that cftime or xarray read: they know days, hours, minutes, seconds, \
             milliseconds, microseconds and nanoseconds"
        )),
    }
}

/// Returns `float * factor` rounded down, rounded to the nearest (half to even), and whether it was whole.
///
/// `None` where the float is not finite or the product does not fit.
fn product(float: f64, factor: i128) -> Option<(i128, i128, bool)> {
    if !float.is_finite() {
        return None;
    }
    let bits = float.to_bits();
    let exponent = i32::try_from(bits >> 52 & 0x7ff).ok()?;
    let fraction = i128::from(bits & ((1 << 52) - 1));
    // float = mantissa * 2^power
    let (mantissa, power) =
        if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    let mantissa = if float < 0.0 { -mantissa } else { mantissa };
    let scaled = mantissa.checked_mul(factor)?;
    if power >= 0 {
        let whole =
            scaled.checked_mul(1i128.checked_shl(u32::try_from(power).ok()?).filter(|&by| by > 0)?)?;
        return Some((whole, whole, true));
    }
    let Some(shift) = u32::try_from(-power).ok().filter(|&shift| shift < 127) else {
        // nearer to zero than any grain
        return Some((if scaled < 0 { -1 } else { 0 }, 0, scaled == 0));
    };
    let floor = scaled >> shift;
    let rest = scaled - (floor << shift);
    let half = 1i128 << (shift - 1);
    let up = rest > half || rest == half && floor % 2 != 0;
    Some((floor, floor + i128::from(up), rest == 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn show(units: &str, calendar: &str, count: f64) -> Option<String> {
        let units = TimeUnits::parse(units, Some(calendar)).unwrap();
        units.decode_float(count).map(|time| time.show(units.calendar()))
    }

    #[test]
    fn floats_are_rounded_to_microseconds_and_snapped_to_seconds() {
        assert_eq!(
            show("days since 1900-01-01", "standard", 43829.520833333336).as_deref(),
            Some("2020-01-01T12:30")
        );
        assert_eq!(
            show("hours since 2000-01-01", "standard", 1.0 / 3.0).as_deref(),
            Some("2000-01-01T00:20")
        );
        assert_eq!(show("days since 2000-01-01", "noleap", 59.0).as_deref(), Some("2000-03-01"));
        assert_eq!(show("days since 2000-01-01", "standard", f64::NAN), None);
        assert_eq!(show("days since 2000-01-01", "standard", 9.969_209_968_386_869e36), None);
        assert_eq!(
            show("days since 2000-01-01", "standard", f64::MIN_POSITIVE).as_deref(),
            Some("2000-01-01")
        );
        assert_eq!(show("days since 2000-01-01", "standard", -5e-324).as_deref(), Some("2000-01-01"));
    }

    #[test]
    fn references_have_many_forms() {
        for (units, expected) in [
            ("days since 2000-1-1", "2000-01-01"),
            ("days since 2000-01-01T00:00:00Z", "2000-01-01"),
            ("days  since  2000-01-01 00:00:00 +01:00", "1999-12-31T23:00"),
            ("Seconds Since 2000-01-01 00:00:00.5", "2000-01-01T00:00:00.5"),
            ("days since 1-1-1 0:0:0.0", "0001-01-01"),
            ("hours since 1970-01-01 00:00:00 UTC", "1970-01-01"),
            ("days since -4713-01-01 12:00", "-4713-01-01T12:00"),
            ("days since 2000-01-01 -0530", "2000-01-01T05:30"),
        ] {
            assert_eq!(
                TimeUnits::parse(units, Some("standard")).unwrap().show(0).as_deref(),
                Some(expected),
                "{units}"
            );
        }
    }

    #[test]
    fn what_has_no_fixed_length_is_refused_in_words() {
        for (units, calendar, word) in [
            ("months since 2000-01-01", "standard", "no fixed length"),
            ("common_years since 2000-01-01", "standard", "no fixed length"),
            ("weeks since 2000-01-01", "standard", "not a unit of time"),
            ("days since 2000-02-30", "standard", "not a date"),
            ("days since 2000-02-29", "noleap", "not a date"),
            ("days since 0-1-1", "standard", "not a date"),
            ("days since yesterday", "standard", "not a date"),
            ("days since 2000-01-01", "lunar", "not one of the CF conventions"),
            ("degrees_north", "standard", "not of the form"),
        ] {
            let error = TimeUnits::parse(units, Some(calendar)).unwrap_err();
            assert!(error.contains(word), "{units}: {error}");
        }
        assert!(TimeUnits::parse("months since 2000-01-01", Some("360_day")).is_ok());
        assert!(TimeUnits::parse("common_years since 2000-01-01", Some("365_day")).is_ok());
    }

    proptest! {
        #[test]
        fn products_are_rounded_as_wide_integers_say(count in -1_000_000_000i64..1_000_000_000, sixteenths in 0i64..16, factor in 1i128..86_400_000_000) {
            #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
            let float = count as f64 + sixteenths as f64 / 16.0;
            let exact = (i128::from(count) * 16 + i128::from(sixteenths)) * factor;
            let (floor, rounded, whole) = product(float, factor).unwrap();
            prop_assert_eq!(floor, exact.div_euclid(16));
            prop_assert_eq!(whole, exact.rem_euclid(16) == 0);
            prop_assert!((rounded * 16 - exact).abs() <= 8);
        }

        #[test]
        fn whole_steps_survive_both_ways(count in any::<i64>(), unit in 0usize..4) {
            let name = ["days", "hours", "seconds", "microseconds"][unit];
            let units = TimeUnits::parse(&format!("{name} since 1850-01-01"), Some("standard")).unwrap();
            if let Some(time) = units.decode(count) {
                prop_assert_eq!(units.encode(time), Some(count));
            }
            let small = count >> 24;
            #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
            if let Some(time) = units.decode_float(small as f64) {
                prop_assert_eq!(Some(time), units.decode(small));
                prop_assert_eq!(units.encode_float(time), small as f64);
            }
        }

        #[test]
        fn no_units_and_no_number_panic(units in ".{0,40}", count in any::<f64>(), whole in any::<i64>()) {
            for text in [units.clone(), format!("days since {units}")] {
                if let Ok(units) = TimeUnits::parse(&text, None) {
                    let _ = units.decode_float(count);
                    let _ = units.show(whole);
                }
            }
        }
    }
}
