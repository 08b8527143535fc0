//! The arguments of `zkit recompress`; their doc comments are the help text.

use clap::{Args, ValueEnum};
use zkit_cli::args::{ResourceArgs, SelectArgs, StoreArgs};
use zkit_cli::values::store_url;
use zkit_cli::writing::{CodecChoice, WriteArgs, with_default};
use zkit_core::engine::OnCorrupt;
use zkit_core::error::{Error, ErrorKind};
use zkit_core::location::StoreUrl;
use zkit_core::publish;

use crate::layout_args::LayoutArgs;

/// The codec, where neither the command line nor the settings name one.
pub(crate) const DEFAULT_CODEC: CodecChoice = CodecChoice::Auto;

/// Copies whole stores with other chunks, another codec or Zarr format, and proves the copies.
///
/// Groups, arrays, coordinates, attributes, dimension names and consolidated metadata are kept; so are chunk shapes
/// unless --chunks or --access is given, but that shards become plain chunks in Zarr v2. A copy appears at its
/// destination at once, when all of it is written and checked. A run that dies is gone on with by --resume. Arrays that
/// cannot be encoded anew are copied byte for byte and named.
#[derive(Debug, Args)]
#[command(mut_arg("codec", |codec| with_default(codec, "auto")))]
pub struct RecompressArgs {
    /// Path or URL of the store to copy, and that of the copy; with --into any number of stores to copy.
    #[arg(required = true, value_name = "SOURCE... DESTINATION", num_args = 1.., value_parser = store_url())]
    stores: Vec<StoreUrl>,

    /// Copy every store into this directory (or below this URL), each under its own name; each appears when it is done.
    #[arg(long, value_name = "DIRECTORY", value_parser = store_url())]
    into: Option<StoreUrl>,

    #[command(flatten)]
    pub(crate) write: WriteArgs,

    /// What to do with source chunks that do not decode: stop, or leave fill values and name them at the end.
    #[arg(long, value_enum, default_value_t = OnCorruptArg::Fail)]
    pub(crate) on_corrupt: OnCorruptArg,

    /// Copy only the N largest variables and what describes them, and say what all of them would take.
    #[arg(long, value_name = "N")]
    pub(crate) first: Option<usize>,

    /// With --include: without the coordinates, bounds and grid mappings of what it names.
    #[arg(long, requires = "include")]
    pub(crate) no_coordinates: bool,

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

/// One store and where its copy goes.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) source: StoreUrl,
    pub(crate) destination: StoreUrl,
}

impl RecompressArgs {
    /// Returns the stores and where their copies go.
    ///
    /// Fails with kind `Usage` where names collide or none is given, and where other arguments make no sense.
    pub(crate) fn routes(&self) -> Result<Vec<Route>, Error> {
        self.write.check()?;
        let Some(into) = &self.into else { return self.one_route().map(|route| vec![route]) };
        if into.local_path().is_some_and(|into| into.exists() && !into.is_dir()) {
            let message = format!("could not copy into {into}: it is no directory");
            return Err(Error::new(ErrorKind::Usage, message).with_hint("name a directory for the copies"));
        }
        let mut routes: Vec<Route> = Vec::with_capacity(self.stores.len());
        for source in &self.stores {
            let Some(name) = source.name().filter(|name| !matches!(name.as_str(), "." | "..")) else {
                let message = format!("could not name the copy of {source}: it has no name of its own");
                return Err(
                    Error::new(ErrorKind::Usage, message).with_hint("name the store by its whole path")
                );
            };
            let destination = into.join(&publish::folder_name(&name));
            if let Some(other) = routes.iter().find(|route| route.destination == destination) {
                let message = format!("{} and {source} would both be copied to {destination}", other.source);
                return Err(Error::new(ErrorKind::Usage, message)
                    .with_hint("copy them in two runs, to two directories"));
            }
            routes.push(Route { source: source.clone(), destination });
        }
        Ok(routes)
    }

    fn one_route(&self) -> Result<Route, Error> {
        let [source, destination] = self.stores.as_slice() else {
            let message = match self.stores.len() {
                1 => "a source and a destination are needed".to_owned(),
                many => format!("{many} stores are given, a source and a destination are expected"),
            };
            return Err(Error::new(ErrorKind::Usage, message)
                .with_hint("to copy many stores, pass --into with a directory for the copies"));
        };
        publish::check_folder(destination)?;
        Ok(Route { source: source.clone(), destination: destination.clone() })
    }

    /// Returns where the copies go, as it was given.
    pub(crate) fn destination_text(&self) -> String {
        match &self.into {
            Some(into) => into.to_string(),
            None => self.stores.last().map(ToString::to_string).unwrap_or_default(),
        }
    }

    /// Returns the options that decide what is written, in canonical form: a resumed run must have the same.
    pub(crate) fn canonical(&self) -> Vec<(String, String)> {
        let mut options = self.write.canonical(&DEFAULT_CODEC);
        options.extend([
            ("--first".to_owned(), self.first.map_or_else(|| "all".to_owned(), |first| first.to_string())),
            ("--skip-broken".to_owned(), self.skip_broken.to_string()),
        ]);
        if self.no_coordinates {
            options.push(("--no-coordinates".to_owned(), "true".to_owned()));
        }
        options.extend(self.select.canonical());
        options
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
