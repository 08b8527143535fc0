//! Chunks to try: a data type, a shape, codecs as `zarr.json` has them, and elements.

use proptest::prelude::*;
use serde_json::{Value, json};
use zkit_core::codec::Chain;
use zkit_core::metadata::{ArrayMetadata, Json};

/// Data types and the bytes of their words; a complex number is two words.
const DATA_TYPES: [(&str, usize, usize); 8] = [
    ("uint8", 1, 1),
    ("int16", 2, 2),
    ("uint32", 4, 4),
    ("int64", 8, 8),
    ("float32", 4, 4),
    ("float64", 8, 8),
    ("complex64", 4, 8),
    ("complex128", 8, 16),
];

/// The shape and type of a chunk that is an array of its own.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    pub(crate) data_type: &'static str,
    pub(crate) word_bytes: usize,
    pub(crate) item_bytes: usize,
    pub(crate) shape: Vec<u64>,
}

/// Codecs, and whether zkit writes all of them.
#[derive(Debug, Clone)]
pub(crate) struct Codecs {
    pub(crate) list: Vec<Value>,
    pub(crate) written: bool,
}

impl Codecs {
    fn written(list: Vec<Value>) -> Self {
        Self { list, written: true }
    }

    fn then(mut self, other: Self) -> Self {
        self.list.extend(other.list);
        self.written &= other.written;
        self
    }
}

impl Chunk {
    /// Returns `zarr.json` of an array that is this one chunk.
    pub(crate) fn metadata(&self, codecs: &[Value]) -> String {
        let fill = match self.data_type {
            "string" => json!("fill"),
            "bytes" => json!("Zm9v"),
            complex if complex.starts_with("complex") => json!([0.0, 0.0]),
            _ => json!(0),
        };
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": self.shape, "data_type": self.data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": self.shape}},
            "chunk_key_encoding": {"name": "default"}, "fill_value": fill, "codecs": codecs,
        });
        document.to_string()
    }

    /// Returns zkit's chain of codecs for this chunk.
    pub(crate) fn chain(&self, codecs: &[Value]) -> Chain {
        let Ok(Json::Object(document)) = Json::parse(self.metadata(codecs).as_bytes()) else {
            panic!("the metadata is an object")
        };
        let mut defects = Vec::new();
        let array = ArrayMetadata::parse_v3("/", document, &mut defects).expect("zkit reads the metadata");
        assert_eq!(defects, [], "the metadata is sound");
        Chain::compile(&array, &self.shape).expect("zkit compiles the codecs")
    }

    pub(crate) fn elements(&self) -> usize {
        small(self.shape.iter().product())
    }
}

/// Returns a size or place inside a chunk of these tests.
pub(crate) fn small(number: u64) -> usize {
    usize::try_from(number).expect("chunks are small")
}

/// How the bytes of a chunk look.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Texture {
    /// The fill value alone.
    Fill,
    /// Mostly the fill value: inner chunks of shards are absent.
    Sparse,
    /// Slowly rising numbers.
    Smooth,
    /// Nothing to compress.
    Noise,
}

/// Returns `bytes` bytes of a texture.
pub(crate) fn contents(texture: Texture, seed: u64, bytes: usize, word_bytes: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut noise = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut words = Vec::with_capacity(bytes + 8);
    let mut position = 0u64;
    while words.len() < bytes {
        let word = match texture {
            Texture::Fill => 0,
            Texture::Sparse if position / 16 % 5 != seed % 5 => 0,
            Texture::Sparse | Texture::Noise => noise(),
            Texture::Smooth => (seed >> 40) + position * 3 + noise() % 4,
        };
        words.extend_from_slice(&word.to_le_bytes()[..word_bytes]);
        position += 1;
    }
    words.truncate(bytes);
    words
}

pub(crate) fn textures() -> impl Strategy<Value = Texture> {
    prop_oneof![
        1 => Just(Texture::Fill),
        3 => Just(Texture::Sparse),
        3 => Just(Texture::Smooth),
        2 => Just(Texture::Noise)
    ]
}

