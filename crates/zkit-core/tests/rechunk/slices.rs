//! Arrays gathered from picked elements of several others, against picking them one by one.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use zkit_core::cancel::Cancel;
use zkit_core::engine::{Endpoint, OnCorrupt, Proof, Resources, RunOptions, Sink, Verify, run_copy, verify};
use zkit_core::event::Silent;
use zkit_core::hierarchy::{Hierarchy, Reviewed};
use zkit_core::metadata::{ChecksumChoice, Layout, Target, TargetCodec, ZarrFormat};
use zkit_core::plan::{
    ABSENT, CopyPlan, Joined, Part, Pick, SourceKind, WantedGather, WantedSlice, Wish, plan_slice,
};
use zkit_core::publish::{Consolidate, metadata_documents};
use zkit_core::store::{LocalWriter, Store};

use super::case::{Case, cases, item_bytes};

/// What elements hold, so that parts differ.
const ELEMENTS: [fn(&[u64]) -> u8; 3] =
    [|index| mixed(index, 3), |index| mixed(index, 5), |index| mixed(index, 11)];

fn mixed(index: &[u64], seed: u64) -> u8 {
    let flat = index.iter().fold(seed, |flat, &at| flat.wrapping_mul(0x9e37_79b9).wrapping_add(at));
    (flat ^ flat >> 7) as u8
}

/// A sequence that looks random.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn shuffled(&mut self, mut items: Vec<u64>) -> Vec<u64> {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
        items
    }

    /// Positions in a dimension: a range, every so many, any of them, or some that are nowhere.
    fn indices(&mut self, length: u64, count: u64) -> Vec<u64> {
        if length == 0 {
            return vec![ABSENT; count as usize];
        }
        let (kind, first) = (self.below(4), self.below(length));
        (0..count)
            .map(|at| match kind {
                0 => (first + at) % length,
                1 => (first + 3 * at) % length,
                2 => self.below(length),
                _ if self.one_in(4) => ABSENT,
                _ => (at / 2 + first) % length,
            })
            .collect()
    }
}

/// A slice of some arrays, and what it must hold.
struct Slice {
    cases: Vec<Case>,
    wanted: WantedGather,
    expected: Vec<u8>,
}

impl Slice {
    /// Writes sources like `case` to `folder` and picks from them.
    fn new(case: &Case, seed: u64, folder: &Path) -> Self {
        let mut random = Random(seed);
        let rank = case.shape.len();
        // the joined axis may be one that no part has
        let stacked = random.one_in(4);
        let parts = if rank == 0 && !stacked { 1 } else { 1 + random.below(3) as usize };
        let joined = match stacked {
            true => Some(rank),
            false => {
                (parts > 1 || (rank > 0 && random.one_in(2))).then(|| random.below(rank as u64) as usize)
            }
        };
        // which dimension runs along which axis; two may share one
        let mut axis_of: Vec<Option<usize>> =
            (0..rank).map(|d| (joined == Some(d) || !random.one_in(4)).then_some(d)).collect();
        let free: Vec<usize> = (0..rank).filter(|&d| axis_of[d].is_some() && joined != Some(d)).collect();
        if free.len() > 1 && random.one_in(2) {
            axis_of[free[1]] = axis_of[free[0]];
        }
        let of_stack = stacked.then_some(rank);
        let mut kept: Vec<u64> =
            axis_of.iter().flatten().copied().chain(of_stack).map(|d| d as u64).collect();
        kept.sort_unstable();
        kept.dedup();
        let kept = random.shuffled(kept);
        let place =
            |at: usize| kept.iter().position(|&kept| kept == at as u64).expect("axes of parts are kept");
        let axis = |d: usize| axis_of.get(d).map_or(of_stack, |at| *at).map(place);
        let mut cases: Vec<Case> =
            (0..parts).map(|part| Case { element: ELEMENTS[part], ..case.clone() }).collect();
        for case in &mut cases {
            for d in 0..rank {
                case.source_chunk[d] = 1 + random.below(8);
                if joined == Some(d) {
                    case.shape[d] = random.below(20);
                }
            }
            case.source_shard = case
                .source_shard
                .as_ref()
                .map(|_| case.source_chunk.iter().map(|&chunk| chunk * (1 + random.below(3))).collect());
        }
        let mut shape: Vec<u64> = kept.iter().map(|_| random.below(13)).collect();
        let counts: Vec<u64> = (0..parts).map(|_| random.below(9)).collect();
        let total: u64 = counts.iter().sum();
        let places = (0..total).collect();
        let places = if random.one_in(2) { random.shuffled(places) } else { places };
        let mut left = &places[..];
        let joined = joined.and_then(axis).map(|axis| Joined {
            axis,
            positions: counts
                .iter()
                .map(|&count| {
                    let (first, rest) = left.split_at(count as usize);
                    left = rest;
                    Arc::from(first)
                })
                .collect(),
        });
        if let Some(joined) = &joined {
            shape[joined.axis] = total;
        }
        let elements: Vec<Vec<u8>> = cases
            .iter()
            .enumerate()
            .map(|(part, case)| {
                std::fs::create_dir(folder.join(part.to_string())).expect("a new folder");
                case.write_source(&folder.join(part.to_string()))
            })
            .collect();
        let all_parts: Vec<Part> = cases
            .iter()
            .enumerate()
            .map(|(part, case)| {
                let picks = (0..rank).map(|d| match axis(d) {
                    None if case.shape[d] > 0 => Pick::At(random.below(case.shape[d])),
                    None => Pick::At(ABSENT),
                    Some(axis) => {
                        let count = match &joined {
                            Some(joined) if joined.axis == axis => counts[part],
                            _ => shape[axis],
                        };
                        Pick::Along { axis, indices: random.indices(case.shape[d], count).into() }
                    }
                });
                let hierarchy = Case::hierarchy(&folder.join(part.to_string()).join("source"));
                Part { store: part, array: Arc::new(hierarchy.arrays[0].clone()), picks: picks.collect() }
            })
            .collect();
        let chunk_shape: Vec<u64> = shape.iter().map(|_| 1 + random.below(8)).collect();
        let shard_shape = random
            .one_in(3)
            .then(|| chunk_shape.iter().map(|&chunk| chunk * (1 + random.below(3))).collect::<Vec<u64>>())
            .filter(|shard| !shard.is_empty());
        let wanted = WantedGather {
            path: "/".to_owned(),
            dimension_names: (0..shape.len()).map(|axis| format!("axis{axis}")).collect(),
            attributes: all_parts[0].array.metadata.attributes.clone(),
            parts: all_parts.into(),
            joined,
            absent: None,
            stored_bytes: 0,
            target: Target {
                format: None,
                codec: case.target.clone(),
                checksum: match case.target {
                    TargetCodec::Uncompressed => ChecksumChoice::None,
                    _ => ChecksumChoice::Auto,
                },
                layout: Some(Layout { chunk_shape: chunk_shape.clone(), shard_shape: shard_shape.clone() }),
            },
            shape: shape.clone(),
        };
        let expected = picked(&wanted, &cases, &elements, item_bytes(case.data_type));
        // what the copy is read back as
        cases[0] = Case { shape, target_chunk: chunk_shape, target_shard: shard_shape, ..cases[0].clone() };
        Self { cases, wanted, expected }
    }

