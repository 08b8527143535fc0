//! The pages of listings: each one whole, and each one further than those before.
//!
//! A listing says what is absent. So an answer that is no listing, that ends early or that goes round in circles is an error, and
//! never the end of the listing.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use http::Extensions;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as ObjectPath;
use object_store::{Error, ListResult};

use super::network::Network;

/// Pages without a new key that are taken one behind the other: servers may give empty ones, and say that more follow.
const BARREN_MOST: u32 = 300;

/// The roots of listings: of S3 and of Google's XML API, and of Azure.
const ROOTS: [&str; 2] = ["ListBucketResult", "EnumerationResults"];

/// A server that lists what it holds.
#[derive(Clone)]
pub(super) struct PagesServer {
    pub(super) server: Arc<dyn PaginatedListStore>,
    /// Whether it can begin behind a key.
    pub(super) knows_offsets: bool,
}

/// Marks the requests of listings.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfListing;

/// What a server answers instead of a listing.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoListing {
    #[error("the answer is not a listing: it begins with `{0}`")]
    OtherRoot(String),
    #[error("the listing is cut off: `</{0}>` expected at its end")]
    CutOff(&'static str),
    #[error("the listing ends early: it says that more follows, and not how to go on")]
    NoToken,
}

/// How a listing goes on for ever.
#[derive(Debug, thiserror::Error)]
enum Endless {
    #[error("the listing goes round in circles: the server gives the same continuation token twice")]
    SameToken,
    #[error("the listing goes round in circles: the server gives the same page twice")]
    SamePage,
    #[error("the listing makes no progress: {BARREN_MOST} pages bring no new key")]
    Barren,
    #[error("the listing holds `{key}`, which is not below `{prefix}`")]
    Outside { key: String, prefix: String },
}

/// The pages of one listing.
pub(super) struct Pages {
    server: PagesServer,
    network: Network,
    path: ObjectPath,
    options: PaginatedListOptions,
    is_done: bool,
    progress: Progress,
}

/// What keeps a listing from going on for ever.
#[derive(Default)]
struct Progress {
    /// The greatest name so far.
    last: String,
    /// Whether names come in another order than theirs, as directory buckets give them.
    is_unordered: bool,
    /// Pages since a new name came.
    barren: u32,
    /// Hashes of continuation tokens and of the names of pages.
    tokens: HashSet<u64>,
    pages: HashSet<u64>,
}

impl PagesServer {
    /// Returns the pages of what lies below `path`, behind `start` if the server knows offsets: else from the first one on.
    pub(super) fn pages(
        &self,
        path: &ObjectPath,
        (start, delimiter): (Option<&ObjectPath>, Option<&'static str>),
        network: &Network,
    ) -> Pages {
        let start = start.filter(|_| self.knows_offsets);
        let options = PaginatedListOptions {
            offset: start.map(ToString::to_string),
            delimiter: delimiter.map(Into::into),
            ..PaginatedListOptions::default()
        };
        let progress = Progress::default();
        Pages {
            server: self.clone(),
            network: network.clone(),
            path: path.clone(),
            options,
            is_done: false,
            progress,
        }
    }
}

impl std::fmt::Debug for PagesServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PagesServer").finish_non_exhaustive()
    }
}

impl Pages {
    /// Returns the next page; `None` behind the last one.
    pub(super) async fn next(&mut self) -> object_store::Result<Option<ListResult>> {
        if self.is_done {
            return Ok(None);
        }
        let path = self.path.as_ref();
        let prefix = (!path.is_empty()).then(|| format!("{path}/"));
        let mut extensions = Extensions::new();
        extensions.insert(OfListing);
        let options = PaginatedListOptions { extensions, ..self.options.clone() };
        let page = self.server.server.list_paginated(prefix.as_deref(), options).await?;
        let token = page.page_token.filter(|token| !token.is_empty());
        let names = names(&self.path, &page.result).map_err(endless)?;
        // who waits for a listing that brings nothing waits in vain
        if self.progress.take_in(&names, token.as_deref()).map_err(endless)? {
            self.network.pulse().beat();
        }
        self.is_done = token.is_none();
        self.options.page_token = token;
        Ok(Some(page.result))
    }
}

fn endless(why: Endless) -> Error {
    Error::Generic { store: "listing", source: Box::new(why) }
}

