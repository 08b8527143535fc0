//! What zkit says, as data, and how it is written for people and for programs.
//!
//! A command builds a [`Document`] for people and a serialisable value for programs; one that judges stores
//! builds a [`Report`], which is both; [`render`] turns each into bytes. This crate knows neither Zarr nor the
//! terminal: the caller says how wide a line is and whether colours and Unicode are welcome
//! ([`render::text::Style`]). Text that came from a store is made safe to print in one place, [`sanitize`],
//! through which every word of a rendered document passes.

#![warn(missing_docs)]

mod chart;
mod document;
mod finding;
pub mod format;
mod groups;
mod names;
pub mod render;
mod report;
mod report_text;
#[cfg(test)]
mod samples;
mod sanitize;
mod series;
mod similar;
mod table;
mod width;
mod words;

pub use chart::{Axis, GridMap, Histogram};
pub use document::{Advice, Document, Facts, Item};
pub use finding::{
    ChunkBox, ChunkGrid, Confidence, Finding, FindingCounts, Severity, fingerprints, numbered,
};
pub use report::{Occupancy, Report, RuleInfo, SCHEMA_VERSION, StoreSummary, Variable};
pub use sanitize::sanitize;
pub use series::{Point, Series};
pub use similar::edits;
pub use table::{Column, Table};
