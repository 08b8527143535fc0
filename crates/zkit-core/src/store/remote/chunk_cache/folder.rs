//! The folder of a chunk cache: entries that appear at once, and never more of them than its size.
//!
//! The files are all there is to know: a kill leaves at worst a file that nobody finishes, and a count that is too high, which
//! the next eviction puts right. Who adds or removes an entry holds the lock for a moment; who reads one needs none.

use std::collections::BinaryHeap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::entry;
use crate::error::{Error, ErrorKind, Result};
use crate::store::write_error;

/// Says what the folder is; backup programs know the name and the first line (<https://bford.info/cachedir/>).
const TAG_NAME: &str = "CACHEDIR.TAG";
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
    # Chunks that zkit read from object stores, version 1. All of it may be removed at any time.\n";
/// Holds the bytes of all files, and is locked while they change.
const COUNT_NAME: &str = "count";
/// How files end that are being written.
const UNFINISHED: &str = ".new";
/// Disks give files whole blocks.
const BLOCK_BYTES: u64 = 4096;
/// An eviction leaves a tenth free, so that it is seldom needed.
const KEPT_TENTHS: u64 = 9;
/// Where nobody can tell whether a file is still being written, it is left alone for so long.
const LONGEST_WRITE: Duration = Duration::from_secs(24 * 3600);

/// The folder of a chunk cache.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    most_bytes: u64,
    /// A count that was made before the machine started may have missed what was lost with its power.
    boot: String,
    /// Whether that was looked at: machines that share a folder were not started together.
    is_counted: AtomicBool,
    /// The kernel's lock is between processes, this one between threads.
    counting: Mutex<()>,
}

/// What became of an entry that was to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// It is there.
    Yes,
    /// It does not fit.
    NoRoom,
}

/// A file of the cache, as a walk finds it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) used: SystemTime,
    pub(super) path: PathBuf,
    /// Bytes that it takes of the disk.
    pub(super) bytes: u64,
}

/// Returns whether a folder is one of a chunk cache.
pub(super) fn is_ours(root: &Path) -> bool {
    fs::read_to_string(root.join(TAG_NAME)).is_ok_and(|text| text == TAG)
}

/// The bytes of all files, for as long as nobody else may change them.
struct Count<'a> {
    file: File,
    bytes: u64,
    folder: &'a Folder,
    _alone: MutexGuard<'a, ()>,
}

