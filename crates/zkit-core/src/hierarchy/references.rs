//! kerchunk references: the hierarchy that they describe, and what they point to. This file reads those in JSON, `parquet`
//! those in parquet; both can be asked for a key.
//!
//! Source: kerchunk's specification, "References", versions 0 and 1.

mod parquet;
mod template;

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::Path;

use base64::Engine as _;

use super::consolidated;
use super::foreign::Foreign;
use super::node::{Consolidated, Container, Hierarchy, StoreKind};
use super::open::{MAX_DOCUMENT_BYTES, loss_of};
use template::Templates;

use crate::error::{Error, ErrorKind, Result};
use crate::location::StoreUrl;
use crate::metadata::{Json, Loss, Object};
use crate::store::{Document, Locate, Located, Reach, ReferenceStore, Store, StoreOptions, reach};

pub use parquet::{Lacking, ParquetReferences, Record, panics_are_contained};

/// Names of metadata documents, whose content stands in the references.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];
/// References that rules generate, at most.
const GENERATED_MOST: usize = 2_000_000;

/// What a set of references points to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// The files that it points to.
    pub targets: Vec<ReferenceTarget>,
    /// The references, sorted by key.
    pub references: Vec<Reference>,
    /// Chunks that stand in the references themselves: key and bytes, sorted by key.
    pub inline: Vec<(String, Vec<u8>)>,
    /// Entries that are no references: how many, and the first one.
    pub malformed: Option<(u64, String)>,
    /// Keys whose entries are no references, and why, sorted by key.
    pub broken: Vec<(String, String)>,
    /// Why the rules that generate references (`gen`) could not be followed: keys are missing here.
    pub ungenerated: Option<String>,
}

/// One file that references point to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceTarget {
    /// Where it is, as the references say.
    pub url: String,
    /// Where it leads.
    pub reach: Reach,
    /// The last byte that a reference needs, and one.
    pub end: u64,
    /// What was found there; `None` where nobody looked.
    pub found: Option<TargetFound>,
}

/// What lies where a reference points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetFound {
    /// A file of so many bytes.
    Bytes(u64),
    /// Nothing.
    Absent,
    /// Something that could not be looked at.
    Unreadable(String),
}

/// One reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Its key.
    pub key: String,
    /// Which of the targets.
    pub target: usize,
    /// Offset and length; `None` for a whole file.
    pub range: Option<(u64, u64)>,
}

impl References {
    /// Returns what the chunk of that key leads to; `None` where nothing is said of it. Metadata is in the hierarchy.
    pub fn locate(&self, key: &str) -> Option<Located> {
        if let Ok(at) = self.inline.binary_search_by(|(name, _)| name.as_str().cmp(key)) {
            return Some(Located::Inline(self.inline[at].1.clone()));
        }
        let at = self.references.binary_search_by(|reference| reference.key.as_str().cmp(key)).ok()?;
        let Reference { target, range, .. } = &self.references[at];
        Some(Located::Elsewhere { url: self.targets.get(*target)?.url.clone(), range: *range })
    }
}

impl Hierarchy {
    /// Reads a set of references in JSON: the hierarchy that it describes, without a store, and what it points to.
    ///
    /// Errors: `Unreadable`; `Corrupt` where it is no JSON.
    pub fn read_references(path: &Path) -> Result<(Self, References)> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Unreadable, format!("could not read {}", path.display())).with_source(error)
        };
        let size = std::fs::metadata(path).map_err(failed)?.len();
        if size > MAX_DOCUMENT_BYTES {
            let message = format!("could not read {}: references of {size} bytes", path.display());
            return Err(Error::new(ErrorKind::OverBudget, message));
        }
        let text = std::fs::read(path).map_err(failed)?;
        let document = Json::parse(&text).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("could not parse {}", path.display())).with_source(error)
        })?;
        Ok(read_document(path.display().to_string(), document))
    }

    /// Reads a set of references in JSON that lies behind a network, as [`Self::read_references`] does one of this machine.
    ///
    /// Errors: as there; `Absent`.
    pub fn read_remote_references(url: &StoreUrl, options: &StoreOptions) -> Result<(Self, References)> {
        let failed = |kind| Error::new(kind, format!("could not read the references {url}"));
        let name = url.name().unwrap_or_default();
        let mut text = Vec::new();
        if !Store::open(&url.parent(), options)?.get(&name, MAX_DOCUMENT_BYTES, &mut text)? {
            return Err(failed(ErrorKind::Absent));
        }
        let document = Json::parse(&text).map_err(|error| failed(ErrorKind::Corrupt).with_source(error))?;
        Ok(read_document(url.to_string(), document))
    }

    /// Opens a set of references in JSON, with what it leads to.
    ///
    /// Errors: `Unsupported` for rules that cannot be followed: without their references chunks would seem absent.
    pub(super) fn open_references(url: &StoreUrl, document: Json, options: &StoreOptions) -> Result<Self> {
        let (mut hierarchy, references) = read_document(url.to_string(), document);
        if let Some(why) = &references.ungenerated {
            let message = format!("could not read the references {url}: {why}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if let Some((count, first)) = &references.malformed {
            let message = format!("{count} entries are no references, such as {first}");
            hierarchy.malformed(Loss::Nothing, "/", message);
        }
        if matches!(url, StoreUrl::Remote { .. }) {
            hierarchy.container = Container::ObjectStore;
        }
        let document = Document::File(url.name().unwrap_or_default());
        let store =
            ReferenceStore::new(url.to_string(), url.parent(), (Box::new(references), document), options)?;
        hierarchy.store = Some(Store::References(Box::new(store)));
        Ok(hierarchy)
    }
}

