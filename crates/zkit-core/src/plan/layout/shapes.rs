//! Chunk and shard shapes that suit a way of reading: pure arithmetic.

use crate::grid::product;
use crate::plan::access::{Access, Dimensions};

/// Chunks smaller than this cost more to find than to decode.
const SMALLEST_GOOD_BYTES: u64 = 1 << 20;
/// Shards are no larger than this: all of one is in memory at once.
const SHARD_BYTES: u64 = 256 << 20;
/// Shards of fewer chunks save too few objects.
const LEAST_CHUNKS_OF_SHARD: u64 = 16;
/// Longer lengths are not searched for a divisor.
const DIVISORS_TRIED: u64 = 4096;

/// What is to be laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Space<'a> {
    pub(super) dimensions: Dimensions<'a>,
    /// Lengths that are given; the others are to be found.
    pub(super) given: &'a [Option<u64>],
    pub(super) item_bytes: u64,
    /// Decoded bytes of a chunk at most, as far as given lengths allow.
    pub(super) target_bytes: u64,
}

/// Returns a chunk shape for reads of one kind.
pub(super) fn chunk_shape(access: &Access, space: Space<'_>) -> Vec<u64> {
    let rank = space.dimensions.shape.len();
    let time = space.dimensions.time();
    let is_horizontal = |dimension: usize| space.dimensions.is_horizontal(dimension);
    let horizontal: Vec<usize> = (0..rank).filter(|&dimension| is_horizontal(dimension)).collect();
    let others: Vec<usize> = (0..rank).filter(|at| !horizontal.contains(at) && Some(*at) != time).collect();
    let mut draft = Draft::new(space);
    match (access, time) {
        // coordinates and the like: read whole, whatever the access
        _ if rank == 1 => draft.take_whole(&[0]),
        (Access::Batch(_), _) => {
            if let Some(wanted) = access.wanted(space.dimensions) {
                draft.take(&wanted);
            }
            draft.grow(&(0..rank).collect::<Vec<_>>(), SMALLEST_GOOD_BYTES);
        }
        (Access::Maps, _) if !horizontal.is_empty() => {
            draft.take_whole(&horizontal);
            // small maps: several of them
            draft.grow(&others, SMALLEST_GOOD_BYTES);
            draft.grow(time.as_slice(), SMALLEST_GOOD_BYTES);
        }
        (Access::TimeSeries, Some(time)) => {
            draft.take_whole(&[time]);
            draft.fill_evenly(if horizontal.is_empty() { &others } else { &horizontal });
            draft.grow(&others, SMALLEST_GOOD_BYTES);
        }
        (_, Some(time)) if !horizontal.is_empty() => {
            draft.balance(&[vec![time], horizontal]);
            draft.grow(&others, space.target_bytes);
        }
        _ => draft.balance(&(0..rank).map(|dimension| vec![dimension]).collect::<Vec<_>>()),
    }
    draft.evened()
}

/// A chunk shape in the making, never above the target.
struct Draft<'a> {
    space: Space<'a>,
    lengths: Vec<u64>,
}

impl<'a> Draft<'a> {
    fn new(space: Space<'a>) -> Self {
        let lengths = space.given.iter().map(|given| given.unwrap_or(1)).collect();
        Self { space, lengths }
    }

    /// Returns the length of a dimension, at least 1.
    fn whole(&self, dimension: usize) -> u64 {
        self.space.dimensions.shape[dimension].max(1)
    }

    fn bytes(&self) -> u64 {
        bytes_of(&self.lengths, self.space.item_bytes)
    }

    fn bytes_with(&self, dimension: usize, length: u64) -> u64 {
        let mut lengths = self.lengths.clone();
        lengths[dimension] = length;
        bytes_of(&lengths, self.space.item_bytes)
    }

    fn doubled(&self, dimension: usize) -> u64 {
        self.lengths[dimension].saturating_mul(2).min(self.whole(dimension))
    }

    fn is_free(&self, dimension: usize) -> bool {
        self.space.given[dimension].is_none()
    }

    fn chunks_along(&self, dimension: usize) -> u64 {
        self.whole(dimension).div_ceil(self.lengths[dimension].max(1))
    }

