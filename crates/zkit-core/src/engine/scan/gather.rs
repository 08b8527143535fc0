//! What a scan says of one array, and how the findings of many threads become it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use super::profile::{NanProfile, Profiles};
use super::stand_in::StandIn;
use crate::grid::ChunkSet;
use crate::kernels::scan::{Scanner, Statistics};

/// Chunks of which one by one is kept what they hold, of all arrays together.
pub(super) const FACTS_MOST: i64 = 1 << 19;
/// Corrupt or unreadable chunks that are named, each array.
const BAD_MOST: usize = 64;

/// Which grid positions are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitGrid {
    /// That of stored chunks.
    Stored,
    /// That of the inner chunks of shards, over the whole array.
    Inner,
}

/// What the values of one array are, as far as they were looked at.
#[derive(Debug, Clone)]
pub struct ArrayValues {
    /// The elements of stored chunks that were looked at; what shards leave out is not among them.
    pub stored: Statistics,
    /// One element of the fill value; empty where that is not known.
    pub fill: Statistics,
    /// What was looked at.
    pub coverage: Coverage,
    /// Which grid the positions below are of.
    pub grid: UnitGrid,
    /// How many chunks that grid has along each dimension.
    pub counts: Vec<u64>,
    /// What each chunk holds, by position; `None` where there were too many of them.
    pub units: Option<Vec<UnitFacts>>,
    /// Chunks that are NaN all over.
    pub all_nan: ChunkSet,
    /// Chunks of the fill value alone.
    pub all_fill: ChunkSet,
    /// Chunks in which every element is the same.
    pub constant: ChunkSet,
    /// Chunks that hold an infinity.
    pub infinite: ChunkSet,
    /// NaN and missing values along dimensions, but for those without names among the last two of three and more, which are
    /// mostly places on a map; empty where there is none.
    pub nan: Vec<NanProfile>,
    /// Chunks that do not decode to what metadata promises.
    pub corrupt: BadUnits,
    /// Chunks that could not be read.
    pub unreadable: BadUnits,
    /// Chunks that were not decoded: the memory budget is too small for them.
    pub over_budget: BadUnits,
    /// Chunks that hold what zkit does not decode.
    pub unsupported: BadUnits,
    /// A value that seems to stand for missing ones, and is not declared.
    pub stand_in: Option<StandIn>,
    /// Why the array was not looked at, or not all of it.
    pub skipped: Option<Skipped>,
}

/// Why an array was not looked at, whatever its single chunks are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skipped {
    /// Its codecs, or its metadata, are not decoded by zkit.
    Unsupported(String),
    /// Each of its chunks needs more memory than there is.
    OverBudget(String),
    /// Nothing says which chunks are stored.
    Unlisted(String),
}

impl Skipped {
    /// Returns the reason in words.
    pub fn why(&self) -> &str {
        match self {
            Self::Unsupported(why) | Self::OverBudget(why) | Self::Unlisted(why) => why,
        }
    }
}

/// How much of an array was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Chunks that are stored (shards where sharded).
    pub chunks_stored: u64,
    /// Those of them that were looked at.
    pub chunks_seen: u64,
    /// Encoded bytes that were looked at.
    pub bytes_seen: u64,
    /// Elements of the array.
    pub elements: u64,
    /// Elements of absent chunks, and of inner chunks that shards which were looked at leave out: they read as the fill
    /// value.
    pub elements_absent: u64,
}

impl Coverage {
    /// Returns whether every stored chunk was looked at.
    pub fn is_full(&self) -> bool {
        self.chunks_seen == self.chunks_stored
    }
}

/// What one chunk (inner chunk where sharded) holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnitFacts {
    /// C-order position in [`ArrayValues::grid`].
    pub position: u64,
    /// Elements inside the array.
    pub elements: u64,
    /// Those that are NaN.
    pub nan: u64,
    /// Those that are neither NaN, nor infinite, nor missing.
    pub valid: u64,
    /// The least valid element; NaN if there is none.
    pub min: f64,
    /// The largest valid element; NaN if there is none.
    pub max: f64,
    /// The mean of the valid elements; NaN if there is none.
    pub mean: f64,
    /// A hash of the encoded bytes (of large chunks a sample of them, their number, and the statistics): chunks of the
    /// same bytes have the same, and others mostly another.
    pub digest: u64,
    /// Whether every element is the same.
    pub constant: bool,
}

/// A chunk that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadUnit {
    /// C-order position of the stored chunk (the shard where sharded).
    pub position: u64,
    /// C-order position of the inner chunk in its array, if it is one of a shard's.
    pub inner: Option<u64>,
    /// Why.
    pub reason: String,
}

/// Chunks that are not what they should be: all of them by position, the first by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BadUnits {
    /// Positions of the stored chunks.
    pub stored: ChunkSet,
    /// Positions of single inner chunks.
    pub inner: ChunkSet,
    /// The first of them, by position, with what is wrong.
    pub examples: Vec<BadUnit>,
}

impl BadUnits {
    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    pub(super) fn add(&mut self, unit: BadUnit) {
        self.stored.insert(unit.position);
        if let Some(inner) = unit.inner {
            self.inner.insert(inner);
        }
        let place =
            self.examples.partition_point(|one| (one.position, one.inner) < (unit.position, unit.inner));
        if place < BAD_MOST {
            self.examples.insert(place, unit);
            self.examples.truncate(BAD_MOST);
        }
    }
}

impl ArrayValues {
    /// Returns what is said of an array that was not looked at.
    pub(super) fn skipped(array: Whole<'_>) -> Self {
        Gather::new(Profiles::none()).finish(array)
    }

