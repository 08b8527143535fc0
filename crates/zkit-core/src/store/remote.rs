//! Buckets, containers and web servers, through object_store.
//!
//! Async stops here: callers on plain threads wait, or hand in a callback. Never call a blocking function of this
//! module from a rayon worker; the engine fetches on its own threads and hands bytes over channels.

mod ahead;
mod arrived;
mod body;
mod chunk_cache;
mod clients;
mod cut;
mod glance;
mod guard;
mod http;
mod integrity;
mod labels;
mod listing;
mod network;
mod pages;
mod parts;
mod reads;
mod refusals;
mod upload;
mod versions;
mod window;

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use object_store::path::Path as ObjectPath;
use object_store::{GetRange, ObjectStore, ObjectStoreExt as _};
use tokio::runtime::Runtime;

pub use self::arrived::Arrived;
pub use self::chunk_cache::ChunkCache;
pub use self::integrity::StoreChecksums;
pub use self::network::{Network, NetworkLimits};
pub use self::parts::{MarkedUpload, UPLOAD_MARKS};
pub use self::upload::{Conditional, RemoteWriter, Sent, UploadRoom, Version};

use self::ahead::{Ahead, HELD_BYTES_MOST};
use self::chunk_cache::{CachedReads, Entry};
use self::clients::{Server, build};
use self::glance::Glances;
use self::http::{Connector, Patience};
use self::integrity::Covered;
use self::pages::PagesServer;
use self::parts::PartsServer;
use self::refusals::is_absent;
use self::versions::Versions;
use self::window::Window;
use super::any::{Child, ChildKind, Glance, ObjectInfo, ObjectKind, ObjectStat, StoreOptions};
use super::hosts::{Hosts, Refused};
use super::seen::{Reads, Seen, SeenLog, names_stamp};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::location::{Scheme, StoreUrl, percent_decode, redact};

/// What one read gives: the bytes, or `None` if the object is absent.
pub type FetchResult = Result<Option<Bytes>>;

/// How soon waiting requests learn that the run is cancelled.
const CANCEL_CHECK_EVERY: Duration = Duration::from_millis(100);

/// A store behind a protocol; a clone shares its connections and counters.
#[derive(Debug, Clone)]
pub struct RemoteStore {
    inner: Arc<Inner>,
    runtime: Arc<Runtime>,
    network: Network,
    cancel: Cancel,
    /// Longest wait for one answer with all its retries; else their own limits hold.
    patience: Option<Duration>,
}

/// An object of some store, or a part of one.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) store: RemoteStore,
    pub(super) key: String,
    /// Offset and length; `None` for all of it.
    pub(super) range: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn ObjectStore>,
    /// The same server, for objects in parts; web servers take none.
    parts: Option<PartsServer>,
    /// The same server, for listings; web servers have none.
    pages: Option<PagesServer>,
    prefix: ObjectPath,
    place: String,
    /// The URL up to its path: stores with the same share a client.
    base: String,
    /// How many reads are in flight, together with those of other stores of the same server.
    window: Arc<Window>,
    /// What was read, where that is remembered.
    seen: Option<Box<SeenLog>>,
    /// What earlier runs read, where that is kept; never of a store that is written.
    cached: Option<CachedReads>,
    checksums: StoreChecksums,
    covered: Covered,
    /// Of what parts were read.
    versions: Versions,
    ahead: Ahead,
    glances: Glances,
    network: Network,
}

impl RemoteStore {
    /// Prepares the client; the store is not contacted yet. Stores that are opened with the same [`Network`] share its
    /// connections.
    pub fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Self> {
        let StoreUrl::Remote { scheme, url: parsed } = url else {
            return Err(Error::new(ErrorKind::Usage, format!("{url} is not a remote store")));
        };
        let place = url.to_string();
        let failed = |error: object_store::Error| setup_error(url, &error);
        let base = parsed[..url::Position::BeforePath].to_owned();
        let network = options.network.clone();
        let window = network.window(&base);
        let connector = Connector {
            network: network.clone(),
            window: Arc::clone(&window),
            patience: Patience::of(options.timeout),
            scheme: *scheme,
            // the servers of clouds follow from the user's settings: a private one is meant
            hosts: if *scheme == Scheme::Http { options.hosts.clone() } else { Hosts::Named },
        };
        let Server { store, parts, pages } = build(*scheme, parsed, options, &connector).map_err(failed)?;
        let prefix = prefix_of(*scheme, parsed).map_err(|error| failed(error.into()))?;
        let runtime = network.runtime()?;
        let inner = Inner {
            store,
            parts,
            pages,
            prefix,
            place,
            base,
            window,
            seen: SeenLog::of(options.reads),
            cached: CachedReads::of(*scheme, parsed, options),
            checksums: options.checksums,
            covered: Covered::default(),
            versions: Versions::default(),
            ahead: Ahead::default(),
            glances: Glances::new(network.clone()),
            network: network.clone(),
        };
        let cancel = options.cancel.clone();
        Ok(Self { inner: Arc::new(inner), runtime, network, cancel, patience: None })
    }

