//! Rechunks of elements without fixed size: a box is read once, and its chunks are picked from it.

use std::time::Instant;

use super::copy::Run;
use super::journal::Record;
use super::prepared::Copy;
use crate::codec::VariableElements;
use crate::error::{Error, Result};
use crate::grid::{Region, for_each_index, product};
use crate::metadata::AbsentChunks;
use crate::plan::{Cover, Unit};
use crate::read::{ChunkSource, ReadContext, codec_error, with_scratch};
use crate::units::saturating_usize;

impl Run<'_> {
    /// Rewrites the box of one unit.
    pub(super) fn variable_box(&self, unit: &Unit, copy: &Copy<'_>, done: &mut Vec<Record>) -> Result<()> {
        self.cancel.check()?;
        let (Cover::Box(position), Some(rechunk)) = (&unit.cover, &copy.array.rechunk) else { return Ok(()) };
        let (source, grid) = (&copy.array.source.metadata, &copy.array.target.metadata.grid);
        let region = rechunk.unit_region(grid, *position);
        let mut elements = VariableElements::default();
        let context =
            ReadContext { pool: self.pool, cancel: self.cancel, meter: self.meter, in_flight_bytes: 0 };
        let sound = self.read_box(copy, &region, context, &mut elements)?;
        let fill = copy.fill()?;
        let leave = copy.array.absent == AbsentChunks::Leave && source.fill_value.is_known();
        let chunk_shape = grid.largest_chunk_shape();
        let count = saturating_usize(product(&chunk_shape).unwrap_or(u64::MAX));
        for_each_index(&rechunk.chunk_ranges(grid, *position), |chunk_index| {
            self.cancel.check()?;
            if copy.is_done(chunk_index) {
                return Ok(());
            }
            let started = Instant::now();
            let inside = grid.chunk_region(chunk_index);
            let mut chunk = VariableElements::filled(fill, count);
            let ranges: Vec<_> =
                inside.start.iter().zip(&inside.shape).map(|(&at, &length)| at..at + length).collect();
            // visiting cannot fail
            let _ = for_each_index::<()>(&ranges, |index| {
                let flat = |origin: &[u64], shape: &[u64]| {
                    let along = index.iter().zip(origin).zip(shape);
                    saturating_usize(
                        along.fold(0, |flat, ((&at, &origin), &length)| flat * length + at - origin),
                    )
                };
                chunk
                    .set(flat(&inside.start, &chunk_shape), elements.get(flat(&region.start, &region.shape)));
                Ok(())
            });
            self.meter.assemble_time.add_time(started.elapsed());
            // else not recorded: a resumed run must find it again
            let done = sound.then_some(&mut *done);
            if leave && chunk.iter().all(|element| element == fill) {
                if let Some(done) = done {
                    done.extend(copy.record(chunk_index, None, None));
                }
                return Ok(());
            }
            let started = Instant::now();
            with_scratch(|scratch, _, encoded| {
                copy.target_chain()?.encode_variable(scratch, &chunk, encoded).map_err(codec_error)?;
                self.meter.encode_time.add_time(started.elapsed());
                self.meter.bytes_encoded.add(encoded.len() as u64);
                self.write(copy, chunk_index, encoded, None, done)
            })
            .map_err(|error: Error| {
                let mut key = String::new();
                copy.array.target.chunk_key(chunk_index, &mut key);
                error.context(format!("could not write chunk `{key}` of `{}`", copy.array.target.path))
            })
        })
    }

    /// Reads the elements of a box; where chunks are to be skipped that do not decode, chunk by chunk. Returns whether all
    /// of them decoded.
    fn read_box(
        &self,
        copy: &Copy<'_>,
        region: &Region,
        context: ReadContext<'_>,
        elements: &mut VariableElements,
    ) -> Result<bool> {
        let whole = copy.reader()?.visit_variable(region, context, &mut |element| elements.push(element));
        let Err(error) = whole else { return Ok(true) };
        if !self.skips(&error) {
            self.corrupt(copy, &[], None, error)?;
        }
        let grid = &copy.array.source.metadata.grid;
        let count = saturating_usize(region.elements().unwrap_or(u64::MAX));
        *elements = VariableElements::filled(copy.fill()?, count);
        for_each_index(&grid.chunks_of(region), |chunk_index| {
            let part = grid.chunk_region(chunk_index).intersection(region);
            let Err(error) = read_part(copy, &part, region, context, elements) else { return Ok(()) };
            let inner = self.inner_chunks(copy, chunk_index, &part, &ChunkSource::Local, &error)?;
            if inner.is_empty() {
                return self.corrupt(copy, chunk_index, None, error);
            }
            inner.iter().try_for_each(|(inner, part)| {
                read_part(copy, part, region, context, elements)
                    .or_else(|error| self.corrupt(copy, chunk_index, Some(inner), error))
            })
        })?;
        Ok(false)
    }
}

/// Reads a part of a box to its place among the elements of the box; they stay as they were after an error.
fn read_part(
    copy: &Copy<'_>,
    part: &Region,
    region: &Region,
    context: ReadContext<'_>,
    elements: &mut VariableElements,
) -> Result<()> {
    let mut found = Vec::new();
    copy.reader()?.visit_variable(part, context, &mut |element| found.push(element.to_vec()))?;
    let ranges: Vec<_> = part.start.iter().zip(&part.shape).map(|(&at, &length)| at..at + length).collect();
    let mut found = found.into_iter();
    for_each_index(&ranges, |index| {
        let along = index.iter().zip(&region.start).zip(&region.shape);
        let flat = along.fold(0, |flat, ((&at, &start), &length)| flat * length + at - start);
        elements.set(saturating_usize(flat), &found.next().unwrap_or_default());
        Ok(())
    })
}
