//! Sources that hold metadata alone: what is taken of them would be fill values that look like data.

use std::ops::ControlFlow;

use zkit_cli::Shell;
use zkit_core::engine::Touched;
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::event::Event;
use zkit_core::hierarchy::ArrayNode;
use zkit_core::metadata::DataType;
use zkit_core::plan::CopyPlan;
use zkit_core::store::Store;
use zkit_report::format::counted;

use crate::args::AllowArg;
use crate::sources::Source;

/// Arrays that are named, at most.
const NAMED_MOST: usize = 5;

/// Refuses arrays of which not one chunk is stored, if they hold measured values: floats, or all arrays of a source.
///
/// An array of integers may be all fill: that is said, and allowed, as is everything with `--allow stubs`. Of remote sources
/// nothing is known before they are read.
pub(crate) fn check(
    sources: &[Source],
    plan: &CopyPlan,
    touched: &[Touched],
    allow: &[AllowArg],
    shell: &Shell,
) -> Result<()> {
    let mut stubs: Vec<(usize, &ArrayNode)> = Vec::new();
    let mut full = vec![false; sources.len()];
    for (array, touched) in plan.arrays.iter().zip(touched) {
        let parts = array.gather.iter().flat_map(|gather| gather.parts.iter()).zip(&touched.parts);
        // coordinates may be there where the data is not
        for (part, seen) in
            parts.filter(|(part, seen)| part.array.metadata.shape().len() > 1 && seen.chunks > 0)
        {
            let Some(source) = sources.get(part.store) else { continue };
            let store = source.store()?;
            if store.is_remote() {
                continue;
            }
            // what is taken may be a hole in an array that is full of data
            if seen.stored > 0 || has_chunks(store, &part.array)? {
                full[part.store] = true;
            } else if !stubs.contains(&(part.store, &part.array)) {
                stubs.push((part.store, &part.array));
            }
        }
    }
    let bad = |(store, array): &&(usize, &ArrayNode)| !full[*store] || is_measured(array);
    let refused: Vec<_> = stubs.iter().filter(bad).collect();
    if !refused.is_empty() && !allow.contains(&AllowArg::Stubs) {
        return Err(refusal(sources, &refused));
    }
    for (store, array) in stubs.iter().take(NAMED_MOST) {
        let url = sources[*store].url();
        let said = format!("`{}` of {url} has no chunk: all of it is the fill value", array.path);
        shell.observer().event(Event::Warning(said));
    }
    Ok(())
}

fn refusal(sources: &[Source], stubs: &[&(usize, &ArrayNode)]) -> Error {
    let named = stubs
        .iter()
        .take(NAMED_MOST)
        .map(|(store, array)| format!("`{}` of {}", array.path, sources[*store].url()));
    let mut named = named.collect::<Vec<_>>().join(", ");
    if stubs.len() > NAMED_MOST {
        named.push_str(&format!(" and {} more", stubs.len() - NAMED_MOST));
    }
    let count = counted(stubs.len() as u64, "array", "arrays");
    let message = format!("{count} of the sources hold metadata alone, not one chunk: {named}");
    Error::new(ErrorKind::Unreadable, message).with_hint(
        "copy these stores again (`zkit audit` says more), leave them out, or pass --allow stubs to take fill values",
    )
}

/// Returns whether an array is of values that are hardly ever all alike.
fn is_measured(array: &ArrayNode) -> bool {
    let name = array.metadata.data_type.to_string();
    matches!(array.metadata.data_type, DataType::String | DataType::Bytes) || name.starts_with("float")
}

fn has_chunks(store: &Store, array: &ArrayNode) -> Result<bool> {
    let rank = array.metadata.shape().len();
    let mut found = false;
    store.list_while(array.prefix(), &mut |object| {
        let key = object.key.trim_start_matches('/');
        found = array.metadata.chunk_keys.parse_key(key, rank).is_some();
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}
