//! `suspect-values`: values that cannot well be what they are said to be.

use zkit_core::engine::ArrayValues;
use zkit_core::grid::ChunkSet;
use zkit_core::metadata::Json;
use zkit_report::{Confidence, Severity, format};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::packing::{Packing, is_float, plausible_range, stored_range};
use crate::rows;
use crate::rule::{Check, Rule};
use crate::values::{number, seen_data, with_units};

/// Least and largest values of chunks that are compared with what packed integers unpack to.
const EXTREMES_MOST: usize = 4_096;
/// How likely other floats may be taken for unpacked integers.
const CHANCE: f64 = 1e-5;
/// Factors below this are those of packing, not of units, where the offset lies among the values.
const FINE: f64 = 0.1;
/// The least temperatures on Earth by far, in kelvin and in degrees Celsius.
const KELVIN_LEAST: f64 = 80.0;
const CELSIUS_LEAST: f64 = -150.0;
pub(crate) const RULE: Rule = Rule {
    id: "suspect-values",
    severity: Severity::Info,
    confidence: Confidence::Low,
    depth: Depth::Sample,
    summary: "values cannot well be what they are said to be",
    explanation: "\
Numbers that decode, and make no sense:

- scaled twice (warning): floats with a `scale_factor` or `add_offset` beside them that readers apply again, so that a
  temperature becomes 2.7 K. Conversions that unpack the data and keep the attributes do this. It is told by the unit,
  where the floats lie in its range and what they unpack to does not; by numbers that are just what packed integers unpack
  to, fractions among them; and by an `add_offset` in the midst of the floats themselves.
- two versions (error, low confidence): at one border of chunks along the first dimension, the least, the largest and the
  mean value all make a step the same way that is several times larger than any other. An array that was overwritten, and
  whose writer died on the way, looks like this; nothing is missing.
- exchanged chunks (note): the means of chunks along time make a steady trend, but for two of them that continue it if they
  change places, while their own times are in order: what was written side by side came to the wrong places.
- another unit: all floats lie outside of where their unit says, such as temperatures of -20 to 35 K, or are fractions where the
  unit is percent and the quantity reaches a hundred (notes); most chunks lie inside and some outside altogether, or temperatures
  in kelvin are below zero like those in degrees Celsius (warnings): a part was written in another unit.
- byte order (note): the extremes of floats are astronomical, and ordinary with their bytes turned round.

On disk: as any other value.

Legitimate: series that really have one break (a new instrument), units that are used loosely; a factor that is a power of
ten may turn one unit into another (a note).

What to do: compare with the source at the chunks that are named.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for (array, values) in seen_data(store) {
        report_scaled_twice((array, values), finder);
        report_byte_order(array, finder);
        report_other_unit(array, finder);
        report_part_in_other_unit((array, values), finder);
        report_fractions_as_percent(array, finder);
        rows::report(store, (array, values), finder);
    }
}

fn report_scaled_twice((array, values): (&ArrayObservation<'_>, &ArrayValues), finder: &mut Finder<'_>) {
    let packing = Packing::of(array).filter(|packing| !packing.is_identity() && is_float(array));
    let (Some(packing), Some(stored)) = (packing, stored_range(array)) else { return };
    let unpacked = packing.unpack_range(stored);
    let extremes = extremes(values, stored);
    let Some(sign) = sign_of_scaling(array, packing, (stored, unpacked), &extremes) else { return };
    let message = format!(
        "floats from {} to {} {}; readers apply scale_factor {} and add_offset {} and get {} to {}",
        number(stored.0),
        number(stored.1),
        sign.words(array),
        number(packing.scale),
        number(packing.offset),
        number(unpacked.0),
        number(unpacked.1)
    );
    // hundredths, thousands: percent, hectopascals and the like are unpacked that way
    let may_be_unit = sign != Sign::Unit && packing.offset == 0.0 && is_power_of_ten(packing.scale);
    let (severity, confidence) = match may_be_unit {
        true => (Severity::Info, Confidence::Low),
        false => (Severity::Warning, Confidence::Medium),
    };
    finder
        .array(array.path(), message)
        .severity(severity)
        .confidence(confidence)
        .evidence("kind", "scaled-twice")
        .evidence("stored_min", stored.0)
        .evidence("stored_max", stored.1)
        .evidence("unpacked_min", unpacked.0)
        .evidence("unpacked_max", unpacked.1)
        .remedy(
            "remove scale_factor and add_offset from the attributes, if the numbers are unpacked already",
        );
}

/// What shows that floats are unpacked already.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sign {
    /// They lie where their unit says, and what they unpack to does not.
    Unit,
    /// They are what packed integers unpack to.
    Steps,
    /// The offset is one of them.
    Offset,
}

