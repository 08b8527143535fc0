//! Writing objects behind a protocol: many at once, and conditionally where several runs may meet.
//!
//! An object appears whole or not at all: servers take a body only when all of it has arrived.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use object_store::{ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion};
use tokio::sync::watch;

use super::arrived::Arrived;
use super::labels;
use super::parts::MULTIPART_BYTES;
use super::refusals::is_absent;
use super::{Inner, RemoteStore};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};

/// Objects that are on their way at once: at first, at least and at most; in thousandths, so that it can grow slowly.
const PUTS_AT_FIRST: u64 = 16 * ONE_PUT;
const PUTS_LEAST: u64 = 2 * ONE_PUT;
const PUTS_MOST: u64 = 64 * ONE_PUT;
const ONE_PUT: u64 = 1000;
/// A write that takes so much of the time for one request says that there are too many at once.
const SLOW_SHARE: u32 = 3;
/// Objects that are listed, and then removed, at once.
const REMOVED_AT_ONCE: usize = 1000;
/// How soon a thread that waits for room learns that the run is cancelled.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Which version of an object a conditional write expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version(UpdateVersion);

/// What became of a conditional write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conditional {
    /// The object is as it was given, in this version.
    Written(Version),
    /// Another one is there: it was made, or changed, by somebody else.
    Refused,
}

/// An object that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// How the server has it.
    pub arrived: Arrived,
    /// The mark that holds its label, where it was sent in parts: to be removed by [`RemoteWriter::start_remove_mark`] once
    /// what the label says is written elsewhere.
    pub mark: Option<String>,
}

/// Room for objects on their way, shared by all writers of a run: bounded in bytes, and in number by how fast they arrive.
#[derive(Debug, Clone)]
pub struct UploadRoom(Arc<Room>);

#[derive(Debug)]
struct Room {
    state: Mutex<Taken>,
    /// Something arrived, failed, or was allowed.
    changed: Condvar,
    most_bytes: u64,
    /// Longest time of one request.
    timeout: Duration,
}

#[derive(Debug)]
struct Taken {
    puts: u64,
    bytes: u64,
    /// Objects that may be on their way: grows while they arrive quickly, halves when they do not.
    window: u64,
    /// When what is still on its way is given up, once the run is over.
    settle_until: Option<Instant>,
}

impl UploadRoom {
    /// Returns room for `most_bytes` at once, or for one larger object; a request may take `timeout`.
    pub fn new(most_bytes: u64, timeout: Duration) -> Self {
        let taken = Taken { puts: 0, bytes: 0, window: PUTS_AT_FIRST, settle_until: None };
        Self(Arc::new(Room { state: Mutex::new(taken), changed: Condvar::new(), most_bytes, timeout }))
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changes, or for a moment.
    fn wait<'a>(&self, taken: MutexGuard<'a, Taken>) -> MutexGuard<'a, Taken> {
        self.0.changed.wait_timeout(taken, CHECK_EVERY).unwrap_or_else(PoisonError::into_inner).0
    }

    fn take(taken: &mut Taken, bytes: u64) {
        taken.puts += 1;
        taken.bytes = taken.bytes.saturating_add(bytes);
    }

    fn left(&self, bytes: u64, time: Duration) {
        let mut taken = self.lock();
        taken.puts = taken.puts.saturating_sub(1);
        taken.bytes = taken.bytes.saturating_sub(bytes);
        let slow = time > self.0.timeout / SLOW_SHARE;
        // by one for each windowful that arrives quickly; halved by one that does not
        let window = taken.window;
        let window =
            if slow { window.saturating_sub(ONE_PUT / 2) } else { window + ONE_PUT * ONE_PUT / window };
        taken.window = window.clamp(PUTS_LEAST, PUTS_MOST);
        self.0.changed.notify_all();
    }
}

/// Objects on their way to one store; a clone shares them.
#[derive(Debug, Clone)]
pub struct RemoteWriter {
    store: RemoteStore,
    room: UploadRoom,
    own: Arc<Own>,
}

