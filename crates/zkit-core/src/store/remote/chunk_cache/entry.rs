//! The file of one entry: what was read, of which object in which state, and a checksum of all of it.
//!
//! ```text
//! zkit chunk 1 <16 hexadecimal digits: the XXH3-64 of all that follows this line>
//! {"object":"s3://bucket/era5.zarr/t2m/0.0.0","part":"whole","etag":"\"9b2c\"","size":5,"modified":1700000000}
//! <the body>
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use bytes::Bytes;
use object_store::GetRange;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_128};

use crate::store::remote::versions::ReadVersion;

/// How every entry of this version begins.
const MAGIC: &str = "zkit chunk 1 ";
/// The first line: the magic, 16 digits and the end of the line.
const FIRST_LINE: usize = MAGIC.len() + 16 + 1;
/// Most bytes of the second line: a key has 1,024 in any cloud.
const HEADER_BYTES_MOST: usize = 64 << 10;
/// Most bytes of an entry beside its body.
pub(super) const OVERHEAD_MOST: u64 = (FIRST_LINE + HEADER_BYTES_MOST) as u64;

/// Which part of an object an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::store) enum Part {
    /// All of it.
    Whole,
    /// Offset and length.
    Range(u64, u64),
    /// The last bytes.
    Suffix(u64),
}

impl Part {
    /// Returns the part that a request is about; `None` for what is never asked for.
    pub(in crate::store) fn of(range: Option<&GetRange>) -> Option<Self> {
        match range {
            None => Some(Self::Whole),
            Some(GetRange::Bounded(range)) => {
                Some(Self::Range(range.start, range.end.saturating_sub(range.start)))
            }
            Some(GetRange::Suffix(length)) => Some(Self::Suffix(*length)),
            Some(GetRange::Offset(_)) => None,
        }
    }
}

/// What an entry is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Header {
    /// The URL of the object, without secrets.
    pub(in crate::store) object: String,
    pub(in crate::store) part: Part,
    /// The entity tag as the server gave it.
    pub(in crate::store) etag: String,
    /// Bytes of the whole object.
    pub(in crate::store) size: u64,
    /// When it was last changed, in seconds since 1970.
    pub(in crate::store) modified: i64,
}

/// An entry that was read and is sound.
#[derive(Debug, Clone)]
pub(in crate::store) struct Entry {
    pub(in crate::store) header: Header,
    pub(in crate::store) body: Bytes,
}

impl Entry {
    /// Returns the version of the object that it is of.
    pub(in crate::store::remote) fn version(&self) -> ReadVersion {
        let Header { etag, size, modified, .. } = &self.header;
        ReadVersion::new(Some(etag.clone()), *size, *modified)
    }
}

/// Returns the name of an entry below the folder: two digits, a slash, thirty digits.
///
/// It says nothing of the object, and no key leads out of the folder. Who finds two objects with the same name gains nothing:
/// the entry says of which object it is.
pub(super) fn name_of(object: &str, part: Part) -> String {
    let part = match part {
        Part::Whole => "whole".to_owned(),
        Part::Range(offset, length) => format!("range {offset} {length}"),
        Part::Suffix(length) => format!("suffix {length}"),
    };
    let digits = format!("{:032x}", xxh3_128(format!("{part}\n{object}").as_bytes()));
    let (folder, name) = digits.split_at(2);
    format!("{folder}/{name}")
}

/// Returns what stands before the body of an entry; `None` where its header would be too long.
pub(super) fn head_of(header: &Header, body: &[u8]) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(header).ok()?;
    line.push(b'\n');
    if line.len() > HEADER_BYTES_MOST {
        return None;
    }
    let mut checksum = Xxh3Default::new();
    checksum.update(&line);
    checksum.update(body);
    let mut head = format!("{MAGIC}{:016x}\n", checksum.digest()).into_bytes();
    head.append(&mut line);
    Some(head)
}

/// Writes an entry.
pub(super) fn write(file: &mut impl Write, head: &[u8], body: &[u8]) -> io::Result<()> {
    file.write_all(head)?;
    file.write_all(body)
}

