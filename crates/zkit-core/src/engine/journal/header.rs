//! What a run was asked to do, as the first line of its journal.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, ErrorKind, Result};

/// How the line begins; the version of the format follows.
const MAGIC: &str = "zkit-journal";

/// The format that this file writes and reads.
const VERSION: &str = "1";

/// What a run was asked to do, and of what: a run goes on with another's work only where these agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// What the user asked, in canonical form: `("--chunks", "time=-1")`.
    pub options: Vec<(String, String)>,
    /// The source's URL.
    pub source: String,
    /// JSON text of all groups, as the source has them; empty if there is none.
    pub groups: String,
    /// The arrays, in the order of the plan.
    pub arrays: Vec<JournalArray>,
}

/// One array of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalArray {
    /// The path, with a slash in front.
    pub path: String,
    /// Of the source's objects; 0 if it was not taken.
    #[serde(with = "hexadecimal")]
    pub fingerprint: u128,
    /// JSON text of its metadata in the source.
    pub source_document: String,
    /// The codec of the copy, where it was chosen by measuring: a resumed run takes it over. Else empty.
    pub target_codec: String,
}

impl Header {
    /// Returns what differs first between the run that wrote a journal, `self`, and one that would go on with it.
    ///
    /// Chosen codecs are not compared, as the later run takes them over; nor fingerprints that one of them lacks.
    pub fn difference(&self, later: &Self) -> Option<String> {
        self.difference_of_options(later)
            .or_else(|| {
                let (was, is) = (&self.source, &later.source);
                (was != is).then(|| format!("the source was `{was}`, is `{is}`"))
            })
            .or_else(|| self.difference_of_arrays(later))
            .or_else(|| {
                (self.groups != later.groups).then(|| "the metadata of the groups changed".to_owned())
            })
    }

    /// Returns a hash of everything in it.
    pub fn hash(&self) -> u64 {
        xxh3_64(self.to_json().as_bytes())
    }

    fn difference_of_options(&self, later: &Self) -> Option<String> {
        let names = self.options.iter().chain(&later.options).map(|(name, _)| name);
        names.into_iter().find_map(|name| match (self.option(name), later.option(name)) {
            (was, is) if was == is => None,
            (was, is) => Some(format!("`{name}` was {}, is {}", quoted(&was), quoted(&is))),
        })
    }

    /// Returns the values of an option, which may be given more than once.
    fn option(&self, name: &str) -> Vec<&str> {
        self.options.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
    }

    fn difference_of_arrays(&self, later: &Self) -> Option<String> {
        let pairs = self.arrays.iter().zip(&later.arrays);
        let changed = pairs.into_iter().find_map(|(was, is)| {
            let path = &was.path;
            if was.path != is.path {
                return Some(format!("the array at this place was `{path}`, is `{}`", is.path));
            }
            if was.source_document != is.source_document {
                return Some(format!("the metadata of `{path}` changed"));
            }
            let both = was.fingerprint != 0 && is.fingerprint != 0;
            (both && was.fingerprint != is.fingerprint).then(|| format!("the objects of `{path}` changed"))
        });
        let (was, is) = (self.arrays.len(), later.arrays.len());
        changed.or_else(|| (was != is).then(|| format!("there were {was} arrays, there are {is}")))
    }

    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers are always JSON")
    }

    /// Returns the line with its end.
    pub(super) fn to_line(&self) -> String {
        let json = self.to_json();
        format!("{MAGIC} {VERSION} {:016x} {json}\n", xxh3_64(json.as_bytes()))
    }

    /// Returns whether bytes are the begin of a line of any version; they may end early.
    pub(super) fn may_begin_with(bytes: &[u8]) -> bool {
        bytes.iter().zip(MAGIC.as_bytes()).all(|(byte, expected)| byte == expected)
    }

    /// Parses a line without its end.
    ///
    /// Errors: `Unsupported` for another version; `Corrupt`. `place` says which file it is.
    pub(super) fn parse_line(line: &[u8], place: &str) -> Result<Self> {
        let damaged = || {
            Error::new(
                ErrorKind::Corrupt,
                format!("could not read the journal {place}: its header is damaged"),
            )
            .with_hint("pass --restart to begin anew")
        };
        let mut parts = std::str::from_utf8(line).map_err(|_| damaged())?.splitn(4, ' ');
        let mut part = || parts.next().ok_or_else(damaged);
        if part()? != MAGIC {
            return Err(damaged());
        }
        let version = part()?;
        if version != VERSION {
            let message = format!(
                "could not read the journal {place}: its version is `{version}`, this zkit knows `{VERSION}`"
            );
            return Err(Error::new(ErrorKind::Unsupported, message)
                .with_hint("go on with the zkit that began it, or pass --restart to begin anew"));
        }
        let (checksum, json) = (part()?, part()?);
        if checksum != format!("{:016x}", xxh3_64(json.as_bytes())) {
            return Err(damaged());
        }
        serde_json::from_str(json).map_err(|error| damaged().with_source(error))
    }
}

