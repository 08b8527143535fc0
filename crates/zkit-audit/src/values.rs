//! What a report says of the values of a store.

use zkit_core::engine::{ArrayValues, NanProfile};
use zkit_core::select::range_in_words;
use zkit_report::{Point, Report, Series, Variable};
use zkit_rules::observe::{ArrayObservation, StoreObservation};
use zkit_rules::packing::Packing;

/// Series that a report has at most.
pub(crate) const SERIES_MOST: usize = 48;

/// Returns whether everything that was to be decoded could be read.
pub(crate) fn is_complete(observed: &StoreObservation<'_>) -> bool {
    observed
        .arrays
        .iter()
        .filter_map(|array| array.values.as_ref())
        .all(|values| values.unreadable.is_empty())
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
    }
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
