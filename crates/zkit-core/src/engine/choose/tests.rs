use proptest::prelude::*;

use super::*;
use crate::codec::blosc::Header;
use crate::codec::{Chain, Scratch};
use crate::metadata::{ArrayMetadata, ChecksumChoice, Json, Target, convert};

const FLOAT: DataType = DataType::Float(4);
const CHUNK_BYTES: u64 = 4 << 20;
const ALL: [Prefer; 3] = [Prefer::Speed, Prefer::Balanced, Prefer::Size];

/// A map of temperatures: smooth, with a little noise, rounded as forecasts are.
fn smooth(count: u32) -> Vec<u8> {
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 16) / 65_536.0
    };
    let values = (0..count).map(|at| {
        let (row, column) = (f64::from(at / 512) / 160.0, f64::from(at % 512) / 110.0);
        280.0 + 10.0 * row.sin() + 8.0 * column.cos() + 0.25 * noise()
    });
    #[expect(clippy::cast_possible_truncation, reason = "temperatures fit float32")]
    let rounded = |kelvin: f64| (kelvin * 16.0).round() as f32 / 16.0;
    values.flat_map(|kelvin| rounded(kelvin).to_le_bytes()).collect()
}

fn noise(bytes: usize) -> Vec<u8> {
    let words = (0..bytes.div_ceil(8) as u64).map(|at| xxhash_rust::xxh3::xxh3_64(&at.to_le_bytes()));
    words.flat_map(u64::to_le_bytes).take(bytes).collect()
}

fn choose(samples: &[Vec<u8>], data_type: &DataType, chunk_bytes: u64, prefer: Prefer) -> Choice {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    choose_codec(samples, data_type, chunk_bytes, prefer, &pool)
}

fn reference() -> TargetCodec {
    Words::of(&FLOAT).reference(BloscShuffle::Bit).codec()
}

/// What a model says of a codec: larger blocks make up for lower levels, byte shuffle is smaller and slow.
fn model(candidate: Option<Candidate>) -> Trial {
    let trial = |codec, ratio, encode| Trial {
        codec,
        ratio,
        encode_bytes_per_second: encode,
        decode_bytes_per_second: 2.0 * encode,
    };
    let Some(candidate) = candidate else { return trial(TargetCodec::Uncompressed, 1.0, 9e9) };
    let block = match candidate.block_bytes {
        0 => 131_072.0,
        bytes => f64::from(bytes),
    };
    let shuffled = match candidate.shuffle {
        BloscShuffle::Bit => 1.0,
        BloscShuffle::Byte => 1.1,
        _ => 0.5,
    };
    let speed = if candidate.shuffle == BloscShuffle::Bit { 1.5e9 } else { 0.5e9 };
    let level = f64::from(candidate.level);
    let lz4 = if candidate.compressor == "lz4" { 0.9 } else { 1.0 };
    let ratio = (4.0 + 0.1 * level + 0.2 * (block / 131_072.0).log2()) * shuffled * lz4;
    trial(candidate.codec(), ratio, speed / level / lz4.powi(20))
}

fn measure_model(candidates: &[Option<Candidate>]) -> Vec<Trial> {
    candidates.iter().copied().map(model).collect()
}

fn best_of_model(prefer: Prefer) -> (Vec<Trial>, TargetCodec) {
    let words = Words::of(&FLOAT);
    let trials = search(&words, &block_sizes(&words, CHUNK_BYTES, CHUNK_BYTES), prefer, &measure_model);
    let best = score::best(&trials, trials.first(), prefer).unwrap();
    let codec = trials[best].codec.clone();
    (trials, codec)
}

