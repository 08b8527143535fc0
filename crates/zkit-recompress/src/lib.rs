//! `zkit recompress`: copies of whole stores with other chunks, another codec or format, proven equal.

mod args;
mod extrapolated;
mod header;
mod layout_args;
mod settings;
mod source;
mod targets;

use std::time::Instant;

use zkit_cli::writing::{self, Done, Earlier, Job, Own, Reach, Run, VerifyArg};
use zkit_cli::{Command, Exit, Shell};
use zkit_core::engine::{Resources, Verify};
use zkit_core::error::Error;
use zkit_core::event::Event;
use zkit_core::hierarchy::Hierarchy;
use zkit_core::plan::{self, ArrayCopy, CopyPlan, SourceKind, Wanted, WantedStore, Wish};
use zkit_core::publish::PartialStore;

pub use self::args::RecompressArgs;
use self::args::{DEFAULT_CODEC, Route};
use self::extrapolated::{Extrapolation, LeftOut};
use self::layout_args::Layouts;
use self::source::Source;
use self::targets::Chosen;

/// The command.
#[derive(Debug)]
pub struct Recompress;

impl Command for Recompress {
    const NAME: &'static str = "recompress";
    type Args = RecompressArgs;

    fn run(args: &RecompressArgs, shell: &Shell) -> anyhow::Result<Exit> {
        let started = Instant::now();
        shell.stop_after(args.resources.deadline);
        shell.watch_stalls(args.access.stall_timeout);
        let routes = args.routes()?;
        let layouts = args.layout.layouts(shell)?;
        shell.observer().event(Event::Phase("planning"));
        let sources = open_sources(args, &layouts, routes, shell)?;
        let wishes = Wishes::new(args, layouts, &sources, shell)?;
        let resumed = wishes.resume(sources)?;
        if resumed.sources.is_empty() {
            writing::emit_already_done(shell, &args.destination_text(), &resumed.already_done)?;
            return Ok(Exit::Done);
        }
        let chosen = wishes.choose(&resumed)?;
        let plan = wishes.plan(&resumed.sources, &chosen)?;
        wishes.carry_out(resumed, &chosen, &plan, started)
    }
}

/// Opens and lists the stores that are to be copied.
fn open_sources(
    args: &RecompressArgs,
    layouts: &Layouts,
    routes: Vec<Route>,
    shell: &Shell,
) -> anyhow::Result<Vec<Source>> {
    let sources = routes
        .into_iter()
        .map(|route| Source::open(args, route, shell))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let nodes = sources.iter().flat_map(|source| source.arrays.iter().map(|listed| &listed.array));
    layouts.check_dimensions(nodes.clone())?;
    layouts.warn_of_unused(nodes.map(|node| node.path.as_str()), shell);
    Ok(sources)
}

/// What is wished of the copies, and what there is for it.
struct Wishes<'a> {
    args: &'a RecompressArgs,
    layouts: Layouts,
    resources: Resources,
    reach: Reach<'a>,
    shell: &'a Shell,
}

/// What earlier runs left.
struct Resumed {
    /// The sources whose copies are not published yet.
    sources: Vec<Source>,
    /// The partial stores that are gone on with, one for each of them.
    partials: Vec<Option<PartialStore>>,
    /// Destinations that an earlier run had published.
    already_done: Vec<String>,
}

impl<'a> Wishes<'a> {
    fn new(
        args: &'a RecompressArgs,
        layouts: Layouts,
        sources: &[Source],
        shell: &'a Shell,
    ) -> Result<Self, Error> {
        let resources = Resources {
            memory_bytes: args.resources.memory_budget().bytes,
            jobs: args.resources.jobs().get(),
        };
        let destinations: Vec<_> = sources.iter().map(|source| &source.destination).collect();
        let options = args.access.store_options(shell)?;
        let reach = Reach::open(&destinations, options, resources.memory_bytes, shell)?;
        Ok(Self { args, layouts, resources, reach, shell })
    }

    /// Goes on with what earlier runs left, with --resume; takes sources away whose copies are published.
    fn resume(&self, sources: Vec<Source>) -> anyhow::Result<Resumed> {
        let mut resumed = Resumed { sources: Vec::new(), partials: Vec::new(), already_done: Vec::new() };
        for source in sources {
            let earlier = writing::resume(
                &self.args.write,
                &self.reach.destination(&source.destination),
                &|before| header::header(self.args, &self.layouts, &source, (&[], Some(before))),
                &|verify| self.is_published(&source, verify),
            )?;
            let partial = match earlier {
                Earlier::Published => {
                    resumed.already_done.push(source.destination.to_string());
                    continue;
                }
                Earlier::Unfinished(partial) => Some(*partial),
                Earlier::Nothing => None,
            };
            resumed.partials.push(partial);
            resumed.sources.push(source);
        }
        Ok(resumed)
    }

    /// Returns whether what is at a destination is the copy that is asked for.
    fn is_published(&self, source: &Source, verify: Verify) -> anyhow::Result<bool> {
        let one = std::slice::from_ref(source);
        let (chosen, _) = targets::unmeasured(self.args, &self.layouts, one)?;
        let plan = self.plan(one, &chosen)?;
        let jobs = self.jobs(one)?;
        let destination = self.args.destination_text();
        self.run(&jobs, &plan, &destination, &|_| Ok(())).is_published(0, &self.reach, &DEFAULT_CODEC, verify)
    }

    /// Returns what each array is to become; codecs that an earlier run chose by measuring are taken over.
    fn choose(&self, resumed: &Resumed) -> anyhow::Result<Vec<Vec<Chosen>>> {
        let memory_bytes = self.resources.memory_bytes;
        let mut chosen =
            targets::choose(self.args, &self.layouts, &resumed.sources, memory_bytes, self.shell)?;
        for (chosen, partial) in chosen.iter_mut().zip(&resumed.partials) {
            if let Some(partial) = partial {
                targets::take_over(chosen, partial.header())?;
            }
        }
        Ok(chosen)
    }

