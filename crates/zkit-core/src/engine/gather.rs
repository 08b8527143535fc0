//! Arrays that are put together of parts of others, read like one array.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::time::Instant;

use bytes::Bytes;

use super::fetch::Fetched;
use super::survey::side_by_side;
use crate::codec::VariableElements;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Meter;
use crate::grid::{Region, for_each_index};
use crate::hierarchy::ArrayNode;
use crate::kernels::copy::{Strided, c_strides, copy_strided};
use crate::plan::{ABSENT, ArrayCopy, Gather, Pick, window_bytes};
use crate::read::{
    ArrayReader, BoxPiece, Boxes, ChunkSource, Piece, ReadContext, ShardIndexes, Visitor, fill_run,
    read_slab, to_usize,
};
use crate::store::Store;
use crate::units::saturating_usize;

/// Shards whose inner chunks are fetched at once, for one unit.
const SHARDS_IN_FLIGHT: usize = 8;

/// What a copy reads: an array of a store, or one that is gathered.
pub(super) enum SourceReader<'a> {
    Array(ArrayReader<'a>),
    Gather(GatherReader<'a>),
}

impl<'a> SourceReader<'a> {
    pub(super) fn new(
        array: &'a ArrayCopy,
        source: &'a Store,
        parts: &'a [&'a Store],
        chunk_limit: u64,
    ) -> Result<Self> {
        Ok(match &array.gather {
            Some(gather) => Self::Gather(GatherReader::new(&array.source, gather, parts, chunk_limit)?),
            None => {
                let reader = ArrayReader::new(source, &array.source, chunk_limit)?;
                Self::Array(reader.within(window_bytes(&array.source.metadata, chunk_limit)))
            }
        })
    }

    /// Returns the reader of an array that is gathered.
    pub(super) fn gather(&self) -> Option<&GatherReader<'a>> {
        match self {
            Self::Array(_) => None,
            Self::Gather(reader) => Some(reader),
        }
    }

    /// Decodes a part of one chunk, of an array that is gathered in gathering order, and calls `visit` with its pieces.
    pub(super) fn visit_part(
        &self,
        chunk_index: &[u64],
        part: &Region,
        source: &ChunkSource<'_>,
        meter: &Meter,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        match self {
            Self::Array(reader) => reader.visit_part(chunk_index, part, source, meter, visit),
            Self::Gather(reader) => reader.visit_part(chunk_index, part, source, meter, visit),
        }
    }

    /// Returns whether inner chunks of a chunk can be read, or fail, alone.
    pub(super) fn has_inner_chunks(
        &self,
        chunk_index: &[u64],
        source: &ChunkSource<'_>,
        meter: &Meter,
    ) -> Result<bool> {
        match self {
            Self::Array(reader) => reader.has_inner_chunks(chunk_index, source, meter),
            // what does not decode stops a slice
            Self::Gather(_) => Ok(false),
        }
    }

    /// Calls `visit` with every element of a region of the copy in C order.
    pub(super) fn visit_variable(
        &self,
        region: &Region,
        context: ReadContext<'_>,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        match self {
            Self::Array(reader) => reader.visit_variable(region, context, visit),
            Self::Gather(reader) => reader.visit_variable(region, context, visit),
        }
    }

    /// Reads a region of the copy into `out`.
    pub(super) fn read_slab(
        &self,
        region: &Region,
        out: &mut Vec<u8>,
        context: ReadContext<'_>,
    ) -> Result<()> {
        match self {
            Self::Array(reader) => read_slab(reader, region, out, context),
            Self::Gather(reader) => reader.read_region(region, out, context),
        }
    }
}

/// An array that is gathered, ready to be read.
pub(super) struct GatherReader<'a> {
    node: &'a ArrayNode,
    gather: &'a Gather,
    stores: &'a [&'a Store],
    /// Of each part, prepared when it is read first: most threads need a few of many.
    readers: Vec<OnceLock<ArrayReader<'a>>>,
    chunk_limit: u64,
    /// Of the shards of remote stores, for the units that read other parts of them.
    indexes: ShardIndexes,
}

/// An object that is to be fetched.
struct WantedObject {
    /// Whom for.
    cells: Vec<usize>,
    /// The part whose array it belongs to, and its chunk there.
    number: usize,
    source_chunk: Vec<u64>,
    /// The inner chunks that are wanted; `None` for all of the object.
    inner: Option<BTreeSet<usize>>,
}

