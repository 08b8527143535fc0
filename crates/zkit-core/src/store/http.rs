//! Our HTTP connector for object_store: the one place that sees every request, so that they can be counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector};

/// Makes clients that count their requests.
#[derive(Debug, Clone, Default)]
pub(super) struct CountingConnector {
    requests: Arc<AtomicU64>,
}

impl CountingConnector {
    /// Returns how many requests were sent, retries included.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl HttpConnector for CountingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(CountingService { client, requests: Arc::clone(&self.requests) }))
    }
}

#[derive(Debug)]
struct CountingService {
    client: HttpClient,
    requests: Arc<AtomicU64>,
}

#[async_trait::async_trait]
impl HttpService for CountingService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.client.execute(request).await
    }
}
