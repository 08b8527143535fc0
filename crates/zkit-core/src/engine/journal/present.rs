//! Finding out what of a journal holds in an object store.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::check::Checked;
use super::objects::ObjectContents;
use super::record::{ObjectDigest, Record};
use crate::cancel::Cancel;
use crate::engine::survey::spread;
use crate::error::{ErrorKind, Result};
use crate::grid::ChunkSet;
use crate::hierarchy::ArrayNode;
use crate::store::{Arrived, RemoteStore, Store};

/// Objects that are read back at once, and their bytes.
const READ_AT_ONCE: usize = 64;
const READ_BYTES: u64 = 64 << 20;
/// Objects in one answer to a listing, and listings that are on their way at once.
const PAGE: u64 = 1000;
const LISTED_AT_ONCE: u64 = 64;
/// Objects that are asked for their labels before the first answers are looked at.
const LABELS_AT_ONCE: usize = 1024;

/// Compares a journal with a listing of the store: length and entity tag of each object with those that it arrived with.
///
/// What no tag tells is read back in part, one object in a hundred; if one of these differs, nothing of its array that no tag
/// tells is taken for done. An object that no segment names is done if its label says so, or, where it was sent in parts, if
/// its bytes are what its mark says: these are returned too, to be recorded. `arrays` are those of the copy, in the order of
/// the journal's header.
///
/// Cost: one listing of the store, or one an array, side by side, where that takes fewer rounds; the objects of the sample;
/// and a request for each object that is not named. Memory: 24 bytes an object.
pub fn check_present(
    contents: &ObjectContents,
    store: &RemoteStore,
    arrays: &[&ArrayNode],
    cancel: &Cancel,
) -> Result<(Checked, Vec<(Record, Arrived)>)> {
    let comparisons: Vec<Mutex<Comparison<'_>>> =
        (0..contents.objects.len()).map(|at| Mutex::new(Comparison::new(contents, at))).collect();
    let saw = |at: usize, key: &str, arrived: Arrived| {
        let (Some(array), Some(comparison)) = (arrays.get(at), comparisons.get(at)) else { return };
        let metadata = &array.metadata;
        let index = metadata.chunk_keys.parse_key(key, metadata.grid.rank());
        if let Some(position) = index.and_then(|index| metadata.grid.position_of(&index)) {
            comparison.lock().unwrap_or_else(PoisonError::into_inner).saw(position, arrived);
        }
    };
    let go_on = || if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    if is_listed_at_once(contents) {
        let prefixes: HashMap<&str, usize> =
            arrays.iter().enumerate().map(|(at, array)| (array.prefix(), at)).collect();
        store.list_arrived("", &mut |key, arrived| {
            if let Some((at, key)) = array_of(&prefixes, key) {
                saw(at, key, arrived);
            }
            go_on()
        })?;
    } else {
        let numbered: Vec<(usize, &ArrayNode)> = arrays.iter().copied().enumerate().collect();
        let listed = spread(&Store::Remote(store.clone()), &numbered, |(at, array)| {
            store.list_arrived(array.prefix(), &mut |key, arrived| {
                saw(*at, key, arrived);
                go_on()
            })
        });
        listed.into_iter().collect::<Result<()>>()?;
    }
    cancel.check()?;
    let (mut checked, mut unproven, mut unnamed) = (Checked::default(), Vec::new(), Vec::new());
    for comparison in comparisons {
        let comparison = comparison.into_inner().unwrap_or_else(PoisonError::into_inner);
        let found = comparison.finish();
        checked.done.push(found.done);
        checked.damaged.push(found.damaged);
        unproven.push(found.unproven);
        unnamed.push(found.unnamed);
    }
    read_sample(contents, (store, arrays), &unproven, &mut checked, cancel)?;
    let found = find_records(contents, (store, arrays), &unnamed, &mut checked, cancel)?;
    for (record, _) in &found {
        checked.done[record.array as usize].insert(record.chunk);
    }
    Ok((checked, found))
}

/// Returns whether one listing of the store takes no more rounds than one of each array.
fn is_listed_at_once(contents: &ObjectContents) -> bool {
    let counts = || contents.objects.iter().map(ChunkSet::len);
    let rounds = |count: u64| count.div_ceil(PAGE);
    let by_array =
        (contents.objects.len() as u64).div_ceil(LISTED_AT_ONCE) + counts().max().map_or(0, rounds);
    rounds(counts().sum()) <= by_array
}

/// Returns the array that an object lies in, and its key relative to it.
fn array_of<'k>(prefixes: &HashMap<&str, usize>, key: &'k str) -> Option<(usize, &'k str)> {
    let folders = key.rmatch_indices('/').map(|(at, _)| (&key[..at], &key[at + 1..]));
    folders.chain([("", key)]).find_map(|(folder, rest)| Some((*prefixes.get(folder)?, rest)))
}

