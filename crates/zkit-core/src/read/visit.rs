//! The part of one chunk, handed to a visitor where it was decoded: whoever assembles copies it once.

use std::ops::Range;
use std::time::Instant;

use super::reader::{ArrayReader, ChunkSource, ThreadBuffers, codec_error, to_usize, with_buffers};
use crate::codec::{Chain, ShardCodec};
use crate::error::Result;
use crate::event::Meter;
use crate::grid::{Region, for_each_index};
use crate::kernels::copy::{Strided, Strides, c_strides};
use crate::units::saturating_usize;

/// Smaller chunks are read whole: one read costs less than two.
const SPAN_CHUNK_BYTES: usize = 256 << 10;
/// Larger shards are read inner chunk by inner chunk, however many are wanted.
pub(crate) const WHOLE_SHARD_BYTES: u64 = 64 << 20;

/// Some elements of a visited part.
#[derive(Debug)]
pub enum Piece<'a> {
    /// Elements of a region of the array, and where they lie.
    Elements {
        /// The elements, by their place in the array.
        region: &'a Region,
        /// A buffer that holds them.
        bytes: &'a [u8],
        /// Where in it.
        layout: Strided<'a>,
    },
    /// The whole part, as the chunk is absent.
    Absent,
    /// A region of the array that holds nothing but one element: inner chunks that a shard leaves out.
    Fill {
        /// The elements, by their place in the array.
        region: &'a Region,
        /// The element.
        element: &'a [u8],
    },
}

/// Takes the pieces of a part.
pub type Visitor<'v> = dyn FnMut(Piece<'_>) -> Result<()> + 'v;

/// A part of one chunk that is wanted.
struct Wanted<'a> {
    chunk_index: &'a [u64],
    /// The part, by elements of the array.
    part: &'a Region,
    /// Its first element in the chunk.
    start: Vec<usize>,
    shape: Vec<usize>,
}

