//! The dimensions of all sources together, before anything is selected: how long each is, its values, and where each of
//! its positions lies in which source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::select::{Coordinate, Drift as Apart, DriftKind, Join, Rounding, align, concatenate};

use crate::axes::{AxisKey, names_in_words};
use crate::coordinates::Coordinates;
use crate::duplicates::{Duplicate, Keep, without_repeats};
use crate::sources::Source;
use crate::stacked::{names_of_scalar_coordinates, names_of_scalars};

/// Stores that a command in a hint names.
const STORES_SHOWN: usize = 4;

/// How sources are put together.
#[derive(Debug, Clone)]
pub(crate) struct Combination {
    /// The dimension along which sources lie behind each other.
    pub(crate) concat: Option<String>,
    pub(crate) order: Order,
    pub(crate) keep: Keep,
    pub(crate) join: Join,
    /// Whether coordinates that differ value by value are those of the first source.
    pub(crate) coordinates: Drift,
}

/// The order along the dimension that sources are put together along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    AsGiven,
    Ascending,
}

/// What a difference between sources is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drift {
    Refused,
    Allowed,
}

/// One dimension of all sources together.
#[derive(Debug)]
pub(crate) struct Dimension {
    pub(crate) key: AxisKey,
    pub(crate) length: usize,
    pub(crate) coordinate: Option<Coordinate>,
    pub(crate) place: Place,
}

impl Dimension {
    /// Returns where a position lies in a source.
    pub(crate) fn held(&self, sources: &[Source], source: usize, position: usize) -> Option<usize> {
        match &self.place {
            Place::Aligned(held) => held[source].as_ref()?.at(position),
            Place::Joined(sets) => {
                let cell = sets[sources[source].set].as_ref()?[position]?;
                (cell.source == source).then_some(cell.index)
            }
        }
    }
}

/// Where the positions of a dimension lie.
#[derive(Debug)]
pub(crate) enum Place {
    /// In every source that has it, by source: each position, or those that it has.
    Aligned(Vec<Option<Held>>),
    /// Each in one source of a set, by set.
    Joined(Vec<Option<Vec<Option<Cell>>>>),
}

/// Which positions of a dimension one source holds, and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Held {
    /// All of them, in that order.
    AsIs,
    /// For each position where it lies in the source, if it does.
    Listed(Arc<[Option<usize>]>),
}

impl Held {
    /// Returns where a position lies in the source.
    pub(crate) fn at(&self, position: usize) -> Option<usize> {
        match self {
            Self::AsIs => Some(position),
            Self::Listed(list) => list[position],
        }
    }

    /// Returns the same for positions that are looked up first.
    fn after(&self, first: Option<&Arc<[Option<usize>]>>) -> Self {
        match (first, self) {
            (None, held) => held.clone(),
            (Some(first), Self::AsIs) => Self::Listed(Arc::clone(first)),
            (Some(first), Self::Listed(list)) => Self::Listed(first.iter().map(|at| list[(*at)?]).collect()),
        }
    }
}

/// A position in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) source: usize,
    pub(crate) index: usize,
}

/// All dimensions, and the values of the joined ones that stood more than once.
#[derive(Debug)]
pub(crate) struct Dimensions {
    pub(crate) all: Vec<Dimension>,
    pub(crate) duplicates: Vec<(AxisKey, Vec<Duplicate>)>,
    /// Coordinates that differ by rounding, and were taken from the first source.
    pub(crate) overridden: Vec<Overridden>,
    /// The names of arrays that are no dimensions, and the dimensions that each is along.
    pub(crate) along: BTreeMap<String, Vec<String>>,
}

/// An array that differs between sources, and was taken from the first one because the user said so.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Overridden {
    pub(crate) path: String,
    /// Where the values that were taken come from, and where those that were not.
    pub(crate) taken: String,
    pub(crate) passed_over: String,
    /// How many values differ.
    pub(crate) count: usize,
    /// By how much at most, where that was measured: in the unit of the values (nanoseconds for times), and in words.
    pub(crate) largest: Option<(f64, String)>,
}

impl Overridden {
    /// Returns what was taken of a coordinate rather than another one's values.
    pub(crate) fn of(coordinate: &Coordinate, apart: &Apart, taken: &str, passed_over: &str) -> Self {
        Self {
            path: coordinate.path.clone(),
            taken: taken.to_owned(),
            passed_over: passed_over.to_owned(),
            count: apart.count,
            largest: apart.largest.map(|largest| (largest, coordinate.show_distance(largest))),
        }
    }
}

