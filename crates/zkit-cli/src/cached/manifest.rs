//! The manifest of an entry: lines of JSON, the head first, so that a list of a cache reads no more than that.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{CWD, Mode, OFlags};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;
use zkit_core::error::{Error, ErrorKind};
use zkit_core::location::StoreUrl;
use zkit_core::store::{ObjectStat, Seen, Store, is_safe_name, write_error};

use super::places::Places;
use super::request::{Request, source_id, source_name};
use super::result::ResultObjects;

/// The version of the format that this zkit writes and reads.
pub const SCHEMA_VERSION: u32 = 1;

/// A head that is longer, or a manifest, is none of zkit's.
const HEAD_MOST: u64 = 64 << 20;
const MANIFEST_MOST: u64 = 1 << 30;

/// The first line of a manifest: what the entry is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The version of zkit that made the entry.
    pub zkit: String,
    /// The name of the store.
    pub name: String,
    /// The hash of the request, see [`Request::key`].
    pub key: String,
    /// What the store is taken from.
    pub dataset: String,
    /// What is taken.
    pub selection: String,
    /// The request in canonical form, without secrets.
    pub options: Vec<(String, String)>,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Bytes of the store's objects.
    pub bytes: u64,
    /// How many objects the store has.
    pub objects: u64,
    /// How many stores it is made of.
    pub sources: u64,
    /// What was asked for and found, as the store's attribute `zkit_slice` has it.
    pub slices: Vec<serde_json::Value>,
    /// The xxh3 of all further lines, in 16 hexadecimal digits.
    pub rest_xxh3: String,
}

/// One source: every object of it that the store rests on, sorted by key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceObjects {
    /// Where it is, without secrets.
    pub url: String,
    /// The xxh3 of its place, secrets included, in 16 hexadecimal digits.
    pub id: String,
    /// Whether all objects are named that the store rests on, or its metadata alone.
    pub objects_known: bool,
    /// The keys; those of folders that were listed end in a slash.
    pub keys: Vec<String>,
    /// Their bytes; null for what was absent, 0 for folders.
    pub sizes: Vec<Option<u64>>,
    /// Their stamps, each in 16 hexadecimal digits, one behind the other.
    pub stamps: String,
}

/// All that is known of an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// What it is.
    pub header: Header,
    /// What it rests on.
    pub sources: Vec<SourceObjects>,
    /// What it consists of.
    pub result: ResultObjects,
}

impl SourceObjects {
    /// Returns what was read of a source that remembers it.
    ///
    /// Errors: `Unsupported` for kinds of stores that do not; `Conflict` if it changed while it was read.
    pub fn of(url: &StoreUrl, store: &Store, objects_known: bool) -> Result<Self, Error> {
        let seen = store.seen().ok_or_else(|| not_remembered(url))?;
        if let Some(key) = store.changed_while_read() {
            return Err(changed_while_read(&key, url));
        }
        let mut of_store = Self {
            url: source_name(url),
            id: hex(source_id(url)),
            objects_known,
            keys: Vec::with_capacity(seen.len()),
            sizes: Vec::with_capacity(seen.len()),
            stamps: String::with_capacity(16 * seen.len()),
        };
        for (key, seen) in seen {
            let (size, stamp) = match seen {
                Seen::Absent => (None, 0),
                Seen::Object(stat) => (Some(stat.size), stat.stamp),
                Seen::Folder(stamp) => (Some(0), stamp),
            };
            of_store.keys.push(key);
            of_store.sizes.push(size);
            of_store.stamps.push_str(&hex(stamp));
        }
        Ok(of_store)
    }

    /// Returns what stood at one of the keys, by its position.
    pub fn seen(&self, at: usize) -> Seen {
        let stamp = stamp_at(&self.stamps, at);
        match self.sizes[at] {
            None => Seen::Absent,
            Some(_) if self.keys[at].ends_with('/') => Seen::Folder(stamp),
            Some(size) => Seen::Object(ObjectStat { size, stamp }),
        }
    }

    fn is_sound(&self) -> bool {
        let safe = |key: &String| {
            let key = key.strip_suffix('/').unwrap_or(key);
            key.is_empty() || key.split('/').all(is_safe_name)
        };
        self.sizes.len() == self.keys.len()
            && self.stamps.len() == 16 * self.keys.len()
            && self.stamps.is_ascii()
            && self.keys.iter().all(safe)
    }
}

/// Returns the error of a source that does not tell what was read of it.
pub fn not_remembered(url: &StoreUrl) -> Error {
    let message = format!("could not cache what is taken from {url}: it does not tell what was read of it");
    Error::new(ErrorKind::Unsupported, message).with_hint("pass --to instead of --cache")
}

/// Returns the error of a source that changed while it was read.
pub(super) fn changed_while_read(key: &str, url: &StoreUrl) -> Error {
    let message = format!("`{key}` of {url} changed while it was read; nothing was published");
    Error::new(ErrorKind::Conflict, message).with_hint("run the same command again when it is complete")
}

impl Header {
    /// Reads the first line of an entry's manifest.
    ///
    /// Errors: `Absent`, `Unreadable`; `Corrupt` if it is none; `Unsupported` for another version.
    pub fn read(places: &Places) -> Result<Self, Error> {
        let mut line = Vec::new();
        let file = BufReader::new(open(&places.manifest)?.take(HEAD_MOST));
        { file }.read_until(b'\n', &mut line).map_err(|error| unreadable(&places.manifest, error))?;
        Self::parse(&line, places)
    }