/// Takes boxes: the number of the part, its region (`None` where no source has it), and the place of the box.
type BoxVisit<'v> = dyn FnMut(usize, Option<&Region>, &Region) -> Result<()> + 'v;

/// Positions along one axis that are a range along each dimension of a part.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    /// The first position on the axis.
    start: u64,
    length: u64,
    /// Its position among the picks of the part.
    local: u64,
}

impl<'a> GatherReader<'a> {
    /// Prepares reading; `node` is the array in gathering order, `stores` those that the parts name.
    fn new(
        node: &'a ArrayNode,
        gather: &'a Gather,
        stores: &'a [&'a Store],
        chunk_limit: u64,
    ) -> Result<Self> {
        if gather.parts.iter().any(|part| part.store >= stores.len()) {
            let message = format!("could not prepare reading `{}`: a part names no store", node.path);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let readers = gather.parts.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { node, gather, stores, readers, chunk_limit, indexes: ShardIndexes::default() })
    }

    fn reader(&self, part: usize) -> Result<&ArrayReader<'a>> {
        if let Some(reader) = self.readers[part].get() {
            return Ok(reader);
        }
        let from = &self.gather.parts[part];
        let reader = ArrayReader::new(self.stores[from.store], &from.array, self.chunk_limit)?
            .within(window_bytes(&from.array.metadata, self.chunk_limit));
        Ok(self.readers[part].get_or_init(|| reader))
    }

    /// Fetches the objects that hold chunks of the gathering order, each once, store by store; `None` for what is absent. Of
    /// shards only the inner chunks that are picked, where that costs less.
    pub(super) fn fetch(
        &self,
        positions: &[Option<u64>],
        array: &ArrayCopy,
        object_limit: u64,
        meter: &Meter,
    ) -> Result<Fetched> {
        let wanted = self.objects(positions, array)?;
        let mut fetched = vec![None; positions.len()];
        let mut place = |cells: &[usize], object: &Option<Bytes>| {
            cells.iter().for_each(|&cell| fetched[cell].clone_from(object));
        };
        let (in_part, whole): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .flat_map(|(store, objects)| objects.into_iter().map(move |(key, object)| (store, key, object)))
            .partition(|(_, _, object)| object.inner.is_some());
        let names: Vec<(&Store, &str)> =
            whole.iter().map(|(store, key, _)| (self.stores[*store], key.as_str())).collect();
        let started = Instant::now();
        let bodies = Store::get_many_of(&names, object_limit);
        meter.read_time.add_time(started.elapsed());
        for ((_, _, object), body) in whole.iter().zip(bodies) {
            let body = body?;
            meter.bytes_read.add(body.as_ref().map_or(0, |bytes| bytes.len() as u64));
            place(&object.cells, &body);
        }
        let in_part: Vec<WantedObject> = in_part.into_iter().map(|(_, _, object)| object).collect();
        let bodies = self.fetch_shards(&in_part, meter);
        for (object, body) in in_part.iter().zip(bodies) {
            place(&object.cells, &body?);
        }
        Ok(fetched)
    }

    /// Returns the objects that hold chunks of the gathering order, by store and key.
    fn objects(
        &self,
        positions: &[Option<u64>],
        array: &ArrayCopy,
    ) -> Result<BTreeMap<usize, BTreeMap<String, WantedObject>>> {
        let grid = &array.source.metadata.grid;
        let mut wanted: BTreeMap<usize, BTreeMap<String, WantedObject>> = BTreeMap::new();
        for (cell, position) in positions.iter().enumerate() {
            let Some(chunk_index) = position.map(|position| grid.index_at(position)) else { continue };
            let Some(source_chunk) = self.gather.source_chunk(&chunk_index) else { continue };
            let number = self.gather.part_of(&chunk_index);
            let part = &self.gather.parts[number];
            let mut key = String::new();
            part.array.chunk_key(&source_chunk, &mut key);
            let inner = match part.array.metadata.sharding() {
                Some(_) => {
                    let (boxes, _) = self.boxes(number, &source_chunk, &grid.chunk_region(&chunk_index));
                    self.reader(number)?.inner_chunks_of(&source_chunk, &boxes)?
                }
                None => None,
            };
            match wanted.entry(part.store).or_default().entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(WantedObject { cells: vec![cell], number, source_chunk, inner });
                }
                Entry::Occupied(mut entry) => {
                    let object = entry.get_mut();
                    object.cells.push(cell);
                    object.inner = object.inner.take().zip(inner).map(|(one, other)| &one | &other);
                }
            }
        }
        Ok(wanted)
    }

    /// Fetches the picked inner chunks of shards, several shards at once.
    fn fetch_shards(&self, shards: &[WantedObject], meter: &Meter) -> Vec<Result<Option<Bytes>>> {
        let fetch = |shard: &WantedObject| {
            let inner = shard.inner.as_ref().expect("only shards that are read in part are passed");
            self.reader(shard.number)?
                .fetch_picked(&shard.source_chunk, inner, &self.indexes, meter)
                .map_err(|error| error.context(self.place_of(shard.number)))
        };
        side_by_side(SHARDS_IN_FLIGHT, shards, fetch)
    }

    /// Returns the boxes of a source chunk that a region of the gathering order is, and for each its first position on every
    /// axis.
    fn boxes(&self, number: usize, source_chunk: &[u64], region: &Region) -> (Boxes, Vec<u64>) {
        let part = &self.gather.parts[number];
        let origin = part.array.metadata.grid.chunk_region(source_chunk).start;
        let stretches: Vec<Vec<Stretch>> = (0..region.shape.len())
            .map(|axis| {
                let positions = (region.start[axis]..region.start[axis] + region.shape[axis])
                    .map(|position| (position, self.gather.axes[axis].local(position)));
                stretches(&part.picks, axis, positions)
            })
            .collect();
        boxes(&part.picks, &origin, &stretches)
    }

    /// Decodes a part of one chunk of the gathering order and calls `visit` with its pieces; together they are the part.
    fn visit_part(
        &self,
        chunk_index: &[u64],
        region: &Region,
        source: &ChunkSource<'_>,
        meter: &Meter,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let number = self.gather.part_of(chunk_index);
        let reader = self.reader(number)?;
        let Some(source_chunk) = self.gather.source_chunk(chunk_index) else {
            return visit(Piece::Fill { region, element: self.gather.absent_element(reader.fill()?) });
        };
        let part = &self.gather.parts[number];
        let (boxes, places) = self.boxes(number, &source_chunk, region);
        let axes = region.shape.len();
        let dimension_of: Vec<Option<usize>> =
            (0..axes).map(|axis| only_dimension(&part.picks, axis)).collect();
        let mut piece_region = Region { start: vec![0; axes], shape: vec![1; axes] };
        let mut strides = vec![0; axes];
        let mut take = |piece: BoxPiece<'_>| {
            let place = &places[piece.number * axes..(piece.number + 1) * axes];
            for axis in 0..axes {
                let along = dimension_of[axis];
                piece_region.start[axis] = place[axis] + along.map_or(0, |d| piece.start[d] as u64);
                piece_region.shape[axis] = along.map_or(1, |d| piece.shape[d] as u64);
            }
            match piece.elements {
                None => visit(Piece::Fill { region: &piece_region, element: reader.fill()? }),
                Some((bytes, layout)) => {
                    for axis in 0..axes {
                        strides[axis] = dimension_of[axis].map_or(0, |d| layout.strides[d]);
                    }
                    let layout = Strided { offset: layout.offset, strides: &strides };
                    visit(Piece::Elements { region: &piece_region, bytes, layout })
                }
            }
        };
        let present = reader
            .visit_boxes(&source_chunk, &boxes, source, meter, &mut take)
            .map_err(|error| error.context(self.place_of(number)))?;
        if present { Ok(()) } else { visit(Piece::Fill { region, element: reader.fill()? }) }
    }

    fn place_of(&self, part: usize) -> String {
        format!("could not read {}", self.stores[self.gather.parts[part].store].place())
    }

    /// Reads a region of the result, in its order, into `out`: part by part and stretch by stretch, through
    /// [`ArrayReader::read_region`] alone.
    fn read_region(&self, region: &Region, out: &mut Vec<u8>, context: ReadContext<'_>) -> Result<()> {
        let shape = to_usize(&region.shape);
        let item = saturating_usize(self.node.metadata.data_type.item_bytes().unwrap_or(1));
        let bytes = shape.iter().try_fold(item, |bytes, &length| bytes.checked_mul(length));
        out.resize(
            bytes.ok_or_else(|| Error::new(ErrorKind::OverBudget, "the size of a slab overflows"))?,
            0,
        );
        let out_strides = c_strides(&shape, item);
        let mut buffer = Vec::new();
        self.each_box(region, &mut |number, from, to| {
            let reader = self.reader(number)?;
            let lengths = to_usize(&to.shape);
            let bytes = lengths.iter().product::<usize>() * item;
            let start: usize = to
                .start
                .iter()
                .zip(out_strides.iter())
                .map(|(&at, stride)| saturating_usize(at) * stride.unsigned_abs())
                .sum();
            let target = Strided { offset: start, strides: &out_strides };
            buffer.resize(bytes, 0);
            match from {
                Some(from) => reader
                    .read_region(from, &mut buffer, context)
                    .map_err(|error| error.context(self.place_of(number)))?,
                None => fill_run(self.gather.absent_element(reader.fill()?), &mut buffer)?,
            }
            let strides = self.box_strides(number, from, &lengths, item);
            copy_strided(item, &lengths, &buffer, Strided { offset: 0, strides: &strides }, out, target)
                .map_err(|error| {
                    Error::new(ErrorKind::Corrupt, "could not assemble a slice").with_source(error)
                })
        })
    }

    /// Returns, by axis of the result, the strides of a box that was read from a part.
    fn box_strides(&self, number: usize, from: Option<&Region>, shape: &[usize], item: usize) -> Vec<isize> {
        let Some(from) = from else { return c_strides(shape, item).to_vec() };
        let strides = c_strides(&to_usize(&from.shape), item);
        let picks = &self.gather.parts[number].picks;
        (0..shape.len()).map(|axis| only_dimension(picks, axis).map_or(0, |d| strides[d])).collect()
    }

    /// Calls `visit` with every element of a region of the result, in its order.
    fn visit_variable(
        &self,
        region: &Region,
        context: ReadContext<'_>,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let count = saturating_usize(region.elements().unwrap_or(u64::MAX));
        let mut elements = VariableElements::filled(&[], count);
        self.each_box(region, &mut |number, from, to| {
            let reader = self.reader(number)?;
            let mut found: Vec<Vec<u8>> = Vec::new();
            match from {
                Some(from) => reader
                    .visit_variable(from, context, &mut |element| found.push(element.to_vec()))
                    .map_err(|error| error.context(self.place_of(number)))?,
                None => {
                    let boxed = saturating_usize(to.elements().unwrap_or(0));
                    found = vec![self.gather.absent_element(reader.fill()?).to_vec(); boxed];
                }
            }
            let strides = self.box_strides(number, from, &to_usize(&to.shape), 1);
            let ranges: Vec<_> = to.shape.iter().map(|&length| 0..length).collect();
            for_each_index(&ranges, |index| {
                let at: isize = index
                    .iter()
                    .zip(&strides)
                    .map(|(&at, stride)| saturating_usize(at).cast_signed() * stride)
                    .sum();
                let along = index.iter().zip(&to.start).zip(&region.shape);
                let flat = along.fold(0, |flat, ((&at, &start), &length)| flat * length + at + start);
                let element = found.get(at.unsigned_abs()).map_or(&[][..], Vec::as_slice);
                elements.set(saturating_usize(flat), element);
                Ok(())
            })
        })?;
        elements.iter().for_each(visit);
        Ok(())
    }

    /// Calls `visit` for boxes that together are a region of the result: with the part, its region (`None` where no source
    /// has it), and the box by its place in `region`.
    fn each_box(&self, region: &Region, visit: &mut BoxVisit<'_>) -> Result<()> {
        if region.is_empty() {
            return Ok(());
        }
        for one in self.parts_of(region) {
            let picks = &self.gather.parts[one.part].picks;
            let stretches: Vec<Vec<Stretch>> = (0..region.shape.len())
                .map(|axis| match self.gather.joined {
                    Some(joined) if joined == axis => stretches(picks, axis, one.positions.iter().copied()),
                    _ => {
                        let order = &self.gather.axes[axis];
                        let places = region.start[axis]..region.start[axis] + region.shape[axis];
                        stretches(picks, axis, places.map(|place| (place, order.pick_at(place).1)))
                    }
                })
                .collect();
            let ranges: Vec<_> = stretches.iter().map(|stretches| 0..stretches.len() as u64).collect();
            for_each_index(&ranges, |index| {
                let chosen: Vec<Stretch> =
                    index.iter().zip(&stretches).map(|(&at, list)| list[saturating_usize(at)]).collect();
                let to = Region {
                    start: chosen.iter().zip(&region.start).map(|(one, origin)| one.start - origin).collect(),
                    shape: chosen.iter().map(|one| one.length).collect(),
                };
                visit(one.part, source_region(picks, &chosen).as_ref(), &to)
            })?;
        }
        Ok(())
    }

    /// Returns the parts that a region of the result touches.
    fn parts_of(&self, region: &Region) -> Vec<PartOfRegion> {
        let Some(axis) = self.gather.joined else {
            return vec![PartOfRegion { part: 0, positions: Vec::new() }];
        };
        let order = &self.gather.axes[axis];
        let mut of_part: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
        for place in region.start[axis]..region.start[axis] + region.shape[axis] {
            let (part, local) = order.pick_at(place);
            of_part.entry(part).or_default().push((place, local));
        }
        of_part.into_iter().map(|(part, positions)| PartOfRegion { part, positions }).collect()
    }
}

