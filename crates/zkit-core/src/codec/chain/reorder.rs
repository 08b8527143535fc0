//! Steps that move elements without changing them: byte order and the order of dimensions.

use super::compile::Chain;
use crate::codec::error::CodecError;
use crate::codec::variable::VariableElements;
use crate::kernels::copy::{Strided, c_strides, copy_strided};
use crate::kernels::swap::swap_bytes;
use crate::metadata::Swap;
use crate::units::saturating_usize;

impl Chain {
    /// Copies between the array's order (`shape`) and the stored one (its dimensions in `order`).
    pub(super) fn transpose(
        &self,
        order: &[usize],
        shape: &[usize],
        src: &[u8],
        dst: &mut [u8],
        direction: Direction,
    ) -> Result<(), CodecError> {
        let item = self.item_bytes.unwrap_or(1);
        let expected = shape.iter().product::<usize>() * item;
        if src.len() != expected || dst.len() != expected {
            return Err(CodecError::Size {
                codec: "transpose",
                found: src.len() as u64,
                expected: expected as u64,
            });
        }
        let stored_shape: Vec<usize> = order.iter().map(|&dimension| shape[dimension]).collect();
        let stored_strides = c_strides(&stored_shape, item);
        let array_strides = c_strides(shape, item);
        let mut stored = vec![0; shape.len()];
        for (position, &dimension) in order.iter().enumerate() {
            stored[dimension] = stored_strides[position];
        }
        let stored = Strided { offset: 0, strides: &stored };
        let array = Strided { offset: 0, strides: &array_strides };
        let (from, to) = match direction {
            Direction::Decode => (stored, array),
            Direction::Encode => (array, stored),
        };
        copy_strided(item, shape, src, from, dst, to)
            .map_err(|error| CodecError::corrupt("transpose", error.to_string()))
    }
}

/// Which way a transpose goes.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    Decode,
    Encode,
}

/// Turns the words of every item round.
pub(super) fn swap_items(swaps: &[Swap], item_bytes: usize, bytes: &mut [u8]) {
    if let [swap] = swaps
        && swap.offset == 0
        && saturating_usize(swap.count).saturating_mul(usize::from(swap.word_bytes)) == item_bytes
    {
        return swap_bytes(usize::from(swap.word_bytes), bytes);
    }
    for item in bytes.chunks_exact_mut(item_bytes.max(1)) {
        for swap in swaps {
            let start = saturating_usize(swap.offset);
            let length = saturating_usize(swap.count).saturating_mul(usize::from(swap.word_bytes));
            if let Some(words) = start.checked_add(length).and_then(|end| item.get_mut(start..end)) {
                swap_bytes(usize::from(swap.word_bytes), words);
            }
        }
    }
}

/// Returns elements stored with dimensions in `order` in the C order of `shape`.
pub(super) fn transposed_back(
    elements: &VariableElements,
    order: &[usize],
    shape: &[usize],
) -> VariableElements {
    let stored_shape: Vec<u64> = order.iter().map(|&dimension| shape[dimension] as u64).collect();
    let mut result = VariableElements::filled(&[], elements.len());
    let positions = (0..elements.len()).map(|from| {
        let stored = crate::grid::unravel(from as u64, &stored_shape);
        let mut index = vec![0; shape.len()];
        for (&dimension, &at) in order.iter().zip(&stored) {
            index[dimension] = saturating_usize(at);
        }
        let to = index.iter().zip(shape).fold(0, |flat, (&at, &length)| flat * length + at);
        (to, from)
    });
    result.place(elements, positions);
    result
}
