//! How numbers are written for people: the one place for sizes, counts, ratios, shares, durations and rates.

use std::time::Duration;

const SIZE_UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Returns a size in binary units with three digits: `512 B`, `3.96 MiB`, `1,012 GiB`.
pub fn bytes(bytes: u64) -> String {
    size(bytes as f64)
}

/// Returns how many bytes a second went by: `312 MiB/s`; nothing is known of an empty time: `- B/s`.
pub fn bytes_per_second(bytes: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { format!("{}/s", size(bytes as f64 / seconds)) } else { "- B/s".into() }
}

/// Returns a number with its thousands marked: `3,930`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number with the noun that fits it: `1 array`, `3,930 arrays`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Returns how many times larger `larger` is than `smaller`: `3.98 x`; `-` where `smaller` is zero.
pub fn ratio(larger: u64, smaller: u64) -> String {
    if smaller == 0 {
        return "-".into();
    }
    let ratio = larger as f64 / smaller as f64;
    match ratio {
        1_000.0.. => format!("{} x", grouped(ratio)),
        99.95.. => format!("{ratio:.0} x"),
        9.995.. => format!("{ratio:.1} x"),
        0.01.. => format!("{ratio:.2} x"),
        _ if larger == 0 => "0 x".into(),
        _ => "< 0.01 x".into(),
    }
}

/// Returns which share of `whole` `part` is: `42.0 %`; `-` where `whole` is zero.
///
/// Only all of it is `100 %` and only nothing is `0 %`: a single missing chunk in a million shows as `99.9
/// %`.
pub fn percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => "-".into(),
        (0, _) => "0 %".into(),
        _ if part == whole => "100 %".into(),
        _ => {
            let percent = part as f64 / whole as f64 * 100.0;
            let shown = if part < whole { percent.clamp(0.1, 99.9) } else { percent.max(100.1) };
            format!("{shown:.1} %")
        }
    }
}

/// Returns a duration in the one or two units that matter: `350 ms`, `1.2 s`, `3 min 05 s`, `2 h 10 min`.
pub fn duration(time: Duration) -> String {
    let micros = time.as_micros();
    let seconds = time.as_secs_f64();
    if micros < 1_000 {
        return format!("{micros} us");
    }
    if seconds < 0.9995 {
        return format!("{:.0} ms", seconds * 1e3);
    }
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    let whole = time.as_millis().saturating_add(500) / 1_000;
    let (days, hours, minutes) = (whole / 86_400, whole / 3_600, whole / 60);
    if days > 0 {
        format!("{days} d {:02} h", hours % 24)
    } else if hours > 0 {
        format!("{hours} h {:02} min", minutes % 60)
    } else {
        format!("{minutes} min {:02} s", whole % 60)
    }
}

/// Returns how long ago something was, in seconds: `just now`, `3 min 05 s ago`.
pub fn ago(seconds: u64) -> String {
    match seconds {
        0 => "just now".to_owned(),
        seconds => format!("{} ago", duration(Duration::from_secs(seconds))),
    }
}

/// Returns a shape or a chunk shape: `8760 x 721 x 1440`; `scalar` without dimensions.
pub fn shape(lengths: &[u64]) -> String {
    if lengths.is_empty() {
        return "scalar".into();
    }
    let lengths: Vec<String> = lengths.iter().map(u64::to_string).collect();
    lengths.join(" x ")
}

/// Returns a size in the largest unit that leaves at least one whole digit.
fn size(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes, 0);
    // 1,023.5 and more would round to 1,024 of the smaller unit.
    while value >= 1023.5 && unit + 1 < SIZE_UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let number = match value {
        _ if unit == 0 => format!("{value:.0}"),
        999.5.. => grouped(value),
        99.95.. => format!("{value:.0}"),
        9.995.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    format!("{number} {}", SIZE_UNITS[unit])
}

/// Returns a large number, rounded, with its thousands marked.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "callers pass 999.5 and more; it saturates"
)]
fn grouped(value: f64) -> String {
    count(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_three_digits() {
        let cases = [
            (0, "0 B"),
            (512, "512 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (4_152_360, "3.96 MiB"),
            (10_484_000, "10.0 MiB"),
            (396 << 20, "396 MiB"),
            (1012 << 30, "1,012 GiB"),
            ((1 << 40) - 1, "1.00 TiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (input, expected) in cases {
            assert_eq!(bytes(input), expected, "{input}");
        }
    }

    #[test]
    fn counts_mark_thousands() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(3_930), "3,930");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(counted(1, "array", "arrays"), "1 array");
        assert_eq!(counted(0, "array", "arrays"), "0 arrays");
    }

    #[test]
    fn ratios_have_three_digits() {
        assert_eq!(ratio(398, 100), "3.98 x");
        assert_eq!(ratio(1234, 100), "12.3 x");
        assert_eq!(ratio(123_456, 1), "123,456 x");
        assert_eq!(ratio(1, 1000), "< 0.01 x");
        assert_eq!(ratio(0, 1000), "0 x");
        assert_eq!(ratio(1, 0), "-");
    }

    #[test]
    fn only_all_is_a_hundred_percent_and_only_nothing_is_none() {
        assert_eq!(percent(42, 100), "42.0 %");
        assert_eq!(percent(999_999, 1_000_000), "99.9 %");
        assert_eq!(percent(1, 1_000_000), "0.1 %");
        assert_eq!(percent(7, 7), "100 %");
        assert_eq!(percent(0, 7), "0 %");
        assert_eq!(percent(7, 0), "-");
        assert_eq!(percent(8, 7), "114.3 %");
    }

    #[test]
    fn durations_use_the_units_that_matter() {
        let cases = [
            (0, "0 us"),
            (350, "350 ms"),
            (999, "999 ms"),
            (1_240, "1.2 s"),
            (59_949, "59.9 s"),
            (59_960, "1 min 00 s"),
            (185_000, "3 min 05 s"),
            (7_800_000, "2 h 10 min"),
            (3_599_900, "1 h 00 min"),
            (100_800_000, "1 d 04 h"),
        ];
        for (milliseconds, expected) in cases {
            assert_eq!(duration(Duration::from_millis(milliseconds)), expected, "{milliseconds}");
        }
    }

    #[test]
    fn rates_are_sizes_a_second() {
        assert_eq!(bytes_per_second(624 << 20, Duration::from_secs(2)), "312 MiB/s");
        assert_eq!(bytes_per_second(1, Duration::ZERO), "- B/s");
    }

    #[test]
    fn shapes_name_scalars() {
        assert_eq!(shape(&[8760, 721, 1440]), "8760 x 721 x 1440");
        assert_eq!(shape(&[]), "scalar");
    }

    proptest! {
        #[test]
        fn shares_below_all_never_read_as_all(part in 0_u64.., whole in 1_u64..) {
            let shown = percent(part, whole);
            prop_assert_eq!(shown == "100 %", part == whole);
            prop_assert_eq!(shown == "0 %", part == 0);
        }
    }
}
