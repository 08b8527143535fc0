//! Looking at what a store holds, for the rules that judge values: its coordinates, and the values of its arrays.

use zkit_core::cancel::Cancel;
use zkit_core::engine::{self, Resources, Sample, ScanTarget, scan_values};
use zkit_core::error::{ErrorKind, Result};
use zkit_core::event::Observer;
use zkit_core::read::ReadContext;
use zkit_core::select::read_coordinate;

use crate::coordinates::{CoordinateObservation, UnreadCoordinate, is_worth_reading};
use crate::observe::StoreObservation;

/// One coordinate may take so much while it is read and judged, about four million numbers; larger ones are named, not
/// read.
pub const COORDINATE_BYTES_MOST: u64 = 256 << 20;

/// How closely values are looked at, and what there is for it.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    /// How much is decoded, and the seed of the draw.
    pub sample: (Sample, u64),
    /// Memory and threads.
    pub resources: Resources,
    /// Who watches.
    pub observer: &'a dyn Observer,
    /// Looked at between chunks.
    pub cancel: &'a Cancel,
}

/// Reads the coordinates of a store into its observation.
///
/// Errors: `Cancelled`, and `OverBudget` where no threads can be had; what cannot be read is named in the observation.
pub fn read_coordinates(observed: &mut StoreObservation<'_>, look: Look<'_>) -> Result<()> {
    let Some(store) = &observed.hierarchy.store else { return Ok(()) };
    let limit = (look.resources.memory_bytes / 2).min(COORDINATE_BYTES_MOST);
    let pool = engine::pool(look.resources.jobs)?;
    let context = ReadContext {
        pool: &pool,
        cancel: look.cancel,
        meter: look.observer.meter(),
        in_flight_bytes: ReadContext::IN_FLIGHT_BYTES,
    };
    for array in &observed.arrays {
        if !is_worth_reading(array.node, observed.policy) || observed.out_of_reach.contains(array.path()) {
            continue;
        }
        look.cancel.check()?;
        match read_coordinate(store, array.node, limit, context) {
            Ok(coordinate) => observed.coordinates.push(CoordinateObservation::new(coordinate)),
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            // what cannot be decoded or read is found by the rules of its chunks
            Err(error) => observed.unread_coordinates.push(UnreadCoordinate {
                path: array.path().to_owned(),
                reason: error.one_line(),
                over_budget: error.kind() == ErrorKind::OverBudget && limit < COORDINATE_BYTES_MOST,
            }),
        }
    }
    Ok(())
}

/// Scans the arrays that were listed, as much of them as is asked for, into the observation.
///
/// Errors: those of [`scan_values`].
pub fn scan(observed: &mut StoreObservation<'_>, look: Look<'_>) -> Result<()> {
    let Some(store) = &observed.hierarchy.store else { return Ok(()) };
    let listed = observed.arrays.iter().enumerate().filter_map(|(at, array)| {
        let listing = array.survey.as_ref()?.listing.as_ref()?;
        if observed.out_of_reach.contains(array.path()) {
            return None;
        }
        Some((at, ScanTarget { array: array.node, listing: Some(listing) }))
    });
    let (places, targets): (Vec<usize>, Vec<ScanTarget<'_>>) = listed.unzip();
    let values = scan_values(store, &targets, look.sample, look.resources, look.observer, look.cancel)?;
    for (at, values) in places.into_iter().zip(values) {
        observed.arrays[at].values = Some(values);
    }
    Ok(())
}
