//! `sharding_indexed`: inner chunks in one object, found through an index.
//!
//! Source: Zarr v3, codec "sharding_indexed" version 1.0.

use super::chain::Chain;
use super::error::CodecError;
use super::scratch::Scratch;
use super::variable::VariableElements;
use crate::grid::{Region, unravel};
use crate::kernels::copy::{Strided, Strides, c_strides, copy_strided, fill_strided};
use crate::metadata::{DataType, ShardingSpec};

const CODEC: &str = "sharding_indexed";
/// Bytes of one index entry: offset and length.
const ENTRY_BYTES: usize = 16;
/// Inner chunks of one shard beyond this are refused: their index alone would take 1 GiB.
const MAX_INNER_CHUNKS: usize = 1 << 26;

/// The sharding codec, compiled for one shard shape.
#[derive(Debug)]
pub struct ShardCodec {
    inner: Chain,
    index: Chain,
    index_at_start: bool,
    index_bytes: usize,
    counts: Vec<u64>,
    inner_shape: Vec<usize>,
    shape: Vec<usize>,
    strides: Strides,
    item_bytes: Option<usize>,
    /// What absent inner chunks read as, where that is known.
    fill: Option<Vec<u8>>,
}

/// Where an inner chunk lies in its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerPlace {
    /// First byte.
    pub offset: u64,
    /// Encoded bytes.
    pub length: u64,
}

/// A shard's index: the place of each inner chunk in C order, `None` where it is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardIndex(pub Vec<Option<InnerPlace>>);

impl ShardCodec {
    pub(super) fn compile(
        spec: &ShardingSpec,
        data_type: &DataType,
        shape: &[usize],
        fill: Option<&[u8]>,
    ) -> Result<Self, CodecError> {
        let unsupported = |what: String| CodecError::Unsupported { codec: CODEC, what };
        let mut counts = Vec::with_capacity(shape.len());
        for (&length, &chunk) in shape.iter().zip(&spec.chunk_shape) {
            let length = length as u64;
            if chunk == 0 || !length.is_multiple_of(chunk) {
                return Err(unsupported(format!(
                    "shards of {shape:?} do not hold whole inner chunks of {:?}",
                    spec.chunk_shape
                )));
            }
            counts.push(length / chunk);
        }
        let total = crate::grid::product(&counts)
            .and_then(|total| usize::try_from(total).ok())
            .filter(|&total| total <= MAX_INNER_CHUNKS);
        if total.is_none() {
            return Err(unsupported(format!("{counts:?} inner chunks in one shard")));
        }
        let index_shape: Vec<u64> = counts.iter().copied().chain([2]).collect();
        let index = Chain::from_specs(&spec.index_codecs, &DataType::UInt(8), &index_shape, None)?;
        let index_bytes = index
            .encoded_bytes()
            .ok_or_else(|| unsupported("an index whose size is not fixed".to_owned()))?;
        let item_bytes = data_type.item_bytes().map(crate::units::saturating_usize);
        Ok(Self {
            inner: Chain::from_specs(&spec.codecs, data_type, &spec.chunk_shape, fill)?,
            index,
            index_at_start: spec.index_at_start,
            index_bytes,
            counts,
            inner_shape: spec
                .chunk_shape
                .iter()
                .map(|&length| crate::units::saturating_usize(length))
                .collect(),
            shape: shape.to_vec(),
            strides: c_strides(shape, item_bytes.unwrap_or(1)),
            item_bytes,
            fill: fill.map(<[u8]>::to_vec),
        })
    }

    /// Returns the codecs of inner chunks, to bound what they hold.
    pub(super) fn inner_mut(&mut self) -> &mut Chain {
        &mut self.inner
    }

    /// Returns the codecs of inner chunks.
    pub fn inner(&self) -> &Chain {
        &self.inner
    }

    /// Returns how many inner chunks a shard has in each dimension.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the bytes of the encoded index.
    pub fn index_bytes(&self) -> usize {
        self.index_bytes
    }

    /// Returns whether the index lies in front of the chunks.
    pub fn index_at_start(&self) -> bool {
        self.index_at_start
    }

    /// Returns whether two codecs cut shards alike, so that inner chunks can be recoded one by one.
    pub(super) fn is_cut_like(&self, other: &Self) -> bool {
        self.shape == other.shape && self.inner_shape == other.inner_shape
    }

