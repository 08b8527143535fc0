//! Opening a store: what it is, then its nodes from consolidated metadata or one by one.

use std::collections::BTreeMap;
use std::path::Path;

use super::classify::{self, Classified};
use super::consolidated;
use super::foreign::Foreign;
use super::node::{Consolidated, Container, Hierarchy, StoreKind};
use super::other_formats;
use super::spelling;
use super::walk;
use crate::error::{Error, ErrorKind, Result};
use crate::location::StoreUrl;
use crate::metadata::{Defect, Json, Loss, Object};
use crate::store::{FetchResult, Store, StoreOptions, ZipStore, is_link_to_nothing, join};

/// Metadata documents larger than this are refused.
pub(super) const MAX_DOCUMENT_BYTES: u64 = 128 << 20;

/// What is asked of a remote store before its kind is known, for who needs it anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// Nothing.
    Nothing,
    /// Its listing.
    Keys,
    /// Its listing, and the documents of all its nodes.
    Documents,
}

impl Hierarchy {
    /// Opens a store and reads the metadata of all its nodes.
    ///
    /// One read where metadata is consolidated; else one listing a group and two or three small reads a node.
    /// Broken nodes become defects. Errors: `Absent` if nothing is there, `Unreadable` if the root cannot be read.
    pub fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Self> {
        Self::open_ahead(url, options, Ahead::Nothing)
    }

    /// Opens a store as [`Self::open`] does, which will be listed as a whole.
    ///
    /// Where there are a few thousand objects at most, one listing, and one read of each document, all of them at once. Errors:
    /// also those of the listing.
    pub fn open_ahead(url: &StoreUrl, options: &StoreOptions, ahead: Ahead) -> Result<Self> {
        if let Some(path) = url.local_path() {
            let metadata = std::fs::metadata(path).map_err(|error| {
                let kind = if error.kind() == std::io::ErrorKind::NotFound {
                    ErrorKind::Absent
                } else {
                    ErrorKind::Unreadable
                };
                let failed = Error::new(kind, format!("could not open the store {url}")).with_source(error);
                match spelling::sibling(path).filter(|_| kind == ErrorKind::Absent) {
                    Some(sibling) => failed.with_hint(format!("did you mean {sibling}?")),
                    None => failed,
                }
            })?;
            if metadata.is_file() {
                if classify::is_zip(path)? {
                    return Self::open_zip_or_damage(path);
                }
                let mut found = classify::file(path)?;
                return match found.references.take() {
                    Some(document) => Self::open_references(url, document, options),
                    None => Ok(Self::recognised(url, found)),
                };
            }
            if !metadata.is_dir() {
                return Err(Error::new(
                    ErrorKind::Unreadable,
                    format!("{url} is neither a directory nor a file"),
                ));
            }
        }
        let name = url.name().filter(|_| url.local_path().is_none()).unwrap_or_default();
        if name.to_ascii_lowercase().ends_with(".json") {
            return Self::open_remote_references(url, &name, options);
        }
        if name.to_ascii_lowercase().ends_with(".zip")
            && let Some(zip) = Self::open_remote_zip(url, options)?
        {
            return Ok(zip);
        }
        let store = Store::open(url, options)?;
        if ahead != Ahead::Nothing {
            store.list_ahead()?;
        }
        match ahead {
            Ahead::Nothing => {}
            Ahead::Keys => store.read_ahead(&|key| matches!(key, "zarr.json" | ".zmetadata")),
            Ahead::Documents => store.read_ahead(&walk::is_document),
        }
        Self::read(url, store, options)
    }

    /// Opens references in JSON that lie behind a network: no store ends in `.json`.
    fn open_remote_references(url: &StoreUrl, name: &str, options: &StoreOptions) -> Result<Self> {
        let failed = |kind, why: &str| Error::new(kind, format!("could not open the store {url}: {why}"));
        let mut text = Vec::new();
        if !Store::open(&url.parent(), options)?.get(name, MAX_DOCUMENT_BYTES, &mut text)? {
            return Err(failed(ErrorKind::Absent, "no object is there"));
        }
        match Json::parse(&text) {
            Ok(document) if classify::is_kerchunk_json(&document) => {
                Self::open_references(url, document, options)
            }
            _ => Err(failed(
                ErrorKind::Unsupported,
                "it is no set of references, and no other store ends in .json",
            )),
        }
    }

