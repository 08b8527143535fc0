//! The rename, in steps of which any can be the last: [`super::start`] repairs what each leaves.

use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::super::record::CopyRecord;
use super::super::start::Existing;
use super::partial::LocalPartial;
use super::places::{Places, identity, in_the_way, metadata, occupied};
use crate::engine::{Identity, Publishing};
use crate::error::{Error, ErrorKind, Result};
use crate::store::write_error;

impl LocalPartial {
    /// Syncs everything and puts the store at its destination, all at once.
    ///
    /// After an error the store and its journal stay, and a later run goes on with them.
    pub fn commit(&self) -> Result<()> {
        self.keep.store(true, Ordering::Relaxed);
        let mark = self.prepare()?;
        match mark.replaced {
            None => place(&self.places)?,
            Some(_) if exchange(&self.places)? => {}
            Some(_) => {
                set_aside(&self.places)?;
                place(&self.places)?;
            }
        }
        self.places.sync_parent()?;
        remove_replaced(&self.places, mark)?;
        self.journal.remove()
    }

    /// Syncs the store and marks the journal.
    pub(super) fn prepare(&self) -> Result<Publishing> {
        let places = &self.places;
        places.check_free(self.existing)?;
        CopyRecord::of(&self.header).write_local(&places.partial);
        rustix::fs::syncfs(self.writer.directory())
            .map_err(|error| write_error(&places.partial, "sync", error.into()))?;
        let partial = identity(&places.partial)?.ok_or_else(|| {
            let message = format!("could not publish {}: it is gone", places.partial.display());
            Error::new(ErrorKind::Unwritable, message)
        })?;
        let replaced = match self.existing {
            Existing::Replace | Existing::Unpublish => identity(&places.destination)?,
            Existing::Keep => None,
        };
        let mark = Publishing { partial, replaced };
        self.journal.mark_publishing(mark)?;
        Ok(mark)
    }
}

/// Renames the new store to a destination where nothing is.
pub(super) fn place(places: &Places) -> Result<()> {
    rename_to_free(&places.partial, &places.destination)
}

/// Exchanges the new store and the old one; returns whether the file system can.
fn exchange(places: &Places) -> Result<bool> {
    match rustix::fs::renameat_with(CWD, &places.partial, CWD, &places.destination, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS) => Ok(false),
        Err(error) => Err(rename_error(&places.destination, error)),
    }
}

/// Renames the old store away, the first of two steps.
pub(super) fn set_aside(places: &Places) -> Result<()> {
    if metadata(&places.replaced)?.is_some() {
        return Err(in_the_way(&places.replaced));
    }
    rename_to_free(&places.destination, &places.replaced)?;
    places.sync_parent()
}

/// Renames the old store back.
pub(super) fn put_back(places: &Places) -> Result<()> {
    rename_to_free(&places.replaced, &places.destination)?;
    places.sync_parent()
}

/// Removes the old store, wherever it is by now; nothing else is ever removed.
pub(super) fn remove_replaced(places: &Places, mark: Publishing) -> Result<()> {
    let Some(replaced) = mark.replaced else { return Ok(()) };
    for path in [&places.partial, &places.replaced] {
        if is(path, replaced)? {
            std::fs::remove_dir_all(path)
                .map_err(|error| write_error(path, "remove the replaced store at", error))?;
        }
    }
    places.sync_parent()
}

/// Returns whether a path names this very directory.
pub(super) fn is(path: &Path, expected: Identity) -> Result<bool> {
    Ok(identity(path)? == Some(expected))
}

fn rename_to_free(from: &Path, to: &Path) -> Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // file systems without the flag: a look before is all there is
        Err(Errno::INVAL | Errno::NOSYS) => {
            if metadata(to)?.is_some() {
                return Err(occupied(to));
            }
            std::fs::rename(from, to).map_err(|error| write_error(to, "publish", error))
        }
        Err(Errno::EXIST) => Err(occupied(to)),
        Err(error) => Err(rename_error(to, error)),
    }
}

fn rename_error(to: &Path, error: Errno) -> Error {
    let made = write_error(to, "publish", error.into());
    match error {
        Errno::XDEV | Errno::BUSY => made.with_hint(
            "name a destination that does not exist yet: what is there cannot be exchanged in one step",
        ),
        _ => made,
    }
}
