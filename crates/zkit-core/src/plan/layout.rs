//! From what users say of chunks to the layout of each array; pure.

mod parse;
mod shapes;

use std::collections::BTreeSet;

use self::shapes::Space;
use super::access::{Access, Dimensions};
use crate::error::{Error, ErrorKind, Result as CoreResult};
use crate::grid::product;
use crate::metadata::{ArrayMetadata, CodecSpec, Layout, ZarrFormat};
use crate::units::Bytes;

/// Decoded bytes of automatic chunks, unless the user says otherwise.
pub const CHUNK_TARGET_BYTES: u64 = 4 << 20;
/// Decoded bytes of one blosc frame at most; its header counts in 31 bits and is part of the buffer.
const BLOSC_MOST_BYTES: u64 = (1 << 31) - 1 - 16;
/// Elements of variable length are taken to have so many bytes.
const VARIABLE_ITEM_BYTES: u64 = 32;

/// Where the chunks of a copy are to lie, for all arrays alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutWish {
    /// The chunks.
    pub chunks: ChunksWish,
    /// The shards.
    pub shards: ShardsWish,
    /// How the copy will be read: what automatic lengths follow.
    pub access: Access,
    /// Decoded bytes of automatic chunks at most.
    pub target_bytes: u64,
}

/// What is wanted of chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunksWish {
    /// As they are.
    Keep,
    /// What suits the access.
    Auto,
    /// Lengths of some dimensions; the others are kept.
    Lengths(Vec<(DimensionKey, ChunkLength)>),
}

/// What is wanted of shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardsWish {
    /// As they are, rounded up to whole chunks; none in v2.
    Keep,
    /// No shards.
    None,
    /// Up to 256 MiB each, where at least 16 chunks share one.
    Auto,
    /// Lengths of some dimensions in elements; the others are kept.
    Lengths(Vec<(DimensionKey, ChunkLength)>),
}

/// A dimension of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DimensionKey {
    /// By its name.
    Name(String),
    /// By its number from 0, where it has no name.
    Number(usize),
}

/// The length of chunks along one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkLength {
    /// All of the dimension.
    Whole,
    /// So many elements, at least 1.
    Elements(u64),
    /// What suits the access.
    Auto,
}

impl LayoutWish {
    /// Returns the wish to leave every array as it is.
    pub fn keep() -> Self {
        Self {
            chunks: ChunksWish::Keep,
            shards: ShardsWish::Keep,
            access: Access::Points,
            target_bytes: CHUNK_TARGET_BYTES,
        }
    }

    /// Returns the layout of an array's copy in `format` (the source's, if none is given), or `None` where it has none of
    /// the named dimensions or nothing changes.
    ///
    /// Errors say which dimension, and why not.
    ///
    /// ```
    /// use zkit_core::metadata::{ArrayMetadata, Json};
    /// use zkit_core::plan::LayoutWish;
    ///
    /// let text = br#"{"zarr_format":2,"shape":[8760,721],"chunks":[1,721],"dtype":"<f4","fill_value":null}"#;
    /// let Ok(Json::Object(document)) = Json::parse(text) else { panic!() };
    /// let metadata = ArrayMetadata::parse_v2("/t", document, Default::default(), &mut Vec::new()).unwrap();
    /// let wish = LayoutWish { chunks: "0=-1,1=32".parse().unwrap(), ..LayoutWish::keep() };
    /// assert_eq!(wish.resolve(&metadata, None).unwrap().unwrap().chunk_shape, [8760, 32]);
    /// ```
    pub fn resolve(
        &self,
        metadata: &ArrayMetadata,
        format: Option<ZarrFormat>,
    ) -> Result<Option<Layout>, String> {
        if metadata.shape().is_empty() {
            return Ok(None);
        }
        let chunk_shape = self.chunk_shape(metadata)?;
        let touched = chunk_shape.is_some();
        let chunk_shape = chunk_shape.unwrap_or_else(|| metadata.chunk_shape());
        let shards = self.shard_shape(metadata, &chunk_shape, format.unwrap_or(metadata.format))?;
        if !touched && shards.is_none() {
            return Ok(None);
        }
        let layout = Layout { chunk_shape, shard_shape: shards.unwrap_or(None) };
        Ok((Layout::of(metadata).as_ref() != Some(&layout)).then_some(layout))
    }

