//! One array, written by zarrs, copied by zkit and read by zarrs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use zarrs::array::{Array, ArrayBytes, ArrayMetadata};
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{
    ListableStorageTraits as _, ReadableStorageTraits as _, StoreKey, WritableStorageTraits as _,
};
use zkit_core::cancel::Cancel;
use zkit_core::engine::{
    Endpoint, Header, LeftPieces, OnCorrupt, Proof, Resources, RunOptions, Scratch, Sink, SurveyDepth,
    Verify, run_copy, survey, verify,
};
use zkit_core::error::Result;
use zkit_core::event::{Observer as _, Silent};
use zkit_core::hierarchy::{Hierarchy, Reviewed};
use zkit_core::metadata::{ChecksumChoice, Layout, Target, TargetCodec};
use zkit_core::plan::{CopyPlan, SourceKind, Stored, Wanted, WantedStore, Wish, plan_copy};
use zkit_core::publish::{Consolidate, metadata_documents};
use zkit_core::store::{LocalWriter, StoreOptions};

/// A copy to make.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) shape: Vec<u64>,
    pub(crate) source_chunk: Vec<u64>,
    pub(crate) source_shard: Option<Vec<u64>>,
    pub(crate) target_chunk: Vec<u64>,
    pub(crate) target_shard: Option<Vec<u64>>,
    pub(crate) data_type: &'static str,
    pub(crate) codecs: &'static str,
    pub(crate) transposed: bool,
    pub(crate) target: TargetCodec,
    pub(crate) memory_bytes: u64,
    pub(crate) jobs: usize,
    /// Every how many chunks of the source is left out; 0 for none.
    pub(crate) absent_every: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) element: fn(&[u64]) -> u8,
}

/// A copy that was made.
pub(crate) struct Copied {
    pub(crate) plan: CopyPlan,
    pub(crate) memory_bytes: u64,
    pub(crate) bytes_decoded: u64,
    source: PathBuf,
    target: PathBuf,
}

/// What an engine with a fault might write.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mutation {
    /// Two dimensions swapped inside one chunk.
    SwappedStride,
    /// The last row of one chunk is that before it.
    WrongEdge,
    /// Two chunks changed places.
    SwappedChunks,
    /// One chunk is missing.
    LostChunk,
}

impl Mutation {
    pub(crate) const ALL: [Self; 4] =
        [Self::SwappedStride, Self::WrongEdge, Self::SwappedChunks, Self::LostChunk];
}

const CODECS: [&str; 6] = [
    "",
    r#", {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": SIZE, "blocksize": 256}}"#,
    r#", {"name": "blosc", "configuration": {"cname": "zstd", "clevel": 1, "shuffle": "bitshuffle", "typesize": SIZE, "blocksize": 0}}"#,
    r#", {"name": "zstd", "configuration": {"level": 1, "checksum": true}}"#,
    r#", {"name": "gzip", "configuration": {"level": 1}}"#,
    r#", {"name": "zstd", "configuration": {"level": 1, "checksum": false}}, {"name": "crc32c"}"#,
];

pub(crate) const GZIP: &str = CODECS[4];

pub(crate) fn item_bytes(data_type: &str) -> usize {
    match data_type {
        "uint8" => 1,
        "int16" => 2,
        "float32" => 4,
        "complex128" => 16,
        _ => 8,
    }
}

/// Returns any case of up to four dimensions.
pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let dimension = (prop_oneof![8 => 1u64..24, 1 => Just(0)], 1u64..9, 1u64..9, 1u64..4, 1u64..4);
    (
        proptest::collection::vec(dimension, 0..5),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        prop::sample::select(vec!["uint8", "int16", "float32", "float64", "complex128"]),
        prop::sample::select(CODECS.to_vec()),
        prop::sample::select(vec![
            TargetCodec::Keep,
            TargetCodec::Zstd(1),
            TargetCodec::Uncompressed,
            TargetCodec::Blosc {
                compressor: "zstd".to_owned(),
                level: 1,
                shuffle: zkit_core::metadata::BloscShuffle::Bit,
                block_bytes: 0,
            },
        ]),
        (15u32..22, 1usize..5, 0u64..4),
    )
        .prop_map(
            |(
                dimensions,
                (source_sharded, target_sharded, transposed),
                data_type,
                codecs,
                target,
                budget,
            )| {
                let column = |at: fn(&(u64, u64, u64, u64, u64)) -> u64| {
                    dimensions.iter().map(at).collect::<Vec<u64>>()
                };
                let any = !dimensions.is_empty();
                Case {
                    shape: column(|d| d.0),
                    source_chunk: column(|d| d.1),
                    source_shard: (source_sharded && any).then(|| column(|d| d.1 * d.3)),
                    target_chunk: column(|d| d.2),
                    target_shard: (target_sharded && any).then(|| column(|d| d.2 * d.4)),
                    data_type,
                    codecs,
                    transposed,
                    target,
                    // too little at times: then the case runs with what the plan says it needs
                    memory_bytes: 1 << budget.0,
                    jobs: budget.1,
                    absent_every: budget.2,
                    scratch_bytes: 1 << 30,
                    element: |index| {
                        let flat = index
                            .iter()
                            .fold(3u64, |flat, &at| flat.wrapping_mul(0x9e37_79b9).wrapping_add(at));
                        (flat ^ flat >> 7) as u8
                    },
                }
            },
        )
}

