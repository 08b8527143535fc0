//! A whole store looked at for faults: every object of its listing, and one read of every chunk.

use std::collections::{BTreeMap, HashSet};

use rayon::prelude::*;

use super::faults::{ChunkFault, FaultLog, FaultyChunks};
use super::files::{self, StoreFiles};
use super::heads::{Expected, Fault, Window, short_shard};
use super::listing::{self, Asked, Builder, Listed};
use super::{ArraySurvey, spread, unlisted};
use crate::cancel::Cancel;
use crate::codec::{Scratch, ShardCodec, ShardIndex};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Observer;
use crate::grid::{ChunkSet, Grid, product};
use crate::hierarchy::ArrayNode;
use crate::store::{Glance, Store};

/// Chunks that are looked at before what they showed is taken in: memory does not follow the number of chunks.
const CHUNKS_AT_ONCE: usize = 1 << 16;
/// Shard indexes larger than this are not read.
const INDEX_BYTES_MOST: usize = 64 << 20;

/// How closely a store is looked at for faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closeness {
    /// One listing of the store.
    Listing,
    /// Also one range read of every stored chunk: its first bytes, its last ones, or its shard index.
    Headers,
}

/// What was seen of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreSurvey {
    /// Its arrays, in the order in which they were given; of chunks, faults are told and no frames are counted.
    pub arrays: Vec<ArraySurvey>,
    /// What belongs to none of them; `None` where the store cannot be listed.
    pub files: Option<StoreFiles>,
}

/// Which inner chunks the indexes of an array's shards leave out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InnerAbsence {
    /// Inner chunks along each dimension of the array.
    pub counts: Vec<u64>,
    /// Inner chunks that the indexes which were read have room for, inside the array.
    pub seen: u64,
    /// C-order positions in the array's grid of inner chunks, of those that are left out.
    pub absent: ChunkSet,
}

/// Looks at everything in a store; `known` are the prefixes of all its arrays, `arrays` those that are looked at.
///
/// Memory follows what is stored, a few bytes a chunk. What cannot be read becomes a fault or a defect. Where the store cannot
/// be listed, each chunk is asked for. Errors: `Cancelled`, and `Unsupported` where those are too many.
pub fn survey_store(
    store: &Store,
    known: &[&ArrayNode],
    arrays: &[&ArrayNode],
    closeness: Closeness,
    (observer, cancel): (&dyn Observer, &Cancel),
) -> Result<StoreSurvey> {
    observer.meter().arrays_total.add(arrays.len() as u64);
    let expected: Vec<Expected> = arrays.iter().map(|array| Expected::of(array)).collect();
    let prefixes: HashSet<&str> = known.iter().map(|array| array.prefix()).collect();
    let run = (observer, cancel);
    let (listed, mut files) = match store {
        Store::Local(_) => {
            let listed = list_arrays(store, arrays, (&expected, closeness), run);
            (listed, Some(list_rest(store, &prefixes, run)?))
        }
        _ if !store.is_listable() => (list_arrays(store, arrays, (&expected, closeness), run), None),
        Store::Remote(_) | Store::Zip(_) | Store::Memory(_) | Store::References(_) => {
            let (listed, files) = list_at_once(store, arrays, &expected, &prefixes, run)?;
            (listed, Some(files))
        }
    };
    let mut surveys = Vec::with_capacity(arrays.len());
    for (array, listed) in arrays.iter().zip(listed) {
        surveys.push(match listed {
            Ok(listed) => ArraySurvey {
                listing: Some(listed.listing),
                defects: listed.defects,
                unreadable: listed.unreadable,
                faults: listed.faults.finish(),
                unread_folders: listed.unread_folders,
                ..ArraySurvey::default()
            },
            Err(error) => unlisted(array, error)?,
        });
    }
    if closeness == Closeness::Headers {
        look_at_heads(store, arrays, &expected, &mut surveys, (observer, cancel))?;
        if let Some((files, suspects)) = &mut files {
            files.look_into(store, suspects, cancel)?;
        }
    }
    Ok(StoreSurvey { arrays: surveys, files: files.map(|(files, _)| files) })
}

