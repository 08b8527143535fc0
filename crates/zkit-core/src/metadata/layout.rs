//! Where the chunks of a copy lie: their shape, and that of the shards around them.

use super::array::{ArrayMetadata, ZarrFormat};
use super::codec_spec::CodecSpec;
use super::json::{Json, Object};
use crate::grid::{Region, for_each_index};

/// Where chunks lie: on a regular grid, alone or several in one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Shape of a chunk: of what decodes alone.
    pub chunk_shape: Vec<u64>,
    /// Shape of a shard in elements, where chunks share objects.
    pub shard_shape: Option<Vec<u64>>,
}

impl Layout {
    /// Returns the layout that an array has, or `None` where its chunks differ in shape.
    pub fn of(metadata: &ArrayMetadata) -> Option<Self> {
        let stored = metadata.grid.regular_shape()?;
        Some(match metadata.sharding() {
            Some(_) => Self { chunk_shape: metadata.chunk_shape(), shard_shape: Some(stored) },
            None => Self { chunk_shape: stored, shard_shape: None },
        })
    }

    /// Returns the shape of what is stored as one object.
    pub fn stored_shape(&self) -> &[u64] {
        self.shard_shape.as_deref().unwrap_or(&self.chunk_shape)
    }

    /// Checks that an array can have this layout in a format; the error says what is in the way.
    pub(super) fn check(&self, source: &ArrayMetadata, format: ZarrFormat) -> Result<(), String> {
        let rank = source.shape().len();
        check_lengths("chunks", &self.chunk_shape, rank)?;
        let Some(shard_shape) = &self.shard_shape else { return Ok(()) };
        check_lengths("shards", shard_shape, rank)?;
        if format == ZarrFormat::V2 {
            return Err("shards need Zarr v3: add --zarr-format 3".to_owned());
        }
        let lengths = shard_shape.iter().zip(&self.chunk_shape).enumerate();
        for (dimension, (shard, chunk)) in lengths {
            if !shard.is_multiple_of(*chunk) {
                let name = source.dimension_label(dimension);
                return Err(format!(
                    "shards of {shard} elements do not hold whole chunks of {chunk} along {name}"
                ));
            }
        }
        Ok(())
    }

    /// Returns v3's `chunk_grid`.
    pub(super) fn chunk_grid(&self) -> Json {
        let shape = lengths(self.stored_shape());
        Object::from_iter([
            ("name", Json::string("regular")),
            ("configuration", Object::from_iter([("chunk_shape", shape)]).into()),
        ])
        .into()
    }

    /// Returns v3's `codecs` from those of one chunk: within `sharding_indexed` where there are shards.
    pub(super) fn codecs(&self, chunk_codecs: Vec<Json>) -> Vec<Json> {
        if self.shard_shape.is_none() {
            return chunk_codecs;
        }
        let little = Object::from_iter([("endian", Json::string("little"))]);
        let bytes = Object::from_iter([("name", Json::string("bytes")), ("configuration", little.into())]);
        let crc32c = Object::from_iter([("name", Json::string("crc32c"))]);
        let configuration = Object::from_iter([
            ("chunk_shape", lengths(&self.chunk_shape)),
            ("codecs", Json::Array(chunk_codecs)),
            ("index_codecs", Json::Array(vec![bytes.into(), crc32c.into()])),
            ("index_location", Json::string("end")),
        ]);
        let sharding = Object::from_iter([
            ("name", Json::string("sharding_indexed")),
            ("configuration", configuration.into()),
        ]);
        vec![sharding.into()]
    }
}

/// Returns the v3 codecs of one chunk out of those of what is stored: transposes in front of shards stay, codecs
/// around whole shards go with the shards.
pub(super) fn chunk_codecs(codecs: &[Json], specs: &[CodecSpec]) -> Result<Vec<Json>, String> {
    let sharded = specs.iter().enumerate().find_map(|(at, spec)| match spec {
        CodecSpec::Sharding(sharding) => Some((at, sharding)),
        _ => None,
    });
    let Some((at, sharding)) = sharded else { return Ok(codecs.to_vec()) };
    let inner = codecs[at].get("configuration").and_then(|configuration| configuration.get("codecs"));
    let inner = inner.and_then(Json::as_array).ok_or("sharding_indexed: no codecs")?;
    let mut list = codecs[..at].to_vec();
    list.extend(chunk_codecs(inner, &sharding.codecs)?);
    Ok(list)
}

