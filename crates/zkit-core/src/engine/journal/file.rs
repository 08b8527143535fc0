//! The journal's file: its lock, what it holds, and appending to it.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};

use super::header::Header;
use super::record::{Entry, Publishing, RECORD_BYTES, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::grid::ChunkSet;
use crate::store::write_error;

/// Records that are read at once.
const BATCH: usize = 8192;
/// How often a lock is asked for before another run is said to have it, and the pause between: whoever looks holds it for a
/// moment.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// As many bytes as tell a journal from other files.
const BEGIN_BYTES: u64 = 64;

/// A journal that this run alone writes; safe to share between threads.
///
/// The lock is the kernel's, and goes with the process. File systems without locks are tolerated.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Of the header: ties records to it.
    seed: u64,
    arrays: usize,
    /// Where the records begin.
    start: u64,
    records: AtomicU64,
    /// After a write that failed half-way nothing may follow it.
    broken: AtomicBool,
}

impl Drop for Journal {
    fn drop(&mut self) {
        // at once, even if a program that is being started holds the file until it runs (fork before exec)
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// What a journal held when it was opened.
#[derive(Debug)]
pub struct Contents {
    /// What the run was asked.
    pub header: Header,
    /// The chunks that were recorded, for each array; not checked yet.
    pub done: Vec<ChunkSet>,
    /// The last mark before publishing.
    pub publishing: Option<Publishing>,
    /// Whether the source changed while it was read.
    pub source_changed: bool,
    /// How many records there are.
    pub records: u64,
    /// Bytes that were cut off at the end, as they were torn or damaged.
    pub cut_bytes: u64,
}

/// A journal that another run began.
#[derive(Debug)]
pub struct Opened {
    /// To be gone on with.
    pub journal: Journal,
    /// What it holds.
    pub contents: Contents,
}

impl Journal {
    /// Makes a journal that is not there yet, locks it and writes its header, synced.
    ///
    /// Errors: `Conflict` if it exists; `Unwritable`.
    pub fn create(path: &Path, header: &Header) -> Result<Self> {
        let flags = OFlags::CREATE | OFlags::EXCL;
        let file = open_file(path, flags).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => busy(path),
            _ => write_error(path, "create", error),
        })?;
        let mut journal = Self::lock(path, file)?.ok_or_else(|| busy(path))?;
        let line = header.to_line();
        // another run may have locked it first, and have died
        let empty = journal.len().map_err(|error| write_error(path, "create", error))? == 0;
        if !empty {
            return Err(busy(path));
        }
        (&journal.file).write_all(line.as_bytes()).and_then(|()| journal.file.sync_all()).map_err(
            |error| {
                let _ = std::fs::remove_file(path);
                write_error(path, "write", error)
            },
        )?;
        journal.begin(header, line.len() as u64);
        Ok(journal)
    }

    /// Opens and locks a journal, and reads what it holds; a torn end is cut off.
    ///
    /// Cost: one pass over the file. Errors: `Absent`; `Conflict` if another run has it; `Unsupported` for another
    /// version; `Corrupt` for a damaged header.
    pub fn open(path: &Path) -> Result<Opened> {
        let absent = || Error::new(ErrorKind::Absent, format!("there is no journal {}", path.display()));
        let mut journal = Self::find(path)?.ok_or_else(absent)?;
        let contents = journal.contents()?.ok_or_else(absent)?;
        Ok(Opened { journal, contents })
    }

