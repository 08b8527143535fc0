//! Bit shuffle: bits of equal significance are gathered into planes, and back.
//!
//! The layout is that of c-blosc 1.x: bit `k` of byte `b` of the elements fills row `8 * b + k`, one bit per
//! element, first element lowest. Where the number of elements is not a multiple of 8 the bytes stay as they are;
//! so do the bytes after the last whole element.

use super::shuffle::{shuffle, unshuffle};

/// Bytes of the scratch buffer, through which byte planes pass: a part of the first-level cache.
const TILE_BYTES: usize = 8 << 10;

/// Elements of a tile are a multiple of these.
const STEP_ELEMENTS: usize = 256;

/// The most elements of a tile.
const MAX_TILE_ELEMENTS: usize = 2048;

/// Gathers the bits of `src` into bit planes in `dst`; `scratch` is reused from call to call.
///
/// # Panics
///
/// If `src` and `dst` differ in length.
pub fn bit_shuffle(type_size: usize, src: &[u8], dst: &mut [u8], scratch: &mut Vec<u8>) {
    assert_eq!(src.len(), dst.len(), "bit shuffle keeps the length");
    let type_size = type_size.max(1);
    let count = src.len() / type_size;
    if !count.is_multiple_of(8) {
        return dst.copy_from_slice(src);
    }
    let mut first = 0;
    if let Some(to_rows) = vector_to_rows() {
        for elements in tiles(type_size, count) {
            let tile = &src[first * type_size..(first + elements) * type_size];
            let rows = Rows { row_bytes: count / 8, at: first / 8, elements };
            if type_size == 1 {
                to_rows(tile, rows, dst);
            } else {
                let planes = grown(scratch, tile.len());
                shuffle(type_size, tile, planes);
                to_rows(planes, rows, dst);
            }
            first += elements;
        }
    }
    bit_shuffle_from(first, type_size, src, dst);
}

/// Scatters the bit planes of `src` into elements in `dst`: the inverse of [`bit_shuffle`].
///
/// # Panics
///
/// If `src` and `dst` differ in length.
pub fn bit_unshuffle(type_size: usize, src: &[u8], dst: &mut [u8], scratch: &mut Vec<u8>) {
    assert_eq!(src.len(), dst.len(), "bit unshuffle keeps the length");
    let type_size = type_size.max(1);
    let count = src.len() / type_size;
    if !count.is_multiple_of(8) {
        return dst.copy_from_slice(src);
    }
    let mut first = 0;
    if let Some(from_rows) = vector_from_rows() {
        for elements in tiles(type_size, count) {
            let tile = &mut dst[first * type_size..(first + elements) * type_size];
            let rows = Rows { row_bytes: count / 8, at: first / 8, elements };
            if type_size == 1 {
                from_rows(src, rows, tile);
            } else {
                let planes = grown(scratch, tile.len());
                from_rows(src, rows, planes);
                unshuffle(type_size, planes, tile);
            }
            first += elements;
        }
    }
    bit_unshuffle_from(first, type_size, src, dst);
}

/// Yields the elements of each tile of `count`, all multiples of [`STEP_ELEMENTS`].
fn tiles(type_size: usize, count: usize) -> impl Iterator<Item = usize> {
    let most = (TILE_BYTES / type_size).clamp(STEP_ELEMENTS, MAX_TILE_ELEMENTS);
    let most = most - most % STEP_ELEMENTS;
    let mut left = count - count % STEP_ELEMENTS;
    std::iter::from_fn(move || {
        let elements = left.min(most);
        left -= elements;
        (elements > 0).then_some(elements)
    })
}

/// Returns the first `len` bytes of `scratch`, which grows but never shrinks.
fn grown(scratch: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
    &mut scratch[..len]
}

/// Shuffles the elements from `first` on, a multiple of 8, and copies the bytes after the last element.
fn bit_shuffle_from(first: usize, type_size: usize, src: &[u8], dst: &mut [u8]) {
    let count = src.len() / type_size;
    let row_bytes = count / 8;
    for group in first / 8..row_bytes {
        let elements = &src[group * 8 * type_size..(group + 1) * 8 * type_size];
        for byte in 0..type_size {
            let mut bytes = [0; 8];
            for (to, element) in bytes.iter_mut().zip(elements.chunks_exact(type_size)) {
                *to = element[byte];
            }
            for (bit, row) in transposed_bits(bytes).into_iter().enumerate() {
                dst[(byte * 8 + bit) * row_bytes + group] = row;
            }
        }
    }
    let tail = count * type_size;
    dst[tail..].copy_from_slice(&src[tail..]);
}

