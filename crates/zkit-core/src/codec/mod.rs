//! Codecs: encoded chunks to canonical elements and back, into buffers that are reused.
//!
//! A [`Chain`] is compiled once an array from its metadata; a [`Scratch`] holds one thread's contexts and
//! buffers. Decoding is bounded: sizes come from metadata, never from a header alone.

pub mod blosc;

mod chain;
mod checksum;
mod compress;
mod error;
mod facts;
mod filter;
mod lzma;
mod objects;
mod partial;
mod recode;
mod scratch;
mod shard;
mod variable;
mod window;
mod zstd;

pub use chain::Chain;
pub use error::CodecError;
pub use facts::{FrameFacts, HEAD_BYTES, ZstdWalk, frame_facts, walk_zstd};
pub use objects::NULL_TEXT;
pub(crate) use partial::partial_decode;
pub use partial::{PartialDecode, StoredSpan};
pub use recode::{Cost, Recoder};
pub use scratch::Scratch;
pub use shard::{InnerPlace, ShardCodec, ShardIndex};
pub use variable::VariableElements;
pub(crate) use window::expected_bytes as expected_window_bytes;
