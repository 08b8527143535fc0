//! What a plan will cost, from samples of its largest arrays: nothing is written.

use std::time::{Duration, Instant};

use super::choose::{SampleSource, sample_array};
use super::lanes;
use crate::cancel::Cancel;
use crate::codec::Chain;
use crate::error::{ErrorKind, Result};
use crate::event::Observer;
use crate::metadata::{ArrayMetadata, CodecSpec};
use crate::plan::{ArrayCopy, CopyPlan, Strategy};
use crate::read::{ReadContext, with_scratch};
use crate::store::Store;

/// Arrays that are sampled, the largest first.
const SAMPLED_ARRAYS: usize = 6;
/// Bytes that a chunk may decode to for a sample of it.
const SAMPLE_CHUNK_BYTES: u64 = 1 << 30;

/// What a run will write and take, extrapolated from samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Decoded bytes that were read and encoded for it.
    pub sampled_bytes: u64,
    /// Bytes of all encoded chunks.
    pub bytes_encoded: u64,
    /// Time for reading, decoding and encoding on all threads of the plan; writing and verifying come on top.
    pub time: Duration,
}

/// What one array's samples gave, for a decoded byte.
#[derive(Debug, Clone, Copy, Default)]
struct Rates {
    bytes: u64,
    encoded: u64,
    decode: Duration,
    encode: Duration,
}

/// Estimates what a plan writes and takes by reading pieces of its largest arrays and encoding them.
///
/// `None` where there is nothing to sample: no stored chunks, or none that are encoded anew.
pub fn estimate_copy(
    plan: &CopyPlan,
    sources: &[&Store],
    jobs: usize,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Option<Estimate>> {
    let mut by_size: Vec<&ArrayCopy> = plan.arrays.iter().filter(|array| is_encoded(array)).collect();
    by_size.sort_by_key(|array| std::cmp::Reverse(array.stored_bytes));
    // one thread: the rates are those of a core
    let pool = lanes::pool(1)?;
    let context = ReadContext { pool: &pool, cancel, meter: observer.meter() };
    let mut rates = Rates::default();
    for array in by_size.iter().take(SAMPLED_ARRAYS) {
        let source = SampleSource {
            store: sources[array.store],
            array: &array.source,
            stored: &array.stored,
            chunk_limit: SAMPLE_CHUNK_BYTES,
        };
        let started = Instant::now();
        let decoded_before = observer.meter().decode_time.get();
        let pieces = match sample_array(&source, &array.target.metadata.chunk_shape(), context) {
            Ok(pieces) => pieces,
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            // the copy finds, and names, what is wrong with it
            Err(_) => continue,
        };
        // parts of chunks were decoded: their time, with that of reading them, stands for whole ones
        let decode = Duration::from_nanos(observer.meter().decode_time.get() - decoded_before);
        rates.decode += decode.min(started.elapsed());
        for piece in pieces {
            let Ok(chain) = flat_chain(&array.target.metadata, piece.len()) else { continue };
            let started = Instant::now();
            let encoded =
                with_scratch(|scratch, _, out| chain.encode(scratch, &piece, out).map(|()| out.len() as u64));
            let Ok(encoded) = encoded else { continue };
            rates.encode += started.elapsed();
            rates.encoded += encoded;
            rates.bytes += piece.len() as u64;
        }
    }
    if rates.bytes == 0 {
        return Ok(None);
    }
    let decoded: u64 = by_size
        .iter()
        .map(|array| array.stored.len().saturating_mul(array.decoded_chunk_bytes()))
        .fold(0, u64::saturating_add);
    let copied: u64 = plan
        .arrays
        .iter()
        .filter(|array| array.strategy == Strategy::CopyBytes)
        .map(|array| array.stored_bytes)
        .sum();
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let (scale, threads) = (decoded as f64 / rates.bytes as f64, jobs.min(plan.jobs).max(1) as f64);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, of positive numbers"
    )]
    let bytes_encoded = (rates.encoded as f64 * scale) as u64 + copied;
    let time = (rates.decode + rates.encode).mul_f64(scale / threads);
    Ok(Some(Estimate { sampled_bytes: rates.bytes, bytes_encoded, time }))
}

fn is_encoded(array: &ArrayCopy) -> bool {
    array.strategy != Strategy::CopyBytes && !array.stored.is_empty()
}

/// Returns the codecs of (inner) chunks for a run of elements: what depends on shapes is left out.
fn flat_chain(
    metadata: &ArrayMetadata,
    bytes: usize,
) -> std::result::Result<Chain, crate::codec::CodecError> {
    let specs: &[CodecSpec] = metadata.sharding().map_or(&metadata.codecs, |sharding| &sharding.codecs);
    let flat: Vec<CodecSpec> =
        specs.iter().filter(|spec| !matches!(spec, CodecSpec::Transpose(_))).cloned().collect();
    let item = metadata.data_type.item_bytes().unwrap_or(1).max(1);
    Chain::from_specs(&flat, &metadata.data_type, &[bytes as u64 / item], &[])
}