/// What is recorded of an array beside what a listing has of it.
struct Comparison<'a> {
    recorded: &'a ChunkSet,
    left_out: &'a ChunkSet,
    /// By chunk, and sorted.
    arrived: &'a [(u64, Arrived)],
    /// Listed as they arrived.
    same: ChunkSet,
    /// Listed in the same length, with another tag.
    retagged: ChunkSet,
    /// Listed, and one of the tags is not known.
    untagged: ChunkSet,
    /// Listed, and not recorded.
    unnamed: ChunkSet,
}

/// What a comparison comes to.
struct Found {
    /// What is as recorded, as far as the listing tells.
    done: ChunkSet,
    /// What is not.
    damaged: ChunkSet,
    /// What is done and not told from other objects of its key.
    unproven: ChunkSet,
    /// What is there, and not recorded.
    unnamed: ChunkSet,
}

impl<'a> Comparison<'a> {
    fn new(contents: &'a ObjectContents, at: usize) -> Self {
        let (same, retagged, untagged, unnamed) = Default::default();
        let (recorded, left_out) = (&contents.objects[at], &contents.left_out[at]);
        Self { recorded, left_out, arrived: &contents.arrived[at], same, retagged, untagged, unnamed }
    }

    fn saw(&mut self, chunk: u64, listed: Arrived) {
        if !self.recorded.contains(chunk) {
            if !self.left_out.contains(chunk) {
                self.unnamed.insert(chunk);
            }
            return;
        }
        let behind = &self.arrived[self.arrived.partition_point(|(other, _)| *other < chunk)..];
        let (mut is_known, mut is_as_long, mut is_tagged) = (false, false, true);
        for (_, arrived) in behind.iter().take_while(|(other, _)| *other == chunk) {
            is_known = true;
            // one that was written twice is as it should be in either state
            if arrived.bytes == listed.bytes {
                is_as_long = true;
                is_tagged &= arrived.tag.is_some() && listed.tag.is_some();
                if is_tagged && arrived.tag == listed.tag {
                    self.same.insert(chunk);
                    return;
                }
            }
        }
        let set = match (is_known, is_as_long, is_tagged) {
            (true, false, _) => return,
            (true, true, true) => &mut self.retagged,
            _ => &mut self.untagged,
        };
        set.insert(chunk);
    }

    fn finish(self) -> Found {
        let mut unproven = self.untagged;
        if self.same.is_empty() {
            // everything was replaced, or the server's listings name other tags than its answers: reading tells which
            for chunk in self.retagged.iter() {
                unproven.insert(chunk);
            }
        }
        let (mut done, mut damaged) = (self.left_out.clone(), ChunkSet::default());
        for chunk in self.recorded.iter() {
            let holds = self.same.contains(chunk) || unproven.contains(chunk);
            if holds { &mut done } else { &mut damaged }.insert(chunk);
        }
        Found { done, damaged, unproven, unnamed: self.unnamed }
    }
}

fn key_of(arrays: &[&ArrayNode], array: usize, chunk: u64) -> String {
    let mut key = String::new();
    if let Some(array) = arrays.get(array) {
        array.chunk_key(&array.metadata.grid.index_at(chunk), &mut key);
    }
    key
}

/// Returns the records of objects that no segment names: from their labels, or the marks of those that were sent in parts.
fn find_records(
    contents: &ObjectContents,
    (store, arrays): (&RemoteStore, &[&ArrayNode]),
    unnamed: &[ChunkSet],
    checked: &mut Checked,
    cancel: &Cancel,
) -> Result<Vec<(Record, Arrived)>> {
    let marks: HashMap<&str, &[u8]> =
        contents.marked.iter().map(|marked| (marked.key.as_str(), &marked.label[..])).collect();
    let mut records = Vec::new();
    let mut rest =
        unnamed.iter().enumerate().flat_map(|(at, chunks)| chunks.iter().map(move |chunk| (at, chunk)));
    loop {
        cancel.check()?;
        let batch: Vec<(usize, u64)> = rest.by_ref().take(LABELS_AT_ONCE).collect();
        if batch.is_empty() {
            return Ok(records);
        }
        let keys: Vec<String> = batch.iter().map(|(at, chunk)| key_of(arrays, *at, *chunk)).collect();
        for (((at, chunk), key), found) in batch.into_iter().zip(&keys).zip(store.labels(&keys)) {
            let Some((label, arrived)) = found? else { continue };
            let is_bound = label.is_some();
            let label = label.as_deref().or_else(|| marks.get(key.as_str()).copied());
            let Some(record) = label.and_then(|label| contents.labelled(label)) else { continue };
            let Some(digest) = record.object else { continue };
            if (record.array as usize, record.chunk, digest.bytes) != (at, chunk, arrived.bytes) {
                continue;
            }
            if !is_bound {
                let bytes = store.get_blocking(key, digest.bytes)?.unwrap_or_default();
                checked.bytes_read += bytes.len() as u64;
                if ObjectDigest::of(&bytes) != digest {
                    continue;
                }
            }
            records.push((record, arrived));
        }
    }
}

