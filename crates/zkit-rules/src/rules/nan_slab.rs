//! `nan-slab`: a whole step, day or id is NaN, while others are not.

use zkit_core::engine::{ArrayValues, NanProfile};
use zkit_core::metadata::DataType;
use zkit_report::{ChunkBox, Confidence, Severity, format};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::packing::Packing;
use crate::rule::{Check, Rule};
use crate::values::{seen_data, share};
use crate::words::span_in_words;

/// Runs of slabs that a finding names at most.
const RUNS_MOST: usize = 16;
/// In so many steps at least the share of NaN grows where rows of different length are filled up.
const PADDING_STEPS: usize = 3;
/// Where the others are NaN by more than this, a slab of NaN is one of them.
const OTHERS_MOST: f64 = 0.9;

/// Slabs of NaN along places that are told, at most, how wide each is at most, and how much NaN their neighbours hold.
const ALONE_MOST: usize = 3;
const WIDTH_MOST: u64 = 3;
const DENSE: f64 = 0.05;

pub(crate) const RULE: Rule = Rule {
    id: "nan-slab",
    severity: Severity::Error,
    confidence: Confidence::Medium,
    depth: Depth::Sample,
    summary: "a whole step, day or id is NaN, while the others are not",
    explanation: "\
Everything at some indices along a dimension is NaN, or declared missing so that readers see NaN: the last days of a month that a download did not reach, an id whose
file could not be read, steps that a rechunk lost. Other steps are not, so that means over all hide it.

On disk: chunks are there; where a chunk spans several steps, only decoding shows which of them are NaN.

Legitimate: along latitude, longitude, height and the like, and along the last two of three and more dimensions that are no
steps or ids by name, NaN is where there is no data (land, sea, poles, below the ground): only a few slabs are told there, as a
warning, if they lie inside between neighbours that are all but free of NaN, or if everything else is and they lie inside
or end where chunks do. Cells, faces and nodes of meshes are never told, nor single values of one-dimensional arrays. The first steps of a running mean or an accumulation are NaN, and variables that exist at
every n-th step only are NaN between, instruments leave gaps in many places, and rows of different length (the observations of
trajectories) are filled up with NaN, more and more towards the end: these are notes, and so are arrays most of which is NaN.

What to do: write these steps again. If they are meant to be NaN, say so in zkit.toml: [[audit.variable]] with
nan-allowed = true.",
    check: Check::Store(check),
};

/// Dimensions along which NaN is a matter of place, by the beginning or the whole of their names.
const PLACES: [&str; 22] = [
    "lat", "lon", "nlat", "nlon", "rlat", "rlon", "x", "y", "z", "xc", "yc", "lev", "plev", "depth",
    "height", "altitude", "cell", "row", "col", "nv", "i", "j",
];

fn is_place(name: &str) -> bool {
    let name = name.to_lowercase();
    let starts = [
        "lat",
        "lon",
        "lev",
        "plev",
        "depth",
        "height",
        "alt",
        "x_",
        "y_",
        "z_",
        "row",
        "col",
        "cell",
        "south_north",
        "west_east",
        "bottom_top",
        "easting",
        "northing",
        "projection",
    ];
    PLACES.contains(&name.as_str()) || starts.iter().any(|start| name.starts_with(start))
}

/// Returns whether a dimension of this name counts the points of a mesh: one of them is no row of a map.
fn is_point(name: &str) -> bool {
    const NAMES: [&str; 8] = ["cell", "node", "face", "edge", "vert", "point", "value", "pixel"];
    let name = name.to_lowercase();
    NAMES.iter().any(|start| {
        name.starts_with(start) || name.strip_prefix('n').is_some_and(|name| name.starts_with(start))
    })
}

