//! Decodes a sample of chunks on one core, and estimates how long all of them take.

use std::time::{Duration, Instant};

use anyhow::Result;
use zkit_core::codec::{Chain, Scratch};
use zkit_core::engine::StoredChunk;
use zkit_core::error::{Error, ErrorKind};
use zkit_core::store::Store;

use crate::Run;
use crate::facts::ArrayFacts;

/// Chunks of one array that are decoded, at most.
pub(crate) const SAMPLE_MOST: usize = 32;
/// Time for one array, and for all of them.
const ARRAY_TIME: Duration = Duration::from_millis(1_500);
const WHOLE_TIME: Duration = Duration::from_secs(20);

/// What decoding a sample showed.
pub(crate) struct Probe {
    /// The arrays that were probed, the largest first.
    pub(crate) arrays: Vec<Probed>,
    /// Decoded bytes of all stored chunks of these arrays.
    pub(crate) bytes_decoded: u64,
    /// Time that one core needs to decode them.
    pub(crate) core_seconds: f64,
    /// (workers, seconds to decode everything).
    pub(crate) estimates: Vec<(u64, f64)>,
    /// Arrays for which the time did not suffice.
    pub(crate) left_out: u64,
}

/// What was measured of one array.
pub(crate) struct Probed {
    pub(crate) path: String,
    /// Chunks decoded.
    pub(crate) chunks: u64,
    pub(crate) decoded_bytes: u64,
    pub(crate) stored_bytes: u64,
    pub(crate) time: Duration,
    /// Why there are no more chunks.
    pub(crate) error: Option<String>,
}

impl Probed {
    /// Returns decoded bytes a second of one core.
    pub(crate) fn decoded_rate(&self) -> Option<f64> {
        rate(self.decoded_bytes, self.time)
    }

    /// Returns stored bytes a second of one core.
    pub(crate) fn stored_rate(&self) -> Option<f64> {
        rate(self.stored_bytes, self.time)
    }
}

fn rate(bytes: u64, time: Duration) -> Option<f64> {
    (bytes > 0 && !time.is_zero()).then(|| bytes as f64 / time.as_secs_f64())
}

/// What there is to decode of one array, and how fast that went.
#[derive(Debug, Clone, Copy)]
struct Work {
    seconds: f64,
    chunks: u64,
    lanes: u64,
}

