//! How hard zstd works on the blocks of a frame: no harder than pays.
//!
//! A level of zstd stands for a size. What it takes to reach that size depends on the data: in shuffled numbers most planes are
//! noise or almost constant, where a deep search finds what a shallow one does. What helps there are entropy tables
//! of their own for planes of another nature, which zstd does not give to blocks of up to 128 KiB. So one block of a
//! frame is compressed at the level that was asked for, and with less search and tables by nature; the quickest way
//! that is not larger is taken for all blocks of that frame. Every zstd reads both.

use zstd_safe::zstd_sys::ZSTD_EndDirective::{ZSTD_e_end, ZSTD_e_flush};
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

/// The fewest blocks of a frame of which one is compressed in several ways.
pub(super) const BLOCKS_WORTH_A_TRIAL: usize = 8;

/// The levels that are tried in place of a higher one, quickest first.
const QUICKER_LEVELS: [i32; 2] = [1, 3];

/// Planes that differ by more than this get entropy tables of their own, in bits a byte.
const OTHER_NATURE: f32 = 2.0;

/// Bytes of a plane that are looked at for its nature.
const PLANE_SAMPLE_BYTES: usize = 1024;

/// Compresses blocks, a frame of zstd each.
#[derive(Default)]
pub(super) struct BlockCompressor {
    context: Option<CCtx<'static>>,
    level: i32,
    /// Planes of a block.
    planes: usize,
    /// Planes before which entropy tables are renewed, ascending; none: zstd decides alone.
    cuts: Vec<usize>,
}

impl BlockCompressor {
    /// From now on blocks are compressed at `level`, as zstd does it.
    pub(super) fn begin(&mut self, level: i32) {
        self.level = level;
        self.cuts.clear();
    }

    /// From now on blocks are compressed in the quickest way that makes `sample`, a block of `planes` planes one
    /// after another, no larger than the level of `begin` does; `room` is overwritten, and as long as `sample`.
    pub(super) fn tune(&mut self, planes: usize, sample: &[u8], room: &mut [u8]) {
        let level = self.level;
        if level <= QUICKER_LEVELS[0] {
            return;
        }
        // what does not fit is stored
        let promised = self.compress(sample, room).unwrap_or(sample.len());
        self.planes = planes;
        self.cuts = cuts(sample, planes);
        for quicker in QUICKER_LEVELS.into_iter().take_while(|quicker| *quicker < level) {
            self.level = quicker;
            if self.compress(sample, room).unwrap_or(sample.len()) <= promised {
                return;
            }
        }
        self.begin(level);
    }

    /// Writes `block` compressed into `room`; returns its length, `None` where it does not fit.
    pub(super) fn compress(&mut self, block: &[u8], room: &mut [u8]) -> Option<usize> {
        let context = self.context.get_or_insert_default();
        if self.cuts.is_empty() {
            return context.compress(room, block, self.level).ok();
        }
        let plane = block.len() / self.planes;
        context.reset(ResetDirective::SessionOnly).ok()?;
        context.set_parameter(CParameter::CompressionLevel(self.level)).ok()?;
        context.set_pledged_src_size(Some(block.len() as u64)).ok()?;
        let mut output = OutBuffer::around(room);
        let mut start = 0;
        for end in self.cuts.iter().map(|cut| cut * plane).chain([block.len()]) {
            let directive = if end == block.len() { ZSTD_e_end } else { ZSTD_e_flush };
            let mut input = InBuffer::around(&block[start..end]);
            while context.compress_stream2(&mut output, &mut input, directive).ok()? > 0 {
                if output.pos() == output.capacity() {
                    return None;
                }
            }
            start = end;
        }
        Some(output.pos())
    }
}

/// Returns the planes of `block` that differ in nature from those before them.
fn cuts(block: &[u8], planes: usize) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut nature = None;
    for (plane, bytes) in block.chunks_exact((block.len() / planes).max(1)).take(planes).enumerate() {
        let entropy = entropy(bytes);
        if nature.is_some_and(|nature: f32| (nature - entropy).abs() <= OTHER_NATURE) {
            continue;
        }
        if plane > 0 {
            cuts.push(plane);
        }
        nature = Some(entropy);
    }
    cuts
}

