//! Fill values: the many JSON forms of v2 and v3, and one form in memory.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use half::f16;

use super::data_type::{DataType, Swap};
use super::json::{Json, Object};

/// What absent chunks read as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FillValue {
    /// v2's `null`: undefined by the specification; readers give the type's zero.
    Null,
    /// One element, canonical (little-endian, packed).
    Item(Vec<u8>),
    /// One element of a type without fixed size.
    Variable(Vec<u8>),
    /// A value that this type cannot have; absent chunks cannot be read.
    Invalid(String),
}

/// Parses the fill value of a v2 array; `swaps` say what base64 forms hold big-endian.
pub(super) fn parse_v2(json: &Json, data_type: &DataType, swaps: &[Swap]) -> FillValue {
    if *json == Json::Null {
        return FillValue::Null;
    }
    let base64_form = matches!(data_type, DataType::FixedBytes(_) | DataType::Raw(_) | DataType::Struct(_));
    if let (true, Some(text)) = (base64_form, json.as_str()) {
        return match BASE64.decode(text) {
            Ok(mut bytes) => {
                let length = crate::units::saturating_usize(data_type.item_bytes().unwrap_or(0));
                if bytes.len() > length {
                    return FillValue::Invalid(format!(
                        "fill value {json} is longer than an element of {data_type}"
                    ));
                }
                bytes.resize(length, 0);
                swap_item(&mut bytes, swaps);
                FillValue::Item(bytes)
            }
            // old writers put the text itself
            Err(_) => parse(json, data_type),
        };
    }
    parse(json, data_type)
}

/// Parses the fill value of a v3 array.
pub(super) fn parse_v3(json: &Json, data_type: &DataType) -> FillValue {
    parse(json, data_type)
}

fn swap_item(item: &mut [u8], swaps: &[Swap]) {
    for swap in swaps {
        let word = usize::from(swap.word_bytes);
        let start = crate::units::saturating_usize(swap.offset);
        let length = word.saturating_mul(crate::units::saturating_usize(swap.count));
        if let Some(words) = start.checked_add(length).and_then(|end| item.get_mut(start..end)) {
            words.chunks_exact_mut(word).for_each(<[u8]>::reverse);
        }
    }
}

fn parse(json: &Json, data_type: &DataType) -> FillValue {
    let variable = match (data_type, json) {
        (DataType::String, Json::String(text)) => Some(text.as_bytes().to_vec()),
        // zarr-python 2 wrote 0 for the empty string of object arrays
        (
            DataType::String | DataType::Bytes | DataType::Object | DataType::VlenArray(_),
            Json::Number(_) | Json::Null,
        ) => Some(Vec::new()),
        (DataType::Bytes, Json::String(text)) => {
            Some(BASE64.decode(text).unwrap_or_else(|_| text.as_bytes().to_vec()))
        }
        (DataType::Bytes, Json::Array(bytes)) => bytes.iter().map(Json::as_integer::<u8>).collect(),
        (DataType::Object | DataType::VlenArray(_), Json::String(text)) => Some(text.as_bytes().to_vec()),
        _ => None,
    };
    if let Some(bytes) = variable {
        return FillValue::Variable(bytes);
    }
    match item(json, data_type) {
        Some(bytes) => FillValue::Item(bytes),
        None => FillValue::Invalid(format!("{data_type} has no fill value {json}")),
    }
}

