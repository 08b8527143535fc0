//! Charts as data: bars with labels, and the map of which chunks of a grid are stored.

/// Bars with labels, drawn to the scale of the largest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    pub(crate) bars: Vec<Bar>,
}

/// One bar: its label, how long it is, and what stands behind it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) amount: f64,
    pub(crate) note: String,
}

impl Histogram {
    /// Returns a histogram without bars.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a bar of length `amount`, with `note` (the amount in words: `12 chunks`) behind it.
    ///
    /// Amounts below zero and NaN draw no bar.
    pub fn bar(&mut self, label: impl Into<String>, amount: f64, note: impl Into<String>) -> &mut Self {
        let amount = if amount > 0.0 { amount } else { 0.0 };
        self.bars.push(Bar { label: label.into(), amount, note: note.into() });
        self
    }
}

/// One side of a [`GridMap`]: a dimension of the chunk grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    pub(crate) name: String,
    /// Chunks along this dimension.
    pub(crate) chunks: u64,
    /// Chunks that share one bin; at least 1.
    pub(crate) chunks_per_bin: u64,
}

/// The most bins a side of a map has, whatever the grid: it bounds the memory of a map, and is more than a
/// terminal shows.
const BINS_MOST: u64 = 240;

impl Axis {
    /// Returns the axis of a dimension that has `chunks` chunks.
    pub fn new(name: impl Into<String>, chunks: u64) -> Self {
        Self { name: name.into(), chunks, chunks_per_bin: chunks.div_ceil(BINS_MOST).max(1) }
    }

    /// Returns the number of bins; at most [`BINS_MOST`].
    pub(crate) fn bins(&self) -> usize {
        usize::try_from(self.chunks.div_ceil(self.chunks_per_bin)).unwrap_or(usize::MAX)
    }

    /// Returns the bin of a chunk index, if the index lies in the grid.
    fn bin_of(&self, chunk_index: u64) -> Option<usize> {
        let bin = usize::try_from(chunk_index / self.chunks_per_bin).ok()?;
        (chunk_index < self.chunks).then_some(bin)
    }

    /// Returns how many chunks the bins from `first` up to `end` hold; the last bin may hold fewer.
    pub(crate) fn chunks_in(&self, first: usize, end: usize) -> u64 {
        let start = |bin: usize| (bin as u64).saturating_mul(self.chunks_per_bin).min(self.chunks);
        start(end) - start(first)
    }
}

/// Which chunks of a grid are stored, seen along two of its dimensions.
///
/// A map counts into bins from the start, so a grid of any size takes at most 460 KB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridMap {
    pub(crate) rows: Axis,
    pub(crate) columns: Axis,
    /// Chunks behind each position: the product of the dimensions that are not shown.
    pub(crate) depth: u64,
    /// Stored chunks a bin, row after row.
    stored: Vec<u64>,
}

impl GridMap {
    /// Returns a map on which no chunk is stored; `depth` is the product of the dimensions that it does not
    /// show.
    pub fn new(rows: Axis, columns: Axis, depth: u64) -> Self {
        let bins = rows.bins() * columns.bins();
        Self { rows, columns, depth, stored: vec![0; bins] }
    }

    /// Counts `chunks` stored chunks at a position of the grid; positions outside it are ignored.
    pub fn mark(&mut self, row: u64, column: u64, chunks: u64) {
        let (Some(row), Some(column)) = (self.rows.bin_of(row), self.columns.bin_of(column)) else { return };
        let bin = row * self.columns.bins() + column;
        self.stored[bin] = self.stored[bin].saturating_add(chunks);
    }

    /// Returns the stored chunks of one bin.
    pub(crate) fn stored_in(&self, row_bin: usize, column_bin: usize) -> u64 {
        self.stored[row_bin * self.columns.bins() + column_bin]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_grids_share_bins_and_lose_no_chunk() {
        let mut map = GridMap::new(Axis::new("time", 1_000_003), Axis::new("latitude", 7), 1);
        for row in (0..1_000_003).step_by(1_000) {
            map.mark(row, 6, 1);
        }
        assert!(map.rows.bins() <= 240);
        let total: u64 = (0..map.rows.bins()).map(|row| map.stored_in(row, 6)).sum();
        assert_eq!(total, 1_001);
        assert_eq!(map.rows.chunks_in(0, map.rows.bins()), 1_000_003);
    }

    #[test]
    fn positions_outside_the_grid_are_ignored() {
        let mut map = GridMap::new(Axis::new("y", 2), Axis::new("x", 2), 1);
        map.mark(2, 0, 1);
        map.mark(0, u64::MAX, 1);
        assert_eq!(map, GridMap::new(Axis::new("y", 2), Axis::new("x", 2), 1));
    }
}
