//! `absent-inner-chunks`: the indexes of shards leave out inner chunks.

use zkit_core::engine::InnerAbsence;
use zkit_core::grid::ChunkSet;
use zkit_report::format;
use zkit_report::{Confidence, Severity};

use super::missing_slab::{holds_what_is_left_out, is_dense};
use super::shared::{Absence, absence};
use crate::boxes::{Pattern, Runs, pattern};
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "absent-inner-chunks",
    severity: Severity::Info,
    confidence: Confidence::Medium,
    depth: Depth::Headers,
    summary: "the indexes of shards leave out inner chunks",
    explanation: "\
A shard is there, and its index has no entry for some of its inner chunks: they read as fill value. A writer
that filled a shard in parts and stopped leaves a trailing run of them or a whole slab.

On disk: entries of the shard index that are all ones.

Legitimate: inner chunks that are all fill value are left out like chunks. Patterns that cut through all
shards alike are told as warnings where the fill value is a value like any other, or null, unless values were looked at and
hold many of the zeros that are left out; where the fill value means \"missing\" and everything that is stored was looked at
and nothing in it is missing, they are errors.

What to do: write the shards again.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for array in &store.arrays {
        let Some(inner) = array.survey.as_ref().and_then(|survey| survey.inner.as_ref()) else { continue };
        if inner.absent.is_empty() || store.variable(array.path()).sparse {
            continue;
        }
        let absent = Runs::of(&inner.absent);
        let slab = is_slab(array, inner);
        let (boxes, left_out) = absent.few_boxes(&inner.counts);
        let message = format!(
            "{} of {} inner chunks in the shards that are there are left out ({}){}",
            format::count(absent.len()),
            format::count(inner.seen),
            format::percent(absent.len(), inner.seen),
            if slab { ": they form whole slabs" } else { "" }
        );
        let draft = finder
            .array(array.path(), message)
            .evidence("inner_chunks_seen", inner.seen)
            .evidence("inner_chunks_not_named", left_out)
            .inner_chunks(boxes);
        let severity = match absence(array) {
            _ if !slab || array.dimension_name(0).is_none() || holds_what_is_left_out(array) => continue,
            Absence::Missing if is_dense(array) => Severity::Error,
            Absence::Missing => continue,
            Absence::Value | Absence::Undefined => Severity::Warning,
        };
        draft.severity(severity).remedy("write these shards again");
    }
}

/// Returns whether the absent inner chunks are whole slabs of all that is stored, or all that follows one of them.
fn is_slab(array: &ArrayObservation<'_>, inner: &InnerAbsence) -> bool {
    let stored_whole = array.occupancy().is_some_and(|(total, stored)| total == stored);
    let few: ChunkSet = inner.absent.clone();
    stored_whole
        && matches!(pattern(&Runs::of(&few), &inner.counts), Pattern::Trailing { .. } | Pattern::Slabs { .. })
}

#[cfg(test)]
mod tests {
    use zkit_report::ChunkGrid;

    use crate::testing::TestStore;

    #[test]
    fn inner_chunks_that_an_index_leaves_out_are_named_in_the_inner_grid() {
        let zarr_json = br#"{"zarr_format":3,"node_type":"array","shape":[8],"data_type":"uint8","fill_value":0,
            "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4]}},"chunk_key_encoding":{"name":"default"},
            "codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[1],"codecs":[{"name":"bytes"}],
            "index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_location":"end"}}]}"#;
        let shard = |present: [bool; 4]| {
            let mut shard = vec![7u8; 4];
            for (at, there) in (0u64..).zip(present) {
                let entry = if there { [at, 1] } else { [u64::MAX; 2] };
                shard.extend(entry.map(u64::to_le_bytes).concat());
            }
            shard
        };
        let store = TestStore::bare()
            .file("zarr.json", zarr_json)
            .file("c/0", &shard([true, false, true, true]))
            .file("c/1", &shard([true; 4]));
        let found = store.findings("absent-inner-chunks");
        assert_eq!((found.len(), found[0].grid), (1, ChunkGrid::Inner));
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].first, [1]);
    }
}
