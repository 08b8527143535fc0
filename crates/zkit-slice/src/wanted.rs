//! From what is taken to what is gathered: of each array its parts, the picks of each, and where they lie.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::grid::Grid;
use zkit_core::hierarchy::ArrayNode;
use zkit_core::metadata::{DataType, Json, Object, ZarrFormat};
use zkit_core::plan::{ABSENT, Joined, Part, Pick};

use crate::dimensions::{Cell, Dimensions, Place};
use crate::overlap::partial;
use crate::schema::COORDINATES;
use crate::selection::{POINT, Selected, Taken};
use crate::sources::Source;
use crate::variables::{Member, Variable, is_coordinate_of, node, shared};

/// What one array is put together of.
#[derive(Debug, Clone)]
pub(crate) struct Gathered {
    pub(crate) shape: Vec<u64>,
    pub(crate) dimension_names: Vec<String>,
    pub(crate) parts: Arc<[Part]>,
    pub(crate) joined: Option<Joined>,
    /// The element that stands where no source has one; `None` for the fill value.
    pub(crate) absent: Option<Vec<u8>>,
    /// The names of coordinates that lost their dimension, or lie along the points.
    pub(crate) scalars: Vec<String>,
    /// The names of dimensions that the first source does not have.
    pub(crate) gained: Vec<String>,
}

/// Everything that gathering looks at.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) sources: &'a [Source],
    pub(crate) dimensions: &'a Dimensions,
    pub(crate) selected: &'a Selected,
    /// Arrays that were converted, and stand for those of the sources.
    pub(crate) converted: &'a HashMap<Member, ArrayNode>,
}

/// One axis of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultAxis {
    /// That of a dimension.
    Of(usize),
    /// That of the points.
    Points,
}

/// What is shared by arrays of the same dimensions in the same sources.
struct Mould {
    axes: Vec<ResultAxis>,
    shape: Vec<u64>,
    parts: Vec<MouldPart>,
    joined: Option<Joined>,
    /// Whether some elements come from nowhere.
    holes: bool,
}

/// What one part of an array is, but for the array.
struct MouldPart {
    /// The position of its member.
    member: usize,
    picks: Arc<[Pick]>,
    of: PartOf,
}

/// What the picks of a part are of.
enum PartOf {
    /// The array of the member.
    Member,
    /// No array: along a dimension that the member does not have, nothing of it can stand for what is nowhere.
    Nowhere,
}

/// Arrays of the same dimensions have the same picks: they are worked out once.
#[derive(Default)]
pub(crate) struct Moulds(HashMap<MouldKey, Arc<Mould>>);

/// Of an array its dimensions, those of its members in their order, and their sources.
type MouldKey = (Vec<usize>, Vec<Vec<usize>>, Vec<usize>);

