//! Many slices of one gather: what all points of `--split` take is read once, into scratch space, and each store is written
//! from there.
//!
//! The scratch store is a slice of its own, proven against the sources; the stores of the points are proven against it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zkit_core::engine::{JournalArray, Touched};
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::location::StoreUrl;
use zkit_core::metadata::TargetCodec;
use zkit_core::plan::{self, CopyPlan, Part, Pick, WantedGather, WantedSlice, Wish};

use crate::selection::POINT;

/// The name of the store in scratch space that holds all points.
const TOGETHER: &str = "points.zarr";
/// The numbers of the stores that the stores of points are gathered from.
const FROM_TOGETHER: usize = 0;
const FROM_LITERALS: usize = 1;

/// What all points take, planned.
#[derive(Debug)]
pub(crate) struct Together {
    pub(crate) plan: CopyPlan,
    /// What is read of the sources, array by array.
    pub(crate) touched: Vec<Touched>,
}

impl Together {
    /// Plans the store that holds all points; it keeps the codecs of the sources, where zkit writes them.
    pub(crate) fn plan(wanted: &WantedSlice, wish: &Wish) -> Result<CopyPlan> {
        match plan::plan_slice(vec![wanted.clone()], wish) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let mut plain = wanted.clone();
                plain.arrays.iter_mut().for_each(|array| array.target.codec = TargetCodec::Uncompressed);
                plan::plan_slice(vec![plain], wish)
            }
            planned => planned,
        }
    }

    /// Returns the slice of one point as it is taken from the store of all points; arrays that lie in memory alone are taken
    /// from there.
    pub(crate) fn of_point(&self, wanted: &WantedSlice, point: usize) -> WantedSlice {
        let arrays = wanted.arrays.iter().map(|array| match self.parts_of(&array.path, point) {
            Some(parts) => WantedGather { parts, joined: None, absent: None, ..array.clone() },
            None => {
                let in_memory = |part: &Part| Part { store: FROM_LITERALS, ..part.clone() };
                WantedGather { parts: array.parts.iter().map(in_memory).collect(), ..array.clone() }
            }
        });
        WantedSlice { arrays: arrays.collect(), ..wanted.clone() }
    }

    fn parts_of(&self, path: &str, point: usize) -> Option<Arc<[Part]>> {
        let array = &self.plan.arrays.get(self.position(path)?)?.target;
        let names = array.metadata.dimension_names.as_deref().unwrap_or_default();
        let mut axis = 0;
        let picks = array.metadata.shape().iter().enumerate().map(|(dimension, &length)| {
            if names.get(dimension).and_then(Option::as_deref) == Some(POINT) {
                return Pick::At(point as u64);
            }
            let pick = Pick::Along { axis, indices: (0..length).collect() };
            axis += 1;
            pick
        });
        let picks = picks.collect();
        Some([Part { store: FROM_TOGETHER, array: Arc::new(array.clone()), picks }].into())
    }

    fn position(&self, path: &str) -> Option<usize> {
        self.plan.arrays.iter().position(|array| array.target.path == path)
    }

    /// Counts what is read of the sources, all in the first of the stores that are written.
    pub(crate) fn count_in(&self, plan: &mut CopyPlan) {
        let bytes = plan.arrays.iter().map(|array| match (array.store, self.position(&array.target.path)) {
            (0, Some(at)) => self.touched[at].bytes(),
            _ => 0,
        });
        let bytes: Vec<u64> = bytes.collect();
        plan.count_stored(&bytes);
        let (totals, read) = (&mut plan.totals, &self.plan.totals);
        totals.bytes_read = read.bytes_read;
        totals.chunks_read = read.chunks_read;
        totals.bytes_decoded = totals.bytes_decoded.saturating_add(read.bytes_decoded);
        totals.memory_bytes = totals.memory_bytes.max(read.memory_bytes);
    }

    /// Returns how the journal of a point's store knows one of its arrays again.
    pub(crate) fn journal_array(&self, path: &str, point: usize, objects: bool) -> JournalArray {
        let at = self.position(path);
        let digest = at.and_then(|at| self.plan.arrays[at].gather.as_ref()).map(|gather| gather.digest());
        JournalArray {
            path: path.to_owned(),
            fingerprint: at.filter(|_| objects).map_or(0, |at| self.touched[at].fingerprint()),
            source_document: format!("{:032x} point {point}", digest.unwrap_or_default()),
            target_codec: String::new(),
        }
    }
}

/// The folder in scratch space that holds the store of all points, while stores are written from it.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder; what a run that died has left there is removed. The caller holds the locks of the destinations.
    pub(crate) fn make(path: PathBuf) -> Result<Self> {
        let failed = |error| {
            Error::new(ErrorKind::Unwritable, format!("could not make the scratch space {}", path.display()))
                .with_source(error)
        };
        remove(&path).map_err(failed)?;
        std::fs::create_dir_all(&path).map_err(failed)?;
        Ok(Self(path))
    }

    /// Returns where the store of all points lies.
    pub(crate) fn store(&self) -> StoreUrl {
        StoreUrl::Local(self.0.join(TOGETHER))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "scratch space is left");
        }
    }
}

/// Removes the folder with what runs of zkit have left in it; one that holds anything else is somebody's, and stays.
fn remove(path: &Path) -> std::io::Result<()> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if !name.as_encoded_bytes().starts_with(TOGETHER.as_bytes()) {
            let message = format!("it holds {}, which is not zkit's; move it away", name.display());
            return Err(std::io::Error::other(message));
        }
    }
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_space_that_holds_other_files_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("o.partial.scratch");
        std::fs::create_dir_all(path.join("points.zarr.partial/x")).unwrap();
        drop(Folder::make(path.clone()).unwrap());
        assert!(!path.exists());
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("thesis.tex"), "").unwrap();
        let error = Folder::make(path.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unwritable);
        assert!(path.join("thesis.tex").exists());
    }
}
