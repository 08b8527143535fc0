//! `zkit.toml`: what holds for all arrays, and for those that a glob takes.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use zkit_cli::values::{ArrayFilter, ArrayGlob, parse_bytes};
use zkit_cli::writing::{self, CodecChoice};
use zkit_cli::{Shell, settings};
use zkit_core::error::Error;
use zkit_core::plan::{Access, ChunksWish, ShardsWish};

/// What a `zkit.toml` says of copies.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    defaults: ArraySettings,
    arrays: Vec<(ArrayFilter, ArraySettings)>,
}

/// What is said of one array; the rest is left to the command line and its defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ArraySettings {
    pub(crate) chunks: Option<ChunksWish>,
    pub(crate) shards: Option<ShardsWish>,
    pub(crate) codec: Option<CodecChoice>,
    pub(crate) access: Option<Access>,
    /// Decoded bytes of automatic chunks.
    pub(crate) chunk_size: Option<u64>,
}

impl Settings {
    /// Reads the named file, else `zkit.toml` in the working directory, if it exists.
    pub(crate) fn find(named: Option<&Path>, shell: &Shell) -> Result<Self, Error> {
        Ok(Self::of(settings::find(named, shell)?))
    }

    #[cfg(test)]
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        Ok(Self::of(settings::parse(text, Path::new("zkit.toml"))?))
    }

    /// Returns the globs of entries that take none of the arrays at `paths`.
    pub(crate) fn without_match<'a>(&self, paths: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
        let unused = self.arrays.iter().filter(|(filter, _)| !paths.clone().any(|path| filter.takes(path)));
        unused.flat_map(|(filter, _)| filter.included()).map(str::to_owned).collect()
    }

    fn of(file: File) -> Self {
        let Section { chunks, shards, codec, access, chunk_size, array } = file.recompress;
        let defaults = ArraySettings { chunks, shards, codec, access, chunk_size }.with_implied();
        let arrays = array.into_iter().map(|entry| {
            let ArraySection { path, chunks, shards, codec, access, chunk_size } = entry;
            let settings = ArraySettings { chunks, shards, codec, access, chunk_size };
            (ArrayFilter::new(vec![path], Vec::new()), settings.with_implied())
        });
        Self { defaults, arrays: arrays.collect() }
    }

    /// Returns what the file says of an array: the first entry whose glob takes it, else and beside it the defaults.
    pub(crate) fn wish_for(&self, path: &str) -> ArraySettings {
        let entry = self.entry_for(path).cloned().unwrap_or_default();
        entry.or(&self.defaults)
    }

    /// Returns the first entry whose glob takes an array.
    pub(crate) fn entry_for(&self, path: &str) -> Option<&ArraySettings> {
        self.arrays.iter().find(|(filter, _)| filter.takes(path)).map(|(_, settings)| settings)
    }
}

