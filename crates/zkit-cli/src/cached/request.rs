//! What is asked of a cache, in canonical form: before any source is opened.

use std::path::Path;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};
use zkit_core::location::{StoreUrl, redact};

/// So many characters of a name say what the sources are, and what is taken of them.
const DATASET_MOST: usize = 40;
const SELECTION_MOST: usize = 80;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What it is taken from, for people: part of the entry's name.
    pub dataset: String,
    /// What is taken, for people: part of the entry's name.
    pub selection: String,
    /// Everything that decides what is written, in canonical form; the same request has the same.
    pub options: Vec<(String, String)>,
}

impl Request {
    /// Returns the hash of the request, which no other one has, in 32 hexadecimal digits.
    pub fn key(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.options {
            // lengths in front: no text can be taken for two others
            text.push_str(&format!("{}:{name}{}:{value}", name.len(), value.len()));
        }
        format!("{:032x}", xxh3_128(text.as_bytes()))
    }

    /// Returns the name of its store in a cache: short, and safe in every file system and shell.
    pub fn store_name(&self) -> String {
        let (dataset, selection) = (safe(&self.dataset, DATASET_MOST), safe(&self.selection, SELECTION_MOST));
        let words: Vec<&str> =
            [dataset.as_str(), &selection].into_iter().filter(|word| !word.is_empty()).collect();
        format!("{}-{}.zarr", words.join("_"), &self.key()[..16])
    }

    /// Returns the options without what may be secret in them.
    pub fn told(&self) -> Vec<(String, String)> {
        self.options.iter().map(|(name, value)| (name.clone(), redact(value))).collect()
    }
}

/// Returns what tells a source from all others: a hash of its place, whole; relative paths count from here.
pub fn source_id(source: &StoreUrl) -> u64 {
    match source {
        StoreUrl::Local(path) => xxh3_64(absolute(path).as_os_str().as_encoded_bytes()),
        StoreUrl::Remote { url, .. } => xxh3_64(url.as_str().as_bytes()),
    }
}

/// Returns the place of a source for people and manifests: whole, and without secrets.
pub fn source_name(source: &StoreUrl) -> String {
    match source {
        StoreUrl::Local(path) => absolute(path).display().to_string(),
        StoreUrl::Remote { .. } => source.to_string(),
    }
}

fn absolute(path: &Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns text with nothing but letters, digits and `.=,+-`, runs of others as one `-`, and no longer than allowed.
fn safe(text: &str, most: usize) -> String {
    let mut safe = String::new();
    for letter in text.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '=' | ',' | '+' | '-' | '_' => safe.push(letter),
            _ if safe.ends_with('-') => {}
            _ => safe.push('-'),
        }
        if safe.len() >= most {
            break;
        }
    }
    safe.trim_matches(['-', '.', '_']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(dataset: &str, selection: &str, options: &[(&str, &str)]) -> Request {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Request { dataset: dataset.to_owned(), selection: selection.to_owned(), options: options.collect() }
    }

    #[test]
    fn names_are_short_and_safe_whatever_is_asked() {
        let name = request("era5", "latitude=51.5_longitude=0", &[("a", "b")]).store_name();
        assert!(name.starts_with("era5_latitude=51.5_longitude=0-") && name.ends_with(".zarr"), "{name}");
        let long = "ü/../\n".repeat(500);
        let name = request(&long, &long, &[]).store_name();
        assert!(name.len() < 160 && !name.contains(['/', '\n']) && !name.starts_with('.'), "{name}");
        let name = request("..", "", &[]).store_name();
        assert_eq!(name.len(), 1 + 16 + 5, "{name}");
    }

    #[test]
    fn requests_have_one_key_only_where_all_options_are_equal() {
        let key = |options: &[(&str, &str)]| request("a", "b", options).key();
        assert_eq!(key(&[("x", "1")]), key(&[("x", "1")]));
        let all = [
            key(&[("x", "1")]),
            key(&[("x", "2")]),
            key(&[("x1", "")]),
            key(&[("x", ""), ("1", "")]),
            key(&[("x", "11:")]),
            key(&[]),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn secrets_are_told_to_nobody_and_still_tell_sources_apart() {
        let url = |text: &str| text.parse::<StoreUrl>().unwrap();
        let (one, two) = (url("https://h/a.zarr?sig=1"), url("https://h/a.zarr?sig=2"));
        assert_ne!(source_id(&one), source_id(&two));
        assert!(!source_name(&one).contains("sig=1"));
        let told = request("a", "b", &[("source", "https://h/a.zarr?sig=1")]).told();
        assert_eq!(told[0].1, "https://h/a.zarr?sig=***");
    }
}
