//! Reports as workflow commands, which GitHub shows as annotations of a run.
//!
//! Source: GitHub documentation, "Workflow commands for GitHub Actions"; the escapes are those of
//! `@actions/core`. GitHub shows ten annotations of each severity a step, and drops the rest without a word.

use std::io::{self, Write};

use crate::finding::{Finding, Severity};
use crate::format;
use crate::groups::{Group, by_rule};
use crate::report::Report;
use crate::sanitize::sanitize;
use crate::words;

/// The most annotations of one severity that GitHub shows of a step.
const ANNOTATIONS_MOST: usize = 10;

/// The most characters of a title, and of each part of a message.
const TITLE_MOST: usize = 120;
const PART_MOST: usize = 500;

/// Writes one annotation a finding, worst first; where there are more than GitHub shows, one a rule. The last
/// line is a summary for the log.
pub fn write(mut out: impl Write, report: &Report) -> io::Result<()> {
    let groups = by_rule(report);
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let of_severity: Vec<&Group<'_>> = groups.iter().filter(|group| group.severity == severity).collect();
        for annotation in annotations(&of_severity) {
            let title = escape_property(&words::clipped(&annotation.title, TITLE_MOST));
            writeln!(out, "::{} title={title}::{}", command(severity), escape_data(&annotation.text))?;
        }
    }
    for store in report.stores.iter().filter(|store| !store.complete) {
        let url = words::clipped(&store.url, PART_MOST);
        writeln!(out, "{}", escape_data(&format!("zkit audit: could not read all of {url}")))?;
    }
    writeln!(out, "{}", summary(report))
}

fn command(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "notice",
    }
}

/// One annotation, not yet escaped.
struct Annotation {
    title: String,
    text: String,
}

/// Returns at most ten annotations for the findings of one severity: each finding, else each rule, else the
/// worst rules and how many findings are left.
fn annotations(groups: &[&Group<'_>]) -> Vec<Annotation> {
    let findings: usize = groups.iter().map(|group| group.findings.len()).sum();
    if findings <= ANNOTATIONS_MOST {
        return groups.iter().flat_map(|group| &group.findings).map(|finding| of_finding(finding)).collect();
    }
    if groups.len() <= ANNOTATIONS_MOST {
        return groups.iter().map(|group| of_group(group)).collect();
    }
    let (shown, left) = groups.split_at(ANNOTATIONS_MOST - 1);
    let rules: Vec<&str> = left.iter().map(|group| group.rule).collect();
    let left: usize = left.iter().map(|group| group.findings.len()).sum();
    let rest = Annotation {
        title: format!("and {}", format::counted(left as u64, "more finding", "more findings")),
        text: format!("of the rules {}", rules.join(", ")),
    };
    shown.iter().map(|group| of_group(group)).chain([rest]).collect()
}

fn of_finding(finding: &Finding) -> Annotation {
    Annotation { title: format!("{} {}", finding.rule, place(finding)), text: text(finding) }
}

/// Returns the annotation of a rule: its first finding, and how many others there are.
fn of_group(group: &Group<'_>) -> Annotation {
    let first = group.findings[0];
    let others = (group.findings.len() - 1) as u64;
    if others == 0 {
        return of_finding(first);
    }
    let stores = format::counted(group.stores(), "store", "stores");
    let places = match group.arrays() {
        0 => stores,
        arrays => format!("{stores}, {}", format::counted(arrays, "array", "arrays")),
    };
    Annotation {
        title: format!("{}: {} findings", group.rule, format::count(others + 1)),
        text: format!(
            "{}: {}\nand {} in {places}",
            place(first),
            text(first),
            format::counted(others, "more finding", "more findings"),
        ),
    }
}

fn place(finding: &Finding) -> String {
    let store = sanitize(&finding.store);
    let place = match &finding.array {
        Some(array) => format!("{store} {}", sanitize(array)),
        None => store.into_owned(),
    };
    words::clipped(&place, PART_MOST).into_owned()
}

/// Returns the message, where it lies, and the remedy; a line each.
fn text(finding: &Finding) -> String {
    let mut text = clean(&finding.message);
    if let Some(extent) = words::extent(finding) {
        text.push_str(&format!("\n{}", clean(&extent)));
    }
    if let Some(remedy) = &finding.remedy {
        text.push_str(&format!("\nnext: {}", clean(remedy)));
    }
    text
}

fn clean(text: &str) -> String {
    words::clipped(&sanitize(text), PART_MOST).into_owned()
}

fn summary(report: &Report) -> String {
    let mut line = format!(
        "zkit audit: {} in {}",
        words::counts(&report.summary),
        format::counted(report.stores.len() as u64, "store", "stores")
    );
    if report.hidden > 0 {
        line.push_str(&format!(", {} hidden by the baseline", format::count(report.hidden)));
    }
    if !report.complete {
        line.push_str(", not everything could be read");
    }
    line
}

/// Escapes the text of a command; newlines that it holds are shown as such.
fn escape_data(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| sanitize(line).replace('%', "%25")).collect();
    lines.join("%0A")
}

