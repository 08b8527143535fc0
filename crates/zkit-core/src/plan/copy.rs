//! The plan of a copy: which arrays, how each is rewritten, and the units of work.

use std::ops::RangeInclusive;

use serde::Serialize;

use super::gather::Gather;
use super::layout::check_frames;
use super::memory;
use super::rechunk::{Geometry, Rechunk, SourceKind};
use super::spill::Spill;
use crate::codec::{Chain, Recoder};
use crate::error::{Error, ErrorKind, Result};
use crate::grid::ChunkSet;
use crate::hierarchy::{ArrayNode, GroupNode, LeftOut, Reviewed};
use crate::metadata::{
    AbsentChunks, ArrayMetadata, Conversion, Target, TargetCodec, ZarrFormat, convert, group_documents,
};

/// Decoded bytes that a unit of chunks should have: enough to hide its overhead, little enough to balance threads.
const UNIT_BYTES: u64 = 8 << 20;
/// Chunks of a unit, at most; of remote sources fewer, as a unit is fetched before it is decoded and written.
const UNIT_CHUNKS: u64 = 4096;
const UNIT_CHUNKS_REMOTE: u64 = 32;
/// More objects than this are refused: their units alone would take gigabytes of memory.
pub(super) const MOST_OBJECTS: u64 = 1 << 32;
/// Elements without fixed size are taken to decode to so many times their stored bytes.
const VARIABLE_EXPANSION: u64 = 8;

/// What is wanted of a copy.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The format of groups, or that of the source.
    pub format: Option<ZarrFormat>,
    /// Bytes of memory for everything.
    pub memory_bytes: u64,
    /// Bytes of it for chunks that are on their way to a bucket; 0 where the copy is local.
    pub upload_bytes: u64,
    /// Worker threads at most.
    pub jobs: usize,
    /// Where the source lies.
    pub source: SourceKind,
    /// Scratch space that may be used; 0 for none.
    pub scratch_bytes: u64,
}

/// One array to copy: as it is, what a listing says of it, and what it is to be.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The array.
    pub array: ArrayNode,
    /// Its stored chunks.
    pub stored: Stored,
    /// Format, codec, checksum and grid of the copy.
    pub target: Target,
}

/// How an array is rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Encoded chunks are taken over as they are.
    CopyBytes,
    /// Each chunk is decoded as far as needed and encoded anew.
    Recode,
    /// Boxes of new chunks are put together in memory; each source chunk is decoded once, or nearly.
    Rechunk,
    /// As rechunk, but the budget forbids boxes that hold source chunks whole: their parts are decoded in passes.
    RechunkPasses,
    /// As rechunk, through scratch space: source chunks are cut into pieces, and chunks put together from these.
    RechunkSpill,
}

/// One array of a plan.
#[derive(Debug)]
pub struct ArrayCopy {
    /// The store that it belongs to, by its position in the plan.
    pub store: usize,
    /// The array as it is.
    pub source: ArrayNode,
    /// The array as it is to be.
    pub target: ArrayNode,
    /// How it is rewritten.
    pub strategy: Strategy,
    /// The boxes of a rechunk.
    pub rechunk: Option<Rechunk>,
    /// The stages of a rechunk through scratch space, in the place of the boxes.
    pub spill: Option<Box<Spill>>,
    /// Where its elements come from, if not from the array `source` of one store: that then has the grid of the gathering
    /// order, and no chunks of its own.
    pub gather: Option<Box<Gather>>,
    /// Why, in a few words.
    pub why: String,
    /// What a reader of the copy should know.
    pub note: Option<String>,
    /// What becomes of absent chunks.
    pub absent: AbsentChunks,
    /// The stored chunks, by position in the source's grid.
    pub stored: ChunkSet,
    /// As [`Stored::known`].
    pub known: Option<ChunkSet>,
    /// Their bytes together.
    pub stored_bytes: u64,
    /// Bytes of the largest one.
    pub largest_bytes: u64,
}

/// What a unit covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cover {
    /// A run of chunks that both grids share, first and last position.
    Chunks(RangeInclusive<u64>),
    /// One box of a [`Rechunk`], by its position in the grid of units.
    Box(u64),
}

/// A part of an array with all objects that it becomes: units share no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Position of the array in the plan.
    pub array: usize,
    /// What it covers.
    pub cover: Cover,
    /// Decoded bytes, as far as known.
    pub decoded_bytes: u64,
}

