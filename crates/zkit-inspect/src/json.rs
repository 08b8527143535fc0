//! The JSON answer: the output contract, version 1.

use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use zkit_core::metadata::{ArrayMetadata, FillValue, Json, Object, ZarrFormat};
use zkit_report::Advice;

use crate::advice::Advised;
use crate::facts::{ArrayFacts, Inspection};
use crate::probe::Probe;

#[derive(serde::Serialize)]
pub(crate) struct Output<'a> {
    schema_version: u32,
    depth: &'static str,
    complete: bool,
    store: StoreOutput<'a>,
    groups: Vec<GroupOutput<'a>>,
    arrays: Arrays<'a>,
    defects: Vec<DefectOutput<'a>>,
    advice: Vec<AdviceOutput<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe: Option<ProbeOutput<'a>>,
}

#[derive(serde::Serialize)]
struct StoreOutput<'a> {
    url: &'a str,
    kind: &'static str,
    container: &'static str,
    zarr_formats: Vec<u8>,
    consolidated: &'static str,
    mount: Option<&'a str>,
}

#[derive(serde::Serialize)]
struct GroupOutput<'a> {
    path: &'a str,
    zarr_format: u8,
}

#[derive(serde::Serialize)]
struct ArrayOutput<'a> {
    path: &'a str,
    zarr_format: u8,
    shape: &'a [u64],
    data_type: String,
    data_type_json: Exact<'a>,
    dimension_names: Option<&'a [Option<String>]>,
    chunk_shape: &'a [u64],
    shard_shape: Option<&'a [u64]>,
    codecs: Vec<String>,
    codecs_json: CodecsOutput<'a>,
    fill_value: Exact<'a>,
    chunks_total: u64,
    chunks_stored: Option<u64>,
    bytes_stored: Option<u64>,
    bytes_decoded: Option<u64>,
    decode_lanes: Option<LanesOutput>,
    foreign_objects: Option<u64>,
    orphan_chunks: Option<u64>,
    frames: Option<FramesOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<ReadOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<ExactObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_sizes: Option<Vec<SizeOutput>>,
}

#[derive(serde::Serialize)]
struct LanesOutput {
    per_chunk: u64,
    whole_array: u64,
}

/// What the frames that were looked at say.
#[derive(serde::Serialize)]
struct FramesOutput {
    chunks: u64,
    broken: u64,
    opaque: u64,
    blosc: Option<BloscOutput>,
    zstd: Option<ZstdOutput>,
    shard_index: Option<ShardOutput>,
}

#[derive(serde::Serialize)]
struct BloscOutput {
    frames: u64,
    memcpyed: u64,
    codecs: Vec<CountOutput<String>>,
    block_bytes: Vec<CountOutput<u64>>,
    blocks: Vec<CountOutput<u64>>,
    type_bytes: Vec<CountOutput<u8>>,
}

#[derive(serde::Serialize)]
struct CountOutput<Value> {
    value: Value,
    frames: u64,
}

#[derive(serde::Serialize)]
struct ZstdOutput {
    frames: u64,
    with_content_size: u64,
    with_checksum: u64,
}

#[derive(serde::Serialize)]
struct ShardOutput {
    read: u64,
    index_bytes: u64,
    inner_chunks_present: u64,
    inner_chunks_absent: u64,
}

/// What one read of the access costs.
#[derive(serde::Serialize)]
struct ReadOutput {
    bytes_wanted: u64,
    chunks_touched: u64,
    bytes_decoded: u64,
    amplification: f64,
}

#[derive(serde::Serialize)]
struct SizeOutput {
    at_least: u64,
    below: u64,
    chunks: u64,
}

#[derive(serde::Serialize)]
struct DefectOutput<'a> {
    path: &'a str,
    rule: &'a str,
    message: &'a str,
}

#[derive(serde::Serialize)]
struct AdviceOutput<'a> {
    path: &'a str,
    rule: &'static str,
    what: &'a str,
    why: &'a str,
    command: Option<&'a str>,
    arrays: &'a [String],
}

#[derive(serde::Serialize)]
struct ProbeOutput<'a> {
    arrays: Vec<ProbedOutput<'a>>,
    bytes_decoded: u64,
    seconds_of_one_core: f64,
    estimates: Vec<EstimateOutput>,
}

#[derive(serde::Serialize)]
struct ProbedOutput<'a> {
    path: &'a str,
    chunks: u64,
    decoded_bytes_per_second: Option<f64>,
    stored_bytes_per_second: Option<f64>,
    error: Option<&'a str>,
}

