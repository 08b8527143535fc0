//! The metadata of a copy: another format, another codec, and nothing else changed.
//!
//! Readers disagree on what a fill value means: xarray masks `fill_value` in v2, but in v3 only the attribute
//! `_FillValue`. A conversion therefore moves one into the other, so that decoded datasets are equal, masks
//! included; where the target cannot say it, every chunk is written.

use super::array::{ArrayMetadata, ChunkKeys, ZarrFormat};
use super::codec_spec::CodecSpec;
use super::compressor::{TargetCodec, named, v2_compressor, v2_compressor_in_v3, v3_compressors};
use super::data_type::DataType;
use super::dimensions::ARRAY_DIMENSIONS;
use super::fill::{self, FillValue};
use super::json::{Json, Object};
use super::layout::{self, Layout};

/// xarray's attribute for missing values.
const FILL_VALUE: &str = "_FillValue";

/// What a copy is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The format, or that of the source.
    pub format: Option<ZarrFormat>,
    /// The compressor.
    pub codec: TargetCodec,
    /// Whether chunks get a checksum where the format allows.
    pub checksum: ChecksumChoice,
    /// Where chunks lie, or as in the source: shards stay, and become plain chunks in v2.
    pub layout: Option<Layout>,
}

/// Whether chunks get a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumChoice {
    /// Where the format allows: crc32c in v3, in zstd frames of v2.
    Auto,
    /// Nowhere.
    None,
}

/// What becomes of absent chunks in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbsentChunks {
    /// They stay absent: readers give the same values for them.
    Leave,
    /// They are written: readers of the copy would give other values.
    Write,
}

/// The metadata of a copy.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversion {
    /// The metadata.
    pub metadata: ArrayMetadata,
    /// What becomes of absent chunks.
    pub absent: AbsentChunks,
    /// What a reader of the copy should know.
    pub note: Option<String>,
}

/// Returns the metadata of a copy of an array; the error says what the target format cannot say.
pub fn convert(path: &str, source: &ArrayMetadata, target: &Target) -> Result<Conversion, String> {
    let format = target.format.unwrap_or(source.format);
    if let Some(layout) = &target.layout {
        layout.check(source, format)?;
    }
    let (document, absent) = match (source.format, format) {
        (ZarrFormat::V2, ZarrFormat::V2) => (v2_to_v2(source, target)?, AbsentChunks::Leave),
        (ZarrFormat::V3, ZarrFormat::V3) => (v3_to_v3(source, target)?, AbsentChunks::Leave),
        (ZarrFormat::V2, ZarrFormat::V3) => v2_to_v3(source, target)?,
        (ZarrFormat::V3, ZarrFormat::V2) => v3_to_v2(source, target)?,
    };
    // the copy's metadata is read back like any other: what is written is what is meant
    let mut defects = Vec::new();
    let metadata = match document {
        Document::V2(document, attributes) => {
            ArrayMetadata::parse_v2(path, document, attributes, &mut defects)
        }
        Document::V3(document) => ArrayMetadata::parse_v3(path, document, &mut defects),
    };
    let mut metadata = metadata.map_err(|defect| defect.message)?;
    if metadata.format == ZarrFormat::V2
        && target.checksum == ChecksumChoice::Auto
        && matches!(target.codec, TargetCodec::Zstd(_))
    {
        // in the frame alone: older readers refuse a `checksum` in v2 metadata
        for spec in &mut metadata.codecs {
            if let CodecSpec::Zstd { checksum, .. } = spec {
                *checksum = true;
            }
        }
    }
    let notes: Vec<String> =
        [lost_mark(source, &metadata), strict_readers(source, &metadata), undone_filters(source, &metadata)]
            .into_iter()
            .flatten()
            .collect();
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    Ok(Conversion { metadata, absent, note })
}