    /// Returns an error text if a named dimension is in no array at all; it lists those that are.
    pub fn unknown_dimensions<'a>(
        &self,
        arrays: impl IntoIterator<Item = &'a ArrayMetadata>,
    ) -> Option<String> {
        let lists = [self.chunks.lengths(), self.shards.lengths()];
        let mut missing: Vec<DimensionKey> =
            lists.into_iter().flatten().map(|(key, _)| key.clone()).collect();
        if let Access::Batch(lengths) = &self.access {
            missing.extend(lengths.iter().map(|(name, _)| DimensionKey::Name(name.clone())));
        }
        let mut names = BTreeSet::new();
        for array in arrays {
            missing.retain(|key| key.dimension_of(array).is_none());
            names.extend(array.dimension_names.iter().flatten().flatten().map(String::as_str));
        }
        let known = match names.len() {
            0 => "the arrays have dimensions without names; number them from 0, such as 0=-1,1=32".to_owned(),
            _ => {
                let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
                format!("there are {}", names.join(", "))
            }
        };
        missing.first().map(|key| match key {
            DimensionKey::Name(name) => format!("no array has the dimension `{name}`; {known}"),
            DimensionKey::Number(number) => {
                format!("no array has a dimension {number} without name; {known}")
            }
        })
    }

    /// Returns the chunk shape as wished, or `None` where the wish does not touch the array.
    fn chunk_shape(&self, metadata: &ArrayMetadata) -> Result<Option<Vec<u64>>, String> {
        let shape = metadata.shape();
        let mut given: Vec<Option<u64>> = match &self.chunks {
            ChunksWish::Keep => return Ok(None),
            ChunksWish::Auto => vec![None; shape.len()],
            ChunksWish::Lengths(_) => metadata.chunk_shape().into_iter().map(Some).collect(),
        };
        let lengths = found(self.chunks.lengths(), metadata)?;
        if lengths.is_empty() && self.chunks != ChunksWish::Auto {
            return Ok(None);
        }
        for (dimension, length) in lengths {
            let whole = shape[dimension].max(1);
            given[dimension] = match length {
                ChunkLength::Whole => Some(whole),
                ChunkLength::Elements(elements) => Some(elements.clamp(1, whole)),
                ChunkLength::Auto => None,
            };
        }
        let space = Space {
            dimensions: Dimensions { shape, names: metadata.dimension_names.as_deref() },
            given: &given,
            item_bytes: metadata.data_type.item_bytes().unwrap_or(VARIABLE_ITEM_BYTES),
            target_bytes: self.target_bytes,
        };
        Ok(Some(shapes::chunk_shape(&self.access, space)))
    }

    /// Returns the shard shape as wished (`Some(None)` for none at all), or `None` where the wish does not touch it.
    fn shard_shape(
        &self,
        metadata: &ArrayMetadata,
        chunk_shape: &[u64],
        format: ZarrFormat,
    ) -> Result<Option<Option<Vec<u64>>>, String> {
        let stored = metadata.sharding().map(|_| metadata.grid.largest_chunk_shape());
        let lengths = found(self.shards.lengths(), metadata)?;
        match &self.shards {
            ShardsWish::None => return Ok(Some(None)),
            ShardsWish::Auto => {
                if format == ZarrFormat::V2 {
                    return Err(NO_SHARDS_IN_V2.to_owned());
                }
                let item_bytes = metadata.data_type.item_bytes().unwrap_or(VARIABLE_ITEM_BYTES);
                return Ok(Some(shapes::shard_shape(metadata.shape(), chunk_shape, item_bytes)));
            }
            ShardsWish::Lengths(_) if !lengths.is_empty() => {}
            ShardsWish::Keep | ShardsWish::Lengths(_) => {
                let kept = stored.filter(|_| format == ZarrFormat::V3);
                return Ok(kept.map(|shape| Some(whole_chunks(&shape, chunk_shape))));
            }
        }
        if format == ZarrFormat::V2 {
            return Err(NO_SHARDS_IN_V2.to_owned());
        }
        let mut shards = whole_chunks(stored.as_deref().unwrap_or(chunk_shape), chunk_shape);
        for (dimension, length) in lengths {
            let chunk = chunk_shape[dimension];
            let whole = rounded_up(metadata.shape()[dimension].max(1), chunk);
            shards[dimension] = match length {
                ChunkLength::Whole => whole,
                ChunkLength::Elements(elements) if elements >= whole => whole,
                ChunkLength::Elements(elements) if elements.is_multiple_of(chunk) => elements,
                ChunkLength::Elements(elements) => {
                    let name = metadata.dimension_label(dimension);
                    return Err(format!(
                        "shards of {elements} elements do not hold whole chunks of {chunk} along {name}"
                    ));
                }
                ChunkLength::Auto => {
                    return Err("shards have lengths, or are `auto` as a whole".to_owned());
                }
            };
        }
        Ok(Some(Some(shards)))
    }
}

