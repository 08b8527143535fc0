//! Where the elements of a slice come from: arrays put together of picked elements of many arrays.
//!
//! A [`Gather`] is the mapping of one array of a slice. Each of its *parts* is an array of some store; along each
//! dimension a part gives one element, or picks that lie along an axis of the result. Dimensions that share an axis are
//! taken pointwise (as xarray's vectorised indexing does), others orthogonally. Parts lie one behind the other, or
//! interleaved, along the *joined* axis.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3Default;

use super::rechunk::SourceKind;
use crate::grid::{Grid, product};
use crate::hierarchy::{ArrayNode, Reviewed};
use crate::metadata::{Object, Target, ZarrFormat};
use crate::units::saturating_usize;

/// The index of an element that no source has: it becomes the fill value.
pub const ABSENT: u64 = u64::MAX;

/// What is taken along one dimension of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// One element, or [`ABSENT`]; the result does not have the dimension.
    At(u64),
    /// These elements, in this order, along an axis of the result; [`ABSENT`] for none.
    Along {
        /// The axis of the result.
        axis: usize,
        /// Positions in the array.
        indices: Arc<[u64]>,
    },
}

/// One array of a source, and what is taken of it.
#[derive(Debug, Clone)]
pub struct Part {
    /// The store that it lies in, by its position among those of the run.
    pub store: usize,
    /// The array: of many stores with the same metadata, mostly one in memory.
    pub array: Arc<ArrayNode>,
    /// What is taken along each of its dimensions: of many arrays of one shape, one in memory.
    ///
    /// Along an axis of the result that none of them names all elements are the same: as where arrays lie beside each other
    /// along a dimension that they do not have themselves.
    pub picks: Arc<[Pick]>,
}

/// The axis along which parts lie beside each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The axis of the result.
    pub axis: usize,
    /// For each part the positions on the axis that its picks along it fill; together every position once.
    pub positions: Vec<Arc<[u64]>>,
}

/// One array of a slice, as it is wanted.
#[derive(Debug, Clone)]
pub struct WantedGather {
    /// Its path in the slice, starting with `/`.
    pub path: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The names of its dimensions.
    pub dimension_names: Vec<String>,
    /// Its attributes, without `_ARRAY_DIMENSIONS`.
    pub attributes: Object,
    /// Where it comes from: one array at least, all of one data type. The first one's metadata is taken over.
    pub parts: Arc<[Part]>,
    /// How parts lie beside each other; `None` where there is one alone.
    pub joined: Option<Joined>,
    /// The element that stands where no source has one; `None` for the fill value.
    pub absent: Option<Vec<u8>>,
    /// Encoded bytes that are read for it, as far as known.
    pub stored_bytes: u64,
    /// Format, codec, checksum and grid.
    pub target: Target,
}

/// One store of slices, as it is wanted.
#[derive(Debug, Clone)]
pub struct WantedSlice {
    /// Its groups, the root first, and what of the sources is not taken.
    pub reviewed: Reviewed,
    /// Its format.
    pub format: ZarrFormat,
    /// Its arrays.
    pub arrays: Vec<WantedGather>,
}

/// The mapping of one array of a slice, compiled: its axes in *gathering order*, in which what lies in one chunk of the
/// sources lies together.
#[derive(Debug, Clone)]
pub struct Gather {
    /// Where it comes from.
    pub parts: Arc<[Part]>,
    /// The axis along which the parts lie.
    pub joined: Option<usize>,
    /// Its axes.
    pub axes: Vec<Arc<AxisOrder>>,
    /// The element that stands where no source has one; `None` for the fill value.
    absent: Option<Vec<u8>>,
}

