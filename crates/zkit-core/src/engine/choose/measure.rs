//! Encodes and decodes samples with several codecs at once, as the copy will, and looks at the clock.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::{Candidate, Trial};
use crate::codec::{Chain, CodecError, Scratch};
use crate::metadata::{DataType, TargetCodec};
use crate::units::saturating_usize;

/// Runs of trials that take not long, of which the fastest counts: the first one also grows buffers and warms caches.
const RUNS_LEAST: usize = 2;

/// Time after which even a trial's first run is enough.
const TIME_LONG: Duration = Duration::from_millis(60);

/// Runs of trials that are over in no time.
const RUNS_MOST: usize = 8;

/// Time after which a trial is not run again.
const TIME_ENOUGH: Duration = Duration::from_millis(12);

/// What codecs are tried on, and where.
pub(super) struct Bench<'a> {
    samples: Vec<&'a [u8]>,
    sampled_bytes: usize,
    pool: &'a rayon::ThreadPool,
}

impl<'a> Bench<'a> {
    /// Takes samples, cut to multiples of `group_bytes` (where they are larger): the end of a sample is not that of a
    /// chunk, whose last few words no bit shuffle moves.
    pub(super) fn new(samples: &'a [Vec<u8>], group_bytes: u64, pool: &'a rayon::ThreadPool) -> Self {
        let group = saturating_usize(group_bytes).max(1);
        let cut = |sample: &'a Vec<u8>| match sample.len() {
            len if len < group => sample.as_slice(),
            len => &sample[..len - len % group],
        };
        let samples: Vec<&[u8]> = samples.iter().map(cut).collect();
        Self { sampled_bytes: samples.iter().map(|sample| sample.len()).sum(), samples, pool }
    }

    /// Measures candidates (or no compression) side by side; those that cannot be used are left out.
    pub(super) fn measure(&self, candidates: &[Option<Candidate>]) -> Vec<Trial> {
        self.pool.install(|| {
            candidates
                .par_iter()
                .with_max_len(1)
                .map_init(|| Buffers::of(&self.samples), |buffers, &candidate| self.trial(buffers, candidate))
                .flatten_iter()
                .collect()
        })
    }

    fn trial(&self, buffers: &mut Buffers, candidate: Option<Candidate>) -> Option<Trial> {
        let specs: Vec<_> = candidate.into_iter().map(Candidate::spec).collect();
        let chains: Result<Vec<Chain>, CodecError> = self
            .samples
            .iter()
            .map(|sample| Chain::from_specs(&specs, &DataType::UInt(1), &[sample.len() as u64], None))
            .collect();
        let times = buffers.run_often(&chains.ok()?, &self.samples).ok()?;
        let encoded_bytes: usize = buffers.encoded.iter().map(Vec::len).sum();
        #[expect(clippy::cast_precision_loss, reason = "a speed")]
        let per_second = |time: Duration| self.sampled_bytes as f64 / time.as_secs_f64().max(1e-9);
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = self.sampled_bytes as f64 / encoded_bytes.max(1) as f64;
        Some(Trial {
            codec: candidate.map_or(TargetCodec::Uncompressed, Candidate::codec),
            ratio,
            encode_bytes_per_second: per_second(times.encode),
            decode_bytes_per_second: per_second(times.decode),
        })
    }
}

/// What the trials of one thread share.
struct Buffers {
    scratch: Scratch,
    encoded: Vec<Vec<u8>>,
    decoded: Vec<u8>,
}

impl Buffers {
    fn of(samples: &[&[u8]]) -> Self {
        let largest = samples.iter().map(|sample| sample.len()).max().unwrap_or(0);
        Self { scratch: Scratch::new(), encoded: vec![Vec::new(); samples.len()], decoded: vec![0; largest] }
    }

    /// Returns the least times of several runs over all samples.
    fn run_often(&mut self, chains: &[Chain], samples: &[&[u8]]) -> Result<Times, CodecError> {
        let started = Instant::now();
        let mut least = self.run(chains, samples)?;
        for run in 1..RUNS_MOST {
            let enough = if run < RUNS_LEAST { TIME_LONG } else { TIME_ENOUGH };
            if started.elapsed() >= enough {
                break;
            }
            let times = self.run(chains, samples)?;
            least = Times { encode: least.encode.min(times.encode), decode: least.decode.min(times.decode) };
        }
        Ok(least)
    }

    fn run(&mut self, chains: &[Chain], samples: &[&[u8]]) -> Result<Times, CodecError> {
        let started = Instant::now();
        for ((chain, sample), encoded) in chains.iter().zip(samples).zip(&mut self.encoded) {
            chain.encode(&mut self.scratch, sample, encoded)?;
        }
        let encode = started.elapsed();
        let started = Instant::now();
        for ((chain, sample), encoded) in chains.iter().zip(samples).zip(&self.encoded) {
            chain.decode_into(&mut self.scratch, encoded, &mut self.decoded[..sample.len()])?;
            black_box(&self.decoded);
        }
        Ok(Times { encode, decode: started.elapsed() })
    }
}

/// What one run took.
struct Times {
    encode: Duration,
    decode: Duration,
}
