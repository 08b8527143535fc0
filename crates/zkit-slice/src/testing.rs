//! Small stores for tests, and what a slice of them holds, read in the plainest way.

use clap::Parser;
use zkit_cli::values::{ArrayFilter, ArrayGlob};
use zkit_core::cancel::Cancel;
use zkit_core::engine::Resources;
use zkit_core::error::Result;
use zkit_core::event::Silent;
use zkit_core::grid::{Region, for_each_index};
use zkit_core::hierarchy::ArrayNode;
use zkit_core::metadata::DataType;
use zkit_core::plan::{ABSENT, Pick};
use zkit_core::read::ArrayReader;
use zkit_core::store::{Store, StoreOptions};

use crate::args::SliceArgs;
use crate::coordinates::Means;
use crate::scene::{Prepared, Slice, prepare};
use crate::sources::{self, Source, Wanted};

/// A v2 store in a folder of its own; one chunk an array, no compressor.
pub(crate) struct TestStore {
    folder: tempfile::TempDir,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }.group("")
    }

    pub(crate) fn path(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    fn file(&self, key: &str, bytes: &[u8]) {
        let path = self.folder.path().join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn group(self, path: &str) -> Self {
        self.file(format!("{path}/.zgroup").trim_start_matches('/'), br#"{"zarr_format": 2}"#);
        self
    }

    /// Adds an array of int64; without names its dimensions have none.
    pub(crate) fn ints(self, path: &str, names: &[&str], shape: &[u64], values: &[i64]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.array(path, names, shape, "<i8", "null", bytes)
    }

    /// Adds an array of int32.
    pub(crate) fn narrow(self, path: &str, names: &[&str], shape: &[u64], values: &[i32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.array(path, names, shape, "<i4", "null", bytes)
    }

    /// Adds an array of float64, missing ones NaN.
    pub(crate) fn floats(self, path: &str, names: &[&str], shape: &[u64], values: &[f64]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.array(path, names, shape, "<f8", "\"NaN\"", bytes)
    }

    fn array(
        self,
        path: &str,
        names: &[&str],
        shape: &[u64],
        dtype: &str,
        fill: &str,
        bytes: Vec<u8>,
    ) -> Self {
        let zarray = format!(
            r#"{{"zarr_format": 2, "shape": {shape:?}, "chunks": {shape:?}, "dtype": "{dtype}", "fill_value": {fill},
                "order": "C", "filters": null, "compressor": null}}"#
        );
        self.file(&format!("{path}/.zarray"), zarray.as_bytes());
        let key = if shape.is_empty() { "0".to_owned() } else { vec!["0"; shape.len()].join(".") };
        self.file(&format!("{path}/{key}"), &bytes);
        if names.is_empty() && !shape.is_empty() {
            return self;
        }
        self.attributes_of(path, names, "{}")
    }

    /// Gives an array of dimension x, or the root, attributes.
    pub(crate) fn attributes(self, path: &str, attributes: &str) -> Self {
        let text = std::fs::read_to_string(self.folder.path().join(path).join(".zattrs")).unwrap_or_default();
        let known: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let names: Vec<&str> = known["_ARRAY_DIMENSIONS"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str())
            .collect();
        if path.is_empty() {
            self.file(".zattrs", attributes.as_bytes());
            return self;
        }
        self.attributes_of(path, &names, attributes)
    }

    fn attributes_of(self, path: &str, names: &[&str], attributes: &str) -> Self {
        let mut all: serde_json::Value = serde_json::from_str(attributes).unwrap();
        all["_ARRAY_DIMENSIONS"] = names.into();
        self.file(&format!("{path}/.zattrs"), all.to_string().as_bytes());
        self
    }

    /// Opens it with globs of --include and --exclude.
    pub(crate) fn open(&self, include: &[&str], exclude: &[&str]) -> Result<Vec<Source>> {
        let globs =
            |globs: &[&str]| -> Vec<ArrayGlob> { globs.iter().map(|glob| glob.parse().unwrap()).collect() };
        let filter = ArrayFilter::new(globs(include), globs(exclude));
        let wanted = Wanted { filter: &filter, concat: None };
        sources::open(&[vec![self.path().to_owned()]], wanted, &StoreOptions::default())
    }
}

/// Returns the paths of the arrays that are taken.
pub(crate) fn names(source: &Source) -> Vec<&str> {
    source.taken.iter().map(|&at| source.array(at).path.as_str()).collect()
}

/// Opens sets of stores.
pub(crate) fn open_sets(sets: &[&[&TestStore]]) -> Vec<Source> {
    let paths: Vec<Vec<String>> =
        sets.iter().map(|set| set.iter().map(|store| store.path().to_owned()).collect()).collect();
    let filter = ArrayFilter::default();
    sources::open(&paths, Wanted { filter: &filter, concat: None }, &StoreOptions::default()).unwrap()
}

/// Does work with all that reading needs.
pub(crate) fn with_means<R>(work: impl FnOnce(Means<'_>) -> R) -> R {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let (observer, cancel) = (Silent::default(), Cancel::default());
    let resources = Resources { memory_bytes: 64 << 20, jobs: 2 };
    work(Means { pool: &pool, resources, observer: &observer, cancel: &cancel })
}

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: SliceArgs,
}

/// Prepares the slices of a command line: `{0}`, `{1}` stand for the stores.
pub(crate) fn slice(stores: &[&TestStore], line: &str) -> Result<Prepared> {
    let mut words = vec!["slice".to_owned(), "--to".to_owned(), "unwritten.zarr".to_owned()];
    for word in line.split(' ') {
        let at = word
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .and_then(|at| at.parse::<usize>().ok());
        words.push(at.map_or_else(|| word.to_owned(), |at| stores[at].path().to_owned()));
    }
    let args = Line::try_parse_from(words).unwrap().args;
    with_means(|means| prepare(&args, &StoreOptions::default(), means))
}

/// One array of a slice: dimensions, shape, numbers in C order; `None` where a gather takes nothing, and for NaN.
#[derive(Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) dimensions: Vec<String>,
    pub(crate) shape: Vec<u64>,
    pub(crate) values: Vec<Option<f64>>,
}

