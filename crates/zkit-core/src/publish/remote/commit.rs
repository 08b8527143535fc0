//! The metadata by which readers find the copy: arrays first, groups then, the root's last.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::super::record::CopyRecord;
use super::lock::{LOCK_KEY, TRUST};
use super::partial::{RemotePartial, SETTLE};
use super::start::{CLEARING_KEY, HEADER_KEY, PUBLISHING_KEY};
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
        let mut texts: Vec<(Stage, &str, Bytes)> = documents
            .iter()
            .map(|(key, document)| (Stage::of(key, document), key.as_str(), document.to_pretty().into()))
            .collect();
        texts.sort_by_key(|(stage, _, _)| *stage);
        let Some(((_, last_key, last), before)) = texts.split_last() else { return Ok(()) };
        self.lock.confirm()?;
        let mark = Publishing {
            keys: texts.iter().map(|(_, key, _)| (*key).to_owned()).collect(),
            last_xxh3: xxh3_64(last),
        };
        let mark = serde_json::to_vec(&mark).expect("strings and numbers are always JSON");
        self.beside.put_blocking(PUBLISHING_KEY, mark.into())?;
        for stage in before.chunk_by(|(one, _, _), (next, _, _)| one == next) {
            for (_, key, text) in stage {
                self.writer.start_put((*key).to_owned(), text, None, |_| ())?;
            }
            self.writer.wait()?;
        }
        self.lock.confirm()?;
        let record = CopyRecord::of(&self.header).to_bytes();
        // not after others may have taken the lock over
        match self.store.within(TRUST).create_labelled_blocking(last_key, last.clone(), &record)? {
            Conditional::Written(_) => {}
            Conditional::Refused => {
                let place = self.store.place();
                let message = format!("another run published {place} at this moment");
                return Err(Error::new(ErrorKind::Conflict, message)
                    .with_hint("look at what it made before you replace it"));
            }
        }
        if let Err(error) = self.lock.confirm() {
            if error.kind() == ErrorKind::Conflict {
                let _ = self.store.remove_own_blocking(last_key, &|found| found == &last[..]);
            }
            return Err(error);
        }
        self.published.store(true, Ordering::Relaxed);
        self.journal.close(SETTLE);
        clear_journal(&self.beside)
    }
}

/// When a document is written: those of one stage at once, and none before all of the stage before it have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Attributes,
    Arrays,
    Groups,
    RootAttributes,
    Consolidated,
    /// What readers open: there is one such document.
    Root,
}

impl Stage {
    fn of(key: &str, document: &Json) -> Self {
        let name = key.rsplit('/').next().unwrap_or(key);
        match (key.contains('/'), name) {
            (true, ".zattrs") => Self::Attributes,
            (true, _) if is_of_group(key, document) => Self::Groups,
            (true, _) => Self::Arrays,
            (false, ".zattrs") => Self::RootAttributes,
            (false, ".zmetadata") => Self::Consolidated,
            (false, _) => Self::Root,
        }
    }
}

/// Returns whether a document is that of a group.
fn is_of_group(key: &str, document: &Json) -> bool {
    key.ends_with(".zgroup") || document.get("node_type").and_then(Json::as_str) == Some("group")
}

/// Removes a journal, but for the lock: its header after its records, and the marks last, which say what is at the
/// destination.
pub(super) fn clear_journal(beside: &RemoteStore) -> Result<()> {
    let (mut records, mut header, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    beside.list_while("", &mut |object| {
        let key = object.key.to_owned();
        match object.key {
            "" | LOCK_KEY => {}
            HEADER_KEY => header.push(key),
            PUBLISHING_KEY | CLEARING_KEY => marks.push(key),
            _ => records.push(key),
        }
        ControlFlow::Continue(())
    })?;
    for keys in [records, header, marks].into_iter().filter(|keys| !keys.is_empty()) {
        beside.remove_blocking(keys)?;
    }
    Ok(())
}
