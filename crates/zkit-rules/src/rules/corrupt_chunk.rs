//! `corrupt-chunk`: a chunk does not decode to what its metadata promises.

use zkit_core::engine::{ArrayValues, ChunkFault};
use zkit_core::grid::ChunkSet;
use zkit_report::{Confidence, Severity, format};

use super::shared::with_chunks;
use crate::boxes::Runs;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::rule::{Check, Rule};
use crate::values::seen;

pub(crate) const RULE: Rule = Rule {
    id: "corrupt-chunk",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Sample,
    summary: "a chunk does not decode: its codec fails, a checksum differs, or its size is another",
    explanation: "\
The bytes of a chunk are not what was written: a bit flipped on disk or on the way, a chunk was overwritten by
half, or it belongs to another array. Readers fail on it, or return garbage where nothing checks.

On disk: the codec refuses the stream, a crc32c, fletcher32, adler32 or zstd checksum differs, an inner chunk of a
shard lies outside of it, or what comes out has another size than the chunk, or is text that is no UTF-8. Of chunks without a checksum, a
flipped byte mostly decodes to other values without a word: that is not seen here.

Legitimate: none. Chunks that listing or headers already show to be cut off or no chunks at all are named there.

What to do: write these chunks again, or copy them again from the source. `zkit recompress --on-corrupt skip`
copies all others.",
    check: Check::Store(check),
};

/// What listings and headers say of a chunk before it is decoded.
const KNOWN: [ChunkFault; 6] = [
    ChunkFault::Empty,
    ChunkFault::Truncated,
    ChunkFault::WrongSize,
    ChunkFault::NoFrame,
    ChunkFault::ErrorBody,
    ChunkFault::Pointer,
];

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for (array, values) in seen(store) {
        let known = |position: u64| {
            let faults = array.survey.iter().flat_map(|survey| &survey.faults);
            let mut faults = faults
                .filter(|faulty| KNOWN.contains(&faulty.fault) || faulty.fault == ChunkFault::ShardIndex);
            faults.any(|faulty| faulty.chunks.contains(position))
        };
        let mut corrupt = ChunkSet::default();
        for position in values.corrupt.stored.iter().filter(|&position| !known(position)) {
            corrupt.insert(position);
        }
        if !corrupt.is_empty() {
            report(array, values, &corrupt, finder);
        }
    }
}

fn report(array: &ArrayObservation<'_>, values: &ArrayValues, corrupt: &ChunkSet, finder: &mut Finder<'_>) {
    let example = values.corrupt.examples.iter().find(|unit| corrupt.contains(unit.position));
    let first = corrupt.iter().next().unwrap_or(0);
    let key = array.chunk_key(example.map_or(first, |unit| unit.position));
    let why = example.map_or_else(|| "it does not decode".to_owned(), |unit| unit.reason.clone());
    let inner = example.and_then(|unit| unit.inner).is_some();
    let place = if inner { format!("an inner chunk of `{key}`") } else { format!("chunk `{key}`") };
    let message = match corrupt.len() {
        1 => format!("{place} does not decode: {why}"),
        count => {
            let seen = format::count(values.coverage.chunks_seen);
            let count = format::count(count);
            format!("{count} of {seen} chunks that were decoded do not decode; first {place}: {why}")
        }
    };
    let draft = finder.array(array.path(), message).evidence("chunks_decoded", values.coverage.chunks_seen);
    let draft = draft.remedy("write these chunks again, or copy them again from the source");
    // where all that is wrong is inner chunks of shards, these are named
    let only_inner =
        values.corrupt.inner.len() >= corrupt.len() && corrupt.len() == values.corrupt.stored.len();
    if only_inner && inner {
        let runs = Runs::of(&values.corrupt.inner);
        draft.evidence("chunk_count", runs.len()).inner_chunks(runs.few_boxes(&values.counts).0);
    } else {
        with_chunks(draft, array, &Runs::of(corrupt));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::TestStore;

    #[test]
    fn a_chunk_whose_checksum_differs_is_found() {
        let array = r#"{"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<f4", "fill_value": 0, "order": "C",
            "compressor": null, "filters": [{"id": "crc32"}]}"#;
        // the checksum of eight zero bytes stands in front of the first chunk, and of the second too
        let sound = [&0x6522_df69_u32.to_le_bytes()[..], &[0; 8]].concat();
        let flipped = [&sound[..11], &[1]].concat();
        let store = TestStore::new().array("a", array).file("a/0", &sound).file("a/1", &flipped);
        let found = store.findings("corrupt-chunk");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].first, [1]);
        assert!(found[0].message.starts_with("chunk `1` does not decode: crc32"), "{}", found[0].message);
    }

    #[test]
    fn texts_that_are_no_utf_8_do_not_decode() {
        let array = r#"{"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "|O", "fill_value": "", "order": "C",
            "compressor": null, "filters": [{"id": "CODEC"}]}"#;
        let chunk = |texts: [&[u8]; 2]| {
            let word = |length: usize| u32::try_from(length).unwrap().to_le_bytes().to_vec();
            let texts = texts.into_iter().flat_map(|text| [word(text.len()), text.to_vec()]);
            [word(2)].into_iter().chain(texts).flatten().collect::<Vec<u8>>()
        };
        let store = |codec: &str| {
            TestStore::new()
                .array("a", &array.replace("CODEC", codec))
                .file("a/0", &chunk(["é".as_bytes(), b""]))
                .file("a/1", &chunk([b"a", b"\xff"]))
                .findings("corrupt-chunk")
        };
        let found = store("vlen-utf8");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].message, "chunk `1` does not decode: vlen-utf8: element 1 is not UTF-8");
        assert_eq!(store("vlen-bytes"), [], "bytes are whatever they are");
    }

    #[test]
    fn what_listings_show_is_not_said_twice() {
        let store = TestStore::new().array("a", &crate::testing::v2_array(&[4], &[2])).file("a/0", &[0; 5]);
        assert_eq!(store.findings("truncated-chunk").len(), 1);
        assert!(store.findings("corrupt-chunk").is_empty());
    }
}
