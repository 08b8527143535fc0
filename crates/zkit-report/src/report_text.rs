//! What a report says to people on a terminal: the verdict, then the findings by rule, then what to do next.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{Advice, Document, Facts, Item};
use crate::finding::{Confidence, Finding, Severity};
use crate::format;
use crate::groups::{Alike, Group, alike, by_rule};
use crate::names::Names;
use crate::report::{Report, StoreSummary};
use crate::words;

/// What is shown before the rest is counted.
const ITEMS_A_RULE: usize = 8;
const STORES_SHOWN: usize = 5;
const MAPS_SHOWN: usize = 2;
const ADVICE_SHOWN: usize = 5;

/// The most characters of one text that came from a store.
const TEXT_MOST: usize = 400;

impl Report {
    /// Returns what the report says to people: verdict, findings by rule with the worst first, the grids of
    /// the worst arrays, what could not be seen, the next commands to run.
    ///
    /// Bounded: a rule shows some of its findings and counts the rest.
    pub fn document(&self) -> Document {
        let (groups, names) = (by_rule(self), Names::of(self));
        let mut document = Document::new();
        document.title(self.verdict()).facts(self.facts(&names));
        for group in &groups {
            document.title(heading(group)).items(items(group, &names));
        }
        for occupancy in self.occupancy.iter().filter(|occupancy| occupancy.map.has_bad()).take(MAPS_SHOWN) {
            let place = names.place(&occupancy.store, Some(&occupancy.array));
            document.title(format!("Chunks of {place}")).grid_map(occupancy.map.clone());
        }
        let advice = self.advice(&groups, &names);
        if !advice.is_empty() {
            document.title("Next").advice(advice);
        }
        document
    }

    /// Returns the verdict in a line: `3 errors, 7 notes; errors or warnings in 2 of 22 stores`.
    pub(crate) fn verdict(&self) -> String {
        let mut verdict = words::counts(&self.summary);
        let single: BTreeSet<&str> = self.stores.iter().map(|store| store.url.as_str()).collect();
        let (bad, across): (BTreeSet<&str>, BTreeSet<&str>) = self
            .findings
            .iter()
            .filter(|finding| finding.severity > Severity::Info)
            .map(|finding| finding.store.as_str())
            .partition(|store| single.contains(store));
        let stores = format::counted(self.stores.len() as u64, "store", "stores");
        let bad_stores = format::count(bad.len() as u64);
        match (self.stores.len(), bad.is_empty(), across.is_empty()) {
            (1, ..) => {}
            (_, true, true) => verdict.push_str(&format!(" in {stores}")),
            (_, true, false) => verdict.push_str(&format!("; errors or warnings across {stores}")),
            (_, false, true) => {
                verdict.push_str(&format!("; errors or warnings in {bad_stores} of {stores}"));
            }
            (_, false, false) => {
                let and = "and across them";
                verdict.push_str(&format!("; errors or warnings in {bad_stores} of {stores}, {and}"));
            }
        }
        if !self.complete {
            verdict.push_str("; not everything could be read");
        }
        verdict
    }

    fn facts(&self, names: &Names) -> Facts {
        let mut facts = Facts::new();
        let [only] = self.stores.as_slice() else {
            facts.fact("stores", self.stores_in_words());
            if let Some(folder) = &names.folder {
                facts.fact("below", clip(folder));
            }
            for (index, group) in self.compared(names).into_iter().enumerate() {
                facts.fact(if index == 0 { "compared" } else { "" }, clip(&group));
            }
            return self.shared_facts(facts);
        };
        facts.fact("store", clip(&only.url)).fact("kind", clip(&only.kind));
        self.shared_facts(facts)
    }

    /// Returns which stores were compared with each other, where it was not all of them with all.
    pub(crate) fn compared(&self, names: &Names) -> Vec<String> {
        let in_groups: usize = self.groups.iter().map(Vec::len).sum();
        if self.groups.len() == 1 && in_groups == self.stores.len() {
            return Vec::new();
        }
        let named = |group: &Vec<String>| names.stores(&group.iter().map(String::as_str).collect::<Vec<_>>());
        let mut lines: Vec<String> = self.groups.iter().take(STORES_SHOWN).map(named).collect();
        if self.groups.len() > STORES_SHOWN {
            lines.push(format!(
                "and {} more groups",
                format::count((self.groups.len() - STORES_SHOWN) as u64)
            ));
        }
        match self.stores.len().saturating_sub(in_groups) {
            0 => {}
            alone if self.groups.is_empty() => {
                lines.push(format!("no stores: none of the {} is like another", format::count(alone as u64)));
            }
            alone => {
                let stores = format::counted(alone as u64, "store is", "stores are");
                lines.push(format!("{stores} like no other"));
            }
        }
        lines
    }

