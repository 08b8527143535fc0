//! What each array is to become: its chunks, and the codec that samples of it speak for.

use std::collections::{BTreeMap, BTreeSet};

use zkit_cli::Shell;
use zkit_cli::writing::{self, CodecChoice};
use zkit_core::engine::{self, Filters, Header, SampleSource};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_core::metadata::{Target, TargetCodec};

use crate::args::{DEFAULT_CODEC, RecompressArgs};
use crate::layout_args::Layouts;
use crate::source::{Listed, Source};

/// Arrays that look alike are sampled together: so many of them.
const SAMPLED_ARRAYS: usize = 3;
/// Decoded bytes of an array below which it is not looked at apart from others of its type.
const SMALL_ARRAY_BYTES: u64 = 4 << 20;
/// The largest arrays of a run are measured each on its own, so many of them: a tenth of a second or two each.
const MEASURED_ALONE: usize = 32;
/// Other arrays share a codec where they are equally small beside their decoded bytes, within half an octave.
const RATIO_STEPS: f64 = 2.0;
/// A codec that makes an array this much larger than it is in the source is said to do so.
const LARGER: f64 = 1.02;
/// Threads that read samples.
const SAMPLE_JOBS: usize = 16;
/// Bytes that a chunk may decode to for a sample of it.
const SAMPLE_CHUNK_BYTES: u64 = 1 << 30;

/// The target of an array, and why it has its codec.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) target: Target,
    /// What was measured; arrays that look alike share it.
    pub(crate) why: Option<String>,
}

/// Arrays that are sampled together, by what they have in common: store and position of each.
type Classes = BTreeMap<String, Vec<(usize, usize)>>;

/// Returns the targets of all arrays of all sources, in their order.
pub(crate) fn choose(
    args: &RecompressArgs,
    layouts: &Layouts,
    sources: &[Source],
    memory_bytes: u64,
    shell: &Shell,
) -> anyhow::Result<Vec<Vec<Chosen>>> {
    let (mut chosen, classes) = unmeasured(args, layouts, sources)?;
    if !classes.is_empty() {
        shell.observer().event(Event::Phase("choosing codecs"));
    }
    for (_, members) in classes {
        let (codec, why, measured) = choose_for(args, sources, &chosen, &members, memory_bytes, shell)?;
        for (store, position) in members {
            let present = ratio(&sources[store].arrays[position]);
            let chosen = &mut chosen[store][position];
            chosen.target.codec = codec.clone();
            chosen.why = Some(match (present, measured) {
                (Some(present), Some(measured)) if present > measured * LARGER => {
                    format!("{why}; the source holds it {present:.2} x smaller")
                }
                _ => why.clone(),
            });
        }
    }
    Ok(chosen)
}

/// Returns the targets with a usual codec where it is to be measured, and the arrays to measure it for.
pub(crate) fn unmeasured(
    args: &RecompressArgs,
    layouts: &Layouts,
    sources: &[Source],
) -> Result<(Vec<Vec<Chosen>>, Classes), Error> {
    let mut chosen: Vec<Vec<Chosen>> = Vec::with_capacity(sources.len());
    let (mut classes, alone) = (Classes::new(), largest(sources));
    for (store, source) in sources.iter().enumerate() {
        let mut targets = Vec::with_capacity(source.arrays.len());
        for (position, listed) in source.arrays.iter().enumerate() {
            let metadata = &listed.array.metadata;
            let format = args.write.zarr_format.format();
            let array = layouts.target_of(&listed.array.path, metadata, format)?;
            let codec = args.write.codec.clone().or(array.codec).unwrap_or(DEFAULT_CODEC);
            let codec = match codec {
                CodecChoice::Given(codec) => codec,
                CodecChoice::Auto => {
                    let chunk = array.layout.as_ref().map(|layout| layout.chunk_shape.clone());
                    let class = match alone.contains(&(store, position)) {
                        true => format!("{store} {}", listed.array.path),
                        false => class(listed, chunk.as_deref().unwrap_or(&metadata.chunk_shape())),
                    };
                    classes.entry(class).or_default().push((store, position));
                    TargetCodec::fallback()
                }
            };
            let target = Target { format, codec, checksum: args.write.checksum.into(), layout: array.layout };
            targets.push(Chosen { target, why: None });
        }
        chosen.push(targets);
    }
    Ok((chosen, classes))
}

