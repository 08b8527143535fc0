//! The content digest of arrays: SHA-256 over the decoded elements, whatever chunks, codecs and Zarr version.

use std::ops::ControlFlow;
use std::sync::mpsc;

use sha2::{Digest as _, Sha256};

use super::lanes::{self, Footprint, Lane, Resources};
use super::survey::spread;
use crate::cancel::Cancel;
use crate::codec::{Chain, NULL_TEXT, partial_decode};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Observer;
use crate::grid::Region;
use crate::hierarchy::ArrayNode;
use crate::metadata::{ArrayMetadata, CodecSpec, DataType};
use crate::read::{ArrayReader, ReadContext, read_slab, slabs_of};
use crate::store::Store;
use crate::units::Bytes;

/// The bytes of a digest.
pub type Sha256Digest = [u8; 32];

/// Elements without fixed size are taken to need so many bytes when slabs are cut.
pub(super) const VARIABLE_ITEM_ESTIMATE: u64 = 64;

/// Larger arrays are not digested: what claims to be so large is damaged or hostile, and years would pass.
const DECODED_MOST: u64 = 1 << 60;

/// Digests arrays; results are in the order of `arrays`, failures of single arrays among them.
///
/// The digest is SHA-256 over the elements in C order, little-endian, NaN payloads kept; elements of variable
/// length as a little-endian `u32` length and the bytes, null as `ff ff ff ff`; padding of structs zeroed; absent chunks as the fill value.
/// A string without dimensions is digested as UTF-32, as numpy holds such a scalar, so that it equals one of fixed
/// length. Memory: within `resources`; chunks that cannot be decoded in part are decoded once a slab.
pub fn digest(
    store: &Store,
    arrays: &[&ArrayNode],
    resources: Resources,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Vec<Result<Sha256Digest>>> {
    let meter = observer.meter();
    meter.arrays_total.add(arrays.len() as u64);
    meter
        .decoded_bytes_total
        .add(arrays.iter().filter_map(|array| array.metadata.decoded_bytes()).fold(0, u64::saturating_add));
    lanes::run(
        arrays,
        (resources, store.reads_in_flight()),
        |array| footprint(array),
        |array, lane| {
            let digest = digest_one(store, array, lane, observer, cancel)
                .map_err(|error| error.with_budget(resources.memory_bytes));
            meter.arrays_done.add(1);
            digest
        },
    )
}

/// Returns what reading an array takes, as far as metadata tells.
pub(super) fn footprint(array: &ArrayNode) -> Footprint {
    let metadata = &array.metadata;
    let inside = metadata.decoded_bytes().unwrap_or(u64::MAX);
    let Some(chunk_bytes) = metadata.chunk_decoded_bytes().map(|bytes| bytes.min(inside)) else {
        let estimate = |shape: &[u64]| {
            crate::grid::product(shape).unwrap_or(u64::MAX).saturating_mul(VARIABLE_ITEM_ESTIMATE)
        };
        return Footprint::whole(estimate(&metadata.grid.largest_chunk_shape()), estimate(metadata.shape()));
    };
    if partial_decode(&metadata.codecs).is_some() {
        Footprint::in_parts(chunk_bytes, inside)
    } else {
        Footprint::through(buffers_between(metadata), chunk_bytes, inside)
    }
}

/// Returns how many buffers as large as a chunk its codecs take beside what they read and what they give.
pub(super) fn buffers_between(metadata: &ArrayMetadata) -> usize {
    Chain::compile(metadata, &metadata.grid.largest_chunk_shape()).map_or(0, |chain| chain.between())
}

/// Returns the arrays that are worth digesting, and those of more than `large_bytes` without a single chunk.
///
/// One small listing for each large array; where listing is impossible, everything is worth it.
pub fn split_unwritten<'a>(
    store: &Store,
    arrays: Vec<&'a ArrayNode>,
    large_bytes: u64,
) -> Result<(Vec<&'a ArrayNode>, Vec<&'a ArrayNode>)> {
    let is_large = |array: &ArrayNode| {
        array.metadata.decoded_bytes().is_none_or(|bytes| bytes > large_bytes)
            && !array.metadata.data_type.is_variable()
    };
    let (large, mut written): (Vec<_>, Vec<_>) = arrays.into_iter().partition(|array| is_large(array));
    let mut unwritten = Vec::new();
    for (array, holds_chunks) in large.iter().zip(spread(store, &large, |array| holds_chunks(store, array))) {
        match holds_chunks {
            Ok(true) => written.push(array),
            Ok(false) => unwritten.push(*array),
            Err(error) if error.kind() == ErrorKind::Unsupported => written.push(array),
            Err(error) => return Err(error),
        }
    }
    Ok((written, unwritten))
}

