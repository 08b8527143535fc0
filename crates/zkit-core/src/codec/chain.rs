//! One array's codecs, compiled for one chunk shape: sizes are known before a byte is read.
//!
//! A chain is a list of steps in encoding order. Decoding runs it backwards, each step into one of two reused
//! buffers and the last one straight into the destination. A *boundary* is a place between steps: recoding
//! decodes only to the first boundary at which two chains differ.

use std::ops::Range;

use super::blosc;
use super::checksum::{self, CHECKSUM_BYTES};
use super::compress;
use super::error::CodecError;
use super::filter;
use super::scratch::Scratch;
use super::shard::ShardCodec;
use super::variable::VariableElements;
use crate::grid::product;
use crate::kernels::copy::{Strided, c_strides, copy_strided};
use crate::kernels::swap::swap_bytes;
use crate::metadata::{ArrayMetadata, Checksum, CodecSpec, DataType, Swap};
use crate::units::saturating_usize;

/// The codecs of an array for chunks of one shape.
#[derive(Debug)]
pub struct Chain {
    steps: Vec<Step>,
    /// Bytes in front of each step, and behind the last; `None` where only the data say it.
    sizes: Vec<Option<usize>>,
    shape: Vec<usize>,
    item_bytes: Option<usize>,
}

#[derive(Debug)]
struct Step {
    spec: CodecSpec,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Dimensions in another order; holds the shape in front of the step.
    Transpose {
        order: Vec<usize>,
        shape: Vec<usize>,
    },
    /// Byte order, in place.
    Swap(Vec<Swap>),
    /// Elements without fixed size.
    Vlen,
    Shard(Box<ShardCodec>),
    Filter,
    Checksum,
    Compress,
    /// Not executable; the name is in the spec.
    Unknown,
}

