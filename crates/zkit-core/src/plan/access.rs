//! How data is read, and what a chunk shape makes of that: pure arithmetic.

use std::fmt;
use std::str::FromStr;

use crate::grid::product;

/// Names that writers give to the time dimension, lower case.
const TIME_NAMES: [&str; 8] =
    ["time", "valid_time", "t", "date", "datetime", "init_time", "forecast_reference_time", "timestamp"];
/// Names of horizontal dimensions, lower case; grids without two of them have one (`cell`).
const HORIZONTAL_NAMES: [&str; 18] = [
    "latitude",
    "longitude",
    "lat",
    "lon",
    "y",
    "x",
    "nlat",
    "nlon",
    "rlat",
    "rlon",
    "south_north",
    "west_east",
    "northing",
    "easting",
    "cell",
    "ncells",
    "values",
    "node",
];
/// Chunks smaller than this cost more to find than to decode.
const SMALLEST_GOOD_BYTES: u64 = 1 << 20;
/// Chunks larger than this waste most of a partial read.
const LARGEST_GOOD_BYTES: u64 = 16 << 20;

/// A way of reading an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// All of the horizontal dimensions at one time.
    Maps,
    /// All times at one place.
    TimeSeries,
    /// Single elements anywhere.
    Points,
    /// So many elements of each named dimension, all of the others; -1 is all.
    Batch(Vec<(String, u64)>),
}

impl FromStr for Access {
    type Err = String;

