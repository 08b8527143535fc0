//! Boxes of a rechunk: every source chunk that a box touches is decoded into it, then its chunks are encoded.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use super::copy::Run;
use super::fetch::Fetched;
use super::journal::Record;
use super::prepared::Copy;
use crate::error::{Error, ErrorKind, Result};
use crate::grid::Region;
use crate::kernels::copy::{Canvas, Cell, Strided, c_strides, fill_strided};
use crate::metadata::AbsentChunks;
use crate::plan::{Cover, Unit};
use crate::read::{ChunkSource, Piece, codec_error, to_usize, with_buffers};
use crate::units::saturating_usize;

/// Decoded bytes that a thread takes at once: enough to hide what turning to a box costs.
const BATCH_BYTES: usize = 1 << 20;
/// Cells or chunks that a thread takes at once, at most.
const BATCH_MOST: usize = 64;

/// A box that threads work on.
pub(super) struct OpenBox<'a> {
    pub(super) unit: &'a Unit,
    pub(super) copy: &'a Copy<'a>,
    canvas: Canvas,
    /// The elements of the box, inside the array.
    region: Region,
    /// Destination chunks, a range each dimension.
    chunks: Vec<Range<u64>>,
    /// The source chunk of the first cell.
    first_source: Vec<u64>,
    /// The objects of the cells, where they were fetched.
    fetched: Option<Fetched>,
    next_cell: AtomicUsize,
    next_chunk: AtomicUsize,
    cells_left: AtomicUsize,
    chunks_left: AtomicUsize,
    /// Whether fill values stand in the place of a chunk that did not decode, or was not there: a resumed run must find that again.
    tainted: AtomicBool,
    cells_at_once: usize,
    chunks_at_once: usize,
}

impl<'a> OpenBox<'a> {
    /// Opens the box of a unit; `None` where a unit is no box, or holds elements without fixed size.
    pub(super) fn open(
        unit: &'a Unit,
        copy: &'a Copy<'a>,
        buffer: Vec<u8>,
        fetched: Option<Fetched>,
        jobs: usize,
    ) -> Option<Self> {
        let (Cover::Box(position), Some(rechunk)) = (&unit.cover, &copy.array.rechunk) else { return None };
        let item = saturating_usize(copy.array.source.metadata.data_type.item_bytes()?);
        let (source, target) = (&copy.array.source.metadata.grid, &copy.array.target.metadata.grid);
        let region = rechunk.unit_region(target, *position);
        let chunks = rechunk.chunk_ranges(target, *position);
        let sources = source.chunks_of(&region);
        let cuts = sources
            .iter()
            .enumerate()
            .map(|(d, range)| {
                let (start, length) = (region.start[d], region.shape[d]);
                let mut cuts = vec![0];
                let mut at = start;
                for _ in range.clone() {
                    let chunk = source.chunk_along(d, at);
                    at = chunk.start.saturating_add(chunk.length).min(start + length);
                    cuts.push(saturating_usize(at - start));
                }
                cuts
            })
            .collect();
        let counts: Vec<usize> =
            chunks.iter().map(|range| saturating_usize(range.end - range.start)).collect();
        let chunk_shape = to_usize(&target.largest_chunk_shape());
        let canvas = Canvas::new(buffer, item, &chunk_shape, &counts, cuts)?;
        let canvas = match &copy.array.gather {
            Some(gather) => canvas.reordered(gather.places())?,
            None => canvas,
        };
        let bytes = saturating_usize(rechunk.unit_bytes);
        let at_once = |count: usize| {
            let fair = count / (2 * jobs);
            (BATCH_BYTES * count).checked_div(bytes).unwrap_or(1).clamp(1, BATCH_MOST).min(fair.max(1))
        };
        Some(Self {
            unit,
            copy,
            region,
            chunks,
            first_source: sources.iter().map(|range| range.start).collect(),
            fetched,
            next_cell: AtomicUsize::new(0),
            next_chunk: AtomicUsize::new(0),
            cells_left: AtomicUsize::new(canvas.cells()),
            chunks_left: AtomicUsize::new(canvas.chunks()),
            tainted: AtomicBool::new(false),
            cells_at_once: at_once(canvas.cells()),
            chunks_at_once: at_once(canvas.chunks()),
            canvas,
        })
    }

