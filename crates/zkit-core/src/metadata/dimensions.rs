//! The names of dimensions, wherever writers put them.

use super::json::{Json, Object};

/// xarray's attribute for v2 arrays.
pub(super) const ARRAY_DIMENSIONS: &str = "_ARRAY_DIMENSIONS";

/// Returns the dimension names of a v2 array: xarray's attribute, else NCZarr's references.
///
/// Source: xarray's "Zarr Encoding Specification"; netcdf-c's `nczarr.md`.
pub(super) fn of_v2(document: &Object, attributes: &Object, rank: usize) -> Option<Vec<Option<String>>> {
    let named = attributes.get(ARRAY_DIMENSIONS).and_then(Json::as_array).and_then(strings);
    let nczarr = || {
        let places = [document, attributes].into_iter().flat_map(|object| {
            [
                ("_nczarr_array", "dimension_references"),
                ("_NCZARR_ARRAY", "dimrefs"),
                ("_NCZARR_ARRAY", "dimension_references"),
            ]
            .into_iter()
            .filter_map(|(holder, key)| object.get(holder)?.get(key)?.as_array())
        });
        let references = places.filter_map(strings).next()?;
        Some(
            references
                .iter()
                .map(|reference| reference.rsplit('/').next().unwrap_or(reference).to_owned())
                .collect(),
        )
    };
    let names: Vec<String> = named.or_else(nczarr)?;
    (names.len() == rank).then(|| names.into_iter().map(Some).collect())
}

/// Returns the `dimension_names` of a v3 array; the error says what is wrong with them.
pub(super) fn of_v3(document: &Object, rank: usize) -> Result<Option<Vec<Option<String>>>, String> {
    let names = match document.get("dimension_names") {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::Array(names)) => names,
        Some(other) => return Err(format!("dimension_names is not a list: {other}")),
    };
    if names.len() != rank {
        return Err(format!("{} dimension_names for {rank} dimensions", names.len()));
    }
    let names = names.iter().map(|name| match name {
        Json::Null => Ok(None),
        Json::String(name) => Ok(Some(name.clone())),
        other => Err(format!("dimension name {other} is not a string")),
    });
    names.collect::<Result<_, _>>().map(Some)
}

fn strings(values: &[Json]) -> Option<Vec<String>> {
    values.iter().map(|value| value.as_str().map(str::to_owned)).collect()
}