#[derive(serde::Serialize)]
struct EstimateOutput {
    workers: u64,
    seconds: f64,
}

impl<'a> Output<'a> {
    pub(crate) fn new(inspection: &'a Inspection<'a>, advised: &'a [Advised]) -> Self {
        let hierarchy = inspection.hierarchy;
        let detail = if inspection.selected && inspection.detailed().is_some() {
            Detail::Whole
        } else {
            Detail::Short
        };
        Self {
            schema_version: 1,
            depth: inspection.depth.name(),
            complete: !inspection.is_incomplete(),
            store: StoreOutput {
                url: &hierarchy.url,
                kind: hierarchy.kind.name(),
                container: hierarchy.container.name(),
                zarr_formats: hierarchy.formats().iter().map(|format| format.number()).collect(),
                consolidated: hierarchy.consolidated.name(),
                mount: inspection.mount.as_ref().map(|mount| mount.kind.as_str()),
            },
            groups: hierarchy
                .groups
                .iter()
                .map(|group| GroupOutput { path: &group.path, zarr_format: group.format.number() })
                .collect(),
            arrays: Arrays(&inspection.arrays, detail),
            defects: inspection
                .defects
                .iter()
                .map(|defect| DefectOutput {
                    path: &defect.path,
                    rule: defect.rule,
                    message: &defect.message,
                })
                .collect(),
            advice: advised.iter().map(AdviceOutput::new).collect(),
            probe: inspection.probe.as_ref().map(ProbeOutput::new),
        }
    }
}

/// The arrays, each made up when it is written: stores have thousands.
struct Arrays<'a>(&'a [ArrayFacts<'a>], Detail);

impl Serialize for Arrays<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|array| ArrayOutput::new(array, self.1)))
    }
}

/// The codecs as the document has them: v3's list, or what v2 keeps in three fields.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum CodecsOutput<'a> {
    V2 { order: Exact<'a>, filters: Exact<'a>, compressor: Exact<'a> },
    V3(Exact<'a>),
}

impl<'a> CodecsOutput<'a> {
    fn of(metadata: &'a ArrayMetadata) -> Self {
        let field = |key| metadata.document.get(key).map_or(Exact::Owned(Json::Null), Exact::Borrowed);
        match metadata.format {
            ZarrFormat::V2 => {
                Self::V2 { order: field("order"), filters: field("filters"), compressor: field("compressor") }
            }
            ZarrFormat::V3 => Self::V3(field("codecs")),
        }
    }
}

/// How much is said of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Short,
    /// Attributes and sizes, too: of an array that was asked for.
    Whole,
}

impl<'a> ArrayOutput<'a> {
    fn new(array: &'a ArrayFacts<'_>, detail: Detail) -> Self {
        let metadata = array.metadata();
        let whole = detail == Detail::Whole;
        Self {
            path: &array.node.path,
            zarr_format: metadata.format.number(),
            shape: metadata.shape(),
            data_type: metadata.data_type.to_string(),
            data_type_json: Exact::Borrowed(metadata.data_type_json()),
            dimension_names: metadata.dimension_names.as_deref(),
            chunk_shape: &array.chunk_shape,
            shard_shape: array.shard_shape.as_deref(),
            codecs: metadata.codecs.iter().map(ToString::to_string).collect(),
            codecs_json: CodecsOutput::of(metadata),
            fill_value: match &metadata.fill_value {
                FillValue::Null => Exact::Owned(Json::Null),
                fill => Exact::Owned(fill.to_v3(&metadata.data_type)),
            },
            chunks_total: array.chunks_total,
            chunks_stored: array.chunks_stored(),
            bytes_stored: array.bytes_stored(),
            bytes_decoded: metadata.decoded_bytes(),
            decode_lanes: array
                .lanes()
                .map(|lanes| LanesOutput { per_chunk: lanes.per_chunk, whole_array: lanes.whole_array }),
            foreign_objects: array.listing().map(|listing| listing.foreign.count),
            orphan_chunks: array.listing().map(|listing| listing.orphans.count),
            frames: array.frames().map(FramesOutput::new),
            read: array.read.map(|cost| ReadOutput {
                bytes_wanted: cost.bytes_wanted,
                chunks_touched: cost.chunks_touched,
                bytes_decoded: cost.bytes_decoded,
                amplification: cost.amplification(),
            }),
            attributes: whole.then_some(ExactObject(&metadata.attributes)),
            stored_sizes: array.listing().filter(|_| whole).map(|listing| {
                let buckets = listing.sizes.buckets();
                buckets.map(|(at_least, below, chunks)| SizeOutput { at_least, below, chunks }).collect()
            }),
        }
    }
}

