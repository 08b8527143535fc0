//! `not-zarr`: nothing here is a Zarr store.

use zkit_report::{Confidence, Severity};

use super::shared::report_defects;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "not-zarr",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "nothing here is a Zarr store",
    explanation: "\
What was named holds neither Zarr metadata nor another format of chunked arrays that zkit knows. Something
else was copied here, or a copy lost its metadata.

On disk: a folder without zarr.json, .zarray, .zgroup and .zmetadata anywhere, or a file of another kind.

Legitimate: stores in subfolders are found by themselves; name the folder above them.

What to do: check the path; copy the store again, with files whose names begin with a dot.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    report_defects(
        store,
        finder,
        "not-zarr",
        "check the path, or copy the store again with its hidden files",
    );
}

#[cfg(test)]
mod tests {
    use crate::testing::TestStore;

    #[test]
    fn a_folder_of_other_files_is_no_store() {
        let found = TestStore::bare().file("readme/notes.txt", b"hi").findings("not-zarr");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].array, None);
    }
}
