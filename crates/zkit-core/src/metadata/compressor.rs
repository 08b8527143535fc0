//! The compressor of a copy: as users name it, and as the metadata of either format says it.

use super::array::ArrayMetadata;
use super::codec_spec::{BloscShuffle, CodecSpec};
use super::convert::{ChecksumChoice, Target};
use super::data_type::DataType;
use super::json::{Json, Object};

/// A compressor as users name it; element sizes follow from each array's data type.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetCodec {
    /// blosc with its inner compressor, level 0-9, shuffle and block size (0 for blosc's choice).
    Blosc {
        /// `zstd`, `lz4` or `zlib`.
        compressor: String,
        /// 0 to 9.
        level: u8,
        /// Shuffle; of no use for types that have no words.
        shuffle: BloscShuffle,
        /// Bytes of a block, 0 for blosc's choice.
        block_bytes: u32,
    },
    /// zstd with its level.
    Zstd(i32),
    /// gzip with its level.
    Gzip(i32),
    /// No compression.
    Uncompressed,
    /// Metadata as it is to be written: v2's compressor object, or one v3 codec or a list of them.
    Json(Json),
    /// The compressor that the source has.
    Keep,
}

impl TargetCodec {
    /// What is written where nothing else is known to be better.
    pub fn fallback() -> Self {
        Self::Blosc { compressor: "zstd".to_owned(), level: 3, shuffle: BloscShuffle::Bit, block_bytes: 0 }
    }
}

pub(super) fn named(name: &str, configuration: Option<Object>) -> Json {
    let mut object = Object::from_iter([("name", Json::string(name))]);
    if let Some(configuration) = configuration {
        object.push("configuration", configuration.into());
    }
    object.into()
}

/// Returns the shuffle that helps a type, and the bytes of its words.
pub(crate) fn shuffle_for(shuffle: BloscShuffle, data_type: &DataType) -> (BloscShuffle, u8) {
    match data_type {
        // text and opaque bytes have no words whose bits are alike
        DataType::String
        | DataType::Bytes
        | DataType::FixedBytes(_)
        | DataType::Raw(_)
        | DataType::VlenArray(_)
        | DataType::Object => (BloscShuffle::None, 1),
        _ => (shuffle, data_type.shuffle_bytes()),
    }
}

pub(super) fn v2_compressor(codec: &TargetCodec, data_type: &DataType) -> Result<Json, String> {
    let entry = |id: &str| Object::from_iter([("id", Json::string(id))]);
    Ok(match codec {
        TargetCodec::Uncompressed => Json::Null,
        TargetCodec::Blosc { compressor, level, shuffle, block_bytes } => {
            let (shuffle, _) = shuffle_for(*shuffle, data_type);
            let mut object = entry("blosc");
            object.push("cname", Json::string(compressor));
            object.push("clevel", Json::number(level));
            object.push(
                "shuffle",
                Json::number(match shuffle {
                    BloscShuffle::None => 0,
                    BloscShuffle::Byte => 1,
                    BloscShuffle::Bit => 2,
                    BloscShuffle::Auto => -1,
                }),
            );
            object.push("blocksize", Json::number(block_bytes));
            object.into()
        }
        TargetCodec::Zstd(level) => {
            let mut object = entry("zstd");
            object.push("level", Json::number(level));
            object.into()
        }
        TargetCodec::Gzip(level) => {
            let mut object = entry("gzip");
            object.push("level", Json::number(level));
            object.into()
        }
        TargetCodec::Json(json) if json.get("id").and_then(Json::as_str).is_some() => json.clone(),
        TargetCodec::Json(json) => return Err(format!("{json} is no compressor of Zarr v2: it has no `id`")),
        TargetCodec::Keep => return Err("the compressor of the source is kept".to_owned()),
    })
}

pub(super) fn v3_compressors(target: &Target, data_type: &DataType) -> Result<Vec<Json>, String> {
    let mut codecs = match &target.codec {
        TargetCodec::Uncompressed => Vec::new(),
        TargetCodec::Blosc { compressor, level, shuffle, block_bytes } => {
            let (shuffle, type_bytes) = shuffle_for(*shuffle, data_type);
            let shuffle = match shuffle {
                BloscShuffle::None => "noshuffle",
                BloscShuffle::Bit => "bitshuffle",
                BloscShuffle::Auto if type_bytes == 1 => "bitshuffle",
                BloscShuffle::Byte | BloscShuffle::Auto => "shuffle",
            };
            vec![named(
                "blosc",
                Some(Object::from_iter([
                    ("typesize", Json::number(type_bytes)),
                    ("cname", Json::string(compressor)),
                    ("clevel", Json::number(level)),
                    ("shuffle", Json::string(shuffle)),
                    ("blocksize", Json::number(block_bytes)),
                ])),
            )]
        }
        TargetCodec::Zstd(level) => vec![named(
            "zstd",
            Some(Object::from_iter([("level", Json::number(level)), ("checksum", Json::Bool(false))])),
        )],
        TargetCodec::Gzip(level) => {
            vec![named("gzip", Some(Object::from_iter([("level", Json::number(level))])))]
        }
        TargetCodec::Json(Json::Array(codecs)) => codecs.clone(),
        TargetCodec::Json(json) if json.get("name").and_then(Json::as_str).is_some() => vec![json.clone()],
        TargetCodec::Json(json) => return Err(format!("{json} is no codec of Zarr v3: it has no `name`")),
        TargetCodec::Keep => return Err("the codecs of the source are kept".to_owned()),
    };
    let has_checksum = codecs.iter().any(|codec| codec.get("name").and_then(Json::as_str) == Some("crc32c"));
    if target.checksum == ChecksumChoice::Auto && !has_checksum {
        codecs.push(named("crc32c", None));
    }
    Ok(codecs)
}

/// Returns the compressor of a v2 array as codecs of v3, with the same frames.
pub(super) fn v2_compressor_in_v3(source: &ArrayMetadata, target: &Target) -> Result<Vec<Json>, String> {
    let codec = match source.codecs.last() {
        Some(CodecSpec::Blosc(blosc)) => TargetCodec::Blosc {
            compressor: blosc.compressor.clone(),
            level: blosc.level,
            shuffle: blosc.shuffle,
            block_bytes: blosc.block_bytes,
        },
        Some(CodecSpec::Zstd { level, .. }) => TargetCodec::Zstd(*level),
        Some(CodecSpec::Gzip(level)) => TargetCodec::Gzip(*level),
        Some(spec) if spec.is_serializer() => TargetCodec::Uncompressed,
        _ => return Err("the compressor of the source is none of Zarr v3; name one with --codec".to_owned()),
    };
    v3_compressors(&Target { codec, ..target.clone() }, &source.data_type)
}
