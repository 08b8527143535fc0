//! The passes over a block of numbers with AVX2, two registers a round.

#![expect(unsafe_code, reason = "AVX2 instructions, and loads of checked ranges")]

use std::arch::x86_64::*;

use super::element::Element;
use super::number::{Float32, Float64, Int32, Int64, Number, Time64};
use super::passes::{Counts, Lanes, Moments, ROUND_BYTES, Wanted};

/// Proof that the CPU has AVX2.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// Returns the proof, if there is one.
    pub(super) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    /// The twin of [`super::passes::fast`].
    pub(super) fn fast<N: Vector>(self, block: &[N::Bytes]) -> Moments<N> {
        // SAFETY: there is an `Avx2`, so the CPU has it.
        unsafe { fast(block) }
    }

    /// The twin of [`super::passes::careful`].
    pub(super) fn careful<N: Vector>(self, block: &[N::Bytes], wanted: &Wanted<N>) -> Counts<N> {
        // SAFETY: as above.
        unsafe { careful(block, wanted) }
    }

    /// Widens elements.
    pub(super) fn widen<E: Element>(self, items: &[E::Bytes], numbers: &mut [<E::Number as Number>::Bytes]) {
        // SAFETY: as above.
        unsafe { widen::<E>(items, numbers) }
    }

    /// Adds one to the counts of the elements that are no number.
    pub(super) fn add_nan<E: Element>(self, items: &[E::Bytes], counts: &mut [u32]) {
        // SAFETY: as above.
        unsafe { add_nan::<E>(items, counts) }
    }
}

#[target_feature(enable = "avx2")]
fn widen<E: Element>(items: &[E::Bytes], numbers: &mut [<E::Number as Number>::Bytes]) {
    super::widen::<E>(items, numbers);
}

#[target_feature(enable = "avx2")]
fn add_nan<E: Element>(items: &[E::Bytes], counts: &mut [u32]) {
    super::add_nan::<E>(items, counts);
}

/// Registers that the sums of a round take at most.
const SUMS: usize = 4;

/// What AVX2 does with a register of numbers.
///
/// # Safety
///
/// The CPU must have AVX2 for every function.
pub(super) trait Vector: Number {
    /// Returns a register full of one number.
    unsafe fn splat(item: Self::Bytes) -> __m256i;
    /// Returns the smaller numbers; of `b`, where `a` is NaN.
    unsafe fn min(a: __m256i, b: __m256i) -> __m256i;
    /// Returns the larger numbers; of `b`, where `a` is NaN.
    unsafe fn max(a: __m256i, b: __m256i) -> __m256i;
    /// Returns all ones where the bits are the same.
    unsafe fn equal(a: __m256i, b: __m256i) -> __m256i;
    /// Returns all ones where there is no number, and where there is a finite one.
    unsafe fn classes(numbers: __m256i) -> (__m256i, __m256i);
    /// Counts where `mask` is all ones.
    unsafe fn count(counts: __m256i, mask: __m256i) -> __m256i;
    /// Returns the sum of what [`Self::count`] counted.
    unsafe fn counted(counts: __m256i) -> u64;
    /// Adds the numbers of register `at` of a round to the sums.
    unsafe fn add(sums: &mut [__m256i; SUMS], at: usize, numbers: __m256i);
    /// Writes the sums to their lanes; so many rounds were added.
    unsafe fn sums(sums: [__m256i; SUMS], rounds: usize, lanes: &mut [Self::Sum; 16]);
    /// Writes register `at` of a round to its lanes.
    unsafe fn lanes(at: usize, numbers: __m256i, lanes: &mut [Self::Value; 16]);
}

/// Returns register `at` of a round.
#[inline(always)]
unsafe fn load<N: Number>(round: &[N::Bytes], at: usize) -> __m256i {
    debug_assert!(size_of_val(round) == ROUND_BYTES && at < 2);
    // SAFETY: a round has 64 bytes, `at` is below 2.
    unsafe { _mm256_loadu_si256(round.as_ptr().cast::<__m256i>().add(at)) }
}

#[target_feature(enable = "avx2")]
fn fast<N: Vector>(block: &[N::Bytes]) -> Moments<N> {
    let rounds = block.chunks_exact(ROUND_BYTES / size_of::<N::Bytes>());
    let rest = rounds.remainder();
    let mut lanes = Lanes::<N>::new();
    let (count, done) = (rounds.len(), block.len() - rest.len());
    if count > 0 {
        // SAFETY: the CPU has AVX2, each round has 64 bytes.
        unsafe {
            let (highest, lowest) = (N::splat(N::store(N::HIGHEST)), N::splat(N::store(N::LOWEST)));
            let (mut min, mut max) = ([highest; 2], [lowest; 2]);
            let mut sums = [_mm256_setzero_si256(); SUMS];
            for round in rounds {
                for at in 0..2 {
                    let numbers = load::<N>(round, at);
                    min[at] = N::min(numbers, min[at]);
                    max[at] = N::max(numbers, max[at]);
                    N::add(&mut sums, at, numbers);
                }
            }
            store(&mut lanes, (min, max), sums, count);
        }
    }
    for (position, item) in rest.iter().enumerate() {
        lanes.see(done + position, N::load(*item));
    }
    lanes.join()
}

