//! Stores: bytes by key, whatever lies behind them.
//!
//! `Ok(None)` and an empty visit mean *absent*; everything that may exist but cannot be read is an error of kind
//! `Unreadable`. The two are never mixed up: absent chunks read as fill values, unreadable ones must not.

mod addresses;
mod any;
mod byte_source;
mod hosts;
mod key;
mod local;
mod memory;
mod reach;
mod references;
mod remote;
mod seen;
mod targets;
mod write_back;
mod writer;
mod zip;

pub use any::{
    Child, ChildKind, Glance, ObjectInfo, ObjectKind, ObjectStat, Prefetched, Store, StoreOptions,
};
pub use hosts::{Hosts, RemotePlace};
pub use key::{is_safe_name, join};
pub use local::LocalStore;
pub(crate) use local::is_link_to_nothing;
pub use memory::MemoryStore;
pub use reach::{Reach, reach};
pub use references::{Document, Locate, Located, ReferenceStore};
pub use remote::{
    Arrived, ChunkCache, Conditional, FetchResult, MarkedUpload, Network, NetworkLimits, RemoteStore,
    RemoteWriter, Sent, StoreChecksums, UPLOAD_MARKS, UploadRoom, Version,
};
pub use seen::{Reads, Seen};
pub use writer::{LocalWriter, write_error};
pub use zip::ZipStore;
