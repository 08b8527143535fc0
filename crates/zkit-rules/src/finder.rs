//! Where rules put what they find.

use serde_json::{Map, Value};
use zkit_report::{ChunkBox, ChunkGrid, Confidence, Finding, Severity};

use crate::rule::Rule;

/// Takes the findings of one rule; ids, severities and the store are filled in.
#[derive(Debug)]
pub struct Finder<'a> {
    rule: &'static Rule,
    store: &'a str,
    findings: Vec<Finding>,
}

impl<'a> Finder<'a> {
    /// Returns an empty list of findings of `rule` in the store at `store`.
    pub fn new(rule: &'static Rule, store: &'a str) -> Self {
        Self { rule, store, findings: Vec::new() }
    }

    /// Adds a finding that concerns the whole store; `message` says in one sentence what was found and expected.
    pub fn store(&mut self, message: impl Into<String>) -> Draft<'_> {
        let store = self.store;
        self.add(store, None, message.into())
    }

    /// Adds a finding of the array or group at `path`, which starts with `/`.
    pub fn array(&mut self, path: &str, message: impl Into<String>) -> Draft<'_> {
        let store = self.store;
        self.add(store, Some(path.to_owned()), message.into())
    }

    /// Adds a finding of another store of the run, for rules over caches.
    pub fn elsewhere(&mut self, store: &str, array: Option<&str>, message: impl Into<String>) -> Draft<'_> {
        self.add(store, array.map(str::to_owned), message.into())
    }

    /// Returns the findings.
    pub fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    fn add(&mut self, store: &str, array: Option<String>, message: String) -> Draft<'_> {
        self.findings.push(Finding {
            rule: self.rule.id,
            severity: self.rule.severity,
            confidence: self.rule.confidence,
            store: store.to_owned(),
            array,
            chunks: None,
            grid: ChunkGrid::Stored,
            message,
            evidence: Map::new(),
            remedy: None,
        });
        Draft(self.findings.last_mut().expect("a finding was just added"))
    }
}

/// A finding that was just added and can still be said more of.
#[derive(Debug)]
pub struct Draft<'a>(&'a mut Finding);

impl Draft<'_> {
    /// Sets how much it matters, where the rule's own severity does not fit.
    pub fn severity(self, severity: Severity) -> Self {
        self.0.severity = severity;
        self
    }

    /// Sets how sure it is, where the rule's own confidence does not fit.
    pub fn confidence(self, confidence: Confidence) -> Self {
        self.0.confidence = confidence;
        self
    }

    /// Names the stored chunks that it concerns.
    pub fn chunks(self, chunks: Vec<ChunkBox>) -> Self {
        self.0.chunks = Some(chunks);
        self
    }

    /// Names the inner chunks that it concerns.
    pub fn inner_chunks(self, chunks: Vec<ChunkBox>) -> Self {
        self.0.grid = ChunkGrid::Inner;
        self.chunks(chunks)
    }

    /// Adds a number or name that the message rests on.
    pub fn evidence(self, key: &str, value: impl Into<Value>) -> Self {
        self.0.evidence.insert(key.to_owned(), value.into());
        self
    }

    /// Says what to do: a command line, or a sentence in the imperative.
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        self.0.remedy = Some(remedy.into());
        self
    }
}
