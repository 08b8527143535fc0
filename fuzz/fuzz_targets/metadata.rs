//! Any bytes as the metadata of an array: parsed, written again, compiled to codecs, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zkit_core::codec::Chain;
use zkit_core::metadata::{ArrayMetadata, Json, Object};

fuzz_target!(|data: &[u8]| {
    let Ok(json) = Json::parse(data) else { return };
    assert_eq!(
        Json::parse(json.to_string().as_bytes()).as_ref(),
        Ok(&json),
        "written JSON reads back as it was"
    );
    let Json::Object(document) = json else { return };
    let mut defects = Vec::new();
    let v2 = ArrayMetadata::parse_v2("/a", document.clone(), Object::default(), &mut defects);
    let v3 = ArrayMetadata::parse_v3("/a", document, &mut defects);
    for array in [v2, v3].into_iter().flatten() {
        let _ = Chain::compile(&array, &array.chunk_shape());
        let _ =
            (array.decoded_bytes(), array.chunk_decoded_bytes(), array.codecs_json(), array.unknown_codecs());
        let _ = array.fill_value.to_v3(&array.data_type);
        let _ = (array.data_type.to_v2(), array.data_type.to_v3());
    }
});
