//! References as stores: a key leads to bytes that stand in the references themselves, or to a part of some file.
//!
//! Source: kerchunk's specification, "References"; what a key leads to is told by a [`Locate`], what may be read of it by
//! `targets`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;

use rayon::prelude::*;

use super::any::{Child, ChildKind, ObjectInfo, ObjectKind, ObjectStat, StoreOptions, part_of, too_large};
use super::local::LocalStore;
use super::remote::{FetchResult, Piece};
use super::seen::SeenLog;
use super::targets::{Place, Targets};
use crate::error::{Error, ErrorKind, Result};
use crate::location::{StoreUrl, redact};

/// What a key of references leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// To bytes that stand in the references themselves.
    Inline(Vec<u8>),
    /// To a file.
    Elsewhere {
        /// Where it is, as the references say.
        url: String,
        /// Offset and length; `None` for the whole file.
        range: Option<(u64, u64)>,
    },
}

/// Tells what keys lead to.
pub trait Locate: fmt::Debug + Send + Sync {
    /// Returns what a key leads to; `None` where nothing is said of it.
    ///
    /// Errors: `Unreadable` and `Corrupt` for references that are read when they are asked for.
    fn locate(&self, key: &str) -> Result<Option<Located>>;

    /// Calls `visit` with every key that begins with `prefix`, and with what it leads to, until it breaks off.
    fn list(&self, prefix: &str, visit: &mut dyn FnMut(&str, &Located) -> ControlFlow<()>) -> Result<()>;
}

/// A set of references that is open for reading.
///
/// A target that is not there is unreadable, as a link that leads nowhere is: the references say that the chunk exists.
#[derive(Debug)]
pub struct ReferenceStore {
    place: String,
    located: Box<dyn Locate>,
    targets: Targets,
    document: Document,
}

/// What the references themselves are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// One file of that name, in the folder that relative targets begin in.
    File(String),
    /// Several files, which are read as they are needed.
    Files,
}

impl ReferenceStore {
    /// Opens what references lead to; `folder` is where they lie: relative targets begin there, and what is below it may
    /// be read. Nothing is contacted before the first read.
    ///
    /// Errors: those of opening a local folder that may be read.
    pub fn new(
        place: String,
        folder: StoreUrl,
        (located, document): (Box<dyn Locate>, Document),
        options: &StoreOptions,
    ) -> Result<Self> {
        let store = Self { place, located, targets: Targets::new(folder, options)?, document };
        if let (Document::File(name), Some(folder)) = (&store.document, store.targets.only_folder()) {
            // what the references are read from counts as read
            folder.seen().map(|_| folder.stat(name)).transpose()?;
        }
        Ok(store)
    }

    /// Returns what was read, by its key in the folder of the references, where all of it lies there and is remembered.
    pub(super) fn seen_log(&self) -> Option<&SeenLog> {
        self.folder()?.seen()
    }

    /// Returns the folder of the references, where nothing else is read.
    pub(super) fn folder(&self) -> Option<&LocalStore> {
        match self.document {
            Document::File(_) => self.targets.only_folder(),
            Document::Files => None,
        }
    }