fn read_document(url: String, document: Json) -> (Hierarchy, References) {
    let mut hierarchy = Hierarchy {
        url,
        store: None,
        kind: StoreKind::KerchunkJson,
        container: Container::File,
        consolidated: Consolidated::None,
        groups: Vec::new(),
        arrays: Vec::new(),
        defects: Vec::new(),
        unreadable: false,
        foreign: Foreign::default(),
    };
    let mut reader = Reader::default();
    match document {
        // one set a message of a GRIB file
        Json::Array(sets) => sets.into_iter().for_each(|set| reader.set(set)),
        set => reader.set(set),
    }
    let (v2, v3): (Vec<_>, Vec<_>) =
        reader.documents.into_iter().partition(|(key, _)| !key.ends_with("zarr.json"));
    for (key, document) in v3 {
        let path = key.strip_suffix("zarr.json").unwrap_or_default().trim_end_matches('/');
        hierarchy.add_v3(format!("/{path}"), document);
    }
    let metadata: Object = v2.into_iter().collect();
    if !metadata.is_empty() {
        let whole: Object = [("metadata".to_owned(), Json::Object(metadata))].into_iter().collect();
        consolidated::read_v2(&mut hierarchy, Json::Object(whole));
    }
    hierarchy.consolidated = Consolidated::None;
    for (node, name, why) in &reader.broken_documents {
        let path = format!("/{node}");
        hierarchy.malformed(loss_of(&path, name), &path, format!("`{name}`: {why}"));
    }
    hierarchy.note_implicit_groups();
    hierarchy.sort();
    (hierarchy, reader.found.finish())
}

