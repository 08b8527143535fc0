//! Values of a coordinate, or ids of a cache, that stand more than once.

use serde_json::{Value, json};
use zkit_core::select::{Axis, Order, Repeat, Values, range_in_words};
use zkit_report::{Confidence, Severity};

use crate::coordinates::{CoordinateObservation, is_declared_id};
use crate::depth::Depth;
use crate::finder::Finder;
use crate::ids::{Content, IdGroup, RepeatedId, column, id_groups};
use crate::observe::{CacheObservation, StoreObservation};
use crate::rule::{Check, Rule};
use crate::summary::{StoreSummary, names_below};
use crate::words::shell_quoted;

pub(crate) const RULE: Rule = Rule {
    id: "duplicate-ids",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Sample,
    summary: "a coordinate holds a value twice, or stores of one cache hold the same id",
    explanation: "\
A value of a coordinate names one row; where it stands twice, selecting by it gives two rows or an error, averages count
one twice, and training sees it twice. It comes from a batch that was appended again, from resumed jobs, and from caches whose
batches overlap. The same id with different content is worse: one of the two is wrong.

On disk: the array of one dimension that is named like it (time, file_id, ...) holds equal values after decoding; over the
stores of a cache, the ids of one store stand in another. Ids are coordinates of whole numbers or texts called id, *_id,
sample, file, name, key or the like, and those that zkit.toml declares: [audit] ids = [\"file_id\"]. Times are compared
between stores of a folder that hold the same variables at the same places, members and levels, where most of the stores lie
behind each other in time and few reach into others: a download that was begun again, a store that was copied.

Legitimate: stores of different variables hold the same ids, and are to be merged: only stores that share variables along
the dimension are compared. Stores that share times by right (members, models, tiles, forecasts that begin before the last one
ended) are not told: where two stores have the same times, where there are two stores alone, or where the times leave gaps, only
equal content is, and none where a store is a part of another one. Auxiliary coordinates (station names along obs) may repeat: only coordinates named like their
dimension are looked at, unless declared. Positions of a moving or fixed platform may repeat as well: for latitudes,
longitudes and heights a few repeated values among many are an error, many are a note.

What to do: keep one of the rows: `zkit slice STORE... --to DST --concat DIMENSION --duplicates first`, or write the batch again.",
    check: Check::Both(check_store, check_cache),
};

/// Runs of repeated values that a message names.
const RUNS_NAMED: usize = 3;
/// Ids that evidence names, and of those with different content the message.
const IDS_NAMED: usize = 100;
const IDS_IN_WORDS: usize = 6;
/// Stores that a command names one by one; of more it names the folder.
const STORES_NAMED: usize = 64;

fn check_store(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for read in &store.coordinates {
        let (coordinate, duplicates) = (&read.coordinate, &read.analysis.duplicates);
        if duplicates.extra == 0 {
            continue;
        }
        let present = coordinate.len() - read.analysis.missing;
        let message = format!(
            "{} of {present} values appear more than once: {}",
            duplicates.extra,
            repeats_in_words(read)
        );
        let repeats: Vec<Value> = duplicates
            .repeats
            .iter()
            .map(|repeat| json!({"first": repeat.first, "again": repeat.again, "count": repeat.len, "value": coordinate.show(repeat.first)}))
            .collect();
        let mut finding = finder
            .array(&coordinate.path, message)
            .evidence("entries", present)
            .evidence("unique", present - duplicates.extra)
            .evidence("duplicates", duplicates.extra)
            .evidence("repeats", repeats)
            .remedy(keep_one(&[&store.hierarchy.url], dimension_of(store, &coordinate.path)));
        if is_path_of_a_platform(read) && !is_declared_id(&coordinate.path, store.policy) {
            finding = finding.severity(Severity::Info).confidence(Confidence::Low);
        }
        let _ = finding;
    }
}

/// Returns whether positions in space repeat as those of a fixed or moving platform do, and those of a grid do not.
fn is_path_of_a_platform(read: &CoordinateObservation) -> bool {
    let spatial =
        matches!(read.coordinate.axis, Axis::Latitude | Axis::Longitude | Axis::Vertical | Axis::Horizontal);
    let ordered = matches!(read.analysis.order, Order::Increasing | Order::Decreasing | Order::Seam { .. });
    spatial && (!ordered || read.analysis.duplicates.extra * 2 >= read.coordinate.len())
}

/// Returns where values appear again: `54 appears 20 times`, `2013-01-10..11 (positions 36..39) again at 40..43`.
fn repeats_in_words(read: &CoordinateObservation) -> String {
    if let (1, Some(only)) = (read.analysis.duplicates.values, read.analysis.duplicates.repeats.first()) {
        let times = read.analysis.duplicates.extra + 1;
        return format!(
            "{} appears {times} times, first at position {}",
            read.coordinate.show(only.first),
            only.first
        );
    }
    let positions = |first: usize, len: usize| match len {
        1 => format!("{first}"),
        _ => format!("{first}..{}", first + len - 1),
    };
    let repeats = &read.analysis.duplicates.repeats;
    let named = repeats.iter().take(RUNS_NAMED).map(|&Repeat { first, again, len }| {
        format!(
            "{} (positions {}) again at {}",
            range_in_words(&read.coordinate, first, first + len - 1),
            positions(first, len),
            positions(again, len)
        )
    });
    let mut words: Vec<String> = named.collect();
    let told: usize = repeats.iter().take(RUNS_NAMED).map(|repeat| repeat.len).sum();
    let left = read.analysis.duplicates.extra - told;
    if left > 0 {
        words.push(format!("and {left} more"));
    }
    words.join(", ")
}

fn check_cache(cache: &CacheObservation<'_>, finder: &mut Finder<'_>) {
    for group in id_groups(cache.stores) {
        if group.is_across_stores(cache.stores) {
            report(cache, &group, finder);
        }
    }
}

/// Reports the ids that appear more than once over the stores of a group.
fn report(cache: &CacheObservation<'_>, group: &IdGroup, finder: &mut Finder<'_>) {
    let stores = cache.stores;
    let name = group.path.trim_start_matches('/');
    let contents: Vec<Content> = group.repeated.iter().map(|id| group.content(stores, id)).collect();
    let count = |wanted: Content| contents.iter().filter(|&&content| content == wanted).count();
    let (different, equal) = (count(Content::Different), count(Content::Equal));
    let duplicates = group.entries - group.unique;
    let mut message = format!(
        "`{name}` has {} entries in {} stores, {} unique, {duplicates} duplicates",
        group.entries,
        group.stores.len(),
        group.unique
    );
    message.push_str(&places_in_words(stores, group));
    let nouns = if is_of_times(stores, group) { "times" } else { "ids" };
    let (compared, variables) = group.variables_compared(stores);
    let seen = match compared == variables {
        true => String::new(),
        false => format!(" in the {compared} of {variables} variables that were compared"),
    };
    // those that hold different content first
    let mut order: Vec<usize> = (0..group.repeated.len()).collect();
    order.sort_by_key(|&at| contents[at] != Content::Different);
    let compared_ids = different + equal;
    let of_all = match compared_ids == contents.len() {
        true => format!("all {compared_ids}"),
        false => format!("{compared_ids} of the {} {nouns} that appear more than once", contents.len()),
    };
    if compared_ids == 0 {
        message.push_str("; their content was not compared");
    } else if different > 0 {
        let ids = order.iter().take(different).map(|&at| group.repeated[at].value.as_str());
        let mut named: Vec<&str> = ids.take(IDS_IN_WORDS).collect();
        let more = format!("{} more", different - named.len());
        if different > named.len() {
            named.push(&more);
        }
        let named = named.join(", ");
        message.push_str(&format!(
            "; {of_all} were compared{seen}: {different} hold different content ({named})"
        ));
        if equal > 0 {
            message.push_str(&format!(", {equal} the same"));
        }
    } else {
        message.push_str(&format!("; {of_all} were compared{seen}: equal {nouns} hold equal content"));
    }
    let ids: Vec<Value> = order
        .iter()
        .take(IDS_NAMED)
        .map(|&at| {
            let id = &group.repeated[at];
            let places: Vec<Value> = id
                .places
                .iter()
                .filter_map(|place| {
                    Some(json!({"store": stores.get(place.store)?.url, "position": place.position}))
                })
                .collect();
            let content = match contents[at] {
                Content::Equal => "equal",
                Content::Different => "different",
                Content::Unknown => "unknown",
            };
            json!({"id": id.value, "places": places, "content": content})
        })
        .collect();
    finder
        .store(message)
        .evidence("coordinate", group.path.as_str())
        .evidence("entries", group.entries)
        .evidence("unique", group.unique)
        .evidence("duplicates", duplicates)
        .evidence("different_content", different)
        .evidence("equal_content", equal)
        .evidence("variables_compared", compared)
        .evidence("variables", variables)
        .evidence("ids_compared", compared_ids)
        .evidence("ids_not_named", group.repeated.len().saturating_sub(IDS_NAMED))
        .evidence("ids", ids)
        .remedy(match different {
            0 => keep_one(&sources(cache, group), dimension(stores, group)),
            _ => "find out which store is right before either is used: --format json lists the ids and their stores".to_owned(),
        });
}

/// Returns what a command names to take the stores of a group: themselves, or the folder where they are many.
fn sources<'s>(cache: &'s CacheObservation<'_>, group: &IdGroup) -> Vec<&'s str> {
    if group.stores.len() > STORES_NAMED && group.stores.len() == cache.stores.len() {
        return vec![cache.url];
    }
    group.stores.iter().filter_map(|&store| Some(cache.stores.get(store)?.url.as_str())).collect()
}

/// Returns the dimension that the ids of a group run along.
fn dimension<'s>(stores: &'s [StoreSummary], group: &IdGroup) -> &'s str {
    let first = group.stores.first().and_then(|&store| column(stores.get(store)?, &group.path));
    first.map_or("", |column| column.dimension.as_str())
}

