//! Steps that are missing from an otherwise regular coordinate.

use serde_json::{Value, json};
use zkit_core::select::{Axis, Gap, Order, is_coordinate};
use zkit_report::{Confidence, Severity};

use crate::coordinates::CoordinateObservation;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "coordinate-gap",
    severity: Severity::Warning,
    confidence: Confidence::High,
    depth: Depth::Sample,
    summary: "steps are missing from a coordinate that is regular otherwise",
    explanation: "\
Most values of the coordinate are one step apart (6 h, 1 month, 0.25 degrees) and some are further: a batch was never
appended, or a day was lost. Rolling means, lags and plots take the next row for the next step.

On disk: nothing is absent; the array of one dimension that is named like it simply goes on behind the gap. The step is the
middle of all differences, and at least three quarters of them must be it; months and years count by the calendar.

Legitimate: gaps that come back evenly (nights, week-ends, seasons) and steps that change for good (the later hours of a
forecast) are no loss. Coordinates without a step have no gaps; ids and levels are not looked at. A gap as long as half of
what is there is likely a choice of periods: it is a note.

What to do: append what is missing. If the end is what counts, zkit.toml can say so: [[audit.variable]] with
expect-complete-through = \"2021-12-31\".",
    check: Check::Store(check),
};

/// Gaps that a message names.
const GAPS_NAMED: usize = 3;

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for read in &store.coordinates {
        let dimension = store.array(&read.coordinate.path).is_some_and(|array| is_coordinate(array.node));
        let directed =
            matches!(read.coordinate.axis, Axis::Time | Axis::Latitude | Axis::Longitude | Axis::Horizontal);
        let rolled = matches!(read.analysis.order, Order::Seam { .. });
        if dimension && directed && !rolled {
            check_gaps(read, finder);
        }
    }
}

fn check_gaps(read: &CoordinateObservation, finder: &mut Finder<'_>) {
    let (coordinate, analysis) = (&read.coordinate, &read.analysis);
    let Some(steps) = &analysis.steps else { return };
    let gaps = &steps.gaps;
    let Some(step) = steps.step.filter(|_| gaps.count > 0 && !gaps.recurring) else { return };
    let step = step.show(&coordinate.values);
    let named = gaps.named.iter().take(GAPS_NAMED).map(|&Gap { after, before, missing }| {
        format!(
            "{missing} between {} (position {after}) and {}",
            coordinate.show(after),
            coordinate.show(before)
        )
    });
    let mut words: Vec<String> = named.collect();
    if gaps.count > GAPS_NAMED {
        words.push(format!("and {} more gaps", gaps.count - GAPS_NAMED));
    }
    let evidence: Vec<Value> = gaps
        .named
        .iter()
        .map(|gap| {
            json!({"after": gap.after, "before": gap.before, "missing": gap.missing,
                "from": coordinate.show(gap.after), "to": coordinate.show(gap.before)})
        })
        .collect();
    let count = if gaps.missing == 1 { "1 step".to_owned() } else { format!("{} steps", gaps.missing) };
    let finding = finder
        .array(
            &coordinate.path,
            format!(
                "{count} of {step} {} missing: {}",
                if gaps.missing == 1 { "is" } else { "are" },
                words.join(", ")
            ),
        )
        .evidence("step", step)
        .evidence("missing", gaps.missing)
        .evidence("gaps", evidence)
        .remedy("append what is missing");
    let half = u64::try_from(analysis.len / 2).unwrap_or(u64::MAX);
    if gaps.named.iter().any(|gap| gap.missing >= half) {
        finding.severity(Severity::Info).confidence(Confidence::Low);
    } else if gaps.count > GAPS_NAMED || analysis.len < 20 {
        finding.confidence(Confidence::Medium);
    }
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, coordinate_array};

    fn findings(values: &[i64], attributes: &str, name: &str) -> Vec<zkit_report::Finding> {
        coordinate_array(TestStore::new(), name, values, attributes).findings("coordinate-gap")
    }

    #[test]
    fn a_missing_day_is_named_by_its_neighbours() {
        let values: Vec<i64> =
            (0..100).filter(|step| !(84..88).contains(step)).map(|step| step * 6).collect();
        let found = findings(&values, r#"{"units": "hours since 2013-01-01"}"#, "time");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!(
            found[0].message,
            "4 steps of 6 h are missing: 4 between 2013-01-21T18:00 (position 83) and 2013-01-23"
        );
    }

    #[test]
    fn months_and_leap_years_are_no_gaps() {
        let monthly = [0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366];
        assert_eq!(findings(&monthly, r#"{"units": "days since 2000-01-01"}"#, "time"), []);
        let february_lost: Vec<i64> = monthly.iter().copied().filter(|&day| day != 213).collect();
        let found = findings(&february_lost, r#"{"units": "days since 2000-01-01"}"#, "time");
        assert_eq!(
            found[0].message,
            "1 step of 1 month is missing: 1 between 2000-07-01 (position 6) and 2000-09-01"
        );
    }

    #[test]
    fn chosen_periods_seasons_and_ids_are_no_loss() {
        let periods: Vec<i64> = (0..30).chain(3650..3680).collect();
        let found = findings(&periods, r#"{"units": "days since 2000-01-01"}"#, "time");
        assert!(found.iter().all(|finding| finding.severity == Severity::Info));
        let weekdays: Vec<i64> = (0..100).filter(|day| day % 7 < 5).collect();
        assert_eq!(findings(&weekdays, r#"{"units": "days since 2000-01-01"}"#, "time"), []);
        let ids: Vec<i64> = (0..50).filter(|id| *id != 17).collect();
        assert_eq!(findings(&ids, "{}", "file_id"), []);
    }

    #[test]
    fn a_row_of_a_grid_that_is_missing_is_found() {
        let rows: Vec<i64> = (-90..=90).rev().filter(|row| *row != 12).collect();
        let found = findings(&rows, r#"{"units": "degrees_north"}"#, "lat");
        assert_eq!(found[0].message, "1 step of 1 is missing: 1 between 11 (position 78) and 13");
    }
}
