//! The records of a journal: 48 bytes each, little-endian, with a checksum.

use std::num::NonZeroU64;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::store::Arrived;

/// Bytes of a record in the file.
pub(super) const RECORD_BYTES: usize = 48;

/// Bytes in front of the checksum.
const BODY_BYTES: usize = RECORD_BYTES - 4;

/// One chunk of the target that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Position of the array in the header.
    pub array: u32,
    /// C-order position in the target's grid.
    pub chunk: u64,
    /// The object; `None` if it was left out, as all of it is fill.
    pub object: Option<ObjectDigest>,
    /// xxh3 of the decoded bytes.
    pub decoded_xxh3: u64,
}

/// What an object must be, byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectDigest {
    /// Its length.
    pub bytes: u64,
    /// xxh3 of its bytes.
    pub xxh3: u64,
}

impl ObjectDigest {
    /// Returns the digest of an object's bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.len() as u64, xxh3: xxhash_rust::xxh3::xxh3_64(bytes) }
    }
}

/// The mark that a store is complete and about to be renamed: by it the next run tells which is which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publishing {
    /// The directory of the new store.
    pub partial: Identity,
    /// The directory that it replaces.
    pub replaced: Option<Identity>,
}

/// A directory, whatever it is named: inode numbers are used again, so the time of birth goes with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The inode's number, never 0.
    pub inode: u64,
    /// Nanoseconds since 1970, cut to 64 bits; 0 where the file system does not know.
    pub born: u64,
}

/// Everything that can stand in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Done(Record),
    /// The object of a chunk of an array, as its server had it once it had arrived: in object stores alone.
    Arrived(u32, u64, Arrived),
    Publishing(Publishing),
    /// The source changed while it was read: what is recorded is of no one state of it.
    SourceChanged,
}

/// First field of an entry.
const DONE: u32 = 1;
const LEFT_OUT: u32 = 2;
const PUBLISHING: u32 = 3;
const ARRIVED: u32 = 4;
const SOURCE_CHANGED: u32 = 5;

impl Entry {
    /// Adds the entry to a buffer; `seed` ties it to its header.
    pub(super) fn write(&self, seed: u64, buffer: &mut Vec<u8>) {
        let (kind, array, fields) = match *self {
            Self::Done(Record { array, chunk, object, decoded_xxh3 }) => {
                let (kind, object) = match object {
                    Some(object) => (DONE, object),
                    None => (LEFT_OUT, ObjectDigest { bytes: 0, xxh3: 0 }),
                };
                (kind, array, [chunk, object.bytes, object.xxh3, decoded_xxh3])
            }
            Self::Arrived(array, chunk, Arrived { bytes, tag }) => {
                (ARRIVED, array, [chunk, bytes, tag.map_or(0, NonZeroU64::get), 0])
            }
            Self::Publishing(Publishing { partial, replaced }) => {
                let replaced = replaced.unwrap_or(Identity { inode: 0, born: 0 });
                (PUBLISHING, 0, [partial.inode, partial.born, replaced.inode, replaced.born])
            }
            Self::SourceChanged => (SOURCE_CHANGED, 0, [0; 4]),
        };
        let start = buffer.len();
        buffer.extend(kind.to_le_bytes());
        buffer.extend(array.to_le_bytes());
        buffer.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        buffer.extend([0; 4]); // free for later versions
        let checksum = checksum(&buffer[start..], seed);
        buffer.extend(checksum.to_le_bytes());
    }

    /// Returns an entry, or `None` if the bytes are not one.
    pub(super) fn parse(bytes: &[u8; RECORD_BYTES], seed: u64) -> Option<Self> {
        let (body, stored) = bytes.split_at(BODY_BYTES);
        if checksum(body, seed).to_le_bytes() != stored {
            return None;
        }
        let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"));
        let field = |number: usize| {
            let at = 8 + number * 8;
            u64::from_le_bytes(body[at..at + 8].try_into().expect("eight bytes"))
        };
        let record = |object| Record { array: word(4), chunk: field(0), object, decoded_xxh3: field(3) };
        match word(0) {
            DONE => Some(Self::Done(record(Some(ObjectDigest { bytes: field(1), xxh3: field(2) })))),
            LEFT_OUT => Some(Self::Done(record(None))),
            ARRIVED => {
                let arrived = Arrived { bytes: field(1), tag: NonZeroU64::new(field(2)) };
                Some(Self::Arrived(word(4), field(0), arrived))
            }
            PUBLISHING => Some(Self::Publishing(Publishing {
                partial: Identity { inode: field(0), born: field(1) },
                replaced: (field(2) != 0).then(|| Identity { inode: field(2), born: field(3) }),
            })),
            SOURCE_CHANGED => Some(Self::SourceChanged),
            _ => None,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "half of the hash is enough")]
fn checksum(body: &[u8], seed: u64) -> u32 {
    xxh3_64_with_seed(body, seed) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_read_back_and_no_flipped_bit_passes(
            array: u32, chunk: u64, bytes: u64, xxh3: u64, decoded_xxh3: u64, seed: u64, kind in 0..6, flipped in 0usize..RECORD_BYTES * 8,
        ) {
            let partial = Identity { inode: chunk | 1, born: bytes };
            let entry = match kind {
                0 => Entry::Done(Record { array, chunk, object: None, decoded_xxh3 }),
                1 => Entry::Done(Record { array, chunk, object: Some(ObjectDigest { bytes, xxh3 }), decoded_xxh3 }),
                2 => Entry::Publishing(Publishing { partial, replaced: None }),
                4 => Entry::SourceChanged,
                3 => Entry::Arrived(array, chunk, Arrived { bytes, tag: NonZeroU64::new(xxh3) }),
                _ => Entry::Publishing(Publishing { partial, replaced: Some(Identity { inode: xxh3 | 1, born: 3 }) }),
            };
            let mut buffer = Vec::new();
            entry.write(seed, &mut buffer);
            let mut stored: [u8; RECORD_BYTES] = buffer.try_into().unwrap();
            prop_assert_eq!(Entry::parse(&stored, seed), Some(entry));
            prop_assert_eq!(Entry::parse(&stored, !seed), None);
            stored[flipped / 8] ^= 1 << (flipped % 8);
            prop_assert_eq!(Entry::parse(&stored, seed), None);
        }
    }
}
