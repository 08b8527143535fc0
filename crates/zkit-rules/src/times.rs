//! Times over the stores of a cache: which stand in several stores, though the stores are parts of one series.
//!
//! Stores share times by right: one variable, member, tile or level a store, forecasts of which each begins before the last
//! one ended. So only stores of one folder are compared that hold the same variables at the same other coordinates, and
//! among them only those of which most lie behind each other.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use zkit_core::engine::ArrayValues;
use zkit_core::metadata::Json;
use zkit_core::select::{Order, Values};

use crate::coordinates::CoordinateObservation;
use crate::ids::{IdColumn, is_id};
use crate::observe::{ArrayObservation, StoreObservation};
use crate::summary::{StoreSummary, hash};

/// Longer time coordinates are not kept: each takes 16 bytes a value, in every store of a cache.
const TIMES_MOST: usize = 20_000;
/// Stores that may lie over others, at most, however many there are.
const OVER_MOST: usize = 16;

/// Attributes of a variable that say what it is.
const MEANING: [&str; 4] = ["units", "standard_name", "long_name", "cell_methods"];
/// Attributes of a store that say of which run, model or place it is. Source: CMIP6 global attributes, ACDD 1.3.
const IDENTITY: [&str; 14] = [
    "source_id",
    "experiment_id",
    "experiment",
    "variant_label",
    "member_id",
    "realization",
    "realization_index",
    "ensemble_member",
    "model_id",
    "model",
    "platform",
    "station",
    "station_id",
    "product",
];

/// The times of one store, to be compared with those of stores that are alike.
#[derive(Debug, Clone)]
pub struct TimeColumn {
    /// The times, and the variables along them.
    pub column: IdColumn,
    /// A hash of all that stores have in common which are parts of one series.
    pub alike: u64,
}

/// Stores that are parts of one series and share times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// The path of the time coordinate.
    pub path: String,
    /// All stores, ascending.
    pub stores: Vec<usize>,
    /// Those that share times with others, ascending.
    pub sharing: Vec<usize>,
    /// Whether only equal content tells that the times stand there twice by mistake.
    pub needs_equal_content: bool,
}

impl TimeColumn {
    /// Returns the times of a store that name its rows: rising, none missing, and nothing else along them that tells rows apart.
    pub fn of(store: &StoreObservation<'_>) -> Vec<Self> {
        let coordinates = store.coordinate_paths();
        let columns = store.coordinates.iter().filter_map(|read| {
            let array = store.array(&read.coordinate.path)?;
            let dimension = array.dimension_name(0)?;
            if dimension != array.name() || !is_plain(read) || is_id(&read.coordinate, store.policy) {
                return None;
            }
            let group = || store.arrays.iter().filter(|other| other.group() == array.group());
            let (along, beside): (Vec<_>, Vec<_>) = group()
                .filter(|other| other.path() != array.path())
                .partition(|other| runs_along(other, dimension));
            // reference times, members or orbits along the times tell rows of the same time apart
            let named = |other: &&ArrayObservation<'_>| coordinates.contains(other.path());
            if along.is_empty()
                || along.iter().any(|other| named(other) && other.node.metadata.shape().len() == 1)
            {
                return None;
            }
            let alike = alike(store, (read, dimension), &along, &beside);
            let variables = along.iter().filter(|other| !named(other)).map(|other| other.path().to_owned());
            let column = IdColumn::along(&read.coordinate, dimension, variables.collect());
            (!column.variables.is_empty()).then_some(Self { column, alike })
        });
        columns.collect()
    }
}

fn is_plain(read: &CoordinateObservation) -> bool {
    let rising = matches!(read.analysis.order, Order::Increasing | Order::Single);
    let whole = read.analysis.missing == 0 && read.analysis.duplicates.extra == 0;
    let times = matches!(read.coordinate.values, Values::Times { .. });
    times && rising && whole && (1..=TIMES_MOST).contains(&read.coordinate.len())
}

fn runs_along(array: &ArrayObservation<'_>, dimension: &str) -> bool {
    array.node.metadata.dimension_names.iter().flatten().flatten().any(|name| name == dimension)
}

