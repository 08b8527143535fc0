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
    /// What is not known because of it.
    pub loss: Loss,
}

/// What of a hierarchy is not known because of a defect: what a copy would lose without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Nothing: the defect is a remark on a node that is known.
    Nothing,
    /// The attributes of the node.
    Attributes,
    /// The node, and all below it if it is a group.
    Node,
    /// Nodes below this one.
    Below,
    /// What the consolidated metadata says: the nodes were read one by one.
    Consolidated,
    /// A document that no reader uses: v2 documents beside a `zarr.json`, attributes of no node.
    Unused,
}

impl Loss {
    /// Returns what is lost, in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Attributes => "the attributes",
            Self::Node => "the node",
            Self::Below => "nodes below",
            Self::Consolidated => "the consolidated metadata",
            Self::Unused => "a document that no reader uses",
        }
    }
}

impl Defect {
    /// Returns a remark on the node at `path`, because of which nothing is unknown.
    pub fn remark(path: impl Into<String>, rule: &'static str, message: impl Into<String>) -> Self {
        Self::losing(Loss::Nothing, path, rule, message)
    }

    /// Returns a defect of the node at `path` because of which something is not known.
    pub fn losing(
        loss: Loss,
        path: impl Into<String>,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), rule, message: message.into(), loss }
    }

    /// Returns whether something could not be read: it may be right, and readable another time.
    pub fn is_unreadable(&self) -> bool {
        matches!(self.rule, "unreadable" | "dangling-link" | "outside-link")
    }
}
