//! The commands of the front binary: the list that `main` runs, and that completions and manual pages are made of.

use zkit_cli::Entry;

/// What zkit is for, in one sentence.
pub const ABOUT: &str =
    "Tells what is in Zarr stores, compares them, and lays them out for the way you read them";

/// The subcommands, in the order of `zkit --help`. A new command is one more line.
pub const COMMANDS: &[Entry] = &[
    Entry::of::<zkit_inspect::Inspect>(),
    Entry::of::<zkit_audit::Audit>(),
    Entry::of::<zkit_digest::Digest>(),
    Entry::of::<zkit_compare::Compare>(),
    Entry::of::<zkit_recompress::Recompress>(),
    Entry::of::<zkit_slice::Slice>(),
    Entry::of::<zkit_cache::Cache>(),
    Entry::of::<zkit_partials::Partials>(),
];
