//! `schema-drift`: stores of one cache differ in data types, dimensions, chunks, codecs or attributes.

use std::collections::BTreeMap;
use zkit_report::{Confidence, Severity};

use super::undersized_store::families;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::CacheObservation;
use crate::rule::{Check, Rule};
use crate::summary::{ArraySummary, StoreSummary};

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

Legitimate: attributes such as history and dates differ on purpose and are not compared; other attributes
are notes. Folders of unrelated stores share few arrays, and are left alone.

What to do: write the odd stores again with the settings of the others: zkit recompress ODD NEW --chunks ...
--codec ....",
    check: Check::Cache(check),
};

/// Attributes in which a difference of values is worth a warning: they change what numbers mean.
const MEANING: [&str; 7] =
    ["units", "calendar", "scale_factor", "add_offset", "_FillValue", "missing_value", "standard_name"];

fn check(cache: &CacheObservation<'_>, finder: &mut Finder<'_>) {
    for family in families(cache.stores) {
        let mut paths: BTreeMap<&str, Vec<(&StoreSummary, &ArraySummary)>> = BTreeMap::new();
        for store in family {
            for array in &store.arrays {
                paths.entry(&array.path).or_default().push((store, array));
            }
        }
        for (path, arrays) in paths {
            for (what, severity, fact) in FACTS {
                report_odd(path, what, *severity, &arrays, fact, finder);
            }
        }
    }
}

type Fact = fn(&ArraySummary) -> String;

const FACTS: &[(&str, Severity, Fact)] = &[
    ("data type", Severity::Error, |array| array.data_type.clone()),
    ("dimensions", Severity::Error, |array| match &array.dimension_names {
        Some(names) => {
            format!("{:?}", names.iter().map(|name| name.as_deref().unwrap_or("")).collect::<Vec<_>>())
        }
        None => format!("{} without names", array.shape.len()),
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
            .map(|(chunk, length)| if chunk >= length { 0 } else { *chunk });
        format!("{:?}", chunks.collect::<Vec<_>>()).replace('0', "all")
    }),
    ("codecs", Severity::Warning, |array| array.codecs.join(" ")),
    ("attributes", Severity::Warning, |array| {
        let named = array.attributes.iter().filter(|(name, _)| MEANING.contains(&name.as_str()));
        named.map(|(name, hash)| format!("{name}#{hash:x}")).collect::<Vec<_>>().join(" ")
    }),
];

/// Names the stores whose array differs from that of most others in one fact.
fn report_odd(
    path: &str,
    what: &str,
    severity: Severity,
    arrays: &[(&StoreSummary, &ArraySummary)],
    fact: &Fact,
    finder: &mut Finder<'_>,
) {
    let mut seen: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (store, array) in arrays {
        seen.entry(fact(array)).or_default().push(&store.url);
    }
    let Some((usual, most)) = seen.iter().max_by_key(|(_, stores)| stores.len()) else { return };
    let (usual, most) = (usual.clone(), most.len());
    for (value, stores) in seen.iter().filter(|(value, _)| **value != usual) {
        for store in stores {
            let message = if what == "attributes" {
                format!(
                    "its {} differ from those in {most} of {} stores",
                    odd_attributes(value, &usual),
                    arrays.len()
                )
            } else {
                format!("its {what}: {value}, in {most} of {} stores: {usual}", arrays.len())
            };
            finder
                .elsewhere(store, Some(path), message)
                .severity(severity)
                .evidence("fact", what)
                .evidence("found", value.clone())
                .evidence("expected", usual.clone())
                .remedy("write this store again with the settings of the others");
        }
    }
}

/// Returns the names of the attributes in which two lists of names and hashes differ.
fn odd_attributes(one: &str, other: &str) -> String {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.split(' ').collect(), other.split(' ').collect());
    let differing = one
        .iter()
        .filter(|entry| !other.contains(entry))
        .chain(other.iter().filter(|entry| !one.contains(entry)));
    let mut names: Vec<&str> =
        differing.filter_map(|entry| entry.split('#').next()).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    format!("attributes ({})", names.join(", "))
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
                ("data type", Severity::Error),
                ("chunks", Severity::Warning),
                ("attributes", Severity::Warning)
            ]
        );
        assert!(found.iter().all(|finding| finding.store == url));
        assert!(cache_findings("schema-drift", &[sound(), sound()]).is_empty());
    }
}
