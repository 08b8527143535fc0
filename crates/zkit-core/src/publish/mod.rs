//! Making a store appear at once, wherever its destination is.
//!
//! On this machine it is built in a `.partial` sibling, synced, and renamed. Beside a destination `NAME` lie, while a run
//! builds it or after it died, `NAME.partial`, the store, and `NAME.partial.journal`, which says what of it is done and is
//! locked by the run. In an object store there is no rename: chunks are written where they belong, and the metadata by
//! which readers find them when all have arrived, the root's last; `NAME.partial.journal/` holds the journal and the lock.
//! Until the end nothing can be opened at the destination; whatever a run left is gone on with, or cleared, by the next
//! run to the same destination.

mod documents;
mod leftover;
mod local;
mod partial;
mod record;
mod remote;
mod space;
mod start;

pub use documents::{Consolidate, metadata_documents};
pub use leftover::{Holder, Leftover, clear_leftover, find_leftovers};
pub use local::LocalPartial;
pub use partial::{Destination, PartialStore};
pub use record::{CopyRecord, Recorded};
pub use remote::{RemotePartial, unique_name};
pub use space::{check_apart, check_folder, folder_name, free_bytes};
pub use start::{Existing, Start, Unfinished};
