//! What is known of a store and its arrays, computed once for every form of output.

use zkit_core::engine::{ArraySurvey, Frames, Listing};
use zkit_core::grid::product;
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::metadata::{ArrayMetadata, CodecSpec, Defect};

use crate::args::Depth;
use crate::mount::RemoteMount;
use crate::probe::Probe;
use zkit_core::plan::{Access, Dimensions, ReadCost, read_cost};

/// Everything that one run found out.
pub(crate) struct Inspection<'a> {
    pub(crate) hierarchy: &'a Hierarchy,
    pub(crate) depth: Depth,
    pub(crate) arrays: Vec<ArrayFacts<'a>>,
    /// Whether the run was about some of the arrays only.
    pub(crate) selected: bool,
    /// What is wrong with nodes and with single objects.
    pub(crate) defects: Vec<Defect>,
    pub(crate) access: Option<Access>,
    pub(crate) mount: Option<RemoteMount>,
    pub(crate) probe: Option<Probe>,
}

/// One array.
pub(crate) struct ArrayFacts<'a> {
    pub(crate) node: &'a ArrayNode,
    /// The inner chunk where sharded.
    pub(crate) chunk_shape: Vec<u64>,
    pub(crate) shard_shape: Option<Vec<u64>>,
    /// Stored chunks (shards where sharded) that the grid has.
    pub(crate) chunks_total: u64,
    pub(crate) survey: Option<ArraySurvey>,
    /// What one read costs, where an access was given that this array has.
    pub(crate) read: Option<ReadCost>,
}

/// Threads that can decode at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lanes {
    /// In one chunk (inner chunk where sharded).
    pub(crate) per_chunk: u64,
    /// In all stored chunks.
    pub(crate) whole_array: u64,
}

impl<'a> ArrayFacts<'a> {
    pub(crate) fn new(node: &'a ArrayNode, survey: Option<ArraySurvey>, access: Option<&Access>) -> Self {
        let metadata = &node.metadata;
        let mut facts = Self {
            node,
            chunk_shape: metadata.chunk_shape(),
            shard_shape: metadata.sharding().map(|_| metadata.grid.largest_chunk_shape()),
            // parsing refuses grids that overflow
            chunks_total: metadata.grid.total().unwrap_or(u64::MAX),
            survey,
            read: None,
        };
        facts.read = access.and_then(|access| {
            let wanted = access.wanted(facts.dimensions())?;
            Some(read_cost(metadata.shape(), &facts.chunk_shape, &wanted, metadata.data_type.item_bytes()?))
        });
        facts
    }

    pub(crate) fn metadata(&self) -> &'a ArrayMetadata {
        &self.node.metadata
    }

    pub(crate) fn dimensions(&self) -> Dimensions<'a> {
        Dimensions { shape: self.metadata().shape(), names: self.metadata().dimension_names.as_deref() }
    }

    pub(crate) fn listing(&self) -> Option<&Listing> {
        self.survey.as_ref()?.listing.as_ref()
    }

    pub(crate) fn frames(&self) -> Option<&Frames> {
        self.survey.as_ref()?.frames.as_ref()
    }

    pub(crate) fn chunks_stored(&self) -> Option<u64> {
        self.listing().map(|listing| listing.stored.len())
    }

    pub(crate) fn bytes_stored(&self) -> Option<u64> {
        self.listing().map(|listing| listing.bytes_stored)
    }

    /// Returns the decoded bytes of one chunk (inner chunk where sharded).
    pub(crate) fn chunk_bytes(&self) -> Option<u64> {
        product(&self.chunk_shape)?.checked_mul(self.metadata().data_type.item_bytes()?)
    }

    /// Returns how many inner chunks the shards hold, as far as their indexes were read; else as many as they could.
    fn inner_per_shard(&self) -> Option<f64> {
        let shards = &self.frames()?.shards;
        (shards.read > 0).then(|| shards.present as f64 / shards.read as f64)
    }

    /// Returns how many chunks (inner chunks where sharded) are stored.
    pub(crate) fn decodable_chunks(&self) -> Option<u64> {
        let stored = self.chunks_stored()?;
        match &self.shard_shape {
            None => Some(stored),
            Some(shard) => {
                let could = shard
                    .iter()
                    .zip(&self.chunk_shape)
                    .map(|(&shard, &chunk)| (shard / chunk.max(1)) as f64)
                    .product();
                Some(scaled(stored, self.inner_per_shard().unwrap_or(could)))
            }
        }
    }

    /// Returns the decoded bytes of the stored chunks: what their stored bytes stand for.
    pub(crate) fn decoded_bytes_of_stored(&self) -> Option<u64> {
        let whole = self.metadata().decoded_bytes()?;
        if self.metadata().grid.regular_shape().is_none() {
            let share = self.chunks_stored()? as f64 / self.chunks_total.max(1) as f64;
            return Some(scaled(whole, share));
        }
        self.decodable_chunks()?.checked_mul(self.chunk_bytes()?)
    }

    /// Returns the lanes as the frames show them; `None` where no frame was seen.
    pub(crate) fn lanes(&self) -> Option<Lanes> {
        let per_chunk = self.frames()?.lanes_per_chunk()?;
        let chunks = self.decodable_chunks().filter(|&chunks| chunks > 0)?;
        Some(Lanes { per_chunk, whole_array: per_chunk.saturating_mul(chunks) })
    }

    /// Returns the codecs in encoding order as readable texts; of sharded arrays the inner ones.
    pub(crate) fn codecs_of_chunks(&self) -> &'a [CodecSpec] {
        self.metadata().sharding().map_or(&self.metadata().codecs, |sharding| &sharding.codecs)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; it saturates")]
fn scaled(amount: u64, factor: f64) -> u64 {
    (amount as f64 * factor).round() as u64
}

/// Sums over all arrays; each `None` where a depth cannot know it of any array.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) bytes_decoded: u64,
    pub(crate) chunks_total: u64,
    pub(crate) chunks_stored: Option<u64>,
    pub(crate) bytes_stored: Option<u64>,
    /// Decoded bytes of the stored chunks of fixed element size, and their stored bytes: the ratio is over these.
    pub(crate) compared: (u64, u64),
}

impl Inspection<'_> {
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for array in &self.arrays {
            totals.bytes_decoded =
                totals.bytes_decoded.saturating_add(array.metadata().decoded_bytes().unwrap_or(0));
            totals.chunks_total = totals.chunks_total.saturating_add(array.chunks_total);
            let Some(bytes) = array.bytes_stored() else { continue };
            let sum = |total: Option<u64>, part: u64| Some(total.unwrap_or(0).saturating_add(part));
            totals.bytes_stored = sum(totals.bytes_stored, bytes);
            totals.chunks_stored = sum(totals.chunks_stored, array.chunks_stored().unwrap_or(0));
            if let Some(decoded) = array.decoded_bytes_of_stored() {
                totals.compared =
                    (totals.compared.0.saturating_add(decoded), totals.compared.1.saturating_add(bytes));
            }
        }
        totals
    }

    /// Returns the array that is shown in all details: the only one.
    pub(crate) fn detailed(&self) -> Option<&ArrayFacts<'_>> {
        match self.arrays.as_slice() {
            [array] => Some(array),
            _ => None,
        }
    }

    /// Returns whether something is there that could not be read.
    pub(crate) fn is_incomplete(&self) -> bool {
        let unreadable =
            |array: &ArrayFacts<'_>| array.survey.as_ref().is_some_and(|survey| survey.unreadable);
        self.hierarchy.unreadable || self.arrays.iter().any(unreadable)
    }
}