/// Returns one canonical element, or `None` where the type has no such value.
fn item(json: &Json, data_type: &DataType) -> Option<Vec<u8>> {
    match data_type {
        DataType::Bool => {
            let value = json.as_bool().or_else(|| json.as_f64().map(|number| number != 0.0))?;
            Some(vec![u8::from(value)])
        }
        DataType::Int(bytes) => integer(json).and_then(|value| fit(value, *bytes, true)),
        DataType::UInt(bytes) => integer(json).and_then(|value| fit(value, *bytes, false)),
        DataType::Float(bytes) => float(json, *bytes),
        DataType::Complex(bytes) => match json.as_array() {
            Some([real, imaginary]) => Some([float(real, bytes / 2)?, float(imaginary, bytes / 2)?].concat()),
            Some(_) => None,
            None => Some([float(json, bytes / 2)?, float(&Json::number(0), bytes / 2)?].concat()),
        },
        DataType::Time { .. } => match json.as_str() {
            Some("NaT") => Some(i64::MIN.to_le_bytes().to_vec()),
            Some(_) => None,
            None => integer(json).and_then(|value| fit(value, 8, true)),
        },
        DataType::FixedBytes(length) | DataType::Raw(length) => {
            let mut bytes = match json {
                Json::String(text) => BASE64.decode(text).unwrap_or_else(|_| text.as_bytes().to_vec()),
                Json::Array(bytes) => bytes.iter().map(Json::as_integer::<u8>).collect::<Option<_>>()?,
                Json::Number(_) if json.as_f64() == Some(0.0) => Vec::new(),
                _ => return None,
            };
            padded(&mut bytes, *length).then_some(bytes)
        }
        DataType::FixedUtf32(characters) => {
            let mut bytes: Vec<u8> = match json {
                Json::String(text) => text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
                Json::Number(_) if json.as_f64() == Some(0.0) => Vec::new(),
                _ => return None,
            };
            padded(&mut bytes, characters.checked_mul(4)?).then_some(bytes)
        }
        DataType::Struct(fields) => match json {
            Json::Object(object) => struct_item(object, fields),
            Json::String(text) => {
                let mut bytes = BASE64.decode(text).ok()?;
                padded(&mut bytes, data_type.item_bytes()?).then_some(bytes)
            }
            Json::Number(_) if json.as_f64() == Some(0.0) => Some(zero(data_type)),
            _ => None,
        },
        DataType::Extension { name, item_bytes, .. } => extension_item(json, name, *item_bytes),
        DataType::String | DataType::Bytes | DataType::VlenArray(_) | DataType::Object => None,
    }
}

fn struct_item(object: &Object, fields: &[super::data_type::Field]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for field in fields {
        let one = object
            .get(&field.name)
            .map_or_else(|| Some(zero(&field.data_type)), |json| item(json, &field.data_type))?;
        let copies = field.shape.iter().product::<u64>();
        for _ in 0..copies {
            bytes.extend_from_slice(&one);
        }
    }
    Some(bytes)
}

/// Returns the type's zero as a canonical element; empty for types without fixed size.
pub(super) fn zero(data_type: &DataType) -> Vec<u8> {
    vec![0; crate::units::saturating_usize(data_type.item_bytes().unwrap_or(0))]
}

fn padded(bytes: &mut Vec<u8>, length: u64) -> bool {
    let length = crate::units::saturating_usize(length);
    let fits = bytes.len() <= length;
    bytes.resize(length, 0);
    fits
}

/// Returns a whole number; `-999.0` and `1e3` count as whole, as numpy casts them.
fn integer(json: &Json) -> Option<i128> {
    let exact = match json {
        Json::Bool(value) => Some(i128::from(*value)),
        _ => json.as_integer::<i128>(),
    };
    exact.or_else(|| {
        let value = json.as_f64().or_else(|| json.as_str()?.parse().ok())?;
        #[expect(clippy::cast_possible_truncation, reason = "bounded by the check")]
        (value.fract() == 0.0 && value.abs() < 1e30).then_some(value as i128)
    })
}

fn fit(value: i128, bytes: u8, signed: bool) -> Option<Vec<u8>> {
    let bits = 8 * u32::from(bytes);
    let (low, high) =
        if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
    (low..=high).contains(&value).then(|| value.to_le_bytes()[..usize::from(bytes)].to_vec())
}

/// Returns a float element from a number, `"NaN"`, `"Infinity"`, `"-Infinity"` or v3's bit pattern `"0x7fc00001"`.
fn float(json: &Json, bytes: u8) -> Option<Vec<u8>> {
    let value = match json {
        Json::String(text) => match text.as_str() {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            text if text.starts_with("0x") => return bits(text, bytes),
            text => text.parse().ok()?,
        },
        Json::Bool(value) => f64::from(u8::from(*value)),
        _ => json.as_f64()?,
    };
    Some(match bytes {
        2 => f16::from_f64(value).to_le_bytes().to_vec(),
        #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest float32, as numpy does")]
        4 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    })
}