/// Decodes a sample of the chunks of each array on the calling thread; chunks beyond `memory_bytes` are left out.
pub(crate) fn probe(
    store: &Store,
    arrays: &[ArrayFacts<'_>],
    workers: &[u64],
    memory_bytes: u64,
    run: &Run<'_>,
) -> Result<Probe> {
    let mut largest: Vec<&ArrayFacts<'_>> =
        arrays.iter().filter(|array| array.chunks_stored() > Some(0)).collect();
    largest.sort_by_key(|array| std::cmp::Reverse(array.bytes_stored()));
    let mut result =
        Probe { arrays: Vec::new(), bytes_decoded: 0, core_seconds: 0.0, estimates: Vec::new(), left_out: 0 };
    let (started, mut work) = (Instant::now(), Vec::new());
    for array in largest {
        run.cancel.check()?;
        if started.elapsed() > WHOLE_TIME {
            result.left_out += 1;
            continue;
        }
        let probed = probe_array(store, array, memory_bytes, run);
        if let (Some(rate), Some(bytes)) = (probed.stored_rate(), array.bytes_stored()) {
            let seconds = bytes as f64 / rate;
            result.core_seconds += seconds;
            result.bytes_decoded =
                result.bytes_decoded.saturating_add(array.decoded_bytes_of_stored().unwrap_or(0));
            let chunks = array.decodable_chunks().unwrap_or(1).max(1);
            work.push(Work {
                seconds,
                chunks,
                lanes: array.lanes().map_or(chunks, |lanes| lanes.whole_array),
            });
        }
        result.arrays.push(probed);
    }
    result.estimates = workers.iter().map(|&workers| (workers, estimate(&work, workers))).collect();
    Ok(result)
}

/// Returns the seconds that `workers` need: they share all lanes, but one chunk takes as long as its lanes allow.
fn estimate(work: &[Work], workers: u64) -> f64 {
    let total: f64 = work.iter().map(|work| work.seconds).sum();
    let lanes = work.iter().map(|work| work.lanes).fold(0, u64::saturating_add);
    let shared = total / workers.min(lanes).max(1) as f64;
    let longest_chunk = work.iter().map(|work| {
        let per_chunk = (work.lanes / work.chunks.max(1)).max(1).min(workers);
        work.seconds / work.chunks.max(1) as f64 / per_chunk as f64
    });
    longest_chunk.fold(shared, f64::max)
}

fn probe_array(store: &Store, array: &ArrayFacts<'_>, memory_bytes: u64, run: &Run<'_>) -> Probed {
    let mut probed = Probed {
        path: array.node.path.clone(),
        chunks: 0,
        decoded_bytes: 0,
        stored_bytes: 0,
        time: Duration::ZERO,
        error: None,
    };
    let sample = array.listing().map_or(&[][..], |listing| &listing.sample);
    let (started, mut decoder) = (Instant::now(), Decoder::default());
    for chunk in scattered(sample, SAMPLE_MOST) {
        if started.elapsed() > ARRAY_TIME || run.cancel.is_cancelled() {
            break;
        }
        match decoder.decode(store, array, chunk, memory_bytes) {
            Ok(Some((decoded_bytes, time))) => {
                probed.chunks += 1;
                probed.decoded_bytes += decoded_bytes;
                probed.stored_bytes += chunk.bytes;
                probed.time += time;
                run.observer.meter().bytes_read.add(chunk.bytes);
                run.observer.meter().bytes_decoded.add(decoded_bytes);
            }
            Ok(None) => {}
            Err(error) => {
                probed.error.get_or_insert(error.one_line());
            }
        }
    }
    probed
}

/// Returns at most `most` of the chunks, from all over the grid.
fn scattered(sample: &[StoredChunk], most: usize) -> impl Iterator<Item = &StoredChunk> {
    sample.iter().step_by(sample.len().div_ceil(most).max(1))
}

/// Buffers that live as long as the probe of one array.
#[derive(Default)]
struct Decoder {
    scratch: Scratch,
    encoded: Vec<u8>,
    decoded: Vec<u8>,
}

impl Decoder {
    /// Reads and decodes one chunk; returns its decoded bytes and the time of the decoding alone.
    fn decode(
        &mut self,
        store: &Store,
        array: &ArrayFacts<'_>,
        chunk: &StoredChunk,
        memory_bytes: u64,
    ) -> zkit_core::error::Result<Option<(u64, Duration)>> {
        let metadata = array.metadata();
        let index = metadata.grid.index_at(chunk.position);
        let mut key = String::new();
        array.node.chunk_key(&index, &mut key);
        let failed = |error| {
            Error::new(ErrorKind::Corrupt, format!("could not decode chunk `{key}`")).with_source(error)
        };
        let chain = Chain::compile(metadata, &metadata.grid.chunk_shape(&index)).map_err(failed)?;
        let decoded_bytes = chain.decoded_bytes().map_or(0, |bytes| bytes as u64);
        if decoded_bytes.saturating_add(chunk.bytes) > memory_bytes {
            let message = format!("could not decode chunk `{key}` within the memory for this run");
            return Err(Error::new(ErrorKind::OverBudget, message).with_hint("raise --memory"));
        }
        if !store.get(&key, memory_bytes, &mut self.encoded)? {
            return Ok(None);
        }
        if let Some(bytes) = chain.decoded_bytes() {
            self.decoded.resize(bytes, 0);
            let started = Instant::now();
            chain.decode_into(&mut self.scratch, &self.encoded, &mut self.decoded).map_err(failed)?;
            return Ok(Some((decoded_bytes, started.elapsed())));
        }
        let started = Instant::now();
        let elements =
            chain.decode_variable(&mut self.scratch, &self.encoded, memory_bytes).map_err(failed)?;
        let bytes = elements.iter().map(|element| element.len() as u64).sum();
        Ok(Some((bytes, started.elapsed())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_help_as_far_as_there_are_lanes() {
        let close =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
        let many = Work { seconds: 96.0, chunks: 9_600, lanes: 9_600 };
        close(estimate(&[many], 1), 96.0);
        close(estimate(&[many], 96), 1.0);
        let single = Work { seconds: 8.0, chunks: 2, lanes: 2 };
        close(estimate(&[single], 96), 4.0);
        close(estimate(&[single, many], 96), 4.0);
        close(estimate(&[Work { lanes: 32, ..single }], 96), 0.25);
        close(estimate(&[], 8), 0.0);
    }

    #[test]
    fn a_sample_is_taken_from_all_over_the_grid() {
        let chunks: Vec<StoredChunk> = (0..100).map(|position| StoredChunk { position, bytes: 1 }).collect();
        let taken: Vec<u64> = scattered(&chunks, 4).map(|chunk| chunk.position).collect();
        assert_eq!(taken, [0, 25, 50, 75]);
        assert_eq!(scattered(&[], 4).count(), 0);
    }
}
