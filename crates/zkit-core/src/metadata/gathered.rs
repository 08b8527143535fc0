//! The metadata of an array that is put together of parts of others.

use super::array::{ArrayMetadata, ZarrFormat};
use super::dimensions::ARRAY_DIMENSIONS;
use super::json::{Json, Object};
use super::layout::{Layout, chunk_codecs};
use crate::grid::Grid;

impl ArrayMetadata {
    /// Returns metadata as these, with another shape, other dimensions and attributes: elements in C order, no shards. The
    /// error says what does not fit.
    ///
    /// `attributes` come without dimension names. The grid need not be one that Zarr can say: it is how the array is
    /// read, and its document is there to be converted.
    pub fn gathered(
        &self,
        path: &str,
        grid: Grid,
        dimension_names: &[String],
        mut attributes: Object,
    ) -> Result<Self, String> {
        let lengths = |lengths: &[u64]| Json::Array(lengths.iter().map(Json::number).collect());
        let names = Json::Array(dimension_names.iter().map(Json::string).collect());
        let chunk_shape: Vec<u64> = grid.largest_chunk_shape().iter().map(|&length| length.max(1)).collect();
        let mut document = self.document.clone();
        document.set("shape", lengths(grid.shape()));
        let mut defects = Vec::new();
        let parsed = match self.format {
            ZarrFormat::V2 => {
                document.set("chunks", lengths(&chunk_shape));
                document.set("order", Json::string("C"));
                attributes.set(ARRAY_DIMENSIONS, names);
                Self::parse_v2(path, document, attributes, &mut defects)
            }
            ZarrFormat::V3 => {
                let codecs = document.get("codecs").and_then(Json::as_array).ok_or("codecs is not a list")?;
                let mut codecs = chunk_codecs(codecs, &self.codecs)?;
                codecs.retain(|codec| codec.get("name").and_then(Json::as_str) != Some("transpose"));
                document.set("codecs", Json::Array(codecs));
                document.set("chunk_grid", Layout { chunk_shape, shard_shape: None }.chunk_grid());
                document.set("dimension_names", names);
                document.set("attributes", attributes.into());
                Self::parse_v3(path, document, &mut defects)
            }
        };
        let metadata = parsed.map_err(|defect| defect.message)?;
        Ok(Self { grid, ..metadata })
    }
}