    /// Adds what is said of one store as of many.
    fn shared_facts(&self, mut facts: Facts) -> Facts {
        facts.fact("arrays", format::count(total(&self.stores, |store| Some(store.arrays)).0));
        if let Some(stored) = sum_in_words(&self.stores, |store| store.bytes_stored) {
            facts.fact("stored", stored);
        }
        if let Some(decoded) = sum_in_words(&self.stores, |store| store.bytes_decoded) {
            facts.fact("decoded", decoded);
        }
        let depths: BTreeSet<&str> = self.stores.iter().map(|store| store.depth).collect();
        facts.fact("depth", depths.into_iter().collect::<Vec<_>>().join(", "));
        let not_seen: BTreeSet<&str> =
            self.stores.iter().flat_map(|store| &store.not_seen).map(String::as_str).collect();
        let more = not_seen.len().saturating_sub(STORES_SHOWN);
        for (index, what) in not_seen.into_iter().take(STORES_SHOWN).enumerate() {
            facts.fact(if index == 0 { "not seen" } else { "" }, clip(what));
        }
        if more > 0 {
            facts.fact("", format!("and {} more: --format json names all", format::count(more as u64)));
        }
        if self.hidden > 0 {
            facts.fact(
                "hidden",
                format!("{} in the baseline", format::counted(self.hidden, "finding", "findings")),
            );
        }
        for (index, store) in
            self.stores.iter().filter(|store| !store.complete).take(STORES_SHOWN).enumerate()
        {
            facts.fact(if index == 0 { "not all read" } else { "" }, clip(&store.url));
        }
        facts
    }

    /// Returns how many stores there are of each kind: `20 zarr, 2 icechunk`.
    fn stores_in_words(&self) -> String {
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        self.stores.iter().for_each(|store| *kinds.entry(&store.kind).or_default() += 1);
        let kinds: Vec<String> = kinds
            .into_iter()
            .take(STORES_SHOWN)
            .map(|(kind, number)| format!("{} {}", format::count(number), clip(kind)))
            .collect();
        if kinds.is_empty() { "0".into() } else { kinds.join(", ") }
    }

    /// Returns the remedies of errors and warnings, each once, the worst first.
    pub(crate) fn advice(&self, groups: &[Group<'_>], names: &Names) -> Vec<Advice> {
        let mut order: Vec<(&str, &str)> = Vec::new();
        let mut places: BTreeMap<(&str, &str), Vec<&Finding>> = BTreeMap::new();
        for group in groups.iter().filter(|group| group.severity > Severity::Info) {
            for &finding in &group.findings {
                let Some(remedy) = finding.remedy.as_deref() else { continue };
                let of_remedy = places.entry((group.rule, remedy)).or_default();
                if of_remedy.is_empty() {
                    order.push((group.rule, remedy));
                }
                of_remedy.push(finding);
            }
        }
        let shown = order.iter().take(ADVICE_SHOWN);
        shown.map(|&(rule, remedy)| advice(rule, remedy, &places[&(rule, remedy)], names)).collect()
    }
}

fn advice(rule: &str, remedy: &str, findings: &[&Finding], names: &Names) -> Advice {
    let stores = each_once(findings.iter().map(|finding| finding.store.as_str()));
    let arrays = each_once(findings.iter().filter_map(|finding| finding.array.as_deref()));
    let places = if stores.len() == 1 { names.places(&stores, &arrays) } else { names.stores(&stores) };
    let why = format!("{rule}: {places}");
    if words::is_command(remedy) {
        // whole, so that it can be copied
        return Advice { what: why, why: String::new(), command: Some(remedy.to_owned()) };
    }
    Advice { what: clip(remedy), why, command: None }
}

/// Returns the texts in their order, each once.
fn each_once<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    texts.filter(|text| seen.insert(*text)).collect()
}

/// Returns the findings of a rule; those that say the same of several places are one item.
fn items(group: &Group<'_>, names: &Names) -> Vec<Item> {
    let joined = alike(group);
    let mut items: Vec<Item> = joined.iter().take(ITEMS_A_RULE).map(|all| item(all, names)).collect();
    let more: usize = joined.iter().skip(ITEMS_A_RULE).map(|all| all.findings).sum();
    if more > 0 {
        let rest = format::counted(more as u64, "more finding", "more findings");
        items.push(Item { head: format!("and {rest}; --format json has all"), lines: Vec::new() });
    }
    items
}

fn item(all: &Alike<'_>, names: &Names) -> Item {
    let mut lines = vec![clip(&all.finding.message)];
    lines.extend(words::extent(all.finding).as_deref().map(clip));
    if all.finding.confidence != Confidence::High {
        lines.push(format!("confidence {}", all.finding.confidence.name()));
    }
    Item { head: names.places(&all.stores, &all.arrays), lines }
}

