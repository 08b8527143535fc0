//! What a codec can find wrong with encoded bytes.

use crate::units::Bytes;

/// A failure of one codec on one run of bytes; the caller adds chunk and array.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CodecError {
    /// The bytes are not what the codec's format allows, or their checksum differs.
    #[error("{codec}: {what}")]
    Corrupt {
        /// The codec's name as in metadata: `blosc`, `zstd`.
        codec: &'static str,
        /// What was found and what was expected.
        what: String,
    },
    /// The bytes decode to another size than metadata promises; nothing was allocated for it.
    #[error("{codec}: decodes to {found} bytes, {expected} expected")]
    Size {
        /// The codec's name.
        codec: &'static str,
        /// The size that the frame claims or decoded to.
        found: u64,
        /// The size that metadata gives.
        expected: u64,
    },
    /// The bytes use a feature that zkit does not decode.
    #[error("{codec}: {what}")]
    Unsupported {
        /// The codec's name.
        codec: &'static str,
        /// The feature.
        what: String,
    },
    /// The bytes are sound as far as they were looked at, and decoding them takes more memory than there may be.
    #[error("{codec}: {what} needs {}, the memory budget leaves {}", Bytes(*.needs), Bytes(*.left))]
    OverBudget {
        /// The codec's name.
        codec: &'static str,
        /// What needs it.
        what: &'static str,
        /// The bytes that it needs, at least.
        needs: u64,
        /// The bytes that it may have.
        left: u64,
    },
}

impl CodecError {
    /// Returns a `Corrupt` error.
    pub fn corrupt(codec: &'static str, what: impl Into<String>) -> Self {
        Self::Corrupt { codec, what: what.into() }
    }

    /// Returns the error of data whose decoded size no metadata gives, and which is larger than `left` bytes.
    pub(super) fn too_large(codec: &'static str, needs: u64, left: u64) -> Self {
        Self::OverBudget { codec, what: "what it decodes to", needs, left }
    }
}
