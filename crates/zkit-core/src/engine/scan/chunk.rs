//! One stored chunk: read, decoded piece by piece, scanned.

mod shard;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicI64;
use std::time::Instant;

use bytes::Bytes;

use super::elements::{element_kind, holds_text, missing_values};
use super::gather::{BadUnit, Flags, Found, Gather, Skipped, UnitFacts, UnitGrid};
use super::profile::Profiles;
use super::rows::RowCounts;
use super::unit::Unit;
use crate::codec::{Chain, CodecError, PartialDecode, Scratch, ShardCodec, blosc};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Meter;
use crate::grid::{Grid, Region, product};
use crate::hierarchy::ArrayNode;
use crate::kernels::scan::{Constancy, ElementKind, Scanner, Statistics};
use crate::read::{ThreadBuffers, WHOLE_SHARD_BYTES, to_usize};
use crate::store::Store;
use crate::units::{Bytes as Size, saturating_usize};

/// Elements without fixed size decode to so many times their chunk at most, or to so many bytes.
const VARIABLE_RATIO_MOST: u64 = 4096;
const VARIABLE_LEAST_BYTES: u64 = 96 << 20;

/// Which part of the memory budget one thread may take for what it decodes: the fourth.
pub(super) const DECODED_SHARE: u64 = 4;

/// Elements that are scanned at once: with what they were decoded from they stay in the second-level cache.
const PIECE_BYTES: usize = 128 << 10;
/// Stored bytes are read in pieces of this size where there is nothing to decode.
const READ_BYTES: usize = 1 << 20;
/// Inner chunks of a large shard that a sample looks at.
const INNER_SAMPLE: usize = 16;
/// Samples of the bytes of a large chunk that are hashed, and their length.
const SAMPLES: usize = 64;
const SAMPLE_BYTES: usize = 64;
/// Chunks of one array whose statistics a thread remembers by their bytes.
const MEMORY_MOST: usize = 256;

/// One array, ready to be scanned.
pub(super) struct Prepared<'a> {
    store: &'a Store,
    pub(super) array: &'a ArrayNode,
    /// The chain of a regular grid; rectilinear chunks compile their own.
    chain: Option<Chain>,
    /// `None` where elements have no fixed size.
    pub(super) scanner: Option<Scanner>,
    pub(super) fill: Option<Vec<u8>>,
    /// The grid of inner chunks, where they are looked at one by one.
    pub(super) inner: Option<Grid>,
    pub(super) encoded_limit: u64,
    /// Bytes that one thread may take for what it decodes.
    decoded_limit: u64,
    /// The seed of the sample inside large shards, if only a sample is wanted.
    sampled: Option<u64>,
    /// Whether NaN is counted row by row: chunks span several indices of a dimension that has a profile.
    counts_rows: bool,
    pub(super) gather: Gather,
}

/// What a thread keeps from chunk to chunk.
#[derive(Default)]
pub(super) struct Thread {
    rows: RowCounts,
    /// Samples of the bytes of chunks that were scanned.
    seen: HashSet<u64>,
    /// Statistics of chunks like which there was one before, by a hash of all of their bytes.
    known: HashMap<u128, Statistics>,
    shape: Vec<usize>,
}

impl Thread {
    /// Forgets what holds of one array alone.
    pub(super) fn next_array(&mut self) {
        self.known.clear();
        self.seen.clear();
    }
}

/// What chunks of all arrays share.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    pub(super) meter: &'a Meter,
    pub(super) profile_bytes: &'a AtomicI64,
}

/// Where the bytes of a chunk come from.
pub(super) enum Source<'b> {
    /// To be read by the thread that decodes.
    Read,
    /// Fetched already.
    Fetched(&'b Result<Option<Bytes>>),
}

/// Why a chunk has no statistics.
enum Failure {
    Corrupt(String),
    Unreadable(String),
    OverBudget(String),
    Unsupported(String),
    Cancelled,
}

