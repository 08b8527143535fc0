//! What the first bytes of stored chunks say: blosc and zstd frames, shard indexes.

use std::collections::BTreeMap;

use super::listing::StoredChunk;
use crate::codec::blosc::{Header, Shuffle};
use crate::codec::{Chain, FrameFacts, HEAD_BYTES, Scratch, ShardCodec, frame_facts};
use crate::error::Result;
use crate::hierarchy::ArrayNode;
use crate::metadata::{ChecksumPlace, CodecSpec};
use crate::store::Store;

/// Shard indexes larger than this are not read: a survey reads heads, not megabytes.
const INDEX_BYTES_MOST: usize = 16 << 20;

/// Inner chunks of one shard whose head is read.
const INNER_HEADS: usize = 4;

/// How often each value was seen.
pub type Tally<Value> = BTreeMap<Value, u64>;

/// The frames of one array's chunks (inner chunks where sharded), of those that were looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frames {
    /// Stored chunks (shards where sharded) that were looked at.
    pub chunks: u64,
    /// Frames that say nothing of themselves: other codecs, raw bytes.
    pub opaque: u64,
    /// Blosc frames.
    pub blosc: BloscFrames,
    /// Zstd frames.
    pub zstd: ZstdFrames,
    /// Shard indexes.
    pub shards: ShardIndexes,
    /// Chunks whose head is not what the metadata says.
    pub broken: u64,
}

/// What blosc frames say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BloscFrames {
    /// How many there were.
    pub frames: u64,
    /// Of these, those that hold their bytes as they are.
    pub memcpyed: u64,
    /// Inner compressors and shuffles.
    pub codecs: Tally<(&'static str, &'static str)>,
    /// Decoded bytes of a block.
    pub block_bytes: Tally<u64>,
    /// Blocks of a frame, each of which one thread can decode.
    pub blocks: Tally<u64>,
    /// Bytes of an element, as the shuffle saw it.
    pub type_bytes: Tally<u8>,
}

/// What zstd frames say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZstdFrames {
    /// How many there were.
    pub frames: u64,
    /// Of these, those that name their decoded size.
    pub with_content_size: u64,
    /// Of these, those that end in a checksum.
    pub with_checksum: u64,
}

/// What shard indexes say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardIndexes {
    /// Indexes read.
    pub read: u64,
    /// Inner chunks that they have.
    pub present: u64,
    /// Inner chunks that they leave out: these read as fill.
    pub absent: u64,
    /// Bytes of an encoded index.
    pub index_bytes: u64,
}

impl Frames {
    /// Returns how many threads can decode one chunk (inner chunk where sharded): the median over all frames.
    ///
    /// `None` if no frame was seen.
    pub fn lanes_per_chunk(&self) -> Option<u64> {
        let frames = self.blosc.frames + self.zstd.frames + self.opaque;
        let single = self.zstd.frames + self.opaque;
        let middle = frames.checked_sub(1)? / 2;
        let mut seen = single;
        if middle < seen {
            return Some(1);
        }
        for (&blocks, &count) in &self.blosc.blocks {
            seen += count;
            if middle < seen {
                return Some(blocks.max(1));
            }
        }
        Some(1)
    }

    pub(super) fn add(&mut self, seen: Seen) {
        match seen {
            Seen::Absent => return,
            Seen::Frame(facts) => self.add_frame(&facts),
            Seen::Broken(_) => self.broken += 1,
            Seen::Shard { present, absent, index_bytes, inner } => {
                self.shards.read += 1;
                self.shards.present += present;
                self.shards.absent += absent;
                self.shards.index_bytes = self.shards.index_bytes.max(index_bytes);
                inner.iter().for_each(|facts| self.add_frame(facts));
            }
        }
        self.chunks += 1;
    }

    fn add_frame(&mut self, facts: &FrameFacts) {
        match facts {
            FrameFacts::Opaque => self.opaque += 1,
            FrameFacts::Blosc(header) => self.blosc.add(header),
            FrameFacts::Zstd { content_size, checksum } => {
                self.zstd.frames += 1;
                self.zstd.with_content_size += u64::from(content_size.is_some());
                self.zstd.with_checksum += u64::from(*checksum);
            }
        }
    }
}

impl BloscFrames {
    fn add(&mut self, header: &Header) {
        self.frames += 1;
        self.memcpyed += u64::from(header.memcpyed);
        *self.codecs.entry((header.codec.name(), shuffle_name(header.shuffle))).or_default() += 1;
        *self.block_bytes.entry(header.block_size).or_default() += 1;
        *self.blocks.entry(header.block_count() as u64).or_default() += 1;
        *self.type_bytes.entry(header.type_size).or_default() += 1;
    }
}

fn shuffle_name(shuffle: Shuffle) -> &'static str {
    match shuffle {
        Shuffle::None => "noshuffle",
        Shuffle::Byte => "shuffle",
        Shuffle::Bit => "bitshuffle",
    }
}

/// What one stored chunk shows of itself.
pub(super) enum Seen {
    Frame(FrameFacts),
    Shard {
        present: u64,
        absent: u64,
        index_bytes: u64,
        inner: Vec<FrameFacts>,
    },
    /// It is not what its metadata says; why.
    Broken(String),
    /// It is gone since the listing.
    Absent,
}

