//! `missing-slab`: absent chunks form a trailing run or a whole slab: a writer that stopped, or was refused.

use std::collections::BTreeMap;

use zkit_core::kernels::scan::Statistics;
use zkit_core::metadata::{DataType, Json};
use zkit_core::select::{Axis, Gap, Order, Values, is_coordinate};
use zkit_report::format;
use zkit_report::{Confidence, Severity};

use super::absent_chunks::{absent_of, absent_of_all};
use super::shared::{Absence, absence, declared_missing, fill_number, with_chunks};
use crate::boxes::{Pattern, Runs, pattern};
use crate::depth::Depth;
use crate::dimensions::{is_of_lead_time, is_of_time, is_spatial};
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::packing::{Packing, plausible_range};
use crate::rule::{Check, Rule};
use crate::values::share;

pub(crate) const RULE: Rule = Rule {
    id: "missing-slab",
    severity: Severity::Error,
    confidence: Confidence::Medium,
    depth: Depth::Listing,
    summary: "absent chunks form a trailing run or a whole slab: a writer that stopped, or was refused",
    explanation: "\
Some chunks are absent, and not just anywhere: everything behind one point, or everything at some steps of a
dimension. A job was killed, a region was never written, a bucket refused a batch of requests. The absent
part reads as fill value.

On disk: the chunk keys stop at an index of the first dimensions, or lack an index altogether; often the
same one in several variables.

Legitimate: writers leave out chunks that are all fill value. Of a coordinate that is one value at most, which continues
those beside it: the 0 that hours are counted from, in a store that was appended to step by step. Of data it is likely along
latitude, longitude and other axes of space, unless another value than the fill value stands for missing ones, or a band lies between stored ones in which nothing is
missing; there a slab is a note. So it is along dimensions without a coordinate, unless what is absent reads as missing behind
some point, and the dimension is called time or date, or an array of the same shape, chunks and type beside it is whole. Chunks of what is often
zero everywhere (rain, snow, counts, flags) are a warning where the fill value is zero. Where values are looked at, they
tell: where the fill value means \"missing\" (NaN, or what `_FillValue` declares) and some values that are stored are missing
too, a slab inside is a warning; where the fill value is zero and some values are zero, a single chunk that others follow is
a warning, and if five percent are (rain, counts, flags), whole chunks of zeros are no slab. What is summed up or the extreme of an
interval (rain, radiation, gusts) is missing at the first steps of a forecast, and at the first time of a series: a note; another variable that is
missing there while its siblings are not is a warning; and where none of
the strings that are stored is empty, their absence is a warning even along dimensions without a coordinate. If fill_value is
null, nothing says what the chunks hold. A trailing run is an error along any dimension where a file of an unfinished write
lies beside the chunks.

What to do: write the named part again. If it is meant to be absent, declare the variable in zkit.toml with
sparse = true.",
    check: Check::Store(check),
};

/// Grids of fewer chunks show no pattern.
const CHUNKS_LEAST: u64 = 4;

/// From this share of zeros in what is stored on, chunks of zeros alone are likely.
const ZEROS_LEAST: f64 = 0.05;

/// One array with a pattern of absent chunks.
struct Slab<'s, 'a> {
    array: &'s ArrayObservation<'a>,
    absent: Runs,
    pattern: Pattern,
    dimension: usize,
}

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let slabs: Vec<Slab<'_, '_>> = store.arrays.iter().filter_map(|array| slab_of(store, array)).collect();
    let mut shared: BTreeMap<String, u64> = BTreeMap::new();
    for slab in &slabs {
        *shared.entry(slab.place()).or_default() += 1;
    }
    for slab in &slabs {
        let alike = shared.get(&slab.place()).copied().unwrap_or(1);
        let (severity, confidence) = judge(store, slab);
        let (array, counts) = (slab.array, slab.array.node.metadata.grid.counts());
        let message =
            format!("{}{}{}{}", slab.in_words(counts), slab.meaning(), also(alike), doubt(severity));
        let draft = finder.array(array.path(), message).severity(severity).confidence(confidence);
        with_chunks(draft, array, &slab.absent)
            .evidence("chunks_total", counts.iter().product::<u64>())
            .evidence("dimension", array.dimension_label(slab.dimension))
            .evidence("variables_alike", alike)
            .remedy("write this part again; if it is meant to be absent, declare it in zkit.toml with sparse = true");
    }
}

/// Returns whether a writer that stopped is suspected here: more than a note.
pub(crate) fn is_suspect(store: &StoreObservation<'_>, array: &ArrayObservation<'_>) -> bool {
    slab_of(store, array).is_some_and(|slab| judge(store, &slab).0 > Severity::Info)
}

