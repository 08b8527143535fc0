//! Runs a plan: read, recode or assemble, write, on every core.
//!
//! Local sources are read by the worker that decodes. Remote ones are fetched by plain threads that hand whole
//! units over, so that no worker ever waits for the network.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Instant;

use bytes::Bytes;

use super::boxes::OpenBox;
use super::journal::{Journal, ObjectDigest, Record};
use super::lanes;
use super::queue::{Queue, Work};
use super::spill::run_spill;
use crate::cancel::Cancel;
use crate::codec::{Chain, Recoder, Scratch};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Meter, Observer};
use crate::grid::{ChunkSet, for_each_index, product};
use crate::kernels::copy::{Strided, c_strides, fill_strided};
use crate::metadata::AbsentChunks;
use crate::plan::{ArrayCopy, CopyPlan, Cover, Spill, Unit};
use crate::read::{ArrayReader, codec_error, release_scratch, with_scratch};
use crate::store::{LocalWriter, Store};
use crate::units::saturating_usize;

/// Threads that fetch units of a remote source; each keeps many requests in flight.
const FETCHERS: usize = 8;
/// After so many bytes written the free space is looked at again.
const SPACE_CHECK_BYTES: u64 = 1 << 30;
/// With less free space a run stops before the disk is full to the last byte.
const SPACE_LEAST_BYTES: u64 = 64 << 20;

/// Where the arrays of one store of a plan come from and go to.
#[derive(Clone, Copy)]
pub struct Endpoint<'a> {
    /// The source.
    pub source: &'a Store,
    /// The copy.
    pub writer: &'a LocalWriter,
    /// Where finished chunks are recorded, by the array's position among those of its store.
    pub journal: Option<&'a Journal>,
    /// Chunks of the copy that are there already, one set an array of the store; empty for a new copy.
    pub done: &'a [ChunkSet],
    /// Whether objects that an earlier run left half-written may be in the way.
    pub resumed: bool,
    /// A directory for pieces of arrays that are rechunked through scratch space; made, and removed, by the run.
    pub scratch: Option<&'a Path>,
}

/// What a run does with source chunks that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCorrupt {
    /// It stops and names the chunk.
    Fail,
    /// It leaves fill values in their place and names them all at the end.
    Skip,
}

/// A source chunk that could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorruptChunk {
    /// The array's position in the plan.
    pub array: usize,
    /// The chunk's index in the source's grid.
    pub chunk_index: Vec<u64>,
    /// What is wrong with it.
    pub message: String,
}

/// How a run goes about it.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// Bytes of memory for everything.
    pub memory_bytes: u64,
    /// What becomes of chunks that cannot be decoded.
    pub on_corrupt: OnCorrupt,
}

