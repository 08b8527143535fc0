//! Reads of one object or a part of it: of one version, by a window of reads in flight, and through the chunk cache.

use bytes::Bytes;
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, GetRange, GetResult, ObjectStore as _, ObjectStoreExt as _};

use super::body::{Extent, is_another_version};
use super::chunk_cache::{Candidate, Entry};
use super::refusals::is_absent;
use super::versions::ReadVersion;
use super::window::Permit;
use super::{FetchResult, Inner, Piece, stat_of_entry};
use crate::error::{Error, ErrorKind, Result};
use crate::store::any::too_large;
use crate::store::seen::Seen;

/// What asking for an object, or a part of one, leads to.
pub(super) enum Answer {
    Absent,
    /// What an earlier run read is still right.
    Kept {
        body: Bytes,
        /// Bytes of the whole object.
        size: u64,
    },
    Body(GetResult, Permit),
}

impl Inner {
    pub(super) async fn get(&self, key: &str, limit: u64) -> FetchResult {
        if let Some(known) = self.ahead.whole().and_then(|outline| outline.get(key)) {
            return match known? {
                Some(body) if body.len() as u64 > limit => {
                    Err(too_large(&format!("`{key}` in {}", self.place), body.len() as u64, limit))
                }
                found => Ok(found),
            };
        }
        if let Some((body, size)) = self.glances.take(key, None) {
            return match size <= limit {
                true => Ok(Some(body)),
                false => Err(too_large(&format!("`{key}` in {}", self.place), size, limit)),
            };
        }
        let path = self.path(key)?;
        let (result, mut permit) = match self.ask((key, &path), None, limit).await? {
            Answer::Absent => return Ok(None),
            Answer::Kept { body, .. } => return Ok(Some(body)),
            Answer::Body(result, permit) => (result, permit),
        };
        let meta = result.meta.clone();
        if meta.size > limit {
            return Err(too_large(&format!("`{key}` in {}", self.place), meta.size, limit));
        }
        let bytes = self.body((key, &path), result, Extent::Whole, &mut permit).await?;
        drop(permit);
        self.keep(None, &meta, &bytes).await;
        Ok(Some(bytes))
    }

    /// Asks for an object or a part of it; where an earlier run has kept it, only whether that is still right. Parts of one
    /// object are of one version.
    pub(super) async fn ask(
        &self,
        (key, path): (&str, &ObjectPath),
        range: Option<&GetRange>,
        limit: u64,
    ) -> Result<Answer> {
        let version = range.and_then(|_| self.versions.of(key));
        let kept = match &self.cached {
            Some(cached) => cached.find(path, range, limit).await,
            None => None,
        };
        let kept =
            kept.filter(|kept| version.as_ref().is_none_or(|version| *version == kept.entry.version()));
        if let Some(Candidate { entry, is_current: true }) = kept {
            return Ok(self.serve(key, entry));
        }
        let condition = |kept: Option<&Candidate>| GetOptions {
            range: range.cloned(),
            if_none_match: kept.map(|kept| kept.entry.header.etag.clone()),
            // an object that is another one than was kept and begun is told by its version below
            if_match: version.as_ref().filter(|_| kept.is_none()).and_then(ReadVersion::condition),
            ..GetOptions::default()
        };
        let mut permit = self.window.enter().await;
        let mut asked = self.store.get_opts(path, condition(kept.as_ref())).await;
        let is_unchanged = matches!(asked, Err(object_store::Error::NotModified { .. }));
        if let Some(kept) = kept.filter(|_| is_unchanged) {
            drop(permit);
            if self.is_seen_as(key, &kept.entry).await? {
                return match range.is_none() || self.versions.agrees(key, kept.entry.version()) {
                    true => Ok(self.serve(key, kept.entry)),
                    false => Err(self.changed(key)),
                };
            }
            permit = self.window.enter().await;
            asked = self.store.get_opts(path, condition(None)).await;
        }
        match asked {
            Ok(result) => {
                self.saw(key, &result.meta);
                match range.is_none() || self.versions.agrees(key, ReadVersion::of(&result.meta)) {
                    true => Ok(Answer::Body(result, permit)),
                    false => Err(self.changed(key)),
                }
            }
            Err(error) if is_absent(&error) => {
                self.saw_nothing::<()>(key);
                Ok(Answer::Absent)
            }
            Err(error) if is_another_version(&error) => Err(self.changed(key)),
            Err(error) => {
                let extent = if range.is_none() { Extent::Whole } else { Extent::Part };
                Err(self.error(extent.doing(), key, &error))
            }
        }
    }

    /// Returns whether what was kept can stand for the object where its state is remembered: an object may be written again with
    /// the same bytes, which changes its time alone.
    async fn is_seen_as(&self, key: &str, entry: &Entry) -> Result<bool> {
        Ok(self.seen.is_none() || self.see(key).await? == Seen::Object(stat_of_entry(entry)))
    }

    fn serve(&self, key: &str, entry: Entry) -> Answer {
        if let Some(log) = &self.seen {
            log.add(key, Seen::Object(stat_of_entry(&entry)));
        }
        let size = entry.header.size;
        let body = self.cached.as_ref().map_or_else(Bytes::new, |cached| cached.serve(entry));
        Answer::Kept { body, size }
    }

    /// Keeps what was read for the next run.
    async fn keep(&self, range: Option<&GetRange>, meta: &object_store::ObjectMeta, body: &Bytes) {
        if let Some(cached) = &self.cached {
            cached.keep(range, meta, body).await;
        }
    }

    /// Reads a part of an object, or all of it; fewer bytes than asked for where it ends before them.
    pub(super) async fn get_piece(&self, piece: &Piece, limit: u64) -> FetchResult {
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

    pub(super) async fn size(&self, key: &str) -> Result<Option<u64>> {
        let path = self.path(key)?;
        let _permit = self.window.enter().await;
        match self.store.head(&path).await {
            Ok(meta) => {
                self.saw(key, &meta);
                match self.versions.agrees(key, ReadVersion::of(&meta)) {
                    true => Ok(Some(meta.size)),
                    false => Err(self.changed(key)),
                }
            }
            Err(error) if is_absent(&error) => Ok(self.saw_nothing(key)),
            Err(error) => Err(self.error("read", key, &error)),
        }
    }

    pub(super) async fn get_range(
        &self,
        key: &str,
        range: GetRange,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        if let Some((body, size)) = self.glances.take(key, Some(&range)) {
            buffer.extend_from_slice(&body);
            return Ok(Some(size));
        }
        let path = self.path(key)?;
        let (result, mut permit) = match self.ask((key, &path), Some(&range), length).await? {
            Answer::Absent => return Ok(None),
            Answer::Kept { body, size } => {
                buffer.extend_from_slice(&body);
                return Ok(Some(size));
            }
            Answer::Body(result, permit) => (result, permit),
        };
        let meta = result.meta.clone();
        if result.range.end - result.range.start > length {
            let message =
                format!("could not read a part of `{key}` in {}: the server ignores ranges", self.place);
            return Err(Error::new(ErrorKind::Unreadable, message));
        }
        let bytes = self.body((key, &path), result, Extent::Part, &mut permit).await?;
        drop(permit);
        self.keep(Some(&range), &meta, &bytes).await;
        buffer.extend_from_slice(&bytes);
        Ok(Some(meta.size))
    }
}