/// Returns whether the chunks of an array are absent in a pattern that is told here.
pub(crate) fn is_slab(store: &StoreObservation<'_>, array: &ArrayObservation<'_>) -> bool {
    slab_of(store, array).is_some()
}

fn slab_of<'s, 'a>(store: &StoreObservation<'a>, array: &'s ArrayObservation<'a>) -> Option<Slab<'s, 'a>> {
    if store.variable(array.path()).sparse {
        return None;
    }
    let absent = absent_of(array)?;
    let counts = array.node.metadata.grid.counts();
    let pattern = pattern(&absent, counts);
    let dimension = match &pattern {
        Pattern::Trailing { dimension, .. } | Pattern::Slabs { dimension, .. } => *dimension,
        Pattern::All | Pattern::Scattered => return None,
    };
    let slab = Slab { array, absent, pattern, dimension };
    let told = judge(store, &slab).0 > Severity::Info || is_worth_a_note(&slab);
    told.then_some(slab)
}

/// Returns whether a slab that sparse data may have is told as one: chunks that lie together, not single ones along a line, nor those
/// of what is often zero.
fn is_worth_a_note(slab: &Slab<'_, '_>) -> bool {
    let counts = slab.array.node.metadata.grid.counts();
    let through = counts.iter().filter(|&&count| count > 1).count() > 1;
    let together = through || matches!(slab.pattern, Pattern::Trailing { aligned: true, .. });
    together && counts.iter().product::<u64>() >= CHUNKS_LEAST && !holds_what_is_left_out(slab.array)
}

/// Returns how much a slab matters: whether a legitimate writer leaves one like it.
fn judge(store: &StoreObservation<'_>, slab: &Slab<'_, '_>) -> (Severity, Confidence) {
    let array = slab.array;
    if is_coordinate(array.node) {
        return judge_coordinate(store, array, &slab.absent);
    }
    let total: u64 = array.node.metadata.grid.counts().iter().product();
    let name = array.dimension_name(slab.dimension);
    let known = name.is_some() && store.coordinate_of(array, slab.dimension).is_some();
    let trailing = matches!(slab.pattern, Pattern::Trailing { .. });
    match absence(array) {
        _ if trailing && has_unfinished_writes(store, array) => (Severity::Error, Confidence::High),
        Absence::Missing if known && is_inside(slab) && is_dense(array) && name.is_some_and(is_spatial) => {
            (Severity::Warning, Confidence::Low)
        }
        _ if name.is_some_and(is_spatial) && !(known && is_taken_for_real(array)) => {
            (Severity::Info, Confidence::Low)
        }
        _ if holds_what_is_left_out(array) => (Severity::Info, Confidence::Low),
        Absence::Value if known && is_first_value(array, &slab.absent) => (Severity::Info, Confidence::Low),
        Absence::Undefined if total >= CHUNKS_LEAST || known => (Severity::Error, Confidence::High),
        // writers leave out chunks of zeros: one in the middle is no writer that stopped, and rain may not fall for months
        Absence::Value
            if known
                && leaves_out_zeros(array)
                && (is_one(slab) && may_be_zero(array) && is_unsure(array, |stored| stored.fill > 0)
                    || may_be_zero_everywhere(array)) =>
        {
            (Severity::Warning, Confidence::Low)
        }
        Absence::Value if known => (Severity::Error, Confidence::High),
        Absence::Missing if starts_late(slab) && is_of_an_interval(array) && begins(store, slab) => {
            (Severity::Info, Confidence::Low)
        }
        Absence::Missing if starts_late(slab) && is_lead_time(store, slab) && sibling_begins(store, slab) => {
            (Severity::Warning, Confidence::Low)
        }
        Absence::Missing if trailing && (known || name.is_some_and(is_of_time)) => {
            (Severity::Error, Confidence::Medium)
        }
        Absence::Missing if known && is_unsure(array, |stored| stored.valid < stored.elements) => {
            (Severity::Warning, Confidence::Medium)
        }
        Absence::Missing if known => (Severity::Error, Confidence::Medium),
        Absence::Value if 2 * slab.absent.len() < total && is_text_without_gaps(array) => {
            (Severity::Warning, Confidence::Medium)
        }
        Absence::Missing if trailing && has_whole_sibling(store, array) => {
            (Severity::Warning, Confidence::Medium)
        }
        _ => (Severity::Info, Confidence::Low),
    }
}

