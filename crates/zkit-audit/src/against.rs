//! `--against`: a store beside the one that it was written from: ids, and what the cells hold that both have.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use zkit_core::engine::{self, AlignedPair, Along, Extent, Sample, compare_aligned};
use zkit_core::error::{ErrorKind, Result};
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::location::StoreUrl;
use zkit_core::read::ReadContext;
use zkit_core::select::{Coordinate, Standing, read_coordinate, standing_in};
use zkit_core::store::StoreOptions;
use zkit_rules::Depth;
use zkit_rules::against::packed_of;
use zkit_rules::coordinates::is_worth_reading;
use zkit_rules::look::COORDINATE_BYTES_MOST;
use zkit_rules::observe::{ArrayObservation, StoreObservation};

use crate::gather::Run;

/// Arrays that are named where not all could be compared.
const NAMED: usize = 3;

/// The store that all were written from.
#[derive(Debug)]
pub(crate) struct Source {
    /// What its metadata says.
    pub(crate) hierarchy: Hierarchy,
    /// Its coordinates by path, once they were needed.
    coordinates: OnceLock<BTreeMap<String, Coordinate>>,
}

impl Source {
    /// Opens the store; its coordinates are read when the first store is compared with them.
    pub(crate) fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Self> {
        Ok(Self { hierarchy: Hierarchy::open(url, options)?, coordinates: OnceLock::new() })
    }

    fn coordinates(&self, run: &Run<'_>) -> Result<&BTreeMap<String, Coordinate>> {
        if let Some(read) = self.coordinates.get() {
            return Ok(read);
        }
        let mut read = BTreeMap::new();
        if let Some(store) = &self.hierarchy.store {
            let limit = (run.resources.memory_bytes / 2).min(COORDINATE_BYTES_MOST);
            let pool = engine::pool(run.resources.jobs)?;
            let context = ReadContext {
                pool: &pool,
                cancel: run.cancel,
                meter: run.observer.meter(),
                in_flight_bytes: ReadContext::IN_FLIGHT_BYTES,
            };
            for node in self.hierarchy.arrays.iter().filter(|node| is_worth_reading(node, run.policy)) {
                run.cancel.check()?;
                match read_coordinate(store, node, limit, context) {
                    Ok(coordinate) => _ = read.insert(node.path.clone(), coordinate),
                    Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                    // arrays that need it are not compared, and the report says so
                    Err(_) => {}
                }
            }
        }
        Ok(self.coordinates.get_or_init(|| read))
    }
}

/// Compares the coordinates and the values of a store with those of its source, into its observation.
pub(crate) fn compare(observed: &mut StoreObservation<'_>, run: &Run<'_>) -> Result<()> {
    let (Some(source), Some(mut against)) = (run.source, observed.source.take()) else { return Ok(()) };
    let originals = source.coordinates(run)?;
    for read in &observed.coordinates {
        let path = &read.coordinate.path;
        let standing = originals.get(path).and_then(|original| standing_in(&read.coordinate, original));
        against.standing.extend(standing.map(|standing| (path.clone(), standing)));
    }
    if let (Some(own), Some(original)) = (&observed.hierarchy.store, &source.hierarchy.store) {
        let positions: BTreeMap<&str, Vec<Option<u64>>> =
            against.standing.iter().map(|(path, standing)| (path.as_str(), positions_of(standing))).collect();
        let (mut pairs, mut uncompared) = (Vec::new(), BTreeMap::new());
        for array in &observed.arrays {
            let Some(node) = source.hierarchy.array(array.path()) else { continue };
            if positions.contains_key(array.path()) || observed.out_of_reach.contains(array.path()) {
                continue;
            }
            match along(observed, array, node, &positions) {
                Ok(along) => pairs.push(AlignedPair {
                    own: array.node,
                    source: node,
                    along,
                    packed: (packed_of(array.node), packed_of(node)),
                }),
                Err(reason) => _ = uncompared.insert(array.path().to_owned(), reason),
            }
        }
        let extent = extent(&pairs, run);
        let results =
            compare_aligned((own, original), &pairs, extent, run.resources, run.observer, run.cancel)?;
        let mut agreements = BTreeMap::new();
        for (pair, result) in pairs.iter().zip(results) {
            match result {
                None => against.left_out += 1,
                Some(Ok(agreement)) => _ = agreements.insert(pair.own.path.clone(), agreement),
                Some(Err(error)) => _ = uncompared.insert(pair.own.path.clone(), error.one_line()),
            }
        }
        (against.agreements, against.uncompared) = (agreements, uncompared);
    }
    observed.source = Some(against);
    Ok(())
}

/// Returns the positions in the source that are certain.
fn positions_of(standing: &[Standing]) -> Vec<Option<u64>> {
    let position = |standing: &Standing| match standing {
        Standing::At(position) => Some(*position),
        Standing::Several | Standing::Nowhere | Standing::Missing => None,
    };
    standing.iter().map(position).collect()
}

/// Returns where the cells of an array stand in its source, dimension by dimension, or why nobody can tell.
fn along<'p>(
    observed: &StoreObservation<'_>,
    array: &ArrayObservation<'_>,
    source: &ArrayNode,
    positions: &'p BTreeMap<&str, Vec<Option<u64>>>,
) -> std::result::Result<Vec<Along<'p>>, String> {
    let (own, original) = (&array.node.metadata, &source.metadata);
    if own.shape().len() != original.shape().len() || own.dimension_names != original.dimension_names {
        return Err("its dimensions are others".to_owned());
    }
    (0..own.shape().len())
        .map(|dimension| {
            let coordinate = observed.coordinate_of(array, dimension);
            match coordinate.and_then(|found| positions.get(found.path())) {
                Some(positions) => Ok(Along::Positions(positions)),
                None if own.shape()[dimension] == original.shape()[dimension] => Ok(Along::Same),
                None => Err(format!(
                    "no coordinate tells which part of `{}` it holds",
                    array.dimension_label(dimension)
                )),
            }
        })
        .collect()
}

/// Returns how much is compared: of a sample that is a share, that share of what both sides hold.
fn extent(pairs: &[AlignedPair<'_>], run: &Run<'_>) -> Extent {
    let (sample, seed) = run.sample;
    let whole = || {
        let bytes = pairs.iter().filter_map(|pair| pair.own.metadata.decoded_bytes());
        bytes.fold(0u64, u64::saturating_add).saturating_mul(2)
    };
    if run.depth == Depth::Full {
        return Extent::Whole;
    }
    match sample {
        Sample::Full => Extent::Whole,
        Sample::Bytes(bytes) => Extent::Sample { bytes, seed },
        // each part draws its own windows
        Sample::Part { number, of } => Extent::Sample { bytes: whole() / of, seed: seed ^ (number << 32) },
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of what fits")]
        Sample::Percent(percent) => Extent::Sample { bytes: (whole() as f64 * percent / 100.0) as u64, seed },
    }
}

/// Returns what of a store was not compared with its source though the depth asks for it.
pub(crate) fn not_seen(store: &StoreObservation<'_>) -> Vec<String> {
    let Some(against) = store.source.as_ref().filter(|_| store.depth >= Depth::Sample) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if against.left_out > 0 {
        lines.push(format!("values of the source in {} arrays that were not sampled", against.left_out));
    }
    if !against.uncompared.is_empty() {
        let named = against.uncompared.iter().take(NAMED);
        let named: Vec<String> = named.map(|(path, reason)| format!("`{path}`: {reason}")).collect();
        let more = against.uncompared.len().saturating_sub(NAMED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        lines.push(format!("values of the source ({}{more})", named.join("; ")));
    }
    lines
}
