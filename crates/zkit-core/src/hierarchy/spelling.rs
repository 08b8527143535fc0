//! Names that are nearly those that somebody wrote.

use std::path::Path;

/// Entries of a folder that are compared, at most.
const ENTRIES_MOST: usize = 10_000;

/// Returns the entry of the same folder whose name is nearest to that of a path which does not exist, if one is near.
pub(super) fn sibling(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).ok()?.flatten().take(ENTRIES_MOST);
    let names = entries.filter(|entry| is_store_like(&entry.path()));
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let near = names.filter(|other| !other.starts_with('.') || name.starts_with('.'));
    let nearest = nearest(name, near)?;
    Some(path.with_file_name(nearest).display().to_string())
}

/// Returns whether something may be a store: a folder, or a file that stores are kept in.
fn is_store_like(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    path.is_dir() || matches!(extension, "zip" | "json")
}

/// Returns the name that is nearest to another one, if it differs in a third of its letters at most, or in its extension alone.
fn nearest(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let stem = |name: &str| name.split('.').next().unwrap_or_default().to_lowercase();
    let distances = names.map(|other| {
        let edits = distance(&name.to_lowercase(), &other.to_lowercase());
        let same_stem = !stem(name).is_empty() && stem(name) == stem(&other);
        (if same_stem { edits.min(1) } else { edits }, edits, other)
    });
    let most = (name.chars().count() / 3).min(3);
    let (near, _, other) = distances.min()?;
    (near <= most).then_some(other)
}

/// Returns how many letters must be put in, taken away, replaced or swapped with their neighbour to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for at in 1..=one.len() {
        let mut row = vec![at];
        for to in 1..=other.len() {
            let replaced = rows[at - 1][to - 1] + usize::from(one[at - 1] != other[to - 1]);
            let mut least = replaced.min(rows[at - 1][to] + 1).min(row[to - 1] + 1);
            if at > 1 && to > 1 && one[at - 1] == other[to - 2] && one[at - 2] == other[to - 1] {
                least = least.min(rows[at - 2][to - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(name: &str, names: &[&str]) -> Option<String> {
        nearest(name, names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn the_nearest_name_is_meant_if_it_is_near() {
        let names = ["v2.zarr", "v3.zarr", "era5-land.zarr", "notes.txt"];
        assert_eq!(near("v2.zar", &names).as_deref(), Some("v2.zarr"));
        assert_eq!(near("v2.zrar", &names).as_deref(), Some("v2.zarr"));
        assert_eq!(near("V3.zarr", &names).as_deref(), Some("v3.zarr"));
        assert_eq!(near("era5-land", &names).as_deref(), Some("era5-land.zarr"));
        assert_eq!(near("era5_land.zarr", &names).as_deref(), Some("era5-land.zarr"));
        assert_eq!(near("radar.zarr", &names), None);
        assert_eq!(near("x", &["y"]), None);
    }

    #[test]
    fn the_sibling_is_named_as_the_path_was_written() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("v2.zarr")).unwrap();
        std::fs::write(folder.path().join("v2.tar"), b"").unwrap();
        let found = sibling(&folder.path().join("v2.zar")).unwrap();
        assert_eq!(Path::new(&found), folder.path().join("v2.zarr"));
        assert_eq!(sibling(&folder.path().join("no/v2.zar")), None);
    }
}
