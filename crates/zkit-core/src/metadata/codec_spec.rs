//! The codecs that metadata names, v2 and v3 alike, as one list in encoding order.
//!
//! v2's `order`, `filters` and `compressor` become the same list as v3's `codecs`: a transpose, the byte order,
//! filters, compressor. Two arrays whose lists begin alike can therefore share undecoded bytes.

use std::fmt;

use super::data_type::{DataType, Swap};
use super::json::{Json, Object};

/// One codec and its configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum CodecSpec {
    /// Dimensions in another order: stored dimension `i` is array dimension `order[i]`. v2's order F.
    Transpose(Vec<usize>),
    /// Elements to bytes; the swaps say which words are big-endian.
    Bytes(Vec<Swap>),
    /// Strings of any length: a count, then length and UTF-8 of each.
    VlenUtf8,
    /// Bytes of any length, laid out like strings.
    VlenBytes,
    /// Arrays of any length, laid out like strings.
    VlenArray,
    /// Inner chunks with an index.
    Sharding(Box<ShardingSpec>),
    /// A numcodecs filter that changes numbers, not their meaning.
    Filter(Filter),
    /// numcodecs' `shuffle`, with the bytes of an element.
    Shuffle(usize),
    /// A checksum beside the bytes.
    Checksum(Checksum, ChecksumPlace),
    /// A blosc1 frame.
    Blosc(BloscSpec),
    /// A zstd frame.
    Zstd {
        /// Compression level.
        level: i32,
        /// Whether the frame ends in a checksum.
        checksum: bool,
    },
    /// A gzip stream with its level.
    Gzip(i32),
    /// A zlib stream with its level.
    Zlib(i32),
    /// A bzip2 stream with its level.
    Bz2(i32),
    /// An lz4 block behind its decoded length.
    Lz4,
    /// An xz, lzma or raw LZMA stream.
    Lzma(LzmaSpec),
    /// Base64 text.
    Base64,
    /// Python objects as bytes.
    Objects(ObjectCodec),
    /// A codec that zkit does not decode itself.
    Unknown(String),
}

/// A numcodecs codec that makes bytes of Python objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectCodec {
    /// A list in JSON: the objects, the data type, the shape.
    Json,
    /// The same list in MessagePack.
    MsgPack,
    /// Texts as numbers of labels, from 1 on.
    Categorize {
        /// The texts.
        labels: Vec<String>,
        /// How the numbers are stored.
        stored: Number,
    },
}

impl ObjectCodec {
    /// Returns the name in metadata.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Json => "json2",
            Self::MsgPack => "msgpack2",
            Self::Categorize { .. } => "categorize",
        }
    }
}

/// Numbers changed one by one or along the chunk. Source: numcodecs.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// Differences between neighbours.
    Delta {
        /// Type of the decoded numbers.
        decoded: Number,
        /// Type of the stored differences.
        stored: Number,
    },
    /// `stored = round((decoded - offset) * scale)`.
    FixedScaleOffset {
        /// Subtracted before scaling.
        offset: f64,
        /// Multiplied with.
        scale: f64,
        /// Type of the decoded numbers.
        decoded: Number,
        /// Type of the stored numbers.
        stored: Number,
    },
    /// A change of type; `quantize` stores rounded numbers and decodes the same way.
    AsType {
        /// Type of the decoded numbers.
        decoded: Number,
        /// Type of the stored numbers.
        stored: Number,
        /// Whether encoding rounds (`quantize`, `bitround`), so that zkit must not encode again.
        lossy: bool,
    },
    /// Booleans, eight in a byte, behind the number of padding bits.
    PackBits,
}

/// A number type of numcodecs' filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// What kind of number.
    pub kind: NumberKind,
    /// Bytes of one: 1, 2, 4 or 8.
    pub bytes: usize,
    /// Whether it is stored big-endian.
    pub big_endian: bool,
}

/// Kinds of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberKind {
    /// Signed integers (and counts of time).
    Signed,
    /// Unsigned integers (and booleans).
    Unsigned,
    /// IEEE 754 floats.
    Float,
}

