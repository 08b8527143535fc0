//! Chooses the compressor of an array by measuring samples of it.
//!
//! The yardstick is the *reference*: blosc, zstd, level 3, bit shuffle, c-blosc's own blocks. Against it stand other
//! levels, shuffles and block sizes (and lz4, and no compression), each of which encodes and decodes the samples. With
//! `size` the encoded bytes and `seconds` twice the encoding and once the decoding time, both for a decoded byte, the
//! choice is the codec of the least
//!
//! > `cost = seconds * size ^ power`
//!
//! among those that are no larger than `limit` times the reference and encode at no less than `floor`:
//!
//! | | power | limit | floor |
//! |---|---|---|---|
//! | [`Prefer::Speed`] | 0: time alone | 1.25 | |
//! | [`Prefer::Balanced`] | 3: a fifth smaller is worth twice the time | 1.005 | |
//! | [`Prefer::Size`] | 200: half a percent smaller is worth 2.7 times the time | 1.005 | 50 MB/s |
//!
//! Sizes above 0.98 count as 1, so that what hardly compresses is stored as it is, and sizes below 0.001 as 0.001.
//! Among codecs whose costs differ by less than a clock can tell the smallest one is taken.
//!
//! Blocks are never larger than a quarter of a chunk (256 KiB for small chunks), as readers decode the blocks of a
//! chunk side by side. Every codec is written to the metadata as it is used: c-blosc makes the same of level, shuffle
//! and block size, so other writers of the copy go on as zkit began.

mod measure;
mod sample;
mod score;
#[cfg(test)]
mod tests;
mod together;

pub use sample::{Filters, SampleSource, sample_array};
pub use together::choose_together;

use self::measure::Bench;
use crate::metadata::{BloscShuffle, BloscSpec, CodecSpec, DataType, TargetCodec, shuffle_for};
use crate::units::Bytes;

/// What a codec is to be good at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    /// The least time, at up to a quarter more bytes than the reference.
    Speed,
    /// The least time, at no more bytes than the reference.
    Balanced,
    /// The fewest bytes, at 50 MB/s or more for each thread.
    Size,
}

/// One codec, measured on one thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The codec.
    pub codec: TargetCodec,
    /// Decoded bytes for each encoded one.
    pub ratio: f64,
    /// Decoded bytes that it takes a second.
    pub encode_bytes_per_second: f64,
    /// Decoded bytes that it gives a second.
    pub decode_bytes_per_second: f64,
}

/// A codec, and what it was chosen from.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The codec: blosc, or none.
    pub codec: TargetCodec,
    /// Why, in one sentence with what was measured.
    pub why: String,
    /// All that was tried; the reference first.
    pub trials: Vec<Trial>,
    /// Decoded bytes that each trial encoded.
    pub sampled_bytes: u64,
}

/// The block size of shuffles and levels that are compared, and the largest one where chunks are small.
const SMALL_BLOCK_BYTES: u32 = 256 << 10;

/// Block sizes to try.
const BLOCK_BYTES: [u32; 4] = [128 << 10, SMALL_BLOCK_BYTES, 512 << 10, 1 << 20];

/// Blocks that a chunk should keep for readers of many threads.
const BLOCKS_LEAST: u64 = 4;

/// The largest buffer that a blosc frame holds.
const FRAME_LARGEST: u64 = (1 << 31) - 1 - 16;

/// Chooses a codec for chunks of `chunk_bytes` decoded bytes (inner chunks where there are shards), by `samples`:
/// canonical elements in C order of pieces of such chunks, as [`sample_array`] returns them.
///
/// Takes well below a second for 4 MB of samples, on the threads of `pool`; memory: twice the samples for each of up to three.
/// Clocks differ from run to run, and with them choices between codecs that are much alike. Without samples the
/// reference is chosen.
///
/// ```
/// use zkit_core::engine::{Prefer, choose_codec};
/// use zkit_core::metadata::{DataType, TargetCodec};
///
/// let map: Vec<u8> = (0..100_000u32).flat_map(|at| (at as f32 / 64.0).to_le_bytes()).collect();
/// let pool = rayon::ThreadPoolBuilder::new().build()?;
/// let choice = choose_codec(&[map], &DataType::Float(4), 4 << 20, Prefer::Balanced, &pool);
/// assert!(matches!(choice.codec, TargetCodec::Blosc { .. }));
/// assert!(choice.why.contains("x smaller"));
/// # Ok::<(), rayon::ThreadPoolBuildError>(())
/// ```
pub fn choose_codec(
    samples: &[Vec<u8>],
    data_type: &DataType,
    chunk_bytes: u64,
    prefer: Prefer,
    pool: &rayon::ThreadPool,
) -> Choice {
    let sampled_bytes = samples.iter().map(|sample| sample.len() as u64).sum();
    let given = |codec, why| Choice { codec, why, trials: Vec::new(), sampled_bytes };
    if chunk_bytes > FRAME_LARGEST {
        let why = format!("zstd:3: chunks of {} are too large for blosc", Bytes(chunk_bytes));
        return given(TargetCodec::Zstd(3), why);
    }
    let words = Words::of(data_type);
    if sampled_bytes == 0 {
        let codec = words.reference(BloscShuffle::Bit).codec();
        return given(codec, "blosc:zstd:3:bitshuffle: nothing could be sampled".to_owned());
    }
    let largest_sample = samples.iter().map(Vec::len).max().unwrap_or(0) as u64;
    let blocks = block_sizes(&words, chunk_bytes, largest_sample);
    let bench = Bench::new(samples, words.group_bytes(), pool);
    let trials = search(&words, &blocks, prefer, &|candidates| bench.measure(candidates));
    let best = score::best(&trials, trials.first(), prefer).unwrap_or(0);
    let Some(trial) = trials.get(best) else {
        let codec = words.reference(words.likely).codec();
        return given(codec, "blosc:zstd:3:bitshuffle: nothing could be measured".to_owned());
    };
    Choice { codec: trial.codec.clone(), why: why(&trials, trial), trials, sampled_bytes }
}

