//! `all-nan`: every value that was looked at is NaN.

use zkit_core::engine::ArrayValues;
use zkit_core::metadata::Json;
use zkit_report::{Confidence, Severity, format};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::packing::Packing;
use crate::rule::{Check, Rule};
use crate::values::{looked_at, seen_data, with_units};

pub(crate) const RULE: Rule = Rule {
    id: "all-nan",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Sample,
    summary: "an array is stored, and everything in it is NaN",
    explanation: "\
Chunks were written, and hold nothing but NaN, or packed numbers that all unpack to NaN: a cache was filled by a selection that missed (a wrong `.sel`,
longitudes of 0..360 against -180..180), a mask took everything away, a reader returned fill values for chunks it
could not get. Listings look healthy; a model that trains on it does not.

On disk: chunks are there, small and of the same size, as constant data compresses to nearly nothing.

Legitimate: a variable that does not exist for this region or time. Say so in zkit.toml: [[audit.variable]] with
nan-allowed = true. Columns of an AnnData table are a note. Arrays of which no chunk is stored at all are metadata-only-array. Coordinates and single values
are left alone.

What to do: find out whether the source has values there, and write the array again.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for (array, values) in seen_data(store) {
        let (is_nan, unpacks_to_nan) = (values.stored.is_all_nan(), unpacks_to_nan(array, values));
        if !(is_nan || unpacks_to_nan) || store.variable(array.path()).nan_allowed {
            continue;
        }
        let message = format!(
            "every value is {}: {} values in {}",
            if is_nan { "NaN" } else { "a missing value, which unpacks to NaN" },
            format::count(values.stored.elements),
            looked_at(values)
        );
        let severity = if is_column(store, array) { Severity::Info } else { Severity::Error };
        let draft = finder.array(array.path(), message).severity(severity);
        let draft = draft.evidence("values", values.stored.elements);
        with_units(draft, values, if is_nan { &values.all_nan } else { &values.all_fill })
            .remedy("check the selection that it was written from, and write it again");
    }
}

/// Returns whether an array is packed, and every value that was looked at is missing.
pub(crate) fn unpacks_to_nan(array: &ArrayObservation<'_>, values: &ArrayValues) -> bool {
    values.stored.is_all_void() && !values.stored.is_all_nan() && Packing::of(array).is_some()
}

/// Returns whether an array is a column of a table, in which nothing need be known of any row.
/// Source: the on-disk format of AnnData, "Dataframes".
fn is_column(store: &StoreObservation<'_>, array: &ArrayObservation<'_>) -> bool {
    let group = store.hierarchy.groups.iter().find(|group| group.path == array.group());
    let encoding = group.and_then(|group| group.attributes.get("encoding-type"));
    encoding.and_then(Json::as_str) == Some("dataframe")
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

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

    #[test]
    fn packed_numbers_that_are_all_missing_are_nan() {
        let packed = v2_array(&[2], &[2]).replace("<f4", "<i2").replace(":0,", ":-32767,");
        let store = TestStore::new()
            .array("packed", &packed)
            .file("packed/.zattrs", br#"{"scale_factor": 0.1}"#)
            .file("packed/0", &[(-32767i16).to_le_bytes(); 2].concat());
        let found = store.findings("all-nan");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Error));
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].last, [0]);
        assert_eq!(store.findings("all-fill"), []);
    }

    #[test]
    fn a_column_of_a_table_may_be_nan() {
        let store = TestStore::new()
            .file("obs/.zgroup", br#"{"zarr_format": 2}"#)
            .file("obs/.zattrs", br#"{"encoding-type": "dataframe"}"#)
            .array("obs/score", &v2_array(&[2], &[2]))
            .file("obs/score/0", &chunk([f32::NAN; 2]));
        assert_eq!(store.findings("all-nan")[0].severity, Severity::Info);
    }
}
