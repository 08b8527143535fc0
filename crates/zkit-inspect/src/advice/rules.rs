//! The rules, each with the limit at which it speaks.

use zkit_report::{Advice, format};

use super::profile::{Compression, Profile, StoreProfile};
use crate::command_line::CommandLine;
use zkit_core::plan::{Access, Dimensions, chunks_for, grown, read_cost, shrunk};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Chunks below this cost more to find than to decode, where there are many.
const SMALL_CHUNK_BYTES: u64 = 100 * KIB;
/// From so many on, small chunks are many.
const MANY_CHUNKS: u64 = 1_000;
/// Chunks above this need too much memory in each worker, and leave no room for partial reads.
const LARGE_CHUNK_BYTES: u64 = 512 * MIB;
/// The decoded size that advice aims at.
const GOOD_CHUNK_BYTES: u64 = 4 * MIB;
/// One frame that decodes to less is done at once, on one core or not.
const LONG_FRAME_BYTES: u64 = 8 * MIB;
/// With fewer chunks than this, single-lane chunks leave the cores of one machine idle.
const FEW_CHUNKS: u64 = 64;
/// Arrays below this gain nothing that anyone would notice.
const NOTICEABLE_BYTES: u64 = 10 * MIB;
/// Nodes beyond this take long to open one by one over a network.
const MANY_NODES: u64 = 50;
/// Objects beyond this take long to list, copy and delete.
const MANY_OBJECTS: u64 = 1_000_000;
/// Reads that decode so many times what they want are slow because of the chunk shape.
const HIGH_AMPLIFICATION: f64 = 4.0;

