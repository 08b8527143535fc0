//! Data types of Zarr v2 and v3, as far as moving and comparing elements needs them.
//!
//! Elements in memory are *canonical*: little-endian, packed, in C order. What a store holds in another byte
//! order is described by [`Swap`]s beside the type, so that one type stands for both.

use std::fmt;

use super::json::{Json, Object};

/// Larger elements than this are refused: a hostile struct must not overflow sizes.
const MAX_ITEM_BYTES: u64 = 1 << 30;
/// Types nest (structs in structs) no deeper than this.
const MAX_NESTING: u32 = 32;

/// The type of one element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataType {
    /// One byte, 0 or 1.
    Bool,
    /// Signed integer of 1, 2, 4 or 8 bytes.
    Int(u8),
    /// Unsigned integer of 1, 2, 4 or 8 bytes.
    UInt(u8),
    /// IEEE 754 binary float of 2, 4 or 8 bytes.
    Float(u8),
    /// Two floats, real part first; 8 or 16 bytes in all.
    Complex(u8),
    /// A count of `scale` x `unit`: since 1970 (`datetime64`) or a duration (`timedelta64`), 8 bytes.
    Time {
        /// `datetime64` or `timedelta64`.
        kind: TimeKind,
        /// numpy's unit: `ns`, `s`, `D`, `generic`.
        unit: String,
        /// How many units one step is; mostly 1.
        scale: u32,
    },
    /// Bytes padded with NUL at the end: numpy's `S`.
    FixedBytes(u64),
    /// So many UTF-32 characters, padded with NUL: numpy's `U`.
    FixedUtf32(u64),
    /// So many opaque bytes: numpy's `V`, v3's `r*`.
    Raw(u64),
    /// Packed fields.
    Struct(Vec<Field>),
    /// A string of any length, UTF-8.
    String,
    /// Bytes of any length.
    Bytes,
    /// An array of any length of the given type (v2 `vlen-array`).
    VlenArray(Box<DataType>),
    /// Python objects of a codec that zkit does not decode (pickle, msgpack2, json2, categorize).
    Object,
    /// A registered v3 type that zkit moves without understanding: `bfloat16`, `int4`, `float8_e4m3fn`.
    Extension {
        /// Its name.
        name: String,
        /// Bytes of one element in memory and in the `bytes` codec.
        item_bytes: u8,
        /// Bytes of one word, the part that byte order turns round.
        word_bytes: u8,
    },
}

/// What a [`DataType::Time`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeKind {
    /// A point in time.
    DateTime,
    /// A duration.
    TimeDelta,
}

/// One field of a struct; `shape` is not empty where the field is itself an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The field's name; empty for padding.
    pub name: String,
    /// The type of one element of the field.
    pub data_type: DataType,
    /// The field's own shape; empty for a single element.
    pub shape: Vec<u64>,
}

impl Field {
    fn item_bytes(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.data_type.item_bytes()?, |bytes, &length| bytes.checked_mul(length))
    }

    /// Returns whether this is padding: numpy describes the gaps of aligned structs as nameless `V` fields.
    fn is_padding(&self) -> bool {
        self.name.is_empty() && matches!(self.data_type, DataType::Raw(_))
    }
}

/// A run of words inside an element whose bytes are stored in reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap {
    /// Byte offset inside the element.
    pub offset: u64,
    /// Bytes of one word.
    pub word_bytes: u8,
    /// How many words follow each other.
    pub count: u64,
}

impl DataType {
    /// Returns the bytes of one element, or `None` where elements have no fixed size.
    pub fn item_bytes(&self) -> Option<u64> {
        Some(match self {
            Self::Bool => 1,
            Self::Int(bytes) | Self::UInt(bytes) | Self::Float(bytes) | Self::Complex(bytes) => {
                u64::from(*bytes)
            }
            Self::Time { .. } => 8,
            Self::FixedBytes(bytes) | Self::Raw(bytes) => *bytes,
            Self::FixedUtf32(characters) => characters.checked_mul(4)?,
            Self::Struct(fields) => {
                fields.iter().try_fold(0u64, |sum, field| sum.checked_add(field.item_bytes()?))?
            }
            Self::Extension { item_bytes, .. } => u64::from(*item_bytes),
            Self::String | Self::Bytes | Self::VlenArray(_) | Self::Object => return None,
        })
    }

