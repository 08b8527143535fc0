//! Clients of the servers that object_store speaks with, from the URL, the options and the environment.

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::{ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};

use super::http::Connector;
use super::pages::PagesServer;
use super::parts::{PartsServer, UnfinishedParts};
use crate::location::Scheme;
use crate::store::any::StoreOptions;

/// Tries of one request beside the first, at pauses that double up to 15 seconds, each of a random length.
const MAX_RETRIES: usize = 8;

/// A client, as all of what it is.
pub(super) struct Server {
    pub(super) store: Arc<dyn ObjectStore>,
    /// For objects in parts; web servers take none.
    pub(super) parts: Option<PartsServer>,
    /// For listings; web servers have none.
    pub(super) pages: Option<PagesServer>,
}

/// Returns a client of the server that a URL names.
pub(super) fn build(
    scheme: Scheme,
    url: &url::Url,
    options: &StoreOptions,
    connector: &Connector,
) -> object_store::Result<Server> {
    // a throttled server asks for patience, a wrong address for none: some twenty seconds
    let retry = RetryConfig {
        max_retries: MAX_RETRIES,
        retry_timeout: connector.patience.hold,
        ..RetryConfig::default()
    };
    // no limit for a whole request, which would be one for the size of objects: the connector watches the time to the first
    // byte and from one part of a body to the next
    let mut client =
        ClientOptions::new().with_timeout_disabled().with_connect_timeout(connector.patience.connect());
    for (key, value) in settings(options) {
        // `AWS_ALLOW_HTTP` and its like mean the client's `allow_http`
        let plain =
            ["aws_", "google_", "azure_"].iter().find_map(|prefix| key.strip_prefix(prefix)).unwrap_or(&key);
        if let Ok(key) = plain.parse::<ClientConfigKey>() {
            client = client.with_config(key, value);
        }
        // who names an endpoint without encryption means it
        if key.contains("endpoint") && value.starts_with("http://") {
            client = client.with_allow_http(true);
        }
    }
    let base = &url[..url::Position::BeforePath];
    Ok(match scheme {
        Scheme::S3 => {
            let builder = AmazonS3Builder::new().with_url(base).with_client_options(client).with_retry(retry);
            let builder =
                builder.with_http_connector(connector.clone()).with_skip_signature(options.anonymous);
            let known = settings(options)
                .filter_map(|(key, value)| Some((key.parse::<AmazonS3ConfigKey>().ok()?, value)));
            let known = known.filter(|(key, _)| !matches!(key, AmazonS3ConfigKey::Client(_)));
            let builder = known.fold(builder, |builder, (key, value)| builder.with_config(key, value));
            // directory buckets list in no order, and from the beginning alone
            let is_express = builder.get_config_value(&AmazonS3ConfigKey::S3Express);
            server(builder.build()?, !is_on(is_express))
        }
        Scheme::Gcs => {
            let builder =
                GoogleCloudStorageBuilder::new().with_url(base).with_client_options(client).with_retry(retry);
            let builder =
                builder.with_http_connector(connector.clone()).with_skip_signature(options.anonymous);
            let known = settings(options)
                .filter_map(|(key, value)| Some((key.parse::<GoogleConfigKey>().ok()?, value)));
            let known = known.filter(|(key, _)| !matches!(key, GoogleConfigKey::Client(_)));
            server(
                known.fold(builder, |builder, (key, value)| builder.with_config(key, value)).build()?,
                true,
            )
        }
        Scheme::Azure => {
            let builder =
                MicrosoftAzureBuilder::new().with_url(base).with_client_options(client).with_retry(retry);
            let builder =
                builder.with_http_connector(connector.clone()).with_skip_signature(options.anonymous);
            let known = settings(options)
                .filter_map(|(key, value)| Some((key.parse::<AzureConfigKey>().ok()?, value)));
            let known = known.filter(|(key, _)| !matches!(key, AzureConfigKey::Client(_)));
            let builder = known.fold(builder, |builder, (key, value)| builder.with_config(key, value));
            // the emulator lists from the beginning alone: <https://github.com/Azure/Azurite/issues/2619>
            let is_emulator = builder.get_config_value(&AzureConfigKey::UseEmulator);
            let server = server(builder.build()?, !is_on(is_emulator));
            let unfinished = UnfinishedParts::Kept(Arc::clone(&server.store));
            Server { parts: server.parts.map(|parts| PartsServer { unfinished, ..parts }), ..server }
        }
        Scheme::Http => {
            let whole = url.as_str().trim_end_matches('/');
            let client = if url.scheme() == "http" { client.with_allow_http(true) } else { client };
            let builder = HttpBuilder::new().with_url(whole).with_client_options(client).with_retry(retry);
            let store = Arc::new(builder.with_http_connector(connector.clone()).build()?);
            Server { store, parts: None, pages: None }
        }
    })
}

/// Returns a client as all of what it is.
fn server<Client: ObjectStore + MultipartStore + PaginatedListStore>(
    client: Client,
    knows_offsets: bool,
) -> Server {
    let client = Arc::new(client);
    let parts = PartsServer { server: Arc::<Client>::clone(&client), unfinished: UnfinishedParts::Dropped };
    let pages = PagesServer { server: Arc::<Client>::clone(&client), knows_offsets };
    Server { store: client, parts: Some(parts), pages: Some(pages) }
}

/// Returns whether a setting is on.
fn is_on(setting: Option<String>) -> bool {
    setting.is_some_and(|setting| {
        matches!(setting.to_ascii_lowercase().as_str(), "true" | "1" | "on" | "yes" | "y" | "t")
    })
}

/// Returns the environment's settings, then the caller's, with keys in lower case as object_store parses them.
pub(super) fn settings(options: &StoreOptions) -> impl Iterator<Item = (String, &str)> {
    options
        .environment
        .iter()
        .chain(&options.options)
        .map(|(key, value)| (key.to_ascii_lowercase(), value.as_str()))
}
