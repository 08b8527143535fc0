//! Coordinates whose values go back and forth, or are missing.

use zkit_core::metadata::Json;
use zkit_core::select::{Axis, Order, Values, is_coordinate};
use zkit_report::{Confidence, Severity};

use crate::coordinates::CoordinateObservation;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::ids::has_id_name;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "coordinate-not-monotonic",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Sample,
    summary: "times or positions along a dimension go back and forth, or some of them are missing",
    explanation: "\
Readers find ranges and nearest values by bisecting a coordinate: where it is not in order, xarray refuses slices, and
other tools give wrong rows. It comes from batches that were appended out of order, from region writes to the wrong place,
and from chunks that were copied under another name.

On disk: the array of one dimension that is named like it holds times, lead times, latitudes, longitudes, heights or
projected positions that rise and fall. Repeated values are left to duplicate-ids; never written ones to missing-slab.

Legitimate: ids, names, bands and other coordinates without direction may stand in any order. Longitudes may jump once by
the circle (0 to 179, then -180 to -1). Positions of a moving platform rise and fall by right: where a quarter or more of
them go against the others, it is a note.

What to do: sort the rows by the coordinate: `zkit slice STORE --to DST --sort`, or write the batch to its place.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for read in &store.coordinates {
        let array = store.array(&read.coordinate.path);
        if let Some(array) = array.filter(|array| is_coordinate(array.node)) {
            check_order(array, read, finder);
            check_missing(read, finder);
        }
    }
}

fn check_order(array: &ArrayObservation<'_>, read: &CoordinateObservation, finder: &mut Finder<'_>) {
    let (coordinate, analysis) = (&read.coordinate, &read.analysis);
    let Order::Broken { at, breaks, rising } = analysis.order else { return };
    let spatial = match coordinate.axis {
        Axis::Time => false,
        Axis::Latitude | Axis::Longitude | Axis::Vertical | Axis::Horizontal => true,
        Axis::Other if is_lead_time(array, read) => false,
        Axis::Other => return,
    };
    let unique = analysis.len - analysis.missing - analysis.duplicates.extra;
    let before = (0..at).rev().find(|&position| !coordinate.is_missing(position)).unwrap_or(0);
    let (mostly, against) = if rising { ("rise", "falls back") } else { ("fall", "rises again") };
    let message = format!(
        "most values {mostly}, but position {at} {against} to {} from {}{}",
        coordinate.show(at),
        coordinate.show(before),
        match breaks {
            1 => String::new(),
            _ => format!("; {breaks} of {unique} do so"),
        }
    );
    let finding = finder
        .array(&coordinate.path, message)
        .evidence("position", at)
        .evidence("value", coordinate.show(at))
        .evidence("before", coordinate.show(before))
        .evidence("breaks", breaks)
        .remedy("sort the rows by this coordinate, or write the batch to its place");
    let scattered = breaks * 4 >= unique;
    match (spatial, scattered) {
        // a path, not a grid
        (true, true) => finding.severity(Severity::Info).confidence(Confidence::Low),
        (true, false) => finding.confidence(Confidence::Medium),
        (false, _) => finding,
    };
}

/// Returns whether a coordinate says how far ahead forecasts look. Hours of the day and days of the year, which have the
/// same units, may begin anywhere.
fn is_lead_time(array: &ArrayObservation<'_>, read: &CoordinateObservation) -> bool {
    let name = array.name().to_lowercase();
    let standard_name = array.node.metadata.attributes.get("standard_name").and_then(Json::as_str);
    let text = matches!(read.coordinate.values, Values::Texts(_));
    let named = name == "step" || name.contains("lead") || standard_name == Some("forecast_period");
    matches!(read.coordinate.values, Values::Durations(_)) || (named && !text)
}