    /// Takes lengths as wanted, cut evenly where they are above the target.
    fn take(&mut self, wanted: &[u64]) {
        let free: Vec<usize> = (0..wanted.len()).filter(|&dimension| self.is_free(dimension)).collect();
        let mut cuts = vec![1u64; wanted.len()];
        for &dimension in &free {
            self.lengths[dimension] = wanted[dimension].max(1);
        }
        while self.bytes() > self.space.target_bytes {
            let longest = free.iter().copied().max_by_key(|&dimension| self.lengths[dimension]);
            let Some(longest) = longest.filter(|&dimension| self.lengths[dimension] > 1) else { break };
            let far = self.bytes() / 2 >= self.space.target_bytes;
            let more = if far { cuts[longest] } else { cuts[longest].div_ceil(8) };
            cuts[longest] = cuts[longest].saturating_add(more);
            self.lengths[longest] = wanted[longest].div_ceil(cuts[longest]).max(1);
        }
    }

    /// Takes all of some dimensions and one element of the others.
    fn take_whole(&mut self, dimensions: &[usize]) {
        let rank = self.lengths.len();
        let length = |dimension| if dimensions.contains(&dimension) { self.whole(dimension) } else { 1 };
        let wanted: Vec<u64> = (0..rank).map(length).collect();
        self.take(&wanted);
    }

    /// Makes dimensions about equally long, as long as the target allows.
    fn fill_evenly(&mut self, dimensions: &[usize]) {
        let mut free: Vec<usize> = dimensions.iter().copied().filter(|&at| self.is_free(at)).collect();
        free.sort_by_key(|&dimension| self.whole(dimension));
        for (done, &dimension) in free.iter().enumerate() {
            let room = self.space.target_bytes / self.bytes().max(1);
            self.lengths[dimension] = root(room, free.len() - done).clamp(1, self.whole(dimension));
        }
    }

    /// Doubles dimensions, those of the group that is cut most often first, as long as the target allows: reads
    /// along one group then touch about as many chunks as reads along the other.
    fn balance(&mut self, groups: &[Vec<usize>]) {
        loop {
            let fits = |draft: &Self, dimension: usize| {
                draft.is_free(dimension)
                    && draft.chunks_along(dimension) > 1
                    && draft.bytes_with(dimension, draft.doubled(dimension)) <= draft.space.target_bytes
            };
            let cut_most = |group: &&Vec<usize>| {
                group.iter().map(|&dimension| self.chunks_along(dimension)).fold(1, u64::saturating_mul)
            };
            let growing = groups.iter().filter(|group| group.iter().any(|&dimension| fits(self, dimension)));
            let Some(group) = growing.max_by_key(cut_most) else { return };
            let dimensions = group.iter().copied().filter(|&dimension| fits(self, dimension));
            let Some(dimension) = dimensions.max_by_key(|&dimension| self.chunks_along(dimension)) else {
                return;
            };
            self.lengths[dimension] = self.doubled(dimension);
        }
    }

    /// Doubles dimensions, the last first, until a chunk has `least` bytes or the next one would be too large.
    fn grow(&mut self, dimensions: &[usize], least: u64) {
        for &dimension in dimensions.iter().rev().filter(|&&at| self.space.given[at].is_none()) {
            while self.bytes() < least.min(self.space.target_bytes / 2 + 1)
                && self.chunks_along(dimension) > 1
            {
                self.lengths[dimension] = self.doubled(dimension);
            }
        }
    }

    /// Returns the shape with lengths that waste little at the edges.
    fn evened(self) -> Vec<u64> {
        let lengths = self.lengths.iter().enumerate();
        lengths
            .map(|(dimension, &length)| match self.is_free(dimension) {
                true => evened(self.whole(dimension), length),
                false => length,
            })
            .collect()
    }
}

fn bytes_of(lengths: &[u64], item_bytes: u64) -> u64 {
    product(lengths).unwrap_or(u64::MAX).saturating_mul(item_bytes.max(1))
}

/// Returns a length not above `chunk` that divides `whole`, if there is one a little below; else one that cuts it into
/// as many chunks as `chunk` does, as equal as can be.
fn evened(whole: u64, chunk: u64) -> u64 {
    if chunk >= whole {
        return whole;
    }
    let lowest = (chunk - chunk / 8).max(chunk.saturating_sub(DIVISORS_TRIED));
    let divisor = (lowest..=chunk).rev().find(|&length| whole.is_multiple_of(length));
    divisor.unwrap_or_else(|| whole.div_ceil(whole.div_ceil(chunk)))
}

