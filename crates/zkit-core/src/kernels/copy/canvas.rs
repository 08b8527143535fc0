//! A box of chunks that many threads fill at once: cells are written once each, then chunks are taken once each.

#![expect(unsafe_code, reason = "threads write disjoint cells of one buffer without a lock")]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::layout::{OutOfBounds, Strided, Strides, c_strides, check};
use super::region::copy_items;

/// Chunks of one shape, one behind the other in one buffer, each in C order.
///
/// Together they are a box of elements, cut a second time into *cells*: one a source chunk. A cell is claimed by one
/// thread and written by it alone; when all cells were claimed and given back, each chunk can be taken by one
/// thread. Nothing is locked: claims are bits.
pub struct Canvas {
    buffer: *mut u8,
    bytes: usize,
    /// The buffer's allocation, taken apart; only for giving it back.
    capacity: usize,
    item_size: usize,
    chunk_shape: Vec<usize>,
    chunk_strides: Strides,
    chunk_bytes: usize,
    chunk_counts: Vec<usize>,
    /// The first element of each cell along each dimension, and the end of the last.
    cuts: Vec<Vec<usize>>,
    /// Where elements lie along each dimension that is reordered; empty where none is.
    places: Vec<Option<Vec<usize>>>,
    cells: usize,
    claimed: Vec<AtomicU64>,
    released: AtomicUsize,
    taken: Vec<AtomicU64>,
    touched: Vec<AtomicU64>,
}

// SAFETY: the buffer is reached through cells and chunks alone; a cell is handed out once, cells are disjoint, and
// chunks are handed out once, after the last cell was given back.
unsafe impl Send for Canvas {}
// SAFETY: as above.
unsafe impl Sync for Canvas {}

impl Canvas {
    /// Returns a canvas of `chunk_counts` chunks over `buffer`, whose contents stay where no cell is written.
    ///
    /// `cuts` has, for each dimension, the first element of each cell and the end of the last, ascending, inside
    /// the box. `None` if the sizes overflow, or shapes and cuts do not fit each other.
    pub fn new(
        mut buffer: Vec<u8>,
        item_size: usize,
        chunk_shape: &[usize],
        chunk_counts: &[usize],
        cuts: Vec<Vec<usize>>,
    ) -> Option<Self> {
        let rank = chunk_shape.len();
        let fits = |(at, cuts): (usize, &Vec<usize>)| {
            let end = chunk_shape[at].checked_mul(chunk_counts[at]);
            let ascending = cuts.windows(2).all(|pair| pair[0] < pair[1]);
            ascending && cuts.len() > 1 && cuts.last().copied() <= end
        };
        if chunk_counts.len() != rank || cuts.len() != rank || !cuts.iter().enumerate().all(fits) {
            return None;
        }
        let times = |product: usize, count: usize| product.checked_mul(count);
        let chunk_bytes = chunk_shape.iter().copied().try_fold(item_size, times)?;
        let chunks = chunk_counts.iter().copied().try_fold(1, times)?;
        let cells = cuts.iter().map(|cuts| cuts.len() - 1).try_fold(1, times)?;
        let bytes = chunk_bytes.checked_mul(chunks).filter(|&bytes| isize::try_from(bytes).is_ok())?;
        if buffer.len() < bytes {
            // contents do not matter: a fresh, untouched allocation costs nothing until it is written
            buffer = vec![0; bytes];
        }
        let mut buffer = std::mem::ManuallyDrop::new(buffer);
        let bits = |count: usize| (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Some(Self {
            bytes: buffer.len(),
            capacity: buffer.capacity(),
            buffer: buffer.as_mut_ptr(),
            item_size,
            chunk_shape: chunk_shape.to_vec(),
            chunk_strides: c_strides(chunk_shape, item_size),
            chunk_bytes,
            chunk_counts: chunk_counts.to_vec(),
            cuts,
            places: Vec::new(),
            cells,
            claimed: bits(cells),
            released: AtomicUsize::new(0),
            taken: bits(chunks),
            touched: bits(chunks),
        })
    }

    /// Returns the canvas with dimensions reordered: an element that is written to position `n` comes to lie at
    /// `places[n]`, in cells that are cut along positions. `None` unless each reordering covers its dimension's cells from
    /// 0 on, and has each place once.
    pub fn reordered(mut self, places: Vec<Option<Vec<usize>>>) -> Option<Self> {
        let is_whole = |(places, cuts): (&Option<Vec<usize>>, &Vec<usize>)| {
            let Some(places) = places else { return true };
            let mut seen = vec![false; places.len()];
            let once = places.iter().all(|&at| at < seen.len() && !std::mem::replace(&mut seen[at], true));
            once && cuts.first() == Some(&0) && cuts.last() == Some(&places.len())
        };
        if places.len() != self.cuts.len() || !places.iter().zip(&self.cuts).all(is_whole) {
            return None;
        }
        self.places = if places.iter().all(Option::is_none) { Vec::new() } else { places };
        Some(self)
    }

    /// Returns how many cells there are.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// Returns how many chunks there are.
    pub fn chunks(&self) -> usize {
        self.chunk_counts.iter().product()
    }

    /// Returns the index of a cell along each dimension.
    pub fn cell_index(&self, cell: usize) -> Vec<usize> {
        let mut rest = cell;
        let mut index = vec![0; self.cuts.len()];
        for (slot, cuts) in index.iter_mut().zip(&self.cuts).rev() {
            *slot = rest % (cuts.len() - 1);
            rest /= cuts.len() - 1;
        }
        index
    }

    /// Claims a cell for writing; `None` if there is no such cell or it was claimed before.
    pub fn claim(&self, cell: usize) -> Option<Cell<'_>> {
        if cell >= self.cells || !set(&self.claimed, cell) {
            return None;
        }
        let index = self.cell_index(cell);
        let ranges = index.iter().zip(&self.cuts).map(|(&at, cuts)| cuts[at]..cuts[at + 1]).collect();
        Some(Cell { canvas: self, ranges })
    }

