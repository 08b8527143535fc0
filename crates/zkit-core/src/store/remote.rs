//! Buckets, containers and web servers, through object_store.
//!
//! Async stops here: callers on plain threads wait, or hand in a callback. Never call a blocking function of this
//! module from a rayon worker; the engine fetches on its own threads and hands bytes over channels.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path as ObjectPath;
use object_store::{
    ClientConfigKey, ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, RetryConfig,
};
use tokio::runtime::Runtime;

use super::any::{Child, ChildKind, ObjectInfo, ObjectKind, ObjectStat, StoreOptions, too_large};
use super::http::CountingConnector;
use super::parts::PartsServer;
use super::refusals::{self, is_absent};
use super::seen::{Reads, Seen, SeenLog, names_stamp};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::location::{Scheme, StoreUrl, percent_decode, redact};

/// What one read gives: the bytes, or `None` if the object is absent.
pub type FetchResult = Result<Option<Bytes>>;

/// How soon waiting requests learn that the run is cancelled.
const CANCEL_CHECK_EVERY: Duration = Duration::from_millis(100);
/// Tries of one request beside the first, at pauses that double up to 15 seconds.
const MAX_RETRIES: usize = 8;
/// Small objects that are read at once.
const SMALL_READS_IN_FLIGHT: usize = 64;