/// Returns a hash of the calendar, the variables along a dimension but for its length, and what lies beside it.
fn alike(
    store: &StoreObservation<'_>,
    (read, dimension): (&CoordinateObservation, &str),
    along: &[&ArrayObservation<'_>],
    beside: &[&ArrayObservation<'_>],
) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Values::Times { calendar, .. } = &read.coordinate.values {
        calendar.hash(&mut hasher);
    }
    for array in along {
        let metadata = &array.node.metadata;
        let shape = metadata.shape().iter().enumerate();
        let others =
            shape.filter(|(at, _)| array.dimension_name(*at) != Some(dimension)).map(|(_, length)| length);
        let texts = MEANING.map(|name| metadata.attributes.get(name).map(meaning));
        (array.path(), metadata.data_type.to_string(), others.collect::<Vec<_>>(), texts).hash(&mut hasher);
    }
    for array in beside {
        (array.path(), array.node.metadata.shape(), content(store, array)).hash(&mut hasher);
    }
    let root = store.hierarchy.groups.iter().find(|group| group.path == "/");
    let identity = |name: &&str| root?.attributes.get(name).map(hash);
    IDENTITY.iter().map(identity).collect::<Vec<_>>().hash(&mut hasher);
    hasher.finish()
}

/// Returns a hash of an attribute; units of time count from another day in each store.
fn meaning(value: &Json) -> u64 {
    match value.as_str() {
        Some(units) if units.contains(" since ") => 0,
        _ => hash(value),
    }
}

/// Returns a hash of what an array holds, if all of it was seen.
fn content(store: &StoreObservation<'_>, array: &ArrayObservation<'_>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    if let Some(read) = store.coordinate(array.path()) {
        let values = &read.coordinate.values;
        (0..values.len()).for_each(|position| values.key(position).hash(&mut hasher));
        return Some(hasher.finish());
    }
    let seen = |values: &&ArrayValues| values.coverage.is_full();
    for unit in array.values.as_ref().filter(seen)?.units.as_ref()? {
        (unit.position, unit.digest).hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// The times of one store.
struct Span<'a> {
    store: usize,
    times: &'a [i128],
}

impl Span<'_> {
    fn first(&self) -> i128 {
        self.times[0]
    }

    fn last(&self) -> i128 {
        self.times[self.times.len() - 1]
    }
}

/// Two stores, by their places in the order of time, and how many times they share.
struct Overlap {
    one: usize,
    other: usize,
    shared: usize,
}

/// Returns the stores of one folder that are parts of one series and share times, path by path.
pub fn series(stores: &[StoreSummary]) -> Vec<Series> {
    let mut alike: BTreeMap<(&str, u64, &str), Vec<usize>> = BTreeMap::new();
    for (store, summary) in stores.iter().enumerate() {
        let url = summary.url.trim_end_matches('/');
        let folder = url.rsplit_once('/').map_or("", |(folder, _)| folder);
        for times in &summary.times {
            let key = (times.column.coordinate.path.as_str(), times.alike, folder);
            alike.entry(key).or_default().push(store);
        }
    }
    alike.into_iter().filter_map(|((path, ..), members)| series_of(stores, path, members)).collect()
}

fn series_of(stores: &[StoreSummary], path: &str, members: Vec<usize>) -> Option<Series> {
    let mut spans: Vec<Span<'_>> = members
        .iter()
        .filter_map(|&store| Some(Span { store, times: times_of(&stores[store], path)? }))
        .collect();
    spans.sort_by_key(|span| (span.first(), span.last()));
    let over = spans.len().checked_sub(behind_each_other(&spans))?;
    if over == 0 || over > (spans.len() / 5).clamp(1, OVER_MOST) {
        return None;
    }
    let overlaps = overlaps(&spans);
    let shorter = |overlap: &Overlap| spans[overlap.one].times.len().min(spans[overlap.other].times.len());
    let (whole, parts): (Vec<_>, Vec<_>) =
        overlaps.iter().partition(|overlap| overlap.shared == shorter(overlap));
    // a part that was cut out of a store, or one that was put together from others, lies beside them on purpose
    let copied = |overlap: &&Overlap| {
        let (one, other) = (&spans[overlap.one], &spans[overlap.other]);
        one.times.len() == other.times.len() && same_layout(&stores[one.store], &stores[other.store], path)
    };
    let little = |overlap: &&Overlap| spans.len() > 2 || 2 * overlap.shared < shorter(overlap);
    if overlaps.is_empty() || !whole.iter().all(copied) || !parts.iter().all(little) {
        return None;
    }
    let mut sharing: Vec<usize> =
        overlaps.iter().flat_map(|overlap| [spans[overlap.one].store, spans[overlap.other].store]).collect();
    sharing.sort_unstable();
    sharing.dedup();
    let needs_equal_content = spans.len() == 2
        || !whole.is_empty()
        || !is_without_gaps(&spans)
        || may_be_forecasts(&spans, &overlaps);
    Some(Series { path: path.to_owned(), stores: members, sharing, needs_equal_content })
}

fn times_of<'a>(store: &'a StoreSummary, path: &str) -> Option<&'a [i128]> {
    let times = store.times.iter().find(|times| times.column.coordinate.path == path)?;
    match &times.column.coordinate.values {
        Values::Times { values, .. } => Some(values),
        _ => None,
    }
}

