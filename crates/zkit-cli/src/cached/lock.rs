//! Locks of entries: shared by those who use one, exclusive for who builds or removes it.
//!
//! The lock is the kernel's, and goes with the process. File systems without locks are tolerated.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FlockOperation, Mode as FileMode, OFlags};
use zkit_core::error::Error;
use zkit_core::event::Event;
use zkit_core::store::write_error;

use super::places::Places;
use crate::shell::Shell;

/// How often it is tried again to lock what another run has locked.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// What a lock is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// To use the entry: nobody may remove it.
    Shared,
    /// To build or remove it: nobody else uses it.
    Exclusive,
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct EntryLock {
    /// `None` in a cache that cannot be written to, where nothing can be removed either.
    file: Option<File>,
}

impl EntryLock {
    /// Locks an entry, or returns `None` if others have it.
    ///
    /// Errors: `Unwritable` where the lock's file cannot be made and is needed.
    pub fn try_lock(places: &Places, mode: Mode) -> Result<Option<Self>, Error> {
        loop {
            let file = match open(places) {
                Ok(file) => file,
                Err(error) if mode == Mode::Shared && is_read_only(&error) => {
                    return Ok(Some(Self { file: None }));
                }
                Err(error) => return Err(write_error(&places.lock, "open", error)),
            };
            let operation = match mode {
                Mode::Shared => FlockOperation::NonBlockingLockShared,
                Mode::Exclusive => FlockOperation::NonBlockingLockExclusive,
            };
            match rustix::fs::flock(&file, operation) {
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(rustix::io::Errno::INTR) => continue,
                Ok(()) | Err(_) => {}
            }
            // who had it may have removed it meanwhile: a lock of nothing locks nobody out
            if is_still_there(places, &file) {
                return Ok(Some(Self { file: Some(file) }));
            }
        }
    }

    /// Locks an entry, and waits for those who have it; says so once. The deadline ends the wait.
    ///
    /// Errors: as [`Self::try_lock`]; `Cancelled`.
    pub fn wait(places: &Places, mode: Mode, shell: &Shell) -> Result<Self, Error> {
        if let Some(lock) = Self::try_lock(places, mode)? {
            return Ok(lock);
        }
        shell.observer().event(Event::Phase("waiting"));
        let message = format!("another run works on {}: waiting for it", places.store.display());
        shell.observer().event(Event::Warning(message));
        loop {
            shell.cancel().check()?;
            shell.beat();
            std::thread::sleep(TRY_EVERY);
            if let Some(lock) = Self::try_lock(places, mode)? {
                return Ok(lock);
            }
        }
    }

    /// Notes that the entry was used now; a cache that cannot be written to notes nothing.
    pub fn note_use(&self) {
        if let Some(file) = &self.file {
            let _ = file.set_modified(SystemTime::now());
        }
    }
}

impl Drop for EntryLock {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // at once, even if a program that is being started holds the file until it runs (fork before exec)
            let _ = rustix::fs::flock(file, FlockOperation::Unlock);
        }
    }
}

fn open(places: &Places) -> io::Result<File> {
    let mode = FileMode::from_raw_mode(0o666);
    let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match rustix::fs::openat(CWD, &places.lock, flags | OFlags::RDWR | OFlags::CREATE, mode) {
        Ok(file) => Ok(file.into()),
        // a file that is there can be locked by who may only read it
        Err(error) if is_read_only(&error.into()) => {
            rustix::fs::openat(CWD, &places.lock, flags | OFlags::RDONLY, FileMode::empty())
                .map(File::from)
                .map_err(|_| error.into())
        }
        Err(error) => Err(error.into()),
    }
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn is_still_there(places: &Places, file: &File) -> bool {
    let named = std::fs::symlink_metadata(&places.lock);
    named.is_ok_and(|named| {
        file.metadata().is_ok_and(|held| held.ino() == named.ino() && held.dev() == named.dev())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_share_an_entry_and_nobody_builds_or_removes_it_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::of(folder.path(), "a-0123456789abcdef.zarr");
        let lock = |mode| EntryLock::try_lock(&places, mode).unwrap();
        let (one, two) = (lock(Mode::Shared), lock(Mode::Shared));
        assert!(one.is_some() && two.is_some());
        assert!(lock(Mode::Exclusive).is_none());
        drop((one, two));
        let builder = lock(Mode::Exclusive);
        assert!(builder.is_some());
        assert!(lock(Mode::Shared).is_none() && lock(Mode::Exclusive).is_none());
    }

    #[test]
    fn a_lock_that_was_removed_locks_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::of(folder.path(), "a-0123456789abcdef.zarr");
        let old = EntryLock::try_lock(&places, Mode::Exclusive).unwrap().unwrap();
        std::fs::remove_file(&places.lock).unwrap();
        let new = EntryLock::try_lock(&places, Mode::Exclusive).unwrap();
        assert!(new.is_some());
        drop(old);
        assert!(EntryLock::try_lock(&places, Mode::Shared).unwrap().is_none());
    }

    #[test]
    fn a_lock_that_is_a_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::of(folder.path(), "a-0123456789abcdef.zarr");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &places.lock).unwrap();
        assert!(EntryLock::try_lock(&places, Mode::Shared).is_err());
        assert!(!folder.path().join("elsewhere").exists());
    }
}
