//! Whether an entry may be served: all that it rests on is as it was, and so is the entry itself.

use std::path::Path;

use clap::ValueEnum;
use rayon::prelude::*;
use zkit_core::cancel::Cancel;
use zkit_core::error::{Error, ErrorKind};
use zkit_core::location::StoreUrl;
use zkit_core::store::{Reads, Seen, Store, StoreOptions};

use super::manifest::{Manifest, SourceObjects, changed_while_read, hex};
use super::places::Places;
use super::request::{source_id, source_name};
use super::result::check_result;
use crate::writing::SourceCheckArg;

/// How closely a cached store is looked at before it is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CacheCheckArg {
    /// Names and sizes of its objects.
    Sizes,
    /// And digests of metadata, of small objects, of those that were touched, and of some others.
    Sample,
    /// Digests of everything.
    Full,
}

/// What an entry has to be, to be served.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The request's hash.
    pub key: &'a str,
    /// The sources, in order, as the request's paths lead to them now.
    pub sources: &'a [StoreUrl],
    /// How to reach them.
    pub options: &'a StoreOptions,
    /// How closely they are looked at.
    pub source_check: SourceCheckArg,
    /// How closely the entry is looked at.
    pub cache_check: CacheCheckArg,
}

/// What was looked at of a sound entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Objects of sources.
    pub source_objects: u64,
    /// Objects of the store.
    pub objects: u64,
    /// Those of them that were read back.
    pub read: u64,
}

/// What a check came to.
#[derive(Debug)]
pub enum Verdict {
    /// There is no such entry.
    Absent,
    /// It may be served.
    Sound(Box<Manifest>, Checked),
    /// It must not: why, in one line.
    Unsound(String),
}

/// Checks an entry that is locked, on the threads of the pool that it is called in; the sources' data is not read.
///
/// Errors: `Cancelled`.
pub fn check(places: &Places, expected: &Expected<'_>, cancel: &Cancel) -> Result<Verdict, Error> {
    let manifest = match Manifest::read(places) {
        Ok(manifest) => manifest,
        Err(error) if error.kind() == ErrorKind::Absent => {
            return Ok(match places.store.symlink_metadata() {
                Ok(_) => Verdict::Unsound("the store has no manifest".to_owned()),
                Err(_) => Verdict::Absent,
            });
        }
        Err(error) => return Ok(Verdict::Unsound(error.one_line())),
    };
    let why = match why_unsound(places, &manifest, expected, cancel) {
        Ok(Ok(checked)) => return Ok(Verdict::Sound(Box::new(manifest), checked)),
        Ok(Err(why)) => why,
        Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
        Err(error) => error.one_line(),
    };
    Ok(Verdict::Unsound(why))
}

fn why_unsound(
    places: &Places,
    manifest: &Manifest,
    expected: &Expected<'_>,
    cancel: &Cancel,
) -> Result<Result<Checked, String>, Error> {
    if manifest.header.key != expected.key {
        return Ok(Err("the manifest is that of another request".to_owned()));
    }
    if let Some(why) = other_sources(&manifest.sources, expected.sources) {
        return Ok(Err(why));
    }
    let mut checked = Checked::default();
    for (known, url) in manifest.sources.iter().zip(expected.sources) {
        cancel.check()?;
        // a zip file, and references: their keys are those of the folder
        let is_file = url.local_path().is_some_and(Path::is_file);
        let folder = if is_file { &url.parent() } else { url };
        let options = StoreOptions { reads: Reads::Forgotten, ..expected.options.clone() };
        let store = match Store::open(folder, &options) {
            Ok(store) => store,
            Err(error) => return Ok(Err(error.one_line())),
        };
        let takes_objects = expected.source_check.takes_objects(url);
        if takes_objects && !known.objects_known {
            let why = format!("it does not say which objects of {} it was made of", known.url);
            return Ok(Err(why));
        }
        // the metadata of a file lies in it
        let own = url.name().filter(|_| is_file);
        let keys = |at: &usize| {
            takes_objects || is_metadata(&known.keys[*at]) || own.as_ref() == Some(&known.keys[*at])
        };
        let looked_at: Vec<usize> = (0..known.keys.len()).filter(keys).collect();
        checked.source_objects += looked_at.len() as u64;
        if let Some((key, was, is)) = first_change(&store, known, &looked_at)? {
            return Ok(Err(format!("{} of {}", in_words(key, was, is), known.url)));
        }
    }
    let (findings, read) = check_result(&places.store, &manifest.result, expected.cache_check, cancel)?;
    Ok(match findings.as_slice() {
        [] => Ok(Checked { objects: manifest.result.keys.len() as u64, read, ..checked }),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
            Err(format!("`{}` of the cached store {}{more}", first.key, first.what))
        }
    })
}

/// Checks that sources which were read are still as they were then: what is made of them may be published.
///
/// Errors: `Conflict` if one is not; those of looking at it.
pub fn check_unchanged(sources: &[(&StoreUrl, &Store)], known: &[SourceObjects]) -> Result<(), Error> {
    for ((url, store), known) in sources.iter().zip(known) {
        // of a remote store each would be a request: those that a later check would send
        let keys = |at: &usize| !store.is_remote() || is_metadata(&known.keys[*at]);
        let looked_at: Vec<usize> = (0..known.keys.len()).filter(keys).collect();
        if let Some((key, _, _)) = first_change(store, known, &looked_at)? {
            return Err(changed_while_read(key, url));
        }
    }
    Ok(())
}

/// Says which sources are new or gone, or in another order, if some are.
fn other_sources(known: &[SourceObjects], sources: &[StoreUrl]) -> Option<String> {
    let ids: Vec<String> = sources.iter().map(|url| hex(source_id(url))).collect();
    if known.iter().map(|known| &known.id).eq(&ids) {
        return None;
    }
    let new = sources.iter().zip(&ids).find(|(_, id)| known.iter().all(|known| known.id != **id));
    let gone = known.iter().find(|known| !ids.contains(&known.id));
    Some(match (new, gone) {
        (Some((new, _)), _) => format!("{} is new among the sources", source_name(new)),
        (None, Some(gone)) => format!("{} is no longer among the sources", gone.url),
        (None, None) => "the sources are in another order".to_owned(),
    })
}

/// Returns the first key at which something else stands, with what stood and stands there.
fn first_change<'a>(
    store: &Store,
    known: &'a SourceObjects,
    looked_at: &[usize],
) -> Result<Option<(&'a str, Seen, Seen)>, Error> {
    let keys: Vec<&str> = looked_at.iter().map(|&at| known.keys[at].as_str()).collect();
    let found = store.see_many(&keys)?;
    let changes = looked_at.par_iter().zip(found).with_min_len(1024);
    Ok(changes
        .map(|(&at, is)| (known.keys[at].as_str(), known.seen(at), is))
        .find_first(|(_, was, is)| was != is))
}

fn in_words(key: &str, was: Seen, is: Seen) -> String {
    match (was, is) {
        (Seen::Absent, _) => format!("`{key}` is there now, which was not,"),
        (_, Seen::Absent) => format!("`{key}` is gone, which was there,"),
        (Seen::Folder(_), _) => format!("what lies in `{key}` changed"),
        _ => format!("`{key}` changed, an object"),
    }
}

/// Returns whether a key is that of a metadata document or a listed folder.
fn is_metadata(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    matches!(name, "" | "zarr.json" | ".zarray" | ".zgroup" | ".zattrs" | ".zmetadata")
}
