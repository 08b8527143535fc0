//! The objects of a cached store: their digests, and whether they are as they were.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::SystemTime;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64_with_seed};
use zkit_core::cancel::Cancel;
use zkit_core::error::{Error, ErrorKind};
use zkit_core::location::StoreUrl;
use zkit_core::store::{ObjectKind, Store, StoreOptions};

use super::check::CacheCheckArg;
use super::manifest::{hex, stamp_at};

/// Bytes of a file that are read at once.
const BUFFER_BYTES: usize = 1 << 18;
/// Objects up to this size are all read back, as long as there are not more of them than this.
const SMALL_BYTES: u64 = 16 << 10;
const SMALL_MOST: usize = 1 << 15;
/// Bytes of other objects that a sample reads back.
const SAMPLE_BYTES: u64 = 64 << 20;

/// Every object of a store, sorted by key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultObjects {
    /// The keys.
    pub keys: Vec<String>,
    /// Their bytes.
    pub sizes: Vec<u64>,
    /// Their stamps (time of the last change and inode), each in 16 hexadecimal digits, one behind the other.
    pub stamps: String,
    /// The xxh3 of their bytes, likewise.
    pub digests: String,
}

/// What is wrong with a cached store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The object.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
}

/// One object that is there.
struct Listed {
    key: String,
    size: u64,
    stamp: u64,
    kind: ObjectKind,
}

impl ResultObjects {
    /// Reads every object of a store that is complete, on the threads of the pool that it is called in.
    ///
    /// Errors: `Unreadable`; `Cancelled`.
    pub fn of(store: &Path, cancel: &Cancel) -> Result<Self, Error> {
        let listed = list(store)?;
        let digests: Vec<u64> = listed
            .par_iter()
            .map(|object| {
                cancel.check()?;
                Ok(digest(&store.join(&object.key))?.1)
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            sizes: listed.iter().map(|object| object.size).collect(),
            stamps: listed.iter().map(|object| hex(object.stamp)).collect(),
            digests: digests.into_iter().map(hex).collect(),
            keys: listed.into_iter().map(|object| object.key).collect(),
        })
    }

    pub(super) fn is_sound(&self) -> bool {
        let digits = 16 * self.keys.len();
        self.sizes.len() == self.keys.len()
            && (self.stamps.len(), self.digests.len()) == (digits, digits)
            && self.stamps.is_ascii()
            && self.digests.is_ascii()
            && self.keys.is_sorted()
    }
}

/// Compares a store with what is known of it, on the threads of the pool that it is called in; returns what is wrong, and
/// how many objects were read back.
///
/// `sizes` reads nothing back, `full` everything; `sample` documents, small objects, those whose stamp changed, and some of
/// the others, each time others. Errors: `Unreadable` where the store cannot be listed; `Cancelled`.
pub fn check_result(
    store: &Path,
    known: &ResultObjects,
    check: CacheCheckArg,
    cancel: &Cancel,
) -> Result<(Vec<Finding>, u64), Error> {
    let listed = list(store)?;
    let mut findings = Vec::new();
    let mut suspects = Vec::new();
    let (mut at, mut there) = (0, listed.iter().peekable());
    while at < known.keys.len() || there.peek().is_some() {
        let order = match (known.keys.get(at), there.peek()) {
            (Some(key), Some(object)) => key.as_str().cmp(&object.key),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, _) => std::cmp::Ordering::Greater,
        };
        if order.is_lt() {
            findings.push(Finding { key: known.keys[at].clone(), what: "is gone".to_owned() });
            at += 1;
            continue;
        }
        let Some(object) = there.next() else { break };
        if order.is_gt() {
            findings.push(Finding { key: object.key.clone(), what: "was added".to_owned() });
            continue;
        }
        if object.kind != ObjectKind::Regular || object.size != known.sizes[at] {
            let what = format!("has {} bytes, had {}", object.size, known.sizes[at]);
            findings.push(Finding { key: object.key.clone(), what });
        } else {
            suspects.push((at, object.stamp != stamp_at(&known.stamps, at)));
        }
        at += 1;
    }
    let read: Vec<usize> = match check {
        CacheCheckArg::Sizes => Vec::new(),
        CacheCheckArg::Full => suspects.iter().map(|(at, _)| *at).collect(),
        CacheCheckArg::Sample => sample(known, &suspects),
    };
    let damaged = read.par_iter().map(|&at| {
        cancel.check()?;
        let key = &known.keys[at];
        // what cannot be read cannot be served either
        let found = digest(&store.join(key)).map_err(|error| error.one_line());
        Ok(match found {
            Ok((_, digest)) if digest == stamp_at(&known.digests, at) => None,
            Ok(_) => {
                Some(Finding { key: key.clone(), what: "holds other bytes than were written".to_owned() })
            }
            Err(error) => Some(Finding { key: key.clone(), what: error }),
        })
    });
    let damaged: Vec<Option<Finding>> = damaged.collect::<Result<_, Error>>()?;
    findings.extend(damaged.into_iter().flatten());
    Ok((findings, read.len() as u64))
}

