//! A whole array of one dimension or none, with what of it was never written.

use std::ops::Range;

use rayon::prelude::*;

use super::reader::{ArrayReader, ChunkSource, ReadContext, fill_run};
use super::visit::Piece;
use crate::codec::VariableElements;
use crate::error::{Error, ErrorKind, Result};
use crate::grid::Region;
use crate::kernels::copy::{Strided, c_strides, copy_strided};
use crate::units::{Bytes, saturating_usize};

/// Elements without fixed size are taken to need so many bytes at least.
const VARIABLE_ITEM_BYTES: u64 = 32;
/// Chunks that are fetched before they are decoded.
const GROUP: u64 = 256;
/// Lines of more chunks are refused: each is a file or a request, there or not.
const CHUNKS_MOST: u64 = 1 << 18;

/// The elements of an array of one dimension.
#[derive(Debug)]
pub struct Line {
    /// The elements in order.
    pub elements: LineElements,
    /// Elements that no chunk holds, and that read as the fill value: ascending, apart from each other.
    pub absent: Vec<Range<u64>>,
}

/// Elements of fixed or of any size.
#[derive(Debug)]
pub enum LineElements {
    /// Canonical elements, one after the other.
    Fixed(Vec<u8>),
    /// Elements without fixed size.
    Variable(VariableElements),
}