    /// Returns a journal, locked but not read yet, or `None` if there is none.
    ///
    /// Errors: `Conflict` if another run has it; `Unwritable`.
    pub fn find(path: &Path) -> Result<Option<Self>> {
        loop {
            let file = match open_file(path, OFlags::empty()) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(write_error(path, "open", error)),
            };
            if let Some(journal) = Self::lock(path, file)? {
                return Ok(Some(journal));
            }
            // the run that had it removed it meanwhile: look again
        }
    }

    /// Returns whether it is a journal at all, by its first bytes: those of one that was just begun may be missing.
    pub fn is_ours(&self) -> Result<bool> {
        begins_as_ours(&self.path, &self.file)
    }

    /// Returns whether a run has a journal, or `None` if there is none, or it is none of ours; no run that begins in this moment
    /// is refused for it, and others may look at the same time.
    ///
    /// Errors: `Unreadable`.
    pub fn is_held(path: &Path) -> Result<Option<bool>> {
        let unreadable = |error: io::Error| {
            Error::new(ErrorKind::Unreadable, format!("could not look at the journal {}", path.display()))
                .with_source(error)
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(unreadable(error.into())),
        };
        let is_held = match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                rustix::fs::flock(&file, FlockOperation::Unlock).map_err(|error| unreadable(error.into()))?;
                false
            }
            Err(rustix::io::Errno::NOLCK | rustix::io::Errno::NOTSUP) => false,
            Err(rustix::io::Errno::WOULDBLOCK) => true,
            Err(error) => return Err(unreadable(error.into())),
        };
        Ok(begins_as_ours(path, &file)?.then_some(is_held))
    }

    /// Returns what a journal holds and makes it ready for more, or `None` if not even its header was written.
    ///
    /// Errors: as [`Self::open`]; `Conflict` if the file is no journal.
    pub fn contents(&mut self) -> Result<Option<Contents>> {
        let unreadable = |path: &Path, error: io::Error| {
            Error::new(ErrorKind::Unreadable, format!("could not read the journal {}", path.display()))
                .with_source(error)
        };
        let mut line = Vec::new();
        BufReader::new(FileFrom { file: &self.file, at: 0 })
            .read_until(b'\n', &mut line)
            .map_err(|error| unreadable(&self.path, error))?;
        let start = line.len() as u64;
        if !Header::may_begin_with(&line) {
            let message = format!("{} is in the way, and was not left by zkit", self.path.display());
            return Err(Error::new(ErrorKind::Conflict, message)
                .with_hint("remove it yourself, or name another destination"));
        }
        if line.pop() != Some(b'\n') {
            return Ok(None);
        }
        let header = Header::parse_line(&line, &self.path.display().to_string())?;
        self.begin(&header, start);
        let mut done = vec![ChunkSet::default(); header.arrays.len()];
        let (mut publishing, mut source_changed, mut records) = (None, false, 0);
        let end = self
            .scan(|entries| {
                for entry in entries {
                    match entry {
                        Entry::Publishing(mark) => publishing = Some(*mark),
                        Entry::SourceChanged => source_changed = true,
                        Entry::Done(record) => {
                            done[record.array as usize].insert(record.chunk);
                            records += 1;
                        }
                        Entry::Arrived(..) => {}
                    }
                }
                Ok(())
            })
            .map_err(|error| unreadable(&self.path, error))?;
        let cut_bytes = self.len().map_err(|error| unreadable(&self.path, error))?.saturating_sub(end);
        if cut_bytes > 0 {
            self.file.set_len(end).map_err(|error| write_error(&self.path, "repair", error))?;
        }
        *self.records.get_mut() = records;
        Ok(Some(Contents { header, done, publishing, source_changed, records, cut_bytes }))
    }

    /// Adds what a unit has done; any thread may call it, each call is one write.
    ///
    /// Not synced: a record that outlives its object is found by [`super::check_objects`].
    pub fn append(&self, records: &[Record]) -> Result<()> {
        let mut buffer = Vec::with_capacity(records.len() * RECORD_BYTES);
        for record in records {
            Entry::Done(*record).write(self.seed, &mut buffer);
        }
        self.write(&buffer)?;
        self.records.fetch_add(records.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Adds the mark that the store is complete and about to be renamed, and syncs the journal.
    pub fn mark_publishing(&self, mark: Publishing) -> Result<()> {
        self.mark(Entry::Publishing(mark))
    }

    /// Adds the mark that the source changed while it was read, and syncs the journal: no run goes on with it.
    pub fn mark_source_changed(&self) -> Result<()> {
        self.mark(Entry::SourceChanged)
    }

    fn mark(&self, mark: Entry) -> Result<()> {
        let mut buffer = Vec::with_capacity(RECORD_BYTES);
        mark.write(self.seed, &mut buffer);
        self.write(&buffer)?;
        self.file.sync_all().map_err(|error| write_error(&self.path, "sync", error))
    }

    /// Visits all records in batches, in the order in which they were added; one chunk may come more than once.
    ///
    /// The journal is read anew, so that its records need no memory.
    pub fn visit(&self, mut visit: impl FnMut(&[Record]) -> Result<()>) -> Result<()> {
        let mut failure = None;
        let mut records = Vec::with_capacity(BATCH);
        let scanned = self.scan(|entries| {
            records.clear();
            records.extend(entries.iter().filter_map(|entry| match entry {
                Entry::Done(record) => Some(*record),
                Entry::Publishing(_) | Entry::SourceChanged | Entry::Arrived(..) => None,
            }));
            visit(&records).map_err(|error| {
                failure = Some(error);
                io::Error::other("stopped")
            })
        });
        match (failure, scanned) {
            (Some(error), _) => Err(error),
            (None, Ok(_)) => Ok(()),
            (None, Err(error)) => {
                let message = format!("could not read the journal {}", self.path.display());
                Err(Error::new(ErrorKind::Unreadable, message).with_source(error))
            }
        }
    }

    /// Returns how many records there are, those of earlier runs included.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Returns how many arrays the header names.
    pub fn arrays(&self) -> usize {
        self.arrays
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file; the lock holds until the journal is dropped.
    pub fn remove(&self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(|error| write_error(&self.path, "remove", error))
    }

    /// Locks an open file; `None` if it is no longer what the path names.
    fn lock(path: &Path, file: File) -> Result<Option<Self>> {
        let mut tries = 1;
        let locked = loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) if tries < LOCK_TRIES => {
                    tries += 1;
                    std::thread::sleep(LOCK_PAUSE);
                }
                locked => break locked,
            }
        };
        match locked {
            // network file systems without locks: there is nothing to tell two runs apart by
            Ok(()) | Err(rustix::io::Errno::NOLCK | rustix::io::Errno::NOTSUP) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(busy(path)),
            Err(error) => return Err(write_error(path, "lock", error.into())),
        }
        let ours = file.metadata().map_err(|error| write_error(path, "lock", error))?;
        let same = std::fs::symlink_metadata(path)
            .is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino()));
        Ok(same.then(|| Self {
            path: path.to_owned(),
            file,
            seed: 0,
            arrays: 0,
            start: 0,
            records: AtomicU64::new(0),
            broken: AtomicBool::new(false),
        }))
    }

    fn begin(&mut self, header: &Header, start: u64) {
        (self.seed, self.arrays, self.start) = (header.hash(), header.arrays.len(), start);
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Appends bytes with one call; a part of them at the end of the file is never followed by others.
    fn write(&self, bytes: &[u8]) -> Result<()> {
        if self.broken.load(Ordering::Acquire) {
            let message = format!("could not write {}: an earlier write to it failed", self.path.display());
            return Err(Error::new(ErrorKind::Unwritable, message));
        }
        let written = loop {
            match (&self.file).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let error = match written {
            Ok(count) if count == bytes.len() => return Ok(()),
            // what stops a write half-way is a full disk
            Ok(count) => {
                let message = format!("only {count} of {} bytes were taken", bytes.len());
                io::Error::new(io::ErrorKind::StorageFull, message)
            }
            Err(error) => error,
        };
        self.broken.store(true, Ordering::Release);
        Err(write_error(&self.path, "write", error))
    }

    /// Visits entries in batches up to the first that is none; returns where that is.
    fn scan(&self, mut visit: impl FnMut(&[Entry]) -> io::Result<()>) -> io::Result<u64> {
        let mut bytes = vec![0; BATCH * RECORD_BYTES];
        let mut entries = Vec::with_capacity(BATCH);
        let mut at = self.start;
        loop {
            let filled = fill(&mut FileFrom { file: &self.file, at }, &mut bytes)?;
            entries.clear();
            let (chunks, _) = bytes[..filled].as_chunks::<RECORD_BYTES>();
            entries.extend(chunks.iter().map_while(|chunk| {
                Entry::parse(chunk, self.seed).filter(|entry| match entry {
                    Entry::Done(record) => (record.array as usize) < self.arrays,
                    Entry::Publishing(_) | Entry::SourceChanged => true,
                    Entry::Arrived(..) => false,
                })
            }));
            visit(&entries)?;
            at += (entries.len() * RECORD_BYTES) as u64;
            if entries.len() < BATCH {
                return Ok(at);
            }
        }
    }
}

fn begins_as_ours(path: &Path, file: &File) -> Result<bool> {
    let mut begin = Vec::new();
    FileFrom { file, at: 0 }.take(BEGIN_BYTES).read_to_end(&mut begin).map_err(|error| {
        Error::new(ErrorKind::Unreadable, format!("could not read the journal {}", path.display()))
            .with_source(error)
    })?;
    Ok(Header::may_begin_with(&begin))
}

/// Reads a file from a place on, whatever its cursor.
struct FileFrom<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FileFrom<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Reads until the buffer is full or the reader at its end.
pub(super) fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn open_file(path: &Path, how: OFlags) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW | how;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(0o666))?.into())
}

