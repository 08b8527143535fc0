//! The values of arguments, parsed once at the edge: durations, memory, store options, globs over array
//! paths.

use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use clap::builder::{OsStringValueParser, PathBufValueParser, TypedValueParser};
use globset::{GlobBuilder, GlobMatcher};
use zkit_core::location::StoreUrl;
use zkit_core::metadata::{Defect, Loss};

/// Parses a duration: `30s`, `5min`, `1h30min`, `500ms`, `2d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, after) = split_while(rest, |character| character.is_ascii_digit() || character == '.');
        let (unit, after) = split_while(after.trim_start(), char::is_alphabetic);
        let seconds = number.parse::<f64>().map_err(|_| DURATION_FORM.to_owned())? * seconds_of(unit)?;
        let part = Duration::try_from_secs_f64(seconds).map_err(|_| "too long".to_owned())?;
        total = total.checked_add(part).ok_or("too long")?;
        rest = after.trim_start();
    }
    if total.is_zero() {
        return Err("must be longer than zero".into());
    }
    Ok(total)
}

const DURATION_FORM: &str = "write a number and a unit, such as 500ms, 30s, 5min, 2h or 1h30min";

fn seconds_of(unit: &str) -> Result<f64, String> {
    match unit {
        "ms" => Ok(1e-3),
        "s" | "sec" => Ok(1.0),
        "m" | "min" => Ok(60.0),
        "h" => Ok(3_600.0),
        "d" => Ok(86_400.0),
        _ => Err(DURATION_FORM.into()),
    }
}

fn split_while(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|character| !belongs(character)).unwrap_or(text.len()))
}

/// Parses a size in bytes, more than zero: `4MiB`, `512kB`, `1000000`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    match text.parse::<ByteSize>() {
        Ok(ByteSize(0)) => Err("must be more than zero".into()),
        Ok(size) => Ok(size.as_u64()),
        Err(_) => Err(format!("found `{text}`; write a size such as 4MiB or 512kB")),
    }
}

/// Parses a number of things of which there is at least one.
pub fn parse_count(text: &str) -> Result<NonZeroUsize, String> {
    let count: usize = text.parse().map_err(|_| "write a whole number, 1 or more".to_owned())?;
    NonZeroUsize::new(count).ok_or_else(|| "it is 1 or more".to_owned())
}

/// Returns what reads the place of a store: a URL, or a path in any encoding.
pub fn store_url() -> impl TypedValueParser<Value = StoreUrl> {
    OsStringValueParser::new().try_map(|text| -> Result<StoreUrl, String> {
        let url = StoreUrl::from_os(&text).map_err(|error| match error.hint() {
            Some(hint) => format!("{}\n  hint: {hint}", error.one_line()),
            None => error.one_line(),
        })?;
        url.local_path().map_or(Ok(()), check_home)?;
        Ok(url)
    })
}

/// Returns what reads a path of this machine: no URL, and no home that the shell did not replace.
pub fn local_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| -> Result<PathBuf, String> {
        if path.as_os_str().as_encoded_bytes().windows(3).any(|part| part == b"://") {
            return Err("it is a URL; name a folder of this machine".to_owned());
        }
        check_home(&path)?;
        Ok(path)
    })
}

/// Refuses a path that begins with a `~` which the shell did not replace by the home folder: nobody means a folder of that name.
pub fn check_home(path: &Path) -> Result<(), String> {
    let mut parts = path.components();
    let Some(Component::Normal(first)) = parts.next() else { return Ok(()) };
    // backup files end in `~`; `~user` is somebody's home
    if !first.as_encoded_bytes().starts_with(b"~")
        || first.as_encoded_bytes().starts_with(b"~$")
        || Path::new(first).exists()
    {
        return Ok(());
    }
    Err(format!(
        "the shell did not replace `~` in `{0}`: write $HOME, or ./{0} if that is its name",
        path.display()
    ))
}

/// How much memory the work may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLimit {
    /// So many bytes; not zero.
    Bytes(u64),
    /// A share of what is free: 1 to 100.
    Percent(u8),
}

impl FromStr for MemoryLimit {
    type Err = String;

    /// Parses a size (`8GiB`, `512MB`) or a share of what is free (`30%`).
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim().parse().ok().filter(|percent| (1..=100).contains(percent));
            return percent
                .map(Self::Percent)
                .ok_or_else(|| "a share is a whole number from 1% to 100%".into());
        }
        match text.parse::<ByteSize>() {
            Ok(ByteSize(0)) => Err("must be more than zero".into()),
            Ok(size) => Ok(Self::Bytes(size.as_u64())),
            Err(_) => {
                Err("write a size such as 8GiB or 512MB, or a share of what is free such as 30%".into())
            }
        }
    }
}

