//! Whether the arrays that become one are of one kind: their types, dimensions, units and attributes.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use zkit_core::calendar::{TimeUnits, since};
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::hierarchy::ArrayNode;
use zkit_core::metadata::{ArrayMetadata, DataType, FillValue, Json, ZarrFormat};
use zkit_core::select::duration_unit;

use crate::dimensions::Drift;
use crate::sources::Source;
use crate::variables::{Member, Variable, node};

/// Which differences are meant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed {
    pub(crate) data_types: Drift,
    pub(crate) units: Drift,
    pub(crate) attributes: Drift,
}

/// Attributes that are compared by what they mean, or mean nothing beside the array itself.
const APART: [&str; 8] = [
    "_ARRAY_DIMENSIONS",
    "_FillValue",
    "missing_value",
    "scale_factor",
    "add_offset",
    "units",
    "calendar",
    "zkit_slice",
];

/// The attribute that names what describes an array beside its dimensions. Source: CF conventions, section 5.
pub(crate) const COORDINATES: &str = "coordinates";

/// What an array must become before it can lie beside the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    AsIs,
    /// Its numbers must be converted: to other time units, or to another type.
    Convert,
}

/// What was found beside errors.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Arrays that must be converted.
    pub(crate) convert: Vec<(Member, Member)>,
    /// Differences that were allowed, as they are told.
    pub(crate) notes: BTreeSet<String>,
}

/// Compares all members of all variables with the first one of each.
///
/// Errors: `Mismatch`, which names the array, the two stores, and what each of them holds.
pub(crate) fn check(sources: &[Source], variables: &[Variable], allowed: Allowed) -> Result<Checked> {
    let mut checked = Checked::default();
    for variable in variables {
        let (first, others) = (variable.members[0], &variable.members[1..]);
        for &other in others {
            let pair = Pair { sources, one: first, other, allowed };
            if pair.check(&mut checked.notes)? == Need::Convert {
                checked.convert.push((first, other));
            }
        }
    }
    Ok(checked)
}

/// Returns the width of texts that all take the same room.
pub(crate) fn text_width(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::FixedUtf32(width) | DataType::FixedBytes(width) => Some(*width),
        _ => None,
    }
}

struct Pair<'a> {
    sources: &'a [Source],
    one: Member,
    other: Member,
    allowed: Allowed,
}

