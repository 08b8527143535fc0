//! Any bytes as a zstd chunk: decoded into buffers of fixed size, through a compiled chain.

#![no_main]

use std::cell::RefCell;
use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use zkit_core::codec::{Chain, FrameFacts, Scratch, frame_facts};
use zkit_core::metadata::{ArrayMetadata, Json};

const LARGEST: u64 = 1 << 20;
/// The chunk size of the fixtures whose frames do not say it.
const USUAL: u64 = 16 * 11 * 21 * 2;

/// A `uint8` array of one dimension and one chunk.
fn array(chunk_bytes: u64) -> ArrayMetadata {
    let text = format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [{chunk_bytes}], "data_type": "uint8", "fill_value": 0,
            "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [{chunk_bytes}]}}}},
            "chunk_key_encoding": {{"name": "default"}},
            "codecs": [{{"name": "bytes"}}, {{"name": "zstd", "configuration": {{"level": 3, "checksum": false}}}}]}}"#
    );
    let Ok(Json::Object(document)) = Json::parse(text.as_bytes()) else {
        panic!("the text above is an object")
    };
    ArrayMetadata::parse_v3("/a", document, &mut Vec::new()).expect("the text above is metadata")
}

fn chain(chunk_bytes: u64) -> Chain {
    Chain::compile(&array(chunk_bytes), &[chunk_bytes]).expect("the codecs above are known")
}

thread_local! {
    static CHAINS: RefCell<HashMap<u64, Chain>> = RefCell::default();
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

fuzz_target!(|data: &[u8]| {
    let said = match frame_facts(array(1).codecs.iter(), data) {
        Ok(FrameFacts::Zstd { content_size: Some(size), .. }) => size,
        _ => USUAL,
    };
    for chunk_bytes in [said, USUAL] {
        if chunk_bytes == 0 || chunk_bytes > LARGEST {
            continue;
        }
        CHAINS.with_borrow_mut(|chains| {
            let chain = chains.entry(chunk_bytes).or_insert_with(|| chain(chunk_bytes));
            let mut decoded = vec![0; chunk_bytes as usize];
            let middle = decoded.len() / 3..decoded.len() / 2;
            let mut part = vec![0; middle.len()];
            SCRATCH.with_borrow_mut(|scratch| {
                let is_whole = chain.decode_into(scratch, data, &mut decoded).is_ok();
                let is_part = chain.decode_range(scratch, data, middle.clone(), &mut part).is_ok();
                if is_whole {
                    assert!(is_part, "a range of a sound chunk decodes");
                    assert_eq!(part, decoded[middle], "a range is what the whole holds there");
                }
            });
        });
    }
});
