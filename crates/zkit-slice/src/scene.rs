//! From arguments to slices: what is gathered from where, and what is said of it. Nothing is written here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::hierarchy::{ArrayNode, GroupNode, Reviewed, groups_above};
use zkit_core::metadata::{ArrayMetadata, DataType, Json, Object, Target, ZarrFormat};
use zkit_core::plan::{Part, Pick, WantedGather, WantedSlice};
use zkit_core::store::{Store, StoreOptions};

use crate::args::{AllowArg, CombinationArgs, DuplicatesArg, SliceArgs};
use crate::axes::AxisKey;
use crate::convert;
use crate::coordinates::{self, Means};
use crate::dimensions::{self, Combination, Dimensions, Drift, Order};
use crate::duplicates::{self, Keep};
use crate::found::Found;
use crate::literals::{Literal, Literals, texts};
use crate::overlap;
use crate::points::{self, Points};
use crate::schema::{self, Allowed};
use crate::selection::{POINT, Selected, Taken, select};
use crate::sources::{self, Source, Wanted};
use crate::stacked;
use crate::variables::{self, Member, Variable};
use crate::wanted::{Gathered, Moulds, Scene, with_coordinates, without_coordinates};

/// The attribute of the result's root that says what was asked for and found.
const ATTRIBUTE: &str = "zkit_slice";

/// What is to be written, and what it is taken from.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The stores that parts lie in, by number.
    pub(crate) sources: Vec<Source>,
    /// The store behind them: arrays that no source holds.
    pub(crate) literals: Store,
    pub(crate) slices: Vec<Slice>,
    /// What all slices of --split take, as one.
    pub(crate) together: Option<Slice>,
}

/// One store that is to be written.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Its name, where there is one for each point.
    pub(crate) name: Option<String>,
    pub(crate) groups: Vec<GroupNode>,
    pub(crate) format: ZarrFormat,
    pub(crate) arrays: Vec<SliceArray>,
    pub(crate) found: Found,
}

/// One array of a slice.
#[derive(Debug)]
pub(crate) struct SliceArray {
    pub(crate) path: String,
    pub(crate) attributes: Object,
    pub(crate) gathered: Gathered,
}

impl SliceArray {
    /// Returns the metadata that the array's own is made of.
    pub(crate) fn model(&self) -> &ArrayMetadata {
        &self.gathered.parts[0].array.metadata
    }
}