/// Checksums that codecs add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-32 (zlib).
    Crc32,
    /// Adler-32.
    Adler32,
    /// HDF5's Fletcher-32.
    Fletcher32,
    /// Bob Jenkins' lookup3, as HDF5 uses it.
    JenkinsLookup3 {
        /// Its initial value.
        seed: u32,
    },
}

/// Where a checksum lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumPlace {
    /// In front of the bytes.
    Start,
    /// Behind the bytes.
    End,
}

/// A blosc configuration; the frame itself says the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BloscSpec {
    /// Inner compressor: `lz4`, `lz4hc`, `blosclz`, `zlib`, `zstd`, `snappy`.
    pub compressor: String,
    /// Level, 0 to 9.
    pub level: u8,
    /// Shuffle.
    pub shuffle: BloscShuffle,
    /// Bytes of an element for the shuffle.
    pub type_bytes: u8,
    /// Block size in bytes, 0 for blosc's choice.
    pub block_bytes: u32,
}

/// blosc's shuffles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BloscShuffle {
    /// None.
    None,
    /// By bytes.
    Byte,
    /// By bits.
    Bit,
    /// v2's -1: bits for one-byte types, else bytes.
    Auto,
}

/// An LZMA configuration. Source: Python's `lzma` module.
#[derive(Debug, Clone, PartialEq)]
pub struct LzmaSpec {
    /// 1 xz, 2 lzma alone, 3 raw.
    pub format: u8,
    /// The filter chain; needed to decode raw streams.
    pub filters: Option<Json>,
}

/// `sharding_indexed`.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardingSpec {
    /// Shape of an inner chunk.
    pub chunk_shape: Vec<u64>,
    /// Codecs of inner chunks.
    pub codecs: Vec<CodecSpec>,
    /// Codecs of the index.
    pub index_codecs: Vec<CodecSpec>,
    /// Whether the index lies in front of the chunks.
    pub index_at_start: bool,
}

impl fmt::Display for CodecSpec {
    /// Writes the codec as the command line takes it where it does: `blosc:zstd:5:shuffle`, `zstd:3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transpose(order) => write!(f, "transpose:{}", joined(order)),
            Self::Bytes(swaps) if swaps.is_empty() => f.write_str("bytes"),
            Self::Bytes(_) => f.write_str("bytes:big"),
            Self::VlenUtf8 => f.write_str("vlen-utf8"),
            Self::VlenBytes => f.write_str("vlen-bytes"),
            Self::VlenArray => f.write_str("vlen-array"),
            Self::Sharding(sharding) => {
                let inner: Vec<String> = sharding.codecs.iter().map(ToString::to_string).collect();
                write!(f, "sharding({}; {})", joined(&sharding.chunk_shape), inner.join(", "))
            }
            Self::Filter(Filter::Delta { .. }) => f.write_str("delta"),
            Self::Filter(Filter::FixedScaleOffset { .. }) => f.write_str("fixedscaleoffset"),
            Self::Filter(Filter::AsType { lossy: true, .. }) => f.write_str("quantize"),
            Self::Filter(Filter::AsType { .. }) => f.write_str("astype"),
            Self::Filter(Filter::PackBits) => f.write_str("packbits"),
            Self::Shuffle(bytes) => write!(f, "shuffle:{bytes}"),
            Self::Checksum(checksum, _) => f.write_str(match checksum {
                Checksum::Crc32c => "crc32c",
                Checksum::Crc32 => "crc32",
                Checksum::Adler32 => "adler32",
                Checksum::Fletcher32 => "fletcher32",
                Checksum::JenkinsLookup3 { .. } => "jenkins_lookup3",
            }),
            Self::Blosc(blosc) => {
                let shuffle = match blosc.shuffle {
                    BloscShuffle::None => "noshuffle",
                    BloscShuffle::Byte => "shuffle",
                    BloscShuffle::Bit => "bitshuffle",
                    BloscShuffle::Auto => "autoshuffle",
                };
                write!(f, "blosc:{}:{}:{shuffle}", blosc.compressor, blosc.level)
            }
            Self::Zstd { level, .. } => write!(f, "zstd:{level}"),
            Self::Gzip(level) => write!(f, "gzip:{level}"),
            Self::Zlib(level) => write!(f, "zlib:{level}"),
            Self::Bz2(level) => write!(f, "bz2:{level}"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Lzma(_) => f.write_str("lzma"),
            Self::Base64 => f.write_str("base64"),
            Self::Objects(codec) => f.write_str(codec.name()),
            Self::Unknown(name) => f.write_str(name),
        }
    }
}