/// How the chunks of one array are looked at.
pub(super) enum Look {
    /// Nothing to read: its codecs write nothing of themselves.
    Opaque,
    /// The first bytes of each chunk.
    Heads,
    /// The index of each shard, and the first bytes of a few inner chunks.
    Shards(Box<Chain>),
    /// Not at all: an index too large, or codecs around the shards.
    Nothing,
}

impl Look {
    pub(super) fn of(array: &ArrayNode) -> Self {
        let metadata = &array.metadata;
        if metadata.sharding().is_none() {
            return if speaks(&metadata.codecs) { Self::Heads } else { Self::Opaque };
        }
        match Chain::compile(metadata, &metadata.grid.largest_chunk_shape()) {
            Ok(chain) if chain.shard().is_some_and(|shard| shard.index_bytes() <= INDEX_BYTES_MOST) => {
                Self::Shards(Box::new(chain))
            }
            _ => Self::Nothing,
        }
    }

    /// Reads what is to be read of one chunk.
    pub(super) fn look(&self, store: &Store, array: &ArrayNode, chunk: StoredChunk) -> Result<Seen> {
        let mut key = String::new();
        array.chunk_key(&array.metadata.grid.index_at(chunk.position), &mut key);
        match self {
            Self::Opaque | Self::Nothing => Ok(Seen::Frame(FrameFacts::Opaque)),
            Self::Heads => {
                let mut head = Vec::new();
                let Some(size) = store.get_range(&key, 0, HEAD_BYTES, &mut head)? else {
                    return Ok(Seen::Absent);
                };
                Ok(seen_frame(&array.metadata.codecs, &head, size))
            }
            Self::Shards(chain) => match chain.shard() {
                Some(shard) => look_into_shard(store, array, shard, &key),
                None => Ok(Seen::Absent),
            },
        }
    }
}

/// Returns whether the outermost codec writes a header that says something.
fn speaks(codecs: &[CodecSpec]) -> bool {
    let outermost =
        codecs.iter().rev().find(|codec| !matches!(codec, CodecSpec::Checksum(_, ChecksumPlace::End)));
    matches!(outermost, Some(CodecSpec::Blosc(_) | CodecSpec::Zstd { .. }))
}

fn seen_frame(codecs: &[CodecSpec], head: &[u8], size: u64) -> Seen {
    match frame_facts(codecs.iter(), head) {
        Ok(FrameFacts::Blosc(header)) if header.cbytes > size => {
            Seen::Broken(format!("blosc: a frame of {} bytes in an object of {size}", header.cbytes))
        }
        Ok(facts) => Seen::Frame(facts),
        Err(error) => Seen::Broken(error.to_string()),
    }
}

fn look_into_shard(store: &Store, array: &ArrayNode, shard: &ShardCodec, key: &str) -> Result<Seen> {
    let index_bytes = shard.index_bytes() as u64;
    let mut encoded = Vec::new();
    let size = if shard.index_at_start() {
        store.get_range(key, 0, index_bytes, &mut encoded)?
    } else {
        store.get_suffix(key, index_bytes, &mut encoded)?
    };
    let Some(size) = size else { return Ok(Seen::Absent) };
    if size < index_bytes {
        return Ok(Seen::Broken(format!("a shard of {size} bytes, its index alone has {index_bytes}")));
    }
    let index = match shard.read_index(&mut Scratch::new(), &encoded, size) {
        Ok(index) => index.0,
        Err(error) => return Ok(Seen::Broken(error.to_string())),
    };
    let places: Vec<_> = index.iter().flatten().collect();
    let (present, absent) = (places.len() as u64, (index.len() - places.len()) as u64);
    let codecs = array.metadata.sharding().map_or(&[][..], |sharding| &sharding.codecs);
    let mut inner = Vec::new();
    for place in places.iter().step_by((places.len() / INNER_HEADS).max(1)).take(INNER_HEADS) {
        if !speaks(codecs) {
            inner.push(FrameFacts::Opaque);
            continue;
        }
        let mut head = Vec::new();
        if store.get_range(key, place.offset, place.length.min(HEAD_BYTES), &mut head)?.is_none() {
            return Ok(Seen::Absent);
        }
        match seen_frame(codecs, &head, place.length) {
            Seen::Frame(facts) => inner.push(facts),
            broken => return Ok(broken),
        }
    }
    Ok(Seen::Shard { present, absent, index_bytes, inner })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::blosc::InnerCodec;

    fn frame(blocks: u64) -> FrameFacts {
        FrameFacts::Blosc(Header {
            version: 2,
            codec: InnerCodec::Zstd,
            shuffle: Shuffle::Bit,
            type_size: 4,
            nbytes: blocks * 1024,
            block_size: 1024,
            cbytes: 500,
            memcpyed: false,
            split: false,
        })
    }

    #[test]
    fn lanes_are_the_median_of_all_frames() {
        let mut frames = Frames::default();
        assert_eq!(frames.lanes_per_chunk(), None);
        frames.add(Seen::Frame(FrameFacts::Opaque));
        assert_eq!(frames.lanes_per_chunk(), Some(1));
        for blocks in [8, 8, 9] {
            frames.add(Seen::Frame(frame(blocks)));
        }
        assert_eq!(frames.lanes_per_chunk(), Some(8));
        assert_eq!(frames.blosc.codecs[&("zstd", "bitshuffle")], 3);
        frames.add(Seen::Broken("no frame".into()));
        assert_eq!((frames.broken, frames.chunks), (1, 5));
    }
}
