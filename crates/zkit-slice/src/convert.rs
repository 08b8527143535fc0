//! Values of one source written as another one writes them: times in other units, coordinates of another type, texts of
//! another width.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zkit_core::calendar::{Time, TimeUnits, since};
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::grid::Region;
use zkit_core::hierarchy::ArrayNode;
use zkit_core::metadata::{ArrayMetadata, DataType, FillValue, Json, ZarrFormat};
use zkit_core::read::ArrayReader;
use zkit_core::select::{Values, duration_unit};
use zkit_core::units::Bytes;

use crate::coordinates::Means;
use crate::literals::{Literal, Literals};
use crate::schema::{duration_units, text_width, time_units};
use crate::sources::Source;
use crate::variables::{Member, Variable, node};

/// Larger arrays are not converted: they would have to be held in memory.
const CONVERTED_BYTES_MOST: u64 = 64 << 20;

/// One number of an array.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Number {
    Whole(i128),
    Float(f64),
}

/// What numbers of an array count: times since some instant, or durations.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Count {
    Times(TimeUnits),
    /// Of so many nanoseconds each.
    Durations(i128),
}

/// A conversion that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Conversion {
    /// The array that the converted one will be like.
    model: Member,
    pub(crate) other: Member,
    /// The units that all sources are brought to, where those of the model do not hold all values.
    units: Option<Arc<NewUnits>>,
}

/// Units that no source has, or not the first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewUnits {
    count: Count,
    /// The attribute `units`.
    text: String,
}

/// Units of times and durations, the coarsest first.
const UNITS: [&str; 7] =
    ["days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds"];

/// Returns what is converted so that the arrays of all sources are alike; `pairs` are those that are not, each with the first
/// array of its variable.
///
/// Times keep the units of the first source where these hold the times of all exactly; else they get the coarsest finer
/// units that do. Bounds of times are converted with them.
pub(crate) fn plan(
    sources: &[Source],
    variables: &[Variable],
    pairs: Vec<(Member, Member)>,
    means: Means<'_>,
) -> Result<Vec<Conversion>> {
    let pairs = with_widest_texts(sources, variables, with_bounds(sources, variables, pairs));
    let mut conversions: Vec<Conversion> = Vec::with_capacity(pairs.len());
    let mut of_variable: BTreeMap<usize, Vec<(Member, Member)>> = BTreeMap::new();
    for pair in pairs {
        let at = variables.iter().position(|variable| variable.members.contains(&pair.1));
        of_variable.entry(at.unwrap_or(usize::MAX)).or_default().push(pair);
    }
    let mut new_units: BTreeMap<Member, Option<Arc<NewUnits>>> = BTreeMap::new();
    for (at, pairs) in of_variable {
        let variable = variables.get(at);
        let first = pairs[0].0;
        let counts = pairs.iter().any(|&(model, other)| {
            let pair = count_of(sources, model).zip(count_of(sources, other));
            pair.is_some_and(|(model, other)| model != other)
        });
        let Some(variable) = variable.filter(|_| counts) else {
            let plain = |(model, other)| Conversion { model, other, units: None };
            conversions.extend(pairs.into_iter().map(plain));
            continue;
        };
        // bounds and what they bound have the same units
        let owner = owner_of(sources, first).unwrap_or(first);
        let units = match new_units.get(&owner) {
            Some(units) => units.clone(),
            None => {
                let units = finer_units(sources, variables, owner, means)?.map(Arc::new);
                new_units.insert(owner, units.clone());
                units
            }
        };
        let members: Vec<Member> = match &units {
            Some(_) => variable.members.clone(),
            None => pairs.into_iter().map(|(_, other)| other).collect(),
        };
        conversions.extend(members.into_iter().map(|other| Conversion {
            model: first,
            other,
            units: units.clone(),
        }));
    }
    Ok(conversions)
}

