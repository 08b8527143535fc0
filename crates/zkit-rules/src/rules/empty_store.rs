//! `empty-store`: the store is an empty file or folder.

use zkit_report::{Confidence, Severity};

use super::shared::report_defects;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "empty-store",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "the store is an empty file or folder",
    explanation: "\
A file of no bytes or a folder without entries stands where a store is expected: a download that failed, a
copy that never began.

On disk: a zip or reference file of 0 bytes; an empty directory.

Legitimate: none; a Zarr group without members has at least its metadata document.

What to do: copy or write the store again.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    report_defects(store, finder, "empty-store", "copy or write the store again");
}

#[cfg(test)]
mod tests {
    use crate::testing::TestStore;

    #[test]
    fn an_empty_folder_is_named_as_such() {
        assert_eq!(TestStore::bare().findings("empty-store").len(), 1);
        assert_eq!(TestStore::new().findings("empty-store").len(), 0);
    }
}
