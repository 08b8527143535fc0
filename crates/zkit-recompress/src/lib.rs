//! `zkit recompress`: a copy of a whole store with another codec or format, proven equal.

mod codec;
#[cfg_attr(not(test), expect(dead_code, reason = "the plan of a copy takes one layout an array next"))]
mod layout_args;
mod output;
mod settings;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use zkit_cli::args::{ResourceArgs, SelectArgs, StoreArgs};
use zkit_cli::{Command, Exit, Shell};
use zkit_core::engine::{self, Estimate, Resources, SurveyDepth, Verified};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_core::hierarchy::Hierarchy;
use zkit_core::location::StoreUrl;
use zkit_core::metadata::{ChecksumChoice, Target, TargetCodec, ZarrFormat};
use zkit_core::plan::{self, CopyPlan, Stored, Wish};
use zkit_core::publish::{self, Consolidate, Existing, PartialStore};
use zkit_core::store::{LocalWriter, Store, StoreOptions};
use zkit_core::units::Bytes;

/// Copies a whole store with another codec or Zarr format, and proves the copy.
///
/// Groups, arrays, coordinates, attributes, dimension names and consolidated metadata are kept; so are chunk shapes,
/// but that shards become plain chunks in Zarr v2. The copy appears at its destination at once, when all of it is
/// written and checked. Arrays that cannot be encoded anew are copied byte for byte and named.
#[derive(Debug, Args)]
pub struct RecompressArgs {
    /// Path or URL of the store to copy.
    source: StoreUrl,

    /// Path of the copy; it must not exist.
    destination: StoreUrl,

    /// Codec: blosc:COMPRESSOR:LEVEL:SHUFFLE, zstd:LEVEL, gzip:LEVEL, none, keep, or JSON as in Zarr metadata.
    ///
    /// COMPRESSOR is zstd, lz4 or zlib; SHUFFLE is bitshuffle, shuffle or noshuffle.
    #[arg(long, default_value = "blosc:zstd:3:bitshuffle", value_parser = codec::parse)]
    codec: TargetCodec,

    /// Zarr format of the copy.
    #[arg(long, value_enum, default_value_t = FormatArg::Keep)]
    zarr_format: FormatArg,

    /// Checksums of chunks: crc32c in v3, in zstd frames of v2, or none.
    #[arg(long, value_enum, default_value_t = ChecksumArg::Auto)]
    checksum: ChecksumArg,

    /// Consolidated metadata: as the source has it, always, or never.
    #[arg(long, value_enum, default_value_t = ConsolidateArg::Auto)]
    consolidate: ConsolidateArg,

    /// How much of the copy is read back and compared: nothing, one chunk in a hundred, or everything.
    #[arg(long, value_enum, default_value_t = VerifyArg::Sample)]
    verify: VerifyArg,

    /// Print the plan and what it costs, and write nothing.
    #[arg(long)]
    dry_run: bool,

    /// Replace a store that is already at the destination, once the copy is complete.
    #[arg(long)]
    overwrite: bool,

    /// Do not ask before replacing.
    #[arg(long)]
    yes: bool,

