//! Making a store appear at once: it is built in a `.partial` sibling, synced, and renamed.
//!
//! Beside a destination `NAME` lie, while a run builds it or after it died, `NAME.partial`, the store, and
//! `NAME.partial.journal`, which says what of it is done and is locked by the run. Until the rename nothing is at
//! the destination; whatever a run left is gone on with, or cleared, by the next run to the same destination.

mod commit;
mod documents;
mod partial;
mod places;
mod space;
mod start;
#[cfg(test)]
mod tests;

pub use documents::{Consolidate, metadata_documents};
pub use partial::PartialStore;
pub use places::{Existing, has_traces};
pub use space::{check_apart, free_bytes};
pub use start::{Start, Unfinished};
