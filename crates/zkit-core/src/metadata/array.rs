//! The metadata of one array, v2 or v3, in one model beside the document it came from.

use std::fmt;

use super::codec_faults::codec_faults;
use super::codec_spec::{self, CodecSpec, ShardingSpec};
use super::data_type::DataType;
use super::data_type_parse;
use super::defect::{Defect, Loss};
use super::dimensions;
use super::fill::{self, FillValue};
use super::json::{Json, Object};
use crate::grid::{Grid, MAX_RANK, product};

/// The Zarr format of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZarrFormat {
    /// Version 2: `.zarray`, `.zgroup`, `.zattrs`.
    V2,
    /// Version 3: `zarr.json`.
    V3,
}

impl ZarrFormat {
    /// Returns 2 or 3.
    pub fn number(self) -> u8 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

impl fmt::Display for ZarrFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.number())
    }
}

/// How chunk indices become keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkKeys {
    /// v3's `default`: `c/0/1`, with the given separator.
    Default(char),
    /// v2's: `0.1`, with the given separator; `0` for no dimension.
    V2(char),
}

impl ChunkKeys {
    /// Appends the key of a chunk, relative to its array.
    pub fn push_key(&self, chunk_index: &[u64], key: &mut String) {
        use fmt::Write as _;
        let (prefix, separator) = match self {
            Self::Default(separator) => ("c", *separator),
            Self::V2(separator) => ("", *separator),
        };
        key.push_str(prefix);
        if chunk_index.is_empty() && prefix.is_empty() {
            key.push('0');
        }
        for (position, index) in chunk_index.iter().enumerate() {
            if position > 0 || !prefix.is_empty() {
                key.push(separator);
            }
            // writing to a String cannot fail
            let _ = write!(key, "{index}");
        }
    }

    /// Parses a key relative to its array back into a chunk index; `None` for other objects.
    pub fn parse_key(&self, key: &str, rank: usize) -> Option<Vec<u64>> {
        let (rest, separator) = match self {
            Self::Default(separator) => {
                let rest = key.strip_prefix('c')?;
                if rank == 0 {
                    return rest.is_empty().then(Vec::new);
                }
                (rest.strip_prefix(*separator)?, *separator)
            }
            Self::V2(_) if rank == 0 => return (key == "0").then(Vec::new),
            Self::V2(separator) => (key, *separator),
        };
        let index: Option<Vec<u64>> = rest
            .split(separator)
            .map(|part| {
                let plain = part.len() == 1 || !part.starts_with('0');
                part.parse().ok().filter(|_| plain && part.bytes().all(|byte| byte.is_ascii_digit()))
            })
            .collect();
        index.filter(|index| index.len() == rank)
    }
}

/// Everything that zkit knows of an array from its metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayMetadata {
    /// The Zarr format.
    pub format: ZarrFormat,
    /// The type of elements.
    pub data_type: DataType,
    /// The grid of stored chunks: shards where sharded. It holds the array's shape.
    pub grid: Grid,
    /// How chunk indices become keys.
    pub chunk_keys: ChunkKeys,
    /// What absent chunks read as.
    pub fill_value: FillValue,
    /// The codecs in encoding order.
    pub codecs: Vec<CodecSpec>,
    /// The names of dimensions, where given.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// User attributes, as they were written.
    pub attributes: Object,
    /// The document: `.zarray`, or `zarr.json` with `null` for its attributes.
    pub document: Object,
}

/// Units of this size and more are never decoded: no reader has the memory.
const ABSURD_UNIT_BYTES: u64 = 1 << 36;
/// Stored chunks (shards) of this size and more are never written.
const ABSURD_CHUNK_BYTES: u64 = 1 << 40;

