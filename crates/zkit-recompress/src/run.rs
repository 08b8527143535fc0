//! Building the copies: beginning or resuming each, running the plan, and publishing each that is complete.

use std::time::Instant;

use zkit_cli::Shell;
use zkit_core::engine::{
    self, CorruptChunk, Endpoint, Header, JournalArray, LeftPieces, Proof, Resources, RunOptions, Scratch,
    Verified, Verify,
};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_core::hierarchy::{Consolidated, Hierarchy};
use zkit_core::metadata::{ArrayMetadata, Json};
use zkit_core::plan::CopyPlan;
use zkit_core::publish::{self, Consolidate, PartialStore, Start, Unfinished};

use crate::args::{RecompressArgs, SourceCheckArg, VerifyArg};
use crate::codec::{self, CodecChoice};
use crate::layout_args::Layouts;
use crate::source::{Access, Source};
use crate::targets::Chosen;

/// What has become of the copy of one store before anything runs.
pub(crate) enum Begun {
    /// It is to be built, from nothing or from what an earlier run left.
    Build(Box<PartialStore>),
    /// An earlier run published it.
    AlreadyDone,
}

/// What was written and read back.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) verified: Verified,
    pub(crate) corrupt: Vec<CorruptChunk>,
    /// Bytes of an earlier run that were read back.
    pub(crate) checked_bytes: u64,
    /// Objects of an earlier run that hold.
    pub(crate) resumed_objects: u64,
    /// Requests to remote destinations, and how many of them were tried again.
    pub(crate) requests: (u64, u64),
}

/// Returns what a run is about, as its journal says it; `chosen` is empty where that is not known yet.
pub(crate) fn header(args: &RecompressArgs, layouts: &Layouts, source: &Source, chosen: &[Chosen]) -> Header {
    let mut options = args.canonical();
    options.extend(layouts.canonical());
    let objects = match args.source_check {
        SourceCheckArg::Auto => source.url.local_path().is_some(),
        SourceCheckArg::Metadata => false,
        SourceCheckArg::Objects => true,
    };
    let arrays = source.arrays.iter().enumerate().map(|(at, listed)| JournalArray {
        path: listed.array.path.clone(),
        fingerprint: if objects { listed.fingerprint } else { 0 },
        source_document: text_of(ArrayMetadata::documents(&listed.array.metadata)),
        target_codec: chosen
            .get(at)
            .filter(|chosen| chosen.why.is_some())
            .map_or_else(String::new, |chosen| codec::text_of(&chosen.target.codec)),
    });
    let groups = source.hierarchy.groups.iter().map(|group| {
        format!(
            "{} {} {}",
            group.path,
            Json::Object(group.document.clone()),
            Json::Object(group.attributes.clone())
        )
    });
    Header {
        options,
        source: source.hierarchy.url.clone(),
        groups: groups.collect::<Vec<_>>().join("\n"),
        arrays: arrays.collect(),
    }
}

