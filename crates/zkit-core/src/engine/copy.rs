//! Runs a plan: read, recode, write, a unit at a time, on every core.
//!
//! Local sources are read by the worker that recodes. Remote ones are fetched by plain threads that hand whole
//! units over a bounded channel, so that no worker ever waits for the network.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;

use super::lanes;
use crate::cancel::Cancel;
use crate::codec::{Chain, Recoder, Scratch};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Meter, Observer};
use crate::grid::{Region, product};
use crate::kernels::copy::{Strided, c_strides, copy_strided, fill_strided};
use crate::metadata::AbsentChunks;
use crate::plan::{ArrayCopy, CopyPlan, Strategy, Unit};
use crate::read::{codec_error, to_usize, with_scratch};
use crate::store::{LocalWriter, Store};
use crate::units::saturating_usize;

/// Threads that fetch units of a remote source; each keeps many requests in flight.
const FETCHERS: usize = 8;

/// Runs every unit of a plan, writing chunks to `writer`; metadata is the caller's to write afterwards.
///
/// The first failure stops the run and is returned; a chunk that was listed and is gone is a failure.
pub fn run_copy(
    plan: &CopyPlan,
    source: &Store,
    writer: &LocalWriter,
    memory_bytes: u64,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<()> {
    let meter = observer.meter();
    meter.arrays_total.add(plan.arrays.len() as u64);
    meter
        .decoded_bytes_total
        .add(plan.units.iter().map(|unit| unit.decoded_bytes).fold(0, u64::saturating_add));
    let copies: Vec<Copy<'_>> =
        plan.arrays.iter().map(|array| Copy::prepare(array, memory_bytes)).collect::<Result<_>>()?;
    meter
        .arrays_done
        .add(copies.iter().filter(|copy| copy.units_left.load(Ordering::Relaxed) == 0).count() as u64);
    for unit in &plan.units {
        copies[unit.array].units_left.fetch_add(1, Ordering::Relaxed);
    }
    let run = Run {
        copies: &copies,
        units: &plan.units,
        source,
        writer,
        meter,
        cancel,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    let pool = lanes::pool(plan.jobs)?;
    match source {
        Store::Local(_) => {
            pool.broadcast(|_| {
                while let Some(unit) = run.take() {
                    run.finish(unit, run.process(unit, None));
                }
            });
        }
        Store::Remote(_) => run.remote(&pool, plan.jobs),
    }
    match run.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => cancel.check(),
    }
}

/// Returns the bytes that absent chunks take on disk where a plan writes them, in blocks of 4 KiB.
pub fn absent_bytes(plan: &CopyPlan) -> Result<u64> {
    const BLOCK_BYTES: u64 = 4096;
    let mut sum = 0u64;
    for array in plan.arrays.iter().filter(|array| array.absent == AbsentChunks::Write) {
        let absent = array.visited() - array.stored.len();
        if absent == 0 {
            continue;
        }
        let copy = Copy::prepare(array, u64::MAX)?;
        let target = &array.target.metadata;
        let chain = Chain::compile(target, &target.grid.largest_chunk_shape()).map_err(codec_error)?;
        let bytes = with_scratch(|scratch, decoded, encoded| {
            encode_fill(&chain, copy.fill()?, scratch, decoded, encoded).map(|()| encoded.len() as u64)
        })?;
        sum = sum.saturating_add(
            absent
                .saturating_mul(array.objects_per_chunk())
                .saturating_mul(bytes.next_multiple_of(BLOCK_BYTES)),
        );
    }
    Ok(sum)
}

/// One array of the run, compiled.
struct Copy<'a> {
    array: &'a ArrayCopy,
    /// The recoder of a regular grid; rectilinear chunks compile their own.
    recoder: Option<Recoder>,
    fill: Option<Vec<u8>>,
    object_limit: u64,
    units_left: AtomicUsize,
}

