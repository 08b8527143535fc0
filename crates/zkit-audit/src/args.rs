//! The arguments of `zkit audit`. Their doc comments are the help text.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use zkit_cli::args::{ResourceArgs, SelectArgs, StoreArgs};
use zkit_cli::reports::ReportArgs;
use zkit_core::engine::Sample;
use zkit_core::location::StoreUrl;
use zkit_rules::Depth;
use zkit_rules::policy::FailOn;

/// Finds every way in which a store or a cache of stores lies: arrays that were never written, chunks that are missing,
/// cut off or no chunks at all, values and coordinates that cannot be right.
///
/// PATH is a store, a folder that is searched for stores, a pattern (cache/batch_*.zarr), or a URL. Stores that are
/// audited together are also compared with each other. Exit code 1 means that there are findings at or above --fail-on,
/// 3 that something could not be read.
#[derive(Debug, Clone, Args)]
pub struct AuditArgs {
    /// Stores, folders of stores, patterns or URLs.
    #[arg(required_unless_present = "explain", value_name = "PATH")]
    pub(crate) paths: Vec<String>,

    /// How closely to look: metadata, listing (which chunks are stored, and their sizes), headers (one small read of
    /// each chunk), sample (decode some chunks), full (decode all) [default: sample].
    #[arg(long, value_name = "DEPTH")]
    pub(crate) depth: Option<Depth>,

    /// How much of each store to decode at depth sample: a part (1/10: the first tenth of the chunks; 2/10 the next),
    /// a share (5%), or a size (1GiB).
    #[arg(long, value_name = "SAMPLE", default_value = "256MiB")]
    pub(crate) sample: Sample,

    /// Draws another sample; the same seed draws the same one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Run only this rule; may be repeated.
    #[arg(long, value_name = "RULE")]
    pub(crate) select: Vec<String>,

    /// Do not run this rule; may be repeated.
    #[arg(long, value_name = "RULE")]
    pub(crate) ignore: Vec<String>,

    /// From which severity on the exit code is 1: error, warning or never [default: error].
    #[arg(long, value_name = "SEVERITY", value_enum, hide_possible_values = true)]
    pub(crate) fail_on: Option<Severity>,

    /// Hide the findings that are listed in FILE, as --write-baseline wrote it.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,

    /// Write what was found to FILE, so that later runs can hide it.
    #[arg(long, value_name = "FILE")]
    pub(crate) write_baseline: Option<PathBuf>,

    /// Read the policy from FILE: the section [audit] [default: zkit.toml, if there is one].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Compare the stores with the one at URL, which they were written from: arrays, shapes, types; from depth sample on
    /// also ids, and what the cells hold that both have.
    #[arg(long, value_name = "URL", value_parser = zkit_cli::values::store_url())]
    pub(crate) against: Option<StoreUrl>,

    /// Look at what references point to: files beside them, and the hosts of public URLs.
    #[arg(long)]
    pub(crate) follow_references: bool,

    /// Say what a rule looks for, how that looks on disk, and what to do, instead of auditing; `all` lists the rules.
    #[arg(long, value_name = "RULE", conflicts_with = "paths")]
    pub(crate) explain: Option<String>,

    #[command(flatten)]
    pub(crate) reports: ReportArgs,
    #[command(flatten)]
    pub(crate) arrays: SelectArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
}

/// The values of `--fail-on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Severity {
    /// Errors.
    Error,
    /// Warnings and errors.
    Warning,
    /// Nothing.
    Never,
}

impl From<Severity> for FailOn {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Error => Self::Error,
            Severity::Warning => Self::Warning,
            Severity::Never => Self::Never,
        }
    }
}