impl Pair<'_> {
    fn check(&self, notes: &mut BTreeSet<String>) -> Result<Need> {
        let (one, other) = (node(self.sources, self.one), node(self.sources, self.other));
        self.check_dimensions()?;
        if alike(&one.metadata, &other.metadata) {
            return Ok(Need::AsIs);
        }
        let mut need = self.check_data_types(one, other, notes)?;
        if self.check_units(one, other, notes)? == Need::Convert {
            need = Need::Convert;
        }
        self.check_packing(one, other)?;
        self.check_attributes(one, other, notes)?;
        Ok(need)
    }

    /// Returns the error of a difference: what it is, and what each of the two holds.
    fn differ(&self, what: &str, one: &str, other: &str) -> Error {
        let message = format!(
            "`{}` has {what} {one} in {} and {other} in {}",
            node(self.sources, self.one).path,
            self.sources[self.one.source].url(),
            self.sources[self.other.source].url()
        );
        Error::new(ErrorKind::Mismatch, message)
    }

    fn note(&self, what: &str, one: &str, other: &str) -> String {
        format!("`{}` has {what} {one}, {other} in other sources", node(self.sources, self.one).path)
    }

    fn check_dimensions(&self) -> Result<()> {
        let names = |member: Member| -> Vec<String> {
            self.sources[member.source].axes.keys_of(member.array).map(|key| key.name.clone()).collect()
        };
        let (a, b) = (names(self.one), names(self.other));
        let sorted = |names: &[String]| {
            let mut names = names.to_vec();
            names.sort();
            names
        };
        if sorted(&a) != sorted(&b) {
            let words = |names: &[String]| format!("({})", names.join(", "));
            return Err(self
                .differ("the dimensions", &words(&a), &words(&b))
                .with_hint("slice them apart, or --exclude the array"));
        }
        Ok(())
    }

    fn check_data_types(
        &self,
        one: &ArrayNode,
        other: &ArrayNode,
        notes: &mut BTreeSet<String>,
    ) -> Result<Need> {
        let (a, b) = (&one.metadata.data_type, &other.metadata.data_type);
        if a == b {
            return Ok(Need::AsIs);
        }
        let numbers = |data_type: &DataType| {
            matches!(data_type, DataType::Int(_) | DataType::UInt(_) | DataType::Float(4 | 8))
        };
        if text_width(a).is_some() && std::mem::discriminant(a) == std::mem::discriminant(b) {
            // the same texts, with less or more room for them
            return Ok(Need::Convert);
        }
        let times = time_units(&one.metadata).is_some() && time_units(&other.metadata).is_some();
        if numbers(a) && numbers(b) && (times || self.allowed.data_types == Drift::Allowed) {
            notes.insert(self.note("the type", &a.to_string(), &b.to_string()));
            return Ok(Need::Convert);
        }
        let hint = match numbers(a) && numbers(b) {
            true => "pass --allow dtype to convert small arrays to the type of the first",
            false => "slice them apart, or --exclude the array",
        };
        Err(self.differ("the type", &a.to_string(), &b.to_string()).with_hint(hint))
    }

    fn check_units(&self, one: &ArrayNode, other: &ArrayNode, notes: &mut BTreeSet<String>) -> Result<Need> {
        let text = |node: &ArrayNode, key: &str| {
            node.metadata.attributes.get(key).map_or_else(|| "none".to_owned(), ToString::to_string)
        };
        let (units, other_units) = (text(one, "units"), text(other, "units"));
        let (calendar, other_calendar) = (text(one, "calendar"), text(other, "calendar"));
        if units == other_units && calendar == other_calendar {
            return Ok(Need::AsIs);
        }
        if let (Some(a), Some(b)) = (time_units(&one.metadata), time_units(&other.metadata)) {
            if a.calendar() != b.calendar() {
                let (a, b) = (a.calendar().to_string(), b.calendar().to_string());
                return Err(self
                    .differ("the calendar", &a, &b)
                    .with_hint("times of different calendars have no common order; slice them apart"));
            }
            return Ok(if a == b { Need::AsIs } else { Need::Convert });
        }
        if let (Some(a), Some(b)) = (duration_units(&one.metadata), duration_units(&other.metadata)) {
            return Ok(if a == b { Need::AsIs } else { Need::Convert });
        }
        if self.allowed.units == Drift::Allowed {
            notes.insert(self.note("the units", &units, &other_units));
            return Ok(Need::AsIs);
        }
        Err(self
            .differ("the units", &units, &other_units)
            .with_hint("if they mean the same, pass --allow units; values are not converted"))
    }

    /// Refuses numbers that stand for other values, or for none, in one of the two.
    fn check_packing(&self, one: &ArrayNode, other: &ArrayNode) -> Result<()> {
        for key in ["scale_factor", "add_offset"] {
            let number = |node: &ArrayNode| node.metadata.attributes.get(key).map(number_of);
            let (a, b) = (number(one), number(other));
            if a != b {
                let text = |number: Option<Option<f64>>| {
                    number.flatten().map_or_else(|| "none".to_owned(), |number| number.to_string())
                };
                return Err(self
                    .differ(&format!("the {key}"), &text(a), &text(b))
                    .with_hint("the same number means two values: unpack the sources first"));
            }
        }
        let (a, b) = (masks(&one.metadata), masks(&other.metadata));
        if a != b {
            let text = |masks: &BTreeSet<String>| match masks.is_empty() {
                true => "none".to_owned(),
                false => masks.iter().cloned().collect::<Vec<_>>().join(", "),
            };
            return Err(self.differ("the missing value", &text(&a), &text(&b)).with_hint(
                "what is missing in one would be a number in the other: rewrite one of them first",
            ));
        }
        Ok(())
    }

    /// Returns what an array names as its coordinates, whatever the order; but for dimensions, which one source may have and
    /// another not.
    fn coordinates_of(&self, member: Member) -> BTreeSet<&str> {
        let text = node(self.sources, member).metadata.attributes.get(COORDINATES).and_then(Json::as_str);
        let is_dimension = |word: &&str| {
            [self.one, self.other].iter().any(|member| {
                let mut keys = self.sources[member.source].axes.keys_of(member.array);
                keys.any(|key| key.name == *word)
            })
        };
        text.unwrap_or_default().split_whitespace().filter(|word| !is_dimension(word)).collect()
    }

    fn check_attributes(
        &self,
        one: &ArrayNode,
        other: &ArrayNode,
        notes: &mut BTreeSet<String>,
    ) -> Result<()> {
        let (a, b) = (&one.metadata.attributes, &other.metadata.attributes);
        let keys: BTreeSet<&str> = a.iter().chain(b.iter()).map(|(key, _)| key).collect();
        let kept = keys.into_iter().filter(|key| !APART.contains(key));
        let differs = |key: &&str| match *key {
            COORDINATES => self.coordinates_of(self.one) != self.coordinates_of(self.other),
            key => !same(a.get(key), b.get(key)),
        };
        let Some(key) = kept.into_iter().find(differs) else { return Ok(()) };
        let text = |json: Option<&Json>| json.map_or_else(|| "none".to_owned(), ToString::to_string);
        let (what, a, b) = (format!("the attribute `{key}`"), text(a.get(key)), text(b.get(key)));
        if self.allowed.attributes == Drift::Allowed {
            notes.insert(self.note(&what, &a, &b));
            return Ok(());
        }
        Err(self.differ(&what, &a, &b).with_hint("pass --allow attributes to take those of the first source"))
    }
}