/// Where decoded bytes go.
enum Sink<'a> {
    /// Exactly these bytes.
    Slice(&'a mut [u8]),
    /// This buffer, at most so many bytes.
    Buffer(&'a mut Vec<u8>, u64),
}

impl Chain {
    /// Compiles the codecs of `metadata` for stored chunks of `chunk_shape`.
    ///
    /// Codecs that zkit does not know are taken in; running them is an error, so that what lies outside them can
    /// still be recoded.
    pub fn compile(metadata: &ArrayMetadata, chunk_shape: &[u64]) -> Result<Self, CodecError> {
        let fill = metadata.fill_value.element(&metadata.data_type).unwrap_or_default();
        Self::from_specs(&metadata.codecs, &metadata.data_type, chunk_shape, &fill)
    }

    /// Compiles codecs for elements of one type; `fill` is what absent inner chunks read as.
    pub(super) fn from_specs(
        specs: &[CodecSpec],
        data_type: &DataType,
        chunk_shape: &[u64],
        fill: &[u8],
    ) -> Result<Self, CodecError> {
        let item_bytes = data_type.item_bytes().map(saturating_usize);
        let elements = product(chunk_shape).and_then(|elements| usize::try_from(elements).ok());
        let decoded = elements.and_then(|elements| elements.checked_mul(item_bytes.unwrap_or(1)));
        let decoded = decoded.filter(|&bytes| isize::try_from(bytes).is_ok());
        let (Some(decoded), Some(shape)) = (
            decoded,
            chunk_shape.iter().map(|&length| usize::try_from(length).ok()).collect::<Option<Vec<_>>>(),
        ) else {
            return Err(CodecError::Unsupported {
                codec: "chunk",
                what: format!("chunks of {chunk_shape:?} elements"),
            });
        };
        let mut chain = Self {
            steps: Vec::new(),
            sizes: vec![item_bytes.map(|_| decoded)],
            shape: shape.clone(),
            item_bytes,
        };
        let mut current_shape = shape;
        for spec in specs {
            let size = chain.sizes.last().copied().flatten();
            let (kind, next) = match spec {
                CodecSpec::Transpose(order) => {
                    let transposed = order.iter().map(|&dimension| current_shape[dimension]).collect();
                    let shape = std::mem::replace(&mut current_shape, transposed);
                    (Kind::Transpose { order: order.clone(), shape }, size)
                }
                CodecSpec::Bytes(swaps) if swaps.is_empty() => continue,
                CodecSpec::Bytes(swaps) => (Kind::Swap(swaps.clone()), size),
                CodecSpec::VlenUtf8 | CodecSpec::VlenBytes | CodecSpec::VlenArray => (Kind::Vlen, None),
                CodecSpec::Sharding(sharding) => (
                    Kind::Shard(Box::new(ShardCodec::compile(sharding, data_type, &current_shape, fill)?)),
                    None,
                ),
                CodecSpec::Filter(filter) => {
                    (Kind::Filter, size.and_then(|size| filter::encoded_size(filter, size)))
                }
                CodecSpec::Checksum(..) => (Kind::Checksum, size.map(|size| size + CHECKSUM_BYTES)),
                CodecSpec::Shuffle(_) => (Kind::Compress, size),
                CodecSpec::Unknown(_) => (Kind::Unknown, None),
                _ => (Kind::Compress, None),
            };
            chain.steps.push(Step { spec: spec.clone(), kind });
            chain.sizes.push(next);
        }
        Ok(chain)
    }

    /// Returns the bytes of a decoded chunk, or `None` where elements have no fixed size.
    pub fn decoded_bytes(&self) -> Option<usize> {
        self.sizes[0]
    }

    /// Returns the shape of a decoded chunk.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the bytes of an encoded chunk where they are always the same: raw chunks, shard indexes.
    pub fn encoded_bytes(&self) -> Option<usize> {
        self.sizes[self.steps.len()]
    }

    /// Returns the codecs that are run, in encoding order.
    pub fn specs(&self) -> impl Iterator<Item = &CodecSpec> {
        self.steps.iter().map(|step| &step.spec)
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns the shard codec at a step, if it is one.
    pub(super) fn shard_at(&self, step: usize) -> Option<&ShardCodec> {
        match &self.steps.get(step)?.kind {
            Kind::Shard(shard) => Some(shard),
            _ => None,
        }
    }

    /// Returns the shard codec, if chunks are shards whose bytes lie in the object as they are.
    pub fn shard(&self) -> Option<&ShardCodec> {
        self.steps.last().and_then(|_| self.shard_at(self.len() - 1)).filter(|_| self.len() == 1)
    }

    /// Checks that every step behind a boundary can be undone; the error names the codec that cannot.
    pub fn can_decode_to(&self, boundary: usize) -> Result<(), String> {
        self.steps[boundary..].iter().try_for_each(|step| match &step.kind {
            Kind::Unknown => Err(format!("zkit does not decode the codec `{}`", step.spec)),
            Kind::Shard(shard) => shard.inner().can_decode_to(0),
            _ => Ok(()),
        })
    }

    /// Checks that every step behind a boundary can be done; the error names the codec that cannot.
    pub fn can_encode_from(&self, boundary: usize) -> Result<(), String> {
        self.steps[boundary..].iter().try_for_each(|step| match &step.kind {
            Kind::Shard(shard) => shard.inner().can_encode_from(0),
            Kind::Compress if compress::can_encode(&step.spec) => Ok(()),
            Kind::Transpose { .. } | Kind::Swap(_) | Kind::Checksum | Kind::Vlen => Ok(()),
            _ => Err(format!("zkit does not write the codec `{}`", step.spec)),
        })
    }

    /// Decodes a chunk into canonical elements in C order; `dst` has exactly [`Self::decoded_bytes`].
    pub fn decode_into(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        self.run_back(0, encoded, scratch, Sink::Slice(dst))
    }

    /// Decodes to the boundary in front of step `boundary`, into `out`, at most `limit` bytes.
    pub(super) fn decode_to(
        &self,
        boundary: usize,
        scratch: &mut Scratch,
        encoded: &[u8],
        limit: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        self.run_back(boundary, encoded, scratch, Sink::Buffer(out, limit))
    }

    /// Returns whether a byte range of a decoded chunk can be had for less than the whole.
    pub fn has_partial_decode(&self) -> bool {
        let mut specs = self.specs();
        match specs.next() {
            None => true,
            Some(CodecSpec::Blosc(_)) => {
                specs.all(|spec| matches!(spec, CodecSpec::Checksum(Checksum::Crc32c, _)))
            }
            _ => false,
        }
    }

    /// Decodes a byte range of a decoded chunk; where [`Self::has_partial_decode`], only the blocks it touches,
    /// and outer checksums are not looked at.
    pub fn decode_range(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        let decoded = self.sizes[0].ok_or_else(|| CodecError::Unsupported {
            codec: "chunk",
            what: "ranges of variable elements".to_owned(),
        })?;
        if range == (0..decoded) {
            return self.decode_into(scratch, encoded, dst);
        }
        if self.has_partial_decode()
            && let Some(Step { spec: CodecSpec::Blosc(_), .. }) = self.steps.first()
        {
            return scratch
                .blosc_decoder
                .get_or_insert_with(blosc::Decoder::new)
                .decode_range(encoded, decoded, range, dst);
        }
        let mut whole = scratch.take_buffer();
        whole.resize(decoded, 0);
        let result = self.decode_into(scratch, encoded, &mut whole);
        if result.is_ok() {
            dst.copy_from_slice(&whole[range]);
        }
        scratch.give_back(whole);
        result
    }

    /// Decodes a chunk of elements without fixed size; at most `limit` bytes at any stage.
    pub fn decode_variable(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        limit: u64,
    ) -> Result<VariableElements, CodecError> {
        let serializer = self
            .steps
            .iter()
            .position(|step| matches!(step.kind, Kind::Vlen | Kind::Shard(_) | Kind::Unknown));
        let serializer = serializer.ok_or_else(|| CodecError::Unsupported {
            codec: "chunk",
            what: "elements without fixed size".to_owned(),
        })?;
        let mut bytes = Vec::new();
        self.decode_to(serializer + 1, scratch, encoded, limit, &mut bytes)?;
        let count = self.shape.iter().product();
        let mut elements = match &self.steps[serializer].kind {
            Kind::Vlen => VariableElements::parse(bytes, count)?,
            Kind::Shard(shard) => shard.decode_variable(scratch.inner(), &bytes, limit)?,
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
        match self.steps.first().map(|step| &step.kind) {
            Some(Kind::Vlen) => {
                let mut bytes = scratch.take_buffer();
                elements.write(&mut bytes)?;
                let result = self.encode_from(1, scratch, &bytes, out);
                scratch.give_back(bytes);
                result
            }
            _ => Err(CodecError::Unsupported {
                codec: "chunk",
                what: "zkit writes elements without fixed size by vlen codecs only".to_owned(),
            }),
        }
    }

    /// Encodes what lies at a boundary.
    pub(super) fn encode_from(
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
            Kind::Vlen | Kind::Filter | Kind::Unknown => Err(CodecError::Unsupported {
                codec: "chunk",
                what: format!("zkit does not write {}", step.spec),
            }),
        }
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
                    let mut next = scratch.take_buffer();
                    let current = &owned.as_deref().unwrap_or(encoded)[window.clone()];
                    let result = match (&mut *sink, last) {
                        (Sink::Slice(dst), true) => self.decode_step(index, scratch, current, dst),
                        (Sink::Buffer(out, limit), true) => {
                            self.decode_step_into(index, size, *limit, scratch, current, out)
                        }
                        (Sink::Slice(_), false) => {
                            self.decode_step_into(index, size, u64::MAX, scratch, current, &mut next)
                        }
                        (Sink::Buffer(_, limit), false) => {
                            self.decode_step_into(index, size, *limit, scratch, current, &mut next)
                        }
                    };
                    window = 0..next.len();
                    in_sink = last;
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
                    return Err(CodecError::Size {
                        codec: "bytes",
                        found: current.len() as u64,
                        expected: *limit,
                    });
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
                Kind::Compress => compress::decode_bounded(&self.steps[index].spec, src, limit, out, scratch),
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
            (Kind::Compress, spec) => compress::decode_exact(spec, src, dst, scratch),
            _ => Err(self.unknown(index)),
        }
    }

    fn unknown(&self, index: usize) -> CodecError {
        CodecError::Unsupported {
            codec: "chunk",
            what: format!("zkit does not decode the codec `{}`", self.steps[index].spec),
        }
    }

    /// Copies between the array's order (`shape`) and the stored one (its dimensions in `order`).
    fn transpose(
        &self,
        order: &[usize],
        shape: &[usize],
        src: &[u8],
        dst: &mut [u8],
        direction: Direction,
    ) -> Result<(), CodecError> {
        let item = self.item_bytes.unwrap_or(1);
        let expected = shape.iter().product::<usize>() * item;
        if src.len() != expected || dst.len() != expected {
            return Err(CodecError::Size {
                codec: "transpose",
                found: src.len() as u64,
                expected: expected as u64,
            });
        }
        let stored_shape: Vec<usize> = order.iter().map(|&dimension| shape[dimension]).collect();
        let stored_strides = c_strides(&stored_shape, item);
        let array_strides = c_strides(shape, item);
        let mut stored = vec![0; shape.len()];
        for (position, &dimension) in order.iter().enumerate() {
            stored[dimension] = stored_strides[position];
        }
        let stored = Strided { offset: 0, strides: &stored };
        let array = Strided { offset: 0, strides: &array_strides };
        let (from, to) = match direction {
            Direction::Decode => (stored, array),
            Direction::Encode => (array, stored),
        };
        copy_strided(item, shape, src, from, dst, to)
            .map_err(|error| CodecError::corrupt("transpose", error.to_string()))
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Decode,
    Encode,
}

/// Turns the words of every item round.
fn swap_items(swaps: &[Swap], item_bytes: usize, bytes: &mut [u8]) {
    if let [swap] = swaps
        && swap.offset == 0
        && saturating_usize(swap.count).saturating_mul(usize::from(swap.word_bytes)) == item_bytes
    {
        return swap_bytes(usize::from(swap.word_bytes), bytes);
    }
    for item in bytes.chunks_exact_mut(item_bytes.max(1)) {
        for swap in swaps {
            let start = saturating_usize(swap.offset);
            let length = saturating_usize(swap.count).saturating_mul(usize::from(swap.word_bytes));
            if let Some(words) = start.checked_add(length).and_then(|end| item.get_mut(start..end)) {
                swap_bytes(usize::from(swap.word_bytes), words);
            }
        }
    }
}

/// Returns elements stored with dimensions in `order` in the C order of `shape`.
fn transposed_back(elements: &VariableElements, order: &[usize], shape: &[usize]) -> VariableElements {
    let stored_shape: Vec<u64> = order.iter().map(|&dimension| shape[dimension] as u64).collect();
    let mut result = VariableElements::filled(&[], elements.len());
    let positions = (0..elements.len()).map(|from| {
        let stored = crate::grid::unravel(from as u64, &stored_shape);
        let mut index = vec![0; shape.len()];
        for (&dimension, &at) in order.iter().zip(&stored) {
            index[dimension] = saturating_usize(at);
        }
        let to = index.iter().zip(shape).fold(0, |flat, (&at, &length)| flat * length + at);
        (to, from)
    });
    result.place(elements, positions);
    result
}
