//! The plan of slices: copies whose arrays are put together of picked elements of others.

use super::copy::{ArrayCopy, CopyPlan, MOST_OBJECTS, StoreCopy, Strategy, Wish, finish};
use super::gather::{Axes, Gather, WantedGather, WantedSlice};
use super::layout::check_frames;
use super::rechunk::SourceKind;
use crate::codec::Chain;
use crate::error::{Error, ErrorKind, Result};
use crate::grid::ChunkSet;
use crate::hierarchy::ArrayNode;
use crate::metadata::{ArrayMetadata, convert};

/// Plans slices: stores whose arrays are put together of picked elements of others.
///
/// Errors: `Unsupported` if an array cannot be put together, or the target format cannot say it; `OverBudget` if not even
/// one unit fits the memory, with the least that would do.
pub fn plan_slice(wanted: Vec<WantedSlice>, wish: &Wish) -> Result<CopyPlan> {
    let (mut stores, mut arrays) = (Vec::with_capacity(wanted.len()), Vec::new());
    let mut axes = Axes::default();
    for (store, wanted) in wanted.into_iter().enumerate() {
        for array in &wanted.arrays {
            arrays.push(plan_gather(store, array, wish.source, &mut axes)?);
        }
        stores.push(StoreCopy::new(&wanted.reviewed, wanted.format, Some(wanted.format)));
    }
    finish(arrays, stores, wish)
}

fn plan_gather(store: usize, wanted: &WantedGather, kind: SourceKind, axes: &mut Axes) -> Result<ArrayCopy> {
    let refusal = |message: String| {
        let message = format!("could not plan a slice of `{}`: {message}", wanted.path);
        Error::new(ErrorKind::Unsupported, message)
    };
    let gather = Gather::new(wanted, kind, axes).map_err(refusal)?;
    let grid = gather.grid().map_err(refusal)?;
    let first = &gather.parts[0].array.metadata;
    let metadata = first
        .gathered(&wanted.path, grid, &wanted.dimension_names, wanted.attributes.clone())
        .map_err(refusal)?;
    let conversion = convert(&wanted.path, &metadata, &wanted.target).map_err(refusal)?;
    let compiled = |metadata: &ArrayMetadata| {
        Chain::compile(metadata, &metadata.grid.largest_chunk_shape())
            .map_err(|error| refusal(error.to_string()))
    };
    for part in gather.parts.iter() {
        compiled(&part.array.metadata)?.can_decode_to(0).map_err(refusal)?;
    }
    compiled(&conversion.metadata)?.can_encode_from(0).map_err(refusal)?;
    check_frames(&wanted.path, &conversion.metadata)?;
    let chunks = metadata.grid.total().filter(|&chunks| chunks < MOST_OBJECTS);
    let chunks = chunks.ok_or_else(|| refusal("it has too many chunks".to_owned()))?;
    let largest_bytes = match gather.largest_chunk_bytes() {
        Some((bytes, _)) => bytes.saturating_add(bytes / 64).saturating_add(64 << 10),
        None => wanted.stored_bytes,
    };
    Ok(ArrayCopy {
        store,
        source: ArrayNode { path: wanted.path.clone(), metadata },
        target: ArrayNode { path: wanted.path.clone(), metadata: conversion.metadata },
        strategy: Strategy::Rechunk,
        rechunk: None,
        spill: None,
        gather: Some(Box::new(gather)),
        why: String::new(),
        note: conversion.note,
        absent: conversion.absent,
        stored: ChunkSet::first(chunks),
        known: None,
        stored_bytes: wanted.stored_bytes,
        largest_bytes,
    })
}
