//! Reading a coordinate: its elements, then what attributes make of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use half::f16;

use super::coordinate::{Axis, Coordinate, Values};
use super::target::duration_unit;
use crate::calendar::{Calendar, NumpyUnit, TimeUnits, since};
use crate::codec::VariableElements;
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::grid::Region;
use crate::hierarchy::{ArrayNode, Hierarchy};
use crate::metadata::{DataType, FillValue, Json, TimeKind, ZarrFormat};
use crate::read::{ArrayReader, Line, LineElements, ReadContext};
use crate::store::Store;
use crate::units::{Bytes, saturating_usize};

/// Decoded values take so many times the bytes of elements, at most.
const GROWTH: u64 = 8;
/// Elements without fixed size are taken to need so many bytes.
const VARIABLE_ITEM_BYTES: u64 = 32;

/// Returns whether an array is a coordinate: of one dimension, and named like it.
pub fn is_coordinate(node: &ArrayNode) -> bool {
    let name = node.path.rsplit('/').next();
    match node.metadata.dimension_names.as_deref() {
        Some([Some(dimension)]) => name == Some(dimension),
        _ => false,
    }
}

/// Returns the coordinates of a store, sorted by path.
pub fn coordinate_nodes(hierarchy: &Hierarchy) -> impl Iterator<Item = &ArrayNode> {
    hierarchy.arrays.iter().filter(|node| is_coordinate(node))
}

/// Reads an array of one dimension, or of none, as a coordinate: unpacked, times decoded, fill values and unwritten elements
/// missing.
///
/// Times that no calendar holds are missing too; units that are not understood leave numbers as they are. An absent chunk of
/// a single element is taken for the fill value that it stands for. Memory: a few times the elements, which may take an
/// eighth of `limit_bytes`. Errors: `OverBudget` beyond that, `Unsupported` for types that are no coordinates, `Usage` for
/// other ranks.
pub fn read_coordinate(
    store: &Store,
    node: &ArrayNode,
    limit_bytes: u64,
    context: ReadContext<'_>,
) -> Result<Coordinate> {
    let at = || format!("could not read the coordinate `{}` of {}", node.path, store.place());
    let limit = limit_bytes / GROWTH;
    let line = ArrayReader::new(store, node, limit).and_then(|reader| reader.read_line(limit, context));
    line.and_then(|line| decode(node, line)).context(at)
}

/// Reads a region of an array of any rank as readers decode it, in C order: unpacked, times decoded, fill values missing.
///
/// Unwritten elements are the fill value. Memory: a few times the elements, which may take an eighth of `limit_bytes`.
/// Errors: `OverBudget` beyond that, `Unsupported` for types that are neither numbers, times nor texts.
pub fn read_decoded(
    store: &Store,
    node: &ArrayNode,
    region: &Region,
    limit_bytes: u64,
    context: ReadContext<'_>,
) -> Result<Coordinate> {
    let at = || format!("could not read `{}` of {}", node.path, store.place());
    let limit = limit_bytes / GROWTH;
    let count = region.elements().unwrap_or(u64::MAX);
    let bytes = count.saturating_mul(node.metadata.data_type.item_bytes().unwrap_or(VARIABLE_ITEM_BYTES));
    if bytes > limit {
        let message = format!("it holds {}, {} allowed", Bytes(bytes), Bytes(limit));
        return Err(Error::new(ErrorKind::OverBudget, message).context(at()));
    }
    let reader = ArrayReader::new(store, node, limit_bytes).context(at)?;
    let elements = match reader.item_bytes() {
        Some(_) => {
            let mut elements = vec![0; saturating_usize(bytes)];
            reader.read_region(region, &mut elements, context).context(at)?;
            LineElements::Fixed(elements)
        }
        None => {
            let mut elements = VariableElements::default();
            reader.visit_variable(region, context, &mut |element| elements.push(element)).context(at)?;
            LineElements::Variable(elements)
        }
    };
    decode(node, Line { elements, absent: Vec::new() }).context(at)
}

