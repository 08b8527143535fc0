//! `zkit audit`: what is wrong with a store, or with the stores of a cache.
//!
//! The stores are found by `zkit_cli::targets`; `gather` observes each as closely as was asked for, the rules of `zkit-rules` judge it,
//! `settings` and `baseline` say what the owner says of it, and `report` says what was found.

mod against;
mod args;
mod baseline;
mod coordinates;
mod explain;
mod follow;
mod gather;
mod places;
mod report;
mod settings;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::SystemTime;

use serde_json::Map;
use zkit_cli::args::Format;
use zkit_cli::values::ArrayFilter;
use zkit_cli::{Command, Exit, Shell};
use zkit_core::engine::Resources;
use zkit_core::error::{Error, ErrorKind};
use zkit_core::hierarchy::ArrayNode;
use zkit_core::location::StoreUrl;
use zkit_report::{ChunkGrid, Confidence, Finding, Report, Severity};
use zkit_rules::observe::CacheObservation;
use zkit_rules::policy::Policy;
use zkit_rules::summary::StoreSummary;
use zkit_rules::{Depth, alike, check_cache, check_store};

pub use args::AuditArgs;
use places::Places;

/// The command.
#[derive(Debug)]
pub struct Audit;

impl Command for Audit {
    const NAME: &'static str = "audit";
    type Args = AuditArgs;
    const FORMATS: &'static [Format] = Format::REPORTS;

    fn run(args: &AuditArgs, shell: &Shell) -> anyhow::Result<Exit> {
        if let Some(name) = &args.explain {
            return explain(name, shell);
        }
        let files = args.reports.open()?;
        shell.stop_after(args.resources.deadline);
        shell.watch_stalls(args.stores.stall_timeout);
        if let Some(jobs) = args.resources.jobs {
            // fails only if the pool exists already, in which case its size stays
            let _ = rayon::ThreadPoolBuilder::new().num_threads(jobs.get()).build_global();
        }
        let policy = settings::policy(args, shell)?;
        let known = baseline::Baseline::load(args.baseline.as_deref())?;
        if known.is_old() {
            shell.hint(
                "this baseline was written by an earlier zkit and holds only for paths that are written as they were then; \
                 write it again with --write-baseline",
            );
        }
        let Outcome { report, hidden, places } = audit_all(args, &policy, &known, shell)?;
        if let Some(path) = &args.write_baseline {
            baseline::write(path, report.findings.iter().chain(&hidden), &places)?;
        }
        files.write(&report)?;
        shell.emit_report(&report)?;
        let fails = report.findings.iter().any(|finding| report.fails(finding));
        let exit = if fails && args.write_baseline.is_none() { Exit::Findings } else { Exit::Done };
        Ok(if report.complete { exit } else { exit.worst(Exit::Incomplete) })
    }
}

fn explain(name: &str, shell: &Shell) -> anyhow::Result<Exit> {
    if name == "all" {
        shell.emit(&explain::list(), &explain::list_value())?;
    } else {
        let rule = explain::rule(name)?;
        shell.emit(&explain::document(rule), &explain::value(rule))?;
    }
    Ok(Exit::Done)
}

/// What one run does with each store.
struct Auditor<'a> {
    args: &'a AuditArgs,
    policy: &'a Policy,
    known: &'a baseline::Baseline,
    places: Places,
    filter: ArrayFilter,
    run: gather::Run<'a>,
}

/// Stores that are looked at side by side at most, and the memory that the metadata of one may take.
const STORES_AT_ONCE: usize = 8;
const STORE_BYTES: u64 = 256 << 20;

/// What came of a run.
struct Outcome {
    report: Report,
    /// The findings that the baseline hides.
    hidden: Vec<Finding>,
    /// What stores are called in baselines.
    places: Places,
}

/// What came of one store.
struct Audited {
    summary: StoreSummary,
    /// The store, its findings and pictures, to be put behind those of the stores before it.
    report: Report,
    /// The findings that the baseline hides.
    hidden: Vec<Finding>,
    /// Arrays that `--include` and `--exclude` take, and all of them.
    arrays_taken: (usize, usize),
}

