//! Whether two arrays hold the same values, and where they first differ.

use super::digest::{VARIABLE_ITEM_ESTIMATE, footprint, slabs, split_unwritten};
use super::lanes::{self, Lane, Resources};
use super::sparse::stored_chunks;
use crate::cancel::Cancel;
use crate::error::Result;
use crate::event::Observer;
use crate::grid::{ChunkSet, Region, unravel};
use crate::hierarchy::ArrayNode;
use crate::read::{ArrayReader, ReadContext, read_slab, slabs_of};
use crate::store::Store;

/// Beyond this size, arrays without a single chunk are compared by their fill values: templates claim petabytes.
const LARGE_UNWRITTEN_BYTES: u64 = 1 << 20;

/// Beyond this size, arrays of which both sides store little are compared chunk by chunk.
const LARGE_BYTES: u64 = 64 << 20;

/// Two arrays of the same shape and data type.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// The array of the one store.
    pub left: &'a ArrayNode,
    /// The array of the other.
    pub right: &'a ArrayNode,
}

/// Where two arrays first differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The index of the first element in C order that differs.
    pub index: Vec<u64>,
    /// That element's canonical bytes on the left.
    pub left: Vec<u8>,
    /// That element's canonical bytes on the right.
    pub right: Vec<u8>,
}

