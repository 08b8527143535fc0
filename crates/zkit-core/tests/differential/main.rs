//! Codecs against zarrs: what one encodes the other decodes to the same bytes, both ways.

mod case;
mod oracle;

use std::ops::Range;

use case::{
    Chunk, Codecs, Texture, chunks, contents, plain_codecs, shards, small, textures, wrapped_shard_codecs,
};
use oracle::Oracle;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::{Value, json};
use zkit_core::codec::{Chain, Recoder, Scratch, StoredSpan};

const LIMIT: u64 = 1 << 24;

fn decode(chain: &Chain, encoded: &[u8]) -> Vec<u8> {
    let mut decoded = vec![0xa5; chain.decoded_bytes().expect("elements of fixed size")];
    chain.decode_into(&mut Scratch::new(), encoded, &mut decoded).expect("zkit decodes the chunk");
    decoded
}

fn encode(chain: &Chain, decoded: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    chain.encode(&mut Scratch::new(), decoded, &mut encoded).expect("zkit encodes the chunk");
    encoded
}

/// Holds zkit and zarrs together on one chunk.
fn assert_alike(chunk: &Chunk, codecs: &Codecs, texture: Texture, seed: u64) {
    let decoded = contents(texture, seed, chunk.elements() * chunk.item_bytes, chunk.word_bytes);
    let (chain, oracle) = (chunk.chain(&codecs.list), Oracle::new(&chunk.metadata(&codecs.list)));
    let theirs = oracle.encode(&decoded);
    assert!(decode(&chain, &theirs) == decoded, "zkit decodes what zarrs encoded");
    assert_ranges_alike(&chain, &theirs, &decoded);
    assert_eq!(chain.can_encode_from(0).is_ok(), codecs.written, "zkit writes these codecs");
    if codecs.written {
        let ours = encode(&chain, &decoded);
        assert!(oracle.decode(&ours) == decoded, "zarrs decodes what zkit encoded");
        assert!(decode(&chain, &ours) == decoded, "zkit decodes what zkit encoded");
    }
}

/// A range of a chunk is what the whole holds there.
fn assert_ranges_alike(chain: &Chain, encoded: &[u8], decoded: &[u8]) {
    for range in
        [0..decoded.len() / 3, decoded.len() / 3..decoded.len() / 2, decoded.len() / 2..decoded.len()]
    {
        let mut part = vec![0xa5; range.len()];
        chain
            .decode_range(&mut Scratch::new(), encoded, range.clone(), &mut part)
            .expect("zkit decodes a range");
        assert!(part == decoded[range.clone()], "a range is what the whole holds there");
        if let Some((head, span)) = span_of(chain, encoded, &range) {
            part.fill(0xa5);
            let bytes = &encoded[small(span.start)..small(span.end)];
            chain
                .decode_span(&mut Scratch::new(), head, (span.start, bytes), range.clone(), &mut part)
                .expect("zkit decodes a range from its own bytes");
            assert!(part == decoded[range], "a range read alone is what the whole holds there");
        }
    }
}

/// Returns the front of a chunk and where the stored bytes of a range lie, if they can be read alone.
fn span_of<'a>(chain: &Chain, encoded: &'a [u8], range: &Range<usize>) -> Option<(&'a [u8], Range<u64>)> {
    let mut head = &encoded[..0];
    loop {
        match chain.stored_span(head, range.clone()).expect("the chunk is sound")? {
            StoredSpan::At(span) => return Some((head, span)),
            StoredSpan::HeadNeeded(bytes) => head = &encoded[..small(bytes)],
        }
    }
}

fn with_codecs<S: Strategy<Value = Codecs>>(
    chunks: impl Strategy<Value = Chunk>,
    codecs: impl Fn(&Chunk) -> S,
) -> impl Strategy<Value = (Chunk, Codecs)> {
    chunks.prop_flat_map(move |chunk| (Just(chunk.clone()), codecs(&chunk)))
}

