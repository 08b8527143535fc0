//! From one chunk grid to another: which chunks of the copy are put together at once.
//!
//! A unit is a box of destination chunks that is assembled in memory. Where the box covers source chunks whole, each
//! is decoded once; where memory forbids that, boxes cut source chunks, and what a cut costs depends on the codecs: a
//! few blosc blocks, one inner chunk, or the whole chunk again. The search below takes the cheapest box that fits.

use std::ops::Range;

use serde::Serialize;

use crate::codec::PartialDecode;
use crate::grid::{ChunkSet, Grid, Region, for_each_index, product, unravel};
use crate::metadata::{ArrayMetadata, CodecSpec};

/// Box lengths that are tried along one dimension, at most.
const MOST_LENGTHS: usize = 24;
/// Boxes that are tried for one array, at most.
const MOST_BOXES: usize = 200_000;
/// What opening and finding one chunk costs, in decoded bytes: some 30 microseconds at 2 GB/s.
const VISIT_LOCAL_BYTES: f64 = 64e3;
/// What a request costs, in decoded bytes, where many are in flight.
const VISIT_REMOTE_BYTES: f64 = 4e6;
/// A stored byte that is read from a page cache or disk, and from a network, in decoded bytes.
const READ_LOCAL: f64 = 0.3;
const READ_REMOTE: f64 = 4.0;
/// How much dearer a box may be that leaves room for a second one at once.
const ROOM_FOR_TWO: f64 = 1.15;

/// Where the source lies: what reading a chunk twice costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// On a file system: parts of chunks are read alone.
    Local,
    /// Behind a network: whole objects are fetched for each unit.
    Remote,
}

/// What a part of a stored chunk costs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PartAccess {
    /// The whole chunk is decoded.
    Whole,
    /// The blocks are decoded that the part's bytes touch.
    Blocks { block_bytes: u64 },
    /// The chunk is decoded up to the part's end.
    Prefix,
}

/// How an array is rechunked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rechunk {
    /// Destination chunks of a unit along each dimension.
    pub unit_chunks: Vec<u64>,
    /// Units along each dimension.
    pub unit_counts: Vec<u64>,
    /// Bytes of a unit's box, decoded.
    pub unit_bytes: u64,
    /// How often the source is decoded: 1 is once.
    pub decodes: f64,
    /// How often source chunks are read, together.
    pub visits: u64,
    /// What reading and decoding cost, in decoded bytes at the speed of a codec.
    pub(super) work: f64,
}

/// What the search needs to know of an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Geometry {
    shape: Vec<u64>,
    /// What is decoded alone: inner chunks where sharded.
    source: Grid,
    /// What is read alone.
    stored: Grid,
    target_chunk: Vec<u64>,
    item_bytes: u64,
    access: PartAccess,
    kind: SourceKind,
    /// Stored bytes for each decoded one.
    stored_ratio: f64,
    /// What is decoded for a chunk of `source`, where that is only a part of one that is stored.
    decoded_bytes: Option<u64>,
    /// Dimensions that a box must cover whole.
    whole: Vec<bool>,
}

/// The memory that boxes may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BoxBudget {
    /// Bytes of all boxes at once.
    pub(super) boxes: u64,
    /// Bytes of the decoded part of a source chunk.
    pub(super) part: u64,
}

