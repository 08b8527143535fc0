//! Making a store appear at once: it is built in a `.partial` sibling, synced, and renamed.
//!
//! Until the rename nothing is at the destination; a run that dies leaves only the sibling, which the next run
//! to the same destination takes away: a marker tells it from what others named so. Two runs at once are told apart by a lock on the sibling, which the
//! kernel frees with the process.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, RenameFlags};

use crate::error::{Error, ErrorKind, Result};
use crate::hierarchy::Hierarchy;
use crate::location::StoreUrl;
use crate::metadata::{ArrayMetadata, Json, Object, ZarrFormat, group_documents};
use crate::plan::CopyPlan;
use crate::store::{LocalWriter, join, write_error};

/// The file in a `.partial` sibling by which the next run knows that it may take it away.
const MARKER: &str = ".zkit-partial";

/// What happens to a store that is already at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the run is refused.
    Keep,
    /// It is exchanged for the new one, and then removed.
    Replace,
}

/// Whether the copy gets consolidated metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consolidate {
    /// If the source has it.
    Auto,
    /// In any case.
    Always,
    /// In no case.
    Never,
}

/// A store that is being built; dropped without [`Self::commit`], it is removed.
#[derive(Debug)]
pub struct PartialStore {
    destination: PathBuf,
    existing: Existing,
    writer: Option<LocalWriter>,
}

impl PartialStore {
    /// Makes the `.partial` sibling of a destination, and locks it.
    ///
    /// Errors: `Conflict` if the destination exists or another run builds it; `Unwritable`.
    pub fn create(destination: &Path, existing: Existing) -> Result<Self> {
        check_free(destination, existing)?;
        let partial = partial_path(destination)?;
        if let Some(parent) = partial.parent() {
            std::fs::create_dir_all(parent).map_err(|error| write_error(parent, "create", error))?;
        }
        if let Err(error) = std::fs::create_dir(&partial) {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(write_error(&partial, "create", error));
            }
            // left by a run that died, unless somebody holds its lock
            let _lock = lock(LocalWriter::open(&partial)?, &partial)?;
            check_ours(&partial)?;
            std::fs::remove_dir_all(&partial)
                .and_then(|()| std::fs::create_dir(&partial))
                .map_err(|error| write_error(&partial, "replace", error))?;
        }
        let writer = lock(LocalWriter::open(&partial)?, &partial)?;
        writer.put(MARKER, b"zkit builds a store here; it is safe to remove when no zkit runs\n")?;
        Ok(Self { destination: destination.to_owned(), existing, writer: Some(writer) })
    }

    /// Returns where objects are put.
    pub fn writer(&self) -> Result<&LocalWriter> {
        self.writer.as_ref().ok_or_else(|| Error::new(ErrorKind::Conflict, "the store was published already"))
    }

    /// Syncs everything and puts the store at its destination, all at once.
    pub fn commit(mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let partial = writer.root().to_owned();
        let result = self.publish(&writer, &partial);
        if result.is_err() {
            self.writer = Some(writer);
        }
        result
    }

    fn publish(&self, writer: &LocalWriter, partial: &Path) -> Result<()> {
        rustix::fs::syncfs(writer.directory()).map_err(|error| write_error(partial, "sync", error.into()))?;
        check_free(&self.destination, self.existing)?;
        let flags = match self.existing {
            Existing::Replace if self.destination.exists() => RenameFlags::EXCHANGE,
            _ => RenameFlags::NOREPLACE,
        };
        std::fs::remove_file(partial.join(MARKER)).map_err(|error| write_error(partial, "publish", error))?;
        let current = rustix::fs::CWD;
        match rustix::fs::renameat_with(current, partial, current, &self.destination, flags) {
            Ok(()) => {}
            // file systems without these flags: the check above is then all there is
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if flags == RenameFlags::NOREPLACE => {
                std::fs::rename(partial, &self.destination)
                    .map_err(|error| write_error(&self.destination, "publish", error))?;
            }
            Err(rustix::io::Errno::EXIST) => return Err(occupied(&self.destination)),
            Err(error) => return Err(write_error(&self.destination, "publish", error.into())),
        }
        if flags == RenameFlags::EXCHANGE {
            // what was there before lies in the sibling now
            std::fs::remove_dir_all(partial)
                .map_err(|error| write_error(partial, "remove the replaced store at", error))?;
        }
        let parent = self
            .destination
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        File::open(parent)
            .and_then(|parent| parent.sync_all())
            .map_err(|error| write_error(parent, "sync", error))
    }
}

impl Drop for PartialStore {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            // an error here leaves the sibling for the next run to take away
            let _ = std::fs::remove_dir_all(writer.root());
        }
    }
}

fn lock(writer: LocalWriter, partial: &Path) -> Result<LocalWriter> {
    match rustix::fs::flock(writer.directory(), FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(writer),
        // network file systems without locks: the exclusive mkdir has to do
        Err(rustix::io::Errno::NOLCK | rustix::io::Errno::NOTSUP) => Ok(writer),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let message = format!("another run is writing {} at this moment", partial.display());
            Err(Error::new(ErrorKind::Conflict, message)
                .with_hint("wait for it, or name another destination"))
        }
        Err(error) => Err(write_error(partial, "lock", error.into())),
    }
}

