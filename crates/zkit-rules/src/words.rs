//! Where something lies, in the words of its coordinates.

use zkit_core::select::range_in_words;
use zkit_report::{ChunkBox, ChunkGrid};

use crate::observe::{ArrayObservation, StoreObservation};

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
    if parts.is_empty() { "all of it".to_owned() } else { parts.join(", ") }
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
    use crate::testing::{TestStore, coordinate_array};

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
            let boxes = vec![one; 5];
            assert!(boxes_in_words(observed, array, &boxes, ChunkGrid::Stored).ends_with("; 2 more"));
        });
    }
}