/// One axis in gathering order, cut into runs that lie in one chunk of each part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AxisOrder {
    /// Where each position of the gathering order lies in the result; `None` where they are the same.
    places: Option<Vec<u64>>,
    /// Its position among the picks of its part; `None` where that is its place.
    locals: Option<Vec<u64>>,
    /// The position of each place; `None` where they are the same.
    positions: Option<Vec<u64>>,
    /// The first position of each run, and the end of the last.
    edges: Vec<u64>,
    /// The part that each run belongs to; empty on axes that all parts have.
    parts: Vec<usize>,
}

/// What makes an axis the same for two arrays: the part, its picks, and the chunk length, for each part.
type AxisKey = Vec<(usize, usize, u64)>;

/// The axes of a slice's arrays; most arrays share theirs.
#[derive(Debug, Default)]
pub(super) struct Axes(HashMap<(bool, AxisKey), Arc<AxisOrder>>);

impl Gather {
    /// Compiles what is wanted; the error says what does not fit.
    pub(super) fn new(wanted: &WantedGather, kind: SourceKind, axes: &mut Axes) -> Result<Self, String> {
        check(wanted)?;
        let joined = wanted.joined.as_ref().map(|joined| joined.axis);
        let parts = Arc::clone(&wanted.parts);
        let orders = (0..wanted.shape.len()).map(|axis| axes.order(wanted, axis, kind)).collect();
        Ok(Self { parts, joined, axes: orders, absent: wanted.absent.clone() })
    }

    /// Returns the grid of the result in gathering order: its chunks lie in one chunk of a source each.
    pub(super) fn grid(&self) -> Result<Grid, String> {
        let lengths: Vec<Vec<u64>> = self
            .axes
            .iter()
            .map(|axis| axis.edges.windows(2).map(|edges| edges[1] - edges[0]).collect())
            .collect();
        let shape: Vec<u64> = self.axes.iter().map(|axis| axis.len()).collect();
        Grid::rectilinear(&shape, &lengths)
    }

    /// Returns the part that a chunk of the gathering order lies in.
    pub fn part_of(&self, chunk_index: &[u64]) -> usize {
        let run = self.joined.map(|axis| (axis, saturating_usize(chunk_index[axis])));
        run.and_then(|(axis, run)| self.axes[axis].parts.get(run).copied()).unwrap_or(0)
    }

    /// Returns the chunk of the source that a chunk of the gathering order lies in; `None` if no source has it.
    pub fn source_chunk(&self, chunk_index: &[u64]) -> Option<Vec<u64>> {
        let part = &self.parts[self.part_of(chunk_index)];
        let grid = &part.array.metadata.grid;
        let along = part.picks.iter().enumerate().map(|(dimension, pick)| {
            let element = match pick {
                Pick::At(element) => *element,
                Pick::Along { axis, indices } => {
                    let order = &self.axes[*axis];
                    let first = order.edges[saturating_usize(chunk_index[*axis])];
                    indices[saturating_usize(order.local(first))]
                }
            };
            (element != ABSENT).then(|| grid.chunk_along(dimension, element).index)
        });
        along.collect()
    }

    /// Returns the element that stands where no source has one, of an array with this fill value.
    pub fn absent_element<'a>(&'a self, fill: &'a [u8]) -> &'a [u8] {
        self.absent.as_deref().unwrap_or(fill)
    }

    /// Returns a digest of where each element comes from, and of the metadata of the arrays that hold them.
    pub fn digest(&self) -> u128 {
        let mut hash = Xxh3Default::new();
        self.add_to(&mut hash);
        hash.digest128()
    }

    /// Adds what tells it from other mappings to a hash.
    pub(super) fn add_to(&self, hash: &mut Xxh3Default) {
        hash.update(format!("{:?} {:?} {:?}", self.joined, self.absent, self.axes).as_bytes());
        for part in self.parts.iter() {
            hash.update(format!("{} {} {:?}", part.store, part.array.path, part.picks).as_bytes());
            for (name, document) in part.array.metadata.documents() {
                hash.update(name.as_bytes());
                hash.update(document.to_string().as_bytes());
            }
        }
    }

