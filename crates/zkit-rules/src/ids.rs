//! Ids over the stores of a cache: which stand in more than one place.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use zkit_core::select::{Coordinate, Values};

use crate::coordinates::is_declared_id;
use crate::observe::StoreObservation;
use crate::policy::Policy;
use crate::summary::StoreSummary;
use crate::times::{Series, series};

/// Coordinates of more values are not compared between stores.
const IDS_MOST: usize = 2_000_000;

/// Times are compared at so many places where that decides whether they are told.
const TIMES_COMPARED: usize = 8;

/// The ids of one store: a coordinate whose values should be unique over all stores of a cache.
#[derive(Debug, Clone)]
pub struct IdColumn {
    /// The ids.
    pub coordinate: Coordinate,
    /// The dimension that they run along.
    pub dimension: String,
    /// The arrays that have this dimension, the ids themselves and other coordinates left out: sorted paths.
    pub variables: Vec<String>,
    /// What those arrays hold at some positions: a digest by position and path. Empty until rows were compared.
    pub rows: BTreeMap<u64, BTreeMap<String, u128>>,
}

/// Where an id stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The store, by its position among the stores of the cache.
    pub store: usize,
    /// The position along the dimension.
    pub position: usize,
}

/// An id that stands in more than one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatedId {
    /// The id as text.
    pub value: String,
    /// Where it stands, in the order of stores.
    pub places: Vec<Place>,
}

/// The ids of stores that hold the same variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdGroup {
    /// The path of the coordinate.
    pub path: String,
    /// The stores that have it, ascending.
    pub stores: Vec<usize>,
    /// How many ids there are in all.
    pub entries: usize,
    /// How many of them are different.
    pub unique: usize,
    /// The ids that stand in more than one place, by their first place.
    pub repeated: Vec<RepeatedId>,
    /// Whether they stand there by right unless all of them hold the same, as times may.
    pub needs_equal_content: bool,
}

/// Whether the places of an id hold the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Every variable that was compared holds the same.
    Equal,
    /// Some variable differs.
    Different,
    /// Nothing was compared.
    Unknown,
}

impl IdColumn {
    /// Returns the ids of a store: declared ones, and coordinates of whole numbers or texts whose name says that they are.
    pub fn of(store: &StoreObservation<'_>) -> Vec<Self> {
        let coordinates = store.coordinate_paths();
        let columns = store.coordinates.iter().filter_map(|read| {
            let coordinate = &read.coordinate;
            let array = store.array(&coordinate.path)?;
            let dimension = array.dimension_name(0)?.to_owned();
            if !is_id(coordinate, store.policy) || coordinate.len() > IDS_MOST {
                return None;
            }
            let variables = store.arrays.iter().filter(|other| {
                let names = other.node.metadata.dimension_names.iter().flatten().flatten();
                other.group() == array.group()
                    && !coordinates.contains(other.path())
                    && other.path() != array.path()
                    && names.into_iter().any(|name| *name == dimension)
            });
            let variables = variables.map(|other| other.path().to_owned()).collect();
            Some(Self::along(coordinate, &dimension, variables))
        });
        columns.collect()
    }

    /// Returns the values of a coordinate as ids of these variables.
    pub(crate) fn along(coordinate: &Coordinate, dimension: &str, variables: Vec<String>) -> Self {
        let (coordinate, dimension) = (coordinate.clone(), dimension.to_owned());
        Self { coordinate, dimension, variables, rows: BTreeMap::new() }
    }
}

/// Returns whether a coordinate holds ids, which belong to all stores of a cache: the policy says so, or it is whole numbers or texts under a telling name.
pub fn is_id(coordinate: &Coordinate, policy: &Policy) -> bool {
    if is_declared_id(&coordinate.path, policy) {
        return true;
    }
    matches!(coordinate.values, Values::Ints(_) | Values::UInts(_) | Values::Texts(_))
        && has_id_name(coordinate)
}

/// Returns whether a coordinate is named as ids are.
pub fn has_id_name(coordinate: &Coordinate) -> bool {
    let name = coordinate.name().to_ascii_lowercase();
    let name = name.strip_suffix('s').unwrap_or(&name);
    let telling = [
        "id",
        "uid",
        "uuid",
        "guid",
        "key",
        "sample",
        "file",
        "filename",
        "file_name",
        "name",
        "record",
        "case",
    ];
    telling.contains(&name) || name.ends_with("_id") || name.ends_with("_uuid") || name.ends_with("_key")
}

/// Returns the ids of a cache, one group for each coordinate and for stores that share variables along it.
///
/// Stores of different variables hold the same ids by right: they are to be merged, not concatenated.
pub fn id_groups(stores: &[StoreSummary]) -> Vec<IdGroup> {
    let mut by_path: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (store, summary) in stores.iter().enumerate() {
        for column in &summary.ids {
            by_path.entry(&column.coordinate.path).or_default().push(store);
        }
    }
    let mut groups = Vec::new();
    for (path, members) in by_path {
        for members in sharing(stores, path, &members) {
            groups.push(group(stores, path, members));
        }
    }
    groups.extend(series(stores).into_iter().map(|series| group_of_times(stores, series)));
    groups
}

/// Returns the ids or times of a store under a path.
pub fn column<'a>(store: &'a StoreSummary, path: &str) -> Option<&'a IdColumn> {
    let mut all = store.ids.iter().chain(store.times.iter().map(|times| &times.column));
    all.find(|column| column.coordinate.path == path)
}

