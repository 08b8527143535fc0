//! Nodes read one by one, a level at a time: many small reads at once, none of a chunk.

use std::collections::BTreeSet;

use super::classify;
use super::node::Hierarchy;
use super::open::{MAX_DOCUMENT_BYTES, loss_of, parse_document, unreadable};
use crate::error::{ErrorKind, Result};
use crate::metadata::{Defect, Json, Loss, Object, ZarrFormat};
use crate::store::{Child, ChildKind, FetchResult, ObjectKind, Store, is_safe_name, join};

/// Folders without documents that one walk lists: those of chunks whose array has lost its metadata may be very many.
const MAX_UNDOCUMENTED: usize = 10_000;
/// The same of a bucket, where each costs a request.
const MAX_UNDOCUMENTED_REMOTE: usize = 1_000;
/// Directories behind links that one walk looks into: links to directories of links multiply.
const MAX_LINKED: usize = 10_000;

/// The documents of nodes.
const DOCUMENTS: [&str; 4] = ["zarr.json", ".zarray", ".zgroup", ".zattrs"];

/// Returns whether a key is one of a node's documents, or of consolidated metadata.
pub(super) fn is_document(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    DOCUMENTS.contains(&name) || key == ".zmetadata"
}

/// What is known of a folder that is no array.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Metadata {
    /// It has no document of its own: nodes may lie below it all the same.
    None,
    V2,
    V3,
}

impl From<ZarrFormat> for Metadata {
    fn from(format: ZarrFormat) -> Self {
        match format {
            ZarrFormat::V2 => Self::V2,
            ZarrFormat::V3 => Self::V3,
        }
    }
}

/// A directory that may be a node.
struct Candidate {
    prefix: String,
    /// What the parent has.
    parent: Metadata,
    /// Whether a link leads to it.
    linked: bool,
}

impl Candidate {
    fn path(&self) -> String {
        format!("/{}", self.prefix)
    }
}

/// A group, or a folder without documents, whose children are to be read.
struct Folder {
    prefix: String,
    metadata: Metadata,
    linked: bool,
    /// Documents that were asked for and are not there.
    lacking: Vec<&'static str>,
    /// What is in it, where it was listed already.
    listed: Option<Vec<Child>>,
}

impl Folder {
    fn of(candidate: Candidate, metadata: Metadata) -> Self {
        let Candidate { prefix, linked, .. } = candidate;
        Self { prefix, metadata, linked, lacking: Vec::new(), listed: None }
    }

    fn path(&self) -> String {
        format!("/{}", self.prefix)
    }
}

/// Reads all nodes; `root_v3` is the root's `zarr.json`, which was read already.
pub(super) fn read(hierarchy: &mut Hierarchy, store: &Store, root_v3: Option<Json>) -> Result<()> {
    store.read_ahead(&is_document);
    // without a `zarr.json` it is of v2, if it is anything
    let root = Candidate { prefix: String::new(), parent: Metadata::V2, linked: false };
    let folders = match root_v3 {
        Some(document) => {
            let is_array = document.get("node_type").and_then(Json::as_str) == Some("array");
            hierarchy.add_v3(root.path(), document);
            if is_array { Vec::new() } else { vec![Folder::of(root, Metadata::V3)] }
        }
        None => read_nodes(hierarchy, store, vec![root]),
    };
    let undocumented = folders.first().is_some_and(|root| root.metadata == Metadata::None);
    if undocumented && classify::directory(store)?.is_some() {
        return Ok(());
    }
    Walk { hierarchy, store, links: 0, undocumented: 0 }.below(folders, &|_| false)
}

/// Reads the nodes that lie beside those of consolidated metadata, whose paths are `known`, into a hierarchy of their own.
///
/// One listing a group. Errors: where the store cannot be listed.
pub(super) fn read_beside(
    hierarchy: &mut Hierarchy,
    store: &Store,
    groups: &[(String, ZarrFormat)],
    known: &BTreeSet<&str>,
) -> Result<()> {
    let folder = |(path, format): &(String, ZarrFormat)| Folder {
        prefix: path.trim_start_matches('/').to_owned(),
        metadata: (*format).into(),
        linked: false,
        lacking: Vec::new(),
        listed: None,
    };
    let is_known = |path: &str| known.contains(path);
    Walk { hierarchy, store, links: 0, undocumented: 0 }.below(groups.iter().map(folder).collect(), &is_known)
}

/// A walk through the folders of a store, a level at a time.
struct Walk<'a> {
    hierarchy: &'a mut Hierarchy,
    store: &'a Store,
    /// Directories behind links that were met.
    links: usize,
    /// Folders without documents that were listed.
    undocumented: usize,
}