    fn parse(line: &[u8], places: &Places) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Version {
            schema_version: u32,
        }
        let path = &places.manifest;
        let Version { schema_version } =
            serde_json::from_slice(line).map_err(|error| damaged(path, "its head").with_source(error))?;
        if schema_version != SCHEMA_VERSION {
            let message = format!(
                "could not read the manifest {}: its version is {schema_version}, this zkit knows {SCHEMA_VERSION}",
                path.display()
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let header: Self =
            serde_json::from_slice(line).map_err(|error| damaged(path, "its head").with_source(error))?;
        if header.name != places.name() {
            return Err(damaged(path, "the name in it, which is that of another store,"));
        }
        Ok(header)
    }
}

impl Manifest {
    /// Returns the manifest of a store that was made just now.
    pub fn new(
        places: &Places,
        request: &Request,
        slices: Vec<serde_json::Value>,
        sources: Vec<SourceObjects>,
        result: ResultObjects,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = Header {
            schema_version: SCHEMA_VERSION,
            zkit: env!("CARGO_PKG_VERSION").to_owned(),
            name: places.name(),
            key: request.key(),
            dataset: request.dataset.clone(),
            selection: request.selection.clone(),
            options: request.told(),
            created: now.as_secs(),
            bytes: result.sizes.iter().fold(0, |sum, size| sum.saturating_add(*size)),
            objects: result.keys.len() as u64,
            sources: sources.len() as u64,
            slices,
            rest_xxh3: String::new(),
        };
        Self { header, sources, result }
    }

    /// Reads the manifest of an entry.
    ///
    /// Errors: as [`Header::read`].
    pub fn read(places: &Places) -> Result<Self, Error> {
        let path = &places.manifest;
        let mut text = Vec::new();
        open(path)?.take(MANIFEST_MOST).read_to_end(&mut text).map_err(|error| unreadable(path, error))?;
        let end = text.iter().position(|byte| *byte == b'\n').ok_or_else(|| damaged(path, "its head"))?;
        let (head, rest) = (&text[..end], &text[end + 1..]);
        let header = Header::parse(head, places)?;
        if header.rest_xxh3 != hex(xxh3_64(rest)) {
            return Err(damaged(path, "its checksum"));
        }
        let body = rest.strip_suffix(b"\n").unwrap_or(rest);
        let mut lines = body.split(|byte| *byte == b'\n');
        let result = lines.next_back().ok_or_else(|| damaged(path, "its end"))?;
        let sources = lines.map(serde_json::from_slice).collect::<Result<Vec<SourceObjects>, _>>();
        let sources = sources.map_err(|error| damaged(path, "a source").with_source(error))?;
        let result: ResultObjects =
            serde_json::from_slice(result).map_err(|error| damaged(path, "its end").with_source(error))?;
        let whole = sources.len() as u64 == header.sources && sources.iter().all(SourceObjects::is_sound);
        if !whole || !result.is_sound() {
            return Err(damaged(path, "its lists"));
        }
        Ok(Self { header, sources, result })
    }

    /// Writes the manifest beside its place, synced; [`publish`] puts it there.
    pub fn write(&self, places: &Places) -> Result<(), Error> {
        let path = &places.new_manifest;
        let failed = |error: std::io::Error| write_error(path, "write", error);
        let mut rest = Vec::new();
        let line = |rest: &mut Vec<u8>, json: serde_json::Result<String>| {
            rest.extend_from_slice(json.expect("strings and numbers are always JSON").as_bytes());
            rest.push(b'\n');
        };
        for source in &self.sources {
            line(&mut rest, serde_json::to_string(source));
        }
        line(&mut rest, serde_json::to_string(&self.result));
        let header = Header { rest_xxh3: hex(xxh3_64(&rest)), ..self.header.clone() };
        let mut head = Vec::new();
        line(&mut head, serde_json::to_string(&header));
        // what a run that died left there; a link is removed, never followed
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file: File = rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(0o666))
            .map_err(|error| failed(error.into()))?
            .into();
        let written =
            file.write_all(&head).and_then(|()| file.write_all(&rest)).and_then(|()| file.sync_all());
        written.map_err(|error| {
            let _ = std::fs::remove_file(path);
            failed(error)
        })
    }
}

/// Puts a manifest that was written in its place, whether or not one is there.
pub fn publish(places: &Places) -> Result<(), Error> {
    let failed = |error: std::io::Error| write_error(&places.manifest, "publish", error);
    std::fs::rename(&places.new_manifest, &places.manifest).map_err(failed)?;
    let parent = places.manifest.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all()).map_err(failed)
}

fn open(path: &Path) -> Result<File, Error> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: File = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => file.into(),
        Err(rustix::io::Errno::NOENT) => {
            let message = format!("there is no manifest {}", path.display());
            return Err(Error::new(ErrorKind::Absent, message));
        }
        Err(error) => return Err(unreadable(path, error.into())),
    };
    let metadata = file.metadata().map_err(|error| unreadable(path, error))?;
    if !metadata.is_file() || metadata.len() > MANIFEST_MOST {
        return Err(damaged(path, "the file, which is not regular or too large,"));
    }
    Ok(file)
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unreadable, format!("could not read the manifest {}", path.display()))
        .with_source(error)
}

fn damaged(path: &Path, what: &str) -> Error {
    let message = format!("could not read the manifest {}: {what} is damaged", path.display());
    Error::new(ErrorKind::Corrupt, message)
}

/// Returns a number as manifests write it.
pub(super) fn hex(number: u64) -> String {
    format!("{number:016x}")
}

/// Returns one of many numbers, each of 16 hexadecimal digits.
pub(super) fn stamp_at(stamps: &str, at: usize) -> u64 {
    let digits = stamps.get(16 * at..16 * (at + 1)).unwrap_or_default();
    u64::from_str_radix(digits, 16).unwrap_or_default()
}
