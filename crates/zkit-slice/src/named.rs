//! Which dimensions a name means: on the command line, or as a column of points.

use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::select::Axis;

use crate::axes::names_in_words;
use crate::dimensions::{Dimension, Dimensions};

/// Returns whether a column of points says more of them than where they are: it means no dimension, nor is one misspelt.
pub(crate) fn is_beside(dimensions: &Dimensions, column: &str) -> bool {
    of_column(dimensions, column).is_err_and(|error| error.kind() == ErrorKind::Usage)
        && meant_by(dimensions, column).is_empty()
}

/// Returns the dimensions of a name; those of groups may be several.
pub(crate) fn named(dimensions: &Dimensions, name: &str) -> Result<Vec<usize>> {
    let found: Vec<usize> =
        (0..dimensions.all.len()).filter(|&at| dimensions.all[at].key.name == name).collect();
    if found.is_empty() {
        let names = names_in_words(dimensions.all.iter().map(|dimension| &dimension.key));
        if let Some(along) = dimensions.along.get(name) {
            let along: Vec<String> = along.iter().map(|dimension| format!("`{dimension}`")).collect();
            let along = along.join(" and ");
            let message = format!("`{name}` is no dimension: it is a variable along {along}");
            return Err(Error::new(ErrorKind::Usage, message).with_hint(format!("select along {along}")));
        }
        let meant = meant_by(dimensions, name);
        let hint = match meant.as_slice() {
            [] => format!("their dimensions are {names}"),
            meant => format!("did you mean {}? their dimensions are {names}", meant.join(" or ")),
        };
        return Err(
            Error::new(ErrorKind::Usage, format!("the sources have no dimension `{name}`")).with_hint(hint)
        );
    }
    Ok(found)
}

/// Returns the names of the dimensions that a name may mean: by what they run along, or written nearly so.
fn meant_by<'a>(dimensions: &'a Dimensions, name: &str) -> Vec<&'a str> {
    let (lower, axis) = (name.to_ascii_lowercase(), axis_of(name));
    let is_meant = |dimension: &&Dimension| {
        let own = dimension.key.name.to_ascii_lowercase();
        let runs = dimension.coordinate.as_ref().is_some_and(|coordinate| Some(coordinate.axis) == axis);
        let by_name = axis.is_some() && axis_of(&own) == axis;
        runs || by_name
            || own == lower
            || (lower.len() > 1 && (own.starts_with(&lower) || lower.starts_with(&own)))
    };
    let mut names: Vec<&str> =
        dimensions.all.iter().filter(is_meant).map(|dimension| dimension.key.name.as_str()).collect();
    names.dedup();
    names
}

/// Returns what a name for a dimension mostly runs along.
fn axis_of(name: &str) -> Option<Axis> {
    Some(match name.to_ascii_lowercase().as_str() {
        "lat" | "latitude" | "y" => Axis::Latitude,
        "lon" | "lng" | "long" | "longitude" | "x" => Axis::Longitude,
        "time" | "date" | "datetime" | "valid_time" => Axis::Time,
        _ => return None,
    })
}

/// Returns the dimensions that a column of points means: by name, else by what they run along.
pub(crate) fn of_column(dimensions: &Dimensions, column: &str) -> Result<Vec<usize>> {
    let by_name = named(dimensions, column);
    let Some(axis) = axis_of(column) else { return by_name };
    if by_name.is_ok() {
        return by_name;
    }
    let runs = |at: &usize| {
        dimensions.all[*at].coordinate.as_ref().is_some_and(|coordinate| coordinate.axis == axis)
    };
    let found: Vec<usize> = (0..dimensions.all.len()).filter(runs).collect();
    let mut names: Vec<&str> = found.iter().map(|&at| dimensions.all[at].key.name.as_str()).collect();
    names.dedup();
    match names[..] {
        [] => by_name,
        [_] => Ok(found),
        _ => Err(Error::new(
            ErrorKind::Usage,
            format!("the column `{column}` of the points may mean {}", names.join(" or ")),
        )
        .with_hint("name the column as the dimension")),
    }
}
