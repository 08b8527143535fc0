//! Byte order.

/// Reverses the bytes of each word of `word_size` bytes, in place; bytes after the last whole word stay.
pub fn swap_bytes(word_size: usize, data: &mut [u8]) {
    if word_size <= 1 {
        return;
    }
    let done = vector_swap(word_size, data);
    swap_scalar(word_size, &mut data[done..]);
}

fn swap_scalar(word_size: usize, data: &mut [u8]) {
    match word_size {
        2 => data.as_chunks_mut().0.iter_mut().for_each(|word: &mut [u8; 2]| word.reverse()),
        4 => data.as_chunks_mut().0.iter_mut().for_each(|word: &mut [u8; 4]| word.reverse()),
        8 => data.as_chunks_mut().0.iter_mut().for_each(|word: &mut [u8; 8]| word.reverse()),
        16 => data.as_chunks_mut().0.iter_mut().for_each(|word: &mut [u8; 16]| word.reverse()),
        _ => data.chunks_exact_mut(word_size).for_each(<[u8]>::reverse),
    }
}

/// Swaps a prefix of the words with vector instructions and returns its bytes.
fn vector_swap(word_size: usize, data: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    return avx2::swap(word_size, data);
    #[cfg(not(target_arch = "x86_64"))]
    0
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    #![expect(unsafe_code, reason = "AVX2 loads and stores on checked ranges")]

    use std::arch::x86_64::*;

    pub(super) fn swap(word_size: usize, data: &mut [u8]) -> usize {
        if !matches!(word_size, 2 | 4 | 8 | 16) || !is_x86_feature_detected!("avx2") {
            return 0;
        }
        let order: [u8; 16] = std::array::from_fn(|at| {
            let word = at / word_size * word_size;
            // below 16
            (word + word_size - 1 - (at - word)).to_le_bytes()[0]
        });
        // SAFETY: the CPU has AVX2.
        unsafe { reorder(order, data) }
    }

    /// Applies `order` to each 16 bytes, 32 at a time, and returns how many bytes that were.
    #[target_feature(enable = "avx2")]
    fn reorder(order: [u8; 16], data: &mut [u8]) -> usize {
        // SAFETY: `order` is 16 bytes.
        let order = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(order.as_ptr().cast()) });
        let (registers, _) = data.as_chunks_mut::<32>();
        for register in registers.iter_mut() {
            let at = register.as_mut_ptr().cast();
            // SAFETY: `register` is 32 bytes.
            unsafe { _mm256_storeu_si256(at, _mm256_shuffle_epi8(_mm256_loadu_si256(at), order)) };
        }
        registers.len() * 32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reverses_each_word_and_agrees_with_the_scalar_twin(
            word_size in prop_oneof![prop::sample::select(vec![2, 4, 8, 16]), 0..40usize],
            data in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut expected = data.clone();
            for word in expected.chunks_exact_mut(word_size.max(1)) {
                word.reverse();
            }
            let (mut swapped, mut scalar) = (data.clone(), data);
            swap_bytes(word_size, &mut swapped);
            swap_scalar(word_size.max(1), &mut scalar);
            prop_assert_eq!(&swapped, &expected);
            prop_assert_eq!(&scalar, &expected);
        }
    }
}
