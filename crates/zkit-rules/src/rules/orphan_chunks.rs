//! `orphan-chunks`: chunks are stored that no array has.

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

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for array in &store.arrays {
        let Some(listing) = array.survey.as_ref().and_then(|survey| survey.listing.as_ref()) else {
            continue;
        };
        let what = format!("chunks outside the grid of {:?} chunks", array.node.metadata.grid.counts());
        let remedy = "remove them, or restore the shape that they belong to";
        report_keys(finder, Some(array.path()), &listing.orphans, (&what, remedy));
    }
    let Some(files) = &store.files else { return };
    for (folder, &count) in &files.ownerless_folders {
        let path = format!("/{folder}");
        // a node that is broken is told under its own rule
        let broken =
            store.hierarchy.defects.iter().any(|defect| path.starts_with(&defect.path) && defect.path != "/");
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
}
