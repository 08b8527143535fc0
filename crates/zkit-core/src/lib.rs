//! What every zkit command shares: Zarr stores, their metadata, chunk grids, codecs, plans and the engine.
//!
//! Data flows one way: `StoreUrl -> Store -> Hierarchy -> Plan -> engine -> outcome`. The core knows no
//! terminal, no command line and no environment; callers hand it what it needs.
//!
//! Modules import only those above them in this list; a test holds that order. `cancel`, `error`, `event` and
//! `units` may be used by all.

#![warn(missing_docs)]

pub mod cancel;
pub mod error;
pub mod event;
pub mod units;

pub mod calendar;
pub mod codec;
pub mod engine;
pub mod grid;
pub mod hierarchy;
pub mod kernels;
pub mod location;
pub mod metadata;
pub mod plan;
pub mod publish;
pub mod read;
pub mod select;
pub mod store;
