//! Findings in the order in which people want them: by rule, the worst rule first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Finding, Severity};
use crate::report::Report;
use crate::words;

/// The most remedies that are kept of findings that say the same.
const REMEDIES_MOST: usize = 5;

/// The findings of one rule with one severity.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) rule: &'a str,
    pub(crate) severity: Severity,
    /// What the rule finds, if the report says so.
    pub(crate) summary: Option<&'a str>,
    /// The surest first, then in the order of the report; never empty.
    pub(crate) findings: Vec<&'a Finding>,
}

impl Group<'_> {
    /// Returns how many stores the findings are of.
    pub(crate) fn stores(&self) -> u64 {
        let stores: BTreeSet<&str> = self.findings.iter().map(|finding| finding.store.as_str()).collect();
        stores.len() as u64
    }

    /// Returns how many arrays the findings are of.
    pub(crate) fn arrays(&self) -> u64 {
        let arrays: BTreeSet<(&str, &str)> = self
            .findings
            .iter()
            .filter_map(|finding| Some((finding.store.as_str(), finding.array.as_deref()?)))
            .collect();
        arrays.len() as u64
    }
}

/// Findings of one rule that say the same of the same chunks, of several arrays or of several stores.
#[derive(Debug)]
pub(crate) struct Alike<'a> {
    /// The first of them.
    pub(crate) finding: &'a Finding,
    /// The stores; each has all of `arrays`.
    pub(crate) stores: Vec<&'a str>,
    /// The arrays; empty for findings of whole stores.
    pub(crate) arrays: Vec<&'a str>,
    /// What to do, each once.
    pub(crate) remedies: Vec<&'a str>,
    /// How many findings they are.
    pub(crate) findings: usize,
}

/// Returns the findings of a group, those joined that differ in their place alone; in the order of the first
/// of each.
pub(crate) fn alike<'a>(group: &Group<'a>) -> Vec<Alike<'a>> {
    // what the findings of a store say: their arrays
    let mut order = Vec::new();
    let mut in_store: BTreeMap<_, Vec<&Finding>> = BTreeMap::new();
    for &finding in &group.findings {
        let key =
            (finding.store.as_str(), finding.confidence, finding.message.as_str(), words::extent(finding));
        let findings = in_store.entry(key.clone()).or_default();
        if findings.is_empty() {
            order.push(key);
        }
        findings.push(finding);
    }
    // stores that say the same of the same arrays
    let mut joined: Vec<Alike<'a>> = Vec::new();
    let mut positions: BTreeMap<_, usize> = BTreeMap::new();
    for key in order {
        let findings = &in_store[&key];
        let (store, confidence, message, extent) = key.clone();
        let mut arrays: Vec<&str> = findings.iter().filter_map(|finding| finding.array.as_deref()).collect();
        arrays.dedup();
        let position =
            *positions.entry((confidence, message, extent, arrays.clone())).or_insert(joined.len());
        if position == joined.len() {
            let (finding, stores, remedies) = (findings[0], Vec::new(), Vec::new());
            joined.push(Alike { finding, stores, arrays, remedies, findings: 0 });
        }
        let all = &mut joined[position];
        all.stores.push(store);
        all.findings += findings.len();
        for remedy in findings.iter().filter_map(|finding| finding.remedy.as_deref()) {
            if !all.remedies.contains(&remedy) && all.remedies.len() < REMEDIES_MOST {
                all.remedies.push(remedy);
            }
        }
    }
    joined
}

/// Returns the findings by rule: errors before warnings before notes, surer rules before less sure ones,
/// rules with more findings before those with fewer.
pub(crate) fn by_rule(report: &Report) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<(Reverse<Severity>, &str), Vec<&Finding>> = BTreeMap::new();
    for finding in &report.findings {
        groups.entry((Reverse(finding.severity), finding.rule)).or_default().push(finding);
    }
    let summary_of = |id| report.rules.iter().find(|rule| rule.id == id).map(|rule| rule.summary);
    let mut groups: Vec<Group<'_>> = groups
        .into_iter()
        .map(|((Reverse(severity), rule), mut findings)| {
            findings.sort_by_key(|finding| Reverse(finding.confidence));
            Group { rule, severity, summary: summary_of(rule), findings }
        })
        .collect();
    groups.sort_by_key(|group| {
        (Reverse(group.severity), Reverse(group.findings[0].confidence), Reverse(group.findings.len()))
    });
    groups
}

/// Returns all findings, worst first: in the order of [`by_rule`].
pub(crate) fn worst_first(report: &Report) -> Vec<&Finding> {
    by_rule(report).into_iter().flat_map(|group| group.findings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Confidence;
    use crate::samples;

    #[test]
    fn findings_that_differ_in_place_alone_are_one() {
        let mut report = Report::new("0.0.0");
        for store in ["a", "b", "c"] {
            for array in ["/t", "/u"] {
                let remedy = Some(format!("zkit repair {store}"));
                let (store, array) = (store.to_owned(), Some(array.to_owned()));
                report.findings.push(Finding { store, array, remedy, ..samples::finding("corrupt-chunk") });
            }
        }
        let array = Some("/v".to_owned());
        report.findings.push(Finding { store: "c".into(), array, ..samples::finding("corrupt-chunk") });
        let groups = by_rule(&report);
        let joined = alike(&groups[0]);
        assert_eq!(joined.len(), 2);
        assert_eq!((&joined[0].stores[..], &joined[0].arrays[..]), (&["a", "b"][..], &["/t", "/u"][..]));
        assert_eq!((joined[0].findings, joined[0].remedies.len()), (4, 2));
        assert_eq!((&joined[1].stores[..], &joined[1].arrays[..]), (&["c"][..], &["/t", "/u", "/v"][..]));
    }

    #[test]
    fn worst_rules_come_first_and_the_surest_findings_in_them() {
        let mut report = Report::new("0.0.0");
        let of = |rule, severity, confidence, array: &str| Finding {
            severity,
            confidence,
            array: Some(array.into()),
            ..samples::finding(rule)
        };
        report.findings = vec![
            of("absent-chunks", Severity::Info, Confidence::High, "/a"),
            of("nan-slab", Severity::Error, Confidence::Low, "/a"),
            of("nan-slab", Severity::Warning, Confidence::High, "/a"),
            of("missing-slab", Severity::Error, Confidence::Medium, "/b"),
            of("corrupt-chunk", Severity::Error, Confidence::High, "/c"),
            of("nan-slab", Severity::Error, Confidence::High, "/b"),
        ];
        let groups = by_rule(&report);
        let order: Vec<_> = groups.iter().map(|group| (group.rule, group.severity)).collect();
        assert_eq!(
            order,
            [
                ("nan-slab", Severity::Error),
                ("corrupt-chunk", Severity::Error),
                ("missing-slab", Severity::Error),
                ("nan-slab", Severity::Warning),
                ("absent-chunks", Severity::Info),
            ]
        );
        assert_eq!(groups[0].findings[0].array.as_deref(), Some("/b"));
        assert_eq!((groups[0].stores(), groups[0].arrays()), (1, 2));
        assert_eq!(worst_first(&report).len(), report.findings.len());
    }
}
