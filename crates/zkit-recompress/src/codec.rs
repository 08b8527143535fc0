//! `--codec`: a compressor in a few words.

use zkit_core::metadata::{BloscShuffle, Json, TargetCodec};

/// Parses `blosc:zstd:3:bitshuffle`, `zstd:3`, `gzip:5`, `none`, `keep`, or JSON as in metadata.
pub(crate) fn parse(text: &str) -> Result<TargetCodec, String> {
    if text.trim_start().starts_with(['{', '[']) {
        return Json::parse(text.as_bytes())
            .map(TargetCodec::Json)
            .map_err(|error| format!("not JSON: {error}"));
    }
    let mut parts = text.split(':');
    let codec = match parts.next().unwrap_or_default() {
        "blosc" => blosc(&mut parts)?,
        "zstd" => TargetCodec::Zstd(level(parts.next(), 3, -7, 22)?),
        "gzip" => TargetCodec::Gzip(level(parts.next(), 5, 0, 9)?),
        "none" => TargetCodec::Uncompressed,
        "keep" => TargetCodec::Keep,
        other => {
            return Err(format!(
                "unknown codec `{other}`; there are blosc, zstd, gzip, none, keep, and JSON"
            ));
        }
    };
    match parts.next() {
        None => Ok(codec),
        Some(extra) => Err(format!("`{extra}` is one part too many")),
    }
}

fn blosc<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Result<TargetCodec, String> {
    let compressor = match parts.next().unwrap_or("zstd") {
        known @ ("zstd" | "lz4" | "zlib") => known.to_owned(),
        other => {
            return Err(format!(
                "zkit does not write the blosc compressor `{other}`; there are zstd, lz4 and zlib"
            ));
        }
    };
    let level = u8::try_from(level(parts.next(), 3, 0, 9)?).map_err(|error| error.to_string())?;
    let shuffle = match parts.next().unwrap_or("bitshuffle") {
        "bitshuffle" => BloscShuffle::Bit,
        "shuffle" => BloscShuffle::Byte,
        "noshuffle" => BloscShuffle::None,
        other => {
            return Err(format!("unknown shuffle `{other}`; there are bitshuffle, shuffle and noshuffle"));
        }
    };
    Ok(TargetCodec::Blosc { compressor, level, shuffle, block_bytes: 0 })
}

fn level(text: Option<&str>, default: i32, lowest: i32, highest: i32) -> Result<i32, String> {
    let Some(text) = text else { return Ok(default) };
    let level = text.parse().ok().filter(|level| (lowest..=highest).contains(level));
    level.ok_or_else(|| format!("`{text}` is no level from {lowest} to {highest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_take_defaults() {
        assert_eq!(parse("blosc").unwrap(), parse("blosc:zstd:3:bitshuffle").unwrap());
        assert_eq!(parse("zstd").unwrap(), TargetCodec::Zstd(3));
        assert_eq!(parse("none").unwrap(), TargetCodec::Uncompressed);
        assert!(matches!(parse("{\"id\":\"zlib\",\"level\":1}").unwrap(), TargetCodec::Json(_)));
    }

    #[test]
    fn says_what_is_wrong() {
        for text in
            ["lz5", "zstd:99", "blosc:snappy", "blosc:zstd:10", "blosc:zstd:3:sideways", "zstd:3:4", "{", ""]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
