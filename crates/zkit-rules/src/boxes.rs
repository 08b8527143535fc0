//! From positions of chunks to few boxes of them.

use zkit_core::grid::{ChunkSet, product};
use zkit_report::ChunkBox;

/// Boxes that one finding names at most; of the rest it says how many chunks they hold.
pub const BOXES_MOST: usize = 64;

/// Runs that are merged into boxes at most: the work is bounded, whatever lies scattered over a grid.
const RUNS_MOST: usize = 200_000;

/// Inclusive runs of C-order positions, sorted and apart from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs {
    runs: Vec<(u64, u64)>,
    len: u64,
}

impl Runs {
    /// Returns the runs of a set.
    pub fn of(set: &ChunkSet) -> Self {
        Self::of_sorted(set.iter())
    }

    /// Returns the runs of ascending positions.
    pub fn of_sorted(positions: impl IntoIterator<Item = u64>) -> Self {
        let mut runs = Self::default();
        for position in positions {
            runs.push(position, position);
        }
        runs
    }

    /// Returns what a grid of `total` chunks lacks of a set; memory follows the set, not the grid.
    pub fn absent_from(set: &ChunkSet, total: u64) -> Self {
        let mut absent = Self::default();
        let mut next = 0;
        for position in set.iter().take_while(|&position| position < total) {
            if position > next {
                absent.push(next, position - 1);
            }
            next = position + 1;
        }
        if next < total {
            absent.push(next, total - 1);
        }
        absent
    }

    fn push(&mut self, first: u64, last: u64) {
        self.len += last - first + 1;
        match self.runs.last_mut() {
            Some(run) if run.1.checked_add(1) == Some(first) => run.1 = last,
            _ => self.runs.push((first, last)),
        }
    }

    /// Returns how many positions there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the inclusive runs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().copied()
    }

    /// Returns boxes that hold exactly these positions of a grid with `counts` chunks along each dimension; few, not
    /// always the fewest. `None` where they are too scattered for that.
    pub fn boxes(&self, counts: &[u64]) -> Option<Vec<ChunkBox>> {
        if self.runs.len() > RUNS_MOST {
            return None;
        }
        let mut boxes = Vec::new();
        for &(first, last) in &self.runs {
            push_run(counts, first, last, &mut Vec::new(), &mut boxes);
        }
        for dimension in (0..counts.len()).rev() {
            merge_along(dimension, &mut boxes);
        }
        boxes.sort_unstable();
        Some(boxes)
    }

    /// Returns at most [`BOXES_MOST`] boxes, the largest ones first in C order, and how many positions they leave out.
    pub fn few_boxes(&self, counts: &[u64]) -> (Vec<ChunkBox>, u64) {
        let mut boxes = self.boxes(counts).unwrap_or_else(|| {
            let mut boxes = Vec::new();
            for &(first, last) in self.runs.iter().take(BOXES_MOST) {
                push_run(counts, first, last, &mut Vec::new(), &mut boxes);
            }
            boxes
        });
        if boxes.len() > BOXES_MOST {
            boxes.sort_by_key(|one| std::cmp::Reverse(volume(one)));
            boxes.truncate(BOXES_MOST);
            boxes.sort_unstable();
        }
        let named: u64 = boxes.iter().map(volume).sum();
        (boxes, self.len.saturating_sub(named))
    }
}

/// Returns how many chunks a box holds.
pub fn volume(one: &ChunkBox) -> u64 {
    one.first.iter().zip(&one.last).map(|(first, last)| last - first + 1).product()
}

/// Returns the box that holds all of a grid; `None` where there is no chunk.
pub fn whole(counts: &[u64]) -> Option<ChunkBox> {
    let last: Option<Vec<u64>> = counts.iter().map(|count| count.checked_sub(1)).collect();
    Some(ChunkBox { first: vec![0; counts.len()], last: last? })
}

