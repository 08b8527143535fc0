//! Reports as JUnit XML, which CI services show as tests: a suite a store, a test a rule and array.
//!
//! Source: the dialect of Jenkins and of GitLab, which `quick-junit` writes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestSuite};

use crate::finding::Finding;
use crate::format;
use crate::groups::worst_first;
use crate::report::{Report, StoreSummary};
use crate::sanitize::sanitize;
use crate::words;

/// The most tests that only say that a rule found nothing; beyond it each store has one for all its rules.
const PASSING_MOST: usize = 50_000;

/// The most findings of one rule and array that are written out, and the most characters of a text.
const FINDINGS_MOST: usize = 50;
const TEXT_MOST: usize = 1_000;

/// The name of the suite for findings of stores that the report does not list.
const ELSEWHERE: &str = "other places";

/// Writes a suite for each store.
///
/// A test fails where a finding reaches [`Report::fail_on`], as the run does; lesser findings are output of
/// tests that pass. A store that could not be read whole has a test in error.
pub fn write(mut out: impl Write, report: &Report) -> io::Result<()> {
    let mut of_store: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in worst_first(report) {
        of_store.entry(&finding.store).or_default().push(finding);
    }
    let one_by_one = report.stores.len().saturating_mul(report.rules.len()) <= PASSING_MOST;
    let mut document = quick_junit::Report::new("zkit audit");
    for store in &report.stores {
        let findings = of_store.remove(store.url.as_str()).unwrap_or_default();
        document.add_test_suite(suite(report, store, &findings, one_by_one));
    }
    let elsewhere: Vec<&Finding> = of_store.into_values().flatten().collect();
    if !elsewhere.is_empty() {
        let mut suite = TestSuite::new(ELSEWHERE);
        suite.add_test_cases(cases(report, ELSEWHERE, &elsewhere));
        document.add_test_suite(suite);
    }
    let text = document.to_string().map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}

fn suite(report: &Report, store: &StoreSummary, findings: &[&Finding], one_by_one: bool) -> TestSuite {
    let url = clean(&store.url);
    let mut suite = TestSuite::new(url.as_str());
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), |bytes| bytes.to_string());
    for (name, value) in [
        ("kind", clean(&store.kind)),
        ("arrays", store.arrays.to_string()),
        ("bytes_stored", bytes(store.bytes_stored)),
        ("bytes_decoded", bytes(store.bytes_decoded)),
        ("depth", store.depth.to_owned()),
    ] {
        suite.add_property(Property::new(name, value));
    }
    if !store.complete {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message("not everything could be read").set_type("incomplete");
        suite.add_test_case(case("complete", &url, status));
    }
    suite.add_test_cases(cases(report, &url, findings));
    let clean_rules: Vec<&str> = report
        .rules
        .iter()
        .map(|rule| rule.id)
        .filter(|id| findings.iter().all(|finding| finding.rule != *id))
        .collect();
    if one_by_one {
        suite.add_test_cases(clean_rules.iter().map(|id| case(id, &url, TestCaseStatus::success())));
    } else if !clean_rules.is_empty() {
        let name = format!("{} other rules", clean_rules.len());
        suite.add_test_case(case(&name, &url, TestCaseStatus::success()));
    }
    suite
}

/// Returns a test for each rule and array that has findings, the worst first.
fn cases(report: &Report, class: &str, findings: &[&Finding]) -> Vec<TestCase> {
    let mut order: Vec<(&str, Option<&str>)> = Vec::new();
    let mut of_case: BTreeMap<(&str, Option<&str>), Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        let key = (finding.rule, finding.array.as_deref());
        let entry = of_case.entry(key).or_default();
        if entry.is_empty() {
            order.push(key);
        }
        entry.push(finding);
    }
    order.iter().map(|key| case_of(report, class, key, &of_case[key])).collect()
}