/// Returns which objects are read back; the second of each suspect is whether its stamp changed.
fn sample(known: &ResultObjects, suspects: &[(usize, bool)]) -> Vec<usize> {
    let is_small = |at: usize| known.sizes[at] <= SMALL_BYTES;
    let take_small = suspects.iter().filter(|(at, _)| is_small(*at)).count() <= SMALL_MOST;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = now.as_secs() ^ u64::from(now.subsec_nanos());
    let (mut read, mut others) = (Vec::new(), Vec::new());
    for &(at, changed) in suspects {
        if changed || is_document(&known.keys[at]) || (take_small && is_small(at)) {
            read.push(at);
        } else {
            others.push((xxh3_64_with_seed(known.keys[at].as_bytes(), seed), at));
        }
    }
    others.sort_unstable();
    let mut left = SAMPLE_BYTES;
    for (_, at) in others {
        if known.sizes[at] <= left {
            left -= known.sizes[at];
            read.push(at);
        }
    }
    read
}

fn is_document(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    matches!(name, "zarr.json" | ".zarray" | ".zgroup" | ".zattrs" | ".zmetadata")
}

/// Returns the objects of a store, sorted by key.
fn list(store: &Path) -> Result<Vec<Listed>, Error> {
    if std::fs::symlink_metadata(store).is_ok_and(|found| !found.is_dir()) {
        let message = format!("could not list {}: it is no directory", store.display());
        return Err(Error::new(ErrorKind::Unreadable, message));
    }
    let opened = Store::open(&StoreUrl::Local(store.to_owned()), &StoreOptions::default())?;
    let mut listed = Vec::new();
    opened.list("", &mut |object| {
        listed.push(Listed {
            key: object.key.to_owned(),
            size: object.size,
            stamp: object.stamp,
            kind: object.kind,
        });
    })?;
    listed.sort_unstable_by(|one, other| one.key.cmp(&other.key));
    Ok(listed)
}

/// Returns the length and xxh3 of a file.
fn digest(path: &Path) -> Result<(u64, u64), Error> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Unreadable, format!("could not read {}", path.display())).with_source(error)
    };
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let room = usize::try_from(length.saturating_add(1)).unwrap_or(usize::MAX).min(BUFFER_BYTES);
    let (mut buffer, mut hash, mut bytes) = (vec![0; room], Xxh3Default::new(), 0);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((bytes, hash.digest())),
            Ok(read) => {
                hash.update(&buffer[..read]);
                bytes += read as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, ResultObjects) {
        let folder = tempfile::tempdir().unwrap();
        for (key, bytes) in
            [("zarr.json", 40), ("t2m/zarr.json", 60), ("t2m/c/0", 20_000), ("t2m/c/1", 20_000)]
        {
            let path = folder.path().join(key);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, vec![7u8; bytes]).unwrap();
        }
        let known = ResultObjects::of(folder.path(), &Cancel::default()).unwrap();
        (folder, known)
    }

    fn check(folder: &tempfile::TempDir, known: &ResultObjects, check: CacheCheckArg) -> Vec<Finding> {
        check_result(folder.path(), known, check, &Cancel::default()).unwrap().0
    }

    #[test]
    fn a_store_as_it_was_has_no_findings_at_any_check() {
        let (folder, known) = store();
        assert!(known.is_sound() && known.keys.len() == 4);
        for level in [CacheCheckArg::Sizes, CacheCheckArg::Sample, CacheCheckArg::Full] {
            assert_eq!(check(&folder, &known, level), []);
        }
    }

    #[test]
    fn what_was_written_to_is_read_back_by_a_sample_and_what_rots_unseen_by_a_full_check() {
        let (folder, known) = store();
        let path = folder.path().join("t2m/c/1");
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[9_999] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let damaged = "holds other bytes than were written".to_owned();
        let expected = [Finding { key: "t2m/c/1".to_owned(), what: damaged }];
        assert_eq!(check(&folder, &known, CacheCheckArg::Sample), expected);
        assert_eq!(check(&folder, &known, CacheCheckArg::Sizes), []);
        File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
        assert_eq!(check(&folder, &known, CacheCheckArg::Full), expected);
    }

    #[test]
    fn objects_that_are_gone_added_or_of_another_size_are_found_without_reading() {
        let (folder, known) = store();
        std::fs::remove_file(folder.path().join("t2m/c/0")).unwrap();
        std::fs::write(folder.path().join("t2m/c/1"), "short").unwrap();
        std::fs::write(folder.path().join("t2m/c/2"), "new").unwrap();
        let found = check(&folder, &known, CacheCheckArg::Sizes);
        let said: Vec<String> = found.iter().map(|found| format!("{} {}", found.key, found.what)).collect();
        assert_eq!(said, ["t2m/c/0 is gone", "t2m/c/1 has 5 bytes, had 20000", "t2m/c/2 was added"]);
    }

    #[test]
    fn a_sample_reads_every_document_and_stays_within_its_bytes() {
        let keys: Vec<String> = (0..100).map(|at| format!("c/{at:03}")).chain(["zarr.json".into()]).collect();
        let known = ResultObjects { sizes: vec![4 << 20; 101], keys, ..ResultObjects::default() };
        let suspects: Vec<(usize, bool)> = (0..101).map(|at| (at, at == 5)).collect();
        let read = sample(&known, &suspects);
        assert!(read.contains(&100) && read.contains(&5));
        assert_eq!(read.len(), 2 + 16);
    }
}