impl Folder {
    /// Opens the folder, or makes it.
    ///
    /// Errors: `Usage` for a folder that holds something else; `Unwritable` if it is absent and cannot be made.
    pub(super) fn open(root: &Path, most_bytes: u64) -> Result<Self> {
        match fs::read_to_string(root.join(TAG_NAME)) {
            Ok(text) if text == TAG => {}
            Ok(_) => return Err(foreign(root, TAG_NAME)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => found(root)?,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                let message = format!("could not keep chunks in {}: it is no folder", root.display());
                return Err(Error::new(ErrorKind::Usage, message));
            }
            Err(error) => return Err(write_error(root, "use", error)),
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = boot.trim().to_owned();
        Ok(Self {
            root: root.to_owned(),
            most_bytes,
            boot,
            is_counted: AtomicBool::new(false),
            counting: Mutex::new(()),
        })
    }

    /// Returns where the folder is.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the file of an entry.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Finds out whether entries can be added.
    pub(super) fn check_writable(&self) -> io::Result<()> {
        self.count_file().map(drop)
    }

    /// Adds an entry, in place of an older one; what was used least lately goes where there is no room.
    pub(super) fn add(&self, name: &str, head: &[u8], body: &[u8]) -> io::Result<Added> {
        let length = (head.len() + body.len()) as u64;
        let bytes = charge(length);
        let Some((mut file, unfinished)) = self.begin(name, length)? else { return Ok(Added::NoRoom) };
        match entry::write(&mut file, head, body) {
            Ok(()) => self.finish(name, &unfinished)?,
            Err(error) => {
                let mut count = self.count()?;
                fs::remove_file(&unfinished)?;
                count.set(count.bytes.saturating_sub(bytes))?;
                return Err(error);
            }
        }
        Ok(Added::Yes)
    }

    /// Makes room, and a file that takes it; the file is locked for as long as it is open, so that others know that it is
    /// being written.
    fn begin(&self, name: &str, length: u64) -> io::Result<Option<(File, PathBuf)>> {
        let bytes = charge(length);
        let mut count = self.count()?;
        if !count.make_room(bytes)? {
            return Ok(None);
        }
        // first the count: a kill between the two makes it too high, never too low
        let before = count.bytes;
        count.set(before.saturating_add(bytes))?;
        let made = self.create(name).and_then(|(file, path)| {
            // those that count see its whole length
            file.set_len(length).map(|()| (file, path.clone())).inspect_err(|_| {
                let _ = fs::remove_file(path);
            })
        });
        if made.is_err() {
            count.set(before)?;
        }
        made.map(Some)
    }

    fn create(&self, name: &str) -> io::Result<(File, PathBuf)> {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = self.path(&format!("{name}.{:x}-{number:x}-{now:x}{UNFINISHED}", std::process::id()));
        let create = || OpenOptions::new().write(true).create_new(true).open(&path);
        let file = match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = path.parent().unwrap_or(&self.root);
                match fs::create_dir(folder) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => create()?,
                }
            }
            other => other?,
        };
        // a file system without locks: see `is_abandoned`
        let _ = file.try_lock();
        Ok((file, path))
    }

    fn finish(&self, name: &str, unfinished: &Path) -> io::Result<()> {
        let path = self.path(name);
        let mut count = self.count()?;
        let replaced = path.symlink_metadata().map_or(0, |metadata| charge(metadata.len()));
        fs::rename(unfinished, &path)?;
        if replaced > 0 {
            count.set(count.bytes.saturating_sub(replaced))?;
        }
        Ok(())
    }

    fn count_file(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.path(COUNT_NAME))
    }

    /// Returns the count, once nobody else has it.
    fn count(&self) -> io::Result<Count<'_>> {
        let alone = self.counting.lock().expect("no thread panics while it counts");
        let file = self.count_file()?;
        match file.lock() {
            // without locks other processes may add more than the size; nothing else goes wrong
            Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
            _ => {}
        }
        let mut text = [0; 128];
        let length = file.read_at(&mut text, 0)?;
        let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
        let is_counted = self.is_counted.swap(true, Ordering::Relaxed);
        let bytes = text.trim_end().split_once(' ').filter(|(_, boot)| is_counted || *boot == self.boot);
        let bytes = bytes.and_then(|(bytes, _)| bytes.parse().ok());
        let mut count = Count { file, bytes: bytes.unwrap_or_default(), folder: self, _alone: alone };
        if bytes.is_none() {
            let mut sum = 0_u64;
            self.walk(&mut |place| sum = sum.saturating_add(place.bytes))?;
            count.set(sum)?;
        }
        Ok(count)
    }

    /// Calls `visit` for every entry and every file that is being written, and removes what dead runs left. Only who has the
    /// count may call it.
    ///
    /// What is not named as files of the cache are is left alone.
    fn walk(&self, visit: &mut dyn FnMut(Place)) -> io::Result<()> {
        walk(&self.root, &mut |place, kind| {
            if kind == FileKind::Unfinished && is_abandoned(&place) {
                fs::remove_file(&place.path).or_else(unless_gone)?;
            } else {
                visit(place);
            }
            Ok(())
        })
    }
}

