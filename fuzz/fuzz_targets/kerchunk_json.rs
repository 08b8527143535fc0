//! Any bytes as kerchunk references in JSON: read, surveyed, and each key that they name asked for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use zkit_core::engine::survey_references;
use zkit_core::hierarchy::Hierarchy;

thread_local! {
    static FOLDER: TempDir = tempfile::tempdir().expect("a temporary folder");
}

fuzz_target!(|data: &[u8]| {
    FOLDER.with(|folder| {
        let path = folder.path().join("refs.json");
        std::fs::write(&path, data).expect("the file can be written");
        let Ok((hierarchy, references)) = Hierarchy::read_references(&path) else { return };
        let arrays: Vec<_> = hierarchy.arrays.iter().collect();
        assert_eq!(survey_references(&arrays, &references).len(), arrays.len());
        for reference in &references.references {
            let found = references.locate(&reference.key);
            assert!(found.is_some(), "what is named is found");
        }
    });
});