/// Says where attributes that v2 keeps in a file of their own make a v3 array unreadable: tensorstore and zarrs
/// refuse bare NaN in `zarr.json`, which zarr-python writes and reads.
fn strict_readers(source: &ArrayMetadata, copy: &ArrayMetadata) -> Option<String> {
    let bare = copy.attributes.iter().any(|(_, value)| value.holds_bare_nan());
    (source.format == ZarrFormat::V2 && copy.format == ZarrFormat::V3 && bare).then(|| {
        "its attributes hold NaN or Infinity, with which strict readers of JSON (tensorstore, zarrs) refuse a zarr.json"
            .to_owned()
    })
}

/// Says where xarray no longer sees which values are missing: it masks any fill value in v2, and in v3 has no form
/// of the attribute for text that it could read back.
fn lost_mark(source: &ArrayMetadata, copy: &ArrayMetadata) -> Option<String> {
    let text = matches!(
        source.data_type,
        DataType::FixedBytes(_) | DataType::FixedUtf32(_) | DataType::String | DataType::Bytes
    );
    let marked = matches!(source.fill_value, FillValue::Item(_) | FillValue::Variable(_))
        || source.attributes.get(FILL_VALUE).is_some();
    let seen = marked && source.dimension_names.is_some();
    (source.format == ZarrFormat::V2 && copy.format == ZarrFormat::V3 && text && seen).then(|| {
        "xarray shows its fill values as missing in v2, and as they are in v3, where it has no mark for text"
            .to_owned()
    })
}

enum Document {
    V2(Object, Object),
    V3(Object),
}

fn v2_to_v2(source: &ArrayMetadata, target: &Target) -> Result<Document, String> {
    let mut document = source.document.clone();
    if let Some(layout) = &target.layout {
        document.set("chunks", lengths(&layout.chunk_shape));
        if let (Some(filters), true) =
            (document.get("filters").and_then(Json::as_array), source.unknown_codecs().is_empty())
        {
            let kept: Vec<Json> = filters.iter().filter(|filter| !is_undone(filter)).cloned().collect();
            document.set("filters", if kept.is_empty() { Json::Null } else { Json::Array(kept) });
        }
    }
    if target.codec != TargetCodec::Keep {
        document.set("compressor", v2_compressor(&target.codec, &source.data_type)?);
        // the compressor shuffles itself now; shuffling twice would undo the good of it
        if let Some(filters) = document.get("filters").and_then(Json::as_array) {
            let kept: Vec<Json> = filters
                .iter()
                .filter(|filter| filter.get("id").and_then(Json::as_str) != Some("shuffle"))
                .cloned()
                .collect();
            document.set("filters", if kept.is_empty() { Json::Null } else { Json::Array(kept) });
        }
    }
    Ok(Document::V2(document, source.attributes.clone()))
}

fn v3_to_v3(source: &ArrayMetadata, target: &Target) -> Result<Document, String> {
    let mut document = source.document.clone();
    let codecs = document.get("codecs").and_then(Json::as_array).ok_or("codecs is not a list")?;
    let mut codecs = match target.codec {
        TargetCodec::Keep => codecs.to_vec(),
        _ => recoded(codecs, &source.codecs, &source.data_type, target)?,
    };
    if let Some(layout) = &target.layout {
        codecs = layout::chunk_codecs(&codecs, &source.codecs)?;
        if source.unknown_codecs().is_empty() {
            codecs.retain(|codec| !is_undone(codec));
        }
        codecs = layout.codecs(codecs);
        document.set("chunk_grid", layout.chunk_grid());
    }
    document.set("codecs", Json::Array(codecs));
    document.set("attributes", source.attributes.clone().into());
    Ok(Document::V3(document))
}

/// Returns whether a filter is undone where elements are laid out anew: zkit decodes it, and does not write it. What
/// readers see stays the same.
fn is_undone(filter: &Json) -> bool {
    let name = filter.get("id").or_else(|| filter.get("name")).and_then(Json::as_str).unwrap_or_default();
    let name = name.strip_prefix("numcodecs.").unwrap_or(name);
    ["delta", "fixedscaleoffset", "quantize", "astype", "packbits", "bitround"].contains(&name)
}

