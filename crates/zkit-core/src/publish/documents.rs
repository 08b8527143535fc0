//! The metadata documents of a copy, in the order in which they are to be written.

use crate::metadata::{ArrayMetadata, Json, Object, ZarrFormat, group_documents};
use crate::plan::CopyPlan;
use crate::store::join;

/// Whether a store gets consolidated metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consolidate {
    /// It does.
    Yes,
    /// It does not: readers ask for the metadata of each node.
    No,
}

/// Returns the metadata documents of a planned store with their keys, in the order in which they are to be
/// written: arrays, then groups from the deepest up, then the root's, which make the store look complete.
pub fn metadata_documents(plan: &CopyPlan, store: usize, consolidate: Consolidate) -> Vec<(String, Json)> {
    let of_store = &plan.stores[store];
    let arrays = || plan.arrays.iter().filter(move |array| array.store == store);
    let consolidated = consolidate == Consolidate::Yes;
    let mut nodes: Vec<(String, Vec<(&'static str, Json)>)> = arrays()
        .map(|array| (array.target.prefix().to_owned(), ArrayMetadata::documents(&array.target.metadata)))
        .collect();
    let mut groups: Vec<(String, Vec<(&'static str, Json)>)> = of_store
        .groups
        .iter()
        .map(|group| {
            (
                group.path.trim_start_matches('/').to_owned(),
                group_documents(group.format, Some(&group.document), &group.attributes),
            )
        })
        .collect();
    groups.sort_by_key(|(prefix, _)| {
        std::cmp::Reverse(if prefix.is_empty() { 0 } else { prefix.matches('/').count() + 1 })
    });
    nodes.extend(groups);
    let has_root = nodes.last().is_some_and(|(prefix, _)| prefix.is_empty());
    if !has_root && (consolidated || arrays().all(|array| !array.target.prefix().is_empty())) {
        nodes.push((String::new(), group_documents(of_store.format, None, &Object::default())));
    }
    if consolidated {
        add_consolidated(&mut nodes, of_store.format);
    }
    let keyed = nodes.into_iter().flat_map(|(prefix, documents)| {
        documents.into_iter().map(move |(name, document)| (join(&prefix, name), document))
    });
    keyed.collect()
}

/// Adds `.zmetadata`, or v3's inline form to the root's `zarr.json`; for a single array there is nothing to add.
fn add_consolidated(nodes: &mut [(String, Vec<(&'static str, Json)>)], format: ZarrFormat) {
    let Some((root, below)) = nodes.split_last_mut() else { return };
    if !root.0.is_empty() {
        return;
    }
    match format {
        ZarrFormat::V2 => {
            let all = std::iter::once(&*root).chain(below.iter());
            let mut entries: Vec<(String, Json)> = all
                .flat_map(|(prefix, documents)| {
                    documents.iter().map(move |(name, document)| (join(prefix, name), document.clone()))
                })
                .collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let document = Object::from_iter([
                ("metadata", Json::Object(entries.into_iter().collect())),
                ("zarr_consolidated_format", Json::number(1)),
            ]);
            root.1.push((".zmetadata", document.into()));
        }
        ZarrFormat::V3 => {
            let mut entries: Vec<(&str, Json)> = below
                .iter()
                .flat_map(|(prefix, documents)| {
                    documents.iter().map(move |(_, document)| (prefix.as_str(), document.clone()))
                })
                .collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            let inline = Object::from_iter([
                ("kind", Json::string("inline")),
                ("must_understand", Json::Bool(false)),
                ("metadata", Json::Object(entries.into_iter().collect())),
            ]);
            if let Some((_, Json::Object(document))) = root.1.first_mut() {
                document.set("consolidated_metadata", inline.into());
            }
        }
    }
}
