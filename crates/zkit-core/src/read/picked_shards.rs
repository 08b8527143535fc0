//! Shards of remote stores of which few inner chunks are wanted: the index is read, and those inner chunks alone.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;

use super::picks::{Boxes, inner_chunks};
use super::reader::{ArrayReader, codec_error, with_scratch};
use crate::codec::{InnerPlace, ShardCodec, ShardIndex};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Meter;
use crate::units::saturating_usize;

/// Bytes that are as good as one more request: what a network brings while it waits for an answer.
const REQUEST_BYTES: u64 = 1 << 20;
/// Inner chunks whose places are kept: 24 bytes each.
const KEPT_PLACES: usize = 1 << 18;

/// The indexes of shards that were read before, by key.
#[derive(Debug, Default)]
pub(crate) struct ShardIndexes(Mutex<HashMap<String, Arc<ShardIndex>>>);

impl ShardIndexes {
    fn get(&self, key: &str) -> Option<Arc<ShardIndex>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn keep(&self, key: &str, index: &Arc<ShardIndex>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.values().map(|index| index.0.len()).sum::<usize>() > KEPT_PLACES {
            kept.clear();
        }
        kept.insert(key.to_owned(), Arc::clone(index));
    }
}

impl ArrayReader<'_> {
    /// Returns which inner chunks of a chunk the boxes touch, where fetching those alone may pay; `None` where the whole
    /// object is to be fetched.
    pub(crate) fn inner_chunks_of(
        &self,
        chunk_index: &[u64],
        boxes: &Boxes,
    ) -> Result<Option<BTreeSet<usize>>> {
        if self.node().metadata.sharding().is_none() {
            return Ok(None);
        }
        let chain = self.chain_for(chunk_index)?;
        let Some(shard) = chain.shard() else { return Ok(None) };
        let wanted: BTreeSet<usize> = inner_chunks(shard, boxes).into_iter().map(|(at, _)| at).collect();
        let inner_bytes = shard.inner().decoded_bytes().unwrap_or(0) as u64;
        let all = shard.counts().iter().product::<u64>();
        let saved = all.saturating_sub(wanted.len() as u64).saturating_mul(inner_bytes);
        // the index and the inner chunks are two requests at least
        Ok((saved > REQUEST_BYTES).then_some(wanted))
    }

    /// Fetches some inner chunks of a shard, as a shard that leaves the others out, or the whole where that costs less;
    /// `None` if it is absent.
    pub(crate) fn fetch_picked(
        &self,
        chunk_index: &[u64],
        wanted: &BTreeSet<usize>,
        indexes: &ShardIndexes,
        meter: &Meter,
    ) -> Result<Option<Bytes>> {
        let fetched = self.fetch_inner_chunks(chunk_index, wanted, indexes, meter);
        fetched.map_err(|error| self.chunk_error(chunk_index, error))
    }

    fn fetch_inner_chunks(
        &self,
        chunk_index: &[u64],
        wanted: &BTreeSet<usize>,
        indexes: &ShardIndexes,
        meter: &Meter,
    ) -> Result<Option<Bytes>> {
        let chain = self.chain_for(chunk_index)?;
        let mut key = String::with_capacity(64);
        self.node().chunk_key(chunk_index, &mut key);
        let whole = || self.store().get_many(std::slice::from_ref(&key), self.encoded_limit()).remove(0);
        let Some(shard) = chain.shard() else { return whole() };
        let known = match indexes.get(&key) {
            Some(index) => Some(index),
            None => with_scratch(|codec, head, _| self.stored_index(shard, &key, (codec, head), meter))?
                .map(Arc::new),
        };
        let Some(index) = known else { return Ok(None) };
        indexes.keep(&key, &index);
        let places: Vec<(usize, InnerPlace)> =
            wanted.iter().filter_map(|&at| Some((at, index.0.get(at).copied().flatten()?))).collect();
        let ranges = ranges_of(&places);
        if !is_worth(&index, &ranges) {
            let fetched = whole()?;
            meter.bytes_read.add(fetched.as_ref().map_or(0, |bytes| bytes.len() as u64));
            return Ok(fetched);
        }
        let started = Instant::now();
        let mut stored = Vec::with_capacity(ranges.len());
        for range in ranges {
            let length = range.end - range.start;
            self.check_span(length)?;
            let mut bytes = Vec::new();
            let size = self.store().get_range(&key, range.start, length, &mut bytes)?;
            if size.is_none() || bytes.len() as u64 != length {
                let message = format!("the shard changed while it was read: bytes {range:?} are gone");
                return Err(Error::new(ErrorKind::Unreadable, message).with_hint("run the command again"));
            }
            meter.bytes_read.add(length);
            stored.push((range.start, bytes));
        }
        meter.read_time.add_time(started.elapsed());
        self.as_shard(shard, &places, &stored).map(Some)
    }

    /// Puts inner chunks together to a shard that leaves the others out.
    fn as_shard(
        &self,
        shard: &ShardCodec,
        places: &[(usize, InnerPlace)],
        stored: &[(u64, Vec<u8>)],
    ) -> Result<Bytes> {
        let pieces = places.iter().map(|(position, place)| {
            // every place lies in the last range that starts in front of it
            let range = stored.partition_point(|(start, _)| *start <= place.offset).saturating_sub(1);
            let (start, bytes) = &stored[range];
            let from = saturating_usize(place.offset - start);
            (*position, &bytes[from..from + saturating_usize(place.length)])
        });
        with_scratch(|codec, _, _| shard.of_inner_chunks(codec, pieces)).map(Bytes::from).map_err(codec_error)
    }
}

