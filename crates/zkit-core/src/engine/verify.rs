//! Proves a copy: what was written is read back through the reader and compared with the source, decoded.
//!
//! The reader shares no code with the assembly of boxes: it fetches the chunks that a region touches and copies their
//! parts, on both sides.

use super::copy::CorruptChunk;
use super::digest::buffers_between;
use super::gather::SourceReader;
use super::lanes::{self, Footprint, Resources};
use super::prepared::recoder;
use super::windows::{Window, all, sample};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Meter, Observer};
use crate::grid::{Region, for_each_index};
use crate::hierarchy::{ArrayNode, Hierarchy};
use crate::metadata::{AbsentChunks, DataType};
use crate::plan::{ArrayCopy, CopyPlan, Strategy};
use crate::read::{ArrayReader, ReadContext, codec_error, read_slab, with_scratch};
use crate::store::Store;

/// Chunks of a region that are asked for at most, whether they are absent: more are read.
const ASKED_CHUNKS: u64 = 64;

/// How much of a copy is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Nothing.
    None,
    /// Windows at the first and last stored chunk and at the edges of each array, at absent chunks, and a seeded
    /// choice of the others: one byte in a hundred of large arrays, small ones mostly whole.
    Sample,
    /// Every element of every array, those of absent chunks by the fill value.
    Full,
}

/// What was read back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verified {
    /// Regions that were compared.
    pub regions: u64,
    /// Their decoded bytes.
    pub bytes: u64,
    /// Regions in which neither side stores anything, of equal fill values: nothing of them was read.
    pub absent_regions: u64,
}

impl std::ops::AddAssign for Verified {
    fn add_assign(&mut self, other: Self) {
        self.regions += other.regions;
        self.bytes += other.bytes;
        self.absent_regions += other.absent_regions;
    }
}

/// One store of a plan, to be compared with its copy.
#[derive(Clone, Copy)]
pub struct Proof<'a> {
    /// The plan.
    pub plan: &'a CopyPlan,
    /// The store's position in it.
    pub store: usize,
    /// The source.
    pub source: &'a Store,
    /// The stores that arrays which are gathered name; empty for plain copies.
    pub parts: &'a [&'a Store],
    /// The copy, opened from what was written.
    pub copy: &'a Hierarchy,
    /// Source chunks that were skipped; they are not compared.
    pub corrupt: &'a [CorruptChunk],
}

/// One region of one array to compare.
struct Task<'a> {
    array: &'a ArrayCopy,
    window: Window,
    /// As [`buffers`] counts them.
    buffers: usize,
}

