//! Layouts as users write them: `time=-1,latitude=32`, `time=auto,latitude=64`, `auto`, `none`.

use std::fmt;
use std::str::FromStr;

use super::{ChunkLength, ChunksWish, DimensionKey, ShardsWish};

const FORM: &str =
    "write auto, or a length for dimensions, such as time=-1,latitude=32 (-1 is all of a dimension)";

impl fmt::Display for ChunksWish {
    /// Writes what [`Self::from_str`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Auto => f.write_str("auto"),
            Self::Lengths(lengths) => write_lengths(lengths, f),
        }
    }
}

impl fmt::Display for ShardsWish {
    /// Writes what [`Self::from_str`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::None => f.write_str("none"),
            Self::Auto => f.write_str("auto"),
            Self::Lengths(lengths) => write_lengths(lengths, f),
        }
    }
}

fn write_lengths(lengths: &[(DimensionKey, ChunkLength)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (position, (key, length)) in lengths.iter().enumerate() {
        let comma = if position > 0 { "," } else { "" };
        match length {
            ChunkLength::Whole => write!(f, "{comma}{key}=-1")?,
            ChunkLength::Elements(length) => write!(f, "{comma}{key}={length}")?,
            ChunkLength::Auto => write!(f, "{comma}{key}=auto")?,
        }
    }
    Ok(())
}

impl FromStr for ChunksWish {
    type Err = String;

    /// Parses `keep`, `auto`, or lengths: `time=-1,latitude=32,longitude=auto`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "keep" => Ok(Self::Keep),
            "auto" => Ok(Self::Auto),
            text => lengths(text).map(Self::Lengths),
        }
    }
}

impl FromStr for ShardsWish {
    type Err = String;

    /// Parses `keep`, `none`, `auto`, or lengths in elements: `time=-1,latitude=256`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "keep" => Ok(Self::Keep),
            "none" => Ok(Self::None),
            "auto" => Ok(Self::Auto),
            text => {
                let lengths = lengths(text)?;
                match lengths.iter().find(|(_, length)| *length == ChunkLength::Auto) {
                    Some((key, _)) => {
                        Err(format!("found `{key}=auto`; shards have lengths, or are `auto` as a whole"))
                    }
                    None => Ok(Self::Lengths(lengths)),
                }
            }
        }
    }
}

impl fmt::Display for DimensionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

fn lengths(text: &str) -> Result<Vec<(DimensionKey, ChunkLength)>, String> {
    let mut lengths: Vec<(DimensionKey, ChunkLength)> = Vec::new();
    for part in text.split(',') {
        // names may hold `=`, lengths do not
        let (key, value) = part.rsplit_once('=').ok_or_else(|| format!("found `{part}`; {FORM}"))?;
        let key = match key.trim() {
            "" => return Err(format!("found `{part}`, which names no dimension; {FORM}")),
            key => key.parse().map_or_else(|_| DimensionKey::Name(key.to_owned()), DimensionKey::Number),
        };
        if lengths.iter().any(|(other, _)| *other == key) {
            return Err(format!("the dimension `{key}` has two lengths"));
        }
        lengths.push((key, length(value.trim())?));
    }
    Ok(lengths)
}

fn length(text: &str) -> Result<ChunkLength, String> {
    match text {
        "-1" => Ok(ChunkLength::Whole),
        "auto" => Ok(ChunkLength::Auto),
        text => {
            let elements = text.parse().ok().filter(|&elements| elements > 0);
            elements.map(ChunkLength::Elements).ok_or_else(|| {
                format!("found the length `{text}`; expected a whole number from 1 up, -1 for all, or auto")
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_elements_all_or_automatic() {
        let wish: ChunksWish = "time=-1, latitude=32,1=auto".parse().unwrap();
        let name = |name: &str| DimensionKey::Name(name.to_owned());
        assert_eq!(
            wish,
            ChunksWish::Lengths(vec![
                (name("time"), ChunkLength::Whole),
                (name("latitude"), ChunkLength::Elements(32)),
                (DimensionKey::Number(1), ChunkLength::Auto),
            ])
        );
        assert_eq!("auto".parse(), Ok(ChunksWish::Auto));
        assert_eq!("none".parse(), Ok(ShardsWish::None));
        assert_eq!("a=b=2".parse(), Ok(ShardsWish::Lengths(vec![(name("a=b"), ChunkLength::Elements(2))])));
    }

    #[test]
    fn says_what_is_expected_and_what_was_found() {
        for (text, found) in [
            ("", "found ``"),
            ("time", "found `time`"),
            ("time=0", "length `0`"),
            ("time=-2", "length `-2`"),
            ("time=1.5", "length `1.5`"),
            ("=4", "names no dimension"),
            ("time=1,", "found ``"),
            ("time=1,time=2", "two lengths"),
        ] {
            let message = text.parse::<ChunksWish>().unwrap_err();
            assert!(message.contains(found), "{text}: {message}");
            assert!(text.parse::<ShardsWish>().is_err(), "{text}");
        }
        assert!("time=auto".parse::<ShardsWish>().unwrap_err().contains("as a whole"));
    }
}
