//! Our HTTP connector for object_store: the one place that sees every request, so that they can be counted, spaced and
//! timed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HeaderMap, RETRY_AFTER};
use http::{Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use tokio::time::Sleep;

use super::cut::{Cut, RangeAsked};
use super::guard;
use super::integrity::StoreChecksum;
use super::network::Network;
use super::pages::{self, OfListing};
use super::window::Window;
use crate::location::Scheme;
use crate::store::hosts::Hosts;

/// The longest wait for a connection.
const CONNECT_MOST: Duration = Duration::from_secs(10);
/// How the URL of a destination's lock ends.
const LOCK_PATH: &str = ".partial.journal/lock";
/// The slowest connection on which a body that is sent is waited for, in bytes a second.
const SLOWEST_UPLOAD: u64 = 16 << 10;

/// Makes clients of one server.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) network: Network,
    pub(super) window: Arc<Window>,
    pub(super) patience: Patience,
    pub(super) scheme: Scheme,
    pub(super) hosts: Hosts,
}

/// How long is waited.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For the beginning of an answer, and between two parts of a body.
    pub(super) stall: Duration,
    /// For a server that asks to be left alone.
    pub(super) hold: Duration,
}

impl Patience {
    /// Returns what follows from the longest wait for one answer.
    pub(super) fn of(timeout: Duration) -> Self {
        Self { stall: timeout, hold: timeout * 3 }
    }

    /// Returns the longest wait for a connection.
    pub(super) fn connect(self) -> Duration {
        self.stall.min(CONNECT_MOST)
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = self.network.client(options, &self.hosts, self.patience.connect())?;
        Ok(HttpClient::new(Service { client, connector: self.clone() }))
    }
}

/// What a server failed to do in time.
#[derive(Debug, thiserror::Error)]
enum Impatience {
    #[error("no answer began within {0:?}")]
    NoAnswer(Duration),
    #[error("the body stalled: nothing arrived for {0:?}")]
    Stalled(Duration),
    #[error("the server asks to wait {asked:?}; at most {limit:?} expected")]
    AsksTooMuch { asked: Duration, limit: Duration },
}

/// What a server's answer means, where object_store would not find it.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the bucket is in the region {0}")]
    OtherRegion(String),
    #[error("the server does not say whether an object is there: it answers HEAD with {0}")]
    NoHead(StatusCode),
    #[error("the server does not say whether an object is there: it answers GET with {0}")]
    NoGet(StatusCode),
}

/// What is kept of a request until it is answered.
struct Asked {
    at: Instant,
    method: Method,
    range: Option<RangeAsked>,
    of_listing: bool,
}

#[derive(Debug)]
struct Service {
    client: HttpClient,
    connector: Connector,
}

#[async_trait::async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let Connector { network, window, patience, hosts, .. } = &self.connector;
        guard::check(hosts, request.uri())?;
        // a lock is kept however slowly others are asked to go, and says nothing of whether they move
        let keeps_lock = request.uri().path().ends_with(LOCK_PATH);
        // nor does a page of a listing: whoever reads it says whether it brought something
        let of_listing = request.extensions().get::<OfListing>().is_some();
        if !keeps_lock {
            window.wait_for_server().await;
            network.take_turn().await;
        }
        network.traffic().requests.add(1);
        let asked = Asked {
            at: Instant::now(),
            method: request.method().clone(),
            range: RangeAsked::of(&request),
            of_listing,
        };
        let sent = Duration::from_secs(request.body().content_length() as u64 / SLOWEST_UPLOAD);
        let answer = tokio::time::timeout(patience.stall + sent, self.client.execute(request)).await;
        let answer = answer.unwrap_or_else(|_| {
            Err(HttpError::new(HttpErrorKind::Timeout, Impatience::NoAnswer(patience.stall + sent)))
        });
        if !keeps_lock && !of_listing {
            network.pulse().beat();
        }
        match answer {
            Ok(answer) => {
                let answer = explained(self.take_in(answer, &asked)?).await;
                if of_listing && answer.status().is_success() {
                    whole_listing(answer).await
                } else {
                    Ok(answer)
                }
            }
            Err(error) => {
                network.traffic().retries.add(1);
                Err(guard::explained(error))
            }
        }
    }
}

