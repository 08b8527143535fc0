//! A folder of this machine that keeps what was read of remote stores, for the next run: `--chunk-cache`.
//!
//! An entry is served when the server says that the object still has the entity tag with which it was kept: a conditional
//! request that costs an answer and no body. A whole object that this run has listed is served without asking: the listing has
//! told its tag. Whatever is wrong with the folder, reads go on without it.

mod entry;
mod folder;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use object_store::path::Path as ObjectPath;
use object_store::{GetRange, ObjectMeta};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(super) use entry::Entry;
use entry::{Header, Part};
use folder::{Added, Folder};

use super::clients::settings;
use crate::error::Result;
use crate::location::{Scheme, redact};
use crate::store::any::StoreOptions;

/// States of listed objects that are remembered, 16 bytes each beside what a map takes: others are asked for.
const LISTED_MOST: usize = 1 << 20;

/// Keeps what was read of remote stores; clones share it, and so do processes.
///
/// ```
/// use zkit_core::store::ChunkCache;
///
/// let folder = tempfile::tempdir()?;
/// let cache = ChunkCache::open(&folder.path().join("chunks"), 1 << 30, |warning| eprintln!("{warning}"))?;
/// assert_eq!(cache.served_bytes(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ChunkCache(Arc<Shared>);

struct Shared {
    folder: Folder,
    warn: Box<dyn Fn(String) + Send + Sync>,
    /// Whether adding has failed: then nothing more is added.
    is_closed: AtomicBool,
    served_bytes: AtomicU64,
}

/// Not the function that warns.
impl fmt::Debug for ChunkCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChunkCache").field(&self.0.folder).finish()
    }
}

impl ChunkCache {
    /// Opens the folder, or makes it, to hold at most `most_bytes` on disk.
    ///
    /// `warn` is called at most once, from any thread: when nothing can be added any more. Errors: `Usage` for a folder that
    /// holds something else; `Unwritable` if there is none and it cannot be made.
    pub fn open(
        directory: &Path,
        most_bytes: u64,
        warn: impl Fn(String) + Send + Sync + 'static,
    ) -> Result<Self> {
        let folder = Folder::open(directory, most_bytes)?;
        let writable = folder.check_writable();
        let cache = Self(Arc::new(Shared {
            folder,
            warn: Box::new(warn),
            is_closed: AtomicBool::new(false),
            served_bytes: AtomicU64::new(0),
        }));
        if let Err(error) = writable {
            cache.close(&error);
        }
        Ok(cache)
    }

    /// Returns whether a folder is a chunk cache.
    pub fn is_at(directory: &Path) -> bool {
        folder::is_ours(directory)
    }

    /// Returns the bytes of bodies that were served so far.
    pub fn served_bytes(&self) -> u64 {
        self.0.served_bytes.load(Ordering::Relaxed)
    }

    /// Reads an entry that may be served; files are read on a thread that may wait.
    async fn load(&self, object: String, part: Part, limit: u64) -> Option<Entry> {
        let shared = Arc::clone(&self.0);
        let read = move || {
            let path = shared.folder.path(&entry::name_of(&object, part));
            entry::load(&path, &object, part, limit)
        };
        tokio::task::spawn_blocking(read).await.ok().flatten()
    }

    /// Adds an entry and waits for it: bodies do not pile up where the disk is slower than the network.
    async fn add(&self, header: Header, body: Bytes) {
        if self.0.is_closed.load(Ordering::Relaxed) {
            return;
        }
        let cache = self.clone();
        let add = move || {
            let Some(head) = entry::head_of(&header, &body) else { return };
            match cache.0.folder.add(&entry::name_of(&header.object, header.part), &head, &body) {
                Ok(Added::Yes | Added::NoRoom) => {}
                Err(error) => cache.close(&error),
            }
        };
        // a thread that panicked has added nothing
        let _ = tokio::task::spawn_blocking(add).await;
    }

    /// Adds nothing more, and says so once.
    fn close(&self, error: &std::io::Error) {
        if !self.0.is_closed.swap(true, Ordering::Relaxed) {
            let place = self.0.folder.root().display();
            (self.0.warn)(format!(
                "could not keep chunks in {place}: {error}; what it holds is used, no more is added"
            ));
        }
    }
}

/// The entries of one store.
#[derive(Debug)]
pub(super) struct CachedReads {
    cache: ChunkCache,
    /// What the URLs of all its objects begin with, without secrets.
    base: String,
    /// The server, where the URL does not name it.
    server: String,
    /// States of listed objects, by hashes of their paths.
    listed: Mutex<HashMap<u64, u64>>,
}

