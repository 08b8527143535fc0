//! What the owner of the data says of it: `[audit]` in `zkit.toml`.

use std::ops::RangeInclusive;
use std::time::Duration;

use globset::{GlobBuilder, GlobMatcher};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use zkit_report::Severity;

use crate::depth::Depth;
use crate::summary::StoreSummary;

/// What the owner of the data says of it; what is not said has the value of [`Policy::default`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Policy {
    /// From which severity on the exit code is 1.
    pub fail_on: Option<FailOn>,
    /// How closely stores are looked at.
    #[serde(deserialize_with = "depth")]
    pub depth: Option<Depth>,
    /// Names of coordinates whose values are unique in a store and over all stores of a cache, such as `file_id`.
    pub ids: Vec<String>,
    /// Files and arrays that changed less than so many seconds ago are still being written.
    #[serde(deserialize_with = "seconds")]
    pub grace: Duration,
    /// How large stores are at least.
    pub expected: Vec<ExpectedSize>,
    /// What is said of single variables.
    pub variable: Vec<VariablePolicy>,
    /// Rules that are not run.
    pub ignore: Vec<String>,
}

/// From which severity on a run fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailOn {
    /// Errors.
    Error,
    /// Warnings and errors.
    Warning,
    /// Nothing: findings never change the exit code.
    Never,
}

impl FailOn {
    /// Returns whether a finding of this severity makes a run fail.
    pub fn takes(self, severity: Severity) -> bool {
        match self {
            Self::Error => severity >= Severity::Error,
            Self::Warning => severity >= Severity::Warning,
            Self::Never => false,
        }
    }
}

/// How large the stores are at least whose name a glob takes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExpectedSize {
    /// A glob over the last part of the store's URL: `batch_*.zarr`.
    #[serde(rename = "match", deserialize_with = "glob")]
    pub matches: GlobMatcher,
    /// Stored bytes, at least.
    #[serde(deserialize_with = "bytes")]
    pub at_least: u64,
}

/// What is said of the variables whose path a glob takes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VariablePolicy {
    /// A glob over paths of arrays without the leading `/`: `t2m`, `surface/*`.
    #[serde(rename = "match", deserialize_with = "glob")]
    pub matches: GlobMatcher,
    /// Absent chunks are meant to be absent.
    #[serde(default)]
    pub sparse: Option<bool>,
    /// NaN is a value like any other, even where nothing else is there.
    #[serde(default)]
    pub nan_allowed: Option<bool>,
    /// Which fraction of the values may be NaN: 0 to 1.
    #[serde(default)]
    pub max_nan_fraction: Option<f64>,
    /// Which fraction of the chunks may be absent: 0 to 1.
    #[serde(default)]
    pub max_absent_fraction: Option<f64>,
    /// Least and greatest value, unpacked.
    #[serde(default)]
    pub valid_range: Option<[f64; 2]>,
    /// Everything up to and with this coordinate value along the first dimension is expected to be there.
    #[serde(default)]
    pub expect_complete_through: Option<String>,
    /// The whole numbers that a coordinate holds, first and last: `0..94`; of ids, all stores of the run together.
    #[serde(default, deserialize_with = "whole_range")]
    pub expect_range: Option<RangeInclusive<i64>>,
}

/// All that is said of one variable: of each field the last entry that takes the variable and has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VariableRules {
    /// See [`VariablePolicy::sparse`].
    pub sparse: bool,
    /// See [`VariablePolicy::nan_allowed`].
    pub nan_allowed: bool,
    /// See [`VariablePolicy::max_nan_fraction`].
    pub max_nan_fraction: Option<f64>,
    /// See [`VariablePolicy::max_absent_fraction`].
    pub max_absent_fraction: Option<f64>,
    /// See [`VariablePolicy::valid_range`].
    pub valid_range: Option<[f64; 2]>,
    /// See [`VariablePolicy::expect_complete_through`].
    pub expect_complete_through: Option<String>,
    /// See [`VariablePolicy::expect_range`].
    pub expect_range: Option<RangeInclusive<i64>>,
}

