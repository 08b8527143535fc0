//! How the memory budget is shared: what each thread keeps, and what units take from one pool while they are open.

use super::copy::{ArrayCopy, Strategy, Wish};
use super::rechunk::{BoxBudget, Geometry, Rechunk, SourceKind};
use super::spill;
use crate::codec::{Chain, expected_window_bytes};
use crate::error::{Error, ErrorKind, Result, memory_argument};
use crate::grid::{Grid, product};
use crate::metadata::ArrayMetadata;
use crate::read::WHOLE_SHARD_BYTES;
use crate::units::Bytes;

/// Threads hold at most this part of the budget for parts of source chunks that can be decoded in part.
const PART_SHARE: u64 = 4;
/// A source chunk is decoded so often at most before a rechunk counts as one in passes.
const NEARLY_ONCE: f64 = 1.25;

/// The memory of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Worker threads.
    pub jobs: usize,
    /// What each thread keeps for rechunks: an encoded chunk, the decoded part of one, a chunk encoded anew.
    pub thread_bytes: u64,
    /// What open units share.
    pub pool_bytes: u64,
    /// What is taken of it all at most.
    pub peak_bytes: u64,
}

/// What rechunking one array takes.
struct Need {
    array: usize,
    geometry: Geometry,
    /// Encoded bytes in and out, and steps between.
    buffers: u64,
    /// What all threads together hold for the windows of frames.
    windows: u64,
}

/// Returns what windows of frames may take of a budget while chunks of an array are decoded for a copy: what is expected of
/// them, which is set aside, and a quarter in any case, as frames may have larger ones.
pub(crate) fn window_bytes(metadata: &ArrayMetadata, memory_bytes: u64) -> u64 {
    expected_windows(metadata, memory_bytes).max(memory_bytes / 4)
}

fn expected_windows(metadata: &ArrayMetadata, memory_bytes: u64) -> u64 {
    let chunk = metadata.chunk_decoded_bytes().unwrap_or(0);
    expected_window_bytes(&metadata.codecs, chunk, memory_bytes)
}

/// Returns how many buffers as large as a chunk codecs take beside what they read and what they give; those of inner chunks
/// are small.
fn between(metadata: &ArrayMetadata) -> u64 {
    let chain = Chain::compile(metadata, &metadata.grid.largest_chunk_shape());
    chain.map_or(0, |chain| chain.between() as u64)
}

/// Shares the budget between threads and units, and finds the boxes of every rechunk.
///
/// Errors: `OverBudget`, with the least that would do.
pub(super) fn share(arrays: &mut [ArrayCopy], wish: &Wish) -> Result<Shares> {
    let needs: Vec<Need> = arrays
        .iter()
        .enumerate()
        .filter(|(_, array)| array.is_rechunked() && array.visited() > 0)
        .filter_map(|(position, array)| need(position, array, wish))
        .collect();
    let direct = arrays.iter().filter(|array| !is_boxed(array)).map(ArrayCopy::chunk_memory_bytes).max();
    let direct = direct.unwrap_or(0);
    let mut jobs = wish.jobs.max(1);
    let (shares, boxes) = loop {
        if let Some(found) = try_share(&needs, direct, jobs, wish) {
            break found;
        }
        if jobs == 1 {
            return Err(over_budget(arrays, &needs, direct, wish));
        }
        // few at a time where there are few, as each counts
        jobs -= (jobs / 8).max(1);
    };
    for (need, rechunk) in needs.iter().zip(boxes) {
        let array = &mut arrays[need.array];
        let budget = BoxBudget { boxes: shares.pool_bytes, part: part_bytes(need, shares.jobs, wish) };
        let gathered = array.gather.is_some();
        let spill = (wish.scratch_bytes > 0 && rechunk.decodes > NEARLY_ONCE && !gathered)
            .then(|| {
                spill::plan(array, &need.geometry, budget, wish.scratch_bytes, (wish.source, shares.jobs))
            })
            .flatten()
            .filter(|spill| spill.work < rechunk.work);
        if let Some(spill) = spill {
            array.strategy = Strategy::RechunkSpill;
            array.why = format!(
                "another chunk grid; through {} of scratch{}: without it source chunks would be decoded {:.1} times",
                Bytes(spill.scratch_bytes),
                if spill.rounds > 1 { format!(" in {} rounds", spill.rounds) } else { String::new() },
                rechunk.decodes
            );
            array.rechunk = Some(Rechunk { decodes: spill.decodes, ..spill.gather.clone() });
            array.spill = Some(Box::new(spill));
            continue;
        }
        let total: u64 = product(&rechunk.unit_counts).unwrap_or(u64::MAX);
        if rechunk.decodes > NEARLY_ONCE {
            array.strategy = Strategy::RechunkPasses;
            array.why = format!(
                "{}; in {} boxes of {}, as {} hold no more: source chunks are decoded in parts, {:.1} times altogether",
                if gathered { "gathered" } else { "another chunk grid" },
                total,
                Bytes(rechunk.unit_bytes),
                Bytes(wish.memory_bytes),
                rechunk.decodes
            );
        } else {
            array.why = format!(
                "{}; each source chunk is decoded once, in {} of {}",
                if gathered { "gathered" } else { "another chunk grid" },
                if total == 1 { "one box".to_owned() } else { format!("{total} boxes") },
                Bytes(rechunk.unit_bytes)
            );
        }
        array.rechunk = Some(rechunk);
    }
    let open =
        |array: &&mut ArrayCopy| array.is_rechunked() && array.rechunk.is_none() && array.visited() > 0;
    for array in arrays.iter_mut().filter(open) {
        array.rechunk = variable_boxes(array, shares.pool_bytes);
    }
    Ok(shares)
}

