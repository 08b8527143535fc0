//! From one chain's bytes to another's, undoing only what differs.

use std::time::{Duration, Instant};

use super::chain::Chain;
use super::error::CodecError;
use super::scratch::Scratch;
use super::shard::{ShardCodec, ShardWriter};
use crate::grid::unravel;

/// What recoding a chunk cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// Bytes decoded, and encoded again.
    pub bytes: u64,
    /// Time spent decoding.
    pub decode: Duration,
    /// Time spent encoding.
    pub encode: Duration,
}

impl Cost {
    fn of(bytes: usize, started: Instant, decoded: Instant) -> Self {
        Self { bytes: bytes as u64, decode: decoded - started, encode: decoded.elapsed() }
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.decode += other.decode;
        self.encode += other.encode;
    }
}

/// Two chains for the same chunk, and how far they agree.
#[derive(Debug)]
pub struct Recoder {
    source: Chain,
    target: Chain,
    /// Steps that both chains begin with; what they gave is taken over undecoded.
    prefix: usize,
}

/// Returns how many steps two chains have in common from the start.
fn recodable_prefix(source: &Chain, target: &Chain) -> usize {
    if source.shape() != target.shape() || source.decoded_bytes() != target.decoded_bytes() {
        return 0;
    }
    source.specs().zip(target.specs()).take_while(|(a, b)| a == b).count()
}

impl Recoder {
    /// Prepares recoding between chains that decode to the same elements.
    pub fn new(source: Chain, target: Chain) -> Self {
        let prefix = recodable_prefix(&source, &target);
        Self { source, target, prefix }
    }

    /// Returns whether encoded chunks are the same in both chains.
    pub fn is_copy(&self) -> bool {
        self.prefix == self.source.len() && self.prefix == self.target.len()
    }

    /// Checks that every step that differs can be undone and done; the error names the codec that cannot.
    pub fn check(&self) -> Result<(), String> {
        self.source.can_decode_to(self.prefix)?;
        self.target.can_encode_from(self.prefix)
    }

    /// Returns the source's chain.
    pub fn source(&self) -> &Chain {
        &self.source
    }

    /// Returns the target's chain.
    pub fn target(&self) -> &Chain {
        &self.target
    }

    /// Recodes one chunk into `out`, which is cleared, and returns what it cost. Elements without fixed size may
    /// take `limit` bytes.
    pub fn recode(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        limit: u64,
        out: &mut Vec<u8>,
    ) -> Result<Cost, CodecError> {
        self.recode_around(scratch, encoded, limit, &mut |_, error| Err(error), out)
    }

