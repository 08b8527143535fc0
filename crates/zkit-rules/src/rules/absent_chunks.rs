//! `absent-chunks`: some chunks are absent, as sparse data leaves them out.

use std::collections::BTreeMap;

use zkit_core::engine::ChunkFault;
use zkit_report::{ChunkBox, format};
use zkit_report::{Confidence, Severity};

use super::missing_slab::{
    holds_what_is_left_out, is_slab, is_suspect, leaves_out_zeros, may_be_zero_everywhere,
};
use super::shared::with_chunks;
use crate::boxes::Runs;
use crate::depth::Depth;
use crate::families::alike;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, CacheObservation, StoreObservation};
use crate::rule::{Check, Rule};
use crate::summary::{ArraySummary, StoreSummary};

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
(max-absent-fraction), and where at least two other stores of the cache, and three quarters of them, have all chunks of the array; trailing runs
and whole slabs are `missing-slab`, but for those of what is often zero.

What to do: nothing, unless the data is known to be dense: then declare max-absent-fraction = 0 in
zkit.toml.",
    check: Check::Both(check, check_cache),
};

/// So many stores that have all chunks of an array tell that another one lost some.
const PEERS_LEAST: usize = 2;

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

/// Finds arrays that lack chunks where their peers in the cache have all.
fn check_cache(cache: &CacheObservation<'_>, finder: &mut Finder<'_>) {
    for family in alike(cache.stores) {
        let mut paths: BTreeMap<&str, Vec<(&StoreSummary, &ArraySummary)>> = BTreeMap::new();
        for store in &family {
            for array in &store.arrays {
                paths.entry(&array.path).or_default().push((store, array));
            }
        }
        for (path, arrays) in paths {
            let whole =
                |array: &ArraySummary| matches!(array.chunks, Some((stored, total)) if stored == total);
            let (peers, all) = (arrays.iter().filter(|(_, array)| whole(array)).count(), arrays.len());
            if peers < PEERS_LEAST || peers * 4 < (all - 1) * 3 {
                continue;
            }
            for (store, array) in arrays.iter().filter(|(store, _)| store.settled) {
                let Some(lost) = &array.lost else { continue };
                let message = format!(
                    "{} absent, and {peers} of {} other stores have all of theirs",
                    absent_of_all(lost.count, lost.total),
                    all - 1
                );
                let mut draft = finder
                    .elsewhere(&store.url, Some(path), message)
                    .severity(Severity::Warning)
                    .confidence(Confidence::Medium)
                    .evidence("chunk_count", lost.count)
                    .evidence("chunks_total", lost.total)
                    .evidence("whole_peers", peers)
                    .chunks(lost.boxes.clone())
                    .remedy("write these chunks again; if they are meant to be absent, declare the variable in zkit.toml with sparse = true");
                if lost.not_named > 0 {
                    draft = draft.evidence("chunks_not_named", lost.not_named);
                }
                let _ = draft;
            }
        }
    }
}

/// Absent chunks of an array that nothing in its own store explains or reports as more than a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostChunks {
    /// How many are absent.
    pub count: u64,
    /// How many there should be.
    pub total: u64,
    /// Where they are.
    pub boxes: Vec<ChunkBox>,
    /// How many of them are in none of the boxes.
    pub not_named: u64,
}

/// Returns the absent chunks of an array that would be a loss if stores like it have theirs.
pub(crate) fn lost_chunks(store: &StoreObservation<'_>, array: &ArrayObservation<'_>) -> Option<LostChunks> {
    let rules = store.variable(array.path());
    let excused = rules.sparse
        || rules.max_absent_fraction.is_some()
        || holds_what_is_left_out(array)
        || (leaves_out_zeros(array) && may_be_zero_everywhere(array));
    let absent = absent_of(array).filter(|_| !excused && !is_suspect(store, array))?;
    let (boxes, not_named) = absent.few_boxes(array.node.metadata.grid.counts());
    let total = array.node.metadata.grid.total()?;
    Some(LostChunks { count: absent.len(), total, boxes, not_named })
}

/// Returns `1 of 6 chunks is`, `2 of 6 chunks are`.
pub(crate) fn absent_of_all(absent: u64, total: u64) -> String {
    let verb = if absent == 1 { "is" } else { "are" };
    format!("{} of {} {verb}", format::count(absent), format::counted(total, "chunk", "chunks"))
}

/// Returns which chunks of an array are absent; `None` where all or none are, or where that is not known. Links that
/// are not followed are no absence: behind those of folders nobody knows what there is.
pub(crate) fn absent_of(array: &ArrayObservation<'_>) -> Option<Runs> {
    let survey = array.survey.as_ref()?;
    let listing = survey.listing.as_ref()?;
    let total = array.node.metadata.grid.total()?;
    if listing.stored.is_empty() || survey.unread_folders.count > 0 {
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

    use crate::testing::{TestStore, cache_findings, v2_array};

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
    fn one_lost_chunk_beside_whole_peers_is_a_warning() {
        let store = |chunks: &[u64], value: u8| {
            let store = TestStore::new().array("a", &v2_array(&[6, 4], &[2, 2]));
            chunks.iter().fold(store, |store, chunk| {
                store.file(&format!("a/{}.{}", chunk / 2, chunk % 2), &[value; 16])
            })
        };
        let (whole, lost) = ([0, 1, 2, 3, 4, 5], [0, 1, 2, 4, 5]);
        let found = cache_findings("absent-chunks", &[store(&whole, 1), store(&lost, 1), store(&whole, 1)]);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning), "{found:?}");
        assert_eq!(found[0].message, "1 of 6 chunks is absent, and 2 of 2 other stores have all of theirs");
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].first, [1, 1]);
        let none = |stores: &[TestStore]| assert_eq!(cache_findings("absent-chunks", stores), []);
        none(&[store(&whole, 1), store(&lost, 1)]);
        none(&[store(&whole, 1), store(&lost, 1), store(&lost, 1), store(&whole, 1)]);
        none(&[store(&whole, 0), store(&lost, 0), store(&whole, 0)]);
        let declared = store(&lost, 1).with_policy("[[variable]]\nmatch = \"a\"\nsparse = true");
        none(&[store(&whole, 1), declared, store(&whole, 1)]);
    }

    #[test]
    fn verbs_agree_with_how_many_are_absent() {
        assert_eq!(super::absent_of_all(1, 6), "1 of 6 chunks is");
        assert_eq!(super::absent_of_all(2, 6), "2 of 6 chunks are");
    }
}
