//! Runs of chunks that both grids share: each is recoded alone.

use std::time::Instant;

use bytes::Bytes;

use super::copy::Run;
use super::fetch::Fetched;
use super::journal::Record;
use super::prepared::{Copy, fill_of, needed_fill};
use crate::codec::{Chain, Scratch};
use crate::error::{Error, ErrorKind, Result};
use crate::grid::product;
use crate::kernels::copy::{Strided, c_strides, fill_strided};
use crate::metadata::AbsentChunks;
use crate::plan::{CopyPlan, Cover, Unit};
use crate::read::{codec_error, release_scratch, with_scratch};
use crate::units::saturating_usize;

/// Returns the bytes that absent chunks take on disk where a plan writes them, in blocks of 4 KiB.
pub fn absent_bytes(plan: &CopyPlan) -> Result<u64> {
    const BLOCK_BYTES: u64 = 4096;
    let mut sum = 0u64;
    for array in plan.arrays.iter().filter(|array| array.absent == AbsentChunks::Write) {
        let target = &array.target.metadata;
        let (visited, stored) = (array.visited(), array.stored.len());
        if visited <= stored {
            continue;
        }
        let shape = target.grid.largest_chunk_shape();
        let chain = Chain::compile(target, &shape).map_err(codec_error)?;
        let fill = fill_of(array);
        let bytes = with_scratch(|scratch, decoded, encoded| {
            encode_fill(&chain, needed_fill(array, fill.as_deref())?, scratch, decoded, encoded)
                .map(|()| encoded.len() as u64)
        })?;
        let absent = u128::from(target.grid.total().unwrap_or(u64::MAX)) * u128::from(visited - stored)
            / u128::from(visited);
        let absent = u64::try_from(absent).unwrap_or(u64::MAX);
        sum = sum.saturating_add(absent.saturating_mul(bytes.next_multiple_of(BLOCK_BYTES)));
    }
    Ok(sum)
}

