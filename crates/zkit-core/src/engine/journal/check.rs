//! Reading back what a journal says is done.

use std::io;

use rayon::prelude::*;
use xxhash_rust::xxh3::Xxh3Default;

use super::file::{Journal, fill};
use super::record::{ObjectDigest, Record};
use crate::cancel::Cancel;
use crate::engine::lanes;
use crate::error::Result;
use crate::grid::ChunkSet;
use crate::store::LocalWriter;

/// Bytes that are read and hashed at once.
const BUFFER_BYTES: usize = 1 << 18;

/// What of a journal holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// The chunks whose objects are as recorded, for each array.
    pub done: Vec<ChunkSet>,
    /// The chunks whose objects are not, and were removed: they are to be written anew.
    pub damaged: Vec<ChunkSet>,
    /// Bytes that were read.
    pub bytes_read: u64,
}

/// Reads back every object that a journal names, and compares length and xxh3; what differs is removed.
///
/// `key_of` gives the store key of a chunk by array and position. A chunk that was recorded more than once is done
/// if one of its records holds. Memory: a batch of records and a buffer for each of `jobs` threads.
pub fn check_objects(
    journal: &Journal,
    writer: &LocalWriter,
    key_of: &(dyn Fn(u32, u64) -> String + Sync),
    jobs: usize,
    cancel: &Cancel,
) -> Result<Checked> {
    let pool = lanes::pool(jobs)?;
    let none = vec![ChunkSet::default(); journal.arrays()];
    let mut checked = Checked { done: none.clone(), damaged: none.clone(), bytes_read: 0 };
    let mut suspects = none;
    journal.visit(|records| {
        let found: Vec<Result<Option<u64>>> = pool.install(|| {
            let work = records.par_iter().map_init(
                || vec![0; BUFFER_BYTES],
                |buffer, record| {
                    cancel.check()?;
                    // an object that cannot be read does not hold either: it is written anew
                    Ok(check(record, writer, &key_of(record.array, record.chunk), buffer).unwrap_or(None))
                },
            );
            work.collect()
        });
        for (record, found) in records.iter().zip(found) {
            let sets = if let Some(bytes) = found? {
                checked.bytes_read += bytes;
                &mut checked.done
            } else {
                &mut suspects
            };
            sets[record.array as usize].insert(record.chunk);
        }
        Ok(())
    })?;
    for (array, suspects) in (0..).zip(&suspects) {
        let at = array as usize;
        for chunk in suspects.iter().filter(|&chunk| !checked.done[at].contains(chunk)) {
            writer.remove(&key_of(array, chunk))?;
            checked.damaged[at].insert(chunk);
        }
    }
    Ok(checked)
}

/// Returns the bytes read if an object is as recorded, else `None`.
fn check(record: &Record, writer: &LocalWriter, key: &str, buffer: &mut [u8]) -> io::Result<Option<u64>> {
    let (file, expected) = match (writer.open_object(key)?, record.object) {
        (None, None) => return Ok(Some(0)),
        (Some(file), Some(expected)) => (file, expected),
        _ => return Ok(None),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() != expected.bytes {
        return Ok(None);
    }
    let (mut file, mut hash, mut bytes) = (file, Xxh3Default::new(), 0);
    loop {
        let filled = fill(&mut file, buffer)?;
        hash.update(&buffer[..filled]);
        bytes += filled as u64;
        if filled < buffer.len() {
            break;
        }
    }
    Ok((ObjectDigest { bytes, xxh3: hash.digest() } == expected).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::header::tests::sample;
    use super::*;
    use crate::error::ErrorKind;

    fn key_of(array: u32, chunk: u64) -> String {
        format!("{array}/c/{chunk}")
    }

    #[test]
    fn only_objects_that_are_as_recorded_are_done_and_the_others_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("p");
        std::fs::create_dir(&root).unwrap();
        let writer = LocalWriter::open(&root).unwrap();
        let journal = Journal::create(&folder.path().join("j"), &sample(1)).unwrap();
        let object = vec![7u8; BUFFER_BYTES + 1];
        let record = |chunk, object: Option<&[u8]>| Record {
            array: 1,
            chunk,
            object: object.map(ObjectDigest::of),
            decoded_xxh3: 0,
        };
        for chunk in [0, 1, 2, 3, 5, 6] {
            writer.put(&key_of(1, chunk), &object).unwrap();
            journal.append(&[record(chunk, Some(&object))]).unwrap();
        }
        // absent as recorded; there although recorded as left out; recorded twice, the second time as it is
        journal.append(&[record(4, None)]).unwrap();
        journal.append(&[record(6, None)]).unwrap();
        writer.put(&key_of(1, 7), &object).unwrap();
        journal.append(&[record(7, None), record(8, Some(b"old")), record(8, Some(b"new"))]).unwrap();
        writer.put(&key_of(1, 8), b"new").unwrap();
        let mut flipped = object.clone();
        flipped[100] ^= 1;
        writer.replace(&key_of(1, 1), &flipped).unwrap();
        writer.replace(&key_of(1, 2), &object[1..]).unwrap();
        writer.remove(&key_of(1, 3)).unwrap();
        writer.remove(&key_of(1, 5)).unwrap();
        std::os::unix::fs::symlink(root.join(key_of(1, 0)), root.join(key_of(1, 5))).unwrap();

        let checked = check_objects(&journal, &writer, &key_of, 2, &Cancel::default()).unwrap();
        assert!(checked.done[1].iter().eq([0, 4, 6, 8]), "{:?}", checked.done);
        assert!(checked.damaged[1].iter().eq([1, 2, 3, 5, 7]), "{:?}", checked.damaged);
        assert!(checked.done[0].is_empty() && checked.damaged[0].is_empty());
        assert_eq!(checked.bytes_read, object.len() as u64 * 2 + 3);
        for chunk in 0..9 {
            assert_eq!(root.join(key_of(1, chunk)).exists(), [0, 6, 8].contains(&chunk), "{chunk}");
        }

        let cancel = Cancel::default();
        cancel.cancel();
        let stopped = check_objects(&journal, &writer, &key_of, 2, &cancel).unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    }
}
