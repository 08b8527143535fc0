//! Runs a plan: read, recode or assemble, write, on every core.
//!
//! Local sources are read by the worker that decodes. Remote ones are fetched by plain threads that hand whole
//! units over, so that no worker ever waits for the network.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use super::boxes::OpenBox;
use super::lanes;
use super::prefetch::{EndOfReads, Prefetch, Upcoming};
use super::prepared::{Copy, Place};
use super::queue::{Queue, Work};
use super::sink::Sink;
use super::spill::{Scratch, clear_left, run_spill};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Meter, Observer};
use crate::grid::{ChunkSet, Region};
use crate::metadata::ArrayMetadata;
use crate::plan::{CopyPlan, Cover, Spill, Unit};
use crate::read::release_scratch;
use crate::store::Store;

/// Where the arrays of one store of a plan come from and go to.
#[derive(Clone, Copy)]
pub struct Endpoint<'a> {
    /// The source.
    pub source: &'a Store,
    /// The stores that arrays which are gathered name; empty for plain copies.
    pub parts: &'a [&'a Store],
    /// The copy.
    pub sink: Sink<'a>,
    /// Chunks of the copy that are there already, one set an array of the store; empty for a new copy.
    pub done: &'a [ChunkSet],
    /// Whether objects that an earlier run left half-written may be in the way.
    pub resumed: bool,
    /// For pieces of arrays that are rechunked through scratch space.
    pub scratch: Option<Scratch<'a>>,
}

/// What a run does with source chunks that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCorrupt {
    /// It stops and names the chunk.
    Fail,
    /// It leaves fill values in their place and names them all at the end.
    Skip,
}

/// A source chunk, or an inner chunk of one, that could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CorruptChunk {
    /// The array's position in the plan.
    pub array: usize,
    /// The chunk's index in the source's grid.
    pub chunk_index: Vec<u64>,
    /// Where the chunk is a shard of which only one inner chunk could not be decoded: its place in the shard.
    pub inner_chunk: Option<Vec<u64>>,
    /// What is wrong with it.
    pub message: String,
}