/// Compares the decoded values of pairs bit by bit; `None` where they are equal.
///
/// Results are in the order of `pairs`, failures of single arrays among them. Memory: within `resources`.
pub fn compare(
    stores: (&Store, &Store),
    pairs: &[Pair<'_>],
    resources: Resources,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Vec<Result<Option<Difference>>>> {
    let meter = observer.meter();
    meter.arrays_total.add(pairs.len() as u64);
    let bytes =
        pairs.iter().filter_map(|pair| pair.left.metadata.decoded_bytes()).fold(0u64, u64::saturating_add);
    meter.decoded_bytes_total.add(bytes.saturating_mul(2));
    // slabs of both sides are in memory at once
    let memory_bytes = resources.memory_bytes;
    let resources = Resources { memory_bytes: memory_bytes / 4 * 3, ..resources };
    lanes::run(
        pairs,
        (resources, stores.0.reads_in_flight().max(stores.1.reads_in_flight())),
        |pair| footprint(pair.left).max(footprint(pair.right)),
        |pair, lane| {
            let difference = compare_one(stores, pair, lane, observer, cancel)
                .map_err(|error| error.with_budget(memory_bytes));
            meter.arrays_done.add(1);
            difference
        },
    )
}

fn compare_one(
    stores: (&Store, &Store),
    pair: &Pair<'_>,
    lane: &Lane<'_>,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Option<Difference>> {
    if holds_fill_alone(stores.0, pair.left)? && holds_fill_alone(stores.1, pair.right)? {
        let fill = |node: &ArrayNode| node.metadata.fill_value.element(&node.metadata.data_type);
        if fill(pair.left).is_some() && fill(pair.left) == fill(pair.right) {
            return Ok(None);
        }
    }
    let left = ArrayReader::new(stores.0, pair.left, lane.chunk_bytes)?;
    let right = ArrayReader::new(stores.1, pair.right, lane.chunk_bytes)?;
    let context =
        ReadContext { pool: lane.pool, cancel, meter: observer.meter(), in_flight_bytes: lane.slab_bytes };
    let sides = Sides { left: &left, right: &right, context };
    let mut buffers = (Vec::new(), Vec::new());
    if let Some(stored) = stored_of(stores, pair)? {
        return sides.compare_stored(&stored, lane, &mut buffers);
    }
    for slab in slabs(pair.left, lane) {
        let difference = sides.compare_region(&slab, &mut buffers)?;
        if difference.is_some() {
            return Ok(difference);
        }
    }
    Ok(None)
}

/// The stored chunks of both sides.
struct StoredOf {
    left: ChunkSet,
    right: ChunkSet,
}

/// Returns what is stored of both sides where that is a small part of a large array, and what neither side stores is equal.
fn stored_of(stores: (&Store, &Store), pair: &Pair<'_>) -> Result<Option<StoredOf>> {
    let fill = |node: &ArrayNode| node.metadata.fill_value.element(&node.metadata.data_type);
    let large = |node: &ArrayNode| node.metadata.decoded_bytes().is_none_or(|bytes| bytes > LARGE_BYTES);
    if !large(pair.left) || fill(pair.left).is_none() || fill(pair.left) != fill(pair.right) {
        return Ok(None);
    }
    let sides = (stored_chunks(stores.0, pair.left)?, stored_chunks(stores.1, pair.right)?);
    let (Some(left), Some(right)) = sides else { return Ok(None) };
    let part = |node: &ArrayNode, stored: &ChunkSet| {
        stored.len() < node.metadata.grid.total().unwrap_or(u64::MAX) / 8
    };
    let is_little = part(pair.left, &left) && part(pair.right, &right);
    Ok(is_little.then_some(StoredOf { left, right }))
}

/// Two arrays, ready to be read.
struct Sides<'a> {
    left: &'a ArrayReader<'a>,
    right: &'a ArrayReader<'a>,
    context: ReadContext<'a>,
}

impl Sides<'_> {
    /// Compares the chunks that either side stores; returns the first difference in C order.
    fn compare_stored(
        &self,
        stored: &StoredOf,
        lane: &Lane<'_>,
        buffers: &mut (Vec<u8>, Vec<u8>),
    ) -> Result<Option<Difference>> {
        let mut first: Option<Difference> = None;
        for (reader, stored) in [(self.left, &stored.left), (self.right, &stored.right)] {
            let metadata = &reader.node().metadata;
            let item = metadata.data_type.item_bytes().unwrap_or(VARIABLE_ITEM_ESTIMATE);
            for position in stored.iter() {
                self.context.cancel.check()?;
                let chunk = metadata.grid.chunk_region(&metadata.grid.index_at(position));
                // what begins behind the first difference cannot hold an earlier one
                if first.as_ref().is_some_and(|first| chunk.start > first.index) {
                    continue;
                }
                for slab in slabs_of(&chunk.shape, &chunk.shape, item, lane.slab_bytes) {
                    let start = slab.start.iter().zip(&chunk.start).map(|(at, origin)| at + origin).collect();
                    let found = self.compare_region(&Region { start, shape: slab.shape }, buffers)?;
                    let earlier =
                        |found: &Difference| first.as_ref().is_none_or(|first| found.index < first.index);
                    first = found.filter(earlier).or(first);
                }
            }
        }
        Ok(first)
    }

    /// Compares a region; returns its first difference in C order.
    fn compare_region(&self, region: &Region, (a, b): &mut (Vec<u8>, Vec<u8>)) -> Result<Option<Difference>> {
        let difference = if self.left.node().metadata.data_type.is_variable() {
            let (a, b) =
                (elements(self.left, region, self.context)?, elements(self.right, region, self.context)?);
            let position = a.iter().zip(&b).position(|(a, b)| a != b);
            position.map(|position| (position, a[position].clone(), b[position].clone()))
        } else {
            read_slab(self.left, region, a, self.context)?;
            read_slab(self.right, region, b, self.context)?;
            self.context.meter.decoded_bytes_finished.add((a.len() + b.len()) as u64);
            let item = self.left.item_bytes().unwrap_or(1).max(1);
            let differs = || a.chunks_exact(item).zip(b.chunks_exact(item)).position(|(a, b)| a != b);
            let position = if a == b { None } else { differs() };
            position.map(|position| {
                let bytes = position * item..(position + 1) * item;
                (position, a[bytes.clone()].to_vec(), b[bytes].to_vec())
            })
        };
        Ok(difference.map(|(position, left, right)| {
            let inner = unravel(position as u64, &region.shape);
            let index = region.start.iter().zip(&inner).map(|(start, at)| start + at).collect();
            Difference { index, left, right }
        }))
    }
}

fn holds_fill_alone(store: &Store, array: &ArrayNode) -> Result<bool> {
    let (written, _) = split_unwritten(store, vec![array], LARGE_UNWRITTEN_BYTES)?;
    Ok(written.is_empty())
}

fn elements(reader: &ArrayReader<'_>, slab: &Region, context: ReadContext<'_>) -> Result<Vec<Vec<u8>>> {
    let mut elements = Vec::new();
    reader.visit_variable(slab, context, &mut |element| elements.push(element.to_vec()))?;
    Ok(elements)
}
