//! The arguments of every command that writes stores; their doc comments are the help text.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::StyledStr;
use clap::{Arg, Args, ValueEnum};
use zkit_core::engine::{Prefer, Verify};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::location::StoreUrl;
use zkit_core::metadata::{ChecksumChoice, ZarrFormat};
use zkit_core::publish::{Consolidate, Existing, Unfinished};

use super::codec::{self, CodecChoice};
use crate::values::parse_bytes;

/// How stores are written, proven and published.
///
/// What `--codec` is where it is not passed is the command's to say, in the help by [`with_default`].
#[derive(Debug, Clone, Args)]
pub struct WriteArgs {
    /// Codec: auto, blosc:COMPRESSOR:LEVEL:SHUFFLE, zstd:LEVEL, gzip:LEVEL, none, keep, or JSON as in Zarr metadata.
    ///
    /// auto measures block sizes, levels and shuffles on samples of the data and says what it chose. COMPRESSOR is
    /// zstd, lz4 or zlib; SHUFFLE is bitshuffle, shuffle or noshuffle.
    #[arg(long, value_parser = codec::parse_choice)]
    pub codec: Option<CodecChoice>,

    /// What --codec auto looks for: the least time, the fewest bytes, or time at no more bytes than blosc:zstd:3
    /// [default: balanced].
    #[arg(long, value_enum)]
    pub prefer: Option<PreferArg>,

    /// Zarr format of the copy.
    #[arg(long, value_enum, default_value_t = FormatArg::Keep)]
    pub zarr_format: FormatArg,

    /// Checksums of chunks: crc32c in v3, in zstd frames of v2, or none.
    #[arg(long, value_enum, default_value_t = ChecksumArg::Auto)]
    pub checksum: ChecksumArg,

    /// Consolidated metadata: as the source has it, always, or never.
    #[arg(long, value_enum, default_value_t = ConsolidateArg::Auto)]
    pub consolidate: ConsolidateArg,

    /// How much of the copy is read back and compared: nothing, one byte in a hundred, or everything.
    #[arg(long, value_enum, default_value_t = VerifyArg::Sample)]
    pub verify: VerifyArg,

    /// Print the plan and what it costs, and write nothing but a short probe of the destination.
    #[arg(long)]
    pub dry_run: bool,

    /// Go on with what a run that died has left, after checking it.
    #[arg(long, conflicts_with = "restart")]
    pub resume: bool,

    /// Begin anew, and remove what a run that died has left.
    #[arg(long)]
    pub restart: bool,

    /// How --resume tells that the source is the same: by its metadata, or also by size and time of its objects.
    #[arg(long, value_enum, default_value_t = SourceCheckArg::Auto)]
    pub source_check: SourceCheckArg,

    /// Directory for scratch space, where a rechunk needs it [default: beside the destination; none for a bucket].
    #[arg(long, value_name = "DIRECTORY", value_parser = crate::values::local_path())]
    pub scratch: Option<PathBuf>,

    /// Scratch space that may be used; 0 for none [default: half of what is free].
    #[arg(long, value_name = "SIZE", value_parser = parse_scratch)]
    pub scratch_size: Option<u64>,

    /// Replace a store that is already at the destination, once the copy is complete.
    #[arg(long)]
    pub overwrite: bool,

    /// With --overwrite, where the destination is in a bucket: remove the old store before the copy is begun.
    ///
    /// An object store cannot exchange two stores. Until the copy is complete there is none at the destination.
    #[arg(long, requires = "overwrite")]
    pub unpublish_first: bool,

    /// Do not ask before replacing.
    #[arg(long)]
    pub yes: bool,
}

/// Returns an argument whose help says what holds where it is not passed, and that its own doc comment cannot know.
///
/// `#[command(mut_arg("codec", |codec| with_default(codec, "auto")))]` on the arguments of a command.
pub fn with_default(argument: Arg, default: &str) -> Arg {
    let told = |help: &StyledStr| format!("{help} [default: {default}]");
    let (short, long) = (argument.get_help().map(told), argument.get_long_help().map(told));
    let argument = match short {
        Some(short) => argument.help(short),
        None => argument,
    };
    match long {
        Some(long) => argument.long_help(long),
        None => argument,
    }
}

/// Parses a size, or 0 for none.
fn parse_scratch(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { parse_bytes(text) }
}

