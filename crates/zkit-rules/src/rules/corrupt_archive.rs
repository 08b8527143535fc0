//! `corrupt-archive`: a zip file is damaged, so that not all of its store can be read.

use zkit_report::{Confidence, Severity};

use super::shared::report_defects;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "corrupt-archive",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "a zip file is damaged, so that not all of its store can be read",
    explanation: "\
The zip file was cut off, or its central directory leads outside of it. Readers cannot open the store, or
lose members of it.

On disk: no end of central directory in the last 64 KiB, or offsets beyond the end of the file.

Legitimate: none.

What to do: copy the file again and compare its size; zip -FF may save what is left.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    report_defects(store, finder, "corrupt-archive", "copy the file again; `zip -FF` may save what is left");
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, zip_of};

    #[test]
    fn a_zip_file_that_was_cut_off_is_told() {
        let whole = zip_of(&[(".zgroup", br#"{"zarr_format":2}"#)]);
        let cut = TestStore::bare().file("a.zip", &whole[..whole.len() - 9]);
        assert_eq!(cut.zip_findings("corrupt-archive").len(), 1);
        assert!(cut.file("a.zip", &whole).zip_findings("corrupt-archive").is_empty());
    }
}