/// Returns the units that hold the times of all sources exactly, those of bounds among them, where the first one's do not.
fn finer_units(
    sources: &[Source],
    variables: &[Variable],
    owner: Member,
    means: Means<'_>,
) -> Result<Option<NewUnits>> {
    let model = node(sources, owner);
    let (Some(own), Some(text)) =
        (count_of(sources, owner), model.metadata.attributes.get("units").and_then(Json::as_str))
    else {
        return Ok(None);
    };
    let mut instants: BTreeSet<i128> = BTreeSet::new();
    let bounded = bounds_of(model);
    let related = variables
        .iter()
        .filter(|variable| variable.members.contains(&owner) || bounded.contains(&variable.path));
    for &member in related.flat_map(|variable| &variable.members) {
        let Some(count) = count_of(sources, member) else { continue };
        let array = node(sources, member);
        check_size(sources, owner, member)?;
        let elements = read_whole(sources[member.source].store()?, array, means)?;
        instants.extend(numbers_of(array, &elements).flatten().filter_map(|number| count.decode(number)));
    }
    let data_type = &model.metadata.data_type;
    let holds = |count: &Count| instants.iter().all(|&instant| count.encode(instant, data_type).is_some());
    if holds(&own) {
        return Ok(None);
    }
    let found = UNITS.iter().find_map(|unit| {
        let (count, text) = match own {
            Count::Times(units) => {
                let text = format!("{unit} since {}", since(text)?.1);
                (Count::Times(TimeUnits::parse(&text, Some(units.calendar().name())).ok()?), text)
            }
            Count::Durations(_) => (Count::Durations(duration_unit(unit)?), (*unit).to_owned()),
        };
        holds(&count).then_some(NewUnits { count, text })
    });
    // where there is none, the conversion names the value
    Ok(found)
}

/// Returns the numbers of elements; `None` for those that are missing: NaN, the number for no time, and what attributes or the
/// fill value say.
fn numbers_of<'a>(array: &'a ArrayNode, elements: &'a [u8]) -> impl Iterator<Item = Option<Number>> + 'a {
    let metadata = &array.metadata;
    let width = usize::try_from(metadata.data_type.item_bytes().unwrap_or(1)).unwrap_or(1).max(1);
    let fill = match &metadata.fill_value {
        FillValue::Item(item) if metadata.format == ZarrFormat::V2 => Some(item.as_slice()),
        _ => None,
    };
    let masks: Vec<f64> = ["_FillValue", "missing_value"]
        .iter()
        .filter_map(|key| metadata.attributes.get(key)?.as_f64())
        .collect();
    let is_time = time_units(metadata).is_some() || duration_units(metadata).is_some();
    let is_missing = move |number: Number| match number {
        #[expect(clippy::cast_precision_loss, reason = "as readers compare them")]
        Number::Whole(whole) => is_time && whole == i128::from(i64::MIN) || masks.contains(&(whole as f64)),
        Number::Float(float) => float.is_nan() || masks.contains(&float),
    };
    elements.chunks_exact(width).map(move |item| {
        let number = decode(item, &metadata.data_type).filter(|_| fill != Some(item));
        number.filter(|number| !is_missing(*number))
    })
}

impl Count {
    /// Returns the nanoseconds that a number stands for.
    fn decode(self, number: Number) -> Option<i128> {
        match (self, number) {
            (Self::Times(units), Number::Whole(count)) => units.decode_wide(count).map(Time::nanoseconds),
            (Self::Times(units), Number::Float(count)) => units.decode_float(count).map(Time::nanoseconds),
            (Self::Durations(unit), Number::Whole(count)) => count.checked_mul(unit),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                reason = "rounded to nanoseconds"
            )]
            (Self::Durations(unit), Number::Float(count)) => Some((count * unit as f64).round() as i128),
        }
    }

    /// Returns the element that stands for so many nanoseconds, if that is exact.
    fn encode(self, nanoseconds: i128, data_type: &DataType) -> Option<Vec<u8>> {
        let float = matches!(data_type, DataType::Float(_));
        let number = match self {
            Self::Times(units) => {
                let time = Time::from_nanoseconds(nanoseconds)?;
                if float {
                    Number::Float(units.encode_float(time))
                } else {
                    Number::Whole(i128::from(units.encode(time)?))
                }
            }
            #[expect(clippy::cast_precision_loss, reason = "checked below")]
            Self::Durations(unit) if float => Number::Float(nanoseconds as f64 / unit as f64),
            Self::Durations(unit) => {
                Number::Whole(Some(nanoseconds / unit).filter(|_| nanoseconds % unit == 0)?)
            }
        };
        let encoded = encode(number, data_type)?;
        // rounded as readers round it, it must be that time
        (decode(&encoded, data_type).and_then(|number| self.decode(number)) == Some(nanoseconds))
            .then_some(encoded)
    }

    /// Returns what a number stands for, in words.
    fn show(self, number: Number) -> String {
        let nanoseconds = self.decode(number);
        let shown = match self {
            Self::Times(units) => {
                nanoseconds.and_then(Time::from_nanoseconds).map(|time| time.show(units.calendar()))
            }
            Self::Durations(_) => nanoseconds.map(|nanoseconds| Values::Durations(vec![nanoseconds]).show(0)),
        };
        shown.unwrap_or_else(|| show(number))
    }
}

