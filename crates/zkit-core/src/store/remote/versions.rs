//! Which version of an object parts were read of: parts of two versions make no object.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use object_store::ObjectMeta;

/// Objects whose versions are kept at least, about 200 bytes each.
const KEPT: usize = 1 << 15;

/// One version of an object, as the server tells them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadVersion {
    tag: Option<String>,
    size: u64,
    /// In whole seconds: listings may tell it more finely than answers to reads. Only where no tag tells versions apart: the
    /// same bytes may be written again.
    changed: Option<i64>,
}

impl ReadVersion {
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        Self::new(meta.e_tag.clone(), meta.size, meta.last_modified.timestamp())
    }

    pub(super) fn new(tag: Option<String>, size: u64, changed: i64) -> Self {
        let is_told = tag.as_ref().is_some_and(|tag| !tag.starts_with("W/"));
        Self { tag, size, changed: (!is_told).then_some(changed) }
    }

    /// Returns what a request can name, so that the server itself refuses another version: weak tags never match
    /// (RFC 9110, section 13.1.1).
    pub(super) fn condition(&self) -> Option<String> {
        self.tag.clone().filter(|tag| !tag.starts_with("W/"))
    }
}

/// The versions of the objects that were read in parts lately.
#[derive(Debug, Default)]
pub(super) struct Versions(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    recent: HashMap<String, ReadVersion>,
    before: HashMap<String, ReadVersion>,
}

impl Versions {
    /// Returns the version of which parts were read, if there were any.
    pub(super) fn of(&self, key: &str) -> Option<ReadVersion> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.recent.get(key).or_else(|| kept.before.get(key)).cloned()
    }

    /// Remembers the version of which a part was read; returns whether it is the one of the parts before.
    pub(super) fn agrees(&self, key: &str, version: ReadVersion) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.recent.len() >= KEPT {
            kept.before = std::mem::take(&mut kept.recent);
        }
        match kept.recent.get(key).or_else(|| kept.before.get(key)) {
            Some(before) if *before != version => false,
            _ => {
                kept.recent.insert(key.to_owned(), version);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(tag: &str) -> ReadVersion {
        ReadVersion::new(Some(tag.to_owned()), 1, 0)
    }

    #[test]
    fn parts_of_two_versions_do_not_agree() {
        let versions = Versions::default();
        assert!(versions.agrees("a", version("1")));
        assert!(versions.agrees("b", version("2")));
        assert!(versions.agrees("a", version("1")));
        assert!(!versions.agrees("a", version("2")));
        assert_eq!(versions.of("a"), Some(version("1")));
    }

    #[test]
    fn memory_does_not_follow_the_number_of_objects() {
        let versions = Versions::default();
        assert!(versions.agrees("first", version("1")));
        for at in 0..3 * KEPT {
            assert!(versions.agrees(&at.to_string(), version("1")));
        }
        let kept = versions.0.lock().unwrap();
        assert!(kept.recent.len() + kept.before.len() <= 2 * KEPT);
        assert!(!kept.recent.contains_key("first"));
    }

    #[test]
    fn a_weak_tag_is_no_condition() {
        assert_eq!(version("\"1\"").condition().as_deref(), Some("\"1\""));
        assert_eq!(version("W/\"1\"").condition(), None);
    }
}
