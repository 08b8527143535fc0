//! Data types of Zarr v2 and v3, as far as moving and comparing elements needs them.
//!
//! Elements in memory are *canonical*: little-endian, packed, in C order. What a store holds in another byte
//! order is described by [`Swap`]s beside the type, so that one type stands for both.

use std::fmt;

use super::json::{Json, Object};

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
    pub(super) fn item_bytes(&self) -> Option<u64> {
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

    pub(super) fn collect_swaps(&self, offset: u64, swaps: &mut Vec<Swap>) {
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