fn case_of(
    report: &Report,
    class: &str,
    (rule, array): &(&str, Option<&str>),
    findings: &[&Finding],
) -> TestCase {
    let name = array.map_or_else(|| (*rule).to_owned(), |array| format!("{rule} {}", clean(array)));
    let details = details(findings);
    // the worst come first, so the first says whether one of them makes the run fail
    if !report.fails(findings[0]) {
        let mut passing = case(&name, class, TestCaseStatus::success());
        passing.set_system_out(details);
        return passing;
    }
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    let kind = findings[0].severity.name();
    status.set_message(clean(&findings[0].message)).set_type(kind).set_description(details);
    case(&name, class, status)
}

fn case(name: &str, class: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.set_classname(class);
    case
}

/// Returns the findings as lines of text.
fn details(findings: &[&Finding]) -> String {
    let mut text = String::new();
    for finding in findings.iter().take(FINDINGS_MOST) {
        let (severity, confidence) = (finding.severity.name(), finding.confidence.name());
        text.push_str(&format!("{severity} (confidence {confidence}): {}\n", clean(&finding.message)));
        if let Some(extent) = words::extent(finding) {
            text.push_str(&format!("  where: {}\n", clean(&extent)));
        }
        for (name, value) in finding.evidence.iter().filter(|(name, _)| *name != "coordinates") {
            text.push_str(&format!("  {}: {}\n", clean(name), clean(&words::plain(value))));
        }
        if let Some(remedy) = &finding.remedy {
            text.push_str(&format!("  next: {}\n", clean(remedy)));
        }
    }
    if findings.len() > FINDINGS_MOST {
        let more = (findings.len() - FINDINGS_MOST) as u64;
        text.push_str(&format!("and {}\n", format::counted(more, "more finding", "more findings")));
    }
    text
}

/// Returns text that XML 1.0 can hold: without what it has no way to write (its section 2.2).
fn clean(text: &str) -> String {
    let writable: String = sanitize(text)
        .chars()
        .map(|character| if matches!(character, '\u{fffe}' | '\u{ffff}') { '\u{fffd}' } else { character })
        .collect();
    words::clipped(&writable, TEXT_MOST).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::samples::{self, HOSTILE};
    use proptest::prelude::*;

    fn written(report: &Report) -> String {
        samples::written(report, write)
    }

    #[test]
    fn has_a_suite_a_store_and_a_test_a_rule_and_array() {
        insta::assert_snapshot!(written(&samples::report()));
    }

    #[test]
    fn fails_as_the_run_does() {
        let mut report = samples::report();
        assert_eq!(written(&report).matches("<failure").count(), 3);
        report.fail_on = Some(Severity::Warning);
        assert_eq!(written(&report).matches("<failure").count(), 4);
        report.fail_on = None;
        assert_eq!(written(&report).matches("<failure").count(), 0);
    }

    #[test]
    fn many_stores_do_not_multiply_passing_tests() {
        let mut report = samples::report();
        report.stores = vec![report.stores[0].clone(); 10_001];
        report.findings.clear();
        let text = written(&report);
        assert_eq!(text.matches("<testcase").count(), 10_001);
        assert!(text.contains("name=\"5 other rules\""));
    }

    #[test]
    fn findings_of_places_that_are_no_stores_are_kept() {
        let mut report = samples::report();
        report.stores.clear();
        let text = written(&report);
        assert!(text.contains("<testsuite name=\"other places\" tests=\"5\""), "{text}");
    }

    fn assert_sound(text: &str) {
        let document = written(&samples::hostile_report(text));
        let allowed = |character: char| {
            character == '\n'
                || !crate::sanitize::steers_terminal(character)
                    && !matches!(character, '\u{fffe}' | '\u{ffff}')
        };
        assert!(document.chars().all(allowed), "{document:?}");
        for tag in document.split('<').skip(1) {
            let known = [
                "?xml",
                "testsuites",
                "testsuite",
                "testcase",
                "properties",
                "property",
                "failure",
                "error",
                "system-out",
            ];
            let name = tag.trim_start_matches('/').split([' ', '>', '/']).next().unwrap_or_default();
            assert!(known.contains(&name), "{tag}");
        }
    }

    #[test]
    fn hostile_names_make_no_tags() {
        HOSTILE.into_iter().for_each(assert_sound);
    }

    proptest! {
        #[test]
        fn no_name_makes_a_tag(text in samples::hostile_text()) {
            assert_sound(&text);
        }
    }
}
