//! `implicit-group`: a folder that holds nodes has no document of its own.

use zkit_report::{Confidence, Severity};

use super::shared::report_defects;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "implicit-group",
    severity: Severity::Warning,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "a folder between a group and its arrays has no metadata document of its own",
    explanation: "\
Readers that list a group do not find what is in such a folder: zarr-python and xarray show a store without these
arrays, and open them only by their full path. Tools that copy what they list leave them behind; zkit does not.

On disk: a folder without .zgroup, .zarray or zarr.json, with groups or arrays below it.

Legitimate: several writers that each write one part of a store (plates of microscopes), and expect readers to know the
paths.

What to do: write the missing document: `{\"zarr_format\": 2}` as .zgroup in the folder, or for Zarr v3
`{\"zarr_format\": 3, \"node_type\": \"group\"}` as zarr.json; then consolidate the metadata anew.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    report_defects(store, finder, "implicit-group", "write a .zgroup or zarr.json into the folder");
}

#[cfg(test)]
mod tests {
    use crate::testing::TestStore;

    #[test]
    fn folders_above_arrays_need_a_document() {
        let array = br#"{"zarr_format":2,"shape":[1],"chunks":[1],"dtype":"|u1","fill_value":0,"compressor":null,"filters":null,"order":"C"}"#;
        let group = br#"{"zarr_format":2}"#;
        let store =
            TestStore::bare().file(".zgroup", group).file("A/1/.zgroup", group).file("A/1/0/.zarray", array);
        let found = store.findings("implicit-group");
        assert_eq!((found.len(), found[0].array.as_deref()), (1, Some("/A")));
        assert_eq!(store.file("A/.zgroup", group).findings("implicit-group").len(), 0);
    }
}