impl Walk<'_> {
    /// Reads the nodes below some folders, but for those that are known.
    fn below(&mut self, mut folders: Vec<Folder>, is_known: &dyn Fn(&str) -> bool) -> Result<()> {
        while !folders.is_empty() {
            let mut candidates = self.children(folders)?;
            candidates.retain(|candidate| !is_known(&candidate.path()));
            self.links += candidates.iter().filter(|candidate| candidate.linked).count();
            if self.links > MAX_LINKED
                && let Some(first) = candidates.iter().find(|candidate| candidate.linked)
            {
                let message =
                    format!("more than {MAX_LINKED} directories behind links; this and others are left out");
                let defect = Defect::losing(Loss::Node, first.path(), "unreadable", message);
                self.hierarchy.take_defect(defect);
                candidates.retain(|candidate| !candidate.linked);
            }
            let (undocumented, named): (Vec<_>, Vec<_>) =
                candidates.into_iter().partition(|candidate| candidate.parent == Metadata::None);
            folders = read_nodes(self.hierarchy, self.store, named);
            folders.extend(self.undocumented(undocumented)?);
        }
        Ok(())
    }

    /// Returns what in some folders may be a node.
    fn children(&mut self, mut folders: Vec<Folder>) -> Result<Vec<Candidate>> {
        let unlisted: Vec<usize> = (0..folders.len()).filter(|&at| folders[at].listed.is_none()).collect();
        let prefixes: Vec<&str> = unlisted.iter().map(|&at| folders[at].prefix.as_str()).collect();
        let listings = self.store.children_many(&prefixes);
        for (at, listed) in unlisted.into_iter().zip(listings) {
            match listed {
                Ok(listed) => folders[at].listed = Some(listed),
                Err(error) if error.kind() == ErrorKind::Unsupported || folders[at].prefix.is_empty() => {
                    return Err(error.with_hint("without consolidated metadata the store must be listed; consolidate it, or name an array's own URL"));
                }
                Err(error) => self.hierarchy.unreadable_node(Loss::Below, &folders[at].path(), &error),
            }
        }
        let mut candidates = Vec::new();
        for mut folder in folders {
            let listed = folder.listed.take().unwrap_or_default();
            candidates.extend(children(self.hierarchy, &folder, listed));
        }
        Ok(candidates)
    }

    /// Lists folders below folders without documents: chunks of lost arrays may lie there, whose documents are not asked for one
    /// by one. Returns those that are no arrays.
    fn undocumented(&mut self, mut candidates: Vec<Candidate>) -> Result<Vec<Folder>> {
        let most = if self.store.is_remote() { MAX_UNDOCUMENTED_REMOTE } else { MAX_UNDOCUMENTED };
        let left = most.saturating_sub(self.undocumented);
        if let Some(first) = candidates.get(left) {
            let message = format!("more than {most} folders without metadata; this and others are left out");
            let top = first.prefix.split('/').next().unwrap_or_default();
            self.hierarchy.losing(Loss::Node, &format!("/{top}"), "malformed-metadata", message);
            candidates.truncate(left);
        }
        self.undocumented += candidates.len();
        let prefixes: Vec<&str> = candidates.iter().map(|candidate| candidate.prefix.as_str()).collect();
        let listings = self.store.children_many(&prefixes);
        let (mut documented, mut folders) = (Vec::new(), Vec::new());
        for (candidate, listed) in candidates.into_iter().zip(listings) {
            match listed {
                Ok(listed) if listed.iter().any(|child| DOCUMENTS.contains(&child.name.as_str())) => {
                    documented.push(candidate);
                }
                Ok(listed) => {
                    folders.push(Folder { listed: Some(listed), ..Folder::of(candidate, Metadata::None) });
                }
                Err(error) => self.hierarchy.unreadable_node(Loss::Node, &candidate.path(), &error),
            }
        }
        folders.extend(read_nodes(self.hierarchy, self.store, documented));
        Ok(folders)
    }
}

