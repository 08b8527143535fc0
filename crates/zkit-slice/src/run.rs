//! The run: a slice is planned, written, proven, audited and published by the driver of all that writes.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;
use zkit_cli::writing::{
    self, CodecChoice, Costs, Done, Earlier, Job, Own, Reach, Run, WriteArgs, Written, groups_text,
};
use zkit_cli::{Command, Exit, Shell};
use zkit_core::engine::{self, Header, JournalArray, OnCorrupt, Resources, Touched};
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::event::Event;
use zkit_core::location::StoreUrl;
use zkit_core::metadata::TargetCodec;
use zkit_core::plan::{self, CopyPlan, SourceKind, WantedSlice, Wish};
use zkit_core::publish::{self, Consolidate, PartialStore};
use zkit_core::store::Store;

use crate::args::SliceArgs;
use crate::audit::{self, Meant};
use crate::batches::{Batches, Measured};
use crate::cache::{self, Building, CacheFields, Looked};
use crate::coordinates::Means;
use crate::found::Found;
use crate::layout::{Layouts, target_of_points};
use crate::reads::Reads;
use crate::scene::{self, Prepared};
use crate::sources::Source;
use crate::split::{Folder, Together};
use crate::stubs;

/// The command.
#[derive(Debug)]
pub struct Slice;

/// The codec where none is passed.
pub(crate) const DEFAULT_CODEC: CodecChoice = CodecChoice::Given(TargetCodec::Keep);

impl Command for Slice {
    const NAME: &'static str = "slice";
    type Args = SliceArgs;

    fn run(args: &SliceArgs, shell: &Shell) -> anyhow::Result<Exit> {
        let started = Instant::now();
        shell.stop_after(args.resources.deadline);
        shell.watch_stalls(args.access.stall_timeout);
        let cached = match cache::look(args, shell, started)? {
            Looked::Uncached => None,
            Looked::Served => return Ok(Exit::Done),
            Looked::Build(building) => Some(building),
        };
        let cached = cached.as_deref();
        let args = cached.map_or(args, |cached| &cached.args);
        args.write.check()?;
        let layouts = Layouts::new(&args.write, &args.layout)?;
        shell.observer().event(Event::Phase("planning"));
        let resources = Resources {
            memory_bytes: args.resources.memory_budget().bytes,
            jobs: args.resources.jobs().get(),
        };
        let pool = engine::pool(resources.jobs)?;
        let means = Means { pool: &pool, resources, observer: shell.observer(), cancel: shell.cancel() };
        let Prepared { sources, literals, slices, together } =
            scene::prepare(args, &cache::store_options(args, cached, shell)?, means)?;
        if cached.is_some() {
            cache::check_sources(&sources)?;
        }
        let together =
            together.map(|slice| slice.wanted(&sources, |array| Ok(target_of_points(array)))).transpose()?;
        let together = together.map(|(wanted, _)| wanted);
        let slices = Slices::new(args, &layouts, (&sources, &literals), slices)?;
        let slices = Slices { cached, together, ..slices };
        slices.run(resources, started, Vec::new(), shell)
    }
}

/// Slices that are to be written, and what they are taken from.
struct Slices<'a> {
    args: &'a SliceArgs,
    cached: Option<&'a Building>,
    sources: &'a [Source],
    literals: &'a Store,
    destinations: Vec<StoreUrl>,
    wanted: Vec<WantedSlice>,
    found: Vec<Found>,
    /// What all slices of --split take, as one store.
    together: Option<WantedSlice>,
    /// Which of the points each slice is.
    points: Vec<usize>,
}

/// What earlier runs left of the slices.
enum Resumed {
    /// Of each its beginnings, if there are any.
    Left(Vec<Option<PartialStore>>),
    /// These are published.
    Published(Vec<usize>),
}

