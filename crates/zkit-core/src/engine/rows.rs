//! Digests of rows: what arrays hold at one position along a dimension.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use xxhash_rust::xxh3::Xxh3;

use super::digest::footprint;
use super::lanes::{self, Resources};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Observer;
use crate::grid::Region;
use crate::hierarchy::ArrayNode;
use crate::metadata::DataType;
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
/// Rows that hold the same elements have the same digest, whatever the store, its chunks and codecs. It is no
/// cryptographic one. Memory: within `resources`. Errors of single arrays: `Usage` where they have no such position,
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
                hasher.update(&buffer);
            }
        }
    }
    Ok(hasher.digest128())
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