/// Returns the arrays that are measured each on its own: data of one type and grid may still be unlike, as temperatures and
/// precipitation are.
fn largest(sources: &[Source]) -> BTreeSet<(usize, usize)> {
    let arrays = sources.iter().enumerate().flat_map(|(store, source)| {
        source.arrays.iter().enumerate().map(move |(position, listed)| ((store, position), listed))
    });
    let mut large: Vec<_> = arrays
        .filter(|(_, listed)| {
            listed.array.metadata.decoded_bytes().is_some_and(|bytes| bytes >= SMALL_ARRAY_BYTES)
        })
        .collect();
    large.sort_by_key(|(_, listed)| std::cmp::Reverse(listed.stored.bytes));
    large.into_iter().take(MEASURED_ALONE).map(|(at, _)| at).collect()
}

/// Returns how many times smaller an array is in its source than decoded; `None` where nothing is stored.
fn ratio(listed: &Listed) -> Option<f64> {
    let decoded = listed.array.metadata.chunk_decoded_bytes()?.checked_mul(listed.stored.chunks.len())?;
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let ratio = decoded as f64 / listed.stored.bytes as f64;
    ratio.is_finite().then_some(ratio).filter(|ratio| *ratio > 0.0)
}

/// Returns what arrays that are sampled together have in common.
fn class(listed: &Listed, chunk_shape: &[u64]) -> String {
    let metadata = &listed.array.metadata;
    let small = metadata.decoded_bytes().is_some_and(|bytes| bytes < SMALL_ARRAY_BYTES);
    let filters = metadata.document.get("filters").map(ToString::to_string).unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "a logarithm")]
    let alike = ratio(listed).map_or(0, |ratio| (ratio.log2() * RATIO_STEPS).round() as i64);
    match small {
        true => format!("small {} {filters} {alike}", metadata.data_type),
        false => format!("{} {filters} {chunk_shape:?} {alike}", metadata.data_type),
    }
}

/// Samples some of the arrays of a class, the largest first, and chooses one codec for all.
fn choose_for(
    args: &RecompressArgs,
    sources: &[Source],
    chosen: &[Vec<Chosen>],
    members: &[(usize, usize)],
    memory_bytes: u64,
    shell: &Shell,
) -> anyhow::Result<(TargetCodec, String, Option<f64>)> {
    let mut by_size = members.to_vec();
    by_size.sort_by_key(|&(store, position)| std::cmp::Reverse(sources[store].arrays[position].stored.bytes));
    let mut arrays = Vec::new();
    for &(store, position) in by_size.iter().take(SAMPLED_ARRAYS) {
        let listed = &sources[store].arrays[position];
        let layout = chosen[store][position].target.layout.as_ref();
        let chunk_shape =
            layout.map_or_else(|| listed.array.metadata.chunk_shape(), |layout| layout.chunk_shape.clone());
        let source = SampleSource {
            store: sources[store].store()?,
            array: &listed.array,
            stored: listed.stored.known.as_ref().unwrap_or(&listed.stored.chunks),
            chunk_limit: SAMPLE_CHUNK_BYTES.min(memory_bytes),
            filters: match (layout, args.write.zarr_format.format()) {
                (None, None) => Filters::Kept,
                (None, Some(format)) if format == listed.array.metadata.format => Filters::Kept,
                _ => Filters::Undone,
            },
        };
        arrays.push((source, chunk_shape));
    }
    let jobs = args.resources.jobs().get().min(SAMPLE_JOBS);
    let choice = engine::choose_together(&arrays, args.write.prefer(), jobs, shell.cancel())?;
    let measured = choice.trials.iter().find(|trial| trial.codec == choice.codec);
    Ok((choice.codec.clone(), choice.why, measured.map(|trial| trial.ratio)))
}

/// Puts the codecs that the first run chose in the place of those to choose.
pub(crate) fn take_over(chosen: &mut [Chosen], header: &Header) -> Result<(), Error> {
    for (chosen, array) in chosen.iter_mut().zip(&header.arrays) {
        if array.target_codec.is_empty() {
            continue;
        }
        chosen.target.codec = writing::parse_codec(&array.target_codec).map_err(|message| {
            Error::new(
                ErrorKind::Corrupt,
                format!("the journal names a codec for `{}`: {message}", array.path),
            )
        })?;
        chosen.why = Some(format!("{}: as the run that is resumed chose", array.target_codec));
    }
    Ok(())
}