/// The attributes that change what elements mean.
struct Meaning<'a> {
    node: &'a ArrayNode,
    units: Option<&'a str>,
    scale: Option<f64>,
    offset: Option<f64>,
}

impl<'a> Meaning<'a> {
    fn of(node: &'a ArrayNode) -> Self {
        let attributes = &node.metadata.attributes;
        Self {
            node,
            units: attributes.get("units").and_then(Json::as_str),
            scale: attributes.get("scale_factor").and_then(number_of),
            offset: attributes.get("add_offset").and_then(number_of),
        }
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.node.metadata.attributes.get(key).and_then(Json::as_str)
    }

    /// Returns the nanoseconds of the unit that durations are counted in, where the elements are durations.
    fn duration_unit(&self) -> Option<i128> {
        let durations = self.text("dtype")?.starts_with("timedelta64");
        durations.then_some(self.units).flatten().and_then(duration_unit)
    }

    fn is_packed(&self) -> bool {
        self.scale.is_some() || self.offset.is_some()
    }

    fn unpack(&self, value: f64) -> f64 {
        value * self.scale.unwrap_or(1.0) + self.offset.unwrap_or(0.0)
    }
}

/// Returns a number, or the first of a list of one: netCDF attributes are lists.
fn number_of(json: &Json) -> Option<f64> {
    match json {
        Json::Array(values) => values.first().and_then(Json::as_f64),
        value => value.as_f64(),
    }
}

fn decode(node: &ArrayNode, line: Line) -> Result<Coordinate> {
    let meaning = Meaning::of(node);
    let absent: u64 = line.absent.iter().map(|range| range.end - range.start).sum();
    let (values, mut missing) = match line.elements {
        LineElements::Variable(elements) => (texts(node, elements)?, Vec::new()),
        LineElements::Fixed(bytes) => fixed(&meaning, &bytes)?,
    };
    // one absent element may well be the fill value that it stands for
    let unwritten = if absent > 1 { absent } else { 0 };
    if unwritten > 0 {
        missing.resize(values.len(), false);
        for range in &line.absent {
            let range = saturating_usize(range.start)..saturating_usize(range.end);
            if let Some(run) = missing.get_mut(range) {
                run.fill(true);
            }
        }
    }
    if !missing.contains(&true) {
        missing = Vec::new();
    }
    let mut coordinate = Coordinate {
        path: node.path.clone(),
        axis: axis_of(&meaning, &values),
        values,
        units: meaning.units.map(str::to_owned),
        time_units: None,
        missing,
        unwritten,
    };
    if matches!(coordinate.values, Values::Times { .. }) {
        coordinate.time_units = time_units(&meaning);
    }
    Ok(coordinate)
}

fn texts(node: &ArrayNode, elements: VariableElements) -> Result<Values> {
    match node.metadata.data_type {
        DataType::String | DataType::Bytes => Ok(Values::Texts(elements)),
        _ => Err(no_coordinate(node)),
    }
}

fn no_coordinate(node: &ArrayNode) -> Error {
    let message =
        format!("elements of type {} are neither numbers, times nor texts", node.metadata.data_type);
    Error::new(ErrorKind::Unsupported, message)
}

/// Decodes elements of fixed size; returns them and which are missing.
fn fixed(meaning: &Meaning<'_>, bytes: &[u8]) -> Result<(Values, Vec<bool>)> {
    let (values, missing) = undecoded(meaning, bytes)?;
    Ok((as_durations(meaning, &values).unwrap_or(values), missing))
}

/// Returns numbers as durations where attributes say that they are: xarray's form of timedelta64 is integers or floats with
/// the attribute `dtype`. `None` where they are none, or no whole nanoseconds.
fn as_durations(meaning: &Meaning<'_>, values: &Values) -> Option<Values> {
    let unit = meaning.duration_unit()?;
    let of = |count: i128| count.checked_mul(unit);
    Some(Values::Durations(match values {
        Values::Ints(counts) => counts.iter().map(|&count| of(i128::from(count))).collect::<Option<_>>()?,
        Values::UInts(counts) => counts.iter().map(|&count| of(i128::from(count))).collect::<Option<_>>()?,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "rounded to nanoseconds"
        )]
        Values::Floats { values, .. } => {
            values.iter().map(|count| (count * unit as f64).round() as i128).collect()
        }
        Values::Times { .. } | Values::Durations(_) | Values::Texts(_) => return None,
    }))
}