impl Count<'_> {
    fn set(&mut self, bytes: u64) -> io::Result<()> {
        // one write of the same few bytes each time: nobody reads half of it
        self.file.write_all_at(format!("{bytes:020} {}\n", self.folder.boot).as_bytes(), 0)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Evicts what was used least lately until `needed` more bytes fit; returns whether they do.
    fn make_room(&mut self, needed: u64) -> io::Result<bool> {
        let most = self.folder.most_bytes;
        if needed > most {
            return Ok(false);
        }
        // twice: the first walk may find that the count was wrong
        for _ in 0..2 {
            if self.bytes.saturating_add(needed) <= most {
                return Ok(true);
            }
            self.evict(needed)?;
        }
        Ok(self.bytes.saturating_add(needed) <= most)
    }

    fn evict(&mut self, needed: u64) -> io::Result<()> {
        let most = self.folder.most_bytes;
        let aim = (most / 10).saturating_mul(KEPT_TENTHS);
        // of all entries the oldest are remembered, no more than may have to go
        let wanted = self.bytes.saturating_add(needed).saturating_sub(aim);
        let (mut oldest, mut oldest_bytes, mut sum) = (BinaryHeap::<Place>::new(), 0_u64, 0_u64);
        self.folder.walk(&mut |place| {
            sum = sum.saturating_add(place.bytes);
            if is_unfinished(&place.path) {
                return;
            }
            oldest_bytes = oldest_bytes.saturating_add(place.bytes);
            oldest.push(place);
            while let Some(newest) = oldest.peek()
                && oldest_bytes.saturating_sub(newest.bytes) >= wanted
            {
                oldest_bytes -= newest.bytes;
                oldest.pop();
            }
        })?;
        let mut excess = 0;
        if sum.saturating_add(needed) > most {
            excess = sum.saturating_add(needed).saturating_sub(aim);
        }
        for place in oldest.into_sorted_vec() {
            if excess == 0 {
                break;
            }
            fs::remove_file(&place.path).or_else(unless_gone)?;
            excess = excess.saturating_sub(place.bytes);
            sum = sum.saturating_sub(place.bytes);
        }
        // last: a kill before it leaves a count that is too high
        self.set(sum)
    }
}

/// What a file of the cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    Entry,
    Unfinished,
}

/// Calls `visit` for all files of a cache.
fn walk(root: &Path, visit: &mut dyn FnMut(Place, FileKind) -> io::Result<()>) -> io::Result<()> {
    for number in 0..=u8::MAX {
        let folder = match fs::read_dir(root.join(format!("{number:02x}"))) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for found in folder {
            let found = found?;
            let name = found.file_name();
            let Some(kind) = name.to_str().and_then(kind_of) else { continue };
            let metadata = match found.metadata() {
                Ok(metadata) if metadata.is_file() => metadata,
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let used = UNIX_EPOCH + Duration::new(metadata.mtime().try_into().unwrap_or(0), 0);
            let used = metadata.modified().unwrap_or(used);
            visit(Place { used, path: found.path(), bytes: charge(metadata.len()) }, kind)?;
        }
    }
    Ok(())
}

fn kind_of(name: &str) -> Option<FileKind> {
    let (digits, rest) = name.split_at_checked(30)?;
    match rest {
        _ if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => None,
        "" => Some(FileKind::Entry),
        rest if rest.starts_with('.') && rest.ends_with(UNFINISHED) => Some(FileKind::Unfinished),
        _ => None,
    }
}

fn is_unfinished(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(UNFINISHED.as_bytes())
}

/// Returns whether nobody writes a file any more.
fn is_abandoned(place: &Place) -> bool {
    match File::open(&place.path).map(|file| file.try_lock()) {
        Ok(Ok(())) => true,
        Ok(Err(TryLockError::WouldBlock)) => false,
        _ => place.used.elapsed().is_ok_and(|age| age > LONGEST_WRITE),
    }
}

fn unless_gone(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Returns the bytes that a file takes of the disk.
fn charge(length: u64) -> u64 {
    length.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)
}

/// Makes a folder a chunk cache, if it holds nothing else.
fn found(root: &Path) -> Result<()> {
    let failed = |error| write_error(root, "make", error);
    // what is kept may be private: who shares it makes the folder beforehand, as open as they like
    DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(failed)?;
    for entry in fs::read_dir(root).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        // another run may be making it at this moment
        let is_ours = name.to_str().is_some_and(|name| {
            name == COUNT_NAME || name.starts_with(TAG_NAME) || u8::from_str_radix(name, 16).is_ok()
        });
        if !is_ours {
            return Err(foreign(root, &name.to_string_lossy()));
        }
    }
    let unfinished = root.join(format!("{TAG_NAME}.{:x}{UNFINISHED}", std::process::id()));
    fs::write(&unfinished, TAG).and_then(|()| fs::rename(&unfinished, root.join(TAG_NAME))).map_err(failed)
}

fn foreign(root: &Path, name: &str) -> Error {
    let message = format!(
        "could not keep chunks in {}: it holds `{name}`, which no chunk cache of this version does",
        root.display()
    );
    Error::new(ErrorKind::Usage, message).with_hint("name an empty folder, or one that does not exist")
}
