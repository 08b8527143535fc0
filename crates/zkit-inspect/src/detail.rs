//! Everything about one array.

use zkit_core::engine::{Frames, Listing, Tally};
use zkit_core::grid::unravel;
use zkit_core::metadata::{FillValue, Json};
use zkit_report::{Document, Facts, GridMap, Histogram, format};

use crate::facts::ArrayFacts;
use crate::text::{ratio_in_words, shape_in_words, stored_in_words};

/// Characters of an attribute's value that are shown.
const VALUE_LONGEST: usize = 300;

/// Adds all that is known of an array.
pub(crate) fn push(document: &mut Document, array: &ArrayFacts<'_>) {
    document.title(format!("Array {}", array.node.path)).facts(facts(array));
    let attributes = &array.metadata().attributes;
    if !attributes.is_empty() {
        document
            .title("Attributes")
            .facts(attributes.iter().map(|(key, value)| (key, value_in_words(value))).collect());
    }
    if let Some(listing) = array.listing().filter(|listing| !listing.stored.is_empty()) {
        push_sizes(document, listing);
        push_map(document, array, listing);
    }
    if let Some(frames) = array.frames().filter(|frames| frames.chunks > 0) {
        document
            .title(format!("Frames of {}", format::counted(frames.chunks, "chunk", "chunks")))
            .facts(frame_facts(frames));
    }
}

fn facts(array: &ArrayFacts<'_>) -> Facts {
    let metadata = array.metadata();
    let mut facts = Facts::new();
    let sized = |shape: &[u64], bytes: Option<u64>| match bytes {
        Some(bytes) => format!("{}, {} decoded", format::shape(shape), format::bytes(bytes)),
        None => format::shape(shape),
    };
    facts
        .fact("format", metadata.format.to_string())
        .fact("shape", shape_in_words(array))
        .fact("data type", data_type_in_words(array))
        .fact("fill value", fill_in_words(array))
        .fact("chunk", sized(&array.chunk_shape, array.chunk_bytes()));
    if let Some(shard) = &array.shard_shape {
        facts.fact("shard", sized(shard, metadata.chunk_decoded_bytes()));
    }
    let codecs: Vec<String> = metadata.codecs.iter().map(ToString::to_string).collect();
    facts.fact("codecs", if codecs.is_empty() { "none: raw bytes".into() } else { codecs.join(", then ") });
    facts.fact(
        "decoded",
        metadata.decoded_bytes().map_or_else(|| "elements have no fixed size".into(), format::bytes),
    );
    let grid = format::shape(metadata.grid.counts());
    let noun = if array.shard_shape.is_some() { "shards" } else { "chunks" };
    match array.listing() {
        None => facts.fact(noun, format!("{} expected ({grid})", format::count(array.chunks_total))),
        Some(listing) => facts
            .fact(noun, format!("{} stored; the grid is {grid}", stored_in_words(array)))
            .fact(
                "stored",
                format!("{}, ratio {}", format::bytes(listing.bytes_stored), ratio_in_words(array)),
            )
            .fact("foreign files", format::count(listing.foreign.count))
            .fact(
                "orphans",
                format!("{} outside the grid", format::counted(listing.orphans.count, "chunk", "chunks")),
            ),
    };
    if let Some(lanes) = array.lanes() {
        facts.fact(
            "decode lanes",
            format!(
                "{} a chunk, {} in the whole array{}",
                format::count(lanes.per_chunk),
                format::count(lanes.whole_array),
                if lanes.per_chunk > 1 {
                    ", for readers that decode the blocks of a chunk side by side"
                } else {
                    ""
                }
            ),
        );
    }
    facts
}

/// Returns the data type, and how the metadata writes it where that differs.
fn data_type_in_words(array: &ArrayFacts<'_>) -> String {
    let metadata = array.metadata();
    let name = metadata.data_type.to_string();
    match metadata.data_type_json() {
        Json::String(written) if *written == name => name,
        written => format!("{name}, written {}", shortened(&written.to_string())),
    }
}

fn fill_in_words(array: &ArrayFacts<'_>) -> String {
    let metadata = array.metadata();
    match &metadata.fill_value {
        FillValue::Null => "null: absent chunks are undefined, readers give zero".into(),
        FillValue::Invalid(why) => format!("unusable: {why}"),
        fill => value_in_words(&fill.to_v3(&metadata.data_type)),
    }
}