impl Slice {
    /// Returns the slice with the format, codec and grid of each array.
    pub(crate) fn wanted(
        self,
        sources: &[Source],
        target_of: impl Fn(&SliceArray) -> Result<Target>,
    ) -> Result<(WantedSlice, Found)> {
        let arrays = self.arrays.into_iter().map(|array| {
            let target = target_of(&array)?;
            let Gathered { shape, dimension_names, parts, joined, absent, .. } = array.gathered;
            Ok(WantedGather {
                path: array.path,
                shape,
                dimension_names,
                attributes: array.attributes,
                parts,
                joined,
                absent,
                stored_bytes: 0,
                target,
            })
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let reviewed = Reviewed::together(self.groups, sources.iter().map(|source| &source.reviewed));
        Ok((WantedSlice { reviewed, format: self.format, arrays }, self.found))
    }
}

/// Opens the sources, compares them, finds what is asked for, and says what is to be gathered.
///
/// Reads metadata, the coordinates that matter, arrays that all sources must hold alike, and what stands twice; no listing.
pub(crate) fn prepare(args: &SliceArgs, options: &StoreOptions, means: Means<'_>) -> Result<Prepared> {
    let points = args.selection.points.as_deref().map(Points::read).transpose()?;
    let sets: Vec<Vec<String>> =
        std::iter::once(args.sources.clone()).chain(args.merge.sets.iter().cloned()).collect();
    let combination = combination(&args.combination);
    let (filter, concat) = (args.select.filter(), combination.concat.as_deref());
    let mut sources = sources::open(&sets, Wanted { filter: &filter, concat }, options)?;
    if let Some(concat) = concat {
        stacked::stack(&mut sources, concat, means)?;
    }
    let coordinates = coordinates::read(&sources, matters(&sources, args, points.as_ref()), means)?;
    let mut dimensions = dimensions::together(&sources, &coordinates, &combination)?;
    drop(coordinates);
    check_duplicates(&sources, &mut dimensions, args.combination.duplicates, means)?;
    let variables = variables::together(&sources, &dimensions, &combination)?;
    let checked = schema::check(&sources, &variables, allowed(&args.combination.allow))?;
    let shared = overlap::check(&sources, &dimensions, &variables, &combination, means)?;
    dimensions.overridden.extend(shared);
    let mut literals = Literals::default();
    let mut converted = HashMap::new();
    for conversion in convert::plan(&sources, &variables, checked.convert, means)? {
        converted.insert(conversion.other, convert::like(&sources, &conversion, &mut literals, means)?);
    }
    let selected = select(&dimensions, &args.selection, points.as_ref())?;
    let mut notes: Vec<String> = checked.notes.into_iter().collect();
    notes.extend(root_drift(&sources));
    if !selected.beside.is_empty() {
        let columns = selected.beside.join(", ");
        notes.push(format!(
            "columns of the points that are no dimensions are kept along `{POINT}`: {columns}"
        ));
    }
    let all = All {
        sources: &sources,
        dimensions: &dimensions,
        variables: &variables,
        converted: &converted,
        notes,
    };
    let (slices, together) = match (&args.selection.split, &points) {
        (Some(template), Some(points)) => {
            let together = all.slice(None, Of::Nothing, &selected, &mut literals)?;
            (all.split(template, points, &selected, &mut literals)?, Some(together))
        }
        _ => {
            let of = points.as_ref().map_or(Of::Nothing, Of::All);
            (vec![all.slice(None, of, &selected, &mut literals)?], None)
        }
    };
    Ok(Prepared { literals: literals.into_store(), slices, together, sources })
}

fn combination(args: &CombinationArgs) -> Combination {
    let drift = |what: AllowArg| if args.allow.contains(&what) { Drift::Allowed } else { Drift::Refused };
    Combination {
        concat: args.concat.clone(),
        order: if args.sort { Order::Ascending } else { Order::AsGiven },
        keep: match args.duplicates {
            DuplicatesArg::Error => Keep::NoneTwice,
            DuplicatesArg::First => Keep::First,
            DuplicatesArg::Last => Keep::Last,
        },
        join: args.join.into(),
        coordinates: drift(AllowArg::Coordinates),
    }
}

fn allowed(allow: &[AllowArg]) -> Allowed {
    let drift = |what: AllowArg| if allow.contains(&what) { Drift::Allowed } else { Drift::Refused };
    Allowed {
        data_types: drift(AllowArg::Dtype),
        units: drift(AllowArg::Units),
        attributes: drift(AllowArg::Attributes),
    }
}

/// Returns which coordinates are read: those of dimensions that several sources have, and that something is asked of.
fn matters<'a>(
    sources: &'a [Source],
    args: &'a SliceArgs,
    points: Option<&'a Points>,
) -> impl Fn(&AxisKey) -> bool + 'a {
    let selection = &args.selection;
    let asked: BTreeSet<&str> =
        selection.sel.iter().chain(&selection.isel).map(|asked| asked.dimension.as_str()).collect();
    // a column of points may mean a dimension by what it runs along
    let all = sources.len() > 1 || points.is_some();
    move |key| all || asked.contains(key.name.as_str()) || args.combination.concat.as_ref() == Some(&key.name)
}

/// Says of values that stand twice whether they hold the same; refuses them unless one is to be taken.
fn check_duplicates(
    sources: &[Source],
    dimensions: &mut Dimensions,
    wish: DuplicatesArg,
    means: Means<'_>,
) -> Result<()> {
    for (key, found) in &mut dimensions.duplicates {
        duplicates::compare(sources, key, found, means)?;
        if wish == DuplicatesArg::Error {
            return Err(duplicates::refused(sources, key, found));
        }
    }
    Ok(())
}

/// Says which attributes of the roots differ: those of the first source are taken.
fn root_drift(sources: &[Source]) -> Option<String> {
    let root = |source: &'_ Source| -> Option<GroupNode> {
        source.hierarchy.groups.iter().find(|group| group.path == "/").cloned()
    };
    let first = root(sources.first()?)?;
    let mut keys: BTreeSet<String> = BTreeSet::new();
    for other in sources[1..].iter().filter_map(root) {
        let all = first.attributes.iter().chain(other.attributes.iter());
        let differ = all.filter(|(key, _)| first.attributes.get(key) != other.attributes.get(key));
        keys.extend(differ.map(|(key, _)| format!("`{key}`")));
    }
    let keys: Vec<String> = keys.into_iter().collect();
    (!keys.is_empty()).then(|| {
        format!(
            "attributes of the root differ between sources, the first one's are kept: {}",
            keys.join(", ")
        )
    })
}

/// What all slices of a run are taken from.
struct All<'a> {
    sources: &'a [Source],
    dimensions: &'a Dimensions,
    variables: &'a [Variable],
    converted: &'a HashMap<Member, ArrayNode>,
    notes: Vec<String>,
}

