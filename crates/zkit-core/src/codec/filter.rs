//! numcodecs' filters on numbers, decoding: what they stored becomes what was given to them.
//!
//! Arithmetic follows numpy: whole numbers wrap, float32 stays float32, whole numbers are scaled as float64.

use half::f16;

use super::error::CodecError;
use crate::metadata::{Filter, Number, NumberKind};

/// Returns the encoded size for `decoded` bytes, or `None` if those are no whole numbers.
pub(super) fn encoded_size(filter: &Filter, decoded: usize) -> Option<usize> {
    match filter {
        Filter::PackBits => Some(1 + decoded.div_ceil(8)),
        Filter::Delta { decoded: from, stored }
        | Filter::FixedScaleOffset { decoded: from, stored, .. }
        | Filter::AsType { decoded: from, stored, .. } => {
            if from == stored {
                return Some(decoded);
            }
            decoded.is_multiple_of(from.bytes).then(|| decoded / from.bytes * stored.bytes)
        }
    }
}

/// Decodes `src` into `dst`, whose length metadata gives.
pub(super) fn decode(filter: &Filter, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    if encoded_size(filter, dst.len()) != Some(src.len()) {
        let expected = encoded_size(filter, dst.len()).unwrap_or(0) as u64;
        return Err(CodecError::Size { codec: name(filter), found: src.len() as u64, expected });
    }
    match filter {
        Filter::PackBits => unpack_bits(src, dst)?,
        Filter::AsType { decoded, stored, .. } if decoded == stored => dst.copy_from_slice(src),
        Filter::AsType { decoded, stored, .. } => each(*stored, *decoded, src, dst, |value| value),
        Filter::Delta { decoded, stored } => delta(*stored, *decoded, src, dst),
        Filter::FixedScaleOffset { offset, scale, decoded, stored } => {
            let (offset, scale) = (*offset, *scale);
            match (stored.kind, stored.bytes) {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "numpy keeps float32 arithmetic in float32"
                )]
                (NumberKind::Float, 2 | 4) => each(*stored, *decoded, src, dst, |value| {
                    Value::Float(f64::from(value.as_f64() as f32 / scale as f32 + offset as f32))
                }),
                _ => each(*stored, *decoded, src, dst, |value| Value::Float(value.as_f64() / scale + offset)),
            }
        }
    }
    Ok(())
}

fn name(filter: &Filter) -> &'static str {
    match filter {
        Filter::Delta { .. } => "delta",
        Filter::FixedScaleOffset { .. } => "fixedscaleoffset",
        Filter::AsType { .. } => "astype",
        Filter::PackBits => "packbits",
    }
}

#[derive(Clone, Copy)]
enum Value {
    Integer(i128),
    Float(f64),
}

