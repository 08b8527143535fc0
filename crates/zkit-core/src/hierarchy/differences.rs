//! How the metadata of two stores differs: nodes, shapes, types, dimensions, attributes.

use std::collections::BTreeSet;

use super::node::{ArrayNode, Hierarchy};
use crate::metadata::{Json, Object};

/// Attributes by which v2 and v3 stores say the same in different ways.
const OF_THE_FORMAT: [&str; 2] = ["_ARRAY_DIMENSIONS", "_FillValue"];

/// One way in which the metadata of two stores differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The node's path.
    pub path: String,
    /// What differs.
    pub what: Differs,
    /// What the one store has.
    pub left: Option<String>,
    /// What the other store has.
    pub right: Option<String>,
}

/// What of a node differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Differs {
    /// One store does not have it.
    Missing,
    /// Its shape.
    Shape,
    /// Its data type.
    DataType,
    /// The names of its dimensions.
    Dimensions,
    /// One of its attributes.
    Attributes,
}

impl Differs {
    /// Returns the name in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Shape => "shape",
            Self::DataType => "data-type",
            Self::Dimensions => "dimensions",
            Self::Attributes => "attributes",
        }
    }
}

/// Returns how the metadata of two stores differs, for the nodes that `takes` names.
///
/// Chunks, codecs and the Zarr format may differ; of attributes those by which the formats say the same in other ways.
pub fn differences(left: &Hierarchy, right: &Hierarchy, takes: &dyn Fn(&str) -> bool) -> Vec<Difference> {
    let mut found = Vec::new();
    let paths: BTreeSet<&str> = [left, right]
        .iter()
        .flat_map(|hierarchy| hierarchy.arrays.iter().map(|array| array.path.as_str()))
        .filter(|path| takes(path))
        .collect();
    for path in paths {
        match (left.array(path), right.array(path)) {
            (Some(left), Some(right)) => arrays(left, right, &mut found),
            (here, there) => found.push(Difference {
                path: path.to_owned(),
                what: Differs::Missing,
                left: here.map(|_| "array".to_owned()),
                right: there.map(|_| "array".to_owned()),
            }),
        }
    }
    let group_of =
        |hierarchy: &Hierarchy, path: &str| hierarchy.groups.iter().position(|group| group.path == path);
    let groups = [left, right]
        .into_iter()
        .flat_map(|hierarchy| hierarchy.groups.iter().map(|group| group.path.as_str()));
    for path in groups.filter(|path| takes(path)).collect::<BTreeSet<_>>() {
        match (group_of(left, path), group_of(right, path)) {
            (Some(one), Some(other)) => {
                let (one, other) = (&left.groups[one], &right.groups[other]);
                attributes(path, &one.attributes, &other.attributes, one.format == other.format, &mut found);
            }
            // a root without attributes says nothing that its children do not
            (here, there) if path == "/" && lone_root_is_empty(left, here, right, there) => {}
            (here, there) => found.push(Difference {
                path: path.to_owned(),
                what: Differs::Missing,
                left: here.map(|_| "group".to_owned()),
                right: there.map(|_| "group".to_owned()),
            }),
        }
    }
    found
}

fn lone_root_is_empty(
    left: &Hierarchy,
    here: Option<usize>,
    right: &Hierarchy,
    there: Option<usize>,
) -> bool {
    let root = here.map(|at| &left.groups[at]).or(there.map(|at| &right.groups[at]));
    root.is_some_and(|root| root.attributes.is_empty())
}

fn arrays(left: &ArrayNode, right: &ArrayNode, found: &mut Vec<Difference>) {
    let (a, b) = (&left.metadata, &right.metadata);
    let mut differ = |what, one: String, other: String| {
        if one != other {
            found.push(Difference { path: left.path.clone(), what, left: Some(one), right: Some(other) });
        }
    };
    differ(Differs::Shape, format!("{:?}", a.shape()), format!("{:?}", b.shape()));
    differ(Differs::DataType, a.data_type.to_string(), b.data_type.to_string());
    differ(Differs::Dimensions, dimensions(left), dimensions(right));
    attributes(&left.path, &a.attributes, &b.attributes, a.format == b.format, found);
}

fn dimensions(array: &ArrayNode) -> String {
    let unnamed = vec![None; array.metadata.shape().len()];
    let names = array.metadata.dimension_names.as_ref().unwrap_or(&unnamed);
    names.iter().map(|name| name.as_deref().unwrap_or("-")).collect::<Vec<_>>().join(", ")
}

fn attributes(path: &str, left: &Object, right: &Object, same_format: bool, found: &mut Vec<Difference>) {
    let keys: BTreeSet<&str> = left.iter().chain(right.iter()).map(|(key, _)| key).collect();
    for key in keys.into_iter().filter(|key| same_format || !OF_THE_FORMAT.contains(key)) {
        let (a, b) = (left.get(key), right.get(key));
        if a.zip(b).is_some_and(|(a, b)| equal(a, b)) {
            continue;
        }
        let show = |value: Option<&Json>| value.map(|value| format!("{key} = {value}"));
        found.push(Difference {
            path: path.to_owned(),
            what: Differs::Attributes,
            left: show(a),
            right: show(b),
        });
    }
}

/// Returns whether two values mean the same: key order does not matter, `1.0` is `1.00`.
fn equal(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Number(a), Json::Number(b)) => {
            a == b || left.as_f64().zip(right.as_f64()).is_some_and(|(a, b)| a.to_bits() == b.to_bits())
        }
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| equal(value, other)))
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_mean_the_same_are_equal() {
        let json = |text: &str| Json::parse(text.as_bytes()).unwrap();
        assert!(equal(&json(r#"{"a":1.0,"b":[NaN]}"#), &json(r#"{"b":[NaN],"a":1.00}"#)));
        assert!(!equal(&json("[1,2]"), &json("[1]")));
        assert!(!equal(&json("0.0"), &json("-0.0")));
        assert!(!equal(&json("1"), &json("\"1\"")));
    }
}