impl CorruptChunk {
    /// Returns the elements that hold fill values for it.
    pub fn region(&self, array: &ArrayMetadata) -> Region {
        match &self.inner_chunk {
            Some(inner) => array.inner_region(&self.chunk_index, inner),
            None => array.grid.chunk_region(&self.chunk_index),
        }
    }
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
/// chunks are written, while others are worked on. The first failure stops the run and is returned; a chunk that was listed, or
/// asked for before, and is gone is a failure.
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
    // those that were listed before are others
    meter.arrays_total.restart();
    meter.arrays_done.restart();
    meter.arrays_total.add(plan.arrays.len() as u64);
    clear_left(plan, endpoints)?;
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
    /// The same, where pieces hold fill values for chunks that were skipped: nothing is recorded, as a resumed run must
    /// find them again.
    GatherAround(Place),
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
            Whole::Scatter(place) | Whole::Gather(place) | Whole::GatherAround(place) => place,
        };
        copies.push(Copy::prepare(place, array, &endpoints[array.store], options.memory_bytes)?);
    }
    let stores_left: Vec<AtomicUsize> = endpoints.iter().map(|_| AtomicUsize::new(0)).collect();
    for unit in &plan.units {
        copies[unit.array].units_left.fetch_add(1, Ordering::Relaxed);
        stores_left[plan.arrays[unit.array].store].fetch_add(1, Ordering::Relaxed);
    }
    meter.decoded_bytes_resumed.add(resumed_bytes(plan, &copies));
    let untouched =
        |copy: &&Copy<'_>| copy.units_left.load(Ordering::Relaxed) == 0 && copy.array.spill.is_none();
    if matches!(whole, Whole::Plan) {
        meter.arrays_done.add(copies.iter().filter(untouched).count() as u64);
    }
    // one for each read that may be on its way: a unit may be a single object
    let stores =
        endpoints.iter().flat_map(|endpoint| endpoint.parts.iter().copied().chain([endpoint.source]));
    let fetchers = stores.map(Store::reads_in_flight).max().unwrap_or(0).min(plan.units.len());
    let remote = fetchers > 0;
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
        prefetch: Prefetch::default(),
        pool: &pool,
        remote,
        options,
        written_bytes: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
        corrupt: Mutex::default(),
        stores_left: &stores_left,
        sources: endpoints.iter().map(|endpoint| endpoint.source.place()).collect(),
        sinks: endpoints.iter().map(|endpoint| endpoint.sink).collect(),
        failed: endpoints.iter().map(|_| AtomicBool::new(false)).collect(),
        messages: sender,
    };
    for store in (0..endpoints.len()).filter(|&store| stores_left[store].load(Ordering::Relaxed) == 0) {
        run.tell(Message::StoreDone(store));
    }
    std::thread::scope(|scope| {
        for _ in 0..fetchers {
            scope.spawn(|| run.fetch_units());
        }
        if !remote {
            scope.spawn(|| run.prefetch.run(run.upcoming(), plan.jobs));
        }
        scope.spawn(|| {
            let _end = EndOfReads(&run.prefetch);
            pool.broadcast(|_| {
                run.work();
                release_scratch();
            });
            run.queue.release_buffers();
            run.tell(Message::End);
        });
        let mut finish = |store: usize| {
            if run.stop.load(Ordering::Relaxed) || run.failed[store].load(Ordering::Relaxed) {
                return;
            }
            let corrupt: Vec<CorruptChunk> =
                run.corrupt.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
            let mut of_store = copies.iter().filter(|copy| copy.array.store == store);
            let arrived = endpoints[store].sink.wait();
            arrived
                .and_then(|()| of_store.try_for_each(Copy::check_known))
                .and_then(|()| finished(store, &corrupt))
                .unwrap_or_else(|error| run.fail_store(store, error));
        };
        let (mut done, mut last) = (0, None);
        for message in messages {
            match message {
                Message::End => break,
                Message::StoreDone(store) => {
                    done += 1;
                    // the last one is finished when threads have given back what they took: it may take as much
                    match done == endpoints.len() {
                        true => last = Some(store),
                        false => finish(store),
                    }
                }
            }
        }
        if let Some(store) = last {
            finish(store);
        }
    });
    match run.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => {
            cancel.check()?;
            Ok(run.corrupt.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect())
        }
    }
}

/// Returns the decoded bytes of the units that an earlier run has done, by their share of each array's chunks.
fn resumed_bytes(plan: &CopyPlan, copies: &[Copy<'_>]) -> u64 {
    if copies.iter().all(|copy| copy.done.is_none()) {
        return 0;
    }
    let mut decoded = vec![0u64; copies.len()];
    for unit in &plan.units {
        decoded[unit.array] = decoded[unit.array].saturating_add(unit.decoded_bytes);
    }
    let resumed = copies.iter().zip(decoded).map(|(copy, decoded)| decoded - copy.fresh(decoded));
    resumed.fold(0, u64::saturating_add)
}

/// What the threads of a run tell its caller.
enum Message {
    /// All chunks of a store are written.
    StoreDone(usize),
    /// No thread works any more.
    End,
}

/// What the threads share.
pub(super) struct Run<'a> {
    pub(super) plan: &'a CopyPlan,
    pub(super) whole: Whole,
    pub(super) copies: &'a [Copy<'a>],
    pub(super) meter: &'a Meter,
    pub(super) cancel: &'a Cancel,
    pub(super) queue: Queue<'a>,
    pub(super) prefetch: Prefetch,
    pub(super) pool: &'a rayon::ThreadPool,
    pub(super) remote: bool,
    pub(super) options: RunOptions,
    pub(super) written_bytes: AtomicU64,
    pub(super) stop: AtomicBool,
    pub(super) failure: Mutex<Option<Error>>,
    /// In order, and each once, though it lies in several boxes.
    pub(super) corrupt: Mutex<BTreeSet<CorruptChunk>>,
    pub(super) stores_left: &'a [AtomicUsize],
    /// Where each store comes from, for messages.
    pub(super) sources: Vec<String>,
    /// Where the chunks of each store go.
    sinks: Vec<Sink<'a>>,
    /// The stores of which something failed: the rest of their units is passed over.
    pub(super) failed: Vec<AtomicBool>,
    messages: mpsc::Sender<Message>,
}

