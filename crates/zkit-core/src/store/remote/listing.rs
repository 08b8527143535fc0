//! Listings of remote stores: a page after the other, and where there are many chunks, ranges of keys side by side.

use std::ops::ControlFlow;
use std::pin::pin;

use futures_util::stream::{self, BoxStream, select_all, try_unfold};
use futures_util::{StreamExt as _, TryStreamExt as _, future};
use object_store::path::Path as ObjectPath;
use object_store::{ListResult, ObjectMeta};

use super::Inner;
use super::ahead::{Begun, Listed, OBJECTS_MOST};
use super::pages::Pages;
use crate::error::Result;

/// Objects after which a listing is cut into ranges: what the clouds give in one answer.
pub(super) const PAGE: usize = 1000;

/// Cuts of those that a caller names, at most: as many listings are on their way at once.
const CUTS_MOST: usize = 64;

pub(super) type Objects = BoxStream<'static, object_store::Result<ObjectMeta>>;

impl Inner {
    /// Calls `visit` for the objects below `path` until it breaks off: the first page in order, the others in no order.
    ///
    /// `cuts` are keys at which it may be cut, in any order. Cost: a request a page, and where there are many, up to one more for
    /// each digit and for [`CUTS_MOST`] cuts.
    pub(super) async fn list_while(
        &self,
        (prefix, path): (&str, &ObjectPath),
        cuts: &[&str],
        visit: &mut dyn FnMut(&str, &ObjectMeta) -> ControlFlow<()>,
    ) -> Result<()> {
        if let Some(outline) = self.ahead.whole().filter(|_| prefix.is_empty()) {
            let _ = outline.objects.iter().try_for_each(|(key, object)| visit(key, object));
            return Ok(());
        }
        let _permit = self.window.enter().await;
        let begun = if prefix.is_empty() { self.ahead.take_begun() } else { None };
        let Begun { first, rest: mut objects } =
            begun.unwrap_or_else(|| Begun { first: Listed::new(), rest: self.objects(path, None) });
        let mut page: Vec<String> = Vec::with_capacity(first.len());
        for (key, object) in first {
            if visit(&key, &object).is_break() {
                return Ok(());
            }
            page.push(key);
        }
        let failed = |error: object_store::Error| self.error("list", prefix, &error);
        while page.len() < PAGE {
            let Some(object) = objects.try_next().await.map_err(failed)? else { return Ok(()) };
            let key = key_below(path, &object);
            if visit(key, &object).is_break() {
                return Ok(());
            }
            page.push(key.to_owned());
        }
        let mut rest = pin!(self.ranges(path, objects, bounds(&page, cuts)));
        while let Some(object) = rest.try_next().await.map_err(failed)? {
            if visit(key_below(path, &object), &object).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Lists the first objects of the store, before it is known what they are.
    ///
    /// Cost: a request a page, up to [`OBJECTS_MOST`] objects.
    pub(super) async fn list_ahead(&self) -> Result<()> {
        let path = self.path("")?;
        let _permit = self.window.enter().await;
        let mut rest = self.objects(&path, None);
        let mut first = Listed::new();
        while first.len() < OBJECTS_MOST {
            match rest.try_next().await.map_err(|error| self.error("list", "", &error))? {
                Some(object) => first.push((key_below(&path, &object).to_owned(), object)),
                None => {
                    self.ahead.set_whole(first);
                    return Ok(());
                }
            }
        }
        self.ahead.set_begun(Begun { first, rest });
        Ok(())
    }

    /// Returns what lies directly below `path`.
    pub(super) async fn listed(&self, path: &ObjectPath) -> object_store::Result<ListResult> {
        let mut pages = self.pages(path, None, Some("/"))?;
        let (mut objects, mut folders) = (Vec::new(), Vec::new());
        while let Some(page) = pages.next().await? {
            objects.extend(page.objects);
            folders.extend(page.common_prefixes);
        }
        folders.sort_unstable();
        folders.dedup();
        Ok(ListResult { common_prefixes: folders, objects, extensions: http::Extensions::new() })
    }

    /// Returns the objects below `path`, behind `start` if the server knows offsets.
    fn objects(&self, path: &ObjectPath, start: Option<&ObjectPath>) -> Objects {
        let pages = match self.pages(path, start, None) {
            Ok(pages) => pages,
            Err(error) => return stream::once(future::err(error)).boxed(),
        };
        let pages = try_unfold(pages, |mut pages| async move {
            Ok::<_, object_store::Error>(pages.next().await?.map(|page| (page.objects, pages)))
        });
        pages.map_ok(|objects| stream::iter(objects.into_iter().map(Ok))).try_flatten().boxed()
    }

    fn pages(
        &self,
        path: &ObjectPath,
        start: Option<&ObjectPath>,
        delimiter: Option<&'static str>,
    ) -> object_store::Result<Pages> {
        let server = self.pages.as_ref().ok_or_else(|| object_store::Error::NotSupported {
            source: "web servers have no listing".into(),
        })?;
        Ok(server.pages(path, (start, delimiter), &self.network))
    }

    /// Returns the rest of a listing whose first page is known, side by side where its keys tell how to cut it.
    fn ranges(&self, path: &ObjectPath, rest: Objects, bounds: Vec<String>) -> Objects {
        let bounds: Vec<ObjectPath> =
            bounds.into_iter().filter_map(|key| ObjectPath::parse(format!("{path}/{key}")).ok()).collect();
        let ends = bounds.iter().skip(1).cloned().map(Some).chain([None]);
        let later = bounds
            .iter()
            .zip(ends)
            .map(|(start, end)| between(self.objects(path, Some(start)), Some(start.clone()), end));
        let first = between(rest, None, bounds.first().cloned());
        select_all([first].into_iter().chain(later)).boxed()
    }
}

/// Returns the objects behind `start` up to `end`, which is not read beyond.
fn between(objects: Objects, start: Option<ObjectPath>, end: Option<ObjectPath>) -> Objects {
    let is_inside = move |object: &ObjectMeta| end.as_ref().is_none_or(|end| object.location <= *end);
    let objects = objects.try_take_while(move |object| future::ok(is_inside(object)));
    // servers that know no offsets begin with the first key
    objects
        .try_filter(move |object| future::ready(start.as_ref().is_none_or(|start| object.location > *start)))
        .boxed()
}

fn key_below<'o>(path: &ObjectPath, object: &'o ObjectMeta) -> &'o str {
    let location = object.location.as_ref();
    location.strip_prefix(path.as_ref()).unwrap_or(location).trim_start_matches('/')
}

