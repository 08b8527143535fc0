//! Destinations on this machine: a `.partial` sibling, renamed.

mod commit;
mod partial;
mod places;
mod start;
#[cfg(test)]
mod tests;

pub use partial::LocalPartial;
pub(super) use places::has_traces;
