//! How a store is begun: from nothing, or from what an earlier run left.

use zkit_core::engine::{self, Header, Proof, Verify};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_core::hierarchy::{Consolidated, Hierarchy};
use zkit_core::location::StoreUrl;
use zkit_core::plan::ArrayCopy;
use zkit_core::publish::{Consolidate, Destination, PartialStore, Recorded, Start, Unfinished};

use super::args::WriteArgs;
use super::codec::CodecChoice;
use super::destinations::Reach;
use super::run::Run;

/// What earlier runs left of a store.
#[derive(Debug)]
pub enum Earlier {
    /// Nothing that is gone on with.
    Nothing,
    /// A part of it. Its header says which codecs were chosen by measuring: they are to be taken over.
    Unfinished(Box<PartialStore>),
    /// All of it: it is published, and there is nothing to do.
    Published,
}

/// With which earlier work a run is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// A part of a store: objects of the source are compared as `--source-check` says.
    Unfinished,
    /// A finished store: what is known of the source's objects is compared unless `--source-check metadata` is passed.
    Published,
}

/// Looks for what earlier runs left of a store, with `--resume`, and locks it.
///
/// `header` is what this run is about, without codecs that are yet to be chosen; `is_the_copy` says whether what is at
/// the destination holds what is asked for, see [`Run::is_published`]. A finished store is the copy if its own record says
/// so; where file systems keep no records, all of it is compared.
///
/// Fails with kind `Conflict` where a store is at the destination, is another one, and is not to be replaced, or where
/// what an earlier run left is of another job.
pub fn resume(
    args: &WriteArgs,
    destination: &Destination<'_>,
    header: &dyn Fn(Before) -> Header,
    is_the_copy: &dyn Fn(Verify) -> anyhow::Result<bool>,
) -> anyhow::Result<Earlier> {
    let resumes = args.unfinished() == Unfinished::Resume && !args.dry_run;
    if !resumes || !(destination.has_traces()? || destination.exists()?) {
        return Ok(Earlier::Nothing);
    }
    match PartialStore::create(destination, args.existing(), &header(Before::Unfinished), Unfinished::Resume)?
    {
        Start::Build(partial) => Ok(Earlier::Unfinished(partial)),
        Start::AlreadyPublished => Ok(Earlier::Published),
        Start::Exists => {
            let Some(why) = why_not_the_copy(args, destination, header, is_the_copy)? else {
                return Ok(Earlier::Published);
            };
            if args.overwrite {
                return Ok(Earlier::Nothing);
            }
            let message = format!(
                "{} exists, is not the copy that is asked for, and there is nothing to resume: {why}",
                destination.url
            );
            let hint = match destination.url.local_path() {
                Some(_) => "pass --overwrite to replace it, or name another destination",
                None => "pass --overwrite --unpublish-first to replace it, or name another destination",
            };
            Err(Error::new(ErrorKind::Conflict, message).with_hint(hint).into())
        }
    }
}

/// Says why a store that is at the destination is not the copy that is asked for, if it is not.
fn why_not_the_copy(
    args: &WriteArgs,
    destination: &Destination<'_>,
    header: &dyn Fn(Before) -> Header,
    is_the_copy: &dyn Fn(Verify) -> anyhow::Result<bool>,
) -> anyhow::Result<Option<String>> {
    let verify = match destination.recorded()? {
        Recorded::Known(record) => match record.difference(&header(Before::Published)) {
            Some(difference) => return Ok(Some(difference)),
            None => args.verify.into(),
        },
        Recorded::Nothing => {
            let why = "nothing says which source and options it was made with";
            return Ok(Some(why.to_owned()));
        }
        Recorded::Unknowable => Verify::Full,
    };
    let why = "its metadata or values differ from what this run would write";
    Ok((!is_the_copy(verify)?).then(|| why.to_owned()))
}

/// Begins a store of which nothing is there to go on with.
pub(super) fn begin(
    args: &WriteArgs,
    destination: &Destination<'_>,
    header: &Header,
) -> Result<PartialStore, Error> {
    let unfinished = match args.unfinished() {
        // there was nothing to go on with
        Unfinished::Resume => Unfinished::Refuse,
        other => other,
    };
    match PartialStore::create(destination, args.existing(), header, unfinished)? {
        Start::Build(partial) => Ok(*partial),
        Start::AlreadyPublished | Start::Exists => Err(raced(destination.url)),
    }
}

fn raced(destination: &StoreUrl) -> Error {
    let message = format!("another run published {destination} at this moment");
    Error::new(ErrorKind::Conflict, message).with_hint("look at what it made before you replace it")
}

impl Run<'_> {
    /// Returns whether what is at the destination of a store is what this run would write there: the same metadata, but for
    /// codecs that are chosen by measuring, and the same values, as far as `--verify` looks. `default` is the codec where
    /// none is passed.
    pub fn is_published(
        &self,
        store: usize,
        reach: &Reach<'_>,
        default: &CodecChoice,
        verify: Verify,
    ) -> anyhow::Result<bool> {
        let job = &self.jobs[store];
        let Ok(copy) = Hierarchy::open(job.destination, reach.options()) else { return Ok(false) };
        let (plan, shell) = (self.plan, self.shell);
        let codec = self.args.codec.as_ref().unwrap_or(default);
        let is_consolidated = copy.consolidated != Consolidated::None;
        let is_consolidated = is_consolidated == (job.consolidate == Consolidate::Yes);
        let documents = plan.stores.get(store).is_none_or(|store| store.groups.is_empty()) || is_consolidated;
        let planned: Vec<&ArrayCopy> = plan.arrays.iter().filter(|array| array.store == store).collect();
        if !documents || copy.arrays.len() != planned.len() || !is_planned(&copy, &planned, codec) {
            return Ok(false);
        }
        let proof = Proof { plan, store, source: job.source, parts: job.parts, copy: &copy, corrupt: &[] };
        shell.observer().event(Event::Phase("checking"));
        match engine::verify(proof, verify, self.resources, shell.observer(), shell.cancel()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Cancelled => Err(error.into()),
            Err(_) => Ok(false),
        }
    }
}

/// Returns whether a store has the metadata that a plan would write.
fn is_planned(copy: &Hierarchy, planned: &[&ArrayCopy], codec: &CodecChoice) -> bool {
    planned.iter().all(|array| {
        copy.array(&array.target.path).is_some_and(|found| {
            let (is, wanted) = (&found.metadata, &array.target.metadata);
            is.format == wanted.format
                && is.shape() == wanted.shape()
                && is.data_type == wanted.data_type
                && is.fill_value == wanted.fill_value
                && is.chunk_shape() == wanted.chunk_shape()
                && is.grid == wanted.grid
                && (*codec == CodecChoice::Auto || is.codecs_json() == wanted.codecs_json())
        })
    })
}
