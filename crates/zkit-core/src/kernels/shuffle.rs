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

    /// Elements that pass through a buffer together where planes lie a power of two apart: all their lines then fall
    /// into one set of the first-level cache, which has fewer ways than there are planes, so whole lines must be
    /// touched at once.
    const STAGE: usize = 512;

    /// Returns whether lines of different planes of `count` bytes fall into the same sets of the first-level cache.
    fn planes_collide(count: usize) -> bool {
        count.is_multiple_of(4096)
    }

    /// Shuffles whole steps of elements of `M` bytes; `G` is `16 / M`, the elements in 16 bytes.
    #[target_feature(enable = "avx2")]
    fn shuffle_typed<const M: usize, const G: usize>(src: &[u8], dst: &mut [u8]) -> usize {
        assert_eq!(src.len(), dst.len());
        let count = src.len() / M;
        let done = count - count % STEP;
        let mut first = 0;
        // SAFETY: `first + STEP <= count` or `first + STAGE <= count`, so that many elements follow in `src`, and
        // each of the `M` planes of `count` bytes in `dst` has that many bytes from `first` on.
        unsafe {
            let (src, dst) = (src.as_ptr(), dst.as_mut_ptr());
            if M >= 8 && planes_collide(count) {
                let mut stage = [[0_u8; STAGE]; M];
                while first + STAGE <= count {
                    for step in (0..STAGE).step_by(STEP) {
                        let stage = stage.as_mut_ptr().cast::<u8>().add(step);
                        shuffle_step::<M, G>(src.add((first + step) * M), stage, STAGE);
                    }
                    for (byte, plane) in stage.iter().enumerate() {
                        dst.add(byte * count + first).cast::<[u8; STAGE]>().write(*plane);
                    }
                    first += STAGE;
                }
            }
            while first < done {
                shuffle_step::<M, G>(src.add(first * M), dst.add(first), count);
                first += STEP;
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
        let mut first = 0;
        // SAFETY: `first + STEP <= count` or `first + STAGE <= count`, so each of the `M` planes of `count` bytes in
        // `src` has that many bytes from `first` on, and that many elements follow in `dst`.
        unsafe {
            let (src, dst) = (src.as_ptr(), dst.as_mut_ptr());
            if M >= 16 && planes_collide(count) {
                let mut stage = [[0_u8; STAGE]; M];
                while first + STAGE <= count {
                    for (byte, plane) in stage.iter_mut().enumerate() {
                        *plane = src.add(byte * count + first).cast::<[u8; STAGE]>().read();
                    }
                    for step in (0..STAGE).step_by(STEP) {
                        let stage = stage.as_ptr().cast::<u8>().add(step);
                        unshuffle_step::<M>(stage, STAGE, dst.add((first + step) * M));
                    }
                    first += STAGE;
                }
            }
            while first < done {
                unshuffle_step::<M>(src.add(first), count, dst.add(first * M));
                first += STEP;
            }
        }
        done
    }

    /// Shuffles one step of elements into planes that lie `plane_bytes` apart.
    ///
    /// # Safety
    ///
    /// `STEP * M` bytes must be readable at `src`, and `STEP` writable in each plane.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn shuffle_step<const M: usize, const G: usize>(src: *const u8, dst: *mut u8, plane_bytes: usize) {
        // SAFETY: the caller vouches for all of it.
        unsafe {
            for (byte, plane) in to_planes::<M, G>(load_halves(src)).iter().enumerate() {
                _mm256_storeu_si256(dst.add(byte * plane_bytes).cast(), *plane);
            }
        }
    }

    /// Unshuffles one step of elements from planes that lie `plane_bytes` apart.
    ///
    /// # Safety
    ///
    /// `STEP` bytes must be readable in each plane, and `STEP * M` writable at `dst`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn unshuffle_step<const M: usize>(src: *const u8, plane_bytes: usize, dst: *mut u8) {
        let mut planes = [_mm256_setzero_si256(); M];
        // SAFETY: the caller vouches for all of it.
        unsafe {
            for (byte, plane) in planes.iter_mut().enumerate() {
                *plane = _mm256_loadu_si256(src.add(byte * plane_bytes).cast());
            }
            store_halves(from_planes(planes), dst);
        }
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

    /// Bytes of any number, or so many that planes collide in the cache.
    fn buffers() -> impl Strategy<Value = Vec<u8>> {
        let len = prop_oneof![3 => 0..3000usize, 1 => prop::sample::select(vec![32768, 32768 + 3, 65536, 3 * 65536 + 5])];
        len.prop_flat_map(|len| prop::collection::vec(any::<u8>(), len))
    }

    fn type_sizes() -> impl Strategy<Value = usize> {
        prop_oneof![prop::sample::select(vec![1, 2, 4, 8, 16]), 1..=255usize]
    }

    proptest! {
        #[test]
        fn gathers_bytes_into_planes(type_size in type_sizes(), src in buffers()) {
            let mut planes = vec![0; src.len()];
            shuffle(type_size, &src, &mut planes);
            prop_assert_eq!(&planes, &shuffled(type_size, &src));
            let mut elements = vec![0; src.len()];
            unshuffle(type_size, &planes, &mut elements);
            prop_assert_eq!(&elements, &src);
        }

        #[test]
        fn vectors_and_scalars_agree(type_size in type_sizes(), src in buffers()) {
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