/// The cost of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Chunks (shards) to read; those that lie in several boxes count for each.
    pub chunks_read: u64,
    /// Encoded bytes to read; where only parts of chunks are read, still all of them.
    pub bytes_read: u64,
    /// Bytes after decoding; arrays that are copied byte for byte count nothing.
    pub bytes_decoded: u64,
    /// Chunks to write, at most: those of nothing but fill are left out.
    pub chunks_written: u64,
    /// Absent chunks that must be written.
    pub absent_written: u64,
    /// Memory at its peak, beside the program itself.
    pub memory_bytes: u64,
    /// Scratch space at its peak.
    pub scratch_bytes: u64,
}

/// What of one store is not an array.
#[derive(Debug, Clone)]
pub struct StoreCopy {
    /// The groups.
    pub groups: Vec<GroupNode>,
    /// What of the sources the copy does not have.
    pub left_out: Vec<LeftOut>,
    /// The format of the copy's root, and of groups that the source lacks.
    pub format: ZarrFormat,
}

impl StoreCopy {
    /// Returns the copy of a source in `format`, whose groups become `groups_format`, or stay what they are.
    pub(super) fn new(source: &Reviewed, format: ZarrFormat, groups_format: Option<ZarrFormat>) -> Self {
        let groups = source.groups().iter().map(|group| converted_group(group.clone(), groups_format));
        Self { groups: groups.collect(), left_out: source.left_out().to_vec(), format }
    }
}

/// One store to copy.
#[derive(Debug, Clone)]
pub struct WantedStore {
    /// Its groups, and what of it is not copied.
    pub reviewed: Reviewed,
    /// Its arrays.
    pub arrays: Vec<Wanted>,
}

/// A whole plan: of one store, or of several that share threads and memory.
#[derive(Debug)]
pub struct CopyPlan {
    /// The arrays, in the order of the hierarchy.
    pub arrays: Vec<ArrayCopy>,
    /// The stores.
    pub stores: Vec<StoreCopy>,
    /// The work, array by array, those with the largest units first.
    pub units: Vec<Unit>,
    /// What it costs.
    pub totals: Totals,
    /// Worker threads.
    pub jobs: usize,
    /// The memory that units share.
    pub memory: memory::Shares,
}

/// What a listing says of one array.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// The stored chunks.
    pub chunks: ChunkSet,
    /// Where only some chunks were asked for, those of them that are stored: `chunks` are then all of the grid, of which some
    /// may turn out to be absent, `bytes` an estimate, and `largest_bytes` a bound.
    pub known: Option<ChunkSet>,
    /// Their bytes together.
    pub bytes: u64,
    /// Bytes of the largest one.
    pub largest_bytes: u64,
}

/// Plans a copy of stores.
///
/// Errors: `Unsupported` if the target format cannot say an array, which it names; `OverBudget` if not even one unit
/// fits the memory, with the least that would do.
pub fn plan_copy(wanted: Vec<WantedStore>, wish: &Wish) -> Result<CopyPlan> {
    let mut stores = Vec::with_capacity(wanted.len());
    let mut arrays = Vec::new();
    for (store, wanted) in wanted.into_iter().enumerate() {
        let format = wish.format.unwrap_or_else(|| {
            let first = wanted.reviewed.groups().first().map(|group| group.format);
            let array = || wanted.arrays.first().map(|wanted| wanted.array.metadata.format);
            first.or_else(array).unwrap_or(ZarrFormat::V3)
        });
        for array in wanted.arrays {
            arrays.push(plan_array(store, array)?);
        }
        stores.push(StoreCopy::new(&wanted.reviewed, format, wish.format));
    }
    finish(arrays, stores, wish)
}

/// Shares the memory, and cuts arrays into units.
pub(super) fn finish(mut arrays: Vec<ArrayCopy>, stores: Vec<StoreCopy>, wish: &Wish) -> Result<CopyPlan> {
    let work = Wish { memory_bytes: wish.memory_bytes.saturating_sub(wish.upload_bytes), ..*wish };
    let memory = memory::share(&mut arrays, &work)?;
    let memory_bytes = memory.peak_bytes.saturating_add(wish.upload_bytes);
    let mut totals = Totals { memory_bytes, ..Totals::default() };
    for array in &arrays {
        // refuses what has too many chunks to write, before units are made of them
        array.add_to(&mut totals)?;
    }
    let mut by_array: Vec<Vec<Unit>> =
        arrays.iter().enumerate().map(|(position, array)| units_of(position, array, wish.source)).collect();
    // store by store, so that each can be published before the next; the largest units of one first
    by_array.sort_by_key(|units| {
        units.first().map(|unit| (arrays[unit.array].store, std::cmp::Reverse(unit.decoded_bytes)))
    });
    let units: Vec<Unit> = by_array.into_iter().flatten().collect();
    Ok(CopyPlan { arrays, stores, units, totals, jobs: memory.jobs, memory })
}

