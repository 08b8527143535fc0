//! From metadata to a list of steps with their sizes.

use crate::codec::checksum::CHECKSUM_BYTES;
use crate::codec::error::CodecError;
use crate::codec::shard::ShardCodec;
use crate::codec::{compress, filter};
use crate::grid::product;
use crate::metadata::{ArrayMetadata, ChecksumPlace, CodecSpec, DataType, Swap};
use crate::units::saturating_usize;

/// The codecs of an array for chunks of one shape.
#[derive(Debug)]
pub struct Chain {
    pub(super) steps: Vec<Step>,
    /// Bytes in front of each step, and behind the last; `None` where only the data say it.
    pub(super) sizes: Vec<Option<usize>>,
    pub(super) shape: Vec<usize>,
    pub(super) item_bytes: Option<usize>,
    /// What decoders may hold of what they decoded before: [`Chain::within`].
    pub(in crate::codec) window_bytes: u64,
}

/// One codec, and what running it needs.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) spec: CodecSpec,
    pub(super) kind: Kind,
}

/// How a step is run.
#[derive(Debug)]
pub(super) enum Kind {
    /// Dimensions in another order; holds the shape in front of the step.
    Transpose {
        order: Vec<usize>,
        shape: Vec<usize>,
    },
    /// Byte order, in place.
    Swap(Vec<Swap>),
    /// Elements without fixed size.
    Vlen,
    /// Python objects to bytes.
    Objects,
    Shard(Box<ShardCodec>),
    Filter,
    Checksum,
    Compress,
    /// Not executable; the name is in the spec.
    Unknown,
}

impl Chain {
    /// Compiles the codecs of `metadata` for stored chunks of `chunk_shape`.
    ///
    /// Codecs that zkit does not know are taken in; running them is an error, so that what lies outside them can
    /// still be recoded.
    pub fn compile(metadata: &ArrayMetadata, chunk_shape: &[u64]) -> Result<Self, CodecError> {
        let fill = metadata.fill_value.element(&metadata.data_type);
        Self::from_specs(&metadata.codecs, &metadata.data_type, chunk_shape, fill.as_deref())
    }

    /// Compiles codecs for elements of one type; `fill` is what absent inner chunks read as, where that is known.
    pub(crate) fn from_specs(
        specs: &[CodecSpec],
        data_type: &DataType,
        chunk_shape: &[u64],
        fill: Option<&[u8]>,
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
            window_bytes: u64::MAX,
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
                CodecSpec::Objects(_) => (Kind::Objects, None),
                CodecSpec::Unknown(_) => (Kind::Unknown, None),
                _ => (Kind::Compress, None),
            };
            chain.steps.push(Step { spec: spec.clone(), kind });
            chain.sizes.push(next);
        }
        Ok(chain)
    }

    /// Returns the chain with a bound on what decoders may hold beside what they read and what they give: windows of zstd,
    /// dictionaries of LZMA. All threads of the process share it; frames that ask for more are `OverBudget`.
    #[must_use]
    pub fn within(mut self, window_bytes: u64) -> Self {
        self.bound(window_bytes);
        self
    }

    /// As [`Self::within`], in place.
    pub(in crate::codec) fn bound(&mut self, window_bytes: u64) {
        self.window_bytes = window_bytes;
        for step in &mut self.steps {
            if let Kind::Shard(shard) = &mut step.kind {
                shard.inner_mut().bound(window_bytes);
            }
        }
    }

    /// Returns the bytes of a decoded chunk, or `None` where elements have no fixed size.
    pub fn decoded_bytes(&self) -> Option<usize> {
        self.sizes[0]
    }

    /// Returns the shape of a decoded chunk.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns how many buffers as large as a decoded chunk lie between an encoded chunk and a decoded one.
    pub(crate) fn between(&self) -> usize {
        let makes_new = |step: &&Step| !matches!(step.kind, Kind::Swap(_) | Kind::Checksum);
        match self.steps.iter().filter(makes_new).count() {
            // stored bytes are swapped in a copy
            0 => usize::from(self.steps.iter().any(|step| matches!(step.kind, Kind::Swap(_)))),
            // one that is read and one that is written, and given back to the next but one
            steps => (steps - 1).min(2),
        }
    }

    /// Returns the bytes of an encoded chunk where they are always the same: raw chunks, shard indexes.
    pub fn encoded_bytes(&self) -> Option<usize> {
        self.sizes[self.steps.len()]
    }

    /// Returns the outermost codec that is no checksum behind the bytes, the bytes that it decodes to where they are always
    /// the same, and the bytes of the checksums behind it.
    pub fn outermost(&self) -> (Option<&CodecSpec>, Option<usize>, usize) {
        let behind = |step: &&Step| matches!(step.spec, CodecSpec::Checksum(_, ChecksumPlace::End));
        let checksums = self.steps.iter().rev().take_while(behind).count();
        let frame = self.steps.len() - checksums;
        let spec = frame.checked_sub(1).map(|at| &self.steps[at].spec);
        (spec, self.sizes[frame.saturating_sub(1)], checksums * CHECKSUM_BYTES)
    }

    /// Returns the codecs that are run, in encoding order.
    pub fn specs(&self) -> impl Iterator<Item = &CodecSpec> {
        self.steps.iter().map(|step| &step.spec)
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns the shard codec at a step, if it is one.
    pub(crate) fn shard_at(&self, step: usize) -> Option<&ShardCodec> {
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

    pub(super) fn unknown(&self, index: usize) -> CodecError {
        CodecError::Unsupported {
            codec: "chunk",
            what: format!("zkit does not decode the codec `{}`", self.steps[index].spec),
        }
    }
}