fn undecoded(meaning: &Meaning<'_>, bytes: &[u8]) -> Result<(Values, Vec<bool>)> {
    let data_type = &meaning.node.metadata.data_type;
    match data_type {
        DataType::Bool | DataType::Int(_) => {
            let width = data_type.item_bytes().unwrap_or(1);
            Ok(integers(meaning, elements(bytes, width).map(|item| i128::from(signed(item)))))
        }
        DataType::UInt(width) => {
            let values = elements(bytes, u64::from(*width)).map(|item| i128::from(unsigned(item)));
            Ok(integers(meaning, values))
        }
        DataType::Float(width) => {
            let values = elements(bytes, u64::from(*width)).map(float).collect();
            Ok(floats(meaning, values, *width < 8))
        }
        DataType::Time { kind, unit, scale } => {
            let counts: Vec<i64> = elements(bytes, 8).map(signed).collect();
            Ok(numpy_times(counts, *kind, NumpyUnit::parse(unit, *scale)))
        }
        DataType::FixedBytes(width) => {
            let mut texts = VariableElements::default();
            for item in elements(bytes, *width) {
                let length = item.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                texts.push(&item[..length]);
            }
            Ok((Values::Texts(texts), Vec::new()))
        }
        DataType::FixedUtf32(characters) => {
            let mut texts = VariableElements::default();
            for item in elements(bytes, characters.saturating_mul(4)) {
                let text: String = item
                    .chunks_exact(4)
                    .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
                    .map(|code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect();
                texts.push(text.trim_end_matches('\0').as_bytes());
            }
            Ok((Values::Texts(texts), Vec::new()))
        }
        _ => Err(no_coordinate(meaning.node)),
    }
}

/// Returns the elements of a run; none where they have no bytes.
fn elements(bytes: &[u8], width: u64) -> std::slice::ChunksExact<'_, u8> {
    let width = saturating_usize(width);
    if width == 0 { [].chunks_exact(1) } else { bytes.chunks_exact(width) }
}

/// Returns a little-endian integer of 1, 2, 4 or 8 bytes.
fn signed(item: &[u8]) -> i64 {
    let negative = item.last().is_some_and(|&byte| byte >= 0x80);
    let mut wide = if negative { [0xff; 8] } else { [0; 8] };
    wide[..item.len().min(8)].copy_from_slice(&item[..item.len().min(8)]);
    i64::from_le_bytes(wide)
}

fn unsigned(item: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..item.len().min(8)].copy_from_slice(&item[..item.len().min(8)]);
    u64::from_le_bytes(wide)
}

fn float(item: &[u8]) -> f64 {
    match *item {
        [a, b] => f16::from_le_bytes([a, b]).to_f64(),
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => f64::NAN,
    }
}

/// Returns the units of an array whose numbers are times; `None` where they are none or cannot be understood.
fn time_units(meaning: &Meaning<'_>) -> Option<TimeUnits> {
    let units = meaning.units.filter(|units| since(units).is_some())?;
    TimeUnits::parse(units, meaning.text("calendar")).ok()
}