    /// Returns whether every cell was claimed and given back, so that chunks can be taken.
    pub fn is_filled(&self) -> bool {
        // pairs with the release in `Cell::done`: what threads wrote is seen
        self.released.load(Ordering::Acquire) == self.cells
    }

    /// Takes a chunk, and says whether a cell wrote elements to it that are not fill; `None` unless all cells were
    /// given back, and if it was taken before.
    #[expect(clippy::mut_from_ref, reason = "a chunk is handed out once, when no cell can write any more")]
    pub fn take_chunk(&self, chunk: usize) -> Option<(&mut [u8], bool)> {
        if !self.is_filled() || chunk >= self.chunks() || !set(&self.taken, chunk) {
            return None;
        }
        let touched = self.touched[chunk / 64].load(Ordering::Relaxed) & (1 << (chunk % 64)) != 0;
        // SAFETY: the chunk lies inside the buffer, no cell is left to write it, and its bit was not set before.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(self.buffer.add(chunk * self.chunk_bytes), self.chunk_bytes)
        };
        Some((bytes, touched))
    }

    /// Returns the buffer for another canvas.
    pub fn into_buffer(mut self) -> Vec<u8> {
        let (bytes, capacity) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.capacity));
        let buffer = std::mem::replace(&mut self.buffer, std::ptr::NonNull::dangling().as_ptr());
        // SAFETY: these are the parts of the vector that `new` took apart; those of an empty one are left behind.
        unsafe { Vec::from_raw_parts(buffer, bytes, capacity) }
    }
}

impl Drop for Canvas {
    fn drop(&mut self) {
        // SAFETY: these are the parts of the vector that `new` took apart.
        drop(unsafe { Vec::from_raw_parts(self.buffer, self.bytes, self.capacity) });
    }
}

impl std::fmt::Debug for Canvas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Canvas").field("chunks", &self.chunk_counts).finish_non_exhaustive()
    }
}

/// Sets a bit; returns whether it was not set before.
fn set(bits: &[AtomicU64], at: usize) -> bool {
    let bit = 1 << (at % 64);
    bits[at / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0
}

/// A claimed cell, to be given back by [`Self::done`]. One that is dropped before leaves its canvas unfilled for ever, so
/// that nobody takes a chunk with what a failure left out.
#[derive(Debug)]
pub struct Cell<'a> {
    canvas: &'a Canvas,
    ranges: Vec<Range<usize>>,
}

