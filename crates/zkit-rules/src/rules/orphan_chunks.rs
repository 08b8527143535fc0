//! `orphan-chunks`: chunks are stored that no array has.

use std::collections::BTreeSet;

use zkit_report::format;
use zkit_report::{Confidence, Severity};

use super::shared::report_keys;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "orphan-chunks",
    severity: Severity::Warning,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "chunks are stored that no array has",
    explanation: "\
Chunks outside the grid of their array: the array was shrunk, and its old chunks stayed. They come back as
data when it grows again. Or chunks in a folder without metadata: an array that was deleted in part, or
whose metadata was not copied.

On disk: chunk keys with an index beyond the shape; numbered files in a folder without .zarray and
zarr.json.

Legitimate: none, although readers do not mind.

What to do: remove them, or restore the shape or the metadata they belong to.",
    check: Check::Store(check),
};

/// Defects of a root that hide the nodes below it.
const HIDING: [&str; 4] = ["malformed-metadata", "pointer-file", "unreadable", "dangling-link"];

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let absurd: BTreeSet<&str> = store.defects("absurd-shape").map(|defect| defect.path.as_str()).collect();
    // no grid can be told from a shape that nobody meant
    for array in store.arrays.iter().filter(|array| !absurd.contains(array.path())) {
        let Some(listing) = array.survey.as_ref().and_then(|survey| survey.listing.as_ref()) else {
            continue;
        };
        let what = format!("chunks outside the grid of {:?} chunks", array.node.metadata.grid.counts());
        let remedy = "remove them, or restore the shape that they belong to";
        report_keys(finder, Some(array.path()), &listing.orphans, (&what, remedy));
    }
    for dataset in &store.n5 {
        let grid: Vec<u64> = dataset
            .dimensions
            .iter()
            .zip(&dataset.block_size)
            .map(|(length, block)| length.div_ceil(*block))
            .collect();
        let what = format!("blocks outside the grid of {grid:?} blocks");
        let remedy = "remove them, or restore the dimensions that they belong to";
        report_keys(finder, Some(&dataset.path), &dataset.orphans, (&what, remedy));
    }
    let Some(files) = &store.files else { return };
    let seen = !store.hierarchy.groups.is_empty() || !store.hierarchy.arrays.is_empty();
    for (folder, &count) in &files.ownerless_folders {
        let path = format!("/{folder}");
        // a node that is broken is told under its own rule, and so is all that cannot be seen behind a broken root
        let broken = store.hierarchy.defects.iter().any(|defect| {
            let below =
                path.strip_prefix(&defect.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            below || (defect.path == "/" && !seen && HIDING.contains(&defect.rule))
        });
        if !broken {
            let count = format::counted(count, "chunk lies", "chunks lie");
            finder
                .array(&path, format!("{count} in a folder without array metadata: no reader sees them"))
                .remedy("restore the metadata of the array, or remove the chunks");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn chunks_outside_the_grid_and_without_an_array_are_found() {
        let store = TestStore::new()
            .array("shrunk", &v2_array(&[8], &[2]))
            .file("shrunk/4", &[0; 8])
            .file("lost/0.0", b"x")
            .file("lost/0.1", b"x")
            .array("broken", "{")
            .file("broken/0", b"x");
        let found = store.findings("orphan-chunks");
        let paths: Vec<_> = found.iter().map(|finding| finding.array.as_deref()).collect();
        assert_eq!(paths, [Some("/shrunk"), Some("/lost")]);
        assert!(found[0].message.contains("`4`"), "{}", found[0].message);
    }

    #[test]
    fn what_follows_from_broken_metadata_is_not_told_again() {
        let broken_root = TestStore::bare().file(".zgroup", b"{").array("a", &v2_array(&[8], &[2]));
        assert!(broken_root.file("a/0", &[0; 8]).findings("orphan-chunks").is_empty());
        let absurd = TestStore::new().array("a", &v2_array(&[1 << 40, 1], &[1 << 40, 1]));
        assert!(absurd.file("a/1.0", &[0; 8]).findings("orphan-chunks").is_empty());
        let beside = TestStore::new().array("a", "{").file("ab/0", &[0; 8]);
        assert_eq!(beside.findings("orphan-chunks").len(), 1, "`/ab` is not below `/a`");
    }
}
