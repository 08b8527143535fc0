//! The values of dimensions: read once, of all stores side by side.

use std::collections::HashMap;

use zkit_core::cancel::Cancel;
use zkit_core::engine::Resources;
use zkit_core::error::Result;
use zkit_core::event::Observer;
use zkit_core::read::ReadContext;
use zkit_core::select::{Coordinate, read_coordinate};

use crate::axes::AxisKey;
use crate::sources::{Source, side_by_side};

/// What reading needs beside the stores.
#[derive(Clone, Copy)]
pub(crate) struct Means<'a> {
    pub(crate) pool: &'a rayon::ThreadPool,
    pub(crate) resources: Resources,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) cancel: &'a Cancel,
}

impl Means<'_> {
    /// Returns what readers of arrays need.
    pub(crate) fn context(&self) -> ReadContext<'_> {
        ReadContext {
            pool: self.pool,
            cancel: self.cancel,
            meter: self.observer.meter(),
            in_flight_bytes: ReadContext::IN_FLIGHT_BYTES,
        }
    }
}

/// Coordinates by source and dimension.
pub(crate) type Coordinates = HashMap<(usize, AxisKey), Coordinate>;

/// Reads the coordinates of the dimensions that `wanted` names.
pub(crate) fn read(
    sources: &[Source],
    wanted: impl Fn(&AxisKey) -> bool,
    means: Means<'_>,
) -> Result<Coordinates> {
    let mut items: Vec<(usize, &AxisKey, usize)> = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let axes = source.axes.axes.iter().filter(|axis| wanted(&axis.key));
        items.extend(axes.filter_map(|axis| Some((number, &axis.key, axis.coordinate?))));
    }
    let limit = means.resources.memory_bytes / 4;
    let read = side_by_side(&items, |&(number, key, array)| {
        let source = &sources[number];
        let coordinate = read_coordinate(source.store()?, source.array(array), limit, means.context())?;
        Ok(((number, key.clone()), coordinate))
    });
    read.into_iter().collect()
}
