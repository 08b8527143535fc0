//! What runs left beside destinations on this machine.

use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::super::leftover::{Holder, JOURNAL_SUFFIX, Leftover, ROOT_DOCUMENTS, foreign};
use super::super::start::Unfinished;
use super::places::{Places, metadata};
use super::start::{Found, clear, look};
use crate::cancel::Cancel;
use crate::engine::Journal;
use crate::error::{Error, ErrorKind, Result};
use crate::location::StoreUrl;

/// Returns what lies beside a destination, if anything of ours does.
pub(in super::super) fn survey(destination: &Path) -> Result<Option<Leftover>> {
    let Ok(places) = Places::of(destination) else { return Ok(None) };
    let Some(journal) = metadata(&places.journal)?.filter(Metadata::is_file) else { return Ok(None) };
    let Some(is_held) = Journal::is_held(&places.journal)? else { return Ok(None) };
    let holder = if is_held { Holder::Running } else { Holder::Nobody };
    let mut found = Leftover::of(StoreUrl::Local(places.destination.clone()), holder);
    found.published = ROOT_DOCUMENTS.iter().any(|name| places.destination.join(name).exists());
    found.add(journal.len(), Some(journal.mtime()));
    if metadata(&places.partial)?.is_some_and(|partial| partial.is_dir()) {
        add_files(&mut found, &places.partial)?;
    }
    Ok(Some(found))
}

fn add_files(found: &mut Leftover, folder: &Path) -> Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for (path, is_folder) in entries(&folder)? {
            match metadata(&path)? {
                _ if is_folder => folders.push(path),
                Some(file) => found.add(file.len(), Some(file.mtime())),
                None => {}
            }
        }
    }
    Ok(())
}

/// Returns the paths in a folder with whether each is a folder itself, links not followed; none if it is gone meanwhile.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, bool)>> {
    let unreadable = |error: std::io::Error| {
        Error::new(ErrorKind::Unreadable, format!("could not look into {}", folder.display()))
            .with_source(error)
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let each = entries.map(|entry| {
        let entry = entry?;
        Ok((entry.path(), entry.file_type()?.is_dir()))
    });
    each.collect::<std::io::Result<_>>().map_err(unreadable)
}

/// Returns the destinations of all journals below a folder; stores are not looked into.
pub(in super::super) fn destinations_below(
    folder: &Path,
    depth_most: usize,
    cancel: &Cancel,
) -> Result<Vec<StoreUrl>> {
    let (mut found, mut folders) = (Vec::new(), vec![(folder.to_owned(), 0)]);
    while let Some((folder, depth)) = folders.pop() {
        cancel.check()?;
        if ROOT_DOCUMENTS.iter().any(|name| folder.join(name).exists()) {
            continue;
        }
        for (path, is_folder) in entries(&folder)? {
            let name = path.file_name().unwrap_or_default().as_bytes();
            if let Some(store) = name.strip_suffix(JOURNAL_SUFFIX.as_bytes()).filter(|_| !is_folder) {
                if !store.is_empty() {
                    found.push(StoreUrl::Local(path.with_file_name(std::ffi::OsStr::from_bytes(store))));
                }
            } else if is_folder && depth < depth_most && !name.ends_with(b".partial") {
                folders.push((path, depth + 1));
            }
        }
    }
    found.sort_unstable_by_key(ToString::to_string);
    Ok(found)
}

/// Clears what lies beside a destination; a publication that was cut short is ended first.
pub(in super::super) fn clear_leftover(destination: &Path, unfinished: Unfinished) -> Result<()> {
    let places = Places::of(destination)?;
    let Some(mut journal) = Journal::find(&places.journal)? else { return Ok(()) };
    if !journal.is_ours()? {
        return Err(foreign(&places.journal.display().to_string()));
    }
    match look(&places, &mut journal, unfinished)? {
        Found::Published(_) => Ok(()),
        Found::Nothing => clear(&places, Some(journal), false),
        Found::Unfinished(_) | Found::Damaged => clear(&places, Some(journal), true),
    }
}
