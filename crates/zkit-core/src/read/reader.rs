//! Reading a region of one array: fetch the chunks that it touches, decode them side by side, copy the parts.

use std::cell::RefCell;
use std::time::Instant;

use bytes::Bytes;
use rayon::prelude::*;

use super::picked_shards::ShardIndexes;
use super::picks::Boxes;
use crate::cancel::Cancel;
use crate::codec::{Chain, CodecError, Scratch};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::event::Meter;
use crate::grid::{Region, for_each_index};
use crate::hierarchy::ArrayNode;
use crate::kernels::copy::{Strided, c_strides, copy_strided, fill_strided};
use crate::store::Store;
use crate::units::saturating_usize;

thread_local! {
    /// Codec contexts and buffers of this thread, for as long as it lives.
    static SCRATCH: RefCell<ThreadBuffers> = RefCell::default();
}

/// What a thread keeps between chunks.
#[derive(Default)]
pub(crate) struct ThreadBuffers {
    pub(crate) codec: Scratch,
    pub(crate) encoded: Vec<u8>,
    pub(crate) decoded: Vec<u8>,
    /// The front of a chunk of which a part is read, or its index.
    pub(crate) head: Vec<u8>,
}

/// Lends this thread's codec scratch and two buffers, for an encoded and a decoded chunk.
pub fn with_scratch<R>(work: impl FnOnce(&mut Scratch, &mut Vec<u8>, &mut Vec<u8>) -> R) -> R {
    SCRATCH.with_borrow_mut(|buffers| work(&mut buffers.codec, &mut buffers.encoded, &mut buffers.decoded))
}

/// Lends all that this thread keeps.
pub(crate) fn with_buffers<R>(work: impl FnOnce(&mut ThreadBuffers) -> R) -> R {
    SCRATCH.with_borrow_mut(work)
}

/// Gives this thread's buffers back, after work on chunks larger than others.
pub(crate) fn release_scratch() {
    SCRATCH.set(ThreadBuffers::default());
}

/// What reading needs beside the array: threads, a way to stop, counters.
#[derive(Clone, Copy)]
pub struct ReadContext<'a> {
    /// Decodes chunks; its threads keep their buffers.
    pub pool: &'a rayon::ThreadPool,
    /// Looked at before each chunk.
    pub cancel: &'a Cancel,
    /// Counts bytes and time.
    pub meter: &'a Meter,
    /// Decoded bytes of chunks that may be on their way from a remote store at once, however small the region is.
    pub in_flight_bytes: u64,
}

impl ReadContext<'_> {
    /// What [`ReadContext::in_flight_bytes`] is where one region is read at a time.
    pub const IN_FLIGHT_BYTES: u64 = 16 << 20;
}

/// One array of an open store, ready to be read.
pub struct ArrayReader<'a> {
    store: &'a Store,
    node: &'a ArrayNode,
    /// The chain of a regular grid; rectilinear chunks compile their own.
    chain: Option<Chain>,
    fill: Option<Vec<u8>>,
    item_bytes: Option<usize>,
    encoded_limit: u64,
    chunk_limit: u64,
    window_limit: u64,
}

/// The chain of one chunk.
pub(super) enum ChainRef<'a> {
    /// That of every chunk of a regular grid.
    Shared(&'a Chain),
    /// That of this chunk alone.
    Own(Box<Chain>),
}

impl std::ops::Deref for ChainRef<'_> {
    type Target = Chain;

    fn deref(&self) -> &Chain {
        match self {
            Self::Shared(chain) => chain,
            Self::Own(chain) => chain,
        }
    }
}

/// Where a chunk's bytes come from.
pub enum ChunkSource<'b> {
    /// Fetched already; `None` if absent.
    Fetched(Option<&'b Bytes>),
    /// To be read from the local store by the decoding thread.
    Local,
}

