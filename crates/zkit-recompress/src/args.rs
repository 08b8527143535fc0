//! The arguments of `zkit recompress`; their doc comments are the help text.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use zkit_cli::args::{ResourceArgs, SelectArgs, StoreArgs};
use zkit_cli::values::parse_bytes;
use zkit_core::engine::{OnCorrupt, Prefer, Verify};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::location::StoreUrl;
use zkit_core::metadata::{ChecksumChoice, ZarrFormat};
use zkit_core::publish::{Consolidate, Existing, Unfinished};

use crate::codec::{self, CodecChoice};
use crate::layout_args::LayoutArgs;
use crate::source::Source;

/// Copies whole stores with other chunks, another codec or Zarr format, and proves the copies.
///
/// Groups, arrays, coordinates, attributes, dimension names and consolidated metadata are kept; so are chunk shapes
/// unless --chunks or --access is given, but that shards become plain chunks in Zarr v2. A copy appears at its
/// destination at once, when all of it is written and checked. A run that dies is gone on with by --resume. Arrays that
/// cannot be encoded anew are copied byte for byte and named.
#[derive(Debug, Args)]
pub struct RecompressArgs {
    /// Path or URL of the store to copy, and that of the copy; with --into any number of stores to copy.
    #[arg(required = true, value_name = "SOURCE... DESTINATION", num_args = 1..)]
    stores: Vec<StoreUrl>,

    /// Copy every store into this directory (or below this URL), each under its own name; each appears when it is done.
    #[arg(long, value_name = "DIRECTORY")]
    into: Option<StoreUrl>,

    /// Codec: auto, blosc:COMPRESSOR:LEVEL:SHUFFLE, zstd:LEVEL, gzip:LEVEL, none, keep, or JSON as in Zarr metadata.
    ///
    /// auto measures block sizes, levels and shuffles on samples of the data and says what it chose. COMPRESSOR is
    /// zstd, lz4 or zlib; SHUFFLE is bitshuffle, shuffle or noshuffle. [default: auto]
    #[arg(long, value_parser = codec::parse_choice)]
    pub(crate) codec: Option<CodecChoice>,

    /// What --codec auto looks for: the least time, the fewest bytes, or time at no more bytes than blosc:zstd:3
    /// [default: balanced].
    #[arg(long, value_enum)]
    pub(crate) prefer: Option<PreferArg>,

    /// Zarr format of the copy.
    #[arg(long, value_enum, default_value_t = FormatArg::Keep)]
    pub(crate) zarr_format: FormatArg,

    /// Checksums of chunks: crc32c in v3, in zstd frames of v2, or none.
    #[arg(long, value_enum, default_value_t = ChecksumArg::Auto)]
    pub(crate) checksum: ChecksumArg,

    /// Consolidated metadata: as the source has it, always, or never.
    #[arg(long, value_enum, default_value_t = ConsolidateArg::Auto)]
    pub(crate) consolidate: ConsolidateArg,

    /// How much of the copy is read back and compared: nothing, one byte in a hundred, or everything.
    #[arg(long, value_enum, default_value_t = VerifyArg::Sample)]
    pub(crate) verify: VerifyArg,

    /// What to do with source chunks that do not decode: stop, or leave fill values and name them at the end.
    #[arg(long, value_enum, default_value_t = OnCorruptArg::Fail)]
    pub(crate) on_corrupt: OnCorruptArg,

    /// Copy only the first N variables (and the coordinates), and say what all of them would take.
    #[arg(long, value_name = "N")]
    pub(crate) first: Option<usize>,

    /// Print the plan and what it costs, and write nothing but a short probe of the destination.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Go on with what a run that died has left, after checking it.
    #[arg(long, conflicts_with = "restart")]
    resume: bool,

    /// Begin anew, and remove what a run that died has left.
    #[arg(long)]
    restart: bool,

    /// How --resume tells that the source is the same: by its metadata, or also by size and time of its objects.
    #[arg(long, value_enum, default_value_t = SourceCheckArg::Auto)]
    pub(crate) source_check: SourceCheckArg,

