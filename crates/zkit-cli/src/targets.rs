//! From the paths of the command line to stores: folders are searched, patterns expanded.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use zkit_core::error::{Error, ErrorKind};
use zkit_core::location::StoreUrl;

use crate::values::check_home;

/// Folders deeper than this are not searched.
const DEPTH_MOST: usize = 12;
/// Folders that one search enters, at most.
const FOLDERS_MOST: usize = 1_000_000;
/// A reference file is not larger.
const REFERENCES_MOST: u64 = 128 << 20;
/// Documents at the root of a store, whatever they lead to.
const ROOT_DOCUMENTS: [&str; 5] = ["zarr.json", ".zgroup", ".zarray", ".zmetadata", "attributes.json"];

/// Returns the stores that the paths name, and of each the folder or pattern whose stores it is compared with: the path
/// that led to it, or the folder that a store lies in which was named itself.
pub fn of_paths(paths: &[String]) -> Result<(Vec<StoreUrl>, Vec<String>), Error> {
    let (mut urls, mut groups) = (Vec::new(), Vec::new());
    for path in paths {
        let found = stores(path)?;
        let itself = found.len() == 1 && path.parse::<StoreUrl>().is_ok_and(|url| url == found[0]);
        for url in found {
            let parent =
                |text: &str| text.trim_end_matches('/').rsplit_once('/').map(|(parent, _)| parent.to_owned());
            let group = match (itself, url.local_path()) {
                (false, _) => path.clone(),
                (true, None) => parent(path).unwrap_or_else(|| path.clone()),
                (true, Some(local)) => {
                    let absolute = std::path::absolute(local).unwrap_or_else(|_| local.to_owned());
                    absolute.parent().unwrap_or(&absolute).display().to_string()
                }
            };
            urls.push(url);
            groups.push(group);
        }
    }
    Ok((urls, groups))
}

/// Returns the stores that a path names, sorted; at least one.
pub fn stores(path: &str) -> Result<Vec<StoreUrl>, Error> {
    let url: StoreUrl = path.parse()?;
    let Some(local) = url.local_path() else { return Ok(vec![url]) };
    check_home(local).map_err(|why| Error::new(ErrorKind::Usage, why))?;
    // a name may hold the characters of patterns
    let paths = match (std::fs::symlink_metadata(local), local.to_str()) {
        (Err(_), Some(text)) if text.contains(['*', '?', '[', '{']) => expanded(text)?,
        _ => vec![local.to_owned()],
    };
    let mut found = Vec::new();
    for path in paths {
        let before = found.len();
        if path.is_dir() && !is_store(&path) {
            search(&path, 0, &mut 0, &mut found);
        }
        // a folder without stores is audited for what it is
        if found.len() == before {
            found.push(path);
        }
    }
    found.sort();
    found.dedup();
    Ok(found.into_iter().map(StoreUrl::Local).collect())
}

