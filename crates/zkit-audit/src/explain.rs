//! `--explain RULE`: what a rule is about.

use zkit_core::error::{Error, ErrorKind};
use zkit_report::{Document, Facts};
use zkit_rules::{Rule, rule_named, similar_rules};

/// Returns the rule of that name; the error for an unknown one names those like it.
pub(crate) fn rule(name: &str) -> Result<&'static Rule, Error> {
    rule_named(name).ok_or_else(|| {
        let error = Error::new(ErrorKind::Usage, format!("there is no rule `{name}`"));
        match similar_rules(name).as_slice() {
            [] => error.with_hint("run `zkit audit --explain all` to see all rules"),
            near => {
                let near: Vec<String> = near.iter().map(|id| format!("`{id}`")).collect();
                error.with_hint(format!("similar rules: {}", near.join(", ")))
            }
        }
    })
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
