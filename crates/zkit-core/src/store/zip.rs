//! Zip files as stores: the central directory is read once, members are read where they lie.
//!
//! Source: PKWARE's APPNOTE 6.3.10: end of central directory (4.3.16), its 64-bit form (4.3.14, 4.3.15), central headers
//! (4.3.12), local headers (4.3.7). Members may be stored or deflated.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::any::{Child, ChildKind, ObjectInfo, ObjectKind, too_large};
use super::remote::FetchResult;
use crate::error::{Error, ErrorKind, Result};
use crate::units::saturating_usize;

/// The end of the central directory with the longest comment.
const TAIL_BYTES: u64 = 22 + 65_535;
/// Larger central directories are refused.
const DIRECTORY_BYTES_MOST: u64 = 1 << 30;
/// Larger members are not inflated to read a part of them.
const INFLATED_BYTES_MOST: u64 = 64 << 20;
/// Metadata of other systems that zip programs add.
const JUNK: [&str; 3] = ["__MACOSX/", ".DS_Store", "Thumbs.db"];

/// A zip file that is open for reading.
#[derive(Debug)]
pub struct ZipStore {
    path: PathBuf,
    file: File,
    /// What stands in front of all keys: the folder that the store lies in.
    prefix: String,
    members: BTreeMap<String, Member>,
    /// Names that are no keys: absolute, or with `..`.
    unsafe_names: Vec<String>,
    /// Names outside of the store's folder.
    outside: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    /// Of the local header.
    offset: u64,
    stored_bytes: u64,
    bytes: u64,
    method: u16,
    crc32: u32,
}

