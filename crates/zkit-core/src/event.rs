//! What long work tells its caller: counters that are always current, and few, coarse events.
//!
//! Workers add to a [`Meter`] with relaxed atomics, once a unit; a display reads it whenever it likes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One counter of a [`Meter`].
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Begins at 0 again, for another phase of a run.
    pub fn restart(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns the sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds a duration, in nanoseconds.
    pub fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the sum so far as seconds, where durations were added.
    pub fn seconds(&self) -> f64 {
        Duration::from_nanos(self.get()).as_secs_f64()
    }
}

/// Beats whenever a remote store answers, whatever it was asked; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// Says that something moved.
    pub fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often it did.
    pub fn beats(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What went over the network, of all remote stores of a run.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Requests that were sent, retries included.
    pub requests: Counter,
    /// Requests that failed in a way that is worth another try, and bodies that broke off.
    pub retries: Counter,
    /// Of these, requests that the server refused because there were too many: answers 429 and 503.
    pub throttled: Counter,
    /// Bytes of bodies that arrived.
    pub bytes_received: Counter,
    /// Reads of which nothing tells whether a bit has changed: they could not be compared with a checksum of the server, as it gives
    /// none or they are parts of objects, and no codec sums them up.
    pub unverifiable: Counter,
    /// Parts that were cut out of whole objects: the server ignores ranges.
    pub ranges_ignored: Counter,
}

/// Counts what a run has done; sums over all threads.
#[derive(Debug, Default)]
pub struct Meter {
    /// Arrays that this phase of the run has to do.
    pub arrays_total: Counter,
    /// Arrays of this phase that are done.
    pub arrays_done: Counter,
    /// Decoded bytes that the run has to do.
    pub decoded_bytes_total: Counter,
    /// Those of them that an earlier run has done, by their share of the chunks.
    pub decoded_bytes_resumed: Counter,
    /// Those of them that this run has finished: what was decoded more than once, or before, counts once.
    pub decoded_bytes_finished: Counter,
    /// Encoded bytes read from stores.
    pub bytes_read: Counter,
    /// Bytes after decoding.
    pub bytes_decoded: Counter,
    /// Bytes after encoding.
    pub bytes_encoded: Counter,
    /// Bytes written to stores.
    pub bytes_written: Counter,
    /// Bytes written to scratch space.
    pub scratch_bytes: Counter,
    /// Decoded bytes read back and compared.
    pub bytes_verified: Counter,
    /// Objects seen in listings.
    pub objects_listed: Counter,
    /// Objects (chunks, shards, metadata documents) written.
    pub objects_written: Counter,
    /// What went over the network.
    pub traffic: Arc<Traffic>,
    /// Time spent reading, summed over threads.
    pub read_time: Counter,
    /// Time spent decoding, summed over threads.
    pub decode_time: Counter,
    /// Time spent assembling regions, summed over threads.
    pub assemble_time: Counter,
    /// Time spent encoding, summed over threads.
    pub encode_time: Counter,
    /// Time spent writing, summed over threads.
    pub write_time: Counter,
    /// Time spent verifying, summed over threads.
    pub verify_time: Counter,
}

impl Meter {
    /// Returns a number that changes whenever something moves.
    pub fn activity(&self) -> u64 {
        let counters = [
            &self.arrays_done,
            &self.objects_listed,
            &self.bytes_read,
            &self.bytes_decoded,
            &self.bytes_encoded,
            &self.bytes_written,
            &self.bytes_verified,
            &self.scratch_bytes,
            &self.objects_written,
            &self.traffic.requests,
            &self.traffic.bytes_received,
        ];
        counters.iter().fold(0, |sum, counter| sum.wrapping_add(counter.get()))
    }
}

/// Something that a caller may want to show, at most a few an array.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A phase of the run begins: `planning`, `copying`, `verifying`, `publishing`.
    Phase(&'static str),
    /// Something that the user should know, and that does not stop the run.
    Warning(String),
}

/// Receives events while a run works; called from any thread.
pub trait Observer: Sync {
    /// Takes one event.
    fn event(&self, event: Event);
    /// Returns the meter that the run adds to.
    fn meter(&self) -> &Meter;
}

/// An observer that only counts: for tests and callers without a display.
#[derive(Debug, Default)]
pub struct Silent(pub Meter);

impl Observer for Silent {
    fn event(&self, _event: Event) {}
    fn meter(&self) -> &Meter {
        &self.0
    }
}
