//! Any bytes as a zip file: opened, listed, and each member that holds metadata read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use zkit_core::hierarchy::Hierarchy;

const MEMBER_BYTES_MOST: u64 = 1 << 20;

thread_local! {
    static FOLDER: TempDir = tempfile::tempdir().expect("a temporary folder");
}

fuzz_target!(|data: &[u8]| {
    FOLDER.with(|folder| {
        let path = folder.path().join("a.zip");
        std::fs::write(&path, data).expect("the file can be written");
        let Ok(hierarchy) = Hierarchy::open_zip_or_damage(&path) else { return };
        let Some(store) = &hierarchy.store else { return };
        let mut keys = Vec::new();
        let _ = store.list("", &mut |object| keys.push(object.key.to_owned()));
        let mut buffer = Vec::new();
        for key in keys {
            let _ = store.get(&key, MEMBER_BYTES_MOST, &mut buffer);
            let _ = store.get_range(&key, 1, 7, &mut buffer);
            assert!(buffer.len() as u64 <= MEMBER_BYTES_MOST, "no member is larger than asked for");
        }
    });
});