impl ArrayReader<'_> {
    /// Reads an array of one dimension whole; one without dimensions is a line of one element, which is never absent.
    ///
    /// Every chunk is fetched and decoded once; memory: the elements, and a chunk a thread. Errors: `OverBudget` where the
    /// elements or one chunk take more than `limit_bytes`, `Usage` for arrays of other ranks.
    pub fn read_line(&self, limit_bytes: u64, context: ReadContext<'_>) -> Result<Line> {
        let metadata = &self.node().metadata;
        if metadata.shape().is_empty() {
            return self.read_scalar(limit_bytes, context);
        }
        let [length] = *metadata.shape() else {
            let message = format!(
                "`{}` has {} dimensions, one at most is expected",
                self.node().path,
                metadata.shape().len()
            );
            return Err(Error::new(ErrorKind::Usage, message));
        };
        let item_bytes = metadata.data_type.item_bytes().unwrap_or(VARIABLE_ITEM_BYTES);
        let chunk = metadata.grid.largest_chunk_shape().first().copied().unwrap_or(1);
        let chunks = metadata.grid.counts().first().copied().unwrap_or(0);
        let needed = length.max(chunk).checked_mul(item_bytes);
        if needed.is_none_or(|needed| needed > limit_bytes) || chunks > CHUNKS_MOST {
            let message = format!(
                "`{}` is too large to be read whole: {length} elements in {chunks} chunks of {chunk}, {} in {CHUNKS_MOST} \
                 chunks allowed",
                self.node().path,
                Bytes(limit_bytes)
            );
            return Err(Error::new(ErrorKind::OverBudget, message));
        }
        if self.item_bytes().is_none() {
            return self.read_variable_line(length, chunks, limit_bytes, context);
        }
        self.read_fixed_line(length, chunks, context)
    }

    fn read_scalar(&self, limit_bytes: u64, context: ReadContext<'_>) -> Result<Line> {
        let region = Region::whole(&[]);
        let Some(item) = self.item_bytes() else {
            let mut elements = VariableElements::default();
            self.visit_variable(&region, context, &mut |element| elements.push(element))?;
            return Ok(Line { elements: LineElements::Variable(elements), absent: Vec::new() });
        };
        if item as u64 > limit_bytes {
            let message =
                format!("the element of `{}` is too large: {}", self.node().path, Bytes(item as u64));
            return Err(Error::new(ErrorKind::OverBudget, message));
        }
        let mut bytes = vec![0; item];
        self.read_region(&region, &mut bytes, context)?;
        Ok(Line { elements: LineElements::Fixed(bytes), absent: Vec::new() })
    }

    fn read_fixed_line(&self, length: u64, chunks: u64, context: ReadContext<'_>) -> Result<Line> {
        let item = self.item_bytes().unwrap_or(1);
        let mut bytes = vec![0; saturating_usize(length).saturating_mul(item)];
        let mut absent = Vec::new();
        let mut rest = bytes.as_mut_slice();
        for group in groups(chunks) {
            let fetched = self.fetch(&group, context.meter)?;
            let work: Vec<_> = group
                .iter()
                .enumerate()
                .map(|(position, chunk_index)| {
                    let part = self.inside(chunk_index, length);
                    let run = rest.split_off_mut(..saturating_usize(part.shape[0]) * item);
                    (position, chunk_index, part, run.unwrap_or_default())
                })
                .collect();
            let found: Result<Vec<Vec<Range<u64>>>> = context.pool.install(|| {
                work.into_par_iter()
                    .map(|(position, chunk_index, part, run)| {
                        let source = match &fetched {
                            Some(fetched) => ChunkSource::Fetched(fetched[position].as_ref()),
                            None => ChunkSource::Local,
                        };
                        self.read_run(chunk_index, &part, &source, run, context)
                    })
                    .collect()
            });
            absent.extend(found?.into_iter().flatten());
        }
        Ok(Line { elements: LineElements::Fixed(bytes), absent: joined(absent) })
    }

    /// Decodes one chunk into `run`; returns what of it is absent.
    fn read_run(
        &self,
        chunk_index: &[u64],
        part: &Region,
        source: &ChunkSource<'_>,
        run: &mut [u8],
        context: ReadContext<'_>,
    ) -> Result<Vec<Range<u64>>> {
        context.cancel.check()?;
        let item = self.item_bytes().unwrap_or(1);
        let mut absent = Vec::new();
        let place = |region: &Region| {
            let start = saturating_usize(region.start[0] - part.start[0]) * item;
            start..start + saturating_usize(region.shape[0]) * item
        };
        self.visit_part(chunk_index, part, source, context.meter, &mut |piece| match piece {
            Piece::Elements { region, bytes, layout } => {
                let run = &mut run[place(region)];
                let shape = [saturating_usize(region.shape[0])];
                let to = Strided { offset: 0, strides: &c_strides(&shape, item) };
                copy_strided(item, &shape, bytes, layout, run, to).map_err(|error| {
                    Error::new(ErrorKind::Corrupt, "could not assemble a run").with_source(error)
                })
            }
            Piece::Absent => {
                absent.push(part.start[0]..part.start[0] + part.shape[0]);
                fill_run(self.fill()?, run)
            }
            Piece::Fill { region, element } => {
                absent.push(region.start[0]..region.start[0] + region.shape[0]);
                fill_run(element, &mut run[place(region)])
            }
        })?;
        Ok(absent)
    }

    fn read_variable_line(
        &self,
        length: u64,
        chunks: u64,
        limit_bytes: u64,
        context: ReadContext<'_>,
    ) -> Result<Line> {
        let mut elements = VariableElements::default();
        let mut absent = Vec::new();
        for group in groups(chunks) {
            let fetched = self.fetch(&group, context.meter)?;
            for (position, chunk_index) in group.iter().enumerate() {
                context.cancel.check()?;
                let source = match &fetched {
                    Some(fetched) => ChunkSource::Fetched(fetched[position].as_ref()),
                    None => ChunkSource::Local,
                };
                let part = self.inside(chunk_index, length);
                let (start, count) = (part.start[0], part.shape[0]);
                match self.decode_variable_chunk(chunk_index, &source, context)? {
                    Some(decoded) => {
                        decoded.iter().take(saturating_usize(count)).for_each(|item| elements.push(item));
                    }
                    None => {
                        let fill = self.fill()?;
                        (0..count).for_each(|_| elements.push(fill));
                        absent.push(start..start + count);
                    }
                }
                if elements.memory_bytes() as u64 > limit_bytes {
                    let message = format!(
                        "`{}` is too large to be read whole: {} allowed",
                        self.node().path,
                        Bytes(limit_bytes)
                    );
                    return Err(Error::new(ErrorKind::OverBudget, message));
                }
            }
        }
        Ok(Line { elements: LineElements::Variable(elements), absent: joined(absent) })
    }

    /// Returns the part of a chunk that lies in the array.
    fn inside(&self, chunk_index: &[u64], length: u64) -> Region {
        self.node().metadata.grid.chunk_region(chunk_index).intersection(&Region::whole(&[length]))
    }
}

/// Returns the indices of all chunks of a line in groups.
fn groups(chunks: u64) -> impl Iterator<Item = Vec<Vec<u64>>> {
    let starts = (0..chunks.div_ceil(GROUP)).map(|group| group * GROUP);
    starts.map(move |start| (start..chunks.min(start + GROUP)).map(|index| vec![index]).collect())
}

/// Joins ranges that touch; they are sorted.
fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}