    /// Returns the stored source chunks of a box in the order of its cells, `None` for absent ones.
    pub(super) fn stored_sources(unit: &Unit, copy: &Copy<'_>) -> Vec<Option<u64>> {
        let (Cover::Box(position), Some(rechunk)) = (&unit.cover, &copy.array.rechunk) else {
            return Vec::new();
        };
        let source = &copy.array.source.metadata.grid;
        let region = rechunk.unit_region(&copy.array.target.metadata.grid, *position);
        let mut positions = Vec::new();
        // visiting cannot fail
        let _ = crate::grid::for_each_index::<()>(&source.chunks_of(&region), |index| {
            positions
                .push(source.position_of(index).filter(|&position| copy.array.stored.contains(position)));
            Ok(())
        });
        positions
    }

    /// Takes some cells that nobody fills yet.
    pub(super) fn take_cells(&self) -> Option<Range<usize>> {
        take(&self.next_cell, self.cells_at_once, self.canvas.cells())
    }

    /// Counts cells that were filled, or given up after a failure; returns whether they were the last.
    pub(super) fn cells_done(&self, cells: usize) -> bool {
        self.cells_left.fetch_sub(cells, Ordering::AcqRel) == cells
    }

    /// Takes some chunks that nobody encodes yet, once all cells are filled.
    pub(super) fn take_chunks(&self) -> Option<Range<usize>> {
        if !self.canvas.is_filled() {
            return None;
        }
        take(&self.next_chunk, self.chunks_at_once, self.canvas.chunks())
    }

    /// Returns whether all cells are filled.
    pub(super) fn is_filled(&self) -> bool {
        self.canvas.is_filled()
    }

    /// Counts encoded chunks; returns whether they were the last.
    pub(super) fn encoded(&self, chunks: usize) -> bool {
        self.chunks_left.fetch_sub(chunks, Ordering::AcqRel) == chunks
    }

    /// Returns whether all of the box is as the source has it.
    pub(super) fn is_sound(&self) -> bool {
        // seen by whoever saw the box filled
        !self.tainted.load(Ordering::Relaxed)
    }

    /// Returns the buffer for another box.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.canvas.into_buffer()
    }

    /// Returns a destination chunk's index in the array's grid.
    fn chunk_index(&self, chunk: usize) -> Vec<u64> {
        let counts: Vec<u64> = self.chunks.iter().map(|range| range.end - range.start).collect();
        let index = crate::grid::unravel(chunk as u64, &counts);
        index.iter().zip(&self.chunks).map(|(&at, range)| range.start + at).collect()
    }
}

fn take(next: &AtomicUsize, at_once: usize, end: usize) -> Option<Range<usize>> {
    // looked at first, so that the counter cannot run away
    if next.load(Ordering::Relaxed) >= end {
        return None;
    }
    let start = next.fetch_add(at_once, Ordering::Relaxed);
    (start < end).then(|| start..(start + at_once).min(end))
}