/// What `zkit slice` alone says, for programs.
#[derive(Debug, Serialize)]
struct SliceFields {
    /// What was asked for and found, slice by slice: what the attribute `zkit_slice` of each holds.
    slices: Vec<serde_json::Value>,
    /// What is read of the sources.
    reads: Reads,
    /// Where the slice is kept in a cache.
    #[serde(flatten)]
    cache: Option<CacheFields>,
    /// How the --concat dimension is best worked on, for --dry-run.
    #[serde(skip_serializing_if = "Option::is_none")]
    batches: Option<Batches>,
}

impl<'a> Slices<'a> {
    fn new(
        args: &'a SliceArgs,
        layouts: &Layouts<'_>,
        (sources, literals): (&'a [Source], &'a Store),
        slices: Vec<scene::Slice>,
    ) -> Result<Self> {
        layouts.check(slices.iter().flat_map(|slice| &slice.arrays))?;
        let (mut wanted, mut found, mut destinations) = (Vec::new(), Vec::new(), Vec::new());
        for slice in slices {
            let destination = destination(args, slice.name.as_deref())?;
            for source in sources {
                publish::check_apart(&source.place, &destination)?;
            }
            destinations.push(destination);
            let format = layouts.format(slice.format);
            let (one, said) = slice.wanted(sources, |array| layouts.target_of(array, format))?;
            wanted.push(WantedSlice { format, ..one });
            found.push(said);
        }
        let points = (0..wanted.len()).collect();
        Ok(Self {
            args,
            cached: None,
            sources,
            literals,
            destinations,
            wanted,
            found,
            together: None,
            points,
        })
    }

    /// Plans, writes, proves, audits and publishes; `already_done` are slices of the same run that an earlier one
    /// published.
    fn run(
        self,
        resources: Resources,
        started: Instant,
        already_done: Vec<String>,
        shell: &Shell,
    ) -> anyhow::Result<Exit> {
        let stores = self.stores()?;
        let destinations: Vec<&StoreUrl> = self.destinations.iter().collect();
        let options = self.args.access.store_options(shell)?;
        let reach = Reach::open(&destinations, options, resources.memory_bytes, shell)?;
        let wish = self.wish(&stores, &destinations, &reach, resources);
        let together = match &self.together {
            Some(wanted) => {
                let plan = Together::plan(wanted, &wish)?;
                let touched = engine::touched(&plan, &stores, resources.jobs, shell.cancel())?;
                Some(Together { plan, touched })
            }
            None => None,
        };
        let mut plan = self.plan(together.as_ref(), &wish)?;
        let own_touched: Vec<Touched>;
        let (read_plan, touched) = match &together {
            Some(together) => {
                together.count_in(&mut plan);
                (&together.plan, together.touched.as_slice())
            }
            None => {
                own_touched = engine::touched(&plan, &stores, resources.jobs, shell.cancel())?;
                plan.count_stored(&own_touched.iter().map(Touched::bytes).collect::<Vec<_>>());
                (&plan, own_touched.as_slice())
            }
        };
        stubs::check(self.sources, read_plan, touched, &self.args.combination.allow, shell)?;
        let reads = Reads::of(touched, self.sources.len());
        let names: Vec<String> = self.sources.iter().map(|source| source.url().to_owned()).collect();
        let consolidate = self.args.write.consolidate.or(Consolidate::Yes);
        let job = |&destination| Job {
            destination,
            sources: &names,
            source: stores[0],
            parts: &stores,
            consolidate,
        };
        let jobs: Vec<Job<'_>> = destinations.iter().map(job).collect();
        let destination = self.args.to.as_ref().map(ToString::to_string).unwrap_or_default();
        let run = Run {
            args: &self.args.write,
            jobs: &jobs,
            destination: &destination,
            plan: &plan,
            resources,
            on_corrupt: OnCorrupt::Fail,
            // what --split writes was checked when all points were read
            unchanged: &|_| match together {
                Some(_) => Ok(()),
                None => self.check_unchanged(read_plan, &stores, touched, resources, shell),
            },
            audit: &|store, copy| {
                let meant = Meant::of(&self.wanted[store]);
                audit::audit(copy, (&meant, self.sources), self.args.fail_on, resources, shell)?;
                self.cached.map_or(Ok(()), |cached| cached.seal(self.sources, self.as_values(), copy, shell))
            },
            shell,
        };
        if self.args.write.dry_run {
            let costs =
                Run { plan: read_plan, jobs: &jobs[..read_plan.stores.len()], ..run }.costs(&reach)?;
            let batches = self.batches(&plan, &costs, resources);
            writing::emit_plan(&run, &costs, &self.own(reads, batches))?;
            return Ok(Exit::Done);
        }
        let header = |store: usize| self.header(store, &plan, (together.as_ref(), touched));
        // what is published is compared with the sources themselves
        let direct = match &together {
            Some(_) if self.args.write.resume => Some(plan::plan_slice(self.wanted.clone(), &wish)?),
            _ => None,
        };
        let published = Run { plan: direct.as_ref().unwrap_or(&plan), ..run };
        let partials = match self.resume(&published, &reach, &header)? {
            Resumed::Left(partials) => partials,
            Resumed::Published(published) => {
                let done = published.iter().map(|&store| self.destinations[store].to_string());
                let already_done: Vec<String> = already_done.into_iter().chain(done).collect();
                if published.len() == jobs.len() {
                    writing::emit_already_done(shell, &destination, &already_done)?;
                    return Ok(Exit::Done);
                }
                return self.without(&published).run(resources, started, already_done, shell);
            }
        };
        let write = self.cached.map(Building::write_args);
        let run = Run { args: write.as_ref().unwrap_or(run.args), ..run };
        let partials = run.begin(partials, &reach, &header)?;
        let plan_time = started.elapsed();
        let written = match &together {
            Some(together) => self.write_split(&run, together, (&stores, &reach), partials)?,
            None => run.write(partials)?,
        };
        self.cached.map_or(Ok(()), Building::finish)?;
        let done = Done { plan_time, total_time: started.elapsed(), written, already_done };
        writing::emit_done(&run, &done, &self.own(reads, None))?;
        Ok(Exit::Done)
    }

