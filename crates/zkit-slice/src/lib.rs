//! `zkit slice`: what belongs to some coordinates, taken out of one or many stores.
//!
//! `sources` opens the stores, `axes` says which dimensions each of them has; `dimensions` puts those of all together, behind
//! each other or aligned, and `duplicates` finds what stands twice; `variables` and `schema` compare the arrays that become
//! one, and `overlap` what several sources hold of the same place; `selection` and `points` find what is asked for; `wanted` says of each array which elements of which sources it is
//! put together of. `scene` goes through these steps; nothing is written before they are done. `layout` says where
//! the chunks of the slice lie, and `run` has it planned, written, proven and published as copies are, through
//! `split` where each point becomes a store; `batches` is what a dry run
//! says beside the costs.

mod args;
mod audit;
mod axes;
mod batches;
mod cache;
mod convert;
mod coordinates;
mod dimensions;
mod duplicates;
mod found;
mod layout;
mod literals;
mod named;
mod overlap;
mod points;
mod reads;
mod run;
mod scene;
mod schema;
mod selection;
mod sources;
mod split;
mod stacked;
mod stubs;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod variables;
mod wanted;

pub use args::SliceArgs;
pub use run::Slice;
