//! `zkit recompress`: copies of whole stores with other chunks, another codec or format, proven equal.

mod args;
mod codec;
mod dry_run;
mod layout_args;
mod output;
mod run;
mod settings;
mod source;
mod targets;

use std::time::{Duration, Instant};

use zkit_cli::{Command, Exit, Shell};
use zkit_core::engine::{self, Resources};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_core::plan::{self, CopyPlan, SourceKind, Wanted, WantedStore, Wish};
use zkit_core::publish::{self, PartialStore, Unfinished};
use zkit_core::store::{RemoteStore, Store, UploadRoom};
use zkit_core::units::Bytes;

pub use self::args::RecompressArgs;
use self::layout_args::Layouts;
use self::run::{Begun, Run, Written};
use self::source::{Access, Source};
use self::targets::Chosen;

/// The command.
#[derive(Debug)]
pub struct Recompress;

/// One part in so many of the memory is for chunks that are on their way to buckets.
const UPLOAD_SHARE: u64 = 4;

/// What a finished run has to tell beside its counters.
struct Done {
    plan_time: Duration,
    total_time: Duration,
    written: Written,
    /// Requests to remote stores, and how many of them were tried again.
    requests: (u64, u64),
    /// Destinations that an earlier run had published.
    already_done: Vec<String>,
}

impl Command for Recompress {
    const NAME: &'static str = "recompress";
    type Args = RecompressArgs;

    fn run(args: &RecompressArgs, shell: &Shell) -> anyhow::Result<Exit> {
        let started = Instant::now();
        shell.stop_after(args.resources.deadline);
        shell.watch_stalls(args.access.stall_timeout);
        let jobs = args.jobs()?;
        let layouts = args.layout.layouts()?;
        shell.observer().event(Event::Phase("planning"));
        let mut sources =
            jobs.into_iter().map(|job| Source::open(args, job, shell)).collect::<anyhow::Result<Vec<_>>>()?;
        let nodes: Vec<_> = sources
            .iter()
            .flat_map(|source| source.arrays.iter().map(|listed| listed.array.clone()))
            .collect();
        layouts.check_dimensions(&nodes)?;
        let resources = Resources {
            memory_bytes: args.resources.memory_budget().bytes,
            jobs: args.resources.jobs().get(),
        };
        let access = access(args, &sources, resources, shell)?;
        let mut resumed = resume(args, &layouts, &mut sources, &access, resources, shell)?;
        if sources.is_empty() {
            output::emit_already_done(shell, args, &resumed.already_done)?;
            return Ok(Exit::Done);
        }
        let mut chosen = targets::choose(args, &layouts, &sources, resources.memory_bytes, shell)?;
        for (chosen, partial) in chosen.iter_mut().zip(&resumed.partials) {
            if let Some(partial) = partial {
                run::take_over(chosen, partial.header())?;
            }
        }
        let plan = make_plan(args, &sources, &chosen, resources)?;
        if args.dry_run {
            let costs = dry_run::costs(args, &sources, &access, &plan, shell)?;
            output::emit_plan(shell, args, &sources, &chosen, &plan, &costs)?;
            return Ok(Exit::Done);
        }
        confirm_overwrite(args, &sources, &access, shell)?;
        check_space(args, &sources, &plan)?;
        let mut partials = Vec::with_capacity(sources.len());
        for ((source, chosen), partial) in
            sources.iter().zip(&chosen).zip(std::mem::take(&mut resumed.partials))
        {
            partials.push(match partial {
                Some(partial) => partial,
                None => match begin(args, &layouts, source, &access, chosen)? {
                    Begun::Build(partial) => *partial,
                    Begun::AlreadyDone => return Err(raced(source).into()),
                },
            });
        }
        let plan_time = started.elapsed();
        let run = Run { args, sources: &sources, plan: &plan, resources, shell };
        let written = run.write(partials)?;
        let requests = sources.iter().filter_map(|source| source.store().ok()).map(Store::requests);
        let requests = requests.fold(written.requests, |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let done = Done {
            plan_time,
            total_time: started.elapsed(),
            written,
            requests,
            already_done: resumed.already_done,
        };
        output::emit_done(shell, args, &sources, &chosen, &plan, &done)?;
        Ok(if done.written.corrupt.is_empty() { Exit::Done } else { Exit::Findings })
    }
}

/// What earlier runs left.
struct Resumed {
    /// The partial stores that are gone on with, one for each source that is left.
    partials: Vec<Option<PartialStore>>,
    /// Destinations that an earlier run had published.
    already_done: Vec<String>,
}

/// Goes on with what earlier runs left, with --resume; takes sources away whose copies are published.
fn resume(
    args: &RecompressArgs,
    layouts: &Layouts,
    sources: &mut Vec<Source>,
    access: &Access<'_>,
    resources: Resources,
    shell: &Shell,
) -> anyhow::Result<Resumed> {
    let mut resumed = Resumed { partials: Vec::new(), already_done: Vec::new() };
    let resumes = args.unfinished() == Unfinished::Resume && !args.dry_run;
    let mut left = Vec::with_capacity(sources.len());
    for source in std::mem::take(sources) {
        let destination = source.destination(access);
        let begun = if resumes && (destination.has_traces()? || destination.exists()?) {
            let header = run::header(args, layouts, &source, &[]);
            let is_the_copy = || {
                let one = std::slice::from_ref(&source);
                let plan = make_plan(args, one, &targets::unmeasured(args, layouts, one)?.0, resources)?;
                run::is_the_copy(args, &source, access, &plan, resources, shell)
            };
            run::begin(args, &source, access, &header, Unfinished::Resume, &is_the_copy)?
        } else {
            None
        };
        match begun {
            Some(Begun::AlreadyDone) => resumed.already_done.push(source.destination.to_string()),
            Some(Begun::Build(partial)) => {
                resumed.partials.push(Some(*partial));
                left.push(source);
            }
            None => {
                resumed.partials.push(None);
                left.push(source);
            }
        }
    }
    *sources = left;
    Ok(resumed)
}

fn begin(
    args: &RecompressArgs,
    layouts: &Layouts,
    source: &Source,
    access: &Access<'_>,
    chosen: &[Chosen],
) -> anyhow::Result<Begun> {
    let header = run::header(args, layouts, source, chosen);
    let unfinished = match args.unfinished() {
        // there was nothing to go on with
        Unfinished::Resume => Unfinished::Refuse,
        other => other,
    };
    run::begin(args, source, access, &header, unfinished, &|| Ok(false))?.ok_or_else(|| raced(source).into())
}

fn raced(source: &Source) -> Error {
    let message = format!("another run published {} at this moment", source.destination);
    Error::new(ErrorKind::Conflict, message).with_hint("look at what it made before you replace it")
}

fn make_plan(
    args: &RecompressArgs,
    sources: &[Source],
    chosen: &[Vec<Chosen>],
    resources: Resources,
) -> anyhow::Result<CopyPlan> {
    let wanted = sources.iter().zip(chosen).map(|(source, chosen)| WantedStore {
        groups: source.hierarchy.groups.clone(),
        arrays: source
            .arrays
            .iter()
            .zip(chosen)
            .map(|(listed, chosen)| Wanted {
                array: listed.array.clone(),
                stored: listed.stored.clone(),
                target: chosen.target.clone(),
            })
            .collect(),
    });
    let remote = sources.iter().any(|source| source.url.local_path().is_none());
    // beside a bucket there is no disk
    let scratch = sources.first().and_then(|source| args.scratch_of(source));
    let scratch_bytes = scratch.map_or(0, |place| {
        args.scratch_size.unwrap_or_else(|| publish::free_bytes(&place).map_or(0, |free| free / 2))
    });
    let wish = Wish {
        scratch_bytes,
        format: args.zarr_format.format(),
        memory_bytes: resources.memory_bytes,
        upload_bytes: upload_bytes(sources, resources),
        jobs: resources.jobs,
        source: if remote { SourceKind::Remote } else { SourceKind::Local },
    };
    Ok(plan::plan_copy(wanted.collect(), &wish)?)
}

/// Returns the part of the budget for chunks that are on their way to buckets.
fn upload_bytes(sources: &[Source], resources: Resources) -> u64 {
    let remote = sources.iter().any(|source| source.destination.local_path().is_none());
    if remote { resources.memory_bytes / UPLOAD_SHARE } else { 0 }
}

/// Returns how the destinations are reached.
fn access<'a>(
    args: &RecompressArgs,
    sources: &[Source],
    resources: Resources,
    shell: &'a Shell,
) -> Result<Access<'a>, Error> {
    let options = args.access.store_options(shell);
    let first = sources.first().map(|source| &source.destination).filter(|url| url.local_path().is_none());
    Ok(Access {
        neighbour: first.map(|url| RemoteStore::open(url, &options)).transpose()?,
        room: UploadRoom::new(upload_bytes(sources, resources), options.timeout),
        options,
        observer: shell.observer(),
    })
}

