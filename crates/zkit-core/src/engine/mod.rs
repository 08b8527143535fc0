//! Work over chunks: running a plan, digesting and comparing arrays, surveying what is stored.

mod choose;
mod compare;
mod copy;
mod digest;
mod estimate;
mod lanes;
mod survey;
mod verify;

pub use choose::{Choice, Prefer, SampleSource, Trial, choose_codec, sample_array};
pub use compare::{Difference, Pair, compare};
pub use copy::{absent_bytes, run_copy};
pub use digest::{Sha256Digest, digest, split_unwritten};
pub use estimate::{Estimate, estimate_copy};
pub use lanes::Resources;
pub use survey::{
    ArraySurvey, BloscFrames, Frames, Keys, Listing, ShardIndexes, SizeTally, StoredChunk, SurveyDepth,
    Tally, ZstdFrames, survey,
};
pub use verify::{Verified, Verify, verify};
