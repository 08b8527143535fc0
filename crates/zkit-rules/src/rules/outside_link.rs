//! `outside-link`: a link leads out of the store.

use zkit_core::engine::ChunkFault;
use zkit_report::{Confidence, Severity};

use super::shared::{report_defects, report_faults, report_keys};
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "outside-link",
    severity: Severity::Warning,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "a link leads out of the store",
    explanation: "\
Chunks or folders are links to files outside: a pool that deduplicates, a sibling store. The store is
readable here, and a copy of it alone is not. zkit does not follow such links unless asked: a store from
elsewhere must not name files of this machine.

On disk: symbolic links with absolute targets, or with more .. than folders.

Legitimate: on purpose, while the pool is there.

What to do: pass --follow-links to audit what they lead to; copy with links resolved (cp -L, rsync
--copy-links).",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let remedy = "pass --follow-links if you trust them; copy with links resolved (cp -L)";
    report_defects(store, finder, "outside-link", remedy);
    report_faults(store, finder, ChunkFault::OutsideLink, ("lies outside of the store", remedy), |_, _| {});
    let told = |key: &String| {
        store.hierarchy.defects.iter().any(|defect| defect.path.trim_start_matches('/') == key)
    };
    if let Some(files) = store.files.as_ref().filter(|files| !files.outside.examples.iter().all(told)) {
        report_keys(finder, None, &files.outside, ("links lead out of the store", remedy));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn chunks_in_a_pool_outside_are_neither_missing_nor_trusted() {
        let store = TestStore::new().array("a", &v2_array(&[8], &[2])).link("a/1", "/etc/hostname");
        let found = store.findings("outside-link");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].first, [1]);
        assert!(store.findings("metadata-only-array").is_empty());
    }
}