    /// Looks for what an earlier run left of each slice.
    fn resume(
        &self,
        run: &Run<'_>,
        reach: &Reach<'_>,
        header: &dyn Fn(usize) -> Header,
    ) -> anyhow::Result<Resumed> {
        let (mut partials, mut published) = (Vec::new(), Vec::new());
        for (store, job) in run.jobs.iter().enumerate() {
            let earlier = writing::resume(
                &self.args.write,
                &reach.destination(job.destination),
                &|_| header(store),
                // what is in a cache and was not served is not sound, whatever it looks like
                &|verify| Ok(self.cached.is_none() && run.is_published(store, reach, &DEFAULT_CODEC, verify)?),
            );
            let earlier = match self.cached {
                Some(cached) => cached.earlier(earlier)?,
                None => earlier?,
            };
            match earlier {
                Earlier::Unfinished(partial) => partials.push(Some(*partial)),
                Earlier::Nothing => partials.push(None),
                Earlier::Published => published.push(store),
            }
        }
        // the run of those that are left takes the locks of the others again
        Ok(if published.is_empty() { Resumed::Left(partials) } else { Resumed::Published(published) })
    }

    /// Returns all but some slices.
    fn without(&self, published: &[usize]) -> Self {
        let left = |at: &usize| !published.contains(at);
        Self {
            args: self.args,
            cached: self.cached,
            sources: self.sources,
            literals: self.literals,
            destinations: (0..self.wanted.len())
                .filter(left)
                .map(|at| self.destinations[at].clone())
                .collect(),
            wanted: (0..self.wanted.len()).filter(left).map(|at| self.wanted[at].clone()).collect(),
            found: (0..self.wanted.len()).filter(left).map(|at| self.found[at].clone()).collect(),
            together: self.together.clone(),
            points: (0..self.wanted.len()).filter(left).map(|at| self.points[at]).collect(),
        }
    }

