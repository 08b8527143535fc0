//! Units of remote sources: plain threads fetch their objects, so that no worker ever waits for the network.

use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;

use super::boxes::OpenBox;
use super::copy::{Run, StopOnPanic};
use super::gather::SourceReader;
use crate::error::Result;
use crate::plan::{Cover, Unit};

/// The objects of one unit, in the order of its chunks; `None` for absent ones.
pub(super) type Fetched = Vec<Option<Bytes>>;

impl Run<'_> {
    /// Fetches units until none is left.
    pub(super) fn fetch_units(&self) {
        let _guard = StopOnPanic(self);
        while let Some(unit) = self.queue.next_to_fetch() {
            let fetched = if self.is_failed(unit) { Ok(Vec::new()) } else { self.fetch(unit) };
            let fetched = fetched.or_else(|error| {
                self.fail_store(self.copies[unit.array].array.store, error);
                if self.stop.load(Ordering::Relaxed) { Err(()) } else { Ok(Vec::new()) }
            });
            match fetched {
                Ok(fetched) => self.queue.fetched(unit, fetched, |unit, buffer, fetched| {
                    let copy = &self.copies[unit.array];
                    if !copy.is_boxed(unit) || self.is_failed(unit) {
                        return Err(fetched);
                    }
                    OpenBox::open(unit, copy, buffer, Some(fetched), self.plan.jobs).ok_or_else(Vec::new)
                }),
                Err(()) => return,
            }
        }
    }

    fn fetch(&self, unit: &Unit) -> Result<Fetched> {
        let copy = &self.copies[unit.array];
        let positions: Vec<Option<u64>> = match &unit.cover {
            // elements without fixed size are read by the worker
            Cover::Box(_) if !copy.is_boxed(unit) => Vec::new(),
            Cover::Box(_) => OpenBox::stored_sources(unit, copy),
            Cover::Chunks(chunks) => copy.array.stored.range(chunks.clone()).map(Some).collect(),
        };
        if let (Some(gather), Cover::Box(_)) =
            (copy.reader.as_ref().and_then(SourceReader::gather), &unit.cover)
        {
            return gather.fetch(&positions, copy.array, copy.object_limit, self.meter);
        }
        let mut key = String::new();
        let keys: Vec<String> = positions
            .iter()
            .flatten()
            .map(|&position| {
                copy.array.source.chunk_key(&copy.array.source.metadata.grid.index_at(position), &mut key);
                key.clone()
            })
            .collect();
        let started = Instant::now();
        let mut fetched = copy.source.get_many(&keys, copy.object_limit).into_iter();
        let fetched: Result<Fetched> = positions
            .iter()
            .map(|position| match position {
                Some(_) => fetched.next().unwrap_or(Ok(None)),
                None => Ok(None),
            })
            .collect();
        self.meter.read_time.add_time(started.elapsed());
        let fetched = fetched?;
        if matches!(unit.cover, Cover::Box(_)) {
            self.meter.bytes_read.add(fetched.iter().flatten().map(|bytes| bytes.len() as u64).sum());
        }
        Ok(fetched)
    }
}
