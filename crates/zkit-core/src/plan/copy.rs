//! The plan of a copy: which arrays, how each is rewritten, and the units of work.

use std::ops::RangeInclusive;

use serde::Serialize;

use crate::codec::{Chain, Recoder};
use crate::error::{Error, ErrorKind, Result};
use crate::grid::ChunkSet;
use crate::hierarchy::{ArrayNode, GroupNode};
use crate::metadata::{
    AbsentChunks, ArrayMetadata, Conversion, Target, TargetCodec, ZarrFormat, convert, group_documents,
};
use crate::plan::layout::check_frames;
use crate::units::Bytes;

/// Decoded bytes that a unit should have: enough to hide its overhead, little enough to balance threads.
const UNIT_BYTES: u64 = 8 << 20;
/// Elements without fixed size are taken to decode to so many times their stored bytes.
const VARIABLE_EXPANSION: u64 = 8;

/// What is wanted of a copy.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Format, codec and checksum.
    pub target: Target,
    /// Bytes of memory for chunks and codecs.
    pub memory_bytes: u64,
    /// Worker threads at most.
    pub jobs: usize,
}

/// How an array is rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Encoded chunks are taken over as they are.
    CopyBytes,
    /// Each chunk is decoded as far as needed and encoded anew.
    Recode,
    /// Each shard becomes one chunk for each of its inner chunks.
    Unshard,
}

/// One array of a plan.
#[derive(Debug)]
pub struct ArrayCopy {
    /// The array as it is.
    pub source: ArrayNode,
    /// The array as it is to be.
    pub target: ArrayNode,
    /// How it is rewritten.
    pub strategy: Strategy,
    /// Why, in a few words.
    pub why: String,
    /// What a reader of the copy should know.
    pub note: Option<String>,
    /// What becomes of absent chunks.
    pub absent: AbsentChunks,
    /// The stored chunks, by position in the source's grid.
    pub stored: ChunkSet,
    /// Their bytes together.
    pub stored_bytes: u64,
    /// Bytes of the largest one.
    pub largest_bytes: u64,
}

/// A run of an array's stored chunks, with all objects that they become: units share no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Position of the array in the plan.
    pub array: usize,
    /// Positions in the source's grid, first and last.
    pub chunks: RangeInclusive<u64>,
    /// Decoded bytes, as far as known.
    pub decoded_bytes: u64,
}

/// The cost of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Chunks (shards) to read.
    pub chunks_read: u64,
    /// Encoded bytes to read.
    pub bytes_read: u64,
    /// Bytes after decoding; arrays that are copied byte for byte count nothing.
    pub bytes_decoded: u64,
    /// Chunks to write.
    pub chunks_written: u64,
    /// Absent chunks that must be written.
    pub absent_written: u64,
    /// Memory at its peak, beside the program itself.
    pub memory_bytes: u64,
}

/// A whole plan.
#[derive(Debug)]
pub struct CopyPlan {
    /// The arrays, in the order of the hierarchy.
    pub arrays: Vec<ArrayCopy>,
    /// The groups.
    pub groups: Vec<GroupNode>,
    /// The format of the copy's root, and of groups that the source lacks.
    pub format: ZarrFormat,
    /// The work, largest first.
    pub units: Vec<Unit>,
    /// What it costs.
    pub totals: Totals,
    /// Threads that fit the budget.
    pub jobs: usize,
}

/// What a listing says of one array.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// The stored chunks.
    pub chunks: ChunkSet,
    /// Their bytes together.
    pub bytes: u64,
    /// Bytes of the largest one.
    pub largest_bytes: u64,
}

/// Plans a copy of groups and arrays on the same chunk grid.
///
/// Errors: `Unsupported` if the target format cannot say an array, which it names; `OverBudget` if not even one
/// chunk fits the memory.
pub fn plan_copy(groups: Vec<GroupNode>, arrays: Vec<(ArrayNode, Stored)>, wish: &Wish) -> Result<CopyPlan> {
    let format = wish.target.format.unwrap_or_else(|| {
        let first = groups.first().map(|group| group.format);
        first.or_else(|| arrays.first().map(|(array, _)| array.metadata.format)).unwrap_or(ZarrFormat::V3)
    });
    let arrays: Vec<ArrayCopy> = arrays
        .into_iter()
        .map(|(array, stored)| plan_array(array, stored, &wish.target))
        .collect::<Result<_>>()?;
    let groups: Vec<GroupNode> =
        groups.into_iter().map(|group| converted_group(group, wish.target.format)).collect();
    let mut units: Vec<Unit> =
        arrays.iter().enumerate().flat_map(|(position, array)| units_of(position, array)).collect();
    units.sort_by_key(|unit| std::cmp::Reverse(unit.decoded_bytes));

    let per_thread = arrays.iter().map(ArrayCopy::memory_bytes).max().unwrap_or(0);
    let fitting = wish.memory_bytes.checked_div(per_thread).map_or(wish.jobs, crate::units::saturating_usize);
    if fitting == 0 {
        let largest = arrays
            .iter()
            .max_by_key(|array| array.memory_bytes())
            .map_or("", |array| array.source.path.as_str());
        let message = format!(
            "the chunks of `{largest}` need {} of memory, the budget is {}",
            Bytes(per_thread),
            Bytes(wish.memory_bytes)
        );
        return Err(Error::new(ErrorKind::OverBudget, message)
            .with_hint(format!("pass --memory {} or more", Bytes(per_thread.next_multiple_of(1 << 20)))));
    }
    let jobs = wish.jobs.min(fitting).max(1);
    let mut totals = Totals { memory_bytes: per_thread * jobs as u64, ..Totals::default() };
    for array in &arrays {
        array.add_to(&mut totals)?;
    }
    Ok(CopyPlan { arrays, groups, format, units, totals, jobs })
}

