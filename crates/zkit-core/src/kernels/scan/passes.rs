//! The two passes over a block of numbers: a fast one that knows only order and sum, and a careful one that counts.
//!
//! Most blocks hold numbers alone. Their sum is finite, so there is neither NaN nor infinity among them; and a value
//! that lies outside of their extremes does not occur. So the fast pass alone mostly answers everything, and only a
//! block of which it cannot is gone through again, while it lies in the first-level cache.

use super::number::Number;
use super::statistics::{Constancy, Statistics};

/// Elements that are worked on side by side.
const LANES: usize = 16;
/// Rounds of a block: a count of one lane fits a byte.
const ROUNDS: usize = 128;
/// Elements of a block.
pub(super) const BLOCK: usize = LANES * ROUNDS;
/// Missing values that are looked for.
pub(super) const MISSING_MOST: usize = 4;

/// What is looked for in numbers of one type.
pub(super) struct Wanted<N: Number> {
    /// Whether `fill_item` is looked for.
    pub(super) fill: bool,
    /// The bits of the fill value.
    pub(super) fill_item: N::Bytes,
    /// The bits of missing values, the last one repeated; `count` says how many there are.
    pub(super) missing: [N::Bytes; MISSING_MOST],
    pub(super) count: usize,
}

/// What the fast pass knows of a block.
pub(super) struct Fast<N: Number> {
    min: N::Value,
    max: N::Value,
    sum: N::Sum,
}

/// What the careful pass knows of a block.
pub(super) struct Careful<N: Number> {
    fast: Fast<N>,
    nan: u64,
    positive: u64,
    negative: u64,
    fill: u64,
    missing: u64,
    valid: u64,
}

/// The two passes, compiled for what the CPU has.
pub(super) trait Passes {
    fn fast<N: Number>(&self, items: &[N::Bytes]) -> Fast<N>;
    fn careful<N: Number>(&self, items: &[N::Bytes], wanted: &Wanted<N>) -> Careful<N>;
    /// Counts the elements that are no number.
    fn nan<N: Number>(&self, items: &[N::Bytes]) -> u64;
    /// Adds one to the counts of the elements that are no number.
    fn columns<N: Number>(&self, items: &[N::Bytes], counts: &mut [u32]);
}

/// Adds the elements of `bytes` to `statistics`; bytes after the last whole element are not looked at.
pub(super) fn scan<N: Number>(
    passes: &impl Passes,
    bytes: &[u8],
    wanted: &Wanted<N>,
    statistics: &mut Statistics,
) {
    let items = N::items(bytes);
    statistics.elements += items.len() as u64;
    see_constancy::<N>(items, statistics);
    for block in items.chunks(BLOCK) {
        let fast = passes.fast::<N>(block);
        let may_hold = |item: N::Bytes| {
            let value = N::load(item);
            fast.min <= value && value <= fast.max
        };
        let may_be_wanted = (wanted.fill && may_hold(wanted.fill_item))
            || wanted.missing[..wanted.count].iter().any(|item| may_hold(*item));
        if N::is_finite_sum(fast.sum) && !may_be_wanted && !may_hold_nat::<N>(&fast) {
            statistics.valid += block.len() as u64;
            statistics.see_extremes(Some(N::scalar(fast.min)), Some(N::scalar(fast.max)));
            statistics.add_to_sum(N::sum_to_f64(fast.sum));
            continue;
        }
        let careful = passes.careful::<N>(block, wanted);
        statistics.nan += careful.nan;
        statistics.positive_infinity += careful.positive;
        statistics.negative_infinity += careful.negative;
        statistics.fill += careful.fill;
        statistics.missing += careful.missing;
        statistics.valid += careful.valid;
        if careful.valid > 0 {
            let (min, max) = (N::scalar(careful.fast.min), N::scalar(careful.fast.max));
            statistics.see_extremes(Some(min), Some(max));
            statistics.add_to_sum(N::sum_to_f64(careful.fast.sum));
        }
    }
}

/// Returns whether the least value of a block is no number: NaT is the least count.
fn may_hold_nat<N: Number>(fast: &Fast<N>) -> bool {
    N::is_nan(fast.min)
}

/// Looks whether all elements are the same, as long as they were so far.
fn see_constancy<N: Number>(items: &[N::Bytes], statistics: &mut Statistics) {
    let Some(&first) = items.first() else { return };
    if statistics.constancy == Constancy::Varied {
        return;
    }
    // the first difference mostly comes soon
    let constant = items.chunks(BLOCK).all(|block| block.iter().all(|item| *item == first));
    let seen = if constant { Constancy::Constant(N::bits(first)) } else { Constancy::Varied };
    statistics.constancy = statistics.constancy.join(seen);
}