/// Reads what the sample has of unproven chunks; if one is not as recorded, no unproven chunk of its array is done.
fn read_sample(
    contents: &ObjectContents,
    (store, arrays): (&RemoteStore, &[&ArrayNode]),
    unproven: &[ChunkSet],
    checked: &mut Checked,
    cancel: &Cancel,
) -> Result<()> {
    let is_unproven = |array: u32, chunk| unproven.get(array as usize).is_some_and(|set| set.contains(chunk));
    let sample: Vec<_> =
        contents.sample.iter().filter(|((array, chunk), _)| is_unproven(*array, *chunk)).collect();
    let mut rest = &sample[..];
    while !rest.is_empty() {
        cancel.check()?;
        let mut bytes = 0u64;
        let fitting = rest.iter().take(READ_AT_ONCE).take_while(|(_, digest)| {
            bytes = bytes.saturating_add(digest.bytes);
            bytes <= READ_BYTES
        });
        let (sampled, left) = rest.split_at(fitting.count().max(1));
        rest = left;
        let keys: Vec<String> =
            sampled.iter().map(|((array, chunk), _)| key_of(arrays, *array as usize, *chunk)).collect();
        let most = sampled.iter().map(|(_, digest)| digest.bytes).max().unwrap_or(0);
        for (((array, _), expected), found) in sampled.iter().zip(store.get_many(&keys, most)) {
            let holds = match found {
                Ok(Some(bytes)) => {
                    checked.bytes_read += bytes.len() as u64;
                    ObjectDigest::of(&bytes) == **expected
                }
                Ok(None) => false,
                Err(error) if error.kind() == ErrorKind::OverBudget => false,
                Err(error) => return Err(error),
            };
            if !holds {
                let at = *array as usize;
                for chunk in unproven[at].iter() {
                    checked.done[at].remove(chunk);
                    checked.damaged[at].insert(chunk);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroU64;

    use super::super::header::tests::sample;
    use super::*;

    fn object(bytes: u64, tag: u64) -> Arrived {
        Arrived { bytes, tag: NonZeroU64::new(tag) }
    }

    /// What comes of an array whose chunks 0 to 5 are recorded and 6 is left out: done, damaged and unproven.
    fn compared(arrived: &[(u64, Arrived)], listed: &[(u64, Arrived)]) -> [Vec<u64>; 3] {
        let set = |chunks: &mut dyn Iterator<Item = u64>| {
            let mut set = ChunkSet::default();
            for chunk in chunks {
                set.insert(chunk);
            }
            set
        };
        let contents = ObjectContents {
            header: sample(1),
            objects: vec![set(&mut (0..6))],
            left_out: vec![set(&mut (6..7))],
            arrived: vec![arrived.to_vec()],
            sample: BTreeMap::new(),
            records: 7,
            marked: Vec::new(),
        };
        let mut comparison = Comparison::new(&contents, 0);
        listed.iter().for_each(|(chunk, object)| comparison.saw(*chunk, *object));
        let found = comparison.finish();
        [found.done, found.damaged, found.unproven].map(|set| set.iter().collect())
    }

    #[test]
    fn a_listing_tells_what_is_as_it_arrived() {
        let arrived = [
            (0, object(9, 1)),
            (1, object(9, 2)),
            (2, object(9, 3)),
            (3, object(9, 0)),
            (4, object(9, 4)),
            (4, object(8, 5)),
        ];
        // the same; with another tag; of another length; with no tag once; written twice; not there; not recorded
        let listed = [
            (0, object(9, 1)),
            (1, object(9, 7)),
            (2, object(8, 3)),
            (3, object(9, 6)),
            (4, object(8, 5)),
            (9, object(1, 1)),
        ];
        assert_eq!(compared(&arrived, &listed), [vec![0, 3, 4, 6], vec![1, 2, 5], vec![3]]);
        // of what an earlier version recorded it tells that it is there
        assert_eq!(compared(&[], &listed), [vec![0, 1, 2, 3, 4, 6], vec![5], vec![0, 1, 2, 3, 4]]);
    }

    #[test]
    fn where_no_tag_fits_reading_is_to_tell() {
        let arrived = [(0, object(9, 1)), (1, object(9, 2)), (2, object(9, 3))];
        let listed = [(0, object(9, 4)), (1, object(9, 5)), (2, object(8, 6))];
        assert_eq!(compared(&arrived, &listed), [vec![0, 1, 6], vec![2, 3, 4, 5], vec![0, 1]]);
    }

    #[test]
    fn keys_are_those_of_the_array_that_they_lie_in() {
        let prefixes = HashMap::from([("a", 0), ("b/a", 1)]);
        assert_eq!(array_of(&prefixes, "a/c/0/1"), Some((0, "c/0/1")));
        assert_eq!(array_of(&prefixes, "b/a/0.1"), Some((1, "0.1")));
        assert_eq!(array_of(&prefixes, "b/0.1"), None);
        assert_eq!(array_of(&HashMap::from([("", 0)]), "c/0"), Some((0, "c/0")));
    }
}
