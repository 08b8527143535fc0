//! What stores are called in a baseline: the same wherever they are, and however their paths are written.

use std::path::{Component, Path};

/// The names of the stores of a run, below the folder that all of them share.
#[derive(Debug, Default)]
pub(crate) struct Places {
    root: Vec<String>,
    stores: Vec<String>,
}

/// The name of that folder itself.
const ROOT: &str = ".";

impl Places {
    /// Returns the names of stores by their URLs.
    pub(crate) fn of(urls: &[String]) -> Self {
        let mut parts = urls.iter().map(|url| parts_of(url));
        let parent = |mut parts: Vec<String>| {
            parts.pop();
            parts
        };
        let first = parts.next().map(parent).unwrap_or_default();
        let root = parts.map(parent).fold(first, |mut root, parts| {
            let shared = root.iter().zip(&parts).take_while(|(one, other)| one == other).count();
            root.truncate(shared);
            root
        });
        let mut places = Self { root, stores: Vec::new() };
        places.stores = urls.iter().map(|url| places.below(&parts_of(url))).collect();
        places
    }

    /// Returns the name of a store, or of the folder or pattern that stores were found by.
    pub(crate) fn name(&self, url: &str) -> String {
        let mut parts = parts_of(url);
        if let Some(pattern) = parts.iter().position(|part| part.contains(['*', '?', '[', '{'])) {
            let is_store = self.stores.contains(&self.below(&parts));
            parts.truncate(if is_store { parts.len() } else { pattern });
        }
        self.below(&parts)
    }

    fn below(&self, parts: &[String]) -> String {
        let shared = self.root.iter().zip(parts).take_while(|(one, other)| one == other).count();
        let up = self.root[shared..].iter().map(|_| "..");
        let name: Vec<&str> = up.chain(parts[shared..].iter().map(String::as_str)).collect();
        if name.is_empty() { ROOT.to_owned() } else { name.join("/") }
    }

    /// Returns the one of `known` names that stands for a store of this name: itself, or the one that says more or less of the
    /// folders above it, if no other store or name could be meant.
    pub(crate) fn known_as<'k>(
        &self,
        name: &str,
        known: impl Iterator<Item = &'k str> + Clone,
    ) -> Option<&'k str> {
        if let Some(same) = known.clone().find(|other| *other == name) {
            return Some(same);
        }
        let mut like = known.filter(|other| is_end(name, other));
        let only = like.next().filter(|_| like.next().is_none())?;
        let meant = self.stores.iter().filter(|store| *store == only || is_end(store, only)).count();
        (meant == 1 && self.stores.iter().any(|store| store == name)).then_some(only)
    }
}

/// Returns whether one path is the end of the other.
fn is_end(one: &str, other: &str) -> bool {
    let ends = |long: &str, short: &str| {
        short != ROOT && long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'))
    };
    ends(one, other) || ends(other, one)
}

/// Returns the parts of a URL, or of the absolute path that a path means.
fn parts_of(url: &str) -> Vec<String> {
    let path = match url.strip_prefix("file://") {
        None if url.contains("://") => {
            return url.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        }
        local => Path::new(local.unwrap_or(url)),
    };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut parts = Vec::new();
    for component in absolute.components() {
        match component {
            Component::ParentDir => _ = parts.pop(),
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(urls: &[&str]) -> Vec<String> {
        Places::of(&urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>()).stores
    }

    #[test]
    fn a_store_has_one_name_however_its_path_is_written() {
        let folder = std::env::current_dir().unwrap();
        let here = folder.display();
        for urls in [
            ["c/a.zarr", "c/b.zarr"],
            ["./c/a.zarr/", "c/x/../b.zarr"],
            [&format!("{here}/c/a.zarr"), "c//b.zarr"],
            ["file:///elsewhere/a.zarr", "/elsewhere/b.zarr"],
            ["s3://bucket/c/a.zarr", "s3://bucket/c/b.zarr/"],
        ] {
            assert_eq!(names(&urls), ["a.zarr", "b.zarr"], "{urls:?}");
        }
        assert_eq!(names(&["c/a.zarr"]), ["a.zarr"]);
        assert_eq!(names(&["c/x/a.zarr", "c/y/a.zarr"]), ["x/a.zarr", "y/a.zarr"]);
    }

    #[test]
    fn a_folder_and_a_pattern_of_its_stores_are_one_place() {
        let places = Places::of(&["c/a.zarr".to_owned(), "c/b[1].zarr".to_owned()]);
        assert_eq!([places.name("c"), places.name("c/*.zarr"), places.name("./c/")], [ROOT; 3]);
        assert_eq!(places.name("c/b[1].zarr"), "b[1].zarr");
        assert_eq!(places.name("d/x"), "../d/x");
    }

    #[test]
    fn a_name_that_says_more_of_the_folders_is_the_same_store_where_no_other_is_meant() {
        let known = |stores: &[&str], name: &str, known: &[&str]| {
            let stores: Vec<String> = stores.iter().map(|store| (*store).to_owned()).collect();
            let places = Places { root: Vec::new(), stores };
            places.known_as(name, known.iter().copied()).map(str::to_owned)
        };
        assert_eq!(known(&["x/a", "x/b"], "x/a", &["a", "b"]).as_deref(), Some("a"));
        assert_eq!(known(&["a"], "a", &["x/a", "x/b"]).as_deref(), Some("x/a"));
        assert_eq!(known(&["a"], "a", &["x/a", "y/a"]), None);
        assert_eq!(known(&["x/a", "y/a"], "x/a", &["a"]), None);
        assert_eq!(known(&["xa"], "xa", &["a"]), None);
    }
}
