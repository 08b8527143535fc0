//! `metadata-only-array`: an array has metadata and not one chunk, so that all of it reads as fill value.

use std::collections::{BTreeSet, HashMap};

use zkit_core::metadata::DataType;
use zkit_report::format;
use zkit_report::{Confidence, Severity};

use crate::boxes;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::pyramid::whole_levels;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "metadata-only-array",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "an array has metadata and not one chunk, so that all of it reads as fill value",
    explanation: "\
An array was created and never written: xarray's to_zarr(compute=False) without the compute, a job that died
before its first chunk, a copy that took the metadata alone. Readers see an array of the right shape and
type, full of fill values.

On disk: v2 has .zarray and .zattrs in the folder, v3 zarr.json and no c/. Coordinates often do have chunks.

Legitimate: writers that leave out empty chunks store an array like this if all of it is fill value. It is
an error where its coordinates or its siblings of the same dimensions were written, where nothing of any data in the store was
written and that is more than a dozen chunks, where it is the coordinate of written data, and where it is a level of an image whose other levels are stored whole (`multiscales`; labels may vanish from
level to level); a note for booleans, flags (`flag_meanings`), labels of images, single chunks of integers, which may all be zero, and of texts, which may all be empty, or where its dimensions reach far into chunks that are to be appended
to.

What to do: write the data again. If it is meant to be empty, say so in zkit.toml: [[audit.variable]] with
match and sparse = true.",
    check: Check::Store(check),
};

/// A store of which nothing was written may be a sample of metadata up to so many chunks.
const FEW_CHUNKS: u64 = 12;

/// A coordinate whose chunk is so many times as long as the coordinate is made to be appended to.
const APPEND_FACTOR: u64 = 8;

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let (coordinates, kinds) = (store.coordinate_paths(), written_kinds(store));
    let data_written = store.arrays.iter().any(|array| {
        !coordinates.contains(array.path()) && array.dimension_name(0).is_some() && is_written(array)
    });
    let nothing_written = holds_nothing(store, &coordinates);
    for array in store.arrays.iter().filter(|array| is_unwritten(array)) {
        let path = array.path();
        let changed = array
            .survey
            .as_ref()
            .and_then(|survey| survey.listing.as_ref())
            .and_then(|listing| listing.changed);
        if store.variable(path).sparse || !store.is_settled(changed) {
            continue;
        }
        let rank = array.node.metadata.grid.rank();
        let written: Vec<&str> = (0..rank)
            .filter_map(|dimension| store.coordinate_of(array, dimension))
            .filter(|coordinate| coordinate.path() != path && is_written(coordinate))
            .map(ArrayObservation::name)
            .collect();
        // flags that are nowhere set are all fill value, and their siblings are not
        let sibling =
            kind_of(array).and_then(|kind| kinds.get(&kind).copied()).filter(|_| !is_likely_all_fill(array));
        let template =
            !data_written && (0..rank).any(|dimension| is_made_for_appending(store, array, dimension));
        let total = array.occupancy().map_or(0, |(total, _)| total);
        let subject = match total {
            1 => "its only chunk is not stored".to_owned(),
            _ => format!("not one of its {} is stored", format::counted(total, "chunk", "chunks")),
        };
        let along = data_along(store, array, &coordinates);
        let levels = whole_levels(store, array);
        let (severity, confidence, because) = match (template, sibling, written.as_slice()) {
            _ if levels.is_some() => (
                Severity::Error,
                Confidence::Medium,
                format!(
                    ", while the other levels of its image (`{}`) are stored whole",
                    levels.unwrap_or_default().join("`, `")
                ),
            ),
            (true, ..) => (
                Severity::Info,
                Confidence::Medium,
                "; the store looks like a template to append to".to_owned(),
            ),
            (_, Some(sibling), _) => (
                Severity::Error,
                Confidence::High,
                format!(", while `{sibling}` of the same dimensions was written"),
            ),
            (_, None, _) if along.is_some() => (
                Severity::Error,
                Confidence::High,
                format!(", while `{}` was written along it", along.unwrap_or_default()),
            ),
            (_, None, []) if nothing_written && may_hold_data(store, array) => {
                (Severity::Error, Confidence::Medium, ", and no data of this store was written".to_owned())
            }
            (_, None, [_, ..]) if may_be_zero(array) => (Severity::Info, Confidence::Low, String::new()),
            (_, None, [_, ..]) => (
                Severity::Error,
                Confidence::High,
                format!(", while its coordinates ({}) were written", written.join(", ")),
            ),
            _ => (Severity::Info, Confidence::Low, String::new()),
        };
        finder
            .array(path, format!("{subject}: all of it reads as fill value{because}"))
            .severity(severity)
            .confidence(confidence)
            .evidence("chunks_total", total)
            .evidence("coordinates_written", written)
            .chunks(boxes::whole(array.node.metadata.grid.counts()).into_iter().collect())
            .remedy("write the data again; if it is meant to be empty, declare it in zkit.toml with sparse = true");
    }
}

