//! The arguments that commands share. Their doc comments are the help text.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ColorChoice, ValueEnum};

use zkit_core::error::{Error, ErrorKind};
use zkit_core::hierarchy::ArrayNode;
use zkit_core::location::StoreUrl;
use zkit_core::store::{ChunkCache, Hosts, NetworkLimits, Reads, StoreChecksums, StoreOptions};

use crate::memory::{self, MemoryBudget};
use crate::shell::Shell;
use crate::values::{
    ArrayFilter, ArrayGlob, MemoryLimit, StorageOption, local_path, parse_bytes, parse_count, parse_duration,
    store_url,
};

/// For whom the answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs; the fields are documented and stable.
    Json,
    /// For CI services that show tests: JUnit XML.
    Junit,
    /// For code scanning services: SARIF 2.1.0.
    Sarif,
    /// For the log of a GitHub workflow, which shows annotations.
    Github,
    /// For a browser: one file that loads nothing else.
    Html,
}

impl Format {
    /// What every command answers in.
    pub const ANSWERS: &'static [Self] = &[Self::Text, Self::Json];
    /// What commands answer in that report findings; see [`Shell::emit_report`].
    pub const REPORTS: &'static [Self] =
        &[Self::Text, Self::Json, Self::Junit, Self::Sarif, Self::Github, Self::Html];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Junit => "junit",
            Self::Sarif => "sarif",
            Self::Github => "github",
            Self::Html => "html",
        }
    }
}

/// How much is said on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// Progress, warnings and hints.
    Normal,
    /// And what zkit decides.
    Info,
    /// And why.
    Debug,
    /// And every step.
    Trace,
}

/// What every command takes; the shell adds it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output options")]
pub struct GlobalArgs {
    /// Whether the answer is for people (text) or for programs (json); reports of `audit` also come as junit,
    /// sarif, github and html.
    #[arg(long, global = true, value_name = "FORMAT")]
    #[arg(value_enum, default_value_t = Format::Text, hide_possible_values = true)]
    pub format: Format,

    /// Write the answer to FILE, which appears once it is complete, instead of stdout.
    #[arg(long, global = true, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Print errors only: no progress, no warnings, no hints about the run.
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Say more on stderr; -vv and -vvv say even more.
    #[arg(long, short, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    /// When to use colours: auto, always or never; auto obeys NO_COLOR and CLICOLOR.
    #[arg(long, global = true, value_name = "WHEN")]
    #[arg(value_enum, default_value_t = ColorChoice::Auto, hide_possible_values = true)]
    pub color: ColorChoice,
}

impl GlobalArgs {
    /// Returns how much is said on stderr.
    pub fn verbosity(&self) -> Verbosity {
        match self.verbose {
            _ if self.quiet => Verbosity::Quiet,
            0 => Verbosity::Normal,
            1 => Verbosity::Info,
            2 => Verbosity::Debug,
            _ => Verbosity::Trace,
        }
    }
}

/// More threads than this are not started.
const MAX_JOBS: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// What a run may take of the machine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Resource options")]
pub struct ResourceArgs {
    /// Memory for the work: a size (8GiB), or a share of what the machine or its cgroup has free (30%)
    /// [default: 20%].
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<MemoryLimit>,

    /// Threads that work, at most 1,024 [default: one for each CPU that this process may use].
    #[arg(long, short, value_name = "N", value_parser = parse_count)]
    pub jobs: Option<NonZeroUsize>,

    /// Stop the whole run after this time (30s, 5min, 2h), as Ctrl-C would, with exit code 3.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub deadline: Option<Duration>,
}

impl ResourceArgs {
    /// Returns the memory budget: what was asked for, or a share of what is free now.
    pub fn memory_budget(&self) -> MemoryBudget {
        MemoryBudget::resolve(self.memory, memory::free_bytes())
    }

    /// Returns the number of threads that work; more than 1,024 would only wait for each other.
    pub fn jobs(&self) -> NonZeroUsize {
        let jobs = self.jobs.or_else(|| std::thread::available_parallelism().ok());
        jobs.unwrap_or(NonZeroUsize::MIN).min(MAX_JOBS)
    }
}

/// How stores are reached.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Store options")]
pub struct StoreArgs {
    /// Option for remote stores, such as region=eu-west-1; wins over the environment; may be repeated.
    #[arg(long = "storage-option", value_name = "KEY=VALUE")]
    pub storage_options: Vec<StorageOption>,

    /// Send no credentials: for public buckets.
    #[arg(long)]
    pub anonymous: bool,

    /// Longest wait for an answer to begin, and for the next bytes of one that is on its way (30s, 5min), after
    /// which it is asked for again.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub timeout: Duration,

    /// Longest time in which no byte arrives or leaves, after which the run ends and says where it hung.
    #[arg(long, value_name = "DURATION", default_value = "5min", value_parser = parse_duration)]
    pub stall_timeout: Duration,

    /// Have at most so many reads in flight of one bucket or web server; fewer where more bring nothing, or where
    /// it refuses them.
    #[arg(long, value_name = "N", default_value_t = NetworkLimits::CONNECTIONS, value_parser = parse_count)]
    pub connections: NonZeroUsize,