impl From<CodecError> for Failure {
    fn from(error: CodecError) -> Self {
        match error {
            // a header of another version is what damage looks like: what is not supported is known by other means
            CodecError::Corrupt { .. } | CodecError::Size { .. } | CodecError::Unsupported { .. } => {
                Self::Corrupt(error.to_string())
            }
            CodecError::OverBudget { .. } => Self::OverBudget(error.to_string()),
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Corrupt => Self::Corrupt(error.one_line()),
            ErrorKind::OverBudget => Self::OverBudget(error.one_line()),
            ErrorKind::Unsupported => Self::Unsupported(error.one_line()),
            ErrorKind::Cancelled => Self::Cancelled,
            _ => Self::Unreadable(error.one_line()),
        }
    }
}

/// A chunk, or an inner chunk of a shard.
#[derive(Clone, Copy)]
struct Place<'a> {
    position: u64,
    /// Its elements inside the array.
    region: &'a Region,
}

impl<'a> Prepared<'a> {
    /// Prepares an array; threads may take `decoded_limit` bytes for what they decode. The error says why it cannot be
    /// scanned.
    pub(super) fn new(
        store: &'a Store,
        array: &'a ArrayNode,
        decoded_limit: u64,
        sampled: Option<u64>,
    ) -> std::result::Result<Self, Skipped> {
        let metadata = &array.metadata;
        let unknown = metadata.unknown_codecs();
        if !unknown.is_empty() {
            let why = format!("zkit does not decode the codec `{}`", unknown.join("`, `"));
            return Err(Skipped::Unsupported(why));
        }
        store.cover(array.prefix(), metadata.sums_up_chunks());
        let chain = match metadata.grid.regular_shape() {
            Some(shape) => Some(
                Chain::compile(metadata, &shape).map_err(|error| Skipped::Unsupported(error.to_string()))?,
            ),
            None => None,
        };
        let decoded = metadata.chunk_decoded_bytes();
        let streams = chain.as_ref().is_some_and(|chain| streams(chain) || chain.shard().is_some());
        if let Some(bytes) = decoded.filter(|&bytes| !streams && bytes > decoded_limit) {
            return Err(Skipped::OverBudget(too_large(bytes, decoded_limit)));
        }
        let fill = metadata.fill_value.element(&metadata.data_type);
        let scanner = element_kind(&metadata.data_type).map(|kind| {
            let missing = missing_values(metadata, kind);
            let missing: Vec<&[u8]> = missing.iter().map(Vec::as_slice).collect();
            Scanner::new(kind, fill.as_deref(), &missing)
        });
        let inner = chain.as_ref().and_then(Chain::shard).and_then(|shard| {
            let shape: Vec<u64> = shard.inner().shape().iter().map(|&length| length as u64).collect();
            Grid::regular(metadata.shape(), &shape).ok()
        });
        let inner = inner.filter(|_| scanner.is_some());
        let may_be_void = scanner.as_ref().is_some_and(Scanner::may_be_void);
        let profiles = Profiles::new(metadata, may_be_void);
        let unit_shape = inner.as_ref().unwrap_or(&metadata.grid).largest_chunk_shape();
        Ok(Self {
            store,
            array,
            counts_rows: profiles.need_rows(&unit_shape),
            chain,
            scanner,
            fill,
            inner,
            encoded_limit: decoded.unwrap_or(decoded_limit).saturating_mul(2).saturating_add(16 << 20),
            decoded_limit,
            sampled,
            gather: Gather::new(profiles),
        })
    }

    /// Returns the grid that positions are of.
    pub(super) fn unit_grid(&self) -> (UnitGrid, Vec<u64>) {
        match &self.inner {
            Some(grid) => (UnitGrid::Inner, grid.counts().to_vec()),
            None => (UnitGrid::Stored, self.array.metadata.grid.counts().to_vec()),
        }
    }

    /// Returns the same array, prepared to count `element`, and to take it for missing.
    pub(super) fn again(&self, element: &[u8]) -> Option<Self> {
        let mut again = Self::new(self.store, self.array, self.decoded_limit, None).ok()?;
        let kind = again.scanner.as_ref()?.kind();
        let declared = missing_values(&self.array.metadata, kind);
        let missing: Vec<&[u8]> =
            std::iter::once(element).chain(declared.iter().map(Vec::as_slice)).collect();
        again.scanner = Some(Scanner::new(kind, Some(element), &missing));
        again.fill = None;
        Some(again)
    }

