//! `unsupported-codec`: chunks are encoded by a codec that zkit does not decode.

use zkit_report::{Confidence, Severity, format};

use super::shared::{report_defects, with_chunks};
use crate::boxes::Runs;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};
use crate::values::seen;

pub(crate) const RULE: Rule = Rule {
    id: "unsupported-codec",
    severity: Severity::Info,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "chunks are encoded by a codec that zkit does not decode",
    explanation: "\
The chunks of the array pass through a codec that zkit knows by name at most. They are listed and counted;
their content is not audited.

On disk: a codec, compressor or filter of another name in the metadata; chunks of json2 or msgpack2 that hold other
objects than texts (seen when they are decoded).

Legitimate: always; a reader with the right plugin decodes it. The note says what the audit did not see.

What to do: audit the values with the program that wrote them, or recompress the array with a codec of the
specification.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let remedy = "audit its values with the program that wrote them";
    report_defects(store, finder, "unsupported-codec", remedy);
    for (array, values) in seen(store) {
        let Some(first) = values.unsupported.examples.first() else { continue };
        let (count, key) = (values.unsupported.stored.len(), array.chunk_key(first.position));
        let message = match count {
            1 => format!("chunk `{key}` was not decoded: {}", first.reason),
            _ => format!(
                "{} were not decoded; the first, `{key}`: {}",
                format::counted(count, "chunk", "chunks"),
                first.reason
            ),
        };
        let draft = finder.array(array.path(), message).remedy(remedy);
        with_chunks(draft, array, &Runs::of(&values.unsupported.stored));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn it_is_found_at_its_array_alone() {
        let store = TestStore::new().array("good", &v2_array(&[8], &[2])).array(
            "bad",
            &v2_array(&[8], &[2]).replace("\"compressor\":null", "\"compressor\":{\"id\":\"jpeg2k\"}"),
        );
        let found = store.findings("unsupported-codec");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].array.as_deref(), Some("/bad"));
    }
}
