//! `consolidated-stale`: consolidated metadata says something else than the nodes themselves.

use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::metadata::ArrayMetadata;
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
    let Some(nodes) = &store.nodes else { return };
    let consolidated = store.hierarchy;
    let remedy = REMEDY.replace("STORE", &consolidated.url);
    if nodes.arrays.is_empty() && nodes.defects.is_empty() && !consolidated.arrays.is_empty() {
        finder
            .store(format!(
                "consolidated metadata describes {} arrays, and not one of them is there: it was copied alone",
                consolidated.arrays.len()
            ))
            .severity(Severity::Info)
            .confidence(Confidence::Medium)
            .remedy("copy the whole store, or take it for the description it is");
        return;
    }
    for array in &store.arrays {
        match node(nodes, array.path()) {
            Some(own) => compare(&array.node.metadata, &own.metadata, array.path(), finder, &remedy),
            // a broken or unreadable document is told under its own rule
            None if nodes.defects.iter().any(|defect| defect.path == array.path()) => {}
            None => {
                let message = "consolidated metadata describes it, and the array is gone: it opens, and reads as fill value";
                finder.array(array.path(), message).remedy(&remedy);
            }
        }
    }
    for own in &nodes.arrays {
        let hidden = node(consolidated, &own.path).is_none()
            && !consolidated.defects.iter().any(|defect| defect.path == own.path);
        if hidden {
            finder
                .array(&own.path, "consolidated metadata lacks it: readers that use it do not see the array")
                .severity(Severity::Warning)
                .remedy(&remedy);
        }
    }
}

fn node<'a>(hierarchy: &'a Hierarchy, path: &str) -> Option<&'a ArrayNode> {
    let found = hierarchy.arrays.binary_search_by(|array| array.path.as_str().cmp(path)).ok()?;
    hierarchy.arrays.get(found)
}

fn compare(
    consolidated: &ArrayMetadata,
    own: &ArrayMetadata,
    path: &str,
    finder: &mut Finder<'_>,
    remedy: &str,
) {
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
    let attributes = |metadata: &ArrayMetadata| -> Vec<(String, u64)> {
        let mut all: Vec<_> =
            metadata.attributes.iter().map(|(key, value)| (key.to_owned(), hash(value))).collect();
        all.sort_unstable();
        all
    };
    let (said, own) = (attributes(consolidated), attributes(own));
    let mut names: Vec<&str> = said
        .iter()
        .filter(|entry| !own.contains(entry))
        .chain(own.iter().filter(|entry| !said.contains(entry)))
        .map(|(name, _)| name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
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
    fn a_copy_of_the_document_alone_is_one_note() {
        let text =
            consolidated(&[("a/.zarray", &v2_array(&[8], &[2])), ("b/.zarray", &v2_array(&[8], &[2]))]);
        let found = TestStore::new().file(".zmetadata", text.as_bytes()).findings("consolidated-stale");
        assert_eq!(found.iter().map(|finding| finding.severity).collect::<Vec<_>>(), [Severity::Info]);
    }
}
