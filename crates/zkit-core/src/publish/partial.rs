//! The store that is being built, wherever it is.

use super::local::{self, LocalPartial};
use super::record::{CopyRecord, Recorded};
use super::remote::{self, RemotePartial};
use super::start::{Existing, Start, Unfinished};
use crate::cancel::Cancel;
use crate::engine::{Checked, Header, Sink};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Observer;
use crate::grid::ChunkSet;
use crate::hierarchy::{ArrayNode, Hierarchy};
use crate::location::StoreUrl;
use crate::metadata::Json;
use crate::store::{RemoteStore, StoreOptions, UploadRoom};

/// Where a store is to appear, and how it is reached.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    /// The place.
    pub url: &'a StoreUrl,
    /// How to reach it, if it is remote.
    pub options: &'a StoreOptions,
    /// A store in the same bucket, whose connections are shared.
    pub neighbour: Option<&'a RemoteStore>,
    /// Room for what is on its way to remote destinations, shared by all of a run.
    pub room: &'a UploadRoom,
    /// Is told of what takes long.
    pub observer: &'a dyn Observer,
}

impl Destination<'_> {
    /// Opens a remote destination.
    ///
    /// Errors: `Unsupported` for web servers.
    pub fn open_remote(&self) -> Result<RemoteStore> {
        let store = match self.neighbour {
            Some(neighbour) => neighbour.open_beside(self.url, self.options)?,
            None => RemoteStore::open(self.url, self.options)?,
        };
        if store.is_writable() {
            return Ok(store);
        }
        let message = format!("could not write to {}: web servers take no stores", self.url);
        Err(Error::new(ErrorKind::Unsupported, message)
            .with_hint("name a local directory, or a bucket: s3://, gs:// or az://"))
    }

    /// Returns whether something is at the destination.
    pub fn exists(&self) -> Result<bool> {
        match self.url {
            StoreUrl::Local(path) => Ok(path.exists()),
            StoreUrl::Remote { .. } => remote::exists(&self.open_remote()?),
        }
    }

    /// Returns what the store at the destination says of the run that wrote it.
    pub fn recorded(&self) -> Result<Recorded> {
        match self.url {
            StoreUrl::Local(path) => Ok(CopyRecord::read_local(path)),
            StoreUrl::Remote { .. } => CopyRecord::read_remote(&self.open_remote()?),
        }
    }

    /// Returns whether an earlier run left something beside the destination.
    pub fn has_traces(&self) -> Result<bool> {
        match self.url {
            StoreUrl::Local(path) => Ok(local::has_traces(path)),
            StoreUrl::Remote { .. } => remote::has_traces(&self.open_remote()?),
        }
    }
}

/// A store that is being built, with the journal of what is done.
///
/// Dropped without [`Self::commit`] it stays if anything was journalled, so that a later run can go on with it;
/// else it is removed.
#[derive(Debug)]
pub enum PartialStore {
    /// In the `.partial` sibling of a directory.
    Local(Box<LocalPartial>),
    /// In a bucket.
    Remote(Box<RemotePartial>),
}

impl PartialStore {
    /// Begins a store, or goes on with what a run that died has left, see [`LocalPartial::create`] and
    /// [`RemotePartial::create`].
    pub fn create(
        destination: &Destination<'_>,
        existing: Existing,
        header: &Header,
        unfinished: Unfinished,
    ) -> Result<Start<Self>> {
        Ok(match destination.url {
            StoreUrl::Local(path) => {
                LocalPartial::create(path, existing, header, unfinished)?.map(Self::Local)
            }
            StoreUrl::Remote { .. } => {
                RemotePartial::create(destination, existing, header, unfinished)?.map(Self::Remote)
            }
        })
    }

    /// Returns where the engine writes chunks, and records them.
    pub fn sink(&self) -> Sink<'_> {
        match self {
            Self::Local(store) => Sink::Local { writer: store.writer(), journal: Some(store.journal()) },
            Self::Remote(store) => Sink::Remote { writer: store.writer(), journal: store.journal() },
        }
    }

    /// Returns the journal's header: of a resumed store the one that the first run wrote, whose planned metadata
    /// is to be taken over.
    pub fn header(&self) -> &Header {
        match self {
            Self::Local(store) => store.header(),
            Self::Remote(store) => store.header(),
        }
    }

    /// Returns whether this goes on with what an earlier run left.
    pub fn is_resumed(&self) -> bool {
        match self {
            Self::Local(store) => store.is_resumed(),
            Self::Remote(store) => store.is_resumed(),
        }
    }

    /// Returns the chunks that are done, for each array of the header; none before [`Self::check`].
    pub fn done(&self) -> &[ChunkSet] {
        match self {
            Self::Local(store) => store.done(),
            Self::Remote(store) => store.done(),
        }
    }

    /// Finds out what of an earlier run's work holds; it is [`Self::done`] from then on. `arrays` are those of the copy,
    /// in the order of the header.
    pub fn check(&mut self, arrays: &[&ArrayNode], jobs: usize, cancel: &Cancel) -> Result<Checked> {
        let key_of = |array: u32, position: u64| {
            let mut key = String::new();
            if let Some(array) = arrays.get(array as usize) {
                array.chunk_key(&array.metadata.grid.index_at(position), &mut key);
            }
            key
        };
        match self {
            Self::Local(store) => store.check(&key_of, jobs, cancel),
            Self::Remote(store) => store.check(arrays, cancel),
        }
    }

    /// Says that the source changed while it was read: no later run goes on with what is there.
    pub fn mark_source_changed(&self) -> Result<()> {
        match self {
            Self::Local(store) => store.mark_source_changed(),
            Self::Remote(store) => store.mark_source_changed(),
        }
    }

    /// Returns whether a drop leaves something for a later run: the user is to be told of `--resume`.
    pub fn is_worth_resuming(&self) -> bool {
        match self {
            Self::Local(store) => store.is_worth_resuming(),
            Self::Remote(store) => store.is_worth_resuming(),
        }
    }

    /// Opens the copy as readers will see it, with `documents` as its metadata; all chunks must be written.
    ///
    /// In a directory that nobody else reads the documents are written now; in a bucket they wait for [`Self::commit`].
    pub fn open_copy(&self, documents: &[(String, Json)]) -> Result<Hierarchy> {
        match self {
            Self::Local(store) => {
                for (key, document) in documents {
                    store.writer().replace(key, document.to_pretty().as_bytes())?;
                }
                let url = StoreUrl::Local(store.writer().root().to_owned());
                Hierarchy::open(&url, &StoreOptions::default())
            }
            Self::Remote(store) => Ok(store.open_copy(documents)),
        }
    }

    /// Makes the store appear at its destination, with the documents that [`Self::open_copy`] was given.
    ///
    /// After an error what is done stays, and a later run goes on with it.
    pub fn commit(&self, documents: &[(String, Json)]) -> Result<()> {
        match self {
            Self::Local(store) => store.commit(),
            Self::Remote(store) => store.commit(documents),
        }
    }
}
