//! What a listing says of one array: which chunks are stored, how large they are, and what else lies there.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::faults::{ChunkFault, FaultLog};
use super::heads::{Expected, short_shard, wrong_length};
use super::names::{Named, chunk_like, named};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Observer;
use crate::grid::{ChunkSet, product};
use crate::hierarchy::ArrayNode;
use crate::metadata::{ChunkKeys, Defect};
use crate::plan::Stored;
use crate::store::{Glance, ObjectInfo, ObjectKind, Seen, Store};

/// Keys that defects name; of the rest they say how many there are.
const EXAMPLES_MOST: usize = 3;
/// Parts of a grid whose changes are told from each other.
const PARTS_MOST: u64 = 256;

/// The stored chunks of one array, as a listing shows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// C-order positions of the stored chunks (shards where sharded) in the array's grid.
    pub stored: ChunkSet,
    /// Where only some chunks were asked for ([`SurveyDepth::Source`](super::SurveyDepth::Source)), those of them that are stored.
    /// `stored` is then the whole grid, and `bytes_stored` an estimate; what else is said here is of these alone.
    pub known: Option<ChunkSet>,
    /// Bytes of the stored chunks together.
    pub bytes_stored: u64,
    /// How large they are.
    pub sizes: SizeTally,
    /// Bytes of the largest one; a bound where only some were asked for.
    pub largest_bytes: u64,
    /// Changes when any of the chunks is rewritten, added or lost: a sum over their positions, sizes and stamps, which
    /// does not depend on the order of the listing.
    pub fingerprint: u128,
    /// The same of parts of the grid: it tells where something changed.
    pub parts: GridParts,
    /// Keys of chunks that lie outside the grid, as a shrunk array leaves them.
    pub orphans: Keys,
    /// Objects that are neither chunks nor metadata, with those that other fields name.
    pub foreign: Keys,
    /// Of these, what unfinished writes leave.
    pub temporary: Keys,
    /// When the latest of these was changed, in seconds since 1970.
    pub temporary_changed: Option<i64>,
    /// Of the foreign ones, chunks of this very grid under keys of another encoding.
    pub misplaced: Keys,
    /// How those keys are encoded; `None` for keys of no encoding, and of another number of dimensions.
    pub misplaced_as: Option<ChunkKeys>,
    /// How many dimensions those keys have, where it is not that of the array.
    pub misplaced_rank: Option<usize>,
    /// Metadata documents whose permissions let nobody read them.
    pub locked: Keys,
    /// When anything of the array was last changed, in seconds since 1970; `None` where nothing says it.
    pub changed: Option<i64>,
    /// A fair sample of the stored chunks, by position: the same one whatever the order of the listing.
    pub sample: Vec<StoredChunk>,
}

impl From<Listing> for Stored {
    fn from(listing: Listing) -> Self {
        let Listing { stored: chunks, known, bytes_stored: bytes, largest_bytes, .. } = listing;
        Self { chunks, known, bytes, largest_bytes }
    }
}

/// A grid in parts of equally many chunks, with a sum over the chunks of each that changes when one of them does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridParts {
    /// Chunks of a part.
    size: u64,
    /// As far as there are chunks.
    sums: Vec<u64>,
}

impl GridParts {
    /// Returns the parts of a grid of so many chunks.
    fn of(total: u64) -> Self {
        Self { size: total.div_ceil(PARTS_MOST).max(1), sums: Vec::new() }
    }

    #[expect(clippy::cast_possible_truncation, reason = "half of the hash is enough")]
    fn add(&mut self, position: u64, hash: u128) {
        let part = crate::units::saturating_usize(position / self.size);
        if part >= self.sums.len() {
            self.sums.resize(part + 1, 0);
        }
        self.sums[part] = self.sums[part].wrapping_add(hash as u64);
    }

    /// Returns the first and the last position of the first part that differs, of the same grid.
    pub fn first_difference(&self, other: &Self) -> Option<(u64, u64)> {
        let sum = |of: &Self, part: usize| of.sums.get(part).copied().unwrap_or(0);
        let parts = self.sums.len().max(other.sums.len());
        let part = (0..parts).find(|&part| sum(self, part) != sum(other, part))? as u64;
        let first = part.saturating_mul(self.size);
        Some((first, first.saturating_add(self.size - 1)))
    }
}