/// Says which filters a new layout undoes.
fn undone_filters(source: &ArrayMetadata, copy: &ArrayMetadata) -> Option<String> {
    let filters = |metadata: &ArrayMetadata| -> Vec<String> {
        let specs = metadata.sharding().map_or(&metadata.codecs, |sharding| &sharding.codecs);
        let filters = specs.iter().filter(|spec| matches!(spec, CodecSpec::Filter(_)));
        filters.map(ToString::to_string).collect()
    };
    let (before, after) = (filters(source), filters(copy));
    (source.format == copy.format && before.len() > after.len()).then(|| {
        format!(
            "its filters `{}` are undone: the copy holds the elements that readers see",
            before.join("`, `")
        )
    })
}

/// Replaces what compresses in a list of v3 codecs, of inner chunks where they are sharded.
fn recoded(
    codecs: &[Json],
    specs: &[CodecSpec],
    data_type: &DataType,
    target: &Target,
) -> Result<Vec<Json>, String> {
    let serializer = specs
        .iter()
        .position(CodecSpec::is_serializer)
        .ok_or("the codecs have no array-to-bytes codec that zkit knows")?;
    let mut list = codecs[..serializer].to_vec();
    if let CodecSpec::Sharding(sharding) = &specs[serializer] {
        let mut codec = codecs[serializer].clone();
        if let Json::Object(object) = &mut codec
            && let Some(Json::Object(mut configuration)) = object.get("configuration").cloned()
        {
            let inner =
                configuration.get("codecs").and_then(Json::as_array).ok_or("sharding_indexed: no codecs")?;
            let inner = recoded(inner, &sharding.codecs, data_type, target)?;
            configuration.set("codecs", Json::Array(inner));
            object.set("configuration", configuration.into());
        }
        list.push(codec);
        list.extend_from_slice(&codecs[serializer + 1..]);
    } else {
        list.push(codecs[serializer].clone());
        list.extend(v3_compressors(target, data_type)?);
    }
    Ok(list)
}

fn v2_to_v3(source: &ArrayMetadata, target: &Target) -> Result<(Document, AbsentChunks), String> {
    let data_type = source.data_type.to_v3().ok_or_else(|| {
        format!("Zarr v3 has no data type for {}{}", kind_of(&source.data_type), source.data_type)
    })?;
    let serializer = match source.data_type {
        DataType::String => named("vlen-utf8", None),
        DataType::Bytes => named("vlen-bytes", None),
        _ if source.data_type.all_swaps().is_empty() => named("bytes", None),
        _ => named("bytes", Some(Object::from_iter([("endian", Json::string("little"))]))),
    };
    let transpose = source.codecs.first().and_then(|spec| match spec {
        CodecSpec::Transpose(order) => Some(named(
            "transpose",
            Some(Object::from_iter([("order", Json::Array(order.iter().map(Json::number).collect()))])),
        )),
        _ => None,
    });
    if transpose.is_some() && source.data_type.is_variable() {
        return Err("elements of variable length in order F".to_owned());
    }
    let compressors = match &target.codec {
        TargetCodec::Keep => v2_compressor_in_v3(source, target)?,
        _ => v3_compressors(target, &source.data_type)?,
    };
    let codecs = transpose.into_iter().chain([serializer]).chain(compressors).collect();
    let layout = target.layout.clone().or_else(|| Layout::of(source)).ok_or("a grid that is not regular")?;

    let (fill_value, absent) = match &source.fill_value {
        FillValue::Null => (zero_fill(&source.data_type), AbsentChunks::Write),
        FillValue::Invalid(message) => return Err(message.clone()),
        value => (value.clone(), AbsentChunks::Leave),
    };
    let mut attributes = source.attributes.clone();
    let mut dimension_names = Json::Null;
    if let Some(names) = &source.dimension_names {
        attributes.remove(ARRAY_DIMENSIONS);
        dimension_names =
            Json::Array(names.iter().map(|name| name.as_ref().map_or(Json::Null, Json::string)).collect());
    }
    // xarray takes v2's fill value for the missing one; without it, the attribute as it stands
    let missing = match &source.fill_value {
        FillValue::Null => {
            attributes.get(FILL_VALUE).map(|json| fill::parse_v2(json, &source.data_type, &[]))
        }
        value => Some(value.clone()),
    };
    match missing.and_then(|value| value.to_xarray_v3(&source.data_type)) {
        Some(attribute) => attributes.set(FILL_VALUE, attribute),
        // xarray refuses a whole group for one attribute of this name that it cannot read
        None if source.dimension_names.is_some() => {
            attributes.remove(FILL_VALUE);
        }
        None => {}
    }

    let mut document = Object::from_iter([
        ("zarr_format", Json::number(3)),
        ("node_type", Json::string("array")),
        ("shape", lengths(source.shape())),
        ("data_type", data_type),
        ("chunk_grid", layout.chunk_grid()),
        ("chunk_key_encoding", named("default", Some(Object::from_iter([("separator", Json::string("/"))])))),
        ("fill_value", fill_value.to_v3(&source.data_type)),
        ("codecs", Json::Array(layout.codecs(codecs))),
        ("attributes", attributes.into()),
    ]);
    if dimension_names != Json::Null {
        document.push("dimension_names", dimension_names);
    }
    Ok((Document::V3(document), absent))
}