/// Returns whether an array is assembled in boxes; elements without fixed size are not.
fn is_boxed(array: &ArrayCopy) -> bool {
    array.is_rechunked() && !array.source.metadata.data_type.is_variable()
}

fn need(position: usize, array: &ArrayCopy, wish: &Wish) -> Option<Need> {
    let kind = wish.source;
    let geometry = array.geometry(kind)?;
    let chunk = geometry.chunk_bytes();
    // encoded chunks grow by little where they do not compress
    let encoded = chunk.saturating_add(chunk / 64).saturating_add(64 << 10);
    let sources = || match &array.gather {
        Some(gather) => gather.parts.iter().map(|part| &part.array.metadata).collect(),
        None => vec![&array.source.metadata],
    };
    let steps = sources().into_iter().map(between).max().unwrap_or(0);
    let windows = sources().into_iter().map(|source| expected_windows(source, wish.memory_bytes)).max();
    // of large local shards inner chunks are read one by one
    let in_parts = kind == SourceKind::Local
        && array.source.metadata.sharding().is_some()
        && array.decoded_chunk_bytes() > WHOLE_SHARD_BYTES;
    let largest = if in_parts { geometry.part_bytes() } else { array.largest_bytes };
    let buffers = largest
        .max(encoded)
        .saturating_add(encoded)
        .saturating_add(geometry.part_bytes().saturating_mul(steps))
        .saturating_add(chunk.saturating_mul(between(&array.target.metadata)));
    Some(Need { array: position, geometry, buffers, windows: windows.unwrap_or(0) })
}

/// Returns what a thread may hold of a decoded source chunk.
fn part_bytes(need: &Need, jobs: usize, wish: &Wish) -> u64 {
    let most = wish.memory_bytes / (PART_SHARE * jobs as u64);
    match need.geometry.decodes_whole() {
        true => need.geometry.part_bytes(),
        false => need.geometry.part_bytes().min(most),
    }
}

fn try_share(needs: &[Need], direct: u64, jobs: usize, wish: &Wish) -> Option<(Shares, Vec<Rechunk>)> {
    let part = |need: &Need| part_bytes(need, jobs, wish);
    let thread_bytes = needs.iter().map(|need| need.buffers.saturating_add(part(need))).max().unwrap_or(0);
    let threads = thread_bytes.checked_mul(jobs as u64)?;
    if jobs > 1 && threads > wish.memory_bytes / 2 {
        return None;
    }
    let windows = needs.iter().map(|need| need.windows).max().unwrap_or(0);
    let pool_bytes = wish.memory_bytes.checked_sub(threads)?.checked_sub(windows)?;
    if direct.saturating_sub(thread_bytes) > pool_bytes {
        return None;
    }
    let boxes: Vec<Rechunk> = needs
        .iter()
        .map(|need| need.geometry.plan(BoxBudget { boxes: pool_bytes, part: part(need) }))
        .collect::<Option<_>>()?;
    let open = boxes.iter().map(|rechunk| rechunk.unit_bytes.saturating_mul(2)).max().unwrap_or(0);
    let busy = direct.saturating_sub(thread_bytes).saturating_mul(jobs as u64);
    let peak_bytes = threads.saturating_add(windows).saturating_add(open.max(busy).min(pool_bytes));
    Some((Shares { jobs, thread_bytes, pool_bytes, peak_bytes }, boxes))
}

