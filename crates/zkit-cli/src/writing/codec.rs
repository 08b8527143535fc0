//! `--codec`: a compressor in a few words.

use zkit_core::metadata::{BloscShuffle, Json, TargetCodec};

use crate::values::parse_bytes;

/// A codec, or the wish for one.
#[derive(Debug, Clone, PartialEq)]
pub enum CodecChoice {
    /// Chosen by measuring samples.
    Auto,
    /// Named.
    Given(TargetCodec),
}

/// Parses `auto`, or what [`parse_codec`] parses.
pub fn parse_choice(text: &str) -> Result<CodecChoice, String> {
    match text {
        "auto" => Ok(CodecChoice::Auto),
        text => parse_codec(text).map(CodecChoice::Given),
    }
}

/// Returns the text that [`parse_choice`] reads as this choice.
pub fn choice_text(choice: &CodecChoice) -> String {
    match choice {
        CodecChoice::Auto => "auto".to_owned(),
        CodecChoice::Given(codec) => text_of(codec),
    }
}

/// Returns the text that [`parse_codec`] reads as this codec.
pub fn text_of(codec: &TargetCodec) -> String {
    match codec {
        TargetCodec::Blosc { compressor, level, shuffle, block_bytes } => {
            let shuffle = match shuffle {
                BloscShuffle::Byte => "shuffle",
                BloscShuffle::None => "noshuffle",
                BloscShuffle::Bit | BloscShuffle::Auto => "bitshuffle",
            };
            match block_bytes {
                0 => format!("blosc:{compressor}:{level}:{shuffle}"),
                bytes => format!("blosc:{compressor}:{level}:{shuffle}:{bytes}"),
            }
        }
        TargetCodec::Zstd(level) => format!("zstd:{level}"),
        TargetCodec::Gzip(level) => format!("gzip:{level}"),
        TargetCodec::Uncompressed => "none".to_owned(),
        TargetCodec::Keep => "keep".to_owned(),
        TargetCodec::Json(json) => json.to_string(),
    }
}

/// Parses `blosc:zstd:3:bitshuffle:512KiB`, `zstd:3`, `gzip:5`, `none`, `keep`, or JSON as in metadata.
pub fn parse_codec(text: &str) -> Result<TargetCodec, String> {
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
    let block_bytes = match parts.next() {
        None => 0,
        Some(text) => parse_bytes(text)
            .ok()
            .and_then(|bytes| u32::try_from(bytes).ok())
            .filter(|bytes| (128..1 << 30).contains(bytes))
            .ok_or_else(|| format!("`{text}` is no size of a block: 256KiB, 1MiB"))?,
    };
    Ok(TargetCodec::Blosc { compressor, level, shuffle, block_bytes })
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
        assert_eq!(parse_codec("blosc").unwrap(), parse_codec("blosc:zstd:3:bitshuffle").unwrap());
        assert_eq!(parse_codec("zstd").unwrap(), TargetCodec::Zstd(3));
        assert_eq!(parse_codec("none").unwrap(), TargetCodec::Uncompressed);
        assert!(matches!(parse_codec("{\"id\":\"zlib\",\"level\":1}").unwrap(), TargetCodec::Json(_)));
    }

    #[test]
    fn texts_are_read_back() {
        for text in
            ["blosc:zstd:1:bitshuffle:1048576", "blosc:lz4:5:shuffle", "zstd:-3", "gzip:9", "none", "keep"]
        {
            assert_eq!(text_of(&parse_codec(text).unwrap()), text);
        }
        assert_eq!(
            parse_codec("blosc:zstd:1:shuffle:1MiB").unwrap(),
            parse_codec("blosc:zstd:1:shuffle:1048576").unwrap()
        );
        assert_eq!(parse_choice("auto").unwrap(), CodecChoice::Auto);
    }

    #[test]
    fn says_what_is_wrong() {
        for text in [
            "lz5",
            "zstd:99",
            "blosc:snappy",
            "blosc:zstd:10",
            "blosc:zstd:3:sideways",
            "zstd:3:4",
            "blosc:zstd:3:shuffle:5",
            "{",
            "",
        ] {
            assert!(parse_codec(text).is_err(), "{text}");
        }
    }
}