fn integers(
    meaning: &Meaning<'_>,
    values: impl ExactSizeIterator<Item = i128> + Clone,
) -> (Values, Vec<bool>) {
    let masked = masked_numbers(meaning.node);
    #[expect(
        clippy::cast_precision_loss,
        reason = "masks are compared as the numbers that they were written as"
    )]
    let is_masked = |value: i128| masked.iter().any(|mask| mask.is(value, value as f64));
    if let Some(units) = time_units(meaning) {
        let decode = |value: i128| {
            #[expect(clippy::cast_precision_loss, reason = "packed values are floats")]
            let time = match meaning.is_packed() {
                true => units.decode_float(meaning.unpack(value as f64)),
                false => units.decode_wide(value).filter(|_| value != i128::from(i64::MIN)),
            };
            time.filter(|_| !is_masked(value)).map(|time| time.nanoseconds())
        };
        return times(values.map(decode), units.calendar());
    }
    let missing: Vec<bool> =
        if masked.is_empty() { Vec::new() } else { values.clone().map(is_masked).collect() };
    if meaning.is_packed() {
        #[expect(clippy::cast_precision_loss, reason = "packed values are floats")]
        let values: Vec<f64> = values.map(|value| meaning.unpack(value as f64)).collect();
        return (Values::Floats { values, single: false }, missing);
    }
    let narrow: Option<Vec<i64>> = values.clone().map(|value| i64::try_from(value).ok()).collect();
    let values = match narrow {
        Some(values) => Values::Ints(values),
        // elements have at most 64 bits
        None => Values::UInts(values.map(|value| u64::try_from(value).unwrap_or(0)).collect()),
    };
    (values, missing)
}

fn floats(meaning: &Meaning<'_>, values: Vec<f64>, single: bool) -> (Values, Vec<bool>) {
    let masked = masked_numbers(meaning.node);
    let is_missing = |value: f64| value.is_nan() || masked.iter().any(|mask| mask.is_float(value, single));
    if let Some(units) = time_units(meaning) {
        let decode = |value: f64| {
            let time = units.decode_float(meaning.unpack(value)).filter(|_| !is_missing(value));
            time.map(|time| time.nanoseconds())
        };
        return times(values.into_iter().map(decode), units.calendar());
    }
    let missing = values.iter().map(|&value| is_missing(value)).collect();
    if !meaning.is_packed() {
        return (Values::Floats { values, single }, missing);
    }
    let values = values.into_iter().map(|value| meaning.unpack(value)).collect();
    (Values::Floats { values, single: false }, missing)
}

fn times(decoded: impl ExactSizeIterator<Item = Option<i128>>, calendar: Calendar) -> (Values, Vec<bool>) {
    let mut missing = Vec::with_capacity(decoded.len());
    let mut values = Vec::with_capacity(decoded.len());
    for time in decoded {
        missing.push(time.is_none());
        values.push(time.unwrap_or_default());
    }
    (Values::Times { values, calendar }, missing)
}

/// Decodes `datetime64` and `timedelta64`; counts of units that are no whole nanoseconds stay counts.
fn numpy_times(counts: Vec<i64>, kind: TimeKind, unit: Option<NumpyUnit>) -> (Values, Vec<bool>) {
    let missing: Vec<bool> = counts.iter().map(|&count| NumpyUnit::is_missing(count)).collect();
    let decoded = unit.and_then(|unit| {
        let decode = |&count: &i64| match kind {
            _ if NumpyUnit::is_missing(count) => Some(0),
            TimeKind::DateTime => unit.time(count).map(|time| time.nanoseconds()),
            TimeKind::TimeDelta => unit.duration(count),
        };
        counts.iter().map(decode).collect::<Option<Vec<i128>>>()
    });
    let values = match (decoded, kind) {
        (Some(values), TimeKind::DateTime) => {
            Values::Times { values, calendar: Calendar::ProlepticGregorian }
        }
        (Some(values), TimeKind::TimeDelta) => Values::Durations(values),
        (None, _) => Values::Ints(counts),
    };
    (values, missing)
}

/// A stored number that stands for a missing value.
enum Mask {
    Integer(i128),
    Float(f64),
}

impl Mask {
    fn is(&self, integer: i128, float: f64) -> bool {
        match *self {
            Self::Integer(mask) => mask == integer,
            Self::Float(mask) => mask == float,
        }
    }

    fn is_float(&self, value: f64, single: bool) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "as readers compare them")]
        let mask = match *self {
            Self::Integer(mask) => mask as f64,
            Self::Float(mask) => mask,
        };
        #[expect(clippy::cast_possible_truncation, reason = "as readers compare them")]
        let same = mask == value || single && f64::from(mask as f32) == value;
        same
    }
}