fn v3_to_v2(source: &ArrayMetadata, target: &Target) -> Result<(Document, AbsentChunks), String> {
    let dtype = source
        .data_type
        .to_v2()
        .ok_or_else(|| format!("Zarr v2 has no data type for {}", source.data_type))?;
    let chunk_shape = match &target.layout {
        Some(layout) => layout.chunk_shape.clone(),
        None => source.chunk_shape(),
    };
    if target.layout.is_none() && source.grid.regular_shape().is_none() {
        return Err("Zarr v2 has regular chunk grids only".to_owned());
    }
    let (fill_value, absent, mut attributes) = v2_fill(source);
    match &source.dimension_names {
        Some(names) if names.iter().all(Option::is_some) => {
            attributes.set(ARRAY_DIMENSIONS, Json::Array(names.iter().flatten().map(Json::string).collect()));
        }
        Some(names) if names.iter().any(Option::is_some) => {
            return Err("only some dimensions have names, which Zarr v2 cannot say".to_owned());
        }
        // xarray wants the attribute even where there is nothing to name
        _ if source.shape().is_empty() => attributes.set(ARRAY_DIMENSIONS, Json::Array(Vec::new())),
        _ => {}
    }
    let compressor = match &target.codec {
        TargetCodec::Keep => {
            return Err("the codecs of v3 cannot be kept in v2; name one with --codec".to_owned());
        }
        codec => v2_compressor(codec, &source.data_type)?,
    };
    let filters = match source.data_type {
        DataType::String => Json::Array(vec![Object::from_iter([("id", Json::string("vlen-utf8"))]).into()]),
        DataType::Bytes => Json::Array(vec![Object::from_iter([("id", Json::string("vlen-bytes"))]).into()]),
        _ => Json::Null,
    };
    let rank = source.shape().len();
    let column_major = matches!(source.codecs.first(), Some(CodecSpec::Transpose(order)) if rank > 1 && order.iter().copied().eq((0..rank).rev()));
    let separator = if matches!(source.chunk_keys, ChunkKeys::Default('/') | ChunkKeys::V2('/')) && rank > 1 {
        "/"
    } else {
        "."
    };
    let document = Object::from_iter([
        ("chunks", lengths(&chunk_shape)),
        ("compressor", compressor),
        ("dtype", dtype),
        ("fill_value", fill_value),
        ("filters", filters),
        ("order", Json::string(if column_major { "F" } else { "C" })),
        ("shape", lengths(source.shape())),
        ("zarr_format", Json::number(2)),
        ("dimension_separator", Json::string(separator)),
    ]);
    Ok((Document::V2(document, attributes), absent))
}

