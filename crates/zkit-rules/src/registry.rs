//! The list of rules, and running them.

use zkit_report::{Finding, edits};

use crate::finder::Finder;
use crate::observe::{CacheObservation, StoreObservation};
use crate::rule::{Check, Rule};
use crate::rules;
use crate::words;

/// Every rule, sorted by id. A new rule is one more line, and a file of the same name in `rules/`.
pub const RULES: &[&Rule] = &[
    &rules::absent_chunks::RULE,
    &rules::absent_inner_chunks::RULE,
    &rules::absurd_shape::RULE,
    &rules::all_fill::RULE,
    &rules::all_nan::RULE,
    &rules::bad_shard_index::RULE,
    &rules::consolidated_missing::RULE,
    &rules::consolidated_stale::RULE,
    &rules::coordinate_gap::RULE,
    &rules::coordinate_not_monotonic::RULE,
    &rules::corrupt_archive::RULE,
    &rules::corrupt_chunk::RULE,
    &rules::corrupt_manifest::RULE,
    &rules::dangling_link::RULE,
    &rules::dead_reference::RULE,
    &rules::dimension_mismatch::RULE,
    &rules::draft_format::RULE,
    &rules::duplicate_content::RULE,
    &rules::duplicate_ids::RULE,
    &rules::empty_store::RULE,
    &rules::error_body::RULE,
    &rules::fill_value_confusion::RULE,
    &rules::foreign_file::RULE,
    &rules::implicit_group::RULE,
    &rules::infinite::RULE,
    &rules::malformed_metadata::RULE,
    &rules::metadata_only_array::RULE,
    &rules::missing_object::RULE,
    &rules::missing_slab::RULE,
    &rules::missing_variable::RULE,
    &rules::mixed_formats::RULE,
    &rules::nan_fraction::RULE,
    &rules::nan_slab::RULE,
    &rules::not_zarr::RULE,
    &rules::orphan_chunks::RULE,
    &rules::out_of_range::RULE,
    &rules::outside_link::RULE,
    &rules::pointer_file::RULE,
    &rules::reference_outside::RULE,
    &rules::reference_store::RULE,
    &rules::schema_drift::RULE,
    &rules::source_content::RULE,
    &rules::source_ids::RULE,
    &rules::source_mismatch::RULE,
    &rules::store_in_subfolder::RULE,
    &rules::suspect_values::RULE,
    &rules::temporary_file::RULE,
    &rules::tiny_chunks::RULE,
    &rules::truncated_chunk::RULE,
    &rules::undeclared_missing_value::RULE,
    &rules::undersized_store::RULE,
    &rules::unreadable::RULE,
    &rules::unsafe_name::RULE,
    &rules::unsupported_codec::RULE,
    &rules::unsupported_extension::RULE,
    &rules::wrong_chunk_keys::RULE,
    &rules::zero_byte_chunk::RULE,
];

/// Returns the rule of that id.
pub fn rule_named(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id).copied()
}

/// Returns the ids most like `name`, best first, at most three.
pub fn similar_rules(name: &str) -> Vec<&'static str> {
    let name = name.to_lowercase();
    let words = |id: &str| name.split('-').filter(|word| word.len() > 2 && id.contains(*word)).count();
    let mut scored: Vec<(usize, usize, &str)> = RULES
        .iter()
        .map(|rule| (edits(&name, rule.id), words(rule.id), rule.id))
        .filter(|(edits, words, id)| *edits <= id.len() / 3 || *words > 0)
        .collect();
    scored.sort_unstable_by_key(|&(edits, words, id)| (std::cmp::Reverse(words), edits, id));
    scored.into_iter().take(3).map(|(.., id)| id).collect()
}

/// Returns what the rules of single stores find, rule by rule; a rule runs once its depth was reached.
pub fn check_store(store: &StoreObservation<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in RULES.iter().filter(|rule| rule.depth <= store.depth) {
        if let Check::Store(check) | Check::Both(check, _) = rule.check {
            let mut finder = Finder::new(rule, &store.hierarchy.url);
            check(store, &mut finder);
            findings.extend(finder.into_findings());
        }
    }
    words::name_places(store, &mut findings);
    findings
}

/// Returns what the rules of caches find in the stores of one run together; some of them look at one store alone too.
pub fn check_cache(cache: &CacheObservation<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in RULES.iter().filter(|rule| rule.depth <= cache.depth()) {
        if let Check::Cache(check) | Check::Both(_, check) = rule.check {
            let mut finder = Finder::new(rule, cache.url);
            check(cache, &mut finder);
            findings.extend(finder.into_findings());
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_sorted_and_each_explains_itself() {
        for pair in RULES.windows(2) {
            assert!(pair[0].id < pair[1].id, "{} stands before {}", pair[0].id, pair[1].id);
        }
        for rule in RULES {
            let kebab = rule.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            assert!(kebab && !rule.summary.ends_with('.'), "{}", rule.id);
            for part in ["On disk:", "Legitimate:", "What to do:"] {
                assert!(rule.explanation.contains(part), "the text of {} lacks `{part}`", rule.id);
            }
        }
    }

    #[test]
    fn every_file_of_rules_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rules");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let id = name.trim_end_matches(".rs").replace('_', "-");
            assert!(
                id == "mod" || id == "shared" || rule_named(&id).is_some(),
                "{id} is not in the registry"
            );
        }
    }

    #[test]
    fn unknown_rules_have_near_ones() {
        assert_eq!(similar_rules("metadata-only-arrays")[0], "metadata-only-array");
        assert!(similar_rules("zzz").is_empty());
    }
}
