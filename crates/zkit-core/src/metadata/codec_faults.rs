//! Lists of v3 codecs that can be parsed, and that the specification forbids: readers refuse the array.

use super::data_type::DataType;
use super::json::{Json, Object};

/// Codecs that take bytes and give bytes, with the highest level of those that have levels from 0.
const BYTES_TO_BYTES: [(&str, Option<i64>); 10] = [
    ("blosc", None),
    ("crc32c", None),
    ("gzip", Some(9)),
    ("numcodecs.adler32", None),
    ("numcodecs.bz2", None),
    ("numcodecs.crc32", None),
    ("numcodecs.gzip", Some(9)),
    ("numcodecs.lz4", None),
    ("numcodecs.zlib", Some(9)),
    ("zstd", None),
];

/// Returns what is wrong with a list of codecs. Source: Zarr v3, "Codecs", and the specifications of the codecs.
pub(super) fn codec_faults(codecs: &Json, data_type: &DataType) -> Vec<String> {
    let named: Vec<(&str, Option<&Object>)> =
        codecs.as_array().into_iter().flatten().filter_map(name_of).collect();
    let is_serializer =
        |name: &str| matches!(name, "bytes" | "endian" | "vlen-utf8" | "vlen-bytes" | "sharding_indexed");
    let serializer = named.iter().position(|(name, _)| is_serializer(name));
    let mut faults = Vec::new();
    for (at, (name, configuration)) in named.iter().enumerate() {
        let value = |key: &str| configuration.and_then(|configuration| configuration.get(key));
        // zlib's own default, as numcodecs writes it
        let least = if name.starts_with("numcodecs.") { -1 } else { 0 };
        let bytes_to_bytes = BYTES_TO_BYTES.iter().find(|(known, _)| known == name);
        if let (Some(_), Some(serializer)) = (bytes_to_bytes, serializer)
            && at < serializer
        {
            faults
                .push(format!("the codec `{name}` takes bytes, and stands before `{}`", named[serializer].0));
        }
        if *name == "transpose" && serializer.is_some_and(|serializer| serializer < at) {
            faults.push(
                "the codec `transpose` takes an array, and stands behind the one that gives bytes".to_owned(),
            );
        }
        if let (Some((_, Some(most))), Some(level)) = (bytes_to_bytes, value("level"))
            && !level.as_integer::<i64>().is_some_and(|level| (least..=*most).contains(&level))
        {
            faults.push(format!("the level of `{name}` is {level}, expected {least} to {most}"));
        }
        faults.extend(configuration.iter().flat_map(|configuration| setting_faults(name, configuration)));
        if matches!(*name, "bytes" | "endian")
            && value("endian").is_none()
            // of structs and other extensions their own specifications say which order holds
            && is_number_of_several_bytes(data_type)
            // other codecs before it may give elements of one byte
            && named[..at].iter().all(|(name, _)| *name == "transpose")
        {
            faults.push(format!("the codec `{name}` has no `endian`, and elements are of several bytes"));
        }
        if *name == "sharding_indexed" {
            faults.extend(value("codecs").into_iter().flat_map(|inner| codec_faults(inner, data_type)));
            faults.extend(value("index_codecs").into_iter().flat_map(index_faults));
        }
    }
    faults
}

