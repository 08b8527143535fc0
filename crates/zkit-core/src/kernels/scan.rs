//! Statistics of decoded elements in one pass: NaN, infinities, fill and missing values, extremes, sum, constancy.
//!
//! Scanning a block that was just decoded costs a fraction of decoding it: one load and a handful of operations a
//! register, in the cache where the block lies.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod element;
mod number;
mod passes;
mod statistics;

pub use number::Scalar;
pub use statistics::{Constancy, Statistics};

#[cfg(target_arch = "x86_64")]
use self::avx2::Vector;
use self::element::{BF16, Element, F16, F32, F64, I8, I16, I32, I64, Time, U8, U16, U32, U64};
#[cfg(not(target_arch = "x86_64"))]
use self::number::Number as Vector;
use self::number::{Float32, Float64, Number};
use self::passes::{MISSING_MOST, Moments, Wanted};

/// The type of elements, as a scan sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementKind {
    /// Bool or unsigned integer of so many bytes: 1, 2, 4 or 8.
    Unsigned(u8),
    /// Signed integer of so many bytes.
    Signed(u8),
    /// IEEE 754 float of 2, 4 or 8 bytes.
    Float(u8),
    /// The upper half of a float32.
    BFloat16,
    /// Two floats of 4 or 8 bytes.
    Complex(u8),
    /// A count of 8 bytes whose least value is NaT.
    Time,
    /// Bytes without order or NaN; only their being equal is looked at.
    Opaque(usize),
}

impl ElementKind {
    /// Returns the bytes of one element.
    pub fn item_bytes(self) -> usize {
        match self {
            Self::Unsigned(bytes) | Self::Signed(bytes) | Self::Float(bytes) => usize::from(bytes),
            Self::Complex(part_bytes) => 2 * usize::from(part_bytes),
            Self::BFloat16 => 2,
            Self::Time => 8,
            Self::Opaque(bytes) => bytes,
        }
    }

    /// Returns whether elements can be NaN or NaT.
    pub fn may_be_nan(self) -> bool {
        matches!(self, Self::Float(_) | Self::BFloat16 | Self::Complex(_) | Self::Time)
    }
}

/// Scans elements of one type for what one array wants to know.
///
/// ```
/// use zkit_core::kernels::scan::{ElementKind, Scalar, Scanner, Statistics};
///
/// let values: Vec<u8> = [1.0_f32, f32::NAN, 9e36, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
/// let scanner = Scanner::new(ElementKind::Float(4), None, &[&9e36_f32.to_le_bytes()]);
/// let mut statistics = Statistics::default();
/// scanner.scan(&values, &mut statistics);
/// assert_eq!((statistics.nan, statistics.missing, statistics.valid), (1, 1, 2));
/// assert_eq!((statistics.max, statistics.mean()), (Some(Scalar::Float(3.0)), Some(2.0)));
/// ```
#[derive(Debug, Clone)]
pub struct Scanner {
    kind: ElementKind,
    fill: Option<Vec<u8>>,
    missing: Vec<Vec<u8>>,
    scalar: bool,
}

impl Scanner {
    /// Returns a scanner; `fill` and `missing` (at most four of them count) are canonical elements, and such that have
    /// another length are not looked for.
    pub fn new(kind: ElementKind, fill: Option<&[u8]>, missing: &[&[u8]]) -> Self {
        let item = kind.item_bytes();
        let missing = missing.iter().filter(|value| value.len() == item).take(MISSING_MOST);
        Self {
            kind,
            fill: fill.filter(|fill| fill.len() == item).map(<[u8]>::to_vec),
            missing: missing.map(|value| value.to_vec()).collect(),
            scalar: false,
        }
    }

    /// Returns the type of the elements.
    pub fn kind(&self) -> ElementKind {
        self.kind
    }

