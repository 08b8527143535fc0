//! One queue of chunks over all arrays, and the threads that work on it.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};

use super::chunk::{DECODED_SHARE, Prepared, Shared, Source, Thread, elements_of};
use super::gather::{ArrayValues, FACTS_MOST, Found, Skipped, Whole};
use super::profile::PROFILE_BYTES;
use super::sample::{Sample, Stock, draw, shares};
use super::stand_in::{self, StandIn};
use crate::cancel::Cancel;
use crate::engine::lanes::Resources;
use crate::engine::prefetch::{EndOfReads, Prefetch, Upcoming};
use crate::engine::survey::Listing;
use crate::error::Result;
use crate::event::Observer;
use crate::grid::product;
use crate::hierarchy::ArrayNode;
use crate::read::with_buffers;
use crate::store::Store;
use crate::units::saturating_usize;

/// Chunks that a thread takes at once, at most.
const RUN_CHUNKS: u64 = 64;
/// Decoded bytes that a thread takes at once, but for one chunk.
const RUN_BYTES: u64 = 16 << 20;
/// Threads that fetch from a remote store, at least, however little memory there is.
const FETCHERS_LEAST: usize = 4;
/// Where nothing can be listed, every chunk is asked for, if there are not more.
const UNLISTED_MOST: u64 = 1 << 20;

/// An array to scan, and what is known to be stored of it.
#[derive(Debug, Clone, Copy)]
pub struct ScanTarget<'a> {
    /// The array.
    pub array: &'a ArrayNode,
    /// Its listing; `None` where the store cannot be listed: then every chunk is asked for.
    pub listing: Option<&'a Listing>,
}

/// A run of chunks of one array.
struct Run {
    target: usize,
    positions: Vec<u64>,
}

/// A fetched run.
type Fetched = (Run, Vec<Result<Option<Bytes>>>);

/// Where the chunks of a run come from.
enum Chunks<'a> {
    /// They were fetched, but for what the thread that decodes reads itself.
    Fetched(Vec<Result<Option<Bytes>>>),
    /// They are read by the thread that decodes.
    Read(&'a Prefetch),
}