    fn plan(&self, sources: &[Source], chosen: &[Vec<Chosen>]) -> Result<CopyPlan, Error> {
        let wanted = sources.iter().zip(chosen).map(|(source, chosen)| WantedStore {
            reviewed: source.reviewed.clone(),
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
        let destinations: Vec<_> = sources.iter().map(|source| &source.destination).collect();
        let wish = Wish {
            scratch_bytes: self.args.write.scratch_bytes(&destinations),
            format: self.args.write.zarr_format.format(),
            memory_bytes: self.resources.memory_bytes,
            upload_bytes: self.reach.upload_bytes(),
            jobs: self.resources.jobs,
            source: if remote { SourceKind::Remote } else { SourceKind::Local },
        };
        plan::plan_copy(wanted.collect(), &wish)
    }

    /// Says what the plan costs, or copies, proves and publishes.
    fn carry_out(
        &self,
        resumed: Resumed,
        chosen: &[Vec<Chosen>],
        plan: &CopyPlan,
        started: Instant,
    ) -> anyhow::Result<Exit> {
        let Resumed { mut sources, partials, already_done } = resumed;
        let left_out = self.left_out(&mut sources)?;
        let (jobs, destination) = (self.jobs(&sources)?, self.args.destination_text());
        let unchanged = |store: usize| sources[store].check_unchanged(self.args, self.shell);
        let audit = |store: usize, copy: &Hierarchy| match self.args.write.verify {
            VerifyArg::None => Ok(()),
            VerifyArg::Sample | VerifyArg::Full => sources[store].check_documents(copy),
        };
        let run = Run { audit: &audit, ..self.run(&jobs, plan, &destination, &unchanged) };
        let codec_reasons: Vec<_> = chosen.iter().flatten().map(|chosen| chosen.why.clone()).collect();
        if self.args.write.dry_run {
            let costs = run.costs(&self.reach)?;
            let own =
                Own { facts: came_along(&sources).into_iter().collect(), ..Own::of_codecs(&codec_reasons) };
            writing::emit_plan(&run, &costs, &own)?;
            return Ok(Exit::Done);
        }
        let partials = run.begin(partials, &self.reach, &|store| {
            header::header(self.args, &self.layouts, &sources[store], (&chosen[store], None))
        })?;
        let plan_time = started.elapsed();
        let written = run.write(partials)?;
        let done = Done { plan_time, total_time: started.elapsed(), written, already_done };
        let extrapolation =
            Extrapolation::of(&sources, plan, &done, &left_out, self.shell.observer().meter());
        let own = Own {
            codec_reasons: &codec_reasons,
            facts: came_along(&sources).into_iter().chain(extrapolation.facts()).collect(),
            fields: extrapolation,
            tables: Vec::new(),
        };
        writing::emit_done(&run, &done, &own)?;
        Ok(if done.written.corrupt.is_empty() { Exit::Done } else { Exit::Findings })
    }

    /// Plans what --first leaves out.
    fn left_out(&self, sources: &mut [Source]) -> anyhow::Result<LeftOut> {
        if sources.iter().all(|source| source.left_out.is_empty()) {
            return Ok(LeftOut::default());
        }
        let exchange = |sources: &mut [Source]| {
            sources.iter_mut().for_each(|source| std::mem::swap(&mut source.arrays, &mut source.left_out));
        };
        exchange(sources);
        let planned = targets::unmeasured(self.args, &self.layouts, sources)
            .and_then(|(chosen, _)| self.plan(sources, &chosen));
        exchange(sources);
        let plan = planned?;
        let documents = |array: &ArrayCopy| array.target.metadata.documents().len() as u64;
        let decoded = |array: &ArrayCopy| array.stored.len().saturating_mul(array.decoded_chunk_bytes());
        Ok(LeftOut {
            decoded_bytes: plan.arrays.iter().map(decoded).fold(0, u64::saturating_add),
            stored_bytes: plan.arrays.iter().map(|array| array.stored_bytes).fold(0, u64::saturating_add),
            objects: plan.totals.chunks_written + plan.arrays.iter().map(documents).sum::<u64>(),
        })
    }

    fn jobs<'s>(&self, sources: &'s [Source]) -> Result<Vec<Job<'s>>, Error> {
        sources.iter().map(|source| source.job(&self.args.write)).collect()
    }

    fn run<'r>(
        &'r self,
        jobs: &'r [Job<'r>],
        plan: &'r CopyPlan,
        destination: &'r str,
        unchanged: &'r dyn Fn(usize) -> Result<(), Error>,
    ) -> Run<'r> {
        Run {
            args: &self.args.write,
            jobs,
            destination,
            plan,
            resources: self.resources,
            on_corrupt: self.args.on_corrupt.into(),
            unchanged,
            audit: &|_, _| Ok(()),
            shell: self.shell,
        }
    }
}

/// Says which arrays were taken that --include does not name.
fn came_along(sources: &[Source]) -> Option<(String, String)> {
    const NAMED_MOST: usize = 8;
    let mut paths: Vec<&str> =
        sources.iter().flat_map(|source| source.came_along.iter().map(String::as_str)).collect();
    paths.sort_unstable();
    paths.dedup();
    let named = paths.iter().take(NAMED_MOST).copied().collect::<Vec<_>>().join(", ");
    let more = paths.len().saturating_sub(NAMED_MOST);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!paths.is_empty())
        .then(|| ("also copied".to_owned(), format!("{named}{more}: they describe what --include names")))
}
