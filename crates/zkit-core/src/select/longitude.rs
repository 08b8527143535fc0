//! Longitudes: 0 to 360 and -180 to 180 are the same places.

use super::coordinate::{Axis, Values};
use super::index::Index;

/// The circle in degrees.
pub(super) const CIRCLE: f64 = 360.0;

/// Where the stored longitudes begin: what is asked for is brought to the circle from there on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Circle {
    /// 0 or -180, or the first longitude where neither holds them all.
    pub(super) west: f64,
}

impl Circle {
    /// Returns the circle of a coordinate that runs along longitudes in degrees and fits one circle.
    pub(super) fn of(index: &Index<'_>) -> Option<Self> {
        let coordinate = index.coordinate;
        let numbers = matches!(coordinate.values, Values::Ints(_) | Values::Floats { .. });
        if coordinate.axis != Axis::Longitude || !numbers || index.is_empty() {
            return None;
        }
        let (west, east) = (index.number(index.position(0)), index.number(index.position(index.len() - 1)));
        if !(east - west <= CIRCLE && west >= -CIRCLE && east <= 2.0 * CIRCLE) {
            return None;
        }
        let west = if west >= 0.0 && east <= CIRCLE {
            0.0
        } else if west >= -180.0 && east <= 180.0 {
            -180.0
        } else {
            west
        };
        Some(Self { west })
    }

    /// Returns by how many degrees a longitude is off its place on this circle: 0, or a multiple of 360.
    pub(super) fn shift(self, longitude: f64) -> f64 {
        if (self.west..=self.west + CIRCLE).contains(&longitude) || !longitude.is_finite() {
            return 0.0;
        }
        let turned = (longitude - self.west).rem_euclid(CIRCLE) + self.west;
        ((turned - longitude) / CIRCLE).round() * CIRCLE
    }
}
