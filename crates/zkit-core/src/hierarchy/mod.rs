//! One opened store: its kind, groups, arrays and what is wrong with them.

mod beside;
mod classify;
mod consolidated;
mod foreign;
mod node;
mod open;
mod references;
mod spelling;
mod walk;

pub use beside::Consolidation;
pub use node::{ArrayNode, Consolidated, Container, GroupNode, Hierarchy, StoreKind};
pub use open::Ahead;
pub use references::{
    Lacking, ParquetReferences, Record, Reference, ReferenceTarget, References, TargetFound,
    panics_are_contained,
};
