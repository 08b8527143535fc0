//! `absent-chunks`: some chunks are absent, as sparse data leaves them out.

use zkit_core::engine::ChunkFault;
use zkit_report::format;
use zkit_report::{Confidence, Severity};

use super::missing_slab::is_slab;
use super::shared::with_chunks;
use crate::boxes::Runs;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "absent-chunks",
    severity: Severity::Info,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "some chunks are absent, as sparse data leaves them out",
    explanation: "\
Zarr leaves out chunks that are all fill value; absent ones read as just that. Scattered absence is how
sparse data is stored.

On disk: fewer chunk keys than the grid has chunks.

Legitimate: nearly always. It becomes a warning above the fraction that the policy allows
(max-absent-fraction); trailing runs and whole slabs are `missing-slab`, but for those of what is often zero.

What to do: nothing, unless the data is known to be dense: then declare max-absent-fraction = 0 in
zkit.toml.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for array in &store.arrays {
        let rules = store.variable(array.path());
        let Some(absent) = absent_of(array).filter(|_| !rules.sparse) else { continue };
        let total = array.node.metadata.grid.total().unwrap_or(u64::MAX);
        let fraction = absent.len() as f64 / total as f64;
        let too_many = rules.max_absent_fraction.filter(|&most| fraction > most);
        // what a pattern says is said there, not that there are more than somebody allows
        if too_many.is_none() && is_slab(store, array) {
            continue;
        }
        let message = format!(
            "{} absent ({}): {} as fill value",
            absent_of_all(absent.len(), total),
            format::percent(absent.len(), total),
            if absent.len() == 1 { "it reads" } else { "they read" }
        );
        let draft = with_chunks(finder.array(array.path(), message), array, &absent)
            .evidence("chunks_total", total)
            .evidence("fraction", fraction);
        if let Some(most) = too_many {
            draft
                .severity(Severity::Warning)
                .evidence("max_absent_fraction", most)
                .remedy("write the absent part again");
        }
    }
}

/// Returns `1 of 6 chunks is`, `2 of 6 chunks are`.
pub(crate) fn absent_of_all(absent: u64, total: u64) -> String {
    let verb = if absent == 1 { "is" } else { "are" };
    format!("{} of {} {verb}", format::count(absent), format::counted(total, "chunk", "chunks"))
}

/// Returns which chunks of an array are absent; `None` where all or none are, or where that is not known. Links that
/// are not followed are no absence.
pub(crate) fn absent_of(array: &ArrayObservation<'_>) -> Option<Runs> {
    let survey = array.survey.as_ref()?;
    let listing = survey.listing.as_ref()?;
    let total = array.node.metadata.grid.total()?;
    if listing.stored.is_empty() {
        return None;
    }
    let links = [ChunkFault::DanglingLink, ChunkFault::OutsideLink, ChunkFault::Special];
    let linked = survey.faults.iter().filter(|faulty| links.contains(&faulty.fault));
    let mut there = None;
    for position in linked.flat_map(|faulty| faulty.chunks.iter()) {
        there.get_or_insert_with(|| listing.stored.clone()).insert(position);
    }
    let absent = Runs::absent_from(there.as_ref().unwrap_or(&listing.stored), total);
    (!absent.is_empty()).then_some(absent)
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array};

    #[test]
    fn scattered_absence_is_a_note_until_the_policy_says_otherwise() {
        let store = || {
            [0, 3, 5].iter().fold(TestStore::new().array("a", &v2_array(&[16], &[2])), |store, chunk| {
                store.file(&format!("a/{chunk}"), &[0; 8])
            })
        };
        let found = store().findings("absent-chunks");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
        assert_eq!(found[0].chunks.as_ref().unwrap().len(), 3);
        let strict = store().with_policy("[[variable]]\nmatch = \"*\"\nmax-absent-fraction = 0.5");
        assert_eq!(strict.findings("absent-chunks")[0].severity, Severity::Warning);
    }

    #[test]
    fn verbs_agree_with_how_many_are_absent() {
        assert_eq!(super::absent_of_all(1, 6), "1 of 6 chunks is");
        assert_eq!(super::absent_of_all(2, 6), "2 of 6 chunks are");
    }
}