    /// Returns the position of the stored chunk that holds a chunk of [`Self::unit_grid`].
    pub(super) fn stored_position(&self, unit: u64) -> u64 {
        let Some(inner) = &self.inner else { return unit };
        let grid = &self.array.metadata.grid;
        let start = inner.chunk_region(&inner.index_at(unit)).start;
        let index: Vec<u64> =
            start.iter().enumerate().map(|(d, &at)| grid.chunk_along(d, at).index).collect();
        grid.position_of(&index).unwrap_or(0)
    }

    /// Returns the bytes that a thread holds decoded at once, as far as metadata tells.
    pub(super) fn decoded_at_once(&self) -> u64 {
        let Some(chain) = &self.chain else { return self.array.metadata.chunk_decoded_bytes().unwrap_or(0) };
        let chain = self.inner.as_ref().and_then(|_| chain.shard()).map_or(chain, ShardCodec::inner);
        let decoded = chain.decoded_bytes().unwrap_or(0) as u64;
        // blocks are small: those of blosc have 2 MiB at most unless they were asked to be larger
        if streams(chain) { decoded.min(4 << 20) } else { decoded }
    }

    /// Returns whether the chunks are read by the thread that decodes them, wherever the store is.
    pub(super) fn reads_itself(&self) -> bool {
        let large =
            |chain: &Chain| chain.decoded_bytes().is_none_or(|bytes| bytes as u64 > WHOLE_SHARD_BYTES);
        self.inner.is_some() && self.chain.as_ref().is_some_and(large)
    }

    /// Scans one stored chunk; what is wrong with it goes to `found` too.
    pub(super) fn scan(
        &self,
        position: u64,
        source: &Source<'_>,
        (buffers, thread): (&mut ThreadBuffers, &mut Thread),
        shared: Shared<'_>,
        found: &mut Found,
    ) {
        let bad = |reason| BadUnit { position, inner: None, reason };
        let left_out = |found: &Found| found.over_budget.len() + found.unsupported.len();
        let before = left_out(found);
        match self.scan_stored(position, source, (buffers, thread), shared, found) {
            Ok(()) if left_out(found) > before => {}
            Ok(()) => found.chunks += 1,
            Err(Failure::Corrupt(reason)) => {
                found.chunks += 1;
                found.corrupt.push(bad(reason));
            }
            Err(Failure::Unreadable(reason)) => found.unreadable.push(bad(reason)),
            Err(Failure::OverBudget(reason)) => found.over_budget.push(bad(reason)),
            Err(Failure::Unsupported(reason)) => found.unsupported.push(bad(reason)),
            // the run ends without a result
            Err(Failure::Cancelled) => {}
        }
    }

    fn scan_stored(
        &self,
        position: u64,
        source: &Source<'_>,
        (buffers, thread): (&mut ThreadBuffers, &mut Thread),
        shared: Shared<'_>,
        found: &mut Found,
    ) -> std::result::Result<(), Failure> {
        let grid = &self.array.metadata.grid;
        let chunk_index = grid.index_at(position);
        let region = grid.chunk_region(&chunk_index);
        let place = Place { position, region: &region };
        let own;
        let chain = match &self.chain {
            Some(chain) => chain,
            None => {
                own = Chain::compile(&self.array.metadata, &grid.chunk_shape(&chunk_index))
                    .map_err(|error| Failure::Unsupported(error.to_string()))?;
                &own
            }
        };
        let mut key = String::with_capacity(64);
        self.array.chunk_key(&chunk_index, &mut key);
        if let (Some(shard), Some(inner)) = (chain.shard(), &self.inner) {
            return self.scan_shard((shard, inner), &key, place, source, (buffers, thread), shared, found);
        }
        let raw = chain.len() == 0 && self.scanner.is_some();
        if raw && matches!(source, Source::Read) && chain.decoded_bytes().is_some_and(|b| b > READ_BYTES) {
            return self.scan_raw(chain, &key, place, (buffers, thread), shared, found);
        }
        let ThreadBuffers { codec, encoded, decoded, .. } = buffers;
        let Some(bytes) = self.encoded(&key, source, encoded, shared.meter)? else {
            found.absent_elements += region.elements().unwrap_or(0);
            return Ok(());
        };
        found.bytes += bytes.len() as u64;
        let started = Instant::now();
        let scanned = match &self.scanner {
            Some(scanner) => {
                self.scan_unit(scanner, chain, bytes, place, (codec, decoded), thread, shared, found)
            }
            None => self.scan_variable(chain, bytes, place, codec, found),
        };
        shared.meter.decode_time.add_time(started.elapsed());
        scanned
    }