impl Scene<'_> {
    /// Returns what a variable is put together of.
    ///
    /// Errors: `Unsupported` where elements come from nowhere and the array has no value that means missing, `Usage` where a
    /// dimension that is selected along stands twice.
    pub(crate) fn gather(&self, variable: &Variable, moulds: &mut Moulds) -> Result<Gathered> {
        let orders: Vec<Vec<usize>> =
            variable.members.iter().map(|&member| self.dimensions_of(member)).collect();
        let sources: Vec<usize> = variable.members.iter().map(|member| member.source).collect();
        let key = (variable.dimensions.clone(), orders, sources);
        let mould = match moulds.0.get(&key) {
            Some(mould) => Arc::clone(mould),
            None => {
                let mould = Arc::new(self.mould(variable, &key.1)?);
                moulds.0.insert(key, Arc::clone(&mould));
                mould
            }
        };
        let absent = if mould.holes { self.missing(variable)? } else { None };
        let part = |part: &MouldPart| {
            let member = variable.members[part.member];
            let (store, array) = match (&part.of, self.converted.get(&member)) {
                (PartOf::Nowhere, _) => (member.source, nowhere(node(self.sources, member))?),
                (PartOf::Member, Some(array)) => (self.sources.len(), Arc::new(array.clone())),
                (PartOf::Member, None) => (member.source, Arc::clone(shared(self.sources, member))),
            };
            Ok(Part { store, array, picks: Arc::clone(&part.picks) })
        };
        Ok(Gathered {
            shape: mould.shape.clone(),
            dimension_names: mould.axes.iter().map(|axis| self.name_of(*axis)).collect(),
            parts: mould.parts.iter().map(part).collect::<Result<_>>()?,
            joined: mould.joined.clone(),
            absent,
            scalars: self.scalars(variable),
            gained: self.gained(variable, &mould.axes),
        })
    }

    fn gained(&self, variable: &Variable, axes: &[ResultAxis]) -> Vec<String> {
        let new = |axis: &&ResultAxis| match axis {
            ResultAxis::Of(dimension) => !self.is_stored(*dimension, variable.members[0].source),
            ResultAxis::Points => false,
        };
        axes.iter().filter(new).map(|axis| self.name_of(*axis)).collect()
    }

    fn name_of(&self, axis: ResultAxis) -> String {
        match axis {
            ResultAxis::Of(dimension) => self.dimensions.all[dimension].key.name.clone(),
            ResultAxis::Points => POINT.to_owned(),
        }
    }

    fn dimensions_of(&self, member: Member) -> Vec<usize> {
        let keys = self.sources[member.source].axes.keys_of(member.array);
        keys.map(|key| self.dimensions.position(key).expect("the dimensions of all sources are put together"))
            .collect()
    }

    /// Returns the axes of the result, in the order of the array; that of points where the first of theirs is.
    fn axes_of(&self, variable: &Variable) -> Result<Vec<ResultAxis>> {
        let mut axes = Vec::with_capacity(variable.dimensions.len());
        for (at, &dimension) in variable.dimensions.iter().enumerate() {
            let taken = &self.selected.taken[dimension];
            let joined = matches!(self.dimensions.all[dimension].place, Place::Joined(_));
            if (taken.is_some() || joined) && variable.dimensions[..at].contains(&dimension) {
                let key = &self.dimensions.all[dimension].key;
                let message = format!("the dimension {key} stands twice in `{}`", variable.path);
                return Err(Error::new(ErrorKind::Usage, message).with_hint("--exclude the array"));
            }
            match taken {
                Some(Taken::One(_)) => {}
                Some(Taken::Points(_)) if axes.contains(&ResultAxis::Points) => {}
                Some(Taken::Points(_)) => axes.push(ResultAxis::Points),
                Some(Taken::Some(_)) | None => axes.push(ResultAxis::Of(dimension)),
            }
        }
        Ok(axes)
    }

    fn length_of(&self, axis: ResultAxis) -> usize {
        match axis {
            ResultAxis::Points => self.selected.points.unwrap_or(0),
            ResultAxis::Of(dimension) => match &self.selected.taken[dimension] {
                Some(taken) => taken.positions().len(),
                None => self.dimensions.all[dimension].length,
            },
        }
    }

    /// Returns the position along a dimension of an element of its axis.
    fn position(&self, dimension: usize, element: usize) -> usize {
        match &self.selected.taken[dimension] {
            Some(Taken::One(position)) => *position,
            Some(Taken::Some(positions) | Taken::Points(positions)) => positions[element],
            None => element,
        }
    }

    fn mould(&self, variable: &Variable, orders: &[Vec<usize>]) -> Result<Mould> {
        let axes = self.axes_of(variable)?;
        let shape = axes.iter().map(|&axis| self.length_of(axis) as u64).collect();
        let mut mould = Mould { axes, shape, parts: Vec::new(), joined: None, holes: false };
        let split = match variable.joined(self.dimensions) {
            Some(dimension) => Some(dimension),
            // the values of an aligned dimension: each from the first source that has it
            None if is_coordinate_of(self.dimensions, variable) => Some(variable.dimensions[0]),
            // what several sources hold in part: each place from the first source that has it
            None if variable.members.len() > 1 => partial(self.dimensions, variable).first().copied(),
            None => None,
        };
        match split {
            Some(dimension) => self.split(variable, orders, dimension, &mut mould),
            None => {
                let picks = self.picks(variable.members[0].source, &orders[0], &mould, None);
                mould.holes = holes(&picks);
                mould.parts.push(MouldPart { member: 0, picks, of: PartOf::Member });
            }
        }
        Ok(mould)
    }

    /// Divides an array among the sources that hold the positions of one dimension.
    fn split(&self, variable: &Variable, orders: &[Vec<usize>], dimension: usize, mould: &mut Mould) {
        let axis = self.axis_of(dimension, &mould.axes);
        let elements = axis.map_or(1, |axis| self.length_of(mould.axes[axis]));
        let mut of_members: BTreeMap<Option<usize>, Vec<(usize, Cell)>> = BTreeMap::new();
        for element in 0..elements {
            let cell = self.cell(variable, dimension, self.position(dimension, element));
            let (member, cell) = match cell {
                Some((member, cell)) => (Some(member), cell),
                None => (None, Cell { source: usize::MAX, index: usize::MAX }),
            };
            of_members.entry(member).or_default().push((element, cell));
        }
        if of_members.is_empty() {
            // of no elements at all: the array is still one, with the metadata of its first member
            of_members.insert(Some(0), Vec::new());
        }
        let mut positions = Vec::with_capacity(of_members.len());
        // the first part is one with elements: its metadata is taken over
        let first = of_members.keys().flatten().next().copied().unwrap_or(0);
        let (nowhere, somewhere): (Vec<_>, Vec<_>) =
            of_members.into_iter().partition(|(member, _)| member.is_none());
        for (member, cells) in somewhere.into_iter().chain(nowhere) {
            let at = member.unwrap_or(first);
            let source = variable.members[at].source;
            let (picks, of) = match member.is_none() && !self.is_stored(dimension, source) {
                true => (nowhere_picks(axis, cells.len()), PartOf::Nowhere),
                false => (self.picks(source, &orders[at], mould, Some((dimension, &cells))), PartOf::Member),
            };
            mould.holes |= holes(&picks);
            mould.parts.push(MouldPart { member: at, picks, of });
            positions.push(cells.iter().map(|(element, _)| *element as u64).collect::<Arc<[u64]>>());
        }
        if let Some(axis) = axis
            && mould.parts.len() > 1
        {
            mould.joined = Some(Joined { axis, positions });
        }
    }

    /// Returns which member holds a position of a dimension, and where; the first that has it.
    fn cell(&self, variable: &Variable, dimension: usize, position: usize) -> Option<(usize, Cell)> {
        let mut members = variable.members.iter().enumerate();
        match &self.dimensions.all[dimension].place {
            Place::Joined(sets) => sets.iter().flatten().find_map(|cells| {
                let cell = cells[position]?;
                let member = variable.members.iter().position(|member| member.source == cell.source)?;
                Some((member, cell))
            }),
            Place::Aligned(held) => members.find_map(|(at, member)| {
                let index = held[member.source].as_ref()?.at(position)?;
                Some((at, Cell { source: member.source, index }))
            }),
        }
    }

    fn axis_of(&self, dimension: usize, axes: &[ResultAxis]) -> Option<usize> {
        let wanted = match self.selected.taken[dimension] {
            Some(Taken::One(_)) => return None,
            Some(Taken::Points(_)) => ResultAxis::Points,
            Some(Taken::Some(_)) | None => ResultAxis::Of(dimension),
        };
        axes.iter().position(|axis| *axis == wanted)
    }

    /// Returns the picks of one part, along the dimensions in its own order; `cells` are the elements that it holds along
    /// the dimension that the array is divided along, and where.
    fn picks(
        &self,
        source: usize,
        order: &[usize],
        mould: &Mould,
        cells: Option<(usize, &[(usize, Cell)])>,
    ) -> Arc<[Pick]> {
        let index_of = |at: Option<usize>| at.filter(|&at| at != usize::MAX).map_or(ABSENT, |at| at as u64);
        let mut seen = vec![0usize; mould.axes.len()];
        let own = order.iter().filter(|&&dimension| self.is_stored(dimension, source));
        own.map(|&dimension| {
            if let (Some(Taken::One(position)), held) =
                (&self.selected.taken[dimension], self.held(dimension, source))
            {
                return match cells {
                    Some((divided, cells)) if divided == dimension => {
                        Pick::At(index_of(cells.first().map(|(_, cell)| cell.index)))
                    }
                    _ => Pick::At(index_of(held(*position))),
                };
            }
            let wanted = self.axis_of(dimension, &mould.axes).unwrap_or(0);
            // a dimension that stands twice has two axes
            let twins: Vec<usize> =
                (0..mould.axes.len()).filter(|&axis| mould.axes[axis] == mould.axes[wanted]).collect();
            let axis = match mould.axes[wanted] {
                ResultAxis::Points => wanted,
                ResultAxis::Of(_) => twins[seen[wanted].min(twins.len() - 1)],
            };
            seen[wanted] += 1;
            let divided_axis = cells.and_then(|(divided, _)| self.axis_of(divided, &mould.axes));
            let indices: Arc<[u64]> = match cells {
                Some((divided, cells)) if divided == dimension => {
                    cells.iter().map(|(_, cell)| index_of(Some(cell.index))).collect()
                }
                // points share their axis: only those that the part holds
                Some((_, cells)) if divided_axis == Some(axis) => {
                    let held = self.held(dimension, source);
                    cells
                        .iter()
                        .map(|(element, _)| index_of(held(self.position(dimension, *element))))
                        .collect()
                }
                _ => {
                    let held = self.held(dimension, source);
                    (0..self.length_of(mould.axes[axis]))
                        .map(|element| index_of(held(self.position(dimension, element))))
                        .collect()
                }
            };
            Pick::Along { axis, indices }
        })
        .collect()
    }

    /// Returns whether arrays of a source have a dimension themselves.
    fn is_stored(&self, dimension: usize, source: usize) -> bool {
        self.sources[source].axes.is_stored(&self.dimensions.all[dimension].key)
    }

    /// Returns where positions of a dimension lie in a source.
    fn held(&self, dimension: usize, source: usize) -> impl Fn(usize) -> Option<usize> + '_ {
        move |position| self.dimensions.all[dimension].held(self.sources, source, position)
    }

    /// Returns the element that stands for what no source has; `None` where the fill value says it.
    ///
    /// Errors: `Unsupported` for arrays without a value that means missing.
    fn missing(&self, variable: &Variable) -> Result<Option<Vec<u8>>> {
        let metadata = &variable.first(self.sources).metadata;
        let marked = match metadata.format {
            ZarrFormat::V2 => metadata.fill_value.is_known(),
            ZarrFormat::V3 => metadata.attributes.get("_FillValue").is_some(),
        };
        match metadata.data_type {
            DataType::Float(2) => Ok(Some(half_nan())),
            DataType::Float(4) => Ok(Some(f32::NAN.to_le_bytes().to_vec())),
            DataType::Float(8) => Ok(Some(f64::NAN.to_le_bytes().to_vec())),
            DataType::String => Ok(None),
            DataType::Time { .. } => Ok(Some(i64::MIN.to_le_bytes().to_vec())),
            _ if marked => Ok(None),
            _ => {
                let message = format!(
                    "`{}` ({}) is not in all sources, and has no fill value that means missing",
                    variable.path, metadata.data_type
                );
                Err(Error::new(ErrorKind::Unsupported, message)
                    .with_hint("pass --join inner, or --exclude it"))
            }
        }
    }

    /// Returns the names of the coordinates that describe a variable and are no dimension of it any more.
    fn scalars(&self, variable: &Variable) -> Vec<String> {
        let group = variable.path.rsplit_once('/').map_or("", |(group, _)| group);
        if is_coordinate_of(self.dimensions, variable) {
            return Vec::new();
        }
        let mut names = Vec::new();
        for &dimension in &variable.dimensions {
            let of = &self.dimensions.all[dimension];
            let lost = matches!(self.selected.taken[dimension], Some(Taken::One(_) | Taken::Points(_)));
            if lost && of.coordinate.is_some() && of.key.scope == group && !names.contains(&of.key.name) {
                names.push(of.key.name.clone());
            }
        }
        names
    }
}