impl VariablePolicy {
    /// Returns whether the entry takes the array at `path`: a glob without a group names variables of any group.
    fn takes(&self, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        let name = path.rsplit('/').next().unwrap_or(path);
        let anywhere = !self.matches.glob().glob().contains('/') && self.matches.is_match(name);
        anywhere || self.matches.is_match(path)
    }
}

impl Policy {
    /// Returns all that is said of the array at `path`.
    pub fn variable(&self, path: &str) -> VariableRules {
        let mut rules = VariableRules::default();
        for entry in self.variable.iter().filter(|entry| entry.takes(path)) {
            rules.sparse = entry.sparse.unwrap_or(rules.sparse);
            rules.nan_allowed = entry.nan_allowed.unwrap_or(rules.nan_allowed);
            rules.max_nan_fraction = entry.max_nan_fraction.or(rules.max_nan_fraction);
            rules.max_absent_fraction = entry.max_absent_fraction.or(rules.max_absent_fraction);
            rules.valid_range = entry.valid_range.or(rules.valid_range);
            rules.expect_complete_through =
                entry.expect_complete_through.clone().or(rules.expect_complete_through);
            rules.expect_range = entry.expect_range.clone().or(rules.expect_range);
        }
        rules
    }

    /// Returns the entries that take no array and no store of these, as they are written.
    pub fn without_match(&self, stores: &[StoreSummary]) -> Vec<String> {
        let paths = || stores.iter().flat_map(|store| &store.arrays).map(|array| array.path.as_str());
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let variables = self.variable.iter().filter(|entry| !paths().any(|path| entry.takes(path)));
        let variables =
            variables.map(|entry| format!("[[audit.variable]] match = \"{}\"", entry.matches.glob().glob()));
        let expected = self
            .expected
            .iter()
            .filter(|entry| !stores.iter().any(|store| entry.matches.is_match(store.name())));
        let expected =
            expected.map(|entry| format!("[[audit.expected]] match = \"{}\"", entry.matches.glob().glob()));
        let is_id = |path: &str, id: &str| {
            name(path) == id || path.trim_start_matches('/') == id.trim_start_matches('/')
        };
        let ids = self.ids.iter().filter(|id| !paths().any(|path| is_id(path, id)));
        variables.chain(expected).chain(ids.map(|id| format!("ids = [\"{id}\"]"))).collect()
    }

    /// Returns how many bytes a store holds at least, if the policy says so.
    pub fn expected_bytes(&self, store: &str) -> Option<u64> {
        let name = store.trim_end_matches('/').rsplit('/').next().unwrap_or(store);
        let taken = self.expected.iter().filter(|entry| entry.matches.is_match(name));
        taken.map(|entry| entry.at_least).max()
    }
}

fn glob<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GlobMatcher, D::Error> {
    let text = String::deserialize(deserializer)?;
    let glob = GlobBuilder::new(text.trim_start_matches('/')).literal_separator(true).build();
    Ok(glob.map_err(D::Error::custom)?.compile_matcher())
}

fn depth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Depth>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

/// Reads `"0..94"`.
fn whole_range<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RangeInclusive<i64>>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let ends = text
        .split_once("..")
        .and_then(|(first, last)| Some((first.trim().parse().ok()?, last.trim().parse().ok()?)));
    match ends {
        Some((first, last)) if first <= last => Ok(Some(first..=last)),
        _ => Err(D::Error::custom(format!("found `{text}`; write a range of whole numbers such as 0..94"))),
    }
}

/// Reads `"90s"`, `"15min"`, `"2h"`, `"1d"`.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let (number, unit) = number_and_unit(&text);
    let seconds = match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(D::Error::custom(format!("found `{text}`; write a duration such as 15min or 2h"))),
    };
    let number = number.and_then(|number| number.checked_mul(seconds));
    number
        .map(Duration::from_secs)
        .ok_or_else(|| D::Error::custom(format!("found `{text}`; write a whole number and s, min, h or d")))
}

