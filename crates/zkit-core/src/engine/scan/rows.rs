//! Where in a chunk NaN and missing values lie: counts along each of its dimensions, for chunks that hold them and others.

use std::ops::Range;

use crate::kernels::scan::Scanner;

/// NaN counts along the dimensions of one chunk; buffers are kept from chunk to chunk.
#[derive(Debug, Default)]
pub(super) struct RowCounts {
    shape: Vec<usize>,
    /// How many elements of each dimension lie inside the array.
    inside: Vec<usize>,
    /// NaN at each index of each dimension.
    along: Vec<Vec<u64>>,
    /// The last dimension of more than one element: rows lie along it.
    last: usize,
    /// One row.
    row: Vec<u32>,
    columns: Vec<u32>,
}

impl RowCounts {
    /// Begins anew with a chunk of `shape`, of which `inside` elements a dimension lie inside the array.
    pub(super) fn start(&mut self, shape: &[usize], inside: &[usize]) {
        self.shape.clear();
        self.shape.extend_from_slice(shape);
        self.inside.clear();
        self.inside.extend_from_slice(inside);
        if inside.contains(&0) {
            self.inside.fill(0);
        }
        self.last = shape.iter().rposition(|&length| length > 1).unwrap_or(0);
        self.along.resize_with(shape.len(), Vec::new);
        for (counts, &length) in self.along.iter_mut().zip(shape) {
            counts.clear();
            counts.resize(length, 0);
        }
        self.columns.clear();
        self.columns.resize(shape.get(self.last).copied().unwrap_or(1), 0);
    }

    /// Returns the counts along a dimension.
    pub(super) fn along(&self, dimension: usize) -> &[u64] {
        &self.along[dimension]
    }

    /// Takes in elements of the chunk from `offset` on.
    pub(super) fn add(&mut self, scanner: &Scanner, offset: usize, bytes: &[u8]) {
        let item = scanner.kind().item_bytes();
        let mut row = Row::at(offset, self);
        let mut rest = bytes;
        while rest.len() >= item {
            let part = row.part(rest.len() / item);
            let (bytes, behind) = rest.split_at(part.len() * item);
            let inside = row.inside(&part, self);
            if !inside.is_empty() {
                self.row.clear();
                self.row.resize(inside.len(), 0);
                scanner.add_nan(&bytes[..inside.len() * item], &mut self.row);
                scanner.add_missing(&bytes[..inside.len() * item], &mut self.row);
                let total: u64 = self.row.iter().map(|&count| u64::from(count)).sum();
                for (column, count) in self.columns[inside].iter_mut().zip(&self.row) {
                    *column += count;
                }
                self.add_to_leading(&row, total);
            }
            rest = behind;
            row.advance(part.len(), self);
        }
    }

    /// Takes in elements that are all NaN.
    pub(super) fn add_all(&mut self, elements: Range<usize>) {
        let mut row = Row::at(elements.start, self);
        let mut rest = elements.len();
        while rest > 0 {
            let part = row.part(rest);
            let inside = row.inside(&part, self);
            let total = inside.len() as u64;
            self.columns[inside].iter_mut().for_each(|column| *column += 1);
            self.add_to_leading(&row, total);
            rest -= part.len();
            row.advance(part.len(), self);
        }
    }

    /// Puts the counts of the rows' own dimension, and of those behind it, where the others are.
    pub(super) fn finish(&mut self) {
        let mut total = 0;
        if let Some(along) = self.along.get_mut(self.last) {
            for (count, column) in along.iter_mut().zip(&self.columns) {
                *count = u64::from(*column);
                total += *count;
            }
        }
        for along in self.along.iter_mut().skip(self.last + 1) {
            along.iter_mut().for_each(|count| *count = total);
        }
    }

    fn add_to_leading(&mut self, row: &Row, count: u64) {
        for (along, &index) in self.along.iter_mut().zip(&row.leading) {
            along[index] += count;
        }
    }
}

/// One row of a chunk, and a place in it.
struct Row {
    /// Its index in the dimensions in front of its own.
    leading: Vec<usize>,
    width: usize,
    at: usize,
}

impl Row {
    /// Returns the row of an element, by its place in C order.
    fn at(element: usize, counts: &RowCounts) -> Self {
        let width = counts.columns.len().max(1);
        let mut leading = vec![0; counts.last];
        let mut rest = element / width;
        for (index, &length) in leading.iter_mut().zip(&counts.shape).rev() {
            *index = rest % length.max(1);
            rest /= length.max(1);
        }
        Self { leading, width, at: element % width }
    }

    /// Returns what the row has of so many elements.
    fn part(&self, elements: usize) -> Range<usize> {
        self.at..self.width.min(self.at + elements)
    }

    /// Returns what of a part lies inside the array.
    fn inside(&self, part: &Range<usize>, counts: &RowCounts) -> Range<usize> {
        let is_inside = self.leading.iter().zip(&counts.inside).all(|(index, inside)| index < inside);
        let width = counts.inside.get(counts.last).copied().unwrap_or(1);
        let end = if is_inside { part.end.min(width) } else { part.start };
        part.start..end.max(part.start)
    }

    fn advance(&mut self, elements: usize, counts: &RowCounts) {
        self.at += elements;
        if self.at < self.width {
            return;
        }
        self.at = 0;
        for (index, &length) in self.leading.iter_mut().zip(&counts.shape).rev() {
            *index += 1;
            if *index < length {
                return;
            }
            *index = 0;
        }
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
        fn counts_along_each_dimension_are_those_of_every_element(
            dimensions in prop::collection::vec((1usize..6, 0usize..6), 0..4),
            nan in prop::collection::vec(any::<bool>(), 1..40),
            cut in 0usize..200,
        ) {
            let shape: Vec<usize> = dimensions.iter().map(|dimension| dimension.0).collect();
            let inside: Vec<usize> = dimensions.iter().map(|&(length, inside)| inside.min(length)).collect();
            let elements: usize = shape.iter().product();
            let value = |at: usize| if nan[at % nan.len()] { f32::NAN } else { 1.0 };
            let bytes: Vec<u8> = (0..elements).flat_map(|at| value(at).to_le_bytes()).collect();
            let scanner = Scanner::new(ElementKind::Float(4), None, &[]);
            let cut = cut % (elements + 1);
            let mut counts = RowCounts::default();
            counts.start(&shape, &inside);
            counts.add(&scanner, 0, &bytes[..cut * 4]);
            if (cut..elements).all(|at| nan[at % nan.len()]) {
                counts.add_all(cut..elements);
            } else {
                counts.add(&scanner, cut, &bytes[cut * 4..]);
            }
            counts.finish();
            let mut expected: Vec<Vec<u64>> = shape.iter().map(|&length| vec![0; length]).collect();
            let long: Vec<u64> = shape.iter().map(|&length| length as u64).collect();
            let ranges: Vec<_> = inside.iter().map(|&inside| 0..inside as u64).collect();
            for_each_index::<()>(&ranges, |index| {
                let at = index.iter().zip(&long).fold(0, |flat, (&at, &length)| flat * length + at);
                if nan[usize::try_from(at).unwrap() % nan.len()] {
                    for (counts, &index) in expected.iter_mut().zip(index) {
                        counts[usize::try_from(index).unwrap()] += 1;
                    }
                }
                Ok(())
            }).unwrap();
            for (dimension, expected) in expected.iter().enumerate() {
                prop_assert_eq!(counts.along(dimension), expected);
            }
        }
    }
}
