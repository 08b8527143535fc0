//! Whether arrays hold what those that they were written from hold: samples of both, aligned position by position.

mod numbers;

use xxhash_rust::xxh3::xxh3_64_with_seed;

pub use numbers::Packed;

use super::digest::footprint;
use super::lanes::{self, Lane, Resources};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Observer;
use crate::grid::{ChunkSet, Region, for_each_index, product};
use crate::hierarchy::ArrayNode;
use crate::read::{ArrayReader, ReadContext, read_slab};
use crate::store::Store;
use crate::units::saturating_usize;
use numbers::Numbers;

/// What is held of either side at once, decoded, at most; a source that is scattered is read in boxes of this size.
const WINDOW_BYTES: u64 = 8 << 20;
/// Elements without fixed size are taken to need so many bytes.
const VARIABLE_ITEM_ESTIMATE: u64 = 64;
/// Windows of one array in a sample,
const WINDOWS_MOST: u64 = 16;
/// and where all is compared: of larger grids so many are drawn.
const CHUNKS_MOST: u64 = 1 << 20;
/// Positions along one dimension at which something differs, that are kept.
const POSITIONS_MOST: u64 = 1 << 16;

/// An array, what it was written from, and where its cells stand there.
#[derive(Debug, Clone)]
pub struct AlignedPair<'a> {
    /// The array.
    pub own: &'a ArrayNode,
    /// What it was written from.
    pub source: &'a ArrayNode,
    /// Where positions stand in the source, dimension by dimension.
    pub along: Vec<Along<'a>>,
    /// What stored numbers mean, in the array and in the source.
    pub packed: (Packed, Packed),
}

/// Where the positions along one dimension stand in another array.
#[derive(Debug, Clone, Copy)]
pub enum Along<'a> {
    /// At the same positions.
    Same,
    /// At these; `None` where the other array has no such position.
    Positions(&'a [Option<u64>]),
}

/// How much is compared.
#[derive(Debug, Clone, Copy)]
pub enum Extent {
    /// All of it.
    Whole,
    /// So many decoded bytes of both sides, drawn by a seed.
    Sample {
        /// Decoded bytes of both sides together; at least one window of one array is compared.
        bytes: u64,
        /// Another seed draws other windows.
        seed: u64,
    },
}

/// What the comparison of one array came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Agreement {
    /// Elements that were compared.
    pub elements: u64,
    /// Of these, how many differ.
    pub different: u64,
    /// The first that was found to differ.
    pub first: Option<FirstDifference>,
    /// The largest difference between two numbers, unpacked.
    pub largest: Option<f64>,
    /// Stored chunks of the array in which something was compared.
    pub compared_chunks: u64,
    /// Stored chunks of the array in which something differs.
    pub chunks: ChunkSet,
    /// Along each dimension the positions at which something differs, of many the first that were found.
    pub positions: Vec<ChunkSet>,
    /// Along each dimension how many positions were compared.
    pub compared_positions: Vec<u64>,
}

/// An element that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstDifference {
    /// Its index in the array.
    pub index: Vec<u64>,
    /// What the array holds, as text.
    pub own: String,
    /// What the source holds, as text.
    pub source: String,
}