/// One stored chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredChunk {
    /// C-order position in the grid.
    pub position: u64,
    /// Stored bytes.
    pub bytes: u64,
}

/// How many keys there are, and the first few of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// How many there are.
    pub count: u64,
    /// A few of them, relative to the array.
    pub examples: Vec<String>,
}

impl Keys {
    /// Counts a key.
    pub(super) fn add(&mut self, key: &str) {
        self.count += 1;
        if self.examples.len() < EXAMPLES_MOST {
            self.examples.push(key.to_owned());
        }
    }

    /// Returns the keys in words: `` `c/0/1`, `c/0/2` and 7 more ``.
    pub fn in_words(&self) -> String {
        let named: Vec<String> = self.examples.iter().map(|key| format!("`{key}`")).collect();
        let more = self.count - self.examples.len() as u64;
        if more == 0 { named.join(", ") } else { format!("{} and {more} more", named.join(", ")) }
    }

    /// Returns a defect that names the keys, if there are any.
    pub(super) fn defect(&self, path: &str, rule: &'static str, what: &str) -> Option<Defect> {
        (self.count > 0).then(|| Defect::remark(path, rule, format!("{what}: {}", self.in_words())))
    }
}

/// Sizes of chunks, counted by powers of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeTally {
    /// By power; as many as there must be: most stores of many arrays hold few chunks of each.
    counts: Vec<u64>,
    smallest: u64,
    largest: u64,
}

impl Default for SizeTally {
    fn default() -> Self {
        Self { counts: Vec::new(), smallest: u64::MAX, largest: 0 }
    }
}

impl SizeTally {
    /// Counts one size.
    pub fn add(&mut self, bytes: u64) {
        let power = (u64::BITS - bytes.leading_zeros()) as usize;
        if self.counts.len() <= power {
            self.counts.resize(power + 1, 0);
        }
        self.counts[power] += 1;
        self.smallest = self.smallest.min(bytes);
        self.largest = self.largest.max(bytes);
    }

    /// Returns the smallest and the largest size, if there is one.
    pub fn range(&self) -> Option<(u64, u64)> {
        (self.smallest <= self.largest).then_some((self.smallest, self.largest))
    }

    /// Returns the counts from the smallest to the largest size: (least bytes, bytes that are too many, how many).
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let first = self.counts.iter().position(|&count| count > 0).unwrap_or(0);
        let last = self.counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let edge = |power: usize| match u32::try_from(power) {
            Ok(0) => 0,
            Ok(power) => 1u64.checked_shl(power - 1).unwrap_or(u64::MAX),
            Err(_) => u64::MAX,
        };
        (first..last).map(move |power| (edge(power), edge(power + 1), self.counts[power]))
    }
}

/// What a listing of one array gives: the chunks, and what is wrong with single objects.
pub(super) struct Listed {
    pub(super) listing: Listing,
    pub(super) defects: Vec<Defect>,
    /// Whether there are objects that may be chunks and cannot be read.
    pub(super) unreadable: bool,
    /// What is wrong with single chunks.
    pub(super) faults: FaultLog,
    /// Links where folders of chunks should be, which cannot be followed.
    pub(super) unread_folders: Keys,
}

/// Chunks of an array that are asked for one by one, at most: a request each.
const ASKED_MOST: u64 = 1 << 24;
/// Chunks whose keys are held at once while they are asked for.
const ASKED_AT_ONCE: usize = 1 << 12;
/// Decoded bytes of the chunks of a source that are asked for before the others are read, and how many these are.
const FEW_BYTES: u64 = 8 << 20;
const FEW: std::ops::RangeInclusive<u64> = 3..=16;
/// Bytes of chunks that are fetched where it is asked whether they are there, at most: the room for them is small.
const FETCHED_BYTES_MOST: u64 = 8 << 20;
/// Decoded bytes of chunks of which it need not be known whether they are there before they are read, at most: memory is planned for
/// what they may be at worst. With larger ones a request more is of no weight.
const ASSUMED_BYTES_MOST: u64 = 64 << 20;
/// Bytes that an element without fixed size is taken to have.
const VARIABLE_BYTES: u64 = 64;

/// What is asked for where a store has no listing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// Chunks that are asked for, at most, evenly spread; the others are taken to be there.
    most: u64,
    /// What is read of them next.
    next: Glance,
}

impl Asked {
    /// Every chunk.
    pub(super) fn all(next: Glance) -> Self {
        Self { most: u64::MAX, next }
    }

