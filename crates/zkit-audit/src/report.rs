//! What a run says, as a [`Report`]: the stores, the findings, and pictures of the grids that findings are about.

use std::collections::BTreeMap;
use std::time::SystemTime;

use zkit_core::calendar::TimeUnits;
use zkit_core::engine::UnitGrid;
use zkit_core::grid::unravel;
use zkit_core::hierarchy::StoreKind;
use zkit_core::location::StoreUrl;
use zkit_report::{ChunkGrid, Finding, FindingCounts, GridMap, Occupancy, Report, RuleInfo, Severity};
use zkit_rules::observe::{ArrayObservation, StoreObservation};
use zkit_rules::policy::{FailOn, Policy};
use zkit_rules::summary::StoreSummary;
use zkit_rules::words::shell_quoted;
use zkit_rules::{Depth, RULES};

use crate::args::AuditArgs;
use crate::values::SERIES_MOST;
use crate::{against, gather, values};

/// The most grids that are drawn, one takes up to a megabyte; and those of each of many stores.
const MAPS_MOST: usize = 48;
const MAPS_OF_EACH: usize = 4;

/// The most stored chunks of an array whose grid is drawn: above it the listing takes long to walk through.
const CHUNKS_MOST: u64 = 10_000_000;

/// Returns the report of a run, before anything was audited.
pub(crate) fn begin(policy: &Policy, depth: Depth) -> Report {
    let mut report = Report::new(env!("CARGO_PKG_VERSION"));
    report.fail_on = match policy.fail_on.unwrap_or(FailOn::Error) {
        FailOn::Error => Some(Severity::Error),
        FailOn::Warning => Some(Severity::Warning),
        FailOn::Never => None,
    };
    let runs =
        RULES.iter().filter(|rule| rule.depth <= depth && !policy.ignore.iter().any(|id| id == rule.id));
    report.rules = runs
        .map(|rule| RuleInfo {
            id: rule.id,
            severity: rule.severity,
            summary: rule.summary,
            explain: rule.explanation,
        })
        .collect();
    report
}

/// Returns a moment in UTC, to the second; empty where the clock says nothing.
pub(crate) fn utc(moment: SystemTime) -> String {
    let seconds = moment.duration_since(SystemTime::UNIX_EPOCH).ok().map(|passed| passed.as_secs());
    let units = TimeUnits::parse("seconds since 1970-01-01", None).ok();
    let shown = seconds.zip(units).and_then(|(seconds, units)| units.show(i64::try_from(seconds).ok()?));
    shown.map(|shown| format!("{shown}Z")).unwrap_or_default()
}

