//! `fill-value-confusion`: `_FillValue` and fill_value disagree, so that absent chunks read as real values.

use zkit_core::metadata::{DataType, ZarrFormat};
use zkit_report::{Confidence, Severity};

use super::shared::{declared_missing, fill_number, number_of, same_element};
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "fill-value-confusion",
    severity: Severity::Error,
    confidence: Confidence::Medium,
    depth: Depth::Metadata,
    summary: "`_FillValue` and fill_value disagree, so that absent chunks read as real values",
    explanation: "\
An array declares one number as missing (`_FillValue`, `missing_value`) and stores another as what absent
chunks read as. Chunks that were never written then look like data.

On disk: v2: fill_value in .zarray is a number, the attribute _FillValue another one. Or `_FillValue` and `missing_value` are two
numbers of which neither is the fill_value: readers mask one, the other, or both (a warning). Or NaN is declared missing in an
array of whole numbers, none of which is NaN: nothing is masked (a warning).

Legitimate: xarray's convention for v3 keeps both apart on purpose (`fill_value` 0, `_FillValue` as an
attribute); there the confusion is a note, and only where chunks are absent. Where NaN alone is declared missing, and
every chunk is stored, it is a note too. Numbers are compared as the array would store them: 1e20 in an attribute is
the float32 next to it, 255 the -1 of a signed byte. A fill_value of null says nothing and confuses nobody.

What to do: set fill_value in .zarray to the declared missing value, and consolidate again.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for array in &store.arrays {
        report_masks(array, finder);
        let (Some(fill), declared) = (fill_number(array), declared_missing(array)) else { continue };
        if whole_numbers(array) && declared.iter().all(|missing| missing.is_nan()) {
            continue;
        }
        let data_type = &array.node.metadata.data_type;
        let same = declared.iter().any(|&missing| same_element(data_type, missing, fill));
        if declared.is_empty() || same || fill.is_nan() {
            continue;
        }
        let known = array.occupancy().map(|(total, stored)| total - stored.min(total));
        let absent = known.unwrap_or(0);
        let v3 = array.node.metadata.format == ZarrFormat::V3;
        if v3 && absent == 0 {
            continue;
        }
        // NaN is missing whatever the fill value is, and nothing reads as that
        let harmless = known == Some(0) && declared.iter().all(|missing| missing.is_nan());
        let draft = finder
            .array(
                array.path(),
                format!(
                    "absent chunks read as {fill}, and what is missing is declared to be {}",
                    declared[0]
                ),
            )
            .evidence("fill_value", fill)
            .evidence("declared_missing", declared)
            .evidence("chunks_absent", absent)
            .remedy("set fill_value to the declared missing value, and consolidate the metadata again");
        if v3 || harmless {
            draft.severity(Severity::Info);
        }
    }
}

/// Reports masks that cannot be meant as they are written, whatever is stored.
fn report_masks(array: &ArrayObservation<'_>, finder: &mut Finder<'_>) {
    let metadata = &array.node.metadata;
    let declared = |name| metadata.attributes.get(name).and_then(number_of);
    let named = [("_FillValue", declared("_FillValue")), ("missing_value", declared("missing_value"))];
    if let Some((name, _)) =
        named.iter().find(|(_, value)| whole_numbers(array) && value.is_some_and(f64::is_nan))
    {
        let message = format!("`{name}` is NaN, which no {} is: nothing is masked", metadata.data_type);
        finder
            .array(array.path(), message)
            .severity(Severity::Warning)
            .evidence("attribute", *name)
            .remedy(format!("set {name} to a whole number that stands for missing values, or take it away"));
        return;
    }
    let [(_, Some(fill)), (_, Some(missing))] = named else { return };
    let same = |one, other| same_element(&metadata.data_type, one, other);
    let Some(stored) = fill_number(array) else { return };
    if same(fill, missing) || same(fill, stored) || same(missing, stored) {
        return;
    }
    let message = format!(
        "three values stand for missing ones: `_FillValue` {fill}, `missing_value` {missing}, and absent chunks read as {stored}"
    );
    finder
        .array(array.path(), message)
        .severity(Severity::Warning)
        .evidence("_FillValue", fill)
        .evidence("missing_value", missing)
        .evidence("fill_value", stored)
        .remedy("set missing_value and fill_value to the _FillValue, and consolidate the metadata again");
}

