//! Numbers as they lie in canonical bytes: how each type is loaded, ordered and summed.

/// One value, exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// Of a signed integer, or a count of time units.
    Int(i64),
    /// Of an unsigned integer or bool.
    UInt(u64),
    /// Of a float; float16 and float32 are widened without loss.
    Float(f64),
}

impl Scalar {
    /// Returns the value as the nearest float64.
    pub fn to_f64(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "the nearest float is what is asked for")]
            Self::Int(value) => value as f64,
            #[expect(clippy::cast_precision_loss, reason = "the nearest float is what is asked for")]
            Self::UInt(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// Returns the smaller of two values of one type.
    pub(super) fn least(self, other: Self) -> Self {
        if other < self { other } else { self }
    }

    /// Returns the larger of two values of one type.
    pub(super) fn greatest(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
}

impl PartialOrd for Scalar {
    /// Orders values of one type exactly; of different types by their nearest float64.
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::UInt(a), Self::UInt(b)) => Some(a.cmp(b)),
            _ => self.to_f64().partial_cmp(&other.to_f64()),
        }
    }
}

/// What the passes need of a type. The type itself is a mark; values live in [`Self::Value`].
pub(super) trait Number: 'static {
    /// The bytes of one element.
    type Bytes: Copy + PartialEq;
    /// An element in a register.
    type Value: Copy + PartialOrd;
    /// The sum of one lane of a block, which cannot overflow there.
    type Sum: Copy + std::ops::AddAssign;
    /// A count of one lane of a block, as wide as an element.
    type Count: Copy + Default + std::ops::AddAssign + From<bool> + Into<u64>;

    /// The least value: where a maximum starts.
    const LOWEST: Self::Value;
    /// The largest value: where a minimum starts.
    const HIGHEST: Self::Value;
    /// The sum of nothing.
    const ZERO: Self::Sum;

    /// Returns the whole elements of some bytes.
    fn items(bytes: &[u8]) -> &[Self::Bytes];
    /// Returns the bits of an element.
    fn bits(bytes: Self::Bytes) -> u128;
    /// Loads an element.
    fn load(bytes: Self::Bytes) -> Self::Value;
    /// Returns an element as a term of a sum.
    fn term(value: Self::Value) -> Self::Sum;
    /// Returns whether the sum of a block says that there is neither NaN nor infinity in it.
    fn is_finite_sum(sum: Self::Sum) -> bool;
    /// Returns a sum as float64.
    fn sum_to_f64(sum: Self::Sum) -> f64;
    /// Returns whether a value is no number: NaN, or NaT.
    fn is_nan(value: Self::Value) -> bool;
    /// Returns whether a value is infinite, to the positive and to the negative side.
    fn infinite(value: Self::Value) -> (bool, bool);
    /// Returns a value as a scalar.
    fn scalar(value: Self::Value) -> Scalar;
}

macro_rules! integer {
    ($mark:ident, $value:ty, $sum:ty, $count:ty, $scalar:ident($wide:ty), $nat:expr) => {
        pub(super) struct $mark;

        impl Number for $mark {
            type Bytes = [u8; size_of::<$value>()];
            type Value = $value;
            type Sum = $sum;
            type Count = $count;

            const LOWEST: $value = <$value>::MIN;
            const HIGHEST: $value = <$value>::MAX;
            const ZERO: $sum = 0;

            #[inline(always)]
            fn items(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }
            fn bits(bytes: Self::Bytes) -> u128 {
                little_endian(&bytes)
            }
            #[inline(always)]
            fn load(bytes: Self::Bytes) -> $value {
                <$value>::from_le_bytes(bytes)
            }
            #[inline(always)]
            fn term(value: $value) -> $sum {
                <$sum>::from(value)
            }
            #[inline(always)]
            fn is_finite_sum(_: $sum) -> bool {
                true
            }
            #[expect(clippy::cast_precision_loss, reason = "a mean is a float64")]
            fn sum_to_f64(sum: $sum) -> f64 {
                sum as f64
            }
            #[inline(always)]
            fn is_nan(value: $value) -> bool {
                let nat: Option<$value> = $nat;
                match nat {
                    Some(nat) => value == nat,
                    None => false,
                }
            }
            #[inline(always)]
            fn infinite(_: $value) -> (bool, bool) {
                (false, false)
            }
            fn scalar(value: $value) -> Scalar {
                Scalar::$scalar(<$wide>::from(value))
            }
        }
    };
}