    /// Returns the stores that parts name: the sources, and that of arrays which no source holds.
    fn stores(&self) -> Result<Vec<&Store>> {
        let sources = self.sources.iter().map(Source::store);
        sources.chain([Ok(self.literals)]).collect()
    }

    fn wish(
        &self,
        stores: &[&Store],
        destinations: &[&StoreUrl],
        reach: &Reach<'_>,
        resources: Resources,
    ) -> Wish {
        let remote = stores.iter().any(|store| store.is_remote());
        Wish {
            scratch_bytes: self.args.write.scratch_bytes(destinations),
            format: None,
            memory_bytes: resources.memory_bytes,
            upload_bytes: reach.upload_bytes(),
            jobs: resources.jobs,
            source: if remote { SourceKind::Remote } else { SourceKind::Local },
        }
    }

    /// Plans all slices: those of --split from the store that holds all points.
    fn plan(&self, together: Option<&Together>, wish: &Wish) -> Result<CopyPlan> {
        let Some(together) = together else { return plan::plan_slice(self.wanted.clone(), wish) };
        let of_points = self.wanted.iter().zip(&self.points);
        let wanted = of_points.map(|(wanted, &point)| together.of_point(wanted, point)).collect();
        plan::plan_slice(wanted, &Wish { source: SourceKind::Local, ..*wish })
    }

