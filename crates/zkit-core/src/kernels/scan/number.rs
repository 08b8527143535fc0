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
///
/// There are five, of 4 and 8 bytes; narrower and unsigned types are widened to one of them first.
pub(super) trait Number: 'static {
    /// The bytes of one element.
    type Bytes: Copy + PartialEq;
    /// An element in a register.
    type Value: Copy + PartialOrd;
    /// The sum of a block, which cannot overflow there.
    type Sum: Copy + std::ops::AddAssign;

    /// The least value: where a maximum starts.
    const LOWEST: Self::Value;
    /// The largest value: where a minimum starts.
    const HIGHEST: Self::Value;
    /// The sum of nothing.
    const ZERO: Self::Sum;
    /// Whether there are infinities.
    const HAS_INFINITIES: bool;

    /// Returns the whole elements of some bytes.
    fn items(bytes: &[u8]) -> &[Self::Bytes];
    /// Loads an element.
    fn load(bytes: Self::Bytes) -> Self::Value;
    /// Returns the bytes of an element.
    fn store(value: Self::Value) -> Self::Bytes;
    /// Returns an element as a term of a sum.
    fn term(value: Self::Value) -> Self::Sum;
    /// Returns whether the extremes and the sum of a block say that all of its elements are finite numbers.
    fn are_finite(min: Self::Value, sum: Self::Sum) -> bool;
    /// Returns a sum as float64.
    fn sum_to_f64(sum: Self::Sum) -> f64;
    /// Returns whether a value is no number: NaN, or NaT.
    fn is_nan(value: Self::Value) -> bool;
    /// Returns whether a value is infinite, to the positive or to the negative side.
    fn is_infinite(value: Self::Value, positive: bool) -> bool;
}

macro_rules! integer {
    ($mark:ident, $value:ty, $sum:ty, $nat:expr) => {
        pub(super) struct $mark;

        impl Number for $mark {
            type Bytes = [u8; size_of::<$value>()];
            type Value = $value;
            type Sum = $sum;

            const LOWEST: $value = <$value>::MIN;
            const HIGHEST: $value = <$value>::MAX;
            const ZERO: $sum = 0;
            const HAS_INFINITIES: bool = false;

            fn items(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }
            #[inline(always)]
            fn load(bytes: Self::Bytes) -> $value {
                <$value>::from_le_bytes(bytes)
            }
            fn store(value: $value) -> Self::Bytes {
                value.to_le_bytes()
            }
            #[inline(always)]
            fn term(value: $value) -> $sum {
                <$sum>::from(value)
            }
            fn are_finite(min: $value, _: $sum) -> bool {
                !Self::is_nan(min)
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
            fn is_infinite(_: $value, _: bool) -> bool {
                false
            }
        }
    };
}

integer!(Int32, i32, i64, None);
integer!(Int64, i64, i128, None);
// `datetime64` and `timedelta64`: the least count is NaT
integer!(Time64, i64, i128, Some(i64::MIN));

macro_rules! float {
    ($mark:ident, $value:ty) => {
        pub(super) struct $mark;

        impl Number for $mark {
            type Bytes = [u8; size_of::<$value>()];
            type Value = $value;
            type Sum = f64;

            const LOWEST: $value = <$value>::NEG_INFINITY;
            const HIGHEST: $value = <$value>::INFINITY;
            const ZERO: f64 = 0.0;
            const HAS_INFINITIES: bool = true;

            fn items(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }
            #[inline(always)]
            fn load(bytes: Self::Bytes) -> $value {
                <$value>::from_le_bytes(bytes)
            }
            fn store(value: $value) -> Self::Bytes {
                value.to_le_bytes()
            }
            #[inline(always)]
            fn term(value: $value) -> f64 {
                f64::from(value)
            }
            fn are_finite(_: $value, sum: f64) -> bool {
                sum.is_finite()
            }
            fn sum_to_f64(sum: f64) -> f64 {
                sum
            }
            #[inline(always)]
            fn is_nan(value: $value) -> bool {
                value.is_nan()
            }
            fn is_infinite(value: $value, positive: bool) -> bool {
                value == if positive { <$value>::INFINITY } else { <$value>::NEG_INFINITY }
            }
        }
    };
}

float!(Float32, f32);
float!(Float64, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_ordered_exactly() {
        let (a, b) = (Scalar::Int(i64::MAX - 1), Scalar::Int(i64::MAX));
        assert!(a < b && a.least(b) == a && a.greatest(b) == b);
        assert!(Scalar::UInt(u64::MAX - 1) < Scalar::UInt(u64::MAX));
        assert!(Scalar::Float(f64::NAN).partial_cmp(&Scalar::Float(0.0)).is_none());
    }
}
