//! Sets of AVX2 registers and the permutations of them that shuffles and transposes are made of.
//!
//! `M` registers hold elements of `M` bytes, 16 of them in the low halves and 16 in the high halves, so that no
//! step crosses the halves and 32 bytes of a plane come out in order.

#![expect(unsafe_code, reason = "AVX2 loads and stores; callers vouch for the ranges")]

use std::arch::x86_64::*;

/// Loads 32 elements of `M` bytes: the first 16 into the low halves of the registers, the others into the
/// high halves.
///
/// # Safety
///
/// `32 * M` bytes must be readable at `from`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_halves<const M: usize>(from: *const u8) -> [__m256i; M] {
    let mut elements = [_mm256_setzero_si256(); M];
    for (index, element) in elements.iter_mut().enumerate() {
        // SAFETY: `16 * index + 16 <= 16 * M`, and the caller vouches for `32 * M` bytes.
        unsafe {
            let low = _mm_loadu_si128(from.add(16 * index).cast());
            let high = _mm_loadu_si128(from.add(16 * (M + index)).cast());
            *element = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
        }
    }
    elements
}

/// Stores what [`load_halves`] loads.
///
/// # Safety
///
/// `32 * M` bytes must be writable at `to`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store_halves<const M: usize>(elements: [__m256i; M], to: *mut u8) {
    for (index, element) in elements.iter().enumerate() {
        // SAFETY: `16 * index + 16 <= 16 * M`, and the caller vouches for `32 * M` bytes.
        unsafe {
            _mm_storeu_si128(to.add(16 * index).cast(), _mm256_castsi256_si128(*element));
            _mm_storeu_si128(to.add(16 * (M + index)).cast(), _mm256_extracti128_si256::<1>(*element));
        }
    }
}

/// Turns registers of elements of `M` bytes into one register per byte plane.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn to_planes<const M: usize, const G: usize>(mut registers: [__m256i; M]) -> [__m256i; M] {
    const { assert!(M * G == 16) }
    if M < 16 {
        let order = plane_order::<M, G>();
        for register in &mut registers {
            *register = _mm256_shuffle_epi8(*register, order);
        }
    }
    for _ in 0..M.ilog2() {
        registers = interleave::<M, G>(registers);
    }
    registers
}

/// Turns one register per byte plane into registers of elements of `M` bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn from_planes<const M: usize>(mut registers: [__m256i; M]) -> [__m256i; M] {
    for _ in 0..M.ilog2() {
        registers = interleave::<M, 1>(registers);
    }
    registers
}

/// Returns the byte order that gathers the `G` elements of 16 bytes into `M` planes.
#[inline]
#[target_feature(enable = "avx2")]
fn plane_order<const M: usize, const G: usize>() -> __m256i {
    const fn order<const M: usize, const G: usize>() -> [i8; 16] {
        let mut order = [0; 16];
        let mut at = 0;
        while at < 16 {
            #[expect(clippy::cast_possible_truncation, reason = "below 16")]
            {
                order[at] = (at % G * M + at / G) as i8;
            }
            at += 1;
        }
        order
    }
    let order = const { order::<M, G>() };
    // SAFETY: `order` is 16 bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(order.as_ptr().cast()) })
}

/// Interleaves register `i` with register `i + M/2` in units of `G` bytes, for each `i`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn interleave<const M: usize, const G: usize>(registers: [__m256i; M]) -> [__m256i; M] {
    let mut interleaved = registers;
    for index in 0..M / 2 {
        let (a, b) = (registers[index], registers[index + M / 2]);
        (interleaved[2 * index], interleaved[2 * index + 1]) = match G {
            1 => (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)),
            2 => (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)),
            4 => (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)),
            _ => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
        };
    }
    interleaved
}
