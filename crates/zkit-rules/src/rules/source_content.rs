//! `source-content`: cells that a store shares with its source hold something else.

use serde_json::{Value, json};
use zkit_core::engine::Agreement;
use zkit_core::metadata::{CodecSpec, Filter};
use zkit_report::{Confidence, Severity, format};

use super::shared::with_chunks;
use crate::boxes::Runs;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::rule::{Check, Rule};
use crate::words::span_in_words;

pub(crate) const RULE: Rule = Rule {
    id: "source-content",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Sample,
    summary: "cells that a store shares with the one it was written from hold something else there",
    explanation: "\
A slice or a copy is compared with its source (--against URL): the cells that both have must hold the same. Where they do not,
rows stand under the wrong ids, a step was written twice, a batch is stale, a unit was converted, data is missing.

On disk: decoded values of both stores. A cell of the one is that of the other where all coordinates are equal; without
coordinates, where both have the same length. At depth sample windows are drawn (--sample, --seed), at depth full
everything is compared.

Legitimate: missing values are equal however they are marked (NaN, _FillValue, missing_value, fill_value in v2). Numbers that
are packed otherwise or stored in another type are equal within what the coarser one can tell. What was rounded before it was
stored (bitround, quantize, fixedscaleoffset) differs by that; this is a note.

What to do: write the chunks that are named again from the source. If values differ along one dimension at few ids, look at
those ids first.",
    check: Check::Store(check),
};

/// Positions that evidence names.
const POSITIONS_NAMED: usize = 100;
/// Positions that a message names.
const FEW: usize = 4;

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let Some(source) = &store.source else { return };
    for (path, agreement) in &source.agreements {
        let (Some(array), Some(first)) = (store.array(path), &agreement.first) else { continue };
        let rounded = is_rounded(array);
        let mut message = match agreement.different == agreement.elements {
            true => format!(
                "none of {} values that were compared is that of the source",
                format::count(agreement.elements)
            ),
            false => format!(
                "{} of {} values that were compared differ from the source",
                format::count(agreement.different),
                format::count(agreement.elements)
            ),
        };
        message.push_str(&match place(store, array, &first.index) {
            place if place.is_empty() => format!(": {}, in the source {}", first.own, first.source),
            place => format!("; the first at {place}: {}, in the source {}", first.own, first.source),
        });
        let telling = telling_dimension(agreement);
        if let Some(dimension) = telling {
            let named: Vec<String> = spans(store, array, dimension, agreement).take(FEW + 1).collect();
            if named.len() <= FEW {
                message.push_str(&format!("; all of them at {}", named.join(", ")));
            }
        }
        if rounded {
            message.push_str("; it is stored rounded");
        }
        let draft = finder
            .array(path, message)
            .evidence("compared", agreement.elements)
            .evidence("different", agreement.different)
            .evidence("chunks_compared", agreement.compared_chunks)
            .evidence("first", json!({"index": first.index, "found": first.own, "expected": first.source}))
            .evidence("source", source.hierarchy.url.as_str())
            // the message names the cells, closer than their chunks
            .evidence("where", place(store, array, &first.index))
            .remedy(format!("write these chunks again from {}", source.hierarchy.url));
        let draft = match agreement.largest {
            Some(largest) => draft.evidence("largest_difference", largest),
            None => draft,
        };
        let draft = match telling {
            Some(dimension) => {
                let named: Vec<Value> = spans(store, array, dimension, agreement)
                    .take(POSITIONS_NAMED)
                    .map(Value::from)
                    .collect();
                draft
                    .evidence("differing_along", array.dimension_label(dimension))
                    .evidence("differing", named)
            }
            None => draft,
        };
        let draft = with_chunks(draft, array, &Runs::of(&agreement.chunks));
        if rounded {
            let _ = draft.severity(Severity::Info);
        }
    }
}

/// Returns whether an array rounds what it stores.
fn is_rounded(array: &ArrayObservation<'_>) -> bool {
    array.node.metadata.codecs.iter().any(|codec| {
        matches!(
            codec,
            CodecSpec::Filter(Filter::FixedScaleOffset { .. } | Filter::AsType { lossy: true, .. })
        )
    })
}

