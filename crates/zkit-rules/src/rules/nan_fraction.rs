//! `nan-fraction`: more values are NaN than may be.

use serde_json::Number;
use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};
use crate::values::{looked_at, seen_data, share};

/// From this share on, NaN is worth a note though nobody said how much there may be.
const WORTH_A_NOTE: f64 = 0.95;

pub(crate) const RULE: Rule = Rule {
    id: "nan-fraction",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Sample,
    summary: "more of an array is NaN than the policy allows, or nearly all of it",
    explanation: "\
The share of values that are NaN or declared missing, over all that was looked at, is larger than max-nan-fraction in
zkit.toml says: an error. Without such a limit, it is a note where nearly everything is NaN: 95 % and more.

On disk: chunks are smaller than those of other variables.

Legitimate: variables that exist over land, over sea or along a satellite's track alone are NaN elsewhere. Only you
know how much that may be.

What to do: declare the limit in zkit.toml: [[audit.variable]] with max-nan-fraction = 0.7, or nan-allowed = true.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for (array, values) in seen_data(store) {
        let statistics = values.statistics();
        let missing = statistics.nan.saturating_add(statistics.missing).min(statistics.elements);
        let fraction = share(missing, statistics.elements);
        let policy = store.variable(array.path());
        let (severity, limit) = match policy.max_nan_fraction {
            Some(limit) if fraction > limit => (Severity::Error, limit),
            None if fraction >= WORTH_A_NOTE && missing < statistics.elements && !policy.nan_allowed => {
                (Severity::Info, WORTH_A_NOTE)
            }
            _ => continue,
        };
        let allowed = match severity {
            Severity::Error => format!(", {:.1} % allowed", 100.0 * limit),
            _ => String::new(),
        };
        let message = format!(
            "{:.1} % of the values are NaN or missing in {}{allowed}",
            100.0 * fraction,
            looked_at(values)
        );
        let draft = finder.array(array.path(), message).severity(severity);
        let draft = draft.evidence("nan", statistics.nan).evidence("missing", statistics.missing);
        let draft = draft.evidence("values", statistics.elements);
        if let Some(fraction) = Number::from_f64(fraction) {
            draft.evidence("nan_fraction", fraction);
        }
    }
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array};

    #[test]
    fn limits_are_errors_and_nearly_everything_a_note() {
        let chunk = |nan: usize| {
            let value = |at| if at < nan { f32::NAN } else { 1.0 };
            (0..40).flat_map(|at| value(at).to_le_bytes()).collect::<Vec<u8>>()
        };
        let array = v2_array(&[40], &[40]);
        let store = TestStore::new()
            .array("few", &array)
            .file("few/0", &chunk(20))
            .array("most", &array)
            .file("most/0", &chunk(39))
            .array("limited", &array)
            .file("limited/0", &chunk(11));
        let store = store.with_policy("[[variable]]\nmatch = \"limited\"\nmax-nan-fraction = 0.25");
        let found: Vec<_> = store
            .findings("nan-fraction")
            .into_iter()
            .map(|finding| (finding.array.unwrap(), finding.severity, finding.message))
            .collect();
        assert_eq!(
            found[0],
            (
                "/limited".into(),
                Severity::Error,
                "27.5 % of the values are NaN or missing in its chunk, 25.0 % allowed".into()
            )
        );
        assert_eq!((found[1].0.as_str(), found[1].1, found.len()), ("/most", Severity::Info, 2));
    }
}