/// Returns whether two arrays say the same of their elements, word by word: mostly they do.
fn alike(one: &ArrayMetadata, other: &ArrayMetadata) -> bool {
    one.format == other.format
        && one.data_type == other.data_type
        && one.fill_value == other.fill_value
        && one.dimension_names == other.dimension_names
        && one.shape().len() == other.shape().len()
        && one.attributes == other.attributes
}

/// Returns the units of an array whose numbers are times.
pub(crate) fn time_units(metadata: &ArrayMetadata) -> Option<TimeUnits> {
    let text = |key: &str| metadata.attributes.get(key).and_then(Json::as_str);
    let units = text("units").filter(|units| since(units).is_some())?;
    TimeUnits::parse(units, text("calendar")).ok()
}

/// Returns the nanoseconds of the unit of an array of durations, as xarray marks them.
pub(crate) fn duration_units(metadata: &ArrayMetadata) -> Option<i128> {
    let text = |key: &str| metadata.attributes.get(key).and_then(Json::as_str);
    text("dtype").filter(|dtype| dtype.starts_with("timedelta64")).and_then(|_| duration_unit(text("units")?))
}

fn number_of(json: &Json) -> Option<f64> {
    match json {
        Json::Array(values) => values.first().and_then(Json::as_f64),
        value => value.as_f64(),
    }
}

/// Returns whether attributes say the same: numbers by value, objects whatever the order of their keys.
fn same(one: Option<&Json>, other: Option<&Json>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(Json::Array(a)), Some(Json::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (Some(Json::Object(a)), Some(Json::Object(b))) => {
            a.len() == b.len() && a.iter().all(|(key, value)| same(Some(value), b.get(key)))
        }
        (Some(one @ Json::Number(_)), Some(other @ Json::Number(_))) => {
            let (a, b) = (one.as_f64(), other.as_f64());
            one == other || a.is_some() && a == b
        }
        (one, other) => one == other,
    }
}

/// Returns the values that readers take for missing, in a form that does not depend on the Zarr format; NaN of floats is
/// missing anyway.
///
/// xarray masks `fill_value` in v2, and only the attribute `_FillValue` in v3.
fn masks(metadata: &ArrayMetadata) -> BTreeSet<String> {
    let float = matches!(metadata.data_type, DataType::Float(_));
    let mut masks = BTreeSet::new();
    for key in ["_FillValue", "missing_value"] {
        match metadata.attributes.get(key) {
            Some(Json::Array(values)) => masks.extend(values.iter().map(mask)),
            Some(value) => drop(masks.insert(mask(value))),
            None => {}
        }
    }
    if metadata.format == ZarrFormat::V2 && matches!(metadata.fill_value, FillValue::Item(_)) {
        masks.insert(mask(&metadata.fill_value.to_v2(&metadata.data_type)));
    }
    masks.retain(|mask| !(float && mask == "NaN"));
    masks
}