/// Scans the values of arrays of one store; results are in the order of `targets`.
///
/// Chunks that cannot be decoded or read become observations of their array. Memory: within `resources`, and what the
/// results take: sets of positions, 64 bytes a chunk for half a million of them, counts along dimensions. The same `seed`
/// draws the same sample. Errors: `Cancelled`, `OverBudget` where threads cannot be started.
pub fn scan_values(
    store: &Store,
    targets: &[ScanTarget<'_>],
    (sample, seed): (Sample, u64),
    resources: Resources,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Vec<ArrayValues>> {
    let meter = observer.meter();
    meter.arrays_total.add(targets.len() as u64);
    let memory = resources.memory_bytes.max(1 << 20);
    let sampled = (sample != Sample::Full).then_some(seed);
    let prepared: Vec<std::result::Result<Prepared<'_>, Skipped>> = targets
        .iter()
        .map(|target| Prepared::new(store, target.array, memory / DECODED_SHARE, sampled))
        .collect();
    let (profile_bytes, facts_left) = (AtomicI64::new(PROFILE_BYTES), AtomicI64::new(FACTS_MOST));
    let shared = Shared { meter, profile_bytes: &profile_bytes };
    let work =
        Work { store, targets, prepared: &prepared, sample, seed, shared, facts_left: &facts_left, cancel };
    meter.decoded_bytes_total.add(work.decoded_bytes());
    let jobs = resources.jobs.max(1);
    for (threads, positions) in tiers(targets, &prepared, memory, jobs) {
        work.run(positions, threads, memory);
        cancel.check()?;
    }
    meter.arrays_done.add(targets.len() as u64);
    let mut scanned = Vec::with_capacity(targets.len());
    for (prepared, target) in prepared.into_iter().zip(targets) {
        cancel.check()?;
        let stand_in = prepared.as_ref().ok().and_then(|prepared| stand_in::find(prepared, shared));
        scanned.push(finished(prepared, target, stand_in));
    }
    Ok(scanned)
}

/// Returns which targets are worked on together, and by how many threads: those whose chunks fit the share of a thread by
/// all, the others, the largest first, by as many as memory allows.
fn tiers(
    targets: &[ScanTarget<'_>],
    prepared: &[std::result::Result<Prepared<'_>, Skipped>],
    memory: u64,
    jobs: usize,
) -> Vec<(usize, Vec<usize>)> {
    let footprint = |at: usize| {
        let metadata = &targets[at].array.metadata;
        let largest =
            targets[at].listing.and_then(|listing| listing.sizes.range()).map_or(0, |range| range.1);
        let limit = prepared[at].as_ref().map_or(0, |prepared| prepared.encoded_limit);
        let decoded = prepared[at].as_ref().map_or(0, Prepared::decoded_at_once);
        let encoded = match targets[at].listing {
            Some(_) => largest.min(limit),
            None => metadata.chunk_decoded_bytes().unwrap_or(0),
        };
        encoded.saturating_add(decoded.saturating_mul(2))
    };
    let threads = |at: usize| saturating_usize(memory / 2 / footprint(at).max(1)).clamp(1, jobs);
    let mut order: Vec<usize> = (0..targets.len()).filter(|&at| prepared[at].is_ok()).collect();
    let stored = |at: usize| targets[at].listing.map_or(u64::MAX, |listing| listing.bytes_stored);
    order.sort_by_key(|&at| (threads(at), std::cmp::Reverse(stored(at))));
    let mut tiers: Vec<(usize, Vec<usize>)> = Vec::new();
    for at in order {
        match tiers.last_mut() {
            Some((count, tier)) if *count == threads(at) => tier.push(at),
            _ => tiers.push((threads(at), vec![at])),
        }
    }
    tiers
}

/// Returns how many chunks of so many bytes a thread takes at once.
fn run_length(decoded_bytes: u64) -> u64 {
    (RUN_BYTES / decoded_bytes.max(1)).clamp(1, RUN_CHUNKS)
}

struct Work<'a> {
    store: &'a Store,
    targets: &'a [ScanTarget<'a>],
    prepared: &'a [std::result::Result<Prepared<'a>, Skipped>],
    sample: Sample,
    seed: u64,
    shared: Shared<'a>,
    facts_left: &'a AtomicI64,
    cancel: &'a Cancel,
}

impl Work<'_> {
    /// Returns the decoded bytes of the chunks that are scanned.
    fn decoded_bytes(&self) -> u64 {
        let stocks: Vec<Stock> = self.targets.iter().map(|target| stock(target)).collect();
        let drawn = shares(self.sample, &stocks);
        let of_each = stocks.iter().zip(drawn).enumerate().filter(|(at, _)| self.prepared[*at].is_ok());
        let bytes = of_each.map(|(at, (stock, drawn))| {
            let chunks = if self.sample == Sample::Full { stock.chunks } else { drawn.min(stock.chunks) };
            chunks.saturating_mul(self.chunk_bytes(at))
        });
        bytes.fold(0, u64::saturating_add)
    }

    fn chunk_bytes(&self, target: usize) -> u64 {
        self.targets[target].array.metadata.chunk_decoded_bytes().unwrap_or(1 << 20)
    }

    /// Scans some targets.
    fn run(&self, positions: Vec<usize>, threads: usize, memory: u64) {
        let fetchers = self.fetchers(&positions, memory);
        let queue = Mutex::new(self.runs(positions.clone()));
        let next = || queue.lock().ok().and_then(|mut runs| runs.next());
        if !self.store.is_remote() {
            let prefetch = Prefetch::default();
            return std::thread::scope(|scope| {
                let prefetch = &prefetch;
                scope.spawn(move || prefetch.run(self.upcoming(positions), threads));
                let ended = Arc::new(EndOfReads(prefetch));
                for _ in 0..threads {
                    let (next, ended) = (&next, Arc::clone(&ended));
                    scope.spawn(move || {
                        let _ended = ended;
                        let mut thread = Thread::default();
                        while let Some(run) = next().filter(|_| !self.cancel.is_cancelled()) {
                            self.scan(&run, Chunks::Read(prefetch), &mut thread);
                        }
                    });
                }
                drop(ended);
            });
        }
        // threads that decode never wait for the network: others fetch for them
        let (ready, to_scan): (Sender<Fetched>, Receiver<Fetched>) = bounded(threads);
        std::thread::scope(|scope| {
            for _ in 0..fetchers {
                let ready = ready.clone();
                let next = &next;
                scope.spawn(move || {
                    while let Some(run) = next().filter(|_| !self.cancel.is_cancelled()) {
                        let fetched = self.fetch(&run, memory);
                        if ready.send((run, fetched)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(ready);
            for _ in 0..threads {
                let to_scan = to_scan.clone();
                scope.spawn(move || {
                    let mut thread = Thread::default();
                    for (run, fetched) in to_scan {
                        if !self.cancel.is_cancelled() {
                            self.scan(&run, Chunks::Fetched(fetched), &mut thread);
                        }
                    }
                });
            }
        });
    }

    /// Returns how many threads fetch: as many as there may be reads, as a run may be a single chunk, if a quarter of the memory
    /// holds what they fetch.
    fn fetchers(&self, positions: &[usize], memory: u64) -> usize {
        let fetched = |&target: &usize| {
            let decoded = self.targets[target].array.metadata.chunk_decoded_bytes().unwrap_or(1 << 20);
            let stored =
                self.targets[target].listing.map(|listing| (listing.stored.len(), listing.sizes.range()));
            let (chunks, largest) = match stored {
                Some((chunks, Some((_, largest)))) => (chunks, largest),
                Some((_, None)) => (0, 0),
                None => (u64::MAX, decoded),
            };
            largest.saturating_mul(run_length(decoded).min(chunks))
        };
        let largest = positions.iter().map(fetched).max().unwrap_or(0);
        saturating_usize(memory / 4 / largest.max(1)).min(self.store.reads_in_flight()).max(FETCHERS_LEAST)
    }

    /// Returns the runs of chunks of some targets, one target after the other.
    fn runs(&self, targets: Vec<usize>) -> impl Iterator<Item = Run> + Send {
        let stocks: Vec<Stock> = self.targets.iter().map(|target| stock(target)).collect();
        let shares = shares(self.sample, &stocks);
        targets.into_iter().flat_map(move |target| {
            let length = run_length(self.chunk_bytes(target));
            let mut positions = self.positions(target, shares[target]);
            std::iter::from_fn(move || {
                let positions: Vec<u64> = positions.by_ref().take(saturating_usize(length)).collect();
                (!positions.is_empty()).then_some(Run { target, positions })
            })
        })
    }

    /// Returns what is read as a whole, in the order of the queue.
    fn upcoming(&self, targets: Vec<usize>) -> impl Iterator<Item = Upcoming<'_>> {
        self.runs(targets).flat_map(|run| {
            let whole = self.prepared[run.target].as_ref().ok().filter(|prepared| !prepared.reads_itself());
            let positions = if whole.is_some() { run.positions } else { Vec::new() };
            let (store, array) = (self.store, self.targets[run.target].array);
            positions.into_iter().map(move |position| Upcoming { store, array, position })
        })
    }

    fn positions(&self, target: usize, share: u64) -> Box<dyn Iterator<Item = u64> + Send + '_> {
        let Some(listing) = self.targets[target].listing else {
            let total = self.targets[target].array.metadata.grid.total();
            let total = total.filter(|&total| total <= UNLISTED_MOST).unwrap_or(0);
            let step = (total / share.max(1)).max(1);
            return Box::new((0..total).step_by(saturating_usize(step)));
        };
        match self.sample {
            Sample::Full => Box::new(listing.stored.iter()),
            sample => {
                let path = self.targets[target].array.path.as_bytes();
                let seed = xxhash_rust::xxh3::xxh3_64_with_seed(path, self.seed);
                Box::new(draw(sample, &listing.stored, share, seed).into_iter())
            }
        }
    }

    fn fetch(&self, run: &Run, memory: u64) -> Vec<Result<Option<Bytes>>> {
        let Ok(prepared) = &self.prepared[run.target] else { return Vec::new() };
        if prepared.reads_itself() {
            return Vec::new();
        }
        let started = Instant::now();
        let mut key = String::new();
        let keys: Vec<String> = run
            .positions
            .iter()
            .map(|&position| {
                prepared.array.chunk_key(&prepared.array.metadata.grid.index_at(position), &mut key);
                key.clone()
            })
            .collect();
        let limit = prepared.encoded_limit.min(memory / 4);
        let fetched = self.store.get_many(&keys, limit);
        let bytes = fetched.iter().flatten().flatten().map(|bytes| bytes.len() as u64).sum();
        self.shared.meter.bytes_read.add(bytes);
        self.shared.meter.read_time.add_time(started.elapsed());
        fetched
    }

    fn scan(&self, run: &Run, chunks: Chunks<'_>, thread: &mut Thread) {
        let Ok(prepared) = &self.prepared[run.target] else { return };
        thread.next_array();
        let mut found = Found::default();
        with_buffers(|buffers| {
            for (at, &position) in run.positions.iter().enumerate() {
                if self.cancel.is_cancelled() {
                    return;
                }
                let source = match &chunks {
                    Chunks::Fetched(fetched) => fetched.get(at).map_or(Source::Read, Source::Fetched),
                    Chunks::Read(prefetch) => {
                        if !prepared.reads_itself() {
                            prefetch.begin();
                        }
                        Source::Read
                    }
                };
                prepared.scan(position, &source, (&mut *buffers, &mut *thread), self.shared, &mut found);
            }
        });
        prepared.gather.add(found, self.facts_left);
        let finished = self.chunk_bytes(run.target).saturating_mul(run.positions.len() as u64);
        self.shared.meter.decoded_bytes_finished.add(finished);
    }
}

/// Returns what is stored of a target, as far as that is known.
fn stock(target: &ScanTarget<'_>) -> Stock {
    match target.listing {
        Some(listing) => Stock { chunks: listing.stored.len(), bytes: listing.bytes_stored },
        None => {
            let chunks = target.array.metadata.grid.total().unwrap_or(0).min(UNLISTED_MOST);
            let bytes = target.array.metadata.chunk_decoded_bytes().unwrap_or(1 << 20);
            Stock { chunks, bytes: chunks.saturating_mul(bytes) }
        }
    }
}

/// Puts together what is known of one array.
fn finished(
    prepared: std::result::Result<Prepared<'_>, Skipped>,
    target: &ScanTarget<'_>,
    stand_in: Option<StandIn>,
) -> ArrayValues {
    let grid = &target.array.metadata.grid;
    let elements = product(grid.shape()).unwrap_or(u64::MAX);
    let (chunks_stored, elements_absent) = match target.listing {
        Some(listing) if grid.total() == Some(listing.stored.len()) => (listing.stored.len(), 0),
        Some(listing) => {
            let stored = elements_of(grid, listing.stored.iter());
            (listing.stored.len(), elements.saturating_sub(stored))
        }
        None => (0, 0),
    };
    let whole = Whole {
        scanner: None,
        fill: None,
        chunks_stored,
        elements,
        elements_absent,
        grid: super::gather::UnitGrid::Stored,
        counts: grid.counts().to_vec(),
        stand_in,
        skipped: None,
    };
    match prepared {
        Ok(prepared) => {
            let (unit_grid, counts) = prepared.unit_grid();
            let (scanner, fill) = (prepared.scanner.as_ref(), prepared.fill.as_deref());
            let unlisted = target.listing.is_none() && grid.total().is_none_or(|total| total > UNLISTED_MOST);
            let why = || "its chunks cannot be listed, and are too many to ask for".to_owned();
            let skipped = unlisted.then(|| Skipped::Unlisted(why()));
            prepared.gather.finish(Whole { scanner, fill, grid: unit_grid, counts, skipped, ..whole })
        }
        // where nothing is stored, nothing was left out
        Err(Skipped::OverBudget(_)) if target.listing.is_some_and(|listing| listing.stored.is_empty()) => {
            ArrayValues::skipped(whole)
        }
        Err(why) => ArrayValues::skipped(Whole { skipped: Some(why), ..whole }),
    }
}
