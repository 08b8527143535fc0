//! Icechunk repositories: whether their objects are whole, and whether the chunks that manifests name are there.
//!
//! Source: Icechunk's specification, versions 1 and 2: each metadata object is a header of 39 bytes and a flatbuffer,
//! compressed with zstd.

use std::collections::{BTreeMap, BTreeSet};

use super::faults::ChunkFault;
use super::heads::{error_body, pointer};
use super::listing::Keys;
use super::names::ends_unfinished;
use crate::codec::{ZstdWalk, walk_zstd};
use crate::error::{ErrorKind, Result};
use crate::metadata::Json;
use crate::store::{ObjectKind, Store};

/// The first bytes of every metadata object: `ICE`, an ice cube, `CHUNK`.
const MAGIC: [u8; 12] = [b'I', b'C', b'E', 0xf0, 0x9f, 0xa7, 0x8a, b'C', b'H', b'U', b'N', b'K'];
/// Magic, the writer's name in 24 bytes, and one byte each for version, type and compression.
const HEADER_BYTES: usize = 39;
/// The object in which version 2 keeps branches, tags and snapshots.
const REPO: &str = "repo";
/// Bytes read of a chunk that has another length than its manifest says.
const HEAD_BYTES: u64 = 1 << 10;
/// Larger objects are not looked into.
const OBJECT_BYTES_MOST: u64 = 64 << 20;
/// Ends the name of the object that says of a tag that it was deleted. Source: version 1.
const DELETED: &str = ".deleted";
/// Larger documents of branches and tags are not read.
const REF_BYTES_MOST: u64 = 1 << 16;
/// Larger flatbuffers are not decoded.
const DECODED_BYTES_MOST: usize = 128 << 20;
/// Metadata objects that are looked into, at most.
const OBJECTS_MOST: usize = 10_000;
/// What is said of a flatbuffer that is none.
const OUTSIDE: &str = "its flatbuffer leads outside of itself";
/// Chunks that are named, each array.
const NAMED_MOST: usize = 1_000;

/// What was seen of an Icechunk repository, or of a set of references in parquet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repository {
    /// Metadata objects that were looked into.
    pub objects: u64,
    /// Metadata objects that are no whole ones: key and reason.
    pub damaged: Vec<(String, String)>,
    /// Arrays with chunks that manifests name and that are gone, by path.
    pub missing: BTreeMap<String, MissingChunks>,
    /// Chunks that are there and are not what manifests say: empty, of another length, or other bytes; by path and fault.
    pub faulty: BTreeMap<(String, ChunkFault), MissingChunks>,
    /// Manifests that snapshots name, or files of references, that are gone: key, and the path of an array that needs it.
    pub absent_manifests: BTreeMap<String, String>,
    /// Keys of snapshots that branches and tags lead to, or that version 2 keeps, and that are gone.
    pub absent_snapshots: Vec<String>,
    /// Chunks that lie in files outside of the repository.
    pub virtual_chunks: u64,
    /// Chunks that lie in the repository.
    pub native_chunks: u64,
    /// What unfinished writes left among its objects.
    pub temporary: Keys,
    /// When the latest of these was changed, in seconds since 1970.
    pub temporary_changed: Option<i64>,
    /// Why not all could be looked into.
    pub unread: Option<String>,
}

/// Chunks of one array that are gone, or are not what manifests say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingChunks {
    /// How many.
    pub count: u64,
    /// Their indices, of the first ones.
    pub indices: Vec<Vec<u64>>,
    /// The object of the first one.
    pub object: String,
    /// What was found and expected of the first one; empty where it is gone.
    pub why: String,
}

/// What snapshots say of nodes.
#[derive(Debug, Default)]
struct Snapshots {
    paths: BTreeMap<[u8; 8], String>,
    /// Ids of manifests that snapshots of branches and tags name, and the path of an array that does.
    manifests: BTreeMap<String, String>,
}

/// Why a metadata object has no flatbuffer.
#[derive(Debug, PartialEq, Eq)]
enum Undecoded {
    Damaged(String),
    TooLarge,
}