fn plan_array(store: usize, wanted: Wanted) -> Result<ArrayCopy> {
    let Wanted { array: source, stored, target } = wanted;
    let same_format = target.format.is_none_or(|format| format == source.metadata.format);
    let planned = convert(&source.path, &source.metadata, &target)
        .and_then(|conversion| strategy(&source.metadata, conversion));
    let (strategy, why, conversion) = match planned {
        Ok(planned) => planned,
        Err(reason) if is_fault_of_codec(&source, &target) => {
            let message = format!("could not plan a copy of `{}` with this --codec: {reason}", source.path);
            return Err(Error::new(ErrorKind::Usage, message).with_hint(
                "give JSON as the metadata of this Zarr format has it, or a codec such as zstd:3",
            ));
        }
        // what cannot be encoded anew is copied byte for byte, and named
        Err(reason) if same_format => {
            let keep = Target { codec: TargetCodec::Keep, layout: None, ..target.clone() };
            let conversion = convert(&source.path, &source.metadata, &keep)
                .map_err(|message| refusal(&source, &message))?;
            (Strategy::CopyBytes, format!("copied byte for byte: {reason}"), conversion)
        }
        Err(reason) => return Err(refusal(&source, &reason)),
    };
    if strategy != Strategy::CopyBytes {
        check_frames(&source.path, &conversion.metadata)?;
    }
    let target = ArrayNode { path: source.path.clone(), metadata: conversion.metadata };
    let note = conversion.note;
    Ok(ArrayCopy {
        store,
        source,
        target,
        strategy,
        rechunk: None,
        spill: None,
        gather: None,
        why,
        note,
        absent: conversion.absent,
        stored: stored.chunks,
        known: stored.known,
        stored_bytes: stored.bytes,
        largest_bytes: stored.largest_bytes,
    })
}

/// Returns whether JSON of the user is why an array cannot be encoded anew: without a compressor it could.
fn is_fault_of_codec(source: &ArrayNode, target: &Target) -> bool {
    let plain = Target { codec: TargetCodec::Uncompressed, ..target.clone() };
    matches!(target.codec, TargetCodec::Json(_))
        && convert(&source.path, &source.metadata, &plain)
            .and_then(|conversion| strategy(&source.metadata, conversion))
            .is_ok()
}

fn refusal(source: &ArrayNode, reason: &str) -> Error {
    let message = format!("could not plan a copy of `{}`: {reason}", source.path);
    let hint = match source.path.as_str() {
        "/" => "keep the format".to_owned(),
        path => format!("pass --exclude '{path}' to leave it out, or keep the format"),
    };
    Error::new(ErrorKind::Unsupported, message).with_hint(hint)
}

/// Decides how an array is rewritten; the error says why it cannot be.
fn strategy(
    source: &ArrayMetadata,
    conversion: Conversion,
) -> Result<(Strategy, String, Conversion), String> {
    let target = &conversion.metadata;
    let shape = source.grid.largest_chunk_shape();
    let compile = |metadata: &ArrayMetadata, shape: &[u64]| {
        Chain::compile(metadata, shape).map_err(|error| error.to_string())
    };
    if target.grid != source.grid || target.chunk_shape() != source.chunk_shape() {
        compile(source, &shape)?.can_decode_to(0)?;
        compile(target, &target.grid.largest_chunk_shape())?.can_encode_from(0)?;
        return Ok((Strategy::Rechunk, "another chunk grid".to_owned(), conversion));
    }
    let recoder = Recoder::new(compile(source, &shape)?, compile(target, &shape)?);
    if recoder.is_copy() && conversion.absent == AbsentChunks::Leave {
        return Ok((Strategy::CopyBytes, "same codecs on the same grid".to_owned(), conversion));
    }
    recoder.check()?;
    if conversion.absent == AbsentChunks::Write && !source.data_type.is_variable() {
        recoder.target().can_encode_from(0)?;
    }
    let unknown = source.unknown_codecs();
    let why = match unknown.is_empty() {
        true => "same grid, other codecs".to_owned(),
        false => format!(
            "its elements stay encoded by `{}`, which zkit does not decode; the compressor around them changes",
            unknown.join("`, `")
        ),
    };
    Ok((Strategy::Recode, why, conversion))
}

