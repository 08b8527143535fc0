//! Frames to bytes.

use std::ops::Range;

use super::super::CodecError;
use super::blosclz;
use super::header::{CODEC, HEADER_BYTES, Header, InnerCodec, Shuffle, block_start, corrupt, size_i32};
use crate::kernels::bitshuffle::bit_unshuffle;
use crate::kernels::lz::decode_lz4;
use crate::kernels::shuffle::unshuffle;

/// Decodes frames, one after another, with the same contexts and buffers.
#[derive(Default)]
pub struct Decoder {
    streams: StreamDecoder,
    /// A block as it was before the filter was undone.
    filtered: Vec<u8>,
    /// A block of which only a part was asked for.
    block: Vec<u8>,
    /// What the bit shuffle needs.
    tile: Vec<u8>,
}

impl Decoder {
    /// Returns a decoder that allocates nothing before it is used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes all of `frame` into `dst`, whose length is what metadata promises.
    ///
    /// Bytes after the frame are ignored. Memory: two blocks at most, never more than `dst.len()` each.
    ///
    /// # Errors
    ///
    /// `Size` where the frame decodes to another length, `Corrupt` and `Unsupported` as they say; `dst` then holds
    /// anything.
    pub fn decode_into(&mut self, frame: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        let decoded_bytes = dst.len();
        self.decode_range(frame, decoded_bytes, 0..decoded_bytes, dst)
    }

    /// Decodes the bytes `range` of the `decoded_bytes` that `frame` holds, of which only the blocks that
    /// overlap `range` are decoded.
    ///
    /// # Errors
    ///
    /// As [`Self::decode_into`]; `Size` also where `range` reaches beyond the frame or `dst` has another length.
    pub fn decode_range(
        &mut self,
        frame: &[u8],
        decoded_bytes: usize,
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        self.decode_frame(&Frame::open(frame)?, decoded_bytes, range, dst)
    }

    /// Decodes as [`Self::decode_range`] does, from two pieces of a frame: `head`, its first
    /// [`Header::head_bytes`], and `span`, the bytes from `span_start` on that [`Header::span`] named for `range`.
    pub fn decode_span(
        &mut self,
        head: &[u8],
        span_start: u64,
        span: &[u8],
        decoded_bytes: usize,
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        let body_start = usize::try_from(span_start).unwrap_or(usize::MAX);
        let frame = Frame { header: Header::parse(head)?, head, body: span, body_start };
        self.decode_frame(&frame, decoded_bytes, range, dst)
    }

    fn decode_frame(
        &mut self,
        frame: &Frame<'_>,
        decoded_bytes: usize,
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        size_is(frame.header.nbytes, decoded_bytes)?;
        size_is(range.len() as u64, dst.len())?;
        if range.end > decoded_bytes {
            return Err(CodecError::Size {
                codec: CODEC,
                found: frame.header.nbytes,
                expected: range.end as u64,
            });
        }
        if range.is_empty() {
            return Ok(());
        }
        if frame.header.memcpyed {
            let stored = frame.from(HEADER_BYTES + range.start).and_then(|bytes| bytes.get(..range.len()));
            dst.copy_from_slice(stored.ok_or_else(|| corrupt("stored bytes lie outside the frame"))?);
            return Ok(());
        }
        let block_size = frame.header.block_range(0).len();
        for index in range.start / block_size..=(range.end - 1) / block_size {
            let block = frame.header.block_range(index);
            let wanted = block.start.max(range.start)..block.end.min(range.end);
            let dst = &mut dst[wanted.start - range.start..wanted.end - range.start];
            if wanted == block {
                self.decode_block(frame, index, dst)?;
            } else {
                let mut whole = std::mem::take(&mut self.block);
                let decoded = self.decode_block(frame, index, grown(&mut whole, block.len()));
                dst.copy_from_slice(&whole[wanted.start - block.start..wanted.end - block.start]);
                self.block = whole;
                decoded?;
            }
        }
        Ok(())
    }

