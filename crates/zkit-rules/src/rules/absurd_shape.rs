//! `absurd-shape`: a shape or chunk shape is beyond what any machine holds.

use zkit_report::{Confidence, Severity};

use super::shared::report_defects;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "absurd-shape",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "a shape or chunk shape is beyond what any machine holds",
    explanation: "\
The metadata promises more chunks than can be counted, or chunks that decode to a terabyte and more. Readers
that trust it run out of memory.

On disk: shape or chunks in .zarray or zarr.json with numbers such as 2147483648 in each dimension.

Legitimate: huge arrays of small chunks that are mostly absent are common, and not meant: it is the single
chunk, or the count of chunks, that is impossible.

What to do: correct the shape or the chunk shape; if chunks are stored, their decoded size tells which was
right.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    report_defects(store, finder, "absurd-shape", "correct the shape or the chunk shape in the metadata");
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn it_is_found_at_its_array_alone() {
        let store = TestStore::new()
            .array("good", &v2_array(&[8], &[2]))
            .array("bad", &v2_array(&[1 << 40, 1 << 40], &[1, 1]));
        let found = store.findings("absurd-shape");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].array.as_deref(), Some("/bad"));
    }
}
