//! One array of a run, compiled: what threads need to know of it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::copy::Endpoint;
use super::gather::SourceReader;
use super::journal::{ObjectDigest, Record};
use super::sink::Sink;
use crate::codec::{Chain, Recoder};
use crate::error::{Error, ErrorKind, Result};
use crate::grid::{ChunkSet, for_each_index};
use crate::plan::{ArrayCopy, CopyPlan, Cover, Strategy, Unit};
use crate::read::codec_error;
use crate::store::{Glance, Seen, Store};

/// Where an array stands: among those of the plan, and those of its store.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) in_plan: usize,
    pub(super) in_store: usize,
}

/// One array of the run, compiled.
pub(super) struct Copy<'a> {
    pub(super) place: Place,
    pub(super) array: &'a ArrayCopy,
    pub(super) source: &'a Store,
    pub(super) sink: Sink<'a>,
    pub(super) resumed: bool,
    pub(super) done: Option<&'a ChunkSet>,
    /// The recoder of a regular grid; rectilinear chunks compile their own.
    pub(super) recoder: Option<Recoder>,
    pub(super) reader: Option<SourceReader<'a>>,
    /// The chain of the copy's chunks, where the array is rechunked.
    pub(super) target: Option<Chain>,
    pub(super) fill: Option<Vec<u8>>,
    pub(super) object_limit: u64,
    pub(super) units_left: AtomicUsize,
    /// Whether chunks turned out to be absent that were not asked for.
    found_absent: AtomicBool,
}

impl<'a> Copy<'a> {
    /// Returns the share of some bytes of the array that no earlier run has done, going by its chunks.
    pub(super) fn fresh(&self, bytes: u64) -> u64 {
        let (Some(done), Some(chunks)) = (self.done, self.array.target.metadata.grid.total()) else {
            return bytes;
        };
        let left = chunks.saturating_sub(done.len());
        u64::try_from(u128::from(bytes) * u128::from(left) / u128::from(chunks.max(1))).unwrap_or(bytes)
    }

    pub(super) fn prepare(
        place: Place,
        array: &'a ArrayCopy,
        endpoint: &Endpoint<'a>,
        memory_bytes: u64,
    ) -> Result<Self> {
        let source = &array.source.metadata;
        let recoder = match (source.grid.regular_shape(), array.is_rechunked()) {
            (Some(shape), false) => Some(recoder(array, &shape)?),
            _ => None,
        };
        // what is copied byte for byte nobody decodes, though samples of it were
        let is_decoded = !recoder.as_ref().is_some_and(Recoder::is_copy);
        endpoint.source.cover(array.source.prefix(), is_decoded && source.sums_up_chunks());
        let (mut reader, mut target) = (None, None);
        if array.is_rechunked() {
            reader = Some(SourceReader::new(array, endpoint.source, endpoint.parts, memory_bytes)?);
            let metadata = &array.target.metadata;
            let chain = Chain::compile(metadata, &metadata.grid.largest_chunk_shape());
            target = Some(chain.map_err(codec_error)?);
        }
        Ok(Self {
            place,
            array,
            source: endpoint.source,
            sink: endpoint.sink,
            resumed: endpoint.resumed,
            done: endpoint.done.get(place.in_store).filter(|done| !done.is_empty()),
            recoder,
            reader,
            target,
            fill: fill_of(array),
            object_limit: array.largest_bytes.max(1).saturating_mul(2).min(memory_bytes.max(1)),
            units_left: AtomicUsize::new(0),
            found_absent: AtomicBool::new(false),
        })
    }

    /// Returns what a unit takes of the pool.
    pub(super) fn unit_bytes(&self, plan: &CopyPlan, remote: bool) -> u64 {
        match &self.array.rechunk {
            Some(rechunk) => rechunk.unit_bytes,
            None => {
                let chunk = self.array.chunk_memory_bytes().saturating_sub(plan.memory.thread_bytes);
                let waiting = if remote { self.array.largest_bytes.max(8 << 20) } else { 0 };
                chunk.saturating_add(waiting).min(plan.memory.pool_bytes)
            }
        }
    }

    /// Returns whether source chunks are read as a whole, each of them once for each time that its place in the plan comes.
    pub(super) fn reads_whole_chunks(&self) -> bool {
        self.array.gather.is_none()
            && self.array.strategy != Strategy::RechunkPasses
            && !(self.array.is_rechunked() && self.array.source.metadata.data_type.is_variable())
    }

    /// Runs `work` with the recoder of a chunk.
    pub(super) fn with_recoder<R>(
        &self,
        chunk_index: &[u64],
        work: impl FnOnce(&Recoder) -> Result<R>,
    ) -> Result<R> {
        match &self.recoder {
            Some(recoder) => work(recoder),
            None => work(&recoder(self.array, &self.array.source.metadata.grid.chunk_shape(chunk_index))?),
        }
    }

