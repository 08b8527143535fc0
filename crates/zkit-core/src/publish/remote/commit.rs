//! The metadata by which readers find the copy: arrays first, groups then, the root's last.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::lock::LOCK_KEY;
use super::partial::{RemotePartial, SETTLE};
use super::start::{HEADER_KEY, PUBLISHING_KEY};
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::Json;
use crate::store::{Conditional, RemoteStore};

/// What is written before the first document: by it the next run tells how far a publication came.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Publishing {
    /// All documents, in the order in which they are written.
    pub(super) keys: Vec<String>,
    /// The last one's digest.
    pub(super) last_xxh3: u64,
}

impl RemotePartial {
    /// Writes the metadata, and with its last document makes the store visible; all chunks must have arrived.
    ///
    /// Cost: a request a document, those of arrays at once. Errors: `Conflict` if another run took the lock over or
    /// published first; `Unwritable`. After an error the chunks and the journal stay, and a later run goes on with them.
    pub fn commit(&self, documents: &[(String, Json)]) -> Result<()> {
        self.writer.wait()?;
        let texts: Vec<(&str, Bytes)> =
            documents.iter().map(|(key, document)| (key.as_str(), document.to_pretty().into())).collect();
        let Some(((last_key, last), before)) = texts.split_last() else { return Ok(()) };
        self.lock.confirm()?;
        let mark = Publishing {
            keys: texts.iter().map(|(key, _)| (*key).to_owned()).collect(),
            last_xxh3: xxh3_64(last),
        };
        let mark = serde_json::to_vec(&mark).expect("strings and numbers are always JSON");
        self.beside.put_blocking(PUBLISHING_KEY, mark.into())?;
        let (nodes, root): (Vec<_>, Vec<_>) =
            before.iter().zip(documents).partition(|((key, _), _)| key.contains('/'));
        let (groups, arrays): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|((key, _), (_, document))| is_of_group(key, document));
        for documents in [arrays, groups] {
            for ((key, text), _) in documents {
                self.writer.start_put((*key).to_owned(), text.clone(), |_| ())?;
            }
            self.writer.wait()?;
        }
        for ((key, text), _) in root {
            self.store.put_blocking(key, text.clone())?;
        }
        self.lock.confirm()?;
        match self.store.create_blocking(last_key, last.clone())? {
            Conditional::Written(_) => {}
            Conditional::Refused => {
                let place = self.store.place();
                let message = format!("another run published {place} at this moment");
                return Err(Error::new(ErrorKind::Conflict, message)
                    .with_hint("look at what it made before you replace it"));
            }
        }
        self.published.store(true, Ordering::Relaxed);
        self.journal.close(SETTLE);
        clear_journal(&self.beside)
    }
}

/// Returns whether a document is that of a group; v2's attributes of groups count as those of arrays, and come first.
fn is_of_group(key: &str, document: &Json) -> bool {
    key.ends_with(".zgroup") || document.get("node_type").and_then(Json::as_str) == Some("group")
}

/// Removes a journal; its header after all that it explains, the lock never.
pub(super) fn clear_journal(beside: &RemoteStore) -> Result<()> {
    let mut keys = Vec::new();
    beside.list_while("", &mut |object| {
        if !matches!(object.key, HEADER_KEY | LOCK_KEY) {
            keys.push(object.key.to_owned());
        }
        std::ops::ControlFlow::Continue(())
    })?;
    if !keys.is_empty() {
        beside.remove_blocking(keys)?;
    }
    beside.remove_blocking(vec![HEADER_KEY.to_owned()])
}
