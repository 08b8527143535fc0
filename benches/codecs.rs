//! Micro-benchmarks of zkit's inner loops, each beside the yardstick that bounds it: `memcpy`, or plain zstd.
//!
//! `cargo bench -p zkit --bench codecs` prints them; `-- --test` runs each once.

use std::hint::black_box;
use std::path::Path;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use sha2::{Digest as _, Sha256};
use zkit_core::codec::blosc::{Decoder, Encoder, InnerCodec, Level, Params, Shuffle};
use zkit_core::codec::{Chain, Recoder, Scratch};
use zkit_core::hierarchy::Hierarchy;
use zkit_core::kernels::copy::{Canvas, Strided, c_strides, copy_strided, f_strides};
use zkit_core::kernels::scan::{ElementKind, Scanner, Statistics};
use zkit_core::kernels::{bitshuffle, shuffle, swap};
use zkit_core::location::StoreUrl;
use zkit_core::metadata::{ArrayMetadata, Json};
use zkit_core::store::StoreOptions;

/// A chunk of a weather map: 1024 x 1024 float32.
const SIDE: usize = 1024;
const CHUNK_BYTES: usize = SIDE * SIDE * 4;
/// What the kernels see: a block that stays in the second-level cache.
const BLOCK_BYTES: usize = 256 << 10;
/// What blosc asks of zstd at its own level 3.
const ZSTD_LEVEL: i32 = 5;
/// Arrays of the largest consolidated store among the project's test data.
const ARRAYS: usize = 3930;

fn kernels(criterion: &mut Criterion) {
    let src = field(BLOCK_BYTES);
    let mut dst = vec![0; BLOCK_BYTES];
    let mut rest = Vec::new();
    let mut group = of_bytes(criterion, "kernels", BLOCK_BYTES);
    group.bench_function("memcpy", |bencher| {
        bencher.iter(|| black_box(&mut dst).copy_from_slice(black_box(&src)))
    });
    for type_size in [2, 4, 8] {
        group.bench_function(format!("shuffle {type_size}"), |bencher| {
            bencher.iter(|| shuffle::shuffle(type_size, black_box(&src), black_box(&mut dst)));
        });
        group.bench_function(format!("unshuffle {type_size}"), |bencher| {
            bencher.iter(|| shuffle::unshuffle(type_size, black_box(&src), black_box(&mut dst)));
        });
        group.bench_function(format!("bitshuffle {type_size}"), |bencher| {
            bencher
                .iter(|| bitshuffle::bit_shuffle(type_size, black_box(&src), black_box(&mut dst), &mut rest));
        });
        group.bench_function(format!("bitunshuffle {type_size}"), |bencher| {
            bencher.iter(|| {
                bitshuffle::bit_unshuffle(type_size, black_box(&src), black_box(&mut dst), &mut rest)
            });
        });
        group.bench_function(format!("swap {type_size}"), |bencher| {
            bencher.iter(|| swap::swap_bytes(type_size, black_box(&mut dst)));
        });
    }
    group.finish();
}

