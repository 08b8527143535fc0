//! Values that look like numbers and stand for a missing value, without the metadata saying so.

use super::chunk::{Prepared, Shared, Source, Thread};
use super::gather::{Found, UnitFacts};
use crate::kernels::scan::{ElementKind, Statistics};
use crate::read::with_buffers;

/// Chunks that are looked at a second time.
const CHUNKS_MOST: usize = 8;

/// A value that writers take for missing ones, where an array has it as its least or largest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StandIn {
    /// The value, as stored.
    pub value: f64,
    /// How often it occurs in a few chunks that hold it.
    pub count: u64,
    /// Elements of those chunks.
    pub elements: u64,
    /// What the other elements of those chunks are.
    pub others: Statistics,
}

/// Values that stand for missing ones in floats: netCDF's defaults (float, double), CMIP's, GDAL's, round numbers of old
/// formats, and the least of integers that were unpacked.
const OF_FLOATS: [f64; 20] = [
    9.969_209_968_386_869e36,
    1e20,
    -1e20,
    1e30,
    -1e30,
    1e36,
    -1e34,
    1e15,
    -f32::MAX as f64,
    f32::MAX as f64,
    -9999.0,
    -99999.0,
    -999.0,
    -99.9,
    -99.99,
    -999.9,
    -9999.9,
    -32768.0,
    -32767.0,
    -2147483648.0,
];

/// The same of integers: round numbers, and the ends of 2 and 4 bytes.
const OF_INTEGERS: [f64; 9] =
    [-9999.0, -99999.0, -999.0, -32768.0, -32767.0, 32767.0, -2147483648.0, -2147483647.0, 2147483647.0];

/// Returns how an extreme of an array may be a stand-in: its value, as the type of the array has it.
fn candidate(kind: ElementKind, extreme: f64) -> Option<Vec<u8>> {
    #[expect(clippy::cast_possible_truncation, reason = "what a float32 makes of it is the point")]
    let is_one_of =
        |known: &[f64]| known.iter().any(|&value| extreme == value || extreme == f64::from(value as f32));
    match kind {
        #[expect(clippy::cast_possible_truncation, reason = "it came from a float32")]
        ElementKind::Float(4) if is_one_of(&OF_FLOATS) => Some((extreme as f32).to_le_bytes().to_vec()),
        ElementKind::Float(8) if is_one_of(&OF_FLOATS) => Some(extreme.to_le_bytes().to_vec()),
        ElementKind::Signed(bytes @ (2 | 4 | 8)) if is_one_of(&OF_INTEGERS) => {
            #[expect(clippy::cast_possible_truncation, reason = "the values above are whole and small")]
            let whole = extreme as i64;
            Some(whole.to_le_bytes()[..usize::from(bytes)].to_vec())
        }
        _ => None,
    }
}

/// Looks a second time at a few chunks that hold the least or the largest value of an array, if that may be a stand-in.
pub(super) fn find(prepared: &Prepared<'_>, shared: Shared<'_>) -> Option<StandIn> {
    let kind = prepared.scanner.as_ref()?.kind();
    let (extremes, units) = prepared.gather.extremes()?;
    let (value, element) = extremes.iter().find_map(|&extreme| Some((extreme, candidate(kind, extreme)?)))?;
    let holds = |unit: &&UnitFacts| unit.min == value || unit.max == value;
    let holding: Vec<u64> = units.iter().filter(holds).map(|unit| unit.position).collect();
    let again = prepared.again(&element)?;
    let (mut thread, mut found) = (Thread::default(), Found::default());
    let step = holding.len().div_ceil(CHUNKS_MOST).max(1);
    let mut positions: Vec<u64> =
        holding.iter().step_by(step).map(|&unit| prepared.stored_position(unit)).collect();
    positions.dedup();
    for position in positions {
        with_buffers(|buffers| {
            again.scan(position, &Source::Read, (buffers, &mut thread), shared, &mut found)
        });
    }
    let statistics = found.statistics;
    // the candidate is the fill value of the second look
    Some(StandIn { value, count: statistics.fill, elements: statistics.elements, others: statistics })
}
