//! `zkit cache`: what lies in a cache of `zkit slice --cache`, whether it is sound, and what of it can go.
//!
//! What an entry is, and how it is locked, read and removed, is in `zkit_cli::cached`; here is one file for each thing that
//! is asked.

mod list;
mod prune;
mod verify;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use zkit_cli::cached::{Header, Places};
use zkit_cli::values::{parse_bytes, parse_duration};
use zkit_cli::{Command, Exit, Shell};

/// Lists, verifies and prunes a cache of `zkit slice --cache`.
#[derive(Debug, Args)]
pub struct CacheArgs {
    #[command(subcommand)]
    action: Action,
}

/// What is done with the cache.
#[derive(Debug, Subcommand)]
enum Action {
    /// Lists the entries: size, age, last use, what they hold.
    List {
        /// The cache: a directory that `zkit slice --cache` wrote.
        #[arg(value_parser = zkit_cli::values::local_path())]
        directory: PathBuf,
    },
    /// Reads everything back and compares digests; exits with 1 if something is damaged.
    Verify {
        /// The cache: a directory that `zkit slice --cache` wrote.
        #[arg(value_parser = zkit_cli::values::local_path())]
        directory: PathBuf,
        #[command(flatten)]
        limits: LimitArgs,
    },
    /// Says which entries would be removed, the least recently used first, and removes them with --yes.
    ///
    /// What runs that died have left goes in any case. An entry that is in use stays, and so does what is no entry.
    Prune {
        /// The cache: a directory that `zkit slice --cache` wrote.
        #[arg(value_parser = zkit_cli::values::local_path())]
        directory: PathBuf,
        /// Keep the entries used last, up to this size in all (200GiB).
        #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
        max_size: Option<u64>,
        /// Remove what was not used for so long (30d, 12h).
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        older_than: Option<Duration>,
        /// Remove them, instead of saying which.
        #[arg(long)]
        yes: bool,
    },
}

/// How long it may take.
#[derive(Debug, Args)]
struct LimitArgs {
    /// Stop the whole run after this time (30s, 5min, 2h), as Ctrl-C would, with exit code 3.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    deadline: Option<Duration>,
}

/// The command.
#[derive(Debug)]
pub struct Cache;

impl Command for Cache {
    const NAME: &'static str = "cache";
    type Args = CacheArgs;

    fn run(args: &CacheArgs, shell: &Shell) -> anyhow::Result<Exit> {
        match &args.action {
            Action::List { directory } => list::run(directory, shell),
            Action::Verify { directory, limits } => {
                shell.stop_after(limits.deadline);
                verify::run(directory, shell)
            }
            Action::Prune { directory, max_size, older_than, yes } => {
                let limits = prune::Limits { max_size: *max_size, older_than: *older_than };
                let mode = if *yes { prune::Mode::Remove } else { prune::Mode::Say };
                prune::run(directory, limits, mode, shell)
            }
        }
    }
}

/// Returns when an entry was last used, in seconds since 1970: when it was made, if it never was.
fn last_used(places: &Places, header: &Header) -> u64 {
    let used = places.last_used().and_then(|used| used.duration_since(UNIX_EPOCH).ok());
    used.map_or(header.created, |used| used.as_secs().max(header.created))
}

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