impl ArraySettings {
    /// Returns these settings, with those of `other` where they say nothing.
    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            chunks: self.chunks.or_else(|| other.chunks.clone()),
            shards: self.shards.or_else(|| other.shards.clone()),
            codec: self.codec.or_else(|| other.codec.clone()),
            access: self.access.or_else(|| other.access.clone()),
            chunk_size: self.chunk_size.or(other.chunk_size),
        }
    }

    /// Returns these settings; an access or a size without chunks asks for automatic ones.
    pub(crate) fn with_implied(self) -> Self {
        let implied = self.access.is_some() || self.chunk_size.is_some();
        let chunks = self.chunks.or_else(|| implied.then_some(ChunksWish::Auto));
        Self { chunks, ..self }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    recompress: Section,
    /// Belongs to `zkit audit`.
    #[serde(rename = "audit")]
    _audit: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Section {
    #[serde(default, deserialize_with = "parsed")]
    chunks: Option<ChunksWish>,
    #[serde(default, deserialize_with = "parsed")]
    shards: Option<ShardsWish>,
    #[serde(default, deserialize_with = "parsed_codec")]
    codec: Option<CodecChoice>,
    #[serde(default, deserialize_with = "parsed")]
    access: Option<Access>,
    #[serde(default, deserialize_with = "parsed_bytes")]
    chunk_size: Option<u64>,
    #[serde(default)]
    array: Vec<ArraySection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ArraySection {
    #[serde(deserialize_with = "parsed_glob")]
    path: ArrayGlob,
    #[serde(default, deserialize_with = "parsed")]
    chunks: Option<ChunksWish>,
    #[serde(default, deserialize_with = "parsed")]
    shards: Option<ShardsWish>,
    #[serde(default, deserialize_with = "parsed_codec")]
    codec: Option<CodecChoice>,
    #[serde(default, deserialize_with = "parsed")]
    access: Option<Access>,
    #[serde(default, deserialize_with = "parsed_bytes")]
    chunk_size: Option<u64>,
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<Option<T>, D::Error> {
    parsed_by(from, |text| text.parse().map_err(|error: T::Err| format!("found `{text}`: {error}")))
}

fn parsed_codec<'de, D: Deserializer<'de>>(from: D) -> Result<Option<CodecChoice>, D::Error> {
    parsed_by(from, writing::parse_choice)
}

fn parsed_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    parsed_by(from, parse_bytes)
}

fn parsed_glob<'de, D: Deserializer<'de>>(from: D) -> Result<ArrayGlob, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

fn parsed_by<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    parse(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use zkit_core::metadata::TargetCodec;

    use super::*;

    fn parse(text: &str) -> Result<File, Error> {
        settings::parse(text, Path::new("zkit.toml"))
    }

    fn settings(text: &str) -> Settings {
        Settings::of(parse(text).unwrap())
    }

    fn refused(text: &str) -> String {
        parse(text).err().unwrap().to_string()
    }

    const TEXT: &str = r#"
[recompress]
chunks = "time=-1,latitude=32"
shards = "auto"
codec = "zstd:3"
access = "time-series"
chunk-size = "8MiB"

[[recompress.array]]
path = "/t2m*"
chunks = "auto"
codec = "keep"

[[recompress.array]]
path = "/t*"
shards = "none"
access = "maps"
"#;

    #[test]
    fn the_first_entry_that_matches_wins_over_the_defaults() {
        let settings = settings(TEXT);
        let t2m = settings.wish_for("/t2m_mean");
        assert_eq!(
            (t2m.chunks, t2m.codec),
            (Some(ChunksWish::Auto), Some(CodecChoice::Given(TargetCodec::Keep)))
        );
        assert_eq!((t2m.shards, t2m.access), (Some(ShardsWish::Auto), Some(Access::TimeSeries)));
        let tp = settings.wish_for("/tp");
        assert_eq!(
            (tp.shards, tp.codec),
            (Some(ShardsWish::None), Some(CodecChoice::Given(TargetCodec::Zstd(3))))
        );
        // an access alone asks for automatic chunks
        assert_eq!((tp.chunks, tp.access), (Some(ChunksWish::Auto), Some(Access::Maps)));
        let other = settings.wish_for("/group/t2m");
        assert_eq!(other.chunks, "time=-1,latitude=32".parse().ok());
        assert_eq!(other.chunk_size, Some(8 << 20));
        assert!(settings.entry_for("/group/t2m").is_none());
    }

    #[test]
    fn entries_that_take_no_array_are_named() {
        let settings = settings(TEXT);
        assert!(settings.without_match(["/t2m", "/tp"].into_iter()).is_empty());
        assert_eq!(settings.without_match(["/snow", "/group/tp"].into_iter()).last().unwrap(), "t*");
    }

    #[test]
    fn an_empty_file_says_nothing() {
        assert_eq!(settings("").wish_for("/a"), ArraySettings::default());
        assert_eq!(settings("[recompress]\n").wish_for("/a"), ArraySettings::default());
    }

    #[test]
    fn errors_name_file_line_expected_and_found() {
        let message = refused("[recompress]\nchunks = \"time=-1\"\nshard = \"auto\"\n");
        assert!(message.contains("line 3 of zkit.toml"), "{message}");
        assert!(message.contains("`shard`") && message.contains("`shards`"), "{message}");
        for (text, line, found) in [
            ("[recompress]\nchunks = \"time=zero\"", 2, "`zero`"),
            ("[recompress]\n\ncodec = \"zstd:99\"", 3, "`99`"),
            ("[recompress]\naccess = \"sideways\"", 2, "`sideways`"),
            ("[recompress]\nchunk-size = \"0\"", 2, "more than zero"),
            ("[recompress]\nchunks = 5", 2, "integer `5`"),
            ("[[recompress.array]]\npath = \"a[\"", 2, ""),
            ("[[recompress.array]]\nchunks = \"auto\"", 1, "`path`"),
            ("[recompress]\nchunks = \"a", 2, ""),
            ("[slice]\n", 1, "`slice`"),
        ] {
            let message = refused(text);
            assert!(message.contains(&format!("line {line} of zkit.toml: ")), "{text}: {message}");
            assert!(message.contains(found), "{text}: {message}");
        }
    }
}