fn occupied(destination: &Path) -> Error {
    let message = format!("the destination {} already exists", destination.display());
    Error::new(ErrorKind::Conflict, message)
        .with_hint("pass --overwrite to replace it, or name another destination")
}

fn check_free(destination: &Path, existing: Existing) -> Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(destination) else { return Ok(()) };
    match existing {
        Existing::Keep => Err(occupied(destination)),
        Existing::Replace if metadata.is_dir() => check_store(destination),
        Existing::Replace => {
            let message = format!("the destination {} is not a directory", destination.display());
            Err(Error::new(ErrorKind::Conflict, message)
                .with_hint("remove it yourself, or name another destination"))
        }
    }
}

/// Checks that a directory that is to be replaced is a store, or empty: a slip must not cost a home directory.
fn check_store(destination: &Path) -> Result<()> {
    const METADATA: [&str; 5] = ["zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"];
    if METADATA.iter().any(|name| destination.join(name).exists()) || is_empty(destination)? {
        return Ok(());
    }
    let message = format!("the destination {} is a directory, but no Zarr store", destination.display());
    Err(Error::new(ErrorKind::Conflict, message).with_hint("remove it yourself, or name another destination"))
}

/// Checks that a `.partial` sibling was left by a run of zkit.
fn check_ours(partial: &Path) -> Result<()> {
    if partial.join(MARKER).exists() || is_empty(partial)? {
        return Ok(());
    }
    let message = format!("{} is in the way, and was not left by zkit", partial.display());
    Err(Error::new(ErrorKind::Conflict, message).with_hint("remove it yourself, or name another destination"))
}

fn is_empty(directory: &Path) -> Result<bool> {
    let entries = std::fs::read_dir(directory).map_err(|error| write_error(directory, "look into", error))?;
    Ok(entries.take(1).count() == 0)
}

fn partial_path(destination: &Path) -> Result<PathBuf> {
    let name = destination.file_name().ok_or_else(|| {
        Error::new(
            ErrorKind::Usage,
            format!("the destination {} has no name of its own", destination.display()),
        )
    })?;
    let mut name = name.to_owned();
    name.push(".partial");
    Ok(destination.with_file_name(name))
}

/// Checks that a destination is neither its source nor inside or around it, links resolved.
pub fn check_apart(source: &StoreUrl, destination: &Path) -> Result<()> {
    let Some(source) = source.local_path().and_then(|path| path.canonicalize().ok()) else { return Ok(()) };
    // the destination need not exist yet: resolve what does
    let absolute = std::path::absolute(destination).unwrap_or_else(|_| destination.to_owned());
    let existing = absolute.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    let resolved = match existing {
        Some((ancestor, resolved)) => resolved.join(absolute.strip_prefix(ancestor).unwrap_or(Path::new(""))),
        None => absolute,
    };
    let relation = match (resolved.starts_with(&source), source.starts_with(&resolved)) {
        (true, true) => "is the source itself",
        (true, false) => "lies inside the source",
        (false, true) => "contains the source",
        (false, false) => return Ok(()),
    };
    let message = format!("the destination {} {relation}", destination.display());
    Err(Error::new(ErrorKind::Usage, message).with_hint("name a destination beside the source"))
}

/// Returns the bytes that are free for ordinary users where `path` is or will be.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let existing = path
        .ancestors()
        .map(|ancestor| if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor });
    let stat = existing
        .filter(|ancestor| ancestor.exists())
        .find_map(|ancestor| rustix::fs::statvfs(ancestor).ok())?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns the metadata documents of a planned copy with their keys, in the order in which they are to be
