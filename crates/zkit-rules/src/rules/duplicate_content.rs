//! `duplicate-content`: chunks or arrays hold the same, as far as was compared.

use std::collections::{BTreeMap, BTreeSet};

use zkit_core::engine::{ArrayValues, UnitGrid};
use zkit_core::grid::ChunkSet;
use zkit_report::{Confidence, Severity, format};

use crate::content::{content_of, telling};
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, CacheObservation, StoreObservation};
use crate::rule::{Check, Rule};
use crate::summary::StoreSummary;
use crate::values::{seen_data, with_units};

/// Stores that a message names.
const STORES_NAMED: usize = 4;

pub(crate) const RULE: Rule = Rule {
    id: "duplicate-content",
    severity: Severity::Info,
    confidence: Confidence::Medium,
    depth: Depth::Sample,
    summary: "chunks of an array, or two arrays, hold the same, as far as was compared",
    explanation: "\
Chunks at different places of an array hold the same, or two arrays have the same chunks: a step was written
twice, a batch was fetched again under another id, a variable was copied under another name. Training sees these samples
twice; splits leak.

On disk: chunks whose decoded values have the same statistics and the same bytes; of large chunks a part of the bytes is
compared. Chunks in which every value is the same, and small ones, do not count. Over the stores of a cache whole variables along
times or ids are compared, where every chunk of them was looked at.

Legitimate: fields that do not change over time, climatologies, levels of a pyramid, copies on purpose. A variable that is the
same in all of three or more stores is not told.

What to do: compare the coordinates of the chunks that are named.",
    check: Check::Both(check, check_cache),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let mut whole: BTreeMap<(u64, &[u64]), &ArrayObservation<'_>> = BTreeMap::new();
    for (array, values) in seen_data(store) {
        report_repeated(array, values, finder);
        let Some(content) = content_of(values) else { continue };
        match whole.get(&(content, array.node.metadata.shape())) {
            Some(first) => {
                let message = format!("holds the same as `{}`, chunk by chunk", first.path());
                finder.array(array.path(), message).evidence("same_as", first.path());
            }
            None => {
                whole.insert((content, array.node.metadata.shape()), array);
            }
        }
    }
}

fn report_repeated(array: &ArrayObservation<'_>, values: &ArrayValues, finder: &mut Finder<'_>) {
    let mut first: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut repeated, mut example) = (ChunkSet::default(), None);
    for unit in telling(values) {
        match first.get(&unit.digest) {
            Some(&at) => {
                repeated.insert(unit.position);
                example.get_or_insert((unit.position, at));
            }
            None => {
                first.insert(unit.digest, unit.position);
            }
        }
    }
    let Some((again, at)) = example else { return };
    let name = |position: u64| match values.grid {
        UnitGrid::Stored => format!("`{}`", array.chunk_key(position)),
        UnitGrid::Inner => format!("inner chunk {position}"),
    };
    let message = format!(
        "{} chunks hold the same as one before them; first, {} is {}",
        format::count(repeated.len()),
        name(again),
        name(at)
    );
    let draft = finder.array(array.path(), message).evidence("chunks_seen", values.coverage.chunks_seen);
    with_units(draft, values, &repeated);
}

/// Reports variables that hold the same in several stores, though not in all of them: what never changes does that by right.
fn check_cache(cache: &CacheObservation<'_>, finder: &mut Finder<'_>) {
    let mut holders: BTreeMap<&str, BTreeMap<Option<u64>, Vec<&StoreSummary>>> = BTreeMap::new();
    for store in cache.stores {
        let columns = store.ids.iter().chain(store.times.iter().map(|times| &times.column));
        let paths: BTreeSet<&String> = columns.flat_map(|column| &column.variables).collect();
        for array in paths.into_iter().filter_map(|path| store.array(path)) {
            holders.entry(&array.path).or_default().entry(array.content).or_default().push(store);
        }
    }
    for (path, contents) in &holders {
        let all: usize = contents.values().map(Vec::len).sum();
        for (_, stores) in contents.iter().filter(|(content, _)| content.is_some()) {
            if stores.len() < 2 || (stores.len() == all && all > 2) {
                continue;
            }
            let named: Vec<&str> = stores.iter().take(STORES_NAMED).map(|store| store.name()).collect();
            let more = match stores.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let message = format!("`{path}` holds the same in {}{more}, chunk by chunk", named.join(", "));
            let urls: Vec<&str> = stores.iter().map(|store| store.url.as_str()).collect();
            finder.store(message).evidence("array", *path).evidence("stores", urls);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, cache_findings, coordinate_array, v2_array};

    #[test]
    fn repeated_chunks_and_arrays_are_noted() {
        let chunk =
            |from: u16| (from..from + 16).flat_map(|at| f32::from(at).to_le_bytes()).collect::<Vec<u8>>();
        let array = v2_array(&[48], &[16]);
        let store = TestStore::new()
            .array("a", &array)
            .file("a/0", &chunk(0))
            .file("a/1", &chunk(5))
            .file("a/2", &chunk(0))
            .array("b", &v2_array(&[32], &[16]))
            .file("b/0", &chunk(1))
            .file("b/1", &chunk(2))
            .array("c", &v2_array(&[32], &[16]))
            .file("c/0", &chunk(1))
            .file("c/1", &chunk(2))
            .array("zero", &v2_array(&[32], &[16]))
            .file("zero/0", &[0; 64])
            .file("zero/1", &[0; 64]);
        let found = store.findings("duplicate-content");
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].message, "1 chunks hold the same as one before them; first, `2` is `0`");
        assert_eq!((found[1].array.as_deref(), &found[1].evidence["same_as"]), (Some("/c"), &"/b".into()));
    }
    /// A store of one day each hour whose values count from `first`.
    fn day(day: i64, first: u16) -> TestStore {
        let times: Vec<i64> = (0..24).map(|hour| day * 24 + hour).collect();
        let values: Vec<u8> = (first..first + 24).flat_map(|at| f32::from(at).to_le_bytes()).collect();
        coordinate_array(TestStore::new(), "time", &times, r#"{"units": "hours since 2020-01-01"}"#)
            .array("t", &v2_array(&[24], &[24]))
            .file("t/.zattrs", br#"{"_ARRAY_DIMENSIONS": ["time"]}"#)
            .file("t/0", &values)
    }

    #[test]
    fn variables_that_two_of_several_stores_hold_alike_are_noted() {
        let found = cache_findings("duplicate-content", &[day(0, 5), day(1, 9), day(2, 5)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].evidence["stores"].as_array().unwrap().len(), 2);
        assert_eq!(cache_findings("duplicate-content", &[day(0, 5), day(1, 9), day(2, 8)]), []);
        assert_eq!(cache_findings("duplicate-content", &[day(0, 5), day(1, 5), day(2, 5)]), []);
    }
}
