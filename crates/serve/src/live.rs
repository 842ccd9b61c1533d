//! The catalog of the moment.

use std::sync::{Arc, PoisonError, RwLock};

use registry_api::Query;
use tokio::sync::{Notify, watch};

use crate::cache::Cache;
use crate::content::Content;
use crate::load::LeftOut;
use crate::metrics::Metrics;
use crate::pages::Shelves;

/// What is served: one catalog, for gRPC and HTTP alike.
#[derive(Clone)]
pub struct Snapshot {
    /// Its answers.
    pub catalog: Arc<dyn Query>,
    /// What pages are made from, if it is known.
    pub shelves: Option<Arc<Cache>>,
    /// Its blobs, for HTTP.
    pub blobs: Blobs,
    /// What is not in it.
    pub left_out: Vec<LeftOut>,
}

/// The blobs of a catalog.
#[derive(Clone)]
pub enum Blobs {
    /// They are on their way, or nobody wants them.
    Loading,
    /// They are there.
    Ready(Arc<Content>),
    /// They cannot be had, for this reason; there will be another try.
    Unavailable(String),
}

/// The catalog that calls are answered from, and how it came to be.
///
/// A new catalog takes the place of the old one at once, for gRPC and HTTP together. Calls that are being answered keep
/// the one they started with.
pub struct Live {
    snapshot: RwLock<Option<Snapshot>>,
    state: watch::Sender<State>,
    damaged: Notify,
    /// What is counted.
    pub metrics: Metrics,
}

/// How the server is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Whether it answers.
    pub serving: bool,
    /// What there is to know besides.
    pub detail: String,
    /// The packages that are not served because something is wrong with them.
    pub left_out: Vec<LeftOut>,
    /// Why the newest content of the directory is not what is served.
    pub refused: Option<String>,
    /// Why it is not known whether there is a newer catalog.
    pub unreachable: Option<String>,
    /// Why the catalog is not served over HTTP.
    pub without_http: Option<String>,
    /// Whether the server is about to end.
    pub draining: bool,
}

impl Default for Live {
    fn default() -> Live {
        let state = State { detail: "the catalog is being loaded".into(), ..State::default() };
        Live {
            snapshot: RwLock::default(),
            state: watch::Sender::new(state),
            damaged: Notify::new(),
            metrics: Metrics::default(),
        }
    }
}

impl Live {
    /// Returns the catalog of the moment; nothing while the first one is loaded.
    pub fn catalog(&self) -> Option<Arc<dyn Query>> {
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        snapshot.as_ref().map(|snapshot| Arc::clone(&snapshot.catalog))
    }

    /// Returns the blobs of the catalog.
    pub fn blobs(&self) -> Blobs {
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        snapshot.as_ref().map_or(Blobs::Loading, |snapshot| snapshot.blobs.clone())
    }

    /// Returns what pages of the catalog are made from.
    pub fn shelves(&self) -> Option<Shelves> {
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        let snapshot = snapshot.as_ref()?;
        Some(Shelves { cache: Arc::clone(snapshot.shelves.as_ref()?), blobs: snapshot.blobs.clone() })
    }

    /// Returns whether the blobs of the catalog are there.
    pub(crate) fn has_blobs(&self) -> bool {
        matches!(self.blobs(), Blobs::Ready(_))
    }

    /// Serves another catalog from now on.
    pub fn publish(&self, snapshot: Snapshot) {
        let counts = snapshot.catalog.counts();
        let left_out = snapshot.left_out.clone();
        let without_http = snapshot.blobs.reason();
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
        self.metrics.loaded(counts, left_out.len());
        self.state.send_modify(|state| {
            state.serving = !state.draining;
            state.refused = None;
            state.left_out = left_out;
            state.without_http = without_http;
            state.describe();
        });
    }

    /// Adds the blobs of `catalog`, or why there are none, if it is still the one of the moment.
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

    /// Says that the directory changed to something that cannot be served.
    pub fn refuse(&self, reason: String) {
        self.metrics.refused();
        self.state.send_modify(|state| {
            state.refused = Some(reason);
            state.describe();
        });
    }

    /// Says that nobody could tell whether there is a newer catalog.
    pub fn unreachable(&self, reason: String) {
        self.state.send_modify(|state| {
            state.unreachable = Some(reason);
            state.describe();
        });
    }

    /// Says that it is known again whether there is a newer catalog.
    pub fn reached(&self) {
        self.state.send_if_modified(|state| {
            let changed = state.unreachable.take().is_some();
            if changed {
                state.describe();
            }
            changed
        });
    }

    /// Says that an answer could not be read from `catalog`, the one of the moment or one before it.
    pub(crate) fn found_damage(&self, catalog: &Arc<dyn Query>) {
        if self.catalog().is_some_and(|now| Arc::ptr_eq(&now, catalog)) {
            self.damaged.notify_one();
        }
    }

    /// Waits until the catalog of the moment is known to be damaged.
    pub(crate) async fn damage(&self) {
        self.damaged.notified().await;
    }

    /// Forgets damage that was found in a catalog before the one of the moment.
    pub(crate) fn forget_damage(&self) {
        self.damaged.notify_one();
        let _ = std::pin::pin!(self.damaged.notified()).as_mut().enable();
    }

    /// Says that the directory holds what is served.
    pub(crate) fn settle(&self) {
        self.state.send_if_modified(|state| {
            let changed = state.refused.take().is_some();
            if changed {
                self.metrics.settled();
                state.describe();
            }
            changed
        });
    }

    /// Says that the server is about to end.
    pub fn drain(&self) {
        self.state.send_modify(|state| {
            state.serving = false;
            state.draining = true;
            state.detail = "the server is shutting down".into();
        });
    }

    /// Returns how the server is.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Returns how the server is, now and later.
    pub(crate) fn states(&self) -> watch::Receiver<State> {
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

impl State {
    fn describe(&mut self) {
        if self.draining {
            return;
        }
        let mut parts = Vec::new();
        if let Some(reason) = &self.refused {
            parts.push(format!("the last update was refused, the catalog before it is served: {reason}"));
        }
        if let Some(reason) = &self.unreachable {
            parts.push(format!("it is not known whether there is a newer catalog: {reason}"));
        }
        if let Some(reason) = &self.without_http {
            parts.push(format!("the catalog is not served over HTTP: {reason}"));
        }
        if !self.left_out.is_empty() {
            let names: Vec<&str> = self.left_out.iter().map(|package| package.package.as_str()).collect();
            parts.push(format!("packages left out: {}", names.join(", ")));
        }
        self.detail = parts.join("; ");
    }
}
