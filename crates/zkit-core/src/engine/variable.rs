//! Rechunks of elements without fixed size: a box is read once, and its chunks are picked from it.

use std::time::Instant;

use super::copy::{Copy, Run};
use super::journal::Record;
use crate::codec::VariableElements;
use crate::error::{Error, Result};
use crate::grid::{for_each_index, product};
use crate::metadata::AbsentChunks;
use crate::plan::{Cover, Unit};
use crate::read::{ReadContext, codec_error, with_scratch};
use crate::units::saturating_usize;

impl Run<'_> {
    /// Rewrites the box of one unit.
    pub(super) fn variable_box(&self, unit: &Unit, copy: &Copy<'_>, done: &mut Vec<Record>) -> Result<()> {
        self.cancel.check()?;
        let (Cover::Box(position), Some(rechunk)) = (&unit.cover, &copy.array.rechunk) else { return Ok(()) };
        let (source, grid) = (&copy.array.source.metadata, &copy.array.target.metadata.grid);
        let region = rechunk.unit_region(grid, *position);
        let mut elements = VariableElements::default();
        let context = ReadContext { pool: self.pool, cancel: self.cancel, meter: self.meter };
        copy.reader()?.visit_variable(&region, context, &mut |element| elements.push(element))?;
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
            if leave && chunk.iter().all(|element| element == fill) {
                copy.record(chunk_index, None, None, done);
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
}