/// Runs every unit of a plan, writing chunks; metadata is the caller's to write afterwards.
///
/// `finished` is called on this thread with each store's number, and the chunks skipped so far, as soon as all its
/// chunks are written, while others are worked on. The first failure stops the run and is returned; a chunk that was listed and is gone is a failure.
/// Returns the chunks that were skipped.
pub fn run_copy(
    plan: &CopyPlan,
    endpoints: &[Endpoint<'_>],
    options: RunOptions,
    observer: &dyn Observer,
    cancel: &Cancel,
    finished: &mut dyn FnMut(usize, &[CorruptChunk]) -> Result<()>,
) -> Result<Vec<CorruptChunk>> {
    let meter = observer.meter();
    meter.arrays_total.add(plan.arrays.len() as u64);
    let spills: Vec<(Place, &Spill)> = places(plan, endpoints.len())
        .filter_map(|place| Some((place, plan.arrays[place.in_plan].spill.as_deref()?)))
        .collect();
    if spills.is_empty() {
        return run_units(plan, endpoints, Whole::Plan, options, observer, cancel, finished);
    }
    let mut done_stores = Vec::new();
    let mut corrupt =
        run_units(plan, endpoints, Whole::Plan, options, observer, cancel, &mut |store, corrupt| {
            if spills.iter().any(|(place, _)| plan.arrays[place.in_plan].store == store) {
                return Ok(());
            }
            done_stores.push(store);
            finished(store, corrupt)
        })?;
    for store in (0..endpoints.len()).filter(|store| !done_stores.contains(store)) {
        for (place, spill) in spills.iter().filter(|(place, _)| plan.arrays[place.in_plan].store == store) {
            corrupt.extend(run_spill(plan, *place, spill, &endpoints[store], options, observer, cancel)?);
            meter.arrays_done.add(1);
        }
        finished(store, &corrupt)?;
    }
    Ok(corrupt)
}

/// What units belong to.
#[derive(Clone, Copy)]
pub(super) enum Whole {
    /// All arrays of a plan.
    Plan,
    /// The stage of one array of a plan that writes pieces to scratch space.
    Scatter(Place),
    /// The stage that puts them together.
    Gather(Place),
}

/// Returns the places of a plan's arrays.
fn places(plan: &CopyPlan, stores: usize) -> impl Iterator<Item = Place> + '_ {
    let mut of_store = vec![0; stores];
    plan.arrays.iter().enumerate().map(move |(in_plan, array)| {
        let in_store = of_store[array.store];
        of_store[array.store] += 1;
        Place { in_plan, in_store }
    })
}

/// Runs the units of a plan, but for arrays that go through scratch space.
pub(super) fn run_units(
    plan: &CopyPlan,
    endpoints: &[Endpoint<'_>],
    whole: Whole,
    options: RunOptions,
    observer: &dyn Observer,
    cancel: &Cancel,
    finished: &mut dyn FnMut(usize, &[CorruptChunk]) -> Result<()>,
) -> Result<Vec<CorruptChunk>> {
    let meter = observer.meter();
    meter
        .decoded_bytes_total
        .add(plan.units.iter().map(|unit| unit.decoded_bytes).fold(0, u64::saturating_add));
    let mut copies = Vec::with_capacity(plan.arrays.len());
    for (array, place) in plan.arrays.iter().zip(places(plan, endpoints.len())) {
        let place = match whole {
            Whole::Plan => place,
            Whole::Scatter(place) | Whole::Gather(place) => place,
        };
        copies.push(Copy::prepare(place, array, &endpoints[array.store], options.memory_bytes)?);
    }
    let stores_left: Vec<AtomicUsize> = endpoints.iter().map(|_| AtomicUsize::new(0)).collect();
    for unit in &plan.units {
        copies[unit.array].units_left.fetch_add(1, Ordering::Relaxed);
        stores_left[plan.arrays[unit.array].store].fetch_add(1, Ordering::Relaxed);
    }
    let untouched =
        |copy: &&Copy<'_>| copy.units_left.load(Ordering::Relaxed) == 0 && copy.array.spill.is_none();
    if matches!(whole, Whole::Plan) {
        meter.arrays_done.add(copies.iter().filter(untouched).count() as u64);
    }
    let remote = endpoints.iter().any(|endpoint| matches!(endpoint.source, Store::Remote(_)));
    let pool = lanes::pool(plan.jobs)?;
    let (sender, messages) = mpsc::channel();
    let run = Run {
        plan,
        whole,
        copies: &copies,
        meter,
        cancel,
        queue: Queue::new(&plan.units, plan.memory.pool_bytes, plan.jobs * 2, |unit| {
            copies[unit.array].unit_bytes(plan, remote)
        }),
        pool: &pool,
        remote,
        options,
        written_bytes: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
        corrupt: Mutex::new(Vec::new()),
        stores_left: &stores_left,
        failed: endpoints.iter().map(|_| AtomicBool::new(false)).collect(),
        messages: sender,
    };
    for store in (0..endpoints.len()).filter(|&store| stores_left[store].load(Ordering::Relaxed) == 0) {
        run.tell(Message::StoreDone(store));
    }
    std::thread::scope(|scope| {
        for _ in 0..(if remote { FETCHERS.min(plan.units.len()) } else { 0 }) {
            scope.spawn(|| run.fetch_units());
        }
        scope.spawn(|| {
            pool.broadcast(|_| run.work());
            run.tell(Message::End);
        });
        for message in messages {
            match message {
                Message::End => break,
                Message::StoreDone(store)
                    if !run.stop.load(Ordering::Relaxed) && !run.failed[store].load(Ordering::Relaxed) =>
                {
                    let corrupt = run.corrupt.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    finished(store, &corrupt).unwrap_or_else(|error| run.fail_store(store, error));
                }
                Message::StoreDone(_) => {}
            }
        }
    });
    match run.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => {
            cancel.check()?;
            Ok(run.corrupt.into_inner().unwrap_or_else(PoisonError::into_inner))
        }
    }
}