    /// Returns what lies beside this store under its name and `suffix`: `copy.zarr` and `.partial.journal` make
    /// `copy.zarr.partial.journal`.
    ///
    /// Errors: `Usage` if the store is a whole bucket, which has no name.
    pub fn sibling(&self, suffix: &str) -> Result<Self> {
        let (prefix, place) = (self.inner.prefix.as_ref(), self.place().trim_end_matches('/'));
        if prefix.is_empty() {
            let message = format!("{place} is a whole bucket, and has no name of its own");
            return Err(Error::new(ErrorKind::Usage, message).with_hint("name a place inside of it"));
        }
        let prefix = ObjectPath::parse(format!("{prefix}{suffix}")).map_err(|error| {
            Error::new(
                ErrorKind::Usage,
                format!("{place}{suffix} is not a key that an object store can have"),
            )
            .with_source(error)
        })?;
        Ok(self.with_prefix(prefix, format!("{place}{suffix}")))
    }

    /// Returns the store at `url`, over the client of this one if it lies in the same bucket.
    pub fn open_beside(&self, url: &StoreUrl, options: &StoreOptions) -> Result<Self> {
        match url {
            StoreUrl::Remote { scheme, url: parsed }
                if *scheme != Scheme::Http && parsed[..url::Position::BeforePath] == self.inner.base =>
            {
                let prefix = prefix_of(*scheme, parsed).map_err(|error| setup_error(url, &error.into()))?;
                Ok(self.with_prefix(prefix, url.to_string()))
            }
            _ => Self::open(url, options),
        }
    }

    fn with_prefix(&self, prefix: ObjectPath, place: String) -> Self {
        Self { inner: Arc::new(self.inner.at(prefix, place)), ..self.clone() }
    }

    /// Says that something moved, where waiting is all there is to do.
    pub fn pulse(&self) {
        self.network.pulse().beat();
    }

    /// Returns where the store is, without secrets.
    pub fn place(&self) -> &str {
        &self.inner.place
    }

    /// Says whether chunks below a prefix are summed up by their codecs, see [`super::Store::cover`].
    pub(super) fn cover(&self, prefix: &str, is_summed_up: bool) {
        self.inner.covered.say(prefix, is_summed_up);
    }