/// Cuts one run of C-order positions into boxes, at most two a dimension and one.
fn push_run(counts: &[u64], first: u64, last: u64, prefix: &mut Vec<u64>, boxes: &mut Vec<ChunkBox>) {
    let Some((_, inner)) = counts.split_first() else {
        boxes.push(ChunkBox { first: prefix.clone(), last: prefix.clone() });
        return;
    };
    let stride = product(inner).unwrap_or(u64::MAX).max(1);
    let (low, high) = (first / stride, last / stride);
    let (low_rest, high_rest) = (first % stride, last % stride);
    if low == high && (low_rest > 0 || high_rest < stride - 1) {
        return push_part(inner, low, (low_rest, high_rest), prefix, boxes);
    }
    let whole_from = if low_rest > 0 { low + 1 } else { low };
    let whole_to = if high_rest < stride - 1 { high.checked_sub(1) } else { Some(high) };
    if low_rest > 0 {
        push_part(inner, low, (low_rest, stride - 1), prefix, boxes);
    }
    if let Some(whole_to) = whole_to.filter(|&to| to >= whole_from) {
        let first = prefix.iter().copied().chain([whole_from]).chain(inner.iter().map(|_| 0));
        let last =
            prefix.iter().copied().chain([whole_to]).chain(inner.iter().map(|count| count.saturating_sub(1)));
        boxes.push(ChunkBox { first: first.collect(), last: last.collect() });
    }
    if high_rest < stride - 1 {
        push_part(inner, high, (0, high_rest), prefix, boxes);
    }
}

/// Cuts a run inside one index of the dimension in front of `inner`.
fn push_part(
    inner: &[u64],
    index: u64,
    (first, last): (u64, u64),
    prefix: &mut Vec<u64>,
    boxes: &mut Vec<ChunkBox>,
) {
    prefix.push(index);
    push_run(inner, first, last, prefix, boxes);
    prefix.pop();
}

/// Joins boxes that differ in one dimension alone and touch there.
fn merge_along(dimension: usize, boxes: &mut Vec<ChunkBox>) {
    boxes.sort_unstable_by(|a, b| {
        let others = |one: &'_ ChunkBox| {
            let mut key: Vec<(u64, u64)> = one.first.iter().copied().zip(one.last.iter().copied()).collect();
            key.remove(dimension);
            key
        };
        others(a).cmp(&others(b)).then(a.first[dimension].cmp(&b.first[dimension]))
    });
    boxes.dedup_by(|next, kept| {
        let same = (0..kept.first.len())
            .filter(|&other| other != dimension)
            .all(|other| kept.first[other] == next.first[other] && kept.last[other] == next.last[other]);
        let touches = same && kept.last[dimension].checked_add(1) == Some(next.first[dimension]);
        if touches {
            kept.last[dimension] = next.last[dimension];
        }
        touches
    });
}

/// How absent chunks lie in their grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Every chunk is absent.
    All,
    /// All chunks from one on, in the order of a writer: C order, or along one dimension.
    Trailing {
        /// The dimension that ends early; 0 where the run starts inside a slab.
        dimension: usize,
        /// The first index along that dimension of which chunks are absent.
        from: u64,
        /// Whether the run starts at a slab's first chunk.
        aligned: bool,
    },
    /// Whole slabs: everything at some indices of one dimension, with stored ones around them.
    Slabs {
        /// The dimension.
        dimension: usize,
        /// Inclusive ranges of indices along it.
        ranges: Vec<(u64, u64)>,
    },
    /// No order is seen.
    Scattered,
}