/// What the threads of a run tell its caller.
enum Message {
    /// All chunks of a store are written.
    StoreDone(usize),
    /// No thread works any more.
    End,
}

/// Returns the bytes that absent chunks take on disk where a plan writes them, in blocks of 4 KiB.
pub fn absent_bytes(plan: &CopyPlan) -> Result<u64> {
    const BLOCK_BYTES: u64 = 4096;
    let mut sum = 0u64;
    for array in plan.arrays.iter().filter(|array| array.absent == AbsentChunks::Write) {
        let target = &array.target.metadata;
        let (visited, stored) = (array.visited(), array.stored.len());
        if visited <= stored {
            continue;
        }
        let shape = target.grid.largest_chunk_shape();
        let chain = Chain::compile(target, &shape).map_err(codec_error)?;
        let fill = fill_of(array);
        let bytes = with_scratch(|scratch, decoded, encoded| {
            encode_fill(&chain, needed_fill(array, fill.as_deref())?, scratch, decoded, encoded)
                .map(|()| encoded.len() as u64)
        })?;
        let absent = u128::from(target.grid.total().unwrap_or(u64::MAX)) * u128::from(visited - stored)
            / u128::from(visited);
        let absent = u64::try_from(absent).unwrap_or(u64::MAX);
        sum = sum.saturating_add(absent.saturating_mul(bytes.next_multiple_of(BLOCK_BYTES)));
    }
    Ok(sum)
}

/// Where an array stands: among those of the plan, and those of its store.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) in_plan: usize,
    in_store: usize,
}

/// One array of the run, compiled.
pub(super) struct Copy<'a> {
    place: Place,
    pub(super) array: &'a ArrayCopy,
    source: &'a Store,
    writer: &'a LocalWriter,
    journal: Option<&'a Journal>,
    resumed: bool,
    done: Option<&'a ChunkSet>,
    /// The recoder of a regular grid; rectilinear chunks compile their own.
    recoder: Option<Recoder>,
    reader: Option<ArrayReader<'a>>,
    /// The chain of the copy's chunks, where the array is rechunked.
    target: Option<Chain>,
    fill: Option<Vec<u8>>,
    object_limit: u64,
    units_left: AtomicUsize,
}

/// What the threads share.
pub(super) struct Run<'a> {
    plan: &'a CopyPlan,
    whole: Whole,
    copies: &'a [Copy<'a>],
    pub(super) meter: &'a Meter,
    pub(super) cancel: &'a Cancel,
    queue: Queue<'a>,
    pub(super) pool: &'a rayon::ThreadPool,
    remote: bool,
    options: RunOptions,
    written_bytes: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<Error>>,
    corrupt: Mutex<Vec<CorruptChunk>>,
    stores_left: &'a [AtomicUsize],
    /// The stores of which something failed: the rest of their units is passed over.
    failed: Vec<AtomicBool>,
    messages: mpsc::Sender<Message>,
}

/// The objects of one unit, in the order of its chunks; `None` for absent ones.
pub(super) type Fetched = Vec<Option<Bytes>>;