/// Looks at the first bytes, the last ones or the shard index of the chunks of `arrays`, whose listings `surveys` hold: as
/// [`survey_store`] does at [`Closeness::Headers`].
///
/// What cannot be read becomes a fault. Errors: `Cancelled`.
pub fn survey_heads(
    store: &Store,
    arrays: &[&ArrayNode],
    surveys: &mut [ArraySurvey],
    run: (&dyn Observer, &Cancel),
) -> Result<()> {
    let expected: Vec<Expected> = arrays.iter().map(|array| Expected::of(array)).collect();
    look_at_heads(store, arrays, &expected, surveys, run)
}

/// What belongs to no array, and the keys of what should be looked into.
type Files = (StoreFiles, Vec<String>);

/// Lists arrays side by side, or asks for their chunks.
fn list_arrays(
    store: &Store,
    arrays: &[&ArrayNode],
    (expected, closeness): (&[Expected], Closeness),
    run: (&dyn Observer, &Cancel),
) -> Vec<Result<Listed>> {
    let pairs: Vec<(&ArrayNode, &Expected)> = arrays.iter().copied().zip(expected).collect();
    spread(store, &pairs, |(array, expected)| {
        let next = match closeness {
            Closeness::Listing => Glance::Head(0),
            Closeness::Headers => expected.glance(),
        };
        let listed = listing::list(store, array, (0, Some(expected), Asked::all(next)), run);
        run.0.meter().arrays_done.add(1);
        listed
    })
}

/// Lists what lies outside of the folders of arrays.
fn list_rest(store: &Store, prefixes: &HashSet<&str>, run: (&dyn Observer, &Cancel)) -> Result<Files> {
    if prefixes.contains("") {
        return Ok(Files::default());
    }
    files::list(store, prefixes, None, run).or_else(|error| match error.kind() {
        ErrorKind::Cancelled | ErrorKind::Unsupported => Err(error),
        _ => Ok((StoreFiles { unlisted: Some(error.one_line()), ..StoreFiles::default() }, Vec::new())),
    })
}

/// Lists everything once: a request for each of thousands of arrays would take longer.
fn list_at_once(
    store: &Store,
    arrays: &[&ArrayNode],
    expected: &[Expected],
    prefixes: &HashSet<&str>,
    run: (&dyn Observer, &Cancel),
) -> Result<(Vec<Result<Listed>>, Files)> {
    let mut builders: BTreeMap<&str, Builder<'_>> = arrays
        .iter()
        .zip(expected)
        .map(|(array, expected)| (array.prefix(), Builder::new(array, 0, Some(expected))))
        .collect();
    let files = files::list(store, prefixes, Some(&mut builders), run)?;
    let finished = arrays.iter().map(|array| {
        run.0.meter().arrays_done.add(1);
        let builder = builders.remove(array.prefix());
        builder
            .map(Builder::finish)
            .ok_or_else(|| Error::new(ErrorKind::Conflict, format!("`{}` is listed twice", array.path)))
    });
    Ok((finished.collect(), files))
}

/// What one chunk showed.
enum Shown {
    Sound,
    Faulty(Fault),
    Shard(ShardIndex),
}

/// Reads something of every chunk that may show a fault, and takes in what it shows.
fn look_at_heads(
    store: &Store,
    arrays: &[&ArrayNode],
    expected: &[Expected],
    surveys: &mut [ArraySurvey],
    (observer, cancel): (&dyn Observer, &Cancel),
) -> Result<()> {
    let mut logs: Vec<FaultLog> =
        surveys.iter_mut().map(|survey| FaultLog::of(std::mem::take(&mut survey.faults))).collect();
    let chosen: Vec<ChunkSet> = surveys
        .iter()
        .zip(&logs)
        .zip(expected)
        .map(|((survey, log), expected)| worth_a_look(survey, log, expected))
        .collect();
    let mut queue = chosen
        .iter()
        .enumerate()
        .flat_map(|(array, chunks)| chunks.iter().map(move |position| (array, position)));
    loop {
        let batch: Vec<(usize, u64)> = queue.by_ref().take(CHUNKS_AT_ONCE).collect();
        if batch.is_empty() {
            break;
        }
        let shown = spread_evenly(store, &batch, |&(array, position)| {
            cancel.check()?;
            observer.meter().bytes_read.add(crate::codec::HEAD_BYTES);
            look(store, arrays[array], &expected[array], position)
        });
        cancel.check()?;
        for ((array, position), shown) in batch.into_iter().zip(shown) {
            let (survey, log) = (&mut surveys[array], &mut logs[array]);
            survey.heads_read += 1;
            match shown {
                Ok(Shown::Sound) => {}
                Ok(Shown::Faulty((fault, why))) => log.replace(fault, position, why),
                Ok(Shown::Shard(index)) => {
                    take_in_index(arrays[array], &expected[array], position, &index, survey);
                }
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    log.replace(ChunkFault::Damaged, position, error.one_line());
                }
                Err(error) => {
                    survey.unreadable = true;
                    // where permissions say it already, it is one fault
                    if !log.of_kind(ChunkFault::Locked).any(|locked| locked == position) {
                        log.add(ChunkFault::Unreadable, position, || error.one_line());
                    }
                }
            }
        }
    }
    for (survey, log) in surveys.iter_mut().zip(logs) {
        survey.faults = log.finish();
    }
    Ok(())
}