    /// Adds the elements that `bytes` hold, canonical and without gaps; bytes after the last whole element are ignored.
    pub fn scan(&self, bytes: &[u8], statistics: &mut Statistics) {
        let item = self.kind.item_bytes();
        let Some(first) = bytes.get(..item).filter(|first| !first.is_empty()) else { return };
        let bytes = &bytes[..bytes.len() / item * item];
        statistics.elements += (bytes.len() / item) as u64;
        if statistics.constancy != Constancy::Varied {
            // each element equals the one before it
            let constant = bytes[item..] == bytes[..bytes.len() - item];
            statistics.constancy = statistics.constancy.join(match (constant, item) {
                (false, _) => Constancy::Varied,
                (true, ..=16) => Constancy::Constant(little_endian(first)),
                (true, _) => Constancy::Constant(xxhash_rust::xxh3::xxh3_128(first)),
            });
        }
        match self.kind {
            ElementKind::Unsigned(1) => self.numbers::<U8>(bytes, statistics),
            ElementKind::Unsigned(2) => self.numbers::<U16>(bytes, statistics),
            ElementKind::Unsigned(4) => self.numbers::<U32>(bytes, statistics),
            ElementKind::Unsigned(8) => self.numbers::<U64>(bytes, statistics),
            ElementKind::Signed(1) => self.numbers::<I8>(bytes, statistics),
            ElementKind::Signed(2) => self.numbers::<I16>(bytes, statistics),
            ElementKind::Signed(4) => self.numbers::<I32>(bytes, statistics),
            ElementKind::Signed(8) => self.numbers::<I64>(bytes, statistics),
            ElementKind::Float(2) => self.numbers::<F16>(bytes, statistics),
            ElementKind::Float(4) => self.numbers::<F32>(bytes, statistics),
            ElementKind::Float(8) => self.numbers::<F64>(bytes, statistics),
            ElementKind::BFloat16 => self.numbers::<BF16>(bytes, statistics),
            ElementKind::Time => self.numbers::<Time>(bytes, statistics),
            ElementKind::Complex(4) => self.pairs::<Float32>(bytes, statistics),
            ElementKind::Complex(8) => self.pairs::<Float64>(bytes, statistics),
            _ => self.opaque(bytes, statistics),
        }
    }

    /// Adds one to the count of each element that is NaN or NaT; elements beyond `counts` are not looked at.
    pub fn add_nan(&self, bytes: &[u8], counts: &mut [u32]) {
        match self.kind {
            ElementKind::Float(2) => self.add_nan_of::<F16>(bytes, counts),
            ElementKind::Float(4) => self.add_nan_of::<F32>(bytes, counts),
            ElementKind::Float(8) => self.add_nan_of::<F64>(bytes, counts),
            ElementKind::BFloat16 => self.add_nan_of::<BF16>(bytes, counts),
            ElementKind::Time => self.add_nan_of::<Time>(bytes, counts),
            ElementKind::Complex(4) => add_nan_pairs::<Float32>(bytes, counts),
            ElementKind::Complex(8) => add_nan_pairs::<Float64>(bytes, counts),
            _ => {}
        }
    }

    /// Adds one to the count of each element that stands for a missing one; elements beyond `counts` are not looked at.
    pub fn add_missing(&self, bytes: &[u8], counts: &mut [u32]) {
        for (at, value) in self.missing.iter().enumerate().filter(|(_, value)| !value.is_empty()) {
            if self.missing[..at].contains(value) {
                continue;
            }
            for (count, item) in counts.iter_mut().zip(bytes.chunks_exact(value.len())) {
                *count += u32::from(item == value.as_slice());
            }
        }
    }

    /// Returns whether elements can be NaN, or numbers that stand for missing ones.
    pub fn may_be_void(&self) -> bool {
        let ordered = !matches!(self.kind, ElementKind::Opaque(_));
        self.kind.may_be_nan() || (ordered && !self.missing.is_empty())
    }

    fn numbers<E: Element<Number: Vector>>(&self, bytes: &[u8], statistics: &mut Statistics) {
        let item = |bytes: &Vec<u8>| E::items(bytes).first().map(|item| E::widen(*item));
        let mut missing = [E::Number::store(E::Number::HIGHEST); MISSING_MOST];
        let mut count = 0;
        for value in self.missing.iter().filter_map(item) {
            missing[count..].fill(value);
            count += 1;
        }
        let wanted = Wanted { fill: self.fill.as_ref().and_then(item), missing, count };
        if E::AS_IT_IS {
            for block in E::Number::items(bytes).chunks(BLOCK) {
                self.block::<E>(block, &wanted, statistics);
            }
            return;
        }
        let mut numbers = [E::Number::store(E::Number::HIGHEST); BLOCK];
        for block in E::items(bytes).chunks(BLOCK) {
            let numbers = &mut numbers[..block.len()];
            match self.fastest() {
                #[cfg(target_arch = "x86_64")]
                Some(avx2) => avx2.widen::<E>(block, numbers),
                _ => widen::<E>(block, numbers),
            }
            self.block::<E>(numbers, &wanted, statistics);
        }
    }

