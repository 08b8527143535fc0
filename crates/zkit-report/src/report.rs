//! What an audit says, as data: stores, findings, and the bounded pictures that go with them.

use serde::Serialize;

use crate::chart::GridMap;
use crate::finding::{Finding, FindingCounts, Severity};
use crate::series::Series;

/// The version of the JSON contract that a [`Report`] is written in.
pub const SCHEMA_VERSION: u32 = 1;

/// What an audit says of all the stores that it was given.
///
/// A plain value: whoever fills it bounds it, above all `occupancy`, `series` and `variables`, and puts the
/// findings in any order. The renderers sort, cap what they show, and make every text safe. Serialised it is
/// the JSON contract of `zkit audit`; fields that only pictures need are left out of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The version of the contract; [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The version of zkit.
    pub zkit_version: String,
    /// The stores, in the order in which they were audited.
    pub stores: Vec<StoreSummary>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// How many findings there are of each severity; those that a baseline hides not among them.
    pub summary: FindingCounts,
    /// The stores that were compared with each other, by their URLs.
    pub groups: Vec<Vec<String>>,
    /// What was asked for: the command line, without secrets; empty if it is not known.
    #[serde(skip)]
    pub command: String,
    /// When the run began, in UTC: `2026-03-29T12:00:00Z`; empty if it is not known.
    #[serde(skip)]
    pub started: String,
    /// Whether everything that the depth asks for could be read.
    pub complete: bool,
    /// Findings that a baseline hides.
    pub hidden: u64,
    /// The lowest severity that makes the run fail; `None` if none does.
    pub fail_on: Option<Severity>,
    /// What was seen of the values of arrays; empty at depths that decode nothing.
    pub variables: Vec<Variable>,
    /// Numbers along one dimension of an array: the share of NaN over time.
    pub series: Vec<Series>,
    /// The rules that were run, whether or not they found something.
    pub rules: Vec<RuleInfo>,
    /// Which chunks of an array are stored, absent and bad.
    #[serde(skip)]
    pub occupancy: Vec<Occupancy>,
}

/// One store of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreSummary {
    /// The store's URL, without secrets.
    pub url: String,
    /// What it is: `zarr`, `n5`, `kerchunk-json`, `kerchunk-parquet`, `icechunk`, `unknown`.
    pub kind: String,
    /// How many arrays it has.
    pub arrays: u64,
    /// The size of its objects; `None` if nothing was listed.
    pub bytes_stored: Option<u64>,
    /// The size of its arrays in memory; `None` if it is not known or too much to count.
    pub bytes_decoded: Option<u64>,
    /// How far it was looked into: `metadata`, `listing`, `headers`, `sample`, `full`.
    pub depth: &'static str,
    /// Whether everything that the depth asks for could be read.
    pub complete: bool,
    /// What this depth could not see, a sentence each: `values of chunks that were not sampled`.
    pub not_seen: Vec<String>,
}

/// What was seen of the values of one array.
///
/// Numbers are unpacked (`scale_factor`, `add_offset` applied) where the array is packed. NaN in a number is
/// never written: it is `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Variable {
    /// The store's URL, without secrets.
    pub store: String,
    /// The path of the array.
    pub array: String,
    /// Its data type, as text.
    pub data_type: String,
    /// Chunks that were decoded.
    pub chunks_decoded: u64,
    /// Chunks of its grid.
    pub chunks_total: u64,
    /// Elements that were decoded.
    pub elements: u64,
    /// Elements that are NaN and are not the missing value.
    pub nan: u64,
    /// Elements that equal `_FillValue`, `missing_value` or the fill value.
    pub missing: u64,
    /// Elements that are plus or minus infinity.
    pub infinite: u64,
    /// The least finite value that is not missing.
    pub min: Option<f64>,
    /// The greatest finite value that is not missing.
    pub max: Option<f64>,
    /// The mean of the finite values that are not missing.
    pub mean: Option<f64>,
    /// The least stored value, where the array is packed.
    pub raw_min: Option<f64>,
    /// The greatest stored value, where the array is packed.
    pub raw_max: Option<f64>,
    /// The least, mean and greatest value as dates, where they are times.
    #[serde(skip)]
    pub dates: Option<[String; 3]>,
}

/// A rule, as catalogues of results name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RuleInfo {
    /// Its id, in kebab case: `missing-slab`.
    pub id: &'static str,
    /// The severity of its findings, unless the policy says otherwise.
    pub severity: Severity,
    /// What it finds, in one sentence without a full stop.
    pub summary: &'static str,
    /// What `zkit audit --explain` prints: paragraphs apart by an empty line; where their lines break is of no
    /// meaning.
    #[serde(skip)]
    pub explain: &'static str,
}

/// Which chunks of an array are stored, absent and bad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupancy {
    /// The store's URL, without secrets.
    pub store: String,
    /// The path of the array.
    pub array: String,
    /// The shape of its grid of stored objects: chunks, or shards where it is sharded.
    pub grid_shape: Vec<u64>,
    /// The map, seen along the two dimensions with the most chunks ([`GridMap::of_grid`]).
    pub map: GridMap,
}

impl Report {
    /// Returns the report of a run of which nothing is known yet: no stores, no findings, complete.
    pub fn new(zkit_version: impl Into<String>) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            zkit_version: zkit_version.into(),
            stores: Vec::new(),
            findings: Vec::new(),
            summary: FindingCounts::default(),
            groups: Vec::new(),
            command: String::new(),
            started: String::new(),
            complete: true,
            hidden: 0,
            fail_on: Some(Severity::Error),
            variables: Vec::new(),
            series: Vec::new(),
            rules: Vec::new(),
            occupancy: Vec::new(),
        }
    }

    /// Returns whether a finding makes the run fail.
    pub fn fails(&self, finding: &Finding) -> bool {
        self.fail_on.is_some_and(|lowest| finding.severity >= lowest)
    }
}