const NO_SHARDS_IN_V2: &str = "shards need Zarr v3: add --zarr-format 3";

impl ChunksWish {
    fn lengths(&self) -> &[(DimensionKey, ChunkLength)] {
        match self {
            Self::Lengths(lengths) => lengths,
            _ => &[],
        }
    }
}

impl ShardsWish {
    fn lengths(&self) -> &[(DimensionKey, ChunkLength)] {
        match self {
            Self::Lengths(lengths) => lengths,
            _ => &[],
        }
    }
}

impl DimensionKey {
    /// Returns which dimension of an array this is. Numbers are for dimensions without a name, so that `0=24` does not
    /// cut coordinates.
    fn dimension_of(&self, metadata: &ArrayMetadata) -> Option<usize> {
        let names = metadata.dimension_names.as_deref();
        let is_named = |name: &str| {
            names.and_then(|names| names.iter().position(|other| other.as_deref() == Some(name)))
        };
        match self {
            Self::Name(name) => is_named(name),
            Self::Number(number) => {
                let nameless = names.is_none_or(|names| names.get(*number).is_some_and(Option::is_none));
                let nameless = (nameless && *number < metadata.shape().len()).then_some(*number);
                is_named(&number.to_string()).or(nameless)
            }
        }
    }
}

/// Returns the lengths of dimensions that an array has.
fn found(
    lengths: &[(DimensionKey, ChunkLength)],
    metadata: &ArrayMetadata,
) -> Result<Vec<(usize, ChunkLength)>, String> {
    let mut found: Vec<(usize, ChunkLength)> = Vec::new();
    for (key, length) in lengths {
        let Some(dimension) = key.dimension_of(metadata) else { continue };
        if found.iter().any(|(other, _)| *other == dimension) {
            return Err(format!("{} has two lengths", metadata.dimension_label(dimension)));
        }
        found.push((dimension, *length));
    }
    Ok(found)
}

fn whole_chunks(shape: &[u64], chunk_shape: &[u64]) -> Vec<u64> {
    shape.iter().zip(chunk_shape).map(|(&length, &chunk)| rounded_up(length, chunk)).collect()
}

/// Returns the least number of whole chunks that hold `length`, in elements; the most there is, where that overflows.
fn rounded_up(length: u64, chunk: u64) -> u64 {
    let chunk = chunk.max(1);
    length.checked_next_multiple_of(chunk).unwrap_or(u64::MAX / chunk * chunk)
}

