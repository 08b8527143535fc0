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

/// How far a zstd stream can be followed from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZstdWalk {
    /// Its frames end where the bytes do.
    Whole,
    /// Its frames end, and bytes that are no frame follow.
    Trailing {
        /// How many.
        bytes: u64,
    },
    /// It says that it goes on behind its end.
    Cut,
    /// It goes on behind what was read.
    OutOfSight,
    /// A block says what no block says.
    Broken(&'static str),
}

/// Follows the blocks of zstd frames from header to header, without decoding any; `head` is the start of `size` bytes.
///
/// Source: RFC 8878, sections 3.1.1 and 3.1.2.
pub fn walk_zstd(head: &[u8], size: u64) -> ZstdWalk {
    let mut at = 0u64;
    loop {
        if at == size && at > 0 {
            return ZstdWalk::Whole;
        }
        if at > 0 && size - at < 4 {
            return ZstdWalk::Trailing { bytes: size - at };
        }
        let Some(frame) = part(head, at, 4) else { return out_of_sight(at, 4, size) };
        let magic = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]);
        if magic & 0xffff_fff0 == 0x184d_2a50 {
            let Some(length) = part(head, at + 4, 4) else { return out_of_sight(at, 8, size) };
            at += 8 + u64::from(u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
        } else if magic == 0xfd2f_b528 {
            match walk_zstd_frame(head, at, size) {
                Ok(end) => at = end,
                Err(end) => return end,
            }
        } else if at > 0 {
            return ZstdWalk::Trailing { bytes: size - at };
        } else {
            return ZstdWalk::Broken("no zstd frame begins like this");
        }
        if at > size {
            return ZstdWalk::Cut;
        }
    }
}

/// Returns where a frame ends, or why that cannot be said.
fn walk_zstd_frame(head: &[u8], start: u64, size: u64) -> Result<u64, ZstdWalk> {
    let descriptor = part(head, start + 4, 1).ok_or_else(|| out_of_sight(start, 5, size))?[0];
    let single_segment = descriptor & 0x20 != 0;
    let content_size = match descriptor >> 6 {
        0 => u64::from(single_segment),
        power => 1 << power,
    };
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let mut at = start + 5 + u64::from(!single_segment) + dictionary + content_size;
    loop {
        let block = part(head, at, 3).ok_or_else(|| out_of_sight(at, 3, size))?;
        let header = u32::from_le_bytes([block[0], block[1], block[2], 0]);
        let length = match header >> 1 & 3 {
            1 => 1,
            3 => return Err(ZstdWalk::Broken("a block of the reserved type")),
            _ => u64::from(header >> 3),
        };
        at += 3 + length;
        if header & 1 != 0 {
            return Ok(at + if descriptor & 4 != 0 { 4 } else { 0 });
        }
        if at > size {
            return Err(ZstdWalk::Cut);
        }
    }
}

fn part(head: &[u8], at: u64, length: usize) -> Option<&[u8]> {
    let at = usize::try_from(at).ok()?;
    head.get(at..at.checked_add(length)?)
}

fn out_of_sight(at: u64, length: u64, size: u64) -> ZstdWalk {
    if at + length > size { ZstdWalk::Cut } else { ZstdWalk::OutOfSight }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(data: &[u8]) -> Vec<u8> {
        let mut out = vec![0; zstd_safe::compress_bound(data.len())];
        let length = zstd_safe::compress(out.as_mut_slice(), data, 3).unwrap();
        out.truncate(length);
        out
    }

    #[test]
    fn frames_are_followed_to_their_end() {
        let data: Vec<u8> =
            (0..400_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
        for data in [&data[..], &data[..100], b"x"] {
            let mut whole = frame(data);
            let size = whole.len() as u64;
            assert_eq!(walk_zstd(&whole, size), ZstdWalk::Whole);
            for cut in [whole.len() - 1, whole.len() / 2, 6] {
                assert_eq!(walk_zstd(&whole[..cut], cut as u64), ZstdWalk::Cut, "{cut} of {size}");
            }
            if size > 1_000 {
                assert_eq!(walk_zstd(&whole[..64], size), ZstdWalk::OutOfSight);
            }
            let second = whole.clone();
            whole.extend(second);
            assert_eq!(walk_zstd(&whole, 2 * size), ZstdWalk::Whole);
            whole.extend(b"padding");
            assert_eq!(walk_zstd(&whole, 2 * size + 7), ZstdWalk::Trailing { bytes: 7 });
        }
        assert!(matches!(walk_zstd(b"<?xml version", 13), ZstdWalk::Broken(_)));
    }
}
