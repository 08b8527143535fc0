//! Scanning the values of a store, and what a report says of them.

use zkit_core::engine::{ArrayValues, NanProfile, Sample, ScanTarget, scan_values};
use zkit_core::error::Result;
use zkit_core::select::range_in_words;
use zkit_report::{Point, Report, Series, Variable};
use zkit_rules::Depth;
use zkit_rules::observe::{ArrayObservation, StoreObservation};
use zkit_rules::packing::Packing;

use crate::gather::Run;

/// Series that a report has at most.
const SERIES_MOST: usize = 48;

/// Scans the arrays of a store, as much of them as the depth asks for, into its observation.
pub(crate) fn scan(observed: &mut StoreObservation<'_>, run: &Run<'_>) -> Result<()> {
    let Some(store) = &observed.hierarchy.store else { return Ok(()) };
    let sample = match run.depth {
        Depth::Full => Sample::Full,
        _ => run.sample.0,
    };
    let listed = observed.arrays.iter().enumerate().filter_map(|(at, array)| {
        let listing = array.survey.as_ref()?.listing.as_ref()?;
        Some((at, ScanTarget { array: array.node, listing: Some(listing) }))
    });
    let (places, targets): (Vec<usize>, Vec<ScanTarget<'_>>) = listed.unzip();
    let values =
        scan_values(store, &targets, (sample, run.sample.1), run.resources, run.observer, run.cancel)?;
    for (at, values) in places.into_iter().zip(values) {
        observed.arrays[at].values = Some(values);
    }
    Ok(())
}

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
