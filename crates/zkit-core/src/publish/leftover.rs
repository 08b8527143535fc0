//! What runs left beside their destinations: found, told apart from what still runs, and cleared.
//!
//! Whether a run lives is found out as by the next run to the same destination; what is cleared, and in which order, is what
//! that run would clear with `--restart`. A published store is never part of it.

use std::collections::BTreeSet;

use super::local;
use super::partial::Destination;
use super::remote;
use super::start::Unfinished;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::location::StoreUrl;
use crate::store::{ChildKind, RemoteStore};

/// How the name of a journal ends, beside the store `NAME`.
pub(super) const JOURNAL_SUFFIX: &str = ".partial.journal";
/// Documents by one of which readers open a store.
pub(super) const ROOT_DOCUMENTS: [&str; 4] = ["zarr.json", ".zgroup", ".zarray", ".zmetadata"];
/// Folders are looked into so deep.
const DEPTH_MOST: usize = 16;

/// Who holds the lock of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A run that lives.
    Running,
    /// Nobody: the run gave it back, or has ended.
    Nobody,
    /// A run on another machine, of which only watching its lock can tell whether it lives.
    Elsewhere,
}

/// What a run that is not done, or died, has beside its destination.
#[derive(Debug, Clone)]
pub struct Leftover {
    /// The destination.
    pub url: StoreUrl,
    /// Who holds it.
    pub holder: Holder,
    /// Whether a whole store is at the destination: that is no part of it.
    pub published: bool,
    /// Objects or files of the unfinished store and its journal.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects in parts that were begun and not ended.
    pub uploads: u64,
    /// When any of it was last changed, in seconds since 1970.
    pub changed: Option<i64>,
}

impl Leftover {
    pub(super) fn of(url: StoreUrl, holder: Holder) -> Self {
        Self { url, holder, published: false, objects: 0, bytes: 0, uploads: 0, changed: None }
    }

    pub(super) fn add(&mut self, bytes: u64, changed: Option<i64>) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.changed = self.changed.max(changed);
    }
}

/// Returns what runs left beside a destination itself, and beside those below it as a folder; stores are not looked into.
///
/// Cost: a listing a folder, and one of the objects of each leftover. Nothing is changed. Errors: `Absent` if on this machine
/// neither the destination nor anything beside it is there; `Unreadable`; `Unsupported` for web servers; `Cancelled`.
pub fn find_leftovers(destination: &Destination<'_>, cancel: &Cancel) -> Result<Vec<Leftover>> {
    let mut found: Vec<Leftover> = survey(destination)?.into_iter().collect();
    let below = match destination.url {
        StoreUrl::Local(path) => local::destinations_below(path, DEPTH_MOST, cancel)?,
        StoreUrl::Remote { .. } => remote_destinations(destination, cancel)?,
    };
    for url in below {
        cancel.check()?;
        found.extend(survey(&Destination { url: &url, ..*destination })?);
    }
    if let StoreUrl::Local(path) = destination.url
        && found.is_empty()
        && !path.exists()
    {
        let message = format!("there is nothing at {}, and nothing unfinished beside it", path.display());
        let hint = "name a copy that was begun, or a folder of such copies";
        return Err(Error::new(ErrorKind::Absent, message).with_hint(hint));
    }
    Ok(found)
}

fn survey(destination: &Destination<'_>) -> Result<Option<Leftover>> {
    match destination.url {
        StoreUrl::Local(path) => local::survey(path),
        StoreUrl::Remote { .. } => remote::survey(destination),
    }
}

/// Clears what a run that died left beside a destination, as a run with [`Unfinished::Discard`] would.
///
/// Errors: `Conflict` if a run holds it, or somebody else put something there; `Unwritable`; `Cancelled`.
pub fn clear_leftover(destination: &Destination<'_>) -> Result<()> {
    match destination.url {
        StoreUrl::Local(path) => local::clear_leftover(path, Unfinished::Discard),
        StoreUrl::Remote { .. } => remote::clear_leftover(destination),
    }
}

/// Returns the destinations of all journals below a remote place.
fn remote_destinations(destination: &Destination<'_>, cancel: &Cancel) -> Result<Vec<StoreUrl>> {
    let store = destination.open_remote()?;
    let mut found = Vec::new();
    let mut folders = vec![(String::new(), destination.url.clone(), 0)];
    while let Some((prefix, url, depth)) = folders.pop() {
        cancel.check()?;
        let (stores, inner) = look_into(&store, &prefix)?;
        found.extend(stores.iter().map(|name| url.join(name)));
        if depth < DEPTH_MOST {
            let below = |name: String| {
                let prefix = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
                (prefix, url.join(&name), depth + 1)
            };
            folders.extend(inner.into_iter().map(below));
        }
    }
    Ok(found)
}

/// Returns the names of stores in a folder beside which a journal lies, and those of folders to look into.
fn look_into(store: &RemoteStore, prefix: &str) -> Result<(BTreeSet<String>, Vec<String>)> {
    let children = store.children(prefix)?;
    let is_store = |name: &str| ROOT_DOCUMENTS.contains(&name);
    if children.iter().any(|child| matches!(child.kind, ChildKind::Object(_)) && is_store(&child.name)) {
        return Ok(Default::default());
    }
    let folders = children.into_iter().filter(|child| child.kind == ChildKind::Directory);
    let (journals, folders): (Vec<_>, Vec<_>) =
        folders.map(|folder| folder.name).partition(|name| name.ends_with(JOURNAL_SUFFIX));
    let stores = journals.iter().filter_map(|name| name.strip_suffix(JOURNAL_SUFFIX));
    let stores: BTreeSet<String> = stores.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let inner = folders.into_iter().filter(|name| !stores.contains(name)).collect();
    Ok((stores, inner))
}

/// Returns the error of something that lies where a journal would, and is none.
pub(super) fn foreign(place: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("{place} was not left by zkit, and stays"))
        .with_hint("remove it yourself, if nobody needs it")
}
