//! `missing-object`: a repository names chunk objects that are gone.

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
    summary: "a repository names chunk objects that are gone",
    explanation: "\
The manifests of an Icechunk repository name the objects of all chunks. One that they name is not there: a
lifecycle rule that was too eager, a copy that was cut. Readers fail on it.

On disk: chunks/ lacks an object whose id stands in a manifest of a node that a snapshot holds.

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
                format!(
                    "{} that manifests name are gone, such as `{}`",
                    format::counted(missing.count, "chunk", "chunks"),
                    missing.object
                ),
            )
            .chunks(boxes)
            .evidence("count", missing.count)
            .remedy("restore the objects from a copy, or write these chunks again");
    }
}

#[cfg(test)]
mod tests {
    use zkit_core::engine::{MissingChunks, Repository};

    use crate::testing::TestStore;

    #[test]
    fn chunks_that_are_gone_are_named_at_their_array() {
        let missing = MissingChunks { count: 1, indices: vec![vec![2, 0]], object: "chunks/X".to_owned() };
        let repository =
            Repository { missing: [("/air".to_owned(), missing)].into(), ..Repository::default() };
        let found = TestStore::new().repository_findings("missing-object", repository);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].array.as_deref(), &found[0].chunks.as_ref().unwrap()[0].first[..]),
            (Some("/air"), &[2, 0][..])
        );
    }
}
