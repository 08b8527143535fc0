//! `malformed-metadata`: the metadata of a node is not what the specification says.

use std::collections::BTreeSet;

use zkit_core::hierarchy::StoreKind;
use zkit_core::metadata::{Json, Object};
use zkit_report::{Confidence, Severity};

use super::shared::report_defects;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "malformed-metadata",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "the metadata of a node is not what the specification says",
    explanation: "\
A metadata document is no JSON, lacks a field, or holds what no reader can use: a shape that is no list of
whole numbers, chunks of length zero, a data type that nobody knows, a `.zgroup` of another format, a v3 codec with a setting
that readers refuse. The node cannot be opened, or is opened
wrongly; other nodes of the store are sound.

A key that appears twice in an object is a warning: readers take the first, the last, or refuse the document.

On disk: zarr.json, .zarray, .zgroup, .zattrs or .zmetadata with the fault that is named; arrays and their coordinates side
by side in a folder without zarr.json or .zgroup, in which readers find no group (a warning).

Legitimate: arrays side by side that know nothing of each other, as tensorstore writes them, need no group. Extensions of Zarr v3 that zkit does not know are `unsupported-extension`, codecs
`unsupported-codec`; neither is a fault of the store.

What to do: restore the document from the program that wrote it, or from a copy; compare with a sound
sibling.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    report_defects(store, finder, "malformed-metadata", "restore the document, or write the node again");
    let groups = store.hierarchy.groups.iter();
    let groups = groups.map(|group| (group.path.as_str(), [&group.document, &group.attributes]));
    let arrays = store.arrays.iter();
    let arrays = arrays.map(|array| {
        let metadata = &array.node.metadata;
        (array.path(), [&metadata.document, &metadata.attributes])
    });
    for (path, documents) in groups.chain(arrays) {
        let repeated = documents.into_iter().flat_map(repeated_keys).collect::<Vec<String>>();
        if let Some(first) = repeated.first() {
            finder
                .array(path, format!("the key `{first}` appears more than once in its metadata: readers take one or the other"))
                .severity(Severity::Warning)
                .evidence("keys", repeated)
                .remedy("keep one of them in the document, and consolidate the metadata again");
        }
    }
    if let Some((array, coordinate)) = lost_root(store) {
        let message = format!(
            "the root has no metadata: `{}` and its coordinate `{}` are there, and readers find no group that holds them",
            array.name(),
            coordinate.name()
        );
        finder
            .store(message)
            .severity(Severity::Warning)
            .confidence(Confidence::Medium)
            .remedy("write the group's zarr.json (v3) or .zgroup (v2), or copy the store again");
    }
}

/// Returns the keys that appear more than once in an object, and in those within it.
fn repeated_keys(object: &Object) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut repeated: BTreeSet<&str> =
        object.iter().map(|(key, _)| key).filter(|key| !seen.insert(*key)).collect();
    let mut keys: Vec<String> = std::mem::take(&mut repeated).into_iter().map(str::to_owned).collect();
    keys.extend(object.iter().flat_map(|(_, value)| repeated_within(value)));
    keys
}

fn repeated_within(value: &Json) -> Vec<String> {
    match value {
        Json::Object(object) => repeated_keys(object),
        Json::Array(values) => values.iter().flat_map(repeated_within).collect(),
        _ => Vec::new(),
    }
}

