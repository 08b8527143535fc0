//! Copies of two dimensions of which the source runs along one and the destination along the other.

#![expect(unsafe_code, reason = "raw loads and stores inside regions that were checked as a whole")]

use super::layout::Dimension;
use super::region::copy_line;

/// Two dimensions of a copy: the source runs along `columns`, the destination along `rows`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plane {
    pub(super) columns: Dimension,
    pub(super) rows: Dimension,
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
pub(super) unsafe fn copy_plane<const SIZE: usize, const PER_LANE: usize>(
    plane: Plane,
    src: *const u8,
    dst: *mut u8,
) {
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

    use super::{Dimension, Plane, copy_piece};
    use crate::kernels::registers::interleave;

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
