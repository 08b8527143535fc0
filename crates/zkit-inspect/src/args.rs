//! The arguments of `zkit inspect`. Their doc comments are the help text.

use std::num::NonZeroU64;

use clap::{Args, ValueEnum};
use zkit_cli::args::{ResourceArgs, SelectArgs, StoreArgs};
use zkit_cli::values::store_url;
use zkit_core::location::StoreUrl;

use zkit_core::plan::Access;

/// Tells what is in a store: arrays, sizes, chunks, codecs, what is stored of them, and what could be better.
///
/// Nothing is decoded, unless with --probe. With the name of one array it is shown in all details: sizes of its
/// stored chunks, which chunks of its grid are stored, what the frames say. Broken nodes are listed as defects
/// and hide no others.
#[derive(Debug, Clone, Args)]
pub struct InspectArgs {
    /// Path or URL of the store.
    #[arg(value_parser = store_url())]
    pub(crate) store: StoreUrl,

    /// Paths of arrays, or of groups for all arrays below them; all of them where none is given.
    pub(crate) arrays: Vec<String>,

    /// How closely to look: metadata (read no chunk, list nothing), listing (which chunks are stored, and their
    /// sizes), headers (also the first bytes of chunks) [default: headers, listing above 1,000 arrays; metadata
    /// of remote stores].
    #[arg(long, value_name = "DEPTH", value_enum, hide_possible_values = true)]
    pub(crate) depth: Option<Depth>,

    /// How the data is read: maps, time-series, points, or batch:time=4,latitude=64,longitude=64 (dimensions not
    /// named are read whole). Tells what one read costs, and which chunk shape would suit it.
    #[arg(long, value_name = "ACCESS")]
    pub(crate) access: Option<Access>,

    /// Decode a sample of the chunks, measure the speed of one core, and estimate how long reading it all takes.
    #[arg(long)]
    pub(crate) probe: bool,

    /// Numbers of workers to estimate for, with --probe.
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "1,8,32,96",
        requires = "probe"
    )]
    pub(crate) workers: Vec<NonZeroU64>,

    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
}

/// How closely a store is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Depth {
    /// Metadata alone.
    Metadata,
    /// Which chunks are stored, and how large they are.
    Listing,
    /// The first bytes of chunks.
    Headers,
}

impl Depth {
    /// Returns the name in arguments and JSON output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Listing => "listing",
            Self::Headers => "headers",
        }
    }
}