impl ArrayMetadata {
    /// Returns what to call a dimension in messages: its name in backticks, else its number.
    pub fn dimension_label(&self, dimension: usize) -> String {
        let name = self.dimension_names.as_ref().and_then(|names| names.get(dimension)?.as_ref());
        name.map_or_else(|| format!("dimension {dimension}"), |name| format!("`{name}`"))
    }

    /// Returns the inner chunks of a shard that a region touches: the place of each in the shard, and its elements inside the
    /// region. None where chunks are not sharded.
    pub fn inner_chunks(&self, chunk_index: &[u64], region: &Region) -> Vec<(Vec<u64>, Region)> {
        let mut found = Vec::new();
        if self.sharding().is_none() {
            return found;
        }
        let shard = self.grid.chunk_shape(chunk_index);
        let ranges: Vec<_> =
            shard.iter().zip(self.chunk_shape()).map(|(&length, inner)| 0..length / inner.max(1)).collect();
        // visiting cannot fail
        let _ = for_each_index::<()>(&ranges, |inner| {
            let part = self.inner_region(chunk_index, inner).intersection(region);
            if !part.is_empty() {
                found.push((inner.to_vec(), part));
            }
            Ok(())
        });
        found
    }

    /// Returns the elements of an inner chunk that lie inside the array, by its place in the shard.
    pub fn inner_region(&self, chunk_index: &[u64], inner_index: &[u64]) -> Region {
        let shard = self.grid.chunk_region(chunk_index);
        let shape = self.chunk_shape();
        let start = shard.start.iter().zip(inner_index).zip(&shape);
        let start = start.map(|((&start, &at), &length)| start.saturating_add(at.saturating_mul(length)));
        Region { start: start.collect(), shape }.intersection(&shard)
    }
}

fn check_lengths(what: &str, lengths: &[u64], rank: usize) -> Result<(), String> {
    if lengths.len() != rank {
        return Err(format!("{what} have {} dimensions, the array has {rank}", lengths.len()));
    }
    match lengths.iter().position(|&length| length == 0) {
        Some(dimension) => Err(format!("{what} of length 0 in dimension {dimension}")),
        None => Ok(()),
    }
}

fn lengths(lengths: &[u64]) -> Json {
    Json::Array(lengths.iter().map(Json::number).collect())
}

#[cfg(test)]
mod tests {
    use super::super::compressor::TargetCodec;
    use super::super::convert::{ChecksumChoice, Conversion, Target, convert};
    use super::*;

    fn object(text: &str) -> Object {
        match Json::parse(text.as_bytes()).unwrap() {
            Json::Object(object) => object,
            _ => unreachable!("tests give objects"),
        }
    }

