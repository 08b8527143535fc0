//! `error-body`: a chunk is the body of a server's error instead of data.

use zkit_core::engine::ChunkFault;
use zkit_core::metadata::DataType;
use zkit_report::{Confidence, Severity};

use super::shared::{report_blocks, report_faults, report_keys};
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "error-body",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Headers,
    summary: "a chunk is the body of a server's error instead of data",
    explanation: "\
A download without --fail, or a proxy in between, stored what the server said (AccessDenied, NoSuchKey, a
login page) under the key of a chunk. Readers fail on it; uncompressed arrays may even show it as numbers.

On disk: a small object that begins with <?xml, <Error>, <!DOCTYPE, <html or {\"error\".

Legitimate: an uncompressed array of text may hold such words; where the length is right it is taken for
data, and for bytes and strings the confidence is low.

What to do: fetch these chunks again, with a client that fails on errors.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let remedy = "fetch these chunks again, with a client that fails on errors";
    let adjust = |array: &crate::observe::ArrayObservation<'_>, draft: crate::finder::Draft<'_>| {
        let data_type = &array.node.metadata.data_type;
        let text = matches!(
            data_type,
            DataType::UInt(1) | DataType::FixedBytes(_) | DataType::String | DataType::Bytes
        );
        if text && array.node.metadata.codecs.len() <= 1 {
            draft.confidence(Confidence::Low);
        }
    };
    report_faults(store, finder, ChunkFault::ErrorBody, ("is no data", remedy), adjust);
    report_blocks(store, finder, ChunkFault::ErrorBody, ("no data", remedy));
    if let Some(keys) = store.files.as_ref().and_then(|files| files.error_bodies.as_ref()) {
        report_keys(finder, None, keys, ("bodies of servers' errors stand where files should", remedy));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn an_error_of_a_bucket_is_told_by_its_code() {
        let body = b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>";
        let found =
            TestStore::new().array("a", &v2_array(&[800], &[200])).file("a/1", body).findings("error-body");
        assert_eq!(found.len(), 1);
        assert!(
            found[0].message.contains("AccessDenied") && found[0].message.contains("`1`"),
            "{}",
            found[0].message
        );
    }
}