/// What one writer does not share with others.
#[derive(Debug)]
struct Own {
    /// Where marks of uploads in parts go, if anybody is to find them.
    marks: Option<Arc<Inner>>,
    puts: AtomicU64,
    started: AtomicBool,
    failed: AtomicBool,
    fault: Mutex<Fault>,
    /// Writes are not begun after the first of these times, and given up after the second.
    allowed: watch::Sender<Option<(Instant, Instant)>>,
    stop: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Fault {
    kind: Option<ErrorKind>,
    error: Option<Error>,
}

impl Own {
    fn fault(&self) -> MutexGuard<'_, Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: Error) {
        let mut fault = self.fault();
        if fault.kind.is_none() {
            *fault = Fault { kind: Some(error.kind()), error: Some(error) };
        }
        self.failed.store(true, Ordering::Release);
    }
}

impl RemoteWriter {
    /// Returns a writer to `store` that shares `room` with others.
    pub fn new(store: RemoteStore, room: &UploadRoom) -> Self {
        Self::with_marks(store, room, None)
    }

    /// Returns a writer to `store` that leaves marks of what it sends in parts in `beside`, see
    /// [`RemoteStore::give_up_uploads_blocking`].
    pub fn marking(store: RemoteStore, room: &UploadRoom, beside: &RemoteStore) -> Self {
        Self::with_marks(store, room, Some(Arc::clone(&beside.inner)))
    }

    fn with_marks(store: RemoteStore, room: &UploadRoom, marks: Option<Arc<Inner>>) -> Self {
        let own = Own {
            marks,
            puts: AtomicU64::new(0),
            started: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            fault: Mutex::default(),
            allowed: watch::channel(None).0,
            stop: watch::channel(false).0,
        };
        Self { store, room: room.clone(), own: Arc::new(own) }
    }

    /// Returns the store that it writes to.
    pub fn store(&self) -> &RemoteStore {
        &self.store
    }

    /// Lets writes begin until `begin`, and be on their way until `end`: whoever holds a lock on the store moves them on.
    pub fn allow_until(&self, begin: Instant, end: Instant) {
        self.own.allowed.send_replace(Some((begin, end)));
        self.room.0.changed.notify_all();
    }

    /// Ends the work of all threads that write, and gives up what is on its way: the store is another's.
    pub fn fail(&self, error: Error) {
        self.own.fail(error);
        self.own.stop.send_replace(true);
        self.room.0.changed.notify_all();
    }

    /// Begins to write an object, in place of any that is there, once there is room for it; `bytes` is copied then. `label` goes
    /// with it, see [`RemoteStore::labels`]; a server takes none with an object in parts, whose mark holds it.
    ///
    /// `then` is called from a network thread, with the object as the server has it, or `None` if it did not arrive; it must
    /// not block. Do not call this from a network thread. Errors: that an earlier write failed, which [`Self::take_failure`] tells; `Cancelled`.
    pub fn start_put(
        &self,
        key: String,
        bytes: &[u8],
        label: Option<&[u8]>,
        then: impl FnOnce(Option<Sent>) + Send + 'static,
    ) -> Result<()> {
        let length = bytes.len() as u64;
        let mut taken = self.room.lock();
        loop {
            if self.own.failed.load(Ordering::Acquire) {
                let kind = self.own.fault().kind.unwrap_or(ErrorKind::Unwritable);
                return Err(Error::new(kind, format!("an earlier write to {} failed", self.store.place())));
            }
            self.store.cancel.check()?;
            let allowed = self.own.allowed.borrow().is_none_or(|(begin, _)| Instant::now() < begin);
            let fits = taken.puts == 0
                || (taken.puts * ONE_PUT < taken.window
                    && taken.bytes.saturating_add(length) <= self.room.0.most_bytes);
            if allowed && fits {
                break;
            }
            taken = self.room.wait(taken);
        }
        UploadRoom::take(&mut taken, length);
        drop(taken);
        self.spawn_put(key, Bytes::copy_from_slice(bytes), label.map(<[u8]>::to_vec), then);
        Ok(())
    }

