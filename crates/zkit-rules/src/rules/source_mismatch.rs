//! `source-mismatch`: a store differs from the one that it was written from.

use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::packing::Packing;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "source-mismatch",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "a store differs from the one that it was written from",
    explanation: "\
A slice or a copy is compared with its source (--against URL): an array that the source does not have, another data
type, a dimension that is longer than in the source, dimensions of another name.

On disk: the metadata of both stores, array by array, by path.

Legitimate: a slice has fewer arrays and shorter dimensions than its source; neither is reported. Chunks and codecs may
differ, and are not compared. Numbers that were packed or unpacked on the way have another type; this is a note. Ids and values are
compared by source-ids and source-content.

What to do: write the store again from the source; zkit compare STORE SOURCE --include NAME compares what they hold.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let Some(source) = store.source.as_ref().map(|source| source.hierarchy) else { return };
    let remedy = format!("write it again from {}", source.url);
    for array in &store.arrays {
        let path = array.path();
        let metadata = &array.node.metadata;
        let Some(node) = source.array(path) else {
            finder
                .array(path, format!("the source {} has no such array", source.url))
                .severity(Severity::Warning)
                .remedy(&remedy);
            continue;
        };
        let original = &node.metadata;
        let (own, original_type) = (metadata.data_type.to_string(), original.data_type.to_string());
        if own != original_type {
            let repacked = Packing::of(array) != Packing::of_node(node);
            finder
                .array(path, format!("its data type is {own}, in the source {original_type}"))
                // unpacked or packed on the way: the values are the same, and are compared
                .severity(if repacked { Severity::Info } else { Severity::Error })
                .evidence("found", own)
                .evidence("expected", original_type)
                .remedy(&remedy);
        }
        let longer = metadata.shape().len() != original.shape().len()
            || metadata.shape().iter().zip(original.shape()).any(|(own, original)| own > original);
        if longer {
            let (own, original) = (format!("{:?}", metadata.shape()), format!("{:?}", original.shape()));
            finder
                .array(path, format!("its shape is {own}, and {original} in the source"))
                .evidence("found", own)
                .evidence("expected", original)
                .remedy(&remedy);
        } else if metadata.dimension_names.is_some() && metadata.dimension_names != original.dimension_names {
            finder
                .array(path, "its dimensions have other names than in the source")
                .severity(Severity::Warning)
                .remedy(&remedy);
        }
    }
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array};

    #[test]
    fn what_the_source_cannot_have_given_is_found() {
        let source = TestStore::new().array("a", &v2_array(&[8], &[2])).array("b", &v2_array(&[8], &[2]));
        let slice = TestStore::new()
            .array("a", &v2_array(&[4], &[4]))
            .array("b", &v2_array(&[9], &[2]))
            .array("c", &v2_array(&[4], &[2]));
        let found: Vec<_> = slice
            .findings_against("source-mismatch", &source)
            .into_iter()
            .map(|finding| (finding.array.unwrap_or_default(), finding.severity))
            .collect();
        assert_eq!(found, [("/b".to_owned(), Severity::Error), ("/c".to_owned(), Severity::Warning)]);
        assert!(slice.findings("source-mismatch").is_empty());
    }

    #[test]
    fn another_packing_is_a_note_and_another_type_is_not() {
        let packed = |data_type: &str, attributes: &str| {
            TestStore::new()
                .array("a", &v2_array(&[8], &[2]).replace("<f4", data_type))
                .file("a/.zattrs", attributes.as_bytes())
        };
        let source = packed("<i2", r#"{"scale_factor": 0.01}"#);
        let severity = |store: TestStore| store.findings_against("source-mismatch", &source)[0].severity;
        assert_eq!(severity(packed("<f4", "{}")), Severity::Info);
        assert_eq!(severity(packed("<f4", r#"{"scale_factor": 0.01}"#)), Severity::Error);
    }
}
