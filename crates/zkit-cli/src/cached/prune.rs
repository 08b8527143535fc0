//! Removing entries: never one that is in use, and nothing but what lies in its own places.

use std::path::Path;

use zkit_core::error::Error;
use zkit_core::store::write_error;

use super::lock::{EntryLock, Mode};
use super::places::Places;

/// What became of an entry that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Removed,
    /// Another run uses or builds it: it was left alone.
    InUse,
}

/// Removes an entry with all that belongs to it, if nobody uses it.
///
/// Killed in the middle it leaves no store that could be served, and what the next removal finds.
///
/// Errors: `Unwritable`.
pub fn remove(places: &Places) -> Result<Removal, Error> {
    let Some(_lock) = EntryLock::try_lock(places, Mode::Exclusive)? else { return Ok(Removal::InUse) };
    remove_unfinished(places)?;
    remove_tree(&places.removed)?;
    // away under its name at once: half a store never stands there
    match std::fs::rename(&places.store, &places.removed) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(write_error(&places.store, "remove", error));
        }
        _ => {}
    }
    remove_file(&places.manifest)?;
    remove_tree(&places.removed)?;
    remove_file(&places.lock)?;
    Ok(Removal::Removed)
}

/// Removes what a run that died left beside an entry, if nobody uses it; the entry stays.
///
/// Errors: `Unwritable`.
pub fn clear(places: &Places) -> Result<Removal, Error> {
    let Some(_lock) = EntryLock::try_lock(places, Mode::Exclusive)? else { return Ok(Removal::InUse) };
    remove_unfinished(places)?;
    Ok(Removal::Removed)
}

/// Removes what a run that died left of a store; the caller has the lock.
fn remove_unfinished(places: &Places) -> Result<(), Error> {
    remove_file(&places.new_manifest)?;
    for path in places.unfinished() {
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => remove_tree(&path)?,
            _ => remove_file(&path)?,
        }
    }
    Ok(())
}

/// Removes a directory, or a link instead of one.
fn remove_tree(path: &Path) -> Result<(), Error> {
    match path.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(found) if found.is_dir() => {
            std::fs::remove_dir_all(path).map_err(|error| write_error(path, "remove", error))
        }
        Ok(_) => remove_file(path),
    }
}

fn remove_file(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(write_error(path, "remove", error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_with_all_that_belongs_to_it_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let name = "a-0123456789abcdef.zarr";
        let places = Places::of(folder.path(), name);
        std::fs::create_dir_all(places.store.join("t2m/c")).unwrap();
        std::fs::create_dir(folder.path().join(format!("{name}.partial"))).unwrap();
        std::fs::write(folder.path().join(format!("{name}.partial.journal")), "x").unwrap();
        std::fs::write(&places.manifest, "x").unwrap();
        std::fs::create_dir(folder.path().join("other.zarr")).unwrap();
        // a link in a cached store leads elsewhere: that stays
        std::os::unix::fs::symlink(folder.path().join("other.zarr"), places.store.join("link")).unwrap();
        assert_eq!(remove(&places).unwrap(), Removal::Removed);
        let left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["other.zarr"]);
    }

    #[test]
    fn what_is_in_use_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::of(folder.path(), "a-0123456789abcdef.zarr");
        std::fs::create_dir(&places.store).unwrap();
        let user = EntryLock::try_lock(&places, Mode::Shared).unwrap();
        assert_eq!(remove(&places).unwrap(), Removal::InUse);
        assert!(places.store.exists());
        drop(user);
        assert_eq!(remove(&places).unwrap(), Removal::Removed);
        assert!(!places.store.exists());
    }
}
