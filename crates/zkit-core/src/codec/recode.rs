//! From one chain's bytes to another's, undoing only what differs.

use super::chain::Chain;
use super::error::CodecError;
use super::scratch::Scratch;
use super::shard::{ShardCodec, ShardWriter};

/// Two chains for the same chunk, and how far they agree.
#[derive(Debug)]
pub struct Recoder {
    source: Chain,
    target: Chain,
    /// Steps that both chains begin with; what they gave is taken over undecoded.
    prefix: usize,
}

/// Returns how many steps two chains have in common from the start.
pub fn recodable_prefix(source: &Chain, target: &Chain) -> usize {
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

    /// Returns the source's chain.
    pub fn source(&self) -> &Chain {
        &self.source
    }

    /// Returns the target's chain.
    pub fn target(&self) -> &Chain {
        &self.target
    }

    /// Recodes one chunk into `out`, which is cleared; returns the bytes at the boundary, decoded of the one
    /// and encoded to the other. Elements without fixed size may take `limit` bytes.
    pub fn recode(&self, scratch: &mut Scratch, encoded: &[u8], limit: u64, out: &mut Vec<u8>) -> Result<u64, CodecError> {
        out.clear();
        if self.is_copy() {
            out.extend_from_slice(encoded);
            return Ok(encoded.len() as u64);
        }
        if let Some((source, target)) = self.source.shard_at(self.prefix).zip(self.target.shard_at(self.prefix))
            && source.is_cut_like(target)
        {
            return self.recode_shard(source, target, scratch, encoded, limit, out);
        }
        let variable_apart = self.source.decoded_bytes().is_none() && self.prefix == 0;
        if variable_apart {
            let elements = self.source.decode_variable(scratch, encoded, limit)?;
            self.target.encode_variable(scratch, &elements, out)?;
            return Ok(elements.memory_bytes() as u64);
        }
        let mut between = scratch.take_buffer();
        let result = self.source.decode_to(self.prefix, scratch, encoded, limit, &mut between);
        let result = result.and_then(|()| self.target.encode_from(self.prefix, scratch, &between, out));
        let bytes = between.len() as u64;
        scratch.give_back(between);
        result.map(|()| bytes)
    }

    /// Recodes inner chunks one by one; absent ones stay absent.
    fn recode_shard(&self, source: &ShardCodec, target: &ShardCodec, scratch: &mut Scratch, encoded: &[u8], limit: u64, out: &mut Vec<u8>) -> Result<u64, CodecError> {
        let mut shard = scratch.take_buffer();
        let mut assembled = scratch.take_buffer();
        let result = self.source.decode_to(self.prefix + 1, scratch, encoded, limit, &mut shard);
        let result = result.and_then(|()| recode_inner(source, target, scratch, &shard, limit, &mut assembled));
        let result = result.and_then(|bytes| self.target.encode_from(self.prefix + 1, scratch, &assembled, out).map(|()| bytes));
        scratch.give_back(shard);
        scratch.give_back(assembled);
        result
    }
}

fn recode_inner(source: &ShardCodec, target: &ShardCodec, scratch: &mut Scratch, shard: &[u8], limit: u64, out: &mut Vec<u8>) -> Result<u64, CodecError> {
    out.clear();
    let index = source.index_of(scratch, shard)?;
    let (from, to) = (source.inner(), target.inner());
    let prefix = recodable_prefix(from, to);
    let same = prefix == from.len() && prefix == to.len();
    let mut between = scratch.take_buffer();
    let mut recoded = scratch.take_buffer();
    let mut writer = ShardWriter::new(target, out);
    let mut bytes = 0;
    for (position, place) in index.0.iter().enumerate() {
        let Some(place) = place else { continue };
        let encoded = ShardCodec::inner_bytes(shard, place);
        if same {
            bytes += encoded.len() as u64;
            writer.push(position, encoded);
            continue;
        }
        let inner = scratch.inner();
        match from.shard_at(prefix).zip(to.shard_at(prefix)) {
            Some((from_shard, to_shard)) if from_shard.is_cut_like(to_shard) && prefix + 1 == from.len() && prefix + 1 == to.len() => {
                bytes += recode_inner(from_shard, to_shard, inner, encoded, limit, &mut recoded)?;
            }
            _ => {
                from.decode_to(prefix, inner, encoded, limit, &mut between)?;
                bytes += between.len() as u64;
                to.encode_from(prefix, inner, &between, &mut recoded)?;
            }
        }
        writer.push(position, &recoded);
    }
    writer.finish(scratch)?;
    scratch.give_back(between);
    scratch.give_back(recoded);
    Ok(bytes)
}
