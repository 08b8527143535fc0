//! The network of a run: what all remote stores share, so that they do not compete with each other.

use std::collections::HashMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::ClientOptions;
use object_store::client::HttpClient;
use tokio::runtime::Runtime;

use super::guard;
use super::window::Window;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Pulse, Traffic};
use crate::store::hosts::Hosts;

/// Threads that drive connections: they decrypt, and neither decode nor encode.
const THREADS: (usize, usize) = (2, 4);

/// Connections, limits and counters of a run; clones share them.
#[derive(Debug, Clone)]
pub struct Network(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: NetworkLimits,
    pulse: Pulse,
    traffic: Arc<Traffic>,
    runtime: Mutex<Option<Arc<Runtime>>>,
    /// Clients by their options: each keeps its own connections.
    clients: Mutex<HashMap<String, HttpClient>>,
    /// Windows by the servers that they belong to.
    windows: Mutex<HashMap<String, Arc<Window>>>,
    /// When the next request may start, where they are spaced.
    next: Mutex<Instant>,
    /// Bytes that were fetched before they are read.
    glanced_bytes: AtomicU64,
}

/// How much a run may ask of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Most reads in flight, of one bucket or web server.
    pub connections: NonZeroUsize,
    /// Most requests in a second, of all servers together.
    pub max_requests_per_second: Option<NonZeroU32>,
}

impl NetworkLimits {
    /// Reads in flight unless it is said otherwise: chunks of 1 MB at 100 ms make 2.6 GB/s, and the smallest ones 2,560
    /// requests a second, which is half of what a bucket gives.
    pub const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");
}

impl Network {
    /// Prepares the network of a run; nothing is started before the first remote store is opened.
    ///
    /// `pulse` beats with every answer, and with every part of a body; `traffic` counts.
    pub fn new(limits: NetworkLimits, pulse: Pulse, traffic: Arc<Traffic>) -> Self {
        Self(Arc::new(Shared {
            limits,
            pulse,
            traffic,
            runtime: Mutex::default(),
            clients: Mutex::default(),
            windows: Mutex::default(),
            next: Mutex::new(Instant::now()),
            glanced_bytes: AtomicU64::new(0),
        }))
    }

    /// Returns what went over it so far.
    pub(super) fn traffic(&self) -> &Traffic {
        &self.0.traffic
    }

    /// Returns how many bytes are held that were fetched before they are read, of all stores.
    pub(super) fn glanced_bytes(&self) -> &AtomicU64 {
        &self.0.glanced_bytes
    }

    /// Returns what beats whenever something arrives.
    pub(super) fn pulse(&self) -> &Pulse {
        &self.0.pulse
    }

    /// Returns most reads in flight of one server.
    pub(in crate::store) fn connections(&self) -> usize {
        self.0.limits.connections.get()
    }

    /// Returns the threads that drive connections.
    pub(super) fn runtime(&self) -> Result<Arc<Runtime>> {
        let mut started = self.0.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*started {
            return Ok(Arc::clone(runtime));
        }
        let cpus = std::thread::available_parallelism().map_or(THREADS.0, NonZeroUsize::get);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(cpus.clamp(THREADS.0, THREADS.1))
            .thread_name("zkit-remote")
            .enable_all()
            .build()
            .map_err(|error| {
                Error::new(ErrorKind::Unreadable, "could not start the network threads").with_source(error)
            })?;
        Ok(Arc::clone(started.insert(Arc::new(runtime))))
    }

    /// Returns the window of a server, by the beginning of its URLs.
    pub(super) fn window(&self, server: &str) -> Arc<Window> {
        let mut windows = self.0.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows
            .entry(server.to_owned())
            .or_insert_with(|| Arc::new(Window::new(self.0.limits.connections)));
        Arc::clone(window)
    }

    /// Returns a client with these options that speaks with these hosts: the same one, and so the same connections, each time.
    pub(super) fn client(
        &self,
        options: &ClientOptions,
        hosts: &Hosts,
        connect_timeout: Duration,
    ) -> object_store::Result<HttpClient> {
        let mut clients = self.0.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let key = format!("{options:?} {hosts:?}");
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let client = guard::client(options, hosts, connect_timeout)?;
        clients.insert(key, client.clone());
        Ok(client)
    }

    /// Waits until another request may be sent, where they are spaced.
    pub(super) async fn take_turn(&self) {
        let Some(rate) = self.0.limits.max_requests_per_second else { return };
        let turn = {
            let mut next = self.0.next.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = (*next).max(Instant::now());
            *next = turn + Duration::from_secs(1) / rate.get();
            turn
        };
        tokio::time::sleep(turn.saturating_duration_since(Instant::now())).await;
    }
}

impl Default for Network {
    fn default() -> Self {
        let limits = NetworkLimits { connections: NetworkLimits::CONNECTIONS, max_requests_per_second: None };
        Self::new(limits, Pulse::default(), Arc::default())
    }
}
