//! What is wrong with a node: an observation, not an error.

/// Something wrong with one node's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    /// The node's path, starting with `/`.
    pub path: String,
    /// The rule it breaks, a kebab-case id: `malformed-metadata`.
    pub rule: &'static str,
    /// What was found and what was expected.
    pub message: String,
}

impl Defect {
    /// Returns a defect of the node at `path`.
    pub fn new(path: impl Into<String>, rule: &'static str, message: impl Into<String>) -> Self {
        Self { path: path.into(), rule, message: message.into() }
    }
}
