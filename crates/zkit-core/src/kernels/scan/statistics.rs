//! What a scan adds up, and how parts of it join.

use super::number::Scalar;

/// Counts, extremes and the sum of some elements.
///
/// *Valid* elements are those that are neither NaN (or NaT), nor infinite, nor one of the missing values; `min`, `max`
/// and the mean are theirs. Joining is associative and commutative but for the last bits of the sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistics {
    /// All elements.
    pub elements: u64,
    /// NaN, or NaT of times; complex numbers with a NaN in either part.
    pub nan: u64,
    /// Positive infinity; complex numbers with an infinite part, of either sign.
    pub positive_infinity: u64,
    /// Negative infinity.
    pub negative_infinity: u64,
    /// Elements with the bits of the fill value.
    pub fill: u64,
    /// Elements with the bits of one of the missing values.
    pub missing: u64,
    /// Valid elements, of types that have an order.
    pub valid: u64,
    /// The least valid element.
    pub min: Option<Scalar>,
    /// The largest valid element.
    pub max: Option<Scalar>,
    /// What all elements so far are, bit by bit.
    pub constancy: Constancy,
    sum: Sum,
}

/// Whether all elements have the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constancy {
    /// There is no element.
    Empty,
    /// All have these bits: little-endian, or a hash where an element has more than 16 bytes.
    Constant(u128),
    /// They differ.
    Varied,
}

impl Constancy {
    /// Returns what holds of both.
    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Empty, one) | (one, Self::Empty) => one,
            (Self::Constant(a), Self::Constant(b)) if a == b => self,
            _ => Self::Varied,
        }
    }
}

/// A sum that keeps what rounding drops. Source: Neumaier, ZAMM 54 (1974).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        let high = self.high + term;
        self.low +=
            if self.high.abs() >= term.abs() { (self.high - high) + term } else { (term - high) + self.high };
        self.high = high;
    }

    fn total(self) -> f64 {
        // an infinite term leaves NaN in the low part
        if self.high.is_finite() { self.high + self.low } else { self.high }
    }
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            elements: 0,
            nan: 0,
            positive_infinity: 0,
            negative_infinity: 0,
            fill: 0,
            missing: 0,
            valid: 0,
            min: None,
            max: None,
            constancy: Constancy::Empty,
            sum: Sum::default(),
        }
    }
}

impl Statistics {
    /// Adds the statistics of other elements.
    pub fn join(&mut self, other: &Self) {
        self.elements = self.elements.saturating_add(other.elements);
        self.nan = self.nan.saturating_add(other.nan);
        self.positive_infinity = self.positive_infinity.saturating_add(other.positive_infinity);
        self.negative_infinity = self.negative_infinity.saturating_add(other.negative_infinity);
        self.fill = self.fill.saturating_add(other.fill);
        self.missing = self.missing.saturating_add(other.missing);
        self.valid = self.valid.saturating_add(other.valid);
        self.see_extremes(other.min, other.max);
        self.constancy = self.constancy.join(other.constancy);
        self.sum.add(other.sum.high);
        self.sum.add(other.sum.low);
    }

    /// Returns the statistics of this many elements like the ones that these are of, which are all the same.
    pub fn repeated(&self, elements: u64) -> Self {
        let times = |count: u64| if count > 0 { elements } else { 0 };
        #[expect(clippy::cast_precision_loss, reason = "a mean is a float64")]
        let factor = elements as f64 / (self.elements.max(1)) as f64;
        Self {
            elements,
            nan: times(self.nan),
            positive_infinity: times(self.positive_infinity),
            negative_infinity: times(self.negative_infinity),
            fill: times(self.fill),
            missing: times(self.missing),
            valid: times(self.valid),
            min: self.min.filter(|_| elements > 0),
            max: self.max.filter(|_| elements > 0),
            constancy: if elements == 0 { Constancy::Empty } else { self.constancy },
            sum: Sum { high: self.sum.total() * factor, low: 0.0 },
        }
    }

    /// Returns the mean of the valid elements, if there is one.
    pub fn mean(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a mean is a float64")]
        (self.valid > 0).then(|| self.sum.total() / self.valid as f64)
    }

    /// Returns whether there are elements and all of them have the same bits.
    pub fn is_constant(&self) -> bool {
        matches!(self.constancy, Constancy::Constant(_))
    }

    /// Returns whether there are elements and all of them are NaN.
    pub fn is_all_nan(&self) -> bool {
        self.elements > 0 && self.nan == self.elements
    }

    /// Returns the elements that readers see as NaN: those that are, and those that stand for missing ones.
    pub fn void(&self) -> u64 {
        self.nan.saturating_add(self.missing).min(self.elements)
    }

    /// Returns whether there are elements and readers see all of them as NaN.
    pub fn is_all_void(&self) -> bool {
        self.elements > 0 && self.void() == self.elements
    }

    /// Returns whether there are elements and all of them are the fill value.
    pub fn is_all_fill(&self) -> bool {
        self.elements > 0 && self.fill == self.elements
    }

    /// Returns a hash of the statistics and of `seed`: elements that are the same, in the same order, have the same.
    pub fn fingerprint(&self, seed: u64) -> u64 {
        let bits = |value: Option<Scalar>| value.map_or(u64::MAX, |value| value.to_f64().to_bits());
        let words = [
            self.elements,
            self.nan,
            self.positive_infinity,
            self.negative_infinity,
            self.fill,
            self.missing,
            self.valid,
            bits(self.min),
            bits(self.max),
            self.sum.high.to_bits(),
            self.sum.low.to_bits(),
        ];
        xxhash_rust::xxh3::xxh3_64_with_seed(words.map(u64::to_le_bytes).as_flattened(), seed)
    }

    /// Returns the infinite elements.
    pub fn infinite(&self) -> u64 {
        self.positive_infinity.saturating_add(self.negative_infinity)
    }

    pub(super) fn see_extremes(&mut self, min: Option<Scalar>, max: Option<Scalar>) {
        self.min = match (self.min, min) {
            (Some(a), Some(b)) => Some(a.least(b)),
            (a, b) => a.or(b),
        };
        self.max = match (self.max, max) {
            (Some(a), Some(b)) => Some(a.greatest(b)),
            (a, b) => a.or(b),
        };
    }

    pub(super) fn add_to_sum(&mut self, term: f64) {
        self.sum.add(term);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_keeps_what_rounding_drops() {
        let mut sum = Sum::default();
        for term in [1.0, 1e100, 1.0, -1e100] {
            sum.add(term);
        }
        assert_eq!(sum.total().to_bits(), 2.0f64.to_bits());
        sum.add(f64::INFINITY);
        assert_eq!(sum.total().to_bits(), f64::INFINITY.to_bits());
    }

    #[test]
    fn repeating_one_element_is_joining_it() {
        let one = Statistics {
            elements: 1,
            fill: 1,
            valid: 1,
            min: Some(Scalar::Int(-3)),
            max: Some(Scalar::Int(-3)),
            constancy: Constancy::Constant(0xfd),
            sum: Sum { high: -3.0, low: 0.0 },
            ..Statistics::default()
        };
        let mut joined = Statistics::default();
        (0..7).for_each(|_| joined.join(&one));
        assert_eq!(joined, one.repeated(7));
        assert_eq!(one.repeated(0), Statistics::default());
        assert!(joined.is_constant() && joined.is_all_fill() && joined.mean() == Some(-3.0));
    }
}
