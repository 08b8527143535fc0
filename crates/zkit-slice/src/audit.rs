//! A slice is judged by the rules of `zkit audit` before it is published.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use zkit_cli::Shell;
use zkit_cli::writing::is_coordinate;
use zkit_core::engine::{Closeness, Resources, Sample, survey_store};
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::event::Event;
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::metadata::Json;
use zkit_core::plan::{ABSENT, Pick, WantedGather, WantedSlice};
use zkit_report::{Finding, Severity};
use zkit_rules::look::{self, Look};
use zkit_rules::observe::StoreObservation;
use zkit_rules::policy::Policy;
use zkit_rules::{Depth, check_store};

use crate::args::FailOnArg;
use crate::sources::Source;

/// How many of its values are looked at: as many as `zkit audit` takes of a chunked array, and always all of small ones.
const SAMPLE: Sample = Sample::Percent(10.0);
const SEED: u64 = 0;
/// What to do where a slice is refused.
const HINT: &str = "run `zkit audit` on the sources; pass --fail-on never if the slice is meant to be so";
/// Findings that are said one by one.
const SAID_MOST: usize = 20;
/// Stores of one finding that are named.
const NAMED_MOST: usize = 4;

/// Rules that say what a list in an order of its own looks like: the user wrote it so.
const OF_ORDER: [&str; 3] = ["coordinate-not-monotonic", "coordinate-gap", "duplicate-ids"];
/// Rules that say what an outer join looks like, which fills up what a source does not have.
const OF_HOLES: [&str; 4] = ["nan-slab", "nan-fraction", "missing-slab", "absent-chunks"];

/// Rules that say what the sources hold as well, and `zkit audit` says of them: they are told, and keep nothing back.
const OF_SOURCES: [&str; 12] = [
    "metadata-only-array",
    "all-nan",
    "nan-slab",
    "nan-fraction",
    "missing-slab",
    "all-fill",
    "infinite",
    "out-of-range",
    "undeclared-missing-value",
    "fill-value-confusion",
    "coordinate-not-monotonic",
    "coordinate-gap",
];

/// Rules that say that an array holds no data at all: a place on land has no sea temperature, but something there is.
const OF_NOTHING: [&str; 3] = ["metadata-only-array", "all-nan", "all-fill"];

/// What of a slice is as it was asked for, whatever rules say of it.
#[derive(Debug, Default)]
pub(crate) struct Meant {
    /// The dimensions along which sources were put together: a step of NaN is a source that holds no data.
    joined: BTreeSet<String>,
    /// Coordinates of which values were taken in an order of their own, or more than once.
    orders: BTreeSet<String>,
    /// Arrays of which some elements are in no source.
    holes: BTreeSet<String>,
    /// Of each array where it comes from.
    origins: BTreeMap<String, Origins>,
}

/// Where the elements of an array come from.
#[derive(Debug, Default)]
struct Origins {
    /// The dimension along which sources lie behind each other.
    dimension: Option<String>,
    /// The number of each source, and the positions along that dimension that are taken from it.
    sources: Vec<(usize, Arc<[u64]>)>,
}

impl Origins {
    fn of(array: &WantedGather) -> Self {
        let positions = |at: usize| match &array.joined {
            Some(joined) => Arc::clone(&joined.positions[at]),
            None => Arc::default(),
        };
        Self {
            dimension: array.joined.as_ref().map(|joined| array.dimension_names[joined.axis].clone()),
            sources: array.parts.iter().enumerate().map(|(at, part)| (part.store, positions(at))).collect(),
        }
    }

    /// Returns the sources that hold what a finding is about: those of the positions that it names, or all.
    fn behind(&self, finding: &Finding) -> BTreeSet<usize> {
        let named = finding.evidence.get("dimension").and_then(|value| value.as_str());
        let runs = finding.evidence.get("indices").and_then(|value| value.as_array());
        let runs = runs.filter(|_| named.is_some() && named == self.dimension.as_deref());
        let edge = |run: &serde_json::Value, at: usize| run.get(at).and_then(serde_json::Value::as_u64);
        let is_meant = |positions: &[u64]| {
            runs.is_none_or(|runs| {
                runs.iter()
                    .filter_map(|run| Some(edge(run, 0)?..=edge(run, 1)?))
                    .any(|run| positions.iter().any(|position| run.contains(position)))
            })
        };
        self.sources.iter().filter(|(_, positions)| is_meant(positions)).map(|(source, _)| *source).collect()
    }
}