fn text_of(documents: Vec<(&'static str, Json)>) -> String {
    let texts = documents.into_iter().map(|(name, document)| format!("{name} {document}"));
    texts.collect::<Vec<_>>().join("\n")
}

/// Makes the partial store of a copy, or goes on with one. `None` where there is nothing to resume, and what is at the
/// destination is to be replaced.
pub(crate) fn begin(
    args: &RecompressArgs,
    source: &Source,
    access: &Access<'_>,
    header: &Header,
    unfinished: Unfinished,
    is_the_copy: &dyn Fn() -> anyhow::Result<bool>,
) -> anyhow::Result<Option<Begun>> {
    let destination = source.destination(access);
    Ok(match PartialStore::create(&destination, args.existing(), header, unfinished)? {
        Start::Build(partial) => Some(Begun::Build(partial)),
        Start::AlreadyPublished => Some(Begun::AlreadyDone),
        Start::Exists if is_the_copy()? => Some(Begun::AlreadyDone),
        Start::Exists if args.overwrite => None,
        Start::Exists => {
            let message = format!(
                "{} exists, is not the copy that is asked for, and there is nothing to resume",
                source.destination
            );
            return Err(Error::new(ErrorKind::Conflict, message)
                .with_hint("pass --overwrite to replace it, or name another destination")
                .into());
        }
    })
}

/// Returns whether what is at a destination is what `plan`, of this source alone, would write: the same metadata, but for
/// codecs that are chosen by measuring, and the same values, as far as a sample shows.
pub(crate) fn is_the_copy(
    args: &RecompressArgs,
    source: &Source,
    access: &Access<'_>,
    plan: &CopyPlan,
    resources: Resources,
    shell: &Shell,
) -> anyhow::Result<bool> {
    let Ok(copy) = Hierarchy::open(&source.destination, &access.options) else { return Ok(false) };
    let measured = !matches!(args.codec, Some(CodecChoice::Given(_)));
    let same = plan.arrays.iter().all(|array| {
        copy.array(&array.target.path).is_some_and(|found| {
            let (is, wanted) = (&found.metadata, &array.target.metadata);
            is.format == wanted.format
                && is.shape() == wanted.shape()
                && is.data_type == wanted.data_type
                && is.fill_value == wanted.fill_value
                && is.chunk_shape() == wanted.chunk_shape()
                && is.grid == wanted.grid
                && (measured || is.codecs_json() == wanted.codecs_json())
        })
    });
    let consolidated = match args.consolidate.into() {
        Consolidate::Auto => source.hierarchy.consolidated != Consolidated::None,
        Consolidate::Always => true,
        Consolidate::Never => false,
    };
    let documents = plan.stores.first().is_none_or(|store| store.groups.is_empty())
        || consolidated == (copy.consolidated != Consolidated::None);
    if !same || !documents || copy.arrays.len() != plan.arrays.len() {
        return Ok(false);
    }
    let proof = Proof { plan, store: 0, source: source.store()?, copy: &copy, corrupt: &[] };
    shell.observer().event(Event::Phase("checking"));
    match engine::verify(proof, Verify::from(args.verify), resources, shell.observer(), shell.cancel()) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Cancelled => Err(error.into()),
        Err(_) => Ok(false),
    }
}

/// Puts the codecs that the first run chose in the place of those to choose.
pub(crate) fn take_over(chosen: &mut [Chosen], header: &Header) -> Result<(), Error> {
    for (chosen, array) in chosen.iter_mut().zip(&header.arrays) {
        if array.target_codec.is_empty() {
            continue;
        }
        chosen.target.codec = codec::parse(&array.target_codec).map_err(|message| {
            Error::new(
                ErrorKind::Corrupt,
                format!("the journal names a codec for `{}`: {message}", array.path),
            )
        })?;
        chosen.why = Some(format!("{}: as the run that is resumed chose", array.target_codec));
    }
    Ok(())
}

/// What a run works with.
pub(crate) struct Run<'a> {
    pub(crate) args: &'a RecompressArgs,
    pub(crate) sources: &'a [Source],
    pub(crate) plan: &'a CopyPlan,
    pub(crate) resources: Resources,
    pub(crate) shell: &'a Shell,
}