/// Returns how much it matters that chunks of a coordinate are absent. One value may well be the fill value: the first of
/// hours since the first, where a store is appended to step by step. Several never are, as no two rows are alike.
fn judge_coordinate(
    store: &StoreObservation<'_>,
    array: &ArrayObservation<'_>,
    absent: &Runs,
) -> (Severity, Confidence) {
    let first = absent.iter().next().map_or(0, |(first, _)| first);
    let excused = match store.coordinate(array.path()) {
        _ if !is_one_value(array, absent) || absence(array) == Absence::Missing => false,
        // nothing was read: most likely it is where the counting begins
        None => is_first_value(array, absent),
        Some(read) => {
            let analysis = &read.analysis;
            let broken =
                matches!(analysis.order, Order::Broken { .. }) && read.coordinate.axis != Axis::Other;
            let mut gaps = analysis.steps.iter().flat_map(|steps| &steps.gaps.named);
            let is_beside = |gap: &Gap| [gap.after as u64, gap.before as u64].contains(&first);
            !broken && analysis.duplicates.extra == 0 && !gaps.any(is_beside)
        }
    };
    if excused { (Severity::Info, Confidence::Low) } else { (Severity::Error, Confidence::High) }
}

/// Returns whether one value is absent, in a chunk of its own.
fn is_one_value(array: &ArrayObservation<'_>, absent: &Runs) -> bool {
    absent.len() == 1 && array.node.metadata.grid.largest_chunk_shape() == [1]
}

/// Returns whether only the first value is absent, from which the others may count.
fn is_first_value(array: &ArrayObservation<'_>, absent: &Runs) -> bool {
    is_one_value(array, absent) && absent.iter().next() == Some((0, 0))
}

/// Returns whether what was looked at leaves room for chunks that are fill value by right: some values are, or not all
/// were looked at. Where nothing was, nothing speaks for them.
fn is_unsure(array: &ArrayObservation<'_>, holds_fill: impl Fn(&Statistics) -> bool) -> bool {
    array.values.as_ref().is_some_and(|values| {
        holds_fill(&values.stored) || !values.coverage.is_full() || values.stored.elements == 0
    })
}

/// Returns whether absent chunks read as real values though another value stands for missing ones, as over land or sea.
fn is_taken_for_real(array: &ArrayObservation<'_>) -> bool {
    absence(array) == Absence::Value && !declared_missing(array).is_empty()
}

/// Returns whether a writer left files of writes that it did not finish among the chunks.
fn has_unfinished_writes(store: &StoreObservation<'_>, array: &ArrayObservation<'_>) -> bool {
    let listing = array.survey.as_ref().and_then(|survey| survey.listing.as_ref());
    listing.is_some_and(|listing| listing.temporary.count > 0 && store.is_settled(listing.temporary_changed))
}

/// Returns whether stored chunks hold so many of the zeros that writers leave out where a chunk has nothing else, that
/// whole chunks of them are likely: rain that did not fall, counts of what did not happen, flags that are not set.
pub(crate) fn holds_what_is_left_out(array: &ArrayObservation<'_>) -> bool {
    let Some(values) = array.values.as_ref().filter(|values| values.stored.elements > 0) else {
        return false;
    };
    let stored = &values.stored;
    match absence(array) {
        Absence::Value => {
            fill_number(array) == Some(0.0) && share(stored.fill, stored.elements) >= ZEROS_LEAST
        }
        // integers under a fill value of null are left out where they are zero; that zero is the least tells no share
        Absence::Undefined => {
            let metadata = &array.node.metadata;
            let counts = matches!(metadata.data_type, DataType::Bool | DataType::Int(_) | DataType::UInt(_));
            counts && Packing::of(array).is_none() && stored.min.is_some_and(|least| least.to_f64() == 0.0)
        }
        Absence::Missing => false,
    }
}

/// Returns whether an array holds texts, all of it was looked at, and none of them is what absent chunks read as.
fn is_text_without_gaps(array: &ArrayObservation<'_>) -> bool {
    let text = matches!(array.node.metadata.data_type, DataType::String | DataType::FixedUtf32(_));
    text && array.values.as_ref().is_some_and(|values| {
        values.coverage.is_full() && values.stored.elements > 0 && values.stored.fill == 0
    })
}

/// Returns whether absent chunks stand for zeros.
pub(crate) fn leaves_out_zeros(array: &ArrayObservation<'_>) -> bool {
    fill_number(array) == Some(0.0)
}

/// Returns whether one chunk is absent, and others behind it are not.
fn is_one(slab: &Slab<'_, '_>) -> bool {
    slab.absent.len() == 1 && !matches!(slab.pattern, Pattern::Trailing { .. })
}

