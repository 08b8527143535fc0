//! Beginning a store, or going on with what a run that died has left.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::super::start::{Existing, Start, Unfinished, source_changed};
use super::commit::{is, put_back, remove_replaced};
use super::partial::LocalPartial;
use super::places::{Places, metadata};
use crate::engine::{Contents, Header, Journal, Publishing};
use crate::error::{Error, ErrorKind, Result};
use crate::grid::ChunkSet;
use crate::store::{LocalWriter, write_error};

/// What a run that died left beside a destination.
pub(super) enum Found {
    /// Nothing of ours.
    Nothing,
    /// A journal that nobody can read: it says only that the partial store is ours.
    Damaged,
    /// A store that is not published yet.
    Unfinished(Contents),
    /// The leftovers of a published store, cleared by now.
    Published(Header),
}

impl LocalPartial {
    /// Makes the `.partial` sibling of a destination and its journal, or goes on with those of a run that died.
    ///
    /// What a kill in the middle of a publication left is repaired first. Errors: `Usage` if the destination is a
    /// mount point; `Conflict` if it exists, another run builds it, an unfinished store is to be refused or is of
    /// another job; `Unwritable`.
    ///
    /// ```
    /// use zkit_core::engine::Header;
    /// use zkit_core::publish::{Existing, LocalPartial, Start, Unfinished};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let destination = folder.path().join("copy.zarr");
    /// let header = Header { options: vec![], source: "a.zarr".into(), groups: String::new(), arrays: vec![] };
    /// let start = LocalPartial::create(&destination, Existing::Keep, &header, Unfinished::Refuse)?;
    /// let Start::Build(store) = start else { unreachable!("nothing was there") };
    /// store.writer().replace("zarr.json", b"{}")?;
    /// assert!(!destination.exists());
    /// store.commit()?;
    /// assert!(destination.join("zarr.json").exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(
        destination: &Path,
        existing: Existing,
        header: &Header,
        unfinished: Unfinished,
    ) -> Result<Start<LocalPartial>> {
        let places = Places::of(destination)?;
        places.check_same_file_system()?;
        let mut journal = Journal::find(&places.journal)?;
        let found = match &mut journal {
            Some(journal) => look(&places, journal, unfinished)?,
            None => Found::Nothing,
        };
        let ours = match found {
            Found::Published(was) => {
                if unfinished != Unfinished::Discard && was.difference(header).is_none() {
                    return Ok(Start::AlreadyPublished);
                }
                journal = None;
                false
            }
            Found::Unfinished(contents) if is_worth_keeping(&places, &contents)? => match unfinished {
                // what differs now is named below
                Unfinished::Refuse | Unfinished::Resume
                    if contents.source_changed && contents.header.difference(header).is_none() =>
                {
                    return Err(source_changed(&places.destination.display()));
                }
                Unfinished::Refuse => return Err(unfinished_error(&places)),
                Unfinished::Resume => {
                    let journal = journal.expect("it was read from one");
                    return resume(places, existing, journal, contents, header);
                }
                Unfinished::Discard => true,
            },
            Found::Unfinished(_) | Found::Damaged => true,
            Found::Nothing => false,
        };
        if unfinished == Unfinished::Resume && metadata(&places.destination)?.is_some() {
            clear(&places, journal, ours)?;
            return Ok(Start::Exists);
        }
        places.check_free(existing)?;
        clear(&places, journal, ours)?;
        begin(places, existing, header)
    }
}

/// Reads a journal, and repairs a publication that was cut short.
pub(super) fn look(places: &Places, journal: &mut Journal, unfinished: Unfinished) -> Result<Found> {
    let contents = match journal.contents() {
        Ok(Some(contents)) => contents,
        // killed before it made anything
        Ok(None) => return Ok(Found::Nothing),
        Err(error) => {
            let damaged = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported);
            return if damaged && unfinished == Unfinished::Discard {
                Ok(Found::Damaged)
            } else {
                Err(error)
            };
        }
    };
    match contents.publishing {
        Some(mark) => repair(places, journal, mark, contents),
        None => Ok(Found::Unfinished(contents)),
    }
}

