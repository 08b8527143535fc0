//! The arrays of a plan, for people and programs.

use serde::Serialize;
use zkit_core::metadata::CodecSpec;
use zkit_core::plan::{ArrayCopy, CopyPlan, Strategy};
use zkit_report::{Column, Table, format};

use crate::source::Source;
use crate::targets::Chosen;

/// One array in the JSON of a plan or a finished run.
#[derive(Debug, Serialize)]
pub(super) struct ArrayOutput {
    /// The store's URL, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    path: String,
    strategy: Strategy,
    why: String,
    note: Option<String>,
    codecs: Vec<String>,
    /// What was measured to choose the codec.
    codec_why: Option<String>,
    chunk_shape: Vec<u64>,
    shard_shape: Option<Vec<u64>>,
    chunks_stored: u64,
    bytes_stored: u64,
    /// Of a rechunk: the destination chunks that are put together at once, along each dimension.
    unit_chunks: Option<Vec<u64>>,
    /// Of a rechunk: how often the source is decoded.
    decodes: Option<f64>,
}

/// Returns all arrays of a plan.
pub(super) fn outputs(sources: &[Source], chosen: &[Vec<Chosen>], plan: &CopyPlan) -> Vec<ArrayOutput> {
    let mut reasons: Vec<_> = chosen.iter().map(|chosen| chosen.iter()).collect();
    plan.arrays
        .iter()
        .map(|array| {
            let codec_why = reasons[array.store].next().and_then(|chosen| chosen.why.clone());
            output(sources, array, codec_why)
        })
        .collect()
}

fn output(sources: &[Source], array: &ArrayCopy, codec_why: Option<String>) -> ArrayOutput {
    let metadata = &array.target.metadata;
    ArrayOutput {
        store: (sources.len() > 1).then(|| sources[array.store].hierarchy.url.clone()),
        path: array.source.path.clone(),
        strategy: array.strategy,
        why: array.why.clone(),
        note: array.note.clone(),
        codecs: metadata.codecs.iter().map(CodecSpec::to_string).collect(),
        codec_why: codec_why.filter(|_| array.strategy != Strategy::CopyBytes),
        chunk_shape: metadata.chunk_shape(),
        shard_shape: metadata.sharding().map(|_| metadata.grid.largest_chunk_shape()),
        chunks_stored: array.stored.len(),
        bytes_stored: array.stored_bytes,
        unit_chunks: array.rechunk.as_ref().map(|rechunk| rechunk.unit_chunks.clone()),
        decodes: array.rechunk.as_ref().map(|rechunk| rechunk.decodes),
    }
}

/// Returns the words for a strategy.
pub(super) fn strategy_name(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::CopyBytes => "copy bytes",
        Strategy::Recode => "recode",
        Strategy::Rechunk => "rechunk",
        Strategy::RechunkPasses => "rechunk in passes",
        Strategy::RechunkSpill => "rechunk through scratch",
    }
}

/// Returns a table of all arrays and how each is rewritten.
pub(super) fn table(plan: &CopyPlan) -> Table {
    let mut table = Table::new([
        Column::left("array"),
        Column::left("strategy"),
        Column::right("chunks"),
        Column::right("stored"),
        Column::left("codecs"),
        Column::left("why").wraps(),
    ]);
    for array in &plan.arrays {
        let codecs: Vec<String> = array.target.metadata.codecs.iter().map(CodecSpec::to_string).collect();
        table.row([
            array.source.path.clone(),
            strategy_name(array.strategy).to_owned(),
            format::count(array.stored.len()),
            format::bytes(array.stored_bytes),
            codecs.join(", "),
            array.why.clone(),
        ]);
    }
    table
}

/// Returns what was measured to choose codecs, each sentence once, with the arrays that it is about.
pub(super) fn choices(chosen: &[Vec<Chosen>], plan: &CopyPlan) -> Vec<(String, String)> {
    let mut reasons: Vec<_> = chosen.iter().map(|chosen| chosen.iter()).collect();
    let mut said: Vec<(Vec<&str>, String)> = Vec::new();
    for array in &plan.arrays {
        let Some(why) = reasons[array.store].next().and_then(|chosen| chosen.why.clone()) else { continue };
        if array.strategy == Strategy::CopyBytes {
            continue;
        }
        match said.iter_mut().find(|(_, other)| *other == why) {
            Some((paths, _)) => paths.push(&array.source.path),
            None => said.push((vec![&array.source.path], why)),
        }
    }
    said.into_iter()
        .map(|(paths, why)| match paths.as_slice() {
            [one] => ((*one).to_owned(), why),
            [first, rest @ ..] => (format!("{first} and {} more", rest.len()), why),
            [] => (String::new(), why),
        })
        .collect()
}