type ArrayRule = fn(&Profile<'_>, Option<&Access>, &CommandLine) -> Option<Advice>;
type StoreRule = fn(&StoreProfile, &CommandLine) -> Option<Advice>;

/// Rules over the store, what matters most first.
pub(super) const STORE_RULES: [(&str, StoreRule); 3] = [
    ("network-mount", network_mount),
    ("not-consolidated", not_consolidated),
    ("many-objects", many_objects),
];

/// Rules over each array, what matters most first.
pub(super) const ARRAY_RULES: [(&str, ArrayRule); 5] = [
    ("chunks-against-access", chunks_against_access),
    ("chunks-too-large", chunks_too_large),
    ("chunks-too-small", chunks_too_small),
    ("single-lane", single_lane),
    ("no-shuffle", no_shuffle),
];

/// The codec that advice recommends: the default of `zkit recompress`.
const CODEC: &str = "--codec blosc:zstd:3:bitshuffle";

fn network_mount(store: &StoreProfile, _: &CommandLine) -> Option<Advice> {
    let mount = store.mount.as_ref()?;
    let is_bucket = mount.kind.starts_with("fuse");
    let what = if is_bucket {
        "name the bucket by its own URL instead of the mount"
    } else {
        "expect the speed of a network"
    };
    let why = format!(
        "the store lies on {}, a file system of kind {}: each read waits for the network{}",
        mount.point.display(),
        mount.kind,
        if is_bucket {
            ", one at a time, and what fails may look like a missing file; zkit reads buckets itself, many requests at once"
        } else {
            ""
        }
    );
    let command = mount.url.as_ref().map(|url| format!("zkit inspect {}", crate::command_line::quoted(url)));
    Some(Advice { what: what.into(), why, command })
}

fn not_consolidated(store: &StoreProfile, line: &CommandLine) -> Option<Advice> {
    if store.consolidated || !store.whole || store.nodes <= MANY_NODES {
        return None;
    }
    Some(Advice {
        what: "consolidate the metadata".into(),
        why: format!(
            "opening the store takes two or three reads for each of its {} nodes; consolidated, it takes one",
            format::count(store.nodes)
        ),
        command: Some(line.consolidate()),
    })
}

fn many_objects(store: &StoreProfile, _: &CommandLine) -> Option<Advice> {
    if store.objects < MANY_OBJECTS {
        return None;
    }
    let size = store
        .bytes_stored
        .map_or(String::new(), |bytes| format!(", {} each on average", format::bytes(bytes / store.objects)));
    Some(Advice {
        what: "put many chunks into one object: larger chunks, or shards (Zarr v3)".into(),
        why: format!(
            "its chunks are {} objects{size}: listing, copying and deleting take as many requests",
            format::count(store.objects)
        ),
        command: None,
    })
}

fn chunks_against_access(array: &Profile<'_>, access: Option<&Access>, line: &CommandLine) -> Option<Advice> {
    let (access, cost, item) = (access?, array.read?, array.item_bytes?);
    let wasteful = cost.amplification() >= HIGH_AMPLIFICATION && cost.bytes_decoded >= MIB;
    if !wasteful && cost.chunks_touched < MANY_CHUNKS {
        return None;
    }
    let names = array.names;
    let wanted = access.wanted(Dimensions { shape: array.shape, names })?;
    let chunks = chunks_for(array.shape, &wanted, item);
    let better = read_cost(array.shape, &chunks, &wanted, item);
    if better.bytes_decoded >= cost.bytes_decoded && better.chunks_touched >= cost.chunks_touched {
        return None;
    }
    Some(Advice {
        what: format!("rechunk `{}` to {} for reading by {access}", array.path, format::shape(&chunks)),
        why: format!(
            "one read wants {} and decodes {} out of {} ({} as much); then it would be {} out of {}",
            format::bytes(cost.bytes_wanted),
            format::bytes(cost.bytes_decoded),
            format::counted(cost.chunks_touched, "chunk", "chunks"),
            format::ratio(cost.bytes_decoded, cost.bytes_wanted),
            format::bytes(better.bytes_decoded),
            format::counted(better.chunks_touched, "chunk", "chunks"),
        ),
        command: line.rechunk(&chunks, array.shape, names),
    })
}

fn chunks_too_large(array: &Profile<'_>, _: Option<&Access>, line: &CommandLine) -> Option<Advice> {
    let (bytes, item) = (array.chunk_bytes()?, array.item_bytes?);
    if bytes <= LARGE_CHUNK_BYTES || array.bytes_decoded <= LARGE_CHUNK_BYTES {
        return None;
    }
    let chunks = shrunk(array.chunk_shape, item, 4 * GOOD_CHUNK_BYTES);
    Some(Advice {
        what: format!("cut `{}` into smaller chunks, such as {}", array.path, format::shape(&chunks)),
        why: format!(
            "one chunk of {} decodes to {}: every read, however small, takes that much memory and time",
            format::shape(array.chunk_shape),
            format::bytes(bytes)
        ),
        command: line.rechunk(&chunks, array.shape, array.names),
    })
}

fn chunks_too_small(array: &Profile<'_>, _: Option<&Access>, line: &CommandLine) -> Option<Advice> {
    let (bytes, item) = (array.chunk_bytes()?, array.item_bytes?);
    if array.sharded || bytes >= SMALL_CHUNK_BYTES || array.chunks < MANY_CHUNKS {
        return None;
    }
    let chunks = grown(array.shape, array.chunk_shape, item, GOOD_CHUNK_BYTES);
    Some(Advice {
        what: format!("give `{}` larger chunks, such as {}", array.path, format::shape(&chunks)),
        why: format!(
            "its {} chunks decode to {} each: finding one takes longer than decoding it",
            format::count(array.chunks),
            format::bytes(bytes)
        ),
        command: line.rechunk(&chunks, array.shape, array.names),
    })
}

fn single_lane(array: &Profile<'_>, _: Option<&Access>, line: &CommandLine) -> Option<Advice> {
    let bytes = array.chunk_bytes()?;
    let single = match (&array.compression, array.lanes_per_chunk) {
        (Compression::None, _) => return None,
        (_, Some(lanes)) => lanes == 1,
        (Compression::OneFrame(_), None) => true,
        (Compression::Blosc, None) => return None,
    };
    // a chunk larger than the array decodes whole, but there is nothing to gain beyond the array
    if !single || bytes.min(array.bytes_decoded) <= LONG_FRAME_BYTES || array.chunks > FEW_CHUNKS {
        return None;
    }
    let frame = match &array.compression {
        Compression::OneFrame(codec) => format!("one {codec} frame"),
        _ => "a single blosc block".into(),
    };
    Some(Advice {
        what: format!("let several cores decode a chunk of `{}`", array.path),
        why: format!(
            "each of its {} decodes to {} out of {frame}, on one core whatever the reader; blosc cuts it into blocks that decode side by side",
            format::counted(array.chunks, "chunk", "chunks"),
            format::bytes(bytes)
        ),
        command: Some(line.recompress(CODEC)),
    })
}

fn no_shuffle(array: &Profile<'_>, _: Option<&Access>, line: &CommandLine) -> Option<Advice> {
    if array.shuffled
        || !array.shuffles_well
        || array.compression == Compression::None
        || array.bytes_decoded < NOTICEABLE_BYTES
    {
        return None;
    }
    Some(Advice {
        what: format!("try to shuffle the bytes of `{}` before compressing", array.path),
        why: format!(
            "{} elements are compressed as they are; bytes (or bits) of equal weight side by side mostly compress better; --codec auto measures whether they do",
            array.data_type
        ),
        command: Some(line.recompress("--codec auto")),
    })
}

/// Speaks where one array is shown in all details only: most stores have no checksums.
pub(super) fn without_checksum(array: &Profile<'_>, line: &CommandLine) -> Option<Advice> {
    if array.checksummed || array.bytes_decoded < NOTICEABLE_BYTES {
        return None;
    }
    Some(Advice {
        what: format!("add checksums to `{}`", array.path),
        why: "nothing in its chunks tells a flipped bit from data: most decode without an error".into(),
        command: Some(line.recompress("--zarr-format 3 --checksum auto")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zkit_core::metadata::CodecSpec;

    use crate::mount::RemoteMount;

    fn line() -> CommandLine {
        CommandLine::for_store("a.zarr")
    }

    fn names() -> [Option<String>; 3] {
        ["time", "latitude", "longitude"].map(|name| Some(name.to_owned()))
    }

    fn t2m(names: &[Option<String>]) -> Profile<'_> {
        Profile::for_tests("/t2m", names)
    }

    fn store() -> StoreProfile {
        StoreProfile {
            nodes: 51,
            consolidated: false,
            whole: true,
            objects: 10,
            bytes_stored: Some(100),
            mount: None,
        }
    }

    fn command(advice: Option<Advice>) -> String {
        advice.unwrap().command.unwrap()
    }

    #[test]
    fn many_nodes_want_consolidated_metadata() {
        assert!(command(not_consolidated(&store(), &line())).contains("consolidate_metadata"));
        assert_eq!(not_consolidated(&StoreProfile { consolidated: true, ..store() }, &line()), None);
        assert_eq!(not_consolidated(&StoreProfile { nodes: 50, ..store() }, &line()), None);
    }

    #[test]
    fn millions_of_objects_want_shards() {
        let advice = many_objects(
            &StoreProfile { objects: 2_000_000, bytes_stored: Some(8 << 30), ..store() },
            &line(),
        )
        .unwrap();
        assert!(advice.why.contains("2,000,000 objects, 4.19 KiB each"), "{}", advice.why);
        assert_eq!(many_objects(&store(), &line()), None);
    }

    #[test]
    fn a_bucket_behind_a_mount_is_named_by_its_url() {
        let mount = RemoteMount {
            point: "/mnt/x".into(),
            kind: "fuse.gcsfuse".into(),
            url: Some("gs://x/a.zarr".into()),
        };
        let advice = network_mount(&StoreProfile { mount: Some(mount), ..store() }, &line());
        assert_eq!(command(advice), "zkit inspect gs://x/a.zarr");
        assert_eq!(network_mount(&store(), &line()), None);
    }

    #[test]
    fn chunks_that_fit_their_access_are_left_alone() {
        let names = names();
        let mut array = t2m(&names);
        let mut check = |access: Access| {
            let wanted = access.wanted(Dimensions { shape: array.shape, names: array.names }).unwrap();
            array.read = Some(read_cost(array.shape, array.chunk_shape, &wanted, 4));
            chunks_against_access(&array, Some(&access), &line())
        };
        assert_eq!(check(Access::Maps), None);
        let advice = check(Access::TimeSeries).unwrap();
        assert!(advice.command.unwrap().ends_with("--chunks time=-1,latitude=4,longitude=8"));
        assert!(advice.why.contains("8,760 chunks"), "{}", advice.why);
        assert!(check(Access::Points).is_some());
    }

    #[test]
    fn the_size_of_chunks_is_judged_by_how_many_there_are() {
        let names = names();
        let small = Profile { chunk_shape: &[1, 16, 16], chunks: 20_000, ..t2m(&names) };
        assert!(command(chunks_too_small(&small, None, &line())).contains("--chunks time="));
        assert_eq!(chunks_too_small(&Profile { chunks: 10, ..small.clone() }, None, &line()), None);
        assert_eq!(chunks_too_small(&Profile { sharded: true, ..small }, None, &line()), None);
        let large = Profile { chunk_shape: &[8760, 721, 100], ..t2m(&names) };
        assert!(chunks_too_large(&large, None, &line()).is_some());
        assert_eq!(chunks_too_large(&t2m(&names), None, &line()), None);
        let unnamed = Profile { names: None, ..large };
        assert!(command(chunks_too_large(&unnamed, None, &line())).contains("--chunks 0="));
    }

    #[test]
    fn one_long_frame_is_single_lane_and_many_are_not() {
        let names = names();
        let zstd = Profile {
            chunk_shape: &[100, 721, 1440],
            chunks: 20,
            compression: Compression::OneFrame(&CodecSpec::Zstd { level: 3, checksum: false }),
            lanes_per_chunk: None,
            ..t2m(&names)
        };
        assert_eq!(
            command(single_lane(&zstd, None, &line())),
            "zkit recompress a.zarr a-new.zarr --codec blosc:zstd:3:bitshuffle"
        );
        assert_eq!(single_lane(&Profile { chunks: 1_000, ..zstd.clone() }, None, &line()), None);
        let blosc = Profile { compression: Compression::Blosc, lanes_per_chunk: Some(16), ..zstd.clone() };
        assert_eq!(single_lane(&blosc, None, &line()), None);
        assert!(single_lane(&Profile { lanes_per_chunk: Some(1), ..blosc }, None, &line()).is_some());
        assert_eq!(single_lane(&Profile { bytes_decoded: 100, ..zstd }, None, &line()), None);
    }

    #[test]
    fn numbers_of_several_bytes_want_a_shuffle() {
        let names = names();
        let plain = Profile { shuffled: false, ..t2m(&names) };
        assert!(no_shuffle(&plain, None, &line()).is_some());
        assert_eq!(no_shuffle(&Profile { shuffles_well: false, ..plain.clone() }, None, &line()), None);
        assert_eq!(no_shuffle(&Profile { bytes_decoded: 1_000, ..plain.clone() }, None, &line()), None);
        assert_eq!(no_shuffle(&Profile { compression: Compression::None, ..plain }, None, &line()), None);
    }

    #[test]
    fn checksums_are_missed_where_there_are_none() {
        let names = names();
        let array = t2m(&names);
        assert!(command(without_checksum(&array, &line())).contains("--checksum"));
        assert_eq!(without_checksum(&Profile { checksummed: true, ..array }, &line()), None);
    }
}
