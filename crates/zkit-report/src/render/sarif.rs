//! Reports as SARIF 2.1.0, which code scanning services read.
//!
//! Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0"; what GitHub takes of it:
//! "SARIF support for code scanning".

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::finding::{Confidence, Finding, Severity, fingerprints};
use crate::groups::worst_first;
use crate::render::{json, uri};
use crate::report::{Report, RuleInfo};
use crate::sanitize::sanitize;
use crate::words;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The most results of one run that GitHub takes; with more it refuses the file.
const RESULTS_MOST: usize = 25_000;

/// The most characters of a text, and the most boxes of a result.
const TEXT_MOST: usize = 1_000;
const BOXES_MOST: usize = 100;

/// Writes one run: its rules, one result a finding (the worst first), and what could not be read.
pub fn write(out: impl Write, report: &Report) -> io::Result<()> {
    let rules = rules(report);
    let index_of: BTreeMap<&str, usize> =
        rules.iter().enumerate().map(|(index, rule)| (rule.id, index)).collect();
    let findings = worst_first(report);
    let shown = &findings[..findings.len().min(RESULTS_MOST)];
    let fingerprints = fingerprints(shown.iter().copied());
    let results: Vec<Value> = shown
        .iter()
        .zip(&fingerprints)
        .map(|(finding, fingerprint)| result(finding, index_of[finding.rule], fingerprint))
        .collect();
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "zkit",
                "fullName": "zkit audit",
                "version": report.zkit_version,
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules.iter().map(rule).collect::<Vec<_>>(),
            }},
            "automationDetails": {"id": "zkit-audit/"},
            "invocations": [{
                "executionSuccessful": report.complete,
                "toolExecutionNotifications": notifications(report, findings.len()),
            }],
            "results": results,
        }],
    });
    json::write(out, &log)
}

/// Returns the rules of the report, and after them those that only findings name.
fn rules(report: &Report) -> Vec<RuleInfo> {
    let mut rules = report.rules.clone();
    for finding in &report.findings {
        if !rules.iter().any(|rule| rule.id == finding.rule) {
            rules.push(RuleInfo { id: finding.rule, severity: finding.severity, summary: "", explain: "" });
        }
    }
    rules
}

fn rule(rule: &RuleInfo) -> Value {
    let summary = if rule.summary.is_empty() { rule.id } else { rule.summary };
    let explain = words::paragraphs(if rule.explain.is_empty() { summary } else { rule.explain });
    json!({
        "id": rule.id,
        "name": pascal_case(rule.id),
        "shortDescription": {"text": summary},
        "fullDescription": {"text": explain.first().map_or(summary, String::as_str)},
        "help": {"text": format!("{}\n\nzkit audit --explain {}", explain.join("\n\n"), rule.id)},
        "defaultConfiguration": {"level": level(rule.severity)},
        "properties": {"tags": ["zarr", "data-quality"], "problem.severity": problem_severity(rule.severity)},
    })
}

/// Returns `MissingSlab` for `missing-slab`: names of rules have no hyphens.
fn pascal_case(id: &str) -> String {
    id.split('-')
        .flat_map(|word| {
            word.chars().enumerate().map(|(index, letter)| match index {
                0 => letter.to_ascii_uppercase(),
                _ => letter,
            })
        })
        .collect()
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

const fn problem_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "recommendation",
    }
}

/// Returns how likely a result matters, of 100 (SARIF 3.27.25).
const fn rank(confidence: Confidence) -> f64 {
    match confidence {
        Confidence::High => 90.0,
        Confidence::Medium => 60.0,
        Confidence::Low => 30.0,
    }
}

fn result(finding: &Finding, rule_index: usize, fingerprint: &str) -> Value {
    let boxes = finding.chunks.as_deref();
    json!({
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": level(finding.severity),
        "rank": rank(finding.confidence),
        "message": {"text": message(finding)},
        "locations": [location(finding)],
        "partialFingerprints": {"zkitFinding/v1": fingerprint},
        "properties": {
            "confidence": finding.confidence,
            "grid": finding.grid,
            "chunks": boxes.map(|boxes| &boxes[..boxes.len().min(BOXES_MOST)]),
            "evidence": Value::Object(finding.evidence.clone()),
            "remedy": finding.remedy.as_deref().map(clean),
        },
    })
}