impl Cell<'_> {
    /// Gives the cell back: all of it is written.
    pub fn done(self) {
        // pairs with the acquire in `is_filled`
        self.canvas.released.fetch_add(1, Ordering::Release);
    }

    /// Returns the elements of the canvas that the cell covers, a range each dimension.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// Writes elements from `src` to the box at `start` of the canvas, which must lie inside the cell.
    pub fn write(
        &mut self,
        start: &[usize],
        shape: &[usize],
        src: &[u8],
        layout: Strided<'_>,
    ) -> Result<(), OutOfBounds> {
        self.check(start, shape)?;
        check(self.canvas.item_size, shape, layout, src.len(), "source")?;
        self.each_run(start, shape, |from, placed, shape| {
            // the box lies inside the source, so its parts do
            let first: isize =
                (0..shape.len()).map(|d| layout.strides[d] * (from[d] - start[d]).cast_signed()).sum();
            self.each_chunk(placed, shape, true, |part, to| {
                let offset: isize = (0..shape.len())
                    .map(|d| layout.strides[d] * (part.from[d] - placed[d]).cast_signed())
                    .sum();
                // SAFETY: the part is some of the items that were found inside the source; `to` is this cell's alone.
                unsafe {
                    let src = src.as_ptr().wrapping_add(layout.offset).offset(first + offset);
                    copy_items(
                        self.canvas.item_size,
                        part.shape,
                        (src, layout.strides),
                        (to, &self.canvas.chunk_strides),
                    );
                }
            });
        });
        Ok(())
    }

    /// Writes one element to every place of the box at `start` of the canvas, which must lie inside the cell.
    ///
    /// Chunks do not count as touched by it.
    pub fn fill(&mut self, start: &[usize], shape: &[usize], element: &[u8]) -> Result<(), OutOfBounds> {
        self.check(start, shape)?;
        let strides = vec![0; shape.len()];
        check(
            self.canvas.item_size,
            shape,
            Strided { offset: 0, strides: &strides },
            element.len(),
            "source",
        )?;
        self.each_run(start, shape, |_, placed, shape| {
            self.each_chunk(placed, shape, false, |part, to| {
                // SAFETY: the one item was found inside `element`; `to` is this cell's alone.
                unsafe {
                    let (from, to) = ((element.as_ptr(), &strides[..]), (to, &self.canvas.chunk_strides[..]));
                    copy_items(self.canvas.item_size, part.shape, from, to);
                }
            });
        });
        Ok(())
    }

    fn check(&self, start: &[usize], shape: &[usize]) -> Result<(), OutOfBounds> {
        let inside = start.len() == self.ranges.len()
            && shape.len() == self.ranges.len()
            && self.ranges.iter().zip(start).zip(shape).all(|((range, &start), &length)| {
                start >= range.start && start.checked_add(length).is_some_and(|end| end <= range.end)
            });
        let outside = OutOfBounds { buffer: "cell", len: self.canvas.bytes };
        if inside { Ok(()) } else { Err(outside) }
    }

    /// Calls `work` for the parts of a box that stay boxes where elements are reordered: with the first position of a part,
    /// the first place, and its shape.
    fn each_run(&self, start: &[usize], shape: &[usize], mut work: impl FnMut(&[usize], &[usize], &[usize])) {
        if self.canvas.places.is_empty() || shape.contains(&0) {
            return work(start, start, shape);
        }
        let (mut from, mut placed, mut lengths) = (start.to_vec(), start.to_vec(), shape.to_vec());
        // the end of the run from a position on
        let run = |d: usize, at: usize| match &self.canvas.places[d] {
            None => (at, shape[d]),
            Some(places) => {
                let most = start[d] + shape[d] - at;
                let neighbours = places[at..].windows(2).take(most - 1);
                (places[at], 1 + neighbours.take_while(|pair| pair[0] + 1 == pair[1]).count())
            }
        };
        for d in 0..shape.len() {
            (placed[d], lengths[d]) = run(d, start[d]);
        }
        loop {
            work(&from, &placed, &lengths);
            let mut d = shape.len();
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                from[d] += lengths[d];
                let more = from[d] < start[d] + shape[d];
                if !more {
                    from[d] = start[d];
                }
                (placed[d], lengths[d]) = run(d, from[d]);
                if more {
                    break;
                }
            }
        }
    }

    /// Calls `work` for the part of a box in each chunk that it meets, with the place of the part's first item.
    fn each_chunk(&self, start: &[usize], shape: &[usize], touches: bool, work: impl Fn(&Part<'_>, *mut u8)) {
        let canvas = self.canvas;
        if shape.contains(&0) {
            return;
        }
        let rank = start.len();
        let first = |d: usize| start[d] / canvas.chunk_shape[d];
        let last = |d: usize| (start[d] + shape[d] - 1) / canvas.chunk_shape[d];
        let mut index: Vec<usize> = (0..rank).map(first).collect();
        let (mut from, mut part_shape) = (start.to_vec(), shape.to_vec());
        loop {
            let (mut chunk, mut offset) = (0, 0);
            for d in 0..rank {
                let origin = index[d] * canvas.chunk_shape[d];
                from[d] = start[d].max(origin);
                part_shape[d] = (start[d] + shape[d]).min(origin + canvas.chunk_shape[d]) - from[d];
                chunk = chunk * canvas.chunk_counts[d] + index[d];
                offset += (from[d] - origin) * canvas.chunk_strides[d].unsigned_abs();
            }
            if touches {
                let bit = 1 << (chunk % 64);
                let word = &canvas.touched[chunk / 64];
                if word.load(Ordering::Relaxed) & bit == 0 {
                    word.fetch_or(bit, Ordering::Relaxed);
                }
            }
            // SAFETY: the box lies inside the cell, and so inside the canvas, whose chunks lie in the buffer.
            let to = unsafe { canvas.buffer.add(chunk * canvas.chunk_bytes + offset) };
            work(&Part { from: &from, shape: &part_shape }, to);
            let mut d = rank;
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                index[d] += 1;
                if index[d] <= last(d) {
                    break;
                }
                index[d] = first(d);
            }
        }
    }
}

