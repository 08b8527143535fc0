//! Scratch space: the pieces of one round of one array, and a journal of those that are there.
//!
//! It has a directory of its own: `journal`, and the pieces below `pieces`.

use std::path::Path;

use crate::cancel::Cancel;
use crate::engine::journal::{Header, Journal, check_objects};
use crate::error::{Error, ErrorKind, Result};
use crate::grid::ChunkSet;
use crate::plan::{ArrayCopy, Spill};
use crate::store::{LocalWriter, write_error};

const JOURNAL: &str = "journal";
const PIECES: &str = "pieces";

/// Scratch space of one store of a run.
#[derive(Debug, Clone, Copy)]
pub struct Scratch<'a> {
    /// A directory of its own; made, and removed, by the run.
    pub directory: &'a Path,
    /// What the run was asked.
    pub header: &'a Header,
    /// What becomes of pieces that are there.
    pub left: LeftPieces,
}

/// What becomes of the pieces that a run which died has left in scratch space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftPieces {
    /// They are removed.
    Discard,
    /// They are gone on with, if they are of the same job and as they were recorded.
    Reuse,
}

impl Scratch<'_> {
    /// Returns whether an earlier run left pieces in a directory.
    pub fn holds_pieces(directory: &Path) -> bool {
        directory.join(JOURNAL).exists()
    }

    /// Removes everything, of this run or of one that died; nobody of this run may hold its pieces.
    ///
    /// Errors: `Conflict` if another run works there; `Unwritable`.
    pub(super) fn clear(&self) -> Result<()> {
        // held until all is gone: a destination of the same name elsewhere may have the same scratch space
        let _lock = match self.lock() {
            Err(error) if error.kind() == ErrorKind::Conflict => return Err(error),
            other => other.ok(),
        };
        match std::fs::remove_dir_all(self.directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(write_error(self.directory, "remove", error))
            }
            _ => Ok(()),
        }
    }

    /// Makes room for the pieces of a round, or finds those that are there already.
    pub(super) fn begin(
        &self,
        array: &ArrayCopy,
        spill: &Spill,
        round: u64,
        jobs: usize,
        cancel: &Cancel,
    ) -> Result<Pieces> {
        let header = self.header_of(array, spill, round);
        if let Some(journal) = self.find(&header)? {
            let writer = LocalWriter::open(&self.directory.join(PIECES))?;
            let key_of = |_: u32, position: u64| {
                let mut key = String::new();
                spill.pieces.chunk_key(&spill.pieces.metadata.grid.index_at(position), &mut key);
                key
            };
            let done = check_objects(&journal, &writer, &key_of, jobs, cancel)?.done;
            return Ok(Pieces { writer, journal, done, reused: true });
        }
        self.clear()?;
        let root = self.directory.join(PIECES);
        std::fs::create_dir_all(&root).map_err(|error| write_error(&root, "create", error))?;
        let journal = Journal::create(&self.directory.join(JOURNAL), &header)?;
        Ok(Pieces { writer: LocalWriter::open(&root)?, journal, done: Vec::new(), reused: false })
    }

    /// Returns the journal of whatever pieces there are.
    fn lock(&self) -> Result<Option<Journal>> {
        Journal::find(&self.directory.join(JOURNAL)).map_err(|error| match error.kind() {
            ErrorKind::Conflict => {
                let message = format!("another run has its scratch space in {}", self.directory.display());
                Error::new(ErrorKind::Conflict, message)
                    .with_hint("wait for it, or name another directory by --scratch")
            }
            _ => error,
        })
    }

    /// Returns the journal of pieces of the same round of the same job.
    fn find(&self, header: &Header) -> Result<Option<Journal>> {
        if self.left == LeftPieces::Discard || !self.directory.join(PIECES).is_dir() {
            return Ok(None);
        }
        let Some(mut journal) = self.lock()? else { return Ok(None) };
        match journal.contents() {
            Ok(contents) => Ok(contents
                .is_some_and(|contents| contents.header.difference(header).is_none())
                .then_some(journal)),
            // pieces can be made again
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns what pieces depend on: the job, the array, how it is cut, and which part of it a round takes.
    fn header_of(&self, array: &ArrayCopy, spill: &Spill, round: u64) -> Header {
        let pieces = &spill.pieces.metadata;
        let cut = format!("{:?} in {:?}", pieces.chunk_shape(), pieces.grid.largest_chunk_shape());
        let (dimension, length) = spill.round;
        let part = format!("{round} of {}, {length} along {dimension}", spill.rounds);
        let mut header = self.header.clone();
        header.arrays.retain(|other| other.path == array.source.path);
        header.options.extend([("pieces".to_owned(), cut), ("round".to_owned(), part)]);
        header
    }
}

/// The pieces of a round.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) writer: LocalWriter,
    pub(super) journal: Journal,
    /// Pieces that are there, as the one array of their store; none in new scratch space.
    pub(super) done: Vec<ChunkSet>,
    /// Whether an earlier run began them: half-written ones may lie there.
    pub(super) reused: bool,
}