fn converted_group(group: GroupNode, format: Option<ZarrFormat>) -> GroupNode {
    let format = format.unwrap_or(group.format);
    if format == group.format {
        return group;
    }
    let document = match group_documents(format, None, &group.attributes).swap_remove(0).1 {
        crate::metadata::Json::Object(mut document) => {
            document.take("attributes");
            document
        }
        _ => crate::metadata::Object::default(),
    };
    GroupNode { format, document, ..group }
}

impl CopyPlan {
    /// Returns a hash of what is written, and in which units: the same for the same plan on any machine.
    pub fn hash(&self) -> u64 {
        let mut hash = xxhash_rust::xxh3::Xxh3Default::new();
        for array in &self.arrays {
            for node in [&array.source, &array.target] {
                hash.update(node.path.as_bytes());
                for (name, document) in ArrayMetadata::documents(&node.metadata) {
                    hash.update(name.as_bytes());
                    hash.update(document.to_string().as_bytes());
                }
            }
            let how =
                format!("{:?} {:?} {:?} {:?}", array.strategy, array.absent, array.rechunk, array.spill);
            if let Some(gather) = &array.gather {
                gather.add_to(&mut hash);
            }
            hash.update(how.as_bytes());
        }
        for unit in &self.units {
            hash.update(format!("{} {:?}", unit.array, unit.cover).as_bytes());
        }
        hash.digest()
    }
}

impl CopyPlan {
    /// Takes note of how many encoded bytes are read for each array, where that was not known when the plan was made.
    pub fn count_stored(&mut self, bytes: &[u64]) {
        for (array, &bytes) in self.arrays.iter_mut().zip(bytes) {
            array.stored_bytes = bytes;
        }
        self.totals.bytes_read = bytes.iter().copied().fold(0, u64::saturating_add);
    }
}

impl ArrayCopy {
    /// Returns the chunks from which samples are drawn: those that are known to be stored.
    pub fn known_stored(&self) -> &ChunkSet {
        self.known.as_ref().unwrap_or(&self.stored)
    }

    /// Returns how many source chunks the copy visits: the stored ones, or all where absent ones are written.
    pub fn visited(&self) -> u64 {
        match self.absent {
            AbsentChunks::Leave => self.stored.len(),
            AbsentChunks::Write => self.source.metadata.grid.total().unwrap_or(u64::MAX),
        }
    }

    /// Returns the decoded bytes of one stored chunk of the source, as far as known.
    pub fn decoded_chunk_bytes(&self) -> u64 {
        if let Some(gather) = &self.gather {
            // a chunk of the gathering order is a part of one of a source, which is decoded for it
            return gather.largest_chunk_bytes().map_or(self.largest_bytes, |(bytes, _)| bytes);
        }
        self.source
            .metadata
            .chunk_decoded_bytes()
            .unwrap_or_else(|| self.largest_bytes.saturating_mul(VARIABLE_EXPANSION))
    }

    /// Returns the bytes that an element takes, on average where that is not fixed.
    pub(super) fn element_bytes(&self) -> u64 {
        self.source.metadata.data_type.item_bytes().unwrap_or_else(|| {
            let elements =
                crate::grid::product(&self.source.metadata.grid.largest_chunk_shape()).unwrap_or(1);
            self.decoded_chunk_bytes() / elements.max(1) + 32
        })
    }

    /// Returns whether the copy has another grid.
    pub fn is_rechunked(&self) -> bool {
        matches!(self.strategy, Strategy::Rechunk | Strategy::RechunkPasses | Strategy::RechunkSpill)
    }

    /// Returns what the search for boxes needs to know; `None` without fixed element size.
    pub(super) fn geometry(&self, kind: SourceKind) -> Option<Geometry> {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let stored_ratio = {
            let decoded = self.stored.len().saturating_mul(self.decoded_chunk_bytes());
            self.stored_bytes as f64 / decoded.max(1) as f64
        };
        let geometry = Geometry::new(&self.source.metadata, &self.target.metadata, stored_ratio, kind)?;
        match &self.gather {
            Some(gather) => {
                let (_, alone) = gather.largest_chunk_bytes()?;
                Some(geometry.gathering(alone, gather.reordered()))
            }
            None => Some(geometry),
        }
    }

    /// Returns the memory that rewriting one chunk takes: encoded, decoded, encoded anew, and a step between.
    pub fn chunk_memory_bytes(&self) -> u64 {
        let nothing_to_do = self.visited() == 0;
        match self.strategy {
            _ if nothing_to_do => 0,
            Strategy::CopyBytes => self.largest_bytes.saturating_mul(2),
            _ => self.largest_bytes.saturating_add(self.decoded_chunk_bytes().saturating_mul(3)),
        }
    }