    /// Recodes one chunk as [`Self::recode`] does. Of shards, inner chunks that do not decode are left out where `lost`, which
    /// is given their place in the shard, says that this is all right.
    pub(crate) fn recode_around(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        limit: u64,
        lost: &mut Lost<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Cost, CodecError> {
        out.clear();
        if self.is_copy() {
            out.extend_from_slice(encoded);
            return Ok(Cost::default());
        }
        if let Some((source, target)) =
            self.source.shard_at(self.prefix).zip(self.target.shard_at(self.prefix))
            && source.is_cut_like(target)
        {
            return self.recode_shard(source, target, scratch, encoded, limit, lost, out);
        }
        let variable_apart = self.source.decoded_bytes().is_none() && self.prefix == 0;
        let started = Instant::now();
        if variable_apart {
            let elements = self.source.decode_variable(scratch, encoded, limit)?;
            let decoded = Instant::now();
            self.target.encode_variable(scratch, &elements, out)?;
            return Ok(Cost::of(elements.memory_bytes(), started, decoded));
        }
        let mut between = scratch.take_used_buffer();
        let result = self.source.decode_to(self.prefix, scratch, encoded, limit, &mut between);
        let decoded = Instant::now();
        let result = result.and_then(|()| self.target.encode_from(self.prefix, scratch, &between, out));
        let cost = Cost::of(between.len(), started, decoded);
        scratch.give_back(between);
        result.map(|()| cost)
    }

    /// Returns whether two encoded chunks hold the same bytes at the boundary: all that can be compared of elements
    /// that lie behind codecs which zkit does not know.
    pub fn agree(
        &self,
        scratch: &mut Scratch,
        source: &[u8],
        target: &[u8],
        limit: u64,
    ) -> Result<bool, CodecError> {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        self.source.decode_to(self.prefix, scratch, source, limit, &mut a)?;
        self.target.decode_to(self.prefix, scratch, target, limit, &mut b)?;
        Ok(a == b)
    }

    /// Recodes inner chunks one by one; absent ones stay absent.
    #[expect(clippy::too_many_arguments, reason = "both codecs, the shard and where it goes")]
    fn recode_shard(
        &self,
        source: &ShardCodec,
        target: &ShardCodec,
        scratch: &mut Scratch,
        encoded: &[u8],
        limit: u64,
        lost: &mut Lost<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Cost, CodecError> {
        let mut shard = scratch.take_buffer();
        let mut assembled = scratch.take_buffer();
        let result = self.source.decode_to(self.prefix + 1, scratch, encoded, limit, &mut shard);
        let result =
            result.and_then(|()| recode_inner(source, target, scratch, &shard, limit, lost, &mut assembled));
        let result = result.and_then(|cost| {
            self.target.encode_from(self.prefix + 1, scratch, &assembled, out).map(|()| cost)
        });
        scratch.give_back(shard);
        scratch.give_back(assembled);
        result
    }
}

/// Decides about an inner chunk that does not decode, by its place in the shard: left out, or the error.
pub(crate) type Lost<'l> = dyn FnMut(&[u64], CodecError) -> Result<(), CodecError> + 'l;

fn recode_inner(
    source: &ShardCodec,
    target: &ShardCodec,
    scratch: &mut Scratch,
    shard: &[u8],
    limit: u64,
    lost: &mut Lost<'_>,
    out: &mut Vec<u8>,
) -> Result<Cost, CodecError> {
    out.clear();
    let index = source.index_of(scratch, shard)?;
    let (from, to) = (source.inner(), target.inner());
    let prefix = recodable_prefix(from, to);
    let same = prefix == from.len() && prefix == to.len();
    let mut between = scratch.take_used_buffer();
    let mut recoded = scratch.take_buffer();
    let mut writer = ShardWriter::new(target, out);
    let mut cost = Cost::default();
    for (position, place) in index.0.iter().enumerate() {
        let Some(place) = place else { continue };
        let encoded = ShardCodec::inner_bytes(shard, place);
        if same {
            writer.push(position, encoded);
            continue;
        }
        let inner = scratch.inner();
        let one = match from.shard_at(prefix).zip(to.shard_at(prefix)) {
            Some((from_shard, to_shard))
                if from_shard.is_cut_like(to_shard) && prefix + 1 == from.len() && prefix + 1 == to.len() =>
            {
                // of shards in shards the inner one is left out whole
                let all = &mut |_: &[u64], error| Err(error);
                recode_inner(from_shard, to_shard, inner, encoded, limit, all, &mut recoded)
            }
            _ => {
                let started = Instant::now();
                let read = from.decode_to(prefix, inner, encoded, limit, &mut between);
                let decoded = Instant::now();
                let written = read.and_then(|()| to.encode_from(prefix, inner, &between, &mut recoded));
                written.map(|()| Cost::of(between.len(), started, decoded))
            }
        };
        match one {
            Ok(one) => {
                cost += one;
                writer.push(position, &recoded);
            }
            Err(error) => lost(&unravel(position as u64, source.counts()), error)?,
        }
    }
    writer.finish(scratch)?;
    scratch.give_back(between);
    scratch.give_back(recoded);
    Ok(cost)
}