/// Unshuffles the elements from `first` on, a multiple of 8, and copies the bytes after the last element.
fn bit_unshuffle_from(first: usize, type_size: usize, src: &[u8], dst: &mut [u8]) {
    let count = src.len() / type_size;
    let row_bytes = count / 8;
    for group in first / 8..row_bytes {
        let elements = &mut dst[group * 8 * type_size..(group + 1) * 8 * type_size];
        for byte in 0..type_size {
            let mut rows = [0; 8];
            for (bit, row) in rows.iter_mut().enumerate() {
                *row = src[(byte * 8 + bit) * row_bytes + group];
            }
            for (element, from) in elements.chunks_exact_mut(type_size).zip(transposed_bits(rows)) {
                element[byte] = from;
            }
        }
    }
    let tail = count * type_size;
    dst[tail..].copy_from_slice(&src[tail..]);
}

/// Transposes a matrix of 8 x 8 bits, one row a byte (Hacker's Delight, 7-3).
fn transposed_bits(rows: [u8; 8]) -> [u8; 8] {
    let mut x = u64::from_le_bytes(rows);
    for (shift, mask) in
        [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)]
    {
        let swapped = (x ^ (x >> shift)) & mask;
        x ^= swapped ^ (swapped << shift);
    }
    x.to_le_bytes()
}

/// Where the bits of a tile lie among all rows.
#[derive(Debug, Clone, Copy)]
struct Rows {
    /// Bytes of a row.
    row_bytes: usize,
    /// Where in each row the tile starts.
    at: usize,
    /// Elements of the tile.
    elements: usize,
}

/// Turns the byte planes of a tile into rows of bits.
type ToRows = fn(&[u8], Rows, &mut [u8]);

/// Turns rows of bits into the byte planes of a tile.
type FromRows = fn(&[u8], Rows, &mut [u8]);

fn vector_to_rows() -> Option<ToRows> {
    #[cfg(target_arch = "x86_64")]
    return avx2::to_rows();
    #[cfg(not(target_arch = "x86_64"))]
    None
}

