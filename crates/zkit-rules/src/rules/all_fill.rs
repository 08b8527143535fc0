//! `all-fill`: every value that was looked at is the fill value, or one that stands for a missing one.

use zkit_report::{Confidence, Severity, format};

use super::all_nan::unpacks_to_nan;
use super::shared::{Absence, absence};
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};
use crate::values::{looked_at, seen_data, with_units};

pub(crate) const RULE: Rule = Rule {
    id: "all-fill",
    severity: Severity::Error,
    confidence: Confidence::Medium,
    depth: Depth::Sample,
    summary: "an array is stored, and everything in it is its fill value",
    explanation: "\
Chunks were written, and hold nothing but the fill value. Where that value means that data are missing
(`_FillValue`, `missing_value`), the array has no data, however many chunks it has: an error. Where it is a value like
any other (a zero that nobody declared missing), it is a note.

On disk: chunks are there, small and of the same size.

Legitimate: masks that are zero everywhere, counts of what did not happen, template stores that were filled on
purpose. Arrays of which no chunk is stored at all are metadata-only-array; those of NaN are all-nan.

What to do: if there should be data, write the array again. If not, say so in zkit.toml: [[audit.variable]] with
nan-allowed = true.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for (array, values) in seen_data(store) {
        let statistics = &values.stored;
        // NaN may be the missing value itself, and is counted twice then
        let missing = statistics.valid == 0
            && statistics.infinite() == 0
            && statistics.missing.saturating_add(statistics.nan) >= statistics.elements;
        let all_missing = missing && statistics.missing > 0;
        if !(all_missing || statistics.is_all_fill())
            || statistics.is_all_nan()
            || unpacks_to_nan(array, values)
        {
            continue;
        }
        let is_error = all_missing && (absence(array) == Absence::Missing || !statistics.is_all_fill());
        if is_error && store.variable(array.path()).nan_allowed {
            continue;
        }
        let (what, severity) =
            if is_error { ("a missing value", Severity::Error) } else { ("the fill value", Severity::Info) };
        let fill = array.node.metadata.fill_value.to_v3(&array.node.metadata.data_type);
        let message = format!(
            "every value is {what}: {} values in {}",
            format::count(statistics.elements),
            looked_at(values)
        );
        let draft = finder.array(array.path(), message).severity(severity);
        let draft = draft.evidence("values", statistics.elements).evidence("fill_value", fill.to_serde());
        let draft = with_units(draft, values, &values.all_fill);
        if is_error {
            draft.remedy("check what it was written from, and write it again");
        }
    }
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array};

    #[test]
    fn missing_values_are_an_error_and_zeros_a_note() {
        let chunk = |value: f32| [value.to_le_bytes(); 2].concat();
        let missing = v2_array(&[2], &[2]).replace("\"fill_value\":0", "\"fill_value\":-9999.0");
        let store = TestStore::new()
            .array("zero", &v2_array(&[2], &[2]))
            .file("zero/0", &chunk(0.0))
            .array("missing", &missing)
            .file("missing/0", &chunk(-9999.0))
            .file("missing/.zattrs", br#"{"_FillValue": -9999.0}"#)
            .array("data", &missing)
            .file("data/0", &chunk(3.0));
        let found: Vec<_> = store
            .findings("all-fill")
            .into_iter()
            .map(|finding| (finding.array.unwrap(), finding.severity))
            .collect();
        assert_eq!(found, [("/missing".into(), Severity::Error), ("/zero".into(), Severity::Info)]);
    }

    #[test]
    fn nan_that_is_the_fill_value_is_counted_once() {
        let fill = v2_array(&[4], &[4]).replace("\"fill_value\":0", "\"fill_value\":\"NaN\"");
        let half = [1.0, f32::NAN, f32::NAN, f32::NAN].map(f32::to_le_bytes).concat();
        let store = TestStore::new().array("a", &fill).file("a/0", &half);
        assert!(store.findings("all-fill").is_empty());
    }
}
