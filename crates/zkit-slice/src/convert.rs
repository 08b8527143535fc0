//! Values of one source written as another one writes them: times in other units, coordinates of another type, texts of
//! another width.

use std::collections::BTreeSet;

use zkit_core::calendar::TimeUnits;
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::grid::Region;
use zkit_core::hierarchy::ArrayNode;
use zkit_core::metadata::{DataType, FillValue, Json};
use zkit_core::read::ArrayReader;
use zkit_core::units::Bytes;

use crate::coordinates::Means;
use crate::literals::{Literal, Literals};
use crate::schema::{text_width, time_units};
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

/// Returns an array that holds what `other` does as `first` would write it: exactly, or not at all.
///
/// Errors: `Unsupported` where the array is large or packed, or a number has no exact form there.
pub(crate) fn like(
    sources: &[Source],
    (first, other): (Member, Member),
    literals: &mut Literals,
    means: Means<'_>,
) -> Result<ArrayNode> {
    let (model, array) = (node(sources, first), node(sources, other));
    let refuse = |what: String| {
        let message = format!(
            "could not write `{}` of {} as {} does: {what}",
            array.path,
            sources[other.source].url(),
            sources[first.source].url()
        );
        Error::new(ErrorKind::Unsupported, message).with_hint("slice them apart, or --exclude the array")
    };
    let bytes = array.metadata.decoded_bytes().unwrap_or(u64::MAX);
    if bytes > CONVERTED_BYTES_MOST {
        let (size, most) = (Bytes(bytes), Bytes(CONVERTED_BYTES_MOST));
        return Err(refuse(format!("it holds {size}, arrays of up to {most} are converted")));
    }
    let packed = |array: &ArrayNode| {
        ["scale_factor", "add_offset"].iter().any(|key| array.metadata.attributes.get(key).is_some())
    };
    if packed(array) || packed(model) {
        return Err(refuse("it is packed".to_owned()));
    }
    let units = units_of(sources, first).zip(units_of(sources, other)).filter(|(to, from)| to != from);
    let elements = read_whole(sources[other.source].store()?, array, means)?;
    let width = usize::try_from(array.metadata.data_type.item_bytes().unwrap_or(1)).unwrap_or(1).max(1);
    let fill = fill_of(array);
    if text_width(&model.metadata.data_type).is_some() {
        let bytes = wider(&elements, width, &model.metadata.data_type);
        return literal(sources, (first, other), bytes, literals);
    }
    let mut converted = Vec::new();
    for item in elements.chunks_exact(width) {
        let number = decode(item, &array.metadata.data_type);
        // what is missing stays missing, as far as both say it alike
        let same_fill = fill.as_deref() == Some(item) && is_masked(array);
        let encoded = match (number, units) {
            (Some(number), _) if same_fill || is_nan(number) => encode(number, &model.metadata.data_type),
            (Some(number), Some((to, from))) => between(number, from, to, &model.metadata.data_type),
            (Some(number), None) => encode(number, &model.metadata.data_type),
            (None, _) => None,
        };
        let Some(encoded) = encoded else {
            let shown = number.map_or_else(String::new, show);
            return Err(refuse(format!("{shown} has no exact form as {} there", model.metadata.data_type)));
        };
        converted.extend(encoded);
    }
    literal(sources, (first, other), converted, literals)
}

/// Adds the values of `other` as an array that is like `first`.
fn literal(
    sources: &[Source],
    (first, other): (Member, Member),
    bytes: Vec<u8>,
    literals: &mut Literals,
) -> Result<ArrayNode> {
    let (model, array) = (node(sources, first), node(sources, other));
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
        attributes: model.metadata.attributes.clone(),
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
pub(crate) fn with_widest_texts(
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

/// Returns the units of an array of times: its own, or those of the coordinate that it bounds. Source: CF conventions,
/// section 7.1.
fn units_of(sources: &[Source], member: Member) -> Option<TimeUnits> {
    let array = node(sources, member);
    time_units(&array.metadata).or_else(|| time_units(&bounded(&sources[member.source], array)?.metadata))
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
pub(crate) fn with_bounds(
    sources: &[Source],
    variables: &[Variable],
    mut pairs: Vec<(Member, Member)>,
) -> Vec<(Member, Member)> {
    let mut more = Vec::new();
    for &(first, other) in &pairs {
        let array = node(sources, other);
        let attributes = &array.metadata.attributes;
        let (group, _) = array.path.rsplit_once('/').unwrap_or_default();
        for key in ["bounds", "climatology"] {
            let Some(name) = attributes.get(key).and_then(Json::as_str) else { continue };
            let path = format!("{group}/{name}");
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

fn fill_of(array: &ArrayNode) -> Option<Vec<u8>> {
    match &array.metadata.fill_value {
        FillValue::Item(item) => Some(item.clone()),
        _ => None,
    }
}

/// Returns whether readers take the fill value for missing.
fn is_masked(array: &ArrayNode) -> bool {
    array.metadata.format == zkit_core::metadata::ZarrFormat::V2
        || array.metadata.attributes.get("_FillValue").is_some()
}

fn is_nan(number: Number) -> bool {
    matches!(number, Number::Float(float) if float.is_nan())
}

fn show(number: Number) -> String {
    match number {
        Number::Whole(number) => number.to_string(),
        Number::Float(number) => number.to_string(),
    }
}

/// Returns a time in other units, in the type that holds them.
fn between(number: Number, from: TimeUnits, to: TimeUnits, data_type: &DataType) -> Option<Vec<u8>> {
    let time = match number {
        Number::Whole(count) => from.decode_wide(count)?,
        Number::Float(count) => from.decode_float(count)?,
    };
    match data_type {
        DataType::Float(_) => {
            let float = to.encode_float(time);
            let encoded = encode(Number::Float(float), data_type)?;
            // rounded as readers round it, it must be that time
            (to.decode_float(float) == Some(time)).then_some(encoded)
        }
        _ => encode(Number::Whole(i128::from(to.encode(time)?)), data_type),
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
    fn times_move_to_other_units() {
        let units = |text: &str| TimeUnits::parse(text, None).unwrap();
        let (hours, days) = (units("hours since 2000-01-01"), units("days since 2000-01-02"));
        let int = DataType::Int(8);
        assert_eq!(between(Number::Whole(48), hours, days, &int).unwrap(), 1i64.to_le_bytes());
        assert_eq!(between(Number::Whole(49), hours, days, &int), None);
        let float = between(Number::Whole(36), hours, days, &DataType::Float(8)).unwrap();
        assert_eq!(float, 0.5f64.to_le_bytes());
    }
}
