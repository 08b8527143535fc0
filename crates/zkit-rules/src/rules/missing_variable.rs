//! `missing-variable`: a store lacks arrays that its peers in the cache have.

use std::collections::BTreeMap;
use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::families::alike;
use crate::finder::Finder;
use crate::observe::CacheObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "missing-variable",
    severity: Severity::Warning,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "a store lacks arrays that its peers in the cache have",
    explanation: "\
Most stores of the cache have an array, this one has not: a batch that was written in part, or by another
version of the program.

On disk: no folder of that name.

Legitimate: unrelated stores in one folder share little data, and are not compared: only stores are that share most of
their arrays, by name and dimensions, coordinates left out.

What to do: write the store again, or add the array.",
    check: Check::Cache(check),
};

/// Names that one message holds.
const NAMES_MOST: usize = 8;

fn check(cache: &CacheObservation<'_>, finder: &mut Finder<'_>) {
    for family in alike(cache.stores) {
        let mut having: BTreeMap<&str, usize> = BTreeMap::new();
        for array in family.iter().flat_map(|store| &store.arrays) {
            *having.entry(&array.path).or_default() += 1;
        }
        // what most have, all should have
        let usual: Vec<&str> =
            having.iter().filter(|(_, stores)| **stores * 2 > family.len()).map(|(path, _)| *path).collect();
        for store in &family {
            let missing: Vec<&str> =
                usual.iter().copied().filter(|path| store.array(path).is_none()).collect();
            if missing.is_empty() {
                continue;
            }
            let named: Vec<String> =
                missing.iter().take(NAMES_MOST).map(|path| format!("`{path}`")).collect();
            let more = missing.len() - named.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            finder
                .elsewhere(
                    &store.url,
                    None,
                    format!(
                        "{} of {} arrays that most of its peers have are not there: {}{more}",
                        missing.len(),
                        usual.len(),
                        named.join(", ")
                    ),
                )
                .evidence("missing", missing)
                .remedy("write this store again");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, cache_findings, v2_array};

    #[test]
    fn an_array_that_only_one_store_lacks_is_named() {
        let with = |names: &[&str]| {
            names.iter().fold(TestStore::new(), |store, name| store.array(name, &v2_array(&[8], &[2])))
        };
        let found = cache_findings("missing-variable", &[with(&["a", "b"]), with(&["a", "b"]), with(&["a"])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("`/b`"), "{}", found[0].message);
        assert!(
            cache_findings("missing-variable", &[with(&["a"]), with(&["b"])]).is_empty(),
            "unrelated stores"
        );
    }
}
