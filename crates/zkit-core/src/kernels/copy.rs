//! Copies between regions of n-dimensional arrays, in any order of dimensions.
//!
//! A region is a shape, the offset of its first item and one stride per dimension, all in bytes. Strides may be
//! negative; a stride of 0 in the source repeats items. Bounds are checked once, for the whole region. Then
//! dimensions are sorted by their stride in the destination, those contiguous on both sides are merged, and one
//! of three loops does the work: runs of bytes, lines of typed items, or, where source and destination run along
//! different dimensions, a transpose by cache lines.

#![expect(unsafe_code, reason = "raw loads and stores inside regions that were checked as a whole")]

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
const INLINE_RANK: usize = 8;

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
    if item_size == 0 || shape.contains(&0) {
        return Ok(());
    }
    let mut inline = [Dimension::ONE; INLINE_RANK];
    let mut heap = Vec::new();
    let dimensions = dimension_buffer(shape.len(), &mut inline, &mut heap);
    for (index, dimension) in dimensions.iter_mut().enumerate() {
        let (src, dst) = (src_layout.strides[index], dst_layout.strides[index]);
        *dimension = Dimension { count: shape[index], src, dst };
    }
    let Simplified { dimensions, src_offset, dst_offset } = simplified(dimensions);
    let (dimensions, item_size) = absorb_run(dimensions, item_size);
    // SAFETY: every position of both regions was found inside its slice, simplification keeps the set of
    // positions, and the slices do not overlap as one of them is borrowed mutably.
    unsafe {
        let src = src.as_ptr().add(src_layout.offset).offset(src_offset);
        let dst = dst.as_mut_ptr().add(dst_layout.offset).offset(dst_offset);
        match item_size {
            1 => copy_typed::<1, 16>(dimensions, src, dst),
            2 => copy_typed::<2, 8>(dimensions, src, dst),
            4 => copy_typed::<4, 4>(dimensions, src, dst),
            8 => copy_typed::<8, 2>(dimensions, src, dst),
            16 => copy_typed::<16, 1>(dimensions, src, dst),
            _ => copy_runs(dimensions, item_size, src, dst),
        }
    }
    Ok(())
}

/// Sets every item of a region to `item`.
///
/// # Errors
///
/// As [`copy_strided`].
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
fn check(
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
struct Dimension {
    count: usize,
    src: isize,
    dst: isize,
}

impl Dimension {
    const ONE: Self = Self { count: 1, src: 0, dst: 0 };
}

fn dimension_buffer<'a>(
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
struct Simplified<'a> {
    dimensions: &'a [Dimension],
    /// What to add to the position of the first item, as dimensions were turned around.
    src_offset: isize,
    dst_offset: isize,
}