/// Reads a number of bytes, or `"13GB"`, `"4MiB"`.
fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
    }
    let text = match Written::deserialize(deserializer)? {
        Written::Number(bytes) => return Ok(bytes),
        Written::Text(text) => text,
    };
    let (number, unit) = number_and_unit(&text);
    let factor = match unit {
        "" | "B" => Some(1),
        "kB" | "KB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        "TB" => Some(1_000_000_000_000),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        "TiB" => Some(1 << 40),
        _ => None,
    };
    number
        .zip(factor)
        .and_then(|(number, factor): (u64, u64)| number.checked_mul(factor))
        .ok_or_else(|| D::Error::custom(format!("found `{text}`; write a size such as 13GB or 512MiB")))
}

fn number_and_unit(text: &str) -> (Option<u64>, &str) {
    let text = text.trim();
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].parse().ok(), text[end..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestStore, v2_array};

    fn parsed(text: &str) -> Result<Policy, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn all_fields_are_read() {
        let policy = parsed(
            r#"
            fail-on = "warning"
            depth = "headers"
            ids = ["file_id"]
            grace = "15min"
            ignore = ["foreign-file"]
            [[expected]]
            match = "batch_*.zarr"
            at-least = "13GB"
            [[variable]]
            match = "snow*"
            sparse = true
            nan-allowed = true
            [[variable]]
            match = "/surface/*"
            max-nan-fraction = 0.25
            valid-range = [180.0, 340.0]
            expect-complete-through = "2024-12-31"
            "#,
        )
        .unwrap();
        assert_eq!((policy.fail_on, policy.depth), (Some(FailOn::Warning), Some(Depth::Headers)));
        assert_eq!(policy.grace, Duration::from_secs(900));
        assert_eq!(policy.expected_bytes("/data/cache/batch_07.zarr/"), Some(13_000_000_000));
        assert_eq!(policy.expected_bytes("/data/cache/other.zarr"), None);
        let snow = policy.variable("/surface/snow_depth");
        assert!(snow.sparse && snow.nan_allowed && snow.max_nan_fraction == Some(0.25));
        assert_eq!(policy.variable("/t2m"), VariableRules::default());
    }

    #[test]
    fn entries_that_take_nothing_are_named() {
        let store = TestStore::new().array("t2m", &v2_array(&[2], &[2])).summary();
        let policy = parsed(
            r#"
            ids = ["t2m", "file_id"]
            [[variable]]
            match = "t2*"
            [[variable]]
            match = "/tpp"
            [[expected]]
            match = "*"
            at-least = "1kB"
            [[expected]]
            match = "batch_*"
            at-least = "1kB"
            "#,
        );
        assert_eq!(
            policy.unwrap().without_match(&[store]),
            [
                r#"[[audit.variable]] match = "tpp""#,
                r#"[[audit.expected]] match = "batch_*""#,
                r#"ids = ["file_id"]"#
            ]
        );
    }

    #[test]
    fn what_is_not_known_or_makes_no_sense_is_refused() {
        for text in ["fail_on = \"error\"", "depth = \"deep\"", "grace = \"15\"", "fail-on = \"info\""] {
            assert!(parsed(text).is_err(), "{text}");
        }
        assert!(parsed("[[expected]]\nmatch = \"*\"\nat-least = \"3 parsecs\"").is_err());
    }

    #[test]
    fn severities_that_fail_follow_the_setting() {
        assert!(FailOn::Error.takes(Severity::Error) && !FailOn::Error.takes(Severity::Warning));
        assert!(FailOn::Warning.takes(Severity::Warning) && !FailOn::Warning.takes(Severity::Info));
        assert!(!FailOn::Never.takes(Severity::Error));
    }
}