/// written: arrays, then groups from the deepest up, then the root's, which make the store look complete.
pub fn metadata_documents(
    plan: &CopyPlan,
    store: usize,
    source: &Hierarchy,
    consolidate: Consolidate,
) -> Vec<(String, Json)> {
    let of_store = &plan.stores[store];
    let arrays = || plan.arrays.iter().filter(move |array| array.store == store);
    let consolidated = match consolidate {
        Consolidate::Auto => source.consolidated != crate::hierarchy::Consolidated::None,
        Consolidate::Always => true,
        Consolidate::Never => false,
    };
    let mut nodes: Vec<(String, Vec<(&'static str, Json)>)> = arrays()
        .map(|array| (array.target.prefix().to_owned(), ArrayMetadata::documents(&array.target.metadata)))
        .collect();
    let mut groups: Vec<(String, Vec<(&'static str, Json)>)> = of_store
        .groups
        .iter()
        .map(|group| {
            (
                group.path.trim_start_matches('/').to_owned(),
                group_documents(group.format, Some(&group.document), &group.attributes),
            )
        })
        .collect();
    groups.sort_by_key(|(prefix, _)| {
        std::cmp::Reverse(if prefix.is_empty() { 0 } else { prefix.matches('/').count() + 1 })
    });
    nodes.extend(groups);
    let has_root = nodes.last().is_some_and(|(prefix, _)| prefix.is_empty());
    if !has_root && (consolidated || arrays().all(|array| !array.target.prefix().is_empty())) {
        nodes.push((String::new(), group_documents(of_store.format, None, &Object::default())));
    }
    if consolidated {
        add_consolidated(&mut nodes, of_store.format);
    }
    let keyed = nodes.into_iter().flat_map(|(prefix, documents)| {
        documents.into_iter().map(move |(name, document)| (join(&prefix, name), document))
    });
    keyed.collect()
}

/// Adds `.zmetadata`, or v3's inline form to the root's `zarr.json`; for a single array there is nothing to add.
fn add_consolidated(nodes: &mut [(String, Vec<(&'static str, Json)>)], format: ZarrFormat) {
    let Some((root, below)) = nodes.split_last_mut() else { return };
    if !root.0.is_empty() {
        return;
    }
    match format {
        ZarrFormat::V2 => {
            let all = std::iter::once(&*root).chain(below.iter());
            let mut entries: Vec<(String, Json)> = all
                .flat_map(|(prefix, documents)| {
                    documents.iter().map(move |(name, document)| (join(prefix, name), document.clone()))
                })
                .collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let document = Object::from_iter([
                ("metadata", Json::Object(entries.into_iter().collect())),
                ("zarr_consolidated_format", Json::number(1)),
            ]);
            root.1.push((".zmetadata", document.into()));
        }
        ZarrFormat::V3 => {
            let mut entries: Vec<(&str, Json)> = below
                .iter()
                .flat_map(|(prefix, documents)| {
                    documents.iter().map(move |(_, document)| (prefix.as_str(), document.clone()))
                })
                .collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            let inline = Object::from_iter([
                ("kind", Json::string("inline")),
                ("must_understand", Json::Bool(false)),
                ("metadata", Json::Object(entries.into_iter().collect())),
            ]);
            if let Some((_, Json::Object(document))) = root.1.first_mut() {
                document.set("consolidated_metadata", inline.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_published_before_the_commit_or_after_a_drop() {
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("a.zarr");
        let store = PartialStore::create(&destination, Existing::Keep).unwrap();
        store.writer().unwrap().put("zarr.json", b"{}").unwrap();
        assert!(!destination.exists());
        drop(store);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let store = PartialStore::create(&destination, Existing::Keep).unwrap();
        store.writer().unwrap().put("zarr.json", b"{}").unwrap();
        store.commit().unwrap();
        assert!(destination.join("zarr.json").exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_second_run_is_refused_and_a_dead_one_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("a.zarr");
        let first = PartialStore::create(&destination, Existing::Keep).unwrap();
        assert_eq!(
            PartialStore::create(&destination, Existing::Keep).unwrap_err().kind(),
            ErrorKind::Conflict
        );
        drop(first);
        let partial = folder.path().join("a.zarr.partial");
        std::fs::create_dir(&partial).unwrap();
        std::fs::write(partial.join("old"), b"x").unwrap();
        let refused = PartialStore::create(&destination, Existing::Keep).unwrap_err();
        assert!(partial.join("old").exists(), "{refused}");
        std::fs::write(partial.join(MARKER), b"").unwrap();
        let second = PartialStore::create(&destination, Existing::Keep).unwrap();
        assert!(!second.writer().unwrap().root().join("old").exists());
    }

    #[test]
    fn an_existing_destination_is_kept_or_exchanged() {
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("a.zarr");
        std::fs::create_dir(&destination).unwrap();
        std::fs::write(destination.join("old"), b"x").unwrap();
        let error = PartialStore::create(&destination, Existing::Replace).unwrap_err();
        assert!(error.to_string().contains("no Zarr store"), "{error}");
        std::fs::write(destination.join(".zgroup"), b"{}").unwrap();
        assert_eq!(
            PartialStore::create(&destination, Existing::Keep).unwrap_err().kind(),
            ErrorKind::Conflict
        );
        let store = PartialStore::create(&destination, Existing::Replace).unwrap();
        store.writer().unwrap().put("new", b"y").unwrap();
        assert!(destination.join("old").exists());
        store.commit().unwrap();
        assert!(destination.join("new").exists() && !destination.join("old").exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn source_and_destination_must_lie_apart() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.zarr");
        std::fs::create_dir(&source).unwrap();
        std::os::unix::fs::symlink(&source, folder.path().join("link")).unwrap();
        let url = StoreUrl::Local(source.clone());
        for bad in [
            source.clone(),
            source.join("b/c.zarr"),
            folder.path().to_owned(),
            folder.path().join("link"),
            folder.path().join("link/x"),
            source.join("../a.zarr"),
        ] {
            assert_eq!(check_apart(&url, &bad).unwrap_err().kind(), ErrorKind::Usage, "{}", bad.display());
        }
        check_apart(&url, &folder.path().join("a.zarr2")).unwrap();
    }
}