/// Returns keys at which the rest of a listing is cut, behind the page that is known: a fair choice of `cuts`, and those at which
/// chunk keys go on with another digit. Nothing where keys do not come in order.
fn bounds(page: &[String], cuts: &[&str]) -> Vec<String> {
    let Some(last) = page.last().filter(|_| page.is_sorted()) else { return Vec::new() };
    let mut cuts: Vec<&str> = cuts.iter().copied().filter(|cut| *cut > last.as_str()).collect();
    cuts.sort_unstable();
    let step = cuts.len().div_ceil(CUTS_MOST).max(1);
    let mut bounds: Vec<String> = cuts.into_iter().step_by(step).map(str::to_owned).collect();
    bounds.extend(digits(page, last));
    bounds.sort_unstable();
    bounds.dedup();
    bounds
}

/// Returns keys behind the last one of a page at which chunk keys continue with another digit behind what is the same in all of
/// them. Nothing where keys have another form.
fn digits(page: &[String], last: &str) -> Vec<String> {
    let stem = |key: &str| key.find(|c: char| c.is_ascii_digit()).map(|at| key[..at].to_owned());
    let chunk = page.iter().find_map(|key| stem(key));
    let Some(chunk) = chunk.filter(|chunk| stem(last).as_ref() == Some(chunk)) else { return Vec::new() };
    ('1'..='9').map(|digit| format!("{chunk}{digit}")).filter(|bound| bound.as_str() > last).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;
    use object_store::{ObjectStore, ObjectStoreExt as _};

    use super::*;

    fn keys(keys: &[&str]) -> Vec<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn listings_are_cut_where_chunk_keys_go_on_with_another_digit() {
        let digits = |page: &[&str]| bounds(&keys(page), &[]);
        assert_eq!(digits(&[".zarray", "0.0", "0.1"])[..2], ["1", "2"]);
        assert_eq!(digits(&["c/0/0", "c/3/1"])[0], "c/4");
        assert!(digits(&[".zarray", ".zattrs"]).is_empty());
        assert!(digits(&["a/0", "b/0"]).is_empty());
        // in no order, as directory buckets give them
        assert!(digits(&["5.0", "0.0", "6.0"]).is_empty());
    }

    #[test]
    fn listings_are_cut_between_arrays_behind_the_page_that_is_known() {
        let names: Vec<String> = (0..1000).rev().map(|at| format!("v{at:03}")).collect();
        let cuts: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = bounds(&keys(&["a/.zarray", "v299/.zarray"]), &cuts);
        let arrays = found.iter().filter(|bound| bound.len() == 4);
        assert_eq!(arrays.clone().count(), 64);
        assert_eq!(arrays.min().unwrap(), "v300");
        assert!(found.is_sorted());
        assert!(bounds(&keys(&["v299/0", "a/0"]), &cuts).is_empty());
    }

    #[test]
    fn ranges_hold_each_object_once_whether_or_not_a_server_knows_offsets() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = Arc::new(InMemory::new());
            for at in 0..200 {
                store.put(&ObjectPath::from(format!("a/{at}")), "x".into()).await.unwrap();
            }
            let bound = |key: &str| Some(ObjectPath::from(key));
            for from_the_start in [true, false] {
                let mut found = Vec::new();
                for (start, end) in [(None, bound("a/1")), (bound("a/1"), bound("a/5")), (bound("a/5"), None)]
                {
                    let objects: Objects = match &start {
                        Some(start) if !from_the_start => {
                            ObjectStore::list_with_offset(&*store, Some(&"a".into()), start)
                        }
                        _ => ObjectStore::list(&*store, Some(&"a".into())),
                    };
                    let range: Vec<ObjectMeta> = between(objects, start, end).try_collect().await.unwrap();
                    found.extend(range.into_iter().map(|object| object.location));
                }
                found.sort();
                assert_eq!(found.len(), 200);
                found.dedup();
                assert_eq!(found.len(), 200);
            }
        });
    }
}
