//! Proves a copy: what was written is read back through the reader and compared with the source, decoded.

use super::compare::{Pair, compare};
use super::copy::recoder;
use super::lanes::{self, Resources};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Observer;
use crate::grid::Region;
use crate::hierarchy::Hierarchy;
use crate::plan::{ArrayCopy, CopyPlan};
use crate::read::{ArrayReader, ReadContext, codec_error, read_slab, with_scratch};
use crate::store::Store;

/// How much of a copy is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Nothing.
    None,
    /// The first and the last stored chunk of each array, and a seeded choice of the others: one in a hundred.
    Sample,
    /// Every element of every array.
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
                |task| chunk_bytes(task.array),
                |task, lane| {
                    let context = ReadContext { pool: lane.pool, cancel, meter: observer.meter() };
                    compare_chunk(source, target, copy, task, lane.chunk_bytes, context)
                },
            )?;
            let bytes = results.into_iter().sum::<Result<u64>>()?;
            Ok(Verified { chunks: tasks.len() as u64, bytes })
        }
        Verify::Full => {
            let (decodable, opaque): (Vec<_>, Vec<_>) =
                plan.arrays.iter().partition(|array| is_decodable(array));
            let pairs: Vec<Pair<'_>> = decodable
                .iter()
                .map(|array| Ok(Pair { left: &array.source, right: namesake(copy, array)? }))
                .collect::<Result<_>>()?;
            for (array, result) in
                decodable.iter().zip(compare((source, target), &pairs, resources, observer, cancel)?)
            {
                if let Some(difference) = result? {
                    return Err(mismatch(&array.source.path, &format!("element {:?}", difference.index)));
                }
            }
            for array in &opaque {
                array
                    .stored
                    .iter()
                    .try_for_each(|position| same_bytes(source, target, array, position).map(|_| ()))?;
            }
            let bytes = plan
                .arrays
                .iter()
                .filter_map(|array| array.source.metadata.decoded_bytes())
                .fold(0, u64::saturating_add);
            Ok(Verified { chunks: plan.arrays.iter().map(|array| array.stored.len()).sum(), bytes })
        }
    }
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

fn namesake<'a>(copy: &'a Hierarchy, array: &ArrayCopy) -> Result<&'a crate::hierarchy::ArrayNode> {
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
