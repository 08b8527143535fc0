//! `malformed-metadata`: the metadata of a node is not what the specification says.

use zkit_report::{Confidence, Severity};

use super::shared::report_defects;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "malformed-metadata",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "the metadata of a node is not what the specification says",
    explanation: "\
A metadata document is no JSON, lacks a field, or holds what no reader can use: a shape that is no list of
whole numbers, chunks of length zero, a data type that nobody knows. The node cannot be opened, or is opened
wrongly; other nodes of the store are sound.

On disk: zarr.json, .zarray, .zgroup, .zattrs or .zmetadata with the fault that is named.

Legitimate: extensions of Zarr v3 that zkit does not know are `unsupported-extension`, codecs
`unsupported-codec`; neither is a fault of the store.

What to do: restore the document from the program that wrote it, or from a copy; compare with a sound
sibling.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    report_defects(store, finder, "malformed-metadata", "restore the document, or write the node again");
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn one_broken_document_is_named_and_hides_no_other() {
        let broken = v2_array(&[8], &[2]).replace("<f4", "<q9");
        let found = TestStore::new()
            .array("good", &v2_array(&[8], &[2]))
            .array("bad", &broken)
            .array("worse", "{,}")
            .findings("malformed-metadata");
        let paths: Vec<_> = found.iter().filter_map(|finding| finding.array.as_deref()).collect();
        assert_eq!(paths, ["/bad", "/worse"]);
    }
}