    /// Begins to write a small object at once, whatever else is on its way; any thread may call it.
    pub fn start_small_put(
        &self,
        key: String,
        bytes: Bytes,
        then: impl FnOnce(Option<Sent>) + Send + 'static,
    ) {
        UploadRoom::take(&mut self.room.lock(), bytes.len() as u64);
        self.spawn_put(key, bytes, None, then);
    }

    /// Begins to remove a mark of what was sent in parts; one that stays does no harm. Any thread may call it.
    pub fn start_remove_mark(&self, key: String) {
        let (inner, own, room) = (Arc::clone(&self.store.inner), Arc::clone(&self.own), self.room.clone());
        own.puts.fetch_add(1, Ordering::AcqRel);
        self.store.runtime.spawn(async move {
            let removed = inner.remove(std::slice::from_ref(&key));
            select(pin!(removed), pin!(own.given_up())).await;
            own.puts.fetch_sub(1, Ordering::AcqRel);
            room.0.changed.notify_all();
        });
    }

    fn spawn_put(
        &self,
        key: String,
        bytes: Bytes,
        label: Option<Vec<u8>>,
        then: impl FnOnce(Option<Sent>) + Send + 'static,
    ) {
        let (inner, own, room) = (Arc::clone(&self.store.inner), Arc::clone(&self.own), self.room.clone());
        own.puts.fetch_add(1, Ordering::AcqRel);
        own.started.store(true, Ordering::Release);
        let length = bytes.len() as u64;
        self.store.runtime.spawn(async move {
            let begun = Instant::now();
            let put = inner.put(&key, bytes, label.as_deref(), own.marks.as_deref());
            let sent = match select(pin!(put), pin!(own.given_up())).await {
                Either::Left((Ok(sent), _)) => Some(sent),
                Either::Left((Err(error), _)) => {
                    own.fail(error);
                    None
                }
                Either::Right((Some(late), _)) => {
                    own.fail(late.context(format!("could not write `{key}` in {}", inner.place)));
                    None
                }
                Either::Right((None, _)) => None,
            };
            then(sent);
            own.puts.fetch_sub(1, Ordering::AcqRel);
            room.left(length, begun.elapsed());
        });
    }

    /// Waits until everything has arrived.
    ///
    /// Errors: the first failure; `Cancelled`, with some still on its way.
    pub fn wait(&self) -> Result<()> {
        let mut taken = self.room.lock();
        loop {
            if let Some(failure) = self.take_failure() {
                return Err(failure);
            }
            if self.own.puts.load(Ordering::Acquire) == 0 {
                return Ok(());
            }
            self.store.cancel.check()?;
            taken = self.room.wait(taken);
        }
    }

    /// Waits for what is on its way, though the run is cancelled or has failed, and gives up the rest after `most`: counted
    /// from the first writer that settles, if several share their room.
    pub fn settle(&self, most: Duration) {
        let mut taken = self.room.lock();
        let until = *taken.settle_until.get_or_insert_with(|| Instant::now() + most);
        while self.own.puts.load(Ordering::Acquire) > 0 {
            if Instant::now() >= until {
                // watched by every write: they end within the next moment
                self.own.stop.send_replace(true);
            }
            taken = self.room.wait(taken);
        }
    }

    /// Returns whether any write was begun.
    pub fn has_started(&self) -> bool {
        self.own.started.load(Ordering::Acquire)
    }

    /// Returns the first failure of a write, once.
    pub fn take_failure(&self) -> Option<Error> {
        self.own.fault().error.take()
    }
}

impl Own {
    /// Returns once a write is to be given up: with an error where the lock was not kept in time.
    async fn given_up(&self) -> Option<Error> {
        let (mut stop, mut allowed) = (self.stop.subscribe(), self.allowed.subscribe());
        loop {
            if *stop.borrow_and_update() {
                return None;
            }
            let end = allowed.borrow_and_update().map(|(_, end)| end);
            if end.is_some_and(|end| Instant::now() >= end) {
                return Some(Error::new(
                    ErrorKind::Unwritable,
                    "the lock could not be kept while it was on its way",
                ));
            }
            let pause =
                end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
            // errors mean that the writer is gone: then nobody moves the time on any more
            let changes = async {
                select(pin!(stop.changed()), pin!(allowed.changed())).await;
            };
            let _ = tokio::time::timeout(pause, changes).await;
        }
    }
}