fn busy(path: &Path) -> Error {
    let message = format!("another run is writing {} at this moment", path.display());
    Error::new(ErrorKind::Conflict, message).with_hint("wait for it, or name another destination")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::header::tests::sample;
    use super::super::record::{Identity, ObjectDigest};
    use super::*;

    fn record(array: u32, chunk: u64) -> Record {
        Record { array, chunk, object: Some(ObjectDigest::of(&chunk.to_le_bytes())), decoded_xxh3: chunk }
    }

    fn append_raw(path: &Path, bytes: &[u8]) {
        File::options().append(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    #[test]
    fn what_was_appended_by_many_threads_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let journal = Journal::create(&path, &sample(1)).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let journal = &journal;
                scope.spawn(move || {
                    for unit in 0..100 {
                        let chunks = (0..7).map(|chunk| record(1, (unit * 7 + chunk) * 4 + thread));
                        journal.append(&chunks.collect::<Vec<_>>()).unwrap();
                    }
                });
            }
        });
        assert_eq!(journal.records(), 2800);
        drop(journal);
        let Opened { journal, contents } = Journal::open(&path).unwrap();
        assert_eq!(contents.header, sample(1));
        assert!(contents.done[0].is_empty() && contents.done[1].iter().eq(0..2800));
        assert_eq!((contents.records, contents.cut_bytes, contents.publishing), (2800, 0, None));
        let mut seen = 0;
        journal
            .visit(|records| {
                assert!(records.iter().all(|found| *found == record(1, found.chunk)));
                seen += records.len();
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, 2800);
    }

    #[test]
    fn a_torn_end_is_cut_and_appending_goes_on_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let mark = Publishing { partial: Identity { inode: 1, born: 2 }, replaced: None };
        let journal = Journal::create(&path, &sample(1)).unwrap();
        journal.append(&[record(0, 1), record(0, 2)]).unwrap();
        journal.mark_publishing(mark).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        let start = whole.len() - 3 * RECORD_BYTES;
        for length in start..=whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let Opened { journal, contents } = Journal::open(&path).unwrap();
            let full = (length - start) / RECORD_BYTES;
            assert_eq!(contents.done[0].len(), full.min(2) as u64);
            assert_eq!(contents.publishing, (full == 3).then_some(mark));
            assert_eq!(contents.cut_bytes, ((length - start) % RECORD_BYTES) as u64);
            journal.append(&[record(0, 9)]).unwrap();
            drop(journal);
            let again = Journal::open(&path).unwrap().contents;
            assert!(again.done[0].contains(9) && again.cut_bytes == 0);
        }
        std::fs::write(&path, &whole).unwrap();
        append_raw(&path, &[0; RECORD_BYTES * 2]);
        assert_eq!(Journal::open(&path).unwrap().contents.cut_bytes, 2 * RECORD_BYTES as u64);
    }

    #[test]
    fn a_torn_header_is_no_journal_and_one_run_at_a_time_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        assert_eq!(Journal::open(&path).unwrap_err().kind(), ErrorKind::Absent);
        let journal = Journal::create(&path, &sample(1)).unwrap();
        assert_eq!(Journal::open(&path).unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(Journal::create(&path, &sample(1)).unwrap_err().kind(), ErrorKind::Conflict);
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(Journal::open(&path).unwrap_err().kind(), ErrorKind::Absent);
        for foreign in ["something else\n", "zkit-jam"] {
            std::fs::write(&path, foreign).unwrap();
            assert_eq!(Journal::open(&path).unwrap_err().kind(), ErrorKind::Conflict);
        }
    }

    #[test]
    fn a_write_that_fails_is_named_and_nothing_follows_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let mut journal = Journal::create(&path, &sample(1)).unwrap();
        journal.file = File::options().append(true).open("/dev/full").unwrap();
        let error = journal.append(&[record(0, 1)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unwritable);
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert!(error.hint().unwrap().contains("free some space"));
        assert_eq!(journal.records(), 0);
        journal.file = File::options().append(true).open(&path).unwrap();
        assert_eq!(journal.append(&[record(0, 1)]).unwrap_err().kind(), ErrorKind::Unwritable);
    }
}
