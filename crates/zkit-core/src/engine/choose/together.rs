//! One codec for arrays that look alike.

use super::{Choice, Prefer, SampleSource, choose_codec, sample_array};
use crate::cancel::Cancel;
use crate::engine::lanes;
use crate::error::{ErrorKind, Result};
use crate::event::Meter;
use crate::grid::product;
use crate::read::ReadContext;

/// Arrays that are sampled, at most.
const ARRAYS_MOST: usize = 3;
/// Decoded bytes that are measured, at most, but for one piece.
const SAMPLES_MOST: usize = 3 << 20;
/// Of an array one in so many bytes is measured, at most: measuring must cost little beside the copy.
const ARRAY_SHARE: usize = 200;
/// What is measured of small arrays.
const SAMPLES_LEAST: usize = 256 << 10;

/// Chooses one codec for arrays of one data type by samples of the first few of them; each comes with the shape of the
/// copy's chunks.
///
/// Arrays that cannot be read give no samples: the copy finds, and names, what is wrong with them.
pub fn choose_together(
    arrays: &[(SampleSource<'_>, Vec<u64>)],
    prefer: Prefer,
    jobs: usize,
    cancel: &Cancel,
) -> Result<Choice> {
    let pool = lanes::pool(jobs)?;
    // what is read for a choice is no part of the copy
    let meter = Meter::default();
    let context =
        ReadContext { pool: &pool, cancel, meter: &meter, in_flight_bytes: ReadContext::IN_FLIGHT_BYTES };
    let mut pieces: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut chunk_bytes = 0;
    let mut decoded_bytes = 0u64;
    for (source, chunk_shape) in arrays {
        let item = source.array.metadata.data_type.item_bytes().unwrap_or(1);
        chunk_bytes = chunk_bytes.max(product(chunk_shape).unwrap_or(u64::MAX).saturating_mul(item));
        decoded_bytes = decoded_bytes.saturating_add(source.array.metadata.decoded_bytes().unwrap_or(0));
    }
    let sampled = std::thread::scope(|scope| {
        let sample =
            |(source, chunk_shape): &(SampleSource<'_>, Vec<u64>)| sample_array(source, chunk_shape, context);
        let threads: Vec<_> =
            arrays.iter().take(ARRAYS_MOST).map(|array| scope.spawn(move || sample(array))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|sampled| sampled.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    for ((source, _), sampled) in arrays.iter().zip(sampled) {
        match sampled {
            Ok(samples) => pieces.push(samples),
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(error) => {
                tracing::debug!(path = source.array.path, error = error.one_line(), "could not be sampled");
            }
        }
    }
    let most = crate::units::saturating_usize(decoded_bytes) / ARRAY_SHARE;
    let Some((first, _)) = arrays.first() else {
        return Ok(choose_codec(&[], &crate::metadata::DataType::Bool, 0, prefer, &pool));
    };
    let item = first.array.metadata.data_type.item_bytes().unwrap_or(1).max(1);
    let samples =
        in_turn(pieces, crate::units::saturating_usize(item), most.clamp(SAMPLES_LEAST, SAMPLES_MOST));
    Ok(choose_codec(&samples, &first.array.metadata.data_type, chunk_bytes, prefer, &pool))
}

/// Takes one piece of each array in turn until there are enough bytes; the last one is cut.
fn in_turn(pieces: Vec<Vec<Vec<u8>>>, item: usize, most: usize) -> Vec<Vec<u8>> {
    let longest = pieces.iter().map(Vec::len).max().unwrap_or(0);
    let mut left = most;
    let mut taken = Vec::new();
    for turn in 0..longest {
        for array in &pieces {
            let Some(piece) = array.get(turn).filter(|_| left > 0) else { continue };
            let length = piece.len().min((left / item).max(1) * item);
            taken.push(piece[..length].to_vec());
            left = left.saturating_sub(length);
        }
    }
    taken
}