/// Compares a copy with its source.
///
/// Errors: `Mismatch`, naming array and place, at the first difference.
pub fn verify(
    proof: Proof<'_>,
    mode: Verify,
    resources: Resources,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Verified> {
    let target = proof.copy.readable_store()?;
    let mut tasks = Vec::new();
    for (position, array) in
        proof.plan.arrays.iter().enumerate().filter(|(_, array)| array.store == proof.store)
    {
        let buffers = buffers(array);
        let windows = match mode {
            Verify::None => return Ok(Verified::default()),
            Verify::Sample => sample(array),
            Verify::Full => {
                if leaves_absent(array) && is_decodable(array) {
                    same_fill(array, proof.copy)?;
                }
                all(array, window_bytes(array, buffers, resources.memory_bytes))
            }
        };
        let skipped: Vec<Region> = proof
            .corrupt
            .iter()
            .filter(|chunk| chunk.array == position)
            .map(|chunk| chunk.region(&array.source.metadata))
            .collect();
        for window in windows {
            let left = without(window, &skipped, array);
            tasks.extend(left.into_iter().map(|window| Task { array, window, buffers }));
        }
    }
    // what is read back does not count as read for the copy
    let meter = Meter::default();
    let stores = proof.parts.iter().copied().chain([proof.source, target]);
    let in_flight = stores.map(Store::reads_in_flight).max().unwrap_or(0);
    let results = lanes::run(
        &tasks,
        (resources, in_flight),
        |task| {
            // both sides are held at once
            let bytes = chunk_bytes(task.array).max(task.window.bytes(task.array).saturating_mul(2));
            Footprint::through(task.buffers, bytes, bytes.saturating_mul(2))
        },
        |task, lane| {
            let context =
                ReadContext { pool: lane.pool, cancel, meter: &meter, in_flight_bytes: lane.slab_bytes };
            let compared = compare(proof, target, task, resources.memory_bytes, context)
                .map_err(|error| error.with_budget(resources.memory_bytes))?;
            observer.meter().bytes_verified.add(compared.bytes);
            Ok(compared)
        },
    )?;
    let mut verified = Verified::default();
    for compared in results {
        verified += compared?;
    }
    Ok(verified)
}

/// Returns how large regions are that are compared at once: as those of the copy, two at once on both sides, so that source
/// chunks are decoded no more often; smaller ones where large chunks leave no room for that.
fn window_bytes(array: &ArrayCopy, buffers: usize, memory_bytes: u64) -> u64 {
    let chunk = chunk_bytes(array);
    let between = chunk.saturating_mul(buffers as u64).saturating_add(array.largest_bytes);
    if between.saturating_add(chunk.saturating_mul(2)) <= memory_bytes {
        return chunk.max(memory_bytes / 8);
    }
    let left = memory_bytes.saturating_sub(between.saturating_add(chunk));
    (left / 2).clamp(memory_bytes / 32, memory_bytes / 8)
}

/// Returns how many buffers as large as a chunk decoding takes on either side.
fn buffers(array: &ArrayCopy) -> usize {
    let parts = array.gather.iter().flat_map(|gather| gather.parts.iter()).map(|part| &*part.array);
    let nodes = parts.chain([&array.source, &array.target]);
    nodes.map(|node| buffers_between(&node.metadata)).max().unwrap_or(0)
}

impl Task<'_> {
    /// Returns what decoding a chunk on both sides holds.
    fn held_bytes(&self) -> u64 {
        let copies = 2 + self.buffers as u64;
        chunk_bytes(self.array).saturating_mul(copies).saturating_add(self.array.largest_bytes)
    }

    /// Returns whether the chunk is compared as it is stored: one that zkit cannot decode, or one that was copied byte for byte,
    /// where memory is short of decoding both sides.
    fn is_compared_as_stored(&self, memory_bytes: u64) -> bool {
        let is_copy = self.array.strategy == Strategy::CopyBytes;
        !is_decodable(self.array) || is_copy && self.held_bytes() > memory_bytes
    }
}

/// Returns whether neither side stores a chunk of a region, and both have the same fill value.
fn absent_on_both(
    array: &ArrayCopy,
    (source, target): (&Store, &Store),
    copy: &ArrayNode,
    region: &Region,
) -> Result<bool> {
    // what was not listed may be there
    if array.gather.is_some() || array.known.is_some() {
        return Ok(false);
    }
    let fill = |node: &ArrayNode| node.metadata.fill_value.element(&node.metadata.data_type);
    let grid = &array.source.metadata.grid;
    let is_listed = |index: &[u64]| grid.position_of(index).is_some_and(|at| array.stored.contains(at));
    if fill(&array.source).is_none() || fill(&array.source) != fill(copy) {
        return Ok(false);
    }
    Ok(holds_none(&array.source, source, region, &is_listed)?
        && holds_none(copy, target, region, &|_| false)?)
}

/// Returns whether a store holds no chunk of an array that a region touches; those that are `listed` need not be asked for.
fn holds_none(
    array: &ArrayNode,
    store: &Store,
    region: &Region,
    is_listed: &dyn Fn(&[u64]) -> bool,
) -> Result<bool> {
    let chunks = array.metadata.grid.chunks_of(region);
    let count = chunks.iter().fold(1u64, |count, range| count.saturating_mul(range.end - range.start));
    if count > ASKED_CHUNKS {
        return Ok(false);
    }
    let (mut key, mut byte) = (String::new(), Vec::new());
    let visited = for_each_index(&chunks, |index| {
        if is_listed(index) {
            return Err(None);
        }
        key.clear();
        array.chunk_key(index, &mut key);
        match store.get_range(&key, 0, 1, &mut byte) {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(None),
            Err(error) => Err(Some(error)),
        }
    });
    match visited {
        Ok(()) => Ok(true),
        Err(None) => Ok(false),
        Err(Some(error)) => Err(error),
    }
}