impl Case {
    pub(crate) fn new(shape: &[u64], source_chunk: &[u64], target_chunk: &[u64]) -> Self {
        Self {
            shape: shape.to_vec(),
            source_chunk: source_chunk.to_vec(),
            source_shard: None,
            target_chunk: target_chunk.to_vec(),
            target_shard: None,
            data_type: "uint8",
            codecs: CODECS[2],
            transposed: false,
            target: TargetCodec::Zstd(1),
            memory_bytes: 1 << 20,
            jobs: 2,
            absent_every: 0,
            scratch_bytes: 0,
            element: |index| index.iter().fold(3, |flat, &at| flat * 31 + at) as u8 | 1,
        }
    }

    pub(crate) fn with_memory(mut self, memory_bytes: u64, jobs: usize) -> Self {
        (self.memory_bytes, self.jobs) = (memory_bytes, jobs);
        self
    }

    pub(crate) fn resources(&self) -> Resources {
        Resources { memory_bytes: self.memory_bytes.max(1 << 20), jobs: self.jobs }
    }

    pub(crate) fn chunk_bytes(&self) -> u64 {
        let largest = self.source_shard.as_ref().unwrap_or(&self.source_chunk);
        largest.iter().product::<u64>() * item_bytes(self.data_type) as u64 + 4096
    }

