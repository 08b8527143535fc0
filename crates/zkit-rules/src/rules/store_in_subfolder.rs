//! `store-in-subfolder`: the store does not lie at the root of its zip file.

use zkit_core::store::Store;
use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "store-in-subfolder",
    severity: Severity::Warning,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "the store does not lie at the root of its zip file",
    explanation: "\
The folder of the store was zipped, not what it holds: readers that open the zip file look for metadata at
its root, and find nothing.

On disk: all members of the zip file begin with the same folder, often beside __MACOSX/.

Legitimate: archives that are meant to be unpacked.

What to do: zip it again from inside: cd STORE.zarr && zip -0 -r ../STORE.zarr.zip .",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let Some(Store::Zip(zip)) = &store.hierarchy.store else { return };
    // an archive of one folder is how people zip; only what came along by accident makes it one
    let accident = !zip.outside().is_empty();
    if !zip.prefix().is_empty() {
        finder
            .store(format!(
                "the store lies in the folder `{}` of the zip file, not at its root",
                zip.prefix()
            ))
            .severity(if accident { Severity::Warning } else { Severity::Info })
            .evidence("folder", zip.prefix())
            .remedy("zip it again from inside: cd STORE.zarr && zip -0 -r ../STORE.zarr.zip .");
    }
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, zip_of};

    #[test]
    fn a_folder_beside_junk_is_told_and_one_at_the_root_is_not() {
        let severities = |members: &[(&str, &[u8])]| -> Vec<Severity> {
            let found = TestStore::bare().file("a.zip", &zip_of(members)).zip_findings("store-in-subfolder");
            found.into_iter().map(|finding| finding.severity).collect()
        };
        let group: &[u8] = br#"{"zarr_format":2}"#;
        assert_eq!(severities(&[("s.zarr/.zgroup", group), ("__MACOSX/x", b"x")]), [Severity::Warning]);
        assert_eq!(severities(&[("s.zarr/.zgroup", group)]), [Severity::Info]);
        assert!(severities(&[(".zgroup", group)]).is_empty());
    }
}