/// Returns the line above the findings of a rule: `error missing-slab: 3 findings (absent chunks form ...)`.
fn heading(group: &Group<'_>) -> String {
    let found = group.findings.len() as u64;
    let number = format::counted(found, "finding", "findings");
    match group.summary {
        Some(summary) => format!("{} {}: {number} ({summary})", group.severity.name(), group.rule),
        None => format!("{} {}: {number}", group.severity.name(), group.rule),
    }
}

/// Returns a sum over stores, and whether one of them does not say.
fn total(stores: &[StoreSummary], of: impl Fn(&StoreSummary) -> Option<u64>) -> (u64, bool) {
    let known = stores.iter().filter_map(&of).fold(0, u64::saturating_add);
    (known, stores.iter().any(|store| of(store).is_none()))
}

/// Returns a sum of sizes; `None` if no store says.
pub(crate) fn sum_in_words(
    stores: &[StoreSummary],
    of: impl Fn(&StoreSummary) -> Option<u64>,
) -> Option<String> {
    stores.iter().find_map(&of)?;
    match total(stores, of) {
        (sum, false) => Some(format::bytes(sum)),
        (sum, true) => Some(format!("{} and what is not known", format::bytes(sum))),
    }
}

fn clip(text: &str) -> String {
    words::clipped(text, TEXT_MOST).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingCounts;
    use crate::render::text::{Style, render};
    use crate::samples;
    use proptest::prelude::*;

    #[test]
    fn findings_across_stores_are_of_no_store() {
        let mut report = samples::report();
        let all = report.stores.len();
        report.findings.truncate(1);
        report.findings[0].severity = Severity::Error;
        report.findings[0].store = "/data/cache".into();
        report.summary = FindingCounts::of(&report.findings);
        assert_eq!(report.verdict(), format!("1 error; errors or warnings across {all} stores"));
        let single = Finding { store: report.stores[0].url.clone(), ..report.findings[0].clone() };
        report.findings.push(single);
        report.summary = FindingCounts::of(&report.findings);
        let expected = format!("2 errors; errors or warnings in 1 of {all} stores, and across them");
        assert_eq!(report.verdict(), expected);
    }

    #[test]
    fn groups_are_named_where_not_all_stores_were_compared() {
        let mut report = samples::report();
        let names = Names::of(&report);
        assert!(report.compared(&names).is_empty());
        let alone = report.groups[0].split_off(2).len();
        let lines = report.compared(&names);
        assert!(lines[0].contains("batch_01.zarr"), "{lines:?}");
        let stores = format::counted(alone as u64, "store is", "stores are");
        assert_eq!(lines[1..], [format!("{stores} like no other")]);
        report.groups.clear();
        assert!(report.compared(&names)[0].starts_with("no stores: none of the "));
    }

    const STYLE: Style = Style { width: 90, color: false, unicode: false };

    fn text_of(report: &Report) -> String {
        render(&report.document(), &STYLE)
    }

    #[test]
    fn says_the_worst_first_and_what_to_do_next() {
        insta::assert_snapshot!(text_of(&samples::report()));
    }

    #[test]
    fn a_clean_store_is_a_few_lines() {
        let mut report = samples::report();
        report.stores.truncate(1);
        report.findings.clear();
        report.summary = FindingCounts::default();
        report.occupancy.clear();
        insta::assert_snapshot!(text_of(&report));
    }

    #[test]
    fn the_same_in_many_places_is_one_item() {
        let mut report = samples::report();
        let array = |index| Finding { array: Some(format!("/v{index}")), ..samples::finding("all-nan") };
        report.findings = (0..227).map(array).collect();
        let text = text_of(&report);
        let arrays = "batch_03.zarr: /v0, /v1, /v2, /v3, /v4, /v5 and 221 more arrays\n";
        assert!(text.contains(arrays), "{text}");
        assert_eq!(text.matches("it is not as it should be").count(), 1, "{text}");
    }

    #[test]
    fn many_findings_are_counted_not_listed() {
        let mut report = samples::report();
        let found =
            |index| Finding { message: format!("message {index}"), ..samples::finding("corrupt-chunk") };
        report.findings = (0..100_000).map(found).collect();
        let text = text_of(&report);
        assert!(text.contains("and 99,992 more findings"), "{text}");
        assert!(text.lines().count() < 60, "{text}");
    }

    #[test]
    fn an_incomplete_run_says_so_first() {
        let mut report = samples::report();
        report.complete = false;
        report.stores[0].complete = false;
        let text = text_of(&report);
        assert!(text.lines().next().unwrap().ends_with("; not everything could be read"), "{text}");
        assert!(text.contains("not all read  /data/cache/batch_01.zarr"), "{text}");
    }

    proptest! {
        #[test]
        fn hostile_names_cannot_steer(text in samples::hostile_text()) {
            let text = text_of(&samples::hostile_report(&text));
            prop_assert!(!text.contains(|character| character != '\n' && crate::sanitize::steers_terminal(character)));
        }
    }
}
