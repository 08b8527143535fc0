//! Statistics of decoded elements in one pass: NaN, infinities, fill and missing values, extremes, sum, constancy.
//!
//! Scanning a block that was just decoded costs a fraction of decoding it: one load and a handful of operations a
//! register, in the cache where the block lies.

mod number;
mod passes;
mod statistics;

pub use number::Scalar;
pub use statistics::{Constancy, Statistics};

use self::number::{
    BFloat16, Float16, Float32, Float64, Int8, Int16, Int32, Int64, Number, Time64, UInt8, UInt16, UInt32,
    UInt64, little_endian,
};
use self::passes::{MISSING_MOST, Passes, Plain, Wanted};

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
        match self.kind {
            ElementKind::Unsigned(1) => self.numbers::<UInt8>(bytes, statistics),
            ElementKind::Unsigned(2) => self.numbers::<UInt16>(bytes, statistics),
            ElementKind::Unsigned(4) => self.numbers::<UInt32>(bytes, statistics),
            ElementKind::Unsigned(8) => self.numbers::<UInt64>(bytes, statistics),
            ElementKind::Signed(1) => self.numbers::<Int8>(bytes, statistics),
            ElementKind::Signed(2) => self.numbers::<Int16>(bytes, statistics),
            ElementKind::Signed(4) => self.numbers::<Int32>(bytes, statistics),
            ElementKind::Signed(8) => self.numbers::<Int64>(bytes, statistics),
            ElementKind::Float(2) => self.numbers::<Float16>(bytes, statistics),
            ElementKind::Float(4) => self.numbers::<Float32>(bytes, statistics),
            ElementKind::Float(8) => self.numbers::<Float64>(bytes, statistics),
            ElementKind::BFloat16 => self.numbers::<BFloat16>(bytes, statistics),
            ElementKind::Time => self.numbers::<Time64>(bytes, statistics),
            ElementKind::Complex(4) => self.pairs::<Float32>(bytes, statistics),
            ElementKind::Complex(8) => self.pairs::<Float64>(bytes, statistics),
            _ => self.opaque(bytes, statistics),
        }
    }

    /// Counts the elements that are NaN or NaT.
    pub fn count_nan(&self, bytes: &[u8]) -> u64 {
        match self.kind {
            ElementKind::Float(2) => self.nan::<Float16>(bytes),
            ElementKind::Float(4) => self.nan::<Float32>(bytes),
            ElementKind::Float(8) => self.nan::<Float64>(bytes),
            ElementKind::BFloat16 => self.nan::<BFloat16>(bytes),
            ElementKind::Time => self.nan::<Time64>(bytes),
            ElementKind::Complex(4) => nan_pairs::<Float32>(bytes),
            ElementKind::Complex(8) => nan_pairs::<Float64>(bytes),
            _ => 0,
        }
    }

    /// Adds one to the count of each element that is NaN or NaT; elements beyond `counts` are not looked at.
    pub fn add_nan(&self, bytes: &[u8], counts: &mut [u32]) {
        match self.kind {
            ElementKind::Float(2) => self.columns::<Float16>(bytes, counts),
            ElementKind::Float(4) => self.columns::<Float32>(bytes, counts),
            ElementKind::Float(8) => self.columns::<Float64>(bytes, counts),
            ElementKind::BFloat16 => self.columns::<BFloat16>(bytes, counts),
            ElementKind::Time => self.columns::<Time64>(bytes, counts),
            ElementKind::Complex(4 | 8) => {
                let items = bytes.chunks_exact(self.kind.item_bytes());
                items.zip(counts).for_each(|(item, count)| *count += u32::from(self.count_nan(item) > 0));
            }
            _ => {}
        }
    }

    fn numbers<N: Number>(&self, bytes: &[u8], statistics: &mut Statistics) {
        let Some(&first) = N::items(bytes).first() else { return };
        let item = |bytes: &Vec<u8>| N::items(bytes).first().copied();
        let fill = self.fill.as_ref().and_then(item);
        let mut missing = [first; MISSING_MOST];
        let mut count = 0;
        for value in self.missing.iter().filter_map(item) {
            missing[count..].fill(value);
            count += 1;
        }
        let wanted = Wanted::<N> { fill: fill.is_some(), fill_item: fill.unwrap_or(first), missing, count };
        match self.fastest() {
            Some(passes) => passes::scan(&passes, bytes, &wanted, statistics),
            None => passes::scan(&Plain, bytes, &wanted, statistics),
        }
    }

    fn nan<N: Number>(&self, bytes: &[u8]) -> u64 {
        match self.fastest() {
            Some(passes) => passes.nan::<N>(N::items(bytes)),
            None => Plain.nan::<N>(N::items(bytes)),
        }
    }

    fn columns<N: Number>(&self, bytes: &[u8], counts: &mut [u32]) {
        match self.fastest() {
            Some(passes) => passes.columns::<N>(N::items(bytes), counts),
            None => Plain.columns::<N>(N::items(bytes), counts),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn fastest(&self) -> Option<passes::Avx2> {
        if self.scalar { None } else { passes::Avx2::detect() }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn fastest(&self) -> Option<Plain> {
        None
    }

    /// Complex numbers: they have no order, and so neither extremes nor a mean.
    fn pairs<N: Number>(&self, bytes: &[u8], statistics: &mut Statistics) {
        self.opaque(bytes, statistics);
        for pair in N::items(bytes).as_chunks::<2>().0 {
            let (real, imaginary) = (N::load(pair[0]), N::load(pair[1]));
            let infinite = |value| matches!(N::infinite(value), (true, _) | (_, true));
            statistics.nan += u64::from(N::is_nan(real) | N::is_nan(imaginary));
            statistics.positive_infinity += u64::from(infinite(real) | infinite(imaginary));
        }
    }

    /// Counts what bits alone say.
    fn opaque(&self, bytes: &[u8], statistics: &mut Statistics) {
        let item = self.kind.item_bytes();
        let Some(first) = bytes.get(..item).filter(|first| !first.is_empty()) else { return };
        let bytes = &bytes[..bytes.len() / item * item];
        let elements = (bytes.len() / item) as u64;
        statistics.elements += elements;
        // each element equals the one before it
        let constant = bytes[item..] == bytes[..bytes.len() - item];
        let seen = match (constant, item) {
            (false, _) => Constancy::Varied,
            (true, ..=16) => Constancy::Constant(little_endian(first)),
            (true, _) => Constancy::Constant(xxhash_rust::xxh3::xxh3_128(first)),
        };
        statistics.constancy = statistics.constancy.join(seen);
        let count = |value: &[u8]| {
            if constant {
                return if first == value { elements } else { 0 };
            }
            bytes.chunks_exact(item).filter(|item| *item == value).count() as u64
        };
        statistics.fill += self.fill.as_deref().map_or(0, count);
        for (at, value) in self.missing.iter().enumerate() {
            if !self.missing[..at].contains(value) {
                statistics.missing += count(value);
            }
        }
    }
}

fn nan_pairs<N: Number>(bytes: &[u8]) -> u64 {
    let pairs = N::items(bytes).as_chunks::<2>().0.iter();
    pairs.filter(|pair| pair.iter().any(|part| N::is_nan(N::load(*part)))).count() as u64
}

#[cfg(test)]
mod tests;
