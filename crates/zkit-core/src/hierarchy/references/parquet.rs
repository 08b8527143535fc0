//! kerchunk references in parquet: one file holds the references of so many chunks of one array, and is read when one of
//! them is asked for.
//!
//! Source: fsspec, `LazyReferenceMapper`: `.zmetadata` with `metadata` and `record_size`; `ARRAY/refs.N.parq` with the
//! columns `path`, `offset`, `size` and `raw`, a row for each chunk in C order.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row};

use super::{Builder, References};
use crate::error::{Error, ErrorKind, Result};
use crate::hierarchy::consolidated;
use crate::hierarchy::foreign::Foreign;
use crate::hierarchy::node::{ArrayNode, Consolidated, Container, Hierarchy, StoreKind};
use crate::hierarchy::open::MAX_DOCUMENT_BYTES;
use crate::location::StoreUrl;
use crate::metadata::{Json, Loss};
use crate::store::{Document, Locate, Located, ReferenceStore, Store, StoreOptions, join};

/// Files of references that are larger are refused, and so are those that claim to decode to more than the second number.
const FILE_BYTES_MOST: (u64, u64) = (64 << 20, 512 << 20);
/// Rows of one file, at most.
const ROWS_MOST: u64 = 10_000_000;
/// Rows and files that are kept after they were read.
const ROWS_KEPT: usize = 1_000_000;
const FILES_KEPT: usize = 4_096;
/// Arrays whose references are not all known, by path; of damaged files the key and why, `None` where one is gone.
pub type Lacking = BTreeMap<String, Option<(String, String)>>;

/// References that [`ParquetReferences::read_all`] collects, at most.
const REFERENCES_MOST: usize = 20_000_000;

/// Where references in parquet lie: nothing of them is read before it is asked for.
#[derive(Debug)]
pub struct ParquetReferences {
    store: Store,
    /// How many chunks one file tells of.
    record_size: u64,
}

/// The file that tells of a chunk, and which of its rows does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The key of the file.
    pub key: String,
    /// The row.
    pub row: u64,
}

impl Hierarchy {
    /// Reads the metadata of references in parquet: the hierarchy that it describes, without a store, and where the
    /// references lie.
    ///
    /// One read. Errors: `Absent` without `.zmetadata`; `Corrupt` where it is no JSON or has no `record_size`.
    pub fn read_parquet_references(url: &StoreUrl, store: Store) -> Result<(Self, ParquetReferences)> {
        let failed =
            |kind, why: String| Error::new(kind, format!("could not read `.zmetadata` of {url}: {why}"));
        let mut text = Vec::new();
        if !store.get(".zmetadata", MAX_DOCUMENT_BYTES, &mut text)? {
            return Err(failed(ErrorKind::Absent, "it is gone".to_owned()));
        }
        let document =
            Json::parse(&text).map_err(|error| failed(ErrorKind::Corrupt, format!("no JSON: {error}")))?;
        let Some(record_size @ 1..) = document.get("record_size").and_then(Json::as_integer::<u64>) else {
            return Err(failed(ErrorKind::Corrupt, "its record_size is no number of chunks".to_owned()));
        };
        let mut hierarchy = Self {
            url: url.to_string(),
            store: None,
            kind: StoreKind::KerchunkParquet,
            container: Container::Directory,
            consolidated: Consolidated::None,
            groups: Vec::new(),
            arrays: Vec::new(),
            defects: Vec::new(),
            unreadable: false,
            foreign: Foreign::default(),
        };
        consolidated::read_v2(&mut hierarchy, document);
        hierarchy.consolidated = Consolidated::None;
        hierarchy.note_implicit_groups();
        hierarchy.sort();
        Ok((hierarchy, ParquetReferences { store, record_size }))
    }

    /// Opens references in parquet, with what they lead to; where the metadata is damaged, that is a defect.
    pub(in crate::hierarchy) fn open_parquet_references(
        url: &StoreUrl,
        store: Store,
        options: &StoreOptions,
    ) -> Result<Self> {
        let container = if store.is_remote() { Container::ObjectStore } else { Container::Directory };
        let (mut hierarchy, references) = match Self::read_parquet_references(url, store) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let mut hierarchy = Self::without_store(url, StoreKind::KerchunkParquet, container);
                hierarchy.malformed(Loss::Node, "/", error.one_line());
                return Ok(hierarchy);
            }
            Err(error) => return Err(error),
        };
        hierarchy.container = container;
        let arrays = hierarchy.arrays.iter().map(|array| (array.prefix().to_owned(), array.clone()));
        let located = ParquetIndex { arrays: arrays.collect(), references, read: Mutex::default() };
        let store = ReferenceStore::new(
            url.to_string(),
            url.parent(),
            (Box::new(located), Document::Files),
            options,
        )?;
        hierarchy.store = Some(Store::References(Box::new(store)));
        Ok(hierarchy)
    }
}

