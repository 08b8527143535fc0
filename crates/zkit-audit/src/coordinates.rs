//! Reading coordinates, and comparing the rows of ids that stand in more than one place.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use zkit_core::engine::digest_rows;
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::read::ReadContext;
use zkit_core::select::read_coordinate;
use zkit_rules::Depth;
use zkit_rules::coordinates::{CoordinateObservation, UnreadCoordinate, is_worth_reading};
use zkit_rules::ids::id_groups;
use zkit_rules::observe::StoreObservation;
use zkit_rules::summary::StoreSummary;

use crate::gather::Run;

/// One coordinate may take so much while it is read and judged, about four million numbers; larger ones are named, not
/// read.
pub(crate) const COORDINATE_BYTES_MOST: u64 = 256 << 20;
/// At depth `sample`, the rows of so many ids are compared,
const SAMPLED_IDS: usize = 64;
/// and in each store so much is decoded for that.
const SAMPLED_BYTES: u64 = 64 << 20;

/// Reads the coordinates of a store into its observation.
pub(crate) fn read(observed: &mut StoreObservation<'_>, run: &Run<'_>) -> Result<()> {
    let Some(store) = &observed.hierarchy.store else { return Ok(()) };
    let limit = (run.resources.memory_bytes / 2).min(COORDINATE_BYTES_MOST);
    let pool = pool(run.resources.jobs)?;
    let context = ReadContext { pool: &pool, cancel: run.cancel, meter: run.observer.meter() };
    for array in &observed.arrays {
        if !is_worth_reading(array.node, run.policy) {
            continue;
        }
        run.cancel.check()?;
        match read_coordinate(store, array.node, limit, context) {
            Ok(coordinate) => observed.coordinates.push(CoordinateObservation::new(coordinate)),
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            // what cannot be decoded or read is found by the rules of its chunks
            Err(error) => observed
                .unread_coordinates
                .push(UnreadCoordinate { path: array.path().to_owned(), reason: error.one_line() }),
        }
    }
    Ok(())
}

/// Digests the rows of ids that stand in more than one place, so that rules can tell whether they hold the same.
///
/// `open` opens a store of the run again, by its position. What cannot be read is left out.
pub(crate) fn compare_rows(
    stores: &mut [StoreSummary],
    run: &Run<'_>,
    open: impl Fn(usize) -> Result<Hierarchy>,
) -> Result<()> {
    if run.depth < Depth::Sample {
        return Ok(());
    }
    let all = run.depth == Depth::Full;
    for group in id_groups(stores) {
        let ids = if all { usize::MAX } else { SAMPLED_IDS };
        for (store, positions) in group.rows_to_compare(ids) {
            run.cancel.check()?;
            let Some(column) =
                stores[store].ids.iter_mut().find(|column| column.coordinate.path == group.path)
            else {
                continue;
            };
            let Ok(hierarchy) = open(store) else { continue };
            let Some(bytes) = &hierarchy.store else { continue };
            let arrays: Vec<&ArrayNode> =
                column.variables.iter().filter_map(|path| hierarchy.array(path)).collect();
            let most = if all { u64::MAX } else { SAMPLED_BYTES / positions.len().max(1) as u64 };
            let arrays = affordable(arrays, &column.dimension, most);
            let positions: Vec<u64> = positions.into_iter().collect();
            let digests = digest_rows(
                bytes,
                &arrays,
                &column.dimension,
                &positions,
                run.resources,
                run.observer,
                run.cancel,
            )?;
            let mut rows: BTreeMap<u64, BTreeMap<String, u128>> = BTreeMap::new();
            for digested in digests.into_iter().flatten() {
                for (position, digest) in digested.digests {
                    rows.entry(position).or_default().insert(digested.path.clone(), digest);
                }
            }
            column.rows = rows;
        }
    }
    Ok(())
}

/// Returns arrays of which reading one row decodes at most so many bytes together: one at least.
///
/// In an order that their paths alone decide, so that the arrays of two stores are mostly the same ones.
fn affordable<'a>(mut arrays: Vec<&'a ArrayNode>, dimension: &str, most: u64) -> Vec<&'a ArrayNode> {
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

pub(crate) fn pool(threads: usize) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build().map_err(|error| {
        Error::new(ErrorKind::OverBudget, format!("could not start {threads} worker threads"))
            .with_source(error)
    })
}