/// Returns the numbers that readers take for missing: `_FillValue`, `missing_value`, and the fill value of v2.
///
/// A v2 fill value of zero is none: it is what writers put who never thought of one, and coordinates do hold zeros.
fn masked_numbers(node: &ArrayNode) -> Vec<Mask> {
    let metadata = &node.metadata;
    let mut masks: Vec<Mask> = Vec::new();
    for key in ["_FillValue", "missing_value"] {
        match metadata.attributes.get(key) {
            Some(Json::Array(values)) => masks.extend(values.iter().filter_map(mask)),
            Some(value) => masks.extend(mask(value)),
            None => {}
        }
    }
    if let (ZarrFormat::V2, FillValue::Item(item)) = (metadata.format, &metadata.fill_value)
        && item.iter().any(|&byte| byte != 0)
    {
        masks.extend(match metadata.data_type {
            DataType::Int(_) => Some(Mask::Integer(i128::from(signed(item)))),
            DataType::UInt(_) => Some(Mask::Integer(i128::from(unsigned(item)))),
            DataType::Float(_) => Some(Mask::Float(float(item))),
            _ => None,
        });
    }
    masks
}

fn mask(json: &Json) -> Option<Mask> {
    match json {
        // xarray's form of floats in v3: base64 of a little-endian float64
        Json::String(text) => {
            let bytes: [u8; 8] = BASE64.decode(text).ok()?.try_into().ok()?;
            Some(Mask::Float(f64::from_le_bytes(bytes)))
        }
        number => number.as_integer().map(Mask::Integer).or_else(|| number.as_f64().map(Mask::Float)),
    }
}

/// Returns what a coordinate runs along: by CF attributes, else by name. Source: CF conventions, section 4.
fn axis_of(meaning: &Meaning<'_>, values: &Values) -> Axis {
    if matches!(values, Values::Times { .. }) {
        return Axis::Time;
    }
    if matches!(values, Values::Texts(_) | Values::Durations(_)) {
        return Axis::Other;
    }
    let units = meaning.units.unwrap_or_default();
    match units {
        "degrees_east" | "degree_east" | "degree_E" | "degrees_E" | "degreeE" | "degreesE" => {
            return Axis::Longitude;
        }
        "degrees_north" | "degree_north" | "degree_N" | "degrees_N" | "degreeN" | "degreesN" => {
            return Axis::Latitude;
        }
        _ => {}
    }
    match meaning.text("standard_name").unwrap_or_default() {
        "longitude" => return Axis::Longitude,
        "latitude" => return Axis::Latitude,
        "projection_x_coordinate" | "projection_y_coordinate" | "grid_longitude" | "grid_latitude" => {
            return Axis::Horizontal;
        }
        "height" | "altitude" | "depth" | "air_pressure" | "model_level_number" => return Axis::Vertical,
        _ => {}
    }
    let name = meaning.node.path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let metres = units.is_empty() || units.starts_with("degree") || units == "m" || units.starts_with("met");
    match name.as_str() {
        "lon" | "lons" | "longitude" | "longitudes" | "lng" if !units.starts_with('m') => {
            return Axis::Longitude;
        }
        "lat" | "lats" | "latitude" | "latitudes" if !units.starts_with('m') => return Axis::Latitude,
        "x" | "y" | "easting" | "northing" | "xc" | "yc" if metres => return Axis::Horizontal,
        _ => {}
    }
    let positive = meaning.text("positive").is_some();
    match (meaning.text("axis").unwrap_or_default(), positive) {
        ("X" | "x" | "Y" | "y", _) => Axis::Horizontal,
        ("Z" | "z", _) | (_, true) => Axis::Vertical,
        _ if matches!(name.as_str(), "level" | "lev" | "depth" | "height" | "plev" | "pressure" | "z") => {
            Axis::Vertical
        }
        _ => Axis::Other,
    }
}
