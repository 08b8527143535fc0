//! Reading data types: v2's `dtype` and v3's `data_type`.

use super::data_type::{DataType, Field, Swap, TimeKind};
use super::json::{Json, Object};

/// Larger elements than this are refused: a hostile struct must not overflow sizes.
const MAX_ITEM_BYTES: u64 = 1 << 30;
/// Types nest (structs in structs) no deeper than this.
const MAX_NESTING: u32 = 32;

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
    // tensorstore writes types that numpy lacks by their own names, in little-endian order
    if let Some(data_type) = extension(text) {
        return Ok(data_type);
    }
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

    #[test]
    fn v2_names_of_tensorstore_are_the_types_of_v3() {
        for name in ["bfloat16", "float8_e4m3fn", "int4"] {
            let (data_type, swaps) = v2(&format!("\"{name}\"")).unwrap();
            assert_eq!(data_type, parse_v3(&Json::string(name)).unwrap());
            assert!(swaps.is_empty());
        }
        assert!(v2("\"<bfloat16\"").is_err());
    }

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
