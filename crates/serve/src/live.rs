//! The catalog of the moment.

use std::sync::{Arc, PoisonError, RwLock};

use catalog::Query;
use tokio::sync::{Notify, watch};

use crate::content::Content;
use crate::load::LeftOut;
use crate::metrics::Metrics;

/// The catalog that calls are answered from, and how it came to be.
///
/// A new catalog takes the place of the old one at once. Calls that are being answered keep the
/// one they started with.
pub struct Live {
    catalog: RwLock<Option<Arc<dyn Query>>>,
    content: RwLock<Option<Arc<Content>>>,
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
    /// Whether the server is about to end.
    pub draining: bool,
}

impl Default for Live {
    fn default() -> Live {
        let state = State { detail: "the catalog is being loaded".into(), ..State::default() };
        Live {
            catalog: RwLock::default(),
            content: RwLock::default(),
            state: watch::Sender::new(state),
            damaged: Notify::new(),
            metrics: Metrics::default(),
        }
    }
}

impl Live {
    /// Returns the catalog of the moment; nothing while the first one is loaded.
    pub fn catalog(&self) -> Option<Arc<dyn Query>> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the blobs of the catalog, where they are asked for and loaded.
    pub fn content(&self) -> Option<Arc<Content>> {
        self.content.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves these blobs from now on.
    pub fn publish_content(&self, content: Content) {
        *self.content.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(content));
    }

    /// Serves `catalog` from now on.
    pub fn publish(&self, catalog: Arc<dyn Query>, left_out: Vec<LeftOut>) {
        let counts = catalog.counts();
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = Some(catalog);
        self.metrics.loaded(counts, left_out.len());
        self.state.send_modify(|state| {
            state.serving = !state.draining;
            state.refused = None;
            state.left_out = left_out;
            state.describe();
        });
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

impl State {
    fn describe(&mut self) {
        let mut parts = Vec::new();
        if let Some(reason) = &self.refused {
            parts.push(format!("the last update was refused, the catalog before it is served: {reason}"));
        }
        if let Some(reason) = &self.unreachable {
            parts.push(format!("it is not known whether there is a newer catalog: {reason}"));
        }
        if !self.left_out.is_empty() {
            let names: Vec<&str> = self.left_out.iter().map(|package| package.package.as_str()).collect();
            parts.push(format!("packages left out: {}", names.join(", ")));
        }
        self.detail = parts.join("; ");
    }
}
