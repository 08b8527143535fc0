//! Decoder of blosclz, the descendant of FastLZ that is c-blosc's default.
//!
//! A stream is a row of instructions, each led by a control byte. Below 32 it is that number plus one of literals.
//! Otherwise its top three bits give the length of a match, its low five bits the high part of the distance, and
//! a byte the low part; length 7 goes on in bytes until one is not 255; the largest distance goes on in a 16-bit
//! big-endian number. Only the low five bits of the first control byte count. Lengths add up without overflow here;
//! in C they wrap (c-blosc issue 405).

use crate::kernels::lz::copy_match;

/// Distances from here on are written in 16 more bits.
const MAX_DISTANCE: usize = 8191;

/// Decodes `src` into all of `dst`; `None` where `src` is not a stream of just that many bytes.
pub(super) fn decode(src: &[u8], dst: &mut [u8]) -> Option<()> {
    let mut src = Source(src);
    let mut at = 0;
    let mut control = usize::from(src.next()?) & 31;
    loop {
        if control < 32 {
            let literals = src.take(control + 1)?;
            dst.get_mut(at..at + literals.len())?.copy_from_slice(literals);
            at += literals.len();
        } else {
            let (len, distance) = read_match(control, &mut src)?;
            copy_match(dst, at, distance, len)?;
            at += len;
        }
        match src.next() {
            Some(next) => control = usize::from(next),
            None => return (at == dst.len()).then_some(()),
        }
    }
}

/// The bytes not yet read.
struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }
}

/// Returns the length and the distance of a match.
fn read_match(control: usize, src: &mut Source<'_>) -> Option<(usize, usize)> {
    let mut len = (control >> 5) + 2;
    if control >> 5 == 7 {
        loop {
            let more = src.next()?;
            // at most 255 times the bytes of a slice of at most 2 GiB
            len = len.checked_add(usize::from(more))?;
            if more != 255 {
                break;
            }
        }
    }
    let (high, low) = ((control & 31) << 8, usize::from(src.next()?));
    if low == 255 && high == 31 << 8 {
        let far = usize::from(src.next()?) << 8 | usize::from(src.next()?);
        return Some((len, far + MAX_DISTANCE + 1));
    }
    Some((len, high + low + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(src: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut dst = vec![0; len];
        decode(src, &mut dst).map(|()| dst)
    }

    #[test]
    fn decodes_literals_runs_and_overlapping_matches() {
        assert_eq!(decoded(&[0x22, b'a', b'b', b'c'], 3).unwrap(), b"abc");
        assert_eq!(decoded(&[0x20, b'a', 0x40, 0, 0, b'!'], 6).unwrap(), b"aaaaa!");
        assert_eq!(
            decoded(&[0x21, b'a', b'b', 0xe0, 1, 1, 0, b'!'], 13).unwrap(),
            b"ababababababa"[..12].iter().chain(b"!").copied().collect::<Vec<_>>()
        );
    }

    #[test]
    fn refuses_streams_that_leave_their_bounds() {
        for (src, len) in [
            (&[][..], 0),
            (&[0x22, b'a', b'b'], 3),             // literals end early
            (&[0x22, b'a', b'b', b'c'], 2),       // too long
            (&[0x22, b'a', b'b', b'c'], 4),       // too short
            (&[0x20, b'a', 0x40, 1], 5),          // distance before the start
            (&[0x20, b'a', 0x40], 5),             // no distance
            (&[0x20, b'a', 0xe0, 255, 255], 5),   // length goes on
            (&[0x20, b'a', 0xff, 0, 255, 0], 10), // far distance cut off
        ] {
            assert_eq!(decoded(src, len), None, "{src:?}");
        }
        let mut endless = vec![0x20, b'a', 0xe0];
        endless.extend(std::iter::repeat_n(255, 9_000_000));
        endless.extend([0, 0]);
        assert_eq!(decoded(&endless, 1000), None);
    }
}
