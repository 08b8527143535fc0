//! `consolidated-stale`: consolidated metadata says something else than the nodes themselves.

use std::collections::BTreeSet;

use zkit_core::hierarchy::{ArrayNode, Consolidation};
use zkit_core::metadata::{ArrayMetadata, Object, ZarrFormat};
use zkit_report::{Confidence, Severity};

use super::shared::number_of;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};
use crate::summary::hash;

pub(crate) const RULE: Rule = Rule {
    id: "consolidated-stale",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "consolidated metadata says something else than the nodes themselves",
    explanation: "\
Readers open the store through one document, .zmetadata or the root's zarr.json, that repeats the metadata
of all nodes. It was written before the nodes changed: a store recompressed or grown in place, an array
deleted or added. Readers that use it decode with the wrong codec, see the wrong shape, or read fill values.

On disk: the entry of an array in the consolidated document differs from its .zarray or zarr.json, or one of
the two is missing.

Legitimate: a copy of the consolidated document alone, without any node, is a description of a store; that
is one note. Differences of attributes alone are warnings.

What to do: write it anew: python -c \"import zarr; zarr.consolidate_metadata('STORE')\".",
    check: Check::Store(check),
};

const REMEDY: &str =
    "consolidate the metadata again: python -c \"import zarr; zarr.consolidate_metadata('STORE')\"";

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let Some(Consolidation { copy, lost, node_defects }) = store.consolidation else { return };
    let remedy = REMEDY.replace("STORE", &copy.url);
    let own_arrays = store.hierarchy.arrays.iter().filter(|array| !lost.contains(&array.path));
    if own_arrays.clone().next().is_none() && node_defects.is_empty() && !copy.arrays.is_empty() {
        finder
            .store(format!(
                "consolidated metadata describes {} arrays, and not one of them is there: it was copied alone",
                copy.arrays.len()
            ))
            .severity(Severity::Info)
            .confidence(Confidence::Medium)
            .remedy("copy the whole store, or take it for the description it is");
        return;
    }
    let broken: BTreeSet<&str> = node_defects.iter().map(|defect| defect.path.as_str()).collect();
    for said in &copy.arrays {
        let Some(own) = store.array(&said.path) else { continue };
        if !lost.contains(&said.path) {
            compare(&said.metadata, &own.node.metadata, &said.path, finder, &remedy);
        } else if !broken.contains(said.path.as_str()) {
            // a broken or unreadable document is told under its own rule
            let message = "consolidated metadata describes it, and the array is gone: it opens, and reads as fill value";
            finder.array(&said.path, message).remedy(&remedy);
        }
    }
    let told: BTreeSet<&str> = copy.defects.iter().map(|defect| defect.path.as_str()).collect();
    let is_hidden = |own: &ArrayNode| {
        // sorted by path
        let named = copy.arrays.binary_search_by(|array| array.path.cmp(&own.path)).is_ok();
        !named && !told.contains(own.path.as_str())
    };
    for own in own_arrays.filter(|own| is_hidden(own) && store.array(&own.path).is_some()) {
        finder
            .array(&own.path, "consolidated metadata lacks it: readers that use it do not see the array")
            .severity(Severity::Warning)
            .remedy(&remedy);
    }
    for said in copy.groups.iter().filter(|said| !lost.contains(&said.path)) {
        if let Some(own) = store.hierarchy.groups.iter().find(|own| own.path == said.path) {
            compare_attributes(&said.attributes, &own.attributes, &said.path, finder, &remedy);
        }
    }
}

fn compare(
    consolidated: &ArrayMetadata,
    own: &ArrayMetadata,
    path: &str,
    finder: &mut Finder<'_>,
    remedy: &str,
) {
    if consolidated == own {
        return;
    }
    let texts = |metadata: &ArrayMetadata| -> Vec<(&'static str, String)> {
        let codecs: Vec<String> = metadata.codecs.iter().map(ToString::to_string).collect();
        let mut fill = metadata.fill_value.to_v3(&metadata.data_type);
        if number_of(&fill).is_some_and(f64::is_nan) {
            fill = zkit_core::metadata::Json::string("NaN");
        }
        vec![
            ("shape", format!("{:?}", metadata.shape())),
            ("data type", metadata.data_type.to_string()),
            ("chunks", format!("{:?}", metadata.grid.largest_chunk_shape())),
            ("codecs", codecs.join(" ")),
            ("fill value", fill.to_string()),
            ("key encoding", format!("{:?}", metadata.chunk_keys)),
            ("dimension names", dimension_names(metadata)),
        ]
    };
    let differing: Vec<String> = texts(consolidated)
        .into_iter()
        .zip(texts(own))
        .filter(|(consolidated, own)| consolidated != own)
        .map(|((what, said), (_, own))| format!("{what} {said} instead of {own}"))
        .collect();
    if !differing.is_empty() {
        finder
            .array(path, format!("consolidated metadata is stale: it says {}", differing.join(", ")))
            .evidence("differences", differing)
            .remedy(remedy);
        return;
    }
    compare_attributes(&consolidated.attributes, &own.attributes, path, finder, remedy);
}

