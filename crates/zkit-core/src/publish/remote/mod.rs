//! Destinations in object stores: chunks first, metadata last, and a lock that is an object.

mod commit;
mod lock;
mod partial;
mod start;

pub use lock::unique_name;
pub use partial::RemotePartial;
pub(super) use start::{exists, has_traces};
