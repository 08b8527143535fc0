//! Copies of a region: by runs of bytes, or by typed items.

#![expect(unsafe_code, reason = "raw loads and stores inside regions that were checked as a whole")]

use super::layout::{
    Dimension, INLINE_RANK, OutOfBounds, Simplified, Strided, check, dimension_buffer, simplified,
};
use super::transpose::{Plane, copy_plane};

/// Copies the items of one region to another of the same shape; `shape` may be empty: one item.
///
/// Where items of the destination overlap, which of them is seen later is not defined.
///
/// # Errors
///
/// [`OutOfBounds`] before anything is written, where either region is not inside its buffer or its strides are
/// not as many as the dimensions. A region without items is inside any buffer.
pub fn copy_strided(
    item_size: usize,
    shape: &[usize],
    src: &[u8],
    src_layout: Strided<'_>,
    dst: &mut [u8],
    dst_layout: Strided<'_>,
) -> Result<(), OutOfBounds> {
    check(item_size, shape, src_layout, src.len(), "source")?;
    check(item_size, shape, dst_layout, dst.len(), "destination")?;
    // SAFETY: every item of both regions was found inside its slice, and the slices do not overlap as one of them
    // is borrowed mutably.
    unsafe {
        let src = src.as_ptr().wrapping_add(src_layout.offset);
        let dst = dst.as_mut_ptr().wrapping_add(dst_layout.offset);
        copy_items(item_size, shape, (src, src_layout.strides), (dst, dst_layout.strides));
    }
    Ok(())
}

/// Copies the items of one region to another, given the first item and the strides of both.
///
/// # Safety
///
/// Every item of the source must be readable and every one of the destination writable, by this thread alone; the
/// two are disjoint.
pub(super) unsafe fn copy_items(
    item_size: usize,
    shape: &[usize],
    (src, src_strides): (*const u8, &[isize]),
    (dst, dst_strides): (*mut u8, &[isize]),
) {
    if item_size == 0 || shape.contains(&0) {
        return;
    }
    let mut inline = [Dimension::ONE; INLINE_RANK];
    let mut heap = Vec::new();
    let dimensions = dimension_buffer(shape.len(), &mut inline, &mut heap);
    for (index, dimension) in dimensions.iter_mut().enumerate() {
        *dimension = Dimension { count: shape[index], src: src_strides[index], dst: dst_strides[index] };
    }
    let Simplified { dimensions, src_offset, dst_offset } = simplified(dimensions);
    let (dimensions, item_size) = absorb_run(dimensions, item_size);
    // SAFETY: the caller vouches for all items; simplification keeps the set of positions.
    unsafe {
        let src = src.offset(src_offset);
        let dst = dst.offset(dst_offset);
        match item_size {
            1 => copy_typed::<1, 16>(dimensions, src, dst),
            2 => copy_typed::<2, 8>(dimensions, src, dst),
            4 => copy_typed::<4, 4>(dimensions, src, dst),
            8 => copy_typed::<8, 2>(dimensions, src, dst),
            16 => copy_typed::<16, 1>(dimensions, src, dst),
            _ => copy_runs(dimensions, item_size, src, dst),
        }
    }
}

/// Takes a last dimension that is contiguous on both sides into the item.
fn absorb_run(dimensions: &[Dimension], item_size: usize) -> (&[Dimension], usize) {
    let contiguous = isize::try_from(item_size).ok();
    match dimensions {
        [outer @ .., last] if Some(last.src) == contiguous && Some(last.dst) == contiguous => {
            (outer, item_size * last.count)
        }
        _ => (dimensions, item_size),
    }
}

/// Calls `kernel` for each position of `dimensions`.
///
/// # Safety
///
/// All positions must be inside the allocations of `src` and `dst`.
pub(super) unsafe fn each(
    dimensions: &[Dimension],
    src: *const u8,
    dst: *mut u8,
    kernel: &impl Fn(*const u8, *mut u8),
) {
    let [outer, inner @ ..] = dimensions else {
        return kernel(src, dst);
    };
    for index in 0..outer.count.cast_signed() {
        // SAFETY: the caller vouches for all positions.
        unsafe { each(inner, src.offset(outer.src * index), dst.offset(outer.dst * index), kernel) };
    }
}

