//! Blosc 1 frames: blocks of one buffer, each shuffled and compressed on its own.
//!
//! A frame is a header of 16 bytes, the start of each block as a little-endian `i32`, and the blocks. A block
//! is one stream, or one per byte plane ("split"); a stream is its length as `i32` and its bytes, which are
//! stored as they are where the length equals the decoded one. See `README_CHUNK_FORMAT.rst` of c-blosc 1.21.

mod blosclz;
mod decode;
mod effort;
mod encode;
#[cfg(test)]
mod golden;
mod header;

pub use decode::Decoder;
pub use encode::{Encoder, Level, Params};
pub(super) use header::HEADER_BYTES;
pub use header::{Header, InnerCodec, Shuffle};