impl Value {
    #[expect(clippy::cast_precision_loss, reason = "numpy converts whole numbers to float64 the same way")]
    fn as_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

fn read(number: Number, bytes: &[u8]) -> Value {
    let mut word = [0u8; 8];
    word[..number.bytes].copy_from_slice(bytes);
    if number.big_endian {
        word[..number.bytes].reverse();
    }
    let raw = u64::from_le_bytes(word);
    match (number.kind, number.bytes) {
        (NumberKind::Unsigned, _) => Value::Integer(i128::from(raw)),
        (NumberKind::Signed, bytes) => {
            let shift = 64 - 8 * bytes;
            Value::Integer(i128::from((raw << shift).cast_signed() >> shift))
        }
        (NumberKind::Float, 2) => Value::Float(f16::from_le_bytes([word[0], word[1]]).to_f64()),
        (NumberKind::Float, 4) => {
            Value::Float(f64::from(f32::from_le_bytes([word[0], word[1], word[2], word[3]])))
        }
        (NumberKind::Float, _) => Value::Float(f64::from_le_bytes(word)),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts as numpy does: whole numbers wrap, floats round to the type"
)]
fn write(number: Number, value: Value, bytes: &mut [u8]) {
    let word = match (number.kind, number.bytes) {
        (NumberKind::Float, 2) => u64::from(f16::from_f64(value.as_f64()).to_bits()),
        (NumberKind::Float, 4) => u64::from((value.as_f64() as f32).to_bits()),
        (NumberKind::Float, _) => value.as_f64().to_bits(),
        _ => match value {
            Value::Integer(value) => (value as i64).cast_unsigned(),
            Value::Float(value) if value >= 9.3e18 => value as u64,
            Value::Float(value) => (value as i64).cast_unsigned(),
        },
    };
    bytes.copy_from_slice(&word.to_le_bytes()[..number.bytes]);
    if number.big_endian {
        bytes.reverse();
    }
}

fn each(stored: Number, decoded: Number, src: &[u8], dst: &mut [u8], change: impl Fn(Value) -> Value) {
    for (from, to) in src.chunks_exact(stored.bytes).zip(dst.chunks_exact_mut(decoded.bytes)) {
        write(decoded, change(read(stored, from)), to);
    }
}

/// Sums up differences: in the decoded type, as `numpy.cumsum(stored, out=decoded)` does.
fn delta(stored: Number, decoded: Number, src: &[u8], dst: &mut [u8]) {
    let mut sum = Value::Integer(0);
    for (position, (from, to)) in
        src.chunks_exact(stored.bytes).zip(dst.chunks_exact_mut(decoded.bytes)).enumerate()
    {
        let step = read(stored, from);
        sum = match (sum, step) {
            (_, step) if position == 0 => step,
            (Value::Integer(sum), Value::Integer(step)) => Value::Integer(sum.wrapping_add(step)),
            (sum, step) => Value::Float(sum.as_f64() + step.as_f64()),
        };
        write(decoded, sum, to);
        if decoded.kind == NumberKind::Float {
            // the running sum has the precision of the type
            sum = read(decoded, to);
        }
    }
}

fn unpack_bits(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    let (&padding, bits) =
        src.split_first().ok_or_else(|| CodecError::corrupt("packbits", "no padding count"))?;
    let expected = bits.len() * 8 - dst.len();
    if usize::from(padding) != expected {
        return Err(CodecError::corrupt("packbits", format!("{padding} padding bits, {expected} expected")));
    }
    for (position, bit) in dst.iter_mut().enumerate() {
        *bit = (bits[position / 8] >> (7 - position % 8)) & 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const I2: Number = Number { kind: NumberKind::Signed, bytes: 2, big_endian: false };
    const I1: Number = Number { kind: NumberKind::Signed, bytes: 1, big_endian: false };
    const F4: Number = Number { kind: NumberKind::Float, bytes: 4, big_endian: true };

    #[test]
    fn delta_wraps_like_numpy() {
        let filter = Filter::Delta { decoded: I2, stored: I1 };
        let mut out = [0; 6];
        decode(&filter, &[0xff, 2, 0x80], &mut out).unwrap();
        assert_eq!(
            out.chunks(2).map(|b| i16::from_le_bytes([b[0], b[1]])).collect::<Vec<_>>(),
            [-1, 1, -127]
        );
    }

    #[test]
    fn fixed_scale_offset_gives_back_numbers() {
        let filter = Filter::FixedScaleOffset { offset: 1000.0, scale: 10.0, decoded: F4, stored: I2 };
        let mut out = [0; 8];
        decode(&filter, &[5, 0, 0xfb, 0xff], &mut out).unwrap();
        assert_eq!(
            out.chunks(4).map(|b| f32::from_be_bytes([b[0], b[1], b[2], b[3]])).collect::<Vec<_>>(),
            [1000.5, 999.5]
        );
    }

    #[test]
    fn packed_bits_check_their_padding() {
        let mut out = [9; 10];
        decode(&Filter::PackBits, &[6, 0b1010_0000, 0b0100_0000], &mut out).unwrap();
        assert_eq!(out, [1, 0, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert!(decode(&Filter::PackBits, &[5, 0, 0], &mut out).is_err());
        assert!(decode(&Filter::PackBits, &[6, 0], &mut out).is_err());
    }
}
