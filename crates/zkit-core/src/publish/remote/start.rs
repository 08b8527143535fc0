//! Beginning a store in a bucket, or going on with what a run that died has left.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use xxhash_rust::xxh3::xxh3_64;

use super::super::leftover::{JOURNAL_SUFFIX, ROOT_DOCUMENTS};
use super::super::partial::Destination;
use super::super::start::{Existing, Start, Unfinished, source_changed};
use super::commit::{Publishing, clear_journal};
use super::lock::{Lock, unique_name};
use super::partial::RemotePartial;
use crate::engine::{Header, ObjectContents, ObjectJournal};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::grid::ChunkSet;
use crate::store::{RemoteStore, RemoteWriter};

/// The objects beside a destination.
pub(super) const HEADER_KEY: &str = "header";
pub(super) const PUBLISHING_KEY: &str = "publishing";
/// While it is there, a store that is to be replaced is being removed.
pub(super) const CLEARING_KEY: &str = "clearing";
/// It is there once the source changed while it was read: no run goes on with what was written.
pub(super) const SOURCE_CHANGED_KEY: &str = "changed";

pub(super) const BESIDE: &str = JOURNAL_SUFFIX;
/// Root documents and marks are read up to this size.
pub(super) const DOCUMENT_BYTES_MOST: u64 = 256 << 20;

