//! `tiny-chunks`: an array is cut into very many very small chunks.

use zkit_report::format;
use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "tiny-chunks",
    severity: Severity::Info,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "an array is cut into very many very small chunks",
    explanation: "\
Each chunk is a file or object, with a request, a decompression and bookkeeping of its own. Below some
kilobytes that overhead is all there is: reading takes many times as long as it must, and buckets bill each
request.

On disk: thousands of objects of a few hundred bytes.

Legitimate: access to single points may ask for small chunks; sharding keeps them cheap.

What to do: lay it out again: zkit recompress SOURCE DESTINATION --chunks auto; zkit inspect STORE ARRAY
says what would suit.",
    check: Check::Store(check),
};

/// Decoded bytes of a stored chunk below which overhead is most of the work.
const BYTES_MOST: u64 = 4 << 10;
/// Arrays of fewer chunks are read at once anyway.
const CHUNKS_LEAST: u64 = 100;

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for array in &store.arrays {
        let metadata = &array.node.metadata;
        let (Some(bytes), Some(chunks)) = (metadata.chunk_decoded_bytes(), metadata.grid.total()) else {
            continue;
        };
        if bytes >= BYTES_MOST || chunks < CHUNKS_LEAST {
            continue;
        }
        finder
            .array(array.path(), format!("{} chunks of {} each", format::count(chunks), format::bytes(bytes)))
            .evidence("chunk_bytes", bytes)
            .evidence("chunks_total", chunks)
            .remedy(format!("zkit recompress {} COPY.zarr --chunks auto", store.hierarchy.url));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn many_small_chunks_are_told_and_few_or_large_ones_not() {
        let store = TestStore::new()
            .array("tiny", &v2_array(&[1000], &[5]))
            .array("few", &v2_array(&[100], &[5]))
            .array("large", &v2_array(&[1_000_000], &[2_000]));
        let found = store.findings("tiny-chunks");
        assert_eq!(found.iter().map(|finding| finding.array.as_deref()).collect::<Vec<_>>(), [Some("/tiny")]);
    }
}
