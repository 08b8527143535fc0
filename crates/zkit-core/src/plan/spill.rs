//! A rechunk through scratch space, in two stages: where memory holds too little of the array at once, its chunks are
//! first cut into pieces that both grids can be made of, each source chunk decoded once; then the pieces are put
//! together.
//!
//! The pieces are an array of their own. This is the algorithm of Rechunker (pangeo-data/rechunker, algorithm.py) with
//! boxes that fit the budget in the place of its read and write chunks.

use super::copy::{ArrayCopy, Cover, Stored, Strategy, Unit, units_of};
use super::rechunk::{BoxBudget, Geometry, Rechunk, SourceKind, gcd};
use crate::grid::{Grid, product};
use crate::hierarchy::ArrayNode;
use crate::metadata::{
    AbsentChunks, ArrayMetadata, BloscShuffle, BloscSpec, ChunkKeys, CodecSpec, ShardingSpec, shuffle_for,
};

/// What encoding and writing a piece costs, for a decoded byte, in decoded bytes: zstd 1 at 1.3 GB/s, and the disk.
const ENCODE_WORK: f64 = 2.0;
/// Scratch is taken for this much larger than the source's own ratio says.
const SCRATCH_MARGIN: f64 = 1.25;
/// Pieces smaller than this cost more to find than to decode.
const PIECE_LEAST_BYTES: u64 = 2 << 10;
/// Rounds beyond this read the source too often.
const MOST_ROUNDS: u64 = 64;

/// A rechunk in two stages.
#[derive(Debug, Clone, PartialEq)]
pub struct Spill {
    /// The array of pieces.
    pub pieces: ArrayNode,
    /// From the source's chunks to pieces.
    pub scatter: Rechunk,
    /// From pieces to the copy's chunks.
    pub gather: Rechunk,
    /// The dimension along which the copy is made in rounds, and the elements of a round.
    pub round: (usize, u64),
    /// How many rounds there are: more than one where scratch space does not hold all pieces.
    pub rounds: u64,
    /// Scratch space of a round, about.
    pub scratch_bytes: u64,
    /// How often the source is decoded in both stages together: pieces count as much as they decode to, what reaches over
    /// edges included.
    pub decodes: f64,
    /// What both stages cost, in decoded bytes.
    pub(super) work: f64,
}

/// One stage of one round: a copy of its own.
#[derive(Debug)]
pub struct Stage {
    /// The array, from and to.
    pub array: ArrayCopy,
    /// The units of the round.
    pub units: Vec<Unit>,
}

/// Finds the two stages; `None` where scratch or memory is too small, or elements have no fixed size.
pub(super) fn plan(
    array: &ArrayCopy,
    geometry: &Geometry,
    budget: BoxBudget,
    scratch_bytes: u64,
    (kind, jobs): (SourceKind, usize),
) -> Option<Spill> {
    let metadata = &array.source.metadata;
    let item = metadata.data_type.item_bytes()?;
    let target = &array.target.metadata;
    // a shard of pieces is encoded whole by one thread
    let (shape, shard) = piece_shapes(metadata, target, item, budget.boxes / (2 + jobs as u64 / 2));
    let piece = no_larger(shape, item, budget.part);
    let piece_bytes = product(&piece)?.saturating_mul(item);
    if piece_bytes < PIECE_LEAST_BYTES.min(metadata.decoded_bytes()?) {
        return None;
    }
    let whole = pieces(metadata, &piece, &shard)?;
    let of_pieces = Geometry::new(&whole, target, 0.5, SourceKind::Local)?;
    let gather = of_pieces.plan(budget)?;
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let (stored, limit) = (array.stored_bytes as f64 * SCRATCH_MARGIN, scratch_bytes as f64);
    let needed = stored.min(geometry.array_bytes());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate, positive")]
    let rounds_wanted = (needed / limit.max(1.0)).ceil().max(1.0) as u64;
    if rounds_wanted > MOST_ROUNDS {
        return None;
    }
    // rounds go along the dimension of most boxes of the second stage, whole boxes each
    let d = (0..gather.unit_counts.len()).max_by_key(|&d| gather.unit_counts[d])?;
    let boxes = (gather.unit_counts[d] / rounds_wanted).max(1);
    let rounds = gather.unit_counts[d].div_ceil(boxes);
    if rounds < rounds_wanted {
        return None;
    }
    let box_length = gather.unit_chunks[d].saturating_mul(target.grid.largest_chunk_shape()[d]);
    let round = boxes.saturating_mul(box_length);
    let (pieces, fixed) = if rounds > 1 {
        // a round is made of whole pieces, and of whole objects of them
        if !round.is_multiple_of(piece[d]) {
            return None;
        }
        let mut shard = shard;
        shard[d] = round;
        (pieces(metadata, &piece, &shard)?, Some((d, 1)))
    } else {
        (whole, None)
    };
    let scatter =
        Geometry::new(metadata, &pieces, geometry.stored_ratio(), kind)?.plan_with(budget, fixed)?;
    let pieces_share = of_pieces.decoded_once() / geometry.decoded_once().max(1.0);
    let decodes = scatter.decodes + gather.decodes * pieces_share;
    let work = scatter.work + gather.work + geometry.array_bytes() * ENCODE_WORK;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, positive"
    )]
    let scratch_bytes = (needed / rounds as f64) as u64;
    let pieces = ArrayNode { path: "/".to_owned(), metadata: pieces };
    Some(Spill { pieces, scatter, gather, round: (d, round), rounds, scratch_bytes, decodes, work })
}