/// One chunk that a manifest names.
struct Named {
    object: String,
    index: Vec<u64>,
    /// Where it ends in its object.
    end: u64,
    /// Whether it is all of its object.
    whole: bool,
}

impl MissingChunks {
    fn add(&mut self, chunk: Named, why: impl FnOnce() -> String) {
        if self.indices.contains(&chunk.index) {
            return;
        }
        self.count += 1;
        if self.object.is_empty() {
            self.object = chunk.object;
            self.why = why();
        }
        if self.indices.len() < NAMED_MOST {
            self.indices.push(chunk.index);
        }
    }
}

impl Repository {
    /// Looks into all metadata objects of a repository, and for the chunks that they name.
    ///
    /// One listing, and one read of each snapshot and manifest. Errors: those of the listing.
    pub fn read(store: &Store) -> Result<Self> {
        let (mut keys, mut chunks) = (Vec::new(), BTreeMap::new());
        let mut repository = Self::default();
        let (mut listed, mut refs, mut has_repo) = (BTreeSet::new(), Vec::new(), false);
        let mut deleted = BTreeSet::new();
        store.list("", &mut |object| match object.key.split_once('/') {
            // branches and tags, which are folders, have names that people give
            _ if ends_unfinished(object.key) => {
                repository.temporary.add(object.key);
                repository.temporary_changed = repository.temporary_changed.max(object.changed);
            }
            Some(("chunks", id)) => {
                chunks.insert(id.to_owned(), object.size);
            }
            Some(("snapshots" | "manifests" | "transactions", _)) => {
                listed.insert(object.key.to_owned());
                if object.kind == ObjectKind::Regular && object.size <= OBJECT_BYTES_MOST {
                    keys.push(object.key.to_owned());
                } else {
                    repository
                        .unread
                        .get_or_insert_with(|| format!("`{}` is no file of a usual size", object.key));
                }
            }
            Some(("refs", name)) if name.ends_with(".json") => refs.push(object.key.to_owned()),
            Some(("refs", name)) if name.ends_with(DELETED) => {
                deleted.insert(object.key.trim_end_matches(DELETED).to_owned());
            }
            None if object.key == REPO => has_repo = true,
            _ => {}
        })?;
        // manifests are looked into one by one, and speak of nodes that snapshots name
        const KINDS: [&str; 2] = ["snapshots/", "manifests/"];
        let kind = |key: &str| KINDS.iter().position(|kind| key.starts_with(kind)).unwrap_or(KINDS.len());
        keys.sort_by(|one, other| (kind(one), one).cmp(&(kind(other), other)));
        if keys.len() > OBJECTS_MOST {
            repository.unread =
                Some(format!("{} metadata objects, {OBJECTS_MOST} were looked into", keys.len()));
            keys.truncate(OBJECTS_MOST);
        }
        refs.retain(|key| !deleted.contains(key));
        let mut held = held_snapshots(store, &refs);
        if has_repo {
            held.extend(repository.snapshots_of_repo(store));
        }
        let needed = held.iter().map(|id| format!("snapshots/{id}"));
        repository.absent_snapshots = needed.filter(|key| !listed.contains(key)).collect();
        let snapshots = repository.look_into(store, (&keys, &held), &chunks);
        repository.absent_manifests = snapshots
            .manifests
            .into_iter()
            .map(|(id, path)| (format!("manifests/{id}"), path))
            .filter(|(key, _)| !listed.contains(key))
            .collect();
        Ok(repository)
    }

    /// Returns the ids of the snapshots that version 2 keeps. Source: `repo.fbs`: snapshots are the fifth field, their ids the
    /// first of each; those that expired are taken out.
    fn snapshots_of_repo(&mut self, store: &Store) -> BTreeSet<String> {
        let mut text = Vec::new();
        match store.get(REPO, OBJECT_BYTES_MOST, &mut text) {
            Ok(true) => {}
            Ok(false) => return BTreeSet::new(),
            Err(error) => {
                self.unread.get_or_insert_with(|| error.one_line());
                return BTreeSet::new();
            }
        }
        self.objects += 1;
        let ids = |buffer: &[u8]| -> Option<BTreeSet<String>> {
            let snapshots = Table::root(buffer)?.tables(4)?;
            snapshots.map(|snapshot| Some(base32(&snapshot.bytes::<12>(0)?))).collect()
        };
        let outside = || Undecoded::Damaged(OUTSIDE.to_owned());
        decode(&text).and_then(|buffer| ids(&buffer).ok_or_else(outside)).unwrap_or_else(|undecoded| {
            self.add_undecoded(REPO, undecoded);
            BTreeSet::new()
        })
    }