fn mask(json: &Json) -> String {
    let number = match json {
        Json::String(text) => match BASE64.decode(text).ok().and_then(|bytes| bytes.try_into().ok()) {
            // xarray's form of floats in v3: base64 of a little-endian float64
            Some(bytes) => Some(f64::from_le_bytes(bytes)),
            None if text == "NaN" => Some(f64::NAN),
            None => None,
        },
        number => number.as_f64(),
    };
    match number {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "masks of float32 are written with more or fewer digits"
        )]
        Some(number) => (number as f32).to_string(),
        None => json.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestStore, open_sets};

    fn checked(one: TestStore, other: TestStore, allowed: Allowed) -> Result<Checked> {
        let sources = open_sets(&[&[&one, &other]]);
        let member = |source: usize| Member { source, array: 0 };
        let variable = Variable {
            path: sources[0].array(0).path.clone(),
            dimensions: vec![0],
            members: vec![member(0), member(1)],
        };
        check(&sources, &[variable], allowed)
    }

    fn with(attributes: &str) -> TestStore {
        TestStore::new().ints("t", &["x"], &[2], &[1, 2]).attributes("t", attributes)
    }

    const STRICT: Allowed =
        Allowed { data_types: Drift::Refused, units: Drift::Refused, attributes: Drift::Refused };
    const LENIENT: Allowed =
        Allowed { data_types: Drift::Allowed, units: Drift::Allowed, attributes: Drift::Allowed };

    #[test]
    fn units_that_drift_are_named_unless_they_are_meant() {
        let (one, other) = (r#"{"units": "K"}"#, r#"{"units": "degC"}"#);
        let error = checked(with(one), with(other), STRICT).unwrap_err().to_string();
        assert!(error.contains("has the units \"K\" in") && error.contains("and \"degC\" in"), "{error}");
        assert_eq!(checked(with(one), with(other), LENIENT).unwrap().notes.len(), 1);
    }

    #[test]
    fn packing_is_never_a_drift_that_is_meant() {
        let (one, other) = (r#"{"scale_factor": 0.1}"#, r#"{"scale_factor": 0.2}"#);
        let error = checked(with(one), with(other), LENIENT).unwrap_err().to_string();
        assert!(error.contains("scale_factor 0.1"), "{error}");
        assert!(checked(with(r#"{"scale_factor": 1}"#), with(r#"{"scale_factor": [1.0]}"#), STRICT).is_ok());
        let error = checked(with(r#"{"_FillValue": -1}"#), with("{}"), LENIENT).unwrap_err().to_string();
        assert!(error.contains("missing value"), "{error}");
    }

    #[test]
    fn attributes_are_compared_by_what_they_say() {
        assert!(checked(with(r#"{"a": 1, "b": [1.0]}"#), with(r#"{"b": [1], "a": 1.0}"#), STRICT).is_ok());
        let error = checked(with(r#"{"long_name": "a"}"#), with("{}"), STRICT).unwrap_err();
        assert!(error.to_string().contains("the attribute `long_name` \"a\""), "{error}");
        assert!(error.hint().unwrap_or_default().contains("--allow attributes"));
    }

    #[test]
    fn times_of_other_units_are_converted_and_other_calendars_refused() {
        let units = |units: &str| with(&format!(r#"{{"units": "{units} since 2000-01-01"}}"#));
        assert_eq!(checked(units("hours"), units("days"), STRICT).unwrap().convert.len(), 1);
        assert_eq!(checked(units("hours"), units("h"), STRICT).unwrap().convert.len(), 0);
        let noleap = with(r#"{"units": "days since 2000-01-01", "calendar": "noleap"}"#);
        let error = checked(units("days"), noleap, LENIENT).unwrap_err().to_string();
        assert!(error.contains("calendar"), "{error}");
    }

    #[test]
    fn masks_are_the_same_in_every_form() {
        let base64 = BASE64.encode((-9999.0f64).to_le_bytes());
        assert_eq!(mask(&Json::string(base64)), mask(&Json::number("-9999.0")));
        assert_eq!(mask(&Json::string("NaN")), "NaN");
    }
}