/// One `--storage-option KEY=VALUE`.
#[derive(Clone, PartialEq, Eq)]
pub struct StorageOption {
    /// The name of the option.
    pub key: String,
    /// Its value; may be a secret, so `Debug` leaves it out.
    pub value: String,
}

impl FromStr for StorageOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok(Self { key: key.trim().into(), value: value.into() })
            }
            _ => Err("write KEY=VALUE, such as region=eu-west-1".into()),
        }
    }
}

impl std::fmt::Debug for StorageOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StorageOption").field("key", &self.key).finish_non_exhaustive()
    }
}

/// A pattern over the paths of nodes: `*` stays within one level, `**` crosses levels.
#[derive(Debug, Clone)]
pub struct ArrayGlob(GlobMatcher);

impl FromStr for ArrayGlob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pattern = match text.trim_matches('/') {
            "" => "**",
            pattern => pattern,
        };
        let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
        Ok(Self(glob.map_err(|error| error.kind().to_string())?.compile_matcher()))
    }
}

impl ArrayGlob {
    /// Returns the pattern.
    pub fn as_str(&self) -> &str {
        self.0.glob().glob()
    }

    /// Returns whether the pattern may take a node below the one at `path`: it begins as that path does.
    fn may_take_below(&self, path: &str) -> bool {
        let path = path.trim_matches('/');
        let levels = if path.is_empty() { 0 } else { path.split('/').count() };
        let names: Vec<&str> = self.as_str().split('/').collect();
        if levels == 0
            || self.as_str().contains('{')
            || names.iter().take(levels).any(|name| name.contains("**"))
        {
            return true;
        }
        names.len() > levels && names[..levels].join("/").parse::<Self>().is_ok_and(|glob| glob.takes(path))
    }

    /// Returns whether the pattern takes the node at `path`, or a group that the node lies in.
    fn takes(&self, path: &str) -> bool {
        let mut node = path.trim_start_matches('/');
        loop {
            if self.0.is_match(node) {
                return true;
            }
            match node.rsplit_once('/') {
                Some((group, _)) => node = group,
                None => return false,
            }
        }
    }
}

/// Which arrays a run is about.
#[derive(Debug, Clone, Default)]
pub struct ArrayFilter {
    include: Vec<ArrayGlob>,
    exclude: Vec<ArrayGlob>,
}

impl ArrayFilter {
    /// Returns the filter that takes arrays that some `include` takes (all, if there is none) and no
    /// `exclude`.
    pub fn new(include: Vec<ArrayGlob>, exclude: Vec<ArrayGlob>) -> Self {
        Self { include, exclude }
    }

    /// Returns whether the run is about the array at `path`.
    pub fn takes(&self, path: &str) -> bool {
        let included = self.include.is_empty() || self.include.iter().any(|glob| glob.takes(path));
        included && !self.exclude.iter().any(|glob| glob.takes(path))
    }

    /// Returns the patterns of `include`.
    pub fn included(&self) -> impl Iterator<Item = &str> {
        self.include.iter().map(ArrayGlob::as_str)
    }

    /// Returns whether some `exclude` takes the array at `path`.
    pub fn refuses(&self, path: &str) -> bool {
        self.exclude.iter().any(|glob| glob.takes(path))
    }

    /// Returns whether arrays that the filter takes may lie below the node at `path`, whatever it is.
    fn may_take_below(&self, path: &str) -> bool {
        self.include.is_empty() || self.include.iter().any(|glob| glob.may_take_below(path))
    }

    /// Returns whether something that the run takes is not known because of a defect; `needed` are the paths of nodes that it takes for
    /// sure.
    pub fn concerns(&self, defect: &Defect, needed: &dyn Fn(&str) -> bool) -> bool {
        let path = &defect.path;
        match defect.loss {
            Loss::Nothing => false,
            Loss::Consolidated => true,
            _ if self.refuses(path) => false,
            Loss::Attributes | Loss::Unused => needed(path),
            Loss::Node | Loss::Below => needed(path) || self.takes(path) || self.may_take_below(path),
        }
    }

    /// Returns whether the filter takes every array.
    pub fn takes_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_have_units() {
        let seconds = |text: &str| parse_duration(text).unwrap().as_secs_f64();
        assert_eq!(seconds("30s"), 30.0);
        assert_eq!(seconds("5min"), 300.0);
        assert_eq!(seconds("2 h"), 7_200.0);
        assert_eq!(seconds("1h30min"), 5_400.0);
        assert_eq!(seconds("1.5d"), 129_600.0);
        assert_eq!(seconds("500ms"), 0.5);
    }