    fn add_undecoded(&mut self, key: &str, undecoded: Undecoded) {
        match undecoded {
            Undecoded::Damaged(why) => self.damaged.push((key.to_owned(), why)),
            Undecoded::TooLarge => {
                let most = DECODED_BYTES_MOST >> 20;
                self.unread.get_or_insert_with(|| format!("`{key}` decodes to more than {most} MiB"));
            }
        }
    }

    fn look_into(
        &mut self,
        store: &Store,
        (keys, held): (&[String], &BTreeSet<String>),
        chunks: &BTreeMap<String, u64>,
    ) -> Snapshots {
        let mut snapshots = Snapshots::default();
        let mut text = Vec::new();
        for key in keys {
            match store.get(key, OBJECT_BYTES_MOST, &mut text) {
                Ok(true) => {}
                // gone since the listing
                Ok(false) => continue,
                Err(error) if error.kind() == ErrorKind::Cancelled => return Snapshots::default(),
                Err(error) => {
                    self.unread.get_or_insert_with(|| error.one_line());
                    continue;
                }
            }
            self.objects += 1;
            match decode(&text) {
                Ok(buffer) if key.starts_with("snapshots/") => {
                    match read_snapshot(&buffer, held, &mut snapshots) {
                        None => self.damaged.push((key.clone(), OUTSIDE.to_owned())),
                        Some(id) if *key != format!("snapshots/{id}") => {
                            self.damaged.push((key.clone(), format!("it says that it is snapshot {id}")));
                        }
                        Some(_) => {}
                    }
                }
                Ok(buffer) if key.starts_with("manifests/") => {
                    if self.read_manifest(&buffer, &snapshots.paths, (store, chunks)).is_none() {
                        self.damaged.push((key.clone(), OUTSIDE.to_owned()));
                    }
                }
                Ok(_) => {}
                Err(undecoded) => self.add_undecoded(key, undecoded),
            }
        }
        self.damaged.sort();
        snapshots
    }

    /// Looks for the chunks that a manifest names. Source: `manifest.fbs`: arrays with a node's id and references, each with
    /// index, inline bytes, offset, length, chunk id, location.
    fn read_manifest(
        &mut self,
        buffer: &[u8],
        paths: &BTreeMap<[u8; 8], String>,
        (store, chunks): (&Store, &BTreeMap<String, u64>),
    ) -> Option<()> {
        let root = Table::root(buffer)?;
        for array in root.tables(1)? {
            let node = array.bytes::<8>(0)?;
            let path = paths.get(&node);
            for reference in array.tables(1)? {
                // each chunk has an index, and a place: bytes in the manifest, an object, or a file elsewhere
                let index = reference.numbers(0)?;
                let Some(id) = reference.bytes::<12>(4) else {
                    reference.field(1).or_else(|| reference.field(5))?;
                    self.virtual_chunks += u64::from(reference.field(5).is_some());
                    continue;
                };
                self.native_chunks += 1;
                // nodes that no snapshot holds any more are waiting to be collected
                let Some(path) = path else { continue };
                let id = base32(&id);
                let (offset, length) = (reference.long(2), reference.long(3));
                let end = offset.saturating_add(length);
                let object = format!("chunks/{id}");
                let chunk = Named { object, index, end, whole: offset == 0 };
                match chunks.get(&id) {
                    Some(&size) => self.look_at_chunk(store, path, chunk, size),
                    None => self.missing.entry(path.clone()).or_default().add(chunk, String::new),
                }
            }
        }
        Some(())
    }