    /// What a copy must know of its source before it is read: a few chunks, unless they may be large, or how large is unknown.
    pub(super) fn of_source(array: &ArrayNode, read: bool) -> Self {
        let metadata = &array.metadata;
        let elements = || product(&metadata.grid.largest_chunk_shape());
        let likely = metadata.chunk_stored_bytes_most().or_else(|| elements()?.checked_mul(VARIABLE_BYTES));
        let next = match likely {
            Some(bytes) if read && bytes <= FETCHED_BYTES_MOST => Glance::Whole(bytes),
            _ => Glance::Head(0),
        };
        match metadata.chunk_decoded_bytes() {
            Some(bytes) if bytes <= ASSUMED_BYTES_MOST && metadata.unknown_codecs().is_empty() => {
                Self { most: (FEW_BYTES / bytes.max(1)).clamp(*FEW.start(), *FEW.end()), next }
            }
            _ => Self::all(next),
        }
    }

    /// Returns the positions of so many chunks that are asked for.
    fn positions(self, total: u64) -> Box<dyn Iterator<Item = u64>> {
        if total <= self.most {
            return Box::new(0..total);
        }
        // the first, the last, and what lies evenly between
        Box::new((0..self.most).map(move |at| at * (total - 1) / (self.most - 1)))
    }
}

