//! zstd: frames written, and read whole, in part, or as a stream.

use std::ops::Range;

use zstd_safe::{CCtx, CParameter, DCtx, InBuffer, OutBuffer, ResetDirective};

use super::compress::append_bounded;
use super::error::CodecError;
use super::scratch::Scratch;

/// Appends a frame to `out`.
pub(super) fn encode(
    (level, checksum): (i32, bool),
    src: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<(), CodecError> {
    let context = scratch.zstd_encoder.get_or_insert_with(CCtx::create);
    context.set_parameter(CParameter::CompressionLevel(level)).map_err(failed)?;
    context.set_parameter(CParameter::ChecksumFlag(checksum)).map_err(failed)?;
    context.set_parameter(CParameter::ContentSizeFlag(true)).map_err(failed)?;
    let bound = zstd_safe::compress_bound(src.len());
    if out.is_empty() {
        // into room that nobody has to zero
        out.reserve(bound);
        return context.compress2(out, src).map(drop).map_err(failed);
    }
    append_bounded(out, bound, |space| context.compress2(space, src).map_err(failed))
}

/// Decodes frames into `dst`; returns how many bytes they gave.
pub(super) fn decode(src: &[u8], dst: &mut [u8], scratch: &mut Scratch) -> Result<usize, CodecError> {
    let expected = dst.len() as u64;
    // a frame that names its size need not be decoded to see that it is wrong
    if let Ok(Some(claimed)) = zstd_safe::get_frame_content_size(src)
        && claimed > expected
    {
        return Err(CodecError::Size { codec: "zstd", found: claimed, expected });
    }
    let context = scratch.zstd_decoder.get_or_insert_with(DCtx::create);
    context.decompress(dst, src).map_err(failed)
}

fn failed(code: usize) -> CodecError {
    CodecError::corrupt("zstd", zstd_safe::get_error_name(code))
}

/// Decodes frames of unknown decoded size into `out`, at most `limit` bytes.
pub(super) fn decode_stream(src: &[u8], limit: u64, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let mut context = DCtx::create();
    let mut input = InBuffer::around(src);
    let mut window = vec![0; DCtx::out_size()];
    loop {
        let mut output = OutBuffer::around(window.as_mut_slice());
        let hint = context.decompress_stream(&mut output, &mut input).map_err(failed)?;
        let written = output.pos();
        out.extend_from_slice(&window[..written]);
        if out.len() as u64 > limit {
            return Err(CodecError::Size { codec: "zstd", found: out.len() as u64, expected: limit });
        }
        let all_read = input.pos() == src.len();
        if all_read && hint == 0 {
            return Ok(());
        }
        if all_read && written < window.len() {
            return Err(CodecError::corrupt("zstd", "the frame ends early"));
        }
    }
}

/// Decodes bytes `range` of the `decoded` that zstd frames hold; what lies in front is decoded and dropped, what lies
/// behind is not looked at. Memory: the frame's window, which zstd bounds to 128 MiB.
pub(super) fn decode_range(
    src: &[u8],
    decoded: usize,
    range: Range<usize>,
    dst: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), CodecError> {
    let size =
        |found: usize| CodecError::Size { codec: "zstd", found: found as u64, expected: decoded as u64 };
    if let Ok(Some(claimed)) = zstd_safe::get_frame_content_size(src)
        && claimed > decoded as u64
    {
        return Err(CodecError::Size { codec: "zstd", found: claimed, expected: decoded as u64 });
    }
    let mut dropped = scratch.take_buffer();
    dropped.resize(DCtx::out_size().min(range.start), 0);
    let context = scratch.zstd_decoder.get_or_insert_with(DCtx::create);
    context.reset(ResetDirective::SessionOnly).map_err(failed)?;
    let mut stream = ZstdStream { context, input: InBuffer::around(src), frame_open: true };
    let mut at = 0;
    while at < range.start {
        let wanted = dropped.len().min(range.start - at);
        at += stream.read(&mut dropped[..wanted])?.ok_or_else(|| size(at))?;
    }
    while at < range.end {
        at += stream.read(&mut dst[at - range.start..])?.ok_or_else(|| size(at))?;
    }
    // the last range sees that nothing follows, and the frame's checksum
    if at == decoded && stream.read(&mut [0])?.is_some() {
        return Err(size(at + 1));
    }
    scratch.give_back(dropped);
    Ok(())
}

/// A zstd stream that is read piece by piece.
struct ZstdStream<'a, 'b> {
    context: &'a mut DCtx<'static>,
    input: InBuffer<'b>,
    /// Whether the frame goes on; where it does not, the input may hold another one.
    frame_open: bool,
}

impl ZstdStream<'_, '_> {
    /// Fills `out` at least in part and returns how far, or `None` at the end.
    fn read(&mut self, out: &mut [u8]) -> Result<Option<usize>, CodecError> {
        loop {
            let all_read = self.input.pos() == self.input.src.len();
            if all_read && !self.frame_open {
                return Ok(None);
            }
            let mut output = OutBuffer::around(&mut *out);
            let hint = self.context.decompress_stream(&mut output, &mut self.input).map_err(failed)?;
            self.frame_open = hint != 0;
            match output.pos() {
                0 if all_read && self.frame_open => {
                    return Err(CodecError::corrupt("zstd", "the frame ends early"));
                }
                0 => {}
                written => return Ok(Some(written)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zstd_frame_without_content_size_is_bounded() {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::ContentSizeFlag(false)).unwrap();
        let mut frame = vec![0; 1000];
        let length = context.compress2(frame.as_mut_slice(), &[7u8; 500_000]).unwrap();
        let mut out = Vec::new();
        decode_stream(&frame[..length], 500_000, &mut out).unwrap();
        assert_eq!(out.len(), 500_000);
        for (frame, limit) in [(&frame[..length], 499_999), (&frame[..length - 1], 500_000)] {
            assert!(decode_stream(frame, limit, &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn a_range_of_zstd_frames_is_what_the_whole_holds_there() {
        let data: Vec<u8> = (0..300_000u32).map(|i| (i / 1000 * (i % 7)).to_le_bytes()[0]).collect();
        let (mut scratch, mut frames) = (Scratch::new(), Vec::new());
        for part in data.chunks(140_000) {
            encode((3, true), part, &mut frames, &mut scratch).unwrap();
        }
        for range in [0..10, 0..140_000, 139_990..140_010, 150_000..280_000, 250_000..300_000, 0..300_000] {
            let mut part = vec![0; range.len()];
            decode_range(&frames, data.len(), range.clone(), &mut part, &mut scratch).unwrap();
            assert!(part == data[range.clone()], "{range:?}");
        }
        let mut end = vec![0; 10];
        let mut last = |src: &[u8], decoded: usize| {
            decode_range(src, decoded, decoded - 10..decoded, &mut end, &mut scratch)
        };
        for wrong in [data.len() - 1, data.len() + 1] {
            assert!(matches!(last(&frames, wrong), Err(CodecError::Size { .. })), "{wrong}");
        }
        let mut damaged = frames.clone();
        *damaged.last_mut().unwrap() ^= 1;
        for src in [&frames[..frames.len() - 1], &frames[..frames.len() / 2], &[], &damaged] {
            assert!(last(src, data.len()).is_err(), "{} of {} bytes", src.len(), frames.len());
        }
    }
}