/// Copies runs of `run` bytes.
///
/// # Safety
///
/// `run` bytes must be readable at each position of `src` and writable at each of `dst`; the two are disjoint.
unsafe fn copy_runs(dimensions: &[Dimension], run: usize, src: *const u8, dst: *mut u8) {
    let (outer, line) = dimensions.split_at(dimensions.len().saturating_sub(1));
    let line = line.first().copied().unwrap_or(Dimension::ONE);
    let kernel = |src: *const u8, dst: *mut u8| {
        for index in 0..line.count.cast_signed() {
            // SAFETY: the caller vouches for all positions.
            unsafe { copy_run(src.offset(line.src * index), dst.offset(line.dst * index), run) };
        }
    };
    // SAFETY: the caller vouches for all positions.
    unsafe { each(outer, src, dst, &kernel) };
}

/// Copies `len` bytes; short runs without the call that `memcpy` is.
///
/// # Safety
///
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline]
unsafe fn copy_run(src: *const u8, dst: *mut u8, len: usize) {
    const STEP: usize = 32;
    const SHORT: usize = 8 * STEP;
    // SAFETY: the caller vouches for `len` bytes; the last step ends with them, and overlaps the one before.
    unsafe {
        if !(STEP..=SHORT).contains(&len) {
            return std::ptr::copy_nonoverlapping(src, dst, len);
        }
        for at in (0..len - STEP).step_by(STEP) {
            copy_item::<STEP>(src.add(at), dst.add(at));
        }
        copy_item::<STEP>(src.add(len - STEP), dst.add(len - STEP));
    }
}

/// Copies items of `SIZE` bytes, `PER_LANE` of which are 16 bytes.
///
/// # Safety
///
/// As for [`copy_runs`] with runs of `SIZE` bytes.
unsafe fn copy_typed<const SIZE: usize, const PER_LANE: usize>(
    dimensions: &[Dimension],
    src: *const u8,
    dst: *mut u8,
) {
    let Some(last) = dimensions.len().checked_sub(1) else {
        // SAFETY: the caller vouches for the one position.
        return unsafe { copy_item::<SIZE>(src, dst) };
    };
    let along_dst = dimensions[last];
    let fastest = |dimension: &Dimension| match dimension.src {
        0 => usize::MAX, // repeated items need no order
        stride => stride.unsigned_abs(),
    };
    let along_src = (0..=last).rev().min_by_key(|index| fastest(&dimensions[*index])).unwrap_or(last);
    // SAFETY: the caller vouches for all positions.
    unsafe {
        if along_src == last {
            let kernel = |src, dst| copy_line::<SIZE>(along_dst, src, dst);
            return each(&dimensions[..last], src, dst, &kernel);
        }
        let plane = Plane { columns: dimensions[along_src], rows: along_dst };
        let kernel = |src, dst| copy_plane::<SIZE, PER_LANE>(plane, src, dst);
        let within = |src, dst| each(&dimensions[along_src + 1..last], src, dst, &kernel);
        each(&dimensions[..along_src], src, dst, &within);
    }
}

/// Copies a line of items.
///
/// # Safety
///
/// As for [`copy_runs`] with runs of `SIZE` bytes.
#[inline]
pub(super) unsafe fn copy_line<const SIZE: usize>(line: Dimension, src: *const u8, dst: *mut u8) {
    // SAFETY: the caller vouches for all positions.
    unsafe {
        if line.dst == SIZE.cast_signed() {
            for index in 0..line.count.cast_signed() {
                copy_item::<SIZE>(src.offset(line.src * index), dst.add(SIZE * index.cast_unsigned()));
            }
        } else {
            for index in 0..line.count.cast_signed() {
                copy_item::<SIZE>(src.offset(line.src * index), dst.offset(line.dst * index));
            }
        }
    }
}