/// Returns whether a dimension of this name is one of steps or ids, wherever it stands: series of points have time last.
fn is_step(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "step",
        "lead",
        "date",
        "day",
        "month",
        "year",
        "hour",
        "id",
        "sample",
        "member",
        "ensemble",
        "number",
        "realization",
        "scenario",
        "run",
        "station",
        "site",
    ];
    let name = name.to_lowercase();
    name.contains("time") || NAMES.contains(&name.as_str()) || name.ends_with("_id")
}

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for (array, values) in seen_data(store) {
        if store.variable(array.path()).nan_allowed || values.stored.is_all_void() || !reads_nan(array) {
            continue;
        }
        for profile in &values.nan {
            let named = array.dimension_name(profile.dimension);
            // a single value is no slab
            let across = array.node.metadata.shape().iter().enumerate();
            let across = across.filter(|(d, _)| *d != profile.dimension).any(|(_, &length)| length > 1);
            // without names, the first of several dimensions is what steps run along
            let rank = array.node.metadata.shape().len();
            let leading = rank <= 2 || profile.dimension + 2 < rank;
            let steps = named.map_or(profile.dimension == 0 && rank != 2, |name| {
                is_step(name) || (leading && !is_place(name))
            });
            // places without data have neighbours that lack some of it
            let chunk = array.node.metadata.chunk_shape()[profile.dimension];
            let told = steps || (named.is_some_and(|name| !is_point(name)) && stands_alone(profile, chunk));
            if told
                && across
                && let Some(mut slabs) = slabs_of(profile)
            {
                slabs.places = !steps;
                report(store, (array, values), profile, &slabs, finder);
            }
        }
    }
}

/// Returns whether readers see the missing values of an array as NaN. Flags and labels are integers that have one, too.
fn reads_nan(array: &ArrayObservation<'_>) -> bool {
    let integers =
        matches!(array.node.metadata.data_type, DataType::Bool | DataType::Int(_) | DataType::UInt(_));
    !integers || Packing::of(array).is_some()
}

/// The slabs of NaN of one dimension.
struct Slabs {
    runs: Vec<(u64, u64)>,
    count: u64,
    seen: u64,
    /// The share of NaN in a typical other slab.
    others: f64,
    /// Whether the share of NaN grows towards them, as where rows of different length are filled up.
    padding: bool,
    /// Whether the dimension is one of places.
    places: bool,
}

/// Returns whether there are but a few slabs of NaN, and they are none of where places lack data: they lie inside, each between
/// two that are all but free of NaN; or all others are, and they lie inside or end where chunks of `chunk` indices do.
fn stands_alone(profile: &NanProfile, chunk: u64) -> bool {
    let runs = profile.all_nan();
    let length = profile.nan.len() as u64;
    let dense = |at: u64| {
        let at = usize::try_from(at).ok();
        at.and_then(|at| Some((profile.nan.get(at)?, profile.seen.get(at)?)))
            .is_some_and(|(&nan, &seen)| seen > 0 && share(nan, seen) <= DENSE)
    };
    let inside = |&(first, last): &(u64, u64)| first > 0 && last + 1 < length;
    let chunks = |&(first, last): &(u64, u64)| {
        chunk > WIDTH_MOST && first % chunk == 0 && ((last + 1) % chunk == 0 || last + 1 == length)
    };
    let narrow = |&(first, last): &(u64, u64)| {
        last - first < WIDTH_MOST && first > 0 && dense(first - 1) && dense(last + 1)
    };
    let in_slab = |at: u64| runs.iter().any(|&(first, last)| (first..=last).contains(&at));
    (1..=ALONE_MOST).contains(&runs.len())
        && (runs.iter().all(|run| inside(run) && narrow(run))
            || (runs.iter().all(|run| inside(run) || chunks(run))
                && (0..length).all(|at| in_slab(at) || dense(at))))
}

/// Returns the slabs of NaN along a dimension, if there are others that are not like them.
fn slabs_of(profile: &NanProfile) -> Option<Slabs> {
    let runs = profile.all_nan();
    let count: u64 = runs.iter().map(|(first, last)| last - first + 1).sum();
    let mut others: Vec<f64> = profile
        .nan
        .iter()
        .zip(&profile.seen)
        .filter(|&(nan, seen)| nan < seen)
        .map(|(&nan, &seen)| share(nan, seen))
        .collect();
    if runs.is_empty() || others.is_empty() {
        return None;
    }
    let middle = others.len() / 2;
    let others_nan = *others.select_nth_unstable_by(middle, f64::total_cmp).1;
    let padding = is_padding(profile, &runs);
    let seen = count + others.len() as u64;
    Some(Slabs { runs, count, seen, others: others_nan, padding, places: false })
}

