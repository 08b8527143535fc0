//! Nodes from consolidated metadata: one document holds them all.

use std::collections::BTreeMap;

use super::node::{Consolidated, Hierarchy};
use crate::metadata::{Json, Loss, Object};
use crate::store::is_safe_name;

/// The documents of one v2 node.
#[derive(Default)]
struct V2Documents {
    array: Option<Json>,
    group: Option<Json>,
    attributes: Option<Json>,
}

/// Reads v2's `.zmetadata`. Source: zarr-python, `consolidate_metadata`.
pub(super) fn read_v2(hierarchy: &mut Hierarchy, document: Json) {
    hierarchy.consolidated = Consolidated::V2;
    let metadata = match document {
        Json::Object(mut object) => object.remove("metadata"),
        _ => None,
    };
    let Some(Json::Object(metadata)) = metadata else {
        return hierarchy.malformed(Loss::Node, "/", ".zmetadata has no `metadata` object");
    };
    let mut nodes: BTreeMap<String, V2Documents> = BTreeMap::new();
    for (key, document) in metadata {
        let (prefix, name) = key.rsplit_once('/').unwrap_or(("", &key));
        if !matches!(name, ".zarray" | ".zgroup" | ".zattrs") {
            continue;
        }
        let Some(path) = safe_path(hierarchy, prefix) else { continue };
        let node = nodes.entry(path).or_default();
        match name {
            ".zarray" => node.array = Some(document),
            ".zgroup" => node.group = Some(document),
            _ => node.attributes = Some(document),
        }
    }
    for (path, node) in nodes {
        let attributes = match node.attributes {
            None => Object::default(),
            Some(Json::Object(attributes)) => attributes,
            Some(_) => {
                hierarchy.malformed(Loss::Attributes, &path, ".zattrs is not an object");
                Object::default()
            }
        };
        match (node.array, node.group) {
            (Some(document), _) => hierarchy.add_v2_array(path, document, attributes),
            (None, Some(document)) => hierarchy.add_v2_group(path, document, attributes),
            (None, None) => {}
        }
    }
}

/// Reads v3's inline consolidated metadata out of the root's `zarr.json`.
pub(super) fn read_v3(hierarchy: &mut Hierarchy, root: Option<Json>) {
    hierarchy.consolidated = Consolidated::V3;
    let Some(Json::Object(mut root)) = root else { return };
    let metadata = match root.remove("consolidated_metadata") {
        Some(Json::Object(mut inline)) => inline.remove("metadata"),
        _ => None,
    };
    hierarchy.add_v3("/".to_owned(), Json::Object(root));
    let Some(Json::Object(metadata)) = metadata else {
        return hierarchy.malformed(Loss::Node, "/", "consolidated_metadata has no `metadata` object");
    };
    for (key, document) in metadata {
        if let Some(path) = safe_path(hierarchy, &key) {
            hierarchy.add_v3(path, document);
        }
    }
}

/// Returns the path of a node, or `None` and a defect if it would lead elsewhere.
fn safe_path(hierarchy: &mut Hierarchy, key: &str) -> Option<String> {
    if key.is_empty() {
        return Some("/".to_owned());
    }
    if !key.split('/').all(is_safe_name) {
        let message =
            format!("consolidated metadata names a node {key:?}, which is no path inside the store");
        hierarchy.losing(Loss::Below, "/", "unsafe-name", message);
        return None;
    }
    Some(format!("/{key}"))
}