impl Run<'_> {
    /// Rewrites the chunks of one unit, one after the other.
    pub(super) fn alone(&self, unit: &Unit, fetched: Option<&Fetched>) -> Result<()> {
        let copy = &self.copies[unit.array];
        let mut done = Vec::new();
        let result = match &unit.cover {
            Cover::Box(_) if copy.is_box_done(unit) => Ok(()),
            Cover::Box(_) => self.variable_box(unit, copy, &mut done),
            Cover::Chunks(chunks) => self.chunks(copy, chunks.clone(), fetched, &mut done),
        };
        let result = result.and_then(|()| self.journal(copy, &mut done));
        // what one large chunk took must not stay with every thread
        if copy.array.chunk_memory_bytes() > self.options.memory_bytes / (2 * self.plan.jobs as u64) {
            release_scratch();
        }
        result
    }

    fn chunks(
        &self,
        copy: &Copy<'_>,
        mut chunks: std::ops::RangeInclusive<u64>,
        fetched: Option<&Fetched>,
        done: &mut Vec<Record>,
    ) -> Result<()> {
        let mut fetched = fetched.map(|fetched| fetched.iter());
        if copy.array.absent == AbsentChunks::Leave {
            return copy.array.stored.range(chunks).try_for_each(|position| {
                self.chunk(copy, position, fetched.as_mut().map(|fetched| fetched.next()), done)
            });
        }
        chunks.try_for_each(|position| match copy.array.stored.contains(position) {
            true => self.chunk(copy, position, fetched.as_mut().map(|fetched| fetched.next()), done),
            false => self.absent_chunk(copy, position, Some(done)),
        })
    }

    /// Recodes one stored chunk; where it turns out to be absent, as one that is.
    fn chunk(
        &self,
        copy: &Copy<'_>,
        position: u64,
        fetched: Option<Option<&Option<Bytes>>>,
        done: &mut Vec<Record>,
    ) -> Result<()> {
        self.cancel.check()?;
        let source = &copy.array.source;
        let chunk_index = source.metadata.grid.index_at(position);
        if copy.is_done(&chunk_index) {
            return Ok(());
        }
        let mut key = String::with_capacity(64);
        source.chunk_key(&chunk_index, &mut key);
        let copied = with_scratch(|scratch, encoded, recoded| {
            let bytes = match fetched {
                Some(fetched) => fetched.and_then(Option::as_ref).map(|bytes| &bytes[..]),
                None => {
                    self.prefetch.begin();
                    let started = Instant::now();
                    let present = copy.source.get(&key, copy.object_limit, encoded)?;
                    self.meter.read_time.add_time(started.elapsed());
                    present.then_some(encoded.as_slice())
                }
            };
            let Some(bytes) = bytes else { return copy.missing(&chunk_index).map(|()| false) };
            self.meter.bytes_read.add(bytes.len() as u64);
            copy.with_recoder(&chunk_index, |recoder| {
                if recoder.is_copy() {
                    return self.write(copy, &chunk_index, bytes, None, Some(done)).map(|()| true);
                }
                let mut lost = Vec::new();
                // behind a transpose, or within other codecs, shards are read as a whole: also by whoever verifies
                let apart = recoder.source().shard().is_some();
                let keep = &mut |inner: &[u64], error| {
                    if !apart {
                        return Err(error);
                    }
                    lost.push((inner.to_vec(), error));
                    Ok(())
                };
                // metadata does not say how large elements without fixed size are: memory does
                let limit = self.options.memory_bytes / (4 * self.plan.jobs.max(1) as u64);
                let cost =
                    recoder.recode_around(scratch, bytes, limit, keep, recoded).map_err(codec_error)?;
                // what lost something is not recorded: a resumed run must find it again
                let done = lost.is_empty().then_some(&mut *done);
                for (inner, error) in lost {
                    let error =
                        codec_error(error).context(format!("could not decode its inner chunk {inner:?}"));
                    self.corrupt(copy, &chunk_index, Some(&inner), error)?;
                }
                self.meter.bytes_decoded.add(cost.bytes);
                self.meter.bytes_encoded.add(recoded.len() as u64);
                self.meter.decode_time.add_time(cost.decode);
                self.meter.encode_time.add_time(cost.encode);
                self.write(copy, &chunk_index, recoded, None, done).map(|()| true)
            })
        });
        let copied = copied
            .map_err(|error| error.context(format!("could not copy chunk `{key}` of `{}`", source.path)));
        match copied {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => self.corrupt(copy, &chunk_index, None, error)?,
        }
        // not recorded: a resumed run must find it again
        match copy.array.absent {
            AbsentChunks::Leave => Ok(()),
            AbsentChunks::Write => self.absent_chunk(copy, position, None),
        }
    }

    /// Writes a chunk of fill values where the source has none.
    fn absent_chunk(&self, copy: &Copy<'_>, position: u64, done: Option<&mut Vec<Record>>) -> Result<()> {
        self.cancel.check()?;
        let chunk_index = copy.array.source.metadata.grid.index_at(position);
        if copy.is_done(&chunk_index) {
            return Ok(());
        }
        let fill = copy.fill()?;
        with_scratch(|scratch, decoded, encoded| {
            copy.with_recoder(&chunk_index, |recoder| {
                encode_fill(recoder.target(), fill, scratch, decoded, encoded)?;
                self.write(copy, &chunk_index, encoded, Some(decoded), done)
            })
        })
        .map_err(|error| {
            error.context(format!(
                "could not write the absent chunk {chunk_index:?} of `{}`",
                copy.array.source.path
            ))
        })
    }
}

/// Encodes a chunk that holds nothing but `fill`.
fn encode_fill(
    chain: &Chain,
    fill: &[u8],
    scratch: &mut Scratch,
    decoded: &mut Vec<u8>,
    encoded: &mut Vec<u8>,
) -> Result<()> {
    let Some(bytes) = chain.decoded_bytes() else {
        let count = saturating_usize(
            product(&chain.shape().iter().map(|&length| length as u64).collect::<Vec<_>>())
                .unwrap_or(u64::MAX),
        );
        let elements = crate::codec::VariableElements::filled(fill, count);
        return chain.encode_variable(scratch, &elements, encoded).map_err(codec_error);
    };
    decoded.resize(bytes, 0);
    let count = bytes / fill.len().max(1);
    let layout = Strided { offset: 0, strides: &c_strides(&[count], fill.len()) };
    fill_strided(fill, &[count], decoded, layout)
        .map_err(|error| Error::new(ErrorKind::Corrupt, "could not fill a chunk").with_source(error))?;
    chain.encode(scratch, decoded, encoded).map_err(codec_error)
}
