//! `out-of-range`: values lie outside the range that the metadata or the policy declares.

use zkit_core::engine::ArrayValues;
use zkit_core::grid::ChunkSet;
use zkit_core::metadata::Json;
use zkit_report::{Confidence, Severity};

use super::shared::number_of;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::packing::{Packing, is_float, stored_range};
use crate::rule::{Check, Rule};
use crate::values::{looked_at, number, seen, with_units};

pub(crate) const RULE: Rule = Rule {
    id: "out-of-range",
    severity: Severity::Warning,
    confidence: Confidence::Medium,
    depth: Depth::Sample,
    summary: "values lie outside the range that the metadata or the policy declares",
    explanation: "\
The least or the largest value lies outside of `valid_min`, `valid_max`, `valid_range` or `actual_range`, or outside of
valid-range in zkit.toml. Readers that follow the conventions take such values for missing; the others compute with them.

On disk: as any other value. NaN, infinities and declared missing values are not looked at here.

Legitimate: the range of packed integers is that of stored numbers where it is given in whole numbers, and that of unpacked
ones otherwise; many writers mean the other. What is outside of what the range says is reported, unless it is inside of what
it says read the other way, and fits that better: by the part that the values and the range have in common. `actual_range` is often that of a larger dataset, or was left behind
by a change: beyond it is a note. Where flags are kept outside of the valid range on purpose, that is meant so.

What to do: look at the chunks that are named. If the attribute is wrong, correct it; zkit.toml can say what holds:
[[audit.variable]] with valid-range = [180.0, 340.0] (unpacked).",
    check: Check::Store(check),
};

/// A declared range: either end may be open.
struct Declared {
    name: &'static str,
    low: f64,
    high: f64,
    /// Whether its numbers are written as fractions: 0.0, not 0.
    fractions: bool,
    severity: Severity,
}

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for (array, values) in seen(store) {
        // absent chunks are judged for what is missing
        let Some(stored) = stored_range(array).filter(|_| values.stored.elements > 0) else { continue };
        let packing = Packing::of(array).filter(|packing| !packing.is_identity());
        if let Some([low, high]) = store.variable(array.path()).valid_range {
            let declared = Declared {
                name: "valid-range of the policy",
                low,
                high,
                fractions: true,
                severity: Severity::Error,
            };
            let unpack = packing.unwrap_or(Packing { scale: 1.0, offset: 0.0 });
            if is_outside(unpack.unpack_range(stored), &declared) {
                let outside = |range| is_outside(unpack.unpack_range(range), &declared);
                report((array, values), &declared, (stored, packing), outside, finder);
            }
            continue;
        }
        for declared in declared_ranges(array) {
            let unpacks = packing.is_some_and(|packing| is_of_unpacked(array, packing, stored, &declared));
            let outside = |range| match packing.filter(|_| unpacks) {
                Some(packing) => is_outside(packing.unpack_range(range), &declared),
                None => is_outside(range, &declared),
            };
            if outside(stored) && !is_stand_in(values, stored, &declared) {
                report((array, values), &declared, (stored, packing), outside, finder);
                break;
            }
        }
    }
}

/// Returns whether a declared range is that of unpacked values: as its numbers say, unless values are outside then, and are
/// inside and fit better the other way. Source: NetCDF users' guide, appendix A, `valid_range`: it is of packed values if it has
/// their type, and of unpacked ones if it has that of `scale_factor`.
fn is_of_unpacked(
    array: &ArrayObservation<'_>,
    packing: Packing,
    stored: (f64, f64),
    declared: &Declared,
) -> bool {
    let unpacked = packing.unpack_range(stored);
    let said = declared.fractions && !is_float(array);
    let (range, other) = if said { (unpacked, stored) } else { (stored, unpacked) };
    let other_way = is_outside(range, declared)
        && !is_outside(other, declared)
        && in_common(other, declared) > in_common(range, declared);
    said != other_way
}

