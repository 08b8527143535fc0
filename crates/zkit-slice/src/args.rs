//! The arguments of `zkit slice`; their doc comments are the help text.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use zkit_cli::args::{ResourceArgs, SelectArgs, StoreArgs};
use zkit_cli::cached::CacheCheckArg;
use zkit_cli::values::local_path;
use zkit_cli::writing::{ChunkArgs, WriteArgs, with_default};
use zkit_core::location::StoreUrl;
use zkit_core::select::{Join, Method};

/// Takes what belongs to some coordinates out of one or many stores, and leaves it as one store.
///
/// Selections are those of xarray: --sel by values (CF times, partial dates, either form of longitudes), --isel by
/// positions. Several sources are put behind each other along --concat; --merge-with adds the variables of others. What
/// was asked for, what was found and how far they are apart is printed and kept in the attributes of the result.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("codec", of_slices))]
#[command(mut_arg("prefer", |prefer| prefer.hide(true)))]
#[command(mut_arg("access", |access| with_default(access, "the whole series of a point together")))]
pub struct SliceArgs {
    /// Stores, folders that are searched for stores, or patterns ('batches/*.zarr'): in this order, those of a folder or
    /// pattern by name.
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<String>,

    /// Where the slice goes: a path or URL.
    #[arg(long, value_name = "DESTINATION", conflicts_with = "cache", required_unless_present = "cache")]
    #[arg(value_parser = zkit_cli::values::store_url())]
    pub(crate) to: Option<StoreUrl>,

    /// Keep the slice in this cache, and serve it from there when the same is asked for again.
    ///
    /// It is served as long as no object of the sources changed that it was made of; see --source-check.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "split", value_parser = local_path())]
    pub(crate) cache: Option<PathBuf>,

    /// How closely a cached slice is looked at before it is served: sizes, a sample of its digests, or all of them.
    #[arg(long, value_enum, default_value_t = CacheCheckArg::Sample, requires = "cache")]
    pub(crate) cache_check: CacheCheckArg,

    /// Which findings of `zkit audit` keep the slice from being published.
    #[arg(long, value_enum, default_value_t = FailOnArg::Error)]
    pub(crate) fail_on: FailOnArg,

    #[command(flatten)]
    pub(crate) write: WriteArgs,
    #[command(flatten)]
    pub(crate) layout: ChunkArgs,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    #[command(flatten)]
    pub(crate) combination: CombinationArgs,
    #[command(flatten)]
    pub(crate) merge: MergeArgs,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) access: StoreArgs,
}

/// Returns `--codec` as slices have it: what they will hold cannot be sampled before it is put together.
fn of_slices(codec: clap::Arg) -> clap::Arg {
    let help = "Codec: keep, blosc:COMPRESSOR:LEVEL:SHUFFLE, zstd:LEVEL, gzip:LEVEL, none, or JSON as in Zarr metadata";
    let more = "COMPRESSOR is zstd, lz4 or zlib; SHUFFLE is bitshuffle, shuffle or noshuffle.";
    with_default(codec.help(help).long_help(format!("{help}.\n\n{more}")), "keep")
}

/// What is taken along dimensions.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Slice options")]
pub(crate) struct SelectionArgs {
    /// Take values of a coordinate: latitude=51.5, level=500,850 or time=2020-01..2020-03; one for each dimension.
    ///
    /// A range includes both ends, either may be left out. 2020-01 is the whole month. One value drops its dimension and
    /// leaves a scalar coordinate; ranges, lists and partial dates keep it.
    #[arg(long, value_name = "DIM=VALUES")]
    pub(crate) sel: Vec<OfDimension>,

    /// Take positions: time=0, time=-1 (the last), time=0,5,9, or time=0..10 (without 10, as Python's 0:10).
    ///
    /// Arrays whose dimensions have no names: dim_0, dim_1 and so on.
    #[arg(long, value_name = "DIM=POSITIONS")]
    pub(crate) isel: Vec<OfDimension>,

    /// How single values are found: exact, nearest, pad (the one before) or backfill (the one behind); DIM=METHOD for one
    /// dimension [default: exact].
    ///
    /// It does not apply to ranges and texts, which are always exact.
    #[arg(long, value_name = "METHOD")]
    pub(crate) method: Vec<MethodArg>,

    /// How far a value that is found may be from the one asked for: 0.25, 6h for times; DIM=TOLERANCE for one dimension.
    #[arg(long, value_name = "TOLERANCE", allow_hyphen_values = true)]
    pub(crate) tolerance: Vec<ToleranceArg>,

    /// Take points: a CSV file whose header names dimensions (and maybe `name`), or a GeoJSON file of Points.
    ///
    /// The result has a dimension `point`. lat, lon and the like are understood for the coordinates that they mean.
    #[arg(long, value_name = "FILE")]
    pub(crate) points: Option<PathBuf>,

    /// Write one store for each point: {name} or {index} in DESTINATION's last part stand for the point.
    #[arg(long, value_name = "TEMPLATE", requires = "points")]
    pub(crate) split: Option<String>,
}

/// How several sources become one.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Combination options")]
pub(crate) struct CombinationArgs {
    /// Concatenate the sources along this dimension, in the order of the arguments.
    ///
    /// Where a source does not have it, but an array without dimensions of that name, as a file has its id, it is made: all
    /// data gets it as its first dimension, and of what describes data that which differs between sources.
    #[arg(long, value_name = "DIM")]
    pub(crate) concat: Option<String>,

    /// Sort by the values of the --concat dimension, ascending.
    #[arg(long, requires = "concat")]
    pub(crate) sort: bool,

    /// What to do with a value of the --concat dimension that appears more than once.
    #[arg(long, value_enum, default_value_t = DuplicatesArg::Error)]
    pub(crate) duplicates: DuplicatesArg,