fn vector_from_rows() -> Option<FromRows> {
    #[cfg(target_arch = "x86_64")]
    return avx2::from_rows();
    #[cfg(not(target_arch = "x86_64"))]
    None
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    #![expect(unsafe_code, reason = "AVX2 loads and stores on checked ranges")]

    use std::arch::x86_64::*;

    use super::super::registers::{from_planes, load_halves, store_halves, to_planes};
    use super::{FromRows, Rows, STEP_ELEMENTS, ToRows};

    /// Bytes of a row that a step covers: one register.
    const STEP_BYTES: usize = STEP_ELEMENTS / 8;

    pub(super) fn to_rows() -> Option<ToRows> {
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni") {
            // SAFETY: the CPU has AVX2 and GFNI.
            return Some(|planes, place, rows| unsafe { to_rows_gfni(planes, place, rows) });
        }
        // SAFETY: the CPU has AVX2.
        is_x86_feature_detected!("avx2").then_some(|planes, place, rows| unsafe {
            to_rows_avx2(planes, place, rows);
        })
    }

    pub(super) fn from_rows() -> Option<FromRows> {
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni") {
            // SAFETY: the CPU has AVX2 and GFNI.
            return Some(|rows, place, planes| unsafe { from_rows_gfni(rows, place, planes) });
        }
        // SAFETY: the CPU has AVX2.
        is_x86_feature_detected!("avx2").then_some(|rows, place, planes| unsafe {
            from_rows_avx2(rows, place, planes);
        })
    }

    /// Calls `step` with the offset of each step's elements in the planes and of its first row in the rows; checks
    /// that all of them lie inside.
    #[inline(always)]
    fn for_each_step(planes: usize, place: Rows, rows: usize, mut step: impl FnMut(usize, usize)) {
        let Rows { row_bytes, at, elements } = place;
        let bytes = planes / elements;
        assert!(bytes * 8 * row_bytes <= rows, "a row for each bit");
        assert!(at + elements / 8 <= row_bytes, "a tile inside the row");
        for byte in 0..bytes {
            for index in 0..elements / STEP_ELEMENTS {
                step(byte * elements + index * STEP_ELEMENTS, byte * 8 * row_bytes + at + index * STEP_BYTES);
            }
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn to_rows_avx2(planes: &[u8], place: Rows, rows: &mut [u8]) {
        for_each_step(planes.len(), place, rows.len(), |plane, row| {
            // SAFETY: both offsets were checked; register `m` holds elements `m`, `m + 8`, `m + 16` ...
            unsafe {
                let elements = to_planes::<8, 2>(load_halves::<8>(planes.as_ptr().add(plane)));
                store_rows(transpose_registers(elements), place.row_bytes, rows.as_mut_ptr().add(row));
            }
        });
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn from_rows_avx2(rows: &[u8], place: Rows, planes: &mut [u8]) {
        for_each_step(planes.len(), place, rows.len(), |plane, row| {
            // SAFETY: both offsets were checked.
            unsafe {
                let elements = transpose_registers(load_rows(place.row_bytes, rows.as_ptr().add(row)));
                store_halves(from_planes(elements), planes.as_mut_ptr().add(plane));
            }
        });
    }

    #[target_feature(enable = "avx2,gfni")]
    pub(super) fn to_rows_gfni(planes: &[u8], place: Rows, rows: &mut [u8]) {
        for_each_step(planes.len(), place, rows.len(), |plane, row| {
            // SAFETY: both offsets were checked.
            unsafe {
                let elements = transpose_lanes(load_halves::<8>(planes.as_ptr().add(plane)));
                store_rows(to_planes::<8, 2>(elements), place.row_bytes, rows.as_mut_ptr().add(row));
            }
        });
    }

    #[target_feature(enable = "avx2,gfni")]
    pub(super) fn from_rows_gfni(rows: &[u8], place: Rows, planes: &mut [u8]) {
        for_each_step(planes.len(), place, rows.len(), |plane, row| {
            // SAFETY: both offsets were checked.
            unsafe {
                let elements = from_planes(load_rows(place.row_bytes, rows.as_ptr().add(row)));
                store_halves(transpose_lanes(elements), planes.as_mut_ptr().add(plane));
            }
        });
    }

    /// Loads the same 32 bytes of eight rows.
    ///
    /// # Safety
    ///
    /// `7 * row_bytes + 32` bytes must be readable at `rows`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load_rows(row_bytes: usize, rows: *const u8) -> [__m256i; 8] {
        let mut registers = [_mm256_setzero_si256(); 8];
        for (bit, register) in registers.iter_mut().enumerate() {
            // SAFETY: the caller vouches for the rows.
            *register = unsafe { _mm256_loadu_si256(rows.add(bit * row_bytes).cast()) };
        }
        registers
    }

    /// Stores what [`load_rows`] loads.
    ///
    /// # Safety
    ///
    /// `7 * row_bytes + 32` bytes must be writable at `rows`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store_rows(registers: [__m256i; 8], row_bytes: usize, rows: *mut u8) {
        for (bit, register) in registers.iter().enumerate() {
            // SAFETY: the caller vouches for the rows.
            unsafe { _mm256_storeu_si256(rows.add(bit * row_bytes).cast(), *register) };
        }
    }

    /// Transposes the 8 x 8 bits that the registers hold in each byte position, one row a register.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn transpose_registers(mut r: [__m256i; 8]) -> [__m256i; 8] {
        for (low, high) in [(0, 4), (1, 5), (2, 6), (3, 7)] {
            (r[low], r[high]) = swap_bits::<4>(r[low], r[high], 0x0f);
        }
        for (low, high) in [(0, 2), (1, 3), (4, 6), (5, 7)] {
            (r[low], r[high]) = swap_bits::<2>(r[low], r[high], 0x33);
        }
        for (low, high) in [(0, 1), (2, 3), (4, 5), (6, 7)] {
            (r[low], r[high]) = swap_bits::<1>(r[low], r[high], 0x55);
        }
        r
    }

    /// Exchanges the bits of `low` that lie `SHIFT` above `mask` with the bits of `high` under `mask`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn swap_bits<const SHIFT: i32>(low: __m256i, high: __m256i, mask: i8) -> (__m256i, __m256i) {
        let differing = _mm256_xor_si256(_mm256_srli_epi64::<SHIFT>(low), high);
        let differing = _mm256_and_si256(differing, _mm256_set1_epi8(mask));
        let low = _mm256_xor_si256(low, _mm256_slli_epi64::<SHIFT>(differing));
        (low, _mm256_xor_si256(high, differing))
    }

    /// Transposes the 8 x 8 bits that each 8 bytes hold, one row a byte.
    #[inline]
    #[target_feature(enable = "avx2,gfni")]
    fn transpose_lanes(mut registers: [__m256i; 8]) -> [__m256i; 8] {
        // The instruction multiplies the identity by the matrix of each lane, whose last byte is row 0.
        let identity = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
        let reversed =
            _mm256_broadcastsi128_si256(_mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
        for register in &mut registers {
            let matrix = _mm256_shuffle_epi8(*register, reversed);
            *register = _mm256_gf2p8affine_epi64_epi8::<0>(identity, matrix);
        }
        registers
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bit shuffle as the definition has it.
    fn bit_shuffled(type_size: usize, src: &[u8]) -> Vec<u8> {
        let count = src.len() / type_size;
        if !count.is_multiple_of(8) {
            return src.to_vec();
        }
        let mut rows = vec![0; count * type_size];
        for row in 0..type_size * 8 {
            for element in 0..count {
                let bit = src[element * type_size + row / 8] >> (row % 8) & 1;
                rows[(row * count + element) / 8] |= bit << (element % 8);
            }
        }
        rows.extend_from_slice(&src[count * type_size..]);
        rows
    }

    /// A type size and bytes for it: whole groups of 8 elements and a few bytes more, or any length.
    fn cases() -> impl Strategy<Value = (usize, Vec<u8>)> {
        let type_size = prop_oneof![prop::sample::select(vec![1, 2, 4, 8, 16]), 1..=20usize, Just(255)];
        (type_size, prop_oneof![0..100usize, 250..800usize], 0..20usize).prop_flat_map(
            |(type_size, groups, more)| {
                let len = groups * 8 * type_size + more;
                (Just(type_size), prop::collection::vec(any::<u8>(), len.min(20_000)))
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn gathers_bits_into_rows((type_size, src) in cases()) {
            let mut scratch = Vec::new();
            let mut rows = vec![0; src.len()];
            bit_shuffle(type_size, &src, &mut rows, &mut scratch);
            prop_assert_eq!(&rows, &bit_shuffled(type_size, &src));
            let mut elements = vec![0; src.len()];
            bit_unshuffle(type_size, &rows, &mut elements, &mut scratch);
            prop_assert_eq!(&elements, &src);
        }

        #[test]
        fn scalar_twin_agrees((type_size, src) in cases()) {
            prop_assume!(src.len() / type_size % 8 == 0);
            let mut rows = vec![0; src.len()];
            bit_shuffle_from(0, type_size, &src, &mut rows);
            prop_assert_eq!(&rows, &bit_shuffled(type_size, &src));
            let mut elements = vec![0; src.len()];
            bit_unshuffle_from(0, type_size, &rows, &mut elements);
            prop_assert_eq!(&elements, &src);
        }

        #[test]
        #[cfg(target_arch = "x86_64")]
        #[expect(unsafe_code, reason = "calls both vector forms where the CPU has them")]
        fn avx2_and_gfni_agree(planes in prop::collection::vec(any::<u8>(), 3 * 2 * STEP_ELEMENTS)) {
            // to reject every case would be a failure
            if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni")) {
                return Ok(());
            }
            let place = Rows { row_bytes: 64, at: 0, elements: 512 };
            let (mut rows, mut twin) = (vec![0; planes.len()], vec![0; planes.len()]);
            // SAFETY: the CPU has both.
            unsafe {
                avx2::to_rows_avx2(&planes, place, &mut rows);
                avx2::to_rows_gfni(&planes, place, &mut twin);
            }
            prop_assert_eq!(&rows, &twin);
            let mut back = vec![0; planes.len()];
            // SAFETY: the CPU has both.
            unsafe {
                avx2::from_rows_avx2(&rows, place, &mut back);
                avx2::from_rows_gfni(&rows, place, &mut twin);
            }
            prop_assert_eq!(&back, &planes);
            prop_assert_eq!(&twin, &planes);
        }
    }
}