/// What the threads share.
struct Run<'a> {
    copies: &'a [Copy<'a>],
    units: &'a [Unit],
    source: &'a Store,
    writer: &'a LocalWriter,
    meter: &'a Meter,
    cancel: &'a Cancel,
    next: AtomicUsize,
    stop: AtomicBool,
    failure: Mutex<Option<Error>>,
}

/// The objects of one unit, in the order of its chunks; `None` for absent ones.
type Fetched = Vec<Option<Bytes>>;

impl<'a> Copy<'a> {
    fn prepare(array: &'a ArrayCopy, memory_bytes: u64) -> Result<Self> {
        let source = &array.source.metadata;
        let recoder = match (source.grid.regular_shape(), array.strategy) {
            (Some(shape), Strategy::Recode | Strategy::CopyBytes) => Some(recoder(array, &shape)?),
            _ => None,
        };
        let fill = source.fill_value.element(&source.data_type);
        Ok(Self {
            array,
            recoder,
            fill,
            object_limit: array.largest_bytes.max(1).saturating_mul(2).min(memory_bytes.max(1)),
            units_left: AtomicUsize::new(0),
        })
    }

    /// Runs `work` with the recoder of a chunk.
    fn with_recoder<R>(&self, chunk_index: &[u64], work: impl FnOnce(&Recoder) -> Result<R>) -> Result<R> {
        match &self.recoder {
            Some(recoder) => work(recoder),
            None => work(&recoder(self.array, &self.array.source.metadata.grid.chunk_shape(chunk_index))?),
        }
    }

    fn fill(&self) -> Result<&[u8]> {
        self.fill.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!(
                    "could not write absent chunks of `{}`: its fill value is not understood",
                    self.array.source.path
                ),
            )
        })
    }
}

pub(super) fn recoder(array: &ArrayCopy, shape: &[u64]) -> Result<Recoder> {
    let compile = |metadata| Chain::compile(metadata, shape).map_err(codec_error);
    Ok(Recoder::new(compile(&array.source.metadata)?, compile(&array.target.metadata)?))
}

