//! Finding out what of a journal holds in an object store.

use super::check::Checked;
use super::objects::ObjectContents;
use super::record::ObjectDigest;
use crate::cancel::Cancel;
use crate::engine::survey::{SurveyDepth, survey};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Silent;
use crate::grid::ChunkSet;
use crate::hierarchy::ArrayNode;
use crate::store::{RemoteStore, Store};

/// Objects that are read back at once, and their bytes.
const READ_AT_ONCE: usize = 64;
const READ_BYTES: u64 = 64 << 20;

/// Compares a journal with a listing of the store, and one object in a hundred with its digest; if one of these differs,
/// nothing of its array is taken for done.
///
/// An object appears whole or not at all, and nobody else writes here: so a listing does for the others. `arrays` are
/// those of the copy, in the order of the journal's header. Cost: a listing an array, and the objects of the sample.
pub fn check_present(
    contents: &ObjectContents,
    store: &RemoteStore,
    arrays: &[&ArrayNode],
    cancel: &Cancel,
) -> Result<Checked> {
    let none = vec![ChunkSet::default(); contents.objects.len()];
    let mut checked = Checked { done: contents.left_out.clone(), damaged: none, bytes_read: 0 };
    let handle = Store::Remote(store.clone());
    let listed =
        survey(&handle, arrays, SurveyDepth::Listing { sample_most: 0 }, &Silent::default(), cancel)?;
    for (at, (objects, survey)) in contents.objects.iter().zip(listed).enumerate() {
        let stored = survey.listing.map(|listing| listing.stored).ok_or_else(|| {
            let place = arrays.get(at).map_or("", |array| array.path.as_str());
            Error::new(ErrorKind::Unreadable, format!("could not list `{place}` in {}", store.place()))
        })?;
        for chunk in objects.iter() {
            let set = if stored.contains(chunk) { &mut checked.done[at] } else { &mut checked.damaged[at] };
            set.insert(chunk);
        }
    }
    let sample: Vec<_> = contents.sample.iter().collect();
    let mut rest = &sample[..];
    while !rest.is_empty() {
        cancel.check()?;
        let mut bytes = 0u64;
        let fitting = rest.iter().take(READ_AT_ONCE).take_while(|(_, digest)| {
            bytes = bytes.saturating_add(digest.bytes);
            bytes <= READ_BYTES
        });
        let (sampled, left) = rest.split_at(fitting.count().max(1));
        rest = left;
        let keys: Vec<String> = sampled
            .iter()
            .map(|((array, chunk), _)| {
                let mut key = String::new();
                if let Some(array) = arrays.get(*array as usize) {
                    array.chunk_key(&array.metadata.grid.index_at(*chunk), &mut key);
                }
                key
            })
            .collect();
        let most = sampled.iter().map(|(_, digest)| digest.bytes).max().unwrap_or(0);
        for (((array, chunk), expected), found) in sampled.iter().zip(store.get_many(&keys, most)) {
            let at = *array as usize;
            let holds = match found {
                Ok(Some(bytes)) => {
                    checked.bytes_read += bytes.len() as u64;
                    ObjectDigest::of(&bytes) == **expected
                }
                Ok(None) => !checked.done[at].contains(*chunk),
                Err(error) if error.kind() == ErrorKind::OverBudget => false,
                Err(error) => return Err(error),
            };
            if !holds {
                checked.damaged[at] = contents.objects[at].clone();
                checked.done[at] = contents.left_out[at].clone();
            }
        }
    }
    Ok(checked)
}