/// Returns the element whose bits `text` gives as big-endian hexadecimal.
fn bits(text: &str, bytes: u8) -> Option<Vec<u8>> {
    let value = u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    let fits = bytes == 8 || value < 1u64 << (8 * bytes);
    fits.then(|| value.to_le_bytes()[..usize::from(bytes)].to_vec())
}

fn extension_item(json: &Json, name: &str, item_bytes: u8) -> Option<Vec<u8>> {
    if let Some(bytes) = json.as_str().and_then(|text| bits(text, item_bytes.min(8))) {
        return Some(bytes);
    }
    if name == "bfloat16" {
        // round to nearest even: the upper half of the float32
        let bytes = float(json, 4)?;
        let value = u32::from_le_bytes(bytes.try_into().ok()?);
        let nan = value & 0x7fff_ffff > 0x7f80_0000;
        let rounded = if nan { (value >> 16) | 0x40 } else { (value + 0x7fff + ((value >> 16) & 1)) >> 16 };
        return Some(rounded.to_le_bytes()[..2].to_vec());
    }
    if name.starts_with("int") || name.starts_with("uint") {
        return integer(json).and_then(|value| fit(value, 1, name.starts_with("int")));
    }
    // only zero has the same bits in every float format
    let zero = json.as_f64() == Some(0.0)
        || json.as_array().is_some_and(|parts| parts.iter().all(|part| part.as_f64() == Some(0.0)));
    zero.then(|| vec![0; usize::from(item_bytes)])
}

impl FillValue {
    /// Returns the element that absent chunks read as: the type's zero under a null; `None` if it is invalid.
    pub fn element(&self, data_type: &DataType) -> Option<Vec<u8>> {
        match self {
            Self::Null => Some(zero(data_type)),
            Self::Item(bytes) | Self::Variable(bytes) => Some(bytes.clone()),
            Self::Invalid(_) => None,
        }
    }

    /// Returns whether readers are told what absent chunks hold: neither left open nor invalid.
    pub fn is_known(&self) -> bool {
        matches!(self, Self::Item(_) | Self::Variable(_))
    }

    /// Returns the value in v3's JSON form: `"NaN"`, `"0x7fc00001"`, base64 for bytes; null stays null.
    pub fn to_v3(&self, data_type: &DataType) -> Json {
        match self {
            Self::Null | Self::Invalid(_) => Json::Null,
            Self::Variable(bytes) => match data_type {
                DataType::Bytes => Json::string(BASE64.encode(bytes)),
                _ => Json::string(String::from_utf8_lossy(bytes)),
            },
            Self::Item(bytes) => item_to_json(bytes, data_type),
        }
    }

    /// Returns the value in v2's JSON form.
    pub fn to_v2(&self, data_type: &DataType) -> Json {
        match (self, data_type) {
            (Self::Item(bytes), DataType::Float(8 | 4 | 2) | DataType::Complex(_)) => {
                // v2 has no bit patterns: any NaN is "NaN"
                match item_to_json(bytes, data_type) {
                    Json::String(text) if text.starts_with("0x") => Json::string("NaN"),
                    json => json,
                }
            }
            (Self::Item(bytes), DataType::Raw(_) | DataType::Struct(_) | DataType::FixedBytes(_)) => {
                Json::string(BASE64.encode(bytes))
            }
            _ => self.to_v3(data_type),
        }
    }

    /// Returns the `_FillValue` attribute by which xarray marks missing values in v3 stores, or `None` where
    /// it has no form that it reads back. Source: `FillValueCoder` in xarray/backends/zarr.py.
    pub fn to_xarray_v3(&self, data_type: &DataType) -> Option<Json> {
        match (self, data_type) {
            (Self::Item(bytes), DataType::Float(_)) => Some(base64_f64(bytes)),
            (Self::Item(bytes), DataType::Complex(_)) => {
                let (real, imaginary) = bytes.split_at(bytes.len() / 2);
                Some(Json::Array(vec![base64_f64(real), base64_f64(imaginary)]))
            }
            (Self::Item(bytes), DataType::Bool | DataType::Int(_) | DataType::UInt(_)) => {
                Some(item_to_json(bytes, data_type))
            }
            _ => None,
        }
    }
}

