//! Steps that are missing from an otherwise regular coordinate.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde_json::{Value, json};
use zkit_core::error::ErrorKind;
use zkit_core::metadata::Json;
use zkit_core::select::{Axis, Coordinate, Gap, Index, Method, Order, Request, Values, is_coordinate};
use zkit_report::{Confidence, Severity};

use crate::coordinates::CoordinateObservation;
use crate::depth::Depth;
use crate::finder::{Draft, Finder};
use crate::ids::is_id;
use crate::observe::{ArrayObservation, CacheObservation, StoreObservation};
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
middle of all differences, and at least three quarters of them must be it; months and years count by the calendar. Looked
at are times, lead times of forecasts (durations), latitudes, longitudes and projected positions.

Legitimate: gaps that come back evenly (nights, week-ends, seasons) and steps that change for good (the later hours of a
forecast) are no loss. Coordinates without a step have no gaps; ids and levels are not looked at. A gap as long as half of
what is there is likely a choice of periods: it is a note.

Declared: zkit.toml can say what must be there: [[audit.variable]] with match = \"t2m\" and expect-complete-through =
\"2021-12-31\" for the end of the first of its dimensions that holds such values, match = \"file_id\" and expect-range = \"0..94\" for whole numbers; ids
are looked for in all stores of the run together. What is declared and missing is an error.

What to do: append what is missing.",
    check: Check::Both(check, check_ids),
};

/// Gaps that a message names.
const GAPS_NAMED: usize = 3;
/// Runs of missing numbers that a message names, and that evidence names.
const RUNS_NAMED: usize = 8;
const RUNS_MOST: usize = 1_000;

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for read in &store.coordinates {
        let dimension = store.array(&read.coordinate.path).is_some_and(|array| is_coordinate(array.node));
        let axis =
            matches!(read.coordinate.axis, Axis::Time | Axis::Latitude | Axis::Longitude | Axis::Horizontal);
        let directed = axis || counts_durations(read, store);
        let rolled = matches!(read.analysis.order, Order::Seam { .. });
        if dimension && directed && !rolled {
            check_gaps(read, finder);
        }
        let declared = store.variable(&read.coordinate.path).expect_range;
        if let (Some(range), false) = (declared, is_id(&read.coordinate, store.policy)) {
            let found = whole_numbers(&read.coordinate).filter(|number| range.contains(number)).collect();
            let message = missing_numbers(&range, &found);
            if let Some((message, missing)) = message {
                declared_finding(finder.array(&read.coordinate.path, message), &missing);
            }
        }
    }
    check_ends(store, finder);
}

/// Returns whether a coordinate holds durations, such as the lead times of forecasts: by its type, or the unit that xarray
/// makes one of.
fn counts_durations(read: &CoordinateObservation, store: &StoreObservation<'_>) -> bool {
    const UNITS: [&str; 8] = ["days", "hours", "minutes", "seconds", "day", "hour", "minute", "second"];
    let units =
        store.array(&read.coordinate.path).and_then(|array| array.node.metadata.attributes.get("units"));
    matches!(read.coordinate.values, Values::Durations(_))
        || units.and_then(Json::as_str).is_some_and(|units| UNITS.contains(&units))
}

/// Looks for the declared ids of all stores together.
fn check_ids(cache: &CacheObservation<'_>, finder: &mut Finder<'_>) {
    let mut found: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for column in cache.stores.iter().flat_map(|store| &store.ids) {
        found.entry(&column.coordinate.path).or_default().extend(whole_numbers(&column.coordinate));
    }
    for (path, found) in found {
        let Some(range) = cache.policy.variable(path).expect_range else { continue };
        if let Some((message, missing)) = missing_numbers(&range, &found) {
            let name = path.trim_start_matches('/');
            declared_finding(finder.store(format!("`{name}`: {message}")), &missing);
        }
    }
}

fn declared_finding(draft: Draft<'_>, missing: &[RangeInclusive<i64>]) {
    let runs: Vec<Value> = missing.iter().map(|run| json!([run.start(), run.end()])).collect();
    draft.severity(Severity::Error).evidence("missing", runs).remedy("append what is missing");
}

fn whole_numbers(coordinate: &Coordinate) -> impl Iterator<Item = i64> + '_ {
    coordinate.present().filter_map(|at| match &coordinate.values {
        Values::Ints(values) => Some(values[at]),
        Values::UInts(values) => i64::try_from(values[at]).ok(),
        _ => None,
    })
}