    /// Gets the bytes of a stored chunk; `None` if it is absent.
    fn encoded<'b>(
        &self,
        key: &str,
        source: &'b Source<'_>,
        buffer: &'b mut Vec<u8>,
        meter: &Meter,
    ) -> std::result::Result<Option<&'b [u8]>, Failure> {
        match source {
            Source::Fetched(Ok(bytes)) => Ok(bytes.as_deref()),
            Source::Fetched(Err(error)) => Err(self.read_failure(key, error)),
            Source::Read => {
                let started = Instant::now();
                let present = self
                    .store
                    .get(key, self.encoded_limit, buffer)
                    .map_err(|error| self.read_failure(key, &error))?;
                meter.read_time.add_time(started.elapsed());
                meter.bytes_read.add(buffer.len() as u64);
                Ok(present.then_some(buffer.as_slice()))
            }
        }
    }

    /// Returns why an object could not be read. One that is larger than any chunk of its array can be is no chunk, however
    /// much memory there is.
    fn read_failure(&self, key: &str, error: &Error) -> Failure {
        let bounded = self.array.metadata.chunk_decoded_bytes().is_some();
        if error.kind() == ErrorKind::OverBudget
            && bounded
            && let Ok(Some(size)) = self.store.get_range(key, 0, 1, &mut Vec::new())
            && size > self.encoded_limit
        {
            let (size, most) = (Size(size), Size(self.encoded_limit));
            return Failure::Corrupt(format!("it holds {size}, a chunk of this array {most} at most"));
        }
        Failure::from(error)
    }

    /// Scans a chunk that is stored as it is, without ever holding all of it.
    fn scan_raw(
        &self,
        chain: &Chain,
        key: &str,
        place: Place<'_>,
        (buffers, thread): (&mut ThreadBuffers, &mut Thread),
        shared: Shared<'_>,
        found: &mut Found,
    ) -> std::result::Result<(), Failure> {
        let Some(scanner) = &self.scanner else { return Ok(()) };
        let item = scanner.kind().item_bytes().max(1);
        let expected = chain.decoded_bytes().unwrap_or(0);
        let step = (READ_BYTES / item).max(1) * item;
        let inside = to_usize(&place.region.shape);
        let mut hasher = xxhash_rust::xxh3::Xxh3Default::new();
        let mut unit = Unit::new(scanner, chain.shape(), &inside, &mut thread.rows, self.counts_rows);
        for start in (0..expected).step_by(step) {
            let length = step.min(expected - start);
            let started = Instant::now();
            let stored = self.store.get_range(key, start as u64, length as u64, &mut buffers.encoded);
            let Some(stored) = stored.map_err(|error| Failure::from(&error))? else {
                found.absent_elements += place.region.elements().unwrap_or(0);
                return Ok(());
            };
            shared.meter.read_time.add_time(started.elapsed());
            if stored != expected as u64 {
                return Err(
                    CodecError::Size { codec: "bytes", found: stored, expected: expected as u64 }.into()
                );
            }
            shared.meter.bytes_read.add(buffers.encoded.len() as u64);
            found.bytes += buffers.encoded.len() as u64;
            hasher.update(&buffers.encoded);
            for (at, piece) in pieces(&buffers.encoded, item) {
                unit.take((start + at) / item, piece);
            }
        }
        let (statistics, rows) = unit.finish();
        self.file(place, (statistics, rows), hasher.digest(), shared, found);
        Ok(())
    }

    /// Decodes and scans one chunk or inner chunk.
    #[expect(clippy::too_many_arguments, reason = "the chunk, its bytes, its place, and where to decode it")]
    fn scan_unit(
        &self,
        scanner: &Scanner,
        chain: &Chain,
        encoded: &[u8],
        place: Place<'_>,
        (codec, decoded): (&mut Scratch, &mut Vec<u8>),
        thread: &mut Thread,
        shared: Shared<'_>,
        found: &mut Found,
    ) -> std::result::Result<(), Failure> {
        let shape = &mut thread.shape;
        shape.clear();
        shape.extend(place.region.shape.iter().map(|&length| saturating_usize(length)));
        let whole = *shape == chain.shape();
        let sampled = sampled_hash(scanner, encoded);
        // the bytes are hashed as a whole where others that look the same were there before
        let again = whole && thread.seen.contains(&sampled);
        let digest = if again { xxhash_rust::xxh3::xxh3_128(encoded) } else { 0 };
        if again && let Some(statistics) = thread.known.get(&digest) {
            self.file(place, (*statistics, None), sampled, shared, found);
            return Ok(());
        }
        let mut unit = Unit::new(scanner, chain.shape(), shape, &mut thread.rows, self.counts_rows);
        let decoded_bytes = self.decode_pieces(chain, encoded, (codec, decoded), scanner, &mut unit)?;
        shared.meter.bytes_decoded.add(decoded_bytes as u64);
        let (statistics, rows) = unit.finish();
        let mixed = statistics.void() > 0 && !statistics.is_all_void();
        // where NaN lies differs from place to place, what else is known of the same bytes does not
        if whole && !(mixed && self.counts_rows) && thread.seen.len() < MEMORY_MOST {
            thread.seen.insert(sampled);
            if again {
                thread.known.insert(digest, statistics);
            }
        }
        self.file(place, (statistics, rows), sampled, shared, found);
        Ok(())
    }

    fn decode_pieces(
        &self,
        chain: &Chain,
        encoded: &[u8],
        (codec, decoded): (&mut Scratch, &mut Vec<u8>),
        scanner: &Scanner,
        unit: &mut Unit<'_>,
    ) -> std::result::Result<usize, Failure> {
        let item = scanner.kind().item_bytes().max(1);
        let whole = chain.decoded_bytes().unwrap_or(0);
        let mut step = whole;
        if chain.len() == 1 && streams(chain) && whole > 0 {
            let block = blosc::Header::parse(encoded)?.block_range(0).len().max(1);
            if block.is_multiple_of(item) {
                step = (PIECE_BYTES / block).max(1).saturating_mul(block).min(whole);
            }
        }
        if step as u64 > self.decoded_limit {
            return Err(Failure::OverBudget(too_large(step as u64, self.decoded_limit)));
        }
        for start in (0..whole).step_by(step.max(1)) {
            let range = start..whole.min(start + step);
            if decoded.len() < range.len() {
                decoded.resize(range.len(), 0);
            }
            let piece = &mut decoded[..range.len()];
            chain.decode_range(codec, encoded, range, piece)?;
            for (at, piece) in pieces(piece, item) {
                unit.take((start + at) / item, piece);
            }
        }
        Ok(whole)
    }

    /// Scans elements without fixed size: whether they decode, and which are the fill value.
    fn scan_variable(
        &self,
        chain: &Chain,
        encoded: &[u8],
        place: Place<'_>,
        codec: &mut Scratch,
        found: &mut Found,
    ) -> std::result::Result<(), Failure> {
        // metadata does not say how large they are: a small chunk must not make a large one
        let plausible = (encoded.len() as u64).saturating_mul(VARIABLE_RATIO_MOST).max(VARIABLE_LEAST_BYTES);
        let limit = self.decoded_limit.min(plausible);
        let elements = chain.decode_variable(codec, encoded, limit).map_err(|error| match error {
            CodecError::Size { expected, .. } if expected == limit && limit < plausible => {
                let limit = Size(limit);
                Failure::OverBudget(format!(
                    "it decodes to more than the memory budget leaves for it, {limit}"
                ))
            }
            // objects that are no texts
            CodecError::Unsupported { .. } => Failure::Unsupported(error.to_string()),
            error => error.into(),
        })?;
        if let Some(at) = elements.first_not_utf8().filter(|_| holds_text(&self.array.metadata)) {
            return Err(CodecError::corrupt("vlen-utf8", format!("element {at} is not UTF-8")).into());
        }
        let mut statistics = Statistics::default();
        let mut first = None;
        let ranges: Vec<_> = place.region.shape.iter().map(|&length| 0..length).collect();
        // visiting cannot fail
        let _ = crate::grid::for_each_index::<()>(&ranges, |index| {
            let at = index.iter().zip(chain.shape());
            let at = at.fold(0, |flat, (&at, &length)| flat * length + saturating_usize(at));
            let element = elements.get(at);
            statistics.elements += 1;
            statistics.fill += u64::from(self.fill.as_deref() == Some(element));
            let same = *first.get_or_insert(element) == element;
            if !same {
                statistics.constancy = Constancy::Varied;
            }
            Ok(())
        });
        if let (Some(first), Constancy::Empty) = (first, statistics.constancy) {
            statistics.constancy = Constancy::Constant(xxhash_rust::xxh3::xxh3_128(first));
        }
        let facts = facts_of(place.position, &statistics, xxhash_rust::xxh3::xxh3_64(encoded));
        found.statistics.join(&statistics);
        found.units.push((facts, Flags { all_fill: statistics.is_all_fill(), infinite: false }));
        Ok(())
    }

    /// Puts the statistics of a chunk where they are gathered.
    fn file(
        &self,
        place: Place<'_>,
        (statistics, rows): (Statistics, Option<&RowCounts>),
        digest: u64,
        shared: Shared<'_>,
        found: &mut Found,
    ) {
        let shape = self.array.metadata.shape();
        self.gather.profiles.add(place.region, statistics.void(), rows, shape, shared.profile_bytes);
        let flags = Flags { all_fill: statistics.is_all_fill(), infinite: statistics.infinite() > 0 };
        // chunks of the same bytes have the same sample and the same sum, extremes and counts
        let digest = statistics.fingerprint(digest);
        found.units.push((facts_of(place.position, &statistics, digest), flags));
        found.statistics.join(&statistics);
    }
}