fn refused(sources: &[Source], model: Member, other: Member, what: &str) -> Error {
    let message = format!(
        "could not write `{}` of {} as {} does: {what}",
        node(sources, other).path,
        sources[other.source].url(),
        sources[model.source].url()
    );
    Error::new(ErrorKind::Unsupported, message).with_hint("slice them apart, or --exclude the array")
}

fn check_size(sources: &[Source], model: Member, other: Member) -> Result<()> {
    let bytes = node(sources, other).metadata.decoded_bytes().unwrap_or(u64::MAX);
    if bytes > CONVERTED_BYTES_MOST {
        let (size, most) = (Bytes(bytes), Bytes(CONVERTED_BYTES_MOST));
        let what = format!("it holds {size}, arrays of up to {most} are converted");
        return Err(refused(sources, model, other, &what));
    }
    Ok(())
}

/// Returns an array that holds what another does as its model would write it: exactly, or not at all.
///
/// Errors: `Unsupported` where the array is large or packed, or a number has no exact form there.
pub(crate) fn like(
    sources: &[Source],
    conversion: &Conversion,
    literals: &mut Literals,
    means: Means<'_>,
) -> Result<ArrayNode> {
    let (first, other) = (conversion.model, conversion.other);
    let (model, array) = (node(sources, first), node(sources, other));
    check_size(sources, first, other)?;
    let packed = |array: &ArrayNode| {
        ["scale_factor", "add_offset"].iter().any(|key| array.metadata.attributes.get(key).is_some())
    };
    if packed(array) || packed(model) {
        return Err(refused(sources, first, other, "it is packed"));
    }
    let elements = read_whole(sources[other.source].store()?, array, means)?;
    if text_width(&model.metadata.data_type).is_some() {
        let width = usize::try_from(array.metadata.data_type.item_bytes().unwrap_or(1)).unwrap_or(1).max(1);
        let bytes = wider(&elements, width, &model.metadata.data_type);
        return literal(sources, conversion, bytes, literals);
    }
    let to = conversion.units.as_ref().map(|units| units.count).or_else(|| count_of(sources, first));
    let counts = to.zip(count_of(sources, other)).filter(|(to, from)| to != from);
    let data_type = &model.metadata.data_type;
    let mut converted = Vec::new();
    let width = usize::try_from(array.metadata.data_type.item_bytes().unwrap_or(1)).unwrap_or(1).max(1);
    for (item, counted) in elements.chunks_exact(width).zip(numbers_of(array, &elements)) {
        let encoded = match (counted, counts) {
            (Some(number), Some((to, from))) => {
                from.decode(number).and_then(|nanoseconds| to.encode(nanoseconds, data_type))
            }
            // what is missing stays missing, as far as both say it alike
            _ => decode(item, &array.metadata.data_type).and_then(|number| encode(number, data_type)),
        };
        let Some(encoded) = encoded else {
            let shown = counted.map_or_else(String::new, |number| {
                counts.map_or_else(|| show(number), |(_, from)| from.show(number))
            });
            let what = format!("{shown} has no exact form as {data_type} there");
            return Err(refused(sources, first, other, &what));
        };
        converted.extend(encoded);
    }
    literal(sources, conversion, converted, literals)
}

/// Adds converted values as an array that is like the model.
fn literal(
    sources: &[Source],
    conversion: &Conversion,
    bytes: Vec<u8>,
    literals: &mut Literals,
) -> Result<ArrayNode> {
    let other = conversion.other;
    let (model, array) = (node(sources, conversion.model), node(sources, other));
    let mut attributes = model.metadata.attributes.clone();
    if let (Some(units), Some(_)) = (&conversion.units, attributes.get("units")) {
        attributes.set("units", Json::string(&units.text));
    }
    let axes = &sources[other.source].axes;
    let own = axes.keys_of(other.array).filter(|key| axes.is_stored(key));
    let names: Vec<String> = own.map(|key| key.name.clone()).collect();
    let key = "fill_value";
    literals.add(Literal {
        path: &array.path,
        format: model.metadata.format,
        shape: array.metadata.shape(),
        dimension_names: &names,
        data_type: &model.metadata.data_type,
        fill_value: model.metadata.document.get(key).cloned().unwrap_or(Json::Null),
        attributes,
        bytes,
    })
}

