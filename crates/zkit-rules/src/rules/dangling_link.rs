//! `dangling-link`: a link inside the store leads to nothing.

use std::collections::BTreeSet;

use zkit_core::engine::ChunkFault;
use zkit_report::{Confidence, Severity};

use super::shared::{report_defects, report_faults, report_keys};
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "dangling-link",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "a link inside the store leads to nothing",
    explanation: "\
A chunk, a document, a folder, or a whole store of a cache, is a symbolic link whose target does not exist: a datalad or git-annex clone
without content, a store copied away from the pool that its links point to, a mount that is gone. The data
is not missing: it cannot be reached.

On disk: lstat finds a link, stat fails.

Legitimate: none; readers that ignore the difference return fill values.

What to do: fetch the content (git annex get .), mount what is not mounted, or copy the store again with
links resolved (cp -L).",
    check: Check::Store(check),
};

/// Documents that speak of the node that they lie in.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zarray", ".zgroup", ".zattrs", "attributes.json"];

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let remedy = "fetch the content (git annex get .), or copy the store again with links resolved (cp -L)";
    report_defects(store, finder, "dangling-link", remedy);
    report_faults(store, finder, ChunkFault::DanglingLink, ("leads to nothing", remedy), |_, _| {});
    let told = |key: &String| {
        store.hierarchy.defects.iter().any(|defect| defect.path.trim_start_matches('/') == key)
    };
    // where reading a document failed, its node was told
    let nodes: BTreeSet<&str> = store.defects("dangling-link").map(|defect| defect.path.as_str()).collect();
    for key in store.files.iter().flat_map(|files| &files.dangling.examples) {
        let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
        if DOCUMENTS.contains(&name) && !nodes.contains(format!("/{prefix}").as_str()) {
            let message = format!("its {name} is a link that leads to nothing");
            finder.array(&format!("/{prefix}"), message).remedy(remedy);
        }
    }
    let told = |key: &String| told(key) || DOCUMENTS.contains(&key.rsplit('/').next().unwrap_or(key));
    if let Some(files) = store.files.as_ref().filter(|files| !files.dangling.examples.iter().all(told)) {
        report_keys(finder, None, &files.dangling, ("links lead to nothing", remedy));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn links_of_chunks_and_folders_that_lead_to_nothing_are_found() {
        let store = TestStore::new()
            .array("a", &v2_array(&[8], &[2]))
            .link("a/1", "../pool/1")
            .link("b", "../b.zarr");
        let found = store.findings("dangling-link");
        let paths: Vec<_> = found.iter().map(|finding| finding.array.as_deref()).collect();
        assert_eq!(paths, [Some("/b"), Some("/a")]);
        assert!(store.findings("metadata-only-array").is_empty(), "what cannot be reached is not missing");
    }

    #[test]
    fn a_document_that_leads_to_nothing_is_told_at_its_node() {
        let store = TestStore::new().file("q/0", &[0; 8]).link("q/.zarray", "../pool/zarray");
        let found = store.findings("dangling-link");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].array.as_deref(), Some("/q"));
        assert!(found[0].message.ends_with("a link to ../pool/zarray, which does not exist"), "{found:?}");
        assert_eq!(store.findings("unreadable"), []);
    }
}
