//! Objects in a store's folders that are no part of any node: a copy leaves them behind, and says so.

/// Names of foreign objects that are kept.
const MAX_NAMES: usize = 5;

/// Objects that no Zarr reader uses: how many, and the keys of the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Foreign {
    count: u64,
    names: Vec<String>,
}

impl Foreign {
    /// Counts an object.
    pub(super) fn add(&mut self, key: String) {
        self.count += 1;
        if self.names.len() < MAX_NAMES {
            self.names.push(key);
        }
    }

    /// Returns how many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the keys of the first of them.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}
