//! What an object says of itself beside its bytes: it arrives with them, or not at all.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object_store::{Attribute, Attributes, GetOptions};

use super::refusals::is_absent;
use super::{Arrived, Inner, RemoteStore};
use crate::error::Result;

/// The name of a label in an object's metadata. Letters alone: Azure takes no hyphens, and proxies drop headers with
/// underscores.
const NAME: Attribute = Attribute::Metadata(Cow::Borrowed("zkitrecord"));

/// An object's label, and how the server has it.
pub(super) type Labelled = (Option<Vec<u8>>, Arrived);

/// Returns what is sent with an object that is labelled.
pub(super) fn attributes(label: Option<&[u8]>) -> Attributes {
    label.map(|label| (NAME, STANDARD.encode(label))).into_iter().collect()
}

fn label_of(attributes: &Attributes) -> Option<Vec<u8>> {
    STANDARD.decode(attributes.get(&NAME)?.as_bytes()).ok()
}

impl RemoteStore {
    /// Returns the labels of objects, if they have one, and how the server has them, many asked for at once and in the order of
    /// `keys`; `None` for those that are absent.
    ///
    /// Cost: a request each.
    pub fn labels(&self, keys: &[String]) -> Vec<Result<Option<Labelled>>> {
        self.wait_for_all(keys.iter().map(|key| self.inner.label(key)))
    }
}

impl Inner {
    async fn label(&self, key: &str) -> Result<Option<Labelled>> {
        let path = self.path(key)?;
        let _permit = self.window.enter().await;
        match self.store.get_opts(&path, GetOptions { head: true, ..GetOptions::default() }).await {
            Ok(found) => {
                let arrived = Arrived::new(found.meta.size, found.meta.e_tag.as_deref());
                Ok(Some((label_of(&found.attributes), arrived)))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(self.error("look at", key, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_reads_back_and_what_is_none_is_none() {
        let label: Vec<u8> = (0..48).map(|byte| byte * 5).collect();
        assert_eq!(label_of(&attributes(Some(&label))), Some(label));
        assert_eq!(label_of(&attributes(None)), None);
        assert_eq!(label_of(&[(NAME, "no base64!")].into_iter().collect()), None);
    }
}
