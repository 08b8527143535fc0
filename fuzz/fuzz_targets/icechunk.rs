//! Any bytes as the flatbuffers of an Icechunk repository: a snapshot up to the middle, behind it a manifest.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use zkit_core::engine::Repository;
use zkit_core::location::StoreUrl;
use zkit_core::store::{Store, StoreOptions};

/// Magic, the writer's name, version, type, and no compression: behind it the flatbuffer begins.
const HEADER: [u8; 39] = *b"ICE\xf0\x9f\xa7\x8aCHUNKfuzz                    \x01\x01\0";

thread_local! {
    static FOLDER: TempDir = tempfile::tempdir().expect("a temporary folder");
}

fuzz_target!(|data: &[u8]| {
    let (snapshot, manifest) = data.split_at(data.len() / 2);
    FOLDER.with(|folder| {
        for (kind, body) in [("snapshots", snapshot), ("manifests", manifest)] {
            std::fs::create_dir_all(folder.path().join(kind)).expect("the folder can be made");
            let object = [&HEADER[..], body].concat();
            std::fs::write(folder.path().join(kind).join("00000000000000000000"), object)
                .expect("the file can be written");
        }
        let url = StoreUrl::Local(folder.path().to_owned());
        let store = Store::open(&url, &StoreOptions::default()).expect("the folder is there");
        let found = Repository::read(&store).expect("the folder can be listed");
        assert_eq!(found.objects, 2, "both objects are looked into");
    });
});
