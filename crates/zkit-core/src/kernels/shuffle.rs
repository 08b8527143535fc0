//! Byte shuffle: element bytes of equal significance are gathered into planes, and back.
//!
//! The layout is that of c-blosc and numcodecs: `len / type_size` elements give `type_size` planes of one byte
//! per element; the `len % type_size` bytes after the last whole element keep their place.
//!
//! The vector form is a permutation of address bits. A group of 16 elements of `M = 2^k` bytes fills `M`
//! registers of 16 bytes; interleaving register `i` with register `i + M/2`, for every `i`, rotates the bits of
//! the byte address left by one. Elements become planes by four such steps, planes become elements by `k`; a
//! byte shuffle inside each register first lets the forward way do with `k` steps too.

/// Gathers the bytes of `src` into byte planes in `dst`.
///
/// # Panics
///
/// If `src` and `dst` differ in length.
pub fn shuffle(type_size: usize, src: &[u8], dst: &mut [u8]) {
    assert_eq!(src.len(), dst.len(), "shuffle keeps the length");
    if type_size <= 1 {
        return dst.copy_from_slice(src);
    }
    let done = vector_shuffle(type_size, src, dst);
    shuffle_from(done, type_size, src, dst);
}

/// Scatters the byte planes of `src` into elements in `dst`: the inverse of [`shuffle`].
///
/// # Panics
///
/// If `src` and `dst` differ in length.
pub fn unshuffle(type_size: usize, src: &[u8], dst: &mut [u8]) {
    assert_eq!(src.len(), dst.len(), "unshuffle keeps the length");
    if type_size <= 1 {
        return dst.copy_from_slice(src);
    }
    let done = vector_unshuffle(type_size, src, dst);
    unshuffle_from(done, type_size, src, dst);
}

/// Elements that the scalar loops take at once: their bytes stay in the first-level cache for all planes.
const BLOCK_ELEMENTS: usize = 64;

/// Shuffles the elements from `first` on, and the bytes after the last element.
fn shuffle_from(first: usize, type_size: usize, src: &[u8], dst: &mut [u8]) {
    let count = src.len() / type_size;
    for start in (first..count).step_by(BLOCK_ELEMENTS) {
        let end = count.min(start + BLOCK_ELEMENTS);
        let elements = &src[start * type_size..end * type_size];
        for byte in 0..type_size {
            let plane = &mut dst[byte * count + start..byte * count + end];
            for (to, element) in plane.iter_mut().zip(elements.chunks_exact(type_size)) {
                *to = element[byte];
            }
        }
    }
    let tail = count * type_size;
    dst[tail..].copy_from_slice(&src[tail..]);
}

/// Unshuffles the elements from `first` on, and the bytes after the last element.
fn unshuffle_from(first: usize, type_size: usize, src: &[u8], dst: &mut [u8]) {
    let count = src.len() / type_size;
    for start in (first..count).step_by(BLOCK_ELEMENTS) {
        let end = count.min(start + BLOCK_ELEMENTS);
        let elements = &mut dst[start * type_size..end * type_size];
        for byte in 0..type_size {
            let plane = &src[byte * count + start..byte * count + end];
            for (element, from) in elements.chunks_exact_mut(type_size).zip(plane) {
                element[byte] = *from;
            }
        }
    }
    let tail = count * type_size;
    dst[tail..].copy_from_slice(&src[tail..]);
}

