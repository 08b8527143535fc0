//! Sizes and durations in messages and arguments: one place, so that they look the same everywhere.

use std::fmt;

/// A number of bytes; displays as `3.9 MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        bytesize::ByteSize(self.0).display().iec().fmt(f)
    }
}

/// Returns `value` as a `usize`, or the largest one: for capacities that a check bounds elsewhere.
pub(crate) fn saturating_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