    #[test]
    fn refuses_durations_that_make_no_sense() {
        for text in
            ["", "30", "s", "-5s", "5 parsecs", "0s", "1e400s", "99999999999999999999d", "1..5s", "5s !"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn memory_is_a_size_or_a_share() {
        assert_eq!("8GiB".parse(), Ok(MemoryLimit::Bytes(8 << 30)));
        assert_eq!("512 MB".parse(), Ok(MemoryLimit::Bytes(512_000_000)));
        assert_eq!("30%".parse(), Ok(MemoryLimit::Percent(30)));
        for text in ["", "0", "0%", "101%", "-1GiB", "much", "1.5%", "NaN"] {
            assert!(text.parse::<MemoryLimit>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("4MiB"), Ok(4 << 20));
        assert_eq!(parse_bytes("1000"), Ok(1000));
        for text in ["", "0", "-1MiB", "30%", "much"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_home_that_the_shell_did_not_replace_is_refused() {
        for path in ["~/a.zarr", "~", "~nobody-of-this-name/a"] {
            let refused = check_home(Path::new(path)).unwrap_err();
            assert!(refused.contains("$HOME") && refused.contains(&format!("./{path}")), "{refused}");
        }
        for path in ["./~/a.zarr", "a~/b", "/~/a", "a/~"] {
            assert_eq!(check_home(Path::new(path)), Ok(()));
        }
    }

    #[test]
    fn counts_begin_at_one() {
        assert_eq!(parse_count("3").unwrap().get(), 3);
        assert_eq!(parse_count("0"), Err("it is 1 or more".to_owned()));
        assert!(parse_count("-1").is_err() && parse_count("x").is_err());
    }

    #[test]
    fn storage_options_keep_their_values_out_of_debug_output() {
        let option: StorageOption = "secret_key=a=b".parse().unwrap();
        assert_eq!((option.key.as_str(), option.value.as_str()), ("secret_key", "a=b"));
        assert_eq!(format!("{option:?}"), "StorageOption { key: \"secret_key\", .. }");
        assert!("novalue".parse::<StorageOption>().is_err());
        assert!("=x".parse::<StorageOption>().is_err());
    }

    fn filter(include: &[&str], exclude: &[&str]) -> ArrayFilter {
        let globs = |patterns: &[&str]| patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        ArrayFilter::new(globs(include), globs(exclude))
    }

    #[test]
    fn one_star_stays_within_a_level() {
        let filter = filter(&["/surface/t*"], &[]);
        assert!(filter.takes("/surface/t2m"));
        assert!(!filter.takes("/surface/hourly/t2m"));
        assert!(!filter.takes("/other/t2m"));
    }

    #[test]
    fn a_group_takes_all_that_is_in_it() {
        assert!(filter(&["surface"], &[]).takes("/surface/hourly/t2m"));
        assert!(!filter(&["surface"], &[]).takes("/surface2/t2m"));
        assert!(filter(&["/"], &[]).takes("/surface/t2m"));
        assert!(filter(&["**/t2m"], &[]).takes("/surface/hourly/t2m"));
    }

    #[test]
    fn a_broken_group_concerns_what_may_be_below_it() {
        let lost = |path| Defect::losing(Loss::Node, path, "malformed-metadata", "");
        let nothing = |_: &str| false;
        for (include, path, expected) in [
            (&[][..], "/g", true),
            (&["g/t2m"], "/g", true),
            (&["**/t2m"], "/g", true),
            (&["*/t2m"], "/g", true),
            (&["t2m"], "/g", false),
            (&["h/*"], "/g", false),
            (&["t2m"], "/", true),
        ] {
            assert_eq!(filter(include, &[]).concerns(&lost(path), &nothing), expected, "{include:?} {path}");
        }
        assert!(!filter(&[], &["g"]).concerns(&lost("/g"), &nothing));
        assert!(filter(&["t2m"], &[]).concerns(&lost("/time"), &|path| path == "/time"));
        let remark = Defect::remark("/g", "implicit-group", "");
        assert!(!filter(&[], &[]).concerns(&remark, &|_| true));
    }

    #[test]
    fn exclude_wins_over_include() {
        let filter = filter(&["{t,q}*"], &["t2m"]);
        assert!(filter.takes("/t850") && filter.takes("/q2m"));
        assert!(!filter.takes("/t2m") && !filter.takes("/wind"));
        assert!(self::filter(&[], &[]).takes_all());
    }

    #[test]
    fn refuses_broken_globs() {
        assert!("a[".parse::<ArrayGlob>().is_err());
        assert!("{a".parse::<ArrayGlob>().is_err());
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in any::<String>()) {
            let _ = (parse_duration(&text), text.parse::<MemoryLimit>(), text.parse::<ArrayGlob>());
        }
    }
}
