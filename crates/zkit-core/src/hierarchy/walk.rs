//! Nodes read one by one, a level at a time: many small reads at once, none of a chunk.

use super::node::Hierarchy;
use super::open::MAX_DOCUMENT_BYTES;
use crate::error::{ErrorKind, Result};
use crate::metadata::{Json, Object};
use crate::store::{Child, ChildKind, FetchResult, ObjectKind, Store, is_safe_name, join};

/// Hierarchies deeper than this are refused.
const MAX_DEPTH: usize = 32;
/// Directories behind links that one walk looks into: links to directories of links multiply.
const MAX_LINKED: usize = 10_000;

/// The documents of nodes.
const DOCUMENTS: [&str; 4] = ["zarr.json", ".zarray", ".zgroup", ".zattrs"];

/// Returns whether a key is one of a node's documents, or of consolidated metadata.
pub(super) fn is_document(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    DOCUMENTS.contains(&name) || key == ".zmetadata"
}

/// What is known of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Metadata {
    /// It has none: it is a directory.
    None,
    V2,
    V3,
}

/// A directory that may be a node.
struct Candidate {
    prefix: String,
    /// What the parent has; only where that is something, a directory without metadata is looked into further.
    parent: Metadata,
    /// Whether a link leads to it.
    linked: bool,
}

impl Candidate {
    fn path(&self) -> String {
        format!("/{}", self.prefix)
    }
}

/// Reads all nodes; `root_v3` is the root's `zarr.json`, which was read already.
pub(super) fn read(hierarchy: &mut Hierarchy, store: &Store, root_v3: Option<Json>) -> Result<()> {
    store.read_ahead(&is_document);
    // without a `zarr.json` it is of v2, if it is anything
    let root = Candidate { prefix: String::new(), parent: Metadata::V2, linked: false };
    let mut groups = match root_v3 {
        Some(document) => {
            let is_array = document.get("node_type").and_then(Json::as_str) == Some("array");
            hierarchy.add_v3(root.path(), document);
            if is_array { Vec::new() } else { vec![(root, Metadata::V3)] }
        }
        None => read_nodes(hierarchy, store, vec![root]),
    };
    let mut linked = 0;
    for _ in 0..MAX_DEPTH {
        if groups.is_empty() {
            return Ok(());
        }
        let mut candidates = Vec::new();
        let prefixes: Vec<&str> = groups.iter().map(|(group, _)| group.prefix.as_str()).collect();
        for ((group, known), listed) in groups.iter().zip(store.children_many(&prefixes)) {
            match listed.map(|listed| children(hierarchy, group, *known, listed)) {
                Ok(children) => candidates.extend(children),
                Err(error) if error.kind() == ErrorKind::Unsupported || group.prefix.is_empty() => {
                    return Err(error.with_hint("without consolidated metadata the store must be listed; consolidate it, or name an array's own URL"));
                }
                Err(error) => hierarchy.unreadable_node(&group.path(), &error),
            }
        }
        linked += candidates.iter().filter(|candidate| candidate.linked).count();
        if linked > MAX_LINKED
            && let Some(first) = candidates.iter().find(|candidate| candidate.linked)
        {
            let message =
                format!("more than {MAX_LINKED} directories behind links; this and others are left out");
            hierarchy.unreadable = true;
            hierarchy.defect(&first.path(), "unreadable", message);
            candidates.retain(|candidate| !candidate.linked);
        }
        groups = read_nodes(hierarchy, store, candidates);
    }
    for (group, _) in &groups {
        // the group itself is sound: the defect is that of its children
        let path = format!("/{}", join(&group.prefix, "*"));
        let message = format!("groups are nested more than {MAX_DEPTH} deep; what lies below is left out");
        hierarchy.defect(&path, "malformed-metadata", message);
    }
    Ok(())
}

