//! What a run saw of a store: which objects it read, found absent or listed, and how they were at that time.
//!
//! Where it is kept ([`Reads::Kept`]), an answer can be asked later whether all that it rests on is still as it was.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::any::ObjectStat;

/// Keys are kept in so many maps, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// Whether a store remembers what was read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// It does not.
    Forgotten,
    /// It remembers each key, about a hundred bytes each; see [`Store::seen`](super::Store::seen).
    Kept,
}

/// What stands at a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Absent,
    /// An object.
    Object(ObjectStat),
    /// A folder whose entries were asked for; the number changes when one is added or removed.
    Folder(u64),
}

/// What a run saw of one store; threads add to it.
#[derive(Debug, Default)]
pub(super) struct SeenLog {
    shards: [Mutex<HashMap<Box<str>, Seen>>; SHARDS],
    /// The first key that was seen in two states.
    changed: Mutex<Option<String>>,
}

impl SeenLog {
    /// Returns a log, if one is to be kept.
    pub(super) fn of(reads: Reads) -> Option<Box<Self>> {
        (reads == Reads::Kept).then(Box::default)
    }

    /// Remembers what stands at a key; the first time counts, and another state is remembered as a change.
    pub(super) fn add(&self, key: &str, seen: Seen) {
        let mut shard = lock(self.shard_of(key));
        match shard.get(key) {
            None => {
                shard.insert(key.into(), seen);
            }
            Some(before) if *before == seen => {}
            Some(_) => {
                drop(shard);
                lock(&self.changed).get_or_insert_with(|| key.to_owned());
            }
        }
    }

    fn shard_of(&self, key: &str) -> &Mutex<HashMap<Box<str>, Seen>> {
        // any 16 bits of the hash
        let [one, two, ..] = xxh3_64(key.as_bytes()).to_le_bytes();
        &self.shards[usize::from(u16::from_le_bytes([one, two])) % SHARDS]
    }

    /// Returns all keys with what stood there, sorted.
    pub(super) fn all(&self) -> Vec<(String, Seen)> {
        let mut all: Vec<(String, Seen)> = Vec::new();
        for shard in &self.shards {
            all.extend(lock(shard).iter().map(|(key, seen)| (key.to_string(), *seen)));
        }
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Returns a key that was seen in two states, if there is one.
    pub(super) fn changed(&self) -> Option<String> {
        lock(&self.changed).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while it holds the log")
}

/// Returns the stamp of a file or folder of this machine.
pub(super) fn local_stamp(seconds: i64, nanoseconds: i64, inode: u64) -> u64 {
    let parts = [seconds, nanoseconds].map(i64::to_le_bytes).concat();
    xxh3_64_with_seed(&parts, inode)
}

/// Returns the stamp of a remote folder: a hash of the names in it.
pub(super) fn names_stamp<'a>(names: impl Iterator<Item = &'a str>) -> u64 {
    let mut text = String::new();
    for name in names {
        text.push_str(name);
        text.push('/');
    }
    xxh3_64(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_in_two_states_is_a_change() {
        let log = SeenLog::default();
        let object = |size| Seen::Object(ObjectStat { size, stamp: 7 });
        log.add("b", object(1));
        log.add("a", Seen::Absent);
        log.add("b", object(1));
        assert_eq!(log.changed(), None);
        log.add("a", object(2));
        assert_eq!(log.changed().as_deref(), Some("a"));
        assert_eq!(log.all(), [("a".to_owned(), Seen::Absent), ("b".to_owned(), object(1))]);
    }

    #[test]
    fn a_log_is_kept_only_where_it_is_asked_for() {
        assert!(SeenLog::of(Reads::Forgotten).is_none());
        assert!(SeenLog::of(Reads::Kept).is_some());
    }
}
