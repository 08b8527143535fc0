//! temporary
use zkit_core::codec::blosc::{Decoder, Header};
use zkit_core::codec::{Chain, FrameFacts, Scratch, frame_facts};
use zkit_core::metadata::{ArrayMetadata, Json, Object};
fn files(t: &str) -> Vec<(String, Vec<u8>)> {
    let dir = format!("{}/../../fuzz/corpus/{t}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some() || p.to_string_lossy().contains("zarr"))
        .map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&p).unwrap()))
        .collect()
}
fn array(n: u64) -> ArrayMetadata {
    let text = format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [{n}], "data_type": "uint8", "fill_value": 0,
            "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [{n}]}}}},
            "chunk_key_encoding": {{"name": "default"}},
            "codecs": [{{"name": "bytes"}}, {{"name": "zstd", "configuration": {{"level": 3, "checksum": false}}}}]}}"#
    );
    let Ok(Json::Object(d)) = Json::parse(text.as_bytes()) else { panic!() };
    ArrayMetadata::parse_v3("/a", d, &mut Vec::new()).unwrap()
}
#[test]
fn seeds() {
    let (mut ok, mut all, mut comp) = (0, 0, 0);
    for (_, b) in files("metadata") {
        all += 1;
        let Ok(Json::Object(d)) = Json::parse(&b) else { continue };
        let v2 = ArrayMetadata::parse_v2("/a", d.clone(), Object::default(), &mut Vec::new());
        let v3 = ArrayMetadata::parse_v3("/a", d, &mut Vec::new());
        for a in [v2, v3].into_iter().flatten() {
            ok += 1;
            if Chain::compile(&a, &a.grid.largest_chunk_shape()).is_ok() {
                comp += 1
            }
        }
    }
    println!("metadata: {all} seeds, {ok} arrays, {comp} compiled");
    let (mut ok, mut all, mut part) = (0, 0, 0);
    for (n, b) in files("blosc_frame") {
        all += 1;
        let Ok(h) = Header::parse(&b) else {
            println!("bad {n}");
            continue;
        };
        if h.nbytes > 1 << 20 {
            println!("large {n} {}", h.nbytes);
            continue;
        }
        let mut w = vec![0; h.nbytes as usize];
        let mut d = Decoder::new();
        ok += usize::from(d.decode_into(&b, &mut w).is_ok());
        let m = w.len() / 3..w.len() / 2;
        let mut p = vec![0; m.len()];
        part += usize::from(d.decode_range(&b, w.len(), m, &mut p).is_ok());
    }
    println!("blosc: {all} seeds, {ok} decode, {part} in part");
    let (mut ok, mut all) = (0, 0);
    for (n, b) in files("zstd_frame") {
        all += 1;
        let said = match frame_facts(array(1).codecs.iter(), &b) {
            Ok(FrameFacts::Zstd { content_size: Some(s), .. }) => s,
            _ => 16 * 11 * 21 * 2,
        };
        if said > 1 << 20 {
            println!("large {n}");
            continue;
        }
        let c = Chain::compile(&array(said), &[said]).unwrap();
        let mut d = vec![0; said as usize];
        ok += usize::from(c.decode_into(&mut Scratch::new(), &b, &mut d).is_ok());
    }
    println!("zstd: {all} seeds, {ok} decode");
    let text = include_str!("../../../fixtures/sharded_index_end.zarr/zarr.json");
    let Ok(Json::Object(d)) = Json::parse(text.as_bytes()) else { panic!() };
    let a = ArrayMetadata::parse_v3("/a", d, &mut Vec::new()).unwrap();
    let c = Chain::compile(&a, &[16, 8, 8]).unwrap();
    let (mut ok, mut all) = (0, 0);
    for (n, b) in files("shard_index") {
        all += 1;
        let mut out = vec![0; c.decoded_bytes().unwrap()];
        match c.decode_into(&mut Scratch::new(), &b, &mut out) {
            Ok(()) => ok += 1,
            Err(e) => println!("{n} {e}"),
        }
    }
    println!("shard: {all} seeds, {ok} decode");
}
