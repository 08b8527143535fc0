//! What a finished run says.

use serde::Serialize;
use zkit_core::plan::{ArrayCopy, Strategy};
use zkit_report::{Column, Document, Facts, Table, format};

use super::Own;
use super::arrays::{self, ArrayOutput};
use super::left_out::{self, LeftOutOutput};
use super::stages::{Seconds, faster_encoding};
use crate::memory;
use crate::shell::Shell;
use crate::traffic::TrafficOutput;
use crate::writing::run::{Done, Run};

/// Skipped chunks that people are told of by name; programs get them all.
const CORRUPT_SHOWN: usize = 20;

/// The JSON of a finished run, version 1.
#[derive(Debug, Serialize)]
struct DoneOutput<'a, Fields> {
    schema_version: u32,
    source: String,
    /// All stores that were read from.
    sources: Vec<String>,
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
    #[serde(flatten)]
    traffic: TrafficOutput,
    seconds: Seconds,
    peak_memory_bytes: Option<u64>,
    verified: VerifiedOutput,
    remaining_units: u64,
    /// Chunks of an earlier run that were read back and taken over.
    resumed_objects: u64,
    /// Source chunks that were skipped; fill values stand in their place.
    corrupt_chunks: Vec<CorruptOutput>,
    /// What of the sources the copy does not have.
    left_out: Vec<LeftOutOutput>,
    #[serde(flatten)]
    own: &'a Fields,
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
    /// Regions in which neither side stores anything; nothing of them was read.
    absent_regions: u64,
}

#[derive(Debug, Serialize)]
struct CorruptOutput {
    path: String,
    chunk: Vec<u64>,
    inner_chunk: Option<Vec<u64>>,
    message: String,
}

/// Says that there is nothing to do.
///
/// `destination` is where all of it went, as it was given; `already_done` are the stores that were found there.
pub fn emit_already_done(shell: &Shell, destination: &str, already_done: &[String]) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct AlreadyDone<'a> {
        schema_version: u32,
        destination: &'a str,
        complete: bool,
        already_done: &'a [String],
        remaining_units: u64,
    }
    let mut facts = Facts::new();
    for destination in already_done {
        facts.fact("already done", destination);
    }
    let output =
        AlreadyDone { schema_version: 1, destination, complete: true, already_done, remaining_units: 0 };
    let mut document = Document::new();
    document.facts(facts);
    shell.emit(&document, &output)
}

/// Prints what was done.
pub fn emit_done<Fields: Serialize>(run: &Run<'_>, done: &Done, own: &Own<'_, Fields>) -> anyhow::Result<()> {
    let output = output(run, done, own);
    run.shell.emit(&document(&output, run, done, own), &output)
}

fn output<'a, Fields: Serialize>(
    run: &Run<'_>,
    done: &Done,
    own: &'a Own<'_, Fields>,
) -> DoneOutput<'a, Fields> {
    let (plan, meter) = (run.plan, run.shell.observer().meter());
    let copied = plan.arrays.iter().filter(|array| array.strategy == Strategy::CopyBytes).count();
    let stores = run.jobs.iter().enumerate().map(|(store, job)| StoreOutput {
        source: run.name_of(store),
        destination: job.destination.to_string(),
    });
    let corrupt = done.written.corrupt.iter().map(|chunk| CorruptOutput {
        path: plan.arrays[chunk.array].target.path.clone(),
        chunk: chunk.chunk_index.clone(),
        inner_chunk: chunk.inner_chunk.clone(),
        message: chunk.message.clone(),
    });
    let sources = run.sources();
    let measured = own.codec_reasons.iter().any(Option::is_some);
    let faster = faster_encoding(measured, run.args.prefer());
    DoneOutput {
        schema_version: 1,
        source: sources.first().cloned().unwrap_or_default(),
        sources,
        destination: run.destination.to_owned(),
        stores: stores.collect(),
        complete: true,
        arrays_written: plan.arrays.len() - copied,
        arrays_copied: copied,
        objects_written: meter.objects_written.get().saturating_sub(done.written.scratch_objects),
        bytes_read: meter.bytes_read.get(),
        bytes_decoded: meter.bytes_decoded.get(),
        bytes_encoded: meter.bytes_encoded.get(),
        bytes_written: meter.bytes_written.get().saturating_sub(done.written.scratch_bytes),
        traffic: TrafficOutput::of(&meter.traffic),
        seconds: Seconds::of(meter, (done.total_time, done.plan_time), run.jobs.len(), faster),
        peak_memory_bytes: memory::peak_rss_bytes(),
        verified: VerifiedOutput {
            mode: run.args.verify.name(),
            objects: done.written.verified.regions,
            bytes: done.written.verified.bytes,
            absent_regions: done.written.verified.absent_regions,
        },
        remaining_units: 0,
        resumed_objects: done.written.resumed_objects,
        corrupt_chunks: corrupt.collect(),
        left_out: left_out::outputs(plan),
        own: &own.fields,
        arrays: arrays::outputs(run, own.codec_reasons),
    }
}