/// Returns the shape of pieces, what boxes of whole source chunks and boxes of whole destination chunks, each within the
/// budget, have in common along each dimension; and the shape of the boxes of source chunks.
fn piece_shapes(
    source: &ArrayMetadata,
    target: &ArrayMetadata,
    item: u64,
    budget: u64,
) -> (Vec<u64>, Vec<u64>) {
    let shape = source.shape();
    let source_chunk = source.grid.largest_chunk_shape();
    let target_chunk = target.grid.largest_chunk_shape();
    let clipped = |chunk: &[u64]| -> Vec<u64> {
        chunk.iter().zip(shape).map(|(&chunk, &length)| chunk.min(length).max(1)).collect()
    };
    let (mut read, mut write) = (clipped(&source_chunk), clipped(&target_chunk));
    let fits = |lengths: &[u64]| {
        product(lengths).and_then(|elements| elements.checked_mul(item)).is_some_and(|bytes| bytes <= budget)
    };
    // each grows where the other is longer: only that makes pieces larger
    let grow = |lengths: &mut Vec<u64>, other: &[u64]| {
        let mut order: Vec<usize> = (0..lengths.len()).filter(|&d| other[d] > lengths[d]).collect();
        order.sort_by_key(|&d| std::cmp::Reverse(other[d] / lengths[d].max(1)));
        order.into_iter().any(|d| {
            let mut longer = lengths.clone();
            longer[d] = (longer[d].saturating_mul(2)).min(shape[d].max(1));
            let grows = longer[d] > lengths[d] && fits(&longer);
            if grows {
                *lengths = longer;
            }
            grows
        })
    };
    while grow(&mut read, &write) | grow(&mut write, &read) {}
    let whole_target = |d: usize, length: u64| {
        // pieces that make up destination chunks, or are made up of them
        let chunk = target_chunk[d].max(1);
        match length >= shape[d] {
            true => length,
            false if length >= chunk => length / chunk * chunk,
            false => gcd(length, chunk).max(1),
        }
    };
    let pieces = (0..shape.len()).map(|d| {
        let common = read[d].min(write[d]);
        let piece = whole_target(d, common);
        // better uneven than tiny
        if piece * 4 < common { common } else { piece }
    });
    (pieces.collect(), read)
}

/// Halves a shape along its longest dimension until a thread can hold it.
fn no_larger(mut shape: Vec<u64>, item: u64, bytes: u64) -> Vec<u64> {
    while product(&shape).is_none_or(|elements| elements.saturating_mul(item) > bytes) {
        let Some(longest) = shape.iter_mut().max().filter(|length| **length > 1) else { break };
        *longest = longest.div_ceil(2);
    }
    shape
}

