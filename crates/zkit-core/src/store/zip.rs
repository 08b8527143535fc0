//! Zip files as stores: the central directory is read once, members are read where they lie, on this machine or by ranges
//! of a remote object.
//!
//! Source: PKWARE's APPNOTE 6.3.10: end of central directory (4.3.16), its 64-bit form (4.3.14, 4.3.15), central headers
//! (4.3.12), local headers (4.3.7). Members may be stored or deflated.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;

use rayon::prelude::*;

use super::any::{Child, ChildKind, ObjectInfo, ObjectKind, ObjectStat, StoreOptions, part_of, too_large};
use super::byte_source::ByteSource;
use super::local::LocalStore;
use super::remote::FetchResult;
use super::seen::Seen;
use crate::error::{Error, ErrorKind, Result};
use crate::location::StoreUrl;
use crate::units::saturating_usize;

/// The end of the central directory with the longest comment.
const TAIL_BYTES: u64 = 22 + 65_535;
/// Larger central directories are refused.
const DIRECTORY_BYTES_MOST: u64 = 1 << 30;
/// Larger members are not inflated to read a part of them.
const INFLATED_BYTES_MOST: u64 = 64 << 20;
/// Bytes of extra fields of a local header that are read with it; more than that is rare, and read on its own.
const EXTRA_BYTES: u64 = 256;
/// Metadata of other systems that zip programs add.
const JUNK: [&str; 3] = ["__MACOSX/", ".DS_Store", "Thumbs.db"];

/// A zip file that is open for reading.
#[derive(Debug)]
pub struct ZipStore {
    source: ByteSource,
    /// Changes when the file is rewritten.
    stamp: u64,
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
    /// Of its name, in the local header too.
    name_bytes: u16,
}

/// A member and which part of the file holds it, `None` for an absent one.
type Wanted = Result<Option<(Member, (u64, u64))>>;

impl ZipStore {
    /// Opens a zip file and reads its central directory; the store is the root, or the one folder that holds Zarr
    /// metadata.
    ///
    /// Errors: `Corrupt` where it is no whole zip file, `Unreadable`.
    pub fn open(path: &Path) -> Result<Self> {
        Self::read_from(ByteSource::open(path)?)
    }

    /// Opens a zip file behind a network: one request for its end, and another one for a central directory that is longer
    /// than 64 KiB; `None` if it is absent.
    pub fn open_remote(url: &StoreUrl, options: &StoreOptions) -> Result<Option<Self>> {
        ByteSource::open_remote(url, TAIL_BYTES, options)?.map(Self::read_from).transpose()
    }

    fn read_from(source: ByteSource) -> Result<Self> {
        let corrupt = |what: &str| {
            Error::new(ErrorKind::Corrupt, format!("could not read the zip file {}: {what}", source.place()))
        };
        let size = source.size();
        let tail_bytes = size.min(TAIL_BYTES);
        let tail = source.read(size - tail_bytes, tail_bytes)?;
        let end = (0..tail.len().saturating_sub(21)).rev().find(|&at| tail[at..].starts_with(b"PK\x05\x06"));
        let end = end.ok_or_else(|| corrupt("it has no central directory: its end is missing"))?;
        let record = &tail[end..];
        let (mut entries, mut bytes, mut offset) =
            (u64::from(half(record, 10)), u64::from(word(record, 12)), u64::from(word(record, 16)));
        if entries == 0xffff || bytes == 0xffff_ffff || offset == 0xffff_ffff {
            let locator =
                end.checked_sub(20).map(|at| &tail[at..end]).filter(|at| at.starts_with(b"PK\x06\x07"));
            if let Some(locator) = locator {
                let missing = || corrupt("its 64-bit central directory is missing");
                let at =
                    Some(long(locator, 8)).filter(|at| at.checked_add(56).is_some_and(|end| end <= size));
                let record = source.read(at.ok_or_else(missing)?, 56)?;
                if !record.starts_with(b"PK\x06\x06") {
                    return Err(missing());
                }
                (entries, bytes, offset) = (long(&record, 32), long(&record, 40), long(&record, 48));
            }
        }
        if bytes > DIRECTORY_BYTES_MOST || offset.checked_add(bytes).is_none_or(|end| end > size) {
            return Err(corrupt("its central directory lies outside of the file"));
        }
        let directory = match offset.checked_sub(size - tail_bytes) {
            Some(at) => {
                let at = saturating_usize(at);
                tail[at..at + saturating_usize(bytes)].to_vec()
            }
            None => source.read(offset, bytes)?,
        };
        let members = read_directory(&directory, entries).map_err(|what| corrupt(&what))?;
        let mut store = Self {
            stamp: source.stamp().unwrap_or_else(|| xxhash_rust::xxh3::xxh3_64(&directory)),
            source,
            prefix: String::new(),
            members: BTreeMap::new(),
            unsafe_names: Vec::new(),
            outside: Vec::new(),
        };
        members.into_iter().for_each(|(name, member)| store.add(name, member));
        store.find_root();
        Ok(store)
    }

