//! `zkit audit`: what is wrong with a store, or with the stores of a cache.
//!
//! `gather` observes a store as closely as was asked for, the rules of `zkit-rules` judge it, and `json` and `text` say
//! what they found.

mod args;
mod explain;
mod gather;
mod json;
mod text;

use std::time::SystemTime;

use zkit_cli::{Command, Exit, Shell};
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::location::StoreUrl;
use zkit_report::{Finding, Severity};
use zkit_rules::observe::CacheObservation;
use zkit_rules::policy::{FailOn, Policy};
use zkit_rules::summary::StoreSummary;
use zkit_rules::{Depth, check_cache, check_store};

pub use args::AuditArgs;

/// The command.
#[derive(Debug)]
pub struct Audit;

impl Command for Audit {
    const NAME: &'static str = "audit";
    type Args = AuditArgs;

    fn run(args: &AuditArgs, shell: &Shell) -> anyhow::Result<Exit> {
        if let Some(name) = &args.explain {
            let rule = explain::rule(name)?;
            shell.emit(&explain::document(rule), &explain::value(rule))?;
            return Ok(Exit::Done);
        }
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
        let (mut stores, mut findings) = (Vec::new(), Vec::new());
        let mut complete = true;
        for path in &args.paths {
            let (summary, found, whole) = audit_store(&path.parse()?, args, shell, &run)?;
            complete &= whole;
            stores.push(summary);
            findings.extend(found);
        }
        if stores.len() > 1 {
            let cache = CacheObservation { url: &args.paths[0], stores: &stores, policy: &policy };
            findings.extend(check_cache(&cache));
        }
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        shell.emit(&text::document(&stores, &findings), &json::Output::new(&stores, &findings, complete))?;
        let fail_on = policy.fail_on.unwrap_or(FailOn::Error);
        let exit = if findings.iter().any(|finding| fail_on.takes(finding.severity)) {
            Exit::Findings
        } else {
            Exit::Done
        };
        Ok(if complete { exit } else { exit.worst(Exit::Incomplete) })
    }
}

/// Audits one store; returns what is kept of it, what was found, and whether all of it could be read.
fn audit_store(
    url: &StoreUrl,
    args: &AuditArgs,
    shell: &Shell,
    run: &gather::Run<'_>,
) -> anyhow::Result<(StoreSummary, Vec<Finding>, bool)> {
    let hierarchy = Hierarchy::open(url, &args.stores.store_options(shell))?;
    let nodes: Vec<&ArrayNode> = args.select.take(hierarchy.arrays.iter().collect())?;
    let observed = gather::observe(&hierarchy, &nodes, run)?;
    let findings = check_store(&observed);
    let unreadable =
        observed.arrays.iter().filter_map(|array| array.survey.as_ref()).any(|survey| survey.unreadable);
    let complete = !hierarchy.unreadable && !unreadable;
    debug_assert!(findings.iter().all(|finding| finding.severity >= Severity::Info));
    Ok((StoreSummary::of(&observed), findings, complete))
}
