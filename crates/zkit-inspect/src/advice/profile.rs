//! What the rules look at: plain values, so that tests can make them up.

use zkit_core::grid::product;
use zkit_core::hierarchy::Consolidated;
use zkit_core::metadata::{BloscShuffle, ChecksumPlace, CodecSpec, DataType};

use crate::facts::{ArrayFacts, Inspection};
use crate::mount::RemoteMount;
use zkit_core::plan::ReadCost;

/// What rules know of a store.
#[derive(Debug, Clone)]
pub(crate) struct StoreProfile {
    pub(crate) nodes: u64,
    pub(crate) consolidated: bool,
    /// Whether every node below the root was read, so that consolidating makes a difference.
    pub(crate) whole: bool,
    /// Objects that hold chunks, or would if all were stored.
    pub(crate) objects: u64,
    pub(crate) bytes_stored: Option<u64>,
    pub(crate) mount: Option<RemoteMount>,
}

/// What compresses the chunks of an array.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Compression<'a> {
    None,
    /// Blosc: blocks that decode side by side.
    Blosc,
    /// One frame a chunk, which one thread decodes.
    OneFrame(&'a CodecSpec),
}

/// What rules know of an array.
#[derive(Debug, Clone)]
pub(crate) struct Profile<'a> {
    pub(crate) path: &'a str,
    pub(crate) shape: &'a [u64],
    pub(crate) names: Option<&'a [Option<String>]>,
    pub(crate) data_type: &'a DataType,
    /// Bytes of an element; `None` without fixed size.
    pub(crate) item_bytes: Option<u64>,
    /// Whether elements are numbers of several bytes, which a shuffle helps.
    pub(crate) shuffles_well: bool,
    /// The inner chunk where sharded.
    pub(crate) chunk_shape: &'a [u64],
    pub(crate) sharded: bool,
    /// Chunks that the array has (inner chunks where sharded), stored or not.
    pub(crate) chunks: u64,
    pub(crate) bytes_decoded: u64,
    pub(crate) compression: Compression<'a>,
    pub(crate) shuffled: bool,
    pub(crate) checksummed: bool,
    /// Threads that decode one chunk, where frames show it.
    pub(crate) lanes_per_chunk: Option<u64>,
    pub(crate) read: Option<ReadCost>,
}

impl StoreProfile {
    pub(crate) fn of(inspection: &Inspection<'_>) -> Self {
        let hierarchy = inspection.hierarchy;
        let objects = |array: &ArrayFacts<'_>| array.chunks_stored().unwrap_or(array.chunks_total);
        Self {
            nodes: (hierarchy.groups.len() + hierarchy.arrays.len()) as u64,
            consolidated: hierarchy.consolidated != Consolidated::None,
            whole: !inspection.selected,
            objects: inspection.arrays.iter().map(objects).fold(0, u64::saturating_add),
            bytes_stored: inspection.totals().bytes_stored,
            mount: inspection.mount.clone(),
        }
    }
}

impl<'a> Profile<'a> {
    pub(crate) fn of(array: &'a ArrayFacts<'_>) -> Self {
        let metadata = array.metadata();
        let codecs = array.codecs_of_chunks();
        let counts = metadata
            .shape()
            .iter()
            .zip(&array.chunk_shape)
            .map(|(&length, &chunk)| length.div_ceil(chunk.max(1)));
        Self {
            path: &array.node.path,
            shape: metadata.shape(),
            names: metadata.dimension_names.as_deref(),
            data_type: &metadata.data_type,
            item_bytes: metadata.data_type.item_bytes(),
            shuffles_well: shuffles_well(&metadata.data_type),
            chunk_shape: &array.chunk_shape,
            sharded: array.shard_shape.is_some(),
            chunks: counts.fold(1, u64::saturating_mul),
            bytes_decoded: metadata.decoded_bytes().unwrap_or(0),
            compression: compression(codecs),
            shuffled: codecs.iter().any(is_shuffled),
            checksummed: metadata.codecs.iter().chain(codecs).any(is_checked),
            lanes_per_chunk: array.lanes().map(|lanes| lanes.per_chunk),
            read: array.read,
        }
    }

    /// Returns the decoded bytes of one chunk.
    pub(crate) fn chunk_bytes(&self) -> Option<u64> {
        product(self.chunk_shape)?.checked_mul(self.item_bytes?)
    }

    #[cfg(test)]
    pub(crate) fn for_tests(path: &'a str, names: &'a [Option<String>]) -> Self {
        Self {
            path,
            shape: &[8760, 721, 1440],
            names: Some(names),
            data_type: &DataType::Float(4),
            item_bytes: Some(4),
            shuffles_well: true,
            chunk_shape: &[1, 721, 1440],
            sharded: false,
            chunks: 8760,
            bytes_decoded: 8760 * 721 * 1440 * 4,
            compression: Compression::Blosc,
            shuffled: true,
            checksummed: false,
            lanes_per_chunk: Some(8),
            read: None,
        }
    }
}

fn shuffles_well(data_type: &DataType) -> bool {
    match data_type {
        DataType::Int(bytes) | DataType::UInt(bytes) | DataType::Float(bytes) | DataType::Complex(bytes) => {
            *bytes > 1
        }
        DataType::Time { .. } => true,
        _ => false,
    }
}

fn compression(codecs: &[CodecSpec]) -> Compression<'_> {
    let compressor = codecs.iter().rev().find(|codec| {
        matches!(
            codec,
            CodecSpec::Blosc(_)
                | CodecSpec::Zstd { .. }
                | CodecSpec::Gzip(_)
                | CodecSpec::Zlib(_)
                | CodecSpec::Bz2(_)
                | CodecSpec::Lz4
                | CodecSpec::Lzma(_)
        )
    });
    match compressor {
        None => Compression::None,
        Some(CodecSpec::Blosc(_)) => Compression::Blosc,
        Some(codec) => Compression::OneFrame(codec),
    }
}

fn is_shuffled(codec: &CodecSpec) -> bool {
    match codec {
        CodecSpec::Shuffle(_) => true,
        CodecSpec::Blosc(blosc) => {
            blosc.shuffle != BloscShuffle::None && blosc.type_bytes > 1 || blosc.shuffle == BloscShuffle::Bit
        }
        _ => false,
    }
}

fn is_checked(codec: &CodecSpec) -> bool {
    match codec {
        CodecSpec::Checksum(_, ChecksumPlace::Start | ChecksumPlace::End) => true,
        CodecSpec::Zstd { checksum, .. } => *checksum,
        // these formats carry one of their own
        CodecSpec::Gzip(_) | CodecSpec::Zlib(_) | CodecSpec::Bz2(_) => true,
        _ => false,
    }
}
