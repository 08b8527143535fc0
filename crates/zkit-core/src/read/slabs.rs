//! An array as slabs: boxes that, one after the other, are the whole array in C order.

use crate::grid::{Region, product};

/// The slabs of an array.
///
/// Dimensions in front of `split` have length 1, `split` has up to `rows`, the others are whole; so a slab is a
/// run of the array's elements in C order, and slabs follow each other without gaps.
#[derive(Debug, Clone)]
pub struct Slabs {
    shape: Vec<u64>,
    split: usize,
    rows: u64,
    next: Option<Vec<u64>>,
}

/// Cuts an array into slabs of at most `slab_bytes`, at chunk borders where a whole row of chunks fits.
///
/// ```
/// use zkit_core::read::slabs_of;
///
/// let slabs: Vec<_> = slabs_of(&[10, 100], &[3, 100], 4, 3000).map(|slab| slab.shape[0]).collect();
/// assert_eq!(slabs, [6, 4]); // 7 rows would fit, 6 end where chunks do
/// ```
pub fn slabs_of(shape: &[u64], chunk_shape: &[u64], item_bytes: u64, slab_bytes: u64) -> Slabs {
    let empty = shape.contains(&0);
    let row_bytes = |split: usize| {
        product(&shape[split + 1..]).and_then(|elements| elements.checked_mul(item_bytes.max(1)))
    };
    let split = (0..shape.len())
        .find(|&split| row_bytes(split).is_some_and(|bytes| bytes <= slab_bytes))
        .unwrap_or(shape.len().saturating_sub(1));
    let rows = match shape.get(split) {
        Some(&length) => {
            let fitting = (slab_bytes / row_bytes(split).unwrap_or(u64::MAX).max(1)).clamp(1, length.max(1));
            let chunk = chunk_shape[split].max(1);
            if fitting < length && fitting >= chunk { fitting / chunk * chunk } else { fitting }
        }
        None => 1,
    };
    Slabs { shape: shape.to_vec(), split, rows, next: (!empty).then(|| vec![0; shape.len()]) }
}

impl Iterator for Slabs {
    type Item = Region;

    fn next(&mut self) -> Option<Region> {
        let start = self.next.take()?;
        let mut shape = self.shape.clone();
        shape[..self.split.min(start.len())].fill(1);
        if let Some(length) = shape.get_mut(self.split) {
            *length = self.rows.min(*length - start[self.split]);
        }
        self.next = self.following(&start, &shape);
        Some(Region { start, shape })
    }
}

impl Slabs {
    fn following(&self, start: &[u64], shape: &[u64]) -> Option<Vec<u64>> {
        let mut next = start.to_vec();
        if next.is_empty() {
            return None;
        }
        next[self.split] += shape[self.split];
        for dimension in (0..=self.split).rev() {
            if next[dimension] < self.shape[dimension] {
                return Some(next);
            }
            if dimension == 0 {
                return None;
            }
            next[dimension] = 0;
            next[dimension - 1] += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slabs_are_the_array_in_order(shape in proptest::collection::vec(0u64..7, 0..4), chunk in 1u64..5, bytes in 1u64..400) {
            let chunk_shape = vec![chunk; shape.len()];
            let total = product(&shape).unwrap();
            let mut at = 0;
            for slab in slabs_of(&shape, &chunk_shape, 2, bytes) {
                let first = slab.start.iter().zip(&shape).fold(0, |flat, (&index, &length)| flat * length + index);
                prop_assert_eq!(first, at);
                at += slab.elements().unwrap();
                let row = slab.shape.iter().rev().take_while(|&&length| length > 0).count();
                prop_assert_eq!(row, shape.len());
            }
            prop_assert_eq!(at, total);
        }
    }
}
