//! The paths beside a destination, and what may stand at them.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};

use super::super::start::Existing;
use crate::engine::Identity;
use crate::error::{Error, ErrorKind, Result};
use crate::store::write_error;

/// A destination and what zkit puts beside it while it builds.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) destination: PathBuf,
    /// `NAME.partial`: the store that is built.
    pub(super) partial: PathBuf,
    /// `NAME.partial.journal`: its presence says that `NAME.partial` is ours.
    pub(super) journal: PathBuf,
    /// `NAME.partial.replaced`: where the old store waits if the two cannot be exchanged at once.
    pub(super) replaced: PathBuf,
    /// The folder of all of them.
    pub(super) parent: PathBuf,
}

/// Returns whether an earlier run left something beside a destination.
pub(in super::super) fn has_traces(destination: &Path) -> bool {
    Places::of(destination).is_ok_and(|places| places.journal.exists())
}

impl Places {
    pub(super) fn of(destination: &Path) -> Result<Self> {
        let name = destination.file_name().ok_or_else(|| {
            let message = format!("the destination {} has no name of its own", destination.display());
            Error::new(ErrorKind::Usage, message)
        })?;
        let beside = |suffix: &str| {
            let mut name = name.to_owned();
            name.push(suffix);
            destination.with_file_name(name)
        };
        let parent = destination.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok(Self {
            // without a slash at its end, by which the system would follow a link
            destination: destination.with_file_name(name),
            partial: beside(".partial"),
            journal: beside(".partial.journal"),
            replaced: beside(".partial.replaced"),
            parent: parent.unwrap_or(Path::new(".")).to_owned(),
        })
    }

    /// Checks that the store can be renamed to its destination in one step: no mount point stands in the way.
    pub(super) fn check_same_file_system(&self) -> Result<()> {
        for path in [&self.destination, &self.partial] {
            if is_mount_point(path, &self.parent) {
                let message = format!(
                    "could not build a store at {}: {} is a mount point, a rename across it cannot be atomic",
                    self.destination.display(),
                    path.display()
                );
                return Err(
                    Error::new(ErrorKind::Usage, message).with_hint("name a destination inside of it")
                );
            }
        }
        Ok(())
    }

    /// Checks that the destination is free, or may be replaced.
    pub(super) fn check_free(&self, existing: Existing) -> Result<()> {
        check_free(&self.destination, existing)
    }

    /// Checks that nothing of others stands where the store is to be built.
    pub(super) fn check_partial_empty(&self) -> Result<()> {
        match metadata(&self.partial)? {
            None => return Ok(()),
            Some(found) if found.is_dir() && is_empty(&self.partial)? => return Ok(()),
            Some(_) => {}
        }
        Err(in_the_way(&self.partial))
    }

    /// Makes renames in the folder last.
    pub(super) fn sync_parent(&self) -> Result<()> {
        File::open(&self.parent)
            .and_then(|parent| parent.sync_all())
            .map_err(|error| write_error(&self.parent, "sync", error))
    }
}

/// Returns what stands at a path itself, links not followed.
pub(super) fn metadata(path: &Path) -> Result<Option<Metadata>> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(write_error(path, "look at", error)),
    }
}

/// Returns which directory (or other thing) stands at a path.
pub(super) fn identity(path: &Path) -> Result<Option<Identity>> {
    Ok(metadata(path)?.map(|metadata| {
        let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        // of any 64 bits that do not change over a rename
        let born = born.map_or(0, |born| {
            born.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(born.subsec_nanos()))
        });
        Identity { inode: metadata.ino(), born }
    }))
}

fn is_mount_point(path: &Path, parent: &Path) -> bool {
    let Ok(found) = std::fs::symlink_metadata(path) else { return false };
    let other_device = std::fs::metadata(parent).is_ok_and(|parent| parent.dev() != found.dev());
    // a bind mount has its parent's device
    let mount = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    other_device || mount
}

pub(super) fn in_the_way(path: &Path) -> Error {
    let message = format!("{} is in the way, and was not left by zkit", path.display());
    Error::new(ErrorKind::Conflict, message).with_hint("remove it yourself, or name another destination")
}

pub(super) fn occupied(destination: &Path) -> Error {
    if is_other_folder(destination) {
        return no_store(destination);
    }
    let message = format!("the destination {} already exists", destination.display());
    Error::new(ErrorKind::Conflict, message)
        .with_hint("pass --overwrite to replace it, or name another destination")
}

fn check_free(destination: &Path, existing: Existing) -> Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(destination) else { return Ok(()) };
    match existing {
        Existing::Keep => Err(occupied(destination)),
        Existing::Replace | Existing::Unpublish if metadata.is_dir() => check_store(destination),
        Existing::Replace | Existing::Unpublish => {
            let message = format!("the destination {} is not a directory", destination.display());
            Err(Error::new(ErrorKind::Conflict, message)
                .with_hint("remove it yourself, or name another destination"))
        }
    }
}

/// Checks that a directory that is to be replaced is a store, or empty: a slip must not cost a home directory.
fn check_store(destination: &Path) -> Result<()> {
    if has_metadata(destination) || is_empty(destination)? { Ok(()) } else { Err(no_store(destination)) }
}

fn has_metadata(directory: &Path) -> bool {
    const METADATA: [&str; 5] = ["zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"];
    METADATA.iter().any(|name| directory.join(name).exists())
}

/// Returns whether there is a folder that holds something, and not a store.
fn is_other_folder(destination: &Path) -> bool {
    let is_folder = std::fs::symlink_metadata(destination).is_ok_and(|metadata| metadata.is_dir());
    is_folder && !has_metadata(destination) && is_empty(destination).is_ok_and(|is_empty| !is_empty)
}

/// A folder that holds something else: who names it means a place in it.
fn no_store(destination: &Path) -> Error {
    let folder = destination.display();
    let message = format!("the destination {folder} is a folder, and no Zarr store");
    let inside = destination.join("NAME.zarr");
    Error::new(ErrorKind::Conflict, message).with_hint(format!(
        "name a store in it, such as {}, or a place that does not exist",
        inside.display()
    ))
}

fn is_empty(directory: &Path) -> Result<bool> {
    let entries = std::fs::read_dir(directory).map_err(|error| write_error(directory, "look into", error))?;
    Ok(entries.take(1).count() == 0)
}
