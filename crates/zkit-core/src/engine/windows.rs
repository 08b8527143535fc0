//! Which regions of an array a verification compares.

use crate::grid::{Grid, Region};
use crate::metadata::AbsentChunks;
use crate::plan::{ArrayCopy, Gather, Strategy};
use crate::units::saturating_usize;

/// Bytes of an array out of which one is compared.
const SAMPLE_EVERY: u64 = 100;
/// Chunks of either grid that a window touches, at most, along all dimensions together.
const WINDOW_CHUNKS: u64 = 8;
/// Windows of one array, at most.
const MOST_WINDOWS: u64 = 1 << 16;
/// Decoded bytes of a window, at most, but for one element; up to the larger number where chunks are that large, as they
/// are decoded whole.
const WINDOW_BYTES: (u64, u64) = (8 << 20, 64 << 20);
/// Windows where the source has no chunk.
const ABSENT_WINDOWS: u64 = 4;

/// A region to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Window {
    /// Its elements.
    pub(super) region: Region,
    /// The stored source chunk that it is, where it is just one.
    pub(super) chunk: Option<u64>,
}

impl Window {
    /// Returns its decoded bytes.
    pub(super) fn bytes(&self, array: &ArrayCopy) -> u64 {
        let item = array.source.metadata.data_type.item_bytes().unwrap_or(64);
        self.region.elements().unwrap_or(u64::MAX).saturating_mul(item)
    }
}

/// Returns a stratified sample, which depends on the array's path alone: windows at the first and the last stored
/// chunk, at the stored chunks nearest the end of each dimension, at a few absent ones, and one byte in a hundred of
/// the others.
pub(super) fn sample(array: &ArrayCopy) -> Vec<Window> {
    let grid = &array.source.metadata.grid;
    let stored = &array.stored;
    if array.source.metadata.shape().contains(&0) {
        return Vec::new();
    }
    let mut random = Random(xxhash_rust::xxh3::xxh3_64(array.source.path.as_bytes()));
    if let Some(gather) = &array.gather {
        return sample_gathered(array, gather, &mut random);
    }
    let mut ranks = vec![0, stored.len().saturating_sub(1)];
    let window = window_at(array, &vec![0; grid.rank()], &mut random);
    let wanted = array
        .source
        .metadata
        .decoded_bytes()
        .map_or(stored.len(), |bytes| bytes / SAMPLE_EVERY / window.bytes(array).max(1));
    let wanted = wanted.clamp(1, MOST_WINDOWS);
    // evenly spread, with a random place in each stratum; a chunk may be drawn more than once
    for at in 0..wanted {
        let (from, to) = (at * stored.len() / wanted, (at + 1) * stored.len() / wanted);
        ranks.push(from + random.below(to - from));
    }
    ranks.sort_unstable();
    let mut chosen = Vec::with_capacity(ranks.len());
    let mut next = ranks.into_iter().peekable();
    for (rank, position) in stored.iter().enumerate() {
        while next.next_if_eq(&(rank as u64)).is_some() {
            chosen.push(position);
        }
    }
    chosen.extend(edges(array));
    let mut windows: Vec<Window> = chosen
        .into_iter()
        .map(|position| {
            let window = window_at(array, &grid.index_at(position), &mut random);
            Window { chunk: Some(position), ..window }
        })
        .collect();
    let total = grid.total().unwrap_or(u64::MAX);
    if stored.len() < total && array.source.metadata.unknown_codecs().is_empty() {
        let absent = (0..ABSENT_WINDOWS).map(|_| random.below(total)).filter(|&at| !stored.contains(at));
        let absent: Vec<u64> = absent.collect();
        windows.extend(absent.iter().map(|&at| window_at(array, &grid.index_at(at), &mut random)));
    }
    windows.dedup();
    let bytes = windows.iter().map(|window| window.bytes(array)).fold(0, u64::saturating_add);
    match array.source.metadata.decoded_bytes() {
        // of a small array a sample is more than all of it
        Some(whole) if bytes > whole => all(array, whole),
        _ => windows,
    }
}

/// Returns windows of an array that is gathered: what the first chunk of its sources gives, the last, and one in a hundred
/// of the others. What is compared is little; what is decoded for it is a whole chunk each time.
fn sample_gathered(array: &ArrayCopy, gather: &Gather, random: &mut Random) -> Vec<Window> {
    let grid = &array.source.metadata.grid;
    let total = grid.total().unwrap_or(0);
    let mut chosen = vec![0, total - 1];
    let strata = (total / SAMPLE_EVERY).clamp(1, MOST_WINDOWS);
    for at in 0..strata {
        let (from, to) = (at * total / strata, (at + 1) * total / strata);
        chosen.push(from + random.below(to - from));
    }
    chosen.sort_unstable();
    chosen.dedup();
    let window = |position: u64| {
        let mut region = grid.chunk_region(&grid.index_at(position));
        for (d, axis) in gather.axes.iter().enumerate() {
            if let Some(places) = axis.places() {
                // what lies together in the source is spread over the copy
                (region.start[d], region.shape[d]) = (places[saturating_usize(region.start[d])], 1);
            } else if gather.is_pointwise(d) {
                // each point is read, and its chunk decoded, alone
                (region.start[d], region.shape[d]) = (region.start[d] + random.below(region.shape[d]), 1);
            }
        }
        smaller(Window { region, chunk: None }, array, WINDOW_BYTES.0, random)
    };
    chosen.into_iter().map(window).collect()
}

