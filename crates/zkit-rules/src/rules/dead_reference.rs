//! `dead-reference`: what references point to is gone, or shorter than they say.

use zkit_core::hierarchy::{Reference, ReferenceTarget, TargetFound};
use zkit_report::format;
use zkit_report::{Confidence, Severity};

use super::shared::references_by_array;
use crate::boxes::Runs;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "dead-reference",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "what references point to is gone, or shorter than they say",
    explanation: "\
The file behind a reference was moved, deleted, or written anew in another length: its chunks read as
errors, as fill values, or as other bytes.

On disk: the target does not exist, or ends before offset and length of the reference.

Legitimate: none. It is looked for only with --follow-references, beside the references and at public hosts.

What to do: restore the file, or make the references again.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let Some(references) = &store.references else { return };
    for (position, target) in references.targets.iter().enumerate() {
        let Some((message, dead)) = verdict(target) else { continue };
        for (array, chunks) in references_by_array(store, references, |reference| {
            reference.target == position && dead(reference)
        }) {
            let draft = match array {
                Some(array) => {
                    let (boxes, _) = Runs::of(&chunks).few_boxes(array.node.metadata.grid.counts());
                    finder.array(array.path(), message.clone()).chunks(boxes)
                }
                None => finder.store(message.clone()),
            };
            draft
                .evidence("target", target.url.clone())
                .remedy("restore the file, or make the references again");
        }
    }
}

type Dead = Box<dyn Fn(&Reference) -> bool>;

/// Returns what is wrong with a target, and which references to it are dead.
fn verdict(target: &ReferenceTarget) -> Option<(String, Dead)> {
    let url = &target.url;
    match target.found.as_ref()? {
        TargetFound::Absent => {
            Some((format!("its chunks are referred to `{url}`, which does not exist"), Box::new(|_| true)))
        }
        TargetFound::Unreadable(why) => Some((
            format!("its chunks are referred to `{url}`, which could not be looked at: {why}"),
            Box::new(|_| true),
        )),
        TargetFound::Bytes(bytes) if *bytes < target.end => {
            let bytes = *bytes;
            let message = format!(
                "its chunks are referred to `{url}` up to byte {}, and it has {}",
                format::count(target.end),
                format::count(bytes)
            );
            let behind = move |reference: &Reference| {
                reference.range.is_some_and(|(offset, length)| offset.saturating_add(length) > bytes)
            };
            Some((message, Box::new(behind)))
        }
        TargetFound::Bytes(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{REFERENCES, TestStore};

    #[test]
    fn a_target_that_is_too_short_is_found_once_it_is_followed() {
        let store = TestStore::bare().file("refs.json", REFERENCES.as_bytes()).file("air.nc", &[0; 11]);
        let found = store.reference_findings("dead-reference");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].first, [0]);
        assert!(store.file("air.nc", &[0; 12]).reference_findings("dead-reference").is_empty());
    }
}
