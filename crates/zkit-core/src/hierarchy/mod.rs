//! One opened store: its kind, groups, arrays and what is wrong with them.

mod beside;
mod classify;
mod companions;
mod consolidated;
mod node;
mod open;
mod references;
mod walk;

pub use beside::Consolidation;
pub use companions::{describing, groups_above, with_companions};
pub use node::{ArrayNode, Consolidated, Container, GroupNode, Hierarchy, StoreKind};
pub use open::Ahead;
pub use references::{
    Lacking, ParquetReferences, Record, Reference, ReferenceTarget, References, TargetFound,
    panics_are_contained,
};
