//! Whether two arrays hold the same values, and where they first differ.

use super::digest::{footprint, slabs, split_unwritten};
use super::lanes::{self, Lane, Resources};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::event::Observer;
use crate::grid::{Region, unravel};
use crate::hierarchy::ArrayNode;
use crate::read::{ArrayReader, ReadContext, read_slab};
use crate::store::Store;

/// Beyond this size, arrays without a single chunk are compared by their fill values: templates claim petabytes.
const LARGE_UNWRITTEN_BYTES: u64 = 1 << 20;

/// Two arrays of the same shape and data type.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// The array of the one store.
    pub left: &'a ArrayNode,
    /// The array of the other.
    pub right: &'a ArrayNode,
}

/// Where two arrays first differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The index of the first element in C order that differs.
    pub index: Vec<u64>,
    /// That element's canonical bytes on the left.
    pub left: Vec<u8>,
    /// That element's canonical bytes on the right.
    pub right: Vec<u8>,
}

/// Compares the decoded values of pairs bit by bit; `None` where they are equal.
///
/// Results are in the order of `pairs`, failures of single arrays among them. Memory: within `resources`.
pub fn compare(
    stores: (&Store, &Store),
    pairs: &[Pair<'_>],
    resources: Resources,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Vec<Result<Option<Difference>>>> {
    let meter = observer.meter();
    meter.arrays_total.add(pairs.len() as u64);
    let bytes =
        pairs.iter().filter_map(|pair| pair.left.metadata.decoded_bytes()).fold(0u64, u64::saturating_add);
    meter.decoded_bytes_total.add(bytes.saturating_mul(2));
    // both sides of a pair are in memory at once
    let resources = Resources { memory_bytes: resources.memory_bytes / 2, ..resources };
    lanes::run(
        pairs,
        (resources, stores.0.reads_in_flight().max(stores.1.reads_in_flight())),
        |pair| footprint(pair.left).max(footprint(pair.right)),
        |pair, lane| {
            let difference = compare_one(stores, pair, lane, observer, cancel);
            meter.arrays_done.add(1);
            difference
        },
    )
}

fn compare_one(
    stores: (&Store, &Store),
    pair: &Pair<'_>,
    lane: &Lane<'_>,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Option<Difference>> {
    if holds_fill_alone(stores.0, pair.left)? && holds_fill_alone(stores.1, pair.right)? {
        let fill = |node: &ArrayNode| node.metadata.fill_value.element(&node.metadata.data_type);
        if fill(pair.left).is_some() && fill(pair.left) == fill(pair.right) {
            return Ok(None);
        }
    }
    let left = ArrayReader::new(stores.0, pair.left, lane.chunk_bytes)?;
    let right = ArrayReader::new(stores.1, pair.right, lane.chunk_bytes)?;
    let context =
        ReadContext { pool: lane.pool, cancel, meter: observer.meter(), in_flight_bytes: lane.slab_bytes };
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for slab in slabs(pair.left, lane) {
        let difference = if pair.left.metadata.data_type.is_variable() {
            let (a, b) = (elements(&left, &slab, context)?, elements(&right, &slab, context)?);
            let position = a.iter().zip(&b).position(|(a, b)| a != b);
            position.map(|position| (position as u64, a[position].clone(), b[position].clone()))
        } else {
            read_slab(&left, &slab, &mut a, context)?;
            read_slab(&right, &slab, &mut b, context)?;
            let item = left.item_bytes().unwrap_or(1).max(1);
            let position = if a == b {
                None
            } else {
                a.chunks_exact(item).zip(b.chunks_exact(item)).position(|(a, b)| a != b)
            };
            position.map(|position| {
                let bytes = position * item..(position + 1) * item;
                (position as u64, a[bytes.clone()].to_vec(), b[bytes].to_vec())
            })
        };
        if let Some((position, left, right)) = difference {
            let inner = unravel(position, &slab.shape);
            let index = slab.start.iter().zip(&inner).map(|(start, at)| start + at).collect();
            return Ok(Some(Difference { index, left, right }));
        }
    }
    Ok(None)
}

fn holds_fill_alone(store: &Store, array: &ArrayNode) -> Result<bool> {
    let (written, _) = split_unwritten(store, vec![array], LARGE_UNWRITTEN_BYTES)?;
    Ok(written.is_empty())
}

fn elements(reader: &ArrayReader<'_>, slab: &Region, context: ReadContext<'_>) -> Result<Vec<Vec<u8>>> {
    let mut elements = Vec::new();
    reader.visit_variable(slab, context, &mut |element| elements.push(element.to_vec()))?;
    Ok(elements)
}
