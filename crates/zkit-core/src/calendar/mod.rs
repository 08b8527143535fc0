//! Time as stores count it: the calendars and units of the CF conventions, in exact whole nanoseconds, and the dates
//! that people write.
//!
//! A [`Time`] is a count of nanoseconds in one [`Calendar`]; a [`DateTime`] is the same as year, month, day and clock. The
//! two convert into each other without loss. [`TimeUnits`] are an array's `units` and `calendar` attributes, a
//! [`PartialDate`] is what a person asks for: `2020-01` is the whole month.
//!
//! Source: CF conventions 1.11, section 4.4; cftime 1.6.

mod date;
mod numpy;
mod partial;
mod reckoning;
mod units;

pub use date::{DateTime, Resolution, Time};
pub use numpy::NumpyUnit;
pub use partial::PartialDate;
pub use reckoning::Calendar;
pub use units::{TimeUnits, since};