/// Several coordinates of one dimension, aligned.
#[derive(Default)]
struct Alignment {
    length: usize,
    coordinate: Option<Coordinate>,
    /// For each where it holds the values; `None` where it has them all in that order.
    held: Vec<Option<Arc<[Option<usize>]>>>,
    overridden: Vec<Overridden>,
}

impl Dimensions {
    /// Returns the position of a dimension by key.
    pub(crate) fn position(&self, key: &AxisKey) -> Option<usize> {
        self.all.binary_search_by(|dimension| dimension.key.cmp(key)).ok()
    }
}

/// A dimension of the sources of one set.
struct OfSet {
    set: usize,
    length: usize,
    coordinate: Option<Coordinate>,
    place: PlaceInSet,
}

enum PlaceInSet {
    Aligned(Vec<(usize, Held)>),
    Joined(Vec<Cell>),
}

/// Puts the dimensions of all sources together; duplicates that are not allowed are left to the caller.
///
/// Errors: `Usage` where sources need a dimension to lie behind each other along, or one is not there; `Mismatch` where
/// coordinates differ and the combination does not say what then.
pub(crate) fn together(
    sources: &[Source],
    coordinates: &Coordinates,
    combination: &Combination,
) -> Result<Dimensions> {
    check_concat(sources, coordinates, combination)?;
    let keys: BTreeSet<&AxisKey> =
        sources.iter().flat_map(|source| source.axes.axes.iter().map(|axis| &axis.key)).collect();
    let sets = sources.last().map_or(0, |source| source.set + 1);
    let mut dimensions = Dimensions {
        all: Vec::with_capacity(keys.len()),
        duplicates: Vec::new(),
        overridden: Vec::new(),
        along: along(sources),
    };
    for key in keys {
        let mut of_sets = Vec::new();
        for set in 0..sets {
            let members: Vec<usize> = (0..sources.len())
                .filter(|&number| sources[number].set == set && sources[number].axes.get(key).is_some())
                .collect();
            if members.is_empty() {
                continue;
            }
            let work = Work { sources, coordinates, combination, key };
            let (of_set, duplicates) = match combination.concat.as_deref() == Some(key.name.as_str()) {
                true => work.joined(set, &members)?,
                false => {
                    let (of_set, overridden) = work.aligned(set, &members)?;
                    dimensions.overridden.extend(overridden);
                    (of_set, Vec::new())
                }
            };
            of_sets.push(of_set);
            if !duplicates.is_empty() {
                dimensions.duplicates.push((key.clone(), duplicates));
            }
        }
        let work = Work { sources, coordinates, combination, key };
        let (dimension, overridden) = work.of_all(of_sets, sets)?;
        dimensions.all.push(dimension);
        dimensions.overridden.extend(overridden);
    }
    Ok(dimensions)
}

/// Returns the names of arrays of one or two dimensions that are none themselves, with their dimensions.
fn along(sources: &[Source]) -> BTreeMap<String, Vec<String>> {
    let mut along = BTreeMap::new();
    for source in sources {
        for &array in &source.taken {
            let name = source.array(array).path.rsplit('/').next().unwrap_or_default();
            let names: Vec<String> = source.axes.keys_of(array).map(|key| key.name.clone()).collect();
            if (1..=2).contains(&names.len()) && names.iter().all(|dimension| dimension != name) {
                along.entry(name.to_owned()).or_insert(names);
            }
        }
    }
    along
}