    /// Decodes one block into `dst`, which has its length.
    fn decode_block(&mut self, frame: &Frame<'_>, index: usize, dst: &mut [u8]) -> Result<(), CodecError> {
        let type_size = usize::from(frame.header.type_size);
        match frame.header.shuffle {
            Shuffle::Byte if type_size > 1 => {
                let filtered = grown(&mut self.filtered, dst.len());
                self.streams.decode_block(frame, index, filtered)?;
                unshuffle(type_size, filtered, dst);
            }
            Shuffle::Bit => {
                let filtered = grown(&mut self.filtered, dst.len());
                self.streams.decode_block(frame, index, filtered)?;
                bit_unshuffle(type_size, filtered, dst, &mut self.tile);
            }
            Shuffle::Byte | Shuffle::None => self.streams.decode_block(frame, index, dst)?,
        }
        Ok(())
    }
}

/// A frame whose header holds, or the pieces of one that a range needs.
struct Frame<'a> {
    header: Header,
    /// The frame from its start, at least to the end of the table of blocks.
    head: &'a [u8],
    /// The frame from `body_start` on.
    body: &'a [u8],
    body_start: usize,
}

impl<'a> Frame<'a> {
    fn open(frame: &'a [u8]) -> Result<Self, CodecError> {
        let header = Header::parse(frame)?;
        let bytes = usize::try_from(header.cbytes).ok().and_then(|cbytes| frame.get(..cbytes));
        let Some(bytes) = bytes else {
            return Err(corrupt(format!("{} bytes of a frame of {}", frame.len(), header.cbytes)));
        };
        Ok(Self { header, head: bytes, body: bytes, body_start: 0 })
    }

    /// Returns the bytes from `offset` in the frame on, as far as they are there.
    fn from(&self, offset: usize) -> Option<&'a [u8]> {
        self.body.get(offset.checked_sub(self.body_start)?..)
    }

    /// Returns the bytes from the start of block `index` on.
    fn block(&self, index: usize) -> Option<&'a [u8]> {
        self.from(block_start(self.head, index)?)
    }
}

/// Decodes single streams, with contexts made when first needed.
#[derive(Default)]
struct StreamDecoder {
    zstd: Option<zstd_safe::DCtx<'static>>,
    zlib: Option<libdeflater::Decompressor>,
    snappy: Option<snap::raw::Decoder>,
}

impl StreamDecoder {
    /// Decodes the streams of one block into `dst`, still filtered.
    fn decode_block(&mut self, frame: &Frame<'_>, index: usize, dst: &mut [u8]) -> Result<(), CodecError> {
        let out_of_bounds = || corrupt(format!("block {index} lies outside the frame"));
        let mut bytes = frame.block(index).ok_or_else(out_of_bounds)?;
        let streams = frame.header.streams(dst.len());
        if !dst.len().is_multiple_of(streams) {
            return Err(corrupt(format!("block of {} bytes split into {streams}", dst.len())));
        }
        for dst in dst.chunks_exact_mut(dst.len() / streams) {
            let len = size_i32(bytes, 0).ok_or_else(out_of_bounds)?;
            let (stream, rest) = bytes[4..].split_at_checked(len).ok_or_else(out_of_bounds)?;
            bytes = rest;
            if len == dst.len() {
                dst.copy_from_slice(stream);
            } else {
                self.decode(frame.header.codec, stream, dst).map_err(|why| {
                    let name = frame.header.codec.name();
                    corrupt(format!("block {index}: no {name} stream of {} bytes{why}", dst.len()))
                })?;
            }
        }
        Ok(())
    }

    /// Decodes one stream into all of `dst`, or says why not.
    fn decode(&mut self, codec: InnerCodec, stream: &[u8], dst: &mut [u8]) -> Result<(), String> {
        let because = |why: &dyn std::fmt::Display| format!(": {why}");
        let decoded = match codec {
            InnerCodec::BloscLz => {
                blosclz::decode(stream, dst).map(|()| dst.len()).ok_or_else(String::new)?
            }
            InnerCodec::Lz4 => decode_lz4(stream, dst).ok_or_else(String::new)?,
            InnerCodec::Snappy => {
                let decoder = self.snappy.get_or_insert_default();
                decoder.decompress(stream, dst).map_err(|why| because(&why))?
            }
            InnerCodec::Zlib => {
                let decoder = self.zlib.get_or_insert_default();
                decoder.zlib_decompress(stream, dst).map_err(|why| because(&why))?
            }
            InnerCodec::Zstd => {
                let decoder = self.zstd.get_or_insert_default();
                decoder.decompress(dst, stream).map_err(|code| because(&zstd_safe::get_error_name(code)))?
            }
        };
        if decoded == dst.len() { Ok(()) } else { Err(format!(": it has {decoded}")) }
    }
}