/// What the chunks of these arrays lead to; files of references are kept when they were read.
#[derive(Debug)]
struct ParquetIndex {
    /// By prefix.
    arrays: BTreeMap<String, ArrayNode>,
    references: ParquetReferences,
    read: Mutex<HashMap<String, Rows>>,
}

/// What the chunks of one file lead to; `None` where there is no file: fsspec writes none for absent chunks alone.
type Rows = Option<Arc<Vec<Option<Located>>>>;

impl ParquetIndex {
    fn rows(&self, key: &str) -> Result<Rows> {
        let lock = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = lock().get(key) {
            return Ok(rows.clone());
        }
        let rows = self.references.read_record(key)?.map(Arc::new);
        let mut read = lock();
        let kept: usize = read.values().flatten().map(|rows| rows.len()).sum();
        if kept > ROWS_KEPT || read.len() > FILES_KEPT {
            read.clear();
        }
        read.insert(key.to_owned(), rows.clone());
        Ok(rows)
    }

    /// Returns the array that a key belongs to, and the rest of the key.
    fn array_of<'k>(&self, key: &'k str) -> Option<(&ArrayNode, &'k str)> {
        if let Some(root) = self.arrays.get("") {
            return Some((root, key));
        }
        let mut ends = key.match_indices('/').map(|(at, _)| at);
        ends.find_map(|end| Some((self.arrays.get(&key[..end])?, &key[end + 1..])))
    }

    /// Visits the chunks of one file.
    fn list_file(
        &self,
        array: &ArrayNode,
        file: u64,
        visit: &mut dyn FnMut(&str, &Located) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let total = array.metadata.grid.total().unwrap_or(u64::MAX);
        let Some(first) = file.checked_mul(self.references.record_size) else {
            return Ok(ControlFlow::Continue(()));
        };
        let Some(rows) = self.rows(&self.references.record_of(array, first).key)? else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut key = String::new();
        for (position, located) in (first..total).zip(rows.iter()) {
            let Some(located) = located else { continue };
            array.chunk_key(&array.metadata.grid.index_at(position), &mut key);
            if visit(&key, located).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Locate for ParquetIndex {
    fn locate(&self, key: &str) -> Result<Option<Located>> {
        let position = || {
            let (array, rest) = self.array_of(key)?;
            let grid = &array.metadata.grid;
            let index = array.metadata.chunk_keys.parse_key(rest, grid.counts().len())?;
            Some((array, grid.position_of(&index)?))
        };
        let Some((array, position)) = position() else { return Ok(None) };
        let record = self.references.record_of(array, position);
        let Some(rows) = self.rows(&record.key)? else { return Ok(None) };
        Ok(usize::try_from(record.row).ok().and_then(|row| rows.get(row)?.clone()))
    }

    fn list(&self, prefix: &str, visit: &mut dyn FnMut(&str, &Located) -> ControlFlow<()>) -> Result<()> {
        for array in self.arrays.values() {
            let own = join(array.prefix(), "");
            let within = own.starts_with(prefix);
            if !within && !prefix.starts_with(&own) {
                continue;
            }
            // the files that there are: an array may claim more than anybody has
            for child in self.references.store.children(array.prefix())? {
                let number = child.name.strip_prefix("refs.").and_then(|name| name.strip_suffix(".parq"));
                let Some(file) = number.and_then(|number| number.parse().ok()) else { continue };
                let mut below = |key: &str, located: &Located| match within || key.starts_with(prefix) {
                    true => visit(key, located),
                    false => ControlFlow::Continue(()),
                };
                if self.list_file(array, file, &mut below)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl ParquetReferences {
    /// Returns which file tells of the chunk at a position of the grid of `array`, in C order.
    pub fn record_of(&self, array: &ArrayNode, position: u64) -> Record {
        let file = format!("refs.{}.parq", position / self.record_size);
        Record { key: join(array.prefix(), &file), row: position % self.record_size }
    }

    /// Reads one file: what each of its chunks leads to, `None` for those that are absent; `None` if there is no file.
    ///
    /// One read; memory: the file, decoded. Errors: `Corrupt` where it is no such file, `OverBudget` where it is too large.
    pub fn read_record(&self, key: &str) -> Result<Option<Vec<Option<Located>>>> {
        let mut bytes = Vec::new();
        if !self.store.get(key, FILE_BYTES_MOST.0, &mut bytes)? {
            return Ok(None);
        }
        let rows = self.record_size.min(ROWS_MOST);
        // the reader is not made for files that nobody vouches for
        let read = contained(|| rows_of(bytes.into(), rows));
        let read = read.unwrap_or_else(|_| Err("the reader of parquet gave up on it".to_owned()));
        read.map(Some).map_err(|why| {
            let message = format!("could not read `{key}` of {}: {why}", self.store.place());
            Error::new(ErrorKind::Corrupt, message)
        })
    }

    /// Reads the files of these arrays, and collects all that they say; of arrays whose files are damaged or gone, nothing
    /// is said: those are returned by path, with the key of a damaged file and what is wrong with it.
    ///
    /// One read a file. Memory: all references. Errors: `Unreadable`; `OverBudget` for more than twenty million.
    pub fn read_all(&self, arrays: &[&ArrayNode]) -> Result<(References, Lacking)> {
        let mut collected = Builder::default();
        let mut lacking = Lacking::new();
        let mut key = String::new();
        for array in arrays {
            let total = array.metadata.grid.total().unwrap_or(u64::MAX);
            for file in 0..total.div_ceil(self.record_size) {
                let first = file * self.record_size;
                let record = self.record_of(array, first).key;
                // nothing is said of the chunks of such a file, nor of others of an array that claims more files than
                // anybody has
                let read = match self.read_record(&record) {
                    Ok(Some(rows)) => Ok(rows),
                    Err(error) if error.kind() == ErrorKind::Unreadable => return Err(error),
                    Ok(None) => Err(None),
                    Err(error) => Err(Some((record, error.one_line()))),
                };
                let rows = match read {
                    Ok(rows) => rows,
                    Err(damage) => {
                        lacking.insert(array.path.clone(), damage);
                        break;
                    }
                };
                for (row, located) in (first..total).zip(rows) {
                    let Some(located) = located else { continue };
                    array.chunk_key(&array.metadata.grid.index_at(row), &mut key);
                    collected.add(key.clone(), located);
                }
                if collected.len() > REFERENCES_MOST {
                    let message =
                        format!("could not read the references: there are more than {REFERENCES_MOST}");
                    return Err(Error::new(ErrorKind::OverBudget, message));
                }
            }
        }
        Ok((collected.finish(), lacking))
    }
}

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether a panic of this thread is one of the reader of parquet, which becomes an error of its file: whoever
/// reports panics has nothing to say of it.
pub fn panics_are_contained() -> bool {
    CONTAINED.get()
}

/// Runs the reader of parquet; an error where it panics.
fn contained<T>(read: impl FnOnce() -> T) -> std::thread::Result<T> {
    CONTAINED.set(true);
    let read = catch_unwind(AssertUnwindSafe(read));
    CONTAINED.set(false);
    read
}

/// Returns what the rows of a file lead to.
fn rows_of(bytes: Bytes, most: u64) -> Result<Vec<Option<Located>>, String> {
    let file = SerializedFileReader::new(bytes).map_err(|error| error.to_string())?;
    let metadata = file.metadata();
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(u64::MAX);
    if rows > most {
        return Err(format!("it says that it has {rows} rows, {most} are the most"));
    }
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let decoded = columns
        .map(|column| u64::try_from(column.uncompressed_size()).unwrap_or(u64::MAX))
        .fold(0, u64::saturating_add);
    if decoded > FILE_BYTES_MOST.1 {
        return Err(format!("it says that it decodes to {decoded} bytes"));
    }
    let mut found = Vec::new();
    for row in file.get_row_iter(None).map_err(|error| error.to_string())? {
        let row = row.map_err(|error| error.to_string())?;
        if found.len() as u64 >= most {
            return Err(format!("it has more than {most} rows"));
        }
        found.push(located(&row)?);
    }
    Ok(found)
}

/// Returns what a row leads to. Source: fsspec, `LazyReferenceMapper._load_one_key`: bytes come first; a path with neither
/// offset nor size is a whole file; no path is no chunk.
fn located(row: &Row) -> Result<Option<Located>, String> {
    let (mut url, mut offset, mut size) = (None, 0, 0);
    for (name, field) in row.get_column_iter() {
        match name.as_str() {
            "raw" => match field {
                Field::Bytes(bytes) => return Ok(Some(Located::Inline(bytes.data().to_vec()))),
                Field::Str(text) => return Ok(Some(Located::Inline(text.as_bytes().to_vec()))),
                _ => {}
            },
            "path" => {
                url = match field {
                    Field::Str(text) => Some(text.clone()),
                    Field::Bytes(bytes) => Some(String::from_utf8_lossy(bytes.data()).into_owned()),
                    _ => None,
                }
            }
            "offset" => offset = whole(field)?,
            "size" => size = whole(field)?,
            _ => {}
        }
    }
    let Some(url) = url.filter(|url| !url.is_empty()) else { return Ok(None) };
    Ok(Some(Located::Elsewhere { url, range: ((offset, size) != (0, 0)).then_some((offset, size)) }))
}

/// Returns an offset or a size; 0 where there is none.
fn whole(field: &Field) -> Result<u64, String> {
    let wide = match field {
        Field::Null => return Ok(0),
        Field::Int(number) => i64::from(*number),
        Field::Long(number) => *number,
        Field::UInt(number) => i64::from(*number),
        Field::ULong(number) => return Ok(*number),
        other => return Err(format!("found {other} where an offset or a size should be")),
    };
    u64::try_from(wide).map_err(|_| format!("found {wide} where an offset or a size should be"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn fixture(folder: &Path) -> (Hierarchy, ParquetReferences) {
        let url = StoreUrl::Local(folder.to_owned());
        let store = Store::open(&url, &StoreOptions::default()).unwrap();
        Hierarchy::read_parquet_references(&url, store).unwrap()
    }

    fn root() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/air.kerchunk.parq")
    }

    #[test]
    fn rows_are_what_chunks_lead_to() {
        let (hierarchy, references) = fixture(&root());
        let level = hierarchy.array("/level").unwrap();
        let record = references.record_of(level, 5);
        assert_eq!(record, Record { key: "level/refs.1.parq".to_owned(), row: 1 });
        let elsewhere = |url: &str, range| Some(Located::Elsewhere { url: url.to_owned(), range });
        let first = references.read_record("level/refs.0.parq").unwrap().unwrap();
        let inline = Some(Located::Inline((0..8).collect()));
        assert_eq!(
            first[..4],
            [elsewhere("air.nc", Some((10, 8))), elsewhere("air.nc", Some((18, 8))), inline, None]
        );
        let second = references.read_record(&record.key).unwrap().unwrap();
        let expected = [elsewhere("whole.bin", None), elsewhere("ftp://example.org/far.nc", Some((100, 8)))];
        assert_eq!(second[..2], expected);
        assert_eq!(references.read_record("level/refs.2.parq").unwrap(), None);
    }

    #[test]
    fn all_of_them_are_found_by_key() {
        let (hierarchy, references) = fixture(&root());
        let arrays: Vec<&ArrayNode> = hierarchy.arrays.iter().collect();
        let (all, lacking) = references.read_all(&arrays).unwrap();
        assert!(lacking.is_empty(), "{lacking:?}");
        assert_eq!(all.references.len(), 5);
        assert_eq!(all.locate("level/2"), Some(Located::Inline((0..8).collect())));
        assert_eq!(all.locate("level/3"), None);
        let expected = Located::Elsewhere { url: "air.nc".to_owned(), range: Some((15419, 57288)) };
        assert_eq!(all.locate("air/0.0.0"), Some(expected));
    }

    #[test]
    fn a_file_at_which_the_reader_panics_is_corrupt() {
        // found by fuzzing: more levels are asked for than the page has bytes
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(".zmetadata"), r#"{"record_size":4,"metadata":{}}"#).unwrap();
        std::fs::write(folder.path().join("refs.0.parq"), include_bytes!("level_counts.parq")).unwrap();
        let (_, references) = fixture(folder.path());
        let bytes = Bytes::from_static(include_bytes!("level_counts.parq"));
        let read = contained(|| {
            assert!(panics_are_contained());
            rows_of(bytes, 4)
        });
        assert!(read.is_err() && !panics_are_contained());
        assert_eq!(references.read_record("refs.0.parq").unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_file_that_is_cut_off_or_altered_is_corrupt_and_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::read(root().join("level/refs.0.parq")).unwrap();
        std::fs::copy(root().join(".zmetadata"), folder.path().join(".zmetadata")).unwrap();
        std::fs::create_dir(folder.path().join("level")).unwrap();
        let path = folder.path().join("level/refs.0.parq");
        let (hierarchy, references) = fixture(folder.path());
        for length in [0, 4, 11, file.len() / 2, file.len() - 1] {
            std::fs::write(&path, &file[..length]).unwrap();
            let error = references.read_record("level/refs.0.parq").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{length}");
        }
        let level = hierarchy.array("/level").unwrap();
        let (all, lacking) = references.read_all(&[level]).unwrap();
        assert_eq!((all.references.len(), lacking.len()), (0, 1));
    }
}
