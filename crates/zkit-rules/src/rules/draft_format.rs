//! `draft-format`: a store of the early Zarr v3 draft, which current readers do not open.

use zkit_report::{Confidence, Severity};

use super::shared::report_defects;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "draft-format",
    severity: Severity::Info,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "a store of the early Zarr v3 draft, which current readers do not open",
    explanation: "\
Zarr v3 was a draft until 2023, with metadata below meta/root and chunks below data/root. zarr-python 3,
tensorstore and GDAL of today do not read it.

On disk: zarr.json at the root with `metadata_key_suffix`, and folders `meta` and `data`.

Legitimate: archives of that time are what they say; nothing in them is lost.

What to do: convert it with the version that wrote it (zarr-python 2.13 to 2.18 with
ZARR_V3_EXPERIMENTAL_API=1, or GDAL before 3.8).",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    report_defects(store, finder, "draft-format", "convert it with the version of the library that wrote it");
}

#[cfg(test)]
mod tests {
    use crate::testing::TestStore;

    #[test]
    fn a_draft_is_told_from_the_final_format() {
        let draft = br#"{"zarr_format":"https://purl.org/zarr/spec/protocol/core/3.0","metadata_key_suffix":".json"}"#;
        assert_eq!(TestStore::bare().file("zarr.json", draft).findings("draft-format").len(), 1);
        assert_eq!(TestStore::new().findings("draft-format").len(), 0);
    }
}
