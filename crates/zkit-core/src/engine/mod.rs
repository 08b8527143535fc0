//! Work over chunks: running a plan, digesting and comparing arrays, surveying what is stored, scanning values.

mod aligned;
mod boxes;
mod choose;
mod chunks;
mod compare;
mod copy;
mod digest;
mod estimate;
mod fetch;
mod gather;
mod journal;
mod lanes;
mod prefetch;
mod prepared;
mod queue;
mod rows;
mod scan;
mod sink;
mod sparse;
mod spill;
mod survey;
mod touched;
mod variable;
mod verify;
mod windows;

pub use aligned::{Agreement, AlignedPair, Along, Extent, FirstDifference, Packed, compare_aligned};
pub use choose::{Choice, Filters, Prefer, SampleSource, Trial, choose_codec, choose_together, sample_array};
pub use chunks::absent_bytes;
pub use compare::{Difference, Pair, compare};
pub use copy::{CorruptChunk, Endpoint, OnCorrupt, RunOptions, run_copy};
pub use digest::{Sha256Digest, digest, split_unwritten};
pub use estimate::{Estimate, Sources, estimate_copy};
pub use journal::{
    Checked, Contents, Header, Identity, Journal, JournalArray, ObjectContents, ObjectDigest, ObjectJournal,
    Opened, Publishing, Record, check_objects, check_present,
};
pub use lanes::{Resources, pool};
pub use rows::{RowDigests, affordable_rows, digest_rows};
pub use scan::{
    ArrayValues, BadUnit, BadUnits, Coverage, NanProfile, Sample, ScanTarget, Skipped, StandIn, UnitFacts,
    UnitGrid, scan_values,
};
pub use sink::Sink;
pub use sparse::{Sparse, split_sparse};
pub use spill::{LeftPieces, Scratch};
pub use survey::{
    ArraySurvey, BloscFrames, ChunkFault, Closeness, FaultyChunks, Frames, GridParts, InnerAbsence, Keys,
    Listing, MissingChunks, N5Container, N5Dataset, N5Fault, Repository, ShardIndexes, SizeTally, StoreFiles,
    StoreSurvey, StoredChunk, SurveyDepth, Tally, ZstdFrames, is_unfinished_store, read_n5, survey,
    survey_again, survey_heads, survey_references, survey_store,
};
pub use touched::{Touched, TouchedPart, touched};
pub use verify::{Proof, Verified, Verify, verify};