#[inline(always)]
fn fast_pass<N: Number>(items: &[N::Bytes]) -> Fast<N> {
    let (mut min, mut max, mut sum) = ([N::HIGHEST; LANES], [N::LOWEST; LANES], [N::ZERO; LANES]);
    let (rounds, rest) = items.as_chunks::<LANES>();
    for round in rounds {
        for lane in 0..LANES {
            let value = N::load(round[lane]);
            // in this order, a NaN leaves the extremes as they are
            min[lane] = if value < min[lane] { value } else { min[lane] };
            max[lane] = if value > max[lane] { value } else { max[lane] };
            sum[lane] += N::term(value);
        }
    }
    for (lane, item) in rest.iter().enumerate() {
        let value = N::load(*item);
        min[lane] = if value < min[lane] { value } else { min[lane] };
        max[lane] = if value > max[lane] { value } else { max[lane] };
        sum[lane] += N::term(value);
    }
    joined(min, max, sum)
}

#[inline(always)]
fn joined<N: Number>(min: [N::Value; LANES], max: [N::Value; LANES], sum: [N::Sum; LANES]) -> Fast<N> {
    let mut fast = Fast { min: min[0], max: max[0], sum: N::ZERO };
    for lane in 0..LANES {
        fast.min = if min[lane] < fast.min { min[lane] } else { fast.min };
        fast.max = if max[lane] > fast.max { max[lane] } else { fast.max };
        fast.sum += sum[lane];
    }
    fast
}

#[inline(always)]
fn careful_pass<N: Number>(items: &[N::Bytes], wanted: &Wanted<N>) -> Careful<N> {
    match (wanted.fill, wanted.count) {
        (false, 0) => careful_for::<N, false, 0>(items, wanted),
        (false, 1) => careful_for::<N, false, 1>(items, wanted),
        (false, _) => careful_for::<N, false, MISSING_MOST>(items, wanted),
        (true, 0) => careful_for::<N, true, 0>(items, wanted),
        (true, 1) => careful_for::<N, true, 1>(items, wanted),
        (true, _) => careful_for::<N, true, MISSING_MOST>(items, wanted),
    }
}

#[inline(always)]
fn careful_for<N: Number, const FILL: bool, const M: usize>(
    items: &[N::Bytes],
    wanted: &Wanted<N>,
) -> Careful<N> {
    let mut lanes = Lanes::<N>::new();
    let (rounds, rest) = items.as_chunks::<LANES>();
    for round in rounds {
        for lane in 0..LANES {
            lanes.see::<FILL, M>(lane, round[lane], wanted);
        }
    }
    for (lane, item) in rest.iter().enumerate() {
        lanes.see::<FILL, M>(lane, *item, wanted);
    }
    let total = |counts: [N::Count; LANES]| counts.into_iter().map(Into::<u64>::into).sum();
    Careful {
        fast: joined(lanes.min, lanes.max, lanes.sum),
        nan: total(lanes.nan),
        positive: total(lanes.positive),
        negative: total(lanes.negative),
        fill: total(lanes.fill),
        missing: total(lanes.missing),
        valid: total(lanes.valid),
    }
}

/// What the careful pass adds up, lane by lane.
struct Lanes<N: Number> {
    min: [N::Value; LANES],
    max: [N::Value; LANES],
    sum: [N::Sum; LANES],
    nan: [N::Count; LANES],
    positive: [N::Count; LANES],
    negative: [N::Count; LANES],
    fill: [N::Count; LANES],
    missing: [N::Count; LANES],
    valid: [N::Count; LANES],
}

impl<N: Number> Lanes<N> {
    #[inline(always)]
    fn new() -> Self {
        let zero = [N::Count::default(); LANES];
        Self {
            min: [N::HIGHEST; LANES],
            max: [N::LOWEST; LANES],
            sum: [N::ZERO; LANES],
            nan: zero,
            positive: zero,
            negative: zero,
            fill: zero,
            missing: zero,
            valid: zero,
        }
    }