    /// Parses `maps`, `time-series`, `points` or `batch:time=4,latitude=64`.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write maps, time-series, points or batch:time=4,latitude=64,longitude=64";
        match text {
            "maps" => return Ok(Self::Maps),
            "time-series" => return Ok(Self::TimeSeries),
            "points" => return Ok(Self::Points),
            _ => {}
        }
        let lengths = text.strip_prefix("batch:").ok_or(form)?.split(',').map(|part| {
            let (name, length) = part.split_once('=').ok_or(form)?;
            let length = match length.trim() {
                "-1" => u64::MAX,
                length => length.parse().ok().filter(|&length| length > 0).ok_or(form)?,
            };
            if name.trim().is_empty() { Err(form) } else { Ok((name.trim().to_owned(), length)) }
        });
        Ok(Self::Batch(lengths.collect::<Result<_, _>>()?))
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Maps => f.write_str("maps"),
            Self::TimeSeries => f.write_str("time-series"),
            Self::Points => f.write_str("points"),
            Self::Batch(lengths) => {
                f.write_str("batch:")?;
                for (position, (name, length)) in lengths.iter().enumerate() {
                    let comma = if position > 0 { "," } else { "" };
                    match length {
                        &u64::MAX => write!(f, "{comma}{name}=-1")?,
                        length => write!(f, "{comma}{name}={length}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// The dimensions of an array: lengths and, where given, names.
#[derive(Debug, Clone, Copy)]
pub struct Dimensions<'a> {
    /// Lengths.
    pub shape: &'a [u64],
    /// Names, where given.
    pub names: Option<&'a [Option<String>]>,
}

impl Dimensions<'_> {
    fn name(&self, dimension: usize) -> Option<&str> {
        self.names?.get(dimension)?.as_deref()
    }

    fn is_named(&self, dimension: usize, names: &[&str]) -> bool {
        self.name(dimension).is_some_and(|name| names.contains(&name.to_ascii_lowercase().as_str()))
    }

    /// Returns the time dimension; without names the first of three and more is taken for it.
    pub fn time(&self) -> Option<usize> {
        let named = (0..self.shape.len()).find(|&dimension| self.is_named(dimension, &TIME_NAMES));
        named.or_else(|| (self.names.is_none() && self.shape.len() >= 3).then_some(0))
    }

    /// Returns whether a dimension is horizontal; without names the last two are taken for such.
    pub fn is_horizontal(&self, dimension: usize) -> bool {
        match self.names {
            Some(_) => self.is_named(dimension, &HORIZONTAL_NAMES),
            None => dimension + 2 >= self.shape.len(),
        }
    }
}

impl Access {
    /// Returns how many elements of each dimension one read wants; `None` for arrays that are not read like this,
    /// coordinates among them.
    pub fn wanted(&self, dimensions: Dimensions<'_>) -> Option<Vec<u64>> {
        let shape = dimensions.shape;
        let ones_but = |whole: &dyn Fn(usize) -> bool| {
            (0..shape.len()).map(|dimension| if whole(dimension) { shape[dimension] } else { 1 }).collect()
        };
        if shape.len() < 2 || shape.contains(&0) {
            return None;
        }
        match self {
            Self::Points => Some(vec![1; shape.len()]),
            Self::Maps => {
                let horizontal = (0..shape.len()).any(|dimension| dimensions.is_horizontal(dimension));
                horizontal.then(|| ones_but(&|dimension| dimensions.is_horizontal(dimension)))
            }
            Self::TimeSeries => {
                let time = dimensions.time()?;
                Some(ones_but(&|dimension| dimension == time))
            }
            Self::Batch(lengths) => {
                let mut wanted = shape.to_vec();
                for (name, length) in lengths {
                    let dimension =
                        (0..shape.len()).find(|&dimension| dimensions.name(dimension) == Some(name))?;
                    wanted[dimension] = shape[dimension].min(*length);
                }
                Some(wanted)
            }
        }
    }
}

/// What one read costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadCost {
    /// Decoded bytes that the reader wants.
    pub bytes_wanted: u64,
    /// Chunks that hold them, on average over where the read begins.
    pub chunks_touched: u64,
    /// Decoded bytes of these chunks.
    pub bytes_decoded: u64,
}

impl ReadCost {
    /// Returns how many bytes are decoded for each byte wanted.
    pub fn amplification(&self) -> f64 {
        self.bytes_decoded as f64 / self.bytes_wanted.max(1) as f64
    }
}

/// Returns what reading `wanted` elements at any place costs with chunks of `chunk_shape`.
pub fn read_cost(shape: &[u64], chunk_shape: &[u64], wanted: &[u64], item_bytes: u64) -> ReadCost {
    let lengths = shape.iter().zip(chunk_shape).zip(wanted);
    let chunks: f64 = lengths
        .map(|((&length, &chunk), &wanted)| {
            let (chunk, all) = (chunk.max(1), length.div_ceil(chunk.max(1)));
            // a read of w elements that begins anywhere meets 1 + (w - 1) / c chunks on average
            let met = if wanted >= length {
                all as f64
            } else {
                1.0 + wanted.saturating_sub(1) as f64 / chunk as f64
            };
            met.min(all as f64)
        })
        .product();
    let volume =
        |lengths: &[u64]| lengths.iter().map(|&length| length as f64).product::<f64>() * item_bytes as f64;
    ReadCost {
        bytes_wanted: rounded(volume(wanted)),
        chunks_touched: rounded(chunks),
        bytes_decoded: rounded(chunks * volume(chunk_shape)),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; it saturates")]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// Returns a chunk shape for reads of `wanted`: the read itself, brought to 1-16 MiB.
pub fn chunks_for(shape: &[u64], wanted: &[u64], item_bytes: u64) -> Vec<u64> {
    grown(shape, &shrunk(wanted, item_bytes, LARGEST_GOOD_BYTES), item_bytes, SMALLEST_GOOD_BYTES)
}

/// Returns the chunk shape with its longest dimensions halved until it decodes to at most `most` bytes.
pub fn shrunk(chunk_shape: &[u64], item_bytes: u64, most: u64) -> Vec<u64> {
    let mut chunk_shape = chunk_shape.to_vec();
    while bytes_of(&chunk_shape, item_bytes) > most {
        let longest = chunk_shape.iter_mut().max_by_key(|length| **length);
        let Some(longest) = longest.filter(|length| **length > 1) else { break };
        *longest = longest.div_ceil(2);
    }
    chunk_shape
}

/// Returns the chunk shape with its shortest dimensions doubled until it decodes to at least `least` bytes.
pub fn grown(shape: &[u64], chunk_shape: &[u64], item_bytes: u64, least: u64) -> Vec<u64> {
    let mut chunk_shape: Vec<u64> =
        chunk_shape.iter().zip(shape).map(|(&chunk, &length)| chunk.min(length.max(1))).collect();
    while bytes_of(&chunk_shape, item_bytes) < least {
        let growing = (0..shape.len()).rev().filter(|&dimension| chunk_shape[dimension] < shape[dimension]);
        let Some(shortest) = growing.min_by_key(|&dimension| chunk_shape[dimension]) else { break };
        chunk_shape[shortest] = chunk_shape[shortest].saturating_mul(2).min(shape[shortest]);
    }
    chunk_shape
}

fn bytes_of(chunk_shape: &[u64], item_bytes: u64) -> u64 {
    product(chunk_shape).unwrap_or(u64::MAX).saturating_mul(item_bytes.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: [u64; 3] = [8760, 721, 1440];
    const MAPS: [u64; 3] = [1, 721, 1440];

    fn named(names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| Some((*name).to_owned())).collect()
    }

    fn wanted(access: &str, names: &[&str]) -> Option<Vec<u64>> {
        let names = named(names);
        access.parse::<Access>().unwrap().wanted(Dimensions { shape: &SHAPE, names: Some(&names) })
    }

    #[test]
    fn every_access_parses_back() {
        for text in ["maps", "time-series", "points", "batch:time=4,latitude=64,longitude=-1"] {
            assert_eq!(text.parse::<Access>().unwrap().to_string(), text);
        }
        for text in ["", "map", "batch:", "batch:time", "batch:time=0", "batch:=4"] {
            assert!(text.parse::<Access>().is_err(), "{text}");
        }
    }

    #[test]
    fn dimensions_are_told_by_name_and_without_names_by_place() {
        let weather = ["time", "latitude", "longitude"];
        assert_eq!(wanted("maps", &weather).unwrap(), MAPS);
        assert_eq!(wanted("time-series", &weather).unwrap(), [8760, 1, 1]);
        assert_eq!(wanted("points", &weather).unwrap(), [1, 1, 1]);
        assert_eq!(wanted("batch:time=4,latitude=64", &weather).unwrap(), [4, 64, 1440]);
        assert_eq!(wanted("batch:level=4", &weather), None);
        assert_eq!(wanted("time-series", &["lat", "lon", "T"]).unwrap(), [1, 1, 1440]);
        assert_eq!(wanted("maps", &["a", "b", "c"]), None);
        let unnamed = Dimensions { shape: &SHAPE, names: None };
        assert_eq!(Access::Maps.wanted(unnamed).unwrap(), MAPS);
        assert_eq!(Access::TimeSeries.wanted(unnamed).unwrap(), [8760, 1, 1]);
        assert_eq!(Access::Points.wanted(Dimensions { shape: &[721], names: None }), None);
    }

    #[test]
    fn a_series_out_of_maps_decodes_everything() {
        let cost = read_cost(&SHAPE, &MAPS, &[8760, 1, 1], 4);
        assert_eq!((cost.chunks_touched, cost.bytes_wanted), (8760, 35_040));
        assert_eq!(cost.bytes_decoded, 8760 * 721 * 1440 * 4);
        assert!((cost.amplification() - 721.0 * 1440.0).abs() < 1.0);
        assert_eq!(read_cost(&SHAPE, &MAPS, &MAPS, 4).bytes_decoded, 721 * 1440 * 4);
    }

    #[test]
    fn reads_across_borders_count_on_average() {
        // 64 elements out of chunks of 64 begin inside a chunk 63 times of 64
        let cost = read_cost(&[6400], &[64], &[64], 1);
        assert_eq!((cost.chunks_touched, cost.bytes_decoded), (2, 127));
    }

    #[test]
    fn suggested_chunks_follow_the_read_and_have_a_good_size() {
        assert_eq!(chunks_for(&SHAPE, &MAPS, 4), MAPS);
        let series = chunks_for(&SHAPE, &[8760, 1, 1], 4);
        assert_eq!(series[0], 8760);
        for access in [&MAPS, &[8760, 1, 1], &[1, 1, 1], &SHAPE] {
            let bytes = bytes_of(&chunks_for(&SHAPE, access, 4), 4);
            assert!((SMALLEST_GOOD_BYTES..=LARGEST_GOOD_BYTES).contains(&bytes), "{access:?}: {bytes}");
        }
        assert_eq!(chunks_for(&[10], &[1], 4), [10]);
        assert_eq!(shrunk(&[u64::MAX, u64::MAX], 8, 16).len(), 2);
    }
}