    /// Reads an encoded index; `shard_bytes` bounds its entries.
    pub fn read_index(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        shard_bytes: u64,
    ) -> Result<ShardIndex, CodecError> {
        let mut bytes = vec![0; self.index.decoded_bytes().unwrap_or(0)];
        self.index.decode_into(scratch, encoded, &mut bytes)?;
        let entries = bytes.chunks_exact(ENTRY_BYTES).enumerate().map(|(position, entry)| {
            let word = |at: usize| entry[at..at + 8].iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
            let (offset, length) = (word(0), word(8));
            if offset == u64::MAX && length == u64::MAX {
                return Ok(None);
            }
            if offset.checked_add(length).is_none_or(|end| end > shard_bytes) {
                let what = format!("inner chunk {position} is said to lie at {offset} with {length} bytes, the shard has {shard_bytes}");
                return Err(CodecError::corrupt(CODEC, what));
            }
            Ok(Some(InnerPlace { offset, length }))
        });
        entries.collect::<Result<_, _>>().map(ShardIndex)
    }

    /// Finds and reads the index of a whole shard.
    pub(crate) fn index_of(&self, scratch: &mut Scratch, shard: &[u8]) -> Result<ShardIndex, CodecError> {
        let short = || {
            CodecError::corrupt(
                CODEC,
                format!("a shard of {} bytes cannot hold its index of {}", shard.len(), self.index_bytes),
            )
        };
        let encoded = if self.index_at_start {
            shard.get(..self.index_bytes)
        } else {
            shard.len().checked_sub(self.index_bytes).map(|start| &shard[start..])
        };
        self.read_index(scratch, encoded.ok_or_else(short)?, shard.len() as u64)
    }

