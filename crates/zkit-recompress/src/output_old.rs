//! What `zkit recompress` says: the plan, or what was done.

use serde::Serialize;
use zkit_cli::Shell;
use zkit_core::hierarchy::Hierarchy;
use zkit_core::metadata::CodecSpec;
use zkit_core::plan::{ArrayCopy, CopyPlan, Strategy, Totals};
use zkit_core::publish::metadata_documents;
use zkit_report::{Column, Document, Facts, Table, format};

use crate::{Costs, Done, RecompressArgs, VerifyArg};

/// The JSON of a finished run, version 1.
#[derive(Debug, Serialize)]
struct DoneOutput {
    schema_version: u32,
    source: String,
    destination: String,
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
    arrays: Vec<ArrayOutput>,
}

/// Wall-clock seconds for `total`, `plan` and `verify`; the others are sums over threads.
#[derive(Debug, Serialize)]
struct Seconds {
    total: f64,
    plan: f64,
    read: f64,
    decode: f64,
    assemble: f64,
    encode: f64,
    write: f64,
    verify: f64,
}

#[derive(Debug, Serialize)]
struct VerifiedOutput {
    mode: &'static str,
    objects: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct ArrayOutput {
    path: String,
    strategy: Strategy,
    why: String,
    note: Option<String>,
    codecs: Vec<String>,
    chunks_stored: u64,
    bytes_stored: u64,
}

/// The JSON of a plan, version 1.
#[derive(Debug, Serialize)]
struct PlanOutput {
    schema_version: u32,
    dry_run: bool,
    source: String,
    destination: String,
    units: usize,
    jobs: usize,
    #[serde(flatten)]
    totals: Totals,
    /// Chunks and metadata documents.
    objects_written: u64,
    absent_bytes: u64,
    /// From a sample of chunks: the whole copy's encoded bytes, and the seconds without writing and verifying.
    estimated_bytes_encoded: Option<u64>,
    estimated_seconds: Option<f64>,
    scratch_bytes: u64,
    requests: u64,
    free_bytes: Option<u64>,
    arrays: Vec<ArrayOutput>,
}

fn array_output(array: &ArrayCopy) -> ArrayOutput {
    ArrayOutput {
        path: array.source.path.clone(),
        strategy: array.strategy,
        why: array.why.clone(),
        note: array.note.clone(),
        codecs: array.target.metadata.codecs.iter().map(CodecSpec::to_string).collect(),
        chunks_stored: array.stored.len(),
        bytes_stored: array.stored_bytes,
    }
}

fn strategy_name(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::CopyBytes => "copy bytes",
        Strategy::Recode => "recode",
        Strategy::Unshard => "unshard",
    }
}

/// Prints the plan.
pub(crate) fn emit_plan(
    shell: &Shell,
    args: &RecompressArgs,
    source: &Hierarchy,
    plan: &CopyPlan,
    costs: &Costs,
) -> anyhow::Result<()> {
    let documents = metadata_documents(plan, source, args.consolidate.into());
    let output = PlanOutput {
        schema_version: 1,
        dry_run: true,
        source: source.url.clone(),
        destination: args.destination.to_string(),
        units: plan.units.len(),
        jobs: plan.jobs,
        totals: plan.totals,
        objects_written: plan.totals.chunks_written + documents.len() as u64,
        absent_bytes: costs.absent_bytes,
        estimated_bytes_encoded: costs.estimate.map(|estimate| estimate.bytes_encoded),
        estimated_seconds: costs.estimate.map(|estimate| estimate.time.as_secs_f64()),
        scratch_bytes: 0,
        requests: if args.source.local_path().is_some() { 0 } else { plan.totals.chunks_read },
        free_bytes: costs.free_bytes,
        arrays: plan.arrays.iter().map(array_output).collect(),
    };
    let mut facts = Facts::new();
    facts.fact("source", &output.source);
    facts.fact("destination", format!("{} (nothing is written: --dry-run)", output.destination));
    facts.fact(
        "to read",
        format!(
            "{} in {}",
            format::bytes(plan.totals.bytes_read),
            format::counted(plan.totals.chunks_read, "chunk", "chunks")
        ),
    );
    facts.fact("to decode", format::bytes(plan.totals.bytes_decoded));
    facts.fact("to write", format::counted(output.objects_written, "object", "objects"));
    if let Some(estimate) = &costs.estimate {
        let sample = format::counted(estimate.sampled_chunks, "sampled chunk", "sampled chunks");
        facts.fact(
            "about",
            format!("{} in the copy, going by {sample}", format::bytes(estimate.bytes_encoded)),
        );
        facts.fact(
            "time",
            format!("about {}, and what writing and verifying take", format::duration(estimate.time)),
        );
    }
    if plan.totals.absent_written > 0 {
        facts.fact(
            "of these",
            format!(
                "{} that the source leaves out, {} on disk",
                format::counted(plan.totals.absent_written, "chunk", "chunks"),
                format::bytes(costs.absent_bytes)
            ),
        );
    }
    facts.fact(
        "memory",
        format!(
            "{} for {}",
            format::bytes(plan.totals.memory_bytes),
            format::counted(plan.jobs as u64, "thread", "threads")
        ),
    );
    facts.fact("units", format::count(plan.units.len() as u64));
    if let Some(free) = costs.free_bytes {
        facts.fact("free space", format::bytes(free));
    }
    let mut document = Document::new();
    document.facts(facts).table(array_table(plan));
    shell.emit(&document, &output)
}

