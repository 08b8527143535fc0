//! Where the chunks of a slice lie: whole series of a point together, unless something else is asked for.

use zkit_cli::writing::{ChunkArgs, CodecChoice, WriteArgs, check_dimensions, is_coordinate};
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::grid::Grid;
use zkit_core::metadata::{ArrayMetadata, ChecksumChoice, Layout, Target, TargetCodec, ZarrFormat};
use zkit_core::plan::{CHUNK_TARGET_BYTES, ChunksWish, LayoutWish, ShardsWish};

use crate::scene::SliceArray;
use crate::selection::POINT;

/// Decoded size of chunks where nothing is asked for: few large files, and still many for the cores.
const DEFAULT_CHUNK_BYTES: u64 = 16 << 20;
/// Decoded size of chunks that hold several points: each is decoded once for each of its points.
const POINTS_CHUNK_BYTES: u64 = 64 << 10;
/// What an element without fixed size is taken for.
const VARIABLE_ITEM_BYTES: u64 = 32;
/// Dimensions across places, by the names that they mostly have.
const PLACES: [&str; 14] = [
    POINT,
    "latitude",
    "lat",
    "longitude",
    "lon",
    "y",
    "x",
    "cell",
    "cells",
    "node",
    "station",
    "ncells",
    "rlat",
    "rlon",
];

/// Says what each array of a slice is to be.
pub(crate) struct Layouts<'a> {
    write: &'a WriteArgs,
    wish: LayoutWish,
    codec: TargetCodec,
}

impl<'a> Layouts<'a> {
    /// Reads the arguments.
    ///
    /// Fails with kind `Usage` for `--codec auto`: what a slice will hold cannot be sampled before it is put together.
    pub(crate) fn new(write: &'a WriteArgs, chunks: &ChunkArgs) -> Result<Self> {
        if write.prefer.is_some() {
            let message = "the codecs of slices are not measured, so nothing can be preferred";
            return Err(
                Error::new(ErrorKind::Usage, message).with_hint("name a codec with --codec, such as zstd:1")
            );
        }
        let codec = match &write.codec {
            None => TargetCodec::Keep,
            Some(CodecChoice::Given(codec)) => codec.clone(),
            Some(CodecChoice::Auto) => {
                let message = "codecs are not measured for slices";
                return Err(Error::new(ErrorKind::Usage, message)
                    .with_hint("name a codec, such as blosc:zstd:3:bitshuffle, or leave --codec out to keep the sources'"));
            }
        };
        let given = chunks.access.is_some() || chunks.chunk_size.is_some();
        let wish = LayoutWish {
            chunks: chunks.chunks.clone().unwrap_or(if given { ChunksWish::Auto } else { ChunksWish::Keep }),
            shards: chunks.shards.clone().unwrap_or(ShardsWish::None),
            access: chunks.access.clone().unwrap_or(zkit_core::plan::Access::Points),
            target_bytes: chunks.chunk_size.unwrap_or(CHUNK_TARGET_BYTES),
        };
        Ok(Self { write, wish, codec })
    }

    /// Refuses dimensions that no array of the slice has.
    pub(crate) fn check<'s>(&self, arrays: impl IntoIterator<Item = &'s SliceArray>) -> Result<()> {
        let models: Vec<ArrayMetadata> = arrays.into_iter().map(model).collect::<Result<_>>()?;
        check_dimensions(&self.wish, &models)
    }

    /// Returns the format that slices are written in, from that of their sources.
    pub(crate) fn format(&self, sources: ZarrFormat) -> ZarrFormat {
        self.write.zarr_format.format().unwrap_or(sources)
    }

    /// Returns format, codec and grid of one array.
    pub(crate) fn target_of(&self, array: &SliceArray, format: ZarrFormat) -> Result<Target> {
        let model = model(array)?;
        let coordinate = is_coordinate(&array.path, &model);
        let lengths = matches!(self.wish.chunks, ChunksWish::Lengths(_));
        let wish = match coordinate && lengths {
            // lengths are meant for what coordinates describe
            true => LayoutWish { chunks: ChunksWish::Keep, shards: ShardsWish::None, ..self.wish.clone() },
            false => self.wish.clone(),
        };
        let layout = wish.resolve(&model, Some(format)).map_err(|reason| {
            let message = format!("could not lay out the chunks of `{}`: {reason}", array.path);
            Error::new(ErrorKind::Usage, message).with_hint("change --chunks and --shards")
        })?;
        let layout = layout.unwrap_or_else(|| Layout { chunk_shape: model.chunk_shape(), shard_shape: None });
        let checksum = match self.codec {
            TargetCodec::Uncompressed => ChecksumChoice::None,
            _ => self.write.checksum.into(),
        };
        Ok(Target { format: Some(format), codec: self.codec.clone(), checksum, layout: Some(layout) })
    }
}

