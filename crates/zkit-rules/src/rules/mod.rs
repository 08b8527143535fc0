//! The rules, one file each, named like its id.

pub(crate) mod coordinate_gap;
pub(crate) mod coordinate_not_monotonic;
pub(crate) mod dimension_mismatch;
pub(crate) mod duplicate_ids;
pub(crate) mod metadata_only_array;
