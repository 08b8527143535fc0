//! `--explain RULE`: what a rule is about.

use zkit_core::error::{Error, ErrorKind};
use zkit_report::{Column, Document, Facts, Table};
use zkit_rules::{RULES, Rule, rule_named, similar_rules};

/// Returns the rule of that name; the error for an unknown one names those like it.
pub(crate) fn rule(name: &str) -> Result<&'static Rule, Error> {
    rule_named(name).ok_or_else(|| unknown_rule(name))
}

/// Returns the error for a rule that does not exist.
pub(crate) fn unknown_rule(name: &str) -> Error {
    let error = Error::new(ErrorKind::Usage, format!("there is no rule `{name}`"));
    match similar_rules(name).as_slice() {
        [] => error.with_hint("run `zkit audit --explain all` to see all rules"),
        near => {
            let near: Vec<String> = near.iter().map(|id| format!("`{id}`")).collect();
            error.with_hint(format!("similar rules: {}", near.join(", ")))
        }
    }
}

/// Returns the list of all rules for people.
pub(crate) fn list() -> Document {
    let columns =
        [Column::left("rule"), Column::left("severity"), Column::left("from depth"), Column::left("finds")];
    let mut table = Table::new(columns);
    for rule in RULES {
        table.row([rule.id, rule.severity.name(), rule.depth.name(), rule.summary]);
    }
    let mut document = Document::new();
    document.table(table);
    document
}

/// Returns the list of all rules for programs.
pub(crate) fn list_value() -> serde_json::Value {
    let rules: Vec<serde_json::Value> = RULES.iter().map(|rule| value(rule)).collect();
    serde_json::json!({ "schema_version": 1, "rules": rules })
}

/// Returns what people read of a rule.
pub(crate) fn document(rule: &Rule) -> Document {
    let mut facts = Facts::new();
    facts
        .fact("severity", rule.severity.name())
        .fact("confidence", rule.confidence.name())
        .fact("seen from", format!("--depth {}", rule.depth));
    let mut document = Document::new();
    document.title(format!("{}: {}", rule.id, rule.summary)).facts(facts);
    for paragraph in rule.explanation.split("\n\n") {
        document.paragraph(paragraph.replace('\n', " "));
    }
    document
}

/// Returns what programs read of a rule.
pub(crate) fn value(rule: &Rule) -> serde_json::Value {
    serde_json::json!({
        "schema_version": 1,
        "rule": rule.id,
        "severity": rule.severity,
        "confidence": rule.confidence,
        "depth": rule.depth.name(),
        "summary": rule.summary,
        "explanation": rule.explanation,
    })
}