impl RemoteStore {
    /// Writes an object, in place of any that is there, and waits for it.
    pub fn put_blocking(&self, key: &str, bytes: Bytes) -> Result<()> {
        self.wait(self.inner.put(key, bytes, None, None)).map(drop)
    }

    /// Writes an object if none is there, and waits for it.
    ///
    /// An answer that is lost is made up for by reading the object: equal bytes count as written. So `bytes` should hold
    /// something that no one else writes.
    pub fn create_blocking(&self, key: &str, bytes: Bytes) -> Result<Conditional> {
        self.wait(self.inner.put_if(key, (bytes, None), PutMode::Create))
    }

    /// Writes an object with a label if none is there, as [`Self::create_blocking`] does; see [`Self::labels`].
    pub fn create_labelled_blocking(&self, key: &str, bytes: Bytes, label: &[u8]) -> Result<Conditional> {
        self.wait(self.inner.put_if(key, (bytes, Some(label)), PutMode::Create))
    }

    /// Writes an object if it still is of a version, and waits for it; lost answers as in [`Self::create_blocking`].
    pub fn update_blocking(&self, key: &str, bytes: Bytes, version: &Version) -> Result<Conditional> {
        self.wait(self.inner.put_if(key, (bytes, None), PutMode::Update(version.0.clone())))
    }

    /// Reads an object with its version and waits; `None` if it is absent.
    pub fn get_version_blocking(&self, key: &str, limit: u64) -> Result<Option<(Bytes, Version)>> {
        self.wait(self.inner.get_version(key, limit))
    }

    /// Removes objects and waits; those that are absent are passed over.
    pub fn remove_blocking(&self, keys: Vec<String>) -> Result<()> {
        self.wait(self.inner.remove(&keys))
    }

    /// Removes everything below the store's prefix, and waits; `check` is asked before every thousand objects.
    pub fn remove_all_blocking(&self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut before = Vec::new();
        loop {
            check()?;
            // in parts, so that memory does not follow the number of objects
            let mut keys = Vec::new();
            self.list_while("", &mut |object| {
                // consoles mark folders by objects without a name of their own
                if !object.key.is_empty() {
                    keys.push(object.key.to_owned());
                }
                if keys.len() < REMOVED_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            if keys.is_empty() {
                return Ok(());
            }
            if keys == before {
                let message = format!("could not remove what lies below {}: it stays there", self.place());
                return Err(Error::new(ErrorKind::Unwritable, message));
            }
            before.clone_from(&keys);
            self.remove_blocking(keys)?;
        }
    }

    /// Removes an object and waits, if it holds what `is_own` says yes to.
    pub fn remove_own_blocking(&self, key: &str, is_own: &dyn Fn(&[u8]) -> bool) -> Result<()> {
        match self.get_version_blocking(key, 1 << 20)? {
            Some((bytes, _)) if is_own(&bytes) => self.remove_blocking(vec![key.to_owned()]),
            _ => Ok(()),
        }
    }

    /// Returns a handle whose waits do not end with the run, but after `patience` each: for what must be tidied up after it
    /// was cancelled.
    #[must_use]
    pub fn uncancelled(&self, patience: Duration) -> Self {
        Self { patience: Some(patience), cancel: Cancel::default(), ..self.clone() }
    }

    /// Returns a handle whose waits end after `patience` each, or with the run.
    #[must_use]
    pub fn within(&self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self.clone() }
    }

    /// Returns whether it can be written to at all: web servers cannot.
    pub fn is_writable(&self) -> bool {
        !self.place().starts_with("http")
    }
}

impl Inner {
    /// Writes an object; one that is sent in parts leaves a mark in `beside` meanwhile, and for longer if it is labelled.
    async fn put(
        &self,
        key: &str,
        bytes: Bytes,
        label: Option<&[u8]>,
        beside: Option<&Self>,
    ) -> Result<Sent> {
        let (path, length) = (self.path(key)?, bytes.len() as u64);
        let written = if bytes.len() > MULTIPART_BYTES {
            self.put_in_parts(key, &path, bytes, label, beside).await
        } else {
            let options = PutOptions::from(labels::attributes(label));
            self.store.put_opts(&path, bytes.into(), options).await.map(|written| (written, None))
        };
        let (written, mark) = written.map_err(|error| self.write_error("write", key, &error))?;
        Ok(Sent { arrived: Arrived::new(length, written.e_tag.as_deref()), mark })
    }