    /// Returns a hierarchy of metadata that is not in the store yet, with the chunks that are.
    ///
    /// `documents` are keys and what is to be written there; consolidated metadata among them says nothing new.
    pub fn of_documents(url: &StoreUrl, store: Store, documents: &[(String, Json)]) -> Self {
        let container = container_of(&store);
        let mut hierarchy = Self::empty(url, Some(store), StoreKind::Zarr, container);
        let by_key: BTreeMap<&str, &Json> =
            documents.iter().map(|(key, document)| (key.as_str(), document)).collect();
        let parsed = |hierarchy: &mut Self, path: &str, key: &str| {
            // parsed anew, as readers will: what was meant proves nothing of what is written
            match parse_document(path, key, by_key.get(key)?.to_pretty().as_bytes()) {
                Ok(document) => Some(document),
                Err(defect) => {
                    hierarchy.take_defect(defect);
                    None
                }
            }
        };
        for (key, _) in documents {
            let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
            let path = format!("/{prefix}");
            let attributes = |hierarchy: &mut Self| match parsed(hierarchy, &path, &join(prefix, ".zattrs")) {
                Some(Json::Object(attributes)) => attributes,
                _ => Object::default(),
            };
            match name {
                "zarr.json" => {
                    if let Some(document) = parsed(&mut hierarchy, &path, key) {
                        hierarchy.add_v3(path, document);
                    }
                }
                ".zarray" => {
                    let attributes = attributes(&mut hierarchy);
                    if let Some(document) = parsed(&mut hierarchy, &path, key) {
                        hierarchy.add_v2_array(path, document, attributes);
                    }
                }
                ".zgroup" => {
                    let attributes = attributes(&mut hierarchy);
                    if let Some(document) = parsed(&mut hierarchy, &path, key) {
                        hierarchy.add_v2_group(path, document, attributes);
                    }
                }
                _ => {}
            }
        }
        hierarchy.sort();
        hierarchy
    }

    /// Opens a zip file as a store and reads the metadata of all nodes in it; the store may lie in a folder inside.
    ///
    /// Errors: `Corrupt` where it is no whole zip file, `Unreadable`.
    pub fn open_zip(path: &Path) -> Result<Self> {
        let url = StoreUrl::Local(path.to_owned());
        Self::read(&url, Store::Zip(ZipStore::open(path)?), &StoreOptions::default())
    }