/// Returns a window at a source chunk, halved along its longest dimension, to a random half, until it is small enough;
/// one that stands for a chunk that zkit does not decode is that chunk.
fn window_at(array: &ArrayCopy, chunk_index: &[u64], random: &mut Random) -> Window {
    let window = windows_of(array, chunk_index, random);
    if !array.source.metadata.unknown_codecs().is_empty() {
        return window;
    }
    let most = array.decoded_chunk_bytes().clamp(WINDOW_BYTES.0, WINDOW_BYTES.1);
    smaller(window, array, most, random)
}

/// Halves a window along its longest dimension, to a random half, until it takes at most so many bytes.
fn smaller(mut window: Window, array: &ArrayCopy, most: u64, random: &mut Random) -> Window {
    while window.bytes(array) > most {
        let region = &mut window.region;
        let Some(d) = (0..region.shape.len()).max_by_key(|&d| region.shape[d]) else { break };
        if region.shape[d] < 2 {
            break;
        }
        let half = region.shape[d].div_ceil(2);
        region.start[d] += random.below(2) * (region.shape[d] - half);
        region.shape[d] = half;
    }
    window
}

/// Returns every region of an array that is not absent on both sides: together they cover what is stored.
pub(super) fn all(array: &ArrayCopy, window_bytes: u64) -> Vec<Window> {
    let (source, target) = (&array.source.metadata.grid, &array.target.metadata.grid);
    let rechunk = array.rechunk.as_ref().filter(|_| array.source.metadata.unknown_codecs().is_empty());
    let Some(rechunk) = rechunk else {
        let mut windows = Vec::new();
        let mut take = |position: u64| {
            let region = source.chunk_region(&source.index_at(position));
            let chunk = array.stored.contains(position).then_some(position);
            let window = Window { region, chunk };
            // what is compared as it is stored is compared whole
            if window.bytes(array) <= window_bytes || array.strategy == Strategy::CopyBytes {
                return windows.push(window);
            }
            cut(window, array, window_bytes, &mut windows);
        };
        match array.absent {
            AbsentChunks::Leave => array.stored.iter().for_each(&mut take),
            AbsentChunks::Write => (0..array.visited()).for_each(&mut take),
        }
        return windows;
    };
    let item = array.source.metadata.data_type.item_bytes().unwrap_or(64);
    let units: Vec<u64> = match array.absent {
        AbsentChunks::Leave => rechunk.units_of(source, target, &array.stored).iter().collect(),
        AbsentChunks::Write => (0..rechunk.units()).collect(),
    };
    let mut windows = Vec::new();
    for unit in units {
        split(rechunk.unit_region(target, unit), target, item, window_bytes, &mut windows);
    }
    windows
}

/// Halves a window along its longest dimension until its parts are small enough.
fn cut(window: Window, array: &ArrayCopy, window_bytes: u64, windows: &mut Vec<Window>) {
    let shape = &window.region.shape;
    let longest = (0..shape.len()).max_by_key(|&d| shape[d]).filter(|&d| shape[d] > 1);
    let Some(d) = longest.filter(|_| window.bytes(array) > window_bytes) else {
        return windows.push(window);
    };
    let (mut low, mut high) = (Window { chunk: None, ..window.clone() }, Window { chunk: None, ..window });
    low.region.shape[d] /= 2;
    high.region.start[d] += low.region.shape[d];
    high.region.shape[d] -= low.region.shape[d];
    cut(low, array, window_bytes, windows);
    cut(high, array, window_bytes, windows);
}

/// Halves a region along edges of the copy's chunks until its parts are small enough.
fn split(region: Region, target: &Grid, item: u64, window_bytes: u64, windows: &mut Vec<Window>) {
    let bytes = region.elements().unwrap_or(u64::MAX).saturating_mul(item);
    let chunks = target.chunks_of(&region);
    let longest = (0..chunks.len()).max_by_key(|&d| chunks[d].end - chunks[d].start);
    let Some(d) = longest.filter(|&d| bytes > window_bytes && chunks[d].end - chunks[d].start > 1) else {
        windows.push(Window { region, chunk: None });
        return;
    };
    let middle = (chunks[d].start + chunks[d].end) / 2 * target.largest_chunk_shape()[d];
    let (mut low, mut high) = (region.clone(), region);
    low.shape[d] = middle - low.start[d];
    high.start[d] = middle;
    high.shape[d] -= low.shape[d];
    split(low, target, item, window_bytes, windows);
    split(high, target, item, window_bytes, windows);
}

