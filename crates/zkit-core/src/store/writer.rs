//! Writing objects into a directory that nobody else reads yet.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::write_back::WriteBack;
use crate::error::{Error, ErrorKind, Result};
use crate::units::Bytes;

/// A directory into which objects are put, each once unless it is replaced; safe to share between threads.
#[derive(Debug)]
pub struct LocalWriter {
    root: PathBuf,
    directory: OwnedFd,
    write_back: Option<WriteBack>,
}

impl LocalWriter {
    /// Opens an existing directory for writing.
    pub fn open(root: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, root, flags, Mode::empty())
            .map_err(|error| write_error(root, "open", error.into()))?;
        Ok(Self { root: root.to_owned(), directory, write_back: None })
    }

    /// Opens an existing directory for objects that are to last: what is written goes to the disk early, so that the sync
    /// at the end, which is still needed, is short.
    pub fn open_lasting(root: &Path) -> Result<Self> {
        Ok(Self { write_back: WriteBack::start(root), ..Self::open(root)? })
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the open directory, for locks and syncs.
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Writes an object that is not there yet; directories on its way are made. It is not synced.
    pub fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let file = match self.create(key) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = key.rsplit_once('/').map_or("", |(parent, _)| parent);
                std::fs::create_dir_all(self.root.join(parent)).and_then(|()| self.create(key))
            }
            other => other,
        };
        self.fill(key, file, bytes)
    }

    /// Writes an object, in place of one that a run which died may have left half-written. It is not synced.
    pub fn replace(&self, key: &str, bytes: &[u8]) -> Result<()> {
        match self.create(key) {
            Ok(file) => self.fill(key, Ok(file), bytes),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(key)?;
                self.put(key, bytes)
            }
            Err(_) => self.put(key, bytes),
        }
    }

    /// Checks that some space is left on the disk.
    pub fn check_space(&self, least_bytes: u64) -> Result<()> {
        let Ok(stat) = rustix::fs::fstatvfs(&self.directory) else { return Ok(()) };
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free >= least_bytes {
            return Ok(());
        }
        let message = format!("the disk of {} is nearly full: {} are left", self.root.display(), Bytes(free));
        Err(Error::new(ErrorKind::Unwritable, message)
            .with_hint("free some space and pass --resume, or name a destination on a larger disk"))
    }

    /// Removes an object, if there is one.
    pub fn remove(&self, key: &str) -> Result<()> {
        match rustix::fs::unlinkat(&self.directory, key, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(()),
            Err(error) => Err(write_error(&self.root.join(key), "remove", error.into())),
        }
    }

    /// Opens an object for reading; links are not followed. `None` if there is nothing.
    pub(crate) fn open_object(&self, key: &str) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match rustix::fs::openat(&self.directory, key, flags, Mode::empty()) {
            Ok(file) => Ok(Some(file.into())),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes all of an object that was created.
    fn fill(&self, key: &str, created: io::Result<File>, bytes: &[u8]) -> Result<()> {
        let written = created.and_then(|mut file| file.write_all(bytes));
        written.map_err(|error| write_error(&self.root.join(key), "write", error))?;
        if let Some(write_back) = &self.write_back {
            write_back.wrote(bytes.len() as u64);
        }
        Ok(())
    }

    fn create(&self, key: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(rustix::fs::openat(&self.directory, key, flags, Mode::from_raw_mode(0o666))?.into())
    }
}

/// Returns the error of a failed write, with what helps against it.
pub fn write_error(path: &Path, doing: &str, error: io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("free some space, or name a destination on a larger disk")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("name a destination that you may write to")
        }
        io::ErrorKind::NotADirectory => {
            Some("a part of this path is a file: name a destination below a folder")
        }
        io::ErrorKind::InvalidFilename => Some("name a destination with a shorter path"),
        // its folder was there before
        io::ErrorKind::NotFound => {
            Some("the folder was removed, or its file system takes no files: name another destination")
        }
        _ => None,
    };
    let made =
        Error::new(ErrorKind::Unwritable, format!("could not {doing} {}", path.display())).with_source(error);
    match hint {
        Some(hint) => made.with_hint(hint),
        None => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_writes_say_what_helps() {
        let folder = tempfile::tempdir().unwrap();
        let hint = |path: &Path| {
            let error = std::fs::write(path, b"x").unwrap_err();
            write_error(path, "write", error).hint().unwrap_or_default().to_owned()
        };
        std::fs::write(folder.path().join("file"), b"").unwrap();
        assert!(hint(&folder.path().join("file/a")).contains("is a file"));
        assert!(hint(&folder.path().join("a".repeat(300))).contains("shorter"));
        assert!(hint(&folder.path().join("gone/a")).contains("removed"));
    }

    #[test]
    fn writes_each_object_once() {
        let folder = tempfile::tempdir().unwrap();
        let writer = LocalWriter::open(folder.path()).unwrap();
        writer.put("a/c/0/1", b"x").unwrap();
        assert_eq!(std::fs::read(folder.path().join("a/c/0/1")).unwrap(), b"x");
        assert_eq!(writer.put("a/c/0/1", b"y").unwrap_err().kind(), ErrorKind::Unwritable);
    }

    #[test]
    fn replaces_what_a_dead_run_left() {
        let folder = tempfile::tempdir().unwrap();
        let writer = LocalWriter::open(folder.path()).unwrap();
        writer.replace("a/c/0", b"half").unwrap();
        std::fs::hard_link(folder.path().join("a/c/0"), folder.path().join("other")).unwrap();
        writer.replace("a/c/0", b"whole object").unwrap();
        assert_eq!(std::fs::read(folder.path().join("a/c/0")).unwrap(), b"whole object");
        assert_eq!(std::fs::read(folder.path().join("other")).unwrap(), b"half");
        writer.remove("a/c/0").unwrap();
        writer.remove("a/c/0").unwrap();
        assert!(!folder.path().join("a/c/0").exists());
        assert_eq!(writer.replace("a/c", b"x").unwrap_err().kind(), ErrorKind::Unwritable);
    }
}
