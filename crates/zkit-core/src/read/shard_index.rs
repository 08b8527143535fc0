//! The index of a shard, read alone.

use std::time::Instant;

use super::reader::{ArrayReader, ChunkSource, codec_error, with_scratch};
use crate::codec::{Scratch, ShardCodec, ShardIndex};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Meter;

impl ArrayReader<'_> {
    /// Returns whether a chunk is a shard whose index says where its inner chunks lie, so that each can be read, or fail, alone.
    pub(crate) fn has_inner_chunks(
        &self,
        chunk_index: &[u64],
        source: &ChunkSource<'_>,
        meter: &Meter,
    ) -> Result<bool> {
        let chain = self.chain_for(chunk_index)?;
        let Some(shard) = chain.shard() else { return Ok(false) };
        let fetched = match source {
            ChunkSource::Local => self.fetch(&[chunk_index.to_vec()], meter)?.and_then(|mut all| all.pop()),
            ChunkSource::Fetched(bytes) => Some(bytes.cloned()),
        };
        let mut key = String::with_capacity(64);
        self.node().chunk_key(chunk_index, &mut key);
        with_scratch(|codec, head, _| {
            let found = match fetched {
                Some(Some(bytes)) => shard.index_of(codec, &bytes).map_err(codec_error).map(Some),
                Some(None) => Ok(None),
                None => self.stored_index(shard, &key, (codec, head), meter),
            };
            match found {
                Ok(index) => Ok(index.is_some()),
                Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported) => {
                    Ok(false)
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Reads the index of a local shard, and no more of it; `None` if the shard is absent.
    pub(super) fn stored_index(
        &self,
        shard: &ShardCodec,
        key: &str,
        (codec, head): (&mut Scratch, &mut Vec<u8>),
        meter: &Meter,
    ) -> Result<Option<ShardIndex>> {
        let started = Instant::now();
        let length = shard.index_bytes() as u64;
        let stored = match shard.index_at_start() {
            true => self.store().get_range(key, 0, length, head)?,
            false => self.store().get_suffix(key, length, head)?,
        };
        let Some(stored) = stored else { return Ok(None) };
        if (head.len() as u64) < length {
            let message = format!("a shard of {stored} bytes cannot hold its index of {length}");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        meter.read_time.add_time(started.elapsed());
        meter.bytes_read.add(length);
        shard.read_index(codec, head, stored).map(Some).map_err(codec_error)
    }
}