#[test]
fn search_finds_what_a_model_is_best_at_in_few_trials() {
    let zstd = |level, shuffle| TargetCodec::Blosc {
        compressor: "zstd".to_owned(),
        level,
        shuffle,
        block_bytes: 1 << 20,
    };
    let (trials, codec) = best_of_model(Prefer::Balanced);
    assert_eq!(codec, zstd(1, BloscShuffle::Bit));
    assert!(trials.len() <= 12, "{}", trials.len());
    assert_eq!(trials[0].codec, reference());
    assert_eq!(best_of_model(Prefer::Size).1, zstd(7, BloscShuffle::Byte));
    let (_, codec) = best_of_model(Prefer::Speed);
    assert!(matches!(codec, TargetCodec::Blosc { compressor, level: 5, .. } if compressor == "lz4"));
}

#[test]
fn search_stops_where_nothing_compresses() {
    let words = Words::of(&FLOAT);
    let random = |candidates: &[Option<Candidate>]| {
        measure_model(candidates).into_iter().map(|trial| Trial { ratio: 1.0, ..trial }).collect()
    };
    let trials = search(&words, &[SMALL_BLOCK_BYTES], Prefer::Size, &random);
    assert_eq!(trials.len(), 5);
}

#[test]
fn blocks_leave_readers_several_of_them() {
    let words = Words::of(&FLOAT);
    let kib = |chunk_bytes, sample| -> Vec<u32> {
        block_sizes(&words, chunk_bytes, sample).into_iter().map(|bytes| bytes >> 10).collect()
    };
    assert_eq!(kib(4 << 20, 4 << 20), [256, 128, 512, 1024]);
    assert_eq!(kib(721 * 1440 * 4, 4 << 20), [253, 126, 506, 1013]);
    assert_eq!(kib(2 << 20, 2 << 20), [256, 128, 512]);
    assert_eq!(kib(100 << 10, 100 << 10), [100]);
    assert_eq!(kib(4 << 20, 300 << 10), [256, 128, 512]);
    assert_eq!(kib(0, 0), [256]);
}

#[test]
fn blocks_leave_a_few_words_without_bit_shuffle() {
    for (bytes, items) in [(4, 721 * 1441), (12, 500_001), (2, 361 * 719), (8, 3)] {
        let words = Words { bytes, ..Words::of(&FLOAT) };
        let chunk_bytes = u64::from(bytes) * items;
        for block in block_sizes(&words, chunk_bytes, chunk_bytes).into_iter().map(u64::from) {
            assert_eq!(block % words.group_bytes(), 0);
            let blocks = chunk_bytes / block;
            assert!(chunk_bytes < block || chunk_bytes % block < words.group_bytes() * blocks);
        }
    }
}

#[test]
fn smooth_floats_get_a_faster_codec_of_the_same_size() {
    let choice = choose(&[smooth(1 << 18), smooth(1 << 17)], &FLOAT, CHUNK_BYTES, Prefer::Balanced);
    let reference = &choice.trials[0];
    let chosen = choice.trials.iter().find(|trial| trial.codec == choice.codec).unwrap();
    assert!(chosen.ratio * 1.01 >= reference.ratio, "{}", choice.why);
    assert!(chosen.encode_bytes_per_second >= reference.encode_bytes_per_second, "{}", choice.why);
    assert!(choice.why.contains("x smaller, encodes at"), "{}", choice.why);
    assert_eq!(choice.sampled_bytes, 3 << 19);
}

#[test]
fn random_bytes_are_stored() {
    for data_type in [FLOAT, DataType::UInt(1), DataType::FixedBytes(16)] {
        for prefer in ALL {
            let choice = choose(&[noise(300_000)], &data_type, CHUNK_BYTES, prefer);
            assert_eq!(choice.codec, TargetCodec::Uncompressed, "{}", choice.why);
        }
    }
}

#[test]
fn short_integers_are_compressed() {
    let waves = (0..700i16).cycle().take(200_000).flat_map(|at| (at * 3).to_le_bytes()).collect();
    for prefer in ALL {
        let choice = choose(std::slice::from_ref(&waves), &DataType::Int(2), CHUNK_BYTES, prefer);
        assert!(matches!(choice.codec, TargetCodec::Blosc { .. }), "{}", choice.why);
    }
}

