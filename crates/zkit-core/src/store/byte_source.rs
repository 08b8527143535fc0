//! The bytes of one file, read where they are needed: a file of this machine, or a remote object by ranges.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::any::StoreOptions;
use super::remote::{Piece, RemoteStore};
use crate::error::{Error, ErrorKind, Result};
use crate::location::StoreUrl;
use crate::units::saturating_usize;

/// One file that is open for reading.
#[derive(Debug)]
pub(super) struct ByteSource {
    place: String,
    size: u64,
    bytes: Origin,
}

#[derive(Debug)]
enum Origin {
    File {
        file: File,
        path: PathBuf,
    },
    Remote {
        store: RemoteStore,
        key: String,
        /// The end of the object, which came with its size.
        tail: Bytes,
    },
}

impl ByteSource {
    /// Opens a file of this machine.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Unreadable, format!("could not read {place}")).with_source(error)
        };
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        Ok(Self { place, size, bytes: Origin::File { file, path: path.to_owned() } })
    }

    /// Opens a remote object by one request for its last bytes; `None` if it is absent.
    pub(super) fn open_remote(
        url: &StoreUrl,
        tail_bytes: u64,
        options: &StoreOptions,
    ) -> Result<Option<Self>> {
        let key = url.name().unwrap_or_default();
        let store = RemoteStore::open(&url.parent(), options)?;
        let mut tail = Vec::new();
        let Some(size) = store.get_suffix_blocking(&key, tail_bytes, &mut tail)? else { return Ok(None) };
        let bytes = Origin::Remote { store, key, tail: tail.into() };
        Ok(Some(Self { place: url.to_string(), size, bytes }))
    }

    /// Returns where it is, without secrets.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Returns its size as it was opened.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn is_remote(&self) -> bool {
        matches!(self.bytes, Origin::Remote { .. })
    }

    /// Returns its path, of a file of this machine.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.bytes {
            Origin::File { path, .. } => Some(path),
            Origin::Remote { .. } => None,
        }
    }

    pub(super) fn reads_in_flight(&self) -> usize {
        match &self.bytes {
            Origin::File { .. } => 0,
            Origin::Remote { store, .. } => store.reads_in_flight(),
        }
    }

    /// Returns what changes when the file is rewritten, a hash of its time and inode; `None` for a remote object.
    pub(super) fn stamp(&self) -> Option<u64> {
        let Origin::File { file, .. } = &self.bytes else { return None };
        let file = file.metadata().ok()?;
        let parts = [file.mtime(), file.mtime_nsec()].map(i64::to_le_bytes).concat();
        Some(xxhash_rust::xxh3::xxh3_64_with_seed(&parts, file.ino()))
    }

    /// Reads `length` bytes at `offset`, which the caller has compared with the size.
    ///
    /// Errors: `Unreadable`, also where the file became shorter.
    pub(super) fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        match &self.bytes {
            Origin::File { file, .. } => {
                let mut buffer = vec![0; saturating_usize(length)];
                file.read_exact_at(&mut buffer, offset).map_err(|error| {
                    Error::new(ErrorKind::Unreadable, format!("could not read {}", self.place))
                        .with_source(error)
                })?;
                Ok(buffer)
            }
            Origin::Remote { store, key, tail } => {
                if let Some(found) = self.in_tail(tail, offset, length) {
                    return Ok(found.to_vec());
                }
                let mut buffer = Vec::new();
                let found = store.get_range_blocking(key, offset, length, &mut buffer)?;
                self.whole(found.map(|_| buffer), length)
            }
        }
    }

    /// Reads many parts at once; `None` for a file of this machine, which threads read themselves.
    pub(super) fn read_many(&self, parts: &[(u64, u64)]) -> Option<Vec<Result<Vec<u8>>>> {
        let Origin::Remote { store, key, .. } = &self.bytes else { return None };
        let piece = |&part: &(u64, u64)| Piece { store: store.clone(), key: key.clone(), range: Some(part) };
        let pieces: Vec<Piece> = parts.iter().map(piece).collect();
        let fetched = store.get_pieces(&pieces, u64::MAX).into_iter().zip(parts);
        Some(fetched.map(|(fetched, &(_, length))| self.whole(fetched?.map(Into::into), length)).collect())
    }

    fn in_tail<'t>(&self, tail: &'t Bytes, offset: u64, length: u64) -> Option<&'t [u8]> {
        let start = offset.checked_sub(self.size.checked_sub(tail.len() as u64)?)?;
        tail.get(saturating_usize(start)..saturating_usize(start.checked_add(length)?))
    }

    /// Returns what was read, if it is all there.
    fn whole(&self, read: Option<Vec<u8>>, length: u64) -> Result<Vec<u8>> {
        read.filter(|read| read.len() as u64 == length).ok_or_else(|| {
            let message = format!("could not read {}: it changed while it was read", self.place);
            Error::new(ErrorKind::Unreadable, message)
        })
    }
}
