//! `infinite`: values are infinite.

use zkit_report::{Confidence, Severity, format};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};
use crate::values::{looked_at, seen, with_units};

pub(crate) const RULE: Rule = Rule {
    id: "infinite",
    severity: Severity::Warning,
    confidence: Confidence::High,
    depth: Depth::Sample,
    summary: "values are infinite",
    explanation: "\
Some values are plus or minus infinity: a division by zero, the logarithm of zero, a float64 that was too large for the
float32 (or a float32 too large for the float16) it was written as. Means and losses over them are infinite or NaN.

On disk: as any other float.

Legitimate: infinity as the declared fill or missing value, and open ends of ranges in coordinates and bounds (a note,
as it is in arrays without attributes and dimension names, of which nothing says what they are).

What to do: find the step that made them. If they mean something, declare them as `_FillValue`.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let coordinates = store.coordinate_paths();
    for (array, values) in seen(store) {
        let statistics = &values.stored;
        let declared = if values.fill.infinite() > 0 { statistics.fill } else { 0 };
        let infinite = statistics.infinite().saturating_sub(statistics.missing.max(declared));
        if infinite == 0 {
            continue;
        }
        // nothing says what the numbers of an array without names and attributes are
        let metadata = &array.node.metadata;
        let says_nothing = metadata.attributes.is_empty() && metadata.dimension_names.is_none();
        let open_end = says_nothing
            || coordinates.contains(array.path())
            || array.name().contains("bnds")
            || array.name().contains("bounds");
        let message = format!(
            "{} of {} values are infinite in {}",
            format::count(infinite),
            format::count(statistics.elements),
            looked_at(values)
        );
        let draft = finder.array(array.path(), message);
        let draft = draft.severity(if open_end { Severity::Info } else { Severity::Warning });
        let draft = draft
            .evidence("positive", statistics.positive_infinity)
            .evidence("negative", statistics.negative_infinity);
        with_units(draft, values, &values.infinite).remedy("find the step that made them");
    }
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array};

    #[test]
    fn infinities_are_found_unless_they_are_the_fill_value() {
        let chunk = [1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN].map(f32::to_le_bytes).concat();
        let declared = v2_array(&[4], &[4]).replace("\"fill_value\":0", "\"fill_value\":\"Infinity\"");
        let store = TestStore::new()
            .array("a", &v2_array(&[4], &[4]))
            .file("a/.zattrs", br#"{"units": "m"}"#)
            .array("bare", &v2_array(&[4], &[4]))
            .file("bare/0", &chunk)
            .file("a/0", &chunk)
            .array("b", &declared)
            .file("b/0", &[f32::INFINITY.to_le_bytes(); 4].concat());
        let found = store.findings("infinite");
        let severities: Vec<_> = found.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [Severity::Warning, Severity::Info], "{found:?}");
        assert_eq!(found[0].message, "2 of 4 values are infinite in its chunk");
        assert_eq!(found[0].evidence["negative"], 1);
    }
}