#[target_feature(enable = "avx2")]
fn careful<N: Vector>(block: &[N::Bytes], wanted: &Wanted<N>) -> Counts<N> {
    match wanted.count {
        0 => careful_for::<N, 0>(block, wanted),
        1 => careful_for::<N, 1>(block, wanted),
        _ => careful_for::<N, 4>(block, wanted),
    }
}

#[target_feature(enable = "avx2")]
fn careful_for<N: Vector, const M: usize>(block: &[N::Bytes], wanted: &Wanted<N>) -> Counts<N> {
    let rounds = block.chunks_exact(ROUND_BYTES / size_of::<N::Bytes>());
    let rest = rounds.remainder();
    let (mut lanes, mut counts) = (Lanes::<N>::new(), Counts::<N>::new());
    let (count, done) = (rounds.len(), block.len() - rest.len());
    if count > 0 {
        // SAFETY: the CPU has AVX2, each round has 64 bytes.
        unsafe {
            let zero = _mm256_setzero_si256();
            let (highest, lowest) = (N::splat(N::store(N::HIGHEST)), N::splat(N::store(N::LOWEST)));
            let (mut min, mut max, mut sums) = ([highest; 2], [lowest; 2], [zero; SUMS]);
            let (mut valid, mut nan, mut fill, mut missing) = (zero, zero, zero, zero);
            let fill_item = N::splat(wanted.fill.unwrap_or(wanted.missing[0]));
            let missing_items = wanted.missing.map(|item| N::splat(item));
            for round in rounds {
                for at in 0..2 {
                    let numbers = load::<N>(round, at);
                    let (is_nan, is_finite) = N::classes(numbers);
                    let mut is_missing = zero;
                    for item in &missing_items[..M] {
                        is_missing = _mm256_or_si256(is_missing, N::equal(numbers, *item));
                    }
                    let is_valid = _mm256_andnot_si256(is_missing, is_finite);
                    min[at] = N::min(_mm256_blendv_epi8(highest, numbers, is_valid), min[at]);
                    max[at] = N::max(_mm256_blendv_epi8(lowest, numbers, is_valid), max[at]);
                    N::add(&mut sums, at, _mm256_and_si256(numbers, is_valid));
                    valid = N::count(valid, is_valid);
                    nan = N::count(nan, is_nan);
                    fill = N::count(fill, N::equal(numbers, fill_item));
                    missing = N::count(missing, is_missing);
                }
            }
            store(&mut lanes, (min, max), sums, count);
            counts.valid = N::counted(valid);
            counts.nan = N::counted(nan);
            counts.fill = if wanted.fill.is_some() { N::counted(fill) } else { 0 };
            counts.missing = N::counted(missing);
        }
    }
    for (position, item) in rest.iter().enumerate() {
        counts.see(done + position, *item, wanted, &mut lanes);
    }
    counts.moments = lanes.join();
    counts
}

/// Writes registers to lanes.
#[inline(always)]
unsafe fn store<N: Vector>(
    lanes: &mut Lanes<N>,
    (min, max): ([__m256i; 2], [__m256i; 2]),
    sums: [__m256i; SUMS],
    rounds: usize,
) {
    // SAFETY: the caller has AVX2.
    unsafe {
        for at in 0..2 {
            N::lanes(at, min[at], &mut lanes.min);
            N::lanes(at, max[at], &mut lanes.max);
        }
        N::sums(sums, rounds, &mut lanes.sum);
    }
}

/// Returns the sum of 8 counts of 4 bytes.
#[inline(always)]
unsafe fn counted_32(counts: __m256i) -> u64 {
    let mut lanes = [0u32; 8];
    // SAFETY: `lanes` has 32 bytes.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), counts) };
    lanes.iter().map(|&lane| u64::from(lane)).sum()
}

/// Returns the sum of 4 counts of 8 bytes.
#[inline(always)]
unsafe fn counted_64(counts: __m256i) -> u64 {
    let mut lanes = [0u64; 4];
    // SAFETY: `lanes` has 32 bytes.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), counts) };
    lanes.iter().sum()
}

