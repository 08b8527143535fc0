//! Any bytes as a shard: its index read and its inner chunks decoded, with the metadata of a real array.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use zkit_core::codec::{Chain, Scratch};
use zkit_core::metadata::{ArrayMetadata, Json};

const METADATA: &str = include_str!("../../fixtures/sharded_index_end.zarr/zarr.json");
const CRC32C: &str = r#"{"name":"crc32c"}"#;
const CRC32C_BYTES: usize = 4;

/// The chain of the fixture; without the checksum over the index, which a fuzzer does not guess.
fn chain(has_checksum: bool) -> Chain {
    let json = Json::parse(METADATA.as_bytes()).expect("the fixture's metadata is JSON");
    let text: String = json.to_string().split_whitespace().collect();
    assert!(text.contains(CRC32C), "the fixture's index has a checksum");
    let text = if has_checksum { text } else { text.replace(&format!(",{CRC32C}"), "") };
    let Ok(Json::Object(document)) = Json::parse(text.as_bytes()) else { panic!("metadata is an object") };
    let array =
        ArrayMetadata::parse_v3("/a", document, &mut Vec::new()).expect("the fixture's metadata is sound");
    let shard_shape = [16, 8, 8];
    Chain::compile(&array, &shard_shape).expect("the fixture's codecs are known")
}

thread_local! {
    static CHAINS: [Chain; 2] = [chain(true), chain(false)];
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

fuzz_target!(|data: &[u8]| {
    let without_checksum = &data[..data.len().saturating_sub(CRC32C_BYTES)];
    CHAINS.with(|chains| {
        for (chain, shard) in chains.iter().zip([data, without_checksum]) {
            let mut decoded = vec![0; chain.decoded_bytes().expect("int32 elements have a size")];
            let _ = SCRATCH.with_borrow_mut(|scratch| chain.decode_into(scratch, shard, &mut decoded));
        }
    });
});