/// Returns a cell in words: `time 2020-01-06, x[3]`.
fn place(store: &StoreObservation<'_>, array: &ArrayObservation<'_>, index: &[u64]) -> String {
    let spans =
        index.iter().enumerate().map(|(at, &position)| span_in_words(store, array, at, position, position));
    spans.collect::<Vec<_>>().join(", ")
}

/// Returns the dimension of whose positions the least part differs: the one that tells most; `None` where something
/// differs at all positions of each.
fn telling_dimension(agreement: &Agreement) -> Option<usize> {
    let share = |at: usize| {
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        (agreement.positions[at].len() as f64 / agreement.compared_positions[at].max(1) as f64)
    };
    let dimensions = (0..agreement.positions.len()).filter(|&at| share(at) < 1.0);
    dimensions.min_by(|&one, &other| share(one).total_cmp(&share(other)))
}

/// Returns the positions along a dimension at which something differs, run by run, in words.
fn spans<'s>(
    store: &'s StoreObservation<'_>,
    array: &'s ArrayObservation<'_>,
    dimension: usize,
    agreement: &'s Agreement,
) -> impl Iterator<Item = String> + 's {
    let mut positions = agreement.positions[dimension].iter().peekable();
    std::iter::from_fn(move || {
        let first = positions.next()?;
        let mut last = first;
        while let Some(next) = positions.next_if(|&next| next == last + 1) {
            last = next;
        }
        Some(span_in_words(store, array, dimension, first, last))
    })
}

#[cfg(test)]
mod tests {
    use zkit_core::engine::{Agreement, FirstDifference};
    use zkit_core::grid::ChunkSet;
    use zkit_report::Severity;

    use crate::testing::{TestStore, coordinate_array, v2_array};

    fn set(positions: &[u64]) -> ChunkSet {
        let mut set = ChunkSet::default();
        positions.iter().for_each(|&at| {
            set.insert(at);
        });
        set
    }

    fn batch(zarray: &str) -> TestStore {
        coordinate_array(TestStore::new(), "file_id", &[7, 8, 9], "{}")
            .array("t2m", zarray)
            .file("t2m/.zattrs", br#"{"_ARRAY_DIMENSIONS": ["file_id", "x"]}"#)
    }

    fn agreement() -> Agreement {
        Agreement {
            elements: 12,
            different: 3,
            first: Some(FirstDifference {
                index: vec![1, 0],
                own: "1.5".to_owned(),
                source: "2.5".to_owned(),
            }),
            largest: Some(1.0),
            compared_chunks: 3,
            chunks: set(&[1]),
            positions: vec![set(&[1]), set(&[0, 1, 2])],
            compared_positions: vec![3, 4],
        }
    }

    #[test]
    fn what_differs_is_named_by_its_ids() {
        let store = batch(&v2_array(&[3, 4], &[1, 4]));
        let found = store.findings_beside("source-content", &store, &[("/t2m", agreement())]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].message,
            "3 of 12 values that were compared differ from the source; the first at file_id 8, x[0]: 1.5, in the \
             source 2.5; all of them at file_id 8"
        );
        assert_eq!(found[0].severity, Severity::Error);
        assert_eq!(found[0].evidence["differing"][0], "file_id 8");
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].first, [1, 0]);
    }

    #[test]
    fn what_is_stored_rounded_is_a_note() {
        let rounded = v2_array(&[3, 4], &[1, 4]).replace(
            r#""filters":null"#,
            r#""filters":[{"id":"quantize","digits":2,"dtype":"<f4","astype":"<f4"}]"#,
        );
        let store = batch(&rounded);
        let found = store.findings_beside("source-content", &store, &[("/t2m", agreement())]);
        assert_eq!(found[0].severity, Severity::Info);
        assert!(found[0].message.ends_with("it is stored rounded"), "{}", found[0].message);
    }
}
