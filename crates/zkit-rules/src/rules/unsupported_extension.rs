//! `unsupported-extension`: an array uses an extension of Zarr v3 that zkit does not know.

use zkit_report::{Confidence, Severity};

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
wrong with it. That is a warning; a data type of another registry is a note.

What to do: audit the array with the program that wrote it.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for defect in store.defects("unsupported-extension") {
        // elements of a type that is not known can still be told to be there or absent by those who know it; where chunks
        // lie, or what else must be understood, makes every other reader refuse the array
        let severity =
            if defect.message.starts_with("data type ") { Severity::Info } else { Severity::Warning };
        finder
            .array(&defect.path, &defect.message)
            .severity(severity)
            .remedy("audit it with the program that wrote it");
    }
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
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
        assert_eq!(store.findings("malformed-metadata").len(), 0);
    }

    #[test]
    fn a_grid_or_a_field_that_must_be_understood_is_a_warning() {
        let array = |grid: &str, more: &str| {
            format!(
                r#"{{"zarr_format":3,"node_type":"array","shape":[4],"data_type":"uint8","fill_value":0,
                "chunk_grid":{{"name":"{grid}","configuration":{{"chunk_shape":[2]}}}},
                "chunk_key_encoding":{{"name":"default"}},"codecs":[{{"name":"bytes"}}]{more}}}"#
            )
        };
        for text in [array("hexagonal", ""), array("regular", r#","x":{"name":"y"}"#)] {
            let found =
                TestStore::bare().file("zarr.json", text.as_bytes()).findings("unsupported-extension");
            assert_eq!((found.len(), found[0].severity), (1, Severity::Warning), "{text}");
        }
    }
}
