//! The answer for people: worst first.

use zkit_report::{Column, Document, Finding, FindingCounts, Table, format};
use zkit_rules::summary::StoreSummary;

/// Returns what people read of a run.
pub(crate) fn document(stores: &[StoreSummary], findings: &[Finding]) -> Document {
    let counts = FindingCounts::of(findings);
    let mut document = Document::new();
    let mut table = Table::new([
        Column::left("severity"),
        Column::left("rule"),
        Column::left("where"),
        Column::left("what"),
    ]);
    for finding in findings {
        let place = finding.array.as_deref().unwrap_or(&finding.store);
        table.row([finding.severity.name(), finding.rule, place, &finding.message]);
    }
    document.table(table);
    document.paragraph(format!(
        "{} in {}: {} errors, {} warnings, {} notes",
        format::count(findings.len() as u64),
        format::count(stores.len() as u64),
        counts.errors,
        counts.warnings,
        counts.infos
    ));
    document
}
