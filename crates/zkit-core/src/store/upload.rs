//! Writing objects behind a protocol: many at once, and conditionally where several runs may meet.
//!
//! An object appears whole or not at all: servers take a body only when all of it has arrived.

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::{ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion};
use tokio::sync::watch;

use super::remote::{Inner, RemoteStore};
use crate::error::{Error, ErrorKind, Result};

/// Objects that are written at once by one writer.
const PUTS_IN_FLIGHT: usize = 64;
/// Larger objects are sent in parts.
const MULTIPART_BYTES: usize = 64 << 20;
/// A part; all but the last have the same size, as some servers ask.
const PART_BYTES: usize = 16 << 20;
/// Parts of one object that are sent at once.
const PARTS_IN_FLIGHT: usize = 4;
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

/// Objects on their way to one store, bounded in number and bytes; a clone shares them.
#[derive(Debug, Clone)]
pub struct RemoteWriter {
    store: RemoteStore,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    state: Mutex<State>,
    /// Something arrived, failed, or was allowed.
    changed: Condvar,
    most_bytes: u64,
    stop: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    puts: usize,
    bytes: u64,
    failed: bool,
    failure: Option<Error>,
    /// Writes are not begun after this time.
    allowed_until: Option<Instant>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.failed = true;
        state.failure.get_or_insert(error);
        self.changed.notify_all();
    }

    fn left(&self, bytes: u64) {
        let mut state = self.lock();
        state.puts -= 1;
        state.bytes -= bytes;
        self.changed.notify_all();
    }
}

impl RemoteWriter {
    /// Returns a writer to `store` that has at most `most_bytes` on their way, or one larger object.
    pub fn new(store: RemoteStore, most_bytes: u64) -> Self {
        let gate = Gate {
            state: Mutex::default(),
            changed: Condvar::new(),
            most_bytes,
            stop: watch::channel(false).0,
        };
        Self { store, gate: Arc::new(gate) }
    }

    /// Returns the store that it writes to.
    pub fn store(&self) -> &RemoteStore {
        &self.store
    }

    /// Lets writes begin until `time`, and none after it: whoever holds a lock on the store moves it on.
    pub fn allow_until(&self, time: Instant) {
        self.gate.lock().allowed_until = Some(time);
        self.gate.changed.notify_all();
    }

    /// Ends the work of all threads that write: their next write fails with `error`.
    pub fn fail(&self, error: Error) {
        self.gate.fail(error);
    }