impl<'a> ArrayReader<'a> {
    /// Prepares reading; chunks may take `chunk_limit` bytes decoded and about as much encoded.
    ///
    /// Errors: `Unsupported` for codecs that zkit does not know. Chunks that decode to more are `OverBudget` when they
    /// are read, unless they are absent or decode in parts.
    pub fn new(store: &'a Store, node: &'a ArrayNode, chunk_limit: u64) -> Result<Self> {
        let metadata = &node.metadata;
        let at = |error: Error| {
            error.context(format!("could not prepare reading `{}` of {}", node.path, store.place()))
        };
        let chain = match metadata.grid.regular_shape() {
            Some(chunk_shape) => {
                let chain = Chain::compile(metadata, &chunk_shape).map_err(|error| at(codec_error(error)))?;
                Some(chain.within(chunk_limit))
            }
            None => None,
        };
        store.cover(node.prefix(), metadata.sums_up_chunks());
        let unknown = metadata.unknown_codecs();
        if !unknown.is_empty() {
            return Err(at(Error::new(
                ErrorKind::Unsupported,
                format!("zkit does not decode the codec `{}`", unknown.join("`, `")),
            )));
        }
        // stored chunks are mostly smaller than decoded ones; a little larger where they do not compress
        let encoded_limit = metadata.chunk_decoded_bytes().map_or(chunk_limit, |bytes| {
            bytes.saturating_mul(2).saturating_add(16 << 20).min(chunk_limit.saturating_mul(2))
        });
        Ok(Self {
            store,
            node,
            chain,
            fill: metadata.fill_value.element(&metadata.data_type),
            item_bytes: metadata.data_type.item_bytes().map(saturating_usize),
            encoded_limit,
            chunk_limit,
            window_limit: chunk_limit,
        })
    }

    /// Returns the reader with a bound on the windows of frames, where they have another share than chunks.
    pub(crate) fn within(mut self, window_limit: u64) -> Self {
        self.chain = self.chain.map(|chain| chain.within(window_limit));
        Self { window_limit, ..self }
    }