/// Shuffles a prefix of the elements with vector instructions and returns how many.
fn vector_shuffle(type_size: usize, src: &[u8], dst: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    return avx2::shuffle(type_size, src, dst);
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Unshuffles a prefix of the elements with vector instructions and returns how many.
fn vector_unshuffle(type_size: usize, src: &[u8], dst: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    return avx2::unshuffle(type_size, src, dst);
    #[cfg(not(target_arch = "x86_64"))]
    0
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    #![expect(unsafe_code, reason = "AVX2 loads and stores on checked ranges")]

    use std::arch::x86_64::*;

    use super::super::registers::{from_planes, load_halves, store_halves, to_planes};

    /// Elements per step: two groups of 16, one in each half of a register.
    const STEP: usize = 32;

    pub(super) fn shuffle(type_size: usize, src: &[u8], dst: &mut [u8]) -> usize {
        if !is_x86_feature_detected!("avx2") {
            return 0;
        }
        // SAFETY: the CPU has AVX2.
        unsafe {
            match type_size {
                2 => shuffle_typed::<2, 8>(src, dst),
                4 => shuffle_typed::<4, 4>(src, dst),
                8 => shuffle_typed::<8, 2>(src, dst),
                16 => shuffle_typed::<16, 1>(src, dst),
                _ => 0,
            }
        }
    }

    pub(super) fn unshuffle(type_size: usize, src: &[u8], dst: &mut [u8]) -> usize {
        if !is_x86_feature_detected!("avx2") {
            return 0;
        }
        // SAFETY: the CPU has AVX2.
        unsafe {
            match type_size {
                2 => unshuffle_typed::<2>(src, dst),
                4 => unshuffle_typed::<4>(src, dst),
                8 => unshuffle_typed::<8>(src, dst),
                16 => unshuffle_typed::<16>(src, dst),
                _ => 0,
            }
        }
    }

    /// Shuffles whole steps of elements of `M` bytes; `G` is `16 / M`, the elements in 16 bytes.
    #[target_feature(enable = "avx2")]
    fn shuffle_typed<const M: usize, const G: usize>(src: &[u8], dst: &mut [u8]) -> usize {
        assert_eq!(src.len(), dst.len());
        let count = src.len() / M;
        let done = count - count % STEP;
        for element in (0..done).step_by(STEP) {
            // SAFETY: `element + STEP <= count`, so `STEP * M` bytes follow in `src`, and each of the `M` planes
            // of `count` bytes in `dst` has `STEP` bytes from `element` on.
            unsafe {
                let planes = to_planes::<M, G>(load_halves(src.as_ptr().add(element * M)));
                for (byte, plane) in planes.iter().enumerate() {
                    _mm256_storeu_si256(dst.as_mut_ptr().add(byte * count + element).cast(), *plane);
                }
            }
        }
        done
    }

    /// Unshuffles whole steps of elements of `M` bytes.
    #[target_feature(enable = "avx2")]
    fn unshuffle_typed<const M: usize>(src: &[u8], dst: &mut [u8]) -> usize {
        assert_eq!(src.len(), dst.len());
        let count = src.len() / M;
        let done = count - count % STEP;
        for element in (0..done).step_by(STEP) {
            let mut planes = [_mm256_setzero_si256(); M];
            // SAFETY: `element + STEP <= count`, so each of the `M` planes of `count` bytes in `src` has `STEP`
            // bytes from `element` on, and `STEP * M` bytes follow in `dst`.
            unsafe {
                for (byte, plane) in planes.iter_mut().enumerate() {
                    *plane = _mm256_loadu_si256(src.as_ptr().add(byte * count + element).cast());
                }
                store_halves(from_planes(planes), dst.as_mut_ptr().add(element * M));
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Byte shuffle as the definition has it.
    fn shuffled(type_size: usize, src: &[u8]) -> Vec<u8> {
        let count = src.len() / type_size;
        let mut planes: Vec<u8> =
            (0..count * type_size).map(|at| src[at % count * type_size + at / count]).collect();
        planes.extend_from_slice(&src[count * type_size..]);
        planes
    }

    fn type_sizes() -> impl Strategy<Value = usize> {
        prop_oneof![prop::sample::select(vec![1, 2, 4, 8, 16]), 1..=255usize]
    }

    proptest! {
        #[test]
        fn gathers_bytes_into_planes(type_size in type_sizes(), src in prop::collection::vec(any::<u8>(), 0..3000)) {
            let mut planes = vec![0; src.len()];
            shuffle(type_size, &src, &mut planes);
            prop_assert_eq!(&planes, &shuffled(type_size, &src));
            let mut elements = vec![0; src.len()];
            unshuffle(type_size, &planes, &mut elements);
            prop_assert_eq!(&elements, &src);
        }

        #[test]
        fn vectors_and_scalars_agree(type_size in type_sizes(), src in prop::collection::vec(any::<u8>(), 0..3000)) {
            let (mut vector, mut scalar) = (vec![0; src.len()], vec![0; src.len()]);
            shuffle(type_size, &src, &mut vector);
            shuffle_from(0, type_size, &src, &mut scalar);
            prop_assert_eq!(&vector, &scalar);
            unshuffle(type_size, &src, &mut vector);
            unshuffle_from(0, type_size, &src, &mut scalar);
            prop_assert_eq!(&vector, &scalar);
        }
    }
}
