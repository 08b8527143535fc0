//! Reads pieces of chunks as they will be in a copy, from places spread over what is stored.

use crate::codec::{Chain, Scratch};
use crate::error::{Error, ErrorKind, Result};
use crate::grid::{ChunkSet, Grid, Region};
use crate::hierarchy::ArrayNode;
use crate::metadata::CodecSpec;
use crate::read::{ArrayReader, ReadContext, codec_error, read_slab};
use crate::store::Store;

/// Bytes of all pieces together; the last one may reach beyond.
const SAMPLE_BYTES: u64 = 4 << 20;

/// Bytes of one piece: a block of the largest size, and some.
const PIECE_BYTES: u64 = SAMPLE_BYTES / 3;

/// Pieces, where chunks are small.
const PIECES_MOST: usize = 8;

/// Stored chunks that are looked at, for pieces that are not one repeated element.
const PLACES: u64 = 12;

/// Chunks that a piece touches at most; and all pieces, three times as many.
const CHUNKS_LOCAL: u64 = 48;

/// The same where each chunk is fetched whole.
const CHUNKS_REMOTE: u64 = 12;

/// What samples are taken of.
#[derive(Debug, Clone, Copy)]
pub struct SampleSource<'a> {
    /// The store.
    pub store: &'a Store,
    /// The array.
    pub array: &'a ArrayNode,
    /// Its stored chunks.
    pub stored: &'a ChunkSet,
    /// Decoded bytes that one of its chunks may take; see [`ArrayReader::new`].
    pub chunk_limit: u64,
    /// What becomes of the filters in front of its compressor.
    pub filters: Filters,
}

/// What becomes of filters in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filters {
    /// The compressor sees elements.
    Undone,
    /// The compressor sees what filters made of them.
    Kept,
}

/// Returns canonical elements of up to 4 MiB in pieces of chunks of the copy, for [`choose_codec`](super::choose_codec).
///
/// A piece lies in one chunk of `target_chunk_shape` (of inner chunks where there are shards) and keeps the fastest
/// dimensions as whole as it can: they decide how the chunk compresses. Pieces of one repeated element are passed over
/// while there are others. Each piece reads at most 48 chunks, 12 of a remote store.
///
/// Returns nothing where nothing is stored, where elements have no fixed size, and where zkit does not decode the
/// array. Errors: those of reading. Waits on the calling thread, which must not be one of the pool.
pub fn sample_array(
    source: &SampleSource<'_>,
    target_chunk_shape: &[u64],
    context: ReadContext<'_>,
) -> Result<Vec<Vec<u8>>> {
    let metadata = &source.array.metadata;
    let Some(item_bytes) = metadata.data_type.item_bytes().filter(|&bytes| bytes > 0) else {
        return Ok(Vec::new());
    };
    if source.stored.is_empty() || !metadata.unknown_codecs().is_empty() {
        return Ok(Vec::new());
    }
    if source.filters == Filters::Kept
        && metadata.codecs.iter().any(|spec| matches!(spec, CodecSpec::Filter(_)))
    {
        return filtered(source, context);
    }
    let target = Grid::regular(metadata.shape(), target_chunk_shape)
        .map_err(|message| Error::new(ErrorKind::Unsupported, message))?;
    let chunks_most = if source.store.is_remote() { CHUNKS_REMOTE } else { CHUNKS_LOCAL };
    let reader = ArrayReader::new(source.store, source.array, source.chunk_limit)?;
    let piece = Piece { source: &metadata.grid, target: &target, item_bytes, chunks_most };

    let mut regions: Vec<Region> = Vec::new();
    for position in places(source.stored) {
        let region = piece.around(&metadata.grid.chunk_region(&metadata.grid.index_at(position)).start);
        if !region.is_empty() && !regions.contains(&region) {
            regions.push(region);
        }
    }
    let (mut samples, mut repeated, mut taken) = (Vec::new(), None, Taken::default());
    let mut left = regions.as_slice();
    while !left.is_empty() && !taken.is_enough(chunks_most) {
        // those that will do if none of them is one repeated element
        let mut hoped = taken;
        let count = left.iter().take_while(|region| {
            let wanted = !hoped.is_enough(chunks_most);
            hoped.add(piece.bytes(region), piece.chunks_touched(region));
            wanted
        });
        let (wave, rest) = left.split_at(count.count());
        left = rest;
        for (region, sample) in wave.iter().zip(read_wave(&reader, wave, context)) {
            let sample = sample?;
            if is_repeated(&sample, item_bytes) {
                taken.chunks += piece.chunks_touched(region);
                repeated.get_or_insert(sample);
            } else {
                taken.add(sample.len() as u64, piece.chunks_touched(region));
                samples.push(sample);
            }
        }
    }
    if samples.is_empty() {
        samples.extend(repeated);
    }
    Ok(samples)
}

