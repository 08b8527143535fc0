//! `schema-drift`: stores of one cache differ in data types, dimensions, chunks, codecs or attributes.

use std::collections::{BTreeMap, BTreeSet};

use zkit_core::metadata::ZarrFormat;
use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::families::{alike, is_usual};
use crate::finder::Finder;
use crate::observe::CacheObservation;
use crate::rule::{Check, Rule};
use crate::summary::{ArraySummary, MEANING, StoreSummary, TIME_UNITS};

pub(crate) const RULE: Rule = Rule {
    id: "schema-drift",
    severity: Severity::Warning,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "stores of one cache differ in data types, dimensions, chunks, codecs or attributes",
    explanation: "\
Stores that are read as one (batches of a cache, years of an archive) were written by different versions of
a program or from different sources. What concatenates them fails, casts silently, or mixes units.

On disk: the same array with another data type, other dimension names, other lengths along all but the first
dimension, other chunks, codecs or units.

Legitimate: attributes such as history and dates differ on purpose and are not compared. Times may be counted
from another day in each store, as readers that know CF decode them; that is a note. Only stores are compared that share
most of their data, by the names of arrays and of dimensions, and only where most of them agree.

What to do: write the odd stores again with the settings of the others: zkit recompress ODD NEW --chunks ...
--codec ....",
    check: Check::Cache(check),
};

/// Arrays that one finding names, at most.
const PATHS_MOST: usize = 100;

fn check(cache: &CacheObservation<'_>, finder: &mut Finder<'_>) {
    for family in alike(cache.stores) {
        let mut paths: BTreeMap<&str, Vec<(&StoreSummary, &ArraySummary)>> = BTreeMap::new();
        for store in &family {
            for array in &store.arrays {
                paths.entry(&array.path).or_default().push((store, array));
            }
        }
        let mixed = of_other_formats(&family);
        for (what, severity, fact) in FACTS {
            let mut odd: BTreeMap<&str, Vec<Odd<'_>>> = BTreeMap::new();
            for (path, arrays) in &paths {
                find_odd(path, arrays, fact, &mut odd);
            }
            for (store, odd) in odd {
                // each format writes codecs in its own way
                if !(*what == "codecs" && mixed.contains(store)) {
                    report_odd(store, what, *severity, &odd, finder);
                }
            }
        }
    }
}

/// Returns the stores whose Zarr formats are not those of most stores.
fn of_other_formats<'a>(family: &[&'a StoreSummary]) -> BTreeSet<&'a str> {
    let mut formats: BTreeMap<&[ZarrFormat], usize> = BTreeMap::new();
    for store in family {
        *formats.entry(&store.formats).or_default() += 1;
    }
    let usual = formats.into_iter().max_by_key(|(_, count)| *count).map(|(formats, _)| formats);
    family.iter().filter(|store| Some(&store.formats[..]) != usual).map(|store| store.url.as_str()).collect()
}

/// What one array of one store is, and what most others are.
struct Odd<'a> {
    path: &'a str,
    found: String,
    usual: String,
    /// The array, and one of those that agree.
    arrays: (&'a ArraySummary, &'a ArraySummary),
    /// How many stores agree, and how many have the array.
    agreeing: (usize, usize),
}

type Fact = fn(&ArraySummary) -> String;

const FACTS: &[(&str, Severity, Fact)] = &[
    ("data type", Severity::Warning, |array| array.data_type.clone()),
    ("dimensions", Severity::Error, |array| match &array.dimension_names {
        // formats write "none has a name" in their own ways
        Some(names) if names.iter().flatten().any(|name| !name.is_empty()) => {
            format!("{:?}", names.iter().map(|name| name.as_deref().unwrap_or("")).collect::<Vec<_>>())
        }
        _ => format!("{} without names", array.shape.len()),
    }),
    ("lengths behind the first dimension", Severity::Error, |array| {
        format!("{:?}", array.shape.get(1..).unwrap_or(&[]))
    }),
    ("chunks", Severity::Warning, |array| {
        // a chunk is never longer than an array that has only one along a dimension
        let chunks = array
            .chunk_shape
            .iter()
            .zip(&array.shape)
            .map(|(chunk, length)| if chunk >= length { "all".to_owned() } else { chunk.to_string() });
        format!("[{}]", chunks.collect::<Vec<_>>().join(", "))
    }),
    ("codecs", Severity::Warning, |array| array.codecs.join(" ")),
    ("attributes", Severity::Warning, |array| hashes(array, |name| MEANING.contains(&name))),
    (TIME_UNITS, Severity::Info, |array| hashes(array, |name| name == TIME_UNITS)),
];

