//! `reference-outside`: references lead to files of the system or to hosts of the local network.

use zkit_core::store::Reach;
use zkit_report::{Confidence, Severity};

use super::shared::references_by_array;
use crate::boxes::Runs;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "reference-outside",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "references lead to files of the system or to hosts of the local network",
    explanation: "\
Whoever opens the references makes this machine read what they name: /etc/hostname,
file:///proc/self/environ, a cloud's metadata service at 169.254.169.254. References from elsewhere must not
do that.

On disk: targets that are absolute paths of the system, file:// URLs, or URLs of loopback, link-local and
private hosts.

Legitimate: absolute paths to data are common where references were made for one machine: those are notes,
as they break on every other.

What to do: do not open the references; make them again from the data itself.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let Some(references) = &store.references else { return };
    for (position, target) in references.targets.iter().enumerate() {
        let (severity, what, remedy) = match target.reach {
            Reach::System => (Severity::Error, "a file of the system", "do not open these references"),
            Reach::Private => (
                Severity::Error,
                "a host of the local network or of this machine",
                "do not open these references",
            ),
            Reach::Above(levels) if levels > 1 => (
                Severity::Warning,
                "a file several folders above the references",
                "make sure that it is data",
            ),
            Reach::Absolute => (
                Severity::Info,
                "an absolute path, which is right on one machine alone",
                "make the references with relative paths or URLs",
            ),
            Reach::Above(_) | Reach::Beside | Reach::Public | Reach::Unknown => continue,
        };
        for (array, chunks) in
            references_by_array(store, references, |reference| reference.target == position)
        {
            let message = format!("its chunks are referred to {what}: `{}`", target.url);
            let draft = match array {
                Some(array) => {
                    let (boxes, _) = Runs::of(&chunks).few_boxes(array.node.metadata.grid.counts());
                    finder.array(array.path(), message).chunks(boxes)
                }
                None => finder.store(message),
            };
            draft.severity(severity).evidence("target", target.url.clone()).remedy(remedy);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{REFERENCES, TestStore};

    #[test]
    fn files_of_the_system_and_metadata_services_are_errors() {
        let store = TestStore::bare().file("refs.json", REFERENCES.as_bytes());
        let found = store.reference_findings("reference-outside");
        let targets: Vec<_> =
            found.iter().map(|finding| finding.evidence["target"].as_str().unwrap()).collect();
        assert_eq!(targets, ["file:///etc/hostname", "http://169.254.169.254/x"]);
        assert_eq!(found[0].array.as_deref(), Some("/a"));
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].first, [1]);
    }
}