/// Audits all stores that the arguments name, then those of each path together.
fn audit_all(
    args: &AuditArgs,
    policy: &Policy,
    known: &baseline::Baseline,
    shell: &Shell,
) -> anyhow::Result<Outcome> {
    let options = args.stores.store_options(shell)?;
    let depth = policy.depth.unwrap_or(Depth::Sample);
    let source = args.against.as_ref().map(|url| against::Source::open(url, &options)).transpose()?;
    let (urls, groups) = zkit_cli::targets::of_paths(&args.paths)?;
    let auditor = Auditor {
        args,
        policy,
        known,
        places: Places::of(&urls.iter().map(ToString::to_string).collect::<Vec<_>>()),
        filter: args.arrays.filter(),
        run: gather::Run {
            depth,
            sample: (args.sample, args.seed),
            resources: Resources {
                memory_bytes: args.resources.memory_budget().bytes,
                jobs: args.resources.jobs().get(),
            },
            policy,
            now: SystemTime::now(),
            options,
            follow_references: args.follow_references,
            source: source.as_ref(),
            observer: shell.observer(),
            cancel: shell.cancel(),
        },
    };
    let mut report = report::begin(policy, depth);
    (report.started, report.command) = (report::utc(auditor.run.now), report::command(args, depth));
    report.rules.retain(|rule| auditor.runs(rule.id));
    let (mut summaries, mut opened, mut arrays_taken) = (Vec::new(), Vec::new(), (0, 0));
    let (mut hidden, mut of_group) = (Vec::new(), Vec::new());
    auditor.audit_each(&urls, &mut |at, audited| {
        let url = &urls[at];
        match audited {
            Ok(Audited { summary, report: of_store, hidden: of_baseline, arrays_taken: (taken, all) }) => {
                report::append(&mut report, of_store);
                hidden.extend(of_baseline);
                arrays_taken = (arrays_taken.0 + taken, arrays_taken.1 + all);
                summaries.push(summary);
                of_group.push(&groups[at]);
                opened.push(url);
            }
            // with several stores, one that cannot be opened hides no other
            Err(error)
                if (urls.len() > 1 || target_that_is_gone(url).is_some())
                    && error.kind() != ErrorKind::Cancelled
                    && error.kind() != ErrorKind::Usage =>
            {
                auditor.could_not_open(url, &error, &mut report, &mut hidden);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    if let (true, (0, 1..)) =
        (!args.arrays.include.is_empty() || !args.arrays.exclude.is_empty(), arrays_taken)
    {
        let error = Error::new(ErrorKind::Usage, "--include and --exclude leave no array");
        return Err(error.with_hint("run `zkit inspect` to see the paths of the arrays").into());
    }
    // what was left out on purpose may be what an entry is about
    if args.arrays.include.is_empty() && args.arrays.exclude.is_empty() {
        for entry in policy.without_match(&summaries) {
            shell.warn(format!("{entry} in the settings matches nothing that was audited"));
        }
    }
    // what was read for comparison is kept until here; each group is judged by itself
    let mut caches: BTreeMap<&str, (Vec<StoreSummary>, Vec<&StoreUrl>)> = BTreeMap::new();
    for ((summary, url), group) in summaries.into_iter().zip(opened).zip(of_group) {
        let (stores, urls) = caches.entry(group).or_default();
        stores.push(summary);
        urls.push(url);
    }
    let mut of_caches = Vec::new();
    for (url, (mut stores, urls)) in caches {
        coordinates::compare_rows(&mut stores, &auditor.run, |at| {
            let mut hierarchy = gather::reopen(urls[at], &auditor.run)?;
            gather::read_nodes(&mut hierarchy, &auditor.run)?;
            Ok(hierarchy)
        })?;
        let stores = &stores;
        report.groups.extend(
            alike(stores).into_iter().map(|group| group.iter().map(|store| store.url.clone()).collect()),
        );
        of_caches.extend(check_cache(&CacheObservation { url, stores, policy }));
    }
    hidden.extend(auditor.keep(&mut of_caches));
    report.findings.retain(|finding| !is_said_better(finding, &of_caches));
    report.hidden = hidden.len() as u64;
    report::finish(&mut report, of_caches);
    Ok(Outcome { report, hidden, places: auditor.places })
}

/// Returns whether a note on absent chunks is one of an array of which its peers tell that they are lost.
fn is_said_better(note: &Finding, of_caches: &[Finding]) -> bool {
    const ABSENCE: [&str; 2] = ["absent-chunks", "missing-slab"];
    note.severity == Severity::Info
        && ABSENCE.contains(&note.rule)
        && of_caches.iter().any(|finding| {
            finding.rule == ABSENCE[0] && (&finding.store, &finding.array) == (&note.store, &note.array)
        })
}

impl Auditor<'_> {
    /// Returns whether findings of a rule are wanted.
    fn runs(&self, rule: &str) -> bool {
        let selected = self.args.select.is_empty() || self.args.select.iter().any(|name| name == rule);
        selected && !self.policy.ignore.iter().any(|name| name == rule)
    }

    /// Takes out findings that are not wanted, or known; returns those that are known.
    fn keep(&self, findings: &mut Vec<Finding>) -> Vec<Finding> {
        findings.retain(|finding| self.runs(finding.rule));
        self.known.hide(findings, &self.places)
    }

    /// Audits stores side by side, and hands over what came of each in their order, until that fails.
    fn audit_each(
        &self,
        urls: &[StoreUrl],
        take: &mut dyn FnMut(usize, Result<Audited, Error>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (next, (sender, receiver)) = (AtomicUsize::new(0), mpsc::channel());
        let lane = |sender: Sender<_>| {
            while let Some((at, url)) = urls.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
                let audited = self.run.cancel.check().and_then(|()| self.audit(url, urls.len()));
                if sender.send((at, audited)).is_err() {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.stores_at_once().min(urls.len()) {
                let sender = sender.clone();
                scope.spawn(|| lane(sender));
            }
            drop(sender);
            let mut early = BTreeMap::new();
            let mut turn = 0;
            for (at, audited) in receiver {
                early.insert(at, audited);
                while let Some(audited) = early.remove(&turn) {
                    take(turn, audited)?;
                    turn += 1;
                }
            }
            Ok(())
        })
    }

    /// Returns how many stores are looked at side by side: one where values are read, which share one budget.
    fn stores_at_once(&self) -> usize {
        if self.run.depth > Depth::Headers {
            return 1;
        }
        let Resources { memory_bytes, jobs } = self.run.resources;
        let fitting = usize::try_from(memory_bytes / STORE_BYTES).unwrap_or(STORES_AT_ONCE);
        fitting.min(jobs).clamp(1, STORES_AT_ONCE)
    }

    /// Audits one store of so many.
    fn audit(&self, url: &StoreUrl, stores: usize) -> Result<Audited, Error> {
        let mut hierarchy = gather::open(url, &self.run)?;
        let consolidation = gather::read_nodes(&mut hierarchy, &self.run)?;
        let nodes: Vec<&ArrayNode> =
            hierarchy.arrays.iter().filter(|array| self.filter.takes(&array.path)).collect();
        let arrays_taken = (nodes.len(), hierarchy.arrays.len());
        let observed = gather::observe((&hierarchy, consolidation.as_ref()), url, &nodes, &self.run)?;
        let mut findings = check_store(&observed);
        let hidden = self.keep(&mut findings);
        let summary = StoreSummary::of(&observed);
        let mut report = report::of_store(&observed, &summary, findings, stores);
        values::add_to_report(&mut report, &observed);
        Ok(Audited { summary, report, hidden, arrays_taken })
    }

    /// Adds a store that could not be opened.
    fn could_not_open(&self, url: &StoreUrl, error: &Error, report: &mut Report, hidden: &mut Vec<Finding>) {
        report.complete = false;
        let (rule, message, remedy) = why_not_opened(url, error);
        let mut findings = vec![Finding {
            rule,
            severity: Severity::Error,
            confidence: Confidence::High,
            store: url.to_string(),
            array: None,
            chunks: None,
            grid: ChunkGrid::Stored,
            message,
            evidence: Map::new(),
            remedy,
        }];
        hidden.extend(self.keep(&mut findings));
        report.findings.extend(findings);
        report.stores.push(zkit_report::StoreSummary {
            url: url.to_string(),
            kind: "unknown".to_owned(),
            arrays: 0,
            bytes_stored: None,
            bytes_decoded: None,
            depth: self.run.depth.name(),
            complete: false,
            not_seen: vec!["anything: it could not be opened".to_owned()],
        });
    }
}

/// Returns the rule, the message and the remedy of a store that could not be opened: it may be a link to nothing.
fn why_not_opened(url: &StoreUrl, error: &Error) -> (&'static str, String, Option<String>) {
    if error.kind() == ErrorKind::Unsupported && url.local_path().is_some_and(Path::is_file) {
        return ("not-zarr", error.one_line(), error.hint().map(str::to_owned));
    }
    let Some(target) = target_that_is_gone(url) else {
        return ("unreadable", error.one_line(), error.hint().map(str::to_owned));
    };
    let message = format!("a link to {}, which does not exist", target.display());
    let remedy = "mount what the link leads to, or copy the store itself in its place";
    ("dangling-link", message, Some(remedy.to_owned()))
}

/// Returns where a store leads that is a link to nothing.
fn target_that_is_gone(url: &StoreUrl) -> Option<PathBuf> {
    url.local_path().filter(|path| !path.exists()).and_then(|path| std::fs::read_link(path).ok())
}
