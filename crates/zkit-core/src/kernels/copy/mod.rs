//! Copies between regions of n-dimensional arrays, in any order of dimensions.
//!
//! A region is a shape, the offset of its first item and one stride per dimension, all in bytes. Strides may be
//! negative; a stride of 0 in the source repeats items. Bounds are checked once, for the whole region. Then
//! dimensions are sorted by their stride in the destination, those contiguous on both sides are merged, and one
//! of three loops does the work: runs of bytes, lines of typed items, or, where source and destination run along
//! different dimensions, a transpose by cache lines.

mod canvas;
mod fill;
mod layout;
mod region;
mod transpose;

pub use canvas::{Canvas, Cell};
pub use fill::fill_strided;
pub use layout::{OutOfBounds, Strided, Strides, c_strides, f_strides};
pub use region::copy_strided;