/// Returns what a pattern matches; an error of kind `Absent` if that is nothing.
fn expanded(pattern: &str) -> Result<Vec<PathBuf>, Error> {
    let usage = |error: globset::Error| {
        Error::new(ErrorKind::Usage, format!("could not understand the pattern `{pattern}`"))
            .with_source(error)
    };
    let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(usage)?.compile_matcher();
    // the part without a pattern is where the search begins
    let fixed: PathBuf = Path::new(pattern)
        .components()
        .take_while(|part| !part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{']))
        .collect();
    let parts = Path::new(pattern).components().count();
    let deep = if pattern.contains("**") { DEPTH_MOST } else { parts - fixed.components().count() };
    let start = if fixed.as_os_str().is_empty() { Path::new(".") } else { fixed.as_path() };
    let mut matched = Vec::new();
    let mut folders = vec![(start.to_owned(), 1)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = if fixed.as_os_str().is_empty() && folder == start {
                PathBuf::from(entry.file_name())
            } else {
                entry.path()
            };
            if glob.is_match(&path) {
                matched.push(path);
            } else if depth < deep && entry.file_type().is_ok_and(|kind| kind.is_dir()) && !is_store(&path) {
                folders.push((path, depth + 1));
            }
        }
    }
    if matched.is_empty() {
        return Err(Error::new(ErrorKind::Absent, format!("no path matches the pattern `{pattern}`")));
    }
    matched.sort();
    Ok(matched)
}

/// Adds the stores below a folder.
fn search(folder: &Path, depth: usize, entered: &mut usize, found: &mut Vec<PathBuf>) {
    *entered += 1;
    if depth > DEPTH_MOST || *entered > FOLDERS_MOST {
        return;
    }
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    // arrays side by side in a folder without metadata are one hierarchy, unless they are named like stores
    let arrays = entries.iter().any(|path| is_array(path) && !is_named_like_store(path));
    if arrays && !entries.iter().any(|path| is_named_like_store(path)) {
        return found.push(folder.to_owned());
    }
    for path in entries {
        let linked = path.is_symlink();
        if path.is_dir() {
            if is_store(&path) || (is_named_like_store(&path) && !holds_store(&path)) {
                found.push(path);
            } else if !linked && !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
            {
                search(&path, depth + 1, entered, found);
            }
        } else if is_store_file(&path) || stands_for_store(&path) {
            found.push(path);
        }
    }
}

/// Returns whether something is named like a store that cannot be reached: a link to nothing, or the sidecar that DVC keeps
/// of a store that was not fetched.
fn stands_for_store(path: &Path) -> bool {
    if path.extension().is_some_and(|extension| extension == "dvc") {
        let store = path.with_extension("");
        return has_name_of_store(&store) && std::fs::symlink_metadata(&store).is_err();
    }
    has_name_of_store(path) && path.is_symlink() && !path.exists()
}

/// Returns whether a folder is the root of a store of a kind that zkit knows; documents that are links to nothing count.
fn is_store(folder: &Path) -> bool {
    let there = |name: &str| std::fs::symlink_metadata(folder.join(name)).is_ok();
    ROOT_DOCUMENTS.iter().any(|name| there(name))
        || (there("snapshots") && (there("refs") || there("repo")))
        || (there("meta") && there("data") && there("zarr.json"))
}

fn is_array(folder: &Path) -> bool {
    let there = |name: &str| std::fs::symlink_metadata(folder.join(name)).is_ok();
    let v3_array = || {
        let text = std::fs::metadata(folder.join("zarr.json"))
            .ok()
            .filter(|metadata| metadata.is_file() && metadata.len() < 1 << 20)
            .and_then(|_| std::fs::read_to_string(folder.join("zarr.json")).ok());
        text.is_some_and(|text| text.contains("\"array\"") && !text.contains("\"group\""))
    };
    there(".zarray") || v3_array()
}

/// Returns whether some folder directly below is the root of a store.
fn holds_store(folder: &Path) -> bool {
    std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| is_store(&entry.path()))
}

fn is_named_like_store(path: &Path) -> bool {
    has_name_of_store(path) && path.is_dir()
}

/// Returns whether a name ends like those of stores.
fn has_name_of_store(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    matches!(extension, "zarr" | "zarr3" | "zr3" | "n5" | "icechunk" | "ic")
}

