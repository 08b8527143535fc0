//! Sequences of literals and matches: the LZ4 block decoder, and copies of matches for its relatives.
//!
//! Copies are done in steps of fixed size that may write beyond their end, wherever what follows in the buffer has
//! yet to be decoded; near the ends of either buffer they are exact. All lengths and distances are checked against the
//! slices before use, so that no input reads or writes outside of them.

#![expect(unsafe_code, reason = "wild copies inside checked ranges")]

/// Bytes that must be left in the source for a sequence without length extensions: token, literals, distance.
const FAST_SRC: usize = 1 + 16 + 2;

/// Bytes that must be left in the destination for a sequence without length extensions, copied in whole steps.
const FAST_DST: usize = 14 + FAST_MATCH;

/// Bytes written for a match without length extension.
const FAST_MATCH: usize = 18;

/// The largest number of bytes by which a wild copy exceeds its length.
const EXCESS: usize = 32;

/// Literals up to this many are copied in steps, more by `memcpy`.
const SHORT_RUN: usize = 256;

/// The shortest match.
const MIN_MATCH: usize = 4;

/// A length in a token that goes on in the bytes after it.
const EXTENDED: usize = 15;

/// Decodes one LZ4 block into the start of `dst` and returns the decoded length, or `None` where `src` is not a block or
/// decodes to more than `dst` holds.
pub fn decode_lz4(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let (mut from, mut at) = (0, 0);
    loop {
        let token = usize::from(*src.get(from)?);
        let (mut literals, mut len) = (token >> 4, (token & 15) + MIN_MATCH);
        let distance;
        if literals < EXTENDED && src.len() - from >= FAST_SRC && dst.len() - at >= FAST_DST {
            // SAFETY: so many bytes are left in both, and the match, if copied, starts inside `dst`.
            unsafe {
                let (literal, to) = (src.as_ptr().add(from + 1), dst.as_mut_ptr().add(at));
                copy::<16>(literal, to);
                distance = usize::from(u16::from_le(literal.add(literals).cast::<u16>().read_unaligned()));
                from += 1 + literals + 2;
                at += literals;
                if len < EXTENDED + MIN_MATCH && distance >= 8 && distance <= at {
                    copy_short_match(to.add(literals), distance);
                    at += len;
                    continue;
                }
            }
        } else {
            from += 1;
            if literals == EXTENDED {
                literals = extended(literals, src, &mut from)?;
            }
            if src.len() - from < literals || dst.len() - at < literals {
                return None;
            }
            // SAFETY: so many bytes are left in both.
            unsafe { copy_literals(src, from, dst, at, literals) };
            from += literals;
            at += literals;
            let Some(bytes) = src.get(from..from + 2) else {
                // the last sequence has literals only
                return (from == src.len()).then_some(at);
            };
            distance = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
            from += 2;
        }
        if len == EXTENDED + MIN_MATCH {
            len = extended(len, src, &mut from)?;
        }
        copy_match(dst, at, distance, len)?;
        at += len;
    }
}

/// Adds the bytes of a length extension, which goes on while they are 255.
#[inline]
fn extended(mut len: usize, src: &[u8], from: &mut usize) -> Option<usize> {
    loop {
        let more = *src.get(*from)?;
        *from += 1;
        len = len.checked_add(usize::from(more))?;
        if more != 255 {
            return Some(len);
        }
    }
}

/// Copies `len` bytes from `distance` before `at` to `at`, where the two may overlap and then repeat; `None` where
/// they reach outside `dst`. Bytes after them may change.
#[inline(always)]
pub fn copy_match(dst: &mut [u8], at: usize, distance: usize, len: usize) -> Option<()> {
    let left = dst.len().checked_sub(at)?;
    if distance == 0 || distance > at || len > left {
        return None;
    }
    // SAFETY: the match starts inside `dst`, and `len` bytes are left; more are only written where they are left too.
    unsafe {
        let to = dst.as_mut_ptr().add(at);
        if len <= FAST_MATCH && distance >= 8 && left >= FAST_MATCH {
            copy_short_match(to, distance);
        } else if left - len >= EXCESS {
            copy_match_wild(to, distance, len);
        } else {
            let wild = len.saturating_sub(EXCESS);
            if wild > 0 {
                copy_match_wild(to, distance, wild);
            }
            copy_match_exact(to.add(wild), distance, len - wild);
        }
    }
    Some(())
}

