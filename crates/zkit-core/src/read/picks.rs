//! Picked boxes of one chunk: only the blocks that they touch are read and decoded, where that is less work than the whole.

use std::ops::Range;
use std::time::Instant;

use super::reader::{ArrayReader, ChunkSource, ThreadBuffers, codec_error, with_buffers};
use super::visit::resize;
use crate::codec::{Chain, PartialDecode, ShardCodec, StoredSpan};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Meter;
use crate::kernels::copy::{Strided, Strides, c_strides};
use crate::units::saturating_usize;

/// Smaller chunks are decoded whole: that is done before the blocks are found.
const PICK_CHUNK_BYTES: usize = 256 << 10;
/// Where more blocks than so many in a hundred are touched, all are decoded: in one read and one go.
const MOST_BLOCKS_PERCENT: usize = 60;
/// More rows of elements than this are not looked at one by one.
const MOST_ROWS: usize = 1 << 16;
/// What is read first of a chunk whose front says where its blocks lie.
const HEAD_BYTES: u64 = 4096;

/// Boxes of elements of one chunk, by their place in it.
#[derive(Debug, Clone, Default)]
pub struct Boxes {
    rank: usize,
    /// Start and shape of each box, one after the other.
    numbers: Vec<usize>,
    count: usize,
}

impl Boxes {
    /// Returns no boxes of this rank.
    pub fn new(rank: usize) -> Self {
        Self { rank, numbers: Vec::new(), count: 0 }
    }

    /// Adds a box.
    pub fn push(&mut self, start: impl IntoIterator<Item = usize>, shape: impl IntoIterator<Item = usize>) {
        self.numbers.extend(start.into_iter().take(self.rank));
        self.numbers.extend(shape.into_iter().take(self.rank));
        self.count += 1;
    }

    /// Returns the start and the shape of a box.
    pub fn get(&self, number: usize) -> (&[usize], &[usize]) {
        self.numbers[number * 2 * self.rank..(number + 1) * 2 * self.rank].split_at(self.rank)
    }

    fn iter(&self) -> impl Iterator<Item = (&[usize], &[usize])> {
        (0..self.count).map(|number| self.get(number))
    }
}

/// A part of a box that was decoded.
#[derive(Debug)]
pub struct BoxPiece<'a> {
    /// The number of the box.
    pub number: usize,
    /// The first element, by its place in the box.
    pub start: &'a [usize],
    /// How many elements along each dimension.
    pub shape: &'a [usize],
    /// The elements; `None` where they are fill, as the inner chunk is absent.
    pub elements: Option<(&'a [u8], Strided<'a>)>,
}

/// Takes the pieces of boxes.
pub type BoxVisitor<'v> = dyn FnMut(BoxPiece<'_>) -> Result<()> + 'v;

impl ArrayReader<'_> {
    /// Decodes boxes of one chunk and calls `visit` with their pieces; returns whether the chunk exists.
    ///
    /// Each block of a blosc frame, and each inner chunk of a shard, is decoded at most once, those that no box touches
    /// not at all.
    pub fn visit_boxes(
        &self,
        chunk_index: &[u64],
        boxes: &Boxes,
        source: &ChunkSource<'_>,
        meter: &Meter,
        visit: &mut BoxVisitor<'_>,
    ) -> Result<bool> {
        let chain = self.chain_for(chunk_index)?;
        let visited = with_buffers(|buffers| {
            let chunk = Picked { reader: self, chain: &chain, chunk_index, boxes, source, meter };
            match chain.shard() {
                Some(shard) => chunk.visit_shard(shard, buffers, visit),
                None => chunk.visit(buffers, visit),
            }
        });
        visited.map_err(|error| self.chunk_error(chunk_index, error))
    }
}

/// A chunk of which boxes are wanted.
struct Picked<'a> {
    reader: &'a ArrayReader<'a>,
    chain: &'a Chain,
    chunk_index: &'a [u64],
    boxes: &'a Boxes,
    source: &'a ChunkSource<'a>,
    meter: &'a Meter,
}