    /// Returns how many objects the copy has at most.
    fn objects(&self) -> Option<u64> {
        let Some(rechunk) = &self.rechunk else { return Some(self.visited()) };
        let grid = &self.target.metadata.grid;
        let total = grid.total()?;
        let few = self.absent == AbsentChunks::Leave
            && self.stored.len() < self.source.metadata.grid.total().unwrap_or(u64::MAX);
        if !few {
            return Some(total);
        }
        let unit = crate::grid::product(&rechunk.unit_chunks)?;
        Some(
            rechunk
                .units_of(&self.source.metadata.grid, grid, &self.stored)
                .len()
                .saturating_mul(unit)
                .min(total),
        )
    }

    fn add_to(&self, totals: &mut Totals) -> Result<()> {
        let objects = self.objects().filter(|&objects| objects < MOST_OBJECTS).ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!("could not plan a copy of `{}`: it has too many chunks to write", self.source.path),
            )
        })?;
        totals.bytes_read = totals.bytes_read.saturating_add(self.stored_bytes);
        totals.chunks_written += objects;
        if self.absent == AbsentChunks::Write {
            // of the copy's chunks, as many as their share in the source
            let visited = self.visited().max(1);
            let absent = u128::from(objects) * u128::from(visited - self.stored.len().min(visited));
            totals.absent_written += u64::try_from(absent / u128::from(visited)).unwrap_or(u64::MAX);
        }
        let decoded = self.stored.len().saturating_mul(self.decoded_chunk_bytes());
        if let Some(spill) = &self.spill {
            // one array after the other
            totals.scratch_bytes = totals.scratch_bytes.max(spill.scratch_bytes);
        }
        match &self.rechunk {
            Some(rechunk) => {
                totals.chunks_read += rechunk.visits.max(self.stored.len().min(1));
                totals.bytes_decoded = totals.bytes_decoded.saturating_add(scaled(decoded, rechunk.decodes));
            }
            None => {
                totals.chunks_read += self.stored.len();
                if self.strategy != Strategy::CopyBytes {
                    totals.bytes_decoded = totals.bytes_decoded.saturating_add(decoded);
                }
            }
        }
        Ok(())
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, of positive numbers"
)]
fn scaled(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor) as u64
}

/// Cuts an array into units: boxes where it is rechunked, else runs of chunks of about [`UNIT_BYTES`].
pub(super) fn units_of(array: usize, copy: &ArrayCopy, source: SourceKind) -> Vec<Unit> {
    if copy.spill.is_some() {
        // its stages have units of their own
        return Vec::new();
    }
    if let Some(rechunk) = &copy.rechunk {
        let unit = |position| Unit { array, cover: Cover::Box(position), decoded_bytes: rechunk.unit_bytes };
        return match copy.absent {
            AbsentChunks::Write => (0..rechunk.units()).map(unit).collect(),
            AbsentChunks::Leave => rechunk
                .units_of(&copy.source.metadata.grid, &copy.target.metadata.grid, &copy.stored)
                .iter()
                .map(unit)
                .collect(),
        };
    }
    let chunk_bytes = copy.decoded_chunk_bytes().max(1);
    let most = match source {
        SourceKind::Local => UNIT_CHUNKS,
        SourceKind::Remote => UNIT_CHUNKS_REMOTE,
    };
    let per_unit = (UNIT_BYTES / chunk_bytes).clamp(1, most);
    let unit = |chunks: RangeInclusive<u64>, count: u64| Unit {
        array,
        cover: Cover::Chunks(chunks),
        decoded_bytes: count.saturating_mul(chunk_bytes),
    };
    match copy.absent {
        AbsentChunks::Write => {
            let total = copy.visited();
            (0..total.div_ceil(per_unit))
                .map(|at| {
                    let (first, last) = (at * per_unit, ((at + 1) * per_unit).min(total) - 1);
                    unit(first..=last, last - first + 1)
                })
                .collect()
        }
        AbsentChunks::Leave => {
            let mut units = Vec::new();
            let mut open: Option<(u64, u64, u64)> = None;
            for position in copy.stored.iter() {
                let (first, _, count) = open.unwrap_or((position, position, 0));
                open = Some((first, position, count + 1));
                if count + 1 == per_unit {
                    units.push(unit(first..=position, per_unit));
                    open = None;
                }
            }
            units.extend(open.map(|(first, last, count)| unit(first..=last, count)));
            units
        }
    }
}
