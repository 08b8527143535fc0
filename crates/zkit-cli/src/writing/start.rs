//! How a store is begun: from nothing, or from what an earlier run left.

use zkit_core::engine::{self, Header, Proof};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_core::hierarchy::{Consolidated, Hierarchy};
use zkit_core::location::StoreUrl;
use zkit_core::plan::ArrayCopy;
use zkit_core::publish::{Consolidate, Destination, PartialStore, Start, Unfinished};

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

/// Looks for what earlier runs left of a store, with `--resume`, and locks it.
///
/// `header` is what this run is about, without codecs that are yet to be chosen; `is_the_copy` says whether what is at
/// the destination is what is asked for, see [`Run::is_published`].
///
/// Fails with kind `Conflict` where a store is at the destination, is another one, and is not to be replaced, or where
/// what an earlier run left is of another job.
pub fn resume(
    args: &WriteArgs,
    destination: &Destination<'_>,
    header: &dyn Fn() -> Header,
    is_the_copy: &dyn Fn() -> anyhow::Result<bool>,
) -> anyhow::Result<Earlier> {
    let resumes = args.unfinished() == Unfinished::Resume && !args.dry_run;
    if !resumes || !(destination.has_traces()? || destination.exists()?) {
        return Ok(Earlier::Nothing);
    }
    match PartialStore::create(destination, args.existing(), &header(), Unfinished::Resume)? {
        Start::Build(partial) => Ok(Earlier::Unfinished(partial)),
        Start::AlreadyPublished => Ok(Earlier::Published),
        Start::Exists if is_the_copy()? => Ok(Earlier::Published),
        Start::Exists if args.overwrite => Ok(Earlier::Nothing),
        Start::Exists => {
            let message = format!(
                "{} exists, is not the copy that is asked for, and there is nothing to resume",
                destination.url
            );
            Err(Error::new(ErrorKind::Conflict, message)
                .with_hint("pass --overwrite to replace it, or name another destination")
                .into())
        }
    }
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
        match engine::verify(proof, self.args.verify.into(), self.resources, shell.observer(), shell.cancel())
        {
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
