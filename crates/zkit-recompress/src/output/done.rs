//! What a finished run says.

use serde::Serialize;
use zkit_cli::Shell;
use zkit_core::hierarchy::ArrayNode;
use zkit_core::plan::{ArrayCopy, CopyPlan, Stored, Strategy};
use zkit_report::{Column, Document, Facts, Table, format};

use super::arrays::{self, ArrayOutput};
use super::stages::Seconds;
use crate::Done;
use crate::args::RecompressArgs;
use crate::source::{Source, is_coordinate};
use crate::targets::Chosen;

/// Skipped chunks that people are told of by name; programs get them all.
const CORRUPT_SHOWN: usize = 20;

/// The JSON of a finished run, version 1.
#[derive(Debug, Serialize)]
struct DoneOutput {
    schema_version: u32,
    source: String,
    destination: String,
    stores: Vec<StoreOutput>,
    complete: bool,
    arrays_written: usize,
    arrays_copied: usize,
    objects_written: u64,
    bytes_read: u64,
    bytes_decoded: u64,
    bytes_encoded: u64,
    bytes_written: u64,
    requests: u64,
    retries: u64,
    seconds: Seconds,
    peak_memory_bytes: Option<u64>,
    verified: VerifiedOutput,
    remaining_units: u64,
    /// Chunks of an earlier run that were read back and taken over.
    resumed_objects: u64,
    /// Source chunks that were skipped; fill values stand in their place.
    corrupt_chunks: Vec<CorruptOutput>,
    /// With --first: what all arrays would take.
    extrapolated: Option<Extrapolated>,
    arrays: Vec<ArrayOutput>,
}

#[derive(Debug, Serialize)]
struct StoreOutput {
    source: String,
    destination: String,
}

#[derive(Debug, Serialize)]
struct VerifiedOutput {
    mode: &'static str,
    objects: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct CorruptOutput {
    path: String,
    chunk: Vec<u64>,
    inner_chunk: Option<Vec<u64>>,
    message: String,
}

/// What all arrays would take, by those that were copied.
#[derive(Debug, Serialize)]
struct Extrapolated {
    arrays: usize,
    seconds: f64,
    bytes_written: u64,
    objects_written: u64,
}

/// Says that there is nothing to do.
pub(crate) fn emit_already_done(
    shell: &Shell,
    args: &RecompressArgs,
    destinations: &[String],
) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct AlreadyDone<'a> {
        schema_version: u32,
        destination: String,
        complete: bool,
        already_done: &'a [String],
        remaining_units: u64,
    }
    let mut facts = Facts::new();
    for destination in destinations {
        facts.fact("already done", destination);
    }
    let output = AlreadyDone {
        schema_version: 1,
        destination: args.destination_text(),
        complete: true,
        already_done: destinations,
        remaining_units: 0,
    };
    let mut document = Document::new();
    document.facts(facts);
    shell.emit(&document, &output)
}

/// Prints what was done.
pub(crate) fn emit_done(
    shell: &Shell,
    args: &RecompressArgs,
    sources: &[Source],
    chosen: &[Vec<Chosen>],
    plan: &CopyPlan,
    done: &Done,
) -> anyhow::Result<()> {
    let meter = shell.observer().meter();
    let copied = plan.arrays.iter().filter(|array| array.strategy == Strategy::CopyBytes).count();
    let stores = sources.iter().map(|source| StoreOutput {
        source: source.hierarchy.url.clone(),
        destination: source.destination.to_string(),
    });
    let corrupt = done.written.corrupt.iter().map(|chunk| CorruptOutput {
        path: plan.arrays[chunk.array].source.path.clone(),
        chunk: chunk.chunk_index.clone(),
        inner_chunk: chunk.inner_chunk.clone(),
        message: chunk.message.clone(),
    });
    let mut output = DoneOutput {
        schema_version: 1,
        source: sources.first().map_or_else(String::new, |source| source.hierarchy.url.clone()),
        destination: args.destination_text(),
        stores: stores.collect(),
        complete: true,
        arrays_written: plan.arrays.len() - copied,
        arrays_copied: copied,
        objects_written: meter.objects_written.get(),
        bytes_read: meter.bytes_read.get(),
        bytes_decoded: meter.bytes_decoded.get(),
        bytes_encoded: meter.bytes_encoded.get(),
        bytes_written: meter.bytes_written.get(),
        requests: done.requests.0,
        retries: done.requests.1,
        seconds: Seconds::of(meter, done.total_time, done.plan_time),
        peak_memory_bytes: zkit_cli::memory::peak_rss_bytes(),
        verified: VerifiedOutput {
            mode: args.verify.name(),
            objects: done.written.verified.regions,
            bytes: done.written.verified.bytes,
        },
        remaining_units: 0,
        resumed_objects: done.written.resumed_objects,
        corrupt_chunks: corrupt.collect(),
        extrapolated: None,
        arrays: arrays::outputs(sources, chosen, plan),
    };
    output.extrapolated = extrapolated(&output, sources, plan);
    shell.emit(&document(&output, chosen, plan, done), &output)
}

