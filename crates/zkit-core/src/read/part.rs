//! The part of one chunk that a region wants: decoded alone where the codecs allow it, read alone where that pays.

use std::ops::Range;
use std::time::Instant;

use super::reader::{ArrayReader, ChunkSource, ReadContext, codec_error, fill_run, to_usize, with_scratch};
use crate::codec::{Chain, CodecError, Scratch, StoredSpan};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Meter;
use crate::grid::Region;
use crate::kernels::copy::{Strided, c_strides, copy_strided};
use crate::units::{Bytes as Size, saturating_usize};

/// Smaller chunks are read whole: one read costs less than two.
const SPAN_CHUNK_BYTES: usize = 1 << 20;
/// What is read first of a chunk whose front says where its parts lie.
const HEAD_BYTES: u64 = 4096;

impl ArrayReader<'_> {
    /// Decodes the part of one chunk into `run`, which holds it without gaps.
    pub(super) fn read_part(
        &self,
        chunk_index: &[u64],
        part: &Region,
        source: &ChunkSource<'_>,
        run: &mut [u8],
        context: ReadContext<'_>,
    ) -> Result<()> {
        context.cancel.check()?;
        let chain = self.chain_for(chunk_index)?;
        let chunk_region = self.node().metadata.grid.chunk_region(chunk_index);
        let start: Vec<usize> = part
            .start
            .iter()
            .zip(&chunk_region.start)
            .map(|(&at, &origin)| saturating_usize(at - origin))
            .collect();
        let wanted = Part { start: &start, shape: &to_usize(&part.shape) };
        with_scratch(|scratch, buffer, head| {
            if let (ChunkSource::Local, Some(range)) = (source, wanted.span_worth_reading(&chain)) {
                return self.read_span(
                    chunk_index,
                    &chain,
                    range,
                    scratch,
                    (head, buffer),
                    run,
                    context.meter,
                );
            }
            let Some(encoded) = self.encoded(chunk_index, source, buffer, context.meter)? else {
                return fill_run(self.fill()?, run);
            };
            let started = Instant::now();
            self.check_budget(&chain, encoded, run.len())?;
            decode_part(&chain, scratch, encoded, wanted.start, wanted.shape, self.fill()?, run)
                .map_err(codec_error)?;
            context.meter.bytes_decoded.add(run.len() as u64);
            context.meter.decode_time.add_time(started.elapsed());
            Ok(())
        })
        .map_err(|error| self.chunk_error(chunk_index, error))
    }

    /// Reads and decodes a byte range of a local chunk without the rest of it.
    #[expect(clippy::too_many_arguments, reason = "the range, its buffers and where it goes")]
    fn read_span(
        &self,
        chunk_index: &[u64],
        chain: &Chain,
        range: Range<usize>,
        scratch: &mut Scratch,
        (head, body): (&mut Vec<u8>, &mut Vec<u8>),
        run: &mut [u8],
        meter: &Meter,
    ) -> Result<()> {
        let Some(start) = self.fetch_span(chunk_index, chain, range.clone(), (head, body), meter)? else {
            return fill_run(self.fill()?, run);
        };
        let started = Instant::now();
        chain.decode_span(scratch, head, (start, body), range, run).map_err(codec_error)?;
        meter.bytes_decoded.add(run.len() as u64);
        meter.decode_time.add_time(started.elapsed());
        Ok(())
    }

    /// Reads the stored bytes of a byte range of a local chunk into `body`, and what they are told from into `head`.
    /// Returns where the body begins in the chunk; `None` if that is absent.
    pub(super) fn fetch_span(
        &self,
        chunk_index: &[u64],
        chain: &Chain,
        range: Range<usize>,
        (head, body): (&mut Vec<u8>, &mut Vec<u8>),
        meter: &Meter,
    ) -> Result<Option<u64>> {
        let started = Instant::now();
        let mut key = String::with_capacity(64);
        self.node().chunk_key(chunk_index, &mut key);
        let mut asked = 0;
        head.clear();
        let (start, stored) = loop {
            match chain.stored_span(head, range.clone()).map_err(codec_error)? {
                Some(StoredSpan::At(span)) => {
                    let length = span.end - span.start;
                    self.check_span(length)?;
                    match self.store().get_range(&key, span.start, length, body)? {
                        Some(stored) => break (span.start, stored),
                        None => return Ok(None),
                    }
                }
                Some(StoredSpan::HeadNeeded(more)) if more > asked => {
                    self.check_span(more)?;
                    asked = more;
                    if self.store().get_range(&key, 0, more.max(HEAD_BYTES), head)?.is_none() {
                        return Ok(None);
                    }
                }
                _ => {
                    let message = format!("the chunk ends inside its first {asked} bytes");
                    return Err(Error::new(ErrorKind::Corrupt, message));
                }
            }
        };
        if let Some(whole) = chain.encoded_bytes().map(|bytes| bytes as u64)
            && whole != stored
        {
            let message = format!("it holds {stored} bytes, {whole} expected");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        meter.read_time.add_time(started.elapsed());
        meter.bytes_read.add((head.len() + body.len()) as u64);
        Ok(Some(start))
    }

    pub(super) fn check_span(&self, bytes: u64) -> Result<()> {
        if bytes <= self.encoded_limit() {
            return Ok(());
        }
        let message =
            format!("a part of it takes {}, at most {} expected", Size(bytes), Size(self.encoded_limit()));
        Err(Error::new(ErrorKind::OverBudget, message))
    }

    /// Refuses chunks for which memory is short: those that must be decoded whole for a part, through steps or by a large
    /// window.
    fn check_budget(&self, chain: &Chain, encoded: &[u8], wanted: usize) -> Result<()> {
        let whole = chain.decoded_bytes().unwrap_or(0);
        let buffers = chain.between() + usize::from(whole != wanted);
        let held = match chain.partial_decode() {
            _ if chain.shard().is_some() => 0,
            Some(_) if whole != wanted => chain.window_of_part(encoded),
            _ => (whole as u64).saturating_mul(buffers as u64),
        };
        let needs = held.saturating_add(encoded.len() as u64);
        if held == 0 || needs <= self.chunk_limit() {
            return Ok(());
        }
        let message = format!(
            "decoding one chunk takes {}, the memory budget leaves {} for it",
            Size(needs),
            Size(self.chunk_limit())
        );
        Err(Error::new(ErrorKind::OverBudget, message).with_shortage(needs, self.chunk_limit()))
    }
}

