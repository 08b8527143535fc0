//! Digests of rows: what arrays hold at one position along a dimension.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use xxhash_rust::xxh3::Xxh3;

use super::digest::footprint;
use super::lanes::{self, Resources};
use crate::calendar::{Time, TimeUnits};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Observer;
use crate::grid::Region;
use crate::hierarchy::ArrayNode;
use crate::metadata::{DataType, Json};
use crate::read::{ArrayReader, ReadContext, read_slab, slabs_of};
use crate::store::Store;

/// Rows are read in slabs of so many bytes.
const SLAB_BYTES: u64 = 16 << 20;

/// What one array holds at some positions along one of its dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowDigests {
    /// The array's path.
    pub path: String,
    /// The digest of each row by position.
    pub digests: BTreeMap<u64, u128>,
}

/// Digests rows of arrays: of each the elements at `positions` along the dimension of that name; results are in the order
/// of `arrays`. An array that does not have the dimension is one row, at position 0.
///
/// Rows that hold the same elements have the same digest, whatever the store, its chunks and codecs; of times and durations those
/// that are the same once they are decoded, whatever they are counted in and from. It is no cryptographic one. Memory: within `resources`. Errors of single arrays: `Usage` where they have no such position,
/// `Unsupported` for elements without fixed size.
pub fn digest_rows(
    store: &Store,
    arrays: &[&ArrayNode],
    dimension: &str,
    positions: &[u64],
    resources: Resources,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Vec<Result<RowDigests>>> {
    lanes::run(
        arrays,
        (resources, store.reads_in_flight()),
        |array| footprint(array),
        |array, lane| {
            let reader = ArrayReader::new(store, array, lane.chunk_bytes)?;
            let context = ReadContext {
                pool: lane.pool,
                cancel,
                meter: observer.meter(),
                in_flight_bytes: lane.slab_bytes,
            };
            let slab_bytes = lane.slab_bytes.min(SLAB_BYTES);
            let mut digests = BTreeMap::new();
            for &position in positions {
                cancel.check()?;
                digests.insert(position, row(&reader, dimension, position, slab_bytes, context)?);
            }
            Ok(RowDigests { path: array.path.clone(), digests })
        },
    )
}

/// Digests the elements at one position along a dimension.
fn row(
    reader: &ArrayReader<'_>,
    dimension: &str,
    position: u64,
    slab_bytes: u64,
    context: ReadContext<'_>,
) -> Result<u128> {
    let array = reader.node();
    let metadata = &array.metadata;
    let names = metadata.dimension_names.iter().flatten();
    let at = names.into_iter().position(|name| name.as_deref() == Some(dimension));
    let length = at.map_or(1, |at| metadata.shape().get(at).copied().unwrap_or(0));
    if position >= length {
        let message = format!("`{}` has no position {position} along `{dimension}`", array.path);
        return Err(Error::new(ErrorKind::Usage, message));
    }
    let mut shape = metadata.shape().to_vec();
    at.into_iter().for_each(|at| shape[at] = 1);
    let mut hasher = Xxh3::new();
    let times = TimeElements::of(array);
    let item_bytes = metadata.data_type.item_bytes().unwrap_or(64);
    let mut chunk_shape = metadata.grid.largest_chunk_shape();
    at.into_iter().for_each(|at| chunk_shape[at] = 1);
    let mut buffer = Vec::new();
    for slab in slabs_of(&shape, &chunk_shape, item_bytes, slab_bytes) {
        let mut region: Region = slab;
        at.into_iter().for_each(|at| region.start[at] = position);
        match metadata.data_type {
            DataType::String | DataType::Bytes => {
                reader.visit_variable(&region, context, &mut |element| {
                    hasher.update(&(element.len() as u64).to_le_bytes());
                    hasher.update(element);
                })?;
            }
            _ => {
                read_slab(reader, &region, &mut buffer, context)?;
                match &times {
                    Some(times) => times.each(&buffer, |time| hasher.update(&time)),
                    None => hasher.update(&buffer),
                }
            }
        }
    }
    Ok(hasher.digest128())
}

/// Elements that are times or durations: how they are decoded.
struct TimeElements {
    units: TimeUnits,
    kind: TimeNumbers,
    item_bytes: usize,
}

/// What times are stored as.
enum TimeNumbers {
    Signed,
    Unsigned,
    Float,
}

impl TimeElements {
    /// Returns how the elements of an array are decoded, if its attributes say that they are times (CF conventions, section
    /// 4.4), or durations (as xarray marks them).
    fn of(array: &ArrayNode) -> Option<Self> {
        let metadata = &array.metadata;
        let text = |name| metadata.attributes.get(name).and_then(Json::as_str);
        let units = text("units")?;
        let packed =
            ["scale_factor", "add_offset"].iter().any(|name| metadata.attributes.get(name).is_some());
        let durations = text("dtype").is_some_and(|name| name.starts_with("timedelta64"));
        let since = match units.contains(" since ") {
            true => units.to_owned(),
            false if durations => format!("{units} since 1970-01-01"),
            false => return None,
        };
        let (kind, item_bytes) = match &metadata.data_type {
            DataType::Int(bytes) => (TimeNumbers::Signed, *bytes),
            DataType::UInt(bytes) => (TimeNumbers::Unsigned, *bytes),
            DataType::Float(bytes @ (4 | 8)) => (TimeNumbers::Float, *bytes),
            _ => return None,
        };
        let units = TimeUnits::parse(&since, text("calendar")).ok().filter(|_| !packed)?;
        Some(Self { units, kind, item_bytes: usize::from(item_bytes) })
    }

    /// Hands over each element in nanoseconds; what is no time is marked as that.
    fn each(&self, elements: &[u8], mut take: impl FnMut([u8; 17])) {
        for item in elements.chunks_exact(self.item_bytes.max(1)) {
            let negative =
                matches!(self.kind, TimeNumbers::Signed) && item.last().is_some_and(|&byte| byte >= 0x80);
            let mut wide = if negative { [0xff; 16] } else { [0; 16] };
            wide[..item.len()].copy_from_slice(item);
            let count = i128::from_le_bytes(wide);
            let time = match (&self.kind, item) {
                (TimeNumbers::Float, &[a, b, c, d]) => {
                    self.units.decode_float(f64::from(f32::from_le_bytes([a, b, c, d])))
                }
                (TimeNumbers::Float, &[a, b, c, d, e, f, g, h]) => {
                    self.units.decode_float(f64::from_le_bytes([a, b, c, d, e, f, g, h]))
                }
                // numpy's NaT
                _ if count == i128::from(i64::MIN) => None,
                _ => self.units.decode_wide(count),
            };
            let mut bytes = [0; 17];
            bytes[0] = u8::from(time.is_some());
            bytes[1..].copy_from_slice(&time.map_or(0, Time::nanoseconds).to_le_bytes());
            take(bytes);
        }
    }
}

/// Returns arrays of which reading one row decodes at most so many bytes together: one at least.
///
/// In an order that their paths alone decide, so that the arrays of two stores are mostly the same ones.
pub fn affordable_rows<'a>(mut arrays: Vec<&'a ArrayNode>, dimension: &str, most: u64) -> Vec<&'a ArrayNode> {
    arrays.sort_by_cached_key(|array| {
        let mut hasher = DefaultHasher::new();
        array.path.hash(&mut hasher);
        hasher.finish()
    });
    let mut cost = 0u64;
    let fitting = arrays.iter().take_while(|array| {
        cost = cost.saturating_add(row_bytes(array, dimension));
        cost <= most
    });
    let count = fitting.count().max(1);
    arrays.truncate(count);
    arrays
}