/// What was read of an array.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    pieces: usize,
    bytes: u64,
    chunks: u64,
}

impl Taken {
    fn add(&mut self, bytes: u64, chunks: u64) {
        self.pieces += 1;
        self.bytes += bytes;
        self.chunks += chunks;
    }

    fn is_enough(&self, chunks_most: u64) -> bool {
        // the next piece may be as large as the largest one
        self.bytes + PIECE_BYTES > SAMPLE_BYTES + 3
            || self.pieces == PIECES_MOST
            || self.chunks >= 3 * chunks_most
    }
}

/// Reads regions; those of a remote store side by side.
fn read_wave(reader: &ArrayReader<'_>, regions: &[Region], context: ReadContext<'_>) -> Vec<Result<Vec<u8>>> {
    let read = |region: &Region| {
        context.cancel.check()?;
        let mut sample = Vec::new();
        read_slab(reader, region, &mut sample, context).map(|()| sample)
    };
    if !reader.store().is_remote() {
        return regions.iter().map(read).collect();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = regions.iter().map(|region| scope.spawn(|| read(region))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|read| read.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Returns what filters made of a few chunks.
fn filtered(source: &SampleSource<'_>, context: ReadContext<'_>) -> Result<Vec<Vec<u8>>> {
    let metadata = &source.array.metadata;
    let (mut samples, mut encoded, mut key) = (Vec::new(), Vec::new(), String::new());
    let mut scratch = Scratch::new();
    let mut bytes = 0;
    for position in places(source.stored) {
        context.cancel.check()?;
        let index = metadata.grid.index_at(position);
        let chain = Chain::compile(metadata, &metadata.grid.chunk_shape(&index)).map_err(codec_error)?;
        let behind =
            chain.specs().enumerate().filter(|(_, spec)| matches!(spec, CodecSpec::Filter(_))).last();
        source.array.chunk_key(&index, &mut key);
        if source.store.get(&key, source.chunk_limit, &mut encoded)? {
            let mut sample = Vec::new();
            let boundary = behind.map_or(0, |(at, _)| at + 1);
            chain
                .decode_to(boundary, &mut scratch, &encoded, source.chunk_limit, &mut sample)
                .map_err(codec_error)?;
            bytes += sample.len() as u64;
            samples.push(sample);
        }
        if bytes >= SAMPLE_BYTES || samples.len() == PIECES_MOST {
            break;
        }
    }
    Ok(samples)
}

/// Returns positions of stored chunks, spread over all of them, those far from each other first.
fn places(stored: &ChunkSet) -> Vec<u64> {
    let count = stored.len();
    let places = count.min(PLACES);
    // the middles of equal parts: the first and the last chunk of an array are mostly not like the others
    let ranks: Vec<u64> = (0..places).map(|part| count / places * part + count / places / 2).collect();
    let mut ranks = ranks.into_iter().peekable();
    let spread: Vec<u64> = stored
        .iter()
        .enumerate()
        .filter(|(rank, _)| ranks.next_if_eq(&(*rank as u64)).is_some())
        .map(|(_, position)| position)
        .collect();
    let third = spread.len().div_ceil(3).max(1);
    let turn = |start: usize| spread[start..].iter().step_by(third);
    (0..third.min(spread.len())).flat_map(turn).copied().collect()
}

/// Returns whether all elements are the same.
fn is_repeated(sample: &[u8], item_bytes: u64) -> bool {
    let item = crate::units::saturating_usize(item_bytes);
    sample.len() <= item || sample[item..] == sample[..sample.len() - item]
}

/// How pieces are cut.
struct Piece<'a> {
    source: &'a Grid,
    target: &'a Grid,
    item_bytes: u64,
    chunks_most: u64,
}

impl Piece<'_> {
    /// Returns a box around an element, inside one chunk of the target: from the last dimension to the first it takes
    /// what the limits of bytes and chunks leave.
    fn around(&self, element: &[u64]) -> Region {
        let mut region = Region { start: element.to_vec(), shape: vec![1; element.len()] };
        let (mut elements, mut chunks) = ((PIECE_BYTES / self.item_bytes).max(1), self.chunks_most);
        for dimension in (0..element.len()).rev() {
            let (start, end) = self.range(dimension, element[dimension], elements, chunks);
            region.start[dimension] = start;
            region.shape[dimension] = end - start;
            elements /= (end - start).max(1);
            chunks /= self.chunks_between(dimension, start, end).max(1);
        }
        region
    }

    /// Returns a range around an element along one dimension, of at most so many elements and chunks (1 where that
    /// is 0).
    fn range(&self, dimension: usize, element: u64, elements: u64, chunks: u64) -> (u64, u64) {
        let span = self.target.chunk_along(dimension, element);
        let border = self.target.shape()[dimension].min(span.start + span.length);
        let length = elements.clamp(1, (border - span.start).max(1));
        let start = element.min(border.saturating_sub(length)).max(span.start);
        let end = self.end_of(dimension, start, chunks).min(start + length);
        if end > element {
            return (start, end);
        }
        // too many chunks lie in front of the element
        (element, self.end_of(dimension, element, chunks).min(element + length).min(border))
    }

    /// Returns where the last of so many chunks ends that begin with that of an element.
    fn end_of(&self, dimension: usize, element: u64, chunks: u64) -> u64 {
        let length = self.source.shape()[dimension];
        let mut end = element;
        for _ in 0..chunks.max(1) {
            if end >= length {
                break;
            }
            let span = self.source.chunk_along(dimension, end);
            end = span.start.saturating_add(span.length);
        }
        end.min(length)
    }

    fn chunks_between(&self, dimension: usize, start: u64, end: u64) -> u64 {
        let index = |element| self.source.chunk_along(dimension, element).index;
        index(end.saturating_sub(1).max(start)) - index(start) + 1
    }

    fn bytes(&self, region: &Region) -> u64 {
        region.elements().unwrap_or(u64::MAX).saturating_mul(self.item_bytes)
    }

    fn chunks_touched(&self, region: &Region) -> u64 {
        let dimensions = region.start.iter().zip(&region.shape).enumerate();
        dimensions
            .map(|(dimension, (&start, &length))| self.chunks_between(dimension, start, start + length))
            .product()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::cancel::Cancel;
    use crate::event::Meter;
    use crate::hierarchy::Hierarchy;
    use crate::location::StoreUrl;
    use crate::store::StoreOptions;

    const SIDE: u64 = 64;

    /// Writes an array of 12 layers, each a chunk; the first four hold one number each, the others count up.
    fn layers(folder: &Path) -> Hierarchy {
        let metadata = r#"{"zarr_format":2,"shape":[12,64,64],"chunks":[1,64,64],"dtype":"<u4","fill_value":0,"compressor":null,"filters":null,"order":"C"}"#;
        std::fs::write(folder.join(".zarray"), metadata).unwrap();
        for layer in 0..12u32 {
            let number = |at| if layer < 4 { layer } else { layer * 4096 + at };
            let bytes: Vec<u8> = (0..4096).flat_map(|at| number(at).to_le_bytes()).collect();
            std::fs::write(folder.join(format!("{layer}.0.0")), bytes).unwrap();
        }
        Hierarchy::open(&StoreUrl::Local(folder.to_owned()), &StoreOptions::default()).unwrap()
    }

    fn samples_of(hierarchy: &Hierarchy, stored: &[u64], chunk_shape: &[u64]) -> Vec<Vec<u8>> {
        let mut set = ChunkSet::default();
        for &position in stored {
            set.insert(position);
        }
        let source = SampleSource {
            store: hierarchy.readable_store().unwrap(),
            array: &hierarchy.arrays[0],
            stored: &set,
            chunk_limit: 1 << 20,
            filters: Filters::Undone,
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let context = ReadContext {
            pool: &pool,
            cancel: &Cancel::default(),
            meter: &Meter::default(),
            in_flight_bytes: ReadContext::IN_FLIGHT_BYTES,
        };
        sample_array(&source, chunk_shape, context).unwrap()
    }

    #[test]
    fn pieces_are_chunks_as_they_will_be() {
        let folder = tempfile::tempdir().unwrap();
        let hierarchy = layers(folder.path());
        let samples = samples_of(&hierarchy, &[5, 7, 9], &[12, 16, 16]);
        // one chunk of the copy holds the corners of all layers
        assert_eq!(samples.len(), 1);
        assert_eq!(samples[0].len(), 12 * 16 * 16 * 4);
        let number = |at: usize| u32::from_le_bytes(samples[0][at * 4..][..4].try_into().unwrap());
        assert_eq!(number(9 * 256 + 3 * 16 + 5), 9 * 4096 + 3 * 64 + 5);
        let samples = samples_of(&hierarchy, &[5, 7, 9], &[1, SIDE, SIDE]);
        assert_eq!(samples.len(), 3);
    }

    #[test]
    fn pieces_of_one_element_are_the_last_resort() {
        let folder = tempfile::tempdir().unwrap();
        let hierarchy = layers(folder.path());
        let chunk_shape = [1, SIDE, SIDE];
        let all: Vec<u64> = (0..12).collect();
        assert!(samples_of(&hierarchy, &all, &chunk_shape).iter().all(|sample| !is_repeated(sample, 4)));
        assert_eq!(samples_of(&hierarchy, &[1, 2, 3], &chunk_shape).len(), 1);
        assert!(samples_of(&hierarchy, &[], &chunk_shape).is_empty());
    }

    #[test]
    fn places_are_spread_and_few() {
        let mut stored = ChunkSet::default();
        for position in 0..100_000 {
            stored.insert(position * 3);
        }
        let places = places(&stored);
        assert_eq!(places.len() as u64, PLACES);
        assert!(places[0].abs_diff(places[1]) > 75_000, "{places:?}");
        let mut one = ChunkSet::default();
        one.insert(7);
        assert_eq!(super::places(&one), [7]);
    }

    #[test]
    fn every_fixture_gives_samples() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        for name in ["ostia_sst.zarr", "era_interim_geopotential.zarr", "sharded_index_end.zarr"] {
            let hierarchy =
                Hierarchy::open(&StoreUrl::Local(fixtures.join(name)), &StoreOptions::default()).unwrap();
            let store = hierarchy.readable_store().unwrap();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
            let context = ReadContext {
                pool: &pool,
                cancel: &Cancel::default(),
                meter: &Meter::default(),
                in_flight_bytes: ReadContext::IN_FLIGHT_BYTES,
            };
            for array in &hierarchy.arrays {
                let mut stored = ChunkSet::default();
                stored.insert(0);
                let source = SampleSource {
                    store,
                    array,
                    stored: &stored,
                    chunk_limit: 1 << 30,
                    filters: Filters::Undone,
                };
                let shape = array.metadata.chunk_shape();
                let samples = sample_array(&source, &shape, context).unwrap();
                assert_eq!(samples.is_empty(), array.metadata.data_type.is_variable(), "{}", array.path);
            }
        }
    }

    fn dimensions() -> impl Strategy<Value = Vec<(u64, u64, u64, u64)>> {
        let dimension =
            (1..3000u64).prop_flat_map(|length| (Just(length), 1..=length, 1..=length, 0..length));
        prop::collection::vec(dimension, 0..4)
    }

    proptest! {
        #[test]
        fn pieces_keep_their_limits(dimensions in dimensions(), item_bytes in 1..20u64, chunks_most in 1..50u64) {
            let shape: Vec<u64> = dimensions.iter().map(|dimension| dimension.0).collect();
            let source: Vec<u64> = dimensions.iter().map(|dimension| dimension.1).collect();
            let target: Vec<u64> = dimensions.iter().map(|dimension| dimension.2).collect();
            let element: Vec<u64> = dimensions.iter().map(|dimension| dimension.3).collect();
            let (source, target) = (Grid::regular(&shape, &source).unwrap(), Grid::regular(&shape, &target).unwrap());
            let piece = Piece { source: &source, target: &target, item_bytes, chunks_most };
            let region = piece.around(&element);
            let point = Region { shape: vec![1; shape.len()], start: element };
            prop_assert_eq!(region.intersection(&point), point);
            prop_assert_eq!(region.intersection(&Region::whole(&shape)), region.clone());
            prop_assert!(region.elements().unwrap() * item_bytes <= PIECE_BYTES.max(item_bytes));
            prop_assert!(piece.chunks_touched(&region) <= chunks_most);
            let touched = source.chunks_of(&region).iter().map(|range| range.end - range.start).product::<u64>();
            prop_assert_eq!(piece.chunks_touched(&region), touched);
            prop_assert!(target.chunks_of(&region).iter().all(|range| range.end - range.start == 1));
        }
    }
}