#[test]
fn text_is_not_shuffled() {
    let text = b"a station name  ".repeat(5000);
    let choice = choose(&[text], &DataType::FixedBytes(16), CHUNK_BYTES, Prefer::Balanced);
    assert!(choice.trials.iter().all(|trial| match trial.codec {
        TargetCodec::Blosc { shuffle, .. } => shuffle == BloscShuffle::None,
        _ => true,
    }));
}

#[test]
fn tiny_samples_do_no_harm() {
    for data_type in [FLOAT, DataType::UInt(1), DataType::Complex(16), DataType::FixedUtf32(3)] {
        for len in [1, 2, 15, 16, 129] {
            let choice = choose(&[vec![7; len], Vec::new()], &data_type, len as u64, Prefer::Size);
            assert_eq!(choice.sampled_bytes, len as u64);
        }
    }
}

#[test]
fn without_samples_the_reference_is_chosen() {
    for samples in [&[][..], &[Vec::new()]] {
        let choice = choose(samples, &FLOAT, CHUNK_BYTES, Prefer::Balanced);
        assert_eq!(choice.codec, reference());
        assert!(choice.why.contains("nothing could be sampled"));
        assert!(choice.trials.is_empty());
    }
}

#[test]
fn chunks_too_large_for_blosc_get_another_codec() {
    let choice = choose(&[smooth(1000)], &FLOAT, 1 << 31, Prefer::Balanced);
    assert_eq!(choice.codec, TargetCodec::Zstd(3));
}

/// Returns the header of a frame that a copy with this codec holds.
fn header_in_copy(metadata: &ArrayMetadata, codec: &TargetCodec) -> Header {
    let target = Target { format: None, codec: codec.clone(), checksum: ChecksumChoice::None, layout: None };
    let copy = convert("/a", metadata, &target).unwrap().metadata;
    let mut frame = Vec::new();
    let chain = Chain::compile(&copy, &[1 << 19]).unwrap();
    chain.encode(&mut Scratch::new(), &smooth(1 << 19), &mut frame).unwrap();
    Header::parse(&frame).unwrap()
}

#[test]
fn chosen_blocks_are_in_the_metadata_and_the_frames_of_both_formats() {
    let v2 = r#"{"zarr_format":2,"shape":[524288],"chunks":[524288],"dtype":"<f4","order":"C","fill_value":0,"filters":null,"compressor":null}"#;
    let v3 = r#"{"zarr_format":3,"node_type":"array","shape":[524288],"data_type":"float32","fill_value":0,"codecs":[{"name":"bytes"}],
        "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[524288]}},"chunk_key_encoding":{"name":"default"}}"#;
    let object = |text: &str| match Json::parse(text.as_bytes()).unwrap() {
        Json::Object(object) => object,
        _ => unreachable!("tests give objects"),
    };
    let v2 = ArrayMetadata::parse_v2("/a", object(v2), Default::default(), &mut Vec::new()).unwrap();
    let v3 = ArrayMetadata::parse_v3("/a", object(v3), &mut Vec::new()).unwrap();
    for block_bytes in BLOCK_BYTES {
        let codec =
            Candidate { level: 1, block_bytes, ..Words::of(&FLOAT).reference(BloscShuffle::Bit) }.codec();
        for metadata in [&v2, &v3] {
            let header = header_in_copy(metadata, &codec);
            assert_eq!((header.block_size, header.type_size), (u64::from(block_bytes), 4));
            assert!(!header.memcpyed);
        }
    }
}

proptest! {
    #[test]
    fn any_samples_get_a_codec(samples in prop::collection::vec(prop::collection::vec(0..4u8, 0..3000), 0..3)) {
        let choice = choose(&samples, &DataType::Int(2), 6000, Prefer::Balanced);
        prop_assert!(!choice.why.is_empty());
    }
}
