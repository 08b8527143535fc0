//! What is kept of a store when the next one is looked at: little, and enough to compare the stores of a cache.

use std::collections::BTreeMap;

use zkit_core::hierarchy::StoreKind;
use zkit_core::metadata::{Json, Object, ZarrFormat};

use crate::content::content_of;
use crate::depth::Depth;
use crate::ids::IdColumn;
use crate::observe::{ArrayObservation, StoreObservation};
pub use crate::rules::absent_chunks::LostChunks;
use crate::rules::absent_chunks::lost_chunks;
use crate::times::TimeColumn;

/// One store of a cache, after its own rules ran.
#[derive(Debug, Clone)]
pub struct StoreSummary {
    /// Where it is, without secrets.
    pub url: String,
    /// What kind of store it is.
    pub kind: StoreKind,
    /// The Zarr formats of its nodes, sorted.
    pub formats: Vec<ZarrFormat>,
    /// How closely it was looked at.
    pub depth: Depth,
    /// Its arrays, sorted by path.
    pub arrays: Vec<ArraySummary>,
    /// Stored bytes of all chunks; `None` where they were not listed.
    pub bytes_stored: Option<u64>,
    /// Decoded bytes that the metadata promises, of arrays whose elements have a fixed size.
    pub bytes_decoded: u64,
    /// Its ids, to be compared with those of other stores; none below [`Depth::Sample`].
    pub ids: Vec<IdColumn>,
    /// Its times, to be compared with those of stores that are alike; none below [`Depth::Sample`].
    pub times: Vec<TimeColumn>,
    /// Whether the last change of it that was seen is older than the grace period.
    pub settled: bool,
}

/// One array of a [`StoreSummary`].
#[derive(Debug, Clone, PartialEq)]
pub struct ArraySummary {
    /// Its path, starting with `/`.
    pub path: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its data type, as the output contract writes it.
    pub data_type: String,
    /// Its dimension names, `None` where it has none.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// The shape of its smallest unit that decodes alone.
    pub chunk_shape: Vec<u64>,
    /// Its codecs, readable.
    pub codecs: Vec<String>,
    /// Its attributes: a hash of each value, which is the same for equal values whatever their order. Units of time are
    /// kept as `units of time`.
    pub attributes: BTreeMap<String, u64>,
    /// Short values of attributes that say what numbers mean, as JSON.
    pub meanings: BTreeMap<&'static str, String>,
    /// Stored chunks (shards where sharded) and all chunks; `None` where they were not listed.
    pub chunks: Option<(u64, u64)>,
    /// Absent chunks that are a loss if stores like this one have theirs.
    pub lost: Option<LostChunks>,
    /// Stored bytes; `None` where they were not listed.
    pub bytes_stored: Option<u64>,
    /// Decoded bytes that the metadata promises; 0 where elements have no fixed size.
    pub decoded_bytes: u64,
    /// Whether it is a coordinate.
    pub is_coordinate: bool,
    /// A hash of all its chunks, if all were looked at and they could not be the same by chance.
    pub content: Option<u64>,
}

impl StoreSummary {
    /// Returns what is kept of a store.
    pub fn of(store: &StoreObservation<'_>) -> Self {
        let coordinates = store.coordinate_paths();
        let arrays: Vec<ArraySummary> = store
            .arrays
            .iter()
            .map(|array| ArraySummary::of(store, array, coordinates.contains(array.path())))
            .collect();
        // of references, the files that they lead to are what is stored
        let listed =
            store.depth > Depth::Metadata && store.hierarchy.store.is_some() && store.references.is_none();
        let listings = store.arrays.iter().filter_map(|array| array.survey.as_ref()?.listing.as_ref());
        let decoded = store.arrays.iter().filter_map(|array| array.node.metadata.decoded_bytes());
        Self {
            url: store.hierarchy.url.clone(),
            kind: store.hierarchy.kind,
            formats: store.hierarchy.formats(),
            depth: store.depth,
            bytes_stored: listed
                .then(|| arrays.iter().filter_map(|array| array.bytes_stored).fold(0, u64::saturating_add)),
            bytes_decoded: decoded.fold(0, u64::saturating_add),
            arrays,
            ids: IdColumn::of(store),
            times: TimeColumn::of(store),
            settled: store.is_settled(listings.filter_map(|listing| listing.changed).max()),
        }
    }

    /// Returns the array at `path`.
    pub fn array(&self, path: &str) -> Option<&ArraySummary> {
        let found = self.arrays.binary_search_by(|array| array.path.as_str().cmp(path)).ok()?;
        self.arrays.get(found)
    }

