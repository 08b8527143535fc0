//! What is known of a remote store before anything of it is read: the beginning of its listing, and where that is all, what is
//! absent, what lies below a prefix, and documents that were read at once.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use object_store::ObjectMeta;

use super::FetchResult;
use super::listing::{Objects, PAGE};
use crate::store::any::Child;
use crate::store::memory::children_of;

/// Objects that are listed ahead, at most. More would be cheaper to list side by side, between arrays that are known by then.
pub(super) const OBJECTS_MOST: usize = 4 * PAGE;
/// Bytes of objects that are read ahead and held, at most.
pub(super) const HELD_BYTES_MOST: u64 = 64 << 20;

/// Listed objects, with their keys.
pub(super) type Listed = Vec<(String, ObjectMeta)>;

/// What was asked ahead of a store.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    whole: OnceLock<Outline>,
    begun: Mutex<Option<Begun>>,
}

/// A listing that goes on.
pub(super) struct Begun {
    /// Its first objects, in its order.
    pub(super) first: Listed,
    pub(super) rest: Objects,
}

/// All objects of a store.
#[derive(Debug)]
pub(super) struct Outline {
    /// Sorted by key.
    pub(super) objects: Listed,
    /// What was read of them.
    held: Mutex<HashMap<String, FetchResult>>,
}

impl Ahead {
    /// Takes in a listing that came to its end.
    pub(super) fn set_whole(&self, mut objects: Listed) {
        objects.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        self.whole.get_or_init(|| Outline { objects, held: Mutex::default() });
    }

    /// Takes in the beginning of a listing.
    pub(super) fn set_begun(&self, begun: Begun) {
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
    }

    /// Returns the listing that was begun, once: who takes it goes on with it.
    pub(super) fn take_begun(&self) -> Option<Begun> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns all objects of the store, where they were few.
    pub(super) fn whole(&self) -> Option<&Outline> {
        self.whole.get()
    }
}

impl Outline {
    /// Returns what reading an object gives, if that is known without a request.
    pub(super) fn get(&self, key: &str) -> Option<FetchResult> {
        if self.objects.binary_search_by(|(known, _)| known.as_str().cmp(key)).is_err() {
            return Some(Ok(None));
        }
        self.held().get(key).map(|fetched| match fetched {
            Ok(body) => Ok(body.clone()),
            Err(error) => Err(error.again()),
        })
    }

    /// Returns the entries directly below a prefix, sorted by name.
    pub(super) fn children(&self, prefix: &str) -> Vec<Child> {
        let folder = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let start = self.objects.partition_point(|(key, _)| *key < folder);
        children_of(self.objects[start..].iter().map_while(|(key, _)| key.strip_prefix(folder.as_str())))
    }

    /// Returns the keys that `wanted` takes and that were not read yet, as far as they may be held.
    pub(super) fn unread(&self, wanted: &dyn Fn(&str) -> bool) -> Vec<String> {
        let held = self.held();
        let mut room = HELD_BYTES_MOST;
        let mut keys = Vec::new();
        for (key, object) in &self.objects {
            if wanted(key) && !held.contains_key(key) && object.size <= room {
                room -= object.size;
                keys.push(key.clone());
            }
        }
        keys
    }

    /// Holds what was read.
    pub(super) fn hold(&self, keys: Vec<String>, fetched: Vec<FetchResult>) {
        self.held().extend(keys.into_iter().zip(fetched));
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, FetchResult>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Begun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Begun").field("first", &self.first.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use object_store::path::Path as ObjectPath;

    use super::*;

    fn outline(keys: &[(&str, u64)]) -> Ahead {
        let object = |&(key, size): &(&str, u64)| {
            let location = ObjectPath::from(key);
            let meta =
                ObjectMeta { location, last_modified: Default::default(), size, e_tag: None, version: None };
            (key.to_owned(), meta)
        };
        let ahead = Ahead::default();
        ahead.set_whole(keys.iter().map(object).collect());
        ahead
    }

    #[test]
    fn what_was_not_listed_is_absent_and_what_was_is_known_once_it_was_read() {
        let ahead = outline(&[("b/0", 1), ("a", 1)]);
        let outline = ahead.whole().unwrap();
        assert!(outline.get("b").unwrap().unwrap().is_none());
        assert!(outline.get("a").is_none());
        outline.hold(vec!["a".to_owned()], vec![Ok(Some("x".into()))]);
        assert_eq!(outline.get("a").unwrap().unwrap().unwrap(), "x");
        assert_eq!(outline.unread(&|_| true), ["b/0"]);
    }

    #[test]
    fn entries_below_a_prefix_are_those_of_its_folder_alone() {
        let ahead = outline(&[("a-b/0", 1), ("a/c/0", 1), ("a/d", 1), ("ab", 1)]);
        let names = |prefix: &str| -> Vec<String> {
            ahead.whole().unwrap().children(prefix).into_iter().map(|child| child.name).collect()
        };
        assert_eq!(names(""), ["a", "a-b", "ab"]);
        assert_eq!(names("a"), ["c", "d"]);
        assert!(names("b").is_empty());
    }

    #[test]
    fn no_more_is_read_ahead_than_may_be_held() {
        let ahead = outline(&[("a", HELD_BYTES_MOST), ("b", 1), ("c", 0)]);
        assert_eq!(ahead.whole().unwrap().unread(&|_| true), ["a", "c"]);
    }
}