/// Returns an array of the root and its coordinate there, if the root itself says nothing, not even something broken.
fn lost_root<'s, 'a>(
    store: &'s StoreObservation<'a>,
) -> Option<(&'s ArrayObservation<'a>, &'s ArrayObservation<'a>)> {
    let hierarchy = store.hierarchy;
    let known = hierarchy
        .groups
        .iter()
        .map(|group| &group.path)
        .chain(hierarchy.arrays.iter().map(|array| &array.path));
    let told = hierarchy.defects.iter().map(|defect| &defect.path);
    if hierarchy.kind != StoreKind::Zarr || known.chain(told).any(|path| path == "/") {
        return None;
    }
    let at_root = || store.arrays.iter().filter(|array| array.group().is_empty());
    at_root().find_map(|array| {
        let ranks = 0..array.node.metadata.shape().len();
        let mut coordinates = ranks.filter_map(|dimension| store.coordinate_of(array, dimension));
        coordinates.find(|found| found.path() != array.path()).map(|found| (array, found))
    })
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array};

    #[test]
    fn a_key_that_appears_twice_is_a_warning() {
        let twice = v2_array(&[8], &[2]).replacen('{', r#"{"shape":[9],"#, 1);
        let store = TestStore::new().array("a", &twice).array("b", &v2_array(&[8], &[2]));
        let store = store.file("b/.zattrs", br#"{"x": [{"y": 1, "y": 2}]}"#);
        let found = store.findings("malformed-metadata");
        let told: Vec<_> = found
            .iter()
            .map(|finding| (finding.array.as_deref().unwrap(), &finding.evidence["keys"]))
            .collect();
        assert_eq!(told, [("/a", &serde_json::json!(["shape"])), ("/b", &serde_json::json!(["y"]))]);
        assert!(found.iter().all(|finding| finding.severity == Severity::Warning));
    }

    #[test]
    fn coordinates_without_a_group_around_them_have_lost_it() {
        let named = |store: TestStore, name: &str| {
            let attributes = format!(r#"{{"_ARRAY_DIMENSIONS": ["{name}"]}}"#);
            store
                .file("a/.zattrs", attributes.as_bytes())
                .file("time/.zattrs", br#"{"_ARRAY_DIMENSIONS": ["time"]}"#)
        };
        let arrays =
            |store: TestStore| store.array("a", &v2_array(&[8], &[2])).array("time", &v2_array(&[8], &[8]));
        let found = named(arrays(TestStore::bare()), "time").findings("malformed-metadata");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!(found[0].message.contains("`a` and its coordinate `time`"), "{}", found[0].message);
        assert!(named(arrays(TestStore::bare()), "x").findings("malformed-metadata").is_empty());
        assert!(named(arrays(TestStore::new()), "time").findings("malformed-metadata").is_empty());
    }

    #[test]
    fn groups_of_another_format_than_their_document_are_told() {
        let store = |document: &str| {
            TestStore::bare()
                .file(".zgroup", document.as_bytes())
                .array("a", &v2_array(&[8], &[2]))
                .findings("malformed-metadata")
        };
        for document in [r#"{"zarr_format": 3}"#, r#"{"zarr_format": "2"}"#, "{}"] {
            let found = store(document);
            assert_eq!((found.len(), found[0].severity), (1, Severity::Error), "{document}");
        }
        assert_eq!(store(r#"{"zarr_format": 2.0, "note": 1}"#), []);
    }

    #[test]
    fn settings_of_codecs_that_readers_refuse_are_told_and_others_are_not() {
        let found = |blosc: &str| {
            let codecs = format!(
                r#"[{{"name":"bytes","configuration":{{"endian":"little"}}}},{{"name":"blosc","configuration":{blosc}}}]"#
            );
            let array = r#"{"zarr_format":3,"node_type":"array","shape":[8],"data_type":"float32","fill_value":0,
                "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2]}},
                "chunk_key_encoding":{"name":"default"},"codecs":CODECS}"#;
            TestStore::bare()
                .file("zarr.json", br#"{"zarr_format":3,"node_type":"group"}"#)
                .file("a/zarr.json", array.replace("CODECS", &codecs).as_bytes())
                .findings("malformed-metadata")
        };
        let refused = found(r#"{"cname":"foo","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}"#);
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].message.starts_with(r#"the setting `cname` of `blosc` is "foo""#), "{refused:?}");
        assert_eq!(found(r#"{"cname":"lz4","clevel":42,"shuffle":"noshuffle"}"#), []);
        let of_v2 = v2_array(&[8], &[2]).replace(
            "\"compressor\":null",
            r#""compressor":{"id":"blosc","cname":"lz4","clevel":42,"shuffle":9}"#,
        );
        assert_eq!(TestStore::new().array("a", &of_v2).findings("malformed-metadata"), []);
    }

    #[test]
    fn one_broken_document_is_named_and_hides_no_other() {
        let broken = v2_array(&[8], &[2]).replace("<f4", "<q9");
        let found = TestStore::new()
            .array("good", &v2_array(&[8], &[2]))
            .array("bad", &broken)
            .array("worse", "{,}")
            .findings("malformed-metadata");
        let paths: Vec<_> = found.iter().filter_map(|finding| finding.array.as_deref()).collect();
        assert_eq!(paths, ["/bad", "/worse"]);
    }
}