/// Returns how much of what values and a declared range cover together both cover; open ends are those of the values.
fn in_common((min, max): (f64, f64), declared: &Declared) -> f64 {
    let low = if declared.low.is_finite() { declared.low } else { min };
    let high = if declared.high.is_finite() { declared.high } else { max };
    let together = high.max(max) - low.min(min);
    if together > 0.0 { (high.min(max) - low.max(min)).max(0.0) / together } else { 1.0 }
}

/// Returns the ranges that attributes declare, the most telling first.
fn declared_ranges(array: &ArrayObservation<'_>) -> Vec<Declared> {
    let attributes = &array.node.metadata.attributes;
    // what such numbers mean, their data type does not say
    if attributes.get("_Unsigned").is_some() {
        return Vec::new();
    }
    let pair = |name: &str| {
        let listed = attributes.get(name).and_then(Json::as_array)?;
        let [low, high] = listed else { return None };
        Some((number_of(low)?, number_of(high)?))
    };
    let one = |name: &str| attributes.get(name).and_then(number_of);
    let fractions = |name: &str| {
        let json = attributes.get(name);
        let listed = json.and_then(Json::as_array).unwrap_or(json.map_or(&[], std::slice::from_ref));
        listed.iter().any(|json| json.as_integer::<i128>().is_none())
    };
    let mut ranges = Vec::new();
    if let Some((low, high)) = pair("valid_range") {
        let fractions = fractions("valid_range");
        ranges.push(Declared { name: "valid_range", low, high, fractions, severity: Severity::Warning });
    }
    let (low, high) = (one("valid_min"), one("valid_max"));
    if low.is_some() || high.is_some() {
        let (low, high) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
        let (fractions, severity) = (fractions("valid_min") || fractions("valid_max"), Severity::Warning);
        ranges.push(Declared { name: "valid_min and valid_max", low, high, fractions, severity });
    }
    if let Some((low, high)) = pair("actual_range") {
        // that of unpacked values: CF conventions, section 2.5.1
        ranges.push(Declared { name: "actual_range", low, high, fractions: true, severity: Severity::Info });
    }
    // a range without numbers in it declares nothing
    ranges.retain(|declared| declared.low < declared.high);
    ranges
}

/// Returns whether some of what lies in `range` is outside, by more than what attributes of fewer digits round away.
fn is_outside((min, max): (f64, f64), declared: &Declared) -> bool {
    let slack = |limit: f64| {
        let span =
            if (declared.high - declared.low).is_finite() { declared.high - declared.low } else { 0.0 };
        1e-6 * limit.abs().max(span)
    };
    min < declared.low - slack(declared.low) || max > declared.high + slack(declared.high)
}

/// Returns whether what lies outside is a value that stands for missing ones, which another rule reports.
fn is_stand_in(values: &ArrayValues, (min, max): (f64, f64), declared: &Declared) -> bool {
    values.stand_in.is_some_and(|stand_in| {
        let others = (
            stand_in.others.min.map_or(declared.low, |value| value.to_f64()),
            stand_in.others.max.map_or(declared.high, |value| value.to_f64()),
        );
        (stand_in.value == min || stand_in.value == max) && !is_outside(others, declared)
    })
}

