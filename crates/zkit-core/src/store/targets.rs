//! Where references may lead: below the folder that they lie in, and below prefixes that the user named.
//!
//! References come from elsewhere as any data does. They must not make this machine read its own files or ask its
//! neighbours, so a target is opened relative to a prefix that covers it, and never by its own text alone.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

use super::any::StoreOptions;
use super::hosts::{Hosts, RemotePlace};
use super::local::LocalStore;
use super::reach::{Reach, reach};
use super::remote::RemoteStore;
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::location::{Scheme, StoreUrl, redact};

/// Hosts and buckets that are kept open.
const REMOTES_MOST: usize = 256;

/// The files that references may lead to.
#[derive(Debug)]
pub(super) struct Targets {
    /// The folder that the references lie in: relative targets begin there.
    folder: StoreUrl,
    allowed: Vec<Allowed>,
    options: StoreOptions,
    remotes: Mutex<Remotes>,
}

/// A prefix below which everything may be read.
#[derive(Debug)]
enum Allowed {
    Local {
        /// Absolute, without `.` and `..`.
        path: PathBuf,
        /// The same, or the folder that the file `path` lies in.
        folder: PathBuf,
        store: LocalStore,
    },
    Remote(RemotePlace),
}

#[derive(Debug, Default)]
struct Remotes {
    /// Its threads and counters are those of all others.
    first: Option<RemoteStore>,
    /// By URL, without the path.
    by_host: HashMap<String, RemoteStore>,
}

/// A target that may be read.
#[derive(Debug)]
pub(super) enum Place<'a> {
    Local(&'a LocalStore, String),
    Remote(RemoteStore, String),
}

impl Targets {
    /// Takes in the prefixes of `options`; nothing remote is contacted.
    ///
    /// Errors: `Absent` or `Unreadable` for a local prefix that cannot be opened, `Usage` for one that names no place.
    pub(super) fn new(folder: StoreUrl, options: &StoreOptions) -> Result<Self> {
        let mut allowed = vec![Allowed::new(&folder, options)?];
        for prefix in &options.allow_prefixes {
            let opened = Allowed::new(prefix, options);
            allowed
                .push(opened.context(|| format!("could not allow what lies below --allow-prefix {prefix}"))?);
        }
        let remote = allowed.iter().filter_map(|allowed| match allowed {
            Allowed::Remote(place) => Some(place.clone()),
            Allowed::Local { .. } => None,
        });
        let options = StoreOptions { hosts: Hosts::Allowed(remote.collect()), ..options.clone() };
        Ok(Self { folder, allowed, options, remotes: Mutex::default() })
    }

    /// Returns whether targets may lie behind a network.
    pub(super) fn may_be_remote(&self) -> bool {
        self.allowed.iter().any(|allowed| matches!(allowed, Allowed::Remote(_)))
    }

    /// Returns the folder that the references lie in, if all that was read lies there and not behind a network.
    pub(super) fn only_folder(&self) -> Option<&LocalStore> {
        let (first, others) = self.allowed.split_first()?;
        let unread = |allowed: &Allowed| match allowed {
            Allowed::Local { store, .. } => store.seen().is_some_and(|seen| seen.all().is_empty()),
            Allowed::Remote(_) => false,
        };
        match first {
            Allowed::Local { store, .. } if others.iter().all(unread) => Some(store),
            _ => None,
        }
    }

    /// Returns how many reads may wait for a network at once; 0 where none does.
    pub(super) fn reads_in_flight(&self) -> usize {
        if self.may_be_remote() { self.options.network.connections() } else { 0 }
    }

