//! Regions set to one value.

#![expect(unsafe_code, reason = "raw loads and stores inside regions that were checked as a whole")]

use super::layout::{
    Dimension, INLINE_RANK, OutOfBounds, Simplified, Strided, check, dimension_buffer, simplified,
};
use super::region::each;

/// Sets every item of a region to `item`.
///
/// # Errors
///
/// As [`copy_strided`](super::copy_strided).
pub fn fill_strided(
    item: &[u8],
    shape: &[usize],
    dst: &mut [u8],
    dst_layout: Strided<'_>,
) -> Result<(), OutOfBounds> {
    check(item.len(), shape, dst_layout, dst.len(), "destination")?;
    if item.is_empty() || shape.contains(&0) {
        return Ok(());
    }
    let mut inline = [Dimension::ONE; INLINE_RANK];
    let mut heap = Vec::new();
    let dimensions = dimension_buffer(shape.len(), &mut inline, &mut heap);
    for (index, dimension) in dimensions.iter_mut().enumerate() {
        *dimension = Dimension { count: shape[index], src: 0, dst: dst_layout.strides[index] };
    }
    let Simplified { mut dimensions, dst_offset, .. } = simplified(dimensions);
    let mut run = item.len();
    if let [outer @ .., last] = dimensions
        && last.dst.unsigned_abs() == run
    {
        run *= last.count;
        dimensions = outer;
    }
    let pattern = Pattern::new(item);
    // SAFETY: every position of the region was found inside the slice, and simplification keeps the set of
    // positions; so each run, made of whole items, is inside too.
    unsafe {
        let dst = dst.as_mut_ptr().add(dst_layout.offset).offset(dst_offset);
        each(dimensions, dst.cast_const(), dst, &|_, at| {
            pattern.fill(std::slice::from_raw_parts_mut(at, run))
        });
    }
    Ok(())
}

/// Bytes of one item, repeated in a buffer where many fit.
struct Pattern<'a> {
    item: &'a [u8],
    items: [u8; PATTERN_BYTES],
    /// Bytes of the whole items in `items`.
    used: usize,
}

const PATTERN_BYTES: usize = 1024;

impl<'a> Pattern<'a> {
    fn new(item: &'a [u8]) -> Self {
        let mut items = [0; PATTERN_BYTES];
        let mut used = 0;
        for to in items.chunks_exact_mut(item.len()) {
            to.copy_from_slice(item);
            used += item.len();
        }
        Self { item, items, used }
    }

    /// Fills `run`, which is a whole number of items.
    fn fill(&self, run: &mut [u8]) {
        let items = if self.used == 0 { self.item } else { &self.items[..self.used] };
        for to in run.chunks_mut(items.len()) {
            to.copy_from_slice(&items[..to.len()]);
        }
    }
}