impl Geometry {
    /// Returns the geometry of a rechunk; `None` without fixed element size.
    pub(super) fn new(
        source: &ArrayMetadata,
        target: &ArrayMetadata,
        stored_ratio: f64,
        kind: SourceKind,
    ) -> Option<Self> {
        let inner = source.sharding().map(|_| source.chunk_shape());
        let grid = match &inner {
            Some(inner) => Grid::regular(source.shape(), inner).ok()?,
            None => source.grid.clone(),
        };
        let access = match crate::codec::partial_decode(&source.codecs) {
            _ if inner.is_some() => PartAccess::Whole,
            Some(PartialDecode::Stored) => PartAccess::Blocks { block_bytes: 4096 },
            Some(PartialDecode::Blosc) => PartAccess::Blocks { block_bytes: blosc_block_bytes(source) },
            Some(PartialDecode::Zstd) => PartAccess::Prefix,
            None => PartAccess::Whole,
        };
        Some(Self {
            shape: source.shape().to_vec(),
            source: grid,
            stored: source.grid.clone(),
            target_chunk: target.grid.largest_chunk_shape(),
            item_bytes: source.data_type.item_bytes()?,
            access,
            kind,
            stored_ratio,
            decoded_bytes: None,
            whole: vec![false; target.shape().len()],
        })
    }

    /// Returns the geometry of an array that is gathered: for each chunk so many bytes are decoded, and boxes cover some
    /// dimensions whole.
    pub(super) fn gathering(self, decoded_bytes: u64, whole: Vec<bool>) -> Self {
        Self { access: PartAccess::Whole, decoded_bytes: Some(decoded_bytes), whole, ..self }
    }

    /// Returns the stored bytes for each decoded one.
    pub(super) fn stored_ratio(&self) -> f64 {
        self.stored_ratio
    }

    /// Returns the decoded bytes of one destination chunk: the least that a unit takes.
    pub(super) fn chunk_bytes(&self) -> u64 {
        product(&self.target_chunk).unwrap_or(u64::MAX).saturating_mul(self.item_bytes)
    }

    /// Returns the decoded bytes of the part of a source chunk that a thread holds, at most, for parts of any size.
    pub(super) fn part_bytes(&self) -> u64 {
        if let Some(bytes) = self.decoded_bytes {
            return bytes;
        }
        product(&self.source.largest_chunk_shape()).unwrap_or(u64::MAX).saturating_mul(self.item_bytes)
    }

    /// Returns whether source chunks must be decoded whole whatever is wanted of them.
    pub(super) fn decodes_whole(&self) -> bool {
        self.access == PartAccess::Whole
    }

    /// Finds the cheapest box that fits the budget; `None` if not even one destination chunk does.
    pub(super) fn plan(&self, budget: BoxBudget) -> Option<Rechunk> {
        self.plan_with(budget, None)
    }

    /// As [`Self::plan`], with the length of the box along one dimension given, in destination chunks.
    pub(super) fn plan_with(&self, budget: BoxBudget, fixed: Option<(usize, u64)>) -> Option<Rechunk> {
        let rank = self.shape.len();
        let counts: Vec<u64> =
            (0..rank).map(|d| self.shape[d].div_ceil(self.target_chunk[d].max(1))).collect();
        let mut lengths: Vec<Vec<Length>> = (0..rank).map(|d| self.lengths(d, counts[d])).collect();
        if let Some((d, length)) = fixed {
            lengths[d] = vec![self.length(d, length.clamp(1, counts[d].max(1)), counts[d].max(1))];
        }
        thin(&mut lengths);
        let mut best: [Option<(f64, Cost, Vec<u64>)>; 2] = [None, None];
        let ranges: Vec<Range<u64>> = lengths.iter().map(|lengths| 0..lengths.len() as u64).collect();
        let mut chosen = Vec::with_capacity(rank);
        let visit = |index: &[u64]| {
            chosen.clear();
            let picked = index.iter().zip(&lengths);
            chosen.extend(picked.map(|(&at, lengths)| lengths[crate::units::saturating_usize(at)]));
            let cost = self.cost(&chosen);
            if cost.box_bytes > budget.boxes || cost.part_bytes > budget.part {
                return Ok::<_, ()>(());
            }
            // of two that cost the same the smaller one, which leaves room for more at once
            let score = cost.work * (1.0 + 0.05 * ratio(cost.box_bytes, budget.boxes));
            let slot = usize::from(cost.box_bytes > budget.boxes / 2);
            if best[slot].as_ref().is_none_or(|(least, _, _)| score < *least) {
                best[slot] = Some((score, cost, chosen.iter().map(|length| length.chunks).collect()));
            }
            Ok(())
        };
        // visiting cannot fail
        let _ = for_each_index(&ranges, visit);
        let [half, whole] = best;
        let (_, cost, unit_chunks) = match (half, whole) {
            (Some(half), Some(whole)) if half.0 <= whole.0 * ROOM_FOR_TWO => half,
            (half, whole) => whole.or(half)?,
        };
        let unit_counts = counts.iter().zip(&unit_chunks).map(|(&count, &unit)| count.div_ceil(unit.max(1)));
        Some(Rechunk {
            unit_counts: unit_counts.collect(),
            unit_chunks,
            unit_bytes: cost.box_bytes,
            decodes: cost.decoded / self.decoded_once().max(1.0),
            visits: saturating(cost.visits),
            work: cost.work,
        })
    }

