//! Building the stores of a plan: running it, proving each that is complete, and publishing it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use zkit_core::engine::{
    self, CorruptChunk, Endpoint, Header, LeftPieces, OnCorrupt, Proof, Resources, RunOptions, Scratch,
    Verified, Verify,
};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_core::grid::ChunkSet;
use zkit_core::hierarchy::Hierarchy;
use zkit_core::location::StoreUrl;
use zkit_core::plan::CopyPlan;
use zkit_core::publish::{self, Consolidate, PartialStore, Unfinished};
use zkit_core::store::Store;

use super::args::{VerifyArg, WriteArgs};
use super::destinations::{self, Reach};
use super::start;
use crate::shell::Shell;

/// One store of a plan: where it goes, and what it is made of.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Where it goes.
    pub destination: &'a StoreUrl,
    /// The stores that it is made of, as people and programs are told; one at least.
    pub sources: &'a [String],
    /// The store that its arrays are read from.
    pub source: &'a Store,
    /// The stores that parts of its arrays are read from, where these are put together; else none.
    pub parts: &'a [&'a Store],
    /// Whether it gets consolidated metadata.
    pub consolidate: Consolidate,
}

/// Looks at a store, by its position in the plan, that is complete and not published; an error keeps it from being
/// published.
pub type Audit<'a> = dyn Fn(usize, &Hierarchy) -> Result<(), Error> + 'a;

/// A plan that is to be run, and how.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// What the user asked.
    pub args: &'a WriteArgs,
    /// The stores of the plan.
    pub jobs: &'a [Job<'a>],
    /// Where they go, as it was given: a store, or a directory of stores.
    pub destination: &'a str,
    /// The plan.
    pub plan: &'a CopyPlan,
    /// Memory and threads.
    pub resources: Resources,
    /// What becomes of chunks that do not decode.
    pub on_corrupt: OnCorrupt,
    /// Fails with kind `Conflict` where what was read for a store, by its position in the plan, is not of one state of its
    /// source.
    pub unchanged: &'a dyn Fn(usize) -> Result<(), Error>,
    /// What the command has to say of a store before it is published.
    pub audit: &'a Audit<'a>,
    /// Who watches.
    pub shell: &'a Shell,
}

/// What was written and read back.
#[derive(Debug, Default)]
pub struct Written {
    /// What was read back of the new stores.
    pub verified: Verified,
    /// Source chunks that were skipped.
    pub corrupt: Vec<CorruptChunk>,
    /// Bytes of an earlier run that were read back.
    pub checked_bytes: u64,
    /// Objects of an earlier run that hold.
    pub resumed_objects: u64,
    /// Objects, and their bytes, that were written to scratch space on the way: no part of the new stores.
    pub scratch_objects: u64,
    /// See `scratch_objects`.
    pub scratch_bytes: u64,
}

/// What a finished run has to tell beside its counters.
#[derive(Debug)]
pub struct Done {
    /// Time before anything was written.
    pub plan_time: Duration,
    /// Time of everything.
    pub total_time: Duration,
    /// What was written.
    pub written: Written,
    /// Destinations that an earlier run had published.
    pub already_done: Vec<String>,
}

