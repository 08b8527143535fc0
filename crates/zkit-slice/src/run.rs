//! The command: from what was prepared to stores that are written, proven and published.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Instant;

use serde::Serialize;
use zkit_cli::writing::{self, CodecChoice, Done, Earlier, Job, Own, Reach, Run};
use zkit_cli::{Command, Exit, Shell};
use zkit_core::engine::{Header, JournalArray, OnCorrupt, Resources};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_core::hierarchy::Consolidated;
use zkit_core::location::StoreUrl;
use zkit_core::metadata::{Target, TargetCodec};
use zkit_core::plan::{self, CopyPlan, SourceKind, WantedSlice, Wish};
use zkit_core::publish::{self, Consolidate, PartialStore};
use zkit_core::store::Store;

use crate::args::SliceArgs;
use crate::coordinates::Means;
use crate::found::Found;
use crate::layout::layout_of;
use crate::scene::{Prepared, SliceArray, prepare};
use crate::sources::Source;

/// The command.
#[derive(Debug)]
pub struct Slice;

/// The codec where none is passed: that of the sources.
const DEFAULT_CODEC: CodecChoice = CodecChoice::Given(TargetCodec::Keep);

impl Command for Slice {
    const NAME: &'static str = "slice";
    type Args = SliceArgs;

    fn run(args: &SliceArgs, shell: &Shell) -> anyhow::Result<Exit> {
        let started = Instant::now();
        shell.stop_after(args.resources.deadline);
        shell.watch_stalls(args.access.stall_timeout);
        shell.observer().event(Event::Phase("planning"));
        let resources = Resources {
            memory_bytes: args.resources.memory_budget().bytes,
            jobs: args.resources.jobs().get(),
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(resources.jobs).build()?;
        let options = args.access.store_options(shell);
        let means = Means { pool: &pool, resources, observer: shell.observer(), cancel: shell.cancel() };
        let prepared = prepare(args, &options, means)?;
        let Prepared { sources, literals, slices } = prepared;
        let mut wanted = Vec::with_capacity(slices.len());
        for slice in slices {
            let destination = match &slice.name {
                Some(name) => args.to.join(name),
                None => args.to.clone(),
            };
            for source in &sources {
                publish::check_apart(&source.location, &destination)?;
            }
            let (slice, found) = slice.wanted(|array| target_of(array, args))?;
            wanted.push(Wanted { destination, slice, found });
        }
        let destinations: Vec<&StoreUrl> = wanted.iter().map(|wanted| &wanted.destination).collect();
        let reach = Reach::open(&destinations, options, resources.memory_bytes, shell)?;
        let urls: Vec<String> = sources.iter().map(|source| source.url().to_owned()).collect();
        let stores: Vec<&Store> = sources
            .iter()
            .map(Source::store)
            .chain(std::iter::once(Ok(&literals)))
            .collect::<Result<_, Error>>()?;
        let work =
            Work { args, sources: &sources, urls: &urls, stores: &stores, resources, reach: &reach, shell };
        work.carry_out(wanted, started)
    }
}

/// Returns what an array is to become.
fn target_of(array: &SliceArray, args: &SliceArgs) -> Result<Target, Error> {
    let codec = match args.write.codec.clone().unwrap_or(DEFAULT_CODEC) {
        CodecChoice::Given(codec) => codec,
        CodecChoice::Auto => {
            let error = Error::new(ErrorKind::Usage, "slices are not sampled for --codec auto");
            return Err(error.with_hint("name a codec, such as blosc:zstd:3:bitshuffle"));
        }
    };
    let format = args.write.zarr_format.format();
    let layout = layout_of(array, &args.chunks, format).map_err(|reason| {
        let message = format!("could not lay out the chunks of `{}`: {reason}", array.path);
        Error::new(ErrorKind::Usage, message).with_hint("change --chunks and --shards")
    })?;
    Ok(Target { format, codec, checksum: args.write.checksum.into(), layout: Some(layout) })
}

/// One store that is to be written.
struct Wanted {
    destination: StoreUrl,
    slice: WantedSlice,
    found: Found,
}

/// What programs are told of a slice beside the contract of all that write.
#[derive(Serialize)]
struct Fields {
    /// What was asked for and found, for each store that was written.
    slices: Vec<serde_json::Value>,
}

/// What carrying out needs.
struct Work<'a> {
    args: &'a SliceArgs,
    sources: &'a [Source],
    urls: &'a [String],
    stores: &'a [&'a Store],
    resources: Resources,
    reach: &'a Reach<'a>,
    shell: &'a Shell,
}