    /// Returns the decoded bytes of all source chunks, what reaches over the array's edges included.
    pub(super) fn decoded_once(&self) -> f64 {
        if let Some(bytes) = self.decoded_bytes {
            return self.source.counts().iter().map(|&count| float(count)).product::<f64>() * float(bytes);
        }
        let lengths = self.source.counts().iter().zip(self.source.largest_chunk_shape());
        lengths.map(|(&count, chunk)| float(count) * float(chunk)).product::<f64>() * float(self.item_bytes)
    }

    /// Returns the decoded bytes of the array.
    pub(super) fn array_bytes(&self) -> f64 {
        self.shape.iter().map(|&length| float(length)).product::<f64>() * float(self.item_bytes)
    }

    /// Returns box lengths worth trying along a dimension, in destination chunks.
    fn lengths(&self, dimension: usize, count: u64) -> Vec<Length> {
        let count = count.max(1);
        if self.whole[dimension] {
            return vec![self.length(dimension, count, count)];
        }
        let chunk = self.target_chunk[dimension].max(1);
        let mut lengths = vec![1, count];
        let source = self.source.largest_chunk_shape()[dimension].max(1);
        // boxes whose edges lie on edges of source chunks
        let aligned = source / gcd(chunk, source);
        lengths.extend((0..20).map(|power| aligned.saturating_mul(1 << power)));
        lengths.extend([3, 5, 6, 12].map(|times| aligned.saturating_mul(times)));
        lengths.extend((0..20).map(|power| 1u64 << power));
        lengths.extend((2..=12).map(|parts| count.div_ceil(parts)));
        lengths.retain(|&length| length <= count);
        lengths.sort_unstable();
        lengths.dedup();
        let mut lengths: Vec<Length> =
            lengths.into_iter().map(|chunks| self.length(dimension, chunks, count)).collect();
        // of lengths that need as many units only the shortest is of use
        lengths.dedup_by(|later, earlier| {
            later.units == earlier.units && later.incidences >= earlier.incidences
        });
        while lengths.len() > MOST_LENGTHS {
            halve(&mut lengths);
        }
        lengths
    }

    fn length(&self, dimension: usize, chunks: u64, count: u64) -> Length {
        let units = count.div_ceil(chunks);
        let step = chunks.saturating_mul(self.target_chunk[dimension].max(1));
        Length {
            chunks,
            units,
            incidences: incidences(&self.source, dimension, step, units),
            stored_incidences: incidences(&self.stored, dimension, step, units),
        }
    }