    /// Directory for scratch space, where a rechunk needs it [default: beside the destination; none for a bucket].
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) scratch: Option<PathBuf>,

    /// Scratch space that may be used; 0 for none [default: half of what is free].
    #[arg(long, value_name = "SIZE", value_parser = parse_scratch)]
    pub(crate) scratch_size: Option<u64>,

    /// Replace a store that is already at the destination, once the copy is complete.
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// With --overwrite, where the destination is in a bucket: remove the old store before the copy is begun.
    ///
    /// An object store cannot exchange two stores. Until the copy is complete there is none at the destination.
    #[arg(long, requires = "overwrite")]
    pub(crate) unpublish_first: bool,

    /// Do not ask before replacing.
    #[arg(long)]
    pub(crate) yes: bool,

    /// Leave out nodes whose metadata is broken, instead of refusing the store.
    #[arg(long)]
    pub(crate) skip_broken: bool,

    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) access: StoreArgs,
}

/// Parses a size, or 0 for none.
fn parse_scratch(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { parse_bytes(text) }
}

/// Returns the word that stands for a value on the command line.
fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// One store and where its copy goes.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) source: StoreUrl,
    pub(crate) destination: StoreUrl,
}

impl RecompressArgs {
    /// Returns the stores and where their copies go.
    ///
    /// Fails with kind `Usage` where names collide or none is given, and where other arguments make no sense.
    pub(crate) fn jobs(&self) -> Result<Vec<Job>, Error> {
        self.check_prefer()?;
        self.check_scratch()?;
        let Some(into) = &self.into else { return self.one_job().map(|job| vec![job]) };
        if into.local_path().is_some_and(|into| into.exists() && !into.is_dir()) {
            let message = format!("could not copy into {into}: it is no directory");
            return Err(Error::new(ErrorKind::Usage, message).with_hint("name a directory for the copies"));
        }
        let mut jobs: Vec<Job> = Vec::with_capacity(self.stores.len());
        for source in &self.stores {
            let Some(name) = source.name().filter(|name| !matches!(name.as_str(), "." | "..")) else {
                let message = format!("could not name the copy of {source}: it has no name of its own");
                return Err(
                    Error::new(ErrorKind::Usage, message).with_hint("name the store by its whole path")
                );
            };
            let destination = into.join(&name);
            if let Some(other) = jobs.iter().find(|job| job.destination == destination) {
                let message = format!("{} and {source} would both be copied to {destination}", other.source);
                return Err(Error::new(ErrorKind::Usage, message)
                    .with_hint("copy them in two runs, to two directories"));
            }
            jobs.push(Job { source: source.clone(), destination });
        }
        Ok(jobs)
    }

    /// Returns what is looked for where codecs are chosen.
    pub(crate) fn prefer(&self) -> Prefer {
        self.prefer.unwrap_or(PreferArg::Balanced).into()
    }

    fn check_prefer(&self) -> Result<(), Error> {
        let (Some(prefer), Some(codec @ CodecChoice::Given(_))) = (self.prefer, &self.codec) else {
            return Ok(());
        };
        let message = format!(
            "could not use --prefer {}: with --codec {} there is nothing to choose",
            word(prefer),
            codec::choice_text(codec)
        );
        Err(Error::new(ErrorKind::Usage, message).with_hint("pass one of the two, or --codec auto"))
    }

    fn check_scratch(&self) -> Result<(), Error> {
        let Some(scratch) = self.scratch.as_ref().filter(|scratch| !scratch.is_dir()) else { return Ok(()) };
        let what = if scratch.exists() { "it is no directory" } else { "there is no such directory" };
        let message = format!("could not use the scratch space {}: {what}", scratch.display());
        Err(Error::new(ErrorKind::Usage, message).with_hint("make the directory, or name another one"))
    }

    fn one_job(&self) -> Result<Job, Error> {
        let [source, destination] = self.stores.as_slice() else {
            let message = match self.stores.len() {
                1 => "a source and a destination are needed".to_owned(),
                many => format!("{many} stores are given, a source and a destination are expected"),
            };
            return Err(Error::new(ErrorKind::Usage, message)
                .with_hint("to copy many stores, pass --into with a directory for the copies"));
        };
        Ok(Job { source: source.clone(), destination: destination.clone() })
    }

