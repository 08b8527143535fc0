//! The arrays of a plan, for people and programs.

use serde::Serialize;
use zkit_core::metadata::CodecSpec;
use zkit_core::plan::{ArrayCopy, CopyPlan, Strategy};
use zkit_report::{Column, Facts, Table, format};

use crate::writing::run::Run;

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
    /// Whether these two are estimates: of a source without listings a few chunks are asked for, and all are taken to be there.
    stored_is_estimate: bool,
    /// Of a rechunk: the destination chunks that are put together at once, along each dimension.
    unit_chunks: Option<Vec<u64>>,
    /// Of a rechunk: how often the source is decoded.
    decodes: Option<f64>,
}

/// Returns all arrays of a plan; `codec_reasons` are what was measured to choose the codec of each.
pub(super) fn outputs(run: &Run<'_>, codec_reasons: &[Option<String>]) -> Vec<ArrayOutput> {
    let mut reasons = codec_reasons.iter();
    let with_reason = run.plan.arrays.iter().map(|array| (array, reasons.next().cloned().flatten()));
    with_reason.map(|(array, codec_why)| output(run, array, codec_why)).collect()
}

fn output(run: &Run<'_>, array: &ArrayCopy, codec_why: Option<String>) -> ArrayOutput {
    let metadata = &array.target.metadata;
    ArrayOutput {
        store: (run.jobs.len() > 1).then(|| run.name_of(array.store)),
        path: array.target.path.clone(),
        strategy: array.strategy,
        why: array.why.clone(),
        note: array.note.clone(),
        codecs: metadata.codecs.iter().map(CodecSpec::to_string).collect(),
        codec_why: codec_why.filter(|_| array.strategy != Strategy::CopyBytes),
        chunk_shape: metadata.chunk_shape(),
        shard_shape: metadata.sharding().map(|_| metadata.grid.largest_chunk_shape()),
        chunks_stored: array.stored.len(),
        bytes_stored: array.stored_bytes,
        stored_is_estimate: is_estimated(array),
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

/// Returns the word for bytes that are stored of arrays, where they are estimated.
pub(super) fn about(arrays: &[ArrayCopy]) -> &'static str {
    if arrays.iter().any(is_estimated) { "about " } else { "" }
}

fn is_estimated(array: &ArrayCopy) -> bool {
    array.known.is_some()
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
        let chunks = if is_estimated(array) { "up to " } else { "" };
        table.row([
            array.target.path.clone(),
            strategy_name(array.strategy).to_owned(),
            format!("{chunks}{}", format::count(array.stored.len())),
            format!("{}{}", about(std::slice::from_ref(array)), format::bytes(array.stored_bytes)),
            codecs.join(", "),
            array.why.clone(),
        ]);
    }
    table
}

/// Returns what was measured to choose codecs, each sentence once, with the arrays that it is about.
pub(super) fn codec_facts(plan: &CopyPlan, codec_reasons: &[Option<String>]) -> Facts {
    let mut said: Vec<(Vec<&str>, &str)> = Vec::new();
    for (array, why) in plan.arrays.iter().zip(codec_reasons) {
        let Some(why) = why.as_deref().filter(|_| array.strategy != Strategy::CopyBytes) else { continue };
        match said.iter_mut().find(|(_, other)| *other == why) {
            Some((paths, _)) => paths.push(&array.target.path),
            None => said.push((vec![&array.target.path], why)),
        }
    }
    said.into_iter()
        .map(|(paths, why)| match paths.as_slice() {
            [first, rest @ ..] if !rest.is_empty() => {
                (format!("codec of {first} and {} more", rest.len()), why)
            }
            few => (format!("codec of {}", few.concat()), why),
        })
        .collect()
}
