//! Telling stores of other kinds from empty Zarr stores.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::node::{Container, StoreKind};
use super::open::MAX_DOCUMENT_BYTES;
use super::other_formats;
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::Json;
use crate::store::{ChildKind, Store};

/// What a single file is.
#[derive(Debug)]
pub(super) struct Classified {
    pub(super) kind: StoreKind,
    pub(super) container: Container,
    pub(super) note: Option<(&'static str, String)>,
    /// The document, if it is a set of references in JSON.
    pub(super) references: Option<Json>,
}

/// Returns whether a file begins as zip files do.
pub(super) fn is_zip(path: &Path) -> Result<bool> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4).read_to_end(&mut head));
    read.map_err(|error| {
        Error::new(ErrorKind::Unreadable, format!("could not read {}", path.display())).with_source(error)
    })?;
    Ok(head == b"PK\x03\x04" || head == b"PK\x05\x06")
}

/// Looks at the content of a file that is no zip file.
pub(super) fn file(path: &Path) -> Result<Classified> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Unreadable, format!("could not read {}", path.display())).with_source(error)
    };
    let mut file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut head = Vec::new();
    file.by_ref().take(other_formats::HEAD_BYTES).read_to_end(&mut head).map_err(failed)?;
    let unknown = |container, rule, message: &str| Classified {
        kind: StoreKind::Unknown,
        container,
        note: Some((rule, message.to_owned())),
        references: None,
    };
    if head.is_empty() {
        return Ok(unknown(Container::File, "empty-store", "an empty file"));
    }
    if head.starts_with(b"version https://git-lfs") {
        let message = "a pointer of git-lfs, not the store itself; fetch the data first";
        return Ok(unknown(Container::File, "pointer-file", message));
    }
    if path.extension().is_some_and(|extension| extension == "dvc") {
        let message = "a sidecar of DVC, which names data that is kept elsewhere; fetch the data first";
        return Ok(unknown(Container::File, "pointer-file", message));
    }
    if matches!(head.trim_ascii_start().first(), Some(b'{' | b'[')) && size <= MAX_DOCUMENT_BYTES {
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut text = Vec::new();
        file.take(MAX_DOCUMENT_BYTES).read_to_end(&mut text).map_err(failed)?;
        if let Ok(document) = Json::parse(&text)
            && is_kerchunk_json(&document)
        {
            return Ok(Classified {
                kind: StoreKind::KerchunkJson,
                container: Container::File,
                note: None,
                references: Some(document),
            });
        }
    }
    if let Some(error) = other_formats::refused(path, &head) {
        return Err(error);
    }
    Ok(unknown(
        Container::File,
        "not-zarr",
        "a file of no kind that zkit knows; a Zarr store is a directory or a zip file",
    ))
}

/// Source: kerchunk's specification, "References"; versions 0 (a flat object) and 1 (`refs`). `scan_grib` writes a
/// list of them, one a message.
pub(super) fn is_kerchunk_json(document: &Json) -> bool {
    if let Some(sets) = document.as_array() {
        return !sets.is_empty() && sets.iter().all(|set| set.as_object().is_some() && is_kerchunk_json(set));
    }
    let Some(object) = document.as_object() else { return false };
    if object.get("refs").and_then(Json::as_object).is_some() {
        return true;
    }
    object.iter().any(|(key, value)| {
        let reference =
            value.as_array().is_some_and(|parts| matches!(parts.len(), 1 | 3) && parts[0].as_str().is_some());
        reference
            || (value.as_str().is_some()
                && key
                    .rsplit('/')
                    .next()
                    .is_some_and(|name| matches!(name, ".zgroup" | ".zarray" | ".zattrs")))
    })
}

/// Source: fsspec's `LazyReferenceMapper`: a `.zmetadata` with a record size beside `refs.N.parq`.
pub(super) fn is_kerchunk_parquet(document: &Json) -> bool {
    document.get("record_size").is_some()
}

/// The draft of 2020-2022 put everything below `meta/root` and `data/root`.
pub(super) fn is_v3_draft(document: &Json) -> bool {
    document.get("metadata_key_suffix").is_some()
        || document.get("zarr_format").and_then(Json::as_str).is_some()
}

/// Looks at a directory without Zarr metadata; `None` if it is of no known kind.
pub(super) fn directory(store: &Store) -> Result<Option<StoreKind>> {
    let children = match store.children("") {
        Ok(children) => children,
        // a web server cannot list
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
        Err(error) => return Err(error),
    };
    let has = |name: &str| children.iter().any(|child| child.name == name);
    let has_directory =
        |name: &str| children.iter().any(|child| child.name == name && child.kind == ChildKind::Directory);
    if has_directory("snapshots") && (has_directory("refs") || has("repo")) {
        return Ok(Some(StoreKind::Icechunk));
    }
    Ok(has_n5_attributes(store, &children)?.then_some(StoreKind::N5))
}

/// N5 keeps `attributes.json` in each dataset and, from version 1 on, `n5` in the root's.
fn has_n5_attributes(store: &Store, children: &[crate::store::Child]) -> Result<bool> {
    let directories = children.iter().filter(|child| child.kind == ChildKind::Directory).take(64);
    let keys: Vec<String> = std::iter::once("attributes.json".to_owned())
        .chain(directories.map(|child| format!("{}/attributes.json", child.name)))
        .collect();
    for (at, fetched) in store.get_many(&keys, 1 << 20).into_iter().enumerate() {
        let text = match fetched {
            Ok(Some(text)) => text,
            // a folder that cannot be looked into says nothing of those beside it
            Err(error) if at == 0 || error.kind() == ErrorKind::Cancelled => return Err(error),
            Ok(None) | Err(_) => continue,
        };
        let Ok(document) = Json::parse(&text) else { continue };
        if document.get("n5").is_some()
            || (document.get("dimensions").is_some() && document.get("blockSize").is_some())
        {
            return Ok(true);
        }
    }
    Ok(false)
}