/// Runs `work` on every item; the results are in their order.
fn spread_evenly<T: Sync, R: Send>(
    store: &Store,
    items: &[T],
    work: impl Fn(&T) -> R + Sync + Send,
) -> Vec<R> {
    if store.is_remote() {
        return spread(store, items, work);
    }
    items.par_iter().with_min_len(64).map(work).collect()
}

/// Returns the chunks of which something is to be read: all that are stored; where their length says it all, those of
/// another length.
fn worth_a_look(survey: &ArraySurvey, log: &FaultLog, expected: &Expected) -> ChunkSet {
    let Some(listing) = &survey.listing else { return ChunkSet::default() };
    if expected.shard().is_some_and(|shard| shard.index_bytes() > INDEX_BYTES_MOST) {
        return ChunkSet::default();
    }
    if expected.stored_bytes.is_some() {
        let mut odd = ChunkSet::default();
        for position in
            [ChunkFault::Truncated, ChunkFault::Trailing].iter().flat_map(|fault| log.of_kind(*fault))
        {
            odd.insert(position);
        }
        return odd;
    }
    let mut chosen = listing.stored.clone();
    for position in log.of_kind(ChunkFault::Empty).collect::<Vec<_>>() {
        chosen.remove(position);
    }
    chosen
}

/// Reads one range of one chunk and compares it with what its array promises.
fn look(store: &Store, array: &ArrayNode, expected: &Expected, position: u64) -> Result<Shown> {
    let mut key = String::new();
    array.chunk_key(&array.metadata.grid.index_at(position), &mut key);
    let mut bytes = Vec::new();
    let read = match expected.window() {
        Window::Head(length) => store.get_range(&key, 0, length, &mut bytes)?,
        Window::Tail(length) => store.get_suffix(&key, length, &mut bytes)?,
    };
    // gone since the listing
    let Some(size) = read else { return Ok(Shown::Sound) };
    match expected.shard() {
        Some(shard) => Ok(look_at_index(shard, expected, &bytes, size)),
        None => Ok(expected.judge(&bytes, size).map_or(Shown::Sound, Shown::Faulty)),
    }
}

fn look_at_index(shard: &ShardCodec, expected: &Expected, bytes: &[u8], size: u64) -> Shown {
    let length = shard.index_bytes();
    let index = if shard.index_at_start() {
        bytes.get(..length)
    } else {
        bytes.len().checked_sub(length).map(|start| &bytes[start..])
    };
    let foreign = expected
        .judge(bytes, size)
        .filter(|(fault, _)| matches!(fault, ChunkFault::Pointer | ChunkFault::ErrorBody));
    let Some(index) = index else {
        let why = || short_shard(size, length as u64);
        return Shown::Faulty(foreign.unwrap_or_else(|| (ChunkFault::Truncated, why())));
    };
    match shard.read_index(&mut Scratch::new(), index, size) {
        Ok(index) => {
            let why = too_short(&index, shard).or_else(|| overlap(&index));
            let fault = |why| foreign.unwrap_or((ChunkFault::ShardIndex, why));
            why.map_or(Shown::Shard(index), |why| Shown::Faulty(fault(why)))
        }
        Err(error) => Shown::Faulty(foreign.unwrap_or_else(|| {
            let zeros = index.iter().all(|&byte| byte == 0);
            let what = if zeros { "its index is all zero bytes: " } else { "" };
            (ChunkFault::ShardIndex, format!("{what}{error}"))
        })),
    }
}