/// A part that a region of the result touches.
struct PartOfRegion {
    part: usize,
    /// Its places along the joined axis, with their positions among its picks; none where no axis is joined.
    positions: Vec<(u64, u64)>,
}

impl std::fmt::Debug for GatherReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatherReader").field("path", &self.node.path).finish_non_exhaustive()
    }
}

fn dimensions(picks: &[Pick], axis: usize) -> impl Iterator<Item = (usize, &[u64])> {
    picks.iter().enumerate().filter_map(move |(d, pick)| match pick {
        Pick::Along { axis: along, indices } if *along == axis => Some((d, &**indices)),
        _ => None,
    })
}

/// Returns the dimension of a part that runs along an axis, where it is one alone.
fn only_dimension(picks: &[Pick], axis: usize) -> Option<usize> {
    let mut all = dimensions(picks, axis);
    all.next().filter(|_| all.next().is_none()).map(|(d, _)| d)
}

/// Cuts positions on an axis, with their places among the picks, into stretches.
fn stretches(picks: &[Pick], axis: usize, positions: impl Iterator<Item = (u64, u64)>) -> Vec<Stretch> {
    let along: Vec<&[u64]> = dimensions(picks, axis).map(|(_, indices)| indices).collect();
    let mut all: Vec<Stretch> = Vec::new();
    for (start, local) in positions {
        if let (Some(last), [indices]) = (all.last_mut(), &along[..]) {
            let pick = |local: u64| indices[saturating_usize(local)];
            let (before, here) = (pick(last.local + last.length - 1), pick(local));
            let follows = start == last.start + last.length && local == last.local + last.length;
            let neighbours = before != ABSENT && before.checked_add(1) == Some(here) && here != ABSENT;
            if follows && (neighbours || (before == ABSENT && here == ABSENT)) {
                last.length += 1;
                continue;
            }
        }
        all.push(Stretch { start, length: 1, local });
    }
    all
}