    fn v2(text: &str) -> ArrayMetadata {
        let attributes = object(r#"{"_ARRAY_DIMENSIONS":["y","x"]}"#);
        ArrayMetadata::parse_v2("/a", object(text), attributes, &mut Vec::new()).unwrap()
    }

    fn v3(shape: &str, grid: &str, codecs: &str) -> ArrayMetadata {
        v3_of("int16", shape, grid, codecs)
    }

    fn v3_of(data_type: &str, shape: &str, grid: &str, codecs: &str) -> ArrayMetadata {
        let fill = if data_type == "string" { "\"\"" } else { "0" };
        let document = object(&format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":{shape},"data_type":"{data_type}","chunk_grid":{grid},
                "chunk_key_encoding":{{"name":"default"}},"fill_value":{fill},"codecs":[{codecs}],"odd":1}}"#
        ));
        ArrayMetadata::parse_v3("/a", document, &mut Vec::new()).unwrap()
    }

    fn regular(chunk_shape: &str) -> String {
        format!(r#"{{"name":"regular","configuration":{{"chunk_shape":{chunk_shape}}}}}"#)
    }

    fn layout(chunk_shape: &[u64], shard_shape: Option<&[u64]>) -> Layout {
        Layout { chunk_shape: chunk_shape.to_vec(), shard_shape: shard_shape.map(<[u64]>::to_vec) }
    }

    /// Returns the copy, after checking that its own documents parse back to it with that very layout.
    fn copy(
        source: &ArrayMetadata,
        format: ZarrFormat,
        codec: TargetCodec,
        layout: &Layout,
    ) -> Result<Conversion, String> {
        let target = Target {
            format: Some(format),
            codec,
            checksum: ChecksumChoice::None,
            layout: Some(layout.clone()),
        };
        let conversion = convert("/a", source, &target)?;
        let metadata = &conversion.metadata;
        let mut defects = Vec::new();
        let Json::Object(document) = metadata.documents().swap_remove(0).1 else {
            unreachable!("documents are objects")
        };
        let parsed = match format {
            ZarrFormat::V2 => {
                ArrayMetadata::parse_v2("/a", document, metadata.attributes.clone(), &mut defects)
            }
            ZarrFormat::V3 => ArrayMetadata::parse_v3("/a", document, &mut defects),
        };
        assert_eq!(defects, []);
        assert_eq!(Layout::of(&parsed.unwrap()).as_ref(), Some(layout));
        Ok(conversion)
    }

    fn codecs(conversion: &Conversion) -> Vec<String> {
        conversion.metadata.codecs.iter().map(ToString::to_string).collect()
    }

    const V2: &str = r#"{"zarr_format":2,"shape":[8,6],"chunks":[2,6],"dtype":"<i2","order":"F","fill_value":0,"filters":[{"id":"delta","dtype":"<i2"}],"compressor":{"id":"zlib","level":1}}"#;
    const ZSTD: &str = r#"{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":5,"checksum":false}},{"name":"crc32c"}"#;

    #[test]
    fn v2_chunks_change_and_filters_that_zkit_does_not_write_are_undone() {
        let source = v2(V2);
        let copy = copy(&source, ZarrFormat::V2, TargetCodec::Keep, &layout(&[8, 3], None)).unwrap();
        assert_eq!(copy.metadata.document.get("chunks").map(ToString::to_string).as_deref(), Some("[8,3]"));
        for key in ["shape", "dtype", "order", "fill_value", "compressor"] {
            assert_eq!(copy.metadata.document.get(key), source.document.get(key), "{key}");
        }
        assert_eq!(copy.metadata.document.get("filters"), Some(&Json::Null));
        assert_eq!(codecs(&copy), ["transpose:1,0", "bytes", "zlib:1"]);
        assert!(copy.note.unwrap().contains("`delta` are undone"));
    }

    #[test]
    fn v2_becomes_shards_with_its_order_inside() {
        let shards = layout(&[4, 3], Some(&[8, 6]));
        let copy = copy(&v2(V2), ZarrFormat::V3, TargetCodec::Zstd(3), &shards).unwrap();
        assert_eq!(codecs(&copy), ["sharding(4,3; transpose:1,0, bytes, zstd:3)"]);
        let sharding = copy.metadata.sharding().unwrap();
        assert_eq!(sharding.index_codecs.len(), 2);
        assert!(!sharding.index_at_start);
        let plain =
            self::copy(&v2(V2), ZarrFormat::V3, TargetCodec::Zstd(3), &layout(&[4, 3], None)).unwrap();
        assert_eq!(codecs(&plain), ["transpose:1,0", "bytes", "zstd:3"]);
    }

    #[test]
    fn v3_chunks_get_shards_around_the_codecs_they_have() {
        let source = v3("[8,6]", &regular("[2,6]"), ZSTD);
        let shards = layout(&[2, 3], Some(&[8, 6]));
        let kept = copy(&source, ZarrFormat::V3, TargetCodec::Keep, &shards).unwrap();
        assert_eq!(codecs(&kept), ["sharding(2,3; bytes, zstd:5, crc32c)"]);
        assert_eq!(kept.metadata.document.get("odd"), Some(&Json::number(1)));
        let recoded = copy(&source, ZarrFormat::V3, TargetCodec::Gzip(1), &shards).unwrap();
        assert_eq!(codecs(&recoded), ["sharding(2,3; bytes, gzip:1)"]);
    }

    #[test]
    fn shards_give_way_to_the_new_layout() {
        let sharded = format!(
            r#"{{"name":"transpose","configuration":{{"order":[1,0]}}}},
               {{"name":"sharding_indexed","configuration":{{"chunk_shape":[3,2],"codecs":[{ZSTD}],
                 "index_codecs":[{{"name":"bytes"}}],"index_location":"start"}}}},{{"name":"crc32c"}}"#
        );
        let source = v3("[8,6]", &regular("[4,6]"), &sharded);
        assert_eq!(Layout::of(&source), Some(layout(&[2, 3], Some(&[4, 6]))));
        let plain = copy(&source, ZarrFormat::V3, TargetCodec::Keep, &layout(&[8, 1], None)).unwrap();
        assert_eq!(codecs(&plain), ["transpose:1,0", "bytes", "zstd:5", "crc32c"]);
        let shards = layout(&[4, 1], Some(&[8, 2]));
        let other = copy(&source, ZarrFormat::V3, TargetCodec::Zstd(9), &shards).unwrap();
        assert_eq!(codecs(&other), ["sharding(4,1; transpose:1,0, bytes, zstd:9)"]);
        let v2 = copy(&source, ZarrFormat::V2, TargetCodec::Zstd(9), &layout(&[8, 1], None)).unwrap();
        assert_eq!(v2.metadata.document.get("order"), Some(&Json::string("F")));
    }

    #[test]
    fn a_rectilinear_grid_becomes_regular() {
        let grid = r#"{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[1,7],6]}}"#;
        let source = v3("[8,6]", grid, ZSTD);
        assert_eq!(Layout::of(&source), None);
        for format in [ZarrFormat::V2, ZarrFormat::V3] {
            copy(&source, format, TargetCodec::Zstd(3), &layout(&[4, 6], None)).unwrap();
        }
    }

    #[test]
    fn says_which_layouts_cannot_be() {
        let source = v2(V2);
        let refused = |source: &ArrayMetadata, format, wanted: Layout| {
            copy(source, format, TargetCodec::Zstd(3), &wanted).unwrap_err()
        };
        let shards = layout(&[4, 3], Some(&[8, 3]));
        assert!(refused(&source, ZarrFormat::V2, shards).contains("shards need Zarr v3"));
        let uneven = layout(&[4, 4], Some(&[8, 6]));
        assert_eq!(
            refused(&source, ZarrFormat::V3, uneven),
            "shards of 6 elements do not hold whole chunks of 4 along `x`"
        );
        assert!(refused(&source, ZarrFormat::V3, layout(&[4], None)).contains("the array has 2"));
        assert!(refused(&source, ZarrFormat::V3, layout(&[4, 0], None)).contains("length 0"));
    }

    #[test]
    fn text_changes_its_chunks_and_gets_shards() {
        let source = v3_of("string", "[8]", &regular("[2]"), r#"{"name":"vlen-utf8"},{"name":"zstd"}"#);
        let plain = copy(&source, ZarrFormat::V3, TargetCodec::Keep, &layout(&[5], None)).unwrap();
        assert_eq!(codecs(&plain), ["vlen-utf8", "zstd:0"]);
        let sharded = copy(&source, ZarrFormat::V3, TargetCodec::Keep, &layout(&[2], Some(&[4]))).unwrap();
        assert_eq!(codecs(&sharded), ["sharding(2; vlen-utf8, zstd:0)"]);
    }

    #[test]
    fn arrays_without_elements_and_without_dimensions_are_laid_out() {
        let empty = v3("[0,5]", &regular("[1,5]"), ZSTD);
        copy(&empty, ZarrFormat::V3, TargetCodec::Keep, &layout(&[1, 2], Some(&[1, 4]))).unwrap();
        let scalar = v3("[]", &regular("[]"), ZSTD);
        copy(&scalar, ZarrFormat::V3, TargetCodec::Keep, &layout(&[], None)).unwrap();
    }
}
