//! What each array is to become: its chunks, and the codec that samples of it speak for.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use zkit_cli::Shell;
use zkit_core::engine::{self, SampleSource};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_core::grid;
use zkit_core::metadata::{Target, TargetCodec};
use zkit_core::read::ReadContext;

use crate::args::RecompressArgs;
use crate::codec::CodecChoice;
use crate::layout_args::Layouts;
use crate::source::{Listed, Source};

/// Arrays that look alike are sampled together: so many of them.
const SAMPLED_ARRAYS: usize = 3;
/// Decoded bytes of an array below which it is not looked at apart from others of its type.
const SMALL_ARRAY_BYTES: u64 = 4 << 20;
/// Bytes that a chunk may decode to for a sample of it.
const SAMPLE_CHUNK_BYTES: u64 = 1 << 30;

/// The target of an array, and why it has its codec.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) target: Target,
    /// What was measured; arrays that look alike share it.
    pub(crate) why: Option<String>,
}

/// Returns the targets of all arrays of all sources, in their order.
pub(crate) fn choose(
    args: &RecompressArgs,
    layouts: &Layouts,
    sources: &[Source],
    memory_bytes: u64,
    shell: &Shell,
) -> anyhow::Result<Vec<Vec<Chosen>>> {
    let mut chosen: Vec<Vec<Chosen>> = Vec::with_capacity(sources.len());
    let mut classes: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
    for (store, source) in sources.iter().enumerate() {
        let mut targets = Vec::with_capacity(source.arrays.len());
        for (position, listed) in source.arrays.iter().enumerate() {
            let metadata = &listed.array.metadata;
            let format = args.zarr_format.format();
            let array = layouts.target_of(&listed.array.path, metadata, format)?;
            let codec = args.codec.clone().or(array.codec).unwrap_or(CodecChoice::Auto);
            let codec = match codec {
                CodecChoice::Given(codec) => codec,
                CodecChoice::Auto => {
                    let chunk = array.layout.as_ref().map(|layout| layout.chunk_shape.clone());
                    let class = class(listed, chunk.as_deref().unwrap_or(&metadata.chunk_shape()));
                    classes.entry(class).or_default().push((store, position));
                    TargetCodec::DEFAULT
                }
            };
            let target = Target { format, codec, checksum: args.checksum.into(), layout: array.layout };
            targets.push(Chosen { target, why: None });
        }
        chosen.push(targets);
    }
    if !classes.is_empty() {
        shell.observer().event(Event::Phase("choosing codecs"));
    }
    for (_, members) in classes {
        let (codec, why) = choose_for(args, sources, &chosen, &members, memory_bytes, shell)?;
        for (store, position) in members {
            let chosen = &mut chosen[store][position];
            chosen.target.codec = codec.clone();
            chosen.why = Some(why.clone());
        }
    }
    Ok(chosen)
}

/// Returns what arrays that are sampled together have in common.
fn class(listed: &Listed, chunk_shape: &[u64]) -> String {
    let metadata = &listed.array.metadata;
    let small = metadata.decoded_bytes().is_some_and(|bytes| bytes < SMALL_ARRAY_BYTES);
    let filters = metadata.document.get("filters").map(ToString::to_string).unwrap_or_default();
    match small {
        true => format!("small {} {filters}", metadata.data_type),
        false => format!("{} {filters} {chunk_shape:?}", metadata.data_type),
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
) -> anyhow::Result<(TargetCodec, String)> {
    let mut by_size = members.to_vec();
    by_size.sort_by_key(|&(store, position)| {
        std::cmp::Reverse(sources[store].arrays[position].stored.bytes)
    });
    let mut samples = Vec::new();
    let mut chunk_bytes = 0;
    let pool = rayon_pool(args)?;
    let meter = shell.observer().meter();
    for &(store, position) in by_size.iter().take(SAMPLED_ARRAYS) {
        let listed = &sources[store].arrays[position];
        let metadata = &listed.array.metadata;
        let layout = chosen[store][position].target.layout.as_ref();
        let chunk_shape = layout.map_or_else(|| metadata.chunk_shape(), |layout| layout.chunk_shape.clone());
        let elements = grid::product(&chunk_shape).unwrap_or(u64::MAX);
        chunk_bytes = chunk_bytes.max(elements.saturating_mul(metadata.data_type.item_bytes().unwrap_or(1)));
        let source = SampleSource {
            store: sources[store].store()?,
            array: &listed.array,
            stored: &listed.stored.chunks,
            chunk_limit: SAMPLE_CHUNK_BYTES.min(memory_bytes),
        };
        let context = ReadContext { pool: &pool, cancel: shell.cancel(), meter };
        match engine::sample_array(&source, &chunk_shape, context) {
            Ok(pieces) => samples.extend(pieces),
            // what cannot be read or decoded is found, and named, by the copy
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error.into()),
            Err(error) => tracing::debug!(path = listed.array.path, error = error.one_line(), "not sampled"),
        }
    }
    let share = 4usize << 20;
    let mut bytes = 0;
    // a little of each array is better than much of one
    samples.sort_by_key(Vec::len);
    samples.retain(|sample| {
        bytes += sample.len();
        bytes <= share || bytes == sample.len()
    });
    let Some(&(store, position)) = by_size.first() else { return Ok((TargetCodec::DEFAULT, String::new())) };
    let data_type = &sources[store].arrays[position].array.metadata.data_type;
    let choice = engine::choose_codec(&samples, data_type, chunk_bytes, args.prefer.into());
    Ok((choice.codec, choice.why))
}

fn rayon_pool(args: &RecompressArgs) -> Result<engine::Pool, Error> {
    let jobs = args.resources.jobs().min(NonZeroUsize::new(16).unwrap_or(NonZeroUsize::MIN));
    engine::pool(jobs.get())
}