/// Returns which inner chunk is said to have fewer bytes than any has: none at all, or less than it takes where that is
/// always the same.
fn too_short(index: &ShardIndex, shard: &ShardCodec) -> Option<String> {
    let inner = shard.inner();
    if inner.decoded_bytes() == Some(0) {
        return None;
    }
    let least = inner.encoded_bytes().map_or(1, |bytes| bytes as u64).max(1);
    let mut short = index.0.iter().enumerate().filter_map(|(at, place)| Some((at, place.as_ref()?)));
    short.find(|(_, place)| place.length < least).map(|(at, place)| {
        format!("inner chunk {at} is said to have {} bytes, expected {least} at least", place.length)
    })
}

/// Returns which inner chunks of a shard share bytes. Writers that deduplicate give equal ones the very same place, which
/// is fine.
fn overlap(index: &ShardIndex) -> Option<String> {
    let mut places: Vec<(u64, u64, usize)> = index
        .0
        .iter()
        .enumerate()
        .filter_map(|(at, place)| place.map(|place| (place.offset, place.length, at)))
        .filter(|place| place.1 > 0)
        .collect();
    places.sort_unstable();
    places.windows(2).find_map(|pair| {
        let ((offset, length, one), (next, next_length, other)) = (pair[0], pair[1]);
        let same = offset == next && length == next_length;
        (!same && offset + length > next)
            .then(|| format!("its inner chunks {one} and {other} share bytes from {next} on"))
    })
}

/// Notes which inner chunks an index leaves out; none where a transpose lies between shards and array.
fn take_in_index(
    array: &ArrayNode,
    expected: &Expected,
    position: u64,
    index: &ShardIndex,
    survey: &mut ArraySurvey,
) {
    let (grid, Some(shard)) = (&array.metadata.grid, expected.shard()) else { return };
    let Some(inner) = inner_grid(array) else { return };
    let absence = survey
        .inner
        .get_or_insert_with(|| InnerAbsence { counts: inner.counts().to_vec(), ..InnerAbsence::default() });
    let origin: Vec<u64> = grid
        .index_at(position)
        .iter()
        .zip(shard.counts())
        .map(|(at, count)| at.saturating_mul(*count))
        .collect();
    for (at, place) in index.0.iter().enumerate() {
        let within = crate::grid::unravel(at as u64, shard.counts());
        let index: Vec<u64> =
            origin.iter().zip(within).map(|(origin, at)| origin.saturating_add(at)).collect();
        // beyond the array's edge nothing is ever written
        let Some(position) = inner.position_of(&index) else { continue };
        absence.seen += 1;
        if place.is_none() {
            absence.absent.insert(position);
        }
    }
}

/// Returns the grid of an array's inner chunks, where they are cut from the array itself.
fn inner_grid(array: &ArrayNode) -> Option<Grid> {
    let metadata = &array.metadata;
    let sharding = metadata.sharding()?;
    metadata.grid.regular_shape()?;
    let inner = Grid::regular(metadata.shape(), &sharding.chunk_shape).ok()?;
    product(inner.counts()).map(|_| inner)
}

