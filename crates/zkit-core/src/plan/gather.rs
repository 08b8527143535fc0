//! Where the elements of a slice come from: arrays put together of picked elements of many arrays.
//!
//! A [`Gather`] is the mapping of one array of a slice. Each of its *parts* is an array of some store; along each
//! dimension a part gives one element, or picks that lie along an axis of the result. Dimensions that share an axis are
//! taken pointwise (as xarray's vectorised indexing does), others orthogonally. Parts lie one behind the other, or
//! interleaved, along the *joined* axis.

use std::sync::Arc;

use crate::hierarchy::{ArrayNode, GroupNode};
use crate::metadata::{Object, Target, ZarrFormat};

/// The index of an element that no source has: it becomes the fill value.
pub const ABSENT: u64 = u64::MAX;

/// What is taken along one dimension of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// One element; the result does not have the dimension.
    At(u64),
    /// These elements, in this order, along an axis of the result; [`ABSENT`] for none.
    Along {
        /// The axis of the result.
        axis: usize,
        /// Positions in the array.
        indices: Arc<[u64]>,
    },
}

/// One array of a source, and what is taken of it.
#[derive(Debug, Clone)]
pub struct Part {
    /// The store that it lies in, by its position among those of the run.
    pub store: usize,
    /// The array.
    pub array: ArrayNode,
    /// What is taken along each of its dimensions.
    pub picks: Vec<Pick>,
}

/// The axis along which parts lie beside each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The axis of the result.
    pub axis: usize,
    /// For each part the positions on the axis that its picks along it fill; together every position once.
    pub positions: Vec<Arc<[u64]>>,
}

/// One array of a slice, as it is wanted.
#[derive(Debug, Clone)]
pub struct WantedGather {
    /// Its path in the slice, starting with `/`.
    pub path: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The names of its dimensions.
    pub dimension_names: Vec<String>,
    /// Its attributes, without `_ARRAY_DIMENSIONS`.
    pub attributes: Object,
    /// Where it comes from: one array at least, all of one data type. The first one's metadata is taken over.
    pub parts: Vec<Part>,
    /// How parts lie beside each other; `None` where there is one alone.
    pub joined: Option<Joined>,
    /// Encoded bytes that are read for it, as far as known.
    pub stored_bytes: u64,
    /// Format, codec, checksum and grid.
    pub target: Target,
}

/// One store of slices, as it is wanted.
#[derive(Debug, Clone)]
pub struct WantedSlice {
    /// Its groups, the root first.
    pub groups: Vec<GroupNode>,
    /// Its format.
    pub format: ZarrFormat,
    /// Its arrays.
    pub arrays: Vec<WantedGather>,
}
