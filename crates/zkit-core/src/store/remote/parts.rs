//! Large objects, sent in parts.
//!
//! Parts of an upload that is never ended are paid for, and no listing of objects shows them. So whoever begins one first
//! leaves a *mark* beside the store: its key and the server's name for it. The mark goes when the upload is complete or given
//! up; by those that a run which died has left, the next one gives them up. A mark that holds the label of its object stays
//! beyond that, until what the label says is written elsewhere.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::multipart::MultipartStore;
use object_store::path::Path as ObjectPath;
use object_store::{MultipartId, ObjectStore, ObjectStoreExt as _, PutOptions, PutPayload, PutResult};
use serde::{Deserialize, Serialize};

use super::{Inner, RemoteStore, labels};
use crate::error::Result;

/// Larger objects are sent in parts.
pub(super) const MULTIPART_BYTES: usize = 64 << 20;
/// A part; all but the last have the same size, as some servers ask.
const PART_BYTES: usize = 16 << 20;
/// Parts of one object that are sent at once.
const PARTS_IN_FLIGHT: usize = 4;
/// Where marks of uploads in parts lie beside a store.
pub const UPLOAD_MARKS: &str = "uploads";
/// A mark of more bytes is none of ours.
const MARK_LIMIT: u64 = 1 << 16;

/// A server that takes objects in parts.
#[derive(Clone)]
pub(super) struct PartsServer {
    pub(super) server: Arc<dyn MultipartStore>,
    pub(super) unfinished: UnfinishedParts,
}

/// What becomes of parts whose upload is given up.
#[derive(Debug, Clone)]
pub(super) enum UnfinishedParts {
    /// The server drops them.
    Dropped,
    /// They stay for a week, unless an object is written under the key, which drops them:
    /// <https://learn.microsoft.com/en-us/rest/api/storageservices/put-block#remarks>
    Kept(Arc<dyn ObjectStore>),
}

impl std::fmt::Debug for PartsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartsServer").finish_non_exhaustive()
    }
}

impl PartsServer {
    /// Gives an upload up; one that is gone, or complete, counts as given up.
    async fn give_up(&self, path: &ObjectPath, upload: &MultipartId) -> object_store::Result<()> {
        match self.server.abort_multipart(path, upload).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            other => other,
        }
    }

    /// Drops parts that the server keeps of an upload that was given up: an empty object takes their place, and goes. Nobody
    /// else may be writing the object; one that is there is complete, and stays.
    ///
    /// Not only if there is none: servers differ in whether parts alone count as an object.
    async fn drop_kept(&self, path: &ObjectPath) -> object_store::Result<()> {
        let UnfinishedParts::Kept(store) = &self.unfinished else { return Ok(()) };
        match store.head(path).await {
            Err(object_store::Error::NotFound { .. }) => {}
            other => return other.map(drop),
        }
        store.put(path, PutPayload::new()).await?;
        store.delete(path).await
    }
}

/// What the next run must know of an upload to give it up.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    /// The object's key in its store.
    key: String,
    /// The server's name for the upload.
    upload: MultipartId,
    /// What the object says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<Vec<u8>>,
}

/// The label of an object that was sent in parts, as its mark holds it. Whether they belong together its bytes must tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedUpload {
    /// The object's key in its store.
    pub key: String,
    /// What it said of itself.
    pub label: Vec<u8>,
}

impl Mark {
    /// Returns the key of the mark itself; Azure has no names for uploads.
    fn key(&self) -> String {
        let name = format!("{} {}", self.upload, self.key);
        format!("{UPLOAD_MARKS}/{:016x}", xxhash_rust::xxh3::xxh3_64(name.as_bytes()))
    }
}

