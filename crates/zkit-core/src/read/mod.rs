//! Regions of one array into memory, and whole arrays as a stream of slabs in C order.

mod part;
mod reader;
mod slabs;
mod variable;

pub use reader::{ArrayReader, ChunkSource, ReadContext, with_scratch};
pub(crate) use reader::{codec_error, read_slab, to_usize};
pub use slabs::{Slabs, slabs_of};