/// Returns the dimension of a coordinate, else its name.
fn dimension_of<'s>(store: &'s StoreObservation<'_>, path: &'s str) -> &'s str {
    let name = path.rsplit('/').next().unwrap_or(path);
    store.array(path).and_then(|array| array.dimension_name(0)).unwrap_or(name)
}

/// Returns the command that copies stores with one row of each value.
fn keep_one(sources: &[&str], dimension: &str) -> String {
    let sources: Vec<String> = sources.iter().map(|source| shell_quoted(source)).collect();
    let dimension = shell_quoted(dimension);
    format!(
        "zkit slice {} --concat {dimension} --duplicates first --to without-duplicates.zarr",
        sources.join(" ")
    )
}

fn is_of_times(stores: &[StoreSummary], group: &IdGroup) -> bool {
    let column = group.stores.first().and_then(|&store| column(&stores[store], &group.path));
    column.is_some_and(|column| matches!(column.coordinate.values, Values::Times { .. }))
}

/// Returns where the first of the repeated ids stands, and how far the times reach that stand there too.
fn places_in_words(stores: &[StoreSummary], group: &IdGroup) -> String {
    let Some(first) = group.repeated.first() else { return String::new() };
    let of = |id: &RepeatedId| id.places.iter().map(|place| place.store).collect::<Vec<_>>();
    let names = names_below(stores);
    let names: Vec<&str> = first.places.iter().filter_map(|place| names.get(place.store).copied()).collect();
    let names = names.join(" and ");
    let last = group.repeated.iter().take_while(|id| of(id) == of(first)).last().unwrap_or(first);
    match is_of_times(stores, group) && last != first {
        true => format!(" (the first are {} to {} in {names})", first.value, last.value),
        false => format!(" (the first is {} in {names})", first.value),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use zkit_report::Severity;

    use crate::testing::{TestStore, cache_findings, coordinate_array, summary_findings, v2_array};

    #[test]
    fn a_batch_that_was_appended_twice_is_named() {
        let values: Vec<i64> = (0..40).chain(36..40).chain(40..60).collect();
        let found =
            coordinate_array(TestStore::new(), "time", &values, r#"{"units": "days since 2020-01-01"}"#)
                .findings("duplicate-ids");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].array.as_deref(), Some("/time"));
        assert_eq!(found[0].severity, Severity::Error);
        assert_eq!(
            found[0].message,
            "4 of 64 values appear more than once: 2020-02-06..09 (positions 36..39) again at 40..43"
        );
        assert_eq!(found[0].evidence["unique"], 60);
    }

    #[test]
    fn positions_of_a_platform_are_a_note() {
        let fixed = coordinate_array(TestStore::new(), "lat", &[54; 20], r#"{"units": "degrees_north"}"#);
        let found = fixed.findings("duplicate-ids");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
        let rows: Vec<i64> = (0..20).chain([19]).collect();
        let grid = coordinate_array(TestStore::new(), "lat", &rows, r#"{"units": "degrees_north"}"#);
        assert_eq!(grid.findings("duplicate-ids")[0].severity, Severity::Error);
    }

    #[test]
    fn auxiliary_coordinates_may_repeat_unless_they_are_declared() {
        let aux = || {
            coordinate_array(TestStore::new(), "station", &[1, 1, 2], "{}")
                .file("station/.zattrs", br#"{"_ARRAY_DIMENSIONS": ["obs"]}"#)
        };
        assert_eq!(aux().findings("duplicate-ids"), []);
        let declared = aux().with_policy("ids = [\"station\"]").findings("duplicate-ids");
        assert_eq!(declared.len(), 1);
    }

    fn batch(ids: &[i64], variable: &str) -> TestStore {
        let length = ids.len() as u64;
        coordinate_array(TestStore::new(), "file_id", ids, "{}")
            .array(variable, &v2_array(&[length, 3], &[1, 3]))
            .file(&format!("{variable}/.zattrs"), br#"{"_ARRAY_DIMENSIONS": ["file_id", "x"]}"#)
    }

    #[test]
    fn stores_of_a_cache_that_hold_the_same_ids_are_counted() {
        let stores = [batch(&[0, 1, 2, 3], "t2m"), batch(&[3, 4, 5], "t2m"), batch(&[5, 6, 0], "t2m")];
        let found = cache_findings("duplicate-ids", &stores);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].message.starts_with("`file_id` has 10 entries in 3 stores, 7 unique, 3 duplicates"),
            "{}",
            found[0].message
        );
        assert_eq!(found[0].evidence["ids"][0]["id"], "0");
        assert_eq!(found[0].evidence["ids"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn stores_of_other_variables_are_to_be_merged() {
        let stores = [batch(&[0, 1], "t2m"), batch(&[0, 1], "u10"), batch(&[2, 3], "t2m")];
        let found = cache_findings("duplicate-ids", &stores);
        assert_eq!(found, []);
    }

    #[test]
    fn the_same_id_with_different_content_is_told_apart() {
        let stores = [batch(&[7, 8], "t2m"), batch(&[8, 7], "t2m")];
        let mut summaries: Vec<_> = stores.iter().map(TestStore::summary).collect();
        let row = |digest: u128| BTreeMap::from([("/t2m".to_owned(), digest)]);
        summaries[0].ids[0].rows = BTreeMap::from([(0, row(1)), (1, row(2))]);
        summaries[1].ids[0].rows = BTreeMap::from([(0, row(2)), (1, row(3))]);
        let found = summary_findings("duplicate-ids", &summaries);
        assert!(
            found[0].message.ends_with("; all 2 were compared: 1 hold different content (7), 1 the same"),
            "{}",
            found[0].message
        );
        assert_eq!(found[0].evidence["ids"][0]["content"], "different");
        assert_eq!(found[0].evidence["equal_content"], 1);
    }

    #[test]
    fn how_many_ids_were_compared_is_said_and_the_command_names_stores_that_are_told_apart() {
        let stores = [batch(&[7, 8, 9], "t2m"), batch(&[9, 8, 7], "t2m")];
        let mut summaries: Vec<_> = stores.iter().map(TestStore::summary).collect();
        summaries[0].url = "cache/it's/b.zarr".to_owned();
        summaries[1].url = "cache/other/b.zarr".to_owned();
        let row = |digest: u128| BTreeMap::from([("/t2m".to_owned(), digest)]);
        summaries[0].ids[0].rows = BTreeMap::from([(0, row(1))]);
        summaries[1].ids[0].rows = BTreeMap::from([(2, row(1))]);
        let found = summary_findings("duplicate-ids", &summaries);
        let message = &found[0].message;
        assert!(message.contains("(the first is 7 in it's/b.zarr and other/b.zarr)"), "{message}");
        let compared =
            "; 1 of the 3 ids that appear more than once were compared: equal ids hold equal content";
        assert!(message.ends_with(compared), "{message}");
        assert_eq!(
            found[0].remedy.as_deref().unwrap(),
            r"zkit slice 'cache/it'\''s/b.zarr' cache/other/b.zarr --concat file_id --duplicates first --to without-duplicates.zarr"
        );
    }
}
