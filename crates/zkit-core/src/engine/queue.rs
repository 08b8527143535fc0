//! Who does what next: one queue over all units of a run, within one pool of memory.
//!
//! Threads take units, the largest first; of units that do not fit what is left of the pool smaller ones are taken.
//! A box is worked on by every thread that is free: first its cells are filled, then its chunks are encoded. The lock
//! is taken when a thread turns to another unit or stage, never for a chunk.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::boxes::OpenBox;
use super::fetch::Fetched;
use crate::plan::Unit;

/// What a thread does next.
pub(super) enum Work<'a> {
    /// A whole unit, alone; with its objects where they were fetched.
    Alone(&'a Unit, Option<Fetched>),
    /// Cells of a box.
    Fill(Arc<OpenBox<'a>>, Range<usize>),
    /// Chunks of a box that is filled.
    Encode(Arc<OpenBox<'a>>, Range<usize>),
}

/// Units of one array that were not taken yet.
struct Line {
    units: Range<usize>,
    memory_bytes: u64,
}

/// What lies before the threads of a run.
pub(super) struct Queue<'a> {
    units: &'a [Unit],
    state: Mutex<State<'a>>,
    wake: Condvar,
    /// Units that may wait for a worker after they were fetched.
    most_ready: usize,
}

struct State<'a> {
    lines: VecDeque<Line>,
    pool_bytes: u64,
    /// Bytes of the pool that units in hand hold.
    held_bytes: u64,
    open: Vec<Arc<OpenBox<'a>>>,
    ready: VecDeque<(&'a Unit, Fetched)>,
    /// Units that are taken and not finished.
    in_hand: usize,
    stopped: bool,
    buffers: Vec<Vec<u8>>,
}

impl<'a> Queue<'a> {
    /// Returns a queue over `units`, in runs of one array each; `memory_bytes` says what a unit of an array takes.
    pub(super) fn new(
        units: &'a [Unit],
        pool_bytes: u64,
        most_ready: usize,
        memory_bytes: impl Fn(&Unit) -> u64,
    ) -> Self {
        let mut lines: VecDeque<Line> = VecDeque::new();
        for (at, unit) in units.iter().enumerate() {
            match lines.back_mut() {
                Some(line) if units[line.units.start].array == unit.array => line.units.end = at + 1,
                _ => lines.push_back(Line { units: at..at + 1, memory_bytes: memory_bytes(unit) }),
            }
        }
        let state = State {
            lines,
            pool_bytes,
            held_bytes: 0,
            open: Vec::new(),
            ready: VecDeque::new(),
            in_hand: 0,
            stopped: false,
            buffers: Vec::new(),
        };
        Self { units, state: Mutex::new(state), wake: Condvar::new(), most_ready }
    }

    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a worker does next, waiting for it if need be; `None` when nothing is left.
    ///
    /// `open` makes a box of a unit, with a buffer that a finished one left.
    pub(super) fn next(
        &self,
        takes_units: bool,
        open: impl Fn(&'a Unit, Vec<u8>) -> Option<OpenBox<'a>>,
    ) -> Option<Work<'a>> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(work) = state.started_work() {
                return Some(work);
            }
            if let Some((unit, fetched)) = state.ready.pop_front() {
                self.wake.notify_all();
                return Some(Work::Alone(unit, Some(fetched)));
            }
            if takes_units && let Some(unit) = state.take(self.units) {
                let buffer = state.buffers.pop().unwrap_or_default();
                match open(unit, buffer) {
                    Some(open) => state.open.push(Arc::new(open)),
                    None => return Some(Work::Alone(unit, None)),
                }
                // others can help with it
                self.wake.notify_all();
                continue;
            }
            if state.lines.is_empty() && state.in_hand == 0 {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns a unit to fetch, waiting for memory if need be; `None` when none is left.
    pub(super) fn next_to_fetch(&self) -> Option<&'a Unit> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.lines.is_empty() {
                return None;
            }
            if state.ready.len() < self.most_ready
                && let Some(unit) = state.take(self.units)
            {
                return Some(unit);
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Hands over a unit that was fetched.
    pub(super) fn fetched(
        &self,
        unit: &'a Unit,
        fetched: Fetched,
        open: impl Fn(&'a Unit, Vec<u8>, Fetched) -> Result<OpenBox<'a>, Fetched>,
    ) {
        let mut state = self.lock();
        let buffer = state.buffers.pop().unwrap_or_default();
        match open(unit, buffer, fetched) {
            Ok(open) => state.open.push(Arc::new(open)),
            Err(fetched) => state.ready.push_back((unit, fetched)),
        }
        self.wake.notify_all();
    }

    /// Says that all cells of a box were filled.
    pub(super) fn filled(&self) {
        // the lock, so that no thread that is about to wait misses it
        let _state = self.lock();
        self.wake.notify_all();
    }

    /// Says that a unit is finished, and gives its memory back.
    pub(super) fn finished(&self, memory_bytes: u64) {
        let mut state = self.lock();
        state.in_hand -= 1;
        state.held_bytes = state.held_bytes.saturating_sub(memory_bytes);
        self.wake.notify_all();
    }

    /// Takes a finished box away.
    pub(super) fn close(&self, done: &Arc<OpenBox<'a>>) {
        self.lock().open.retain(|open| !Arc::ptr_eq(open, done));
    }

    /// Keeps a buffer for the next box.
    pub(super) fn recycle(&self, buffer: Vec<u8>) {
        let mut state = self.lock();
        // more than two are never of use at once in a run that is short of memory
        if state.buffers.len() < 2 {
            state.buffers.push(buffer);
        }
    }

    /// Gives back the buffers that were kept for further boxes.
    pub(super) fn release_buffers(&self) {
        self.lock().buffers = Vec::new();
    }

    /// Lets every thread end.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.wake.notify_all();
    }
}

impl<'a> State<'a> {
    /// Returns work on a box that is open: what is nearer its end first.
    fn started_work(&self) -> Option<Work<'a>> {
        let encode = self
            .open
            .iter()
            .find_map(|open| open.take_chunks().map(|chunks| Work::Encode(Arc::clone(open), chunks)));
        encode.or_else(|| {
            self.open
                .iter()
                .find_map(|open| open.take_cells().map(|cells| Work::Fill(Arc::clone(open), cells)))
        })
    }

    /// Takes the first unit that fits what is left of the pool.
    fn take(&mut self, units: &'a [Unit]) -> Option<&'a Unit> {
        let left = self.pool_bytes.saturating_sub(self.held_bytes);
        let fitting = self.lines.iter().position(|line| line.memory_bytes <= left);
        // a plan has no unit that does not fit an empty pool; better to try than to wait for ever
        let at = fitting.or((self.in_hand == 0 && !self.lines.is_empty()).then_some(0))?;
        let line = &mut self.lines[at];
        let unit = &units[line.units.start];
        self.held_bytes = self.held_bytes.saturating_add(line.memory_bytes);
        line.units.start += 1;
        if line.units.is_empty() {
            self.lines.remove(at);
        }
        self.in_hand += 1;
        Some(unit)
    }
}