    /// Which values of other dimensions stay where sources differ: all of either (missing ones become fill values), those
    /// of both, or none differ.
    #[arg(long, value_enum, default_value_t = JoinArg::Exact)]
    pub(crate) join: JoinArg,

    /// Differences between sources that are meant: the first source's version is taken; may be repeated.
    ///
    /// dtype: coordinates of other number types are converted to that of the first. coordinates: values that differ by
    /// rounding, and data variables without the --concat dimension that differ by anything. Rounding is a hundredth of the
    /// smallest step between values (of times a second at most), of arrays that describe others what single precision
    /// loses; an axis in another order, or shifted, is refused. The answer says what was taken, and the largest difference.
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub(crate) allow: Vec<AllowArg>,
}

/// The stores whose variables are added: one set for each time that the argument is given.
#[derive(Debug, Clone, Default)]
pub(crate) struct MergeArgs {
    pub(crate) sets: Vec<Vec<String>>,
}

const MERGE_WITH: &str = "merge_with";

impl FromArgMatches for MergeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        // clap's derive joins the values of all occurrences
        let sets = matches.get_occurrences::<String>(MERGE_WITH).into_iter().flatten();
        Ok(Self { sets: sets.map(|set| set.cloned().collect()).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for MergeArgs {
    fn augment_args(command: Command) -> Command {
        command.arg(
            clap::Arg::new(MERGE_WITH)
                .long("merge-with")
                .value_name("SOURCE")
                .num_args(1..)
                .action(ArgAction::Append)
                .help_heading("Combination options")
                .help(
                    "Add the variables of these stores, aligned by their coordinates (see --join); what one --merge-with \
                     names is put together along --concat first; may be repeated",
                ),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// `DIM=TEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfDimension {
    pub(crate) dimension: String,
    pub(crate) text: String,
}

impl FromStr for OfDimension {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((dimension, text)) if !dimension.trim().is_empty() && !text.trim().is_empty() => {
                Ok(Self { dimension: dimension.trim().to_owned(), text: text.trim().to_owned() })
            }
            _ => Err("write DIM=VALUES, such as latitude=51.5 or time=2020-01..2020-03".to_owned()),
        }
    }
}

/// A method for all dimensions, or for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MethodArg {
    pub(crate) dimension: Option<String>,
    pub(crate) method: Method,
}

impl FromStr for MethodArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (dimension, word) = split_dimension(text);
        let method = match word {
            "exact" => Method::Exact,
            "nearest" => Method::Nearest,
            "pad" | "ffill" => Method::Pad,
            "backfill" | "bfill" => Method::Backfill,
            _ => return Err(format!("`{word}` is not one of exact, nearest, pad and backfill")),
        };
        Ok(Self { dimension, method })
    }
}

/// A tolerance for all dimensions that it suits, or for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToleranceArg {
    pub(crate) dimension: Option<String>,
    pub(crate) text: String,
}

impl FromStr for ToleranceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (dimension, text) = split_dimension(text);
        match text.is_empty() {
            true => Err("write a distance such as 0.25 or 6h".to_owned()),
            false => Ok(Self { dimension, text: text.to_owned() }),
        }
    }
}

fn split_dimension(text: &str) -> (Option<String>, &str) {
    match text.split_once('=') {
        Some((dimension, rest)) => (Some(dimension.trim().to_owned()), rest.trim()),
        None => (None, text.trim()),
    }
}

/// Findings that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOnArg {
    /// Errors: data that is not there, not readable, or all NaN.
    Error,
    /// Warnings too.
    Warning,
    /// None.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DuplicatesArg {
    /// Stop, and name them, their stores, and whether they hold the same.
    Error,
    /// Take the first one.
    First,
    /// Take the last one.
    Last,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JoinArg {
    Exact,
    Inner,
    Outer,
}

impl From<JoinArg> for Join {
    fn from(argument: JoinArg) -> Self {
        match argument {
            JoinArg::Exact => Self::Exact,
            JoinArg::Inner => Self::Inner,
            JoinArg::Outer => Self::Outer,
        }
    }
}

/// What may differ between sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AllowArg {
    Dtype,
    Units,
    Attributes,
    Coordinates,
    /// Arrays without any chunk: fill values are taken.
    Stubs,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: SliceArgs,
    }

    fn parse(line: &str) -> Result<SliceArgs, String> {
        let words = std::iter::once("slice").chain(line.split(' '));
        Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
    }

    #[test]
    fn each_merge_with_is_a_set_of_its_own() {
        let args = parse("a b --to c --merge-with d e --merge-with f").unwrap();
        assert_eq!(args.sources, ["a", "b"]);
        assert_eq!(args.merge.sets, [vec!["d".to_owned(), "e".to_owned()], vec!["f".to_owned()]]);
        assert!(parse("a --to c").unwrap().merge.sets.is_empty());
    }

    #[test]
    fn a_destination_is_never_guessed() {
        assert!(parse("a b").unwrap_err().contains("--to"));
        assert!(parse("a --to b --cache c").unwrap_err().contains("cannot be used with"));
    }

    #[test]
    fn methods_and_tolerances_may_be_of_one_dimension() {
        let args =
            parse("a --to c --sel lat=1 --method nearest --method time=pad --tolerance time=6h").unwrap();
        assert_eq!(args.selection.method[0], MethodArg { dimension: None, method: Method::Nearest });
        assert_eq!(args.selection.method[1].dimension.as_deref(), Some("time"));
        assert_eq!(args.selection.tolerance[0].text, "6h");
        assert!(parse("a --to c --sel lat").unwrap_err().contains("DIM=VALUES"));
        assert!(parse("a --to c --method best").unwrap_err().contains("exact, nearest"));
    }
}
