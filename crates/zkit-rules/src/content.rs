//! What arrays hold, as few bytes: to see that two are the same.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use zkit_core::engine::{ArrayValues, UnitFacts};

/// Chunks of fewer values are the same by chance.
const VALUES_LEAST: u64 = 16;

/// Returns the chunks that could not be the same by chance.
pub(crate) fn telling(values: &ArrayValues) -> impl Iterator<Item = &UnitFacts> {
    let units = values.units.iter().flatten();
    units.filter(|unit| !unit.constant && unit.valid >= VALUES_LEAST && unit.min < unit.max)
}

/// Returns a hash of all chunks of an array, if all were looked at and they could not be the same by chance.
pub(crate) fn content_of(values: &ArrayValues) -> Option<u64> {
    let units = values.units.as_ref().filter(|_| values.coverage.is_full())?;
    telling(values).next()?;
    let mut hasher = DefaultHasher::new();
    for unit in units {
        (unit.position, unit.digest).hash(&mut hasher);
    }
    Some(hasher.finish())
}