/// Returns whether the elements of an array are whole numbers.
fn whole_numbers(array: &ArrayObservation<'_>) -> bool {
    matches!(array.node.metadata.data_type, DataType::Bool | DataType::Int(_) | DataType::UInt(_))
}

#[cfg(test)]
mod tests {
    #[test]
    fn masks_that_no_reader_applies_alike_are_warnings() {
        let found = |dtype: &str, fill: &str, attributes: &str| {
            let array = v2_array(&[2], &[2]).replace("<f4", dtype).replace(":0,", &format!(":{fill},"));
            let store = TestStore::new().array("a", &array).file("a/0", &[1; 8]);
            let found = store.file("a/.zattrs", attributes.as_bytes()).findings("fill-value-confusion");
            found.into_iter().map(|finding| (finding.severity, finding.message)).collect::<Vec<_>>()
        };
        let nan = found("<i2", "0", r#"{"_FillValue": "NaN"}"#);
        assert_eq!(
            nan,
            [(Severity::Warning, "`_FillValue` is NaN, which no int16 is: nothing is masked".into())]
        );
        assert_eq!(found("<f4", "\"NaN\"", r#"{"_FillValue": NaN}"#), []);
        let three = found("<f4", "7", r#"{"_FillValue": -1, "missing_value": -2}"#);
        assert_eq!(three[0].0, Severity::Warning);
        assert!(three[0].1.starts_with("three values stand for missing ones: `_FillValue` -1,"), "{three:?}");
        assert_eq!(found("<f4", "-1", r#"{"_FillValue": -1, "missing_value": -2}"#), []);
    }

    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array};

    #[test]
    fn a_declared_missing_value_must_be_the_fill_value() {
        let store = TestStore::new()
            .array("bad", &v2_array(&[8], &[2]))
            .file("bad/.zattrs", br#"{"_FillValue":-32768}"#)
            .array("good", &v2_array(&[8], &[2]))
            .file("good/.zattrs", br#"{"_FillValue":0.0}"#)
            .array("undeclared", &v2_array(&[8], &[2]));
        let found = store.findings("fill-value-confusion");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].array.as_deref(), Some("/bad"));
    }

    #[test]
    fn values_are_compared_as_the_array_stores_them() {
        let fill = |fill: &str, dtype: &str| {
            let array = v2_array(&[8], &[2]).replace("\"fill_value\":0", &format!("\"fill_value\":{fill}"));
            array.replace("<f4", dtype)
        };
        let store = TestStore::new()
            .array("rounded", &fill("1e20", "<f4"))
            .file("rounded/.zattrs", br#"{"missing_value":1e20}"#)
            .array("digits", &fill("-999.9000244140625", "<f4"))
            .file("digits/.zattrs", br#"{"_FillValue":-999.9}"#)
            .array("unsigned", &fill("-1", "|i1"))
            .file("unsigned/.zattrs", br#"{"_FillValue":255, "_Unsigned":"true"}"#)
            .array("several", &fill("-2", "<i2"))
            .file("several/.zattrs", br#"{"missing_value":[-1, -2]}"#);
        assert_eq!(store.findings("fill-value-confusion"), []);
    }

    #[test]
    fn nan_beside_a_number_is_a_note_where_every_chunk_is_stored() {
        let store = TestStore::new()
            .array("whole", &v2_array(&[2], &[2]))
            .file("whole/0", &[0; 8])
            .file("whole/.zattrs", br#"{"missing_value":"NaN"}"#)
            .array("sparse", &v2_array(&[4], &[2]))
            .file("sparse/0", &[0; 8])
            .file("sparse/.zattrs", br#"{"missing_value":"NaN"}"#);
        let found: Vec<_> = store
            .findings("fill-value-confusion")
            .into_iter()
            .map(|finding| (finding.array.unwrap(), finding.severity))
            .collect();
        assert_eq!(found, [("/sparse".into(), Severity::Error), ("/whole".into(), Severity::Info)]);
    }
}