/// Returns the word that stands for a value on the command line.
pub fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl WriteArgs {
    /// Refuses arguments that make no sense together, or name what is not there.
    ///
    /// Fails with kind `Usage`.
    pub fn check(&self) -> Result<(), Error> {
        self.check_prefer()?;
        self.check_scratch()
    }

    /// Returns what is looked for where codecs are chosen.
    pub fn prefer(&self) -> Prefer {
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

    /// Returns the directory that a store's scratch space is, while there is one; `None` beside a bucket.
    pub fn scratch_of(&self, destination: &StoreUrl) -> Option<PathBuf> {
        let mut name = OsString::from(destination.name().unwrap_or_default());
        match (&self.scratch, destination.local_path()) {
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

    /// Returns what happens to a store that is already at the destination.
    pub fn existing(&self) -> Existing {
        match (self.overwrite, self.unpublish_first) {
            (true, true) => Existing::Unpublish,
            (true, false) => Existing::Replace,
            (false, _) => Existing::Keep,
        }
    }

    /// Returns what happens to the work of a run that did not end.
    pub fn unfinished(&self) -> Unfinished {
        match (self.resume, self.restart) {
            (true, _) => Unfinished::Resume,
            (_, true) => Unfinished::Discard,
            _ => Unfinished::Refuse,
        }
    }

    /// Returns the options that decide what is written, in canonical form, with the codec that holds where none is
    /// passed: a resumed run must have the same.
    pub fn canonical(&self, default: &CodecChoice) -> Vec<(String, String)> {
        vec![
            ("--codec".to_owned(), codec::choice_text(self.codec.as_ref().unwrap_or(default))),
            ("--prefer".to_owned(), word(self.prefer.unwrap_or(PreferArg::Balanced))),
            ("--zarr-format".to_owned(), word(self.zarr_format)),
            ("--checksum".to_owned(), word(self.checksum)),
            ("--consolidate".to_owned(), word(self.consolidate)),
        ]
    }
}

/// The Zarr format of what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// That of the source.
    Keep,
    /// Zarr v2.
    #[value(name = "2")]
    V2,
    /// Zarr v3.
    #[value(name = "3")]
    V3,
}

impl FormatArg {
    /// Returns the format, `None` for that of the source.
    pub fn format(self) -> Option<ZarrFormat> {
        match self {
            Self::Keep => None,
            Self::V2 => Some(ZarrFormat::V2),
            Self::V3 => Some(ZarrFormat::V3),
        }
    }
}

/// What a measured codec is to be good at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PreferArg {
    /// The least time.
    Speed,
    /// The least time at no more bytes than blosc:zstd:3.
    Balanced,
    /// The fewest bytes.
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

/// Whether chunks get checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ChecksumArg {
    /// Where the format has them.
    Auto,
    /// Nowhere.
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

/// Whether stores get consolidated metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ConsolidateArg {
    /// If the source has it.
    Auto,
    /// In any case.
    Always,
    /// In no case.
    Never,
}

impl ConsolidateArg {
    /// Returns what is asked for, where `auto` is what it means for the store.
    pub fn or(self, auto: Consolidate) -> Consolidate {
        match self {
            Self::Auto => auto,
            Self::Always => Consolidate::Yes,
            Self::Never => Consolidate::No,
        }
    }
}

/// How much is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VerifyArg {
    /// Nothing.
    None,
    /// One byte in a hundred of large arrays, first and last chunks, edges; small arrays mostly whole.
    Sample,
    /// Everything.
    Full,
}

impl VerifyArg {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
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

/// What a source is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SourceCheckArg {
    /// Objects of local sources, metadata of remote ones.
    Auto,
    /// Its metadata alone: chunks that are rewritten in place go unseen.
    Metadata,
    /// Also size and time of each object.
    Objects,
}

impl SourceCheckArg {
    /// Returns whether the objects of a source count beside its metadata.
    pub fn takes_objects(self, source: &StoreUrl) -> bool {
        match self {
            Self::Auto => source.local_path().is_some(),
            Self::Metadata => false,
            Self::Objects => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(mut_arg("codec", |codec| with_default(codec, "zstd:3")))]
    struct CommandLine {
        #[command(flatten)]
        write: WriteArgs,
    }

    fn parse(options: &[&str]) -> WriteArgs {
        CommandLine::try_parse_from([&["zkit"], options].concat()).unwrap().write
    }

    #[test]
    fn a_default_is_told_in_the_help_and_is_no_value() {
        use clap::CommandFactory as _;
        let command = CommandLine::command();
        let codec = command.get_arguments().find(|argument| argument.get_id() == "codec").unwrap();
        let help = codec.get_long_help().unwrap().to_string();
        assert!(help.ends_with("noshuffle. [default: zstd:3]"), "{help}");
        assert!(codec.get_help().unwrap().to_string().ends_with("Zarr metadata [default: zstd:3]"));
        assert!(parse(&[]).codec.is_none());
        let codec = |options: &[&str]| parse(options).canonical(&CodecChoice::Auto).swap_remove(0).1;
        assert_eq!(codec(&[]), "auto");
        assert_eq!(codec(&["--codec", "gzip:2"]), "gzip:2");
    }

    #[test]
    fn scratch_space_lies_beside_the_destination_or_where_it_is_wished() {
        let of =
            |options: &[&str], destination: &str| parse(options).scratch_of(&destination.parse().unwrap());
        assert_eq!(of(&[], "/data/a.zarr"), Some("/data/a.zarr.partial.scratch".into()));
        assert_eq!(of(&["--scratch", "/ssd"], "/data/a.zarr"), Some("/ssd/a.zarr.partial.scratch".into()));
        assert_eq!(of(&["--scratch", "/ssd"], "s3://b/a.zarr"), Some("/ssd/a.zarr.partial.scratch".into()));
        assert_eq!(of(&[], "s3://b/a.zarr"), None);
        assert_eq!(parse(&["--scratch-size", "0"]).scratch_size, Some(0));
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for options in [&["--resume", "--restart"][..], &["--unpublish-first"]] {
            assert!(CommandLine::try_parse_from([&["zkit"], options].concat()).is_err(), "{options:?}");
        }
        assert_eq!(parse(&["--overwrite", "--unpublish-first"]).existing(), Existing::Unpublish);
        assert_eq!(parse(&["--restart"]).unfinished(), Unfinished::Discard);
    }

    #[test]
    fn objects_count_for_local_sources_unless_it_is_said_otherwise() {
        let (local, remote) = ("/a.zarr".parse().unwrap(), "s3://b/a.zarr".parse().unwrap());
        let takes = |word: &str, url| parse(&["--source-check", word]).source_check.takes_objects(url);
        assert!(takes("auto", &local) && !takes("auto", &remote));
        assert!(!takes("metadata", &local) && takes("objects", &remote));
    }
}
