//! Listings of remote stores: a page after the other, and where there are many chunks, ranges of keys side by side.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{BoxStream, select_all, try_unfold};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::client::HttpError;
use object_store::path::Path as ObjectPath;
use object_store::{ListResult, ObjectMeta, ObjectStore};

use super::Inner;
use super::ahead::{Begun, Listed, OBJECTS_MOST};
use super::network::Network;
use crate::error::Result;

/// Objects after which a listing is cut into ranges: what the clouds give in one answer.
pub(super) const PAGE: usize = 1000;

/// Cuts of those that a caller names, at most: as many listings are on their way at once.
const CUTS_MOST: usize = 64;

/// How often an answer that breaks off is asked for again: object_store does so where a request fails, not a body.
const TRIES: u32 = 4;
/// The pause before the first of these; the next ones are longer.
const PAUSE: Duration = Duration::from_millis(200);

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
        let mut tries = 0;
        loop {
            match self.store.list_with_delimiter(Some(path)).await {
                Err(error) if tries < TRIES && is_body_broken(&error) => {
                    tries += 1;
                    pause(&self.network, tries).await;
                }
                answer => return answer,
            }
        }
    }

    /// Returns the objects below `path`, behind `start` if the server knows offsets. Where an answer breaks off, what is behind
    /// the last object is asked for, if they came in order.
    fn objects(&self, path: &ObjectPath, start: Option<ObjectPath>) -> Objects {
        let (store, path) = (Arc::clone(&self.store), path.clone());
        let listing = Listing {
            objects: begin(&store, &path, start.as_ref()),
            last: start,
            order: Order::Keys,
            tries: 0,
        };
        let network = self.network.clone();
        try_unfold(listing, move |mut listing| {
            let (store, path, network) = (Arc::clone(&store), path.clone(), network.clone());
            async move {
                loop {
                    match listing.objects.next().await {
                        None => return Ok(None),
                        Some(Ok(object)) => {
                            if listing.is_new(&object.location) {
                                return Ok(Some((object, listing)));
                            }
                        }
                        Some(Err(error)) => {
                            if listing.order == Order::Unknown
                                || listing.tries == TRIES
                                || !is_body_broken(&error)
                            {
                                return Err(error);
                            }
                            listing.tries += 1;
                            listing.order = Order::KeysAgain;
                            pause(&network, listing.tries).await;
                            listing.objects = begin(&store, &path, listing.last.as_ref());
                        }
                    }
                }
            }
        })
        .boxed()
    }

    /// Returns the rest of a listing whose first page is known, side by side where its keys tell how to cut it.
    fn ranges(&self, path: &ObjectPath, rest: Objects, bounds: Vec<String>) -> Objects {
        let bounds: Vec<ObjectPath> =
            bounds.into_iter().filter_map(|key| ObjectPath::parse(format!("{path}/{key}")).ok()).collect();
        let ends = bounds.iter().skip(1).cloned().map(Some).chain([None]);
        let later = bounds
            .iter()
            .zip(ends)
            .map(|(start, end)| between(self.objects(path, Some(start.clone())), Some(start.clone()), end));
        let first = between(rest, None, bounds.first().cloned());
        select_all([first].into_iter().chain(later)).boxed()
    }
}

/// A listing that is on its way.
struct Listing {
    objects: Objects,
    /// The object that came last, or behind which it began.
    last: Option<ObjectPath>,
    order: Order,
    /// Tries since an object came.
    tries: u32,
}

/// In which order objects come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// By their keys, so far.
    Keys,
    /// By their keys; what is not behind the last one came before the answer broke off.
    KeysAgain,
    /// In no order, as directory buckets give them: nobody knows where to go on.
    Unknown,
}

impl Listing {
    /// Notes that an object came; returns whether it is another one than those before.
    fn is_new(&mut self, location: &ObjectPath) -> bool {
        let is_behind = self.last.as_ref().is_none_or(|last| location > last);
        if !is_behind && self.order == Order::KeysAgain {
            return false;
        }
        if !is_behind {
            self.order = Order::Unknown;
        }
        self.tries = 0;
        self.last = Some(location.clone());
        true
    }
}

fn begin(store: &Arc<dyn ObjectStore>, path: &ObjectPath, behind: Option<&ObjectPath>) -> Objects {
    match behind {
        Some(behind) => store.list_with_offset(Some(path), behind),
        None => store.list(Some(path)),
    }
}

async fn pause(network: &Network, tries: u32) {
    network.traffic().retries.add(1);
    tokio::time::sleep(PAUSE * tries).await;
}

/// Returns whether the answer itself broke off: what fails before is tried again by object_store.
fn is_body_broken(error: &object_store::Error) -> bool {
    use std::error::Error as _;
    error.source().and_then(std::error::Error::source).is_some_and(|cause| cause.is::<HttpError>())
}

/// Returns the objects behind `start` up to `end`, which is not read beyond.
fn between(objects: Objects, start: Option<ObjectPath>, end: Option<ObjectPath>) -> Objects {
    let is_inside = move |object: &ObjectMeta| end.as_ref().is_none_or(|end| object.location <= *end);
    let objects = objects.try_take_while(move |object| futures_util::future::ok(is_inside(object)));
    // servers that know no offsets begin with the first key
    objects
        .try_filter(move |object| {
            futures_util::future::ready(start.as_ref().is_none_or(|start| object.location > *start))
        })
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

    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;

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