/// Returns the command line of a run: what decides about its findings, without secrets.
pub(crate) fn command(args: &AuditArgs, depth: Depth) -> String {
    let mut words = vec!["zkit".to_owned(), "audit".to_owned()];
    // a URL may hold a password, which the parsed one does not show
    let shown = |path: &String| match path.parse::<StoreUrl>() {
        Ok(url) if url.local_path().is_none() => url.to_string(),
        Err(_) if path.contains("://") => "URL".to_owned(),
        _ => path.clone(),
    };
    words.extend(args.paths.iter().map(shown));
    words.extend(["--depth".to_owned(), depth.name().to_owned()]);
    words.extend(args.select.iter().flat_map(|rule| ["--select".to_owned(), rule.clone()]));
    words.extend(args.ignore.iter().flat_map(|rule| ["--ignore".to_owned(), rule.clone()]));
    let files = [("--config", &args.config), ("--baseline", &args.baseline)];
    for (name, file) in files.into_iter().filter_map(|(name, file)| Some((name, file.as_ref()?))) {
        words.extend([name.to_owned(), file.display().to_string()]);
    }
    let quoted =
        words.iter().map(|word| if word.starts_with("--") { word.clone() } else { shell_quoted(word) });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Returns what there is to say of one store of so many, and what was found in it.
pub(crate) fn of_store(
    store: &StoreObservation<'_>,
    summary: &StoreSummary,
    findings: Vec<Finding>,
    stores: usize,
) -> Report {
    let mut report = Report::new(env!("CARGO_PKG_VERSION"));
    let (reached, unread) = reach(store);
    let depth = summary.depth.min(reached);
    report.complete = gather::is_complete(store);
    report.stores.push(zkit_report::StoreSummary {
        url: summary.url.clone(),
        kind: summary.kind.name().to_owned(),
        arrays: summary.arrays.len() as u64,
        bytes_stored: summary.bytes_stored,
        bytes_decoded: Some(summary.bytes_decoded),
        depth: depth.name(),
        complete: report.complete,
        not_seen: not_seen(depth)
            .iter()
            .filter(|_| depth < Depth::Sample || leaves_values_out(store))
            .map(|what| (*what).to_owned())
            .chain(unread)
            .chain(values::not_seen(store))
            .chain(against::not_seen(store))
            .collect(),
    });
    let maps_most = (MAPS_MOST / stores.max(1)).max(MAPS_OF_EACH);
    add_maps(&mut report, store, &findings, maps_most);
    report.findings = findings;
    report
}

/// Puts one store behind those of a run; pictures beyond what a report may have are left out.
pub(crate) fn append(report: &mut Report, of_store: Report) {
    report.complete &= of_store.complete;
    report.stores.extend(of_store.stores);
    report.findings.extend(of_store.findings);
    report.variables.extend(of_store.variables);
    report.series.extend(of_store.series);
    report.series.truncate(SERIES_MOST);
    report.occupancy.extend(of_store.occupancy);
    report.occupancy.truncate(MAPS_MOST);
}

/// Adds findings of several stores together, and counts all of them.
pub(crate) fn finish(report: &mut Report, of_cache: Vec<Finding>) {
    report.findings.extend(of_cache);
    report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    report.summary = FindingCounts::of(&report.findings);
}

/// Returns how closely a store can be looked at, and what is not looked at whatever the depth.
fn reach(store: &StoreObservation<'_>) -> (Depth, Option<String>) {
    match store.hierarchy.kind {
        StoreKind::Icechunk => {
            let unread =
                "arrays of Icechunk: only whether their objects are there and as long as manifests say";
            (Depth::Listing, Some(unread.to_owned()))
        }
        StoreKind::KerchunkJson | StoreKind::KerchunkParquet => reach_of_references(store),
        StoreKind::N5 => {
            (Depth::Headers, Some("datasets of N5: only the headers of their blocks".to_owned()))
        }
        _ => (Depth::Full, unlisted(store)),
    }
}

/// Returns what is not seen of a store that cannot be listed.
fn unlisted(store: &StoreObservation<'_>) -> Option<String> {
    let opened = store.hierarchy.store.as_ref().filter(|opened| !opened.is_listable())?;
    let what = "what lies there beside the chunks of its grids, and nodes that its consolidated metadata does not name";
    (store.depth >= Depth::Listing).then(|| format!("{what}: {} has no listing", opened.place()))
}

/// References are read where they lead to files that are there and may be read.
fn reach_of_references(store: &StoreObservation<'_>) -> (Depth, Option<String>) {
    let unread = |what: &str| Some(format!("{what}: only whether references name them"));
    let away = store.out_of_reach.len();
    if store.depth < Depth::Headers || store.hierarchy.store.is_none() || away == store.arrays.len() {
        return (Depth::Listing, unread("chunks that references point to"));
    }
    if away == 0 {
        return (Depth::Full, None);
    }
    let what = format!(
        "chunks of {away} of {} arrays, which references point to (--allow-prefix says what may be read)",
        store.arrays.len()
    );
    (Depth::Full, unread(&what))
}

/// Returns what a depth cannot see.
const fn not_seen(depth: Depth) -> &'static [&'static str] {
    match depth {
        Depth::Metadata => &["which chunks are stored", "whether chunks are whole", "values"],
        Depth::Listing => &["whether chunks are whole", "values"],
        Depth::Headers => &["values"],
        Depth::Sample => &["values of chunks that were not sampled"],
        Depth::Full => &[],
    }
}

/// Returns whether some values were not decoded: chunks that a sample does not draw, or inner chunks of large shards.
fn leaves_values_out(store: &StoreObservation<'_>) -> bool {
    store.arrays.iter().any(|array| {
        let Some(values) = &array.values else { return true };
        let known = values.stored.elements.saturating_add(values.coverage.elements_absent);
        // elements of corrupt chunks are not counted
        let inner = values.grid == UnitGrid::Inner && values.corrupt.is_empty();
        !values.coverage.is_full() || (inner && known < values.coverage.elements)
    })
}

/// Adds the grids of arrays that errors and warnings name chunks of, those chunks marked; an array without one
/// stored chunk needs no picture.
fn add_maps(report: &mut Report, store: &StoreObservation<'_>, findings: &[Finding], maps_most: usize) {
    let mut of_array: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        let names_chunks = finding.grid == ChunkGrid::Stored && finding.chunks.is_some();
        if let (Some(array), true) =
            (finding.array.as_deref(), names_chunks && finding.severity > Severity::Info)
        {
            of_array.entry(array).or_default().push(finding);
        }
    }
    for array in &store.arrays {
        let Some(findings) = of_array.get(array.path()) else { continue };
        if report.occupancy.len() >= maps_most {
            return;
        }
        if let Some(mut map) = map_of(array) {
            findings
                .iter()
                .flat_map(|finding| finding.chunks.iter().flatten())
                .for_each(|chunks| map.mark_bad(chunks));
            report.occupancy.push(Occupancy {
                store: store.hierarchy.url.clone(),
                array: array.path().to_owned(),
                grid_shape: array.node.metadata.grid.counts().to_vec(),
                map,
            });
        }
    }
}

fn map_of(array: &ArrayObservation<'_>) -> Option<GridMap> {
    let stored = &array.survey.as_ref()?.listing.as_ref()?.stored;
    let counts = array.node.metadata.grid.counts();
    if stored.is_empty() || stored.len() > CHUNKS_MOST {
        return None;
    }
    let mut map = GridMap::of_grid(counts, array.node.metadata.dimension_names.as_deref())?;
    stored.iter().for_each(|position| map.mark_chunk(&unravel(position, counts)));
    Some(map)
}