impl Held {
    pub(crate) fn new(dimensions: &[&str], shape: &[u64], values: &[f64]) -> Self {
        Self {
            dimensions: dimensions.iter().map(|&name| name.to_owned()).collect(),
            shape: shape.to_vec(),
            values: values.iter().map(|&value| Some(value).filter(|value| !value.is_nan())).collect(),
        }
    }
}

/// Returns what an array of a slice holds, element by element.
pub(crate) fn held(prepared: &Prepared, slice: &Slice, path: &str) -> Held {
    let array = slice.arrays.iter().find(|array| array.path == path).unwrap();
    let gathered = &array.gathered;
    let elements: u64 = gathered.shape.iter().product();
    let mut values: Vec<Option<Option<f64>>> = vec![None; usize::try_from(elements).unwrap()];
    for (number, part) in gathered.parts.iter().enumerate() {
        let store = match prepared.sources.get(part.store) {
            Some(source) => source.store().unwrap(),
            None => &prepared.literals,
        };
        let source = numbers(store, &part.array);
        // what one part fills: its positions along the joined axis, all along others
        let mut ranges: Vec<std::ops::Range<u64>> = gathered.shape.iter().map(|&length| 0..length).collect();
        if let Some(joined) = &gathered.joined {
            ranges[joined.axis] = 0..joined.positions[number].len() as u64;
        }
        for_each_index(&ranges, |index| {
            let mut at = index.to_vec();
            if let Some(joined) = &gathered.joined {
                at[joined.axis] = joined.positions[number][usize::try_from(index[joined.axis]).unwrap()];
            }
            let from: Vec<u64> = part
                .picks
                .iter()
                .map(|pick| match pick {
                    Pick::At(position) => *position,
                    Pick::Along { axis, indices } => indices[usize::try_from(index[*axis]).unwrap()],
                })
                .collect();
            let absent = from.contains(&ABSENT);
            let value = (!absent).then(|| source[offset(&from, part.array.metadata.shape())]);
            let place = &mut values[offset(&at, &gathered.shape)];
            assert!(place.is_none(), "{path}: {at:?} is filled twice");
            *place = Some(value.filter(|value| !value.is_nan()));
            Ok::<_, zkit_core::error::Error>(())
        })
        .unwrap();
    }
    let values = values.into_iter().map(|value| value.expect("every element is filled")).collect();
    Held { dimensions: gathered.dimension_names.clone(), shape: gathered.shape.clone(), values }
}

fn offset(index: &[u64], shape: &[u64]) -> usize {
    let offset = index.iter().zip(shape).fold(0, |offset, (at, length)| offset * length + at);
    usize::try_from(offset).unwrap()
}

fn numbers(store: &Store, node: &ArrayNode) -> Vec<f64> {
    let bytes = node.metadata.decoded_bytes().unwrap();
    let mut elements = vec![0; usize::try_from(bytes).unwrap()];
    with_means(|means| {
        let reader = ArrayReader::new(store, node, 1 << 20).unwrap();
        reader.read_region(&Region::whole(node.metadata.shape()), &mut elements, means.context()).unwrap();
    });
    #[expect(clippy::cast_precision_loss, reason = "tests hold small numbers")]
    match node.metadata.data_type {
        DataType::Int(4) => elements
            .chunks_exact(4)
            .map(|item| f64::from(i32::from_le_bytes(item.try_into().unwrap())))
            .collect(),
        DataType::Int(_) => {
            elements.chunks_exact(8).map(|item| i64::from_le_bytes(item.try_into().unwrap()) as f64).collect()
        }
        _ => elements.chunks_exact(8).map(|item| f64::from_le_bytes(item.try_into().unwrap())).collect(),
    }
}

/// Returns the texts of an array.
pub(crate) fn read_texts(store: &Store, node: &ArrayNode) -> Vec<String> {
    let mut texts = Vec::new();
    with_means(|means| {
        let reader = ArrayReader::new(store, node, 1 << 20).unwrap();
        let region = Region::whole(node.metadata.shape());
        reader
            .visit_variable(&region, means.context(), &mut |text| {
                texts.push(String::from_utf8(text.to_vec()).unwrap());
            })
            .unwrap();
    });
    texts
}