    /// Begins to write an object, in place of any that is there, once there is room for it.
    ///
    /// `then` is called from a network thread, with whether the object has arrived; it must not block. Do not call this
    /// from a network thread. Errors: `Unwritable` after the failure of an earlier write, which [`Self::take_failure`] tells;
    /// `Cancelled`.
    pub fn start_put(
        &self,
        key: String,
        bytes: Bytes,
        then: impl FnOnce(bool) + Send + 'static,
    ) -> Result<()> {
        let length = bytes.len() as u64;
        let mut state = self.gate.lock();
        loop {
            if state.failed {
                let message = format!("an earlier write to {} failed", self.store.place());
                return Err(Error::new(ErrorKind::Unwritable, message));
            }
            self.store.cancel.check()?;
            let allowed = state.allowed_until.is_none_or(|until| Instant::now() < until);
            let fits = state.puts == 0
                || (state.puts < PUTS_IN_FLIGHT
                    && state.bytes.saturating_add(length) <= self.gate.most_bytes);
            if allowed && fits {
                break;
            }
            let waited = self.gate.changed.wait_timeout(state, CHECK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.puts += 1;
        state.bytes += length;
        drop(state);
        self.spawn_put(key, bytes, then);
        Ok(())
    }

    /// Begins to write a small object at once, whatever else is on its way; any thread may call it.
    pub fn start_small_put(&self, key: String, bytes: Bytes, then: impl FnOnce(bool) + Send + 'static) {
        let mut state = self.gate.lock();
        state.puts += 1;
        state.bytes += bytes.len() as u64;
        drop(state);
        self.spawn_put(key, bytes, then);
    }

    fn spawn_put(&self, key: String, bytes: Bytes, then: impl FnOnce(bool) + Send + 'static) {
        let (inner, gate) = (Arc::clone(&self.store.inner), Arc::clone(&self.gate));
        let mut stop = self.gate.stop.subscribe();
        let length = bytes.len() as u64;
        self.store.runtime.spawn(async move {
            let stopped = async {
                // an error means that nobody can stop it any more
                if stop.wait_for(|stop| *stop).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let arrived = match select(pin!(inner.put(&key, bytes)), pin!(stopped)).await {
                Either::Left((Ok(()), _)) => true,
                Either::Left((Err(error), _)) => {
                    gate.fail(error);
                    false
                }
                Either::Right(_) => false,
            };
            then(arrived);
            gate.left(length);
        });
    }

    /// Waits until everything has arrived.
    ///
    /// Errors: the first failure; `Cancelled`, with some still on its way.
    pub fn wait(&self) -> Result<()> {
        let mut state = self.gate.lock();
        loop {
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            if state.puts == 0 {
                return Ok(());
            }
            self.store.cancel.check()?;
            let waited = self.gate.changed.wait_timeout(state, CHECK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for what is on its way, though the run is cancelled or has failed, and gives up the rest after `most`.
    pub fn settle(&self, most: Duration) {
        let until = Instant::now() + most;
        let mut state = self.gate.lock();
        while state.puts > 0 {
            if Instant::now() >= until {
                // watched by every write: they end within the next moment
                self.gate.stop.send_replace(true);
            }
            let waited = self.gate.changed.wait_timeout(state, CHECK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the first failure of a write, once.
    pub fn take_failure(&self) -> Option<Error> {
        self.gate.lock().failure.take()
    }
}

impl RemoteStore {
    /// Writes an object, in place of any that is there, and waits for it.
    pub fn put_blocking(&self, key: &str, bytes: Bytes) -> Result<()> {
        self.wait(self.inner.put(key, bytes))
    }

    /// Writes an object if none is there, and waits for it.
    ///
    /// An answer that is lost is made up for by reading the object: equal bytes count as written. So `bytes` should hold
    /// something that no one else writes.
    pub fn create_blocking(&self, key: &str, bytes: Bytes) -> Result<Conditional> {
        self.wait(self.inner.put_if(key, bytes, PutMode::Create))
    }

    /// Writes an object if it still is of a version, and waits for it; lost answers as in [`Self::create_blocking`].
    pub fn update_blocking(&self, key: &str, bytes: Bytes, version: &Version) -> Result<Conditional> {
        self.wait(self.inner.put_if(key, bytes, PutMode::Update(version.0.clone())))
    }

    /// Reads an object with its version and waits; `None` if it is absent.
    pub fn get_version_blocking(&self, key: &str, limit: u64) -> Result<Option<(Bytes, Version)>> {
        self.wait(self.inner.get_version(key, limit))
    }

    /// Removes objects and waits; those that are absent are passed over.
    pub fn remove_blocking(&self, keys: Vec<String>) -> Result<()> {
        self.wait(self.inner.remove(keys))
    }

    /// Removes everything below the store's prefix, and waits.
    pub fn remove_all_blocking(&self) -> Result<()> {
        let mut before = Vec::new();
        loop {
            // in parts, so that memory does not follow the number of objects
            let mut keys = Vec::new();
            self.list_while("", &mut |object| {
                keys.push(object.key.to_owned());
                if keys.len() < 10_000 {
                    std::ops::ControlFlow::Continue(())
                } else {
                    std::ops::ControlFlow::Break(())
                }
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

    /// Returns a handle whose waits do not end with the run: for what must be tidied up after it was cancelled.
    #[must_use]
    pub fn uncancelled(&self) -> Self {
        Self { cancel: crate::cancel::Cancel::default(), ..self.clone() }
    }

    /// Returns whether it can be written to at all: web servers cannot.
    pub fn is_writable(&self) -> bool {
        !self.place().starts_with("http")
    }
}

impl Inner {
    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        let path = self.path(key)?;
        let written = if bytes.len() > MULTIPART_BYTES {
            self.put_in_parts(&path, bytes).await
        } else {
            self.store.put(&path, bytes.into()).await.map(drop)
        };
        written.map_err(|error| self.write_error("write", key, &error))
    }

    async fn put_in_parts(&self, path: &object_store::path::Path, bytes: Bytes) -> object_store::Result<()> {
        let mut upload = self.store.put_multipart(path).await?;
        let starts = (0..bytes.len()).step_by(PART_BYTES);
        let parts: Vec<_> = starts
            .map(|start| upload.put_part(bytes.slice(start..bytes.len().min(start + PART_BYTES)).into()))
            .collect();
        let sent: object_store::Result<Vec<()>> =
            futures_util::stream::iter(parts).buffer_unordered(PARTS_IN_FLIGHT).try_collect().await;
        match sent {
            Ok(_) => upload.complete().await.map(drop),
            Err(error) => {
                // parts of an upload that does not end are paid for, and seen by nobody
                let _ = upload.abort().await;
                Err(error)
            }
        }
    }

    async fn put_if(&self, key: &str, bytes: Bytes, mode: PutMode) -> Result<Conditional> {
        use object_store::Error as Cause;
        let path = self.path(key)?;
        let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
        let failure = match self.store.put_opts(&path, PutPayload::from(bytes.clone()), options).await {
            Ok(result) => return Ok(Conditional::Written(Version(result.into()))),
            Err(Cause::NotImplemented { .. } | Cause::NotSupported { .. }) => {
                return self.put_if_by_looking(key, bytes, mode).await;
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
    async fn put_if_by_looking(&self, key: &str, bytes: Bytes, mode: PutMode) -> Result<Conditional> {
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
        self.put(key, bytes.clone()).await?;
        match self.get_version(key, bytes.len() as u64 + 1).await? {
            Some((found, version)) if found == bytes => Ok(Conditional::Written(version)),
            _ => Ok(Conditional::Refused),
        }
    }

    async fn get_version(&self, key: &str, limit: u64) -> Result<Option<(Bytes, Version)>> {
        let result = match self.store.get(&self.path(key)?).await {
            Ok(result) => result,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.error("read", key, &error)),
        };
        if result.meta.size > limit {
            let place = format!("`{key}` in {}", self.place);
            return Err(super::any::too_large(&place, result.meta.size, limit));
        }
        let version =
            UpdateVersion { e_tag: result.meta.e_tag.clone(), version: result.meta.version.clone() };
        let bytes = result.bytes().await.map_err(|error| self.error("read", key, &error))?;
        Ok(Some((bytes, Version(version))))
    }

    async fn remove(&self, keys: Vec<String>) -> Result<()> {
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