/// Reads an entry of at most `limit` bytes of body, and says that it was used; `None` if there is none, or if what is there is
/// no entry of this object, larger, or damaged.
pub(super) fn load(path: &Path, object: &str, part: Part, limit: u64) -> Option<Entry> {
    let (mut file, length) = open(path).ok()?;
    if length > limit.saturating_add(OVERHEAD_MOST) {
        return None;
    }
    let entry = read(&mut file, length).ok().flatten()?;
    if entry.header.object != object || entry.header.part != part || entry.body.len() as u64 > limit {
        return None;
    }
    // where this is not allowed, entries go in the order in which they came
    let _ = file.set_modified(SystemTime::now());
    Some(entry)
}

/// Opens the file of an entry; returns its length too. A link or a device in its place is not followed.
pub(super) fn open(path: &Path) -> io::Result<(File, u64)> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    Ok((file, metadata.len()))
}

/// Reads an entry; `None` if it is damaged.
pub(super) fn read(file: &mut File, length: u64) -> io::Result<Option<Entry>> {
    let Ok(room) = usize::try_from(length) else { return Ok(None) };
    let mut bytes = Vec::new();
    // no panic where memory is short: the object is read from its store then
    if bytes.try_reserve_exact(room).is_err() {
        return Ok(None);
    }
    file.take(length).read_to_end(&mut bytes)?;
    Ok(parse(Bytes::from(bytes)))
}

fn parse(bytes: Bytes) -> Option<Entry> {
    let (first, rest) = bytes.split_at_checked(FIRST_LINE)?;
    let digits = std::str::from_utf8(first).ok()?.strip_prefix(MAGIC)?.strip_suffix('\n')?;
    if u64::from_str_radix(digits, 16).ok()? != xxh3_64(rest) {
        return None;
    }
    let line = rest.iter().take(HEADER_BYTES_MOST).position(|&byte| byte == b'\n')?;
    let header = serde_json::from_slice(&rest[..line]).ok()?;
    Some(Entry { header, body: bytes.slice(FIRST_LINE + line + 1..) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let (object, etag) = ("s3://bucket/a/0.0".to_owned(), "\"9b2c\"".to_owned());
        Header { object, part: Part::Range(3, 5), etag, size: 100, modified: 1_700_000_000 }
    }

    fn bytes() -> Vec<u8> {
        let mut bytes = head_of(&header(), b"chunk").unwrap();
        bytes.extend_from_slice(b"chunk");
        bytes
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let entry = parse(bytes().into()).unwrap();
        assert_eq!((entry.header, &entry.body[..]), (header(), &b"chunk"[..]));
    }

    #[test]
    fn no_flipped_bit_and_no_other_length_is_taken_for_an_entry() {
        let sound = bytes();
        for at in 0..sound.len() {
            for bit in 0..8 {
                let mut damaged = sound.clone();
                damaged[at] ^= 1 << bit;
                // digits in capitals are the same number
                let same = parse(damaged.clone().into()).is_some_and(|entry| entry.header == header());
                assert!(!same || damaged.eq_ignore_ascii_case(&sound), "byte {at}, bit {bit}");
            }
            assert!(parse(sound[..at].to_vec().into()).is_none(), "cut at {at}");
        }
        let mut longer = sound;
        longer.push(0);
        assert!(parse(longer.into()).is_none());
    }

    #[test]
    fn names_are_hashes_whatever_the_key() {
        for object in ["s3://b/../../etc/passwd", "s3://b/\0", "", "s3://b/a b\n"] {
            let name = name_of(object, Part::Whole);
            let (folder, file) = name.split_once('/').unwrap();
            assert_eq!((folder.len(), file.len()), (2, 30));
            assert!(name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'/'));
        }
        let parts = [Part::Whole, Part::Range(0, 9), Part::Range(0, 10), Part::Suffix(9)];
        let names: std::collections::BTreeSet<_> = parts.map(|part| name_of("a", part)).into();
        assert_eq!(names.len(), parts.len());
    }

    #[test]
    fn an_entry_of_another_object_is_none_of_this_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entry");
        std::fs::write(&path, bytes()).unwrap();
        let (object, part) = (header().object, header().part);
        assert!(load(&path, &object, part, 5).is_some());
        assert!(load(&path, "s3://bucket/a/0.1", part, 5).is_none());
        assert!(load(&path, &object, Part::Whole, 5).is_none());
        assert!(load(folder.path(), &object, part, 5).is_none());
        std::os::unix::fs::symlink(&path, folder.path().join("link")).unwrap();
        assert!(load(&folder.path().join("link"), &object, part, 5).is_none());
    }
}