impl ZipStore {
    /// Opens a zip file and reads its central directory; the store is the root, or the one folder that holds Zarr
    /// metadata.
    ///
    /// Errors: `Corrupt` where it is no whole zip file, `Unreadable`.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Unreadable, format!("could not read {}", path.display())).with_source(error)
        };
        let corrupt = |what: &str| {
            Error::new(ErrorKind::Corrupt, format!("could not read the zip file {}: {what}", path.display()))
        };
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let tail_bytes = size.min(TAIL_BYTES);
        let mut tail = vec![0; saturating_usize(tail_bytes)];
        file.read_exact_at(&mut tail, size - tail_bytes).map_err(failed)?;
        let end = (0..tail.len().saturating_sub(21)).rev().find(|&at| tail[at..].starts_with(b"PK\x05\x06"));
        let end = end.ok_or_else(|| corrupt("it has no central directory: its end is missing"))?;
        let record = &tail[end..];
        let (mut entries, mut bytes, mut offset) =
            (u64::from(half(record, 10)), u64::from(word(record, 12)), u64::from(word(record, 16)));
        if entries == 0xffff || bytes == 0xffff_ffff || offset == 0xffff_ffff {
            let locator =
                end.checked_sub(20).map(|at| &tail[at..end]).filter(|at| at.starts_with(b"PK\x06\x07"));
            if let Some(locator) = locator {
                let mut record = [0; 56];
                file.read_exact_at(&mut record, long(locator, 8)).map_err(failed)?;
                if !record.starts_with(b"PK\x06\x06") {
                    return Err(corrupt("its 64-bit central directory is missing"));
                }
                (entries, bytes, offset) = (long(&record, 32), long(&record, 40), long(&record, 48));
            }
        }
        if bytes > DIRECTORY_BYTES_MOST || offset.checked_add(bytes).is_none_or(|end| end > size) {
            return Err(corrupt("its central directory lies outside of the file"));
        }
        let mut directory = vec![0; saturating_usize(bytes)];
        file.read_exact_at(&mut directory, offset).map_err(failed)?;
        let mut store = Self {
            path: path.to_owned(),
            file,
            prefix: String::new(),
            members: BTreeMap::new(),
            unsafe_names: Vec::new(),
            outside: Vec::new(),
        };
        store.read_directory(&directory, entries).map_err(|what| corrupt(&what))?;
        store.find_root();
        Ok(store)
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what changes when the file is rewritten: a hash of its time and inode.
    pub fn stamp(&self) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        self.file.metadata().map_or(0, |file| {
            let parts = [file.mtime(), file.mtime_nsec()].map(i64::to_le_bytes).concat();
            xxhash_rust::xxh3::xxh3_64_with_seed(&parts, file.ino())
        })
    }

    /// Returns the folder in the file that the store lies in, with a slash behind it; empty for the root.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the names of members that lie outside of the store's folder, or are junk of other systems.
    pub fn outside(&self) -> &[String] {
        &self.outside
    }

    /// Returns the names of members that would lead out of a folder they are unpacked to.
    pub fn unsafe_names(&self) -> &[String] {
        &self.unsafe_names
    }

    fn read_directory(&mut self, directory: &[u8], entries: u64) -> std::result::Result<(), String> {
        let mut at = 0;
        for entry in 0..entries {
            let header = directory
                .get(at..at + 46)
                .filter(|header| header.starts_with(b"PK\x01\x02"))
                .ok_or_else(|| format!("entry {entry} of its central directory is damaged"))?;
            let lengths = [half(header, 28), half(header, 30), half(header, 32)].map(usize::from);
            let [name_bytes, extra_bytes, comment_bytes] = lengths;
            let name = directory.get(at + 46..at + 46 + name_bytes);
            let extra = directory.get(at + 46 + name_bytes..at + 46 + name_bytes + extra_bytes);
            let (Some(name), Some(extra)) = (name, extra) else {
                return Err(format!("entry {entry} of its central directory is cut off"));
            };
            at += 46 + name_bytes + extra_bytes + comment_bytes;
            let mut member = Member {
                offset: u64::from(word(header, 42)),
                stored_bytes: u64::from(word(header, 20)),
                bytes: u64::from(word(header, 24)),
                method: half(header, 10),
                crc32: word(header, 16),
            };
            widen(&mut member, extra);
            self.add(String::from_utf8_lossy(name).replace('\\', "/"), member);
        }
        Ok(())
    }

    fn add(&mut self, name: String, member: Member) {
        if name.ends_with('/') {
            return;
        }
        if name.starts_with('/') || name.contains('\0') || name.split('/').any(|part| part == "..") {
            return self.unsafe_names.push(name);
        }
        if JUNK.iter().any(|junk| name.starts_with(junk) || name.ends_with(junk)) {
            return self.outside.push(name);
        }
        self.members.insert(name.trim_start_matches("./").to_owned(), member);
    }

    /// Makes the folder of the shallowest metadata document the root.
    fn find_root(&mut self) {
        let documents = ["zarr.json", ".zgroup", ".zarray", ".zmetadata"];
        let folders = self.members.keys().filter_map(|name| {
            let (folder, name) =
                name.rsplit_once('/').map_or(("", name.as_str()), |(folder, name)| (folder, name));
            documents.contains(&name).then_some(folder)
        });
        let Some(root) = folders.min_by_key(|folder| {
            (folder.matches('/').count() + usize::from(!folder.is_empty()), folder.len())
        }) else {
            return;
        };
        // arrays side by side are one hierarchy
        let prefix = if root.is_empty() { String::new() } else { format!("{root}/") };
        let others = self.members.keys().any(|name| !name.starts_with(&prefix) && name.ends_with(".zarray"));
        if prefix.is_empty() || others {
            return;
        }
        let (inside, outside): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.members).into_iter().partition(|(name, _)| name.starts_with(&prefix));
        self.outside.extend(outside.into_iter().map(|(name, _)| name));
        self.members =
            inside.into_iter().map(|(name, member)| (name[prefix.len()..].to_owned(), member)).collect();
        self.prefix = prefix;
    }

    fn place(&self, key: &str) -> String {
        format!("`{}{key}` in {}", self.prefix, self.path.display())
    }

    /// Reads an object into `buffer`; returns `false` if it is absent.
    pub fn get(&self, key: &str, limit: u64, buffer: &mut Vec<u8>) -> Result<bool> {
        let Some(member) = self.members.get(key) else { return Ok(false) };
        if member.bytes > limit {
            return Err(too_large(&self.place(key), member.bytes, limit));
        }
        self.read(key, member, buffer)?;
        Ok(true)
    }

    /// Reads at most `length` bytes at `offset`; returns the object's size, or `None` if it is absent.
    ///
    /// A part of a stored member is read where it lies; a deflated one is inflated whole. What is read whole must have the
    /// checksum of the central directory, else `Corrupt`.
    pub fn get_range(
        &self,
        key: &str,
        offset: u64,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        let Some(member) = self.members.get(key) else { return Ok(None) };
        let length = length.min(member.bytes.saturating_sub(offset));
        // of a whole member the checksum can be compared
        let whole = offset == 0 && length == member.bytes;
        if member.method == 0 && !whole {
            let start = self.start_of(key, member)?;
            buffer.clear();
            buffer.resize(saturating_usize(length), 0);
            self.file
                .read_exact_at(buffer, start.saturating_add(offset))
                .map_err(|error| self.failed(key, error))?;
            return Ok(Some(member.bytes));
        }
        if member.method != 0 && member.bytes > INFLATED_BYTES_MOST {
            return Err(too_large(&self.place(key), member.bytes, INFLATED_BYTES_MOST));
        }
        self.read(key, member, buffer)?;
        let start = saturating_usize(offset).min(buffer.len());
        buffer.drain(..start);
        buffer.truncate(saturating_usize(length));
        Ok(Some(member.bytes))
    }

    /// Reads the last `length` bytes; returns the object's size, or `None` if it is absent.
    pub fn get_suffix(&self, key: &str, length: u64, buffer: &mut Vec<u8>) -> Result<Option<u64>> {
        let Some(member) = self.members.get(key) else { return Ok(None) };
        self.get_range(key, member.bytes.saturating_sub(length), length, buffer)
    }

    /// Reads many small objects, several at once.
    pub fn get_many(&self, keys: &[String], limit: u64) -> Vec<FetchResult> {
        let read = |key: &String| {
            let mut buffer = Vec::new();
            Ok(self.get(key, limit, &mut buffer)?.then(|| buffer.into()))
        };
        keys.par_iter().with_min_len(16).map(read).collect()
    }

    /// Calls `visit` for the objects below `prefix` until it breaks off.
    pub fn list_while(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let below = self.members.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        for (name, member) in below {
            let object = ObjectInfo {
                key: &name[prefix.len()..],
                size: member.bytes,
                kind: ObjectKind::Regular,
                stamp: u64::from(member.crc32),
                changed: None,
                locked: false,
            };
            if visit(object).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the entries directly below `prefix`, sorted by name.
    pub fn children(&self, prefix: &str) -> Result<Vec<Child>> {
        let mut children: BTreeMap<String, ChildKind> = BTreeMap::new();
        self.list_while(prefix, &mut |object| {
            let (name, kind) = match object.key.split_once('/') {
                Some((folder, _)) => (folder, ChildKind::Directory),
                None => (object.key, ChildKind::Object(ObjectKind::Regular)),
            };
            if children.get(name) != Some(&ChildKind::Directory) {
                children.insert(name.to_owned(), kind);
            }
            ControlFlow::Continue(())
        })?;
        Ok(children.into_iter().map(|(name, kind)| Child { name, kind }).collect())
    }

    fn failed(&self, key: &str, error: std::io::Error) -> Error {
        Error::new(ErrorKind::Unreadable, format!("could not read {}", self.place(key))).with_source(error)
    }

    fn corrupt(&self, key: &str, what: &str) -> Error {
        Error::new(ErrorKind::Unreadable, format!("could not read {}: {what}", self.place(key)))
    }

    /// A member whose bytes are not those that were put in.
    fn damaged(&self, key: &str, what: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("could not read {}: {what}", self.place(key)))
    }

    /// Returns where the bytes of a member begin, behind its local header.
    fn start_of(&self, key: &str, member: &Member) -> Result<u64> {
        let mut header = [0; 30];
        self.file.read_exact_at(&mut header, member.offset).map_err(|error| self.failed(key, error))?;
        if !header.starts_with(b"PK\x03\x04") {
            return Err(self.corrupt(key, "the zip file has no local header there"));
        }
        let behind = 30 + u64::from(half(&header, 26)) + u64::from(half(&header, 28));
        member
            .offset
            .checked_add(behind)
            .ok_or_else(|| self.corrupt(key, "its offset is beyond what can be counted"))
    }

    /// Reads a whole member; its checksum is compared.
    fn read(&self, key: &str, member: &Member, buffer: &mut Vec<u8>) -> Result<()> {
        let start = self.start_of(key, member)?;
        let size = self.file.metadata().map_err(|error| self.failed(key, error))?.len();
        if start.checked_add(member.stored_bytes).is_none_or(|end| end > size) {
            return Err(self.corrupt(key, "the zip file ends before it"));
        }
        let mut stored = vec![0; saturating_usize(member.stored_bytes)];
        self.file.read_exact_at(&mut stored, start).map_err(|error| self.failed(key, error))?;
        buffer.clear();
        match member.method {
            0 => buffer.append(&mut stored),
            8 => {
                // one byte more than promised tells a member that is longer
                let inflated = flate2::read::DeflateDecoder::new(stored.as_slice())
                    .take(member.bytes.saturating_add(1))
                    .read_to_end(buffer);
                inflated.map_err(|error| self.failed(key, error))?;
            }
            other => return Err(self.corrupt(key, &format!("zip's compression method {other} is not known"))),
        }
        if buffer.len() as u64 != member.bytes {
            return Err(self.damaged(key, "it has another length than the zip file says"));
        }
        if libdeflater::crc32(buffer) != member.crc32 {
            return Err(self.damaged(key, "its checksum in the zip file differs"));
        }
        Ok(())
    }
}