/// What readers expect of a setting of a codec, in words, and whether a value is that.
type Setting = (&'static str, &'static str, &'static str, fn(&Json) -> bool);

/// Settings that readers refuse to decode with where they are anything else. Levels of blosc they take of any size, and of
/// codecs under numcodecs' own names any settings. Source: zarr-python 3.1, `zarr.codecs`.
const SETTINGS: [Setting; 7] = [
    ("blosc", "cname", "one of blosclz, lz4, lz4hc, snappy, zlib and zstd", |value| {
        is_one_of(value, &["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"])
    }),
    ("blosc", "shuffle", "one of noshuffle, shuffle and bitshuffle", |value| {
        *value == Json::Null || is_one_of(value, &["noshuffle", "shuffle", "bitshuffle"])
    }),
    ("blosc", "clevel", "an integer", is_integer),
    ("blosc", "blocksize", "an integer", is_integer),
    ("blosc", "typesize", "an integer above 0", |value| {
        *value == Json::Null || value.as_integer::<i128>().is_some_and(|bytes| bytes > 0)
    }),
    ("zstd", "level", "an integer of at most 22", |value| {
        value.as_integer::<i128>().is_some_and(|level| level <= 22)
    }),
    ("zstd", "checksum", "true or false", |value| matches!(value, Json::Bool(_))),
];

fn setting_faults(name: &str, configuration: &Object) -> Vec<String> {
    let of_codec = SETTINGS.iter().filter(|(codec, ..)| *codec == name);
    let refused = of_codec.filter_map(|(_, key, expected, takes)| {
        let value = configuration.get(key).filter(|value| !takes(value))?;
        Some(format!("the setting `{key}` of `{name}` is {value}, expected {expected}"))
    });
    refused.collect()
}

fn is_one_of(value: &Json, names: &[&str]) -> bool {
    value.as_str().is_some_and(|value| names.contains(&value))
}

fn is_integer(value: &Json) -> bool {
    matches!(value, Json::Bool(_)) || value.as_integer::<i128>().is_some()
}

/// Returns what is wrong with the codecs of a shard's index: it is found by its size, which must be known.
fn index_faults(codecs: &Json) -> Vec<String> {
    let mut faults = codec_faults(codecs, &DataType::UInt(8));
    let compressors = codecs.as_array().into_iter().flatten().filter_map(name_of).map(|(name, _)| name);
    let compressors = compressors
        .filter(|name| BYTES_TO_BYTES.iter().any(|(known, _)| known == name) && !name.contains("32"));
    faults.extend(
        compressors.map(|name| {
            format!("index_codecs has the compressor `{name}`: the size of the index is not known")
        }),
    );
    faults
}

fn name_of(codec: &Json) -> Option<(&str, Option<&Object>)> {
    match codec {
        Json::String(name) => Some((name, None)),
        Json::Object(object) => Some((
            object.get("name").and_then(Json::as_str)?,
            object.get("configuration").and_then(Json::as_object),
        )),
        _ => None,
    }
}

fn is_number_of_several_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Int(bytes) | DataType::UInt(bytes) | DataType::Float(bytes) | DataType::Complex(bytes) => {
            *bytes > 1
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: &str = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;

    fn with(name: &str, setting: &str) -> String {
        format!(r#"[{LITTLE},{{"name":"{name}","configuration":{{{setting}}}}}]"#)
    }

    fn faults(codecs: &str, data_type: &DataType) -> Vec<String> {
        codec_faults(&Json::parse(codecs.as_bytes()).unwrap(), data_type)
    }

    #[test]
    fn lists_that_no_reader_takes_are_told() {
        let sharding = |index: &str| {
            format!(
                r#"[{{"name":"sharding_indexed","configuration":{{"codecs":[{LITTLE}],"index_codecs":[{LITTLE},{index}]}}}}]"#
            )
        };
        for (codecs, words) in [
            (format!(r#"[{{"name":"zstd"}},{LITTLE}]"#), "stands before"),
            (
                format!(r#"[{LITTLE},{{"name":"transpose","configuration":{{"order":[0]}}}}]"#),
                "stands behind",
            ),
            (r#"["bytes"]"#.to_owned(), "no `endian`"),
            (
                format!(r#"[{LITTLE},{{"name":"gzip","configuration":{{"level":77}}}}]"#),
                "is 77, expected 0 to 9",
            ),
            (sharding(r#"{"name":"gzip","configuration":{"level":1}}"#), "size of the index"),
            (with("blosc", r#""cname":"foo""#), "`cname` of `blosc` is \"foo\", expected one of blosclz"),
            (with("blosc", r#""cname":null"#), "`cname` of `blosc` is null"),
            (with("blosc", r#""shuffle":9"#), "expected one of noshuffle, shuffle and bitshuffle"),
            (with("blosc", r#""clevel":"5""#), "expected an integer"),
            (with("blosc", r#""typesize":0"#), "is 0, expected an integer above 0"),
            (with("zstd", r#""level":77"#), "is 77, expected an integer of at most 22"),
            (with("zstd", r#""checksum":1"#), "expected true or false"),
        ] {
            let found = faults(&codecs, &DataType::Float(4));
            assert_eq!(found.len(), 1, "{codecs}: {found:?}");
            assert!(found[0].contains(words), "{found:?}");
        }
    }

    #[test]
    fn lists_that_readers_take_are_sound() {
        for codecs in [
            format!(
                r#"[{{"name":"transpose","configuration":{{"order":[0]}}}},{LITTLE},{{"name":"zstd"}},"crc32c"]"#
            ),
            format!(
                r#"[{{"name":"of-somebody-else"}},{LITTLE},{{"name":"gzip","configuration":{{"level":9}}}}]"#
            ),
            with("blosc", r#""cname":"snappy","clevel":42,"shuffle":null,"typesize":300,"blocksize":-1"#),
            with("blosc", r#""typesize":null"#),
            with("zstd", r#""level":-131072,"checksum":true"#),
            with("numcodecs.blosc", r#""cname":"foo","clevel":-5,"shuffle":9"#),
        ] {
            assert_eq!(faults(&codecs, &DataType::Float(4)), Vec::<String>::new());
        }
        assert!(faults(r#"["bytes"]"#, &DataType::UInt(1)).is_empty(), "one byte has no order");
    }
}