/// Returns whether it is known that nothing of an array is there, under whatever key.
fn is_unwritten(array: &ArrayObservation<'_>) -> bool {
    let Some(survey) = &array.survey else { return false };
    let misplaced = survey.listing.as_ref().is_some_and(|listing| listing.misplaced.count > 0);
    matches!(array.occupancy(), Some((1.., 0))) && !survey.unreadable && !misplaced
}

/// Returns whether no data of the store was written, and that is more than a few chunks. Where only some of its arrays are
/// looked at, nobody knows.
fn holds_nothing(store: &StoreObservation<'_>, coordinates: &BTreeSet<&str>) -> bool {
    let is_data = |array: &&ArrayObservation<'_>| {
        !coordinates.contains(array.path()) && !array.node.metadata.shape().is_empty()
    };
    let unwritten = |array: &ArrayObservation<'_>| is_unwritten(array) || array.occupancy() == Some((0, 0));
    let mut data = store.arrays.iter().filter(is_data);
    let chunks = data.clone().filter(|array| may_hold_data(store, array));
    let chunks = chunks.filter_map(ArrayObservation::occupancy).map(|(total, _)| total);
    store.arrays.len() == store.hierarchy.arrays.len()
        && data.all(unwritten)
        && chunks.fold(0, u64::saturating_add) > FEW_CHUNKS
}

/// Returns whether an array would hold something if it had been written: neither flags, nor labels of an image, nor what is
/// declared sparse.
fn may_hold_data(store: &StoreObservation<'_>, array: &ArrayObservation<'_>) -> bool {
    let labels = || array.group().split('/').any(|part| part == "labels");
    !is_flags(array) && !labels() && !store.variable(array.path()).sparse
}

/// Returns whether an array of this kind is often fill value all over: booleans and unpacked integers,
/// whose writers leave out zeros even under a fill value of null, and one chunk of texts, all of which may be empty.
fn is_likely_all_fill(array: &ArrayObservation<'_>) -> bool {
    let metadata = &array.node.metadata;
    let packed = ["scale_factor", "add_offset"].iter().any(|name| metadata.attributes.get(name).is_some());
    let discrete = matches!(metadata.data_type, DataType::Bool | DataType::Int(_) | DataType::UInt(_));
    let texts =
        matches!(metadata.data_type, DataType::String | DataType::FixedUtf32(_) | DataType::FixedBytes(_));
    let one_chunk = array.occupancy().is_some_and(|(total, _)| total == 1);
    (discrete && !packed) || (texts && one_chunk)
}

/// Returns whether an array is flags or one chunk of whole numbers: none of them need be set.
fn may_be_zero(array: &ArrayObservation<'_>) -> bool {
    let one_chunk = array.occupancy().is_some_and(|(total, _)| total == 1);
    is_likely_all_fill(array) && (is_flags(array) || one_chunk)
}

/// Returns whether an array holds flags, by its type or its attributes. Source: CF conventions, section 3.5.
fn is_flags(array: &ArrayObservation<'_>) -> bool {
    let metadata = &array.node.metadata;
    metadata.data_type == DataType::Bool || metadata.attributes.get("flag_meanings").is_some()
}

/// Returns the name of a written array along the dimension that `array` is the coordinate of: so many places cannot all
/// be the fill value.
fn data_along<'a>(
    store: &StoreObservation<'a>,
    array: &ArrayObservation<'_>,
    coordinates: &BTreeSet<&str>,
) -> Option<&'a str> {
    let (name, shape) = (array.name(), array.node.metadata.shape());
    if !matches!(shape, [length] if *length > 1) || array.dimension_name(0) != Some(name) {
        return None;
    }
    let mut others = store.arrays.iter().filter(|other| {
        let names = other.node.metadata.dimension_names.iter().flatten().flatten();
        other.group() == array.group()
            && !coordinates.contains(other.path())
            && names.into_iter().any(|dimension| dimension == name)
            && is_written(other)
    });
    others.next().map(ArrayObservation::name)
}