impl Run<'_> {
    /// Decodes the source chunk of a cell into the box.
    pub(super) fn fill_cell(&self, open: &OpenBox<'_>, cell_number: usize) -> Result<()> {
        self.cancel.check()?;
        let Some(mut cell) = open.canvas.claim(cell_number) else { return Ok(()) };
        let source = &open.copy.array.source.metadata.grid;
        let index = open.canvas.cell_index(cell_number);
        let chunk_index: Vec<u64> =
            index.iter().zip(&open.first_source).map(|(&at, &first)| first + at as u64).collect();
        let stored = source.position_of(&chunk_index).is_some_and(|at| open.copy.array.stored.contains(at));
        let part = Region {
            start: cell
                .ranges()
                .iter()
                .zip(&open.region.start)
                .map(|(range, at)| at + range.start as u64)
                .collect(),
            shape: cell.ranges().iter().map(|range| range.len() as u64).collect(),
        };
        if !stored {
            fill_part(open, &mut cell, &part, open.copy.fill()?)?;
            cell.done();
            return Ok(());
        }
        let from = match &open.fetched {
            Some(fetched) => ChunkSource::Fetched(fetched.get(cell_number).and_then(Option::as_ref)),
            None => {
                if open.copy.reads_whole_chunks() {
                    self.prefetch.begin();
                }
                ChunkSource::Local
            }
        };
        let filled = self.fill_from(open, &mut cell, &chunk_index, &part, &from);
        filled.or_else(|error| self.fill_around(open, &mut cell, &chunk_index, &part, (&from, error)))?;
        cell.done();
        Ok(())
    }

    /// Decodes a part of a source chunk into its place.
    fn fill_from(
        &self,
        open: &OpenBox<'_>,
        cell: &mut Cell<'_>,
        chunk_index: &[u64],
        part: &Region,
        from: &ChunkSource<'_>,
    ) -> Result<()> {
        // a listed chunk or shard that is wholly absent is gone; inner chunks may be absent
        let mut gone = false;
        open.copy.reader()?.visit_part(chunk_index, part, from, self.meter, &mut |piece| match piece {
            Piece::Absent => {
                gone = true;
                Ok(())
            }
            Piece::Elements { region, bytes, layout } => {
                let start = relative(&region.start, &open.region.start);
                cell.write(&start, &to_usize(&region.shape), bytes, layout).map_err(outside)
            }
            Piece::Fill { region, element } => fill_part(open, cell, region, element),
        })?;
        if gone {
            open.copy.missing(chunk_index)?;
            // a source that vanished looks the same: a resumed run must ask again
            open.tainted.store(true, Ordering::Relaxed);
            return fill_part(open, cell, part, open.copy.fill()?);
        }
        Ok(())
    }

    /// Leaves fill values for as little of a source chunk as can be: of a shard for inner chunks that do not decode.
    fn fill_around(
        &self,
        open: &OpenBox<'_>,
        cell: &mut Cell<'_>,
        chunk_index: &[u64],
        part: &Region,
        (from, error): (&ChunkSource<'_>, Error),
    ) -> Result<()> {
        open.tainted.store(true, Ordering::Relaxed);
        let inner = self.inner_chunks(open.copy, chunk_index, part, from, &error)?;
        if inner.is_empty() {
            self.corrupt(open.copy, chunk_index, None, error)?;
            return fill_part(open, cell, part, open.copy.fill()?);
        }
        inner.iter().try_for_each(|(inner, part)| {
            self.fill_from(open, cell, chunk_index, part, from).or_else(|error| {
                self.corrupt(open.copy, chunk_index, Some(inner), error)?;
                fill_part(open, cell, part, open.copy.fill()?)
            })
        })
    }

    /// Returns the inner chunks of which a part is made that does not decode as a whole; none where it is to be given up as
    /// a whole.
    pub(super) fn inner_chunks(
        &self,
        copy: &Copy<'_>,
        chunk_index: &[u64],
        part: &Region,
        from: &ChunkSource<'_>,
        error: &Error,
    ) -> Result<Vec<(Vec<u64>, Region)>> {
        if !self.skips(error) || !copy.reader()?.has_inner_chunks(chunk_index, from, self.meter)? {
            return Ok(Vec::new());
        }
        Ok(copy.array.source.metadata.inner_chunks(chunk_index, part))
    }

    /// Encodes and writes a destination chunk, unless readers see the same without it; it is done only in a sound box.
    pub(super) fn encode_chunk(
        &self,
        open: &OpenBox<'_>,
        chunk: usize,
        done: &mut Vec<Record>,
    ) -> Result<()> {
        self.cancel.check()?;
        let Some((bytes, touched)) = open.canvas.take_chunk(chunk) else { return Ok(()) };
        let chunk_index = open.chunk_index(chunk);
        let array = open.copy.array;
        if open.copy.is_done(&chunk_index) {
            return Ok(());
        }
        let mut done = open.is_sound().then_some(done);
        let nothing_to_write = |done: Option<&mut Vec<Record>>| {
            if let Some(done) = done {
                done.extend(open.copy.record(&chunk_index, None, None));
            }
            Ok(())
        };
        let leave = array.absent == AbsentChunks::Leave;
        if leave && !touched {
            return nothing_to_write(done);
        }
        pad(open.copy, &chunk_index, bytes)?;
        // without a fill value readers make up their own: what was stored stays stored
        if leave && array.source.metadata.fill_value.is_known() && is_fill(bytes, open.copy.fill()?) {
            return nothing_to_write(done);
        }
        with_buffers(|buffers| {
            let started = Instant::now();
            open.copy
                .target_chain()?
                .encode(&mut buffers.codec, bytes, &mut buffers.encoded)
                .map_err(codec_error)?;
            self.meter.encode_time.add_time(started.elapsed());
            self.meter.bytes_encoded.add(buffers.encoded.len() as u64);
            self.write(open.copy, &chunk_index, &buffers.encoded, Some(bytes), done.take())
        })
        .map_err(|error| {
            let mut key = String::new();
            array.target.chunk_key(&chunk_index, &mut key);
            error.context(format!("could not write chunk `{key}` of `{}`", array.target.path))
        })
    }
}

