//! Points from files: CSV with a header that names dimensions, GeoJSON of Points.

use std::path::Path;

use serde_json::Value;
use zkit_core::error::{Error, ErrorKind, Result};

/// Larger files are not lists of points.
const FILE_BYTES_MOST: u64 = 256 << 20;
/// The column that names points.
const NAME: &str = "name";

/// The points of a file: what is asked for along some dimensions, point by point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Points {
    /// The names of dimensions, as the file has them, each with a value for every point.
    pub(crate) columns: Vec<(String, Vec<String>)>,
    /// The names of the points; all different.
    pub(crate) names: Option<Vec<String>>,
}

impl Points {
    /// Returns how many points there are; one at least.
    pub(crate) fn len(&self) -> usize {
        self.columns.first().map_or(0, |(_, values)| values.len())
    }

    /// Reads a file: GeoJSON if its first character is a brace, else CSV.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Unreadable, format!("could not read the points of {}", path.display()))
                .with_source(error)
        };
        let size = std::fs::metadata(path).map_err(failed)?.len();
        if size > FILE_BYTES_MOST {
            let message =
                format!("{} holds {size} bytes, at most {FILE_BYTES_MOST} expected", path.display());
            return Err(Error::new(ErrorKind::OverBudget, message));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let text = text.trim_start_matches('\u{feff}');
        let points = if text.trim_start().starts_with('{') { from_geojson(text) } else { from_csv(text) };
        points.and_then(Self::checked).map_err(|what| {
            Error::new(ErrorKind::Usage, format!("could not take points from {}: {what}", path.display()))
                .with_hint(
                    "write a CSV file with a header such as name,latitude,longitude, or GeoJSON Points",
                )
        })
    }

    fn checked(self) -> Result<Self, String> {
        if self.columns.is_empty() {
            return Err("it names no dimension".to_owned());
        }
        if self.len() == 0 {
            return Err("it holds no point".to_owned());
        }
        let mut names: Vec<&String> = self.names.iter().flatten().collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("the name `{}` stands twice", pair[0])),
            None => Ok(self),
        }
    }
}

fn from_csv(text: &str) -> Result<Points, String> {
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut columns: Vec<(String, Vec<String>)> =
        header.iter().map(|name| (name.to_owned(), Vec::new())).collect();
    for (at, (name, _)) in columns.iter().enumerate() {
        if columns[..at].iter().any(|(other, _)| other == name) {
            return Err(format!("the column `{name}` stands twice"));
        }
    }
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        for ((name, values), value) in columns.iter_mut().zip(&record) {
            if value.is_empty() {
                return Err(format!("line {line} has no `{name}`"));
            }
            values.push(value.to_owned());
        }
    }
    let names = columns.iter().position(|(name, _)| name.eq_ignore_ascii_case(NAME));
    let names = names.map(|at| columns.remove(at).1);
    Ok(Points { columns, names })
}

fn from_geojson(text: &str) -> Result<Points, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let features = match (document["type"].as_str(), document["features"].as_array()) {
        (Some("FeatureCollection"), Some(features)) => features.clone(),
        (Some("Feature"), _) => vec![document],
        _ => return Err("it is no FeatureCollection".to_owned()),
    };
    let (mut longitudes, mut latitudes, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (at, feature) in features.iter().enumerate() {
        let geometry = &feature["geometry"];
        let (Some("Point"), Some([longitude, latitude, ..])) =
            (geometry["type"].as_str(), geometry["coordinates"].as_array().map(Vec::as_slice))
        else {
            return Err(format!("feature {at} is no Point"));
        };
        let (Value::Number(longitude), Value::Number(latitude)) = (longitude, latitude) else {
            return Err(format!("the coordinates of feature {at} are no numbers"));
        };
        longitudes.push(longitude.to_string());
        latitudes.push(latitude.to_string());
        names.push(name_of(feature));
    }
    let columns = vec![("latitude".to_owned(), latitudes), ("longitude".to_owned(), longitudes)];
    let named = names.iter().filter(|name| name.is_some()).count();
    let names = match named {
        0 => None,
        _ if named == names.len() => names.into_iter().collect(),
        _ => return Err("some points have names, others have none".to_owned()),
    };
    Ok(Points { columns, names })
}

fn name_of(feature: &Value) -> Option<String> {
    [&feature["properties"][NAME], &feature["id"]].into_iter().find_map(|value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// Returns a template with its placeholders filled in: `{name}`, `{index}`.
///
/// The error says which placeholder is not known, or that the name is no name of a file.
pub(crate) fn filled(template: &str, index: usize, name: Option<&str>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((word, behind)) = after.split_once('}') else {
            return Err(format!("`{template}` has no `}}` behind `{{`"));
        };
        filled.push_str(before);
        match (word, name) {
            ("name", Some(name)) => {
                let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
                if !plain || name.chars().any(char::is_control) {
                    return Err(format!("the point `{name}` has no name that a store could have"));
                }
                filled.push_str(name);
            }
            ("name", None) => return Err("the points have no names".to_owned()),
            ("index", _) => filled.push_str(&index.to_string()),
            _ => return Err(format!("`{{{word}}}` is neither {{name}} nor {{index}}")),
        }
        rest = behind;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_csv_file_names_dimensions_and_points() {
        let points =
            from_csv("name, latitude,longitude\r\n\"Kew, London\",51.48,-0.29\n# no\nOslo,59.9,10.7\n")
                .unwrap();
        assert_eq!(points.names.clone().unwrap(), ["Kew, London", "Oslo"]);
        assert_eq!(points.columns[1], ("longitude".to_owned(), vec!["-0.29".to_owned(), "10.7".to_owned()]));
        for (text, word) in [
            ("lat,lat\n1,2\n", "stands twice"),
            ("lat,lon\n1,\n", "line 2 has no `lon`"),
            ("lat,lon\n1\n", "fields"),
            ("lat,lon\n", "no point"),
            ("name\na\n", "no dimension"),
            ("name,lat\na,1\na,2\n", "`a` stands twice"),
        ] {
            let error = from_csv(text).and_then(Points::checked).unwrap_err();
            assert!(error.contains(word), "{text:?}: {error}");
        }
    }

    #[test]
    fn geojson_points_have_longitude_first() {
        let text = r#"{"type":"FeatureCollection","features":[
            {"type":"Feature","id":7,"geometry":{"type":"Point","coordinates":[-0.29,51.48,12]},"properties":{}},
            {"type":"Feature","geometry":{"type":"Point","coordinates":[10.7,59.9]},"properties":{"name":"Oslo"}}]}"#;
        let points = from_geojson(text).unwrap();
        assert_eq!(points.columns[0].1, ["51.48", "59.9"]);
        assert_eq!(points.names.unwrap(), ["7", "Oslo"]);
        let line = r#"{"type":"Feature","geometry":{"type":"LineString","coordinates":[[1,2]]}}"#;
        assert!(from_geojson(line).unwrap_err().contains("no Point"));
        assert!(from_geojson("{}").is_err());
    }

    #[test]
    fn templates_name_stores_and_never_other_folders() {
        assert_eq!(filled("era5_{name}_{index}.zarr", 3, Some("Kew")).unwrap(), "era5_Kew_3.zarr");
        for (template, name) in [
            ("{name}", None),
            ("{name}", Some("../a")),
            ("{name}", Some("a/b")),
            ("{id}", None),
            ("{name", None),
        ] {
            assert!(filled(template, 0, name).is_err(), "{template} {name:?}");
        }
    }
}