/// Escapes the value of a property of a command.
fn escape_property(text: &str) -> String {
    sanitize(text).replace('%', "%25").replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{self, HOSTILE};
    use proptest::prelude::*;

    fn written(report: &Report) -> String {
        samples::written(report, write)
    }

    #[test]
    fn annotates_each_finding() {
        insta::assert_snapshot!(written(&samples::report()));
    }

    #[test]
    fn names_rules_where_there_are_more_findings_than_are_shown() {
        let mut report = samples::report();
        let array =
            |index| Finding { array: Some(format!("/v{index}")), ..samples::finding("truncated-chunk") };
        report.findings.extend((0..40).map(array));
        let text = written(&report);
        let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("::error ")).collect();
        assert_eq!(errors.len(), 3, "{text}");
        assert!(errors[0].starts_with("::error title=truncated-chunk%3A 40 findings::"), "{text}");
        assert!(errors[0].ends_with("%0Aand 39 more findings in 1 store, 40 arrays"), "{text}");
    }

    #[test]
    fn never_writes_more_than_ten_of_a_severity() {
        const RULES: [&str; 13] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"];
        let mut report = Report::new("0.1.0");
        report.findings =
            RULES.iter().flat_map(|rule| [samples::finding(rule), samples::finding(rule)]).collect();
        let text = written(&report);
        assert_eq!(text.matches("::error ").count(), 10, "{text}");
        assert!(text.contains("::error title=and 8 more findings::of the rules j, k, l, m"), "{text}");
    }

    #[test]
    fn a_clean_run_is_one_line() {
        let mut report = samples::report();
        report.findings.clear();
        report.summary = Default::default();
        assert_eq!(written(&report), "zkit audit: no findings in 3 stores\n");
    }

    /// Reads commands as the runner does.
    fn commands(text: &str) -> Vec<&str> {
        text.lines()
            .filter_map(|line| line.trim_start().strip_prefix("::")?.split([' ', ':']).next())
            .collect()
    }

    fn assert_harmless(text: &str) {
        let text = written(&samples::hostile_report(text));
        assert_eq!(commands(&text), ["error", "error", "error", "warning", "notice"], "{text}");
        assert!(!text.contains("##["), "the old syntax of commands: {text}");
        let steers = |character: char| character != '\n' && crate::sanitize::steers_terminal(character);
        assert!(!text.contains(steers), "{text:?}");
    }

    #[test]
    fn hostile_names_make_no_commands() {
        HOSTILE.into_iter().for_each(assert_harmless);
    }

    proptest! {
        #[test]
        fn no_name_makes_a_command(text in samples::hostile_text()) {
            assert_harmless(&text);
        }
    }
}