/// Takes 64-bit numbers from the extra field. Source: APPNOTE 4.5.3.
fn widen(member: &mut Member, mut extra: &[u8]) {
    while extra.len() >= 4 {
        let (id, bytes) = (half(extra, 0), usize::from(half(extra, 2)));
        let Some(mut field) = extra.get(4..4 + bytes) else { return };
        if id == 1 {
            for number in [&mut member.bytes, &mut member.stored_bytes, &mut member.offset] {
                if *number == 0xffff_ffff && field.len() >= 8 {
                    *number = long(field, 0);
                    field = &field[8..];
                }
            }
        }
        extra = &extra[4 + bytes..];
    }
}

/// The fields below lie inside of what the callers took.
fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |part| u16::from_le_bytes([part[0], part[1]]))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zip file of stored members.
    fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for (name, bytes) in members {
            let offset = u32::try_from(file.len()).unwrap();
            let length = u32::try_from(bytes.len()).unwrap();
            let crc = libdeflater::crc32(bytes);
            let name_length = u16::try_from(name.len()).unwrap();
            let common = |out: &mut Vec<u8>| {
                out.extend([20, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                out.extend(crc.to_le_bytes());
                out.extend(length.to_le_bytes());
                out.extend(length.to_le_bytes());
                out.extend(name_length.to_le_bytes());
                out.extend([0, 0]);
            };
            file.extend(b"PK\x03\x04");
            common(&mut file);
            file.extend(name.as_bytes());
            file.extend(*bytes);
            directory.extend(b"PK\x01\x02\x14\x00");
            common(&mut directory);
            directory.extend([0; 10]);
            directory.extend(offset.to_le_bytes());
            directory.extend(name.as_bytes());
        }
        let start = u32::try_from(file.len()).unwrap();
        let bytes = u32::try_from(directory.len()).unwrap();
        file.extend(directory);
        file.extend(b"PK\x05\x06\0\0\0\0");
        let count = u16::try_from(members.len()).unwrap();
        file.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
        file.extend([bytes.to_le_bytes(), start.to_le_bytes()].concat());
        file.extend([0, 0]);
        file
    }

    fn opened(bytes: &[u8]) -> (tempfile::TempDir, Result<ZipStore>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        std::fs::write(&path, bytes).unwrap();
        let store = ZipStore::open(&path);
        (folder, store)
    }

    #[test]
    fn members_are_objects_of_the_store_wherever_it_lies() {
        let members: [(&str, &[u8]); 4] = [
            ("s.zarr/.zgroup", b"{}"),
            ("s.zarr/a/0.0", b"hello"),
            ("__MACOSX/._x", b"x"),
            ("../evil", b"x"),
        ];
        let (_folder, store) = opened(&zip(&members));
        let store = store.unwrap();
        assert_eq!((store.prefix(), store.outside().len(), store.unsafe_names().len()), ("s.zarr/", 1, 1));
        let mut buffer = Vec::new();
        assert_eq!(store.get_range("a/0.0", 1, 3, &mut buffer).unwrap(), Some(5));
        assert_eq!(buffer, b"ell");
        assert_eq!(store.get_suffix("a/0.0", 2, &mut buffer).unwrap(), Some(5));
        assert_eq!(buffer, b"lo");
        assert!(!store.get("a/0.1", 10, &mut buffer).unwrap());
        assert_eq!(store.get("a/0.0", 4, &mut buffer).unwrap_err().kind(), ErrorKind::OverBudget);
        assert_eq!(store.children("").unwrap().len(), 2);
    }

    #[test]
    fn damage_is_told_and_no_panic() {
        let whole = zip(&[(".zgroup", b"{}"), ("a/0", b"hello")]);
        for cut in 0..whole.len() {
            assert!(opened(&whole[..cut]).1.is_err(), "{cut}");
        }
        let mut flipped = whole.clone();
        let at = flipped.windows(5).position(|window| window == b"hello").unwrap();
        flipped[at] ^= 1;
        let (_folder, store) = opened(&flipped);
        let error = store.unwrap().get("a/0", 10, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 0xff;
            if let Ok(store) = opened(&broken).1 {
                let _ = store.get("a/0", 10, &mut Vec::new());
            }
        }
    }
}