impl FramesOutput {
    fn new(frames: &zkit_core::engine::Frames) -> Self {
        fn counts<Value: Copy>(tally: &zkit_core::engine::Tally<Value>) -> Vec<CountOutput<Value>> {
            tally.iter().map(|(&value, &frames)| CountOutput { value, frames }).collect()
        }
        let (blosc, zstd, shards) = (&frames.blosc, &frames.zstd, &frames.shards);
        Self {
            chunks: frames.chunks,
            broken: frames.broken,
            opaque: frames.opaque,
            blosc: (blosc.frames > 0).then(|| BloscOutput {
                frames: blosc.frames,
                memcpyed: blosc.memcpyed,
                codecs: blosc
                    .codecs
                    .iter()
                    .map(|((codec, shuffle), &frames)| CountOutput {
                        value: format!("{codec}:{shuffle}"),
                        frames,
                    })
                    .collect(),
                block_bytes: counts(&blosc.block_bytes),
                blocks: counts(&blosc.blocks),
                type_bytes: counts(&blosc.type_bytes),
            }),
            zstd: (zstd.frames > 0).then_some(ZstdOutput {
                frames: zstd.frames,
                with_content_size: zstd.with_content_size,
                with_checksum: zstd.with_checksum,
            }),
            shard_index: (shards.read > 0).then_some(ShardOutput {
                read: shards.read,
                index_bytes: shards.index_bytes,
                inner_chunks_present: shards.present,
                inner_chunks_absent: shards.absent,
            }),
        }
    }
}

impl<'a> AdviceOutput<'a> {
    fn new(advised: &'a Advised) -> Self {
        let Advice { what, why, command } = &advised.advice;
        Self {
            path: &advised.path,
            rule: advised.rule,
            what,
            why,
            command: command.as_deref(),
            arrays: &advised.arrays,
        }
    }
}

impl<'a> ProbeOutput<'a> {
    fn new(probe: &'a Probe) -> Self {
        let probed = probe.arrays.iter().map(|array| ProbedOutput {
            path: &array.path,
            chunks: array.chunks,
            decoded_bytes_per_second: array.decoded_rate(),
            stored_bytes_per_second: array.stored_rate(),
            error: array.error.as_deref(),
        });
        Self {
            arrays: probed.collect(),
            bytes_decoded: probe.bytes_decoded,
            seconds_of_one_core: probe.core_seconds,
            estimates: probe
                .estimates
                .iter()
                .map(|&(workers, seconds)| EstimateOutput { workers, seconds })
                .collect(),
        }
    }
}

/// A JSON value as the store has it, but always valid: bare `NaN` becomes `"NaN"`.
enum Exact<'a> {
    Borrowed(&'a Json),
    Owned(Json),
}

impl Serialize for Exact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = match self {
            Self::Borrowed(json) => json,
            Self::Owned(json) => json,
        };
        match json {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(value) => serializer.serialize_bool(*value),
            Json::Number(text) => match serde_json::from_str::<serde_json::Number>(text) {
                Ok(number) => number.serialize(serializer),
                Err(_) => serializer.serialize_str(text),
            },
            Json::String(text) => serializer.serialize_str(text),
            Json::Array(values) => {
                let mut list = serializer.serialize_seq(Some(values.len()))?;
                for value in values {
                    list.serialize_element(&Exact::Borrowed(value))?;
                }
                list.end()
            }
            Json::Object(object) => ExactObject(object).serialize(serializer),
        }
    }
}

struct ExactObject<'a>(&'a Object);

impl Serialize for ExactObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in self.0.iter() {
            map.serialize_entry(key, &Exact::Borrowed(value))?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_becomes_text() {
        let json =
            Json::parse(br#"{"a": [NaN, -Infinity, 1e400, 18446744073709551615, 0.5, null, true]}"#).unwrap();
        let text = serde_json::to_string(&Exact::Owned(json)).unwrap();
        let back: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["a"][0], "NaN");
        assert_eq!(back["a"][1], "-Infinity");
        assert_eq!(back["a"][3], u64::MAX);
        assert_eq!(back["a"][4], 0.5);
    }
}