fn is_written(array: &ArrayObservation<'_>) -> bool {
    array.occupancy().is_some_and(|(_, stored)| stored > 0)
}

/// What arrays that hold the same kind of data have in common: group, named dimensions, shape.
type Kind<'a> = (&'a str, Vec<&'a str>, &'a [u64]);

fn kind_of<'a>(array: &ArrayObservation<'a>) -> Option<Kind<'a>> {
    let names: Option<Vec<&str>> =
        array.node.metadata.dimension_names.as_ref()?.iter().map(Option::as_deref).collect();
    let names = names.filter(|names| !names.is_empty())?;
    Some((array.group(), names, array.node.metadata.shape()))
}

/// Returns the name of an array of each kind that was written.
fn written_kinds<'a>(store: &StoreObservation<'a>) -> HashMap<Kind<'a>, &'a str> {
    let written = store.arrays.iter().filter(|array| is_written(array));
    written.filter_map(|array| Some((kind_of(array)?, array.name()))).collect()
}

/// Returns whether the coordinate of a dimension leaves room for many times what is there.
fn is_made_for_appending(
    store: &StoreObservation<'_>,
    array: &ArrayObservation<'_>,
    dimension: usize,
) -> bool {
    store.coordinate_of(array, dimension).is_some_and(|coordinate| {
        let metadata = &coordinate.node.metadata;
        let chunk = metadata.grid.largest_chunk_shape().first().copied().unwrap_or(0);
        chunk >= metadata.shape()[0].saturating_mul(APPEND_FACTOR)
    })
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array};

    fn array(store: TestStore, path: &str, shape: &[u64], chunks: &[u64], names: &[&str]) -> TestStore {
        let attributes = serde_json::json!({ "_ARRAY_DIMENSIONS": names }).to_string();
        store.array(path, &v2_array(shape, chunks)).file(&format!("{path}/.zattrs"), attributes.as_bytes())
    }

    fn severities(store: &TestStore) -> Vec<(String, Severity)> {
        let found = store.findings("metadata-only-array").into_iter();
        found.map(|finding| (finding.array.unwrap_or_default(), finding.severity)).collect()
    }

    #[test]
    fn an_array_whose_coordinate_was_written_is_an_error_unless_it_is_declared() {
        let store = array(TestStore::new(), "time", &[8], &[8], &["time"]).file("time/0", &[0; 32]);
        let store = array(array(store, "t2m", &[8], &[2], &["time"]), "snow", &[8], &[2], &["time"]);
        let store = store.with_policy("[[variable]]\nmatch = \"snow\"\nsparse = true");
        assert_eq!(severities(&store), [("/t2m".to_owned(), Severity::Error)]);
        let found = store.findings("metadata-only-array");
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].last, [3]);
    }

    #[test]
    fn a_template_and_a_store_without_anything_are_notes() {
        let template =
            array(TestStore::new(), "time", &[1], &[10_000], &["time"]).file("time/0", &[0; 40_000]);
        let template = array(template, "t2m", &[1], &[1], &["time"]);
        assert_eq!(severities(&template), [("/t2m".to_owned(), Severity::Info)]);
        assert_eq!(severities(&TestStore::new().array("a", &v2_array(&[8], &[2])))[0].1, Severity::Info);
    }

    #[test]
    fn a_store_of_metadata_alone_is_an_error_without_any_coordinate() {
        let arrays = |dimensions: &[&str]| {
            ["a", "b", "c"]
                .iter()
                .fold(TestStore::new(), |store, name| array(store, name, &[10, 3], &[2, 3], dimensions))
        };
        for dimensions in [&["time", "x"][..], &[]] {
            let found = severities(&arrays(dimensions));
            assert!(found.len() == 3 && found.iter().all(|found| found.1 == Severity::Error), "{found:?}");
        }
        // a scalar beside it is no data
        let found = arrays(&["time", "x"]).array("crs", &v2_array(&[], &[])).file("crs/0", &[0; 4]);
        assert!(severities(&found).iter().all(|found| found.1 == Severity::Error));
        let other = array(arrays(&["time", "x"]), "d", &[5], &[5], &["y"]).file("d/0", &[1; 20]);
        assert!(severities(&other).iter().all(|found| found.1 == Severity::Info), "something was written");
        let sparse = arrays(&[]).with_policy("[[variable]]\nmatch = \"*\"\nsparse = true");
        assert_eq!(severities(&sparse), []);
        let label = ["labels", "labels/cells"].iter().fold(TestStore::new(), |store, group| {
            store.file(&format!("{group}/.zgroup"), br#"{"zarr_format": 2}"#)
        });
        let label = array(label, "labels/cells/0", &[64], &[2], &["x"]);
        assert_eq!(severities(&label)[0].1, Severity::Info, "an image may have no label");
    }

    #[test]
    fn one_chunk_is_called_its_only_one() {
        let found = TestStore::new().array("a", &v2_array(&[2], &[2])).findings("metadata-only-array");
        assert_eq!(found[0].message, "its only chunk is not stored: all of it reads as fill value");
    }

    #[test]
    fn a_written_sibling_of_the_same_dimensions_makes_it_an_error() {
        let store = array(TestStore::new(), "a", &[8], &[2], &["x"]).file("a/0", &[0; 8]);
        let store = array(store, "b", &[8], &[2], &["x"]);
        assert_eq!(severities(&store), [("/b".to_owned(), Severity::Error)]);
    }

    #[test]
    fn a_coordinate_of_written_data_cannot_be_all_fill() {
        let store = array(TestStore::new(), "time", &[8], &[8], &["time"]);
        let store = array(store, "t2m", &[8], &[8], &["time"]).file("t2m/0", &[0; 32]);
        assert_eq!(severities(&store), [("/time".to_owned(), Severity::Error)]);
        let one = array(TestStore::new(), "time", &[1], &[1], &["time"]);
        let one = array(one, "t2m", &[1, 2], &[1, 2], &["time", "x"]).file("t2m/0.0", &[0; 8]);
        assert_eq!(severities(&one), [("/time".to_owned(), Severity::Info)]);
    }

    #[test]
    fn a_level_of_an_image_whose_other_levels_are_whole_is_an_error() {
        let levels = r#"[{"datasets": [{"path": "0"}, {"path": "1"}]}]"#;
        let image = |attributes: &str, chunks: u64| {
            let store = TestStore::new().array("0", &v2_array(&[8], &[2])).array("1", &v2_array(&[4], &[2]));
            let store = store.file(".zattrs", attributes.as_bytes());
            severities(&(0..chunks).fold(store, |store, chunk| store.file(&format!("0/{chunk}"), &[1; 8])))
        };
        let found = |severity| [("/1".to_owned(), severity)];
        let named = format!(r#"{{"multiscales": {levels}}}"#);
        assert_eq!(image(&named, 4), found(Severity::Error));
        assert_eq!(image(&format!(r#"{{"ome": {{"multiscales": {levels}}}}}"#), 4), found(Severity::Error));
        assert_eq!(image(&named, 3), found(Severity::Info), "a part of it is fill value");
        let labels = format!(r#"{{"multiscales": {levels}, "image-label": {{}}}}"#);
        assert_eq!(image(&labels, 4), found(Severity::Info));
        assert_eq!(image("{}", 4), found(Severity::Info));
    }

    #[test]
    fn flags_that_are_nowhere_set_are_a_note() {
        let store = array(TestStore::new(), "time", &[8], &[8], &["time"]).file("time/0", &[0; 32]);
        let flags = v2_array(&[8], &[2]).replace("<f4", "|b1").replace(":0,", ":false,");
        let store = store.array("flag", &flags).file("flag/.zattrs", br#"{"_ARRAY_DIMENSIONS":["time"]}"#);
        assert_eq!(severities(&store), [("/flag".to_owned(), Severity::Info)]);
        let quality = v2_array(&[8], &[2]).replace("<f4", "|u1");
        let named = |attributes: &str| {
            let store = TestStore::new().array("time", &v2_array(&[8], &[8])).file("time/0", &[0; 32]);
            let store = store.file("time/.zattrs", br#"{"_ARRAY_DIMENSIONS":["time"]}"#);
            severities(&store.array("qc", &quality).file("qc/.zattrs", attributes.as_bytes()))[0].1
        };
        assert_eq!(named(r#"{"_ARRAY_DIMENSIONS":["time"],"flag_meanings":"good bad"}"#), Severity::Info);
        assert_eq!(named(r#"{"_ARRAY_DIMENSIONS":["time"]}"#), Severity::Error);
    }
}
