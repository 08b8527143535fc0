//! The nodes of a hierarchy and what is known of the store as a whole.

use std::collections::{BTreeMap, BTreeSet};

use super::foreign::Foreign;
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::{ArrayMetadata, Defect, Json, Loss, Object, ZarrFormat};
use crate::store::Store;

/// A store that was opened: everything that its metadata says.
#[derive(Debug)]
pub struct Hierarchy {
    /// Where it is, without secrets.
    pub url: String,
    /// The bytes behind it; `None` where zkit recognises the kind but cannot read it.
    pub store: Option<Store>,
    /// What kind of store it is.
    pub kind: StoreKind,
    /// What it is kept in.
    pub container: Container,
    /// Where the metadata of its nodes was read from.
    pub consolidated: Consolidated,
    /// Groups, sorted by path.
    pub groups: Vec<GroupNode>,
    /// Arrays, sorted by path.
    pub arrays: Vec<ArrayNode>,
    /// What is wrong with single nodes.
    pub defects: Vec<Defect>,
    /// Whether something could not be read, so that nodes may be missing here.
    pub unreadable: bool,
    /// Objects beside the nodes that no Zarr reader uses, as far as its folders were listed.
    pub foreign: Foreign,
}

/// A group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupNode {
    /// Its path, starting with `/`.
    pub path: String,
    /// Its Zarr format.
    pub format: ZarrFormat,
    /// Its attributes.
    pub attributes: Object,
    /// Its document: `.zgroup`, or `zarr.json` with `null` for attributes and without consolidated metadata.
    pub document: Object,
}

/// An array.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayNode {
    /// Its path, starting with `/`.
    pub path: String,
    /// What its metadata says.
    pub metadata: ArrayMetadata,
}

impl ArrayNode {
    /// Returns the key prefix of the array: its path without the leading `/`.
    pub fn prefix(&self) -> &str {
        self.path.trim_start_matches('/')
    }

    /// Writes the key of a chunk into `key`, which is cleared.
    pub fn chunk_key(&self, chunk_index: &[u64], key: &mut String) {
        key.clear();
        key.push_str(self.prefix());
        if !key.is_empty() {
            key.push('/');
        }
        self.metadata.chunk_keys.push_key(chunk_index, key);
    }
}

/// What kind of store something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// Zarr v2 or v3.
    Zarr,
    /// N5.
    N5,
    /// kerchunk references in JSON.
    KerchunkJson,
    /// kerchunk references in parquet.
    KerchunkParquet,
    /// An Icechunk repository.
    Icechunk,
    /// Nothing that zkit knows.
    Unknown,
}

impl StoreKind {
    /// Returns the kind's name in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zarr => "zarr",
            Self::N5 => "n5",
            Self::KerchunkJson => "kerchunk-json",
            Self::KerchunkParquet => "kerchunk-parquet",
            Self::Icechunk => "icechunk",
            Self::Unknown => "unknown",
        }
    }
}

/// What a store is kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// A directory.
    Directory,
    /// A bucket, container or web server.
    ObjectStore,
    /// A zip file.
    Zip,
    /// A single file of another kind.
    File,
}

impl Container {
    /// Returns the container's name in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::ObjectStore => "object-store",
            Self::Zip => "zip",
            Self::File => "file",
        }
    }
}

/// Which consolidated metadata a hierarchy was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consolidated {
    /// None: the nodes were read one by one.
    None,
    /// v2's `.zmetadata`.
    V2,
    /// v3's inline `consolidated_metadata`.
    V3,
}

impl Consolidated {
    /// Returns the name in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::V2 => "v2",
            Self::V3 => "v3",
        }
    }
}

impl Hierarchy {
    /// Returns the Zarr formats of its nodes, sorted.
    pub fn formats(&self) -> Vec<ZarrFormat> {
        let groups = self.groups.iter().map(|group| group.format);
        let formats: BTreeSet<_> =
            groups.chain(self.arrays.iter().map(|array| array.metadata.format)).collect();
        formats.into_iter().collect()
    }

