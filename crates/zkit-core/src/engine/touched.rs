//! What a plan of slices reads of its sources: which objects there are, how large, and whether they change.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::lanes;
use crate::cancel::Cancel;
use crate::error::Result;
use crate::grid::for_each_index;
use crate::plan::{CopyPlan, Gather};
use crate::store::Store;

/// What one part of a gathered array reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TouchedPart {
    /// The chunks (shards) that hold picked elements.
    pub chunks: u64,
    /// Those of them that are stored.
    pub stored: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Changes when an object is added, removed or rewritten: a hash of their keys, sizes and stamps.
    pub fingerprint: u128,
}

/// What one gathered array reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// Part by part.
    pub parts: Vec<TouchedPart>,
}

impl Touched {
    /// Returns the bytes that are stored of all parts.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add)
    }

    /// Returns what changes when an object of any part is added, removed or rewritten.
    pub fn fingerprint(&self) -> u128 {
        self.parts.iter().map(|part| part.fingerprint).fold(0, u128::wrapping_add)
    }
}

/// Looks at the objects that the arrays of a plan read, on so many threads; nothing is read. `stores` are those that parts
/// name; what lies in remote ones counts as nothing, as each object would cost a request.
pub fn touched(plan: &CopyPlan, stores: &[&Store], jobs: usize, cancel: &Cancel) -> Result<Vec<Touched>> {
    let pool = lanes::pool(jobs)?;
    pool.install(|| {
        plan.arrays
            .par_iter()
            .map(|array| {
                cancel.check()?;
                let counts = array.source.metadata.grid.counts();
                array
                    .gather
                    .as_deref()
                    .map_or_else(|| Ok(Touched::default()), |gather| look(gather, counts, stores))
            })
            .collect()
    })
}

fn look(gather: &Gather, counts: &[u64], stores: &[&Store]) -> Result<Touched> {
    let mut keys: Vec<BTreeSet<Vec<u64>>> = vec![BTreeSet::new(); gather.parts.len()];
    let ranges: Vec<_> = counts.iter().map(|&count| 0..count).collect();
    // visiting cannot fail
    let _ = for_each_index::<()>(&ranges, |chunk_index| {
        if let Some(source_chunk) = gather.source_chunk(chunk_index) {
            keys[gather.part_of(chunk_index)].insert(source_chunk);
        }
        Ok(())
    });
    let mut touched = Touched::default();
    for (number, (part, chunks)) in gather.parts.iter().zip(keys).enumerate() {
        let mut of_part = TouchedPart { chunks: chunks.len() as u64, ..TouchedPart::default() };
        let mut key = String::new();
        let store = stores.get(part.store).filter(|store| !store.is_remote());
        for chunk in chunks {
            let Some(store) = store else { break };
            part.array.chunk_key(&chunk, &mut key);
            let looked = store.stat(&key).map_err(|error| {
                error.context(format!("could not look at the chunks of `{}`", part.array.path))
            });
            if let Some(found) = looked? {
                of_part.stored += 1;
                of_part.bytes = of_part.bytes.saturating_add(found.size);
                let words = [number as u64, found.size, found.stamp].map(u64::to_le_bytes).concat();
                let one = xxhash_rust::xxh3::xxh3_128(&[key.as_bytes(), &words].concat());
                of_part.fingerprint = of_part.fingerprint.wrapping_add(one);
            }
        }
        touched.parts.push(of_part);
    }
    Ok(touched)
}