fn confirm_overwrite(
    args: &RecompressArgs,
    sources: &[Source],
    access: &Access<'_>,
    shell: &Shell,
) -> anyhow::Result<()> {
    if !args.overwrite || args.yes {
        return Ok(());
    }
    let mut there = Vec::new();
    for source in sources {
        if source.destination(access).exists()? {
            there.push(source);
        }
    }
    let Some(first) = there.first() else { return Ok(()) };
    let when = match args.unpublish_first && first.destination.local_path().is_none() {
        true => "before the copy is begun",
        false => "once the copy is complete",
    };
    let question = match there.len() {
        1 => format!("Replace {} {when}?", first.destination),
        many => format!("Replace {} and {} more, each {when}?", first.destination, many - 1),
    };
    if shell.confirm(&question, "pass --yes to replace it without asking")? {
        return Ok(());
    }
    let message = format!("{} was left as it is", first.destination);
    Err(Error::new(ErrorKind::Conflict, message).into())
}

/// Refuses a copy that cannot fit its disk.
fn check_space(args: &RecompressArgs, sources: &[Source], plan: &CopyPlan) -> Result<(), Error> {
    let absent_bytes = engine::absent_bytes(plan)?;
    let first = sources.first();
    let scratch = first.and_then(|source| publish::free_bytes(&args.scratch_of(source)?));
    if let Some(free) = scratch.filter(|&free| plan.totals.scratch_bytes > free) {
        let message = format!(
            "scratch space of {} is needed, {} are free",
            Bytes(plan.totals.scratch_bytes),
            Bytes(free)
        );
        return Err(Error::new(ErrorKind::OverBudget, message)
            .with_hint("pass --scratch with a larger disk, or a smaller --scratch-size"));
    }
    let free = first.and_then(|source| publish::free_bytes(source.destination.local_path()?));
    match free {
        Some(free) if absent_bytes > free => {
            let message = format!(
                "{} absent chunks must be written, as the copy cannot say their fill value: {} on disk, {} are free at {}",
                zkit_report::format::count(plan.totals.absent_written),
                Bytes(absent_bytes),
                Bytes(free),
                args.destination_text()
            );
            Err(Error::new(ErrorKind::Unwritable, message)
                .with_hint("keep the Zarr format, or --exclude the arrays that are mostly absent"))
        }
        _ => Ok(()),
    }
}