fn scans(criterion: &mut Criterion) {
    let floats = field(BLOCK_BYTES);
    let mut masked = floats.clone();
    // every third element is NaN, as over land
    masked.chunks_exact_mut(12).for_each(|three| three[..4].copy_from_slice(&f32::NAN.to_le_bytes()));
    let mut dst = vec![0; BLOCK_BYTES];
    let mut group = of_bytes(criterion, "scans", BLOCK_BYTES);
    group.bench_function("memcpy", |bencher| {
        bencher.iter(|| black_box(&mut dst).copy_from_slice(black_box(&floats)))
    });
    // float16 from 1 to 2, and flags in patches
    let halves: Vec<u8> = floats.chunks_exact(2).flat_map(|two| [two[0], 0x3c | (two[1] & 3)]).collect();
    let flags: Vec<u8> = (0..BLOCK_BYTES).map(|at| u8::from(at % 700 < 90)).collect();
    let one = &floats[..4];
    for (name, kind, src, fill) in [
        ("float32", ElementKind::Float(4), &floats, None),
        ("float32, a third NaN", ElementKind::Float(4), &masked, None),
        ("float32, fill value among them", ElementKind::Float(4), &floats, Some(one)),
        ("float64", ElementKind::Float(8), &floats, None),
        ("float16", ElementKind::Float(2), &floats, None),
        ("int16", ElementKind::Signed(2), &floats, None),
        ("uint8", ElementKind::Unsigned(1), &floats, None),
        ("int8", ElementKind::Signed(1), &floats, None),
        ("uint16", ElementKind::Unsigned(2), &floats, None),
        ("uint16, fill value among them", ElementKind::Unsigned(2), &halves, Some(&halves[..2])),
        ("float16, numbers alone", ElementKind::Float(2), &halves, None),
        ("bool", ElementKind::Unsigned(1), &flags, Some(&flags[..1])),
        ("int64", ElementKind::Signed(8), &floats, None),
    ] {
        let scanner = Scanner::new(kind, fill, &[]);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut statistics = Statistics::default();
                scanner.scan(black_box(src), &mut statistics);
                statistics
            });
        });
    }
    let packed = Scanner::new(ElementKind::Signed(2), None, &[&halves[..2]]);
    group.bench_function("int16, missing value among them", |bencher| {
        bencher.iter(|| {
            let mut statistics = Statistics::default();
            packed.scan(black_box(&halves), &mut statistics);
            statistics
        });
    });
    group.finish();
}

fn copies(criterion: &mut Criterion) {
    let src = field(CHUNK_BYTES);
    let mut dst = vec![0; CHUNK_BYTES];
    let shape = [SIDE, SIDE];
    let (rows, columns) = (c_strides(&shape, 4), f_strides(&shape, 4));
    let mut group = of_bytes(criterion, "copies", CHUNK_BYTES);
    group.bench_function("memcpy", |bencher| {
        bencher.iter(|| black_box(&mut dst).copy_from_slice(black_box(&src)))
    });
    for (name, strides) in [("contiguous", &rows), ("transposed", &columns)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let from = Strided { offset: 0, strides: &rows };
                let to = Strided { offset: 0, strides };
                copy_strided(4, &shape, black_box(&src), from, black_box(&mut dst), to)
                    .expect("the chunk fits")
            });
        });
    }
    let mut buffer = Vec::new();
    for (name, chunk) in [("box of cubes", 64), ("box of small chunks", 8)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                // one map into chunks that hold it among others
                let chunks = [1, chunk, chunk];
                let counts = [1, SIDE / chunk, SIDE / chunk];
                let cuts = vec![vec![0, 1], vec![0, SIDE], vec![0, SIDE]];
                let canvas = Canvas::new(std::mem::take(&mut buffer), 4, &chunks, &counts, cuts);
                let canvas = canvas.expect("the cuts fit the box");
                let mut cell = canvas.claim(0).expect("nobody claimed it");
                let strides = c_strides(&[1, SIDE, SIDE], 4);
                let from = Strided { offset: 0, strides: &strides };
                cell.write(&[0; 3], &[1, SIDE, SIDE], black_box(&src), from).expect("the map fits");
                cell.done();
                buffer = canvas.into_buffer();
            });
        });
    }
    group.finish();
}