/// Returns whether a store is at a destination: something that readers open.
pub(in super::super) fn exists(store: &RemoteStore) -> Result<bool> {
    let keys: Vec<String> = ROOT_DOCUMENTS.iter().map(|&key| key.to_owned()).collect();
    for found in store.get_many(&keys, DOCUMENT_BYTES_MOST) {
        if found?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether an earlier run left something beside a destination.
pub(in super::super) fn has_traces(store: &RemoteStore) -> Result<bool> {
    is_anything(&store.sibling(BESIDE)?)
}

/// Returns whether any object is below a store's prefix.
fn is_anything(store: &RemoteStore) -> Result<bool> {
    let mut found = false;
    store.list_while("", &mut |object| {
        found |= !object.key.is_empty();
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// What a run that died left beside a destination.
pub(super) enum Found {
    /// Nothing of ours.
    Nothing,
    /// A journal that nobody can read: it says only that the objects are ours.
    Damaged,
    /// A store that is not published yet.
    Unfinished(ObjectContents),
    /// The leftovers of a published store, cleared by now.
    Published(Header),
}

/// What a run works with before it is known what it begins with.
pub(super) struct Place {
    pub(super) destination: RemoteStore,
    pub(super) beside: RemoteStore,
    pub(super) run: String,
    pub(super) lock: Lock,
    /// Whether what lies there was left by a run that did not end.
    pub(super) ours: bool,
}

impl Place {
    /// Returns whether the source changed while an earlier run read it.
    fn source_changed(&self) -> Result<bool> {
        Ok(self.beside.get_blocking(SOURCE_CHANGED_KEY, DOCUMENT_BYTES_MOST)?.is_some())
    }

    /// Removes what is at the destination, as long as the lock is held.
    pub(super) fn remove_all(&self) -> Result<()> {
        self.destination.remove_all_blocking(&|| self.lock.confirm())
    }

    /// Checks that the destination is free, or may be replaced.
    fn check_free(&self, existing: Existing) -> Result<()> {
        match check_free(&self.destination, existing) {
            // what a dead run had on its way may arrive after the rest of it was removed
            Err(error) if self.ours && error.kind() == ErrorKind::Conflict && !exists(&self.destination)? => {
                self.remove_all()?;
                check_free(&self.destination, existing)
            }
            other => other,
        }
    }
}

impl RemotePartial {
    /// Takes the lock of a destination and begins its journal, or goes on with that of a run that died.
    ///
    /// Errors: `Unsupported` for web servers; `Conflict` if the destination exists, another run builds it, an unfinished
    /// store is to be refused or is of another job; `Usage` for a whole bucket; `Unwritable`.
    pub fn create(
        destination: &Destination<'_>,
        existing: Existing,
        header: &Header,
        unfinished: Unfinished,
    ) -> Result<Start<Self>> {
        let store = destination.open_remote()?;
        let beside = store.sibling(BESIDE)?;
        if !is_anything(&beside)? {
            // without taking the lock: this is found out in any case, and mostly here
            if unfinished == Unfinished::Resume && exists(&store)? {
                return Ok(Start::Exists);
            }
            check_free(&store, existing)?;
        }
        let run = unique_name();
        let cancel = &destination.options.cancel;
        let lock = Lock::acquire(&beside, &run, cancel, &|| watching(destination, &store))?;
        let mut place = Place { destination: store, beside, run, lock, ours: false };
        let found = look(&place, unfinished)?;
        place.ours = match found {
            Found::Published(was) => {
                if unfinished != Unfinished::Discard && was.difference(header).is_none() {
                    return Ok(Start::AlreadyPublished);
                }
                false
            }
            Found::Unfinished(left) => match unfinished {
                // what differs now is named below
                Unfinished::Refuse | Unfinished::Resume
                    if left.header.difference(header).is_none() && place.source_changed()? =>
                {
                    return Err(source_changed(&place.destination.place()));
                }
                Unfinished::Refuse if left.records > 0 => return Err(unfinished_error(&place)),
                // objects carry their records before a segment names them
                Unfinished::Resume if left.records > 0 || left.header.difference(header).is_none() => {
                    return resume(place, destination, left, header);
                }
                _ => true,
            },
            Found::Damaged => true,
            Found::Nothing => false,
        };
        if place.ours {
            place.remove_all()?;
        }
        place.destination.give_up_uploads_blocking(&place.beside)?;
        clear_journal(&place.beside)?;
        if unfinished == Unfinished::Resume && exists(&place.destination)? {
            return Ok(Start::Exists);
        }
        begin(place, destination, existing, header)
    }
}

/// Says that the lock of another run is watched.
pub(super) fn watching(destination: &Destination<'_>, store: &RemoteStore) {
    destination.observer.event(Event::Warning(format!(
        "{} is locked by another run: watching for half a minute whether it still lives",
        store.place()
    )));
}

/// Reads what an earlier run left, and ends what it had begun: a publication, or the removal of a replaced store.
pub(super) fn look(place: &Place, unfinished: Unfinished) -> Result<Found> {
    let left = match ObjectJournal::read(&place.beside) {
        Ok(Some(left)) => left,
        // killed before it made anything
        Ok(None) => return Ok(Found::Nothing),
        Err(error) => {
            let damaged = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported);
            // a published store is not ours to remove
            return match damaged && unfinished == Unfinished::Discard && !exists(&place.destination)? {
                true => Ok(Found::Damaged),
                false => Err(error),
            };
        }
    };
    if place.beside.get_blocking(CLEARING_KEY, DOCUMENT_BYTES_MOST)?.is_some() {
        clear_replaced(place)?;
        return Ok(Found::Unfinished(left));
    }
    let mark = place.beside.get_blocking(PUBLISHING_KEY, DOCUMENT_BYTES_MOST)?;
    let Some(mark) = mark.and_then(|mark| serde_json::from_slice::<Publishing>(&mark).ok()) else {
        return if exists(&place.destination)? {
            Err(unexplained(place))
        } else {
            Ok(Found::Unfinished(left))
        };
    };
    let last = match mark.keys.last() {
        Some(key) => place.destination.get_blocking(key, DOCUMENT_BYTES_MOST)?,
        None => None,
    };
    match last {
        Some(last) if xxh3_64(&last) == mark.last_xxh3 => {
            clear_journal(&place.beside)?;
            return Ok(Found::Published(left.header));
        }
        Some(_) => return Err(unexplained(place)),
        None => {}
    }
    // no metadata stands before its chunks are known to be there
    place.destination.remove_blocking(mark.keys.into_iter().rev().collect())?;
    place.beside.remove_blocking(vec![PUBLISHING_KEY.to_owned()])?;
    Ok(Found::Unfinished(left))
}

/// Returns the error of a store that others put where an unfinished one was.
fn unexplained(place: &Place) -> Error {
    let (destination, beside) = (place.destination.place(), place.beside.place());
    let message = format!("a store is at {destination} that the unfinished run of {beside} did not write");
    Error::new(ErrorKind::Conflict, message)
        .with_hint(format!("if it is to stay, remove {beside}; else remove the store yourself"))
}

fn resume(
    place: Place,
    destination: &Destination<'_>,
    mut left: ObjectContents,
    header: &Header,
) -> Result<Start<RemotePartial>> {
    if let Some(difference) = left.header.difference(header) {
        let message = format!("could not go on with {}: {difference}", place.destination.place());
        let hint = match difference.starts_with("the objects of") {
            true => "pass --restart to begin anew, or --source-check metadata if what is done still holds",
            false => "pass --restart to begin anew, or ask for the same as before",
        };
        return Err(Error::new(ErrorKind::Conflict, message).with_hint(hint));
    }
    left.marked = place.destination.give_up_uploads_blocking(&place.beside)?;
    let journal = ObjectJournal::resume(&place.beside, &left, &place.run);
    build(place, destination, left.header.clone(), Some(left), journal)
}

fn begin(
    place: Place,
    destination: &Destination<'_>,
    existing: Existing,
    header: &Header,
) -> Result<Start<RemotePartial>> {
    let replaces = exists(&place.destination)?;
    place.check_free(existing)?;
    if replaces {
        place.beside.put_blocking(CLEARING_KEY, place.run.clone().into())?;
    }
    let journal = ObjectJournal::create(&place.beside, header, &place.run)?;
    if replaces {
        clear_replaced(&place)?;
    }
    build(place, destination, header.clone(), None, journal)
}

fn build(
    place: Place,
    destination: &Destination<'_>,
    header: Header,
    left: Option<ObjectContents>,
    journal: ObjectJournal,
) -> Result<Start<RemotePartial>> {
    let writer = RemoteWriter::marking(place.destination.clone(), destination.room, &place.beside);
    let journal = Arc::new(journal);
    let ticked = Arc::clone(&journal);
    place.lock.guard(writer.clone(), move || ticked.tick())?;
    Ok(Start::Build(Box::new(RemotePartial {
        url: destination.url.clone(),
        store: place.destination,
        beside: place.beside,
        writer,
        journal,
        lock: place.lock,
        done: vec![ChunkSet::default(); header.arrays.len()],
        header,
        left,
        published: AtomicBool::new(false),
    })))
}

/// Removes the store that is replaced: the root's metadata first, so that it can be opened no more.
fn clear_replaced(place: &Place) -> Result<()> {
    let keys = ROOT_DOCUMENTS.iter().map(|&key| key.to_owned()).collect();
    place.destination.remove_blocking(keys)?;
    place.remove_all()?;
    place.beside.remove_blocking(vec![CLEARING_KEY.to_owned()])
}

/// Checks that the destination is free, or may be replaced.
fn check_free(store: &RemoteStore, existing: Existing) -> Result<()> {
    let place = store.place();
    if exists(store)? {
        let message = format!("the destination {place} already exists");
        return match existing {
            Existing::Unpublish => Ok(()),
            Existing::Keep => Err(Error::new(ErrorKind::Conflict, message)
                .with_hint("pass --overwrite to replace it, or name another destination")),
            Existing::Replace => Err(Error::new(ErrorKind::Conflict, message).with_hint(
                "an object store cannot exchange two stores: pass --unpublish-first to remove this one before the copy is begun",
            )),
        };
    }
    let mut first = None;
    store.list_while("", &mut |object| {
        // consoles mark folders by objects without a name of their own
        if object.key.is_empty() {
            return ControlFlow::Continue(());
        }
        first = Some(object.key.to_owned());
        ControlFlow::Break(())
    })?;
    match first {
        None => Ok(()),
        Some(key) => {
            let message = format!("`{key}` below {place} is in the way, and was not left by zkit");
            Err(Error::new(ErrorKind::Conflict, message)
                .with_hint("remove what is there yourself, or name another destination"))
        }
    }
}

fn unfinished_error(place: &Place) -> Error {
    let message = format!("an earlier run to {} did not end", place.destination.place());
    Error::new(ErrorKind::Conflict, message)
        .with_hint("pass --resume to go on with it, or --restart to begin anew")
}