/// Returns the ranges of a shard that hold inner chunks, in order; what lies closer together than a request is worth is read
/// in one go.
fn ranges_of(places: &[(usize, InnerPlace)]) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> =
        places.iter().map(|(_, place)| place.offset..place.offset.saturating_add(place.length)).collect();
    sorted.sort_unstable_by_key(|range| (range.start, range.end));
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match ranges.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(REQUEST_BYTES) => {
                last.end = last.end.max(range.end);
            }
            _ => ranges.push(range),
        }
    }
    ranges
}

/// Returns whether reading ranges costs less than the whole shard.
fn is_worth(index: &ShardIndex, ranges: &[Range<u64>]) -> bool {
    let end = index.0.iter().flatten().map(|place| place.offset.saturating_add(place.length)).max();
    let cost = ranges
        .iter()
        .map(|range| (range.end - range.start).saturating_add(REQUEST_BYTES))
        .fold(0, u64::saturating_add);
    cost <= end.unwrap_or(0).saturating_add(REQUEST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(offset: u64, length: u64) -> (usize, InnerPlace) {
        (0, InnerPlace { offset, length })
    }

    #[test]
    fn what_lies_close_together_is_one_request() {
        let far = 3 * REQUEST_BYTES;
        assert_eq!(ranges_of(&[place(far, 10), place(20, 5), place(0, 10)]), [0..25, far..far + 10]);
        // inner chunks of foreign shards may share their bytes
        assert_eq!(ranges_of(&[place(0, 100), place(10, 5), place(far, 1)]), [0..100, far..far + 1]);
        assert_eq!(ranges_of(&[]), [] as [Range<u64>; 0]);
    }

    #[test]
    fn many_ranges_cost_more_than_the_whole() {
        let inner = |at: u64| Some(InnerPlace { offset: at * REQUEST_BYTES, length: REQUEST_BYTES });
        let index = ShardIndex((0..8).map(inner).collect());
        let first =
            |count: u64| (0..count).map(|at| at * 2 * REQUEST_BYTES..at * 2 * REQUEST_BYTES + REQUEST_BYTES);
        assert!(is_worth(&index, &first(1).collect::<Vec<_>>()));
        assert!(is_worth(&index, &first(4).collect::<Vec<_>>()));
        assert!(!is_worth(&index, &first(5).collect::<Vec<_>>()));
        assert!(is_worth(&ShardIndex(vec![None; 4]), &[]));
    }
}