impl Inner {
    /// Sends an object in parts, with a mark in `beside`; returns the key of the mark if it is left there for its label.
    pub(super) async fn put_in_parts(
        &self,
        key: &str,
        path: &ObjectPath,
        bytes: Bytes,
        label: Option<&[u8]>,
        beside: Option<&Inner>,
    ) -> object_store::Result<(PutResult, Option<String>)> {
        let Some(parts_server) = &self.parts else {
            let options = PutOptions::from(labels::attributes(label));
            return Ok((self.store.put_opts(path, bytes.into(), options).await?, None));
        };
        let server = &parts_server.server;
        let upload = server.create_multipart(path).await?;
        let mark = Mark { key: key.to_owned(), upload, label: label.map(<[u8]>::to_vec) };
        let sent = async {
            if let Some(beside) = beside {
                let text = serde_json::to_vec(&mark).expect("strings are always JSON");
                beside.store.put(&beside.key_path(&mark.key())?, text.into()).await?;
            }
            let parts = (0..bytes.len()).step_by(PART_BYTES).enumerate().map(|(number, start)| {
                let part = bytes.slice(start..bytes.len().min(start + PART_BYTES));
                server.put_part(path, &mark.upload, number, part.into())
            });
            let parts: Vec<_> =
                futures_util::stream::iter(parts).buffered(PARTS_IN_FLIGHT).try_collect().await?;
            server.complete_multipart(path, &mark.upload, parts).await
        };
        let sent = sent.await;
        if let (Ok(_), Some(_), Some(_)) = (&sent, beside, label) {
            return sent.map(|sent| (sent, Some(mark.key())));
        }
        let ended = match &sent {
            Ok(_) => true,
            // parts that are kept keep their mark: they are dropped by whoever holds the lock when nothing is on its way
            Err(_) => {
                parts_server.give_up(path, &mark.upload).await.is_ok()
                    && matches!(parts_server.unfinished, UnfinishedParts::Dropped)
            }
        };
        if let (Some(beside), true) = (beside, ended) {
            // one that stays does no harm: what it names is found to be gone
            let _ = beside.store.delete(&beside.key_path(&mark.key())?).await;
        }
        sent.map(|sent| (sent, None))
    }

    fn key_path(&self, key: &str) -> object_store::Result<ObjectPath> {
        self.path(key)
            .map_err(|error| object_store::Error::Generic { store: "zkit", source: Box::new(error) })
    }
}

impl RemoteStore {
    /// Gives up the uploads to this store that marks in `beside` name, and removes the marks, but for those of labelled objects
    /// that stand, which it returns; waits for it. Nobody may be sending any of them.
    ///
    /// Cost: a listing, and four requests for each. What a server does not let go of stays there; the other way round, an
    /// upload that is gone, or complete, is as good as given up. Errors: `Unreadable`, `Unwritable`, of the marks alone.
    pub fn give_up_uploads_blocking(&self, beside: &RemoteStore) -> Result<Vec<MarkedUpload>> {
        let mut keys = Vec::new();
        beside.list_while(UPLOAD_MARKS, &mut |object| {
            keys.push(format!("{UPLOAD_MARKS}/{}", object.key));
            ControlFlow::Continue(())
        })?;
        let (mut standing, mut ended) = (Vec::new(), Vec::new());
        let found = beside.get_many(&keys, MARK_LIMIT);
        for (mark_key, found) in keys.into_iter().zip(found) {
            let mark = found?.and_then(|bytes| serde_json::from_slice::<Mark>(&bytes).ok());
            if let (Some(mark), Some(server)) = (mark, &self.inner.parts) {
                let path = self.inner.path(&mark.key)?;
                let stands = self.wait(async {
                    if server.give_up(&path, &mark.upload).await.is_ok() {
                        let _ = server.drop_kept(&path).await;
                    }
                    Ok(mark.label.is_some() && self.inner.store.head(&path).await.is_ok())
                })?;
                if let (true, Some(label)) = (stands, mark.label) {
                    standing.push(MarkedUpload { key: mark.key, label });
                    continue;
                }
            }
            ended.push(mark_key);
        }
        if !ended.is_empty() {
            beside.remove_blocking(ended)?;
        }
        Ok(standing)
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn uploads_without_names_have_a_mark_each() {
        let mark = |key: &str| Mark { key: key.to_owned(), upload: String::new(), label: None }.key();
        assert_ne!(mark("a/0"), mark("a/1"));
    }

    #[test]
    fn parts_that_a_server_keeps_are_dropped_and_objects_are_not() {
        let memory = Arc::new(InMemory::new());
        let unfinished = UnfinishedParts::Kept(Arc::<InMemory>::clone(&memory));
        let parts = PartsServer { server: Arc::<InMemory>::clone(&memory), unfinished };
        let (begun, complete) = (ObjectPath::from("begun"), ObjectPath::from("complete"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            memory.put(&complete, "whole".into()).await.unwrap();
            for path in [&begun, &complete] {
                let upload = parts.server.create_multipart(path).await.unwrap();
                parts.give_up(path, &upload).await.unwrap();
                parts.drop_kept(path).await.unwrap();
            }
            assert!(matches!(memory.head(&begun).await, Err(object_store::Error::NotFound { .. })));
            assert_eq!(memory.get(&complete).await.unwrap().bytes().await.unwrap(), "whole");
        });
    }
}
