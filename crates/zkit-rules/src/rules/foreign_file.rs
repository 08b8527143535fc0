//! `foreign-file`: files lie in the store that no reader of Zarr uses.

use zkit_core::engine::Keys;
use zkit_core::metadata::ChunkKeys;
use zkit_core::store::Store;
use zkit_report::{Confidence, Severity};

use super::shared::report_keys;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "foreign-file",
    severity: Severity::Info,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "files lie in the store that no reader of Zarr uses",
    explanation: "\
Logs, archives, editors' backups, .DS_Store: harmless, and copied along with the store for ever.

On disk: any other name.

Legitimate: notes for people, and documents of conventions beside Zarr (OME/METADATA.ome.xml).

What to do: remove what is not wanted.",
    check: Check::Store(check),
};

/// Names that a finding holds.
const EXAMPLES_MOST: usize = 3;

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let remedy = "remove what is not wanted";
    for array in &store.arrays {
        let Some(listing) = array.survey.as_ref().and_then(|survey| survey.listing.as_ref()) else {
            continue;
        };
        // temporary files and chunks under other keys have rules of their own
        let named = listing.temporary.count + listing.misplaced.count;
        let elsewhere = |key: &&String| {
            !listing.temporary.examples.contains(key)
                && !listing.misplaced.examples.contains(key)
                && ChunkKeys::V2('/').parse_key(key, array.node.metadata.grid.rank()).is_none()
        };
        let examples = listing.foreign.examples.iter().filter(elsewhere).cloned().collect();
        let keys = Keys { count: listing.foreign.count.saturating_sub(named), examples };
        report_keys(finder, Some(array.path()), &keys, ("files that no reader uses", remedy));
    }
    if let Some(Store::Zip(zip)) = &store.hierarchy.store {
        let names = zip.outside();
        let examples = names.iter().take(EXAMPLES_MOST).cloned().collect();
        let keys = Keys { count: names.len() as u64, examples };
        report_keys(finder, None, &keys, ("members of the zip file lie outside of the store", remedy));
    }
    if let Some(files) = &store.files {
        report_keys(finder, None, &files.foreign, ("files that no reader uses", remedy));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn files_of_no_use_are_notes() {
        let store = TestStore::new()
            .array("a", &v2_array(&[8], &[2]))
            .file("a/notes.txt", b"x")
            .file(".DS_Store", b"x");
        let found = store.findings("foreign-file");
        let paths: Vec<_> = found.iter().map(|finding| finding.array.as_deref()).collect();
        assert_eq!(paths, [Some("/a"), None]);
    }
}