    /// Returns where a target lies, if it may be read.
    ///
    /// Errors: `Unreadable` where no prefix covers it, `Unsupported` for a protocol that zkit does not speak.
    pub(super) fn place(&self, target: &str) -> Result<Place<'_>> {
        match self.absolute(target)? {
            StoreUrl::Local(path) => self.local(target, &path),
            url @ StoreUrl::Remote { .. } => self.remote(target, &url),
        }
    }

    /// Returns the whole address of a target.
    fn absolute(&self, target: &str) -> Result<StoreUrl> {
        if target.contains('\0') {
            return Err(refused(target, "its name holds a NUL byte"));
        }
        let local = target.strip_prefix("file://").or_else(|| target.strip_prefix("local://"));
        let Some(path) = local.or((!target.contains("://")).then_some(target)) else {
            return target.parse().map_err(|error: Error| {
                Error::new(ErrorKind::Unsupported, refusal(target)).with_source(error)
            });
        };
        match &self.folder {
            StoreUrl::Local(folder) => Ok(StoreUrl::Local(folder.join(path))),
            StoreUrl::Remote { .. } if path.starts_with('/') => Ok(StoreUrl::Local(path.into())),
            folder @ StoreUrl::Remote { .. } => Ok(folder.join(path)),
        }
    }

    fn local(&self, target: &str, path: &Path) -> Result<Place<'_>> {
        let path = without_dots(path);
        let is_system =
            |path: &Path| path.to_str().is_none_or(|text| reach(&format!("{text}/")) == Reach::System);
        for allowed in &self.allowed {
            let Allowed::Local { path: prefix, folder, store } = allowed else { continue };
            // a prefix such as `/` does not mean the files of the system
            if !path.starts_with(prefix) || (is_system(&path) && !is_system(prefix)) {
                continue;
            }
            if let Some(key) = path.strip_prefix(folder).ok().and_then(Path::to_str) {
                return Ok(Place::Local(store, key.to_owned()));
            }
        }
        Err(uncovered(target))
    }

    fn remote(&self, target: &str, url: &StoreUrl) -> Result<Place<'_>> {
        let found = RemotePlace::of(url).ok_or_else(|| refused(target, "it names no host"))?;
        if found.is_link_local() {
            return Err(refused(target, "link-local addresses are never read"));
        }
        if found.climbs() {
            return Err(refused(target, "it climbs out of its folder"));
        }
        let covers = |allowed: &Allowed| matches!(allowed, Allowed::Remote(prefix) if prefix.covers(&found));
        if !self.allowed.iter().any(covers) {
            return Err(uncovered(target));
        }
        Ok(Place::Remote(self.host_of(url)?, found.key()))
    }

    /// Returns the store of all that lies behind the host or bucket of a URL.
    fn host_of(&self, url: &StoreUrl) -> Result<RemoteStore> {
        let StoreUrl::Remote { scheme, url: whole } = url else {
            return RemoteStore::open(url, &self.options);
        };
        let mut base = whole.clone();
        base.set_path("");
        base.set_fragment(None);
        if *scheme != Scheme::Http {
            base.set_query(None);
        }
        let mut remotes = self.remotes();
        if let Some(store) = remotes.by_host.get(base.as_str()) {
            return Ok(store.clone());
        }
        let name = base.to_string();
        let place = StoreUrl::Remote { scheme: *scheme, url: base };
        let store = RemoteStore::open(&place, &self.options)?;
        remotes.first.get_or_insert_with(|| store.clone());
        // signed addresses differ in each target
        if remotes.by_host.len() >= REMOTES_MOST {
            remotes.by_host.clear();
        }
        remotes.by_host.insert(name, store.clone());
        Ok(store)
    }

    fn remotes(&self) -> std::sync::MutexGuard<'_, Remotes> {
        self.remotes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Allowed {
    fn new(prefix: &StoreUrl, options: &StoreOptions) -> Result<Self> {
        match prefix {
            StoreUrl::Local(path) => {
                let absolute = std::path::absolute(path).map_err(|error| {
                    Error::new(ErrorKind::Usage, format!("`{}` names no place", path.display()))
                        .with_source(error)
                })?;
                let path = without_dots(&absolute);
                let folder = if path.is_file() { path.parent().unwrap_or(&path) } else { &path }.to_owned();
                let store = LocalStore::open(&folder, options.follow_links)?.remembering(options.reads);
                Ok(Self::Local { path, folder, store })
            }
            StoreUrl::Remote { .. } => RemotePlace::of(prefix)
                .map(Self::Remote)
                .ok_or_else(|| Error::new(ErrorKind::Usage, format!("`{prefix}` names no host or bucket"))),
        }
    }
}

/// Returns an absolute path without `.` and `..`, by its text alone: links are dealt with where it is opened.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

fn refusal(target: &str) -> String {
    let shown: String = redact(target).chars().take(300).collect();
    format!("could not follow the reference to `{shown}`")
}

fn refused(target: &str, why: &str) -> Error {
    Error::new(ErrorKind::Unreadable, format!("{}: {why}", refusal(target)))
}

/// A target that nobody said may be read.
fn uncovered(target: &str) -> Error {
    let parent =
        redact(target).rsplit_once('/').map_or(String::from("PREFIX"), |(parent, _)| parent.to_owned());
    let parent: String = parent.chars().take(300).collect();
    refused(target, "it lies outside of the folder of the references, and no --allow-prefix covers it")
        .with_hint(format!("pass --allow-prefix {parent} if you trust it"))
}