/// Finds coordinates with holes: rows that no value names.
fn check_missing(read: &CoordinateObservation, finder: &mut Finder<'_>) {
    let (coordinate, analysis) = (&read.coordinate, &read.analysis);
    let unwritten = usize::try_from(coordinate.unwritten).unwrap_or(usize::MAX);
    let Some(first) = analysis.first_missing.or(analysis.first_infinite) else { return };
    if analysis.missing <= unwritten && analysis.first_infinite.is_none() {
        return;
    }
    let what = match (&coordinate.values, analysis.first_missing) {
        (Values::Times { .. } | Values::Durations(_), _) => "no time",
        (_, Some(_)) => "no number",
        (_, None) => "infinite",
    };
    let count = (analysis.missing - unwritten.min(analysis.missing)).max(1);
    let finding = finder
        .array(
            &coordinate.path,
            format!("{count} of {} values are {what}, the first at position {first}", analysis.len),
        )
        .evidence("missing", count)
        .evidence("position", first)
        .remedy("write the coordinate again");
    // bins may end at infinity, and groups may have one without a name
    match (coordinate.axis, analysis.first_missing) {
        (Axis::Other, _) if !has_id_name(coordinate) => {
            finding.severity(Severity::Info).confidence(Confidence::Medium)
        }
        (_, None) => finding.severity(Severity::Info).confidence(Confidence::Medium),
        (_, Some(_)) => finding.severity(Severity::Warning),
    };
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, coordinate_array, v2_array};

    const DAYS: &str = r#"{"units": "days since 2020-01-01"}"#;

    #[test]
    fn months_out_of_order_break_once() {
        let values: Vec<i64> = (31..93).chain(0..31).collect();
        let found =
            coordinate_array(TestStore::new(), "time", &values, DAYS).findings("coordinate-not-monotonic");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].array.as_deref(), found[0].severity), (Some("/time"), Severity::Error));
        assert_eq!(
            found[0].message,
            "most values rise, but position 62 falls back to 2020-01-01 from 2020-04-02"
        );
    }

    #[test]
    fn a_repeated_batch_is_no_break() {
        let values: Vec<i64> = (0..40).chain(36..40).chain(40..60).collect();
        let found =
            coordinate_array(TestStore::new(), "time", &values, DAYS).findings("coordinate-not-monotonic");
        assert_eq!(found, []);
    }

    #[test]
    fn ids_and_rolled_longitudes_stand_in_any_order() {
        let ids = coordinate_array(TestStore::new(), "station", &[5, 1, 9, 2], "{}");
        assert_eq!(ids.findings("coordinate-not-monotonic"), []);
        let rolled: Vec<i64> = (0..180).chain(-180..0).collect();
        let rolled = coordinate_array(TestStore::new(), "lon", &rolled, r#"{"units": "degrees_east"}"#);
        assert_eq!(rolled.findings("coordinate-not-monotonic"), []);
        let track: Vec<i64> = (0..40).map(|at| (at * 7) % 11).collect();
        let track = coordinate_array(TestStore::new(), "lat", &track, r#"{"units": "degrees_north"}"#);
        assert!(
            track.findings("coordinate-not-monotonic").iter().all(|found| found.severity == Severity::Info)
        );
    }

    #[test]
    fn lead_times_out_of_order_break() {
        let hours: Vec<i64> = (12..24).chain(0..12).collect();
        let found = |name: &str| {
            let store = coordinate_array(TestStore::new(), name, &hours, r#"{"units": "hours"}"#);
            store.findings("coordinate-not-monotonic").len()
        };
        assert_eq!([found("step"), found("hour_of_day")], [1, 0]);
    }

    #[test]
    fn rows_that_nothing_names_are_a_warning_where_readers_search() {
        let severity = |name: &str| {
            let values: Vec<u8> =
                [50.0, f64::NAN, 48.0, 47.0].into_iter().flat_map(f64::to_le_bytes).collect();
            let store = TestStore::new()
                .array(name, &v2_array(&[4], &[4]).replace("<f4", "<f8"))
                .file(&format!("{name}/.zattrs"), format!(r#"{{"_ARRAY_DIMENSIONS":["{name}"]}}"#).as_bytes())
                .file(&format!("{name}/0"), &values);
            store.findings("coordinate-not-monotonic")[0].severity
        };
        assert_eq!(
            ["latitude", "file_id", "bin"].map(severity),
            [Severity::Warning, Severity::Warning, Severity::Info]
        );
    }

    #[test]
    fn missing_times_are_found() {
        let values = [0, 1, i64::MIN, 3];
        let found =
            coordinate_array(TestStore::new(), "time", &values, DAYS).findings("coordinate-not-monotonic");
        assert_eq!(found[0].message, "1 of 4 values are no time, the first at position 2");
    }
}