/// Returns whether NaN fills up rows of different length: along the dimension its share never falls, grows in several
/// steps, and is all at the end. Source: CF conventions, section 9.3.1, "Orthogonal and incomplete multidimensional array
/// representation".
fn is_padding(profile: &NanProfile, runs: &[(u64, u64)]) -> bool {
    let [(first, _)] = runs else { return false };
    let shares: Vec<f64> = profile
        .nan
        .iter()
        .zip(&profile.seen)
        .filter(|(_, seen)| **seen > 0)
        .map(|(&nan, &seen)| share(nan, seen))
        .collect();
    let grows = shares.windows(2).all(|pair| pair[0] <= pair[1]);
    let steps = shares.windows(2).filter(|pair| pair[0] < pair[1]).count();
    grows && steps >= PADDING_STEPS && *first > 0 && shares.last() == Some(&1.0)
}

/// Returns how much slabs of NaN matter, and why they may be meant.
fn severity_of(slabs: &Slabs, partial: bool) -> (Severity, Confidence, &'static str) {
    let note = |why| (Severity::Info, Confidence::Low, why);
    let stride = |pair: &[(u64, u64)]| pair[1].0 - pair[0].0;
    let even =
        slabs.runs.len() >= 3 && slabs.runs.windows(2).all(|pair| stride(pair) == stride(&slabs.runs[..2]));
    match slabs.runs[..] {
        _ if slabs.others > OTHERS_MOST => note("; others are mostly NaN too"),
        _ if 2 * slabs.count > slabs.seen => note("; that is most of them"),
        _ if slabs.runs.len() > RUNS_MOST => note("; in many places, as instruments leave gaps"),
        _ if even => note("; at even distances"),
        _ if slabs.padding => {
            note("; NaN grows towards them, as where rows of different length are filled up")
        }
        [(0, last)] if last + 1 < slabs.seen && !slabs.places => {
            note("; as first steps of running means are")
        }
        _ if slabs.places => (Severity::Warning, Confidence::Low, "; their neighbours lack next to nothing"),
        _ if partial => (Severity::Warning, Confidence::Low, "; of each, only a part was looked at"),
        _ => (Severity::Error, Confidence::Medium, ""),
    }
}