    /// Returns, for each axis that is reordered, where its positions lie in the result.
    pub fn places(&self) -> Vec<Option<Vec<usize>>> {
        let as_usize = |places: &[u64]| places.iter().map(|&place| saturating_usize(place)).collect();
        self.axes.iter().map(|axis| axis.places().map(as_usize)).collect()
    }

    /// Returns whether several dimensions are taken pointwise along an axis.
    pub fn is_pointwise(&self, axis: usize) -> bool {
        self.parts.iter().any(|part| picks_along(part, axis).count() > 1)
    }

    /// Returns the axes that are reordered.
    pub(super) fn reordered(&self) -> Vec<bool> {
        self.axes.iter().map(|axis| axis.places.is_some()).collect()
    }

    /// Returns the decoded bytes of the largest chunk of any source, and what decoding it may take alone: that of an
    /// inner chunk where sharded.
    pub(super) fn largest_chunk_bytes(&self) -> Option<(u64, u64)> {
        let of = |part: &Part| {
            let metadata = &part.array.metadata;
            let alone = product(&metadata.chunk_shape())?.checked_mul(metadata.data_type.item_bytes()?)?;
            Some((metadata.chunk_decoded_bytes()?, alone))
        };
        self.parts.iter().map(of).try_fold((0, 0), |most, bytes| {
            let bytes = bytes?;
            Some((most.0.max(bytes.0), most.1.max(bytes.1)))
        })
    }
}

impl AxisOrder {
    /// Returns the length of the axis.
    pub fn len(&self) -> u64 {
        self.edges.last().copied().unwrap_or(0)
    }

    /// Returns whether there is no position.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns where a position of the gathering order lies among the picks of its part.
    pub fn local(&self, position: u64) -> u64 {
        match (&self.locals, &self.places) {
            (Some(locals), _) => locals[saturating_usize(position)],
            (None, Some(places)) => places[saturating_usize(position)],
            (None, None) => position,
        }
    }

    /// Returns the part that a place in the result comes from, and its position among the picks of that part.
    pub fn pick_at(&self, place: u64) -> (usize, u64) {
        let position = self.positions.as_ref().map_or(place, |positions| positions[saturating_usize(place)]);
        let run = self.edges.partition_point(|&edge| edge <= position).saturating_sub(1);
        (self.parts.get(run).copied().unwrap_or(0), self.local(position))
    }

    /// Returns where the positions of the gathering order lie in the result; `None` where they are the same.
    pub fn places(&self) -> Option<&[u64]> {
        self.places.as_deref()
    }
}

impl Axes {
    fn order(&mut self, wanted: &WantedGather, axis: usize, kind: SourceKind) -> Arc<AxisOrder> {
        let joined = wanted.joined.as_ref().filter(|joined| joined.axis == axis);
        let Some(key) = key_of(wanted, axis, joined, kind) else {
            return Arc::new(order(wanted, axis, joined, kind));
        };
        let made = || Arc::new(order(wanted, axis, joined, kind));
        Arc::clone(self.0.entry((joined.is_some(), key)).or_insert_with(made))
    }
}

/// Returns what tells an axis from others; `None` where chunks have no one length.
fn key_of(wanted: &WantedGather, axis: usize, joined: Option<&Joined>, kind: SourceKind) -> Option<AxisKey> {
    // the numbers stand for what must be equal: where the picks lie in memory, while this plan is made
    let mut key = vec![(0, 0, wanted.shape[axis])];
    for (at, part) in wanted.parts.iter().enumerate() {
        let at = if joined.is_some() { at } else { 0 };
        if let Some(joined) = joined {
            key.push((at, joined.positions[at].as_ptr() as usize, 0));
        }
        for (dimension, indices) in picks_along(part, axis) {
            let length = cut(part, kind).regular_shape()?[dimension];
            key.push((at, indices.as_ptr() as usize, length));
        }
    }
    if joined.is_none() {
        key[1..].sort_unstable();
        key.dedup();
    }
    Some(key)
}