/// Says that so many bytes decode at once, and which budget they need.
fn too_large(bytes: u64, limit: u64) -> String {
    let needed = bytes.saturating_mul(DECODED_SHARE).div_ceil(1 << 20);
    format!(
        "{} decode at once, the memory budget leaves {} for that: pass --memory {needed}MiB or more",
        Size(bytes),
        Size(limit)
    )
}

/// Returns a hash of the length and some of the bytes of a chunk of numbers, whose statistics tell the rest; of all the
/// bytes of others, and of small ones.
fn sampled_hash(scanner: &Scanner, encoded: &[u8]) -> u64 {
    let numbers = !matches!(scanner.kind(), ElementKind::Opaque(_) | ElementKind::Complex(_));
    if !numbers || encoded.len() < SAMPLES * SAMPLE_BYTES * 4 {
        return xxhash_rust::xxh3::xxh3_64(encoded);
    }
    let step = encoded.len() / SAMPLES;
    let samples = encoded.chunks(step).map(|part| &part[..SAMPLE_BYTES.min(part.len())]);
    let mut hasher = xxhash_rust::xxh3::Xxh3Default::new();
    samples.for_each(|sample| hasher.update(sample));
    hasher.update(&(encoded.len() as u64).to_le_bytes());
    hasher.digest()
}