fn plan_array(source: ArrayNode, stored: Stored, target: &Target) -> Result<ArrayCopy> {
    let same_format = target.format.is_none_or(|format| format == source.metadata.format);
    let planned = convert(&source.path, &source.metadata, target)
        .and_then(|conversion| strategy(&source.metadata, conversion));
    let (strategy, why, conversion) = match planned {
        Ok(planned) => planned,
        Err(reason) if is_fault_of_codec(&source, target) => {
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
        source,
        target,
        strategy,
        why,
        note,
        absent: conversion.absent,
        stored: stored.chunks,
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
    if target.grid != source.grid {
        let from = compile(source, &shape)?;
        let to = compile(target, &target.grid.largest_chunk_shape())?;
        let whole = from.shard().is_some()
            && source.sharding().map(|sharding| sharding.chunk_shape.clone()) == target.grid.regular_shape();
        if !whole || source.data_type.is_variable() {
            return Err("its shards cannot be cut into the chunks of the copy".to_owned());
        }
        from.can_decode_to(0)?;
        to.can_encode_from(0)?;
        return Ok((Strategy::Unshard, "each inner chunk of a shard becomes a chunk".to_owned(), conversion));
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

impl ArrayCopy {
    /// Returns how many chunks the copy visits: the stored ones, or all where absent ones are written.
    pub fn visited(&self) -> u64 {
        match self.absent {
            AbsentChunks::Leave => self.stored.len(),
            AbsentChunks::Write => self.source.metadata.grid.total().unwrap_or(u64::MAX),
        }
    }

    fn decoded_chunk_bytes(&self) -> u64 {
        self.source
            .metadata
            .chunk_decoded_bytes()
            .unwrap_or_else(|| self.largest_bytes.saturating_mul(VARIABLE_EXPANSION))
    }

    /// Returns the memory of one thread for one chunk: encoded, decoded, encoded anew, and a step between.
    fn memory_bytes(&self) -> u64 {
        let nothing_to_do = self.visited() == 0;
        match self.strategy {
            _ if nothing_to_do => 0,
            Strategy::CopyBytes => self.largest_bytes.saturating_mul(2),
            Strategy::Recode | Strategy::Unshard => {
                self.largest_bytes.saturating_add(self.decoded_chunk_bytes().saturating_mul(3))
            }
        }
    }

    /// Returns how many objects one source chunk becomes.
    pub fn objects_per_chunk(&self) -> u64 {
        match self.strategy {
            Strategy::CopyBytes | Strategy::Recode => 1,
            Strategy::Unshard => {
                let ratio = self
                    .source
                    .metadata
                    .grid
                    .largest_chunk_shape()
                    .into_iter()
                    .zip(self.target.metadata.grid.largest_chunk_shape());
                ratio.fold(1, |product: u64, (shard, chunk)| product.saturating_mul(shard / chunk.max(1)))
            }
        }
    }

    fn add_to(&self, totals: &mut Totals) -> Result<()> {
        let overflow = || {
            Error::new(
                ErrorKind::Unsupported,
                format!("could not plan a copy of `{}`: it has too many chunks to write", self.source.path),
            )
        };
        let visited = self.visited();
        let objects = visited
            .checked_mul(self.objects_per_chunk())
            .filter(|&objects| objects < 1 << 40)
            .ok_or_else(overflow)?;
        totals.chunks_read += self.stored.len();
        totals.bytes_read += self.stored_bytes;
        totals.chunks_written += objects;
        totals.absent_written += (visited - self.stored.len()).saturating_mul(self.objects_per_chunk());
        if self.strategy != Strategy::CopyBytes {
            totals.bytes_decoded = totals
                .bytes_decoded
                .saturating_add(self.stored.len().saturating_mul(self.decoded_chunk_bytes()));
        }
        Ok(())
    }
}

/// Cuts an array's chunks into units of about [`UNIT_BYTES`].
fn units_of(array: usize, copy: &ArrayCopy) -> Vec<Unit> {
    let chunk_bytes = copy.decoded_chunk_bytes().max(1);
    let per_unit = (UNIT_BYTES / chunk_bytes).clamp(1, 4096);
    let unit = |chunks: RangeInclusive<u64>, count: u64| Unit {
        array,
        chunks,
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