    /// Returns the array.
    pub fn node(&self) -> &'a ArrayNode {
        self.node
    }

    /// Returns the bytes of one element, if that is fixed.
    pub fn item_bytes(&self) -> Option<usize> {
        self.item_bytes
    }

    /// Returns the element that absent chunks read as.
    pub fn fill(&self) -> Result<&[u8]> {
        self.fill.as_deref().ok_or_else(|| {
            let message = format!(
                "could not read absent chunks of `{}`: its fill value is not understood",
                self.node.path
            );
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    /// Returns how large a stored object may be before reading it is refused.
    pub fn encoded_limit(&self) -> u64 {
        self.encoded_limit
    }

    /// Returns how many bytes a chunk may decode to where it must be decoded whole.
    pub(super) fn chunk_limit(&self) -> u64 {
        self.chunk_limit
    }

    pub(crate) fn store(&self) -> &Store {
        self.store
    }

    pub(super) fn chain_for(&self, chunk_index: &[u64]) -> Result<ChainRef<'_>> {
        match &self.chain {
            Some(chain) => Ok(ChainRef::Shared(chain)),
            None => {
                let shape = self.node.metadata.grid.chunk_shape(chunk_index);
                Chain::compile(&self.node.metadata, &shape)
                    .map(|chain| ChainRef::Own(Box::new(chain.within(self.window_limit))))
                    .map_err(codec_error)
            }
        }
    }

    /// Returns the error of a chunk, with its key and array.
    pub(super) fn chunk_error(&self, chunk_index: &[u64], error: Error) -> Error {
        let mut key = String::new();
        self.node.metadata.chunk_keys.push_key(chunk_index, &mut key);
        error.context(format!("could not decode chunk `{key}` of `{}`", self.node.path))
    }

    /// Gets the bytes of a chunk into `buffer`, or returns those fetched already; `None` if it is absent.
    pub(super) fn encoded<'b>(
        &self,
        chunk_index: &[u64],
        source: &'b ChunkSource<'_>,
        buffer: &'b mut Vec<u8>,
        meter: &Meter,
    ) -> Result<Option<&'b [u8]>> {
        match source {
            ChunkSource::Fetched(bytes) => Ok(bytes.map(|bytes| &bytes[..])),
            ChunkSource::Local => {
                let started = Instant::now();
                let mut key = String::with_capacity(64);
                self.node.chunk_key(chunk_index, &mut key);
                let present = self.store.get(&key, self.encoded_limit, buffer)?;
                meter.read_time.add_time(started.elapsed());
                if !present {
                    return Ok(None);
                }
                meter.bytes_read.add(buffer.len() as u64);
                Ok(Some(buffer.as_slice()))
            }
        }
    }

    /// Fetches chunks from a remote store, several at once; `None` for a local one, whose threads read themselves.
    ///
    /// Waits on the calling thread, which must not be one of the pool.
    pub(super) fn fetch(&self, chunks: &[Vec<u64>], meter: &Meter) -> Result<Option<Vec<Option<Bytes>>>> {
        if !self.store.is_remote() {
            return Ok(None);
        }
        let started = Instant::now();
        let keys: Vec<String> = chunks
            .iter()
            .map(|chunk_index| {
                let mut key = String::new();
                self.node.chunk_key(chunk_index, &mut key);
                key
            })
            .collect();
        let fetched: Result<Vec<Option<Bytes>>> =
            self.store.get_many(&keys, self.encoded_limit).into_iter().collect();
        let fetched = fetched?;
        meter.bytes_read.add(fetched.iter().flatten().map(|bytes| bytes.len() as u64).sum());
        meter.read_time.add_time(started.elapsed());
        Ok(Some(fetched))
    }

    /// Fetches what parts of chunks take from a remote store: of shards the inner chunks that they touch, where that costs
    /// less.
    fn fetch_parts(
        &self,
        chunks: &[Vec<u64>],
        parts: &[Region],
        meter: &Meter,
    ) -> Result<Option<Vec<Option<Bytes>>>> {
        if !self.store.is_remote() || self.node.metadata.sharding().is_none() {
            return self.fetch(chunks, meter);
        }
        let indexes = ShardIndexes::default();
        let fetch = |(chunk_index, part): (&Vec<u64>, &Region)| {
            let origin = self.node.metadata.grid.chunk_region(chunk_index).start;
            let mut boxes = Boxes::new(origin.len());
            let start = part.start.iter().zip(&origin).map(|(&at, &origin)| saturating_usize(at - origin));
            boxes.push(start, to_usize(&part.shape));
            match self.inner_chunks_of(chunk_index, &boxes)? {
                Some(wanted) => self.fetch_picked(chunk_index, &wanted, &indexes, meter),
                None => Ok(self
                    .fetch(std::slice::from_ref(chunk_index), meter)?
                    .and_then(|mut all| all.pop())
                    .flatten()),
            }
        };
        chunks.iter().zip(parts).map(fetch).collect::<Result<_>>().map(Some)
    }

    /// Reads a region of elements of fixed size into `out`, canonical and in C order.
    ///
    /// Every chunk that the region touches is fetched and decoded once; memory: those chunks and `out`.
    pub fn read_region(&self, region: &Region, out: &mut [u8], context: ReadContext<'_>) -> Result<()> {
        let item = self.item_bytes.ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!("`{}` holds elements without fixed size", self.node.path),
            )
        })?;
        let grid = &self.node.metadata.grid;
        let mut chunks = Vec::new();
        for_each_index(&grid.chunks_of(region), |chunk_index| {
            chunks.push(chunk_index.to_vec());
            Ok::<_, Error>(())
        })?;
        let parts: Vec<Region> =
            chunks.iter().map(|chunk_index| grid.chunk_region(chunk_index).intersection(region)).collect();
        let group = self.group_len(&parts, out.len(), context);
        if parts_are_runs(&parts, region) {
            // each part is a run of `out`: decode straight into it
            let mut rest = out;
            let mut groups = chunks.chunks(group).zip(parts.chunks(group));
            return groups.try_for_each(|(chunks, parts)| {
                let runs: Vec<&mut [u8]> = parts
                    .iter()
                    .map(|part| rest.split_off_mut(..part_bytes(part, item)).unwrap_or_default())
                    .collect();
                self.read_parts(chunks, parts, runs, context)
            });
        }
        let mut buffers: Vec<Vec<u8>> = vec![Vec::new(); group.min(parts.len())];
        for (chunks, parts) in chunks.chunks(group).zip(parts.chunks(group)) {
            for (buffer, part) in buffers.iter_mut().zip(parts) {
                buffer.resize(part_bytes(part, item), 0);
            }
            let runs = buffers.iter_mut().zip(parts).map(|(buffer, _)| buffer.as_mut_slice()).collect();
            self.read_parts(chunks, parts, runs, context)?;
            let started = Instant::now();
            for (part, run) in parts.iter().zip(&buffers) {
                place_part(item, part, run, region, out)?;
            }
            context.meter.assemble_time.add_time(started.elapsed());
        }
        Ok(())
    }

    /// Returns how many chunks are worked on before their parts are put together.
    ///
    /// What is in flight must not outgrow the region, or what the context allows: fetched chunks may take as much, decoded parts a
    /// quarter of the region.
    fn group_len(&self, parts: &[Region], region_bytes: usize, context: ReadContext<'_>) -> usize {
        let fitting = if !self.store.is_remote() {
            let item = self.item_bytes.unwrap_or(1);
            let largest = parts.iter().map(|part| part_bytes(part, item)).max().unwrap_or(1);
            region_bytes / 4 / largest.max(1)
        } else {
            let whole = self.node.metadata.chunk_decoded_bytes().map_or(usize::MAX, saturating_usize);
            region_bytes.max(saturating_usize(context.in_flight_bytes)) / whole.max(1)
        };
        fitting.max(context.pool.current_num_threads())
    }

    /// Fetches chunks where the store is remote, and decodes the part of each into its run, side by side.
    fn read_parts(
        &self,
        chunks: &[Vec<u64>],
        parts: &[Region],
        runs: Vec<&mut [u8]>,
        context: ReadContext<'_>,
    ) -> Result<()> {
        let fetched = self.fetch_parts(chunks, parts, context.meter)?;
        let source = |position: usize| match &fetched {
            Some(fetched) => ChunkSource::Fetched(fetched[position].as_ref()),
            None => ChunkSource::Local,
        };
        let work = chunks.par_iter().zip(parts).zip(runs).enumerate();
        context.pool.install(|| {
            work.try_for_each(|(position, ((chunk_index, part), run))| {
                self.read_part(chunk_index, part, &source(position), run, context)
            })
        })
    }
}