    /// Returns whether elements have no fixed size.
    pub fn is_variable(&self) -> bool {
        matches!(self, Self::String | Self::Bytes | Self::VlenArray(_) | Self::Object)
    }

    /// Returns the bytes that shuffles should take as one element: the word size, at most 255.
    pub fn shuffle_bytes(&self) -> u8 {
        match self {
            Self::Complex(bytes) => *bytes,
            Self::FixedUtf32(_) => 4,
            Self::Extension { item_bytes, .. } => *item_bytes,
            Self::Int(bytes) | Self::UInt(bytes) | Self::Float(bytes) => *bytes,
            Self::Time { .. } => 8,
            Self::Struct(_) => {
                self.item_bytes().and_then(|bytes| u8::try_from(bytes).ok()).unwrap_or(1).max(1)
            }
            _ => 1,
        }
    }

    /// Returns the swaps that turn every word of an element round: those of big-endian storage.
    pub fn all_swaps(&self) -> Vec<Swap> {
        let mut swaps = Vec::new();
        self.collect_swaps(0, &mut swaps);
        swaps
    }

    fn collect_swaps(&self, offset: u64, swaps: &mut Vec<Swap>) {
        let (word_bytes, count) = match self {
            Self::Int(bytes) | Self::UInt(bytes) | Self::Float(bytes) => (*bytes, 1),
            Self::Complex(bytes) => (bytes / 2, 2),
            Self::Time { .. } => (8, 1),
            Self::FixedUtf32(characters) => (4, *characters),
            Self::Extension { item_bytes, word_bytes, .. } => {
                (*word_bytes, u64::from(item_bytes / word_bytes))
            }
            Self::Struct(fields) => {
                let mut at = offset;
                for field in fields {
                    let bytes = field.data_type.item_bytes().unwrap_or(0);
                    for _ in 0..field.shape.iter().product::<u64>() {
                        field.data_type.collect_swaps(at, swaps);
                        at += bytes;
                    }
                }
                return;
            }
            _ => return,
        };
        if word_bytes > 1 && count > 0 {
            swaps.push(Swap { offset, word_bytes, count });
        }
    }

    /// Returns the byte ranges of an element that are padding, as (offset, length).
    pub fn padding(&self) -> Vec<(usize, usize)> {
        let Self::Struct(fields) = self else { return Vec::new() };
        let mut ranges = Vec::new();
        let mut at = 0;
        for field in fields {
            let bytes = crate::units::saturating_usize(field.item_bytes().unwrap_or(0));
            if field.is_padding() {
                ranges.push((at, bytes));
            } else {
                let one = crate::units::saturating_usize(field.data_type.item_bytes().unwrap_or(0));
                for (copy, inner) in
                    (0..bytes.checked_div(one).unwrap_or(0)).map(|copy| (copy, field.data_type.padding()))
                {
                    ranges.extend(inner.iter().map(|&(offset, length)| (at + copy * one + offset, length)));
                }
            }
            at += bytes;
        }
        ranges
    }