impl Sign {
    fn words(self, array: &ArrayObservation<'_>) -> String {
        match self {
            Self::Unit => {
                let units = array.node.metadata.attributes.get("units");
                format!("fit units {}", units.map_or_else(String::new, ToString::to_string))
            }
            Self::Steps => "are what packed integers unpack to".to_owned(),
            Self::Offset => "lie around the offset themselves".to_owned(),
        }
    }
}

fn sign_of_scaling(
    array: &ArrayObservation<'_>,
    packing: Packing,
    (stored, unpacked): ((f64, f64), (f64, f64)),
    extremes: &[f64],
) -> Option<Sign> {
    if let Some((low, high)) = plausible_range(array) {
        let lies_inside = stored.0 >= low && stored.1 <= high;
        let lies_outside = unpacked.1 < low || unpacked.0 > high;
        if lies_inside && lies_outside {
            return Some(Sign::Unit);
        }
    }
    // packed numbers are whole
    if extremes.iter().all(|value| value.fract() == 0.0) {
        return None;
    }
    let single = array.node.metadata.data_type.item_bytes() == Some(4);
    if are_steps(extremes, packing, if single { f64::from(f32::EPSILON) } else { f64::EPSILON }) {
        return Some(Sign::Steps);
    }
    let around = packing.offset != 0.0 && stored.0 < packing.offset && packing.offset < stored.1;
    (around && packing.scale.abs() < FINE).then_some(Sign::Offset)
}

/// Returns the distinct least and largest values of the chunks that were looked at, as far as they are known.
fn extremes(values: &ArrayValues, stored: (f64, f64)) -> Vec<f64> {
    let units = values.units.iter().flatten().filter(|unit| unit.valid > 0);
    let mut extremes: Vec<f64> = units.flat_map(|unit| [unit.min, unit.max]).take(EXTREMES_MOST).collect();
    extremes.extend([stored.0, stored.1]);
    extremes.sort_unstable_by(f64::total_cmp);
    extremes.dedup();
    extremes
}

/// Returns whether all values are `offset + k * scale` for whole numbers k of 32 bits, which other floats are not by
/// chance.
fn are_steps(values: &[f64], packing: Packing, epsilon: f64) -> bool {
    let (scale, mut chance) = (packing.scale.abs(), 1.0);
    for value in values {
        let steps = (value - packing.offset) / packing.scale;
        // both the number and the steps were rounded
        let rounding = 2.0 * epsilon * value.abs().max(packing.offset.abs()) / scale;
        if (steps - steps.round()).abs() > rounding.max(1e-6) || steps.abs() > f64::from(u32::MAX) {
            return false;
        }
        chance *= (2.0 * rounding.max(1e-6)).min(1.0);
    }
    chance < CHANCE
}

fn is_power_of_ten(scale: f64) -> bool {
    let exponent = scale.abs().log10();
    (exponent - exponent.round()).abs() < 1e-9
}

/// Reports numbers none of which lies where their unit says, though what they unpack to would be the first to be judged.
fn report_other_unit(array: &ArrayObservation<'_>, finder: &mut Finder<'_>) {
    let packed = Packing::of(array).is_some_and(|packing| !packing.is_identity());
    let standard = array.node.metadata.attributes.get("standard_name").is_some();
    let ((Some((low, high)), Some((min, max))), false, true) =
        ((plausible_range(array), stored_range(array)), packed, is_float(array) && standard)
    else {
        return;
    };
    if (min == 0.0 && max == 0.0) || !(max < low || min > high) {
        return;
    }
    let units =
        array.node.metadata.attributes.get("units").map_or_else(String::new, |units| units.to_string());
    let message = format!(
        "values from {} to {} do not fit units {units}, in which they would lie from {} to {}",
        number(min),
        number(max),
        number(low),
        number(high)
    );
    finder
        .array(array.path(), message)
        .evidence("kind", "other-unit")
        .remedy("find out which unit the numbers are in, and correct the attribute");
}

