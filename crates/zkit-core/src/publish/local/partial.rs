//! The store that is being built.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::start::Existing;
use super::places::Places;
use crate::cancel::Cancel;
use crate::engine::{Checked, Header, Journal, check_objects};
use crate::error::Result;
use crate::grid::ChunkSet;
use crate::store::LocalWriter;

/// A store that is being built, with the journal of what is done.
///
/// Dropped without [`Self::commit`] it stays if anything was journalled, so that a later run can go on with it;
/// else it is removed.
#[derive(Debug)]
pub struct LocalPartial {
    pub(super) places: Places,
    pub(super) existing: Existing,
    pub(super) writer: LocalWriter,
    pub(super) journal: Journal,
    pub(super) header: Header,
    pub(super) done: Vec<ChunkSet>,
    pub(super) resumed: bool,
    /// Whether the journal and what it describes outlive this value, however little is done.
    pub(super) keep: AtomicBool,
}

impl LocalPartial {
    /// Returns where objects are put; a resumed store may hold unfinished ones, which are replaced.
    pub fn writer(&self) -> &LocalWriter {
        &self.writer
    }

    /// Returns where finished objects are recorded.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the journal's header: of a resumed store the one that the first run wrote, whose planned metadata
    /// is to be taken over.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns whether this goes on with what an earlier run left.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Returns the chunks that are done, for each array of the header; none before [`Self::check`].
    pub fn done(&self) -> &[ChunkSet] {
        &self.done
    }

    /// Reads back what an earlier run left, see [`check_objects`]; what holds is [`Self::done`] from then on.
    pub fn check(
        &mut self,
        key_of: &(dyn Fn(u32, u64) -> String + Sync),
        jobs: usize,
        cancel: &Cancel,
    ) -> Result<Checked> {
        let checked = check_objects(&self.journal, &self.writer, key_of, jobs, cancel)?;
        self.done.clone_from(&checked.done);
        Ok(checked)
    }

    /// Says that the source changed while it was read: no later run goes on with what is there.
    pub fn mark_source_changed(&self) -> Result<()> {
        self.journal.mark_source_changed()
    }

    /// Returns whether a drop leaves something for a later run: the user is to be told of `--resume`.
    pub fn is_worth_resuming(&self) -> bool {
        self.keep.load(Ordering::Relaxed) || self.journal.records() > 0
    }
}

impl Drop for LocalPartial {
    fn drop(&mut self) {
        if !self.is_worth_resuming() {
            // the journal last, as it says that the rest is ours; errors leave it for the next run
            let _ = std::fs::remove_dir_all(self.writer.root()).map(|()| self.journal.remove());
        }
    }
}
