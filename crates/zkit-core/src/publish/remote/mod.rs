//! Destinations in object stores: chunks first, metadata last, and a lock that is an object.

mod commit;
mod leftover;
mod lock;
mod partial;
mod start;

pub(super) use leftover::{clear_leftover, survey};
pub use lock::unique_name;
pub use partial::RemotePartial;
pub(super) use start::{exists, has_traces};
