//! What a plan will cost, from a few of its chunks: nothing is written.

use std::time::{Duration, Instant};

use super::copy::recoder;
use crate::cancel::Cancel;
use crate::error::Result;
use crate::plan::{CopyPlan, Cover, Strategy};
use crate::read::{codec_error, with_scratch};
use crate::store::Store;

/// Chunks that are recoded for an estimate, at most.
const SAMPLE_MOST: usize = 16;

/// What a run will write and take, extrapolated from a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Chunks that were read and recoded for it.
    pub sampled_chunks: u64,
    /// Bytes of all encoded chunks.
    pub bytes_encoded: u64,
    /// Time for reading, decoding and encoding on all threads of the plan; writing and verifying come on top.
    pub time: Duration,
}

/// Estimates what a plan writes and takes by recoding some of its chunks, spread over the largest units first.
///
/// `None` where there is nothing to sample: no stored chunks, or none that are encoded anew.
pub fn estimate_copy(plan: &CopyPlan, source: &Store, cancel: &Cancel) -> Result<Option<Estimate>> {
    let recoded: Vec<_> =
        plan.units.iter().filter(|unit| plan.arrays[unit.array].strategy == Strategy::Recode).collect();
    let step = recoded.len().div_ceil(SAMPLE_MOST).max(1);
    let (mut read, mut encoded, mut time, mut chunks) = (0u64, 0u64, Duration::ZERO, 0u64);
    for unit in recoded.into_iter().step_by(step) {
        cancel.check()?;
        let array = &plan.arrays[unit.array];
        let Cover::Chunks(covered) = &unit.cover else { continue };
        let Some(position) = array.stored.range(covered.clone()).next() else { continue };
        let chunk_index = array.source.metadata.grid.index_at(position);
        let mut key = String::new();
        array.source.chunk_key(&chunk_index, &mut key);
        let recoder = recoder(array, &array.source.metadata.grid.chunk_shape(&chunk_index))?;
        with_scratch(|scratch, bytes, out| {
            let started = Instant::now();
            if source.get(&key, array.largest_bytes.saturating_mul(2), bytes)? {
                recoder.recode(scratch, bytes, u64::MAX, out).map_err(codec_error)?;
                read += bytes.len() as u64;
                encoded += out.len() as u64;
                time += started.elapsed();
                chunks += 1;
            }
            Ok::<_, crate::error::Error>(())
        })
        .map_err(|error| {
            error.context(format!("could not sample chunk `{key}` of `{}`", array.source.path))
        })?;
    }
    if read == 0 {
        return Ok(None);
    }
    let of = |strategy| {
        plan.arrays.iter().filter(move |array| array.strategy == strategy).map(|array| array.stored_bytes)
    };
    let to_recode: u64 = of(Strategy::Recode).sum();
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let factor = to_recode as f64 / read as f64;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, of positive numbers"
    )]
    let bytes_encoded = (encoded as f64 * factor) as u64 + of(Strategy::CopyBytes).sum::<u64>();
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let threads = plan.jobs.min(plan.units.len()).max(1) as f64;
    Ok(Some(Estimate { sampled_chunks: chunks, bytes_encoded, time: time.mul_f64(factor / threads) }))
}