/// An entry that may be served.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) entry: Entry,
    /// Whether this run has listed the object in the state of the entry, so that nobody need be asked.
    pub(super) is_current: bool,
}

impl CachedReads {
    /// Returns what earlier runs kept of a store, if it is to be used.
    pub(super) fn of(scheme: Scheme, url: &url::Url, options: &StoreOptions) -> Option<Self> {
        let cache = options.chunk_cache.clone()?;
        let mut base = match scheme {
            Scheme::Http => url.clone(),
            _ => url::Url::parse(&url[..url::Position::BeforePath]).ok()?,
        };
        base.set_query(None);
        base.set_fragment(None);
        // the same names at another endpoint, or in another account, are other objects
        let names_server =
            |key: &str| ["endpoint", "account_name", "base_url"].iter().any(|name| key.contains(name));
        let servers = settings(options).filter(|(key, _)| names_server(key));
        let mut servers: Vec<String> =
            servers.map(|(_, value)| value.trim_end_matches('/').to_owned()).collect();
        if scheme == Scheme::Azure {
            // abfs://container@account
            servers.push(url.username().to_owned());
        }
        servers.retain(|server| !server.is_empty() && scheme != Scheme::Http);
        servers.sort_unstable();
        servers.dedup();
        Some(Self::new(cache, base.as_str(), &servers.join(" ")))
    }

    /// Returns the entries of the store whose objects lie below `base`, on `server` if the URL does not say.
    pub(super) fn new(cache: ChunkCache, base: &str, server: &str) -> Self {
        let base = redact(base).trim_end_matches('/').to_owned();
        Self { cache, base, server: redact(server), listed: Mutex::default() }
    }

    /// Returns the entry of an object or a part of it, with a body of at most `limit` bytes.
    pub(super) async fn find(
        &self,
        path: &ObjectPath,
        range: Option<&GetRange>,
        limit: u64,
    ) -> Option<Candidate> {
        let part = Part::of(range)?;
        let entry = self.cache.load(self.object(path), part, limit).await?;
        let Header { etag, size, modified, .. } = &entry.header;
        // parts of one object must be of one state: only the server knows that
        let is_current = part == Part::Whole
            && self.listed().get(&hash_of(path)) == Some(&state_of(etag, *size, *modified));
        Some(Candidate { entry, is_current })
    }

    /// Returns the body of an entry that turned out to be right.
    pub(super) fn serve(&self, entry: Entry) -> Bytes {
        self.cache.0.served_bytes.fetch_add(entry.body.len() as u64, Ordering::Relaxed);
        entry.body
    }

    /// Keeps what was read, if its state has a name: a weak tag may be that of other bytes.
    pub(super) async fn keep(&self, range: Option<&GetRange>, meta: &ObjectMeta, body: &Bytes) {
        let Some(part) = Part::of(range) else { return };
        let Some(etag) = meta.e_tag.clone().filter(|tag| !tag.is_empty() && !tag.starts_with("W/")) else {
            return;
        };
        let (size, modified) = (meta.size, meta.last_modified.timestamp());
        let header = Header { object: self.object(&meta.location), part, etag, size, modified };
        self.cache.add(header, body.clone()).await;
    }

    /// Remembers the state of a listed object.
    pub(super) fn saw_listed(&self, meta: &ObjectMeta) {
        let Some(etag) = &meta.e_tag else { return };
        let mut listed = self.listed();
        let (path, count) = (hash_of(&meta.location), listed.len());
        let state = state_of(etag, meta.size, meta.last_modified.timestamp());
        match listed.get_mut(&path) {
            Some(known) => *known = state,
            None if count < LISTED_MOST => {
                listed.insert(path, state);
            }
            None => {}
        }
    }

    fn object(&self, path: &ObjectPath) -> String {
        let (base, server) = (&self.base, &self.server);
        if server.is_empty() { format!("{base}/{path}") } else { format!("{base}/{path} at {server}") }
    }

    fn listed(&self) -> std::sync::MutexGuard<'_, HashMap<u64, u64>> {
        self.listed.lock().expect("no thread panics while it holds the states")
    }
}

fn hash_of(path: &ObjectPath) -> u64 {
    xxh3_64(path.as_ref().as_bytes())
}

/// Returns what differs between two states of an object. Listings of some servers give tags without their quotes.
fn state_of(etag: &str, size: u64, modified: i64) -> u64 {
    let numbers = [size, modified.cast_unsigned()].map(u64::to_le_bytes).concat();
    xxh3_64_with_seed(etag.trim_matches('"').as_bytes(), xxh3_64(&numbers))
}

#[cfg(test)]
mod tests;
