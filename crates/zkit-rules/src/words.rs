//! Where something lies, in the words of its coordinates.

use serde_json::Value;
use zkit_core::select::range_in_words;
use zkit_report::{ChunkBox, ChunkGrid, Finding};

use crate::observe::{ArrayObservation, StoreObservation};

/// What is said of an array's whole.
const ALL: &str = "all of it";
/// Boxes that are put into words at most.
const BOXES_MOST: usize = 3;

/// Returns which part of an array a box of chunks is: `time 2021-03-29..31, level 850`; `all of it` where it is all.
///
/// Dimensions that the box holds whole are left out. Where a coordinate was not read, indices stand for values:
/// `time[84..87]`.
pub fn box_in_words(
    store: &StoreObservation<'_>,
    array: &ArrayObservation<'_>,
    one: &ChunkBox,
    grid: ChunkGrid,
) -> String {
    let metadata = &array.node.metadata;
    let inner = metadata.chunk_shape();
    let mut parts = Vec::new();
    for (dimension, &length) in metadata.shape().iter().enumerate() {
        let (Some(&first), Some(&last)) = (one.first.get(dimension), one.last.get(dimension)) else {
            continue;
        };
        let (start, end) = match grid {
            ChunkGrid::Stored => {
                let mut index = vec![0; metadata.grid.rank()];
                index[dimension] = first;
                let from = metadata.grid.chunk_region(&index).start[dimension];
                index[dimension] = last;
                let to = metadata.grid.chunk_region(&index);
                (from, to.start[dimension].saturating_add(to.shape[dimension]))
            }
            ChunkGrid::Inner => {
                let chunk = inner.get(dimension).copied().unwrap_or(1);
                (first.saturating_mul(chunk), last.saturating_add(1).saturating_mul(chunk))
            }
        };
        if start == 0 && end >= length {
            continue;
        }
        parts.push(span_in_words(store, array, dimension, start, end.min(length).saturating_sub(1)));
    }
    if parts.is_empty() { ALL.to_owned() } else { parts.join(", ") }
}

/// Returns a word as a shell takes it: quoted where it holds more than plain characters.
pub fn shell_quoted(word: &str) -> String {
    let plain = |character: char| character.is_alphanumeric() || "_-./:@%+,=".contains(character);
    match !word.is_empty() && !word.starts_with('-') && word.chars().all(plain) {
        true => word.to_owned(),
        // a word that begins like an option is none behind a folder
        false if word.starts_with('-') => shell_quoted(&format!("./{word}")),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Returns several boxes in words; of many the first ones and how many there are beside them.
pub fn boxes_in_words(
    store: &StoreObservation<'_>,
    array: &ArrayObservation<'_>,
    boxes: &[ChunkBox],
    grid: ChunkGrid,
) -> String {
    let mut words: Vec<String> =
        boxes.iter().take(BOXES_MOST).map(|one| box_in_words(store, array, one, grid)).collect();
    if boxes.len() > BOXES_MOST {
        words.push(format!("{} more", boxes.len() - BOXES_MOST));
    }
    words.join("; ")
}

/// Says in findings where their chunks lie, as `where` in the evidence and behind the message; findings of arrays none of
/// whose coordinates was read stay as they are, and so do those that say it themselves.
pub(crate) fn name_places(store: &StoreObservation<'_>, findings: &mut [Finding]) {
    for finding in findings {
        if finding.evidence.contains_key("where") {
            continue;
        }
        let Some(array) = finding.array.as_deref().and_then(|path| store.array(path)) else { continue };
        let Some(boxes) = finding.chunks.as_deref().filter(|boxes| !boxes.is_empty()) else { continue };
        let rank = array.node.metadata.shape().len();
        let read = (0..rank).filter_map(|dimension| store.coordinate_of(array, dimension));
        // a coordinate does not name its own places
        let mut read = read.filter(|found| found.path() != array.path());
        if !read.any(|found| store.coordinate(found.path()).is_some()) {
            continue;
        }
        let words = boxes_in_words(store, array, boxes, finding.grid);
        if words != ALL {
            finding.message.push_str(&format!(" ({words})"));
        }
        finding.evidence.insert("where".to_owned(), Value::from(words));
    }
}

/// Returns an inclusive range of positions along a dimension in words: `time 2021-03-29..31`, or `time[84..87]`.
pub fn span_in_words(
    store: &StoreObservation<'_>,
    array: &ArrayObservation<'_>,
    dimension: usize,
    first: u64,
    last: u64,
) -> String {
    let name = array.dimension_label(dimension);
    let coordinate = store.coordinate_of(array, dimension).and_then(|found| store.coordinate(found.path()));
    match (coordinate, usize::try_from(first), usize::try_from(last)) {
        (Some(read), Ok(from), Ok(to)) if to < read.coordinate.len() => {
            format!("{name} {}", range_in_words(&read.coordinate, from, to))
        }
        _ if first == last => format!("{name}[{first}]"),
        _ => format!("{name}[{first}..{last}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestStore, coordinate_array, v2_array};

    #[test]
    fn boxes_are_named_by_coordinates_where_they_were_read() {
        let store = TestStore::new();
        let hours: Vec<i64> = (0..20).map(|step| step * 6).collect();
        let store = coordinate_array(store, "time", &hours, r#"{"units": "hours since 2021-03-29"}"#)
            .array(
                "t2m",
                r#"{"zarr_format": 2, "shape": [20, 3], "chunks": [4, 3], "dtype": "<f4", "fill_value": 0,
                    "compressor": null, "filters": null, "order": "C"}"#,
            )
            .file("t2m/.zattrs", br#"{"_ARRAY_DIMENSIONS": ["time", "x"]}"#);
        store.observed(|observed| {
            let array = observed.array("/t2m").unwrap();
            let one = ChunkBox { first: vec![1, 0], last: vec![1, 0] };
            assert_eq!(
                box_in_words(observed, array, &one, ChunkGrid::Stored),
                "time 2021-03-30..2021-03-30T18:00"
            );
            let all = ChunkBox { first: vec![0, 0], last: vec![4, 0] };
            assert_eq!(box_in_words(observed, array, &all, ChunkGrid::Stored), "all of it");
            assert_eq!(span_in_words(observed, array, 1, 1, 2), "x[1..2]");
            let mut findings = crate::check_store(observed);
            findings.retain(|finding| finding.rule == "metadata-only-array");
            assert_eq!(findings[0].evidence["where"], "all of it");
            let boxes = vec![one; 5];
            assert!(boxes_in_words(observed, array, &boxes, ChunkGrid::Stored).ends_with("; 2 more"));
        });
    }

    #[test]
    fn findings_say_where_their_chunks_lie() {
        let store = TestStore::new();
        let days: Vec<i64> = (0..8).collect();
        let mut store = coordinate_array(store, "time", &days, r#"{"units": "days since 2021-03-25"}"#)
            .array("t2m", &v2_array(&[8, 3], &[1, 3]))
            .file("t2m/.zattrs", br#"{"_ARRAY_DIMENSIONS": ["time", "x"]}"#);
        for day in [0, 1, 2, 3] {
            store = store.file(&format!("t2m/{day}.0"), &[1; 12]);
        }
        let found = store.findings("missing-slab");
        assert_eq!(found[0].evidence["where"], "time 2021-03-29..2021-04-01");
        assert!(found[0].message.ends_with(" (time 2021-03-29..2021-04-01)"), "{}", found[0].message);
    }
}