/// Returns the directories below a group that may be nodes.
fn children(
    hierarchy: &mut Hierarchy,
    group: &Candidate,
    known: Metadata,
    listed: Vec<Child>,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for child in listed {
        let prefix = join(&group.prefix, &child.name);
        match child.kind {
            ChildKind::UnnameableDirectory => {
                hierarchy.unreadable = true;
                let message = "a name that is no UTF-8: no key of the store leads there";
                hierarchy.defect(&format!("/{prefix}"), "unsafe-name", message);
            }
            ChildKind::Directory | ChildKind::LinkedDirectory if DOCUMENTS.contains(&child.name.as_str()) => {
                let message = format!("{} is a directory, and should be a document", child.name);
                hierarchy.defect(&group.path(), "malformed-metadata", message);
            }
            ChildKind::Directory | ChildKind::LinkedDirectory if is_safe_name(&child.name) => {
                // below a directory without metadata, chunk-like names are chunks of something broken
                let chunk_like = known == Metadata::None
                    && (child.name == "c" || child.name.bytes().all(|byte| byte.is_ascii_digit()));
                if !chunk_like && !child.name.starts_with("__MACOSX") {
                    let linked = group.linked || child.kind == ChildKind::LinkedDirectory;
                    candidates.push(Candidate { prefix, parent: known, linked });
                }
            }
            ChildKind::Directory | ChildKind::LinkedDirectory => {
                hierarchy.defect(&format!("/{prefix}"), "unsafe-name", "a name that is no part of a key")
            }
            ChildKind::Object(ObjectKind::DanglingLink) => {
                hierarchy.unreadable = true;
                hierarchy.defect(
                    &format!("/{prefix}"),
                    "dangling-link",
                    "a link whose target does not exist",
                );
            }
            ChildKind::Object(ObjectKind::OutsideLink) => {
                hierarchy.unreadable = true;
                hierarchy.defect(
                    &format!("/{prefix}"),
                    "outside-link",
                    "a link that leads out of the store; pass --follow-links if you trust it",
                );
            }
            ChildKind::Object(_) => {}
        }
    }
    candidates
}

/// Reads the metadata of candidates; returns those whose children are to be read, and what metadata they have.
fn read_nodes(
    hierarchy: &mut Hierarchy,
    store: &Store,
    candidates: Vec<Candidate>,
) -> Vec<(Candidate, Metadata)> {
    let first = read_first(store, &candidates);
    let mut groups = Vec::new();
    let mut v2 = Vec::new();
    for (candidate, (v3, array)) in candidates.into_iter().zip(first) {
        let path = candidate.path();
        let v3 = document(hierarchy, &path, "zarr.json", Some(v3));
        let array = document(hierarchy, &path, ".zarray", Some(array));
        match (v3, array) {
            (Document::Parsed(v3), array) => {
                if !matches!(array, Document::Absent) {
                    hierarchy.defect(
                        &path,
                        "mixed-formats",
                        "both zarr.json and .zarray are here; zarr.json is read",
                    );
                }
                let is_group = v3.get("node_type").and_then(Json::as_str) == Some("group");
                hierarchy.add_v3(path, v3);
                if is_group {
                    groups.push((candidate, Metadata::V3));
                }
            }
            (Document::Broken, Document::Absent | Document::Broken)
            | (Document::Absent, Document::Broken) => {}
            (_, array) => v2.push((candidate, array)),
        }
    }
    let keys: Vec<String> = v2
        .iter()
        .flat_map(|(candidate, array)| {
            let group = matches!(array, Document::Absent).then(|| join(&candidate.prefix, ".zgroup"));
            [join(&candidate.prefix, ".zattrs")].into_iter().chain(group)
        })
        .collect();
    let mut second = store.get_many(&keys, MAX_DOCUMENT_BYTES).into_iter();
    for (candidate, array) in v2 {
        let path = candidate.path();
        let attributes = match document(hierarchy, &path, ".zattrs", second.next()) {
            Document::Parsed(Json::Object(attributes)) => attributes,
            Document::Parsed(_) => {
                hierarchy.defect(&path, "malformed-metadata", ".zattrs is not an object");
                Object::default()
            }
            Document::Absent | Document::Broken => Object::default(),
        };
        match array {
            Document::Parsed(array) => hierarchy.add_v2_array(path, array, attributes),
            _ => match document(hierarchy, &path, ".zgroup", second.next()) {
                Document::Parsed(group) => {
                    hierarchy.add_v2_group(path, group, attributes);
                    groups.push((candidate, Metadata::V2));
                }
                Document::Absent if candidate.parent != Metadata::None => {
                    groups.push((candidate, Metadata::None));
                }
                Document::Absent | Document::Broken => {}
            },
        }
    }
    groups
}