    /// Send at most so many requests a second to remote stores.
    #[arg(long, value_name = "N")]
    pub max_requests_per_second: Option<NonZeroU32>,

    /// Whether objects that are read whole are compared with the checksums that remote stores keep of them.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = ChecksumUse::Compare)]
    pub store_checksums: ChecksumUse,

    /// Follow links that lead out of a local store.
    #[arg(long)]
    pub follow_links: bool,

    /// Let kerchunk references lead to what lies below PREFIX (s3://bucket/data, /data/nc), and not only to files
    /// beside them; may be repeated.
    #[arg(long = "allow-prefix", value_name = "PREFIX", value_parser = store_url())]
    pub allow_prefixes: Vec<StoreUrl>,

    /// Keep what is read of remote stores in DIR, for the next run: what is there is fetched again only if the server says that it
    /// has changed; runs may share it [default: ZKIT_CHUNK_CACHE, else nothing is kept].
    #[arg(long, value_name = "DIR", value_parser = local_path())]
    pub chunk_cache: Option<PathBuf>,

    /// Most bytes of the chunk cache on disk; what was not used for longest goes first [default: ZKIT_CHUNK_CACHE_SIZE,
    /// else 10GiB].
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub chunk_cache_size: Option<u64>,
}

/// What is made of the checksums of remote stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ChecksumUse {
    /// What differs is fetched again, and is corrupt if it still differs.
    Compare,
    /// For servers whose entity tags look like MD5 and are something else.
    Ignore,
}

/// What a chunk cache holds at most, where nobody says it.
const CHUNK_CACHE_BYTES: u64 = 10 << 30;

impl StoreArgs {
    /// Returns how to reach stores, with what the environment says; waiting ends when the run is cancelled.
    ///
    /// Fails with kind `Usage` where the chunk cache is none.
    pub fn store_options(&self, shell: &Shell) -> Result<StoreOptions, Error> {
        let environment = shell.environment();
        Ok(StoreOptions {
            environment: environment.store_variables(),
            options: self
                .storage_options
                .iter()
                .map(|option| (option.key.clone(), option.value.clone()))
                .collect(),
            anonymous: self.anonymous,
            timeout: self.timeout,
            follow_links: self.follow_links,
            allow_prefixes: self.allow_prefixes.clone(),
            hosts: Hosts::Named,
            cancel: shell.cancel().clone(),
            network: shell.network(NetworkLimits {
                connections: self.connections,
                max_requests_per_second: self.max_requests_per_second,
            }),
            reads: Reads::Forgotten,
            chunk_cache: self.chunk_cache(shell)?,
            checksums: match self.store_checksums {
                ChecksumUse::Compare => StoreChecksums::Compared,
                ChecksumUse::Ignore => StoreChecksums::Ignored,
            },
        })
    }

    fn chunk_cache(&self, shell: &Shell) -> Result<Option<ChunkCache>, Error> {
        let environment = shell.environment();
        let Some(directory) = self.chunk_cache.clone().or_else(|| environment.chunk_cache()) else {
            if self.chunk_cache_size.is_some() {
                let error = Error::new(ErrorKind::Usage, "--chunk-cache-size is given, and no chunk cache");
                return Err(error.with_hint("pass --chunk-cache DIR"));
            }
            return Ok(None);
        };
        let most_bytes = match self.chunk_cache_size {
            Some(bytes) => bytes,
            None => environment.chunk_cache_bytes()?.unwrap_or(CHUNK_CACHE_BYTES),
        };
        shell.chunk_cache(&directory, most_bytes)
    }
}

/// Which arrays a run is about.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Selection options")]
pub struct SelectArgs {
    /// Take only arrays whose path matches GLOB (surface/t*, **/t2m), or that lie in a group that does; may
    /// be repeated.
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<ArrayGlob>,

    /// Leave out arrays whose path matches GLOB, or that lie in a group that does; may be repeated.
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<ArrayGlob>,
}

impl SelectArgs {
    /// Returns the arrays that the globs take.
    ///
    /// Fails with kind `Usage` where there are arrays and none is taken: that is a mistyped glob.
    pub fn take<'a>(&self, arrays: Vec<&'a ArrayNode>) -> Result<Vec<&'a ArrayNode>, Error> {
        let filter = self.filter();
        let some = !arrays.is_empty();
        let taken: Vec<&ArrayNode> = arrays.into_iter().filter(|array| filter.takes(&array.path)).collect();
        if some && taken.is_empty() {
            let error = Error::new(ErrorKind::Usage, "--include and --exclude leave no array");
            return Err(error.with_hint("run `zkit inspect` to see the paths of the arrays"));
        }
        Ok(taken)
    }

    /// Returns the filter over array paths.
    pub fn filter(&self) -> ArrayFilter {
        ArrayFilter::new(self.include.clone(), self.exclude.clone())
    }

    /// Returns the globs in canonical form: a resumed run must have the same.
    pub fn canonical(&self) -> Vec<(String, String)> {
        let text = |globs: &[ArrayGlob]| globs.iter().map(ArrayGlob::as_str).collect::<Vec<_>>().join(" ");
        vec![("--include".to_owned(), text(&self.include)), ("--exclude".to_owned(), text(&self.exclude))]
    }
}
