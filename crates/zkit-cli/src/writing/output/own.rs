//! What a command says of its run beside what every command that writes says.

use serde::Serialize;
use zkit_report::Table;

/// What a command alone knows of its run.
#[derive(Debug, Clone)]
pub struct Own<'a, Fields> {
    /// For each array of the plan what was measured to choose its codec; empty where nothing was.
    pub codec_reasons: &'a [Option<String>],
    /// Fields of the answer for programs, beside those of the contract: a struct, or a map.
    pub fields: Fields,
    /// Facts for people, among those of the run.
    pub facts: Vec<(String, String)>,
    /// Tables for people, below the facts.
    pub tables: Vec<Table>,
}

/// No fields.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct NoFields {}

impl<'a> Own<'a, NoFields> {
    /// Returns what a command says that knows no more than what was measured to choose codecs.
    pub fn of_codecs(codec_reasons: &'a [Option<String>]) -> Self {
        Self { codec_reasons, fields: NoFields {}, facts: Vec::new(), tables: Vec::new() }
    }
}