fn frames(criterion: &mut Criterion) {
    let src = field(CHUNK_BYTES);
    let mut dst = vec![0; CHUNK_BYTES];
    let (mut encoder, mut decoder, mut frame) = (Encoder::new(), Decoder::new(), Vec::new());
    let lz4 = params(InnerCodec::Lz4, 5, Shuffle::Byte);
    let zstd = params(InnerCodec::Zstd, 3, Shuffle::Bit);
    let mut group = of_bytes(criterion, "frames", CHUNK_BYTES);
    group.sample_size(20);
    encoder.encode(&lz4, &src, &mut frame).expect("the parameters are sound");
    group.bench_function("blosc lz4 shuffle decode", |bencher| {
        bencher.iter(|| decoder.decode_into(black_box(&frame), &mut dst).expect("the frame is sound"));
    });
    let large_blocks = Params { block_size: Some(1 << 20), ..params(InnerCodec::Zstd, 1, Shuffle::Bit) };
    for (name, params) in
        [("blosc zstd 3 bitshuffle", zstd), ("blosc zstd 1 bitshuffle, blocks of 1 MiB", large_blocks)]
    {
        group.bench_function(format!("{name} encode"), |bencher| {
            bencher.iter(|| {
                encoder.encode(&params, black_box(&src), &mut frame).expect("the parameters are sound")
            });
        });
        encoder.encode(&params, &src, &mut frame).expect("the parameters are sound");
        group.bench_function(format!("{name} decode"), |bencher| {
            bencher.iter(|| decoder.decode_into(black_box(&frame), &mut dst).expect("the frame is sound"));
        });
    }
    plain_zstd(&mut group, &src);
    group.finish();
}

/// zstd alone, on the bytes as they are and on those that blosc gives it.
fn plain_zstd(group: &mut BenchmarkGroup<'_, WallTime>, src: &[u8]) {
    let mut shuffled = vec![0; src.len()];
    let mut rest = Vec::new();
    for (from, to) in src.chunks(BLOCK_BYTES).zip(shuffled.chunks_mut(BLOCK_BYTES)) {
        bitshuffle::bit_shuffle(4, from, to, &mut rest);
    }
    let mut context = zstd_safe::CCtx::create();
    let mut reader = zstd_safe::DCtx::create();
    let mut dst = vec![0; src.len()];
    let mut frame = vec![0; zstd_safe::compress_bound(src.len())];
    for (name, bytes) in [("zstd 5", src), ("zstd 5 of bitshuffled bytes", &shuffled)] {
        group.bench_function(format!("{name} encode"), |bencher| {
            bencher.iter(|| {
                context
                    .compress(frame.as_mut_slice(), black_box(bytes), ZSTD_LEVEL)
                    .expect("the buffer is large enough")
            });
        });
        let length =
            context.compress(frame.as_mut_slice(), bytes, ZSTD_LEVEL).expect("the buffer is large enough");
        group.bench_function(format!("{name} decode"), |bencher| {
            bencher.iter(|| {
                reader
                    .decompress(dst.as_mut_slice(), black_box(&frame[..length]))
                    .expect("the frame is sound")
            });
        });
    }
}

fn recoding(criterion: &mut Criterion) {
    let source =
        chain(r#"{"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}"#);
    let target =
        chain(r#"{"cname": "zstd", "clevel": 3, "shuffle": "bitshuffle", "typesize": 4, "blocksize": 0}"#);
    let (mut scratch, mut encoded, mut out) = (Scratch::new(), Vec::new(), Vec::new());
    source.encode(&mut scratch, &field(CHUNK_BYTES), &mut encoded).expect("zkit writes lz4 frames");
    let recoder = Recoder::new(source, target);
    let mut group = of_bytes(criterion, "recoding", CHUNK_BYTES);
    group.sample_size(20);
    group.bench_function("blosc lz4 shuffle to zstd 3 bitshuffle", |bencher| {
        bencher.iter(|| {
            recoder.recode(&mut scratch, black_box(&encoded), u64::MAX, &mut out).expect("the chunk is sound")
        });
    });
    group.finish();
}

fn metadata(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = consolidated(folder.path());
    let url: StoreUrl = folder.path().display().to_string().parse().expect("a path is a store");
    let mut group = of_bytes(criterion, "metadata", text.len());
    group.sample_size(20);
    group.bench_function("JSON of 3,930 arrays", |bencher| {
        bencher.iter_batched(
            || text.as_bytes(),
            |text| Json::parse(black_box(text)).expect("the document is JSON"),
            BatchSize::LargeInput,
        );
    });
    group.bench_function("open 3,930 arrays", |bencher| {
        bencher.iter(|| Hierarchy::open(black_box(&url), &StoreOptions::default()).expect("the store opens"));
    });
    group.finish();
}

fn digests(criterion: &mut Criterion) {
    let bytes = field(CHUNK_BYTES);
    let mut group = of_bytes(criterion, "digests", CHUNK_BYTES);
    group.bench_function("sha256", |bencher| bencher.iter(|| Sha256::digest(black_box(&bytes))));
    group.finish();
}

fn of_bytes<'a>(criterion: &'a mut Criterion, name: &str, bytes: usize) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(bytes as u64));
    group
}

