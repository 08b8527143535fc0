//! What a run has done so far: an append-only file that says which destination objects are complete.
//!
//! The file is one line of text, the [`Header`], and then records of fixed size: one for each chunk of the target
//! that is done, and a mark before the store is published. Each part carries a checksum, so that whatever a run
//! that died left at the end is found and cut off. Resume trusts the digests in it, never the files: see
//! [`check_objects`]. In an object store the header and the records are objects of their own: see [`ObjectJournal`].

mod check;
mod file;
mod header;
mod objects;
mod present;
mod record;

pub use check::{Checked, check_objects};
pub use file::{Contents, Journal, Opened};
pub use header::{Header, JournalArray};
pub use objects::{ObjectContents, ObjectJournal};
pub use present::check_present;
pub use record::{Identity, ObjectDigest, Publishing, Record};
