//! Whether two stored numbers mean the same.

use super::AlignedPair;
use crate::metadata::DataType;

/// What stored numbers mean: `value = stored * scale + offset`, and which of them stand for nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Packed {
    /// `scale_factor`, 1 where there is none.
    pub scale: f64,
    /// `add_offset`, 0 where there is none.
    pub offset: f64,
    /// Stored numbers that stand for a missing value.
    pub missing: Vec<f64>,
}

/// How elements of two arrays are compared.
#[derive(Debug, Default)]
pub(super) struct Numbers<'a>(Option<Sides<'a>>);

/// Both sides hold numbers.
#[derive(Debug)]
struct Sides<'a> {
    own: (&'a DataType, &'a Packed),
    source: (&'a DataType, &'a Packed),
    /// Half a step of the coarser packing.
    absolute: f64,
    /// The relative precision of the coarser float.
    relative: f64,
}

impl<'a> Numbers<'a> {
    /// Returns how two arrays of numbers are compared; `None` where one holds something else.
    pub(super) fn of(pair: &'a AlignedPair<'_>) -> Option<Self> {
        let (own, source) = (&pair.own.metadata.data_type, &pair.source.metadata.data_type);
        let is_number = |data_type: &DataType| {
            matches!(data_type, DataType::Bool | DataType::Int(_) | DataType::UInt(_) | DataType::Float(_))
        };
        if !is_number(own) || !is_number(source) {
            return None;
        }
        let (one, other) = (&pair.packed.0, &pair.packed.1);
        let alike = own == source && (one.scale, one.offset) == (other.scale, other.offset);
        let (absolute, relative) = match alike {
            true => (0.0, 0.0),
            false => {
                (half_step(one).max(half_step(other)), precision(own, one).max(precision(source, other)))
            }
        };
        Some(Self(Some(Sides { own: (own, one), source: (source, other), absolute, relative })))
    }

    /// Returns whether two elements mean the same.
    pub(super) fn are_same(&self, own: &[u8], source: &[u8]) -> bool {
        let Some(sides) = &self.0 else { return own == source };
        let alike = sides.absolute == 0.0 && sides.relative == 0.0;
        if alike && own == source {
            return true;
        }
        match (value(sides.own, own), value(sides.source, source)) {
            (None, None) => true,
            (Some(a), Some(b)) if alike => a == b && matches!(sides.own.0, DataType::Float(_)),
            (Some(a), Some(b)) => {
                a == b || (a - b).abs() <= sides.absolute + sides.relative * a.abs().max(b.abs())
            }
            _ => false,
        }
    }

    /// Returns how far two numbers lie apart.
    pub(super) fn difference(&self, own: &[u8], source: &[u8]) -> Option<f64> {
        let sides = self.0.as_ref()?;
        let difference = (value(sides.own, own)? - value(sides.source, source)?).abs();
        difference.is_finite().then_some(difference)
    }
}

/// Returns what an element means; `None` where it stands for nothing.
fn value((data_type, packed): (&DataType, &Packed), element: &[u8]) -> Option<f64> {
    let stored = data_type.number_of(element).filter(|stored| !stored.is_nan())?;
    #[expect(clippy::cast_possible_truncation, reason = "as the array holds what the attribute declares")]
    let narrow = |number: f64| match data_type {
        DataType::Float(2 | 4) => f64::from(number as f32),
        _ => number,
    };
    let is_missing = packed.missing.iter().any(|&missing| missing == stored || narrow(missing) == stored);
    (!is_missing).then_some(stored * packed.scale + packed.offset)
}

/// Returns how far packing moves a number, at most.
fn half_step(packed: &Packed) -> f64 {
    // packing does nothing to floats, but then a step is small beside what they can tell
    if packed.scale == 1.0 && packed.offset == 0.0 { 0.0 } else { packed.scale.abs() * 0.501 }
}

/// Returns the relative precision of numbers of a type; unpacking is mostly done in single precision.
fn precision(data_type: &DataType, packed: &Packed) -> f64 {
    let single = 2f64.powi(-22);
    match data_type {
        DataType::Float(2) => 2f64.powi(-10),
        DataType::Float(4) => single,
        _ if packed.scale != 1.0 || packed.offset != 0.0 => single,
        _ => 0.0,
    }
}
