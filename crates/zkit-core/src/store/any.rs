//! One handle for every kind of store.

use std::ops::ControlFlow;
use std::time::Duration;

use rayon::prelude::*;

use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::location::StoreUrl;
use crate::units::saturating_usize;

use super::hosts::Hosts;
use super::local::LocalStore;
use super::memory::MemoryStore;
use super::references::ReferenceStore;
use super::remote::{ChunkCache, FetchResult, Network, Piece, RemoteStore, StoreChecksums};
use super::seen::{Reads, Seen, SeenLog};
use super::zip::ZipStore;

/// How to reach a store; what the environment says is handed in by the caller.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// `AWS_*`, `GOOGLE_*`, `AZURE_*` of the environment.
    pub environment: Vec<(String, String)>,
    /// `--storage-option K=V`; they win over the environment.
    pub options: Vec<(String, String)>,
    /// Whether to send no credentials.
    pub anonymous: bool,
    /// Longest wait for the beginning of an answer, and for the next part of one that is on its way.
    pub timeout: Duration,
    /// Whether local links may lead out of the store.
    pub follow_links: bool,
    /// What references may lead to, beside the folder that they lie in.
    pub allow_prefixes: Vec<StoreUrl>,
    /// Which web servers a store may be read from.
    pub hosts: Hosts,
    /// Ends waiting for remote stores.
    pub cancel: Cancel,
    /// What remote stores share; stores of one run are opened with clones of one.
    pub network: Network,
    /// Whether stores remember what is read of them; see [`Store::seen`].
    pub reads: Reads,
    /// Keeps what is read of remote stores; without it everything is read from them.
    pub chunk_cache: Option<ChunkCache>,
    /// Whether what is read is compared with the checksums of its server.
    pub checksums: StoreChecksums,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            environment: Vec::new(),
            options: Vec::new(),
            anonymous: false,
            timeout: Duration::from_secs(60),
            follow_links: false,
            allow_prefixes: Vec::new(),
            hosts: Hosts::Named,
            cancel: Cancel::default(),
            network: Network::default(),
            reads: Reads::Forgotten,
            chunk_cache: None,
            checksums: StoreChecksums::Compared,
        }
    }
}

/// A store that is open for reading.
#[derive(Debug)]
pub enum Store {
    /// A directory of this machine.
    Local(LocalStore),
    /// A bucket, container or web server.
    Remote(RemoteStore),
    /// A zip file, of this machine or behind a network.
    Zip(ZipStore),
    /// A few small objects in memory.
    Memory(MemoryStore),
    /// Parts of other files, by reference.
    References(Box<ReferenceStore>),
}

/// One object of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectInfo<'a> {
    /// The key, relative to the listed prefix.
    pub key: &'a str,
    /// Stored bytes.
    pub size: u64,
    /// What it is.
    pub kind: ObjectKind,
    /// Changes when the object is rewritten: a hash of what the store says beside its bytes (locally the time of the
    /// last change and the inode, else the entity tag and the time).
    pub stamp: u64,
    /// When it was last changed, in seconds since 1970; `None` where nothing says it.
    pub changed: Option<i64>,
    /// Whether its permissions let nobody read it, except a superuser.
    pub locked: bool,
}

/// What is read of objects next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glance {
    /// So many bytes from the start; 0: nothing.
    Head(u64),
    /// So many bytes from the end.
    Tail(u64),
    /// All of it, unless it has more bytes.
    Whole(u64),
}

/// What is known of an object without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectStat {
    /// Stored bytes.
    pub size: u64,
    /// Changes when the object is rewritten; see [`ObjectInfo::stamp`].
    pub stamp: u64,
}

/// What an object of a listing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A file or object that can be read.
    Regular,
    /// A link that leads out of the store; it is not followed.
    OutsideLink,
    /// A link whose target is absent.
    DanglingLink,
    /// A FIFO, socket or device; it is never opened.
    Special,
}

/// An entry directly below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ChildKind,
}

/// What a [`Child`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildKind {
    /// More entries lie below it.
    Directory,
    /// A link to a directory that does not hold the link itself: more entries lie below it, perhaps seen before.
    LinkedDirectory,
    /// A directory whose name is no UTF-8, and no key leads to; the name says so with marks.
    UnnameableDirectory,
    /// An object, with its kind.
    Object(ObjectKind),
}

/// A file that will be read soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefetched {
    /// Its length.
    pub bytes: u64,
    /// Whether it is in the page cache already.
    pub is_cached: bool,
}

