//! Any bytes as a blosc frame: decoded whole and in part, into a buffer of the size that metadata would promise.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zkit_core::codec::blosc::{Decoder, Header};

const LARGEST: u64 = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let promised = Header::parse(data).map_or(64, |header| header.nbytes);
    if promised > LARGEST {
        return;
    }
    let mut decoder = Decoder::new();
    let mut whole = vec![0; promised as usize];
    let is_whole = decoder.decode_into(data, &mut whole).is_ok();
    let middle = whole.len() / 3..whole.len() / 2;
    let mut part = vec![0; middle.len()];
    if decoder.decode_range(data, whole.len(), middle.clone(), &mut part).is_ok() && is_whole {
        assert_eq!(part, whole[middle.clone()], "a part is what the whole holds there");
    }
    if decode_span(&mut decoder, data, whole.len(), middle.clone(), &mut part).is_some() && is_whole {
        assert_eq!(part, whole[middle], "a part read alone is what the whole holds there");
    }
    let mut wrong_size = vec![0; whole.len() + 1];
    assert!(decoder.decode_into(data, &mut wrong_size).is_err(), "a frame of another size is an error");
});

/// Decodes a range from the bytes that hold it.
fn decode_span(
    decoder: &mut Decoder,
    data: &[u8],
    decoded: usize,
    range: std::ops::Range<usize>,
    part: &mut [u8],
) -> Option<()> {
    let header = Header::parse(data).ok()?;
    let head = data.get(..usize::try_from(header.head_bytes()).ok()?)?;
    let span = header.span(head, range.clone()).ok()?;
    let bytes = data.get(usize::try_from(span.start).ok()?..usize::try_from(span.end).ok()?)?;
    decoder.decode_span(head, span.start, bytes, decoded, range, part).ok()
}
