//! A few small objects in memory: arrays that no store holds yet.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::any::{Child, ChildKind, ObjectInfo, ObjectKind, part_of, too_large};
use super::remote::FetchResult;
use crate::error::Result;

/// A store that is a map from keys to bytes.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    objects: BTreeMap<String, Bytes>,
}

impl MemoryStore {
    /// Returns a store of these objects.
    ///
    /// ```
    /// use zkit_core::store::{MemoryStore, Store};
    ///
    /// let store = Store::Memory(MemoryStore::new([("names/0".to_owned(), b"Kew".to_vec())]));
    /// let mut buffer = Vec::new();
    /// assert!(store.get("names/0", 1 << 10, &mut buffer).unwrap());
    /// assert_eq!(buffer, b"Kew");
    /// ```
    pub fn new(objects: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self { objects: objects.into_iter().map(|(key, bytes)| (key, bytes.into())).collect() }
    }

    /// Returns where it is, in words.
    pub(super) fn place() -> &'static str {
        "memory"
    }

    pub(super) fn get(&self, key: &str, limit: u64, buffer: &mut Vec<u8>) -> Result<bool> {
        let Some(bytes) = self.objects.get(key) else { return Ok(false) };
        if bytes.len() as u64 > limit {
            return Err(too_large(&format!("`{key}` in memory"), bytes.len() as u64, limit));
        }
        buffer.clear();
        buffer.extend_from_slice(bytes);
        Ok(true)
    }

    pub(super) fn get_range(&self, key: &str, offset: u64, length: u64, buffer: &mut Vec<u8>) -> Option<u64> {
        let bytes = self.objects.get(key)?;
        buffer.clear();
        buffer.extend_from_slice(part_of(bytes, offset, length));
        Some(bytes.len() as u64)
    }

    pub(super) fn get_suffix(&self, key: &str, length: u64, buffer: &mut Vec<u8>) -> Option<u64> {
        let size = self.objects.get(key)?.len() as u64;
        self.get_range(key, size.saturating_sub(length), length, buffer)
    }

    pub(super) fn get_many(&self, keys: &[String], limit: u64) -> Vec<FetchResult> {
        let one = |key: &String| match self.objects.get(key) {
            Some(bytes) if bytes.len() as u64 > limit => {
                Err(too_large(&format!("`{key}` in memory"), bytes.len() as u64, limit))
            }
            found => Ok(found.cloned()),
        };
        keys.iter().map(one).collect()
    }

    pub(super) fn list_while(&self, prefix: &str, visit: &mut dyn FnMut(ObjectInfo<'_>) -> ControlFlow<()>) {
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let below = self.objects.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        for (key, bytes) in below {
            let object = ObjectInfo {
                key: &key[prefix.len()..],
                size: bytes.len() as u64,
                kind: ObjectKind::Regular,
                stamp: xxhash_rust::xxh3::xxh3_64(bytes),
                changed: None,
                locked: false,
            };
            if visit(object).is_break() {
                return;
            }
        }
    }

    pub(super) fn children(&self, prefix: &str) -> Vec<Child> {
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        children_of(self.objects.range(prefix.clone()..).map_while(|(key, _)| key.strip_prefix(&prefix)))
    }
}

/// Returns what lies directly below a prefix, sorted by name; `keys` are those of all objects below it, relative to it.
pub(super) fn children_of<'k>(keys: impl Iterator<Item = &'k str>) -> Vec<Child> {
    let mut children: BTreeMap<&str, ChildKind> = BTreeMap::new();
    for key in keys {
        let (name, kind) = match key.split_once('/') {
            Some((folder, _)) => (folder, ChildKind::Directory),
            None => (key, ChildKind::Object(ObjectKind::Regular)),
        };
        if children.get(name) != Some(&ChildKind::Directory) {
            children.insert(name, kind);
        }
    }
    children.into_iter().map(|(name, kind)| Child { name: name.to_owned(), kind }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::any::Store;
    use super::*;

    fn store() -> Store {
        let objects = [("a/0", "one"), ("a/1", "two"), ("ab/0", "three"), ("b", "four")];
        Store::Memory(MemoryStore::new(objects.map(|(key, text)| (key.to_owned(), text.into()))))
    }

    #[test]
    fn objects_are_read_whole_and_in_part() {
        let mut buffer = Vec::new();
        assert!(store().get("a/0", 3, &mut buffer).unwrap());
        assert_eq!(buffer, b"one");
        assert!(!store().get("a", 3, &mut buffer).unwrap());
        assert_eq!(
            store().get("ab/0", 3, &mut buffer).unwrap_err().kind(),
            crate::error::ErrorKind::OverBudget
        );
        assert_eq!(store().get_range("ab/0", 1, 2, &mut buffer).unwrap(), Some(5));
        assert_eq!(buffer, b"hr");
        assert_eq!(store().get_range("ab/0", 9, u64::MAX, &mut buffer).unwrap(), Some(5));
        assert_eq!(buffer, b"");
        assert_eq!(store().get_suffix("b", 2, &mut buffer).unwrap(), Some(4));
        assert_eq!(buffer, b"ur");
        let many = store().get_many(&["b".to_owned(), "c".to_owned()], 10);
        assert!(many[0].as_ref().unwrap().is_some() && many[1].as_ref().unwrap().is_none());
    }

    #[test]
    fn listings_stay_below_their_prefix() {
        let mut keys = Vec::new();
        store().list("a", &mut |object| keys.push(object.key.to_owned())).unwrap();
        assert_eq!(keys, ["0", "1"]);
        let children = store().children("").unwrap();
        let names: Vec<&str> = children.iter().map(|child| child.name.as_str()).collect();
        assert_eq!(names, ["a", "ab", "b"]);
        assert_eq!(children[2].kind, ChildKind::Object(ObjectKind::Regular));
    }
}