/// Returns the first `len` bytes of `buffer`, which grows but never shrinks.
fn grown(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

fn size_is(found: u64, expected: usize) -> Result<(), CodecError> {
    if found == expected as u64 {
        return Ok(());
    }
    Err(CodecError::Size { codec: CODEC, found, expected: expected as u64 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::golden::{FRAMES, from_hex, values};
    use super::*;
    use crate::units::saturating_usize;

    #[test]
    fn decodes_frames_of_c_blosc() {
        let (mut decoder, values) = (Decoder::new(), values());
        for (codec, shuffle, frame) in FRAMES {
            let mut frame = from_hex(frame);
            let header = Header::parse(&frame).unwrap();
            assert_eq!((header.codec, header.shuffle, header.memcpyed), (codec, shuffle, false));
            let mut decoded = vec![0; values.len()];
            decoder.decode_into(&frame, &mut decoded).unwrap();
            assert!(decoded == values, "{codec:?} {shuffle:?}");
            frame.extend_from_slice(b"trailing bytes");
            for range in [0..0, 0..1, 3..640, 255..257, 200..600, 256..512, 640..640] {
                let mut part = vec![0; range.len()];
                decoder.decode_range(&frame, values.len(), range.clone(), &mut part).unwrap();
                assert!(part == values[range.clone()], "{codec:?} {shuffle:?} {range:?}");
                let head = &frame[..saturating_usize(header.head_bytes())];
                let span = header.span(head, range.clone()).unwrap();
                part.fill(0);
                let bytes = &frame[saturating_usize(span.start)..saturating_usize(span.end)];
                decoder.decode_span(head, span.start, bytes, values.len(), range.clone(), &mut part).unwrap();
                assert!(part == values[range.clone()], "{codec:?} {shuffle:?} {range:?} from its span");
            }
        }
    }

    #[test]
    fn refuses_another_size_before_decoding() {
        let frame = from_hex(FRAMES[0].2);
        let size = |found, expected| Err(CodecError::Size { codec: CODEC, found, expected });
        let mut decoder = Decoder::new();
        assert_eq!(decoder.decode_into(&frame, &mut [0; 639]), size(640, 639));
        assert_eq!(decoder.decode_range(&frame, 641, 0..1, &mut [0]), size(640, 641));
        assert_eq!(decoder.decode_range(&frame, 640, 0..2, &mut [0]), size(2, 1));
        assert_eq!(decoder.decode_range(&frame, 640, 640..641, &mut [0]), size(640, 641));
    }

    #[test]
    fn refuses_every_truncation() {
        let (mut decoder, mut decoded) = (Decoder::new(), vec![0; 640]);
        for (_, _, frame) in FRAMES {
            let frame = from_hex(frame);
            for len in 0..frame.len() {
                let result = decoder.decode_into(&frame[..len], &mut decoded);
                assert!(matches!(result, Err(CodecError::Corrupt { .. })), "{len} of {}", frame.len());
            }
        }
    }

    #[test]
    fn decodes_stored_and_empty_frames() {
        let mut decoder = Decoder::new();
        let stored = [2, 1, 0x23, 4, 3, 0, 0, 0, 3, 0, 0, 0, 19, 0, 0, 0, 7, 8, 9];
        let mut decoded = [0; 3];
        decoder.decode_into(&stored, &mut decoded).unwrap();
        assert_eq!(decoded, [7, 8, 9]);
        let empty = [2, 1, 0x33, 4, 0, 0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0];
        assert_eq!(decoder.decode_into(&empty, &mut []), Ok(()));
    }

    proptest! {
        #[test]
        fn damaged_frames_never_panic(
            frame in 0..FRAMES.len(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
            in_head in any::<bool>(),
        ) {
            let mut frame = from_hex(FRAMES[frame].2);
            let reach = if in_head { 40 } else { frame.len() };
            for (index, value) in changes {
                frame[index.index(reach)] = value;
            }
            let mut decoder = Decoder::new();
            let _ = decoder.decode_into(&frame, &mut [0; 640]);
            let _ = decoder.decode_range(&frame, 640, 300..400, &mut [0; 100]);
        }
    }
}