impl Service {
    /// Looks at how a request was answered, and at what the server asks for.
    fn take_in(&self, answer: HttpResponse, asked: &Asked) -> Result<HttpResponse, HttpError> {
        let Connector { network, window, patience, scheme, .. } = &self.connector;
        let status = answer.status();
        // what object_store tries again: see its `RetryConfig`
        if status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
            network.traffic().retries.add(1);
        }
        if matches!(status.as_u16(), 429 | 503) {
            network.traffic().throttled.add(1);
            window.refused(asked.at);
            if let Some(wait) = retry_after(answer.headers()) {
                if wait > patience.hold {
                    let too_much = Impatience::AsksTooMuch { asked: wait, limit: patience.hold };
                    return Err(HttpError::new(HttpErrorKind::Unknown, too_much));
                }
                window.hold(wait);
            }
        }
        if let Some(refusal) = refusal(&answer, asked) {
            return Err(HttpError::new(HttpErrorKind::Unknown, refusal));
        }
        let (mut parts, body) = answer.into_parts();
        let cut = match asked.range {
            Some(range) if status == StatusCode::OK => Cut::of(range, &mut parts)
                .map_err(|too_much| HttpError::new(HttpErrorKind::Unknown, too_much))?,
            _ => None,
        };
        if cut.is_some() {
            network.traffic().ranges_ignored.add(1);
        }
        if parts.status == StatusCode::OK
            && let Some(promised) = StoreChecksum::promised(&parts.headers, *scheme)
        {
            // object_store hands the extensions of an answer on to its caller
            parts.extensions.insert(promised);
        }
        let body = WatchedBody {
            body,
            cut,
            network: network.clone(),
            beats: !asked.of_listing,
            stall: patience.stall,
            impatience: Box::pin(tokio::time::sleep(patience.stall)),
        };
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// Returns an answer with all that it says where it is a refusal: its status holds even if the explanation breaks off, for which
/// object_store would give up.
async fn explained(answer: HttpResponse) -> HttpResponse {
    if !answer.status().is_client_error() {
        return answer;
    }
    let (parts, body) = answer.into_parts();
    let explanation = body.bytes().await.unwrap_or_default();
    HttpResponse::from_parts(parts, explanation.into())
}

/// Returns the answer with a page of a listing once all of it is there and is one; what breaks off is asked for again.
async fn whole_listing(answer: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (parts, body) = answer.into_parts();
    let body = body.bytes().await.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?;
    pages::check(&body).map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
    Ok(HttpResponse::from_parts(parts, body.into()))
}

/// Returns what an answer means that object_store takes for something else, or cannot explain.
fn refusal(answer: &HttpResponse, asked: &Asked) -> Option<Refusal> {
    let status = answer.status();
    // S3 says so in a header alone where the answer has no body, or object_store does not read it
    if status == StatusCode::MOVED_PERMANENTLY
        && let Some(region) = answer.headers().get("x-amz-bucket-region")
    {
        return Some(Refusal::OtherRegion(region.to_str().ok()?.to_owned()));
    }
    // object_store takes 405 for an object that is not there, and any success for one that is
    let is_refused = matches!(status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED);
    let is_object = matches!(status.as_u16(), 200 | 203 | 206);
    let is_nothing = is_refused || (status.is_success() && !is_object);
    match asked.method {
        Method::HEAD if is_nothing => Some(Refusal::NoHead(status)),
        Method::GET if is_nothing => Some(Refusal::NoGet(status)),
        _ => None,
    }
}

/// Returns how long a server asks to wait (RFC 9110, section 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(std::time::SystemTime::now()).unwrap_or_default())
}

/// A body of which every part is counted, and awaited for a while only.
#[derive(Debug)]
struct WatchedBody {
    body: HttpResponseBody,
    /// Where more comes than was asked for.
    cut: Option<Cut>,
    network: Network,
    /// Whether what arrives says that the run moves.
    beats: bool,
    stall: Duration,
    impatience: Pin<Box<Sleep>>,
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if self.is_end_stream() {
            return Poll::Ready(None);
        }
        let mut found = Pin::new(&mut self.body).poll_frame(context);
        match &found {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.network.traffic().bytes_received.add(bytes as u64);
                if self.beats {
                    self.network.pulse().beat();
                }
                let until = tokio::time::Instant::now() + self.stall;
                self.impatience.as_mut().reset(until);
            }
            Poll::Ready(Some(Err(_))) => self.network.traffic().retries.add(1),
            Poll::Ready(None) => {}
            Poll::Pending if self.impatience.as_mut().poll(context).is_ready() => {
                self.network.traffic().retries.add(1);
                let stalled = Impatience::Stalled(self.stall);
                return Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Timeout, stalled))));
            }
            Poll::Pending => {}
        }
        if let (Some(cut), Poll::Ready(Some(Ok(frame)))) = (&mut self.cut, &mut found)
            && let Some(bytes) = frame.data_mut()
        {
            *bytes = cut.take(std::mem::take(bytes));
        }
        found
    }

    fn is_end_stream(&self) -> bool {
        self.cut.is_some_and(|cut| cut.is_done()) || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.cut.map_or_else(|| self.body.size_hint(), |_| SizeHint::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().unwrap());
        retry_after(&headers)
    }

    #[test]
    fn servers_ask_to_wait_for_seconds_or_until_a_date() {
        assert_eq!(asks("120"), Some(Duration::from_secs(120)));
        assert_eq!(asks("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        let later = std::time::SystemTime::now() + Duration::from_secs(90);
        let wait = asks(&httpdate::fmt_http_date(later)).unwrap();
        assert!(wait > Duration::from_secs(60) && wait <= Duration::from_secs(91), "{wait:?}");
        assert_eq!(asks("soon"), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