impl Meant {
    /// Returns what was asked for.
    pub(crate) fn of(slice: &WantedSlice) -> Self {
        let paths = |is: fn(&Pick) -> bool| -> BTreeSet<String> {
            let any = |array: &&WantedGather| array.parts.iter().flat_map(|part| part.picks.iter()).any(is);
            slice.arrays.iter().filter(any).map(|array| array.path.clone()).collect()
        };
        let repeated = slice.arrays.iter().filter(|array| repeats(array)).map(|array| array.path.clone());
        let joined = |array: &WantedGather| Some(array.dimension_names[array.joined.as_ref()?.axis].clone());
        Self {
            joined: slice.arrays.iter().filter_map(joined).collect(),
            orders: paths(|pick| match pick {
                Pick::At(_) => false,
                Pick::Along { indices, .. } => !indices.windows(2).all(|pair| pair[0] < pair[1]),
            })
            .into_iter()
            .chain(repeated)
            .collect(),
            holes: paths(|pick| match pick {
                Pick::At(index) => *index == ABSENT,
                Pick::Along { indices, .. } => indices.contains(&ABSENT),
            }),
            origins: slice.arrays.iter().map(|array| (array.path.clone(), Origins::of(array))).collect(),
        }
    }

    /// Returns the stores that a finding is about, in words; empty where they are many.
    fn stores_behind(&self, finding: &Finding, sources: &[Source]) -> String {
        let origins = finding.array.as_ref().and_then(|array| self.origins.get(array));
        let behind = origins.map(|origins| origins.behind(finding)).unwrap_or_default();
        let urls: Vec<&str> = behind.iter().filter_map(|&source| Some(sources.get(source)?.url())).collect();
        match urls.len() {
            1..=NAMED_MOST => format!(", from {}", urls.join(", ")),
            _ => String::new(),
        }
    }

    /// Returns whether a finding keeps a slice from being published.
    fn forbids(&self, finding: &Finding) -> bool {
        let of_joined = || {
            let dimension = finding.evidence.get("dimension").and_then(|value| value.as_str());
            dimension.is_some_and(|dimension| self.joined.contains(dimension))
        };
        finding.severity == Severity::Error && (!OF_SOURCES.contains(&finding.rule) || of_joined())
    }

    fn covers(&self, finding: &Finding) -> bool {
        let Some(array) = &finding.array else { return false };
        OF_ORDER.contains(&finding.rule) && self.orders.contains(array)
            || OF_HOLES.contains(&finding.rule) && self.holes.contains(array)
    }
}

/// Returns whether elements are taken more than once along an axis that their source does not have.
fn repeats(array: &WantedGather) -> bool {
    let parts = array.parts.iter().enumerate();
    { parts }.any(|(at, part)| {
        (0..array.shape.len()).any(|axis| {
            let length = match array.joined.as_ref().filter(|joined| joined.axis == axis) {
                Some(joined) => joined.positions[at].len() as u64,
                None => array.shape[axis],
            };
            let along = |pick: &Pick| matches!(pick, Pick::Along { axis: along, .. } if *along == axis);
            length > 1 && !part.picks.iter().any(along)
        })
    })
}

/// Judges a store that is complete and not published yet.
///
/// Errors: `Corrupt`, naming the first finding, if there is one of an error (or as `fail_on` says); others are said. What
/// was asked for is no finding.
pub(crate) fn audit(
    copy: &Hierarchy,
    (meant, sources): (&Meant, &[Source]),
    fail_on: FailOnArg,
    resources: Resources,
    shell: &Shell,
) -> Result<()> {
    shell.observer().event(Event::Phase("auditing"));
    let mut findings = findings(copy, resources, shell)?;
    findings.retain(|finding| !meant.covers(finding));
    let refused = |finding: &&Finding| match fail_on {
        FailOnArg::Error => meant.forbids(finding),
        FailOnArg::Warning => finding.severity != Severity::Info,
        FailOnArg::Never => false,
    };
    if fail_on != FailOnArg::Never && holds_nothing(copy, &findings) {
        let message =
            "the slice was not published: not one of its variables holds a value, all are NaN or fill";
        return Err(Error::new(ErrorKind::Corrupt, message).with_hint(HINT));
    }
    let bad: Vec<&Finding> = findings.iter().filter(refused).collect();
    if let Some(first) = bad.first() {
        let more = if bad.len() > 1 { format!(", and {} more", bad.len() - 1) } else { String::new() };
        let stores = meant.stores_behind(first, sources);
        let message = format!("the slice was not published: {}{stores}{more}", in_words(first));
        return Err(Error::new(ErrorKind::Corrupt, message).with_hint(HINT));
    }
    let said = findings.iter().filter(|finding| finding.severity != Severity::Info);
    for finding in said.take(SAID_MOST) {
        shell.observer().event(Event::Warning(in_words(finding)));
    }
    Ok(())
}

