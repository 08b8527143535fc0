//! How closely a store is looked at.

use std::fmt;
use std::str::FromStr;

/// How closely a store is looked at; each depth includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Depth {
    /// Metadata alone.
    Metadata,
    /// Also one listing: which chunks are stored, how large they are, what else lies there.
    Listing,
    /// Also one range read of each chunk: frame headers, shard indexes.
    Headers,
    /// Also a seeded sample of decoded chunks.
    Sample,
    /// Also every decoded chunk.
    Full,
}

impl Depth {
    /// All depths, the shallowest first.
    pub const ALL: [Self; 5] = [Self::Metadata, Self::Listing, Self::Headers, Self::Sample, Self::Full];

    /// Returns the name in arguments, settings and outputs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Listing => "listing",
            Self::Headers => "headers",
            Self::Sample => "sample",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Depth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|depth| depth.name() == text);
        found.ok_or_else(|| format!("found `{text}`; write one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}