    /// Reads all points into scratch space, proves that, and writes the slices from there.
    fn write_split(
        &self,
        run: &Run<'_>,
        together: &Together,
        (stores, reach): (&[&Store], &Reach<'_>),
        partials: Vec<PartialStore>,
    ) -> anyhow::Result<Written> {
        let folder = Folder::make(self.scratch_folder())?;
        let place = folder.store();
        let job = Job { destination: &place, parts: stores, consolidate: Consolidate::No, ..run.jobs[0] };
        let args = WriteArgs { resume: false, restart: true, overwrite: false, ..self.args.write.clone() };
        let gathering = Run {
            args: &args,
            jobs: &[job],
            plan: &together.plan,
            unchanged: &|_| {
                self.check_unchanged(&together.plan, stores, &together.touched, run.resources, run.shell)
            },
            audit: &|_, _| Ok(()),
            ..*run
        };
        let header = |_: usize| Header {
            options: Vec::new(),
            source: String::new(),
            groups: String::new(),
            arrays: Vec::new(),
        };
        let begun = gathering.begin(vec![None], reach, &header)?;
        let gathered = gathering.write(begun)?;
        let meter = run.shell.observer().meter();
        let aside = (meter.objects_written.get(), meter.bytes_written.get());
        let points = Store::open(&place, reach.options())?;
        let from = [&points, self.literals];
        let jobs: Vec<Job<'_>> =
            run.jobs.iter().map(|job| Job { source: &points, parts: &from, ..*job }).collect();
        let mut written = Run { jobs: &jobs, ..*run }.write(partials)?;
        written.verified += gathered.verified;
        (written.scratch_objects, written.scratch_bytes) = aside;
        Ok(written)
    }

    /// Returns the folder for the store of all points: as other scratch space beside the destination, or where it is wished.
    fn scratch_folder(&self) -> PathBuf {
        let beside = self.args.to.as_ref().and_then(|to| self.args.write.scratch_of(to));
        beside.unwrap_or_else(|| std::env::temp_dir().join(publish::unique_name()))
    }

    /// Refuses to publish what was read while a source changed.
    fn check_unchanged(
        &self,
        plan: &CopyPlan,
        stores: &[&Store],
        before: &[Touched],
        resources: Resources,
        shell: &Shell,
    ) -> Result<()> {
        let now = engine::touched(plan, stores, resources.jobs, shell.cancel())?;
        let arrays = plan.arrays.iter().zip(before.iter().zip(&now));
        let mut parts =
            arrays.filter(|(_, (before, now))| before != now).flat_map(|(array, (before, now))| {
                let parts = array.gather.iter().flat_map(|gather| gather.parts.iter());
                parts.zip(before.parts.iter().zip(&now.parts)).filter(|(_, (before, now))| before != now)
            });
        match parts.next() {
            None => Ok(()),
            Some((part, _)) => {
                let url = self.sources.get(part.store).map_or("the points", Source::url);
                let path = &part.array.path;
                let message = format!("`{path}` of {url} changed while it was read; nothing was published");
                Err(Error::new(ErrorKind::Conflict, message)
                    .with_hint("run the same command with --restart once nothing writes there"))
            }
        }
    }

    /// Returns what a run is about, as its journal says it.
    fn header(
        &self,
        store: usize,
        plan: &CopyPlan,
        (together, touched): (Option<&Together>, &[Touched]),
    ) -> Header {
        let objects =
            self.sources.iter().all(|source| self.args.write.source_check.takes_objects(&source.place));
        let of_store = plan.arrays.iter().enumerate().filter(|(_, array)| array.store == store);
        let arrays = of_store.map(|(at, array)| match together {
            Some(together) => together.journal_array(&array.target.path, self.points[store], objects),
            None => JournalArray {
                path: array.target.path.clone(),
                fingerprint: if objects { touched[at].fingerprint() } else { 0 },
                // of thousands of arrays in many stores the documents themselves would be hundreds of megabytes
                source_document: array
                    .gather
                    .iter()
                    .map(|gather| format!("{:032x}", gather.digest()))
                    .collect(),
                target_codec: String::new(),
            },
        });
        let mut options = self.args.write.canonical(&DEFAULT_CODEC);
        options.push(("--chunks".to_owned(), format!("{:?}", self.args.layout)));
        let sources: Vec<&str> = self.sources.iter().map(Source::url).collect();
        Header {
            options,
            source: sources.join(" "),
            groups: groups_text(self.wanted[store].reviewed.groups()),
            arrays: arrays.collect(),
        }
    }

    /// Returns how the --concat dimension is best worked on, going by what was measured.
    fn batches(&self, plan: &CopyPlan, costs: &Costs, resources: Resources) -> Option<Batches> {
        let threads = resources.jobs.min(plan.jobs).max(1);
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let work_seconds = costs.work_seconds()? * threads as f64;
        let measured = Measured {
            memory_bytes: resources.memory_bytes,
            jobs: resources.jobs as u64,
            work_seconds,
            writing_seconds: costs.writing_seconds(plan).unwrap_or(0.0),
        };
        Batches::of(&self.wanted, self.args.combination.concat.as_deref()?, measured)
    }

    fn own(&self, reads: Reads, batches: Option<Batches>) -> Own<'static, SliceFields> {
        let (cache, of_cache) = self.cached.map(Building::told).unzip();
        let (mut facts, tables) = match self.found.as_slice() {
            [one] => one.told(),
            many => (vec![("slices".to_owned(), zkit_report::format::count(many.len() as u64))], Vec::new()),
        };
        facts.splice(0..0, of_cache);
        facts.push(reads.fact());
        facts.extend(batches.iter().flat_map(Batches::facts));
        let fields = SliceFields { slices: self.as_values(), reads, cache, batches };
        Own { codec_reasons: &[], fields, facts, tables }
    }

    /// Returns what was asked for and found, slice by slice.
    fn as_values(&self) -> Vec<serde_json::Value> {
        let as_value = |found: &Found| {
            let text = found.to_json().to_string();
            serde_json::from_str(&text).unwrap_or(serde_json::Value::Null)
        };
        self.found.iter().map(as_value).collect()
    }
}

/// Returns where a slice goes: with the name of its point where there is one for each.
fn destination(args: &SliceArgs, name: Option<&str>) -> Result<StoreUrl> {
    let Some(to) = &args.to else {
        let message = "there is neither --to nor --cache";
        return Err(Error::new(ErrorKind::Usage, message));
    };
    let destination = match name {
        Some(name) => to.join(name),
        None => to.clone(),
    };
    publish::check_folder(&destination)?;
    Ok(destination)
}
