//! Shape, chunk and region arithmetic: pure, checked, in elements; and sets of chunks.

mod arithmetic;
mod chunk_set;

pub use arithmetic::{Grid, MAX_RANK, Region, Span, for_each_index, product, unravel};
pub use chunk_set::ChunkSet;
