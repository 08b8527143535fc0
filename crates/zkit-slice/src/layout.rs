//! Where the chunks of a slice lie: as asked, else what belongs to one place together.

use zkit_cli::writing::ChunkArgs;
use zkit_core::grid::Grid;
use zkit_core::metadata::{ArrayMetadata, Layout, ZarrFormat};
use zkit_core::plan::{Access, CHUNK_TARGET_BYTES, ChunksWish, LayoutWish, ShardsWish};

use crate::scene::SliceArray;

/// Elements without fixed size are taken to need so many bytes.
const VARIABLE_ITEM_BYTES: u64 = 64;

/// Returns where the chunks of an array lie; the error says what does not fit.
pub(crate) fn layout_of(
    array: &SliceArray,
    args: &ChunkArgs,
    format: Option<ZarrFormat>,
) -> Result<Layout, String> {
    let most = args.chunk_size.unwrap_or(CHUNK_TARGET_BYTES);
    let metadata = usual(array, most)?;
    let format = format.unwrap_or(metadata.format);
    let automatic = args.access.is_some() && args.chunks.is_none();
    let own = zkit_cli::writing::is_coordinate(&array.path, &metadata);
    let wish = LayoutWish {
        chunks: match &args.chunks {
            Some(ChunksWish::Lengths(_)) if own => ChunksWish::Keep,
            Some(chunks) => chunks.clone(),
            None if automatic => ChunksWish::Auto,
            None => ChunksWish::Keep,
        },
        shards: match &args.shards {
            Some(ShardsWish::Lengths(_)) if own => ShardsWish::Keep,
            Some(shards) => shards.clone(),
            None => ShardsWish::Keep,
        },
        access: args.access.clone().unwrap_or(Access::TimeSeries),
        target_bytes: most,
    };
    let usual = || Layout { chunk_shape: metadata.grid.largest_chunk_shape(), shard_shape: None };
    Ok(wish.resolve(&metadata, Some(format))?.unwrap_or_else(usual))
}

/// Returns the metadata of the array with its usual chunks: all of it, or all along the first dimension (the series) of
/// part of the others.
fn usual(array: &SliceArray, most: u64) -> Result<ArrayMetadata, String> {
    let model = array.model();
    let gathered = &array.gathered;
    let item = model.data_type.item_bytes().unwrap_or(VARIABLE_ITEM_BYTES).max(1);
    let mut chunk: Vec<u64> = gathered.shape.iter().map(|&length| length.max(1)).collect();
    let elements = |chunk: &[u64]| chunk.iter().fold(item, |bytes, &length| bytes.saturating_mul(length));
    let series = gathered.joined.as_ref().map_or(0, |joined| joined.axis);
    while elements(&chunk) > most {
        let cut = (0..chunk.len())
            .filter(|&axis| axis != series && chunk[axis] > 1)
            .max_by_key(|&axis| chunk[axis]);
        let axis = cut.unwrap_or(series);
        if chunk.get(axis).is_none_or(|&length| length < 2) {
            break;
        }
        chunk[axis] = chunk[axis].div_ceil(2);
    }
    let grid = Grid::regular(&gathered.shape, &chunk)?;
    model.gathered(&array.path, grid, &gathered.dimension_names, array.attributes.clone())
}
