//! What is wrong with a store: rules over what was observed of it.
//!
//! A [`Rule`] is a value: its id, how much it matters, from which [`Depth`] on it can be seen, what it means, and a
//! pure function from observations ([`observe`]) and [`Policy`] to findings. [`RULES`] lists all of them; each lives in a
//! file of its own in `rules/`, with its text and its test. Rules read no store: whoever audits gathers the
//! observations ([`look`] has what deep ones take), and [`check_store`] and [`check_cache`] judge them.
//!
//! [`Policy`]: policy::Policy

#![warn(missing_docs)]

pub mod against;
pub mod boxes;
mod content;
pub mod coordinates;
mod depth;
mod dimensions;
mod families;
mod finder;
pub mod ids;
pub mod look;
pub mod observe;
pub mod packing;
pub mod policy;
mod pyramid;
mod registry;
mod rows;
mod rule;
mod rules;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod times;
mod values;
pub mod words;

pub use depth::Depth;
pub use families::alike;
pub use finder::{Draft, Finder};
pub use registry::{RULES, check_cache, check_store, rule_named, similar_rules};
pub use rule::{Check, Rule};
