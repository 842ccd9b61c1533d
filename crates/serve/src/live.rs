//! The catalog that is currently served.

use std::sync::{Arc, PoisonError, RwLock};

use catalog::query::Query;
use tokio::sync::{Notify, watch};

use crate::cache::Cache;
use crate::content::CatalogContent;
use crate::load::Quarantined;
use crate::metrics::ServerMetrics;
use crate::pages::PackageSummaries;

/// The served catalog, for gRPC and HTTP alike.
#[derive(Clone)]
pub struct Snapshot {
    /// Answers queries.
    pub catalog: Arc<dyn Query>,
    /// The cache that pages are rendered from, if there is one.
    pub summaries: Option<Arc<Cache>>,
    /// Its blobs, for HTTP.
    pub blobs: Blobs,
    /// The packages that are quarantined.
    pub quarantined: Vec<Quarantined>,
}

/// The blobs of a catalog.
#[derive(Clone)]
pub enum Blobs {
    /// They are loading, or nothing needs them.
    Loading,
    /// They are available.
    Ready(Arc<CatalogContent>),
    /// They cannot be loaded, for this reason; loading will be retried.
    Unavailable(String),
}

/// The catalog that calls are answered from, and the state of the server.
///
/// A new catalog replaces the old one atomically, for gRPC and HTTP together. Calls in flight keep the catalog they
/// started with.
pub struct LiveCatalog {
    snapshot: RwLock<Option<Snapshot>>,
    state: watch::Sender<ServerState>,
    damaged: Notify,
    pub metrics: ServerMetrics,
}

/// The state of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerState {
    /// Whether it answers calls.
    pub serving: bool,
    /// Details for operators.
    pub detail: String,
    /// The packages that are not served because they are invalid.
    pub quarantined: Vec<Quarantined>,
    /// Why the current content of the directory is not served.
    pub refused: Option<String>,
    /// Why opm cannot check for a newer catalog.
    pub unreachable: Option<String>,
    /// Why the catalog is not served over HTTP.
    pub without_http: Option<String>,
    /// Whether the server is shutting down.
    pub draining: bool,
}

impl Default for LiveCatalog {
    fn default() -> LiveCatalog {
        let state = ServerState { detail: "the catalog is being loaded".into(), ..ServerState::default() };
        LiveCatalog {
            snapshot: RwLock::default(),
            state: watch::Sender::new(state),
            damaged: Notify::new(),
            metrics: ServerMetrics::default(),
        }
    }
}

impl LiveCatalog {
    /// Returns the current catalog; `None` while the first one loads.
    pub fn catalog(&self) -> Option<Arc<dyn Query>> {
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        snapshot.as_ref().map(|snapshot| Arc::clone(&snapshot.catalog))
    }

    /// Returns the blobs of the catalog.
    pub fn blobs(&self) -> Blobs {
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        snapshot.as_ref().map_or(Blobs::Loading, |snapshot| snapshot.blobs.clone())
    }

    /// Returns the data that pages of the catalog are rendered from.
    pub fn summaries(&self) -> Option<PackageSummaries> {
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        let snapshot = snapshot.as_ref()?;
        Some(PackageSummaries { cache: Arc::clone(snapshot.summaries.as_ref()?), blobs: snapshot.blobs.clone() })
    }

    /// Returns whether the blobs of the catalog are available.
    pub(crate) fn has_blobs(&self) -> bool {
        matches!(self.blobs(), Blobs::Ready(_))
    }

    /// Replaces the served catalog.
    pub fn publish(&self, snapshot: Snapshot) {
        let counts = snapshot.catalog.counts();
        let quarantined = snapshot.quarantined.clone();
        let without_http = snapshot.blobs.reason();
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
        self.metrics.loaded(counts, quarantined.len());
        self.state.send_modify(|state| {
            state.serving = !state.draining;
            state.refused = None;
            state.quarantined = quarantined;
            state.without_http = without_http;
            state.describe();
        });
    }

    /// Adds the blobs of `catalog`, or the reason why there are none, if it is still the current catalog.
    pub(crate) fn complete(&self, catalog: &Arc<dyn Query>, blobs: Blobs) {
        let without_http = blobs.reason();
        let mut snapshot = self.snapshot.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(snapshot) = snapshot.as_mut().filter(|snapshot| Arc::ptr_eq(&snapshot.catalog, catalog)) {
            snapshot.blobs = blobs;
            self.state.send_modify(|state| {
                state.without_http = without_http;
                state.describe();
            });
        }
    }

    /// Records that the current content of the directory cannot be served.
    pub fn refuse(&self, reason: String) {
        self.metrics.refused();
        self.state.send_modify(|state| {
            state.refused = Some(reason);
            state.describe();
        });
    }

    /// Records that opm could not check for a newer catalog.
    pub fn unreachable(&self, reason: String) {
        self.state.send_modify(|state| {
            state.unreachable = Some(reason);
            state.describe();
        });
    }

    /// Records that opm can check for a newer catalog again.
    pub fn reached(&self) {
        self.state.send_if_modified(|state| {
            let changed = state.unreachable.take().is_some();
            if changed {
                state.describe();
            }
            changed
        });
    }

    /// Records that an answer could not be read from `catalog`. Has no effect if `catalog` was replaced meanwhile.
    pub(crate) fn found_damage(&self, catalog: &Arc<dyn Query>) {
        if self.catalog().is_some_and(|now| Arc::ptr_eq(&now, catalog)) {
            self.damaged.notify_one();
        }
    }

    /// Waits until the current catalog is found to be corrupt.
    pub(crate) async fn damage(&self) {
        self.damaged.notified().await;
    }

    /// Drops reports of corruption in a previous catalog.
    pub(crate) fn forget_damage(&self) {
        self.damaged.notify_one();
        let _ = std::pin::pin!(self.damaged.notified()).as_mut().enable();
    }

    /// Records that the directory holds the served catalog.
    pub(crate) fn mark_current(&self) {
        self.state.send_if_modified(|state| {
            let changed = state.refused.take().is_some();
            if changed {
                self.metrics.clear_stale();
                state.describe();
            }
            changed
        });
    }

    /// Records that the server is shutting down.
    pub fn drain(&self) {
        self.state.send_modify(|state| {
            state.serving = false;
            state.draining = true;
            state.detail = "the server is shutting down".into();
        });
    }

    /// Returns the state of the server.
    pub fn state(&self) -> ServerState {
        self.state.borrow().clone()
    }

    /// Subscribes to the state of the server.
    pub(crate) fn states(&self) -> watch::Receiver<ServerState> {
        self.state.subscribe()
    }
}

impl Blobs {
    fn reason(&self) -> Option<String> {
        match self {
            Blobs::Unavailable(reason) => Some(reason.clone()),
            Blobs::Loading | Blobs::Ready(_) => None,
        }
    }
}

impl ServerState {
    fn describe(&mut self) {
        if self.draining {
            return;
        }
        let mut parts = Vec::new();
        if let Some(reason) = &self.refused {
            parts.push(format!("the last update was refused, the previous catalog is still served: {reason}"));
        }
        if let Some(reason) = &self.unreachable {
            parts.push(format!("cannot check for a newer catalog: {reason}"));
        }
        if let Some(reason) = &self.without_http {
            parts.push(format!("the catalog is not served over HTTP: {reason}"));
        }
        if !self.quarantined.is_empty() {
            let names: Vec<&str> = self.quarantined.iter().map(|package| package.package.as_str()).collect();
            parts.push(format!("quarantined packages: {}", names.join(", ")));
        }
        self.detail = parts.join("; ");
    }
}
