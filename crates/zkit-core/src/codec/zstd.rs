//! zstd: frames written, and read whole, in part, or as a stream.

use std::ops::Range;

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::compress::append_bounded;
use super::error::CodecError;
use super::scratch::Scratch;
use super::window::{self, Window};

/// The largest window that libzstd keeps; frames with larger ones are decoded whole, which takes none.
const WINDOW_LOG_MOST: u32 = 31;

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
    match zstd_safe::get_error_name(code) {
        // libzstd could not have memory: that says nothing of the bytes
        "Allocation error : not enough memory" => {
            CodecError::OverBudget { codec: "zstd", what: "libzstd", needs: window::SMALL_BYTES, left: 0 }
        }
        what => CodecError::corrupt("zstd", what),
    }
}

/// Returns the window of the frame at the start of `src`, and how much of it decoding piece by piece fills: never more than
/// its content, or `most`. Both are 0 where there is no frame. Source: RFC 8878, section 3.1.1.1.
pub(super) fn window_of(src: &[u8], most: u64) -> (u64, u64) {
    let (Some(0xfd2f_b528), Some(&descriptor)) =
        (src.first_chunk().map(|magic| u32::from_le_bytes(*magic)), src.get(4))
    else {
        return (0, 0);
    };
    let content = zstd_safe::get_frame_content_size(src).ok().flatten().unwrap_or(u64::MAX).min(most);
    if descriptor & 0x20 != 0 {
        return (content, content);
    }
    let Some(&window) = src.get(5) else { return (0, 0) };
    let base = 1u64 << (10 + (window >> 3));
    let window = base + base / 8 * u64::from(window & 7);
    (window, window.min(content))
}