    /// Returns the bytes of an inner chunk; the index was checked against the shard's length.
    pub(crate) fn inner_bytes<'a>(shard: &'a [u8], place: &InnerPlace) -> &'a [u8] {
        let start = crate::units::saturating_usize(place.offset);
        &shard[start..start + crate::units::saturating_usize(place.length)]
    }

    /// Returns a shard that holds these encoded inner chunks, by position, and no others.
    pub(crate) fn of_inner_chunks<'a>(
        &self,
        scratch: &mut Scratch,
        inner_chunks: impl Iterator<Item = (usize, &'a [u8])>,
    ) -> Result<Vec<u8>, CodecError> {
        let mut shard = Vec::new();
        let mut writer = ShardWriter::new(self, &mut shard);
        inner_chunks.for_each(|(position, encoded)| writer.push(position, encoded));
        writer.finish(scratch)?;
        Ok(shard)
    }

    /// Returns the first element of an inner chunk in its shard.
    fn origin(&self, position: usize) -> impl Iterator<Item = usize> + '_ {
        let index = unravel(position as u64, &self.counts);
        index
            .into_iter()
            .zip(&self.inner_shape)
            .map(|(at, &length)| crate::units::saturating_usize(at) * length)
    }

    /// Returns the byte offset of an inner chunk's first element in the decoded shard.
    fn offset(&self, position: usize) -> usize {
        self.origin(position).zip(self.strides.iter()).map(|(at, stride)| at * stride.unsigned_abs()).sum()
    }

    /// Returns whether inner chunks lie in the decoded shard without gaps: they cut its first dimension alone.
    fn is_contiguous(&self) -> bool {
        self.inner_shape.iter().zip(&self.shape).skip(1).all(|(inner, shard)| inner == shard)
    }

    /// Decodes a shard into canonical elements in C order.
    pub(super) fn decode(
        &self,
        scratch: &mut Scratch,
        shard: &[u8],
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        let item = self.item_bytes.unwrap_or(1);
        let index = self.index_of(scratch, shard)?;
        let inner_bytes = self.inner.decoded_bytes().unwrap_or(0);
        let contiguous = self.is_contiguous();
        let inner_strides = c_strides(&self.inner_shape, item);
        let mut part = scratch.take_buffer();
        part.resize(if contiguous { 0 } else { inner_bytes }, 0);
        let outside =
            |error: crate::kernels::copy::OutOfBounds| CodecError::corrupt(CODEC, error.to_string());
        let mut decode_one = |scratch: &mut Scratch, position: usize, place: &Option<InnerPlace>| {
            let offset = self.offset(position);
            let layout = Strided { offset, strides: &self.strides };
            match place {
                None => fill_strided(self.fill()?, &self.inner_shape, dst, layout).map_err(outside),
                Some(place) if contiguous => {
                    let target = dst
                        .get_mut(offset..offset + inner_bytes)
                        .ok_or_else(|| CodecError::corrupt(CODEC, "an inner chunk outside its shard"))?;
                    self.inner.decode_into(scratch, Self::inner_bytes(shard, place), target)
                }
                Some(place) => {
                    self.inner.decode_into(scratch, Self::inner_bytes(shard, place), &mut part)?;
                    let source = Strided { offset: 0, strides: &inner_strides };
                    copy_strided(item, &self.inner_shape, &part, source, dst, layout).map_err(outside)
                }
            }
        };
        let result =
            index.0.iter().enumerate().try_for_each(|(position, place)| decode_one(scratch, position, place));
        scratch.give_back(part);
        result
    }

    /// Decodes a box of a shard into `run`, without gaps and in C order; only inner chunks that it touches are
    /// decoded, each by `decode_part`, which may decode parts of them.
    #[expect(clippy::too_many_arguments, reason = "the box, its bytes and where they go")]
    pub(crate) fn decode_box(
        &self,
        scratch: &mut Scratch,
        shard: &[u8],
        start: &[usize],
        shape: &[usize],
        fill: &[u8],
        run: &mut [u8],
        decode_part: impl Fn(
            &Chain,
            &mut Scratch,
            &[u8],
            &[usize],
            &[usize],
            &[u8],
            &mut [u8],
        ) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let item = self.item_bytes.unwrap_or(1);
        let index = self.index_of(scratch, shard)?;
        let run_strides = c_strides(shape, item);
        let outside =
            |error: crate::kernels::copy::OutOfBounds| CodecError::corrupt(CODEC, error.to_string());
        let ranges: Vec<_> = (0..shape.len())
            .map(|d| {
                let inner = self.inner_shape[d];
                (start[d] / inner) as u64..((start[d] + shape[d]).div_ceil(inner)) as u64
            })
            .collect();
        let mut part = scratch.take_buffer();
        let inner_scratch = scratch.inner();
        let result = crate::grid::for_each_index(&ranges, |chunk| {
            let position = chunk.iter().zip(&self.counts).fold(0, |flat, (&at, &count)| flat * count + at);
            let origin = |d: usize| crate::units::saturating_usize(chunk[d]) * self.inner_shape[d];
            let from: Vec<usize> = (0..shape.len()).map(|d| start[d].max(origin(d)) - origin(d)).collect();
            let lengths: Vec<usize> = (0..shape.len())
                .map(|d| (start[d] + shape[d]).min(origin(d) + self.inner_shape[d]) - origin(d) - from[d])
                .collect();
            let offset = (0..shape.len())
                .map(|d| (origin(d) + from[d] - start[d]) * run_strides[d].unsigned_abs())
                .sum();
            let layout = Strided { offset, strides: &run_strides };
            let Some(place) = &index.0[crate::units::saturating_usize(position)] else {
                return fill_strided(fill, &lengths, run, layout).map_err(outside);
            };
            part.resize(lengths.iter().product::<usize>() * item, 0);
            decode_part(
                &self.inner,
                inner_scratch,
                Self::inner_bytes(shard, place),
                &from,
                &lengths,
                fill,
                &mut part,
            )?;
            copy_strided(
                item,
                &lengths,
                &part,
                Strided { offset: 0, strides: &c_strides(&lengths, item) },
                run,
                layout,
            )
            .map_err(outside)
        });
        scratch.give_back(part);
        result
    }

    /// Decodes a shard of elements without fixed size; only inner chunks that `wanted` touches, where it is given: what the
    /// other elements hold does not matter.
    pub(super) fn decode_variable(
        &self,
        scratch: &mut Scratch,
        shard: &[u8],
        wanted: Option<&Region>,
        limit: u64,
    ) -> Result<VariableElements, CodecError> {
        let index = self.index_of(scratch, shard)?;
        let fill = if index.0.iter().any(Option::is_none) { self.fill()? } else { &[] };
        let mut elements = VariableElements::filled(fill, self.shape.iter().product());
        for (position, place) in index.0.iter().enumerate() {
            let Some(place) = place else { continue };
            if wanted.is_some_and(|wanted| !self.touches(position, wanted)) {
                continue;
            }
            let part = self.inner.decode_variable(scratch, Self::inner_bytes(shard, place), limit)?;
            elements.place(&part, self.elements_of(position).enumerate().map(|(from, to)| (to, from)));
            if elements.memory_bytes() as u64 > limit {
                return Err(CodecError::too_large(CODEC, elements.memory_bytes() as u64, limit));
            }
        }
        Ok(elements)
    }

    /// Returns whether an inner chunk has elements of a region of the shard.
    fn touches(&self, position: usize, region: &Region) -> bool {
        let start = self.origin(position).map(|at| at as u64).collect();
        let shape = self.inner_shape.iter().map(|&length| length as u64).collect();
        !Region { start, shape }.intersection(region).is_empty()
    }

    /// Returns where the elements of an inner chunk lie in its shard, both in C order.
    fn elements_of(&self, position: usize) -> impl Iterator<Item = usize> + '_ {
        let origin: Vec<usize> = self.origin(position).collect();
        let inner_shape: Vec<u64> = self.inner_shape.iter().map(|&length| length as u64).collect();
        (0..self.inner_shape.iter().product::<usize>()).map(move |at| {
            let inner = unravel(at as u64, &inner_shape);
            let index =
                origin.iter().zip(&inner).map(|(&origin, &at)| origin + crate::units::saturating_usize(at));
            index.zip(&self.shape).fold(0, |flat, (at, &length)| flat * length + at)
        })
    }

    fn fill(&self) -> Result<&[u8], CodecError> {
        self.fill.as_deref().ok_or_else(|| CodecError::Unsupported {
            codec: CODEC,
            what: "inner chunks are absent, and the fill value is not understood".to_owned(),
        })
    }

    /// Encodes a shard of elements without fixed size; inner chunks that are all fill are left out.
    pub(super) fn encode_variable(
        &self,
        scratch: &mut Scratch,
        elements: &VariableElements,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let mut encoded = scratch.take_buffer();
        let mut writer = ShardWriter::new(self, out);
        for position in 0..writer.len() {
            let is_fill = |at: usize| self.fill.as_deref() == Some(elements.get(at));
            if self.elements_of(position).all(is_fill) {
                continue;
            }
            let mut part = VariableElements::default();
            self.elements_of(position).for_each(|at| part.push(elements.get(at)));
            self.inner.encode_variable(scratch, &part, &mut encoded)?;
            writer.push(position, &encoded);
        }
        let result = writer.finish(scratch);
        scratch.give_back(encoded);
        result
    }

    /// Encodes a shard; inner chunks that are all fill are left out, as readers give the fill for them.
    pub(super) fn encode(
        &self,
        scratch: &mut Scratch,
        decoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let item = self.item_bytes.ok_or_else(|| CodecError::Unsupported {
            codec: CODEC,
            what: "elements without fixed size as bytes".to_owned(),
        })?;
        let inner_strides = c_strides(&self.inner_shape, item);
        let mut part = scratch.take_buffer();
        part.resize(self.inner.decoded_bytes().unwrap_or(0), 0);
        let mut encoded = scratch.take_buffer();
        let mut writer = ShardWriter::new(self, out);
        for position in 0..writer.len() {
            let source = Strided { offset: self.offset(position), strides: &self.strides };
            let target = Strided { offset: 0, strides: &inner_strides };
            copy_strided(item, &self.inner_shape, decoded, source, &mut part, target)
                .map_err(|error| CodecError::corrupt(CODEC, error.to_string()))?;
            if self.is_fill(&part) {
                continue;
            }
            self.inner.encode(scratch, &part, &mut encoded)?;
            writer.push(position, &encoded);
        }
        let result = writer.finish(scratch);
        scratch.give_back(part);
        scratch.give_back(encoded);
        result
    }

    fn is_fill(&self, part: &[u8]) -> bool {
        let fill = self.fill.as_deref().filter(|fill| !fill.is_empty());
        fill.is_some_and(|fill| part.chunks_exact(fill.len()).all(|item| item == fill))
    }
}

