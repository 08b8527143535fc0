//! The rules, one file each, named like its id.

pub(crate) mod metadata_only_array;