/// Copies [`FAST_MATCH`] bytes of a match.
///
/// # Safety
///
/// `distance`, 8 at least, bytes must be readable before `to`, and [`FAST_MATCH`] writable at `to`.
#[inline(always)]
unsafe fn copy_short_match(to: *mut u8, distance: usize) {
    // SAFETY: the caller vouches for the range; no step is longer than the distance.
    unsafe {
        let from = to.cast_const().sub(distance);
        copy::<8>(from, to);
        copy::<8>(from.add(8), to.add(8));
        copy::<2>(from.add(16), to.add(16));
    }
}

/// Copies a match; writes up to [`EXCESS`] bytes more.
///
/// # Safety
///
/// `distance`, not 0, bytes must be readable before `to`, and `len + EXCESS` writable at `to`.
#[inline]
unsafe fn copy_match_wild(to: *mut u8, distance: usize, len: usize) {
    // SAFETY: the caller vouches for the range; no step is longer than the distance.
    unsafe {
        let from = to.cast_const().sub(distance);
        match distance {
            32.. if len > SHORT_RUN && distance >= len => std::ptr::copy_nonoverlapping(from, to, len),
            32.. => copy_steps::<32>(from, to, len),
            16.. => copy_steps::<16>(from, to, len),
            8.. => copy_steps::<8>(from, to, len),
            1 if len > SHORT_RUN => to.write_bytes(from.read(), len),
            _ => copy_pattern(to, distance, len),
        }
    }
}

/// Copies a match of a distance below 8; writes up to 16 bytes more.
///
/// # Safety
///
/// `distance`, 1 to 7, bytes must be readable before `to`, and `len + EXCESS` writable at `to`.
unsafe fn copy_pattern(to: *mut u8, distance: usize, len: usize) {
    /// What repeats the lowest `distance` bytes of a number over all its bytes.
    const REPEAT: [u64; 8] = [
        0,
        0x0101_0101_0101_0101,
        0x0001_0001_0001_0001,
        0x0001_0000_0100_0001,
        0x0000_0001_0000_0001,
        0x0000_0100_0000_0001,
        0x0001_0000_0000_0001,
        0x0100_0000_0000_0001,
    ];
    // SAFETY: the caller vouches for the range, of which `EXCESS` makes 8 bytes readable at the distance.
    unsafe {
        let from = to.cast_const().sub(distance);
        let period = u64::from_le(from.cast::<u64>().read_unaligned()) & ((1 << (8 * distance)) - 1);
        let pattern = period.wrapping_mul(REPEAT[distance]).to_le_bytes();
        to.cast::<[u8; 8]>().write(pattern);
        if 8_usize.is_multiple_of(distance) {
            for at in (8..len).step_by(8) {
                to.add(at).cast::<[u8; 8]>().write(pattern);
            }
        } else if len > 8 {
            // 8 bytes on, the pattern starts anew as many whole periods ago
            let periods = 8_usize.next_multiple_of(distance);
            copy_steps::<8>(to.add(8).cast_const().sub(periods), to.add(8), len - 8);
        }
    }
}

/// Copies a short match and not a byte more.
///
/// # Safety
///
/// `distance`, not 0, bytes must be readable before `to`, and `len` writable at `to`.
unsafe fn copy_match_exact(to: *mut u8, distance: usize, len: usize) {
    for at in 0..len {
        // SAFETY: the caller vouches for the range.
        unsafe { to.add(at).write(to.add(at).sub(distance).read()) };
    }
}

/// Copies literals, in steps where there is room for more.
///
/// # Safety
///
/// `len` bytes must be left in `src` after `from` and in `dst` after `at`.
#[inline]
unsafe fn copy_literals(src: &[u8], from: usize, dst: &mut [u8], at: usize, len: usize) {
    let room = src.len() - from - len >= EXCESS && dst.len() - at - len >= EXCESS;
    // SAFETY: the caller vouches for `len` bytes; there is room for a step more.
    unsafe {
        let (from, to) = (src.as_ptr().add(from), dst.as_mut_ptr().add(at));
        if len <= SHORT_RUN && room {
            copy_steps::<32>(from, to, len);
        } else {
            std::ptr::copy_nonoverlapping(from, to, len);
        }
    }
}