fn report(
    (array, values): (&ArrayObservation<'_>, &ArrayValues),
    declared: &Declared,
    (stored, packing): ((f64, f64), Option<Packing>),
    outside: impl Fn((f64, f64)) -> bool,
    finder: &mut Finder<'_>,
) {
    let (min, max) = packing.map_or(stored, |packing| packing.unpack_range(stored));
    let unpacked = match packing {
        Some(_) => format!(" (stored {} to {})", number(stored.0), number(stored.1)),
        None => String::new(),
    };
    let message = format!(
        "values from {} to {}{unpacked} in {}, {} says {} to {}",
        number(min),
        number(max),
        looked_at(values),
        declared.name,
        number(declared.low),
        number(declared.high)
    );
    let mut units = ChunkSet::default();
    for unit in values.units.iter().flatten().filter(|unit| unit.valid > 0 && outside((unit.min, unit.max))) {
        units.insert(unit.position);
    }
    let draft = finder.array(array.path(), message).severity(declared.severity);
    let draft = draft.evidence("declared_by", declared.name);
    let draft = draft.evidence("min", min).evidence("max", max);
    let draft = if declared.severity == Severity::Error { draft.confidence(Confidence::High) } else { draft };
    if !units.is_empty() {
        with_units(draft, values, &units).remedy("look at these chunks, or correct the range");
    }
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array};

    fn found(attributes: &str, values: [f32; 2], policy: &str) -> Vec<(Severity, String)> {
        let store = TestStore::new()
            .array("a", &v2_array(&[2], &[2]))
            .file("a/.zattrs", attributes.as_bytes())
            .file("a/0", &values.map(f32::to_le_bytes).concat());
        let found = store.with_policy(policy).findings("out-of-range");
        found.into_iter().map(|finding| (finding.severity, finding.message)).collect()
    }

    #[test]
    fn declared_ranges_hold_packed_or_unpacked() {
        assert!(found(r#"{"valid_range": [0, 100]}"#, [0.0, 100.0], "").is_empty());
        let outside = found(r#"{"valid_range": [0, 100]}"#, [-1.0, 50.0], "");
        assert_eq!(outside[0].1, "values from -1 to 50 in its chunk, valid_range says 0 to 100");
        assert_eq!(outside[0].0, Severity::Warning);
        // stored numbers are inside, unpacked ones are not; and the other way round
        assert!(found(r#"{"valid_max": 100, "scale_factor": 10}"#, [0.0, 90.0], "").is_empty());
        assert!(found(r#"{"valid_max": 1.0, "scale_factor": 0.01}"#, [0.0, 90.0], "").is_empty());
        assert_eq!(found(r#"{"valid_max": 0.5, "scale_factor": 0.01}"#, [0.0, 90.0], "").len(), 1);
        assert_eq!(found(r#"{"actual_range": [0, 1]}"#, [0.0, 2.0], "")[0].0, Severity::Info);
        assert!(found(r#"{"actual_range": [0, 0]}"#, [0.0, 2.0], "").is_empty());
    }

    #[test]
    fn ranges_of_packed_integers_are_of_what_their_numbers_are() {
        let outside = |attributes: &str, values: [i16; 2]| {
            let store = TestStore::new()
                .array("a", &v2_array(&[2], &[2]).replace("<f4", "<i2"))
                .file(
                    "a/.zattrs",
                    attributes.replace('}', r#","scale_factor":0.01,"add_offset":273.15}"#).as_bytes(),
                )
                .file("a/0", &values.map(i16::to_le_bytes).concat());
            let found = store.findings("out-of-range");
            found.into_iter().map(|finding| finding.message).collect::<Vec<_>>()
        };
        let stored = outside(r#"{"valid_range":[-5000,5000]}"#, [-3000, 31000]);
        assert_eq!(
            stored,
            [
                "values from 243.15 to 583.15 (stored -3000 to 31000) in its chunk, valid_range says -5000 to 5000"
            ]
        );
        assert_eq!(outside(r#"{"valid_min":180.0,"valid_max":330.0}"#, [-3000, 31000]).len(), 1);
        assert_eq!(outside(r#"{"valid_range":[180.0,330.0]}"#, [-3000, 3000]), [""; 0]);
        // meant of what they unpack to, and of what is stored, against what their numbers say
        assert_eq!(outside(r#"{"valid_range":[180,330]}"#, [-3000, 3000]), [""; 0]);
        assert_eq!(outside(r#"{"valid_range":[-5000.0,5000.0]}"#, [-3000, 3000]), [""; 0]);
        assert_eq!(outside(r#"{"valid_range":[180,330]}"#, [-3000, 31000]).len(), 1);
    }

    #[test]
    fn the_policy_speaks_of_unpacked_values() {
        let policy = "[[variable]]\nmatch = \"a\"\nvalid-range = [0.0, 1.0]";
        assert!(found(r#"{"scale_factor": 0.01}"#, [0.0, 90.0], policy).is_empty());
        assert_eq!(found("{}", [0.0, 90.0], policy)[0].0, Severity::Error);
    }
}