/// Returns the largest number whose power `degree` is at most `value`.
fn root(value: u64, degree: usize) -> u64 {
    let fits = |root: u64| {
        (0..degree).try_fold(1u64, |power, _| power.checked_mul(root)).is_some_and(|power| power <= value)
    };
    let (mut low, mut high) = (1u64, value.max(1));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// Returns a shard shape of up to 256 MiB, or `None` where fewer than 16 chunks would share an object.
pub(super) fn shard_shape(shape: &[u64], chunk_shape: &[u64], item_bytes: u64) -> Option<Vec<u64>> {
    let counts: Vec<u64> =
        shape.iter().zip(chunk_shape).map(|(&length, &chunk)| length.div_ceil(chunk).max(1)).collect();
    let chunk_bytes = bytes_of(chunk_shape, item_bytes);
    let mut chunks = vec![1u64; counts.len()];
    let shards_along = |chunks: &[u64], dimension: usize| counts[dimension].div_ceil(chunks[dimension]);
    let bytes = |chunks: &[u64]| bytes_of(chunks, chunk_bytes);
    loop {
        let grown = |dimension: usize| {
            let mut grown = chunks.clone();
            grown[dimension] = (grown[dimension] * 2).min(counts[dimension]);
            grown
        };
        let growing = (0..counts.len()).filter(|&dimension| {
            shards_along(&chunks, dimension) > 1 && bytes(&grown(dimension)) <= SHARD_BYTES
        });
        let Some(dimension) = growing.max_by_key(|&dimension| shards_along(&chunks, dimension)) else {
            break;
        };
        chunks = grown(dimension);
    }
    for (chunks, &count) in chunks.iter_mut().zip(&counts) {
        *chunks = evened(count, *chunks);
    }
    if product(&chunks)? < LEAST_CHUNKS_OF_SHARD {
        return None;
    }
    chunks.iter().zip(chunk_shape).map(|(chunks, chunk)| chunks.checked_mul(*chunk)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape_for(access: &str, shape: &[u64], names: &[&str]) -> Vec<u64> {
        let names: Vec<Option<String>> = names.iter().map(|name| Some((*name).to_owned())).collect();
        let space = Space {
            dimensions: Dimensions { shape, names: Some(&names) },
            given: &vec![None; shape.len()],
            item_bytes: 4,
            target_bytes: 4 << 20,
        };
        chunk_shape(&access.parse().unwrap(), space)
    }

    const WEATHER: [&str; 3] = ["time", "latitude", "longitude"];
    const YEAR: [u64; 3] = [8760, 721, 1440];

    #[test]
    fn maps_are_whole_and_one_a_chunk() {
        assert_eq!(shape_for("maps", &YEAR, &WEATHER), [1, 721, 1440]);
        assert_eq!(shape_for("maps", &[37, 721, 1440], &["level", "latitude", "longitude"]), [1, 721, 1440]);
        // above the target: cut evenly
        assert_eq!(shape_for("maps", &[10, 1801, 3600], &WEATHER), [1, 901, 900]);
        // far below a good size: several
        assert_eq!(shape_for("maps", &[1000, 64, 128], &WEATHER)[1..], [64, 128]);
        assert!(shape_for("maps", &[1000, 64, 128], &WEATHER)[0] > 16);
    }

    #[test]
    fn time_series_are_whole_over_a_small_square() {
        assert_eq!(shape_for("time-series", &YEAR, &WEATHER), [8760, 10, 10]);
        assert_eq!(shape_for("time-series", &[160, 721, 1440], &WEATHER), [160, 73, 80]);
        let levels = ["time", "level", "latitude", "longitude"];
        assert_eq!(shape_for("time-series", &[8760, 37, 721, 1440], &levels), [8760, 1, 10, 10]);
        // a series alone is above the target
        assert_eq!(shape_for("time-series", &[4 << 20, 8, 8], &WEATHER), [1 << 20, 1, 1]);
    }

    #[test]
    fn points_cut_maps_and_series_into_about_as_many_chunks() {
        for shape in [YEAR, [160, 721, 1440], [1_000_000, 721, 1440]] {
            let chunks = shape_for("points", &shape, &WEATHER);
            let series = shape[0].div_ceil(chunks[0]);
            let map = shape[1].div_ceil(chunks[1]) * shape[2].div_ceil(chunks[2]);
            assert!(series <= 3 * map && map <= 3 * series, "{shape:?} in {chunks:?}: {series}, {map}");
            let bytes = 4 * product(&chunks).unwrap();
            assert!((1 << 20..=4 << 20).contains(&bytes), "{chunks:?}: {bytes}");
        }
    }

    #[test]
    fn few_elements_are_one_chunk() {
        for access in ["maps", "time-series", "points", "batch:time=4"] {
            assert_eq!(shape_for(access, &[10], &["time"]), [10]);
            assert_eq!(shape_for(access, &[], &[]), [0; 0]);
            assert_eq!(shape_for(access, &[0], &["time"]), [1]);
        }
        assert_eq!(shape_for("points", &[5, 5], &["a", "b"]), [5, 5]);
        assert_eq!(shape_for("maps", &[5, 5], &["a", "b"]), [5, 5]);
        assert_eq!(shape_for("time-series", &[721, 1440], &["lat", "lon"]), [721, 1440]);
    }

    #[test]
    fn given_lengths_stay() {
        let names: Vec<_> = WEATHER.iter().map(|name| Some((*name).to_owned())).collect();
        let space = Space {
            dimensions: Dimensions { shape: &YEAR, names: Some(&names) },
            given: &[None, Some(64), Some(7)],
            item_bytes: 4,
            target_bytes: 4 << 20,
        };
        assert_eq!(chunk_shape(&Access::TimeSeries, space), [2190, 64, 7]);
        assert_eq!(chunk_shape(&Access::Maps, space)[1..], [64, 7]);
    }

    #[test]
    fn lengths_divide_the_dimension_or_waste_little() {
        assert_eq!(evened(1440, 64), 60);
        assert_eq!(evened(721, 32), 32);
        assert_eq!(evened(8760, 1024), 974);
        assert_eq!(evened(5, 9), 5);
        assert_eq!((root(119, 2), root(8, 3), root(0, 2)), (10, 2, 1));
    }

    #[test]
    fn shards_hold_many_chunks_and_stay_below_their_size() {
        assert_eq!(shard_shape(&YEAR, &[1, 721, 1440], 4), Some(vec![60, 721, 1440]));
        let shard = shard_shape(&YEAR, &[8760, 10, 10], 4).unwrap();
        assert!(shard[1].is_multiple_of(10) && shard[2].is_multiple_of(10), "{shard:?}");
        // too few chunks, too large chunks, nothing at all
        assert_eq!(shard_shape(&[10, 721, 1440], &[1, 721, 1440], 4), None);
        assert_eq!(shard_shape(&YEAR, &[100, 721, 1440], 4), None);
        assert_eq!(shard_shape(&[0, 5], &[1, 5], 4), None);
        assert_eq!(shard_shape(&[], &[], 4), None);
    }

    proptest! {
        #[test]
        fn shapes_fit_any_array(
            lengths in proptest::collection::vec(any::<u64>(), 0..5),
            small in proptest::collection::vec(0u64..3000, 0..5),
            access in prop_oneof![Just("maps"), Just("time-series"), Just("points"), Just("batch:time=7")],
            target in 1u64..1 << 30,
        ) {
            for shape in [&lengths, &small] {
                let names: Vec<_> = ["time", "level", "lat", "lon"].into_iter().cycle().take(shape.len())
                    .map(|name| Some(name.to_owned())).collect();
                for names in [Some(&names[..]), None] {
                    let space = Space { dimensions: Dimensions { shape, names }, given: &vec![None; shape.len()],
                        item_bytes: 4, target_bytes: target.max(4) };
                    let chunks = chunk_shape(&access.parse().unwrap(), space);
                    prop_assert!(chunks.iter().zip(shape).all(|(&chunk, &length)| chunk >= 1 && chunk <= length.max(1)));
                    prop_assert!(4 * product(&chunks).unwrap() <= target.max(4), "{:?}", chunks);
                    if let Some(shard) = shard_shape(shape, &chunks, 4) {
                        prop_assert!(shard.iter().zip(&chunks).all(|(shard, chunk)| shard.is_multiple_of(*chunk)));
                        prop_assert!(4 * product(&shard).unwrap() <= SHARD_BYTES);
                    }
                }
            }
        }
    }
}