impl Run<'_> {
    /// Runs the plan and publishes every store that is complete.
    pub(crate) fn write(&self, mut partials: Vec<PartialStore>) -> anyhow::Result<Written> {
        let observer = self.shell.observer();
        let mut written = Written::default();
        for (store, partial) in partials.iter_mut().enumerate() {
            self.check(store, partial, &mut written)?;
        }
        observer.event(Event::Phase("copying"));
        let result = self.copy(&partials, &mut written);
        let left_pieces = |source| self.args.scratch_of(source).is_some_and(|at| Scratch::holds_pieces(&at));
        if result.is_err()
            && (partials.iter().any(PartialStore::is_worth_resuming) || self.sources.iter().any(left_pieces))
        {
            self.shell.hint("what is done is kept: run the same command with --resume to go on");
        }
        written.corrupt = result?;
        Ok(written)
    }

    /// Reads back what an earlier run left.
    fn check(&self, store: usize, partial: &mut PartialStore, written: &mut Written) -> anyhow::Result<()> {
        if !partial.is_resumed() {
            return Ok(());
        }
        self.shell.observer().event(Event::Phase("checking"));
        let arrays: Vec<_> =
            self.plan.arrays.iter().filter(|array| array.store == store).map(|array| &array.target).collect();
        let checked = partial.check(&arrays, self.resources.jobs, self.shell.cancel())?;
        written.checked_bytes += checked.bytes_read;
        written.resumed_objects += checked.done.iter().map(zkit_core::grid::ChunkSet::len).sum::<u64>();
        let damaged: u64 = checked.damaged.iter().map(zkit_core::grid::ChunkSet::len).sum();
        if damaged > 0 {
            let what = zkit_report::format::counted(damaged, "object", "objects");
            self.shell
                .observer()
                .event(Event::Warning(format!("{what} of the earlier run changed since: written anew")));
        }
        Ok(())
    }

    fn copy(&self, partials: &[PartialStore], written: &mut Written) -> anyhow::Result<Vec<CorruptChunk>> {
        let mut endpoints = Vec::with_capacity(self.sources.len());
        let scratch: Vec<_> = self.sources.iter().map(|source| self.args.scratch_of(source)).collect();
        for ((source, partial), scratch) in self.sources.iter().zip(partials).zip(&scratch) {
            endpoints.push(Endpoint {
                source: source.store()?,
                sink: partial.sink(),
                done: partial.done(),
                resumed: partial.is_resumed(),
                scratch: scratch.as_deref().map(|directory| Scratch {
                    directory,
                    header: partial.header(),
                    left: match self.args.unfinished() {
                        Unfinished::Resume => LeftPieces::Reuse,
                        Unfinished::Refuse | Unfinished::Discard => LeftPieces::Discard,
                    },
                }),
            });
        }
        let options =
            RunOptions { memory_bytes: self.resources.memory_bytes, on_corrupt: self.args.on_corrupt.into() };
        let observer = self.shell.observer();
        let mut finished = |store: usize, corrupt: &[CorruptChunk]| {
            let partial = &partials[store];
            let documents = publish::metadata_documents(
                self.plan,
                store,
                &self.sources[store].hierarchy,
                self.args.consolidate.into(),
            );
            let verified = self.prove(store, partial, &documents, corrupt)?;
            written.verified.regions += verified.regions;
            written.verified.bytes += verified.bytes;
            observer.event(Event::Phase("publishing"));
            partial.commit(&documents)?;
            let (requests, retries) = partial.requests();
            written.requests = (written.requests.0 + requests, written.requests.1 + retries);
            if self.sources.len() > 1 {
                observer.event(Event::Phase("copying"));
            }
            Ok(())
        };
        Ok(engine::run_copy(self.plan, &endpoints, options, observer, self.shell.cancel(), &mut finished)?)
    }

    /// Reads back what was written, by the metadata that readers will have.
    fn prove(
        &self,
        store: usize,
        partial: &PartialStore,
        documents: &[(String, Json)],
        corrupt: &[CorruptChunk],
    ) -> Result<Verified, Error> {
        let observer = self.shell.observer();
        let copy = partial.open_copy(documents)?;
        let meter = observer.meter();
        meter.objects_written.add(documents.len() as u64);
        meter
            .bytes_written
            .add(documents.iter().map(|(_, document)| document.to_pretty().len() as u64).sum());
        if self.args.verify == VerifyArg::None {
            self.shell.cancel().check()?;
            return Ok(Verified::default());
        }
        observer.event(Event::Phase("verifying"));
        let started = Instant::now();
        // while other stores are copied, these have the memory
        let share = if self.sources.len() > 1 { 4 } else { 1 };
        let resources = Resources { memory_bytes: self.resources.memory_bytes / share, ..self.resources };
        let proof =
            Proof { plan: self.plan, store, source: self.sources[store].store()?, copy: &copy, corrupt };
        let verified =
            engine::verify(proof, Verify::from(self.args.verify), resources, observer, self.shell.cancel())?;
        meter.verify_time.add_time(started.elapsed());
        self.shell.cancel().check()?;
        Ok(verified)
    }
}