/// Refuses several sources without a dimension to lie behind each other along.
fn check_concat(sources: &[Source], coordinates: &Coordinates, combination: &Combination) -> Result<()> {
    let first_set = sources.iter().filter(|source| source.set == 0).count();
    let several = first_set > 1 || sources.windows(2).any(|pair| pair[0].set == pair[1].set);
    match &combination.concat {
        None if !several && combination.keep != Keep::NoneTwice => {
            let axes = sources.first().map(|source| source.axes.axes.as_slice()).unwrap_or_default();
            let with_values: Vec<&AxisKey> =
                axes.iter().filter(|axis| axis.coordinate.is_some()).map(|axis| &axis.key).collect();
            let message = "--duplicates needs the dimension whose values are to appear once";
            let hint = format!(
                "pass --concat DIM --duplicates {}; dimensions with values are {}",
                combination.keep.word(),
                names_in_words(with_values)
            );
            Err(Error::new(ErrorKind::Usage, message).with_hint(hint))
        }
        None if several => {
            let set =
                sources.windows(2).find(|pair| pair[0].set == pair[1].set).map_or(0, |pair| pair[0].set);
            let mut candidates = candidates(sources, coordinates, set);
            if candidates.is_empty() {
                let first = sources.iter().find(|source| source.set == set);
                let first = first.map(names_of_scalar_coordinates).unwrap_or_default();
                candidates.extend(first.into_iter().map(str::to_owned));
            }
            let concat = match candidates.is_empty() {
                true => None,
                false => Some(concat_in_words(sources, &candidates, combination.keep)),
            };
            if first_set == 1 {
                return Err(merged_together(sources, set, concat));
            }
            let message = format!(
                "could not combine {first_set} sources without a dimension to concatenate them along"
            );
            let hint = concat.unwrap_or_else(|| {
                "to add the variables of other stores, pass --merge-with once for each".to_owned()
            });
            Err(Error::new(ErrorKind::Usage, message).with_hint(hint))
        }
        None => Ok(()),
        Some(name) => {
            let has = |source: &Source| source.axes.axes.iter().any(|axis| axis.key.name == *name);
            let lacking = sources.iter().find(|source| source.set == 0 && !has(source));
            let Some(lacking) = lacking else { return Ok(()) };
            let names = names_in_words(lacking.axes.axes.iter().map(|axis| &axis.key));
            let scalars: Vec<&str> = names_of_scalars(lacking).into_iter().collect();
            let message = format!(
                "{} has no dimension `{name}` to lie behind others along, and no scalar of that name",
                lacking.url()
            );
            let hint = match scalars.is_empty() {
                true => format!("its dimensions are {names}"),
                false => format!("its dimensions are {names}; its scalars are {}", scalars.join(", ")),
            };
            Err(Error::new(ErrorKind::Usage, message).with_hint(hint))
        }
    }
}

/// Says how --concat is passed; where --duplicates is there without it, as the whole command.
fn concat_in_words(sources: &[Source], candidates: &[String], keep: Keep) -> String {
    if keep == Keep::NoneTwice {
        return format!("pass --concat {}", candidates.join(" or --concat "));
    }
    let stores: Vec<&str> =
        sources.iter().filter(|source| source.set == 0).map(|source| source.url()).collect();
    let stores = if stores.len() > STORES_SHOWN { "STORE...".to_owned() } else { stores.join(" ") };
    let or = match candidates {
        [_] | [] => String::new(),
        [_, others @ ..] => format!(" (or --concat {})", others.join(" or --concat ")),
    };
    let concat = candidates.first().map_or("DIM", String::as_str);
    format!("zkit slice {stores} --concat {concat} --duplicates {} --to DESTINATION{or}", keep.word())
}

/// Returns the error of several stores of one --merge-with, without a dimension to concatenate them along.
fn merged_together(sources: &[Source], set: usize, concat: Option<String>) -> Error {
    let urls: Vec<&str> =
        sources.iter().filter(|source| source.set == set).map(|source| source.url()).collect();
    let message = match urls[..] {
        [one, other] => format!("could not concatenate {one} and {other}, which one --merge-with names"),
        _ => format!(
            "could not concatenate {} and {} more stores, which one --merge-with names",
            urls.first().copied().unwrap_or_default(),
            urls.len().saturating_sub(1)
        ),
    };
    let apart = "to add the variables of each, pass one --merge-with for each store";
    let hint = concat.map_or_else(|| apart.to_owned(), |concat| format!("{concat}; {apart}"));
    Error::new(ErrorKind::Usage, format!("{message}: there is no --concat")).with_hint(hint)
}

/// Returns the dimensions whose values are not the same in all sources of a set.
fn candidates(sources: &[Source], coordinates: &Coordinates, set: usize) -> Vec<String> {
    let Some(at) = sources.iter().position(|source| source.set == set) else { return Vec::new() };
    let first = &sources[at];
    let differs = |key: &AxisKey| {
        let one = coordinates.get(&(at, key.clone()));
        sources.iter().enumerate().skip(at + 1).filter(|(_, source)| source.set == set).any(|(number, _)| {
            match (one, coordinates.get(&(number, key.clone()))) {
                (Some(one), Some(other)) => !one.same_values(other),
                _ => false,
            }
        })
    };
    let axes = first.axes.axes.iter().map(|axis| &axis.key);
    let names: BTreeSet<String> = axes.filter(|key| differs(key)).map(|key| key.name.clone()).collect();
    names.into_iter().collect()
}

/// What putting one dimension together needs.
struct Work<'a> {
    sources: &'a [Source],
    coordinates: &'a Coordinates,
    combination: &'a Combination,
    key: &'a AxisKey,
}