/// Returns which numbers of a range are missing, in words and as runs; `None` where none is.
fn missing_numbers(
    range: &RangeInclusive<i64>,
    found: &BTreeSet<i64>,
) -> Option<(String, Vec<RangeInclusive<i64>>)> {
    let mut runs: Vec<RangeInclusive<i64>> = Vec::new();
    let mut next = i128::from(*range.start());
    let mut count: i128 = 0;
    let last = i128::from(*range.end());
    let ends = found.range(range.clone()).map(|&number| i128::from(number)).chain([last + 1]);
    for number in ends {
        if number > next {
            count += number - next;
            if let (Ok(first), Ok(end)) = (i64::try_from(next), i64::try_from(number - 1))
                && runs.len() < RUNS_MOST
            {
                runs.push(first..=end);
            }
        }
        next = number + 1;
    }
    if count == 0 {
        return None;
    }
    let mut words: Vec<String> = runs
        .iter()
        .take(RUNS_NAMED)
        .map(|run| match run.start() == run.end() {
            true => run.start().to_string(),
            false => format!("{}..{}", run.start(), run.end()),
        })
        .collect();
    if runs.len() > RUNS_NAMED {
        words.push("and more".to_owned());
    }
    let declared = last - i128::from(*range.start()) + 1;
    let message = format!(
        "{count} of the {declared} numbers {}..{} that zkit.toml declares are missing: {}",
        range.start(),
        range.end(),
        words.join(", ")
    );
    Some((message, runs))
}

/// Finds variables whose first dimension ends before the value that the policy declares.
fn check_ends(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for array in &store.arrays {
        let Some(through) = store.variable(array.path()).expect_complete_through else { continue };
        let coordinate = match comparable(store, array, &through) {
            Declared::With(read) => &read.coordinate,
            Declared::WithNothing => {
                let message = format!(
                    "zkit.toml declares expect-complete-through = \"{through}\", and no dimension of it has such values: not checked"
                );
                finder.array(array.path(), message).severity(Severity::Info);
                continue;
            }
            Declared::Unread => continue,
        };
        let Some(last) = coordinate.present().last() else { continue };
        let rest = Request::Range(Some(through.clone()), None);
        let found = Index::new(coordinate).find(&rest, Method::Exact, None);
        // a value that the coordinate's type cannot have says nothing of its end
        if found.is_err_and(|error| error.kind() == ErrorKind::Absent) {
            finder
                .array(
                    array.path(),
                    format!(
                        "`{}` ends at {}, zkit.toml declares {through}",
                        coordinate.name(),
                        coordinate.show(last)
                    ),
                )
                .severity(Severity::Error)
                .evidence("last", coordinate.show(last))
                .evidence("declared", through.as_str())
                .remedy("append what is missing");
        }
    }
}

/// What the declared end of a variable is compared with.
enum Declared<'s> {
    /// The first coordinate that holds values of its kind.
    With(&'s CoordinateObservation),
    /// Its coordinates hold others.
    WithNothing,
    /// No coordinate was read.
    Unread,
}

/// Returns the coordinate of the first dimension of an array whose values a declared end can be one of: dates are no
/// numbers, and texts are compared with texts that look like them.
fn comparable<'s>(
    store: &'s StoreObservation<'_>,
    array: &ArrayObservation<'_>,
    through: &str,
) -> Declared<'s> {
    let rank = array.node.metadata.shape().len();
    let read: Vec<&CoordinateObservation> = (0..rank)
        .filter_map(|dimension| store.coordinate_of(array, dimension))
        .filter_map(|found| store.coordinate(found.path()))
        .collect();
    if read.is_empty() {
        return Declared::Unread;
    }
    let alike = |read: &&&CoordinateObservation| match &read.coordinate.values {
        Values::Times { .. } => is_date(through),
        Values::Texts(_) => {
            let last = read.coordinate.present().last().map(|at| read.coordinate.show(at));
            last.is_none_or(|last| is_date(&last) == is_date(through))
        }
        Values::Durations(_) => !is_date(through),
        _ => through.trim().parse::<f64>().is_ok(),
    };
    read.iter().find(alike).map_or(Declared::WithNothing, |found| Declared::With(found))
}

