//! The arrays without which another one cannot be understood: its coordinates, their bounds, its grid mapping.

use std::collections::{HashMap, HashSet};

use super::node::ArrayNode;
use crate::metadata::Json;

/// Attributes that name other arrays (CF conventions 1.11, sections 3.4, 5, 5.6 and 7.1).
const ATTRIBUTES: [&str; 4] = ["coordinates", "bounds", "grid_mapping", "ancillary_variables"];

/// Returns the positions of arrays with those of their companions, and of these in turn, sorted; what `refuses` refuses by
/// its path stays away. Values along the dimension `along` are companions of everything.
pub fn with_companions(
    arrays: &[ArrayNode],
    taken: Vec<usize>,
    refuses: &dyn Fn(&str) -> bool,
    along: Option<&str>,
) -> Vec<usize> {
    let by_path: HashMap<&str, usize> =
        arrays.iter().enumerate().map(|(at, array)| (array.path.as_str(), at)).collect();
    let mut all: HashSet<usize> = taken.iter().copied().collect();
    let mut new = taken;
    while let Some(at) = new.pop() {
        for path in companions(&arrays[at], along) {
            if let Some(&other) = by_path.get(path.as_str())
                && !refuses(&path)
                && all.insert(other)
            {
                new.push(other);
            }
        }
    }
    let mut all: Vec<usize> = all.into_iter().collect();
    all.sort_unstable();
    all
}

/// Returns the paths of all that must be known where arrays are taken: theirs, those that companions of theirs may have, and the
/// groups above them.
pub fn needed_by(arrays: &[ArrayNode], taken: &[usize], along: Option<&str>) -> HashSet<String> {
    let mut needed = HashSet::from(["/".to_owned()]);
    for &at in taken {
        needed.extend(companions(&arrays[at], along));
        needed.extend(groups_above(&arrays[at].path).map(str::to_owned));
    }
    needed
}

/// Returns the positions of arrays that are companions of others.
pub fn describing(arrays: &[ArrayNode]) -> HashSet<usize> {
    let by_path: HashMap<&str, usize> =
        arrays.iter().enumerate().map(|(at, array)| (array.path.as_str(), at)).collect();
    let of_each = arrays.iter().enumerate().flat_map(|(at, array)| {
        let others = companions(array, None);
        let others: Vec<usize> =
            others.iter().filter_map(|path| by_path.get(path.as_str()).copied()).collect();
        others.into_iter().filter(move |&other| other != at)
    });
    of_each.collect()
}

/// Returns the paths that the companions of an array may have: in its group and those above.
fn companions(array: &ArrayNode, along: Option<&str>) -> Vec<String> {
    let metadata = &array.metadata;
    let mut names: Vec<&str> =
        metadata.dimension_names.iter().flatten().flatten().map(String::as_str).collect();
    for key in ATTRIBUTES {
        let text = metadata.attributes.get(key).and_then(Json::as_str).unwrap_or_default();
        names.extend(text.split_whitespace().map(|word| word.trim_end_matches(':')));
    }
    names.extend(along);
    let group = array.path.rsplit_once('/').map_or("", |(group, _)| group);
    let groups: Vec<&str> = groups_above(group).collect();
    names.iter().flat_map(|name| groups.iter().map(move |group| format!("{group}/{name}"))).collect()
}

/// Returns a group and those above it, the innermost first; the root is empty.
pub fn groups_above(group: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(group), |group| group.rsplit_once('/').map(|(above, _)| above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::Hierarchy;
    use crate::location::StoreUrl;
    use crate::store::StoreOptions;

    fn store(arrays: &[(&str, &str)]) -> (tempfile::TempDir, Hierarchy) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(".zgroup"), r#"{"zarr_format":2}"#).unwrap();
        for (path, attributes) in arrays {
            let at = folder.path().join(path);
            std::fs::create_dir_all(&at).unwrap();
            let document = r#"{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"|u1","fill_value":0,"compressor":null,"filters":null,"order":"C"}"#;
            std::fs::write(at.join(".zarray"), document).unwrap();
            std::fs::write(at.join(".zattrs"), attributes).unwrap();
        }
        let url = StoreUrl::Local(folder.path().to_owned());
        let hierarchy = Hierarchy::open(&url, &StoreOptions::default()).unwrap();
        (folder, hierarchy)
    }

    #[test]
    fn what_describes_an_array_comes_along_and_so_does_what_describes_that() {
        let (_folder, store) = store(&[
            ("lat", r#"{"_ARRAY_DIMENSIONS":["lat"],"bounds":"lat_bounds"}"#),
            ("lat_bounds", r#"{"_ARRAY_DIMENSIONS":["lat"]}"#),
            ("crs", r#"{"_ARRAY_DIMENSIONS":["x"]}"#),
            ("t2m", r#"{"_ARRAY_DIMENSIONS":["lat"],"grid_mapping":"crs: lat"}"#),
            ("u10", r#"{"_ARRAY_DIMENSIONS":["lat"]}"#),
        ]);
        let paths = |refused: &str, along| -> Vec<&str> {
            let t2m = store.arrays.iter().position(|array| array.path == "/t2m").unwrap();
            let taken = with_companions(&store.arrays, vec![t2m], &|path| path == refused, along);
            taken.into_iter().map(|at| store.arrays[at].path.as_str()).collect()
        };
        assert_eq!(paths("", None), ["/crs", "/lat", "/lat_bounds", "/t2m"]);
        assert_eq!(paths("/lat", None), ["/crs", "/t2m"]);
        let describing = describing(&store.arrays);
        let described = store.arrays.iter().enumerate().filter(|(at, _)| !describing.contains(at));
        assert!(described.map(|(_, array)| array.path.as_str()).eq(["/t2m", "/u10"]));
        assert_eq!(paths("", Some("u10")), ["/crs", "/lat", "/lat_bounds", "/t2m", "/u10"]);
    }

    #[test]
    fn groups_lead_to_the_root() {
        assert_eq!(groups_above("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", ""]);
        assert_eq!(groups_above("").collect::<Vec<_>>(), [""]);
    }
}
