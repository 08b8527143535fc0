//! `out-of-range`: values lie outside the range that the metadata or the policy declares.

use zkit_core::engine::ArrayValues;
use zkit_core::grid::ChunkSet;
use zkit_core::metadata::Json;
use zkit_report::{Confidence, Severity};

use super::shared::number_of;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::packing::{Packing, stored_range};
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

Legitimate: CF says that the range of packed data is that of stored numbers, and many writers give that of unpacked
ones: only what is outside in both ways is reported. `actual_range` is often that of a larger dataset, or was left behind
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
    severity: Severity,
}

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for (array, values) in seen(store) {
        // absent chunks are judged for what is missing
        let Some(stored) = stored_range(array).filter(|_| values.stored.elements > 0) else { continue };
        let packing = Packing::of(array).filter(|packing| !packing.is_identity());
        if let Some([low, high]) = store.variable(array.path()).valid_range {
            let declared =
                Declared { name: "valid-range of the policy", low, high, severity: Severity::Error };
            let unpack = packing.unwrap_or(Packing { scale: 1.0, offset: 0.0 });
            if is_outside(unpack.unpack_range(stored), &declared) {
                let outside = |range| is_outside(unpack.unpack_range(range), &declared);
                report((array, values), &declared, (stored, packing), outside, finder);
            }
            continue;
        }
        for declared in declared_ranges(array) {
            let outside = |range| {
                let unpacked =
                    packing.is_none_or(|packing| is_outside(packing.unpack_range(range), &declared));
                unpacked && is_outside(range, &declared)
            };
            if outside(stored) && !is_stand_in(values, stored, &declared) {
                report((array, values), &declared, (stored, packing), outside, finder);
                break;
            }
        }
    }
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
    let mut ranges = Vec::new();
    if let Some((low, high)) = pair("valid_range") {
        ranges.push(Declared { name: "valid_range", low, high, severity: Severity::Warning });
    }
    let (low, high) = (one("valid_min"), one("valid_max"));
    if low.is_some() || high.is_some() {
        let (low, high) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
        ranges.push(Declared { name: "valid_min and valid_max", low, high, severity: Severity::Warning });
    }
    if let Some((low, high)) = pair("actual_range") {
        ranges.push(Declared { name: "actual_range", low, high, severity: Severity::Info });
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
    fn the_policy_speaks_of_unpacked_values() {
        let policy = "[[variable]]\nmatch = \"a\"\nvalid-range = [0.0, 1.0]";
        assert!(found(r#"{"scale_factor": 0.01}"#, [0.0, 90.0], policy).is_empty());
        assert_eq!(found("{}", [0.0, 90.0], policy)[0].0, Severity::Error);
    }
}