/// Returns the ids or times of a store under a path, to add to them what its rows hold.
pub fn column_mut<'a>(store: &'a mut StoreSummary, path: &str) -> Option<&'a mut IdColumn> {
    let mut all = store.ids.iter_mut().chain(store.times.iter_mut().map(|times| &mut times.column));
    all.find(|column| column.coordinate.path == path)
}

/// Returns the times of a series: only stores that share some are looked into.
fn group_of_times(stores: &[StoreSummary], series: Series) -> IdGroup {
    let mut found = group(stores, &series.path, series.sharing.clone());
    let others = series.stores.iter().filter(|store| series.sharing.binary_search(store).is_err());
    let times =
        |store: &usize| column(&stores[*store], &series.path).map_or(0, |column| column.coordinate.len());
    let others: usize = others.map(times).sum();
    found.entries += others;
    found.unique += others;
    found.stores = series.stores;
    found.needs_equal_content = series.needs_equal_content;
    found
}

/// Splits stores into those that share variables, one with another.
fn sharing(stores: &[StoreSummary], path: &str, members: &[usize]) -> Vec<Vec<usize>> {
    // a union of sets: each store points to one that it shares a variable with
    let mut leader: Vec<usize> = (0..members.len()).collect();
    fn find(leader: &mut [usize], mut at: usize) -> usize {
        while leader[at] != at {
            leader[at] = leader[leader[at]];
            at = leader[at];
        }
        at
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (at, &member) in members.iter().enumerate() {
        let variables = column(&stores[member], path).map_or(&[][..], |column| &column.variables);
        // stores without any variable are compared with each other
        let none = variables.is_empty().then_some("");
        for variable in variables.iter().map(String::as_str).chain(none) {
            let first = *seen.entry(variable).or_insert(at);
            let (one, other) = (find(&mut leader, first), find(&mut leader, at));
            leader[one.max(other)] = one.min(other);
        }
    }
    let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, &member) in members.iter().enumerate() {
        let leader = find(&mut leader, at);
        sets.entry(leader).or_default().push(member);
    }
    sets.into_values().collect()
}

fn group(stores: &[StoreSummary], path: &str, members: Vec<usize>) -> IdGroup {
    let mut places: HashMap<Vec<u8>, Vec<Place>> = HashMap::new();
    let mut entries = 0;
    for &store in &members {
        let Some(column) = column(&stores[store], path) else { continue };
        for position in column.coordinate.present() {
            entries += 1;
            let key = column.coordinate.values.key(position);
            places.entry(key).or_default().push(Place { store, position });
        }
    }
    let unique = places.len();
    let mut repeated: Vec<RepeatedId> = places
        .into_values()
        .filter(|places| places.len() > 1)
        .map(|places| {
            let first = places[0];
            let value = column(&stores[first.store], path)
                .map_or_else(String::new, |column| column.coordinate.show(first.position));
            RepeatedId { value, places }
        })
        .collect();
    repeated.sort_by_key(|id| id.places[0]);
    IdGroup { path: path.to_owned(), stores: members, entries, unique, repeated, needs_equal_content: false }
}

impl IdGroup {
    /// Returns whether an id stands in several stores, and should not.
    pub fn is_across_stores(&self, stores: &[StoreSummary]) -> bool {
        let across = |id: &RepeatedId| id.places.iter().any(|place| place.store != id.places[0].store);
        let contents = || self.repeated.iter().map(|id| self.content(stores, id));
        let equal = || {
            contents().all(|content| content != Content::Different)
                && contents().any(|content| content == Content::Equal)
        };
        self.repeated.iter().any(across) && (!self.needs_equal_content || equal())
    }

    /// Returns whether all places of a repeated id hold the same, as far as their rows were digested.
    pub fn content(&self, stores: &[StoreSummary], id: &RepeatedId) -> Content {
        let rows = id.places.iter().filter_map(|place| {
            let column = column(stores.get(place.store)?, &self.path)?;
            column.rows.get(&u64::try_from(place.position).ok()?)
        });
        let rows: Vec<_> = rows.filter(|row| !row.is_empty()).collect();
        if rows.len() < 2 {
            return Content::Unknown;
        }
        let (mut compared, mut different) = (false, false);
        let first = rows[0];
        for other in &rows[1..] {
            for (path, digest) in *other {
                if let Some(expected) = first.get(path) {
                    compared = true;
                    different |= expected != digest;
                }
            }
        }
        match (compared, different) {
            (false, _) => Content::Unknown,
            (true, true) => Content::Different,
            (true, false) => Content::Equal,
        }
    }

    /// Returns how many variables were compared in some row, and how many there are.
    pub fn variables_compared(&self, stores: &[StoreSummary]) -> (usize, usize) {
        let columns = || self.stores.iter().filter_map(|&store| column(stores.get(store)?, &self.path));
        let compared: BTreeSet<&str> = columns()
            .flat_map(|column| column.rows.values())
            .flatten()
            .map(|(path, _)| path.as_str())
            .collect();
        let all: BTreeSet<&str> =
            columns().flat_map(|column| &column.variables).map(String::as_str).collect();
        (compared.len(), all.len())
    }

    /// Returns the rows whose digests tell whether repeated ids hold the same, at most `most` ids: positions by store.
    ///
    /// Times that two stores share by right, as members of an ensemble do, differ in the first of them.
    pub fn rows_to_compare(&self, most: usize) -> BTreeMap<usize, BTreeSet<u64>> {
        let most = if self.needs_equal_content { most.min(TIMES_COMPARED) } else { most };
        let mut rows: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for place in self.repeated.iter().take(most).flat_map(|id| &id.places) {
            if let Ok(position) = u64::try_from(place.position) {
                rows.entry(place.store).or_default().insert(position);
            }
        }
        rows
    }
}