/// What is wrong with metadata: the rule, and what was found.
type Fault = (&'static str, String);

/// What the specification leaves to extensions, and zkit does not know.
fn unsupported(message: impl Into<String>) -> Fault {
    ("unsupported-extension", message.into())
}

fn malformed(message: impl Into<String>) -> Fault {
    ("malformed-metadata", message.into())
}

impl ArrayMetadata {
    /// Reads `.zarray` and `.zattrs`; what is wrong but leaves the array readable is added to `defects`.
    pub fn parse_v2(
        path: &str,
        document: Object,
        attributes: Object,
        defects: &mut Vec<Defect>,
    ) -> Result<Self, Defect> {
        parse_v2(path, document, attributes, defects)
            .map_err(|(rule, message)| Defect::losing(Loss::Node, path, rule, message))
    }

    /// Reads `zarr.json` of an array; what is wrong but leaves the array readable is added to `defects`.
    pub fn parse_v3(path: &str, document: Object, defects: &mut Vec<Defect>) -> Result<Self, Defect> {
        parse_v3(path, document, defects)
            .map_err(|(rule, message)| Defect::losing(Loss::Node, path, rule, message))
    }

    /// Returns the array's shape.
    pub fn shape(&self) -> &[u64] {
        self.grid.shape()
    }

    /// Returns the sharding of the array, if its chunks are shards.
    pub fn sharding(&self) -> Option<&ShardingSpec> {
        self.codecs.iter().find_map(|spec| match spec {
            CodecSpec::Sharding(sharding) => Some(&**sharding),
            _ => None,
        })
    }

    /// Returns the shape of the smallest unit that decodes alone: the inner chunk where sharded.
    pub fn chunk_shape(&self) -> Vec<u64> {
        let Some(sharding) = self.sharding() else { return self.grid.largest_chunk_shape() };
        let mut shape = sharding.chunk_shape.clone();
        for (stored, array) in self.sharded_dimensions().into_iter().enumerate() {
            shape[array] = sharding.chunk_shape[stored];
        }
        shape
    }

    /// Returns the array's dimensions in the order in which shards hold them, behind transposes.
    fn sharded_dimensions(&self) -> Vec<usize> {
        let mut dimensions: Vec<usize> = (0..self.grid.rank()).collect();
        for spec in &self.codecs {
            match spec {
                CodecSpec::Transpose(order) => dimensions = order.iter().map(|&at| dimensions[at]).collect(),
                CodecSpec::Sharding(_) => break,
                _ => {}
            }
        }
        dimensions
    }

    /// Returns the decoded bytes of the whole array, or `None` without fixed element size or on overflow.
    pub fn decoded_bytes(&self) -> Option<u64> {
        product(self.shape())?.checked_mul(self.data_type.item_bytes()?)
    }

    /// Returns the decoded bytes of one stored chunk (of the largest one).
    pub fn chunk_decoded_bytes(&self) -> Option<u64> {
        product(&self.grid.largest_chunk_shape())?.checked_mul(self.data_type.item_bytes()?)
    }

    /// Returns a bound on the bytes of one stored chunk, where codecs make of it what it is at worst: one that does not help adds
    /// a little. Shards of tiny inner chunks, and filters to wider types, may take up to twice that.
    pub fn chunk_stored_bytes_most(&self) -> Option<u64> {
        let decoded = self.chunk_decoded_bytes()?;
        Some(decoded.saturating_add(decoded / 64).saturating_add(64 << 10))
    }

    /// Returns the JSON of the data type as the document has it.
    pub fn data_type_json(&self) -> &Json {
        let key = match self.format {
            ZarrFormat::V2 => "dtype",
            ZarrFormat::V3 => "data_type",
        };
        self.document.get(key).unwrap_or(&Json::Null)
    }

    /// Returns the JSON of the codecs: v3's list, or v2's `filters`, `compressor` and `order`.
    pub fn codecs_json(&self) -> Json {
        match self.format {
            ZarrFormat::V2 => ["order", "filters", "compressor"]
                .into_iter()
                .map(|key| (key, self.document.get(key).cloned().unwrap_or(Json::Null)))
                .collect::<Object>()
                .into(),
            ZarrFormat::V3 => self.document.get("codecs").cloned().unwrap_or(Json::Null),
        }
    }

    /// Returns whether a codec sums chunks up, so that decoding one tells if a bit of it changed.
    pub fn sums_up_chunks(&self) -> bool {
        self.codecs.iter().any(CodecSpec::sums_up)
    }

    /// Returns the names of codecs that zkit does not decode.
    pub fn unknown_codecs(&self) -> Vec<&str> {
        self.codecs.iter().flat_map(CodecSpec::unknown_names).collect()
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

fn parse_v2(
    path: &str,
    document: Object,
    attributes: Object,
    defects: &mut Vec<Defect>,
) -> Result<ArrayMetadata, Fault> {
    if document.get("zarr_format").and_then(Json::as_integer::<u8>) != Some(2) {
        return Err(malformed("zarr_format is not 2"));
    }
    let shape = lengths(&document, "shape")?;
    let chunk_shape = lengths(&document, "chunks")?;
    let grid = regular_grid(&shape, &chunk_shape)?;
    let object_type = object_type(&document);
    let dtype = document.get("dtype").ok_or_else(|| malformed("no dtype"))?;
    let (data_type, swaps) = data_type_parse::parse_v2(dtype, &object_type).map_err(malformed)?;
    let codecs = codec_spec::parse_v2(&document, shape.len(), &data_type, &swaps).map_err(malformed)?;
    let fill_value = fill::parse_v2(document.get("fill_value").unwrap_or(&Json::Null), &data_type, &swaps);
    let separator = match document.get("dimension_separator").map(Json::as_str) {
        None | Some(Some(".")) => '.',
        Some(Some("/")) => '/',
        Some(_) => return Err(malformed("dimension_separator is neither \".\" nor \"/\"")),
    };
    let dimension_names = dimensions::of_v2(&document, &attributes, shape.len());
    let metadata = ArrayMetadata {
        format: ZarrFormat::V2,
        data_type,
        grid,
        chunk_keys: ChunkKeys::V2(separator),
        fill_value,
        codecs,
        dimension_names,
        attributes,
        document,
    };
    check(path, &metadata, defects)?;
    Ok(metadata)
}

/// Returns what `|O` means: v2 says it with the first filter that makes objects.
fn object_type(document: &Object) -> DataType {
    let filters = document.get("filters").and_then(Json::as_array).unwrap_or(&[]);
    let mut types = filters.iter().filter_map(|filter| match filter.get("id").and_then(Json::as_str)? {
        "vlen-utf8" => Some(DataType::String),
        "vlen-bytes" => Some(DataType::Bytes),
        "vlen-array" => {
            let inner = filter.get("dtype")?;
            Some(DataType::VlenArray(Box::new(data_type_parse::parse_v2(inner, &DataType::Object).ok()?.0)))
        }
        _ => None,
    });
    types.next_back().unwrap_or(DataType::Object)
}

fn parse_v3(path: &str, mut document: Object, defects: &mut Vec<Defect>) -> Result<ArrayMetadata, Fault> {
    if document.get("zarr_format").and_then(Json::as_integer::<u8>) != Some(3) {
        return Err(malformed("zarr_format is not 3"));
    }
    if let Some(name) = must_understand(&document) {
        return Err(unsupported(format!(
            "the field `{name}` is not one that zkit knows, and must be understood"
        )));
    }
    let attributes = match document.take("attributes") {
        None => Object::default(),
        Some(Json::Object(attributes)) => attributes,
        Some(_) => return Err(malformed("attributes is not an object")),
    };
    let shape = lengths(&document, "shape")?;
    let (name, configuration) = extension(&document, "chunk_grid")?;
    let grid = match name {
        "regular" => regular_grid(&shape, &lengths(configuration, "chunk_shape")?)?,
        "rectilinear" => rectilinear_grid(&shape, configuration)?,
        other => return Err(unsupported(format!("the chunk grid `{other}` is not one that zkit knows"))),
    };
    let (name, configuration) = extension(&document, "chunk_key_encoding")?;
    let separator = match configuration.get("separator").map(Json::as_str) {
        None => None,
        Some(Some(".")) => Some('.'),
        Some(Some("/")) => Some('/'),
        Some(_) => return Err(malformed("the separator of chunk_key_encoding is neither \".\" nor \"/\"")),
    };
    let chunk_keys = match name {
        "default" => ChunkKeys::Default(separator.unwrap_or('/')),
        "v2" => ChunkKeys::V2(separator.unwrap_or('.')),
        other => {
            return Err(unsupported(format!("the chunk key encoding `{other}` is not one that zkit knows")));
        }
    };
    let data_type = document.get("data_type").ok_or_else(|| malformed("no data_type"))?;
    let data_type = data_type_parse::parse_v3(data_type).map_err(|message| {
        // an object names an extension; a bare name that nobody registered is a slip
        let extension = data_type.as_object().is_some() && message.starts_with("data type `");
        if extension { unsupported(message) } else { malformed(message) }
    })?;
    let codecs = document.get("codecs").ok_or_else(|| malformed("no codecs"))?;
    let codecs = codec_spec::parse_v3(codecs, shape.len(), &data_type).map_err(malformed)?;
    let fill_json = document.get("fill_value").ok_or_else(|| malformed("no fill_value"))?;
    let fill_value = fill::parse_v3(fill_json, &data_type);
    let dimension_names = dimensions::of_v3(&document, shape.len()).unwrap_or_else(|message| {
        defects.push(Defect::remark(path, "malformed-metadata", message));
        None
    });
    let metadata = ArrayMetadata {
        format: ZarrFormat::V3,
        data_type,
        grid,
        chunk_keys,
        fill_value,
        codecs,
        dimension_names,
        attributes,
        document,
    };
    check(path, &metadata, defects)?;
    Ok(metadata)
}

/// Returns the first field that a v3 reader must understand and zkit does not.
/// Source: v3 core specification, "Extension points".
fn must_understand(document: &Object) -> Option<&str> {
    const KNOWN: [&str; 12] = [
        "zarr_format",
        "node_type",
        "shape",
        "data_type",
        "chunk_grid",
        "chunk_key_encoding",
        "fill_value",
        "codecs",
        "attributes",
        "storage_transformers",
        "dimension_names",
        "consolidated_metadata",
    ];
    if document
        .get("storage_transformers")
        .and_then(Json::as_array)
        .is_some_and(|transformers| !transformers.is_empty())
    {
        return Some("storage_transformers");
    }
    let mut unknown = document.iter().filter(|(key, value)| {
        !KNOWN.contains(key)
            && value.as_object().is_some()
            && value.get("must_understand").and_then(Json::as_bool) != Some(false)
    });
    unknown.next().map(|(key, _)| key)
}

/// Returns the name and configuration of an extension point, short form included.
fn extension<'a>(document: &'a Object, key: &str) -> Result<(&'a str, &'a Object), Fault> {
    static EMPTY: std::sync::OnceLock<Object> = std::sync::OnceLock::new();
    let empty = EMPTY.get_or_init(Object::default);
    match document.get(key) {
        Some(Json::String(name)) => Ok((name, empty)),
        Some(Json::Object(object)) => {
            let name = object
                .get("name")
                .and_then(Json::as_str)
                .ok_or_else(|| malformed(format!("{key} has no name")))?;
            Ok((name, object.get("configuration").and_then(Json::as_object).unwrap_or(empty)))
        }
        Some(other) => Err(malformed(format!("{key}: expected an object, found {}", other.to_serde()))),
        None => Err(malformed(format!("no {key}"))),
    }
}

fn lengths(document: &Object, key: &str) -> Result<Vec<u64>, Fault> {
    let list = document.get(key).ok_or_else(|| malformed(format!("no {key}")))?;
    let list = list.as_array().ok_or_else(|| malformed(format!("{key} is not a list")))?;
    if list.len() > MAX_RANK {
        return Err((
            "absurd-shape",
            format!("{key} has {} dimensions, at most {MAX_RANK} are supported", list.len()),
        ));
    }
    let lengths = list.iter().map(|length| {
        length
            .as_integer()
            .ok_or_else(|| malformed(format!("{key}: {length} is not a whole number of elements")))
    });
    lengths.collect()
}

fn regular_grid(shape: &[u64], chunk_shape: &[u64]) -> Result<Grid, Fault> {
    Grid::regular(shape, chunk_shape).map_err(malformed)
}

/// Source: <https://github.com/zarr-developers/zarr-extensions/tree/main/chunk-grids/rectilinear>
fn rectilinear_grid(shape: &[u64], configuration: &Object) -> Result<Grid, Fault> {
    const MAX_CHUNKS: u64 = 10_000_000;
    let dimensions = configuration.get("chunk_shapes").and_then(Json::as_array);
    let dimensions = dimensions.ok_or_else(|| malformed("the rectilinear chunk grid has no chunk_shapes"))?;
    if dimensions.len() != shape.len() {
        return Err(malformed(format!("{} chunk_shapes for {} dimensions", dimensions.len(), shape.len())));
    }
    let bad = |json: &Json| malformed(format!("chunk_shapes: {json} is no chunk length"));
    let mut all = Vec::with_capacity(shape.len());
    for (dimension, &length) in dimensions.iter().zip(shape) {
        let mut chunks: Vec<u64> = Vec::new();
        let mut push = |chunk: u64, times: u64, json: &Json| {
            if chunk == 0 || times > MAX_CHUNKS || chunks.len() as u64 + times > MAX_CHUNKS {
                return Err(bad(json));
            }
            chunks.extend(std::iter::repeat_n(chunk, crate::units::saturating_usize(times)));
            Ok(())
        };
        match dimension {
            // one length: regular in this dimension
            Json::Number(_) => {
                let chunk: u64 =
                    dimension.as_integer().filter(|&chunk| chunk > 0).ok_or_else(|| bad(dimension))?;
                push(chunk, length.div_ceil(chunk), dimension)?;
            }
            Json::Array(list) => {
                for json in list {
                    match json.as_array() {
                        // run-length encoded: [length, times]
                        Some([chunk, times]) => {
                            let pair = chunk.as_integer().zip(times.as_integer());
                            let (chunk, times) = pair.ok_or_else(|| bad(json))?;
                            push(chunk, times, json)?;
                        }
                        Some(_) => return Err(bad(json)),
                        None => push(json.as_integer().ok_or_else(|| bad(json))?, 1, json)?,
                    }
                }
            }
            other => return Err(bad(other)),
        }
        all.push(chunks);
    }
    Grid::rectilinear(shape, &all).map_err(malformed)
}

/// Adds what is wrong but leaves the rest of the array usable; refuses what no arithmetic can hold.
fn check(path: &str, metadata: &ArrayMetadata, defects: &mut Vec<Defect>) -> Result<(), Fault> {
    let chunks = metadata.grid.total().filter(|&total| total < 1 << 62);
    let chunk_elements = product(&metadata.grid.largest_chunk_shape()).filter(|&elements| elements < 1 << 62);
    let (Some(_), Some(chunk_elements)) = (chunks, chunk_elements) else {
        let (shape, chunk) = (metadata.shape(), metadata.grid.largest_chunk_shape());
        return Err((
            "absurd-shape",
            format!("shape {shape:?} in chunks of {chunk:?} is beyond what can be counted"),
        ));
    };
    // what must be decoded at once: inner chunks, however large their shard is
    let unit_elements = product(&metadata.chunk_shape()).unwrap_or(chunk_elements).min(chunk_elements);
    let item_bytes = metadata.data_type.item_bytes().unwrap_or(1);
    let unit_bytes = item_bytes.saturating_mul(unit_elements);
    let chunk_bytes = item_bytes.saturating_mul(chunk_elements);
    if unit_bytes >= ABSURD_UNIT_BYTES || chunk_bytes >= ABSURD_CHUNK_BYTES {
        let size = crate::units::Bytes(chunk_bytes);
        defects.push(Defect::remark(path, "absurd-shape", format!("one chunk decodes to {size}")));
    }
    if let FillValue::Invalid(message) = &metadata.fill_value {
        defects.push(Defect::remark(path, "malformed-metadata", message.clone()));
    }
    for name in metadata.unknown_codecs() {
        let message =
            format!("the codec `{name}` is not one that zkit decodes; chunks can only be counted and copied");
        defects.push(Defect::remark(path, "unsupported-codec", message));
    }
    if let (ZarrFormat::V3, Some(codecs)) = (metadata.format, metadata.document.get("codecs")) {
        let faults = codec_faults(codecs, &metadata.data_type);
        defects.extend(faults.into_iter().map(|fault| Defect::remark(path, "malformed-metadata", fault)));
    }
    if let Some(sharding) = metadata.sharding() {
        check_shards(path, metadata, sharding, defects);
    }
    Ok(())
}

fn check_shards(path: &str, metadata: &ArrayMetadata, sharding: &ShardingSpec, defects: &mut Vec<Defect>) {
    let shape = metadata.grid.largest_chunk_shape();
    let shard_shape: Vec<u64> = metadata.sharded_dimensions().into_iter().map(|at| shape[at]).collect();
    let divides = shard_shape.iter().zip(&sharding.chunk_shape).all(|(shard, chunk)| shard % chunk == 0);
    if !divides {
        let message =
            format!("shards of {shard_shape:?} do not hold whole inner chunks of {:?}", sharding.chunk_shape);
        defects.push(Defect::remark(path, "malformed-metadata", message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Object {
        match Json::parse(text.as_bytes()).unwrap() {
            Json::Object(object) => object,
            _ => unreachable!("tests give objects"),
        }
    }

    #[test]
    fn keys_of_both_formats_parse_back() {
        for (keys, index, key) in [
            (ChunkKeys::Default('/'), vec![0, 12], "c/0/12"),
            (ChunkKeys::Default('.'), vec![3], "c.3"),
            (ChunkKeys::Default('/'), vec![], "c"),
            (ChunkKeys::V2('.'), vec![0, 12], "0.12"),
            (ChunkKeys::V2('/'), vec![7, 0], "7/0"),
            (ChunkKeys::V2('.'), vec![], "0"),
        ] {
            let mut text = String::new();
            keys.push_key(&index, &mut text);
            assert_eq!(text, key);
            assert_eq!(keys.parse_key(key, index.len()), Some(index));
        }
        for key in ["c/0", "c/0/1/2", "c/00/1", "c/-1/2", "c/0/1.tmp", ".zarray", "c/+1/2"] {
            assert_eq!(ChunkKeys::Default('/').parse_key(key, 2), None, "{key}");
        }
    }

    #[test]
    fn inner_chunks_of_transposed_shards_divide_them_behind_the_transpose() {
        let document = object(
            r#"{"zarr_format":3,"node_type":"array","shape":[8,3,5],"data_type":"uint8","fill_value":0,
                "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[8,3,5]}},
                "chunk_key_encoding":{"name":"default"},
                "codecs":[{"name":"transpose","configuration":{"order":[1,2,0]}},
                    {"name":"sharding_indexed","configuration":{"chunk_shape":[3,5,4],"codecs":[{"name":"bytes"}]}}]}"#,
        );
        let mut defects = Vec::new();
        let metadata = ArrayMetadata::parse_v3("/a", document, &mut defects).unwrap();
        assert_eq!(defects, []);
        assert_eq!(metadata.chunk_shape(), [4, 3, 5]);
    }

    #[test]
    fn v2_order_f_becomes_a_transpose() {
        let document = object(
            r#"{"zarr_format":2,"shape":[4,5],"chunks":[2,5],"dtype":">i2","order":"F","fill_value":null,"filters":null,"compressor":{"id":"zlib","level":1}}"#,
        );
        let metadata = ArrayMetadata::parse_v2("/a", document, Object::default(), &mut Vec::new()).unwrap();
        let text: Vec<_> = metadata.codecs.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["transpose:1,0", "bytes:big", "zlib:1"]);
    }

    #[test]
    fn absurd_shapes_are_defects() {
        for (shape, chunks) in
            [("[4611686018427387904,4]", "[1,1]"), ("[9,9]", "[4611686018427387904,4611686018427387904]")]
        {
            let document = object(&format!(
                r#"{{"zarr_format":2,"shape":{shape},"chunks":{chunks},"dtype":"|u1","fill_value":0}}"#
            ));
            let defect =
                ArrayMetadata::parse_v2("/a", document, Object::default(), &mut Vec::new()).unwrap_err();
            assert_eq!(defect.rule, "absurd-shape");
        }
    }

    #[test]
    fn an_unknown_codec_is_named_and_the_array_stays() {
        let document = object(
            r#"{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"|u1","fill_value":0,"compressor":{"id":"jpeg2k"}}"#,
        );
        let mut defects = Vec::new();
        let metadata = ArrayMetadata::parse_v2("/a", document, Object::default(), &mut defects).unwrap();
        assert_eq!(metadata.unknown_codecs(), ["jpeg2k"]);
        assert_eq!(defects[0].rule, "unsupported-codec");
    }
}