impl Work<'_> {
    fn carry_out(&self, wanted: Vec<Wanted>, started: Instant) -> anyhow::Result<Exit> {
        let destination = self.args.to.to_string();
        let (mut left, mut partials, mut already_done) = (Vec::new(), Vec::new(), Vec::new());
        for wanted in wanted {
            match self.earlier(&wanted)? {
                Earlier::Published => {
                    already_done.push(wanted.destination.to_string());
                    continue;
                }
                Earlier::Unfinished(partial) => partials.push(Some(*partial)),
                Earlier::Nothing => partials.push(None),
            }
            left.push(wanted);
        }
        if left.is_empty() {
            writing::emit_already_done(self.shell, &destination, &already_done)?;
            return Ok(Exit::Done);
        }
        let plan = self.plan(&left)?;
        let jobs = self.jobs(&left);
        let run = self.run(&jobs, &plan, &destination);
        let own = own(&left);
        if self.args.write.dry_run {
            let costs = run.costs(self.reach)?;
            writing::emit_plan(&run, &costs, &own)?;
            return Ok(Exit::Done);
        }
        let partials: Vec<PartialStore> =
            run.begin(partials, self.reach, &|store| self.header(&left[store]))?;
        let plan_time = started.elapsed();
        let written = run.write(partials)?;
        let done = Done { plan_time, total_time: started.elapsed(), written, already_done };
        writing::emit_done(&run, &done, &own)?;
        Ok(Exit::Done)
    }

    /// Looks for what an earlier run left of a store.
    fn earlier(&self, wanted: &Wanted) -> anyhow::Result<Earlier> {
        writing::resume(
            &self.args.write,
            &self.reach.destination(&wanted.destination),
            &|| self.header(wanted),
            &|| {
                let one = std::slice::from_ref(wanted);
                let plan = self.plan(one)?;
                let jobs = self.jobs(one);
                self.run(&jobs, &plan, &wanted.destination.to_string())
                    .is_published(self.reach, &DEFAULT_CODEC)
            },
        )
    }

    fn plan(&self, wanted: &[Wanted]) -> Result<CopyPlan, Error> {
        let remote = self.sources.iter().any(|source| source.location.local_path().is_none());
        let wish = Wish {
            format: self.args.write.zarr_format.format(),
            memory_bytes: self.resources.memory_bytes,
            upload_bytes: self.reach.upload_bytes(),
            jobs: self.resources.jobs,
            source: if remote { SourceKind::Remote } else { SourceKind::Local },
            scratch_bytes: 0,
        };
        plan::plan_slice(wanted.iter().map(|wanted| wanted.slice.clone()).collect(), &wish)
    }

    fn jobs<'j>(&'j self, wanted: &'j [Wanted]) -> Vec<Job<'j>> {
        let consolidated =
            self.sources.first().is_some_and(|source| source.hierarchy.consolidated != Consolidated::None);
        let as_it_is = if consolidated { Consolidate::Yes } else { Consolidate::No };
        let job = |wanted: &'j Wanted| Job {
            destination: &wanted.destination,
            sources: self.urls,
            source: self.stores[0],
            parts: self.stores,
            consolidate: self.args.write.consolidate.or(as_it_is),
        };
        wanted.iter().map(job).collect()
    }

    fn run<'r>(&'r self, jobs: &'r [Job<'r>], plan: &'r CopyPlan, destination: &'r str) -> Run<'r> {
        Run {
            args: &self.args.write,
            jobs,
            destination,
            plan,
            resources: self.resources,
            on_corrupt: OnCorrupt::Fail,
            audit: &|_, _| Ok(()),
            shell: self.shell,
        }
    }

    /// Returns what a run is about, as its journal says it: of each array the metadata of all its parts, and what is taken.
    fn header(&self, wanted: &Wanted) -> Header {
        let arrays = wanted.slice.arrays.iter().map(|array| {
            let mut hasher = DefaultHasher::new();
            for part in &array.parts {
                self.urls.get(part.store).hash(&mut hasher);
                part.array.path.hash(&mut hasher);
                writing::documents_text(&part.array.metadata).hash(&mut hasher);
                format!("{:?}", part.picks).hash(&mut hasher);
            }
            format!("{:?} {:?} {:?}", array.joined, array.shape, array.target).hash(&mut hasher);
            JournalArray {
                path: array.path.clone(),
                fingerprint: u128::from(hasher.finish()),
                source_document: writing::documents_text(&array.parts[0].array.metadata),
                target_codec: String::new(),
            }
        });
        Header {
            options: self.args.write.canonical(&DEFAULT_CODEC),
            source: self.urls.join("\n"),
            groups: writing::groups_text(&wanted.slice.groups),
            arrays: arrays.collect(),
        }
    }
}

/// Returns what is said of slices beside what all commands that write say.
fn own(wanted: &[Wanted]) -> Own<'static, Fields> {
    let slices = wanted.iter().map(|wanted| wanted.found.to_json().to_serde()).collect();
    let (mut facts, mut tables) = (Vec::new(), Vec::new());
    if let [one] = wanted {
        facts = one.found.facts();
        tables = one.found.tables();
    }
    Own { codec_reasons: &[], fields: Fields { slices }, facts, tables }
}
