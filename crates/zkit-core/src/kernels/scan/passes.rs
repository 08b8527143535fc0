//! The passes over a block of numbers, as every CPU runs them: the scalar twins.
//!
//! A fast pass knows order and sum alone; a careful one also counts. Sums are added lane by lane, as vector instructions
//! add them, so that the twins agree to the last bit.

use super::number::Number;

/// Missing values that are looked for.
pub(super) const MISSING_MOST: usize = 4;
/// Bytes of the numbers of one round, of two registers.
pub(super) const ROUND_BYTES: usize = 64;
/// Lanes at most: numbers of 4 bytes in a round.
const LANES_MOST: usize = 16;

/// What is looked for in numbers of one type.
pub(super) struct Wanted<N: Number> {
    /// The bits of the fill value.
    pub(super) fill: Option<N::Bytes>,
    /// The bits of missing values; behind `count` the last one is repeated.
    pub(super) missing: [N::Bytes; MISSING_MOST],
    pub(super) count: usize,
}

/// The extremes and the sum of some numbers.
#[derive(Clone, Copy)]
pub(super) struct Moments<N: Number> {
    pub(super) min: N::Value,
    pub(super) max: N::Value,
    pub(super) sum: N::Sum,
}

/// What a careful pass counts; moments are those of valid numbers.
pub(super) struct Counts<N: Number> {
    pub(super) valid: u64,
    pub(super) nan: u64,
    pub(super) fill: u64,
    pub(super) missing: u64,
    pub(super) moments: Moments<N>,
}

/// Lanes of a pass: where the sum of each is added up.
pub(super) struct Lanes<N: Number> {
    pub(super) min: [N::Value; LANES_MOST],
    pub(super) max: [N::Value; LANES_MOST],
    pub(super) sum: [N::Sum; LANES_MOST],
}

impl<N: Number> Lanes<N> {
    pub(super) fn new() -> Self {
        Self { min: [N::HIGHEST; LANES_MOST], max: [N::LOWEST; LANES_MOST], sum: [N::ZERO; LANES_MOST] }
    }

    /// Takes in the number at `position` of a block.
    pub(super) fn see(&mut self, position: usize, value: N::Value) {
        let lane = position % (ROUND_BYTES / size_of::<N::Bytes>());
        // in this order, a NaN leaves the extremes as they are
        self.min[lane] = if value < self.min[lane] { value } else { self.min[lane] };
        self.max[lane] = if value > self.max[lane] { value } else { self.max[lane] };
        self.sum[lane] += N::term(value);
    }

    pub(super) fn join(&self) -> Moments<N> {
        let mut moments = Moments { min: self.min[0], max: self.max[0], sum: N::ZERO };
        for lane in 0..LANES_MOST {
            moments.min = if self.min[lane] < moments.min { self.min[lane] } else { moments.min };
            moments.max = if self.max[lane] > moments.max { self.max[lane] } else { moments.max };
            moments.sum += self.sum[lane];
        }
        moments
    }
}

impl<N: Number> Counts<N> {
    pub(super) fn new() -> Self {
        Self { valid: 0, nan: 0, fill: 0, missing: 0, moments: Lanes::<N>::new().join() }
    }

    /// Takes in the number at `position` of a block, but for its moments if it is valid.
    pub(super) fn see(&mut self, position: usize, item: N::Bytes, wanted: &Wanted<N>, lanes: &mut Lanes<N>) {
        let value = N::load(item);
        let is_nan = N::is_nan(value);
        let is_missing = wanted.missing[..wanted.count].contains(&item);
        self.nan += u64::from(is_nan);
        self.fill += u64::from(wanted.fill == Some(item));
        self.missing += u64::from(is_missing);
        if !(is_nan || is_missing || N::is_infinite(value, true) || N::is_infinite(value, false)) {
            self.valid += 1;
            lanes.see(position, value);
        }
    }
}

/// Returns the moments of a block, all of whose numbers are taken for valid.
pub(super) fn fast<N: Number>(block: &[N::Bytes]) -> Moments<N> {
    let mut lanes = Lanes::<N>::new();
    for (position, item) in block.iter().enumerate() {
        lanes.see(position, N::load(*item));
    }
    lanes.join()
}

/// Counts the numbers of a block.
pub(super) fn careful<N: Number>(block: &[N::Bytes], wanted: &Wanted<N>) -> Counts<N> {
    let (mut lanes, mut counts) = (Lanes::<N>::new(), Counts::<N>::new());
    for (position, item) in block.iter().enumerate() {
        counts.see(position, *item, wanted, &mut lanes);
    }
    counts.moments = lanes.join();
    counts
}

/// Counts the infinities of a block, to the positive and to the negative side.
pub(super) fn infinities<N: Number>(block: &[N::Bytes]) -> (u64, u64) {
    let count =
        |positive| block.iter().filter(|item| N::is_infinite(N::load(**item), positive)).count() as u64;
    (count(true), count(false))
}
