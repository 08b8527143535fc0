//! `mixed-formats`: v2 and v3 metadata lie in one folder, or in one store.

use std::collections::BTreeMap;

use zkit_core::hierarchy::ArrayNode;
use zkit_core::metadata::ZarrFormat;
use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::families::alike;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, CacheObservation, StoreObservation};
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "mixed-formats",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "v2 and v3 metadata lie in one folder, or in one store",
    explanation: "\
A folder holds both .zarray and zarr.json: a migration that stopped half-way, or a tool that wrote the other
format over it. Which of the two a reader takes depends on the reader; if they disagree, two programs see
two different arrays.

On disk: .zarray and zarr.json side by side; or groups of one format with arrays of the other below them;
or stores of one cache in different formats.

Legitimate: both documents on purpose, for readers of both formats, agreeing on shape, type and chunks: that
is a note.

What to do: find out which one the chunks belong to (their keys tell), and remove the other document.",
    check: Check::Both(check, check_together),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for twin in &store.v2_twins {
        let Some(array) = store.array(&twin.path) else { continue };
        let differing = differences(twin, array.node);
        if differing.is_empty() && chunks_are_of_v2(array) {
            finder
                .array(
                    &twin.path,
                    "both zarr.json and .zarray are here, and agree; but all chunks lie under the keys of .zarray: \
                     readers of zarr.json see fill value",
                )
                .severity(Severity::Error)
                .remedy("remove zarr.json, or convert the array: zkit recompress SOURCE DESTINATION --zarr-format 3");
        } else if differing.is_empty() {
            finder
                .array(&twin.path, "both zarr.json and .zarray are here, and agree")
                .severity(Severity::Info)
                .remedy("remove one of the two documents, unless readers of both formats are meant");
        } else {
            finder
                .array(
                    &twin.path,
                    format!("both zarr.json and .zarray are here, and disagree: {}", differing.join(", ")),
                )
                .evidence("differences", differing)
                .remedy("remove the document that the chunks do not belong to");
        }
    }
    let hierarchy = store.hierarchy;
    let groups = |format| hierarchy.groups.iter().any(|group| group.format == format);
    let arrays = |format| hierarchy.arrays.iter().any(|array| array.metadata.format == format);
    let split = |one, other| groups(one) && !groups(other) && arrays(other);
    if split(ZarrFormat::V2, ZarrFormat::V3) || split(ZarrFormat::V3, ZarrFormat::V2) {
        finder
            .store(
                "groups of one Zarr format hold arrays of the other: readers of one format see a part of it",
            )
            .severity(Severity::Warning)
            .remedy("convert the store to one format: zkit recompress SOURCE DESTINATION --zarr-format 3");
    }
}

/// Finds the stores of a cache that have another format than most.
fn check_together(cache: &CacheObservation<'_>, finder: &mut Finder<'_>) {
    for family in alike(cache.stores) {
        let mut formats: BTreeMap<&[ZarrFormat], Vec<&str>> = BTreeMap::new();
        for store in family.iter().filter(|store| !store.formats.is_empty()) {
            formats.entry(&store.formats).or_default().push(&store.url);
        }
        let Some((usual, most)) = formats.iter().max_by_key(|(_, stores)| stores.len()) else { continue };
        let (usual, most) = (in_words(usual), most.len());
        for (found, stores) in formats.iter().filter(|(found, _)| in_words(found) != usual) {
            for store in stores {
                let found = in_words(found);
                finder
                    .elsewhere(
                        store,
                        None,
                        format!("it is Zarr {found}, {most} of {} stores are {usual}", family.len()),
                    )
                    .severity(Severity::Warning)
                    .evidence("found", found)
                    .evidence("expected", usual.clone())
                    .remedy("convert it to the format of the others: zkit recompress SOURCE DESTINATION --zarr-format N");
            }
        }
    }
}

/// Returns whether not one chunk lies where v3 metadata has it, and some lie where v2 metadata would.
fn chunks_are_of_v2(array: &ArrayObservation<'_>) -> bool {
    let listing = array.survey.as_ref().and_then(|survey| survey.listing.as_ref());
    listing.is_some_and(|listing| {
        listing.stored.is_empty() && listing.misplaced.count > 0 && listing.misplaced_rank.is_none()
    })
}

fn in_words(formats: &[ZarrFormat]) -> String {
    formats.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// Returns in which ways the v2 metadata says something else than the v3 metadata.
fn differences(v2: &ArrayNode, v3: &ArrayNode) -> Vec<String> {
    let (v2, v3) = (&v2.metadata, &v3.metadata);
    let pairs = [
        ("shape", format!("{:?}", v2.shape()), format!("{:?}", v3.shape())),
        ("data type", v2.data_type.to_string(), v3.data_type.to_string()),
        (
            "chunks",
            format!("{:?}", v2.grid.largest_chunk_shape()),
            format!("{:?}", v3.grid.largest_chunk_shape()),
        ),
    ];
    let differing = pairs.into_iter().filter(|(_, v2, v3)| v2 != v3);
    differing.map(|(what, v2, v3)| format!("{what} {v2} in .zarray, {v3} in zarr.json")).collect()
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, cache_findings, v2_array};

    #[test]
    fn documents_that_disagree_are_an_error_and_twins_a_note() {
        let v3 = |shape: u64| {
            format!(
                r#"{{"zarr_format":3,"node_type":"array","shape":[{shape}],"data_type":"float32","fill_value":0,
                "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[2]}}}},
                "chunk_key_encoding":{{"name":"v2"}},"codecs":[{{"name":"bytes"}}]}}"#
            )
        };
        let store = TestStore::new()
            .array("same", &v2_array(&[8], &[2]))
            .file("same/zarr.json", v3(8).as_bytes())
            .array("other", &v2_array(&[8], &[2]))
            .file("other/zarr.json", v3(10).as_bytes())
            .array("old", &v2_array(&[8], &[2]))
            .file("old/0", &[1; 8])
            .file("old/zarr.json", v3(8).replace("\"v2\"", "\"default\"").as_bytes());
        let found: Vec<_> = store
            .findings("mixed-formats")
            .into_iter()
            .filter_map(|finding| Some((finding.array?, finding.severity)))
            .collect();
        let expected = [("/old", Severity::Error), ("/other", Severity::Error), ("/same", Severity::Info)];
        assert_eq!(found, expected.map(|(path, severity)| (path.to_owned(), severity)));
    }

    #[test]
    fn a_store_of_another_format_than_its_peers_is_one_warning() {
        let v3 = r#"{"zarr_format":3,"node_type":"array","shape":[8],"data_type":"float32","fill_value":0,
            "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2]}},
            "chunk_key_encoding":{"name":"default"},"codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}"#;
        let new = TestStore::bare()
            .file("zarr.json", br#"{"zarr_format":3,"node_type":"group"}"#)
            .file("a/zarr.json", v3.as_bytes());
        let old = || TestStore::new().array("a", &v2_array(&[8], &[2]));
        let url = new.path().display().to_string();
        let found = cache_findings("mixed-formats", &[old(), old(), new]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].store.clone(), found[0].severity), (url, Severity::Warning));
        assert!(cache_findings("mixed-formats", &[old(), old()]).is_empty());
    }
}