    /// Compares the size of a chunk's object with what a manifest says; what has another one is looked into.
    fn look_at_chunk(&mut self, store: &Store, path: &str, chunk: Named, size: u64) {
        let (end, whole) = (chunk.end, chunk.whole);
        if size == end || (size > end && !whole) {
            return;
        }
        let mut head = Vec::new();
        if size > 0 {
            // what cannot be read is told by its size
            let _ = store.get_range(&chunk.object, 0, HEAD_BYTES, &mut head);
        }
        let (fault, why) = if size == 0 {
            (ChunkFault::Empty, format!("no bytes, its manifest says {end}"))
        } else if let Some(pointer) = pointer(&head, size) {
            (ChunkFault::Pointer, pointer)
        } else if let Some(body) = error_body(&head, size) {
            (ChunkFault::ErrorBody, body)
        } else if size < end {
            (ChunkFault::Truncated, format!("{size} bytes, its manifest says {end}"))
        } else {
            (ChunkFault::WrongSize, format!("{size} bytes, its manifest says {end}"))
        };
        self.faulty.entry((path.to_owned(), fault)).or_default().add(chunk, || why);
    }
}

/// Returns the ids of the snapshots that branches and tags lead to. Source: version 1, `refs/NAME/ref.json`.
fn held_snapshots(store: &Store, refs: &[String]) -> BTreeSet<String> {
    let fetched = store.get_many(refs, REF_BYTES_MOST);
    let documents = fetched.into_iter().filter_map(|fetched| Json::parse(&fetched.ok()??).ok());
    documents.filter_map(|document| Some(document.get("snapshot")?.as_str()?.to_owned())).collect()
}

/// Takes in the nodes of a snapshot, and returns its id. Source: `snapshot.fbs`: nodes are the third field, with id, path, user data, and a
/// union; that of arrays (its first kind) has manifests as its third field, each with an id.
fn read_snapshot(buffer: &[u8], held: &BTreeSet<String>, snapshots: &mut Snapshots) -> Option<String> {
    let root = Table::root(buffer)?;
    let id = base32(&root.bytes::<12>(0)?);
    // of a snapshot that nothing leads to any more, manifests may be collected before it
    let is_held = held.contains(&id);
    for node in root.tables(2)? {
        let path = node.text(1)?;
        if is_held && node.field(3).and_then(|at| buffer.get(at)) == Some(&1) {
            let array = node.field(4)?;
            let array = Table { buffer, at: array.checked_add(word(buffer, array)?)? };
            for manifest in array.tables(2)? {
                snapshots.manifests.entry(base32(&manifest.bytes::<12>(0)?)).or_insert_with(|| path.clone());
            }
        }
        snapshots.paths.insert(node.bytes::<8>(0)?, path);
    }
    Some(id)
}

/// Returns the flatbuffer of a metadata object, or why there is none.
fn decode(object: &[u8]) -> Result<Vec<u8>, Undecoded> {
    let damaged = |why: &str| Err(Undecoded::Damaged(why.to_owned()));
    if !object.starts_with(&MAGIC) {
        return damaged("it does not begin like an Icechunk object");
    }
    let Some((header, body)) = object.split_at_checked(HEADER_BYTES) else {
        return damaged(&format!("{} bytes, the header alone has {HEADER_BYTES}", object.len()));
    };
    match header[HEADER_BYTES - 1] {
        0 => Ok(body.to_vec()),
        1 => {
            match walk_zstd(body, body.len() as u64) {
                ZstdWalk::Whole | ZstdWalk::Trailing { .. } => {}
                ZstdWalk::Broken(why) => return damaged(why),
                ZstdWalk::Cut | ZstdWalk::OutOfSight => {
                    return damaged(&format!(
                        "it is cut off after {} bytes: its zstd frame goes on",
                        object.len()
                    ));
                }
            }
            decompress(body)
        }
        other => damaged(&format!("compression {other} is none that the specification knows")),
    }
}