/// Scales what the first variables took to all of them, by decoded bytes; coordinates are copied in any case.
fn extrapolated(output: &DoneOutput, sources: &[Source], plan: &CopyPlan) -> Option<Extrapolated> {
    let decoded = |array: &ArrayNode, stored: &Stored| {
        let chunk = array.metadata.chunk_decoded_bytes();
        chunk.map_or(stored.bytes, |bytes| bytes.saturating_mul(stored.chunks.len()))
    };
    let left: u64 = sources
        .iter()
        .flat_map(|source| &source.left_out)
        .map(|listed| decoded(&listed.array, &listed.stored))
        .sum();
    let variables = || plan.arrays.iter().filter(|array| !is_coordinate(&array.source));
    let copied: u64 =
        variables().map(|array| array.stored.len().saturating_mul(array.decoded_chunk_bytes())).sum();
    let arrays = plan.arrays.len() + sources.iter().map(|source| source.left_out.len()).sum::<usize>();
    if sources.iter().all(|source| source.left_out.is_empty()) || copied == 0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let scale = (copied + left) as f64 / copied as f64;
    // coordinates and metadata are small, but may be many objects
    let coordinates: u64 =
        plan.arrays.iter().filter(|array| is_coordinate(&array.source)).map(|array| array.stored.len()).sum();
    let chunks = output.objects_written.saturating_sub(coordinates + plan.arrays.len() as u64);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, of positive numbers"
    )]
    let scaled = |number: u64| (number as f64 * scale) as u64;
    Some(Extrapolated {
        arrays,
        seconds: output.seconds.plan + (output.seconds.total - output.seconds.plan) * scale,
        bytes_written: scaled(output.bytes_written),
        objects_written: scaled(chunks) + coordinates + arrays as u64,
    })
}

fn document(output: &DoneOutput, chosen: &[Vec<Chosen>], plan: &CopyPlan, done: &Done) -> Document {
    let mut document = Document::new();
    document.facts(facts(output, plan, done));
    let mut why = Facts::new();
    for (paths, choice) in arrays::choices(chosen, plan) {
        why.fact(format!("codec of {paths}"), choice);
    }
    document.facts(why);
    if output.seconds.is_worth_telling() {
        document.table(output.seconds.table(plan.jobs));
    }
    let told = |array: &&ArrayCopy| {
        array.strategy == Strategy::CopyBytes
            || array.note.is_some()
            || !array.source.metadata.unknown_codecs().is_empty()
    };
    let mut table = Table::new([Column::left("array"), Column::left("how it was copied").wraps()]);
    for array in plan.arrays.iter().filter(told) {
        table.row([array.source.path.clone(), array.note.clone().unwrap_or_else(|| array.why.clone())]);
    }
    document.table(table);
    let mut corrupt = Table::new([
        Column::left("array"),
        Column::left("skipped chunk"),
        Column::left("what is wrong with it").wraps(),
    ]);
    for chunk in output.corrupt_chunks.iter().take(CORRUPT_SHOWN) {
        let inner = chunk.inner_chunk.as_ref().map_or(String::new(), |inner| format!(" inner {inner:?}"));
        corrupt.row([chunk.path.clone(), format!("{:?}{inner}", chunk.chunk), chunk.message.clone()]);
    }
    document.table(corrupt);
    document
}

fn facts(output: &DoneOutput, plan: &CopyPlan, done: &Done) -> Facts {
    let stored: u64 = plan.arrays.iter().map(|array| array.stored_bytes).sum();
    let mut facts = Facts::new();
    match output.stores.as_slice() {
        [one] => facts.fact("source", format!("{}, {}", one.source, format::bytes(stored))),
        many => facts.fact(
            "sources",
            format!("{}, {}", format::counted(many.len() as u64, "store", "stores"), format::bytes(stored)),
        ),
    };
    facts.fact("copy", format!("{}, {}", output.destination, format::bytes(output.bytes_written)));
    for destination in &done.already_done {
        facts.fact("already done", destination);
    }
    if output.resumed_objects > 0 {
        let objects = format::counted(output.resumed_objects, "chunk", "chunks");
        facts.fact(
            "resumed",
            format!("{objects} of an earlier run, {} read back", format::bytes(done.written.checked_bytes)),
        );
    } else {
        facts.fact("size", format!("{} of the source", format::percent(output.bytes_written, stored)));
    }
    facts.fact(
        "arrays",
        format!("{} encoded anew, {} copied byte for byte", output.arrays_written, output.arrays_copied),
    );
    facts.fact("objects", format::count(output.objects_written));
    let verified = match output.verified.mode {
        "none" => "not read back: pass --verify sample or full".to_owned(),
        mode => format!(
            "equal: {} in {} read back and compared ({mode})",
            format::bytes(output.verified.bytes),
            format::counted(output.verified.objects, "region", "regions")
        ),
    };
    facts.fact("verified", verified);
    if !output.corrupt_chunks.is_empty() {
        let chunks = format::counted(output.corrupt_chunks.len() as u64, "chunk", "chunks");
        facts.fact("skipped", format!("{chunks} that did not decode; fill values stand in their place"));
    }
    if let Some(all) = &output.extrapolated {
        let seconds = std::time::Duration::from_secs_f64(all.seconds.clamp(0.0, 1e9));
        facts.fact(
            "all of them",
            format!(
                "{} would take about {}, {} in {}",
                format::counted(all.arrays as u64, "array", "arrays"),
                format::duration(seconds),
                format::bytes(all.bytes_written),
                format::counted(all.objects_written, "object", "objects")
            ),
        );
    }
    facts.fact("time", format::duration(done.total_time));
    if output.seconds.is_worth_telling() {
        facts.fact("bound", output.seconds.bound(plan.jobs));
    }
    facts
}