macro_rules! of_4_bytes {
    () => {
        #[inline(always)]
        unsafe fn splat(item: Self::Bytes) -> __m256i {
            // SAFETY: the caller has AVX2.
            unsafe { _mm256_set1_epi32(i32::from_le_bytes(item)) }
        }
        #[inline(always)]
        unsafe fn equal(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: the caller has AVX2.
            unsafe { _mm256_cmpeq_epi32(a, b) }
        }
        #[inline(always)]
        unsafe fn count(counts: __m256i, mask: __m256i) -> __m256i {
            // SAFETY: the caller has AVX2.
            unsafe { _mm256_sub_epi32(counts, mask) }
        }
        #[inline(always)]
        unsafe fn counted(counts: __m256i) -> u64 {
            // SAFETY: the caller has AVX2.
            unsafe { counted_32(counts) }
        }
        #[inline(always)]
        unsafe fn lanes(at: usize, numbers: __m256i, lanes: &mut [Self::Value; 16]) {
            let lanes = &mut lanes[8 * at..8 * at + 8];
            // SAFETY: `lanes` has 32 bytes.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), numbers) };
        }
    };
}

macro_rules! of_8_bytes {
    () => {
        #[inline(always)]
        unsafe fn splat(item: Self::Bytes) -> __m256i {
            // SAFETY: the caller has AVX2.
            unsafe { _mm256_set1_epi64x(i64::from_le_bytes(item)) }
        }
        #[inline(always)]
        unsafe fn equal(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: the caller has AVX2.
            unsafe { _mm256_cmpeq_epi64(a, b) }
        }
        #[inline(always)]
        unsafe fn count(counts: __m256i, mask: __m256i) -> __m256i {
            // SAFETY: the caller has AVX2.
            unsafe { _mm256_sub_epi64(counts, mask) }
        }
        #[inline(always)]
        unsafe fn counted(counts: __m256i) -> u64 {
            // SAFETY: the caller has AVX2.
            unsafe { counted_64(counts) }
        }
        #[inline(always)]
        unsafe fn lanes(at: usize, numbers: __m256i, lanes: &mut [Self::Value; 16]) {
            let lanes = &mut lanes[4 * at..4 * at + 4];
            // SAFETY: `lanes` has 32 bytes.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), numbers) };
        }
    };
}

impl Vector for Float32 {
    of_4_bytes!();

    #[inline(always)]
    unsafe fn min(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_castps_si256(_mm256_min_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b))) }
    }
    #[inline(always)]
    unsafe fn max(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_castps_si256(_mm256_max_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b))) }
    }
    #[inline(always)]
    unsafe fn classes(numbers: __m256i) -> (__m256i, __m256i) {
        // SAFETY: the caller has AVX2.
        unsafe {
            let infinity = _mm256_set1_epi32(0x7f80_0000);
            let magnitude = _mm256_and_si256(numbers, _mm256_set1_epi32(0x7fff_ffff));
            (_mm256_cmpgt_epi32(magnitude, infinity), _mm256_cmpgt_epi32(infinity, magnitude))
        }
    }
    #[inline(always)]
    unsafe fn add(sums: &mut [__m256i; SUMS], at: usize, numbers: __m256i) {
        // SAFETY: the caller has AVX2.
        unsafe {
            let numbers = _mm256_castsi256_ps(numbers);
            let halves = [_mm256_castps256_ps128(numbers), _mm256_extractf128_ps::<1>(numbers)];
            for (sum, half) in sums[2 * at..].iter_mut().zip(halves) {
                *sum = _mm256_castpd_si256(_mm256_add_pd(_mm256_castsi256_pd(*sum), _mm256_cvtps_pd(half)));
            }
        }
    }
    #[inline(always)]
    unsafe fn sums(sums: [__m256i; SUMS], _: usize, lanes: &mut [f64; 16]) {
        for (sum, lanes) in sums.iter().zip(lanes.as_chunks_mut::<4>().0) {
            // SAFETY: `lanes` has 32 bytes.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), *sum) };
        }
    }
}

impl Vector for Float64 {
    of_8_bytes!();

