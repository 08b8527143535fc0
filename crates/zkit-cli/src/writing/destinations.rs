//! Where stores are to appear: how the places are reached, whether something there is replaced, and whether there is room.

use zkit_core::engine;
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Observer;
use zkit_core::location::StoreUrl;
use zkit_core::publish::{self, Destination};
use zkit_core::store::{RemoteStore, StoreOptions, UploadRoom};
use zkit_core::units::Bytes;

use super::args::WriteArgs;
use super::run::Run;
use crate::shell::Shell;

/// One part in so many of the memory is for chunks that are on their way to buckets.
const UPLOAD_SHARE: u64 = 4;

/// How the destinations of a run are reached.
pub struct Reach<'a> {
    options: StoreOptions,
    /// The first destination, if it is remote: others in its bucket share its connections.
    neighbour: Option<RemoteStore>,
    room: UploadRoom,
    upload_bytes: u64,
    observer: &'a dyn Observer,
}

impl<'a> Reach<'a> {
    /// Returns how to reach destinations with these options, within so much memory for everything.
    ///
    /// Opens the first one, if it is remote.
    pub fn open(
        destinations: &[&StoreUrl],
        options: StoreOptions,
        memory_bytes: u64,
        shell: &'a Shell,
    ) -> Result<Self, Error> {
        let remote = destinations.iter().any(|url| url.local_path().is_none());
        let upload_bytes = if remote { memory_bytes / UPLOAD_SHARE } else { 0 };
        let first = destinations.first().filter(|url| url.local_path().is_none());
        // what was written is read back from where it is
        let options = StoreOptions { chunk_cache: None, ..options };
        Ok(Self {
            neighbour: first.map(|url| RemoteStore::open(url, &options)).transpose()?,
            room: UploadRoom::new(upload_bytes, options.timeout),
            upload_bytes,
            options,
            observer: shell.observer(),
        })
    }

    /// Returns one of the destinations.
    pub fn destination(&'a self, url: &'a StoreUrl) -> Destination<'a> {
        Destination {
            url,
            options: &self.options,
            neighbour: self.neighbour.as_ref(),
            room: &self.room,
            observer: self.observer,
        }
    }

    /// Returns the part of the memory that is for chunks on their way to buckets: what a plan leaves to them.
    pub fn upload_bytes(&self) -> u64 {
        self.upload_bytes
    }

    /// Returns how remote stores are reached.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// Returns the room for what is on its way to buckets.
    pub(super) fn room(&self) -> &UploadRoom {
        &self.room
    }
}

impl WriteArgs {
    /// Returns how much scratch space a plan may take: none where there is no place for it.
    ///
    /// The first destination stands for all.
    pub fn scratch_bytes(&self, destinations: &[&StoreUrl]) -> u64 {
        // beside a bucket there is no disk
        let scratch = destinations.first().and_then(|destination| self.scratch_of(destination));
        scratch.map_or(0, |place| {
            self.scratch_size.unwrap_or_else(|| publish::free_bytes(&place).map_or(0, |free| free / 2))
        })
    }
}

/// Asks whether what is at the destinations is to be replaced, where that must be asked.
pub(super) fn confirm_overwrite(run: &Run<'_>, reach: &Reach<'_>) -> anyhow::Result<()> {
    if !run.args.overwrite || run.args.yes {
        return Ok(());
    }
    let mut there = Vec::new();
    for destination in run.jobs.iter().map(|job| job.destination) {
        if reach.destination(destination).exists()? {
            there.push(destination);
        }
    }
    let Some(first) = there.first() else { return Ok(()) };
    let when = match run.args.unpublish_first && first.local_path().is_none() {
        true => "before the copy is begun",
        false => "once the copy is complete",
    };
    let question = match there.len() {
        1 => format!("Replace {first} {when}?"),
        many => format!("Replace {first} and {} more, each {when}?", many - 1),
    };
    if run.shell.confirm(&question, "pass --yes to replace it without asking")? {
        return Ok(());
    }
    let message = format!("{first} was left as it is");
    Err(Error::new(ErrorKind::Conflict, message).into())
}

/// Refuses a plan that cannot fit its disk. The first destination stands for all.
pub(super) fn check_space(run: &Run<'_>) -> Result<(), Error> {
    let plan = run.plan;
    let absent_bytes = engine::absent_bytes(plan)?;
    let Some(first) = run.jobs.first().map(|job| job.destination) else { return Ok(()) };
    let scratch = run.args.scratch_of(first).and_then(|place| publish::free_bytes(&place));
    if let Some(free) = scratch.filter(|&free| plan.totals.scratch_bytes > free) {
        let message = format!(
            "scratch space of {} is needed, {} are free",
            Bytes(plan.totals.scratch_bytes),
            Bytes(free)
        );
        return Err(Error::new(ErrorKind::OverBudget, message)
            .with_hint("pass --scratch with a larger disk, or a smaller --scratch-size"));
    }
    match first.local_path().and_then(publish::free_bytes) {
        Some(free) if absent_bytes > free => {
            let message = format!(
                "{} absent chunks must be written, as the copy cannot say their fill value: {} on disk, {} are free at {}",
                zkit_report::format::count(plan.totals.absent_written),
                Bytes(absent_bytes),
                Bytes(free),
                run.destination
            );
            Err(Error::new(ErrorKind::Unwritable, message)
                .with_hint("keep the Zarr format, or --exclude the arrays that are mostly absent"))
        }
        _ => Ok(()),
    }
}
