//! Any bytes as one file of kerchunk references in parquet: rows or an error, never more rows than a file may have.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use zkit_core::hierarchy::Hierarchy;
use zkit_core::location::StoreUrl;
use zkit_core::store::{Store, StoreOptions};

const ROWS: usize = 4;
const METADATA: &str = r#"{"record_size":4,"metadata":{".zgroup":{"zarr_format":2}}}"#;

thread_local! {
    static FOLDER: TempDir = tempfile::tempdir().expect("a temporary folder");
}

fuzz_target!(
    // zkit catches panics of the parser; the usual hook would end the run at them
    init: std::panic::set_hook(Box::new(|_| ())),
    |data: &[u8]| {
    FOLDER.with(|folder| {
        std::fs::write(folder.path().join(".zmetadata"), METADATA).expect("the file can be written");
        std::fs::write(folder.path().join("refs.0.parq"), data).expect("the file can be written");
        let url = StoreUrl::Local(folder.path().to_owned());
        let store = Store::open(&url, &StoreOptions::default()).expect("the folder is there");
        let (_, references) =
            Hierarchy::read_parquet_references(&url, store).expect("the metadata above is sound");
        if let Ok(Some(rows)) = references.read_record("refs.0.parq") {
            assert!(rows.len() <= ROWS, "{} rows", rows.len());
        }
    });
});