    fn plan(&self, memory_bytes: u64) -> zkit_core::error::Result<CopyPlan> {
        let wanted = WantedSlice {
            reviewed: Reviewed::together(Vec::new(), []),
            format: ZarrFormat::V3,
            arrays: vec![self.wanted.clone()],
        };
        let wish = Wish {
            format: None,
            memory_bytes,
            upload_bytes: 0,
            jobs: self.cases[0].jobs,
            source: SourceKind::Local,
            scratch_bytes: 0,
        };
        plan_slice(vec![wanted], &wish)
    }
}

/// Picks element by element.
fn picked(wanted: &WantedGather, cases: &[Case], elements: &[Vec<u8>], item: usize) -> Vec<u8> {
    let total: u64 = wanted.shape.iter().product();
    (0..total)
        .flat_map(|flat| {
            let mut rest = flat;
            let mut index = vec![0; wanted.shape.len()];
            for (slot, &length) in index.iter_mut().zip(&wanted.shape).rev() {
                (*slot, rest) = (rest % length, rest / length);
            }
            let (part, local) = match &wanted.joined {
                None => (0, 0),
                Some(joined) => {
                    let mut found = joined.positions.iter().enumerate().filter_map(|(part, positions)| {
                        Some((part, positions.iter().position(|&place| place == index[joined.axis])?))
                    });
                    found.next().expect("a value for each element")
                }
            };
            let axis = wanted.joined.as_ref().map(|joined| joined.axis);
            let source: Vec<u64> = wanted.parts[part]
                .picks
                .iter()
                .map(|pick| match pick {
                    Pick::At(element) => *element,
                    Pick::Along { axis: along, indices } if Some(*along) == axis => indices[local],
                    Pick::Along { axis: along, indices } => indices[index[*along] as usize],
                })
                .collect();
            if source.contains(&ABSENT) {
                return vec![0; item];
            }
            let at = source.iter().zip(&cases[part].shape).fold(0, |flat, (&at, &length)| flat * length + at);
            elements[part][at as usize * item..][..item].to_vec()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn a_slice_holds_the_elements_that_were_picked(case in cases(), seed in any::<u64>()) {
        let folder = tempfile::tempdir().unwrap();
        let slice = Slice::new(&case, seed, folder.path());
        let plan = slice.plan(case.memory_bytes).or_else(|_| slice.plan(1 << 26)).unwrap();
        let sources: Vec<Hierarchy> = (0..slice.cases.len())
            .map(|part| Case::hierarchy(&folder.path().join(part.to_string()).join("source")))
            .collect();
        let stores: Vec<&Store> = sources.iter().map(|source| source.readable_store().unwrap()).collect();
        let target = folder.path().join("target");
        std::fs::create_dir(&target).unwrap();
        let writer = LocalWriter::open(&target).unwrap();
        let endpoint = Endpoint {
            source: stores[0],
            parts: &stores,
            sink: Sink::Local { writer: &writer, journal: None },
            done: &[],
            resumed: false,
            scratch: None,
        };
        let options = RunOptions { memory_bytes: 1 << 26, on_corrupt: OnCorrupt::Fail };
        let (observer, cancel) = (Silent::default(), Cancel::default());
        run_copy(&plan, &[endpoint], options, &observer, &cancel, &mut |_, _| Ok(())).unwrap();
        for (key, document) in metadata_documents(&plan, 0, Consolidate::No) {
            writer.put(&key, document.to_pretty().as_bytes()).unwrap();
        }
        prop_assert_eq!(&slice.cases[0].read_copy(folder.path()), &slice.expected);
        let copy = Case::hierarchy(&target);
        let resources = Resources { memory_bytes: 1 << 20, jobs: case.jobs };
        for mode in [Verify::Full, Verify::Sample] {
            let proof = Proof { plan: &plan, store: 0, source: stores[0], parts: &stores, copy: &copy, corrupt: &[] };
            verify(proof, mode, resources, &observer, &cancel).unwrap();
        }
    }
}
