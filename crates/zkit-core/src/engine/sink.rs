//! Where the chunks of a copy go, and are recorded.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::copy::{Run, Whole};
use super::journal::{Journal, ObjectJournal, Record};
use super::prepared::Copy;
use crate::error::{Error, Result};
use crate::store::{LocalWriter, RemoteWriter};

/// After so many bytes written the free space is looked at again.
const SPACE_CHECK_BYTES: u64 = 1 << 30;
/// With less free space a run stops before the disk is full to the last byte.
const SPACE_LEAST_BYTES: u64 = 64 << 20;

/// Where the chunks of a copy are written, and recorded by the array's position among those of its store.
#[derive(Clone, Copy)]
pub enum Sink<'a> {
    /// A directory that nobody else reads yet; a chunk is recorded once it is written.
    Local {
        /// Writes chunks.
        writer: &'a LocalWriter,
        /// Records them, if the run can be resumed.
        journal: Option<&'a Journal>,
    },
    /// A bucket. Chunks are handed over to network threads, and recorded once they have arrived.
    Remote {
        /// Sends chunks.
        writer: &'a RemoteWriter,
        /// Records them.
        journal: &'a ObjectJournal,
    },
}

impl Sink<'_> {
    /// Returns the failure of a chunk that was on its way, which others only heard of.
    pub(super) fn take_failure(&self) -> Option<Error> {
        match self {
            Self::Local { .. } => None,
            Self::Remote { writer, .. } => writer.take_failure(),
        }
    }

    /// Waits until all chunks have arrived.
    pub(super) fn wait(&self) -> Result<()> {
        match self {
            Self::Local { .. } => Ok(()),
            Self::Remote { writer, .. } => writer.wait(),
        }
    }
}

impl Run<'_> {
    /// Writes one chunk; `decoded` is what it holds, where that is at hand. Without `done` nothing says that it is done, in a bucket
    /// its label neither: a resumed run makes it again.
    pub(super) fn write(
        &self,
        copy: &Copy<'_>,
        chunk_index: &[u64],
        bytes: &[u8],
        decoded: Option<&[u8]>,
        done: Option<&mut Vec<Record>>,
    ) -> Result<()> {
        let started = Instant::now();
        let mut key = String::with_capacity(64);
        copy.array.target.chunk_key(chunk_index, &mut key);
        let done = done.filter(|_| self.records());
        let record = done.as_ref().and_then(|_| copy.record(chunk_index, Some(bytes), decoded));
        match copy.sink {
            Sink::Local { writer, .. } if copy.resumed => writer.replace(&key, bytes)?,
            Sink::Local { writer, .. } => writer.put(&key, bytes)?,
            Sink::Remote { writer, journal } => {
                let token = journal.token();
                let (array, chunk) = (copy.position_in_store(), copy.chunk_position(chunk_index));
                let label = record.map(|record| journal.label(&record));
                writer.start_put(key, bytes, label.as_deref(), move |sent| {
                    token.ended(array, chunk.unwrap_or(u64::MAX), sent);
                })?;
            }
        }
        if let Some(done) = done {
            done.extend(record);
        }
        self.meter.write_time.add_time(started.elapsed());
        match self.whole {
            Whole::Scatter(_) => self.meter.scratch_bytes.add(bytes.len() as u64),
            Whole::Plan | Whole::Gather(_) | Whole::GatherAround(_) => {
                self.meter.bytes_written.add(bytes.len() as u64);
                self.meter.objects_written.add(1);
            }
        }
        let before = self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if before / SPACE_CHECK_BYTES != (before + bytes.len() as u64) / SPACE_CHECK_BYTES
            && let Sink::Local { writer, .. } = copy.sink
        {
            writer.check_space(SPACE_LEAST_BYTES)?;
        }
        Ok(())
    }

    /// Returns whether what is done is recorded at all.
    fn records(&self) -> bool {
        !matches!(self.whole, Whole::GatherAround(_))
    }

    /// Writes down what is done; from then on a resumed run leaves it alone.
    pub(super) fn journal(&self, copy: &Copy<'_>, done: &mut Vec<Record>) -> Result<()> {
        if !done.is_empty() && self.records() {
            match copy.sink {
                Sink::Local { journal: Some(journal), .. } => journal.append(done)?,
                Sink::Local { journal: None, .. } => {}
                Sink::Remote { journal, .. } => journal.append(done),
            }
        }
        done.clear();
        Ok(())
    }
}