/// Reads xarray's `_FillValue` attribute of a v3 array back; the inverse of [`FillValue::to_xarray_v3`].
pub(super) fn from_xarray_v3(json: &Json, data_type: &DataType) -> Option<FillValue> {
    let from_base64 = |json: &Json, bytes: u8| -> Option<Vec<u8>> {
        let value = f64::from_le_bytes(BASE64.decode(json.as_str()?).ok()?.try_into().ok()?);
        Some(match bytes {
            2 => f16::from_f64(value).to_le_bytes().to_vec(),
            #[expect(clippy::cast_possible_truncation, reason = "xarray widened it from float32")]
            4 => (value as f32).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        })
    };
    match data_type {
        DataType::Float(bytes) => from_base64(json, *bytes).map(FillValue::Item),
        DataType::Complex(bytes) => {
            let [real, imaginary] = json.as_array()? else { return None };
            Some(FillValue::Item(
                [from_base64(real, bytes / 2)?, from_base64(imaginary, bytes / 2)?].concat(),
            ))
        }
        DataType::Bool | DataType::Int(_) | DataType::UInt(_) => item(json, data_type).map(FillValue::Item),
        DataType::String | DataType::Bytes => match parse(json, data_type) {
            value @ FillValue::Variable(_) => Some(value),
            _ => None,
        },
        _ => None,
    }
}

impl DataType {
    /// Returns the canonical element that an attribute such as `missing_value` or xarray's `_FillValue` names; `None`
    /// where the type has no such value.
    pub fn element(&self, json: &Json) -> Option<Vec<u8>> {
        item(json, self).or_else(|| match from_xarray_v3(json, self) {
            Some(FillValue::Item(bytes)) => Some(bytes),
            _ => None,
        })
    }

    /// Returns one canonical element as text for people: `1.5`, `"abc"`, bytes as base64.
    pub fn show(&self, element: &[u8]) -> String {
        let value = if self.is_variable() {
            FillValue::Variable(element.to_vec())
        } else {
            FillValue::Item(element.to_vec())
        };
        value.to_v3(self).to_string()
    }
}

impl DataType {
    /// Returns the value of one canonical element as the nearest float64; `None` for types that are no real numbers.
    pub fn number_of(&self, element: &[u8]) -> Option<f64> {
        let mut wide = [0u8; 8];
        wide.get_mut(..element.len())?.copy_from_slice(element);
        let unsigned = u64::from_le_bytes(wide);
        #[expect(clippy::cast_precision_loss, reason = "the nearest float is what is asked for")]
        match self {
            Self::Float(_) => Some(float_value(element)),
            Self::Bool | Self::UInt(_) => Some(unsigned as f64),
            Self::Int(bytes) => {
                let spare = 64 - 8 * u32::from(*bytes).clamp(1, 8);
                Some((unsigned.cast_signed() << spare >> spare) as f64)
            }
            _ => None,
        }
    }
}

/// Returns a float element as base64 of the little-endian float64 of its value.
fn base64_f64(bytes: &[u8]) -> Json {
    Json::string(BASE64.encode(float_value(bytes).to_le_bytes()))
}

fn float_value(bytes: &[u8]) -> f64 {
    match *bytes {
        [a, b] => f16::from_le_bytes([a, b]).to_f64(),
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => f64::NAN,
    }
}