    #[inline(always)]
    fn see<const FILL: bool, const M: usize>(&mut self, lane: usize, item: N::Bytes, wanted: &Wanted<N>) {
        let value = N::load(item);
        let (is_nan, (is_positive, is_negative)) = (N::is_nan(value), N::infinite(value));
        let mut is_missing = false;
        for at in 0..M {
            is_missing |= item == wanted.missing[at];
        }
        let is_valid = !(is_nan | is_positive | is_negative | is_missing);
        self.min[lane] = if is_valid & (value < self.min[lane]) { value } else { self.min[lane] };
        self.max[lane] = if is_valid & (value > self.max[lane]) { value } else { self.max[lane] };
        self.sum[lane] += if is_valid { N::term(value) } else { N::ZERO };
        self.nan[lane] += is_nan.into();
        self.positive[lane] += is_positive.into();
        self.negative[lane] += is_negative.into();
        if FILL {
            self.fill[lane] += (item == wanted.fill_item).into();
        }
        self.missing[lane] += is_missing.into();
        self.valid[lane] += is_valid.into();
    }
}

/// Counts the elements that are no number.
#[inline(always)]
fn nan_pass<N: Number>(items: &[N::Bytes]) -> u64 {
    let mut total = 0;
    for block in items.chunks(BLOCK) {
        let mut counts = [N::Count::default(); LANES];
        let (rounds, rest) = block.as_chunks::<LANES>();
        for round in rounds {
            for lane in 0..LANES {
                counts[lane] += N::is_nan(N::load(round[lane])).into();
            }
        }
        for (lane, item) in rest.iter().enumerate() {
            counts[lane] += N::is_nan(N::load(*item)).into();
        }
        total += counts.into_iter().map(Into::<u64>::into).sum::<u64>();
    }
    total
}

/// Adds one to the counts of the elements that are no number.
#[inline(always)]
fn column_pass<N: Number>(items: &[N::Bytes], counts: &mut [u32]) {
    for (count, item) in counts.iter_mut().zip(items) {
        *count += u32::from(N::is_nan(N::load(*item)));
    }
}

/// The passes as every CPU runs them: the scalar twins.
pub(super) struct Plain;

impl Passes for Plain {
    fn fast<N: Number>(&self, items: &[N::Bytes]) -> Fast<N> {
        fast_pass::<N>(items)
    }
    fn careful<N: Number>(&self, items: &[N::Bytes], wanted: &Wanted<N>) -> Careful<N> {
        careful_pass(items, wanted)
    }
    fn nan<N: Number>(&self, items: &[N::Bytes]) -> u64 {
        nan_pass::<N>(items)
    }
    fn columns<N: Number>(&self, items: &[N::Bytes], counts: &mut [u32]) {
        column_pass::<N>(items, counts);
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;

#[cfg(target_arch = "x86_64")]
mod avx2 {
    #![expect(unsafe_code, reason = "functions compiled for AVX2 may run on CPUs that have it only")]

    use super::{Careful, Fast, Number, Passes, Wanted, careful_pass, column_pass, fast_pass, nan_pass};

    /// The same passes, compiled for AVX2. There is one only where the CPU has it.
    pub(in super::super) struct Avx2(());

    impl Avx2 {
        /// Returns the passes if this CPU can run them.
        pub(in super::super) fn detect() -> Option<Self> {
            is_x86_feature_detected!("avx2").then_some(Self(()))
        }
    }

    impl Passes for Avx2 {
        fn fast<N: Number>(&self, items: &[N::Bytes]) -> Fast<N> {
            // SAFETY: `detect` made `self`, so the CPU has AVX2.
            unsafe { fast::<N>(items) }
        }
        fn careful<N: Number>(&self, items: &[N::Bytes], wanted: &Wanted<N>) -> Careful<N> {
            // SAFETY: as above.
            unsafe { careful(items, wanted) }
        }
        fn nan<N: Number>(&self, items: &[N::Bytes]) -> u64 {
            // SAFETY: as above.
            unsafe { nan::<N>(items) }
        }
        fn columns<N: Number>(&self, items: &[N::Bytes], counts: &mut [u32]) {
            // SAFETY: as above.
            unsafe { columns::<N>(items, counts) }
        }
    }

    #[target_feature(enable = "avx2")]
    fn fast<N: Number>(items: &[N::Bytes]) -> Fast<N> {
        fast_pass::<N>(items)
    }

    #[target_feature(enable = "avx2")]
    fn careful<N: Number>(items: &[N::Bytes], wanted: &Wanted<N>) -> Careful<N> {
        careful_pass(items, wanted)
    }

    #[target_feature(enable = "avx2")]
    fn nan<N: Number>(items: &[N::Bytes]) -> u64 {
        nan_pass::<N>(items)
    }

    #[target_feature(enable = "avx2")]
    fn columns<N: Number>(items: &[N::Bytes], counts: &mut [u32]) {
        column_pass::<N>(items, counts);
    }
}