    #[inline(always)]
    unsafe fn min(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_castpd_si256(_mm256_min_pd(_mm256_castsi256_pd(a), _mm256_castsi256_pd(b))) }
    }
    #[inline(always)]
    unsafe fn max(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_castpd_si256(_mm256_max_pd(_mm256_castsi256_pd(a), _mm256_castsi256_pd(b))) }
    }
    #[inline(always)]
    unsafe fn classes(numbers: __m256i) -> (__m256i, __m256i) {
        // SAFETY: the caller has AVX2.
        unsafe {
            let infinity = _mm256_set1_epi64x(0x7ff0_0000_0000_0000);
            let magnitude = _mm256_and_si256(numbers, _mm256_set1_epi64x(i64::MAX));
            (_mm256_cmpgt_epi64(magnitude, infinity), _mm256_cmpgt_epi64(infinity, magnitude))
        }
    }
    #[inline(always)]
    unsafe fn add(sums: &mut [__m256i; SUMS], at: usize, numbers: __m256i) {
        // SAFETY: the caller has AVX2.
        unsafe {
            let sum = _mm256_add_pd(_mm256_castsi256_pd(sums[at]), _mm256_castsi256_pd(numbers));
            sums[at] = _mm256_castpd_si256(sum);
        }
    }
    #[inline(always)]
    unsafe fn sums(sums: [__m256i; SUMS], _: usize, lanes: &mut [f64; 16]) {
        for (sum, lanes) in sums.iter().zip(lanes.as_chunks_mut::<4>().0) {
            // SAFETY: `lanes` has 32 bytes.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), *sum) };
        }
    }
}

impl Vector for Int32 {
    of_4_bytes!();

    #[inline(always)]
    unsafe fn min(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_min_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn max(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_max_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn classes(_: __m256i) -> (__m256i, __m256i) {
        // SAFETY: the caller has AVX2.
        unsafe { (_mm256_setzero_si256(), _mm256_set1_epi32(-1)) }
    }
    #[inline(always)]
    unsafe fn add(sums: &mut [__m256i; SUMS], at: usize, numbers: __m256i) {
        // SAFETY: the caller has AVX2.
        unsafe {
            let halves = [_mm256_castsi256_si128(numbers), _mm256_extracti128_si256::<1>(numbers)];
            for (sum, half) in sums[2 * at..].iter_mut().zip(halves) {
                *sum = _mm256_add_epi64(*sum, _mm256_cvtepi32_epi64(half));
            }
        }
    }
    #[inline(always)]
    unsafe fn sums(sums: [__m256i; SUMS], _: usize, lanes: &mut [i64; 16]) {
        for (sum, lanes) in sums.iter().zip(lanes.as_chunks_mut::<4>().0) {
            // SAFETY: `lanes` has 32 bytes.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), *sum) };
        }
    }
}

macro_rules! int_64 {
    () => {
        of_8_bytes!();

        #[inline(always)]
        unsafe fn min(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: the caller has AVX2.
            unsafe { _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b)) }
        }
        #[inline(always)]
        unsafe fn max(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: the caller has AVX2.
            unsafe { _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b)) }
        }
        /// The halves are added apart, as a lane would overflow; the first bit is turned round, so that both are unsigned.
        #[inline(always)]
        unsafe fn add(sums: &mut [__m256i; SUMS], at: usize, numbers: __m256i) {
            // SAFETY: the caller has AVX2.
            unsafe {
                let low = _mm256_and_si256(numbers, _mm256_set1_epi64x(0xffff_ffff));
                let high = _mm256_srli_epi64::<32>(_mm256_xor_si256(numbers, _mm256_set1_epi64x(i64::MIN)));
                sums[at] = _mm256_add_epi64(sums[at], low);
                sums[2 + at] = _mm256_add_epi64(sums[2 + at], high);
            }
        }
        #[inline(always)]
        unsafe fn sums(sums: [__m256i; SUMS], rounds: usize, lanes: &mut [i128; 16]) {
            let mut halves = [0u64; 16];
            for (sum, halves) in sums.iter().zip(halves.as_chunks_mut::<4>().0) {
                // SAFETY: `halves` has 32 bytes.
                unsafe { _mm256_storeu_si256(halves.as_mut_ptr().cast(), *sum) };
            }
            for lane in 0..8 {
                let (low, high) = (i128::from(halves[lane]), i128::from(halves[8 + lane]));
                lanes[lane] = (high << 32) + low - ((rounds as i128) << 63);
            }
        }
    };
}

impl Vector for Int64 {
    int_64!();

    #[inline(always)]
    unsafe fn classes(_: __m256i) -> (__m256i, __m256i) {
        // SAFETY: the caller has AVX2.
        unsafe { (_mm256_setzero_si256(), _mm256_set1_epi32(-1)) }
    }
}

impl Vector for Time64 {
    int_64!();

    #[inline(always)]
    unsafe fn classes(numbers: __m256i) -> (__m256i, __m256i) {
        // SAFETY: the caller has AVX2.
        unsafe {
            let is_nat = _mm256_cmpeq_epi64(numbers, _mm256_set1_epi64x(i64::MIN));
            (is_nat, _mm256_xor_si256(is_nat, _mm256_set1_epi32(-1)))
        }
    }
}