    /// Returns where the file is.
    pub(super) fn whole(&self) -> &str {
        self.source.place()
    }

    /// Returns whether it lies behind a network.
    /// Returns the name of the file in its folder, and what of it was there as it was opened; `None` for a remote object.
    pub(super) fn seen(&self) -> Option<Vec<(String, Seen)>> {
        let name = self.source.path()?.file_name()?.to_str()?.to_owned();
        Some(vec![(name, Seen::Object(ObjectStat { size: self.source.size(), stamp: self.stamp }))])
    }

    /// Returns the folder that the file lies in; `None` for a remote object.
    pub(super) fn folder(&self) -> Option<LocalStore> {
        let path = std::path::absolute(self.source.path()?).ok()?;
        LocalStore::open(path.parent()?, true).ok()
    }

    pub(super) fn is_remote(&self) -> bool {
        self.source.is_remote()
    }

    pub(super) fn reads_in_flight(&self) -> usize {
        self.source.reads_in_flight()
    }

    /// Returns the size of a member and what changes when the file is rewritten, without reading it: a hash of the file's
    /// time and inode, or of its central directory.
    pub fn stat(&self, key: &str) -> Option<ObjectStat> {
        Some(ObjectStat { size: self.members.get(key)?.bytes, stamp: self.stamp })
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
        format!("`{}{key}` in {}", self.prefix, self.source.place())
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
        if length == 0 {
            buffer.clear();
            return Ok(Some(member.bytes));
        }
        // of a whole member the checksum can be compared
        let whole = offset == 0 && length == member.bytes;
        if member.method == 0 && !whole {
            let header = self.piece(key, (member.offset, 30))?;
            let start =
                member.offset.saturating_add(self.behind_header(key, &header)?).saturating_add(offset);
            *buffer = self.piece(key, (start, length))?;
            return Ok(Some(member.bytes));
        }
        if member.method != 0 && member.bytes > INFLATED_BYTES_MOST {
            return Err(too_large(&self.place(key), member.bytes, INFLATED_BYTES_MOST));
        }
        self.read(key, member, buffer)?;
        *buffer = part_of(buffer, offset, length).to_vec();
        Ok(Some(member.bytes))
    }

    /// Reads the last `length` bytes; returns the object's size, or `None` if it is absent.
    pub fn get_suffix(&self, key: &str, length: u64, buffer: &mut Vec<u8>) -> Result<Option<u64>> {
        let Some(member) = self.members.get(key) else { return Ok(None) };
        self.get_range(key, member.bytes.saturating_sub(length), length, buffer)
    }

    /// Reads many small objects, several at once.
    pub fn get_many(&self, keys: &[String], limit: u64) -> Vec<FetchResult> {
        let unpacked = |key: &str, member: &Member, span: Vec<u8>| {
            let mut buffer = Vec::new();
            self.unpack(key, member, &span, &mut buffer)?;
            Ok(Some(buffer.into()))
        };
        let wanted = |key: &String| -> Wanted {
            let Some(&member) = self.members.get(key) else { return Ok(None) };
            if member.bytes > limit {
                return Err(too_large(&self.place(key), member.bytes, limit));
            }
            Ok(Some((member, self.span_of(key, &member)?)))
        };
        let wanted: Vec<Wanted> = keys.iter().map(wanted).collect();
        let spans: Vec<(u64, u64)> =
            wanted.iter().filter_map(|wanted| Some(wanted.as_ref().ok()?.as_ref()?.1)).collect();
        let Some(fetched) = self.source.read_many(&spans) else {
            let read = |key: &String| {
                let mut buffer = Vec::new();
                Ok(self.get(key, limit, &mut buffer)?.then(|| buffer.into()))
            };
            return keys.par_iter().with_min_len(16).map(read).collect();
        };
        let mut fetched = fetched.into_iter();
        let whole = |(key, wanted): (&String, Wanted)| match wanted? {
            None => Ok(None),
            Some((member, _)) => {
                let span = fetched.next().unwrap_or_else(|| Ok(Vec::new()));
                unpacked(key, &member, span.map_err(|error| self.failed(key, error))?)
            }
        };
        keys.iter().zip(wanted).map(whole).collect()
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

    fn failed(&self, key: &str, error: Error) -> Error {
        error.context(format!("could not read {}", self.place(key)))
    }

    fn corrupt(&self, key: &str, what: &str) -> Error {
        Error::new(ErrorKind::Unreadable, format!("could not read {}: {what}", self.place(key)))
    }

    /// A member whose bytes are not those that were put in.
    fn damaged(&self, key: &str, what: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("could not read {}: {what}", self.place(key)))
    }