    /// Leave out nodes whose metadata is broken, instead of refusing the store.
    #[arg(long)]
    skip_broken: bool,

    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    access: StoreArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    Keep,
    #[value(name = "2")]
    V2,
    #[value(name = "3")]
    V3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ChecksumArg {
    Auto,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ConsolidateArg {
    Auto,
    Always,
    Never,
}

impl From<ConsolidateArg> for Consolidate {
    fn from(argument: ConsolidateArg) -> Self {
        match argument {
            ConsolidateArg::Auto => Self::Auto,
            ConsolidateArg::Always => Self::Always,
            ConsolidateArg::Never => Self::Never,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VerifyArg {
    None,
    Sample,
    Full,
}

/// The command.
#[derive(Debug)]
pub struct Recompress;

/// What a finished run has to tell beside its counters.
struct Done {
    plan_time: Duration,
    total_time: Duration,
    written: Written,
    /// Requests to a remote source, and how many of them were tried again.
    requests: (u64, u64),
}

impl Command for Recompress {
    const NAME: &'static str = "recompress";
    type Args = RecompressArgs;

    fn run(args: &RecompressArgs, shell: &Shell) -> anyhow::Result<Exit> {
        let started = Instant::now();
        shell.stop_after(args.resources.deadline);
        shell.watch_stalls(args.access.stall_timeout);
        let destination = destination(args)?;
        let observer = shell.observer();
        observer.event(Event::Phase("planning"));
        let source = Hierarchy::open(&args.source, &args.access.store_options(shell.environment()))?;
        let store = source.readable_store()?;
        let resources = Resources {
            memory_bytes: args.resources.memory_budget().bytes,
            jobs: args.resources.jobs().get(),
        };
        let plan = make_plan(args, &source, store, resources, shell)?;
        if args.dry_run {
            let costs = Costs {
                absent_bytes: engine::absent_bytes(&plan)?,
                free_bytes: publish::free_bytes(&destination),
                estimate: engine::estimate_copy(&plan, store, shell.cancel())?,
            };
            output::emit_plan(shell, args, &source, &plan, &costs)?;
            return Ok(Exit::Done);
        }
        let existing = confirm_overwrite(args, &destination, shell)?;
        check_space(args, &destination, &plan)?;
        let plan_time = started.elapsed();
        let job = Job { args, source: &source, store, plan: &plan, resources, shell };
        let written = job.write(PartialStore::create(&destination, existing)?)?;
        let done = Done { plan_time, total_time: started.elapsed(), written, requests: store.requests() };
        output::emit_done(shell, args, &source, &plan, &done)?;
        Ok(Exit::Done)
    }
}

/// Returns the directory that the copy is to be, apart from its source.
fn destination(args: &RecompressArgs) -> Result<PathBuf, Error> {
    let Some(path) = args.destination.local_path() else {
        let message =
            format!("could not write to {}: copies are written to local directories", args.destination);
        return Err(Error::new(ErrorKind::Unsupported, message)
            .with_hint("name a local directory, and upload it with the tools of your cloud"));
    };
    publish::check_apart(&args.source, path)?;
    Ok(path.to_owned())
}

fn make_plan(
    args: &RecompressArgs,
    source: &Hierarchy,
    store: &Store,
    resources: Resources,
    shell: &Shell,
) -> anyhow::Result<CopyPlan> {
    let filter = args.select.filter();
    let broken: Vec<_> =
        source.broken_nodes().into_iter().filter(|defect| filter.takes(&defect.path)).collect();
    if let (Some(first), false) = (broken.first(), args.skip_broken) {
        let message = format!(
            "{} of {} cannot be copied, first `{}`: {}",
            zkit_report::format::counted(broken.len() as u64, "node", "nodes"),
            source.url,
            first.path,
            first.message
        );
        let kind = if source.unreadable { ErrorKind::Unreadable } else { ErrorKind::Corrupt };
        return Err(Error::new(kind, message)
            .with_hint("mend or --exclude them, or pass --skip-broken to leave them out")
            .into());
    }
    for defect in broken {
        shell.observer().event(Event::Warning(format!("left out: `{}`: {}", defect.path, defect.message)));
    }
    let arrays = args.select.take(source.arrays.iter().collect())?;
    let surveys = engine::survey(
        store,
        &arrays,
        SurveyDepth::Listing { sample_most: 0 },
        shell.observer(),
        shell.cancel(),
    )?;
    let mut listed = Vec::with_capacity(arrays.len());
    for (array, survey) in arrays.into_iter().zip(surveys) {
        let Some(listing) = survey.listing else {
            let what =
                survey.defects.first().map_or_else(String::new, |defect| format!(": {}", defect.message));
            return Err(Error::new(
                ErrorKind::Unreadable,
                format!("could not list the chunks of `{}`{what}", array.path),
            )
            .into());
        };
        let largest_bytes = listing.sizes.range().map_or(0, |(_, largest)| largest);
        listed.push((
            array.clone(),
            Stored { chunks: listing.stored, bytes: listing.bytes_stored, largest_bytes },
        ));
    }
    let target = Target {
        format: match args.zarr_format {
            FormatArg::Keep => None,
            FormatArg::V2 => Some(ZarrFormat::V2),
            FormatArg::V3 => Some(ZarrFormat::V3),
        },
        codec: args.codec.clone(),
        checksum: match args.checksum {
            ChecksumArg::Auto => ChecksumChoice::Auto,
            ChecksumArg::None => ChecksumChoice::None,
        },
        layout: None,
    };
    let wish = Wish { target, memory_bytes: resources.memory_bytes, jobs: resources.jobs };
    Ok(plan::plan_copy(source.groups.clone(), listed, &wish)?)
}

fn confirm_overwrite(args: &RecompressArgs, destination: &Path, shell: &Shell) -> anyhow::Result<Existing> {
    if !args.overwrite {
        return Ok(Existing::Keep);
    }
    let question = format!("Replace {} once the copy is complete?", args.destination);
    if destination.exists()
        && !args.yes
        && !shell.confirm(&question, "pass --yes to replace it without asking")?
    {
        return Err(Error::new(ErrorKind::Conflict, format!("{} was left as it is", args.destination)).into());
    }
    Ok(Existing::Replace)
}

/// What a plan costs beside its own totals.
struct Costs {
    /// Disk space of chunks that the source leaves out and the copy cannot.
    absent_bytes: u64,
    /// Free disk space at the destination.
    free_bytes: Option<u64>,
    /// Sizes and time, from a sample.
    estimate: Option<Estimate>,
}

fn check_space(args: &RecompressArgs, destination: &Path, plan: &CopyPlan) -> Result<(), Error> {
    let absent_bytes = engine::absent_bytes(plan)?;
    match publish::free_bytes(destination) {
        Some(free) if absent_bytes > free => {
            let message = format!(
                "{} absent chunks must be written, as the copy cannot say their fill value: {} on disk, {} are free at {}",
                zkit_report::format::count(plan.totals.absent_written),
                Bytes(absent_bytes),
                Bytes(free),
                args.destination
            );
            Err(Error::new(ErrorKind::Unwritable, message)
                .with_hint("keep the Zarr format, or --exclude the arrays that are mostly absent"))
        }
        _ => Ok(()),
    }
}

/// What a run works with.
struct Job<'a> {
    args: &'a RecompressArgs,
    source: &'a Hierarchy,
    store: &'a Store,
    plan: &'a CopyPlan,
    resources: Resources,
    shell: &'a Shell,
}

/// What was written and read back.
struct Written {
    /// Encoded bytes read for the copy, those of the verification apart.
    bytes_read: u64,
    /// Bytes decoded for the copy, those of the verification apart.
    bytes_decoded: u64,
    verified: Verified,
}

impl Job<'_> {
    /// Writes chunks, then metadata, proves the copy and publishes it.
    fn write(&self, partial: PartialStore) -> anyhow::Result<Written> {
        let observer = self.shell.observer();
        let meter = observer.meter();
        let writer = partial.writer()?;
        observer.event(Event::Phase("copying"));
        engine::run_copy(
            self.plan,
            self.store,
            writer,
            self.resources.memory_bytes,
            observer,
            self.shell.cancel(),
        )?;
        for (key, document) in
            publish::metadata_documents(self.plan, self.source, self.args.consolidate.into())
        {
            let text = document.to_pretty();
            writer.put(&key, text.as_bytes())?;
            meter.objects_written.add(1);
            meter.bytes_written.add(text.len() as u64);
        }
        let (bytes_read, bytes_decoded) = (meter.bytes_read.get(), meter.bytes_decoded.get());
        let verified = self.verify(writer)?;
        self.shell.cancel().check()?;
        observer.event(Event::Phase("publishing"));
        partial.commit()?;
        Ok(Written { bytes_read, bytes_decoded, verified })
    }

    fn verify(&self, writer: &LocalWriter) -> anyhow::Result<Verified> {
        let mode = match self.args.verify {
            VerifyArg::None => return Ok(Verified::default()),
            VerifyArg::Sample => engine::Verify::Sample,
            VerifyArg::Full => engine::Verify::Full,
        };
        let observer = self.shell.observer();
        observer.event(Event::Phase("verifying"));
        let started = Instant::now();
        let copy = Hierarchy::open(&StoreUrl::Local(writer.root().to_owned()), &StoreOptions::default())?;
        let verified = engine::verify(
            self.plan,
            self.store,
            &copy,
            mode,
            self.resources,
            observer,
            self.shell.cancel(),
        )?;
        observer.meter().verify_time.add_time(started.elapsed());
        Ok(verified)
    }
}
