//! Shape, chunk and region arithmetic: pure, checked, in elements.
//!
//! Indices and shapes are `u64` and in C order (last dimension fastest), as in the Zarr specification.

use std::ops::Range;

/// Arrays of more dimensions than this are refused: numpy's own limit.
pub const MAX_RANK: usize = 64;

/// A box of elements: `start[d] .. start[d] + shape[d]` in every dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// First element in each dimension.
    pub start: Vec<u64>,
    /// Number of elements in each dimension.
    pub shape: Vec<u64>,
}

impl Region {
    /// Returns the region that covers an array of this shape.
    pub fn whole(shape: &[u64]) -> Self {
        Self { start: vec![0; shape.len()], shape: shape.to_vec() }
    }

    /// Returns the number of elements, or `None` if it overflows.
    pub fn elements(&self) -> Option<u64> {
        product(&self.shape)
    }

    /// Returns whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns the elements that both regions have; of shape 0 somewhere if there is none.
    pub fn intersection(&self, other: &Self) -> Self {
        let ranges = self.start.iter().zip(&self.shape).zip(other.start.iter().zip(&other.shape));
        let (start, shape) = ranges
            .map(|((&a, &a_length), (&b, &b_length))| {
                let start = a.max(b);
                (start, (a + a_length).min(b + b_length).saturating_sub(start))
            })
            .unzip();
        Self { start, shape }
    }
}

/// Returns the product of `lengths`, or `None` if it overflows; 1 for no dimension.
pub fn product(lengths: &[u64]) -> Option<u64> {
    if lengths.contains(&0) {
        return Some(0);
    }
    lengths.iter().try_fold(1u64, |product, &length| product.checked_mul(length))
}

/// A chunk along one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its index.
    pub index: u64,
    /// Its first element.
    pub start: u64,
    /// Its length as stored.
    pub length: u64,
}

/// How one dimension is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cut {
    /// Chunks of one length; the last one reaches over the edge.
    Regular(u64),
    /// First elements of the chunks, and the end of the last one (v3 `rectilinear`).
    Edges(Vec<u64>),
}

/// A chunk grid: an array's shape cut into chunks.
///
/// ```
/// use zkit_core::grid::Grid;
///
/// let grid = Grid::regular(&[10, 7], &[4, 7]).unwrap();
/// assert_eq!(grid.counts(), [3, 1]);
/// assert_eq!(grid.chunk_region(&[2, 0]).start, [8, 0]);
/// assert_eq!(grid.chunk_region(&[2, 0]).shape, [2, 7]); // inside the array
/// assert_eq!(grid.chunk_shape(&[2, 0]), [4, 7]); // as stored
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    shape: Vec<u64>,
    cuts: Vec<Cut>,
    counts: Vec<u64>,
}

impl Grid {
    /// Returns a regular grid; the error says which dimension is wrong.
    pub fn regular(shape: &[u64], chunk_shape: &[u64]) -> Result<Self, String> {
        check_rank(shape, chunk_shape.len())?;
        for (dimension, (&length, &chunk)) in shape.iter().zip(chunk_shape).enumerate() {
            if chunk == 0 && length > 0 {
                return Err(format!("chunks of length 0 in dimension {dimension} of length {length}"));
            }
        }
        let cuts = chunk_shape.iter().map(|&chunk| Cut::Regular(chunk.max(1))).collect();
        Ok(Self::new(shape, cuts))
    }

    /// Returns a grid with chunk lengths given one by one; they must cover the shape.
    pub fn rectilinear(shape: &[u64], chunk_lengths: &[Vec<u64>]) -> Result<Self, String> {
        check_rank(shape, chunk_lengths.len())?;
        let mut cuts = Vec::with_capacity(shape.len());
        for (dimension, (&length, chunks)) in shape.iter().zip(chunk_lengths).enumerate() {
            let mut edges = vec![0u64];
            let mut end = 0u64;
            for &chunk in chunks {
                end = end
                    .checked_add(chunk)
                    .filter(|_| chunk > 0)
                    .ok_or_else(|| format!("unusable chunk length {chunk} in dimension {dimension}"))?;
                edges.push(end);
            }
            if end < length {
                return Err(format!("chunks cover {end} of {length} elements of dimension {dimension}"));
            }
            cuts.push(Cut::Edges(edges));
        }
        Ok(Self::new(shape, cuts))
    }

    fn new(shape: &[u64], cuts: Vec<Cut>) -> Self {
        let counts = shape.iter().zip(&cuts).map(|(&length, cut)| cut.count(length)).collect();
        Self { shape: shape.to_vec(), cuts, counts }
    }

