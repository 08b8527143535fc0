//! `zero-byte-chunk`: a chunk is stored and has no bytes.

use zkit_core::engine::ChunkFault;
use zkit_report::{Confidence, Severity};

use super::shared::{report_blocks, report_faults};
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "zero-byte-chunk",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "a chunk is stored and has no bytes",
    explanation: "\
The key of a chunk exists and holds nothing: a disk that was full, a touch, a copy that was cut. Readers
fail on it, or take it for missing.

On disk: a chunk of size 0.

Legitimate: no codec writes nothing, except for arrays without elements.

What to do: remove the object if fill value is right there, else write the chunk again.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    report_faults(store, finder, ChunkFault::Empty, ("has no bytes", "write these chunks again"), |_, _| {});
    report_blocks(store, finder, ChunkFault::Empty, ("without a byte", "write these blocks again"));
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn empty_chunks_are_one_finding_with_their_boxes() {
        let store = TestStore::new().array("a", &v2_array(&[8], &[2]));
        let store = store.file("a/0", &[0; 8]).file("a/1", b"").file("a/2", b"");
        let found = store.findings("zero-byte-chunk");
        assert_eq!(found.len(), 1);
        let chunks = found[0].chunks.as_ref().unwrap();
        assert_eq!((&chunks[0].first[..], &chunks[0].last[..]), (&[1][..], &[2][..]));
    }
}
