//! Parts of chunks: a byte range of the elements for less than decoding, or even reading, the whole.

use std::ops::Range;

use super::blosc;
use super::chain::Chain;
use super::checksum::CHECKSUM_BYTES;
use super::error::CodecError;
use super::scratch::Scratch;
use super::zstd;
use crate::metadata::{Checksum, ChecksumPlace, CodecSpec};

/// Bytes that are read together of what is stored as it is: a page.
const STORED_BLOCK_BYTES: usize = 4096;

/// The bit of a zstd frame's descriptor, its fifth byte, that says that a checksum follows.
const ZSTD_CHECKSUM_FLAG: u8 = 1 << 2;

/// How a byte range of a decoded chunk can be had for less than the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartialDecode {
    /// The bytes are stored as they are.
    Stored,
    /// Only the blocks of the blosc frame that the range touches are decoded.
    Blosc,
    /// The zstd frame is decoded up to the end of the range; nothing but the range is kept.
    Zstd,
}

/// Returns how the codecs of an array let a part be decoded, if they do.
pub(crate) fn partial_decode<'a>(specs: impl IntoIterator<Item = &'a CodecSpec>) -> Option<PartialDecode> {
    let mut specs =
        specs.into_iter().filter(|spec| !matches!(spec, CodecSpec::Bytes(swaps) if swaps.is_empty()));
    let partial = match specs.next() {
        None => return Some(PartialDecode::Stored),
        Some(CodecSpec::Blosc(_)) => PartialDecode::Blosc,
        Some(CodecSpec::Zstd { .. }) => PartialDecode::Zstd,
        Some(_) => return None,
    };
    let is_behind = |spec| matches!(spec, &CodecSpec::Checksum(Checksum::Crc32c, ChecksumPlace::End));
    specs.all(is_behind).then_some(partial)
}

/// Where the stored bytes of a part lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredSpan {
    /// In this range of the encoded chunk.
    At(Range<u64>),
    /// To be told from so many bytes at the front of the encoded chunk.
    HeadNeeded(u64),
}

impl Chain {
    /// Returns how a byte range of a decoded chunk can be had for less than the whole.
    pub fn partial_decode(&self) -> Option<PartialDecode> {
        partial_decode(self.specs())
    }

    /// Returns whether a checksum of the whole chunk stands in it that decoding a part does not look at; `head` is the
    /// chunk's front. Source of the zstd flag: RFC 8878, 3.1.1.1.1.
    pub(crate) fn has_checksum(&self, head: &[u8]) -> bool {
        let behind = self.specs().any(|spec| matches!(spec, CodecSpec::Checksum(..)));
        let in_frame = || head.get(4).is_some_and(|descriptor| descriptor & ZSTD_CHECKSUM_FLAG != 0);
        behind || self.partial_decode() == Some(PartialDecode::Zstd) && in_frame()
    }

    /// Returns what decoding a part of a chunk holds beside the part: the window of its first frame.
    pub(crate) fn window_of_part(&self, encoded: &[u8]) -> u64 {
        match self.partial_decode() {
            Some(PartialDecode::Zstd) => zstd::window_of(encoded, self.decoded_bytes().unwrap_or(0) as u64).1,
            _ => 0,
        }
    }

    /// Decodes a byte range of a decoded chunk; where [`Self::partial_decode`], outer checksums are not looked at.
    pub fn decode_range(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        let decoded = self.fixed_bytes()?;
        if range == (0..decoded) {
            return self.decode_into(scratch, encoded, dst);
        }
        match self.partial_decode() {
            Some(PartialDecode::Blosc) => scratch
                .blosc_decoder
                .get_or_insert_with(blosc::Decoder::new)
                .decode_range(encoded, decoded, range, dst),
            Some(PartialDecode::Zstd) => {
                let frames = encoded.len().saturating_sub((self.len() - 1) * CHECKSUM_BYTES);
                zstd::decode_range(&encoded[..frames], decoded, range, dst, (scratch, self.window_bytes))
            }
            Some(PartialDecode::Stored) if encoded.len() == decoded => {
                dst.copy_from_slice(&encoded[range]);
                Ok(())
            }
            _ => {
                let mut whole = scratch.take_buffer();
                whole.resize(decoded, 0);
                let result = self.decode_into(scratch, encoded, &mut whole);
                if result.is_ok() {
                    dst.copy_from_slice(&whole[range]);
                }
                scratch.give_back(whole);
                result
            }
        }
    }

    /// Returns where the stored bytes of a range lie, or `None` if the whole chunk must be read. `head` is as much of
    /// the chunk's front as was read so far.
    pub fn stored_span(&self, head: &[u8], range: Range<usize>) -> Result<Option<StoredSpan>, CodecError> {
        match self.partial_decode() {
            Some(PartialDecode::Stored) => Ok(Some(StoredSpan::At(range.start as u64..range.end as u64))),
            Some(PartialDecode::Blosc) => {
                if head.len() < blosc::HEADER_BYTES {
                    return Ok(Some(StoredSpan::HeadNeeded(blosc::HEADER_BYTES as u64)));
                }
                let header = blosc::Header::parse(head)?;
                let (found, expected) = (header.nbytes, self.fixed_bytes()? as u64);
                if found != expected {
                    return Err(CodecError::Size { codec: "blosc", found, expected });
                }
                let wanted = header.head_bytes();
                if (head.len() as u64) < wanted {
                    return Ok(Some(StoredSpan::HeadNeeded(wanted)));
                }
                header.span(head, range).map(|span| Some(StoredSpan::At(span)))
            }
            _ => Ok(None),
        }
    }

    /// Returns how many decoded bytes are decoded together, from the chunk's front; `None` where that is not told or is all.
    pub(crate) fn block_bytes(&self, head: &[u8]) -> Option<usize> {
        match self.partial_decode()? {
            PartialDecode::Stored => Some(STORED_BLOCK_BYTES),
            PartialDecode::Blosc => {
                let header = blosc::Header::parse(head).ok()?;
                usize::try_from(header.block_size).ok().filter(|&bytes| bytes > 0)
            }
            PartialDecode::Zstd => None,
        }
    }

    /// Decodes a range from the bytes that [`Self::stored_span`] named, and the head that it was told from.
    pub fn decode_span(
        &self,
        scratch: &mut Scratch,
        head: &[u8],
        (span_start, span): (u64, &[u8]),
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        let decoded = self.fixed_bytes()?;
        if self.partial_decode() == Some(PartialDecode::Blosc) {
            let decoder = scratch.blosc_decoder.get_or_insert_with(blosc::Decoder::new);
            return decoder.decode_span(head, span_start, span, decoded, range, dst);
        }
        if span.len() != dst.len() {
            let (found, expected) = (span.len() as u64, dst.len() as u64);
            return Err(CodecError::Size { codec: "bytes", found, expected });
        }
        dst.copy_from_slice(span);
        Ok(())
    }

    fn fixed_bytes(&self) -> Result<usize, CodecError> {
        self.decoded_bytes().ok_or_else(|| CodecError::Unsupported {
            codec: "chunk",
            what: "ranges of variable elements".to_owned(),
        })
    }
}