/// Stops a run whose thread panics, so that no other one waits for its work.
pub(super) struct StopOnPanic<'r, 'a>(pub(super) &'r Run<'a>);

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
        let error = self.sinks[store].take_failure().unwrap_or(error);
        let everybodys = matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Unwritable);
        if everybodys || self.failed.len() == 1 {
            return self.fail(error);
        }
        self.failed[store].store(true, Ordering::Relaxed);
        let error = error.context(format!("could not copy {}", self.sources[store]));
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Returns what is read as a whole, in the order of the plan.
    fn upcoming(&self) -> impl Iterator<Item = Upcoming<'a>> + '_ {
        self.plan.units.iter().flat_map(|unit| {
            let copy = &self.copies[unit.array];
            let (store, array) = (copy.source, &copy.array.source);
            let positions: Box<dyn Iterator<Item = u64>> = match &unit.cover {
                Cover::Chunks(chunks) => {
                    Box::new(copy.array.stored.range(chunks.clone()).filter(|position| {
                        copy.done.is_none() || !copy.is_done(&array.metadata.grid.index_at(*position))
                    }))
                }
                Cover::Box(_) if copy.reads_whole_chunks() && copy.is_boxed(unit) => {
                    Box::new(OpenBox::stored_sources(unit, copy).into_iter().flatten())
                }
                Cover::Box(_) => Box::new(std::iter::empty()),
            };
            positions.map(move |position| Upcoming { store, array, position })
        })
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
        match result {
            Ok(()) => self.meter.decoded_bytes_finished.add(copy.fresh(unit.decoded_bytes)),
            Err(error) => self.fail_store(copy.array.store, error),
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

    /// Returns whether a unit belongs to a store of which something failed.
    pub(super) fn is_failed(&self, unit: &Unit) -> bool {
        self.failed[self.copies[unit.array].array.store].load(Ordering::Relaxed)
    }

    /// Returns whether a chunk with this fault is to be skipped.
    pub(super) fn skips(&self, error: &Error) -> bool {
        // a frame that says nonsense is as corrupt as one that breaks off
        self.options.on_corrupt == OnCorrupt::Skip
            && matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported)
    }

    /// Takes note of a chunk, or of an inner chunk of one, that cannot be decoded, or returns the error where that stops the
    /// run.
    pub(super) fn corrupt(
        &self,
        copy: &Copy<'_>,
        chunk_index: &[u64],
        inner_chunk: Option<&[u64]>,
        error: Error,
    ) -> Result<()> {
        if !self.skips(&error) {
            let mends = error.kind() == ErrorKind::Corrupt && error.hint().is_none();
            return Err(match mends {
                // a slice has no fill values for what it does not find
                true if copy.array.gather.is_some() => {
                    error.with_hint("copy the source again, or leave it or the array out")
                }
                true => error.with_hint(
                    "mend the source, or pass --on-corrupt skip to leave fill values in its place",
                ),
                false => error.with_budget(self.options.memory_bytes),
            });
        }
        let chunk = CorruptChunk {
            array: copy.place.in_plan,
            chunk_index: chunk_index.to_vec(),
            inner_chunk: inner_chunk.map(<[u64]>::to_vec),
            message: error.one_line(),
        };
        self.corrupt.lock().unwrap_or_else(PoisonError::into_inner).insert(chunk);
        Ok(())
    }
}