/// Compares arrays of one store with those of another where both hold cells; `None` for arrays that the sample left out.
///
/// Missing values are equal to each other, however they are marked; numbers that are stored in other types, or packed
/// otherwise, are equal within what the coarser of the two can tell. Results are in the order of `pairs`, failures of
/// single arrays among them. Memory: within `resources`.
pub fn compare_aligned(
    stores: (&Store, &Store),
    pairs: &[AlignedPair<'_>],
    extent: Extent,
    resources: Resources,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Vec<Option<Result<Agreement>>>> {
    let chosen = choose(pairs, extent);
    let work: Vec<(usize, Vec<u64>)> =
        chosen.into_iter().enumerate().filter(|(_, chunks)| !chunks.is_empty()).collect();
    let compared = lanes::run(
        &work,
        // both sides are in memory at once
        (
            Resources { memory_bytes: resources.memory_bytes / 2, ..resources },
            stores.0.reads_in_flight().max(stores.1.reads_in_flight()),
        ),
        |(at, _)| footprint(pairs[*at].own).max(footprint(pairs[*at].source)),
        |(at, chunks), lane| Comparison::of(stores, &pairs[*at], lane)?.run(chunks, lane, observer, cancel),
    )?;
    let mut results: Vec<Option<Result<Agreement>>> = pairs.iter().map(|_| None).collect();
    for ((at, _), result) in work.iter().zip(compared) {
        if matches!(&result, Err(error) if error.kind() == ErrorKind::Cancelled) {
            cancel.check()?;
        }
        results[*at] = Some(result);
    }
    Ok(results)
}

/// Returns which chunks of each array are compared.
fn choose(pairs: &[AlignedPair<'_>], extent: Extent) -> Vec<Vec<u64>> {
    let total = |pair: &AlignedPair<'_>| pair.own.metadata.grid.total().unwrap_or(u64::MAX);
    let Extent::Sample { bytes, seed } = extent else {
        return pairs.iter().map(|pair| spread(total(pair), CHUNKS_MOST, 0)).collect();
    };
    let mut chosen: Vec<Vec<u64>> = pairs.iter().map(|_| Vec::new()).collect();
    let draw = |pair: &AlignedPair<'_>| xxh3_64_with_seed(pair.own.path.as_bytes(), seed);
    // in an order that seed and paths alone decide, so that a small sample reaches other arrays with another seed
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by_cached_key(|&at| draw(&pairs[at]));
    let share = bytes / (pairs.len() as u64).max(1);
    let mut spent = 0u64;
    for at in order {
        let pair = &pairs[at];
        let cost = window_cost(pair);
        let windows = (share / cost.max(1)).clamp(1, WINDOWS_MOST);
        spent = spent.saturating_add(cost.saturating_mul(windows));
        if spent > bytes && chosen.iter().any(|chunks| !chunks.is_empty()) {
            break;
        }
        chosen[at] = spread(total(pair), windows, draw(pair));
    }
    chosen
}

/// Returns what comparing one window decodes, about: a chunk, and as much of the source in whole chunks.
fn window_cost(pair: &AlignedPair<'_>) -> u64 {
    let bytes = |node: &ArrayNode| node.metadata.chunk_decoded_bytes().unwrap_or(1 << 16);
    let (own, source) = (bytes(pair.own), bytes(pair.source));
    // a small window lies in one chunk of the source mostly, a large one in several
    own.saturating_add(source.max(own.min(WINDOW_BYTES)))
}

/// Returns at most `wanted` of `total` positions, one in each equal part of them.
fn spread(total: u64, wanted: u64, seed: u64) -> Vec<u64> {
    let count = total.min(wanted);
    let edge = |at: u64| u128::from(at) * u128::from(total) / u128::from(count.max(1));
    (0..count)
        .map(|at| {
            let (from, to) = (edge(at), edge(at + 1));
            let draw = u128::from(xxh3_64_with_seed(&at.to_le_bytes(), seed)) % (to - from).max(1);
            u64::try_from(from + draw).unwrap_or(0)
        })
        .collect()
}

/// One array beside its source, ready to be compared.
struct Comparison<'a> {
    pair: &'a AlignedPair<'a>,
    own: ArrayReader<'a>,
    source: ArrayReader<'a>,
    numbers: Numbers<'a>,
}

/// A box of cells that both sides hold, or part of one.
struct Window {
    /// Its place in the array.
    own: Region,
    /// The box of the source that holds all of it.
    source: Region,
    /// For each dimension the offsets of those cells that both hold: in `own`, and in `source`.
    cells: Vec<Vec<(u64, u64)>>,
}

impl<'a> Comparison<'a> {
    fn of(stores: (&'a Store, &'a Store), pair: &'a AlignedPair<'a>, lane: &Lane<'_>) -> Result<Self> {
        let (own, source) = (&pair.own.metadata.data_type, &pair.source.metadata.data_type);
        let numbers = Numbers::of(pair);
        if own != source && numbers.is_none() {
            let message = format!("{own} of `{}` cannot be compared with {source}", pair.own.path);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Self {
            pair,
            own: ArrayReader::new(stores.0, pair.own, lane.chunk_bytes)?,
            source: ArrayReader::new(stores.1, pair.source, lane.chunk_bytes)?,
            numbers: numbers.unwrap_or_default(),
        })
    }

    fn run(
        &self,
        chunks: &[u64],
        lane: &Lane<'_>,
        observer: &dyn Observer,
        cancel: &Cancel,
    ) -> Result<Agreement> {
        let context = ReadContext {
            pool: lane.pool,
            cancel,
            meter: observer.meter(),
            in_flight_bytes: lane.slab_bytes,
        };
        let rank = self.pair.own.metadata.grid.rank();
        let mut agreement = Agreement {
            positions: vec![ChunkSet::default(); rank],
            compared_positions: vec![0; rank],
            ..Agreement::default()
        };
        let mut compared = vec![ChunkSet::default(); rank];
        let most = WINDOW_BYTES.min(lane.slab_bytes / 2).max(1);
        for &chunk in chunks {
            let grid = &self.pair.own.metadata.grid;
            let region = grid.chunk_region(&grid.index_at(chunk));
            let before = (agreement.elements, agreement.different);
            let mut parts = vec![region];
            while let Some(region) = parts.pop() {
                cancel.check()?;
                let Some(window) = self.window(region) else { continue };
                match self.halves(&window, most) {
                    Some(halves) => parts.extend(halves),
                    None => self.compare(&window, &mut agreement, &mut compared, context)?,
                }
            }
            agreement.compared_chunks += u64::from(agreement.elements > before.0);
            if agreement.different > before.1 {
                agreement.chunks.insert(chunk);
            }
        }
        agreement.compared_positions = compared.iter().map(ChunkSet::len).collect();
        Ok(agreement)
    }

    /// Returns the cells of a region that the source holds too; `None` where it holds none.
    fn window(&self, region: Region) -> Option<Window> {
        let mut source = Region { start: Vec::new(), shape: Vec::new() };
        let mut cells = Vec::new();
        for (dimension, &length) in self.pair.source.metadata.shape().iter().enumerate() {
            let (start, count) = (region.start[dimension], region.shape[dimension]);
            let along = (0..count).filter_map(|offset| {
                let at = start + offset;
                let position = match self.pair.along[dimension] {
                    Along::Same => Some(at),
                    Along::Positions(positions) => positions.get(usize::try_from(at).ok()?).copied()?,
                };
                position.filter(|&position| position < length).map(|position| (offset, position))
            });
            let mut along: Vec<(u64, u64)> = along.collect();
            let first = along.iter().map(|cell| cell.1).min()?;
            let last = along.iter().map(|cell| cell.1).max()?;
            along.iter_mut().for_each(|cell| cell.1 -= first);
            source.start.push(first);
            source.shape.push(last - first + 1);
            cells.push(along);
        }
        Some(Window { own: region, source, cells })
    }

    /// Returns the two halves of a window of which one side is too large to be held; `None` where it is not, or is one
    /// cell.
    fn halves(&self, window: &Window, most: u64) -> Option<[Region; 2]> {
        let bytes = |node: &ArrayNode, region: &Region| {
            let item = node.metadata.data_type.item_bytes().unwrap_or(VARIABLE_ITEM_ESTIMATE);
            region.elements().unwrap_or(u64::MAX).saturating_mul(item)
        };
        if bytes(self.pair.own, &window.own) <= most && bytes(self.pair.source, &window.source) <= most {
            return None;
        }
        let shape = &window.own.shape;
        let longest = (0..shape.len()).filter(|&d| shape[d] > 1);
        let d = longest.max_by_key(|&d| shape[d].max(window.source.shape[d]))?;
        let (mut low, mut high) = (window.own.clone(), window.own.clone());
        low.shape[d] = shape[d] / 2;
        high.start[d] += low.shape[d];
        high.shape[d] -= low.shape[d];
        Some([low, high])
    }

    fn compare(
        &self,
        window: &Window,
        agreement: &mut Agreement,
        compared: &mut [ChunkSet],
        context: ReadContext<'_>,
    ) -> Result<()> {
        let own = Cells::read(&self.own, &window.own, context)?;
        let source = Cells::read(&self.source, &window.source, context)?;
        let ranges: Vec<_> = window.cells.iter().map(|cells| 0..cells.len() as u64).collect();
        for (set, (cells, start)) in compared.iter_mut().zip(window.cells.iter().zip(&window.own.start)) {
            for &(offset, _) in cells {
                set.insert(start + offset);
            }
        }
        agreement.elements += product(&ranges.iter().map(|range| range.end).collect::<Vec<_>>()).unwrap_or(0);
        for_each_index(&ranges, |at| {
            let (mut one, mut other) = (0u64, 0u64);
            for (dimension, &cell) in at.iter().enumerate() {
                let (a, b) = window.cells[dimension][saturating_usize(cell)];
                one = one * window.own.shape[dimension] + a;
                other = other * window.source.shape[dimension] + b;
            }
            let (a, b) = (own.get(one), source.get(other));
            if !self.numbers.are_same(a, b) {
                let index = at.iter().enumerate().map(|(dimension, &cell)| {
                    window.own.start[dimension] + window.cells[dimension][saturating_usize(cell)].0
                });
                self.note(index.collect(), (a, b), agreement);
            }
            Ok::<_, Error>(())
        })
    }

    fn note(&self, index: Vec<u64>, (own, source): (&[u8], &[u8]), agreement: &mut Agreement) {
        agreement.different += 1;
        for (set, &position) in agreement.positions.iter_mut().zip(&index) {
            if set.len() < POSITIONS_MOST {
                set.insert(position);
            }
        }
        if let Some(difference) = self.numbers.difference(own, source) {
            let largest = agreement.largest.get_or_insert(difference);
            *largest = largest.max(difference);
        }
        agreement.first.get_or_insert_with(|| FirstDifference {
            index,
            own: self.pair.own.metadata.data_type.show(own),
            source: self.pair.source.metadata.data_type.show(source),
        });
    }
}

/// The decoded elements of a region.
enum Cells {
    Fixed { bytes: Vec<u8>, item: usize },
    Variable(Vec<Vec<u8>>),
}

impl Cells {
    fn read(reader: &ArrayReader<'_>, region: &Region, context: ReadContext<'_>) -> Result<Self> {
        if reader.node().metadata.data_type.is_variable() {
            let mut elements = Vec::new();
            reader.visit_variable(region, context, &mut |element| elements.push(element.to_vec()))?;
            return Ok(Self::Variable(elements));
        }
        let mut bytes = Vec::new();
        read_slab(reader, region, &mut bytes, context)?;
        Ok(Self::Fixed { bytes, item: reader.item_bytes().unwrap_or(0) })
    }

    fn get(&self, position: u64) -> &[u8] {
        let at = saturating_usize(position);
        match self {
            Self::Fixed { bytes, item } => &bytes[at * item..(at + 1) * item],
            Self::Variable(elements) => &elements[at],
        }
    }
}

#[cfg(test)]
mod tests;