    fn cost(&self, lengths: &[Length]) -> Cost {
        let mut cost = Cost { box_bytes: self.item_bytes, ..Cost::default() };
        let chunk_shape = self.source.largest_chunk_shape();
        let (mut visits, mut stored_visits, mut chunk) = (1.0, 1.0, float(self.item_bytes));
        let (mut hull, mut hull_most) = (1.0, 1.0);
        let mut stride = 1.0;
        for (d, length) in lengths.iter().enumerate().rev() {
            visits *= float(length.incidences);
            stored_visits *= float(length.stored_incidences);
            let along = float(chunk_shape[d]);
            // parts along this dimension: on average, and at most
            let extent = float(self.shape[d].max(1)) / float(length.incidences.max(1));
            let box_extent = float(length.chunks.saturating_mul(self.target_chunk[d]));
            hull += (extent.clamp(1.0, along) - 1.0) * stride;
            hull_most += (along.min(box_extent).max(1.0) - 1.0) * stride;
            stride *= along;
            chunk *= along;
            let box_length = length.chunks.saturating_mul(self.target_chunk[d]);
            cost.box_bytes = cost.box_bytes.saturating_mul(box_length);
        }
        let item = float(self.item_bytes);
        let (hull, hull_most) = ((hull * item).min(chunk), (hull_most * item).min(chunk));
        let (per_visit, held, read) = match self.access {
            PartAccess::Whole => {
                let decoded = self.decoded_bytes.map_or(chunk, float);
                (decoded, decoded, decoded)
            }
            PartAccess::Blocks { block_bytes } if hull < chunk * 0.99 => {
                let decoded = (hull + float(block_bytes)).min(chunk);
                (decoded, hull_most, decoded)
            }
            PartAccess::Blocks { .. } => (chunk, chunk, chunk),
            PartAccess::Prefix => ((chunk + hull) / 2.0, hull_most, chunk),
        };
        let stored_chunk = self.decoded_bytes.map_or_else(
            || self.stored.largest_chunk_shape().iter().map(|&length| float(length)).product::<f64>() * item,
            float,
        );
        let (visit_cost, read_cost, read_bytes) = match self.kind {
            SourceKind::Local => (VISIT_LOCAL_BYTES, READ_LOCAL, visits * read),
            SourceKind::Remote => (VISIT_REMOTE_BYTES, READ_REMOTE, stored_visits * stored_chunk),
        };
        cost.decoded = visits * per_visit;
        cost.visits = stored_visits;
        cost.part_bytes = saturating(held);
        cost.work = cost.decoded + stored_visits * visit_cost + read_bytes * self.stored_ratio * read_cost;
        if self.kind == SourceKind::Remote {
            // what is fetched for a unit waits in memory beside its box
            let units: f64 = lengths.iter().map(|length| float(length.units)).product();
            let fetched = stored_visits / units.max(1.0) * stored_chunk * self.stored_ratio;
            cost.box_bytes = cost.box_bytes.saturating_add(saturating(fetched));
        }
        cost
    }
}

/// A box length along one dimension.
#[derive(Debug, Clone, Copy)]
struct Length {
    chunks: u64,
    units: u64,
    /// Pairs of a unit and a source chunk that meet along this dimension.
    incidences: u64,
    stored_incidences: u64,
}

/// What boxes of one shape cost.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    box_bytes: u64,
    /// What a thread holds of a decoded source chunk.
    part_bytes: u64,
    decoded: f64,
    visits: f64,
    /// Everything, in decoded bytes.
    work: f64,
}

impl Rechunk {
    /// Returns the destination chunks of a unit, one range a dimension.
    pub fn chunk_ranges(&self, target: &Grid, unit: u64) -> Vec<Range<u64>> {
        let index = unravel(unit, &self.unit_counts);
        let ranges = index.iter().zip(&self.unit_chunks).zip(target.counts());
        ranges.map(|((&at, &length), &count)| at * length..((at + 1) * length).min(count)).collect()
    }

    /// Returns the elements of a unit, inside the array.
    pub fn unit_region(&self, target: &Grid, unit: u64) -> Region {
        let ranges = self.chunk_ranges(target, unit);
        let chunk = target.largest_chunk_shape();
        let bounds = ranges.iter().zip(&chunk).zip(target.shape());
        let (start, shape) = bounds
            .map(|((range, &chunk), &length)| {
                let start = range.start.saturating_mul(chunk);
                (start, range.end.saturating_mul(chunk).min(length).saturating_sub(start))
            })
            .unzip();
        Region { start, shape }
    }