impl<'a> Copy<'a> {
    fn prepare(
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
        let (mut reader, mut target) = (None, None);
        if array.is_rechunked() {
            reader = Some(ArrayReader::new(endpoint.source, &array.source, memory_bytes)?);
            let metadata = &array.target.metadata;
            let chain = Chain::compile(metadata, &metadata.grid.largest_chunk_shape());
            target = Some(chain.map_err(codec_error)?);
        }
        Ok(Self {
            place,
            array,
            source: endpoint.source,
            writer: endpoint.writer,
            journal: endpoint.journal,
            resumed: endpoint.resumed,
            done: endpoint.done.get(place.in_store).filter(|done| !done.is_empty()),
            recoder,
            reader,
            target,
            fill: fill_of(array),
            object_limit: array.largest_bytes.max(1).saturating_mul(2).min(memory_bytes.max(1)),
            units_left: AtomicUsize::new(0),
        })
    }

    /// Returns what a unit takes of the pool.
    fn unit_bytes(&self, plan: &CopyPlan, remote: bool) -> u64 {
        match &self.array.rechunk {
            Some(rechunk) => rechunk.unit_bytes,
            None => {
                let chunk = self.array.chunk_memory_bytes().saturating_sub(plan.memory.thread_bytes);
                let waiting = if remote { self.array.largest_bytes.max(8 << 20) } else { 0 };
                chunk.saturating_add(waiting).min(plan.memory.pool_bytes)
            }
        }
    }

    /// Runs `work` with the recoder of a chunk.
    fn with_recoder<R>(&self, chunk_index: &[u64], work: impl FnOnce(&Recoder) -> Result<R>) -> Result<R> {
        match &self.recoder {
            Some(recoder) => work(recoder),
            None => work(&recoder(self.array, &self.array.source.metadata.grid.chunk_shape(chunk_index))?),
        }
    }

    pub(super) fn reader(&self) -> Result<&ArrayReader<'a>> {
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
    fn is_box_done(&self, unit: &Unit) -> bool {
        let (Cover::Box(position), Some(rechunk), Some(_)) = (&unit.cover, &self.array.rechunk, self.done)
        else {
            return false;
        };
        let ranges = rechunk.chunk_ranges(&self.array.target.metadata.grid, *position);
        let missing = |chunk_index: &[u64]| if self.is_done(chunk_index) { Ok(()) } else { Err(()) };
        for_each_index(&ranges, missing).is_ok()
    }

    /// Returns whether threads assemble a unit together.
    fn is_boxed(&self, unit: &Unit) -> bool {
        matches!(unit.cover, Cover::Box(_))
            && !self.array.source.metadata.data_type.is_variable()
            && !self.is_box_done(unit)
    }

    /// Records a chunk that is written, or needs no object.
    pub(super) fn record(
        &self,
        chunk_index: &[u64],
        object: Option<&[u8]>,
        decoded: Option<&[u8]>,
        done: &mut Vec<Record>,
    ) {
        let (Some(_), Some(chunk)) = (self.journal, self.array.target.metadata.grid.position_of(chunk_index))
        else {
            return;
        };
        done.push(Record {
            array: u32::try_from(self.place.in_store).unwrap_or(u32::MAX),
            chunk,
            object: object.map(ObjectDigest::of),
            decoded_xxh3: decoded.map_or(0, xxhash_rust::xxh3::xxh3_64),
        });
    }

    /// Returns the error of a chunk that was listed and does not exist any more.
    pub(super) fn gone(&self, chunk_index: &[u64]) -> Error {
        let mut key = String::new();
        self.array.source.chunk_key(chunk_index, &mut key);
        let cause = Error::new(
            ErrorKind::Unreadable,
            "it was listed, but is gone now: the source changes while it is read",
        );
        cause.context(format!("could not copy chunk `{key}` of `{}`", self.array.source.path))
    }
}