impl Place<'_> {
    /// Reads all of it; `false` if it is absent.
    pub(super) fn get(&self, limit: u64, buffer: &mut Vec<u8>) -> Result<bool> {
        match self {
            Self::Local(store, key) => store.get(key, limit, buffer),
            Self::Remote(store, key) => {
                let Some(bytes) = store.get_blocking(key, limit)? else { return Ok(false) };
                buffer.clear();
                buffer.extend_from_slice(&bytes);
                Ok(true)
            }
        }
    }

    /// Reads at most `length` bytes at `offset`; returns its size, or `None` if it is absent.
    pub(super) fn get_range(&self, offset: u64, length: u64, buffer: &mut Vec<u8>) -> Result<Option<u64>> {
        match self {
            Self::Local(store, key) => store.get_range(key, offset, length, buffer),
            Self::Remote(store, key) => store.get_range_blocking(key, offset, length, buffer),
        }
    }

    /// Reads the last `length` bytes; returns its size, or `None` if it is absent.
    pub(super) fn get_suffix(&self, length: u64, buffer: &mut Vec<u8>) -> Result<Option<u64>> {
        match self {
            Self::Local(store, key) => store.get_suffix(key, length, buffer),
            Self::Remote(store, key) => store.get_suffix_blocking(key, length, buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(folder: &str, allow: &[&str]) -> Targets {
        let allow_prefixes = allow.iter().map(|prefix| prefix.parse().unwrap()).collect();
        let options = StoreOptions { allow_prefixes, ..StoreOptions::default() };
        Targets::new(folder.parse().unwrap(), &options).unwrap()
    }

    fn key_of(targets: &Targets, target: &str) -> Option<String> {
        match targets.place(target) {
            Ok(Place::Local(_, key) | Place::Remote(_, key)) => Some(key),
            Err(_) => None,
        }
    }

    #[test]
    fn only_what_lies_beside_the_references_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        let targets = targets(root, &[]);
        assert_eq!(key_of(&targets, "a/b.nc").as_deref(), Some("a/b.nc"));
        assert_eq!(key_of(&targets, &format!("file://{root}/b.nc")).as_deref(), Some("b.nc"));
        assert_eq!(key_of(&targets, "a/../b.nc").as_deref(), Some("b.nc"));
        for target in [
            "../b.nc",
            "/etc/passwd",
            "file:///etc/passwd",
            "a/../../../../../../etc/passwd",
            "s3://bucket/b.nc",
            "http://169.254.169.254/latest",
            "simplecache::s3://bucket/b.nc",
            "b\0.nc",
        ] {
            assert_eq!(key_of(&targets, target), None, "{target}");
        }
        let error = targets.place("s3://bucket/data/b.nc").unwrap_err();
        assert!(error.to_string().contains("s3://bucket/data/b.nc"), "{error}");
        assert_eq!(error.hint(), Some("pass --allow-prefix s3://bucket/data if you trust it"));
    }

    #[test]
    fn a_link_does_not_lead_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("b.nc")).unwrap();
        let targets = targets(folder.path().to_str().unwrap(), &[]);
        let place = targets.place("b.nc").unwrap();
        assert_eq!(place.get(1 << 10, &mut Vec::new()).unwrap_err().kind(), ErrorKind::Unreadable);
    }

    #[test]
    fn prefixes_end_at_whole_names_and_at_their_own_host() {
        let folder = tempfile::tempdir().unwrap();
        let allow = ["s3://bucket/data", "https://example.org:8443/x/", "http://169.254.169.254/"];
        let targets = targets(folder.path().to_str().unwrap(), &allow);
        assert_eq!(key_of(&targets, "s3://bucket/data/a.nc").as_deref(), Some("data/a.nc"));
        assert_eq!(key_of(&targets, "https://example.org:8443/x/y.nc?sig=1").as_deref(), Some("x/y.nc"));
        for target in [
            "s3://bucket/data2/a.nc",
            "s3://other/data/a.nc",
            "gs://bucket/data/a.nc",
            "s3://bucket/data/../secret",
            "s3://bucket/data/%2e%2e/secret",
            "s3://bucket/data/x%2f..%2f..%2fsecret",
            "https://example.org/x/y.nc",
            "http://example.org:8443/x/y.nc",
            "https://example.org:8443@evil.org/x/y.nc",
            "http://169.254.169.254/latest/meta-data",
            "http://[fe80::1]/x",
        ] {
            assert_eq!(key_of(&targets, target), None, "{target}");
        }
    }

    #[test]
    fn the_root_as_a_prefix_does_not_mean_the_files_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.nc");
        let targets = targets("/", &["/"]);
        assert!(key_of(&targets, path.to_str().unwrap()).is_some());
        for target in ["/etc/passwd", "/proc/self/environ", "etc/shadow", "/srv/../etc/shadow"] {
            assert_eq!(key_of(&targets, target), None, "{target}");
        }
    }
}
