//! Arrays whose chunks are larger than what the memory budget gives a slab: read in parts, digested as a whole.

use std::path::Path;

use sha2::{Digest as _, Sha256};
use zkit_core::cancel::Cancel;
use zkit_core::codec::{Chain, Scratch};
use zkit_core::engine::{Resources, digest};
use zkit_core::event::Silent;
use zkit_core::hierarchy::Hierarchy;
use zkit_core::metadata::{ArrayMetadata, Json};
use zkit_core::store::StoreOptions;

/// Two by two chunks that hold all of the first dimension, as time series are stored: 2 MiB each.
const SHAPE: [usize; 3] = [64, 128, 256];
const CHUNK: [usize; 3] = [64, 64, 128];
const BUDGET: Resources = Resources { memory_bytes: 8 << 20, jobs: 2 };

fn metadata(codecs: &str) -> String {
    format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": {SHAPE:?}, "data_type": "float32", "fill_value": 0,
            "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": {CHUNK:?}}}}},
            "chunk_key_encoding": {{"name": "default"}}, "codecs": [{codecs}]}}"#
    )
}

fn element(index: [usize; 3]) -> [u8; 4] {
    let flat = (index[0] * SHAPE[1] + index[1]) * SHAPE[2] + index[2];
    #[expect(clippy::cast_precision_loss, reason = "any number will do")]
    ((flat % 4099) as f32 / 16.0).to_le_bytes()
}

/// Returns the elements of a box in C order.
fn elements(start: [usize; 3], shape: [usize; 3]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(shape.iter().product::<usize>() * 4);
    for i in start[0]..start[0] + shape[0] {
        for j in start[1]..start[1] + shape[1] {
            for k in start[2]..start[2] + shape[2] {
                bytes.extend_from_slice(&element([i, j, k]));
            }
        }
    }
    bytes
}

fn write_store(root: &Path, codecs: &str) {
    let text = metadata(codecs);
    let Ok(Json::Object(document)) = Json::parse(text.as_bytes()) else {
        panic!("the metadata is an object")
    };
    let array = ArrayMetadata::parse_v3("/", document, &mut Vec::new()).expect("the metadata is sound");
    let chain = Chain::compile(&array, &CHUNK.map(|length| length as u64)).expect("zkit knows the codecs");
    std::fs::write(root.join("zarr.json"), text).expect("the folder is ours");
    let (mut scratch, mut encoded) = (Scratch::new(), Vec::new());
    for (j, k) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let decoded = elements([0, j * CHUNK[1], k * CHUNK[2]], CHUNK);
        chain.encode(&mut scratch, &decoded, &mut encoded).expect("zkit writes the codecs");
        let folder = root.join(format!("c/0/{j}"));
        std::fs::create_dir_all(&folder).expect("the folder is ours");
        std::fs::write(folder.join(k.to_string()), &encoded).expect("the folder is ours");
    }
}

fn digest_of(root: &Path) -> Result<[u8; 32], String> {
    let url = root.display().to_string().parse().expect("a path is a store");
    let hierarchy = Hierarchy::open(&url, &StoreOptions::default()).expect("the store opens");
    let arrays: Vec<_> = hierarchy.arrays.iter().collect();
    let store = hierarchy.readable_store().expect("the store is local");
    let mut digests =
        digest(store, &arrays, BUDGET, &Silent::default(), &Cancel::default()).expect("threads start");
    digests.remove(0).map_err(|error| {
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    })
}

#[test]
fn chunks_larger_than_a_slab_have_the_digest_of_their_elements() {
    let expected: [u8; 32] = Sha256::digest(elements([0; 3], SHAPE)).into();
    let little = r#"{"name": "bytes", "configuration": {"endian": "little"}}"#;
    let blosc = |cname: &str, shuffle: &str| {
        format!(
            r#"{{"name": "blosc", "configuration": {{"cname": "{cname}", "clevel": 3, "shuffle": "{shuffle}", "typesize": 4, "blocksize": 0}}}}"#
        )
    };
    let zstd = r#"{"name": "zstd", "configuration": {"level": 1, "checksum": true}}"#;
    let crc32c = r#"{"name": "crc32c"}"#;
    for codecs in [
        little.to_owned(),
        format!("{little}, {}", blosc("zstd", "bitshuffle")),
        format!("{little}, {}, {crc32c}", blosc("lz4", "shuffle")),
        format!("{little}, {zstd}"),
        format!("{little}, {zstd}, {crc32c}"),
        format!(r#"{{"name": "bytes", "configuration": {{"endian": "big"}}}}, {zstd}"#),
        format!(r#"{little}, {{"name": "gzip", "configuration": {{"level": 1}}}}"#),
        format!(r#"{{"name": "transpose", "configuration": {{"order": [2, 0, 1]}}}}, {little}, {zstd}"#),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        write_store(folder.path(), &codecs);
        assert_eq!(digest_of(folder.path()), Ok(expected), "{codecs}");
        std::fs::remove_file(folder.path().join("c/0/1/1")).expect("the chunk was written");
        assert!(
            digest_of(folder.path()).is_ok_and(|digest| digest != expected),
            "an absent chunk of {codecs}"
        );
    }
}

#[test]
fn a_chunk_that_ends_early_is_named_whatever_part_is_read() {
    let little = r#"{"name": "bytes", "configuration": {"endian": "little"}}"#;
    let blosc = r#"{"name": "blosc", "configuration": {"cname": "zstd", "clevel": 3, "shuffle": "bitshuffle", "typesize": 4, "blocksize": 0}}"#;
    let zstd = r#"{"name": "zstd", "configuration": {"level": 1, "checksum": false}}"#;
    for codecs in [little.to_owned(), format!("{little}, {blosc}"), format!("{little}, {zstd}")] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        write_store(folder.path(), &codecs);
        let chunk = folder.path().join("c/0/1/0");
        let bytes = std::fs::read(&chunk).expect("the chunk was written");
        for kept in [0, 3, 100, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&chunk, &bytes[..kept]).expect("the folder is ours");
            let error = digest_of(folder.path()).expect_err("the chunk is not whole");
            assert!(error.contains("chunk `c/0/1/0` of `/`"), "{kept} of {codecs}: {error}");
        }
    }
}
