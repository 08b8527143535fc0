//! `corrupt-archive`: a zip file is damaged, so that not all of its store can be read.

use zkit_core::engine::ChunkFault;
use zkit_report::{Confidence, Severity};

use super::shared::{report_defects, report_faults};
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

On disk: no end of central directory in the last 64 KiB, or offsets beyond the end of the file; or a member whose checksum
or length is another than the directory says.

Legitimate: none.

What to do: copy the file again and compare its size; zip -FF may save what is left.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let remedy = "copy the file again; `zip -FF` may save what is left";
    report_defects(store, finder, "corrupt-archive", remedy);
    report_faults(store, finder, ChunkFault::Damaged, ("is damaged", remedy), |_, _| {});
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array, zip_of};

    #[test]
    fn a_zip_file_that_was_cut_off_is_told() {
        let whole = zip_of(&[(".zgroup", br#"{"zarr_format":2}"#)]);
        let cut = TestStore::bare().file("a.zip", &whole[..whole.len() - 9]);
        assert_eq!(cut.zip_findings("corrupt-archive").len(), 1);
        assert!(cut.file("a.zip", &whole).zip_findings("corrupt-archive").is_empty());
    }

    #[test]
    fn a_member_whose_checksum_differs_is_damaged_and_not_unreadable() {
        let zlib = r#""compressor":{"id":"zlib","level":1}"#;
        let array = v2_array(&[4], &[2]).replace(r#""compressor":null"#, zlib);
        let members = [(".zarray", array.as_bytes()), ("0", &[1; 8]), ("1", &[2; 8])];
        let mut bytes = zip_of(&members);
        let chunk = bytes.windows(8).position(|window| window == [2; 8]).unwrap();
        bytes[chunk] ^= 1;
        let store = TestStore::bare().file("a.zip", &bytes);
        let found = store.zip_findings("corrupt-archive");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].first, [1]);
        assert!(store.zip_findings("unreadable").is_empty());
    }
}
