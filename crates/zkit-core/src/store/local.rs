//! Directories of this machine, by plain system calls.
//!
//! Objects are opened relative to the root with `openat2(RESOLVE_BENEATH)`, so that neither `..` nor a link can
//! lead out of the store, without a race; where the kernel lacks it, links are resolved first. Only regular files
//! are read: a FIFO would hang the reader.

mod listing;

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::{Advice, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};

use super::any::{Child, ChildKind, ObjectKind, ObjectStat, Prefetched, too_large};
use super::key::join;
use super::remote::FetchResult;
use super::seen::{Reads, Seen, SeenLog, local_stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::units::saturating_usize;

/// Of larger files only so much is asked for at once.
const PREFETCH_MOST: u64 = 64 << 20;

/// A directory that holds a store.
#[derive(Debug)]
pub struct LocalStore {
    root: PathBuf,
    canonical_root: PathBuf,
    directory: OwnedFd,
    follow_links: bool,
    /// What was read, where that is remembered.
    seen: Option<Box<SeenLog>>,
}

/// What a directory entry is.
struct Found {
    kind: ObjectKind,
    size: u64,
    stamp: u64,
    changed: Option<i64>,
    locked: bool,
}

impl Found {
    /// What is known of something that is no readable file.
    fn nothing(kind: ObjectKind) -> Self {
        Self { kind, size: 0, stamp: 0, changed: None, locked: false }
    }

    fn of(kind: ObjectKind, stat: &Stat) -> Self {
        let (size, locked) = (stat.st_size.cast_unsigned(), stat.st_mode & 0o444 == 0);
        Self { kind, size, stamp: stamp_of(stat), changed: Some(stat.st_mtime), locked }
    }
}

impl LocalStore {
    /// Opens the directory; `follow_links` lets links lead out of it.
    pub fn open(root: &Path, follow_links: bool) -> Result<Self> {
        let failed =
            |error: io::Error| io_error(&format!("could not open the store {}", root.display()), error);
        let canonical_root = root.canonicalize().map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, &canonical_root, flags, Mode::empty())
            .map_err(|error| failed(error.into()))?;
        Ok(Self { root: root.to_owned(), canonical_root, directory, follow_links, seen: None })
    }

    /// Returns the store, remembering what is read of it from now on if that is asked for.
    pub(super) fn remembering(self, reads: Reads) -> Self {
        Self { seen: SeenLog::of(reads), ..self }
    }

    /// Returns what was read so far, if it is remembered.
    pub(super) fn seen(&self) -> Option<&SeenLog> {
        self.seen.as_deref()
    }

    fn saw(&self, key: &str, seen: impl FnOnce() -> Seen) {
        if let Some(log) = &self.seen {
            log.add(key, seen());
        }
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory with links resolved.
    pub fn canonical_root(&self) -> &Path {
        &self.canonical_root
    }

    fn place(&self, key: &str) -> String {
        format!("`{key}` in {}", self.root.display())
    }

    /// Opens a regular file; `None` if it is absent. A directory in its place is unreadable: it hides what should be there.
    fn open_object(&self, key: &str) -> Result<Option<(File, u64)>> {
        let failed = |error: io::Error| io_error(&format!("could not read {}", self.place(key)), error);
        let file: File = match self.open_beneath(key, OFlags::empty()) {
            Ok(file) => file.into(),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                self.saw(key, || Seen::Absent);
                return self.absent_or_dangling(key);
            }
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::XDEV.raw_os_error()) => {
                return Err(self.outside(key));
            }
            Err(error) => return Err(failed(error)),
        };
        let metadata = file.metadata().map_err(failed)?;
        self.saw(key, || {
            let stamp = local_stamp(metadata.mtime(), metadata.mtime_nsec(), metadata.ino());
            Seen::Object(ObjectStat { size: metadata.size(), stamp })
        });
        if !metadata.is_file() {
            let what = if metadata.is_dir() { "a directory" } else { "not a regular file" };
            let message = format!("could not read {}: it is {what}", self.place(key));
            return Err(Error::new(ErrorKind::Unreadable, message));
        }
        Ok(Some((file, metadata.len())))
    }

    fn outside(&self, key: &str) -> Error {
        let message = format!("could not read {}: it is a link that leads out of the store", self.place(key));
        Error::new(ErrorKind::Unreadable, message)
            .with_hint("pass --follow-links if you trust where it leads")
    }

    /// Tells a missing file from a link whose target is missing.
    fn absent_or_dangling(&self, key: &str) -> Result<Option<(File, u64)>> {
        if self.is_plainly_absent(key) {
            self.saw(key, || Seen::Absent);
            return Ok(None);
        }
        let mut path = self.canonical_root.clone();
        for name in key.split('/') {
            path.push(name);
            match std::fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_symlink() && !path.exists() => {
                    let target = std::fs::read_link(&path).unwrap_or_default();
                    let message = format!("could not read {}", self.place(key));
                    return Err(Error::new(ErrorKind::Unreadable, message).with_source(LinkToNothing(target)));
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        Ok(None)
    }

    /// Returns whether a folder is there, and no entry of that name in it: most of what is asked for and is not there,
    /// told by two short look-ups.
    fn is_plainly_absent(&self, key: &str) -> bool {
        let found = |path: &str, flags| rustix::fs::statat(&self.directory, path, flags);
        let folder = key.rsplit_once('/').map_or(".", |(folder, _)| folder);
        matches!(found(key, AtFlags::SYMLINK_NOFOLLOW), Err(rustix::io::Errno::NOENT))
            && found(folder, AtFlags::empty()).is_ok()
    }

    /// Opens what stands at a key, which `also` says more of: that of the root is empty.
    fn open_beneath(&self, key: &str, also: OFlags) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY | also;
        let path = if key.is_empty() { "." } else { key };
        if self.follow_links {
            return Ok(rustix::fs::openat(&self.directory, path, flags, Mode::empty())?);
        }
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), beneath) {
            Ok(file) => Ok(file),
            // XDEV: a link leads out, or is absolute; no openat2: old kernels and some sandboxes
            Err(rustix::io::Errno::XDEV | rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
                self.open_resolved(key, flags)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a path after resolving every link, if it lies inside the root.
    fn open_resolved(&self, key: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let path = self.canonical_root.join(key).canonicalize()?;
        if !path.starts_with(&self.canonical_root) {
            return Err(rustix::io::Errno::XDEV.into());
        }
        Ok(rustix::fs::openat(CWD, &path, flags | OFlags::NOFOLLOW, Mode::empty())?)
    }

    /// Returns the size and stamp of a file, `None` if it is absent or a link that leads nowhere.
    pub fn stat(&self, key: &str) -> Result<Option<ObjectStat>> {
        let seen = self.see(key)?;
        self.saw(key, || seen);
        match seen {
            Seen::Object(stat) => Ok(Some(stat)),
            Seen::Absent | Seen::Folder(_) => Ok(None),
        }
    }

    /// Returns what stands at a key now; one that ends in a slash is that of a folder, `/` that of the root.
    pub(super) fn see(&self, key: &str) -> Result<Seen> {
        let (path, is_folder) = match key.strip_suffix('/') {
            Some("") => (".", true),
            Some(folder) => (folder, true),
            None => (key, false),
        };
        match rustix::fs::statat(&self.directory, path, AtFlags::empty()) {
            Ok(stat) => {
                let stamp = stamp_of(&stat);
                let found_folder = FileType::from_raw_mode(stat.st_mode).is_dir();
                Ok(match (is_folder, found_folder) {
                    (true, true) => Seen::Folder(stamp),
                    (false, false) => Seen::Object(ObjectStat { size: stat.st_size.cast_unsigned(), stamp }),
                    (true, false) | (false, true) => Seen::Absent,
                })
            }
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(Seen::Absent),
            Err(error) => Err(io_error(&format!("could not look at {}", self.place(key)), error.into())),
        }
    }

    /// Asks the system to read a file into the page cache, unless it is there; nothing is said of failures, which reading it will
    /// meet again.
    pub(super) fn prefetch(&self, key: &str) -> Option<Prefetched> {
        let file = self.open_beneath(key, OFlags::empty()).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let bytes = stat.st_size.cast_unsigned();
        if !FileType::from_raw_mode(stat.st_mode).is_file() || bytes == 0 {
            return None;
        }
        // its end: headers may have been read before
        let byte = &mut [0];
        let read = preadv2(&file, &mut [IoSliceMut::new(byte)], bytes - 1, ReadWriteFlags::NOWAIT);
        // file systems that do not know it keep everything in memory, or must be asked
        let is_cached = read == Ok(1);
        if !is_cached {
            let _ = fadvise(&file, 0, NonZeroU64::new(bytes.min(PREFETCH_MOST)), Advice::WillNeed);
        }
        Some(Prefetched { bytes, is_cached })
    }

    /// Reads an object into `buffer`; returns `false` if it is absent.
    pub fn get(&self, key: &str, limit: u64, buffer: &mut Vec<u8>) -> Result<bool> {
        let Some((file, size)) = self.open_object(key)? else { return Ok(false) };
        if size > limit {
            return Err(too_large(&self.place(key), size, limit));
        }
        self.read_exactly(&file, key, 0, size, buffer)?;
        Ok(true)
    }

    /// Reads at most `length` bytes at `offset`; returns the object's size, or `None` if it is absent.
    pub fn get_range(
        &self,
        key: &str,
        offset: u64,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        let Some((file, size)) = self.open_object(key)? else { return Ok(None) };
        let length = length.min(size.saturating_sub(offset));
        self.read_exactly(&file, key, offset, length, buffer)?;
        Ok(Some(size))
    }

    /// Reads the last `length` bytes; returns the object's size, or `None` if it is absent.
    pub fn get_suffix(&self, key: &str, length: u64, buffer: &mut Vec<u8>) -> Result<Option<u64>> {
        let Some((file, size)) = self.open_object(key)? else { return Ok(None) };
        let length = length.min(size);
        self.read_exactly(&file, key, size - length, length, buffer)?;
        Ok(Some(size))
    }

    /// Fills `buffer` with `length` bytes at `offset`; a file that shrank meanwhile is an error.
    fn read_exactly(
        &self,
        file: &File,
        key: &str,
        offset: u64,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let wanted = saturating_usize(length);
        buffer.try_reserve_exact(wanted.saturating_sub(buffer.len())).map_err(|error| {
            Error::new(ErrorKind::OverBudget, format!("could not take memory for {}", self.place(key)))
                .with_source(error)
        })?;
        // old bytes are overwritten: a buffer that is reused is zeroed once
        buffer.resize(wanted, 0);
        let mut filled = 0;
        while filled < wanted {
            match rustix::io::pread(file, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => {
                    let message =
                        format!("could not read {}: it became shorter while it was read", self.place(key));
                    return Err(Error::new(ErrorKind::Unreadable, message));
                }
                Ok(read) => filled += read,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    return Err(io_error(&format!("could not read {}", self.place(key)), error.into()));
                }
            }
        }
        Ok(())
    }

    /// Reads many small objects, several at once.
    pub fn get_many(&self, keys: &[String], limit: u64) -> Vec<FetchResult> {
        keys.par_iter()
            .with_min_len(16)
            .map(|key| {
                let mut buffer = Vec::new();
                Ok(self.get(key, limit, &mut buffer)?.then(|| buffer.into()))
            })
            .collect()
    }

    /// Returns what a link leads to.
    fn behind_link(&self, path: &Path) -> Result<Found> {
        let Ok(target) = path.canonicalize() else {
            return Ok(Found::nothing(ObjectKind::DanglingLink));
        };
        let stat = rustix::fs::stat(&target)
            .map_err(|error| io_error(&format!("could not look at {}", path.display()), error.into()))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let inside = self.follow_links || target.starts_with(&self.canonical_root);
        let kind = match (kind.is_file() || kind.is_dir(), inside) {
            (false, _) => ObjectKind::Special,
            (true, true) => ObjectKind::Regular,
            (true, false) => ObjectKind::OutsideLink,
        };
        Ok(Found::of(kind, &stat))
    }

    /// Returns the entries directly below `prefix`, sorted; empty if it is absent.
    pub fn children(&self, prefix: &str) -> Result<Vec<Child>> {
        let path = self.canonical_root.join(prefix);
        let failed = |error: io::Error| io_error(&format!("could not list {}", path.display()), error);
        if let Some(log) = &self.seen {
            // before it is read: what is added meanwhile is a change
            let key = format!("{prefix}/");
            log.add(&key, self.see(&key)?);
        }
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(failed(error)),
        };
        let mut children = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let file_type = entry.file_type().map_err(failed)?;
            let name = match entry.file_name().into_string() {
                Ok(name) => name,
                // told, and never entered: the name with its marks is that of nothing
                Err(name) if file_type.is_dir() => {
                    let name = name.to_string_lossy().into_owned();
                    children.push(Child { name, kind: ChildKind::UnnameableDirectory });
                    continue;
                }
                Err(_) => continue,
            };
            let kind = if file_type.is_dir() {
                ChildKind::Directory
            } else if file_type.is_file() {
                ChildKind::Object(ObjectKind::Regular)
            } else if !file_type.is_symlink() {
                ChildKind::Object(ObjectKind::Special)
            } else {
                let Found { kind, .. } = self.behind_link(&entry.path())?;
                if kind == ObjectKind::Regular && entry.path().is_dir() {
                    if self.leads_in_a_circle(prefix, &entry.path()).map_err(failed)? {
                        continue;
                    }
                    ChildKind::LinkedDirectory
                } else {
                    ChildKind::Object(kind)
                }
            };
            children.push(Child { name, kind });
        }
        children.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(children)
    }

    /// Returns whether a link below `prefix` leads to a directory on the way to it, links resolved: such circles hold
    /// nothing new.
    fn leads_in_a_circle(&self, prefix: &str, link: &Path) -> io::Result<bool> {
        let target = link.canonicalize()?;
        let mut folder = self.canonical_root.clone();
        let mut circle = folder.starts_with(&target);
        for name in prefix.split('/').filter(|name| !name.is_empty()) {
            folder.push(name);
            circle |= folder.canonicalize()?.starts_with(&target);
        }
        Ok(circle)
    }

    /// Returns the path of an object, for messages and for tools that need one.
    pub fn path_of(&self, key: &str) -> PathBuf {
        self.root.join(join("", key))
    }
}

/// Why something could not be read: it is a link to what does not exist.
#[derive(Debug, thiserror::Error)]
#[error("it is a link to {}, which does not exist", .0.display())]
struct LinkToNothing(PathBuf);

/// Returns whether an error says that a link leads to nothing.
pub(crate) fn is_link_to_nothing(error: &Error) -> bool {
    let mut causes = std::iter::successors(std::error::Error::source(error), |&cause| cause.source());
    causes.any(|cause| cause.is::<LinkToNothing>())
}

/// Returns an error whose kind follows from the system's: absent, or unreadable.
fn io_error(message: &str, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::Absent,
        _ => ErrorKind::Unreadable,
    };
    Error::new(kind, message).with_source(error)
}

fn stamp_of(stat: &Stat) -> u64 {
    local_stamp(stat.st_mtime, stat.st_mtime_nsec.cast_signed(), stat.st_ino)
}

#[cfg(test)]
mod tests;