    /// Returns the type's JSON in v3 metadata, or `None` where v3 cannot say it.
    pub fn to_v3(&self) -> Option<Json> {
        let name = match self {
            Self::Bool => "bool".to_owned(),
            Self::Int(bytes) => format!("int{}", 8 * bytes),
            Self::UInt(bytes) => format!("uint{}", 8 * bytes),
            Self::Float(bytes) => format!("float{}", 8 * bytes),
            Self::Complex(bytes) => format!("complex{}", 8 * bytes),
            Self::String => "string".to_owned(),
            Self::Bytes => "variable_length_bytes".to_owned(),
            Self::Extension { name, .. } => name.clone(),
            Self::Time { kind, unit, scale } => {
                let name = match kind {
                    TimeKind::DateTime => "numpy.datetime64",
                    TimeKind::TimeDelta => "numpy.timedelta64",
                };
                return Some(named(
                    name,
                    [("unit", Json::string(unit)), ("scale_factor", Json::number(scale))],
                ));
            }
            Self::FixedBytes(bytes) => {
                return Some(named("null_terminated_bytes", [("length_bytes", Json::number(bytes))]));
            }
            Self::FixedUtf32(characters) => {
                return Some(named("fixed_length_utf32", [("length_bytes", Json::number(4 * characters))]));
            }
            Self::Raw(bytes) => return Some(named("raw_bytes", [("length_bytes", Json::number(bytes))])),
            // `structured` is the name that zarr-python wrote first; later ones say `struct` and read both
            Self::Struct(fields) => {
                let fields: Option<Vec<Json>> = fields
                    .iter()
                    .map(|field| {
                        let data_type = field.data_type.to_v3().filter(|_| field.shape.is_empty())?;
                        Some(Json::Array(vec![Json::string(&field.name), data_type]))
                    })
                    .collect();
                return Some(named("structured", [("fields", Json::Array(fields?))]));
            }
            Self::VlenArray(_) | Self::Object => return None,
        };
        Some(Json::String(name))
    }

    /// Returns the type's JSON in v2 metadata, little-endian, or `None` where v2 cannot say it.
    pub fn to_v2(&self) -> Option<Json> {
        let text = match self {
            Self::Bool => "|b1".to_owned(),
            Self::Int(bytes) => format!("{}i{bytes}", order_mark(*bytes)),
            Self::UInt(bytes) => format!("{}u{bytes}", order_mark(*bytes)),
            Self::Float(bytes) => format!("<f{bytes}"),
            Self::Complex(bytes) => format!("<c{bytes}"),
            Self::Time { kind, unit, scale } => {
                let letter = match kind {
                    TimeKind::DateTime => 'M',
                    TimeKind::TimeDelta => 'm',
                };
                match (unit.as_str(), scale) {
                    ("generic", _) => format!("<{letter}8"),
                    (unit, 1) => format!("<{letter}8[{unit}]"),
                    (unit, scale) => format!("<{letter}8[{scale}{unit}]"),
                }
            }
            Self::FixedBytes(bytes) => format!("|S{bytes}"),
            Self::FixedUtf32(characters) => format!("<U{characters}"),
            Self::Raw(bytes) => format!("|V{bytes}"),
            Self::Struct(fields) => {
                let fields: Option<Vec<Json>> = fields.iter().map(field_to_v2).collect();
                return Some(Json::Array(fields?));
            }
            Self::String | Self::Bytes | Self::VlenArray(_) | Self::Object => "|O".to_owned(),
            Self::Extension { .. } => return None,
        };
        Some(Json::String(text))
    }
}

fn field_to_v2(field: &Field) -> Option<Json> {
    let mut parts = vec![Json::string(&field.name), field.data_type.to_v2()?];
    if !field.shape.is_empty() {
        parts.push(Json::Array(field.shape.iter().map(Json::number).collect()));
    }
    Some(Json::Array(parts))
}

fn order_mark(bytes: u8) -> char {
    if bytes == 1 { '|' } else { '<' }
}

fn named<const N: usize>(name: &str, configuration: [(&str, Json); N]) -> Json {
    Json::Object(Object::from_iter([
        ("name", Json::string(name)),
        ("configuration", Json::Object(Object::from_iter(configuration))),
    ]))
}

impl fmt::Display for DataType {
    /// Writes the v3 name where there is one (`float32`, `numpy.datetime64[ns]`), else the v2 text (`<U4`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time { kind, unit, scale } => {
                let name = match kind {
                    TimeKind::DateTime => "numpy.datetime64",
                    TimeKind::TimeDelta => "numpy.timedelta64",
                };
                match scale {
                    1 => write!(f, "{name}[{unit}]"),
                    scale => write!(f, "{name}[{scale}{unit}]"),
                }
            }
            Self::Bytes => f.write_str("bytes"),
            Self::VlenArray(inner) => write!(f, "vlen-array[{inner}]"),
            Self::Object => f.write_str("|O"),
            Self::FixedBytes(_) | Self::FixedUtf32(_) | Self::Raw(_) | Self::Struct(_) => {
                match self.to_v2() {
                    Some(Json::String(text)) => f.write_str(&text),
                    Some(json) => write!(f, "{json}"),
                    None => f.write_str("struct"),
                }
            }
            _ => match self.to_v3() {
                Some(Json::String(name)) => f.write_str(&name),
                _ => f.write_str("unknown"),
            },
        }
    }
}

