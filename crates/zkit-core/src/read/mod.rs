//! Regions of one array into memory, and whole arrays as a stream of slabs in C order.

mod line;
mod part;
mod picked_shards;
mod picks;
mod reader;
mod shard_index;
mod slabs;
mod variable;
mod visit;

pub use line::{Line, LineElements};
pub(crate) use picked_shards::ShardIndexes;
pub use picks::{BoxPiece, BoxVisitor, Boxes};
pub use reader::{ArrayReader, ChunkSource, ReadContext, with_scratch};
pub(crate) use reader::{
    ThreadBuffers, codec_error, fill_run, read_slab, release_scratch, to_usize, with_buffers,
};
pub use slabs::{Slabs, slabs_of};
pub(crate) use visit::WHOLE_SHARD_BYTES;
pub use visit::{Piece, Visitor};