/// Copies `len` bytes in steps of `STEP`, up to `STEP` bytes more; at least one step.
///
/// # Safety
///
/// `len + STEP` bytes must be readable at `from` and writable at `to`; `to` is outside them or `STEP` bytes after `from`
/// at least.
#[inline]
unsafe fn copy_steps<const STEP: usize>(from: *const u8, to: *mut u8, len: usize) {
    let mut at = 0;
    loop {
        // SAFETY: `at < len` or `at == 0`; the caller vouches for a step more.
        unsafe { copy::<STEP>(from.add(at), to.add(at)) };
        at += STEP;
        if at >= len {
            return;
        }
    }
}

/// Copies `SIZE` bytes, all of them read before any is written.
///
/// # Safety
///
/// `SIZE` bytes must be readable at `from` and writable at `to`.
#[inline(always)]
unsafe fn copy<const SIZE: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: arrays of bytes have no alignment and no invalid values; the caller vouches for the range.
    unsafe { to.cast::<[u8; SIZE]>().write(from.cast::<[u8; SIZE]>().read()) };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes with runs, repeats at small and large distances, and noise.
    fn compressible() -> impl Strategy<Value = Vec<u8>> {
        let piece = (1..80_usize, 1..400_usize, prop::collection::vec(any::<u8>(), 1..60));
        prop::collection::vec(piece, 0..30).prop_map(|pieces| {
            let mut bytes = Vec::new();
            for (distance, len, literals) in pieces {
                bytes.extend(literals);
                for _ in 0..len {
                    bytes.push(bytes[bytes.len().saturating_sub(distance)]);
                }
            }
            bytes
        })
    }

    proptest! {
        #[test]
        fn decodes_what_lz4_flex_encodes(bytes in compressible(), slack in 0..40_usize) {
            let block = lz4_flex::block::compress(&bytes);
            let mut decoded = vec![0; bytes.len() + slack];
            prop_assert_eq!(decode_lz4(&block, &mut decoded), Some(bytes.len()));
            prop_assert_eq!(&decoded[..bytes.len()], &bytes);
            if let Some(short) = bytes.len().checked_sub(1) {
                prop_assert_eq!(decode_lz4(&block, &mut decoded[..short]), None);
            }
        }

        #[test]
        fn agrees_with_lz4_flex_on_damaged_blocks(
            bytes in compressible(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut block = lz4_flex::block::compress(&bytes);
            for (index, value) in changes {
                let at = index.index(block.len());
                block[at] = value;
            }
            if let Some(cut) = cut {
                block.truncate(cut.index(block.len()));
            }
            let (mut ours, mut theirs) = (vec![0; bytes.len()], vec![0; bytes.len()]);
            let len = decode_lz4(&block, &mut ours);
            if let Ok(expected) = lz4_flex::block::decompress_into(&block, &mut theirs) {
                prop_assert_eq!(len, Some(expected));
                prop_assert_eq!(&ours[..expected], &theirs[..expected]);
            }
        }

        #[test]
        fn matches_repeat(distance in 1..70_usize, len in 0..600_usize, room in 0..50_usize) {
            let mut expected: Vec<u8> = (0..70).collect();
            for _ in 0..len {
                expected.push(expected[expected.len() - distance]);
            }
            let mut copied = expected.clone();
            copied[70..].fill(0);
            copied.resize(70 + len + room, 0);
            prop_assert_eq!(copy_match(&mut copied, 70, distance, len), Some(()));
            prop_assert_eq!(&copied[..70 + len], &expected);
        }
    }

    #[test]
    fn refuses_matches_outside_the_buffer() {
        let mut dst = [0; 16];
        for (at, distance, len) in
            [(4, 0, 1), (4, 5, 1), (4, 1, 13), (17, 1, 0), (0, 1, 1), (4, 1, usize::MAX)]
        {
            assert_eq!(copy_match(&mut dst, at, distance, len), None, "{at} {distance} {len}");
        }
        assert_eq!(copy_match(&mut dst, 4, 1, 12), Some(()));
    }

    #[test]
    fn refuses_blocks_that_are_cut_or_empty() {
        for block in [&[][..], &[0x10], &[0xf0], &[0xf0, 255], &[0x10, 7, 1], &[0x10, 7, 0, 0, 0x00]] {
            assert_eq!(decode_lz4(block, &mut [0; 64]), None, "{block:?}");
        }
        assert_eq!(decode_lz4(&[0x00], &mut []), Some(0));
    }
}
