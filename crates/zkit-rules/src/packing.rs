//! What stored numbers mean: packing, and which unit they are in. Source: CF conventions, sections 3.1 and 8.1.

use zkit_core::hierarchy::ArrayNode;
use zkit_core::metadata::{DataType, Json};

use crate::observe::ArrayObservation;
use crate::rules::shared::number_of;

/// How stored numbers become values: `value = stored * scale + offset`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Packing {
    /// `scale_factor`, 1 where there is none.
    pub scale: f64,
    /// `add_offset`, 0 where there is none.
    pub offset: f64,
}

impl Packing {
    /// Returns how the numbers of an array are packed, if they are.
    pub fn of(array: &ArrayObservation<'_>) -> Option<Self> {
        Self::of_node(array.node)
    }

    /// Returns how the numbers of an array are packed, if they are, from its metadata alone.
    pub fn of_node(node: &ArrayNode) -> Option<Self> {
        let number = |name| node.metadata.attributes.get(name).and_then(number_of);
        let (scale, offset) = (number("scale_factor"), number("add_offset"));
        if scale.is_none() && offset.is_none() {
            return None;
        }
        let packing = Self { scale: scale.unwrap_or(1.0), offset: offset.unwrap_or(0.0) };
        let packs = packing.scale.is_finite() && packing.offset.is_finite() && packing.scale != 0.0;
        packs.then_some(packing)
    }

    /// Returns the value of a stored number.
    pub fn unpack(self, stored: f64) -> f64 {
        stored.mul_add(self.scale, self.offset)
    }

    /// Returns the least and the largest value of what lies between two stored numbers.
    pub fn unpack_range(self, (min, max): (f64, f64)) -> (f64, f64) {
        let (a, b) = (self.unpack(min), self.unpack(max));
        (a.min(b), a.max(b))
    }

    /// Returns whether packing changes anything.
    pub fn is_identity(self) -> bool {
        self.scale == 1.0 && self.offset == 0.0
    }
}

/// Returns the least and the largest valid number in the stored chunks of an array, not unpacked.
pub fn stored_range(array: &ArrayObservation<'_>) -> Option<(f64, f64)> {
    let statistics = &array.values.as_ref()?.stored;
    Some((statistics.min?.to_f64(), statistics.max?.to_f64()))
}

/// Returns whether the numbers of an array are floats.
pub fn is_float(array: &ArrayObservation<'_>) -> bool {
    matches!(array.node.metadata.data_type, DataType::Float(_))
}

/// Returns the range in which values of a unit lie on Earth, wide enough that only numbers which mean something else
/// fall outside; `None` for units that say nothing of magnitudes.
pub fn plausible_range(array: &ArrayObservation<'_>) -> Option<(f64, f64)> {
    let attributes = &array.node.metadata.attributes;
    let text = |name| attributes.get(name).and_then(Json::as_str).unwrap_or_default().to_lowercase();
    // differences and errors have the unit, not the magnitude
    let names = [text("standard_name"), text("long_name"), array.name().to_lowercase()].join(" ");
    let relative =
        ["anomal", "difference", "bias", "error", "uncertainty", "increment", "tendency", "stddev"];
    let relative = relative.iter().any(|word| names.contains(word))
        || ["deviation", "variance", "spread", "trend", "std", "range", "_diff", "delta"]
            .iter()
            .any(|word| names.contains(word));
    if relative {
        return None;
    }
    let at_sea_level = names.contains("sea_level") && names.contains("pressure");
    match text("units").as_str() {
        "k" | "kelvin" | "degk" | "deg_k" | "degrees_k" | "degree_kelvin" | "degrees kelvin" => {
            Some((80.0, 2_000.0))
        }
        "degc" | "celsius" | "deg_c" | "degree_celsius" | "degrees_celsius" | "degrees_c" | "°c" => {
            Some((-150.0, 1_500.0))
        }
        // what the sea carries varies by a tenth
        "pa" | "hpa" if at_sea_level => match text("units").as_str() {
            "pa" => Some((80_000.0, 112_000.0)),
            _ => Some((800.0, 1_120.0)),
        },
        // up to what lies on the ground, and below it by a little
        "pa" | "pascal" | "pascals" => Some((0.0, 112_000.0)),
        "hpa" | "mbar" | "millibar" | "millibars" | "mb" => Some((0.0, 1_120.0)),
        "degrees_north" | "degree_north" => Some((-90.5, 90.5)),
        "degrees_east" | "degree_east" => Some((-360.5, 720.5)),
        _ => None,
    }
}
