//! What is fetched where it is asked whether an object is there: a server without a listing is asked for each one, and who reads
//! it next need not ask again.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use object_store::{GetRange, ObjectMeta};

use super::body::Extent;
use super::network::Network;
use super::reads::Answer;
use super::{Inner, stat_of};
use crate::error::{ErrorKind, Result};
use crate::store::any::{Glance, too_large};
use crate::store::seen::Seen;

/// Bytes that are held of the objects of all stores of a run, at most.
const HELD_BYTES_MOST: u64 = 64 << 20;

/// Parts of objects that nobody has read yet.
#[derive(Debug)]
pub(super) struct Glances {
    /// It counts the bytes of parts, and of those that are on their way, over all stores.
    network: Network,
    parts: Mutex<HashMap<String, Part>>,
}

#[derive(Debug)]
struct Part {
    start: u64,
    bytes: Bytes,
    /// Bytes of the object.
    size: u64,
}

impl Part {
    /// Returns what a range of the object holds, if that is in the part.
    fn range(&self, range: &GetRange) -> Option<Bytes> {
        let range = range.as_range(self.size).ok()?;
        let start = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(self.start)?).ok()?;
        (start <= end && end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }
}

impl Glances {
    pub(super) fn new(network: Network) -> Self {
        Self { network, parts: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there is room for so many bytes, which are taken then.
    fn reserve(&self, bytes: u64) -> bool {
        let fitting = |held: u64| held.checked_add(bytes).filter(|held| *held <= HELD_BYTES_MOST);
        self.network.glanced_bytes().fetch_update(Ordering::Relaxed, Ordering::Relaxed, fitting).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.network.glanced_bytes().fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Holds a part, of at most as many bytes as were reserved for it.
    fn hold(&self, key: &str, part: Part, reserved: u64) {
        self.give_back(reserved.saturating_sub(part.bytes.len() as u64));
        if let Some(before) = self.lock().insert(key.to_owned(), part) {
            self.give_back(before.bytes.len() as u64);
        }
    }

    /// Returns an object, or the range of one, and the bytes of the whole, if they are held: once.
    pub(super) fn take(&self, key: &str, range: Option<&GetRange>) -> Option<(Bytes, u64)> {
        let mut parts = self.lock();
        let part = parts.get(key)?;
        let found = part.range(range.unwrap_or(&GetRange::Bounded(0..part.size)))?;
        let part = parts.remove(key)?;
        self.give_back(part.bytes.len() as u64);
        Some((found, part.size))
    }
}

impl Drop for Glances {
    fn drop(&mut self) {
        let left: u64 = self.lock().values().map(|part| part.bytes.len() as u64).sum();
        self.give_back(left);
    }
}

impl Inner {
    /// Returns what stands at a key now, and holds what was fetched of it for who reads it next, as far as there is room.
    pub(super) async fn glance(&self, key: &str, glance: Glance) -> Result<Seen> {
        let (range, most) = match glance {
            Glance::Head(bytes) => (Some(GetRange::Bounded(0..bytes)), bytes),
            Glance::Tail(bytes) => (Some(GetRange::Suffix(bytes)), bytes),
            Glance::Whole(bytes) => (None, bytes),
        };
        // what is kept for later runs is asked for by its entity tag
        if most == 0 || self.cached.is_some() || !self.glances.reserve(most) {
            return self.see(key).await;
        }
        match self.fetch(key, range.as_ref(), most).await {
            Ok(Some((meta, part))) => {
                self.glances.hold(key, part, most);
                Ok(Seen::Object(stat_of(&meta)))
            }
            Ok(None) => {
                self.glances.give_back(most);
                Ok(Seen::Absent)
            }
            Err(error) => {
                self.glances.give_back(most);
                // a part of nothing cannot be had, and what is too large need not be held
                match error.kind() {
                    ErrorKind::Cancelled => Err(error),
                    ErrorKind::OverBudget => self.see(key).await,
                    _ if range.is_some() => self.see(key).await,
                    _ => Err(error),
                }
            }
        }
    }

    async fn fetch(
        &self,
        key: &str,
        range: Option<&GetRange>,
        most: u64,
    ) -> Result<Option<(ObjectMeta, Part)>> {
        let path = self.path(key)?;
        let (result, mut permit) = match self.ask((key, &path), range, most).await? {
            Answer::Absent | Answer::Kept { .. } => return Ok(None),
            Answer::Body(result, permit) => (result, permit),
        };
        let (meta, start) = (result.meta.clone(), result.range.start);
        let length = result.range.end - start;
        if length > most {
            return Err(too_large(&format!("`{key}` in {}", self.place), length, most));
        }
        let extent = if range.is_some() { Extent::Part } else { Extent::Whole };
        let bytes = self.body((key, &path), result, extent, &mut permit).await?;
        let size = meta.size;
        Ok(Some((meta, Part { start, bytes, size })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(start: u64, bytes: &'static [u8], size: u64) -> Glances {
        let glances = Glances::new(Network::default());
        assert!(glances.reserve(100));
        glances.hold("a", Part { start, bytes: Bytes::from_static(bytes), size }, 100);
        glances
    }

    fn bytes(glances: &Glances) -> u64 {
        glances.network.glanced_bytes().load(Ordering::Relaxed)
    }

    #[test]
    fn what_is_held_is_given_once() {
        let glances = held(0, b"hello", 5);
        assert_eq!(glances.take("b", None), None);
        assert_eq!(glances.take("a", None), Some((Bytes::from_static(b"hello"), 5)));
        assert_eq!((glances.take("a", None), bytes(&glances)), (None, 0));
    }

    #[test]
    fn parts_give_what_lies_in_them() {
        let head = || held(0, b"hello", 9);
        assert_eq!(head().take("a", None), None, "it is no whole object");
        assert_eq!(head().take("a", Some(&GetRange::Bounded(1..3))), Some((Bytes::from_static(b"el"), 9)));
        assert_eq!(head().take("a", Some(&GetRange::Bounded(1..7))), None);
        assert_eq!(head().take("a", Some(&GetRange::Suffix(4))), None);
        let tail = || held(5, b"world", 10);
        assert_eq!(tail().take("a", Some(&GetRange::Suffix(2))), Some((Bytes::from_static(b"ld"), 10)));
        assert_eq!(tail().take("a", Some(&GetRange::Suffix(6))), None);
        // objects that end before what is asked for
        assert_eq!(
            held(0, b"hello", 5).take("a", Some(&GetRange::Bounded(3..99))),
            Some((Bytes::from_static(b"lo"), 5))
        );
    }

    #[test]
    fn the_stores_of_a_run_share_the_room() {
        let glances = held(0, b"hello", 5);
        let other = Glances::new(glances.network.clone());
        assert!(!other.reserve(HELD_BYTES_MOST));
        assert!(other.reserve(HELD_BYTES_MOST - 5));
        other.give_back(HELD_BYTES_MOST - 5);
        // what nobody read goes with its store
        drop(glances);
        assert_eq!(bytes(&other), 0);
    }
}
