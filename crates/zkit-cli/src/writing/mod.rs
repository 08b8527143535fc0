//! The driver of every command that writes stores: from a plan to stores that are complete, proven and published.
//!
//! A command makes a [`CopyPlan`](zkit_core::plan::CopyPlan) and says of each of its stores where it goes and what it is
//! made of, as a [`Job`]. [`resume`] looks for what earlier runs left; a [`Run`] does the rest: its costs for a dry run,
//! questions, space, the partial stores, the copy, the proof, the command's own audit, and publication. What is said of
//! it follows one contract, with a place for what a command alone knows, see [`Own`].

mod args;
mod codec;
mod costs;
mod destinations;
mod headers;
mod layout;
mod output;
mod run;
mod start;
#[cfg(test)]
mod tests;

pub use args::{
    ChecksumArg, ConsolidateArg, FormatArg, PreferArg, SourceCheckArg, VerifyArg, WriteArgs, with_default,
    word,
};
pub use codec::{CodecChoice, choice_text, parse_choice, parse_codec, text_of};
pub use costs::Costs;
pub use destinations::Reach;
pub use headers::{documents_text, groups_text};
pub use layout::{ChunkArgs, check_dimensions, is_coordinate};
pub use output::{NoFields, Own, emit_already_done, emit_done, emit_plan};
pub use run::{Audit, Done, Job, Run, Written};
pub use start::{Before, Earlier, resume};