/// Returns what a zstd frame decodes to, which it need not say itself.
fn decompress(body: &[u8]) -> Result<Vec<u8>, Undecoded> {
    let mut capacity = body.len().saturating_mul(8).max(1 << 16);
    loop {
        let mut decoded = vec![0; capacity.min(DECODED_BYTES_MOST)];
        match zstd_safe::decompress(decoded.as_mut_slice(), body) {
            Ok(bytes) => {
                decoded.truncate(bytes);
                return Ok(decoded);
            }
            Err(code) if zstd_safe::get_error_name(code) != "Destination buffer is too small" => {
                return Err(Undecoded::Damaged("its zstd frame does not decode".to_owned()));
            }
            Err(_) if capacity >= DECODED_BYTES_MOST => return Err(Undecoded::TooLarge),
            Err(_) => capacity = capacity.saturating_mul(8),
        }
    }
}

/// Returns an id as the name of its object. Source: Crockford's base 32, without padding.
fn base32(id: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let (mut text, mut bits, mut held) = (String::new(), 0u32, 0u32);
    for &byte in id {
        bits = bits << 8 | u32::from(byte);
        held += 8;
        while held >= 5 {
            held -= 5;
            text.push(char::from(DIGITS[(bits >> held & 31) as usize]));
        }
        bits &= (1 << held) - 1;
    }
    if held > 0 {
        text.push(char::from(DIGITS[(bits << (5 - held) & 31) as usize]));
    }
    text
}

/// One table of a flatbuffer; every access is checked. Source: FlatBuffers' internals.
#[derive(Clone, Copy)]
struct Table<'a> {
    buffer: &'a [u8],
    at: usize,
}

impl<'a> Table<'a> {
    fn root(buffer: &'a [u8]) -> Option<Self> {
        Some(Self { buffer, at: word(buffer, 0)? })
    }

    /// Returns where a field lies; `None` where it is left out.
    fn field(&self, slot: usize) -> Option<usize> {
        let back = i32::from_le_bytes(array(self.buffer, self.at)?);
        let vtable = i64::try_from(self.at).ok()?.checked_sub(i64::from(back))?;
        let vtable = usize::try_from(vtable).ok()?;
        let bytes = usize::from(u16::from_le_bytes(array(self.buffer, vtable)?));
        let entry = 4 + 2 * slot;
        if entry + 2 > bytes {
            return None;
        }
        let offset = usize::from(u16::from_le_bytes(array(self.buffer, vtable.checked_add(entry)?)?));
        (offset > 0).then(|| self.at.checked_add(offset))?
    }

    fn bytes<const N: usize>(&self, slot: usize) -> Option<[u8; N]> {
        array(self.buffer, self.field(slot)?)
    }

    /// Returns a number; 0 where it is left out.
    fn long(&self, slot: usize) -> u64 {
        self.bytes(slot).map_or(0, u64::from_le_bytes)
    }

    /// Returns where the elements of a vector begin, and how many there are.
    fn vector(&self, slot: usize, element_bytes: usize) -> Option<(usize, usize)> {
        let field = self.field(slot)?;
        let start = field.checked_add(word(self.buffer, field)?)?;
        let count = word(self.buffer, start)?;
        let first = start.checked_add(4)?;
        let end = first.checked_add(count.checked_mul(element_bytes)?)?;
        (end <= self.buffer.len()).then_some((first, count))
    }

    fn tables(&self, slot: usize) -> Option<impl Iterator<Item = Table<'a>> + use<'a>> {
        let buffer = self.buffer;
        let (first, count) = match self.field(slot) {
            Some(_) => self.vector(slot, 4)?,
            None => (0, 0),
        };
        let table = move |position: usize| {
            let at = first + 4 * position;
            Some(Table { buffer, at: at.checked_add(word(buffer, at)?)? })
        };
        Some((0..count).filter_map(table))
    }

    fn text(&self, slot: usize) -> Option<String> {
        let (first, count) = self.vector(slot, 1)?;
        Some(String::from_utf8_lossy(&self.buffer[first..first + count]).into_owned())
    }

    fn numbers(&self, slot: usize) -> Option<Vec<u64>> {
        let (first, count) = self.vector(slot, 4)?;
        (0..count).map(|position| word(self.buffer, first + 4 * position).map(|word| word as u64)).collect()
    }
}