/// Copies one item of `SIZE` bytes.
///
/// # Safety
///
/// `SIZE` bytes must be readable at `src` and writable at `dst`.
#[inline(always)]
pub(super) unsafe fn copy_item<const SIZE: usize>(src: *const u8, dst: *mut u8) {
    // SAFETY: arrays of bytes have no alignment and no invalid values; the caller vouches for the range.
    unsafe { dst.cast::<[u8; SIZE]>().write(src.cast::<[u8; SIZE]>().read()) };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fill_strided;
    use super::*;

    /// Copies item by item, as the definition has it.
    fn copied(
        item_size: usize,
        shape: &[usize],
        (src, src_layout): (&[u8], Strided<'_>),
        (dst, dst_layout): (&mut [u8], Strided<'_>),
    ) {
        let position = |layout: Strided<'_>, mut item: usize| {
            let mut at = layout.offset.cast_signed();
            for (count, stride) in shape.iter().zip(layout.strides).rev() {
                at += stride * (item % count).cast_signed();
                item /= count;
            }
            at.cast_unsigned()
        };
        for item in 0..shape.iter().product() {
            let (from, to) = (position(src_layout, item), position(dst_layout, item));
            dst[to..to + item_size].copy_from_slice(&src[from..from + item_size]);
        }
    }

    /// A buffer with a region in it: shape, order and direction of its dimensions, and gaps around items.
    #[derive(Debug, Clone)]
    struct Region {
        strides: Vec<isize>,
        offset: usize,
        len: usize,
    }

    /// Lays out `shape` with dimension `order[0]` innermost; `gaps` are items left free after each dimension.
    fn region(
        item_size: usize,
        shape: &[usize],
        order: &[usize],
        gaps: &[usize],
        backwards: &[bool],
    ) -> Region {
        let mut strides = vec![0; shape.len()];
        let (mut stride, mut offset) = (item_size, 0);
        for &dimension in order {
            strides[dimension] = stride.cast_signed();
            if backwards[dimension] {
                strides[dimension] = -strides[dimension];
                offset += stride * (shape[dimension] - 1);
            }
            stride = stride * shape[dimension] + gaps[dimension] * item_size;
        }
        Region { strides, offset: offset + 3, len: stride + 3 }
    }

    fn regions() -> impl Strategy<Value = (usize, Vec<usize>, Region, Region)> {
        let item_size = prop_oneof![prop::sample::select(vec![1_usize, 2, 4, 8, 16]), 1..40_usize];
        let shape = prop_oneof![
            prop::collection::vec(1..6_usize, 0..6),
            prop::collection::vec(1..70_usize, 2),
            prop::collection::vec(1..24_usize, 3),
            Just(vec![2; 10]),
        ];
        (item_size, shape).prop_flat_map(|(item_size, shape)| {
            let rank = shape.len();
            let order = || Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
            let gaps = || {
                prop_oneof![
                    Just(vec![0; rank]),
                    prop::collection::vec(prop_oneof![3 => Just(0), 1 => 0..3_usize], rank)
                ]
            };
            let backwards = || {
                prop_oneof![
                    2 => Just(vec![false; rank]),
                    1 => prop::collection::vec(prop::bool::weighted(0.3), rank)
                ]
            };
            let layout = || (order(), gaps(), backwards());
            (Just(item_size), Just(shape), layout(), layout()).prop_map(|(item_size, shape, from, to)| {
                let src = region(item_size, &shape, &from.0, &from.1, &from.2);
                let dst = region(item_size, &shape, &to.0, &to.1, &to.2);
                (item_size, shape, src, dst)
            })
        })
    }

    fn numbered(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 167 + at / 251).to_le_bytes()[0]).collect()
    }

    proptest! {
        #[test]
        fn copies_what_an_item_loop_copies((item_size, shape, from, to) in regions()) {
            let src = numbered(from.len);
            let (mut dst, mut expected) = (vec![0xaa; to.len], vec![0xaa; to.len]);
            let src_layout = Strided { offset: from.offset, strides: &from.strides };
            let dst_layout = Strided { offset: to.offset, strides: &to.strides };
            copied(item_size, &shape, (&src, src_layout), (&mut expected, dst_layout));
            prop_assert_eq!(copy_strided(item_size, &shape, &src, src_layout, &mut dst, dst_layout), Ok(()));
            prop_assert_eq!(&dst, &expected);

            // one repeated item, by a fill and by strides of 0
            let still = vec![0; shape.len()];
            let repeated = Strided { offset: 0, strides: &still };
            let (mut dst, mut expected) = (vec![0xaa; to.len], vec![0xaa; to.len]);
            copied(item_size, &shape, (&src, repeated), (&mut expected, dst_layout));
            prop_assert_eq!(copy_strided(item_size, &shape, &src, repeated, &mut dst, dst_layout), Ok(()));
            prop_assert_eq!(&dst, &expected);
            dst.fill(0xaa);
            prop_assert_eq!(fill_strided(&src[..item_size], &shape, &mut dst, dst_layout), Ok(()));
            prop_assert_eq!(&dst, &expected);
        }

        #[test]
        fn refuses_regions_one_byte_too_long((item_size, shape, from, to) in regions()) {
            let reach = |region: &Region| {
                let forward = region.strides.iter().zip(&shape).filter(|(stride, _)| **stride > 0);
                let reach = forward.map(|(stride, count)| stride.unsigned_abs() * (count - 1)).sum::<usize>();
                region.offset + reach + item_size
            };
            let src_layout = Strided { offset: from.offset, strides: &from.strides };
            let dst_layout = Strided { offset: to.offset, strides: &to.strides };
            let (src, mut dst) = (vec![0; from.len], vec![0; to.len]);
            let short = OutOfBounds { buffer: "source", len: reach(&from) - 1 };
            let result = copy_strided(item_size, &shape, &src[..short.len], src_layout, &mut dst, dst_layout);
            prop_assert_eq!(result, Err(short));
            let short = OutOfBounds { buffer: "destination", len: reach(&to) - 1 };
            let result = copy_strided(item_size, &shape, &src, src_layout, &mut dst[..short.len], dst_layout);
            prop_assert_eq!(result, Err(short));
            prop_assert_eq!(fill_strided(&src[..item_size], &shape, &mut dst[..short.len], dst_layout), Err(short));
        }
    }

    #[test]
    fn refuses_regions_that_overflow_or_start_before_the_buffer() {
        let out_of_bounds = Err(OutOfBounds { buffer: "source", len: 8 });
        let src = [0; 8];
        for (shape, offset, strides) in [
            (&[usize::MAX, 2][..], 0, &[isize::MAX, 1][..]),
            (&[usize::MAX], 0, &[2]),
            (&[2], usize::MAX, &[1]),
            (&[3], 1, &[-1]),
            (&[2], 0, &[isize::MIN]),
            (&[2], 0, &[1, 1]),
            (&[], 8, &[]),
        ] {
            let strided = Strided { offset, strides };
            let still = vec![0; shape.len()];
            let to = Strided { offset: 0, strides: &still };
            assert_eq!(copy_strided(1, shape, &src, strided, &mut [0; 8], to), out_of_bounds, "{strided:?}");
        }
    }

    #[test]
    fn a_region_without_items_is_inside_any_buffer() {
        let nowhere = Strided { offset: 99, strides: &[isize::MAX, isize::MIN] };
        assert_eq!(copy_strided(4, &[usize::MAX, 0], &[], nowhere, &mut [], nowhere), Ok(()));
        assert_eq!(fill_strided(&[1, 2], &[0, 7], &mut [], nowhere), Ok(()));
    }
}
