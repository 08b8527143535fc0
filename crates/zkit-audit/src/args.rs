//! The arguments of `zkit audit`. Their doc comments are the help text.

use clap::Args;
use zkit_cli::args::{ResourceArgs, SelectArgs, StoreArgs};
use zkit_cli::reports::ReportArgs;
use zkit_rules::Depth;

/// Finds every way in which a store or a cache of stores lies: arrays that were never written, chunks that are missing,
/// cut off or no chunks at all, values and coordinates that cannot be right.
///
/// PATH is a store, a folder that is searched for stores, a pattern (cache/batch_*.zarr), or a URL. Exit code 1 means
/// that there are findings, 3 that something could not be read.
#[derive(Debug, Clone, Args)]
pub struct AuditArgs {
    /// Stores, folders of stores, patterns or URLs.
    #[arg(required_unless_present = "explain", value_name = "PATH")]
    pub(crate) paths: Vec<String>,

    /// How closely to look: metadata, listing (which chunks are stored, and their sizes), headers (one small read of
    /// each chunk), sample (decode some), full (decode all).
    #[arg(long, value_name = "DEPTH")]
    pub(crate) depth: Option<Depth>,

    /// Say what a rule looks for, how that looks on disk, and what to do, instead of auditing.
    #[arg(long, value_name = "RULE", conflicts_with = "paths")]
    pub(crate) explain: Option<String>,

    #[command(flatten)]
    pub(crate) reports: ReportArgs,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
}