/// Returns what an array of all points is while stores are written from it: as the sources encode it, in chunks of few points.
pub(crate) fn target_of_points(array: &SliceArray) -> Target {
    let (shape, names) = (&array.gathered.shape, &array.gathered.dimension_names);
    let metadata = array.model();
    let item = metadata.data_type.item_bytes().unwrap_or(VARIABLE_ITEM_BYTES);
    let mut chunk_shape = usual_chunk(shape, names, item);
    if let Some(axis) = names.iter().position(|name| name == POINT) {
        let others = chunk_shape.iter().enumerate().filter(|(at, _)| *at != axis);
        let point = others.fold(item.max(1), |bytes, (_, &length)| bytes.saturating_mul(length));
        chunk_shape[axis] = (POINTS_CHUNK_BYTES / point.max(1)).clamp(1, shape[axis].max(1));
    }
    let layout = Some(Layout { chunk_shape, shard_shape: None });
    Target { format: Some(metadata.format), codec: TargetCodec::Keep, checksum: ChecksumChoice::None, layout }
}

/// Returns the array as it would be with chunks of the usual shape.
fn model(array: &SliceArray) -> Result<ArrayMetadata> {
    let refused = |message: String| {
        Error::new(ErrorKind::Unsupported, format!("could not lay out `{}`: {message}", array.path))
    };
    let (shape, names) = (&array.gathered.shape, &array.gathered.dimension_names);
    let first = array.model();
    let item = first.data_type.item_bytes().unwrap_or(VARIABLE_ITEM_BYTES);
    let grid = Grid::regular(shape, &usual_chunk(shape, names, item)).map_err(refused)?;
    first.gathered(&array.path, grid, names, array.attributes.clone()).map_err(refused)
}

/// Returns chunks that hold whole series: where all of an array is too large, fewer places, then fewer of the first
/// dimension.
fn usual_chunk(shape: &[u64], names: &[String], item: u64) -> Vec<u64> {
    let mut chunk: Vec<u64> = shape.iter().map(|&length| length.max(1)).collect();
    let is_place = |d: usize| PLACES.contains(&names[d].to_lowercase().as_str());
    let places = (0..shape.len()).filter(|&d| is_place(d));
    let order: Vec<usize> = places.chain((0..shape.len()).filter(|&d| !is_place(d))).collect();
    let bytes = |chunk: &[u64]| chunk.iter().fold(item, |bytes, &length| bytes.saturating_mul(length));
    for d in order {
        while chunk[d] > 1 && bytes(&chunk) > DEFAULT_CHUNK_BYTES {
            chunk[d] = chunk[d].div_ceil(2);
        }
    }
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_stay_together_and_places_are_cut() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(usual_chunk(&[95, 6, 2], &names(&["file_id", "time", "level"]), 4), [95, 6, 2]);
        assert_eq!(usual_chunk(&[8760, 100], &names(&["time", "point"]), 4), [8760, 100]);
        assert_eq!(usual_chunk(&[87600, 1000], &names(&["time", "point"]), 4), [87600, 32]);
        assert_eq!(usual_chunk(&[1 << 24], &names(&["time"]), 4), [1 << 22]);
        assert_eq!(usual_chunk(&[0, 3], &names(&["time", "x"]), 4), [1, 3]);
        assert!(usual_chunk(&[], &[], 4).is_empty());
    }
}