/// A box of a chunk.
struct Part<'a> {
    start: &'a [usize],
    shape: &'a [usize],
}

impl Part<'_> {
    /// Returns the decoded bytes from the first element of the box to its last.
    fn hull(&self, chunk_shape: &[usize], item: usize) -> Range<usize> {
        let strides = c_strides(chunk_shape, item);
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

    /// Returns the bytes of the box if they lie together, are a small part of a large chunk, and can be read alone.
    fn span_worth_reading(&self, chain: &Chain) -> Option<Range<usize>> {
        let decoded = chain.decoded_bytes().filter(|&bytes| bytes >= SPAN_CHUNK_BYTES)?;
        let elements: usize = chain.shape().iter().product();
        let item = decoded / elements.max(1);
        let hull = self.hull(chain.shape(), item);
        let bytes = self.shape.iter().product::<usize>() * item;
        let readable = chain.stored_span(&[], hull.clone()).ok()?.is_some();
        (hull.len() == bytes && bytes <= decoded / 2 && readable).then_some(hull)
    }
}

/// Decodes the box at `start` of a chunk into `run`, without gaps and in C order.
///
/// Of shards, only the inner chunks that the box touches are decoded; of blosc frames, only the blocks.
fn decode_part(
    chain: &Chain,
    scratch: &mut Scratch,
    encoded: &[u8],
    start: &[usize],
    shape: &[usize],
    fill: &[u8],
    run: &mut [u8],
) -> Result<(), CodecError> {
    if shape == chain.shape() {
        return chain.decode_into(scratch, encoded, run);
    }
    if let Some(shard) = chain.shard() {
        return shard.decode_box(scratch, encoded, start, shape, fill, run, decode_part);
    }
    let decoded = chain.decoded_bytes().unwrap_or(0);
    let item = decoded / chain.shape().iter().product::<usize>().max(1);
    let range = Part { start, shape }.hull(chain.shape(), item);
    let range_start = range.start;
    if range.len() == run.len() {
        return chain.decode_range(scratch, encoded, range, run);
    }
    // what must be decoded whole is copied from there
    let is_whole = chain.partial_decode().is_none();
    let range = if is_whole { 0..decoded } else { range };
    let offset = if is_whole { range_start } else { 0 };
    let mut hull = vec![0; range.len()];
    chain.decode_range(scratch, encoded, range, &mut hull)?;
    let strides = c_strides(chain.shape(), item);
    let from = Strided { offset, strides: &strides };
    let to = Strided { offset: 0, strides: &c_strides(shape, item) };
    copy_strided(item, shape, &hull, from, run, to)
        .map_err(|error| CodecError::corrupt("chunk", error.to_string()))
}