/// Returns whether there is anything beside an array's metadata.
fn holds_chunks(store: &Store, array: &ArrayNode) -> Result<bool> {
    let mut found = false;
    store.list_while(array.prefix(), &mut |object| {
        found = object.key != "zarr.json" && !object.key.starts_with('.');
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

fn digest_one(
    store: &Store,
    array: &ArrayNode,
    lane: &Lane<'_>,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Sha256Digest> {
    let data_type = &array.metadata.data_type;
    let objects = array.metadata.codecs.iter().any(|codec| matches!(codec, CodecSpec::Objects(_)));
    if matches!(data_type, DataType::VlenArray(_)) || (*data_type == DataType::Object && !objects) {
        let message = format!(
            "could not digest `{}`: objects that are neither strings nor bytes have no digest",
            array.path
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    if let Some(bytes) = array.metadata.decoded_bytes().filter(|&bytes| bytes > DECODED_MOST) {
        let message = format!(
            "could not digest `{}`: it decodes to {}, at most {} can be digested within anyone's lifetime",
            array.path,
            Bytes(bytes),
            Bytes(DECODED_MOST)
        );
        return Err(Error::new(ErrorKind::OverBudget, message));
    }
    let reader = ArrayReader::new(store, array, lane.chunk_bytes)?;
    let context =
        ReadContext { pool: lane.pool, cancel, meter: observer.meter(), in_flight_bytes: lane.slab_bytes };
    let slabs = slabs(array, lane);
    let mut hasher = Sha256::new();
    if data_type.is_variable() {
        let scalar = *data_type == DataType::String && array.metadata.shape().is_empty();
        for slab in slabs {
            reader.visit_variable(&slab, context, &mut |element| {
                if let (true, Ok(text)) = (scalar, std::str::from_utf8(element)) {
                    return text.chars().for_each(|c| hasher.update(u32::from(c).to_le_bytes()));
                }
                if objects && element == NULL_TEXT {
                    return hasher.update(u32::MAX.to_le_bytes());
                }
                // longer elements cannot be stored: their length is a u32 in the chunk
                hasher.update(u32::try_from(element.len()).unwrap_or(u32::MAX).to_le_bytes());
                hasher.update(element);
            })?;
        }
        return Ok(hasher.finalize().into());
    }
    let padding = data_type.padding();
    let item = reader.item_bytes().unwrap_or(1).max(1);
    each_slab(&reader, slabs, context, |slab| {
        for item in slab.chunks_exact_mut(item).filter(|_| !padding.is_empty()) {
            padding.iter().for_each(|&(start, length)| item[start..start + length].fill(0));
        }
        hasher.update(&*slab);
        observer.meter().decoded_bytes_finished.add(slab.len() as u64);
        Ok(())
    })?;
    Ok(hasher.finalize().into())
}

/// Returns the slabs of an array that fit a lane.
pub(super) fn slabs(array: &ArrayNode, lane: &Lane<'_>) -> impl Iterator<Item = Region> + Send + use<> {
    let metadata = &array.metadata;
    let chunk_shape = metadata.grid.largest_chunk_shape();
    let item = metadata.data_type.item_bytes().unwrap_or(VARIABLE_ITEM_ESTIMATE);
    // one row of chunks is enough to keep threads busy; more only takes memory
    let row = chunk_shape
        .first()
        .copied()
        .unwrap_or(1)
        .saturating_mul(metadata.shape().iter().skip(1).product::<u64>())
        .saturating_mul(item);
    let slab_bytes = lane.slab_bytes.min(row.max(16 << 20)).max(1);
    slabs_of(metadata.shape(), &chunk_shape, item, slab_bytes)
}

/// Calls `visit` with the bytes of each slab in order, while the next one is read.
fn each_slab(
    reader: &ArrayReader<'_>,
    slabs: impl Iterator<Item = Region> + Send,
    context: ReadContext<'_>,
    mut visit: impl FnMut(&mut [u8]) -> Result<()>,
) -> Result<()> {
    std::thread::scope(|scope| {
        let (filled, to_visit) = mpsc::sync_channel::<Result<Vec<u8>>>(0);
        let (emptied, to_fill) = mpsc::channel::<Vec<u8>>();
        // two buffers go round: one is visited while the other is filled
        for _ in 0..2 {
            let _ = emptied.send(Vec::new());
        }
        scope.spawn(move || {
            for (slab, mut buffer) in slabs.zip(to_fill) {
                let read = read_slab(reader, &slab, &mut buffer, context).map(|()| buffer);
                let failed = read.is_err();
                if filled.send(read).is_err() || failed {
                    return;
                }
            }
        });
        for buffer in to_visit {
            let mut buffer = buffer?;
            visit(&mut buffer)?;
            let _ = emptied.send(buffer);
        }
        Ok(())
    })
}
