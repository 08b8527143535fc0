//! The arguments that say where new chunks lie. Their doc comments are the help text.

use clap::Args;
use zkit_core::error::{Error, ErrorKind};
use zkit_core::metadata::ArrayMetadata;
use zkit_core::plan::{Access, ChunksWish, LayoutWish, ShardsWish};

use crate::values::parse_bytes;

/// Where new chunks lie.
///
/// What `--access` is where it is not passed is the command's to say, in the help by [`with_default`](super::with_default).
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Layout options")]
pub struct ChunkArgs {
    /// Chunk lengths: time=-1,latitude=32,longitude=32 (-1: all of it; auto: what suits the access), or auto.
    ///
    /// Dimensions that are not named keep their length; those without name are numbered from 0. Lengths beyond the
    /// end of a dimension are clipped. Coordinates (arrays of one dimension, named as it) keep their chunks, and with
    /// auto become one chunk.
    #[arg(long, value_name = "LENGTHS")]
    pub chunks: Option<ChunksWish>,

    /// Shard lengths in elements, whole chunks each: time=-1,latitude=256; or auto (up to 256 MiB), or none.
    ///
    /// Shards are of Zarr v3: pass --zarr-format 3 for stores of v2.
    #[arg(long, value_name = "LENGTHS")]
    pub shards: Option<ShardsWish>,

    /// How the copy will be read, for automatic chunks: maps, time-series, points, or batch:time=4,latitude=64.
    ///
    /// With maps a chunk holds one map; with time-series all times of a small area; with points reading a map and
    /// reading a time series touch about as many chunks. Without --chunks all chunks are automatic.
    #[arg(long, value_name = "ACCESS")]
    pub access: Option<Access>,

    /// Decoded size of automatic chunks at most [default: 4MiB].
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub chunk_size: Option<u64>,
}

/// Refuses dimensions that no array has: they are mistyped.
pub fn check_dimensions<'a>(
    wish: &LayoutWish,
    arrays: impl IntoIterator<Item = &'a ArrayMetadata>,
) -> Result<(), Error> {
    let Some(message) = wish.unknown_dimensions(arrays) else { return Ok(()) };
    let error = Error::new(ErrorKind::Usage, format!("could not lay out new chunks: {message}"));
    Err(error.with_hint("run `zkit inspect` to see the dimensions of the arrays"))
}

/// Returns whether an array is a coordinate: of one dimension, and named as it.
///
/// Lengths of chunks are meant for what coordinates describe; readers load coordinates whole.
pub fn is_coordinate(path: &str, metadata: &ArrayMetadata) -> bool {
    let name = path.rsplit('/').next();
    match metadata.dimension_names.as_deref() {
        Some([Some(dimension)]) => name == Some(dimension),
        _ => false,
    }
}
