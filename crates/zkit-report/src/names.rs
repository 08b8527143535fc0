//! How stores and arrays are named where many are: below the folder that they share.

use crate::format;
use crate::report::{Report, StoreSummary};
use crate::words;

/// The most characters of a name.
const NAME_MOST: usize = 160;

/// Names that are written one by one before the rest is counted.
const LISTED: usize = 6;

/// How the stores of a report are named: without the folder that they share, and beside their arrays not at
/// all where there is one.
///
/// Names are clipped, not sanitized.
pub(crate) struct Names {
    /// With a slash at its end.
    pub(crate) folder: Option<String>,
    only_one: bool,
}

impl Names {
    pub(crate) fn of(report: &Report) -> Self {
        Self { folder: common_folder(&report.stores), only_one: report.stores.len() == 1 }
    }

    /// Returns the name of a store.
    pub(crate) fn store(&self, url: &str) -> String {
        let rest = self.folder.as_deref().and_then(|folder| url.strip_prefix(folder));
        clip(rest.filter(|rest| !rest.is_empty()).unwrap_or(url))
    }

    /// Returns the name of an array, behind that of its store if there are several; that of the store without
    /// an array.
    pub(crate) fn place(&self, store: &str, array: Option<&str>) -> String {
        match array {
            Some(array) if self.only_one => clip(array),
            Some(array) => format!("{} {}", self.store(store), clip(array)),
            None => self.store(store),
        }
    }

    /// Returns some stores in words: `a.zarr, b.zarr and 20 more stores`.
    pub(crate) fn stores(&self, urls: &[&str]) -> String {
        listed(urls, |url| self.store(url), "more store", "more stores")
    }

    /// Returns some places in words: stores that each have all of the arrays.
    pub(crate) fn places(&self, urls: &[&str], arrays: &[&str]) -> String {
        match arrays {
            [] => self.stores(urls),
            _ if self.only_one => list_arrays(arrays),
            _ => format!("{}: {}", self.stores(urls), list_arrays(arrays)),
        }
    }
}

/// Names for a place that can be opened: the first ones, and what is behind `and 12 more`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Folded {
    pub(crate) shown: String,
    /// `and 12 more`, and the names; `None` if all are shown.
    pub(crate) rest: Option<(String, String)>,
}

/// The most names behind `and 12 more`.
const FOLDED_MOST: usize = 250;

/// Returns names, made by `name`, of which the first ones are shown.
pub(crate) fn folded(names: &[&str], name: impl Fn(&str) -> String) -> Folded {
    let list = |names: &[&str]| names.iter().map(|text| name(text)).collect::<Vec<_>>().join(", ");
    let (shown, rest) = names.split_at(names.len().min(LISTED));
    let label = format!("and {} more", format::count(rest.len() as u64));
    let (named, left) = rest.split_at(rest.len().min(FOLDED_MOST));
    let mut behind = list(named);
    if !left.is_empty() {
        behind.push_str(&format!(" and {} more", format::count(left.len() as u64)));
    }
    Folded { shown: list(shown), rest: (!rest.is_empty()).then_some((label, behind)) }
}

/// Returns some arrays in words: `/t2m, /tp and 225 more arrays`.
fn list_arrays(arrays: &[&str]) -> String {
    listed(arrays, clip, "more array", "more arrays")
}

fn listed(names: &[&str], name: impl Fn(&str) -> String, one: &str, many: &str) -> String {
    let shown: Vec<String> = names.iter().take(LISTED).map(|text| name(text)).collect();
    let list = shown.join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => list,
        more => format!("{list} and {}", format::counted(more as u64, one, many)),
    }
}

/// Returns a name of bounded length.
pub(crate) fn clip(name: &str) -> String {
    words::clipped(name, NAME_MOST).into_owned()
}

/// Returns the folder that all stores lie in, with a slash at its end, if there are several stores.
fn common_folder(stores: &[StoreSummary]) -> Option<String> {
    let [first, rest @ ..] = stores else { return None };
    let mut common = first.url.as_str();
    for store in rest {
        let alike = common.char_indices().zip(store.url.chars()).take_while(|((_, a), b)| a == b).last();
        common = &common[..alike.map_or(0, |((offset, character), _)| offset + character.len_utf8())];
    }
    let folder = &common[..common.rfind('/')? + 1];
    (!rest.is_empty() && !folder.ends_with("//") && folder.len() > 1).then(|| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn stores_are_named_below_the_folder_that_they_share() {
        let stores = |urls: &[&str]| -> Option<String> {
            let template = &samples::report().stores[0];
            let stores: Vec<_> =
                urls.iter().map(|url| StoreSummary { url: (*url).into(), ..template.clone() }).collect();
            common_folder(&stores)
        };
        assert_eq!(stores(&["/d/a.zarr", "/d/ab.zarr"]).as_deref(), Some("/d/"));
        assert_eq!(stores(&["s3://b/c/a.zarr", "s3://b/c/b.zarr"]).as_deref(), Some("s3://b/c/"));
        assert_eq!(stores(&["s3://b", "s3://c"]), None);
        assert_eq!(stores(&["/d/a.zarr"]), None);
        assert_eq!(stores(&["/\u{e9}/a", "/\u{e8}/a"]), None);
    }

    #[test]
    fn some_are_named_and_the_rest_is_counted() {
        let mut report = samples::report();
        let names = Names::of(&report);
        assert_eq!(names.place("/data/cache/batch_01.zarr", Some("/t2m")), "batch_01.zarr /t2m");
        assert_eq!(names.place("/elsewhere/a.zarr", None), "/elsewhere/a.zarr");
        let arrays: Vec<String> = (0..9).map(|index| format!("/v{index}")).collect();
        let arrays: Vec<&str> = arrays.iter().map(String::as_str).collect();
        assert_eq!(
            names.places(&["/data/cache/batch_01.zarr", "/data/cache/batch_02.zarr"], &arrays),
            "batch_01.zarr, batch_02.zarr: /v0, /v1, /v2, /v3, /v4, /v5 and 3 more arrays"
        );
        let shown = folded(&arrays, clip);
        assert_eq!(shown.shown, "/v0, /v1, /v2, /v3, /v4, /v5");
        assert_eq!(shown.rest, Some(("and 3 more".into(), "/v6, /v7, /v8".into())));
        assert_eq!(folded(&arrays[..6], clip).rest, None);
        report.stores.truncate(1);
        assert_eq!(Names::of(&report).places(&["/data/cache/batch_01.zarr"], &["/t2m"]), "/t2m");
    }
}
