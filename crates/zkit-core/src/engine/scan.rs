//! The values of arrays: stored chunks are decoded piece by piece and scanned where they were decoded.
//!
//! One queue over all arrays; a thread keeps its buffers, and hands over what it found once a run of chunks. What headers
//! answer is not decoded: absent chunks are counted, chunks of the same bytes are scanned once.

mod chunk;
mod elements;
mod gather;
mod profile;
mod rows;
mod run;
mod sample;
mod stand_in;
mod unit;

pub use gather::{ArrayValues, BadUnit, BadUnits, Coverage, Skipped, UnitFacts, UnitGrid};
pub use profile::NanProfile;
pub use run::{ScanTarget, scan_values};
pub use sample::Sample;
pub use stand_in::StandIn;

#[cfg(test)]
mod tests;