    /// Takes in a block: by the fast pass if that answers everything.
    fn block<E: Element<Number: Vector>>(
        &self,
        block: &[<E::Number as Number>::Bytes],
        wanted: &Wanted<E::Number>,
        statistics: &mut Statistics,
    ) {
        let all: Moments<E::Number> = match self.fastest() {
            #[cfg(target_arch = "x86_64")]
            Some(avx2) => avx2.fast(block),
            _ => passes::fast(block),
        };
        // a fill value that is no number lies in no range, and is found by the careful pass alone
        let may_occur = |item: &<E::Number as Number>::Bytes| {
            let value = E::Number::load(*item);
            all.min <= value && value <= all.max
        };
        let looked_for = wanted.fill.iter().chain(&wanted.missing[..wanted.count]);
        if E::Number::are_finite(all.min, all.sum) && !looked_for.into_iter().any(may_occur) {
            return take_in::<E>(&all, block.len() as u64, statistics);
        }
        let counts = match self.fastest() {
            #[cfg(target_arch = "x86_64")]
            Some(avx2) => avx2.careful(block, wanted),
            _ => passes::careful(block, wanted),
        };
        statistics.nan += counts.nan;
        statistics.fill += counts.fill;
        statistics.missing += counts.missing;
        if counts.valid > 0 {
            take_in::<E>(&counts.moments, counts.valid, statistics);
        }
        if E::Number::HAS_INFINITIES && counts.nan + counts.valid < block.len() as u64 {
            let (positive, negative) = passes::infinities::<E::Number>(block);
            statistics.positive_infinity += positive;
            statistics.negative_infinity += negative;
        }
    }

    fn add_nan_of<E: Element<Number: Vector>>(&self, bytes: &[u8], counts: &mut [u32]) {
        match self.fastest() {
            #[cfg(target_arch = "x86_64")]
            Some(avx2) => avx2.add_nan::<E>(E::items(bytes), counts),
            _ => add_nan::<E>(E::items(bytes), counts),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn fastest(&self) -> Option<avx2::Avx2> {
        if self.scalar { None } else { avx2::Avx2::detect() }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn fastest(&self) -> Option<()> {
        None.filter(|()| self.scalar)
    }

    /// Complex numbers: they have no order, and so neither extremes nor a mean.
    fn pairs<N: Number>(&self, bytes: &[u8], statistics: &mut Statistics) {
        self.opaque(bytes, statistics);
        for pair in N::items(bytes).as_chunks::<2>().0 {
            let (real, imaginary) = (N::load(pair[0]), N::load(pair[1]));
            let infinite = |value| N::is_infinite(value, true) | N::is_infinite(value, false);
            statistics.nan += u64::from(N::is_nan(real) | N::is_nan(imaginary));
            statistics.positive_infinity += u64::from(infinite(real) | infinite(imaginary));
        }
    }

    /// Counts what bits alone say.
    fn opaque(&self, bytes: &[u8], statistics: &mut Statistics) {
        let items = || bytes.chunks_exact(self.kind.item_bytes());
        let count = |value: &Vec<u8>| items().filter(|item| *item == value.as_slice()).count() as u64;
        statistics.fill += self.fill.as_ref().map_or(0, count);
        for (at, value) in self.missing.iter().enumerate() {
            if !self.missing[..at].contains(value) {
                statistics.missing += count(value);
            }
        }
    }
}

/// Numbers that are scanned at once: they stay in the first-level cache for the second pass.
const BLOCK: usize = 1024;

fn take_in<E: Element>(moments: &Moments<E::Number>, valid: u64, statistics: &mut Statistics) {
    statistics.valid += valid;
    statistics.see_extremes(Some(E::scalar(moments.min)), Some(E::scalar(moments.max)));
    #[expect(clippy::cast_precision_loss, reason = "at most the numbers of a block")]
    statistics.add_to_sum(E::Number::sum_to_f64(moments.sum) + E::BIAS * valid as f64);
}

#[inline(always)]
fn widen<E: Element>(items: &[E::Bytes], numbers: &mut [<E::Number as Number>::Bytes]) {
    for (number, item) in numbers.iter_mut().zip(items) {
        *number = E::widen(*item);
    }
}

#[inline(always)]
fn add_nan<E: Element>(items: &[E::Bytes], counts: &mut [u32]) {
    for (count, item) in counts.iter_mut().zip(items) {
        *count += u32::from(E::Number::is_nan(E::Number::load(E::widen(*item))));
    }
}

fn add_nan_pairs<N: Number>(bytes: &[u8], counts: &mut [u32]) {
    for (count, pair) in counts.iter_mut().zip(N::items(bytes).as_chunks::<2>().0) {
        *count += u32::from(pair.iter().any(|part| N::is_nan(N::load(*part))));
    }
}

/// Returns at most 16 bytes as a number.
fn little_endian(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

#[cfg(test)]
mod tests;
