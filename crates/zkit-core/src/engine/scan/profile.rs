//! NaN and missing values along the dimensions of a whole array, put together from its chunks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::rows::RowCounts;
use crate::grid::Region;
use crate::metadata::ArrayMetadata;
use crate::units::saturating_usize;

/// Longer dimensions have no profile.
const LONGEST: u64 = 1 << 20;
/// Bytes that the profiles of one run may take.
pub(super) const PROFILE_BYTES: i64 = 64 << 20;

/// NaN and missing values along one dimension, of the chunks that were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NanProfile {
    /// The dimension.
    pub dimension: usize,
    /// Elements that are NaN or missing at each index along it.
    pub nan: Vec<u64>,
    /// Elements that were looked at.
    pub seen: Vec<u64>,
}

/// Adds up the profile of one array; threads share it.
#[derive(Debug)]
pub(super) struct Profiles {
    dimensions: Vec<Dimension>,
}

#[derive(Debug)]
struct Dimension {
    wanted: bool,
    counts: OnceLock<Option<Counts>>,
}

/// NaN and seen elements, by index where chunks are mixed, else as differences where chunks begin and end.
#[derive(Debug)]
struct Counts {
    nan: Vec<AtomicU64>,
    nan_steps: Vec<AtomicI64>,
    seen_steps: Vec<AtomicI64>,
}

impl Profiles {
    pub(super) fn new(metadata: &ArrayMetadata, may_be_void: bool) -> Self {
        let shape = metadata.shape();
        // the last two of three and more are mostly places on a map, of which only those with names are told apart
        let leading = if shape.len() > 2 { shape.len() - 2 } else { shape.len() };
        let name = |d: usize| metadata.dimension_names.as_ref()?.get(d)?.as_deref();
        let wanted = |d: usize, length: u64| {
            may_be_void && (d < leading || name(d).is_some()) && (1..=LONGEST).contains(&length)
        };
        let dimension = |(d, &length)| Dimension { wanted: wanted(d, length), counts: OnceLock::new() };
        Self { dimensions: shape.iter().enumerate().map(dimension).collect() }
    }

    /// Returns profiles of nothing.
    pub(super) fn none() -> Self {
        Self { dimensions: Vec::new() }
    }

    /// Returns whether chunks of this shape span several indices of a dimension that is profiled.
    pub(super) fn need_rows(&self, chunk_shape: &[u64]) -> bool {
        self.dimensions.iter().zip(chunk_shape).any(|(dimension, &length)| dimension.wanted && length > 1)
    }

    /// Takes in a chunk that was looked at; `rows` are there if they are needed, and it holds NaN and others.
    pub(super) fn add(
        &self,
        region: &Region,
        nan: u64,
        rows: Option<&RowCounts>,
        shape: &[u64],
        left: &AtomicI64,
    ) {
        for (d, dimension) in self.dimensions.iter().enumerate() {
            let length = region.shape[d];
            let Some(counts) = dimension.counts(shape[d], left).filter(|_| length > 0) else { continue };
            let across = region.elements().unwrap_or(0) / length;
            let (start, end) =
                (saturating_usize(region.start[d]), saturating_usize(region.start[d] + length));
            step(&counts.seen_steps, start, end, across);
            match rows {
                Some(rows) => {
                    for (total, &count) in counts.nan[start..end].iter().zip(rows.along(d)) {
                        if count > 0 {
                            total.fetch_add(count, Ordering::Relaxed);
                        }
                    }
                }
                None if nan == across.saturating_mul(length) => step(&counts.nan_steps, start, end, across),
                // without rows, chunks span one index
                None => {
                    counts.nan[start].fetch_add(nan, Ordering::Relaxed);
                }
            }
        }
    }

    /// Returns the profiles of an array that holds NaN.
    pub(super) fn finish(self) -> Vec<NanProfile> {
        let each = self.dimensions.into_iter().enumerate();
        each.filter_map(|(dimension, kept)| {
            let counts = kept.counts.into_inner().flatten()?;
            let mut nan = sums(&counts.nan_steps);
            for (sum, more) in nan.iter_mut().zip(counts.nan) {
                *sum += more.into_inner();
            }
            Some(NanProfile { dimension, nan, seen: sums(&counts.seen_steps) })
        })
        .collect()
    }
}

impl Dimension {
    /// Returns its counts, made when first needed, if they are wanted and there is room for them.
    fn counts(&self, length: u64, left: &AtomicI64) -> Option<&Counts> {
        if !self.wanted {
            return None;
        }
        let made = self.counts.get_or_init(|| {
            let bytes = i64::try_from(length.saturating_mul(24)).unwrap_or(i64::MAX);
            if left.fetch_sub(bytes, Ordering::Relaxed) < bytes {
                left.fetch_add(bytes, Ordering::Relaxed);
                return None;
            }
            let length = saturating_usize(length);
            Some(Counts {
                nan: (0..length).map(|_| AtomicU64::new(0)).collect(),
                nan_steps: (0..length).map(|_| AtomicI64::new(0)).collect(),
                seen_steps: (0..length).map(|_| AtomicI64::new(0)).collect(),
            })
        });
        made.as_ref()
    }
}

/// Adds `across` to every index from `start` to `end`.
fn step(steps: &[AtomicI64], start: usize, end: usize, across: u64) {
    let across = i64::try_from(across).unwrap_or(i64::MAX);
    steps[start].fetch_add(across, Ordering::Relaxed);
    if let Some(behind) = steps.get(end) {
        behind.fetch_sub(across, Ordering::Relaxed);
    }
}

fn sums(steps: &[AtomicI64]) -> Vec<u64> {
    let running = steps.iter().scan(0i64, |sum, step| {
        *sum = sum.wrapping_add(step.load(Ordering::Relaxed));
        Some(u64::try_from(*sum).unwrap_or(0))
    });
    running.collect()
}

impl NanProfile {
    /// Returns the inclusive runs of indices at which everything that was looked at is NaN.
    pub fn all_nan(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (index, (&nan, &seen)) in (0u64..).zip(self.nan.iter().zip(&self.seen)) {
            if seen == 0 || nan < seen {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.1 + 1 == index => run.1 = index,
                _ => runs.push((index, index)),
            }
        }
        runs
    }
}
