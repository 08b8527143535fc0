//! Many arrays side by side within one memory budget: small ones in parallel, huge chunks alone.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, ErrorKind, Result};
use crate::read::release_scratch;
use crate::units::saturating_usize;

/// Quarters of a slab in memory at once: a slab that is visited, one that is filled, and its parts on their way.
const SLAB_QUARTERS_ALIVE: u64 = 9;

/// Parts of the budget of which each driver's items get an equal share.
const ITEM_SHARES: u64 = 6;

/// Parts of the budget of which the threads of a shared pool get one: slabs take most of the others.
const THREAD_SHARES: u64 = 2;

/// How much a run may take.
#[derive(Debug, Clone, Copy)]
pub struct Resources {
    /// Bytes of memory for chunks, slabs and codecs.
    pub memory_bytes: u64,
    /// Worker threads.
    pub jobs: usize,
}

/// What working on one item takes, as far as metadata tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Footprint {
    /// Decoded bytes of the largest chunk.
    pub(super) chunk_bytes: u64,
    /// What a decoding thread holds of it at once.
    pub(super) thread_bytes: u64,
    /// Decoded bytes of all of the item.
    pub(super) item_bytes: u64,
}

impl Footprint {
    /// A chunk that is held encoded, decoded and, for parts, once more.
    pub(super) fn whole(chunk_bytes: u64, item_bytes: u64) -> Self {
        Self::through(1, chunk_bytes, item_bytes)
    }

    /// A chunk that is decoded through so many buffers: it is held encoded, in these, and decoded.
    pub(super) fn through(buffers: usize, chunk_bytes: u64, item_bytes: u64) -> Self {
        let copies = 2 + buffers.max(1) as u64;
        // what does not compress is a little larger encoded
        let thread_bytes = chunk_bytes.saturating_mul(copies).saturating_add(chunk_bytes / 16);
        Self { chunk_bytes, thread_bytes, item_bytes }
    }

    /// What two items take, one after the other.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            chunk_bytes: self.chunk_bytes.max(other.chunk_bytes),
            thread_bytes: self.thread_bytes.max(other.thread_bytes),
            item_bytes: self.item_bytes.max(other.item_bytes),
        }
    }

    /// A chunk of which only parts are decoded: it is held encoded, with a little of what it decodes to.
    pub(super) fn in_parts(chunk_bytes: u64, item_bytes: u64) -> Self {
        Self { chunk_bytes, thread_bytes: chunk_bytes.saturating_add(chunk_bytes / 4), item_bytes }
    }
}

/// What one array may take while it is worked on.
pub(super) struct Lane<'a> {
    pub(super) pool: &'a rayon::ThreadPool,
    /// Bytes of one slab; more than two may be alive at once.
    pub(super) slab_bytes: u64,
    /// Bytes that a thread may take for one chunk: encoded, decoded, and between.
    pub(super) chunk_bytes: u64,
}

/// Runs `work` on every item; results are in the order of `items`.
///
/// Items whose chunks are small share the pool, one plain thread each up to the number of
/// jobs; where items wait for a network, up to `in_flight`, as far as memory holds so many of them whole. The others run one
/// by one afterwards, on as many threads as their chunks leave room for.
pub(super) fn run<T: Sync, R: Send>(
    items: &[T],
    (resources, in_flight): (Resources, usize),
    footprint: impl Fn(&T) -> Footprint,
    work: impl Fn(&T, &Lane<'_>) -> R + Sync,
) -> Result<Vec<R>> {
    let jobs = resources.jobs.max(1);
    let chunk_bytes = |item: &T| footprint(item).chunk_bytes;
    let of_a_thread = resources.memory_bytes / (THREAD_SHARES * jobs as u64);
    let (mut shared, alone): (Vec<usize>, Vec<usize>) = (0..items.len()).partition(|&at| {
        let footprint = footprint(&items[at]);
        footprint.chunk_bytes <= of_a_thread / 4 && footprint.thread_bytes <= of_a_thread
    });
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let store = |at: usize, result: R| {
        if let Ok(mut slot) = results[at].lock() {
            *slot = Some(result);
        }
    };
    if !shared.is_empty() {
        let pool = pool(jobs)?;
        // the largest first, so that no long one is left for the end
        shared.sort_by_key(|&at| std::cmp::Reverse(chunk_bytes(&items[at])));
        let drivers = |&at: &usize| {
            let fitting = resources.memory_bytes / ITEM_SHARES / footprint(&items[at]).item_bytes.max(1);
            // in powers of two: items that are about as large run together
            let fitting = saturating_usize(fitting).checked_ilog2().map_or(1, |power| 1 << power);
            fitting.min(in_flight).max(jobs)
        };
        let mut tiers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        shared.iter().for_each(|at| tiers.entry(drivers(at)).or_default().push(*at));
        for (drivers, tier) in tiers {
            let drivers = drivers.min(tier.len());
            let lane = Lane {
                pool: &pool,
                slab_bytes: resources.memory_bytes / (ITEM_SHARES * drivers as u64),
                chunk_bytes: of_a_thread,
            };
            let cursor = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..drivers {
                    scope.spawn(|| {
                        while let Some(&at) = tier.get(cursor.fetch_add(1, Ordering::Relaxed)) {
                            store(at, work(&items[at], &lane));
                        }
                    });
                }
            });
        }
    }
    let mut threads_of_last: Option<(usize, rayon::ThreadPool)> = None;
    for at in alone {
        let thread_bytes = footprint(&items[at]).thread_bytes.max(1);
        let threads =
            usize::try_from(resources.memory_bytes / 2 / thread_bytes).unwrap_or(jobs).clamp(1, jobs);
        let (_, pool) = match threads_of_last.take().filter(|(count, _)| *count == threads) {
            Some(last) => threads_of_last.insert(last),
            None => threads_of_last.insert((threads, pool(threads)?)),
        };
        // what threads leave is for slabs: the fewer there are, the less is decoded again for each
        let left = resources.memory_bytes.saturating_sub(thread_bytes.saturating_mul(threads as u64));
        let slab_bytes = (left / SLAB_QUARTERS_ALIVE * 4).max(resources.memory_bytes / 16);
        let slabs = slab_bytes / 4 * SLAB_QUARTERS_ALIVE;
        let chunk_bytes = resources.memory_bytes.saturating_sub(slabs) / threads as u64;
        store(at, work(&items[at], &Lane { pool, slab_bytes, chunk_bytes }));
        // what one item took must not lie beside what the next one takes, and threads end later than their pool
        pool.broadcast(|_| release_scratch());
    }
    let results = results.into_iter().map(|slot| slot.into_inner().ok().flatten());
    results
        .collect::<Option<Vec<R>>>()
        .ok_or_else(|| Error::new(ErrorKind::Cancelled, "a worker thread stopped early"))
}

/// Returns a pool of threads that decode.
///
/// Errors: `OverBudget` where the machine gives no more threads.
pub fn pool(threads: usize) -> Result<rayon::ThreadPool> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|at| format!("zkit-{at}"));
    builder.build().map_err(|error| {
        Error::new(ErrorKind::OverBudget, format!("could not start {threads} worker threads"))
            .with_source(error)
    })
}