/// Returns the directories in a folder that may be nodes; objects that are no part of any node are counted.
fn children(hierarchy: &mut Hierarchy, folder: &Folder, listed: Vec<Child>) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for child in listed {
        let key = join(&folder.prefix, &child.name);
        let path = format!("/{key}");
        match child.kind {
            ChildKind::UnnameableDirectory => {
                hierarchy.unreadable = true;
                let message = "a name that is no UTF-8: no key of the store leads there";
                hierarchy.losing(Loss::Node, &path, "unsafe-name", message);
            }
            ChildKind::Directory | ChildKind::LinkedDirectory if DOCUMENTS.contains(&child.name.as_str()) => {
                // reading the document says so where it is asked for
                if folder.metadata == Metadata::None {
                    let message = format!("{} is a directory, and should be a document", child.name);
                    hierarchy.malformed(loss_of(&folder.path(), &child.name), &folder.path(), message);
                }
            }
            ChildKind::Directory | ChildKind::LinkedDirectory if is_safe_name(&child.name) => {
                if !child.name.starts_with("__MACOSX") {
                    let linked = folder.linked || child.kind == ChildKind::LinkedDirectory;
                    candidates.push(Candidate { prefix: key, parent: folder.metadata, linked });
                }
            }
            ChildKind::Directory | ChildKind::LinkedDirectory => {
                hierarchy.losing(Loss::Node, &path, "unsafe-name", "a name that is no part of a key");
            }
            ChildKind::Object(_) if folder.lacking.contains(&child.name.as_str()) => {
                let message = format!("{} is listed, and is not there when it is read", child.name);
                let loss = loss_of(&folder.path(), &child.name);
                hierarchy.take_defect(Defect::losing(loss, folder.path(), "unreadable", message));
            }
            ChildKind::Object(_) if is_used(folder, &child.name) => {}
            ChildKind::Object(ObjectKind::DanglingLink) => {
                let message = "a link whose target does not exist";
                hierarchy.take_defect(Defect::losing(Loss::Node, path, "dangling-link", message));
            }
            ChildKind::Object(ObjectKind::OutsideLink) => {
                let message = "a link that leads out of the store; pass --follow-links if you trust it";
                hierarchy.take_defect(Defect::losing(Loss::Node, path, "outside-link", message));
            }
            ChildKind::Object(_) => hierarchy.foreign.add(key),
        }
    }
    candidates
}

/// Returns whether an object in a folder is a document that is read there.
fn is_used(folder: &Folder, name: &str) -> bool {
    match folder.metadata {
        Metadata::V3 => name == "zarr.json",
        Metadata::V2 | Metadata::None => {
            DOCUMENTS.contains(&name) || (folder.prefix.is_empty() && name == ".zmetadata")
        }
    }
}