/// Returns picks of an array of one dimension that is nowhere.
fn nowhere_picks(axis: Option<usize>, count: usize) -> Arc<[Pick]> {
    [match axis {
        Some(axis) => Pick::Along { axis, indices: vec![ABSENT; count].into() },
        None => Pick::At(ABSENT),
    }]
    .into()
}

/// Returns an array of one dimension and the type of another, of which nothing is read.
fn nowhere(model: &ArrayNode) -> Result<Arc<ArrayNode>> {
    let refused = |message: String| {
        Error::new(ErrorKind::Unsupported, format!("could not fill up `{}`: {message}", model.path))
    };
    let grid = Grid::regular(&[1], &[1]).map_err(refused)?;
    let attributes = model.metadata.attributes.clone();
    let metadata =
        model.metadata.gathered(&model.path, grid, &[POINT.to_owned()], attributes).map_err(refused)?;
    Ok(Arc::new(ArrayNode { path: model.path.clone(), metadata }))
}

/// Returns NaN in half precision. Source: IEEE 754, binary16.
fn half_nan() -> Vec<u8> {
    0x7e00u16.to_le_bytes().to_vec()
}

fn holes(picks: &[Pick]) -> bool {
    picks.iter().any(|pick| match pick {
        Pick::At(index) => *index == ABSENT,
        Pick::Along { indices, .. } => indices.contains(&ABSENT),
    })
}

/// Returns attributes without some names in `coordinates`.
pub(crate) fn without_coordinates(mut attributes: Object, names: &[String]) -> Object {
    let Some(text) = attributes.get(COORDINATES).and_then(Json::as_str).map(str::to_owned) else {
        return attributes;
    };
    let left: Vec<&str> =
        text.split_whitespace().filter(|word| names.iter().all(|name| name != word)).collect();
    if left.is_empty() {
        attributes.remove(COORDINATES);
    } else if left.len() < text.split_whitespace().count() {
        attributes.set(COORDINATES, Json::string(left.join(" ")));
    }
    attributes
}

/// Returns attributes with more names in `coordinates`, by which readers know coordinates that are no dimensions.
pub(crate) fn with_coordinates(mut attributes: Object, names: &[String]) -> Object {
    if names.is_empty() {
        return attributes;
    }
    let text = attributes.get(COORDINATES).and_then(Json::as_str).unwrap_or_default().to_owned();
    let known: Vec<&str> = text.split_whitespace().collect();
    let more = names.iter().map(String::as_str).filter(|name| !known.contains(name));
    let all: Vec<&str> = known.iter().copied().chain(more).collect();
    attributes.set(COORDINATES, Json::string(all.join(" ")));
    attributes
}