/// Returns texts of some width with the room that a wider type has for them.
fn wider(elements: &[u8], width: usize, data_type: &DataType) -> Vec<u8> {
    let wide = usize::try_from(data_type.item_bytes().unwrap_or(1)).unwrap_or(width);
    let mut bytes = Vec::with_capacity(elements.len() / width * wide);
    for text in elements.chunks_exact(width) {
        bytes.extend_from_slice(&text[..width.min(wide)]);
        bytes.resize(bytes.len() + wide.saturating_sub(width), 0);
    }
    bytes
}

/// Returns what is converted, of texts of different widths all but the widest, to that.
fn with_widest_texts(
    sources: &[Source],
    variables: &[Variable],
    mut pairs: Vec<(Member, Member)>,
) -> Vec<(Member, Member)> {
    let width = |member: &Member| text_width(&node(sources, *member).metadata.data_type);
    let firsts: BTreeSet<usize> = (0..variables.len())
        .filter(|&at| {
            pairs.iter().any(|(first, _)| variables[at].members[0] == *first && width(first).is_some())
        })
        .collect();
    pairs.retain(|(first, _)| width(first).is_none());
    for members in firsts.into_iter().map(|at| &variables[at].members) {
        let Some(widest) = members.iter().copied().max_by_key(width) else { continue };
        let narrower = members.iter().copied().filter(|member| width(member) < width(&widest));
        pairs.extend(narrower.map(|member| (widest, member)));
    }
    pairs
}

/// Returns what the numbers of an array count: by its own units, or by those of the coordinate that it bounds. Source: CF
/// conventions, section 7.1.
fn count_of(sources: &[Source], member: Member) -> Option<Count> {
    let array = node(sources, member);
    let own = |metadata: &ArrayMetadata| {
        time_units(metadata).map(Count::Times).or_else(|| duration_units(metadata).map(Count::Durations))
    };
    own(&array.metadata).or_else(|| own(&bounded(&sources[member.source], array)?.metadata))
}

/// Returns the coordinate that an array bounds.
fn owner_of(sources: &[Source], bounds: Member) -> Option<Member> {
    let array = node(sources, bounds);
    if array.metadata.attributes.get("units").is_some() {
        return None;
    }
    let owner = &bounded(&sources[bounds.source], array)?.path;
    let source = &sources[bounds.source];
    let array = source.taken.iter().copied().find(|&at| source.array(at).path == *owner)?;
    Some(Member { source: bounds.source, array })
}

/// Returns the paths of the arrays that bound a coordinate.
fn bounds_of(array: &ArrayNode) -> Vec<String> {
    let (group, _) = array.path.rsplit_once('/').unwrap_or_default();
    let names =
        ["bounds", "climatology"].map(|key| array.metadata.attributes.get(key).and_then(Json::as_str));
    names.into_iter().flatten().map(|name| format!("{group}/{name}")).collect()
}

/// Returns the array whose bounds another one holds, where it says so.
fn bounded<'a>(source: &'a Source, bounds: &ArrayNode) -> Option<&'a ArrayNode> {
    let (group, name) = bounds.path.rsplit_once('/')?;
    let names_it = |array: &&ArrayNode| {
        array.path.rsplit_once('/').is_some_and(|(other, _)| other == group)
            && ["bounds", "climatology"].iter().any(|key| {
                array.metadata.attributes.get(key).and_then(Json::as_str).is_some_and(|text| text == name)
            })
    };
    source.arrays.iter().map(|array| &**array).find(names_it)
}

/// Returns the bounds of times that are converted, which have no units of their own: they are converted likewise.
fn with_bounds(
    sources: &[Source],
    variables: &[Variable],
    mut pairs: Vec<(Member, Member)>,
) -> Vec<(Member, Member)> {
    let mut more = Vec::new();
    for &(first, other) in &pairs {
        let array = node(sources, other);
        for path in bounds_of(array) {
            let Some(variable) = variables.iter().find(|variable| variable.path == path) else { continue };
            let of = |source: usize| variable.members.iter().copied().find(|member| member.source == source);
            let own = |member: &Member| time_units(&node(sources, *member).metadata).is_some();
            if let (Some(first), Some(other)) = (of(first.source), of(other.source))
                && !own(&first)
                && !own(&other)
            {
                more.push((first, other));
            }
        }
    }
    more.retain(|pair| !pairs.contains(pair));
    pairs.extend(more);
    pairs
}

