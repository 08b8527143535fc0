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
    pub(super) fn run<'a>(&self, upcoming: impl Iterator<Item = Upcoming<'a>>, jobs: usize) {
        let mut key = String::new();
        self.go_over(upcoming, jobs, |next| {
            next.array.chunk_key(&next.array.metadata.grid.index_at(next.position), &mut key);
            next.store.prefetch(&key)
        });
    }

    fn go_over<T>(
        &self,
        mut upcoming: impl Iterator<Item = T>,
        jobs: usize,
        mut ask: impl FnMut(T) -> Option<Prefetched>,
    ) {
        let most_bytes = AHEAD_LEAST.max(AHEAD_BYTES * jobs as u64);
        let most_objects = AHEAD_OBJECTS_LEAST.max(AHEAD_OBJECTS * jobs);
        let (mut passed, mut cached_in_a_row, mut bytes) = (0u64, 0u32, 0u64);
        // of the objects before `passed` that nobody began to read
        let (mut ahead, mut ahead_bytes) = (VecDeque::new(), 0u64);
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
                let found = ask(next);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked for of `count` objects of so many bytes, where `begun` say how many were begun when one is asked for.
    fn asked_for(
        count: u64,
        bytes: u64,
        cached: impl Fn(u64) -> bool,
        begun: impl Fn(u64) -> u64,
    ) -> Vec<u64> {
        let prefetch = Prefetch::default();
        let mut asked = Vec::new();
        prefetch.go_over(0..count, 2, |at| {
            asked.push(at);
            prefetch.begun.fetch_max(begun(at), Ordering::Relaxed);
            Some(Prefetched { bytes, is_cached: cached(at) })
        });
        asked
    }

    #[test]
    fn every_object_of_a_cold_source_is_asked_for() {
        let asked = asked_for(1000, 1 << 20, |_| false, |at| at.saturating_sub(5));
        assert_eq!(asked, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn of_a_warm_source_few_are_looked_at_until_one_is_cold() {
        let asked = asked_for(100_000, 1, |_| true, |at| at);
        assert!(asked.len() < 2000, "{}", asked.len());
        let asked = asked_for(100_000, 1, |at| at < 50_000, |at| at);
        assert!((50_000..51_900).contains(&asked.len()), "{}", asked.len());
    }

    #[test]
    fn what_threads_began_before_it_was_asked_for_is_passed_over() {
        assert_eq!(asked_for(100, 1, |_| false, |at| if at == 2 { 50 } else { 0 })[..5], [0, 1, 2, 50, 51]);
        assert_eq!(asked_for(100, 1, |_| false, |at| at + 200), [0]);
    }

    #[test]
    fn it_stays_within_bounds_ahead_of_the_threads_and_ends_with_them() {
        let prefetch = Prefetch::default();
        let asked = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let end = EndOfReads(&prefetch);
            scope.spawn(|| {
                prefetch.go_over(0..1_000_000u64, 2, |_| {
                    asked.fetch_add(1, Ordering::Relaxed);
                    Some(Prefetched { bytes: 1 << 20, is_cached: false })
                });
            });
            let settled = |least: u64| {
                while asked.load(Ordering::Relaxed) < least {
                    std::thread::yield_now();
                }
                std::thread::sleep(10 * PAUSE);
                asked.load(Ordering::Relaxed)
            };
            assert_eq!(settled(32), 32);
            (0..10).for_each(|_| prefetch.begin());
            assert_eq!(settled(42), 42);
            drop(end);
        });
    }
}
