//! What lies in a store and belongs to no array.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use super::heads::{error_body, pointer};
use super::listing::{Builder, Keys};
use super::names::{Named, chunk_like, named};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::event::Observer;
use crate::store::{ObjectInfo, ObjectKind, Store};

/// Small files whose content is looked at, at most.
const SUSPECTS_MOST: usize = 10_000;
/// Files larger than this are no pointers.
const SUSPECT_BYTES_MOST: u64 = 1 << 10;

/// What lies in a store and belongs to no array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreFiles {
    /// How many objects there are outside of arrays.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that no reader of Zarr uses.
    pub foreign: Keys,
    /// What unfinished writes leave.
    pub temporary: Keys,
    /// When the latest of these was changed, in seconds since 1970.
    pub temporary_changed: Option<i64>,
    /// DVC's sidecars: what they name is kept elsewhere.
    pub sidecars: Keys,
    /// Objects with keys of chunks in folders that are no arrays.
    pub ownerless: Keys,
    /// The folders of these, by their key: how many there are in each.
    pub ownerless_folders: BTreeMap<String, u64>,
    /// Links to nothing.
    pub dangling: Keys,
    /// Links out of the store.
    pub outside: Keys,
    /// FIFOs, sockets, devices.
    pub special: Keys,
    /// Metadata documents whose permissions let nobody read them.
    pub locked: Keys,
    /// Pointers of git-lfs, git-annex or DVC; `None` where contents were not looked at.
    pub pointers: Option<Keys>,
    /// Bodies of servers' errors; `None` where contents were not looked at.
    pub error_bodies: Option<Keys>,
    /// Why not everything could be listed.
    pub unlisted: Option<String>,
}

/// Folders of chunks without an array that are told apart, at most.
const FOLDERS_MOST: usize = 1_000;

/// Lists what belongs to no array. Where the store lists everything at once, the objects of arrays go to their
/// `builders`, by prefix.
pub(super) fn list(
    store: &Store,
    prefixes: &HashSet<&str>,
    mut builders: Option<&mut BTreeMap<&str, Builder<'_>>>,
    (observer, cancel): (&dyn Observer, &Cancel),
) -> Result<(StoreFiles, Vec<String>)> {
    let (mut files, mut suspects) = (StoreFiles::default(), Vec::new());
    let known: Vec<&str> = prefixes.iter().copied().collect();
    let listed = store.list_entering(&known, &|key| !prefixes.contains(key), &mut |object| {
        observer.meter().objects_listed.add(1);
        match array_of(object.key, prefixes) {
            Some(prefix) => {
                if let Some(builder) = builders.as_mut().and_then(|builders| builders.get_mut(prefix)) {
                    let key = object.key[prefix.len()..].trim_start_matches('/');
                    builder.object(ObjectInfo { key, ..object });
                }
            }
            None => files.object(object, &mut suspects),
        }
        if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    cancel.check()?;
    listed?;
    Ok((files, suspects))
}

/// Returns the prefix of the array that a key belongs to.
fn array_of<'a>(key: &str, prefixes: &HashSet<&'a str>) -> Option<&'a str> {
    if let Some(root) = prefixes.get("") {
        return Some(root);
    }
    let ends = key.match_indices('/').map(|(at, _)| at);
    ends.into_iter().find_map(|end| prefixes.get(&key[..end])).copied()
}

impl StoreFiles {
    fn object(&mut self, object: ObjectInfo<'_>, suspects: &mut Vec<String>) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(object.size);
        match object.kind {
            ObjectKind::Regular => {}
            ObjectKind::DanglingLink => return self.dangling.add(object.key),
            ObjectKind::OutsideLink => return self.outside.add(object.key),
            ObjectKind::Special => return self.special.add(object.key),
        }
        let metadata = match named(object.key) {
            Named::Metadata => {
                if object.locked {
                    self.locked.add(object.key);
                }
                true
            }
            Named::Temporary => {
                self.temporary.add(object.key);
                self.temporary_changed = self.temporary_changed.max(object.changed);
                false
            }
            Named::Sidecar => {
                self.sidecars.add(object.key);
                false
            }
            Named::Foreign => {
                self.foreign_or_ownerless(object.key);
                false
            }
        };
        if !metadata && object.size <= SUSPECT_BYTES_MOST && suspects.len() < SUSPECTS_MOST {
            suspects.push(object.key.to_owned());
        }
    }

    fn foreign_or_ownerless(&mut self, key: &str) {
        // the folder of an array ends where the numbers begin
        let parts: Vec<&str> = key.split('/').collect();
        let start = (0..parts.len()).find(|&at| chunk_like(&parts[at..].join("/")));
        let Some(start) = start.filter(|&start| start > 0) else { return self.foreign.add(key) };
        self.ownerless.add(key);
        let folder = parts[..start].join("/");
        if self.ownerless_folders.len() < FOLDERS_MOST || self.ownerless_folders.contains_key(&folder) {
            *self.ownerless_folders.entry(folder).or_default() += 1;
        }
    }

    /// Looks at small files: whether they are pointers or error bodies.
    pub(super) fn look_into(&mut self, store: &Store, suspects: &[String], cancel: &Cancel) -> Result<()> {
        let (mut pointers, mut error_bodies) = (Keys::default(), Keys::default());
        for (key, fetched) in suspects.iter().zip(store.get_many(suspects, SUSPECT_BYTES_MOST)) {
            cancel.check()?;
            // a file that grew or went away since the listing is no pointer
            let Ok(Some(bytes)) = fetched else { continue };
            if pointer(&bytes, bytes.len() as u64).is_some() {
                pointers.add(key);
            } else if error_body(&bytes, bytes.len() as u64).is_some() && !key.ends_with("ml") {
                error_bodies.add(key);
            }
        }
        (self.pointers, self.error_bodies) = (Some(pointers), Some(error_bodies));
        Ok(())
    }
}
