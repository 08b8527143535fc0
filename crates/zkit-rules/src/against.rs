//! What rules see of the store that another was written from.

use std::collections::BTreeMap;

use zkit_core::engine::{Agreement, Packed};
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::metadata::ZarrFormat;
use zkit_core::select::Standing;

use crate::packing::Packing;
use crate::rules::shared::{missing_numbers, number_of};

/// The store that another was written from, and what a comparison of the two came to.
#[derive(Debug)]
pub struct SourceObservation<'a> {
    /// What its metadata says.
    pub hierarchy: &'a Hierarchy,
    /// Where the values of coordinates that both have stand in the source, by path; empty below sampled values.
    pub standing: BTreeMap<String, Vec<Standing>>,
    /// What was compared of each array, by path; empty below sampled values.
    pub agreements: BTreeMap<String, Agreement>,
    /// The arrays that were to be compared and could not be, with the reason, by path.
    pub uncompared: BTreeMap<String, String>,
    /// How many arrays the sample left out.
    pub left_out: usize,
}

impl<'a> SourceObservation<'a> {
    /// Returns an observation of metadata alone.
    pub fn of_metadata(hierarchy: &'a Hierarchy) -> Self {
        Self {
            hierarchy,
            standing: BTreeMap::new(),
            agreements: BTreeMap::new(),
            uncompared: BTreeMap::new(),
            left_out: 0,
        }
    }
}

/// Returns what the stored numbers of an array mean: CF's packing, and every number that readers take for missing.
///
/// The fill value of v2 is one of them: xarray masks it. Source: xarray, `zarr.py`, `open_store_variable`.
pub fn packed_of(node: &ArrayNode) -> Packed {
    let metadata = &node.metadata;
    let packing = Packing::of_node(node).unwrap_or(Packing { scale: 1.0, offset: 0.0 });
    let mut missing = missing_numbers(node);
    if metadata.format == ZarrFormat::V2 && metadata.fill_value.is_known() {
        missing.extend(number_of(&metadata.fill_value.to_v3(&metadata.data_type)));
    }
    Packed { scale: packing.scale, offset: packing.offset, missing }
}