/// Returns v2's fill value, what becomes of absent chunks, and the attributes that are left.
fn v2_fill(source: &ArrayMetadata) -> (Json, AbsentChunks, Object) {
    let mut attributes = source.attributes.clone();
    let data_type = &source.data_type;
    if let Some(missing) = attributes.get(FILL_VALUE).and_then(|json| fill::from_xarray_v3(json, data_type)) {
        attributes.remove(FILL_VALUE);
        let absent = if missing == source.fill_value { AbsentChunks::Leave } else { AbsentChunks::Write };
        return (missing.to_v2(data_type), absent, attributes);
    }
    // masking NaN by NaN changes nothing, so a NaN fill value may stay, and absent chunks with it
    let json = source.fill_value.to_v3(data_type);
    if matches!(data_type, DataType::Float(_)) && json == Json::string("NaN") {
        return (json, AbsentChunks::Leave, attributes);
    }
    (Json::Null, AbsentChunks::Write, attributes)
}

/// Returns what to call a type in front of its text, where the text alone is hard to read.
fn kind_of(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Struct(_) => "a struct with such fields: ",
        DataType::Object => "Python objects: ",
        _ => "",
    }
}

fn zero_fill(data_type: &DataType) -> FillValue {
    if data_type.is_variable() {
        FillValue::Variable(Vec::new())
    } else {
        FillValue::Item(fill::zero(data_type))
    }
}

fn lengths(lengths: &[u64]) -> Json {
    Json::Array(lengths.iter().map(Json::number).collect())
}

impl ArrayMetadata {
    /// Returns the metadata documents of the array, by name: `zarr.json`, or `.zarray` and `.zattrs`.
    pub fn documents(&self) -> Vec<(&'static str, Json)> {
        documents(self.format, ".zarray", &self.document, &self.attributes)
    }
}

/// Returns the metadata documents of a group, by name: `zarr.json`, or `.zgroup` and `.zattrs`.
pub fn group_documents(
    format: ZarrFormat,
    source: Option<&Object>,
    attributes: &Object,
) -> Vec<(&'static str, Json)> {
    let fresh = match format {
        ZarrFormat::V2 => Object::from_iter([("zarr_format", Json::number(2))]),
        ZarrFormat::V3 => Object::from_iter([
            ("zarr_format", Json::number(3)),
            ("node_type", Json::string("group")),
            ("attributes", Json::Null),
        ]),
    };
    documents(format, ".zgroup", source.unwrap_or(&fresh), attributes)
}

