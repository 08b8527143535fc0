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
        assert_eq!(part, whole[middle], "a part is what the whole holds there");
    }
    let mut wrong_size = vec![0; whole.len() + 1];
    assert!(decoder.decode_into(data, &mut wrong_size).is_err(), "a frame of another size is an error");
});