/// Returns how the absent chunks of a grid with `counts` chunks along each dimension lie.
///
/// Slabs are recognised only along dimensions of at least two chunks, and only where they hold all that is absent.
pub fn pattern(absent: &Runs, counts: &[u64]) -> Pattern {
    let total = product(counts).unwrap_or(u64::MAX);
    if absent.len() == total {
        return Pattern::All;
    }
    if let [(first, last)] = absent.runs[..]
        && last == total - 1
    {
        let dimension = counts.iter().position(|&count| count > 1).unwrap_or(0);
        let stride = product(counts.get(dimension + 1..).unwrap_or(&[])).unwrap_or(u64::MAX).max(1);
        return Pattern::Trailing { dimension, from: first / stride, aligned: first % stride == 0 };
    }
    let Some(boxes) = absent.boxes(counts) else { return Pattern::Scattered };
    for dimension in (0..counts.len()).filter(|&dimension| counts[dimension] > 1) {
        let full = |one: &ChunkBox| {
            (0..counts.len())
                .filter(|&other| other != dimension)
                .all(|other| one.first[other] == 0 && one.last[other] + 1 == counts[other])
        };
        if !boxes.iter().all(full) {
            continue;
        }
        let ranges: Vec<(u64, u64)> =
            boxes.iter().map(|one| (one.first[dimension], one.last[dimension])).collect();
        if let [(from, to)] = ranges[..]
            && to + 1 == counts[dimension]
        {
            return Pattern::Trailing { dimension, from, aligned: true };
        }
        return Pattern::Slabs { dimension, ranges };
    }
    Pattern::Scattered
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn positions_of(one: &ChunkBox, counts: &[u64]) -> Vec<u64> {
        let ranges: Vec<_> = one.first.iter().zip(&one.last).map(|(&first, &last)| first..last + 1).collect();
        let mut positions = Vec::new();
        zkit_core::grid::for_each_index::<()>(&ranges, |index| {
            positions.push(index.iter().zip(counts).fold(0, |flat, (&at, &count)| flat * count + at));
            Ok(())
        })
        .unwrap();
        positions
    }

    fn grids_and_positions() -> impl Strategy<Value = (Vec<u64>, BTreeSet<u64>)> {
        proptest::collection::vec(1u64..6, 1..4).prop_flat_map(|counts| {
            let total: u64 = counts.iter().product();
            (Just(counts), proptest::collection::btree_set(0..total, 0..40))
        })
    }

    proptest! {
        #[test]
        fn boxes_hold_exactly_what_was_given((counts, positions) in grids_and_positions()) {
            let runs = Runs::of_sorted(positions.iter().copied());
            prop_assert_eq!(runs.len(), positions.len() as u64);
            let mut seen = BTreeSet::new();
            for one in runs.boxes(&counts).unwrap() {
                for position in positions_of(&one, &counts) {
                    prop_assert!(seen.insert(position), "{position} lies in two boxes");
                }
            }
            prop_assert_eq!(seen, positions);
        }

        #[test]
        fn what_is_absent_is_the_rest((counts, positions) in grids_and_positions()) {
            let mut stored = ChunkSet::default();
            for &position in &positions {
                stored.insert(position);
            }
            let total = counts.iter().product();
            let absent = Runs::absent_from(&stored, total);
            let expected: Vec<u64> = (0..total).filter(|position| !positions.contains(position)).collect();
            let found: Vec<u64> = absent.iter().flat_map(|(first, last)| first..=last).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_slab_is_one_box_whatever_its_dimension() {
        let slab = |counts: &[u64], takes: &dyn Fn(u64) -> bool| {
            let total = counts.iter().product::<u64>();
            Runs::of_sorted((0..total).filter(|&position| takes(position)))
        };
        let column = slab(&[4, 5], &|position| position % 5 == 2);
        assert_eq!(column.boxes(&[4, 5]).unwrap(), [ChunkBox { first: vec![0, 2], last: vec![3, 2] }]);
        assert_eq!(pattern(&column, &[4, 5]), Pattern::Slabs { dimension: 1, ranges: vec![(2, 2)] });
        let row = slab(&[4, 5], &|position| position / 5 == 1);
        assert_eq!(pattern(&row, &[4, 5]), Pattern::Slabs { dimension: 0, ranges: vec![(1, 1)] });
        let last_columns = slab(&[4, 5], &|position| position % 5 >= 3);
        assert_eq!(
            pattern(&last_columns, &[4, 5]),
            Pattern::Trailing { dimension: 1, from: 3, aligned: true }
        );
    }

    #[test]
    fn a_writer_that_stopped_leaves_a_trailing_run() {
        let absent = Runs::of_sorted(7..20);
        assert_eq!(pattern(&absent, &[4, 5]), Pattern::Trailing { dimension: 0, from: 1, aligned: false });
        assert_eq!(pattern(&Runs::of_sorted(0..20), &[4, 5]), Pattern::All);
        assert_eq!(pattern(&Runs::of_sorted([3, 11]), &[4, 5]), Pattern::Scattered);
    }

    #[test]
    fn huge_grids_cost_what_is_stored() {
        let mut stored = ChunkSet::default();
        stored.insert(0);
        stored.insert(1 << 60);
        let absent = Runs::absent_from(&stored, 1 << 61);
        assert_eq!((absent.iter().count(), absent.len()), (2, (1 << 61) - 2));
        let (boxes, left_out) = absent.few_boxes(&[1 << 30, 1 << 31]);
        assert!(boxes.len() <= 6 && left_out == 0, "{boxes:?}");
    }

    #[test]
    fn few_boxes_keep_the_largest_and_count_the_rest() {
        let scattered = Runs::of_sorted((0..1_000).step_by(2).chain(1_000..1_500));
        let (boxes, left_out) = scattered.few_boxes(&[1_500]);
        assert_eq!(boxes.len(), BOXES_MOST);
        assert_eq!(boxes.iter().map(volume).sum::<u64>() + left_out, scattered.len());
        assert!(boxes.iter().any(|one| volume(one) == 500));
        assert_eq!(whole(&[2, 3]).unwrap().last, [1, 2]);
        assert_eq!(whole(&[2, 0]), None);
    }
}
