//! `pointer-file`: a file is a pointer of git-lfs, git-annex or DVC to data that is somewhere else.

use zkit_core::engine::ChunkFault;
use zkit_report::{Confidence, Severity};

use super::shared::{report_blocks, report_defects, report_faults, report_keys};
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "pointer-file",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "a file is a pointer of git-lfs, git-annex or DVC to data that is somewhere else",
    explanation: "\
The store was cloned or copied without its content: what stands under a key is a few lines that name the
real file. Readers fail on it; on metadata they do not even see a store.

On disk: files below 1 KiB that begin with `version https://git-lfs.github.com/spec/`, with /annex/objects/,
or a .dvc file beside nothing; in the folder of a cache, NAME.zarr.dvc where NAME.zarr is not there.

Legitimate: none inside a store. git-annex links whose target is absent are `dangling-link`.

What to do: fetch the content: git lfs pull, git annex get ., dvc pull.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let remedy = "fetch the content: git lfs pull, git annex get . or dvc pull";
    report_defects(store, finder, "pointer-file", remedy);
    report_faults(
        store,
        finder,
        ChunkFault::Pointer,
        ("is a pointer to data that is somewhere else", remedy),
        |_, _| {},
    );
    let what = "pointers to data that is somewhere else";
    report_blocks(store, finder, ChunkFault::Pointer, (what, remedy));
    let Some(files) = &store.files else { return };
    if let Some(keys) = &files.pointers {
        report_keys(finder, None, keys, ("files are pointers to content that is somewhere else", remedy));
    }
    let present = |key: &String| {
        let name = key.trim_end_matches(".dvc");
        store.hierarchy.array(name).is_some()
            || store.hierarchy.groups.iter().any(|group| group.path.trim_start_matches('/') == name)
    };
    if files.pointers.is_none() && !files.sidecars.examples.iter().all(present) {
        report_keys(finder, None, &files.sidecars, ("sidecars of DVC name data that is not here", remedy));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4096\n";

    #[test]
    fn pointers_are_found_in_place_of_metadata_and_of_chunks() {
        let store = TestStore::new()
            .file("b/.zarray", POINTER)
            .array("a", &v2_array(&[800], &[200]))
            .file("a/1", POINTER)
            .file("a/2", POINTER);
        let found = store.findings("pointer-file");
        let paths: Vec<_> = found.iter().map(|finding| finding.array.as_deref()).collect();
        assert_eq!(paths, [Some("/b"), Some("/a")]);
        assert_eq!(found[1].chunks.as_ref().unwrap()[0].last, [2]);
    }

    #[test]
    fn a_folder_of_sidecars_of_dvc_was_not_fetched() {
        let store = TestStore::bare().file("t2m.zarr.dvc", b"outs:\n- path: t2m.zarr\n");
        let found = store.findings("pointer-file");
        assert_eq!((found.len(), store.findings("not-zarr").len()), (1, 0));
        assert!(found[0].message.starts_with("t2m.zarr.dvc names data"), "{}", found[0].message);
    }
}