/// Returns the attributes of some names, each with a hash of its value.
fn hashes(array: &ArraySummary, wanted: impl Fn(&str) -> bool) -> String {
    let named = array.attributes.iter().filter(|(name, _)| wanted(name));
    named.map(|(name, hash)| format!("{name}#{hash:x}")).collect::<Vec<_>>().join(" ")
}

/// Adds the stores whose array differs from that of most others in one fact.
fn find_odd<'a>(
    path: &'a str,
    arrays: &[(&'a StoreSummary, &'a ArraySummary)],
    fact: &Fact,
    odd: &mut BTreeMap<&'a str, Vec<Odd<'a>>>,
) {
    let mut seen: BTreeMap<String, Vec<(&'a str, &'a ArraySummary)>> = BTreeMap::new();
    for (store, array) in arrays {
        seen.entry(fact(array)).or_default().push((&store.url, array));
    }
    let Some((usual, most)) = seen.iter().max_by_key(|(_, stores)| stores.len()) else { return };
    let (usual, agreeing, like) = (usual.clone(), (most.len(), arrays.len()), most[0].1);
    if !is_usual(agreeing.0, agreeing.1, like) {
        return;
    }
    for (found, stores) in seen.into_iter().filter(|(found, _)| *found != usual) {
        for (store, array) in stores {
            let (found, usual, arrays) = (found.clone(), usual.clone(), (array, like));
            odd.entry(store).or_default().push(Odd { path, found, usual, arrays, agreeing });
        }
    }
}

/// Reports in which of its arrays a store differs in one fact: one finding, whose words are those of the first array.
fn report_odd(store: &str, what: &str, severity: Severity, odd: &[Odd<'_>], finder: &mut Finder<'_>) {
    let Some(Odd { path, found, usual, arrays, agreeing: (most, all) }) = odd.first() else { return };
    let (subject, array) = match odd {
        [_] => ("its".to_owned(), Some(*path)),
        [..] => (format!("{} arrays differ; first, of `{path}` the", odd.len()), None),
    };
    let message = match what {
        "attributes" => {
            let attributes = odd_attributes((found, usual), *arrays);
            format!("{subject} {attributes} differ from those in {most} of {all} stores")
        }
        TIME_UNITS => {
            let whose =
                if array.is_some() { "its time units".to_owned() } else { format!("{subject} time units") };
            format!(
                "{whose} differ ({most} of {all} stores have another epoch or unit); harmless where times are decoded"
            )
        }
        _ => format!("{subject} {what}: {found}, in {most} of {all} stores: {usual}"),
    };
    let paths: Vec<&str> = odd.iter().map(|odd| odd.path).take(PATHS_MOST).collect();
    finder
        .elsewhere(store, array, message)
        .severity(severity)
        .evidence("fact", what)
        .evidence("arrays", odd.len())
        .evidence("paths", paths)
        .evidence("found", found.clone())
        .evidence("expected", usual.clone())
        .remedy("write this store again with the settings of the others");
}

/// Returns the names of the attributes in which two lists of names and hashes differ, with their values where these are short.
fn odd_attributes((one, other): (&str, &str), (odd, like): (&ArraySummary, &ArraySummary)) -> String {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.split(' ').collect(), other.split(' ').collect());
    let differing = one
        .iter()
        .filter(|entry| !other.contains(entry))
        .chain(other.iter().filter(|entry| !one.contains(entry)));
    let mut names: Vec<&str> =
        differing.filter_map(|entry| entry.split('#').next()).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    let named: Vec<String> = names.iter().map(|name| with_values(name, odd, like)).collect();
    format!("attributes ({})", named.join("; "))
}