fn over_budget(arrays: &[ArrayCopy], needs: &[Need], direct: u64, wish: &Wish) -> Error {
    let least = |need: &Need| {
        let part = match need.geometry.decodes_whole() {
            true => need.geometry.part_bytes(),
            false => need.geometry.part_bytes().min(need.geometry.chunk_bytes()),
        };
        // parts get a quarter of the budget
        let parts = if need.geometry.decodes_whole() { part } else { 0 };
        let sum = need.buffers.saturating_add(parts).saturating_add(need.geometry.chunk_bytes());
        match (need.geometry.decodes_whole(), need.windows) {
            (true, windows) => sum.saturating_add(windows),
            (false, 0) => sum.saturating_mul(4) / 3 + part,
            // windows get another quarter, or more
            (false, windows) => {
                (sum.saturating_mul(2) + part).max(sum.saturating_add(windows).saturating_mul(4) / 3 + part)
            }
        }
    };
    let rechunked = needs.iter().map(|need| (least(need), need.array)).max();
    let recoded = arrays
        .iter()
        .enumerate()
        .filter(|(_, array)| !is_boxed(array) && array.chunk_memory_bytes() == direct)
        .map(|(position, array)| (array.chunk_memory_bytes(), position))
        .next_back();
    let (bytes, position) = rechunked.max(recoded).unwrap_or((0, 0));
    let path = arrays.get(position).map_or("", |array| array.source.path.as_str());
    let message = format!(
        "the chunks of `{path}` need {} of memory, the budget is {}",
        Bytes(bytes),
        Bytes(wish.memory_bytes)
    );
    let sharded = arrays.get(position).is_some_and(|array| array.target.metadata.sharding().is_some());
    let smaller = if sharded { "smaller --shards (or --shards none)" } else { "smaller --chunks" };
    let hint = format!("pass --memory {} or more, or {smaller}", memory_argument(bytes));
    Error::new(ErrorKind::OverBudget, message).with_hint(hint)
}

/// Returns boxes of elements without fixed size: such that source chunks lie in one each, or of one chunk.
fn variable_boxes(array: &ArrayCopy, budget: u64) -> Option<Rechunk> {
    let (source, target) = (&array.source.metadata.grid, &array.target.metadata.grid);
    let chunk = target.largest_chunk_shape();
    let aligned = aligned_counts(source, target);
    let bytes_of = |unit: &[u64]| {
        let elements = unit
            .iter()
            .zip(&chunk)
            .try_fold(1u64, |product, (&count, &length)| product.checked_mul(count)?.checked_mul(length));
        elements.and_then(|elements| elements.checked_mul(array.element_bytes())).unwrap_or(u64::MAX)
    };
    // elements are held twice: as they were decoded, and chunk by chunk
    let whole = bytes_of(&aligned).saturating_mul(2) <= budget / 2;
    let unit_chunks = if whole { aligned } else { vec![1; chunk.len()] };
    let unit_counts: Vec<u64> =
        target.counts().iter().zip(&unit_chunks).map(|(&count, &unit)| count.div_ceil(unit)).collect();
    Some(Rechunk {
        unit_bytes: bytes_of(&unit_chunks),
        decodes: 1.0,
        work: 0.0,
        visits: source.total().unwrap_or(u64::MAX),
        unit_counts,
        unit_chunks,
    })
}

/// Returns box lengths, in destination chunks, whose edges lie on edges of source chunks.
fn aligned_counts(source: &Grid, target: &Grid) -> Vec<u64> {
    let lengths = source.largest_chunk_shape().into_iter().zip(target.largest_chunk_shape());
    lengths
        .zip(target.counts())
        .map(|((from, to), &count)| {
            (1..=count).take(1024).find(|at| (at * to).is_multiple_of(from.max(1))).unwrap_or(count).max(1)
        })
        .collect()
}
