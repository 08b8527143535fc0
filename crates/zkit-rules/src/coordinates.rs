//! What rules see of coordinates.

use zkit_core::hierarchy::ArrayNode;
use zkit_core::select::{Analysis, Coordinate, analyse, is_coordinate};

use crate::observe::StoreObservation;
use crate::policy::Policy;

/// A coordinate that was read, and what there is to say of its values.
#[derive(Debug)]
pub struct CoordinateObservation {
    /// Its values.
    pub coordinate: Coordinate,
    /// What there is to say of them.
    pub analysis: Analysis,
}

/// A coordinate that was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadCoordinate {
    /// Its path, starting with `/`.
    pub path: String,
    /// Why not.
    pub reason: String,
    /// Whether it would be read with a larger memory budget.
    pub over_budget: bool,
}

impl CoordinateObservation {
    /// Analyses a coordinate.
    pub fn new(coordinate: Coordinate) -> Self {
        Self { analysis: analyse(&coordinate), coordinate }
    }
}

/// Returns whether an array is to be read as a coordinate: it is one, or the policy says that it holds ids.
pub fn is_worth_reading(node: &ArrayNode, policy: &Policy) -> bool {
    let declared = || is_declared_id(&node.path, policy) && node.metadata.shape().len() == 1;
    is_coordinate(node) || declared()
}

/// Returns whether the policy says that an array holds ids: by its name, or by its path.
pub fn is_declared_id(path: &str, policy: &Policy) -> bool {
    let path = path.trim_start_matches('/');
    let name = path.rsplit('/').next().unwrap_or(path);
    policy.ids.iter().any(|id| id == name || id.trim_start_matches('/') == path)
}

impl StoreObservation<'_> {
    /// Returns the coordinate at `path`, if it was read.
    pub fn coordinate(&self, path: &str) -> Option<&CoordinateObservation> {
        let found = self.coordinates.binary_search_by(|read| read.coordinate.path.as_str().cmp(path)).ok()?;
        self.coordinates.get(found)
    }
}