/// Returns how many stores can be taken that lie behind each other in time, at most.
fn behind_each_other(spans: &[Span<'_>]) -> usize {
    let mut by_end: Vec<(i128, i128)> = spans.iter().map(|span| (span.last(), span.first())).collect();
    by_end.sort_unstable();
    let (mut taken, mut end) = (0, None);
    for (last, first) in by_end {
        if end.is_none_or(|end| first > end) {
            (taken, end) = (taken + 1, Some(last));
        }
    }
    taken
}

fn overlaps(spans: &[Span<'_>]) -> Vec<Overlap> {
    let mut overlaps = Vec::new();
    for (one, span) in spans.iter().enumerate() {
        let later =
            spans.iter().enumerate().skip(one + 1).take_while(|(_, later)| later.first() <= span.last());
        for (other, later) in later {
            let shared = later.times.iter().filter(|time| span.times.binary_search(time).is_ok()).count();
            if shared > 0 {
                overlaps.push(Overlap { one, other, shared });
            }
        }
    }
    overlaps
}

/// Returns whether chunks and codecs of the variables are the same: a store that was laid out anew is a copy on purpose.
fn same_layout(one: &StoreSummary, other: &StoreSummary, path: &str) -> bool {
    let columns = || one.times.iter().map(|times| &times.column);
    let variables =
        columns().filter(|column| column.coordinate.path == path).flat_map(|column| &column.variables);
    one.formats == other.formats
        && variables.into_iter().all(|variable| match (one.array(variable), other.array(variable)) {
            (Some(one), Some(other)) => one.chunk_shape == other.chunk_shape && one.codecs == other.codecs,
            _ => false,
        })
}

/// Returns whether no step between all times together is longer than the longest one inside a store.
fn is_without_gaps(spans: &[Span<'_>]) -> bool {
    let inside = spans.iter().flat_map(|span| span.times.windows(2)).map(|pair| pair[1] - pair[0]).max();
    let Some(inside) = inside else { return false };
    let mut end = spans[0].last();
    spans.iter().all(|span| {
        let reached = span.first() - end <= inside;
        end = end.max(span.last());
        reached
    })
}

/// Returns whether stores may be forecasts, or windows that move on: each begins as long after the one before it, or most overlap
/// with their neighbours and hold times that no other store has.
fn may_be_forecasts(spans: &[Span<'_>], overlaps: &[Overlap]) -> bool {
    let steps: Vec<i128> = spans.windows(2).map(|pair| pair[1].first() - pair[0].first()).collect();
    let lengths = spans.windows(2).all(|pair| pair[0].times.len() == pair[1].times.len());
    if lengths && steps.windows(2).all(|pair| pair[0] == pair[1]) {
        return true;
    }
    let neighbours = overlaps.iter().filter(|overlap| overlap.other == overlap.one + 1).count();
    2 * neighbours >= spans.len() && !spans.iter().enumerate().any(|(at, _)| stands_elsewhere(spans, at))
}

/// Returns whether all times of a store stand in others.
fn stands_elsewhere(spans: &[Span<'_>], at: usize) -> bool {
    let others = || spans.iter().enumerate().filter(|(other, _)| *other != at);
    spans[at].times.iter().all(|time| others().any(|(_, other)| other.times.binary_search(time).is_ok()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::summary::StoreSummary;
    use crate::testing::{TestStore, coordinate_array, summary_findings, v2_array};

    /// A store of a variable at some hours, of the member `number`.
    fn hours(hours: impl IntoIterator<Item = i64>, number: i64) -> TestStore {
        let hours: Vec<i64> = hours.into_iter().collect();
        let length = hours.len() as u64;
        let store =
            coordinate_array(TestStore::new(), "time", &hours, r#"{"units": "hours since 2020-01-01"}"#);
        coordinate_array(store, "number", &[number], "{}")
            .array("t", &v2_array(&[length], &[length]))
            .file("t/.zattrs", br#"{"_ARRAY_DIMENSIONS": ["time"]}"#)
    }

    /// What is kept of stores that lie in one folder.
    fn summaries(stores: &[TestStore]) -> Vec<StoreSummary> {
        let named = stores.iter().enumerate().map(|(at, store)| {
            let url = format!("/cache/{at}.zarr");
            StoreSummary { url, ..store.summary() }
        });
        named.collect()
    }

    fn told(stores: &[StoreSummary]) -> Vec<String> {
        summary_findings("duplicate-ids", stores).into_iter().map(|finding| finding.message).collect()
    }

    /// Says what rows hold: the same in all stores, or something of each store.
    fn with_rows(mut stores: Vec<StoreSummary>, digest: impl Fn(usize) -> u128) -> Vec<StoreSummary> {
        for (at, store) in stores.iter_mut().enumerate() {
            let column = &mut store.times[0].column;
            let row = BTreeMap::from([("/t".to_owned(), digest(at))]);
            column.rows =
                (0..column.coordinate.len() as u64).map(|position| (position, row.clone())).collect();
        }
        stores
    }

    #[test]
    fn a_store_of_a_series_that_reaches_into_another_is_told() {
        let day_too_many = summaries(&[hours(0..24, 0), hours(24..48, 0), hours(44..68, 0)]);
        let found = told(&day_too_many);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("`time` has 72 entries in 3 stores, 68 unique, 4 duplicates"),
            "{found:?}"
        );
        assert!(found[0].contains("2020-01-02T20"), "{found:?}");
        let begun_again = [hours(0..24, 0), hours(24..48, 0), hours(30..54, 0), hours(54..78, 0)];
        assert_eq!(told(&summaries(&begun_again)).len(), 1);
        let month_between = [hours(0..31, 0), hours(31..62, 0), hours(11..42, 0)];
        assert_eq!(told(&summaries(&month_between)).len(), 1);
    }

    #[test]
    fn stores_that_share_times_by_right_are_not_told() {
        let follow = [hours(0..24, 0), hours(24..48, 0), hours(48..72, 0)];
        assert_eq!(told(&summaries(&follow)), [""; 0]);
        let members = [hours(0..24, 0), hours(0..24, 1), hours(24..48, 0), hours(24..48, 1)];
        assert_eq!(told(&summaries(&members)), [""; 0]);
        let runs = [hours(0..24, 0), hours(24..48, 0), hours(24..48, 0), hours(48..72, 0)];
        assert_eq!(told(&with_rows(summaries(&runs), |at| at as u128)), [""; 0]);
        let forecasts = [hours(0..48, 0), hours(24..72, 0), hours(48..96, 0)];
        assert_eq!(told(&summaries(&forecasts)), [""; 0]);
        let long_ones: Vec<TestStore> = (0..8).map(|at| hours(at * 24..at * 24 + 60, 0)).collect();
        assert_eq!(told(&summaries(&long_ones)), [""; 0]);
        let cases = [hours(0..48, 0), hours(24..72, 0), hours(500..548, 0)];
        assert_eq!(told(&summaries(&cases)), [""; 0]);
        let mut folders = summaries(&[hours(0..24, 0), hours(24..48, 0), hours(44..68, 0)]);
        folders[2].url = "/other/2.zarr".to_owned();
        assert_eq!(told(&folders), [""; 0]);
    }

    #[test]
    fn copies_are_told_by_what_they_hold() {
        let copied = || summaries(&[hours(0..24, 0), hours(24..48, 0), hours(24..48, 0), hours(48..72, 0)]);
        let found = told(&with_rows(copied(), |_| 7));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("equal times hold equal content"), "{found:?}");
        let pair = |other: TestStore| summaries(&[hours(0..24, 0), other]);
        assert_eq!(told(&with_rows(pair(hours(0..24, 0)), |_| 7)).len(), 1);
        assert_eq!(told(&with_rows(pair(hours(20..44, 0)), |_| 7)).len(), 1);
        assert_eq!(told(&with_rows(pair(hours(20..44, 0)), |at| at as u128)), [""; 0]);
        assert_eq!(told(&with_rows(pair(hours(6..12, 0)), |_| 7)), [""; 0], "a part on purpose");
        let parts_and_all =
            summaries(&[hours(0..24, 0), hours(24..48, 0), hours(48..72, 0), hours(0..72, 0)]);
        assert_eq!(told(&with_rows(parts_and_all, |_| 7)), [""; 0], "put together from the others");
        let other_chunks = hours(0..24, 0).array("t", &v2_array(&[24], &[6]));
        assert_eq!(told(&with_rows(pair(other_chunks), |_| 7)), [""; 0], "laid out anew");
    }
}
