//! The stores that a slice is taken from: found, opened side by side, and what of each is taken.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use zkit_cli::targets;
use zkit_cli::values::ArrayFilter;
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::hierarchy::{ArrayNode, Broken, Hierarchy, Reviewed, needed_by, with_companions};
use zkit_core::location::StoreUrl;
use zkit_core::metadata::Defect;
use zkit_core::store::{Store, StoreOptions};

use crate::axes::Axes;

/// Threads that open stores, at most; of local ones, whose metadata is parsed and not waited for, no more than there are
/// cores: each holds the metadata of a whole store.
const OPEN_JOBS: usize = 16;

/// One store, open.
#[derive(Debug)]
pub(crate) struct Source {
    /// Which set it belongs to: 0 for the sources themselves, then one for each --merge-with.
    pub(crate) set: usize,
    /// Where it is.
    pub(crate) place: StoreUrl,
    /// What its metadata says, but for its arrays.
    pub(crate) hierarchy: Hierarchy,
    /// What of it a slice does not have, after its defects were answered for.
    pub(crate) reviewed: Reviewed,
    /// Its arrays; those that are alike in many sources are one in memory.
    pub(crate) arrays: Vec<Arc<ArrayNode>>,
    /// The positions of the arrays that are taken.
    pub(crate) taken: Vec<usize>,
    /// The dimensions of its arrays.
    pub(crate) axes: Axes,
}

impl Source {
    /// Returns the bytes behind it.
    pub(crate) fn store(&self) -> Result<&Store> {
        self.hierarchy.readable_store()
    }

    /// Returns one of its arrays.
    pub(crate) fn array(&self, array: usize) -> &ArrayNode {
        &self.arrays[array]
    }

    /// Returns where it is, without secrets.
    pub(crate) fn url(&self) -> &str {
        &self.hierarchy.url
    }
}

/// Which arrays of the sources are taken.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) filter: &'a ArrayFilter,
    /// The dimension that sources lie behind each other along, whose values are needed.
    pub(crate) concat: Option<&'a str>,
}

/// Opens the stores that the sets of paths name; they are numbered in that order.
///
/// Errors: those of opening, `Absent` where a folder holds no store, `Corrupt` or `Unreadable` where nodes that are taken
/// are broken.
pub(crate) fn open(sets: &[Vec<String>], wanted: Wanted<'_>, options: &StoreOptions) -> Result<Vec<Source>> {
    let mut urls: Vec<(usize, StoreUrl)> = Vec::new();
    for (set, paths) in sets.iter().enumerate() {
        for path in paths {
            urls.extend(targets::stores(path)?.into_iter().map(|url| (set, url)));
        }
    }
    for (at, (set, url)) in urls.iter().enumerate() {
        if urls[..at].iter().any(|(other_set, other)| (other_set, other) == (set, url)) {
            let message = format!("{url} is named more than once");
            return Err(Error::new(ErrorKind::Usage, message).with_hint("name each source once"));
        }
    }
    let known = Known::default();
    let local = urls.iter().all(|(_, url)| url.local_path().is_some());
    let cores = std::thread::available_parallelism().map_or(OPEN_JOBS, NonZero::get);
    let jobs = if local { OPEN_JOBS.min(cores) } else { OPEN_JOBS };
    let opened = on_threads(jobs, &urls, |(set, url)| open_one(*set, url, wanted, (options, &known)));
    let sources = opened.into_iter().collect::<Result<Vec<Source>>>()?;
    if sources.iter().all(|source| source.taken.is_empty()) {
        let some = sources.iter().any(|source| !source.arrays.is_empty());
        let message =
            if some { "--include and --exclude leave no array" } else { "the sources hold no array" };
        return Err(Error::new(ErrorKind::Usage, message)
            .with_hint("run `zkit inspect` to see the paths of the arrays"));
    }
    Ok(sources)
}

/// Does work on many items, several at once; results are in their order.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    on_threads(OPEN_JOBS, items, work)
}

