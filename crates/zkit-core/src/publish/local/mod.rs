//! Destinations on this machine: a `.partial` sibling, renamed.

mod commit;
mod leftover;
mod partial;
mod places;
mod start;
#[cfg(test)]
mod tests;

pub(super) use leftover::{clear_leftover, destinations_below, survey};
pub use partial::LocalPartial;
pub(super) use places::has_traces;
