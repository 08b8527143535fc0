//! Where new chunks lie: arguments and settings together, and what they mean for one array.

use std::path::PathBuf;

use clap::Args;
use zkit_cli::Shell;
use zkit_cli::writing::{self, ChunkArgs, CodecChoice, with_default};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::hierarchy::ArrayNode;
use zkit_core::metadata::{ArrayMetadata, Layout, ZarrFormat};
use zkit_core::plan::{Access, CHUNK_TARGET_BYTES, ChunksWish, LayoutWish, ShardsWish};

use crate::settings::{ArraySettings, Settings};

/// Where new chunks lie, with what a file says of it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Layout options")]
#[command(mut_arg("access", |access| with_default(access, "points")))]
pub(crate) struct LayoutArgs {
    #[command(flatten)]
    pub(crate) chunks: ChunkArgs,

    /// File with settings for all arrays and for some; arguments win over it [default: ./zkit.toml, if there].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The arguments and the settings together.
#[derive(Debug)]
pub(crate) struct Layouts {
    arguments: ArraySettings,
    settings: Settings,
}

/// What is to become of one array.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArrayTarget {
    /// Where its chunks lie, or as in the source.
    pub(crate) layout: Option<Layout>,
    /// The codec that the settings give it; a `--codec` that was passed wins over it.
    pub(crate) codec: Option<CodecChoice>,
}

impl LayoutArgs {
    /// Reads the settings, and puts the arguments in front of them.
    pub(crate) fn layouts(&self, shell: &Shell) -> Result<Layouts, Error> {
        Ok(self.before(Settings::find(self.config.as_deref(), shell)?))
    }

    /// Puts the arguments in front of settings.
    fn before(&self, settings: Settings) -> Layouts {
        let arguments = ArraySettings {
            chunks: self.chunks.chunks.clone(),
            shards: self.chunks.shards.clone(),
            codec: None,
            access: self.chunks.access.clone(),
            chunk_size: self.chunks.chunk_size,
        };
        Layouts { arguments: arguments.with_implied(), settings }
    }
}

impl Layouts {
    /// Warns of entries in the settings that take none of the arrays at `paths`.
    pub(crate) fn warn_of_unused<'a>(&self, paths: impl Iterator<Item = &'a str> + Clone, shell: &Shell) {
        for glob in self.settings.without_match(paths) {
            shell.warn(format!("[[recompress.array]] path = \"{glob}\" in the settings matches no array"));
        }
    }

    /// Returns the arguments and settings that decide where chunks lie, in canonical form.
    pub(crate) fn canonical(&self) -> Vec<(String, String)> {
        vec![
            ("--chunks".to_owned(), text(self.arguments.chunks.as_ref())),
            ("--shards".to_owned(), text(self.arguments.shards.as_ref())),
            ("--access".to_owned(), text(self.arguments.access.as_ref())),
            ("--chunk-size".to_owned(), text(self.arguments.chunk_size.as_ref())),
            ("--config".to_owned(), format!("{:?}", self.settings)),
        ]
    }

    /// Refuses dimensions that no array has: they are mistyped.
    pub(crate) fn check_dimensions<'a>(
        &self,
        arrays: impl IntoIterator<Item = &'a ArrayNode>,
    ) -> Result<(), Error> {
        let arrays = arrays.into_iter().map(|array| &array.metadata);
        writing::check_dimensions(&wish(self.arguments.clone()), arrays)
    }

    /// Returns what is to become of one array, in `format` (that of the source, if none is given).
    ///
    /// Fails with kind `Usage` where the array cannot be laid out so.
    pub(crate) fn target_of(
        &self,
        path: &str,
        metadata: &ArrayMetadata,
        format: Option<ZarrFormat>,
    ) -> Result<ArrayTarget, Error> {
        let settings = self.arguments.clone().or(&self.settings.wish_for(path));
        let codec = settings.codec.clone();
        let mut wish = wish(settings);
        if writing::is_coordinate(path, metadata) {
            self.spare_coordinate(path, &mut wish);
        }
        let layout = wish.resolve(metadata, format).map_err(|reason| {
            let message = format!("could not lay out new chunks of `{path}`: {reason}");
            let error = Error::new(ErrorKind::Usage, message);
            // some reasons name the option that helps
            match reason.contains("--") {
                true => error,
                false => {
                    error.with_hint("change --chunks and --shards, or give the array its own in zkit.toml")
                }
            }
        })?;
        Ok(ArrayTarget { layout, codec })
    }

    /// Leaves a coordinate alone, unless its own entry in the settings says otherwise: lengths are meant for what
    /// the coordinates describe, and readers load coordinates whole.
    fn spare_coordinate(&self, path: &str, wish: &mut LayoutWish) {
        let own = self.settings.entry_for(path).cloned().unwrap_or_default();
        let own_chunks = self.arguments.chunks.is_none() && own.chunks.is_some();
        let own_shards = self.arguments.shards.is_none() && own.shards.is_some();
        if !own_chunks && matches!(wish.chunks, ChunksWish::Lengths(_)) {
            wish.chunks = ChunksWish::Keep;
        }
        if !own_shards && matches!(wish.shards, ShardsWish::Lengths(_)) {
            wish.shards = ShardsWish::Keep;
        }
    }
}

/// Returns an option as it is written, or what stands for none.
fn text(option: Option<&impl ToString>) -> String {
    option.map_or_else(|| "not given".to_owned(), ToString::to_string)
}