fn picks_along(part: &Part, axis: usize) -> impl Iterator<Item = (usize, &Arc<[u64]>)> {
    part.picks.iter().enumerate().filter_map(move |(dimension, pick)| match pick {
        Pick::Along { axis: along, indices } if *along == axis => Some((dimension, indices)),
        _ => None,
    })
}

/// Returns the grid of what is visited at once: inner chunks of local shards, else stored chunks.
fn cut(part: &Part, kind: SourceKind) -> Grid {
    let metadata = &part.array.metadata;
    let inner = metadata.sharding().filter(|_| kind == SourceKind::Local);
    let grid = inner.and_then(|_| Grid::regular(metadata.shape(), &metadata.chunk_shape()).ok());
    grid.unwrap_or_else(|| metadata.grid.clone())
}

/// Puts the positions of an axis in an order in which those of one chunk lie together.
fn order(wanted: &WantedGather, axis: usize, joined: Option<&Joined>, kind: SourceKind) -> AxisOrder {
    let mut entries: Vec<Entry> = match joined {
        Some(joined) => {
            let of_part = |(part, positions): (usize, &Arc<[u64]>)| {
                positions
                    .iter()
                    .enumerate()
                    .map(move |(local, &place)| Entry { part, local, place })
                    .collect()
            };
            joined.positions.iter().enumerate().flat_map::<Vec<_>, _>(of_part).collect()
        }
        None => (0..saturating_usize(wanted.shape[axis]))
            .map(|local| Entry { part: 0, local, place: local as u64 })
            .collect(),
    };
    entries.sort_by_key(|entry| entry.place);
    let chunks = Chunks::new(wanted, axis, joined.is_some(), kind);
    let keys: Vec<Vec<u64>> = entries.iter().map(|entry| chunks.of(entry)).collect();
    let starts = |keys: &[Vec<u64>]| -> Vec<usize> {
        (0..keys.len()).filter(|&at| at == 0 || keys[at] != keys[at - 1]).collect()
    };
    let runs = starts(&keys);
    let distinct: HashSet<&Vec<u64>> = runs.iter().map(|&at| &keys[at]).collect();
    let mut edges = runs.clone();
    let mut places: Option<Vec<u64>> = None;
    if distinct.len() < runs.len() {
        let mut ranks: Vec<usize> = (0..entries.len()).collect();
        ranks.sort_by(|&one, &other| keys[one].cmp(&keys[other]));
        entries = ranks.iter().map(|&rank| entries[rank]).collect();
        edges = starts(&ranks.iter().map(|&rank| keys[rank].clone()).collect::<Vec<_>>());
        places = Some(entries.iter().map(|entry| entry.place).collect());
    }
    let part_of_run = edges.iter().map(|&at| entries[at].part);
    let parts = if joined.is_some() { part_of_run.collect() } else { Vec::new() };
    let locals = entries.iter().map(|entry| entry.local as u64);
    let locals = joined.map(|_| locals.collect());
    let edges = edges.into_iter().map(|at| at as u64).chain([entries.len() as u64]).collect();
    let positions = places.as_ref().map(|places| {
        let mut positions = vec![0; places.len()];
        for (position, &place) in (0..).zip(places) {
            positions[saturating_usize(place)] = position;
        }
        positions
    });
    AxisOrder { places, locals, positions, edges, parts }
}

/// One position of an axis.
#[derive(Debug, Clone, Copy)]
struct Entry {
    part: usize,
    /// Its position among the picks of the part.
    local: usize,
    /// Its position in the result.
    place: u64,
}

/// In which chunks the positions of an axis lie.
struct Chunks<'a> {
    /// For each part, or once for all, what is picked along the axis.
    along: Vec<Vec<Cut<'a>>>,
    joined: bool,
}

