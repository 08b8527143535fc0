//! By what an object that has arrived is known again in a listing.

use std::num::NonZeroU64;
use std::ops::ControlFlow;

use super::RemoteStore;
use crate::error::Result;

/// An object as its server has it: what the answer to a write says of it, and each listing from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrived {
    /// Stored bytes.
    pub bytes: u64,
    /// A hash of the entity tag, which is another one as soon as the object is written again with other bytes; `None` where the
    /// server names none.
    pub tag: Option<NonZeroU64>,
}

impl Arrived {
    pub(super) fn new(bytes: u64, tag: Option<&str>) -> Self {
        Self { bytes, tag: tag.and_then(hash_of) }
    }
}

/// Azure's listings leave out the quotation marks that its other answers have.
fn hash_of(tag: &str) -> Option<NonZeroU64> {
    let tag = tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"');
    if tag.is_empty() { None } else { NonZeroU64::new(xxhash_rust::xxh3::xxh3_64(tag.as_bytes()).max(1)) }
}

impl RemoteStore {
    /// Calls `visit` for each object below `prefix`, with its key relative to it, until it breaks off.
    pub fn list_arrived(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(&str, Arrived) -> ControlFlow<()>,
    ) -> Result<()> {
        let path = self.inner.path(prefix)?;
        self.wait(self.inner.list_while((prefix, &path), &[], &mut |key, object| {
            visit(key, Arrived::new(object.size, object.e_tag.as_deref()))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_the_same_with_its_quotation_marks_and_without() {
        let tagged = |tag| Arrived::new(1, Some(tag));
        assert_eq!(tagged("\"0x8D9\""), tagged("0x8D9"));
        assert_eq!(tagged("W/\"0x8D9\""), tagged("0x8D9"));
        assert_ne!(tagged("0x8D9"), tagged("0x8DA"));
        assert_eq!(tagged("\"\""), Arrived::new(1, None));
    }
}