fn fill_of(array: &ArrayCopy) -> Option<Vec<u8>> {
    array.source.metadata.fill_value.element(&array.source.metadata.data_type)
}

fn needed_fill<'a>(array: &ArrayCopy, fill: Option<&'a [u8]>) -> Result<&'a [u8]> {
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

/// Stops a run whose thread panics, so that no other one waits for its work.
struct StopOnPanic<'r, 'a>(&'r Run<'a>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, Ordering::Relaxed);
            self.0.queue.stop();
        }
    }
}

impl<'a> Run<'a> {
    fn tell(&self, message: Message) {
        // whoever does not listen any more has seen the end
        let _ = self.messages.send(message);
    }

    pub(super) fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
        self.queue.stop();
    }

    /// Takes note of a failure that is one store's affair: others go on. Faults of the destination, and being cancelled,
    /// are everybody's.
    pub(super) fn fail_store(&self, store: usize, error: Error) {
        let everybodys = matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Unwritable);
        if everybodys || self.failed.len() == 1 {
            return self.fail(error);
        }
        self.failed[store].store(true, Ordering::Relaxed);
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn stops(&self) -> bool {
        if self.cancel.is_cancelled() {
            self.queue.stop();
            return true;
        }
        self.stop.load(Ordering::Relaxed)
    }

    /// Works until nothing is left.
    fn work(&self) {
        let _guard = StopOnPanic(self);
        let open = |unit: &'a Unit, buffer| {
            let copy = &self.copies[unit.array];
            if copy.is_boxed(unit) { OpenBox::open(unit, copy, buffer, None, self.plan.jobs) } else { None }
        };
        while !self.stops()
            && let Some(work) = self.queue.next(!self.remote, open)
        {
            match work {
                Work::Alone(unit, fetched) => {
                    let passed_over = self.is_failed(unit);
                    let result = if passed_over { Ok(()) } else { self.alone(unit, fetched.as_ref()) };
                    self.finish(unit, result);
                }
                Work::Fill(open, cells) => self.fill_cells(open, cells),
                Work::Encode(open, chunks) => self.encode_chunks(open, chunks),
            }
        }
    }

    /// Fills cells, and others of the same box as long as there are any.
    fn fill_cells(&self, open: Arc<OpenBox<'a>>, cells: std::ops::Range<usize>) {
        let mut next = Some(cells);
        while let Some(cells) = next.take() {
            let count = cells.len();
            for cell in cells {
                if self.stops() {
                    return;
                }
                if !self.is_failed(open.unit)
                    && let Err(error) = self.fill_cell(&open, cell)
                {
                    self.fail_store(open.copy.array.store, error);
                }
            }
            if open.cells_done(count) {
                if open.is_filled() {
                    return self.queue.filled();
                }
                // something of its store failed: nothing of it is encoded
                let unit = open.unit;
                self.queue.close(&open);
                drop(open);
                return self.finish(unit, Ok(()));
            }
            next = open.take_cells();
        }
    }

    /// Encodes chunks, and others of the same box as long as there are any.
    fn encode_chunks(&self, open: Arc<OpenBox<'a>>, chunks: std::ops::Range<usize>) {
        let (mut next, mut done) = (Some(chunks), Vec::new());
        while let Some(chunks) = next.take() {
            let count = chunks.len();
            for chunk in chunks {
                if self.stops() {
                    return;
                }
                if !self.is_failed(open.unit)
                    && let Err(error) = self.encode_chunk(&open, chunk, &mut done)
                {
                    self.fail_store(open.copy.array.store, error);
                }
            }
            if !open.is_sound() {
                done.clear();
            }
            if let Err(error) = self.journal(open.copy, &mut done) {
                return self.fail(error);
            }
            if open.encoded(count) {
                let unit = open.unit;
                self.queue.close(&open);
                // others may still hold the box for a moment: then its buffer is not used again
                if let Some(open) = Arc::into_inner(open) {
                    self.queue.recycle(open.into_buffer());
                }
                return self.finish(unit, Ok(()));
            }
            next = open.take_chunks();
        }
    }

    fn finish(&self, unit: &Unit, result: Result<()>) {
        let copy = &self.copies[unit.array];
        if let Err(error) = result {
            self.fail_store(copy.array.store, error);
        }
        if copy.units_left.fetch_sub(1, Ordering::AcqRel) == 1 && matches!(self.whole, Whole::Plan) {
            self.meter.arrays_done.add(1);
        }
        let store = copy.array.store;
        if self.stores_left[store].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.tell(Message::StoreDone(store));
        }
        self.queue.finished(copy.unit_bytes(self.plan, self.remote));
    }

    /// Fetches units until none is left.
    fn fetch_units(&self) {
        let _guard = StopOnPanic(self);
        while let Some(unit) = self.queue.next_to_fetch() {
            let fetched = if self.is_failed(unit) { Ok(Vec::new()) } else { self.fetch(unit) };
            let fetched = fetched.or_else(|error| {
                self.fail_store(self.copies[unit.array].array.store, error);
                if self.stop.load(Ordering::Relaxed) { Err(()) } else { Ok(Vec::new()) }
            });
            match fetched {
                Ok(fetched) => self.queue.fetched(unit, fetched, |unit, buffer, fetched| {
                    let copy = &self.copies[unit.array];
                    if !copy.is_boxed(unit) || self.is_failed(unit) {
                        return Err(fetched);
                    }
                    OpenBox::open(unit, copy, buffer, Some(fetched), self.plan.jobs).ok_or_else(Vec::new)
                }),
                Err(()) => return,
            }
        }
    }

    /// Returns whether a unit belongs to a store of which something failed.
    fn is_failed(&self, unit: &Unit) -> bool {
        self.failed[self.copies[unit.array].array.store].load(Ordering::Relaxed)
    }

    fn fetch(&self, unit: &Unit) -> Result<Fetched> {
        let copy = &self.copies[unit.array];
        let started = Instant::now();
        let positions: Vec<Option<u64>> = match &unit.cover {
            // elements without fixed size are read by the worker
            Cover::Box(_) if !copy.is_boxed(unit) => Vec::new(),
            Cover::Box(_) => OpenBox::stored_sources(unit, copy),
            Cover::Chunks(chunks) => copy.array.stored.range(chunks.clone()).map(Some).collect(),
        };
        let mut key = String::new();
        let keys: Vec<String> = positions
            .iter()
            .flatten()
            .map(|&position| {
                copy.array.source.chunk_key(&copy.array.source.metadata.grid.index_at(position), &mut key);
                key.clone()
            })
            .collect();
        let mut fetched = copy.source.get_many(&keys, copy.object_limit).into_iter();
        let fetched: Result<Fetched> = positions
            .iter()
            .map(|position| match position {
                Some(_) => fetched.next().unwrap_or(Ok(None)),
                None => Ok(None),
            })
            .collect();
        self.meter.read_time.add_time(started.elapsed());
        let fetched = fetched?;
        if matches!(unit.cover, Cover::Box(_)) {
            self.meter.bytes_read.add(fetched.iter().flatten().map(|bytes| bytes.len() as u64).sum());
        }
        Ok(fetched)
    }

    /// Rewrites the chunks of one unit, one after the other.
    fn alone(&self, unit: &Unit, fetched: Option<&Fetched>) -> Result<()> {
        let copy = &self.copies[unit.array];
        let mut done = Vec::new();
        let result = match &unit.cover {
            Cover::Box(_) if copy.is_box_done(unit) => Ok(()),
            Cover::Box(_) => self.variable_box(unit, copy, &mut done),
            Cover::Chunks(chunks) => self.chunks(copy, chunks.clone(), fetched, &mut done),
        };
        let result = result.and_then(|()| self.journal(copy, &mut done));
        // what one large chunk took must not stay with every thread
        if copy.array.chunk_memory_bytes() > self.options.memory_bytes / (2 * self.plan.jobs as u64) {
            release_scratch();
        }
        result
    }

    fn chunks(
        &self,
        copy: &Copy<'_>,
        mut chunks: std::ops::RangeInclusive<u64>,
        fetched: Option<&Fetched>,
        done: &mut Vec<Record>,
    ) -> Result<()> {
        let mut fetched = fetched.map(|fetched| fetched.iter());
        if copy.array.absent == AbsentChunks::Leave {
            return copy.array.stored.range(chunks).try_for_each(|position| {
                self.chunk(copy, position, fetched.as_mut().map(|fetched| fetched.next()), done)
            });
        }
        chunks.try_for_each(|position| match copy.array.stored.contains(position) {
            true => self.chunk(copy, position, fetched.as_mut().map(|fetched| fetched.next()), done),
            false => self.absent_chunk(copy, position, done),
        })
    }

    /// Recodes one stored chunk.
    fn chunk(
        &self,
        copy: &Copy<'_>,
        position: u64,
        fetched: Option<Option<&Option<Bytes>>>,
        done: &mut Vec<Record>,
    ) -> Result<()> {
        self.cancel.check()?;
        let source = &copy.array.source;
        let chunk_index = source.metadata.grid.index_at(position);
        if copy.is_done(&chunk_index) {
            return Ok(());
        }
        let mut key = String::with_capacity(64);
        source.chunk_key(&chunk_index, &mut key);
        let copied = with_scratch(|scratch, encoded, recoded| {
            let bytes = match fetched {
                Some(fetched) => fetched.and_then(Option::as_ref).map(|bytes| &bytes[..]),
                None => {
                    let started = Instant::now();
                    let present = copy.source.get(&key, copy.object_limit, encoded)?;
                    self.meter.read_time.add_time(started.elapsed());
                    present.then_some(encoded.as_slice())
                }
            };
            let bytes = bytes.ok_or_else(|| copy.gone(&chunk_index))?;
            self.meter.bytes_read.add(bytes.len() as u64);
            copy.with_recoder(&chunk_index, |recoder| {
                if recoder.is_copy() {
                    return self.write(copy, &chunk_index, bytes, None, done);
                }
                let cost = recoder
                    .recode(scratch, bytes, copy.object_limit.saturating_mul(64), recoded)
                    .map_err(codec_error)?;
                self.meter.bytes_decoded.add(cost.bytes);
                self.meter.bytes_encoded.add(recoded.len() as u64);
                self.meter.decode_time.add_time(cost.decode);
                self.meter.encode_time.add_time(cost.encode);
                self.write(copy, &chunk_index, recoded, None, done)
            })
        });
        copied
            .map_err(|error| error.context(format!("could not copy chunk `{key}` of `{}`", source.path)))
            .or_else(|error| {
                self.corrupt(copy, &chunk_index, error)?;
                match copy.array.absent {
                    // not recorded: a resumed run must find it again
                    AbsentChunks::Leave => Ok(()),
                    AbsentChunks::Write => self.absent_chunk(copy, position, &mut Vec::new()),
                }
            })
    }

    /// Returns whether a chunk with this fault is to be skipped.
    pub(super) fn skips(&self, error: &Error) -> bool {
        // a frame that says nonsense is as corrupt as one that breaks off
        self.options.on_corrupt == OnCorrupt::Skip
            && matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported)
    }

    /// Takes note of a chunk that cannot be decoded, or returns the error where that stops the run.
    pub(super) fn corrupt(&self, copy: &Copy<'_>, chunk_index: &[u64], error: Error) -> Result<()> {
        if !self.skips(&error) {
            let mends = error.kind() == ErrorKind::Corrupt && error.hint().is_none();
            return Err(match mends {
                true => error.with_hint(
                    "mend the source, or pass --on-corrupt skip to leave fill values in its place",
                ),
                false => error,
            });
        }
        let chunk = CorruptChunk {
            array: copy.place.in_plan,
            chunk_index: chunk_index.to_vec(),
            message: error.one_line(),
        };
        self.corrupt.lock().unwrap_or_else(PoisonError::into_inner).push(chunk);
        Ok(())
    }

    /// Writes one chunk; `decoded` is what it holds, where that is at hand.
    pub(super) fn write(
        &self,
        copy: &Copy<'_>,
        chunk_index: &[u64],
        bytes: &[u8],
        decoded: Option<&[u8]>,
        done: &mut Vec<Record>,
    ) -> Result<()> {
        let started = Instant::now();
        let mut key = String::with_capacity(64);
        copy.array.target.chunk_key(chunk_index, &mut key);
        match copy.resumed {
            true => copy.writer.replace(&key, bytes)?,
            false => copy.writer.put(&key, bytes)?,
        }
        copy.record(chunk_index, Some(bytes), decoded, done);
        self.meter.write_time.add_time(started.elapsed());
        match self.whole {
            Whole::Scatter(_) => self.meter.scratch_bytes.add(bytes.len() as u64),
            Whole::Plan | Whole::Gather(_) => {
                self.meter.bytes_written.add(bytes.len() as u64);
                self.meter.objects_written.add(1);
            }
        }
        let before = self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if before / SPACE_CHECK_BYTES != (before + bytes.len() as u64) / SPACE_CHECK_BYTES {
            copy.writer.check_space(SPACE_LEAST_BYTES)?;
        }
        Ok(())
    }

    /// Writes down what is done; from then on a resumed run leaves it alone.
    pub(super) fn journal(&self, copy: &Copy<'_>, done: &mut Vec<Record>) -> Result<()> {
        if let (Some(journal), false) = (copy.journal, done.is_empty()) {
            journal.append(done)?;
        }
        done.clear();
        Ok(())
    }

    /// Writes a chunk of fill values where the source has none.
    fn absent_chunk(&self, copy: &Copy<'_>, position: u64, done: &mut Vec<Record>) -> Result<()> {
        self.cancel.check()?;
        let chunk_index = copy.array.source.metadata.grid.index_at(position);
        if copy.is_done(&chunk_index) {
            return Ok(());
        }
        let fill = copy.fill()?;
        with_scratch(|scratch, decoded, encoded| {
            copy.with_recoder(&chunk_index, |recoder| {
                encode_fill(recoder.target(), fill, scratch, decoded, encoded)?;
                self.write(copy, &chunk_index, encoded, Some(decoded), done)
            })
        })
        .map_err(|error| {
            error.context(format!(
                "could not write the absent chunk {chunk_index:?} of `{}`",
                copy.array.source.path
            ))
        })
    }
}

/// Encodes a chunk that holds nothing but `fill`.
fn encode_fill(
    chain: &Chain,
    fill: &[u8],
    scratch: &mut Scratch,
    decoded: &mut Vec<u8>,
    encoded: &mut Vec<u8>,
) -> Result<()> {
    let Some(bytes) = chain.decoded_bytes() else {
        let count = saturating_usize(
            product(&chain.shape().iter().map(|&length| length as u64).collect::<Vec<_>>())
                .unwrap_or(u64::MAX),
        );
        let elements = crate::codec::VariableElements::filled(fill, count);
        return chain.encode_variable(scratch, &elements, encoded).map_err(codec_error);
    };
    decoded.resize(bytes, 0);
    let count = bytes / fill.len().max(1);
    let layout = Strided { offset: 0, strides: &c_strides(&[count], fill.len()) };
    fill_strided(fill, &[count], decoded, layout)
        .map_err(|error| Error::new(ErrorKind::Corrupt, "could not fill a chunk").with_source(error))?;
    chain.encode(scratch, decoded, encoded).map_err(codec_error)
}