fn document<Fields>(
    output: &DoneOutput<'_, Fields>,
    run: &Run<'_>,
    done: &Done,
    own: &Own<'_, Fields>,
) -> Document {
    let plan = run.plan;
    let mut document = Document::new();
    document.facts(facts(output, run, done, &own.facts));
    document.facts(arrays::codec_facts(plan, own.codec_reasons));
    own.tables.iter().for_each(|table| {
        document.table(table.clone());
    });
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
        table.row([array.target.path.clone(), array.note.clone().unwrap_or_else(|| array.why.clone())]);
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
    document.table(left_out::table(&output.left_out));
    document
}

/// Says how large the copy is, or in a bucket, where not every object of an earlier run is read back, what was written of it.
fn copy_size<Fields>(output: &DoneOutput<'_, Fields>, run: &Run<'_>, done: &Done) -> String {
    let is_local = run.jobs.iter().all(|job| job.destination.local_path().is_some());
    match (output.resumed_objects, is_local) {
        (0, _) => format::bytes(output.bytes_written),
        (_, true) => format::bytes(output.bytes_written.saturating_add(done.written.checked_bytes)),
        (_, false) => format!("{} of it written by this run", format::bytes(output.bytes_written)),
    }
}

fn facts<Fields>(
    output: &DoneOutput<'_, Fields>,
    run: &Run<'_>,
    done: &Done,
    own: &[(String, String)],
) -> Facts {
    let plan = run.plan;
    let stored: u64 = plan.arrays.iter().map(|array| array.stored_bytes).sum();
    let about = arrays::about(&plan.arrays);
    let size = format!("{about}{}", format::bytes(stored));
    let mut facts = Facts::new();
    match output.sources.as_slice() {
        [one] => facts.fact("source", format!("{one}, {size}")),
        many => facts
            .fact("sources", format!("{}, {size}", format::counted(many.len() as u64, "store", "stores"))),
    };
    facts.fact("copy", format!("{}, {}", output.destination, copy_size(output, run, done)));
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
        facts.fact("size", format!("{about}{} of the source", format::percent(output.bytes_written, stored)));
    }
    facts.fact(
        "arrays",
        format!("{} encoded anew, {} copied byte for byte", output.arrays_written, output.arrays_copied),
    );
    facts.fact(
        "objects",
        match output.resumed_objects {
            0 => format::count(output.objects_written),
            _ => format!("{} written by this run", format::count(output.objects_written)),
        },
    );
    let verified = match output.verified.mode {
        "none" => "not read back: pass --verify sample or full".to_owned(),
        mode => format!(
            "equal: {} in {} read back and compared ({mode})",
            format::bytes(output.verified.bytes),
            format::counted(output.verified.objects, "region", "regions")
        ),
    };
    let verified = match output.verified.absent_regions {
        0 => verified,
        absent => {
            let regions = format::counted(absent, "region", "regions");
            format!("{verified}; {regions} absent on both sides, with the same fill value")
        }
    };
    facts.fact("verified", verified);
    if !output.corrupt_chunks.is_empty() {
        let chunks = format::counted(output.corrupt_chunks.len() as u64, "chunk", "chunks");
        facts.fact("skipped", format!("{chunks} that did not decode; fill values stand in their place"));
    }
    for (key, value) in own {
        facts.fact(key, value);
    }
    if let Some(traffic) = output.traffic.in_words() {
        facts.fact("network", traffic);
    }
    facts.fact("time", format::duration(done.total_time));
    if output.seconds.is_worth_telling() {
        facts.fact("bound", output.seconds.bound(plan.jobs, run.args.verify));
    }
    facts
}