/// Returns what reading one row decodes: the chunks that it touches.
fn row_bytes(array: &ArrayNode, dimension: &str) -> u64 {
    let metadata = &array.metadata;
    let names = metadata.dimension_names.iter().flatten();
    let along = names.into_iter().position(|name| name.as_deref() == Some(dimension));
    let counts = metadata.grid.counts().iter().enumerate();
    let chunks = counts
        .filter(|&(at, _)| Some(at) != along)
        .fold(1u64, |product, (_, &count)| product.saturating_mul(count));
    metadata.chunk_decoded_bytes().unwrap_or(1 << 16).saturating_mul(chunks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Silent;
    use crate::hierarchy::Hierarchy;
    use crate::location::StoreUrl;
    use crate::store::StoreOptions;

    /// Returns the digest of the first row of times that are counted like that.
    fn digest_of(dtype: &str, attributes: &str, count: &[u8]) -> u128 {
        let folder = tempfile::tempdir().unwrap();
        let metadata = format!(
            r#"{{"zarr_format":2,"shape":[1],"chunks":[1],"dtype":"{dtype}","fill_value":null,"compressor":null,"filters":null,"order":"C"}}"#
        );
        std::fs::write(folder.path().join(".zarray"), metadata).unwrap();
        std::fs::write(folder.path().join(".zattrs"), attributes).unwrap();
        std::fs::write(folder.path().join("0"), count).unwrap();
        let url = StoreUrl::Local(folder.path().to_owned());
        let hierarchy = Hierarchy::open(&url, &StoreOptions::default()).unwrap();
        let resources = Resources { memory_bytes: 1 << 24, jobs: 1 };
        let (observer, cancel) = (Silent::default(), Cancel::default());
        let store = hierarchy.store.as_ref().unwrap();
        let rows = digest_rows(store, &[&hierarchy.arrays[0]], "id", &[0], resources, &observer, &cancel);
        rows.unwrap().remove(0).unwrap().digests[&0]
    }

    #[test]
    fn times_that_are_counted_otherwise_are_the_same_row_and_other_times_are_not() {
        let hours = digest_of("<i8", r#"{"units":"hours since 2020-01-01"}"#, &30i64.to_le_bytes());
        for (dtype, units, count) in [
            ("<i4", "hours since 2020-01-02", 6i32.to_le_bytes().to_vec()),
            ("<f8", "days since 2020-01-01", 1.25f64.to_le_bytes().to_vec()),
        ] {
            assert_eq!(hours, digest_of(dtype, &format!(r#"{{"units":"{units}"}}"#), &count), "{units}");
        }
        assert_ne!(hours, digest_of("<i8", r#"{"units":"hours since 2020-01-01"}"#, &31i64.to_le_bytes()));
        assert_ne!(hours, digest_of("<i8", r#"{"units":"K"}"#, &30i64.to_le_bytes()));
        let step = |units: &str, count: i64| {
            digest_of(
                "<i8",
                &format!(r#"{{"units":"{units}","dtype":"timedelta64[ns]"}}"#),
                &count.to_le_bytes(),
            )
        };
        assert_eq!(step("days", 2), step("hours", 48));
        assert_ne!(step("days", 2), step("hours", 2));
    }
}