/// Returns the names of a page as the server orders them, all of which must be below `path`.
fn names(path: &ObjectPath, page: &ListResult) -> Result<Vec<String>, Endless> {
    let objects = page.objects.iter().map(|object| object.location.to_string());
    let folders = page.common_prefixes.iter().map(|folder| format!("{folder}/"));
    let names: Vec<String> = objects.chain(folders).collect();
    let root = path.as_ref();
    // a marker of the folder itself may be among them
    let is_below = |name: &str| {
        root.is_empty()
            || name.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match names.iter().find(|name| !is_below(name)) {
        Some(key) => {
            let key = crate::location::redact(key).chars().take(300).collect();
            Err(Endless::Outside { key, prefix: root.to_owned() })
        }
        None => Ok(names),
    }
}

impl Progress {
    /// Takes in a page, and the token of the next one; returns whether it brought a new name.
    fn take_in(&mut self, names: &[String], token: Option<&str>) -> Result<bool, Endless> {
        let hash = |text: &str| xxhash_rust::xxh3::xxh3_64(text.as_bytes());
        if token.is_some_and(|token| !self.tokens.insert(hash(token))) {
            return Err(Endless::SameToken);
        }
        if !names.is_empty() && !self.pages.insert(hash(&names.join("\0"))) {
            return Err(Endless::SamePage);
        }
        let (first, last) = (names.iter().min(), names.iter().max());
        let is_further = last.is_some_and(|last| *last > self.last);
        // objects come before folders in a page, and each of them in their order
        let is_in_order = first.is_none_or(|first| *first > self.last);
        let is_new = is_further || (self.is_unordered && !names.is_empty());
        if is_further {
            self.is_unordered |= !is_in_order;
        }
        if let Some(last) = last.filter(|_| is_further) {
            self.last.clone_from(last);
        }
        self.barren = if is_new { 0 } else { self.barren + 1 };
        match token {
            Some(_) if self.barren >= BARREN_MOST => Err(Endless::Barren),
            _ => Ok(is_new),
        }
    }
}

/// Checks that the body of an answer is a whole listing: of another document, none of whose elements it knows, object_store would
/// make an empty one.
pub(super) fn check(body: &Bytes) -> Result<(), NoListing> {
    let text = String::from_utf8_lossy(body);
    let root = root_of(&text);
    let Some(name) = ROOTS.into_iter().find(|name| *name == root) else {
        let begin: String = text.trim().chars().take(40).collect();
        return Err(NoListing::OtherRoot(begin));
    };
    let end = text.trim_end();
    let is_empty = end.ends_with("/>") && end.matches('<').count() <= 2;
    if !end.ends_with(&format!("</{name}>")) && !is_empty {
        return Err(NoListing::CutOff(name));
    }
    let is_truncated = element(&text, "IsTruncated").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let has_token = element(&text, "NextContinuationToken").is_some_and(|token| !token.is_empty());
    if is_truncated && !has_token { Err(NoListing::NoToken) } else { Ok(()) }
}

/// Returns the name of the first element of an XML document.
fn root_of(text: &str) -> &str {
    let is_name = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_alphabetic());
    let Some(rest) = text.split('<').skip(1).find(is_name) else { return "" };
    &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())]
}

fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = after.split_once(&format!("</{name}>"))?;
    Some(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&str]) -> Vec<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn a_listing_that_goes_on_is_taken() {
        let mut progress = Progress::default();
        assert!(progress.take_in(&keys(&["a", "b"]), Some("1")).unwrap());
        assert!(!progress.take_in(&[], Some("2")).unwrap());
        assert!(progress.take_in(&keys(&["c", "d/"]), None).unwrap());
    }

    #[test]
    fn the_same_token_or_page_twice_is_refused_at_once() {
        let mut progress = Progress::default();
        progress.take_in(&keys(&["a"]), Some("1")).unwrap();
        assert!(matches!(progress.take_in(&keys(&["b"]), Some("1")), Err(Endless::SameToken)));
        let mut progress = Progress::default();
        progress.take_in(&keys(&["b", "a"]), Some("1")).unwrap();
        progress.take_in(&keys(&["c"]), Some("2")).unwrap();
        assert!(matches!(progress.take_in(&keys(&["b", "a"]), Some("3")), Err(Endless::SamePage)));
    }

    #[test]
    fn pages_that_bring_nothing_come_to_an_end() {
        let barren = |page: &dyn Fn(u32) -> Vec<String>| {
            let mut progress = Progress::default();
            progress.take_in(&keys(&["m"]), Some("first")).unwrap();
            (0..=BARREN_MOST).find(|at| progress.take_in(&page(*at), Some(&at.to_string())).is_err())
        };
        assert_eq!(barren(&|_| Vec::new()), Some(BARREN_MOST - 1));
        assert_eq!(barren(&|at| vec![format!("a{at}")]), Some(BARREN_MOST - 1));
        assert_eq!(barren(&|at| vec![format!("n{at:05}")]), None);
    }

    #[test]
    fn directory_buckets_may_list_in_any_order() {
        let mut progress = Progress::default();
        progress.take_in(&keys(&["07919"]), Some("1")).unwrap();
        // a page that begins before what came tells that there is no order
        let mixed = keys(&["00001", "99999"]);
        progress.take_in(&mixed, Some("mixed")).unwrap();
        assert!((2..3000).all(|at| {
            let name = vec![format!("{:05}", (at * 7919) % 10_007)];
            progress.take_in(&name, Some(&at.to_string())).is_ok()
        }));
    }

    #[test]
    fn answers_that_are_no_whole_listing_are_no_empty_listing() {
        let checked = |text: &str| check(&Bytes::copy_from_slice(text.as_bytes()));
        for text in [
            "<?xml version='1.0'?>\n<!-- x --><ListBucketResult xmlns=\"x\"><Name>a</Name></ListBucketResult>\n",
            "\u{feff}<?xml version='1.0'?><EnumerationResults><Blobs/><NextMarker/></EnumerationResults>",
            "<ListBucketResult/>",
            "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken></ListBucketResult>",
        ] {
            assert!(checked(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "{}",
            "<html><body>Sign in</body></html>",
            "<Error><Code>InternalError</Code></Error>",
            "<ListBucketResult><Contents><Key>a</Key>",
            "<ListBucketResult><Name>a</Name><Contents/>",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken></NextContinuationToken></ListBucketResult>",
        ] {
            assert!(checked(text).is_err(), "{text}");
        }
    }

    #[test]
    fn keys_outside_of_what_is_listed_are_refused() {
        let page = |key: &str| ListResult {
            common_prefixes: vec![ObjectPath::from(key)],
            objects: Vec::new(),
            extensions: Extensions::new(),
        };
        let path = ObjectPath::from("a/b");
        assert!(names(&path, &page("a/b/c")).is_ok());
        for key in ["a/bc", "a", "x/a/b/c"] {
            assert!(names(&path, &page(key)).is_err(), "{key}");
        }
        assert!(names(&ObjectPath::default(), &page("a")).is_ok());
    }
}