    /// Returns the array at `path`, with or without the leading `/`.
    pub fn array(&self, path: &str) -> Option<&ArrayNode> {
        let path = format!("/{}", path.trim_matches('/'));
        // they are sorted as soon as all are known
        let at = self.arrays.binary_search_by(|array| array.path.as_str().cmp(path.as_str())).ok()?;
        Some(&self.arrays[at])
    }

    /// Returns the bytes behind the hierarchy, or why there are none that zkit reads.
    pub fn readable_store(&self) -> Result<&Store> {
        self.store.as_ref().ok_or_else(|| {
            let archive = self.defects.iter().find(|defect| defect.rule == "corrupt-archive");
            if let Some(defect) = archive {
                return Error::new(ErrorKind::Corrupt, defect.message.clone());
            }
            let what = match self.kind {
                StoreKind::Zarr => "a Zarr store",
                StoreKind::N5 => "an N5 container",
                StoreKind::KerchunkJson | StoreKind::KerchunkParquet => "a set of kerchunk references",
                StoreKind::Icechunk => "an Icechunk repository",
                StoreKind::Unknown => "not a Zarr store",
            };
            let error = Error::new(
                ErrorKind::Unsupported,
                format!("could not read the arrays of {}: it is {what}", self.url),
            );
            match self.kind {
                StoreKind::Unknown => error.with_hint("run `zkit inspect` on it to see what was found"),
                _ => error.with_hint("open it with its own library and write a Zarr store"),
            }
        })
    }