fn word(buffer: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(array(buffer, at)?)).ok()
}

fn array<const N: usize>(buffer: &[u8], at: usize) -> Option<[u8; N]> {
    buffer.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::location::StoreUrl;
    use crate::store::StoreOptions;

    fn copy_of_fixture() -> tempfile::TempDir {
        copy_of("gauges.icechunk")
    }

    fn copy_of(fixture: &str) -> tempfile::TempDir {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(fixture);
        let folder = tempfile::tempdir().unwrap();
        for entry in walkdir::WalkDir::new(&source) {
            let entry = entry.unwrap();
            let target = folder.path().join(entry.path().strip_prefix(&source).unwrap());
            if entry.file_type().is_dir() {
                std::fs::create_dir_all(target).unwrap();
            } else {
                std::fs::copy(entry.path(), target).unwrap();
            }
        }
        folder
    }

    fn read(folder: &Path) -> Repository {
        let store = Store::open(&StoreUrl::Local(folder.to_owned()), &StoreOptions::default()).unwrap();
        Repository::read(&store).unwrap()
    }

    #[test]
    fn a_sound_repository_has_all_that_it_names() {
        let folder = copy_of_fixture();
        let found = read(folder.path());
        assert!(found.damaged.is_empty() && found.missing.is_empty(), "{found:?}");
        assert!(found.absent_manifests.is_empty() && found.faulty.is_empty(), "{found:?}");
        assert!(found.objects > 0 && found.native_chunks > 0, "{found:?}");
    }

    #[test]
    fn manifests_that_snapshots_of_version_2_need_are_missed() {
        let folder = copy_of("gauges_v2.icechunk");
        let sound = read(folder.path());
        assert!(sound.damaged.is_empty() && sound.missing.is_empty(), "{sound:?}");
        assert!(sound.absent_manifests.is_empty() && sound.native_chunks > 0, "{sound:?}");
        std::fs::remove_dir_all(folder.path().join("manifests")).unwrap();
        let found = read(folder.path());
        assert!(!found.absent_manifests.is_empty(), "{found:?}");
        assert!(found.absent_manifests.keys().all(|key| key.starts_with("manifests/")), "{found:?}");
        let repo = std::fs::read(folder.path().join("repo")).unwrap();
        std::fs::write(folder.path().join("repo"), &repo[..repo.len() - 9]).unwrap();
        assert_eq!(read(folder.path()).damaged[0].0, "repo");
    }

    #[test]
    fn a_chunk_that_is_gone_is_named_and_a_cut_manifest_is_damaged() {
        let folder = copy_of_fixture();
        let chunk = std::fs::read_dir(folder.path().join("chunks")).unwrap().next().unwrap().unwrap();
        std::fs::remove_file(chunk.path()).unwrap();
        let found = read(folder.path());
        assert_eq!(found.missing.len(), 1, "{found:?}");
        let missing = found.missing.values().next().unwrap();
        assert_eq!(missing.object, format!("chunks/{}", chunk.file_name().to_string_lossy()));
        for manifest in std::fs::read_dir(folder.path().join("manifests")).unwrap() {
            let path = manifest.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }
        assert!(!read(folder.path()).damaged.is_empty());
    }

    #[test]
    fn chunks_of_another_length_are_told_by_what_they_are() {
        let folder = copy_of_fixture();
        let chunks = folder.path().join("chunks");
        let mut names: Vec<_> =
            std::fs::read_dir(&chunks).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let whole = std::fs::read(&names[1]).unwrap();
        std::fs::write(&names[0], b"").unwrap();
        std::fs::write(&names[1], &whole[..whole.len() - 1]).unwrap();
        std::fs::write(&names[2], b"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>").unwrap();
        std::fs::write(&names[3], b"version https://git-lfs.github.com/spec/v1\nsize 4\n").unwrap();
        let mut faults: Vec<ChunkFault> = read(folder.path()).faulty.into_keys().map(|key| key.1).collect();
        faults.sort();
        use ChunkFault::{Empty, ErrorBody, Pointer, Truncated};
        assert_eq!(faults, [Empty, Truncated, ErrorBody, Pointer]);
    }

    #[test]
    fn a_manifest_that_is_gone_is_named_with_its_array() {
        let folder = copy_of_fixture();
        for manifest in std::fs::read_dir(folder.path().join("manifests")).unwrap() {
            std::fs::remove_file(manifest.unwrap().path()).unwrap();
        }
        let kept = folder.path().join("refs.kept");
        std::fs::rename(folder.path().join("refs"), &kept).unwrap();
        assert!(read(folder.path()).absent_manifests.is_empty(), "no branch leads to them");
        std::fs::rename(&kept, folder.path().join("refs")).unwrap();
        let found = read(folder.path());
        assert!(found.damaged.is_empty() && !found.absent_manifests.is_empty(), "{found:?}");
        assert!(found.absent_manifests.values().all(|path| path.starts_with('/')), "{found:?}");
    }

    #[test]
    fn snapshots_that_branches_need_are_missed_and_known_by_their_ids() {
        for folder in [copy_of_fixture(), copy_of("gauges_v2.icechunk")] {
            let snapshots = folder.path().join("snapshots");
            assert_eq!(read(folder.path()).absent_snapshots, [""; 0]);
            let other = std::fs::read_dir(&snapshots).unwrap().next().unwrap().unwrap().path();
            let renamed = snapshots.join("0".repeat(20));
            std::fs::copy(&other, &renamed).unwrap();
            let found = read(folder.path());
            assert_eq!(found.damaged[0].0, format!("snapshots/{}", "0".repeat(20)), "{found:?}");
            std::fs::remove_dir_all(&snapshots).unwrap();
            assert!(!read(folder.path()).absent_snapshots.is_empty());
        }
    }

    #[test]
    fn what_decodes_to_very_much_is_not_decoded() {
        let object = |decoded_bytes: usize| {
            let mut object = MAGIC.to_vec();
            object.resize(HEADER_BYTES - 1, 1);
            object.push(1);
            let zeros = vec![0; decoded_bytes];
            let mut frame = Vec::with_capacity(1 << 16);
            zstd_safe::compress(&mut frame, &zeros, 1).unwrap();
            [object, frame].concat()
        };
        assert_eq!(decode(&object(1000)), Ok(vec![0; 1000]));
        assert_eq!(decode(&object(DECODED_BYTES_MOST + 1)), Err(Undecoded::TooLarge));
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("manifests")).unwrap();
        std::fs::write(folder.path().join("manifests/0"), object(DECODED_BYTES_MOST + 1)).unwrap();
        let found = read(folder.path());
        assert_eq!((found.damaged.len(), found.unread.is_some()), (0, true), "{found:?}");
    }

    #[test]
    fn a_tag_that_was_deleted_needs_no_snapshot() {
        let folder = copy_of_fixture();
        let tag = folder.path().join("refs/tag.old");
        std::fs::create_dir(&tag).unwrap();
        std::fs::write(tag.join("ref.json"), format!(r#"{{"snapshot":"{}"}}"#, "0".repeat(20))).unwrap();
        assert_eq!(read(folder.path()).absent_snapshots, [format!("snapshots/{}", "0".repeat(20))]);
        std::fs::write(tag.join("ref.json.deleted"), b"").unwrap();
        assert_eq!(read(folder.path()).absent_snapshots, [""; 0]);
    }

    #[test]
    fn flatbuffers_that_lead_outside_are_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let url = StoreUrl::Local(folder.path().to_owned());
        let store = Store::open(&url, &StoreOptions::default()).unwrap();
        for length in 0..64 {
            for byte in [0u8, 1, 4, 0x7f, 0xff] {
                let buffer = vec![byte; length];
                let read = Repository::default().read_manifest(
                    &buffer,
                    &BTreeMap::new(),
                    (&store, &BTreeMap::new()),
                );
                assert!(length > 3 || read.is_none());
                let _ = read_snapshot(&buffer, &BTreeSet::new(), &mut Snapshots::default());
            }
        }
    }
}