fn float_to_json(bytes: &[u8]) -> Json {
    let value = float_value(bytes);
    if value.is_nan() {
        let canonical: &[u8] = match bytes.len() {
            2 => &[0x00, 0x7e],
            4 => &[0x00, 0x00, 0xc0, 0x7f],
            _ => &[0, 0, 0, 0, 0, 0, 0xf8, 0x7f],
        };
        if bytes == canonical {
            return Json::string("NaN");
        }
        let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
        return Json::string(format!("0x{digits}"));
    }
    if value.is_infinite() {
        return Json::string(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    Json::number(format!("{value:?}"))
}

fn item_to_json(bytes: &[u8], data_type: &DataType) -> Json {
    match data_type {
        DataType::Bool => Json::Bool(bytes.first() != Some(&0)),
        DataType::Int(_) | DataType::UInt(_) | DataType::Time { .. } => {
            let signed = !matches!(data_type, DataType::UInt(_));
            let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
            let mut wide = if negative { [0xff; 16] } else { [0; 16] };
            wide[..bytes.len().min(16)].copy_from_slice(&bytes[..bytes.len().min(16)]);
            let value = i128::from_le_bytes(wide);
            if matches!(data_type, DataType::Time { .. }) && value == i128::from(i64::MIN) {
                return Json::string("NaT");
            }
            Json::number(value)
        }
        DataType::Float(_) => float_to_json(bytes),
        DataType::Complex(_) => {
            let (real, imaginary) = bytes.split_at(bytes.len() / 2);
            Json::Array(vec![float_to_json(real), float_to_json(imaginary)])
        }
        DataType::FixedUtf32(_) => {
            let words =
                bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            let text: String =
                words.map(|word| char::from_u32(word).unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
            Json::string(text.trim_end_matches('\0'))
        }
        DataType::Extension { item_bytes, .. } if bytes.iter().all(|&byte| byte == 0) && *item_bytes <= 2 => {
            Json::number("0")
        }
        DataType::Extension { .. } => {
            let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
            Json::string(format!("0x{digits}"))
        }
        _ => Json::string(BASE64.encode(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, data_type: &DataType) -> FillValue {
        parse_v2(&Json::parse(text.as_bytes()).unwrap(), data_type, &[])
    }

    #[test]
    fn reads_the_forms_that_stores_hold() {
        let f4 = DataType::Float(4);
        assert_eq!(parsed("NaN", &f4), FillValue::Item(f32::NAN.to_le_bytes().to_vec()));
        assert_eq!(parsed("\"-Infinity\"", &f4), FillValue::Item(f32::NEG_INFINITY.to_le_bytes().to_vec()));
        assert_eq!(
            parsed("9.969209968386869e+36", &f4),
            FillValue::Item(9.969_21e36_f32.to_le_bytes().to_vec())
        );
        assert_eq!(parsed("-32768.0", &DataType::Int(2)), FillValue::Item(vec![0, 0x80]));
        assert_eq!(parsed("18446744073709551615", &DataType::UInt(8)), FillValue::Item(vec![0xff; 8]));
        assert_eq!(parsed("\"AAA=\"", &DataType::FixedBytes(3)), FillValue::Item(vec![0; 3]));
        assert_eq!(
            parsed("\"NaT\"", &DataType::Int(2)),
            FillValue::Invalid("int16 has no fill value \"NaT\"".into())
        );
        assert_eq!(parsed("0", &DataType::String), FillValue::Variable(vec![]));
        assert!(matches!(parsed("300", &DataType::UInt(1)), FillValue::Invalid(_)));
    }

    #[test]
    fn keeps_nan_payloads_in_v3_and_not_in_v2() {
        let value = parse_v3(&Json::string("0x7fc00001"), &DataType::Float(4));
        assert_eq!(value, FillValue::Item(vec![1, 0, 0xc0, 0x7f]));
        assert_eq!(value.to_v3(&DataType::Float(4)), Json::string("0x7fc00001"));
        assert_eq!(value.to_v2(&DataType::Float(4)), Json::string("NaN"));
    }

    #[test]
    fn xarray_form_round_trips() {
        for (data_type, text) in [
            (DataType::Float(4), "-9999.5"),
            (DataType::Int(2), "-32767"),
            (DataType::Bool, "true"),
            (DataType::Complex(8), "[1.0, \"NaN\"]"),
        ] {
            let value = parsed(text, &data_type);
            let attribute = value.to_xarray_v3(&data_type).unwrap();
            assert_eq!(from_xarray_v3(&attribute, &data_type), Some(value), "{text}");
        }
        assert_eq!(
            parsed("1.0", &DataType::Float(4)).to_xarray_v3(&DataType::Float(4)),
            Some(Json::string("AAAAAAAA8D8="))
        );
    }
}
