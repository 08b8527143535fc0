//! `undeclared-missing-value`: a value stands for missing ones, and no attribute says so.

use zkit_core::engine::StandIn;
use zkit_report::{Confidence, Severity, format};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};
use crate::values::{number, seen_data, share};

/// From this share of the chunks that hold it on, a value is one that stands for others.
const SHARE_LEAST: f64 = 0.005;

pub(crate) const RULE: Rule = Rule {
    id: "undeclared-missing-value",
    severity: Severity::Warning,
    confidence: Confidence::Medium,
    depth: Depth::Sample,
    summary: "a value such as 1e20 or -9999 stands for missing ones, and no attribute says so",
    explanation: "\
A value that models and instruments write where they have nothing (1e20, 9.96921e36, -9999, -32768 and others) is the
least or largest of an array, occurs often, and lies far away from everything else. Neither `_FillValue` nor
`missing_value` nor the fill value names it, so that readers compute with it: a mean over the ocean of 7e19 K.

On disk: as any other value.

Legitimate: numbers that reach so far. The value must be further from the others than these are from each other, and
take at least half a percent of the chunks that hold it.

What to do: add the attribute `_FillValue` (or `missing_value`) with this value to the array; the data stay as they are.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for (array, values) in seen_data(store) {
        let Some(stand_in) = values.stand_in.filter(stands_apart) else { continue };
        let share = 100.0 * share(stand_in.count, stand_in.elements);
        let others = stand_in.others.min.zip(stand_in.others.max);
        let between = others.map_or(String::new(), |(min, max)| {
            format!("; the others lie between {} and {}", number(min.to_f64()), number(max.to_f64()))
        });
        let value = number(stand_in.value);
        let message = format!(
            "{value} takes {share:.1} % of {} values in chunks that hold it, and is declared nowhere{between}",
            format::count(stand_in.elements)
        );
        finder
            .array(array.path(), message)
            .evidence("value", stand_in.value)
            .evidence("count", stand_in.count)
            .evidence("of", stand_in.elements)
            .remedy(format!("add the attribute `_FillValue` with the value {value} to the array"));
    }
}

/// Returns whether a value lies further from the others than these lie from each other.
fn stands_apart(stand_in: &StandIn) -> bool {
    if share(stand_in.count, stand_in.elements) < SHARE_LEAST {
        return false;
    }
    let Some((min, max)) = stand_in.others.min.zip(stand_in.others.max) else { return false };
    let (min, max) = (min.to_f64(), max.to_f64());
    let distance = if stand_in.value > max { stand_in.value - max } else { min - stand_in.value };
    distance > (max - min).max(min.abs().max(max.abs()))
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    fn chunk(values: [f32; 4]) -> Vec<u8> {
        values.map(f32::to_le_bytes).concat()
    }

    #[test]
    fn values_that_stand_apart_are_found_unless_they_are_declared() {
        let array = v2_array(&[4], &[4]);
        let store = TestStore::new()
            .array("tas", &array)
            .file("tas/0", &chunk([1e20, 1e20, 280.0, 290.0]))
            .array("declared", &array)
            .file("declared/0", &chunk([1e20, 1e20, 280.0, 290.0]))
            .file("declared/.zattrs", br#"{"missing_value": 1e20}"#)
            .array("height", &array)
            .file("height/0", &chunk([-9999.0, -8000.0, 0.0, 3000.0]))
            .array("plain", &array)
            .file("plain/0", &chunk([1.0, 2.0, 3.0, 4.0]));
        let found = store.findings("undeclared-missing-value");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            found[0].message,
            "1e20 takes 50.0 % of 4 values in chunks that hold it, and is declared nowhere; the others lie between 280 and 290"
        );
    }
}