impl Run<'_> {
    /// Begins every store that is not gone on with, after questions and a look at the space there is.
    ///
    /// `partials` are those that are gone on with, one for each job; `header` is what the run says in the journal of a
    /// job. Nothing was written before.
    pub fn begin(
        &self,
        partials: Vec<Option<PartialStore>>,
        reach: &Reach<'_>,
        header: &dyn Fn(usize) -> Header,
    ) -> anyhow::Result<Vec<PartialStore>> {
        destinations::confirm_overwrite(self, reach)?;
        destinations::check_space(self)?;
        let begun = self.jobs.iter().zip(partials).enumerate().map(|(store, (job, partial))| match partial {
            Some(partial) => Ok(partial),
            None => Ok(start::begin(self.args, &reach.destination(job.destination), &header(store))?),
        });
        begun.collect()
    }

    /// Runs the plan and publishes every store that is complete, proven and passes the command's audit.
    pub fn write(&self, mut partials: Vec<PartialStore>) -> anyhow::Result<Written> {
        let observer = self.shell.observer();
        let mut written = Written::default();
        for (store, partial) in partials.iter_mut().enumerate() {
            self.check(store, partial, &mut written)?;
        }
        observer.event(Event::Phase("copying"));
        let result = self.copy(&partials, &mut written);
        let left_pieces = |job: &Job<'_>| {
            self.args.scratch_of(job.destination).is_some_and(|at| Scratch::holds_pieces(&at))
        };
        let worth = partials.iter().any(PartialStore::is_worth_resuming);
        if result.as_ref().is_err_and(is_gone_on_with) && (worth || self.jobs.iter().any(left_pieces)) {
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
        written.resumed_objects += checked.done.iter().map(ChunkSet::len).sum::<u64>();
        let damaged: u64 = checked.damaged.iter().map(ChunkSet::len).sum();
        if damaged > 0 {
            let what = zkit_report::format::counted(damaged, "object", "objects");
            self.shell
                .observer()
                .event(Event::Warning(format!("{what} of the earlier run changed since: written anew")));
        }
        Ok(())
    }

    fn copy(&self, partials: &[PartialStore], written: &mut Written) -> anyhow::Result<Vec<CorruptChunk>> {
        let mut endpoints = Vec::with_capacity(self.jobs.len());
        let scratch: Vec<_> = self.jobs.iter().map(|job| self.args.scratch_of(job.destination)).collect();
        for ((job, partial), scratch) in self.jobs.iter().zip(partials).zip(&scratch) {
            endpoints.push(Endpoint {
                source: job.source,
                parts: job.parts,
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
        let options = RunOptions { memory_bytes: self.resources.memory_bytes, on_corrupt: self.on_corrupt };
        let observer = self.shell.observer();
        let mut finished =
            |store: usize, corrupt: &[CorruptChunk]| self.publish(store, &partials[store], corrupt, written);
        Ok(engine::run_copy(self.plan, &endpoints, options, observer, self.shell.cancel(), &mut finished)?)
    }

    /// Proves a store whose chunks are all written, lets the command look at it, and makes it appear.
    fn publish(
        &self,
        store: usize,
        partial: &PartialStore,
        corrupt: &[CorruptChunk],
        written: &mut Written,
    ) -> Result<(), Error> {
        let observer = self.shell.observer();
        let documents = publish::metadata_documents(self.plan, store, self.jobs[store].consolidate);
        let copy = partial.open_copy(&documents)?;
        let meter = observer.meter();
        meter.objects_written.add(documents.len() as u64);
        meter
            .bytes_written
            .add(documents.iter().map(|(_, document)| document.to_pretty().len() as u64).sum());
        let verified = match self.prove(store, &copy, corrupt) {
            Err(error) if error.kind() == ErrorKind::Mismatch => {
                // a source that changed explains it better
                self.check_unchanged(store, partial)?;
                return Err(error);
            }
            proven => proven?,
        };
        self.check_unchanged(store, partial)?;
        written.verified += verified;
        (self.audit)(store, &copy)?;
        observer.event(Event::Phase("publishing"));
        partial.commit(&documents)?;
        if self.jobs.len() > 1 {
            observer.event(Event::Phase("copying"));
        }
        Ok(())
    }

    /// Refuses to publish what was read while its source changed: no later run goes on with it either.
    fn check_unchanged(&self, store: usize, partial: &PartialStore) -> Result<(), Error> {
        (self.unchanged)(store).or_else(|error| {
            if error.kind() == ErrorKind::Conflict {
                partial.mark_source_changed()?;
            }
            Err(error)
        })
    }

    /// Reads back what was written, by the metadata that readers will have.
    fn prove(&self, store: usize, copy: &Hierarchy, corrupt: &[CorruptChunk]) -> Result<Verified, Error> {
        let observer = self.shell.observer();
        if self.args.verify == VerifyArg::None {
            self.shell.cancel().check()?;
            return Ok(Verified::default());
        }
        observer.event(Event::Phase("verifying"));
        let started = Instant::now();
        // while other stores are copied, these have the memory
        let share = if self.jobs.len() > 1 { 4 } else { 1 };
        let resources = Resources { memory_bytes: self.resources.memory_bytes / share, ..self.resources };
        let proof = Proof {
            plan: self.plan,
            store,
            source: self.jobs[store].source,
            parts: self.jobs[store].parts,
            copy,
            corrupt,
        };
        let verified =
            engine::verify(proof, Verify::from(self.args.verify), resources, observer, self.shell.cancel())?;
        observer.meter().verify_time.add_time(started.elapsed());
        self.shell.cancel().check()?;
        Ok(verified)
    }

    /// Returns all stores that are read from, each once.
    pub(super) fn source_stores(&self) -> impl Iterator<Item = &Store> {
        let mut seen = BTreeSet::new();
        let all = self.jobs.iter().flat_map(|job| std::iter::once(&job.source).chain(job.parts));
        all.copied().filter(move |store| seen.insert(std::ptr::from_ref::<Store>(store)))
    }

    /// Returns what all stores are made of, each once.
    pub(super) fn sources(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let all = self.jobs.iter().flat_map(|job| job.sources);
        all.filter(|source| seen.insert(source.as_str())).cloned().collect()
    }

    /// Returns what one store is made of, by the first store among those.
    pub(super) fn name_of(&self, store: usize) -> String {
        self.jobs[store].sources.first().cloned().unwrap_or_default()
    }
}

/// Returns whether a run that ended so can be gone on with: not where its source is another one by now.
fn is_gone_on_with(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Error>().is_none_or(|error| error.kind() != ErrorKind::Conflict)
}