fn documents(
    format: ZarrFormat,
    v2_name: &'static str,
    document: &Object,
    attributes: &Object,
) -> Vec<(&'static str, Json)> {
    match format {
        ZarrFormat::V2 => vec![(v2_name, document.clone().into()), (".zattrs", attributes.clone().into())],
        ZarrFormat::V3 => {
            let mut document = document.clone();
            if document.get("attributes").is_some() || !attributes.is_empty() {
                document.set("attributes", attributes.clone().into());
            }
            vec![("zarr.json", document.into())]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec_spec::BloscShuffle;
    use super::*;

    fn v2(document: &str, attributes: &str) -> ArrayMetadata {
        let object = |text: &str| match Json::parse(text.as_bytes()).unwrap() {
            Json::Object(object) => object,
            _ => unreachable!("tests give objects"),
        };
        ArrayMetadata::parse_v2("/a", object(document), object(attributes), &mut Vec::new()).unwrap()
    }

    fn target(format: ZarrFormat) -> Target {
        let codec = TargetCodec::Blosc {
            compressor: "zstd".to_owned(),
            level: 3,
            shuffle: BloscShuffle::Bit,
            block_bytes: 0,
        };
        Target { format: Some(format), codec, checksum: ChecksumChoice::Auto, layout: None }
    }

    const PACKED: &str = r#"{"zarr_format":2,"shape":[4,6],"chunks":[2,6],"dtype":">i2","order":"C","fill_value":-32768,"filters":null,"compressor":null}"#;

    #[test]
    fn v2_fill_value_becomes_the_attribute_and_back() {
        let source = v2(PACKED, r#"{"_ARRAY_DIMENSIONS":["y","x"],"units":"K"}"#);
        let v3 = convert("/a", &source, &target(ZarrFormat::V3)).unwrap();
        assert_eq!(v3.metadata.attributes.get(FILL_VALUE), Some(&Json::number(-32768)));
        assert_eq!(v3.metadata.attributes.get(ARRAY_DIMENSIONS), None);
        assert_eq!(v3.metadata.dimension_names, Some(vec![Some("y".to_owned()), Some("x".to_owned())]));
        assert_eq!(v3.absent, AbsentChunks::Leave);
        let back = convert("/a", &v3.metadata, &target(ZarrFormat::V2)).unwrap();
        assert_eq!(back.metadata.fill_value, source.fill_value);
        assert_eq!(back.metadata.attributes.get(FILL_VALUE), None);
        assert_eq!(back.metadata.dimension_names, source.dimension_names);
        assert_eq!(back.absent, AbsentChunks::Leave);
    }

    #[test]
    fn text_gets_no_mark_that_xarray_could_not_read() {
        let text = r#"{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"|O","fill_value":"","filters":[{"id":"vlen-utf8"}]}"#;
        for attributes in
            [r#"{"_ARRAY_DIMENSIONS":["x"]}"#, r#"{"_ARRAY_DIMENSIONS":["x"],"_FillValue":"-"}"#]
        {
            let copy = convert("/a", &v2(text, attributes), &target(ZarrFormat::V3)).unwrap();
            assert_eq!(copy.metadata.attributes.get(FILL_VALUE), None);
            assert!(copy.note.unwrap().contains("no mark for text"));
        }
    }

    #[test]
    fn bare_nan_in_attributes_is_kept_and_noted() {
        let source = v2(PACKED, r#"{"range":[0,{"top":NaN}]}"#);
        let copy = convert("/a", &source, &target(ZarrFormat::V3)).unwrap();
        assert_eq!(copy.metadata.attributes.get("range"), source.attributes.get("range"));
        assert!(copy.note.unwrap().contains("tensorstore"));
        assert_eq!(convert("/a", &source, &target(ZarrFormat::V2)).unwrap().note, None);
    }

    #[test]
    fn what_no_fill_value_can_say_is_written() {
        let source = v2(&PACKED.replace("-32768", "null"), "{}");
        assert_eq!(convert("/a", &source, &target(ZarrFormat::V3)).unwrap().absent, AbsentChunks::Write);
        let mut v3 = convert("/a", &v2(PACKED, "{}"), &target(ZarrFormat::V3)).unwrap().metadata;
        v3.attributes.remove(FILL_VALUE);
        let back = convert("/a", &v3, &target(ZarrFormat::V2)).unwrap();
        assert_eq!((back.absent, &back.metadata.fill_value), (AbsentChunks::Write, &FillValue::Null));
    }

    #[test]
    fn a_copy_in_the_same_format_changes_the_compressor_alone() {
        let text = PACKED.replace("\"filters\":null", "\"filters\":[{\"id\":\"shuffle\",\"elementsize\":2},{\"id\":\"odd\"}],\"extra\":{\"b\":1,\"a\":NaN}");
        let source = v2(&text, r#"{"z":1,"a":2}"#);
        let copy = convert("/a", &source, &target(ZarrFormat::V2)).unwrap().metadata;
        assert_eq!(copy.attributes, source.attributes);
        for key in ["zarr_format", "shape", "chunks", "dtype", "order", "fill_value", "extra"] {
            assert_eq!(copy.document.get(key), source.document.get(key), "{key}");
        }
        assert_eq!(
            copy.document.get("filters").map(ToString::to_string).as_deref(),
            Some(r#"[{"id":"odd"}]"#)
        );
    }

    #[test]
    fn refuses_what_the_other_format_cannot_say() {
        let text =
            r#"{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":[["x","<i2",[2]]],"fill_value":null}"#;
        assert!(convert("/a", &v2(text, "{}"), &target(ZarrFormat::V3)).is_err());
        let text = r#"{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"|O","fill_value":null,"filters":[{"id":"pickle"}]}"#;
        assert!(convert("/a", &v2(text, "{}"), &target(ZarrFormat::V3)).is_err());
        assert!(convert("/a", &v2(text, "{}"), &target(ZarrFormat::V2)).is_ok());
    }
}