fn report(
    store: &StoreObservation<'_>,
    (array, values): (&ArrayObservation<'_>, &ArrayValues),
    profile: &NanProfile,
    slabs: &Slabs,
    finder: &mut Finder<'_>,
) {
    let dimension = profile.dimension;
    let shape = array.node.metadata.shape();
    let across: u64 =
        shape.iter().enumerate().filter(|(d, _)| *d != dimension).map(|(_, length)| length).product();
    let absent_is_nan = values.coverage.is_full() && values.fill.void() > 0;
    let whole = |at: u64| usize::try_from(at).ok().and_then(|at| profile.seen.get(at)) == Some(&across);
    let partial = !absent_is_nan && !slabs.runs.iter().all(|&(first, last)| whole(first) && whole(last));
    let (severity, confidence, why) = severity_of(slabs, partial);
    let words: Vec<String> = slabs
        .runs
        .iter()
        .take(RUNS_MOST.min(3))
        .map(|&(first, last)| span_in_words(store, array, dimension, first, last))
        .collect();
    let more = slabs.runs.len().saturating_sub(words.len());
    let words = words.join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let what = if values.stored.missing > 0 { "NaN or missing" } else { "NaN" };
    let message = format!(
        "everything at {}{more} is {what}: {} of {} along {}, while of a typical other one {:.1} % is{why}",
        words,
        format::count(slabs.count),
        format::count(slabs.seen),
        array.dimension_label(dimension),
        100.0 * slabs.others
    );
    let runs: Vec<Vec<u64>> =
        slabs.runs.iter().take(RUNS_MOST).map(|&(first, last)| vec![first, last]).collect();
    let draft = finder.array(array.path(), message).severity(severity).confidence(confidence);
    draft
        .evidence("where", words)
        .evidence("dimension", array.dimension_label(dimension))
        .evidence("indices", runs)
        .evidence("count", slabs.count)
        .evidence("of", slabs.seen)
        .chunks(boxes_of(array, dimension, &slabs.runs))
        .remedy("write these steps again");
}

/// Returns the stored chunks that runs of indices lie in.
fn boxes_of(array: &ArrayObservation<'_>, dimension: usize, runs: &[(u64, u64)]) -> Vec<ChunkBox> {
    let grid = &array.node.metadata.grid;
    let mut boxes: Vec<ChunkBox> = Vec::new();
    for &(first, last) in runs.iter().take(RUNS_MOST) {
        let mut one = ChunkBox {
            first: vec![0; grid.rank()],
            last: grid.counts().iter().map(|count| count.saturating_sub(1)).collect(),
        };
        one.first[dimension] = grid.chunk_along(dimension, first).index;
        one.last[dimension] = grid.chunk_along(dimension, last).index;
        match boxes.last_mut() {
            Some(before) if one.first[dimension] <= before.last[dimension] => before.last = one.last,
            _ => boxes.push(one),
        }
    }
    boxes
}

#[cfg(test)]
mod tests {
    use zkit_report::{Finding, Severity};

    use crate::testing::{TestStore, coordinate_array, v2_array};

    /// 12 days of 8 places, four days a chunk; what `is_nan` names is NaN.
    fn found(dimensions: &str, is_nan: impl Fn(usize, usize) -> bool) -> Vec<Finding> {
        let store = days(
            &v2_array(&[12, 8], &[4, 8]),
            &format!(r#"{{"_ARRAY_DIMENSIONS": {dimensions}}}"#),
            |day, place| {
                let value = if is_nan(day, place) { f32::NAN } else { (8 * (day % 4) + place) as f32 };
                value.to_le_bytes().to_vec()
            },
        );
        store.findings("nan-slab")
    }

    /// 12 days of 8 places, four days a chunk.
    fn days(zarray: &str, attributes: &str, element: impl Fn(usize, usize) -> Vec<u8>) -> TestStore {
        let days: Vec<i64> = (0..12).collect();
        let store = TestStore::new();
        let mut store = coordinate_array(store, "time", &days, r#"{"units": "days since 2021-03-20"}"#)
            .array("t2m", zarray)
            .file("t2m/.zattrs", attributes.as_bytes());
        for chunk in 0..3 {
            let values: Vec<u8> = (0..32).flat_map(|at| element(4 * chunk + at / 8, at % 8)).collect();
            store = store.file(&format!("t2m/{chunk}.0"), &values);
        }
        store
    }

    #[test]
    fn missing_values_are_nan_where_readers_see_it() {
        let packed = v2_array(&[12, 8], &[4, 8]).replace("<f4", "<i2").replace(":0,", ":-32767,");
        let element = |day: usize, place: usize| {
            let value =
                if day == 5 || place == 1 { -32767 } else { i16::try_from(10 * day + place).unwrap() };
            value.to_le_bytes().to_vec()
        };
        let attributes = r#"{"_ARRAY_DIMENSIONS": ["time", "lat"], "scale_factor": 0.01}"#;
        let found = days(&packed, attributes, element).findings("nan-slab");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Error));
        assert_eq!(
            found[0].message,
            "everything at time 2021-03-25 is NaN or missing: 1 of 12 along time, while of a typical other one 12.5 % is"
        );
        let flags = r#"{"_ARRAY_DIMENSIONS": ["time", "lat"], "_FillValue": -32767}"#;
        assert_eq!(days(&packed, flags, element).findings("nan-slab"), []);
    }

    #[test]
    fn days_inside_chunks_are_named_by_their_dates() {
        let found = found(r#"["time", "lat"]"#, |day, place| (9..=11).contains(&day) || place < 2);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            found[0].message,
            "everything at time 2021-03-29..31 is NaN: 3 of 12 along time, while of a typical other one 25.0 % is"
        );
        assert_eq!((found[0].severity, found[0].chunks.as_ref().unwrap()[0].first[0]), (Severity::Error, 2));
    }

    /// 4 days of 8 latitudes and 10 longitudes in chunks of 4 x 8 x 5; what `is_nan` names is NaN.
    fn on_a_map(last: &str, is_nan: impl Fn([usize; 3]) -> bool) -> Vec<Finding> {
        let mut store = TestStore::new()
            .array("t2m", &v2_array(&[4, 8, 10], &[4, 8, 5]))
            .file("t2m/.zattrs", format!(r#"{{"_ARRAY_DIMENSIONS": ["time", "lat", "{last}"]}}"#).as_bytes());
        for chunk in 0..2 {
            let places = (0..160).map(|at| [at / 40, at / 5 % 8, 5 * chunk + at % 5]);
            let values =
                places.map(|place| if is_nan(place) { f32::NAN } else { (place[1] + 3 * place[2]) as f32 });
            let values: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
            store = store.file(&format!("t2m/0.0.{chunk}"), &values);
        }
        store.findings("nan-slab")
    }

    #[test]
    fn rows_and_columns_of_maps_are_told_where_nothing_else_is_nan() {
        let row = on_a_map("lon", |[_, lat, _]| lat == 4);
        assert_eq!((row.len(), row[0].severity), (1, Severity::Warning), "{row:?}");
        assert!(row[0].message.starts_with("everything at lat[4] is NaN"), "{}", row[0].message);
        let stripe = on_a_map("lon", |[_, _, lon]| (2..6).contains(&lon));
        assert_eq!((stripe.len(), stripe[0].severity), (1, Severity::Warning), "{stripe:?}");
        assert!(stripe[0].message.contains("lon[2..5]"), "{}", stripe[0].message);
        let tile = on_a_map("lon", |[_, _, lon]| lon >= 5);
        assert_eq!((tile.len(), tile[0].severity), (1, Severity::Warning), "{tile:?}");
        assert!(tile[0].message.contains("lon[5..9]"), "{}", tile[0].message);
        // a border that a filter leaves, and a coast
        assert_eq!(on_a_map("lon", |[_, lat, lon]| lat == 0 || lat == 7 || lon < 2), []);
        assert_eq!(on_a_map("lon", |[_, lat, lon]| lon < 5 || (lat > 2 && lon == 7)), []);
        for mesh in ["cell", "ncells", "nodes", "nFaces"] {
            assert_eq!(on_a_map(mesh, |[_, _, cell]| cell == 4), [], "{mesh}");
        }
        // ids are ids wherever they stand, other dimensions that are last are not known
        let member = on_a_map("member", |[_, lat, member]| member == 9 || lat == member);
        assert_eq!((member.len(), member[0].severity), (1, Severity::Error), "{member:?}");
        assert_eq!(on_a_map("band", |[_, lat, band]| band == 9 || lat == band), []);
    }

    #[test]
    fn places_first_steps_and_every_third_step_are_no_errors() {
        let names = r#"["time", "lat"]"#;
        assert!(found(names, |_, place| place < 2).is_empty());
        assert!(found(names, |day, place| place == 4 || (place == 3 && day < 2)).is_empty(), "a coast");
        let level = found(names, |_, place| place == 4);
        assert_eq!((level.len(), level[0].severity), (1, Severity::Warning), "{level:?}");
        assert!(level[0].message.starts_with("everything at lat[4] is NaN"), "{}", level[0].message);
        for is_nan in [|day: usize| day == 0, |day: usize| day.is_multiple_of(3), |day: usize| day > 3] {
            let found = found(names, |day, _| is_nan(day));
            assert_eq!((found.len(), found[0].severity), (1, Severity::Info), "{}", found[0].message);
        }
    }

    #[test]
    fn rows_of_different_length_that_are_filled_up_are_a_note() {
        // row `place` has 4 + place observations, the longest one 11 of 12
        let found = found(r#"["obs", "trajectory"]"#, |obs, place| obs >= 4 + place);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info), "{found:?}");
        assert!(found[0].message.contains("rows of different length"), "{}", found[0].message);
    }

    #[test]
    fn gaps_in_many_places_are_a_note() {
        let slabs = |count: u64| {
            let runs: Vec<_> = (0..count).map(|at| (at * at + 5, at * at + 5)).collect();
            super::Slabs { runs, count, seen: 10_000, others: 0.1, padding: false, places: false }
        };
        assert_eq!(super::severity_of(&slabs(40), false).0, Severity::Info);
        assert_eq!(super::severity_of(&slabs(5), false).0, Severity::Error);
    }

    #[test]
    fn a_line_of_values_has_no_slabs() {
        let values = [1.0, f32::NAN, 3.0, 4.0].map(f32::to_le_bytes).concat();
        let store = TestStore::new().array("a", &v2_array(&[4], &[4])).file("a/0", &values);
        assert!(store.findings("nan-slab").is_empty());
    }
}