/// Sets what of a chunk lies outside the array to the fill value: it compresses, and hides nothing.
fn pad(copy: &Copy<'_>, chunk_index: &[u64], bytes: &mut [u8]) -> Result<()> {
    let grid = &copy.array.target.metadata.grid;
    let inside = grid.chunk_region(chunk_index).shape;
    let shape = to_usize(&grid.chunk_shape(chunk_index));
    if inside.iter().zip(&shape).all(|(&inside, &length)| saturating_usize(inside) == length) {
        return Ok(());
    }
    let item = bytes.len() / shape.iter().product::<usize>().max(1);
    let zeros = vec![0; item];
    let fill = copy.fill().unwrap_or(&zeros);
    let strides = c_strides(&shape, item);
    for (d, &length) in inside.iter().enumerate() {
        let length = saturating_usize(length);
        let mut outer = shape.clone();
        outer[d] -= length;
        let layout = Strided { offset: length * strides[d].unsigned_abs(), strides: &strides };
        if outer[d] > 0 {
            fill_strided(fill, &outer, bytes, layout).map_err(outside)?;
        }
    }
    Ok(())
}

/// Returns whether all elements are `fill`, bit by bit.
pub(super) fn is_fill(bytes: &[u8], fill: &[u8]) -> bool {
    !fill.is_empty() && bytes.chunks_exact(fill.len()).all(|element| element == fill)
}

fn fill_part(open: &OpenBox<'_>, cell: &mut Cell<'_>, region: &Region, element: &[u8]) -> Result<()> {
    let (start, shape) = (relative(&region.start, &open.region.start), to_usize(&region.shape));
    // what is fill in one of several sources may be a value in the copy
    if open.copy.array.gather.is_some() && open.copy.fill.as_deref() != Some(element) {
        let layout = Strided { offset: 0, strides: &vec![0; shape.len()] };
        return cell.write(&start, &shape, element, layout).map_err(outside);
    }
    cell.fill(&start, &shape, element).map_err(outside)
}

fn relative(start: &[u64], origin: &[u64]) -> Vec<usize> {
    start.iter().zip(origin).map(|(&at, &origin)| saturating_usize(at - origin)).collect()
}

fn outside(error: crate::kernels::copy::OutOfBounds) -> Error {
    Error::new(ErrorKind::Corrupt, "could not put a box together").with_source(error)
}
