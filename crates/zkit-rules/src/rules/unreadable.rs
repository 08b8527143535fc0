//! `unreadable`: something is there and could not be read.

use std::collections::BTreeMap;

use zkit_core::engine::ChunkFault;
use zkit_core::metadata::Defect;
use zkit_report::{Confidence, Severity, format};

use super::shared::{draft_of, report_faults, report_keys, with_chunks};
use crate::boxes::Runs;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};
use crate::values::seen;

pub(crate) const RULE: Rule = Rule {
    id: "unreadable",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "something is there and could not be read",
    explanation: "\
An input error, a refused permission, a time-out, too many requests, a FIFO where a file is expected:
whatever it is, it was not seen. It is never taken for missing, and the audit is not complete.

On disk: files with permissions that let nobody read them; devices and sockets; directories that cannot be
listed; a dead mount.

Legitimate: none.

What to do: restore permissions (chmod -R a+rX), remount, raise --timeout; then audit again.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let remedy = "restore access to it (chmod -R a+rX, a mount, credentials), then audit again";
    report_nodes(store, finder, remedy);
    report_faults(store, finder, ChunkFault::Unreadable, ("could not be read", remedy), |_, _| {});
    report_faults(store, finder, ChunkFault::Special, ("is no file", remedy), |_, _| {});
    report_faults(store, finder, ChunkFault::Locked, ("cannot be read", remedy), |_, _| {});
    report_unread_values(store, finder, remedy);
    for array in &store.arrays {
        let Some(listing) = array.survey.as_ref().and_then(|survey| survey.listing.as_ref()) else {
            continue;
        };
        let what = "permission denied to its metadata";
        report_keys(finder, Some(array.path()), &listing.locked, (what, remedy));
    }
    for array in &store.arrays {
        let Some(survey) = &array.survey else { continue };
        let what = "folders of its chunks are links that lead nowhere, out of the store, or in a circle";
        let remedy = "put the folders themselves in the place of the links, then audit again";
        report_keys(finder, Some(array.path()), &survey.unread_folders, (what, remedy));
    }
    let Some(files) = &store.files else { return };
    report_keys(finder, None, &files.locked, ("permission denied to metadata", remedy));
    if let Some(why) = &files.unlisted {
        finder.store(format!("the store could not be listed whole: {why}")).remedy(remedy);
    }
}

/// Reports chunks that could not be read when they were to be decoded, and of which nothing was known before.
fn report_unread_values(store: &StoreObservation<'_>, finder: &mut Finder<'_>, remedy: &str) {
    const KNOWN: [ChunkFault; 5] = [
        ChunkFault::Unreadable,
        ChunkFault::Special,
        ChunkFault::Locked,
        ChunkFault::DanglingLink,
        ChunkFault::OutsideLink,
    ];
    for (array, values) in seen(store) {
        let faults: Vec<_> = array.survey.iter().flat_map(|survey| &survey.faults).collect();
        let known = |position: u64| {
            faults.iter().any(|faulty| KNOWN.contains(&faulty.fault) && faulty.chunks.contains(position))
        };
        let unread: Vec<u64> = values.unreadable.stored.iter().filter(|&position| !known(position)).collect();
        let Some(&first) = unread.first() else { continue };
        let example = values.unreadable.examples.iter().find(|unit| unit.position == first);
        let why = example.map_or("it was not read", |unit| unit.reason.as_str());
        let message = match unread.len() {
            1 => format!("chunk `{}` could not be read: {why}", array.chunk_key(first)),
            count => format!(
                "{} could not be read; the first, `{}`: {why}",
                format::counted(count as u64, "chunk", "chunks"),
                array.chunk_key(first)
            ),
        };
        let draft = finder.array(array.path(), message).remedy(remedy);
        with_chunks(draft, array, &Runs::of_sorted(unread));
    }
}

/// Reports nodes that cannot be read: of what fails in one of them the first, and how much more.
fn report_nodes(store: &StoreObservation<'_>, finder: &mut Finder<'_>, remedy: &str) {
    let mut of_node: BTreeMap<&str, Vec<&Defect>> = BTreeMap::new();
    for defect in store.defects("unreadable") {
        of_node.entry(&defect.path).or_default().push(defect);
    }
    for defects in of_node.into_values() {
        let [first, more @ ..] = &defects[..] else { continue };
        let draft = draft_of(store, finder, first).remedy(remedy);
        if !more.is_empty() {
            let messages: Vec<&str> = more.iter().map(|defect| defect.message.as_str()).collect();
            draft.evidence("also", messages);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn a_node_that_cannot_be_read_is_one_finding() {
        let v3 = r#"{"zarr_format":3,"node_type":"array","shape":[8],"data_type":"uint8","fill_value":0,
            "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2]}},
            "chunk_key_encoding":{"name":"default"},"codecs":[{"name":"bytes"}]}"#;
        let store = TestStore::new().file("a/zarr.json", v3.as_bytes());
        for name in ["a/.zarray", "b"] {
            std::os::unix::fs::symlink(name.rsplit('/').next().unwrap(), store.path().join(name)).unwrap();
        }
        let found = store.findings("unreadable");
        assert_eq!(
            found.iter().filter(|finding| finding.array.as_deref() == Some("/a")).count(),
            1,
            "{found:?}"
        );
    }

    #[test]
    fn a_folder_of_chunks_that_is_a_link_in_a_circle_is_unreadable_and_no_slab() {
        let slashed = v2_array(&[8, 2], &[2, 1]).replacen('{', r#"{"dimension_separator":"/","#, 1);
        let store = || {
            let store = TestStore::new().array("a", &slashed);
            let keys = (0..3).flat_map(|row| (0..2).map(move |column| format!("a/{row}/{column}")));
            keys.fold(store, |store, key| store.file(&key, &[1; 8]))
        };
        for target in ["../a", "3", "nowhere"] {
            let store = store().link("a/3", target);
            let found = store.findings("unreadable");
            assert_eq!(found.len(), 1, "{target}: {found:?}");
            assert!(found[0].message.ends_with("or in a circle: `3`"), "{}", found[0].message);
            assert_eq!(store.findings("missing-slab"), [], "{target}");
            assert_eq!(store.findings("absent-chunks"), [], "{target}");
        }
        assert_eq!(store().findings("missing-slab").len(), 1);
    }

    #[test]
    fn permissions_that_let_nobody_read_are_seen_even_by_a_superuser() {
        use std::os::unix::fs::PermissionsExt as _;
        let store = TestStore::new().array("a", &v2_array(&[8], &[2])).file("a/1", &[0; 8]);
        let locked = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(store.path().join("a/1"), locked.clone()).unwrap();
        assert_eq!(store.findings("unreadable")[0].chunks.as_ref().unwrap()[0].first, [1]);
        std::fs::set_permissions(store.path().join("a/.zarray"), locked).unwrap();
        assert!(store.findings("unreadable").iter().any(|finding| finding.array.as_deref() == Some("/a")));
    }
}
