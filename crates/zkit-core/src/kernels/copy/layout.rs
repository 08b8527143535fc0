//! Shapes and strides: where a region lies, whether it lies inside its buffer, and its simplest form.

use std::ops::Deref;

/// Where the items of a region lie in a buffer, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Strided<'a> {
    /// Position of the first item.
    pub offset: usize,
    /// Distance of neighbours along each dimension.
    pub strides: &'a [isize],
}

/// A region that reaches outside its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("region reaches outside the {buffer} of {len} bytes")]
pub struct OutOfBounds {
    /// `source` or `destination`.
    pub buffer: &'static str,
    /// Bytes of the buffer.
    pub len: usize,
}

/// Rank up to which strides need no allocation.
pub(super) const INLINE_RANK: usize = 8;

/// The strides of a whole array.
#[derive(Debug, Clone)]
pub struct Strides(Inner);

#[derive(Debug, Clone)]
enum Inner {
    Inline([isize; INLINE_RANK], usize),
    Heap(Vec<isize>),
}

impl Deref for Strides {
    type Target = [isize];

    fn deref(&self) -> &[isize] {
        match &self.0 {
            Inner::Inline(strides, rank) => &strides[..*rank],
            Inner::Heap(strides) => strides,
        }
    }
}

/// Returns the strides of an array in C order: the last dimension is contiguous.
pub fn c_strides(shape: &[usize], item_size: usize) -> Strides {
    contiguous_strides(shape, item_size, (0..shape.len()).rev())
}

/// Returns the strides of an array in Fortran order: the first dimension is contiguous.
pub fn f_strides(shape: &[usize], item_size: usize) -> Strides {
    contiguous_strides(shape, item_size, 0..shape.len())
}

fn contiguous_strides(shape: &[usize], item_size: usize, order: impl Iterator<Item = usize>) -> Strides {
    let rank = shape.len();
    let mut strides = if rank <= INLINE_RANK {
        Strides(Inner::Inline([0; INLINE_RANK], rank))
    } else {
        Strides(Inner::Heap(vec![0; rank]))
    };
    let to = match &mut strides.0 {
        Inner::Inline(strides, rank) => &mut strides[..*rank],
        Inner::Heap(strides) => strides,
    };
    let mut stride = item_size;
    for dimension in order {
        // where a stride saturates no buffer is large enough, which the check of bounds finds
        to[dimension] = isize::try_from(stride).unwrap_or(isize::MAX);
        stride = stride.saturating_mul(shape[dimension]);
    }
    strides
}

/// Checks that each item of a region lies inside `len` bytes.
pub(super) fn check(
    item_size: usize,
    shape: &[usize],
    layout: Strided<'_>,
    len: usize,
    buffer: &'static str,
) -> Result<(), OutOfBounds> {
    let out_of_bounds = OutOfBounds { buffer, len };
    if layout.strides.len() != shape.len() {
        return Err(out_of_bounds);
    }
    if shape.contains(&0) {
        return Ok(());
    }
    let (mut before, mut after) = (0_usize, Some(item_size));
    for (&count, &stride) in shape.iter().zip(layout.strides) {
        let reach = stride.unsigned_abs().checked_mul(count - 1).ok_or(out_of_bounds)?;
        if stride < 0 {
            before = before.checked_add(reach).ok_or(out_of_bounds)?;
        } else {
            after = after.and_then(|after| after.checked_add(reach));
        }
    }
    let end = after.and_then(|after| after.checked_add(layout.offset));
    if before <= layout.offset && end.is_some_and(|end| end <= len) { Ok(()) } else { Err(out_of_bounds) }
}

/// One dimension of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dimension {
    pub(super) count: usize,
    pub(super) src: isize,
    pub(super) dst: isize,
}

impl Dimension {
    pub(super) const ONE: Self = Self { count: 1, src: 0, dst: 0 };
}

pub(super) fn dimension_buffer<'a>(
    rank: usize,
    inline: &'a mut [Dimension; INLINE_RANK],
    heap: &'a mut Vec<Dimension>,
) -> &'a mut [Dimension] {
    if rank <= INLINE_RANK {
        return &mut inline[..rank];
    }
    heap.resize(rank, Dimension::ONE);
    heap
}

/// Dimensions from the largest stride in the destination to the smallest, as few as possible.
pub(super) struct Simplified<'a> {
    pub(super) dimensions: &'a [Dimension],
    /// What to add to the position of the first item, as dimensions were turned around.
    pub(super) src_offset: isize,
    pub(super) dst_offset: isize,
}

pub(super) fn simplified(dimensions: &mut [Dimension]) -> Simplified<'_> {
    let (mut src_offset, mut dst_offset) = (0, 0);
    for dimension in dimensions.iter_mut().filter(|dimension| dimension.dst < 0 && dimension.count > 1) {
        // with more than one item, the check of bounds has found these products below the buffers' lengths
        let last = dimension.count.cast_signed() - 1;
        src_offset += dimension.src * last;
        dst_offset += dimension.dst * last;
        (dimension.src, dimension.dst) = (-dimension.src, -dimension.dst);
    }
    let single = |dimension: &Dimension| dimension.count == 1;
    let larger = |dimension: &Dimension| (dimension.dst.unsigned_abs(), dimension.src.unsigned_abs());
    dimensions.sort_unstable_by_key(|dimension| (single(dimension), std::cmp::Reverse(larger(dimension))));
    let used = dimensions.iter().position(single).unwrap_or(dimensions.len());
    let mut kept = 0;
    for index in 0..used {
        let inner = dimensions[index];
        if kept > 0 && dimensions[kept - 1].continues(inner) {
            dimensions[kept - 1] = Dimension { count: dimensions[kept - 1].count * inner.count, ..inner };
        } else {
            dimensions[kept] = inner;
            kept += 1;
        }
    }
    Simplified { dimensions: &dimensions[..kept], src_offset, dst_offset }
}

impl Dimension {
    /// Returns whether a step along this dimension is as far as a walk along all of `inner`, on both sides.
    fn continues(self, inner: Self) -> bool {
        let walk = |stride: isize| stride.checked_mul(inner.count.cast_signed());
        let counts = self.count.checked_mul(inner.count);
        walk(inner.src) == Some(self.src) && walk(inner.dst) == Some(self.dst) && counts.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_contiguous_strides() {
        assert_eq!(&*c_strides(&[2, 3, 5], 4), [60, 20, 4]);
        assert_eq!(&*f_strides(&[2, 3, 5], 4), [4, 8, 24]);
        assert_eq!(&*c_strides(&[], 4), [0_isize; 0]);
        assert_eq!(c_strides(&[2; 10], 1)[0], 512);
        assert_eq!(c_strides(&[usize::MAX; 3], 8)[0], isize::MAX);
    }
}