/// Returns the entropy of a sample of `plane`, in bits a byte: 0 (one value) to 8 (noise).
fn entropy(plane: &[u8]) -> f32 {
    let mut counts = [0_u16; 256];
    let step = (plane.len() / PLANE_SAMPLE_BYTES).max(1);
    let mut sampled = 0_u16;
    for byte in plane.iter().step_by(step).take(PLANE_SAMPLE_BYTES) {
        counts[usize::from(*byte)] += 1;
        sampled += 1;
    }
    let sampled = f32::from(sampled);
    let bits = counts.iter().filter(|count| **count > 0).map(|count| {
        let share = f32::from(*count) / sampled;
        -share * share.log2()
    });
    bits.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::bitshuffle::bit_shuffle;

    const PLANES: usize = 32;

    /// 128 KiB of floats: a smooth field in steps of a tenth, another for each `turn`.
    fn values(turn: f32) -> Vec<u8> {
        let mut noise = 1_u32;
        let values = (0..32 << 10_u16).flat_map(|at: u16| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let jitter = f32::from(noise.to_be_bytes()[0]) / 256.0 * 0.3;
            let wave = (f32::from(at) / 200.0 + turn).sin() * 20.0;
            (((250.0 + wave + jitter) * 10.0).round() / 10.0).to_le_bytes()
        });
        values.collect()
    }

    /// The same, bit-shuffled.
    fn block(turn: f32) -> Vec<u8> {
        let values = values(turn);
        let mut shuffled = vec![0; values.len()];
        bit_shuffle(4, &values, &mut shuffled, &mut Vec::new());
        shuffled
    }

    fn compressed(compressor: &mut BlockCompressor, block: &[u8]) -> Vec<u8> {
        let mut room = vec![0; block.len()];
        let len = compressor.compress(block, &mut room).unwrap();
        room.truncate(len);
        room
    }

    #[test]
    fn less_effort_is_taken_where_it_gives_the_size_that_was_asked_for() {
        let (sample, other) = (block(0.0), block(1.0));
        let mut plain = BlockCompressor::default();
        plain.begin(5);
        let mut tuned = BlockCompressor::default();
        tuned.begin(5);
        tuned.tune(PLANES, &sample, &mut vec![0; sample.len()]);
        assert!(tuned.level < 5, "level {}", tuned.level);
        assert!(!tuned.cuts.is_empty());
        assert!(compressed(&mut tuned, &sample).len() <= compressed(&mut plain, &sample).len());
        let frame = compressed(&mut tuned, &other);
        assert_eq!(zstd_safe::get_frame_content_size(&frame).unwrap(), Some(other.len() as u64));
        let mut back = vec![0; other.len()];
        assert_eq!(zstd_safe::decompress(&mut back, &frame).unwrap(), other.len());
        assert!(back == other);
    }

    #[test]
    fn the_level_stays_where_only_a_deep_search_finds_what_repeats() {
        let mut tuned = BlockCompressor::default();
        // numbers that are not shuffled, of which many come again
        let sample = values(0.0);
        tuned.begin(5);
        tuned.tune(2, &sample, &mut vec![0; sample.len()]);
        assert_eq!((tuned.level, tuned.cuts.len()), (5, 0));
    }

    #[test]
    fn level_one_is_left_alone_and_noise_is_not_made_larger() {
        let sample = block(0.0);
        let mut room = vec![0; sample.len()];
        let mut compressor = BlockCompressor::default();
        compressor.begin(1);
        compressor.tune(PLANES, &sample, &mut room);
        assert!(compressor.cuts.is_empty());
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_le_bytes()[7]
        })
        .take(sample.len())
        .collect();
        compressor.begin(5);
        compressor.tune(PLANES, &noise, &mut room);
        assert_eq!(compressor.compress(&noise, &mut room), None);
        // what did not fit leaves no trace
        let before = compressed(&mut compressor, &sample);
        assert!(compressed(&mut compressor, &sample) == before);
    }

    #[test]
    fn planes_of_another_nature_are_told_apart() {
        let mut block = vec![0; 8 * 512];
        for (at, byte) in block[3 * 512..5 * 512].iter_mut().enumerate() {
            *byte = (at * 151 % 256).to_le_bytes()[0];
        }
        assert_eq!(cuts(&block, 8), [3, 5]);
        assert_eq!(cuts(&[], 8), [0_usize; 0]);
    }
}
