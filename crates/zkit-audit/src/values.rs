//! What a report says of the values of a store.

use zkit_core::calendar::TimeUnits;
use zkit_core::engine::{ArrayValues, BadUnits, NanProfile, Skipped};
use zkit_core::metadata::Json;
use zkit_core::select::range_in_words;
use zkit_report::{Point, Report, Series, Variable, format};
use zkit_rules::observe::{ArrayObservation, StoreObservation};
use zkit_rules::packing::Packing;

/// Series that a report has at most.
pub(crate) const SERIES_MOST: usize = 48;

/// Arrays that are named as not decoded.
const NAMED: usize = 100;

/// Returns whether everything that was to be decoded could be read, and memory was enough for it.
pub(crate) fn is_complete(observed: &StoreObservation<'_>) -> bool {
    let skipped =
        |values: &ArrayValues| matches!(values.skipped, Some(Skipped::OverBudget(_) | Skipped::Unlisted(_)));
    let mut values = observed.arrays.iter().filter_map(|array| array.values.as_ref());
    values.all(|values| values.unreadable.is_empty() && values.over_budget.is_empty() && !skipped(values))
        && !observed.unread_coordinates.iter().any(|unread| unread.over_budget)
}

/// Returns the values that were to be decoded and were not, a line each array.
pub(crate) fn not_seen(observed: &StoreObservation<'_>) -> Vec<String> {
    let mut lines: Vec<String> = observed.arrays.iter().flat_map(not_decoded).collect();
    let coordinates = observed.unread_coordinates.iter();
    lines.extend(coordinates.map(|unread| format!("values of a coordinate: {}", unread.reason)));
    if lines.len() > NAMED {
        let more = lines.len() - NAMED;
        lines.truncate(NAMED);
        lines.push(format!("values of {more} more arrays"));
    }
    lines
}

fn not_decoded(array: &ArrayObservation<'_>) -> Vec<String> {
    let Some(values) = &array.values else { return Vec::new() };
    let path = array.path();
    let line = |units: &BadUnits| {
        let (count, first) = (units.stored.len(), units.examples.first()?);
        let key = array.chunk_key(first.position);
        let chunks = match first.inner {
            Some(_) => format!("inner chunks in {}", format::counted(count, "shard", "shards")),
            None => format::counted(count, "chunk", "chunks"),
        };
        Some(format!("values of {chunks} of `{path}`; the first, `{key}`: {}", first.reason))
    };
    let whole = values.skipped.as_ref().map(|skipped| format!("values of `{path}`: {}", skipped.why()));
    whole.into_iter().chain([&values.over_budget, &values.unsupported].into_iter().filter_map(line)).collect()
}

/// Adds what was seen of the values of each array.
pub(crate) fn add_to_report(report: &mut Report, observed: &StoreObservation<'_>) {
    for array in &observed.arrays {
        let Some(values) = &array.values else { continue };
        report.variables.push(variable(observed, array, values));
        if report.series.len() < SERIES_MOST {
            report.series.extend(series(observed, array, values));
        }
    }
}

fn variable(observed: &StoreObservation<'_>, array: &ArrayObservation<'_>, values: &ArrayValues) -> Variable {
    let statistics = values.statistics();
    let packing = Packing::of(array).filter(|packing| !packing.is_identity());
    let raw = statistics.min.zip(statistics.max).map(|(min, max)| (min.to_f64(), max.to_f64()));
    let range = match packing {
        Some(packing) => raw.map(|raw| packing.unpack_range(raw)),
        None => raw,
    };
    let mean = statistics.mean().map(|mean| packing.map_or(mean, |packing| packing.unpack(mean)));
    let finite = |value: f64| value.is_finite().then_some(value);
    // NaN is the missing value where it is the fill value
    let fill_is_nan = values.fill.nan > 0;
    let missing_nan = if fill_is_nan { statistics.fill } else { 0 };
    let metadata = &array.node.metadata;
    Variable {
        store: observed.hierarchy.url.clone(),
        array: array.path().to_owned(),
        data_type: metadata.data_type.to_string(),
        chunks_decoded: values.coverage.chunks_seen,
        chunks_total: metadata.grid.total().unwrap_or(u64::MAX),
        elements: statistics.elements,
        nan: statistics.nan.saturating_sub(missing_nan),
        missing: statistics.missing.max(missing_nan),
        infinite: statistics.infinite(),
        min: range.and_then(|range| finite(range.0)),
        max: range.and_then(|range| finite(range.1)),
        mean: mean.and_then(finite),
        raw_min: packing.and(raw).and_then(|raw| finite(raw.0)),
        raw_max: packing.and(raw).and_then(|raw| finite(raw.1)),
        dates: dates(array, [range.map(|range| range.0), mean, range.map(|range| range.1)]),
    }
}

/// Returns numbers as dates, where the attributes of their array say that they are times.
fn dates(array: &ArrayObservation<'_>, numbers: [Option<f64>; 3]) -> Option<[String; 3]> {
    let attributes = &array.node.metadata.attributes;
    let text = |name| attributes.get(name).and_then(Json::as_str);
    let units = text("units").filter(|units| units.contains(" since "))?;
    let units = TimeUnits::parse(units, text("calendar")).ok()?;
    let date = |number: f64| units.decode_float(number).map(|time| time.show(units.calendar()));
    Some(numbers.map(|number| number.and_then(date).unwrap_or_default()))
}

/// Returns the share of NaN along the first dimension of several that were looked at, if there is NaN.
fn series(
    observed: &StoreObservation<'_>,
    array: &ArrayObservation<'_>,
    values: &ArrayValues,
) -> Option<Series> {
    let profile = values.nan.iter().find(|profile| profile.nan.len() > 1)?;
    let dimension = profile.dimension;
    let coordinate =
        observed.coordinate_of(array, dimension).and_then(|found| observed.coordinate(found.path()));
    let label = |at: usize| match coordinate {
        Some(read) if at < read.coordinate.len() => range_in_words(&read.coordinate, at, at),
        _ => at.to_string(),
    };
    let points =
        (0..profile.nan.len()).map(|at| Point { label: label(at), value: nan_fraction(profile, at) });
    Some(Series {
        store: observed.hierarchy.url.clone(),
        array: array.path().to_owned(),
        what: "NaN fraction".to_owned(),
        axis: array.dimension_label(dimension),
        points: Series::reduced(points),
    })
}

fn nan_fraction(profile: &NanProfile, at: usize) -> Option<f64> {
    let (nan, seen) = (profile.nan[at], profile.seen[at]);
    #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
    (seen > 0).then(|| nan as f64 / seen as f64)
}