    async fn put_if(
        &self,
        key: &str,
        (bytes, label): (Bytes, Option<&[u8]>),
        mode: PutMode,
    ) -> Result<Conditional> {
        use object_store::Error as Cause;
        let path = self.path(key)?;
        let attributes = labels::attributes(label);
        let options = PutOptions { mode: mode.clone(), attributes, ..PutOptions::default() };
        let failure = match self.store.put_opts(&path, PutPayload::from(bytes.clone()), options).await {
            Ok(result) => return Ok(Conditional::Written(Version(result.into()))),
            Err(Cause::NotImplemented { .. } | Cause::NotSupported { .. }) => {
                return self.put_if_by_looking(key, (bytes, label), mode).await;
            }
            Err(error) => error,
        };
        // the write may have succeeded, and its answer been lost; a second try of it is then refused
        match self.get_version(key, bytes.len() as u64 + 1).await {
            Ok(Some((found, version))) if found == bytes => return Ok(Conditional::Written(version)),
            _ => {}
        }
        match failure {
            Cause::AlreadyExists { .. } | Cause::Precondition { .. } => Ok(Conditional::Refused),
            error => Err(self.write_error("write", key, &error)),
        }
    }

    /// Writes conditionally to a server that knows no conditions: looks first, and again after it.
    ///
    /// Of two runs that write at the same moment the first one finds out that it lost.
    async fn put_if_by_looking(
        &self,
        key: &str,
        (bytes, label): (Bytes, Option<&[u8]>),
        mode: PutMode,
    ) -> Result<Conditional> {
        let found = self.get_version(key, 1 << 20).await?;
        let as_expected = match (&mode, &found) {
            (PutMode::Create, found) => found.is_none(),
            (PutMode::Update(expected), Some((_, version))) => version.0 == *expected,
            (PutMode::Update(_), None) => false,
            (PutMode::Overwrite, _) => true,
        };
        if !as_expected {
            return Ok(Conditional::Refused);
        }
        self.put(key, bytes.clone(), label, None).await?;
        match self.get_version(key, bytes.len() as u64 + 1).await? {
            Some((found, version)) if found == bytes => Ok(Conditional::Written(version)),
            _ => Ok(Conditional::Refused),
        }
    }

    async fn get_version(&self, key: &str, limit: u64) -> Result<Option<(Bytes, Version)>> {
        let result = match self.store.get(&self.path(key)?).await {
            Ok(result) => result,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(self.error("read", key, &error)),
        };
        if result.meta.size > limit {
            let place = format!("`{key}` in {}", self.place);
            return Err(crate::store::any::too_large(&place, result.meta.size, limit));
        }
        let version =
            UpdateVersion { e_tag: result.meta.e_tag.clone(), version: result.meta.version.clone() };
        let bytes = result.bytes().await.map_err(|error| self.error("read", key, &error))?;
        Ok(Some((bytes, Version(version))))
    }

    async fn remove(&self, keys: &[String]) -> Result<()> {
        let paths = keys.iter().map(|key| self.path(key)).collect::<Result<Vec<_>>>()?;
        let mut removed =
            self.store.delete_stream(futures_util::stream::iter(paths.into_iter().map(Ok)).boxed());
        while let Some(one) = removed.next().await {
            match one {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(self.write_error("remove objects of", "", &error)),
            }
        }
        Ok(())
    }
}