impl Store {
    /// Opens a store for reading; says `Absent` if a local directory does not exist.
    ///
    /// Remote stores are not contacted before the first read.
    pub fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Self> {
        match url {
            StoreUrl::Local(path) => {
                let store = LocalStore::open(path, options.follow_links)?;
                Ok(Self::Local(store.remembering(options.reads)))
            }
            StoreUrl::Remote { .. } => RemoteStore::open(url, options).map(Self::Remote),
        }
    }

    /// Returns whether reads wait for a network.
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Local(_) | Self::Memory(_) => false,
            Self::Remote(_) => true,
            Self::Zip(store) => store.is_remote(),
            Self::References(store) => store.is_remote(),
        }
    }

    /// Returns whether it can be listed; of a web server one can only ask whether a key is there, see [`Self::see_many`].
    pub fn is_listable(&self) -> bool {
        !matches!(self, Self::Remote(store) if !store.is_listable())
    }

    /// Returns how many reads may wait for a network at once; 0 where none does.
    pub fn reads_in_flight(&self) -> usize {
        match self {
            Self::Local(_) | Self::Memory(_) => 0,
            Self::Remote(store) => store.reads_in_flight(),
            Self::Zip(store) => store.reads_in_flight(),
            Self::References(store) => store.reads_in_flight(),
        }
    }

    /// Returns where the store is, without secrets.
    pub fn place(&self) -> String {
        match self {
            Self::Local(store) => store.root().display().to_string(),
            Self::Remote(store) => store.place().to_owned(),
            Self::Zip(store) => store.whole().to_owned(),
            Self::Memory(_) => MemoryStore::place().to_owned(),
            Self::References(store) => store.place().to_owned(),
        }
    }

    /// Says whether what is read below a prefix from now on is decoded by codecs that sum it up: then it needs no checksum of its
    /// server.
    pub fn cover(&self, prefix: &str, is_summed_up: bool) {
        if let Self::Remote(store) = self {
            store.cover(prefix, is_summed_up);
        }
    }

    /// Asks the system to read a file that will be needed soon, and does not wait for it; `None` where there is nothing to ask for.
    pub fn prefetch(&self, key: &str) -> Option<Prefetched> {
        match self {
            Self::Local(store) => store.prefetch(key),
            Self::Remote(_) | Self::Zip(_) | Self::Memory(_) | Self::References(_) => None,
        }
    }

    /// Reads an object into `buffer`, which is cleared; returns `false` if it is absent.
    ///
    /// An object of more than `limit` bytes is an error of kind `OverBudget`; nothing is allocated for it.
    pub fn get(&self, key: &str, limit: u64, buffer: &mut Vec<u8>) -> Result<bool> {
        match self {
            Self::Local(store) => store.get(key, limit, buffer),
            Self::Zip(store) => store.get(key, limit, buffer),
            Self::Memory(store) => store.get(key, limit, buffer),
            Self::References(store) => store.get(key, limit, buffer),
            Self::Remote(store) => match store.get_blocking(key, limit)? {
                Some(bytes) => {
                    buffer.clear();
                    buffer.extend_from_slice(&bytes);
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }

    /// Reads at most `length` bytes at `offset` into `buffer`; returns the object's size, or `None` if it is absent.
    pub fn get_range(
        &self,
        key: &str,
        offset: u64,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        match self {
            Self::Local(store) => store.get_range(key, offset, length, buffer),
            Self::Zip(store) => store.get_range(key, offset, length, buffer),
            Self::Memory(store) => Ok(store.get_range(key, offset, length, buffer)),
            Self::References(store) => store.get_range(key, offset, length, buffer),
            Self::Remote(store) => store.get_range_blocking(key, offset, length, buffer),
        }
    }

    /// Reads the last `length` bytes into `buffer`; returns the object's size, or `None` if it is absent.
    pub fn get_suffix(&self, key: &str, length: u64, buffer: &mut Vec<u8>) -> Result<Option<u64>> {
        match self {
            Self::Local(store) => store.get_suffix(key, length, buffer),
            Self::Zip(store) => store.get_suffix(key, length, buffer),
            Self::Memory(store) => Ok(store.get_suffix(key, length, buffer)),
            Self::References(store) => store.get_suffix(key, length, buffer),
            Self::Remote(store) => store.get_suffix_blocking(key, length, buffer),
        }
    }

    /// Reads many small objects, several at once; results are in the order of `keys`.
    pub fn get_many(&self, keys: &[String], limit: u64) -> Vec<FetchResult> {
        match self {
            Self::Local(store) => store.get_many(keys, limit),
            Self::Zip(store) => store.get_many(keys, limit),
            Self::Memory(store) => store.get_many(keys, limit),
            Self::References(store) => store.get_many(keys, limit),
            Self::Remote(store) => store.get_many(keys, limit),
        }
    }

    /// Reads many small objects of several stores, as [`Self::get_many`] does those of one: all that lie behind a network at once.
    pub fn get_many_of(wanted: &[(&Self, &str)], limit: u64) -> Vec<FetchResult> {
        let piece = |(store, key): &(&Self, &str)| match store {
            Self::Remote(remote) => {
                Some(Piece { store: remote.clone(), key: (*key).to_owned(), range: None })
            }
            _ => None,
        };
        let pieces: Vec<Piece> = wanted.iter().filter_map(piece).collect();
        let fetched = pieces.first().map(|first| first.store.get_pieces(&pieces, limit));
        let mut fetched = fetched.unwrap_or_default().into_iter();
        let mut results = Vec::with_capacity(wanted.len());
        for together in wanted.chunk_by(|one, other| std::ptr::eq(one.0, other.0)) {
            match together[0].0 {
                Self::Remote(_) => results.extend(fetched.by_ref().take(together.len())),
                store => {
                    let keys: Vec<String> = together.iter().map(|(_, key)| (*key).to_owned()).collect();
                    results.extend(store.get_many(&keys, limit));
                }
            }
        }
        results
    }

    /// Returns the size and stamp of an object without reading it, `None` if it is absent; a remote store is not asked, and
    /// is an error of kind `Unsupported`.
    pub fn stat(&self, key: &str) -> Result<Option<ObjectStat>> {
        match self {
            Self::Local(store) => store.stat(key),
            Self::Zip(store) => Ok(store.stat(key)),
            Self::Memory(store) => {
                let mut bytes = Vec::new();
                let present = store.get(key, u64::MAX, &mut bytes)?;
                let stamp = xxhash_rust::xxh3::xxh3_64(&bytes);
                Ok(present.then_some(ObjectStat { size: bytes.len() as u64, stamp }))
            }
            Self::References(store) => store.stat(key),
            Self::Remote(store) => {
                let message = format!("could not look at `{key}` in {}: it is remote", store.place());
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// Returns all that was read, found absent or listed so far, sorted by key, as it was the first time; the keys of folders
    /// end in a slash. `None` where it is not remembered, see [`Reads`].
    ///
    /// Of a zip file that is the file alone, of references all that was read of their folder: keys are those of the folder.
    pub fn seen(&self) -> Option<Vec<(String, Seen)>> {
        if let Self::Zip(store) = self {
            return store.seen();
        }
        self.seen_log().map(SeenLog::all)
    }

    /// Returns a key at which two different things were seen, if there is one.
    pub fn changed_while_read(&self) -> Option<String> {
        self.seen_log().and_then(SeenLog::changed)
    }

    fn seen_log(&self) -> Option<&SeenLog> {
        match self {
            Self::Local(store) => store.seen(),
            Self::Remote(store) => store.seen(),
            Self::References(store) => store.seen_log(),
            Self::Zip(_) | Self::Memory(_) => None,
        }
    }

    /// Returns what stands at keys now, in their order, several looked at side by side; the keys of folders end in a slash.
    ///
    /// Cost: one request for each key of a remote store; nothing is read. Errors: `Unsupported` for remote zip files, and
    /// references that lead elsewhere.
    pub fn see_many(&self, keys: &[&str]) -> Result<Vec<Seen>> {
        let zip_folder;
        let folder = match self {
            Self::Local(store) => Some(store),
            Self::Remote(store) => return store.see_many(keys),
            Self::References(store) => store.folder(),
            Self::Zip(store) => {
                zip_folder = store.folder();
                zip_folder.as_ref()
            }
            Self::Memory(_) => None,
        };
        let Some(folder) = folder else {
            let message = format!("could not look at the objects of {}", self.place());
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        keys.par_iter().with_min_len(256).map(|key| folder.see(key)).collect()
    }

    /// Returns what stands at keys now, in their order, for who reads the objects next: where nothing can be listed, what that takes
    /// is fetched with the same request and given to its first reader, as far as some tens of megabytes hold it.
    ///
    /// Cost and errors: those of [`Self::see_many`].
    pub fn glance_many(&self, keys: &[&str], glance: Glance) -> Result<Vec<Seen>> {
        match self {
            Self::Remote(store) if !self.is_listable() => store.glance_many(keys, glance),
            _ => self.see_many(keys),
        }
    }

    /// Calls `visit` for every object below `prefix`, in no particular order.
    pub fn list(&self, prefix: &str, visit: &mut dyn FnMut(ObjectInfo<'_>)) -> Result<()> {
        self.list_while(prefix, &mut |object| {
            visit(object);
            ControlFlow::Continue(())
        })
    }

    /// Calls `visit` for the objects below `prefix`, in no particular order, until it breaks off.
    pub fn list_while(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        match self {
            Self::Local(store) => store.list_while(prefix, &|_| true, visit),
            Self::Zip(store) => store.list_while(prefix, visit),
            Self::References(store) => store.list_while(prefix, visit),
            Self::Memory(store) => {
                store.list_while(prefix, visit);
                Ok(())
            }
            Self::Remote(store) => store.list_while(prefix, visit),
        }
    }

    /// Lists the objects below `prefix` as [`Self::list_while`] does, and calls `folder` for each folder, where the store has them
    /// beside objects: it may be where an object should be.
    pub fn list_with_folders(
        &self,
        prefix: &str,
        folder: &dyn Fn(&str),
        visit: &mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let enter = |key: &str| {
            folder(key);
            true
        };
        match self {
            Self::Local(store) => store.list_while(prefix, &enter, visit),
            _ => self.list_while(prefix, visit),
        }
    }

    /// Calls `visit` for the objects of the whole store, except those below folders that `enter` refuses by their key.
    ///
    /// Locally such folders are not even opened; a remote store lists everything, side by side between the keys of `known` where
    /// there is much, and leaves the choice to `visit`.
    pub fn list_entering(
        &self,
        known: &[&str],
        enter: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        match self {
            Self::Local(store) => store.list_entering(enter, visit),
            Self::Remote(store) => store.list_cut("", known, visit),
            Self::Zip(store) => store.list_while("", visit),
            Self::References(store) => store.list_while("", visit),
            Self::Memory(store) => {
                store.list_while("", visit);
                Ok(())
            }
        }
    }

    /// Lists a remote store before anything of it is read, for who will list it as a whole: [`Self::list_entering`] goes on from
    /// there. Of a store of few objects it is then known without a request what is absent and what lies below a prefix.
    ///
    /// Cost: a request for a thousand objects, up to four; none of stores that are not remote, or cannot be listed.
    pub fn list_ahead(&self) -> Result<()> {
        match self {
            Self::Remote(store) => store.list_ahead(),
            _ => Ok(()),
        }
    }

    /// Reads the objects whose keys `wanted` takes all at once, and holds them for [`Self::get`] and [`Self::get_many`]; only where
    /// [`Self::list_ahead`] came to the end of the store.
    pub fn read_ahead(&self, wanted: &dyn Fn(&str) -> bool) {
        if let Self::Remote(store) = self {
            store.read_ahead(wanted);
        }
    }

    /// Returns the entries directly below `prefix`, sorted by name.
    pub fn children(&self, prefix: &str) -> Result<Vec<Child>> {
        match self {
            Self::Local(store) => store.children(prefix),
            Self::Zip(store) => store.children(prefix),
            Self::Memory(store) => Ok(store.children(prefix)),
            Self::References(store) => store.children(prefix),
            Self::Remote(store) => store.children(prefix),
        }
    }

    /// Returns the entries directly below each prefix, sorted by name; of a remote store several are asked for at once.
    pub fn children_many(&self, prefixes: &[&str]) -> Vec<Result<Vec<Child>>> {
        match self {
            Self::Remote(store) => store.children_many(prefixes),
            _ => prefixes.iter().map(|prefix| self.children(prefix)).collect(),
        }
    }
}

/// Returns the error for an object that is larger than the caller allows.
pub(super) fn too_large(place: &str, size: u64, limit: u64) -> Error {
    let (size, limit) = (crate::units::Bytes(size), crate::units::Bytes(limit));
    Error::new(
        ErrorKind::OverBudget,
        format!("could not read {place}: it holds {size}, at most {limit} expected"),
    )
}

/// Returns at most `length` bytes at `offset`: fewer, or none, where they end before.
pub(super) fn part_of(bytes: &[u8], offset: u64, length: u64) -> &[u8] {
    let start = saturating_usize(offset).min(bytes.len());
    let end = start.saturating_add(saturating_usize(length)).min(bytes.len());
    &bytes[start..end]
}