/// Reads `zarr.json` and `.zarray` of each candidate. Over a network nodes below a v3 group are asked for the first alone, and
/// for the other where that is not there.
fn read_first(store: &Store, candidates: &[Candidate]) -> Vec<(FetchResult, FetchResult)> {
    let read = |wanted: Vec<&Candidate>, names: &[&str]| {
        let keys: Vec<String> = wanted
            .iter()
            .flat_map(|candidate| names.iter().map(|name| join(&candidate.prefix, name)))
            .collect();
        store.get_many(&keys, MAX_DOCUMENT_BYTES).into_iter()
    };
    let is_v3 = |candidate: &Candidate| store.is_remote() && candidate.parent == Metadata::V3;
    let mut both = read(candidates.iter().filter(|one| !is_v3(one)).collect(), &["zarr.json", ".zarray"]);
    let mut v3 = read(candidates.iter().filter(|one| is_v3(one)).collect(), &["zarr.json"]);
    let next = |fetched: &mut std::vec::IntoIter<FetchResult>| fetched.next().unwrap_or(Ok(None));
    let mut first: Vec<(FetchResult, FetchResult)> = candidates
        .iter()
        .map(|candidate| match is_v3(candidate) {
            true => (next(&mut v3), Ok(None)),
            false => (next(&mut both), next(&mut both)),
        })
        .collect();
    let lacking: Vec<usize> = (0..candidates.len())
        .filter(|&at| is_v3(&candidates[at]) && matches!(first[at].0, Ok(None)))
        .collect();
    let arrays = read(lacking.iter().map(|&at| &candidates[at]).collect(), &[".zarray"]);
    for (at, array) in lacking.into_iter().zip(arrays) {
        first[at].1 = array;
    }
    first
}

enum Document {
    Absent,
    Broken,
    Parsed(Json),
}

fn document(hierarchy: &mut Hierarchy, path: &str, name: &str, fetched: Option<FetchResult>) -> Document {
    match fetched {
        None | Some(Ok(None)) => Document::Absent,
        Some(Ok(Some(text))) => {
            hierarchy.parse_document(path, name, &text).map_or(Document::Broken, Document::Parsed)
        }
        Some(Err(error)) => {
            hierarchy.unreadable_node(path, &error);
            Document::Broken
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use crate::hierarchy::Hierarchy;
    use crate::location::StoreUrl;
    use crate::store::StoreOptions;

    #[test]
    fn links_to_directories_of_links_do_not_multiply_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        for level in 0..20 {
            let group = folder.path().join(level.to_string());
            std::fs::create_dir(&group).unwrap();
            std::fs::write(group.join(".zgroup"), r#"{"zarr_format":2}"#).unwrap();
            for name in 'a'..='z' {
                symlink(format!("../{}", level + 1), group.join(name.to_string())).unwrap();
            }
        }
        std::fs::write(folder.path().join(".zgroup"), r#"{"zarr_format":2}"#).unwrap();
        std::fs::create_dir(folder.path().join("20")).unwrap();
        let url = StoreUrl::Local(folder.path().to_owned());
        let hierarchy = Hierarchy::open(&url, &StoreOptions::default()).unwrap();
        assert!(hierarchy.unreadable);
        assert_eq!(hierarchy.broken_nodes().len(), 1);
    }

    #[test]
    fn a_directory_where_a_document_should_be_is_told_at_its_node() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("zarr.json"), r#"{"zarr_format":3,"node_type":"group"}"#).unwrap();
        std::fs::create_dir_all(folder.path().join("q/zarr.json")).unwrap();
        let url = StoreUrl::Local(folder.path().to_owned());
        let hierarchy = Hierarchy::open(&url, &StoreOptions::default()).unwrap();
        let found: Vec<_> =
            hierarchy.defects.iter().map(|defect| (defect.path.as_str(), defect.rule)).collect();
        assert_eq!(found, [("/q", "malformed-metadata")]);
    }
}
