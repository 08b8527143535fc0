//! `zkit recompress`: copies of whole stores with other chunks, another codec or format, proven equal.

mod args;
mod extrapolated;
mod header;
mod layout_args;
mod settings;
mod source;
mod targets;

use std::time::Instant;

use zkit_cli::writing::{self, Done, Earlier, Job, Own, Reach, Run};
use zkit_cli::{Command, Exit, Shell};
use zkit_core::engine::Resources;
use zkit_core::error::Error;
use zkit_core::event::Event;
use zkit_core::plan::{self, CopyPlan, SourceKind, Wanted, WantedStore, Wish};
use zkit_core::publish::PartialStore;

pub use self::args::RecompressArgs;
use self::args::{DEFAULT_CODEC, Route};
use self::extrapolated::Extrapolation;
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
                &|| header::header(self.args, &self.layouts, &source, &[]),
                &|| self.is_published(&source),
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
    fn is_published(&self, source: &Source) -> anyhow::Result<bool> {
        let one = std::slice::from_ref(source);
        let (chosen, _) = targets::unmeasured(self.args, &self.layouts, one)?;
        let plan = self.plan(one, &chosen)?;
        let jobs = self.jobs(one)?;
        self.run(&jobs, &plan, &self.args.destination_text()).is_published(0, &self.reach, &DEFAULT_CODEC)
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
        let Resumed { sources, partials, already_done } = resumed;
        let (jobs, destination) = (self.jobs(&sources)?, self.args.destination_text());
        let run = self.run(&jobs, plan, &destination);
        let codec_reasons: Vec<_> = chosen.iter().flatten().map(|chosen| chosen.why.clone()).collect();
        if self.args.write.dry_run {
            let costs = run.costs(&self.reach)?;
            writing::emit_plan(&run, &costs, &Own::of_codecs(&codec_reasons))?;
            return Ok(Exit::Done);
        }
        let partials = run.begin(partials, &self.reach, &|store| {
            header::header(self.args, &self.layouts, &sources[store], &chosen[store])
        })?;
        let plan_time = started.elapsed();
        let written = run.write(partials)?;
        let done = Done { plan_time, total_time: started.elapsed(), written, already_done };
        let extrapolation = Extrapolation::of(&sources, plan, &done, self.shell.observer().meter());
        let own = Own {
            codec_reasons: &codec_reasons,
            facts: extrapolation.facts(),
            fields: extrapolation,
            tables: Vec::new(),
        };
        writing::emit_done(&run, &done, &own)?;
        Ok(if done.written.corrupt.is_empty() { Exit::Done } else { Exit::Findings })
    }

    fn jobs<'s>(&self, sources: &'s [Source]) -> Result<Vec<Job<'s>>, Error> {
        sources.iter().map(|source| source.job(&self.args.write)).collect()
    }

    fn run<'r>(&'r self, jobs: &'r [Job<'r>], plan: &'r CopyPlan, destination: &'r str) -> Run<'r> {
        Run {
            args: &self.args.write,
            jobs,
            destination,
            plan,
            resources: self.resources,
            on_corrupt: self.args.on_corrupt.into(),
            audit: &|_, _| Ok(()),
            shell: self.shell,
        }
    }
}