/// Decodes frames of unknown decoded size into `out`, at most `limit` bytes; windows may take `window_bytes`.
pub(super) fn decode_stream(
    src: &[u8],
    limit: u64,
    window_bytes: u64,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<(), CodecError> {
    let mut piece = vec![0; DCtx::out_size()];
    let mut stream = Frames::new(src, limit, window_bytes, scratch)?;
    while let Some(written) = stream.read(&mut piece)? {
        out.extend_from_slice(&piece[..written]);
        if out.len() as u64 > limit {
            return Err(CodecError::too_large("zstd", out.len() as u64, limit));
        }
    }
    Ok(())
}

/// Decodes bytes `range` of the `decoded` that zstd frames hold; what lies in front is decoded and dropped, what lies
/// behind is not looked at. Memory: the window of one frame at a time, for which there may be `window_bytes`.
pub(super) fn decode_range(
    src: &[u8],
    decoded: usize,
    range: Range<usize>,
    dst: &mut [u8],
    (scratch, left): (&mut Scratch, u64),
) -> Result<(), CodecError> {
    let size =
        |found: usize| CodecError::Size { codec: "zstd", found: found as u64, expected: decoded as u64 };
    if let Ok(Some(claimed)) = zstd_safe::get_frame_content_size(src)
        && claimed > decoded as u64
    {
        return Err(CodecError::Size { codec: "zstd", found: claimed, expected: decoded as u64 });
    }
    if window_of(src, decoded as u64).0 > 1 << WINDOW_LOG_MOST {
        let _held = window::take("zstd", decoded as u64, left)?;
        let mut whole = vec![0; decoded];
        let found = decode(src, &mut whole, scratch)?;
        dst.copy_from_slice(whole.get(range).filter(|_| found == decoded).ok_or_else(|| size(found))?);
        return Ok(());
    }
    let mut dropped = scratch.take_buffer();
    dropped.resize(DCtx::out_size().min(range.start), 0);
    let mut stream = Frames::new(src, decoded as u64, left, scratch)?;
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
    drop(stream);
    scratch.give_back(dropped);
    Ok(())
}

/// Frames that are read piece by piece.
struct Frames<'a, 'b> {
    /// The context of the thread, for windows that it may keep.
    kept: &'a mut DCtx<'static>,
    /// The context of a frame with a large window, which is given back with it.
    large: Option<(DCtx<'static>, Option<Window>)>,
    input: InBuffer<'b>,
    /// Whether the frame goes on; where it does not, the input may hold another one.
    frame_open: bool,
    /// The bytes that all frames decode to, at most.
    decoded: u64,
    /// The bytes that windows may take.
    left: u64,
}

impl<'a, 'b> Frames<'a, 'b> {
    fn new(src: &'b [u8], decoded: u64, left: u64, scratch: &'a mut Scratch) -> Result<Self, CodecError> {
        let kept = scratch.zstd_decoder.get_or_insert_with(DCtx::create);
        kept.reset(ResetDirective::SessionOnly).map_err(failed)?;
        let input = InBuffer::around(src);
        let mut frames = Self { kept, large: None, input, frame_open: true, decoded, left };
        frames.begin()?;
        Ok(frames)
    }

    /// Takes the window of the frame that begins here.
    fn begin(&mut self) -> Result<(), CodecError> {
        // the last frame's is given back first: nobody waits with a window in the hand
        self.large = None;
        let (window, needs) = window_of(&self.input.src[self.input.pos()..], self.decoded);
        if window > window::SMALL_BYTES {
            let window = window::take("zstd", needs, self.left)?;
            let mut context = DCtx::create();
            context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MOST)).map_err(failed)?;
            self.large = Some((context, window));
        }
        Ok(())
    }

    /// Fills `out` at least in part and returns how far, or `None` at the end.
    fn read(&mut self, out: &mut [u8]) -> Result<Option<usize>, CodecError> {
        loop {
            let all_read = self.input.pos() == self.input.src.len();
            if all_read && !self.frame_open {
                return Ok(None);
            }
            if !self.frame_open {
                self.begin()?;
            }
            let context = self.large.as_mut().map_or(&mut *self.kept, |(context, _)| context);
            let mut output = OutBuffer::around(&mut *out);
            let hint = context.decompress_stream(&mut output, &mut self.input).map_err(failed)?;
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
        decode_stream(&frame[..length], 500_000, u64::MAX, &mut out, &mut Scratch::new()).unwrap();
        assert_eq!(out.len(), 500_000);
        for (frame, limit) in [(&frame[..length], 499_999), (&frame[..length - 1], 500_000)] {
            let decoded = decode_stream(frame, limit, u64::MAX, &mut Vec::new(), &mut Scratch::new());
            let over = matches!(decoded, Err(CodecError::OverBudget { needs, left, .. }) if needs > left);
            assert_eq!(over, limit < 500_000, "{decoded:?}");
            assert!(decoded.is_err());
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
            decode_range(&frames, data.len(), range.clone(), &mut part, (&mut scratch, 0)).unwrap();
            assert!(part == data[range.clone()], "{range:?}");
        }
        let mut end = vec![0; 10];
        let mut last = |src: &[u8], decoded: usize| {
            decode_range(src, decoded, decoded - 10..decoded, &mut end, (&mut scratch, 0))
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

    /// Returns a frame of this window log that holds `data`, as `zstd --long` writes it.
    fn long_frame(data: &[u8], window_log: u32) -> Vec<u8> {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::ContentSizeFlag(false)).unwrap();
        let mut frame = vec![0; zstd_safe::compress_bound(data.len())];
        let length = context.compress2(frame.as_mut_slice(), data).unwrap();
        frame.truncate(length);
        // the window descriptor: the encoder takes no window larger than what it is given
        frame[5] = u8::try_from((window_log - 10) << 3).unwrap();
        frame
    }

    #[test]
    fn a_window_takes_no_more_than_the_frame_decodes_to() {
        let data: Vec<u8> = (0..300_000u32).map(|i| (i / 1000 * (i % 7)).to_le_bytes()[0]).collect();
        // 1 GiB of window for 300 KB
        let frame = long_frame(&data, 30);
        assert_eq!(window_of(&frame, 5), (1 << 30, 5));
        let mut part = vec![0; 1000];
        decode_range(&frame, data.len(), 200_000..201_000, &mut part, (&mut Scratch::new(), 0)).unwrap();
        assert!(part == data[200_000..201_000]);
        let mut out = Vec::new();
        decode_stream(&frame, data.len() as u64, 0, &mut out, &mut Scratch::new()).unwrap();
        assert!(out == data);
    }

    #[test]
    fn a_large_window_is_over_budget_and_never_corrupt() {
        let data = vec![7; 40 << 20];
        for window_log in [24, 25, 28] {
            let frame = long_frame(&data, window_log);
            let needs = (1u64 << window_log).min(data.len() as u64);
            let mut part = [0; 100];
            let mut scratch = Scratch::new();
            let mut decode =
                |left| decode_range(&frame, data.len(), 500..600, &mut part, (&mut scratch, left));
            decode(needs).unwrap();
            let refused = CodecError::OverBudget {
                codec: "zstd",
                what: "the window of a frame",
                needs,
                left: needs - 1,
            };
            assert_eq!(decode(needs - 1), Err(refused));
            assert_eq!(part, [7; 100]);
        }
    }
}