/// Returns whether there are variables, and not one holds a value.
fn holds_nothing(copy: &Hierarchy, findings: &[Finding]) -> bool {
    let described: BTreeSet<&str> = copy
        .arrays
        .iter()
        .filter_map(|array| array.metadata.attributes.get("coordinates").and_then(Json::as_str))
        .flat_map(str::split_whitespace)
        .collect();
    let is_data = |array: &&ArrayNode| {
        let name = array.path.rsplit('/').next().unwrap_or_default();
        !is_coordinate(&array.path, &array.metadata) && !described.contains(name)
    };
    let empty = |array: &ArrayNode| {
        let of_it = |finding: &&Finding| finding.array.as_deref() == Some(array.path.as_str());
        findings.iter().filter(of_it).any(|finding| OF_NOTHING.contains(&finding.rule))
    };
    let mut data = copy.arrays.iter().filter(is_data).peekable();
    data.peek().is_some() && data.all(empty)
}

fn in_words(finding: &Finding) -> String {
    let place = finding.array.as_deref().map_or_else(String::new, |array| format!("`{array}`: "));
    format!("{place}{} ({})", finding.message, finding.rule)
}

fn findings(copy: &Hierarchy, resources: Resources, shell: &Shell) -> Result<Vec<Finding>> {
    // it was written just now: nothing of it is still on its way
    let policy = Policy { grace: Duration::ZERO, ..Policy::default() };
    let nodes: Vec<&ArrayNode> = copy.arrays.iter().collect();
    let mut observed = StoreObservation::of_metadata(copy, &nodes, &policy, SystemTime::now());
    observed.depth = Depth::Sample;
    let (observer, cancel) = (shell.observer(), shell.cancel());
    let seen = survey_store(copy.readable_store()?, &nodes, &nodes, Closeness::Headers, (observer, cancel))?;
    for (array, survey) in observed.arrays.iter_mut().zip(seen.arrays) {
        array.survey = Some(survey);
    }
    let look = Look { sample: (SAMPLE, SEED), resources, observer, cancel };
    look::read_coordinates(&mut observed, look)?;
    look::scan(&mut observed, look)?;
    let mut findings = check_store(&observed);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use zkit_core::metadata::{ChecksumChoice, Target, TargetCodec};

    use super::*;
    use crate::testing::{TestStore, slice};

    fn meant(stores: &[&TestStore], line: &str) -> Meant {
        let target =
            Target { format: None, codec: TargetCodec::Keep, checksum: ChecksumChoice::None, layout: None };
        let one = slice(stores, line).unwrap().slices.remove(0);
        Meant::of(&one.wanted(&[], |_| Ok(target.clone())).unwrap().0)
    }

    #[test]
    fn what_was_asked_for_is_known_by_its_picks() {
        let store = |ids: &[i64], name: &str| {
            TestStore::new().ints("id", &["id"], &[2], ids).floats(name, &["id"], &[2], &[1.0, 2.0])
        };
        let (one, other) = (store(&[1, 2], "t"), store(&[2, 3], "u"));
        let listed = meant(&[&one], "{0} --sel id=2,1");
        assert!(listed.orders.contains("/id") && listed.holes.is_empty());
        assert!(meant(&[&one], "{0} --sel id=1,2").orders.is_empty());
        let filled = meant(&[&one, &other], "{0} --merge-with {1} --join outer");
        assert!(filled.holes.contains("/t") && filled.holes.contains("/u") && !filled.holes.contains("/id"));
    }
}