/// A store behind a protocol; a clone shares its connections and counters.
#[derive(Debug, Clone)]
pub struct RemoteStore {
    pub(super) inner: Arc<Inner>,
    pub(super) runtime: Arc<Runtime>,
    pub(super) connector: CountingConnector,
    pub(super) cancel: Cancel,
    /// Longest wait for one answer with all its retries; else their own limits hold.
    pub(super) patience: Option<Duration>,
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
pub(super) struct Inner {
    pub(super) store: Arc<dyn ObjectStore>,
    /// The same server, for objects in parts; web servers take none.
    pub(super) parts: Option<PartsServer>,
    prefix: ObjectPath,
    pub(super) place: String,
    /// The URL up to its path: stores with the same share their connections.
    base: String,
    /// What was read, where that is remembered.
    seen: Option<Box<SeenLog>>,
}

impl RemoteStore {
    /// Prepares the client; the store is not contacted yet.
    pub fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Self> {
        let connector = CountingConnector::new(options.max_requests_per_second, options.pulse.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("zkit-remote")
            .enable_all()
            .build()
            .map_err(|error| {
                Error::new(ErrorKind::Unreadable, "could not start the network threads").with_source(error)
            })?;
        Self::assemble(url, options, connector, Arc::new(runtime))
    }

    /// Prepares the client of another store, on the threads of this one: its requests are counted and spaced with those
    /// of this one.
    pub(super) fn open_other(&self, url: &StoreUrl, options: &StoreOptions) -> Result<Self> {
        Self::assemble(url, options, self.connector.clone(), Arc::clone(&self.runtime))
    }

    fn assemble(
        url: &StoreUrl,
        options: &StoreOptions,
        connector: CountingConnector,
        runtime: Arc<Runtime>,
    ) -> Result<Self> {
        let StoreUrl::Remote { scheme, url: parsed } = url else {
            return Err(Error::new(ErrorKind::Usage, format!("{url} is not a remote store")));
        };
        let place = url.to_string();
        let failed = |error: object_store::Error| setup_error(url, &error);
        let (store, parts) = build(*scheme, parsed, options, &connector).map_err(failed)?;
        let prefix = prefix_of(*scheme, parsed).map_err(|error| failed(error.into()))?;
        let base = parsed[..url::Position::BeforePath].to_owned();
        let cancel = options.cancel.clone();
        Ok(Self {
            inner: Arc::new(Inner { store, parts, prefix, place, base, seen: SeenLog::of(options.reads) }),
            runtime,
            connector,
            cancel,
            patience: None,
        })
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

    /// Returns the store at `url`, over the connections of this one if it lies in the same bucket.
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
        let (store, parts) = (Arc::clone(&self.inner.store), self.inner.parts.clone());
        let base = self.inner.base.clone();
        let seen = SeenLog::of(if self.inner.seen.is_some() { Reads::Kept } else { Reads::Forgotten });
        Self { inner: Arc::new(Inner { store, parts, prefix, place, base, seen }), ..self.clone() }
    }

    /// Says that something moved, where waiting is all there is to do.
    pub fn pulse(&self) {
        self.connector.pulse().beat();
    }

    /// Returns where the store is, without secrets.
    pub fn place(&self) -> &str {
        &self.inner.place
    }

    /// Returns how many requests were sent, and how many of them failed and were tried again.
    pub fn requests(&self) -> (u64, u64) {
        (self.connector.requests(), self.connector.failures())
    }

    /// Waits for requests, or until the run is cancelled: time-outs and retries may take minutes.
    pub(super) fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
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
        let asked = keys.iter().map(|key| self.inner.see(key));
        let asked = futures_util::stream::iter(asked).buffered(SMALL_READS_IN_FLIGHT);
        self.wait(asked.try_collect::<Vec<_>>())
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

    /// Reads many small objects, several at once; results are in the order of `keys`.
    pub fn get_many(&self, keys: &[String], limit: u64) -> Vec<FetchResult> {
        let reads = keys.iter().map(|key| self.inner.get(key, limit));
        let reads = futures_util::stream::iter(reads).buffered(SMALL_READS_IN_FLIGHT).collect::<Vec<_>>();
        match self.wait(async { Ok(reads.await) }) {
            Ok(results) => results,
            Err(_) => keys.iter().map(|_| self.cancel.check().map(|()| None)).collect(),
        }
    }

    /// Reads pieces of objects, of stores that share the threads of this one, several at once and in their order.
    pub(super) fn get_pieces(&self, pieces: &[Piece], limit: u64) -> Vec<FetchResult> {
        let reads = pieces.iter().map(|piece| piece.store.inner.get_piece(piece, limit));
        let reads = futures_util::stream::iter(reads).buffered(SMALL_READS_IN_FLIGHT).collect::<Vec<_>>();
        match self.wait(async { Ok(reads.await) }) {
            Ok(results) => results,
            Err(_) => pieces.iter().map(|_| self.cancel.check().map(|()| None)).collect(),
        }
    }

    /// Calls `visit` for the objects below `prefix` until it breaks off.
    pub fn list_while(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.check_listable()?;
        let path = self.inner.path(prefix)?;
        self.wait(async {
            let mut objects = self.inner.store.list(Some(&path));
            while let Some(object) =
                objects.try_next().await.map_err(|error| self.inner.error("list", prefix, &error))?
            {
                let key =
                    object.location.as_ref().strip_prefix(path.as_ref()).unwrap_or(object.location.as_ref());
                let object = ObjectInfo {
                    key: key.trim_start_matches('/'),
                    size: object.size,
                    kind: ObjectKind::Regular,
                    stamp: stamp_of(&object),
                    changed: Some(object.last_modified.timestamp()),
                    locked: false,
                };
                if visit(object).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Returns the entries directly below `prefix`, sorted by name.
    pub fn children(&self, prefix: &str) -> Result<Vec<Child>> {
        self.check_listable()?;
        let path = self.inner.path(prefix)?;
        let listed = self.wait(async {
            let listed = self.inner.store.list_with_delimiter(Some(&path)).await;
            listed.map_err(|error| self.inner.error("list", prefix, &error))
        })?;
        if let Some(log) = &self.inner.seen {
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

    /// Refuses to list a web server: few speak WebDAV, and asking the others takes seconds of retries.
    fn check_listable(&self) -> Result<()> {
        if self.place().starts_with("http") {
            let message = format!("could not list {}: web servers have no listing", self.place());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }
}

impl Inner {
    pub(super) fn path(&self, key: &str) -> Result<ObjectPath> {
        let text = format!("{}/{key}", self.prefix);
        ObjectPath::parse(text.trim_matches('/')).map_err(|error| {
            Error::new(ErrorKind::Unreadable, format!("`{key}` is not a key that an object store can have"))
                .with_source(error)
        })
    }

    async fn get(&self, key: &str, limit: u64) -> FetchResult {
        let path = self.path(key)?;
        let result = match self.store.get(&path).await {
            Ok(result) => result,
            Err(error) if is_absent(&error) => return Ok(self.saw_nothing(key)),
            Err(error) => return Err(self.error("read", key, &error)),
        };
        self.saw(key, &result.meta);
        if result.meta.size > limit {
            return Err(too_large(&format!("`{key}` in {}", self.place), result.meta.size, limit));
        }
        result.bytes().await.map(Some).map_err(|error| self.error("read", key, &error))
    }

    /// Reads a part of an object, or all of it; fewer bytes than asked for where it ends before them.
    async fn get_piece(&self, piece: &Piece, limit: u64) -> FetchResult {
        let Some((offset, length)) = piece.range else { return self.get(&piece.key, limit).await };
        if length > limit {
            return Err(too_large(&format!("`{}` in {}", piece.key, self.place), length, limit));
        }
        if length == 0 {
            return Ok(Some(Bytes::new()));
        }
        let mut buffer = Vec::new();
        let range = GetRange::Bounded(offset..offset.saturating_add(length));
        let size = self.get_range(&piece.key, range, length, &mut buffer).await?;
        Ok(size.map(|_| buffer.into()))
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        match self.store.head(&self.path(key)?).await {
            Ok(meta) => {
                self.saw(key, &meta);
                Ok(Some(meta.size))
            }
            Err(error) if is_absent(&error) => Ok(self.saw_nothing(key)),
            Err(error) => Err(self.error("read", key, &error)),
        }
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
        if let Some(prefix) = key.strip_suffix('/') {
            let listed = self.store.list_with_delimiter(Some(&self.path(prefix)?)).await;
            let listed = listed.map_err(|error| self.error("list", prefix, &error))?;
            return Ok(Seen::Folder(listing_stamp(&listed)));
        }
        match self.store.head(&self.path(key)?).await {
            Ok(meta) => Ok(Seen::Object(stat_of(&meta))),
            Err(error) if is_absent(&error) => Ok(Seen::Absent),
            Err(error) => Err(self.error("look at", key, &error)),
        }
    }

    async fn get_range(
        &self,
        key: &str,
        range: GetRange,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        let path = self.path(key)?;
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        let result = match self.store.get_opts(&path, options).await {
            Ok(result) => result,
            Err(error) if is_absent(&error) => return Ok(self.saw_nothing(key)),
            Err(error) => return Err(self.error("read a part of", key, &error)),
        };
        self.saw(key, &result.meta);
        let size = result.meta.size;
        if result.range.end - result.range.start > length {
            let message =
                format!("could not read a part of `{key}` in {}: the server ignores ranges", self.place);
            return Err(Error::new(ErrorKind::Unreadable, message));
        }
        let bytes = result.bytes().await.map_err(|error| self.error("read a part of", key, &error))?;
        buffer.extend_from_slice(&bytes);
        Ok(Some(size))
    }

    /// Returns what a failed request means; secrets that object_store's messages carry are removed.
    pub(super) fn error(&self, doing: &str, key: &str, error: &object_store::Error) -> Error {
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
    pub(super) fn write_error(&self, doing: &str, key: &str, error: &object_store::Error) -> Error {
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
        match refusals::hint(&error.to_string()).or_else(|| hint.map(str::to_owned)) {
            Some(hint) => made.with_hint(hint),
            None => made,
        }
    }
}

fn stat_of(meta: &object_store::ObjectMeta) -> ObjectStat {
    ObjectStat { size: meta.size, stamp: stamp_of(meta) }
}

/// Returns what changes when an object is rewritten.
fn stamp_of(meta: &object_store::ObjectMeta) -> u64 {
    let tag = meta.e_tag.as_deref().unwrap_or_default().as_bytes();
    // listings may tell the time more finely than answers to reads, whose header holds whole seconds
    let changed = meta.last_modified.timestamp();
    xxhash_rust::xxh3::xxh3_64_with_seed(tag, changed.cast_unsigned())
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

fn build(
    scheme: Scheme,
    url: &url::Url,
    options: &StoreOptions,
    connector: &CountingConnector,
) -> object_store::Result<(Arc<dyn ObjectStore>, Option<PartsServer>)> {
    // a throttled server asks for patience, a wrong address for none: some twenty seconds
    let retry = RetryConfig {
        max_retries: MAX_RETRIES,
        retry_timeout: options.timeout * 3,
        ..RetryConfig::default()
    };
    let mut client = ClientOptions::new()
        .with_timeout(options.timeout)
        .with_connect_timeout(options.timeout.min(Duration::from_secs(10)));
    for (key, value) in settings(options) {
        // `AWS_ALLOW_HTTP` and its like mean the client's `allow_http`
        let plain =
            ["aws_", "google_", "azure_"].iter().find_map(|prefix| key.strip_prefix(prefix)).unwrap_or(&key);
        if let Ok(key) = plain.parse::<ClientConfigKey>() {
            client = client.with_config(key, value);
        }
        // who names an endpoint without encryption means it
        if key.contains("endpoint") && value.starts_with("http://") {
            client = client.with_allow_http(true);
        }
    }
    let base = &url[..url::Position::BeforePath];
    Ok(match scheme {
        Scheme::S3 => {
            let builder = AmazonS3Builder::new().with_url(base).with_client_options(client).with_retry(retry);
            let builder =
                builder.with_http_connector(connector.clone()).with_skip_signature(options.anonymous);
            let known = settings(options)
                .filter_map(|(key, value)| Some((key.parse::<AmazonS3ConfigKey>().ok()?, value)));
            let known = known.filter(|(key, _)| !matches!(key, AmazonS3ConfigKey::Client(_)));
            both(known.fold(builder, |builder, (key, value)| builder.with_config(key, value)).build()?)
        }
        Scheme::Gcs => {
            let builder =
                GoogleCloudStorageBuilder::new().with_url(base).with_client_options(client).with_retry(retry);
            let builder =
                builder.with_http_connector(connector.clone()).with_skip_signature(options.anonymous);
            let known = settings(options)
                .filter_map(|(key, value)| Some((key.parse::<GoogleConfigKey>().ok()?, value)));
            let known = known.filter(|(key, _)| !matches!(key, GoogleConfigKey::Client(_)));
            both(known.fold(builder, |builder, (key, value)| builder.with_config(key, value)).build()?)
        }
        Scheme::Azure => {
            let builder =
                MicrosoftAzureBuilder::new().with_url(base).with_client_options(client).with_retry(retry);
            let builder =
                builder.with_http_connector(connector.clone()).with_skip_signature(options.anonymous);
            let known = settings(options)
                .filter_map(|(key, value)| Some((key.parse::<AzureConfigKey>().ok()?, value)));
            let known = known.filter(|(key, _)| !matches!(key, AzureConfigKey::Client(_)));
            both(known.fold(builder, |builder, (key, value)| builder.with_config(key, value)).build()?)
        }
        Scheme::Http => {
            let whole = url.as_str().trim_end_matches('/');
            let client = if url.scheme() == "http" { client.with_allow_http(true) } else { client };
            let builder = HttpBuilder::new().with_url(whole).with_client_options(client).with_retry(retry);
            (Arc::new(builder.with_http_connector(connector.clone()).build()?), None)
        }
    })
}

/// Returns a client as both of what it is.
fn both<Client: ObjectStore + MultipartStore>(client: Client) -> (Arc<dyn ObjectStore>, Option<PartsServer>) {
    let client = Arc::new(client);
    (Arc::<Client>::clone(&client), Some(PartsServer(client)))
}

/// Returns the environment's settings, then the caller's, with keys in lower case as object_store parses them.
fn settings(options: &StoreOptions) -> impl Iterator<Item = (String, &str)> {
    options
        .environment
        .iter()
        .chain(&options.options)
        .map(|(key, value)| (key.to_ascii_lowercase(), value.as_str()))
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
