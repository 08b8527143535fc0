//! One array's codecs, compiled for one chunk shape: sizes are known before a byte is read.
//!
//! A chain is a list of steps in encoding order. Decoding runs it backwards, each step into one of two reused
//! buffers and the last one straight into the destination. A *boundary* is a place between steps: recoding
//! decodes only to the first boundary at which two chains differ.

mod compile;
mod decode;
mod encode;
mod reorder;

pub use compile::Chain;