proptest! {
    #![proptest_config(Config::with_cases(600))]

    #[test]
    fn chunks_are_read_and_written_like_zarrs_does(
        (chunk, codecs) in with_codecs(chunks(), plain_codecs),
        texture in textures(),
        seed in any::<u64>(),
    ) {
        assert_alike(&chunk, &codecs, texture, seed);
    }

    #[test]
    fn shards_are_read_and_written_like_zarrs_does(
        (chunk, codecs) in with_codecs(shards(), wrapped_shard_codecs),
        texture in textures(),
        seed in any::<u64>(),
    ) {
        assert_alike(&chunk, &codecs, texture, seed);
    }

    #[test]
    fn recoded_chunks_hold_the_same_elements(
        (chunk, source, target) in pairs(),
        texture in textures(),
        seed in any::<u64>(),
    ) {
        let decoded = contents(texture, seed, chunk.elements() * chunk.item_bytes, chunk.word_bytes);
        let encoded = Oracle::new(&chunk.metadata(&source.list)).encode(&decoded);
        let recoder = Recoder::new(chunk.chain(&source.list), chunk.chain(&target.list));
        prop_assume!(recoder.check().is_ok());
        let mut recoded = Vec::new();
        recoder.recode(&mut Scratch::new(), &encoded, LIMIT, &mut recoded).expect("zkit recodes the chunk");
        prop_assert!(decode(recoder.target(), &recoded) == decoded, "decoded by zkit");
        prop_assert!(Oracle::new(&chunk.metadata(&target.list)).decode(&recoded) == decoded, "decoded by zarrs");
        if recoder.is_copy() {
            prop_assert_eq!(recoded, encoded);
        }
    }
}

/// Two lists of codecs for one chunk; some begin alike, some are shards that are cut alike.
fn pairs() -> impl Strategy<Value = (Chunk, Codecs, Codecs)> {
    let any_codecs =
        |chunk: &Chunk| prop_oneof![plain_codecs(chunk).boxed(), wrapped_shard_codecs(chunk)].boxed();
    shards().prop_flat_map(move |chunk| {
        // behind shards the number of bytes is any
        let compressors = case::compressors(1);
        let inner = plain_codecs(&chunk);
        (Just(chunk.clone()), any_codecs(&chunk), any_codecs(&chunk), compressors, inner, 0..4).prop_map(
            |(chunk, source, other, compressors, inner, relation)| {
                let target = match relation {
                    0 => other,
                    1 => with_other_compressors(&source, compressors),
                    2 => with_other_inner_codecs(&source, inner).unwrap_or(other),
                    _ => source.clone(),
                };
                (chunk, source, target)
            },
        )
    })
}

/// The same codecs up to the bytes, others behind them.
fn with_other_compressors(source: &Codecs, compressors: Codecs) -> Codecs {
    let serializer =
        |codec: &Value| ["bytes", "sharding_indexed"].contains(&codec["name"].as_str().unwrap_or(""));
    let kept = source.list.iter().position(serializer).expect("one codec makes bytes") + 1;
    let list = source.list[..kept].iter().cloned().chain(compressors.list).collect();
    Codecs { list, written: compressors.written }
}

/// The same shards with other codecs for their inner chunks.
fn with_other_inner_codecs(source: &Codecs, inner: Codecs) -> Option<Codecs> {
    let mut list = source.list.clone();
    let shard = list.iter_mut().find(|codec| codec["name"] == "sharding_indexed")?;
    let codecs: Vec<Value> = inner.list.into_iter().filter(|codec| codec["name"] != "transpose").collect();
    shard["configuration"]["codecs"] = codecs.into();
    Some(Codecs { list, written: inner.written })
}

#[test]
fn blosc_frames_of_many_blocks_are_read_and_written_like_zarrs_does() {
    let chunk = |data_type, word_bytes, item_bytes, length| Chunk {
        data_type,
        word_bytes,
        item_bytes,
        shape: vec![length],
    };
    // more than a block of blosc's own choice, and not a multiple of it
    let chunks =
        [chunk("uint8", 1, 1, 300_007), chunk("int16", 2, 2, 300_007), chunk("float64", 8, 8, 100_003)];
    for (compressor, written) in [
        ("lz4", true),
        ("lz4hc", false),
        ("blosclz", false),
        ("zlib", true),
        ("zstd", true),
        ("snappy", false),
    ] {
        for (shuffle, chunk) in ["noshuffle", "shuffle", "bitshuffle"]
            .iter()
            .flat_map(|shuffle| chunks.iter().map(move |chunk| (shuffle, chunk)))
        {
            let configuration = json!({
                "cname": compressor, "clevel": 5, "shuffle": shuffle, "typesize": chunk.item_bytes, "blocksize": 0,
            });
            let mut list = vec![json!({"name": "bytes", "configuration": {"endian": "little"}})];
            list.push(json!({"name": "blosc", "configuration": configuration}));
            for texture in [Texture::Smooth, Texture::Noise] {
                assert_alike(chunk, &Codecs { list: list.clone(), written }, texture, 0x5eed_5eed_5eed);
            }
        }
    }
}