/// Returns the metadata of the array of pieces: the source's elements, compressed fast, as many pieces to an object as a
/// box of source chunks gives, since creating and removing files costs more than their bytes.
fn pieces(source: &ArrayMetadata, piece: &[u64], around: &[u64]) -> Option<ArrayMetadata> {
    let (shuffle, word) = shuffle_for(BloscShuffle::Bit, &source.data_type);
    let blosc =
        BloscSpec { compressor: "zstd".to_owned(), level: 1, shuffle, type_bytes: word, block_bytes: 0 };
    let shard: Vec<u64> = piece
        .iter()
        .zip(around)
        .map(|(&piece, &around)| around.max(1).next_multiple_of(piece.max(1)))
        .collect();
    let sharding = ShardingSpec {
        chunk_shape: piece.to_vec(),
        codecs: vec![CodecSpec::Blosc(blosc)],
        index_codecs: Vec::new(),
        index_at_start: false,
    };
    Some(ArrayMetadata {
        grid: Grid::regular(source.shape(), &shard).ok()?,
        chunk_keys: ChunkKeys::Default('/'),
        codecs: vec![CodecSpec::Sharding(Box::new(sharding))],
        ..source.clone()
    })
}

impl Spill {
    /// Returns whether a box of one of the stages belongs to a round.
    fn is_of_round(&self, stage: &Rechunk, target: &Grid, unit: u64, round: u64) -> bool {
        let (d, length) = self.round;
        let of_round = round.saturating_mul(length)..(round + 1).saturating_mul(length);
        let start = stage.unit_region(target, unit).start;
        self.rounds == 1 || start.get(d).is_some_and(|at| of_round.contains(at))
    }
}

impl ArrayCopy {
    /// Returns the first stage of a round: from the source to pieces.
    pub fn scatter(&self, spill: &Spill, round: u64) -> Stage {
        let stored = Stored {
            chunks: self.stored.clone(),
            known: self.known.clone(),
            bytes: self.stored_bytes,
            largest_bytes: self.largest_bytes,
        };
        let ends = (self.source.clone(), spill.pieces.clone());
        self.stage(spill, round, ends, &spill.scatter, AbsentChunks::Leave, stored)
    }

    /// Returns the second stage of a round: from pieces, those that the first stage stored, to the copy.
    pub fn gather(&self, spill: &Spill, round: u64, stored: Stored) -> Stage {
        let ends = (spill.pieces.clone(), self.target.clone());
        self.stage(spill, round, ends, &spill.gather, self.absent, stored)
    }

    /// Returns the boxes of the second stage of a round that the source has anything for.
    pub fn gather_units(&self, spill: &Spill, round: u64) -> Vec<u64> {
        let (source, target) = (&self.source.metadata.grid, &self.target.metadata.grid);
        let units: Vec<u64> = match self.absent {
            AbsentChunks::Leave => spill.gather.units_of(source, target, &self.stored).iter().collect(),
            AbsentChunks::Write => (0..spill.gather.units()).collect(),
        };
        units.into_iter().filter(|&unit| spill.is_of_round(&spill.gather, target, unit, round)).collect()
    }

    fn stage(
        &self,
        spill: &Spill,
        round: u64,
        (source, target): (ArrayNode, ArrayNode),
        rechunk: &Rechunk,
        absent: AbsentChunks,
        stored: Stored,
    ) -> Stage {
        let array = Self {
            store: 0,
            source,
            target,
            strategy: Strategy::Rechunk,
            rechunk: Some(rechunk.clone()),
            spill: None,
            gather: None,
            why: String::new(),
            note: None,
            absent,
            stored: stored.chunks,
            known: stored.known,
            stored_bytes: stored.bytes,
            largest_bytes: stored.largest_bytes,
        };
        let grid = &array.target.metadata.grid;
        let units = units_of(0, &array, SourceKind::Local)
            .into_iter()
            .filter(|unit| match unit.cover {
                Cover::Box(position) => spill.is_of_round(rechunk, grid, position, round),
                Cover::Chunks(_) => true,
            })
            .collect();
        Stage { array, units }
    }
}