/// Returns the region of a part that stretches stand for; `None` if no source has it.
fn source_region(picks: &[Pick], chosen: &[Stretch]) -> Option<Region> {
    let (mut start, mut shape) = (Vec::with_capacity(picks.len()), Vec::with_capacity(picks.len()));
    for pick in picks {
        let (first, length) = match pick {
            Pick::At(element) => (*element, 1),
            Pick::Along { axis, indices } => {
                (indices[saturating_usize(chosen[*axis].local)], chosen[*axis].length)
            }
        };
        if first == ABSENT {
            return None;
        }
        start.push(first);
        shape.push(length);
    }
    Some(Region { start, shape })
}

/// Returns the boxes of a chunk that stretches stand for, and for each its first position on every axis.
fn boxes(picks: &[Pick], origin: &[u64], stretches: &[Vec<Stretch>]) -> (Boxes, Vec<u64>) {
    let (mut boxes, mut places) = (Boxes::new(picks.len()), Vec::new());
    let ranges: Vec<_> = stretches.iter().map(|stretches| 0..stretches.len() as u64).collect();
    // visiting cannot fail
    let _ = for_each_index::<()>(&ranges, |index| {
        let chosen = |axis: usize| stretches[axis][saturating_usize(index[axis])];
        let start = picks.iter().zip(origin).map(|(pick, origin)| match pick {
            Pick::At(element) => saturating_usize(element - origin),
            Pick::Along { axis, indices } => {
                saturating_usize(indices[saturating_usize(chosen(*axis).local)] - origin)
            }
        });
        let shape = picks.iter().map(|pick| match pick {
            Pick::At(_) => 1,
            Pick::Along { axis, .. } => saturating_usize(chosen(*axis).length),
        });
        boxes.push(start, shape);
        places.extend((0..index.len()).map(|axis| chosen(axis).start));
        Ok(())
    });
    (boxes, places)
}