/// Parses the `dtype` of v2 metadata; returns the type and what is stored big-endian.
///
/// `object` gives the type of `|O` elements, which v2 keeps in the filters.
pub(super) fn parse_v2(json: &Json, object: &DataType) -> Result<(DataType, Vec<Swap>), String> {
    let mut swaps = Vec::new();
    let data_type = parse_v2_at(json, object, 0, 0, &mut swaps)?;
    match data_type.item_bytes() {
        Some(bytes) if bytes > MAX_ITEM_BYTES => Err(format!("dtype {json}: {bytes} bytes an element")),
        Some(_) => Ok((data_type, swaps)),
        None if data_type.is_variable() => Ok((data_type, swaps)),
        None => Err(format!("dtype {json}: the size of an element overflows")),
    }
}

fn parse_v2_at(
    json: &Json,
    object: &DataType,
    offset: u64,
    depth: u32,
    swaps: &mut Vec<Swap>,
) -> Result<DataType, String> {
    if depth > MAX_NESTING {
        return Err("dtype: structs nested more than 32 deep".to_owned());
    }
    match json {
        Json::String(text) => parse_v2_text(text, object, offset, swaps),
        Json::Array(fields) if !fields.is_empty() => {
            let mut at = offset;
            let mut parsed = Vec::with_capacity(fields.len());
            for field in fields {
                let field = parse_v2_field(field, object, at, depth, swaps)?;
                let bytes = field.item_bytes().filter(|&bytes| bytes <= MAX_ITEM_BYTES);
                at += bytes.ok_or_else(|| format!("dtype: field `{}` has no usable size", field.name))?;
                parsed.push(field);
            }
            Ok(DataType::Struct(parsed))
        }
        _ => Err(format!("dtype: expected a string or a list of fields, found {json}")),
    }
}

fn parse_v2_field(
    json: &Json,
    object: &DataType,
    offset: u64,
    depth: u32,
    swaps: &mut Vec<Swap>,
) -> Result<Field, String> {
    let (Some(name), Some(data_type), shape) = (|| {
        let parts = json.as_array().filter(|parts| (2..=3).contains(&parts.len()))?;
        Some((parts[0].as_str(), Some(&parts[1]), parts.get(2)))
    })()
    .unwrap_or((None, None, None)) else {
        return Err(format!("dtype: expected [name, type] or [name, type, shape], found {json}"));
    };
    let shape: Vec<u64> = match shape {
        None => Vec::new(),
        Some(length @ Json::Number(_)) => vec![length.as_integer().ok_or("dtype: bad field shape")?],
        Some(lengths) => (lengths.as_array().ok_or("dtype: bad field shape")?.iter())
            .map(|length| length.as_integer().ok_or("dtype: bad field shape"))
            .collect::<Result<_, _>>()?,
    };
    let mut own = Vec::new();
    let field = Field {
        name: name.to_owned(),
        data_type: parse_v2_at(data_type, object, 0, depth + 1, &mut own)?,
        shape,
    };
    let one = field.data_type.item_bytes().unwrap_or(0);
    let copies = field.item_bytes().and_then(|bytes| bytes.checked_div(one)).unwrap_or(0);
    if copies.saturating_mul(own.len() as u64) > 100_000 {
        return Err(format!("dtype: field `{name}` has too many big-endian words"));
    }
    for copy in 0..if own.is_empty() { 0 } else { copies } {
        swaps.extend(own.iter().map(|swap| Swap { offset: offset + copy * one + swap.offset, ..*swap }));
    }
    Ok(field)
}

