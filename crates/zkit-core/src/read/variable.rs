//! Regions of elements without fixed size.

use std::time::Instant;

use rayon::prelude::*;

use super::reader::{ArrayReader, ChunkSource, ReadContext, codec_error, with_scratch};
use crate::codec::VariableElements;
use crate::error::{Error, Result};
use crate::grid::{Region, for_each_index};
use crate::units::saturating_usize;

impl ArrayReader<'_> {
    /// Calls `visit` with every element of a region in C order; memory: the chunks that the region touches.
    pub fn visit_variable(
        &self,
        region: &Region,
        context: ReadContext<'_>,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let grid = &self.node().metadata.grid;
        let ranges = grid.chunks_of(region);
        let mut chunks = Vec::new();
        for_each_index(&ranges, |chunk_index| {
            chunks.push(chunk_index.to_vec());
            Ok::<_, Error>(())
        })?;
        let fetched = self.fetch(&chunks, context.meter)?;
        let decoded: Result<Vec<Option<VariableElements>>> = context.pool.install(|| {
            let work = chunks.par_iter().enumerate().map(|(position, chunk_index)| {
                context.cancel.check()?;
                let source = match &fetched {
                    Some(fetched) => ChunkSource::Fetched(fetched[position].as_ref()),
                    None => ChunkSource::Local,
                };
                let part = grid.chunk_region(chunk_index).intersection(region);
                self.decode_variable_part(chunk_index, &part, &source, context)
            });
            work.collect()
        });
        let decoded = decoded?;
        let absent = decoded.iter().any(Option::is_none);
        let fill = if absent { self.fill()? } else { &[] };
        let elements: Vec<_> =
            region.start.iter().zip(&region.shape).map(|(&start, &length)| start..start + length).collect();
        for_each_index(&elements, |element| {
            let (mut chunk_position, mut inner_position) = (0usize, 0usize);
            for dimension in 0..element.len() {
                let chunk = grid.chunk_along(dimension, element[dimension]);
                let range = &ranges[dimension];
                chunk_position = chunk_position * saturating_usize(range.end - range.start)
                    + saturating_usize(chunk.index - range.start);
                inner_position = inner_position * saturating_usize(chunk.length)
                    + saturating_usize(element[dimension] - chunk.start);
            }
            visit(decoded[chunk_position].as_ref().map_or(fill, |elements| elements.get(inner_position)));
            Ok::<_, Error>(())
        })
    }

    pub(super) fn decode_variable_chunk(
        &self,
        chunk_index: &[u64],
        source: &ChunkSource<'_>,
        context: ReadContext<'_>,
    ) -> Result<Option<VariableElements>> {
        let whole = self.node().metadata.grid.chunk_region(chunk_index);
        self.decode_variable_part(chunk_index, &whole, source, context)
    }

    /// Decodes a chunk, or as much of it as holds the elements of `part`; the others hold anything.
    fn decode_variable_part(
        &self,
        chunk_index: &[u64],
        part: &Region,
        source: &ChunkSource<'_>,
        context: ReadContext<'_>,
    ) -> Result<Option<VariableElements>> {
        let chunk = self.node().metadata.grid.chunk_region(chunk_index);
        let start = part.start.iter().zip(&chunk.start).map(|(&at, &origin)| at.saturating_sub(origin));
        let wanted = Region { start: start.collect(), shape: part.shape.clone() };
        with_scratch(|scratch, buffer, _| {
            let Some(encoded) = self.encoded(chunk_index, source, buffer, context.meter)? else {
                return Ok(None);
            };
            let started = Instant::now();
            let elements = self
                .chain_for(chunk_index)?
                .decode_variable_part(scratch, encoded, Some(&wanted), self.chunk_limit())
                .map_err(codec_error)?;
            context.meter.bytes_decoded.add(elements.memory_bytes() as u64);
            context.meter.decode_time.add_time(started.elapsed());
            Ok(Some(elements))
        })
        .map_err(|error| self.chunk_error(chunk_index, error))
    }
}
