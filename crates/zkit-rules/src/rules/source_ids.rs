//! `source-ids`: a coordinate holds values that the source does not have.

use serde_json::Value;
use zkit_core::select::{Standing, range_in_words};
use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "source-ids",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Sample,
    summary: "a coordinate holds ids, times or positions that the source does not have",
    explanation: "\
A slice or a copy is compared with its source (--against URL): each value of a coordinate must stand in the coordinate of the
same path there. One that does not names a row that came from elsewhere: another source, a wrong selection, a coordinate that
was counted up instead of copied.

On disk: the decoded values of both coordinates: times in their calendars, integers and texts exactly, floats as single
precision rounds them, longitudes on the circle.

Legitimate: a slice has fewer values, in any order. Values of a new dimension (a batch number) have no coordinate in the
source, and are not compared.

What to do: write the rows again from the source; the evidence names the values that it lacks.",
    check: Check::Store(check),
};

/// Values that evidence names.
const VALUES_NAMED: usize = 100;
/// Runs of values that a message names.
const RUNS_NAMED: usize = 3;

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let Some(source) = &store.source else { return };
    for (path, standing) in &source.standing {
        let Some(read) = store.coordinate(path) else { continue };
        let count = |wanted: Standing| standing.iter().filter(|&&found| found == wanted).count();
        let (nowhere, entries) = (count(Standing::Nowhere), standing.len() - count(Standing::Missing));
        if nowhere == 0 {
            continue;
        }
        let lost = || (0..standing.len()).filter(|&at| standing[at] == Standing::Nowhere);
        let runs = runs_of(lost());
        let named = runs.iter().take(RUNS_NAMED);
        let mut named: Vec<String> =
            named.map(|&(first, last)| range_in_words(&read.coordinate, first, last)).collect();
        if runs.len() > RUNS_NAMED {
            named.push("and others".to_owned());
        }
        let message =
            format!("{nowhere} of {entries} values do not stand in the source: {}", named.join(", "));
        let values: Vec<Value> =
            lost().take(VALUES_NAMED).map(|at| Value::from(read.coordinate.show(at))).collect();
        finder
            .array(path, message)
            .evidence("entries", entries)
            .evidence("not_in_source", nowhere)
            .evidence("values", values)
            .evidence("source", source.hierarchy.url.as_str())
            .remedy(format!("write these rows again from {}", source.hierarchy.url));
    }
}

/// Joins positions that follow each other: the first and the last of each run.
fn runs_of(positions: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for position in positions {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == position => *last = position,
            _ => runs.push((position, position)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, coordinate_array};

    #[test]
    fn ids_that_the_source_does_not_have_are_named() {
        let days = r#"{"units": "days since 2020-01-01"}"#;
        let source = coordinate_array(TestStore::new(), "time", &[0, 1, 2, 3, 4], days);
        let slice = coordinate_array(TestStore::new(), "time", &[4, 5, 6, 1], days);
        let found = slice.findings_against("source-ids", &source);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message, "2 of 4 values do not stand in the source: 2020-01-06..07");
        assert_eq!(found[0].evidence["not_in_source"], 2);
        assert_eq!(found[0].array.as_deref(), Some("/time"));
    }
}
