//! Our HTTP connector for object_store: the one place that sees every request, so that they can be counted and
//! spaced.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

use crate::event::Pulse;

/// How the URL of a destination's lock ends.
const LOCK_PATH: &str = ".partial.journal/lock";

/// Makes clients that count their requests, and send at most so many in a second.
#[derive(Debug, Clone)]
pub(super) struct CountingConnector(Arc<Gate>);

#[derive(Debug)]
struct Gate {
    requests: AtomicU64,
    /// Requests that failed in a way that is worth another try.
    failures: AtomicU64,
    /// Time between two requests, if they are spaced.
    spacing: Option<Duration>,
    opened: Instant,
    /// Nanoseconds after `opened` at which the next request may start.
    next: AtomicU64,
    /// Beats with every answer.
    pulse: Pulse,
}

impl CountingConnector {
    pub(super) fn new(max_requests_per_second: Option<NonZeroU32>, pulse: Pulse) -> Self {
        let spacing = max_requests_per_second.map(|rate| Duration::from_secs(1) / rate.get());
        Self(Arc::new(Gate {
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            spacing,
            opened: Instant::now(),
            next: AtomicU64::new(0),
            pulse,
        }))
    }

    /// Returns how many requests were sent, retries included.
    pub(super) fn requests(&self) -> u64 {
        self.0.requests.load(Ordering::Relaxed)
    }
}

impl CountingConnector {
    /// Returns what beats with every answer.
    pub(super) fn pulse(&self) -> &Pulse {
        &self.0.pulse
    }

    /// Returns how many requests failed in a way that is worth another try.
    pub(super) fn failures(&self) -> u64 {
        self.0.failures.load(Ordering::Relaxed)
    }
}

impl Gate {
    /// Waits for this request's turn.
    async fn pass(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let Some(spacing) = self.spacing else { return };
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let now = nanoseconds(self.opened.elapsed());
        let spacing = nanoseconds(spacing);
        let turn = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| Some(next.max(now) + spacing));
        let turn = turn.unwrap_or(now).max(now);
        tokio::time::sleep(Duration::from_nanos(turn - now)).await;
    }
}

impl HttpConnector for CountingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(CountingService { client, gate: Arc::clone(&self.0) }))
    }
}

#[derive(Debug)]
struct CountingService {
    client: HttpClient,
    gate: Arc<Gate>,
}

#[async_trait::async_trait]
impl HttpService for CountingService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // a lock is kept however slowly others are asked to go, and says nothing of whether they move
        let keeps_lock = request.uri().path().ends_with(LOCK_PATH);
        if keeps_lock {
            self.gate.requests.fetch_add(1, Ordering::Relaxed);
        } else {
            self.gate.pass().await;
        }
        let answer = self.client.execute(request).await;
        // what object_store tries again: see its `RetryConfig`
        let failed = answer.as_ref().map_or(true, |answer| {
            let status = answer.status();
            status.is_server_error() || matches!(status.as_u16(), 408 | 429)
        });
        self.gate.failures.fetch_add(u64::from(failed), Ordering::Relaxed);
        if !keeps_lock {
            self.gate.pulse.beat();
        }
        answer
    }
}
