//! `all-nan`: every value that was looked at is NaN.

use zkit_report::{Confidence, Severity, format};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};
use crate::values::{looked_at, seen_data, with_units};

pub(crate) const RULE: Rule = Rule {
    id: "all-nan",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Sample,
    summary: "an array is stored, and everything in it is NaN",
    explanation: "\
Chunks were written, and hold nothing but NaN: a cache was filled by a selection that missed (a wrong `.sel`,
longitudes of 0..360 against -180..180), a mask took everything away, a reader returned fill values for chunks it
could not get. Listings look healthy; a model that trains on it does not.

On disk: chunks are there, small and of the same size, as constant data compresses to nearly nothing.

Legitimate: a variable that does not exist for this region or time. Say so in zkit.toml: [[audit.variable]] with
nan-allowed = true. Arrays of which no chunk is stored at all are metadata-only-array. Coordinates and single values
are left alone.

What to do: find out whether the source has values there, and write the array again.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for (array, values) in seen_data(store) {
        if !values.stored.is_all_nan() || store.variable(array.path()).nan_allowed {
            continue;
        }
        let message = format!(
            "every value is NaN: {} values in {}",
            format::count(values.stored.elements),
            looked_at(values)
        );
        let draft = finder.array(array.path(), message).evidence("values", values.stored.elements);
        with_units(draft, values, &values.all_nan)
            .remedy("check the selection that it was written from, and write it again");
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    fn chunk(values: [f32; 2]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn an_array_of_nan_is_found_unless_it_may_be_so() {
        let nan = chunk([f32::NAN; 2]);
        let store = TestStore::new()
            .array("a", &v2_array(&[4], &[2]))
            .file("a/0", &nan)
            .file("a/1", &nan)
            .array("b", &v2_array(&[4], &[2]))
            .file("b/0", &nan)
            .file("b/1", &chunk([f32::NAN, 1.0]))
            .array("c", &v2_array(&[2], &[2]))
            .file("c/0", &nan);
        let store = store.with_policy("[[variable]]\nmatch = \"c\"\nnan-allowed = true");
        let found = store.findings("all-nan");
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].array.as_deref(), found[0].message.as_str()),
            (Some("/a"), "every value is NaN: 4 values in all 2 stored chunks")
        );
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].last, [1]);
    }
}