    /// Returns the paths of all groups and arrays.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let groups = self.groups.iter().map(|group| group.path.as_str());
        groups.chain(self.arrays.iter().map(|array| array.path.as_str()))
    }

    /// Returns the defects because of which something of the store is not known.
    pub fn losses(&self) -> impl Iterator<Item = &Defect> {
        self.defects.iter().filter(|defect| defect.loss != Loss::Nothing)
    }

    /// Returns the arrays that `paths` name, or all of them; a group's path names every array below it.
    ///
    /// Errors: `Usage` for a path that names none.
    pub fn select(&self, paths: &[String]) -> Result<Vec<&ArrayNode>> {
        if paths.is_empty() {
            return Ok(self.arrays.iter().collect());
        }
        let mut selected: Vec<&ArrayNode> = Vec::new();
        for name in paths {
            let path = format!("/{}", name.trim_matches('/'));
            let below = format!("{}/", path.trim_end_matches('/'));
            let mut found = self
                .arrays
                .iter()
                .filter(|array| array.path == path || array.path.starts_with(&below))
                .peekable();
            if found.peek().is_none() {
                let error = Error::new(ErrorKind::Usage, format!("{} has no array `{path}`", self.url));
                return Err(error.with_hint("run `zkit inspect` to see its arrays"));
            }
            selected.extend(found);
        }
        selected.sort_by(|a, b| a.path.cmp(&b.path));
        selected.dedup_by(|a, b| a.path == b.path);
        Ok(selected)
    }

    /// Takes in a node's v3 document.
    pub(super) fn add_v3(&mut self, path: String, document: Json) {
        let Json::Object(mut document) = document else {
            return self.malformed(Loss::Node, &path, "zarr.json is not an object");
        };
        match document.get("node_type").and_then(Json::as_str) {
            Some("array") => match ArrayMetadata::parse_v3(&path, document, &mut self.defects) {
                Ok(metadata) => self.arrays.push(ArrayNode { path, metadata }),
                Err(defect) => self.defects.push(defect),
            },
            Some("group") => {
                if document.get("zarr_format").and_then(Json::as_integer::<u8>) != Some(3) {
                    self.malformed(Loss::Nothing, &path, "zarr_format is not 3");
                }
                document.remove("consolidated_metadata");
                let attributes = match document.take("attributes") {
                    None => Object::default(),
                    Some(Json::Object(attributes)) => attributes,
                    Some(_) => {
                        self.malformed(Loss::Attributes, &path, "attributes is not an object");
                        Object::default()
                    }
                };
                self.groups.push(GroupNode { path, format: ZarrFormat::V3, attributes, document });
            }
            Some(other) => {
                let message = format!("node_type is \"{other}\", expected \"array\" or \"group\"");
                self.malformed(Loss::Node, &path, message);
            }
            None => self.malformed(Loss::Node, &path, "zarr.json has no node_type"),
        }
    }

    /// Takes in a v2 array's documents.
    pub(super) fn add_v2_array(&mut self, path: String, document: Json, attributes: Object) {
        let Json::Object(document) = document else {
            return self.malformed(Loss::Node, &path, ".zarray is not an object");
        };
        match ArrayMetadata::parse_v2(&path, document, attributes, &mut self.defects) {
            Ok(metadata) => self.arrays.push(ArrayNode { path, metadata }),
            Err(defect) => self.defects.push(defect),
        }
    }

    /// Takes in a v2 group's documents.
    pub(super) fn add_v2_group(&mut self, path: String, document: Json, attributes: Object) {
        let Json::Object(mut document) = document else {
            return self.malformed(Loss::Node, &path, ".zgroup is not an object");
        };
        // readers take it for a group of another format, and find no members of this one
        if document.get("zarr_format").and_then(Json::as_f64) != Some(2.0) {
            let found = document.get("zarr_format").map_or("absent".to_owned(), Json::to_string);
            let message = format!("zarr_format of .zgroup is {found}, expected 2");
            self.malformed(Loss::Nothing, &path, message);
        }
        // zarr-python 3 leaves this in the entries of `.zmetadata`; in a `.zgroup` it would hide the group's members
        document.remove("consolidated_metadata");
        self.groups.push(GroupNode { path, format: ZarrFormat::V2, attributes, document });
    }

    /// Adds a remark on a node, because of which nothing is unknown.
    pub(super) fn remark(&mut self, path: &str, rule: &'static str, message: impl Into<String>) {
        self.defects.push(Defect::remark(path, rule, message));
    }

    /// Adds a document that says nothing, or not what it should.
    pub(super) fn malformed(&mut self, loss: Loss, path: &str, message: impl Into<String>) {
        self.losing(loss, path, "malformed-metadata", message);
    }

    /// Adds a defect because of which something is not known.
    pub(super) fn losing(&mut self, loss: Loss, path: &str, rule: &'static str, message: impl Into<String>) {
        self.defects.push(Defect::losing(loss, path, rule, message));
    }

    /// Adds a remark on each folder above a node that has no document of its own, below the root.
    pub(super) fn note_implicit_groups(&mut self) {
        let known: BTreeSet<&str> = self.paths().collect();
        let mut implicit: BTreeMap<&str, &str> = BTreeMap::new();
        for path in &known {
            for above in
                with_groups_above(path).skip(1).filter(|above| *above != "/" && !known.contains(above))
            {
                implicit.entry(above).or_insert(path);
            }
        }
        let remarks: Vec<Defect> = (implicit.into_iter())
            .map(|(path, below)| {
                let message = format!(
                    "a folder without a .zgroup or zarr.json of its own: readers find `{below}` only by its full path"
                );
                Defect::remark(path, "implicit-group", message)
            })
            .collect();
        self.defects.extend(remarks);
    }

    /// Sorts nodes by path, parents first.
    pub(super) fn sort(&mut self) {
        self.groups.sort_by(|a, b| a.path.cmp(&b.path));
        self.arrays.sort_by(|a, b| a.path.cmp(&b.path));
        self.defects.sort_by(|a, b| a.path.cmp(&b.path));
    }
}

/// Returns a path and the groups above it, up to the root.
pub(super) fn with_groups_above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rsplit_once('/') {
        Some(("", "")) | None => None,
        Some(("", _)) => Some("/"),
        Some((above, _)) => Some(above),
    })
}
