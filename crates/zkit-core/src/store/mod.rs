//! Stores: bytes by key, whatever lies behind them.
//!
//! `Ok(None)` and an empty visit mean *absent*; everything that may exist but cannot be read is an error of kind
//! `Unreadable`. The two are never mixed up: absent chunks read as fill values, unreadable ones must not.

mod ahead;
mod any;
mod arrived;
mod body;
mod byte_source;
mod chunk_cache;
mod clients;
mod cut;
mod http;
mod integrity;
mod key;
mod listing;
mod local;
mod memory;
mod network;
mod parts;
mod reach;
mod reads;
mod references;
mod refusals;
mod remote;
mod seen;
mod targets;
mod upload;
mod versions;
mod window;
mod write_back;
mod writer;
mod zip;

pub use any::{Child, ChildKind, ObjectInfo, ObjectKind, ObjectStat, Store, StoreOptions};
pub use arrived::Arrived;
pub use chunk_cache::ChunkCache;
pub use integrity::StoreChecksums;
pub use key::{is_safe_name, join};
pub use local::LocalStore;
pub use memory::MemoryStore;
pub use network::{Network, NetworkLimits};
pub use parts::UPLOAD_MARKS;
pub use reach::{Reach, reach};
pub use references::{Document, Locate, Located, ReferenceStore};
pub use remote::{FetchResult, RemoteStore};
pub use seen::{Reads, Seen};
pub use upload::{Conditional, RemoteWriter, UploadRoom, Version};
pub use writer::{LocalWriter, write_error};
pub use zip::ZipStore;