impl Run<'_> {
    /// Returns the next unit, or `None` when there is none or the run stops.
    fn take(&self) -> Option<&Unit> {
        if self.stop.load(Ordering::Relaxed) || self.cancel.is_cancelled() {
            return None;
        }
        self.units.get(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn finish(&self, unit: &Unit, result: Result<()>) {
        if let Err(error) = result {
            self.stop.store(true, Ordering::Relaxed);
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        } else if self.copies[unit.array].units_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.meter.arrays_done.add(1);
        }
    }

    /// Fetches on plain threads and recodes on the pool, joined by a bounded channel.
    fn remote(&self, pool: &rayon::ThreadPool, jobs: usize) {
        let (sender, receiver) = crossbeam_channel::bounded::<(&Unit, Result<Fetched>)>(jobs);
        std::thread::scope(|scope| {
            for _ in 0..FETCHERS.min(self.units.len()) {
                let sender = sender.clone();
                scope.spawn(move || {
                    while let Some(unit) = self.take() {
                        if sender.send((unit, self.fetch(unit))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            pool.broadcast(|_| {
                // after a failure the channel is emptied, so that no fetcher waits for ever
                for (unit, fetched) in receiver.iter() {
                    let result = fetched.and_then(|fetched| {
                        if self.stop.load(Ordering::Relaxed) {
                            Ok(())
                        } else {
                            self.process(unit, Some(&fetched))
                        }
                    });
                    self.finish(unit, result);
                }
            });
        });
    }

    fn fetch(&self, unit: &Unit) -> Result<Fetched> {
        let copy = &self.copies[unit.array];
        let started = Instant::now();
        let mut key = String::new();
        let keys: Vec<String> = copy
            .array
            .stored
            .range(unit.chunks.clone())
            .map(|position| {
                copy.array.source.chunk_key(&copy.array.source.metadata.grid.index_at(position), &mut key);
                key.clone()
            })
            .collect();
        let fetched: Result<Fetched> = self.source.get_many(&keys, copy.object_limit).into_iter().collect();
        self.meter.read_time.add_time(started.elapsed());
        fetched
    }

    /// Recodes and writes the chunks of one unit.
    fn process(&self, unit: &Unit, fetched: Option<&Fetched>) -> Result<()> {
        let copy = &self.copies[unit.array];
        let mut fetched = fetched.map(|fetched| fetched.iter());
        if copy.array.absent == AbsentChunks::Leave {
            return copy.array.stored.range(unit.chunks.clone()).try_for_each(|position| {
                self.chunk(copy, position, fetched.as_mut().map(|fetched| fetched.next()))
            });
        }
        unit.chunks.clone().try_for_each(|position| match copy.array.stored.contains(position) {
            true => self.chunk(copy, position, fetched.as_mut().map(|fetched| fetched.next())),
            false => self.absent_chunk(copy, position),
        })
    }

    /// Recodes one stored chunk.
    fn chunk(&self, copy: &Copy<'_>, position: u64, fetched: Option<Option<&Option<Bytes>>>) -> Result<()> {
        self.cancel.check()?;
        let source = &copy.array.source;
        let chunk_index = source.metadata.grid.index_at(position);
        let mut key = String::with_capacity(64);
        source.chunk_key(&chunk_index, &mut key);
        with_scratch(|scratch, encoded, recoded| {
            let bytes = match fetched {
                Some(fetched) => fetched.and_then(Option::as_ref).map(|bytes| &bytes[..]),
                None => {
                    let started = Instant::now();
                    let present = self.source.get(&key, copy.object_limit, encoded)?;
                    self.meter.read_time.add_time(started.elapsed());
                    present.then_some(encoded.as_slice())
                }
            };
            let bytes = bytes.ok_or_else(|| {
                Error::new(
                    ErrorKind::Unreadable,
                    "it was listed, but is gone now: the source changes while it is read",
                )
            })?;
            self.meter.bytes_read.add(bytes.len() as u64);
            if copy.array.strategy == Strategy::Unshard {
                return self.unshard(copy, &chunk_index, bytes, scratch, recoded);
            }
            copy.with_recoder(&chunk_index, |recoder| {
                if recoder.is_copy() {
                    return self.write(copy, &chunk_index, bytes);
                }
                let cost = recoder
                    .recode(scratch, bytes, copy.object_limit.saturating_mul(64), recoded)
                    .map_err(codec_error)?;
                self.meter.bytes_decoded.add(cost.bytes);
                self.meter.bytes_encoded.add(recoded.len() as u64);
                self.meter.decode_time.add_time(cost.decode);
                self.meter.encode_time.add_time(cost.encode);
                self.write(copy, &chunk_index, recoded)
            })
        })
        .map_err(|error| error.context(format!("could not copy chunk `{key}` of `{}`", source.path)))
    }

    fn write(&self, copy: &Copy<'_>, chunk_index: &[u64], bytes: &[u8]) -> Result<()> {
        let started = Instant::now();
        let mut key = String::with_capacity(64);
        copy.array.target.chunk_key(chunk_index, &mut key);
        self.writer.put(&key, bytes)?;
        self.meter.write_time.add_time(started.elapsed());
        self.meter.bytes_written.add(bytes.len() as u64);
        self.meter.objects_written.add(1);
        Ok(())
    }

    /// Writes a chunk of fill values where the source has none.
    fn absent_chunk(&self, copy: &Copy<'_>, position: u64) -> Result<()> {
        self.cancel.check()?;
        let chunk_index = copy.array.source.metadata.grid.index_at(position);
        let fill = copy.fill()?;
        with_scratch(|scratch, decoded, encoded| {
            if copy.array.strategy == Strategy::Unshard {
                let mut indices = Vec::new();
                inner_chunks(copy.array, &chunk_index, |inner_index, _| {
                    indices.push(inner_index.to_vec());
                    Ok(())
                })?;
                let chain = Chain::compile(
                    &copy.array.target.metadata,
                    &copy.array.target.metadata.grid.largest_chunk_shape(),
                )
                .map_err(codec_error)?;
                encode_fill(&chain, fill, scratch, decoded, encoded)?;
                return indices.iter().try_for_each(|inner_index| self.write(copy, inner_index, encoded));
            }
            copy.with_recoder(&chunk_index, |recoder| {
                encode_fill(recoder.target(), fill, scratch, decoded, encoded)?;
                self.write(copy, &chunk_index, encoded)
            })
        })
        .map_err(|error| {
            error.context(format!(
                "could not write the absent chunk {chunk_index:?} of `{}`",
                copy.array.source.path
            ))
        })
    }

    /// Writes each inner chunk of a shard as a chunk of its own; those of fill values only where they must be.
    fn unshard(
        &self,
        copy: &Copy<'_>,
        shard_index: &[u64],
        bytes: &[u8],
        scratch: &mut Scratch,
        encoded: &mut Vec<u8>,
    ) -> Result<()> {
        let (source, target) = (&copy.array.source.metadata, &copy.array.target.metadata);
        let started = Instant::now();
        let shard = Chain::compile(source, &source.grid.chunk_shape(shard_index)).map_err(codec_error)?;
        let chunk_shape = target.grid.largest_chunk_shape();
        let chain = Chain::compile(target, &chunk_shape).map_err(codec_error)?;
        let item = source.data_type.item_bytes().map_or(1, saturating_usize);
        let mut decoded = vec![0; shard.decoded_bytes().unwrap_or(0)];
        shard.decode_into(scratch, bytes, &mut decoded).map_err(codec_error)?;
        self.meter.decode_time.add_time(started.elapsed());
        self.meter.bytes_decoded.add(decoded.len() as u64);
        let fill = copy.fill()?;
        let shard_strides = c_strides(shard.shape(), item);
        let shape = to_usize(&chunk_shape);
        let mut chunk = vec![0; shape.iter().product::<usize>() * item];
        inner_chunks(copy.array, shard_index, |inner_index, origin| {
            let started = Instant::now();
            let offset =
                origin.iter().zip(shard_strides.iter()).map(|(&at, stride)| at * stride.unsigned_abs()).sum();
            let from = Strided { offset, strides: &shard_strides };
            let to = Strided { offset: 0, strides: &c_strides(&shape, item) };
            copy_strided(item, &shape, &decoded, from, &mut chunk, to).map_err(|error| {
                Error::new(ErrorKind::Corrupt, "could not cut a shard").with_source(error)
            })?;
            self.meter.assemble_time.add_time(started.elapsed());
            if copy.array.absent == AbsentChunks::Leave
                && chunk.chunks_exact(item.max(1)).all(|element| element == fill)
            {
                return Ok(());
            }
            let started = Instant::now();
            chain.encode(scratch, &chunk, encoded).map_err(codec_error)?;
            self.meter.encode_time.add_time(started.elapsed());
            self.meter.bytes_encoded.add(encoded.len() as u64);
            self.write(copy, inner_index, encoded)
        })
    }
}

/// Calls `visit` with the index in the target's grid and the first element in the shard of each inner chunk that
/// lies inside the array.
fn inner_chunks(
    array: &ArrayCopy,
    shard_index: &[u64],
    mut visit: impl FnMut(&[u64], &[usize]) -> Result<()>,
) -> Result<()> {
    let region: Region = array.source.metadata.grid.chunk_region(shard_index);
    let chunk_shape = array.target.metadata.grid.largest_chunk_shape();
    let ranges = array.target.metadata.grid.chunks_of(&region);
    crate::grid::for_each_index(&ranges, |inner_index| {
        let origin: Vec<usize> = (0..inner_index.len())
            .map(|d| saturating_usize(inner_index[d] * chunk_shape[d] - region.start[d]))
            .collect();
        visit(inner_index, &origin)
    })
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