fn read_whole(store: &zkit_core::store::Store, array: &ArrayNode, means: Means<'_>) -> Result<Vec<u8>> {
    let region = Region::whole(array.metadata.shape());
    let bytes = array.metadata.decoded_bytes().unwrap_or(0);
    let mut elements = vec![0; usize::try_from(bytes).unwrap_or(0)];
    ArrayReader::new(store, array, means.resources.memory_bytes / 4)?.read_region(
        &region,
        &mut elements,
        means.context(),
    )?;
    Ok(elements)
}

fn show(number: Number) -> String {
    match number {
        Number::Whole(number) => number.to_string(),
        Number::Float(number) => number.to_string(),
    }
}

/// Returns the number of a canonical element.
fn decode(item: &[u8], data_type: &DataType) -> Option<Number> {
    let mut wide = [0u8; 16];
    wide.get_mut(..item.len())?.copy_from_slice(item);
    Some(match data_type {
        DataType::UInt(_) => Number::Whole(i128::from_le_bytes(wide)),
        DataType::Int(width) => {
            let shift = 128 - u32::from(*width) * 8;
            Number::Whole(i128::from_le_bytes(wide).checked_shl(shift)? >> shift)
        }
        DataType::Float(4) => Number::Float(f64::from(f32::from_le_bytes(item.try_into().ok()?))),
        DataType::Float(8) => Number::Float(f64::from_le_bytes(item.try_into().ok()?)),
        _ => return None,
    })
}

/// Returns a number as an element of a type, if that is exact.
fn encode(number: Number, data_type: &DataType) -> Option<Vec<u8>> {
    match (data_type, number) {
        (DataType::Int(width) | DataType::UInt(width), number) => {
            let whole = match number {
                Number::Whole(whole) => whole,
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
                Number::Float(float) if float.fract() == 0.0 && float.abs() < 1e18 => float as i128,
                Number::Float(_) => return None,
            };
            let bytes = whole.to_le_bytes()[..usize::from(*width)].to_vec();
            (decode(&bytes, data_type) == Some(Number::Whole(whole))).then_some(bytes)
        }
        (DataType::Float(width), number) => {
            let float = match number {
                Number::Float(float) => float,
                #[expect(clippy::cast_precision_loss, reason = "compared below")]
                Number::Whole(whole) => Some(whole as f64).filter(|float| exactly(*float, whole))?,
            };
            if *width == 8 {
                return Some(float.to_le_bytes().to_vec());
            }
            #[expect(clippy::cast_possible_truncation, reason = "compared below")]
            let narrow = float as f32;
            (f64::from(narrow) == float || float.is_nan()).then(|| narrow.to_le_bytes().to_vec())
        }
        _ => None,
    }
}

fn exactly(float: f64, whole: i128) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "saturates, and then differs")]
    let back = float as i128;
    back == whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_converted_exactly_or_not_at_all() {
        let int = DataType::Int(2);
        assert_eq!(encode(Number::Whole(-2), &int).unwrap(), (-2i16).to_le_bytes());
        assert_eq!(encode(Number::Whole(40_000), &int), None);
        assert_eq!(encode(Number::Float(1.5), &int), None);
        assert_eq!(encode(Number::Float(3.0), &DataType::UInt(1)), Some(vec![3]));
        assert_eq!(encode(Number::Whole(-1), &DataType::UInt(8)), None);
        assert_eq!(encode(Number::Float(0.1), &DataType::Float(4)), None);
        assert_eq!(encode(Number::Whole((1 << 53) + 1), &DataType::Float(8)), None);
        assert_eq!(decode(&(-5i32).to_le_bytes(), &DataType::Int(4)), Some(Number::Whole(-5)));
    }

    #[test]
    fn times_move_to_other_units_exactly_or_not_at_all() {
        let units = |text: &str| Count::Times(TimeUnits::parse(text, None).unwrap());
        let (hours, days) = (units("hours since 2000-01-01"), units("days since 2000-01-02"));
        let moved =
            |count: i128, data_type: &DataType| days.encode(hours.decode(Number::Whole(count))?, data_type);
        let int = DataType::Int(8);
        assert_eq!(moved(48, &int).unwrap(), 1i64.to_le_bytes());
        assert_eq!(moved(49, &int), None);
        assert_eq!(moved(36, &DataType::Float(8)).unwrap(), 0.5f64.to_le_bytes());
        assert_eq!(hours.show(Number::Whole(49)), "2000-01-03T01:00");
        let minutes = Count::Durations(60_000_000_000);
        assert_eq!(minutes.encode(120_000_000_000, &int).unwrap(), 2i64.to_le_bytes());
        assert_eq!(minutes.encode(90_000_000_000, &int), None);
    }
}