    /// Waits for requests, or until the run is cancelled: time-outs and retries may take minutes.
    fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let cancelled = async {
            let begun = Instant::now();
            loop {
                self.cancel.check()?;
                if self.patience.is_some_and(|patience| begun.elapsed() > patience) {
                    let message = format!("{} did not answer in time", self.place());
                    return Err(Error::new(ErrorKind::Unreadable, message));
                }
                tokio::time::sleep(CANCEL_CHECK_EVERY).await;
            }
        };
        self.runtime.block_on(async {
            match select(pin!(work), pin!(cancelled)).await {
                Either::Left((result, _)) | Either::Right((result, _)) => result,
            }
        })
    }

    /// Returns what was read so far, if it is remembered.
    pub(super) fn seen(&self) -> Option<&SeenLog> {
        self.inner.seen.as_deref()
    }

    /// Returns what stands at keys now, several asked for at once; keys of folders end in a slash.
    pub(super) fn see_many(&self, keys: &[&str]) -> Result<Vec<Seen>> {
        self.wait_for_all(keys.iter().map(|key| self.inner.see(key))).into_iter().collect()
    }

    /// Returns what stands at keys now, several asked for at once, and holds what is fetched of it, see [`Glance`].
    pub(super) fn glance_many(&self, keys: &[&str], glance: Glance) -> Result<Vec<Seen>> {
        self.wait_for_all(keys.iter().map(|key| self.inner.glance(key, glance))).into_iter().collect()
    }

    /// Starts reading an object and calls `done` from a network thread; `done` must not block.
    pub fn start_get(&self, key: String, limit: u64, done: impl FnOnce(FetchResult) + Send + 'static) {
        let inner = Arc::clone(&self.inner);
        self.runtime.spawn(async move { done(inner.get(&key, limit).await) });
    }

    /// Reads an object and waits for it.
    pub fn get_blocking(&self, key: &str, limit: u64) -> FetchResult {
        self.wait(self.inner.get(key, limit))
    }

    /// Reads a range into `buffer` and waits; returns the object's size, or `None` if it is absent.
    pub fn get_range_blocking(
        &self,
        key: &str,
        offset: u64,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        buffer.clear();
        if length == 0 {
            return self.wait(self.inner.size(key));
        }
        let range = GetRange::Bounded(offset..offset.saturating_add(length));
        self.wait(self.inner.get_range(key, range, length, buffer))
    }

    /// Reads the end of an object into `buffer` and waits; returns its size, or `None` if it is absent.
    pub fn get_suffix_blocking(&self, key: &str, length: u64, buffer: &mut Vec<u8>) -> Result<Option<u64>> {
        buffer.clear();
        self.wait(async {
            match self.inner.get_range(key, GetRange::Suffix(length), length, buffer).await {
                // Azure has no suffix ranges: ask for the size, then for the range
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    let Some(size) = self.inner.size(key).await? else { return Ok(None) };
                    let range = GetRange::Bounded(size.saturating_sub(length)..size);
                    self.inner.get_range(key, range, length, buffer).await
                }
                other => other,
            }
        })
    }

    /// Reads many small objects, as many at once as the window lets through; results are in the order of `keys`.
    pub fn get_many(&self, keys: &[String], limit: u64) -> Vec<FetchResult> {
        self.wait_for_all(keys.iter().map(|key| self.inner.get(key, limit)))
    }

    /// Reads pieces of objects, of stores that share the network of this one, many at once and in their order.
    pub(super) fn get_pieces(&self, pieces: &[Piece], limit: u64) -> Vec<FetchResult> {
        self.wait_for_all(pieces.iter().map(|piece| piece.store.inner.get_piece(piece, limit)))
    }

    /// Waits for reads, as many at once as there may be; results are in their order.
    fn wait_for_all<T>(
        &self,
        reads: impl ExactSizeIterator<Item = impl Future<Output = Result<T>>>,
    ) -> Vec<Result<T>> {
        let count = reads.len();
        // one that is slow does not hold up those behind it
        let numbered = reads.enumerate().map(|(at, read)| async move { (at, read.await) });
        let reads = futures_util::stream::iter(numbered).buffer_unordered(self.reads_in_flight());
        match self.wait(async { Ok(reads.collect::<Vec<_>>().await) }) {
            Ok(mut results) => {
                results.sort_unstable_by_key(|(at, _)| *at);
                results.into_iter().map(|(_, result)| result).collect()
            }
            Err(error) => (0..count).map(|_| Err(error.again())).collect(),
        }
    }

    /// Returns how many reads are on their way at most: what one caller begins before its first is done.
    pub(super) fn reads_in_flight(&self) -> usize {
        self.network.connections()
    }

    /// Lists the first objects, and goes on from there when the whole store is listed; see [`super::Store::list_ahead`].
    pub(super) fn list_ahead(&self) -> Result<()> {
        // what is remembered must have been asked for by itself
        if !self.is_listable() || self.inner.seen.is_some() {
            return Ok(());
        }
        self.wait(self.inner.list_ahead())
    }

    /// Reads the objects whose keys `wanted` takes; see [`super::Store::read_ahead`].
    pub(super) fn read_ahead(&self, wanted: &dyn Fn(&str) -> bool) {
        let Some(outline) = self.inner.ahead.whole() else { return };
        let keys = outline.unread(wanted);
        let fetched = self.get_many(&keys, HELD_BYTES_MOST);
        outline.hold(keys, fetched);
    }

    /// Calls `visit` for the objects below `prefix` until it breaks off.
    pub fn list_while(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.list_cut(prefix, &[], visit)
    }

    /// Calls `visit` for the objects below `prefix` until it breaks off; where there are many, what lies between `cuts`, keys below
    /// it, is listed side by side.
    pub(super) fn list_cut(
        &self,
        prefix: &str,
        cuts: &[&str],
        visit: &mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.check_listable()?;
        let path = self.inner.path(prefix)?;
        self.wait(self.inner.list_while((prefix, &path), cuts, &mut |key, object| {
            if let Some(cached) = &self.inner.cached {
                cached.saw_listed(object);
            }
            visit(ObjectInfo {
                key,
                size: object.size,
                kind: ObjectKind::Regular,
                stamp: stamp_of(object),
                changed: Some(object.last_modified.timestamp()),
                locked: false,
            })
        }))
    }

    /// Returns the entries directly below `prefix`, sorted by name.
    pub fn children(&self, prefix: &str) -> Result<Vec<Child>> {
        self.check_listable()?;
        self.wait(self.inner.children(prefix))
    }

    /// Returns the entries directly below each prefix, sorted by name, several asked for at once.
    pub fn children_many(&self, prefixes: &[&str]) -> Vec<Result<Vec<Child>>> {
        if let Err(error) = self.check_listable() {
            return prefixes.iter().map(|_| Err(error.again())).collect();
        }
        self.wait_for_all(prefixes.iter().map(|prefix| self.inner.children(prefix)))
    }

    /// Returns whether it can be listed: few web servers speak WebDAV, and asking the others takes seconds of retries.
    pub(super) fn is_listable(&self) -> bool {
        !self.place().starts_with("http")
    }

    fn check_listable(&self) -> Result<()> {
        if !self.is_listable() {
            let message = format!("could not list {}: web servers have no listing", self.place());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }
}