/// Puts a shard together: inner chunks in any order, then the index.
pub(super) struct ShardWriter<'a> {
    codec: &'a ShardCodec,
    out: &'a mut Vec<u8>,
    start: usize,
    entries: Vec<u8>,
}

impl<'a> ShardWriter<'a> {
    pub(super) fn new(codec: &'a ShardCodec, out: &'a mut Vec<u8>) -> Self {
        let entries = vec![0xff; codec.index.decoded_bytes().unwrap_or(0)];
        let start = out.len();
        if codec.index_at_start {
            out.resize(start + codec.index_bytes, 0);
        }
        Self { codec, out, start, entries }
    }

    /// Returns how many inner chunks the shard can hold.
    pub(super) fn len(&self) -> usize {
        self.entries.len() / ENTRY_BYTES
    }

    pub(super) fn push(&mut self, position: usize, encoded: &[u8]) {
        let offset = (self.out.len() - self.start) as u64;
        let entry = &mut self.entries[position * ENTRY_BYTES..(position + 1) * ENTRY_BYTES];
        entry[..8].copy_from_slice(&offset.to_le_bytes());
        entry[8..].copy_from_slice(&(encoded.len() as u64).to_le_bytes());
        self.out.extend_from_slice(encoded);
    }

    pub(super) fn finish(self, scratch: &mut Scratch) -> Result<(), CodecError> {
        let mut index = Vec::new();
        self.codec.index.encode(scratch, &self.entries, &mut index)?;
        if self.codec.index_at_start {
            self.out[self.start..self.start + index.len()].copy_from_slice(&index);
        } else {
            self.out.extend_from_slice(&index);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::CodecSpec;

    const LIMIT: u64 = 1 << 20;

    fn text_in_shards(fill: Option<&[u8]>) -> ShardCodec {
        let inner = ShardingSpec {
            chunk_shape: vec![1, 2],
            codecs: vec![CodecSpec::VlenUtf8],
            index_codecs: Vec::new(),
            index_at_start: false,
        };
        // shards in shards
        let outer = ShardingSpec {
            chunk_shape: vec![2, 2],
            codecs: vec![CodecSpec::Sharding(Box::new(inner))],
            index_codecs: Vec::new(),
            index_at_start: true,
        };
        ShardCodec::compile(&outer, &DataType::String, &[4, 4], fill).unwrap()
    }

    fn words() -> VariableElements {
        let mut words = VariableElements::filled(b"-", 16);
        for (at, word) in [(3, "a"), (12, ""), (13, "longer than the others")] {
            words.set(at, word.as_bytes());
        }
        words
    }

    #[test]
    fn text_in_shards_round_trips_and_what_is_all_fill_takes_no_bytes() {
        let (scratch, mut full, mut sparse) = (&mut Scratch::new(), Vec::new(), Vec::new());
        text_in_shards(None).encode_variable(scratch, &words(), &mut full).unwrap();
        let codec = text_in_shards(Some(b"-"));
        codec.encode_variable(scratch, &words(), &mut sparse).unwrap();
        assert_eq!(codec.index_of(scratch, &sparse).unwrap().0.iter().flatten().count(), 2);
        assert!(sparse.len() < full.len());
        for shard in [&full, &sparse] {
            let decoded = codec.decode_variable(scratch, shard, None, LIMIT).unwrap();
            assert!(decoded.iter().eq(words().iter()));
        }
        // who does not know the fill value must not make one up
        assert!(text_in_shards(None).decode_variable(scratch, &sparse, None, LIMIT).is_err());
        text_in_shards(None).decode_variable(scratch, &full, None, LIMIT).unwrap();
    }

    #[test]
    fn a_region_of_text_needs_its_own_inner_chunks_alone() {
        let (scratch, mut shard, codec) = (&mut Scratch::new(), Vec::new(), text_in_shards(Some(b"-")));
        codec.encode_variable(scratch, &words(), &mut shard).unwrap();
        let place = codec.index_of(scratch, &shard).unwrap().0[1].expect("it holds `a`");
        let start = crate::units::saturating_usize(place.offset);
        shard[start..start + 4].fill(0xff);
        assert!(codec.decode_variable(scratch, &shard, None, LIMIT).is_err());
        let below = Region { start: vec![2, 0], shape: vec![2, 4] };
        let decoded = codec.decode_variable(scratch, &shard, Some(&below), LIMIT).unwrap();
        assert!(decoded.iter().skip(8).eq(words().iter().skip(8)));
    }
}