/// Returns `units "degC", not "K"`; the name alone where a value is long.
fn with_values(name: &str, odd: &ArraySummary, like: &ArraySummary) -> String {
    let has = |array: &ArraySummary| array.attributes.contains_key(name);
    match (odd.meanings.get(name), like.meanings.get(name)) {
        (Some(found), Some(usual)) => format!("{name} {found}, not {usual}"),
        (Some(found), None) if !has(like) => format!("{name} {found}, which they do not have"),
        (None, Some(usual)) if !has(odd) => format!("no {name}, where they have {usual}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, cache_findings, v2_array};

    #[test]
    fn the_odd_store_is_named_for_each_fact() {
        let sound =
            || TestStore::new().array("a", &v2_array(&[8, 4], &[2, 2])).array("b", &v2_array(&[8], &[2]));
        let odd = TestStore::new()
            .array("a", &v2_array(&[9, 4], &[3, 2]).replace("<f4", "<f8"))
            .array("b", &v2_array(&[8], &[2]))
            .file("b/.zattrs", br#"{"units":"K"}"#);
        let url = odd.path().display().to_string();
        let found = cache_findings("schema-drift", &[sound(), sound(), odd]);
        let facts: Vec<_> = found
            .iter()
            .map(|finding| (finding.evidence["fact"].as_str().unwrap(), finding.severity))
            .collect();
        assert_eq!(
            facts,
            [
                ("data type", Severity::Warning),
                ("chunks", Severity::Warning),
                ("attributes", Severity::Warning)
            ]
        );
        assert!(found.iter().all(|finding| finding.store == url));
        assert!(cache_findings("schema-drift", &[sound(), sound()]).is_empty());
    }

    #[test]
    fn dimensions_without_names_are_the_same_in_every_format() {
        let v3 = |names: &str| {
            format!(
                r#"{{"zarr_format":3,"node_type":"array","shape":SHAPE,"data_type":"float32","fill_value":0,{names}
                "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":SHAPE}}}},
                "chunk_key_encoding":{{"name":"default"}},"codecs":[{{"name":"bytes","configuration":{{"endian":"little"}}}}]}}"#
            )
        };
        let found = |shape: &str, names: &str| {
            let lengths: Vec<u64> = serde_json::from_str(shape).unwrap();
            let one = TestStore::new().array("crs", &v2_array(&lengths, &lengths));
            let other = TestStore::bare().file("zarr.json", br#"{"zarr_format":3,"node_type":"group"}"#);
            let other = other.file("crs/zarr.json", v3(names).replace("SHAPE", shape).as_bytes());
            cache_findings("schema-drift", &[one, other])
        };
        assert_eq!(found("[]", r#""dimension_names":[],"#), []);
        assert_eq!(found("[4]", r#""dimension_names":[null],"#), []);
        assert_eq!(found("[4]", r#""dimension_names":["x"],"#).len(), 1);
    }

    #[test]
    fn times_counted_from_another_day_are_a_note_and_another_calendar_is_a_warning() {
        let store = |attributes: &str| {
            TestStore::new().array("time", &v2_array(&[8], &[2])).file("time/.zattrs", attributes.as_bytes())
        };
        let year = |year: u32| store(&format!(r#"{{"units": "days since {year}-01-01"}}"#));
        let found = cache_findings("schema-drift", &[year(2020), year(2020), year(2021)]);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
        assert_eq!(
            found[0].message,
            "its time units differ (2 of 3 stores have another epoch or unit); harmless where times are decoded"
        );
        let odd = store(r#"{"units": "days since 2020-01-01", "calendar": "noleap"}"#);
        let found = cache_findings("schema-drift", &[year(2020), year(2020), odd]);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning), "{found:?}");
    }

    #[test]
    fn short_values_of_attributes_that_differ_are_said() {
        let store = |attributes: &str| {
            TestStore::new().array("a", &v2_array(&[8], &[2])).file("a/.zattrs", attributes.as_bytes())
        };
        let kelvin = || store(r#"{"units": "K"}"#);
        let said = |odd: &str| {
            let found = cache_findings("schema-drift", &[kelvin(), kelvin(), store(odd)]);
            found.first().map(|finding| finding.message.clone()).unwrap_or_default()
        };
        let in_words = |what: &str| format!("its attributes ({what}) differ from those in 2 of 3 stores");
        assert_eq!(said(r#"{"units": "degC"}"#), in_words(r#"units "degC", not "K""#));
        assert_eq!(
            said(r#"{"scale_factor": 0.1}"#),
            in_words(r#"scale_factor 0.1, which they do not have; no units, where they have "K""#)
        );
        assert_eq!(said(&format!(r#"{{"units": "{}"}}"#, "long ".repeat(20))), in_words("units"));
    }

    #[test]
    fn arrays_that_differ_alike_are_one_finding_and_lengths_are_written_out() {
        let store = |chunk| {
            let array = v2_array(&[80], &[chunk]);
            TestStore::new().array("a", &array).array("b", &array).array("c", &array)
        };
        let found = cache_findings("schema-drift", &[store(10), store(10), store(40)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].evidence["arrays"], 3);
        assert_eq!(
            found[0].message,
            "3 arrays differ; first, of `/a` the chunks: [40], in 2 of 3 stores: [10]"
        );
    }
}
