//! A journal in an object store: its header is one object, and records follow in segments of their own.
//!
//! Objects cannot be appended to, so records are gathered and written a second's worth at a time. A segment is written
//! once everything that was on its way when it was begun has arrived: what a segment names is there. The other way round each
//! object carries its record as a label: what arrived and is in no segment yet is asked for it, so that a run which is killed
//! loses nothing that has arrived.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::header::Header;
use super::record::{Entry, ObjectDigest, RECORD_BYTES, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::grid::ChunkSet;
use crate::store::{Arrived, Conditional, MarkedUpload, RemoteStore, RemoteWriter, Sent, UploadRoom};

const HEADER_KEY: &str = "header";
const SEGMENTS: &str = "records";
/// A segment is begun after this time, or with so many bytes of records.
const SEGMENT_AFTER: Duration = Duration::from_secs(1);
const SEGMENT_BYTES: usize = 1 << 20;
/// A segment that takes longer to write says that the store is slow.
const SEGMENT_TIME: Duration = Duration::from_secs(60);
/// A header of more bytes is none of ours.
const HEADER_LIMIT: u64 = 1 << 30;
/// Segments that are read at once.
const READ_AT_ONCE: usize = 64;
/// Of so many objects that listings do not tell from others one is read back before a run goes on.
const SAMPLE_ONE_IN: u64 = 100;
/// And so many of each array at least.
const SAMPLE_LEAST: u64 = 16;

/// A journal that this run alone writes; safe to share between threads. The lock is another object's affair.
#[derive(Debug)]
pub struct ObjectJournal {
    writer: RemoteWriter,
    arrays: usize,
    /// Records that a segment holds by now, and those that were added.
    records: Arc<AtomicU64>,
    added: AtomicU64,
    current: Mutex<Current>,
    /// After a failed write nothing is recorded any more: which object is missing is not known.
    failed: Arc<AtomicBool>,
    /// Sets the segments of one run apart from those of another.
    run: String,
    /// Of the header: ties entries to it.
    seed: u64,
}

#[derive(Debug)]
struct Current {
    segment: Arc<Segment>,
    begun: Instant,
    number: u64,
}

/// Records that are gathered, and written when nobody holds them any more: neither the journal nor an object on its way.
#[derive(Debug)]
pub(in crate::engine) struct Segment {
    key: String,
    /// Of the header: ties entries to it.
    seed: u64,
    gathered: Mutex<Gathered>,
    writer: RemoteWriter,
    records: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
    /// The next one waits for this one: it may hold records of objects that this one waits for.
    next: Mutex<Option<Arc<Segment>>>,
}

/// What a segment will hold.
#[derive(Debug, Default)]
struct Gathered {
    entries: Vec<u8>,
    /// Of these, what is done; the others say how objects arrived.
    records: u64,
    /// Marks of what was sent in parts, which hold the records as long as the segment is not written.
    marks: Vec<String>,
}

impl Segment {
    /// Says what became of an object that the segment waits for: how the server has it, or that it did not arrive.
    pub(in crate::engine) fn ended(&self, array: u32, chunk: u64, sent: Option<Sent>) {
        match sent {
            Some(Sent { arrived, mark }) => {
                let mut gathered = self.lock();
                Entry::Arrived(array, chunk, arrived).write(self.seed, &mut gathered.entries);
                gathered.marks.extend(mark);
            }
            None => self.failed.store(true, Ordering::Release),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let gathered = self.gathered.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Gathered { entries, records: count, marks } = std::mem::take(gathered);
        if entries.is_empty() || self.failed.load(Ordering::Acquire) {
            return;
        }
        let (records, writer) = (Arc::clone(&self.records), self.writer.clone());
        self.writer.start_small_put(std::mem::take(&mut self.key), entries.into(), move |sent| {
            if sent.is_some() {
                records.fetch_add(count, Ordering::Relaxed);
                marks.into_iter().for_each(|mark| writer.start_remove_mark(mark));
            }
        });
    }
}

/// What a journal in an object store held when it was opened.
#[derive(Debug)]
pub struct ObjectContents {
    /// What the run was asked.
    pub header: Header,
    /// The chunks that have an object, for each array; not checked yet.
    pub objects: Vec<ChunkSet>,
    /// The chunks that need none, as all of them is fill.
    pub left_out: Vec<ChunkSet>,
    /// How objects arrived, for each array by chunk and sorted; of one that was written twice both. None are known of objects
    /// that an earlier version sent.
    pub arrived: Vec<Vec<(u64, Arrived)>>,
    /// A fair part of the records of objects, by array and chunk: to be compared with what is there.
    pub sample: BTreeMap<(u32, u64), ObjectDigest>,
    /// How many records there are.
    pub records: u64,
    /// What marks of objects in parts say of them; to be compared with what is there.
    pub marked: Vec<MarkedUpload>,
}

impl ObjectContents {
    /// Returns the record that the label of an object holds, if it is of this job.
    pub(super) fn labelled(&self, label: &[u8]) -> Option<Record> {
        match Entry::parse(label.try_into().ok()?, self.header.hash())? {
            Entry::Done(record) => Some(record),
            Entry::Arrived(..) | Entry::Publishing(_) | Entry::SourceChanged => None,
        }
    }

    /// Adds an entry; of one chunk the last one counts.
    fn add(&mut self, entry: Entry) {
        let record = match entry {
            Entry::Done(record) => record,
            Entry::Arrived(array, chunk, arrived) => {
                if let Some(of_array) = self.arrived.get_mut(array as usize) {
                    of_array.push((chunk, arrived));
                }
                return;
            }
            Entry::Publishing(_) | Entry::SourceChanged => return,
        };
        let at = record.array as usize;
        let (Some(objects), Some(left_out)) = (self.objects.get_mut(at), self.left_out.get_mut(at)) else {
            return;
        };
        self.records += 1;
        let Some(digest) = record.object else {
            left_out.insert(record.chunk);
            return;
        };
        objects.insert(record.chunk);
        let drawn = xxhash_rust::xxh3::xxh3_64(&record.chunk.to_le_bytes()).is_multiple_of(SAMPLE_ONE_IN);
        let known = self.sample.contains_key(&(record.array, record.chunk));
        if drawn || known || objects.len() <= SAMPLE_LEAST {
            self.sample.insert((record.array, record.chunk), digest);
        }
    }
}

impl ObjectJournal {
    /// Writes the header of a new journal below `store`'s prefix.
    ///
    /// Errors: `Conflict` if there is one; `Unwritable`.
    pub fn create(store: &RemoteStore, header: &Header, run: &str) -> Result<Self> {
        let line = Bytes::from(header.to_line());
        match store.create_blocking(HEADER_KEY, line)? {
            Conditional::Written(_) => Ok(Self::over(store, header, 0, run)),
            Conditional::Refused => {
                let message = format!("another run is writing {} at this moment", store.place());
                Err(Error::new(ErrorKind::Conflict, message)
                    .with_hint("wait for it, or name another destination"))
            }
        }
    }

    /// Reads a journal, or returns `None` if there is none.
    ///
    /// Cost: one listing, and a request a segment. Errors: `Unsupported` for another version, `Corrupt` for a damaged
    /// header.
    pub fn read(store: &RemoteStore) -> Result<Option<ObjectContents>> {
        let Some(line) = store.get_blocking(HEADER_KEY, HEADER_LIMIT)? else { return Ok(None) };
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let header = Header::parse_line(line, store.place())?;
        let seed = header.hash();
        let mut keys: Vec<String> =
            store.children(SEGMENTS)?.into_iter().map(|child| format!("{SEGMENTS}/{}", child.name)).collect();
        keys.sort_unstable();
        let none = vec![ChunkSet::default(); header.arrays.len()];
        let (objects, left_out, arrived) = (none.clone(), none, vec![Vec::new(); header.arrays.len()]);
        let sample = BTreeMap::new();
        let (records, marked) = (0, Vec::new());
        let mut contents = ObjectContents { header, objects, left_out, arrived, sample, records, marked };
        for keys in keys.chunks(READ_AT_ONCE) {
            for segment in store.get_many(keys, HEADER_LIMIT) {
                let Some(segment) = segment? else { continue };
                let (entries, _) = segment.as_chunks::<RECORD_BYTES>();
                entries
                    .iter()
                    .filter_map(|entry| Entry::parse(entry, seed))
                    .for_each(|entry| contents.add(entry));
            }
        }
        contents.arrived.iter_mut().for_each(|of_array| of_array.sort_unstable());
        Ok(Some(contents))
    }

    /// Returns the journal of a run that goes on with another's.
    pub fn resume(store: &RemoteStore, contents: &ObjectContents, run: &str) -> Self {
        Self::over(store, &contents.header, contents.records, run)
    }

    fn over(store: &RemoteStore, header: &Header, records: u64, run: &str) -> Self {
        // segments are small and few: they wait for nothing
        let writer = RemoteWriter::new(store.clone(), &UploadRoom::new(u64::MAX, SEGMENT_TIME));
        let (records, failed) = (Arc::new(AtomicU64::new(records)), Arc::default());
        let segment = Arc::new(Segment {
            key: segment_key(run, 0),
            seed: header.hash(),
            gathered: Mutex::default(),
            writer: writer.clone(),
            records: Arc::clone(&records),
            failed: Arc::clone(&failed),
            next: Mutex::default(),
        });
        Self {
            writer,
            arrays: header.arrays.len(),
            added: AtomicU64::new(records.load(Ordering::Relaxed)),
            records,
            current: Mutex::new(Current { segment, begun: Instant::now(), number: 0 }),
            failed,
            run: run.to_owned(),
            seed: header.hash(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what an object that is about to be sent holds until it has arrived.
    pub(in crate::engine) fn token(&self) -> Arc<Segment> {
        Arc::clone(&self.lock().segment)
    }

    /// Returns what the object of a record is to carry.
    pub(in crate::engine) fn label(&self, record: &Record) -> Vec<u8> {
        let mut label = Vec::with_capacity(RECORD_BYTES);
        Entry::Done(*record).write(self.seed, &mut label);
        label
    }

    /// Adds objects of a run that died, which are in none of its segments.
    pub fn adopt(&self, found: &[(Record, Arrived)]) {
        let records: Vec<Record> = found.iter().map(|(record, _)| *record).collect();
        let token = self.token();
        for (record, arrived) in found {
            token.ended(record.array, record.chunk, Some(Sent { arrived: *arrived, mark: None }));
        }
        self.append(&records);
    }

    /// Adds what is done; of objects that are on their way their tokens must have been taken before.
    pub(in crate::engine) fn append(&self, records: &[Record]) {
        self.added.fetch_add(records.len() as u64, Ordering::Relaxed);
        let mut current = self.lock();
        let full = {
            let mut gathered = current.segment.lock();
            for record in records {
                Entry::Done(*record).write(current.segment.seed, &mut gathered.entries);
            }
            gathered.records += records.len() as u64;
            gathered.entries.len() >= SEGMENT_BYTES
        };
        if full || current.begun.elapsed() >= SEGMENT_AFTER {
            self.turn(&mut current);
        }
    }

    /// Begins a new segment if the present one is old; for runs in which nothing is recorded for long.
    pub fn tick(&self) {
        let mut current = self.lock();
        if current.begun.elapsed() >= SEGMENT_AFTER {
            self.turn(&mut current);
        }
    }

    fn turn(&self, current: &mut Current) {
        current.number += 1;
        let next = Arc::new(Segment {
            key: segment_key(&self.run, current.number),
            seed: current.segment.seed,
            gathered: Mutex::default(),
            writer: self.writer.clone(),
            records: Arc::clone(&self.records),
            failed: Arc::clone(&self.failed),
            next: Mutex::default(),
        });
        *current.segment.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&next));
        current.segment = next;
        current.begun = Instant::now();
    }

    /// Writes what was gathered, and waits for it; to be called when no object is on its way any more.
    pub fn flush(&self, most: Duration) {
        self.turn(&mut self.lock());
        self.writer.settle(most);
    }

    /// Ends the journal of a store that is complete: what is gathered is written no more.
    ///
    /// To be called when no object is on its way any more; waits for segments that are.
    pub fn close(&self, most: Duration) {
        self.failed.store(true, Ordering::Release);
        self.writer.settle(most);
    }

    /// Returns how many records there are, those of earlier runs included; after a failed write, how many are written.
    pub fn records(&self) -> u64 {
        let counter = if self.failed.load(Ordering::Acquire) { &self.records } else { &self.added };
        counter.load(Ordering::Relaxed)
    }

    /// Returns how many arrays the header names.
    pub fn arrays(&self) -> usize {
        self.arrays
    }
}

fn segment_key(run: &str, number: u64) -> String {
    format!("{SEGMENTS}/{run}-{number:08}")
}