/// What shuffles can do for a type.
struct Words {
    /// Bytes of a word.
    bytes: u8,
    /// The shuffle that mostly helps.
    likely: BloscShuffle,
    /// The shuffles to try.
    shuffles: &'static [BloscShuffle],
}

impl Words {
    fn of(data_type: &DataType) -> Self {
        let (likely, bytes) = shuffle_for(BloscShuffle::Bit, data_type);
        let shuffles: &[BloscShuffle] = match (likely, bytes) {
            (BloscShuffle::None, _) => &[BloscShuffle::None],
            (_, 1) => &[BloscShuffle::Bit, BloscShuffle::None],
            _ => &[BloscShuffle::Bit, BloscShuffle::Byte, BloscShuffle::None],
        };
        Self { bytes, likely, shuffles }
    }

    /// Returns the bytes of which bit shuffle takes whole multiples.
    fn group_bytes(&self) -> u64 {
        u64::from(self.bytes) * 8
    }

    fn reference(&self, shuffle: BloscShuffle) -> Candidate {
        Candidate { compressor: "zstd", level: 3, shuffle, word_bytes: self.bytes, block_bytes: 0 }
    }
}

/// A codec to try: a blosc configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    compressor: &'static str,
    level: u8,
    shuffle: BloscShuffle,
    word_bytes: u8,
    block_bytes: u32,
}

impl Candidate {
    fn codec(self) -> TargetCodec {
        let Self { compressor, level, shuffle, block_bytes, .. } = self;
        TargetCodec::Blosc { compressor: compressor.to_owned(), level, shuffle, block_bytes }
    }

    fn spec(self) -> CodecSpec {
        let Self { compressor, level, shuffle, word_bytes, block_bytes } = self;
        CodecSpec::Blosc(BloscSpec {
            compressor: compressor.to_owned(),
            level,
            shuffle,
            type_bytes: word_bytes,
            block_bytes,
        })
    }
}

/// Returns the block sizes to try, the one to begin with first.
///
/// Bit shuffle leaves a block as it is that does not hold a multiple of 8 words, as mostly the last one of a chunk does
/// not. So a chunk is cut into even blocks of such multiples, which leave a few words to the last one. Larger blocks
/// than the samples fill would measure nothing.
fn block_sizes(words: &Words, chunk_bytes: u64, largest_sample: u64) -> Vec<u32> {
    let fits = |block: u32| {
        let block = u64::from(block);
        block == u64::from(SMALL_BLOCK_BYTES)
            || chunk_bytes.div_ceil(block) >= BLOCKS_LEAST && largest_sample > block / 2
    };
    let others = BLOCK_BYTES.into_iter().filter(|&block| block != SMALL_BLOCK_BYTES);
    let candidates = [SMALL_BLOCK_BYTES].into_iter().chain(others).filter(|&block| fits(block));
    candidates.map(|block| even_block(words, chunk_bytes, block)).collect()
}

/// Returns the size of even blocks of at most `block_most` bytes, in multiples of 8 words.
fn even_block(words: &Words, chunk_bytes: u64, block_most: u32) -> u32 {
    let blocks = chunk_bytes.div_ceil(u64::from(block_most)).max(1);
    let even = chunk_bytes / blocks;
    let even = even - even % words.group_bytes();
    u32::try_from(even).ok().filter(|&even| even > 0).unwrap_or(block_most)
}