    /// Returns the directory that a copy's scratch space is, while there is one; `None` beside a bucket.
    pub(crate) fn scratch_of(&self, source: &Source) -> Option<PathBuf> {
        let mut name = OsString::from(source.destination.name().unwrap_or_default());
        match (&self.scratch, source.destination.local_path()) {
            (Some(folder), _) => {
                name.push(".partial.scratch");
                Some(folder.join(name))
            }
            (None, Some(path)) => {
                name = path.file_name().unwrap_or_default().to_owned();
                name.push(".partial.scratch");
                Some(path.with_file_name(name))
            }
            (None, None) => None,
        }
    }

    /// Returns where the copies go, as it was given.
    pub(crate) fn destination_text(&self) -> String {
        match &self.into {
            Some(into) => into.to_string(),
            None => self.stores.last().map(ToString::to_string).unwrap_or_default(),
        }
    }

    /// Returns what happens to a store that is already at the destination.
    pub(crate) fn existing(&self) -> Existing {
        match (self.overwrite, self.unpublish_first) {
            (true, true) => Existing::Unpublish,
            (true, false) => Existing::Replace,
            (false, _) => Existing::Keep,
        }
    }

    /// Returns what happens to the work of a run that did not end.
    pub(crate) fn unfinished(&self) -> Unfinished {
        match (self.resume, self.restart) {
            (true, _) => Unfinished::Resume,
            (_, true) => Unfinished::Discard,
            _ => Unfinished::Refuse,
        }
    }

    /// Returns the options that decide what is written, in canonical form: a resumed run must have the same.
    pub(crate) fn canonical(&self) -> Vec<(String, String)> {
        let mut options = vec![
            ("--codec".to_owned(), self.codec.as_ref().map_or_else(|| "auto".to_owned(), codec::choice_text)),
            ("--prefer".to_owned(), word(self.prefer.unwrap_or(PreferArg::Balanced))),
            ("--zarr-format".to_owned(), word(self.zarr_format)),
            ("--checksum".to_owned(), word(self.checksum)),
            ("--consolidate".to_owned(), word(self.consolidate)),
            ("--first".to_owned(), self.first.map_or_else(|| "all".to_owned(), |first| first.to_string())),
            ("--skip-broken".to_owned(), self.skip_broken.to_string()),
        ];
        let globs = |globs: &[zkit_cli::values::ArrayGlob]| {
            globs.iter().map(|glob| glob.as_str().to_owned()).collect::<Vec<_>>().join(" ")
        };
        options.push(("--include".to_owned(), globs(&self.select.include)));
        options.push(("--exclude".to_owned(), globs(&self.select.exclude)));
        options
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    Keep,
    #[value(name = "2")]
    V2,
    #[value(name = "3")]
    V3,
}

impl FormatArg {
    /// Returns the format, `None` for that of the source.
    pub(crate) fn format(self) -> Option<ZarrFormat> {
        match self {
            Self::Keep => None,
            Self::V2 => Some(ZarrFormat::V2),
            Self::V3 => Some(ZarrFormat::V3),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreferArg {
    Speed,
    Balanced,
    Size,
}

impl From<PreferArg> for Prefer {
    fn from(argument: PreferArg) -> Self {
        match argument {
            PreferArg::Speed => Self::Speed,
            PreferArg::Balanced => Self::Balanced,
            PreferArg::Size => Self::Size,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChecksumArg {
    Auto,
    None,
}

impl From<ChecksumArg> for ChecksumChoice {
    fn from(argument: ChecksumArg) -> Self {
        match argument {
            ChecksumArg::Auto => Self::Auto,
            ChecksumArg::None => Self::None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConsolidateArg {
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
pub(crate) enum VerifyArg {
    None,
    Sample,
    Full,
}

impl VerifyArg {
    /// Returns the word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Sample => "sample",
            Self::Full => "full",
        }
    }
}

impl From<VerifyArg> for Verify {
    fn from(argument: VerifyArg) -> Self {
        match argument {
            VerifyArg::None => Self::None,
            VerifyArg::Sample => Self::Sample,
            VerifyArg::Full => Self::Full,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnCorruptArg {
    Fail,
    Skip,
}

impl From<OnCorruptArg> for OnCorrupt {
    fn from(argument: OnCorruptArg) -> Self {
        match argument {
            OnCorruptArg::Fail => Self::Fail,
            OnCorruptArg::Skip => Self::Skip,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceCheckArg {
    /// Objects of local sources, metadata of remote ones.
    Auto,
    Metadata,
    Objects,
}