impl Inner {
    /// Returns another store of the same server, of which nothing was read yet.
    fn at(&self, prefix: ObjectPath, place: String) -> Self {
        Self {
            store: Arc::clone(&self.store),
            parts: self.parts.clone(),
            pages: self.pages.clone(),
            prefix,
            place,
            base: self.base.clone(),
            window: Arc::clone(&self.window),
            seen: SeenLog::of(if self.seen.is_some() { Reads::Kept } else { Reads::Forgotten }),
            cached: None,
            checksums: self.checksums,
            covered: Covered::default(),
            versions: Versions::default(),
            ahead: Ahead::default(),
            glances: Glances::new(self.network.clone()),
            network: self.network.clone(),
        }
    }

    fn path(&self, key: &str) -> Result<ObjectPath> {
        let text = format!("{}/{key}", self.prefix);
        ObjectPath::parse(text.trim_matches('/')).map_err(|error| {
            Error::new(ErrorKind::Unreadable, format!("`{key}` is not a key that an object store can have"))
                .with_source(error)
        })
    }

    async fn children(&self, prefix: &str) -> Result<Vec<Child>> {
        if let Some(outline) = self.ahead.whole() {
            return Ok(outline.children(prefix));
        }
        let path = self.path(prefix)?;
        let _permit = self.window.enter().await;
        let listed = self.listed(&path).await.map_err(|error| self.error("list", prefix, &error))?;
        if let Some(log) = &self.seen {
            log.add(&format!("{prefix}/"), Seen::Folder(listing_stamp(&listed)));
        }
        let name_of = |path: &ObjectPath| path.filename().map(str::to_owned);
        let directories = listed
            .common_prefixes
            .iter()
            .filter_map(name_of)
            .map(|name| Child { name, kind: ChildKind::Directory });
        let objects = listed.objects.iter().filter_map(|object| name_of(&object.location));
        let objects = objects.map(|name| Child { name, kind: ChildKind::Object(ObjectKind::Regular) });
        let mut children: Vec<Child> = directories.chain(objects).collect();
        children.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(children)
    }

    fn saw(&self, key: &str, meta: &object_store::ObjectMeta) {
        if let Some(log) = &self.seen {
            log.add(key, Seen::Object(stat_of(meta)));
        }
    }

    fn saw_nothing<T>(&self, key: &str) -> Option<T> {
        if let Some(log) = &self.seen {
            log.add(key, Seen::Absent);
        }
        None
    }

    /// Returns what stands at a key now.
    async fn see(&self, key: &str) -> Result<Seen> {
        let _permit = self.window.enter().await;
        if let Some(prefix) = key.strip_suffix('/') {
            let listed = self.listed(&self.path(prefix)?).await;
            let listed = listed.map_err(|error| self.error("list", prefix, &error))?;
            return Ok(Seen::Folder(listing_stamp(&listed)));
        }
        match self.store.head(&self.path(key)?).await {
            Ok(meta) => Ok(Seen::Object(stat_of(&meta))),
            Err(error) if is_absent(&error) => Ok(Seen::Absent),
            Err(error) => Err(self.error("look at", key, &error)),
        }
    }