fn chunks_of(shapes: impl Strategy<Value = Vec<u64>>) -> impl Strategy<Value = Chunk> {
    (prop::sample::select(DATA_TYPES.to_vec()), shapes).prop_map(
        |((data_type, word_bytes, item_bytes), shape)| Chunk { data_type, word_bytes, item_bytes, shape },
    )
}

/// Chunks of no dimension up to four, of odd lengths.
pub(crate) fn chunks() -> impl Strategy<Value = Chunk> {
    chunks_of(prop::collection::vec(1u64..14, 0..=4).prop_map(|mut shape| {
        // keep the product small enough for a thousand runs
        while shape.iter().product::<u64>() > 6000 {
            shape.pop();
        }
        shape
    }))
}

/// Chunks without dimension are no shards.
pub(crate) fn shards() -> impl Strategy<Value = Chunk> {
    // lengths with many divisors
    let lengths = prop::sample::select(vec![1u64, 4, 6, 8, 12]);
    chunks_of(prop::collection::vec(lengths, 1..=3))
}

fn transposes(rank: usize) -> impl Strategy<Value = Codecs> {
    let order = Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
    let transpose = order.prop_map(|order| json!({"name": "transpose", "configuration": {"order": order}}));
    prop::collection::vec(transpose, 0..=if rank > 1 { 2 } else { 0 }).prop_map(Codecs::written)
}

fn bytes(word_bytes: usize) -> BoxedStrategy<Codecs> {
    if word_bytes == 1 {
        return Just(Codecs::written(vec![json!({"name": "bytes"})])).boxed();
    }
    prop::sample::select(vec!["little", "big"])
        .prop_map(|endian| {
            Codecs::written(vec![json!({"name": "bytes", "configuration": {"endian": endian}})])
        })
        .boxed()
}

/// blosc frames of every inner compressor that zarrs has.
fn blosc(item_bytes: usize) -> impl Strategy<Value = Codecs> {
    let type_sizes = prop_oneof![3 => Just(item_bytes), 1 => 1usize..20];
    (
        prop::sample::select(vec!["lz4", "lz4hc", "blosclz", "zlib", "zstd", "snappy"]),
        0..=9u8,
        prop::sample::select(vec!["noshuffle", "shuffle", "bitshuffle"]),
        type_sizes,
        prop_oneof![2 => Just(0usize), 1 => 128usize..3000],
    )
        .prop_map(|(compressor, level, shuffle, type_bytes, block_bytes)| Codecs {
            list: vec![json!({"name": "blosc", "configuration": {
                "cname": compressor, "clevel": level, "shuffle": shuffle,
                "typesize": type_bytes, "blocksize": block_bytes,
            }})],
            written: ["lz4", "zlib", "zstd"].contains(&compressor),
        })
}

/// Codecs from bytes to bytes other than blosc.
fn other_compressors() -> impl Strategy<Value = Codecs> {
    let levelled = |name: &'static str, levels: std::ops::RangeInclusive<i32>, written| {
        levels.prop_map(move |level| Codecs {
            list: vec![json!({"name": name, "configuration": {"level": level}})],
            written,
        })
    };
    prop_oneof![
        (-5..=9, any::<bool>()).prop_map(|(level, checksum)| {
            let configuration = json!({"level": level, "checksum": checksum});
            Codecs::written(vec![json!({"name": "zstd", "configuration": configuration})])
        }),
        levelled("gzip", 0..=9, true),
        levelled("numcodecs.zlib", 0..=9, true),
        levelled("numcodecs.bz2", 1..=9, false),
        Just(Codecs::written(vec![json!({"name": "crc32c"})])),
        prop::sample::select(vec!["start", "end"]).prop_map(|location| {
            let configuration = json!({"location": location});
            Codecs::written(vec![json!({"name": "numcodecs.adler32", "configuration": configuration})])
        }),
    ]
}

