//! Charts as data: bars with labels, and the map of which chunks of a grid are stored.

use crate::finding::ChunkBox;

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

    /// Returns the bins that the chunk indices from `first` to `last` lie in, and how many of them lie there.
    fn shares(&self, (first, last): (u64, u64)) -> Vec<(usize, u64)> {
        let last = last.min(self.chunks.saturating_sub(1));
        let (Some(from), Some(to)) = (self.bin_of(first), self.bin_of(last)) else { return Vec::new() };
        let share = |bin: usize| {
            let start = (bin as u64).saturating_mul(self.chunks_per_bin);
            let end = start.saturating_add(self.chunks_per_bin - 1).min(last);
            (bin, (end + 1).saturating_sub(start.max(first)))
        };
        (from..=to).map(share).collect()
    }

    /// Returns how many chunks the bins from `first` up to `end` hold; the last bin may hold fewer.
    pub(crate) fn chunks_in(&self, first: usize, end: usize) -> u64 {
        let start = |bin: usize| (bin as u64).saturating_mul(self.chunks_per_bin).min(self.chunks);
        start(end) - start(first)
    }
}

/// Which chunks of a grid are stored, and which are bad, seen along two of its dimensions.
///
/// A map counts into bins from the start, so a grid of any size takes at most 460 KB, and as much again where
/// chunks are bad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridMap {
    pub(crate) rows: Axis,
    pub(crate) columns: Axis,
    /// Chunks behind each position: the product of the dimensions that are not shown.
    pub(crate) depth: u64,
    /// The dimensions that are shown as rows and as columns.
    shown: [Option<usize>; 2],
    /// Stored chunks a bin, row after row.
    stored: Vec<u64>,
    /// Bad chunks a bin; empty if there are none.
    bad: Vec<u64>,
}

impl GridMap {
    /// Returns a map on which no chunk is stored; `depth` is the product of the dimensions that it does not
    /// show.
    pub fn new(rows: Axis, columns: Axis, depth: u64) -> Self {
        let bins = rows.bins() * columns.bins();
        Self { rows, columns, depth, shown: [None, None], stored: vec![0; bins], bad: Vec::new() }
    }

    /// Returns a map of a grid of any number of dimensions on which no chunk is stored, seen along the two
    /// dimensions with the most chunks; a single one goes across. `None` if there is at most one chunk.
    ///
    /// `counts` are the chunks along each dimension, `names` its names, where it has them.
    pub fn of_grid(counts: &[u64], names: Option<&[Option<String>]>) -> Option<Self> {
        let mut shown: Vec<usize> = (0..counts.len()).filter(|&dimension| counts[dimension] > 1).collect();
        if counts.contains(&0) || shown.is_empty() {
            return None;
        }
        shown.sort_by_key(|&dimension| (std::cmp::Reverse(counts[dimension]), dimension));
        shown.truncate(2);
        shown.sort_unstable();
        let [row, column] = match shown.as_slice() {
            [row, column] => [Some(*row), Some(*column)],
            rest => [None, rest.first().copied()],
        };
        let name_of = |dimension: usize| names.and_then(|names| names.get(dimension)?.clone());
        let axis = |dimension: Option<usize>| match dimension {
            Some(dimension) => Axis::new(
                name_of(dimension).unwrap_or_else(|| format!("dimension {dimension}")),
                counts[dimension],
            ),
            None => Axis::new("", 1),
        };
        let hidden = (0..counts.len()).filter(|dimension| !shown.contains(dimension));
        let depth = hidden.fold(1_u64, |product, dimension| product.saturating_mul(counts[dimension]));
        Some(Self { shown: [row, column], ..Self::new(axis(row), axis(column), depth) })
    }

    /// Counts `chunks` stored chunks at a position of the map; positions outside it are ignored.
    pub fn mark(&mut self, row: u64, column: u64, chunks: u64) {
        let (Some(row), Some(column)) = (self.rows.bin_of(row), self.columns.bin_of(column)) else { return };
        let bin = row * self.columns.bins() + column;
        self.stored[bin] = self.stored[bin].saturating_add(chunks);
    }

    /// Counts one stored chunk at an index of the grid that [`GridMap::of_grid`] was given.
    pub fn mark_chunk(&mut self, chunk_index: &[u64]) {
        let [row, column] = self.shown.map(|dimension| along(dimension, chunk_index));
        self.mark(row, column, 1);
    }

