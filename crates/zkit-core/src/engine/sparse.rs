//! Arrays of which little is stored: what is read of them follows what is stored, not what their shape says.

use std::ops::ControlFlow;

use super::survey::spread;
use crate::error::{ErrorKind, Result};
use crate::grid::ChunkSet;
use crate::hierarchy::ArrayNode;
use crate::store::Store;

/// Fill values of one array that are read without being asked for, at most: minutes.
const FILL_BYTES_MOST: u64 = 256 << 30;
/// More of them are read all the same where so large a part of the array is stored: one in so many chunks.
const STORED_PART: u64 = 16;
/// Chunks of a store without a listing that are asked for one by one, at most.
const ASKED_MOST: u64 = 1 << 24;

/// An array of which little is stored.
#[derive(Debug, Clone, Copy)]
pub struct Sparse<'a> {
    /// The array.
    pub array: &'a ArrayNode,
    /// How many chunks are stored; `None` where the store has no listing.
    pub stored_chunks: Option<u64>,
    /// Bytes of fill values between them; `None` where they are too many to count.
    pub fill_bytes: Option<u64>,
}

/// Splits off arrays of which so little is stored that reading them from end to end would take far longer than reading what is
/// there: more than 256 GiB of fill values, and less than one chunk in 16 stored.
///
/// One listing for each large array, which ends as soon as enough chunks are found.
pub fn split_sparse<'a>(
    store: &Store,
    arrays: Vec<&'a ArrayNode>,
) -> Result<(Vec<&'a ArrayNode>, Vec<Sparse<'a>>)> {
    let is_large =
        |array: &&ArrayNode| array.metadata.decoded_bytes().is_none_or(|bytes| bytes > FILL_BYTES_MOST);
    let (large, mut dense): (Vec<_>, Vec<_>) = arrays.into_iter().partition(is_large);
    let mut sparse = Vec::new();
    for (&array, found) in large.iter().zip(spread(store, &large, |array| look_at(store, array))) {
        match found? {
            Some(found) => sparse.push(found),
            None => dense.push(array),
        }
    }
    Ok((dense, sparse))
}

/// Returns what is stored of a large array, if that is little.
fn look_at<'a>(store: &Store, array: &'a ArrayNode) -> Result<Option<Sparse<'a>>> {
    let total = array.metadata.grid.total();
    let enough = total.unwrap_or(u64::MAX).div_ceil(STORED_PART);
    let mut stored = 0u64;
    let listed = store.list_while(array.prefix(), &mut |object| {
        let is_metadata = object.key == "zarr.json" || object.key.starts_with('.');
        stored += u64::from(!is_metadata);
        if stored >= enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let decoded = array.metadata.decoded_bytes();
    match listed {
        Ok(()) if stored >= enough => Ok(None),
        Ok(()) => {
            let inside = array.metadata.chunk_decoded_bytes().unwrap_or(0).saturating_mul(stored);
            let fill_bytes = decoded.map(|decoded| decoded.saturating_sub(inside));
            let is_little = fill_bytes.is_some_and(|bytes| bytes <= FILL_BYTES_MOST);
            Ok((!is_little).then_some(Sparse { array, stored_chunks: Some(stored), fill_bytes }))
        }
        // each chunk would have to be asked for
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            let few = total.is_some_and(|total| total <= ASKED_MOST);
            Ok((!few).then_some(Sparse { array, stored_chunks: None, fill_bytes: decoded }))
        }
        Err(error) => Err(error),
    }
}

/// Returns the chunks of an array that are stored, or cannot be looked at; `None` where the store has no listing, or the grid is
/// too large to number its chunks.
pub(super) fn stored_chunks(store: &Store, array: &ArrayNode) -> Result<Option<ChunkSet>> {
    let metadata = &array.metadata;
    if metadata.grid.total().is_none() {
        return Ok(None);
    }
    let mut stored = ChunkSet::default();
    let listed = store.list_while(array.prefix(), &mut |object| {
        let index = metadata.chunk_keys.parse_key(object.key, metadata.grid.rank());
        if let Some(position) = index.and_then(|index| metadata.grid.position_of(&index)) {
            stored.insert(position);
        }
        ControlFlow::Continue(())
    });
    match listed {
        Ok(()) => Ok(Some(stored)),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error),
    }
}