/// Returns whether zero is a value like others: not where a stored zero means something else, nor of kelvins.
fn may_be_zero(array: &ArrayObservation<'_>) -> bool {
    Packing::of(array).is_none() && plausible_range(array).is_none_or(|(low, _)| low <= 0.0)
}

/// Returns whether a quantity is often zero at every place at once, by its names.
pub(crate) fn may_be_zero_everywhere(array: &ArrayObservation<'_>) -> bool {
    const WORDS: [&str; 12] = [
        "rain",
        "precip",
        "snow",
        "hail",
        "lightning",
        "flash",
        "runoff",
        "burn",
        "fire",
        "count",
        "flag",
        "mask",
    ];
    let attributes = &array.node.metadata.attributes;
    let text = |name| attributes.get(name).and_then(Json::as_str).unwrap_or_default();
    let names = [text("standard_name"), text("long_name"), array.name()].join(" ").to_lowercase();
    WORDS.iter().any(|word| names.contains(word)) || ["tp", "pr", "cp", "lsp"].contains(&array.name())
}

/// Returns whether what is absent is the beginning of a dimension, and less than half of it.
fn starts_late(slab: &Slab<'_, '_>) -> bool {
    let count = slab.array.node.metadata.grid.counts()[slab.dimension];
    matches!(&slab.pattern, Pattern::Slabs { ranges, .. } if matches!(ranges[..], [(0, last)] if last < count / 2))
}

/// Returns whether a dimension is that of a beginning: lead times of forecasts, or times of which one alone is absent.
fn begins(store: &StoreObservation<'_>, slab: &Slab<'_, '_>) -> bool {
    let chunk = slab.array.node.metadata.grid.largest_chunk_shape()[slab.dimension];
    let one = chunk == 1 && matches!(&slab.pattern, Pattern::Slabs { ranges, .. } if ranges[..] == [(0, 0)]);
    let time = slab.array.dimension_name(slab.dimension).is_some_and(is_of_time);
    is_lead_time(store, slab) || (one && time)
}

/// Returns whether a dimension holds the lead times of forecasts, by its name or the type of its coordinate.
fn is_lead_time(store: &StoreObservation<'_>, slab: &Slab<'_, '_>) -> bool {
    let coordinate = store.coordinate_of(slab.array, slab.dimension);
    let read = coordinate.and_then(|found| store.coordinate(found.path()));
    let standard_name = coordinate.and_then(|found| found.node.metadata.attributes.get("standard_name"));
    slab.array.dimension_name(slab.dimension).is_some_and(is_of_lead_time)
        || standard_name.and_then(Json::as_str) == Some("forecast_period")
        || read.is_some_and(|read| matches!(read.coordinate.values, Values::Durations(_)))
}

/// Returns whether a variable of the same group stores all chunks along the dimension, so that what is absent is absent of
/// this one alone.
fn sibling_begins(store: &StoreObservation<'_>, slab: &Slab<'_, '_>) -> bool {
    let name = slab.array.dimension_name(slab.dimension);
    let beside = |other: &&ArrayObservation<'_>| {
        let metadata = &other.node.metadata;
        other.path() != slab.array.path()
            && other.group() == slab.array.group()
            && metadata.shape() == slab.array.node.metadata.shape()
            && other.dimension_name(slab.dimension) == name
    };
    let whole =
        |other: &ArrayObservation<'_>| other.occupancy().is_some_and(|(total, stored)| total == stored);
    store.arrays.iter().filter(beside).any(whole)
}

/// Returns whether a variable tells of an interval, which the first moment does not have: sums, means and extremes.
/// Source: CF conventions, section 7.3; ECMWF's stepType.
fn is_of_an_interval(array: &ArrayObservation<'_>) -> bool {
    const WORDS: [&str; 10] = [
        "accum",
        "precip",
        "rain",
        "snowfall",
        "radiation",
        "runoff",
        "evaporation",
        "gust",
        "maximum",
        "minimum",
    ];
    const NAMES: [&str; 28] = [
        "tp", "cp", "lsp", "sf", "pr", "ssr", "str", "ssrd", "strd", "tsr", "ttr", "ssrc", "strc", "slhf",
        "sshf", "e", "pev", "ro", "sro", "ssro", "fdir", "cdir", "sund", "fg10", "i10fg", "mx2t", "mn2t",
        "gust",
    ];
    let attributes = &array.node.metadata.attributes;
    let text = |name| attributes.get(name).and_then(Json::as_str).unwrap_or_default();
    let step_type = text("GRIB_stepType");
    let methods = text("cell_methods");
    let names = [text("standard_name"), text("long_name"), array.name()].join(" ").to_lowercase();
    ["accum", "avg", "max", "min", "diff"].contains(&step_type)
        || ["sum", "mean", "maximum", "minimum"].iter().any(|how| methods.contains(&format!("time: {how}")))
        || WORDS.iter().any(|word| names.contains(word))
        || NAMES.contains(&array.name())
}

