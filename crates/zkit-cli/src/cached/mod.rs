//! Caches of stores: a directory of entries that are served again as long as all that they rest on is as it was.
//!
//! An entry `NAME` is a store with two files beside it: `NAME.manifest` says what was asked for, every object of the
//! sources that was read with its size and stamp, and every object of the store with its digest; `NAME.lock` is held by
//! whoever uses the entry, and tells by its time when that was last. The name ends in a hash of what was asked for, so that
//! an entry is found before any source is opened. [`check`] says whether it may be served. Nothing is served unchecked,
//! and a store without a sound manifest is no entry. The format of manifests is in `docs/cache.md`.

mod check;
mod lock;
mod manifest;
mod places;
mod prune;
mod request;
mod result;

pub use check::{CacheCheckArg, Checked, Expected, Verdict, check, check_unchanged};
pub use lock::{EntryLock, Mode};
pub use manifest::{Header, Manifest, SCHEMA_VERSION, SourceObjects, not_remembered, publish};
pub use places::{Found, Places, State, entries};
pub use prune::{Removal, clear, remove};
pub use request::{Request, source_id, source_name};
pub use result::{Finding, ResultObjects, check_result};
