//! What a codec can find wrong with encoded bytes.

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
}

impl CodecError {
    /// Returns a `Corrupt` error.
    pub fn corrupt(codec: &'static str, what: impl Into<String>) -> Self {
        Self::Corrupt { codec, what: what.into() }
    }
}
