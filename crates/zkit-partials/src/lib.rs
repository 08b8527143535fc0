//! `zkit partials`: what runs that died have left beside their destinations, and clearing it away.
//!
//! What is a run's own, who holds it and how it is cleared is in `zkit_core::publish`; here is what people are told.

mod output;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use zkit_cli::args::StoreArgs;
use zkit_cli::values::parse_duration;
use zkit_cli::values::store_url;
use zkit_cli::{Command, Exit, Shell};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_core::location::StoreUrl;
use zkit_core::publish::{Destination, Holder, Leftover, clear_leftover, find_leftovers};
use zkit_core::store::{StoreOptions, UploadRoom};

use output::{Outcome, Output, PartialOutput};

/// Lists what unfinished copies have left beside their destinations, and clears it away.
#[derive(Debug, Args)]
pub struct PartialsArgs {
    #[command(subcommand)]
    action: Action,
}

/// What is done with them.
#[derive(Debug, Subcommand)]
enum Action {
    /// Lists unfinished copies: who holds them, size, age, and objects that were begun in parts.
    List {
        #[command(flatten)]
        places: PlaceArgs,
    },
    /// Says which unfinished copies no run holds, and removes them with --yes.
    ///
    /// With each go its journal and the objects that it began in parts. A published store stays, and so does what another
    /// program left. A copy that a run on another machine holds is watched for half a minute before it is removed.
    Clean {
        #[command(flatten)]
        places: PlaceArgs,
        /// Remove only what was not changed for so long (7d, 12h).
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        older_than: Option<Duration>,
        /// Remove them, instead of saying which.
        #[arg(long)]
        yes: bool,
    },
}

/// Where to look.
#[derive(Debug, Args)]
struct PlaceArgs {
    /// Folders and buckets to look into, or destinations of copies; stores below them are not looked into.
    #[arg(required = true, value_name = "PLACE", value_parser = store_url())]
    places: Vec<StoreUrl>,
    #[command(flatten)]
    access: StoreArgs,
}

/// The command.
#[derive(Debug)]
pub struct Partials;

impl Command for Partials {
    const NAME: &'static str = "partials";
    type Args = PartialsArgs;

    fn run(args: &PartialsArgs, shell: &Shell) -> anyhow::Result<Exit> {
        match &args.action {
            Action::List { places } => list(places, shell),
            Action::Clean { places, older_than, yes } => {
                let mode = if *yes { Mode::Remove } else { Mode::Say };
                clean(places, *older_than, mode, shell)
            }
        }
    }
}

/// Whether it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It is only said what would go.
    Say,
    /// It goes.
    Remove,
}

/// What it takes to reach destinations.
struct Access<'a> {
    options: StoreOptions,
    room: UploadRoom,
    shell: &'a Shell,
}

impl<'a> Access<'a> {
    fn new(args: &StoreArgs, shell: &'a Shell) -> Result<Self, Error> {
        shell.watch_stalls(args.stall_timeout);
        let options = args.store_options(shell)?;
        let room = UploadRoom::new(0, options.timeout);
        Ok(Self { options, room, shell })
    }

    fn destination<'b>(&'b self, url: &'b StoreUrl) -> Destination<'b> {
        let (options, room, observer) = (&self.options, &self.room, self.shell.observer());
        Destination { url, options, neighbour: None, room, observer }
    }

    fn find(&self, places: &[StoreUrl]) -> Result<Vec<Leftover>, Error> {
        self.shell.observer().event(Event::Phase("looking for unfinished copies"));
        let mut found: Vec<Leftover> = Vec::new();
        for place in places {
            let there = find_leftovers(&self.destination(place), self.shell.cancel())?;
            // places may lie in each other
            let is_new = |one: &Leftover| found.iter().all(|other| other.url != one.url);
            let new: Vec<Leftover> = there.into_iter().filter(is_new).collect();
            found.extend(new);
        }
        Ok(found)
    }
}

fn list(args: &PlaceArgs, shell: &Shell) -> anyhow::Result<Exit> {
    let found = Access::new(&args.access, shell)?.find(&args.places)?;
    let partials = found.iter().map(|one| PartialOutput::of(one, None)).collect();
    let output = Output::new(partials, None);
    shell.emit(&output.document(now()), &output)?;
    Ok(Exit::Done)
}

fn clean(args: &PlaceArgs, older_than: Option<Duration>, mode: Mode, shell: &Shell) -> anyhow::Result<Exit> {
    let access = Access::new(&args.access, shell)?;
    let mut partials = Vec::new();
    for one in access.find(&args.places)? {
        shell.cancel().check()?;
        let outcome = match (one.holder, mode) {
            (Holder::Running, _) => Outcome::InUse,
            _ if older_than.is_some_and(|age| is_younger(&one, age)) => Outcome::TooYoung,
            (_, Mode::Say) => Outcome::WouldBeRemoved,
            (_, Mode::Remove) => removed(&access, &one)?,
        };
        partials.push(PartialOutput::of(&one, Some(outcome)));
    }
    let exit = match partials.iter().any(PartialOutput::failed) {
        true => Exit::Incomplete,
        false => Exit::Done,
    };
    let would = partials.iter().any(PartialOutput::would_go);
    let output = Output::new(partials, Some(mode == Mode::Say));
    shell.emit(&output.document(now()), &output)?;
    if would {
        shell.hint("nothing was removed: pass --yes to remove them");
    }
    Ok(exit)
}

/// Removes one; what cannot be removed is said of it, and the others are gone on with.
///
/// Errors: `Cancelled`.
fn removed(access: &Access<'_>, one: &Leftover) -> Result<Outcome, Error> {
    match clear_leftover(&access.destination(&one.url)) {
        Ok(()) => Ok(Outcome::Removed),
        Err(error) if error.kind() == ErrorKind::Cancelled => Err(error),
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(Outcome::Refused(error.one_line())),
        Err(error) => Ok(Outcome::Failed(error.one_line())),
    }
}

fn is_younger(one: &Leftover, age: Duration) -> bool {
    let changed = one.changed.and_then(|changed| u64::try_from(changed).ok());
    changed.is_none_or(|changed| now().saturating_sub(changed) < age.as_secs())
}

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