/// Tries the reference, no compression, and then what promises to be better; what a step finds out, the next one keeps.
fn search(words: &Words, blocks: &[u32], prefer: Prefer, measure: &Measure<'_>) -> Vec<Trial> {
    let reference = words.reference(words.likely);
    let mut trials = measure(&[Some(reference), None]);
    let block_bytes = blocks.first().copied().unwrap_or(0);
    let plain = Candidate { level: 1, block_bytes, ..reference };
    let shuffles: Vec<Candidate> =
        words.shuffles.iter().map(|&shuffle| Candidate { shuffle, ..plain }).collect();
    let leader = stage(&shuffles, plain, prefer, &mut trials, measure);
    if trials.iter().all(|trial| score::size(trial) >= 1.0) {
        return trials;
    }
    let sizes: Vec<Candidate> =
        blocks.iter().map(|&block_bytes| Candidate { block_bytes, ..leader }).skip(1).collect();
    let leader = stage(&sizes, leader, prefer, &mut trials, measure);
    match prefer {
        Prefer::Speed => {
            let lz4 = Candidate { compressor: "lz4", level: 5, block_bytes: 0, ..leader };
            let shuffles: Vec<Candidate> =
                words.shuffles.iter().map(|&shuffle| Candidate { shuffle, ..lz4 }).collect();
            stage(&shuffles, lz4, prefer, &mut trials, measure);
        }
        Prefer::Balanced => {
            let levels = [2, 3].map(|level| Candidate { level, ..leader });
            stage(&levels, leader, prefer, &mut trials, measure);
        }
        Prefer::Size => {
            for level in [3, 5, 7] {
                stage(&[Candidate { level, ..leader }], leader, prefer, &mut trials, measure);
                if trials.last().is_none_or(score::leaves_no_time) {
                    break;
                }
            }
        }
    }
    trials
}

/// Measures candidates, or no compression; leaves out those that cannot be used.
type Measure<'a> = dyn Fn(&[Option<Candidate>]) -> Vec<Trial> + 'a;

/// Measures `candidates` and returns the best of them and of `leader`, where that was measured before.
fn stage(
    candidates: &[Candidate],
    leader: Candidate,
    prefer: Prefer,
    trials: &mut Vec<Trial>,
    measure: &Measure<'_>,
) -> Candidate {
    let tried: Vec<Option<Candidate>> = candidates.iter().copied().map(Some).collect();
    trials.extend(measure(&tried));
    let (of, measured): (Vec<Candidate>, Vec<Trial>) = candidates
        .iter()
        .chain([&leader])
        .filter_map(|&candidate| {
            let codec = candidate.codec();
            Some((candidate, trials.iter().find(|trial| trial.codec == codec)?.clone()))
        })
        .unzip();
    let best = score::best(&measured, trials.first(), prefer).or_else(|| score::smallest(&measured));
    best.map_or(leader, |best| of[best])
}

/// Says what was measured of the chosen codec and, beside it, of the reference.
fn why(trials: &[Trial], chosen: &Trial) -> String {
    let reference = trials.first().filter(|reference| reference.codec != chosen.codec);
    if chosen.codec == TargetCodec::Uncompressed {
        let smallest = score::smallest(trials).map_or(1.0, |smallest| trials[smallest].ratio);
        return format!(
            "none: the best of {} codecs makes it only {smallest:.2} x smaller",
            trials.len() - 1
        );
    }
    let figures = format!(
        "{}: {} x smaller, encodes at {:.2} GB/s, decodes at {:.2} GB/s",
        name(&chosen.codec),
        ratio(chosen),
        chosen.encode_bytes_per_second / 1e9,
        chosen.decode_bytes_per_second / 1e9,
    );
    match reference {
        Some(reference) => format!(
            "{figures}; {}: {} x at {:.2} and {:.2} GB/s",
            name(&reference.codec),
            ratio(reference),
            reference.encode_bytes_per_second / 1e9,
            reference.decode_bytes_per_second / 1e9,
        ),
        None => format!("{figures}; the best of {} codecs", trials.len()),
    }
}

fn ratio(trial: &Trial) -> String {
    if trial.ratio < 100.0 { format!("{:.2}", trial.ratio) } else { format!("{:.0}", trial.ratio) }
}

/// Returns the codec as the command line takes it, and its block size.
fn name(codec: &TargetCodec) -> String {
    let TargetCodec::Blosc { compressor, level, shuffle, block_bytes } = codec else {
        return "none".to_owned();
    };
    let spec = BloscSpec {
        compressor: compressor.clone(),
        level: *level,
        shuffle: *shuffle,
        type_bytes: 1,
        block_bytes: *block_bytes,
    };
    let name = CodecSpec::Blosc(spec).to_string();
    match block_bytes {
        0 => name,
        _ => format!("{name} in blocks of {}", Bytes(u64::from(*block_bytes))),
    }
}
