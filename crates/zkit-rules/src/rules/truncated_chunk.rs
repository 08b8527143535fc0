//! `truncated-chunk`: a chunk is shorter or longer than it must be, or does not begin as its codec writes.

use zkit_core::engine::ChunkFault;
use zkit_core::metadata::CodecSpec;
use zkit_report::{Confidence, Severity};

use super::shared::{message_of, report_blocks, report_faults, with_chunks};
use crate::boxes::Runs;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "truncated-chunk",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "a chunk is shorter or longer than it must be, or does not begin as its codec writes",
    explanation: "\
A write that ended early, a copy that was cut, a chunk of another array: what is stored is no whole frame of
the array's codec, or decodes to another size. Readers fail on it, or return garbage.

On disk: a raw chunk of another length than its elements take (seen in the listing); a blosc header whose
sizes disagree with the object or the chunk; a zstd frame that goes on behind the end; a gzip stream whose
last bytes say another length; a stream without its magic bytes (seen in the headers).

Legitimate: a gzip stream of several members ends in the length of the last; where everything is decoded, and
decodes, it is a note. Bytes behind the end of a frame are ignored by readers, and some writers pad: that is a note. Of raw
chunks that are too long it is one until they are decoded; then they are `corrupt-chunk`.

What to do: write these chunks again, or copy them again from the source.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let remedy = "write these chunks again, or copy them again";
    report_faults(store, finder, ChunkFault::Truncated, ("is cut off", remedy), |array, draft| {
        if decodes_all_the_same(array) {
            draft.severity(Severity::Info);
        }
    });
    report_faults(store, finder, ChunkFault::WrongSize, ("has the wrong size", remedy), |_, _| {});
    report_faults(store, finder, ChunkFault::NoFrame, ("is none of its codec", remedy), |_, _| {});
    report_blocks(store, finder, ChunkFault::Truncated, ("no whole ones", remedy));
    report_padded(store, finder);
}

/// Notes chunks that are followed by more bytes, unless decoding showed that these are too many: then `corrupt-chunk` says so.
fn report_padded(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for (array, padded) in store.faults(ChunkFault::Trailing) {
        let corrupt = array.values.as_ref().map(|values| &values.corrupt.stored);
        if corrupt.is_some_and(|corrupt| padded.chunks.iter().any(|position| corrupt.contains(position))) {
            continue;
        }
        let is_raw = |codec: &CodecSpec| matches!(codec, CodecSpec::Bytes(_) | CodecSpec::Transpose(_));
        let remedy = match array.node.metadata.codecs.iter().all(is_raw) {
            true => "decode it (--depth sample): most readers refuse raw chunks that are too long",
            false => "none is needed: readers ignore what follows",
        };
        let draft = finder.array(array.path(), message_of(array, padded, "is followed by more bytes"));
        with_chunks(draft.severity(Severity::Info), array, &Runs::of(&padded.chunks)).remedy(remedy);
    }
}

/// Returns whether every chunk that seems cut off was decoded and is whole: several gzip members, the last one long.
fn decodes_all_the_same(array: &ArrayObservation<'_>) -> bool {
    let (Some(survey), Some(values)) = (&array.survey, &array.values) else { return false };
    let bad =
        |position| values.corrupt.stored.contains(position) || values.unreadable.stored.contains(position);
    let mut cut = survey.faults.iter().filter(|faulty| faulty.fault == ChunkFault::Truncated);
    let looked_at = values.coverage.is_full() && values.coverage.chunks_seen > 0 && values.skipped.is_none();
    looked_at && !cut.any(|faulty| faulty.chunks.iter().any(bad))
}

#[cfg(test)]
mod tests {
    use zkit_core::engine::{ChunkFault, MissingChunks, Repository};
    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array};

    #[test]
    fn short_chunks_are_errors_and_padded_ones_are_told_once() {
        let store = TestStore::new().array("a", &v2_array(&[8], &[2]));
        let store = store.file("a/0", &[0; 8]).file("a/1", &[0; 5]).file("a/3", &[0; 9]);
        let found: Vec<_> = store
            .findings("truncated-chunk")
            .into_iter()
            .map(|finding| (finding.severity, finding.chunks.unwrap()[0].first[0]))
            .collect();
        assert_eq!(found, [(Severity::Error, 1)], "the padded one was decoded");
        assert_eq!(store.findings("corrupt-chunk")[0].chunks.as_ref().unwrap()[0].first, [3]);
    }

    #[test]
    fn bytes_behind_a_frame_are_a_note() {
        let metadata = v2_array(&[8], &[2]).replace("\"compressor\":null", "\"compressor\":{\"id\":\"lz4\"}");
        // eight literals, and a byte that belongs to nothing
        let frame = [8, 0, 0, 0, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 0];
        let store = TestStore::new().array("a", &metadata).file("a/0", &frame);
        let found = store.findings("truncated-chunk");
        assert!(found.iter().all(|finding| finding.severity == Severity::Info), "{found:?}");
    }

    #[test]
    fn a_frame_that_decodes_to_another_size_is_an_error() {
        let metadata = v2_array(&[8], &[2]).replace("\"compressor\":null", "\"compressor\":{\"id\":\"lz4\"}");
        let store = TestStore::new().array("a", &metadata).file("a/0", &[9, 0, 0, 0, 1, 2]);
        assert!(store.findings("truncated-chunk")[0].message.contains("9 decoded bytes, expected 8"));
    }

    #[test]
    fn objects_of_a_repository_that_are_too_short_are_named_at_their_array() {
        let chunks = MissingChunks {
            count: 1,
            indices: vec![vec![2]],
            object: "chunks/X".to_owned(),
            why: "3 bytes, its manifest says 4".to_owned(),
        };
        let faulty = [(("/air".to_owned(), ChunkFault::Truncated), chunks)].into();
        let found = TestStore::new()
            .repository_findings("truncated-chunk", Repository { faulty, ..Repository::default() });
        assert_eq!((found.len(), found[0].array.as_deref()), (1, Some("/air")));
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].first, [2]);
    }
}
