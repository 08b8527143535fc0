//! Types of elements as numbers: which [`Number`] each is looked at as, and the way there and back.

use super::number::{Float32, Float64, Int32, Int64, Number, Scalar, Time64};

/// A type of elements.
pub(super) trait Element: 'static {
    /// The bytes of one element.
    type Bytes: Copy + PartialEq;
    /// What it is widened to.
    type Number: Number;

    /// Whether elements are their numbers, bit by bit.
    const AS_IT_IS: bool;

    /// Returns the whole elements of some bytes.
    fn items(bytes: &[u8]) -> &[Self::Bytes];
    /// Returns an element as a number: one to one, and in the same order.
    fn widen(bytes: Self::Bytes) -> <Self::Number as Number>::Bytes;
    /// Returns the value of a number.
    fn scalar(value: <Self::Number as Number>::Value) -> Scalar;
    /// Returns what each number is less than its element.
    const BIAS: f64 = 0.0;
}

macro_rules! element {
    ($mark:ident, $bytes:literal, $number:ty, $as_it_is:literal, |$item:ident| $widen:expr, |$value:ident| $scalar:expr $(, $bias:expr)?) => {
        pub(super) struct $mark;

        impl Element for $mark {
            type Bytes = [u8; $bytes];
            type Number = $number;

            const AS_IT_IS: bool = $as_it_is;
            $(const BIAS: f64 = $bias;)?

            fn items(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }
            #[inline(always)]
            fn widen($item: Self::Bytes) -> <Self::Number as Number>::Bytes {
                $widen
            }
            fn scalar($value: <Self::Number as Number>::Value) -> Scalar {
                $scalar
            }
        }
    };
}

element!(I8, 1, Int32, false, |item| i32::from(i8::from_le_bytes(item)).to_le_bytes(), |value| Scalar::Int(
    value.into()
));
element!(
    I16,
    2,
    Int32,
    false,
    |item| i32::from(i16::from_le_bytes(item)).to_le_bytes(),
    |value| Scalar::Int(value.into())
);
element!(I32, 4, Int32, true, |item| item, |value| Scalar::Int(value.into()));
element!(I64, 8, Int64, true, |item| item, |value| Scalar::Int(value));
// of `bool` too
element!(U8, 1, Int32, false, |item| i32::from(item[0]).to_le_bytes(), |value| Scalar::UInt(
    value.unsigned_abs().into()
));
element!(U16, 2, Int32, false, |item| i32::from(u16::from_le_bytes(item)).to_le_bytes(), |value| {
    Scalar::UInt(value.unsigned_abs().into())
});
element!(U32, 4, Int64, false, |item| i64::from(u32::from_le_bytes(item)).to_le_bytes(), |value| {
    Scalar::UInt(value.unsigned_abs())
});
// the order of unsigned numbers is that of signed ones with the first bit turned round, which takes 2^63 off
element!(
    U64,
    8,
    Int64,
    false,
    |item| (u64::from_le_bytes(item) ^ 1 << 63).to_le_bytes(),
    |value| Scalar::UInt(value.cast_unsigned() ^ 1 << 63),
    9_223_372_036_854_775_808.0
);
element!(Time, 8, Time64, true, |item| item, |value| Scalar::Int(value));
element!(F16, 2, Float32, false, |item| widen_f16(u16::from_le_bytes(item)).to_le_bytes(), |value| {
    Scalar::Float(value.into())
});
// the upper half of a float32
element!(BF16, 2, Float32, false, |item| [0, 0, item[0], item[1]], |value| Scalar::Float(value.into()));
element!(F32, 4, Float32, true, |item| item, |value| Scalar::Float(value.into()));
element!(F64, 8, Float64, true, |item| item, |value| Scalar::Float(value));

/// Returns the bits of a float16 as float32, without a branch and without F16C: the bits move to their places, a
/// multiplication by 2^112 sets the exponent right (of subnormal numbers too), and NaN and infinity get the exponent that
/// is theirs. Payloads of NaN are kept.
#[inline(always)]
fn widen_f16(bits: u16) -> u32 {
    let magnitude = u32::from(bits & 0x7fff);
    let sign = u32::from(bits & 0x8000) << 16;
    let number = (f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000)).to_bits();
    let special = (magnitude << 13) | 0x7f80_0000;
    sign | if magnitude >= 0x7c00 { special } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float16_widens_as_half_says() {
        for bits in 0..=u16::MAX {
            let (widened, expected) = (f32::from_bits(widen_f16(bits)), half::f16::from_bits(bits).to_f32());
            assert!(
                widened.to_bits() == expected.to_bits() || (widened.is_nan() && expected.is_nan()),
                "{bits:#x}: {widened} is not {expected}"
            );
        }
    }
}
