//! Answers of servers that ignore ranges: the whole object comes, of which the part that was asked for is kept.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderValue, RANGE};
use http::response::Parts;
use http::{Method, StatusCode};
use object_store::client::HttpRequest;

/// Bytes before a part that are received for nothing, at most.
const BEFORE_MOST: u64 = 16 << 20;

/// The part of an object that a request asks for (RFC 9110, section 14.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeAsked {
    /// From the first byte to the last one, if it is given.
    From(u64, Option<u64>),
    /// So many at the end.
    Last(u64),
}

impl RangeAsked {
    pub(super) fn of(request: &HttpRequest) -> Option<Self> {
        if request.method() != Method::GET {
            return None;
        }
        let (first, last) =
            request.headers().get(RANGE)?.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
        Some(match (first, last) {
            ("", last) => Self::Last(last.parse().ok()?),
            (first, "") => Self::From(first.parse().ok()?, None),
            (first, last) => Self::From(first.parse().ok()?, Some(last.parse().ok()?)),
        })
    }

    /// Returns the first byte and how many there are, of an object of `size` bytes; `None` where it has none of them.
    fn within(self, size: u64) -> Option<(u64, u64)> {
        let (first, end) = match self {
            Self::From(first, last) => (first, last.map_or(size, |last| last.saturating_add(1).min(size))),
            Self::Last(length) => (size.saturating_sub(length), size),
        };
        (first < end).then(|| (first, end - first))
    }
}

/// What is dropped and what is kept of a body that is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    before: u64,
    kept: u64,
}

/// A server that sends more for a part than anyone should wait for.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server ignores ranges: {before} bytes before the part would come with it, at most {BEFORE_MOST} expected"
)]
pub(super) struct TooMuchBefore {
    before: u64,
}

impl Cut {
    /// Turns the answer with a whole object into one with the part that was asked for; `None`, and no change, where the answer
    /// does not say how large the object is.
    pub(super) fn of(asked: RangeAsked, answer: &mut Parts) -> Result<Option<Self>, TooMuchBefore> {
        let Some(size) = size_of(&answer.headers) else { return Ok(None) };
        let Some((before, kept)) = asked.within(size) else {
            answer.status = StatusCode::RANGE_NOT_SATISFIABLE;
            answer.headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
            return Ok(Some(Self { before: 0, kept: 0 }));
        };
        if before > BEFORE_MOST {
            return Err(TooMuchBefore { before });
        }
        let range = format!("bytes {before}-{}/{size}", before + kept - 1);
        if let Ok(range) = HeaderValue::try_from(range) {
            answer.headers.insert(CONTENT_RANGE, range);
        }
        answer.headers.insert(CONTENT_LENGTH, HeaderValue::from(kept));
        answer.status = StatusCode::PARTIAL_CONTENT;
        Ok(Some(Self { before, kept }))
    }

    /// Returns whether all that is kept has come.
    pub(super) fn is_done(&self) -> bool {
        self.kept == 0
    }

    /// Returns what is kept of the next bytes.
    pub(super) fn take(&mut self, mut bytes: Bytes) -> Bytes {
        let dropped = bytes.len().min(usize::try_from(self.before).unwrap_or(usize::MAX));
        self.before -= dropped as u64;
        let mut part = bytes.split_off(dropped);
        part.truncate(usize::try_from(self.kept).unwrap_or(usize::MAX));
        self.kept -= part.len() as u64;
        part
    }
}

fn size_of(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of an object that comes three bytes at a time, and how the answer names it.
    fn cut(object: &'static [u8], asked: RangeAsked) -> (StatusCode, Option<String>, Vec<u8>) {
        let whole = http::Response::builder().header(CONTENT_LENGTH, object.len()).body(()).unwrap();
        let (mut parts, ()) = whole.into_parts();
        let mut cut = Cut::of(asked, &mut parts).unwrap().unwrap();
        let mut kept = Vec::new();
        for bytes in object.chunks(3) {
            if !cut.is_done() {
                kept.extend_from_slice(&cut.take(Bytes::from_static(bytes)));
            }
        }
        let range = parts.headers.get(CONTENT_RANGE).map(|range| range.to_str().unwrap().to_owned());
        (parts.status, range, kept)
    }

    #[test]
    fn of_a_whole_object_the_part_is_kept_that_was_asked_for() {
        let object = b"0123456789";
        let part = |range: &str, kept: &[u8]| {
            (StatusCode::PARTIAL_CONTENT, Some(format!("bytes {range}/10")), kept.to_vec())
        };
        assert_eq!(cut(object, RangeAsked::From(2, Some(6))), part("2-6", b"23456"));
        assert_eq!(cut(object, RangeAsked::From(7, None)), part("7-9", b"789"));
        assert_eq!(cut(object, RangeAsked::From(8, Some(u64::MAX))), part("8-9", b"89"));
        assert_eq!(cut(object, RangeAsked::Last(4)), part("6-9", b"6789"));
        assert_eq!(cut(object, RangeAsked::Last(40)), part("0-9", object));
        let nothing = (StatusCode::RANGE_NOT_SATISFIABLE, None, Vec::new());
        assert_eq!(cut(object, RangeAsked::From(10, Some(12))), nothing);
    }

    #[test]
    fn what_would_cost_far_more_than_it_brings_is_refused_before_it_comes() {
        let whole = http::Response::builder().header(CONTENT_LENGTH, 1u64 << 40).body(()).unwrap();
        let (mut parts, ()) = whole.into_parts();
        assert!(Cut::of(RangeAsked::Last(22), &mut parts).is_err());
        assert!(Cut::of(RangeAsked::From(0, Some(31)), &mut parts).unwrap().is_some());
    }

    #[test]
    fn ranges_are_read_as_they_are_written() {
        let asked = |range: &str| {
            let request = http::Request::builder().header(RANGE, range).body(Bytes::new().into()).unwrap();
            RangeAsked::of(&request)
        };
        assert_eq!(asked("bytes=3-9"), Some(RangeAsked::From(3, Some(9))));
        assert_eq!(asked("bytes=3-"), Some(RangeAsked::From(3, None)));
        assert_eq!(asked("bytes=-9"), Some(RangeAsked::Last(9)));
        assert_eq!(asked("lines=3-9"), None);
    }
}
