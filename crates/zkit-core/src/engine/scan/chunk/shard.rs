//! One shard: its inner chunks, one by one.

use std::time::Instant;

use super::{Failure, INNER_SAMPLE, Place, Prepared, Shared, Source, Thread};
use crate::codec::{Scratch, ShardCodec, ShardIndex};
use crate::engine::scan::gather::{BadUnit, Found};
use crate::engine::scan::sample::spread;
use crate::event::Meter;
use crate::grid::Grid;
use crate::read::ThreadBuffers;
use crate::units::Bytes as Size;

impl Prepared<'_> {
    /// Scans the inner chunks of a shard; those that are corrupt are noted, and the others scanned all the same.
    #[expect(clippy::too_many_arguments, reason = "the shard, its bytes, its place, and where to decode it")]
    pub(super) fn scan_shard(
        &self,
        (shard, grid): (&ShardCodec, &Grid),
        key: &str,
        place: Place<'_>,
        source: &Source<'_>,
        (buffers, thread): (&mut ThreadBuffers, &mut Thread),
        shared: Shared<'_>,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let Some(scanner) = &self.scanner else { return Ok(()) };
        let ThreadBuffers { codec, encoded, decoded, head } = buffers;
        let alone = matches!(source, Source::Read) && self.reads_itself();
        let (index, bytes) = if alone {
            let Some(index) = self.read_index(shard, key, codec, head, shared.meter)? else {
                found.absent_elements += place.region.elements().unwrap_or(0);
                return Ok(());
            };
            (index, None)
        } else {
            let Some(bytes) = self.encoded(key, source, encoded, shared.meter)? else {
                found.absent_elements += place.region.elements().unwrap_or(0);
                return Ok(());
            };
            found.bytes += bytes.len() as u64;
            (shard.index_of(codec, bytes)?, Some(bytes))
        };
        let wanted = match self.sampled.filter(|_| alone) {
            Some(seed) => spread(index.0.len(), INNER_SAMPLE, seed ^ place.position),
            None => spread(index.0.len(), usize::MAX, 0),
        };
        let first: Vec<u64> = place
            .region
            .start
            .iter()
            .zip(grid.largest_chunk_shape())
            .map(|(&at, inner)| at / inner.max(1))
            .collect();
        let started = Instant::now();
        for (at, inner) in index.0.iter().enumerate().filter(|(at, _)| wanted(*at)) {
            let inside = crate::grid::unravel(at as u64, shard.counts());
            let inner_index: Vec<u64> =
                first.iter().zip(inside).map(|(&first, at)| first.saturating_add(at)).collect();
            // shards at the edge hold inner chunks outside the array
            let Some(position) = grid.position_of(&inner_index) else { continue };
            let region = grid.chunk_region(&inner_index);
            let unit = Place { position, region: &region };
            let Some(inner) = inner else {
                found.absent_elements += region.elements().unwrap_or(0);
                continue;
            };
            let stored = match bytes {
                Some(bytes) => ShardCodec::inner_bytes(bytes, inner),
                None => {
                    if inner.length > self.encoded_limit {
                        let (length, most) = (Size(inner.length), Size(self.encoded_limit));
                        let reason = format!("it has {length}, a shard of this array {most} at most");
                        let bad = BadUnit { position: place.position, inner: Some(position), reason };
                        found.corrupt.push(bad);
                        continue;
                    }
                    let read = self.store.get_range(key, inner.offset, inner.length, head);
                    read.map_err(|error| Failure::from(&error))?;
                    shared.meter.bytes_read.add(head.len() as u64);
                    found.bytes += head.len() as u64;
                    head.as_slice()
                }
            };
            let scanned = self.scan_unit(
                scanner,
                shard.inner(),
                stored,
                unit,
                (codec.inner(), decoded),
                thread,
                shared,
                found,
            );
            let bad = |reason| BadUnit { position: place.position, inner: Some(position), reason };
            match scanned {
                Err(Failure::Corrupt(reason)) => found.corrupt.push(bad(reason)),
                Err(Failure::OverBudget(reason)) => found.over_budget.push(bad(reason)),
                Err(Failure::Unsupported(reason)) => found.unsupported.push(bad(reason)),
                other => other?,
            }
        }
        shared.meter.decode_time.add_time(started.elapsed());
        Ok(())
    }

    /// Reads the index of a shard alone; `None` if the shard is absent.
    fn read_index(
        &self,
        shard: &ShardCodec,
        key: &str,
        codec: &mut Scratch,
        head: &mut Vec<u8>,
        meter: &Meter,
    ) -> Result<Option<ShardIndex>, Failure> {
        let length = shard.index_bytes() as u64;
        let read = match shard.index_at_start() {
            true => self.store.get_range(key, 0, length, head),
            false => self.store.get_suffix(key, length, head),
        };
        let Some(stored) = read.map_err(|error| Failure::from(&error))? else { return Ok(None) };
        if (head.len() as u64) < length {
            let reason = format!("a shard of {stored} bytes cannot hold its index of {length}");
            return Err(Failure::Corrupt(reason));
        }
        meter.bytes_read.add(length);
        Ok(Some(shard.read_index(codec, head, stored)?))
    }
}