/// Returns what was found, where in words, and what to do; viewers show no more than this of a result.
fn message(finding: &Finding) -> String {
    let mut text = clean(&finding.message);
    if let Some(array) = &finding.array {
        text = format!("{}: {text}", clean(array));
    }
    if let Some(extent) = words::extent(finding) {
        text.push_str(&format!(" ({})", clean(&extent)));
    }
    if let Some(remedy) = &finding.remedy {
        text.push_str(&format!("\nNext: {}", clean(remedy)));
    }
    text
}

fn location(finding: &Finding) -> Value {
    let mut location = Map::new();
    location.insert(
        "physicalLocation".into(),
        json!({
            "artifactLocation": {"uri": uri::reference_of_node(&finding.store, finding.array.as_deref())},
            // code scanning on GitHub refuses locations without one
            "region": {"startLine": 1},
        }),
    );
    if let Some(array) = &finding.array {
        let name = array.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(array);
        location.insert(
            "logicalLocations".into(),
            json!([{"name": clean(name), "fullyQualifiedName": clean(array), "kind": "array"}]),
        );
    }
    Value::Object(location)
}

/// Returns what the tool says of its own run: stores that could not be read, results that were left out.
fn notifications(report: &Report, findings: usize) -> Vec<Value> {
    let note = |level: &str, text: String| json!({"level": level, "message": {"text": text}});
    let unread = report.stores.iter().filter(|store| !store.complete);
    let mut notes: Vec<Value> =
        unread.map(|store| note("error", format!("could not read all of {}", clean(&store.url)))).collect();
    if findings > RESULTS_MOST {
        let text = format!("{findings} findings; the {RESULTS_MOST} that matter most are here");
        notes.push(note("warning", text));
    }
    notes
}

fn clean(text: &str) -> String {
    words::clipped(&sanitize(text), TEXT_MOST).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use proptest::prelude::*;

    fn written(report: &Report) -> String {
        samples::written(report, write)
    }

    #[test]
    fn has_rules_results_and_places() {
        insta::assert_snapshot!(written(&samples::report()));
    }

    #[test]
    fn rules_that_only_findings_name_are_rules_too() {
        let mut report = Report::new("0.1.0");
        report.findings = vec![samples::finding("corrupt-chunk"), samples::finding("corrupt-chunk")];
        let log: Value = serde_json::from_str(&written(&report)).unwrap();
        let run = &log["runs"][0];
        assert_eq!(run["tool"]["driver"]["rules"].as_array().unwrap().len(), 1);
        assert_eq!(run["tool"]["driver"]["rules"][0]["name"], "CorruptChunk");
        assert_eq!(run["results"][1]["ruleIndex"], 0);
    }

    #[test]
    fn what_could_not_be_read_is_said() {
        let mut report = samples::report();
        report.complete = false;
        report.stores[1].complete = false;
        let log: Value = serde_json::from_str(&written(&report)).unwrap();
        let invocation = &log["runs"][0]["invocations"][0];
        assert_eq!(invocation["executionSuccessful"], false);
        assert_eq!(
            invocation["toolExecutionNotifications"][0]["message"]["text"],
            "could not read all of /data/cache/batch_02.zarr"
        );
    }

    #[test]
    fn more_results_than_services_take_are_left_out_and_counted() {
        let mut report = Report::new("0.1.0");
        report.findings = vec![samples::finding("corrupt-chunk"); RESULTS_MOST + 1];
        let log: Value = serde_json::from_str(&written(&report)).unwrap();
        assert_eq!(log["runs"][0]["results"].as_array().unwrap().len(), RESULTS_MOST);
        let notes = &log["runs"][0]["invocations"][0]["toolExecutionNotifications"];
        assert_eq!(notes[0]["message"]["text"], "25001 findings; the 25000 that matter most are here");
    }

    proptest! {
        #[test]
        fn hostile_texts_leave_sound_json_and_uris(text in samples::hostile_text()) {
            let log = written(&samples::hostile_report(&text));
            let steers = |character: char| character != '\n' && crate::sanitize::steers_terminal(character);
            prop_assert!(!log.contains(steers));
            let log: Value = serde_json::from_str(&log).unwrap();
            for result in log["runs"][0]["results"].as_array().unwrap() {
                let uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap();
                let allowed = |byte: u8| byte.is_ascii_graphic() && !b"<>\"{}|\\^`".contains(&byte);
                prop_assert!(uri.bytes().all(allowed), "{}", uri);
            }
        }
    }
}
