//! Findings in words: chunks, coordinates, counts; and texts of bounded length.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::finding::{ChunkBox, ChunkGrid, Finding, FindingCounts};
use crate::format;

/// Boxes of chunks that are named one by one.
const BOXES_SHOWN: usize = 3;

/// Dimensions whose coordinates are named.
const COORDINATES_SHOWN: usize = 4;

/// Returns the chunks of a finding: `chunks [4..7, 0..1]`, `chunk [3, 0]`, `inner chunks [0..1, 2], [4, 5] and
/// 3 more boxes`; `None` if it is not about single chunks.
pub(crate) fn chunks(finding: &Finding) -> Option<String> {
    let boxes = finding.chunks.as_deref().filter(|boxes| !boxes.is_empty())?;
    let shown: Vec<String> = boxes.iter().take(BOXES_SHOWN).map(chunk_box).collect();
    let noun = match (finding.grid, number_of_chunks(boxes)) {
        (ChunkGrid::Stored, 1) => "chunk",
        (ChunkGrid::Stored, _) => "chunks",
        (ChunkGrid::Inner, 1) => "inner chunk",
        (ChunkGrid::Inner, _) => "inner chunks",
    };
    let mut words = format!("{noun} {}", shown.join(", "));
    if boxes.len() > BOXES_SHOWN {
        let more = (boxes.len() - BOXES_SHOWN) as u64;
        words.push_str(&format!(" and {}", format::counted(more, "more box", "more boxes")));
    }
    Some(words)
}

/// Returns how many chunks boxes hold, as if none overlapped.
pub(crate) fn number_of_chunks(boxes: &[ChunkBox]) -> u64 {
    let in_box = |chunks: &ChunkBox| {
        chunks.first.iter().zip(&chunks.last).fold(1_u64, |product, (first, last)| {
            product.saturating_mul(last.saturating_sub(*first).saturating_add(1))
        })
    };
    boxes.iter().map(in_box).fold(0, u64::saturating_add)
}

/// Returns a box: `[4..7, 0]`.
fn chunk_box(chunks: &ChunkBox) -> String {
    let along = |(first, last): (&u64, &u64)| {
        if first == last { first.to_string() } else { format!("{first}..{last}") }
    };
    let ranges: Vec<String> = chunks.first.iter().zip(&chunks.last).map(along).collect();
    format!("[{}]", ranges.join(", "))
}

/// Returns where a finding lies in the coordinates of its array: `time 2021-03-29..2021-03-31`.
///
/// That is `coordinates` of its evidence: an object from dimension names to a value, or to a list of the first
/// and the last value.
pub(crate) fn coordinates(finding: &Finding) -> Option<String> {
    let along: &Map<String, Value> = finding.evidence.get("coordinates")?.as_object()?;
    let range = |(name, value): (&String, &Value)| match value.as_array().map(Vec::as_slice) {
        Some([first, last]) if first != last => format!("{name} {}..{}", plain(first), plain(last)),
        Some([only] | [only, _]) => format!("{name} {}", plain(only)),
        _ => format!("{name} {}", plain(value)),
    };
    let ranges: Vec<String> = along.iter().take(COORDINATES_SHOWN).map(range).collect();
    (!ranges.is_empty()).then(|| ranges.join(", "))
}