    /// Returns how many units there are.
    pub fn units(&self) -> u64 {
        product(&self.unit_counts).unwrap_or(u64::MAX)
    }

    /// Returns the units that any of the stored source chunks belongs to.
    pub fn units_of(&self, source: &Grid, target: &Grid, stored: &ChunkSet) -> ChunkSet {
        let mut units = ChunkSet::default();
        let lengths = self.unit_chunks.iter().zip(target.largest_chunk_shape());
        let unit_lengths: Vec<u64> =
            lengths.map(|(&count, chunk)| count.saturating_mul(chunk).max(1)).collect();
        for position in stored.iter() {
            let region = source.chunk_region(&source.index_at(position));
            if region.is_empty() {
                continue;
            }
            let bounds = region.start.iter().zip(&region.shape).zip(&unit_lengths);
            let ranges: Vec<Range<u64>> = bounds
                .map(|((&start, &length), &unit)| start / unit..(start + length - 1) / unit + 1)
                .collect();
            // visiting cannot fail
            let _ = for_each_index::<()>(&ranges, |index| {
                let position =
                    index.iter().zip(&self.unit_counts).fold(0, |flat, (&at, &count)| flat * count + at);
                units.insert(position);
                Ok(())
            });
        }
        units
    }
}

/// Returns how often units of `step` elements and source chunks meet along a dimension.
fn incidences(source: &Grid, dimension: usize, step: u64, units: u64) -> u64 {
    let count = source.counts()[dimension];
    let edges = units.saturating_sub(1);
    let cut = match source.regular_shape() {
        Some(shape) => {
            let chunk = shape[dimension].max(1);
            edges - edges / (chunk / gcd(step.max(1), chunk))
        }
        None => {
            let inside = (1..=edges.min(1 << 20)).filter(|edge| {
                let at = edge.saturating_mul(step);
                source.chunk_along(dimension, at).start != at
            });
            inside.count() as u64
        }
    };
    count.saturating_add(cut)
}

/// Returns the size of blosc blocks as far as metadata tells; frames may differ.
fn blosc_block_bytes(source: &ArrayMetadata) -> u64 {
    let blosc = source.codecs.iter().find_map(|spec| match spec {
        CodecSpec::Blosc(blosc) => Some(blosc),
        _ => None,
    });
    blosc.map(|blosc| u64::from(blosc.block_bytes)).filter(|&bytes| bytes > 0).unwrap_or(128 << 10)
}

/// Takes away lengths until there are few enough boxes to try; the longest lists first, 1 and all are kept.
fn thin(lengths: &mut [Vec<Length>]) {
    while lengths
        .iter()
        .try_fold(1usize, |product, list| product.checked_mul(list.len()))
        .is_none_or(|boxes| boxes > MOST_BOXES)
    {
        let Some(longest) = lengths.iter_mut().max_by_key(|list| list.len()).filter(|list| list.len() > 2)
        else {
            return;
        };
        halve(longest);
    }
}

/// Keeps every other length, the first and the last.
fn halve(lengths: &mut Vec<Length>) {
    let last = lengths.len() - 1;
    let mut at = 0;
    lengths.retain(|_| {
        at += 1;
        (at - 1) % 2 == 0 || at - 1 == last
    });
}

pub(super) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[expect(clippy::cast_precision_loss, reason = "costs are estimates")]
fn float(value: u64) -> f64 {
    value as f64
}

fn ratio(part: u64, whole: u64) -> f64 {
    float(part) / float(whole.max(1))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates, never negative; floats saturate"
)]
fn saturating(value: f64) -> u64 {
    value as u64
}
