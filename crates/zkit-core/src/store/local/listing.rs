//! Listings: a folder after the other, each opened beneath the root, its entries looked at by their names alone.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Dir, FileType, OFlags};

use super::{Found, LocalStore, io_error};
use crate::error::{Error, ErrorKind, Result};
use crate::store::any::{ObjectInfo, ObjectKind};
use crate::store::key::join;

/// Linked directories that one listing enters: links to directories of links multiply.
const LINKED_FOLDERS_MOST: u32 = 10_000;

impl LocalStore {
    /// Calls `visit` for the objects below `prefix` until it breaks off, and `enter` for each folder, which is entered where that
    /// returns true; linked directories inside the store are folders.
    pub fn list_while(
        &self,
        prefix: &str,
        enter: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        match self.open_beneath(prefix, OFlags::DIRECTORY) {
            Ok(folder) => Walk::new(self, prefix, enter, visit).below(prefix, folder).map(|_| ()),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                self.absent_or_dangling(prefix).map(|_| ())
            }
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::XDEV.raw_os_error()) => {
                Err(self.outside(prefix))
            }
            Err(error) => Err(self.unlisted(prefix, error)),
        }
    }

    /// Calls `visit` for all objects except those below folders that `enter` refuses by their key.
    pub fn list_entering(
        &self,
        enter: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let root = self.open_beneath("", OFlags::DIRECTORY).map_err(|error| self.unlisted("", error))?;
        Walk::new(self, "", enter, visit).below("", root).map(|_| ())
    }

    fn unlisted(&self, folder: &str, error: io::Error) -> Error {
        io_error(&format!("could not list {}", self.canonical_root.join(folder).display()), error)
    }
}

/// One listing under way.
struct Walk<'a> {
    store: &'a LocalStore,
    /// So many bytes of each key lead to where the listing starts.
    start_bytes: usize,
    /// Which folders are entered, by their key from there.
    enter: &'a dyn Fn(&str) -> bool,
    /// Linked directories entered so far.
    links: u32,
    /// Where the links that are being followed lie, links resolved.
    followed: Vec<PathBuf>,
    visit: &'a mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>,
}

impl<'a> Walk<'a> {
    fn new(
        store: &'a LocalStore,
        start: &str,
        enter: &'a dyn Fn(&str) -> bool,
        visit: &'a mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>,
    ) -> Self {
        let start_bytes = if start.is_empty() { 0 } else { start.len() + 1 };
        Self { store, start_bytes, enter, links: 0, followed: Vec::new(), visit }
    }

    /// Visits what lies below a folder.
    fn below(&mut self, folder: &str, directory: OwnedFd) -> Result<ControlFlow<()>> {
        let (mut folder, mut directory) = (folder.to_owned(), directory);
        let mut pending = Vec::new();
        loop {
            if self.folder(&folder, directory, &mut pending)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let Some(next) = pending.pop() else { return Ok(ControlFlow::Continue(())) };
            folder = next;
            directory = self.open(&folder)?;
        }
    }

    fn open(&self, folder: &str) -> Result<OwnedFd> {
        let opened = self.store.open_beneath(folder, OFlags::DIRECTORY);
        opened.map_err(|error| self.store.unlisted(folder, error))
    }

    /// Visits what lies in a folder; the folders in it are `pending`.
    fn folder(
        &mut self,
        folder: &str,
        directory: OwnedFd,
        pending: &mut Vec<String>,
    ) -> Result<ControlFlow<()>> {
        let unlisted = |error: rustix::io::Errno| self.store.unlisted(folder, error.into());
        let mut entries = Dir::new(directory).map_err(unlisted)?;
        let mut key = join(folder, "");
        let folder_bytes = key.len();
        while let Some(entry) = entries.read() {
            let entry = entry.map_err(|error| self.store.unlisted(folder, error.into()))?;
            // a name that is not UTF-8 is no Zarr key
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            key.truncate(folder_bytes);
            key.push_str(name);
            let look = || {
                let directory = entries.fd()?;
                rustix::fs::statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            };
            let looked = |error: rustix::io::Errno| {
                let place = self.store.canonical_root.join(&key);
                io_error(&format!("could not look at {}", place.display()), error.into())
            };
            let kind = match entry.file_type() {
                FileType::Unknown => FileType::from_raw_mode(look().map_err(looked)?.st_mode),
                kind => kind,
            };
            let found = match kind {
                FileType::Directory => {
                    if (self.enter)(&key[self.start_bytes..]) {
                        pending.push(key.clone());
                    }
                    continue;
                }
                FileType::RegularFile => Found::of(ObjectKind::Regular, &look().map_err(looked)?),
                FileType::Symlink => {
                    let path = self.store.canonical_root.join(&key);
                    let found = self.store.behind_link(&path)?;
                    if found.kind == ObjectKind::Regular && path.is_dir() {
                        if self.linked(&key)?.is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                        continue;
                    }
                    found
                }
                _ => Found::nothing(ObjectKind::Special),
            };
            let Found { kind, size, stamp, changed, locked } = found;
            let key = &key[self.start_bytes..];
            if (self.visit)(ObjectInfo { key, size, kind, stamp, changed, locked }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Visits what lies below a link to a folder; a link to a folder that holds the link itself is visited as what no reader
    /// can read.
    fn linked(&mut self, link: &str) -> Result<ControlFlow<()>> {
        if !(self.enter)(&link[self.start_bytes..]) {
            return Ok(ControlFlow::Continue(()));
        }
        self.links += 1;
        if self.links > LINKED_FOLDERS_MOST {
            let start = self.store.canonical_root.join(link[..self.start_bytes].trim_end_matches('/'));
            let message = format!(
                "could not list {}: more than {LINKED_FOLDERS_MOST} linked directories",
                start.display()
            );
            return Err(Error::new(ErrorKind::Unreadable, message));
        }
        let path = self.store.canonical_root.join(link);
        let failed = |error: io::Error| io_error(&format!("could not look at {}", path.display()), error);
        let target = path.canonicalize().map_err(failed)?;
        let place = path.parent().unwrap_or(&path).canonicalize().map_err(failed)?;
        self.followed.push(place);
        let circle = self.followed.iter().any(|place| place.starts_with(&target));
        let flow = match circle {
            true => {
                let Found { kind, size, stamp, changed, locked } = Found::nothing(ObjectKind::Special);
                let key = &link[self.start_bytes..];
                Ok((self.visit)(ObjectInfo { key, size, kind, stamp, changed, locked }))
            }
            false => self.open(link).and_then(|directory| self.below(link, directory)),
        };
        self.followed.pop();
        flow
    }
}