fn simplified(dimensions: &mut [Dimension]) -> Simplified<'_> {
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
unsafe fn each(dimensions: &[Dimension], src: *const u8, dst: *mut u8, kernel: &impl Fn(*const u8, *mut u8)) {
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

/// Copies one item of `SIZE` bytes.
///
/// # Safety
///
/// `SIZE` bytes must be readable at `src` and writable at `dst`.
#[inline(always)]
unsafe fn copy_item<const SIZE: usize>(src: *const u8, dst: *mut u8) {
    // SAFETY: arrays of bytes have no alignment and no invalid values; the caller vouches for the range.
    unsafe { dst.cast::<[u8; SIZE]>().write(src.cast::<[u8; SIZE]>().read()) };
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
unsafe fn copy_line<const SIZE: usize>(line: Dimension, src: *const u8, dst: *mut u8) {
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

/// Two dimensions of a copy: the source runs along `columns`, the destination along `rows`.
#[derive(Debug, Clone, Copy)]
struct Plane {
    columns: Dimension,
    rows: Dimension,
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Rows that are worked on together: few enough that the pages they lie in stay in the first-level TLB.
const BAND_ROWS: usize = 64;

/// Copies a plane in pieces of one source cache line by a band of rows, so that lines are read once and written
/// while they are in the cache.
///
/// # Safety
///
/// As for [`copy_runs`] with runs of `SIZE` bytes.
unsafe fn copy_plane<const SIZE: usize, const PER_LANE: usize>(plane: Plane, src: *const u8, dst: *mut u8) {
    let Plane { columns, rows } = plane;
    let contiguous = columns.src == SIZE.cast_signed() && rows.dst == SIZE.cast_signed();
    let piece = const { if LINE_BYTES / SIZE > 4 { LINE_BYTES / SIZE } else { 4 } };
    for row in (0..rows.count).step_by(BAND_ROWS) {
        let band = Dimension { count: BAND_ROWS.min(rows.count - row), ..rows };
        for column in (0..columns.count).step_by(piece) {
            let columns = Dimension { count: piece.min(columns.count - column), ..columns };
            let (row, column) = (row.cast_signed(), column.cast_signed());
            // SAFETY: the caller vouches for all positions, of which these are some.
            unsafe {
                let src = src.offset(rows.src * row + columns.src * column);
                let dst = dst.offset(rows.dst * row + columns.dst * column);
                let piece = Plane { columns, rows: band };
                if contiguous {
                    transpose::<SIZE, PER_LANE>(piece, src, dst);
                } else {
                    copy_piece::<SIZE>(piece, src, dst);
                }
            }
        }
    }
}

/// Copies a piece of a plane item by item.
///
/// # Safety
///
/// As for [`copy_runs`] with runs of `SIZE` bytes.
unsafe fn copy_piece<const SIZE: usize>(piece: Plane, src: *const u8, dst: *mut u8) {
    for column in 0..piece.columns.count.cast_signed() {
        // SAFETY: the caller vouches for all positions.
        unsafe {
            let src = src.offset(piece.columns.src * column);
            copy_line::<SIZE>(piece.rows, src, dst.offset(piece.columns.dst * column));
        }
    }
}

/// Transposes a piece of which `columns` are contiguous in the source and `rows` in the destination.
///
/// # Safety
///
/// As for [`copy_runs`] with runs of `SIZE` bytes.
#[inline]
unsafe fn transpose<const SIZE: usize, const PER_LANE: usize>(piece: Plane, src: *const u8, dst: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    if PER_LANE > 1 && is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2; the caller vouches for all positions.
        return unsafe { avx2::transpose::<SIZE, PER_LANE>(piece, src, dst) };
    }
    // SAFETY: the caller vouches for all positions.
    unsafe { copy_piece::<SIZE>(piece, src, dst) }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::super::registers::interleave;
    use super::{Dimension, Plane, copy_piece};

    /// Transposes blocks of `2 * PER_LANE` rows by `PER_LANE` columns, and what is left item by item.
    ///
    /// # Safety
    ///
    /// As for [`super::transpose`].
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn transpose<const SIZE: usize, const PER_LANE: usize>(
        piece: Plane,
        src: *const u8,
        dst: *mut u8,
    ) {
        let Plane { columns, rows } = piece;
        let (whole_rows, whole_columns) =
            (rows.count - rows.count % (2 * PER_LANE), columns.count - columns.count % PER_LANE);
        // SAFETY: blocks and remainders lie inside the piece, for which the caller vouches.
        unsafe {
            for row in (0..whole_rows).step_by(2 * PER_LANE) {
                for column in (0..whole_columns).step_by(PER_LANE) {
                    let src = src.offset(rows.src * row.cast_signed()).add(SIZE * column);
                    let dst = dst.offset(columns.dst * column.cast_signed()).add(SIZE * row);
                    transpose_block::<SIZE, PER_LANE>(src, rows.src, dst, columns.dst);
                }
            }
            if whole_columns < columns.count {
                let columns = Dimension { count: columns.count - whole_columns, ..columns };
                let rows = Dimension { count: whole_rows, ..rows };
                let dst = dst.offset(columns.dst * whole_columns.cast_signed());
                copy_piece::<SIZE>(Plane { columns, rows }, src.add(SIZE * whole_columns), dst);
            }
            if whole_rows < rows.count {
                let rows = Dimension { count: rows.count - whole_rows, ..rows };
                let src = src.offset(rows.src * whole_rows.cast_signed());
                copy_piece::<SIZE>(Plane { columns, rows }, src, dst.add(SIZE * whole_rows));
            }
        }
    }

    /// Transposes one block: row `i` and row `i + PER_LANE` are the halves of a register.
    ///
    /// # Safety
    ///
    /// 16 bytes must be readable in each of the rows, 32 writable in each of the columns.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn transpose_block<const SIZE: usize, const PER_LANE: usize>(
        src: *const u8,
        src_row: isize,
        dst: *mut u8,
        dst_column: isize,
    ) {
        let mut registers = [_mm256_setzero_si256(); PER_LANE];
        for (index, register) in registers.iter_mut().enumerate() {
            let (low, high) = (index.cast_signed(), (index + PER_LANE).cast_signed());
            // SAFETY: both rows are in the block.
            unsafe {
                let low = _mm_loadu_si128(src.offset(src_row * low).cast());
                let high = _mm_loadu_si128(src.offset(src_row * high).cast());
                *register = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
            }
        }
        for _ in 0..PER_LANE.ilog2() {
            registers = interleave::<PER_LANE, SIZE>(registers);
        }
        for (index, register) in registers.iter().enumerate() {
            // SAFETY: the column is in the block.
            unsafe { _mm256_storeu_si256(dst.offset(dst_column * index.cast_signed()).cast(), *register) };
        }
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn gives_contiguous_strides() {
        assert_eq!(&*c_strides(&[2, 3, 5], 4), [60, 20, 4]);
        assert_eq!(&*f_strides(&[2, 3, 5], 4), [4, 8, 24]);
        assert_eq!(&*c_strides(&[], 4), [0_isize; 0]);
        assert_eq!(c_strides(&[2; 10], 1)[0], 512);
        assert_eq!(c_strides(&[usize::MAX; 3], 8)[0], isize::MAX);
    }
}