impl All<'_> {
    /// Returns one slice for each point: the dimensions of points are dropped.
    fn split(
        &self,
        template: &str,
        points: &Points,
        selected: &Selected,
        literals: &mut Literals,
    ) -> Result<Vec<Slice>> {
        let mut slices: Vec<Slice> = Vec::with_capacity(points.len());
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for index in 0..points.len() {
            let name = points.names.as_ref().map(|names| names[index].as_str());
            let store = points::filled(template, index, name).map_err(|what| {
                Error::new(ErrorKind::Usage, format!("could not name the slice of point {index}: {what}"))
                    .with_hint(
                        "write a template such as era5_{name}.zarr, or {index} for points without names",
                    )
            })?;
            if let Some(other) = names.insert(store.clone(), index) {
                let message = format!("points {other} and {index} would both be written to `{store}`");
                return Err(Error::new(ErrorKind::Usage, message).with_hint("use {name} or {index}"));
            }
            let one = of_point(selected, index);
            slices.push(Slice {
                name: Some(store),
                ..self.slice(name, Of::One(points, index), &one, literals)?
            });
        }
        Ok(slices)
    }

    /// Returns one slice; `name` is that of its only point.
    fn slice(
        &self,
        name: Option<&str>,
        of: Of<'_>,
        selected: &Selected,
        literals: &mut Literals,
    ) -> Result<Slice> {
        let scene =
            Scene { sources: self.sources, dimensions: self.dimensions, selected, converted: self.converted };
        let format = self.format();
        let mut moulds = Moulds::default();
        let mut arrays = Vec::with_capacity(self.variables.len() + 1);
        for variable in self.variables {
            let gathered = scene.gather(variable, &mut moulds)?;
            // units of times may be finer than those of the first source
            let first = self.converted.get(&variable.members[0]);
            let first = first.unwrap_or_else(|| variable.first(self.sources));
            let mut attributes = first.metadata.attributes.clone();
            attributes.remove("_ARRAY_DIMENSIONS");
            let mut scalars = gathered.scalars.clone();
            let at_root = variable.path.rsplit_once('/').is_some_and(|(group, _)| group.is_empty());
            if at_root && !scalars.is_empty() {
                scalars.extend(name.map(|_| POINT.to_owned()));
                if !matches!(of, Of::Nothing) {
                    scalars.extend(selected.beside.iter().cloned());
                }
            }
            let attributes = without_coordinates(attributes, &gathered.gained);
            let attributes = with_coordinates(attributes, &scalars);
            arrays.push(SliceArray { path: variable.path.clone(), attributes, gathered });
        }
        let names = match (name, of) {
            (Some(name), _) => Some((vec![name.to_owned()], None)),
            (None, Of::All(Points { names: Some(names), .. })) => {
                Some((names.clone(), Some(names.len() as u64)))
            }
            (None, _) => None,
        };
        if let Some((names, length)) = names {
            arrays.push(self.along_points(POINT, &names, length, format, literals)?);
        }
        for (column, texts, length) in of.columns(&selected.beside) {
            arrays.push(self.along_points(column, texts, length, format, literals)?);
        }
        arrays.sort_by(|one, other| one.path.cmp(&other.path));
        let found = Found::new(self.sources, self.dimensions, selected, self.notes.clone());
        let mut groups = self.groups(&arrays, format);
        match arrays.iter_mut().find(|array| array.path == "/") {
            Some(array) => array.attributes.set(ATTRIBUTE, found.to_json()),
            None => groups[0].attributes.set(ATTRIBUTE, found.to_json()),
        }
        Ok(Slice { name: None, groups, format, arrays, found })
    }

    /// Returns an array that says something of the points, such as their names; without length a scalar.
    fn along_points(
        &self,
        name: &str,
        values: &[String],
        length: Option<u64>,
        format: ZarrFormat,
        literals: &mut Literals,
    ) -> Result<SliceArray> {
        let path = format!("/{name}");
        if self.variables.iter().any(|variable| variable.path == path) {
            let message = format!("the sources have an array `{path}` already, which the points have, too");
            return Err(Error::new(ErrorKind::Usage, message).with_hint(format!("--exclude {name}")));
        }
        let shape: Vec<u64> = length.into_iter().collect();
        let dimension_names: Vec<String> = shape.iter().map(|_| POINT.to_owned()).collect();
        let (data_type, fill_value, bytes) = encoded(name, values, format)?;
        let array = literals.add(Literal {
            path: &path,
            format,
            shape: &shape,
            dimension_names: &dimension_names,
            data_type: &data_type,
            fill_value,
            attributes: Object::default(),
            bytes,
        })?;
        let along = |length: &u64| Pick::Along { axis: 0, indices: (0..*length).collect() };
        let picks = shape.iter().map(along).collect();
        let parts = [Part { store: self.sources.len(), array: Arc::new(array), picks }].into();
        let gathered = Gathered {
            shape,
            dimension_names,
            parts,
            joined: None,
            absent: None,
            scalars: Vec::new(),
            gained: Vec::new(),
        };
        Ok(SliceArray { path, attributes: Object::default(), gathered })
    }

    /// Returns the format of the slice: that of the first source.
    fn format(&self) -> ZarrFormat {
        let hierarchy = &self.sources[0].hierarchy;
        let group = hierarchy.groups.first().map(|group| group.format);
        group
            .or_else(|| self.sources[0].arrays.first().map(|array| array.metadata.format))
            .unwrap_or(ZarrFormat::V3)
    }

    /// Returns the groups that the arrays lie in, the root first; attributes are those of the first source that has them.
    fn groups(&self, arrays: &[SliceArray], format: ZarrFormat) -> Vec<GroupNode> {
        let mut wanted: BTreeSet<String> = BTreeSet::new();
        for array in arrays.iter().filter(|array| array.path != "/") {
            let group = array.path.rsplit_once('/').map_or("", |(group, _)| group);
            wanted.extend(groups_above(group).map(|group| match group {
                "" => "/".to_owned(),
                group => group.to_owned(),
            }));
        }
        let known = |path: &str| {
            let mut groups = self.sources.iter().flat_map(|source| &source.hierarchy.groups);
            groups.find(|group| group.path == path).cloned()
        };
        wanted.into_iter().map(|path| known(&path).unwrap_or_else(|| new_group(path, format))).collect()
    }
}

