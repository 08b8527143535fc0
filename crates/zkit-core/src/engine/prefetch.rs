//! Files that the system is asked for before threads read them, so that disks work while threads decode.
//!
//! One thread goes over what a run will read, in its order and some way ahead of the others, and asks for what is not in
//! the page cache. Where everything is, it looks at one object in many: a run over a warm source pays nothing for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::hierarchy::ArrayNode;
use crate::store::{Prefetched, Store};
use crate::units::saturating_usize;

/// Bytes that are asked for ahead of the threads that read, for each of them and at least.
const AHEAD_BYTES: u64 = 4 << 20;
const AHEAD_LEAST: u64 = 32 << 20;
/// Objects that are asked for ahead, for each thread and at least.
const AHEAD_OBJECTS: usize = 32;
const AHEAD_OBJECTS_LEAST: usize = 256;
/// After so many objects in a row that were in the page cache only one in so many is looked at.
const CACHED_IN_A_ROW: u32 = 64;
const LOOKED_AT_ONE_IN: u64 = 64;
/// How long the thread sleeps when it is far enough ahead.
const PAUSE: Duration = Duration::from_millis(2);

/// An object that will be read as a whole.
#[derive(Clone, Copy)]
pub(super) struct Upcoming<'a> {
    pub(super) store: &'a Store,
    pub(super) array: &'a ArrayNode,
    /// C-order position of the chunk.
    pub(super) position: u64,
}

/// How far the threads of a run are.
#[derive(Debug, Default)]
pub(super) struct Prefetch {
    /// Objects that they began to read.
    begun: AtomicU64,
    over: AtomicBool,
}

/// Ends the thread that asks for objects, also where those that read them panic.
pub(super) struct EndOfReads<'a>(pub(super) &'a Prefetch);

impl Drop for EndOfReads<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

impl Prefetch {
    /// Says that a thread begins to read the next object.
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Asks for objects ahead of `jobs` threads, until nothing is left or they have ended, see [`EndOfReads`].
    ///
    /// What comes next is roughly known: a wrong order costs time, and nothing else.
    pub(super) fn run<'a>(&self, mut upcoming: impl Iterator<Item = Upcoming<'a>>, jobs: usize) {
        let most_bytes = AHEAD_LEAST.max(AHEAD_BYTES * jobs as u64);
        let most_objects = AHEAD_OBJECTS_LEAST.max(AHEAD_OBJECTS * jobs);
        let (mut passed, mut cached_in_a_row, mut bytes) = (0u64, 0u32, 0u64);
        // of the objects before `passed` that nobody began to read
        let (mut ahead, mut ahead_bytes) = (VecDeque::new(), 0u64);
        let mut key = String::new();
        while !self.over.load(Ordering::Relaxed) {
            let begun = self.begun.load(Ordering::Relaxed);
            while passed - (ahead.len() as u64) < begun
                && let Some(read) = ahead.pop_front()
            {
                ahead_bytes -= read;
            }
            if let Some(late) = begun.checked_sub(passed + 1) {
                if upcoming.nth(saturating_usize(late)).is_none() {
                    return;
                }
                passed = begun;
            }
            if ahead_bytes >= most_bytes || ahead.len() >= most_objects {
                std::thread::park_timeout(PAUSE);
                continue;
            }
            let Some(next) = upcoming.next() else { return };
            passed += 1;
            if cached_in_a_row < CACHED_IN_A_ROW || passed.is_multiple_of(LOOKED_AT_ONE_IN) {
                next.array.chunk_key(&next.array.metadata.grid.index_at(next.position), &mut key);
                let found = next.store.prefetch(&key);
                bytes = found.map_or(bytes, |found| found.bytes);
                cached_in_a_row = match found {
                    Some(Prefetched { is_cached: false, .. }) => 0,
                    // nor is there anything to ask for where there is no file
                    _ => cached_in_a_row.saturating_add(1),
                };
            }
            ahead.push_back(bytes);
            ahead_bytes = ahead_bytes.saturating_add(bytes);
        }
    }
}
