//! Proves a copy: what was written is read back through the reader and compared with the source, decoded.

use super::compare::{Pair, compare};
use super::copy::recoder;
use super::lanes::{self, Footprint, Resources};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Observer;
use crate::grid::Region;
use crate::hierarchy::{ArrayNode, Hierarchy};
use crate::metadata::AbsentChunks;
use crate::plan::{ArrayCopy, CopyPlan, Unit};
use crate::read::{ArrayReader, ReadContext, codec_error, read_slab, with_scratch};
use crate::store::Store;

/// How much of a copy is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Nothing.
    None,
    /// The first and the last stored chunk of each array, and a seeded choice of the others: one in a hundred.
    Sample,
    /// Every element of every array, those of absent chunks by the fill value.
    Full,
}

/// What was read back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verified {
    /// Chunks of the source that were compared.
    pub chunks: u64,
    /// Their decoded bytes.
    pub bytes: u64,
}

/// Chunks of one array out of which one is compared.
const SAMPLE_EVERY: u64 = 100;

/// One chunk to compare.
struct Task<'a> {
    array: &'a ArrayCopy,
    position: u64,
}

/// Compares a copy with its source; `copy` was opened from what was written.
///
/// Errors: `Mismatch`, naming array and chunk, at the first difference.
pub fn verify(
    plan: &CopyPlan,
    source: &Store,
    copy: &Hierarchy,
    mode: Verify,
    resources: Resources,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Verified> {
    let target = copy.readable_store()?;
    match mode {
        Verify::None => Ok(Verified::default()),
        Verify::Sample => {
            let tasks: Vec<Task<'_>> = plan
                .arrays
                .iter()
                .flat_map(|array| sample(array).map(move |position| Task { array, position }))
                .collect();
            let results = lanes::run(
                &tasks,
                resources,
                |task| Footprint::whole(chunk_bytes(task.array)),
                |task, lane| {
                    let context = ReadContext { pool: lane.pool, cancel, meter: observer.meter() };
                    compare_chunk(source, target, copy, task, lane.chunk_bytes, context)
                },
            )?;
            let bytes = results.into_iter().sum::<Result<u64>>()?;
            Ok(Verified { chunks: tasks.len() as u64, bytes })
        }
        Verify::Full => full(plan, (source, target), copy, resources, observer, cancel),
    }
}

/// Compares every element; absent chunks that stay absent by the fill values alone, as there may be petabytes of them.
fn full(
    plan: &CopyPlan,
    (source, target): (&Store, &Store),
    copy: &Hierarchy,
    resources: Resources,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Verified> {
    let (whole, by_chunk): (Vec<_>, Vec<_>) =
        plan.arrays.iter().partition(|array| is_decodable(array) && !leaves_absent(array));
    for array in &by_chunk {
        same_fill(array, copy)?;
    }
    let units: Vec<&Unit> = plan
        .units
        .iter()
        .filter(|unit| {
            let array = &plan.arrays[unit.array];
            !is_decodable(array) || leaves_absent(array)
        })
        .collect();
    let decoded: u64 = units.iter().map(|unit| unit.decoded_bytes).fold(0, u64::saturating_add);
    observer.meter().decoded_bytes_total.add(decoded.saturating_mul(2));
    let results = lanes::run(
        &units,
        resources,
        |unit| Footprint::whole(chunk_bytes(&plan.arrays[unit.array])),
        |unit, lane| {
            let context = ReadContext { pool: lane.pool, cancel, meter: observer.meter() };
            let array = &plan.arrays[unit.array];
            let stored = array.stored.range(unit.chunks.clone());
            stored
                .map(|position| {
                    let task = Task { array, position };
                    compare_chunk(source, target, copy, &task, lane.chunk_bytes, context)
                })
                .sum::<Result<u64>>()
        },
    )?;
    let mut bytes = results.into_iter().sum::<Result<u64>>()?;

    let pairs: Vec<Pair<'_>> = whole
        .iter()
        .map(|array| Ok(Pair { left: &array.source, right: namesake(copy, array)? }))
        .collect::<Result<_>>()?;
    let results = compare((source, target), &pairs, resources, observer, cancel)?;
    for (array, result) in whole.iter().zip(results) {
        if let Some(difference) = result? {
            return Err(mismatch(&array.source.path, &format!("element {:?}", difference.index)));
        }
        bytes = bytes.saturating_add(array.source.metadata.decoded_bytes().unwrap_or(0));
    }
    Ok(Verified { chunks: plan.arrays.iter().map(|array| array.stored.len()).sum(), bytes })
}

/// Returns whether chunks are absent from the source, and stay so in the copy.
fn leaves_absent(array: &ArrayCopy) -> bool {
    let total = array.source.metadata.grid.total();
    array.absent == AbsentChunks::Leave && total.is_none_or(|total| array.stored.len() < total)
}

/// Checks that readers of the copy see the same element where there is no chunk.
fn same_fill(array: &ArrayCopy, copy: &Hierarchy) -> Result<()> {
    let element = |node: &ArrayNode| node.metadata.fill_value.element(&node.metadata.data_type);
    if element(&array.source) == element(namesake(copy, array)?) {
        return Ok(());
    }
    Err(mismatch(&array.source.path, "its fill value"))
}

fn is_decodable(array: &ArrayCopy) -> bool {
    array.source.metadata.unknown_codecs().is_empty()
}

fn chunk_bytes(array: &ArrayCopy) -> u64 {
    array.source.metadata.chunk_decoded_bytes().unwrap_or(array.largest_bytes)
}

/// Returns the first and last stored chunk and a choice between them that depends on the array's path alone.
fn sample(array: &ArrayCopy) -> impl Iterator<Item = u64> + '_ {
    let seed = xxhash_rust::xxh3::xxh3_64(array.source.path.as_bytes());
    let last = array.stored.len().saturating_sub(1);
    let chosen = move |rank: u64| {
        rank == 0
            || rank == last
            || xxhash_rust::xxh3::xxh3_64_with_seed(&rank.to_le_bytes(), seed).is_multiple_of(SAMPLE_EVERY)
    };
    array
        .stored
        .iter()
        .enumerate()
        .filter(move |&(rank, _)| chosen(rank as u64))
        .map(|(_, position)| position)
}

fn namesake<'a>(copy: &'a Hierarchy, array: &ArrayCopy) -> Result<&'a ArrayNode> {
    copy.array(&array.target.path)
        .ok_or_else(|| mismatch(&array.target.path, "its metadata cannot be read back"))
}

