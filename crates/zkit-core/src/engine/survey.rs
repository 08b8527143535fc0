//! Looks at what is stored of each array without decoding it: listings, and the first bytes of chunks.

mod closely;
mod faults;
mod files;
mod frames;
mod heads;
mod icechunk;
mod listing;
mod n5;
mod names;
mod parquet;
mod references;

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

pub use closely::{Closeness, InnerAbsence, StoreSurvey, survey_heads, survey_store};
pub use faults::{ChunkFault, FaultyChunks};
pub use files::StoreFiles;
pub use frames::{BloscFrames, Frames, ShardIndexes, Tally, ZstdFrames};
pub use icechunk::{MissingChunks, Repository};
pub use listing::{GridParts, Keys, Listing, SizeTally, StoredChunk};
pub use n5::{N5Container, N5Dataset, N5Fault, read_n5};
pub use names::is_unfinished_store;
pub use references::survey_references;

use self::frames::{Look, Seen};
use self::listing::Asked;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Observer;
use crate::hierarchy::ArrayNode;
use crate::metadata::Defect;
use crate::store::{Glance, Store};

/// How closely the stored chunks of each array are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurveyDepth {
    /// Which chunks are stored, and how large they are; one listing an array, or a request a chunk where there are none.
    Listing {
        /// Chunks of an array that its [`Listing::sample`] holds at most.
        sample_most: usize,
    },
    /// What a copy must know of its source. Where there are no listings, that is what a few chunks of an array show: whether the
    /// others are there is seen when they are read ([`Listing::known`]).
    Source {
        /// Whether chunks are read next: what is asked for then comes at once, as far as it may be held.
        read: bool,
    },
    /// Also the first bytes (for shards, the index) of a sample of the chunks.
    Headers {
        /// Chunks of an array that are looked at, at most.
        sample_most: usize,
    },
}

/// What is stored of one array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArraySurvey {
    /// What the listing says; `None` if it failed.
    pub listing: Option<Listing>,
    /// What the frames say; `None` without [`SurveyDepth::Headers`], and where nothing could be seen.
    pub frames: Option<Frames>,
    /// What is wrong with single objects.
    pub defects: Vec<Defect>,
    /// Whether something is there that could not be read.
    pub unreadable: bool,
    /// Links where folders of chunks should be, which lead nowhere, out of the store, or in a circle: which chunks are absent is
    /// not known.
    pub unread_folders: Keys,
    /// What is wrong with single chunks, by kind; only [`survey_store`] fills it.
    pub faults: Vec<FaultyChunks>,
    /// Which inner chunks the indexes of shards leave out; only [`survey_store`] fills it.
    pub inner: Option<InnerAbsence>,
    /// Chunks of which something was read; only [`survey_store`] fills it.
    pub heads_read: u64,
}