/// Reads the metadata of candidates; returns those that are no arrays, whose children are to be read.
fn read_nodes(hierarchy: &mut Hierarchy, store: &Store, candidates: Vec<Candidate>) -> Vec<Folder> {
    let first = read_first(store, &candidates);
    let mut folders = Vec::new();
    let mut v2 = Vec::new();
    for (candidate, (v3, array)) in candidates.into_iter().zip(first) {
        let path = candidate.path();
        let v3 = document(&path, "zarr.json", Some(v3));
        let array = document(&path, ".zarray", Some(array));
        match (v3, array) {
            (Document::Parsed(v3), array) => {
                if !matches!(array, Document::Absent) {
                    let message = "both zarr.json and .zarray are here; zarr.json is read";
                    hierarchy.losing(Loss::Unused, &path, "mixed-formats", message);
                }
                if let Document::Broken(defect) = array {
                    hierarchy.take_defect(Defect { loss: Loss::Unused, ..defect });
                }
                let is_group = v3.get("node_type").and_then(Json::as_str) == Some("group");
                hierarchy.add_v3(path, v3);
                if is_group {
                    folders.push(Folder::of(candidate, Metadata::V3));
                }
            }
            (Document::Broken(defect), Document::Broken(other)) => {
                hierarchy.take_defect(defect);
                hierarchy.take_defect(other);
            }
            (Document::Broken(defect), Document::Absent) | (Document::Absent, Document::Broken(defect)) => {
                hierarchy.take_defect(defect);
            }
            (Document::Broken(defect), array @ Document::Parsed(_)) => {
                hierarchy.take_defect(defect);
                v2.push((candidate, array));
            }
            (Document::Absent, array) => v2.push((candidate, array)),
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
        let attributes = document(&path, ".zattrs", second.next());
        match array {
            Document::Parsed(array) => {
                let attributes = attributes.into_attributes(hierarchy, &path).unwrap_or_default();
                hierarchy.add_v2_array(path, array, attributes);
            }
            _ => match document(&path, ".zgroup", second.next()) {
                Document::Parsed(group) => {
                    let mut lacking = vec!["zarr.json", ".zarray"];
                    lacking.extend(matches!(attributes, Document::Absent).then_some(".zattrs"));
                    let attributes = attributes.into_attributes(hierarchy, &path).unwrap_or_default();
                    hierarchy.add_v2_group(path, group, attributes);
                    folders.push(Folder { lacking, ..Folder::of(candidate, Metadata::V2) });
                }
                Document::Absent => {
                    let without = matches!(attributes, Document::Absent);
                    if attributes.into_attributes(hierarchy, &path).is_some() {
                        let message = ".zattrs without .zarray or .zgroup: attributes of no node";
                        hierarchy.malformed(Loss::Unused, &path, message);
                    }
                    let mut lacking = vec!["zarr.json", ".zarray", ".zgroup"];
                    lacking.extend(without.then_some(".zattrs"));
                    folders.push(Folder { lacking, ..Folder::of(candidate, Metadata::None) });
                }
                Document::Broken(defect) => hierarchy.take_defect(defect),
            },
        }
    }
    folders
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
    Broken(Defect),
    Parsed(Json),
}

impl Document {
    /// Returns the attributes that a `.zattrs` holds; where it is broken none, and a defect.
    fn into_attributes(self, hierarchy: &mut Hierarchy, path: &str) -> Option<Object> {
        match self {
            Self::Parsed(Json::Object(attributes)) => Some(attributes),
            Self::Parsed(_) => {
                hierarchy.malformed(Loss::Attributes, path, ".zattrs is not an object");
                None
            }
            Self::Broken(defect) => {
                hierarchy.take_defect(defect);
                None
            }
            Self::Absent => None,
        }
    }
}

fn document(path: &str, name: &str, fetched: Option<FetchResult>) -> Document {
    match fetched {
        None | Some(Ok(None)) => Document::Absent,
        Some(Ok(Some(text))) => {
            parse_document(path, name, &text).map_or_else(Document::Broken, Document::Parsed)
        }
        Some(Err(error)) => Document::Broken(unreadable(loss_of(path, name), path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use crate::hierarchy::Hierarchy;
    use crate::location::StoreUrl;
    use crate::metadata::Loss;
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
        assert_eq!(hierarchy.losses().count(), 1);
    }

    fn write(root: &std::path::Path, files: &[(&str, &str)]) {
        for (key, text) in files {
            std::fs::create_dir_all(root.join(key).parent().unwrap()).unwrap();
            std::fs::write(root.join(key), text).unwrap();
        }
    }

    fn paths(hierarchy: &Hierarchy) -> Vec<&str> {
        hierarchy.arrays.iter().map(|array| array.path.as_str()).collect()
    }

    const GROUP: &str = r#"{"zarr_format":2}"#;
    const ARRAY: &str = r#"{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"|u1","fill_value":0,"compressor":null,"filters":null,"order":"C"}"#;

    #[test]
    fn nodes_below_folders_without_documents_are_found_and_those_folders_named() {
        let folder = tempfile::tempdir().unwrap();
        let files =
            [(".zgroup", GROUP), ("A/1/.zgroup", GROUP), ("A/1/0/.zarray", ARRAY), ("B/2/3/.zarray", ARRAY)];
        write(folder.path(), &files);
        write(folder.path(), &[("lost/0/0", "chunk"), ("lost/0/1", "chunk"), ("README", "text")]);
        let hierarchy =
            Hierarchy::open(&StoreUrl::Local(folder.path().to_owned()), &StoreOptions::default()).unwrap();
        assert_eq!(paths(&hierarchy), ["/A/1/0", "/B/2/3"]);
        let named: Vec<_> =
            hierarchy.defects.iter().map(|defect| (defect.path.as_str(), defect.rule)).collect();
        assert_eq!(named, [("/A", "implicit-group"), ("/B", "implicit-group"), ("/B/2", "implicit-group")]);
        assert_eq!(hierarchy.foreign.count(), 3);
    }

    #[test]
    fn groups_may_be_nested_deeply() {
        let folder = tempfile::tempdir().unwrap();
        let mut path = String::new();
        for level in 0..60 {
            write(folder.path(), &[(&format!("{path}.zgroup"), GROUP)]);
            path += &format!("{level}/");
        }
        write(folder.path(), &[(&format!("{path}.zarray"), ARRAY)]);
        let hierarchy =
            Hierarchy::open(&StoreUrl::Local(folder.path().to_owned()), &StoreOptions::default()).unwrap();
        assert_eq!((hierarchy.arrays.len(), hierarchy.groups.len(), hierarchy.defects.len()), (1, 60, 0));
    }

    #[test]
    fn chunks_of_a_lost_array_are_listed_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &[(".zgroup", GROUP)]);
        for chunk in 0..=super::MAX_UNDOCUMENTED {
            std::fs::create_dir_all(folder.path().join(format!("lost/{chunk}"))).unwrap();
        }
        let hierarchy =
            Hierarchy::open(&StoreUrl::Local(folder.path().to_owned()), &StoreOptions::default()).unwrap();
        let losses: Vec<_> = hierarchy.losses().map(|defect| (defect.path.as_str(), defect.loss)).collect();
        assert_eq!(losses, [("/lost", Loss::Node)]);
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
        assert_eq!(found, [("/q", "unreadable")]);
        assert_eq!(hierarchy.defects[0].loss, Loss::Node);
    }
}
