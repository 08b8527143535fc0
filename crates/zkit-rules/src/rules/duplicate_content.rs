//! `duplicate-content`: chunks or arrays hold the same, as far as was compared.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use zkit_core::engine::{ArrayValues, UnitFacts, UnitGrid};
use zkit_core::grid::ChunkSet;
use zkit_report::{Confidence, Severity, format};

use super::shared::chunk_key;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::rule::{Check, Rule};
use crate::values::{seen_data, with_units};

/// Chunks of fewer values are the same by chance.
const VALUES_LEAST: u64 = 16;

pub(crate) const RULE: Rule = Rule {
    id: "duplicate-content",
    severity: Severity::Info,
    confidence: Confidence::Medium,
    depth: Depth::Sample,
    summary: "chunks of an array, or two arrays, hold the same, as far as was compared",
    explanation: "\
Chunks at different places of an array hold the same, or two arrays have the same chunks: a step was written
twice, a batch was fetched again under another id, a variable was copied under another name. Training sees these samples
twice; splits leak.

On disk: chunks whose decoded values have the same statistics and the same bytes; of large chunks a part of the bytes is
compared. Chunks in which every value is the same, and small ones, do not count.

Legitimate: fields that do not change over time, climatologies, levels of a pyramid, copies on purpose.

What to do: compare the coordinates of the chunks that are named.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let mut whole: BTreeMap<(u64, &[u64]), &ArrayObservation<'_>> = BTreeMap::new();
    for (array, values) in seen_data(store) {
        report_repeated(array, values, finder);
        let Some(content) = content_of(values) else { continue };
        match whole.get(&(content, array.node.metadata.shape())) {
            Some(first) => {
                let message = format!("holds the same as `{}`, chunk by chunk", first.path());
                finder.array(array.path(), message).evidence("same_as", first.path());
            }
            None => {
                whole.insert((content, array.node.metadata.shape()), array);
            }
        }
    }
}

/// Returns the chunks that could not be the same by chance.
fn telling(values: &ArrayValues) -> impl Iterator<Item = &UnitFacts> {
    let units = values.units.iter().flatten();
    units.filter(|unit| !unit.constant && unit.valid >= VALUES_LEAST && unit.min < unit.max)
}

fn report_repeated(array: &ArrayObservation<'_>, values: &ArrayValues, finder: &mut Finder<'_>) {
    let mut first: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut repeated, mut example) = (ChunkSet::default(), None);
    for unit in telling(values) {
        match first.get(&unit.digest) {
            Some(&at) => {
                repeated.insert(unit.position);
                example.get_or_insert((unit.position, at));
            }
            None => {
                first.insert(unit.digest, unit.position);
            }
        }
    }
    let Some((again, at)) = example else { return };
    let name = |position: u64| match values.grid {
        UnitGrid::Stored => format!("`{}`", chunk_key(array, position)),
        UnitGrid::Inner => format!("inner chunk {position}"),
    };
    let message = format!(
        "{} chunks hold the same as one before them; first, {} is {}",
        format::count(repeated.len()),
        name(again),
        name(at)
    );
    let draft = finder.array(array.path(), message).evidence("chunks_seen", values.coverage.chunks_seen);
    with_units(draft, values, &repeated);
}

/// Returns a hash of all chunks of an array, if all were looked at and they could not be the same by chance.
fn content_of(values: &ArrayValues) -> Option<u64> {
    let units = values.units.as_ref().filter(|_| values.coverage.is_full())?;
    telling(values).next()?;
    let mut hasher = DefaultHasher::new();
    for unit in units {
        (unit.position, unit.digest).hash(&mut hasher);
    }
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn repeated_chunks_and_arrays_are_noted() {
        let chunk =
            |from: u16| (from..from + 16).flat_map(|at| f32::from(at).to_le_bytes()).collect::<Vec<u8>>();
        let array = v2_array(&[48], &[16]);
        let store = TestStore::new()
            .array("a", &array)
            .file("a/0", &chunk(0))
            .file("a/1", &chunk(5))
            .file("a/2", &chunk(0))
            .array("b", &v2_array(&[32], &[16]))
            .file("b/0", &chunk(1))
            .file("b/1", &chunk(2))
            .array("c", &v2_array(&[32], &[16]))
            .file("c/0", &chunk(1))
            .file("c/1", &chunk(2))
            .array("zero", &v2_array(&[32], &[16]))
            .file("zero/0", &[0; 64])
            .file("zero/1", &[0; 64]);
        let found = store.findings("duplicate-content");
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].message, "1 chunks hold the same as one before them; first, `2` is `0`");
        assert_eq!((found[1].array.as_deref(), &found[1].evidence["same_as"]), (Some("/c"), &"/b".into()));
    }
}
