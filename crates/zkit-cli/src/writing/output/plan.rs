//! What `--dry-run` says.

use std::time::Duration;

use serde::Serialize;
use zkit_core::plan::{CopyPlan, Totals};
use zkit_core::publish::metadata_documents;
use zkit_core::store::Store;
use zkit_report::{Document, Facts, format};

use super::Own;
use super::arrays::{self, ArrayOutput};
use super::left_out::{self, LeftOutOutput};
use crate::writing::costs::Costs;
use crate::writing::run::Run;

/// The JSON of a plan, version 1.
#[derive(Debug, Serialize)]
struct PlanOutput<'a, Fields> {
    schema_version: u32,
    dry_run: bool,
    source: String,
    sources: Vec<String>,
    destination: String,
    /// The same for the same plan, whatever machine makes it.
    plan_hash: String,
    units: usize,
    jobs: usize,
    #[serde(flatten)]
    totals: Totals,
    /// Chunks and metadata documents.
    objects_written: u64,
    absent_bytes: u64,
    /// From samples: the whole copy's encoded bytes, and the seconds without verifying.
    estimated_bytes_encoded: Option<u64>,
    estimated_seconds: Option<f64>,
    /// What the destination takes, by a short probe.
    files_per_second: Option<f64>,
    write_bytes_per_second: Option<f64>,
    requests: u64,
    free_bytes: Option<u64>,
    /// What of the sources the copy will not have.
    left_out: Vec<LeftOutOutput>,
    #[serde(flatten)]
    own: &'a Fields,
    arrays: Vec<ArrayOutput>,
}

/// Prints the plan, and nothing is written: what `--dry-run` asks for.
pub fn emit_plan<Fields: Serialize>(
    run: &Run<'_>,
    costs: &Costs,
    own: &Own<'_, Fields>,
) -> anyhow::Result<()> {
    let plan = run.plan;
    let documents: usize = run
        .jobs
        .iter()
        .enumerate()
        .map(|(store, job)| metadata_documents(plan, store, job.consolidate).len())
        .sum();
    let remote = run.source_stores().any(Store::is_remote);
    let sources = run.sources();
    let output = PlanOutput {
        schema_version: 1,
        dry_run: true,
        source: sources.first().cloned().unwrap_or_default(),
        sources,
        destination: run.destination.to_owned(),
        plan_hash: format!("{:016x}", plan.hash()),
        units: plan.units.len(),
        jobs: plan.jobs,
        totals: plan.totals,
        objects_written: plan.totals.chunks_written + documents as u64,
        absent_bytes: costs.absent_bytes,
        estimated_bytes_encoded: costs.estimate.map(|estimate| estimate.bytes_encoded),
        estimated_seconds: costs.seconds(plan),
        files_per_second: costs.probe.map(|probe| probe.files_per_second),
        write_bytes_per_second: costs.probe.map(|probe| probe.bytes_per_second),
        requests: if remote { plan.totals.chunks_read } else { 0 },
        free_bytes: costs.free_bytes,
        left_out: left_out::outputs(plan),
        own: &own.fields,
        arrays: arrays::outputs(run, own.codec_reasons),
    };
    let mut document = Document::new();
    document.facts(facts(&output, plan, costs, &own.facts));
    document.facts(arrays::codec_facts(plan, own.codec_reasons));
    own.tables.iter().for_each(|table| {
        document.table(table.clone());
    });
    document.table(arrays::table(plan));
    document.table(left_out::table(&output.left_out));
    run.shell.emit(&document, &output)
}

fn facts<Fields>(
    output: &PlanOutput<'_, Fields>,
    plan: &CopyPlan,
    costs: &Costs,
    own: &[(String, String)],
) -> Facts {
    let mut facts = Facts::new();
    match output.sources.as_slice() {
        [one] => facts.fact("source", one),
        many => facts.fact("sources", format::counted(many.len() as u64, "store", "stores")),
    };
    facts.fact("destination", format!("{} (nothing is written: --dry-run)", output.destination));
    for (key, value) in own {
        facts.fact(key, value);
    }
    let totals = &plan.totals;
    facts.fact(
        "to read",
        format!(
            "{}{} in {}",
            arrays::about(&plan.arrays),
            format::bytes(totals.bytes_read),
            format::counted(totals.chunks_read, "chunk", "chunks")
        ),
    );
    facts.fact("to decode", format::bytes(totals.bytes_decoded));
    facts.fact("to write", format::counted(output.objects_written, "object", "objects"));
    if let Some(estimate) = &costs.estimate {
        facts.fact(
            "about",
            format!(
                "{} in the copy, going by a sample of {}",
                format::bytes(estimate.bytes_encoded),
                format::bytes(estimate.sampled_bytes)
            ),
        );
    }
    if let Some(seconds) = output.estimated_seconds {
        let seconds = Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
        facts.fact("time", format!("about {}, and what verifying takes", format::duration(seconds)));
    }
    if let Some(probe) = &costs.probe {
        let rate = format!(
            "takes {:.0} files or {:.0} MB a second from one thread",
            probe.files_per_second,
            probe.bytes_per_second / 1e6
        );
        facts.fact("disk", rate);
    }
    if costs.files_dominate(plan) {
        facts.fact(
            "advice",
            "creating files takes most of the time: larger --chunks, or --shards auto with --zarr-format 3",
        );
    }
    if totals.absent_written > 0 {
        facts.fact(
            "of these",
            format!(
                "{} that the source leaves out, {} on disk",
                format::counted(totals.absent_written, "chunk", "chunks"),
                format::bytes(costs.absent_bytes)
            ),
        );
    }
    facts.fact(
        "memory",
        format!(
            "{} for {}",
            format::bytes(totals.memory_bytes),
            format::counted(plan.jobs as u64, "thread", "threads")
        ),
    );
    if totals.scratch_bytes > 0 {
        facts.fact("scratch", format::bytes(totals.scratch_bytes));
    }
    facts.fact("units", format::count(plan.units.len() as u64));
    if let Some(free) = costs.free_bytes {
        facts.fact("free space", format::bytes(free));
    }
    facts
}