fn parse_v2_text(
    text: &str,
    object: &DataType,
    offset: u64,
    swaps: &mut Vec<Swap>,
) -> Result<DataType, String> {
    let unknown = || format!("dtype `{text}` is not one that Zarr v2 has");
    let (big_endian, rest) = match text.as_bytes().first() {
        Some(b'<' | b'|' | b'=') => (false, &text[1..]),
        Some(b'>') => (true, &text[1..]),
        _ => (false, text),
    };
    let letter = rest.chars().next().filter(char::is_ascii).ok_or_else(unknown)?;
    let (size, unit) = match rest[1..].split_once('[') {
        Some((size, unit)) => (size, Some(unit.strip_suffix(']').ok_or_else(unknown)?)),
        None => (&rest[1..], None),
    };
    let size: Option<u64> = if size.is_empty() { None } else { Some(size.parse().map_err(|_| unknown())?) };
    let one_of = |sizes: &[u8]| {
        sizes.iter().copied().find(|&known| size == Some(u64::from(known))).ok_or_else(unknown)
    };
    let data_type = match letter {
        'b' => one_of(&[1]).map(|_| DataType::Bool)?,
        'i' => DataType::Int(one_of(&[1, 2, 4, 8])?),
        'u' => DataType::UInt(one_of(&[1, 2, 4, 8])?),
        'f' => DataType::Float(one_of(&[2, 4, 8])?),
        'c' => DataType::Complex(one_of(&[8, 16])?),
        'S' | 'a' => DataType::FixedBytes(size.ok_or_else(unknown)?),
        'U' => DataType::FixedUtf32(size.ok_or_else(unknown)?),
        'V' => DataType::Raw(size.ok_or_else(unknown)?),
        'O' => object.clone(),
        'M' | 'm' => {
            one_of(&[8])?;
            let kind = if letter == 'M' { TimeKind::DateTime } else { TimeKind::TimeDelta };
            let (unit, scale) = parse_time_unit(unit.unwrap_or("generic")).ok_or_else(unknown)?;
            DataType::Time { kind, unit, scale }
        }
        _ => return Err(unknown()),
    };
    if unit.is_some() && !matches!(data_type, DataType::Time { .. }) {
        return Err(unknown());
    }
    if big_endian {
        data_type.collect_swaps(offset, swaps);
    }
    Ok(data_type)
}

/// Splits numpy's unit text: `ns`, `25s`.
fn parse_time_unit(text: &str) -> Option<(String, u32)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let scale = if digits == 0 { 1 } else { text[..digits].parse().ok().filter(|&scale| scale > 0)? };
    let unit = &text[digits..];
    const UNITS: [&str; 15] =
        ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "μs", "ns", "ps", "fs", "as", "generic"];
    UNITS.contains(&unit).then(|| (unit.replace('μ', "u"), scale))
}

/// Parses the `data_type` of v3 metadata.
pub(super) fn parse_v3(json: &Json) -> Result<DataType, String> {
    let data_type = parse_v3_at(json, 0)?;
    match data_type.item_bytes() {
        Some(bytes) if bytes > MAX_ITEM_BYTES => Err(format!("data_type {json}: {bytes} bytes an element")),
        None if !data_type.is_variable() => {
            Err(format!("data_type {json}: the size of an element overflows"))
        }
        _ => Ok(data_type),
    }
}