    /// Returns the array's shape.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns how many chunks there are in each dimension.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns how many chunks there are, or `None` if that overflows.
    pub fn total(&self) -> Option<u64> {
        product(&self.counts)
    }

    /// Returns the one chunk shape of a regular grid, or `None` if chunks differ.
    pub fn regular_shape(&self) -> Option<Vec<u64>> {
        self.cuts.iter().map(|cut| if let Cut::Regular(chunk) = cut { Some(*chunk) } else { None }).collect()
    }

    /// Returns the largest chunk length in each dimension; for a regular grid the chunk shape.
    pub fn largest_chunk_shape(&self) -> Vec<u64> {
        let largest = |cut: &Cut| match cut {
            Cut::Regular(chunk) => *chunk,
            Cut::Edges(edges) => edges.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1),
        };
        self.cuts.iter().map(largest).collect()
    }

    /// Returns the shape of a chunk as it is stored: edge chunks of regular grids are full-size.
    pub fn chunk_shape(&self, chunk_index: &[u64]) -> Vec<u64> {
        let pairs = self.cuts.iter().zip(chunk_index);
        pairs
            .map(|(cut, &index)| {
                let range = cut.range(index);
                range.end - range.start
            })
            .collect()
    }

    /// Returns the elements of a chunk that lie inside the array.
    pub fn chunk_region(&self, chunk_index: &[u64]) -> Region {
        let ranges = self.cuts.iter().zip(chunk_index).zip(&self.shape);
        let (start, shape) = ranges
            .map(|((cut, &index), &length)| {
                let range = cut.range(index);
                (range.start, range.end.min(length).saturating_sub(range.start))
            })
            .unzip();
        Region { start, shape }
    }

    /// Returns where along one dimension the chunk of an element lies, as stored.
    pub fn chunk_along(&self, dimension: usize, element: u64) -> Span {
        let cut = &self.cuts[dimension];
        let index = cut.chunk_of(element);
        let range = cut.range(index);
        Span { index, start: range.start, length: range.end - range.start }
    }

    /// Returns the chunk indices that a region touches, as one range a dimension.
    pub fn chunks_of(&self, region: &Region) -> Vec<Range<u64>> {
        let ranges = self.cuts.iter().zip(region.start.iter().zip(&region.shape)).zip(&self.counts);
        ranges
            .map(|((cut, (&start, &length)), &count)| {
                if length == 0 {
                    return 0..0;
                }
                cut.chunk_of(start)..(cut.chunk_of(start + length - 1) + 1).min(count)
            })
            .collect()
    }

    /// Returns the index of the chunk at `position` in C order; the inverse of counting through [`Self::counts`].
    pub fn index_at(&self, position: u64) -> Vec<u64> {
        unravel(position, &self.counts)
    }

    /// Returns the C-order position of a chunk, or `None` if it lies outside the grid.
    pub fn position_of(&self, chunk_index: &[u64]) -> Option<u64> {
        if chunk_index.len() != self.counts.len() {
            return None;
        }
        chunk_index.iter().zip(&self.counts).try_fold(0u64, |position, (&index, &count)| {
            if index >= count {
                return None;
            }
            position.checked_mul(count)?.checked_add(index)
        })
    }
}

impl Cut {
    fn count(&self, length: u64) -> u64 {
        match self {
            Self::Regular(chunk) => length.div_ceil(*chunk),
            Self::Edges(edges) => {
                if length == 0 {
                    0
                } else {
                    (edges.len() - 1) as u64
                }
            }
        }
    }

    fn range(&self, index: u64) -> Range<u64> {
        match self {
            Self::Regular(chunk) => {
                let start = index.saturating_mul(*chunk);
                start..start.saturating_add(*chunk)
            }
            Self::Edges(edges) => {
                let index = crate::units::saturating_usize(index).min(edges.len() - 2);
                edges[index]..edges[index + 1]
            }
        }
    }

    fn chunk_of(&self, element: u64) -> u64 {
        match self {
            Self::Regular(chunk) => element / chunk,
            Self::Edges(edges) => (edges.partition_point(|&edge| edge <= element) as u64).saturating_sub(1),
        }
    }
}

fn check_rank(shape: &[u64], chunk_rank: usize) -> Result<(), String> {
    if shape.len() != chunk_rank {
        return Err(format!("chunks have {chunk_rank} dimensions, the shape has {}", shape.len()));
    }
    if shape.len() > MAX_RANK {
        return Err(format!("{} dimensions, at most {MAX_RANK} are supported", shape.len()));
    }
    Ok(())
}

/// Returns the index at `position` when counting through `counts` in C order.
pub fn unravel(position: u64, counts: &[u64]) -> Vec<u64> {
    let mut rest = position;
    let mut index = vec![0; counts.len()];
    for (slot, &count) in index.iter_mut().zip(counts).rev() {
        *slot = rest % count.max(1);
        rest /= count.max(1);
    }
    index
}

