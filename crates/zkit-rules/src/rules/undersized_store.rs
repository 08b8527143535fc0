//! `undersized-store`: a store holds far fewer bytes than it should.

use zkit_report::format;
use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::families::alike;
use crate::finder::Finder;
use crate::observe::CacheObservation;
use crate::rule::{Check, Rule};
use crate::summary::StoreSummary;

pub(crate) const RULE: Rule = Rule {
    id: "undersized-store",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "a store holds far fewer bytes than it should",
    explanation: "\
A \"cache\" of 18 MB that should hold 13 GB: the metadata promises everything, and next to nothing is stored.
It is told by its peers in the same cache, or by the size that the policy expects.

On disk: the sum of the chunks is a small part of what stores of the same variables hold, in relation to
what their metadata promises.

Legitimate: data that compresses far better than that of its peers; sparse regions. Set `[[audit.expected]]`
to be exact.

What to do: write the store again; until then do not let a job read it.",
    check: Check::Cache(check),
};

/// A store that holds less than this part of what its peers hold is undersized.
const LEAST_SHARE: f64 = 0.1;
/// So many stores make a cache whose sizes can be compared.
const PEERS_LEAST: usize = 3;

fn check(cache: &CacheObservation<'_>, finder: &mut Finder<'_>) {
    for store in cache.stores {
        let (Some(least), Some(stored)) = (cache.policy.expected_bytes(&store.url), store.bytes_stored)
        else {
            continue;
        };
        if stored < least {
            finder
                .elsewhere(
                    &store.url,
                    None,
                    format!(
                        "{} are stored, the policy expects at least {}",
                        format::bytes(stored),
                        format::bytes(least)
                    ),
                )
                .evidence("bytes_stored", stored)
                .evidence("bytes_expected", least)
                .remedy("write the store again");
        }
    }
    for family in alike(cache.stores).into_iter().filter(|family| family.len() >= PEERS_LEAST) {
        let mut shares: Vec<f64> = family.iter().filter_map(|store| share(store)).collect();
        shares.sort_by(f64::total_cmp);
        let Some(&usual) = shares.get(shares.len() / 2) else { continue };
        for store in family {
            let Some(found) = share(store).filter(|&found| found < usual * LEAST_SHARE) else { continue };
            let stored = store.bytes_stored.unwrap_or(0);
            let unwritten =
                store.arrays.iter().filter(|array| matches!(array.chunks, Some((0, 1..)))).count();
            let nothing = match unwritten {
                0 => String::new(),
                count => format!("; of {count} of its {} arrays not one chunk is stored", store.arrays.len()),
            };
            finder
                .elsewhere(
                    &store.url,
                    None,
                    format!(
                        "{} are stored of {} that the metadata promises: {} of it, where its peers store {}{nothing}",
                        format::bytes(stored),
                        format::bytes(store.bytes_decoded),
                        percent(found),
                        percent(usual)
                    ),
                )
                .evidence("bytes_stored", stored)
                .evidence("bytes_decoded", store.bytes_decoded)
                .evidence("stored_share", found)
                .evidence("stored_share_of_peers", usual)
                .evidence("arrays_unwritten", unwritten)
                .remedy("write the store again, and do not let a job read it until then");
        }
    }
}

fn percent(share: f64) -> String {
    match 100.0 * share {
        0.0 => "0 %".to_owned(),
        shown if shown > 0.0 && shown < 0.1 => "less than 0.1 %".to_owned(),
        shown => format!("{shown:.1} %"),
    }
}

/// Returns which part of what the metadata promises is stored, coordinates left out.
fn share(store: &StoreSummary) -> Option<f64> {
    store.bytes_stored?;
    let data = || store.arrays.iter().filter(|array| !array.is_coordinate);
    let promised: f64 = data().map(|array| array.decoded_bytes as f64).sum();
    let stored: f64 = data().filter_map(|array| array.bytes_stored).map(|bytes| bytes as f64).sum();
    (promised > 0.0).then(|| stored / promised)
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, cache_findings, v2_array};

    fn store(chunks: u64) -> TestStore {
        (0..chunks).fold(TestStore::new().array("a", &v2_array(&[800], &[10])), |store, chunk| {
            store.file(&format!("a/{chunk}"), &[1; 40])
        })
    }

    #[test]
    fn the_store_that_holds_next_to_nothing_is_named() {
        let empty = store(0);
        let url = empty.path().display().to_string();
        let found = cache_findings("undersized-store", &[store(80), store(78), empty, store(80)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].store, url);
        assert!(cache_findings("undersized-store", &[store(80), store(60), store(40)]).is_empty());
    }

    #[test]
    fn the_policy_says_what_is_expected_of_a_store_alone() {
        let store = store(10).with_policy("[[expected]]\nmatch = \"*\"\nat-least = \"1MB\"");
        assert_eq!(cache_findings("undersized-store", &[store]).len(), 1);
    }

    #[test]
    fn shares_are_percentages() {
        let shown = [0.0, 0.0004, 0.012, 0.776].map(super::percent);
        assert_eq!(shown, ["0 %", "less than 0.1 %", "1.2 %", "77.6 %"]);
    }
}
