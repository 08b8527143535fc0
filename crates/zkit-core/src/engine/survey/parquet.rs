//! References in parquet: whether the files that hold them are there, and whole.
//!
//! Source: fsspec, `LazyReferenceMapper`: `.zmetadata` with `record_size`, and for each array the references of so many
//! chunks in `ARRAY/refs.N.parq`; the parquet format, "File format": `PAR1` at both ends, the footer's length before the
//! last.

use std::collections::{BTreeMap, BTreeSet};

use super::icechunk::Repository;
use crate::error::{Error, ErrorKind, Result};
use crate::grid::Grid;
use crate::metadata::Json;
use crate::store::{ObjectKind, Store, join};

/// Larger metadata is refused.
const METADATA_BYTES_MOST: u64 = 128 << 20;
/// Files that are looked into, at most.
const FILES_MOST: usize = 100_000;
/// The magic bytes twice, and the footer's length.
const LEAST_BYTES: u64 = 12;
const MAGIC: &[u8] = b"PAR1";

impl Repository {
    /// Looks for the files of references that `.zmetadata` promises, and at the ends of each.
    ///
    /// One listing, and two reads a file. Errors: those of the listing; `Absent` without `.zmetadata`.
    pub fn read_parquet_references(store: &Store) -> Result<Self> {
        let mut text = Vec::new();
        if !store.get(".zmetadata", METADATA_BYTES_MOST, &mut text)? {
            return Err(Error::new(ErrorKind::Absent, "could not read `.zmetadata`: it is gone"));
        }
        let mut found = Self::default();
        let document = Json::parse(&text).ok();
        let record_size = document.as_ref().and_then(|document| document.get("record_size")?.as_integer());
        let (Some(document), Some(record_size @ 1u64..)) = (document, record_size) else {
            let why = "its record_size is no number of chunks".to_owned();
            found.damaged.push((".zmetadata".to_owned(), why));
            return Ok(found);
        };
        let mut files: BTreeMap<String, BTreeMap<u64, u64>> = BTreeMap::new();
        store.list("", &mut |object| {
            let (folder, name) = object.key.rsplit_once('/').unwrap_or(("", object.key));
            let record = name.strip_prefix("refs.").and_then(|name| name.strip_suffix(".parq"));
            let record = record.and_then(|record| record.parse().ok());
            if let (Some(record), ObjectKind::Regular) = (record, object.kind) {
                files.entry(folder.to_owned()).or_default().insert(record, object.size);
            }
        })?;
        let metadata = document.get("metadata").and_then(Json::as_object);
        for (key, array) in metadata.into_iter().flat_map(|metadata| metadata.iter()) {
            let Some(prefix) = key.strip_suffix("/.zarray") else { continue };
            let Some(chunks) = chunks_of(array) else { continue };
            let present: BTreeSet<u64> =
                files.get(prefix).into_iter().flatten().map(|file| *file.0).collect();
            let promised = chunks.div_ceil(record_size);
            if let Some(absent) = (0..promised).find(|record| !present.contains(record)) {
                let file = join(prefix, &format!("refs.{absent}.parq"));
                found.absent_manifests.insert(file, format!("/{prefix}"));
            }
        }
        let files = files.iter().flat_map(|(folder, files)| {
            files.iter().map(move |(record, size)| (join(folder, &format!("refs.{record}.parq")), *size))
        });
        for (key, size) in files {
            if found.objects >= FILES_MOST as u64 {
                found.unread = Some(format!("more than {FILES_MOST} files of references"));
                break;
            }
            found.objects += 1;
            match broken(store, &key, size) {
                Ok(Some(why)) => found.damaged.push((key, why)),
                Ok(None) => {}
                Err(error) => _ = found.unread.get_or_insert_with(|| error.one_line()),
            }
        }
        Ok(found)
    }
}

/// Returns how many chunks an array has that must have references; `None` for scalars, which often have no value.
fn chunks_of(array: &Json) -> Option<u64> {
    let lengths = |key: &str| -> Option<Vec<u64>> {
        array.get(key)?.as_array()?.iter().map(Json::as_integer).collect()
    };
    let (shape, chunks) = (lengths("shape")?, lengths("chunks")?);
    let grid = Grid::regular(&shape, &chunks).ok()?;
    grid.total().filter(|_| !shape.is_empty())
}

/// Returns why a file is no whole parquet file, if so.
fn broken(store: &Store, key: &str, size: u64) -> Result<Option<String>> {
    if size < LEAST_BYTES {
        return Ok(Some(format!("{size} bytes, an empty parquet file has {LEAST_BYTES}")));
    }
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    if store.get_range(key, 0, 4, &mut head)?.is_none() || store.get_suffix(key, 8, &mut tail)?.is_none() {
        return Ok(None);
    }
    if head != MAGIC {
        return Ok(Some("it does not begin like a parquet file".to_owned()));
    }
    let footer = tail.strip_suffix(MAGIC).and_then(<[u8]>::first_chunk::<4>);
    let Some(footer) = footer.map(|footer| u64::from(u32::from_le_bytes(*footer))) else {
        return Ok(Some(format!("it is cut off after {size} bytes: it does not end like a parquet file")));
    };
    let most = size - LEAST_BYTES;
    Ok((footer > most).then(|| format!("its footer is said to have {footer} bytes, {most} are there")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::StoreUrl;
    use crate::store::StoreOptions;

    /// What is seen of an array of five chunks, with the references of two chunks in each file.
    fn read(files: &[(&str, &[u8])]) -> Repository {
        let folder = tempfile::tempdir().unwrap();
        let metadata = r#"{"record_size":2,"metadata":{".zgroup":{"zarr_format":2},
            "crs/.zarray":{"shape":[],"chunks":[]},"g/a/.zarray":{"shape":[10],"chunks":[2]}}}"#;
        std::fs::write(folder.path().join(".zmetadata"), metadata).unwrap();
        std::fs::create_dir_all(folder.path().join("g/a")).unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join("g/a").join(name), bytes).unwrap();
        }
        let url = StoreUrl::Local(folder.path().to_owned());
        Repository::read_parquet_references(&Store::open(&url, &StoreOptions::default()).unwrap()).unwrap()
    }

    const WHOLE: &[u8] = b"PAR1abcd\x02\0\0\0PAR1";

    #[test]
    fn files_that_the_grid_promises_must_be_there() {
        let whole = read(&[("refs.0.parq", WHOLE), ("refs.1.parq", WHOLE), ("refs.2.parq", WHOLE)]);
        assert_eq!(whole, Repository { objects: 3, ..Repository::default() });
        let gone = read(&[("refs.0.parq", WHOLE), ("refs.2.parq", WHOLE)]);
        assert_eq!(gone.absent_manifests, [("g/a/refs.1.parq".to_owned(), "/g/a".to_owned())].into());
        assert_eq!(read(&[]).absent_manifests.keys().collect::<Vec<_>>(), ["g/a/refs.0.parq"]);
    }

    #[test]
    fn files_must_be_whole() {
        let found = read(&[
            ("refs.0.parq", &WHOLE[..10]),
            ("refs.1.parq", &[WHOLE, b"x"].concat()),
            ("refs.2.parq", b"PAR1abcd\x05\0\0\0PAR1"),
        ]);
        let keys: Vec<_> = found.damaged.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["g/a/refs.0.parq", "g/a/refs.1.parq", "g/a/refs.2.parq"]);
    }
}