    fn metadata(&self) -> String {
        let item = item_bytes(self.data_type);
        let order: Vec<usize> = (0..self.shape.len()).rev().collect();
        let transpose = match self.transposed && !self.shape.is_empty() {
            true => format!(r#"{{"name": "transpose", "configuration": {{"order": {order:?}}}}}, "#),
            false => String::new(),
        };
        let codecs = format!(
            r#"{transpose}{{"name": "bytes", "configuration": {{"endian": "little"}}}}{}"#,
            self.codecs.replace("SIZE", &item.to_string())
        );
        let (grid, codecs) = match &self.source_shard {
            Some(shard) => (
                shard,
                format!(
                    r#"{{"name": "sharding_indexed", "configuration": {{"chunk_shape": {:?}, "codecs": [{codecs}],
                    "index_codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}, {{"name": "crc32c"}}],
                    "index_location": "end"}}}}"#,
                    self.source_chunk
                ),
            ),
            None => (&self.source_chunk, codecs),
        };
        let fill = if self.data_type == "complex128" { "[0.0, 0.0]" } else { "0" };
        format!(
            r#"{{"zarr_format": 3, "node_type": "array", "shape": {:?}, "data_type": "{}", "fill_value": {fill},
            "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": {grid:?}}}}},
            "chunk_key_encoding": {{"name": "default"}}, "codecs": [{codecs}], "attributes": {{"of": "interest"}}}}"#,
            self.shape, self.data_type
        )
    }

    /// Writes the source and returns its elements.
    pub(crate) fn write_source(&self, folder: &Path) -> Vec<u8> {
        let text = self.metadata();
        let metadata = ArrayMetadata::try_from(text.as_str()).expect("zarrs reads the metadata");
        let store = Arc::new(MemoryStore::new());
        let array = Array::new_with_metadata(Arc::clone(&store), "/", metadata).expect("zarrs knows it");
        let item = item_bytes(self.data_type);
        let total: u64 = self.shape.iter().product();
        let elements: Vec<u8> = (0..total)
            .flat_map(|at| {
                let value = (self.element)(&unravel(at, &self.shape));
                // small words, so that nothing is a NaN that readers could change
                (0..item).map(move |byte| if byte % 4 == 3 { value & 0x3f } else { value })
            })
            .collect();
        if total > 0 {
            array
                .store_array_subset(&array.subset_all(), ArrayBytes::new_flen(elements))
                .expect("zarrs writes");
        }
        let root = folder.join("source");
        std::fs::create_dir(&root).expect("the folder is ours");
        std::fs::write(root.join("zarr.json"), text).expect("the folder is ours");
        for (at, key) in store.list().expect("memory").into_iter().enumerate() {
            if self.absent_every > 0 && (at as u64).is_multiple_of(self.absent_every + 1) {
                store.erase(&key).expect("memory");
                continue;
            }
            let bytes = store.get(&key).expect("memory").expect("listed");
            let path = root.join(key.as_str());
            std::fs::create_dir_all(path.parent().expect("below the root")).expect("the folder is ours");
            std::fs::write(path, bytes).expect("the folder is ours");
        }
        bytes_of(&array)
    }

    pub(crate) fn hierarchy(folder: &Path) -> Hierarchy {
        let url = folder.display().to_string().parse().expect("a path is a store");
        Hierarchy::open(&url, &StoreOptions::default()).expect("the store opens")
    }

    /// Plans the copy.
    pub(crate) fn plan(&self, folder: &Path) -> Result<CopyPlan> {
        let hierarchy = Self::hierarchy(&folder.join("source"));
        let arrays: Vec<_> = hierarchy.arrays.iter().collect();
        let store = hierarchy.readable_store()?;
        let depth = SurveyDepth::Listing { sample_most: 0 };
        let listing = survey(store, &arrays, depth, &Silent::default(), &Cancel::default())?
            .remove(0)
            .listing
            .expect("a directory can be listed");
        let stored = Stored::from(listing);
        let target = Target {
            format: None,
            codec: self.target.clone(),
            checksum: match self.target {
                TargetCodec::Uncompressed => ChecksumChoice::None,
                _ => ChecksumChoice::Auto,
            },
            layout: Some(Layout {
                chunk_shape: self.target_chunk.clone(),
                shard_shape: self.target_shard.clone(),
            }),
        };
        let wanted = Wanted { array: hierarchy.arrays[0].clone(), stored, target };
        let wish = Wish {
            format: None,
            memory_bytes: self.memory_bytes,
            upload_bytes: 0,
            jobs: self.jobs,
            source: SourceKind::Local,
            scratch_bytes: self.scratch_bytes,
        };
        plan_copy(
            vec![WantedStore { reviewed: Reviewed::together(Vec::new(), []), arrays: vec![wanted] }],
            &wish,
        )
    }

    /// Copies the source; with more memory where the case has too little.
    pub(crate) fn copy(&self, folder: &Path) -> Copied {
        let mut memory_bytes = self.memory_bytes;
        let plan = self.plan(folder).unwrap_or_else(|_| {
            memory_bytes = 1 << 26;
            self.clone().with_memory(memory_bytes, self.jobs).plan(folder).expect("64 MiB are enough")
        });
        let source = Self::hierarchy(&folder.join("source"));
        let target = folder.join("target");
        let _ = std::fs::remove_dir_all(&target);
        std::fs::create_dir(&target).expect("the folder is ours");
        let scratch = folder.join("scratch");
        let header =
            Header { options: vec![], source: "source".to_owned(), groups: String::new(), arrays: vec![] };
        let writer = LocalWriter::open(&target).expect("it exists");
        let endpoint = Endpoint {
            source: source.readable_store().expect("local"),
            parts: &[],
            sink: Sink::Local { writer: &writer, journal: None },
            done: &[],
            resumed: false,
            scratch: Some(Scratch { directory: &scratch, header: &header, left: LeftPieces::Discard }),
        };
        let observer = Silent::default();
        let options =
            RunOptions { memory_bytes: self.memory_bytes.max(1 << 26), on_corrupt: OnCorrupt::Fail };
        let mut finished = Vec::new();
        run_copy(&plan, &[endpoint], options, &observer, &Cancel::default(), &mut |store, _| {
            finished.push(store);
            Ok(())
        })
        .expect("the copy is made");
        assert!(!scratch.exists(), "scratch space is given back");
        assert_eq!(finished, [0]);
        for (key, document) in metadata_documents(&plan, 0, Consolidate::No) {
            writer.put(&key, document.to_pretty().as_bytes()).expect("the folder is ours");
        }
        let bytes_decoded = observer.meter().bytes_decoded.get();
        Copied { plan, memory_bytes, bytes_decoded, source: folder.join("source"), target }
    }

    /// Returns what zarrs reads from the copy.
    pub(crate) fn read_copy(&self, folder: &Path) -> Vec<u8> {
        let root = folder.join("target");
        let store = Arc::new(MemoryStore::new());
        for key in files(&root, "") {
            let bytes = std::fs::read(root.join(&key)).expect("listed");
            store.set(&StoreKey::new(&key).expect("a key"), bytes.into()).expect("memory");
        }
        let array = Array::open(store, "/").expect("zarrs opens the copy");
        assert_eq!(array.attributes()["of"], "interest");
        let chunk = self.target_shard.as_ref().unwrap_or(&self.target_chunk);
        if !self.shape.is_empty() && !self.shape.contains(&0) {
            let found = array.chunk_shape(&vec![0; self.shape.len()]).expect("a first chunk");
            assert!(found.iter().map(|length| length.get()).eq(chunk.iter().copied()));
        }
        bytes_of(&array)
    }

    /// Returns the keys of the copy's chunks.
    pub(crate) fn copied_keys(&self, folder: &Path) -> Vec<String> {
        let mut keys = files(&folder.join("target"), "");
        keys.retain(|key| key != "zarr.json");
        keys.sort();
        keys
    }

    /// Does to the copy what a fault would.
    pub(crate) fn mutate(&self, folder: &Path, mutation: Mutation, seed: u64) {
        let root = folder.join("target");
        let backup = folder.join("backup");
        std::fs::create_dir(&backup).expect("the folder is ours");
        let keys = self.copied_keys(folder);
        let pick = |salt: u64| {
            keys[(seed.wrapping_mul(0x9e37_79b9) >> 3).wrapping_add(salt) as usize % keys.len()].clone()
        };
        let key = pick(0);
        let keep = |key: &str| {
            std::fs::copy(root.join(key), backup.join(key.replace('/', "_"))).expect("the folder is ours");
        };
        keep(&key);
        let edit = |edit: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = std::fs::read(root.join(&key)).expect("listed");
            edit(&mut bytes);
            std::fs::write(root.join(&key), bytes).expect("the folder is ours");
        };
        let chunk: Vec<usize> = self.target_chunk.iter().map(|&length| length as usize).collect();
        match mutation {
            Mutation::SwappedStride => edit(&|bytes| {
                let before = bytes.clone();
                let (rows, columns) = (chunk[1], chunk[2]);
                for (at, byte) in bytes.iter_mut().enumerate() {
                    let (plane, inside) = (at / (rows * columns), at % (rows * columns));
                    let (row, column) = (inside / columns, inside % columns);
                    *byte = before[plane * rows * columns + column * rows % (rows * columns) + row % rows];
                }
            }),
            Mutation::WrongEdge => edit(&|bytes| {
                let row = chunk[2];
                for plane in bytes.chunks_exact_mut(chunk[1] * row) {
                    plane.copy_within(0..row, row * 2);
                }
            }),
            Mutation::SwappedChunks => {
                let other = pick(1 + seed % (keys.len() as u64 - 1));
                keep(&other);
                let (a, b) = (std::fs::read(root.join(&key)), std::fs::read(root.join(&other)));
                std::fs::write(root.join(&key), b.expect("listed")).expect("the folder is ours");
                std::fs::write(root.join(&other), a.expect("listed")).expect("the folder is ours");
            }
            Mutation::LostChunk => std::fs::remove_file(root.join(&key)).expect("listed"),
        }
    }

    /// Undoes [`Self::mutate`].
    pub(crate) fn unmutate(&self, folder: &Path) {
        let backup = folder.join("backup");
        for name in files(&backup, "") {
            std::fs::copy(backup.join(&name), folder.join("target").join(name.replace('_', "/")))
                .expect("ours");
        }
        std::fs::remove_dir_all(backup).expect("the folder is ours");
    }
}

