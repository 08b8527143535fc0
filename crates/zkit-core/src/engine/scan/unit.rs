//! The statistics of one chunk, from its elements as they are decoded, piece by piece.

use super::rows::RowCounts;
use crate::kernels::scan::{Scanner, Statistics};

/// Adds up one chunk; what it holds of elements outside the array is not looked at.
pub(super) struct Unit<'a> {
    scanner: &'a Scanner,
    shape: &'a [usize],
    inside: &'a [usize],
    clip: Option<Clip>,
    rows: &'a mut RowCounts,
    counts_rows: bool,
    /// Elements in front of the first that is a number, which `rows` knows nothing of; `None` once it knows of all.
    only_nan: Option<usize>,
    pub(super) statistics: Statistics,
}

/// How a chunk that reaches over the edge of its array lies in memory: runs of elements, some of which are outside.
struct Clip {
    /// Dimensions in front of the runs.
    leading: usize,
    /// Elements from one run to the next.
    stride: usize,
    /// Elements of a run that lie inside.
    length: usize,
}

impl<'a> Unit<'a> {
    /// Begins a chunk of `shape`, of which `inside` elements a dimension lie inside the array; `counts_rows` if it shall be
    /// known where in it NaN lies.
    pub(super) fn new(
        scanner: &'a Scanner,
        shape: &'a [usize],
        inside: &'a [usize],
        rows: &'a mut RowCounts,
        counts_rows: bool,
    ) -> Self {
        let clipped = (0..shape.len()).rposition(|d| inside[d] < shape[d]);
        let clip = clipped.map(|d| {
            let behind: usize = shape[d + 1..].iter().product();
            Clip { leading: d, stride: shape[d] * behind, length: inside[d] * behind }
        });
        Self {
            scanner,
            shape,
            inside,
            clip,
            rows,
            counts_rows,
            only_nan: Some(0),
            statistics: Statistics::default(),
        }
    }

    /// Takes in elements from `offset` on; pieces follow each other without gaps.
    pub(super) fn take(&mut self, offset: usize, bytes: &[u8]) {
        let before = self.statistics;
        let elements = bytes.len() / self.scanner.kind().item_bytes().max(1);
        self.scan(offset, bytes);
        if !self.counts_rows {
            return;
        }
        let seen = self.statistics.elements - before.elements;
        let nan = self.statistics.void() - before.void();
        match self.only_nan {
            Some(only_nan) if nan == seen => self.only_nan = Some(only_nan + elements),
            Some(only_nan) if only_nan > 0 || nan > 0 => {
                self.rows.start(self.shape, self.inside);
                self.rows.add_all(0..only_nan);
                self.only_nan = None;
                self.rows.add(self.scanner, offset, bytes);
            }
            // so far there are numbers alone
            Some(_) => {
                self.rows.start(self.shape, self.inside);
                self.only_nan = None;
            }
            None if nan == 0 => {}
            None if nan == seen => self.rows.add_all(offset..offset + elements),
            None => self.rows.add(self.scanner, offset, bytes),
        }
    }

    /// Returns the statistics, and the NaN counts along dimensions if the chunk holds NaN and others.
    pub(super) fn finish(self) -> (Statistics, Option<&'a RowCounts>) {
        let mixed = self.counts_rows && self.statistics.void() > 0 && !self.statistics.is_all_void();
        if mixed {
            self.rows.finish();
        }
        (self.statistics, mixed.then_some(&*self.rows))
    }

    fn scan(&mut self, offset: usize, bytes: &[u8]) {
        let item = self.scanner.kind().item_bytes().max(1);
        let Some(clip) = &self.clip else { return self.scanner.scan(bytes, &mut self.statistics) };
        let end = offset + bytes.len() / item;
        for run in offset / clip.stride.max(1)..end.div_ceil(clip.stride.max(1)) {
            let start = (run * clip.stride).max(offset);
            let stop = (run * clip.stride + clip.length).min(end);
            if start < stop && self.is_inside(run, clip.leading) {
                let run = &bytes[(start - offset) * item..(stop - offset) * item];
                self.scanner.scan(run, &mut self.statistics);
            }
        }
    }

    /// Returns whether a run lies inside, by its place among the leading dimensions.
    fn is_inside(&self, run: usize, leading: usize) -> bool {
        let mut rest = run;
        (0..leading).rev().all(|d| {
            let index = rest % self.shape[d].max(1);
            rest /= self.shape[d].max(1);
            index < self.inside[d]
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grid::for_each_index;
    use crate::kernels::scan::ElementKind;

    proptest! {
        #[test]
        fn pieces_of_a_chunk_are_what_lies_inside_the_array(
            dimensions in prop::collection::vec((1usize..6, 0usize..6), 0..4),
            values in prop::collection::vec(prop_oneof![Just(f32::NAN), -9.0f32..9.0], 1..20),
            pieces in prop::collection::vec(1usize..30, 1..20),
        ) {
            let shape: Vec<usize> = dimensions.iter().map(|dimension| dimension.0).collect();
            let inside: Vec<usize> = dimensions.iter().map(|&(length, inside)| inside.min(length)).collect();
            let elements: usize = shape.iter().product();
            let bytes: Vec<u8> = (0..elements).flat_map(|at| values[at / 2 % values.len()].to_le_bytes()).collect();
            let scanner = Scanner::new(ElementKind::Float(4), None, &[]);
            let mut rows = RowCounts::default();
            let mut unit = Unit::new(&scanner, &shape, &inside, &mut rows, true);
            let mut at = 0;
            for piece in pieces.iter().cycle() {
                let end = elements.min(at + piece);
                unit.take(at, &bytes[at * 4..end * 4]);
                at = end;
                if at == elements {
                    break;
                }
            }
            let (found, rows) = unit.finish();
            let mut gathered = Vec::new();
            let mut nan_of_first = vec![0; shape.first().copied().unwrap_or(0)];
            let ranges: Vec<_> = inside.iter().map(|&inside| 0..inside as u64).collect();
            for_each_index::<()>(&ranges, |index| {
                let index: Vec<usize> = index.iter().map(|&index| usize::try_from(index).unwrap()).collect();
                let at = index.iter().zip(&shape).fold(0, |flat, (&at, &length)| flat * length + at);
                let item = &bytes[at * 4..at * 4 + 4];
                gathered.extend_from_slice(item);
                if let Some(&first) = index.first() {
                    nan_of_first[first] += u64::from(f32::from_le_bytes(item.try_into().unwrap()).is_nan());
                }
                Ok(())
            }).unwrap();
            let mut expected = Statistics::default();
            scanner.scan(&gathered, &mut expected);
            prop_assert_eq!((found.elements, found.nan, found.valid), (expected.elements, expected.nan, expected.valid));
            prop_assert_eq!((found.min, found.max, found.constancy), (expected.min, expected.max, expected.constancy));
            prop_assert_eq!(rows.is_some(), found.nan > 0 && found.nan < found.elements);
            if let Some(rows) = rows.filter(|_| !shape.is_empty()) {
                prop_assert_eq!(rows.along(0), nan_of_first);
            }
        }
    }
}
