//! `missing-object`: objects that a repository or a set of references names are gone.

use zkit_report::{ChunkBox, format};
use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "missing-object",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "objects that a repository or a set of references names are gone",
    explanation: "\
The manifests of an Icechunk repository name the objects of all chunks. One that they name is not there: a
lifecycle rule that was too eager, a copy that was cut. Readers fail on it.

On disk: chunks/ lacks an object whose id stands in a manifest of a node that a snapshot holds; manifests/ lacks
one that a snapshot names, or snapshots/ one that a branch leads to; of references in parquet, a file that the grid and record_size promise.

Legitimate: objects of expired snapshots are collected together with their manifests.

What to do: restore the object from a copy, or write these chunks again.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let Some(repository) = &store.repository else { return };
    for (path, missing) in &repository.missing {
        let boxes = missing.indices.iter().take(crate::boxes::BOXES_MOST);
        let boxes = boxes.map(|index| ChunkBox { first: index.clone(), last: index.clone() }).collect();
        finder
            .array(
                path,
                match missing.count {
                    1 => format!("1 chunk that manifests name is gone: `{}`", missing.object),
                    count => format!(
                        "{} chunks that manifests name are gone, such as `{}`",
                        format::count(count),
                        missing.object
                    ),
                },
            )
            .chunks(boxes)
            .evidence("count", missing.count)
            .remedy("restore the objects from a copy, or write these chunks again");
    }
    for key in &repository.absent_snapshots {
        finder
            .store(format!("`{key}`, which a branch or tag leads to, is gone"))
            .evidence("object", key.clone())
            .remedy("restore the object from a copy, or reset the branch to a snapshot that is there");
    }
    for (key, path) in &repository.absent_manifests {
        finder
            .array(path, format!("`{key}`, which names the places of its chunks, is gone"))
            .evidence("object", key.clone())
            .remedy("restore the object from a copy: all chunks that it names are lost without it");
    }
}

#[cfg(test)]
mod tests {
    use zkit_core::engine::{MissingChunks, Repository};

    use crate::testing::TestStore;

    #[test]
    fn chunks_that_are_gone_are_named_at_their_array() {
        let missing = MissingChunks {
            count: 1,
            indices: vec![vec![2, 0]],
            object: "chunks/X".to_owned(),
            ..MissingChunks::default()
        };
        let repository =
            Repository { missing: [("/air".to_owned(), missing)].into(), ..Repository::default() };
        let found = TestStore::new().repository_findings("missing-object", repository);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].array.as_deref(), &found[0].chunks.as_ref().unwrap()[0].first[..]),
            (Some("/air"), &[2, 0][..])
        );
    }

    #[test]
    fn a_snapshot_that_is_gone_is_told_of_the_store() {
        let absent_snapshots = vec!["snapshots/X".to_owned()];
        let found = TestStore::new()
            .repository_findings("missing-object", Repository { absent_snapshots, ..Repository::default() });
        assert_eq!((found.len(), found[0].array.as_deref()), (1, None));
        assert!(found[0].message.contains("`snapshots/X`"), "{}", found[0].message);
    }

    #[test]
    fn manifests_that_are_gone_are_named_at_their_array() {
        let absent_manifests = [("manifests/X".to_owned(), "/air".to_owned())].into();
        let found = TestStore::new()
            .repository_findings("missing-object", Repository { absent_manifests, ..Repository::default() });
        assert_eq!((found.len(), found[0].array.as_deref()), (1, Some("/air")));
        assert!(found[0].message.contains("`manifests/X`"), "{}", found[0].message);
    }
}
