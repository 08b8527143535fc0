//! What can be wrong with single chunks before any is decoded.

use std::collections::BTreeMap;

use crate::grid::ChunkSet;

/// One way in which a stored chunk (shard where sharded) is no chunk of its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChunkFault {
    /// It has no bytes.
    Empty,
    /// It ends before its codec says, or holds fewer bytes than the metadata promises.
    Truncated,
    /// It holds more bytes than its codec or the metadata says.
    Trailing,
    /// It decodes to another number of bytes than the metadata promises.
    WrongSize,
    /// It does not begin like what its codec writes.
    NoFrame,
    /// It is the body of a server's error, or a page for people.
    ErrorBody,
    /// It is a pointer of git-lfs or git-annex to a file that is somewhere else.
    Pointer,
    /// It is a shard whose index cannot be right.
    ShardIndex,
    /// The archive that it lies in says that its bytes are not those that were put in.
    Damaged,
    /// It is there and could not be read.
    Unreadable,
    /// Its permissions let nobody read it.
    Locked,
    /// It is a link to nothing.
    DanglingLink,
    /// It is a link out of the store.
    OutsideLink,
    /// It is a FIFO, socket or device.
    Special,
}

/// The chunks of one array that are wrong in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultyChunks {
    /// The way.
    pub fault: ChunkFault,
    /// Their C-order positions in the grid of stored chunks.
    pub chunks: ChunkSet,
    /// The lowest position, of which `why` speaks.
    pub first: u64,
    /// What was found and expected.
    pub why: String,
}

/// Collects faults by kind.
#[derive(Debug, Default)]
pub(super) struct FaultLog(BTreeMap<ChunkFault, FaultyChunks>);

impl FaultLog {
    /// Adds one chunk; `why` is asked for only where it will be told.
    pub(super) fn add(&mut self, fault: ChunkFault, position: u64, why: impl FnOnce() -> String) {
        match self.0.get_mut(&fault) {
            Some(known) => {
                known.chunks.insert(position);
                if position < known.first {
                    known.first = position;
                    known.why = why();
                }
            }
            None => {
                let mut chunks = ChunkSet::default();
                chunks.insert(position);
                self.0.insert(fault, FaultyChunks { fault, chunks, first: position, why: why() });
            }
        }
    }

    /// Takes over what was found before.
    pub(super) fn of(known: Vec<FaultyChunks>) -> Self {
        Self(known.into_iter().map(|faulty| (faulty.fault, faulty)).collect())
    }

    pub(super) fn get(&self, fault: ChunkFault) -> Option<&FaultyChunks> {
        self.0.get(&fault)
    }

    /// Takes one chunk out of a kind.
    pub(super) fn remove(&mut self, fault: ChunkFault, position: u64) {
        if let Some(known) = self.0.get_mut(&fault)
            && known.chunks.remove(position)
            && known.chunks.is_empty()
        {
            self.0.remove(&fault);
        }
    }

    pub(super) fn finish(self) -> Vec<FaultyChunks> {
        self.0.into_values().collect()
    }
}