impl Work<'_> {
    fn length(&self, source: usize) -> usize {
        let length = self.sources[source].axes.get(self.key).map_or(0, |axis| axis.length);
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    fn coordinate(&self, source: usize) -> Option<&Coordinate> {
        self.coordinates.get(&(source, self.key.clone()))
    }

    /// Puts the sources of a set behind each other.
    fn joined(&self, set: usize, members: &[usize]) -> Result<(OfSet, Vec<Duplicate>)> {
        let mut cells = Vec::new();
        for &source in members {
            cells.extend((0..self.length(source)).map(|index| Cell { source, index }));
        }
        let held: Vec<&Coordinate> = members.iter().filter_map(|&source| self.coordinate(source)).collect();
        if held.is_empty() {
            if self.combination.order == Order::Ascending {
                let message = format!("the dimension {} has no coordinate to be sorted by", self.key);
                return Err(Error::new(ErrorKind::Usage, message).with_hint("leave --sort out"));
            }
            let of_set =
                OfSet { set, length: cells.len(), coordinate: None, place: PlaceInSet::Joined(cells) };
            return Ok((of_set, Vec::new()));
        }
        if let Some(&lacking) = members.iter().find(|&&source| self.coordinate(source).is_none()) {
            let message = format!(
                "the dimension {} has a coordinate in some sources, and none in {}",
                self.key,
                self.sources[lacking].url()
            );
            return Err(Error::new(ErrorKind::Mismatch, message));
        }
        let mut coordinate = concatenate(&held)?;
        let (kept, duplicates) = without_repeats(&coordinate, &cells, self.combination.keep);
        let mut order: Vec<usize> = kept;
        if self.combination.order == Order::Ascending {
            order.sort_by(|&one, &other| {
                let missing = coordinate.is_missing(one).cmp(&coordinate.is_missing(other));
                missing.then_with(|| coordinate.values.compare(one, other))
            });
        }
        if order.len() != cells.len() || !order.is_sorted() {
            coordinate = coordinate.take(&order);
            cells = order.iter().map(|&at| cells[at]).collect();
        }
        let place = PlaceInSet::Joined(cells);
        Ok((OfSet { set, length: coordinate.len(), coordinate: Some(coordinate), place }, duplicates))
    }

    /// Lays the sources of a set over each other.
    fn aligned(&self, set: usize, members: &[usize]) -> Result<(OfSet, Vec<Overridden>)> {
        let lengths: Vec<usize> = members.iter().map(|&source| self.length(source)).collect();
        let coordinates: Vec<Option<&Coordinate>> =
            members.iter().map(|&source| self.coordinate(source)).collect();
        let names: Vec<&str> = members.iter().map(|&source| self.sources[source].url()).collect();
        let Alignment { length, coordinate, held, overridden } =
            self.align(&lengths, &coordinates, &names)?;
        let held = members.iter().zip(held);
        let place = held.map(|(&source, list)| (source, list.map_or(Held::AsIs, Held::Listed)));
        let place = PlaceInSet::Aligned(place.collect());
        Ok((OfSet { set, length, coordinate, place }, overridden))
    }

    /// Aligns what has coordinates by them; what has none must have the length.
    fn align(
        &self,
        lengths: &[usize],
        coordinates: &[Option<&Coordinate>],
        names: &[&str],
    ) -> Result<Alignment> {
        let with: Vec<usize> = (0..coordinates.len()).filter(|&at| coordinates[at].is_some()).collect();
        let values: Vec<&Coordinate> = coordinates.iter().copied().flatten().collect();
        let names_with: Vec<&str> = with.iter().map(|&at| names[at]).collect();
        let mut alignment = match values.first() {
            None => Alignment { length: lengths.first().copied().unwrap_or(0), ..Alignment::default() },
            Some(first) => match self.overridden(&values, &names_with)? {
                Some(overridden) => Alignment {
                    length: first.len(),
                    coordinate: Some((*first).clone()),
                    held: vec![None; values.len()],
                    overridden,
                },
                None => {
                    let aligned = align(&values, self.combination.join)
                        .map_err(|error| self.not_aligned(error, &values, &names_with))?;
                    Alignment {
                        length: aligned.coordinate.len(),
                        coordinate: Some(aligned.coordinate),
                        held: aligned.positions,
                        overridden: Vec::new(),
                    }
                }
            },
        };
        let mut held = vec![None; lengths.len()];
        for (at, positions) in with.iter().zip(std::mem::take(&mut alignment.held)) {
            held[*at] = positions;
        }
        let (length, reordered) = (alignment.length, held.iter().any(Option::is_some));
        for at in 0..lengths.len() {
            if coordinates[at].is_none() && (lengths[at] != length || reordered) {
                let message = format!(
                    "the dimension {} has {} elements in {} and {length} in {}, and no coordinate to align it by",
                    self.key, lengths[at], names[at], names[0]
                );
                return Err(Error::new(ErrorKind::Mismatch, message));
            }
        }
        Ok(Alignment { held, ..alignment })
    }

    /// Returns which coordinates the first one stands for, as `--allow coordinates` has it; `None` where it has not.
    ///
    /// Errors: `Mismatch` where one of them differs by more than rounding.
    fn overridden(&self, values: &[&Coordinate], names: &[&str]) -> Result<Option<Vec<Overridden>>> {
        let allowed = self.combination.coordinates == Drift::Allowed && self.combination.join == Join::Exact;
        let (Some((first, others)), true) = (values.split_first(), allowed) else { return Ok(None) };
        let mut overridden = Vec::new();
        for (other, name) in others.iter().zip(&names[1..]) {
            match first.drift(other, Rounding::OfSteps) {
                None if first.same_values(other) => {}
                Some(apart) if apart.kind == DriftKind::Rounding => {
                    overridden.push(Overridden::of(first, &apart, names[0], name));
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(overridden))
    }

    /// Returns the error of coordinates that cannot be aligned, with what can be done about it.
    fn not_aligned(&self, error: Error, values: &[&Coordinate], names: &[&str]) -> Error {
        let different = values.iter().position(|other| !values[0].same_values(other)).unwrap_or(0);
        let apart = values[0].drift(values[different], Rounding::OfSteps);
        let joins = self.combination.join == Join::Exact;
        let hint = match apart.map(|apart| apart.kind) {
            Some(DriftKind::Rounding) => {
                "they differ by rounding: pass --allow coordinates to take those of the first source"
            }
            Some(DriftKind::Reversed | DriftKind::Reordered) if joins => {
                "pass --join inner to put the values in the order of the first source, or --join outer to sort them"
            }
            _ if joins => {
                "pass --join inner for the values that all sources have, --join outer for those of any, or \
                 --concat to put the sources behind each other along it"
            }
            _ => "--exclude the arrays along it, or slice the sources apart",
        };
        let allowed = match apart {
            Some(apart) if self.combination.coordinates == Drift::Allowed && joins => match apart.largest {
                Some(largest) => format!(
                    "; --allow coordinates takes differences of rounding alone, these are up to {}",
                    values[0].show_distance(largest)
                ),
                None => "; --allow coordinates takes differences of rounding alone".to_owned(),
            },
            _ => String::new(),
        };
        let message =
            format!("could not align {} with {} along {}{allowed}", names[different], names[0], self.key);
        error.context(message).with_hint(hint)
    }

    /// Lays the sets over each other.
    fn of_all(&self, of_sets: Vec<OfSet>, sets: usize) -> Result<(Dimension, Vec<Overridden>)> {
        let lengths: Vec<usize> = of_sets.iter().map(|of_set| of_set.length).collect();
        let coordinates: Vec<Option<&Coordinate>> =
            of_sets.iter().map(|of_set| of_set.coordinate.as_ref()).collect();
        let words: Vec<String> = of_sets.iter().map(|of_set| self.name_of_set(of_set.set)).collect();
        let names: Vec<&str> = words.iter().map(String::as_str).collect();
        let Alignment { length, coordinate, held, overridden } =
            self.align(&lengths, &coordinates, &names)?;
        let joined = of_sets.iter().any(|of_set| matches!(of_set.place, PlaceInSet::Joined(_)));
        let mut by_source: Vec<Option<Held>> = vec![None; self.sources.len()];
        let mut by_set: Vec<Option<Vec<Option<Cell>>>> = vec![None; sets];
        for (of_set, positions) in of_sets.into_iter().zip(held) {
            match of_set.place {
                PlaceInSet::Aligned(members) => {
                    for (source, held) in members {
                        by_source[source] = Some(held.after(positions.as_ref()));
                    }
                }
                PlaceInSet::Joined(cells) => {
                    by_set[of_set.set] = Some(match positions {
                        None => cells.into_iter().map(Some).collect(),
                        Some(positions) => positions.iter().map(|at| Some(cells[(*at)?])).collect(),
                    });
                }
            }
        }
        let place = if joined { Place::Joined(by_set) } else { Place::Aligned(by_source) };
        Ok((Dimension { key: self.key.clone(), length, coordinate, place }, overridden))
    }

    /// Returns a set by the first of its stores, for messages.
    fn name_of_set(&self, set: usize) -> String {
        let mut members = self.sources.iter().filter(|source| source.set == set);
        let first = members.next().map_or_else(String::new, |source| source.url().to_owned());
        match members.count() {
            0 => first,
            more => format!("{first} and {more} more"),
        }
    }
}