fn joined<T: ToString>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

impl CodecSpec {
    /// Returns whether decoding fails where a bit of what it wrote has changed: checksums, and compressors whose frames hold one.
    pub fn sums_up(&self) -> bool {
        match self {
            Self::Checksum(..) | Self::Gzip(_) | Self::Zlib(_) | Self::Bz2(_) => true,
            Self::Zstd { checksum, .. } => *checksum,
            Self::Sharding(sharding) => [&sharding.codecs, &sharding.index_codecs]
                .iter()
                .all(|codecs| codecs.iter().any(Self::sums_up)),
            _ => false,
        }
    }

    /// Returns the names of codecs that zkit does not decode, inner ones included.
    pub fn unknown_names(&self) -> Vec<&str> {
        match self {
            Self::Unknown(name) => vec![name],
            Self::Sharding(sharding) => {
                sharding.codecs.iter().chain(&sharding.index_codecs).flat_map(Self::unknown_names).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether the codec turns an array into bytes, which every v3 list does exactly once.
    pub fn is_serializer(&self) -> bool {
        matches!(
            self,
            Self::Bytes(_)
                | Self::VlenUtf8
                | Self::VlenBytes
                | Self::VlenArray
                | Self::Objects(_)
                | Self::Sharding(_)
        )
    }

    /// Returns whether the codec takes bytes and gives bytes, whatever they mean.
    pub fn is_bytes_to_bytes(&self) -> bool {
        !(self.is_serializer() || matches!(self, Self::Transpose(_) | Self::Filter(_) | Self::Unknown(_)))
    }
}

/// Returns the list for a v2 array, from its `order`, `filters` and `compressor`.
pub(super) fn parse_v2(
    document: &Object,
    rank: usize,
    data_type: &DataType,
    swaps: &[Swap],
) -> Result<Vec<CodecSpec>, String> {
    let mut specs = Vec::new();
    match document.get("order").map(Json::as_str) {
        None | Some(Some("C")) => {}
        Some(Some("F")) if rank > 1 => specs.push(CodecSpec::Transpose((0..rank).rev().collect())),
        Some(Some("F")) => {}
        Some(_) => return Err("order is neither \"C\" nor \"F\"".to_owned()),
    }
    if !data_type.is_variable() {
        specs.push(CodecSpec::Bytes(swaps.to_vec()));
    }
    let filters = match document.get("filters") {
        None | Some(Json::Null) => &[],
        Some(filters) => filters.as_array().ok_or("filters is not a list")?,
    };
    let compressor = document.get("compressor").filter(|compressor| **compressor != Json::Null);
    for json in filters.iter().chain(compressor) {
        let object = json.as_object().ok_or("a filter or compressor is not an object")?;
        let name = object.get("id").and_then(Json::as_str).ok_or("a filter or compressor has no `id`")?;
        specs.push(numcodec(name, object, data_type));
    }
    if data_type.is_variable()
        && !specs.iter().any(|spec| spec.is_serializer() || matches!(spec, CodecSpec::Unknown(_)))
    {
        return Err("dtype |O without an object codec in the filters".to_owned());
    }
    Ok(specs)
}

/// Returns the list of a v3 array's `codecs`.
pub(super) fn parse_v3(codecs: &Json, rank: usize, data_type: &DataType) -> Result<Vec<CodecSpec>, String> {
    let codecs = codecs.as_array().ok_or("codecs is not a list")?;
    let mut specs: Vec<CodecSpec> = Vec::with_capacity(codecs.len());
    let empty = Object::default();
    for json in codecs {
        let (name, configuration) = match json {
            Json::String(name) => (name.as_str(), &empty),
            Json::Object(object) => (
                object.get("name").and_then(Json::as_str).ok_or("a codec has no `name`")?,
                object.get("configuration").and_then(Json::as_object).unwrap_or(&empty),
            ),
            _ => return Err(format!("expected a codec, found {json}")),
        };
        // filters that keep the type (bitround knows none) say nothing of it
        let filtered = specs.iter().rev().find_map(|spec| match spec {
            CodecSpec::Filter(
                Filter::Delta { decoded, stored }
                | Filter::FixedScaleOffset { decoded, stored, .. }
                | Filter::AsType { decoded, stored, .. },
            ) => (decoded != stored).then_some(*stored),
            _ => None,
        });
        specs.push(parse_v3_one(name, configuration, rank, data_type, filtered)?);
    }
    let unknown = specs.iter().any(|spec| matches!(spec, CodecSpec::Unknown(_)));
    let serializers = specs.iter().filter(|spec| spec.is_serializer()).count();
    if serializers != 1 && !unknown {
        return Err(format!("codecs has {serializers} array-to-bytes codecs, exactly 1 expected"));
    }
    Ok(specs)
}

fn parse_v3_one(
    name: &str,
    configuration: &Object,
    rank: usize,
    data_type: &DataType,
    filtered: Option<Number>,
) -> Result<CodecSpec, String> {
    Ok(match name {
        "bytes" | "endian" => match configuration.get("endian").map(Json::as_str) {
            Some(Some("big")) => CodecSpec::Bytes(match filtered {
                Some(number) => DataType::UInt(u8::try_from(number.bytes).unwrap_or(1)).all_swaps(),
                None => data_type.all_swaps(),
            }),
            None | Some(Some("little")) => CodecSpec::Bytes(Vec::new()),
            Some(_) => return Err("the bytes codec's endian is neither \"little\" nor \"big\"".to_owned()),
        },
        "transpose" => CodecSpec::Transpose(transpose_order(configuration, rank)?),
        "vlen-utf8" => CodecSpec::VlenUtf8,
        "vlen-bytes" => CodecSpec::VlenBytes,
        "vlen-array" => CodecSpec::VlenArray,
        "sharding_indexed" => CodecSpec::Sharding(Box::new(sharding(configuration, rank, data_type)?)),
        "crc32c" => CodecSpec::Checksum(Checksum::Crc32c, ChecksumPlace::End),
        "blosc" | "zstd" | "gzip" | "bitround" => numcodec(name, configuration, data_type),
        _ => match name.strip_prefix("numcodecs.") {
            Some(inner) => match numcodec(inner, configuration, data_type) {
                CodecSpec::Unknown(_) => CodecSpec::Unknown(name.to_owned()),
                spec => spec,
            },
            None => CodecSpec::Unknown(name.to_owned()),
        },
    })
}

fn transpose_order(configuration: &Object, rank: usize) -> Result<Vec<usize>, String> {
    let order: Vec<usize> = match configuration.get("order") {
        Some(Json::String(text)) if text == "C" => (0..rank).collect(),
        Some(Json::String(text)) if text == "F" => (0..rank).rev().collect(),
        Some(Json::Array(order)) => order.iter().filter_map(Json::as_integer).collect(),
        _ => Vec::new(),
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..rank) {
        return Err(format!("the transpose order is not a permutation of {rank} dimensions"));
    }
    Ok(order)
}

fn sharding(configuration: &Object, rank: usize, data_type: &DataType) -> Result<ShardingSpec, String> {
    let chunk_shape = configuration.get("chunk_shape").and_then(Json::as_array);
    let chunk_shape: Option<Vec<u64>> =
        chunk_shape.and_then(|shape| shape.iter().map(Json::as_integer).collect());
    let chunk_shape = chunk_shape
        .filter(|shape| shape.len() == rank && !shape.contains(&0))
        .ok_or("sharding_indexed: unusable chunk_shape")?;
    let codecs =
        parse_v3(configuration.get("codecs").ok_or("sharding_indexed: no codecs")?, rank, data_type)?;
    let index_codecs = match configuration.get("index_codecs") {
        Some(codecs) => parse_v3(codecs, rank + 1, &DataType::UInt(8))?,
        None => vec![CodecSpec::Bytes(Vec::new()), CodecSpec::Checksum(Checksum::Crc32c, ChecksumPlace::End)],
    };
    let index_at_start = match configuration.get("index_location").map(Json::as_str) {
        None | Some(Some("end")) => false,
        Some(Some("start")) => true,
        Some(_) => return Err("sharding_indexed: index_location is neither \"start\" nor \"end\"".to_owned()),
    };
    Ok(ShardingSpec { chunk_shape, codecs, index_codecs, index_at_start })
}

/// Returns the codec of an array of objects; `None` where it encodes something else, or in a way of its own.
fn object_codec(name: &str, configuration: &Object, data_type: &DataType) -> Option<ObjectCodec> {
    if *data_type != DataType::Object {
        return None;
    }
    let text = |key: &str| configuration.get(key).and_then(Json::as_str);
    Some(match name {
        "json2" if text("encoding").is_none_or(|encoding| encoding.eq_ignore_ascii_case("utf-8")) => {
            ObjectCodec::Json
        }
        "msgpack2" => ObjectCodec::MsgPack,
        "categorize" => {
            let stored = text("astype").map_or(
                Some(Number { kind: NumberKind::Unsigned, bytes: 1, big_endian: false }),
                parse_number,
            )?;
            if !matches!(stored.kind, NumberKind::Unsigned) {
                return None;
            }
            let labels = configuration.get("labels").and_then(Json::as_array)?;
            let labels: Option<Vec<String>> =
                labels.iter().map(|label| label.as_str().map(str::to_owned)).collect();
            ObjectCodec::Categorize { labels: labels?, stored }
        }
        _ => return None,
    })
}

/// Returns the codec that numcodecs (and the v3 codecs of the same name) call `name`.
fn numcodec(name: &str, configuration: &Object, data_type: &DataType) -> CodecSpec {
    known_numcodec(name, configuration, data_type).unwrap_or_else(|| CodecSpec::Unknown(name.to_owned()))
}

fn known_numcodec(name: &str, configuration: &Object, data_type: &DataType) -> Option<CodecSpec> {
    let level = |default: i32| configuration.get("level").and_then(Json::as_integer).unwrap_or(default);
    let number = |key: &str| configuration.get(key).and_then(Json::as_str).and_then(parse_number);
    let real = |key: &str| configuration.get(key).and_then(Json::as_f64);
    let place = |default| match configuration.get("location").and_then(Json::as_str) {
        Some("start") => ChecksumPlace::Start,
        Some("end") => ChecksumPlace::End,
        _ => default,
    };
    Some(match name {
        "blosc" => CodecSpec::Blosc(blosc(configuration, data_type)),
        "zstd" => CodecSpec::Zstd {
            level: level(0),
            checksum: configuration.get("checksum").and_then(Json::as_bool).unwrap_or(false),
        },
        "gzip" => CodecSpec::Gzip(level(1)),
        "zlib" => CodecSpec::Zlib(level(1)),
        "bz2" => CodecSpec::Bz2(level(1)),
        "lz4" => CodecSpec::Lz4,
        "lzma" => CodecSpec::Lzma(LzmaSpec {
            format: configuration.get("format").and_then(Json::as_integer).unwrap_or(1),
            filters: configuration.get("filters").filter(|filters| **filters != Json::Null).cloned(),
        }),
        "base64" => CodecSpec::Base64,
        "json2" | "msgpack2" | "categorize" => {
            CodecSpec::Objects(object_codec(name, configuration, data_type)?)
        }
        "shuffle" => {
            CodecSpec::Shuffle(configuration.get("elementsize").and_then(Json::as_integer).unwrap_or(4))
        }
        "delta" => {
            let decoded = number("dtype")?;
            CodecSpec::Filter(Filter::Delta { decoded, stored: number("astype").unwrap_or(decoded) })
        }
        "fixedscaleoffset" => {
            let decoded = number("dtype")?;
            let (offset, scale) = (real("offset")?, real("scale")?);
            CodecSpec::Filter(Filter::FixedScaleOffset {
                offset,
                scale,
                decoded,
                stored: number("astype").unwrap_or(decoded),
            })
        }
        "quantize" => {
            let decoded = number("dtype")?;
            CodecSpec::Filter(Filter::AsType {
                decoded,
                stored: number("astype").unwrap_or(decoded),
                lossy: true,
            })
        }
        "bitround" => {
            let number = Number { kind: NumberKind::Unsigned, bytes: 1, big_endian: false };
            CodecSpec::Filter(Filter::AsType { decoded: number, stored: number, lossy: true })
        }
        "astype" => CodecSpec::Filter(Filter::AsType {
            decoded: number("decode_dtype")?,
            stored: number("encode_dtype")?,
            lossy: false,
        }),
        "packbits" => CodecSpec::Filter(Filter::PackBits),
        "fletcher32" => CodecSpec::Checksum(Checksum::Fletcher32, ChecksumPlace::End),
        "crc32" => CodecSpec::Checksum(Checksum::Crc32, place(ChecksumPlace::Start)),
        "adler32" => CodecSpec::Checksum(Checksum::Adler32, place(ChecksumPlace::Start)),
        "crc32c" => CodecSpec::Checksum(Checksum::Crc32c, place(ChecksumPlace::End)),
        "jenkins_lookup3" => {
            if configuration.get("prefix").is_some_and(|prefix| *prefix != Json::Null) {
                return None;
            }
            let seed = configuration.get("initval").and_then(Json::as_integer).unwrap_or(0);
            CodecSpec::Checksum(Checksum::JenkinsLookup3 { seed }, ChecksumPlace::End)
        }
        "vlen-utf8" => CodecSpec::VlenUtf8,
        "vlen-bytes" => CodecSpec::VlenBytes,
        "vlen-array" => CodecSpec::VlenArray,
        _ => return None,
    })
}

fn blosc(configuration: &Object, data_type: &DataType) -> BloscSpec {
    let shuffle = configuration.get("shuffle").and_then(|shuffle| match shuffle {
        Json::String(text) => match text.as_str() {
            "noshuffle" => Some(BloscShuffle::None),
            "shuffle" => Some(BloscShuffle::Byte),
            "bitshuffle" => Some(BloscShuffle::Bit),
            _ => None,
        },
        number => match number.as_integer::<i32>()? {
            0 => Some(BloscShuffle::None),
            1 => Some(BloscShuffle::Byte),
            2 => Some(BloscShuffle::Bit),
            _ => None,
        },
    });
    BloscSpec {
        compressor: configuration.get("cname").and_then(Json::as_str).unwrap_or("lz4").to_owned(),
        level: configuration.get("clevel").and_then(Json::as_integer).unwrap_or(5),
        shuffle: shuffle.unwrap_or(BloscShuffle::Auto),
        type_bytes: configuration
            .get("typesize")
            .and_then(Json::as_integer)
            .unwrap_or_else(|| data_type.shuffle_bytes()),
        block_bytes: configuration.get("blocksize").and_then(Json::as_integer).unwrap_or(0),
    }
}

/// Parses numpy's short names of number types: `<f4`, `|u1`, `>i2`, `f4`, also `float32`.
fn parse_number(text: &str) -> Option<Number> {
    let (big_endian, rest) = match text.as_bytes().first()? {
        b'>' => (true, &text[1..]),
        b'<' | b'|' | b'=' => (false, &text[1..]),
        _ => (false, text),
    };
    let long = ["float", "uint", "int"]
        .iter()
        .find_map(|&name| Some((name, rest.strip_prefix(name)?.parse::<usize>().ok()? / 8)));
    let (kind, bytes) = match (long, rest) {
        (Some(("float", bytes)), _) => (NumberKind::Float, bytes),
        (Some(("uint", bytes)), _) => (NumberKind::Unsigned, bytes),
        (Some((_, bytes)), _) => (NumberKind::Signed, bytes),
        (None, "bool" | "b1" | "?") => (NumberKind::Unsigned, 1),
        (None, _) => {
            let kind = match rest.as_bytes().first()? {
                b'f' => NumberKind::Float,
                b'i' | b'M' | b'm' => NumberKind::Signed,
                b'u' => NumberKind::Unsigned,
                _ => return None,
            };
            let digits = rest[1..].split('[').next()?;
            (kind, digits.parse().ok()?)
        }
    };
    let known = match kind {
        NumberKind::Float => [2, 4, 8].contains(&bytes),
        _ => [1, 2, 4, 8].contains(&bytes),
    };
    known.then_some(Number { kind, bytes, big_endian: big_endian && bytes > 1 })
}
