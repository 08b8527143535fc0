//! `wrong-chunk-keys`: chunks lie under keys that the metadata does not promise.

use zkit_core::metadata::ChunkKeys;
use zkit_report::{Confidence, Severity, format};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "wrong-chunk-keys",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "chunks lie under keys that the metadata does not promise",
    explanation: "\
The metadata says how chunk indices become keys, and the chunks lie under others: dots for slashes, a level
`c/` that an uploader flattened away or wrote twice, backslashes of Windows; or all of them have another number of dimensions
than the array, as a rewrite under the metadata of before leaves them. Readers look under the promised keys, find nothing, and return fill
values.

On disk: `0.0` where `0/0` or `c/0/0` is promised, and the other way round; `2.0` where `2.0.0` is, and not one of those.

Legitimate: left-overs of another encoding beside a full set of right keys; that is a warning. v2 metadata
beside it may promise just these keys: then see `mixed-formats`.

What to do: correct dimension_separator or chunk_key_encoding in the metadata (and consolidate again), or
rename the chunks.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for array in &store.arrays {
        let Some(listing) = array.survey.as_ref().and_then(|survey| survey.listing.as_ref()) else {
            continue;
        };
        let metadata = &array.node.metadata;
        // v2 metadata beside it may promise these very keys
        let promised = store.v2_twins.iter().any(|twin| {
            twin.path == array.path()
                && listing.misplaced_as.as_ref().is_some_and(|keys| *keys == twin.metadata.chunk_keys)
        });
        if listing.misplaced.count == 0 || promised {
            continue;
        }
        let mut expected = String::new();
        metadata.chunk_keys.push_key(&vec![0; metadata.grid.rank()], &mut expected);
        let used = match (listing.misplaced_rank, &listing.misplaced_as) {
            (Some(rank), _) => {
                format!("an array of {}", format::counted(rank as u64, "dimension", "dimensions"))
            }
            (None, Some(keys)) => in_words(keys).to_owned(),
            (None, None) => "no encoding".to_owned(),
        };
        let remedy = match listing.misplaced_rank {
            Some(_) => "write the array again: its metadata and its chunks are those of two arrays",
            None => "correct the key encoding in the metadata, or rename the chunks",
        };
        let severity = if listing.stored.is_empty() { Severity::Error } else { Severity::Warning };
        finder
            .array(
                array.path(),
                format!(
                    "{} under keys of {used}, such as {}; the metadata promises keys like `{expected}`, of which {} there",
                    format::counted(listing.misplaced.count, "chunk lies", "chunks lie"),
                    listing.misplaced.in_words(),
                    format::counted(listing.stored.len(), "is", "are")
                ),
            )
            .severity(severity)
            .evidence("count", listing.misplaced.count)
            .evidence("examples", listing.misplaced.examples.clone())
            .evidence("expected", expected)
            .remedy(remedy);
    }
}

fn in_words(keys: &ChunkKeys) -> &'static str {
    match keys {
        ChunkKeys::Default('/') => "v3's encoding (c/0/0)",
        ChunkKeys::Default(_) => "v3's encoding with dots (c.0.0)",
        ChunkKeys::V2('.') => "v2's encoding (0.0)",
        ChunkKeys::V2(_) => "v2's encoding with slashes (0/0)",
    }
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array};

    #[test]
    fn dots_for_slashes_are_an_error_where_nothing_else_is_there() {
        let slashes =
            v2_array(&[4, 4], &[2, 2]).replace("\"order\"", "\"dimension_separator\":\"/\",\"order\"");
        let store = TestStore::new().array("a", &slashes).file("a/0.0", &[0; 16]).file("a/0.1", &[0; 16]);
        let found = store.findings("wrong-chunk-keys");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Error));
        assert!(
            store.findings("metadata-only-array").is_empty() && store.findings("foreign-file").is_empty()
        );
        let odd = TestStore::new().array("a", &slashes).file("a/0\\1", &[0; 16]).file("a/c/c/0/1", &[0; 16]);
        let found = odd.findings("wrong-chunk-keys");
        assert_eq!((found.len(), &found[0].evidence["count"]), (1, &2.into()));
        let both = TestStore::new().array("a", &slashes).file("a/c/0.1", &[0; 16]);
        assert_eq!(both.findings("wrong-chunk-keys")[0].severity, Severity::Error);
        assert_eq!(store.file("a/0/0", &[0; 16]).findings("wrong-chunk-keys")[0].severity, Severity::Warning);
    }

    #[test]
    fn keys_of_another_number_of_dimensions_are_an_error_where_nothing_else_is_there() {
        let store = TestStore::new().array("a", &v2_array(&[4, 4, 4], &[2, 4, 4]));
        let store = store.file("a/0.0", &[0; 16]).file("a/1.0", &[0; 16]).file("a/notes.txt", b"x");
        let found = store.findings("wrong-chunk-keys");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Error));
        assert!(
            found[0]
                .message
                .starts_with("2 chunks lie under keys of an array of 2 dimensions, such as `0.0`"),
            "{}",
            found[0].message
        );
        assert!(store.findings("metadata-only-array").is_empty());
        let beside = store.file("a/0.0.0", &[0; 128]);
        assert!(beside.findings("wrong-chunk-keys").is_empty());
        assert_eq!(beside.findings("foreign-file")[0].evidence["count"], 3);
    }
}