/// Returns whether a file is named like a store in a file, or holds references.
fn is_store_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    if name.ends_with(".zarr.zip") || name.ends_with(".zip") {
        return true;
    }
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    if !name.ends_with(".json") || size.is_none_or(|size| size > REFERENCES_MOST) {
        return false;
    }
    // references name the metadata of their root near the start, or say `refs`
    let mut head = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| std::io::Read::read_to_end(&mut std::io::Read::take(file, 1 << 16), &mut head));
    let has = |word: &[u8]| head.windows(word.len()).any(|window| window == word);
    read.is_ok() && (has(b"\"refs\"") || has(b".zgroup\"") || has(b".zarray\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, key: &str, text: &str) {
        let path = folder.join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn names(folder: &Path, path: &str) -> Vec<String> {
        let found = stores(&folder.join(path).display().to_string()).unwrap();
        let relative = |url: &StoreUrl| {
            let path = url.local_path().unwrap();
            path.strip_prefix(folder).unwrap().display().to_string()
        };
        found.iter().map(relative).collect()
    }

    #[test]
    fn folders_are_searched_and_stores_are_not_entered() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "cache/a.zarr/.zgroup", "{}");
        write(root, "cache/a.zarr/t2m/.zarray", "{}");
        write(root, "cache/old/b.zarr/zarr.json", "{}");
        write(root, "cache/c.zarr/t2m/0.0", "x");
        write(root, "cache/d.zip", "PK");
        write(root, "cache/air.json", "{\"version\": 1, \"refs\": {}}");
        write(root, "cache/notes.json", "{\"a\": 1}");
        write(root, "cache/e.icechunk/snapshots/x", "");
        write(root, "cache/e.icechunk/refs/x", "");
        assert_eq!(
            names(root, "cache"),
            ["air.json", "a.zarr", "c.zarr", "d.zip", "e.icechunk", "old/b.zarr"]
                .map(|name| format!("cache/{name}"))
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
        assert_eq!(names(root, "cache/a.zarr"), ["cache/a.zarr"]);
        assert_eq!(names(root, "cache/[ab].zarr"), ["cache/a.zarr"]);
        assert_eq!(names(root, "ca*/**/*.zarr"), ["cache/a.zarr", "cache/c.zarr", "cache/old/b.zarr"]);
        assert!(stores(&root.join("x*").display().to_string()).is_err());
    }

    #[test]
    fn stores_that_cannot_be_reached_are_stores() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "cache/a.zarr/.zgroup", "{}");
        write(root, "cache/a.zarr.dvc", "outs:\n- path: a.zarr\n");
        write(root, "cache/b.zarr.dvc", "outs:\n- path: b.zarr\n");
        write(root, "cache/notes.txt.dvc", "outs:\n- path: notes.txt\n");
        std::os::unix::fs::symlink("/nowhere/c.zarr", root.join("cache/c.zarr")).unwrap();
        std::os::unix::fs::symlink("/nowhere/log.txt", root.join("cache/log.txt")).unwrap();
        assert_eq!(names(root, "cache"), ["cache/a.zarr", "cache/b.zarr.dvc", "cache/c.zarr"]);
    }

    #[test]
    fn arrays_side_by_side_are_one_store() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "group/a/.zarray", "{}");
        write(folder.path(), "group/b/.zarray", "{}");
        write(folder.path(), "cache/a.zarr/.zarray", "{}");
        write(folder.path(), "cache/b.zarr/.zarray", "{}");
        assert_eq!(names(folder.path(), "group"), ["group"]);
        assert_eq!(names(folder.path(), "cache"), ["cache/a.zarr", "cache/b.zarr"]);
        std::fs::create_dir(folder.path().join("empty")).unwrap();
        assert_eq!(names(folder.path(), "empty"), ["empty"]);
    }

    #[test]
    fn stores_are_compared_with_those_that_the_same_path_led_to() {
        let folder = tempfile::tempdir().unwrap();
        for key in ["one/a.zarr/.zgroup", "one/b.zarr/.zgroup", "two/c.zarr/.zgroup"] {
            write(folder.path(), key, "{}");
        }
        let groups = |names: &[&str]| -> Vec<String> {
            let paths: Vec<String> =
                names.iter().map(|name| folder.path().join(name).display().to_string()).collect();
            of_paths(&paths).unwrap().1
        };
        let all = groups(&["one", "two"]);
        assert!(all[0] == all[1] && all[1] != all[2], "{all:?}");
        let named = groups(&["one/a.zarr", "one/b.zarr", "two/c.zarr"]);
        assert!(named[0] == named[1] && named[1] != named[2], "{named:?}");
        let pattern = groups(&["*/*.zarr"]);
        assert!(pattern[0] == pattern[2], "{pattern:?}");
    }
}