impl Copied {
    /// Compares the copy with its source.
    pub(crate) fn verify(&self, mode: Verify, resources: Resources) -> Result<()> {
        let (source, copy) = (Case::hierarchy(&self.source), Case::hierarchy(&self.target));
        let proof = Proof {
            plan: &self.plan,
            store: 0,
            source: source.readable_store()?,
            parts: &[],
            copy: &copy,
            corrupt: &[],
        };
        verify(proof, mode, resources, &Silent::default(), &Cancel::default()).map(|_| ())
    }
}

fn bytes_of(array: &Array<MemoryStore>) -> Vec<u8> {
    let all = array.retrieve_array_subset::<ArrayBytes<'static>>(&array.subset_all()).expect("zarrs reads");
    all.into_fixed().expect("elements of fixed size").into_owned()
}

fn files(root: &Path, prefix: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for entry in std::fs::read_dir(root.join(prefix)).expect("a directory") {
        let entry = entry.expect("a directory");
        let name = entry.file_name().into_string().expect("ascii");
        let key = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        match entry.file_type().expect("a type").is_dir() {
            true => keys.extend(files(root, &key)),
            false => keys.push(key),
        }
    }
    keys
}

fn unravel(mut at: u64, shape: &[u64]) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    for (slot, &length) in index.iter_mut().zip(shape).rev() {
        *slot = at % length;
        at /= length;
    }
    index
}