/// Returns a value of the evidence as people read it: texts without quotes, the rest as JSON.
pub(crate) fn plain(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// Returns chunks and coordinates of a finding, as far as it has them.
pub(crate) fn extent(finding: &Finding) -> Option<String> {
    // an array without dimensions has one chunk, and nothing that tells where it is
    let chunks = chunks(finding).filter(|_| finding.chunks.iter().flatten().any(|one| !one.first.is_empty()));
    let words: Vec<String> = [chunks, coordinates(finding)].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Returns how many findings there are, those of which there are some: `2 errors, 1 note`; `no findings`.
pub(crate) fn counts(counts: &FindingCounts) -> String {
    let parts = [
        (counts.errors, "error", "errors"),
        (counts.warnings, "warning", "warnings"),
        (counts.infos, "note", "notes"),
    ];
    let some = parts.into_iter().filter(|(number, ..)| *number > 0);
    let words: Vec<String> = some.map(|(number, one, many)| format::counted(number, one, many)).collect();
    if words.is_empty() { "no findings".into() } else { words.join(", ") }
}

/// Returns `text` with at most `most` characters: of a longer one the first and the last, with what was left
/// out between them.
pub(crate) fn clipped(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most || text.chars().nth(most).is_none() {
        return Cow::Borrowed(text);
    }
    let length = text.chars().count();
    let kept = most.saturating_sub(32).max(2);
    let (head, tail) = (kept - kept / 2, kept / 2);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    Cow::Owned(format!("{start}[{} more characters]{end}", format::count((length - head - tail) as u64)))
}

/// Returns the paragraphs of a text, which are apart by an empty line; their own lines are joined.
pub(crate) fn paragraphs(text: &str) -> Vec<String> {
    let joined = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    text.split("\n\n").map(joined).filter(|paragraph| !paragraph.is_empty()).collect()
}

/// Returns whether a remedy is a command line rather than a sentence.
///
/// Rules write commands of the programs that their users have; a sentence begins with a verb.
pub(crate) fn is_command(remedy: &str) -> bool {
    const PROGRAMS: [&str; 12] =
        ["aws", "az", "cp", "dvc", "gcloud", "git", "git-annex", "gsutil", "mv", "python", "rm", "zkit"];
    remedy.split_once(' ').is_some_and(|(program, _)| PROGRAMS.contains(&program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use proptest::prelude::*;
    use serde_json::json;

    fn boxes(grid: ChunkGrid, boxes: &[(&[u64], &[u64])]) -> Finding {
        let chunks =
            boxes.iter().map(|(first, last)| ChunkBox { first: first.to_vec(), last: last.to_vec() });
        Finding { grid, chunks: Some(chunks.collect()), ..samples::finding("missing-slab") }
    }

    #[test]
    fn the_chunk_of_an_array_without_dimensions_is_not_named() {
        let scalar = ChunkBox { first: Vec::new(), last: Vec::new() };
        let mut finding = samples::report().findings.remove(0);
        finding.evidence.clear();
        finding.chunks = Some(vec![scalar]);
        assert_eq!(extent(&finding), None);
    }

    #[test]
    fn boxes_are_ranges_of_indices() {
        let some = boxes(ChunkGrid::Stored, &[(&[4, 0], &[7, 0])]);
        assert_eq!(chunks(&some).as_deref(), Some("chunks [4..7, 0]"));
        let one = boxes(ChunkGrid::Inner, &[(&[3], &[3])]);
        assert_eq!(chunks(&one).as_deref(), Some("inner chunk [3]"));
        let many = boxes(ChunkGrid::Stored, &[(&[0], &[0]), (&[2], &[2]), (&[4], &[5]), (&[7], &[u64::MAX])]);
        assert_eq!(chunks(&many).as_deref(), Some("chunks [0], [2], [4..5] and 1 more box"));
        assert_eq!(chunks(&boxes(ChunkGrid::Stored, &[])), None);
        assert_eq!(number_of_chunks(many.chunks.as_deref().unwrap()), u64::MAX - 2);
    }

    #[test]
    fn coordinates_name_first_and_last() {
        let mut finding = samples::finding("nan-slab");
        finding.evidence.insert(
            "coordinates".into(),
            json!({"time": ["2021-03-29", "2021-03-31"], "level": [850, 850], "id": "x7"}),
        );
        assert_eq!(coordinates(&finding).as_deref(), Some("time 2021-03-29..2021-03-31, level 850, id x7"));
        finding.evidence.insert("coordinates".into(), json!(7));
        assert_eq!(coordinates(&finding), None);
    }

    #[test]
    fn counts_name_what_there_is() {
        assert_eq!(counts(&FindingCounts { errors: 2, warnings: 0, infos: 1 }), "2 errors, 1 note");
        assert_eq!(counts(&FindingCounts::default()), "no findings");
    }

    #[test]
    fn lines_of_a_paragraph_are_joined() {
        assert_eq!(paragraphs("a\nb\n\n\nc  d\n"), ["a b", "c d"]);
        assert!(paragraphs("").is_empty());
    }

    #[test]
    fn commands_are_told_from_sentences() {
        assert!(is_command("zkit recompress a.zarr b.zarr"));
        assert!(is_command("git lfs pull"));
        assert!(!is_command("write the missing chunks again"));
        assert!(!is_command("zkit"));
    }

    proptest! {
        #[test]
        fn clipped_texts_are_short_and_short_texts_stay(text in any::<String>(), most in 40_usize..80) {
            let shown = clipped(&text, most);
            prop_assert!(shown.chars().count() <= most);
            if text.chars().count() <= most {
                prop_assert_eq!(shown, text.as_str());
            }
        }
    }
}