/// Reports values of which a part lies where its unit says, and another part where no values of it can.
fn report_part_in_other_unit(
    (array, values): (&ArrayObservation<'_>, &ArrayValues),
    finder: &mut Finder<'_>,
) {
    let packing = Packing::of(array).unwrap_or(Packing { scale: 1.0, offset: 0.0 });
    let (Some((low, high)), Some(stored)) = (plausible_range(array), stored_range(array)) else { return };
    let (min, max) = packing.unpack_range(stored);
    // floats with a factor may be unpacked already, and what stands for missing values has a rule of its own
    let told = (is_float(array) && !packing.is_identity()) || values.stand_in.is_some();
    if told || (min >= low && max <= high) {
        return;
    }
    let varied = values.units.iter().flatten().filter(|unit| unit.valid > 0 && !unit.constant);
    let (mut inside, mut outside) = (0u64, ChunkSet::default());
    for unit in varied {
        let (least, largest) = packing.unpack_range((unit.min, unit.max));
        if least >= low && largest <= high {
            inside += 1;
        } else if largest < low || least > high {
            outside.insert(unit.position);
        }
    }
    let kelvin = low == KELVIN_LEAST;
    let celsius = kelvin && (CELSIUS_LEAST..0.0).contains(&min) && (low..=high).contains(&max);
    if !celsius && (outside.is_empty() || inside < outside.len()) {
        return;
    }
    let units =
        array.node.metadata.attributes.get("units").map_or_else(String::new, |units| units.to_string());
    let where_ = match outside.len() {
        0 => String::new(),
        count => format!("; all values of {}", format::counted(count, "chunk", "chunks")),
    };
    let message = format!(
        "values from {} to {}: a part does not fit units {units}, in which they would lie from {} to {}{where_}",
        number(min),
        number(max),
        number(low),
        number(high)
    );
    let draft = finder
        .array(array.path(), message)
        .severity(Severity::Warning)
        .evidence("kind", "part-in-other-unit");
    let draft = if outside.is_empty() { draft } else { with_units(draft, values, &outside) };
    draft.remedy("find out which unit that part is in, and write it again");
}

/// Reports percentages of quantities that reach a hundred, none of which is above one.
fn report_fractions_as_percent(array: &ArrayObservation<'_>, finder: &mut Finder<'_>) {
    let attributes = &array.node.metadata.attributes;
    let text = |name| attributes.get(name).and_then(Json::as_str).unwrap_or_default().to_lowercase();
    let names = [text("standard_name"), text("long_name"), array.name().to_lowercase()].join(" ");
    let reaches =
        ["humidity", "cloud", "area_fraction", "area fraction"].iter().any(|word| names.contains(word));
    let packing = Packing::of(array).unwrap_or(Packing { scale: 1.0, offset: 0.0 });
    let Some((min, max)) = stored_range(array).map(|stored| packing.unpack_range(stored)) else { return };
    // rounding, and supersaturation
    if !["%", "percent"].contains(&text("units").as_str())
        || !reaches
        || min < 0.0
        || !(0.5..1.5).contains(&max)
    {
        return;
    }
    let message = format!(
        "values from {} to {} do not fit units \"{}\": they look like fractions",
        number(min),
        number(max),
        text("units")
    );
    finder
        .array(array.path(), message)
        .evidence("kind", "other-unit")
        .remedy("find out which unit the numbers are in, and correct the attribute");
}

fn report_byte_order(array: &ArrayObservation<'_>, finder: &mut Finder<'_>) {
    let (Some((min, max)), true) = (stored_range(array), is_float(array)) else { return };
    let turned = |value: f64| match array.node.metadata.data_type.item_bytes() {
        #[expect(clippy::cast_possible_truncation, reason = "it came from a float32")]
        Some(4) => f64::from(f32::from_bits((value as f32).to_bits().swap_bytes())),
        Some(8) => f64::from_bits(value.to_bits().swap_bytes()),
        _ => f64::NAN,
    };
    let astronomical = |value: f64| value.abs() > 1e30;
    let ordinary = |value: f64| (1e-4..1e7).contains(&value.abs());
    if ![min, max].into_iter().all(|value| astronomical(value) && ordinary(turned(value))) {
        return;
    }
    let message = format!(
        "values from {} to {}; with their bytes turned round, these two are {} and {}",
        number(min),
        number(max),
        number(turned(min)),
        number(turned(max))
    );
    finder
        .array(array.path(), message)
        .evidence("kind", "byte-order")
        .remedy("check the byte order that the data type declares");
}

#[cfg(test)]
mod tests {
    use zkit_report::{Finding, Severity};

    use crate::testing::store_of_rows;

    fn found(attributes: &str, rows: &[Vec<f32>]) -> Vec<Finding> {
        store_of_rows(attributes, rows).findings("suspect-values")
    }

    #[test]
    fn floats_with_a_scale_factor_are_scaled_twice_where_their_unit_says_so() {
        let rows = [(0..20).map(|at| 250.0 + at as f32).collect::<Vec<f32>>()];
        let scaled = found(r#"{"units": "degK", "scale_factor": 0.01}"#, &rows);
        assert_eq!((scaled.len(), scaled[0].severity), (1, Severity::Warning));
        assert!(scaled[0].message.ends_with("and get 2.5 to 2.69"), "{}", scaled[0].message);
        for fine in [r#"{"units": "degK"}"#, r#"{"units": "1", "scale_factor": 0.01}"#] {
            assert!(found(fine, &rows).is_empty(), "{fine}");
        }
        let packed = [(0..20).map(|at| 25_000.0 + at as f32).collect::<Vec<f32>>()];
        assert!(found(r#"{"units": "degK", "scale_factor": 0.01}"#, &packed).is_empty());
        let anomaly = r#"{"units": "K", "scale_factor": 0.01, "long_name": "temperature anomaly"}"#;
        assert!(found(anomaly, &rows).is_empty());
        let sea_level = [(0..20).map(|at| 990.5 + at as f32).collect::<Vec<f32>>()];
        let pressure =
            |name: &str| format!(r#"{{"units": "hPa", "scale_factor": 0.1, "standard_name": "{name}"}}"#);
        assert_eq!(
            found(&pressure("air_pressure_at_mean_sea_level"), &sea_level)[0].severity,
            Severity::Warning
        );
        assert!(
            found(&pressure("air_pressure"), &sea_level).iter().all(|found| found.severity == Severity::Info)
        );
    }

    #[test]
    fn unpacked_integers_that_are_unpacked_again_are_told_without_a_unit() {
        let unpacked = |scale: f32, offset: f32| {
            let row = |row: u16| (0..20).map(|at| f32::from(row * 977 + at * 131) * scale + offset).collect();
            (0..4).map(row).collect::<Vec<Vec<f32>>>()
        };
        let packed = r#"{"scale_factor": 0.0137, "add_offset": 254.5}"#;
        let twice = found(packed, &unpacked(0.0137, 254.5));
        assert_eq!((twice.len(), twice[0].severity), (1, Severity::Warning));
        assert!(twice[0].message.contains("are what packed integers unpack to"), "{}", twice[0].message);
        assert_eq!(found(r#"{"scale_factor": 0.01}"#, &unpacked(0.01, 0.0))[0].severity, Severity::Info);
        // whole numbers, and numbers of other steps
        assert!(found(packed, &unpacked(1.0, 3.0)).is_empty());
        assert!(
            found(r#"{"scale_factor": 0.0137, "add_offset": 900.0}"#, &unpacked(0.00311, 0.7)).is_empty()
        );
        let around = found(r#"{"scale_factor": 0.0005, "add_offset": 255.0}"#, &unpacked(0.0137, 254.5));
        assert!(around[0].message.contains("lie around the offset"), "{}", around[0].message);
        // degrees of a circle, moved to another origin
        assert!(found(r#"{"add_offset": 273.15}"#, &unpacked(0.0137, -7.3)).is_empty());
    }

    #[test]
    fn temperatures_that_are_none_in_their_unit_are_noted() {
        let rows = [(0..20).map(|at| at as f32).collect::<Vec<f32>>()];
        let named = r#"{"units": "K", "standard_name": "air_temperature"}"#;
        let noted = found(named, &rows);
        assert_eq!((noted.len(), noted[0].severity), (1, Severity::Info));
        assert!(
            noted[0].message.starts_with(r#"values from 0 to 19 do not fit units "K""#),
            "{}",
            noted[0].message
        );
        assert!(found(r#"{"units": "degC", "standard_name": "air_temperature"}"#, &rows).is_empty());
        assert!(found(r#"{"units": "K"}"#, &rows).is_empty(), "lapse rates and ranges are in K too");
    }

    #[test]
    fn a_part_in_another_unit_is_told() {
        let days = |celsius: std::ops::Range<usize>, attributes: &str| {
            let level = |day: usize| if celsius.contains(&day) { -10.0 } else { 265.0 };
            let row = |day: usize| (0..20).map(|at| level(day) + (day + at) as f32).collect();
            found(attributes, &(0..6).map(row).collect::<Vec<Vec<f32>>>())
        };
        let kelvin = r#"{"units": "K"}"#;
        let part = days(4..6, kelvin);
        assert_eq!((part.len(), part[0].severity), (1, Severity::Warning), "{part:?}");
        assert!(part[0].message.ends_with("; all values of 2 chunks"), "{}", part[0].message);
        assert_eq!(part[0].chunks.as_ref().unwrap()[0].first, [4, 0]);
        assert_eq!(days(6..6, kelvin), []);
        assert_eq!(days(4..6, r#"{"units": "K", "long_name": "temperature difference"}"#), []);
        assert_eq!(days(0..6, kelvin), [], "no part of it fits, so that kelvins may be differences");
        // within one chunk of all days
        let warm_and_cold = [(0..20).map(|at| if at < 10 { -5.0 } else { 280.0 } + at as f32).collect()];
        assert_eq!(found(kelvin, &warm_and_cold).len(), 1);
        let padded = [(0..20).map(|at| if at < 10 { 0.0 } else { 280.0 + at as f32 }).collect()];
        assert_eq!(found(kelvin, &padded), []);
    }

    #[test]
    fn fractions_are_no_percentages_of_what_reaches_a_hundred() {
        let noted = |attributes: &str, largest: f32| {
            found(attributes, &[(0..20).map(|at| at as f32 * largest / 19.0).collect()]).len()
        };
        let humidity = r#"{"units": "%", "standard_name": "relative_humidity"}"#;
        assert_eq!([noted(humidity, 1.0), noted(humidity, 100.0), noted(humidity, 0.2)], [1, 0, 0]);
        assert_eq!(noted(r#"{"units": "1", "standard_name": "relative_humidity"}"#, 1.0), 0);
        assert_eq!(noted(r#"{"units": "%", "long_name": "probability of hail"}"#, 1.0), 0);
    }

    #[test]
    fn astronomical_floats_that_are_ordinary_turned_round_are_noted() {
        let turn = |value: f32| f32::from_bits(value.to_bits().swap_bytes());
        let rows = [[2.5, 0.0, 1.25].map(|value: f32| turn(value)).to_vec()];
        assert!(found("{}", &rows).is_empty(), "subnormal, not astronomical");
        let huge = [[1.0e32f32, 7.0].to_vec()];
        assert!(found("{}", &huge).is_empty());
        let swapped = |value: u32| f32::from_bits(value);
        // 0x7e8142c3 and 0xfe8142c3 turned round are -130.49 and -130.51
        let rows = [[swapped(0x7e81_42c3), swapped(0xfe81_42c3)].to_vec()];
        assert_eq!(found("{}", &rows).len(), 1);
    }
}
