//! Any bytes as an N5 dataset: the attributes up to the first NUL, behind it a block.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use zkit_core::engine::{Closeness, read_n5};
use zkit_core::location::StoreUrl;
use zkit_core::store::{Store, StoreOptions};

thread_local! {
    static FOLDER: TempDir = tempfile::tempdir().expect("a temporary folder");
}

fuzz_target!(|data: &[u8]| {
    let at = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let (attributes, block) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    FOLDER.with(|folder| {
        let dataset = folder.path().join("a");
        std::fs::create_dir_all(dataset.join("0")).expect("the folder can be made");
        std::fs::write(dataset.join("attributes.json"), attributes).expect("the file can be written");
        std::fs::write(dataset.join("1"), block).expect("the file can be written");
        std::fs::write(dataset.join("0/0"), block).expect("the file can be written");
        let url = StoreUrl::Local(folder.path().to_owned());
        let store = Store::open(&url, &StoreOptions::default()).expect("the folder is there");
        let found = read_n5(&store, Some(Closeness::Headers)).expect("nothing hinders reading");
        for dataset in &found.datasets {
            assert!(dataset.faulty.len() as u64 <= dataset.blocks, "a block is faulty in one way");
        }
    });
});
