//! What runs left beside destinations in buckets.

use std::ops::ControlFlow;

use super::super::leftover::{Leftover, foreign};
use super::super::partial::Destination;
use super::super::start::Unfinished;
use super::commit::clear_journal;
use super::lock::{LOCK_KEY, Lock, holder, unique_name};
use super::start::{
    BESIDE, CLEARING_KEY, DOCUMENT_BYTES_MOST, Found, HEADER_KEY, PUBLISHING_KEY, Place, exists, look,
    watching,
};
use crate::error::Result;
use crate::store::{RemoteStore, UPLOAD_MARKS};

/// Returns what lies beside a destination, if anything of ours does.
pub(in super::super) fn survey(destination: &Destination<'_>) -> Result<Option<Leftover>> {
    let store = destination.open_remote()?;
    // a whole bucket has nothing beside it
    let Ok(beside) = store.sibling(BESIDE) else { return Ok(None) };
    let Some(uploads) = uploads_if_ours(&beside)? else { return Ok(None) };
    let mut found = Leftover::of(destination.url.clone(), holder(&beside)?);
    found.uploads = uploads;
    found.published = exists(&store)?;
    add_objects(&mut found, &beside)?;
    if !found.published {
        add_objects(&mut found, &store)?;
    }
    Ok(Some(found))
}

fn add_objects(found: &mut Leftover, store: &RemoteStore) -> Result<()> {
    store.list_while("", &mut |object| {
        found.add(object.size, object.changed);
        ControlFlow::Continue(())
    })
}

/// Returns how many objects in parts a journal marks; `None` if there is none, or something in it is not ours.
fn uploads_if_ours(beside: &RemoteStore) -> Result<Option<u64>> {
    let (mut uploads, mut objects, mut ours) = (0, 0, true);
    beside.list_while("", &mut |object| {
        let folder = object.key.split_once('/').map(|(folder, _)| folder);
        uploads += u64::from(folder == Some(UPLOAD_MARKS));
        objects += u64::from(!object.key.is_empty());
        ours &= matches!(object.key, "" | LOCK_KEY | HEADER_KEY | PUBLISHING_KEY | CLEARING_KEY)
            || matches!(folder, Some(UPLOAD_MARKS | "records"));
        if ours { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok((ours && objects > 0).then_some(uploads))
}

/// Clears what lies beside a destination, once its lock is held; a publication that was cut short is ended first.
pub(in super::super) fn clear_leftover(destination: &Destination<'_>) -> Result<()> {
    let store = destination.open_remote()?;
    let beside = store.sibling(BESIDE)?;
    if uploads_if_ours(&beside)?.is_none() {
        return Err(foreign(beside.place()));
    }
    let run = unique_name();
    let lock = Lock::acquire(&beside, &run, &destination.options.cancel, &|| watching(destination, &store))?;
    let place = Place { destination: store, beside, run, lock, ours: true };
    let clearing = place.beside.get_blocking(CLEARING_KEY, DOCUMENT_BYTES_MOST)?.is_some();
    // a store that was to be replaced, and still stands, is nobody's leftover
    if !(clearing && exists(&place.destination)?) {
        match look(&place, Unfinished::Discard)? {
            Found::Unfinished(_) | Found::Damaged => place.remove_all()?,
            Found::Published(_) | Found::Nothing => {}
        }
    }
    place.destination.give_up_uploads_blocking(&place.beside)?;
    clear_journal(&place.beside)
}
