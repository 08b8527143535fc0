//! What people and programs are told of real stores.

use std::path::{Path, PathBuf};

use clap::Parser;
use serde_json::Value;
use zkit_core::cancel::Cancel;
use zkit_core::event::Silent;
use zkit_core::hierarchy::Hierarchy;
use zkit_core::store::StoreOptions;
use zkit_report::render::{json, text};

use crate::{InspectArgs, Run, advice, inspect};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: InspectArgs,
}

struct Answer {
    text: String,
    json: Value,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// Inspects a store; its path stands as `STORE` in the text.
fn answer(store: &Path, options: &[&str]) -> anyhow::Result<Answer> {
    let store = store.to_str().unwrap();
    let args = Line::try_parse_from(["inspect", store].iter().chain(options)).unwrap().args;
    let hierarchy = Hierarchy::open(&args.store, &StoreOptions::default())?;
    let inspection =
        inspect(&hierarchy, &args, &Run { observer: &Silent::default(), cancel: &Cancel::default() })?;
    let advised = advice::advise(&inspection);
    let mut document = Vec::new();
    json::write(&mut document, &crate::json::Output::new(&inspection, &advised))?;
    let style = text::Style { width: 110, color: false, unicode: false };
    let text = text::render(&crate::text::document(&inspection, advised), &style);
    Ok(Answer { text: text.replace(store, "STORE"), json: serde_json::from_slice(&document)? })
}

#[test]
fn a_weather_store_is_shown_at_a_glance() {
    let answer = answer(&fixture("ostia_sst.zarr"), &[]).unwrap();
    let expected = "\
store         STORE
kind          Zarr v2, in a directory
consolidated  yes, .zmetadata
arrays        5, in 1 group
decoded       3.96 MiB
stored        1.31 MiB, ratio 3.02 x
chunks        35 stored of 35 (100 %)

";
    assert!(answer.text.starts_with(expected), "{}", answer.text);
    let row = answer.text.lines().find(|line| line.contains("delta")).unwrap_or_default();
    for cell in ["int16", "1 x 180 x 360", "3.65 x", "16", "1 x 16"] {
        assert!(row.contains(cell), "{cell}: {row}");
    }
}

#[test]
fn one_array_is_shown_in_all_details() {
    let answer = answer(&fixture("sharded_index_end.zarr"), &[]).unwrap();
    let expected = "\
Array /
format         v3
shape          16 x 16 x 16
data type      int32
fill value     0
chunk          8 x 4 x 8, 1.00 KiB decoded
shard          16 x 8 x 8, 4.00 KiB decoded
codecs         sharding(8,4,8; transpose:2,1,0, bytes, blosc:lz4:5:noshuffle)
decoded        16.0 KiB
shards         4 stored; the grid is 1 x 2 x 2
stored         16.5 KiB, ratio 0.97 x
foreign files  0
orphans        0 chunks outside the grid
decode lanes   1 a chunk, 16 in the whole array

Stored sizes, 4.13 KiB to 4.13 KiB
4.00 KiB - 8.00 KiB  ########################################  4

Which shards are stored
               dimension 2 0..1
dimension 1 0  ##
            1  ##
. none stored  -+* some  # all

Frames of 4 chunks
shard indexes   4 read, 68 B each; 16 inner chunks present, 0 absent
blosc frames    16 (lz4, noshuffle)
block size      1.00 KiB
blocks a frame  1
type size       4
memcpyed        16 frames not compressed at all
";
    assert!(answer.text.ends_with(expected), "{}", answer.text);
    let array = &answer.json["arrays"][0];
    assert_eq!(array["frames"]["shard_index"]["inner_chunks_present"], 16);
    assert_eq!(array["decode_lanes"]["whole_array"], 16);
    assert_eq!(array["shard_shape"], serde_json::json!([16, 8, 8]));
}

#[test]
fn an_access_tells_what_a_read_costs() {
    let answer = answer(&fixture("era_interim_geopotential.zarr"), &["--access", "maps"]).unwrap();
    assert!(answer.text.contains("One read by maps"), "{}", answer.text);
    let reads = answer.json["arrays"].as_array().unwrap().iter().filter(|array| array.get("read").is_some());
    assert_eq!(reads.count(), 1);
}

#[test]
fn a_probe_measures_and_estimates() {
    let answer = answer(&fixture("ostia_sst.zarr"), &["--probe", "--workers", "1,4"]).unwrap();
    let probe = &answer.json["probe"];
    assert_eq!(probe["arrays"].as_array().unwrap().len(), 5);
    assert!(probe["arrays"][0]["decoded_bytes_per_second"].as_f64().unwrap() > 0.0);
    let seconds = |position: usize| probe["estimates"][position]["seconds"].as_f64().unwrap();
    assert!(seconds(0) >= seconds(1) && seconds(1) > 0.0);
    assert!(answer.text.contains("Decoding speed"), "{}", answer.text);
}

#[test]
fn a_chunk_that_does_not_decode_is_a_remark_of_the_probe() {
    let answer = answer(&fixture("faulty_zlib_bomb.zarr"), &["--probe"]).unwrap();
    let probed = answer.json["probe"]["arrays"].as_array().unwrap();
    assert!(probed.iter().any(|array| array["error"].is_string()), "{probed:?}");
}

#[test]
fn stores_of_other_kinds_are_explained() {
    for (name, kind, word) in
        [("gauges.icechunk", "icechunk", "Icechunk repository"), ("raw.n5", "n5", "N5 container")]
    {
        let answer = answer(&fixture(name), &[]).unwrap();
        assert_eq!(answer.json["store"]["kind"], kind);
        assert!(
            answer.text.contains(&format!("This is a{word}")) || answer.text.contains(word),
            "{}",
            answer.text
        );
        assert_eq!(answer.json["arrays"], serde_json::json!([]));
    }
}

#[test]
fn zip_files_and_references_are_read_where_they_lie() {
    let zip = answer(&fixture("ome_image.zip"), &[]).unwrap();
    assert_eq!(zip.json["store"]["container"], "zip");
    assert!(zip.json["arrays"].as_array().unwrap().iter().all(|array| array["chunks_stored"] != 0));
    for (name, kind) in [("air.kerchunk.json", "kerchunk-json"), ("air.kerchunk.parq", "kerchunk-parquet")] {
        let answer = answer(&fixture(name), &[]).unwrap();
        assert_eq!(answer.json["store"]["kind"], kind);
        assert!(answer.text.contains("--allow-prefix"), "{}", answer.text);
        let air = answer.json["arrays"].as_array().unwrap().iter().find(|array| array["path"] == "/air");
        assert_eq!(air.unwrap()["shape"], serde_json::json!([124, 11, 21]), "{name}");
    }
}

#[test]
fn each_depth_knows_what_it_can() {
    let arrays = |depth: &str| {
        let answer = answer(&fixture("ostia_sst.zarr"), &["--depth", depth]).unwrap();
        assert_eq!(answer.json["depth"], depth);
        answer.json["arrays"][0].clone()
    };
    let metadata = arrays("metadata");
    assert_eq!((&metadata["chunks_stored"], &metadata["decode_lanes"]), (&Value::Null, &Value::Null));
    let listing = arrays("listing");
    assert_eq!((&listing["chunks_stored"], &listing["decode_lanes"]), (&Value::from(16), &Value::Null));
    assert_eq!(arrays("headers")["decode_lanes"]["per_chunk"], 1);
}

#[test]
fn a_name_that_is_not_there_is_a_usage_error_with_similar_names() {
    let error = answer(&fixture("ostia_sst.zarr"), &["analysed_ssd"]).err().unwrap();
    let error = error.downcast::<zkit_core::error::Error>().unwrap();
    assert_eq!(error.kind(), zkit_core::error::ErrorKind::Usage);
    assert!(error.hint().unwrap().contains("`/analysed_sst`"), "{:?}", error.hint());
}

#[test]
fn names_in_a_store_cannot_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = r#"{"zarr_format":3,"node_type":"array","shape":[2],"data_type":"int8","fill_value":0,"codecs":[{"name":"bytes"}],
        "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2]}},"chunk_key_encoding":{"name":"default"},
        "attributes":{"a\u001b[2Jb":"c\u001b]0;owned\u0007"},"dimension_names":["x\u009b31m"]}"#;
    std::fs::write(folder.path().join("zarr.json"), metadata).unwrap();
    let text = answer(folder.path(), &[]).unwrap().text;
    assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{7}']), "{text}");
    assert!(text.contains("a\\u{1b}[2Jb"), "{text}");
}

#[test]
fn an_empty_folder_is_no_empty_store() {
    let folder = tempfile::tempdir().unwrap();
    let answer = answer(folder.path(), &[]).unwrap();
    assert_eq!(answer.json["store"]["kind"], "unknown");
    assert!(answer.text.contains("No Zarr metadata was found"), "{}", answer.text);
}