/// Looks at what is stored of `arrays`; results are in their order.
///
/// Memory follows what is stored (a few bytes a chunk), never the size of the grids. Objects that cannot be read
/// become defects. Errors: `Cancelled`, and `Unsupported` where the store cannot be listed and the chunks are too many to be
/// asked for.
pub fn survey(
    store: &Store,
    arrays: &[&ArrayNode],
    depth: SurveyDepth,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Vec<ArraySurvey>> {
    observer.meter().arrays_total.add(arrays.len() as u64);
    let done = || observer.meter().arrays_done.add(1);
    let mut surveys = list_each(store, arrays, depth, &done, (observer, cancel))?;
    if let SurveyDepth::Headers { .. } = depth {
        look_at_frames(store, arrays, &mut surveys, observer, cancel)?;
    }
    Ok(surveys)
}

/// Returns of each array what tells whether any of its objects changed since [`survey`] listed it with the same `depth`, of
/// which what is read next does not matter; `None` where it cannot be listed now. No array is counted as done.
pub fn survey_again(
    store: &Store,
    arrays: &[&ArrayNode],
    depth: SurveyDepth,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Vec<Option<Listing>>> {
    let depth = match depth {
        SurveyDepth::Source { .. } => SurveyDepth::Source { read: false },
        other => other,
    };
    let surveys = list_each(store, arrays, depth, &|| (), (observer, cancel))?;
    Ok(surveys.into_iter().map(|survey| survey.listing.filter(|_| !survey.unreadable)).collect())
}

fn list_each(
    store: &Store,
    arrays: &[&ArrayNode],
    depth: SurveyDepth,
    done: &(dyn Fn() + Sync),
    (observer, cancel): (&dyn Observer, &Cancel),
) -> Result<Vec<ArraySurvey>> {
    let sample_most = match depth {
        SurveyDepth::Listing { sample_most } | SurveyDepth::Headers { sample_most } => sample_most,
        SurveyDepth::Source { .. } => 0,
    };
    let listed = spread(store, arrays, |array| {
        let asked = match depth {
            SurveyDepth::Source { read } => Asked::of_source(array, read),
            SurveyDepth::Listing { .. } | SurveyDepth::Headers { .. } => Asked::all(Glance::Head(0)),
        };
        let listed = listing::list(store, array, (sample_most, None, asked), (observer, cancel));
        done();
        listed
    });
    let mut surveys = Vec::with_capacity(arrays.len());
    for (array, listed) in arrays.iter().zip(listed) {
        surveys.push(match listed {
            Ok(listed) => ArraySurvey {
                listing: Some(listed.listing),
                defects: listed.defects,
                unreadable: listed.unreadable,
                unread_folders: listed.unread_folders,
                ..ArraySurvey::default()
            },
            Err(error) => unlisted(array, error)?,
        });
    }
    Ok(surveys)
}

/// Returns the survey of an array that could not be listed, or the error if it concerns the whole run.
fn unlisted(array: &ArrayNode, error: Error) -> Result<ArraySurvey> {
    match error.kind() {
        ErrorKind::Cancelled | ErrorKind::Unsupported => Err(error),
        _ => {
            let defects = vec![Defect::remark(&array.path, "unreadable", error.one_line())];
            Ok(ArraySurvey { defects, unreadable: true, ..ArraySurvey::default() })
        }
    }
}

/// Fills in [`ArraySurvey::frames`]: one queue over the sampled chunks of all arrays.
fn look_at_frames(
    store: &Store,
    arrays: &[&ArrayNode],
    surveys: &mut [ArraySurvey],
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<()> {
    let looks: Vec<Look> = arrays.iter().map(|array| Look::of(array)).collect();
    let mut queue: Vec<(usize, StoredChunk)> = Vec::new();
    for (position, (survey, look)) in surveys.iter_mut().zip(&looks).enumerate() {
        let sample = survey.listing.as_ref().map_or(&[][..], |listing| &listing.sample);
        match look {
            Look::Nothing => {}
            Look::Opaque => {
                let chunks = sample.len() as u64;
                survey.frames = Some(Frames { chunks, opaque: chunks, ..Frames::default() });
            }
            Look::Heads | Look::Shards(_) => {
                survey.frames = Some(Frames::default());
                queue.extend(sample.iter().filter(|chunk| chunk.bytes > 0).map(|chunk| (position, *chunk)));
            }
        }
    }
    let seen = spread(store, &queue, |(position, chunk)| {
        cancel.check()?;
        observer.meter().bytes_read.add(crate::codec::HEAD_BYTES);
        looks[*position].look(store, arrays[*position], *chunk)
    });
    cancel.check()?;
    for ((position, chunk), seen) in queue.into_iter().zip(seen) {
        take_in(arrays[position], chunk, seen, &mut surveys[position]);
    }
    Ok(())
}

/// Adds what one chunk showed; the first one of an array that is broken is named.
fn take_in(array: &ArrayNode, chunk: StoredChunk, seen: Result<Seen>, survey: &mut ArraySurvey) {
    let named = |rule: &str| survey.defects.iter().any(|defect| defect.rule == rule);
    let key = || {
        let mut key = String::new();
        array.chunk_key(&array.metadata.grid.index_at(chunk.position), &mut key);
        key
    };
    let defect = match &seen {
        Ok(Seen::Broken(why)) if !named("corrupt-chunk") => {
            Some(("corrupt-chunk", format!("`{}`: {why}", key())))
        }
        Err(error) if !named("unreadable") => Some(("unreadable", error.one_line())),
        _ => None,
    };
    survey.defects.extend(defect.map(|(rule, message)| Defect::remark(&array.path, rule, message)));
    survey.unreadable |= seen.is_err();
    if let (Ok(seen), Some(frames)) = (seen, &mut survey.frames) {
        frames.add(seen);
    }
}

/// Runs `work` on every item, several at once; results are in the order of `items`.
///
/// Local stores use rayon. Remote ones wait for the network, which rayon's threads must not: they use plain threads.
pub(super) fn spread<T: Sync, R: Send>(
    store: &Store,
    items: &[T],
    work: impl Fn(&T) -> R + Sync + Send,
) -> Vec<R> {
    if !store.is_remote() {
        return items.par_iter().map(work).collect();
    }
    side_by_side(store.reads_in_flight(), items, work)
}

/// Runs `work` on every item, on so many plain threads at most; results are in the order of `items`.
pub(super) fn side_by_side<T: Sync, R: Send>(
    threads_most: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync + Send,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take_turns = || {
        let mut done = Vec::new();
        loop {
            let position = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(position) else { return done };
            done.push((position, work(item)));
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads_most.max(1).min(items.len())).map(|_| scope.spawn(take_turns)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    results.sort_unstable_by_key(|(position, _)| *position);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::event::Silent;
    use crate::hierarchy::Hierarchy;
    use crate::location::StoreUrl;
    use crate::store::StoreOptions;

    fn open(path: &Path) -> Hierarchy {
        Hierarchy::open(&StoreUrl::Local(path.to_owned()), &StoreOptions::default()).unwrap()
    }

    fn headers_of(hierarchy: &Hierarchy) -> Vec<ArraySurvey> {
        let arrays: Vec<&ArrayNode> = hierarchy.arrays.iter().collect();
        let depth = SurveyDepth::Headers { sample_most: 64 };
        survey(hierarchy.store.as_ref().unwrap(), &arrays, depth, &Silent::default(), &Cancel::default())
            .unwrap()
    }

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
    }

    /// An array of 10^12 chunks in a temporary folder, with the given files beside its metadata.
    fn huge(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Hierarchy) {
        let folder = tempfile::tempdir().unwrap();
        let metadata = r#"{"zarr_format":2,"shape":[1000000,1000000],"chunks":[1,1],"dtype":"|u1","fill_value":0,"compressor":null,"filters":null,"order":"C"}"#;
        std::fs::write(folder.path().join(".zarray"), metadata).unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let hierarchy = open(folder.path());
        (folder, hierarchy)
    }

    #[test]
    fn counts_what_is_stored_however_large_the_grid() {
        let (_folder, hierarchy) = huge(&[
            ("0.0", b"x"),
            ("999999.999999", b"y"),
            ("1000000.0", b"z"),
            ("0.1", b""),
            ("notes.txt", b"hi"),
        ]);
        let surveys = headers_of(&hierarchy);
        let listing = surveys[0].listing.as_ref().unwrap();
        assert_eq!(listing.stored.iter().collect::<Vec<_>>(), [0, 1, 999_999_999_999]);
        assert_eq!((listing.bytes_stored, listing.orphans.count, listing.foreign.count), (2, 1, 1));
        let rules: Vec<_> = surveys[0].defects.iter().map(|defect| defect.rule).collect();
        assert_eq!(rules, ["zero-byte-chunk", "orphan-chunks"]);
        assert_eq!(surveys[0].frames.as_ref().unwrap().lanes_per_chunk(), Some(1));
        assert!(!surveys[0].unreadable);
    }

    #[test]
    fn links_and_fifos_are_not_stored_chunks() {
        let (folder, hierarchy) = huge(&[("0.0", b"x")]);
        std::os::unix::fs::symlink("nowhere", folder.path().join("0.1")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("0.2")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("0.3")).status().unwrap();
        assert!(made.success());
        let surveys = headers_of(&hierarchy);
        assert_eq!(surveys[0].listing.as_ref().unwrap().stored.len(), 1);
        assert!(surveys[0].unreadable);
        let rules: Vec<_> = surveys[0].defects.iter().map(|defect| defect.rule).collect();
        assert_eq!(rules, ["dangling-link", "unreadable", "unreadable"]);
    }

    #[test]
    fn a_linked_directory_of_chunks_is_read_through_or_unreadable() {
        let (folder, hierarchy) = huge(&[]);
        let array = hierarchy.arrays[0].clone();
        drop(hierarchy);
        let metadata = std::fs::read_to_string(folder.path().join(".zarray")).unwrap();
        let slashed = metadata.replace("\"order\"", "\"dimension_separator\":\"/\",\"order\"");
        std::fs::write(folder.path().join(".zarray"), slashed).unwrap();
        std::fs::create_dir(folder.path().join("pool")).unwrap();
        std::fs::write(folder.path().join("pool/5"), b"x").unwrap();
        std::os::unix::fs::symlink("pool", folder.path().join("3")).unwrap();
        let survey = headers_of(&open(folder.path())).remove(0);
        let expected = array.metadata.grid.position_of(&[3, 5]).unwrap();
        assert_eq!(survey.listing.unwrap().stored.iter().collect::<Vec<_>>(), [expected]);
        assert!(!survey.unreadable);
        std::os::unix::fs::symlink("/usr", folder.path().join("4")).unwrap();
        assert!(headers_of(&open(folder.path())).remove(0).unreadable);
    }

    #[test]
    fn shard_indexes_and_frames_are_read() {
        let hierarchy = open(&fixture("sharded_index_end.zarr"));
        let frames = headers_of(&hierarchy).remove(0).frames.unwrap();
        assert!(frames.shards.read > 0 && frames.shards.present > 0, "{frames:?}");
        assert_eq!(frames.broken, 0);
        let hierarchy = open(&fixture("era_interim_geopotential.zarr"));
        let surveys = headers_of(&hierarchy);
        let blosc: u64 = surveys
            .iter()
            .filter_map(|survey| survey.frames.as_ref())
            .map(|frames| frames.blosc.frames)
            .sum();
        assert!(blosc > 0);
    }

    #[test]
    fn a_cancelled_survey_says_so() {
        let hierarchy = open(&fixture("ostia_sst.zarr"));
        let arrays: Vec<&ArrayNode> = hierarchy.arrays.iter().collect();
        let cancel = Cancel::default();
        cancel.cancel();
        let depth = SurveyDepth::Listing { sample_most: 0 };
        let error = survey(hierarchy.store.as_ref().unwrap(), &arrays, depth, &Silent::default(), &cancel)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
}