fn quoted(values: &[&str]) -> String {
    match values {
        [] => "not given".to_owned(),
        values => format!("`{}`", values.join("`, `")),
    }
}

/// 128 bits as text: JSON numbers of that size are not for every reader.
mod hexadecimal {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(value: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{value:032x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn sample(fingerprint: u128) -> Header {
        let array = |path: &str| JournalArray {
            path: path.to_owned(),
            fingerprint,
            source_document: "{\"zarr_format\":2}".to_owned(),
            target_codec: "{\"zarr_format\":3}".to_owned(),
        };
        Header {
            options: vec![("--chunks".to_owned(), "time=-1".to_owned())],
            source: "file:///a.zarr".to_owned(),
            groups: String::new(),
            arrays: vec![array("/t2m"), array("/u10")],
        }
    }

    #[test]
    fn a_line_reads_back_and_a_damaged_or_foreign_one_is_refused() {
        let header = sample(u128::MAX - 1);
        let line = header.to_line();
        let line = line.strip_suffix('\n').unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(Header::parse_line(line.as_bytes(), "j").unwrap(), header);
        for at in [0, 20, 60, line.len() - 1] {
            let mut bytes = line.as_bytes().to_vec();
            bytes[at] ^= 1;
            let error = Header::parse_line(&bytes, "j").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{at}");
            assert!(error.hint().unwrap().contains("--restart"));
        }
        let newer = line.replacen(" 1 ", " 2 ", 1);
        let error = Header::parse_line(newer.as_bytes(), "j").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }

    #[test]
    fn differences_are_named() {
        let was = sample(7);
        let differs = |change: &dyn Fn(&mut Header)| {
            let mut is = was.clone();
            change(&mut is);
            was.difference(&is)
        };
        let named = |text: &str| Some(text.to_owned());
        assert_eq!(differs(&|_| ()), None);
        assert_eq!(
            differs(&|is| is.options[0].1 = "x=2".into()),
            named("`--chunks` was `time=-1`, is `x=2`")
        );
        assert_eq!(differs(&|is| is.options.clear()), named("`--chunks` was `time=-1`, is not given"));
        assert_eq!(
            differs(&|is| is.options.push(("--codec".into(), "zstd".into()))),
            named("`--codec` was not given, is `zstd`")
        );
        assert_eq!(differs(&|is| is.arrays[1].fingerprint = 8), named("the objects of `/u10` changed"));
        assert_eq!(differs(&|is| is.arrays[1].fingerprint = 0), None);
        assert_eq!(
            differs(&|is| is.arrays[0].source_document.clear()),
            named("the metadata of `/t2m` changed")
        );
        assert_eq!(differs(&|is| is.arrays[0].target_codec.clear()), None);
        assert_eq!(differs(&|is| is.arrays.truncate(1)), named("there were 2 arrays, there are 1"));
        assert_eq!(differs(&|is| is.groups.push('x')), named("the metadata of the groups changed"));
        assert!(differs(&|is| is.source.push('x')).unwrap().starts_with("the source was"));
        let mut other = was.clone();
        other.arrays[0].target_codec.clear();
        assert_ne!(was.hash(), other.hash());
    }
}