fn array_table(plan: &CopyPlan) -> Table {
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

/// Prints what was done.
pub(crate) fn emit_done(
    shell: &Shell,
    args: &RecompressArgs,
    source: &Hierarchy,
    plan: &CopyPlan,
    done: &Done,
) -> anyhow::Result<()> {
    let meter = shell.observer().meter();
    let copied = plan.arrays.iter().filter(|array| array.strategy == Strategy::CopyBytes).count();
    let output = DoneOutput {
        schema_version: 1,
        source: source.url.clone(),
        destination: args.destination.to_string(),
        complete: true,
        arrays_written: plan.arrays.len() - copied,
        arrays_copied: copied,
        objects_written: meter.objects_written.get(),
        bytes_read: done.written.bytes_read,
        bytes_decoded: done.written.bytes_decoded,
        bytes_encoded: meter.bytes_encoded.get(),
        bytes_written: meter.bytes_written.get(),
        requests: done.requests.0,
        retries: done.requests.1,
        seconds: Seconds {
            total: done.total_time.as_secs_f64(),
            plan: done.plan_time.as_secs_f64(),
            read: meter.read_time.seconds(),
            decode: meter.decode_time.seconds(),
            assemble: meter.assemble_time.seconds(),
            encode: meter.encode_time.seconds(),
            write: meter.write_time.seconds(),
            verify: meter.verify_time.seconds(),
        },
        peak_memory_bytes: zkit_cli::memory::peak_rss_bytes(),
        verified: VerifiedOutput {
            mode: match args.verify {
                VerifyArg::None => "none",
                VerifyArg::Sample => "sample",
                VerifyArg::Full => "full",
            },
            objects: done.written.verified.chunks,
            bytes: done.written.verified.bytes,
        },
        remaining_units: 0,
        arrays: plan.arrays.iter().map(array_output).collect(),
    };
    shell.emit(&document(&output, plan, done), &output)
}

fn document(output: &DoneOutput, plan: &CopyPlan, done: &Done) -> Document {
    let stored: u64 = plan.arrays.iter().map(|array| array.stored_bytes).sum();
    let mut facts = Facts::new();
    facts.fact("source", format!("{}, {}", output.source, format::bytes(stored)));
    facts.fact("copy", format!("{}, {}", output.destination, format::bytes(output.bytes_written)));
    facts.fact("size", format!("{} of the source", format::percent(output.bytes_written, stored)));
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
            format::counted(output.verified.objects, "chunk", "chunks")
        ),
    };
    facts.fact("verified", verified);
    let seconds = &output.seconds;
    facts.fact(
        "time",
        format!(
            "{}; over all threads: read {:.1} s, decode {:.1} s, encode {:.1} s, write {:.1} s",
            format::duration(done.total_time),
            seconds.read,
            seconds.decode,
            seconds.encode,
            seconds.write
        ),
    );
    let mut document = Document::new();
    document.facts(facts);
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
    document
}
