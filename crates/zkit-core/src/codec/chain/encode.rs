//! Running a chain forwards: elements to encoded chunks.

use super::compile::{Chain, Kind};
use super::reorder::{Direction, swap_items};
use crate::codec::error::CodecError;
use crate::codec::scratch::Scratch;
use crate::codec::variable::VariableElements;
use crate::codec::{checksum, compress};
use crate::metadata::CodecSpec;

impl Chain {
    /// Encodes a chunk of canonical elements in C order into `out`, which is cleared.
    pub fn encode(&self, scratch: &mut Scratch, decoded: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.encode_from(0, scratch, decoded, out)
    }

    /// Encodes elements without fixed size into `out`, which is cleared.
    pub fn encode_variable(
        &self,
        scratch: &mut Scratch,
        elements: &VariableElements,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let mut bytes = scratch.take_buffer();
        match self.steps.first().map(|step| &step.kind) {
            Some(Kind::Vlen) => elements.write(&mut bytes)?,
            Some(Kind::Shard(shard)) => shard.encode_variable(scratch.inner(), elements, &mut bytes)?,
            _ => {
                return Err(CodecError::Unsupported {
                    codec: "chunk",
                    what: "zkit writes elements without fixed size by vlen codecs only, in shards or alone"
                        .to_owned(),
                });
            }
        }
        let result = self.encode_from(1, scratch, &bytes, out);
        scratch.give_back(bytes);
        result
    }

    /// Encodes what lies at a boundary.
    pub(crate) fn encode_from(
        &self,
        boundary: usize,
        scratch: &mut Scratch,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        out.clear();
        if let Some(expected) = self.sizes[boundary]
            && expected != bytes.len()
        {
            return Err(CodecError::Size {
                codec: "chunk",
                found: bytes.len() as u64,
                expected: expected as u64,
            });
        }
        if boundary == self.steps.len() {
            out.extend_from_slice(bytes);
            return Ok(());
        }
        let mut owned: Option<Vec<u8>> = None;
        for index in boundary..self.steps.len() {
            let last = index + 1 == self.steps.len();
            let mut next = if last { std::mem::take(out) } else { scratch.take_buffer() };
            let result = self.encode_step(index, scratch, owned.as_deref().unwrap_or(bytes), &mut next);
            if let Some(buffer) = owned.take() {
                scratch.give_back(buffer);
            }
            if last {
                *out = next
            } else {
                owned = Some(next)
            }
            result?;
        }
        Ok(())
    }

    fn encode_step(
        &self,
        index: usize,
        scratch: &mut Scratch,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let step = &self.steps[index];
        match &step.kind {
            Kind::Transpose { order, shape } => {
                out.resize(input.len(), 0);
                self.transpose(order, shape, input, out, Direction::Encode)
            }
            Kind::Swap(swaps) => {
                out.extend_from_slice(input);
                swap_items(swaps, self.item_bytes.unwrap_or(1), out);
                Ok(())
            }
            Kind::Shard(shard) => shard.encode(scratch.inner(), input, out),
            Kind::Checksum => {
                if let CodecSpec::Checksum(checksum, place) = step.spec {
                    checksum::append(checksum, place, input, out);
                }
                Ok(())
            }
            Kind::Compress => compress::encode(&step.spec, input, out, scratch),
            Kind::Vlen | Kind::Objects | Kind::Filter | Kind::Unknown => Err(CodecError::Unsupported {
                codec: "chunk",
                what: format!("zkit does not write {}", step.spec),
            }),
        }
    }
}
