//! Running a chain backwards: encoded chunks to elements.

use super::compile::{Chain, Kind};
use super::reorder::{Direction, swap_items, transposed_back};
use crate::codec::checksum::{self, CHECKSUM_BYTES};
use crate::codec::error::CodecError;
use crate::codec::scratch::Scratch;
use crate::codec::variable::VariableElements;
use crate::codec::{compress, filter, objects};
use crate::grid::Region;
use crate::metadata::CodecSpec;

/// Where decoded bytes go.
enum Sink<'a> {
    /// Exactly these bytes.
    Slice(&'a mut [u8]),
    /// This buffer, at most so many bytes.
    Buffer(&'a mut Vec<u8>, u64),
}

impl Chain {
    /// Decodes a chunk into canonical elements in C order; `dst` has exactly [`Self::decoded_bytes`].
    pub fn decode_into(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        self.run_back(0, encoded, scratch, Sink::Slice(dst))
    }

    /// Decodes to the boundary in front of step `boundary`, at most `limit` bytes, which replace what `out` holds.
    pub(crate) fn decode_to(
        &self,
        boundary: usize,
        scratch: &mut Scratch,
        encoded: &[u8],
        limit: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        self.run_back(boundary, encoded, scratch, Sink::Buffer(out, limit))
    }

    /// Decodes a chunk of elements without fixed size; at most `limit` bytes at any stage.
    pub fn decode_variable(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        limit: u64,
    ) -> Result<VariableElements, CodecError> {
        self.decode_variable_part(scratch, encoded, None, limit)
    }

    /// Decodes a chunk of elements without fixed size, or as much of it as holds those of `wanted`, a region of the chunk:
    /// of shards the inner chunks that it touches. What the other elements hold does not matter.
    pub(crate) fn decode_variable_part(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        wanted: Option<&Region>,
        limit: u64,
    ) -> Result<VariableElements, CodecError> {
        let serializer = self.steps.iter().position(|step| {
            matches!(step.kind, Kind::Vlen | Kind::Objects | Kind::Shard(_) | Kind::Unknown)
        });
        let serializer = serializer.ok_or_else(|| CodecError::Unsupported {
            codec: "chunk",
            what: "elements without fixed size".to_owned(),
        })?;
        let mut bytes = Vec::new();
        self.decode_to(serializer + 1, scratch, encoded, limit, &mut bytes)?;
        let count = self.shape.iter().product();
        let step = &self.steps[serializer];
        let mut elements = match (&step.kind, &step.spec) {
            (Kind::Vlen, _) => VariableElements::parse(bytes, count)?,
            (Kind::Objects, CodecSpec::Objects(codec)) => objects::decode(codec, &bytes, count)?,
            (Kind::Shard(shard), _) => {
                // behind a transpose regions are others
                let wanted = wanted.filter(|_| serializer == 0);
                shard.decode_variable(scratch.inner(), &bytes, wanted, limit)?
            }
            _ => return Err(self.unknown(serializer)),
        };
        for step in self.steps[..serializer].iter().rev() {
            let Kind::Transpose { order, shape } = &step.kind else {
                return Err(CodecError::Unsupported {
                    codec: "chunk",
                    what: format!("{} in front of elements without fixed size", step.spec),
                });
            };
            elements = transposed_back(&elements, order, shape);
        }
        Ok(elements)
    }

    /// Runs the steps from the end to `boundary`.
    fn run_back(
        &self,
        boundary: usize,
        encoded: &[u8],
        scratch: &mut Scratch,
        mut sink: Sink<'_>,
    ) -> Result<(), CodecError> {
        let mut owned: Option<Vec<u8>> = None;
        let result = self.run_back_with(boundary, encoded, scratch, &mut sink, &mut owned);
        if let Some(buffer) = owned {
            scratch.give_back(buffer);
        }
        result
    }

    fn run_back_with(
        &self,
        boundary: usize,
        encoded: &[u8],
        scratch: &mut Scratch,
        sink: &mut Sink<'_>,
        owned: &mut Option<Vec<u8>>,
    ) -> Result<(), CodecError> {
        // the current bytes are a window of `encoded`, or of `owned`, or lie in the sink
        let mut window = 0..encoded.len();
        let mut in_sink = false;
        for index in (boundary..self.steps.len()).rev() {
            let step = &self.steps[index];
            let size = self.sizes[index];
            match &step.kind {
                Kind::Checksum => {
                    let CodecSpec::Checksum(checksum, place) = step.spec else { continue };
                    let current = &owned.as_deref().unwrap_or(encoded)[window.clone()];
                    let payload = checksum::verify(checksum, place, current)?;
                    let start = if place == crate::metadata::ChecksumPlace::Start {
                        window.start + CHECKSUM_BYTES
                    } else {
                        window.start
                    };
                    window = start..start + payload.len();
                }
                Kind::Swap(swaps) => {
                    if !in_sink && owned.is_none() {
                        let mut copy = scratch.take_buffer();
                        copy.extend_from_slice(&encoded[window.clone()]);
                        window = 0..copy.len();
                        *owned = Some(copy);
                    }
                    let current = match (&mut *sink, owned.as_mut()) {
                        (Sink::Slice(dst), _) if in_sink => &mut **dst,
                        (Sink::Buffer(out, _), _) if in_sink => out.as_mut_slice(),
                        (_, Some(buffer)) => &mut buffer[window.clone()],
                        (_, None) => continue,
                    };
                    swap_items(swaps, self.item_bytes.unwrap_or(1), current);
                }
                _ => {
                    let last =
                        self.steps[boundary..index].iter().all(|step| matches!(step.kind, Kind::Swap(_)));
                    if last {
                        // what goes to the sink takes no buffer: one more would stay, as large as a chunk
                        let current = &owned.as_deref().unwrap_or(encoded)[window.clone()];
                        match &mut *sink {
                            Sink::Slice(dst) => self.decode_step(index, scratch, current, dst)?,
                            Sink::Buffer(out, limit) => {
                                self.decode_step_into(index, size, *limit, scratch, current, out)?;
                            }
                        }
                        in_sink = true;
                        continue;
                    }
                    let limit = match &*sink {
                        Sink::Slice(_) => u64::MAX,
                        Sink::Buffer(_, limit) => *limit,
                    };
                    let mut next = scratch.take_used_buffer();
                    let current = &owned.as_deref().unwrap_or(encoded)[window.clone()];
                    let result = self.decode_step_into(index, size, limit, scratch, current, &mut next);
                    window = 0..next.len();
                    if let Some(buffer) = owned.replace(next) {
                        scratch.give_back(buffer);
                    }
                    result?;
                }
            }
        }
        if in_sink {
            return Ok(());
        }
        let current = &owned.as_deref().unwrap_or(encoded)[window];
        match sink {
            Sink::Slice(dst) if dst.len() == current.len() => dst.copy_from_slice(current),
            Sink::Slice(dst) => {
                return Err(CodecError::Size {
                    codec: "bytes",
                    found: current.len() as u64,
                    expected: dst.len() as u64,
                });
            }
            Sink::Buffer(out, limit) => {
                if current.len() as u64 > *limit {
                    return Err(CodecError::too_large("bytes", current.len() as u64, *limit));
                }
                out.clear();
                out.extend_from_slice(current);
            }
        }
        Ok(())
    }

    fn decode_step_into(
        &self,
        index: usize,
        size: Option<usize>,
        limit: u64,
        scratch: &mut Scratch,
        src: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        match size {
            Some(size) => {
                // contents are overwritten: growing once is enough
                if out.len() < size {
                    out.resize(size, 0);
                }
                out.truncate(size);
                self.decode_step(index, scratch, src, out)
            }
            None => match &self.steps[index].kind {
                Kind::Compress => {
                    let room = (scratch, self.window_bytes);
                    compress::decode_bounded(&self.steps[index].spec, src, limit, out, room)
                }
                _ => Err(self.unknown(index)),
            },
        }
    }

    fn decode_step(
        &self,
        index: usize,
        scratch: &mut Scratch,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        let step = &self.steps[index];
        match (&step.kind, &step.spec) {
            (Kind::Transpose { order, shape }, _) => {
                self.transpose(order, shape, src, dst, Direction::Decode)
            }
            (Kind::Shard(shard), _) => shard.decode(scratch.inner(), src, dst),
            (Kind::Filter, CodecSpec::Filter(filter)) => filter::decode(filter, src, dst),
            (Kind::Compress, spec) => compress::decode_exact(spec, src, dst, (scratch, self.window_bytes)),
            _ => Err(self.unknown(index)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{Checksum, ChecksumPlace, DataType};

    #[test]
    fn however_often_a_chain_is_run_it_keeps_the_buffers_that_it_says() {
        let zstd = || CodecSpec::Zstd { level: 1, checksum: false };
        let transpose = || CodecSpec::Transpose(vec![1, 0]);
        let crc32c = || CodecSpec::Checksum(Checksum::Crc32c, ChecksumPlace::End);
        for (specs, between) in [
            (vec![zstd()], 0),
            (vec![zstd(), crc32c()], 0),
            (vec![transpose(), zstd()], 1),
            (vec![transpose(), CodecSpec::Shuffle(4), zstd(), crc32c()], 2),
            (vec![transpose(), transpose(), CodecSpec::Shuffle(4), zstd()], 2),
        ] {
            let chain = Chain::from_specs(&specs, &DataType::UInt(4), &[100, 200], None).unwrap();
            assert_eq!(chain.between(), between, "{specs:?}");
            let data: Vec<u8> = (0..20_000u32).flat_map(u32::to_le_bytes).collect();
            let (mut encoded, mut decoded) = (Vec::new(), vec![0; data.len()]);
            chain.encode(&mut Scratch::new(), &data, &mut encoded).unwrap();
            let mut scratch = Scratch::new();
            for _ in 0..10 {
                chain.decode_into(&mut scratch, &encoded, &mut decoded).unwrap();
                assert!(decoded == data);
            }
            let kept: usize = scratch.buffers.iter().map(Vec::capacity).sum();
            assert!(kept <= between * data.len(), "{specs:?}: {kept}");
            chain.decode_range(&mut scratch, &encoded, 40..80, &mut [0; 40]).unwrap();
            let kept: usize = scratch.buffers.iter().map(Vec::capacity).sum();
            assert!(kept <= (between + 1) * data.len(), "{specs:?}: {kept}");
        }
    }
}
