//! What of the sources a copy does not have.

use serde::Serialize;
use zkit_core::plan::CopyPlan;
use zkit_report::{Column, Table};

/// Entries that people see; programs get them all.
const MAX_SHOWN: usize = 20;

/// Something of a source that is not copied.
#[derive(Debug, Serialize)]
pub(super) struct LeftOutOutput {
    store: String,
    path: String,
    what: String,
    why: String,
}

/// Returns what all stores of a plan leave out.
pub(super) fn outputs(plan: &CopyPlan) -> Vec<LeftOutOutput> {
    let all = plan.stores.iter().flat_map(|store| &store.left_out);
    all.map(|left_out| LeftOutOutput {
        store: left_out.store.clone(),
        path: left_out.path.clone(),
        what: left_out.what.clone(),
        why: left_out.why.clone(),
    })
    .collect()
}

/// Returns the table of what is left out; empty where nothing is.
pub(super) fn table(left_out: &[LeftOutOutput]) -> Table {
    let mut table =
        Table::new([Column::left("not copied"), Column::left("what"), Column::left("why").wraps()]);
    for one in left_out.iter().take(MAX_SHOWN) {
        table.row([one.path.clone(), one.what.clone(), one.why.clone()]);
    }
    if let Some(more) = left_out.len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
        table.row([format!("and {more} more"), String::new(), String::new()]);
    }
    table
}