    pub(super) fn reader(&self) -> Result<&SourceReader<'a>> {
        self.reader.as_ref().ok_or_else(|| unprepared(self.array))
    }

    pub(super) fn target_chain(&self) -> Result<&Chain> {
        self.target.as_ref().ok_or_else(|| unprepared(self.array))
    }

    pub(super) fn fill(&self) -> Result<&[u8]> {
        needed_fill(self.array, self.fill.as_deref())
    }

    /// Returns whether the copy has a chunk already, from a run before this one.
    pub(super) fn is_done(&self, chunk_index: &[u64]) -> bool {
        let position = self.array.target.metadata.grid.position_of(chunk_index);
        self.done.zip(position).is_some_and(|(done, position)| done.contains(position))
    }

    /// Returns whether all chunks of a box are there already.
    pub(super) fn is_box_done(&self, unit: &Unit) -> bool {
        let (Cover::Box(position), Some(rechunk), Some(_)) = (&unit.cover, &self.array.rechunk, self.done)
        else {
            return false;
        };
        let ranges = rechunk.chunk_ranges(&self.array.target.metadata.grid, *position);
        let missing = |chunk_index: &[u64]| if self.is_done(chunk_index) { Ok(()) } else { Err(()) };
        for_each_index(&ranges, missing).is_ok()
    }

    /// Returns whether threads assemble a unit together.
    pub(super) fn is_boxed(&self, unit: &Unit) -> bool {
        matches!(unit.cover, Cover::Box(_))
            && !self.array.source.metadata.data_type.is_variable()
            && !self.is_box_done(unit)
    }

    /// Returns the position of the array among those of its store, by which records name it.
    pub(super) fn position_in_store(&self) -> u32 {
        u32::try_from(self.place.in_store).unwrap_or(u32::MAX)
    }

    /// Returns the position of a chunk in the grid, by which records name it.
    pub(super) fn chunk_position(&self, chunk_index: &[u64]) -> Option<u64> {
        self.array.target.metadata.grid.position_of(chunk_index)
    }

    /// Returns the record of a chunk that is written, or needs no object; `None` if nothing is recorded.
    pub(super) fn record(
        &self,
        chunk_index: &[u64],
        object: Option<&[u8]>,
        decoded: Option<&[u8]>,
    ) -> Option<Record> {
        if let Sink::Local { journal: None, .. } = self.sink {
            return None;
        }
        Some(Record {
            array: self.position_in_store(),
            chunk: self.chunk_position(chunk_index)?,
            object: object.map(ObjectDigest::of),
            decoded_xxh3: decoded.map_or(0, xxhash_rust::xxh3::xxh3_64),
        })
    }

    /// Takes note of a chunk that is not there, though it was planned to be read.
    ///
    /// Errors: `Unreadable`, unless nobody asked for it before.
    pub(super) fn missing(&self, chunk_index: &[u64]) -> Result<()> {
        let position = self.array.source.metadata.grid.position_of(chunk_index);
        let unasked = |known: &ChunkSet| position.is_some_and(|position| !known.contains(position));
        if !self.array.known.as_ref().is_some_and(unasked) {
            return Err(self.gone(chunk_index));
        }
        self.found_absent.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Looks, where chunks turned out to be absent, whether those that were asked for before are still there: a source that
    /// vanished while it was read would else look like one of few chunks.
    ///
    /// Errors: `Unreadable` if one of them is gone; those of asking.
    pub(super) fn check_known(&self) -> Result<()> {
        let Some(known) = self.array.known.as_ref().filter(|_| self.found_absent.load(Ordering::Relaxed))
        else {
            return Ok(());
        };
        let grid = &self.array.source.metadata.grid;
        let chunks: Vec<Vec<u64>> = known.iter().map(|position| grid.index_at(position)).collect();
        let keys = chunks.iter().map(|chunk_index| {
            let mut key = String::new();
            self.array.source.chunk_key(chunk_index, &mut key);
            key
        });
        let keys: Vec<String> = keys.collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let found = self.source.glance_many(&keys, Glance::Head(0))?;
        let gone = chunks.iter().zip(found).find(|(_, seen)| *seen == Seen::Absent);
        gone.map_or(Ok(()), |(chunk_index, _)| Err(self.gone(chunk_index)))
    }

    /// Returns the error of a chunk that was listed and does not exist any more.
    fn gone(&self, chunk_index: &[u64]) -> Error {
        let mut key = String::new();
        self.array.source.chunk_key(chunk_index, &mut key);
        let cause = Error::new(
            ErrorKind::Unreadable,
            "it was there before, but is gone now: the source changes while it is read",
        );
        cause.context(format!("could not copy chunk `{key}` of `{}`", self.array.source.path))
    }
}

pub(super) fn fill_of(array: &ArrayCopy) -> Option<Vec<u8>> {
    array.source.metadata.fill_value.element(&array.source.metadata.data_type)
}

pub(super) fn needed_fill<'a>(array: &ArrayCopy, fill: Option<&'a [u8]>) -> Result<&'a [u8]> {
    fill.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            format!(
                "could not write absent chunks of `{}`: its fill value is not understood",
                array.source.path
            ),
        )
    })
}

fn unprepared(array: &ArrayCopy) -> Error {
    Error::new(ErrorKind::Unsupported, format!("`{}` is not planned to be rechunked", array.source.path))
}

pub(super) fn recoder(array: &ArrayCopy, shape: &[u64]) -> Result<Recoder> {
    let compile = |metadata| Chain::compile(metadata, shape).map_err(codec_error);
    Ok(Recoder::new(compile(&array.source.metadata)?, compile(&array.target.metadata)?))
}
