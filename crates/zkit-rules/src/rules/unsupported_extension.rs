//! `unsupported-extension`: an array uses an extension of Zarr v3 that zkit does not know.

use zkit_report::{Confidence, Severity};

use super::shared::report_defects;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "unsupported-extension",
    severity: Severity::Warning,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "an array uses an extension of Zarr v3 that zkit does not know",
    explanation: "\
The data type, chunk grid, key encoding or another field is an extension that must be understood, and zkit
does not know it. The array is named and not audited.

On disk: an object with a `name` of its own in zarr.json.

Legitimate: for readers that know the extension; every other one must refuse the array, and zkit cannot say what is
wrong with it. That is a warning.

What to do: audit the array with the program that wrote it.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    report_defects(store, finder, "unsupported-extension", "audit it with the program that wrote it");
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::TestStore;

    #[test]
    fn an_unknown_data_type_of_v3_is_no_fault() {
        let zarr_json = br#"{"zarr_format":3,"node_type":"array","shape":[4],"data_type":{"name":"optional","configuration":{}},
            "fill_value":null,"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2]}},
            "chunk_key_encoding":{"name":"default"},"codecs":[{"name":"bytes"}]}"#;
        let store = TestStore::bare().file("zarr.json", zarr_json);
        let found = store.findings("unsupported-extension");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert_eq!(store.findings("malformed-metadata").len(), 0);
    }
}