impl ArrayReader<'_> {
    /// Decodes a part of one chunk and calls `visit` with its pieces; together they are the part.
    ///
    /// Costs what the codecs ask for: of shards the inner chunks that the part touches, of blosc frames the blocks; of
    /// local chunks no more is read than that.
    pub fn visit_part(
        &self,
        chunk_index: &[u64],
        part: &Region,
        source: &ChunkSource<'_>,
        meter: &Meter,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let chain = self.chain_for(chunk_index)?;
        let origin = self.node().metadata.grid.chunk_region(chunk_index).start;
        let start =
            part.start.iter().zip(&origin).map(|(&at, &origin)| saturating_usize(at - origin)).collect();
        let wanted = Wanted { chunk_index, part, start, shape: to_usize(&part.shape) };
        let visited = with_buffers(|buffers| match chain.shard() {
            Some(shard) => self.visit_shard(shard, &chain, &wanted, source, buffers, meter, visit),
            None => self.visit_chunk(&chain, &wanted, source, buffers, meter, visit),
        });
        visited.map_err(|error| self.chunk_error(chunk_index, error))
    }

    fn visit_chunk(
        &self,
        chain: &Chain,
        wanted: &Wanted<'_>,
        source: &ChunkSource<'_>,
        buffers: &mut ThreadBuffers,
        meter: &Meter,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let decoded_bytes = chain.decoded_bytes().unwrap_or(0);
        let item = self.item_bytes().unwrap_or(1);
        let strides = c_strides(chain.shape(), item);
        let hull = wanted.hull(&strides, item);
        let range = if chain.partial_decode().is_some() { hull.clone() } else { 0..decoded_bytes };
        let narrow = range.len() <= decoded_bytes / 2 && decoded_bytes >= SPAN_CHUNK_BYTES;
        if let (ChunkSource::Local, true) = (source, narrow)
            && chain.stored_span(&[], range.clone()).map_err(codec_error)?.is_some()
        {
            if !self.decode_span(chain, wanted, range.clone(), buffers, meter)? {
                return visit(Piece::Absent);
            }
        } else {
            let ThreadBuffers { codec, encoded, decoded, .. } = buffers;
            let Some(encoded) = self.encoded(wanted.chunk_index, source, encoded, meter)? else {
                return visit(Piece::Absent);
            };
            let started = Instant::now();
            resize(decoded, range.len());
            if range.len() == decoded_bytes {
                chain.decode_into(codec, encoded, decoded).map_err(codec_error)?;
            } else {
                chain.decode_range(codec, encoded, range.clone(), decoded).map_err(codec_error)?;
            }
            meter.bytes_decoded.add(range.len() as u64);
            meter.decode_time.add_time(started.elapsed());
        }
        let started = Instant::now();
        let layout = Strided { offset: hull.start - range.start, strides: &strides };
        let visited = visit(Piece::Elements { region: wanted.part, bytes: &buffers.decoded, layout });
        meter.assemble_time.add_time(started.elapsed());
        visited
    }

    /// Reads and decodes a byte range of a local chunk without the rest of it; returns `false` if it is absent.
    fn decode_span(
        &self,
        chain: &Chain,
        wanted: &Wanted<'_>,
        range: Range<usize>,
        buffers: &mut ThreadBuffers,
        meter: &Meter,
    ) -> Result<bool> {
        let ThreadBuffers { codec, encoded: body, decoded, head } = buffers;
        let Some(start) = self.fetch_span(wanted.chunk_index, chain, range.clone(), (head, body), meter)?
        else {
            return Ok(false);
        };
        let started = Instant::now();
        resize(decoded, range.len());
        chain.decode_span(codec, head, (start, body), range, decoded).map_err(codec_error)?;
        meter.bytes_decoded.add(decoded.len() as u64);
        meter.decode_time.add_time(started.elapsed());
        Ok(true)
    }

    #[expect(clippy::too_many_arguments, reason = "the part, its bytes and where they go")]
    fn visit_shard(
        &self,
        shard: &ShardCodec,
        chain: &Chain,
        wanted: &Wanted<'_>,
        source: &ChunkSource<'_>,
        buffers: &mut ThreadBuffers,
        meter: &Meter,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let ThreadBuffers { codec, encoded, decoded, head } = buffers;
        let mut key = String::with_capacity(64);
        self.node().chunk_key(wanted.chunk_index, &mut key);
        let whole = wanted.shape == chain.shape();
        let large = chain.decoded_bytes().is_none_or(|bytes| bytes as u64 > WHOLE_SHARD_BYTES);
        let alone = matches!(source, ChunkSource::Local) && (large || !whole);
        let (index, bytes) = if alone {
            let Some(index) = self.stored_index(shard, &key, (codec, head), meter)? else {
                return visit(Piece::Absent);
            };
            (index, None)
        } else {
            let Some(bytes) = self.encoded(wanted.chunk_index, source, encoded, meter)? else {
                return visit(Piece::Absent);
            };
            (shard.index_of(codec, bytes).map_err(codec_error)?, Some(bytes))
        };
        let item = self.item_bytes().unwrap_or(1);
        let inner_shape = shard.inner().shape();
        let inner_bytes = shard.inner().decoded_bytes().unwrap_or(0);
        let strides = c_strides(inner_shape, item);
        let rank = inner_shape.len();
        let ranges: Vec<Range<u64>> = (0..rank)
            .map(|d| {
                let end = (wanted.start[d] + wanted.shape[d]).div_ceil(inner_shape[d]);
                (wanted.start[d] / inner_shape[d]) as u64..end as u64
            })
            .collect();
        let mut region = wanted.part.clone();
        for_each_index(&ranges, |inner| {
            let mut offset = 0;
            for d in 0..rank {
                let origin = saturating_usize(inner[d]) * inner_shape[d];
                let from = wanted.start[d].max(origin);
                let end = (wanted.start[d] + wanted.shape[d]).min(origin + inner_shape[d]);
                region.start[d] = wanted.part.start[d] + (from - wanted.start[d]) as u64;
                region.shape[d] = (end - from) as u64;
                offset += (from - origin) * strides[d].unsigned_abs();
            }
            let position = inner.iter().zip(shard.counts()).fold(0, |flat, (&at, &count)| flat * count + at);
            let Some(place) = index.0[saturating_usize(position)] else {
                return visit(Piece::Fill { region: &region, element: self.fill()? });
            };
            let started = Instant::now();
            let stored = match bytes {
                Some(bytes) => ShardCodec::inner_bytes(bytes, &place),
                None => {
                    self.check_span(place.length)?;
                    // the index was checked against the shard's length
                    if self.store().get_range(&key, place.offset, place.length, head)?.is_none() {
                        return visit(Piece::Absent);
                    }
                    meter.bytes_read.add(place.length);
                    head.as_slice()
                }
            };
            meter.read_time.add_time(started.elapsed());
            let started = Instant::now();
            resize(decoded, inner_bytes);
            shard.inner().decode_into(codec.inner(), stored, decoded).map_err(codec_error)?;
            meter.bytes_decoded.add(inner_bytes as u64);
            meter.decode_time.add_time(started.elapsed());
            let started = Instant::now();
            let layout = Strided { offset, strides: &strides };
            let visited = visit(Piece::Elements { region: &region, bytes: decoded, layout });
            meter.assemble_time.add_time(started.elapsed());
            visited
        })
    }
}

impl Wanted<'_> {
    /// Returns the decoded bytes from the first element of the part to its last.
    fn hull(&self, strides: &Strides, item: usize) -> Range<usize> {
        let offset = |(&at, stride): (&usize, &isize)| at * stride.unsigned_abs();
        let first: usize = self.start.iter().zip(strides.iter()).map(offset).sum();
        let last: usize = self
            .shape
            .iter()
            .zip(strides.iter())
            .map(|(&length, stride)| offset((&length.saturating_sub(1), stride)))
            .sum();
        first..first + last + item
    }
}

/// Makes a buffer that long; what it holds does not matter, as it is overwritten.
pub(super) fn resize(buffer: &mut Vec<u8>, length: usize) {
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    buffer.truncate(length);
}