    /// Counts the chunks of a box of that grid as bad; what lies outside the grid is ignored.
    ///
    /// Cost: the bins that the box covers, however many chunks it holds.
    pub fn mark_bad(&mut self, chunks: &ChunkBox) {
        let [rows, columns] =
            self.shown.map(|dimension| (along(dimension, &chunks.first), along(dimension, &chunks.last)));
        let hidden = (0..chunks.first.len()).filter(|dimension| !self.shown.contains(&Some(*dimension)));
        let depth = hidden.fold(1_u64, |product, dimension| {
            let last = chunks.last.get(dimension).copied().unwrap_or(0);
            product.saturating_mul(last.saturating_sub(chunks.first[dimension]).saturating_add(1))
        });
        let row_shares = self.rows.shares(rows);
        let column_shares = self.columns.shares(columns);
        self.bad.resize(self.stored.len(), 0);
        for &(row, in_row) in &row_shares {
            for &(column, in_column) in &column_shares {
                let bin = &mut self.bad[row * self.columns.bins() + column];
                let marked = in_row.saturating_mul(in_column).saturating_mul(depth.min(self.depth));
                *bin = bin.saturating_add(marked);
            }
        }
    }

    /// Returns the stored chunks of one bin.
    pub(crate) fn stored_in(&self, row_bin: usize, column_bin: usize) -> u64 {
        self.stored[row_bin * self.columns.bins() + column_bin]
    }

    /// Returns the bad chunks of one bin.
    pub(crate) fn bad_in(&self, row_bin: usize, column_bin: usize) -> u64 {
        self.bad.get(row_bin * self.columns.bins() + column_bin).copied().unwrap_or(0)
    }

    /// Returns whether a chunk was marked as bad.
    pub(crate) fn has_bad(&self) -> bool {
        self.bad.iter().any(|&bad| bad > 0)
    }
}

/// Returns the index along a shown dimension; 0 where the map shows none.
fn along(dimension: Option<usize>, chunk_index: &[u64]) -> u64 {
    dimension.and_then(|dimension| chunk_index.get(dimension)).copied().unwrap_or(0)
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

    #[test]
    fn a_grid_is_seen_along_its_two_longest_dimensions() {
        let names = [Some("time".to_owned()), None, Some("x".to_owned())];
        let map = GridMap::of_grid(&[10, 2, 30], Some(&names)).unwrap();
        assert_eq!((map.rows.name.as_str(), map.columns.name.as_str(), map.depth), ("time", "x", 2));
        let line = GridMap::of_grid(&[1, 9], None).unwrap();
        assert_eq!((line.rows.chunks, line.columns.name.as_str()), (1, "dimension 1"));
        for without_picture in [&[][..], &[1, 1], &[0, 7]] {
            assert_eq!(GridMap::of_grid(without_picture, None), None);
        }
    }

    #[test]
    fn a_bad_box_counts_its_chunks_whatever_bins_they_share() {
        let mut map = GridMap::of_grid(&[1_000_003, 7, 5], None).unwrap();
        map.mark_bad(&ChunkBox { first: vec![123_456, 2, 0], last: vec![654_321, 4, 1] });
        let bins =
            (0..map.rows.bins()).flat_map(|row| (0..map.columns.bins()).map(move |column| (row, column)));
        let bad: u64 = bins.map(|(row, column)| map.bad_in(row, column)).sum();
        assert_eq!(bad, (654_321 - 123_456 + 1) * 3 * 2);
    }

    #[test]
    fn bad_boxes_outside_the_grid_or_of_other_rank_are_ignored() {
        let mut map = GridMap::of_grid(&[4, 4], None).unwrap();
        map.mark_bad(&ChunkBox { first: vec![9, 9], last: vec![u64::MAX, u64::MAX] });
        map.mark_bad(&ChunkBox { first: vec![3, 3], last: vec![1, 1] });
        assert!(!map.has_bad());
        map.mark_bad(&ChunkBox { first: vec![0], last: vec![] });
        map.mark_bad(&ChunkBox { first: vec![0, 0, 0], last: vec![u64::MAX, u64::MAX, u64::MAX] });
        assert!(map.has_bad());
    }
}