fn value_in_words(value: &Json) -> String {
    match value {
        Json::String(text) => shortened(text),
        other => shortened(&other.to_string()),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(VALUE_LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}... ({} in all)", &text[..end], format::bytes(text.len() as u64)),
    }
}

fn push_sizes(document: &mut Document, listing: &Listing) {
    let mut histogram = Histogram::new();
    for (at_least, below, chunks) in listing.sizes.buckets() {
        let label = match (at_least, below) {
            (0, _) => "empty".to_owned(),
            (at_least, below) => format!("{} - {}", format::bytes(at_least), format::bytes(below)),
        };
        histogram.bar(label, chunks as f64, format::count(chunks));
    }
    let range = listing.sizes.range().map_or(String::new(), |(smallest, largest)| {
        format!(", {} to {}", format::bytes(smallest), format::bytes(largest))
    });
    document.title(format!("Stored sizes{range}")).histogram(histogram);
}

/// Adds the map of the grid along the two dimensions with the most chunks; a single one goes across.
fn push_map(document: &mut Document, array: &ArrayFacts<'_>, listing: &Listing) {
    let counts = array.metadata().grid.counts();
    let Some(mut map) = GridMap::of_grid(counts, array.metadata().dimension_names.as_deref()) else { return };
    for position in listing.stored.iter() {
        map.mark_chunk(&unravel(position, counts));
    }
    let noun = if array.shard_shape.is_some() { "shards" } else { "chunks" };
    document.title(format!("Which {noun} are stored")).grid_map(map);
}

fn frame_facts(frames: &Frames) -> Facts {
    let mut facts = Facts::new();
    let shards = &frames.shards;
    if shards.read > 0 {
        facts.fact(
            "shard indexes",
            format!(
                "{} read, {} each; {} present, {} absent",
                format::count(shards.read),
                format::bytes(shards.index_bytes),
                format::counted(shards.present, "inner chunk", "inner chunks"),
                format::count(shards.absent)
            ),
        );
    }
    let blosc = &frames.blosc;
    if blosc.frames > 0 {
        let codecs = blosc.codecs.keys().map(|(codec, shuffle)| format!("{codec}, {shuffle}"));
        facts
            .fact(
                "blosc frames",
                format!("{} ({})", format::count(blosc.frames), codecs.collect::<Vec<_>>().join("; ")),
            )
            .fact("block size", values(&blosc.block_bytes, format::bytes))
            .fact("blocks a frame", values(&blosc.blocks, format::count))
            .fact("type size", values(&blosc.type_bytes, |bytes| bytes.to_string()))
            .fact(
                "memcpyed",
                format!("{} not compressed at all", format::counted(blosc.memcpyed, "frame", "frames")),
            );
    }
    let zstd = &frames.zstd;
    if zstd.frames > 0 {
        facts
            .fact("zstd frames", format::count(zstd.frames))
            .fact(
                "content size",
                format!(
                    "named by {} of {}",
                    format::count(zstd.with_content_size),
                    format::count(zstd.frames)
                ),
            )
            .fact(
                "checksum",
                format!("in {} of {}", format::count(zstd.with_checksum), format::count(zstd.frames)),
            );
    }
    if frames.opaque > 0 {
        facts.fact(
            "others",
            format!(
                "{} of a codec that says nothing of itself",
                format::counted(frames.opaque, "frame", "frames")
            ),
        );
    }
    if frames.broken > 0 {
        facts.fact(
            "broken",
            format!(
                "{} that the metadata does not describe",
                format::counted(frames.broken, "chunk", "chunks")
            ),
        );
    }
    facts
}

/// Returns a range of values and the most frequent one.
fn values<Value: Copy + Ord>(tally: &Tally<Value>, written: impl Fn(Value) -> String) -> String {
    let (Some((&least, _)), Some((&most, _))) = (tally.first_key_value(), tally.last_key_value()) else {
        return "-".into();
    };
    if tally.len() == 1 {
        return written(least);
    }
    let frequent =
        tally.iter().max_by_key(|(_, count)| **count).map(|(&value, _)| written(value)).unwrap_or_default();
    format!("{} to {}, mostly {frequent}", written(least), written(most))
}