/// Returns the names that v3 metadata gives dimensions; v2's are attributes.
fn dimension_names(metadata: &ArrayMetadata) -> String {
    let names = metadata.dimension_names.as_ref().filter(|_| metadata.format == ZarrFormat::V3);
    match names.filter(|names| names.iter().any(Option::is_some)) {
        Some(names) => {
            let names = names.iter().map(|name| name.as_deref().unwrap_or("null"));
            format!("[{}]", names.collect::<Vec<_>>().join(", "))
        }
        None => "none".to_owned(),
    }
}

fn compare_attributes(
    consolidated: &Object,
    own: &Object,
    path: &str,
    finder: &mut Finder<'_>,
    remedy: &str,
) {
    let hashed = |attributes: &Object| -> BTreeSet<(String, u64)> {
        attributes.iter().map(|(key, value)| (key.to_owned(), hash(value))).collect()
    };
    let (said, own) = (hashed(consolidated), hashed(own));
    let names: BTreeSet<&str> = said.symmetric_difference(&own).map(|(name, _)| name.as_str()).collect();
    if !names.is_empty() {
        let names: Vec<&str> = names.into_iter().collect();
        finder
            .array(
                path,
                format!("consolidated metadata is stale: it has other attributes ({})", names.join(", ")),
            )
            .severity(Severity::Warning)
            .remedy(remedy);
    }
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array};

    fn consolidated(entries: &[(&str, &str)]) -> String {
        let entries: Vec<String> =
            entries.iter().map(|(key, document)| format!("\"{key}\":{document}")).collect();
        format!(
            r#"{{"zarr_consolidated_format":1,"metadata":{{".zgroup":{{"zarr_format":2}},{}}}}}"#,
            entries.join(",")
        )
    }

    #[test]
    fn each_difference_has_its_own_severity() {
        let (old, new) = (v2_array(&[8], &[2]), v2_array(&[12], &[2]));
        let text = consolidated(&[
            ("grown/.zarray", &old),
            ("gone/.zarray", &old),
            ("same/.zarray", &old),
            ("units/.zarray", &old),
            ("units/.zattrs", r#"{"units":"K"}"#),
        ]);
        let store = TestStore::new()
            .file(".zmetadata", text.as_bytes())
            .array("grown", &new)
            .array("same", &old)
            .array("units", &old)
            .file("units/.zattrs", br#"{"units":"degC"}"#)
            .array("added", &old);
        let found: Vec<_> = store
            .findings("consolidated-stale")
            .into_iter()
            .map(|finding| (finding.array.unwrap_or_default(), finding.severity))
            .collect();
        assert_eq!(
            found,
            [
                ("/gone".to_owned(), Severity::Error),
                ("/grown".to_owned(), Severity::Error),
                ("/units".to_owned(), Severity::Warning),
                ("/added".to_owned(), Severity::Warning),
            ]
        );
    }

    #[test]
    fn attributes_of_groups_and_names_of_dimensions_are_compared() {
        let named = |name: &str| {
            format!(
                r#"{{"zarr_format":3,"node_type":"array","shape":[8],"data_type":"float32","fill_value":0,
                "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[2]}}}},"dimension_names":["{name}"],
                "chunk_key_encoding":{{"name":"default"}},"codecs":[{{"name":"bytes","configuration":{{"endian":"little"}}}}]}}"#
            )
        };
        let group = |title: &str| {
            format!(r#"{{"zarr_format":3,"node_type":"group","attributes":{{"title":"{title}"}}}}"#)
        };
        let root = format!(
            r#"{{"zarr_format":3,"node_type":"group","consolidated_metadata":{{"metadata":{{"g":{},"g/a":{}}}}}}}"#,
            group("old"),
            named("x")
        );
        let store = TestStore::bare()
            .file("zarr.json", root.as_bytes())
            .file("g/zarr.json", group("new").as_bytes())
            .file("g/a/zarr.json", named("y").as_bytes());
        let found: Vec<_> = store
            .findings("consolidated-stale")
            .into_iter()
            .map(|finding| (finding.array.unwrap_or_default(), finding.severity))
            .collect();
        assert_eq!(found, [("/g/a".to_owned(), Severity::Error), ("/g".to_owned(), Severity::Warning)]);
    }

    #[test]
    fn arrays_are_judged_by_their_own_metadata() {
        let text = consolidated(&[("a/.zarray", &v2_array(&[4], &[4]))]);
        let store = TestStore::new().file(".zmetadata", text.as_bytes()).array("a", &v2_array(&[4], &[2]));
        let store = store.file("a/0", &[1; 8]).file("a/1", &[1; 8]);
        let store = store.array("new", &v2_array(&[2], &[2])).file("new/0", &[1; 8]);
        for rule in ["truncated-chunk", "orphan-chunks"] {
            assert!(store.findings(rule).is_empty(), "{rule}");
        }
    }

    #[test]
    fn a_copy_of_the_document_alone_is_one_note() {
        let text =
            consolidated(&[("a/.zarray", &v2_array(&[8], &[2])), ("b/.zarray", &v2_array(&[8], &[2]))]);
        let found = TestStore::new().file(".zmetadata", text.as_bytes()).findings("consolidated-stale");
        assert_eq!(found.iter().map(|finding| finding.severity).collect::<Vec<_>>(), [Severity::Info]);
    }
}