/// The part of a box that lies in one chunk, by elements of the canvas.
struct Part<'a> {
    from: &'a [usize],
    shape: &'a [usize],
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Chunk shape and counts, cuts, item size, and the threads that fill.
    fn canvases() -> impl Strategy<Value = (Vec<usize>, Vec<usize>, Vec<Vec<usize>>, usize)> {
        let dimension = (1..5_usize, 1..4_usize).prop_flat_map(|(chunk, count)| {
            let cuts = proptest::collection::btree_set(0..=chunk * count, 2..5.min(chunk * count + 2));
            (Just(chunk), Just(count), cuts)
        });
        (proptest::collection::vec(dimension, 0..4), prop_oneof![Just(4_usize), 1..9_usize]).prop_map(
            |(dimensions, item)| {
                let cuts = dimensions.iter().map(|dimension| dimension.2.iter().copied().collect()).collect();
                let (shape, counts) = dimensions.iter().map(|&(chunk, count, _)| (chunk, count)).unzip();
                (shape, counts, cuts, item)
            },
        )
    }

    fn value(index: &[usize], item: usize) -> Vec<u8> {
        let flat = index.iter().fold(7_usize, |flat, &at| flat * 31 + at + 1);
        (0..item).map(|byte| (flat >> (byte % 3 * 8)).to_le_bytes()[0] | 1).collect()
    }

    fn unravel(mut at: usize, shape: &[usize]) -> Vec<usize> {
        let mut index = vec![0; shape.len()];
        for (slot, &length) in index.iter_mut().zip(shape).rev() {
            *slot = at % length;
            at /= length;
        }
        index
    }

    proptest! {
        #[test]
        fn cells_written_by_threads_become_chunks((shape, counts, cuts, item) in canvases()) {
            let canvas = Canvas::new(Vec::new(), item, &shape, &counts, cuts.clone()).unwrap();
            let work = |cell: usize| {
                let Some(mut cell) = canvas.claim(cell) else { return };
                let ranges = cell.ranges().to_vec();
                let start: Vec<usize> = ranges.iter().map(|range| range.start).collect();
                let lengths: Vec<usize> = ranges.iter().map(Range::len).collect();
                let total = lengths.iter().product();
                let src: Vec<u8> = (0..total).flat_map(|at| {
                    let index: Vec<usize> = unravel(at, &lengths).iter().zip(&start).map(|(a, b)| a + b).collect();
                    value(&index, item)
                }).collect();
                let strides = c_strides(&lengths, item);
                cell.write(&start, &lengths, &src, Strided { offset: 0, strides: &strides }).unwrap();
                cell.done();
            };
            prop_assert!(canvas.take_chunk(0).is_none());
            std::thread::scope(|scope| {
                for offset in 0..2 {
                    let (canvas, work) = (&canvas, &work);
                    // both threads try every cell; each is written once
                    scope.spawn(move || (0..canvas.cells()).for_each(|cell| work((cell + offset) % canvas.cells())));
                }
            });
            prop_assert!(canvas.is_filled());
            for chunk in 0..canvas.chunks() {
                let (bytes, touched) = canvas.take_chunk(chunk).unwrap();
                prop_assert!(canvas.take_chunk(chunk).is_none());
                let origin: Vec<usize> = unravel(chunk, &counts).iter().zip(&shape).map(|(a, b)| a * b).collect();
                let mut written = false;
                for (at, element) in bytes.chunks_exact(item).enumerate() {
                    let index: Vec<usize> = unravel(at, &shape).iter().zip(&origin).map(|(a, b)| a + b).collect();
                    let covered = index.iter().zip(&cuts).all(|(&at, cuts)| at >= cuts[0] && at < *cuts.last().unwrap());
                    let expected = if covered { value(&index, item) } else { vec![0; item] };
                    written |= covered;
                    prop_assert_eq!(element, expected);
                }
                prop_assert_eq!(touched, written);
            }
            prop_assert!(canvas.into_buffer().len() >= item);
        }
    }

    #[test]
    fn cells_are_written_inside_their_bounds_alone() {
        let canvas = Canvas::new(Vec::new(), 1, &[2, 2], &[2, 2], vec![vec![0, 2, 4], vec![1, 4]]).unwrap();
        let mut cell = canvas.claim(1).unwrap();
        assert!(canvas.claim(1).is_none() && canvas.claim(2).is_none());
        let layout = Strided { offset: 0, strides: &[1, 1] };
        for (start, shape) in
            [([1, 1], [1, 1]), ([2, 0], [1, 1]), ([2, 1], [3, 1]), ([2, 1], [1, usize::MAX])]
        {
            assert!(cell.write(&start, &shape, &[0; 64], layout).is_err());
            assert!(cell.fill(&start, &shape, &[0]).is_err());
        }
        assert!(cell.write(&[2, 1], &[2, 2], &[0; 2], layout).is_err());
        cell.fill(&[2, 1], &[2, 3], &[9]).unwrap();
        cell.done();
        assert!(canvas.take_chunk(3).is_none());
        canvas.claim(0).unwrap().done();
        let (bytes, touched) = canvas.take_chunk(3).unwrap();
        assert_eq!((&*bytes, touched), (&[9, 9, 9, 9][..], false));
    }

    #[test]
    fn a_cell_that_is_dropped_leaves_the_canvas_unfilled() {
        let canvas = Canvas::new(Vec::new(), 1, &[2], &[1], vec![vec![0, 2]]).unwrap();
        drop(canvas.claim(0).unwrap());
        assert!(!canvas.is_filled() && canvas.take_chunk(0).is_none());
    }

    #[test]
    fn reordered_elements_come_to_lie_at_their_places() {
        let canvas = Canvas::new(Vec::new(), 1, &[1, 2], &[2, 3], vec![vec![0, 2], vec![0, 2, 5]]).unwrap();
        let canvas = canvas.reordered(vec![None, Some(vec![3, 0, 1, 2, 4])]).unwrap();
        let layout = Strided { offset: 0, strides: &[3, 1] };
        let mut second = canvas.claim(1).unwrap();
        second.write(&[0, 2], &[2, 3], &[12, 13, 14, 22, 23, 24], layout).unwrap();
        second.done();
        let mut first = canvas.claim(0).unwrap();
        assert!(first.write(&[0, 1], &[1, 2], &[0; 2], Strided { offset: 0, strides: &[2, 1] }).is_err());
        first.write(&[0, 0], &[2, 2], &[10, 11, 0, 20, 21, 0], layout).unwrap();
        first.done();
        let rows: Vec<Vec<u8>> = [0, 3]
            .map(|row| (row..row + 3).flat_map(|at| canvas.take_chunk(at).unwrap().0.to_vec()).collect())
            .into();
        assert_eq!(rows, [vec![11, 12, 13, 10, 14, 0], vec![21, 22, 23, 20, 24, 0]]);
    }

    #[test]
    fn refuses_reorderings_that_lose_elements() {
        let canvas = || Canvas::new(Vec::new(), 1, &[2], &[2], vec![vec![0, 3]]).unwrap();
        assert!(canvas().reordered(vec![Some(vec![2, 0, 1])]).is_some());
        for places in [vec![0, 0, 1], vec![0, 1], vec![0, 1, 3], vec![0, 1, 2, 3]] {
            assert!(canvas().reordered(vec![Some(places)]).is_none());
        }
        assert!(canvas().reordered(Vec::new()).is_none());
    }

    #[test]
    fn refuses_cuts_that_do_not_fit() {
        let new = |cuts: Vec<Vec<usize>>| Canvas::new(Vec::new(), 1, &[2], &[2], cuts);
        assert!(new(vec![vec![0, 5]]).is_none());
        assert!(new(vec![vec![2, 1]]).is_none());
        assert!(new(vec![vec![0]]).is_none());
        assert!(new(Vec::new()).is_none());
        assert!(Canvas::new(Vec::new(), 8, &[usize::MAX], &[2], vec![vec![0, 1]]).is_none());
    }
}