impl FaultLog {
    /// Returns the positions of one kind.
    fn of_kind(&self, fault: ChunkFault) -> impl Iterator<Item = u64> + '_ {
        self.get(fault).into_iter().flat_map(|faulty: &FaultyChunks| faulty.chunks.iter())
    }

    /// Adds a fault that says more than what the length alone said.
    fn replace(&mut self, fault: ChunkFault, position: u64, why: String) {
        for length in [ChunkFault::Truncated, ChunkFault::Trailing] {
            if length != fault {
                self.remove(length, position);
            }
        }
        self.add(fault, position, || why);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::event::Silent;
    use crate::hierarchy::Hierarchy;
    use crate::location::StoreUrl;
    use crate::store::StoreOptions;

    fn seen(path: &Path) -> StoreSurvey {
        let url = StoreUrl::Local(path.to_owned());
        let hierarchy = Hierarchy::open(&url, &StoreOptions::default()).unwrap();
        let arrays: Vec<&ArrayNode> = hierarchy.arrays.iter().collect();
        let store = hierarchy.store.as_ref().unwrap();
        let run: (&dyn Observer, &Cancel) = (&Silent::default(), &Cancel::default());
        survey_store(store, &arrays, &arrays, Closeness::Headers, run).unwrap()
    }

    fn fixture(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
    }

    #[test]
    fn what_belongs_to_no_array_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let write = |key: &str, text: &str| {
            let path = folder.path().join(key);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(".zgroup", r#"{"zarr_format":2}"#);
        write(
            "a/.zarray",
            r#"{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"|u1","fill_value":0,"compressor":null,"filters":null,"order":"C"}"#,
        );
        write("a/0", "ab");
        write("a/1", "a");
        write("a/1.0f3b.partial", "");
        write("lost/0.0", "version https://git-lfs.github.com/spec/v1\n");
        write(".DS_Store", "x");
        write("b.dvc", "outs:\n- md5: 0\n");
        write("x.tmp/deep", "");
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        let seen = seen(folder.path());
        let files = seen.files.as_ref().unwrap();
        assert_eq!((files.foreign.count, files.temporary.count, files.sidecars.count), (1, 1, 1));
        assert_eq!(files.ownerless_folders, BTreeMap::from([("lost".to_owned(), 1)]));
        assert_eq!(files.pointers.as_ref().unwrap().examples.len(), 2);
        assert_eq!(files.dangling.examples, ["link"]);
        let faults: Vec<_> =
            seen.arrays[0].faults.iter().map(|faulty| (faulty.fault, faulty.first)).collect();
        assert_eq!(faults, [(ChunkFault::Truncated, 1)]);
        assert_eq!(seen.arrays[0].listing.as_ref().unwrap().temporary.count, 1);
    }

    #[test]
    fn indexes_of_shards_are_judged() {
        let sound = seen(&fixture("sharded_index_end.zarr"));
        assert!(sound.arrays.iter().all(|survey| survey.faults.is_empty()), "{sound:?}");
        assert!(sound.arrays.iter().any(|survey| survey.inner.as_ref().is_some_and(|inner| inner.seen > 0)));
        let broken = seen(&fixture("faulty_shard_index.zarr"));
        let faults: Vec<_> =
            broken.arrays.iter().flat_map(|survey| &survey.faults).map(|faulty| faulty.fault).collect();
        assert_eq!(faults, [ChunkFault::ShardIndex]);
    }

    #[test]
    fn a_shard_shorter_than_its_index_shows_in_a_listing() {
        let folder = tempfile::tempdir().unwrap();
        let metadata = r#"{"zarr_format":3,"node_type":"array","shape":[8],"data_type":"uint8","fill_value":0,
            "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4]}},"chunk_key_encoding":{"name":"default"},
            "codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[2],"codecs":[{"name":"bytes"}],
            "index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}}]}"#;
        std::fs::create_dir(folder.path().join("c")).unwrap();
        std::fs::write(folder.path().join("zarr.json"), metadata).unwrap();
        std::fs::write(folder.path().join("c/0"), [0xff; 32]).unwrap();
        std::fs::write(folder.path().join("c/1"), [0xff; 31]).unwrap();
        let url = StoreUrl::Local(folder.path().to_owned());
        let hierarchy = Hierarchy::open(&url, &StoreOptions::default()).unwrap();
        let (arrays, store) = ([&hierarchy.arrays[0]], hierarchy.store.as_ref().unwrap());
        for closeness in [Closeness::Listing, Closeness::Headers] {
            let run: (&dyn Observer, &Cancel) = (&Silent::default(), &Cancel::default());
            let seen = survey_store(store, &arrays, &arrays, closeness, run).unwrap();
            let [faulty] = seen.arrays[0].faults.as_slice() else { panic!("{closeness:?}: {seen:?}") };
            assert_eq!((faulty.fault, faulty.first), (ChunkFault::Truncated, 1), "{closeness:?}");
            assert_eq!(faulty.why, "a shard of 31 bytes, its index alone has 32");
        }
    }

    #[test]
    fn inner_chunks_that_share_bytes_are_found() {
        let place = |offset, length| Some(crate::codec::InnerPlace { offset, length });
        assert_eq!(overlap(&ShardIndex(vec![place(0, 10), None, place(10, 5), place(0, 10)])), None);
        assert!(overlap(&ShardIndex(vec![place(0, 10), place(9, 5)])).is_some());
    }
}