    /// Opens a zip file as [`Self::open_zip`] does; a damaged one is a hierarchy without nodes and with a defect.
    pub fn open_zip_or_damage(path: &Path) -> Result<Self> {
        match Self::open_zip(path) {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                Ok(Self::damaged_zip(&StoreUrl::Local(path.to_owned()), &error))
            }
            other => other,
        }
    }

    /// Returns a store of which nothing can be read.
    pub(super) fn without_store(url: &StoreUrl, kind: StoreKind, container: Container) -> Self {
        Self::empty(url, None, kind, container)
    }

    /// Opens a zip file behind a network; `None` if no such object is there: a store may be named like one.
    fn open_remote_zip(url: &StoreUrl, options: &StoreOptions) -> Result<Option<Self>> {
        match ZipStore::open_remote(url, options) {
            Ok(Some(zip)) => Self::read(url, Store::Zip(zip), options).map(Some),
            Ok(None) => Ok(None),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Some(Self::damaged_zip(url, &error))),
            Err(error) => Err(error),
        }
    }

    fn damaged_zip(url: &StoreUrl, error: &Error) -> Self {
        let mut hierarchy = Self::empty(url, None, StoreKind::Unknown, Container::Zip);
        hierarchy.losing(Loss::Node, "/", "corrupt-archive", error.one_line());
        hierarchy
    }

    fn empty(url: &StoreUrl, store: Option<Store>, kind: StoreKind, container: Container) -> Self {
        Self {
            url: url.to_string(),
            store,
            kind,
            container,
            consolidated: Consolidated::None,
            groups: Vec::new(),
            arrays: Vec::new(),
            defects: Vec::new(),
            unreadable: false,
            foreign: Foreign::default(),
        }
    }

    /// Returns a store that is recognised but not read.
    fn recognised(url: &StoreUrl, found: Classified) -> Self {
        let mut hierarchy = Self::empty(url, None, found.kind, found.container);
        if let Some((rule, message)) = found.note {
            hierarchy.losing(Loss::Node, "/", rule, message);
        }
        hierarchy
    }

    fn read(url: &StoreUrl, store: Store, options: &StoreOptions) -> Result<Self> {
        let mut hierarchy = Self::empty(url, None, StoreKind::Zarr, container_of(&store));
        let mut roots = read_roots(&store).into_iter();
        let mut root_document =
            |hierarchy: &mut Self, key| hierarchy.root_document(&store, key, roots.next());
        let root_v3 = root_document(&mut hierarchy, "zarr.json")?;
        let inline = root_v3.as_ref().is_some_and(|document| {
            document.get("consolidated_metadata").is_some_and(|inline| *inline != Json::Null)
        });
        let draft = root_v3.as_ref().is_some_and(classify::is_v3_draft);
        if draft {
            hierarchy.kind = StoreKind::Unknown;
            hierarchy.losing(
                Loss::Node,
                "/",
                "draft-format",
                "a store of the early Zarr v3 draft (`meta/root`); no current reader opens it",
            );
        } else if inline {
            consolidated::read_v3(&mut hierarchy, root_v3);
        } else if root_v3.is_none()
            && let Some(document) = root_document(&mut hierarchy, ".zmetadata")?
        {
            if classify::is_kerchunk_parquet(&document) {
                return Self::open_parquet_references(url, store, options);
            } else {
                consolidated::read_v2(&mut hierarchy, document);
            }
        } else {
            let walked = walk::read(&mut hierarchy, &store, root_v3);
            walked.map_err(|error| hierarchy.unwalked(error))?;
        }
        let nothing =
            hierarchy.groups.is_empty() && hierarchy.arrays.is_empty() && hierarchy.kind == StoreKind::Zarr;
        if nothing && let Some(kind) = classify::directory(&store)? {
            hierarchy.kind = kind;
            hierarchy.defects.clear();
        } else if nothing && hierarchy.defects.is_empty() {
            // a bucket has no empty directories: nothing under the prefix means that it does not exist
            if matches!(store, Store::Remote(_))
                && store.children("").map_or(true, |children| children.is_empty())
            {
                let absent = Error::new(
                    ErrorKind::Absent,
                    format!("could not open the store {url}: no object is there"),
                );
                return Err(match url.name().and_then(|name| other_formats::hint_of_name(&name)) {
                    Some(hint) => absent.with_hint(hint),
                    None => absent,
                });
            }
            hierarchy.kind = StoreKind::Unknown;
            hierarchy.say_what_is_there_instead(&store);
        }
        hierarchy.note_implicit_groups();
        hierarchy.sort();
        hierarchy.store = (hierarchy.kind == StoreKind::Zarr).then_some(store);
        Ok(hierarchy)
    }

    /// Returns the error of a store that cannot be walked: the broken document for whose sake it had to be is the better reason.
    fn unwalked(&self, error: Error) -> Error {
        let Some(defect) = self.losses().next() else { return error };
        let kind = if defect.is_unreadable() { ErrorKind::Unreadable } else { ErrorKind::Corrupt };
        let message = format!("could not open the store {}: {}", self.url, defect.message);
        let better = Error::new(kind, message);
        match error.hint() {
            Some(hint) => better.with_hint(hint).with_source(error),
            None => better.with_source(error),
        }
    }

    /// Adds what a directory without metadata is, as a defect.
    fn say_what_is_there_instead(&mut self, store: &Store) {
        let children = store.children("");
        let sidecar = children
            .iter()
            .flatten()
            .find(|child| child.name.strip_suffix(".dvc").is_some_and(|stem| !stem.is_empty()));
        match (&children, sidecar) {
            (Ok(children), _) if children.is_empty() => self.remark("/", "empty-store", "an empty directory"),
            (_, Some(sidecar)) => {
                let message =
                    format!("{} names data that DVC keeps elsewhere; fetch the data first", sidecar.name);
                self.losing(Loss::Node, "/", "pointer-file", message);
            }
            _ => self.remark("/", "not-zarr", "no Zarr metadata was found here"),
        }
    }

    /// Reads one metadata document of the root, if it was not `fetched`; what cannot be parsed becomes a defect.
    fn root_document(
        &mut self,
        store: &Store,
        key: &str,
        fetched: Option<FetchResult>,
    ) -> Result<Option<Json>> {
        let path = "/";
        let fetch = || {
            let mut buffer = Vec::new();
            let found = store.get(key, MAX_DOCUMENT_BYTES, &mut buffer)?;
            Ok(found.then(|| buffer.into()))
        };
        match fetched.unwrap_or_else(fetch) {
            Ok(Some(text)) => match parse_document(path, key, &text) {
                Ok(document) => Ok(Some(document)),
                Err(defect) => {
                    self.take_defect(defect);
                    Ok(None)
                }
            },
            Ok(None) => Ok(None),
            // over a network nothing else can be read either; locally the other nodes may well be readable
            Err(error) if matches!(store, Store::Remote(_)) => Err(error),
            Err(error) => {
                self.unreadable_node(loss_of(path, key), path, &error);
                Ok(None)
            }
        }
    }

    pub(super) fn unreadable_node(&mut self, loss: Loss, path: &str, error: &Error) {
        self.take_defect(unreadable(loss, path, error));
    }

    /// Takes in what is wrong with a document; one that could not be read leaves the hierarchy incomplete.
    pub(super) fn take_defect(&mut self, defect: Defect) {
        self.unreadable |= defect.is_unreadable();
        self.defects.push(defect);
    }
}

