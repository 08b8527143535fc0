//! The only unsafe code of zkit: inner loops over bytes that know nothing of stores or metadata.
//!
//! Each kernel checks its slices once, up front, and picks the widest instructions that the CPU has. Each has
//! a scalar twin in the same file that gives the same bytes; property tests hold the two together.
//!
//! - [`copy`]: regions of n-dimensional arrays, copied, transposed or filled
//! - [`swap`]: byte order
//! - [`lz`]: LZ4 blocks, and matches of other LZ formats
//! - [`scan`]: statistics of elements
//! - [`shuffle`], [`bitshuffle`]: the filters of blosc and numcodecs

pub mod bitshuffle;
pub mod copy;
pub mod lz;
#[cfg(target_arch = "x86_64")]
mod registers;
pub mod scan;
pub mod shuffle;
pub mod swap;
