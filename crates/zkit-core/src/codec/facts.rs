//! What the first bytes of an encoded chunk say, without decoding it.

use super::blosc;
use crate::metadata::CodecSpec;

/// Bytes that [`frame_facts`] needs at most.
pub const HEAD_BYTES: u64 = 64;

/// What a frame says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameFacts {
    /// A blosc frame's header.
    Blosc(blosc::Header),
    /// A zstd frame's header.
    Zstd {
        /// The decoded size that the frame names, if it does.
        content_size: Option<u64>,
        /// Whether the frame ends in a checksum.
        checksum: bool,
    },
    /// A codec that says nothing about itself.
    Opaque,
}

/// Returns what the head of an encoded chunk says; the error says why it is no frame of its codec.
///
/// `specs` are the codecs in encoding order; a checksum behind the frame does not matter.
pub fn frame_facts<'a>(
    specs: impl DoubleEndedIterator<Item = &'a CodecSpec>,
    head: &[u8],
) -> Result<FrameFacts, super::CodecError> {
    let outermost =
        specs.rev().find(|spec| !matches!(spec, CodecSpec::Checksum(_, crate::metadata::ChecksumPlace::End)));
    match outermost {
        Some(CodecSpec::Blosc(_)) => blosc::Header::parse(head).map(FrameFacts::Blosc),
        Some(CodecSpec::Zstd { .. }) => zstd_facts(head),
        _ => Ok(FrameFacts::Opaque),
    }
}

/// Source: RFC 8878, section 3.1.1.1.
fn zstd_facts(head: &[u8]) -> Result<FrameFacts, super::CodecError> {
    let corrupt = |what: &str| super::CodecError::corrupt("zstd", what);
    if !head.starts_with(&0xfd2f_b528_u32.to_le_bytes()) {
        return Err(corrupt("no zstd frame begins like this"));
    }
    let descriptor = *head.get(4).ok_or_else(|| corrupt("the frame ends inside its header"))?;
    let content_size = zstd_safe::get_frame_content_size(head).ok().flatten();
    Ok(FrameFacts::Zstd { content_size, checksum: descriptor & 4 != 0 })
}
