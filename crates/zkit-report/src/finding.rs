//! What is wrong with a store, as data: one finding a rule, an array and a box of chunks.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing has to be done.
    Info,
    /// It may cost time or trust; look at it before relying on the data.
    Warning,
    /// Data is lost, wrong or unreadable.
    Error,
}

impl Severity {
    /// Returns the name in outputs and settings: `info`, `warning` or `error`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// How sure a rule is that what it saw is what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// It may well be meant to be so.
    Low,
    /// Likely.
    Medium,
    /// Certain.
    High,
}

impl Confidence {
    /// Returns the name in outputs: `low`, `medium` or `high`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Which grid the chunk indices of a finding belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChunkGrid {
    /// That of stored objects: chunks, or shards where the array is sharded.
    Stored,
    /// That of the inner chunks of shards.
    Inner,
}

impl ChunkGrid {
    /// Returns the name in outputs: `stored` or `inner`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Inner => "inner",
        }
    }
}

/// A box of chunks: the first and the last index along each dimension, both included.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkBox {
    /// The lowest index along each dimension.
    pub first: Vec<u64>,
    /// The highest index along each dimension.
    pub last: Vec<u64>,
}

/// As the contract has it: `[[0, 0], [3, 1]]`.
impl Serialize for ChunkBox {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [&self.first, &self.last].serialize(serializer)
    }
}

/// One thing that is wrong, or worth knowing, of one array or store.
///
/// Texts are as the store has them: whoever renders a finding makes them safe to show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The rule, a kebab-case id: `missing-slab`.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// How sure the rule is.
    pub confidence: Confidence,
    /// The store's URL, without secrets.
    pub store: String,
    /// The path of the array or group, starting with `/`; `None` if it concerns the store.
    pub array: Option<String>,
    /// The chunks that it concerns; `None` if it does not concern single chunks.
    pub chunks: Option<Vec<ChunkBox>>,
    /// Which grid `chunks` are of.
    pub grid: ChunkGrid,
    /// What was found and what was expected, in one sentence without a full stop.
    pub message: String,
    /// The numbers and names that the message rests on. Reports show `coordinates` beside the chunks: an object
    /// from names of dimensions to a value, or to a list of the first and the last (`{"time": ["2021-03-29",
    /// "2021-03-31"]}`).
    pub evidence: Map<String, Value>,
    /// What to do, if there is something: a command line, or a sentence in the imperative.
    pub remedy: Option<String>,
}

impl Finding {
    /// Returns what tells this finding from others, the same in every run: 32 hexadecimal digits of a digest
    /// over rule, store, array, grid and chunks.
    ///
    /// Messages and evidence are no part of it: numbers in them change from run to run. Several findings of one
    /// rule about one place have the same; [`fingerprints`] numbers them.
    pub fn fingerprint(&self) -> String {
        self.fingerprint_at(&self.store)
    }

    /// Returns the fingerprint of the same finding in a store of another name.
    pub fn fingerprint_at(&self, store: &str) -> String {
        let mut digest = Sha256::new();
        // lengths in front, so that no two lists of texts give the same bytes
        for part in [self.rule, store, self.array.as_deref().unwrap_or_default(), self.grid.name()] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        for chunks in self.chunks.iter().flatten() {
            for corner in [&chunks.first, &chunks.last] {
                digest.update((corner.len() as u64).to_le_bytes());
                corner.iter().for_each(|index| digest.update(index.to_le_bytes()));
            }
        }
        digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns the fingerprint of each finding, one that came before with its number behind it: `9f..1e`, `9f..1e:2`.
pub fn fingerprints<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Vec<String> {
    numbered(findings.into_iter().map(Finding::fingerprint))
}

/// Returns fingerprints, one that came before with its number behind it.
pub fn numbered(fingerprints: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let numbered = |fingerprint: String| {
        let times = seen.entry(fingerprint.clone()).or_default();
        *times += 1;
        if *times == 1 { fingerprint } else { format!("{fingerprint}:{times}") }
    };
    fingerprints.into_iter().map(numbered).collect()
}

/// How many findings there are of each severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FindingCounts {
    /// Errors.
    pub errors: u64,
    /// Warnings.
    pub warnings: u64,
    /// Notes.
    pub infos: u64,
}

impl FindingCounts {
    /// Counts findings.
    pub fn of(findings: &[Finding]) -> Self {
        let mut counts = Self::default();
        for finding in findings {
            match finding.severity {
                Severity::Error => counts.errors += 1,
                Severity::Warning => counts.warnings += 1,
                Severity::Info => counts.infos += 1,
            }
        }
        counts
    }

    /// Returns how many there are in all.
    pub const fn total(&self) -> u64 {
        self.errors.saturating_add(self.warnings).saturating_add(self.infos)
    }

    /// Returns how many there are of one severity.
    pub const fn of_severity(&self, severity: Severity) -> u64 {
        match severity {
            Severity::Error => self.errors,
            Severity::Warning => self.warnings,
            Severity::Info => self.infos,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_finding_is_written_as_the_contract_says() {
        let finding = Finding {
            rule: "missing-slab",
            severity: Severity::Error,
            confidence: Confidence::High,
            store: "/data/a.zarr".into(),
            array: Some("/t2m".into()),
            chunks: Some(vec![ChunkBox { first: vec![4, 0], last: vec![7, 1] }]),
            grid: ChunkGrid::Stored,
            message: "the last 4 of 8 steps are absent".into(),
            evidence: Map::from_iter([("absent".to_owned(), Value::from(8))]),
            remedy: None,
        };
        let written = serde_json::to_value(&finding).unwrap();
        assert_eq!(written["severity"], "error");
        assert_eq!(written["grid"], "stored");
        assert_eq!(written["chunks"], serde_json::json!([[[4, 0], [7, 1]]]));
        assert_eq!(written["remedy"], Value::Null);
        assert_eq!(FindingCounts::of(&[finding]), FindingCounts { errors: 1, ..FindingCounts::default() });
    }

    #[test]
    fn fingerprints_follow_the_place_and_not_the_words() {
        let finding = samples::finding("corrupt-chunk");
        let of = |change: fn(&mut Finding)| {
            let mut other = finding.clone();
            change(&mut other);
            other.fingerprint()
        };
        assert_eq!(of(|finding| finding.message = "other".into()), finding.fingerprint());
        assert_eq!(of(|finding| finding.severity = Severity::Info), finding.fingerprint());
        let others = [
            of(|finding| finding.rule = "all-nan"),
            of(|finding| finding.store = "/elsewhere".into()),
            of(|finding| finding.array = None),
            of(|finding| finding.grid = ChunkGrid::Inner),
            of(|finding| finding.chunks = Some(vec![ChunkBox { first: vec![1], last: vec![2] }])),
            of(|finding| finding.chunks = Some(vec![ChunkBox { first: vec![1, 2], last: vec![] }])),
        ];
        for (index, fingerprint) in others.iter().enumerate() {
            assert_ne!(*fingerprint, finding.fingerprint());
            assert!(!others[..index].contains(fingerprint));
        }
        // part of baselines that people keep: it must not change
        assert_eq!(finding.fingerprint(), "e3ad90b61dd3897e223a2c9aa2ed697d");
    }

    #[test]
    fn findings_of_one_place_are_numbered() {
        let finding = samples::finding("pointer-file");
        let known = finding.fingerprint();
        assert_eq!(fingerprints([&finding, &finding]), [known.clone(), format!("{known}:2")]);
    }
}