fn on_threads<T: Sync, R: Send>(jobs: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    std::thread::scope(|scope| {
        for _ in 0..items.len().min(jobs) {
            scope.spawn(|| {
                while let Some((at, item)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).map(|item| (at, item))
                } {
                    let result = work(item);
                    done.lock().expect("no thread panics while it holds the results").push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panics while it holds the results");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Arrays that were seen so far, by path.
#[derive(Default)]
struct Known(Mutex<HashMap<String, Vec<Arc<ArrayNode>>>>);

impl Known {
    /// Returns arrays to be kept: in the place of one that was seen, in another store, that one.
    fn shared(&self, arrays: Vec<ArrayNode>) -> Vec<Arc<ArrayNode>> {
        let mut known = self.0.lock().expect("no thread panics while it compares");
        let shared = arrays.into_iter().map(|array| {
            let alike = known.entry(array.path.clone()).or_default();
            if let Some(same) = alike.iter().find(|other| ***other == array) {
                return Arc::clone(same);
            }
            let array = Arc::new(array);
            alike.push(Arc::clone(&array));
            array
        });
        shared.collect()
    }
}

fn open_one(
    set: usize,
    url: &StoreUrl,
    wanted: Wanted<'_>,
    (options, known): (&StoreOptions, &Known),
) -> Result<Source> {
    let mut hierarchy = Hierarchy::open(url, options)?;
    hierarchy.readable_store()?;
    // over a network consolidated metadata is taken at its word, as other readers do: a slice lists nothing there
    if hierarchy.store.as_ref().is_some_and(|store| !store.is_remote()) {
        hierarchy.look_beside()?;
    }
    let taken = taken(&hierarchy, wanted);
    // of what is needed nothing may be unknown: the arrays, what describes them, and the groups above them
    let needed = needed_by(&hierarchy.arrays, &taken, wanted.concat);
    let concerns = |defect: &Defect| wanted.filter.concerns(defect, &|path| needed.contains(path));
    let reviewed = hierarchy.review(&concerns, Broken::Refuse)?;
    let axes = Axes::of(&hierarchy, &taken)?;
    let arrays = known.shared(std::mem::take(&mut hierarchy.arrays));
    Ok(Source { set, place: url.clone(), hierarchy, reviewed, arrays, taken, axes })
}

/// Returns the positions of the arrays that are taken: those of the filter, and what describes them.
fn taken(hierarchy: &Hierarchy, Wanted { filter, concat }: Wanted<'_>) -> Vec<usize> {
    let arrays = &hierarchy.arrays;
    let taken: Vec<usize> = (0..arrays.len()).filter(|&at| filter.takes(&arrays[at].path)).collect();
    if taken.len() == arrays.len() {
        return taken;
    }
    with_companions(arrays, taken, &|path| filter.refuses(path), concat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestStore, names};

    #[test]
    fn coordinates_of_what_is_included_come_along() {
        let store = TestStore::new()
            .ints("lat", &["lat"], &[3], &[1, 2, 3])
            .ints("lat_bounds", &["lat"], &[3], &[1, 2, 3])
            .ints("t2m", &["lat"], &[3], &[4, 5, 6])
            .ints("u10", &["lat"], &[3], &[7, 8, 9]);
        let sources = store.open(&["t2m"], &[]).unwrap();
        assert_eq!(names(&sources[0]), ["/lat", "/t2m"]);
        let sources = store.open(&["t2m"], &["lat"]).unwrap();
        assert_eq!(names(&sources[0]), ["/t2m"]);
        let error = store.open(&["v10"], &[]).unwrap_err();
        assert!(error.to_string().contains("leave no array"), "{error}");
    }

    #[test]
    fn a_source_that_is_named_twice_is_a_mistake() {
        let store = TestStore::new().ints("a", &["x"], &[1], &[1]);
        let paths = vec![store.path().to_owned(), store.path().to_owned()];
        let filter = ArrayFilter::new(vec![], vec![]);
        let wanted = Wanted { filter: &filter, concat: None };
        let error = open(&[paths], wanted, &StoreOptions::default()).unwrap_err();
        assert!(error.to_string().contains("more than once"), "{error}");
    }
}