/// Lists one array; stops early once cancelled. With `expected`, sizes are compared with what they must be.
///
/// Where the store has no listing, chunks of the grid are `asked` for; what else lies there stays unknown.
pub(super) fn list(
    store: &Store,
    array: &ArrayNode,
    (sample_most, expected, asked): (usize, Option<&Expected>, Asked),
    (observer, cancel): (&dyn Observer, &Cancel),
) -> Result<Listed> {
    let mut builder = Builder::new(array, sample_most, expected);
    if !store.is_listable() {
        ask(store, array, (&mut builder, asked), (observer, cancel))?;
        return Ok(builder.finish());
    }
    let in_the_way = RefCell::new(Vec::new());
    let folder = |key: &str| {
        let (keys, grid) = (&array.metadata.chunk_keys, &array.metadata.grid);
        if keys.parse_key(key, grid.rank()).is_some_and(|index| grid.position_of(&index).is_some()) {
            in_the_way.borrow_mut().push(key.to_owned());
        }
    };
    store.list_with_folders(array.prefix(), &folder, &mut |object| {
        builder.object(object);
        observer.meter().objects_listed.add(1);
        if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    cancel.check()?;
    for key in in_the_way.take() {
        let kind = ObjectKind::Special;
        builder.object(ObjectInfo { key: &key, size: 0, kind, stamp: 0, changed: None, locked: false });
    }
    Ok(builder.finish())
}

/// Asks for chunks of an array whether they are there.
fn ask(
    store: &Store,
    array: &ArrayNode,
    (builder, asked): (&mut Builder<'_>, Asked),
    (observer, cancel): (&dyn Observer, &Cancel),
) -> Result<()> {
    let grid = &array.metadata.grid;
    let Some(total) = grid.total().filter(|&total| total <= ASKED_MOST) else {
        let message = format!(
            "could not find out which chunks of `{}` are stored: {} has no listing, and each of more than {ASKED_MOST} chunks \
             would have to be asked for",
            array.path,
            store.place()
        );
        return Err(Error::new(ErrorKind::Unsupported, message)
            .with_hint("--exclude the array, or read the store from where it can be listed"));
    };
    let key_of = |position: u64| {
        let mut key = String::new();
        array.chunk_key(&grid.index_at(position), &mut key);
        key
    };
    let mut positions = asked.positions(total);
    let mut count = 0;
    loop {
        cancel.check()?;
        let wave: Vec<(u64, String)> =
            positions.by_ref().take(ASKED_AT_ONCE).map(|position| (position, key_of(position))).collect();
        if wave.is_empty() {
            break;
        }
        let keys: Vec<&str> = wave.iter().map(|(_, key)| key.as_str()).collect();
        for ((position, key), seen) in wave.iter().zip(store.glance_many(&keys, asked.next)?) {
            let Seen::Object(found) = seen else { continue };
            let (size, kind, stamp) = (found.size, ObjectKind::Regular, found.stamp);
            builder.chunk(ObjectInfo { key, size, kind, stamp, changed: None, locked: false }, *position);
            observer.meter().objects_listed.add(1);
        }
        count += wave.len() as u64;
    }
    if count < total {
        builder.assume(total, count);
    }
    Ok(())
}

/// Takes in the objects of one array, in any order.
pub(super) struct Builder<'a> {
    array: &'a ArrayNode,
    /// Bytes of a stored chunk, where they are always the same and that matters.
    stored_bytes: Option<u64>,
    /// Bytes that the index of a shard has, where that matters.
    index_bytes: Option<u64>,
    listing: Listing,
    sample: Sample,
    faults: FaultLog,
    /// Keys of chunks of another number of dimensions.
    other_rank: Keys,
    empty: Keys,
    dangling: Keys,
    outside: Keys,
    special: Keys,
    /// Of these three, those where folders of chunks should be.
    unread_folders: Keys,
}

impl<'a> Builder<'a> {
    pub(super) fn new(array: &'a ArrayNode, sample_most: usize, expected: Option<&Expected>) -> Self {
        let listing = Listing {
            stored: ChunkSet::default(),
            known: None,
            bytes_stored: 0,
            sizes: SizeTally::default(),
            largest_bytes: 0,
            fingerprint: 0,
            parts: GridParts::of(array.metadata.grid.total().unwrap_or(u64::MAX)),
            orphans: Keys::default(),
            foreign: Keys::default(),
            temporary: Keys::default(),
            temporary_changed: None,
            misplaced: Keys::default(),
            misplaced_as: None,
            misplaced_rank: None,
            locked: Keys::default(),
            changed: None,
            sample: Vec::new(),
        };
        let sample = Sample { most: sample_most, kept: BTreeSet::new() };
        let (other_rank, empty, dangling, outside, special, unread_folders) = Default::default();
        let stored_bytes = expected.and_then(|expected| expected.stored_bytes);
        let index_bytes = expected.and_then(Expected::shard).map(|shard| shard.index_bytes() as u64);
        Self {
            array,
            stored_bytes,
            index_bytes,
            listing,
            sample,
            faults: FaultLog::default(),
            other_rank,
            empty,
            dangling,
            outside,
            special,
            unread_folders,
        }
    }

    /// Takes in one object; its key is relative to the array.
    pub(super) fn object(&mut self, object: ObjectInfo<'_>) {
        let metadata = &self.array.metadata;
        self.listing.changed = self.listing.changed.max(object.changed);
        let Some(index) = metadata.chunk_keys.parse_key(object.key, metadata.grid.rank()) else {
            if object.kind != ObjectKind::Regular && may_hold_chunks(&metadata.chunk_keys, object.key) {
                self.unread_folders.add(object.key);
                self.unreadable(object);
            } else {
                self.other(object);
            }
            return;
        };
        match (object.kind, metadata.grid.position_of(&index)) {
            (ObjectKind::Regular, Some(position)) => self.chunk(object, position),
            (ObjectKind::Regular, None) => self.listing.orphans.add(object.key),
            (kind, position) => {
                self.unreadable(object);
                if let Some(position) = position {
                    let (fault, why) = match kind {
                        ObjectKind::DanglingLink => (ChunkFault::DanglingLink, "a link to nothing"),
                        ObjectKind::OutsideLink => (ChunkFault::OutsideLink, "a link out of the store"),
                        _ => (ChunkFault::Special, "no regular file"),
                    };
                    self.faults.add(fault, position, || why.to_owned());
                }
            }
        }
    }

    /// Takes in an object that is no chunk.
    fn other(&mut self, object: ObjectInfo<'_>) {
        match named(object.key) {
            Named::Metadata => {
                if object.locked {
                    self.listing.locked.add(object.key);
                }
                return;
            }
            Named::Temporary => {
                self.listing.temporary.add(object.key);
                self.listing.temporary_changed = self.listing.temporary_changed.max(object.changed);
            }
            Named::Sidecar | Named::Foreign => self.misplaced(object.key),
        }
        self.listing.foreign.add(object.key);
    }

    /// Counts a key that another encoding would give to a chunk of the grid.
    fn misplaced(&mut self, key: &str) {
        let metadata = &self.array.metadata;
        let encodings =
            [ChunkKeys::Default('/'), ChunkKeys::Default('.'), ChunkKeys::V2('.'), ChunkKeys::V2('/')];
        let fits = |keys: &ChunkKeys, key: &str| {
            let index = keys.parse_key(key, metadata.grid.rank());
            index.is_some_and(|index| metadata.grid.position_of(&index).is_some())
        };
        if let Some(encoding) = encodings.iter().find(|keys| fits(keys, key)) {
            self.listing.misplaced.add(key);
            self.listing.misplaced_as.get_or_insert_with(|| encoding.clone());
            return;
        }
        // no encoding: separators of another system or of two encodings, or a level twice
        let slashed = match key.strip_prefix("c/") {
            Some(dotted) if dotted.contains('.') => format!("c/{}", dotted.replace('.', "/")),
            _ => key.replace('\\', "/"),
        };
        let single = slashed.strip_prefix("c/").filter(|rest| rest.starts_with("c/")).unwrap_or(&slashed);
        if single != key && encodings.iter().any(|keys| fits(keys, single)) {
            self.listing.misplaced.add(key);
        } else if indices_of(key).is_some_and(|indices| indices != metadata.grid.rank()) {
            self.other_rank.add(key);
        }
    }

    fn unreadable(&mut self, object: ObjectInfo<'_>) {
        match object.kind {
            ObjectKind::DanglingLink => self.dangling.add(object.key),
            ObjectKind::OutsideLink => self.outside.add(object.key),
            ObjectKind::Special | ObjectKind::Regular => self.special.add(object.key),
        }
    }

    fn chunk(&mut self, object: ObjectInfo<'_>, position: u64) {
        if !self.listing.stored.insert(position) {
            return;
        }
        let bytes = object.size;
        self.listing.bytes_stored = self.listing.bytes_stored.saturating_add(bytes);
        self.listing.sizes.add(bytes);
        let words = [position, bytes, object.stamp].map(u64::to_le_bytes).concat();
        let hash = xxhash_rust::xxh3::xxh3_128(&words);
        self.listing.fingerprint = self.listing.fingerprint.wrapping_add(hash);
        self.listing.parts.add(position, hash);
        self.sample.offer(StoredChunk { position, bytes });
        if object.locked {
            self.faults.add(ChunkFault::Locked, position, || "permission denied".to_owned());
        }
        if bytes == 0 && self.array.metadata.chunk_decoded_bytes() != Some(0) {
            self.empty.add(object.key);
            self.faults.add(ChunkFault::Empty, position, || "no bytes".to_owned());
        } else if let Some((fault, why)) =
            self.stored_bytes.and_then(|expected| wrong_length(bytes, expected))
        {
            self.faults.add(fault, position, || why);
        } else if let Some(index) = self.index_bytes.filter(|&index| bytes < index) {
            self.faults.add(ChunkFault::Truncated, position, || short_shard(bytes, index));
        }
    }

    /// Takes all chunks of the grid to be there, and to be like those of which it was `asked`.
    fn assume(&mut self, total: u64, asked: u64) {
        let listing = &mut self.listing;
        let bytes = u128::from(listing.bytes_stored) * u128::from(total) / u128::from(asked.max(1));
        listing.bytes_stored = u64::try_from(bytes).unwrap_or(u64::MAX);
        listing.largest_bytes = self.array.metadata.chunk_stored_bytes_most().unwrap_or(u64::MAX);
        listing.known = Some(std::mem::replace(&mut listing.stored, ChunkSet::first(total)));
    }

    pub(super) fn finish(mut self) -> Listed {
        self.listing.sample = self.sample.finish();
        let largest = self.listing.sizes.range().map_or(0, |(_, largest)| largest);
        self.listing.largest_bytes = self.listing.largest_bytes.max(largest);
        // beside chunks of its own, they are files like others
        if self.listing.stored.is_empty() && self.listing.misplaced.count == 0 {
            self.listing.misplaced_rank = self.other_rank.examples.first().and_then(|key| indices_of(key));
            self.listing.misplaced = self.other_rank;
        }
        let path = &self.array.path;
        let unreadable = [&self.dangling, &self.outside, &self.special].iter().any(|keys| keys.count > 0);
        let defects = [
            self.empty.defect(path, "zero-byte-chunk", "chunks of no bytes"),
            self.dangling.defect(path, "dangling-link", "chunks that are links to nothing"),
            self.outside.defect(
                path,
                "unreadable",
                "chunks that are links out of the store; pass --follow-links if you trust them",
            ),
            self.special.defect(path, "unreadable", "chunks that are no regular files"),
            self.listing.orphans.defect(
                path,
                "orphan-chunks",
                "chunks outside the grid, which no reader sees",
            ),
        ];
        Listed {
            listing: self.listing,
            defects: defects.into_iter().flatten().collect(),
            unreadable,
            faults: self.faults,
            unread_folders: self.unread_folders,
        }
    }
}

/// Returns how many indices a key has, if it looks like that of a chunk of some array.
fn indices_of(key: &str) -> Option<usize> {
    let rest = key.strip_prefix("c/").or_else(|| key.strip_prefix("c.")).unwrap_or(key);
    chunk_like(key).then(|| rest.split(['/', '.']).count())
}

/// Returns whether chunks may lie below a key: it is a directory between an array and its chunks.
fn may_hold_chunks(chunk_keys: &ChunkKeys, key: &str) -> bool {
    let numbers = |key: &str| {
        key.split('/').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match chunk_keys {
        ChunkKeys::Default('/') => key == "c" || key.strip_prefix("c/").is_some_and(numbers),
        ChunkKeys::V2('/') => numbers(key),
        ChunkKeys::Default(_) | ChunkKeys::V2(_) => false,
    }
}

/// Keeps the chunks whose positions hash lowest: a fair sample that no listing order changes, in bounded memory.
struct Sample {
    most: usize,
    kept: BTreeSet<(u64, StoredChunk)>,
}

impl Sample {
    fn offer(&mut self, chunk: StoredChunk) {
        let rank = scrambled(chunk.position);
        if self.kept.len() < self.most {
            self.kept.insert((rank, chunk));
        } else if self.kept.last().is_some_and(|(highest, _)| rank < *highest) {
            self.kept.pop_last();
            self.kept.insert((rank, chunk));
        }
    }

    fn finish(self) -> Vec<StoredChunk> {
        let mut chunks: Vec<StoredChunk> = self.kept.into_iter().map(|(_, chunk)| chunk).collect();
        chunks.sort_unstable();
        chunks
    }
}

/// Returns a number that looks random and is the same in every run. Source: SplitMix64 (Steele et al., 2014).
fn scrambled(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_between_powers_of_two() {
        let mut sizes = SizeTally::default();
        for bytes in [0, 5, 7, 8, u64::MAX] {
            sizes.add(bytes);
        }
        assert_eq!(sizes.range(), Some((0, u64::MAX)));
        let filled: Vec<_> = sizes.buckets().filter(|bucket| bucket.2 > 0).collect();
        assert_eq!(filled, [(0, 1, 1), (4, 8, 2), (8, 16, 1), (1 << 63, u64::MAX, 1)]);
        assert_eq!(SizeTally::default().range(), None);
        assert!(SizeTally::default().buckets().all(|bucket| bucket.2 == 0));
    }

    #[test]
    fn parts_of_a_grid_tell_where_something_changed() {
        let parts = |total: u64, chunks: &[(u64, u128)]| {
            let mut parts = GridParts::of(total);
            chunks.iter().for_each(|&(position, hash)| parts.add(position, hash));
            parts
        };
        let was = parts(120, &[(3, 1), (40, 2), (41, 3)]);
        assert_eq!(was.first_difference(&parts(120, &[(41, 3), (40, 2), (3, 1)])), None);
        assert_eq!(was.first_difference(&parts(120, &[(3, 1), (40, 9), (41, 7)])), Some((40, 40)));
        assert_eq!(
            was.first_difference(&parts(120, &[(3, 1), (40, 2), (41, 3), (119, 1)])),
            Some((119, 119))
        );
        assert_eq!(parts(10_000, &[(500, 1)]).first_difference(&parts(10_000, &[])), Some((480, 519)));
        assert!(parts(u64::MAX, &[(u64::MAX, 1)]).sums.len() <= 256);
    }

    #[test]
    fn a_sample_does_not_depend_on_the_order_of_the_listing() {
        let sample_of = |positions: &mut dyn Iterator<Item = u64>| {
            let mut sample = Sample { most: 16, kept: BTreeSet::new() };
            positions.for_each(|position| sample.offer(StoredChunk { position, bytes: 1 }));
            sample.finish()
        };
        let sample = sample_of(&mut (0..1_000));
        assert_eq!(sample.len(), 16);
        assert_eq!(sample, sample_of(&mut (0..1_000).rev()));
        assert!(sample[0].position < 300 && sample[15].position > 700, "spread over the grid: {sample:?}");
    }
}