/// Returns whether what is absent has stored chunks on both sides, all of it.
fn is_inside(slab: &Slab<'_, '_>) -> bool {
    let Pattern::Slabs { ranges, .. } = &slab.pattern else { return false };
    let end = slab.array.node.metadata.grid.counts()[slab.dimension] - 1;
    ranges.iter().all(|&(first, last)| first > 0 && last < end)
}

/// Returns whether another array of the group has the same shape, dimensions, chunks, type and fill value, and all of its chunks
/// are stored.
fn has_whole_sibling(store: &StoreObservation<'_>, array: &ArrayObservation<'_>) -> bool {
    let metadata = &array.node.metadata;
    let alike = |other: &ArrayObservation<'_>| {
        let own = &other.node.metadata;
        own.dimension_names.iter().flatten().any(Option::is_some)
            && (own.shape(), &own.dimension_names) == (metadata.shape(), &metadata.dimension_names)
            && own.grid.counts() == metadata.grid.counts()
            && own.data_type == metadata.data_type
            && absence(other) == absence(array)
    };
    let whole =
        |other: &ArrayObservation<'_>| other.occupancy().is_some_and(|(total, stored)| total == stored);
    let siblings = store.arrays.iter().filter(|other| other.group() == array.group());
    siblings.filter(|other| other.path() != array.path()).any(|other| alike(other) && whole(other))
}

/// Returns whether everything of an array was looked at, and nothing that is stored is missing.
pub(crate) fn is_dense(array: &ArrayObservation<'_>) -> bool {
    array.values.as_ref().is_some_and(|values| {
        let stored = &values.stored;
        values.coverage.is_full() && stored.elements > 0 && stored.valid == stored.elements
    })
}

impl Slab<'_, '_> {
    /// What slabs of other variables have in common with it.
    fn place(&self) -> String {
        let name = self.array.dimension_name(self.dimension).unwrap_or("");
        match &self.pattern {
            Pattern::Trailing { from, .. } => format!("{} {name} from {from}", self.array.group()),
            Pattern::Slabs { ranges, .. } => format!("{} {name} at {ranges:?}", self.array.group()),
            Pattern::All | Pattern::Scattered => String::new(),
        }
    }

    fn in_words(&self, counts: &[u64]) -> String {
        let total: u64 = counts.iter().product();
        let label = self.array.dimension_label(self.dimension);
        let share = format!("{} absent", absent_of_all(self.absent.len(), total));
        let end = counts[self.dimension] - 1;
        match &self.pattern {
            Pattern::Trailing { from, aligned: true, .. } => {
                format!("{share}: all from index {from} of {label} to the end ({end})")
            }
            Pattern::Trailing { from, .. } => {
                format!("{share}: all behind one inside index {from} of {label}")
            }
            Pattern::Slabs { ranges, .. } => {
                let named: Vec<String> = ranges
                    .iter()
                    .take(4)
                    .map(
                        |(first, last)| {
                            if first == last { format!("{first}") } else { format!("{first}..{last}") }
                        },
                    )
                    .collect();
                let more = if ranges.len() > 4 { ", ..." } else { "" };
                format!("{share}: everything at index {}{more} of {label}", named.join(", "))
            }
            Pattern::All | Pattern::Scattered => share,
        }
    }

    fn meaning(&self) -> String {
        let (reads, holds) =
            if self.absent.len() == 1 { ("it reads", "it holds") } else { ("they read", "they hold") };
        match absence(self.array) {
            Absence::Undefined => format!("; with fill_value null nothing says what {holds}"),
            Absence::Missing => format!("; {reads} as missing values"),
            Absence::Value => format!("; {reads} as the fill value, a value like any other"),
        }
    }
}

fn doubt(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "; a writer that leaves out chunks of the fill value may leave them, too",
        _ => "",
    }
}

fn also(alike: u64) -> String {
    match alike {
        0 | 1 => String::new(),
        _ => format!("; the same in {}", format::counted(alike - 1, "other variable", "other variables")),
    }
}

#[cfg(test)]
mod tests;