#[test]
fn filters_that_lose_precision_decode_like_zarrs_does() {
    let chunk = Chunk { data_type: "float32", word_bytes: 4, item_bytes: 4, shape: vec![7, 11] };
    let numbers: Vec<u8> = (0..77u16).flat_map(|i| (270.0 + f32::from(i) / 7.0).to_le_bytes()).collect();
    let endian = |endian: &str| json!({"name": "bytes", "configuration": {"endian": endian}});
    let scale = json!({"name": "numcodecs.fixedscaleoffset", "configuration":
        {"offset": 270.0, "scale": 10.0, "dtype": "f4", "astype": "u1"}});
    let lists = [
        vec![json!({"name": "bitround", "configuration": {"keepbits": 5}}), endian("little")],
        vec![json!({"name": "numcodecs.bitround", "configuration": {"keepbits": 9}}), endian("big")],
        vec![scale, json!({"name": "bytes"})],
    ];
    for list in lists {
        let (chain, oracle) = (chunk.chain(&list), Oracle::new(&chunk.metadata(&list)));
        let encoded = oracle.encode(&numbers);
        assert_eq!(decode(&chain, &encoded), oracle.decode(&encoded), "{list:?}");
        assert!(chain.can_encode_from(0).is_err(), "encoding again would round again");
    }
}

/// Elements without fixed size, their type and the codec that lays them out.
fn words() -> impl Strategy<Value = (Chunk, Value, Vec<Vec<u8>>)> {
    let kinds = prop::sample::select(vec![("string", "vlen-utf8"), ("bytes", "vlen-bytes")]);
    (kinds, prop::collection::vec(prop::sample::select(vec![1u64, 2, 4, 6]), 1..=2)).prop_flat_map(
        |((data_type, codec), shape)| {
            let chunk = Chunk { data_type, word_bytes: 1, item_bytes: 1, shape };
            let element = if data_type == "string" {
                "\\PC{0,20}".prop_map(String::into_bytes).boxed()
            } else {
                prop::collection::vec(any::<u8>(), 0..20).boxed()
            };
            let elements = prop::collection::vec(element, chunk.elements());
            (Just(chunk), Just(json!({"name": codec})), elements)
        },
    )
}

fn elements_of(chain: &Chain, encoded: &[u8]) -> Vec<Vec<u8>> {
    let elements =
        chain.decode_variable(&mut Scratch::new(), encoded, LIMIT).expect("zkit decodes the elements");
    elements.iter().map(<[u8]>::to_vec).collect()
}

proptest! {
    #[test]
    fn elements_of_any_length_are_read_and_written_like_zarrs_does(
        (chunk, serializer, elements) in words(),
        compressors in case::compressors(1),
    ) {
        let list: Vec<Value> = std::iter::once(serializer).chain(compressors.list).collect();
        let (chain, oracle) = (chunk.chain(&list), Oracle::new(&chunk.metadata(&list)));
        let theirs = oracle.encode_variable(&elements);
        prop_assert_eq!(&elements_of(&chain, &theirs), &elements);
        if compressors.written {
            let read = chain.decode_variable(&mut Scratch::new(), &theirs, LIMIT).expect("as above");
            let mut ours = Vec::new();
            chain.encode_variable(&mut Scratch::new(), &read, &mut ours).expect("zkit encodes the elements");
            prop_assert_eq!(&oracle.decode_variable(&ours), &elements);
        }
    }

    #[test]
    fn shards_of_elements_of_any_length_are_read_like_zarrs_does((chunk, serializer, elements) in words()) {
        let inner_shape: Vec<u64> = chunk.shape.iter().map(|length| if length.is_multiple_of(2) { length / 2 } else { 1 }).collect();
        let list = [json!({"name": "sharding_indexed", "configuration": {
            "chunk_shape": inner_shape,
            "codecs": [serializer, {"name": "zstd", "configuration": {"level": 1, "checksum": false}}],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        }})];
        let theirs = Oracle::new(&chunk.metadata(&list)).encode_variable(&elements);
        prop_assert_eq!(&elements_of(&chunk.chain(&list), &theirs), &elements);
    }
}