/// Calls `visit` with every index of the box, in C order, reusing one buffer; stops at the first error.
pub fn for_each_index<E>(
    ranges: &[Range<u64>],
    mut visit: impl FnMut(&[u64]) -> Result<(), E>,
) -> Result<(), E> {
    if ranges.iter().any(|range| range.start >= range.end) {
        return Ok(());
    }
    let mut index: Vec<u64> = ranges.iter().map(|range| range.start).collect();
    loop {
        visit(&index)?;
        let mut dimension = ranges.len();
        loop {
            if dimension == 0 {
                return Ok(());
            }
            dimension -= 1;
            index[dimension] += 1;
            if index[dimension] < ranges[dimension].end {
                break;
            }
            index[dimension] = ranges[dimension].start;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grids() -> impl Strategy<Value = Grid> {
        let dimension = prop_oneof![
            (0u64..20, 1u64..8).prop_map(|(length, chunk)| (length, vec![chunk], false)),
            proptest::collection::vec(1u64..6, 1..5).prop_flat_map(|chunks| {
                let sum: u64 = chunks.iter().sum();
                (sum.saturating_sub(chunks[chunks.len() - 1] - 1)..=sum, Just(chunks), Just(true))
            }),
        ];
        (proptest::collection::vec(dimension, 0..4), any::<bool>()).prop_map(|(dimensions, rectilinear)| {
            let shape: Vec<u64> = dimensions.iter().map(|dimension| dimension.0).collect();
            if rectilinear {
                let lengths: Vec<Vec<u64>> = dimensions
                    .iter()
                    .map(|(length, chunks, given)| {
                        if *given {
                            chunks.clone()
                        } else {
                            vec![chunks[0]; crate::units::saturating_usize(length.div_ceil(chunks[0]))]
                        }
                    })
                    .collect();
                Grid::rectilinear(&shape, &lengths).unwrap()
            } else {
                let chunks: Vec<u64> = dimensions.iter().map(|dimension| dimension.1[0]).collect();
                Grid::regular(&shape, &chunks).unwrap()
            }
        })
    }

    proptest! {
        #[test]
        fn chunks_cover_every_element_once(grid in grids()) {
            let mut seen = vec![0u8; crate::units::saturating_usize(product(grid.shape()).unwrap())];
            for position in 0..grid.total().unwrap() {
                let index = grid.index_at(position);
                prop_assert_eq!(grid.position_of(&index), Some(position));
                let region = grid.chunk_region(&index);
                let ranges: Vec<_> = region.start.iter().zip(&region.shape).map(|(&start, &length)| start..start + length).collect();
                for_each_index::<()>(&ranges, |element| {
                    let flat = element.iter().zip(grid.shape()).fold(0, |flat, (&i, &length)| flat * length + i);
                    seen[crate::units::saturating_usize(flat)] += 1;
                    Ok(())
                }).unwrap();
            }
            prop_assert!(seen.iter().all(|&times| times == 1));
        }

        #[test]
        fn chunks_of_a_region_are_those_that_meet_it(grid in grids(), seed in any::<[u64; 6]>()) {
            let (start, shape): (Vec<u64>, Vec<u64>) = grid.shape().iter().enumerate().map(|(d, &length)| {
                let start = seed[d] % (length + 1);
                (start, seed[d + 3] % (length - start + 1))
            }).unzip();
            let region = Region { start, shape };
            let ranges = grid.chunks_of(&region);
            for position in 0..grid.total().unwrap() {
                let index = grid.index_at(position);
                let meets = !grid.chunk_region(&index).intersection(&region).is_empty();
                let named = index.iter().zip(&ranges).all(|(i, range)| range.contains(i));
                prop_assert_eq!(meets, named && !region.is_empty());
            }
        }
    }

    #[test]
    fn refuses_grids_that_make_no_sense() {
        assert!(Grid::regular(&[4, 4], &[2]).is_err());
        assert!(Grid::regular(&[4], &[0]).is_err());
        assert!(Grid::regular(&[1; 65], &[1; 65]).is_err());
        assert!(Grid::rectilinear(&[4], &[vec![1, 2]]).is_err());
        assert!(Grid::regular(&[0], &[0]).is_ok());
    }

    #[test]
    fn absurd_shapes_do_not_overflow() {
        let grid = Grid::regular(&[u64::MAX, u64::MAX], &[1, 1]).unwrap();
        assert_eq!(grid.total(), None);
        assert_eq!(Grid::regular(&[u64::MAX], &[u64::MAX - 1]).unwrap().chunk_region(&[1]).shape, [1]);
    }
}
