//! Comparing the rows of ids that stand in more than one place.

use std::collections::BTreeMap;

use zkit_core::engine::{affordable_rows, digest_rows};
use zkit_core::error::Result;
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_rules::Depth;
use zkit_rules::ids::{column_mut, id_groups};
use zkit_rules::summary::StoreSummary;

use crate::gather::Run;

/// At depth `sample`, the rows of so many ids are compared,
const SAMPLED_IDS: usize = 1024;
/// and in each store so much is decoded for that.
const SAMPLED_BYTES: u64 = 64 << 20;

/// Digests the rows of ids that stand in more than one place, so that rules can tell whether they hold the same.
///
/// `open` opens one of `stores` again, by its position. What cannot be read is left out.
pub(crate) fn compare_rows(
    stores: &mut [StoreSummary],
    run: &Run<'_>,
    open: impl Fn(usize) -> Result<Hierarchy>,
) -> Result<()> {
    if run.depth < Depth::Sample {
        return Ok(());
    }
    let all = run.depth == Depth::Full;
    for group in id_groups(stores) {
        let ids = if all { usize::MAX } else { SAMPLED_IDS };
        for (store, positions) in group.rows_to_compare(ids) {
            run.cancel.check()?;
            let Some(column) = column_mut(&mut stores[store], &group.path) else { continue };
            let Ok(hierarchy) = open(store) else { continue };
            let Some(bytes) = &hierarchy.store else { continue };
            let arrays: Vec<&ArrayNode> =
                column.variables.iter().filter_map(|path| hierarchy.array(path)).collect();
            let most = if all { u64::MAX } else { SAMPLED_BYTES / positions.len().max(1) as u64 };
            let arrays = affordable_rows(arrays, &column.dimension, most);
            let positions: Vec<u64> = positions.into_iter().collect();
            let digests = digest_rows(
                bytes,
                &arrays,
                &column.dimension,
                &positions,
                run.resources,
                run.observer,
                run.cancel,
            )?;
            let mut rows: BTreeMap<u64, BTreeMap<String, u128>> = BTreeMap::new();
            for digested in digests.into_iter().flatten() {
                for (position, digest) in digested.digests {
                    rows.entry(position).or_default().insert(digested.path.clone(), digest);
                }
            }
            column.rows = rows;
        }
    }
    Ok(())
}
