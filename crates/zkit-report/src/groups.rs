//! Findings in the order in which people want them: by rule, the worst rule first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Finding, Severity};
use crate::report::Report;

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