/// Returns, for each dimension, a stored chunk that reaches furthest along it, if it is easy to find.
fn edges(array: &ArrayCopy) -> Vec<u64> {
    let grid = &array.source.metadata.grid;
    let last: Vec<u64> = grid.counts().iter().map(|count| count.saturating_sub(1)).collect();
    (0..grid.rank())
        .filter_map(|d| {
            let mut index = vec![0; grid.rank()];
            index[d] = last[d];
            grid.position_of(&index).filter(|&position| array.stored.contains(position))
        })
        .collect()
}

/// Returns a window at a source chunk: a part of it that touches few chunks of the copy, and as much of its
/// neighbours as lies in the same chunks of the copy, but few of them.
fn windows_of(array: &ArrayCopy, chunk_index: &[u64], random: &mut Random) -> Window {
    let (source, target) = (&array.source.metadata.grid, &array.target.metadata.grid);
    let mut region = source.chunk_region(chunk_index);
    if !array.is_rechunked() {
        return Window { region, chunk: None };
    }
    let chunk_shape = target.largest_chunk_shape();
    let (mut targets_left, mut sources_left) = (WINDOW_CHUNKS, WINDOW_CHUNKS);
    for d in (0..region.shape.len()).rev() {
        let touched = target.chunks_of(&region)[d].clone();
        let count = touched.end - touched.start;
        if count > 1 {
            // a run of whole chunks of the copy, at a random place, sometimes the last
            let taken = count.min(targets_left).max(1);
            targets_left = (targets_left / taken).max(1);
            let first = touched.start + random.below(count - taken + 1);
            let start = (first * chunk_shape[d]).max(region.start[d]);
            let end = ((first + taken) * chunk_shape[d]).min(region.start[d] + region.shape[d]);
            (region.start[d], region.shape[d]) = (start, end - start);
        } else if region.shape[d] > 0 {
            let end = ((touched.start + 1) * chunk_shape[d]).min(source.shape()[d]);
            let mut reach = region.start[d] + region.shape[d];
            let mut taken = 1;
            while reach < end && taken < sources_left {
                let next = source.chunk_along(d, reach);
                reach = next.start.saturating_add(next.length).min(end);
                taken += 1;
            }
            sources_left = (sources_left / taken).max(1);
            region.shape[d] = reach - region.start[d];
        }
    }
    Window { region, chunk: None }
}

/// A sequence that looks random and is the same each time.
struct Random(u64);

impl Random {
    /// Returns a number below `bound`, 0 for 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = xxhash_rust::xxh3::xxh3_64_with_seed(&self.0.to_le_bytes(), 1);
        self.0 % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::ChunkSet;
    use crate::hierarchy::ArrayNode;
    use crate::metadata::{ArrayMetadata, Json};

    /// An array of large chunks, all of them stored, that is recoded.
    fn array(shape: u64, chunk: u64) -> ArrayCopy {
        let text = format!(
            r#"{{"zarr_format":2,"shape":[{shape}],"chunks":[{chunk}],"dtype":"<f4","fill_value":0,"order":"C","compressor":null,"filters":null}}"#
        );
        let Json::Object(document) = Json::parse(text.as_bytes()).unwrap() else { panic!("an object") };
        let metadata =
            ArrayMetadata::parse_v2("/a", document, crate::metadata::Object::default(), &mut Vec::new())
                .unwrap();
        let node = ArrayNode { path: "/a".to_owned(), metadata };
        ArrayCopy {
            store: 0,
            source: node.clone(),
            target: node,
            strategy: Strategy::Recode,
            rechunk: None,
            spill: None,
            gather: None,
            why: String::new(),
            note: None,
            absent: AbsentChunks::Leave,
            stored: ChunkSet::first(shape.div_ceil(chunk)),
            known: None,
            stored_bytes: shape * 4,
            largest_bytes: chunk * 4,
        }
    }

    #[test]
    fn one_byte_in_a_hundred_is_compared_however_large_chunks_are() {
        for chunk in [1 << 18, 1 << 24, 1 << 27] {
            let array = array(400 * chunk, chunk);
            let windows = sample(&array);
            let bytes: u64 = windows.iter().map(|window| window.bytes(&array)).sum();
            let whole = 400 * chunk * 4;
            assert!(bytes >= whole / SAMPLE_EVERY, "{bytes} of {whole} in {} windows", windows.len());
            assert!(bytes <= whole / 20, "{bytes} of {whole}");
            assert!(windows.iter().all(|window| window.bytes(&array) <= WINDOW_BYTES.1));
        }
    }
}