fn part_bytes(part: &Region, item: usize) -> usize {
    part.shape.iter().map(|&length| saturating_usize(length)).product::<usize>() * item
}

/// Copies the part of a chunk to its place in a region.
fn place_part(item: usize, part: &Region, run: &[u8], region: &Region, out: &mut [u8]) -> Result<()> {
    let shape = to_usize(&part.shape);
    let out_strides = c_strides(&to_usize(&region.shape), item);
    let offset = part
        .start
        .iter()
        .zip(&region.start)
        .zip(out_strides.iter())
        .map(|((&at, &origin), stride)| saturating_usize(at - origin) * stride.unsigned_abs())
        .sum();
    let from = Strided { offset: 0, strides: &c_strides(&shape, item) };
    let to = Strided { offset, strides: &out_strides };
    copy_strided(item, &shape, run, from, out, to)
        .map_err(|error| Error::new(ErrorKind::Corrupt, "could not assemble a region").with_source(error))
}

/// Returns whether the parts, one after the other, are the region in C order: only its first long dimension is cut.
fn parts_are_runs(parts: &[Region], region: &Region) -> bool {
    let Some(cut) = region.shape.iter().position(|&length| length > 1) else { return true };
    parts.iter().all(|part| part.shape[cut + 1..] == region.shape[cut + 1..])
}

pub(crate) fn fill_run(fill: &[u8], run: &mut [u8]) -> Result<()> {
    if fill.iter().all(|&byte| byte == 0) {
        run.fill(0);
        return Ok(());
    }
    let count = run.len() / fill.len().max(1);
    let layout = Strided { offset: 0, strides: &c_strides(&[count], fill.len()) };
    fill_strided(fill, &[count], run, layout)
        .map_err(|error| Error::new(ErrorKind::Corrupt, "could not fill a region").with_source(error))
}

pub(crate) fn to_usize(lengths: &[u64]) -> Vec<usize> {
    lengths.iter().map(|&length| saturating_usize(length)).collect()
}

/// Returns a codec's failure as the core's error.
pub(crate) fn codec_error(error: CodecError) -> Error {
    match error {
        CodecError::Unsupported { .. } => Error::new(ErrorKind::Unsupported, error.to_string()),
        CodecError::Corrupt { .. } | CodecError::Size { .. } => {
            Error::new(ErrorKind::Corrupt, error.to_string())
        }
        CodecError::OverBudget { needs, left, .. } => {
            Error::new(ErrorKind::OverBudget, error.to_string()).with_shortage(needs, left)
        }
    }
}

impl std::fmt::Debug for ArrayReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrayReader").field("path", &self.node.path).finish_non_exhaustive()
    }
}

/// Reads several regions one after the other; see [`ArrayReader::read_region`].
pub(crate) fn read_slab(
    reader: &ArrayReader<'_>,
    region: &Region,
    out: &mut Vec<u8>,
    context: ReadContext<'_>,
) -> Result<()> {
    let item = reader.item_bytes.unwrap_or(0) as u64;
    let bytes = region.elements().and_then(|elements| elements.checked_mul(item));
    let bytes = bytes.ok_or_else(|| Error::new(ErrorKind::OverBudget, "the size of a slab overflows"))?;
    out.resize(saturating_usize(bytes), 0);
    reader
        .read_region(region, out, context)
        .context(|| format!("could not read `{}` of {}", reader.node.path, reader.store.place()))
}