/// Returns what is left of a window beside skipped chunks: the whole of it, or its source chunks but for those, or the inner
/// chunks of these.
fn without(window: Window, skipped: &[Region], array: &ArrayCopy) -> Vec<Window> {
    if skipped.iter().all(|chunk| chunk.intersection(&window.region).is_empty()) {
        return vec![window];
    }
    let grid = &array.source.metadata.grid;
    let mut left = Vec::new();
    let is_sound = |region: &Region| skipped.iter().all(|other| other.intersection(region).is_empty());
    // visiting cannot fail
    let _ = for_each_index::<()>(&grid.chunks_of(&window.region), |index| {
        let chunk = grid.chunk_region(index);
        let part = chunk.intersection(&window.region);
        let parts = match is_sound(&chunk) {
            true => vec![part],
            false => {
                let inner = array.source.metadata.inner_chunks(index, &part);
                inner.into_iter().map(|(_, part)| part).filter(is_sound).collect()
            }
        };
        left.extend(parts.into_iter().map(|region| Window { region, chunk: None }));
        Ok(())
    });
    left
}

/// Returns whether chunks are absent from the source, and stay so in the copy.
fn leaves_absent(array: &ArrayCopy) -> bool {
    let total = array.source.metadata.grid.total();
    let may_be_absent = array.known.is_some() || total.is_none_or(|total| array.stored.len() < total);
    array.absent == AbsentChunks::Leave && may_be_absent
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
    // of objects only texts are decoded; all of them are copied as they are
    let metadata = &array.source.metadata;
    metadata.unknown_codecs().is_empty() && metadata.data_type != DataType::Object
}

fn chunk_bytes(array: &ArrayCopy) -> u64 {
    let of = |node: &ArrayNode| node.metadata.chunk_decoded_bytes().unwrap_or(array.largest_bytes);
    array.decoded_chunk_bytes().max(of(&array.target))
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

/// Compares a region of the source with the copy's.
fn compare(
    proof: Proof<'_>,
    target: &Store,
    task: &Task<'_>,
    memory_bytes: u64,
    context: ReadContext<'_>,
) -> Result<Verified> {
    let (array, region) = (task.array, &task.window.region);
    context.cancel.check()?;
    let of = |bytes: u64| Ok(Verified { regions: 1, bytes, absent_regions: 0 });
    if task.is_compared_as_stored(memory_bytes)
        && let Some(position) = task.window.chunk
    {
        return same_bytes(proof.source, target, array, position).and_then(of);
    }
    if !is_decodable(array) {
        return Ok(Verified::default());
    }
    let copy = namesake(proof.copy, array)?;
    if absent_on_both(array, (proof.source, target), copy, region)? {
        return Ok(Verified { absent_regions: 1, ..Verified::default() });
    }
    // whatever was copied can be compared: it took no less
    let chunk_limit = memory_bytes.max(task.held_bytes());
    let left = SourceReader::new(array, proof.source, proof.parts, chunk_limit)?;
    let right = ArrayReader::new(target, copy, chunk_limit)?;
    let differs = || {
        let grid = &array.target.metadata.grid;
        let chunk: Vec<u64> = grid.chunks_of(region).iter().map(|range| range.start).collect();
        let end: Vec<u64> =
            region.start.iter().zip(&region.shape).map(|(start, length)| start + length).collect();
        Err(mismatch(&array.source.path, &format!("chunk {chunk:?}, elements {:?} to {end:?}", region.start)))
    };
    if array.source.metadata.data_type.is_variable() {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        left.visit_variable(region, context, &mut |element| a.push(element.to_vec()))?;
        right.visit_variable(region, context, &mut |element| b.push(element.to_vec()))?;
        let bytes = a.iter().map(|element| element.len() as u64).sum();
        return if a == b { of(bytes) } else { differs() };
    }
    let (mut a, mut b) = (Vec::new(), Vec::new());
    left.read_slab(region, &mut a, context)?;
    read_slab(&right, region, &mut b, context)?;
    if a == b { of(a.len() as u64) } else { differs() }
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
    let agree = match recoder.is_copy() {
        true => a == b,
        false => {
            with_scratch(|scratch, _, _| recoder.agree(scratch, &a, &b, u64::MAX)).map_err(codec_error)?
        }
    };
    if there && copied && agree {
        Ok(a.len() as u64)
    } else {
        Err(mismatch(&array.source.path, &format!("chunk {chunk_index:?}")))
    }
}
