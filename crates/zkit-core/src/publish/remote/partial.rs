//! The store that is being built in a bucket.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::commit::clear_journal;
use super::lock::Lock;
use super::start::SOURCE_CHANGED_KEY;
use crate::cancel::Cancel;
use crate::engine::{Checked, Header, ObjectContents, ObjectJournal, check_present};
use crate::error::Result;
use crate::grid::ChunkSet;
use crate::hierarchy::{ArrayNode, Hierarchy};
use crate::location::StoreUrl;
use crate::metadata::Json;
use crate::store::{RemoteStore, RemoteWriter, Store};

/// How long a run that ends early waits for what is on its way, and then for its journal.
pub(super) const SETTLE: Duration = Duration::from_secs(10);

/// A store that is being built in an object store, with its journal and its lock.
///
/// Dropped without [`Self::commit`] what was journalled stays, so that a later run can go on with it.
#[derive(Debug)]
pub struct RemotePartial {
    pub(super) url: StoreUrl,
    pub(super) store: RemoteStore,
    /// `NAME.partial.journal`, beside it.
    pub(super) beside: RemoteStore,
    pub(super) writer: RemoteWriter,
    /// Shared with the thread that keeps the lock.
    pub(super) journal: std::sync::Arc<ObjectJournal>,
    pub(super) lock: Lock,
    pub(super) header: Header,
    /// What an earlier run left, until it is checked.
    pub(super) left: Option<ObjectContents>,
    pub(super) done: Vec<ChunkSet>,
    pub(super) published: AtomicBool,
}

impl RemotePartial {
    /// Returns where objects are put.
    pub fn writer(&self) -> &RemoteWriter {
        &self.writer
    }

    /// Returns where finished objects are recorded.
    pub fn journal(&self) -> &ObjectJournal {
        &self.journal
    }

    /// Returns the journal's header: of a resumed store the one that the first run wrote.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns whether this goes on with what an earlier run left.
    pub fn is_resumed(&self) -> bool {
        self.left.is_some()
    }

    /// Returns the chunks that are done, for each array of the header; none before [`Self::check`].
    pub fn done(&self) -> &[ChunkSet] {
        &self.done
    }

    /// Compares the journal of an earlier run with what is there, see [`check_present`].
    pub fn check(&mut self, arrays: &[&ArrayNode], cancel: &Cancel) -> Result<Checked> {
        let Some(left) = &self.left else { return Ok(Checked::default()) };
        let (checked, found) = check_present(left, &self.store, arrays, cancel)?;
        self.journal.adopt(&found);
        self.done.clone_from(&checked.done);
        Ok(checked)
    }

    /// Says that the source changed while it was read: no later run goes on with what is there.
    pub fn mark_source_changed(&self) -> Result<()> {
        self.beside.put_blocking(SOURCE_CHANGED_KEY, self.header.source.clone().into())
    }

    /// Returns whether a drop leaves something for a later run.
    pub fn is_worth_resuming(&self) -> bool {
        !self.published.load(Ordering::Relaxed) && self.journal.records() > 0
    }

    /// Opens the copy as readers will see it once `documents` are written.
    pub fn open_copy(&self, documents: &[(String, Json)]) -> Hierarchy {
        Hierarchy::of_documents(&self.url, Store::Remote(self.store.clone()), documents)
    }
}

impl Drop for RemotePartial {
    fn drop(&mut self) {
        if !self.published.load(Ordering::Relaxed) {
            self.writer.settle(SETTLE);
            self.journal.flush(SETTLE);
            // nothing is on its way any more; marks of a run that took the lock over are its own
            if self.writer.has_started() && self.lock.confirm().is_ok() {
                let (store, beside) = (self.store.uncancelled(SETTLE), self.beside.uncancelled(SETTLE));
                let _ = store.give_up_uploads_blocking(&beside);
            }
            if !self.is_resumed() && !self.writer.has_started() {
                // nothing was made: the next run must not take what is there by then for ours
                let _ = clear_journal(&self.beside.uncancelled(SETTLE));
            }
        }
        self.lock.release();
    }
}