/// Returns whether a text begins as dates do: `2024`, `2024-12`, `2024-12-31T18`.
fn is_date(text: &str) -> bool {
    let (year, rest) = text.split_at(text.len().min(4));
    year.len() == 4
        && year.bytes().all(|byte| byte.is_ascii_digit())
        && (rest.is_empty() || rest.starts_with('-'))
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

    use crate::testing::{TestStore, cache_findings, coordinate_array, v2_array};

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
    fn a_missing_lead_time_is_named_and_longer_steps_later_on_are_not() {
        let steps = |taken: &dyn Fn(i64) -> bool| {
            (0..=120).step_by(3).filter(|&hour| taken(hour)).collect::<Vec<_>>()
        };
        let hours = r#"{"units": "hours"}"#;
        let found = findings(&steps(&|hour| hour != 36), hours, "step");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert_eq!(findings(&steps(&|hour| hour <= 60 || hour % 6 == 0), hours, "step"), []);
        assert_eq!(findings(&steps(&|hour| hour != 36), "{}", "step"), []);
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
    fn declared_ranges_are_looked_for() {
        let levels = || coordinate_array(TestStore::new(), "member", &[0, 1, 2, 5], "{}");
        let policy = "[[variable]]\nmatch = \"member\"\nexpect-range = \"0..7\"";
        let found = levels().with_policy(policy).findings("coordinate-gap");
        assert_eq!(
            found[0].message,
            "4 of the 8 numbers 0..7 that zkit.toml declares are missing: 3..4, 6..7"
        );
        assert_eq!((found[0].severity, found[0].array.as_deref()), (Severity::Error, Some("/member")));
        let policy = "[[variable]]\nmatch = \"member\"\nexpect-range = \"0..2\"";
        assert_eq!(levels().with_policy(policy).findings("coordinate-gap"), []);

        let batch = |ids: &[i64]| {
            coordinate_array(TestStore::new(), "file_id", ids, "{}")
                .with_policy("[[variable]]\nmatch = \"file_id\"\nexpect-range = \"0..5\"")
        };
        assert_eq!(batch(&[0, 1]).findings("coordinate-gap"), []);
        let found = cache_findings("coordinate-gap", &[batch(&[0, 1]), batch(&[4, 3])]);
        assert_eq!(
            found[0].message,
            "`file_id`: 2 of the 6 numbers 0..5 that zkit.toml declares are missing: 2, 5"
        );
    }

    #[test]
    fn a_declared_end_is_looked_for() {
        let store = |through: &str| {
            let days: Vec<i64> = (0..31).collect();
            coordinate_array(TestStore::new(), "time", &days, r#"{"units": "days since 2021-03-01"}"#)
                .array("t2m", &v2_array(&[31], &[31]))
                .file("t2m/.zattrs", br#"{"_ARRAY_DIMENSIONS": ["time"]}"#)
                .with_policy(&format!(
                    "[[variable]]\nmatch = \"t2m\"\nexpect-complete-through = \"{through}\""
                ))
                .findings("coordinate-gap")
        };
        assert_eq!(store("2021-03"), []);
        assert_eq!(store("2021-03-31"), []);
        let found = store("2021-04-02");
        assert_eq!(found[0].array.as_deref(), Some("/t2m"));
        assert_eq!(found[0].message, "`time` ends at 2021-03-31, zkit.toml declares 2021-04-02");
    }

    #[test]
    fn a_declared_date_is_no_id() {
        let store = |attributes: &str| {
            let days: Vec<i64> = (0..31).collect();
            let store = coordinate_array(TestStore::new(), "file_id", &[7, 8], "{}");
            coordinate_array(store, "time", &days, attributes)
                .array("t2m", &v2_array(&[2, 31], &[2, 31]))
                .file("t2m/.zattrs", br#"{"_ARRAY_DIMENSIONS": ["file_id", "time"]}"#)
                .with_policy("[[variable]]\nmatch = \"t2m\"\nexpect-complete-through = \"2021-04-02\"")
                .findings("coordinate-gap")
        };
        let found = store(r#"{"units": "days since 2021-03-01"}"#);
        assert_eq!(found[0].message, "`time` ends at 2021-03-31, zkit.toml declares 2021-04-02");
        let unchecked = store("{}");
        assert_eq!((unchecked.len(), unchecked[0].severity), (1, Severity::Info), "{unchecked:?}");
    }

    #[test]
    fn a_row_of_a_grid_that_is_missing_is_found() {
        let rows: Vec<i64> = (-90..=90).rev().filter(|row| *row != 12).collect();
        let found = findings(&rows, r#"{"units": "degrees_north"}"#, "lat");
        assert_eq!(found[0].message, "1 step of 1 is missing: 1 between 11 (position 78) and 13");
    }
}
