//! `consolidated-missing`: a store of many arrays has no consolidated metadata, so that opening it takes as many requests.

use zkit_core::hierarchy::{Consolidated, StoreKind};
use zkit_report::format;
use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "consolidated-missing",
    severity: Severity::Info,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "a store of many arrays has no consolidated metadata, so that opening it takes as many requests",
    explanation: "\
Without .zmetadata (v2) or inline consolidated metadata (v3), readers list every group and read two or three
documents an array. In a bucket that takes minutes.

On disk: no .zmetadata beside the root's .zgroup; no consolidated_metadata in the root's zarr.json.

Legitimate: stores that are still being written, and small ones.

What to do: python -c \"import zarr; zarr.consolidate_metadata('STORE')\".",
    check: Check::Store(check),
};

/// Stores of fewer arrays open quickly anyway.
const ARRAYS_LEAST: usize = 20;

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let hierarchy = store.hierarchy;
    let arrays = hierarchy.arrays.len();
    let readable = hierarchy.kind == StoreKind::Zarr && hierarchy.store.is_some();
    if !readable || hierarchy.consolidated != Consolidated::None || arrays < ARRAYS_LEAST {
        return;
    }
    let arrays = format::counted(arrays as u64, "array", "arrays");
    finder
        .store(format!("no consolidated metadata: opening its {arrays} takes several requests for each"))
        .remedy(format!("python -c \"import zarr; zarr.consolidate_metadata('{}')\"", hierarchy.url));
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn only_stores_of_many_arrays_are_told() {
        let with = |arrays: usize| {
            (0..arrays)
                .fold(TestStore::new(), |store, at| store.array(&format!("a{at}"), &v2_array(&[4], &[2])))
        };
        assert_eq!(with(20).findings("consolidated-missing").len(), 1);
        assert_eq!(with(19).findings("consolidated-missing").len(), 0);
    }
}