integer!(Int8, i8, i32, u8, Int(i64), None);
// also bool
integer!(UInt8, u8, i32, u8, UInt(u64), None);
integer!(Int16, i16, i32, u16, Int(i64), None);
integer!(UInt16, u16, i32, u16, UInt(u64), None);
integer!(Int32, i32, i64, u32, Int(i64), None);
integer!(UInt32, u32, i64, u32, UInt(u64), None);
integer!(Int64, i64, i128, u64, Int(i64), None);
integer!(UInt64, u64, i128, u64, UInt(u64), None);
// the least value is NaT
integer!(Time64, i64, i128, u64, Int(i64), Some(i64::MIN));

macro_rules! float {
    ($mark:ident, $bits:ty, $value:ty, $load:expr) => {
        pub(super) struct $mark;

        impl Number for $mark {
            type Bytes = [u8; size_of::<$bits>()];
            type Value = $value;
            type Sum = f64;
            type Count = $bits;

            const LOWEST: $value = <$value>::NEG_INFINITY;
            const HIGHEST: $value = <$value>::INFINITY;
            const ZERO: f64 = 0.0;

            #[inline(always)]
            fn items(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }
            fn bits(bytes: Self::Bytes) -> u128 {
                little_endian(&bytes)
            }
            #[inline(always)]
            fn load(bytes: Self::Bytes) -> $value {
                let load: fn($bits) -> $value = $load;
                load(<$bits>::from_le_bytes(bytes))
            }
            #[inline(always)]
            fn term(value: $value) -> f64 {
                f64::from(value)
            }
            #[inline(always)]
            fn is_finite_sum(sum: f64) -> bool {
                sum.is_finite()
            }
            fn sum_to_f64(sum: f64) -> f64 {
                sum
            }
            #[inline(always)]
            fn is_nan(value: $value) -> bool {
                value.is_nan()
            }
            #[inline(always)]
            fn infinite(value: $value) -> (bool, bool) {
                (value == <$value>::INFINITY, value == <$value>::NEG_INFINITY)
            }
            fn scalar(value: $value) -> Scalar {
                Scalar::Float(f64::from(value))
            }
        }
    };
}

float!(Float16, u16, f32, widen_f16);
// the upper half of a float32
float!(BFloat16, u16, f32, |bits| f32::from_bits(u32::from(bits) << 16));
float!(Float32, u32, f32, f32::from_bits);
float!(Float64, u64, f64, f64::from_bits);

/// Returns at most 16 bytes as a number.
pub(super) fn little_endian(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

/// Returns a float16 as float32, without a branch and without F16C: the bits move to their places, a multiplication by
/// 2^112 sets the exponent right (of subnormal numbers too), and NaN and infinity get the exponent that is theirs.
#[inline(always)]
fn widen_f16(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff);
    let sign = u32::from(bits & 0x8000) << 16;
    let number = (f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000)).to_bits();
    let special = (magnitude << 13) | 0x7f80_0000;
    f32::from_bits(sign | if magnitude >= 0x7c00 { special } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float16_widens_as_half_says() {
        for bits in 0..=u16::MAX {
            let (widened, expected) = (widen_f16(bits), half::f16::from_bits(bits).to_f32());
            assert!(
                widened.to_bits() == expected.to_bits() || (widened.is_nan() && expected.is_nan()),
                "{bits:#x}: {widened} is not {expected}"
            );
        }
    }

    #[test]
    fn integers_are_ordered_exactly() {
        let (a, b) = (Scalar::Int(i64::MAX - 1), Scalar::Int(i64::MAX));
        assert!(a < b && a.least(b) == a && a.greatest(b) == b);
        assert!(Scalar::UInt(u64::MAX - 1) < Scalar::UInt(u64::MAX));
        assert!(Scalar::Float(f64::NAN).partial_cmp(&Scalar::Float(0.0)).is_none());
    }
}
