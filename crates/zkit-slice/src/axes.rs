//! The dimensions of one store: which arrays share one, how long it is, and which array holds its values.

use std::collections::{BTreeMap, HashMap};

use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::hierarchy::{Hierarchy, groups_above};
use zkit_core::select::is_coordinate;

/// What tells a dimension from others: its name, and the group in which it means the same.
///
/// That is the group of its coordinate, which holds for groups below too; without coordinate the group of the array. An
/// array whose dimensions have no names shares them with none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AxisKey {
    /// The path of the group, empty for the root.
    pub(crate) scope: String,
    pub(crate) name: String,
}

impl std::fmt::Display for AxisKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.scope.as_str() {
            "" => write!(f, "`{}`", self.name),
            scope => write!(f, "`{}` of {scope}", self.name),
        }
    }
}

/// One dimension of one store.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) key: AxisKey,
    pub(crate) length: u64,
    /// The position of the array that holds its values.
    pub(crate) coordinate: Option<usize>,
    pub(crate) origin: Origin,
    /// An array that has it, for messages.
    array: usize,
}

/// Whether arrays have a dimension themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// They do.
    Stored,
    /// They do not: the whole store is one position along it, which an array without dimensions names.
    Scalar,
}

/// The dimensions of a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Axes {
    pub(crate) axes: Vec<Axis>,
    by_key: HashMap<AxisKey, usize>,
    /// For each array of the hierarchy the positions of its dimensions in `axes`; empty for arrays that are not taken.
    pub(crate) of_arrays: Vec<Vec<usize>>,
}

impl Axes {
    /// Returns the dimensions of the arrays that are taken.
    ///
    /// Errors: `Unsupported` where arrays of one group give a dimension different lengths, as readers refuse it too.
    pub(crate) fn of(hierarchy: &Hierarchy, taken: &[usize]) -> Result<Self> {
        let arrays = &hierarchy.arrays;
        let coordinates: HashMap<&str, usize> = (0..arrays.len())
            .filter(|&at| is_coordinate(&arrays[at]))
            .map(|at| (arrays[at].path.as_str(), at))
            .collect();
        let mut axes = Self { of_arrays: vec![Vec::new(); arrays.len()], ..Self::default() };
        for &at in taken {
            let array = &arrays[at];
            let group = array.path.rsplit_once('/').map_or("", |(group, _)| group);
            let names = array.metadata.dimension_names.as_deref().unwrap_or_default();
            for (dimension, &length) in array.metadata.shape().iter().enumerate() {
                let found = match names.get(dimension).and_then(Option::as_deref) {
                    Some(name) => {
                        let fits = |at: &usize| arrays[*at].metadata.shape() == [length];
                        let coordinate = groups_above(group).find_map(|scope| {
                            let at =
                                coordinates.get(format!("{scope}/{name}").as_str()).copied().filter(fits)?;
                            Some((scope, at))
                        });
                        let scope = coordinate.map_or(group, |(scope, _)| scope).to_owned();
                        let key = AxisKey { scope, name: name.to_owned() };
                        let coordinate = coordinate.map(|(_, at)| at);
                        Axis { key, length, coordinate, origin: Origin::Stored, array: at }
                    }
                    None => {
                        let key = AxisKey { scope: array.path.clone(), name: format!("dim_{dimension}") };
                        Axis { key, length, coordinate: None, origin: Origin::Stored, array: at }
                    }
                };
                let position = axes.position(found, hierarchy)?;
                axes.of_arrays[at].push(position);
            }
        }
        Ok(axes)
    }

    fn position(&mut self, axis: Axis, hierarchy: &Hierarchy) -> Result<usize> {
        if let Some(&position) = self.by_key.get(&axis.key) {
            let other = &self.axes[position];
            if other.length == axis.length {
                return Ok(position);
            }
            let message = format!(
                "the dimension {} of {} has {} elements in `{}` and {} in `{}`",
                axis.key,
                hierarchy.url,
                other.length,
                hierarchy.arrays[other.array].path,
                axis.length,
                hierarchy.arrays[axis.array].path
            );
            return Err(Error::new(ErrorKind::Unsupported, message)
                .with_hint("take the arrays of one length alone, with --include"));
        }
        self.by_key.insert(axis.key.clone(), self.axes.len());
        self.axes.push(axis);
        Ok(self.axes.len() - 1)
    }

    /// Adds a dimension of one position, the first one of some arrays; `scalar` is the array that holds its value.
    pub(crate) fn put_in_front(&mut self, key: AxisKey, scalar: usize, arrays: &[usize]) {
        let axis = Axis { key, length: 1, coordinate: Some(scalar), origin: Origin::Scalar, array: scalar };
        let position = self.axes.len();
        self.by_key.insert(axis.key.clone(), position);
        self.axes.push(axis);
        arrays.iter().for_each(|&array| self.of_arrays[array].insert(0, position));
    }

    /// Returns whether arrays have a dimension themselves.
    pub(crate) fn is_stored(&self, key: &AxisKey) -> bool {
        self.get(key).is_none_or(|axis| axis.origin == Origin::Stored)
    }

    /// Returns the dimension of a key.
    pub(crate) fn get(&self, key: &AxisKey) -> Option<&Axis> {
        self.by_key.get(key).map(|&at| &self.axes[at])
    }

    /// Returns the keys of the dimensions of an array, in its order.
    pub(crate) fn keys_of(&self, array: usize) -> impl Iterator<Item = &AxisKey> {
        self.of_arrays[array].iter().map(|&axis| &self.axes[axis].key)
    }
}

/// Returns the names of dimensions in words, for hints.
pub(crate) fn names_in_words<'a>(keys: impl IntoIterator<Item = &'a AxisKey>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    keys.into_iter().for_each(|key| *counts.entry(&key.name).or_default() += 1);
    counts.into_keys().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use crate::testing::TestStore;

    #[test]
    fn groups_share_the_dimensions_of_coordinates_above_them() {
        let store = TestStore::new()
            .ints("x", &["x"], &[2], &[1, 2])
            .ints("a", &["x"], &[2], &[1, 2])
            .group("deep")
            .ints("deep/b", &["x"], &[2], &[3, 4])
            .ints("deep/c", &["x"], &[2], &[3, 4])
            .group("fine")
            .ints("fine/x", &["x"], &[3], &[1, 2, 3])
            .ints("fine/b", &["x"], &[3], &[3, 4, 5]);
        let sources = store.open(&[], &[]).unwrap();
        let axes = &sources[0].axes;
        let keys: Vec<String> = axes.axes.iter().map(|axis| axis.key.to_string()).collect();
        assert_eq!(keys, ["`x`", "`x` of /fine"]);
    }

    #[test]
    fn dimensions_without_names_belong_to_one_array() {
        let store = TestStore::new().ints("a", &[], &[2, 2], &[1, 2, 3, 4]).ints("b", &[], &[3], &[1, 2, 3]);
        let sources = store.open(&[], &[]).unwrap();
        let keys: Vec<String> = sources[0].axes.axes.iter().map(|axis| axis.key.to_string()).collect();
        assert_eq!(keys, ["`dim_0` of /a", "`dim_1` of /a", "`dim_0` of /b"]);
    }

    #[test]
    fn a_dimension_of_two_lengths_is_named() {
        let store = TestStore::new().ints("a", &["x"], &[2], &[1, 2]).ints("b", &["x"], &[3], &[1, 2, 3]);
        let error = store.open(&[], &[]).unwrap_err().to_string();
        assert!(error.contains("2 elements in `/a` and 3 in `/b`"), "{error}");
    }
}