    /// Returns whether a target may be read, and on this machine also whether something is there, be it too short or unreadable.
    ///
    /// Nothing is asked of a network. One look at the file where it is local.
    pub fn leads_to(&self, target: &str) -> bool {
        match self.targets.place(target) {
            Ok(Place::Remote(..)) => true,
            Ok(place @ Place::Local(..)) => !matches!(place.get_range(0, 0, &mut Vec::new()), Ok(None)),
            Err(_) => false,
        }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn is_remote(&self) -> bool {
        self.targets.may_be_remote()
    }

    pub(super) fn reads_in_flight(&self) -> usize {
        self.targets.reads_in_flight()
    }

    pub(super) fn get(&self, key: &str, limit: u64, buffer: &mut Vec<u8>) -> Result<bool> {
        let (url, range) = match self.located.locate(key)? {
            None => return Ok(false),
            Some(Located::Inline(bytes)) => {
                self.check_size(key, bytes.len() as u64, limit)?;
                *buffer = bytes;
                return Ok(true);
            }
            Some(Located::Elsewhere { url, range }) => (url, range),
        };
        let place = self.follow(key, &url)?;
        let Some((offset, length)) = range else {
            return match self.noted(key, place.get(limit, buffer))? {
                true => Ok(true),
                false => Err(self.dangling(key, &url)),
            };
        };
        self.check_size(key, length, limit)?;
        self.read(key, (&url, &place), (offset, length), buffer)?;
        Ok(true)
    }

    /// Reads a part of a file, all of which must be there.
    fn read(
        &self,
        key: &str,
        (url, place): (&str, &Place<'_>),
        (offset, length): (u64, u64),
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let read = self.noted(key, place.get_range(offset, length, buffer))?;
        let size = read.ok_or_else(|| self.dangling(key, url))?;
        if (buffer.len() as u64) < length {
            return Err(self.short(key, url, (offset, length), Some(size)));
        }
        Ok(())
    }

    pub(super) fn get_range(
        &self,
        key: &str,
        offset: u64,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        match self.located.locate(key)? {
            None => Ok(None),
            Some(Located::Inline(bytes)) => {
                buffer.clear();
                buffer.extend_from_slice(part_of(&bytes, offset, length));
                Ok(Some(bytes.len() as u64))
            }
            Some(Located::Elsewhere { url, range: None }) => {
                let place = self.follow(key, &url)?;
                let size = self.noted(key, place.get_range(offset, length, buffer))?;
                size.map(Some).ok_or_else(|| self.dangling(key, &url))
            }
            Some(Located::Elsewhere { url, range: Some((start, size)) }) => {
                let place = self.follow(key, &url)?;
                let length = length.min(size.saturating_sub(offset));
                self.read(key, (&url, &place), (start.saturating_add(offset), length), buffer)?;
                Ok(Some(size))
            }
        }
    }

    pub(super) fn get_suffix(&self, key: &str, length: u64, buffer: &mut Vec<u8>) -> Result<Option<u64>> {
        let size = match self.located.locate(key)? {
            None => return Ok(None),
            Some(Located::Inline(bytes)) => bytes.len() as u64,
            Some(Located::Elsewhere { range: Some((_, size)), .. }) => size,
            Some(Located::Elsewhere { url, range: None }) => {
                let place = self.follow(key, &url)?;
                let size = self.noted(key, place.get_suffix(length, buffer))?;
                return size.map(Some).ok_or_else(|| self.dangling(key, &url));
            }
        };
        self.get_range(key, size.saturating_sub(length), length, buffer)
    }

    /// Reads many objects; those behind a network all at once.
    pub(super) fn get_many(&self, keys: &[String], limit: u64) -> Vec<FetchResult> {
        let begun: Vec<Begun> = keys.par_iter().with_min_len(16).map(|key| self.begin(key, limit)).collect();
        let mut pieces = Vec::new();
        let mut urls = Vec::new();
        let begun: Vec<Option<FetchResult>> = begun
            .into_iter()
            .map(|begun| match begun {
                Begun::Done(result) => Some(result),
                Begun::Fetch(url, piece) => {
                    urls.push(url);
                    pieces.push(piece);
                    None
                }
            })
            .collect();
        let fetched = pieces.first().map(|first| first.store.get_pieces(&pieces, limit)).unwrap_or_default();
        let mut fetched = fetched.into_iter().zip(urls).zip(&pieces);
        let whole = |(key, begun): (&String, Option<FetchResult>)| match begun {
            Some(result) => result,
            None => match fetched.next() {
                Some(((bytes, url), piece)) => self.arrived(key, &url, piece.range, bytes),
                None => Ok(None),
            },
        };
        keys.iter().zip(begun).map(whole).collect()
    }

    /// Reads what is on this machine, and tells what must be fetched.
    fn begin(&self, key: &str, limit: u64) -> Begun {
        let remote = || -> Result<Option<Begun>> {
            let Some(Located::Elsewhere { url, range }) = self.located.locate(key)? else { return Ok(None) };
            match self.follow(key, &url)? {
                Place::Local(..) => Ok(None),
                Place::Remote(store, target) => {
                    Ok(Some(Begun::Fetch(url, Piece { store, key: target, range })))
                }
            }
        };
        match remote() {
            Ok(Some(fetch)) => fetch,
            Err(error) => Begun::Done(Err(error)),
            Ok(None) => {
                let mut buffer = Vec::new();
                Begun::Done(self.get(key, limit, &mut buffer).map(|present| present.then(|| buffer.into())))
            }
        }
    }

    /// Returns what was fetched of a target, all of which must be there.
    fn arrived(&self, key: &str, url: &str, range: Option<(u64, u64)>, fetched: FetchResult) -> FetchResult {
        let bytes = self.noted(key, fetched)?.ok_or_else(|| self.dangling(key, url))?;
        match range {
            Some(range) if (bytes.len() as u64) < range.1 => Err(self.short(key, url, range, None)),
            _ => Ok(Some(bytes)),
        }
    }

    /// Returns the size of an object and what changes with it, without reading it; only for targets on this machine.
    pub(super) fn stat(&self, key: &str) -> Result<Option<ObjectStat>> {
        let Some(located) = self.located.locate(key)? else { return Ok(None) };
        let stamp = stamp_of(&located);
        let (url, range) = match located {
            Located::Inline(bytes) => return Ok(Some(ObjectStat { size: bytes.len() as u64, stamp })),
            Located::Elsewhere { url, range } => (url, range),
        };
        match self.follow(key, &url)? {
            Place::Local(store, target) => {
                let found = store.stat(&target)?.ok_or_else(|| self.dangling(key, &url))?;
                let stamp = stamp ^ found.stamp.rotate_left(1);
                Ok(Some(ObjectStat { size: range.map_or(found.size, |(_, length)| length), stamp }))
            }
            Place::Remote(..) => {
                let message = format!("could not look at `{key}` in {}: it is remote", self.place);
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// Calls `visit` for the keys below `prefix` until it breaks off; no target is asked for anything but its size, and
    /// that only on this machine: remote files that are referred to as a whole are told as one byte.
    pub(super) fn list_while(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        self.located.list(&prefix, &mut |key, located| {
            let size = match located {
                Located::Inline(bytes) => bytes.len() as u64,
                Located::Elsewhere { range: Some((_, length)), .. } => *length,
                Located::Elsewhere { url, range: None } => self.size_here(url).unwrap_or(1),
            };
            let object = ObjectInfo {
                key: &key[prefix.len()..],
                size,
                kind: ObjectKind::Regular,
                stamp: stamp_of(located),
                changed: None,
                locked: false,
            };
            visit(object)
        })
    }

    /// Returns the size of a target on this machine.
    fn size_here(&self, url: &str) -> Option<u64> {
        match self.targets.place(url).ok()? {
            Place::Local(store, key) => store.stat(&key).ok()?.map(|found| found.size),
            Place::Remote(..) => None,
        }
    }

    /// Returns the entries directly below `prefix`, sorted by name.
    pub(super) fn children(&self, prefix: &str) -> Result<Vec<Child>> {
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

    fn follow(&self, key: &str, url: &str) -> Result<Place<'_>> {
        self.noted(key, self.targets.place(url))
    }

    /// Says for which key a target was read.
    fn noted<T>(&self, key: &str, result: Result<T>) -> Result<T> {
        result.map_err(|error| match error.kind() {
            ErrorKind::Cancelled => error,
            _ => error.context(format!("could not read `{key}` in {}", self.place)),
        })
    }

    fn check_size(&self, key: &str, size: u64, limit: u64) -> Result<()> {
        match size > limit {
            true => Err(too_large(&format!("`{key}` in {}", self.place), size, limit)),
            false => Ok(()),
        }
    }

    fn dangling(&self, key: &str, url: &str) -> Error {
        let message = format!(
            "could not read `{key}` in {}: it refers to `{}`, which is not there",
            self.place,
            redact(url)
        );
        Error::new(ErrorKind::Unreadable, message)
    }

    fn short(&self, key: &str, url: &str, (offset, length): (u64, u64), size: Option<u64>) -> Error {
        let end = offset.saturating_add(length);
        let holds = size.map_or_else(|| "is shorter".to_owned(), |size| format!("holds {size}"));
        let message = format!(
            "could not read `{key}` in {}: it refers to bytes {offset} to {end} of `{}`, which {holds}",
            self.place,
            redact(url)
        );
        Error::new(ErrorKind::Corrupt, message)
    }
}

enum Begun {
    Done(FetchResult),
    /// The target as the references name it, and what to fetch.
    Fetch(String, Piece),
}

fn stamp_of(located: &Located) -> u64 {
    use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
    match located {
        Located::Inline(bytes) => xxh3_64(bytes),
        Located::Elsewhere { url, range } => {
            let (offset, length) = range.unwrap_or_default();
            xxh3_64_with_seed(url.as_bytes(), offset ^ length.rotate_left(32))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[derive(Debug)]
    struct Fixed(BTreeMap<String, Located>);

    impl Locate for Fixed {
        fn locate(&self, key: &str) -> Result<Option<Located>> {
            Ok(self.0.get(key).cloned())
        }

        fn list(&self, prefix: &str, visit: &mut dyn FnMut(&str, &Located) -> ControlFlow<()>) -> Result<()> {
            let mut below = self.0.iter().filter(|(key, _)| key.starts_with(prefix));
            let _ = below.try_for_each(|(key, located)| visit(key, located));
            Ok(())
        }
    }

    fn elsewhere(url: &str, range: Option<(u64, u64)>) -> Located {
        Located::Elsewhere { url: url.to_owned(), range }
    }

    fn opened(entries: &[(&str, Located)]) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.nc"), b"0123456789").unwrap();
        let located = entries.iter().map(|(key, located)| ((*key).to_owned(), located.clone())).collect();
        let store = ReferenceStore::new(
            "refs.json".to_owned(),
            StoreUrl::Local(folder.path().to_owned()),
            (Box::new(Fixed(located)), Document::Files),
            &StoreOptions::default(),
        );
        (folder, Store::References(Box::new(store.unwrap())))
    }

    #[test]
    fn keys_lead_to_bytes_parts_and_whole_files() {
        let (_folder, store) = opened(&[
            ("a/0", Located::Inline(b"inline".to_vec())),
            ("a/1", elsewhere("a.nc", Some((2, 3)))),
            ("a/2", elsewhere("a.nc", None)),
        ]);
        let keys: Vec<String> = ["a/0", "a/1", "a/2", "a/3"].map(str::to_owned).into();
        let all: Vec<_> = store
            .get_many(&keys, 100)
            .into_iter()
            .map(|found| found.unwrap().map(|bytes| bytes.to_vec()))
            .collect();
        let expected: [Option<&[u8]>; 4] = [Some(b"inline"), Some(b"234"), Some(b"0123456789"), None];
        assert_eq!(all, expected.map(|bytes| bytes.map(<[u8]>::to_vec)));
        let mut buffer = Vec::new();
        for (key, range, suffix, size) in
            [("a/0", "nl", "ne", 6), ("a/1", "34", "34", 3), ("a/2", "12", "89", 10)]
        {
            assert_eq!(store.get_range(key, 1, 2, &mut buffer).unwrap(), Some(size));
            assert_eq!(buffer, range.as_bytes(), "{key}");
            assert_eq!(store.get_suffix(key, 2, &mut buffer).unwrap(), Some(size));
            assert_eq!(buffer, suffix.as_bytes(), "{key}");
            assert_eq!(store.stat(key).unwrap().unwrap().size, size);
            assert_eq!(store.get(key, size - 1, &mut buffer).unwrap_err().kind(), ErrorKind::OverBudget);
        }
        let mut listed = Vec::new();
        store.list("a", &mut |object| listed.push((object.key.to_owned(), object.size))).unwrap();
        assert_eq!(listed, [("0".to_owned(), 6), ("1".to_owned(), 3), ("2".to_owned(), 10)]);
        assert_eq!(store.children("").unwrap().len(), 1);
    }

    #[test]
    fn a_target_that_is_gone_is_unreadable_and_one_that_is_short_is_corrupt() {
        let (_folder, store) = opened(&[
            ("gone", elsewhere("b.nc", Some((0, 1)))),
            ("short", elsewhere("a.nc", Some((8, 3)))),
            ("behind", elsewhere("a.nc", Some((u64::MAX, 3)))),
            ("outside", elsewhere("../a.nc", None)),
        ]);
        let cases = [
            ("gone", ErrorKind::Unreadable),
            ("short", ErrorKind::Corrupt),
            ("behind", ErrorKind::Corrupt),
            ("outside", ErrorKind::Unreadable),
        ];
        for (key, kind) in cases {
            let many = store.get_many(&[key.to_owned()], 100).remove(0).unwrap_err();
            let one = store.get(key, 100, &mut Vec::new()).unwrap_err();
            assert_eq!((many.kind(), one.kind()), (kind, kind), "{key}: {one}");
            assert!(one.one_line().contains("a.nc") || key == "gone", "{}", one.one_line());
        }
    }
}
