//! Plans: what a run will read, decode, encode and write, before it does any of it.
//!
//! Pure: a hierarchy, what a listing says of it, a wish and a budget go in, a [`CopyPlan`] comes out.

mod access;
mod copy;
mod gather;
mod layout;
mod memory;
mod rechunk;
mod slice;
mod spill;

pub use access::{Access, Dimensions, ReadCost, chunks_for, grown, read_cost, shrunk};
pub use copy::{
    ArrayCopy, CopyPlan, Cover, StoreCopy, Stored, Strategy, Totals, Unit, Wanted, WantedStore, Wish,
    plan_copy,
};
pub use gather::{ABSENT, AxisOrder, Gather, Joined, Part, Pick, WantedGather, WantedSlice};
pub use layout::{
    CHUNK_TARGET_BYTES, ChunkLength, ChunksWish, DimensionKey, LayoutWish, ShardsWish, check_frames,
};
pub use memory::Shares;
pub(crate) use memory::window_bytes;
pub use rechunk::{Rechunk, SourceKind};
pub use slice::plan_slice;
pub use spill::{Spill, Stage};