fn wish(settings: ArraySettings) -> LayoutWish {
    LayoutWish {
        chunks: settings.chunks.unwrap_or(ChunksWish::Keep),
        shards: settings.shards.unwrap_or(ShardsWish::Keep),
        access: settings.access.unwrap_or(Access::Points),
        target_bytes: settings.chunk_size.unwrap_or(CHUNK_TARGET_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use zkit_core::metadata::{Json, Object};

    use zkit_core::metadata::TargetCodec;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        layout: LayoutArgs,
    }

    fn node(path: &str, shape: &str, chunks: &str, names: &str) -> ArrayNode {
        let object = |text: &str| match Json::parse(text.as_bytes()).unwrap() {
            Json::Object(object) => object,
            _ => Object::default(),
        };
        let document = object(&format!(
            r#"{{"zarr_format":2,"shape":{shape},"chunks":{chunks},"dtype":"<f4","fill_value":0}}"#
        ));
        let attributes = object(&format!(r#"{{"_ARRAY_DIMENSIONS":{names}}}"#));
        let metadata = ArrayMetadata::parse_v2(path, document, attributes, &mut Vec::new()).unwrap();
        ArrayNode { path: path.to_owned(), metadata }
    }

    fn t2m() -> ArrayNode {
        node("/t2m", "[8760,721]", "[1,721]", r#"["time","latitude"]"#)
    }

    /// Returns the layouts of arguments, with settings in a file.
    fn layouts(arguments: &[&str], settings: &str) -> Layouts {
        let line = CommandLine::try_parse_from(["zkit"].iter().chain(arguments)).unwrap();
        line.layout.before(Settings::parse(settings).unwrap())
    }

    fn target(layouts: &Layouts, node: &ArrayNode) -> ArrayTarget {
        layouts.target_of(&node.path, &node.metadata, Some(ZarrFormat::V3)).unwrap()
    }

    fn chunks(layouts: &Layouts, node: &ArrayNode) -> Option<Vec<u64>> {
        target(layouts, node).layout.map(|layout| layout.chunk_shape)
    }

    #[test]
    fn arguments_win_over_settings() {
        let text = "[recompress]\nchunks = \"time=24\"\ncodec = \"zstd:7\"";
        assert_eq!(chunks(&layouts(&[], text), &t2m()), Some(vec![24, 721]));
        let both = layouts(&["--chunks", "time=-1,latitude=32"], text);
        assert_eq!(chunks(&both, &t2m()), Some(vec![8760, 32]));
        assert_eq!(target(&both, &t2m()).codec, Some(CodecChoice::Given(TargetCodec::Zstd(7))));
        assert_eq!(chunks(&layouts(&["--access", "maps"], text), &t2m()), Some(vec![487, 721]));
        assert_eq!(chunks(&layouts(&["--chunks", "keep"], text), &t2m()), None);
        assert_eq!(target(&layouts(&[], ""), &t2m()), ArrayTarget { layout: None, codec: None });
    }

    #[test]
    fn coordinates_are_not_cut_by_lengths_meant_for_others() {
        let latitude = node("/latitude", "[721]", "[721]", r#"["latitude"]"#);
        let cut = ["--chunks", "latitude=32", "--shards", "latitude=64"];
        assert_eq!(chunks(&layouts(&cut, ""), &latitude), None);
        let own = "[[recompress.array]]\npath = \"latitude\"\nchunks = \"latitude=100\"";
        assert_eq!(chunks(&layouts(&[], own), &latitude), Some(vec![100]));
        // an array of one dimension that is no coordinate
        let mean = node("/mean", "[721]", "[721]", r#"["latitude"]"#);
        let layout = target(&layouts(&cut, ""), &mean).layout.unwrap();
        assert_eq!((layout.chunk_shape, layout.shard_shape), (vec![32], Some(vec![64])));
        let small = node("/latitude", "[721]", "[32]", r#"["latitude"]"#);
        assert_eq!(chunks(&layouts(&["--chunks", "auto"], ""), &small), Some(vec![721]));
    }

    #[test]
    fn mistyped_dimensions_and_lengths_that_do_not_fit_are_usage_errors() {
        let arrays = [t2m()];
        let error = layouts(&["--chunks", "lat=32"], "").check_dimensions(&arrays).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("`latitude`, `time`"), "{error}");
        assert!(layouts(&["--chunks", "latitude=32"], "").check_dimensions(&arrays).is_ok());
        let error = layouts(&["--access", "batch:time=4,lat=8"], "").check_dimensions(&arrays).unwrap_err();
        assert!(error.to_string().contains("`lat`; there are `latitude`"), "{error}");
        assert!(layouts(&["--access", "batch:time=4"], "").check_dimensions(&arrays).is_ok());
        let uneven = layouts(&["--chunks", "latitude=32", "--shards", "latitude=100"], "");
        let error = uneven.target_of("/t2m", &t2m().metadata, Some(ZarrFormat::V3)).unwrap_err();
        assert!(error.to_string().contains("`/t2m`") && error.to_string().contains("`latitude`"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Usage);
    }

    #[test]
    fn refuses_arguments_that_make_no_sense() {
        for (name, value) in [("--chunks", "time"), ("--shards", "time=0"), ("--chunk-size", "much")] {
            assert!(CommandLine::try_parse_from(["zkit", name, value]).is_err(), "{name} {value}");
        }
        let sized = layouts(&["--chunk-size", "1MiB"], "");
        let bytes = 4 * chunks(&sized, &t2m()).unwrap().iter().product::<u64>();
        assert!((512 << 10..=1 << 20).contains(&bytes), "{bytes}");
    }
}