fn facts_of(position: u64, statistics: &Statistics, digest: u64) -> UnitFacts {
    UnitFacts {
        position,
        elements: statistics.elements,
        nan: statistics.nan,
        valid: statistics.valid,
        min: statistics.min.map_or(f64::NAN, |value| value.to_f64()),
        max: statistics.max.map_or(f64::NAN, |value| value.to_f64()),
        mean: statistics.mean().unwrap_or(f64::NAN),
        digest,
        constant: statistics.is_constant(),
    }
}

/// Returns whether chunks decode block by block, with nothing around the blocks that would have to be checked.
fn streams(chain: &Chain) -> bool {
    chain.len() == 0 || (chain.len() == 1 && chain.partial_decode() == Some(PartialDecode::Blosc))
}

/// Cuts decoded bytes into pieces of whole elements, with where each begins.
fn pieces(bytes: &[u8], item: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let step = (PIECE_BYTES / item).max(1) * item;
    bytes.chunks(step).enumerate().map(move |(at, piece)| (at * step, piece))
}

/// Returns the elements of stored chunks, by their positions.
pub(super) fn elements_of(grid: &Grid, positions: impl Iterator<Item = u64>) -> u64 {
    positions
        .map(|position| product(&grid.chunk_region(&grid.index_at(position)).shape).unwrap_or(u64::MAX))
        .fold(0, u64::saturating_add)
}