/// Returns a temperature map of `bytes` bytes: smooth, with noise, rounded to 1/16 as forecasts are.
fn field(bytes: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 16) / 65_536.0
    };
    let values = (0..u32::try_from(bytes / 4).expect("a chunk is small")).map(|at| {
        let (row, column) = (f64::from(at / 1024) / 160.0, f64::from(at % 1024) / 110.0);
        let kelvin = 280.0 + 10.0 * row.sin() + 8.0 * column.cos() + 0.5 * noise();
        #[expect(clippy::cast_possible_truncation, reason = "temperatures fit float32")]
        ((kelvin * 16.0).round() as f32 / 16.0).to_le_bytes()
    });
    values.flatten().collect()
}

fn params(codec: InnerCodec, level: u8, shuffle: Shuffle) -> Params {
    Params { codec, level: Level::Blosc(level), shuffle, type_size: 4, block_size: None }
}

fn chain(blosc: &str) -> Chain {
    let text = format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [{SIDE}, {SIDE}], "data_type": "float32", "fill_value": 0,
            "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [{SIDE}, {SIDE}]}}}},
            "chunk_key_encoding": {{"name": "default"}},
            "codecs": [{{"name": "bytes"}}, {{"name": "blosc", "configuration": {blosc}}}]}}"#
    );
    let Ok(Json::Object(document)) = Json::parse(text.as_bytes()) else {
        panic!("the text above is an object")
    };
    let array = ArrayMetadata::parse_v3("/", document, &mut Vec::new()).expect("the text above is metadata");
    Chain::compile(&array, &[SIDE as u64, SIDE as u64]).expect("zkit knows blosc")
}

/// Writes a v2 store of many arrays with consolidated metadata into `folder` and returns that document.
fn consolidated(folder: &Path) -> String {
    let array = r#"{"chunks":[1,721,1440],"compressor":{"blocksize":0,"clevel":5,"cname":"lz4","id":"blosc","shuffle":1},"dtype":"<f4","fill_value":"NaN","filters":null,"order":"C","shape":[100,721,1440],"zarr_format":2}"#;
    let attributes = r#"{"_ARRAY_DIMENSIONS":["time","latitude","longitude"],"units":"K","long_name":"2 metre temperature"}"#;
    let entries: Vec<String> = (0..ARRAYS)
        .map(|at| {
            format!(r#""g{}/a{at}/.zarray":{array},"g{}/a{at}/.zattrs":{attributes}"#, at / 100, at / 100)
        })
        .collect();
    let groups: String =
        (0..ARRAYS.div_ceil(100)).map(|at| format!(r#""g{at}/.zgroup":{{"zarr_format":2}},"#)).collect();
    let text = format!(
        r#"{{"metadata":{{".zgroup":{{"zarr_format":2}},{groups}{}}},"zarr_consolidated_format":1}}"#,
        entries.join(",")
    );
    std::fs::write(folder.join(".zmetadata"), &text).expect("a temporary folder can be written");
    std::fs::write(folder.join(".zgroup"), r#"{"zarr_format":2}"#)
        .expect("a temporary folder can be written");
    text
}

criterion_group!(benches, kernels, scans, copies, frames, recoding, metadata, digests);
criterion_main!(benches);
