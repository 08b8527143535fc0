//! Writing objects into a directory that nobody else reads yet.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};

use crate::error::{Error, ErrorKind, Result};

/// A directory into which objects are put, each once; safe to share between threads.
#[derive(Debug)]
pub struct LocalWriter {
    root: PathBuf,
    directory: OwnedFd,
}

impl LocalWriter {
    /// Opens an existing directory for writing.
    pub fn open(root: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, root, flags, Mode::empty())
            .map_err(|error| write_error(root, "open", error.into()))?;
        Ok(Self { root: root.to_owned(), directory })
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
        let written = file.and_then(|mut file| file.write_all(bytes));
        written.map_err(|error| write_error(&self.root.join(key), "write", error))
    }

    fn create(&self, key: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(rustix::fs::openat(&self.directory, key, flags, Mode::from_raw_mode(0o666))?.into())
    }
}

/// Returns the error of a failed write, with what helps against it.
pub(crate) fn write_error(path: &Path, doing: &str, error: io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("free some space, or name a destination on a larger disk")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("name a destination that you may write to")
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
    fn writes_each_object_once() {
        let folder = tempfile::tempdir().unwrap();
        let writer = LocalWriter::open(folder.path()).unwrap();
        writer.put("a/c/0/1", b"x").unwrap();
        assert_eq!(std::fs::read(folder.path().join("a/c/0/1")).unwrap(), b"x");
        assert_eq!(writer.put("a/c/0/1", b"y").unwrap_err().kind(), ErrorKind::Unwritable);
    }
}