fn mismatch(path: &str, place: &str) -> Error {
    Error::new(
        ErrorKind::Mismatch,
        format!("the copy of `{path}` differs from its source at {place}; nothing was published"),
    )
}

/// Compares one chunk of the source with what the copy gives for its elements; returns the bytes compared.
fn compare_chunk(
    source: &Store,
    target: &Store,
    copy: &Hierarchy,
    task: &Task<'_>,
    chunk_limit: u64,
    context: ReadContext<'_>,
) -> Result<u64> {
    let array = task.array;
    if !is_decodable(array) {
        return same_bytes(source, target, array, task.position);
    }
    let left = ArrayReader::new(source, &array.source, chunk_limit)?;
    let right = ArrayReader::new(target, namesake(copy, array)?, chunk_limit)?;
    let chunk_index = array.source.metadata.grid.index_at(task.position);
    let region: Region = array.source.metadata.grid.chunk_region(&chunk_index);
    let place = || format!("chunk {chunk_index:?}");
    if array.source.metadata.data_type.is_variable() {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        left.visit_variable(&region, context, &mut |element| a.push(element.to_vec()))?;
        right.visit_variable(&region, context, &mut |element| b.push(element.to_vec()))?;
        let bytes = a.iter().map(|element| element.len() as u64).sum();
        return if a == b { Ok(bytes) } else { Err(mismatch(&array.source.path, &place())) };
    }
    let (mut a, mut b) = (Vec::new(), Vec::new());
    read_slab(&left, &region, &mut a, context)?;
    read_slab(&right, &region, &mut b, context)?;
    if a == b { Ok(a.len() as u64) } else { Err(mismatch(&array.source.path, &place())) }
}

/// Compares a chunk that zkit cannot decode all the way: what lies behind the codecs that it knows.
fn same_bytes(source: &Store, target: &Store, array: &ArrayCopy, position: u64) -> Result<u64> {
    let chunk_index = array.source.metadata.grid.index_at(position);
    let (mut a, mut b, mut key) = (Vec::new(), Vec::new(), String::new());
    array.source.chunk_key(&chunk_index, &mut key);
    let there = source.get(&key, u64::MAX, &mut a)?;
    array.target.chunk_key(&chunk_index, &mut key);
    let copied = target.get(&key, u64::MAX, &mut b)?;
    let recoder = recoder(array, &array.source.metadata.grid.chunk_shape(&chunk_index))?;
    let agree =
        with_scratch(|scratch, _, _| recoder.agree(scratch, &a, &b, u64::MAX)).map_err(codec_error)?;
    if there && copied && agree {
        Ok(a.len() as u64)
    } else {
        Err(mismatch(&array.source.path, &format!("chunk {chunk_index:?}")))
    }
}
