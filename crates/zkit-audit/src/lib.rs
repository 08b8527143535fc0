//! `zkit audit`: what is wrong with a store, or with the stores of a cache.
//!
//! `gather` observes a store as closely as was asked for, the rules of `zkit-rules` judge it, and `report` says what they
//! found.

mod args;
mod explain;
mod gather;
mod report;

use std::time::SystemTime;

use zkit_cli::args::Format;
use zkit_cli::{Command, Exit, Shell};
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::location::StoreUrl;
use zkit_report::Report;
use zkit_rules::observe::CacheObservation;
use zkit_rules::policy::Policy;
use zkit_rules::summary::StoreSummary;
use zkit_rules::{Depth, check_cache, check_store};

pub use args::AuditArgs;

/// The command.
#[derive(Debug)]
pub struct Audit;

impl Command for Audit {
    const NAME: &'static str = "audit";
    type Args = AuditArgs;
    const FORMATS: &'static [Format] = Format::REPORTS;

    fn run(args: &AuditArgs, shell: &Shell) -> anyhow::Result<Exit> {
        if let Some(name) = &args.explain {
            let rule = explain::rule(name)?;
            shell.emit(&explain::document(rule), &explain::value(rule))?;
            return Ok(Exit::Done);
        }
        let files = args.reports.open()?;
        shell.stop_after(args.resources.deadline);
        shell.watch_stalls(args.stores.stall_timeout);
        if let Some(jobs) = args.resources.jobs {
            // fails only if the pool exists already, in which case its size stays
            let _ = rayon::ThreadPoolBuilder::new().num_threads(jobs.get()).build_global();
        }
        let policy = Policy::default();
        let depth = args.depth.or(policy.depth).unwrap_or(Depth::Sample);
        let run = gather::Run {
            depth,
            policy: &policy,
            now: SystemTime::now(),
            observer: shell.observer(),
            cancel: shell.cancel(),
        };
        let mut report = report::begin(&policy, depth);
        let mut stores = Vec::new();
        for path in &args.paths {
            stores.push(audit_store(&path.parse()?, args, shell, &run, &mut report)?);
        }
        let of_cache = if stores.len() > 1 {
            check_cache(&CacheObservation { url: &args.paths[0], stores: &stores, policy: &policy })
        } else {
            Vec::new()
        };
        report::finish(&mut report, of_cache);
        files.write(&report)?;
        shell.emit_report(&report)?;
        let fails = report.findings.iter().any(|finding| report.fails(finding));
        let exit = if fails { Exit::Findings } else { Exit::Done };
        Ok(if report.complete { exit } else { exit.worst(Exit::Incomplete) })
    }
}

/// Audits one store, adds what was found to the report, and returns what is kept of the store.
fn audit_store(
    url: &StoreUrl,
    args: &AuditArgs,
    shell: &Shell,
    run: &gather::Run<'_>,
    report: &mut Report,
) -> anyhow::Result<StoreSummary> {
    let hierarchy = Hierarchy::open(url, &args.stores.store_options(shell))?;
    let nodes: Vec<&ArrayNode> = args.select.take(hierarchy.arrays.iter().collect())?;
    let observed = gather::observe(&hierarchy, &nodes, run)?;
    let findings = check_store(&observed);
    let unreadable =
        observed.arrays.iter().filter_map(|array| array.survey.as_ref()).any(|survey| survey.unreadable);
    let summary = StoreSummary::of(&observed);
    report::add_store(report, &observed, &summary, findings, !hierarchy.unreadable && !unreadable);
    Ok(summary)
}