    /// Returns what a failed request means; secrets that object_store's messages carry are removed.
    fn error(&self, doing: &str, key: &str, error: &object_store::Error) -> Error {
        use object_store::Error as Cause;
        let (kind, hint) = match error {
            error if is_absent(error) => (ErrorKind::Absent, None),
            Cause::NotImplemented { .. } | Cause::NotSupported { .. } => (ErrorKind::Unsupported, None),
            Cause::PermissionDenied { .. } | Cause::Unauthenticated { .. } => (
                ErrorKind::Unreadable,
                Some(
                    "check the credentials, or pass --anonymous for a public bucket, or --storage-option request_payer=true if its readers pay",
                ),
            ),
            _ => (ErrorKind::Unreadable, None),
        };
        self.error_of(kind, hint, doing, key, error)
    }

    /// Returns what a failed request to write means.
    fn write_error(&self, doing: &str, key: &str, error: &object_store::Error) -> Error {
        use object_store::Error as Cause;
        let hint = match error {
            Cause::NotFound { .. } => Some("check that the bucket exists"),
            Cause::PermissionDenied { .. } | Cause::Unauthenticated { .. } => {
                Some("check the credentials, and that they may write to this bucket")
            }
            _ => None,
        };
        self.error_of(ErrorKind::Unwritable, hint, doing, key, error)
    }

    fn error_of(
        &self,
        kind: ErrorKind,
        hint: Option<&str>,
        doing: &str,
        key: &str,
        error: &object_store::Error,
    ) -> Error {
        let what = if key.is_empty() { self.place.clone() } else { format!("`{key}` in {}", self.place) };
        let made = Error::new(kind, format!("could not {doing} {what}")).with_source(Redacted::from(error));
        let refused = guard::refused(error).and_then(Refused::hint);
        let explained = || refusals::hint(&error.to_string());
        match refused.or_else(explained).or_else(|| hint.map(str::to_owned)) {
            Some(hint) => made.with_hint(hint),
            None => made,
        }
    }
}

fn stat_of(meta: &object_store::ObjectMeta) -> ObjectStat {
    ObjectStat { size: meta.size, stamp: stamp_of(meta) }
}

fn stat_of_entry(entry: &Entry) -> ObjectStat {
    let header = &entry.header;
    ObjectStat { size: header.size, stamp: stamp(Some(&header.etag), header.modified) }
}

/// Returns what changes when an object is rewritten.
fn stamp_of(meta: &object_store::ObjectMeta) -> u64 {
    // listings may tell the time more finely than answers to reads, whose header holds whole seconds
    stamp(meta.e_tag.as_deref(), meta.last_modified.timestamp())
}

fn stamp(tag: Option<&str>, changed: i64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(tag.unwrap_or_default().as_bytes(), changed.cast_unsigned())
}

fn listing_stamp(listed: &object_store::ListResult) -> u64 {
    let folders = listed.common_prefixes.iter();
    let mut names: Vec<&str> = folders
        .chain(listed.objects.iter().map(|object| &object.location))
        .filter_map(ObjectPath::filename)
        .collect();
    names.sort_unstable();
    names_stamp(names.into_iter())
}

/// The text of a foreign error, without the secrets of its URLs.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Redacted(String);

impl From<&object_store::Error> for Redacted {
    fn from(error: &object_store::Error) -> Self {
        let text = redact(&error.to_string());
        // servers answer with whole pages; the beginning says what matters
        let mut short: String = text.chars().take(600).collect();
        if short.len() < text.len() {
            short.push_str(" ...");
        }
        Self(short)
    }
}

fn setup_error(url: &StoreUrl, error: &object_store::Error) -> Error {
    let message = format!("could not set up access to {url}");
    Error::new(ErrorKind::Usage, message).with_source(Redacted::from(error))
}

/// Returns what all keys of a store begin with.
fn prefix_of(scheme: Scheme, url: &url::Url) -> Result<ObjectPath, object_store::path::Error> {
    // the path of an http store is part of its base address
    let path = if scheme == Scheme::Http { "" } else { url.path() };
    ObjectPath::parse(percent_decode(path.trim_matches('/')))
}