    /// Returns the statistics of the whole array, absent chunks as fill value; where only a sample was looked at, those
    /// of the sample.
    pub fn statistics(&self) -> Statistics {
        let mut whole = self.stored;
        if self.coverage.is_full() {
            whole.join(&self.fill.repeated(self.coverage.elements_absent));
        }
        whole
    }
}

/// What a thread found in a run of chunks.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) statistics: Statistics,
    pub(super) chunks: u64,
    pub(super) bytes: u64,
    pub(super) units: Vec<(UnitFacts, Flags)>,
    pub(super) absent_elements: u64,
    pub(super) corrupt: Vec<BadUnit>,
    pub(super) unreadable: Vec<BadUnit>,
    pub(super) over_budget: Vec<BadUnit>,
    pub(super) unsupported: Vec<BadUnit>,
}

/// What is remarkable of a chunk.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) all_fill: bool,
    pub(super) infinite: bool,
}

/// Puts together what threads found in one array.
#[derive(Debug)]
pub(super) struct Gather {
    kept: Mutex<Kept>,
    pub(super) profiles: Profiles,
}

#[derive(Debug, Default)]
struct Kept {
    statistics: Statistics,
    coverage: Coverage,
    absent_elements: u64,
    units: Option<Vec<UnitFacts>>,
    all_nan: ChunkSet,
    all_fill: ChunkSet,
    constant: ChunkSet,
    infinite: ChunkSet,
    corrupt: BadUnits,
    unreadable: BadUnits,
    over_budget: BadUnits,
    unsupported: BadUnits,
}

impl Gather {
    pub(super) fn new(profiles: Profiles) -> Self {
        Self { kept: Mutex::new(Kept { units: Some(Vec::new()), ..Kept::default() }), profiles }
    }

    /// Takes in what a thread found; `left` says how many single chunks may still be kept.
    pub(super) fn add(&self, found: Found, left: &AtomicI64) {
        // a thread that panicked ends the run: what it left does not matter
        let Ok(mut kept) = self.kept.lock() else { return };
        kept.statistics.join(&found.statistics);
        kept.coverage.chunks_seen += found.chunks;
        kept.coverage.bytes_seen += found.bytes;
        kept.absent_elements += found.absent_elements;
        for (facts, flags) in &found.units {
            let position = facts.position;
            if flags.all_fill {
                kept.all_fill.insert(position);
            }
            if flags.infinite {
                kept.infinite.insert(position);
            }
            if facts.nan == facts.elements && facts.elements > 0 {
                kept.all_nan.insert(position);
            }
            if facts.constant {
                kept.constant.insert(position);
            }
        }
        if let Some(units) = &mut kept.units {
            let more = i64::try_from(found.units.len()).unwrap_or(i64::MAX);
            if left.fetch_sub(more, Ordering::Relaxed) >= more {
                units.extend(found.units.iter().map(|(facts, _)| *facts));
            } else {
                let given_back = i64::try_from(units.len()).unwrap_or(0).saturating_add(more);
                left.fetch_add(given_back, Ordering::Relaxed);
                kept.units = None;
            }
        }
        found.corrupt.into_iter().for_each(|unit| kept.corrupt.add(unit));
        found.unreadable.into_iter().for_each(|unit| kept.unreadable.add(unit));
        found.over_budget.into_iter().for_each(|unit| kept.over_budget.add(unit));
        found.unsupported.into_iter().for_each(|unit| kept.unsupported.add(unit));
    }

    /// Returns the least and the largest value so far, and what single chunks hold, if that was kept.
    pub(super) fn extremes(&self) -> Option<([f64; 2], Vec<UnitFacts>)> {
        let kept = self.kept.lock().ok()?;
        let (min, max) = (kept.statistics.min?.to_f64(), kept.statistics.max?.to_f64());
        Some(([min, max], kept.units.clone()?))
    }

    /// Returns what was found, with what is known of the array beside its chunks.
    pub(super) fn finish(self, array: Whole<'_>) -> ArrayValues {
        let kept = self.kept.into_inner().unwrap_or_default();
        let mut fill = Statistics::default();
        if let (Some(scanner), Some(element)) = (array.scanner, array.fill) {
            scanner.scan(element, &mut fill);
        }
        let coverage = Coverage {
            // where nothing is listed, all that is known to be there was looked at
            chunks_stored: array.chunks_stored.max(kept.coverage.chunks_seen),
            elements: array.elements,
            elements_absent: array.elements_absent.saturating_add(kept.absent_elements),
            ..kept.coverage
        };
        let stored = kept.statistics;
        let mut units = kept.units;
        if let Some(units) = &mut units {
            units.sort_unstable_by_key(|facts| facts.position);
        }
        ArrayValues {
            nan: if stored.void() > 0 { self.profiles.finish() } else { Vec::new() },
            stored,
            fill,
            coverage,
            grid: array.grid,
            counts: array.counts,
            units,
            all_nan: kept.all_nan,
            all_fill: kept.all_fill,
            constant: kept.constant,
            infinite: kept.infinite,
            corrupt: kept.corrupt,
            unreadable: kept.unreadable,
            over_budget: kept.over_budget,
            unsupported: kept.unsupported,
            stand_in: array.stand_in,
            skipped: array.skipped,
        }
    }
}

/// What is known of an array beside its chunks.
pub(super) struct Whole<'a> {
    pub(super) scanner: Option<&'a Scanner>,
    pub(super) fill: Option<&'a [u8]>,
    pub(super) chunks_stored: u64,
    pub(super) elements: u64,
    pub(super) elements_absent: u64,
    pub(super) grid: UnitGrid,
    pub(super) counts: Vec<u64>,
    pub(super) stand_in: Option<StandIn>,
    pub(super) skipped: Option<Skipped>,
}