fn parse_v3_at(json: &Json, depth: u32) -> Result<DataType, String> {
    if depth > MAX_NESTING {
        return Err("data_type: structs nested more than 32 deep".to_owned());
    }
    let empty = Object::default();
    let (name, configuration) = match json {
        Json::String(name) => (name.as_str(), &empty),
        Json::Object(object) => (
            object
                .get("name")
                .and_then(Json::as_str)
                .ok_or_else(|| format!("data_type {json} has no name"))?,
            object.get("configuration").and_then(Json::as_object).unwrap_or(&empty),
        ),
        _ => return Err(format!("data_type: expected a name or an object, found {json}")),
    };
    let length = || {
        let length = configuration.get("length_bytes").and_then(Json::as_integer::<u64>);
        length.ok_or_else(|| format!("data_type {json} has no usable `length_bytes`"))
    };
    Ok(match name {
        "bool" => DataType::Bool,
        "int8" | "int16" | "int32" | "int64" => DataType::Int(bits_to_bytes(name, "int")),
        "uint8" | "uint16" | "uint32" | "uint64" => DataType::UInt(bits_to_bytes(name, "uint")),
        "float16" | "float32" | "float64" => DataType::Float(bits_to_bytes(name, "float")),
        "complex64" | "complex128" => DataType::Complex(bits_to_bytes(name, "complex")),
        "string" | "variable_length_utf8" => DataType::String,
        "bytes" | "variable_length_bytes" => DataType::Bytes,
        "null_terminated_bytes" | "fixed_length_ascii" => DataType::FixedBytes(length()?),
        "fixed_length_utf32" | "fixed_length_ucs4" => match length()? {
            bytes if bytes % 4 == 0 => DataType::FixedUtf32(bytes / 4),
            bytes => return Err(format!("data_type {name}: {bytes} bytes are not whole UTF-32 characters")),
        },
        "raw_bytes" | "fixed_length_bytes" | "fixed_length_raw_bytes" => DataType::Raw(length()?),
        "numpy.datetime64" => parse_v3_time(TimeKind::DateTime, configuration, json)?,
        "numpy.timedelta64" => parse_v3_time(TimeKind::TimeDelta, configuration, json)?,
        "struct" | "structured" => {
            let fields = configuration.get("fields").and_then(Json::as_array);
            let fields = fields
                .filter(|fields| !fields.is_empty())
                .ok_or_else(|| format!("data_type {json} has no fields"))?;
            DataType::Struct(
                fields.iter().map(|field| parse_v3_field(field, depth)).collect::<Result<_, _>>()?,
            )
        }
        _ => match (raw_bits(name), extension(name)) {
            (Some(bytes), _) => DataType::Raw(bytes),
            (None, Some(data_type)) => data_type,
            (None, None) => return Err(format!("data type `{name}` is not one that zkit knows")),
        },
    })
}

fn parse_v3_field(json: &Json, depth: u32) -> Result<Field, String> {
    let (name, data_type) = match json {
        Json::Array(parts) if parts.len() == 2 => (parts[0].as_str(), Some(&parts[1])),
        Json::Object(object) => (object.get("name").and_then(Json::as_str), object.get("data_type")),
        _ => (None, None),
    };
    let (Some(name), Some(data_type)) = (name, data_type) else {
        return Err(format!("data_type: expected a struct field, found {json}"));
    };
    let data_type = parse_v3_at(data_type, depth + 1)?;
    if data_type.is_variable() {
        return Err(format!("data_type: struct field `{name}` has no fixed size"));
    }
    Ok(Field { name: name.to_owned(), data_type, shape: Vec::new() })
}

fn parse_v3_time(kind: TimeKind, configuration: &Object, json: &Json) -> Result<DataType, String> {
    let unit = configuration.get("unit").and_then(Json::as_str).and_then(parse_time_unit);
    let (unit, _) = unit.ok_or_else(|| format!("data_type {json} has no usable `unit`"))?;
    let scale = configuration.get("scale_factor").map_or(Some(1), Json::as_integer::<u32>);
    let scale = scale
        .filter(|&scale| scale > 0)
        .ok_or_else(|| format!("data_type {json} has no usable `scale_factor`"))?;
    Ok(DataType::Time { kind, unit, scale })
}

fn bits_to_bytes(name: &str, prefix: &str) -> u8 {
    name[prefix.len()..].parse::<u8>().map_or(1, |bits| bits / 8)
}

/// Returns the bytes of the core specification's `r8`, `r16`, ... types.
fn raw_bits(name: &str) -> Option<u64> {
    let bits: u64 = name.strip_prefix('r')?.parse().ok()?;
    (bits > 0 && bits.is_multiple_of(8)).then_some(bits / 8)
}