    /// Returns how long a local header is.
    fn behind_header(&self, key: &str, header: &[u8]) -> Result<u64> {
        if header.len() < 30 || !header.starts_with(b"PK\x03\x04") {
            return Err(self.corrupt(key, "the zip file has no local header there"));
        }
        Ok(30 + u64::from(half(header, 26)) + u64::from(half(header, 28)))
    }

    /// Reads a part of the file, which must hold it.
    fn piece(&self, key: &str, (offset, length): (u64, u64)) -> Result<Vec<u8>> {
        if offset.checked_add(length).is_none_or(|end| end > self.source.size()) {
            return Err(self.corrupt(key, "the zip file ends before it"));
        }
        self.source.read(offset, length).map_err(|error| self.failed(key, error))
    }

    /// Returns what to read of the file for a whole member: its local header, with room for extra fields, and its bytes.
    fn span_of(&self, key: &str, member: &Member) -> Result<(u64, u64)> {
        // deflating adds five bytes to what cannot be made smaller, in blocks of 16 KiB at least
        let most = match member.method {
            0 => member.bytes,
            _ => member.bytes.saturating_add(member.bytes >> 11).saturating_add(64),
        };
        if member.stored_bytes > most {
            return Err(self.damaged(key, "it takes more room than what it holds can take"));
        }
        let left = self.source.size().checked_sub(member.offset);
        let least = 30 + u64::from(member.name_bytes) + member.stored_bytes;
        match left.filter(|&left| left >= least) {
            Some(left) => Ok((member.offset, left.min(least + EXTRA_BYTES))),
            None => Err(self.corrupt(key, "the zip file ends before it")),
        }
    }

    /// Reads a whole member; its checksum is compared.
    fn read(&self, key: &str, member: &Member, buffer: &mut Vec<u8>) -> Result<()> {
        let span = self.piece(key, self.span_of(key, member)?)?;
        self.unpack(key, member, &span, buffer)
    }

    /// Takes a whole member out of what was read from its local header on.
    fn unpack(&self, key: &str, member: &Member, span: &[u8], buffer: &mut Vec<u8>) -> Result<()> {
        let behind = self.behind_header(key, span)?;
        let start = saturating_usize(behind);
        let rest;
        let stored = match span.get(start..start.saturating_add(saturating_usize(member.stored_bytes))) {
            Some(stored) => stored,
            None => {
                let start = member.offset.saturating_add(behind);
                rest = self.piece(key, (start, member.stored_bytes))?;
                &rest
            }
        };
        buffer.clear();
        match member.method {
            0 => buffer.extend_from_slice(stored),
            8 => {
                // one byte more than promised tells a member that is longer
                let inflated = flate2::read::DeflateDecoder::new(stored)
                    .take(member.bytes.saturating_add(1))
                    .read_to_end(buffer);
                inflated.map_err(|error| self.damaged(key, "it does not inflate").with_source(error))?;
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

/// Returns the names and members of a central directory.
fn read_directory(directory: &[u8], entries: u64) -> std::result::Result<Vec<(String, Member)>, String> {
    let mut members = Vec::new();
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
            name_bytes: half(header, 28),
        };
        widen(&mut member, extra);
        members.push((String::from_utf8_lossy(name).replace('\\', "/"), member));
    }
    Ok(members)
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