impl Locate for References {
    fn locate(&self, key: &str) -> Result<Option<Located>> {
        if let Ok(at) = self.broken.binary_search_by(|(name, _)| name.as_str().cmp(key)) {
            let message = format!("could not read `{key}`: {}", self.broken[at].1);
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        Ok(Self::locate(self, key))
    }

    fn list(&self, prefix: &str, visit: &mut dyn FnMut(&str, &Located) -> ControlFlow<()>) -> Result<()> {
        let start = self.inline.partition_point(|(key, _)| key.as_str() < prefix);
        for (key, bytes) in self.inline[start..].iter().take_while(|(key, _)| key.starts_with(prefix)) {
            if visit(key, &Located::Inline(bytes.clone())).is_break() {
                return Ok(());
            }
        }
        let start = self.references.partition_point(|reference| reference.key.as_str() < prefix);
        let below = self.references[start..].iter().take_while(|reference| reference.key.starts_with(prefix));
        for Reference { key, target, range } in below {
            let Some(target) = self.targets.get(*target) else { continue };
            let located = Located::Elsewhere { url: target.url.clone(), range: *range };
            if visit(key, &located).is_break() {
                return Ok(());
            }
        }
        // what is broken is there, and reading it says so
        let start = self.broken.partition_point(|(key, _)| key.as_str() < prefix);
        for (key, _) in self.broken[start..].iter().take_while(|(key, _)| key.starts_with(prefix)) {
            if visit(key, &Located::Inline(vec![0])).is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Collects references.
#[derive(Default)]
struct Builder {
    references: References,
    /// The targets by their URL.
    targets: HashMap<String, usize>,
}

impl Builder {
    fn add(&mut self, key: String, located: Located) {
        let (url, range) = match located {
            Located::Inline(bytes) => return self.references.inline.push((key, bytes)),
            Located::Elsewhere { url, range } => (url, range),
        };
        let targets = &mut self.references.targets;
        let target = match self.targets.get(&url) {
            Some(&target) => target,
            None => {
                targets.push(ReferenceTarget { reach: reach(&url), url: url.clone(), end: 0, found: None });
                self.targets.insert(url, targets.len() - 1);
                targets.len() - 1
            }
        };
        let end = range.map_or(0, |(offset, length)| offset.saturating_add(length));
        targets[target].end = targets[target].end.max(end);
        self.references.references.push(Reference { key, target, range });
    }

    fn len(&self) -> usize {
        self.references.references.len() + self.references.inline.len()
    }

    /// Returns what was collected; of several references of one key the last one counts, as in a mapping.
    fn finish(self) -> References {
        let mut found = self.references;
        found.references.reverse();
        found.references.sort_by(|one, other| one.key.cmp(&other.key));
        found.references.dedup_by(|one, other| one.key == other.key);
        found.inline.reverse();
        found.inline.sort_by(|one, other| one.0.cmp(&other.0));
        found.inline.dedup_by(|one, other| one.0 == other.0);
        found.broken.sort();
        found.broken.dedup_by(|one, other| one.0 == other.0);
        found
    }
}

#[derive(Default)]
struct Reader {
    documents: BTreeMap<String, Json>,
    /// Documents that cannot be read: the node, the document's name, and why.
    broken_documents: Vec<(String, String, String)>,
    found: Builder,
    templates: Templates,
}

impl Reader {
    fn set(&mut self, document: Json) {
        let Json::Object(mut document) = document else { return self.malformed("a set that is no object") };
        self.templates = Templates::of(document.get("templates"));
        let rules = document.remove("gen");
        let references = match document.remove("refs") {
            Some(Json::Object(references)) => references,
            _ => document,
        };
        for (key, value) in references {
            self.entry(key, value);
        }
        let rules = rules.as_ref().and_then(Json::as_array).unwrap_or_default();
        for rule in rules {
            let found = &mut self.found;
            let generated = self.templates.generate(rule, |key, url, range| {
                found.add(key, Located::Elsewhere { url, range });
                found.len() <= GENERATED_MOST
            });
            if let Err(why) = generated {
                self.found.references.ungenerated.get_or_insert(why);
            }
        }
    }

    fn entry(&mut self, key: String, value: Json) {
        let name = key.rsplit('/').next().unwrap_or(&key);
        if DOCUMENTS.contains(&name) {
            let parsed = match value {
                Json::String(text) => unwrapped(&text)
                    .and_then(|text| Json::parse(&text).map_err(|error| format!("it is not JSON: {error}"))),
                other => Ok(other),
            };
            match parsed {
                Ok(document) => _ = self.documents.insert(key, document),
                Err(why) => {
                    let node = key.strip_suffix(name).unwrap_or_default().trim_end_matches('/');
                    self.broken_documents.push((node.to_owned(), name.to_owned(), why));
                }
            }
            return;
        }
        let located = match &value {
            Json::String(text) => unwrapped(text).map(Located::Inline),
            Json::Array(parts) => self.reference(parts),
            // version 1 has numbers beside `refs`
            _ if key == "version" => return,
            Json::Number(_) | Json::Null | Json::Bool(_) | Json::Object(_) => {
                Err("it is neither a text nor a list".to_owned())
            }
        };
        match located {
            Ok(located) => self.found.add(key, located),
            Err(why) => {
                self.malformed(&format!("`{key}`: {why}"));
                self.found.references.broken.push((key, why));
            }
        }
    }

    fn reference(&self, parts: &[Json]) -> Result<Located, String> {
        let url = parts.first().and_then(Json::as_str);
        let range = match parts {
            [_] => Some(None),
            [_, offset, length] => offset.as_integer().zip(length.as_integer()).map(Some),
            _ => None,
        };
        let (Some(url), Some(range)) = (url, range) else {
            return Err("it is no address with an offset and a length".to_owned());
        };
        Ok(Located::Elsewhere { url: self.templates.fill(url)?, range })
    }

    fn malformed(&mut self, what: &str) {
        let (count, _) = self.found.references.malformed.get_or_insert_with(|| (0, what.to_owned()));
        *count += 1;
    }
}

/// Returns the bytes of an inline value: text, or base64 behind a prefix.
fn unwrapped(text: &str) -> Result<Vec<u8>, String> {
    let Some(encoded) = text.strip_prefix("base64:") else { return Ok(text.as_bytes().to_vec()) };
    base64::engine::general_purpose::STANDARD
        .decode(encoded)
        .map_err(|error| format!("it is no base64: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: &str = r#"{\"zarr_format\":2,\"shape\":[4],\"chunks\":[2],\"dtype\":\"|u1\",\"fill_value\":0,\"compressor\":null,\"filters\":null,\"order\":\"C\"}"#;

    fn read(text: &str) -> (Hierarchy, References) {
        read_document("refs.json".to_owned(), Json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn both_versions_give_arrays_and_targets() {
        for text in [
            format!(
                r#"{{"version":1,"templates":{{"u":"s3://bucket/a.nc"}},"refs":{{".zgroup":"{{\"zarr_format\":2}}","a/.zarray":"{ARRAY}","a/0":["{{{{u}}}}",10,2],"a/1":"base64:AAE="}}}}"#
            ),
            format!(
                r#"{{".zgroup":"{{\"zarr_format\":2}}","a/.zarray":"{ARRAY}","a/0":["s3://bucket/a.nc",10,2],"a/1":"ab"}}"#
            ),
        ] {
            let (hierarchy, references) = read(&text);
            assert_eq!(hierarchy.arrays.len(), 1, "{:?}", hierarchy.defects);
            assert_eq!(
                (references.targets[0].url.as_str(), references.targets[0].end),
                ("s3://bucket/a.nc", 12)
            );
            assert_eq!(references.inline.len(), 1);
            assert_eq!(references.inline[0].1.len(), 2);
            let elsewhere = Located::Elsewhere { url: "s3://bucket/a.nc".to_owned(), range: Some((10, 2)) };
            assert_eq!(references.locate("a/0"), Some(elsewhere));
            assert_eq!(references.locate("a/1"), Some(Located::Inline(references.inline[0].1.clone())));
            assert_eq!(references.locate("a/2"), None);
            assert_eq!(references.malformed, None);
        }
    }

    #[test]
    fn an_entry_that_is_no_reference_is_corrupt_and_never_absent() {
        let references = read(r#"{"refs":{"a/0":[1,2],"a/1":["x",-1,2],"a/2":"base64:?","a/3":"b"}}"#).1;
        assert_eq!(references.malformed.as_ref().unwrap().0, 3);
        let located: &dyn Locate = &references;
        for key in ["a/0", "a/1", "a/2"] {
            assert_eq!(located.locate(key).unwrap_err().kind(), ErrorKind::Corrupt, "{key}");
        }
        assert!(located.locate("a/3").unwrap().is_some());
        assert_eq!(located.locate("a/4").unwrap(), None);
        let mut listed = 0;
        located
            .list("a/", &mut |_, _| {
                listed += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(listed, 4);
    }

    #[test]
    fn a_document_that_is_no_json_is_a_defect_of_its_node() {
        let (hierarchy, references) =
            read(r#"{"refs":{".zgroup":"{\"zarr_format\":2}","g/a/.zarray":"{","a/.zattrs":"base64:?"}}"#);
        let defects: Vec<_> =
            hierarchy.defects.iter().map(|defect| (defect.path.as_str(), defect.rule)).collect();
        assert_eq!(defects, [("/a", "malformed-metadata"), ("/g/a", "malformed-metadata")]);
        assert_eq!(references.malformed, None);
    }

    #[test]
    fn rules_generate_references() {
        let text = r#"{"version":1,"templates":{"u":"server.domain/path","f":"{{c}}"},
            "gen":[{"key":"gen_key{{i}}","url":"http://{{u}}_{{i}}","offset":"{{(i + 1) * 1000}}","length":"1000",
                "dimensions":{"i":{"stop":5}}}],
            "refs":{"key0":"data","key1":["http://target_url",10000,100],"key2":["http://{{u}}",10000,100],
                "key3":["http://{{f(c='text')}}",10000,100]}}"#;
        let references = read(text).1;
        let elsewhere = |url: &str, range| Some(Located::Elsewhere { url: url.to_owned(), range });
        assert_eq!(references.locate("key2"), elsewhere("http://server.domain/path", Some((10000, 100))));
        assert_eq!(references.locate("key3"), elsewhere("http://text", Some((10000, 100))));
        assert_eq!(
            references.locate("gen_key4"),
            elsewhere("http://server.domain/path_4", Some((5000, 1000)))
        );
        assert_eq!((references.references.len(), references.ungenerated), (8, None));
    }
}