/// Returns the registered types that are moved as opaque words.
/// Source: <https://github.com/zarr-developers/zarr-extensions/tree/main/data-types>
fn extension(name: &str) -> Option<DataType> {
    let (item_bytes, word_bytes) = match name {
        "bfloat16" => (2, 2),
        "complex_float16" | "complex_bfloat16" => (4, 2),
        "complex_float32" => (8, 4),
        "complex_float64" => (16, 8),
        "int2" | "int4" | "uint2" | "uint4" | "float4_e2m1fn" | "float6_e2m3fn" | "float6_e3m2fn" => (1, 1),
        name if name.starts_with("float8_") => (1, 1),
        name if name.starts_with("complex_float8_")
            || name.starts_with("complex_float6_")
            || name.starts_with("complex_float4_") =>
        {
            (2, 1)
        }
        _ => return None,
    };
    Some(DataType::Extension { name: name.to_owned(), item_bytes, word_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(text: &str) -> Result<(DataType, Vec<Swap>), String> {
        parse_v2(&Json::parse(text.as_bytes()).unwrap(), &DataType::Object)
    }

    #[test]
    fn parses_every_v2_form() {
        for (text, shown, bytes) in [
            ("\"|b1\"", "bool", Some(1)),
            ("\"<i2\"", "int16", Some(2)),
            ("\">f4\"", "float32", Some(4)),
            ("\"<c16\"", "complex128", Some(16)),
            ("\"<M8[25s]\"", "numpy.datetime64[25s]", Some(8)),
            ("\"<m8\"", "numpy.timedelta64[generic]", Some(8)),
            ("\"|S7\"", "|S7", Some(7)),
            ("\">U3\"", "<U3", Some(12)),
            ("\"|V5\"", "|V5", Some(5)),
            ("\"|O\"", "|O", None),
        ] {
            let (data_type, _) = v2(text).unwrap();
            assert_eq!((data_type.to_string().as_str(), data_type.item_bytes()), (shown, bytes), "{text}");
        }
    }

    #[test]
    fn finds_big_endian_words_inside_structs() {
        let (data_type, swaps) =
            v2(r#"[["a","|u1"],["b",">f4",[2]],["c",[["d",">i2"],["e","<i2"]]]]"#).unwrap();
        assert_eq!(data_type.item_bytes(), Some(13));
        let found: Vec<_> = swaps.iter().map(|swap| (swap.offset, swap.word_bytes, swap.count)).collect();
        assert_eq!(found, [(1, 4, 1), (5, 4, 1), (9, 2, 1)]);
    }

    #[test]
    fn knows_the_padding_of_aligned_structs() {
        let (data_type, _) = v2(r#"[["a","|i1"],["","|V3"],["b","<i4"]]"#).unwrap();
        assert_eq!(data_type.padding(), [(1, 3)]);
    }

    #[test]
    fn refuses_what_is_no_type() {
        for text in [
            "\"<q9\"",
            "\"<i3\"",
            "\"\"",
            "7",
            "[]",
            "[[\"a\"]]",
            "\"|S99999999999\"",
            "[[\"a\",\"|V1\",[4294967296,4294967296]]]",
            "\"é\"",
        ] {
            assert!(v2(text).is_err(), "{text}");
        }
    }

    #[test]
    fn v3_types_round_trip() {
        for text in [
            "\"int8\"",
            "\"float16\"",
            "\"complex64\"",
            "\"string\"",
            "\"bfloat16\"",
            "{\"name\":\"numpy.datetime64\",\"configuration\":{\"unit\":\"ns\",\"scale_factor\":1}}",
            "{\"name\":\"fixed_length_utf32\",\"configuration\":{\"length_bytes\":16}}",
        ] {
            let json = Json::parse(text.as_bytes()).unwrap();
            assert_eq!(parse_v3(&json).unwrap().to_v3().unwrap(), json);
        }
        assert_eq!(parse_v3(&Json::string("r24")).unwrap(), DataType::Raw(3));
        assert!(parse_v3(&Json::string("r7")).is_err());
    }
}