/// Refuses chunks that are to be written as blosc frames larger than these can be.
///
/// `metadata` is that of the copy. Fails with kind `Unsupported`.
pub fn check_frames(path: &str, metadata: &ArrayMetadata) -> CoreResult<()> {
    let frames = |codecs: &[CodecSpec]| codecs.iter().any(|spec| matches!(spec, CodecSpec::Blosc(_)));
    let inner = metadata.sharding().is_some_and(|sharding| frames(&sharding.codecs));
    let chunk_shape = match inner {
        true => metadata.chunk_shape(),
        false if frames(&metadata.codecs) => metadata.grid.largest_chunk_shape(),
        false => return Ok(()),
    };
    let Some(item_bytes) = metadata.data_type.item_bytes() else { return Ok(()) };
    let bytes = product(&chunk_shape).unwrap_or(u64::MAX).saturating_mul(item_bytes);
    if bytes <= BLOSC_MOST_BYTES {
        return Ok(());
    }
    let message = format!(
        "could not plan a copy of `{path}`: its chunks of {chunk_shape:?} decode to {}, a blosc frame holds less than {}",
        Bytes(bytes),
        Bytes(1 << 31)
    );
    Err(Error::new(ErrorKind::Unsupported, message)
        .with_hint("pass --codec zstd:3, which has no such limit, or smaller --chunks"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{Json, Object};

    fn object(text: &str) -> Object {
        match Json::parse(text.as_bytes()).unwrap() {
            Json::Object(object) => object,
            _ => unreachable!("tests give objects"),
        }
    }

    fn v2(shape: &str, chunks: &str, names: &str) -> ArrayMetadata {
        let document = object(&format!(
            r#"{{"zarr_format":2,"shape":{shape},"chunks":{chunks},"dtype":"<f4","fill_value":0,"compressor":{{"id":"blosc"}}}}"#
        ));
        let attributes = match names {
            "" => Object::default(),
            names => object(&format!(r#"{{"_ARRAY_DIMENSIONS":{names}}}"#)),
        };
        ArrayMetadata::parse_v2("/a", document, attributes, &mut Vec::new()).unwrap()
    }

    fn sharded(data_type: &str, codec: &str) -> ArrayMetadata {
        let fill = if data_type == "string" { "\"\"" } else { "0" };
        let document = object(&format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":[160,721],"data_type":"{data_type}","fill_value":{fill},
                "dimension_names":["time","latitude"],"chunk_key_encoding":{{"name":"default"}},
                "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[40,800]}}}},
                "codecs":[{{"name":"sharding_indexed","configuration":{{"chunk_shape":[10,100],"codecs":[{{"name":"{codec}"}}]}}}}]}}"#
        ));
        ArrayMetadata::parse_v3("/a", document, &mut Vec::new()).unwrap()
    }

    fn weather() -> ArrayMetadata {
        v2("[8760,721,1440]", "[1,721,1440]", r#"["time","latitude","longitude"]"#)
    }

    fn wish(chunks: &str, shards: &str) -> LayoutWish {
        let chunks = chunks.parse().unwrap();
        LayoutWish { chunks, shards: shards.parse().unwrap(), ..LayoutWish::keep() }
    }

    fn chunks(metadata: &ArrayMetadata, text: &str) -> Option<Vec<u64>> {
        wish(text, "keep").resolve(metadata, None).unwrap().map(|layout| layout.chunk_shape)
    }

    fn shards(metadata: &ArrayMetadata, chunks: &str, shards: &str) -> Result<Option<Layout>, String> {
        wish(chunks, shards).resolve(metadata, Some(ZarrFormat::V3))
    }

    #[test]
    fn named_lengths_are_clipped_and_others_kept() {
        let weather = weather();
        assert_eq!(chunks(&weather, "time=-1,latitude=32"), Some(vec![8760, 32, 1440]));
        assert_eq!(chunks(&weather, "time=9000,level=3"), Some(vec![8760, 721, 1440]));
        assert_eq!(chunks(&weather, "time=auto,latitude=64,longitude=64"), Some(vec![251, 64, 64]));
        assert_eq!(chunks(&v2("[0,5]", "[10,5]", ""), "0=4"), Some(vec![1, 5]));
    }

    #[test]
    fn numbers_are_for_dimensions_without_name() {
        assert_eq!(chunks(&v2("[10,4]", "[1,4]", ""), "0=-1"), Some(vec![10, 4]));
        assert_eq!(chunks(&weather(), "0=-1"), None);
        assert_eq!(chunks(&v2("[10,4]", "[1,4]", r#"["1","0"]"#), "0=2"), Some(vec![1, 2]));
    }

    #[test]
    fn what_does_not_change_is_no_layout() {
        let weather = weather();
        for text in ["keep", "level=3", "time=1,latitude=-1", "time=1"] {
            assert_eq!(chunks(&weather, text), None, "{text}");
        }
        assert_eq!(wish("auto", "auto").resolve(&v2("[]", "[]", ""), Some(ZarrFormat::V3)), Ok(None));
        assert_eq!(wish("time=10", "time=40").resolve(&sharded("int16", "bytes"), None), Ok(None));
        assert_eq!(wish("keep", "none").resolve(&weather, None), Ok(None));
    }

    #[test]
    fn automatic_chunks_follow_the_access() {
        let wish = LayoutWish { access: Access::Maps, ..wish("auto", "keep") };
        let whole = v2("[8760,721,1440]", "[24,100,100]", r#"["time","latitude","longitude"]"#);
        assert_eq!(wish.resolve(&whole, None).unwrap().unwrap().chunk_shape, [1, 721, 1440]);
        assert_eq!(wish.resolve(&weather(), None), Ok(None));
        // coordinates: one chunk
        let latitude = v2("[721]", "[32]", r#"["latitude"]"#);
        assert_eq!(wish.resolve(&latitude, None).unwrap().unwrap().chunk_shape, [721]);
    }

    #[test]
    fn shards_are_kept_around_new_chunks_and_rounded_up() {
        let source = sharded("int16", "bytes");
        let layout = wish("time=16", "keep").resolve(&source, None).unwrap().unwrap();
        assert_eq!((layout.chunk_shape, layout.shard_shape), (vec![16, 100], Some(vec![48, 800])));
        let plain = wish("time=16", "keep").resolve(&source, Some(ZarrFormat::V2)).unwrap().unwrap();
        assert_eq!(plain.shard_shape, None);
        let none = wish("keep", "none").resolve(&source, None).unwrap().unwrap();
        assert_eq!((none.chunk_shape, none.shard_shape), (vec![10, 100], None));
        assert_eq!(wish("keep", "keep").resolve(&source, Some(ZarrFormat::V2)), Ok(None));
    }

    #[test]
    fn shards_have_lengths_in_elements() {
        let layout = shards(&weather(), "time=-1,latitude=32,longitude=32", "time=-1,latitude=256").unwrap();
        assert_eq!(layout.unwrap().shard_shape.unwrap(), [8760, 256, 32]);
        let whole = shards(&weather(), "latitude=32", "latitude=9999").unwrap().unwrap();
        assert_eq!(whole.shard_shape.unwrap(), [1, 736, 1440]);
        let uneven = shards(&weather(), "latitude=32", "latitude=100").unwrap_err();
        assert_eq!(uneven, "shards of 100 elements do not hold whole chunks of 32 along `latitude`");
        let auto = shards(&weather(), "keep", "auto").unwrap().unwrap();
        assert_eq!(auto.shard_shape.unwrap(), [60, 721, 1440]);
        // one chunk is no shard
        assert_eq!(shards(&v2("[721]", "[721]", r#"["latitude"]"#), "auto", "auto"), Ok(None));
    }

    #[test]
    fn refuses_shards_where_there_can_be_none() {
        for text in ["auto", "time=-1"] {
            assert!(wish("keep", text).resolve(&weather(), None).unwrap_err().contains("shards need Zarr v3"));
        }
    }

    #[test]
    fn text_gets_shards_as_numbers_do() {
        let text = sharded("string", "vlen-utf8");
        let layout = |shards| wish("keep", shards).resolve(&text, None).unwrap().unwrap();
        assert_eq!(layout("time=80").shard_shape.unwrap()[0], 80);
        assert!(layout("auto").shard_shape.unwrap()[0] > 10);
    }

    #[test]
    fn a_dimension_that_no_array_has_is_named_with_those_there_are() {
        let arrays = [weather(), v2("[721]", "[721]", r#"["latitude"]"#)];
        let message = wish("time=1,lat=32", "keep").unknown_dimensions(&arrays).unwrap();
        assert_eq!(message, "no array has the dimension `lat`; there are `latitude`, `longitude`, `time`");
        assert_eq!(wish("time=1", "longitude=720").unknown_dimensions(&arrays), None);
        assert!(wish("0=1", "keep").unknown_dimensions(&arrays).is_some());
        assert!(wish("keep", "level=1").unknown_dimensions(&arrays).is_some());
        let nameless = [v2("[4,4]", "[4,4]", "")];
        assert_eq!(wish("1=1", "keep").unknown_dimensions(&nameless), None);
        assert!(wish("x=1", "keep").unknown_dimensions(&nameless).unwrap().contains("without names"));
    }

    #[test]
    fn chunks_beyond_what_a_blosc_frame_holds_are_refused() {
        let error = check_frames("/a", &v2("[8760,721,1440]", "[600,721,1440]", "")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("2.3 GiB"), "{error}");
        assert!(error.hint().unwrap().contains("zstd"));
        assert!(check_frames("/a", &weather()).is_ok());
    }
}