    /// Returns the last part of its URL.
    pub fn name(&self) -> &str {
        let url = self.url.trim_end_matches('/');
        url.rsplit('/').next().unwrap_or(url)
    }
}

/// Returns the names by which stores are told apart: their URLs below the folder that all of them share.
pub fn names_below(stores: &[StoreSummary]) -> Vec<&str> {
    let parts = |store: &'_ StoreSummary| store.url.trim_end_matches('/').matches('/').count();
    let shared = |depth: usize| {
        let folder = |store: &StoreSummary| {
            store.url.match_indices('/').nth(depth).map(|(end, _)| store.url[..=end].to_owned())
        };
        let first = stores.first().and_then(folder);
        first.is_some() && stores.iter().all(|store| parts(store) > depth && folder(store) == first)
    };
    let depth = (0..).take_while(|&depth| shared(depth)).count();
    let below = |store: &'_ StoreSummary| match depth.checked_sub(1) {
        Some(last) => store.url.match_indices('/').nth(last).map_or(0, |(end, _)| end + 1),
        None => 0,
    };
    stores.iter().map(|store| &store.url[below(store)..]).collect()
}

impl ArraySummary {
    fn of(store: &StoreObservation<'_>, array: &ArrayObservation<'_>, is_coordinate: bool) -> Self {
        let metadata = &array.node.metadata;
        let listing = array.survey.as_ref().and_then(|survey| survey.listing.as_ref());
        Self {
            path: array.path().to_owned(),
            shape: metadata.shape().to_vec(),
            data_type: metadata.data_type.to_string(),
            dimension_names: metadata.dimension_names.clone(),
            chunk_shape: metadata.chunk_shape(),
            codecs: metadata.codecs.iter().map(ToString::to_string).collect(),
            attributes: metadata
                .attributes
                .iter()
                .map(|(key, value)| (meaning_of(key, value).to_owned(), hash(value)))
                .collect(),
            meanings: meanings(&metadata.attributes),
            chunks: array.occupancy().map(|(total, stored)| (stored, total)),
            lost: lost_chunks(store, array),
            bytes_stored: listing.map(|listing| listing.bytes_stored),
            decoded_bytes: metadata.decoded_bytes().unwrap_or(0),
            is_coordinate,
            content: array.values.as_ref().and_then(content_of),
        }
    }
}

/// Attributes that change what numbers mean.
pub(crate) const MEANING: [&str; 7] =
    ["units", "calendar", "scale_factor", "add_offset", "_FillValue", "missing_value", "standard_name"];
/// Values of attributes that are kept have at most so many bytes as JSON.
const MEANING_BYTES_MOST: usize = 48;

fn meanings(attributes: &Object) -> BTreeMap<&'static str, String> {
    let named = MEANING.into_iter().filter_map(|name| Some((name, attributes.get(name)?.to_string())));
    named.filter(|(_, value)| value.len() <= MEANING_BYTES_MOST).collect()
}

/// The name under which units of time are kept: `days since 2021-01-01`.
pub(crate) const TIME_UNITS: &str = "units of time";

/// Returns the name of an attribute, where that says what its value means.
fn meaning_of<'a>(name: &'a str, value: &Json) -> &'a str {
    let counts_from = name == "units" && value.as_str().is_some_and(|units| units.contains(" since "));
    if counts_from { TIME_UNITS } else { name }
}

/// Returns a hash of a JSON value; objects hash the same whatever the order of their keys.
pub(crate) fn hash(value: &Json) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    match value {
        Json::Object(object) => {
            let sum = object.iter().fold(0u64, |sum, (key, value)| {
                let mut entry = DefaultHasher::new();
                (key, hash(value)).hash(&mut entry);
                sum.wrapping_add(entry.finish())
            });
            ("object", sum).hash(&mut hasher);
        }
        Json::Array(values) => {
            values.iter().for_each(|value| hash(value).hash(&mut hasher));
            values.len().hash(&mut hasher);
        }
        other => other.to_string().hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_does_not_matter_and_all_else_does() {
        let hash_of = |text: &str| hash(&Json::parse(text.as_bytes()).unwrap());
        assert_eq!(hash_of(r#"{"a": 1, "b": [2, 3]}"#), hash_of(r#"{"b": [2, 3], "a": 1}"#));
        for other in [r#"{"a": 1, "b": [3, 2]}"#, r#"{"a": "1", "b": [2, 3]}"#, r#"{"a": 1}"#, "null"] {
            assert_ne!(hash_of(r#"{"a": 1, "b": [2, 3]}"#), hash_of(other), "{other}");
        }
    }
}