/// Returns the defect of a node of which something could not be read.
pub(super) fn unreadable(loss: Loss, path: &str, error: &Error) -> Defect {
    let rule = if is_link_to_nothing(error) { "dangling-link" } else { "unreadable" };
    Defect::losing(loss, path, rule, error.one_line())
}

/// Returns what is not known of the node at `path` where its document `name` is broken.
pub(super) fn loss_of(path: &str, name: &str) -> Loss {
    match name.rsplit('/').next().unwrap_or(name) {
        ".zattrs" => Loss::Attributes,
        ".zmetadata" if path == "/" => Loss::Consolidated,
        _ => Loss::Node,
    }
}

/// Parses a metadata document; one that is no JSON is a defect.
pub(super) fn parse_document(path: &str, name: &str, text: &[u8]) -> std::result::Result<Json, Defect> {
    let name = name.rsplit('/').next().unwrap_or(name);
    let losing = |rule, message| Defect::losing(loss_of(path, name), path, rule, message);
    if text.starts_with(b"version https://git-lfs") || text.starts_with(b"/annex/objects/") {
        let message =
            format!("{name} is a pointer of git-lfs or git-annex, not the file itself; fetch the data first");
        return Err(losing("pointer-file", message));
    }
    // consolidated metadata speaks of all nodes
    let of_all = name == ".zmetadata" || (name == "zarr.json" && path == "/");
    let parsed = if of_all { Json::parse(text) } else { Json::parse_node(text) };
    parsed.map_err(|error| losing("malformed-metadata", format!("{name} is not JSON: {error}")))
}

/// Reads the documents that may speak of a whole store, `zarr.json` and `.zmetadata`, where that takes one round trip in the place of
/// two: over a network.
fn read_roots(store: &Store) -> Vec<FetchResult> {
    match store {
        Store::Remote(_) => {
            store.get_many(&["zarr.json", ".zmetadata"].map(str::to_owned), MAX_DOCUMENT_BYTES)
        }
        _ => Vec::new(),
    }
}

fn container_of(store: &Store) -> Container {
    match store {
        // how references are kept is known where they are read
        Store::Local(_) | Store::Memory(_) | Store::References(_) => Container::Directory,
        Store::Remote(_) => Container::ObjectStore,
        Store::Zip(_) => Container::Zip,
    }
}
