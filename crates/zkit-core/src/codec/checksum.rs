//! Checksums beside encoded bytes, four bytes little-endian.

use super::error::CodecError;
use crate::metadata::{Checksum, ChecksumPlace};

/// Bytes that every checksum takes.
pub(super) const CHECKSUM_BYTES: usize = 4;

fn name(checksum: Checksum) -> &'static str {
    match checksum {
        Checksum::Crc32c => "crc32c",
        Checksum::Crc32 => "crc32",
        Checksum::Adler32 => "adler32",
        Checksum::Fletcher32 => "fletcher32",
        Checksum::JenkinsLookup3 { .. } => "jenkins_lookup3",
    }
}

fn compute(checksum: Checksum, bytes: &[u8]) -> u32 {
    match checksum {
        Checksum::Crc32c => crc32c::crc32c(bytes),
        Checksum::Crc32 => libdeflater::crc32(bytes),
        Checksum::Adler32 => libdeflater::adler32(bytes),
        Checksum::Fletcher32 => fletcher32(bytes),
        Checksum::JenkinsLookup3 { seed } => jenkins_lookup3(bytes, seed),
    }
}

/// Returns the bytes without their checksum, after comparing it.
pub(super) fn verify(checksum: Checksum, place: ChecksumPlace, bytes: &[u8]) -> Result<&[u8], CodecError> {
    let short =
        || CodecError::corrupt(name(checksum), format!("{} bytes cannot hold a checksum", bytes.len()));
    let (payload, stored) = match place {
        ChecksumPlace::Start => bytes.split_first_chunk().map(|(stored, payload)| (payload, stored)),
        ChecksumPlace::End => bytes.split_last_chunk(),
    }
    .ok_or_else(short)?;
    let (stored, found) = (u32::from_le_bytes(*stored), compute(checksum, payload));
    if stored != found {
        let what =
            format!("the checksum of the bytes is {found:#010x}, {stored:#010x} is stored beside them");
        return Err(CodecError::corrupt(name(checksum), what));
    }
    Ok(payload)
}

/// Appends the bytes with their checksum.
pub(super) fn append(checksum: Checksum, place: ChecksumPlace, bytes: &[u8], out: &mut Vec<u8>) {
    let sum = compute(checksum, bytes).to_le_bytes();
    match place {
        ChecksumPlace::Start => {
            out.extend_from_slice(&sum);
            out.extend_from_slice(bytes);
        }
        ChecksumPlace::End => {
            out.extend_from_slice(bytes);
            out.extend_from_slice(&sum);
        }
    }
}

/// HDF5's Fletcher-32, over 16-bit big-endian words. Source: `H5_checksum_fletcher32` in HDF5's H5checksum.c.
fn fletcher32(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (0u32, 0u32);
    let words = bytes.chunks_exact(2);
    let rest = words.remainder();
    // 360 words at a time cannot overflow
    let mut pending = 0;
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    for word in words {
        low += u32::from(u16::from_be_bytes([word[0], word[1]]));
        high = high.wrapping_add(low);
        pending += 1;
        if pending == 360 {
            (low, high, pending) = (fold(low), fold(high), 0);
        }
    }
    (low, high) = (fold(low), fold(high));
    if let [last] = rest {
        low += u32::from(*last) << 8;
        high += low;
        (low, high) = (fold(low), fold(high));
    }
    (low, high) = (fold(low), fold(high));
    (high << 16) | low
}

/// Bob Jenkins' lookup3 `hashlittle`, as HDF5 uses it. Source: `H5_checksum_lookup3` in HDF5's H5checksum.c.
fn jenkins_lookup3(bytes: &[u8], seed: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the hash takes the length modulo 2^32")]
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32).wrapping_add(seed);
    let (mut a, mut b, mut c) = (start, start, start);
    let mut rest = bytes;
    let word = |at: &[u8]| {
        let mut word = [0; 4];
        word[..at.len().min(4)].copy_from_slice(&at[..at.len().min(4)]);
        u32::from_le_bytes(word)
    };
    while rest.len() > 12 {
        a = a.wrapping_add(word(rest));
        b = b.wrapping_add(word(&rest[4..]));
        c = c.wrapping_add(word(&rest[8..]));
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return c;
    }
    a = a.wrapping_add(word(rest));
    b = b.wrapping_add(word(rest.get(4..).unwrap_or(&[])));
    c = c.wrapping_add(word(rest.get(8..).unwrap_or(&[])));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sums() {
        assert_eq!(compute(Checksum::Crc32c, b"123456789"), 0xe306_9283);
        assert_eq!(compute(Checksum::Crc32, b"123456789"), 0xcbf4_3926);
        assert_eq!(compute(Checksum::Adler32, b"Wikipedia"), 0x11e6_0398);
        // numcodecs.fletcher32.Fletcher32().encode(b"abcde")[-4:]
        assert_eq!(
            compute(Checksum::JenkinsLookup3 { seed: 0 }, b"Four score and seven years ago"),
            0x1777_0551
        );
    }

    #[test]
    fn finds_a_flipped_bit_at_either_end() {
        for place in [ChecksumPlace::Start, ChecksumPlace::End] {
            let mut bytes = Vec::new();
            append(Checksum::Fletcher32, place, b"0123456", &mut bytes);
            assert_eq!(verify(Checksum::Fletcher32, place, &bytes).unwrap(), b"0123456");
            bytes[6] ^= 1;
            assert!(verify(Checksum::Fletcher32, place, &bytes).is_err());
            assert!(verify(Checksum::Fletcher32, place, b"ab").is_err());
        }
    }
}
