//! The paths of an entry, and what lies in a cache.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use zkit_core::error::{Error, ErrorKind};
use zkit_core::store::ChunkCache;

use super::manifest::Header;

/// What lies beside a store of a cache, by the ends of their names.
const MANIFEST: &str = ".manifest";
const NEW_MANIFEST: &str = ".manifest.new";
const LOCK: &str = ".lock";
const PARTIAL: &str = ".partial";
const REMOVED: &str = ".removed";

/// The paths of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The store.
    pub store: PathBuf,
    /// What is known of it; a file.
    pub manifest: PathBuf,
    /// The manifest that is being written.
    pub new_manifest: PathBuf,
    /// The file that is locked by whoever uses the entry.
    pub lock: PathBuf,
    /// The store on its way out.
    pub removed: PathBuf,
}

impl Places {
    /// Returns the paths of an entry by the name of its store.
    pub fn of(cache: &Path, name: &str) -> Self {
        let beside = |suffix: &str| cache.join(format!("{name}{suffix}"));
        Self {
            store: cache.join(name),
            manifest: beside(MANIFEST),
            new_manifest: beside(NEW_MANIFEST),
            lock: beside(LOCK),
            removed: beside(REMOVED),
        }
    }

    /// Returns the name of the store.
    pub fn name(&self) -> String {
        self.store.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns what a run that died left of a store: `.partial` and what lies beside that.
    pub fn unfinished(&self) -> Vec<PathBuf> {
        // the journal is last, as it says that the rest is ours
        ["", ".scratch", ".replaced", ".journal"]
            .iter()
            .map(|suffix| self.store.with_file_name(format!("{}{PARTIAL}{suffix}", self.name())))
            .filter(|path| path.symlink_metadata().is_ok())
            .collect()
    }

    /// Returns when the entry was last used: the time of its lock.
    pub fn last_used(&self) -> Option<SystemTime> {
        self.lock.symlink_metadata().ok()?.modified().ok()
    }
}

/// What an entry is, as far as names and the head of its manifest tell.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// A store with its manifest.
    Complete(Box<Header>),
    /// A store that a run builds, or died over; nothing is served from it.
    Unfinished,
    /// No store, or no manifest that can be read: why.
    Damaged(String),
}

/// What was found in a cache.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Its entries, sorted by name.
    pub entries: Vec<(Places, State)>,
    /// What is none of its entries, and is left alone.
    pub foreign: Vec<PathBuf>,
}

/// Returns what lies in a cache; only the heads of manifests are read.
///
/// Errors: `Absent` if the directory does not exist, `Unreadable`; `Usage` for a chunk cache, which has no entries of this kind.
pub fn entries(cache: &Path) -> Result<Found, Error> {
    if ChunkCache::is_at(cache) {
        let message = format!(
            "could not look into {}: it holds chunks that --chunk-cache keeps, not slices that --cache keeps",
            cache.display()
        );
        return Err(Error::new(ErrorKind::Usage, message).with_hint(
            "each entry is checked when it is read, and --chunk-cache-size bounds them all: remove the folder to be rid of them",
        ));
    }
    let failed = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::Absent,
            _ => ErrorKind::Unreadable,
        };
        Error::new(kind, format!("could not look into the cache {}", cache.display())).with_source(error)
    };
    let mut names: BTreeMap<OsString, Option<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(cache).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let of_entry = name.to_str().and_then(entry_of).map(str::to_owned);
        names.insert(name, of_entry);
    }
    let mut found = Found::default();
    let entry_names: std::collections::BTreeSet<&String> = names.values().flatten().collect();
    for name in entry_names {
        let places = Places::of(cache, name);
        match state_of(&places) {
            Some(state) => found.entries.push((places, state)),
            None if places.store.symlink_metadata().is_ok() => found.foreign.push(places.store),
            // a lock alone: what it was the lock of is gone
            None => {}
        }
    }
    let foreign = names.into_iter().filter(|(_, entry)| entry.is_none());
    found.foreign.extend(foreign.map(|(name, _)| cache.join(name)));
    found.foreign.sort();
    Ok(found)
}

/// Returns what an entry is, `None` if it is none: a directory without manifest.
fn state_of(places: &Places) -> Option<State> {
    let there = |path: &Path| path.symlink_metadata().is_ok();
    if there(&places.manifest) {
        return Some(match Header::read(places) {
            Ok(_) if !places.store.symlink_metadata().is_ok_and(|found| found.is_dir()) => {
                State::Damaged("there is a manifest, and no store".to_owned())
            }
            Ok(header) => State::Complete(Box::new(header)),
            Err(error) => State::Damaged(error.one_line()),
        });
    }
    let left = !places.unfinished().is_empty() || there(&places.removed) || there(&places.new_manifest);
    (left && !there(&places.store)).then_some(State::Unfinished)
}

/// Returns the name of the entry that a name in a cache belongs to.
fn entry_of(name: &str) -> Option<&str> {
    let (entry, rest) = name.split_at(name.find(".zarr")? + ".zarr".len());
    let hash = entry.strip_suffix(".zarr")?.rsplit_once('-')?.1;
    let is_hash = hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_part = rest.is_empty()
        || [MANIFEST, NEW_MANIFEST, LOCK, REMOVED].contains(&rest)
        || rest
            .strip_prefix(PARTIAL)
            .is_some_and(|rest| ["", ".journal", ".replaced", ".scratch"].contains(&rest));
    (is_hash && is_part).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_belongs_to_which_entry() {
        let entry = "era5_a=1-0123456789abcdef.zarr";
        for rest in ["", ".manifest", ".manifest.new", ".lock", ".partial", ".partial.journal", ".removed"] {
            assert_eq!(entry_of(&format!("{entry}{rest}")), Some(entry), "{rest}");
        }
        for foreign in
            ["era5.zarr", "notes.txt", "era5-0123456789abcdeg.zarr", "a-0123456789abcdef.zarr.bak", ".zarr"]
        {
            assert_eq!(entry_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn what_has_no_manifest_is_no_entry() {
        let folder = tempfile::tempdir().unwrap();
        let entry = "era5-0123456789abcdef.zarr";
        std::fs::create_dir(folder.path().join(entry)).unwrap();
        std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        let found = entries(folder.path()).unwrap();
        assert!(found.entries.is_empty());
        assert_eq!(found.foreign, [folder.path().join(entry), folder.path().join("notes.txt")]);
        std::fs::write(folder.path().join(format!("{entry}.manifest")), "no manifest").unwrap();
        let found = entries(folder.path()).unwrap();
        assert!(matches!(found.entries.as_slice(), [(_, State::Damaged(_))]), "{found:?}");
        assert_eq!(entries(&folder.path().join("absent")).unwrap_err().kind(), ErrorKind::Absent);
    }
}