/// None to three codecs from bytes to bytes, the first perhaps a shuffle or HDF5's checksum.
pub(crate) fn compressors(item_bytes: usize) -> impl Strategy<Value = Codecs> {
    let shuffle = json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": item_bytes}});
    // zarrs 0.23 leaves the last of an odd number of bytes out of the sum; numcodecs does not
    let fletcher =
        item_bytes.is_multiple_of(2).then(|| json!({"name": "numcodecs.fletcher32", "configuration": {}}));
    let first = prop_oneof![
        3 => blosc(item_bytes).boxed(),
        2 => Just(Codecs::written(Vec::new())).boxed(),
        1 => Just(Codecs::written(vec![shuffle])).boxed(),
        1 => Just(Codecs::written(fletcher.into_iter().collect())).boxed(),
    ];
    (first, prop::collection::vec(other_compressors(), 0..=2))
        .prop_map(|(first, others)| others.into_iter().fold(first, Codecs::then))
}

/// Transposes, byte order and compressors for a chunk.
pub(crate) fn plain_codecs(chunk: &Chunk) -> impl Strategy<Value = Codecs> + use<> {
    (transposes(chunk.shape.len()), bytes(chunk.word_bytes), compressors(chunk.item_bytes))
        .prop_map(|(transposes, bytes, compressors)| transposes.then(bytes).then(compressors))
}

/// A shape that divides another.
fn divisors(shape: &[u64]) -> impl Strategy<Value = Vec<u64>> + use<> {
    let divisors = |&length: &u64| {
        prop::sample::select((1..=length).filter(|part| length.is_multiple_of(*part)).collect::<Vec<_>>())
    };
    shape.iter().map(divisors).collect::<Vec<_>>()
}

/// One shard codec around the codecs of its inner chunks.
fn shard(inner_shape: Vec<u64>, inner: Codecs) -> impl Strategy<Value = Codecs> {
    (prop::sample::select(vec!["start", "end"]), prop::sample::select(vec!["little", "big"]), any::<bool>())
        .prop_map(move |(location, endian, checksum)| {
            let mut index = vec![json!({"name": "bytes", "configuration": {"endian": endian}})];
            index.extend(checksum.then(|| json!({"name": "crc32c"})));
            let configuration = json!({
                "chunk_shape": inner_shape, "codecs": inner.list,
                "index_codecs": index, "index_location": location,
            });
            Codecs {
                list: vec![json!({"name": "sharding_indexed", "configuration": configuration})],
                written: inner.written,
            }
        })
}

/// Shards of a chunk, nested up to `depth` times.
pub(crate) fn shard_codecs(chunk: Chunk, depth: usize) -> BoxedStrategy<Codecs> {
    divisors(&chunk.shape)
        .prop_flat_map(move |inner_shape| {
            let inner = Chunk { shape: inner_shape.clone(), ..chunk.clone() };
            let codecs = if depth > 1 {
                prop_oneof![plain_codecs(&inner), shard_codecs(inner, depth - 1)].boxed()
            } else {
                plain_codecs(&inner).boxed()
            };
            codecs.prop_flat_map(move |codecs| shard(inner_shape.clone(), codecs))
        })
        .boxed()
}

/// Shards, perhaps transposed, perhaps with codecs around them.
pub(crate) fn wrapped_shard_codecs(chunk: &Chunk) -> BoxedStrategy<Codecs> {
    let chunk = chunk.clone();
    (transposes(chunk.shape.len()), prop::option::weighted(0.3, other_compressors()))
        .prop_flat_map(move |(transposes, around)| {
            let stored = transposes.list.iter().fold(chunk.clone(), |chunk, transpose| {
                let order = transpose["configuration"]["order"].as_array().into_iter().flatten();
                let shape = order.filter_map(Value::as_u64).map(|at| chunk.shape[small(at)]).collect();
                Chunk { shape, ..chunk }
            });
            shard_codecs(stored, 2).prop_map(move |shard| {
                let outer = around.iter().cloned().fold(shard, Codecs::then);
                transposes.clone().then(outer)
            })
        })
        .boxed()
}
