//! `fill-value-confusion`: `_FillValue` and fill_value disagree, so that absent chunks read as real values.

use zkit_core::metadata::ZarrFormat;
use zkit_report::{Confidence, Severity};

use super::shared::{declared_missing, fill_number, same_number};
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
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

On disk: v2: fill_value in .zarray is a number, the attribute _FillValue another one.

Legitimate: xarray's convention for v3 keeps both apart on purpose (`fill_value` 0, `_FillValue` as an
attribute); there the confusion is a note, and only where chunks are absent. A fill_value of null says
nothing and confuses nobody.

What to do: set fill_value in .zarray to the declared missing value, and consolidate again.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for array in &store.arrays {
        let (Some(fill), declared) = (fill_number(array), declared_missing(array)) else { continue };
        if declared.is_empty() || declared.iter().any(|&missing| same_number(missing, fill)) || fill.is_nan()
        {
            continue;
        }
        let absent = array.occupancy().map_or(0, |(total, stored)| total - stored.min(total));
        let v3 = array.node.metadata.format == ZarrFormat::V3;
        if v3 && absent == 0 {
            continue;
        }
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
        if v3 {
            draft.severity(Severity::Info);
        }
    }
}

#[cfg(test)]
mod tests {
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
}