/// Which points a slice is of.
#[derive(Clone, Copy)]
enum Of<'a> {
    /// None, or all of them without what the file says of each.
    Nothing,
    All(&'a Points),
    One(&'a Points, usize),
}

impl<'a> Of<'a> {
    /// Returns columns of the points by their names: values, and how many there are along the points.
    fn columns(self, names: &'a [String]) -> impl Iterator<Item = (&'a str, &'a [String], Option<u64>)> {
        names.iter().filter_map(move |name| {
            let of = |points: &'a Points| {
                points.columns.iter().find(|(column, _)| column == name).map(|(_, texts)| texts.as_slice())
            };
            Some(match self {
                Self::Nothing => return None,
                Self::All(points) => (name.as_str(), of(points)?, Some(points.len() as u64)),
                Self::One(points, index) => (name.as_str(), of(points)?.get(index..=index)?, None),
            })
        })
    }
}

/// Returns values of points as elements: whole numbers and numbers as such, names and everything else as texts.
fn encoded(name: &str, values: &[String], format: ZarrFormat) -> Result<(DataType, Json, Vec<u8>)> {
    // 007 is the name of a station
    let is_name = |text: &String| {
        let digits = text.trim_start_matches('-');
        digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.")
    };
    let numbers = name != POINT && !values.iter().any(is_name);
    let whole: Option<Vec<i64>> = values.iter().map(|text| text.parse().ok()).collect();
    if let Some(whole) = whole.filter(|_| numbers) {
        let fill = if format == ZarrFormat::V2 { Json::Null } else { Json::number(0) };
        return Ok((DataType::Int(8), fill, whole.into_iter().flat_map(i64::to_le_bytes).collect()));
    }
    let floats: Option<Vec<f64>> = values.iter().map(|text| text.parse().ok()).collect();
    if let Some(floats) = floats.filter(|_| numbers) {
        let bytes = floats.into_iter().flat_map(f64::to_le_bytes).collect();
        return Ok((DataType::Float(8), Json::string("NaN"), bytes));
    }
    Ok((DataType::String, Json::string(""), texts(values.iter().map(String::as_str))?))
}

/// Returns a group that no source has: arrays side by side without metadata around them.
fn new_group(path: String, format: ZarrFormat) -> GroupNode {
    let mut document = Object::from_iter([("zarr_format", Json::number(format.number()))]);
    if format == ZarrFormat::V3 {
        document.push("node_type", Json::string("group"));
        document.push("attributes", Json::Null);
    }
    GroupNode { path, format, attributes: Object::default(), document }
}

/// Returns what is taken for one of the points: its dimensions are dropped.
fn of_point(selected: &Selected, index: usize) -> Selected {
    let taken = selected.taken.iter().map(|taken| match taken {
        Some(Taken::Points(positions)) => Some(Taken::One(positions[index])),
        other => other.clone(),
    });
    let answers = selected.answers.iter().map(|answer| {
        let mut answer = answer.clone();
        let points =
            selected.points.is_some_and(|points| answer.count == points && answer.found.len() == points);
        if points && let Some(found) = answer.found.get(index).cloned() {
            answer.asked.clone_from(&found.asked);
            answer.taken.clone_from(&found.value);
            answer.count = 1;
            answer.notes.clear();
            answer.found = vec![found];
        }
        answer
    });
    let beside = selected.beside.clone();
    Selected { taken: taken.collect(), points: None, answers: answers.collect(), beside }
}