/// What is picked along one dimension of a part.
#[derive(PartialEq)]
struct Cut<'a> {
    dimension: usize,
    indices: &'a [u64],
    /// The grid that cuts it.
    grid: Grid,
}

impl<'a> Chunks<'a> {
    fn new(wanted: &'a WantedGather, axis: usize, joined: bool, kind: SourceKind) -> Self {
        let of = |part: &'a Part| -> Vec<Cut<'a>> {
            let picks = picks_along(part, axis);
            picks.map(|(dimension, indices)| Cut { dimension, indices, grid: cut(part, kind) }).collect()
        };
        let mut along: Vec<Vec<Cut<'_>>> = wanted.parts.iter().map(of).collect();
        if !joined {
            // parts that are cut alike count once
            let mut all: Vec<Cut<'_>> = Vec::new();
            for one in along.into_iter().flatten() {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
            along = vec![all];
        }
        Self { along, joined }
    }

    /// Returns the part and chunks that a position lies in.
    fn of(&self, entry: &Entry) -> Vec<u64> {
        let along = &self.along[if self.joined { entry.part } else { 0 }];
        let chunk = |cut: &Cut<'_>| match cut.indices[entry.local] {
            ABSENT => ABSENT,
            element => cut.grid.chunk_along(cut.dimension, element).index,
        };
        std::iter::once(entry.part as u64).chain(along.iter().map(chunk)).collect()
    }
}

/// Checks that picks fit the arrays and the result.
fn check(wanted: &WantedGather) -> Result<(), String> {
    let Some(first) = wanted.parts.first() else { return Err("it comes from nowhere".to_owned()) };
    if wanted.dimension_names.len() != wanted.shape.len() {
        return Err("its shape and dimension names differ in length".to_owned());
    }
    if wanted.parts.len() > 1 && wanted.joined.is_none() {
        return Err("it has several parts and no axis along which they lie".to_owned());
    }
    for (at, part) in wanted.parts.iter().enumerate() {
        let metadata = &part.array.metadata;
        if metadata.data_type != first.array.metadata.data_type {
            return Err(format!(
                "its parts have different data types: {} and {}",
                first.array.metadata.data_type, metadata.data_type
            ));
        }
        if part.picks.len() != metadata.shape().len() {
            return Err(format!("{} picks for {} dimensions", part.picks.len(), metadata.shape().len()));
        }
        for (pick, &length) in part.picks.iter().zip(metadata.shape()) {
            let (wanted_length, found, largest) = match pick {
                Pick::At(element) => (0, 0, Some(*element).filter(|&element| element != ABSENT)),
                Pick::Along { axis, indices } => {
                    let joined = wanted.joined.as_ref().filter(|joined| joined.axis == *axis);
                    let long = match joined {
                        Some(joined) => joined.positions.get(at).map(|positions| positions.len() as u64),
                        None => wanted.shape.get(*axis).copied(),
                    };
                    let present = indices.iter().copied().filter(|&index| index != ABSENT);
                    (long.unwrap_or(u64::MAX), indices.len() as u64, present.max())
                }
            };
            if wanted_length != found || largest.is_some_and(|largest| largest >= length) {
                return Err(format!("picks that do not fit a dimension of length {length}"));
            }
        }
    }
    let Some(joined) = &wanted.joined else { return Ok(()) };
    let length = wanted.shape.get(joined.axis).copied().unwrap_or(0);
    let mut filled = vec![false; saturating_usize(length)];
    let all = joined.positions.iter().flat_map(|positions| positions.iter());
    let once = all.clone().all(|&place| {
        filled.get_mut(saturating_usize(place)).is_some_and(|filled| !std::mem::replace(filled, true))
    });
    match once && all.count() as u64 == length && joined.positions.len() == wanted.parts.len() {
        true => Ok(()),
        false => Err("its parts do not fill the joined axis once".to_owned()),
    }
}