/// Finds out how far a publication came: inodes tell the new store from the old one, whatever they are named.
fn repair(places: &Places, journal: &Journal, mark: Publishing, contents: Contents) -> Result<Found> {
    if is(&places.destination, mark.partial)? {
        places.sync_parent()?;
        remove_replaced(places, mark)?;
        journal.remove()?;
        return Ok(Found::Published(contents.header));
    }
    if let Some(replaced) = mark.replaced {
        if is(&places.replaced, replaced)? && metadata(&places.destination)?.is_none() {
            // killed between the two renames
            put_back(places)?;
        }
        for path in [&places.replaced, &places.partial] {
            if is(path, replaced)? {
                return Err(stranded(places, path));
            }
        }
    }
    match metadata(&places.partial)? {
        Some(_) if !is(&places.partial, mark.partial)? => Ok(Found::Nothing),
        _ => Ok(Found::Unfinished(contents)),
    }
}

/// Returns the error of an old store that zkit moved, and cannot put back as others changed the destination.
fn stranded(places: &Places, path: &Path) -> Error {
    let message = format!(
        "{} holds the store that was to be replaced, but the new one is not at {}",
        path.display(),
        places.destination.display()
    );
    Error::new(ErrorKind::Conflict, message)
        .with_hint(format!("move or remove it yourself, then remove {}", places.journal.display()))
}

fn is_worth_keeping(places: &Places, contents: &Contents) -> Result<bool> {
    Ok(contents.records > 0 && metadata(&places.partial)?.is_some_and(|found| found.is_dir()))
}

fn resume(
    places: Places,
    existing: Existing,
    journal: Journal,
    contents: Contents,
    header: &Header,
) -> Result<Start<LocalPartial>> {
    if let Some(difference) = contents.header.difference(header) {
        let message = format!("could not go on with {}: {difference}", places.partial.display());
        let hint = match difference.starts_with("the objects of") {
            true => "pass --restart to begin anew, or --source-check metadata if what is done still holds",
            false => "pass --restart to begin anew, or ask for the same as before",
        };
        return Err(Error::new(ErrorKind::Conflict, message).with_hint(hint));
    }
    places.check_free(existing)?;
    let writer = LocalWriter::open_lasting(&places.partial)?;
    let done = vec![ChunkSet::default(); contents.header.arrays.len()];
    let header = contents.header;
    let store = LocalPartial {
        places,
        existing,
        writer,
        journal,
        header,
        done,
        resumed: true,
        keep: AtomicBool::new(false),
    };
    Ok(Start::Build(Box::new(store)))
}

/// Removes what is of no use any more; the journal last, as it says that the rest is ours.
pub(super) fn clear(places: &Places, journal: Option<Journal>, ours: bool) -> Result<()> {
    if ours && metadata(&places.partial)?.is_some() {
        std::fs::remove_dir_all(&places.partial)
            .map_err(|error| write_error(&places.partial, "remove", error))?;
    }
    journal.map_or(Ok(()), |journal| journal.remove())
}

fn begin(places: Places, existing: Existing, header: &Header) -> Result<Start<LocalPartial>> {
    places.check_partial_empty()?;
    std::fs::create_dir_all(&places.parent).map_err(|error| write_error(&places.parent, "create", error))?;
    let journal = Journal::create(&places.journal, header)?;
    let made = make_empty(&places).and_then(|()| LocalWriter::open_lasting(&places.partial));
    let writer = made.inspect_err(|_| {
        // nothing was made: the next run must not take what is there for ours
        let _ = journal.remove();
    })?;
    Ok(Start::Build(Box::new(LocalPartial {
        places,
        existing,
        writer,
        journal,
        header: header.clone(),
        done: vec![ChunkSet::default(); header.arrays.len()],
        resumed: false,
        keep: AtomicBool::new(false),
    })))
}

fn make_empty(places: &Places) -> Result<()> {
    match std::fs::create_dir(&places.partial) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => places.check_partial_empty(),
        Err(error) => Err(write_error(&places.partial, "create", error)),
    }
}

fn unfinished_error(places: &Places) -> Error {
    let message = format!("an earlier run to {} did not end", places.destination.display());
    Error::new(ErrorKind::Conflict, message)
        .with_hint("pass --resume to go on with it, or --restart to begin anew")
}
