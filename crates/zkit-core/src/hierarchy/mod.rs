//! One opened store: its kind, groups, arrays and what is wrong with them.

mod beside;
mod classify;
mod companions;
mod consolidated;
mod differences;
mod foreign;
mod node;
mod open;
mod other_formats;
mod references;
mod review;
mod spelling;
mod walk;

pub use beside::Consolidation;
pub use companions::{describing, groups_above, needed_by, with_companions};
pub use differences::{Difference, Differs, differences};
pub use foreign::Foreign;
pub use node::{ArrayNode, Consolidated, Container, GroupNode, Hierarchy, StoreKind};
pub use open::Ahead;
pub use references::{
    Lacking, ParquetReferences, Record, Reference, ReferenceTarget, References, TargetFound,
    panics_are_contained,
};
pub use review::{Broken, LeftOut, Reviewed};
