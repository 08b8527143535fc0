//! Coordinates: read, judged, and searched.
//!
//! A [`Coordinate`] is an array of one dimension with its values decoded: numbers unpacked, CF times and `datetime64` as
//! points in time, strings. [`analyse`] tells duplicates, order, step and gaps; [`Index`] finds what a person asks for, as
//! xarray and pandas do; [`standing_in`] finds a slice in what it was cut from.

mod analyse;
mod coordinate;
mod drift;
mod find;
mod index;
mod join;
mod longitude;
mod read;
mod request;
mod standing;
mod step;
mod target;
mod words;

pub use analyse::{Analysis, Duplicates, Order, Repeat, analyse};
pub use coordinate::{Axis, Coordinate, Values};
pub use drift::{Drift, DriftKind, Rounding};
pub use find::{Found, Positions, Selection};
pub use index::Index;
pub use join::{Aligned, Join, align, concatenate};
pub use read::{coordinate_nodes, is_coordinate, read_coordinate, read_decoded};
pub use request::{Method, Request};
pub use standing::{Standing, standing_in};
pub use step::{Gap, Gaps, Step, Steps};
pub use target::duration_unit;
pub use words::range_in_words;