impl Picked<'_> {
    fn visit(&self, buffers: &mut ThreadBuffers, visit: &mut BoxVisitor<'_>) -> Result<bool> {
        let strides = c_strides(self.chain.shape(), self.reader.item_bytes().unwrap_or(1));
        if !self.decode(&strides, buffers)? {
            return Ok(false);
        }
        let started = Instant::now();
        let origin = vec![0; self.boxes.rank];
        for (number, (start, shape)) in self.boxes.iter().enumerate() {
            let layout = Strided { offset: offset(start, &strides), strides: &strides };
            let elements = Some((buffers.decoded.as_slice(), layout));
            visit(BoxPiece { number, start: &origin, shape, elements })?;
        }
        self.meter.assemble_time.add_time(started.elapsed());
        Ok(true)
    }

    /// Decodes what the boxes touch to its place in `buffers.decoded`; returns whether the chunk exists.
    fn decode(&self, strides: &Strides, buffers: &mut ThreadBuffers) -> Result<bool> {
        let ThreadBuffers { codec, encoded, decoded, head } = buffers;
        let decoded_bytes = self.chain.decoded_bytes().unwrap_or(0);
        if let ChunkSource::Local = self.source
            && self.is_in_blocks(decoded_bytes)
        {
            if !self.read_head(head)? {
                return Ok(false);
            }
            if let Some(ranges) = self.touched(head, strides) {
                resize(decoded, decoded_bytes);
                for range in ranges {
                    if !self.decode_stored(range, head, encoded, codec, decoded)? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
        }
        let Some(stored) = self.reader.encoded(self.chunk_index, self.source, encoded, self.meter)? else {
            return Ok(false);
        };
        let started = Instant::now();
        resize(decoded, decoded_bytes);
        let in_blocks = self.is_in_blocks(decoded_bytes);
        let ranges = if in_blocks { self.touched(stored, strides) } else { None };
        let last = self.boxes.iter().map(|(start, shape)| end(start, shape, strides, self.item())).max();
        match (ranges, self.chain.partial_decode()) {
            (Some(ranges), _) => {
                for range in ranges {
                    self.meter.bytes_decoded.add(range.len() as u64);
                    let to = &mut decoded[range.clone()];
                    self.chain.decode_range(codec, stored, range, to).map_err(codec_error)?;
                }
            }
            (None, Some(PartialDecode::Zstd)) if !self.chain.has_checksum(stored) => {
                let range = 0..last.unwrap_or(0).min(decoded_bytes);
                self.meter.bytes_decoded.add(range.len() as u64);
                let to = &mut decoded[range.clone()];
                self.chain.decode_range(codec, stored, range, to).map_err(codec_error)?;
            }
            _ => {
                self.meter.bytes_decoded.add(decoded_bytes as u64);
                self.chain.decode_into(codec, stored, decoded).map_err(codec_error)?;
            }
        }
        self.meter.decode_time.add_time(started.elapsed());
        Ok(true)
    }

    fn item(&self) -> usize {
        self.reader.item_bytes().unwrap_or(1)
    }

    /// Returns whether blocks can be had alone, and finding them can pay.
    fn is_in_blocks(&self, decoded_bytes: usize) -> bool {
        let blocks =
            matches!(self.chain.partial_decode(), Some(PartialDecode::Blosc | PartialDecode::Stored));
        // what a part of the chunk gives is not known to be right before its checksum is
        blocks && decoded_bytes >= PICK_CHUNK_BYTES && !self.chain.has_checksum(&[])
    }

    /// Reads what says where the blocks of a local chunk lie; returns whether the chunk exists.
    fn read_head(&self, head: &mut Vec<u8>) -> Result<bool> {
        let started = Instant::now();
        let mut key = String::with_capacity(64);
        self.reader.node().chunk_key(self.chunk_index, &mut key);
        let mut asked = 0;
        head.clear();
        while let Some(StoredSpan::HeadNeeded(more)) =
            self.chain.stored_span(head, 0..1).map_err(codec_error)?
        {
            if more <= asked {
                let message = format!("the chunk ends inside its first {asked} bytes");
                return Err(Error::new(ErrorKind::Corrupt, message));
            }
            self.reader.check_span(more)?;
            asked = more;
            if self.reader.store().get_range(&key, 0, more.max(HEAD_BYTES), head)?.is_none() {
                return Ok(false);
            }
        }
        self.meter.bytes_read.add(head.len() as u64);
        self.meter.read_time.add_time(started.elapsed());
        Ok(true)
    }

    /// Returns the decoded bytes of the blocks that the boxes touch, neighbours together; `None` where decoding all of
    /// them is less work. `head` is the chunk's front at least.
    fn touched(&self, head: &[u8], strides: &Strides) -> Option<Vec<Range<usize>>> {
        let decoded_bytes = self.chain.decoded_bytes()?;
        let block = self.chain.block_bytes(head)?;
        let count = decoded_bytes.div_ceil(block);
        let mut touched = vec![false; count];
        let mut rows = 0;
        for (start, shape) in self.boxes.iter() {
            rows += rows_of(shape, strides, self.item(), offset(start, strides), MOST_ROWS - rows, |row| {
                touched[row.start / block..=(row.end - 1) / block].fill(true);
            })?;
        }
        let total = touched.iter().filter(|&&touched| touched).count();
        if total * 100 > count * MOST_BLOCKS_PERCENT {
            return None;
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for at in (0..count).filter(|&at| touched[at]) {
            let (start, end) = (at * block, ((at + 1) * block).min(decoded_bytes));
            match ranges.last_mut() {
                Some(range) if range.end == start => range.end = end,
                _ => ranges.push(start..end),
            }
        }
        Some(ranges)
    }

    /// Reads and decodes a range of a local chunk to its place; returns whether the chunk still exists.
    fn decode_stored(
        &self,
        range: Range<usize>,
        head: &[u8],
        body: &mut Vec<u8>,
        codec: &mut crate::codec::Scratch,
        decoded: &mut [u8],
    ) -> Result<bool> {
        let started = Instant::now();
        let Some(StoredSpan::At(span)) = self.chain.stored_span(head, range.clone()).map_err(codec_error)?
        else {
            return Err(Error::new(ErrorKind::Corrupt, "its front does not say where its blocks lie"));
        };
        let mut key = String::with_capacity(64);
        self.reader.node().chunk_key(self.chunk_index, &mut key);
        self.reader.check_span(span.end - span.start)?;
        if self.reader.store().get_range(&key, span.start, span.end - span.start, body)?.is_none() {
            return Ok(false);
        }
        self.meter.bytes_read.add(body.len() as u64);
        self.meter.read_time.add_time(started.elapsed());
        let started = Instant::now();
        let to = &mut decoded[range.clone()];
        self.chain.decode_span(codec, head, (span.start, body), range.clone(), to).map_err(codec_error)?;
        self.meter.bytes_decoded.add(range.len() as u64);
        self.meter.decode_time.add_time(started.elapsed());
        Ok(true)
    }

    /// Visits the boxes inner chunk by inner chunk.
    fn visit_shard(
        &self,
        shard: &ShardCodec,
        buffers: &mut ThreadBuffers,
        visit: &mut BoxVisitor<'_>,
    ) -> Result<bool> {
        let ThreadBuffers { codec, encoded, decoded, head } = buffers;
        let mut key = String::with_capacity(64);
        self.reader.node().chunk_key(self.chunk_index, &mut key);
        let inner_shape = shard.inner().shape();
        let strides = c_strides(inner_shape, self.item());
        let wanted = inner_chunks(shard, self.boxes);
        let (index, bytes) = match self.source {
            ChunkSource::Local => {
                let length = shard.index_bytes() as u64;
                let store = self.reader.store();
                let stored = match shard.index_at_start() {
                    true => store.get_range(&key, 0, length, head)?,
                    false => store.get_suffix(&key, length, head)?,
                };
                let Some(stored) = stored else { return Ok(false) };
                if (head.len() as u64) < length {
                    let message = format!("a shard of {stored} bytes cannot hold its index of {length}");
                    return Err(Error::new(ErrorKind::Corrupt, message));
                }
                self.meter.bytes_read.add(length);
                (shard.read_index(codec, head, stored).map_err(codec_error)?, None)
            }
            ChunkSource::Fetched(None) => return Ok(false),
            ChunkSource::Fetched(Some(bytes)) => {
                (shard.index_of(codec, bytes).map_err(codec_error)?, Some(&bytes[..]))
            }
        };
        for group in wanted.chunk_by(|one, other| one.0 == other.0) {
            let position = group[0].0;
            let stored = match (index.0.get(position).copied().flatten(), bytes) {
                (None, _) => None,
                (Some(place), Some(bytes)) => Some(ShardCodec::inner_bytes(bytes, &place)),
                (Some(place), None) => {
                    self.reader.check_span(place.length)?;
                    if self.reader.store().get_range(&key, place.offset, place.length, encoded)?.is_none() {
                        return Ok(false);
                    }
                    self.meter.bytes_read.add(place.length);
                    Some(encoded.as_slice())
                }
            };
            if let Some(stored) = stored {
                let started = Instant::now();
                let inner_bytes = shard.inner().decoded_bytes().unwrap_or(0);
                resize(decoded, inner_bytes);
                shard.inner().decode_into(codec.inner(), stored, decoded).map_err(codec_error)?;
                self.meter.bytes_decoded.add(inner_bytes as u64);
                self.meter.decode_time.add_time(started.elapsed());
            }
            let counts: Vec<u64> = shard.counts().to_vec();
            let inner = crate::grid::unravel(position as u64, &counts);
            for &(_, number) in group {
                let (start, shape) = self.boxes.get(number);
                let (mut from, mut lengths, mut within) = (Vec::new(), Vec::new(), 0);
                for d in 0..start.len() {
                    let origin = saturating_usize(inner[d]) * inner_shape[d];
                    let first = start[d].max(origin);
                    let end = (start[d] + shape[d]).min(origin + inner_shape[d]);
                    from.push(first - start[d]);
                    lengths.push(end - first);
                    within += (first - origin) * strides[d].unsigned_abs();
                }
                let layout = Strided { offset: within, strides: &strides };
                let elements = stored.map(|_| (decoded.as_slice(), layout));
                visit(BoxPiece { number, start: &from, shape: &lengths, elements })?;
            }
        }
        Ok(true)
    }
}

/// Returns the inner chunks that boxes touch, with the number of the box, sorted.
pub(super) fn inner_chunks(shard: &ShardCodec, boxes: &Boxes) -> Vec<(usize, usize)> {
    let (inner_shape, counts) = (shard.inner().shape(), shard.counts());
    let mut wanted = Vec::new();
    for (number, (start, shape)) in boxes.iter().enumerate() {
        let along = start.iter().zip(shape).zip(inner_shape);
        let ranges: Vec<Range<u64>> = along
            .map(|((&start, &length), &inner)| {
                (start / inner) as u64..(start + length).div_ceil(inner) as u64
            })
            .collect();
        // visiting cannot fail
        let _ = crate::grid::for_each_index::<()>(&ranges, |inner| {
            let flat = inner.iter().zip(counts).fold(0, |flat, (&at, &count)| flat * count + at);
            wanted.push((saturating_usize(flat), number));
            Ok(())
        });
    }
    wanted.sort_unstable();
    wanted
}

/// Returns where the first element of a box lies, in bytes.
fn offset(start: &[usize], strides: &Strides) -> usize {
    start.iter().zip(strides.iter()).map(|(&at, stride)| at * stride.unsigned_abs()).sum()
}

/// Returns where the last element of a box ends.
fn end(start: &[usize], shape: &[usize], strides: &Strides, item: usize) -> usize {
    let last = shape.iter().zip(strides.iter());
    let last: usize = last.map(|(&length, stride)| length.saturating_sub(1) * stride.unsigned_abs()).sum();
    offset(start, strides) + last + item
}

/// Calls `visit` with the bytes of each row of a box that lies together; returns how many there are, or `None` if they
/// are more than `most`.
fn rows_of(
    shape: &[usize],
    strides: &Strides,
    item: usize,
    first: usize,
    most: usize,
    mut visit: impl FnMut(Range<usize>),
) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    // trailing dimensions that lie together
    let (mut bytes, mut outer) = (item, shape.len());
    while outer > 0 && strides[outer - 1].unsigned_abs() == bytes {
        bytes *= shape[outer - 1];
        outer -= 1;
    }
    let count = shape[..outer].iter().try_fold(1_usize, |count, &length| count.checked_mul(length))?;
    if count > most {
        return None;
    }
    let mut index = vec![0; outer];
    let mut at = first;
    loop {
        visit(at..at + bytes);
        let mut d = outer;
        loop {
            if d == 0 {
                return Some(count);
            }
            d -= 1;
            let stride = strides[d].unsigned_abs();
            index[d] += 1;
            at += stride;
            if index[d] < shape[d] {
                break;
            }
            at -= index[d] * stride;
            index[d] = 0;
        }
    }
}
